/* result: how a conversation of the worker with a daemon can end, besides -1 with an error. */
#ifndef PACELINE_WORK_RESULT_H
#define PACELINE_WORK_RESULT_H

enum work_result {
	WORK_OK = 0,
	WORK_WAIT,    /* nothing to hand out now; others still work */
	WORK_END,     /* nothing left at all */
	WORK_FENCED,  /* our generation or incarnation is not in force: start over with hello */
	WORK_RESET,   /* a server went away: start over, too */
	WORK_STOP,    /* *stop was set while we waited */
	WORK_MAP,     /* the parts have another map: do the same again with that map */
	WORK_DIVERGED /* a push was refused for its values; the error says which */
};

#endif

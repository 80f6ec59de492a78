/*
 * deadline: how long the supervisor waits for anything, in one place; --help prints this table.
 */
#ifndef PACELINE_RUN_DEADLINE_H
#define PACELINE_RUN_DEADLINE_H

#include <stddef.h>

enum deadline {
	DEADLINE_READY,    /* a node that runs does not answer yet (it may replay or restore) */
	DEADLINE_ANSWER,   /* a daemon owes an answer */
	DEADLINE_CUT,      /* a checkpoint */
	DEADLINE_ACT,      /* actions wait for the close of a unit */
	DEADLINE_STOP,     /* from SIGTERM to SIGKILL */
	DEADLINE_FINISH,   /* workers leave after the final checkpoint */
	DEADLINE_SOLUTION, /* an executable solution */
	DEADLINE_HANDOVER, /* a server's state goes to its next process */
	DEADLINE_SCORE,    /* scoring TEST */
	DEADLINE_STRAY,    /* rows in the hand of a client that may be gone */
	DEADLINE_ADOPT,    /* a node parent has just been started and has not said by whom */
	DEADLINES
};

double deadline_seconds(enum deadline which);
/* "  ready        600 s  ..." lines into out. */
void deadline_text(char *out, size_t out_max);

#endif

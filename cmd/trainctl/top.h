/* top: what `trainctl status` (status.c) and its screen (top.c) share: a job that is asked how it
 * is, once or again and again. */
#ifndef PACELINE_CMD_TRAINCTL_TOP_H
#define PACELINE_CMD_TRAINCTL_TOP_H

#include "base/error.h"
#include "base/option.h"
#include "screen/view.h"

struct top {
	const char *socket, *job, *run_dir; /* of the last two the one that was given */
	double every;                       /* seconds between two tables; 0: it is shown once */
	int records;                        /* instead of a table */
	struct call *call;
	struct view view, filling; /* shown; what the answer under way has said so far */
	int asked;
	double answered_at, ask_at; /* clock_mono() */
	enum view_order order;
	int reverse, help, is_over;
	char chosen[OPTION_ID_MAX]; /* the node under the cursor, wherever it stands now */
	size_t first;               /* row of the table that is on top */
};

int top_ask(struct top *t, struct error *err);
/* What has arrived, at most `seconds` from now on; 1: a whole answer, 0: not yet. */
int top_receive(struct top *t, double seconds, struct error *err);

/* Until the reader has said q, or the job is gone: 0. A signal's number: it ended by that one. */
int top_on_screen(struct top *t, struct error *err);

#endif

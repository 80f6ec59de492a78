/*
 * score: TEST scored with a checkpoint by the same predict(1) and auc(1) that a person would use, one after
 * the other; in between (EVAL, EVAL patience) and at the end.
 */
#ifndef PACELINE_RUN_SCORE_H
#define PACELINE_RUN_SCORE_H

#include "job/dirs.h"
#include "record/scores.h"

#include <stdint.h>

struct child;
struct supervisor;

struct sup_score {
	struct child *child;
	int file;            /* in STATE, without a name: from predict to auc; 0: none */
	double at;           /* clock_mono(): begun last */
	int done;            /* the one at the end */
	int status;          /* why the one at the end failed, as an exit status */
	double value[SCORES]; /* NAN: none */
	double best; /* of the first one that there is; NAN: none yet */
	uint64_t without_gain;  /* scores in a row */
	char scored[DIRS_PATH_MAX]; /* the checkpoint, of the last score */
};

void sup_score_init(struct supervisor *s);
/* last: it is the one at the end. */
void sup_score_start(struct supervisor *s, const char *checkpoint, int last);
void sup_score_periodic(struct supervisor *s);
void sup_score_stop(struct supervisor *s); /* the one under way */

#endif

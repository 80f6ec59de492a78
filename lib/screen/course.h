/*
 * course: how a job goes, as a few lines that fit a terminal: how long it still takes first, then
 * loss and speed, then the slowest worker and why.  Pure.
 */
#ifndef PACELINE_SCREEN_COURSE_H
#define PACELINE_SCREEN_COURSE_H

#include "base/option.h"
#include "record/record.h"
#include "screen/line.h"

#include <stdint.h>

#define COURSE_TEXT_MAX 128
#define COURSE_WAITS_MAX 512

/* Not known: NAN, or "". */
struct course {
	char state[16]; /* the phase, as `status` names it; "": it runs */
	uint64_t iteration, epoch, epochs, restarts, held;
	double loss, samples, total, rate; /* rate in samples a second */
	double eta;                        /* seconds until the end */
	char slowest[OPTION_ID_MAX];
	double ratio;               /* its time of a batch over the mean of all workers */
	char why[COURSE_TEXT_MAX];  /* it is slow */
	char told[COURSE_TEXT_MAX]; /* what was decided about it last */
	double told_age;            /* seconds */
	char waits[COURSE_WAITS_MAX]; /* what the job waits for */
};

void course_init(struct course *c);
/* Fields of a `job` or `row` record; what it does not have stays. */
void course_take(struct course *c, const struct record *r);

/* A phase in words: "last checkpoint". */
const char *course_state(const char *state);
/* A time in the past, in one unit: "12 s ago", "4 min ago". */
void course_ago(double seconds, char *out, size_t max);

#define COURSE_LINES 3
/* How many lines there are. blocks: see text_bar(). */
size_t course_lines(const struct course *c, size_t width, int blocks,
		    struct screen_line line[COURSE_LINES]);
/* The same in one line, for a terminal that only takes one after the other. */
void course_row(const struct course *c, size_t width, char *out, size_t max);

#endif

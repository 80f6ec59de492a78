/* report: what the files of `trainctl report` share: a job's log, read, and what follows from it.
 */
#ifndef PACELINE_CMD_TRAINCTL_REPORT_H
#define PACELINE_CMD_TRAINCTL_REPORT_H

#include "account/account.h"
#include "account/cost.h"
#include "account/effect.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct report {
	const struct account *a;
	struct cost cost;
	struct effect *effect; /* in order of time */
	size_t effects;
	const char *path; /* of the log */
};

/* ---- words (report_words.c) ---- */

/* "4 sizes set, w3 restarted". */
void report_effect_words(const struct report *p, const struct effect *e, char *out, size_t max);
/* "24 workers of 3 cores (before: 1 of 4): from 100 to 900 samples/s (x9.00; 950 were expected)",
 * and why. */
void report_plan_words(const struct account_plan *p, char *out, size_t max);
void report_plan_reason(const struct account_plan *p, char *out, size_t max);
/* "from 2 to 4 workers; it took 1.2 s", and why. 0: it is told elsewhere. */
int report_turn_words(const struct account_turn *t, char *out, size_t max, char *why, size_t why_max);
/* "ps0 had 1.80 times the mean of all servers to do: 2.1 MiB of parameters moved, and the busiest had
 * 1.05 times; workers waited 3 ms at most" */
void report_rebalance_words(const struct account_rebalance *b, char *out, size_t max);
/* "w1 was killed (SIGKILL)" */
void report_restart_words(const struct report *p, const struct account_mark *m, char *out,
			  size_t max);
/* Whether a restart was meant, and is no failure. */
int report_is_meant(const struct account_mark *m);
/* A restart that was not, a rollback. */
int report_is_failure(const struct account_mark *m);
/* What it was and how it ended: "paced: done in 6.9 s, 36.0k samples". */
void report_title(const struct report *p, char *out, size_t max);
/* "4 workers, 2 servers, batches of 480, bsp, SOLUTION=none" */
void report_subtitle(const struct report *p, char *out, size_t max);
/* A kind of cost, and for whom others waited. */
void report_cost_words(const struct report *p, enum cost_kind kind, char *out, size_t max);
/* The causes in the order in which they are shown; returns how many there are. */
size_t report_costs(const struct report *p, enum cost_kind kind[COST_KINDS]);

struct report_worker {
	const struct account_node *node;
	double samples, batches, time, wait, speed;
	double collective; /* seconds in them */
	double up; /* seconds; 0: not known */
};
/* Of which busy and waiting are parts: it was up, as far as the log saw it in time. */
double report_worker_seconds(const struct report_worker *w);
/* Those that have trained, by name; to be freed. NULL: none. */
struct report_worker *report_workers(const struct report *p, size_t *count);
/* The effects that changed most, at most so many, in order of time; to be freed. NULL: none. */
const struct effect **report_effects(const struct report *p, size_t most, size_t *count);

/* ---- on a terminal (report_text.c) ---- */

void report_text(const struct report *p, FILE *out);

/* ---- pictures (report_draw.c) ---- */

enum picture {
	PICTURE_LOSS,
	PICTURE_PACE,
	PICTURE_SIZE,
	PICTURE_TIME,
	PICTURE_GANTT,
	PICTURE_SHARDS,
	PICTURES
};

/* Its name as a file, what it shows, and how to read it. */
extern const char *const picture_name[PICTURES];
extern const char *const picture_title[PICTURES];
extern const char *const picture_caption[PICTURES];

/* Whether there is anything to draw. */
int picture_has(const struct report *p, enum picture what);
unsigned picture_height(const struct report *p, enum picture what); /* in pixels, of 960 wide */
/* The commands for gnuplot(1), without those for the terminal. place: commands that say where in
 * the page it is, or "". */
void picture_script(const struct report *p, enum picture what, const char *place, FILE *out);

/* ---- files (report_files.c) ---- */

#define REPORT_GNUPLOT_SECONDS 60.0 /* a picture; then gnuplot is killed */

/* --html FILE, --png FILE.png | DIR. Without gnuplot: ERROR_UNAVAILABLE. */
int report_html(const struct report *p, const char *path, struct error *err);
int report_png(const struct report *p, const char *path, struct error *err);

#endif

/* report: what the files of `trainctl report` share: a job's log, read, and what follows from it.
 */
#ifndef PACELINE_CMD_TRAINCTL_REPORT_H
#define PACELINE_CMD_TRAINCTL_REPORT_H

#include "account/account.h"
#include "account/cost.h"
#include "account/effect.h"
#include "account/verdict.h"
#include "base/error.h"
#include "job/dirs.h"
#include "screen/grid.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Workers and servers that reported, each by name, and all that each of them did. */
struct report_nodes {
	struct report_node {
		const struct account_node *node;
		struct account_point did;
		double up; /* seconds; 0: not known */
	} *node; /* first the workers */
	size_t count, workers;
	double *value; /* room for one of each, while a median is sought */
};

struct report {
	struct account *a;
	struct cost cost;
	struct effect *effect; /* in order of time */
	size_t effects;
	struct report_nodes nodes;
	char path[DIRS_PATH_MAX]; /* of the log */
};

/* report.c: reads the log of a job and what follows from it; tell as in account_new(). ERROR_NEGATIVE:
 * no run has begun. report_free() in any case. */
int report_read(struct report *p, const struct dirs *dirs, account_tell_fn *tell, struct error *err);
void report_free(struct report *p);

/* ---- words (report_words.c) ---- */

/* "4 sizes set, w3 restarted". */
void report_effect_words(const struct report *p, const struct effect *e, char *out, size_t max);
/* "24 workers of 3 cores (before: 1 of 4): from 100 to 900 samples/s (x9.00; 950 were expected)",
 * and why. */
void report_plan_words(const struct account_plan *p, char *out, size_t max);
void report_plan_reason(const struct account_plan *p, char *out, size_t max);
/* "from 2 to 4 workers; it took 1.2 s", and why. 0: it is told elsewhere. */
int report_turn_words(const struct account_turn *t, char *out, size_t max, char *why,
		      size_t why_max);
/* "ps0 had 1.80 times the mean of all servers to do: 2.1 MiB of parameters moved, and the busiest
 * had 1.05 times; workers waited 3 ms at most" */
void report_rebalance_words(const struct account_rebalance *b, char *out, size_t max);
/* "more for what went over the slow link of h1: 80 MiB sent at 2.0 MiB/s, where the median link
 * carries 20 MiB/s" */
void report_link_words(const struct account *a, const struct account_link *l, char *out,
		       size_t max);
/* "w1 was killed (SIGKILL)" */
void report_restart_words(const struct report *p, const struct account_mark *m, char *out,
			  size_t max);
/* Whether it is a rollback, or a restart that nobody meant. */
int report_is_failure(const struct account_mark *m);
/* What it was and how it ended: "paced: done in 6.9 s, 36.0k samples". */
void report_title(const struct report *p, char *out, size_t max);
/* "4 workers, 2 servers, batches of 480, bsp, SOLUTION=none" */
void report_subtitle(const struct report *p, char *out, size_t max);
/* A kind of cost, and for whom others waited. */
void report_cost_words(const struct report *p, enum cost_kind kind, char *out, size_t max);

/* ---- the document (report_tell.c) ---- */

enum report_words { REPORT_TITLE, REPORT_HEADING, REPORT_WORDS, REPORT_BAD };

/* A line of a table of what took time, or of what happened when. */
struct report_row {
	double seconds; /* NAN: none */
	double share;   /* of the whole time, shown as a bar where there is room; NAN: none */
	int lost;       /* that time was not for training */
	const char *text, *why; /* why: "" */
	const char *label;      /* in place of seconds; NULL: none */
};

/* Where it is told: on a terminal (report_text.c), or as HTML (report_html.c). */
struct report_page {
	size_t workers, effects, failures, others; /* rows of a table, at most */
	size_t name;                               /* columns of a node's name */
	void (*words)(void *to, enum report_words kind, const char *text);
	void (*row)(void *to, const struct report_row *row);
	void (*table)(void *to, const struct grid *table);
	int verdict_first;
	int (*courses)(void *to, const struct report *p, struct error *err); /* over time */
	void *to;
};

/* -1: as courses() says. */
int report_tell(const struct report *p, const struct report_page *page, struct error *err);

/* only_verdict: of all of it. */
void report_text(const struct report *p, int only_verdict);

/* ---- nodes (report_tell.c), and what they say together (report_verdict.c) ---- */

/* For report_read(); report_free() frees it. */
int report_nodes_of(const struct account *a, struct report_nodes *out, struct error *err);

/* Verdict, Why, Next, and a table of evidence; the same as records. */
void report_tell_verdict(const struct report *p, const struct report_page *page);
void report_put_verdict(const struct report *p);

/* ---- pictures (report_draw.c) ---- */

/* Its number is its place in picture_kind. */
extern const struct picture_kind {
	const char *name;                               /* as a file */
	const char *title;                              /* what it shows */
	const char *caption;                            /* and how to read it */
	int (*draw)(const struct report *p, FILE *out); /* -1: no memory, nothing is drawn */
	size_t (*has)(const struct report *p);          /* 0: there is nothing to draw */
	unsigned height; /* of the plot, in pixels; 0: by what it has */
	unsigned lines;  /* of the legend, besides those of marks */
	int timeless;    /* without an axis of time, and marks on it */
} picture_kind[];
extern const size_t picture_count;

int picture_has(const struct report *p, size_t what);
unsigned picture_height(const struct report *p, size_t what); /* in pixels */
/* The commands for gnuplot(1), without those for the terminal. place: commands that say where in
 * the page, and how wide, it is, or "". */
void picture_script(const struct report *p, size_t what, const char *place, FILE *out);

/* ---- files (report_files.c, report_html.c) ---- */

/* Bytes that come out of gnuplot; to be freed. */
struct drawing {
	char *data;
	size_t bytes;
	char why[160]; /* it failed; "": it did not */
};

/* --html FILE, --png FILE.png | DIR. Without gnuplot: ERROR_UNAVAILABLE. */
int report_html(const struct report *p, const char *path, struct error *err);
int report_png(const struct report *p, const char *path, struct error *err);
/* One of them for a page, as wide as a screen or as a telephone; all of them as an image, where what is
 * picture_count. */
enum report_form { REPORT_PNG, REPORT_SCREEN, REPORT_PHONE };
int report_draw(const struct report *p, size_t what, enum report_form form, struct drawing *out,
		struct error *err);
/* -1: nothing to draw yet. */
int report_has_pictures(const struct report *p, struct error *err);
/* For others to read, if the user's umask lets them. */
int report_put_file(const char *path, const char *data, size_t bytes, struct error *err);

#endif

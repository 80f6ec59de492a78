/*
 * view: a running job as `status` tells it, and as a screen: its course, what was decided last, a
 * table of its nodes.  For trainctl's status and top.  Pure.
 */
#ifndef PACELINE_SCREEN_VIEW_H
#define PACELINE_SCREEN_VIEW_H

#include "screen/course.h"
#include "screen/grid.h"

struct view_node {
	char role[16], id[OPTION_ID_MAX], state[16];
	char host[64];
	char section[16];           /* what it owes: see trainctl(1) */
	char told[COURSE_TEXT_MAX]; /* decided about it last */
	char why[COURSE_TEXT_MAX];  /* it is slow */
	/* Seconds, samples, samples a second; NAN: not known. */
	double pid, restarts, size, accum, time, speed, ratio, told_age, silent;
	size_t place; /* as `status` names them */
};

struct view {
	char name[OPTION_ID_MAX];
	char state_dir[4096], checkpoint[4096];       /* "": not known */
	double in_memory; /* workers that held the checkpoint in memory; NAN: none */
	char reported[512];                           /* what its trainers measured of their model */
	char decision[512];                           /* the last one, with its reason */
	char failure[512];                            /* why a trainer ended last */
	char brain[256];                              /* what it changed last */
	char link[320];                               /* the slowest one of the hosts' */
	char fabric[16];                              /* "": it makes no difference */
	double fabric_saves;                          /* seconds; NAN: not known */
	double reported_age, decision_age, failure_age, brain_age, link_age, up; /* seconds */
	double link_rate;                             /* bytes/s; NAN: none is measured */
	struct course course;
	size_t hosts; /* of those that are named, where there are several; else 0 */
	size_t nodes, room;
	struct view_node *node;
	int failed; /* out of memory: nodes are missing */
	int full;   /* the caller's: a heading also for what there is not */
};

void view_init(struct view *v);
void view_free(struct view *v); /* as view_init() leaves it, after it */
/* `job`, `host` and `node` records; others are passed over. */
void view_take(struct view *v, const struct record *r);

/* In which order nodes stand. */
enum view_order {
	VIEW_SLOW, /* what is not up, then the slowest; servers and daemons behind */
	VIEW_NODE, /* as `status` names them */
	VIEW_TIME,
	VIEW_SPEED,
	VIEW_SIZE,
	VIEW_RESTARTS,
	VIEW_ORDERS
};
#define VIEW_ORDER_WORDS "slow|node|time|speed|size|restarts"
extern const char *const view_order_name[VIEW_ORDERS];
void view_sort(struct view *v, enum view_order order, int reverse);

#define VIEW_HEAD_MAX 14
/* What stands above the table. silent: seconds for which trainctl has not answered; 0: it does.
 * Returns how many lines there are. */
size_t view_head(const struct view *v, size_t width, int blocks, double silent,
		 struct screen_line line[VIEW_HEAD_MAX]);

/* The nodes in their present order. grid_free(). */
void view_table(const struct view *v, struct grid *t);
/* A row, with what is to be seen in it marked. */
void view_row(const struct view *v, const struct grid *t, const size_t layout[GRID_MAX], size_t row,
	      struct screen_line *line);

#endif

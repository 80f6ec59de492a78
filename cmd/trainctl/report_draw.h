/* report_draw: what the pictures of a report share: how names get into a script, the axis of time,
 * and the courses of workers. For the files report_draw.c, report_curves.c, report_gantt.c and
 * report_shards.c only. */
#ifndef PACELINE_CMD_TRAINCTL_REPORT_DRAW_H
#define PACELINE_CMD_TRAINCTL_REPORT_DRAW_H

#include "cmd/trainctl/report.h"

#define DRAW_WINDOWS 300 /* of a curve */
#define DRAW_ROWS_MAX 40 /* of the Gantt chart */
#define DRAW_DOINGS 8    /* things that a node does there */
#define DRAW_LINES_MAX 10 /* of workers; more: those that stand out, and where the others are */
#define DRAW_COLOURS 7

extern const char *const draw_colour[DRAW_COLOURS];

/* The name of a node as a string of gnuplot's, cut where it is long. */
void draw_name(FILE *out, const char *id);
/* Ticks of an axis whose values go up to most: 250k is read faster than 250000. */
void draw_format(double most, const char *axis, FILE *out);

/* ---- time ---- */

/* A piece of the time in which the job ran, as it was and as it is drawn. */
struct draw_window {
	double from, to;
	double x0, x1;
	enum cost_kind kind; /* COST_TOGETHER: workers train */
};

/* Each phase gets windows by its length, most of them in all, or a few more. To be freed;
 * NULL: no memory. */
struct draw_window *draw_windows(const struct report *p, size_t most, size_t *count);
double draw_x(const struct report *p, double at);
/* Pictures one below the other have the same times one below the other. */
size_t draw_left_margin(const struct report *p);

/* ---- nodes ---- */

/* Those of a role, by their names; returns how many. list has room for all nodes. */
size_t draw_nodes(const struct report *p, int (*is_one)(const struct account_node *n),
		  const struct account_node **list);

/* An axis with a row for each of them, the first one above. */
void draw_rows(const struct account_node *const *node, size_t count, FILE *out);

struct curves {
	struct draw_window *window;
	size_t windows;
	const struct account_node **worker;
	size_t workers;
	double *value;      /* of worker i in window k: value[i * windows + k]; NAN: none */
	double *stands_out; /* by how much a worker differs from the others */
};

/* What value() says of each worker in each window. -1: no memory; to be freed all the same. */
int curves_make(const struct report *p, struct curves *c,
		double (*value)(const struct account_point *did));
void curves_free(struct curves *c);
/* Marks those that stand out most. */
void curves_choose(const struct curves *c, size_t most, unsigned char *chosen);
double curves_time(const struct account_point *did); /* of a batch, in seconds */

/* ---- pictures: behind their last command, over time, the legend of the marks is put ---- */

int picture_loss(const struct report *p, FILE *out);
int picture_speed(const struct report *p, FILE *out);
int picture_sizes(const struct report *p, FILE *out);
int picture_times(const struct report *p, FILE *out);
int picture_heat(const struct report *p, FILE *out);
int picture_gantt(const struct report *p, FILE *out);
int picture_shards(const struct report *p, FILE *out);

#endif

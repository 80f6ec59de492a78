/* What schedule.c (time), pattern.c (words) and trace.c (files) share. */
#ifndef PACELINE_STRAGGLE_SCHEDULE_INTERNAL_H
#define PACELINE_STRAGGLE_SCHEDULE_INTERNAL_H

#include "straggle/schedule.h"
#include "record/record.h"

enum pattern_kind {
	PATTERN_TRANSIENT = 1,
	PATTERN_PERSISTENT = 2,
	PATTERN_SERVER = 4,
	PATTERN_DEVICE = 8,
	PATTERN_REPLAY = 16
};

/* From `at` on a node is in this state. */
struct trace_point {
	double at;
	size_t node;
	int64_t life;
	uint64_t line; /* of two at the same moment the later one counts */
	struct schedule_state state;
};

struct trace {
	struct trace_point *point; /* by node, life, at, line */
	size_t count, room;
	double *time; /* all moments, rising */
};

struct pattern {
	enum pattern_kind kind;
	uint32_t number; /* so that equal patterns draw different numbers */
	int64_t life;
	size_t *chosen; /* nodes, in the order in which lists give values */
	size_t count;
	size_t *place; /* by node: its place in chosen + 1; 0: not chosen */
	double from, until;
	double on, every, p; /* transient */
	double delay, slowdown;
	struct drag device; /* but for its speed */
	double *speed;	    /* by place in chosen; NULL: none */
	struct trace trace;
};

struct schedule {
	struct schedule_options options;
	size_t nodes;
	struct pattern *pattern;
	size_t patterns, pattern_room;
	struct schedule_slot *slot;
	size_t slots, slot_room;
};

enum schedule_draw { DRAW_CHOICE = 1, DRAW_PERIOD = 2 };
/* 64 random bits that depend on nothing but the seed and these. */
uint64_t schedule_draw(const struct schedule *s, enum schedule_draw what, uint32_t pattern,
		       size_t node, uint64_t turn);

/* pattern.c */
int pattern_parse(struct schedule *s, struct pattern *p, char *const *words, size_t count,
		  struct error *err);
void pattern_free(struct pattern *p);

/* trace.c */
struct trace_options {
	const char *path;
	double unit;  /* seconds of a batch time of 1 */
	double own;   /* seconds that a batch takes without any drag */
	double batch; /* samples of a batch: then the speed is set; 0: the delay is */
	double step;  /* seconds from a step to the next; 0: as long as its longest batch */
};
int trace_read(struct trace *t, const struct schedule *s, const struct pattern *p,
	       const struct trace_options *options, struct error *err);
void trace_free(struct trace *t);
/* Whether the trace says anything of this node and life; *out is set if it did until then. */
int trace_at(const struct trace *t, size_t node, int64_t life, double at,
	     struct schedule_state *out);
double trace_next(const struct trace *t, double at);

#endif

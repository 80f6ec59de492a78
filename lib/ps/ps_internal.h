/* What ps.c (requests) and ps_apply.c (units, drag, reports) share. */
#ifndef PACELINE_PS_PS_INTERNAL_H
#define PACELINE_PS_PS_INTERNAL_H

#include "ps/ps.h"
#include "wire/drag.h"
#include "wire/peer.h"

/* A pull or push whose iteration has not come. */
struct ps_wait {
	struct ps *ps;
	struct request *rq;
	uint64_t iteration;
	struct staged *push; /* NULL: a pull */
	int dense;           /* of a pull */
	size_t rows;
	float **row;
	uint64_t into_offset, into_bytes;
	int into;
	struct ps_wait *next, **at;
};

struct ps {
	struct ps_options options;
	struct server *server;
	struct store *store;
	struct stage *stage;
	uint64_t applied; /* units */
	uint64_t pulls, pushes;
	struct ps_wait *waits, **waits_end;
	float **scratch; /* rows of a pull that is answered at once */
	size_t scratch_rows;
	struct store_push *unit;
	size_t unit_max;
	struct fork_child *fork;
	fork_done_fn *fork_done;
	void *fork_arg;
	struct request *asked; /* a cut that was asked for over the socket */
	char asked_path[CKPT_PATH_MAX];
	struct peer *monitor;
	double work;           /* seconds of own work since the last unit */
	double report_seconds; /* and since the last report, with drag */
	uint64_t report_samples, report_units;
	struct drag_file drag;
	int broken;
	struct error error;
};

/* ps_apply.c */
void ps_waits_run(struct ps *p);
void ps_on_apply(struct request *rq, void *ps);

/* ps.c */
void ps_answer_wait(struct ps_wait *w);
void ps_break(struct ps *p, const struct error *err);

#endif

/* What ps.c (requests), ps_pull.c (pulls), ps_apply.c (units, drag, reports) and hand.c (handing
 * over) share. */
#ifndef PACELINE_PS_PS_INTERNAL_H
#define PACELINE_PS_PS_INTERNAL_H

#include "ckpt/ckpt.h"
#include "ps/ps.h"
#include "record/drag.h"
#include "ps/room.h"
#include "param/table.h"
#include "wire/peer.h"

#define PS_REACHED 64

struct event;

struct ps_pull {
	double asked; /* when */
	uint64_t iteration, into_offset, into_bytes, dense, rows;
	int into;
};

/* A pull or push whose iteration has not come. */
struct ps_wait {
	struct ps *ps;
	struct request *rq;
	uint64_t iteration;
	struct staged *push; /* NULL: a pull */
	struct ps_pull pull;
	float **row; /* of a pull */
	struct ps_wait *next, **at;
};

struct ps {
	struct ps_options options;
	struct server *server;
	struct store *store;
	struct stage *stage;
	struct rooms *rooms;
	uint64_t applied; /* units */
	uint64_t pulls, pushes;
	uint64_t diverged;      /* pushes refused for their values */
	uint64_t bounded;       /* values that were held at a bound as units were applied */
	uint64_t bounded_units; /* in so many of them */
	struct ps_wait *waits, **waits_end;
	struct event *answer; /* those of waits whose iteration is here, one after the other */
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
	double reported;       /* when the last report was sent */
	uint64_t report_samples, report_units, units;
	double reached[PS_REACHED]; /* when the last units were applied, by their number */
	struct ps_more more;
	struct request *heir; /* take-over, waiting */
	struct event *hand;
	int handed_fd;        /* closed last: the heir waits for that; -1: not handed over */
	struct drag_file drag;
	int broken;
	struct error error;
};

/* ps_apply.c */
int ps_waits_start(struct ps *p, struct error *err);
void ps_waits_stop(struct ps *p);
void ps_on_hold(struct request *rq, void *ps);
void ps_on_apply(struct request *rq, void *ps);

/* hand.c */
int ps_hand_start(struct ps *p, struct error *err);
void ps_hand_stop(struct ps *p);

/* ps_pull.c */
size_t ps_pull_bytes(const struct ps *p, const struct ps_pull *q);
void ps_pull_answer(struct ps *p, struct request *rq, const struct ps_pull *q, float *const *row);

/* ps.c */
void ps_wait_add(struct ps_wait *w, struct ps *p, struct request *rq, uint64_t iteration);
int ps_push_fields(const struct record *r, struct staged *s, uint64_t *dense, uint64_t *rows,
		   struct error *err);
int ps_push_find(struct ps *p, struct staged *s, const void *data, size_t have, uint64_t dense,
		 uint64_t rows, struct error *err);
void ps_push_judge(const struct ps *p, struct staged *s);
void ps_answer_wait(struct ps_wait *w);
int ps_in_force(struct ps *p, struct request *rq); /* answers when not */
void ps_break(struct ps *p, const struct error *err);

#endif

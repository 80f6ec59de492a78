/* What the files of a part share: ps.c (making and ending it), pull.c and push.c (requests of
 * workers), wait.c (pulls and pushes whose iteration has not come), obey.c (orders of the lead),
 * apply.c (units, drag, reports), move.c (parameters on their way to other parts), handover.c (to
 * an heir), standby.c (who takes its place when it dies); how far that one may be behind: lag.c,
 * merge.c and keepers.c (at the part) and behind.c (at the standby). What a replica adds:
 * replica.h. */
#ifndef PACELINE_PS_PS_INTERNAL_H
#define PACELINE_PS_PS_INTERNAL_H

#include "base/boot.h"
#include "ckpt/ckpt.h"
#include "param/store_sum.h"
#include "param/table.h"
#include "ps/buffers.h"
#include "ps/fork.h"
#include "ps/heat.h"
#include "ps/ps.h"
#include "ps/stage.h"
#include "record/drag.h"
#include "wire/peer.h"

#define PS_REACHED 64
#define PS_FULLS 4 /* one that was committed, and some that may not have been */

struct timer;
struct behind_unit;
struct ps_move;
struct ps_replica;
struct ps_standby;
struct team;

struct ps_pull {
	double asked; /* when */
	uint64_t iteration, into_offset, into_bytes, dense, rows;
	int into;
	/* The pull waits while this push of the same worker is staged here; after 0: it does
	 * not. */
	char worker[OPTION_ID_MAX];
	uint64_t generation, after;
};

/* A pull or push whose iteration has not come. */
struct ps_wait {
	struct ps *ps;
	struct request *rq;
	struct staged *push; /* NULL: a pull */
	struct ps_pull pull;
	float **row; /* of a pull */
	struct ps_wait *next, **at;
};

/* Units that are not in the parameters of a standby yet: behind.h. */
struct behind {
	struct behind_unit *first, **end;
	uint64_t units;
	struct timer *nowhere; /* at the part; NULL: this is a standby */
};

/* An order over the socket that takes long. */
struct ps_long {
	int is_kept; /* it is under way, or nobody has asked for its result yet */
	enum order_kind kind;
	uint64_t attempt;
	struct request *rq; /* the request that waits for it; NULL: none */
	int over;           /* it is over, with this result: */
	struct order_result result;
	char code[32], text[ERROR_TEXT_MAX], file[CKPT_PATH_MAX];
};

struct ps {
	struct ps_options options;
	struct server *server;
	char boot[BOOT_ID_MAX]; /* boot id of this machine */
	struct store *store;
	struct stage *stage;
	struct buffers *buffers;
	uint64_t applied; /* units */
	/* What was held last, if all of it is here: until the next hold, a lead can have it applied
	 * by this round. 0: nothing. */
	struct order_push *held;
	size_t helds;
	uint64_t held_round;
	uint64_t newest_round; /* of a hold: an older one is of a lead that died */
	uint64_t pulls, pushes;
	struct heat heat; /* used if there is a table */
	uint64_t diverged;      /* pushes refused for their values */
	uint64_t bounded;       /* values that were held at a bound as units were applied */
	uint64_t bounded_units; /* units that had such values */
	struct ps_wait *waits, **waits_end;
	struct timer *answer; /* answers waits whose iteration has come, one after the other */
	float **scratch;      /* rows of a pull that is answered at once */
	size_t scratch_rows;
	struct store_push *unit;         /* that is being applied, */
	const struct staged **unit_from; /* and where its pushes are from */
	size_t unit_room;
	struct fork_child *fork; /* writes cut_file */
	struct order_answer cut_answer;
	char cut_file[CKPT_PATH_MAX];
	int cut_made_dir;   /* its directory was not there before */
	uint32_t cut_since; /* only rows that changed since then are written; 0: all */
	/* The last cuts with all rows, to know which rows have changed since then. */
	struct ps_full {
		char path[CKPT_PATH_MAX];
		uint32_t mark;
	} full[PS_FULLS];
	size_t fulls; /* in all */
	struct ps_long cut, moving; /* as ordered over the socket */
	struct peer *monitor;
	double work;           /* seconds of own work since the last unit */
	double report_seconds; /* seconds since the last report, drag included */
	double reported;       /* when the last report was sent */
	double reported_cpu;   /* processor time of this process then */
	uint64_t report_samples, report_units, units;
	double reached[PS_REACHED]; /* when the last units were applied; unit n at n % PS_REACHED */
	struct ps_replica *replica; /* NULL: this is a part */
	struct ps_move *move; /* parameters on their way; NULL: none */
	uint64_t attempt;     /* the last one ordered, see move.h */
	struct mapping *spare; /* shared memory that was used to move a piece, or NULL; */
	int spare_fd;
	struct timer *spare_end; /* it is kept until then */
	struct ps_more more;
	struct request *heir; /* take-over, waiting */
	struct timer *hand;
	struct ps_standby *standby; /* who follows (standby.h); NULL: nobody */
	struct keeper *keepers;     /* workers that keep what a standby may lack (standby.h) */
	int stands_by;              /* this process is a standby itself */
	struct behind behind;
	struct call *handed; /* connection to the heir, which waits for its end; closed last */
	struct drag_file drag;
	int broken;
	struct error error;
};

/* wait.c */
void ps_wait_add(struct ps_wait *w, struct ps *p, struct request *rq);
void ps_waits_run(struct ps *p);  /* units were applied, or pushes thrown away */
void ps_waits_soon(struct ps *p); /* the same, in the next turn */
int ps_waits_start(struct ps *p, struct error *err);
void ps_waits_stop(struct ps *p);
/* Takes the first request, which must exist, to answer it. */
struct request *ps_wait_take(struct ps *p);
/* Answers all waiting requests with `err`. */
void ps_waits_refuse(struct ps *p, const char *code, const char *text);

/* apply.c: one unit is in the parameters; all units of an order are. */
void ps_unit_applied(struct ps *p, uint64_t samples);
void ps_units_applied(struct ps *p);
/* One unit: room for its pushes, each of them, and the step. */
int ps_unit_reserve(struct ps *p, size_t pushes, struct error *err);
void ps_unit_put(struct ps *p, size_t i, const struct order_push *name, const struct staged *s);
int ps_unit_apply(struct ps *p, size_t n, struct error *err);
/* Applies the order's units in their order; *missing counts pushes that are not staged here. -1:
 * the parameters can't be trusted any more (ps_broken()). */
int ps_apply(struct ps *p, const struct order *o, size_t *missing, struct error *err);

/* obey.c */
/* An order of a lead in this process: a standby is told, too, and waited for. */
void ps_obey_here(void *ps, const struct order *o, const struct order_answer *a);
/* Remembers what the order holds. -1: no memory. */
int ps_keep_held(struct ps *p, const struct order *o, struct error *err);
void ps_on_order(struct request *rq, void *ps);
/* For a hand-over: a cut that is written, and whose result the lead has not asked for yet. */
int ps_give_cut(const struct ps *p, struct call *c, struct error *err);
int ps_take_cut(struct ps *p, const struct record *r, struct error *err);
/* A cut that failed leaves nothing here: the lead may be gone, or have removed its directory. */
void ps_cut_forget(struct ps *p);
/* Starts a child that has the parameters as they are now (fork.h). */
int ps_fork(struct ps *p, struct fork_child **out, struct fork_job *job, fork_done_fn *done,
	    void *arg, struct error *err);

/* handover.c */
int ps_handover_start(struct ps *p, struct error *err);
void ps_handover_stop(struct ps *p);
/* The requests `take-over` and `taken`. The state is sent between two events. Then nobody else is
 * served until the heir says that it has everything, or is gone. If it has, the server's loop
 * ends. */
void ps_on_take_over(struct request *rq, void *ps);
/* Sends all that is here: parameters, what is staged, what was thrown away. */
int ps_give_copy(const struct ps *p, struct call *c, struct error *err);
/* One that comes here is from a client that got nothing. */
void ps_on_taken(struct request *rq, void *ps);

/* pull.c */
void ps_on_pull(struct request *rq, void *ps);
/* Whether the pull must wait: its units, or the push before it, are not applied here yet. */
int ps_pull_waits(const struct ps *p, const struct ps_pull *q);
/* Bytes that the answer copies. */
size_t ps_pull_bytes(const struct ps *p, const struct ps_pull *q);
void ps_pull_answer(struct ps *p, struct request *rq, const struct ps_pull *q, float *const *row);

/* push.c */
enum part_staged ps_stage(void *ps, struct request *rq, const char *unfit);
void ps_on_push(struct request *rq, void *ps);
/* Makes a push of a request: checked, and with its rows found, but not staged yet. ERROR_DATA says
 * what is wrong with it. */
int ps_push_read(struct ps *p, struct request *rq, struct staged **out, struct error *err);
void ps_push_answer(struct ps *p, struct request *rq, struct staged *s); /* stages and answers */
/* Reads the fields of a push. ERROR_DATA. */
int ps_push_fields(const struct record *r, struct staged *s, uint64_t *dense, uint64_t *rows,
		   struct error *err);
/* Finds the parts of a push in data[have]: dense gradient, keys, gradients of rows; and its rows.
 * ERROR_DATA: sizes or keys are wrong. */
int ps_push_find(struct ps *p, struct staged *s, const void *data, size_t have, uint64_t dense,
		 uint64_t rows, struct error *err);
/* Notes in s whether a gradient can't be applied. */
void ps_push_judge(const struct ps *p, struct staged *s);
/* Writes what is wrong with a gradient. */
void ps_bad_gradient(const struct ps *p, const struct store_push *push,
		     const struct store_bad *bad, char why[STAGED_WHY_MAX]);

/* ps.c */
struct team *ps_team(const struct ps *p); /* NULL: this thread alone */
void ps_on_stat(struct request *rq, void *ps);
void ps_heat_anew(struct ps *p); /* the map has changed */
int ps_in_force(struct ps *p, struct request *rq);  /* 0: it was answered */
void ps_break(struct ps *p, const struct error *err);

#endif

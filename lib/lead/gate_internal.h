/* The gate's state, shared by its files: gate_members.c, gate_pushes.c (their arrival),
 * gate_units.c (closing, settling, cuts), gate_sums.c (the same with replicas), gate_replicas.c (who
 * of those is in force), gate_begins.c (members that have the parameters), gate_actions.c, gate_sizes.c (batches at every barrier), gate_effects.c
 * (the queue) and gate_text.c (handing over). */
#ifndef PACELINE_LEAD_GATE_INTERNAL_H
#define PACELINE_LEAD_GATE_INTERNAL_H

#include "lead/gate.h"
#include "monitor/node.h"
#include "record/record.h"

#include <stdarg.h>
#include <uthash.h>

enum refused { REFUSED_NOT, REFUSED_BY_SHARDD, REFUSED_BY_SERVER, REFUSED_KINDS };

/* A push from its arrival to its answer. In g->held, then in g->sent, both in order of arrival. */
struct push {
	struct worker *worker;
	uint64_t generation, sequence, iteration, count, skipped, size;
	double loss, scale;
	int late; /* its iteration was closed before: to be dropped */
	enum refused refused;
	struct gate_range *range;
	size_t ranges;
	uint64_t token[GATE_TOKENS_MAX];
	size_t tokens;
	struct push *next;
};

struct pushes {
	struct push *first, **end;
	size_t count;
};

enum worker_state { WORKER_OUT, WORKER_JOINING, WORKER_ACTIVE, WORKER_ENDED, WORKER_STATES };

struct worker {
	char id[OPTION_ID_MAX];
	enum worker_state state;
	uint64_t generation; /* of the member; 0: out */
	uint64_t newest;     /* the highest generation seen: an older one is not let in again */
	uint64_t fenced;     /* generations up to it are refused */
	uint64_t connection;
	uint64_t join_token, end_token; /* 0: none waits */
	struct push *held, *sent;
	/* the last push that was answered for good */
	uint64_t done_generation, done_sequence;
	int done, done_dropped;
	uint64_t clock;       /* iterations of its own, for SSP */
	struct push *waiting; /* applied; its answer waits for slower members */
	double scale;         /* adjust-lr */
	/* of its last push, see struct balance_member; kept when it goes: it may well come back */
	double speed, time, mem;
	uint64_t count, most;
	uint64_t size; /* given to the member by `balance`; 0: none */
	int size_told;
	uint64_t pushes, samples; /* see struct gate_member */
	uint64_t acts_seen;
	uint64_t throw_upto; /* to be thrown once nothing of it is being settled; 0: nothing */
	uint64_t fence_token[GATE_TOKENS_MAX];
	size_t fence_tokens;
	/* with replicas */
	size_t replica;  /* that it pushes to, or will when it has joined */
	uint64_t listed; /* generation that is in the sum that is open; 0: it is not */
	uint64_t summed; /* epoch for which its replica said what it has added, */
	uint64_t summed_sequence, summed_count; /* and that */
	uint64_t diverged; /* generation whose gradient could not be summed; 0: none */
	char why[160];     /* then */
	/* where it is foreign; such a gate is never handed over */
	uint64_t begins;      /* the generation that says gate_take_part() before each batch */
	uint64_t world;       /* members that there have to be, as it says; 0: it does not */
	uint64_t begin_token; /* 0: none waits */
	struct gate_batch batch; /* then */
	int voids; /* its last push was answered with actions: a begin ahead of that is void */
	int owes_save;        /* it is to be told of the cut with its next answer */
	UT_hash_handle hh;
};

/* What was published with one unit. `line` is its lines by whom they are for, "" being everybody, and then
 * as they stand. */
struct act_line {
	char id[OPTION_ID_MAX];
	size_t at, len; /* with the newline */
};
struct act {
	char *lines;
	size_t len;
	struct act_line *line;
	size_t count;
};

/* The action of a kind (and id) that holds for those who join later. */
#define FORCE_KEY_MAX (OPTION_ID_MAX + 32)
struct force {
	char key[FORCE_KEY_MAX];
	char *line;
	UT_hash_handle hh;
};

enum replica_state {
	REPLICA_GONE,    /* not connected */
	REPLICA_HERE,    /* not in force: where it is is not looked at yet, or it is to be filled */
	REPLICA_FILLING, /* no settle goes out meanwhile, so that its source stands still */
	REPLICA_IN       /* in force: at the lead's iteration, or told to step to it */
};

struct replica {
	enum replica_state state;
	char name[24];
	struct gate_replica at; /* as it said last */
	int is_new;             /* what it said is not looked at yet */
	int is_unfit;           /* it was, and it must be filled */
	int is_waiting;         /* but not yet */
	uint64_t told, summed;  /* epochs: ordered, and answered */
	uint64_t sum;           /* of summed */
};

/* The sum that is open, and what was committed last. */
struct sums {
	uint64_t term;
	uint64_t used;   /* the last epoch, of a sum or a fill */
	uint64_t epoch;  /* of the last sum */
	int is_open;     /* it is being summed */
	int is_changed;  /* members or replicas are others since it was looked at */
	int is_checked;  /* with checksums */
	int is_known;    /* where the replicas are */
	size_t members;  /* of it */
	size_t replicas; /* of it */
	struct gate_commit next, last; /* what is with shardd; what was committed last */
	double loss;                   /* of next */
	int was_checked;               /* the sum committed last */
};

enum cut_state { CUT_NONE, CUT_WANTED, CUT_SAVING, CUT_FORKING, CUT_WRITING };

struct gate {
	struct gate_options options;
	struct worker *workers; /* every id ever seen */
	size_t active;
	uint64_t open;    /* BSP: the iteration that is open, all before are closed */
	uint64_t applied; /* units */
	struct pushes held, sent;
	uint64_t late; /* of held */
	int settling;  /* sent is with the servers (holding), or with shardd */
	int holding;
	int unit;       /* sent closes a unit (or, not under BSP, is units) */
	int unanswered; /* what is asked must be asked (again) once who is asked is there */
	uint64_t number;
	uint64_t settled; /* pushes at the front of sent whose settle is answered */
	uint64_t largest; /* samples of the largest batch settled so far */
	int shards_up, servers_up, finished, quit;
	enum cut_state cut;
	enum { STILL_NOT, STILL_WANTED, STILL_IS } still; /* never handed over */
	uint64_t cut_token;
	uint64_t backup;
	uint64_t expect;                  /* 0: nobody is waited for */
	struct balance_member *number_of; /* of the members, while `balance` is asked */
	struct worker **member;
	size_t members_max;

	char *pending; /* actions for the next close */
	size_t pending_len;
	struct act *act; /* published ones acts_base .. acts_base + acts */
	size_t acts, acts_max;
	uint64_t acts_base;
	struct force *force;
	uint64_t act_number, act_iteration; /* of the last `act`, and what it was answered */

	int begun;                /* foreign, BSP: the open iteration's barrier is passed */
	uint64_t cut_iteration;   /* of the cut that is being written */
	char lost[OPTION_ID_MAX]; /* a member that went with what it had trained; "": none did */

	struct replica *replica; /* options.replicas of them */
	struct sums sums;

	struct gate_effect *effect;
	size_t effects, effects_max, effect_next;
	int failed;
};

/* gate_effects.c */
struct gate_effect *effect_add(struct gate *g, enum gate_effect_kind kind);
void effect_ok(struct gate *g, uint64_t token, char *actions, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void effect_err(struct gate *g, uint64_t token, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void effect_name(struct gate *g, enum gate_effect_kind kind, const char *worker,
		 uint64_t generation, uint64_t sequence);
void effects_free(struct gate *g);

/* gate_members.c */
extern const char *const worker_state_name[WORKER_STATES + 1]; /* and NULL */
struct worker *worker_get(struct gate *g, const char *id);
void worker_out(struct gate *g, struct worker *w, const char *why);
/* Under BSP only when nobody is active, or when a unit has `closed`. */
void worker_let_in(struct gate *g, int closed);
void worker_fence(struct gate *g, struct worker *w);
int worker_order(const void *a, const void *b); /* of struct worker * */

/* gate_pushes.c */
void push_free(struct push *p);
void pushes_start(struct pushes *list);
void pushes_add(struct pushes *list, struct push *p);
void pushes_remove(struct pushes *list, struct push *p);

/* gate_units.c */
void units_step(struct gate *g);
void units_cut(struct gate *g);  /* begins the cut that is wanted, if it can be now */
void units_late(struct gate *g); /* what is late is settled, alone */
void units_quit(struct gate *g, const char *why);
/* What was put into g->sent is asked of shardd. */
void units_settle(struct gate *g);
/* Ends a push of g->sent that is out of it: answered, its worker out when it was refused. */
void units_finish(struct gate *g, struct push *p);
uint64_t units_slowest(const struct gate *g);
void units_throw(struct gate *g, struct worker *w);

/* gate_sums.c */
void sums_step(struct gate *g);
/* The unit is in the model: replicas are told, the next iteration is open. */
void sums_commit(struct gate *g);
void sums_refused(struct gate *g);     /* nothing of the unit was settled */
int sums_cut_waits(const struct gate *g); /* a cut is for behind a unit that is checked */

/* gate_begins.c: only where it is foreign */
void begins_step(struct gate *g);
void begins_saved(struct gate *g);          /* shardd has saved: members are told */
int begins_may_enter(const struct gate *g); /* BSP: the barrier is not passed */
void begins_cut_over(struct gate *g);
void begins_again(struct gate *g, struct worker *w); /* answers what it said, if that waits */
void begins_out(struct gate *g, struct worker *w, const char *why);
void begins_trained(struct gate *g, const struct worker *w, uint64_t generation);
/* The answer just made is w's. */
void begins_tell(struct gate *g, struct worker *w);

/* gate_replicas.c */
int replicas_new(struct gate *g); /* -1: no memory */
void replicas_place(struct gate *g); /* those who came, when no settle is out */
size_t replicas_in(const struct gate *g);
int replicas_hold(const struct gate *g); /* one is being filled */
int replicas_same(const struct gate *g); /* those in force are those of the open sum */
/* Those in force, as an effect's to; 0 when there was no memory. */
int replicas_to(struct gate *g, struct gate_effect *e);

/* gate_sizes.c */
void sizes_ask(struct gate *g, uint64_t iteration); /* the members of it are those active now */
/* The size of w in front of other actions, which are taken; to be freed; NULL: nothing to say. */
char *sizes_tell(struct gate *g, struct worker *w, char *actions, int again);
void sizes_free(struct gate *g);

/* gate_actions.c */
void acts_publish(struct gate *g);
/* Those for w: that it has not seen; that are in force. To be freed; NULL: none. */
char *acts_unseen(struct gate *g, struct worker *w);
char *acts_in_force(struct gate *g, const struct worker *w);
void acts_keep(struct gate *g, const struct record *r, const char *line, size_t len);
int acts_add(struct gate *g, char *lines, size_t len); /* takes lines */
void acts_free(struct gate *g);

#endif

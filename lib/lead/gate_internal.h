/* The gate's state, shared by its files: gate_members.c, gate_pushes.c (their arrival),
 * gate_units.c (closing, settling, cuts), gate_actions.c, gate_sizes.c (batches at every barrier),
 * gate_effects.c (the queue) and gate_text.c (handing over). */
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
	UT_hash_handle hh;
};

struct act {
	char *lines;
	size_t len;
};

/* The action of a kind (and id) that holds for those who join later. */
struct force {
	char key[OPTION_ID_MAX + 32];
	char *line;
	UT_hash_handle hh;
};

enum cut_state { CUT_NONE, CUT_WANTED, CUT_SAVING, CUT_WRITING };

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
void worker_let_in(struct gate *g, int all); /* BSP: those who wait; all: whoever is active */
void worker_fence(struct gate *g, struct worker *w);
int worker_order(const void *a, const void *b); /* of struct worker * */

/* gate_pushes.c */
void push_free(struct push *p);
void pushes_start(struct pushes *list);
void pushes_add(struct pushes *list, struct push *p);
void pushes_remove(struct pushes *list, struct push *p);

/* gate_units.c */
void units_step(struct gate *g);
uint64_t units_slowest(const struct gate *g);
void units_throw(struct gate *g, struct worker *w);

/* gate_sizes.c */
void sizes_ask(struct gate *g, uint64_t iteration); /* the members of it are those active now */
/* The size of w in front of other actions, which are taken; to be freed; NULL: nothing to say. */
char *sizes_tell(struct gate *g, struct worker *w, char *actions, int again);
void sizes_free(struct gate *g);

/* gate_actions.c */
void acts_publish(struct gate *g);
char *acts_unseen(struct gate *g, struct worker *w); /* to be freed; NULL: none */
char *acts_in_force(struct gate *g);
void acts_keep(struct gate *g, const struct record *r, const char *line, size_t len);
int acts_add(struct gate *g, char *lines, size_t len); /* takes lines */
void acts_free(struct gate *g);

#endif

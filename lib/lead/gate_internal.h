/* The gate's state, shared by its files: gate_members.c, gate_pushes.c (arrival of pushes),
 * gate_grants.c (which may be sent), gate_units.c (closing, settling, cuts), gate_sums.c (the same
 * with replicas), gate_late.c (whom a sum goes on without), gate_replicas.c (which replicas are in
 * force), gate_begins.c (members that have the parameters), gate_states.c (the same with replicas),
 * gate_actions.c, gate_sizes.c (batch sizes at every barrier), gate_effects.c (the queue) and
 * gate_text.c (handing over). */
#ifndef PACELINE_LEAD_GATE_INTERNAL_H
#define PACELINE_LEAD_GATE_INTERNAL_H

#include "base/fetch.h"
#include "base/hash.h"
#include "base/pool.h"
#include "lead/gate.h"
#include "monitor/node.h"
#include "record/record.h"

#include <stdarg.h>

enum refused { REFUSED_NOT, REFUSED_BY_SHARDD, REFUSED_BY_SERVER, REFUSED_KINDS };
/* OVER: it was given, and has not come in time. */
enum grant { GRANT_NONE, GRANT_ASKED, GRANT_GIVEN, GRANT_OVER, GRANTS };

#define PUSH_FEW 2 /* mostly a push has so many ranges, or fewer: pieces end where batches don't */

/* A push from its arrival to its answer: in g->held, in order of arrival, then in g->sent: see send_held().
 * Before that it may be in g->announced; once dropped there, it is held, as one that came late. */
struct push {
	/* In lines of the cache: what walks over all pushes look at; what else a settle and an answer touch. */
	struct push *next;
	struct push *ahead; /* some pushes behind, if not NULL: only to be fetched, it may be gone */
	struct worker *worker;
	uint64_t count;
	double loss;
	uint64_t generation, sequence;
	uint32_t seat; /* of the worker */
	unsigned char ranges, tokens;
	unsigned char late;         /* to be dropped: its iteration was closed before, it is too stale, or its group
				     * was given up */
	unsigned char refused : 4; /* enum refused */
	unsigned char is_sent : 4; /* it is in g->sent */

	union { /* push_ranges() */
		struct gate_range few[PUSH_FEW];
		struct gate_range *many; /* if `ranges` is above that */
	} range;
	uint64_t token[GATE_TOKENS_MAX]; /* mostly one, which is still in that line */

	uint64_t iteration, pulled;
	uint64_t size;
	double scale;
	/* Those that were granted together, and may be summed on their host: one unit, whole or not
	 * at all. 0: none. */
	uint64_t group;
	enum grant grant;
	unsigned char stale; /* it is late, and its age is the reason */

	/* What follows is only of gates with announcements: elsewhere it is not even set to 0. */
	int is_kept; /* by send_held(), for now */
	int is_rival;   /* the schedule drops it */
	uint64_t bytes; /* announced, of all parts */
	uint64_t *part; /* and of each */
	size_t parts;
	size_t host, crew; /* as in struct gate_offer */
	int64_t hop, alone;
	size_t members; /* of its group */
	size_t here; /* of the members, on its host; 0: all */
	size_t at;   /* the host that sums all; 0: each host its own */
	int64_t start;  /* as the schedule says, in the time of gate_clock() */
	int64_t asked_at;
	int64_t there, granted_at, until;
};

/* p will soon be touched; NULL is fine. */
enum { PUSH_LINES_SETTLE = 2, PUSH_LINES_ANSWER = 2 };
_Static_assert(offsetof(struct push, token[2]) == 128 && offsetof(struct push, is_kept) <= 192, "its lines");
static inline void push_fetch(const struct push *p, size_t lines)
{
	fetch_ahead(p, lines * 64);
}

static inline const struct gate_range *push_ranges(const struct push *p)
{
	return p->ranges > PUSH_FEW ? p->range.many : p->range.few;
}

#define PUSHES_FAR 32 /* so far behind a push is its `ahead`; a power of two */
struct pushes {
	struct push *first, **end;
	size_t count;
	size_t row; /* so many were added since one was removed; the last ones: */
	struct push *lately[PUSHES_FAR];
};

/* DONE: it is not pushed yet. NONE: also where members do not say it. */
enum compute_state { COMPUTE_NONE, COMPUTE_NOW, COMPUTE_DONE };

enum worker_state { WORKER_OUT, WORKER_JOINING, WORKER_ACTIVE, WORKER_ENDED, WORKER_STATES };

/* What each push touches stands first, in few lines of the cache: a simulation has a hundred thousand of them. An
 * arrival touches the first and the second line, an answer the first and the third. */
struct worker {
	enum worker_state state;
	uint32_t fence_tokens;
	int done, done_dropped;
	uint64_t generation; /* of the member; 0: out */
	uint64_t fenced;     /* generations up to it are refused */
	struct push *push, *older; /* worker_held(), worker_sent() */
	/* the last push that was answered for good, with `done` and `done_dropped` */
	uint64_t done_generation, done_sequence;

	/* of its last push, see struct balance_member; kept after it leaves, as it may come back */
	double speed, time, mem;
	uint64_t count;
	double scale; /* adjust-lr */
	size_t seat; /* gate_seat() */
	struct push *waiting; /* applied; its answer waits for slower members */
	uint64_t connection;

	uint64_t newest; /* the highest generation seen: an older one is not let in again */
	uint64_t clock; /* iterations of its own, for SSP */
	uint64_t throw_upto; /* generation up to which pushes are to be thrown, once none of them is
				being settled; 0: none */
	uint64_t acts_seen;
	int64_t answered; /* its last push */
	uint64_t size; /* given to the member by `balance`, and told with `size_told`; 0: none */
	uint64_t pushes, samples; /* see struct gate_member */

	int size_told;
	uint64_t most; /* as `count` */
	uint64_t idle, idle_connection; /* gate_idle(); 0: it is not */
	struct push *announced;
	int64_t away; /* how long after it was answered it announced the next one */
	uint64_t owes_saved; /* iteration + 1 of a cut that is a checkpoint now, as its next answer must
				tell it. 0: none */
	enum gate_saves owes_save; /* its next answer must tell it of the cut */
	enum compute_state compute; /* gate_compute() */
	uint64_t compute_token;     /* 0: none waits */
	char id[OPTION_ID_MAX];
	UT_hash_handle hh;
	uint64_t join_token, end_token; /* 0: none waits */
	size_t host; /* of its last push that was announced; 0: none for sums */
	double pace; /* ns a byte, of its last push that was announced; 0: not known */
	struct delays delays;
	uint64_t fence_token[GATE_TOKENS_MAX];
	/* with replicas */
	size_t replica;  /* it pushes to this one, or will once it has joined */
	uint64_t listed; /* its generation in the open sum; 0: it is not in it */
	uint64_t summed; /* the round for which its replica has said which push it added, */
	uint64_t summed_sequence, summed_count; /* and that push */
	uint64_t diverged; /* generation whose gradient could not be summed; 0: none */
	char why[160];     /* it could not */
	int64_t began, took;        /* this batch; how long its last one took; 0: not known */
	uint64_t late_until; /* the iteration for which it computes since it was late; 0: never */
	/* for foreign members; a gate with such members is never handed over */
	uint64_t begins;      /* the generation that says gate_take_part() before each batch */
	uint64_t world;       /* members that it needs, as it says; 0: it does not say */
	uint64_t begin_token; /* 0: none waits */
	struct gate_batch batch; /* of the begin that waits */
	int voids; /* its last push was answered with actions: a begin before that is void */
	uint64_t told_cut; /* iteration + 1 of the cut that it was told of; 0: none */
	/* the same, with replicas */
	uint64_t version; /* where its state is, as it joins: see gate_state() */
	int is_due;       /* it was told how to get the state, and is to join with that */
	uint64_t unaware; /* its connection, if it was put out and does not know it; else 0 */
	uint64_t absent; /* one more than the iteration whose state it may come back with; else 0 */
	uint64_t tried;   /* the attempt from which it was to have it */
	uint64_t gives_failed; /* in a row */
	int knows_enough;     /* it was told that the model is trained enough */
};

/* Of a worker one push may be held, and one may be sent; NULL: none is. If both are, the one that is sent is the older
 * one. The push itself knows which it is: so sending all that are held looks at no worker, and workers lie all over the
 * memory. */
static inline struct push *worker_held(const struct worker *w)
{
	return w->push && !w->push->is_sent ? w->push : NULL;
}
static inline struct push *worker_sent(const struct worker *w)
{
	return w->push && w->push->is_sent ? w->push : w->older;
}

/* A line of the actions that were published with one unit, and whom it is for ("": everybody). They
 * are sorted by that; lines for the same worker keep their order. */
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

/* The action of a kind (and id) that also holds for workers that join later. */
#define FORCE_KEY_MAX (OPTION_ID_MAX + 32)
struct force {
	char key[FORCE_KEY_MAX];
	char *line;
	uint64_t size, accum, batch; /* of adjust-bs */
	UT_hash_handle hh;
};

enum replica_state {
	REPLICA_GONE,    /* not connected */
	REPLICA_HERE,    /* not in force: its state is not looked at yet, or it must be filled */
	REPLICA_FILLING, /* meanwhile no settle goes out, so its source does not change */
	REPLICA_IN       /* in force: at the lead's iteration, or told to step to it */
};

struct replica {
	enum replica_state state;
	char name[24];
	struct gate_replica at; /* as it said last */
	int is_new;             /* `at` is not looked at yet */
	int is_unfit;           /* `at` was looked at: it must be filled */
	int is_waiting;         /* it must be filled, but not yet */
	uint64_t told, summed;  /* the last round that it was told, and that it has summed */
	uint64_t sum;           /* the checksum of that sum */
};

/* The sum that is open, and what was committed last. */
struct sums {
	uint64_t term;
	uint64_t used;   /* the last round, of a sum or a fill */
	uint64_t round;  /* of the last sum */
	int is_open;     /* it is being summed */
	int is_changed;  /* its members or replicas have changed since the last look */
	int is_checked;  /* with checksums */
	int is_known;    /* the iteration of the replicas is known */
	size_t members;  /* of the open sum */
	size_t replicas; /* of the open sum */
	struct gate_commit next, last; /* the one with shardd; the last one that was committed */
	double loss;                   /* of next */
	int was_checked;               /* the sum committed last was */
	int is_bad, was_bad; /* not all of the open sum is finite; the one committed last was so */
};

/* Who is to give its state. */
struct give {
	struct worker *giver; /* NULL: nobody is asked */
	uint64_t attempt;     /* 0: it is to be told with its next answer */
	uint64_t iteration;
};
/* The last state that was given. */
struct given {
	uint64_t attempt, iteration; /* attempt 0: none */
	size_t replica;              /* it is there */
};

enum cut_state { CUT_NONE, CUT_WANTED, CUT_SAVING, CUT_FORKING, CUT_WRITING };

/* An effect that waits. Most are answers to pushes; each of them is only this, as a hundred thousand of them may
 * wait. */
struct queued {
	const char *word; /* of effect_done(); NULL: it is a whole effect */
	union {
		struct gate_effect *effect;
		char *actions;
	};
	uint64_t token, iteration;
};

struct gate {
	struct gate_options options;
	struct worker *workers; /* every id ever seen, */
	struct worker **seat;   /* also by its number, which counts from 1 */
	size_t seats;
	size_t active, joining;
	uint64_t open;    /* BSP: the iteration that is open, all before are closed */
	uint64_t applied; /* units */
	/* SSP: the clock of the slowest member, and how many are as slow; 0: it is to be found anew. */
	uint64_t slowest;
	size_t slowest_members;
	/* Whose pushes wait since units_release() was called last, when answers were due up to this
	 * clock; not all who wait, and all are looked at if not `waits_known`. */
	struct worker **waits;
	size_t waits_count, waits_room;
	uint64_t released;
	int waits_known;
	struct pushes announced, held, sent;
	int says_pulled; /* some push did */
	struct pool push, worker; /* memory of all of them */
	uint64_t late; /* of held */
	int settling;  /* sent is with the servers (holding), or with shardd */
	int holding;
	int unit;       /* sent is a unit, or units (ASP, SSP); 0: only late pushes */
	int is_group;   /* it is one unit, a group */
	uint64_t groups; /* the last one */
	uint64_t far_groups;
	/* Groups of several hosts: none before `crew_from`; after one that took longer than was
	 * said none for so long. */
	int64_t crew_from, crew_pause;
	uint64_t round;  /* under which parts hold sent; 0: see struct gate_options */
	int unanswered; /* ask servers or shardd (again) once they are there */
	uint64_t number;
	uint64_t settled; /* pushes at the front of sent whose settle is answered */
	struct push *unsettled; /* the one behind them, once units_settle_next() has looked */
	uint64_t asked;         /* pushes of the settle that is out, */
	struct push *behind;    /* and the one behind them */
	uint64_t largest; /* samples of the largest batch settled so far */
	uint64_t idle;    /* of all workers */
	struct delays delays;
	int64_t now;     /* as gate_clock() said last */
	int64_t late_at; /* then a member is late, if nothing happens */
	uint64_t spared; /* bytes of pushes that were dropped before they were sent */
	size_t *place, places_max; /* of grants_fit(): deadlines, by position */
	int shards_up, servers_up, finished, quit;
	enum cut_state cut;
	enum { STILL_NOT, STILL_WANTED, STILL_IS } still; /* never handed over */
	uint64_t cut_token;
	uint64_t backup;
	uint64_t expect;                  /* 0: nobody is waited for */
	int sizes_given; /* by actions, as parts of a batch */
	struct balance_member *number_of; /* of the members, while `balance` is asked */
	struct worker **member;
	size_t members_max;

	char *pending; /* actions for the next close */
	size_t pending_len;
	struct act *act; /* those published: the acts_base-th and what follows */
	size_t acts, acts_max;
	uint64_t acts_base;
	struct force *force;
	uint64_t act_number, act_iteration; /* of the last `act`, and the answer to it */

	int begun;                /* foreign, BSP: the barrier of the open iteration is passed */
	int enough;               /* gate_enough(): no iteration begins any more */
	uint64_t cut_iteration;   /* of the cut that is being written */
	char lost[OPTION_ID_MAX]; /* a member that left with what it had trained; "": none */

	struct replica *replica; /* options.replicas of them */
	struct sums sums;
	struct give give;
	struct given given;
	uint64_t beginning; /* the last one, with a member's own state of iteration 0; 0: with what all say they have */
	uint64_t unheld; /* this unit's settle waits for no state any more; it counts from 1 */

	struct queued *queue; /* effects; before `queue_next` they were taken */
	size_t queued, queue_max, queue_next;
	size_t wholes; /* so many of those to come are whole effects */
	struct pool effect;      /* memory of those that are whole */
	struct gate_effect done; /* the one that was taken last, if it was of effect_done(); with this word */
	const char *done_word;
	int failed;
};

/* gate_effects.c */
struct gate_effect *effect_add(struct gate *g, enum gate_effect_kind kind);
void effect_ok(struct gate *g, uint64_t token, char *actions, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* `iteration= WORD=1`; the word stays. */
void effect_done(struct gate *g, uint64_t token, char *actions, const char *word);
struct gate_effect *effect_last(const struct gate *g); /* the newest one, if it is whole */
void effect_err(struct gate *g, uint64_t token, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void effect_name(struct gate *g, enum gate_effect_kind kind, const char *worker,
		 uint64_t generation, uint64_t sequence);
void effects_free(struct gate *g);

/* gate_members.c */
extern const char *const worker_state_name[WORKER_STATES + 1]; /* and NULL */
struct worker *worker_find(const struct gate *g, const char *id); /* NULL: never seen */
struct worker *worker_of(const struct gate *g, const struct gate_who *who); /* the same, by its seat */
struct worker *worker_get(struct gate *g, const char *id);
void worker_out(struct gate *g, struct worker *w, const char *why);
/* What gate_idle() adds to a unit's divisor. */
uint64_t worker_idle_samples(const struct gate *g);
/* Lets in those that wait; under BSP only when no one is active, or a unit has `closed`. */
void worker_let_in(struct gate *g, int closed);
void worker_fence(struct gate *g, struct worker *w);
/* A worker that tells of itself before it joins, if neither its incarnation nor its generation is
 * over; else NULL. */
struct worker *worker_telling(struct gate *g, const struct gate_who *who);
int worker_order(const void *a, const void *b); /* of struct worker * */

/* gate_pushes.c */
/* The member who says something; NULL: he is none, and was told so. */
struct worker *pushes_pusher(struct gate *g, const struct gate_who *who);
struct push *push_new(struct gate *g, size_t ranges); /* NULL: no memory */
void push_free(struct gate *g, struct push *p);
void pushes_start(struct pushes *list);
static inline void pushes_add(struct pushes *list, struct push *p)
{
	struct push **far = &list->lately[list->row % PUSHES_FAR];

	if (list->row++ >= PUSHES_FAR)
		(*far)->ahead = p;
	*far = p;
	p->next = NULL;
	*list->end = p;
	list->end = &p->next;
	list->count++;
}
void pushes_remove(struct pushes *list, struct push *p);
void pushes_hold(struct gate *g, struct push *p); /* a new one, of a worker of which none is held */
static inline void pushes_end(struct push *p)     /* its worker has it no longer */
{
	struct worker *w = p->worker;

	if (w->push == p)
		w->push = w->older;
	w->older = NULL;
}
#define PUSHES_AHEAD 8
/* The one so many behind p, or NULL: a walk fetches what it will touch there. */
struct push *pushes_ahead(struct push *p, size_t count);

/* gate_grants.c */
void grants_step(struct gate *g); /* decides about what is announced */
/* Whether p may be committed after `version` units: no promise is broken by that. */
int grants_let_commit(struct gate *g, const struct push *p, uint64_t version);
void grants_repeat(struct gate *g, struct push *p, uint64_t token); /* it is announced again */
void grants_end(struct gate *g, struct worker *w, const char *why);
/* A push of w has come, which says that it is of this group. What w had announced is over, and was
 * maybe this. */
void grants_take(struct gate *g, struct worker *w, struct push *came, uint64_t group);
/* A group of several hosts has been committed, or not. */
void grants_judge_crew(struct gate *g, const struct push *p, int is_over);
/* One of its members does not come, or can't be committed: all are dropped, whose rows go back. */
void grants_give_up(struct gate *g, uint64_t group);

/* gate_units.c */
int units_has_step(const struct push *p); /* there is a gradient of it to be applied */
/* The delay of a push that is committed after `version` units; 0 if it says that it pulled more. */
uint64_t units_delay(const struct push *p, uint64_t version);
void units_step(struct gate *g);
void units_cut(struct gate *g);  /* begins the cut that is wanted, if it can begin now */
void units_late(struct gate *g); /* settles late pushes, alone */
void units_release(struct gate *g); /* answers what waits, if it need not wait longer */
void units_quit(struct gate *g, const char *why);
/* Asks shardd to settle what is in g->sent. */
void units_settle(struct gate *g);
/* Ends a push that was taken out of g->sent: answers it; if it was refused, its worker is out. */
void units_finish(struct gate *g, struct push *p);
uint64_t units_slowest(struct gate *g);
void units_goes_on(struct gate *g, const struct worker *w); /* it is no longer as slow as it was */
void units_throw(struct gate *g, struct worker *w);

/* gate_sums.c */
void sums_step(struct gate *g);
/* The unit is committed: tells the replicas, and opens the next iteration. */
void sums_commit(struct gate *g);
void sums_refused(struct gate *g);     /* nothing of the unit was settled */
int sums_cut_waits(const struct gate *g); /* a cut must wait for a unit that is checked */

/* gate_late.c: nothing happens where nobody is late */
int late_is_out(const struct gate *g, const struct worker *w); /* of the open iteration */
int late_is_ready(const struct worker *w);
void late_step(struct gate *g);  /* decides who is late, before a sum is opened */
void late_alone(struct gate *g); /* puts out those that are late, if they are all that is left */
void late_pushed(struct gate *g, struct worker *w);                /* its push has come */
void late_left(struct gate *g, struct worker *w, const char *why); /* it is out */

/* gate_begins.c: only for foreign members */
void begins_step(struct gate *g);
void begins_saved(struct gate *g);          /* shardd has saved: members are told */
int begins_may_enter(const struct gate *g); /* BSP: the barrier is not passed */
void begins_cut_over(struct gate *g);
void begins_again(struct gate *g, struct worker *w); /* answers its begin, if that waits */
void begins_out(struct gate *g, struct worker *w, const char *why);
void begins_trained(struct gate *g, const struct worker *w, uint64_t generation);
/* The answer that was just made is w's: it also tells w of the cut, and that the model is trained
 * enough, if w must be told. */
void begins_tell(struct gate *g, struct worker *w);

/* gate_states.c: only for foreign members with replicas */
int states_are(const struct gate *g);
void states_begin(struct gate *g); /* before the first iteration: whose state is everybody's */
int states_let_in(const struct gate *g, const struct worker *w); /* also where there are no states */
void states_bring(struct gate *g); /* those who wait are told how to get the state, or somebody gives it */
void states_out(struct gate *g, struct worker *w);
/* As worker_out(), for one that may come back: then it still has the state that it has now. */
void states_absent(struct gate *g, struct worker *w, const char *why);
/* The same, for one that has not asked for anything which could be answered. It hears of that when
 * it joins again, or pushes. */
void states_put_out(struct gate *g, struct worker *w, const char *why);
int states_hold(const struct gate *g); /* a settle waits for a state */
/* The answer that was just made is w's: it also tells w to give its state, if w is to give it. */
void states_tell(struct gate *g, struct worker *w);
/* Whether the members train no further sum, all having heard that it is enough. */
int states_know(const struct gate *g);
/* Whether w can't leave yet: nobody else has the state for which others wait. It is to give it. */
int states_stays(struct gate *g, struct worker *w);
#define STATES_SAMPLES_MAX 64
#define STATES_BEGINNING_MAX 40
/* " samples=N round=N" of the last commit, for those who step with its sum; "" where nobody does. */
const char *states_samples(const struct gate *g, char out[STATES_SAMPLES_MAX]);
/* " beginning=N" before the first commit, once somebody has begun; else "". */
const char *states_beginning(const struct gate *g, char out[STATES_BEGINNING_MAX]);
/* Whether answers to what is committed now are held for a cut. */
int states_keeps(const struct gate *g);
int states_may_cut(struct gate *g);
void states_saved(struct gate *g); /* shardd has */

/* gate_replicas.c */
int replicas_new(struct gate *g); /* -1: no memory */
void replicas_place(struct gate *g); /* decides about replicas that came, if no settle is out */
size_t replicas_in(const struct gate *g);
int replicas_hold(const struct gate *g); /* one is being filled */
int replicas_same(const struct gate *g); /* those in force are those of the open sum */
/* Puts those in force into e->to; 0 when there was no memory. */
int replicas_to(struct gate *g, struct gate_effect *e);

/* gate_sizes.c */
void sizes_ask(struct gate *g, uint64_t iteration); /* the members of it are those active now */
/* The size of w, if it was not told yet (or `again`), followed by `actions`, which it takes; the
 * caller frees the result. NULL: nothing. */
char *sizes_tell(struct gate *g, struct worker *w, char *actions, int again);
/* Its next answer must tell w its size. */
static inline int sizes_wait(const struct worker *w)
{
	return w->size && !w->size_told;
}
void sizes_free(struct gate *g);

/* gate_actions.c */
void acts_publish(struct gate *g);
/* Actions for w: those that it has not seen; those in force. The caller frees them; NULL: none. */
char *acts_unseen(struct gate *g, struct worker *w);
/* There are actions that w has not seen, maybe not for it. */
static inline int acts_wait(const struct gate *g, const struct worker *w)
{
	return w->acts_seen < g->acts_base + g->acts;
}
char *acts_in_force(struct gate *g, const struct worker *w);
/* The line of this kind and id that is in force, or NULL; key is room for its name. */
struct force *acts_force(const struct gate *g, const char *kind, const char *id, char *key);
void acts_keep(struct gate *g, const struct record *r, const char *line, size_t len);
int acts_add(struct gate *g, char *lines, size_t len); /* takes lines */
void acts_free(struct gate *g);

#endif

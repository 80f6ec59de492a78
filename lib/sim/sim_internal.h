/* The inside of a simulation: cluster.c (what the input says), trainer.c (workers), network.c (links), leading.c
 * (the lead's effects, shardd, servers), wave.c (a barrier's pushes), announce.c (pushes that take turns), overlap.c
 * (batches beside sums), back.c (to a checkpoint), control.c (monitor, decisions, restarts), hung.c (who hangs), scale.c,
 * resources.c (the brain), sim.c (the loop). */
#ifndef PACELINE_SIM_SIM_INTERNAL_H
#define PACELINE_SIM_SIM_INTERNAL_H

#include "sim/sim.h"

#include "base/fetch.h"
#include "job/brain_filter.h"
#include "job/dirs.h"
#include "lead/gate.h"
#include "meter/device.h"
#include "meter/times.h"
#include "monitor/monitor.h"
#include "monitor/pulse.h"
#include "plan/measure.h"
#include "plan/rounds.h"
#include "plan/want.h"
#include "predict/predict.h"
#include "record/drag.h"
#include "shard/queue.h"
#include "sim/events.h"
#include "solve/balance.h"
#include "solve/decision.h"
#include "solve/restart_guard.h"
#include "solve/snapshot.h"
#include "solve/solution.h"
#include "straggle/schedule.h"
#include "work/actions.h"

#define SIM_EPOCH 1e9 /* at= of the records at the job's start: a monitor takes 0 for unknown */
#define SIM_NODES_MAX 1048576
#define SIM_SERVERS_MAX 4096
#define SIM_ACTIONS_BYTES_MAX (SIM_NODES_MAX * (size_t)1024) /* of a decision about all of them */
#define SIM_AHEAD_MAX 65536
#define SIM_SECONDS_MAX 1e9 /* 31 years: then it stops; the lead's nanoseconds fit 64 bits */
#define SIM_EVERY_MIN 1e-3 /* between two decisions, two checkpoints: else time stands still */

#define SIM_NO_HOST UINT32_MAX
#define SIM_NO_DELAY UINT64_MAX

/* From when on a record holds for a node, or, behind the nodes, for a host: until its next one. */
struct sim_from {
	double at;
	uint32_t node, number; /* number: of the records of its kind, in the order in which they came */
};

struct sim_drag {
	struct sim_from from;
	struct drag drag;
};

/* A link carries so many bytes a second, before its first record any number. */
struct sim_link {
	struct sim_from from;
	double rate;
};

/* What one link carries: a node's, or a host's. */
struct sim_line {
	const struct sim_link *link; /* its first record; so many */
	size_t links;
	double busy_until; /* with what was asked for so far; not a worker's, which asks for one thing at a time */
};

enum sim_happens {
	HAPPENS_KILL,
	HAPPENS_JOIN,
	HAPPENS_LEAVE,
	HAPPENS_STOP,
	HAPPENS_GO_ON,
	HAPPENS_RESTART, /* as KILL_RESTART; also of a server */
	HAPPENS_SCALE
};

struct sim_happening {
	enum sim_happens kind;
	uint32_t node;
	uint64_t workers, servers; /* HAPPENS_SCALE */
};

/* A change of the number of nodes. */
struct sim_scale {
	int under_way;
	double began;
	uint64_t from_workers, from_servers, servers; /* servers: as wanted */
	char reason[64];
};

/* Of the job; as a job's log has them. */
struct sim_job {
	char id[OPTION_ID_MAX], sync[32], solution[DIRS_PATH_MAX];
	/* workers, servers, backup: so many it has now; places: so many there may be */
	uint64_t workers, servers, worker_places, server_places, hosts, samples, batch, shard, epochs, ahead, report, backup;
	int grows; /* the batch, with the workers */
	double bytes; /* of all parameters */
	double every, window_short, window_long, checkpoint;
	/* restarts by intention */
	double restart_window, restart_cooldown;
	uint64_t restart_limit;
	uint64_t delay; /* the bound under ssp and asp; SIM_NO_DELAY: none */
	int overlaps;   /* under allreduce: a batch is computed while the one before is summed */
	double late;    /* with that: times the median, from which on a batch is late; 0: never */
	int by_links;   /* FABRIC=mlfabric */
	uint64_t restarts; /* of a node, in a row, after ends that nobody wanted */
	struct solution_options options;
	int profile; /* workers measure their devices */
	/* How they predict their speeds, for sizes at every barrier. */
	int predicts, load; /* load: they see that of their nodes */
	enum predict_model predict;
};

/* How many nodes of which size there are is found while the job trains. */
struct sim_brain {
	char program[DIRS_PATH_MAX]; /* "": there is none */
	struct brain_limits limits;
	uint64_t limit; /* of changes */
	uint64_t first[PLAN_ROLES]; /* cores of a node at the beginning, which costs hold for */
	double most[PLAN_ROLES];    /* that a node can use; 0: all */
	double uses[PLAN_ROLES];    /* bytes: a worker, all servers together */
	struct plan_role_size size[PLAN_ROLES]; /* cores that nodes are to have */
	/* the round that is measured */
	int is_measuring;
	double since;
	uint64_t which; /* the processes that there were as it began */
	struct measure measure;
	struct snapshot snapshot;
	const struct snapshot_node **seen; /* of each node; NULL: not known */
	struct rounds rounds;
	/* the change under way */
	int changing;
	unsigned resizing; /* a bit for each role whose nodes get another size, once the numbers have changed */
	char reason[128];
	double began, before;
	uint64_t samples;
	struct want_past past;
	char fails[ERROR_TEXT_MAX], told[256]; /* what was said last */
};

/* Pushes that are granted together; all of them are told so at once. */
struct sim_group {
	uint64_t number;
	struct sim_node **node;
	size_t count, room;
};

/* The queue and the parameters, as a checkpoint has them. */
struct sim_saved {
	char *text; /* NULL: there is none */
	size_t len;
	uint64_t iteration, samples;
};

/* All may go back to a checkpoint: a server may die. */
struct sim_back {
	int is_possible;
	struct sim_saved last, next; /* next: being written */
};

/* Whether pushes are announced, and what the lead knows of the links. */
struct sim_announce {
	int is_on;
	struct turns *turns;
	int is_timed; /* the lead wants to know the time: they are, or a batch may be late */
	double known_until;
	uint64_t known_servers;
	uint64_t *part; /* bytes of a push to each server */
	size_t part_room;
	int64_t ns, due; /* the lead's clock, and when it wants to be told of it; INT64_MAX: never */
	struct sim_group group;
};

/* Seconds, each measured on a real job (see trainsim(1)). */
struct sim_cost {
	double rows, pull, push, message, sum, commit, apply, batch, sample, start, stagger, save,
		start_server, hand_over, pending, pending_more;
};

/* Rows in a worker's hand. */
struct sim_piece {
	uint64_t id, begin, length;
};

enum sim_state {
	SIM_OFF,       /* it has no process */
	SIM_STARTING,
	SIM_IDLE,
	SIM_WAITING,   /* no member: it has no rows, and waits at shardd */
	SIM_JOINING,
	SIM_COMPUTING,
	SIM_ASKING,    /* it has announced its push */
	SIM_PUSHING,   /* to the answer */
	SIM_LEAVING
};

/* A hundred thousand of them don't fit a cache: what each batch touches stands first, in lines of 64 bytes, by when
 * it is touched, and is fetched ahead by these lines (sim_fetch()). */
enum {
	SIM_LINES_ANSWER = 1 | 2 | 4 | 8 | 64,
	SIM_LINES_REPORT = 16, /* beside those of the answer */
	SIM_LINES_PUSH = 1 | 2 | 4 | 8 | 32,
	SIM_LINES_NEXT = 1 | 2 | 4 | 8
};
#define SIM_FEW 2
struct sim_node {
	/* at each event */
	_Alignas(64) unsigned char state; /* enum sim_state */
	unsigned char is_member;
	unsigned char is_stopped; /* it lives and does not move */
	unsigned char has_asked;  /* see `coming` */
	uint32_t life;
	double late; /* by so much its own work ends later than planned */
	/* It owes its next step since then (a worker, no server); below 0: it owes nothing. */
	double owes;
	double mark, pushed_at; /* when it began to see to its next batch; when this one is pushed */
	uint64_t iteration, generation;
	uint32_t seat, row_seat; /* gate_seat(), queue_seat() */

	struct tally_batch batch;
	uint64_t sequence, rows_held;
	double pace; /* its computing takes so many times as long as with its first cores */
	/* with its push, and its next batch */
	struct sim_piece few[SIM_FEW]; /* see worker_hand() */
	uint32_t helds, many_room;
	double turn_delay; /* where its drag comes from: */

	uint32_t turn;            /* 0: none */
	uint32_t turn_slot;       /* this slot has said turn_delay in this turn, see struct sim */
	uint32_t slot, life_slot; /* of the schedule + 1; 0: none */
	uint32_t slot_life;       /* of life_slot */
	uint32_t drags;           /* so many of its own */
	struct sim_piece coming;  /* what shardd has answered; length 0: there are no rows now */
	struct actions actions;   /* sizes, which are the rest of this line */
	enum node_role role;
	/* with its push */
	_Alignas(64) struct pulse pulse;
	struct predictor *speed; /* NULL: none yet */
	uint64_t pulled; /* units in the parameters that it computes with, where the delay has a bound */
	const struct sim_drag *drag; /* the first of its own */
	/* with the answer */
	struct tally tally;
	/* seldom */
	uint32_t drag_at; /* so many of its own drags have begun */
	struct sim_piece *many; /* see worker_hand() */
	int is_listed; /* among those who wait at shardd, or did; behind it: */
	struct sim_node *next_waiter;
	double ready_at; /* its process became a member; below 0: it has not */
	double watched, watched_since; /* it is judged then; what it owed since then when this was planned */
	uint32_t host; /* where it is; SIM_NO_HOST: a server on one of its own */
	double foretold; /* samples a second of its next batch; 0: not known */
	struct sim_line line;
	char id[OPTION_ID_MAX];
	int has_come; /* its first process was there, or never will be */
	/* It stands still since then, and what it was to do meanwhile, if anything. */
	int is_due;
	double stopped;
	struct event due;
	uint64_t in_a_row; /* failures */
	/* What it has announced: its rows, and the group in which they are sent; 0: none. */
	struct gate_range *announced;
	size_t ranges;
	uint64_t group;
	double busy_until; /* a server */
	double cores; /* of its next process, where there is a brain */
	/* Where batches overlap with sums: */
	int is_flying;   /* its last push, of so many samples, is not answered */
	int has_told;    /* the lead that its batch is computed */
	int awaits;      /* the sum that goes on without it */
	uint64_t flying;
	double computed_at; /* of its EVENT_COMPUTED; below 0: there is none */
	double waits_since; /* its batch was computed then; below 0: it is not */
	struct restart_past past; /* restarts by intention */
	uint64_t in_force; /* samples of its batch that were decided on; 0: nobody has */
};
_Static_assert(offsetof(struct sim_node, few) == 128 && offsetof(struct sim_node, actions.accum) + 8 == 256 &&
	       offsetof(struct sim_node, pulse) == 320 && offsetof(struct sim_node, tally) == 384,
	       "the lines that are fetched");

/* The pushes of those that began at once, at one barrier: see wave.c. */
struct sim_wave {
	struct event *event;
	size_t count, room;
	size_t last; /* the one that is there last */
};

struct sim {
	struct sim_options options;
	struct sim_job job;
	struct sim_cost cost;
	struct sim_drag *drag; /* by node and time */
	size_t drags, drag_room;
	struct sim_link *link; /* likewise */
	size_t links, link_room;
	struct sim_line *host; /* as many as the job has */
	struct sim_happening *happening;
	size_t happenings, happening_room;
	struct schedule *schedule;
	struct drag dragged; /* see cluster_drag() */
	struct tally_rules reports; /* of all nodes */
	uint32_t turn; /* counts from 1 how often the patterns may have changed; they may again: */
	double turn_ends;

	double now;
	struct events events;
	/* Events before EVENT_ASK: so many are to come; when the last one was. */
	size_t moves;
	double moved_at;
	struct sim_node *node; /* workers first; none before the job is known */
	const char **id;       /* of each, for the schedule */
	size_t *row_seat;      /* queue_seat() of the worker with a gate_seat(), which counts from 1 */
	/* Places of workers; then servers, those that the job has now up to `nodes`, and their places. */
	size_t workers, nodes, places;
	uint64_t first_workers, first_servers; /* so many it began with */
	uint64_t chance; /* of pending times */
	struct sim_scale scale;
	struct sim_brain brain;
	struct pulse_rules hung;
	struct sim_announce announce;
	struct sim_back back;
	uint64_t incarnation; /* of the queue and the lead */
	struct gate *gate;
	struct queue *queue;
	struct sim_node *first_waiter, *last_waiter; /* at shardd, in the order in which they came */
	struct monitor *monitor;
	struct balance *balance;
	/* The sum that is open, with replicas, one on each host. */
	struct order_member *member;
	size_t members, member_room;
	uint64_t round;   /* 0: none */
	size_t pushed;    /* so many of the first members have pushed */
	/* The settle that is out. */
	struct queue_range *range;
	size_t ranges, range_room;
	struct queue_settlement settlement;
	int is_obeying;
	/* Whether whoever is answered begins its next batch at once: see worker_may_begin_at_once(). */
	enum { AT_ONCE_NO, AT_ONCE_MAYBE, AT_ONCE_YES } at_once;
	struct sim_wave wave;
	/* Whom the lead will answer: only to be fetched. */
#define SIM_ANSWERS 32 /* a power of two, more than 3 * LEADING_AHEAD */
	struct sim_answer {
		const struct sim_node *node;
		int reports, asks; /* probably, once it is answered */
	} answer[SIM_ANSWERS];
	size_t answered;
	double served_at; /* then the last server is free */
	size_t to_come;   /* workers whose first process is not there yet */
	int is_expecting; /* the first worker has come to the lead */
	int is_smaller;   /* somebody has left whom the lead expects at its beginning */
	double first_at, last_at;
	/* decisions */
	double decided_at;
	int has_decided;
	char fails[ERROR_TEXT_MAX]; /* why the last decision was skipped; "": it was not */
	double restarted; /* the last restart by intention of any node; 0: none */
	struct sim_result result;
	int failed;
	struct error err;
};

/* cluster.c */
int cluster_ready(struct sim *s, struct error *err); /* all is known */
void cluster_free(struct sim *s);
extern const struct drag cluster_no_drag;
const struct drag *cluster_look_at_drags(struct sim *s, struct sim_node *n);
int cluster_stays(struct sim *s, double until); /* patterns don't change from now to then */
/* What drags the node now; valid until the next call. Mostly that was looked at in this turn, and it is nothing. */
static inline const struct drag *cluster_drag(struct sim *s, struct sim_node *n)
{
	if (n->drags == 0 && n->life_slot == 0 &&
	    (n->slot == 0 || (n->turn == s->turn && s->now < s->turn_ends && n->turn_slot == n->slot && !(n->turn_delay > 0))))
		return &cluster_no_drag;
	return cluster_look_at_drags(s, n);
}

/* back.c */
void back_cut(struct sim *s);   /* a checkpoint begins */
void back_saved(struct sim *s); /* it is written */
void back_go(struct sim *s);
void back_free(struct sim *s);

/* overlap.c */
void overlap_computes(struct sim *s, struct sim_node *n, double until); /* its batch, until then */
void overlap_plan(struct sim *s, struct sim_node *n, double at);        /* EVENT_COMPUTED, in place of one that there was */
int overlap_is_void(const struct sim *s, const struct sim_node *n, const struct event *e);
int overlap_may_push(struct sim *s, struct sim_node *n); /* what it has computed; 0: not yet */
void overlap_settled(struct sim *s); /* where batches may be late */
void overlap_pushed(struct sim *s, struct sim_node *n);
void overlap_answered(struct sim *s, struct sim_node *n, const struct gate_effect *e);
void overlap_late(struct sim *s, struct sim_node *n, const struct gate_effect *e);
void overlap_forget(struct sim_node *n); /* what was not answered belongs to a life, or a generation, that is over */
/* Such a token is of what the lead was told of a batch, not of a push. */
int overlap_is_token(uint64_t token);

/* network.c */
/* When the parameters, or as many gradients, are between a worker and all servers. The link of a server, and
 * of a host, carries what it is asked for in that order. */
double network_exchange_over_links(struct sim *s, const struct sim_node *n, double from);
static inline double network_exchange(struct sim *s, const struct sim_node *n, double from)
{
	return s->links == 0 ? from : network_exchange_over_links(s, n, from);
}
double network_hop(struct sim *s, uint32_t from, uint32_t to, double at); /* an update, from host to host */
double network_rate(const struct sim_line *l, double at, double *next); /* INFINITY: not limited; next: then it changes */
struct sim_line *network_line(struct sim *s, size_t number); /* of a node, or a host: see sim_from */
double network_sum(struct sim *s); /* when a sum that begins now has gone round the hosts */

/* trainer.c */
struct gate_who worker_who(const struct sim *s, const struct sim_node *n);
/* From then on it pulls and computes, if its batch has begun at `mark`. */
void worker_computes(struct sim *s, struct sim_node *n, double from, double mark);
int worker_begins_next(struct sim *s, struct sim_node *n, double mark); /* 0: it has no rows */
void worker_obeys(struct sim *s, struct sim_node *n, const char *actions);
uint64_t worker_number(const char *digits); /* strtoull() takes ten times as long, and each batch has one of them */
void worker_start(struct sim *s, struct sim_node *n);
void worker_next(struct sim *s, struct sim_node *n);
void worker_begins_anew(struct sim *s, struct sim_node *n); /* with a new queue and a new lead */
void worker_asks_again(struct sim *s, struct sim_node *n);
void worker_pulled(struct sim *s, struct sim_node *n);
void worker_computed(struct sim *s, struct sim_node *n, double at);
void worker_announces(struct sim *s, struct sim_node *n);
void worker_sent(struct sim *s, struct sim_node *n, double end); /* what it has announced; it is there then */
void worker_pushed(struct sim *s, struct sim_node *n);
void worker_leaves_job(struct sim *s, struct sim_node *n);
void worker_answered(struct sim *s, struct sim_node *n, const struct gate_effect *e);
void worker_dies(struct sim *s, struct sim_node *n);
void worker_serve(struct sim *s); /* rows may have come back: who waits for some gets them */
void worker_stops(struct sim *s, struct sim_node *n);
void worker_goes_on(struct sim *s, struct sim_node *n);
/* Whether an event of a worker can't be now: it stands still, or its work ends later. */
int worker_holds_up(struct sim *s, struct sim_node *n, const struct event *e);
static inline int worker_is_held_up(struct sim *s, struct sim_node *n, const struct event *e)
{
	return (n->is_stopped || n->late > 0 || s->job.overlaps) && worker_holds_up(s, n, e);
}

/* announce.c */
void announce_options(struct sim *s, struct gate_options *o);
void announce_free(struct sim *s);
void announce_clock(struct sim *s); /* the lead is told the time */
void announce_clock_is_due(struct sim *s);
void announce_links_changed(struct sim *s);
void announce_push(struct sim *s, const struct gate_who *who, struct gate_push *push);
void announce_granted(struct sim *s, struct sim_node *n, const char *fields);

/* leading.c */
int leading_ready(struct sim *s, struct error *err);
/* A new lead, for so many workers that are there; the parameters have so many units. */
int leading_again(struct sim *s, uint64_t iteration, size_t there, struct error *err);
void leading_obey(struct sim *s); /* what the lead wants, after each call of it */
void leading_settled(struct sim *s);
void leading_summed(struct sim *s, uint32_t round);
int leading_has_replicas(const struct sim *s);
void leading_busy(struct sim *s, struct sim_node *n, double seconds); /* a server, from now on */

/* wave.c */
void wave_plan(struct sim *s, double at, const struct sim_node *n); /* its push is at the lead */
void wave_go(struct sim *s); /* all have begun who begin at once */
void wave_free(struct sim *s);

/* hung.c */
void hung_plan(struct sim *s, struct sim_node *n); /* it may hang: it is judged when it would */
static inline void hung_rests(struct sim *s, struct sim_node *n) /* it owes nothing now */
{
	if (n->owes >= 0 && s->now > n->owes)
		n->pulse.busy += s->now - n->owes;
	n->owes = -1;
}
static inline void hung_owes(struct sim *s, struct sim_node *n, double from) /* its next step */
{
	hung_rests(s, n);
	n->owes = from;
	if (n->is_stopped)
		hung_plan(s, n);
}
/* The same, if what it owes comes so late that it could be given up before. */
void hung_plan_if_long(struct sim *s, struct sim_node *n, double until);
void hung_look(struct sim *s, struct sim_node *n);

/* scale.c */
/* So many from now on, or as soon as they are there. -1: another change is under way. */
int scale_want(struct sim *s, uint64_t workers, uint64_t servers, const char *reason);
void scale_step(struct sim *s); /* a node is there */
uint64_t scale_workers_most(const struct sim *s);

/* resources.c */
int resources_is_there(const struct sim *s);
int resources_ready(struct sim *s, struct error *err);
void resources_free(struct sim *s);
void resources_look_at_job(struct sim *s);
void resources_step(struct sim *s); /* the change under way, if there is one */
void resources_started(struct sim *s, struct sim_node *n); /* its process is there */
void resources_size(struct sim *s, struct sim_node *n);    /* a new node gets the cores of its role */
double resources_busy_cores(const struct sim *s, const struct sim_node *n); /* while it computes */
void resources_log_known(struct sim *s, struct record_out *o); /* sizes, and what was changed */

/* control.c */
int control_ready(struct sim *s, struct error *err);
void control_report(struct sim *s, struct sim_node *n);
void control_event(struct sim *s, const struct sim_node *n, const char *kind);
/* A worker's process starts so long from now; `kind` is what the log calls it. */
void control_start(struct sim *s, struct sim_node *n, const char *kind, double after);
/* It is killed, as it was silent for too long. */
void control_gives_up(struct sim *s, struct sim_node *n, const char *section, double silent, double limit);
/* By intention. Returns why it may not be, as a word of the log; NULL: it begins. */
const char *control_restart(struct sim *s, struct sim_node *n, int force, const char *reason);
void control_series(struct sim *s);
void control_look(struct sim *s);
void control_device(struct sim *s, struct sim_node *n);
void control_server_started(struct sim *s, struct sim_node *n);
void control_happens(struct sim *s, uint32_t number);
/* Carries out a decision: all, or nothing. */
int control_carry(struct sim *s, const struct decision *d, struct error *err);

/* By it the lead knows the process of a worker; it may answer one that is dead by then. */
static inline uint64_t sim_process(const struct sim *s, const struct sim_node *n)
{
	return ((uint64_t)n->life << 32 | (uint64_t)(n - s->node)) + 1;
}

/* NULL: it is none. */
static inline struct sim_node *sim_of_process(const struct sim *s, uint64_t process)
{
	uint32_t i = (uint32_t)(process - 1);
	return i < s->workers ? &s->node[i] : NULL;
}

/* These of its lines will soon be touched. */
static inline void sim_fetch(const struct sim_node *n, unsigned lines)
{
	for (size_t i = 0; i < 8; i++)
		if (lines >> i & 1)
			fetch_ahead((const char *)n + 64 * i, 1);
}

/* Whether its next batch will have it ask for rows, by about what it has. */
static inline int sim_asks_soon(const struct sim *s, const struct sim_node *n)
{
	return n->rows_held * 2 <= n->actions.size * s->job.ahead;
}

/* sim.c */
void sim_fail(struct sim *s, const struct error *err);
void sim_fail_memory(struct sim *s);
void sim_fetch_ahead(const struct sim *s, const struct event *e, size_t count); /* of events to come */
void sim_plan_as(struct sim *s, double at, enum event_kind kind, uint32_t number, uint32_t life);
void sim_plan(struct sim *s, double at, enum event_kind kind, const struct sim_node *n);
void sim_log(struct sim *s, struct record_out *o); /* with at= */
void sim_log_text(struct sim *s, const char *line, size_t len);
/* For people: into the log, and by log_say() what is no plan of a brain. */
void sim_note(struct sim *s, const char *type, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
struct sim_node *sim_find(struct sim *s, const char *id);
int sim_has(const struct sim *s, const struct sim_node *n); /* the job has it now */

#endif

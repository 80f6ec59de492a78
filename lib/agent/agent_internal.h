/* What the files of the agent share: agent.c (begin, waiting, end), agent_batch.c (rows, the lead),
 * agent_words.c (the trainer), agent_look.c (how it is), agent_speed.c (how fast it is, what fits
 * its memory), agent_rows.c (its input), agent_save.c (checkpoints) and agent_sums.c (sums by the
 * host's replica). */
#ifndef PACELINE_AGENT_AGENT_INTERNAL_H
#define PACELINE_AGENT_AGENT_INTERNAL_H

#include "agent/agent.h"
#include "agent/rows_pipe.h"
#include "agent/saved_files.h"
#include "agent/stock.h"
#include "agent/words.h"
#include "base/boot.h"
#include "meter/gauge.h"
#include "meter/meter.h"
#include "proc/inspect.h"
#include "work/actions.h"
#include "work/conversation.h"
#include "work/lead_client.h"
#include "work/part_client.h"
#include "work/spare.h"

enum phase {
	PHASE_OUT,     /* no member */
	PHASE_JOINING, /* asked, and not answered, as in all that end in -ING */
	PHASE_IN,      /* a member that has not said what its next batch is */
	PHASE_BEGINNING,
	PHASE_READY,   /* the iteration has begun; the trainer has its batch, or will */
	PHASE_STAGING, /* the gradient is given to the replica, before the lead is told */
	PHASE_PUSHING,
	PHASE_ENDING,
	PHASE_LEAVING,
	PHASE_GIVING, /* it says end or leave again when it has given its state to others */
	PHASE_ENDED /* the job is finished */
};

/* ROOM, STATE and STATE_GET are for the replica, PUSH is for both. */
enum ask {
	ASK_JOIN,
	ASK_BEGIN,
	ASK_PUSH,
	ASK_END,
	ASK_LEAVE,
	ASK_SAVED,
	ASK_TRAINER,
	ASK_ENOUGH,
	ASK_REPORT,
	ASK_GIVEN,
	ASK_ROOM,
	ASK_STATE,
	ASK_STATE_GET,
	ASK_OVER /* nobody wants the answer */
};

struct asked {
	enum ask kind;
	uint64_t count; /* of BEGIN: samples */
	double at;
};

/* What the lead, or the replica, was asked and has not answered, in this order. A ring. */
struct asks {
	struct asked item[CONVERSATION_OPEN_MAX];
	size_t first, count;
};

#define SAVES_MAX 16
#define SAVES_OPEN "the trainer has not answered the saves before"

/* What the trainer was told to save, and has not answered. OVER: nobody waits for it any more. */
enum saving { SAVING_OVER, SAVING_CUT, SAVING_GIVE };

/* A checkpoint that the trainer shall write, or has written. */
struct save {
	int is_due; /* the trainer must be told, with the next answer */
	int only_memory; /* another one saves: this one's state is only held in memory */
	enum saving told[SAVES_MAX];
	size_t told_count;
	uint64_t iteration;
	char *cut;          /* directory of the checkpoint */
	char *dir;          /* in it, the trainer's */
	char *files;        /* lines for the lead; kept until there are others */
	int memory;         /* a file in which the trainer may write instead; -1: none */
	uint64_t length;    /* of the last one that it has written there */
	int resumed;        /* what it goes on from, in memory; -1: it is on the disk */
	struct saved_state held; /* what it has written there, until it is known to be a checkpoint */
	struct saved_files *reading; /* what was saved, while that is being read; NULL: nothing is */
	int reading_is_old;          /* another checkpoint has become due since */
};

/* The state of the trainer, as the lead was told. */
struct look_seen {
	int waits;     /* in a collective, for other trainers: it says so each second */
	int stopped;   /* SIGSTOP, a debugger */
	double pauses; /* seconds that it may pause, as it has said; 0: it does not */
	char state[64], wchan[64]; /* as the kernel says; "": nobody has asked */
};

struct look {
	struct look_seen seen, told;
	int is_asked;   /* the lead has not answered */
	double turn_at; /* since then the trainer has the word: it is its turn */
	double at;      /* of the last look in this turn; 0: none */
	double waits_at;
	struct inspect_motion motion;
};

/* How fast the trainer is. */
struct pace {
	struct speed *speed; /* NULL: that is not predicted */
	struct gauge gauge;
	int is_named;          /* the trainer has said what its device is */
	int is_card;           /* a card: how full its memory is, only the trainer knows */
	double work, rows;     /* of all batches whose work the trainer has said */
	double took;           /* seconds of the batch, whatever its rows */
	int gauged;            /* the batch is one by which the device is measured */
	uint64_t held;         /* rows of the largest step that has fitted the memory */
	int was_full;          /* in this batch */
};

/* What is expected soon, so that the agent polls for a moment before it sleeps. */
enum spin { SPIN_NONE, SPIN_LEAD, SPIN_WORD, SPINS };

enum word { WORD_NONE, WORD_NEXT, WORD_STEP, WORD_SUMS };

/* With a replica (agent_sums.c). */
struct sums {
	struct part_client part; /* that replica */
	uint64_t floats;         /* of the gradient; 0: the trainer has not said it */
	double since, retry_at;  /* since then it is not there; no sooner is it tried again */
	struct asks asked;
	int is_open; /* it sums for us */
	/* The trainer has all that was committed before this iteration. 0: it needs another's
	 * state. An incarnation is a life of the job: after it, iterations come again. */
	int is_whole;
	uint64_t version, incarnation;
	uint64_t beginning; /* of which a state of version 0 is, as the lead has numbered it; 0: none */
	int began;   /* the trainer has said next: it has made its model */
	int loading; /* it was told to resume, and has not said next again */
	int filling; /* the state of another trainer has been asked for */
	int state_fd; /* that state; -1: none */
	/* The iteration that the trainer lacks was committed while the lead did not know us. */
	struct {
		int is_due, is_bad; /* is_bad: the sum is not finite */
		uint64_t iteration, round, samples;
	} step;
	/* The trainer's own state is wanted for another one. */
	struct {
		int is_due, fd; /* fd: where it is written; the trainer may know it; -1: none */
		uint64_t iteration, attempt;
	} give;
	uint64_t samples; /* of the last iteration, on all hosts; 0: nobody had rows */
};

struct agent {
	struct agent_options options;
	struct command command;
	uint64_t kills_before; /* for want of memory, on this machine, when it began */
	struct words words;
	struct rows_pipe *rows; /* NULL: its standard input is empty */
	struct record record; /* the word read last */
	enum word word;       /* the word that is not answered yet */
	double word_at;
	int takes_empty; /* the trainer takes part in every iteration, also without rows */

	struct shards *shards;
	struct conversation lead;
	char boot[BOOT_ID_MAX]; /* of this machine: the trainer's parameters end with it */
	struct actions actions;
	struct meter *meter;
	struct stock stock;
	int dry; /* WORK_WAIT or WORK_END, as shardd said last; 0: it has more */

	enum phase phase;
	int bsp;
	struct asks asked;
	uint64_t iteration, sequence;
	struct stock_cut cut; /* the batch; rows 0: none is cut */
	struct batch batch;   /* the same, for the lead */
	/* While a push is under way: the batch after it, which the lead is told at once. Rows 0: no
	 * push is under way, or there is no such batch. */
	struct stock_cut next_cut;
	struct batch next_batch;
	int none;             /* READY, PUSHING: we are not in this iteration; what is cut waits */
	double weight;
	uint64_t samples, samples_done; /* of all in this iteration; in the model before it; only under BSP */
	struct save save;
	struct sums sums;
	struct spare spare;
	/* NONE: it is a spare. NEW: the trainer is to be told its rank. */
	enum { PLACE_NONE, PLACE_NEW, PLACE_KNOWN } place;
	struct look look;
	struct pace pace;
	char *resume;    /* what the trainer is to go on from; NULL: nothing */
	char *resume_of; /* who saved it */
	uint64_t resume_iteration;
	int resume_due; /* the trainer was not told yet */
	struct exchange_push push;
	int given;    /* the trainer has the batch, and has not said `step` */
	int trained;  /* it was given at least one batch: no way back */
	int spoke;    /* it has said a word */
	struct error half; /* its last word was half of one; code 0: no */
	int finished; /* it was told that there are no more batches */
	char *enough; /* it says that the model is trained enough, and why; NULL: it does not */
	int is_enough; /* the lead says so: no batch is begun any more */

	double given_at, stepped_at;
	double waited; /* seconds in which the trainer waited for this batch */
	struct tally_batch done; /* a batch that is to be reported while the trainer computes */
	uint64_t done_iteration;
	int is_done;
	struct {
		unsigned vain, pass; /* times in a row that nothing came; waits to skip */
	} spin[SPINS];
	double stop_at; /* when a stop was seen; 0: none was */
};

/* agent.c: rows of a batch, until an action says another number. */
void agent_set_size(struct agent *a, uint64_t batch);

/* agent_batch.c. As in trainer.c, all return WORK_OK or what ends this life. */
int agent_connect(struct agent *a, struct error *err);
void agent_forget(struct agent *a); /* the batch and the stock; the trainer's word stays */
/* Does all that can be done without waiting. */
int agent_advance(struct agent *a, struct error *err);
/* Whether something came from the lead that poll(2) does not see. */
int agent_lead_waiting(const struct agent *a);
/* Something came from the lead. */
int agent_hear_lead(struct agent *a, struct error *err);
void agent_asks_add(struct asks *asks, struct asked what);
struct asked agent_asks_take(struct asks *asks);
const struct asked *agent_asks_at(const struct asks *asks, size_t i); /* the first is 0 */
int agent_join(struct agent *a, struct error *err);
int agent_end(struct agent *a, struct error *err);
/* It is to stop, and the trainer has no batch. Whoever has the parameters may be the last to have
 * them: so it says that it leaves, and gives them to others if they wait. WORK_STOP: it is out. */
int agent_leave(struct agent *a, struct error *err);
/* It has given its state: says again that it leaves, or that its rows are at an end. */
int agent_go_on_out(struct agent *a, struct error *err);
int agent_push(struct agent *a, struct error *err);
/* Tells the lead what the trainer says of `enough`, if the lead can be told now. */
int agent_say_enough(struct agent *a, struct error *err);
/* Which push it is, and its rows: for whoever gets it. */
void agent_add_push(const struct agent *a, struct record_out *o);
/* Passes on what the trainer has measured of its model; lost where no lead can be told now. */
int agent_report_values(struct agent *a, const char *values, struct error *err);
/* Right after a push: tells the lead the next batch, so that it answers both. If its rows are not
 * there yet, the lead is told later. */
int agent_begin_early(struct agent *a, struct error *err);
/* Sends a request that is complete except for its end; its payload is not copied. */
int agent_ask(struct agent *a, struct record_out *o, struct asked what, const void *payload,
	      size_t bytes, struct error *err);
/* When the lead must have answered what it can answer alone; INFINITY: nothing like that is asked.
 * Answers to begin, join and end may have to wait for other members, or for people. */
double agent_answer_due(const struct agent *a);
uint64_t agent_batch_size(const struct agent *a);
/* Does what was put off until nobody waits for us. */
int agent_catch_up(struct agent *a, struct error *err);
void agent_report(struct agent *a); /* the part of that for the monitor */

/* agent_words.c */
int agent_hear_trainer(struct agent *a, struct error *err);
void agent_give_batch(struct agent *a);
void agent_answer_step(struct agent *a);
/* Ends the answer to a word other than next and pause, but for what comes before its ok. */
void agent_answer(struct agent *a, struct record_out *ok);
void agent_answer_state(struct agent *a, const char *state);
/* The trainer broke the rules: tells it, and *err says how. */
int agent_broken(struct agent *a, const char *code, const char *why, struct error *err);
/* Answers a word that was not understood or not done; the trainer may go on. */
void agent_refuse(struct agent *a, const char *code, const char *why);

/* agent_look.c. */
void agent_look_turn(struct agent *a); /* the trainer has the word */
double agent_look_due(const struct agent *a); /* INFINITY: not its turn */
int agent_look(struct agent *a, struct error *err);
void agent_look_forget(struct agent *a); /* another lead, or another membership */
/* Logs what is known about it, and tells the lead its state; Python adds its stacks. */
void agent_look_closely(struct agent *a);
void agent_waits(struct agent *a); /* it has said that it waits */

/* agent_speed.c */
int agent_speed_start(struct agent *a, struct error *err);
void agent_speed_free(struct agent *a);
/* Before the first batch: what computes; NULL: the processor. */
void agent_speed_device(struct agent *a, const char *name);
/* A batch is computed: reads what its word says, into a->push. -1: it is not right. */
int agent_speed_step(struct agent *a, struct error *why);
/* Steps for a batch of so many rows. */
uint64_t agent_speed_accum(const struct agent *a, uint64_t rows);
/* A step of 2 * rows, or one less, did not fit the memory; one of `rows` may. */
void agent_speed_fits(struct agent *a, uint64_t rows);

/* agent_rows.c. These do nothing if no rows are wanted. */
/* Call before the trainer starts, when the queue has answered hello. */
int agent_rows_start(struct agent *a, struct error *err);
void agent_rows_started(struct agent *a);                /* it has its end of the pipe */
int agent_rows_give(struct agent *a, struct error *err); /* those of the batch */
int agent_rows_look(struct agent *a, struct error *err); /* -1: they can't be read */
void agent_rows_end(struct agent *a);                    /* no more come */

/* agent_save.c */
/* From options.resume; ERROR_DATA for files that are damaged. */
int agent_resume(struct agent *a, struct error *err);
/* The lead says that a checkpoint is due. */
int agent_save_due(struct agent *a, const struct record *r, struct error *err);
/* Tells the trainer its place, what to resume and what to save, if that is due: before the answer
 * that is being put together. */
void agent_save_tell(struct agent *a);
/* Answers the words saved and failed. */
int agent_saved(struct agent *a, const struct record *r, struct error *err);
int agent_save_failed(struct agent *a, const struct record *r, struct error *err);
/* Nobody waits any more for what is due, or was told, of this kind. */
void agent_save_over(struct agent *a, enum saving kind);
/* The lead says that what was saved is a checkpoint: then it is held in memory. */
int agent_save_hold(struct agent *a, const struct record *r, struct error *err);
/* save.reading is done. */
int agent_save_gathered(struct agent *a, struct error *err);
void agent_save_free(struct agent *a);

/* agent_sums.c */
void agent_sums_start(struct agent *a);
void agent_sums_free(struct agent *a);
void agent_sums_forget(struct agent *a); /* as agent_forget(); the trainer's state stays */
/* The words sums and final. */
int agent_sums_hear(struct agent *a, struct error *err);
int agent_sums_final(struct agent *a, struct error *err);
/* The trainer has said next: what it was told to load is loaded. */
void agent_sums_next(struct agent *a);
/* While it is no member. */
int agent_sums_out(struct agent *a, struct error *err);
/* Whether the trainer has a state that counts in this life of the job. */
int agent_sums_is_whole(const struct agent *a);
double agent_sums_due(const struct agent *a); /* when it does that by itself; INFINITY: never */
void agent_sums_add_join(const struct agent *a, struct record_out *o);
/* An answer to join, to push. */
int agent_sums_joined(struct agent *a, struct error *err);
int agent_sums_pushed(struct agent *a, struct error *err);
int agent_sums_push(struct agent *a, struct error *err);
/* Something came from the replica. */
int agent_sums_hear_replica(struct agent *a, struct error *err);
/* The lead wants the trainer's state for another one. */
int agent_sums_give(struct agent *a, const struct record *r, struct error *err);
int agent_sums_gives(const struct agent *a); /* it was asked to, and has not told the lead yet */
/* It is written; why: it is not. */
int agent_sums_given(struct agent *a, const char *why, struct error *err);

#endif

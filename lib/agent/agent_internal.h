/* What the files of the agent share: agent.c (begin, waiting, end), agent_batch.c (rows, the lead)
 * and agent_words.c (the trainer). */
#ifndef PACELINE_AGENT_AGENT_INTERNAL_H
#define PACELINE_AGENT_AGENT_INTERNAL_H

#include "agent/agent.h"
#include "agent/stock.h"
#include "agent/words.h"
#include "meter/meter.h"
#include "work/actions.h"
#include "work/conversation.h"
#include "work/lead_client.h"

enum phase {
	PHASE_OUT,     /* no member */
	PHASE_JOINING, /* asked, and not answered: so are all that end in -ING */
	PHASE_IN,      /* a member that has no batch */
	PHASE_READY,   /* a batch is cut; the trainer has it, or will */
	PHASE_PUSHING,
	PHASE_ENDING,
	PHASE_ENDED /* the job is finished */
};

enum word { WORD_NONE, WORD_NEXT, WORD_STEP };

struct agent {
	struct agent_options options;
	struct command command;
	char **env; /* of the command: options.command.env and what follows of the others */
	size_t env_count;
	struct words words;
	struct record record; /* the word read last */
	enum word word;       /* that is not answered yet */
	double word_at;
	int takes_empty; /* the trainer takes part in every iteration, also without rows */

	struct shards *shards;
	struct conversation lead;
	struct actions actions;
	struct meter *meter;
	struct stock stock;
	int dry; /* WORK_WAIT or WORK_END, as shardd said last; 0: it has more */

	enum phase phase;
	uint64_t iteration, sequence;
	struct stock_cut cut; /* of READY and PUSHING */
	struct batch batch;   /* the same, for the lead */
	double weight;
	struct exchange_push push;
	int given;    /* the trainer has the batch, and has not said `step` */
	int trained;  /* it was ever given one: no way back */
	int finished; /* it was told that there is no more */

	double given_at, stepped_at; /* of the batch; of the one before */
	double waited; /* seconds in which the trainer waited for this batch */
	double stop_at; /* when a stop was seen; 0: none was */
};

/* agent_batch.c. All as trainer.c's: WORK_OK or what ends this life. */
int agent_connect(struct agent *a, struct error *err);
void agent_forget(struct agent *a); /* the batch and the stock; the trainer's word stays */
/* All that can be done without waiting. */
int agent_advance(struct agent *a, struct error *err);
/* There is something of the lead. */
int agent_hear_lead(struct agent *a, struct error *err);
int agent_push(struct agent *a, struct error *err);
uint64_t agent_batch_size(const struct agent *a);

/* agent_words.c */
int agent_hear_trainer(struct agent *a, struct error *err);
void agent_give_batch(struct agent *a);
void agent_answer_step(struct agent *a, int dropped);
void agent_answer_state(struct agent *a, const char *state);

#endif

/*
 * conversation: what a worker says to one daemon of its exchange, and hears.  A daemon that is not
 * there is waited for.  A connection that goes is opened anew; who is there with the same
 * incarnation is the same daemon or its heir, and is asked again, in the same words, what was not
 * answered.  With another incarnation there was a rollback: WORK_RESET.
 *
 * What the functions return is a work_result (result.h), or -1.  After any but WORK_OK what is open
 * can't be counted on: see conversation_close().
 */
#ifndef PACELINE_WORK_CONVERSATION_H
#define PACELINE_WORK_CONVERSATION_H

#include "record/record.h"
#include "wire/call.h"
#include "work/result.h"

#define CONVERSATION_OPEN_MAX 6 /* requests that wait for an answer */

struct conversation_options {
	const char *path;
	const char *worker;
	double wait_seconds;      /* who is not there is waited for this long */
	double answer_seconds;    /* longest wait for an answer, barrier included */
	const volatile int *stop; /* set by a signal: waits end with WORK_STOP */
	/* WORK_RESET as soon as the connection goes: who comes back has forgotten us. */
	int once;
	/* Whether the one who greets is the one that is wanted. -1: ERROR_CONFIG. */
	int (*check)(const struct record *greeting, const void *wanted, struct error *err);
	const void *wanted;
	/* Whether who went is not wanted any more: asked while it is waited for, now and then. The
	 * conversation is closed then: WORK_MAP. NULL: it is always waited for. */
	int (*needless)(const void *wanted);
	/* `action` records before an answer; NULL: nobody wants them. */
	void (*action)(const struct record *r, void *owner);
	void *owner;
};

/* A request that is not answered; its payload stays where it lies. */
struct conversation_request {
	char line[RECORD_LINE_MAX];
	size_t len, bytes;
	const void *payload;
};

struct conversation {
	struct conversation_options options;
	struct call *call; /* NULL: not connected */
	uint64_t generation, incarnation;
	int brief; /* who went is not waited for */
	struct record record; /* that came last */

	/* private */
	struct conversation_request open[CONVERSATION_OPEN_MAX]; /* a ring, answered in this order */
	uint32_t open_first, open_count;
	uint32_t asides;  /* before them */
	int aside_refused;
};

int conversation_stopped(const struct conversation *c);

/* Until deadline, by clock_mono(). c->options are set. */
int conversation_connect(struct conversation *c, double deadline, struct error *err);
/* What is open is forgotten. */
void conversation_close(struct conversation *c);
/* Of the greeting. */
int conversation_incarnation(const struct conversation *c, uint64_t *incarnation,
			     struct error *err);

/* A request with worker=, generation= and incarnation=; line[RECORD_LINE_MAX]. */
void conversation_begin(const struct conversation *c, struct record_out *o, char *line,
			const char *type);
int conversation_ask(struct conversation *c, struct record_out *o, const void *payload,
		     size_t bytes, struct error *err);
/* The same with no other one open, and nobody who wants its answer: it is not said again, and that
 * it could not be sent shows with the next one. 0: who is there has no use for it, nothing is sent
 * any more. */
int conversation_aside(struct conversation *c, struct record_out *o);

/* Whether an answer is waited for once *stop is set: what is computed shall not be lost. */
enum patience { PATIENT, HASTY };

/* The next record into c->record. *anew (may be NULL): the connection had gone, and what is open was
 * said again. */
int conversation_receive(struct conversation *c, enum patience patience, int *anew,
			 struct error *err);
/* The closing record of the oldest request; actions before it are handed on. `err`: as
 * conversation_refused() says. */
int conversation_answer(struct conversation *c, enum patience patience, struct error *err);
/* What an `err` in c->record means: WORK_FENCED, WORK_MAP, WORK_DIVERGED (with an error),
 * WORK_RESET, or -1. */
int conversation_refused(const struct conversation *c, struct error *err);
/* After a call on c->call that failed with *err: connects again, and says again what is open. */
int conversation_again(struct conversation *c, struct error *err);

#endif

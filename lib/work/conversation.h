/*
 * conversation: what a worker says to one daemon of its exchange, and hears.  It waits for a daemon
 * that is not there, and opens a lost connection again.  A daemon with the same incarnation is then
 * the same one or its heir: it gets the unanswered requests again, in the same words.  Another
 * incarnation means a rollback: WORK_RESET.
 *
 * The functions return a work_result (result.h), or -1.  After any result but WORK_OK, do not rely
 * on open requests: see conversation_close().
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
	double wait_seconds;      /* longest wait for a daemon that is not there */
	double answer_seconds;    /* longest wait for an answer, barrier included */
	const volatile int *stop; /* set by a signal: waits end with WORK_STOP */
	/* WORK_RESET as soon as the connection goes: a daemon that comes back has forgotten us. */
	int once;
	/* Whether this greeting is that of the wanted daemon. -1: ERROR_CONFIG. */
	int (*check)(const struct record *greeting, const void *wanted, struct error *err);
	const void *wanted;
	/* Whether a daemon that went is not needed any more: asked now and then while we wait for
	 * it. Then the conversation is closed: WORK_MAP. NULL: it is always waited for. */
	int (*needless)(const void *wanted);
	/* `action` records before an answer; NULL: nobody wants them. */
	void (*action)(const struct record *r, void *owner);
	void *owner;
};

/* A request without an answer yet; its payload stays in place. */
struct conversation_request {
	char line[RECORD_LINE_MAX];
	size_t len, bytes;
	const void *payload;
};

struct conversation {
	struct conversation_options options;
	struct call *call; /* NULL: not connected */
	uint64_t generation, incarnation;
	int brief; /* a daemon that went is not waited for */
	struct record record; /* that came last */

	/* private */
	/* A ring; answered in this order. */
	struct conversation_request open[CONVERSATION_OPEN_MAX];
	uint32_t open_first, open_count;
	uint32_t asides;  /* asides, which were sent before them */
	int aside_refused;
};

/* Whether *stop is set. */
int conversation_stopped(const struct conversation *c);

/* Connects, or gives up at the deadline (clock_mono()). c->options are set. */
int conversation_connect(struct conversation *c, double deadline, struct error *err);
/* Forgets open requests. */
void conversation_close(struct conversation *c);
/* The same, but conversation_connect() connects again with the memory that is shared now. */
void conversation_disconnect(struct conversation *c);
int conversation_fd(const struct conversation *c); /* for poll(2); -1: not connected */
/* The incarnation that the greeting says. */
int conversation_incarnation(const struct conversation *c, uint64_t *incarnation,
			     struct error *err);

/* Begins a request with worker=, generation= and incarnation=, in line[RECORD_LINE_MAX]. */
void conversation_begin(const struct conversation *c, struct record_out *o, char *line,
			const char *type);
/* Sends a request; at most CONVERSATION_OPEN_MAX may be without an answer. payload stays where it
 * is until the answer has come. */
int conversation_ask(struct conversation *c, struct record_out *o, const void *payload,
		     size_t bytes, struct error *err);
/* The same, without a payload and with a descriptor, which stays the caller's (-1: none); only if
 * nothing is repeated (once). */
int conversation_pass(struct conversation *c, struct record_out *o, int fd, struct error *err);
/* conversation_ask() when no other request is open and nobody wants the answer: it is not repeated, and a
 * failure to send it shows with the next request. 0: the daemon does not know it, and it is not
 * sent any more. */
int conversation_aside(struct conversation *c, struct record_out *o);

/* Whether a record has come; waits for one, but at most so long. */
int conversation_is_here(const struct conversation *c, double seconds);

/* PATIENT: waits for an answer even after *stop is set, so that what is computed is not lost. */
enum patience { PATIENT, HASTY };

/* The next record into c->record. *anew (may be NULL): the connection had gone, and open requests
 * were repeated. */
int conversation_receive(struct conversation *c, enum patience patience, int *anew,
			 struct error *err);
/* The same, of what is here: WORK_WAIT if there is no record. */
int conversation_try(struct conversation *c, struct error *err);
/* The closing record of the oldest request; actions before it are handed on. `err`: as
 * conversation_refused() says. */
int conversation_answer(struct conversation *c, enum patience patience, struct error *err);
/* What an `err` in c->record means: WORK_FENCED, WORK_MAP, WORK_DIVERGED (with an error),
 * WORK_RESET, or -1. */
int conversation_refused(const struct conversation *c, struct error *err);
/* After a call on c->call that failed with *err: connects again, and repeats open requests. */
int conversation_again(struct conversation *c, struct error *err);

#endif

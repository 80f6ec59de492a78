/*
 * talk: connections to the daemons, and questions on them.  Decides nothing.
 *
 * Each connection is for one purpose, so that an answer that takes long (a checkpoint, an action,
 * `stat wait=`) delays no other.
 */
#ifndef PACELINE_RUN_TALK_H
#define PACELINE_RUN_TALK_H

#include "record/record.h"

#include <stddef.h>

struct supervisor;
struct sup_node;
struct peer;

struct link {
	struct supervisor *sup;
	struct sup_node *node;
	struct peer *peer;
	void (*up)(struct link *link, const struct record *greeting);
};

/* Links that belong to no node. */
struct sup_links {
	struct link shardd_wait, lead_cut, lead_act, lead_watch, lead_move;
};

typedef void sup_answer_fn(const struct record *r, void *owner);

/* A question that is asked again and again, but once at a time. */
struct question {
	unsigned open; /* asked and not answered; of several only the last one's answer counts */
	int stale;     /* the answer under way is about something else by now */
	sup_answer_fn *each, *done;
	void *owner;
};

/* each (or NULL) gets the records of the answer; done (or NULL) gets the record that closes it, or
 * NULL if the connection closed first: the daemon ended, its answer was not there in time, or it
 * does not count any more. Nothing is sent while the question is open. If nothing can be sent, the
 * steps of the phase run again soon, and at once when there is a connection. The job fails if a
 * request is longer than a line: it could never be sent. */
void sup_ask(struct question *q, struct link *link, struct record_out *o, sup_answer_fn *each,
	     sup_answer_fn *done, void *owner);
/* With a payload, and no records in the answer. */
void sup_ask_with(struct question *q, struct link *link, struct record_out *o, const void *payload,
		  size_t bytes, sup_answer_fn *done, void *owner);
/* As sup_ask(), for a caller that must know whether it was sent. 0: it was, now or before. -1:
 * not. */
__attribute__((warn_unused_result))
int sup_ask_now(struct question *q, struct link *link, struct record_out *o, sup_answer_fn *each,
		sup_answer_fn *done, void *owner);
/* The same, also while the question is open, because the answer under way may be out of date. */
__attribute__((warn_unused_result))
int sup_ask_again(struct question *q, struct link *link, struct record_out *o, sup_answer_fn *each,
		  sup_answer_fn *done, void *owner);
/* The answer under way, if there is one, will count as none. */
void sup_ask_forget(struct question *q);
/* Sends a request; nobody waits for an answer. */
void sup_tell(struct link *link, struct record_out *o);

int sup_answer_ok(const struct record *r);
/* Its code=, or "". */
const char *sup_answer_code(const struct record *r);
/* Code and text of a refusal, for people. */
#define SUP_ANSWER_TEXT 1024
const char *sup_answer_text(const struct record *r, char out[SUP_ANSWER_TEXT]);

int sup_link_up(const struct link *link);
void sup_links_services(struct supervisor *s);
void sup_links_servers(struct supervisor *s);
/* Closes the links to the servers, the lead's among them. */
void sup_links_close_servers(struct supervisor *s);
void sup_links_free(struct supervisor *s);
void sup_links_close(struct sup_node *n);     /* both of a node */
void sup_link_again(struct sup_node *server); /* it is another process now */

#endif

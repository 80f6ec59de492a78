/* part_remote: a part behind a socket.  Each order is kept until it is answered.  When a server
 * comes back (it was handed over to another process, or only the connection broke), the orders are
 * said again, in sequence; the server answers `repeated` to those that it has done already. */
#ifndef PACELINE_LEAD_PART_REMOTE_H
#define PACELINE_LEAD_PART_REMOTE_H

#include "lead/parts.h"

struct part_remote;

/* The text of an order for any number of parts: the last holder that releases it frees it. */
struct told_text {
	size_t holders;
	size_t head, bytes; /* as of order_write() */
	char *text;
};

/* Takes text; the caller is its holder. NULL: no memory, and it is freed. */
struct told_text *told_text_new(char *text, size_t head, size_t bytes);
void told_text_release(void *text); /* NULL is fine */

struct part_remote_options {
	const char *path; /* copied */
	uint32_t part;
	size_t parts;
	int joins; /* it has no part yet: part_remote_wrong() says what is wrong with it */
	uint64_t incarnation;
	uint64_t (*iteration)(void *owner); /* see struct lead_parts_options */
	uint64_t (*map)(void *owner);
	void (*changed)(void *owner);       /* part_remote_ready() has changed */
	/* Called for the answer to an order of another lead, see part_remote_owe(). */
	void (*committed)(uint32_t part, const struct order_result *result, void *owner);
	void (*broken)(const struct error *err, void *owner);
	void *owner;
};

struct part_remote *
part_remote_new(const struct part_remote_options *options); /* NULL: no memory */
int part_remote_start(struct part_remote *r, struct event_base *base);
void part_remote_stop(struct part_remote *r);
void part_remote_free(struct part_remote *r); /* NULL is fine */

int part_remote_ready(const struct part_remote *r);        /* connected, and where it must be */
const char *part_remote_boot(const struct part_remote *r); /* as it said last; "": it did not */
const char *part_remote_path(const struct part_remote *r);
const char *part_remote_id(const struct part_remote *r); /* as it said last; "": it did not */
const char *part_remote_wrong(const struct part_remote *r); /* NULL: nothing */
/* It was told of a map in which it is part i of n. */
void part_remote_place(struct part_remote *r, uint32_t part, size_t parts);
/* It has no part any more: orders that it was told must still reach it, a server that comes to its
 * socket later is another one, and nothing of it breaks the lead. */
void part_remote_leave(struct part_remote *r);
/* It has answered all that it was told. */
int part_remote_is_idle(const struct part_remote *r);
void part_remote_flush(struct part_remote *r);
/* It holds text for itself. -1: no memory. */
int part_remote_obey(struct part_remote *r, const struct order *o, struct told_text *text,
		     const struct order_answer *a);

int part_remote_owed(const struct part_remote *r, lead_parts_owed_fn *fn, void *arg,
		     struct error *err);
int part_remote_owe(struct part_remote *r, uint64_t iteration, uint64_t units,
		    struct told_text *text);

#endif

/*
 * servers: an exchange (exchange.h) with all parts of ps-server(8), and their lead: part 0, or a
 * process without parameters.  Parameters come and gradients go through memory shared with each server, one mapping for
 * the life of a connection; a batch that does not fit there goes inline.
 *
 * With one server the model reads and writes the shared pages themselves; with several, ranges of
 * the dense vector are put together and taken apart by copying.
 */
#ifndef PACELINE_WORK_SERVERS_H
#define PACELINE_WORK_SERVERS_H

#include "work/conversation.h"
#include "work/exchange.h"

struct servers_options {
	const char *const *paths; /* in the order of the parts */
	const char *lead;         /* NULL: part 0 leads */
	uint32_t count;           /* 1..MAP_PARTS_MAX */
	const char *keep_dir;     /* where pushes that are kept outlive us; NULL: nowhere */
	uint64_t dense_count;     /* floats, in all parts */
	uint32_t width;           /* floats in a row */
	uint64_t key_count;       /* rows there can be */
	/* With each of them: worker, longest waits, stop, action. */
	struct conversation_options talk;
};

/* Servers may come and go: when a part says that it has another map (err code=map), the worker asks
 * the lead for the map, and says the same pull or push again, by that. A push keeps its sequence.
 *
 * The worker waits for a server that goes, and asks again when it comes back with the same
 * incarnation: it was handed over to another process. With another incarnation: WORK_RESET, and all
 * are disconnected. */
int servers_new(struct exchange **out, const struct servers_options *options, struct error *err);

#endif

/*
 * lead: the gate with its sockets.  Requests of workers and the supervisor become events; effects
 * become answers, settles with shardd, applies here and at the other servers, and cuts.
 *
 * It is a parameter server as well (part 0): pull and staging are lib/ps.
 */
#ifndef PACELINE_LEAD_LEAD_H
#define PACELINE_LEAD_LEAD_H

#include "base/error.h"
#include "base/option.h"
#include "lead/gate.h"
#include "ps/ps.h"
#include "wire/server.h"

struct lead;

struct lead_options {
	struct gate_options gate;
	struct ps *ps;              /* part 0; borrowed */
	const char *const *servers; /* sockets of parts 1.., in order */
	size_t server_count;
	const char *shards;                /* socket, or NULL: units close without a commit */
	const struct option_list *include; /* files for every checkpoint */
	const struct layout *layout;       /* written into checkpoints that do not include one */
	const char *job;                   /* for MANIFEST; may be "" */
	/* BSP: sizes at every barrier, see solve/balance.h; gate.balance is the lead's then. */
	const char *balance_method; /* NULL: as the workers have them */
	uint64_t balance_batch;     /* samples of an iteration */
	const char *balance_log;    /* file for `balance` records; NULL: none */
	double hung_seconds;        /* a member that owes a push for so long (or for PULSE_TIMES its
				       usual time, if that is longer) leaves; 0: never */
};

int lead_new(struct lead **out, const struct lead_options *options, struct error *err);
/* After server_new(): connects to shardd and the other servers. */
int lead_start(struct lead *l, struct server *server, struct error *err);
/* Peers and timers go, before server_free(), which ends the requests; then lead_free(). NULL is
 * fine for both. */
void lead_stop(struct lead *l);
void lead_free(struct lead *l);

/* Requests; their owner is a struct lead. */
extern const struct verb lead_verbs[];
extern const size_t lead_verb_count;
/* server_options.closed of a lead. */
void lead_closed(struct connection *c, void *lead);

/* Why the server must end, or NULL: fenced (ERROR_TEMPFAIL), a server that lacks what is committed
 * (ERROR_TEMPFAIL), no memory. */
const struct error *lead_broken(const struct lead *l);

#endif

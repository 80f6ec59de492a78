/* xfer-sched: what its files share. */
#ifndef PACELINE_CMD_XFER_SCHED_H
#define PACELINE_CMD_XFER_SCHED_H

#include "solve/idset.h"
#include "solve/xfer_gate.h"
#include "solve/xfer_group.h"
#include "solve/xfer_share.h"
#include "record/record.h"

#define PROGRAM "xfer-sched"

struct sched_options {
	const char *mode, *method;
	uint64_t delay_max, aggregators, margin;
	int has_delay_max, has_aggregators;
	double divergence_max, momentum;
	int has_divergence, counts_updates; /* --divergence-max N:updates */
	int strict;
};

struct sched_part { /* of an update, at a server */
	size_t update, server;
	size_t before; /* 1 + the number of this update's part that was named before; 0: none */
	int64_t bytes;
};

struct sched_update {
	size_t host;
	size_t last_part;           /* 1 + its number */
	uint64_t version, deadline; /* deadline: XFER_NO_DEADLINE - 1 if version says it */
	double norm;
	int64_t ready;
	int is_committed;
};

struct sched_server {
	size_t host;
	uint64_t part;
	int64_t dense; /* 0: not known */
};

struct sched_model {
	size_t host;
	int64_t bytes;
	char *to; /* one for each host: it gets a copy */
};

struct sched_state {
	const struct sched_options *options;
	struct idset hosts, updates;
	struct xfer_net net;
	struct sched_update *update;
	size_t update_room;
	struct sched_part *part;
	size_t parts, part_room;
	int64_t bytes; /* of all parts */
	struct sched_server *server;
	size_t servers, server_room;
	uint64_t version; /* of the servers */
	struct xfer_aggregator *aggregator, *distributor;
	size_t aggregators, aggregator_room, distributors, distributor_room;
	struct sched_model *model;
	size_t models, model_room;
	int has_replica;
	size_t replica;
	uint64_t replica_version;
	double history;
};

/* From standard input. -1: ERROR_DATA with the line, ERROR_OS, ERROR_IO. */
int sched_read(struct sched_state *s, struct error *err);
void sched_clear(struct sched_state *s);

/* Writes the schedule. */
int sched_plan(struct sched_state *s, struct error *err);
int sched_round(struct sched_state *s, struct error *err);

#endif

/*
 * usage: what a job uses, as records say it: one round is one `job` record and its `node` records.
 * A usage is all zeros at first, owns its memory, and is cleared by usage_clear() at the end.
 */
#ifndef PACELINE_PLAN_USAGE_H
#define PACELINE_PLAN_USAGE_H

#include "base/error.h"
#include "base/option.h"
#include "record/record.h"
#include "solve/idset.h"

#include <stddef.h>
#include <stdint.h>

#define PLAN_CORES_MAX 100000
#define PLAN_BYTES_MAX (1ull << 53)

enum plan_role { PLAN_WORKER, PLAN_SERVER, PLAN_ROLES };
const char *plan_role_name(enum plan_role role);

struct usage_node {
	enum plan_role role;
	char id[OPTION_ID_MAX];
	double cores, used;         /* used: cores, the mean over the time measured */
	uint64_t bytes, used_bytes; /* 0: not said */
	double time; /* seconds of a step (worker), of a request (server); NAN: not said */
	int oom;
};

/* PLAN_AUTO: by the nodes there are. None, or one worker that is not measured yet: sample; one
 * worker: optimize; several: adjust. */
enum plan_stage { PLAN_AUTO, PLAN_SAMPLE, PLAN_OPTIMIZE, PLAN_ADJUST };
#define PLAN_STAGES "auto|sample|optimize|adjust"
/* -1: there is none of that name. */
int plan_stage_of(const char *name, enum plan_stage *out);

/* Whose job, over what data, of which model; "": not said. */
struct plan_names {
	char user[OPTION_ID_MAX], data[512], model[OPTION_ID_MAX];
};
/* -1: ERROR_DATA, one is too long. */
int plan_take_names(struct plan_names *n, const struct record *r, struct error *err);

/* Of the nodes of a role. */
struct usage_role {
	size_t count;
	double cores, used;         /* sums */
	uint64_t bytes, used_bytes; /* the largest of one node */
	uint64_t used_bytes_sum;
};

struct usage {
	int has_job;
	int has_stage; /* the job says which */
	enum plan_stage stage;
	uint64_t batch;             /* samples a step */
	double rate;                /* steps a second, of all workers together; 0: not measured */
	double samples;             /* of the whole job; NAN: not said */
	double left;                /* samples still to train; NAN: not said */
	double at, changed;         /* seconds: of this round, of the last change; NAN: not said */
	double io, compute, update; /* seconds of a worker's step; all or none; NAN: not said */
	int can_rebalance;          /* servers can share out their parameters anew */
	struct plan_names names;
	struct usage_node *node;
	size_t count, room;
	struct usage_role role[PLAN_ROLES];
	struct idset ids[PLAN_ROLES];
};

/* -1: ERROR_DATA, a field is missing or wrong, or a node appears twice; ERROR_OS. */
int usage_take_job(struct usage *u, const struct record *r, struct error *err);
int usage_take_node(struct usage *u, const struct record *r, struct error *err);
/* The next round begins; memory is kept. */
void usage_begin(struct usage *u);
void usage_clear(struct usage *u);

#endif

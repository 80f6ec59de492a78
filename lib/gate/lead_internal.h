/* What lead.c (effects, peers), lead_requests.c (verbs) and lead_cut.c (checkpoints) share. */
#ifndef PACELINE_GATE_LEAD_INTERNAL_H
#define PACELINE_GATE_LEAD_INTERNAL_H

#include "gate/lead.h"
#include "gate/rows.h"
#include "wire/peer.h"

#include <uthash.h>

struct event;

/* A request that the gate will answer. */
struct pending {
	uint64_t token;
	struct lead *lead;
	struct request *rq;
	UT_hash_handle hh;
};

struct other {
	struct lead *lead;
	const char *path;
	struct peer *peer;
	uint32_t part;
	int ready; /* connected, and in the state that the lead knows */
};

struct watcher {
	struct lead *lead;
	struct request *rq;
	struct rows rows;
	struct watcher *next, **at;
};

/* A checkpoint that is being made. */
struct cutting {
	uint64_t token;
	int busy;
	int failed;
	size_t writing;    /* parts that have not answered */
	double held;       /* when settlements were held */
	double hold, fork; /* seconds */
	uint64_t iteration;
	char dir[CKPT_PATH_MAX];
	struct fork_result *part; /* of each server */
	char why[600];
};

/* The settle that is with shardd. */
struct settling {
	uint64_t number;
	char (*fenced)[GATE_ID_MAX];
	size_t count, max;
};

struct lead {
	struct lead_options options;
	struct server *server;
	struct gate *gate;
	struct ps *ps;
	struct peer *shards;
	struct other *other;
	size_t others;
	struct event *again; /* a settle that a full disk refused */
	struct pending *pendings;
	uint64_t token;
	int pumping;
	struct watcher *watchers;
	struct rows_total total;
	double started;
	struct settling settling;
	struct cutting cut;
	struct ps_part *part; /* scratch */
	size_t part_max;
	int broken;
	struct error error;
};

void lead_pump(struct lead *l);
void lead_break(struct lead *l, const struct error *err);
int lead_breakf(struct lead *l, int code, const char *place, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Makes rq a request that the gate will answer; its token, 0 when memory is gone (answered). */
uint64_t lead_defer(struct lead *l, struct request *rq);
/* The request of a token, which is forgotten; NULL when its client went. */
struct request *lead_take(struct lead *l, uint64_t token);

/* lead_cut.c */
void lead_cut_begin(struct lead *l, struct request *rq, const char *dir);
void lead_cut_save(struct lead *l);
void lead_cut_fork(struct lead *l, uint64_t iteration);
void lead_cut_refused(struct lead *l);

/* lead_requests.c */
void lead_rows(struct lead *l, uint64_t samples, double loss);

#endif

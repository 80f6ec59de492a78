/*
 * speed-predict: what its parts share: the workers of a stream, and the files of their models.
 */
#ifndef PACELINE_CMD_SPEED_PREDICT_H
#define PACELINE_CMD_SPEED_PREDICT_H

#include "cmd/cmd.h"

#include "base/hash.h"
#include "predict/group.h"

#define PROGRAM "speed-predict"

struct worker {
	char id[OPTION_ID_MAX];
	uint64_t k; /* of its last line */
	struct predictor *predictor;
	struct predictor *loaded; /* the file's, of a worker that began anew; NULL: none */
	uint64_t samples;         /* of the file's predictor when it was loaded */
	int came;                 /* in this run */
	struct worker *came_next;
	double sum; /* of squared errors, this run's */
	uint64_t scored;
	size_t number;
	UT_hash_handle hh;
};

struct table {
	struct worker **row;
	size_t count, room;
	struct worker *by_id;
	struct predict_group *group; /* NULL: not asked for */
	uint64_t round;              /* k of the newest line */
};

struct job {
	struct predict_config config;
	const char *loss;      /* rmse, both or max */
	int grouped;           /* predictions of all together: both and max */
	uint64_t score_from;
	struct table now; /* with the models of an earlier run, whether their workers come or not */
	struct worker *came_first, *came_last;
};

/* table.c */
void table_clear(struct table *t);
/* id is not in it yet; the worker has no predictor. */
int table_add(struct table *t, const char *id, struct worker **out, struct error *err);
struct worker *table_find(const struct table *t, const char *id); /* NULL: there is none */

/* file.c: job->now, empty so far, from a file, and into one. What is loaded must be of the kind of
 * job->config and job->loss. */
int file_load(struct job *job, const char *path, struct error *err);
int file_save(struct job *job, const char *path, struct error *err);

#endif

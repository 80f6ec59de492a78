/*
 * trainer: the life of a worker (paceline-protocol(7), THE LIFE OF A BATCH; the process Worker of
 * the Spin model): hello, get, join, pull, train, push, and over again; leave when there is nothing
 * to do; start over when refused or when a server went.
 *
 * It may lose all that it owns: shardd puts what it held back into the queue.
 */
#ifndef PACELINE_WORK_TRAINER_H
#define PACELINE_WORK_TRAINER_H

#include "base/error.h"
#include "data/dataset.h"
#include "meter/meter.h"
#include "model/model.h"
#include "work/speed.h"

#include <stddef.h>
#include <stdint.h>

struct trainer;

struct trainer_options {
	/* id: of the worker. Its log also gets an `applied` record for each action that changed
	 * this worker; a `spent` record when asked for, and at the end. */
	struct meter_options meter;
	const char *shards;         /* sockets */
	const char *const *servers; /* in the order of the parts; none with a replica */
	uint32_t server_count;
	const char *lead;    /* that has no parameters; NULL: the first server leads */
	const char *replica; /* NULL: servers */
	int delay; /* with a replica: compute a batch while the sum of the one before is made */
	const char *keep_dir; /* with servers: as there (servers.h) */
	const char *drag;     /* NULL: none */
	struct dataset *dataset; /* only the reading thread's until trainer_free() */
	const struct model_spec *spec;
	/* NULL, or: the data are a partition, and rows that come to it are kept here. */
	const char *spill;
	const char *peers;    /* NULL, or: rows may move, and the workers' rows sockets are here */
	const char *const *paths; /* of the dataset, for giving rows of it to other workers */
	size_t path_count;
	const char *index_dir;
	double fold_fraction;    /* for model_fold_fraction(); 0: its default */
	double clip;          /* most norm of a batch's mean gradient; 0: any */
	int unit_weights;     /* every sample's weight is 1 */
	uint64_t batch;       /* rows; adjust-bs changes it */
	uint64_t ahead;       /* batches taken from shardd in advance */
	struct model_device device;
	int profile;             /* measure it first */
	const char *device_file; /* NULL, or for what was measured of a card, of this model file */
	const char *model_path;
	const struct speed_options *speed; /* NULL: the worker does not predict its speed */
	double wait_seconds;  /* longest wait for a daemon that is not there */
	double answer_seconds;
	const volatile int *stop; /* set by a signal handler: finish the batch, give back, return */
	volatile int *spent_wanted; /* set by a signal handler: a `spent` record, soon */
};

int trainer_new(struct trainer **out, const struct trainer_options *options, struct error *err);
void trainer_free(struct trainer *t); /* NULL is fine */

/* Trains until the job is finished or *stop: 0. -1: ERROR_UNAVAILABLE (a daemon was not there in
 * time), ERROR_DATA (a bad row with file:line:column; a loss that is not a number), ERROR_CONFIG
 * (servers or queue belong to another model or other data), ERROR_SOFTWARE (a request was refused).
 * What is held has been given back as far as possible. */
int trainer_run(struct trainer *t, struct error *err);

#endif

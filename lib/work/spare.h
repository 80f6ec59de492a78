/*
 * spare: a worker that is started, has its data open and its kernels chosen, and waits for a place
 * among the workers (trainctl(1), WORKERS spares).  It asks the supervisor (`spare id=`), which
 * answers when a worker has died.
 */
#ifndef PACELINE_WORK_SPARE_H
#define PACELINE_WORK_SPARE_H

#include "base/error.h"

#include <stdint.h>

struct spare_options {
	const char *path; /* socket of trainctl */
	const char *id;
	double wait_seconds;      /* longest time without a supervisor, which may come back */
	const volatile int *stop; /* set by a signal: the wait ends */
};

/* Waits for a place. WORK_OK: there is one, with a batch of so many rows. WORK_END: there is none
 * and will be none. WORK_STOP: *stop was set. -1: ERROR_UNAVAILABLE, no supervisor for
 * wait_seconds. */
int spare_wait(const struct spare_options *options, uint64_t *batch, struct error *err);

#endif

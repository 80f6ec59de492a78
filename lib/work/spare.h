/*
 * spare: a worker that is started, has its data open and its kernels chosen, and waits for a place
 * among the workers (trainctl(1), WORKERS spares).  It asks the supervisor (`spare id=`), which
 * answers when a worker has died.
 */
#ifndef PACELINE_WORK_SPARE_H
#define PACELINE_WORK_SPARE_H

#include "base/error.h"

#include <stdint.h>

struct call;

struct spare {
	const char *path; /* socket of trainctl */
	const char *id;
	double wait_seconds;      /* longest time without a supervisor, which may come back */
	const volatile int *stop; /* set by a signal: spare_wait() ends */
	/* once there is a place: rows of a batch, the number among the workers */
	uint64_t batch, rank;
	/* private */
	struct call *call;
	double deadline, retry_at;
};

/* Asks, or looks for the answer. WORK_OK: there is a place. WORK_WAIT: not yet. WORK_END: there is
 * none and will be none. -1: ERROR_UNAVAILABLE, no supervisor for wait_seconds. Unless it is
 * WORK_WAIT, nothing is open any more. */
int spare_try(struct spare *s, struct error *err);
int spare_fd(const struct spare *s); /* for poll(2); -1: not connected */
void spare_close(struct spare *s); /* whoever asks after that waits for the supervisor anew */
/* Waits for a place. As spare_try(), and WORK_STOP: *stop was set. */
int spare_wait(struct spare *s, struct error *err);

#endif

/* What mover.c (both threads, and the one that takes) and giver.c (the one that gives) share. */
#ifndef PACELINE_WORK_MOVER_INTERNAL_H
#define PACELINE_WORK_MOVER_INTERNAL_H

#include "wire/transport.h"
#include "work/mover.h"

#include <pthread.h>
#include <stdatomic.h>

#define MOVER_CHUNK_BYTES ((size_t)8 << 20) /* of rows in one answer, about */
#define MOVER_LOOK_SECONDS 0.2              /* between looks at `stop` */

struct mover {
	struct mover_options options;
	pthread_t giver, taker;
	int giver_runs, taker_runs;
	struct transport_listener listens;
	atomic_int stop;
};

/* DIR/ID.rows.sock */
int mover_socket(char *out, size_t max, const char *dir, const char *worker, struct error *err);
int giver_listen(struct mover *m, struct error *err);
void *giver_main(void *mover);

#endif

/* What rows_move.c (start and end, and the thread that takes) and rows_give.c (the thread that
 * gives) share. */
#ifndef PACELINE_WORK_ROWS_MOVE_INTERNAL_H
#define PACELINE_WORK_ROWS_MOVE_INTERNAL_H

#include "work/rows_move.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROWS_LOOK_SECONDS 0.2 /* between looks at `stop` */

struct server;

struct rows_move {
	struct rows_move_options options;
	pthread_t giver, taker;
	int giver_runs, taker_runs;
	struct server *server; /* the giver's */
	struct timer *look;    /* when the giver looks at `stop` */
	atomic_int stop;
};

/* DIR/ID.rows.sock */
int rows_move_socket(char *out, size_t max, const char *dir, const char *worker, struct error *err);

/* Makes m->server; before its thread begins. */
int rows_give_start(struct rows_move *m, struct error *err);
void *rows_give_main(void *rows_move);

#endif

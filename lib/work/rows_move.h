/*
 * rows_move: rows on their way between workers, behind the trainer's back (LB-BSP 3.5).
 *
 * One thread gives: clients of this worker's rows socket may ask for rows that are here.
 * One thread takes: it asks shardd which rows are to come here, fetches their text from the worker
 * that has them, keeps it (rows_spill.h), and only then says `moved`; from then on shardd hands
 * them out here.
 * No crash loses rows: the giver has them until `moved` is on shardd's disk.
 */
#ifndef PACELINE_WORK_ROWS_MOVE_H
#define PACELINE_WORK_ROWS_MOVE_H

#include "base/error.h"
#include "data/rowscan.h"

#include <stddef.h>
#include <stdint.h>

struct rows_move;

struct rows_move_options {
	const char *worker;
	const char *shards; /* socket of shardd */
	const char *dir;    /* of the rows sockets: ID.rows.sock */
	const char *spill;  /* directory of the files that are kept */
	const char *const *paths; /* the worker's own data, in order */
	size_t path_count;
	const char *index_dir; /* NULL: beside the data */
	struct row_syntax syntax;
	uint64_t begin, length; /* numbers of the own rows */
	double answer_seconds;
};

/* All strings are borrowed. */
int rows_move_start(struct rows_move **out, const struct rows_move_options *options,
		    struct error *err);
/* Ends both threads, within a few seconds. NULL is fine. */
void rows_move_stop(struct rows_move *m);

#endif

/*
 * options: what a solution is told besides the snapshot; the same for every solution.
 *
 * One row an option.  From it come the keys of `trainctl solve -o`, the key of a job file, what a
 * job's log says of a decision (so that `trainctl solve --log` asks with the same), and the arguments
 * of an executable.  A new option is a field and a row here, and the rule that reads it; a test
 * says which page lacks it.
 */
#ifndef PACELINE_SOLVE_OPTIONS_H
#define PACELINE_SOLVE_OPTIONS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum solution_sync {
	SYNC_UNSAID, /* as `info name=sync` of the snapshot says; without it bsp */
	SYNC_BSP,
	SYNC_SSP,
	SYNC_ASP
};

struct solution_options {
	uint64_t batch; /* global batch; 0: the sum of the sizes in the snapshot */
	double lambda;  /* from this ratio on a node is slow */
	double pending; /* seconds; from this pending time on the cluster is busy */
	enum solution_sync sync;
	uint64_t limit;  /* a node restarted that often is not restarted again */
	uint64_t cmax;   /* accumulation steps at most */
	uint64_t least;  /* samples of a worker's step at least, where its device holds as many */
	uint64_t number; /* behind the colon of the solution's name, so it has no row */
};

enum solution_option_kind { SOLUTION_COUNT, SOLUTION_REAL, SOLUTION_SYNC };

struct solution_option {
	const char *key;
	enum solution_option_kind kind;
	double min, max;     /* of numbers */
	const char *given;   /* default; "": it is not said, and help tells what then holds */
	size_t at;           /* in struct solution_options */
	const char *job_key; /* where a job file says it: "KEY part", or KEY */
	const char *help;
};

#define SOLUTION_OPTIONS_MAX 16
#define SOLUTION_OPTION_TEXT_MAX 40 /* a key, or a value, with its NUL */

/* The i-th row; NULL behind the last. */
const struct solution_option *solution_option(size_t i);

/* All at their defaults; number is 1. */
void solution_options_init(struct solution_options *o);
/* ERROR_USAGE naming a bad value. */
int solution_option_set(const struct solution_option *row, struct solution_options *o,
			const char *value, struct error *err);
/* "KEY=VALUE"; ERROR_USAGE naming an unknown key or a bad value. */
int solution_options_set(struct solution_options *o, const char *assignment, struct error *err);
/* The value as text; returns its length, 0 where none is said. */
size_t solution_option_format(const struct solution_option *row, const struct solution_options *o,
			      char out[SOLUTION_OPTION_TEXT_MAX]);
struct record_out;
/* Each that is said, as a field. */
void solution_options_add(struct record_out *o, const struct solution_options *options);

/* For an executable: "KEY=VALUE" of each that is said. */
struct solution_arguments {
	char *item[SOLUTION_OPTIONS_MAX + 1]; /* NULL behind the last */
	char text[SOLUTION_OPTIONS_MAX][2 * SOLUTION_OPTION_TEXT_MAX];
};
void solution_options_arguments(const struct solution_options *o, struct solution_arguments *out);

/* "bsp", "asp", or "ssp" with or without a bound, as a job file has it. -1: another word. */
int solution_sync_of(const char *word, enum solution_sync *out);

#endif

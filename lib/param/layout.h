/*
 * layout: which parameters a model has, and how they begin.
 *
 * The dense parameters are one flat float vector: the tensors in their order, each row-major, one
 * behind the other.  Besides there is at most one table of sparse rows, `width` floats each, found
 * by a 32-bit key; a row exists from its first touch on.  Which server has what: map.h.
 *
 * Initial values come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC'11) with the seed as its key and the index as its counter: the value of an element depends
 * on the seed and its index only, so any number of servers starts with the same model.
 *
 * A struct layout is plain data without pointers; it may be copied.
 */
#ifndef PACELINE_PARAM_LAYOUT_H
#define PACELINE_PARAM_LAYOUT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define LAYOUT_TENSORS_MAX 64
#define LAYOUT_NAME_MAX 65            /* an id of at most 64 characters, and its NUL */
#define LAYOUT_DENSE_MAX (1ull << 40) /* floats */
#define LAYOUT_WIDTH_MAX 65536u       /* floats a row */

enum layout_init { LAYOUT_ZERO, LAYOUT_NORMAL, LAYOUT_UNIFORM };
enum layout_update { LAYOUT_OPTIMIZER, LAYOUT_ADD /* parameter += sum of gradients */ };
enum layout_export { LAYOUT_EXPORT_ROWS, LAYOUT_EXPORT_DENSE };

struct layout_tensor {
	char name[LAYOUT_NAME_MAX];
	uint64_t rows, cols; /* both at least 1; a vector has cols 1 */
	uint64_t begin;      /* index of its first element in the flat vector */
	enum layout_init init;
	double scale; /* normal: standard deviation; uniform: values in (-scale, scale) */
	enum layout_update update;
};

struct layout_table {
	char name[LAYOUT_NAME_MAX];
	uint32_t width;
	uint64_t rows;         /* keys are below it; 0: any 32-bit key */
	uint32_t zero_columns; /* the leading columns of a row that start at 0 */
	double scale;          /* standard deviation of the others */
	enum layout_update update;
	enum layout_export export; /* dense: exported as one tensor of all `rows`, absent ones initial */
};

struct layout {
	uint64_t seed;
	size_t count;
	struct layout_tensor tensor[LAYOUT_TENSORS_MAX];
	int has_table;
	struct layout_table table;
};

/* An empty layout. */
void layout_start(struct layout *l, uint64_t seed);
/* Appends a tensor. Fails (ERROR_DATA) on a bad or repeated name, an empty tensor, a negative scale,
 * more than LAYOUT_TENSORS_MAX tensors or LAYOUT_DENSE_MAX elements. */
int layout_add_tensor(struct layout *l, const char *name, uint64_t rows, uint64_t cols,
		      enum layout_init init, double scale, enum layout_update update,
		      struct error *err);
/* Checks *table and takes a copy. Once only. */
int layout_set_table(struct layout *l, const struct layout_table *table, struct error *err);

uint64_t layout_dense_count(const struct layout *l);
/* By name; NULL when there is none. */
const struct layout_tensor *layout_tensor(const struct layout *l, const char *name);

/* Initial values of elements begin..begin+count-1 of the flat vector (in range) into out[count]. */
void layout_init_dense(const struct layout *l, uint64_t begin, uint64_t count, float *out);
/* Initial values of the row of key into out[width]. The layout has a table. */
void layout_init_row(const struct layout *l, uint32_t key, float *out);

/* The text form (records; paceline-checkpoint(5)). Reading fails with ERROR_DATA and path:line;
 * writing replaces the file durably. */
int layout_read(struct layout *l, const char *path, struct error *err);
int layout_write(const struct layout *l, const char *path, struct error *err);

#endif

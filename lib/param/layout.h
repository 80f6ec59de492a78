/*
 * layout: which parameters a model has, and their initial values.
 *
 * The dense parameters are one flat vector of floats: all tensors in their order, each row-major,
 * without gaps.  A model may also have one table of sparse rows.  A row has `width` floats and is
 * found by a 32-bit key; it exists from its first touch on. map.h says which server has which
 * parameters.
 *
 * Initial values come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC'11).  Its key is the seed, and its counter is the index of the element.  So a value
 * depends on the seed and the index only, and any number of servers starts with the same model.
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
	uint64_t rows;         /* all keys are smaller; 0: any 32-bit key */
	uint32_t zero_columns; /* the leading columns of a row that start at 0 */
	double scale;          /* standard deviation of the others */
	enum layout_update update;
	enum layout_export export; /* DENSE: one tensor of all `rows`; missing ones are initial */
};

struct layout {
	uint64_t seed;
	size_t count;
	struct layout_tensor tensor[LAYOUT_TENSORS_MAX];
	int has_table;
	struct layout_table table;
};

/* Makes *l an empty layout. */
void layout_start(struct layout *l, uint64_t seed);
/* Appends a tensor. Fails (ERROR_DATA) on a bad or repeated name, an empty tensor, a negative
 * scale, more than LAYOUT_TENSORS_MAX tensors or LAYOUT_DENSE_MAX elements. */
int layout_add_tensor(struct layout *l, const char *name, uint64_t rows, uint64_t cols,
		      enum layout_init init, double scale, enum layout_update update,
		      struct error *err);
/* Checks *table and takes a copy. Once only. */
int layout_set_table(struct layout *l, const struct layout_table *table, struct error *err);

uint64_t layout_dense_count(const struct layout *l);
/* Finds a tensor by its name; NULL: there is none. */
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

/*
 * schema: what the columns of a data file mean, and how they become numbers.
 *
 * A schema is made from option values (schema_new), may be fitted to training data (schema_fit in
 * dataset.h), and is kept as a file of records that lies in every checkpoint: a model scored later
 * sees its rows exactly as they were seen in training.  It is only read after that: any number of
 * threads may share one.
 *
 * Dense column: x -> sign(x) * log1p(|x|) (scale log-z; z and none leave x), then
 * (x - mean) / deviation (log-z and z; population deviation, 1 for a constant column).  A missing
 * (empty) value becomes 0, which is the mean after scaling, and takes no part in mean and deviation.
 *
 * Sparse column: key = XXH3_64bits_withSeed(value, seed) mod 2^hash_bits with seed =
 * XXH3_64bits(name of the column), both over the bytes as they stand in the file.  A missing value is
 * the category with the empty name.  Of a csv the values in `missing` ("NA", "?") are missing, too, in
 * any column but the label's.  libsvm: key = XXH3_64bits_withSeed(the index as 8 bytes, least
 * significant first, seed) with seed = 0 (libsvm) or 1 + field (libffm); the value is kept.
 * idx, cifar10, cifar100: each byte x of an image is a dense column of its own, x / 255, not scaled
 * any further; the label is its number as text.
 * bag: key = word mod 2^31, which is the word itself but for those from 2^31 on; the count is the value;
 * there is no label (NAN).
 */
#ifndef PACELINE_DATA_SCHEMA_H
#define PACELINE_DATA_SCHEMA_H

#include "base/error.h"
#include "data/classes.h"
#include "data/format.h"

#include <stddef.h>
#include <stdint.h>

#define SCHEMA_COLUMNS_MAX 4096      /* dense, and sparse */
#define SCHEMA_NAME_MAX 256          /* bytes of a column's name or a label's value */
#define SCHEMA_HASH_BITS_MAX 31
#define SCHEMA_MISSING_MAX 32        /* spellings of a missing value */
#define BAG_KEY_MAX 0x7fffffffu      /* of a word; the other keys are the model's own */
#define BAG_COUNT_MAX (1 << 24)      /* of a word in a row: all smaller ones are exact as a float */
#define SCHEMA_CRITEO_DENSE 13       /* I1..I13 */
#define SCHEMA_CRITEO_SPARSE 26      /* C1..C26 */

enum schema_scale { SCHEMA_LOG_Z, SCHEMA_Z, SCHEMA_NONE };

/* What a label is. BINARY: 0 or 1. CLASS: the place of its value among the classes, which
 * schema_fit() finds in the training data; another value is a bad row. REAL: a finite number, (x -
 * label_mean) / label_deviation, which are those of the training data unless the scale is none. */
enum schema_labels { SCHEMA_BINARY, SCHEMA_CLASS, SCHEMA_REAL };
#define SCHEMA_LABELS "binary|class|real"

struct schema_column {
	char *name;
	double mean, deviation; /* dense: 0 and 1 until fitted */
	uint64_t seed;          /* sparse: XXH3_64bits(name) */
};

struct schema_word {
	char *text;
	size_t len;
};

struct schema {
	struct row_syntax syntax; /* never ROW_LINES */
	enum schema_scale scale;
	unsigned hash_bits;  /* keys are in [0, 2^hash_bits) */
	int fitted;          /* mean and deviation are those of training data */
	enum schema_labels labels;
	struct classes classes; /* CLASS; none until fitted */
	double label_mean, label_deviation; /* REAL; 0 and 1 until fitted */
	char *label;         /* csv: name of the column; otherwise NULL */
	char *weight;        /* csv: name of the column, or NULL: every weight is 1 */
	char *positive;      /* the label value that means 1, or NULL: 0 and 1 (libsvm: also -1) */
	char *negative;      /* the only other value allowed, or NULL: any other means 0 */
	char *missing;       /* csv: values that are read as empty ones, as given; or NULL */
	struct schema_word *missing_word; /* the same, taken apart */
	size_t missing_count;
	size_t dense_count, sparse_count;
	struct schema_column *dense, *sparse;
};

/* Option values as in paceline-job(5); NULL or 0 where one is not given. dense and sparse are lists
 * separated by commas; a name may hold %XX (a comma: %2C). criteo: default all of I1..I13, C1..C26,
 * a list chooses among them. csv: label and at least one column are needed. libsvm: no lists.
 * bag: none of them, and no values of labels; hash_bits are always 31. */
struct schema_options {
	const char *format;      /* ROW_FORMAT_CHOICES */
	const char *separator;   /* csv: separator of FORMAT; of the two one is needed (row_syntax_find) */
	const char *label;
	const char *labels;      /* a word of SCHEMA_LABELS; NULL: binary */
	const char *dense, *sparse;
	const char *weight;
	const char *positive, *negative;
	const char *missing;     /* csv: a list like dense, SCHEMA_MISSING_MAX values at most */
	const char *dense_scale; /* log-z | z | none; NULL: log-z */
	uint64_t hash_bits;      /* 1..31; 0: 20 */
	uint64_t pixels;         /* idx: bytes of an image, as its file says (rowfile_guess()) */
};

/* Errors: ERROR_CONFIG with the key of the job file as place ("LABEL"). */
int schema_new(struct schema **out, const struct schema_options *options, struct error *err);
void schema_free(struct schema *s); /* NULL is fine */

/* File of records: `schema version=1 ...`, then a `dense name= mean= deviation=`, a `sparse name=`
 * and a `class name=` each, then `end sum=`. Written with fs_replace_file(). */
int schema_read(struct schema **out, const char *path, struct error *err);
int schema_write(const struct schema *s, const char *path, struct error *err);
/* The sum of that file: schemas that have the same one make the same numbers of a row. */
int schema_sum(const struct schema *s, uint64_t *sum, struct error *err);

/* 1 when rows become the same numbers under both; else 0 and why in err (may be NULL). Means and
 * deviations are compared only when both are fitted. */
int schema_equal(const struct schema *a, const struct schema *b, struct error *err);

/* Whether dense columns or classes need schema_fit() before rows are read. */
int schema_needs_fit(const struct schema *s);
/* Whether numbers do: dense columns, and labels that are numbers. */
int schema_scales(const struct schema *s);

/* Keys that every row has, or 0 when rows differ (libsvm, bag). */
size_t schema_fields(const struct schema *s);

const char *schema_scale_name(enum schema_scale scale);
const char *schema_labels_name(enum schema_labels labels);

/* The key of one category. */
uint32_t schema_key(const struct schema *s, const struct schema_column *column, const char *value,
		    size_t len);
/* libsvm: field < 0 when there is none. */
uint32_t schema_index_key(const struct schema *s, int64_t field, uint64_t index);

/* Of names[count] the one nearest to name by edit distance, or NULL when none is near. */
const char *schema_nearest(const char *name, const char *const *names, size_t count);

#endif

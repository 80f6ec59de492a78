/*
 * parse: one row of text to numbers, by a schema.  Private to lib/data; dataset.c and stream.c give
 * it rows.
 */
#ifndef PACELINE_DATA_PARSE_H
#define PACELINE_DATA_PARSE_H

#include "base/error.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "data/rowscan.h"
#include "data/schema.h"

#define PARSE_TABLE 1024 /* scaled values of 0..1023 are looked up */

/* Where a file's columns stand. criteo, libsvm, images: unused but for their defaults. */
struct columns {
	size_t count;      /* fields a row must have */
	size_t label_at;
	size_t weight_at;  /* SIZE_MAX: none; label_at too with label_optional */
	size_t *dense_at, *sparse_at;
	unsigned char *image_label; /* idx: of each image; NULL: none was found, nor is needed */
	uint64_t image_labels;
	char *image_label_path;
};

/* Running mean and sum of squared deviations (Welford 1962). */
struct fit_column {
	uint64_t count;
	double mean, squares;
};

struct parser {
	const struct schema *schema;
	int label_optional;
	uint64_t mask;
	double *inverse;  /* 1 / deviation of each dense column */
	float *table;     /* criteo: PARSE_TABLE scaled integers of each dense column */
	/* When set: dense values are gathered there, and not scaled; behind them real labels. */
	struct fit_column *fit;
	double *raw;      /* of the row at hand, for fit: NAN where missing; then a real label */
	struct classes *classes; /* when set: those of good rows are gathered there */
	const char *class_text;  /* of the row at hand, for classes */
	size_t class_len, class_at;
	char image_label[4]; /* of the row at hand, as text */
	struct labels *labels; /* when set: counts the labels of all rows, of bad ones too */
	uint64_t row;     /* number of the row at hand */
};

int parser_init(struct parser *p, const struct schema *s, int label_optional, struct error *err);
/* After mean and deviation of the schema were changed. */
void parser_refresh(struct parser *p);
void parser_free(struct parser *p);

/* Binds a csv header, or takes the fixed places of criteo and libsvm (header NULL). */
int columns_bind(struct columns *c, const struct parser *p, struct rowscan *scan,
		 const struct row_ref *header, const char *file, struct error *err);
void columns_free(struct columns *c);

enum parse_result { PARSE_OK = 0, PARSE_BAD = 1 };
/* Adds the row to rows under its number: PARSE_OK; PARSE_BAD: nothing added, err->text says why and
 * *at is the offset in the row; -1: out of memory. */
int parse_row(struct parser *p, const struct columns *c, struct rowscan *scan,
	      const struct row_ref *row, uint64_t number, struct rows *rows, size_t *at,
	      struct error *err);

/* ---- for the parsers themselves ---- */
int parse_bad(size_t *at, size_t where, struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The label rule of the schema; PARSE_OK or PARSE_BAD. */
int parse_label(struct parser *p, const char *text, size_t len, float *out, size_t *at,
		size_t where, struct error *err);
/* log1p and scaling; not finite when x is too large for a float. */
float parse_scale(const struct parser *p, size_t column, double x);
int parse_criteo(struct parser *p, const struct columns *c, const struct row_ref *row,
		 struct rows *rows, size_t *at, struct error *err);
int parse_libsvm(struct parser *p, const struct row_ref *row, struct rows *rows, size_t *at,
		 struct error *err);
/* The file that has the labels of an idx file. ERROR_DATA: the name does not say it; ERROR_NOINPUT:
 * it is not there. */
int image_label_file(const char *file, char *out, size_t max, struct error *err);
/* Reads the labels of an idx file. */
int image_bind(struct columns *c, const struct parser *p, const char *file, struct error *err);
int parse_image(struct parser *p, const struct columns *c, const struct row_ref *row, struct rows *rows,
		size_t *at, struct error *err);
int parse_bag(const struct row_ref *row, struct rows *rows, size_t *at, struct error *err);

/* rows.c */
void rows_begin(struct rows *rows, const struct schema *s);
int rows_reserve(struct rows *rows, size_t keys, struct error *err); /* one more row */
int rows_reserve_many(struct rows *rows, size_t more, size_t keys, struct error *err);

/* The place "file:line:column" of byte `at` of a row. */
void parse_place(char *out, size_t out_max, const char *file, const struct row_ref *row, size_t at);

#endif

/*
 * file: records of models on their way to a file and back, with a checksum behind them:
 *
 *     (records of predictor_save() and whatever stands around them)
 *     whole sum=...        XXH3 of the records before, 16 hexadecimal digits
 *
 * So a reader notices that a file was cut off, or that a digit changed.
 */
#ifndef PACELINE_PREDICT_FILE_H
#define PACELINE_PREDICT_FILE_H

#include "predict/predict.h"

#include <stdio.h>

struct predict_file { /* one of them, the caller's; sum is 0 at first */
	FILE *out;
	struct record_reader *in;
	uint64_t sum;
};

/* A predict_put_fn and a predict_take_fn; arg is the struct predict_file. An empty line or the end
 * of the file is no record: ERROR_DATA. */
int predict_file_put(const char *line, size_t len, void *file, struct error *err);
int predict_file_take(struct record *r, void *file, struct error *err);

/* The last record; and that it is the next one, that the sum is right, and that nothing follows
 * (ERROR_DATA otherwise). */
int predict_file_put_end(struct predict_file *f, struct error *err);
int predict_file_take_end(struct predict_file *f, struct record *r, struct error *err);

/* A file with one predictor of this model: it is made as predictor_reuse() does, for another node.
 * -1: ERROR_DATA, ERROR_OS, or as open(2) failed; *out is not touched. */
int predict_file_load(struct predictor **out, const char *path, enum predict_model model,
		      struct error *err);

#endif

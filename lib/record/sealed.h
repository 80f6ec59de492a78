/*
 * sealed: text lines that each carry a checksum (paceline-journal(5)).
 *
 *     done worker=w0 id=17 sum=4c02b1f3\n
 *
 * The sum is the low 32 bits of XXH3 over the part of the line before " sum="; its seed is the sum
 * of the previous line (0 for the first).  So a line that is changed, missing, doubled or out of
 * place is noticed.
 */
#ifndef PACELINE_RECORD_SEALED_H
#define PACELINE_RECORD_SEALED_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define SEALED_SUM_BYTES 13 /* " sum=" and eight digits */
#define SEALED_MAX 1024     /* no line is longer, sum and newline included */

/* Whether line (without newline) is undamaged; then *content is its length without the sum. */
int sealed_valid(const char *line, size_t len, uint32_t chain, size_t *content, uint32_t *sum);
/* The sum that stands in a line; -1: none does. */
int sealed_said(const char *line, size_t len, uint32_t *sum);
/* For a line that is alone (its seed is not another line's sum; it may be long): its length without
 * the sum. A line without a sum was written by a person, and is taken as it is. 0: damaged, or of
 * another seed. */
size_t sealed_alone(const char *line, size_t len, uint32_t seed);
/* A seed of its own for whatever has another name. */
uint32_t sealed_seed(const char *name);

/* A growing text of such lines; if fd >= 0 it is written there when it gets long. */
struct sealed_out {
	char *data;
	size_t len;
	size_t room;
	uint32_t chain;   /* sum of the last line */
	uint64_t written; /* bytes that went to fd */
	int fd;           /* -1: everything stays in data */
	int errnum;       /* first failure; afterwards nothing is added */
};

/* Makes room for so many more bytes; -1: out of memory. */
int sealed_reserve(struct sealed_out *o, size_t bytes);
/* Adds sum and newline. Grows by itself; a failure is kept in errnum. */
void sealed_add(struct sealed_out *o, const char *line, size_t len);
/* Writes what is left to fd. -1: errnum says why. */
int sealed_flush(struct sealed_out *o);
void sealed_free(struct sealed_out *o);

#endif

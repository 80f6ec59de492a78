/*
 * number: text to numbers, strictly.
 *
 * The whole text must be the number: no blanks, no trailing letters, no hex, no "inf" or "nan",
 * nothing out of [min, max].  On failure err (may be NULL) holds code and the offending value, with
 * `what` as its place; *out is untouched.  Independent of the locale.
 */
#ifndef PACELINE_BASE_NUMBER_H
#define PACELINE_BASE_NUMBER_H

#include "base/error.h"

#include <stdint.h>

int number_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out, const char *what,
	       struct error *err);
/* Finite decimal, with optional fraction and exponent. */
int number_real(const char *text, double min, double max, double *out, const char *what,
		struct error *err);
/* A time in seconds: a decimal with an optional suffix s, m, h, d; min and max are seconds, too. */
int number_seconds(const char *text, double min, double max, double *out, const char *what,
		   struct error *err);
/* A size in bytes: a decimal with an optional suffix K, M, G, T (powers of 1024). */
int number_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *out, const char *what,
		 struct error *err);

/* Fast forms for trusted-length text that is not NUL-terminated; return 0 or -1. */
int number_u64_span(const char *text, size_t len, uint64_t *out);
int number_real_span(const char *text, size_t len, double *out);

/* Writes x so that reading it gives x again (shortest of %.6g, %.9g, %.17g that does);
 * out holds at least 32 bytes; returns the length. */
size_t number_format_real(double x, char *out);
size_t number_format_u64(uint64_t x, char *out);
/* As printf() with %.6f and %.9g, byte for byte, but ten times as fast for usual numbers. */
#define NUMBER_TEXT_MAX 328 /* bytes that out must hold */
size_t number_format_seconds(double x, char *out);
size_t number_format_brief(double x, char *out);

#endif

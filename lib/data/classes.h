/*
 * classes: the values of a label that has more than two meanings, in order: numbers by their value,
 * then texts by their bytes.  The place of a value, from 0, is what a model learns.  Numbers that are
 * equal ("1", "1.0", "+1") are one value.
 */
#ifndef PACELINE_DATA_CLASSES_H
#define PACELINE_DATA_CLASSES_H

#include "base/error.h"

#include <stddef.h>

#define CLASSES_MAX 65536
#define CLASS_TEXT_MAX 500 /* bytes: two of them, each byte as %XX, fit in a line of auc(1) */
#define CLASSES_NONE ((size_t)-1)

struct class_value {
	char *text;    /* a number in its shortest form */
	double number; /* NAN: it is none */
};

/* All zero bytes are an empty one. */
struct classes {
	struct class_value *value;
	size_t count, room;
};

void classes_free(struct classes *c); /* what it points to */
/* Adds a value that may be there already. ERROR_DATA: there are CLASSES_MAX. */
int classes_add(struct classes *c, const char *text, size_t len, struct error *err);
/* Its place, or CLASSES_NONE. */
size_t classes_find(const struct classes *c, const char *text, size_t len);
int classes_same(const struct classes *a, const struct classes *b);

#endif

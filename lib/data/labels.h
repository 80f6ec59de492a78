/*
 * labels: which values the label column holds, how often, and where each stood first.
 *
 * Labels have two meanings; a third value is a mistake that a model would learn without a warning
 * ("yes", "no" and "yes "), so it is named before anything is trained.
 */
#ifndef PACELINE_DATA_LABELS_H
#define PACELINE_DATA_LABELS_H

#include <stddef.h>
#include <stdint.h>

#define LABELS_MAX 8       /* different values that are told apart */
#define LABELS_TEXT_MAX 64 /* bytes kept of a value, NUL included */

enum label_meaning { LABEL_ZERO, LABEL_ONE, LABEL_BAD };

struct label_value {
	char text[LABELS_TEXT_MAX];
	enum label_meaning meaning;
	uint64_t rows;
	uint64_t first; /* number of the first row that has it */
};

/* All zero bytes are an empty one. Values stand in the order in which they were met. */
struct labels {
	struct label_value value[LABELS_MAX];
	size_t count;
	uint64_t other_rows; /* with further values */
};

void labels_add(struct labels *l, const char *text, size_t len, enum label_meaning meaning,
		uint64_t row);
/* Whether the values are worth a message: one value for 0 and one for 1 are not, and neither are
 * numbers written in several ways ("1" and "1.0"). */
int labels_are_odd(const struct labels *l);
int labels_have_bad(const struct labels *l);
/* The value that most rows with this meaning have, or NULL. */
const struct label_value *labels_most(const struct labels *l, enum label_meaning meaning);

/* place() writes "FILE:LINE" of a row. */
typedef void labels_place_fn(uint64_t row, char *out, size_t max, void *arg);
/* "'yes' (1): 512 rows, first at d.csv:2; 'maybe' (0): 1 row, at d.csv:17", those of most rows first,
 * as far as there is room. */
void labels_describe(const struct labels *l, labels_place_fn *place, void *arg, char *out,
		     size_t max);

#endif

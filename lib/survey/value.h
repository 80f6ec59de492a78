/*
 * value: what one value of a text table is, looked at alone.
 */
#ifndef PACELINE_SURVEY_VALUE_H
#define PACELINE_SURVEY_VALUE_H

#include <stddef.h>

enum value_kind {
	VALUE_MISSING, /* empty, or one of the usual spellings */
	VALUE_NUMBER,  /* as lib/data reads numbers */
	VALUE_COMMA,   /* a number with a decimal comma, or commas between thousands */
	VALUE_PERCENT, /* a number with a % behind it */
	VALUE_DATE,    /* a day, a time, or both */
	VALUE_WORD     /* anything else */
};

struct value {
	enum value_kind kind;
	size_t spelling; /* of a missing one, see value_spelling() */
	double number;
	int whole;  /* a number without fraction and exponent */
	int padded; /* a whole number that begins with 0 and has more digits: a code */
	int day;    /* a whole number that reads as YYYYMMDD */
	size_t words;
};

/* As lib/data gives it: blanks that are still around it were in quotes. */
void value_look(const char *text, size_t len, struct value *out);

/* How missing values are written; 0 is the empty one. NULL behind the last. */
#define VALUE_SPELLINGS 20
const char *value_spelling(size_t i);

/* Of two values of a label: 1 when the first one is known to mean yes and the second one no, -1 the
 * other way round, 0 when neither is known. */
int value_yes(const char *a, const char *b);

#endif

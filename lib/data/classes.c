/* classes: see classes.h. */
#include "data/classes.h"

#include "base/grow.h"
#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void classes_free(struct classes *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->value[i].text);
	free(c->value);
	*c = (struct classes){0};
}

static int classes_compare(const struct class_value *v, const char *text, size_t len, double number)
{
	if (!isnan(v->number) && !isnan(number))
		return (v->number > number) - (v->number < number);
	if (isnan(v->number) != isnan(number))
		return isnan(v->number) ? 1 : -1;
	size_t own = strlen(v->text), least = own < len ? own : len;
	int order = memcmp(v->text, text, least);
	return order ? order : (own > len) - (own < len);
}

static double number_of(const char *text, size_t len)
{
	double x;
	return number_real_span(text, len, &x) == 0 ? x : NAN;
}

/* The first place whose value is not before this one; *same: it is this one. */
static size_t classes_place(const struct classes *c, const char *text, size_t len, double number,
			    int *same)
{
	size_t low = 0, high = c->count;
	*same = 0;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = classes_compare(&c->value[middle], text, len, number);
		*same |= order == 0;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int classes_add(struct classes *c, const char *text, size_t len, struct error *err)
{
	double number = number_of(text, len);
	char shortest[40];
	int same;
	size_t at = classes_place(c, text, len, number, &same);
	if (same)
		return 0;
	if (c->count == CLASSES_MAX)
		return error_set(err, ERROR_DATA, NULL,
				 "the label has more than %d values: MODEL=linear learns numbers",
				 CLASSES_MAX);
	if (!isnan(number))
		len = number_format_real(number + 0.0, shortest); /* -0 is 0 */
	char *copy = strndup(isnan(number) ? text : shortest, len);
	if (!copy || GROW(c->value, c->room, c->count + 1) != 0) {
		free(copy);
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu classes",
				 c->count + 1);
	}
	memmove(c->value + at + 1, c->value + at, (c->count - at) * sizeof *c->value);
	c->value[at] = (struct class_value){copy, number};
	c->count++;
	return 0;
}

size_t classes_find(const struct classes *c, const char *text, size_t len)
{
	int same;
	size_t at = classes_place(c, text, len, number_of(text, len), &same);
	return same ? at : CLASSES_NONE;
}

int classes_same(const struct classes *a, const struct classes *b)
{
	if (a->count != b->count)
		return 0;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->value[i].text, b->value[i].text) != 0)
			return 0;
	return 1;
}

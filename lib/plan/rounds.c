/* rounds: see rounds.h. */
#include "plan/rounds.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rounds_one {
	char *text;
	size_t len;
	size_t count[PLAN_ROLES];
	double cores[PLAN_ROLES];
};

static int is_alike(const struct rounds_one *a, const struct rounds_one *b)
{
	for (int i = 0; i < PLAN_ROLES; i++)
		if (a->count[i] != b->count[i] || a->cores[i] != b->cores[i])
			return 0;
	return 1;
}

static int rounds_look(struct rounds *r, struct rounds_one *one, struct error *err)
{
	struct record_walk walk = record_walk(one->text, one->len);
	struct record record;
	int got;
	usage_begin(&r->usage);
	while ((got = record_next(&walk, &record, err)) == RECORD_ONE) {
		if (record_is(&record, "job"))
			got = usage_take_job(&r->usage, &record, err);
		else if (record_is(&record, "node"))
			got = usage_take_node(&r->usage, &record, err);
		else
			got = error_set(err, ERROR_DATA, NULL, "a %.40s record in a round",
					record.type);
		if (got != 0)
			return -1;
	}
	if (got != RECORD_END)
		return -1;
	if (!r->usage.has_job)
		return error_set(err, ERROR_DATA, NULL, "a round without a job record");
	for (int i = 0; i < PLAN_ROLES; i++) {
		one->count[i] = r->usage.role[i].count;
		one->cores[i] = r->usage.role[i].cores;
	}
	return 0;
}

static void rounds_drop(struct rounds *r, size_t i)
{
	free(r->one[i].text);
	memmove(r->one + i, r->one + i + 1, (--r->count - i) * sizeof *r->one);
}

/* The oldest of those that are too many. */
static void rounds_bound(struct rounds *r)
{
	const struct rounds_one *last = &r->one[r->count - 1];
	size_t alike = 0, first = 0, others = 0;
	for (size_t i = r->count; i-- > 0;) {
		if (!is_alike(&r->one[i], last))
			continue;
		alike++;
		first = i;
	}
	if (alike > ROUNDS_EACH) {
		rounds_drop(r, first);
		return;
	}
	/* From the newest on: a configuration counts when it is met for the first time. */
	for (size_t i = r->count; i-- > 0;) {
		size_t k = i + 1;
		while (k < r->count && !is_alike(&r->one[i], &r->one[k]))
			k++;
		others += k == r->count;
		if (others > ROUNDS_CONFIGURATIONS) {
			rounds_drop(r, i);
			others--;
		}
	}
}

int rounds_add(struct rounds *r, const char *text, size_t len, struct error *err)
{
	struct rounds_one one = {.len = len, .text = malloc(len + 1)};
	if (!one.text || GROW(r->one, r->room, r->count + 1) != 0) {
		free(one.text);
		return error_set(err, ERROR_OS, NULL, "out of memory for a round");
	}
	memcpy(one.text, text, len);
	one.text[len] = '\0';
	if (rounds_look(r, &one, err) != 0) {
		free(one.text);
		return -1;
	}
	r->one[r->count++] = one;
	rounds_bound(r);
	return 0;
}

char *rounds_text(const struct rounds *r, size_t *len)
{
	char *text = NULL;
	FILE *out = grow_stream(&text, len);
	if (!out)
		return NULL;
	for (size_t i = 0; i < r->count; i++) {
		if (i > 0)
			fputc('\n', out);
		fwrite(r->one[i].text, 1, r->one[i].len, out);
	}
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

const char *rounds_at(const struct rounds *r, size_t i, size_t *len)
{
	if (i >= r->count)
		return NULL;
	*len = r->one[i].len;
	return r->one[i].text;
}

void rounds_clear(struct rounds *r)
{
	while (r->count > 0)
		free(r->one[--r->count].text);
	free(r->one);
	usage_clear(&r->usage);
	*r = (struct rounds){0};
}

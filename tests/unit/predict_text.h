/* What predictors are saved to and loaded from in tests: records in memory. */
#ifndef PACELINE_TESTS_PREDICT_TEXT_H
#define PACELINE_TESTS_PREDICT_TEXT_H

#include "predict/predict.h"

#include <stdlib.h>
#include <string.h>

struct text {
	char *data;
	size_t len, room, at;
};

static int put(const char *line, size_t len, void *arg, struct error *err)
{
	struct text *t = arg;
	(void)err;
	while (t->len + len > t->room)
		t->data = realloc(t->data, t->room = 2 * t->room + 4096);
	memcpy(t->data + t->len, line, len);
	t->len += len;
	return 0;
}

static int take(struct record *r, void *arg, struct error *err)
{
	struct text *t = arg;
	if (t->at == t->len)
		return error_set(err, ERROR_DATA, NULL, "the end");
	const char *line = t->data + t->at;
	size_t len = (size_t)((const char *)memchr(line, '\n', t->len - t->at) - line);
	t->at += len + 1;
	return record_parse(r, line, len, err);
}

#endif

/* What tests of queues share: changes as calls, and a queue's lines as one text. */
#ifndef PACELINE_TESTS_UNIT_QUEUE_H
#define PACELINE_TESTS_UNIT_QUEUE_H

#include "shard/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- changes ---- */

static inline enum queue_result say(struct queue *q, const char *type, struct queue_change *c)
{
	return queue_make(q, queue_kind(type), c, NULL);
}

static inline enum queue_result say_hello(struct queue *q, const char *worker, uint64_t *generation)
{
	struct queue_change c = {.worker = worker};
	enum queue_result result = say(q, "hello", &c);
	*generation = c.generation;
	return result;
}

static inline enum queue_result say_get(struct queue *q, const char *worker, uint64_t generation,
					uint64_t max, struct queue_piece *piece)
{
	struct queue_change c = {.worker = worker, .generation = generation, .max = max};
	enum queue_result result = say(q, "get", &c);
	if (result == QUEUE_OK)
		*piece = c.piece;
	return result;
}

static inline enum queue_result say_done(struct queue *q, const char *worker, uint64_t generation,
					 uint64_t id)
{
	struct queue_change c = {.worker = worker, .generation = generation, .id = id};
	return say(q, "done", &c);
}

static inline enum queue_result say_progress(struct queue *q, const char *worker,
					     uint64_t generation, uint64_t id, uint64_t upto)
{
	struct queue_change c = {
		.worker = worker, .generation = generation, .id = id, .upto = upto};
	return say(q, "progress", &c);
}

static inline enum queue_result say_back_range(struct queue *q, const char *worker,
					       uint64_t generation, uint64_t id, uint64_t begin,
					       uint64_t length)
{
	struct queue_change c = {.worker = worker,
				 .generation = generation,
				 .id = id,
				 .begin = begin,
				 .length = length};
	return say(q, "back", &c);
}

static inline enum queue_result say_back(struct queue *q, const char *worker, uint64_t generation,
					 uint64_t id)
{
	return say_back_range(q, worker, generation, id, QUEUE_UNSAID, 0);
}

static inline enum queue_result say_bye(struct queue *q, const char *worker, uint64_t generation)
{
	struct queue_change c = {.worker = worker, .generation = generation};
	return say(q, "bye", &c);
}

static inline enum queue_result say_fail(struct queue *q, const char *worker, uint64_t *shards)
{
	struct queue_change c = {.worker = worker};
	enum queue_result result = say(q, "fail", &c);
	*shards = c.shards;
	return result;
}

static inline enum queue_result say_release(struct queue *q, uint64_t id)
{
	struct queue_change c = {.id = id};
	return say(q, "release", &c);
}

static inline void say_set(struct queue *q, uint64_t retries, double lease)
{
	struct queue_change c = {.retries = retries, .lease = lease};
	say(q, "set", &c);
}

/* ---- lines ---- */

struct text {
	char *data;
	size_t len, room;
};

/* For queue_set_log() and queue_write(). */
static inline void text_add(void *text, const char *line, size_t len)
{
	struct text *t = text;
	if (t->len + len + 2 > t->room) {
		t->room = 2 * (t->room + len) + 4096;
		t->data = realloc(t->data, t->room);
		assert_non_null(t->data);
	}
	memcpy(t->data + t->len, line, len);
	memcpy(t->data + t->len + len, "\n", 2);
	t->len += len + 1;
}

/* Its state, to be freed. */
static inline char *text_of(const struct queue *q)
{
	struct text t = {0};
	queue_write(q, text_add, &t);
	return t.data;
}

/* The queue that these lines make; NULL with err. */
static inline struct queue *queue_of_text(const char *text, const struct queue_parameters *expected,
					  struct error *err)
{
	struct queue_loader *l = queue_loader_new(expected);
	struct queue *q = NULL;
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		if (queue_loader_line(l, text, n, err) < 0) {
			queue_loader_free(l);
			return NULL;
		}
	}
	return queue_loader_finish(l, &q, err) == 0 ? q : NULL;
}

/* All lines so far make the same queue. */
static inline void assert_replayed(const struct queue *q, const struct text *lines)
{
	struct error err = {0};
	struct queue *copy = queue_of_text(lines->data, NULL, &err);
	if (!copy)
		fail_msg("%s", err.text);
	char *a = text_of(q), *b = text_of(copy);
	assert_string_equal(a, b);
	free(a);
	free(b);
	queue_free(copy);
}

#endif

/*
 * check: what tests of kernels share: arrays on both sides, odd shapes, comparisons.  A test draws
 * a shape and numbers, runs kernels, and compares with plain loops in double.  Its results also go
 * into a sum of bits: these must be the same under every seed of the stand-in.
 */
#ifndef CUDACPU_CHECK_H
#define CUDACPU_CHECK_H

#include "model/cuda/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

struct check {
	const char *name;
	uint64_t state; /* of shape and numbers */
	size_t most;    /* how large shapes are */
	uint64_t bits;  /* of all results */
	struct queue *q;
	int failed;
	std::vector<struct room> rooms, pinned;
};

static uint64_t check_draw(struct check *c, uint64_t below)
{
	c->state = c->state * 6364136223846793005u + 1442695040888963407u;
	return (c->state >> 33) % below;
}

static float check_number(struct check *c)
{
	return (float)check_draw(c, 2001) * 1e-3f - 1.0f;
}

/* A size up to `most`: often at an edge of a warp, a tile or a block. */
static size_t check_size(struct check *c, size_t most)
{
	static const size_t edges[] = {1,  2,  3,   5,   16,  31,  32,  33, 63,
				       64, 65, 127, 255, 256, 257, 300, 513};
	size_t size = edges[check_draw(c, sizeof(edges) / sizeof(*edges))];
	return size <= most && check_draw(c, 3) > 0 ? size : 1 + check_draw(c, most);
}

static void check_fail(struct check *c, const char *what, size_t at, double got, double want)
{
	if (c->failed++ < 5)
		printf("# %s: %s[%zu] is %.9g, not %.9g\n", c->name, what, at, got, want);
}

/* ---- arrays: floats of the host and of the card ---- */

static void *check_room(struct check *c, size_t bytes)
{
	struct error err = {};
	struct room r = {};
	if (room_grow(&r, bytes ? bytes : 1, &err) != 0) {
		printf("# %s\n", err.text);
		exit(71);
	}
	c->rooms.push_back(r);
	return r.at;
}

static void *check_pinned(struct check *c, size_t bytes)
{
	struct error err = {};
	struct room r = {};
	if (pinned_grow(&r, bytes ? bytes : 1, &err) != 0) {
		printf("# %s\n", err.text);
		exit(71);
	}
	c->pinned.push_back(r);
	return r.at;
}

template <typename T> static T *check_send(struct check *c, const std::vector<T> &from)
{
	size_t bytes = from.size() * sizeof(T);
	void *pinned = check_pinned(c, bytes), *to = check_room(c, bytes);
	if (bytes > 0)
		memcpy(pinned, from.data(), bytes);
	queue_to_card(c->q, to, pinned, bytes);
	return (T *)to;
}

static void check_wait(struct check *c)
{
	struct error err = {};
	if (queue_wait(c->q, &err) != 0) {
		printf("# %s: %s\n", c->name, err.text);
		exit(1);
	}
}

template <typename T> static std::vector<T> check_get(struct check *c, const T *from, size_t count)
{
	std::vector<T> to(count);
	void *pinned = check_pinned(c, count * sizeof(T));
	queue_to_host(c->q, pinned, from, count * sizeof(T));
	check_wait(c);
	if (count > 0)
		memcpy(to.data(), pinned, count * sizeof(T));
	for (size_t i = 0; i < count * sizeof(T); i++)
		c->bits = (c->bits ^ ((const unsigned char *)to.data())[i]) * 1099511628211u;
	return to;
}

static std::vector<float> check_numbers(struct check *c, size_t count)
{
	std::vector<float> to(count);
	for (float &one : to)
		one = check_number(c);
	return to;
}

/* `scale`: how large the terms are that were summed. */
template <typename T>
static void check_near(struct check *c, const char *what, const T *from,
		       const std::vector<double> &want, double scale = 1)
{
	std::vector<T> got = check_get(c, from, want.size());
	for (size_t i = 0; i < got.size(); i++)
		if (!(fabs((double)got[i] - want[i]) <= 2e-6 * (fabs(want[i]) + scale)))
			check_fail(c, what, i, (double)got[i], want[i]);
}

static void check_free(struct check *c)
{
	for (struct room &r : c->rooms)
		room_free(&r);
	for (struct room &r : c->pinned)
		pinned_free(&r);
	c->rooms.clear();
	c->pinned.clear();
}

#endif

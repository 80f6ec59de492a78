/* shards: see shards.h. A get is asked for ahead, and its answer taken later. */
#include "work/shards.h"

#include "base/boot.h"
#include "base/clock.h"
#include "wire/call.h"

#include <stdlib.h>
#include <string.h>

struct shards {
	struct generation generation;
	int asked, piece_here; /* a get is open; its shard record has arrived */
	uint64_t asked_max;
	double asked_wait;
	char boot[BOOT_ID_MAX];
	struct piece piece;
};

int shards_new(struct shards **out, const struct generation *of, struct error *err)
{
	struct shards *s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(err, ERROR_OS, "", "out of memory");
	s->generation = *of;
	boot_id(s->boot);
	*out = s;
	return 0;
}

void shards_free(struct shards *s)
{
	if (!s)
		return;
	generation_disconnect(&s->generation);
	free(s);
}

const struct generation *shards_generation(const struct shards *s)
{
	return &s->generation;
}

int shards_asked(const struct shards *s)
{
	return s->asked;
}

int shards_fd(const struct shards *s)
{
	return s->generation.call ? call_fd(s->generation.call) : -1;
}

/* Forgets what was asked on the old connection. */
static void disconnect(struct shards *s)
{
	generation_disconnect(&s->generation);
	s->asked = s->piece_here = 0;
}

int shards_hello(struct shards *s, struct error *err)
{
	if (s->asked)
		disconnect(s);
	return generation_hello(&s->generation, 0, err);
}

/* ---- get ---- */

static int send_get(struct shards *s, struct error *err)
{
	const struct generation *g = &s->generation;
	if (call_record(g->call,
			RECORD("get", F("worker", g->worker), F("generation", g->number),
			       F("max", s->asked_max),
			       s->asked_wait > 0 ? F_SECONDS("wait", s->asked_wait) : F_NONE,
			       F("boot", s->boot)),
			NULL, 0, err) != 0)
		return -1;
	s->asked = 1;
	s->piece_here = 0;
	return WORK_OK;
}

/* Connected in our generation; held() has got the pieces that shardd still held for us. */
static int shards_resume(struct shards *s, struct error *err)
{
	disconnect(s);
	return generation_hello(&s->generation, 1, err);
}

int shards_ask(struct shards *s, uint64_t max, double wait_seconds, struct error *err)
{
	if (s->asked)
		return WORK_OK;
	s->asked_max = max;
	s->asked_wait = wait_seconds;
	for (;;) {
		if (s->generation.call && send_get(s, err) == 0)
			return WORK_OK;
		if (s->generation.call && !generation_is_lost(err))
			return -1;
		int result = shards_resume(s, err);
		if (result != WORK_OK)
			return result;
	}
}

/* The ok that ends the answer. */
static int get_done(struct shards *s, struct piece *p)
{
	const char *state = record_get(&s->generation.record, "state");
	s->asked = 0;
	if (s->piece_here) {
		*p = s->piece;
		return WORK_OK;
	}
	return state && strcmp(state, "end") == 0 ? WORK_END : WORK_WAIT;
}

static int shards_take_answer(struct shards *s, struct piece *p, struct error *err)
{
	struct generation *g = &s->generation;
	for (;;) {
		int result = generation_receive(g, s->asked_wait, 0, err);
		if (result != WORK_OK)
			return result;
		if (record_is(&g->record, "ok"))
			return get_done(s, p);
		if (record_is(&g->record, "err")) {
			s->asked = 0;
			result = generation_refused(g, err);
			if (result == WORK_WAIT)
				clock_sleep(JOURNAL_PAUSE_SECONDS);
			return result;
		}
		if (record_is(&g->record, "shard")) {
			if (generation_piece(g, &s->piece, err) != 0)
				return -1;
			s->piece_here = 1;
		}
	}
}

int shards_take(struct shards *s, int block, struct piece *p, struct error *err)
{
	if (!s->asked)
		return WORK_WAIT;
	if (!block && !generation_is_answered(&s->generation))
		return WORK_STOP;
	int result = shards_take_answer(s, p, err);
	if (result >= 0 || !generation_is_lost(err))
		return result;
	/* The lost answer may have been a piece: then the resume gives it to held(). */
	result = shards_resume(s, err);
	return result == WORK_OK ? WORK_WAIT : result;
}

void shards_bye(struct shards *s)
{
	generation_bye(&s->generation, s->asked != 0);
	s->asked = s->piece_here = 0;
}

/* rows_move: see rows_move.h. Here: both threads' beginning and end, and the one that takes. */
#include "work/rows_move_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/option.h"
#include "base/thread.h"
#include "wire/call.h"
#include "wire/server.h"
#include "work/rows_spill.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK_SECONDS 2.0     /* shardd may hold an answer back so long */
#define SILENCE_SECONDS 2.0 /* seconds before a greeting, and between bytes of rows */
#define PAUSE_SECONDS 0.5   /* seconds after a failure */
#define MOVES_MAX 64        /* most moves of one answer; more are asked for again */

struct move {
	uint64_t id, begin, length;
	char from[OPTION_ID_MAX];
};

struct moves {
	struct move move[MOVES_MAX];
	size_t count;
};

static int rows_move_stopped(const struct rows_move *m)
{
	return atomic_load(&m->stop);
}

/* ---- conversations: a stopped process, which still has its socket, must not delay our end ---- */

static int open_call(const struct rows_move *m, struct call **out, const char *path,
		     struct error *err)
{
	double answer = m->options.answer_seconds;
	return call_open(out, path, 0, answer < SILENCE_SECONDS ? answer : SILENCE_SECONDS, err);
}

/* Waits for the next record, as long as an answer may take. 1: `stop` was set. */
static int rows_move_receive(const struct rows_move *m, struct call *c, struct record *r,
			     double held, struct error *err)
{
	double began = clock_mono(), most = held + m->options.answer_seconds;
	struct error why;
	while (!rows_move_stopped(m)) {
		if (call_receive_turn(c, r, began, &why) == 0)
			return 0;
		if (why.code != ERROR_TEMPFAIL || clock_mono() - began > most) {
			*err = why;
			return -1;
		}
	}
	return 1;
}

/* ---- what is here already ---- */

struct cover {
	uint64_t at; /* rows before it are here */
	int again;
};

static int cover_one(const char *path, uint64_t begin, uint64_t count, void *arg, struct error *err)
{
	struct cover *c = arg;
	(void)path;
	(void)err;
	if (c->at >= begin && c->at - begin < count) {
		c->at = begin + count;
		c->again = 1;
	}
	return 0;
}

/* The first row from begin on that is not here. */
static int first_missing(const struct rows_move *m, uint64_t begin, uint64_t *missing,
			 struct error *err)
{
	const struct rows_move_options *o = &m->options;
	struct cover c = {.at = begin, .again = 1};
	while (c.again) {
		c.again = 0;
		if (c.at >= o->begin && c.at - o->begin < o->length) {
			c.at = o->begin + o->length;
			c.again = 1;
		}
		if (rows_spill_each(o->spill, cover_one, &c, err) != 0)
			return -1;
	}
	*missing = c.at;
	return 0;
}

/* ---- fetching ---- */

static int rows_move_take_rows(const struct rows_move *m, struct call *giver,
			       const struct record *r, uint64_t begin, uint64_t most,
			       struct error *err)
{
	uint64_t first, count, header, bytes;
	if (record_u64(r, "begin", begin, begin, &first, err) != 0 ||
	    record_u64(r, "count", 1, most, &count, err) != 0 ||
	    record_u64(r, "header-bytes", 0, UINT32_MAX, &header, err) != 0 ||
	    record_u64(r, "bytes", header + count, UINT32_MAX, &bytes, err) != 0)
		return error_wrap(err, call_path(giver));
	char *text = malloc((size_t)bytes);
	if (!text)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	int result = call_bytes(giver, text, (size_t)bytes, err);
	if (result == 0)
		result = rows_spill_write(m->options.spill, begin, count, text, (size_t)bytes, err);
	free(text);
	return result;
}

/* Requests one answer's worth of rows from begin on. */
static int fetch_some(const struct rows_move *m, struct call *giver, uint64_t begin, uint64_t length,
		      struct error *err)
{
	static _Thread_local struct record r; /* large */
	if (call_record(giver, RECORD("rows", F("begin", begin), F("length", length)), NULL, 0,
			err) != 0)
		return -1;
	int result, got = 0;
	while ((result = rows_move_receive(m, giver, &r, 0, err)) == 0) {
		if (record_is(&r, "err"))
			return error_set(err, ERROR_TEMPFAIL, call_path(giver), "%s",
					 r.text ? r.text : "refused");
		if (record_is(&r, "ok") && !got) /* or it would be requested forever */
			return error_set(err, ERROR_DATA, call_path(giver),
					 "an answer to rows without rows");
		if (record_is(&r, "ok"))
			return 0;
		if (!record_is(&r, "rows"))
			continue;
		if (rows_move_take_rows(m, giver, &r, begin, length, err) != 0)
			return -1;
		got = 1;
	}
	return result;
}

static int rows_move_fetch(const struct rows_move *m, const struct move *move, struct error *err)
{
	char path[4096];
	struct call *giver = NULL;
	uint64_t end = move->begin + move->length, at = move->begin;
	int result = rows_move_socket(path, sizeof path, m->options.dir, move->from, err);
	while (result == 0 && !rows_move_stopped(m)) {
		if ((result = first_missing(m, at, &at, err)) != 0 || at >= end)
			break;
		if (!giver)
			result = open_call(m, &giver, path, err);
		if (result == 0)
			result = fetch_some(m, giver, at, end - at, err);
	}
	call_close(giver);
	return result == 0 && rows_move_stopped(m) ? 1 : result;
}

/* ---- shardd ---- */

static void take_move(const struct record *r, struct moves *moves)
{
	struct move *move = &moves->move[moves->count];
	const char *from;
	struct error err;
	if (moves->count == MOVES_MAX || !record_is(r, "move") ||
	    record_u64(r, "id", 0, UINT64_MAX, &move->id, &err) != 0 ||
	    record_id(r, "from", &from, &err) != 0 ||
	    record_u64(r, "begin", 0, UINT64_MAX >> 1, &move->begin, &err) != 0 ||
	    record_u64(r, "length", 1, UINT64_MAX >> 1, &move->length, &err) != 0)
		return;
	memcpy(move->from, from, strlen(from) + 1);
	moves->count++;
}

/* Reads until the closing record. 1: `stop` was set. */
static int rows_move_answer(const struct rows_move *m, struct call *shards, struct record *r,
			    struct moves *moves, struct error *err)
{
	int result;
	while ((result = rows_move_receive(m, shards, r, ASK_SECONDS, err)) == 0) {
		if (record_is(r, "ok"))
			return 0;
		if (record_is(r, "err"))
			return error_set(err, ERROR_TEMPFAIL, m->options.shards, "%s",
					 r->text ? r->text : "refused");
		if (moves)
			take_move(r, moves);
	}
	return result;
}

static int ask_moves(const struct rows_move *m, struct call *shards, struct moves *moves,
		     struct error *err)
{
	static _Thread_local struct record r;
	moves->count = 0;
	if (call_record(
		    shards,
		    RECORD("moves", F("worker", m->options.worker), F_SECONDS("wait", ASK_SECONDS)),
		    NULL, 0, err) != 0)
		return -1;
	return rows_move_answer(m, shards, &r, moves, err);
}

static int say_moved(const struct rows_move *m, struct call *shards, uint64_t id, struct error *err)
{
	static _Thread_local struct record r;
	if (call_record(shards, RECORD("moved", F("worker", m->options.worker), F("id", id)), NULL,
			0, err) != 0)
		return -1;
	return rows_move_answer(m, shards, &r, NULL, err);
}

/* 0: all were done; 1: stopped. */
static int move_all(const struct rows_move *m, struct call *shards, const struct moves *moves,
		    struct error *err)
{
	int result = 0;
	for (size_t i = 0; i < moves->count && result == 0; i++) {
		const struct move *move = &moves->move[i];
		result = rows_move_fetch(m, move, err);
		if (result == 0)
			result = say_moved(m, shards, move->id, err);
		if (result == 0)
			log_say(LOG_LEVEL_INFO, "rows %llu + %llu have come from %s",
				(unsigned long long)move->begin, (unsigned long long)move->length,
				move->from);
	}
	return result;
}

static void *taker_main(void *rows_move)
{
	struct rows_move *m = rows_move;
	static _Thread_local struct moves moves;
	struct call *shards = NULL;
	struct error err, said = {0};
	while (!rows_move_stopped(m)) {
		int result = shards ? 0 : open_call(m, &shards, m->options.shards, &err);
		if (result == 0)
			result = ask_moves(m, shards, &moves, &err);
		if (result == 0)
			result = move_all(m, shards, &moves, &err);
		if (result >= 0)
			continue;
		/* Daemons and workers come back, so their absence is not reported; any other
		 * failure is reported once. */
		if (err.code != ERROR_UNAVAILABLE && strcmp(err.text, said.text) != 0) {
			log_say(LOG_LEVEL_WARNING, "rows do not come: %s: %s", err.place, err.text);
			said = err;
		}
		call_close(shards);
		shards = NULL;
		clock_sleep(PAUSE_SECONDS);
	}
	call_close(shards);
	return NULL;
}

/* ---- both ---- */

int rows_move_start(struct rows_move **out, const struct rows_move_options *options,
		    struct error *err)
{
	struct rows_move *m = calloc(1, sizeof *m);
	if (!m)
		return error_set(err, ERROR_OS, "", "out of memory");
	m->options = *options;
	if (rows_give_start(m, err) != 0) {
		rows_move_stop(m);
		return -1;
	}
	m->giver_runs = thread_start(&m->giver, rows_give_main, m) == 0;
	m->taker_runs = thread_start(&m->taker, taker_main, m) == 0;
	if (!m->giver_runs || !m->taker_runs) {
		rows_move_stop(m);
		return error_set(err, ERROR_OS, "", "threads for rows of others can't be made");
	}
	*out = m;
	return 0;
}

void rows_move_stop(struct rows_move *m)
{
	if (!m)
		return;
	atomic_store(&m->stop, 1);
	if (m->giver_runs)
		pthread_join(m->giver, NULL);
	if (m->taker_runs)
		pthread_join(m->taker, NULL);
	server_free(m->server);
	free(m);
}

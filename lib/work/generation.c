/*
 * generation: see generation.h.  What shardd has acknowledged survives its restart, so a lost
 * connection costs a resume, never a row; what it refuses is handed up as WORK_FENCED and never
 * argued with.
 */
#include "work/generation.h"

#include "base/clock.h"
#include "wire/call.h"

#include <poll.h>
#include <string.h>

#define PAUSE_SECONDS 0.05 /* between attempts to connect */
#define GREETING_SECONDS 2 /* a stopped daemon has a socket, too, but does not greet */
#define BYE_SECONDS 2

void generation_disconnect(struct generation *g)
{
	call_close(g->call);
	g->call = NULL;
}

static int generation_stopped(const struct generation *g)
{
	return g->stop && *g->stop;
}

int generation_is_lost(const struct error *err)
{
	return err->code == ERROR_UNAVAILABLE || err->code == ERROR_TEMPFAIL;
}

static int connect_until(struct generation *g, double deadline, struct error *err)
{
	double greeting = g->answer_seconds < GREETING_SECONDS ? g->answer_seconds
							       : GREETING_SECONDS;
	while (!g->call) {
		if (generation_stopped(g))
			return WORK_STOP;
		if (call_open(&g->call, g->path, 0, greeting, err) == 0) {
			call_set_answer(g->call, g->answer_seconds);
			break;
		}
		if (!generation_is_lost(err) || clock_mono() >= deadline)
			return -1;
		clock_sleep(PAUSE_SECONDS);
	}
	return WORK_OK;
}

/* ---- answers ---- */

int generation_receive(struct generation *g, double more, double stop_seconds, struct error *err)
{
	double began = clock_mono();
	while (call_receive_turn(g->call, &g->record, began, err) != 0) {
		double waited = clock_mono() - began;
		if (err->code != ERROR_TEMPFAIL || waited >= g->answer_seconds + more)
			return -1;
		if (generation_stopped(g) && waited >= stop_seconds)
			return WORK_STOP;
	}
	return WORK_OK;
}

int generation_is_answered(const struct generation *g)
{
	struct pollfd p = {.fd = call_fd(g->call), .events = POLLIN};
	return call_buffered(g->call) || poll(&p, 1, 0) > 0;
}

/* All checks of a piece are here: later nothing is checked again. */
int generation_parse(const struct generation *g, struct piece *p, const struct record *r,
		     struct error *err)
{
	*p = (struct piece){.shuffled = g->shuffled};
	if (record_u64(r, "id", 0, UINT64_MAX, &p->id, err) != 0 ||
	    record_u64_opt(r, "epoch", 0, UINT64_MAX, &p->epoch, err) != 0 ||
	    record_u64(r, "begin", 0, g->samples, &p->begin, err) != 0 ||
	    record_u64(r, "length", 1, PIECE_LENGTH_MAX, &p->length, err) != 0 ||
	    record_u64_opt(r, "seed", 0, UINT64_MAX, &p->seed, err) != 0 ||
	    record_u64_opt(r, "skip", 0, p->length, &p->skip, err) != 0)
		return -1;
	p->take = p->length - p->skip;
	if (record_u64_opt(r, "take", 0, p->length - p->skip, &p->take, err) != 0)
		return -1;
	if (p->length > g->samples - p->begin)
		return error_set(err, ERROR_DATA, "shard",
				 "rows %llu to %llu are not in %llu samples",
				 (unsigned long long)p->begin,
				 (unsigned long long)(p->begin + p->length),
				 (unsigned long long)g->samples);
	return 0;
}

int generation_piece(struct generation *g, struct piece *p, struct error *err)
{
	g->lease = 0;
	if (generation_parse(g, p, &g->record, err) != 0 ||
	    (record_get(&g->record, "lease") &&
	     record_real(&g->record, "lease", 0, 1e9, &g->lease, err) != 0))
		return error_wrap(err, g->path);
	return 0;
}

int generation_refused(struct generation *g, struct error *err)
{
	const char *code = record_get(&g->record, "code"), *text = g->record.text;
	if (code && strcmp(code, "fenced") == 0)
		return WORK_FENCED;
	error_set(err, ERROR_SOFTWARE, g->path, "err code=%s: %s", code ? code : "",
		  text ? text : "");
	if (code && (strcmp(code, "journal") == 0 || strcmp(code, "boot") == 0)) {
		err->code = ERROR_TEMPFAIL;
		return WORK_WAIT;
	}
	if (code && strcmp(code, "settle-only") == 0)
		error_set(err, ERROR_CONFIG, g->path,
			  "this queue counts only what a lead settles; without one, start shardd "
			  "without --settle-only");
	return -1;
}

/* ---- hello ---- */

static int read_hello(struct generation *g, struct error *err)
{
	const struct record *r = &g->record;
	const char *shuffle = record_get(r, "shuffle");
	g->samples_done = 0;
	if (record_u64(r, "generation", 0, UINT64_MAX, &g->number, err) != 0 ||
	    record_u64(r, "incarnation", 0, UINT64_MAX, &g->incarnation, err) != 0 ||
	    record_u64(r, "samples", 1, UINT64_MAX, &g->samples, err) != 0 ||
	    record_u64_opt(r, "epochs", 0, UINT64_MAX, &g->epochs, err) != 0 ||
	    record_u64_opt(r, "samples-done", 0, UINT64_MAX, &g->samples_done, err) != 0 ||
	    record_u64_opt(r, "partition-begin", 0, g->samples, &g->part_begin, err) != 0 ||
	    record_u64_opt(r, "partition-samples", 0, g->samples, &g->part_samples, err) != 0)
		return error_wrap(err, g->path);
	g->shuffled = shuffle && strcmp(shuffle, "samples") == 0;
	return WORK_OK;
}

/* Before the ok of a resumed generation, shardd sends a record for each piece that we hold. */
static int hello_answer(struct generation *g, int resume, struct error *err)
{
	for (;;) {
		struct piece p;
		int result = generation_receive(g, 0, resume ? g->resume_seconds : 0, err);
		if (result != WORK_OK)
			return result;
		if (record_is(&g->record, "ok"))
			return read_hello(g, err);
		if (record_is(&g->record, "err"))
			return generation_refused(g, err);
		if (resume && record_is(&g->record, "shard") &&
		    (generation_piece(g, &p, err) != 0 || g->held(&p, g->owner, err) != 0))
			return -1;
	}
}

static int say_hello(struct generation *g, int resume, struct error *err)
{
	if (call_record(g->call,
			RECORD("hello", F("worker", g->worker),
			       resume ? F("generation", g->number) : F_NONE),
			NULL, 0, err) != 0)
		return -1;
	return hello_answer(g, resume, err);
}

int generation_hello(struct generation *g, int resume, struct error *err)
{
	double deadline = clock_mono() + g->wait_seconds;
	for (;;) {
		int result = connect_until(g, deadline, err);
		if (result != WORK_OK)
			return result;
		result = say_hello(g, resume, err);
		if (result == WORK_FENCED && !resume)
			return error_set(err, ERROR_SOFTWARE, g->path,
					 "a hello without generation was fenced");
		if (result == WORK_WAIT) {
			if (clock_mono() >= deadline)
				return -1;
			clock_sleep(JOURNAL_PAUSE_SECONDS);
			if (generation_stopped(g))
				return WORK_STOP;
		} else if (result >= 0) {
			return result;
		} else {
			generation_disconnect(g);
			if (!generation_is_lost(err) || clock_mono() >= deadline)
				return -1;
		}
	}
}

/* ---- the end ---- */

void generation_bye(struct generation *g, size_t owed)
{
	struct error err;
	double deadline = clock_mono() + BYE_SECONDS;
	if (!g->call)
		return;
	int lost = call_record(g->call,
			       RECORD("bye", F("worker", g->worker), F("generation", g->number),
				      F("front", 1)),
			       NULL, 0, &err) != 0;
	for (owed++; !lost && owed > 0 && clock_mono() < deadline;) {
		lost = call_receive_within(g->call, &g->record, BYE_SECONDS, &err) != 0;
		if (!lost && (record_is(&g->record, "err") || record_is(&g->record, "ok")))
			owed--;
	}
	generation_disconnect(g);
}

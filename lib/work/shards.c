/*
 * shards: see shards.h.  What shardd has acknowledged survives its restart, so a lost connection
 * costs a resume, never a row; what it refuses is handed up as WORK_FENCED and never argued with.
 */
#include "work/shards.h"

#include "base/boot.h"
#include "base/clock.h"
#include "wire/call.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_SECONDS 0.05 /* between attempts to connect */
#define GREETING_SECONDS 2 /* one that is stopped has a socket, too, and greets nobody */
#define JOURNAL_PAUSE_SECONDS 0.5
#define BYE_SECONDS 2

struct shards {
	struct shards_options options;
	struct call *call; /* NULL: not connected */
	uint64_t generation, incarnation, samples;
	uint64_t part_begin, part_samples; /* part_samples 0: no partitions */
	int shuffled;
	int asked, piece_here; /* a get is open; its shard record has arrived */
	uint64_t asked_max;
	double asked_wait;
	char boot[BOOT_ID_MAX];
	struct piece piece;
	struct record record;
};

int shards_new(struct shards **out, const struct shards_options *options, struct error *err)
{
	struct shards *s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(err, ERROR_OS, "", "out of memory");
	s->options = *options;
	boot_id(s->boot);
	*out = s;
	return 0;
}

void shards_free(struct shards *s)
{
	if (!s)
		return;
	call_close(s->call);
	free(s);
}

uint64_t shards_generation(const struct shards *s)
{
	return s->generation;
}

uint64_t shards_incarnation(const struct shards *s)
{
	return s->incarnation;
}

uint64_t shards_samples(const struct shards *s)
{
	return s->samples;
}

int shards_partition(const struct shards *s, uint64_t *begin, uint64_t *samples)
{
	*begin = s->part_begin;
	*samples = s->part_samples;
	return s->part_samples > 0;
}

int shards_asked(const struct shards *s)
{
	return s->asked;
}

int shards_fd(const struct shards *s)
{
	return s->call ? call_fd(s->call) : -1;
}

static int stopped(const struct shards *s)
{
	return s->options.stop && *s->options.stop;
}

static void disconnect(struct shards *s)
{
	call_close(s->call);
	s->call = NULL;
	s->asked = s->piece_here = 0;
}

/* A connection that went or stays silent is one to open again; everything else is an error. */
static int is_lost(const struct error *err)
{
	return err->code == ERROR_UNAVAILABLE || err->code == ERROR_TEMPFAIL;
}

static int connect_until(struct shards *s, double deadline, struct error *err)
{
	double greeting = s->options.answer_seconds < GREETING_SECONDS ? s->options.answer_seconds
								       : GREETING_SECONDS;
	while (!s->call) {
		if (stopped(s))
			return WORK_STOP;
		if (call_open(&s->call, s->options.path, 0, greeting, err) == 0) {
			call_set_answer(s->call, s->options.answer_seconds);
			break;
		}
		if (!is_lost(err) || clock_mono() >= deadline)
			return -1;
		clock_sleep(PAUSE_SECONDS);
	}
	return WORK_OK;
}

/* ---- answers ---- */

/* Nothing behind it looks again. */
int piece_parse(struct piece *p, const struct record *r, uint64_t samples, int shuffled,
		struct error *err)
{
	*p = (struct piece){.shuffled = shuffled};
	if (record_u64(r, "id", 0, UINT64_MAX, &p->id, err) != 0 ||
	    record_u64_opt(r, "epoch", 0, UINT64_MAX, &p->epoch, err) != 0 ||
	    record_u64(r, "begin", 0, samples, &p->begin, err) != 0 ||
	    record_u64(r, "length", 1, PIECE_LENGTH_MAX, &p->length, err) != 0 ||
	    record_u64_opt(r, "seed", 0, UINT64_MAX, &p->seed, err) != 0 ||
	    record_u64_opt(r, "skip", 0, p->length, &p->skip, err) != 0)
		return -1;
	p->take = p->length - p->skip;
	if (record_u64_opt(r, "take", 0, p->length - p->skip, &p->take, err) != 0)
		return -1;
	if (p->length > samples - p->begin)
		return error_set(err, ERROR_DATA, "shard",
				 "rows %llu to %llu are not in %llu samples",
				 (unsigned long long)p->begin,
				 (unsigned long long)(p->begin + p->length),
				 (unsigned long long)samples);
	return 0;
}

/* The next record into s->record, looking at *stop meanwhile. */
static int receive(struct shards *s, struct error *err)
{
	double began = clock_mono(), most = s->options.answer_seconds + s->asked_wait;
	while (call_receive_turn(s->call, &s->record, began, err) != 0) {
		if (err->code != ERROR_TEMPFAIL || clock_mono() - began >= most)
			return -1;
		if (stopped(s))
			return WORK_STOP;
	}
	return WORK_OK;
}

/* An `err` record. WORK_WAIT: a full disk; ask again. */
static int refused(struct shards *s, struct error *err)
{
	const char *code = record_get(&s->record, "code");
	if (code && strcmp(code, "fenced") == 0)
		return WORK_FENCED;
	error_set(err, ERROR_SOFTWARE, s->options.path, "err code=%s: %s", code ? code : "",
		  s->record.text ? s->record.text : "");
	if (code && (strcmp(code, "journal") == 0 || strcmp(code, "boot") == 0)) {
		err->code = ERROR_TEMPFAIL;
		return WORK_WAIT;
	}
	return -1;
}

static int read_piece(struct shards *s, struct piece *p, struct error *err)
{
	if (piece_parse(p, &s->record, s->samples, s->shuffled, err) != 0)
		return error_wrap(err, s->options.path);
	return 0;
}

/* ---- hello ---- */

static int read_hello(struct shards *s, struct error *err)
{
	const char *shuffle = record_get(&s->record, "shuffle");
	if (record_u64(&s->record, "generation", 0, UINT64_MAX, &s->generation, err) != 0 ||
	    record_u64(&s->record, "incarnation", 0, UINT64_MAX, &s->incarnation, err) != 0 ||
	    record_u64(&s->record, "samples", 1, UINT64_MAX, &s->samples, err) != 0 ||
	    record_u64_opt(&s->record, "partition-begin", 0, s->samples, &s->part_begin, err) != 0 ||
	    record_u64_opt(&s->record, "partition-samples", 0, s->samples, &s->part_samples,
			   err) != 0)
		return error_wrap(err, s->options.path);
	s->shuffled = shuffle && strcmp(shuffle, "samples") == 0;
	return WORK_OK;
}

static int send_hello(struct shards *s, int resume, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof(line), "hello");
	record_add(&o, "worker", s->options.worker);
	if (resume)
		record_add_u64(&o, "generation", s->generation);
	size_t len = record_end(&o, NULL);
	return call_send(s->call, line, len, NULL, 0, err);
}

/* Before the ok of a resumed generation comes a record for each piece that we hold. */
static int hello_answer(struct shards *s, int resume, struct error *err)
{
	for (;;) {
		struct piece p;
		int result = receive(s, err);
		if (result != WORK_OK)
			return result;
		if (record_is(&s->record, "ok"))
			return read_hello(s, err);
		if (record_is(&s->record, "err"))
			return refused(s, err);
		if (resume && record_is(&s->record, "shard") &&
		    (read_piece(s, &p, err) != 0 ||
		     s->options.held(&p, s->options.owner, err) != 0))
			return -1;
	}
}

static int hello(struct shards *s, int resume, struct error *err)
{
	double deadline = clock_mono() + s->options.wait_seconds;
	for (;;) {
		int result = connect_until(s, deadline, err);
		if (result != WORK_OK)
			return result;
		s->asked_wait = 0;
		result = send_hello(s, resume, err) != 0 ? -1 : hello_answer(s, resume, err);
		if (result == WORK_WAIT) {
			if (clock_mono() >= deadline)
				return -1;
			clock_sleep(JOURNAL_PAUSE_SECONDS);
			if (stopped(s))
				return WORK_STOP;
		} else if (result >= 0) {
			return result;
		} else {
			disconnect(s);
			if (!is_lost(err) || clock_mono() >= deadline)
				return -1;
		}
	}
}

int shards_hello(struct shards *s, struct error *err)
{
	if (s->asked) /* its answer is nobody's any more */
		disconnect(s);
	int result = hello(s, 0, err);
	if (result == WORK_FENCED)
		return error_set(err, ERROR_SOFTWARE, s->options.path,
				 "a hello without generation was fenced");
	return result;
}

/* ---- get ---- */

static int send_get(struct shards *s, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof(line), "get");
	record_add(&o, "worker", s->options.worker);
	record_add_u64(&o, "generation", s->generation);
	record_add_u64(&o, "max", s->asked_max);
	if (s->asked_wait > 0)
		record_add_seconds(&o, "wait", s->asked_wait);
	record_add(&o, "boot", s->boot);
	size_t len = record_end(&o, NULL);
	if (call_send(s->call, line, len, NULL, 0, err) != 0)
		return -1;
	s->asked = 1;
	s->piece_here = 0;
	return WORK_OK;
}

/* Connected in our generation; what shardd still held for us has been told to held(). */
static int resume(struct shards *s, struct error *err)
{
	uint64_t max = s->asked_max;
	double wait = s->asked_wait;
	disconnect(s);
	int result = hello(s, 1, err);
	s->asked_max = max;
	s->asked_wait = wait;
	return result;
}

int shards_ask(struct shards *s, uint64_t max, double wait_seconds, struct error *err)
{
	if (s->asked)
		return WORK_OK;
	s->asked_max = max;
	s->asked_wait = wait_seconds;
	for (;;) {
		if (s->call && send_get(s, err) == 0)
			return WORK_OK;
		if (s->call && !is_lost(err))
			return -1;
		int result = resume(s, err);
		if (result != WORK_OK)
			return result;
	}
}

/* The ok that ends the answer. */
static int get_done(struct shards *s, struct piece *p)
{
	const char *state = record_get(&s->record, "state");
	s->asked = 0;
	if (s->piece_here) {
		*p = s->piece;
		return WORK_OK;
	}
	return state && strcmp(state, "end") == 0 ? WORK_END : WORK_WAIT;
}

static int take_answer(struct shards *s, struct piece *p, struct error *err)
{
	for (;;) {
		int result = receive(s, err);
		if (result != WORK_OK)
			return result;
		if (record_is(&s->record, "ok"))
			return get_done(s, p);
		if (record_is(&s->record, "err")) {
			s->asked = 0;
			result = refused(s, err);
			if (result == WORK_WAIT)
				clock_sleep(JOURNAL_PAUSE_SECONDS);
			return result;
		}
		if (record_is(&s->record, "shard")) {
			if (read_piece(s, &s->piece, err) != 0)
				return -1;
			s->piece_here = 1;
		}
	}
}

static int answer_is_here(struct shards *s)
{
	struct pollfd p = {.fd = call_fd(s->call), .events = POLLIN};
	return call_buffered(s->call) || poll(&p, 1, 0) > 0;
}

int shards_take(struct shards *s, int block, struct piece *p, struct error *err)
{
	if (!s->asked)
		return WORK_WAIT;
	if (!block && !answer_is_here(s))
		return WORK_STOP;
	int result = take_answer(s, p, err);
	if (result >= 0 || !is_lost(err))
		return result;
	/* The answer may have been a piece: then the resume tells it, to held(). */
	result = resume(s, err);
	return result == WORK_OK ? WORK_WAIT : result;
}

/* ---- the end ---- */

/* Waits until it is acknowledged, or shardd closes or is silent. */
void shards_bye(struct shards *s)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	struct error err;
	if (!s->call)
		return;
	record_begin(&o, line, sizeof(line), "bye");
	record_add(&o, "worker", s->options.worker);
	record_add_u64(&o, "generation", s->generation);
	size_t len = record_end(&o, NULL);
	int owed = s->asked ? 2 : 1, lost = call_send(s->call, line, len, NULL, 0, &err) != 0;
	double deadline = clock_mono() + BYE_SECONDS;
	while (!lost && owed > 0 && clock_mono() < deadline) {
		lost = call_receive_within(s->call, &s->record, BYE_SECONDS, &err) != 0;
		if (!lost && (record_is(&s->record, "err") || record_is(&s->record, "ok")))
			owed--;
	}
	disconnect(s);
}

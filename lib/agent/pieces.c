/*
 * pieces: see pieces.h.  Open requests are a ring in the order in which they are answered; hand[] is
 * what we believe to hold, by id.
 */
#include "agent/pieces.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/u64map.h"
#include "wire/call.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_SECONDS 0.05 /* between attempts to connect */
#define GREETING_SECONDS 2 /* one that is stopped has a socket, too, and greets nobody */
#define JOURNAL_PAUSE_SECONDS 0.5
#define RESUME_SECONDS 2 /* for its answer once stopped: without it nothing is given back */
#define BYE_SECONDS 2

enum verb { GET, DONE, BACK, RENEW };

struct asked {
	enum verb verb;
	uint64_t id;
	enum pieces_back why; /* BACK */
	double wait;          /* GET */
};

struct asked_list {
	struct asked *item;
	size_t first, count, room; /* those from first on are open */
};

struct held {
	struct piece piece;
	int listed; /* by the last resume */
	int over;   /* done or back was said */
};

struct news_list {
	struct pieces_news *item;
	size_t first, count, room;
};

struct pieces {
	struct pieces_options options;
	struct call *call; /* NULL: not connected */
	uint64_t generation, samples, epochs, part_begin, part_samples;
	int shuffled, is_fenced;
	double lease;
	struct asked_list asked; /* sent, and not answered */
	struct asked_list later; /* to be said once more, at `later_at` */
	double later_at, heard; /* clock_mono() */
	size_t gets, owed;
	struct u64map hand;
	struct news_list news;
	struct record record;
};

int pieces_new(struct pieces **out, const struct pieces_options *options, struct error *err)
{
	struct pieces *p = calloc(1, sizeof *p);
	if (!p)
		return error_set(err, ERROR_OS, "", "out of memory");
	p->options = *options;
	*out = p;
	return 0;
}

static void drop_hand(struct pieces *p)
{
	size_t at = 0;
	for (struct held *h; (h = u64map_next(&p->hand, &at)) != NULL;)
		free(h);
	u64map_free(&p->hand);
	p->hand = (struct u64map){0};
}

static void disconnect(struct pieces *p)
{
	call_close(p->call);
	p->call = NULL;
}

void pieces_free(struct pieces *p)
{
	if (!p)
		return;
	disconnect(p);
	drop_hand(p);
	free(p->asked.item);
	free(p->later.item);
	free(p->news.item);
	free(p);
}

uint64_t pieces_samples(const struct pieces *p)
{
	return p->samples;
}

int pieces_partition(const struct pieces *p, uint64_t *begin, uint64_t *samples)
{
	*begin = p->part_begin;
	*samples = p->part_samples;
	return p->part_samples > 0;
}

uint64_t pieces_epochs(const struct pieces *p)
{
	return p->epochs;
}

double pieces_lease(const struct pieces *p)
{
	return p->lease;
}

size_t pieces_asked(const struct pieces *p)
{
	return p->gets;
}

size_t pieces_owed(const struct pieces *p)
{
	return p->owed;
}

int pieces_fd(const struct pieces *p)
{
	return p->call ? call_fd(p->call) : -1;
}

static int no_memory(struct error *err)
{
	return error_set(err, ERROR_OS, "", "out of memory");
}

static int stopped(const struct pieces *p)
{
	return p->options.stop && *p->options.stop;
}

/* A connection that went or stays silent is one to open again; everything else is an error. */
static int is_lost(const struct error *err)
{
	return err->code == ERROR_UNAVAILABLE || err->code == ERROR_TEMPFAIL;
}

/* ---- news, requests, the hand ---- */

static int tell(struct pieces *p, struct pieces_news news, struct error *err)
{
	struct news_list *l = &p->news;
	if (l->first == l->count)
		l->first = l->count = 0;
	if (GROW(l->item, l->room, l->count + 1) != 0)
		return no_memory(err);
	l->item[l->count++] = news;
	return 0;
}

static int keep_asked(struct asked_list *l, struct asked a, struct error *err)
{
	if (l->first > 0 && l->count == l->room) {
		memmove(l->item, l->item + l->first, (l->count - l->first) * sizeof *l->item);
		l->count -= l->first;
		l->first = 0;
	}
	if (GROW(l->item, l->room, l->count + 1) != 0)
		return no_memory(err);
	l->item[l->count++] = a;
	return 0;
}

static size_t open_count(const struct asked_list *l)
{
	return l->count - l->first;
}

static int take_in_hand(struct pieces *p, const struct piece *piece, struct error *err)
{
	struct held *h = calloc(1, sizeof *h);
	if (!h || u64map_reserve(&p->hand, p->hand.count + 1) != 0) {
		free(h);
		return no_memory(err);
	}
	*h = (struct held){.piece = *piece, .listed = 1};
	u64map_put(&p->hand, piece->id, h);
	return tell(p, (struct pieces_news){.kind = PIECES_GIVEN, .piece = *piece}, err);
}

/* Whether it was there. */
static int drop(struct pieces *p, uint64_t id)
{
	struct held *h = u64map_get(&p->hand, id);
	if (!h)
		return 0;
	u64map_remove(&p->hand, id);
	free(h);
	return 1;
}

static int lose(struct pieces *p, uint64_t id, struct error *err)
{
	if (!drop(p, id))
		return 0;
	return tell(p, (struct pieces_news){.kind = PIECES_LOST, .id = id}, err);
}

/* Nothing is ours any more, and nothing that was asked counts. */
static int fence(struct pieces *p, struct error *err)
{
	disconnect(p);
	drop_hand(p);
	p->asked.first = p->asked.count = p->later.first = p->later.count = 0;
	p->gets = p->owed = 0;
	p->news.first = p->news.count = 0;
	p->is_fenced = 1;
	return tell(p, (struct pieces_news){.kind = PIECES_FENCED}, err);
}

/* ---- sending ---- */

static int send_asked(struct pieces *p, const struct asked *a, struct error *err)
{
	static const char *const verbs[] = {"get", "done", "back", "renew"};
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, verbs[a->verb]);
	record_add(&o, "worker", p->options.worker);
	record_add_u64(&o, "generation", p->generation);
	if (a->verb != GET)
		record_add_u64(&o, "id", a->id);
	else if (a->wait > 0)
		record_add_seconds(&o, "wait", a->wait);
	if (a->verb == BACK && a->why != PIECES_UNDONE)
		record_add_u64(&o, "failed", 1);
	if (a->verb == BACK && a->why == PIECES_HOLD)
		record_add_u64(&o, "hold", 1);
	size_t len = record_end(&o, NULL);
	return call_send(p->call, line, len, NULL, 0, err);
}

/* ---- hello ---- */

static int connect_until(struct pieces *p, double deadline, struct error *err)
{
	double greeting = p->options.answer_seconds < GREETING_SECONDS ? p->options.answer_seconds
								       : GREETING_SECONDS;
	while (!p->call) {
		if (stopped(p))
			return WORK_STOP;
		if (call_open(&p->call, p->options.path, 0, greeting, err) == 0) {
			call_set_answer(p->call, p->options.answer_seconds);
			break;
		}
		if (!is_lost(err) || clock_mono() >= deadline)
			return -1;
		clock_sleep(PAUSE_SECONDS);
	}
	return WORK_OK;
}

/* The next record. Once *stop is set it is waited for so long. */
static int receive(struct pieces *p, double stop_seconds, struct error *err)
{
	double began = clock_mono();
	while (call_receive_turn(p->call, &p->record, began, err) != 0) {
		double waited = clock_mono() - began;
		if (err->code != ERROR_TEMPFAIL || waited >= p->options.answer_seconds)
			return -1;
		if (stopped(p) && waited >= stop_seconds)
			return WORK_STOP;
	}
	return WORK_OK;
}

static int read_hello(struct pieces *p, struct error *err)
{
	const struct record *r = &p->record;
	const char *shuffle = record_get(r, "shuffle");
	if (record_u64(r, "generation", 0, UINT64_MAX, &p->generation, err) != 0 ||
	    record_u64(r, "samples", 1, UINT64_MAX, &p->samples, err) != 0 ||
	    record_u64_opt(r, "epochs", 0, UINT64_MAX, &p->epochs, err) != 0 ||
	    record_u64_opt(r, "partition-begin", 0, p->samples, &p->part_begin, err) != 0 ||
	    record_u64_opt(r, "partition-samples", 0, p->samples, &p->part_samples, err) != 0)
		return error_wrap(err, p->options.path);
	p->shuffled = shuffle && strcmp(shuffle, "samples") == 0;
	return WORK_OK;
}

static int read_piece(struct pieces *p, struct piece *piece, struct error *err)
{
	p->lease = 0;
	if (piece_parse(piece, &p->record, p->samples, p->shuffled, err) != 0 ||
	    (record_get(&p->record, "lease") &&
	     record_real(&p->record, "lease", 0, 1e9, &p->lease, err) != 0))
		return error_wrap(err, p->options.path);
	return 0;
}

/* An `err`: WORK_FENCED, WORK_WAIT (a full disk, or a queue that waits to be loaded: ask again), or
 * -1. */
static int refused(struct pieces *p, struct error *err)
{
	const char *code = record_get(&p->record, "code"), *text = p->record.text;
	if (code && strcmp(code, "fenced") == 0)
		return WORK_FENCED;
	error_set(err, ERROR_SOFTWARE, p->options.path, "err code=%s: %s", code ? code : "",
		  text ? text : "");
	if (code && (strcmp(code, "journal") == 0 || strcmp(code, "boot") == 0)) {
		err->code = ERROR_TEMPFAIL;
		return WORK_WAIT;
	}
	if (code && strcmp(code, "settle-only") == 0)
		error_set(err, ERROR_CONFIG, p->options.path,
			  "this queue counts only what a lead settles; without one, start shardd "
			  "without --settle-only");
	return -1;
}

static int send_hello(struct pieces *p, int resume, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "hello");
	record_add(&o, "worker", p->options.worker);
	if (resume)
		record_add_u64(&o, "generation", p->generation);
	size_t len = record_end(&o, NULL);
	return call_send(p->call, line, len, NULL, 0, err);
}

/* A piece that is in our hand. One that we do not know is the answer to a get that was lost. */
static int found_in_hand(struct pieces *p, struct error *err)
{
	struct piece piece;
	if (read_piece(p, &piece, err) != 0)
		return -1;
	struct held *h = u64map_get(&p->hand, piece.id);
	if (h) {
		h->listed = 1;
		return 0;
	}
	return take_in_hand(p, &piece, err);
}

static int hello_answer(struct pieces *p, int resume, struct error *err)
{
	for (;;) {
		int result = receive(p, resume ? RESUME_SECONDS : 0, err);
		if (result != WORK_OK)
			return result;
		if (record_is(&p->record, "ok"))
			return read_hello(p, err);
		if (record_is(&p->record, "err"))
			return refused(p, err);
		if (resume && record_is(&p->record, "shard") && found_in_hand(p, err) != 0)
			return -1;
	}
}

static int hello(struct pieces *p, int resume, struct error *err)
{
	double deadline = clock_mono() + p->options.wait_seconds;
	for (;;) {
		int result = connect_until(p, deadline, err);
		if (result != WORK_OK)
			return result;
		result = send_hello(p, resume, err) != 0 ? -1 : hello_answer(p, resume, err);
		if (result == WORK_WAIT) {
			if (clock_mono() >= deadline)
				return -1;
			clock_sleep(JOURNAL_PAUSE_SECONDS);
			if (stopped(p))
				return WORK_STOP;
		} else if (result >= 0) {
			p->heard = clock_mono();
			return result;
		} else {
			disconnect(p);
			if (!is_lost(err) || clock_mono() >= deadline)
				return -1;
		}
	}
}

int pieces_hello(struct pieces *p, struct error *err)
{
	int result = hello(p, 0, err);
	if (result == WORK_FENCED)
		return error_set(err, ERROR_SOFTWARE, p->options.path,
				 "a hello without generation was fenced");
	if (result == WORK_OK)
		p->is_fenced = 0;
	return result;
}

/* ---- a connection that went ---- */

/* What shardd did not name is not ours any more. What was said to be done or to go back is asked
 * again, and its answer tells. */
static int lose_unlisted(struct pieces *p, struct error *err)
{
	size_t at = 0, lost = 0;
	struct held *h;
	uint64_t *id = malloc((p->hand.count + 1) * sizeof *id);
	if (!id)
		return no_memory(err);
	while ((h = u64map_next(&p->hand, &at)) != NULL)
		if (!h->listed && !h->over)
			id[lost++] = h->piece.id;
	int result = 0;
	for (size_t i = 0; result == 0 && i < lost; i++)
		result = lose(p, id[i], err);
	free(id);
	return result;
}

/* In the old order, but for so many gets, whose answers came. */
static int ask_again(struct pieces *p, size_t answered, struct error *err)
{
	struct asked_list old = p->asked;
	p->asked = (struct asked_list){0};
	int result = 0;
	for (size_t i = old.first; result == 0 && i < old.count; i++) {
		const struct asked *a = &old.item[i];
		if (a->verb == GET && answered > 0) {
			answered--;
			p->gets--;
			continue;
		}
		result = keep_asked(&p->asked, *a, err);
	}
	free(old.item);
	for (size_t i = p->asked.first; result == 0 && i < p->asked.count; i++)
		result = send_asked(p, &p->asked.item[i], err);
	return result;
}

/* err: why the connection can't be used. */
static int come_back(struct pieces *p, struct error *err)
{
	while (is_lost(err)) {
		size_t at = 0, held = p->hand.count;
		disconnect(p);
		for (struct held *h; (h = u64map_next(&p->hand, &at)) != NULL;)
			h->listed = 0;
		int result = hello(p, 1, err);
		if (result == WORK_FENCED)
			return fence(p, err);
		if (result == WORK_STOP) /* an answer that still came would be to the hello */
			disconnect(p);
		if (result != WORK_OK)
			return result;
		size_t found = p->hand.count - held;
		if (lose_unlisted(p, err) != 0)
			return -1;
		if (ask_again(p, found, err) == 0)
			return WORK_OK;
	}
	return -1;
}

/* ---- asking ---- */

static int ask(struct pieces *p, struct asked a, struct error *err)
{
	if (p->is_fenced) /* it is told, and means nothing any more */
		return 0;
	p->gets += a.verb == GET;
	p->owed += a.verb == DONE || a.verb == BACK;
	if (open_count(&p->asked) == 0)
		p->heard = clock_mono();
	if (keep_asked(&p->asked, a, err) != 0)
		return -1;
	if (!p->call)
		error_set(err, ERROR_UNAVAILABLE, p->options.path, "not connected");
	else if (send_asked(p, &a, err) == 0)
		return 0;
	return come_back(p, err);
}

int pieces_get(struct pieces *p, double wait_seconds, struct error *err)
{
	return ask(p, (struct asked){.verb = GET, .wait = wait_seconds}, err);
}

static void is_over(struct pieces *p, uint64_t id)
{
	struct held *h = u64map_get(&p->hand, id);
	if (h)
		h->over = 1;
}

int pieces_done(struct pieces *p, uint64_t id, struct error *err)
{
	is_over(p, id);
	return ask(p, (struct asked){.verb = DONE, .id = id}, err);
}

int pieces_back(struct pieces *p, uint64_t id, enum pieces_back why, struct error *err)
{
	is_over(p, id);
	return ask(p, (struct asked){.verb = BACK, .id = id, .why = why}, err);
}

int pieces_renew(struct pieces *p, uint64_t id, struct error *err)
{
	return ask(p, (struct asked){.verb = RENEW, .id = id}, err);
}

/* ---- answers ---- */

/* The oldest request is answered; it is in *a. */
static int shift(struct pieces *p, struct asked *a, struct error *err)
{
	struct asked_list *l = &p->asked;
	if (open_count(l) == 0)
		return error_set(err, ERROR_SOFTWARE, p->options.path, "an answer to nothing");
	*a = l->item[l->first++];
	if (l->first == l->count)
		l->first = l->count = 0;
	p->gets -= a->verb == GET;
	p->owed -= a->verb == DONE || a->verb == BACK;
	return 0;
}

static int on_ok(struct pieces *p, struct error *err)
{
	struct asked a = {0};
	struct pieces_news news = {.kind = PIECES_WAIT};
	const char *state = record_get(&p->record, "state");
	if (shift(p, &a, err) != 0)
		return -1;
	switch (a.verb) {
	case GET:
		if (!state) /* behind its piece */
			return 0;
		if (strcmp(state, "end") == 0)
			news.kind = PIECES_END;
		if (record_u64_opt(&p->record, "held", 0, UINT64_MAX, &news.held, err) != 0)
			return error_wrap(err, p->options.path);
		return tell(p, news, err);
	case DONE:
		drop(p, a.id);
		return tell(p, (struct pieces_news){.kind = PIECES_DONE, .id = a.id}, err);
	case BACK:
		drop(p, a.id);
		return 0;
	case RENEW:
		break;
	}
	return 0;
}

static int say_later(struct pieces *p, struct asked a, struct error *err)
{
	p->gets += a.verb == GET;
	p->owed += a.verb == DONE || a.verb == BACK;
	p->later_at = clock_mono() + JOURNAL_PAUSE_SECONDS;
	return keep_asked(&p->later, a, err);
}

static int on_err(struct pieces *p, struct error *err)
{
	struct asked a = {0};
	const char *code = record_get(&p->record, "code");
	if (shift(p, &a, err) != 0)
		return -1;
	if (a.verb != GET && code &&
	    (strcmp(code, "not-yours") == 0 || strcmp(code, "unknown-shard") == 0)) {
		if (a.verb != BACK)
			return lose(p, a.id, err);
		drop(p, a.id);
		return 0;
	}
	int result = refused(p, err);
	if (result == WORK_FENCED)
		return fence(p, err);
	return result == WORK_WAIT ? say_later(p, a, err) : result;
}

static int on_record(struct pieces *p, struct error *err)
{
	struct piece piece;
	p->heard = clock_mono();
	if (record_is(&p->record, "ok"))
		return on_ok(p, err);
	if (record_is(&p->record, "err"))
		return on_err(p, err);
	if (!record_is(&p->record, "shard"))
		return 0;
	if (read_piece(p, &piece, err) != 0)
		return -1;
	/* Its lease was over, and it came to us again: ours as before. */
	const struct held *h = u64map_get(&p->hand, piece.id);
	if (h && !h->over)
		return 0;
	drop(p, piece.id);
	return take_in_hand(p, &piece, err);
}

static int say_again(struct pieces *p, struct error *err)
{
	struct asked_list l = p->later;
	p->later = (struct asked_list){0};
	int result = 0;
	for (size_t i = l.first; result == 0 && !p->is_fenced && i < l.count; i++) {
		p->gets -= l.item[i].verb == GET;
		p->owed -= l.item[i].verb == DONE || l.item[i].verb == BACK;
		result = ask(p, l.item[i], err);
	}
	free(l.item);
	return result;
}

static int answer_is_here(struct pieces *p)
{
	struct pollfd fd = {.fd = call_fd(p->call), .events = POLLIN};
	return call_buffered(p->call) || poll(&fd, 1, 0) > 0;
}

double pieces_seconds(const struct pieces *p)
{
	double now = clock_mono(), seconds = 3600;
	if (p->news.first < p->news.count || (p->call && call_buffered(p->call)))
		return 0;
	if (p->call && open_count(&p->asked) > 0)
		seconds = p->heard + p->options.answer_seconds - now;
	if (open_count(&p->later) > 0 && p->later_at - now < seconds)
		seconds = p->later_at - now;
	return seconds > 0 ? seconds : 0;
}

static int is_silent(const struct pieces *p)
{
	return open_count(&p->asked) > 0 &&
	       clock_mono() >= p->heard + p->options.answer_seconds;
}

/* A record that is there, or one that is not and should be. */
static int hear(struct pieces *p, struct error *err)
{
	double seconds = is_silent(p) ? 0 : p->options.answer_seconds;
	if (!p->call)
		error_set(err, ERROR_UNAVAILABLE, p->options.path, "not connected");
	else if (call_receive_within(p->call, &p->record, seconds, err) == 0)
		return on_record(p, err);
	return come_back(p, err);
}

int pieces_next(struct pieces *p, struct pieces_news *news, struct error *err)
{
	int result = 0;
	*news = (struct pieces_news){.kind = PIECES_NOTHING};
	while (result == 0 && p->news.first == p->news.count) {
		if (open_count(&p->later) > 0 && clock_mono() >= p->later_at)
			result = say_again(p, err);
		else if (p->call ? answer_is_here(p) || is_silent(p) : open_count(&p->asked) > 0)
			result = hear(p, err);
		else
			return 0;
	}
	if (result == 0)
		*news = p->news.item[p->news.first++];
	return result;
}

/* ---- the end ---- */

struct listing {
	struct pieces *p;
	void (*each)(const struct piece *piece, void *arg);
	void *arg;
};

static void on_listed(const struct record *r, void *arg)
{
	struct listing *l = arg;
	struct piece piece;
	struct error ignored;
	if (record_is(r, "shard") &&
	    piece_parse(&piece, r, l->p->samples, l->p->shuffled, &ignored) == 0)
		l->each(&piece, l->arg);
}

int pieces_held(struct pieces *p, void (*each)(const struct piece *piece, void *arg), void *arg,
		struct error *err)
{
	static const char line[] = "list state=held\n";
	struct listing l = {p, each, arg};
	int result = WORK_OK;
	while (result == WORK_OK && p->call && open_count(&p->asked) > 0) {
		result = receive(p, 0, err);
		if (result == WORK_OK)
			result = on_record(p, err);
	}
	if (result != WORK_OK || !p->call)
		return result;
	return call_request(p->call, line, sizeof line - 1, &p->record, on_listed, &l, err) < 0 ? -1
												: 0;
}

void pieces_bye(struct pieces *p)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	struct error err;
	if (!p->call)
		return;
	record_begin(&o, line, sizeof line, "bye");
	record_add(&o, "worker", p->options.worker);
	record_add_u64(&o, "generation", p->generation);
	size_t len = record_end(&o, NULL), owed = open_count(&p->asked) + 1;
	int lost = call_send(p->call, line, len, NULL, 0, &err) != 0;
	double deadline = clock_mono() + BYE_SECONDS;
	while (!lost && owed > 0 && clock_mono() < deadline) {
		lost = call_receive_within(p->call, &p->record, BYE_SECONDS, &err) != 0;
		if (!lost && (record_is(&p->record, "err") || record_is(&p->record, "ok")))
			owed--;
	}
	disconnect(p);
}

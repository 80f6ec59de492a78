/*
 * pieces: see pieces.h.  Open requests are a ring in the order in which they are answered; hand[] is
 * what we believe to hold, by id.
 */
#include "agent/pieces.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/u64map.h"
#include "wire/call.h"

#include <stdlib.h>
#include <string.h>

#define RESUME_SECONDS 2 /* seconds to wait for an answer once stopped: without it nothing is given
			  * back */

enum verb { GET, DONE, BACK, RENEW };

struct asked {
	enum verb verb;
	uint64_t id;
	enum pieces_back why; /* BACK */
	double wait;          /* GET */
};

struct asked_list {
	struct asked *item;
	size_t first, count, room; /* requests from `first` on are open */
};

struct held {
	struct piece piece;
	int listed; /* by the last resume */
	int over;   /* done or back was sent */
};

struct news_list {
	struct pieces_news *item;
	size_t first, count, room;
};

struct pieces {
	struct generation generation;
	int is_fenced;
	struct asked_list asked; /* sent, and not answered */
	struct asked_list later; /* to be sent again, at `later_at` */
	double later_at, heard; /* clock_mono() */
	size_t gets, owed;
	struct u64map hand;
	struct news_list news;
};

static int found_in_hand(const struct piece *piece, void *owner, struct error *err);

int pieces_new(struct pieces **out, const struct generation *of, struct error *err)
{
	struct pieces *p = calloc(1, sizeof *p);
	if (!p)
		return error_set(err, ERROR_OS, "", "out of memory");
	p->generation = *of;
	p->generation.resume_seconds = RESUME_SECONDS;
	p->generation.held = found_in_hand;
	p->generation.owner = p;
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

void pieces_free(struct pieces *p)
{
	if (!p)
		return;
	generation_disconnect(&p->generation);
	drop_hand(p);
	free(p->asked.item);
	free(p->later.item);
	free(p->news.item);
	free(p);
}

const struct generation *pieces_generation(const struct pieces *p)
{
	return &p->generation;
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
	return p->generation.call ? call_fd(p->generation.call) : -1;
}

static int pieces_no_memory(struct error *err)
{
	return error_set(err, ERROR_OS, "", "out of memory");
}

/* ---- news, requests, the hand ---- */

static int pieces_tell(struct pieces *p, struct pieces_news news, struct error *err)
{
	struct news_list *l = &p->news;
	if (l->first == l->count)
		l->first = l->count = 0;
	if (GROW(l->item, l->room, l->count + 1) != 0)
		return pieces_no_memory(err);
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
		return pieces_no_memory(err);
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
		return pieces_no_memory(err);
	}
	*h = (struct held){.piece = *piece, .listed = 1};
	u64map_put(&p->hand, piece->id, h);
	return pieces_tell(p, (struct pieces_news){.kind = PIECES_GIVEN, .piece = *piece}, err);
}

/* Removes a piece; returns whether it was there. */
static int pieces_drop(struct pieces *p, uint64_t id)
{
	struct held *h = u64map_get(&p->hand, id);
	if (!h)
		return 0;
	u64map_remove(&p->hand, id);
	free(h);
	return 1;
}

static int pieces_lose(struct pieces *p, uint64_t id, struct error *err)
{
	if (!pieces_drop(p, id))
		return 0;
	return pieces_tell(p, (struct pieces_news){.kind = PIECES_LOST, .id = id}, err);
}

/* We hold nothing any more, and open requests do not count. */
static int pieces_fence(struct pieces *p, struct error *err)
{
	generation_disconnect(&p->generation);
	drop_hand(p);
	p->asked.first = p->asked.count = p->later.first = p->later.count = 0;
	p->gets = p->owed = 0;
	p->news.first = p->news.count = 0;
	p->is_fenced = 1;
	return pieces_tell(p, (struct pieces_news){.kind = PIECES_FENCED}, err);
}

/* ---- sending ---- */

static int send_asked(struct pieces *p, const struct asked *a, struct error *err)
{
	static const char *const verbs[] = {"get", "done", "back", "renew"};
	const struct generation *g = &p->generation;
	return call_record(
		g->call,
		RECORD(verbs[a->verb], F("worker", g->worker), F("generation", g->number),
		       a->verb != GET ? F("id", a->id) : F_NONE,
		       a->verb == GET && a->wait > 0 ? F_SECONDS("wait", a->wait) : F_NONE,
		       a->verb == BACK && a->why != PIECES_UNDONE ? F("failed", 1) : F_NONE,
		       a->verb == BACK && a->why == PIECES_HOLD ? F("hold", 1) : F_NONE),
		NULL, 0, err);
}

/* ---- hello ---- */

/* A piece that shardd says we hold. If we do not know it, it was in the answer to a get that was
 * lost. */
static int found_in_hand(const struct piece *piece, void *owner, struct error *err)
{
	struct pieces *p = owner;
	struct held *h = u64map_get(&p->hand, piece->id);
	if (!h)
		return take_in_hand(p, piece, err);
	h->listed = 1;
	return 0;
}

static int pieces_say_hello(struct pieces *p, int resume, struct error *err)
{
	int result = generation_hello(&p->generation, resume, err);
	if (result >= 0)
		p->heard = clock_mono();
	return result;
}

int pieces_hello(struct pieces *p, struct error *err)
{
	int result = pieces_say_hello(p, 0, err);
	if (result == WORK_OK)
		p->is_fenced = 0;
	return result;
}

/* ---- a connection that went ---- */

/* Pieces that shardd did not name are no longer ours. Requests done and back are sent again, and
 * their answers show what happened. */
static int lose_unlisted(struct pieces *p, struct error *err)
{
	size_t at = 0, lost = 0;
	struct held *h;
	uint64_t *id = malloc((p->hand.count + 1) * sizeof *id);
	if (!id)
		return pieces_no_memory(err);
	while ((h = u64map_next(&p->hand, &at)) != NULL)
		if (!h->listed && !h->over)
			id[lost++] = h->piece.id;
	int result = 0;
	for (size_t i = 0; result == 0 && i < lost; i++)
		result = pieces_lose(p, id[i], err);
	free(id);
	return result;
}

/* Sends requests again in the old order, except the gets whose answers came. */
static int pieces_ask_again(struct pieces *p, size_t answered, struct error *err)
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
static int pieces_come_back(struct pieces *p, struct error *err)
{
	while (generation_is_lost(err)) {
		size_t at = 0, held = p->hand.count;
		generation_disconnect(&p->generation);
		for (struct held *h; (h = u64map_next(&p->hand, &at)) != NULL;)
			h->listed = 0;
		int result = pieces_say_hello(p, 1, err);
		if (result == WORK_FENCED)
			return pieces_fence(p, err);
		if (result == WORK_STOP) /* an answer that still came would be to the hello */
			generation_disconnect(&p->generation);
		if (result != WORK_OK)
			return result;
		size_t found = p->hand.count - held;
		if (lose_unlisted(p, err) != 0)
			return -1;
		if (pieces_ask_again(p, found, err) == 0)
			return WORK_OK;
	}
	return -1;
}

/* ---- asking ---- */

static int pieces_ask(struct pieces *p, struct asked a, struct error *err)
{
	if (p->is_fenced) /* it is reported, but no longer matters */
		return 0;
	p->gets += a.verb == GET;
	p->owed += a.verb == DONE || a.verb == BACK;
	if (open_count(&p->asked) == 0)
		p->heard = clock_mono();
	if (keep_asked(&p->asked, a, err) != 0)
		return -1;
	if (!p->generation.call)
		error_set(err, ERROR_UNAVAILABLE, p->generation.path, "not connected");
	else if (send_asked(p, &a, err) == 0)
		return 0;
	return pieces_come_back(p, err);
}

int pieces_get(struct pieces *p, double wait_seconds, struct error *err)
{
	return pieces_ask(p, (struct asked){.verb = GET, .wait = wait_seconds}, err);
}

static void pieces_is_over(struct pieces *p, uint64_t id)
{
	struct held *h = u64map_get(&p->hand, id);
	if (h)
		h->over = 1;
}

int pieces_done(struct pieces *p, uint64_t id, struct error *err)
{
	pieces_is_over(p, id);
	return pieces_ask(p, (struct asked){.verb = DONE, .id = id}, err);
}

int pieces_back(struct pieces *p, uint64_t id, enum pieces_back why, struct error *err)
{
	pieces_is_over(p, id);
	return pieces_ask(p, (struct asked){.verb = BACK, .id = id, .why = why}, err);
}

int pieces_renew(struct pieces *p, uint64_t id, struct error *err)
{
	return pieces_ask(p, (struct asked){.verb = RENEW, .id = id}, err);
}

/* ---- answers ---- */

/* The oldest request is answered; it is in *a. */
static int pieces_shift(struct pieces *p, struct asked *a, struct error *err)
{
	struct asked_list *l = &p->asked;
	if (open_count(l) == 0)
		return error_set(err, ERROR_SOFTWARE, p->generation.path, "an answer to nothing");
	*a = l->item[l->first++];
	if (l->first == l->count)
		l->first = l->count = 0;
	p->gets -= a->verb == GET;
	p->owed -= a->verb == DONE || a->verb == BACK;
	return 0;
}

static int pieces_on_ok(struct pieces *p, struct error *err)
{
	struct asked a = {0};
	struct pieces_news news = {.kind = PIECES_WAIT};
	const char *state = record_get(&p->generation.record, "state");
	if (pieces_shift(p, &a, err) != 0)
		return -1;
	switch (a.verb) {
	case GET:
		if (!state) /* behind its piece */
			return 0;
		if (strcmp(state, "end") == 0)
			news.kind = PIECES_END;
		if (record_u64_opt(&p->generation.record, "held", 0, UINT64_MAX, &news.held, err) !=
		    0)
			return error_wrap(err, p->generation.path);
		return pieces_tell(p, news, err);
	case DONE:
		pieces_drop(p, a.id);
		return pieces_tell(p, (struct pieces_news){.kind = PIECES_DONE, .id = a.id}, err);
	case BACK:
		pieces_drop(p, a.id);
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
	const char *code = record_get(&p->generation.record, "code");
	if (pieces_shift(p, &a, err) != 0)
		return -1;
	if (a.verb != GET && code &&
	    (strcmp(code, "not-yours") == 0 || strcmp(code, "unknown-shard") == 0)) {
		if (a.verb != BACK)
			return pieces_lose(p, a.id, err);
		pieces_drop(p, a.id);
		return 0;
	}
	int result = generation_refused(&p->generation, err);
	if (result == WORK_FENCED)
		return pieces_fence(p, err);
	return result == WORK_WAIT ? say_later(p, a, err) : result;
}

static int pieces_on_record(struct pieces *p, struct error *err)
{
	struct piece piece;
	p->heard = clock_mono();
	if (record_is(&p->generation.record, "ok"))
		return pieces_on_ok(p, err);
	if (record_is(&p->generation.record, "err"))
		return on_err(p, err);
	if (!record_is(&p->generation.record, "shard"))
		return 0;
	if (generation_piece(&p->generation, &piece, err) != 0)
		return -1;
	/* Its lease had ended, and shardd gave it to us again: ours as before. */
	const struct held *h = u64map_get(&p->hand, piece.id);
	if (h && !h->over)
		return 0;
	pieces_drop(p, piece.id);
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
		result = pieces_ask(p, l.item[i], err);
	}
	free(l.item);
	return result;
}

double pieces_seconds(const struct pieces *p)
{
	double now = clock_mono(), seconds = 3600;
	if (p->news.first < p->news.count ||
	    (p->generation.call && call_buffered(p->generation.call)))
		return 0;
	if (p->generation.call && open_count(&p->asked) > 0)
		seconds = p->heard + p->generation.answer_seconds - now;
	if (open_count(&p->later) > 0 && p->later_at - now < seconds)
		seconds = p->later_at - now;
	return seconds > 0 ? seconds : 0;
}

static int is_silent(const struct pieces *p)
{
	return open_count(&p->asked) > 0 && clock_mono() >= p->heard + p->generation.answer_seconds;
}

/* Handles a record that has come, or reports one that is missing. */
static int pieces_hear(struct pieces *p, struct error *err)
{
	double seconds = is_silent(p) ? 0 : p->generation.answer_seconds;
	if (!p->generation.call)
		error_set(err, ERROR_UNAVAILABLE, p->generation.path, "not connected");
	else if (call_receive_within(p->generation.call, &p->generation.record, seconds, err) == 0)
		return pieces_on_record(p, err);
	return pieces_come_back(p, err);
}

int pieces_next(struct pieces *p, struct pieces_news *news, struct error *err)
{
	int result = 0;
	*news = (struct pieces_news){.kind = PIECES_NOTHING};
	while (result == 0 && p->news.first == p->news.count) {
		if (open_count(&p->later) > 0 && clock_mono() >= p->later_at)
			result = say_again(p, err);
		else if (p->generation.call ? generation_is_answered(&p->generation) || is_silent(p)
					    : open_count(&p->asked) > 0)
			result = pieces_hear(p, err);
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
	if (record_is(r, "shard") && generation_parse(&l->p->generation, &piece, r, &ignored) == 0)
		l->each(&piece, l->arg);
}

int pieces_held(struct pieces *p, void (*each)(const struct piece *piece, void *arg), void *arg,
		struct error *err)
{
	static const char line[] = "list state=held\n";
	struct listing l = {p, each, arg};
	int result = WORK_OK;
	while (result == WORK_OK && p->generation.call && open_count(&p->asked) > 0) {
		result = generation_receive(&p->generation, 0, 0, err);
		if (result == WORK_OK)
			result = pieces_on_record(p, err);
	}
	if (result != WORK_OK || !p->generation.call)
		return result;
	return call_request(p->generation.call, line, sizeof line - 1, &p->generation.record,
			    on_listed, &l, err) < 0
		       ? -1
		       : 0;
}

void pieces_bye(struct pieces *p)
{
	generation_bye(&p->generation, open_count(&p->asked));
}

/* The set of parts: who is in it, and what all of them are told. */
#include "lead/parts.h"

#include "base/boot.h"
#include "base/clock.h"
#include "base/grow.h"
#include "lead/part_remote.h"
#include "param/map.h"
#include "wire/timer.h"

#include <stdlib.h>
#include <string.h>

#define GONE_LOOK_SECONDS 0.05

/* Parts behind sockets. */
struct remotes {
	struct part_remote **at;
	size_t count, room;
};

struct lead_parts {
	struct lead_parts_options options;
	struct part_here here;
	struct event_base *base; /* NULL: not started */
	struct remotes remote;   /* the parts from number `local` on */
	struct remotes joiners;
	struct remotes gone; /* until they have answered, and a turn of the loop at least */
	struct timer *gone_look;
	double gone_until;
	uint32_t local; /* 1: part 0 is here */
	struct map map; /* 0 parts: there are none */
	char boot[BOOT_ID_MAX]; /* of this process */
};

static void changed(void *parts)
{
	struct lead_parts *p = parts;

	p->options.ready(lead_parts_ready(p), p->options.owner);
	p->options.joiners(p->options.owner);
}

static uint64_t lead_parts_iteration(void *parts)
{
	struct lead_parts *p = parts;

	return p->options.iteration(p->options.owner);
}

static uint64_t map_version(void *parts)
{
	return ((struct lead_parts *)parts)->map.version;
}

static void lead_parts_broken(const struct error *err, void *parts)
{
	struct lead_parts *p = parts;

	p->options.broken(err, p->options.owner);
}

/* The answer to an order that can't fail. */
static void committed(uint32_t part, const struct order_result *result, void *parts)
{
	struct lead_parts *p = parts;
	struct error err = {0};

	if (!result->code)
		return;
	error_set(&err, ERROR_TEMPFAIL, lead_parts_name(p, part),
		  "what is committed was not applied: %s: %s", result->code, result->text);
	lead_parts_broken(&err, p);
}

/* Adds a part at the end of `to`. */
static int lead_parts_add(struct lead_parts *p, struct remotes *to, const char *socket, int joins)
{
	struct part_remote_options remote = {.path = socket,
					     .part = p->local + (uint32_t)to->count,
					     .joins = joins,
					     .incarnation = p->options.incarnation,
					     .iteration = lead_parts_iteration,
					     .map = map_version,
					     .changed = changed,
					     .committed = committed,
					     .broken = lead_parts_broken,
					     .owner = p};

	if (GROW(to->at, to->room, to->count + 1) != 0)
		return -1;
	to->at[to->count] = part_remote_new(&remote);
	if (!to->at[to->count])
		return -1;
	to->count++;
	if (p->base && part_remote_start(to->at[to->count - 1], p->base) != 0)
		return -1;
	return 0;
}

static void free_all(struct remotes *r)
{
	for (size_t i = 0; i < r->count; i++) {
		part_remote_stop(r->at[i]);
		part_remote_free(r->at[i]);
	}
	r->count = 0;
}

int lead_parts_begin(struct lead_parts *p, const char *const *sockets, size_t count,
		     struct error *err)
{
	free_all(&p->remote);
	for (size_t i = 0; i < count; i++) {
		if (lead_parts_add(p, &p->remote, sockets[i], 0) != 0)
			return error_set(err, ERROR_OS, "parts", "out of memory");
	}
	for (size_t i = 0; i < count; i++)
		part_remote_place(p->remote.at[i], p->local + (uint32_t)i, p->local + count);
	return 0;
}

int lead_parts_new(struct lead_parts **out, const struct lead_parts_options *options,
		   struct error *err)
{
	struct lead_parts *p = calloc(1, sizeof *p);

	if (!p)
		return error_set(err, ERROR_OS, "parts", "out of memory");
	p->options = *options;
	p->local = options->here ? 1 : 0;
	if (options->here)
		p->here = *options->here;
	if (options->map)
		p->map = *options->map;
	boot_id(p->boot);
	if (lead_parts_begin(p, options->sockets, options->count, err) == 0) {
		*out = p;
		return 0;
	}
	lead_parts_free(p);
	return -1;
}

/* Frees those who have answered all, or did not in time. */
static void lead_parts_on_gone(void *parts)
{
	struct lead_parts *p = parts;
	int late = clock_mono() >= p->gone_until;
	size_t kept = 0;

	for (size_t i = 0; i < p->gone.count; i++) {
		struct part_remote *r = p->gone.at[i];
		if (!late && !part_remote_is_idle(r) && part_remote_ready(r)) {
			p->gone.at[kept++] = r;
			continue;
		}
		part_remote_stop(r);
		part_remote_free(r);
	}
	p->gone.count = kept;
	if (kept)
		timer_set(p->gone_look, GONE_LOOK_SECONDS);
}

int lead_parts_start(struct lead_parts *p, struct event_base *base, struct error *err)
{
	p->base = base;
	p->gone_look = timer_new(base, lead_parts_on_gone, p);
	if (!p->gone_look)
		return error_set(err, ERROR_OS, "parts", "out of memory");
	for (size_t i = 0; i < p->remote.count; i++) {
		if (part_remote_start(p->remote.at[i], base) != 0)
			return error_set(err, ERROR_OS, part_remote_path(p->remote.at[i]),
					 "out of memory");
	}
	return 0;
}

void lead_parts_stop(struct lead_parts *p)
{
	struct remotes *all[] = {&p->remote, &p->joiners, &p->gone};

	for (size_t k = 0; k < 3; k++) {
		for (size_t i = 0; i < all[k]->count; i++)
			part_remote_stop(all[k]->at[i]);
	}
	timer_free(p->gone_look);
	p->gone_look = NULL;
}

void lead_parts_free(struct lead_parts *p)
{
	if (!p)
		return;
	free_all(&p->remote);
	free_all(&p->joiners);
	free_all(&p->gone);
	free(p->remote.at);
	free(p->joiners.at);
	free(p->gone.at);
	free(p);
}

size_t lead_parts_count(const struct lead_parts *p)
{
	return p->local + p->remote.count;
}

int lead_parts_ready(const struct lead_parts *p)
{
	for (size_t i = 0; i < p->remote.count; i++) {
		if (!part_remote_ready(p->remote.at[i]))
			return 0;
	}
	return 1;
}

const char *lead_parts_boot(const struct lead_parts *p)
{
	for (size_t i = 0; i < p->remote.count; i++) {
		if (strcmp(part_remote_boot(p->remote.at[i]), p->boot) != 0)
			return "";
	}
	return lead_parts_count(p) ? p->boot : "";
}

const char *lead_parts_name(const struct lead_parts *p, uint32_t part)
{
	size_t i = part - p->local, joiner = i - p->remote.count;

	if (part < p->local)
		return "part 0";
	if (i < p->remote.count)
		return part_remote_path(p->remote.at[i]);
	return joiner < p->joiners.count ? part_remote_path(p->joiners.at[joiner]) : "a part";
}

const struct part_here *lead_parts_here(const struct lead_parts *p)
{
	return p->local ? &p->here : NULL;
}

const struct map *lead_parts_map(const struct lead_parts *p)
{
	return p->map.parts ? &p->map : NULL;
}

void lead_parts_go_by(struct lead_parts *p, const struct map *map)
{
	p->map = *map;
}

/* ---- orders ---- */

static int is_of_a_move(const struct order *o)
{
	return o->kind == ORDER_PREPARE || o->kind == ORDER_GIVE || o->kind == ORDER_ADOPT ||
	       o->kind == ORDER_CANCEL;
}

static int give_remote(struct lead_parts *p, const struct order *o, const struct order_answer *a)
{
	size_t head, bytes, joiners = is_of_a_move(o) ? p->joiners.count : 0;
	size_t count = p->remote.count + joiners;
	char *written = count ? order_write(o, &head, &bytes) : NULL;
	struct told_text *text = written ? told_text_new(written, head, bytes) : NULL;
	int rc = text || count == 0 ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < count; i++) {
		struct order_answer of = *a;
		of.part = p->local + (uint32_t)i;
		rc = part_remote_obey(i < p->remote.count ? p->remote.at[i]
							  : p->joiners.at[i - p->remote.count],
				      o, text, &of);
	}
	told_text_release(text);
	for (size_t i = 0; rc == 0 && o->kind == ORDER_APPLY && i < count; i++)
		part_remote_flush(p->remote.at[i]);
	return rc;
}

void lead_parts_give(struct lead_parts *p, struct order *o, const struct order_answer *a)
{
	struct order_answer of = a ? *a : (struct order_answer){.done = committed, .arg = p};
	struct error err = {0};

	o->incarnation = p->options.incarnation;
	o->later = o->kind == ORDER_CUT || o->kind == ORDER_PREPARE;
	if (give_remote(p, o, &of) != 0) {
		error_set(&err, ERROR_OS, "parts", "out of memory");
		lead_parts_broken(&err, p);
	} else if (p->local)
		p->here.obey(p->here.part, o, &of);
}

/* ---- parts that come and go ---- */

int lead_parts_join(struct lead_parts *p, const char *socket, struct error *err)
{
	return lead_parts_add(p, &p->joiners, socket, 1) == 0
		       ? 0
		       : error_set(err, ERROR_OS, socket, "out of memory");
}

const char *lead_parts_joiner(const struct lead_parts *p, size_t i)
{
	return i < p->joiners.count ? part_remote_path(p->joiners.at[i]) : NULL;
}

int lead_parts_joiner_ready(const struct lead_parts *p, size_t i)
{
	return part_remote_ready(p->joiners.at[i]);
}

const char *lead_parts_joiner_wrong(const struct lead_parts *p, size_t i)
{
	return part_remote_wrong(p->joiners.at[i]);
}

/* Its own callback may be running: it goes in the next turn at the earliest. */
static void lead_parts_let_go(struct lead_parts *p, struct part_remote *r)
{
	part_remote_leave(r);
	if (GROW(p->gone.at, p->gone.room, p->gone.count + 1) != 0) {
		part_remote_stop(r); /* a leak is all that comes of it */
		return;
	}
	p->gone.at[p->gone.count++] = r;
	p->gone_until = clock_mono() + 10.0;
	if (p->gone_look)
		timer_set(p->gone_look, GONE_LOOK_SECONDS);
}

void lead_parts_forget_joiners(struct lead_parts *p)
{
	for (size_t i = 0; i < p->joiners.count; i++)
		lead_parts_let_go(p, p->joiners.at[i]);
	p->joiners.count = 0;
}

/* The one with this socket, which is taken out if `take`. */
static struct part_remote *lead_parts_find(const struct lead_parts *p, const char *socket, int take)
{
	const struct remotes *all[] = {&p->remote, &p->joiners};

	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; i < all[k]->count; i++) {
			struct part_remote *r = all[k]->at[i];
			if (!r || strcmp(part_remote_path(r), socket) != 0)
				continue;
			if (take)
				all[k]->at[i] = NULL;
			return r;
		}
	}
	return NULL;
}

const char *lead_parts_id(const struct lead_parts *p, const char *socket)
{
	const struct part_remote *r = lead_parts_find(p, socket, 0);

	return r ? part_remote_id(r) : "";
}

const char *lead_parts_lost(const struct lead_parts *p)
{
	const struct remotes *all[] = {&p->remote, &p->joiners};

	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; i < all[k]->count; i++) {
			if (!part_remote_ready(all[k]->at[i]))
				return part_remote_path(all[k]->at[i]);
		}
	}
	return NULL;
}

int lead_parts_are(struct lead_parts *p, const char *const *sockets, size_t count,
		   const struct map *map)
{
	struct remotes now = {.at = NULL};

	if (GROW(now.at, now.room, count + 1) != 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		struct part_remote *r = lead_parts_find(p, sockets[i], 1);
		part_remote_place(r, p->local + (uint32_t)i, p->local + count);
		now.at[now.count++] = r;
	}
	for (size_t i = 0; i < p->remote.count; i++) {
		if (p->remote.at[i])
			lead_parts_let_go(p, p->remote.at[i]);
	}
	for (size_t i = 0; i < p->joiners.count; i++) {
		if (p->joiners.at[i])
			lead_parts_let_go(p, p->joiners.at[i]);
	}
	p->joiners.count = 0;
	free(p->remote.at);
	p->remote = now;
	p->map = *map;
	return 0;
}

/* ---- handing over ---- */

int lead_parts_owed(const struct lead_parts *p, lead_parts_owed_fn *fn, void *arg,
		    struct error *err)
{
	for (size_t i = 0; i < p->remote.count; i++) {
		if (part_remote_owed(p->remote.at[i], fn, arg, err) != 0)
			return -1;
	}
	return 0;
}

int lead_parts_owe(struct lead_parts *p, uint32_t part, uint64_t at, uint64_t units, char *text,
		   size_t head, size_t bytes, struct error *err)
{
	int is_elsewhere = part >= p->local && part < lead_parts_count(p);
	struct told_text *told = told_text_new(text, head, bytes);
	int rc = told && is_elsewhere
			 ? part_remote_owe(p->remote.at[part - p->local], at, units, told)
			 : -1;

	told_text_release(told);
	if (!is_elsewhere)
		return error_set(err, ERROR_DATA, NULL, "part %u is not elsewhere", part);
	return rc == 0 ? 0 : error_set(err, ERROR_OS, lead_parts_name(p, part), "out of memory");
}

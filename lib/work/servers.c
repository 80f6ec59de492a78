/* servers: see servers.h. Where the lead is part 0, one push both gives it its own gradients and
 * tells it of the others. A push stays where it is until it is answered for good: it may have to be
 * divided again, by another map. */
#include "work/servers.h"

#include "base/clock.h"
#include "base/number.h"
#include "param/map.h"
#include "work/lead_client.h"
#include "work/part_clients.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_SECONDS 3.0 /* wait for a part of a map, until the lead is asked for its map again */
#define PAUSE_SECONDS 0.001 /* seconds to wait for a part that is behind; doubled up to */
#define PAUSE_SECONDS_MAX 0.05
#define GREETING_SECONDS 2.0
#define SIZES_MAX 1024 /* bytes of a line */
#define HOST_ROOM 256

/* Which part a server must be. */
struct wanted {
	const struct servers *servers;
	uint64_t dense, map;
	uint32_t index, count, width;
};

/* The map: which part has which parameters, as the lead says. */
struct places {
	struct map map;
	char **path; /* of each part */
	uint32_t count;
};

struct servers {
	struct exchange exchange; /* first */
	struct servers_options options;
	struct map map;
	struct part_clients parts;
	struct conversation apart; /* with a lead that is no part */
	struct wanted *wanted; /* of each part */
	char **path;           /* of each */
	/* The push that is under way, and its batch, until wait() has returned. */
	struct exchange_push push;
	const struct batch *batch;
	enum { NOT_ANNOUNCED, GRANTED, DROPPED } announced;
	uint64_t iteration; /* if it was dropped: where the next batch belongs */
	uint64_t group, members; /* in which it was granted; 0: alone */
	uint64_t here;           /* of them, on this host, if not all; else 0 */
	char at[HOST_ROOM];      /* the host that sums all; empty: each its own */
	double pause;
};

static struct servers *servers_of(struct exchange *x)
{
	return (struct servers *)(void *)x;
}

static struct conversation *lead_of(struct servers *s)
{
	return s->options.lead ? &s->apart : &s->parts.part[0].talk;
}

/* The first part that does not lead. */
static uint32_t first_of(const struct servers *s)
{
	return s->options.lead ? 0 : 1;
}

static void servers_close(struct servers *s)
{
	part_clients_close(&s->parts);
	conversation_close(lead_of(s));
}

static void servers_free(struct exchange *x)
{
	struct servers *s = servers_of(x);
	if (s->options.lead)
		conversation_close(&s->apart);
	for (uint32_t i = 0; s->path && i < s->parts.count; i++)
		free(s->path[i]);
	free(s->path);
	part_clients_free(&s->parts);
	free(s->wanted);
	free(s);
}

static const struct map *servers_map(const struct exchange *x)
{
	return &((const struct servers *)(const void *)x)->map;
}

static void servers_disconnect(struct exchange *x)
{
	servers_close(servers_of(x));
}

static int servers_connected(const struct exchange *x)
{
	const struct servers *s = (const struct servers *)(const void *)x;
	return (!s->options.lead || s->apart.call) && part_clients_connected(&s->parts);
}

static void servers_identify(struct exchange *x, uint64_t generation, uint64_t incarnation)
{
	struct servers *s = servers_of(x);
	part_clients_identify(&s->parts, generation, incarnation);
	lead_of(s)->generation = generation;
	lead_of(s)->incarnation = incarnation;
}

/* After a rollback all servers are new processes; nobody needs the answers that are still open. */
static int servers_end_of(struct servers *s, int result, int open)
{
	if (result == WORK_RESET || (result != WORK_OK && open))
		servers_close(s);
	return result;
}

/* ---- connecting ---- */

static int servers_check_greeting(const struct record *r, const void *wanted, struct error *err)
{
	const struct wanted *w = wanted;
	const char *part = record_get(r, "part");
	uint64_t dense, width, map = 1;
	char want[48], *end = want;
	if (record_u64_opt(r, "map", 0, UINT64_MAX, &map, err) != 0)
		return -1;
	/* With another map, nothing can be compared here: the lead is asked for its map, and a part
	 * answers a request of another map. */
	if (map != w->map || (w->index == 0 && map > 1))
		return 0;
	end += number_format_u64(w->index, end);
	*end++ = '/';
	end += number_format_u64(w->count, end);
	*end = '\0';
	if (!part || strcmp(part, want) != 0)
		return error_set(err, ERROR_CONFIG, "", "is part %s, not %s", part ? part : "?",
				 want);
	if (record_u64(r, "dense", 0, UINT64_MAX, &dense, err) != 0 ||
	    record_u64(r, "width", 0, UINT32_MAX, &width, err) != 0)
		return -1;
	if (dense == w->dense && width == w->width)
		return 0;
	return error_set(err, ERROR_CONFIG, "",
			 "serves another model: %llu dense parameters and rows of %llu, not %llu "
			 "and %u",
			 (unsigned long long)dense, (unsigned long long)width,
			 (unsigned long long)w->dense, w->width);
}

/* ---- who has what ---- */

static void places_free(struct places *p)
{
	for (uint32_t i = 0; p && p->path && i < MAP_PARTS_MAX; i++)
		free(p->path[i]);
	if (p)
		free(p->path);
	free(p);
}

static struct places *places_new(void)
{
	struct places *p = calloc(1, sizeof(*p));
	if (p)
		p->path = calloc(MAP_PARTS_MAX, sizeof(*p->path));
	if (p && p->path)
		return p;
	free(p);
	return NULL;
}

static int servers_take_place(struct places *p, const struct record *r, struct error *err)
{
	const char *socket;
	uint64_t part, dense, keys;
	if (record_u64(r, "part", p->count, p->count, &part, err) != 0 ||
	    record_text(r, "socket", &socket, err) != 0 ||
	    record_u64(r, "dense-begin", 0, UINT64_MAX / 2, &p->map.dense_begin[p->count], err) !=
		    0 ||
	    record_u64(r, "dense", 0, UINT64_MAX / 2, &dense, err) != 0 ||
	    record_u64(r, "key-begin", 0, MAP_PLACES, &p->map.key_begin[p->count], err) != 0 ||
	    record_u64(r, "keys", 0, MAP_PLACES, &keys, err) != 0)
		return -1;
	if (p->count == MAP_PARTS_MAX - 1)
		return error_set(err, ERROR_DATA, "", "too many parts");
	free(p->path[p->count]);
	p->path[p->count] = strdup(socket);
	if (!p->path[p->count])
		return error_set(err, ERROR_OS, "", "out of memory");
	p->count++;
	p->map.dense_begin[p->count] = p->map.dense_begin[part] + dense;
	p->map.key_begin[p->count] = p->map.key_begin[part] + keys;
	return 0;
}

static int servers_check_places(const struct servers *s, struct places *p, const struct record *r,
				struct error *err)
{
	if (record_u64(r, "version", 1, UINT64_MAX, &p->map.version, err) != 0)
		return -1;
	p->map.parts = p->count;
	if (map_is_whole(&p->map, s->options.dense_count))
		return 0;
	return error_set(err, ERROR_CONFIG, "", "serves another model: a map of %llu parameters",
			 (unsigned long long)p->map.dense_begin[p->count]);
}

/* Asks the lead for the map. No other request may be open there. */
static int ask_places(struct servers *s, struct places *p, struct error *err)
{
	struct conversation *c = lead_of(s);
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(c, &o, line, "parts");
	int result = conversation_ask(c, &o, NULL, 0, err);
	while (result == WORK_OK) {
		int anew = 0;
		result = conversation_receive(c, HASTY, &anew, err);
		if (anew)
			p->count = 0;
		if (result != WORK_OK)
			break;
		if (record_is(&c->record, "err"))
			return conversation_refused(c, err);
		if (record_is(&c->record, "ok"))
			return servers_check_places(s, p, &c->record, err) == 0
				       ? WORK_OK
				       : error_wrap(err, c->options.path);
		if (record_is(&c->record, "part") && servers_take_place(p, &c->record, err) != 0)
			return error_wrap(err, c->options.path);
	}
	return result;
}

/* Called while we wait for a part that went: whether it is no longer a part. The lead's greeting
 * says so, on a connection of its own, because a request may be open on the other one. */
static int is_needless(const void *wanted)
{
	const struct servers *s = ((const struct wanted *)wanted)->servers;
	const char *lead = s->options.lead ? s->options.lead : s->path[0];
	struct call *call = NULL;
	struct error ignored;
	uint64_t map = s->map.version;
	if (call_open(&call, lead, 0, GREETING_SECONDS, &ignored) != 0)
		return 0;
	(void)record_u64_opt(call_greeting(call), "map", 0, UINT64_MAX, &map, &ignored);
	call_close(call);
	return map > s->map.version;
}

/* Makes a client of part i, which is served at path. */
static void servers_set_up(struct servers *s, struct part_client *p, uint32_t i)
{
	const struct servers_options *o = &s->options;
	p->dense_begin = s->map.dense_begin[i];
	p->dense_count = s->map.dense_begin[i + 1] - s->map.dense_begin[i];
	p->width = o->width;
	p->key_count = o->key_count;
	p->dense_most = o->dense_count;
	p->keep_dir = o->keep_dir;
	p->map = s->map.version;
	s->wanted[i] = (struct wanted){s, p->dense_count, s->map.version, i, s->map.parts, o->width};
	p->talk.options = o->talk;
	p->talk.options.path = s->path[i];
	p->talk.options.check = servers_check_greeting;
	p->talk.options.wanted = &s->wanted[i];
	p->talk.options.needless = i >= first_of(s) ? is_needless : NULL;
}

/* The client that is connected to where part i is now. */
static int old_of(const struct servers *s, const struct places *to, uint32_t i, uint32_t *old)
{
	int leads = i < first_of(s);
	for (*old = leads ? 0 : first_of(s); *old < s->parts.count; ++*old)
		if (leads || (s->path[*old] && strcmp(s->path[*old], to->path[i]) == 0))
			return 1;
	return 0;
}

/* Changes to these parts; connections to parts that stay go on. */
static int move_to(struct servers *s, struct places *to, struct error *err)
{
	struct part_client *part = calloc(to->count, sizeof(*part));
	struct wanted *wanted = calloc(to->count, sizeof(*wanted));
	char **path = calloc(to->count, sizeof(*path));
	if (!part || !wanted || !path) {
		free(part);
		free(wanted);
		free(path);
		return error_set(err, ERROR_OS, "", "out of memory");
	}
	for (uint32_t i = 0, old; i < to->count; i++) {
		if (old_of(s, to, i, &old)) {
			part[i] = s->parts.part[old];
			path[i] = s->path[old];
			s->path[old] = NULL;
			s->parts.part[old] = (struct part_client){0};
		} else {
			path[i] = to->path[i];
			to->path[i] = NULL;
		}
	}
	for (uint32_t i = 0; i < s->parts.count; i++) {
		part_client_free(&s->parts.part[i]);
		free(s->path[i]);
	}
	free(s->parts.part);
	free(s->wanted);
	free(s->path);
	s->parts.part = part;
	s->parts.count = to->count;
	s->wanted = wanted;
	s->path = path;
	s->map = to->map;
	for (uint32_t i = 0; i < to->count; i++) {
		servers_set_up(s, &part[i], i);
		part[i].talk.generation = lead_of(s)->generation;
		part[i].talk.incarnation = lead_of(s)->incarnation;
		if (!part[i].talk.call)
			part_client_close(&part[i]);
	}
	return 0;
}

/* Connects to the lead, and goes by its map. */
static int connect_lead(struct servers *s, double deadline, struct error *err)
{
	int is_new = !lead_of(s)->call, result = WORK_OK;
	uint64_t map = 1;
	if (is_new)
		result = s->options.lead ? conversation_connect(&s->apart, deadline, err)
					 : part_client_connect(&s->parts.part[0], deadline, err);
	if (result != WORK_OK)
		return result;
	if (record_u64_opt(call_greeting(lead_of(s)->call), "map", 0, UINT64_MAX, &map, err) != 0)
		return -1;
	if (map == s->map.version && (!is_new || map <= 1))
		return WORK_OK;
	/* a map that is new to us, or the map of another incarnation */
	struct places *to = places_new();
	result = to ? ask_places(s, to, err) : error_set(err, ERROR_OS, "", "out of memory");
	if (result == WORK_OK)
		result = move_to(s, to, err);
	places_free(to);
	return result;
}

/* A part that is not there may have gone for good: the lead may have another map by then. */
static int servers_connect(struct exchange *x, uint64_t *low, uint64_t *high, struct error *err)
{
	struct servers *s = servers_of(x);
	double deadline = clock_mono() + s->options.talk.wait_seconds;
	uint64_t lead;
	for (;;) {
		int result = connect_lead(s, deadline, err);
		if (result != WORK_OK)
			return result;
		double soon = fmin(deadline, clock_mono() + PART_SECONDS);
		result = part_clients_connect(&s->parts, soon, low, high, err);
		if (result == WORK_OK && conversation_incarnation(lead_of(s), &lead, err) != 0)
			return -1;
		if (result == WORK_OK) {
			*low = lead < *low ? lead : *low;
			*high = lead > *high ? lead : *high;
		}
		if (result != -1 || err->code != ERROR_UNAVAILABLE || clock_mono() >= deadline)
			return result;
		servers_close(s);
	}
}

/* Connects to the parts that came with the map. */
static int connect_more(struct servers *s, struct error *err)
{
	uint64_t low, high, ours = lead_of(s)->incarnation;
	for (uint32_t i = 0; i < s->parts.count; i++)
		if (!s->parts.part[i].talk.call)
			part_client_close(&s->parts.part[i]); /* its shared memory is gone */
	double seconds = fmin(s->options.talk.wait_seconds, PART_SECONDS);
	int result = part_clients_connect(&s->parts, clock_mono() + seconds, &low, &high, err);
	/* They may have gone for good, with the lead whose map this is: then another map holds. */
	if (result == -1 && err->code == ERROR_UNAVAILABLE)
		return WORK_RESET;
	return result == WORK_OK && (low != ours || high != ours) ? WORK_RESET : result;
}

/* A part uses another map: use the lead's from now on; if ours is the lead's, the part is behind,
 * and is asked again soon. */
static int servers_follow(struct servers *s, struct error *err)
{
	struct places *to = places_new();
	int result = to ? part_clients_drain(&s->parts, err)
			: error_set(err, ERROR_OS, "", "out of memory");
	if (result == WORK_OK)
		result = ask_places(s, to, err);
	if (result == WORK_OK && to->map.version > s->map.version) {
		result = move_to(s, to, err);
		s->pause = PAUSE_SECONDS;
	} else if (result == WORK_OK && to->map.version < s->map.version) {
		result = WORK_RESET;
	} else if (result == WORK_OK) {
		clock_sleep(s->pause);
		s->pause = s->pause * 2 < PAUSE_SECONDS_MAX ? s->pause * 2 : PAUSE_SECONDS_MAX;
		if (conversation_stopped(lead_of(s)))
			result = WORK_STOP;
	}
	places_free(to);
	return result == WORK_OK ? connect_more(s, err) : result;
}

/* ---- what is told to the lead ---- */

static int servers_join(struct exchange *x, const struct exchange_member *member,
			uint64_t *iteration, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = part_clients_drop_early(&s->parts, HASTY, err);
	if (result == WORK_OK)
		result = lead_client_join(lead_of(s), member, NULL, iteration, err);
	return servers_end_of(s, result, result == WORK_STOP);
}

static int servers_leave(struct exchange *x, int brief, uint64_t idle, struct error *err)
{
	struct servers *s = servers_of(x);
	if (!lead_of(s)->call)
		return WORK_RESET;
	part_clients_brief(&s->parts, brief);
	lead_of(s)->brief = brief;
	int result = part_clients_drop_early(&s->parts, PATIENT, err);
	if (result == WORK_OK)
		result = lead_client_leave(lead_of(s), idle, err);
	for (uint32_t i = first_of(s); i < s->parts.count && result == WORK_OK && !brief; i++)
		part_client_release(&s->parts.part[i]);
	part_clients_brief(&s->parts, 0);
	lead_of(s)->brief = 0;
	return servers_end_of(s, result, result == WORK_STOP);
}

static int servers_end(struct exchange *x, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = part_clients_drop_early(&s->parts, HASTY, err);
	if (result == WORK_OK)
		result = lead_client_end(lead_of(s), err);
	return servers_end_of(s, result, result == WORK_STOP);
}

/* ---- a batch ---- */

static int servers_pull(struct exchange *x, uint64_t iteration, const struct batch *b,
			struct exchange_values *values, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = part_clients_pull(&s->parts, iteration, b, values, err);
	while (result == WORK_MAP) {
		result = servers_follow(s, err);
		if (result == WORK_OK)
			result = part_clients_pull(&s->parts, iteration, b, values, err);
	}
	/* answers of the other parts may still come */
	return servers_end_of(s, result, result == WORK_FENCED || result == WORK_STOP);
}

static void add_for_lead(const struct servers *s, struct record_out *o)
{
	record_add_u64(o, "pulled", s->parts.as_of);
	lead_client_add_report(o, &s->push);
}

static int push_to(struct servers *s, uint32_t i, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&s->parts.part[i].talk, &o, line, "push");
	lead_client_add_push(&o, &s->push, s->batch);
	/* What is summed on the way would be another sum when it comes again. (The lead answers
	 * when the push is settled.) */
	s->parts.part[i].keeps = i >= first_of(s) && !s->group;
	if (s->group) {
		record_add_u64(&o, "group", s->group);
		record_add_u64(&o, "members", s->members);
		if (s->here)
			record_add_u64(&o, "here", s->here);
		if (s->at[0])
			record_add(&o, "at", s->at);
		record_add_u64(&o, "dense-bytes", s->parts.part[i].dense_count * sizeof(float));
	}
	if (i < first_of(s))
		add_for_lead(s, &o);
	return part_clients_push(&s->parts, i, &o, s->push.sequence, s->batch, err);
}

/* The last push of a batch. */
static int push_last(struct servers *s, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (!s->options.lead)
		return push_to(s, 0, err);
	conversation_begin(&s->apart, &o, line, "push");
	lead_client_add_push(&o, &s->push, s->batch);
	record_add_u64(&o, "map", s->map.version);
	if (s->group)
		record_add_u64(&o, "group", s->group);
	add_for_lead(s, &o);
	return conversation_ask(&s->apart, &o, NULL, 0, err);
}

/* Whether the lead wants to know of a push before it is sent. */
static int announces(struct servers *s)
{
	return s->announced == NOT_ANNOUNCED && call_greets_with(lead_of(s)->call, "announce");
}

/* 0: with very many parts the line would be too long; then the push is sent unasked. */
static int servers_put_sizes(const struct servers *s, char sizes[SIZES_MAX])
{
	char *end = sizes;
	for (uint32_t i = 0; i < s->parts.count; i++) {
		if (end + 24 > sizes + SIZES_MAX)
			return 0;
		if (i > 0)
			*end++ = ',';
		end += number_format_u64(part_client_push_bytes(&s->parts.part[i]), end);
	}
	*end = '\0';
	return 1;
}

/* Asks the lead whether the push may be sent. If it would be too stale, the lead drops it now, and
 * gives its rows back. */
static int announce(struct servers *s, struct error *err)
{
	struct conversation *lead = lead_of(s);
	char line[RECORD_LINE_MAX], sizes[SIZES_MAX];
	struct record_out o;
	uint64_t dropped = 0;
	if (!servers_put_sizes(s, sizes))
		return WORK_OK;
	conversation_begin(lead, &o, line, "announce");
	lead_client_add_push(&o, &s->push, s->batch);
	record_add_u64(&o, "pulled", s->parts.as_of);
	record_add(&o, "sizes", sizes);
	int result = conversation_ask(lead, &o, NULL, 0, err);
	if (result == WORK_OK)
		result = conversation_answer(lead, PATIENT, err);
	if (result != WORK_OK)
		return result;
	if (record_u64_opt(&lead->record, "dropped", 0, 1, &dropped, err) != 0 ||
	    (dropped &&
	     record_u64(&lead->record, "iteration", 0, UINT64_MAX, &s->iteration, err) != 0) ||
	    record_u64_opt(&lead->record, "group", 0, UINT64_MAX, &s->group, err) != 0 ||
	    record_u64_opt(&lead->record, "members", 0, UINT32_MAX, &s->members, err) != 0 ||
	    record_u64_opt(&lead->record, "here", 0, UINT32_MAX, &s->here, err) != 0)
		return error_wrap(err, lead->options.path);
	const char *at = record_get(&lead->record, "at");
	snprintf(s->at, sizeof s->at, "%s", at ? at : "");
	s->announced = dropped ? DROPPED : GRANTED;
	return WORK_OK;
}

/* Stages the push at the other parts, then tells the lead. WORK_MAP: a part uses another map; then
 * only answers of parts that were asked are open. */
static int push_once(struct servers *s, struct error *err)
{
	int result = announces(s) ? announce(s, err) : WORK_OK, other_map = 0;
	if (s->announced == DROPPED)
		return result;
	for (uint32_t i = first_of(s); i < s->parts.count && result == WORK_OK; i++)
		result = push_to(s, i, err);
	for (uint32_t i = first_of(s); i < s->parts.count && result == WORK_OK; i++) {
		result = conversation_answer(&s->parts.part[i].talk, PATIENT, err);
		if (result == WORK_OK)
			part_client_pushed(&s->parts.part[i]);
		if (result == WORK_MAP) {
			other_map = 1;
			result = WORK_OK;
		}
	}
	if (result == WORK_OK && other_map)
		return WORK_MAP;
	return result == WORK_OK ? push_last(s, err) : result;
}

/* Sends the same push by another map: the computed gradients are divided anew, wherever they
 * are. */
static int push_again(struct servers *s, struct error *err)
{
	int result = WORK_MAP;
	while (result == WORK_MAP) {
		result = part_clients_keep(&s->parts, s->batch, err);
		if (result == WORK_OK)
			result = servers_follow(s, err);
		if (result == WORK_OK)
			result = part_clients_speak_of(&s->parts, s->batch, err);
		if (result == WORK_OK)
			result = push_once(s, err);
	}
	return result;
}

static int servers_push(struct exchange *x, struct exchange_push *push,
			const struct batch *b, const struct batch *next, struct error *err)
{
	struct servers *s = servers_of(x);
	s->push = *push;
	s->batch = b;
	s->announced = NOT_ANNOUNCED;
	s->group = s->here = 0;
	int result = push_once(s, err), again = result == WORK_MAP;
	if (again)
		result = push_again(s, err);
	else if (result == WORK_OK && s->announced != DROPPED)
		result = part_clients_ask_early(&s->parts, push, b, next, err);
	if (result == WORK_MAP) /* for an early pull: the push's answer says so, too */
		result = WORK_OK;
	return servers_end_of(s, result,
			      result == WORK_FENCED || result == WORK_STOP || s->parts.early);
}

/* The lead's answer to the push. One that it dropped when it was announced was not sent, so no answer
 * is to come. */
static int wait_once(struct servers *s, uint64_t *iteration, struct error *err)
{
	if (s->announced != DROPPED)
		return lead_client_wait(lead_of(s), iteration, err);
	*iteration = s->iteration;
	return WORK_OK;
}

static int servers_wait(struct exchange *x, uint64_t *iteration, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = wait_once(s, iteration, err);
	while (result == WORK_MAP) {
		result = push_again(s, err);
		if (result == WORK_OK)
			result = wait_once(s, iteration, err);
	}
	/* An early request has no deadline: no server knows when it can answer. */
	if (result == WORK_OK)
		result = part_clients_check_early(&s->parts, *iteration);
	return servers_end_of(s, result, result == WORK_STOP || s->parts.early);
}

static const struct exchange_kind servers_kind = {
	.free = servers_free,
	.map = servers_map,
	.connect = servers_connect,
	.disconnect = servers_disconnect,
	.connected = servers_connected,
	.identify = servers_identify,
	.join = servers_join,
	.leave = servers_leave,
	.end = servers_end,
	.pull = servers_pull,
	.push = servers_push,
	.wait = servers_wait,
};

int servers_new(struct exchange **out, const struct servers_options *options, struct error *err)
{
	struct servers *s = calloc(1, sizeof(*s));
	if (s) {
		s->wanted = calloc(options->count, sizeof(*s->wanted));
		s->path = calloc(options->count, sizeof(*s->path));
	}
	if (!s || !s->wanted || !s->path) {
		if (s) {
			free(s->wanted);
			free(s->path);
		}
		free(s);
		return error_set(err, ERROR_OS, "", "out of memory");
	}
	s->exchange.kind = &servers_kind;
	s->options = *options;
	s->pause = PAUSE_SECONDS;
	s->apart.options = options->talk;
	s->apart.options.path = options->lead;
	s->apart.options.check = lead_client_check;
	map_even(&s->map, options->count, options->dense_count);
	if (part_clients_new(&s->parts, &s->map, options->width, err) != 0) {
		servers_free(&s->exchange);
		return -1;
	}
	for (uint32_t i = 0; i < options->count; i++) {
		s->path[i] = strdup(options->paths[i]);
		if (!s->path[i]) {
			servers_free(&s->exchange);
			return error_set(err, ERROR_OS, "", "out of memory");
		}
		servers_set_up(s, &s->parts.part[i], i);
	}
	*out = &s->exchange;
	return 0;
}

/* servers: see servers.h. The lead is part 0: it stages its part and is told the rest in one push. */
#include "work/servers.h"

#include "base/clock.h"
#include "base/number.h"
#include "param/map.h"
#include "work/lead_client.h"
#include "work/part_clients.h"

#include <stdlib.h>
#include <string.h>

/* Which part a server is to be. */
struct wanted {
	uint64_t dense;
	uint32_t index, count, width;
};

struct servers {
	struct exchange exchange; /* first */
	struct servers_options options;
	struct map map;
	struct part_clients parts;
	struct wanted *wanted; /* of each part */
};

static struct servers *servers_of(struct exchange *x)
{
	return (struct servers *)(void *)x;
}

static struct conversation *lead_of(struct servers *s)
{
	return &s->parts.part[0].talk;
}

static void servers_free(struct exchange *x)
{
	struct servers *s = servers_of(x);
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
	part_clients_close(&servers_of(x)->parts);
}

static int servers_connected(const struct exchange *x)
{
	return part_clients_connected(&((const struct servers *)(const void *)x)->parts);
}

static void servers_identify(struct exchange *x, uint64_t generation, uint64_t incarnation)
{
	part_clients_identify(&servers_of(x)->parts, generation, incarnation);
}

/* After a rollback all are another life; and where something else is left open, it is for nobody. */
static int end_of(struct servers *s, int result, int open)
{
	if (result == WORK_RESET || (result != WORK_OK && open))
		part_clients_close(&s->parts);
	return result;
}

/* ---- connecting ---- */

static int check_greeting(const struct record *r, const void *wanted, struct error *err)
{
	const struct wanted *w = wanted;
	const char *part = record_get(r, "part");
	uint64_t dense, width;
	char want[48], *end = want;
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

static int servers_connect(struct exchange *x, uint64_t *low, uint64_t *high, struct error *err)
{
	struct servers *s = servers_of(x);
	return part_clients_connect(&s->parts, clock_mono() + s->options.wait_seconds, low, high,
				    err);
}

/* ---- what is told to the lead ---- */

static int servers_join(struct exchange *x, const struct exchange_member *member,
			uint64_t *iteration, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = part_clients_drop_early(&s->parts, HASTY, err);
	if (result == WORK_OK)
		result = lead_client_join(lead_of(s), member, NULL, iteration, err);
	return end_of(s, result, result == WORK_STOP);
}

static int servers_leave(struct exchange *x, int brief, struct error *err)
{
	struct servers *s = servers_of(x);
	if (!lead_of(s)->call)
		return WORK_RESET;
	part_clients_brief(&s->parts, brief);
	int result = part_clients_drop_early(&s->parts, PATIENT, err);
	if (result == WORK_OK)
		result = lead_client_leave(lead_of(s), err);
	part_clients_brief(&s->parts, 0);
	return end_of(s, result, result == WORK_STOP);
}

static int servers_end(struct exchange *x, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = part_clients_drop_early(&s->parts, HASTY, err);
	if (result == WORK_OK)
		result = lead_client_end(lead_of(s), err);
	return end_of(s, result, result == WORK_STOP);
}

/* ---- a batch ---- */

static int servers_pull(struct exchange *x, uint64_t iteration, const struct batch *b,
			struct exchange_values *values, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = part_clients_pull(&s->parts, iteration, b, values, err);
	/* answers of the other parts may still come */
	return end_of(s, result, result == WORK_FENCED || result == WORK_STOP);
}

static int push_to(struct servers *s, uint32_t i, const struct exchange_push *push,
		   const struct batch *b, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&s->parts.part[i].talk, &o, line, "push");
	lead_client_add_push(&o, push, b);
	if (i == 0)
		lead_client_add_report(&o, push);
	return part_clients_push(&s->parts, i, &o, b, err);
}

/* Stages at the others, then tells the lead. */
static int servers_push(struct exchange *x, const struct exchange_push *push,
			const struct batch *b, const struct batch *next, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = WORK_OK;
	for (uint32_t i = 1; i < s->parts.count && result == WORK_OK; i++)
		result = push_to(s, i, push, b, err);
	for (uint32_t i = 1; i < s->parts.count && result == WORK_OK; i++)
		result = conversation_answer(&s->parts.part[i].talk, PATIENT, err);
	if (result == WORK_OK)
		result = push_to(s, 0, push, b, err);
	if (result == WORK_OK)
		result = part_clients_ask_early(&s->parts, push, b, next, err);
	return end_of(s, result,
		      result == WORK_FENCED || result == WORK_STOP || s->parts.early);
}

static int servers_wait(struct exchange *x, uint64_t *iteration, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = lead_client_wait(lead_of(s), iteration, err);
	/* No server can say when it would answer what was sent early. */
	if (result == WORK_OK)
		result = part_clients_check_early(&s->parts, *iteration);
	return end_of(s, result, result == WORK_STOP || s->parts.early);
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
	if (s)
		s->wanted = calloc(options->count, sizeof(*s->wanted));
	if (!s || !s->wanted) {
		free(s);
		return error_set(err, ERROR_OS, "", "out of memory");
	}
	s->exchange.kind = &servers_kind;
	s->options = *options;
	map_even(&s->map, options->count, options->dense_count);
	if (part_clients_new(&s->parts, &s->map, options->width, err) != 0) {
		servers_free(&s->exchange);
		return -1;
	}
	for (uint32_t i = 0; i < options->count; i++) {
		struct part_client *p = &s->parts.part[i];
		p->key_count = options->key_count;
		s->wanted[i] = (struct wanted){p->dense_count, i, options->count, options->width};
		p->talk.options =
			(struct conversation_options){.path = options->paths[i],
						      .worker = options->worker,
						      .wait_seconds = options->wait_seconds,
						      .answer_seconds = options->answer_seconds,
						      .stop = options->stop,
						      .check = check_greeting,
						      .wanted = &s->wanted[i],
						      .action = options->action,
						      .owner = options->owner};
	}
	*out = &s->exchange;
	return 0;
}

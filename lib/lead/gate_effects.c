/*
 * The gate's queue of effects, and small text: ranges, sync modes.
 *
 * A queue that can't grow marks the gate as failed: an effect that is lost is a member who waits
 * for ever, so the owner must end.
 */
#include "lead/gate_internal.h"

#include "base/grow.h"
#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void effect_free(struct gate *g, struct gate_effect *e)
{
	if (!e)
		return;
	free(e->actions);
	free(e->line);
	free(e->push);
	free(e->to);
	free(e->member);
	pool_give(&g->effect, e);
}

static struct gate_effect *effect_new(struct gate *g)
{
	struct gate_effect *e = pool_take(&g->effect);

	if (e)
		*e = (struct gate_effect){0};
	else
		g->failed = 1;
	return e;
}

static struct queued *effect_queue(struct gate *g)
{
	if (GROW(g->queue, g->queue_max, g->queued + 1) == 0)
		return &g->queue[g->queued++];
	g->failed = 1;
	return NULL;
}

struct gate_effect *effect_add(struct gate *g, enum gate_effect_kind kind)
{
	struct gate_effect *e = effect_new(g);
	struct queued *q = e ? effect_queue(g) : NULL;

	if (!q) {
		effect_free(g, e);
		return NULL;
	}
	e->kind = kind;
	*q = (struct queued){.effect = e};
	g->wholes++;
	return e;
}

struct gate_effect *effect_last(const struct gate *g)
{
	const struct queued *q = g->queued ? &g->queue[g->queued - 1] : NULL;

	return q && !q->word ? q->effect : NULL;
}

static struct gate_effect *effect_add_ok(struct gate *g, uint64_t token, char *actions)
{
	struct gate_effect *e = effect_add(g, GATE_ANSWER);

	if (!e) {
		free(actions);
		return NULL;
	}
	e->token = token;
	e->ok = 1;
	e->actions = actions;
	return e;
}

void effect_done(struct gate *g, uint64_t token, char *actions, const char *word)
{
	struct queued *q = effect_queue(g);

	if (q)
		*q = (struct queued){.actions = actions, .token = token, .iteration = g->applied, .word = word};
	else
		free(actions);
}

void effect_ok(struct gate *g, uint64_t token, char *actions, const char *fmt, ...)
{
	struct gate_effect *e = effect_add_ok(g, token, actions);
	va_list ap;

	if (!e)
		return;
	va_start(ap, fmt);
	vsnprintf(e->fields, sizeof e->fields, fmt, ap);
	va_end(ap);
}

void effect_err(struct gate *g, uint64_t token, const char *code, const char *fmt, ...)
{
	struct gate_effect *e = effect_add(g, GATE_ANSWER);
	va_list ap;

	if (!e)
		return;
	e->token = token;
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->fields, sizeof e->fields, fmt, ap);
	va_end(ap);
}

void effect_name(struct gate *g, enum gate_effect_kind kind, const char *worker,
		 uint64_t generation, uint64_t sequence)
{
	struct gate_effect *e = effect_add(g, kind);

	if (!e)
		return;
	e->worker = worker;
	e->generation = generation;
	e->sequence = sequence;
}

/* The answers to all pushes of a unit have the same fields, which are written once. */
static struct gate_effect *effect_write_done(struct gate *g, const struct queued *q)
{
	struct gate_effect *e = &g->done;

	if (g->done_word != q->word || e->iteration != q->iteration) {
		char *at = stpcpy(e->fields, "iteration=");
		at += number_format_u64(q->iteration, at);
		stpcpy(stpcpy(stpcpy(at, " "), q->word), "=1");
	}
	g->done_word = q->word;
	e->kind = GATE_ANSWER;
	e->ok = 1;
	e->token = q->token;
	e->iteration = q->iteration;
	e->actions = q->actions;
	return e;
}

/* It was carried out, or will not be. */
static void effect_end(struct gate *g, const struct queued *q)
{
	if (q->word)
		free(q->actions);
	else
		effect_free(g, q->effect);
}

const struct gate_effect *gate_next(struct gate *g)
{
	/* An effect may be missing: an answer behind it would tell what was not done. */
	if (g->failed)
		return NULL;
	if (g->queue_next > 0)
		effect_end(g, &g->queue[g->queue_next - 1]);
	if (g->queue_next == g->queued) {
		g->queued = g->queue_next = 0;
		return NULL;
	}
	const struct queued *q = &g->queue[g->queue_next++];
	if (q->word)
		return effect_write_done(g, q);
	g->wholes--;
	return q->effect;
}

int gate_rests(const struct gate *g)
{
	return !g->failed && g->queue_next == g->queued;
}

size_t gate_only_answers(const struct gate *g)
{
	return g->wholes == 0 ? g->queued - g->queue_next : 0;
}

uint64_t gate_ahead(const struct gate *g, size_t count)
{
	size_t i = g->queue_next + count;
	return i > 0 && i <= g->queued && g->queue[i - 1].word ? g->queue[i - 1].token : 0;
}

void effects_free(struct gate *g)
{
	for (size_t i = g->queue_next > 0 ? g->queue_next - 1 : 0; i < g->queued; i++)
		effect_end(g, &g->queue[i]);
	free(g->queue);
	pool_free(&g->effect);
}

int gate_failed(const struct gate *g)
{
	return g->failed;
}

/* ---- text ---- */

int gate_sync_parse(const char *text, enum gate_sync *sync, uint64_t *staleness, struct error *err)
{
	*staleness = 0;
	if (strcmp(text, "bsp") == 0)
		*sync = GATE_BSP;
	else if (strcmp(text, "asp") == 0)
		*sync = GATE_ASP;
	else if (strncmp(text, "ssp:", 4) == 0) {
		*sync = GATE_SSP;
		if (number_u64(text + 4, 0, UINT32_MAX, staleness, "sync", err) != 0) {
			if (err)
				err->code = ERROR_USAGE;
			return -1;
		}
	} else
		return error_set(err, ERROR_USAGE, "sync", "%s is none of bsp, ssp:S, asp", text);
	return 0;
}

/* One number of a range, up to `end`; returns what follows it. */
static const char *range_number(const char *at, char end, uint64_t *out)
{
	const char *stop = strchr(at, end);
	size_t len = stop ? (size_t)(stop - at) : strlen(at);

	if ((end == ':' && !stop) || number_u64_span(at, len, out) != 0)
		return NULL;
	return at + len + (stop ? 1 : 0);
}

int gate_ranges_parse(const char *text, struct gate_range *range, size_t *ranges, struct error *err)
{
	const char *at = text;

	*ranges = 0;
	while (*at) {
		struct gate_range r = {0, 0, 0};
		uint64_t end;
		const char *piece = at;
		if (*ranges == GATE_RANGES_MAX)
			return error_set(err, ERROR_DATA, "ranges", "more than %d",
					 GATE_RANGES_MAX);
		if (!(at = range_number(at, ':', &r.id)) ||
		    !(at = range_number(at, ':', &r.begin)) ||
		    !(at = range_number(at, ',', &r.length)) || r.length == 0 ||
		    __builtin_add_overflow(r.begin, r.length, &end) || (!*at && at[-1] == ','))
			return error_set(err, ERROR_DATA, "ranges", "bad piece at %.40s", piece);
		range[(*ranges)++] = r;
	}
	return 0;
}

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

static void effect_clear(struct gate_effect *e)
{
	free(e->actions);
	e->actions = NULL;
	if (e->kind == GATE_ANSWER)
		return;
	free(e->line);
	free(e->push);
	free(e->to);
	free(e->member);
	e->to = NULL;
	e->member = NULL;
	e->line = NULL;
	e->push = NULL;
}

struct gate_effect *effect_add(struct gate *g, enum gate_effect_kind kind)
{
	if (GROW(g->effect, g->effects_max, g->effects + 1) != 0) {
		g->failed = 1;
		return NULL;
	}
	struct gate_effect *e = &g->effect[g->effects++];
	memset(e, 0, offsetof(struct gate_effect, fields));
	e->fields[0] = '\0';
	if (kind != GATE_ANSWER)
		memset(&e->number, 0, sizeof *e - offsetof(struct gate_effect, number));
	e->kind = kind;
	return e;
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

/* What all pushes of a unit are told is written once. */
static void effect_write_done(struct gate *g, const char *word)
{
	char *at = stpcpy(g->done.text, "iteration=");

	at += number_format_u64(g->applied, at);
	at = stpcpy(stpcpy(stpcpy(at, " "), word), "=1");
	g->done.len = (size_t)(at - g->done.text);
	g->done.applied = g->applied;
	g->done.word = word;
}

void effect_done(struct gate *g, uint64_t token, char *actions, const char *word, const char *more)
{
	struct gate_effect *e = effect_add_ok(g, token, actions);

	if (!e)
		return;
	if (g->done.word != word || g->done.applied != g->applied)
		effect_write_done(g, word);
	memcpy(e->fields, g->done.text, g->done.len + 1);
	if (*more)
		snprintf(e->fields + g->done.len, sizeof e->fields - g->done.len, "%s", more);
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

const struct gate_effect *gate_next(struct gate *g)
{
	/* An effect may be missing: an answer behind it would tell what was not done. */
	if (g->failed)
		return NULL;
	if (g->effect_next > 0)
		effect_clear(&g->effect[g->effect_next - 1]);
	if (g->effect_next == g->effects) {
		g->effects = g->effect_next = 0;
		return NULL;
	}
	return &g->effect[g->effect_next++];
}

const struct gate_effect *gate_ahead(const struct gate *g, size_t count)
{
	size_t i = g->effect_next + count;
	return i > 0 && i <= g->effects ? &g->effect[i - 1] : NULL;
}

void effects_free(struct gate *g)
{
	for (size_t i = 0; i < g->effects; i++)
		effect_clear(&g->effect[i]);
	free(g->effect);
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

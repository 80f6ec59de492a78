/*
 * schedule: see schedule.h.  Random numbers are Philox4x32-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", 2011): a draw is a function of seed, pattern, node and period, so
 * that nothing has to be drawn in order, and a node more changes nothing for the others.
 */
#include "straggle/schedule_internal.h"

#include "base/grow.h"

#include <Random123/philox.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t schedule_draw(const struct schedule *s, enum schedule_draw what, uint32_t pattern,
		       size_t node, uint64_t turn)
{
	philox4x32_ctr_t counter = {{(uint32_t)turn, (uint32_t)(turn >> 32), (uint32_t)node,
				     pattern << 4 | (uint32_t)what}};
	philox4x32_key_t key = {{(uint32_t)s->options.seed, (uint32_t)(s->options.seed >> 32)}};
	philox4x32_ctr_t bits = philox4x32(counter, key);
	return (uint64_t)bits.v[1] << 32 | bits.v[0];
}

int schedule_new(struct schedule **out, const struct schedule_options *options, struct error *err)
{
	struct schedule *s = calloc(1, sizeof *s);
	if (!s)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->options = *options;
	s->nodes = options->workers + options->servers;
	*out = s;
	return 0;
}

void schedule_free(struct schedule *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->patterns; i++)
		pattern_free(&s->pattern[i]);
	free(s->pattern);
	free(s->slot);
	free(s);
}

/* ---- slots ---- */

static int add_slot(struct schedule *s, size_t node, int64_t life, struct error *err)
{
	if (GROW(s->slot, s->slot_room, s->slots + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu nodes", s->slots + 1);
	s->slot[s->slots++] = (struct schedule_slot){s->options.node[node], life, node};
	return 0;
}

static int by_node_and_life(const void *a, const void *b)
{
	const struct schedule_slot *x = a, *y = b;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->life < y->life ? -1 : x->life > y->life;
}

/* Slots are sorted. */
static void drop_doubles(struct schedule *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->slots; i++)
		if (kept == 0 || by_node_and_life(&s->slot[kept - 1], &s->slot[i]) != 0)
			s->slot[kept++] = s->slot[i];
	s->slots = kept;
}

static int add_slots(struct schedule *s, const struct pattern *p, struct error *err)
{
	const struct trace *t = &p->trace;
	for (size_t i = 0; p->kind != PATTERN_REPLAY && i < p->count; i++)
		if (add_slot(s, p->chosen[i], p->life, err) != 0)
			return -1;
	for (size_t i = 0; i < t->count; i++) {
		const struct trace_point *now = &t->point[i], *before = now - (i > 0);
		if ((i == 0 || before->node != now->node || before->life != now->life) &&
		    add_slot(s, now->node, now->life, err) != 0)
			return -1;
	}
	if (s->slots)
		qsort(s->slot, s->slots, sizeof *s->slot, by_node_and_life);
	drop_doubles(s);
	return 0;
}

int schedule_add(struct schedule *s, char *const *words, size_t count, struct error *err)
{
	if (GROW(s->pattern, s->pattern_room, s->patterns + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for a pattern");
	struct pattern *p = &s->pattern[s->patterns];
	*p = (struct pattern){.number = (uint32_t)s->patterns};
	if (pattern_parse(s, p, words, count, err) != 0) {
		pattern_free(p);
		return -1;
	}
	s->patterns++;
	return add_slots(s, p, err);
}

size_t schedule_words(char *const *words, size_t count)
{
	size_t n = count > 0;
	while (n < count && strchr(words[n], '='))
		n++;
	return n;
}

size_t schedule_slots(const struct schedule *s)
{
	return s->slots;
}

const struct schedule_slot *schedule_slot(const struct schedule *s, size_t slot)
{
	return &s->slot[slot];
}

/* ---- time ---- */

/* The period that t lies in: the division may miss it by one. */
static double period_of(const struct pattern *p, double t)
{
	double k = floor((t - p->from) / p->every);
	while (p->from + (k + 1) * p->every <= t)
		k++;
	while (k > 0 && p->from + k * p->every > t)
		k--;
	return k;
}

static int drawn(const struct schedule *s, const struct pattern *p, size_t node, double t)
{
	double k = period_of(p, t);
	if (t >= p->from + k * p->every + p->on)
		return 0;
	uint64_t bits = schedule_draw(s, DRAW_PERIOD, p->number, node, (uint64_t)k);
	return (double)(bits >> 11) * 0x1p-53 < p->p;
}

static void schedule_put_device(struct drag *d, const struct drag *device, double speed)
{
	double delay = d->delay;
	*d = *device;
	d->delay = delay;
	d->speed = speed;
}

static void add_delay(struct drag *d, double delay)
{
	d->delay = fmin(d->delay + delay, DRAG_SECONDS_MAX);
}

/* Records say what is in a file: of a node's one life they say all, if they say anything. */
static void put_trace(const struct pattern *p, const struct schedule_slot *slot, double t,
		      struct schedule_state *out)
{
	struct schedule_state got = {.slowdown = 1};
	if (!trace_at(&p->trace, slot->node, slot->life, t, &got))
		trace_at(&p->trace, slot->node, SCHEDULE_EVERY_LIFE, t, &got);
	if (!got.on)
		return;
	out->on = 1;
	out->slowdown *= got.slowdown;
	if (got.drag.speed > 0 || got.drag.memory > 0 || got.drag.type[0])
		schedule_put_device(&out->drag, &got.drag, got.drag.speed);
	add_delay(&out->drag, got.drag.delay);
}

static void put_pattern(const struct schedule *s, const struct pattern *p,
			const struct schedule_slot *slot, double t, struct schedule_state *out)
{
	if (p->kind == PATTERN_REPLAY) {
		put_trace(p, slot, t, out);
		return;
	}
	size_t place = p->place[slot->node];
	if (!place || (p->life != SCHEDULE_EVERY_LIFE && p->life != slot->life) || t < p->from ||
	    t >= p->until || (p->kind == PATTERN_TRANSIENT && !drawn(s, p, slot->node, t)))
		return;
	out->on = 1;
	out->slowdown *= p->slowdown;
	if (p->kind == PATTERN_DEVICE)
		schedule_put_device(&out->drag, &p->device, p->speed ? p->speed[place - 1] : 0);
	add_delay(&out->drag, p->delay);
}

void schedule_at(const struct schedule *s, size_t slot, double t, struct schedule_state *out)
{
	*out = (struct schedule_state){.slowdown = 1};
	for (size_t i = 0; i < s->patterns; i++)
		put_pattern(s, &s->pattern[i], &s->slot[slot], t, out);
}

static double next_of(const struct pattern *p, double t)
{
	if (p->kind == PATTERN_REPLAY)
		return trace_next(&p->trace, t);
	if (t < p->from)
		return p->from;
	if (t >= p->until)
		return INFINITY;
	if (p->kind != PATTERN_TRANSIENT)
		return p->until;
	double begin = p->from + period_of(p, t) * p->every;
	double next = t < begin + p->on ? begin + p->on : INFINITY;
	/* not begin + every: the same sum as in period_of(), or the moments would differ */
	double period = p->from + (period_of(p, t) + 1) * p->every;
	return fmin(fmin(next, period), p->until);
}

double schedule_next(const struct schedule *s, double t)
{
	double next = INFINITY;
	for (size_t i = 0; i < s->patterns; i++)
		next = fmin(next, next_of(&s->pattern[i], t));
	return next;
}

int schedule_endless(const struct schedule *s)
{
	for (size_t i = 0; i < s->patterns; i++)
		if (s->pattern[i].kind == PATTERN_TRANSIENT && isinf(s->pattern[i].until))
			return 1;
	return 0;
}

int schedule_same(const struct schedule_state *a, const struct schedule_state *b)
{
	const struct drag *x = &a->drag, *y = &b->drag;
	return a->on == b->on && a->slowdown == b->slowdown && x->delay == y->delay &&
	       x->speed == y->speed && x->launch == y->launch && x->saturation == y->saturation &&
	       x->memory == y->memory && strcmp(x->type, y->type) == 0;
}

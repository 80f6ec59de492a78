/*
 * Units: staged pushes are applied, and this server's own batch processing time is measured.  A
 * drag file slows the server down for experiments: it sleeps, and all its clients wait, as they
 * would for a slow server.
 */
#include "ps/behind.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"
#include "record/record.h"

#include <math.h>
#include <sys/resource.h>
#include <time.h>

#define EARLY_UNITS 8 /* first reports after 1, 2, 4 and 8 units */

/* ---- reports ---- */

/* Whether a report is due: after so many units or seconds; earlier at first, when nothing is known
 * about this server yet. */
static int report_due(const struct ps *p)
{
	const struct ps_options *o = &p->options;
	int early = p->units <= EARLY_UNITS && (p->units & (p->units - 1)) == 0;

	return p->report_units &&
	       (early || p->report_units >= o->report_every ||
		(o->report_seconds > 0.0 && clock_mono() - p->reported >= o->report_seconds));
}

/* Adds how many cores this process kept busy since the last report, how often its quota stopped it, and
 * the most memory that it has had. */
static void add_own(struct ps *p, struct record_out *o)
{
	const struct drag *drag = drag_look(&p->drag);
	struct timespec cpu;
	struct rusage use;
	double seconds = clock_mono() - p->reported;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0 && seconds > 0) {
		double spent = (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9;
		double cores = (spent - p->reported_cpu) / seconds;
		if (drag->cores > 0)
			cores = drag->cores * p->report_seconds / seconds;
		record_add_brief(o, "own-cpu", cores);
		p->reported_cpu = spent;
	}
	double throttled = p->options.throttled ? p->options.throttled(p->options.throttled_owner) : NAN;
	if (!isnan(throttled))
		record_add_brief(o, "throttled", throttled);
	if (getrusage(RUSAGE_SELF, &use) == 0)
		record_add_brief(o, "own-mem", (double)use.ru_maxrss * 1024);
}

static void apply_report(struct ps *p)
{
	double units = (double)p->report_units;

	if (!p->monitor || !report_due(p))
		return;
	struct record_out *o =
		RECORD("bpt", F("role", "server"), F("id", p->options.id), F("iter", p->applied),
		       F_SECONDS("time", p->report_seconds / units),
		       F("size", (uint64_t)((double)p->report_samples / units + 0.5)),
		       F_SECONDS("at", clock_epoch()), F("count", p->report_units));
	add_own(p, o);
	size_t len = record_end(o, NULL);
	/* No answer is waited for: training does not depend on a monitor. */
	(void)peer_send(p->monitor, o->data, len, NULL, 0, NULL, NULL);
	p->report_seconds = 0.0;
	p->report_samples = p->report_units = 0;
	p->reported = clock_mono();
}

/* ---- applying ---- */

int ps_unit_reserve(struct ps *p, size_t pushes, struct error *err)
{
	size_t room = p->unit_room;

	if (GROW(p->unit, room, pushes) != 0 || GROW(p->unit_from, p->unit_room, pushes) != 0)
		return error_set(err, ERROR_OS, "apply", "out of memory");
	return 0;
}

void ps_unit_put(struct ps *p, size_t i, const struct order_push *name, const struct staged *s)
{
	p->unit[i] = s->push;
	if (name->size)
		p->unit[i].size = name->size;
	p->unit[i].delay = name->delay;
	p->unit[i].scale = name->scale;
	p->unit_from[i] = s;
}

/* Reports that values were held at a bound, with the push that most likely caused it. */
static void apply_tell_bounded(struct ps *p, size_t n, uint64_t held)
{
	p->bounded += held;
	if (!log_is_worth(++p->bounded_units))
		return;
	log_say(LOG_LEVEL_WARNING,
		"iteration %llu: %llu values were held at a bound, %llu so far in %llu iterations; "
		"the largest gradients are those of %s",
		(unsigned long long)p->applied, (unsigned long long)held,
		(unsigned long long)p->bounded, (unsigned long long)p->bounded_units,
		p->unit_from[store_largest(p->store, p->unit, n)]->worker);
}

int ps_unit_apply(struct ps *p, size_t n, struct error *err)
{
	uint64_t held = store_held(p->store);

	if (p->options.naive_mean)
		store_naive_mean(p->unit, n);
	if (!p->options.bsp)
		store_group(p->store, p->unit, n);
	if (n && store_apply(p->store, p->unit, n, err) != 0)
		return -1;
	held = store_held(p->store) - held;
	if (held)
		apply_tell_bounded(p, n, held);
	return 0;
}

void ps_unit_applied(struct ps *p, uint64_t samples)
{
	double slow;

	p->applied++;
	heat_unit(&p->heat);
	slow = drag_pause(drag_look(&p->drag), samples, samples, p->work);
	if (slow > 0.0)
		clock_sleep(slow);
	p->report_seconds += p->work + slow;
	p->report_samples += samples;
	p->report_units++;
	p->units++;
	p->reached[p->applied % PS_REACHED] = clock_mono();
	p->work = 0.0;
}

static int apply_unit(struct ps *p, const struct order_push *push, size_t pushes, size_t *missing,
		      struct error *err)
{
	double start = clock_mono();
	uint64_t samples = 0;
	size_t n = 0;

	for (size_t i = 0; i < pushes; i++) {
		struct staged *s =
			stage_find(p->stage, push[i].worker, push[i].generation, push[i].sequence);
		if (!s) {
			log_say(LOG_LEVEL_ERROR, "committed, but not staged here: %s %llu %llu",
				push[i].worker, (unsigned long long)push[i].generation,
				(unsigned long long)push[i].sequence);
			(*missing)++;
			continue;
		}
		ps_unit_put(p, n++, &push[i], s);
		samples += s->push.count;
	}
	if (ps_unit_apply(p, n, err) != 0)
		return -1;
	for (size_t i = 0; i < pushes; i++)
		stage_drop(p->stage, push[i].worker, push[i].generation, push[i].sequence);
	p->work += clock_mono() - start;
	ps_unit_applied(p, samples);
	return 0;
}

void ps_units_applied(struct ps *p)
{
	if (p->options.bsp) /* pushes that are late for these units are dropped */
		stage_drop_before(p->stage, p->applied);
	apply_report(p);
	/* Answers about this unit go first, then parameters, for one worker after the other: nobody
	 * waits until parameters were copied for all. */
	ps_waits_run(p);
}

int ps_apply(struct ps *p, const struct order *o, size_t *missing, struct error *err)
{
	const struct order_push *push = o->push;
	size_t at = 0;

	int later = behind_holds_up(p, o);

	*missing = 0;
	if (ps_unit_reserve(p, o->pushes, err) != 0)
		goto broken;
	for (uint64_t unit = 0; unit < o->units; unit++) {
		size_t n = 0;
		while (at + n < o->pushes && push[at + n].unit == unit)
			n++;
		/* A unit without pushes may have no array. */
		const struct order_push *first = n > 0 ? push + at : NULL;
		if ((later ? behind_add(p, first, n, missing, err)
			   : apply_unit(p, first, n, missing, err)) != 0)
			goto broken;
		at += n;
	}
	if (later)
		behind_run(p); /* it may lack nothing, and only be late */
	ps_units_applied(p);
	return 0;
broken:
	/* The unit is committed, but not in the parameters: only a rollback can mend this. */
	ps_break(p, err);
	return -1;
}

/*
 * How fast the trainer is, and what fits its memory: for the lead, which sets sizes (LB-BSP), and
 * for bpt-monitor(8).  Where the device is to be measured, the first batches are of several sizes
 * (meter/gauge.h).
 *
 * A trainer may say how much work a batch was (tokens, for example).  Then the time of the batch
 * counts as if its rows had been like the mean row so far: rows that are long by chance make no
 * straggler.
 */
#include "agent/agent_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "monitor/node.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#define SECONDS_MAX 1e9
#define WORK_MAX 1e15

int agent_speed_start(struct agent *a, struct error *err)
{
	const struct speed_options *o = a->options.speed;
	return o ? speed_new(&a->pace.speed, o, err) : 0;
}

void agent_speed_free(struct agent *a)
{
	speed_keep(a->pace.speed, NAN);
	speed_free(a->pace.speed);
}

void agent_speed_device(struct agent *a, const char *name)
{
	struct device_file keep = {.path = a->options.device_file};
	if (a->pace.is_named)
		return;
	a->pace.is_named = 1;
	a->pace.is_card = name != NULL;
	for (char *const *word = a->options.command.argv; *word; word++)
		keep.model = XXH3_64bits_withSeed(*word, strlen(*word), keep.model);
	if (!meter_device_kept(a->meter, name, &keep, NODE_BATCH_MAX) && a->options.profile > 0)
		gauge_begin(&a->pace.gauge, a->options.batch, a->options.profile);
}

/* A size that is known not to fit ends the measuring. At its end, takes what was measured. */
static void speed_end_gauge(struct agent *a, double level)
{
	struct gauge *g = &a->pace.gauge;
	struct device d = {.max = 0};
	uint64_t most = meter_most(a->meter) > 0 ? meter_most(a->meter) : NODE_BATCH_MAX;
	if (gauge_size(g) > most)
		gauge_end(g);
	if (gauge_size(g) > 0 || g->count == 0)
		return;
	if (gauge_fit(g, level, most, &d) == 0)
		meter_device_is(a->meter, &d);
	else
		log_say(LOG_LEVEL_WARNING,
			"%s: its device is not measured: too few sizes of batches fit",
			a->options.meter.id);
	*g = (struct gauge){.count = 0};
}

static void speed_gauge(struct agent *a, double told)
{
	struct pace *p = &a->pace;
	p->gauged = gauge_size(&p->gauge) > 0;
	if (!p->gauged)
		return;
	gauge_take(&p->gauge, a->none ? 0 : a->cut.rows, a->push.time, told);
	speed_end_gauge(a, p->is_card ? told : a->push.mem);
}

static void note_held(struct agent *a)
{
	uint64_t rows = a->none ? 0 : a->cut.rows, steps = agent_speed_accum(a, rows);
	if (!a->pace.was_full && rows / steps > a->pace.held)
		a->pace.held = rows / steps;
	a->pace.was_full = 0;
}

int agent_speed_step(struct agent *a, struct error *why)
{
	struct exchange_push *push = &a->push;
	struct pace *p = &a->pace;
	double work = 0, rows = a->none ? 0 : (double)a->cut.rows;
	if (record_real_opt(&a->record, "time", 0, SECONDS_MAX, &push->time, why) != 0 ||
	    record_real_opt(&a->record, "mem", 0, 1, &push->mem, why) != 0 ||
	    record_real_opt(&a->record, "work", 0, WORK_MAX, &work, why) != 0)
		return -1;
	double told = push->mem;
	p->took = push->time;
	if (rows > 0 && work > 0) {
		p->work += work;
		p->rows += rows;
		push->time = fmin(push->time * (p->work / p->rows * rows / work), SECONDS_MAX);
	}
	/* A batch that is shorter than planned says nothing about the speed, nor does one by which
	 * the device is measured. */
	int is_whole = a->cut.rows >= push->size && gauge_size(&p->gauge) == 0;
	speed_foretell(p->speed, a->meter, is_whole ? (uint64_t)rows : 0, push);
	note_held(a);
	speed_gauge(a, told);
	push->most = meter_most(a->meter);
	return 0;
}

uint64_t agent_speed_accum(const struct agent *a, uint64_t rows)
{
	uint64_t most = meter_most(a->meter), steps = 1;
	if (gauge_size(&a->pace.gauge) == 0)
		steps = a->actions.accum;
	if (most > 0 && rows > most * steps)
		steps = rows / most + (rows % most > 0);
	return steps;
}

/* If one between the two has fitted before, that one is the most. */
void agent_speed_fits(struct agent *a, uint64_t rows)
{
	a->pace.was_full = 1;
	if (a->pace.held > rows && (a->pace.held + 1) / 2 < rows)
		rows = a->pace.held;
	a->pace.held = rows;
	if (meter_most(a->meter) > 0 && rows >= meter_most(a->meter))
		return;
	log_say(LOG_LEVEL_WARNING,
		"the memory of %s is full: more than %llu rows are computed in parts",
		a->options.meter.id, (unsigned long long)rows);
	meter_fits(a->meter, rows);
	speed_end_gauge(a, 0); /* what fits is known, whatever is in use */
}

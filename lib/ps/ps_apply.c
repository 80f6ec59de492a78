/*
 * Units: applying staged pushes, answering those who waited for it, and this server's own batch
 * processing time.  A drag file slows the server down for experiments: it sleeps, and so does
 * everything it serves, which is what a slow server is.
 */
#include "ps/ps_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "record/record.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX OPT_SOURCES_MAX
#define ANSWER_BYTES ((size_t)256 << 10) /* of parameters that are copied in one turn */
#define EARLY_UNITS 8 /* reports at 1, 2, 4, 8 */

/* ---- reports ---- */

/* After so many units or seconds; and early at first, when nothing is known of this server yet. */
static int report_due(const struct ps *p)
{
	const struct ps_options *o = &p->options;
	int early = p->units <= EARLY_UNITS && (p->units & (p->units - 1)) == 0;

	return p->report_units && (early || p->report_units >= o->report_every ||
				   (o->report_seconds > 0.0 &&
				    clock_mono() - p->reported >= o->report_seconds));
}

static void report(struct ps *p)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	double units = (double)p->report_units;

	if (!p->monitor || !report_due(p))
		return;
	record_begin(&o, line, sizeof line, "bpt");
	record_add(&o, "role", "server");
	record_add(&o, "id", p->options.id);
	record_add_u64(&o, "iter", p->applied);
	record_add_seconds(&o, "time", p->report_seconds / units);
	record_add_u64(&o, "size", (uint64_t)((double)p->report_samples / units + 0.5));
	record_add_seconds(&o, "at", clock_epoch());
	record_add_u64(&o, "count", p->report_units);
	size_t len = record_end(&o, NULL);
	/* Fire and forget: training does not wait for a monitor. */
	(void)peer_send(p->monitor, line, len, NULL, 0, NULL, NULL);
	p->report_seconds = 0.0;
	p->report_samples = p->report_units = 0;
	p->reported = clock_mono();
}

/* ---- those who waited ---- */

/* Those whose iteration is here, as long as what they pull is no more than room bytes together; the
 * first one too when it is more, if `any`. The rest has its turn when these answers have gone. */
static void waits_run(struct ps *p, size_t room, int any)
{
	struct timeval next_turn = {0, 0};
	double start = clock_mono();

	for (struct ps_wait *w = p->waits, *next; w; w = next) {
		size_t bytes = w->push ? 0 : ps_pull_bytes(p, &w->pull);
		next = w->next;
		if (w->iteration > p->applied)
			continue;
		if (bytes > room && !any) {
			event_add(p->answer, &next_turn);
			break;
		}
		room -= bytes < room ? bytes : room;
		any = 0;
		ps_answer_wait(w);
	}
	p->work += clock_mono() - start;
}

static void on_answer(evutil_socket_t fd, short what, void *ps)
{
	(void)fd;
	(void)what;
	waits_run(ps, ANSWER_BYTES, 1);
}

int ps_waits_start(struct ps *p, struct error *err)
{
	p->answer = evtimer_new(server_base(p->server), on_answer, p);
	return p->answer ? 0 : error_set(err, ERROR_OS, "ps", "out of memory");
}

void ps_waits_stop(struct ps *p)
{
	if (p->answer)
		event_free(p->answer);
	p->answer = NULL;
}

/* ---- applying ---- */

static int unit_reserve(struct ps *p, size_t parts, struct error *err)
{
	if (parts <= p->unit_max)
		return 0;
	free(p->unit);
	p->unit = calloc(parts, sizeof *p->unit);
	p->unit_max = p->unit ? parts : 0;
	return p->unit ? 0 : error_set(err, ERROR_OS, "apply", "no memory");
}

/* What was committed is applied, but no value that is not finite comes of it. It is told, with the
 * push that most likely did it. */
static void tell_bounded(struct ps *p, const struct ps_part *part, size_t n, uint64_t held)
{
	p->bounded += held;
	if (!ps_tell(++p->bounded_units))
		return;
	log_say(LOG_LEVEL_WARNING,
		"iteration %llu: %llu values were held at a bound, %llu so far in %llu iterations; "
		"the largest gradients are those of %s",
		(unsigned long long)p->applied, (unsigned long long)held,
		(unsigned long long)p->bounded, (unsigned long long)p->bounded_units,
		part[store_largest(p->store, p->unit, n)].worker);
}

/* One unit of `parts` parts. */
static int apply_unit(struct ps *p, const struct ps_part *part, size_t parts, size_t *missing,
		      struct error *err)
{
	double start = clock_mono(), slow;
	uint64_t samples = 0, held = store_held(p->store);
	size_t n = 0;

	for (size_t i = 0; i < parts; i++) {
		struct staged *s =
			stage_find(p->stage, part[i].worker, part[i].generation, part[i].sequence);
		if (!s) {
			log_say(LOG_LEVEL_ERROR, "committed, but not staged here: %s %llu %llu",
				part[i].worker, (unsigned long long)part[i].generation,
				(unsigned long long)part[i].sequence);
			(*missing)++;
			continue;
		}
		p->unit[n] = s->push;
		if (part[i].size)
			p->unit[n].size = part[i].size;
		p->unit[n++].scale = part[i].scale;
		samples += s->push.count;
	}
	if (p->options.naive_mean)
		store_naive_mean(p->unit, n);
	if (n && store_apply(p->store, p->unit, n, err) != 0)
		return -1;
	held = store_held(p->store) - held;
	if (held && n == parts) /* else it ends here anyway, and places are not those of `part` */
		tell_bounded(p, part, n, held);
	for (size_t i = 0; i < parts; i++)
		stage_drop(p->stage, part[i].worker, part[i].generation, part[i].sequence);
	p->applied++;
	p->work += clock_mono() - start;
	slow = drag_pause(drag_look(&p->drag), samples, samples, p->work);
	if (slow > 0.0)
		clock_sleep(slow);
	p->report_seconds += p->work + slow;
	p->report_samples += samples;
	p->report_units++;
	p->units++;
	p->reached[p->applied % PS_REACHED] = clock_mono();
	p->work = 0.0;
	return 0;
}

size_t ps_hold(struct ps *p, const struct ps_part *part, size_t parts,
	       void (*missing)(const struct ps_part *part, void *arg), void *arg)
{
	size_t lacking = 0;

	for (size_t i = 0; i < parts; i++) {
		struct staged *s =
			stage_find(p->stage, part[i].worker, part[i].generation, part[i].sequence);
		if (s && s->push.count == part[i].count) {
			s->held = 1;
			continue;
		}
		lacking++;
		if (missing)
			missing(&part[i], arg);
	}
	return lacking;
}

int ps_apply(struct ps *p, uint64_t units, const struct ps_part *part, size_t parts,
	     size_t *missing, struct error *err)
{
	size_t at = 0;

	*missing = 0;
	if (unit_reserve(p, parts, err) != 0)
		goto broken;
	for (uint64_t unit = 0; unit < units; unit++) {
		size_t n = 0;
		while (at + n < parts && part[at + n].unit == unit)
			n++;
		if (apply_unit(p, part + at, n, missing, err) != 0)
			goto broken;
		at += n;
	}
	if (p->options.bsp) /* what was late for these units is thrown away */
		stage_drop_before(p->stage, p->applied);
	report(p);
	/* What is told of this unit goes first, then parameters, a worker's after the other's: nobody
	 * waits until they have been copied for all. */
	waits_run(p, ANSWER_BYTES, 0);
	return 0;
broken:
	/* Committed, and not in the parameters: only a rollback makes them agree again. */
	ps_break(p, err);
	return -1;
}

/* ---- the lead's requests ---- */

struct lines {
	struct ps_part *part;
	char (*worker)[OPTION_ID_MAX];
	size_t count;
};

static int line_read(struct lines *l, const char *line, size_t len, uint64_t units,
		     struct record *r, struct error *err)
{
	struct ps_part *part = &l->part[l->count];
	const char *worker;

	part->scale = 1.0;
	if (record_parse(r, line, len, err) != 0)
		return -1;
	if (!record_is(r, "part"))
		return error_set(err, ERROR_DATA, NULL, "%.64s is no part", r->type);
	if (record_id(r, "worker", &worker, err) != 0 ||
	    record_u64(r, "generation", 1, UINT64_MAX, &part->generation, err) != 0 ||
	    record_u64(r, "sequence", 0, UINT64_MAX, &part->sequence, err) != 0 ||
	    record_u64(r, "unit", 0, units ? units - 1 : 0, &part->unit, err) != 0 ||
	    record_u64_opt(r, "count", 0, PS_COUNT_MAX, &part->count, err) != 0 ||
	    record_u64_opt(r, "size", 0, PS_COUNT_MAX, &part->size, err) != 0 ||
	    record_real_opt(r, "scale", 0.0, 1e9, &part->scale, err) != 0)
		return -1;
	if (l->count && part->unit < part[-1].unit)
		return error_set(err, ERROR_DATA, NULL, "units out of order");
	snprintf(l->worker[l->count], OPTION_ID_MAX, "%s", worker);
	part->worker = l->worker[l->count];
	l->count++;
	return 0;
}

/* From a copy: in memory that is shared, lines could be more when they are read than when they were
 * counted. */
static int lines_read(struct lines *l, const struct payload *payload, uint64_t units,
		      struct error *err)
{
	struct record *r = malloc(sizeof *r);
	size_t max = 0, len = payload_bytes(payload);
	char *text = malloc(len + 1);
	int rc = 0;

	if (text)
		memcpy(text, payload_data(payload), len);
	for (size_t i = 0; text && i < len; i++)
		max += text[i] == '\n';
	l->part = calloc(max + 1, sizeof *l->part);
	l->worker = calloc(max + 1, sizeof *l->worker);
	if (!r || !text || !l->part || !l->worker || max > LINES_MAX)
		rc = error_set(err, ERROR_OS, NULL, "no memory for %zu parts", max);
	for (size_t at = 0; rc == 0 && at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		if (!end) {
			rc = error_set(err, ERROR_DATA, NULL, "the last line has no end");
			break;
		}
		rc = line_read(l, text + at, (size_t)(end - text) - at, units, r, err);
		at = (size_t)(end - text) + 1;
	}
	free(text);
	free(r);
	return rc;
}

static void put_missing(const struct ps_part *part, void *rq)
{
	char line[512];
	struct record_out o;

	record_begin(&o, line, sizeof line, "missing");
	record_add(&o, "worker", part->worker);
	record_add_u64(&o, "generation", part->generation);
	record_add_u64(&o, "sequence", part->sequence);
	request_put_record(rq, &o);
}

void ps_on_hold(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct payload *payload = request_payload(rq);
	struct lines l = {0};
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (payload && lines_read(&l, payload, LINES_MAX, &err) != 0) {
		request_bad(rq, &err);
	} else {
		(void)ps_hold(p, l.part, l.count, put_missing, rq);
		request_ok(rq, NULL);
	}
	free(l.part);
	free(l.worker);
}

void ps_on_apply(struct request *rq, void *ps)
{
	struct ps *p = ps;
	const struct record *r = request_record(rq);
	struct payload *payload = request_payload(rq);
	struct lines l = {0};
	struct error err = {0};
	uint64_t incarnation, iteration, units;
	size_t missing = 0;

	if (record_u64(r, "incarnation", 0, UINT64_MAX, &incarnation, &err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX - LINES_MAX, &iteration, &err) != 0 ||
	    record_u64(r, "units", 1, LINES_MAX, &units, &err) != 0 ||
	    (incarnation == p->options.incarnation && payload &&
	     lines_read(&l, payload, units, &err) != 0))
		request_bad(rq, &err);
	else if (incarnation != p->options.incarnation)
		request_err(rq, "fenced", "incarnation %llu is in force",
			    (unsigned long long)p->options.incarnation);
	else if (iteration + units <= p->applied) /* the lead asks again: its connection was lost */
		request_ok(rq, "iteration=%llu repeated=1", (unsigned long long)p->applied);
	else if (iteration != p->applied)
		request_err(rq, "order", "%llu units are applied here, not %llu",
			    (unsigned long long)p->applied, (unsigned long long)iteration);
	else if (ps_apply(p, units, l.part, l.count, &missing, &err) != 0)
		request_err(rq, "no-memory", "%s", err.text);
	else if (missing)
		request_err(rq, "not-staged", "%zu parts are committed, but not staged here",
			    missing);
	else
		request_ok(rq, "iteration=%llu", (unsigned long long)p->applied);
	free(l.part);
	free(l.worker);
}

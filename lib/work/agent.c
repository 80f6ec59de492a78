/* agent: see agent.h. Called by the trainer's thread only. */
#include "work/agent.h"

#include "base/clock.h"
#include "base/log.h"
#include "meter/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEWS_SIZE = 1, NEWS_SCALE = 2, NEWS_BARRIER = 4 };

struct agent {
	struct agent_options options;
	struct report *report;
	struct load *load;
	struct foretell *foretell;
	struct tally tally;
	uint64_t size, accum;         /* in force */
	uint64_t new_size, new_accum; /* from the next batch on */
	double scale;                 /* of the learning rate, as last told */
	int news;                     /* NEWS_: told, and not yet obeyed */
	uint64_t iteration;           /* of the last batch */
	uint64_t most;                /* samples of a step that fit, as measured */
};

int agent_new(struct agent **out, const struct agent_options *options, struct error *err)
{
	struct agent *a = calloc(1, sizeof(*a));
	if (!a)
		return error_set(err, ERROR_OS, "", "no memory");
	a->options = *options;
	a->size = a->new_size = options->batch;
	a->accum = a->new_accum = 1;
	tally_start(&a->tally, options->report_every, options->report_seconds, clock_mono());
	struct foretell_options foretell = {.predict = options->predict,
					    .model = options->model,
					    .load = options->predict_load,
					    .save = options->predict_save,
					    .load_root = options->load_root};
	if (foretell_new(&a->foretell, &foretell, err) < 0 ||
	    load_new(&a->load, options->load_root, err) < 0 ||
	    report_new(&a->report, options->monitor, err) < 0) {
		agent_free(a);
		return -1;
	}
	*out = a;
	return 0;
}

void agent_free(struct agent *a)
{
	if (!a)
		return;
	foretell_free(a->foretell);
	load_free(a->load);
	report_free(a->report);
	free(a);
}

uint64_t agent_size(const struct agent *a)
{
	return a->size;
}

uint64_t agent_accum(const struct agent *a)
{
	return a->accum;
}

static void spend(struct agent *a, enum spent_kind kind, double began)
{
	a->options.spent->seconds[kind] += clock_mono() - began;
}

static void log_line(struct agent *a, const char *line, size_t len)
{
	if (len > 0 && a->options.log)
		a->options.log(line, len, a->options.owner);
}

/* ---- actions ---- */

static int read_action(struct agent *a, const struct record *r, struct error *err)
{
	const char *kind = record_get(r, "kind"), *id = record_get(r, "id");
	uint64_t size, accum = 1;
	if (!kind || !id || strcmp(id, a->options.worker) != 0)
		return 0;
	if (strcmp(kind, "adjust-bs") == 0) {
		if (record_u64(r, "size", 1, NODE_BATCH_MAX, &size, err) < 0 ||
		    record_u64_opt(r, "accum", 1, NODE_BATCH_MAX / size, &accum, err) < 0)
			return -1;
		a->new_size = size;
		a->new_accum = accum;
		/* Those of a barrier come and go with each batch: the lead's log has them. */
		a->news |= record_get(r, "barrier") ? NEWS_BARRIER : NEWS_SIZE;
	} else if (strcmp(kind, "adjust-lr") == 0) {
		if (record_real(r, "scale", 0, 1e9, &a->scale, err) < 0)
			return -1;
		a->news |= NEWS_SCALE;
	}
	return 0;
}

void agent_take(struct agent *a, const struct record *r)
{
	struct error err;
	double began = clock_mono();
	if (read_action(a, r, &err) < 0)
		log_say(LOG_LEVEL_WARNING, "an action is not obeyed: %s: %s", err.place, err.text);
	spend(a, SPENT_ACTIONS, began);
}

static void log_applied(struct agent *a, const char *kind, uint64_t iteration)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof(line), "applied");
	record_add(&o, "kind", kind);
	record_add(&o, "id", a->options.worker);
	if (strcmp(kind, "adjust-bs") == 0) {
		record_add_u64(&o, "size", a->size);
		record_add_u64(&o, "accum", a->accum);
	} else {
		record_add_real(&o, "scale", a->scale);
	}
	record_add_u64(&o, "iteration", iteration);
	record_add_seconds(&o, "at", clock_epoch());
	log_line(a, line, record_end(&o, NULL));
}

/* The servers weigh the gradients (adjust-lr); here only the batch changes. */
int agent_obey(struct agent *a, uint64_t iteration)
{
	int news = a->news, changed = a->new_size != a->size || a->new_accum != a->accum;
	if (!news)
		return 0;
	if (changed && (news & NEWS_SIZE)) /* what was measured was about another size */
		agent_report(a);
	double began = clock_mono();
	a->news = 0;
	a->size = a->new_size;
	a->accum = a->new_accum;
	if (news & NEWS_SIZE)
		log_applied(a, "adjust-bs", iteration);
	if (news & NEWS_SCALE)
		log_applied(a, "adjust-lr", iteration);
	spend(a, SPENT_ACTIONS, began);
	return changed;
}

/* ---- reports ---- */

static void add_share(struct record_out *o, const char *key, double value)
{
	if (!isnan(value))
		record_add_brief(o, key, value < 0 ? 0 : value);
}

static void begin_record(const struct agent *a, struct record_out *o, char *line, const char *type)
{
	record_begin(o, line, RECORD_LINE_MAX, type);
	record_add(o, "role", "worker");
	record_add(o, "id", a->options.worker);
}

void agent_report(struct agent *a)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	struct tally_batch mean;
	struct load_values load;
	double began = clock_mono();
	uint64_t count = tally_take(&a->tally, began, &mean);
	if (count == 0 || !a->options.monitor)
		return;
	begin_record(a, &o, line, "bpt");
	record_add_u64(&o, "iter", a->iteration);
	record_add_seconds(&o, "time", mean.time);
	record_add_u64(&o, "size", mean.samples);
	record_add_seconds(&o, "at", clock_epoch());
	record_add_u64(&o, "accum", a->accum);
	record_add_u64(&o, "count", count);
	record_add_seconds(&o, "compute", mean.compute);
	record_add_seconds(&o, "comm", mean.comm);
	record_add_seconds(&o, "wait", mean.wait);
	load_look(a->load, began, &load);
	add_share(&o, "cpu", load.cpu);
	add_share(&o, "mem", load.mem);
	add_share(&o, "psi-cpu", load.psi_cpu);
	add_share(&o, "psi-mem", load.psi_mem);
	add_share(&o, "throttled", load.throttled);
	add_share(&o, "own-cpu", load.own_cpu);
	size_t len = record_end(&o, NULL);
	if (len > 0)
		report_send(a->report, line, len);
	spend(a, SPENT_REPORT, began);
}

void agent_batch(struct agent *a, uint64_t iteration, const struct tally_batch *b)
{
	struct spent *s = a->options.spent;
	double now = clock_mono();
	s->iterations++;
	a->iteration = iteration;
	if (tally_add(&a->tally, b, now))
		agent_report(a);
	foretell_keep(a->foretell, now);
}

struct agent_view agent_foretell(struct agent *a, uint64_t samples, double seconds, int whole)
{
	double began = clock_mono();
	foretell_batch(a->foretell, whole ? samples : 0, seconds, began);
	struct agent_view view = {foretell_speed(a->foretell), foretell_mem(a->foretell)};
	spend(a, SPENT_PREDICT, began);
	return view;
}

double agent_speed(const struct agent *a)
{
	return foretell_speed(a->foretell);
}

int agent_profile(struct agent *a, struct device_options *options, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	struct device d;
	double began = clock_mono();
	options->load = a->load;
	int result = device_measure(&d, options, err);
	spend(a, SPENT_PROFILE, began);
	if (result != 0)
		return result;
	a->most = d.max;
	begin_record(a, &o, line, "device");
	record_add(&o, "type", d.type);
	record_add_brief(&o, "launch", d.profile.launch);
	record_add_brief(&o, "speed", d.profile.speed);
	record_add_u64(&o, "saturation", d.profile.saturation);
	record_add_u64(&o, "max", d.max);
	record_add_seconds(&o, "at", clock_epoch());
	report_keep(a->report, line, record_end(&o, NULL));
	report_send(a->report, NULL, 0);
	return 0;
}

uint64_t agent_most(const struct agent *a)
{
	return a->most;
}

void agent_end(struct agent *a)
{
	agent_report(a);
	foretell_keep(a->foretell, NAN);
	agent_spent(a);
}

void agent_spent(struct agent *a)
{
	char line[RECORD_LINE_MAX];
	log_line(a, line, spent_record(a->options.spent, a->options.worker, clock_mono(),
				       clock_epoch(), line, sizeof(line)));
}

/* meter: see meter.h. */
#include "meter/meter.h"

#include "base/clock.h"
#include "base/log.h"
#include "meter/report.h"
#include "meter/watch.h"
#include "record/record.h"

#include <math.h>
#include <stdlib.h>

#define WATCHED 0.25 /* of a batch: the load that the next one begins with */

struct meter {
	struct meter_options options;
	struct report *report;
	struct load *load;   /* on the mean since the last report */
	struct watch *watch; /* now */
	struct spent spent;
	struct tally tally;
	struct tally_rules reports;
	uint64_t iteration, accum; /* of the last batch */
	struct device device;      /* as measured; max 0: it was not */
	struct device_file keep;
	double cores;              /* that an emulated device keeps busy; 0: it is none */
};

int meter_new(struct meter **out, const struct meter_options *options, struct error *err)
{
	struct meter *m = calloc(1, sizeof *m);
	if (!m)
		return error_set(err, ERROR_OS, "", "out of memory");
	m->options = *options;
	m->spent.began = clock_mono();
	m->reports = (struct tally_rules){options->report_every, options->report_seconds};
	tally_start(&m->tally, m->spent.began);
	if (load_new(&m->load, options->load_root, err) != 0 ||
	    watch_new(&m->watch, options->load_root, options->watch, err) != 0 ||
	    report_new(&m->report, options->monitor, err) != 0) {
		meter_free(m);
		return -1;
	}
	load_leave_out(m->load, options->beside, options->thread);
	*out = m;
	return 0;
}

void meter_free(struct meter *m)
{
	if (!m)
		return;
	watch_free(m->watch);
	load_free(m->load);
	report_free(m->report);
	free(m);
}

/* ---- where the time goes ---- */

double meter_spend(struct meter *m, enum spent_kind kind, double since)
{
	double now = clock_mono();
	m->spent.seconds[kind] += now - since;
	return now;
}

double meter_spent(const struct meter *m, enum spent_kind kind)
{
	return m->spent.seconds[kind];
}

void meter_log_spent(struct meter *m)
{
	const struct meter_options *o = &m->options;
	char line[RECORD_LINE_MAX];
	size_t len = spent_record(&m->spent, o->id, clock_mono(), clock_epoch(), line, sizeof line);
	if (len > 0 && o->log)
		o->log(line, len, o->owner);
}

/* ---- reports ---- */

static void add_share(struct record_out *o, const char *key, double value)
{
	if (!isnan(value))
		record_add_brief(o, key, value < 0 ? 0 : value);
}

static void begin_record(const struct meter *m, struct record_out *o, char *line, const char *type)
{
	record_begin(o, line, RECORD_LINE_MAX, type);
	record_add(o, "role", "worker");
	record_add(o, "id", m->options.id);
}

void meter_report(struct meter *m)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	struct tally_batch mean;
	struct load_values load;
	double began = clock_mono();
	uint64_t count = tally_take(&m->tally, began, &mean);
	if (count == 0 || !m->options.monitor)
		return;
	begin_record(m, &o, line, "bpt");
	record_add_u64(&o, "iter", m->iteration);
	record_add_seconds(&o, "time", mean.time);
	record_add_u64(&o, "size", mean.samples);
	record_add_seconds(&o, "at", clock_epoch());
	record_add_u64(&o, "accum", m->accum);
	record_add_u64(&o, "count", count);
	record_add_seconds(&o, "compute", mean.compute);
	record_add_seconds(&o, "comm", mean.comm);
	record_add_seconds(&o, "wait", mean.wait);
	load_look(m->load, began, &load);
	add_share(&o, "cpu", load.cpu);
	add_share(&o, "mem", load.mem);
	add_share(&o, "psi-cpu", load.psi_cpu);
	add_share(&o, "psi-mem", load.psi_mem);
	add_share(&o, "throttled", load.throttled);
	if (m->cores > 0)
		load.own_cpu = m->cores * mean.compute / (mean.time + mean.wait);
	add_share(&o, "own-cpu", load.own_cpu);
	add_share(&o, "own-mem", load.own_mem);
	size_t len = record_end(&o, NULL);
	if (len > 0)
		report_send(m->report, line, len);
	meter_spend(m, SPENT_REPORT, began);
}

void meter_batch(struct meter *m, uint64_t iteration, uint64_t accum, const struct tally_batch *b)
{
	m->spent.seconds[SPENT_COMPUTE] += b->compute;
	m->spent.seconds[SPENT_COMM] += b->comm;
	m->spent.seconds[SPENT_WAIT] += b->wait;
	m->spent.iterations++;
	m->iteration = iteration;
	m->accum = accum;
	if (tally_add(&m->tally, &m->reports, b, clock_mono()))
		meter_report(m);
}

void meter_look(struct meter *m, double batch_seconds, struct load_values *out)
{
	watch_look(m->watch, clock_mono(), out);
	watch_seconds(m->watch, batch_seconds * WATCHED);
}

/* ---- the device ---- */

static void report_device(struct meter *m)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	begin_record(m, &o, line, "device");
	device_put(&m->device, &o);
	record_add_seconds(&o, "at", clock_epoch());
	report_keep(m->report, line, record_end(&o, NULL));
	report_send(m->report, NULL, 0);
}

int meter_device(struct meter *m, struct device_options *options, struct error *err)
{
	double began = clock_mono();
	options->load = m->load;
	int result = device_measure(&m->device, options, err);
	meter_spend(m, SPENT_PROFILE, began);
	if (result != 0) {
		m->device.max = 0;
		return result;
	}
	m->keep = options->keep;
	report_device(m);
	return 0;
}

static void meter_keep_device(struct meter *m)
{
	struct error err;
	if (m->keep.path && device_keep(&m->device, &m->keep, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "what was measured of the device is not kept: %s: %s",
			err.place, err.text);
}

int meter_device_kept(struct meter *m, const char *name, const struct device_file *keep,
		      uint64_t most)
{
	struct device d = {.max = 0};
	device_name(&d, name);
	m->keep = *keep;
	m->device = d;
	if (!device_recall(&d, keep, most))
		return 0;
	m->device = d;
	report_device(m);
	return d.profile.speed > 0;
}

void meter_device_is(struct meter *m, const struct device *device)
{
	m->device.profile = device->profile;
	m->device.max = device->max;
	report_device(m);
	meter_keep_device(m);
}

void meter_fits(struct meter *m, uint64_t most)
{
	struct device *d = &m->device;
	if (!d->type[0] || (d->max > 0 && most >= d->max))
		return;
	d->max = most;
	d->left = 0; /* others may have it for a moment only: the next process looks anew */
	if (d->profile.saturation > most || d->profile.saturation == 0)
		d->profile.saturation = d->profile.saturation > 0 ? most : 1;
	report_device(m);
	meter_keep_device(m);
}

void meter_emulated(struct meter *m, double cores)
{
	m->cores = cores;
}

uint64_t meter_most(const struct meter *m)
{
	return m->device.max;
}

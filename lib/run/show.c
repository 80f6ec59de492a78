/* show: see show.h. */
#include "run/show.h"

#include "record/record.h"

#include <math.h>
#include <stdio.h>

/* As many digits as a measurement has; an unknown one is empty. */
static void add_measured(struct record_out *o, const char *key, double value, int digits)
{
	char text[40] = "";
	if (!isnan(value))
		snprintf(text, sizeof text, "%.*g", digits, value);
	record_add(o, key, text);
}

void show_take_delays(struct run_delays *d, const struct record *r)
{
	*d = (struct run_delays){.known = record_get(r, "delay") || record_get(r, "stale")};
	record_u64_opt(r, "delay", 0, UINT64_MAX, &d->middle, NULL);
	record_u64_opt(r, "delay-95", 0, UINT64_MAX, &d->most_95, NULL);
	record_u64_opt(r, "delay-most", 0, UINT64_MAX, &d->most, NULL);
	record_u64_opt(r, "stale", 0, UINT64_MAX, &d->stale, NULL);
}

static void show_delays(struct record_out *o, const struct run_delays *d)
{
	if (!d->known)
		return;
	record_add_u64(o, "delay", d->middle);
	record_add_u64(o, "delay-95", d->most_95);
	record_add_u64(o, "delay-most", d->most);
	record_add_u64(o, "stale", d->stale);
}

void show_fields(struct record_out *o, const struct run_row *row)
{
	record_add_u64(o, "iteration", row->iteration);
	record_add_u64(o, "epoch", row->epoch);
	record_add_u64(o, "epochs", row->epochs);
	add_measured(o, "loss", row->loss, 7);
	record_add_u64(o, "samples-done", row->samples);
	record_add_u64(o, "samples", row->total);
	add_measured(o, "samples-per-second", row->rate, 6);
	add_measured(o, "eta", row->eta, 4);
	record_add(o, "slowest", row->slowest);
	add_measured(o, "ratio", row->ratio, 4);
	show_delays(o, &row->delays);
}

size_t show_record(const struct run_row *row, char *out, size_t out_max)
{
	struct record_out o;
	record_begin(&o, out, out_max, "row");
	show_fields(&o, row);
	record_add_seconds(&o, "time", row->time);
	return record_end(&o, NULL);
}

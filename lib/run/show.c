/* show: see show.h. */
#include "run/show.h"

#include "record/record.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BAR_WIDTH 24

struct text {
	char *out;
	size_t at, max;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(t->out + t->at, t->max - t->at, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->at += (size_t)n < t->max - t->at ? (size_t)n : t->max - t->at - 1;
}

/* As many digits as a measurement has; an unknown one is empty. */
static void add_measured(struct record_out *o, const char *key, double value, int digits)
{
	char text[40] = "";
	if (!isnan(value))
		snprintf(text, sizeof text, "%.*g", digits, value);
	record_add(o, key, text);
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
	add_measured(o, "left", row->left, 4);
	record_add(o, "slowest", row->slowest);
	add_measured(o, "ratio", row->ratio, 4);
}

size_t show_record(const struct run_row *row, char *out, size_t out_max)
{
	struct record_out o;
	record_begin(&o, out, out_max, "row");
	show_fields(&o, row);
	record_add_seconds(&o, "time", row->time);
	return record_end(&o, NULL);
}

void show_time(double seconds, char *out, size_t out_max)
{
	if (!(seconds >= 0) || seconds > 1e9) {
		snprintf(out, out_max, "?");
		return;
	}
	unsigned long s = (unsigned long)(seconds + 0.5);
	if (s >= 3600)
		snprintf(out, out_max, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(out, out_max, "%lu:%02lu", s / 60, s % 60);
}

static void add_course(struct text *t, const struct run_row *row)
{
	char left[32];
	add(t, "step %llu  epoch %llu/%llu", (unsigned long long)row->iteration,
	    (unsigned long long)row->epoch, (unsigned long long)row->epochs);
	if (!isnan(row->loss))
		add(t, "  loss %.4f", row->loss);
	if (!isnan(row->rate))
		add(t, "  %.0f samples/s", row->rate);
	if (!isnan(row->left)) {
		show_time(row->left, left, sizeof left);
		add(t, "  %s left", left);
	}
	if (row->slowest[0] && !isnan(row->ratio))
		add(t, "  %s x%.2f", row->slowest, row->ratio);
}

size_t show_line(const struct run_row *row, char *out, size_t out_max)
{
	struct text t = {out, 0, out_max};
	out[0] = '\0';
	add_course(&t, row);
	return t.at;
}

size_t show_bar(const struct run_row *row, size_t width, char *out, size_t out_max)
{
	struct text t = {out, 0, width + 1 < out_max ? width + 1 : out_max};
	double part = row->total ? (double)row->samples / (double)row->total : 0;
	if (part > 1)
		part = 1;
	out[0] = '\0';
	add(&t, "[");
	for (int i = 0; i < BAR_WIDTH; i++)
		add(&t, "%c", i < (int)(part * BAR_WIDTH) ? '#' : '.');
	add(&t, "] %3d%%  ", (int)(part * 100));
	add_course(&t, row);
	return t.at;
}

/* See watch.h.  Never reads a clock. */
#include "lead/watch.h"

#include "record/record.h"

#include <math.h>
#include <stdlib.h>

#define LINE_ROOM 512

struct watcher {
	struct request *rq;
	struct rows rows;
	struct watcher *next, **at;
};

/* ---- when ---- */

static void watchers_pass(struct rows *w, uint64_t iteration)
{
	while (w->power <= iteration && w->power)
		w->power *= 2;
}

void rows_start(struct rows *w, double every, uint64_t iteration, double now)
{
	*w = (struct rows){.every = every, .until = now + every, .next = now + every, .power = 1};
	watchers_pass(w, iteration);
}

static double take_mean(struct rows *w)
{
	double mean = w->samples ? w->loss / (double)w->samples : 0.0;

	if (w->samples && w->loss == 0.0 && w->told == w->told_before)
		mean = NAN;
	w->samples = 0;
	w->loss = 0.0;
	w->told_before = w->told;
	return mean;
}

int rows_due(struct rows *w, const struct rows_unit *unit, double now, double *mean)
{
	int early = (w->every <= 0.0 || now < w->until) && unit->iteration >= w->power;
	int late = w->every > 0.0 && now >= w->next;

	w->samples += unit->samples;
	w->loss += unit->loss;
	w->told = unit->told;
	if (!early && !late)
		return 0;
	*mean = take_mean(w);
	watchers_pass(w, unit->iteration);
	w->next = now + w->every;
	return 1;
}

int rows_last(struct rows *w, double *mean)
{
	if (w->samples == 0)
		return 0;
	*mean = take_mean(w);
	return 1;
}

/* ---- who ---- */

static void watchers_on_gone(struct request *rq, void *arg)
{
	struct watcher *w = arg;

	(void)rq;
	*w->at = w->next;
	if (w->next)
		w->next->at = w->at;
	free(w);
}

void watchers_add(struct watcher **all, struct request *rq, double every, uint64_t iteration,
		  double now)
{
	struct watcher *w = calloc(1, sizeof *w);

	if (!w) {
		request_err(rq, "no-memory", NULL);
		return;
	}
	w->rq = rq;
	rows_start(&w->rows, every, iteration, now);
	w->next = *all;
	w->at = all;
	if (w->next)
		w->next->at = &w->next;
	*all = w;
	request_defer(rq, watchers_on_gone, w);
}

static void watchers_put_row(struct watcher *w, uint64_t iteration, double mean,
			     const struct rows_fields *f)
{
	struct record_out *o = RECORD("row", F("iteration", iteration),
				      !isnan(mean) ? F_REAL("loss", mean) : F_NONE,
				      F("samples", f->samples), F_SECONDS("at", f->at),
				      F_SECONDS("time", f->time), F("members", f->members));
	delay_put(o, f->delays);
	request_put_record(w->rq, o);
}

void watchers_row(struct watcher *all, const struct rows_unit *unit, const struct rows_fields *f,
		  double now)
{
	double mean;

	for (struct watcher *w = all; w; w = w->next)
		if (rows_due(&w->rows, unit, now, &mean))
			watchers_put_row(w, unit->iteration, mean, f);
}

void watchers_end(struct watcher *all, uint64_t iteration, const struct rows_fields *f)
{
	double mean;

	for (struct watcher *w = all; w; w = w->next)
		if (rows_last(&w->rows, &mean))
			watchers_put_row(w, iteration, mean, f);
}

void watchers_say(struct watcher *all, const char *line, size_t len)
{
	for (struct watcher *w = all; w; w = w->next)
		request_put(w->rq, line, len);
}

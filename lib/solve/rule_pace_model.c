/* rule_pace_model: see rule_pace_model.h. */
#include "solve/rule_pace_model.h"

#include "base/reals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define JUMP 0.1          /* of the speed: what a report differs by when nothing has happened */
#define SIZES_DIFFER 0.15 /* of the size: from here on two points make a slope */
#define TROUBLE_MIN 0.05  /* of the time: below, everybody is as slow as others */
#define WHOLE 0.8         /* of a window: from here on it counts as filled */

struct point {
	double time, size;
};

static struct point point_of(double time, double speed)
{
	return snapshot_known(time) && snapshot_known(speed) ? (struct point){time, time * speed}
							     : (struct point){NAN, NAN};
}

static struct point point_last(const struct snapshot_node *n)
{
	double size = (double)n->size;
	return n->size > 0 && snapshot_known(n->speed_last)
		       ? (struct point){size / n->speed_last, size}
		       : (struct point){NAN, NAN};
}

/* A snapshot that was made by hand may have speeds and no times. */
static struct point point_short(const struct snapshot_node *n)
{
	struct point p = point_of(n->mean_short, n->speed_short);
	double size = (double)n->size;
	if (!snapshot_known(p.time) && n->size > 0 && snapshot_known(n->speed_short))
		p = (struct point){size / n->speed_short, size};
	return p;
}

static int jumped(struct point last, struct point window)
{
	return fabs(last.size / last.time / (window.size / window.time) - 1) > JUMP;
}

static struct point best_point(const struct snapshot_node *n, int spiky)
{
	struct point last = point_last(n), window = point_short(n);
	if (snapshot_known(window.time) &&
	    (spiky || !snapshot_known(last.time) || !jumped(last, window)))
		return window;
	return snapshot_known(last.time) ? last : point_of(n->mean_long, n->speed_long);
}

double pace_time(const struct pace_node *p, double x)
{
	return p->time + (x - p->size) * p->slope;
}

double pace_lasts(const struct pace_node *p, double left)
{
	return p->age > 0 ? p->age * log1p(left / p->age) : 0;
}

double pace_median(double *v, size_t n)
{
	reals_sort(v, n);
	return n ? v[(n - 1) / 2] : NAN;
}

/* ---- kinds ---- */

/* What is known of the nodes of one type. */
struct kind {
	double fastest;         /* seconds a sample */
	double median;          /* seconds a sample, of the best points */
	double median_long;     /* seconds a sample, in the long window */
	double time, time_long; /* seconds a batch: the same for servers */
};

static double per_sample(struct point p)
{
	return p.time / p.size;
}

/* type NULL: of all. */
static double median_of(const struct crew *c, const char *type,
			double (*value)(const struct snapshot_node *, int), int spiky,
			double *scratch)
{
	size_t n = 0;
	for (size_t i = 0; i < c->count; i++) {
		double v = value(c->node[i], spiky);
		if ((!type || strcmp(c->node[i]->type, type) == 0) && snapshot_known(v))
			scratch[n++] = v;
	}
	return pace_median(scratch, n);
}

static double best_per_sample(const struct snapshot_node *n, int spiky)
{
	return per_sample(best_point(n, spiky));
}

static double long_per_sample(const struct snapshot_node *n, int spiky)
{
	(void)spiky;
	return 1 / n->speed_long;
}

static double best_time(const struct snapshot_node *n, int spiky)
{
	struct point p = best_point(n, spiky);
	return snapshot_known(p.time) ? p.time : n->mean_short;
}

static double long_time(const struct snapshot_node *n, int spiky)
{
	(void)spiky;
	return n->mean_long;
}

static struct kind pace_model_kind_of(const struct crew *c, const char *type, int spiky,
				      double *scratch)
{
	struct kind k = {.fastest = INFINITY};
	k.median = median_of(c, type, best_per_sample, spiky, scratch);
	if (snapshot_known(k.median))
		k.fastest = scratch[0];
	k.median_long = median_of(c, type, long_per_sample, spiky, scratch);
	k.time = median_of(c, type, best_time, spiky, scratch);
	k.time_long = median_of(c, type, long_time, spiky, scratch);
	return k;
}

/* ---- one node ---- */

static double secant(struct point a, struct point b)
{
	double larger = fmax(a.size, b.size);
	return snapshot_known(a.time) && snapshot_known(b.time) &&
			       fabs(a.size - b.size) > SIZES_DIFFER * larger
		       ? (a.time - b.time) / (a.size - b.size)
		       : NAN;
}

static double pace_model_slope_of(const struct snapshot_node *n, struct point best,
				  const struct kind *k)
{
	double none = per_sample(best), all = fmin(k->fastest, none);
	struct point last = point_last(n), window = point_short(n);
	double slope = secant(last, window);
	if (isnan(slope))
		slope = secant(best, point_of(n->mean_long, n->speed_long));
	return isnan(slope) ? none : fmin(fmax(slope, all), none);
}

/* The fraction of the long window, 0..1, for which the present trouble has lasted. */
static double part_of_long(const struct snapshot_node *n, const struct pace_node *p,
			   const struct kind *k)
{
	double delay = (n->mean_long - n->mean_long * n->speed_long * k->median_long) / p->trouble;
	double ratio =
		(1 / n->speed_long / k->median_long - 1) / (p->time / p->size / p->cured_slope - 1);
	if (n->role == NODE_SERVER)
		delay = ratio = (n->mean_long - k->time_long) / p->trouble;
	double part = fmax(isnan(delay) ? 0 : delay, isnan(ratio) ? 0 : ratio);
	return part > WHOLE ? 1 : part > 0 ? part : 0;
}

static void add_trouble(struct pace_node *p, const struct snapshot_node *n,
			const struct snapshot *s, const struct kind *k)
{
	double normal = n->role == NODE_SERVER ? k->time : p->size * p->cured_slope;
	p->trouble = p->time - normal;
	if (!(p->trouble > TROUBLE_MIN * normal)) {
		p->trouble = 0;
		return;
	}
	double part = part_of_long(n, p, k);
	p->age = part * fmin(n->up, s->window_long);
}

static void model_node(struct pace_node *p, const struct snapshot_node *n, const struct snapshot *s,
		       const struct kind *k, int spiky)
{
	struct point best = best_point(n, spiky);
	*p = (struct pace_node){.cured_slope = k->median};
	if (n->role == NODE_SERVER) {
		p->time = best_time(n, spiky);
		add_trouble(p, n, s, k);
	} else if (snapshot_known(best.time)) {
		p->time = best.time;
		p->size = best.size;
		p->slope = pace_model_slope_of(n, best, k);
		add_trouble(p, n, s, k);
	} else { /* a new node counts as like the others until it reports */
		p->time = 0;
		p->slope = k->median;
	}
}

struct pace_node *pace_model(const struct crew *c, const struct snapshot *s, int spiky,
			     struct error *err)
{
	struct pace_node *p = calloc(c->count + 1, sizeof *p);
	double *scratch = calloc(c->count + 1, sizeof *scratch);
	struct kind k = {0};
	int failed = !p || !scratch;
	double median = failed ? NAN : median_of(c, NULL, best_per_sample, spiky, scratch);
	for (size_t i = 0; !failed && i < c->count; i++) {
		/* Nodes of a type mostly follow each other: keep the type found for the previous
		 * node. */
		if (i == 0 || strcmp(c->node[i]->type, c->node[i - 1]->type) != 0)
			k = pace_model_kind_of(c, c->node[i]->type, spiky, scratch);
		if (isnan(k.median))
			k.median = median;
		model_node(&p[i], c->node[i], s, &k, spiky);
	}
	free(scratch);
	if (failed) {
		free(p);
		error_set(err, ERROR_OS, NULL, "out of memory for %zu nodes", c->count);
		return NULL;
	}
	return p;
}

/* why: see why.h. */
#include "solve/why.h"

#include "base/human.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MORE 1.1      /* a cause is named from so many times the others on */
#define SHARE 0.1     /* of the time, more than the others: worth a word */
#define BUSY 0.9      /* of the processors */
#define BUSY_MORE 0.2 /* than those of the others */

static double why_value_of(const struct snapshot_node *n, enum why_value what)
{
	const double values[WHY_VALUES] = {
		[WHY_SIZE] = (double)n->size, [WHY_SPEED] = n->speed_short,
		[WHY_COMPUTE] = n->compute,   [WHY_COMM] = n->comm,
		[WHY_CPU] = n->cpu,           [WHY_THROTTLED] = n->throttled,
		[WHY_PSI_CPU] = n->psi_cpu,   [WHY_PSI_MEM] = n->psi_mem};
	return values[what];
}

void why_gather(struct why *w, const struct snapshot *s, enum node_role role)
{
	*w = (struct why){.role = role};
	for (size_t i = 0; i < s->node_count; i++) {
		const struct snapshot_node *n = &s->node[i];
		if (n->role != role || n->state != NODE_UP)
			continue;
		for (enum why_value k = 0; k < WHY_VALUES; k++)
			if (isfinite(why_value_of(n, k))) {
				w->sum[k] += why_value_of(n, k);
				w->count[k]++;
			}
	}
}

/* The mean of the others; NAN: nobody measured it. */
static double why_others(const struct why *w, const struct snapshot_node *n, enum why_value k)
{
	int own = isfinite(why_value_of(n, k));
	size_t count = w->count[k] - (size_t)own;
	return w->count[k] > (size_t)own
		       ? (w->sum[k] - (own ? why_value_of(n, k) : 0)) / (double)count
		       : NAN;
}

__attribute__((format(printf, 2, 3))) static void why_add(char *out, const char *format, ...)
{
	va_list ap;
	size_t at = strlen(out);
	if (at > 0 && at + 2 < WHY_MAX) {
		memcpy(out + at, ", ", 3);
		at += 2;
	}
	va_start(ap, format);
	vsnprintf(out + at, WHY_MAX - at, format, ap);
	va_end(ap);
}

/* A part that was not measured explains nothing. */
static double why_more_than(double own, double mean)
{
	return isfinite(own) && isfinite(mean) ? own - mean : 0;
}

static void say_times(char *out, const char *what, double own, double mean)
{
	if (mean > 0 && own / mean < 100)
		why_add(out, "%s %.1fx as long", what, own / mean);
	else
		why_add(out, "%s much longer", what);
}

/* Which part of its time is the longer one. */
static void say_part(const struct why *w, const struct snapshot_node *n, char *out)
{
	double size = why_others(w, n, WHY_SIZE), speed = why_others(w, n, WHY_SPEED);
	double compute = why_others(w, n, WHY_COMPUTE), comm = why_others(w, n, WHY_COMM);
	double more_compute = why_more_than(n->compute, compute),
	       more_comm = why_more_than(n->comm, comm);
	char own_size[HUMAN_MAX], mean_size[HUMAN_MAX];
	if (size > 0 && (double)n->size > MORE * size && n->speed_short * MORE > speed)
		why_add(out, "its batch is larger: %s samples, the others' %s",
			human_count((double)n->size, own_size),
			human_count(round(size), mean_size));
	else if (more_compute >= more_comm && n->compute > MORE * compute)
		say_times(out, "computes", n->compute, compute);
	else if (more_comm > more_compute && n->comm > MORE * comm)
		say_times(out, "sends and receives", n->comm, comm);
}

/* What its machine says. */
static void say_load(const struct why *w, const struct snapshot_node *n, char *out)
{
	char percent[HUMAN_MAX];
	if (why_more_than(n->throttled, why_others(w, n, WHY_THROTTLED)) > SHARE)
		why_add(out, "its cpu limit holds it back");
	else if (why_more_than(n->psi_mem, why_others(w, n, WHY_PSI_MEM)) > SHARE)
		why_add(out, "it is short of memory");
	else if (n->cpu > BUSY && why_more_than(n->cpu, why_others(w, n, WHY_CPU)) > BUSY_MORE)
		why_add(out, "its machine is busy (cpu %s)", human_percent(n->cpu, percent));
	else if (why_more_than(n->psi_cpu, why_others(w, n, WHY_PSI_CPU)) > SHARE)
		why_add(out, "it waits for a processor");
}

void why_slow(const struct why *w, const struct snapshot_node *n, char out[WHY_MAX])
{
	out[0] = '\0';
	if (!(n->ratio_short >= WHY_RATIO) || n->state != NODE_UP || n->role != w->role)
		return;
	say_part(w, n, out);
	say_load(w, n, out);
}

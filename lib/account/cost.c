/* cost: see cost.h. */
#include "account/cost.h"

#include "base/number.h"
#include "base/reals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNTED 0.95 /* a larger fraction counts as all */

const char *const cost_text[COST_KINDS] = {
	[COST_TOGETHER] = "training, at the speed of all workers together",
	[COST_THROWN] = "training samples that were dropped or rolled back",
	[COST_WAITING] = "waiting for slower workers",
	[COST_SERVER] = "waiting for a slower server",
	[COST_BARRIER] = "waiting for servers and the commit",
	[COST_COLLECTIVE] = "in collectives: sums between trainers",
	[COST_FIRST] = "workers starting",
	[COST_RESTARTS] = "workers down or restarting",
	[COST_HANDOVER] = "servers handing over",
	[COST_STALL] = "checkpoints",
	[COST_OTHER] = "getting shards and rows, the last batches",
	[COST_STARTING] = "before training: start of daemons and servers",
	[COST_ROLLBACK] = "going back to a checkpoint",
	[COST_ENDING] = "after training: last checkpoint, stopping",
	[COST_SCORING] = "scoring TEST"};

const char *const cost_name[COST_KINDS] = {
	"together", "thrown", "waiting", "server", "barrier", "collective", "first", "restarts",
	"handover", "checkpoints", "other", "starting", "rollback", "ending", "scoring"};

/* A worker in a window. */
struct cell {
	double speed;
	double there; /* fraction of the window in which it belonged to the job */
	double samples, busy, wait, barrier, collective, first, again, other; /* seconds */
};

/* A worker, or all of a host. */
struct suspect {
	double least;   /* of its workers' waiting, in this window; INFINITY: nobody of it trains */
	double missing; /* samples a second by which they are slower than the median */
	double spared;  /* in all windows */
};

struct sums {
	const struct account *a;
	struct cost *cost;
	const struct account_node **worker;
	struct cell *cell; /* of each worker, in this window */
	struct account_point *did;
	double *sorted;
	size_t workers;
	double samples;  /* trained by workers */
	double together; /* seconds for the trained samples, at the speed of all */
	double even;     /* at the speed of the median */
	struct suspect *alone, *host; /* by worker; by host, whose number is that of its first worker */
	size_t *host_of;              /* a worker's */
	double *server;               /* seconds by which a node was the slowest server */
};

enum cost_kind cost_phase(const struct account *a, int phase)
{
	const char *name = phase >= 0 && (size_t)phase < a->phases ? a->phase[phase].name : "";
	static const struct {
		const char *name;
		enum cost_kind kind;
	} kinds[] = {{"running", COST_TOGETHER}, {"rollback", COST_ROLLBACK},
		     {"winding", COST_ENDING},   {"last-cut", COST_ENDING},
		     {"finishing", COST_ENDING}, {"stopping", COST_ENDING},
		     {"over", COST_ENDING},      {"scoring", COST_SCORING}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return kinds[i].kind;
	return COST_STARTING;
}

static void add_phases(const struct account *a, struct cost *out)
{
	for (size_t i = 0; i < a->phases; i++) {
		out->seconds += a->phase[i].seconds;
		if (account_is_training(a, (int)i))
			out->training += a->phase[i].seconds;
		else
			out->of[cost_phase(a, (int)i)] += a->phase[i].seconds;
	}
}

/* ---- a window ---- */

static double cost_waited(const struct account_point *did)
{
	return did->wait;
}

static double cost_least(const struct account_point *did, size_t count,
			 double (*seconds)(const struct account_point *did))
{
	double least = INFINITY;
	for (size_t i = 0; i < count; i++)
		if (did[i].batches > 0 && !isnan(seconds(&did[i])))
			least = fmin(least, seconds(&did[i]) / did[i].batches);
	return isinf(least) ? 0 : fmax(least, 0);
}

double cost_barrier(const struct account_point *did, size_t count)
{
	return cost_least(did, count, cost_waited);
}

double cost_collective(const struct account_point *did, size_t count)
{
	return cost_least(did, count, account_collective);
}

/* Seconds of the window in which the worker did not belong to the job: before it came, after it
 * left, or as a spare. Time in which it trained (perhaps unseen) does not count. */
static double absent(const struct account_node *n, const struct account_point *did, double from,
		     double to)
{
	const struct account_span *first = n->spans.span;
	double away = account_overlap(&n->spans, ACCOUNT_AWAY, from, to);
	if (n->spans.count > 0 && (first->what == ACCOUNT_STARTING || first->what == ACCOUNT_AWAY))
		away += fmax(fmin(first->from, to) - from, 0);
	return fmax(fmin(away, to - from - did->time), 0);
}

/* In a window without work, the speed is that of the window before. Differences between clocks are
 * cut off. */
static void fill_cell(struct cell *c, const struct account_node *n, const struct account_point *did,
		      double barrier, double collective, double from, double to)
{
	double left = to - from - absent(n, did, from, to);
	c->there = to > from ? left / (to - from) : 0; /* clocks are not exact */
	if (did->time > 0 && did->samples > 0)
		c->speed = did->samples / did->time;
	c->samples = did->samples;
	c->first = account_overlap(&n->spans, ACCOUNT_STARTING, from, to);
	c->again = account_overlap(&n->spans, ACCOUNT_AGAIN, from, to) +
		   account_overlap(&n->spans, ACCOUNT_DOWN, from, to);
	left = fmax(left - c->first - c->again, 0);
	c->busy = did->time;
	double wait = fmin(isnan(did->wait) ? INFINITY : did->wait, fmax(left - c->busy, 0));
	double in_them = fmin(account_collective(did), fmax(left - c->busy - wait, 0));
	c->barrier = fmin(wait, did->batches * barrier);
	c->collective = fmin(in_them, did->batches * collective);
	c->wait = wait - c->barrier + in_them - c->collective;
	c->other = fmax(left - c->busy - wait - in_them, 0);
}

static double cost_take(double *from, double most)
{
	double taken = fmin(*from, fmax(most, 0));
	*from -= taken;
	return taken;
}

/* While a worker starts, or is down, others wait for that: it is no straggler, and if all of them
 * wait it is no barrier either. */
static void wait_for_starts(struct sums *s)
{
	double first = 0, again = 0;
	for (size_t i = 0; i < s->workers; i++) {
		first = fmax(first, s->cell[i].first);
		again = fmax(again, s->cell[i].again);
	}
	for (size_t i = 0; i < s->workers; i++) {
		struct cell *c = &s->cell[i];
		c->again += cost_take(&c->wait, again - c->again);
		c->again += cost_take(&c->barrier, again - c->again);
		c->first += cost_take(&c->wait, first - c->first);
		c->first += cost_take(&c->barrier, first - c->first);
	}
}

/* How much longer than the median server the slowest one took, in all batches. */
static double slow_server(const struct sums *s, double from, double to, size_t *slowest)
{
	size_t count = 0;
	double batches = 0, most = -1;
	for (size_t i = 0; i < s->a->nodes; i++) {
		const struct account_node *n = &s->a->node[i];
		if (!account_is_server(n) || n->points < 2)
			continue;
		struct account_point did = account_between(n, from, to);
		if (!(did.batches > 0))
			continue;
		s->sorted[count++] = did.time / did.batches;
		if (did.time / did.batches > most) {
			most = did.time / did.batches;
			*slowest = i;
		}
		batches = fmax(batches, did.batches);
	}
	if (count < 2)
		return 0;
	reals_sort(s->sorted, count);
	return batches * (s->sorted[count - 1] - s->sorted[(count - 1) / 2]);
}

static double sum_samples(const struct sums *s)
{
	double sum = 0;
	for (size_t i = 0; i < s->workers; i++)
		sum += s->did[i].samples;
	return sum;
}

/* By how many seconds this window would be shorter if a suspect were as fast as the others: those
 * would not have waited for it (two that are slow alike spare nothing each), and where nobody waits,
 * the samples would have taken less time at the speed of all. One that trains alone, or a host that
 * has all workers, has no others. */
static void spare_window(const struct sums *s, struct suspect *suspect, const size_t *number,
			 double done, double all, double median)
{
	size_t critical = 0;
	double least = INFINITY, second = INFINITY;
	for (size_t i = 0; i < s->workers; i++) {
		suspect[i].least = INFINITY;
		suspect[i].missing = 0;
	}
	for (size_t i = 0; i < s->workers; i++) {
		const struct cell *c = &s->cell[i];
		struct suspect *one = &suspect[number ? number[i] : i];
		if (c->busy > 0)
			one->least = fmin(one->least, c->wait);
		if (c->speed > 0)
			one->missing += c->there * fmax(median - c->speed, 0);
	}
	for (size_t i = 0; i < s->workers; i++)
		if (suspect[i].least < least) {
			second = least;
			least = suspect[critical = i].least;
		} else
			second = fmin(second, suspect[i].least);
	for (size_t i = 0; i < s->workers && !isinf(second); i++) {
		double waits = i == critical ? second - least : 0;
		suspect[i].spared += fmax(waits, done / all - done / (all + suspect[i].missing));
	}
}

static void add_window(struct sums *s, double from, double to)
{
	double all = 0, done = 0, wait = 0, first = 0, again = 0, other = 0, barriers = 0;
	double rows = 0, busy = 0;
	double there = 0, collectives = 0;
	size_t known = 0, slowest = 0;
	for (size_t i = 0; i < s->workers; i++)
		s->did[i] = account_between(s->worker[i], from, to);
	double barrier = cost_barrier(s->did, s->workers);
	double collective = cost_collective(s->did, s->workers);
	for (size_t i = 0; i < s->workers; i++) {
		fill_cell(&s->cell[i], s->worker[i], &s->did[i], barrier, collective, from, to);
		rows += account_rows(&s->did[i]);
		busy += s->cell[i].busy;
		all += s->cell[i].there * s->cell[i].speed;
		there += s->cell[i].there;
		if (s->cell[i].there > 0 && s->cell[i].speed > 0)
			s->sorted[known++] = s->cell[i].speed;
	}
	if (known == 0) {
		s->cost->of[COST_FIRST] += to - from; /* nobody has trained yet */
		return;
	}
	double median = reals_median(s->sorted, known);
	s->even += sum_samples(s) / (median * there);
	wait_for_starts(s);
	for (size_t i = 0; i < s->workers; i++) {
		const struct cell *c = &s->cell[i];
		double weight = c->there * c->speed / all;
		done += c->samples;
		wait += weight * c->wait;
		barriers += weight * c->barrier;
		collectives += weight * c->collective;
		first += weight * c->first;
		again += weight * c->again;
		other += weight * c->other;
	}
	double rest = to - from - done / all;
	double parts = wait + barriers + collectives + first + again + other;
	double scale = parts > 0 && rest > 0 ? rest / parts : 0;
	double server = fmin(slow_server(s, from, to, &slowest), scale * barriers);
	s->server[slowest] += server;
	s->samples += done;
	s->cost->rows += busy > 0 ? fmin(rows / busy, 1) * done / all : 0;
	s->together += (to - from) - scale * parts;
	s->cost->of[COST_WAITING] += scale * wait;
	s->cost->of[COST_SERVER] += server;
	s->cost->of[COST_BARRIER] += scale * barriers - server;
	s->cost->of[COST_COLLECTIVE] += scale * collectives;
	s->cost->of[COST_FIRST] += scale * first;
	s->cost->of[COST_RESTARTS] += scale * again;
	s->cost->of[COST_OTHER] += scale * other;
	spare_window(s, s->alone, NULL, done, all, median);
	spare_window(s, s->host, s->host_of, done, all, median);
}

/* ---- the whole ---- */

double cost_first_speed(const struct account_node *n)
{
	for (size_t i = 1; i < n->points; i++) {
		double time = n->point[i].time - n->point[i - 1].time;
		double samples = n->point[i].samples - n->point[i - 1].samples;
		if (time > 0 && samples > 0)
			return samples / time;
	}
	return 0;
}

static void add_training(struct sums *s)
{
	const struct account_spans *spans = &s->a->phase_spans;
	for (size_t i = 0; i < spans->count; i++) {
		const struct account_span *p = &spans->span[i];
		double length = p->to - p->from;
		if (!account_is_training(s->a, p->what) || !(length > 0))
			continue;
		size_t count = 1 + (size_t)(COST_WINDOWS * (length / s->cost->training));
		for (size_t k = 0; k < count; k++)
			add_window(s, p->from + length * (double)k / (double)count,
				   p->from + length * (double)(k + 1) / (double)count);
	}
}

/* Workers saw restarts of servers and checkpoints as waiting, for a server or for other workers. */
static void take_from_waiting(struct cost *cost, enum cost_kind kind, double seconds)
{
	static const enum cost_kind from[] = {COST_BARRIER, COST_SERVER, COST_WAITING};
	for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
		double taken = fmin(seconds, cost->of[from[i]]);
		cost->of[kind] += taken;
		cost->of[from[i]] -= taken;
		seconds -= taken;
	}
}

static void add_marks(const struct account *a, struct cost *cost)
{
	for (size_t i = 0; i < a->marks; i++) {
		const struct account_mark *m = &a->mark[i];
		int in = 0;
		for (size_t k = 0; k < a->phases && !in; k++)
			in = account_is_training(a, (int)k) &&
			     account_overlap(&a->phase_spans, (int)k, m->at, m->at + 1e-6) > 0;
		if (!in)
			continue;
		if (m->kind == ACCOUNT_CHECKPOINT && m->seconds > 0)
			take_from_waiting(cost, COST_STALL, m->seconds);
		if (m->kind == ACCOUNT_RESTART && m->down > 0 && m->node != ACCOUNT_NOBODY &&
		    account_is_server(&a->node[m->node]))
			take_from_waiting(cost, COST_HANDOVER, m->down);
	}
}

/* The fraction of the trained samples that counts, since the first row of the log. Some batches are
 * still under way, so slightly less than all counts as all. */
static double cost_counted(const struct sums *s)
{
	const struct account *a = s->a;
	double counts, end = a->at, trained = 0;
	if (a->rows == 0)
		return 1;
	const struct account_row *first = &a->row[0], *last = &a->row[a->rows - 1];
	if (number_real(a->samples, 0, 1e300, &counts, NULL, NULL) != 0) {
		counts = last->samples;
		end = last->at;
	}
	for (size_t i = 0; i < s->workers; i++)
		trained += account_between(s->worker[i], first->at, end).samples;
	double part = (counts - first->samples) / trained;
	return part > 0 && part < COUNTED ? part : 1;
}

static void blame(struct cost_node *worst, size_t node, double seconds)
{
	if (seconds > worst->seconds)
		*worst = (struct cost_node){node, seconds};
}

static void conclude(struct sums *s)
{
	struct cost *cost = s->cost;
	double part = cost_counted(s), away = cost->seconds - cost->training;
	cost->known = 1;
	cost->of[COST_TOGETHER] = s->together * part;
	cost->of[COST_THROWN] = s->together * (1 - part);
	cost->speed = s->samples * part / cost->training;
	add_marks(s->a, cost);
	double meeting = cost->of[COST_BARRIER] + cost->of[COST_COLLECTIVE];
	double always = away + cost->of[COST_FIRST] + meeting;
	cost->busy = always + s->together * part;
	cost->even = always + s->even * part;
	cost->could = s->samples / (s->together + meeting);
	for (size_t i = 0; i < s->workers; i++) {
		size_t node = (size_t)(s->worker[i] - s->a->node);
		blame(&cost->slowest, node, s->alone[i].spared);
		blame(&cost->host, node, s->host[i].spared);
	}
	for (size_t i = 0; i < s->a->nodes; i++)
		blame(&cost->server, i, s->server[i]);
}

static int host_order(const void *x, const void *y)
{
	const struct account_node *const *a = x, *const *b = y;
	int order = strcmp((*a)->host, (*b)->host);
	return order ? order : (*a > *b) - (*a < *b);
}

/* Workers in the order of their hosts say which is the first of each. */
static int cost_make_hosts(struct sums *s)
{
	const struct account_node **sorted = malloc((s->workers + 1) * sizeof *sorted);
	size_t *at = calloc(s->a->nodes + 1, sizeof *at); /* which worker a node is */
	if (sorted && at) {
		for (size_t i = 0; i < s->workers; i++)
			at[(sorted[i] = s->worker[i]) - s->a->node] = i;
		if (s->workers > 0)
			qsort(sorted, s->workers, sizeof *sorted, host_order);
		for (size_t i = 0, first = 0; i < s->workers; i++) {
			if (strcmp(sorted[i]->host, sorted[first]->host) != 0)
				first = i;
			s->host_of[at[sorted[i] - s->a->node]] = at[sorted[first] - s->a->node];
		}
	}
	int result = sorted && at ? 0 : -1;
	free(sorted);
	free(at);
	return result;
}

static int cost_make(struct sums *s)
{
	const struct account *a = s->a;
	size_t room = a->nodes + 1;
	s->worker = calloc(room, sizeof *s->worker);
	s->cell = calloc(room, sizeof *s->cell);
	s->did = calloc(room, sizeof *s->did);
	s->sorted = calloc(room, sizeof *s->sorted);
	s->alone = calloc(room, sizeof *s->alone);
	s->host = calloc(room, sizeof *s->host);
	s->host_of = calloc(room, sizeof *s->host_of);
	s->server = calloc(room, sizeof *s->server);
	if (!s->worker || !s->cell || !s->did || !s->sorted || !s->alone || !s->host ||
	    !s->host_of || !s->server)
		return -1;
	for (size_t i = 0; i < a->nodes; i++)
		if (account_is_worker(&a->node[i]) && a->node[i].points > 1) {
			s->worker[s->workers] = &a->node[i];
			/* before its first batch a worker has the speed of its first batch */
			s->cell[s->workers++].speed = cost_first_speed(&a->node[i]);
		}
	return cost_make_hosts(s);
}

int cost_of(const struct account *a, struct cost *out, struct error *err)
{
	struct sums s = {.a = a, .cost = out};
	*out = (struct cost){
		.busy = NAN, .even = NAN, .speed = NAN, .could = NAN,
		.slowest = {ACCOUNT_NOBODY, 0}, .host = {ACCOUNT_NOBODY, 0},
		.server = {ACCOUNT_NOBODY, 0}};
	add_phases(a, out);
	int result = cost_make(&s);
	if (result != 0)
		error_set(err, ERROR_OS, NULL, "out of memory");
	else if (s.workers > 0 && out->training > 0)
		add_training(&s);
	if (result == 0 && s.samples > 0)
		conclude(&s);
	else if (result == 0) {
		for (enum cost_kind k = COST_TOGETHER; k < COST_STARTING; k++)
			out->of[k] = 0;
		out->of[COST_OTHER] = out->training;
	}
	free(s.worker);
	free(s.cell);
	free(s.did);
	free(s.sorted);
	free(s.alone);
	free(s.host);
	free(s.host_of);
	free(s.server);
	return result;
}

/* report: the document: gives the contents of a report, in order, to any writer (text, HTML). */
#include "cmd/trainctl/report.h"

#include "base/human.h"
#include "base/number.h"
#include "base/option.h"
#include "monitor/node.h"
#include "screen/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINK_SHARE 0.01 /* of the job: what costs less is not told */

struct teller {
	const struct report *p;
	const struct report_page *page;
};

static void words(const struct teller *t, enum report_words kind, const char *text)
{
	t->page->words(t->page->to, kind, text);
}

static void took(const struct teller *t, double seconds, const char *text)
{
	const struct report_row row = {.seconds = seconds, .share = NAN, .text = text, .why = "", .label = NULL};
	t->page->row(t->page->to, &row);
}

/* Events with their times. The heading is printed before the first event; after `most` events a
 * line says how many more there are. */
struct section {
	const char *heading;
	size_t most, count;
};

static void report_tell_happened(const struct teller *t, struct section *s, double at,
				 const char *text, const char *why)
{
	const struct report_row row = {account_seconds_by(t->p->a, at), NAN, 0, text, why, NULL};
	if (s->count++ == 0)
		words(t, REPORT_HEADING, s->heading);
	if (s->count <= s->most)
		t->page->row(t->page->to, &row);
}

static void report_tell_end(const struct teller *t, const struct section *s)
{
	char text[80];
	snprintf(text, sizeof text, "and %zu others; --records shows all", s->count - s->most);
	if (s->count > s->most)
		words(t, REPORT_WORDS, text);
}

/* ---- what it was ---- */

static void tell_job(const struct teller *t)
{
	const struct account *a = t->p->a;
	char text[1024], samples[HUMAN_MAX], score[200];
	report_title(t->p, text, sizeof text);
	words(t, REPORT_TITLE, text);
	if (a->error)
		words(t, REPORT_BAD, a->error);
	report_subtitle(t->p, text, sizeof text);
	words(t, REPORT_WORDS, text);
	snprintf(text, sizeof text,
		 "%s samples were trained again, after going back to a checkpoint",
		 human_count((double)a->repeated, samples));
	if (a->repeated > 0)
		words(t, REPORT_WORDS, text);
	snprintf(text, sizeof text,
		 "half of the updates%s missed at most %llu others, 95 %% at most %llu, all at most "
		 "%llu",
		 a->leads ? ", since the lead began anew," : "", (unsigned long long)a->delay[0],
		 (unsigned long long)a->delay[1], (unsigned long long)a->delay[2]);
	if (a->delay_known)
		words(t, REPORT_WORDS, text);
	snprintf(text, sizeof text,
		 "%llu more were dropped, too stale or too late for SYNC, and trained again",
		 (unsigned long long)a->stale);
	if (a->stale > 0)
		words(t, REPORT_WORDS, text);
	scores_text(a->score, score, sizeof score);
	snprintf(text, sizeof text, "TEST: %s", score);
	if (score[0])
		words(t, REPORT_WORDS, text);
}

/* ---- what it took ---- */

static void tell_could(const struct teller *t)
{
	const struct cost *c = &t->p->cost;
	char text[100];
	double jct;
	words(t, REPORT_HEADING, "How long it took");
	took(t, c->seconds, "as it was");
	if (number_real(t->p->a->jct, 0, c->seconds, &jct, NULL, NULL) == 0)
		took(t, jct, "of these, from the first shard to the last (jct)");
	if (!c->known) {
		took(t, NAN, "how long it could have taken is not known: the log has no "
			     "measurements");
		return;
	}
	snprintf(text, sizeof text, "without stragglers (%.2f times as fast)",
		 c->busy > 0 ? c->seconds / c->busy : 1);
	took(t, c->busy, text);
	if (c->even < 0.98 * c->busy)
		took(t, c->even, "and with every worker as fast as the median one");
}

static int by_seconds(const void *a, const void *b)
{
	double x = **(const double *const *)a, y = **(const double *const *)b;
	return (x < y) - (x > y);
}

static void tell_costs(const struct teller *t)
{
	const struct cost *c = &t->p->cost;
	const double *order[COST_KINDS];
	char text[300];
	for (int k = 0; k < COST_KINDS; k++)
		order[k] = &c->of[k];
	qsort(order + 1, COST_KINDS - 1, sizeof *order,
	      by_seconds); /* the time that the job is for comes first */
	words(t, REPORT_HEADING, "Where the time went");
	for (int k = 0; k < COST_KINDS; k++) {
		enum cost_kind kind = (enum cost_kind)(order[k] - c->of);
		if (!(*order[k] > 0.0005 * c->seconds))
			continue;
		report_cost_words(t->p, kind, text, sizeof text);
		const struct report_row row = {*order[k], *order[k] / c->seconds,
					       c->known && kind != COST_TOGETHER, text, "", NULL};
		t->page->row(t->page->to, &row);
	}
}

/* ---- workers ---- */

static int report_tell_by_name(const void *a, const void *b)
{
	const struct account_node *x = ((const struct report_node *)a)->node;
	const struct account_node *y = ((const struct report_node *)b)->node;
	int is_worker = account_is_worker(x);
	return is_worker != account_is_worker(y) ? (is_worker ? -1 : 1) : node_id_compare(x->id, y->id);
}

static double tell_speed(const struct report_node *n)
{
	return n->did.time > 0 ? n->did.samples / n->did.time : 0;
}

static int by_speed(const void *a, const void *b)
{
	double x = tell_speed(a), y = tell_speed(b);
	return (x > y) - (x < y);
}

int report_nodes_of(const struct account *a, struct report_nodes *out, struct error *err)
{
	*out = (struct report_nodes){.node = calloc(a->nodes + 1, sizeof *out->node),
				     .value = calloc(a->nodes + 1, sizeof *out->value)};
	if (!out->node || !out->value)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		if (n->points < 2 || !(account_is_worker(n) || account_is_server(n)))
			continue;
		double first = n->point[0].at, last = n->point[n->points - 1].at;
		out->node[out->count++] = (struct report_node){
			n, account_between(n, first, last), account_up(n, first, last)};
		out->workers += (size_t)account_is_worker(n);
	}
	qsort(out->node, out->count, sizeof *out->node, report_tell_by_name);
	return 0;
}

static const struct grid_column columns[] = {
	{.head = "", .rank = 0},
	{.head = "samples", .rank = 2, .align = GRID_RIGHT},
	{.head = "batch", .rank = 3, .align = GRID_RIGHT},
	{.head = "batch time", .rank = 0, .align = GRID_RIGHT},
	{.head = "samples/s", .rank = 1, .align = GRID_RIGHT},
	{.head = "busy", .rank = 5, .align = GRID_RIGHT},
	{.head = "waiting", .rank = 4, .align = GRID_RIGHT},
	{.head = "restarts", .rank = 7, .align = GRID_RIGHT},
	{.head = "collective", .rank = 2, .align = GRID_RIGHT, .if_any = 1}, /* of a batch */
	{.head = "dropped", .rank = 6, .align = GRID_RIGHT, .if_any = 1}, /* batches */
	{.head = "host", .rank = 6, .if_any = 1},
};
#define COLUMNS (sizeof columns / sizeof *columns)
_Static_assert(COLUMNS <= GRID_MAX, "a table has room for all columns");

/* Busy and waiting are parts of the time for which the log saw the worker up. */
static void report_tell_add_worker(struct grid *table, const struct report_node *w, size_t name)
{
	const struct account_point *d = &w->did;
	char id[OPTION_ID_MAX], samples[HUMAN_MAX], size[HUMAN_MAX], time[HUMAN_MAX];
	char speed[HUMAN_MAX], busy[HUMAN_MAX], wait[HUMAN_MAX], restarts[HUMAN_MAX];
	char collective[HUMAN_MAX] = "", dropped[HUMAN_MAX] = "", host[OPTION_ID_MAX];
	double batches = d->batches > 0 ? d->batches : NAN, sums = account_collective(d);
	double all = fmax(w->up, d->time + sums + (isnan(d->wait) ? 0 : d->wait));
	text_name(w->node->id, name, id, sizeof id);
	text_name(w->node->host, name, host, sizeof host);
	if (sums > 0)
		human_time(sums / batches, collective);
	if (w->node->stale > 0)
		human_count((double)w->node->stale, dropped);
	const char *const cell[] = {
		id,
		human_count(d->samples, samples),
		human_count(d->samples / batches, size),
		human_time(d->time / batches, time),
		human_count(tell_speed(w), speed),
		human_percent(d->time / all, busy),
		human_percent(d->wait / all, wait),
		human_count((double)w->node->restarts, restarts),
		collective,
		dropped,
		host,
	};
	_Static_assert(sizeof cell == COLUMNS * sizeof *cell, "a cell for each column");
	grid_add(table, cell);
}

static void tell_workers(const struct teller *t)
{
	struct report_node *node = t->p->nodes.node;
	size_t count = t->p->nodes.workers, shown = count;
	struct grid table;
	char text[64];
	if (count > t->page->workers) {
		shown = t->page->workers;
		qsort(node, count, sizeof *node, by_speed);
		qsort(node, shown, sizeof *node, report_tell_by_name);
	}
	grid_init(&table, columns, COLUMNS);
	for (size_t i = 0; i < shown; i++)
		report_tell_add_worker(&table, &node[i], t->page->name);
	if (shown < count)
		qsort(node, count, sizeof *node, report_tell_by_name);
	if (count > 0) {
		words(t, REPORT_HEADING, shown < count ? "The slowest workers" : "Workers");
		t->page->table(t->page->to, &table);
	}
	snprintf(text, sizeof text, "and %zu faster ones", count - shown);
	if (shown < count)
		words(t, REPORT_WORDS, text);
	grid_free(&table);
}

/* ---- what was done, what failed ---- */

/* All changes: a brain makes few. */
static void tell_plans(const struct teller *t)
{
	struct section s = {"How it found its resources", SIZE_MAX, 0};
	char text[1024], why[300];
	for (size_t i = 0; i < t->p->a->plans; i++) {
		const struct account_plan *plan = &t->p->a->plan[i];
		report_plan_words(plan, text, sizeof text);
		report_plan_reason(plan, why, sizeof why);
		report_tell_happened(t, &s, plan->at, text, why);
	}
}

static void tell_values(const struct teller *t)
{
	char text[160];
	for (size_t i = 0; i < t->p->a->reported_count; i++) {
		const struct account_reported *v = &t->p->a->reported[i];
		if (i == 0)
			words(t, REPORT_HEADING, "What the trainer reported");
		snprintf(text, sizeof text, "%s: %.6g at last, %.6g (iteration %llu) to %.6g (iteration %llu)",
			 v->name, v->value[0], v->value[1], (unsigned long long)v->iteration[1],
			 v->value[2], (unsigned long long)v->iteration[2]);
		words(t, REPORT_WORDS, text);
	}
}

static void tell_rebalances(const struct teller *t)
{
	struct section s = {"How servers shared their work", t->page->others, 0};
	char text[600];
	for (size_t i = 0; i < t->p->a->rebalances; i++) {
		report_rebalance_words(&t->p->a->rebalance[i], text, sizeof text);
		report_tell_happened(t, &s, t->p->a->rebalance[i].at, text, "");
	}
	report_tell_end(t, &s);
}

static void tell_network(const struct teller *t, int *told, double cost, const char *text)
{
	if (!(cost > LINK_SHARE * account_seconds(t->p->a)))
		return;
	if (!(*told)++)
		words(t, REPORT_HEADING, "What the network cost");
	took(t, cost, text);
}

/* Beside a slow link others look slow in one direction, so that only the worst one is named. Both
 * directions go on at the same time. */
static void tell_links(const struct teller *t)
{
	const struct account *a = t->p->a;
	const struct account_link *worst = NULL;
	char text[600] = "";
	int told = 0;
	for (size_t i = 0; i < a->links; i++) {
		const struct account_link *l = &a->link[i];
		if (!worst ||
		    l->way[0].cost + l->way[1].cost > worst->way[0].cost + worst->way[1].cost)
			worst = l;
	}
	if (!worst)
		return;
	report_link_words(a, worst, text, sizeof text);
	tell_network(t, &told, fmax(worst->way[0].cost, worst->way[1].cost), text);
	tell_network(t, &told, a->fabric_saves[1],
		     "saved by FABRIC=mlfabric: an estimate by the links' rates");
	tell_network(t, &told, a->fabric_saves[0],
		     a->fabric[0]
			     ? "less with FABRIC=mlfabric: an estimate by the links' rates"
			     : "less with FABRIC=mlfabric and a bound of the delay (SYNC delay): "
			       "an estimate by the links' rates");
}

static void tell_turns(const struct teller *t)
{
	struct section s = {"How its nodes changed", t->page->others, 0};
	char text[600], why[300];
	for (size_t i = 0; i < t->p->a->turns; i++) {
		const struct account_turn *turn = &t->p->a->turn[i];
		if (report_turn_words(turn, text, sizeof text, why, sizeof why))
			report_tell_happened(t, &s, turn->at, text, why);
	}
	report_tell_end(t, &s);
}

static int by_gain(const void *a, const void *b)
{
	const struct effect *p = *(const struct effect *const *)a;
	const struct effect *q = *(const struct effect *const *)b;
	double x = isnan(p->saved) ? 0 : fabs(p->saved), y = isnan(q->saved) ? 0 : fabs(q->saved);
	return (x < y) - (x > y);
}

static int report_tell_by_time(const void *a, const void *b)
{
	const struct effect *p = *(const struct effect *const *)a;
	const struct effect *q = *(const struct effect *const *)b;
	return (p > q) - (p < q);
}

static void tell_effect(const struct teller *t, struct section *s, const struct effect *e)
{
	const struct account_mark *m = &t->p->a->mark[e->mark];
	char text[1024], what[300], before[HUMAN_MAX], after[HUMAN_MAX], saved[HUMAN_MAX];
	report_effect_words(t->p, e, what, sizeof what);
	if (isnan(e->saved))
		snprintf(text, sizeof text, "%s; the effect is not known", what);
	else
		snprintf(text, sizeof text, "%s: from %s to %s samples/s (x%.2f); %s %s", what,
			 human_count(e->before, before), human_count(e->after, after),
			 e->after / e->before, e->saved >= 0 ? "saved" : "lost",
			 human_time(fabs(e->saved), saved));
	report_tell_happened(t, s, e->from, text, m->reason ? m->reason : "");
}

/* The decisions that changed most, in order of time. */
static void tell_effects(const struct teller *t)
{
	const struct report *p = t->p;
	const struct effect **list = calloc(p->effects + 1, sizeof *list);
	size_t count = list ? p->effects : 0;
	struct section s = {"What was decided", t->page->effects, 0};
	for (size_t i = 0; i < count; i++)
		list[i] = &p->effect[i];
	if (count > s.most) {
		s.heading = "The decisions that changed most";
		qsort(list, count, sizeof *list, by_gain);
		qsort(list, s.most, sizeof *list, report_tell_by_time);
	}
	for (size_t i = 0; i < count; i++)
		tell_effect(t, &s, list[i]);
	report_tell_end(t, &s);
	free(list);
	if (count == 0 && strncmp(p->a->solution, "lb-bsp", 6) == 0) {
		words(t, REPORT_HEADING, s.heading);
		words(t, REPORT_WORDS,
		      "Batch sizes were set at every barrier; balance.log has them, with reasons.");
	}
}

static void tell_failures(const struct teller *t)
{
	struct section s = {"What failed", t->page->failures, 0};
	for (size_t i = 0; i < t->p->a->marks; i++) {
		const struct account_mark *m = &t->p->a->mark[i];
		char text[600] = "all servers go back to a checkpoint";
		if (m->kind != ACCOUNT_ROLLBACK)
			report_restart_words(t->p, m, text, sizeof text);
		if (report_is_failure(m))
			report_tell_happened(t, &s, m->at, text, "");
	}
	report_tell_end(t, &s);
}

int report_tell(const struct report *p, const struct report_page *page, struct error *err)
{
	const struct teller t = {p, page};
	tell_job(&t);
	if (page->verdict_first)
		report_tell_verdict(p, page);
	tell_could(&t);
	tell_costs(&t);
	if (page->courses(page->to, p, err) != 0)
		return -1;
	tell_workers(&t);
	tell_values(&t);
	tell_plans(&t);
	tell_rebalances(&t);
	tell_links(&t);
	tell_turns(&t);
	tell_effects(&t);
	tell_failures(&t);
	if (!page->verdict_first)
		report_tell_verdict(p, page);
	return 0;
}

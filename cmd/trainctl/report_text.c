/* report: on a terminal, in words and in numbers as people read them. */
#include "cmd/trainctl/report.h"

#include "base/human.h"
#include "base/number.h"
#include "cmd/trainctl/terminal.h"
#include "monitor/node.h"
#include "screen/grid.h"
#include "screen/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 80 /* where standard output is no terminal */
#define WIDTH_MIN 40
#define WIDTH_MAX 100 /* longer lines are hard to read */
#define WIDE 72
#define NAME_WIDTH 20
#define WORKERS_MAX 16
#define EFFECTS_MAX 8
#define FAILURES_MAX 8
#define REBALANCES_MAX 20
#define TURNS_MAX 30
#define LINE_COLUMNS 40 /* of a course */

/* ---- a paragraph ---- */

struct page {
	FILE *out;
	size_t width;
	int utf8;
};

/* first, then text in as many lines as it takes; later ones begin below its beginning. */
static void put_words(const struct page *g, const char *first, size_t indent, const char *text)
{
	char line[1024];
	text_clean(text, line, sizeof line);
	fprintf(g->out, "%s%*s", first, (int)(indent - text_width(first)), "");
	for (const char *at = line, *next; *at; at = next) {
		size_t bytes = text_fold(at, g->width - indent, &next);
		fprintf(g->out, "%*s%.*s\n", at > line ? (int)indent : 0, "", (int)bytes, at);
	}
}

static void put_heading(const struct page *g, const char *text)
{
	struct screen_line line = {.tint = TINT_STRONG, .len = strlen(text)};
	snprintf(line.text, sizeof line.text, "%s", text);
	putc('\n', g->out);
	terminal_put(&line);
}

/* ---- what it was ---- */

static void put_job(const struct page *g, const struct report *p)
{
	const struct account *a = p->a;
	char text[1024];
	report_title(p, text, sizeof text);
	put_words(g, "", 0, text);
	if (a->error)
		put_words(g, "  ", 2, a->error);
	report_subtitle(p, text, sizeof text);
	put_words(g, "  ", 2, text);
	if (a->repeated > 0) {
		char samples[HUMAN_MAX];
		snprintf(text, sizeof text,
			 "%s samples were trained again, after going back to a checkpoint",
			 human_count((double)a->repeated, samples));
		put_words(g, "  ", 2, text);
	}
	if (a->auc[0]) {
		snprintf(text, sizeof text, "TEST: AUC %.6s, log loss %.6s", a->auc, a->logloss);
		put_words(g, "  ", 2, text);
	}
}

/* ---- what it took ---- */

static void put_could(const struct page *g, const struct report *p)
{
	const struct cost *c = &p->cost;
	char text[400], time[HUMAN_MAX], first[64];
	put_heading(g, "How long it took");
	human_time(c->seconds, time);
	snprintf(first, sizeof first, "  %11s ", time);
	put_words(g, first, 16, "with all that happened");
	double jct;
	if (number_real(p->a->jct, 0, c->seconds, &jct, NULL, NULL) == 0) {
		human_time(jct, time);
		snprintf(first, sizeof first, "  %11s ", time);
		put_words(g, first, 16, "of these, from the first shard to the last (jct)");
	}
	if (!c->known) {
		put_words(g, "", 16,
			  "what it could have taken is not known: the log has no measurements");
		return;
	}
	human_time(c->busy, time);
	snprintf(first, sizeof first, "  %11s ", time);
	snprintf(text, sizeof text, "without stragglers (%.2f times as fast)",
		 c->busy > 0 ? c->seconds / c->busy : 1);
	put_words(g, first, 16, text);
	if (c->even < 0.98 * c->busy) {
		human_time(c->even, time);
		snprintf(first, sizeof first, "  %11s ", time);
		put_words(g, first, 16, "and with every worker as fast as the median one");
	}
}

static void put_costs(const struct page *g, const struct report *p)
{
	enum cost_kind kind[COST_KINDS];
	size_t count = report_costs(p, kind);
	put_heading(g, "Where the time went");
	for (size_t i = 0; i < count; i++) {
		double seconds = p->cost.of[kind[i]], part = seconds / p->cost.seconds;
		char time[HUMAN_MAX], first[64], text[300];
		snprintf(first, sizeof first, "  %11s %4.*f%%  ", human_time(seconds, time),
			 part < 0.0995 ? 1 : 0, 100 * part);
		report_cost_words(p, kind[i], text, sizeof text);
		put_words(g, first, 22, text);
	}
}

/* ---- courses ---- */

/* A value a column, from least (or from low) to greatest; NAN: a blank. */
static void put_line(const struct page *g, const double *value, size_t count, double low)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char ascii[] = "_.-=+*%#";
	double high = -INFINITY;
	for (size_t i = 0; i < count; i++)
		if (!isnan(value[i])) {
			low = fmin(low, value[i]);
			high = fmax(high, value[i]);
		}
	for (size_t i = 0; i < count; i++) {
		double part = high > low ? (value[i] - low) / (high - low) : 0.5;
		int k = (int)(part * 7.999);
		if (isnan(value[i]))
			putc(' ', g->out);
		else if (g->utf8)
			fputs(blocks[k], g->out);
		else
			putc(ascii[k], g->out);
	}
}

/* Columns are pieces of the time in which the job ran. One without a row has what the one before it
 * has. */
static size_t fill_losses(const struct account *a, double *value, size_t count, double *first,
			  double *last)
{
	size_t row = 0, shown = a->rows < count ? a->rows : count;
	double before = NAN;
	*first = *last = NAN;
	if (shown == 0)
		return 0;
	double begin = account_seconds_by(a, a->row[0].at);
	double length = account_seconds_by(a, a->row[a->rows - 1].at) - begin;
	for (size_t i = 0; i < shown; i++) {
		double sum = 0, weight = 0;
		double until = account_at(a, begin + length * (double)(i + 1) / (double)shown);
		for (; row < a->rows && (a->row[row].at <= until || i + 1 == shown); row++) {
			double w = fmax(a->row[row].weight, 1e-9);
			if (isnan(a->row[row].loss))
				continue;
			sum += w * a->row[row].loss;
			weight += w;
			*first = isnan(*first) ? a->row[row].loss : *first;
			*last = a->row[row].loss;
		}
		before = value[i] = weight > 0 ? sum / weight : before;
	}
	return shown;
}

static void fill_paces(const struct account *a, double *value, size_t count)
{
	double begin = NAN, end = NAN;
	for (size_t i = 0; i < a->nodes; i++) {
		const struct account_node *n = &a->node[i];
		if (!account_is_worker(n) || n->points < 2)
			continue;
		begin = fmin(begin, n->point[0].at);
		end = fmax(end, n->point[n->points - 1].at);
	}
	begin = account_seconds_by(a, begin);
	double length = account_seconds_by(a, end) - begin;
	for (size_t k = 0; k < count; k++) {
		double from = account_at(a, begin + length * (double)k / (double)count), sum = 0;
		double to = account_at(a, begin + length * (double)(k + 1) / (double)count);
		for (size_t i = 0; i < a->nodes; i++)
			if (account_is_worker(&a->node[i]))
				sum += account_between(&a->node[i], from, to).samples;
		value[k] = length > 0 ? sum * (double)count / length : NAN;
	}
}

static void put_courses(const struct page *g, const struct report *p)
{
	double value[LINE_COLUMNS], first, last;
	int wide = g->width >= WIDE; /* for what all could do */
	size_t besides = wide ? 46 : 34;
	size_t room = g->width > LINE_COLUMNS + besides ? LINE_COLUMNS : g->width - besides;
	size_t shown = fill_losses(p->a, value, room, &first, &last);
	if (!isnan(last)) {
		fprintf(g->out, "\n  loss  %8.4g ", first);
		put_line(g, value, shown, INFINITY);
		fprintf(g->out, " %.4g\n", last);
	}
	if (!p->cost.known)
		return;
	char pace[HUMAN_MAX], could[HUMAN_MAX];
	fill_paces(p->a, value, room);
	fprintf(g->out, "%s  pace  %8s ", isnan(last) ? "\n" : "", "");
	put_line(g, value, room, 0);
	fprintf(g->out, " %s samples/s", human_count(p->cost.pace, pace));
	if (wide)
		fprintf(g->out, "; all: %s", human_count(p->cost.could, could));
	putc('\n', g->out);
}

/* ---- workers ---- */

static int by_speed(const void *a, const void *b)
{
	double x = ((const struct report_worker *)a)->speed;
	double y = ((const struct report_worker *)b)->speed;
	return (x > y) - (x < y);
}

static int by_name(const void *a, const void *b)
{
	return node_id_compare(((const struct report_worker *)a)->node->id,
			       ((const struct report_worker *)b)->node->id);
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
	{.head = "host", .rank = 6, .if_any = 1},
};
#define COLUMNS (sizeof columns / sizeof *columns)

static void add_worker(struct grid *t, const struct report_worker *w)
{
	char id[OPTION_ID_MAX], samples[HUMAN_MAX], size[HUMAN_MAX], time[HUMAN_MAX];
	char speed[HUMAN_MAX], busy[HUMAN_MAX], wait[HUMAN_MAX], restarts[HUMAN_MAX];
	char collective[HUMAN_MAX] = "", host[OPTION_ID_MAX];
	double batches = w->batches > 0 ? w->batches : NAN, all = report_worker_seconds(w);
	text_name(w->node->id, NAME_WIDTH, id, sizeof id);
	text_name(w->node->host, NAME_WIDTH, host, sizeof host);
	if (w->collective > 0)
		human_time(w->collective / batches, collective);
	const char *const cell[COLUMNS] = {id,
					   human_count(w->samples, samples),
					   human_count(w->samples / batches, size),
					   human_time(w->time / batches, time),
					   human_count(w->speed, speed),
					   human_percent(w->time / all, busy),
					   human_percent(w->wait / all, wait),
					   human_count((double)w->node->restarts, restarts),
					   collective,
					   host};
	grid_add(t, cell);
}

static void put_table(const struct page *g, const struct grid *t)
{
	size_t layout[GRID_MAX];
	char line[1024];
	grid_layout(t, g->width - 2, layout);
	grid_line(t, layout, GRID_HEAD, line, sizeof line);
	fprintf(g->out, "  %s\n", line);
	for (size_t i = 0; i < t->rows; i++) {
		grid_line(t, layout, i, line, sizeof line);
		fprintf(g->out, "  %s\n", line);
	}
}

static void put_workers(const struct page *g, const struct report *p)
{
	size_t count, shown;
	struct report_worker *list = report_workers(p, &count);
	struct grid table;
	grid_init(&table, columns, COLUMNS);
	shown = count;
	if (count > WORKERS_MAX) {
		qsort(list, count, sizeof *list, by_speed);
		shown = WORKERS_MAX;
		qsort(list, shown, sizeof *list, by_name);
	}
	for (size_t i = 0; i < shown; i++)
		add_worker(&table, &list[i]);
	if (count > 0) {
		put_heading(g, shown < count ? "The slowest workers" : "Workers");
		put_table(g, &table);
	}
	if (shown < count)
		fprintf(g->out, "  and %zu faster ones\n", count - shown);
	grid_free(&table);
	free(list);
}

/* ---- what was done, what failed ---- */

/* "  1 min 5 s  ", from the beginning of the job. */
static void put_when(const struct report *p, double at, char *out, size_t max)
{
	char time[HUMAN_MAX];
	human_time(account_seconds_by(p->a, at), time);
	snprintf(out, max, "  %11s ", time);
}

static void put_effect(const struct page *g, const struct report *p, const struct effect *e)
{
	const struct account_mark *m = &p->a->mark[e->mark];
	char text[1024], words[300], first[64], before[HUMAN_MAX], after[HUMAN_MAX],
		saved[HUMAN_MAX];
	report_effect_words(p, e, words, sizeof words);
	put_when(p, e->from, first, sizeof first);
	human_count(e->before, before);
	human_count(e->after, after);
	if (isnan(e->saved))
		snprintf(text, sizeof text, "%s; what that changed is not known", words);
	else {
		human_time(fabs(e->saved), saved);
		snprintf(text, sizeof text, "%s: from %s to %s samples/s (x%.2f); %s %s", words,
			 before, after, e->after / e->before, e->saved >= 0 ? "saved" : "lost",
			 saved);
	}
	put_words(g, first, 16, text);
	if (m->reason && m->reason[0]) {
		snprintf(text, sizeof text, "%s", m->reason);
		put_words(g, "", 16, text);
	}
}

static void put_effects(const struct page *g, const struct report *p)
{
	size_t shown;
	const struct effect **list = report_effects(p, EFFECTS_MAX, &shown);
	if (shown == 0 && strncmp(p->a->solution, "lb-bsp", 6) == 0) {
		put_heading(g, "What was decided");
		put_words(g, "  ", 2,
			  "Batch sizes at every barrier; balance.log has them, with reasons.");
	}
	if (shown > 0)
		put_heading(g, shown < p->effects ? "The decisions that changed most"
						  : "What was decided");
	for (size_t i = 0; i < shown; i++)
		put_effect(g, p, list[i]);
	if (shown < p->effects)
		fprintf(g->out, "  and %zu others; --records shows all\n", p->effects - shown);
	free(list);
}

/* All of them: a brain makes few. */
static void put_plans(const struct page *g, const struct report *p)
{
	char text[1024], first[64];
	if (p->a->plans > 0)
		put_heading(g, "How it found its resources");
	for (size_t i = 0; i < p->a->plans; i++) {
		const struct account_plan *plan = &p->a->plan[i];
		put_when(p, plan->at, first, sizeof first);
		report_plan_words(plan, text, sizeof text);
		put_words(g, first, 16, text);
		report_plan_reason(plan, text, sizeof text);
		put_words(g, "", 16, text);
	}
}

static void put_rebalances(const struct page *g, const struct report *p)
{
	char text[600], first[64];
	if (p->a->rebalances > 0)
		put_heading(g, "How servers shared their work");
	for (size_t i = 0; i < p->a->rebalances && i < REBALANCES_MAX; i++) {
		put_when(p, p->a->rebalance[i].at, first, sizeof first);
		report_rebalance_words(&p->a->rebalance[i], text, sizeof text);
		put_words(g, first, 16, text);
	}
}

static void put_turns(const struct page *g, const struct report *p)
{
	char text[600], why[300], first[64];
	size_t shown = 0, count = 0;
	for (size_t i = 0; i < p->a->turns; i++) {
		const struct account_turn *t = &p->a->turn[i];
		if (!report_turn_words(t, text, sizeof text, why, sizeof why) ||
		    ++count > TURNS_MAX)
			continue;
		if (shown++ == 0)
			put_heading(g, "How its nodes changed");
		put_when(p, t->at, first, sizeof first);
		put_words(g, first, 16, text);
		if (why[0])
			put_words(g, "", 16, why);
	}
	if (shown < count)
		fprintf(g->out, "  and %zu others; --records shows all\n", count - shown);
}

static void put_failure(const struct page *g, const struct report *p, const struct account_mark *m)
{
	char text[600], first[64];
	put_when(p, m->at, first, sizeof first);
	if (m->kind == ACCOUNT_ROLLBACK)
		snprintf(text, sizeof text, "all servers go back to a checkpoint");
	else
		report_restart_words(p, m, text, sizeof text);
	put_words(g, first, 16, text);
}

static void put_failures(const struct page *g, const struct report *p)
{
	size_t count = 0, shown = 0;
	for (size_t i = 0; i < p->a->marks; i++)
		count += report_is_failure(&p->a->mark[i]) != 0;
	if (count == 0)
		return;
	put_heading(g, "What failed");
	for (size_t i = 0; i < p->a->marks && shown < FAILURES_MAX; i++)
		if (report_is_failure(&p->a->mark[i])) {
			put_failure(g, p, &p->a->mark[i]);
			shown++;
		}
	if (shown < count)
		fprintf(g->out, "  and %zu others; --records shows all\n", count - shown);
}

void report_text(const struct report *p, FILE *out)
{
	size_t width = terminal_open() == TERMINAL_NONE ? WIDTH : terminal_width();
	width = width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
	const struct page g = {out, width, text_has_blocks()};
	put_job(&g, p);
	put_could(&g, p);
	put_costs(&g, p);
	put_courses(&g, p);
	put_workers(&g, p);
	put_plans(&g, p);
	put_rebalances(&g, p);
	put_turns(&g, p);
	put_effects(&g, p);
	put_failures(&g, p);
}

/* report: the writer for terminals, in words and human numbers. */
#include "cmd/trainctl/report.h"

#include "base/human.h"
#include "cmd/trainctl/terminal.h"
#include "screen/grid.h"
#include "screen/text.h"

#include <math.h>
#include <string.h>

#define WIDTH 80 /* where standard output is no terminal */
#define WIDTH_MIN 40
#define WIDTH_MAX 100 /* longer lines are hard to read */
#define WIDE 72
#define LINE_COLUMNS 40 /* of a course */

struct text {
	size_t width;
	int utf8;
};

/* ---- words ---- */

/* Prints `first`, then text in as many lines as needed, indented below its beginning. */
static void put_words(const struct text *g, const char *first, size_t indent, const char *text)
{
	char line[1024];
	text_clean(text, line, sizeof line);
	printf("%s%*s", first, (int)(indent - text_width(first)), "");
	for (const char *at = line, *next; *at; at = next) {
		size_t bytes = text_fold(at, g->width - indent, &next);
		printf("%*s%.*s\n", at > line ? (int)indent : 0, "", (int)bytes, at);
	}
}

static void text_paragraph(void *to, enum report_words kind, const char *text)
{
	struct screen_line line = {.tint = TINT_STRONG, .len = strlen(text)};
	if (kind != REPORT_HEADING) {
		put_words(to, "", kind == REPORT_TITLE ? 0 : 2, text);
		return;
	}
	snprintf(line.text, sizeof line.text, "%s", text);
	putchar('\n');
	terminal_put(&line);
}

static void text_row(void *to, const struct report_row *row)
{
	char time[HUMAN_MAX] = "", first[64];
	size_t indent = isnan(row->share) ? 16 : 22;
	if (!isnan(row->seconds))
		human_time(row->seconds, time);
	if (row->label)
		snprintf(time, sizeof time, "%s", row->label);
	int at = snprintf(first, sizeof first, "  %11s ", time);
	if (!isnan(row->share))
		snprintf(first + at, sizeof first - (size_t)at, "%4.*f%%  ",
			 row->share < 0.0995 ? 1 : 0, 100 * row->share);
	put_words(to, first, indent, row->text);
	if (row->why[0])
		put_words(to, "", indent, row->why);
}

static void text_table(void *to, const struct grid *t)
{
	const struct text *g = to;
	size_t layout[GRID_MAX];
	char line[1024];
	grid_layout(t, g->width - 2, layout);
	for (size_t i = 0; i <= t->rows; i++) {
		grid_line(t, layout, i == 0 ? GRID_HEAD : i - 1, line, sizeof line);
		printf("  %s\n", line);
	}
}

/* ---- courses ---- */

/* One character for each value, from least (or from low) to greatest; NAN: a blank. */
static void report_text_put_line(const struct text *g, const double *value, size_t count,
				 double low)
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
			putchar(' ');
		else if (g->utf8)
			fputs(blocks[k], stdout);
		else
			putchar(ascii[k]);
	}
}

/* Each column is a piece of the job's running time. A column without a row repeats the column
 * before. */
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

static void fill_speeds(const struct account *a, double *value, size_t count)
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

static int text_courses(void *to, const struct report *p, struct error *err)
{
	const struct text *g = to;
	double value[LINE_COLUMNS], first, last;
	(void)err;
	int wide = g->width >= WIDE; /* for the speed of all workers together */
	size_t besides = wide ? 46 : 34;
	size_t room = g->width > LINE_COLUMNS + besides ? LINE_COLUMNS : g->width - besides;
	size_t shown = fill_losses(p->a, value, room, &first, &last);
	if (!isnan(last)) {
		printf("\n  loss  %8.4g ", first);
		report_text_put_line(g, value, shown, INFINITY);
		printf(" %.4g\n", last);
	}
	if (!p->cost.known)
		return 0;
	char speed[HUMAN_MAX], could[HUMAN_MAX];
	fill_speeds(p->a, value, room);
	printf("%s  speed %8s ", isnan(last) ? "\n" : "", "");
	report_text_put_line(g, value, room, 0);
	printf(" %s samples/s", human_count(p->cost.speed, speed));
	if (wide)
		printf("; all: %s", human_count(p->cost.could, could));
	putchar('\n');
	return 0;
}

void report_text(const struct report *p, int only_verdict)
{
	size_t width = terminal_open() == TERMINAL_NONE ? WIDTH : terminal_width();
	width = width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
	struct text g = {width, text_has_blocks()};
	const struct report_page page = {.workers = 16,
					 .effects = 8,
					 .failures = 8,
					 .others = 30,
					 .name = 20,
					 .words = text_paragraph,
					 .row = text_row,
					 .table = text_table,
					 .courses = text_courses,
					 .to = &g};
	if (only_verdict)
		report_tell_verdict(p, &page);
	else
		report_tell(p, &page, NULL);
}

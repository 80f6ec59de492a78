/* report: the pictures, as commands for gnuplot(1) with their data in them. How many points there are
 * is bounded, however long the job was and however many nodes it had. Colours are those of Okabe and
 * Ito, which colour-blind readers can tell apart; names from the log can't end a string. */
#include "cmd/trainctl/report.h"

#include "base/utf8.h"
#include "monitor/node.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS 300        /* of a curve */
#define LINES_MAX 10       /* more workers: those that stand out, and where the others are */
#define LINES_OF_MANY 6
#define MARKS_MAX 16       /* more: without lines, only where they are */
#define MARKS_PLACES 300   /* places for marks */
#define MARGINS 115        /* above and below a plot, in pixels */
#define LABEL_PART 0.05    /* of the width, between two names over marks */
#define ROWS_MAX 40        /* of the Gantt chart */
#define SERVER_ROWS_MAX 8
#define BOXES 6000         /* of the Gantt chart, about */
#define SHARDS_LEAST 5     /* below that the picture is of samples */
#define BARS_MAX 40        /* workers of the bar chart */
#define NAME_MAX_SHOWN 16  /* letters of a node's name */

const char *const picture_name[PICTURES] = {"loss", "pace", "batch-size",
					    "batch-time", "gantt", "shards"};
const char *const picture_title[PICTURES] = {
	"Loss",
	"Pace of the job",
	"Batch size of each worker",
	"Batch time of each worker, waiting left out",
	"What the nodes did",
	"Shards taken against speed"};
const char *const picture_caption[PICTURES] = {
	[PICTURE_LOSS] = "The mean loss of the samples between two points, of the model as it was "
			 "before it saw them.",
	[PICTURE_PACE] = "Samples a second of all workers. Above it what they could do if none of "
			 "them waited for a slower one, was down or idle.",
	[PICTURE_SIZE] = "Samples of a batch. A solution that balances gives slow workers smaller "
			 "batches and fast ones larger.",
	[PICTURE_TIME] = "Computing and communicating, per batch. Under BSP the slowest one sets "
			 "the pace: a job is balanced where the curves meet.",
	[PICTURE_GANTT] = "A row a node; the height of a colour is its share of the time. What is "
			  "light was spent on anything else: asking for shards, having nothing to do.",
	[PICTURE_SHARDS] = "How many shards each worker took, and how fast it was while it "
			   "worked. A worker whose speed is above what it took waited for others."};

/* ---- text and time ---- */

/* In single quotes gnuplot replaces nothing but a doubled quote. */
static void put_text(FILE *out, const char *text)
{
	char plain[128];
	snprintf(plain, sizeof plain, "%s", text);
	utf8_plain(plain);
	putc('\'', out);
	for (const char *c = plain; *c; c++) {
		if (*c == '\'')
			putc('\'', out);
		putc(*c, out);
	}
	putc('\'', out);
}

/* The name of a node, cut where it is long. */
static void put_name(FILE *out, const char *id)
{
	char name[NAME_MAX_SHOWN + 1];
	snprintf(name, sizeof name, "%s", id);
	if (strlen(id) > NAME_MAX_SHOWN)
		memset(name + NAME_MAX_SHOWN - 2, '.', 2);
	put_text(out, name);
}

struct axis {
	double unit; /* seconds */
	const char *word;
};

static struct axis axis_of(const struct report *p)
{
	double all = account_seconds(p->a);
	if (all < 300)
		return (struct axis){1, "seconds"};
	if (all < 3 * 3600)
		return (struct axis){60, "minutes"};
	if (all < 3 * 86400)
		return (struct axis){3600, "hours"};
	return (struct axis){86400, "days"};
}

/* A piece of the time in which the job ran, as it was and as it is drawn. */
struct window {
	double from, to;
	double x0, x1;
	enum cost_kind kind; /* COST_TOGETHER: workers train */
};

/* Runs of the same kind one after the other are one; each gets windows by its length. To be freed;
 * NULL: no memory. */
static struct window *make_windows(const struct report *p, size_t most, size_t *count)
{
	const struct account_spans *s = &p->a->phase_spans;
	double all = account_seconds(p->a), unit = axis_of(p).unit, x = 0;
	struct window *w = calloc(most + s->count + 1, sizeof *w);
	*count = 0;
	for (size_t i = 0; w && i < s->count; i++) {
		const struct account_span *span = &s->span[i];
		double length = span->to - span->from;
		if (span->what >= ACCOUNT_PHASES_MAX || !(length > 0))
			continue;
		size_t n = (size_t)((double)most * length / all);
		n = n > 0 ? n : 1;
		for (size_t k = 0; k < n && *count < most + s->count; k++) {
			double a = length * (double)k / (double)n;
			double b = length * (double)(k + 1) / (double)n;
			w[(*count)++] = (struct window){span->from + a, span->from + b,
							(x + a) / unit, (x + b) / unit,
							cost_phase(p->a, span->what)};
		}
		x += length;
	}
	return w;
}

static double x_of(const struct report *p, double at)
{
	return account_seconds_by(p->a, at) / axis_of(p).unit;
}

/* ---- what all have ---- */

static const char *const colours[] = {"#0072B2", "#E69F00", "#009E73", "#CC79A7",
				      "#56B4E9", "#D55E00", "#000000"};
#define COLOURS (sizeof colours / sizeof *colours)
#define ACTION_COLOUR "#555555"
#define FAILURE_COLOUR "#B00020"

static void put_head(enum picture what, FILE *out)
{
	fputs("reset\nset encoding utf8\nset termoption noenhanced\n"
	      "set border 3 lc rgb '#777777'\nset tics nomirror out textcolor rgb '#333333'\n"
	      "set grid ytics lt 1 lw 0.5 lc rgb '#DDDDDD'\n"
	      "set key outside right top vertical Left reverse samplen 2 width 1 "
	      "textcolor rgb '#333333'\nset title ",
	      out);
	put_text(out, picture_title[what]);
	fputs(" font ',15' offset 0,1.2\nset tmargin 5\n", out);
}

/* Pictures one below the other have the same times one below the other. */
static size_t left_margin(const struct report *p)
{
	size_t longest = 0;
	for (size_t i = 0; i < p->a->nodes; i++) {
		size_t length = strlen(p->a->node[i].id);
		longest = length > longest ? length : longest;
	}
	return longest < 7 ? 9 : longest < NAME_MAX_SHOWN ? longest + 2 : NAME_MAX_SHOWN + 2;
}

static void put_time_axis(const struct report *p, FILE *out)
{
	struct axis axis = axis_of(p);
	double all = account_seconds(p->a) / axis.unit;
	fprintf(out, "set lmargin %zu\nset rmargin 20\nset xlabel 'time (%s)'\nset xrange [0:%.9g]\n",
		left_margin(p), axis.word, all > 0 ? all : 1);
}

struct marks {
	size_t actions, failures, goes_on;
	double labelled; /* how far to the right there is a name */
	double pixel;    /* of the plot's height */
	unsigned char taken[2][MARKS_PLACES + 1];
};

/* Above the plot: failures above actions. */
static void put_mark(const struct report *p, struct marks *m, int failure, double at, int line,
		     size_t node, FILE *out)
{
	double x = x_of(p, at), all = account_seconds(p->a) / axis_of(p).unit;
	const char *colour = failure ? FAILURE_COLOUR : ACTION_COLOUR;
	size_t place = all > 0 ? (size_t)fmin(x / all * MARKS_PLACES, MARKS_PLACES) : 0;
	*(failure ? &m->failures : &m->actions) += 1;
	if (m->taken[failure][place])
		return;
	m->taken[failure][place] = 1;
	if (line)
		fprintf(out,
			"set arrow from first %.9g, graph 0 to first %.9g, graph 1 nohead front lw 1 "
			"dt %s lc rgb '%s'\n",
			x, x, failure ? "3" : "2", colour);
	double y = 1 + (failure ? 20 : 7) * m->pixel;
	fprintf(out,
		"set label '' at first %.9g, graph %.5f point pt %d ps %s lw 2 lc rgb '%s'\n", x, y,
		failure ? 2 : 11, failure ? "0.8" : "0.7", colour);
	if (node == ACCOUNT_NOBODY || x < m->labelled)
		return;
	m->labelled = x + all * LABEL_PART;
	fputs("set label ", out);
	put_name(out, p->a->node[node].id);
	fprintf(out, " at first %.9g, graph %.5f offset 0.7,0 font ',10' textcolor rgb '%s'\n", x,
		y + 2 * m->pixel, colour);
}

/* What was done and what failed, as lines through the whole picture. */
static void put_marks(const struct report *p, enum picture what, struct marks *m, FILE *out)
{
	const struct account *a = p->a;
	size_t failures = 0;
	*m = (struct marks){.labelled = -1, .pixel = 1.0 / (picture_height(p, what) - MARGINS)};
	for (size_t i = 0; i < a->marks; i++)
		failures += report_is_failure(&a->mark[i]) != 0;
	for (size_t i = 0; i < a->marks; i++) {
		const struct account_mark *k = &a->mark[i];
		if (report_is_failure(k))
			put_mark(p, m, 1, k->at, failures <= MARKS_MAX, k->node, out);
		else if (k->kind == ACCOUNT_RESTART)
			put_mark(p, m, 0, k->at, p->effects <= MARKS_MAX, k->node, out);
	}
	for (size_t i = 0; i < p->effects; i++)
		put_mark(p, m, 0, p->effect[i].from, p->effects <= MARKS_MAX, ACCOUNT_NOBODY, out);
}

/* The legend's lines of the marks. */
static void put_marks_key(const struct marks *m, FILE *out)
{
	if (m->actions > 0)
		fputs(", NaN with linespoints dt 2 lw 1 pt 11 ps 0.7 lc rgb '" ACTION_COLOUR
		      "' title 'action'",
		      out);
	if (m->failures > 0)
		fputs(", NaN with linespoints dt 3 lw 1 pt 2 ps 0.8 lc rgb '" FAILURE_COLOUR
		      "' title 'failure'",
		      out);
	fputs("\n", out);
}

/* ---- curves of workers ---- */

struct curves {
	struct window *window;
	size_t windows;
	const struct account_node **worker;
	size_t workers;
	double *value; /* of worker i in window k: value[i * windows + k]; NAN: none */
	double *stands_out; /* by how much a worker differs from the others */
};

static void curves_free(struct curves *c)
{
	free(c->window);
	free(c->worker);
	free(c->value);
	free(c->stands_out);
}

static int by_id(const void *a, const void *b)
{
	const struct account_node *p = *(const struct account_node *const *)a;
	const struct account_node *q = *(const struct account_node *const *)b;
	return node_id_compare(p->id, q->id);
}

/* Workers (or servers) that have done anything, in the order of their names. */
static size_t list_nodes(const struct report *p, const char *role,
			 const struct account_node **list)
{
	size_t count = 0;
	for (size_t i = 0; i < p->a->nodes; i++)
		if (strcmp(p->a->node[i].role, role) == 0)
			list[count++] = &p->a->node[i];
	qsort(list, count, sizeof *list, by_id);
	return count;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The values of all workers in a window, sorted. */
static size_t sorted_values(const struct curves *c, size_t window, double *sorted)
{
	size_t count = 0;
	for (size_t i = 0; i < c->workers; i++)
		if (!isnan(c->value[i * c->windows + window]))
			sorted[count++] = c->value[i * c->windows + window];
	qsort(sorted, count, sizeof *sorted, compare);
	return count;
}

static void find_outstanding(struct curves *c, double *sorted)
{
	for (size_t k = 0; k < c->windows; k++) {
		size_t count = sorted_values(c, k, sorted);
		double middle = count > 0 ? sorted[count / 2] : NAN;
		for (size_t i = 0; i < c->workers && middle > 0; i++) {
			double value = c->value[i * c->windows + k];
			if (value > 0)
				c->stands_out[i] += fabs(log(value / middle));
		}
	}
}

static int make_curves(const struct report *p, struct curves *c,
		       double (*value)(const struct account_point *did))
{
	size_t windows;
	*c = (struct curves){0};
	c->window = make_windows(p, WINDOWS, &windows);
	c->windows = windows;
	c->worker = calloc(p->a->nodes + 1, sizeof *c->worker);
	if (!c->window || !c->worker)
		return -1;
	c->workers = list_nodes(p, "worker", c->worker);
	c->value = calloc(c->workers * windows + 1, sizeof *c->value);
	c->stands_out = calloc(c->workers + 1, sizeof *c->stands_out);
	double *sorted = calloc(c->workers + 1, sizeof *sorted);
	if (!c->value || !c->stands_out || !sorted) {
		free(sorted);
		return -1;
	}
	for (size_t i = 0; i < c->workers; i++)
		for (size_t k = 0; k < windows; k++) {
			const struct window *w = &c->window[k];
			struct account_point did = account_between(c->worker[i], w->from, w->to);
			c->value[i * windows + k] = did.batches > 0 ? value(&did) : NAN;
		}
	find_outstanding(c, sorted);
	free(sorted);
	return 0;
}

/* Which workers have a line of their own: all, or those that stand out. */
static void choose_lines(const struct curves *c, unsigned char *chosen)
{
	size_t most = c->workers <= LINES_MAX ? c->workers : LINES_OF_MANY;
	for (size_t n = 0; n < most; n++) {
		size_t best = c->workers;
		for (size_t i = 0; i < c->workers; i++)
			if (!chosen[i] &&
			    (best == c->workers || c->stands_out[i] > c->stands_out[best]))
				best = i;
		chosen[best] = 1;
	}
}

static void put_curve(const struct curves *c, size_t worker, double scale, FILE *out)
{
	int gap = 0;
	fprintf(out, "$w%zu << EOD\n", worker);
	for (size_t k = 0; k < c->windows; k++) {
		double value = c->value[worker * c->windows + k];
		if (isnan(value)) {
			if (!gap)
				fputs("\n", out);
			gap = 1;
			continue;
		}
		gap = 0;
		fprintf(out, "%.7g %.7g\n", (c->window[k].x0 + c->window[k].x1) / 2,
			value * scale);
	}
	fputs("EOD\n", out);
}

/* From the least to the greatest of all workers, and the middle one. */
static int put_band(const struct curves *c, double scale, FILE *out)
{
	double *sorted = calloc(c->workers + 1, sizeof *sorted);
	if (!sorted)
		return -1;
	fputs("$band << EOD\n", out);
	for (size_t k = 0; k < c->windows; k++) {
		size_t count = sorted_values(c, k, sorted);
		if (count > 0)
			fprintf(out, "%.7g %.7g %.7g %.7g\n",
				(c->window[k].x0 + c->window[k].x1) / 2, sorted[0] * scale,
				sorted[count - 1] * scale, sorted[count / 2] * scale);
	}
	fputs("EOD\n", out);
	free(sorted);
	return 0;
}

/* How high the picture goes: a few values that are far above all others would make the rest flat. */
static double top_of(const struct curves *c, const unsigned char *chosen, int *cut)
{
	size_t count = 0;
	double *all = calloc(c->workers * c->windows + 1, sizeof *all), top = 0;
	*cut = 0;
	for (size_t i = 0; all && i < c->workers; i++)
		for (size_t k = 0; chosen[i] && k < c->windows; k++)
			if (!isnan(c->value[i * c->windows + k]))
				all[count++] = c->value[i * c->windows + k];
	if (count > 0) {
		qsort(all, count, sizeof *all, compare);
		double usual = all[(size_t)(0.97 * (double)(count - 1))];
		top = all[count - 1];
		*cut = top > 2.5 * usual && usual > 0;
		if (*cut)
			top = 1.6 * usual;
	}
	free(all);
	return top > 0 ? top * 1.08 : 1;
}

static void put_lines(const struct curves *c, const unsigned char *chosen, const struct marks *m,
		      FILE *out)
{
	const char *comma = "";
	size_t n = 0;
	fputs("plot ", out);
	if (c->workers > LINES_MAX) {
		fputs("$band using 1:2:3 with filledcurves fs solid noborder lc rgb '#D5E3EE' "
		      "title 'all workers', "
		      "$band using 1:4 with lines lw 1.5 lc rgb '#8A9BA8' title 'median'",
		      out);
		comma = ", ";
	}
	for (size_t i = 0; i < c->workers; i++) {
		if (!chosen[i])
			continue;
		fprintf(out, "%s$w%zu using 1:2 with lines lw 1.8 dt %s lc rgb '%s' title ", comma,
			i, n < COLOURS ? "1" : "'-'", colours[n % COLOURS]);
		put_name(out, c->worker[i]->id);
		comma = ", ";
		n++;
	}
	put_marks_key(m, out);
}

static void draw_curves(const struct report *p, enum picture what, const struct curves *c,
			const char *label, double scale, FILE *out)
{
	unsigned char *chosen = calloc(c->workers + 1, 1);
	struct marks marks;
	int cut;
	if (!chosen)
		return;
	choose_lines(c, chosen);
	double top = top_of(c, chosen, &cut) * scale;
	put_time_axis(p, out);
	put_marks(p, what, &marks, out);
	fprintf(out, "set ylabel '%s'\nset yrange [0:%.7g]\n", label, top);
	if (cut)
		fputs("set label 'higher values are cut off' at graph 0.01, graph 0.96 textcolor rgb "
		      "'#777777' font ',10'\n",
		      out);
	if (c->workers <= LINES_MAX || put_band(c, scale, out) == 0) {
		for (size_t i = 0; i < c->workers; i++)
			if (chosen[i])
				put_curve(c, i, scale, out);
		put_lines(c, chosen, &marks, out);
	}
	free(chosen);
}

static double size_of(const struct account_point *did)
{
	return did->samples / did->batches;
}

static double time_of(const struct account_point *did)
{
	return did->time / did->batches;
}

/* Of those workers whose times are drawn. */
static void draw_sizes(const struct report *p, FILE *out)
{
	struct curves c, times;
	int result = make_curves(p, &times, time_of);
	if (make_curves(p, &c, size_of) == 0 && result == 0) {
		memcpy(c.stands_out, times.stands_out, c.workers * sizeof *c.stands_out);
		draw_curves(p, PICTURE_SIZE, &c, "batch size (samples)", 1, out);
	}
	curves_free(&c);
	curves_free(&times);
}

static void draw_times(const struct report *p, FILE *out)
{
	struct curves c;
	if (make_curves(p, &c, time_of) == 0) {
		double most = 0;
		for (size_t i = 0; i < c.workers * c.windows; i++)
			most = fmax(most, isnan(c.value[i]) ? 0 : c.value[i]);
		draw_curves(p, PICTURE_TIME, &c, most < 0.5 ? "batch time (ms)" : "batch time (seconds)",
			    most < 0.5 ? 1000 : 1, out);
	}
	curves_free(&c);
}

/* ---- loss and pace ---- */

/* 250k is read faster than 250000. */
static void put_format(double most, const char *axis, FILE *out)
{
	if (most >= 2e4)
		fprintf(out, "set format %s '%%.%ds%%c'\n", axis, most >= 1e6);
}

static void draw_loss(const struct report *p, FILE *out)
{
	const struct account *a = p->a;
	struct marks marks;
	size_t step = 1 + a->rows / (2 * WINDOWS), shown = 0;
	double low = INFINITY, high = -INFINITY;
	put_time_axis(p, out);
	put_marks(p, PICTURE_LOSS, &marks, out);
	fputs("set ylabel 'loss'\n$loss << EOD\n", out);
	for (size_t i = 0; i < a->rows; i += step) {
		double sum = 0, weight = 0;
		size_t last = i + step < a->rows ? i + step : a->rows;
		for (size_t k = i; k < last; k++)
			if (!isnan(a->row[k].loss)) {
				double w = a->row[k].weight > 0 ? a->row[k].weight : 1;
				sum += w * a->row[k].loss;
				weight += w;
			}
		if (weight > 0) {
			fprintf(out, "%.7g %.7g\n", x_of(p, a->row[last - 1].at), sum / weight);
			low = fmin(low, sum / weight);
			high = fmax(high, sum / weight);
			shown++;
		}
	}
	double room = high > low ? 0.05 * (high - low) : 0.5;
	fprintf(out,
		"EOD\nset yrange [%.9g:%.9g]\n"
		"plot $loss using 1:2 with %s lw 1.8 lc rgb '%s' title 'loss'",
		low - room, high + room, shown < 40 ? "linespoints pt 7 ps 0.5" : "lines",
		colours[0]);
	put_marks_key(&marks, out);
}

/* What a worker could do in a window where it did nothing is what it could do before; at first, what
 * it did first. */
static void put_paces(const struct curves *c, FILE *out)
{
	double *speed = calloc(c->workers + 1, sizeof *speed);
	struct account_point *did = calloc(c->workers + 1, sizeof *did);
	int begun = 0;
	fputs("$pace << EOD\n", out);
	for (size_t i = 0; speed && i < c->workers; i++)
		speed[i] = cost_first_speed(c->worker[i]);
	for (size_t k = 0; speed && did && k < c->windows; k++) {
		const struct window *w = &c->window[k];
		double samples = 0, could = 0;
		for (size_t i = 0; i < c->workers; i++)
			did[i] = account_between(c->worker[i], w->from, w->to);
		double barrier = cost_barrier(did, c->workers);
		for (size_t i = 0; i < c->workers; i++) {
			double seconds = did[i].time + did[i].batches * barrier;
			if (seconds > 0 && did[i].samples > 0)
				speed[i] = did[i].samples / seconds;
			samples += did[i].samples;
			could += speed[i];
		}
		begun |= samples > 0;
		if (w->kind != COST_TOGETHER || !begun)
			fputs("\n", out);
		else
			fprintf(out, "%.7g %.7g %.7g\n", (w->x0 + w->x1) / 2,
				samples / (w->to - w->from), could);
	}
	fputs("EOD\n", out);
	free(speed);
	free(did);
}

static void draw_pace(const struct report *p, FILE *out)
{
	struct curves c;
	struct marks marks;
	if (make_curves(p, &c, time_of) == 0) {
		put_time_axis(p, out);
		put_marks(p, PICTURE_PACE, &marks, out);
		fputs("set ylabel 'samples a second'\nset yrange [0:*]\n", out);
		put_format(p->cost.could, "y", out);
		put_paces(&c, out);
		fprintf(out,
			"plot $pace using 1:2:3 with filledcurves fs solid noborder lc rgb "
			"'#F3E3D3' notitle, "
			"$pace using 1:3 with lines lw 1.8 dt '-' lc rgb '%s' title 'all "
			"together', "
			"$pace using 1:2 with lines lw 1.8 lc rgb '%s' title 'as it was'",
			colours[5], colours[0]);
		put_marks_key(&marks, out);
	}
	curves_free(&c);
}

/* ---- the Gantt chart ---- */

enum doing { COMPUTING, SENDING, PREPARING, WAITING, STARTING, DOWN, APPLYING, ELSE, DOINGS };

static const struct {
	const char *colour, *title;
} doings[DOINGS] = {[COMPUTING] = {"#0072B2", "computing"},
		    [SENDING] = {"#E69F00", "communicating"},
		    [PREPARING] = {"#CC79A7", "getting rows"},
		    [WAITING] = {"#B4BCC4", "waiting"},
		    [STARTING] = {"#F0E442", "starting"},
		    [DOWN] = {"#000000", "down"},
		    [APPLYING] = {"#009E73", "applying"},
		    [ELSE] = {"#EDF0F3", "up, else"}};

struct bar {
	double x0, x1;
	double share[DOINGS];
};

struct gantt {
	const struct account_node **node;
	size_t nodes, of; /* rows, of so many nodes */
	struct window *window;
	size_t windows;
	struct bar *bar; /* of a row; all rows */
	size_t bars;
	size_t *row_end; /* bars until the end of a row */
};

static void fill_bar(struct bar *b, const struct account_node *n, const struct window *w)
{
	struct account_point did = account_between(n, w->from, w->to);
	double all = w->to - w->from, sum = 0;
	*b = (struct bar){w->x0, w->x1, {0}};
	b->share[STARTING] = account_overlap(&n->spans, ACCOUNT_STARTING, w->from, w->to) +
			     account_overlap(&n->spans, ACCOUNT_AGAIN, w->from, w->to);
	if (w->kind != COST_ENDING && w->kind != COST_SCORING) /* its end is as it should be */
		b->share[DOWN] = account_overlap(&n->spans, ACCOUNT_DOWN, w->from, w->to);
	if (!account_is_worker(n))
		b->share[APPLYING] = did.time;
	else if (isnan(did.compute))
		b->share[COMPUTING] = did.time;
	else {
		b->share[COMPUTING] = did.compute;
		b->share[SENDING] = did.comm;
		b->share[PREPARING] = fmax(did.time - did.compute - did.comm, 0);
		b->share[WAITING] = did.wait;
	}
	for (int k = 0; k < ELSE; k++)
		sum += b->share[k];
	b->share[ELSE] = fmax(account_overlap(&n->spans, ACCOUNT_UP, w->from, w->to) -
				      (sum - b->share[STARTING] - b->share[DOWN]),
			      0);
	sum += b->share[ELSE];
	for (int k = 0; k < DOINGS; k++)
		b->share[k] /= fmax(sum, all);
}

static int alike(const struct bar *a, const struct bar *b)
{
	for (int k = 0; k < DOINGS; k++)
		if (fabs(a->share[k] - b->share[k]) > 0.03)
			return 0;
	return fabs(a->x1 - b->x0) < 1e-9 * (1 + fabs(a->x1));
}

/* A bar that looks like the one before goes on with it. */
static void add_bar(struct gantt *g, size_t begin, const struct bar *b)
{
	struct bar *last = g->bars > begin ? &g->bar[g->bars - 1] : NULL;
	if (!last || !alike(last, b)) {
		g->bar[g->bars++] = *b;
		return;
	}
	double x = last->x1 - last->x0, y = b->x1 - b->x0;
	for (int k = 0; k < DOINGS; k++)
		last->share[k] = (last->share[k] * x + b->share[k] * y) / (x + y);
	last->x1 = b->x1;
}

/* Those workers that stand out, where there are too many. */
static int choose_rows(const struct report *p, struct gantt *g)
{
	const struct account_node **server = calloc(p->a->nodes + 1, sizeof *server);
	unsigned char *chosen = calloc(p->a->nodes + 1, 1);
	struct curves c;
	int result = make_curves(p, &c, time_of);
	if (!server || !chosen)
		result = -1;
	if (result == 0) {
		size_t servers = list_nodes(p, "server", server);
		size_t most = ROWS_MAX;
		g->of = c.workers + servers;
		servers = servers > SERVER_ROWS_MAX && g->of > ROWS_MAX ? SERVER_ROWS_MAX : servers;
		most -= servers;
		for (size_t n = 0; n < most && n < c.workers; n++) {
			size_t best = c.workers;
			for (size_t i = 0; i < c.workers; i++)
				if (!chosen[i] && (best == c.workers ||
						   c.stands_out[i] > c.stands_out[best]))
					best = i;
			chosen[best] = 1;
		}
		for (size_t i = 0; i < c.workers; i++)
			if (chosen[i])
				g->node[g->nodes++] = c.worker[i];
		for (size_t i = 0; i < servers; i++)
			g->node[g->nodes++] = server[i];
	}
	curves_free(&c);
	free(server);
	free(chosen);
	return result;
}

static void gantt_free(struct gantt *g)
{
	free(g->node);
	free(g->window);
	free(g->bar);
	free(g->row_end);
}

static size_t row_count(const struct report *p)
{
	size_t rows = 0;
	for (size_t i = 0; i < p->a->nodes; i++) {
		const struct account_node *n = &p->a->node[i];
		if (account_is_worker(n) || strcmp(n->role, "server") == 0)
			rows++;
	}
	return rows < ROWS_MAX ? rows : ROWS_MAX;
}

static int make_gantt(const struct report *p, struct gantt *g)
{
	*g = (struct gantt){.node = calloc(p->a->nodes + 1, sizeof *g->node)};
	if (!g->node || choose_rows(p, g) != 0 || g->nodes == 0)
		return -1;
	size_t most = BOXES / (3 * g->nodes);
	most = most < 60 ? 60 : most > WINDOWS ? WINDOWS : most;
	g->window = make_windows(p, most, &g->windows);
	g->bar = calloc(g->windows * g->nodes + 1, sizeof *g->bar);
	g->row_end = calloc(g->nodes + 1, sizeof *g->row_end);
	if (!g->window || !g->bar || !g->row_end)
		return -1;
	for (size_t i = 0; i < g->nodes; i++) {
		size_t begin = g->bars;
		for (size_t k = 0; k < g->windows; k++) {
			struct bar b;
			fill_bar(&b, g->node[i], &g->window[k]);
			add_bar(g, begin, &b);
		}
		g->row_end[i] = g->bars;
	}
	return 0;
}

/* The boxes of one kind; whether there are any. */
static int put_boxes(const struct gantt *g, enum doing what, FILE *out)
{
	size_t row = 0;
	int any = 0;
	fprintf(out, "$d%d << EOD\n", (int)what);
	for (size_t i = 0; i < g->bars; i++) {
		const struct bar *b = &g->bar[i];
		double below = 0, height = 0.84 * b->share[what];
		while (i >= g->row_end[row])
			row++;
		for (int k = 0; k < (int)what; k++)
			below += 0.84 * b->share[k];
		if (b->share[what] < 0.004)
			continue;
		any = 1;
		fprintf(out, "%.7g %.6g %.7g %.6g\n", (b->x0 + b->x1) / 2,
			(double)row + 0.42 - below - height / 2, (b->x1 - b->x0) / 2, height / 2);
	}
	fputs("EOD\n", out);
	return any;
}

static void draw_gantt(const struct report *p, FILE *out)
{
	struct gantt g;
	struct marks marks;
	const char *comma = "plot ";
	if (make_gantt(p, &g) == 0) {
		if (g.of > g.nodes)
			fprintf(out,
				"set title 'What the nodes did: those that stand out, %zu of %zu' "
				"font ',15' offset 0,1.2\n",
				g.nodes, g.of);
		put_time_axis(p, out);
		put_marks(p, PICTURE_GANTT, &marks, out);
		fprintf(out, "set yrange [%zu.5:-0.5]\nunset grid\nset ytics scale 0 (",
			g.nodes - 1);
		for (size_t i = 0; i < g.nodes; i++) {
			fputs(i > 0 ? ", " : "", out);
			put_name(out, g.node[i]->id);
			fprintf(out, " %zu", i);
		}
		fputs(")\n", out);
		int any[DOINGS];
		for (int k = 0; k < DOINGS; k++)
			any[k] = put_boxes(&g, (enum doing)k, out);
		for (int k = 0; k < DOINGS; k++)
			if (any[k]) {
				fprintf(out,
					"%s$d%d using 1:2:3:4 with boxxyerror fs solid noborder lc rgb "
					"'%s' title '%s'",
					comma, k, doings[k].colour, doings[k].title);
				comma = ", ";
			}
		if (comma[0] == 'p')
			fputs("plot NaN notitle", out);
		put_marks_key(&marks, out);
	}
	gantt_free(&g);
}

/* ---- shards against speed ---- */

struct taken {
	const struct account_node *worker;
	double speed, samples;
	double taken; /* shards, or samples where they took few shards */
};

static size_t list_taken(const struct report *p, struct taken **out)
{
	const struct account_node **worker = calloc(p->a->nodes + 1, sizeof *worker);
	struct taken *list = calloc(p->a->nodes + 1, sizeof *list);
	size_t count = worker ? list_nodes(p, "worker", worker) : 0, n = 0;
	for (size_t i = 0; list && i < count; i++) {
		const struct account_node *w = worker[i];
		const struct account_point *a = w->point, *b = w->point + w->points - 1;
		if (w->points < 2 || !(b->time > a->time))
			continue;
		list[n++] = (struct taken){w, (b->samples - a->samples) / (b->time - a->time),
					   b->samples - a->samples, 0};
	}
	free(worker);
	*out = list;
	return n;
}

/* Both axes begin at 0 and end so that a mark stands on top of its bar where a worker took as much
 * as its speed deserves. */
static void put_bars(const struct report *p, const struct taken *list, size_t count, double top,
		     double speed_top, FILE *out)
{
	fprintf(out, "set lmargin %zu\nset rmargin 30\nset bmargin 4\nset xrange [-0.6:%.7g]\nset xtics scale 0 %s(",
		left_margin(p), (double)count - 0.4, count > 12 ? "rotate by -50 " : "");
	for (size_t i = 0; i < count; i++) {
		fputs(i > 0 ? ", " : "", out);
		put_name(out, list[i].worker->id);
		fprintf(out, " %zu", i);
	}
	fprintf(out,
		")\nset ytics nomirror\nset y2tics nomirror out textcolor rgb '#333333'\nset border 11\n"
		"set yrange [0:%.7g]\nset y2range [0:%.7g]\n"
		"set y2label 'speed (samples a second)'\nset boxwidth 0.6\n$taken << EOD\n",
		top, speed_top);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%zu %.7g %.7g\n", i, list[i].taken, list[i].speed);
	fputs("EOD\n", out);
	put_format(top, "y", out);
	put_format(speed_top, "y2", out);
	fprintf(out,
		"plot $taken using 1:2 with boxes fs solid 0.75 noborder lc rgb '%s' title "
		"'taken', "
		"$taken using 1:3 axes x1y2 with points pt 13 ps 1.3 lc rgb '%s' title 'speed'\n",
		colours[0], colours[1]);
}

static void put_cloud(const struct report *p, const struct taken *list, size_t count, double top,
		      double speed_top, FILE *out)
{
	(void)p;
	fputs("$taken << EOD\n", out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%.7g %.7g\n", list[i].speed, list[i].taken);
	fprintf(out,
		"EOD\nset xlabel 'speed while computing and communicating (samples a second)'\n"
		"set xrange [0:%.7g]\nset yrange [0:%.7g]\n"
		"plot %.9g * x with lines dt '-' lw 1.5 lc rgb '#8A9BA8' title 'as speed deserves', "
		"$taken using 1:2 with points pt 7 ps 0.8 lc rgb '%s' title 'a worker'\n",
		speed_top, top, top / speed_top, colours[0]);
}

static void draw_shards(const struct report *p, FILE *out)
{
	struct taken *list;
	size_t count = list_taken(p, &list);
	double speeds = 0, samples = 0, most = 0;
	for (size_t i = 0; i < count; i++) {
		speeds += list[i].speed;
		samples += list[i].samples;
	}
	double deserved = speeds > 0 ? samples / speeds : 1;
	for (size_t i = 0; i < count; i++)
		most = fmax(most, fmax(list[i].samples, list[i].speed * deserved));
	double top = most > 0 ? 1.1 * most : 1, unit = 1;
	if ((double)p->a->shard > 0 && most >= SHARDS_LEAST * (double)p->a->shard) {
		unit = (double)p->a->shard;
		fprintf(out, "set ylabel 'shards taken (of %llu samples)'\n",
			(unsigned long long)p->a->shard);
	} else
		fputs("set title 'Samples taken against speed'\nset ylabel 'samples taken'\n", out);
	for (size_t i = 0; i < count; i++)
		list[i].taken = list[i].samples / unit;
	(count <= BARS_MAX ? put_bars : put_cloud)(p, list, count, top / unit, top / deserved, out);
	free(list);
}

/* ---- all of them ---- */

int picture_has(const struct report *p, enum picture what)
{
	int losses = 0, workers = 0;
	for (size_t i = 0; i < p->a->rows; i++)
		losses |= !isnan(p->a->row[i].loss);
	for (size_t i = 0; i < p->a->nodes; i++)
		workers |= account_is_worker(&p->a->node[i]) && p->a->node[i].points > 1;
	if (!(account_seconds(p->a) > 0))
		return 0;
	return what == PICTURE_LOSS    ? losses
	       : what == PICTURE_GANTT ? row_count(p) > 0
				       : workers;
}

unsigned picture_height(const struct report *p, enum picture what)
{
	if (what == PICTURE_GANTT)
		return MARGINS + 26 * (unsigned)row_count(p);
	return what == PICTURE_SHARDS ? 420 : 350;
}

void picture_script(const struct report *p, enum picture what, const char *place, FILE *out)
{
	static void (*const draw[PICTURES])(const struct report *p, FILE *out) = {
		draw_loss, draw_pace, draw_sizes, draw_times, draw_gantt, draw_shards};
	put_head(what, out);
	fputs(place, out);
	draw[what](p, out);
}

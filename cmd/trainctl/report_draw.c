/* report: the pictures, as commands for gnuplot(1) with their data in them. How many points there
 * are is bounded, however long the job was and however many nodes it had. Colours are those of
 * Okabe and Ito, which colour-blind readers can tell apart; names from the log can't end a string.
 */
#include "cmd/trainctl/report_draw.h"

#include "base/utf8.h"
#include "monitor/node.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARK_PLACES 300
#define MARKS_MAX 16      /* with more actions: marks without lines */
#define HEIGHT 350        /* of a picture, in pixels */
#define MARGINS 115       /* above and below a plot, in pixels */
#define LEGEND_LINE 18    /* height of a legend, in pixels; a higher one than the plot goes into the
			   * plot */
#define LEGEND_MARGINS 150 /* of a picture around its legend */
#define LEGEND_MARKS 3    /* lines: action, failure, goes on */
#define LABEL_PART 0.05   /* of the width, between two names over marks */
#define NAME_MAX_SHOWN 16 /* letters of a node's name */

/* ---- text and time ---- */

/* In single quotes gnuplot replaces nothing but a doubled quote. */
static void draw_put_text(FILE *out, const char *text)
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

void draw_name(FILE *out, const char *id)
{
	char name[NAME_MAX_SHOWN + 1];
	snprintf(name, sizeof name, "%.*s", NAME_MAX_SHOWN, id);
	if (strlen(id) > NAME_MAX_SHOWN)
		memset(name + NAME_MAX_SHOWN - 2, '.', 2);
	draw_put_text(out, name);
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

struct draw_window *draw_windows(const struct report *p, size_t most, size_t *count)
{
	const struct account_spans *s = &p->a->phase_spans;
	double all = account_seconds(p->a), unit = axis_of(p).unit, x = 0;
	struct draw_window *w = calloc(most + s->count + 1, sizeof *w);
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
			w[(*count)++] =
				(struct draw_window){span->from + a, span->from + b, (x + a) / unit,
						     (x + b) / unit, cost_phase(p->a, span->what)};
		}
		x += length;
	}
	return w;
}

double draw_x(const struct report *p, double at)
{
	return account_seconds_by(p->a, at) / axis_of(p).unit;
}

/* ---- what all have ---- */

const char *const draw_colour[DRAW_COLOURS] = {"#0072B2", "#E69F00", "#009E73", "#CC79A7",
					       "#56B4E9", "#D55E00", "#000000"};
#define ACTION_COLOUR "#555555"
#define FAILURE_COLOUR "#B00020"
#define GOES_ON_COLOUR "#8A9BA8"

static void draw_put_head(const struct picture_kind *kind, FILE *out)
{
	fputs("reset\nset encoding utf8\nset termoption noenhanced\n"
	      "set border 3 lc rgb '#777777'\nset tics nomirror out textcolor rgb '#333333'\n"
	      "set grid ytics lt 1 lw 0.5 lc rgb '#DDDDDD'\n"
	      "set key outside right top vertical Left reverse samplen 2 width 1 "
	      "textcolor rgb '#333333'\nset title ",
	      out);
	draw_put_text(out, kind->title);
	fputs(" font ',15' offset 0,1.2\nset tmargin 5\n", out);
}

size_t draw_left_margin(const struct report *p)
{
	size_t longest = 0;
	for (size_t i = 0; i < p->a->nodes; i++) {
		size_t length = strlen(p->a->node[i].id);
		longest = length > longest ? length : longest;
	}
	return longest < 9 ? 11 : longest < NAME_MAX_SHOWN ? longest + 2 : NAME_MAX_SHOWN + 2;
}

static void put_time_axis(const struct report *p, FILE *out)
{
	struct axis axis = axis_of(p);
	double all = account_seconds(p->a) / axis.unit;
	fprintf(out,
		"set lmargin %zu\nset rmargin 20\nset xlabel 'time (%s)'\nset xrange [0:%.9g]\n",
		draw_left_margin(p), axis.word, all > 0 ? all : 1);
}

struct marks {
	size_t actions, failures, goes_on;
	double labelled; /* the right end of the last name */
	double pixel;    /* of the plot's height */
	unsigned char taken[2][MARK_PLACES + 1];
};

/* Above the plot: failures above actions. */
static void put_mark(const struct report *p, struct marks *m, int failure, double at, int line,
		     size_t node, FILE *out)
{
	double x = draw_x(p, at), all = account_seconds(p->a) / axis_of(p).unit;
	const char *colour = failure ? FAILURE_COLOUR : ACTION_COLOUR;
	size_t place = all > 0 ? (size_t)fmin(x / all * MARK_PLACES, MARK_PLACES) : 0;
	*(failure ? &m->failures : &m->actions) += 1;
	if (m->taken[failure][place])
		return;
	m->taken[failure][place] = 1;
	if (line)
		fprintf(out,
			"set arrow from first %.9g, graph 0 to first %.9g, graph 1 nohead front lw "
			"1 "
			"dt %s lc rgb '%s'\n",
			x, x, failure ? "3" : "2", colour);
	double y = 1 + (failure ? 20 : 7) * m->pixel;
	fprintf(out, "set label '' at first %.9g, graph %.5f point pt %d ps %s lw 2 lc rgb '%s'\n",
		x, y, failure ? 2 : 11, failure ? "0.8" : "0.7", colour);
	if (node == ACCOUNT_NOBODY || x < m->labelled)
		return;
	m->labelled = x + all * LABEL_PART;
	fputs("set label ", out);
	draw_name(out, p->a->node[node].id);
	fprintf(out, " at first %.9g, graph %.5f offset 0.7,0 font ',10' textcolor rgb '%s'\n", x,
		y + (failure ? 2 : 12) * m->pixel, colour); /* above the triangles beside it */
}

/* Actions and failures, as lines through the whole picture. */
static void put_marks(const struct report *p, unsigned height, struct marks *m, FILE *out)
{
	const struct account *a = p->a;
	size_t failures = 0;
	*m = (struct marks){.labelled = -1, .pixel = 1.0 / (height - MARGINS)};
	for (size_t i = 0; i < a->marks; i++)
		failures += report_is_failure(&a->mark[i]) != 0;
	for (size_t i = 0; i < a->marks; i++) {
		const struct account_mark *k = &a->mark[i];
		if (report_is_failure(k))
			put_mark(p, m, 1, k->at, failures <= MARKS_MAX, k->node, out);
		else if (k->kind == ACCOUNT_RESTART)
			put_mark(p, m, 0, k->at, p->effects <= MARKS_MAX, k->node, out);
	}
	for (size_t i = 0; i < a->marks; i++)
		if (a->mark[i].kind == ACCOUNT_GOES_ON && m->goes_on++ < MARKS_MAX)
			fprintf(out,
				"set arrow from first %.9g, graph 0 to first %.9g, graph 1 nohead "
				"front lw "
				"1.5 lc rgb '" GOES_ON_COLOUR "'\n",
				draw_x(p, a->mark[i].at), draw_x(p, a->mark[i].at));
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
	if (m->goes_on > 0)
		fputs(", NaN with lines lw 1.5 lc rgb '" GOES_ON_COLOUR "' title 'goes on'", out);
	fputs("\n", out);
}

/* ---- nodes ---- */

static int draw_by_id(const void *a, const void *b)
{
	const struct account_node *p = *(const struct account_node *const *)a;
	const struct account_node *q = *(const struct account_node *const *)b;
	return node_id_compare(p->id, q->id);
}

/* Workers (or servers) that have done anything, in the order of their names. */
size_t draw_nodes(const struct report *p, int (*is_one)(const struct account_node *n),
		  const struct account_node **list)
{
	size_t count = 0;
	for (size_t i = 0; i < p->a->nodes; i++)
		if (is_one(&p->a->node[i]))
			list[count++] = &p->a->node[i];
	qsort(list, count, sizeof *list, draw_by_id);
	return count;
}

/* How many rows the Gantt chart has. */
static size_t gantt_rows(const struct report *p)
{
	size_t rows = 0;
	for (size_t i = 0; i < p->a->nodes; i++) {
		const struct account_node *n = &p->a->node[i];
		if (account_is_worker(n) || account_is_server(n))
			rows++;
	}
	return rows < DRAW_ROWS_MAX ? rows : DRAW_ROWS_MAX;
}

void draw_rows(const struct account_node *const *node, size_t count, FILE *out)
{
	fprintf(out, "set yrange [%zu.5:-0.5]\nunset grid\nset ytics scale 0 (", count - 1);
	for (size_t i = 0; i < count; i++) {
		fputs(i > 0 ? ", " : "", out);
		draw_name(out, node[i]->id);
		fprintf(out, " %zu", i);
	}
	fputs(")\n", out);
}

void draw_format(double most, const char *axis, FILE *out)
{
	if (most >= 2e4)
		fprintf(out, "set format %s '%%.%ds%%c'\n", axis, most >= 1e6);
}

/* ---- all of them ---- */

static size_t has_losses(const struct report *p)
{
	size_t losses = 0;
	for (size_t i = 0; i < p->a->rows; i++)
		losses += isnan(p->a->row[i].loss) ? 0 : 1;
	return losses;
}

static size_t has_workers(const struct report *p)
{
	size_t workers = 0;
	for (size_t i = 0; i < p->a->nodes; i++)
		workers += account_is_worker(&p->a->node[i]) && p->a->node[i].points > 1;
	return workers;
}

static size_t heat_rows(const struct report *p)
{
	size_t workers = has_workers(p);
	return workers < 2 ? 0 : workers < DRAW_ROWS_MAX ? workers : DRAW_ROWS_MAX;
}

const struct picture_kind picture_kind[] = {
	{"loss", "Loss",
	 "The mean loss of the samples between two points, computed before the model was trained on "
	 "them.",
	 picture_loss, has_losses, HEIGHT, 0, 0},
	{"speed", "Speed of the job",
	 "Samples a second of all workers. The line above is the speed if no worker had waited for a "
	 "slower one, been down or been idle.",
	 picture_speed, has_workers, HEIGHT, 0, 0},
	{"batch-size", "Batch size of each worker",
	 "Samples of a batch. A solution that balances gives slow workers smaller batches and fast "
	 "ones larger.",
	 picture_sizes, has_workers, HEIGHT, DRAW_LINES_MAX, 0},
	{"batch-time", "Batch time of each worker, without waiting",
	 "Seconds of computing and communicating in a batch. Under BSP the slowest worker sets the "
	 "speed: a job is balanced where the curves meet.",
	 picture_times, has_workers, HEIGHT, DRAW_LINES_MAX, 0},
	{"heat", "Who was slow, and when",
	 "The batch time of each worker beside the median one's. Pale: alike; orange and red: others "
	 "waited for it; blue: it waited.",
	 picture_heat, heat_rows, 0, 0, 0},
	{"gantt", "What the nodes did",
	 "One row for each node; the height of a colour is its share of the time. The light part is "
	 "all other time: asking for shards, having nothing to do.",
	 picture_gantt, gantt_rows, 0, DRAW_DOINGS, 0},
	{"shards", "Shards taken against speed",
	 "How many shards each worker took, and how fast it was while it worked. A worker with a "
	 "speed above its share of shards waited for others.",
	 picture_shards, has_workers, 420, 0, 1},
};
const size_t picture_count = sizeof picture_kind / sizeof *picture_kind;

int picture_has(const struct report *p, size_t what)
{
	return account_seconds(p->a) > 0 && picture_kind[what].has(p) > 0;
}

unsigned picture_height(const struct report *p, size_t what)
{
	const struct picture_kind *k = &picture_kind[what];
	unsigned height = k->height > 0 ? k->height : MARGINS + 26 * (unsigned)k->has(p);
	unsigned lines = k->lines > 0 ? k->lines + LEGEND_MARKS : 0;
	unsigned legend = LEGEND_MARGINS + LEGEND_LINE * lines;
	return height > legend ? height : legend;
}

void picture_script(const struct report *p, size_t what, const char *place, FILE *out)
{
	const struct picture_kind *k = &picture_kind[what];
	struct marks marks;
	draw_put_head(k, out);
	if (!k->timeless) {
		put_time_axis(p, out);
		put_marks(p, picture_height(p, what), &marks, out);
	}
	fputs(place, out);
	if (k->draw(p, out) == 0 && !k->timeless)
		put_marks_key(&marks, out);
}

/* report: a Gantt chart of the nodes. For each window the log gives shares of what a node did, so a
 * row has one bar for each window, and each bar is divided by these shares. */
#include "cmd/trainctl/report_draw.h"

#include <math.h>
#include <stdlib.h>

#define SERVER_ROWS_MAX 8
#define BOXES 6000 /* about */

enum doing { COMPUTING, SENDING, PREPARING, WAITING, STARTING, DOWN, APPLYING, ELSE, DOINGS };
_Static_assert(DOINGS == DRAW_DOINGS, "the legend has room for all");

static const struct {
	const char *colour, *title;
} doings[DOINGS] = {
	[COMPUTING] = {"#0072B2", "computing"},    [SENDING] = {"#E69F00", "communicating"},
	[PREPARING] = {"#CC79A7", "getting rows"}, [WAITING] = {"#B4BCC4", "waiting"},
	[STARTING] = {"#F0E442", "starting"},      [DOWN] = {"#000000", "down"},
	[APPLYING] = {"#009E73", "applying"},      [ELSE] = {"#EDF0F3", "up, else"}};

struct bar {
	double x0, x1;
	double share[DOINGS];
};

struct gantt {
	const struct account_node **node;
	size_t nodes, of; /* rows, of so many nodes */
	struct draw_window *window;
	size_t windows;
	struct bar *bar; /* bars of a row; of all rows */
	size_t bars;
	size_t *row_end; /* bars until the end of a row */
};

static void fill_bar(struct bar *b, const struct account_node *n, const struct draw_window *w)
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
		b->share[PREPARING] = account_rows(&did);
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

/* A bar that looks like the previous one is joined to it. */
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

/* Chooses the workers that stand out, when there are too many. */
static int gantt_choose_rows(const struct report *p, struct gantt *g)
{
	const struct account_node **server = calloc(p->a->nodes + 1, sizeof *server);
	unsigned char *chosen = calloc(p->a->nodes + 1, 1);
	struct curves c;
	int result = curves_make(p, &c, curves_time);
	if (!server || !chosen)
		result = -1;
	if (result == 0) {
		size_t servers = draw_nodes(p, account_is_server, server);
		size_t most = DRAW_ROWS_MAX;
		g->of = c.workers + servers;
		servers = servers > SERVER_ROWS_MAX && g->of > DRAW_ROWS_MAX ? SERVER_ROWS_MAX
									     : servers;
		most -= servers;
		curves_choose(&c, most, chosen);
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

static int make_gantt(const struct report *p, struct gantt *g)
{
	*g = (struct gantt){.node = calloc(p->a->nodes + 1, sizeof *g->node)};
	if (!g->node || gantt_choose_rows(p, g) != 0 || g->nodes == 0)
		return -1;
	size_t most = BOXES / (3 * g->nodes);
	most = most < 60 ? 60 : most > DRAW_WINDOWS ? DRAW_WINDOWS : most;
	g->window = draw_windows(p, most, &g->windows);
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

/* Writes the boxes of one kind; returns whether there are any. */
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

int picture_gantt(const struct report *p, FILE *out)
{
	struct gantt g;
	const char *comma = "plot ";
	int result = make_gantt(p, &g);
	if (result == 0) {
		if (g.of > g.nodes)
			fprintf(out,
				"set title 'What the nodes did: those that stand out, %zu of %zu' "
				"font ',15' offset 0,1.2\n",
				g.nodes, g.of);
		draw_rows(g.node, g.nodes, out);
		int any[DOINGS];
		for (int k = 0; k < DOINGS; k++)
			any[k] = put_boxes(&g, (enum doing)k, out);
		for (int k = 0; k < DOINGS; k++)
			if (any[k]) {
				fprintf(out,
					"%s$d%d using 1:2:3:4 with boxxyerror fs solid noborder lc "
					"rgb "
					"'%s' title '%s'",
					comma, k, doings[k].colour, doings[k].title);
				comma = ", ";
			}
		if (comma[0] == 'p')
			fputs("plot NaN notitle", out);
	}
	gantt_free(&g);
	return result;
}

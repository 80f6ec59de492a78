/* report: shards taken against speed (AntDT, Fig. 16), as bars, or as a cloud of many workers. */
#include "cmd/trainctl/report_draw.h"

#include <math.h>
#include <stdlib.h>

#define SHARDS_LEAST 5 /* with fewer shards the picture shows samples */
#define BARS_MAX 40    /* workers of the bar chart */

struct taken {
	const struct account_node *worker;
	double speed, samples;
	double taken; /* shards, or samples where they took few shards */
};

static size_t list_taken(const struct report *p, struct taken **out)
{
	const struct account_node **worker = calloc(p->a->nodes + 1, sizeof *worker);
	struct taken *list = calloc(p->a->nodes + 1, sizeof *list);
	size_t count = worker ? draw_nodes(p, account_is_worker, worker) : 0, n = 0;
	for (size_t i = 0; list && i < count; i++) {
		const struct account_node *w = worker[i];
		if (w->points < 2)
			continue;
		const struct account_point *a = &w->point[0], *b = &w->point[w->points - 1];
		if (!(b->time > a->time))
			continue;
		list[n++] = (struct taken){w, (b->samples - a->samples) / (b->time - a->time),
					   b->samples - a->samples, 0};
	}
	free(worker);
	*out = list;
	return n;
}

/* Both axes begin at 0. Their ends are chosen so that a worker's mark is at the top of its bar if
 * it took the shards that its speed deserves. */
static void put_bars(const struct report *p, const struct taken *list, size_t count, double top,
		     double speed_top, FILE *out)
{
	fprintf(out,
		"set lmargin %zu\nif (!exists('phone')) { set rmargin 30; set bmargin 4 }\nset xrange [-0.6:%.7g]\nset xtics "
		"scale 0 %s(",
		draw_left_margin(p), (double)count - 0.4, count > 12 ? "rotate by -50 " : "");
	for (size_t i = 0; i < count; i++) {
		fputs(i > 0 ? ", " : "", out);
		draw_name(out, list[i].worker->id);
		fprintf(out, " %zu", i);
	}
	fprintf(out,
		")\nset ytics nomirror\nset y2tics nomirror out textcolor rgb '#333333'\nset "
		"border 11\n"
		"set yrange [0:%.7g]\nset y2range [0:%.7g]\n"
		"set y2label 'speed (samples a second)'\nset boxwidth 0.6\n$taken << EOD\n",
		top, speed_top);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%zu %.7g %.7g\n", i, list[i].taken, list[i].speed);
	fputs("EOD\n", out);
	draw_format(top, "y", out);
	draw_format(speed_top, "y2", out);
	fprintf(out,
		"plot $taken using 1:2 with boxes fs solid 0.75 noborder lc rgb '%s' title "
		"'taken', "
		"$taken using 1:3 axes x1y2 with points pt 13 ps 1.3 lc rgb '%s' title 'speed'\n",
		draw_colour[0], draw_colour[1]);
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
		"plot %.9g * x with lines dt '-' lw 1.5 lc rgb '#8A9BA8' title 'as speed "
		"deserves', "
		"$taken using 1:2 with points pt 7 ps 0.8 lc rgb '%s' title 'a worker'\n",
		speed_top, top, top / speed_top, draw_colour[0]);
}

int picture_shards(const struct report *p, FILE *out)
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
	return 0;
}

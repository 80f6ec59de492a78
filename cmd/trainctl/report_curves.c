/* report: pictures of what goes on over time: loss, speed, batch size and time of each worker. */
#include "cmd/trainctl/report_draw.h"

#include "base/reals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINES_OF_MANY 6 /* for jobs with more workers than DRAW_LINES_MAX */

/* ---- curves of workers ---- */

void curves_free(struct curves *c)
{
	free(c->window);
	free(c->worker);
	free(c->value);
	free(c->stands_out);
}

/* The values of all workers in a window, sorted. */
static size_t sorted_values(const struct curves *c, size_t window, double *sorted)
{
	size_t count = 0;
	for (size_t i = 0; i < c->workers; i++)
		if (!isnan(c->value[i * c->windows + window]))
			sorted[count++] = c->value[i * c->windows + window];
	reals_sort(sorted, count);
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

int curves_make(const struct report *p, struct curves *c,
		double (*value)(const struct account_point *did))
{
	size_t windows;
	*c = (struct curves){0};
	c->window = draw_windows(p, DRAW_WINDOWS, &windows);
	c->windows = windows;
	c->worker = calloc(p->a->nodes + 1, sizeof *c->worker);
	if (!c->window || !c->worker)
		return -1;
	c->workers = draw_nodes(p, account_is_worker, c->worker);
	c->value = calloc(c->workers * windows + 1, sizeof *c->value);
	c->stands_out = calloc(c->workers + 1, sizeof *c->stands_out);
	double *sorted = calloc(c->workers + 1, sizeof *sorted);
	if (!c->value || !c->stands_out || !sorted) {
		free(sorted);
		return -1;
	}
	for (size_t i = 0; i < c->workers; i++)
		for (size_t k = 0; k < windows; k++) {
			const struct draw_window *w = &c->window[k];
			struct account_point did = account_between(c->worker[i], w->from, w->to);
			c->value[i * windows + k] = did.batches > 0 ? value(&did) : NAN;
		}
	find_outstanding(c, sorted);
	free(sorted);
	return 0;
}

void curves_choose(const struct curves *c, size_t most, unsigned char *chosen)
{
	for (size_t n = 0; n < most && n < c->workers; n++) {
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
		fprintf(out, "%.7g %.7g\n", (c->window[k].x0 + c->window[k].x1) / 2, value * scale);
	}
	fputs("EOD\n", out);
}

/* A band from the least to the greatest worker, and the median. */
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

/* The top of the picture: a few values far above all others would make the rest flat.
 */
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
		reals_sort(all, count);
		double usual = all[(size_t)(0.97 * (double)(count - 1))];
		top = all[count - 1];
		*cut = top > 2.5 * usual && usual > 0;
		if (*cut)
			top = 1.6 * usual;
	}
	free(all);
	return top > 0 ? top * 1.08 : 1;
}

static void put_lines(const struct curves *c, const unsigned char *chosen, FILE *out)
{
	const char *comma = "";
	size_t n = 0;
	fputs("plot ", out);
	if (c->workers > DRAW_LINES_MAX) {
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
			i, n < DRAW_COLOURS ? "1" : "'-'", draw_colour[n % DRAW_COLOURS]);
		draw_name(out, c->worker[i]->id);
		comma = ", ";
		n++;
	}
}

static int draw_curves(const struct curves *c, const char *label, double scale, FILE *out)
{
	unsigned char *chosen = calloc(c->workers + 1, 1);
	int cut, many = c->workers > DRAW_LINES_MAX;
	if (!chosen)
		return -1;
	curves_choose(c, many ? LINES_OF_MANY : c->workers, chosen);
	double top = top_of(c, chosen, &cut) * scale;
	fprintf(out, "set ylabel '%s'\nset yrange [0:%.7g]\n", label, top);
	if (cut)
		fputs("set label 'higher values are cut off' at graph 0.01, graph 0.96 textcolor "
		      "rgb "
		      "'#777777' font ',10'\n",
		      out);
	int result = many ? put_band(c, scale, out) : 0;
	for (size_t i = 0; result == 0 && i < c->workers; i++)
		if (chosen[i])
			put_curve(c, i, scale, out);
	if (result == 0)
		put_lines(c, chosen, out);
	free(chosen);
	return result;
}

static double curves_size_of(const struct account_point *did)
{
	return did->samples / did->batches;
}

double curves_time(const struct account_point *did)
{
	return did->time / did->batches;
}

/* Only the workers whose times are drawn. */
int picture_sizes(const struct report *p, FILE *out)
{
	struct curves c, times;
	int result = curves_make(p, &times, curves_time);
	if (curves_make(p, &c, curves_size_of) != 0 || result != 0)
		result = -1;
	else {
		memcpy(c.stands_out, times.stands_out, c.workers * sizeof *c.stands_out);
		result = draw_curves(&c, "batch size (samples)", 1, out);
	}
	curves_free(&c);
	curves_free(&times);
	return result;
}

int picture_times(const struct report *p, FILE *out)
{
	struct curves c;
	double most = 0;
	int result = curves_make(p, &c, curves_time);
	for (size_t i = 0; result == 0 && i < c.workers * c.windows; i++)
		most = fmax(most, isnan(c.value[i]) ? 0 : c.value[i]);
	if (result == 0)
		result = draw_curves(&c, most < 0.5 ? "batch time (ms)" : "batch time (seconds)",
				     most < 0.5 ? 1000 : 1, out);
	curves_free(&c);
	return result;
}

/* ---- who made the others wait, and when ---- */

#define HEAT_STEPS 8 /* shades on either side of the median; four to a doubling */
#define HEAT_ROWS 6 /* fewer have no room for the names of all steps */

/* A run of windows of one shade is one box. */
static void put_heat(const struct curves *c, size_t worker, size_t row, const double *median,
		     FILE *out)
{
	double begin = 0, shade = NAN;
	for (size_t k = 0; k <= c->windows; k++) {
		double next = NAN;
		if (k < c->windows && median[k] > 0 && c->value[worker * c->windows + k] > 0)
			next = fmax(fmin(round(4 * log2(c->value[worker * c->windows + k] /
							median[k])),
					 HEAT_STEPS),
				    -HEAT_STEPS);
		if ((isnan(shade) && isnan(next)) || fabs(next - shade) < 0.5)
			continue;
		double end = k < c->windows ? c->window[k].x0 : c->window[k - 1].x1;
		if (!isnan(shade))
			fprintf(out, "%.7g %zu %.7g 0.45 %.0f\n", (begin + end) / 2, row,
				(end - begin) / 2, shade);
		begin = end;
		shade = next;
	}
}

static int make_heat(const struct report *p, const struct curves *c, FILE *out)
{
	size_t room = p->a->nodes + 1, rows = 0;
	unsigned char *chosen = calloc(room, 1);
	const struct account_node **row = calloc(room, sizeof *row);
	double *median = calloc(c->windows + 1, sizeof *median);
	double *sorted = calloc(room, sizeof *sorted);
	int result = chosen && row && median && sorted ? 0 : -1;
	for (size_t k = 0; result == 0 && k < c->windows; k++) {
		size_t count = sorted_values(c, k, sorted);
		median[k] = count > 0 ? sorted[(count - 1) / 2] : NAN;
	}
	if (result == 0) {
		curves_choose(c, DRAW_ROWS_MAX, chosen);
		fputs("$heat << EOD\n", out);
		for (size_t i = 0; i < c->workers; i++)
			if (chosen[i]) {
				put_heat(c, i, rows, median, out);
				row[rows++] = c->worker[i];
			}
		fputs("EOD\n", out);
		draw_rows(row, rows, out);
		fprintf(out,
			"set key off\nset cbrange [%d:%d]\n"
			"set cbtics ('x4' 8, %s'x1' 0, %s'x0.25' -8)\n"
			"set palette defined (-8 '#0072B2', 0 '#F2F2F2', 4 '#E69F00', 8 '#B00020')\n"
			"plot $heat using 1:2:3:4:5 with boxxyerror fs solid noborder lc palette "
			"notitle",
			-HEAT_STEPS, HEAT_STEPS, rows < HEAT_ROWS ? "" : "'x2' 4, ",
			rows < HEAT_ROWS ? "" : "'x0.5' -4, ");
	}
	free(chosen);
	free(row);
	free(median);
	free(sorted);
	return result;
}

int picture_heat(const struct report *p, FILE *out)
{
	struct curves c;
	int result = curves_make(p, &c, curves_time);
	if (result == 0)
		result = make_heat(p, &c, out);
	curves_free(&c);
	return result;
}

/* ---- loss and speed ---- */

int picture_loss(const struct report *p, FILE *out)
{
	const struct account *a = p->a;
	size_t step = 1 + a->rows / (2 * DRAW_WINDOWS), shown = 0;
	double low = INFINITY, high = -INFINITY;
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
			fprintf(out, "%.7g %.7g\n", draw_x(p, a->row[last - 1].at), sum / weight);
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
		draw_colour[0]);
	return 0;
}

/* The speed of a worker in a window in which it did nothing is its speed before; at first, it is
 * its first speed. */
static void put_speeds(const struct curves *c, FILE *out)
{
	double *speed = calloc(c->workers + 1, sizeof *speed);
	struct account_point *did = calloc(c->workers + 1, sizeof *did);
	int begun = 0;
	fputs("$speed << EOD\n", out);
	for (size_t i = 0; speed && i < c->workers; i++)
		speed[i] = cost_first_speed(c->worker[i]);
	for (size_t k = 0; speed && did && k < c->windows; k++) {
		const struct draw_window *w = &c->window[k];
		double samples = 0, could = 0;
		for (size_t i = 0; i < c->workers; i++)
			did[i] = account_between(c->worker[i], w->from, w->to);
		double barrier = cost_barrier(did, c->workers) + cost_collective(did, c->workers);
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

int picture_speed(const struct report *p, FILE *out)
{
	struct curves c;
	int result = curves_make(p, &c, curves_time);
	if (result == 0) {
		fputs("set ylabel 'samples a second'\nset yrange [0:*]\n", out);
		draw_format(p->cost.could, "y", out);
		put_speeds(&c, out);
		fprintf(out,
			"plot $speed using 1:2:3 with filledcurves fs solid noborder lc rgb "
			"'#F3E3D3' notitle, "
			"$speed using 1:3 with lines lw 1.8 dt '-' lc rgb '%s' title 'all "
			"together', "
			"$speed using 1:2 with lines lw 1.8 lc rgb '%s' title 'as it was'",
			draw_colour[5], draw_colour[0]);
	}
	curves_free(&c);
	return result;
}

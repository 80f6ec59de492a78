/*
 * trace: files that say what happened, to make it happen again.  Two kinds are read:
 *
 * - on and off records, as straggle(1) prints them: what they say holds until the next one of that
 *   node and life;
 * - lines of batch times, with a head that names columns worker, time (the step) and batch_time or
 *   batch_time_norm (Alibaba's cluster-trace-gpu-v2020/mini-batch-time), or without a head three
 *   columns step,worker,batch-time.  A step lasts as long as its longest batch, as under BSP
 *   without any remedy, because nothing else is known about its time.
 */
#include "straggle/schedule_internal.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/log.h"
#include "base/number.h"
#include "base/reals.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 32
#define LINE_ROOM 4096
#define AT_MAX 1e9

struct batch_row {
	double step, seconds;
	uint64_t worker, line;
};

struct reading {
	struct trace *trace;
	const struct schedule *schedule;
	const struct pattern *pattern;
	const struct trace_options *options;
	uint64_t line;
	size_t column[3]; /* of step, worker, batch time */
	int records, head, warned;
	struct batch_row *row;
	size_t rows, room;
};

enum { STEP, WORKER, SECONDS };

void trace_free(struct trace *t)
{
	free(t->point);
	free(t->time);
	*t = (struct trace){0};
}

static int trace_add_point(struct trace *t, const struct trace_point *point, struct error *err)
{
	if (GROW(t->point, t->room, t->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu lines", t->count);
	t->point[t->count++] = *point;
	return 0;
}

/* ---- records ---- */

static int find_node(const struct reading *in, const char *id, size_t *out, struct error *err)
{
	const struct schedule *s = in->schedule;
	for (size_t i = 0; i < s->nodes; i++)
		if (in->pattern->place[i] && strcmp(s->options.node[i], id) == 0) {
			*out = i;
			return 0;
		}
	return error_set(err, ERROR_DATA, NULL, "id=%s is none of the nodes", id);
}

static int check_target(const struct reading *in, const struct record *r, struct error *err)
{
	int factor = record_get(r, "slowdown") != NULL;
	if (!in->schedule->options.processes && factor)
		return error_set(err, ERROR_DATA, NULL, "slowdown= is for processes");
	if (in->schedule->options.processes && !factor && record_is(r, "on"))
		return error_set(err, ERROR_DATA, NULL, "slowdown= is missing");
	return 0;
}

static int trace_read_record(struct reading *in, const char *line, size_t len, struct error *err)
{
	struct record r;
	struct trace_point p = {.life = SCHEDULE_EVERY_LIFE, .line = in->line};
	uint64_t life = 0;
	const char *id;
	if (record_parse(&r, line, len, err) != 0)
		return -1;
	if (!record_is(&r, "on") && !record_is(&r, "off")) {
		if (!in->warned)
			log_say(LOG_LEVEL_WARNING, "%s:%llu: ignored: the record is neither on nor "
						   "off",
				in->options->path, (unsigned long long)in->line);
		in->warned = 1;
		return 0;
	}
	p.state = (struct schedule_state){.on = record_is(&r, "on"), .slowdown = 1};
	if (record_real(&r, "at", 0, AT_MAX, &p.at, err) != 0 ||
	    record_id(&r, "id", &id, err) != 0 || find_node(in, id, &p.node, err) != 0 ||
	    check_target(in, &r, err) != 0 ||
	    record_u64_opt(&r, "life", 0, 1000000000, &life, err) != 0 ||
	    (p.state.on && drag_fields(&r, &p.state.drag, err) != 0) ||
	    record_real_opt(&r, "slowdown", 1, 1000, &p.state.slowdown, err) != 0)
		return -1;
	if (record_get(&r, "life"))
		p.life = (int64_t)life;
	p.at *= in->schedule->options.scale;
	p.state.drag.delay *= in->schedule->options.delay_scale;
	p.state.drag.delay = fmin(p.state.drag.delay, DRAG_SECONDS_MAX);
	return trace_add_point(in->trace, &p, err);
}

/* ---- batch times ---- */

static size_t trace_split(char *line, char *word[COLUMNS_MAX])
{
	size_t n = 0;
	for (char *at = line; at && n < COLUMNS_MAX;)
		word[n++] = strsep(&at, ",");
	return n;
}

static int trace_read_head(struct reading *in, char *const *word, size_t words, struct error *err)
{
	static const char *const wanted[] = {"time", "worker", "batch_time"};
	for (size_t w = 0; w < 3; w++) {
		in->column[w] = SIZE_MAX;
		for (size_t i = 0; i < words; i++)
			if (strcmp(word[i], wanted[w]) == 0 ||
			    (w == SECONDS && strcmp(word[i], "batch_time_norm") == 0))
				in->column[w] = i;
		if (in->column[w] == SIZE_MAX)
			return error_set(err, ERROR_DATA, NULL, "no column '%s'", wanted[w]);
	}
	return 0;
}

static int read_batch(struct reading *in, char *line, struct error *err)
{
	char *word[COLUMNS_MAX];
	size_t words = trace_split(line, word);
	double ignored;
	if (!in->head) {
		in->head = 1;
		for (size_t w = 0; w < 3; w++)
			in->column[w] = w;
		if (number_real_span(word[0], strlen(word[0]), &ignored) != 0)
			return trace_read_head(in, word, words, err);
	}
	if (GROW(in->row, in->room, in->rows + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu lines", in->rows);
	struct batch_row *row = &in->row[in->rows];
	for (size_t w = 0; w < 3; w++)
		if (in->column[w] >= words)
			return error_set(err, ERROR_DATA, NULL, "%zu columns, but %zu are needed",
					 words, in->column[w] + 1);
	if (number_real(word[in->column[STEP]], 0, 1e15, &row->step, "step", err) != 0 ||
	    number_u64(word[in->column[WORKER]], 0, UINT64_MAX, &row->worker, "worker", err) != 0 ||
	    number_real(word[in->column[SECONDS]], 0, 1e15, &row->seconds, "batch time", err) != 0)
		return -1;
	row->seconds *= in->options->unit * in->schedule->options.delay_scale;
	if (row->seconds > DRAG_SECONDS_MAX)
		return error_set(err, ERROR_DATA, NULL, "a batch of %g s is longer than %g s",
				 row->seconds, DRAG_SECONDS_MAX);
	row->line = in->line;
	in->rows++;
	return 0;
}

static int trace_by_worker(const void *a, const void *b)
{
	const struct batch_row *x = a, *y = b;
	return x->worker < y->worker ? -1 : x->worker > y->worker;
}

static int by_step(const void *a, const void *b)
{
	const struct batch_row *x = a, *y = b;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* The workers of the trace, in rising order, become the chosen nodes in theirs. */
static int name_workers(struct reading *in, struct error *err)
{
	size_t next = 0;
	uint64_t last = 0;
	qsort(in->row, in->rows, sizeof *in->row, trace_by_worker);
	for (size_t i = 0; i < in->rows; i++) {
		next += i == 0 || in->row[i].worker != last;
		last = in->row[i].worker;
		in->row[i].worker = next - 1;
	}
	if (next > in->pattern->count)
		return error_set(err, ERROR_DATA, in->options->path, "%zu workers, but %zu nodes",
				 next, in->pattern->count);
	return 0;
}

static struct schedule_state batch_state(const struct trace_options *o, double seconds)
{
	struct schedule_state state = {.on = 1, .slowdown = 1};
	if (o->batch > 0 && seconds > 0)
		state.drag.speed = o->batch / seconds;
	else if (o->batch <= 0 && seconds > o->own)
		state.drag.delay = seconds - o->own;
	else
		state.on = 0;
	return state;
}

static int make_points(struct reading *in, struct error *err)
{
	const struct trace_options *o = in->options;
	double at = 0;
	qsort(in->row, in->rows, sizeof *in->row, by_step);
	for (size_t i = 0, end; i < in->rows; i = end) {
		double longest = 0;
		for (end = i; end < in->rows && in->row[end].step == in->row[i].step; end++) {
			const struct batch_row *row = &in->row[end];
			struct trace_point p = {.at = at,
						.node = in->pattern->chosen[row->worker],
						.life = SCHEDULE_EVERY_LIFE,
						.line = row->line,
						.state = batch_state(o, row->seconds)};
			if (trace_add_point(in->trace, &p, err) != 0)
				return -1;
			longest = fmax(longest, row->seconds);
		}
		at += o->step > 0 ? o->step * in->schedule->options.scale : longest;
	}
	for (size_t i = 0; i < in->pattern->count; i++) {
		struct trace_point p = {.at = at,
					.node = in->pattern->chosen[i],
					.life = SCHEDULE_EVERY_LIFE,
					.line = in->line + 1,
					.state = {.slowdown = 1}};
		if (trace_add_point(in->trace, &p, err) != 0)
			return -1;
	}
	return 0;
}

/* ---- reading ---- */

static int trace_read_line(struct reading *in, char *line, size_t len, struct error *err)
{
	if (len == 0)
		return 0;
	if (strlen(line) != len)
		return error_set(err, ERROR_DATA, NULL, "a NUL");
	if (!in->records && !in->head)
		in->records = line[strcspn(line, " ,")] == ' ';
	if (in->records)
		return trace_read_record(in, line, len, err);
	if (in->schedule->options.processes)
		return error_set(err, ERROR_DATA, NULL, "a record on or off is expected here");
	if (line[len - 1] == '\r')
		line[len - 1] = '\0';
	return read_batch(in, line, err);
}

static int trace_at_line(const struct reading *in, struct error *err)
{
	if (err->place[0]) { /* a number's: "step" */
		char text[ERROR_TEXT_MAX];
		snprintf(text, sizeof text, "%.100s: %.400s", err->place, err->text);
		memcpy(err->text, text, sizeof text);
		err->place[0] = '\0';
	}
	if (err->code != ERROR_OS && err->code != ERROR_IO)
		err->code = ERROR_DATA;
	snprintf(err->place, sizeof err->place, "%.400s:%llu", in->options->path,
		 (unsigned long long)in->line);
	return -1;
}

static int trace_read_lines(struct reading *in, FILE *file, struct error *err)
{
	char line[LINE_ROOM];
	ssize_t len;
	int result = 0;
	while (result == 0 && (len = fs_read_line(file, line, sizeof line, err)) != 0) {
		in->line++;
		if (len < 0)
			result = -1;
		else if (line[len - 1] != '\n')
			result = error_set(err, ERROR_DATA, NULL, "the last line has no end");
		else
			line[--len] = '\0';
		if (result != 0 || trace_read_line(in, line, (size_t)len, err) != 0)
			result = trace_at_line(in, err);
	}
	return result;
}

static int by_slot(const void *a, const void *b)
{
	const struct trace_point *x = a, *y = b;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->life != y->life)
		return x->life < y->life ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static int sort_points(struct trace *t, const char *path, struct error *err)
{
	if (t->count == 0)
		return error_set(err, ERROR_DATA, path, "says nothing");
	t->time = calloc(t->count, sizeof *t->time);
	if (!t->time)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu lines", t->count);
	for (size_t i = 0; i < t->count; i++)
		t->time[i] = t->point[i].at;
	reals_sort(t->time, t->count);
	qsort(t->point, t->count, sizeof *t->point, by_slot);
	return 0;
}

int trace_read(struct trace *t, const struct schedule *s, const struct pattern *p,
	       const struct trace_options *options, struct error *err)
{
	struct reading in = {.trace = t, .schedule = s, .pattern = p, .options = options};
	FILE *file = fopen(options->path, "re");
	if (!file)
		return error_errno(err, 0, options->path, "open");
	int result = trace_read_lines(&in, file, err);
	fclose(file);
	if (result == 0 && in.rows > 0 && (result = name_workers(&in, err)) == 0)
		result = make_points(&in, err);
	free(in.row);
	return result == 0 ? sort_points(t, options->path, err) : -1;
}

/* ---- time ---- */

static int belongs(const struct trace *t, size_t i, size_t node, int64_t life)
{
	return i < t->count && t->point[i].node == node && t->point[i].life == life;
}

int trace_at(const struct trace *t, size_t node, int64_t life, double at,
	     struct schedule_state *out)
{
	struct trace_point key = {.at = at, .node = node, .life = life, .line = UINT64_MAX};
	size_t low = 0, high = t->count; /* the first point behind key */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (by_slot(&t->point[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low > 0 && belongs(t, low - 1, node, life)) {
		*out = t->point[low - 1].state;
		return 1;
	}
	return belongs(t, low, node, life);
}

double trace_next(const struct trace *t, double at)
{
	size_t low = 0, high = t->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (t->time[middle] <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low < t->count ? t->time[low] : INFINITY;
}

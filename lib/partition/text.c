/* text: partitions as text, in an option and in the lines of a state. A file may have been made by
 * hand: what does not fit together is refused. */
#include "partition/partition.h"

#include "base/number.h"

#include <stdlib.h>
#include <string.h>

#define PARTITIONS_MAX 65536

/* ---- the option ---- */

static int partition_text_read_own(const char *text, size_t len, struct partition_own *out,
				   struct error *err)
{
	const char *colon = memchr(text, ':', len);
	size_t id = colon ? (size_t)(colon - text) : 0;
	*out = (struct partition_own){0};
	if (id == 0 || id >= sizeof out->worker ||
	    number_u64_span(colon + 1, len - id - 1, &out->rows) != 0)
		return error_set(err, ERROR_USAGE, "--partitions", "'%.*s' is not WORKER:ROWS",
				 len > 80 ? 80 : (int)len, text);
	memcpy(out->worker, text, id);
	return option_id_ok(out->worker)
		       ? 0
		       : error_set(err, ERROR_USAGE, "--partitions", "'%s' is no id", out->worker);
}

int partitions_option(const char *text, struct partition_own **out, size_t *count,
		      struct error *err)
{
	size_t room = 1;
	for (const char *p = text; *p; p++)
		room += *p == ',';
	struct partition_own *list = malloc(room * sizeof *list);
	if (!list)
		return error_set(err, ERROR_OS, "--partitions", "out of memory");
	for (*count = 0; *count < room; text += strcspn(text, ",") + 1)
		if (partition_text_read_own(text, strcspn(text, ","), &list[(*count)++], err) !=
		    0) {
			free(list);
			return -1;
		}
	*out = list;
	return 0;
}

static int partition_text_by_worker(const void *a, const void *b)
{
	return strcmp(((const struct partition_own *)a)->worker,
		      ((const struct partition_own *)b)->worker);
}

static int check_names(const struct partition_own *own, size_t count, struct error *err)
{
	struct partition_own *sorted = malloc((count + 1) * sizeof *sorted);
	int result = 0;
	if (!sorted)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(sorted, own, count * sizeof *sorted);
	qsort(sorted, count, sizeof *sorted, partition_text_by_worker);
	for (size_t i = 1; i < count && result == 0; i++)
		if (partition_text_by_worker(&sorted[i - 1], &sorted[i]) == 0)
			result = error_set(err, ERROR_CONFIG, NULL,
					   "worker %s has two partitions", sorted[i].worker);
	free(sorted);
	return result;
}

int partitions_check(const struct partition_own *own, size_t count, uint64_t samples,
		     struct error *err)
{
	uint64_t rows = 0;
	if (count > PARTITIONS_MAX)
		return error_set(err, ERROR_CONFIG, NULL, "more than %d partitions",
				 PARTITIONS_MAX);
	for (size_t i = 0; i < count; i++) {
		if (own[i].rows == 0)
			return error_set(err, ERROR_CONFIG, NULL, "worker %s has no rows",
					 own[i].worker);
		if (__builtin_add_overflow(rows, own[i].rows, &rows))
			return error_set(err, ERROR_CONFIG, NULL, "too many rows");
	}
	if (check_names(own, count, err) != 0)
		return -1;
	if (rows != samples)
		return error_set(err, ERROR_CONFIG, NULL,
				 "partitions have %llu rows, but there are %llu samples",
				 (unsigned long long)rows, (unsigned long long)samples);
	return 0;
}

int partitions_same(const struct partition_own *a, size_t count_a, const struct partition_own *b,
		    size_t count_b)
{
	if (count_a != count_b)
		return 0;
	for (size_t i = 0; i < count_a; i++)
		if (a[i].rows != b[i].rows || strcmp(a[i].worker, b[i].worker) != 0)
			return 0;
	return 1;
}

/* ---- lines ---- */

const struct field partitions_fields[] = {
	{FIELD("begun", U64, partitions, begun)},
	{FIELD("migrate", REAL, partitions, migrate)},
	{FIELD("next-move", U64, partitions, next_move)},
	{FIELD("moves-done", U64, partitions, moves_done)},
	{FIELD("rows-moved", U64, partitions, rows_moved)},
	{0}};

const struct field partition_own_fields[] = {
	{FIELD("worker", ID_COPY, partition_own, worker)},
	{FIELD("samples", U64, partition_own, rows)},
	{0}};

static const struct field pass_fields[] = {
	{FIELD("worker", ID_COPY, partition, worker)},
	{FIELD("done", U64, partition, passes)},
	{FIELD("left", U64, partition, left), .min = 1},
	{FIELD("given", U64, partition, given)},
	{0}};

static const struct field rows_fields[] = {
	{FIELD("begin", U64, partition_run, begin)},
	{FIELD("length", U64, partition_run, length), .min = 1},
	{FIELD("times", U64, partition_run, times)},
	{0}};

/* A move with names. */
struct move_line {
	struct partition_move move;
	const char *from, *to;
};

static const struct field move_fields[] = {
	{FIELD("id", U64, move_line, move.id)},
	{FIELD("from", ID, move_line, from)},
	{FIELD("to", ID, move_line, to)},
	{FIELD("begin", U64, move_line, move.begin)},
	{FIELD("length", U64, move_line, move.length), .min = 1},
	{0}};

struct out {
	void (*line)(void *arg, const struct record_out *line);
	void *arg;
};

static void partition_text_put(const struct out *out, const char *type, const struct field *fields,
			       const void *from)
{
	struct record_out *o = RECORD_BARE(type);
	fields_write(fields, o, from);
	out->line(out->arg, o);
}

void partitions_write(const struct partitions *p,
		      void (*line)(void *arg, const struct record_out *line), void *arg)
{
	struct out out = {line, arg};
	for (size_t i = 0; i < p->count; i++) {
		const struct partition *part = &p->partition[i];
		partition_text_put(&out, "pass", pass_fields, part);
		for (size_t j = 0; j < part->count; j++)
			partition_text_put(&out, "rows", rows_fields, &part->run[j]);
	}
	for (size_t i = 0; i < p->moves; i++) {
		struct move_line m = {p->move[i], p->partition[p->move[i].from].worker,
				      p->partition[p->move[i].to].worker};
		partition_text_put(&out, "move", move_fields, &m);
	}
}

void partitions_forget(struct partitions *p)
{
	for (size_t i = 0; i < p->count; i++)
		p->partition[i].count = p->partition[i].rows = p->partition[i].left = 0;
	p->unseen = 0;
}

static int partition_text_wrong(struct error *err, const char *why)
{
	return error_set(err, ERROR_DATA, NULL, "%s", why);
}

static uint64_t partition_text_samples_of(const struct partitions *p)
{
	const struct partition *last = &p->partition[p->count - 1];
	return last->begin + last->samples;
}

static int read_pass(struct partitions *p, const struct record *r, struct error *err)
{
	struct partition said;
	if (fields_read(pass_fields, r, &said, err) != 0)
		return -1;
	size_t i = partitions_find(p, said.worker);
	if (i == p->count || p->partition[i].rows > 0)
		return partition_text_wrong(err, "`pass` of no partition, or twice");
	p->reading = &p->partition[i];
	p->reading->passes = said.passes;
	p->reading->left = said.left;
	p->reading->given = said.given;
	return 0;
}

static int partition_text_read_rows(struct partitions *p, const struct record *r, struct error *err)
{
	struct partition_run run;
	uint64_t samples = partition_text_samples_of(p);
	struct partition *part = p->reading;
	if (!part)
		return partition_text_wrong(err, "`rows` without a `pass` line before them");
	if (fields_read(rows_fields, r, &run, err) != 0)
		return -1;
	if (run.begin >= samples || run.length > samples - run.begin || part->rows > samples ||
	    part->rows + run.length > samples)
		return partition_text_wrong(err, "a partition of more rows than there are");
	if (part->rows < part->left && part->rows + run.length > part->left)
		return partition_text_wrong(err, "left= is in the middle of `rows`");
	if (partition_append(part, run.begin, run.length, run.times) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	p->unseen += run.times == 0 ? run.length : 0;
	return 0;
}

static int read_move(struct partitions *p, const struct record *r, struct error *err)
{
	struct move_line m;
	if (fields_read(move_fields, r, &m, err) != 0)
		return -1;
	m.move.from = partitions_find(p, m.from);
	m.move.to = partitions_find(p, m.to);
	if (m.move.from == p->count || m.move.to == p->count || m.move.from == m.move.to ||
	    m.move.id >= p->next_move || partitions_move(p, m.move.id))
		return partition_text_wrong(err,
					    "a move of nobody, that was not planned, or twice");
	if (partitions_plan(p, &m.move) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	return 0;
}

int partitions_read(struct partitions *p, const struct record *r, struct error *err)
{
	if (record_is(r, "pass"))
		return read_pass(p, r, err);
	if (record_is(r, "rows"))
		return partition_text_read_rows(p, r, err);
	return record_is(r, "move") ? read_move(p, r, err) : 1;
}

int partitions_read_all(struct partitions *p, uint64_t samples, uint64_t all, uint64_t used,
			struct error *err)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->partition[i].rows == 0 || p->partition[i].left > p->partition[i].rows)
			return partition_text_wrong(
				err, "a partition without rows, or with too many left");
	int whole = partitions_are_whole(p, samples);
	if (whole < 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	if (!whole)
		return partition_text_wrong(err, "partitions do not have each row once");
	if (used > all || all - used < p->unseen)
		return partition_text_wrong(err, "more rows were never handed out than will be");
	for (size_t i = 0; i < p->count; i++)
		for (size_t j = 0; j < p->partition[i].count; j++)
			if (p->partition[i].run[j].times > used / p->partition[i].run[j].length)
				return partition_text_wrong(err, "`rows` were handed out more often than all together");
	p->budget = all - used;
	return 0;
}

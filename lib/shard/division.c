/* division: a queue whose workers have partitions: what each is handed, and the requests about moves.
 * The ring and the decisions are parts.c's and share.c's. */
#include "base/number.h"
#include "base/option.h"
#include "shard/queue_internal.h"

#include <stdlib.h>
#include <string.h>

#define PARTITIONS_MAX 65536

/* ---- the beginning and the end ---- */

static int read_one(const char *text, size_t len, struct queue_partition *out, struct error *err)
{
	const char *colon = memchr(text, ':', len);
	size_t id = colon ? (size_t)(colon - text) : 0;
	*out = (struct queue_partition){0};
	if (id == 0 || id >= sizeof out->worker ||
	    number_u64_span(colon + 1, len - id - 1, &out->rows) != 0)
		return error_set(err, ERROR_USAGE, "--partitions", "'%.*s' is not WORKER:ROWS",
				 len > 80 ? 80 : (int)len, text);
	memcpy(out->worker, text, id);
	return option_id_ok(out->worker)
		       ? 0
		       : error_set(err, ERROR_USAGE, "--partitions", "'%s' is no id", out->worker);
}

int queue_partitions_read(const char *text, struct queue_partition **out, size_t *count,
			  struct error *err)
{
	size_t room = 1;
	for (const char *p = text; *p; p++)
		room += *p == ',';
	struct queue_partition *list = malloc(room * sizeof *list);
	if (!list)
		return error_set(err, ERROR_OS, "--partitions", "out of memory");
	for (*count = 0; *count < room; text += strcspn(text, ",") + 1)
		if (read_one(text, strcspn(text, ","), &list[(*count)++], err) != 0) {
			free(list);
			return -1;
		}
	*out = list;
	return 0;
}

static int check_names(const struct queue_parameters *p, size_t i, struct error *err)
{
	for (size_t j = 0; j < i; j++)
		if (strcmp(p->partition[i].worker, p->partition[j].worker) == 0)
			return error_set(err, ERROR_CONFIG, NULL, "worker %s has two partitions",
					 p->partition[i].worker);
	return 0;
}

int queue_parts_check(const struct queue_parameters *p, struct error *err)
{
	uint64_t rows = 0;
	if (p->partitions == 0)
		return 0;
	if (p->partitions > PARTITIONS_MAX)
		return error_set(err, ERROR_CONFIG, NULL, "more than %d partitions",
				 PARTITIONS_MAX);
	if (p->shuffle == QUEUE_SHUFFLE_SHARDS)
		return error_set(err, ERROR_CONFIG, NULL,
				 "shards of partitions have no order to shuffle: say samples");
	for (size_t i = 0; i < p->partitions; i++) {
		if (p->partition[i].rows == 0)
			return error_set(err, ERROR_CONFIG, NULL, "worker %s has no rows",
					 p->partition[i].worker);
		if (__builtin_add_overflow(rows, p->partition[i].rows, &rows))
			return error_set(err, ERROR_CONFIG, NULL, "too many rows");
		if (check_names(p, i, err) != 0)
			return -1;
	}
	if (rows != p->samples)
		return error_set(err, ERROR_CONFIG, NULL,
				 "partitions have %llu rows, but there are %llu samples",
				 (unsigned long long)rows, (unsigned long long)p->samples);
	return 0;
}

/* Each partition has the rows of its own file, never handed out. */
static int fill(struct parts *parts, const struct queue_parameters *p)
{
	for (size_t i = 0; i < p->partitions; i++) {
		if (parts_add(parts, p->partition[i].worker, p->partition[i].rows) != 0)
			return -1;
		struct part *part = &parts->part[i];
		if (part_append(part, part->begin, part->samples, 0) != 0)
			return -1;
		part->left = part->rows;
	}
	parts->unseen = p->samples;
	parts->grain = (p->batch - 1) / p->partitions + 1;
	parts->budget = p->samples * p->epochs; /* queue_new() has checked the product */
	return 0;
}

int queue_parts_new(struct queue *q, const struct queue_parameters *p)
{
	struct queue_partition *own = malloc(p->partitions * sizeof *own);
	q->parts = calloc(1, sizeof *q->parts);
	q->lines = calloc(p->partitions, sizeof *q->lines);
	q->p.partition = own;
	q->total = q->next_id = 0;
	if (!own || !q->parts || !q->lines || fill(q->parts, p) != 0)
		return -1;
	memcpy(own, p->partition, p->partitions * sizeof *own);
	for (size_t i = 0; i < p->partitions; i++)
		q->lines[i].part = &q->parts->part[i];
	return 0;
}

void queue_parts_free(struct queue *q)
{
	if (q->parts)
		parts_free(q->parts);
	free(q->parts);
	free(q->lines);
	free((void *)(uintptr_t)q->p.partition);
}

int queue_same_partitions(const struct queue_parameters *a, const struct queue_parameters *b)
{
	if (a->partitions != b->partitions)
		return 0;
	for (size_t i = 0; i < a->partitions; i++)
		if (a->partition[i].rows != b->partition[i].rows ||
		    strcmp(a->partition[i].worker, b->partition[i].worker) != 0)
			return 0;
	return 1;
}

/* ---- handing out ---- */

struct epoch *queue_parts_line(const struct queue *q, const char *worker)
{
	size_t i = parts_find(q->parts, worker);
	return i < q->parts->count ? &q->lines[i] : NULL;
}

struct piece *queue_parts_next(const struct queue *q, const struct worker *w, int *is_fresh)
{
	const struct epoch *line = queue_parts_line(q, w->id);
	*is_fresh = 0;
	if (line->front)
		return line->front;
	const struct part *part = line->part;
	/* What came back is handed out before the next traversal begins. */
	if (line->todo.head && part->left == part->rows)
		return line->todo.head;
	*is_fresh = part_offer(q->parts, part, 1) > 0;
	return *is_fresh ? NULL : line->todo.head;
}

struct piece *queue_parts_fresh(struct queue *q, const struct worker *w, uint64_t max)
{
	struct epoch *line = queue_parts_line(q, w->id);
	struct part *part = line->part;
	if (part_prepare(part) != 0)
		return NULL;
	uint64_t most = max > 0 && max < q->shard_rows ? max : q->shard_rows;
	struct piece *p = piece_new(q);
	line->number = part->traversals;
	p->id = p->origin = q->next_id++;
	p->epoch = line;
	p->length = p->hi = part_offer(q->parts, part, most);
	p->begin = part_take(q->parts, part, p->length);
	p->seed = piece_seed(q, p->id);
	table_put(&q->pieces, p->id, p);
	q->begun++;
	return p;
}

uint64_t queue_parts_todo(const struct queue *q)
{
	uint64_t budget = q->parts->budget;
	return budget / q->shard_rows + (budget % q->shard_rows > 0);
}

/* ---- moves ---- */

void queue_set_migrate(struct queue *q, double migrate)
{
	struct line l;
	if (!q->parts)
		return;
	q->parts->migrate = migrate;
	line_begin(&l, "migrate");
	line_real(&l, "threshold", migrate);
	queue_log_line(q, &l);
}

double queue_migrate(const struct queue *q)
{
	return q->parts ? q->parts->migrate : 0;
}

/* Moves that nobody would notice any more are not planned. */
int queue_plan(const struct queue *q, struct queue_move **moves, size_t *count)
{
	const struct parts *p = q->parts;
	struct part_move *plan;
	*moves = NULL;
	*count = 0;
	if (!p || p->migrate <= 0 || p->moves > 0 || p->budget == p->unseen ||
	    parts_gap(p) <= p->migrate)
		return 0;
	if (parts_moves(p, q->p.batch, &plan, count) != 0)
		return -1;
	*moves = malloc((*count + 1) * sizeof **moves);
	for (size_t i = 0; *moves && i < *count; i++)
		(*moves)[i] = (struct queue_move){plan[i].id, p->part[plan[i].from].worker,
						  p->part[plan[i].to].worker, plan[i].begin,
						  plan[i].length};
	free(plan);
	return *moves ? 0 : -1;
}

/* Whether the giver has all of these rows, and no other move takes any. */
static int may_move(const struct parts *p, const struct part_move *m)
{
	const struct part *from = &p->part[m->from];
	uint64_t end, have = 0;
	if (m->length == 0 || m->from == m->to || m->id < p->next_move ||
	    __builtin_add_overflow(m->begin, m->length, &end))
		return 0;
	for (size_t i = 0; i < from->count; i++) {
		uint64_t run_end = from->run[i].begin + from->run[i].length;
		uint64_t lo = from->run[i].begin > m->begin ? from->run[i].begin : m->begin;
		uint64_t hi = run_end < end ? run_end : end;
		have += lo < hi ? hi - lo : 0;
	}
	for (size_t i = 0; i < p->moves; i++)
		if (p->move[i].begin < end && m->begin < p->move[i].begin + p->move[i].length)
			return 0;
	return have == m->length && from->rows > m->length;
}

enum queue_result queue_plan_take(struct queue *q, const struct queue_move *move,
				  struct error *err)
{
	struct parts *p = q->parts;
	struct part_move made = {.id = move->id, .begin = move->begin, .length = move->length};
	made.from = p ? parts_find(p, move->from) : 0;
	made.to = p ? parts_find(p, move->to) : 0;
	if (!p || made.from == p->count || made.to == p->count || !may_move(p, &made))
		return queue_no(QUEUE_BAD, err, "move %llu is not possible", move->id);
	struct line l;
	line_begin(&l, "move");
	line_u64(&l, "id", move->id);
	line_text(&l, "from", move->from);
	line_text(&l, "to", move->to);
	line_u64(&l, "begin", move->begin);
	line_u64(&l, "length", move->length);
	if (parts_plan(p, &made) != 0)
		return queue_no_memory(err);
	queue_log_line(q, &l);
	return QUEUE_OK;
}

/* QUEUE_OK with *move NULL: it was done or dropped. */
static enum queue_result find_move(const struct queue *q, uint64_t id, struct part_move **move,
				   struct error *err)
{
	*move = q->parts ? parts_move(q->parts, id) : NULL;
	if (*move || (q->parts && id < q->parts->next_move))
		return QUEUE_OK;
	return queue_no(QUEUE_UNKNOWN_SHARD, err, "no move %llu was planned", id);
}

static void log_move(struct queue *q, const char *type, uint64_t id)
{
	struct line l;
	line_begin(&l, type);
	line_u64(&l, "id", id);
	queue_log_line(q, &l);
}

enum queue_result queue_moved(struct queue *q, const char *worker, uint64_t id, struct error *err)
{
	struct part_move *move;
	enum queue_result result = find_move(q, id, &move, err);
	if (result != QUEUE_OK || !move)
		return result;
	if (strcmp(q->parts->part[move->to].worker, worker) != 0)
		return queue_no(QUEUE_NOT_YOURS, err, "move %llu is to another", id);
	if (parts_commit(q->parts, move) != 0)
		return queue_no_memory(err);
	log_move(q, "moved", id);
	return QUEUE_OK;
}

enum queue_result queue_drop_move(struct queue *q, uint64_t id, struct error *err)
{
	struct part_move *move;
	enum queue_result result = find_move(q, id, &move, err);
	if (result != QUEUE_OK || !move)
		return result;
	parts_drop(q->parts, move);
	log_move(q, "drop", id);
	return QUEUE_OK;
}

/* ---- telling ---- */

int queue_share(const struct queue *q, size_t i, struct queue_share *out)
{
	if (!q->parts || i >= q->parts->count)
		return -1;
	const struct part *part = &q->parts->part[i];
	*out = (struct queue_share){.worker = part->worker,
				    .begin = part->begin,
				    .samples = part->samples,
				    .rows = part->rows,
				    .traversals = part->traversals,
				    .left = part->left,
				    .given = part->given};
	return 0;
}

int queue_share_of(const struct queue *q, const char *worker, struct queue_share *out)
{
	return q->parts ? queue_share(q, parts_find(q->parts, worker), out) : -1;
}

void queue_parts_stat(const struct queue *q, struct queue_parts_stat *out)
{
	*out = (struct queue_parts_stat){0};
	if (!q->parts)
		return;
	out->budget = q->parts->budget;
	out->unseen = q->parts->unseen;
	out->moves = q->parts->moves;
	out->moves_done = q->parts->moves_done;
	out->rows_moved = q->parts->rows_moved;
}

int queue_rows(const struct queue *q, size_t partition, size_t i, uint64_t *begin, uint64_t *length,
	       uint64_t *times)
{
	if (!q->parts || partition >= q->parts->count || i >= q->parts->part[partition].count)
		return -1;
	const struct run *run = &q->parts->part[partition].run[i];
	*begin = run->begin;
	*length = run->length;
	*times = run->times;
	return 0;
}

int queue_move(const struct queue *q, size_t i, struct queue_move *out)
{
	if (!q->parts || i >= q->parts->moves)
		return -1;
	const struct part_move *m = &q->parts->move[i];
	*out = (struct queue_move){m->id, q->parts->part[m->from].worker,
				   q->parts->part[m->to].worker, m->begin, m->length};
	return 0;
}

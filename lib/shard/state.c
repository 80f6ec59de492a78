/* state: writes the whole queue as lines (paceline-journal(5)), and reads them. They are the
 * beginning of a journal, and what `save` writes. The fields of each line are in a table, for both
 * ways; a new field must be optional. The reader of the file has checked the sums. But somebody may
 * have made the file by hand: what does not fit together is refused, and no content may crash
 * us. */
#include "shard/state.h"

#include "base/grow.h"
#include "record/sealed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tables ---- */

struct head_line {
	uint64_t version, partitions;
	struct queue_parameters p;
};

static const struct field head_fields[] = {
	{FIELD("version", U64, head_line, version)},
	{FIELD("samples", U64, head_line, p.samples)},
	{FIELD("batch", U64, head_line, p.batch)},
	{FIELD("batches", U64, head_line, p.batches)},
	{FIELD("epochs", U64, head_line, p.epochs)},
	{FIELD("shuffle", NAME, head_line, p.shuffle), .names = queue_shuffle_names},
	{FIELD("seed", U64, head_line, p.seed)},
	{FIELD("apart", U64, head_line, p.apart), .is_optional = 1},
	{FIELD("partitions", U64, head_line, partitions), .is_optional = 1},
	{0}};

static const struct field state_fields[] = {
	{FIELD("incarnation", U64, queue, incarnation)},
	{FIELD("cursor", U64, queue, cursor)},
	{FIELD("next-id", U64, queue, next_id)},
	{FIELD("skipped", U64, queue, skipped), .is_optional = 1},
	{FIELD("iteration", U64, queue, iteration)},
	{FIELD("retries", U64, queue, retries)},
	{FIELD("lease", REAL, queue, lease)},
	{FIELD("pieces-done", U64, queue, pieces_done)},
	{FIELD("shards-done", U64, queue, shards_done)},
	{FIELD("samples-done", U64, queue, samples_done)},
	{FIELD("samples-repeated", U64, queue, samples_repeated)},
	{FIELD("first-at", TIME, queue, first_at)},
	{FIELD("last-at", TIME, queue, last_at)},
	{FIELD("loose", ID_COPY, queue, loose), .is_optional = 1},
	{FIELD("term", U64, queue, term), .is_optional = 1},
	{FIELD("committed", U64, queue, committed), .is_optional = 1},
	{FIELD("note", ID_COPY, queue, note), .is_optional = 1},
	{0}};

static const struct field settled_fields[] = {
	{FIELD("number", U64, settle_head, number)},
	{FIELD("lines", U64, settle_head, lines)},
	{FIELD("whole", U64, settle_head, is_whole), .is_optional = 1},
	{0}};

struct worker_line {
	const char *id;
	uint64_t generation, last;
};

static const struct field worker_fields[] = {
	{FIELD("id", ID, worker_line, id)},
	{FIELD("generation", U64, worker_line, generation)},
	{FIELD("last", U64, worker_line, last)},
	{0}};

struct piece_line {
	struct piece p;
	const char *partition, *worker; /* NULL: none */
	uint64_t is_cut, is_front;
};

static const struct field piece_fields[] = {
	{FIELD("id", U64, piece_line, p.id)},
	{FIELD("state", NAME, piece_line, p.state), .names = queue_state_names},
	{FIELD("origin", U64, piece_line, p.origin)},
	{FIELD("begin", U64, piece_line, p.begin)},
	{FIELD("length", U64, piece_line, p.length)},
	{FIELD("lo", U64, piece_line, p.lo)},
	{FIELD("hi", U64, piece_line, p.hi)},
	{FIELD("seed", U64, piece_line, p.seed), .is_optional = 1},
	{FIELD("cut", U64, piece_line, is_cut), .is_optional = 1},
	{FIELD("front", U64, piece_line, is_front), .is_optional = 1},
	{FIELD("partition", ID, piece_line, partition), .is_optional = 1},
	{FIELD("worker", ID, piece_line, worker), .is_optional = 1},
	{FIELD("deaths", U32, piece_line, p.deaths)},
	{FIELD("returns", U32, piece_line, p.returns)},
	{FIELD("at", TIME, piece_line, p.at)},
	{0}};

static const struct field run_fields[] = {
	{FIELD("lo", U64, piece, lo)},
	{FIELD("hi", U64, piece, hi)},
	{0}};

struct end_line {
	uint64_t lines;
};

static const struct field end_fields[] = {{FIELD("lines", U64, end_line, lines)}, {0}};

/* ---- writing ---- */

struct writer {
	void (*line)(void *arg, const char *line, size_t len);
	void *arg;
	uint64_t count;
	char data[SEALED_MAX];
	struct record_out o;
};

static void end_line(void *writer, const struct record_out *o)
{
	struct writer *w = writer;
	assert(!o->overflow);
	w->line(w->arg, o->data, o->len);
	w->count++;
}

static void begin_line(struct writer *w, const char *type, const struct field *fields,
		       const void *from)
{
	record_begin(&w->o, w->data, sizeof w->data, type);
	fields_write(fields, &w->o, from);
}

static void shard_state_put(struct writer *w, const char *type, const struct field *fields,
			    const void *from)
{
	begin_line(w, type, fields, from);
	end_line(w, &w->o);
}

static void write_head(struct writer *w, const struct queue *q)
{
	struct head_line head = {.version = 1, .partitions = q->p.partitions, .p = q->p};
	shard_state_put(w, "queue", head_fields, &head);
	for (size_t i = 0; i < q->p.partitions; i++)
		shard_state_put(w, "partition", partition_own_fields, &q->p.partition[i]);
	begin_line(w, "state", state_fields, q);
	if (q->own)
		fields_write(partitions_fields, &w->o, q->own);
	end_line(w, &w->o);
}

static void write_settled(struct writer *w, const struct queue *q)
{
	struct settle_head head = {.number = q->settle_number,
				   .lines = q->refusals,
				   .is_whole = q->is_whole};
	if (!q->has_settled)
		return;
	shard_state_put(w, "settled", settled_fields, &head);
	for (size_t i = 0; i < q->refusals; i++)
		shard_state_put(w, "fenced", refusal_fields, &q->refusal[i]);
}

static void write_piece(struct writer *w, const struct queue *q, const struct piece *p)
{
	struct piece_line line = {.p = *p,
				  .partition = lane_worker(q, p->lane),
				  .worker = p->worker ? p->worker->id : NULL,
				  .is_cut = p->whole != NULL,
				  .is_front = p->is_first != 0};
	shard_state_put(w, "piece", piece_fields, &line);
	while ((p = p->more) != NULL)
		shard_state_put(w, "run", run_fields, p);
}

static void write_list(struct writer *w, const struct queue *q, const struct piece_list *list)
{
	for (const struct piece *p = list->head; p; p = p->next)
		write_piece(w, q, p);
}

void queue_write(const struct queue *q, void (*line)(void *arg, const char *line, size_t len),
		 void *arg)
{
	struct writer w = {.line = line, .arg = arg};
	write_head(&w, q);
	write_settled(&w, q);
	if (q->own)
		partitions_write(q->own, end_line, &w);
	for (const struct worker *worker = q->first_worker; worker; worker = worker->next) {
		struct worker_line said = {worker->id, worker->generation, worker->last};
		shard_state_put(&w, "worker", worker_fields, &said);
		write_list(&w, q, &worker->hand);
	}
	for (const struct lane *l = NULL; (l = source_lane_behind(q, l)) != NULL;) {
		write_list(&w, q, &l->first);
		write_list(&w, q, &l->todo);
	}
	write_list(&w, q, &q->held);
	struct end_line end = {w.count};
	shard_state_put(&w, "end", end_fields, &end);
}

/* ---- reading ---- */

static int shard_state_wrong(struct error *err, const char *why)
{
	return error_set(err, ERROR_DATA, NULL, "%s", why);
}

static int shard_state_no_memory(struct error *err)
{
	return error_set(err, ERROR_OS, NULL, "out of memory");
}

/* Compares parameters while a state is read: of partitions only the number is known then. */
static int shard_state_is_same(const struct queue_parameters *a, const struct queue_parameters *b)
{
	return a->samples == b->samples && a->batches == b->batches && a->epochs == b->epochs &&
	       a->shuffle == b->shuffle && a->seed == b->seed &&
	       a->apart == b->apart && a->partitions == b->partitions;
}

static int shard_state_read_head(struct state_reader *s, const struct record *r, struct error *err)
{
	struct head_line head;
	uint64_t version;
	if (!record_is(r, "queue"))
		return shard_state_wrong(err, "does not begin with a `queue` line");
	if (record_u64(r, "version", 0, UINT64_MAX, &version, err) != 0)
		return -1;
	if (version != 1)
		return error_set(err, ERROR_DATA, NULL, "version %llu is not known here",
				 (unsigned long long)version);
	if (fields_read(head_fields, r, &head, err) != 0)
		return -1;
	s->p = head.p;
	s->p.partitions = (size_t)head.partitions;
	s->p.partition = NULL;
	/* Check before anything is allocated for them: a file may say anything. */
	if (s->has_expected && !shard_state_is_same(&s->p, &s->expected))
		return error_set(err, ERROR_CONFIG, NULL,
				 "made for samples=%llu batches=%llu epochs=%llu "
				 "shuffle=%s seed=%llu%s",
				 (unsigned long long)s->p.samples, (unsigned long long)s->p.batches,
				 (unsigned long long)s->p.epochs,
				 queue_shuffle_names[s->p.shuffle], (unsigned long long)s->p.seed,
				 s->p.apart ? " apart=1" : "");
	if (head.partitions > 0) {
		s->stage = STATE_PARTITIONS;
		return 0;
	}
	s->stage = STATE_NUMBERS;
	return queue_new(&s->q, &s->p, err);
}

static int read_partition(struct state_reader *s, const struct record *r, struct error *err)
{
	if (!record_is(r, "partition"))
		return shard_state_wrong(err, "fewer `partition` lines than partitions=");
	/* Memory grows as they come: a file may announce any number of them. */
	if (GROW(s->own, s->room, s->owns + 1) != 0)
		return shard_state_no_memory(err);
	struct partition_own *own = &s->own[s->owns];
	*own = (struct partition_own){0};
	if (fields_read(partition_own_fields, r, own, err) != 0)
		return -1;
	if (++s->owns < s->p.partitions)
		return 0;
	s->p.partition = s->own;
	if (s->has_expected && !partitions_same(s->own, s->owns, s->expected.partition,
						s->expected.partitions))
		return error_set(err, ERROR_CONFIG, NULL, "made for other partitions");
	s->stage = STATE_NUMBERS;
	return queue_new(&s->q, &s->p, err);
}

static int read_numbers(struct state_reader *s, const struct record *r, struct error *err)
{
	struct queue *q = s->q;
	if (!record_is(r, "state"))
		return shard_state_wrong(err, "a `state` line must come second");
	if (fields_read(state_fields, r, q, err) != 0 ||
	    (q->own && fields_read(partitions_fields, r, q->own, err) != 0))
		return -1;
	if (q->cursor > q->total || q->next_id < q->total || q->next_id > UINT64_MAX >> 1 ||
	    q->skipped > q->next_id - q->total)
		return shard_state_wrong(err, "cursor= or next-id= can't be");
	if (q->own)
		partitions_forget(q->own);
	s->stage = STATE_PIECES;
	return 0;
}

static int read_settled(struct state_reader *s, const struct record *r, struct error *err)
{
	struct queue *q = s->q;
	struct settle_head head;
	if (q->has_settled)
		return shard_state_wrong(err, "`settled` appears twice");
	if (fields_read(settled_fields, r, &head, err) != 0)
		return -1;
	if (head.lines > SETTLE_LINES_MAX)
		return shard_state_wrong(err, "`settled` of too many lines");
	s->refusals_due = head.lines;
	q->settle_number = head.number;
	q->is_whole = head.is_whole;
	q->has_settled = 1;
	q->refusal = malloc((head.lines + 1) * sizeof *q->refusal);
	return q->refusal ? 0 : shard_state_no_memory(err);
}

static int read_fenced(struct state_reader *s, const struct record *r, struct error *err)
{
	if (s->refusals_due == 0)
		return shard_state_wrong(err, "`fenced` without a `settled` line that counts it");
	if (fields_read(refusal_fields, r, &s->q->refusal[s->q->refusals], err) != 0)
		return -1;
	s->q->refusals++;
	s->refusals_due--;
	return 0;
}

static int shard_state_read_worker(struct state_reader *s, const struct record *r,
				   struct error *err)
{
	struct worker_line said;
	if (fields_read(worker_fields, r, &said, err) != 0)
		return -1;
	if (queue_worker(s->q, said.id))
		return shard_state_wrong(err, "worker appears twice");
	if (!source_knows(s->q, said.id))
		return shard_state_wrong(err, "worker without a partition");
	if (said.generation != 0 && said.generation != said.last)
		return shard_state_wrong(err, "generation= is neither 0 nor last=");
	struct worker *w = queue_worker_make(s->q, said.id);
	if (!w)
		return shard_state_no_memory(err);
	w->generation = said.generation;
	w->last = said.last;
	return 0;
}

/* Checks the numbers of a `piece` line against each other. */
static int check_piece(const struct queue *q, const struct piece *p, struct error *err)
{
	uint64_t begin = 0, length = q->p.samples;
	if (p->id >= q->next_id || p->origin >= (q->own ? q->next_id : q->cursor))
		return shard_state_wrong(err, "a piece of a shard that was not handed out");
	if (!q->own)
		source_frame(q, p->origin, &begin, &length);
	if (p->begin < begin || p->length > length || p->begin - begin > length - p->length ||
	    p->lo >= p->hi || p->hi > p->length)
		return shard_state_wrong(err, "the piece is not inside its shard");
	if ((p->id < q->total && p->id != p->origin) || u64map_get(&q->pieces, p->id))
		return shard_state_wrong(err, "id= of another piece");
	return 0;
}

/* Notes the shard of a piece. It is counted once, and shared by its pieces if it was cut. */
static int join_origin(struct state_reader *s, struct piece *p, int is_cut, struct error *err)
{
	struct whole *w = u64map_get(&s->origins, p->origin);
	if (w && (!is_cut || w->is_uncut))
		return shard_state_wrong(err, "two pieces of one shard that was not cut");
	if (!w) {
		if (u64map_reserve(&s->origins, s->origins.count + 1) != 0 ||
		    (w = pool_take(&s->q->whole)) == NULL)
			return shard_state_no_memory(err);
		*w = (struct whole){.id = p->origin, .is_uncut = !is_cut};
		u64map_put(&s->origins, p->origin, w);
		source_was_read(s->q, p->lane);
	}
	p->whole = is_cut ? w : NULL;
	w->left += p->hi - p->lo;
	s->remaining += p->hi - p->lo;
	return 0;
}

static int place_piece(struct queue *q, struct piece *p, const struct piece_line *said,
		       struct error *err)
{
	const char *own = lane_worker(q, p->lane);
	struct worker *w = said->worker ? queue_worker(q, said->worker) : NULL;
	switch (said->p.state) {
	case QUEUE_DOING:
		if (!w || w->generation == 0)
			return shard_state_wrong(err, "a piece in the hand of nobody in force");
		if (own && strcmp(own, w->id) != 0)
			return shard_state_wrong(
				err, "a piece in the hand of another partition's worker");
		p->worker = w;
		piece_append(&w->hand, p);
		piece_renew(q, p);
		q->doing++;
		return 0;
	case QUEUE_TODO:
		q->todo++;
		if (said->is_front)
			piece_put_first(p);
		else
			piece_append(&p->lane->todo, p);
		return 0;
	case QUEUE_HELD:
		piece_append(&q->held, p);
		return 0;
	default:
		return shard_state_wrong(err, "a piece that is done");
	}
}

static int read_piece(struct state_reader *s, const struct record *r, struct error *err)
{
	struct queue *q = s->q;
	struct piece_line said = {0};
	if (fields_read(piece_fields, r, &said, err) != 0 || check_piece(q, &said.p, err) != 0)
		return -1;
	if (piece_prepare(q, 1) != 0)
		return shard_state_no_memory(err);
	if (q->own && !said.partition)
		return shard_state_wrong(err, "a piece without partition=");
	said.p.lane = source_lane(q, said.partition, said.p.origin);
	if (!said.p.lane)
		return q->own ? shard_state_wrong(err, "partition= of nobody")
			      : shard_state_no_memory(err);
	struct piece *p = piece_new(q);
	*p = said.p;
	/* From here on it belongs to the queue, which frees it. */
	piece_enter(q, p);
	s->last = p;
	return join_origin(s, p, said.is_cut != 0, err) != 0 ? -1 : place_piece(q, p, &said, err);
}

static int read_run(struct state_reader *s, const struct record *r, struct error *err)
{
	struct piece *of = s->last, said;
	if (!of || of->state != QUEUE_DOING || !of->whole)
		return shard_state_wrong(err, "`run` without a piece that has several");
	struct piece *before = of->last_cut ? of->last_cut : of; /* the last run */
	if (fields_read(run_fields, r, &said, err) != 0)
		return -1;
	if (said.lo < before->hi || said.lo >= said.hi || said.hi > of->length)
		return shard_state_wrong(err, "the run is not behind the one before");
	if (piece_prepare(s->q, 1) != 0)
		return shard_state_no_memory(err);
	before->more = of->last_cut = piece_new(s->q);
	before->more->lo = said.lo;
	before->more->hi = said.hi;
	s->q->runs++;
	of->whole->left += said.hi - said.lo;
	s->remaining += said.hi - said.lo;
	return 0;
}

/* Frees what only reading needed: shards that were never cut. */
static void forget_origins(struct state_reader *s)
{
	struct whole *w;
	for (size_t at = 0; (w = u64map_next(&s->origins, &at)) != NULL;)
		if (w->is_uncut)
			pool_give(&s->q->whole, w);
	u64map_free(&s->origins);
}

static int shard_state_read_end(struct state_reader *s, const struct record *r, struct error *err)
{
	struct end_line end;
	if (fields_read(end_fields, r, &end, err) != 0)
		return -1;
	if (end.lines != s->lines || s->refusals_due > 0)
		return shard_state_wrong(err, "lines are missing before the `end`");
	if (source_read_all(s->q, s->remaining, s->origins.count, err) != 0)
		return -1;
	forget_origins(s);
	s->stage = STATE_WHOLE;
	return 0;
}

static const struct {
	const char *type;
	int (*read)(struct state_reader *s, const struct record *r, struct error *err);
} lines[] = {
	{"piece", read_piece},     {"run", read_run},       {"worker", shard_state_read_worker},
	{"settled", read_settled}, {"fenced", read_fenced}, {"end", shard_state_read_end},
};

static int shard_state_read_line(struct state_reader *s, const struct record *r, struct error *err)
{
	if (!record_is(r, "run"))
		s->last = record_is(r, "piece") ? s->last : NULL;
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		if (record_is(r, lines[i].type))
			return lines[i].read(s, r, err);
	int result = s->q->own ? partitions_read(s->q->own, r, err) : 1;
	return result <= 0 ? result
			   : error_set(err, ERROR_DATA, NULL, "unknown line '%.40s'", r->type);
}

int state_read(struct state_reader *s, const struct record *r, struct error *err)
{
	int result = -1;
	switch (s->stage) {
	case STATE_HEAD:
		result = shard_state_read_head(s, r, err);
		break;
	case STATE_PARTITIONS:
		result = read_partition(s, r, err);
		break;
	case STATE_NUMBERS:
		result = read_numbers(s, r, err);
		break;
	case STATE_PIECES:
		result = shard_state_read_line(s, r, err);
		break;
	case STATE_WHOLE:
		return shard_state_wrong(err, "lines behind the end of the state");
	}
	s->lines++;
	return result;
}

void state_reader_free(struct state_reader *s)
{
	forget_origins(s);
	free(s->own);
	queue_free(s->q);
}

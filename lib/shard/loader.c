/* loader: lines back to a queue: its state; the changes since are follow.c's.  The sums have been
 * checked by who reads the file, but a file may also have been made by hand: what does not fit
 * together is refused here, and nothing it says may crash us. */
#include "shard/loader_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int loader_wrong(struct error *err, const char *why)
{
	return error_set(err, ERROR_DATA, NULL, "%s", why);
}

int loader_no_memory(struct error *err)
{
	return error_set(err, ERROR_OS, NULL, "out of memory");
}

struct queue_loader *queue_loader_new(const struct queue_parameters *expected)
{
	struct queue_loader *l = calloc(1, sizeof *l);
	if (l && expected) {
		l->has_expected = 1;
		l->expected = *expected; /* its partitions are the caller's until the end */
	}
	return l;
}

/* Bookkeeping of the first stage: a whole shard that was never cut needs none afterwards. */
static void forget_origins(struct queue_loader *l)
{
	struct whole *w;
	for (size_t at = 0; (w = table_next(&l->origins, &at)) != NULL;)
		if (w->next == w)
			free(w);
	table_free(&l->origins);
}

void queue_loader_free(struct queue_loader *l)
{
	if (!l)
		return;
	follow_free(l);
	forget_origins(l);
	free(l->partition);
	queue_free(l->q);
	free(l);
}

int loader_u64(struct queue_loader *l, const char *key, uint64_t *out, struct error *err)
{
	return record_u64(&l->r, key, 0, UINT64_MAX, out, err);
}

/* While a state is read its partitions are not known yet, but for their count. */
static int is_same(const struct queue_parameters *a, const struct queue_parameters *b)
{
	return a->samples == b->samples && a->batch == b->batch && a->batches == b->batches &&
	       a->epochs == b->epochs && a->shuffle == b->shuffle && a->seed == b->seed &&
	       a->partitions == b->partitions;
}

static int take_head(struct queue_loader *l, struct error *err)
{
	struct queue_parameters p = {0};
	uint64_t version, partitions = 0;
	const char *shuffle;
	if (!record_is(&l->r, "queue"))
		return loader_wrong(err, "does not begin with a `queue` line");
	if (loader_u64(l, "version", &version, err) != 0)
		return -1;
	if (version != 1)
		return error_set(err, ERROR_DATA, NULL, "version %llu is not known here",
				 (unsigned long long)version);
	if (loader_u64(l, "samples", &p.samples, err) != 0 ||
	    loader_u64(l, "batch", &p.batch, err) != 0 ||
	    loader_u64(l, "batches", &p.batches, err) != 0 ||
	    loader_u64(l, "epochs", &p.epochs, err) != 0 ||
	    loader_u64(l, "seed", &p.seed, err) != 0 ||
	    record_text(&l->r, "shuffle", &shuffle, err) != 0 ||
	    record_u64_opt(&l->r, "partitions", 0, UINT32_MAX, &partitions, err) != 0)
		return -1;
	p.partitions = (size_t)partitions;
	if (queue_shuffle_of(shuffle, &p.shuffle) != 0)
		return error_set(err, ERROR_DATA, NULL, "unknown shuffle '%.40s'", shuffle);
	/* Before anything is allocated for them: a file may say what it likes. */
	if (l->has_expected && !is_same(&p, &l->expected))
		return error_set(err, ERROR_CONFIG, NULL,
				 "made for samples=%llu batch=%llu batches=%llu epochs=%llu "
				 "shuffle=%s seed=%llu",
				 (unsigned long long)p.samples, (unsigned long long)p.batch,
				 (unsigned long long)p.batches, (unsigned long long)p.epochs,
				 shuffle, (unsigned long long)p.seed);
	l->p = p;
	if (partitions > 0) {
		l->stage = STAGE_PARTITIONS;
		return 0;
	}
	l->stage = STAGE_STATE;
	return queue_new(&l->q, &p, err);
}

static int take_partition(struct queue_loader *l, struct error *err)
{
	int last = loader_partition(l, err);
	if (last <= 0)
		return last;
	l->p.partition = l->partition;
	if (l->has_expected && !queue_same_partitions(&l->p, &l->expected))
		return error_set(err, ERROR_CONFIG, NULL, "made for other partitions");
	l->stage = STAGE_STATE;
	return queue_new(&l->q, &l->p, err);
}

int loader_loose(struct queue_loader *l, const char *key, struct error *err)
{
	const char *boot = record_get(&l->r, key);
	if (boot && boot[0] && !option_id_ok(boot))
		return loader_wrong(err, "the id of a boot is none");
	snprintf(l->q->loose, sizeof l->q->loose, "%s", boot ? boot : "");
	return 0;
}

static int take_state(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->q;
	if (!record_is(&l->r, "state"))
		return loader_wrong(err, "a `state` line must come second");
	if (loader_u64(l, "incarnation", &q->incarnation, err) != 0 ||
	    record_u64(&l->r, "cursor", 0, q->total, &q->cursor, err) != 0 ||
	    record_u64(&l->r, "next-id", q->total, UINT64_MAX >> 1, &q->next_id, err) != 0 ||
	    loader_u64(l, "iteration", &q->iteration, err) != 0 ||
	    loader_u64(l, "retries", &q->retries, err) != 0 ||
	    record_real(&l->r, "lease", 0, 1e12, &q->lease, err) != 0 ||
	    loader_u64(l, "pieces-done", &q->pieces_done, err) != 0 ||
	    loader_u64(l, "shards-done", &q->shards_done, err) != 0 ||
	    loader_u64(l, "samples-done", &q->samples_done, err) != 0 ||
	    loader_u64(l, "samples-repeated", &q->samples_repeated, err) != 0 ||
	    record_real(&l->r, "first-at", 0, 1e15, &q->first_at, err) != 0 ||
	    record_real(&l->r, "last-at", 0, 1e15, &q->last_at, err) != 0 ||
	    loader_loose(l, "loose", err) != 0)
		return -1;
	if (q->parts && loader_parts_state(l, err) != 0)
		return -1;
	l->stage = STAGE_PIECES;
	return 0;
}

static int take_settled(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->q;
	if (q->has_settled)
		return loader_wrong(err, "`settled` stands twice");
	if (loader_u64(l, "number", &q->settle_number, err) != 0 ||
	    record_u64(&l->r, "lines", 0, LINES_OF_SETTLE_MAX, &l->refusals_due, err) != 0)
		return -1;
	q->has_settled = 1;
	q->refusal = malloc((l->refusals_due + 1) * sizeof *q->refusal);
	return q->refusal ? 0 : loader_no_memory(err);
}

int loader_refusal(struct queue_loader *l, struct queue_refusal *out, struct error *err)
{
	const char *worker;
	if (record_id(&l->r, "worker", &worker, err) != 0 ||
	    loader_u64(l, "generation", &out->generation, err) != 0 ||
	    loader_u64(l, "id", &out->id, err) != 0)
		return -1;
	memcpy(out->worker, worker, strlen(worker) + 1);
	return 0;
}

static int take_fenced(struct queue_loader *l, struct error *err)
{
	if (l->refusals_due == 0)
		return loader_wrong(err, "`fenced` without a `settled` line that counts it");
	if (loader_refusal(l, &l->q->refusal[l->q->refusals], err) != 0)
		return -1;
	l->q->refusals++;
	l->refusals_due--;
	return 0;
}

static int take_worker(struct queue_loader *l, struct error *err)
{
	const char *id;
	uint64_t generation, last;
	if (record_id(&l->r, "id", &id, err) != 0 ||
	    loader_u64(l, "generation", &generation, err) != 0 ||
	    loader_u64(l, "last", &last, err) != 0)
		return -1;
	if (queue_worker(l->q, id))
		return loader_wrong(err, "worker stands twice");
	if (generation != 0 && generation != last)
		return loader_wrong(err, "generation= is neither 0 nor last=");
	struct worker *w = queue_worker_make(l->q, id);
	if (!w)
		return loader_no_memory(err);
	w->generation = generation;
	w->last = last;
	return 0;
}

/* The numbers of a `piece` line, checked against each other. */
static int read_piece(struct queue_loader *l, struct piece *p, struct error *err)
{
	const struct queue *q = l->q;
	uint64_t deaths, returns, begin, length;
	p->seed = 0;
	if (q->next_id == 0)
		return loader_wrong(err, "a piece, though nothing was handed out");
	if (record_u64(&l->r, "id", 0, q->next_id - 1, &p->id, err) != 0 ||
	    loader_u64(l, "begin", &p->begin, err) != 0 ||
	    loader_u64(l, "length", &p->length, err) != 0 ||
	    loader_u64(l, "lo", &p->lo, err) != 0 || loader_u64(l, "hi", &p->hi, err) != 0 ||
	    record_u64_opt(&l->r, "seed", 0, UINT64_MAX, &p->seed, err) != 0 ||
	    record_u64(&l->r, "deaths", 0, UINT32_MAX, &deaths, err) != 0 ||
	    record_u64(&l->r, "returns", 0, UINT32_MAX, &returns, err) != 0 ||
	    record_real(&l->r, "at", 0, 1e15, &p->at, err) != 0)
		return -1;
	uint64_t origins = q->parts ? q->next_id : q->cursor;
	if (origins == 0)
		return loader_wrong(err, "a piece, though nothing was handed out");
	if (record_u64(&l->r, "origin", 0, origins - 1, &p->origin, err) != 0)
		return -1;
	begin = 0;
	length = q->p.samples;
	if (!q->parts)
		piece_frame(q, p->origin, &begin, &length);
	if (p->begin < begin || p->length > length || p->begin - begin > length - p->length ||
	    p->lo >= p->hi || p->hi > p->length)
		return loader_wrong(err, "the piece is not inside its shard");
	if ((p->id < q->total && p->id != p->origin) || table_get(&q->pieces, p->id))
		return loader_wrong(err, "id= of another piece");
	p->deaths = (uint32_t)deaths;
	p->returns = (uint32_t)returns;
	return 0;
}

/* What the piece is of: its epoch, or its partition's line. */
static int find_epoch(struct queue_loader *l, struct piece *p, struct error *err)
{
	const char *worker;
	if (!l->q->parts) {
		p->epoch = epoch_make(l->q, p->origin / l->q->shards);
		return p->epoch ? 0 : loader_no_memory(err);
	}
	if (record_id(&l->r, "partition", &worker, err) != 0)
		return -1;
	p->epoch = queue_parts_line(l->q, worker);
	return p->epoch ? 0 : loader_wrong(err, "partition= of nobody");
}

/* The piece's shard: counted once an epoch, shared when it was cut. */
static int join_origin(struct queue_loader *l, struct piece *p, struct error *err)
{
	int is_cut = record_get(&l->r, "cut") != NULL;
	struct whole *w = table_get(&l->origins, p->origin);
	if (w && (!is_cut || w->next == w))
		return loader_wrong(err, "two pieces of one shard that was not cut");
	if (find_epoch(l, p, err) != 0)
		return -1;
	if (!w) {
		if (table_reserve(&l->origins, l->origins.count + 1) != 0)
			return loader_no_memory(err);
		w = malloc(sizeof *w);
		if (!w)
			return loader_no_memory(err);
		*w = (struct whole){.id = p->origin};
		w->next = is_cut ? NULL : w; /* a mark: it ends with the loader */
		table_put(&l->origins, p->origin, w);
		p->epoch->left++;
	}
	p->whole = is_cut ? w : NULL;
	w->left += p->hi - p->lo;
	l->remaining += p->hi - p->lo;
	return 0;
}

static int place_piece(struct queue_loader *l, struct piece *p, struct error *err)
{
	struct queue *q = l->q;
	const char *state, *worker = record_get(&l->r, "worker");
	if (record_text(&l->r, "state", &state, err) != 0)
		return -1;
	if (strcmp(state, "doing") == 0) {
		struct worker *w = worker ? queue_worker(q, worker) : NULL;
		if (!w || w->generation == 0)
			return loader_wrong(err, "a piece in the hand of nobody in force");
		if (p->epoch->part && strcmp(p->epoch->part->worker, w->id) != 0)
			return loader_wrong(err, "a piece in the hand of another partition's worker");
		p->state = QUEUE_DOING;
		p->worker = w;
		piece_append(&w->hand, p);
		piece_renew(q, p);
		q->doing++;
	} else if (strcmp(state, "todo") == 0) {
		p->state = QUEUE_TODO;
		q->todo++;
		if (record_get(&l->r, "front") && !p->epoch->front)
			p->epoch->front = p;
		else
			piece_append(&p->epoch->todo, p);
	} else if (strcmp(state, "held") == 0) {
		p->state = QUEUE_HELD;
		piece_append(&q->held, p);
	} else {
		return error_set(err, ERROR_DATA, NULL, "state '%.40s' is none", state);
	}
	return 0;
}

static int take_piece(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->q;
	if (piece_prepare(q, 1) != 0)
		return loader_no_memory(err);
	struct piece *p = piece_new(q);
	if (read_piece(l, p, err) != 0) {
		piece_free(q, p);
		return -1;
	}
	/* From here on the queue has it, and frees it. */
	table_put(&q->pieces, p->id, p);
	l->last = p;
	return join_origin(l, p, err) != 0 ? -1 : place_piece(l, p, err);
}

static int take_run(struct queue_loader *l, struct error *err)
{
	struct piece *before = l->last;
	uint64_t lo, hi;
	if (!before || before->state != QUEUE_DOING || !before->whole)
		return loader_wrong(err, "`run` without a piece that has several");
	uint64_t length = before->length;
	struct piece *p = before->last_cut ? before->last_cut : before; /* the last run */
	if (loader_u64(l, "lo", &lo, err) != 0 || loader_u64(l, "hi", &hi, err) != 0)
		return -1;
	if (lo < p->hi || lo >= hi || hi > length)
		return loader_wrong(err, "the run is not behind the one before");
	if (piece_prepare(l->q, 1) != 0)
		return loader_no_memory(err);
	p->more = piece_new(l->q);
	p->more->lo = lo;
	p->more->hi = hi;
	before->last_cut = p->more;
	l->q->runs++;
	before->whole->left += hi - lo;
	l->remaining += hi - lo;
	return 0;
}

/* Samples of the shards under and behind the cursor. */
static uint64_t fresh_samples(const struct queue *q)
{
	uint64_t epoch = q->cursor / q->shards, fresh = (q->p.epochs - epoch) * q->p.samples;
	uint64_t begun = q->cursor % q->shards;
	fresh -= begun * q->shard_rows;
	/* One shard may be short: the last, which stands somewhere when they are shuffled. */
	uint64_t missing = q->shards * q->shard_rows - q->p.samples;
	for (uint64_t id = epoch * q->shards; missing > 0 && q->order->at && id < q->cursor; id++) {
		uint64_t begin, length;
		piece_frame(q, id, &begin, &length);
		if (length < q->shard_rows)
			return fresh + missing;
	}
	return fresh;
}

static int take_end(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->q;
	uint64_t lines;
	if (loader_u64(l, "lines", &lines, err) != 0)
		return -1;
	if (lines != l->lines || l->refusals_due > 0)
		return loader_wrong(err, "lines are missing before the `end`");
	if (q->parts)
		return loader_parts_end(l, err);
	uint64_t fresh_shards = q->total - q->cursor;
	if (q->samples_done + l->remaining + fresh_samples(q) != q->p.samples * q->p.epochs ||
	    q->shards_done + l->origins.count + fresh_shards != q->total)
		return loader_wrong(err, "samples or shards do not add up");
	uint64_t begun = q->cursor % q->shards;
	if (begun > 0) {
		struct epoch *e = epoch_make(q, q->cursor / q->shards);
		if (!e)
			return loader_no_memory(err);
		e->left += q->shards - begun;
	}
	return 0;
}

static int take_piece_line(struct queue_loader *l, struct error *err)
{
	int is_run = record_is(&l->r, "run");
	if (is_run)
		return take_run(l, err);
	l->last = NULL;
	if (record_is(&l->r, "piece"))
		return take_piece(l, err);
	if (record_is(&l->r, "worker"))
		return take_worker(l, err);
	if (record_is(&l->r, "settled"))
		return take_settled(l, err);
	if (record_is(&l->r, "fenced"))
		return take_fenced(l, err);
	if (record_is(&l->r, "traversal"))
		return loader_traversal(l, err);
	if (record_is(&l->r, "rows"))
		return loader_rows(l, err);
	if (record_is(&l->r, "move"))
		return loader_move(l, err);
	if (record_is(&l->r, "end")) {
		if (take_end(l, err) != 0)
			return -1;
		forget_origins(l);
		l->stage = STAGE_CHANGES;
		return 0;
	}
	return error_set(err, ERROR_DATA, NULL, "unknown line '%.40s'", l->r.type);
}

int queue_loader_line(struct queue_loader *l, const char *line, size_t len, struct error *err)
{
	if (record_parse(&l->r, line, len, err) != 0)
		return -1;
	int result;
	switch (l->stage) {
	case STAGE_HEAD:
		result = take_head(l, err);
		break;
	case STAGE_PARTITIONS:
		result = take_partition(l, err);
		break;
	case STAGE_STATE:
		result = take_state(l, err);
		break;
	case STAGE_PIECES:
		result = take_piece_line(l, err);
		break;
	default:
		return follow_line(l, err);
	}
	l->lines++;
	return result;
}

int queue_loader_ended(const struct queue_loader *l)
{
	return l->stage == STAGE_CHANGES;
}

const char *queue_loader_loose(const struct queue_loader *l)
{
	return l->q ? l->q->loose : "";
}

int queue_loader_finish(struct queue_loader *l, struct queue **out, struct error *err)
{
	int result = 0;
	if (l->stage != STAGE_CHANGES) {
		result = loader_wrong(err, "ends before its `end` line");
	} else {
		*out = l->q;
		l->q = NULL;
	}
	queue_loader_free(l);
	return result;
}

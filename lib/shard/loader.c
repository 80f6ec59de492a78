/* loader: lines back to a queue: first its state, then the changes since.  The sums have been
 * checked by who reads the file, but a file may also have been made by hand: what does not fit
 * together is refused here, and nothing it says may crash us. */
#include "shard/queue_internal.h"
#include "wire/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINES_OF_SETTLE_MAX (1u << 20)

enum stage { STAGE_HEAD, STAGE_STATE, STAGE_PIECES, STAGE_CHANGES };

struct queue_loader {
	struct queue *q;
	int has_expected;
	struct queue_parameters expected;
	enum stage stage;
	uint64_t lines;         /* before `end` */
	struct piece *last;     /* that `run` lines belong to */
	struct table origins;   /* origin -> struct whole, also of pieces that were never cut */
	uint64_t remaining;     /* samples of all pieces */
	uint64_t refusals_due;  /* `fenced` lines of `settled` that are to come */
	/* A settle whose lines are coming. */
	struct queue_line *line;
	size_t line_count, line_due;
	struct queue_refusal *refusal;
	size_t refusals;
	uint64_t number, iteration;
	struct record r;
};

static int wrong(struct error *err, const char *why)
{
	return error_set(err, ERROR_DATA, NULL, "%s", why);
}

static int no_memory(struct error *err)
{
	return error_set(err, ERROR_OS, NULL, "out of memory");
}

struct queue_loader *queue_loader_new(const struct queue_parameters *expected)
{
	struct queue_loader *l = calloc(1, sizeof *l);
	if (l && expected) {
		l->has_expected = 1;
		l->expected = *expected;
	}
	return l;
}

static void forget_settle(struct queue_loader *l)
{
	for (size_t i = 0; i < l->line_count; i++)
		free((void *)(uintptr_t)l->line[i].worker);
	free(l->line);
	free(l->refusal);
	l->line = NULL;
	l->refusal = NULL;
	l->line_count = l->line_due = l->refusals = 0;
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
	forget_settle(l);
	forget_origins(l);
	queue_free(l->q);
	free(l);
}

static int u64(struct queue_loader *l, const char *key, uint64_t *out, struct error *err)
{
	return record_u64(&l->r, key, 0, UINT64_MAX, out, err);
}

static int is_same(const struct queue_parameters *a, const struct queue_parameters *b)
{
	return a->samples == b->samples && a->batch == b->batch && a->batches == b->batches &&
	       a->epochs == b->epochs && a->shuffle == b->shuffle && a->seed == b->seed;
}

static int take_head(struct queue_loader *l, struct error *err)
{
	struct queue_parameters p;
	uint64_t version;
	const char *shuffle;
	if (!record_is(&l->r, "queue"))
		return wrong(err, "does not begin with a `queue` line");
	if (u64(l, "version", &version, err) != 0)
		return -1;
	if (version != 1)
		return error_set(err, ERROR_DATA, NULL, "version %llu is not known here",
				 (unsigned long long)version);
	if (u64(l, "samples", &p.samples, err) != 0 || u64(l, "batch", &p.batch, err) != 0 ||
	    u64(l, "batches", &p.batches, err) != 0 || u64(l, "epochs", &p.epochs, err) != 0 ||
	    u64(l, "seed", &p.seed, err) != 0 || record_text(&l->r, "shuffle", &shuffle, err) != 0)
		return -1;
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
	l->stage = STAGE_STATE;
	return queue_new(&l->q, &p, err);
}

static int take_state(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->q;
	if (!record_is(&l->r, "state"))
		return wrong(err, "a `state` line must come second");
	if (u64(l, "incarnation", &q->incarnation, err) != 0 ||
	    record_u64(&l->r, "cursor", 0, q->total, &q->cursor, err) != 0 ||
	    record_u64(&l->r, "next-id", q->total, UINT64_MAX >> 1, &q->next_id, err) != 0 ||
	    u64(l, "iteration", &q->iteration, err) != 0 ||
	    u64(l, "retries", &q->retries, err) != 0 ||
	    record_real(&l->r, "lease", 0, 1e12, &q->lease, err) != 0 ||
	    u64(l, "pieces-done", &q->pieces_done, err) != 0 ||
	    u64(l, "shards-done", &q->shards_done, err) != 0 ||
	    u64(l, "samples-done", &q->samples_done, err) != 0 ||
	    u64(l, "samples-repeated", &q->samples_repeated, err) != 0 ||
	    record_real(&l->r, "first-at", 0, 1e15, &q->first_at, err) != 0 ||
	    record_real(&l->r, "last-at", 0, 1e15, &q->last_at, err) != 0)
		return -1;
	l->stage = STAGE_PIECES;
	return 0;
}

static int take_settled(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->q;
	if (q->has_settled)
		return wrong(err, "`settled` stands twice");
	if (u64(l, "number", &q->settle_number, err) != 0 ||
	    record_u64(&l->r, "lines", 0, LINES_OF_SETTLE_MAX, &l->refusals_due, err) != 0)
		return -1;
	q->has_settled = 1;
	q->refusal = malloc((l->refusals_due + 1) * sizeof *q->refusal);
	return q->refusal ? 0 : no_memory(err);
}

static int read_refusal(struct queue_loader *l, struct queue_refusal *out, struct error *err)
{
	const char *worker;
	if (record_id(&l->r, "worker", &worker, err) != 0 ||
	    u64(l, "generation", &out->generation, err) != 0 || u64(l, "id", &out->id, err) != 0)
		return -1;
	memcpy(out->worker, worker, strlen(worker) + 1);
	return 0;
}

static int take_fenced(struct queue_loader *l, struct error *err)
{
	if (l->refusals_due == 0)
		return wrong(err, "`fenced` without a `settled` line that counts it");
	if (read_refusal(l, &l->q->refusal[l->q->refusals], err) != 0)
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
	    u64(l, "generation", &generation, err) != 0 || u64(l, "last", &last, err) != 0)
		return -1;
	if (queue_worker(l->q, id))
		return wrong(err, "worker stands twice");
	if (generation != 0 && generation != last)
		return wrong(err, "generation= is neither 0 nor last=");
	struct worker *w = queue_worker_make(l->q, id);
	if (!w)
		return no_memory(err);
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
	if (record_u64(&l->r, "id", 0, q->next_id - 1, &p->id, err) != 0 ||
	    u64(l, "begin", &p->begin, err) != 0 || u64(l, "length", &p->length, err) != 0 ||
	    u64(l, "lo", &p->lo, err) != 0 || u64(l, "hi", &p->hi, err) != 0 ||
	    record_u64_opt(&l->r, "seed", 0, UINT64_MAX, &p->seed, err) != 0 ||
	    record_u64(&l->r, "deaths", 0, UINT32_MAX, &deaths, err) != 0 ||
	    record_u64(&l->r, "returns", 0, UINT32_MAX, &returns, err) != 0 ||
	    record_real(&l->r, "at", 0, 1e15, &p->at, err) != 0)
		return -1;
	if (q->cursor == 0)
		return wrong(err, "a piece, though nothing was handed out");
	if (record_u64(&l->r, "origin", 0, q->cursor - 1, &p->origin, err) != 0)
		return -1;
	piece_frame(q, p->origin, &begin, &length);
	if (p->begin < begin || p->length > length || p->begin - begin > length - p->length ||
	    p->lo >= p->hi || p->hi > p->length)
		return wrong(err, "the piece is not inside its shard");
	if ((p->id < q->total && p->id != p->origin) || table_get(&q->pieces, p->id))
		return wrong(err, "id= of another piece");
	p->deaths = (uint32_t)deaths;
	p->returns = (uint32_t)returns;
	return 0;
}

/* The piece's shard: counted once an epoch, shared when it was cut. */
static int join_origin(struct queue_loader *l, struct piece *p, struct error *err)
{
	int is_cut = record_get(&l->r, "cut") != NULL;
	struct whole *w = table_get(&l->origins, p->origin);
	if (w && (!is_cut || w->next == w))
		return wrong(err, "two pieces of one shard that was not cut");
	if (!w) {
		p->epoch = epoch_make(l->q, p->origin / l->q->shards);
		if (!p->epoch || table_reserve(&l->origins, l->origins.count + 1) != 0)
			return no_memory(err);
		w = malloc(sizeof *w);
		if (!w)
			return no_memory(err);
		*w = (struct whole){.id = p->origin};
		w->next = is_cut ? NULL : w; /* a mark: it ends with the loader */
		table_put(&l->origins, p->origin, w);
		p->epoch->left++;
	} else {
		p->epoch = epoch_find(l->q, p->origin / l->q->shards);
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
			return wrong(err, "a piece in the hand of nobody in force");
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
		return no_memory(err);
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
		return wrong(err, "`run` without a piece that has several");
	uint64_t length = before->length;
	struct piece *p = before;
	while (p->more)
		p = p->more;
	if (u64(l, "lo", &lo, err) != 0 || u64(l, "hi", &hi, err) != 0)
		return -1;
	if (lo < p->hi || lo >= hi || hi > length)
		return wrong(err, "the run is not behind the one before");
	if (piece_prepare(l->q, 1) != 0)
		return no_memory(err);
	p->more = piece_new(l->q);
	p->more->lo = lo;
	p->more->hi = hi;
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
	if (u64(l, "lines", &lines, err) != 0)
		return -1;
	if (lines != l->lines || l->refusals_due > 0)
		return wrong(err, "lines are missing before the `end`");
	uint64_t fresh_shards = q->total - q->cursor;
	if (q->samples_done + l->remaining + fresh_samples(q) != q->p.samples * q->p.epochs ||
	    q->shards_done + l->origins.count + fresh_shards != q->total)
		return wrong(err, "samples or shards do not add up");
	uint64_t begun = q->cursor % q->shards;
	if (begun > 0) {
		struct epoch *e = epoch_make(q, q->cursor / q->shards);
		if (!e)
			return no_memory(err);
		e->left += q->shards - begun;
	}
	forget_origins(l);
	l->stage = STAGE_CHANGES;
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
	if (record_is(&l->r, "end"))
		return take_end(l, err);
	return error_set(err, ERROR_DATA, NULL, "unknown line '%.40s'", l->r.type);
}

/* ---- changes ---- */

static int begin_settle(struct queue_loader *l, struct error *err)
{
	uint64_t lines;
	if (u64(l, "number", &l->number, err) != 0 || u64(l, "iteration", &l->iteration, err) != 0 ||
	    record_u64(&l->r, "lines", 0, LINES_OF_SETTLE_MAX, &lines, err) != 0)
		return -1;
	l->line = malloc((lines + 1) * sizeof *l->line);
	l->refusal = malloc((lines + 1) * sizeof *l->refusal);
	l->line_due = lines;
	return l->line && l->refusal ? 0 : no_memory(err);
}

static int read_settle_line(struct queue_loader *l, struct error *err)
{
	l->line_due--;
	if (record_is(&l->r, "fenced"))
		return read_refusal(l, &l->refusal[l->refusals++], err);
	struct queue_line *line = &l->line[l->line_count];
	const char *id;
	*line = (struct queue_line){.is_back = record_is(&l->r, "back")};
	if (!line->is_back && !record_is(&l->r, "apply"))
		return wrong(err, "a settle ends before its lines do");
	if (record_id(&l->r, "worker", &id, err) != 0 || u64(l, "id", &line->id, err) != 0 ||
	    u64(l, "begin", &line->begin, err) != 0 || u64(l, "length", &line->length, err) != 0)
		return -1;
	const struct worker *w = queue_worker(l->q, id);
	if (!w)
		return wrong(err, "unknown worker");
	line->generation = w->generation;
	line->worker = strdup(id);
	if (!line->worker)
		return no_memory(err);
	l->line_count++;
	return 0;
}

static int end_settle(struct queue_loader *l, struct error *err)
{
	struct queue *q = l->q;
	q->has_settled = 0; /* the number was judged when the lines were written */
	enum queue_result result = queue_settle(q, l->number, l->iteration, q->incarnation, l->line,
						l->line_count, err);
	if (result != QUEUE_OK)
		return -1;
	if (q->refusals > 0)
		return wrong(err, "a settled line is refused now");
	free(q->refusal);
	q->refusal = l->refusal;
	q->refusals = l->refusals;
	l->refusal = NULL;
	forget_settle(l);
	return 0;
}

/* The worker= and id= of a change, with the generation in force. */
struct change {
	const char *worker;
	uint64_t generation, id;
};

static int read_change(struct queue_loader *l, struct change *c, struct error *err)
{
	*c = (struct change){.worker = record_get(&l->r, "worker")};
	if (c->worker) {
		const struct worker *w = queue_worker(l->q, c->worker);
		c->generation = w ? w->generation : 0;
		if (record_id(&l->r, "worker", &c->worker, err) != 0)
			return -1;
	} else {
		c->worker = "";
	}
	return record_u64_opt(&l->r, "id", 0, UINT64_MAX, &c->id, err);
}

static enum queue_result change_hello(struct queue_loader *l, struct change *c, struct error *err)
{
	uint64_t said, given;
	if (u64(l, "generation", &said, err) != 0 || record_id(&l->r, "worker", &c->worker, err) != 0)
		return QUEUE_BAD;
	enum queue_result result = queue_hello(l->q, c->worker, &given, err);
	if (result == QUEUE_OK && given != said) {
		wrong(err, "another generation would be given now");
		return QUEUE_BAD;
	}
	return result;
}

static enum queue_result change_get(struct queue_loader *l, struct change *c, struct error *err)
{
	uint64_t max = 0;
	struct queue_piece piece;
	if (record_u64_opt(&l->r, "max", 1, UINT64_MAX, &max, err) != 0)
		return QUEUE_BAD;
	enum queue_result result = queue_get(l->q, c->worker, c->generation, max, &piece, err);
	if (result == QUEUE_OK && piece.id == c->id)
		return QUEUE_OK;
	wrong(err, "another shard would be handed out now");
	return QUEUE_BAD;
}

static enum queue_result change_done(struct queue_loader *l, struct change *c, struct error *err)
{
	return queue_done(l->q, c->worker, c->generation, c->id, err);
}

static enum queue_result change_progress(struct queue_loader *l, struct change *c,
					 struct error *err)
{
	uint64_t upto;
	if (u64(l, "upto", &upto, err) != 0)
		return QUEUE_BAD;
	return queue_progress(l->q, c->worker, c->generation, c->id, upto, err);
}

static enum queue_result change_back(struct queue_loader *l, struct change *c, struct error *err)
{
	uint64_t first, length;
	if (!record_get(&l->r, "begin"))
		return queue_back(l->q, c->worker, c->generation, c->id, err);
	if (u64(l, "begin", &first, err) != 0 || u64(l, "length", &length, err) != 0)
		return QUEUE_BAD;
	return queue_back_range(l->q, c->worker, c->generation, c->id, first, length, err);
}

static enum queue_result change_bye(struct queue_loader *l, struct change *c, struct error *err)
{
	return queue_bye(l->q, c->worker, c->generation, err);
}

static enum queue_result change_fail(struct queue_loader *l, struct change *c, struct error *err)
{
	uint64_t shards;
	return queue_fail(l->q, c->worker, &shards, err);
}

static enum queue_result change_release(struct queue_loader *l, struct change *c,
					struct error *err)
{
	return queue_release(l->q, c->id, err);
}

static enum queue_result change_expire(struct queue_loader *l, struct change *c, struct error *err)
{
	uint64_t is_blamed;
	struct piece *p = table_get(&l->q->pieces, c->id);
	if (record_u64(&l->r, "blamed", 0, 1, &is_blamed, err) != 0)
		return QUEUE_BAD;
	if (!p || p->state != QUEUE_DOING) {
		wrong(err, "a lease ends of a shard in nobody's hand");
		return QUEUE_BAD;
	}
	queue_expire_piece(l->q, p, (int)is_blamed);
	return QUEUE_OK;
}

static enum queue_result change_set(struct queue_loader *l, struct change *c, struct error *err)
{
	(void)c;
	uint64_t retries;
	double lease;
	if (u64(l, "retries", &retries, err) != 0 ||
	    record_real(&l->r, "lease", 0, 1e12, &lease, err) != 0)
		return QUEUE_BAD;
	queue_set(l->q, retries, lease);
	return QUEUE_OK;
}

static enum queue_result change_time(struct queue_loader *l, struct change *c, struct error *err)
{
	(void)c;
	double at;
	if (record_real(&l->r, "at", 0, 1e15, &at, err) != 0)
		return QUEUE_BAD;
	queue_clock(l->q, at, l->q->mono);
	return QUEUE_OK;
}

static const struct {
	const char *type;
	enum queue_result (*change)(struct queue_loader *l, struct change *c, struct error *err);
} changes[] = {
	{"get", change_get},
	{"done", change_done},
	{"time", change_time},
	{"progress", change_progress},
	{"back", change_back},
	{"hello", change_hello},
	{"bye", change_bye},
	{"fail", change_fail},
	{"release", change_release},
	{"expire", change_expire},
	{"set", change_set},
};

static int take_change(struct queue_loader *l, struct error *err)
{
	if (l->line_due > 0) {
		if (read_settle_line(l, err) != 0)
			return -1;
		return l->line_due > 0 ? 1 : end_settle(l, err);
	}
	if (record_is(&l->r, "settle")) {
		if (begin_settle(l, err) != 0)
			return -1;
		return l->line_due > 0 ? 1 : end_settle(l, err);
	}
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		if (!record_is(&l->r, changes[i].type))
			continue;
		struct change c;
		if (read_change(l, &c, err) != 0)
			return -1;
		return changes[i].change(l, &c, err) == QUEUE_OK ? 0 : -1;
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
	case STAGE_STATE:
		result = take_state(l, err);
		break;
	case STAGE_PIECES:
		result = take_piece_line(l, err);
		break;
	default:
		return take_change(l, err);
	}
	l->lines++;
	return result;
}

int queue_loader_ended(const struct queue_loader *l)
{
	return l->stage == STAGE_CHANGES;
}

int queue_loader_finish(struct queue_loader *l, struct queue **out, struct error *err)
{
	int result = 0;
	if (l->stage != STAGE_CHANGES) {
		result = wrong(err, "ends before its `end` line");
	} else {
		*out = l->q;
		l->q = NULL;
	}
	queue_loader_free(l);
	return result;
}

/* ---- rolling back ---- */

int queue_roll_back(struct queue *q, const struct queue *replaced, struct error *err)
{
	/* Generations never go back: what was given since the file was written is not given again. */
	for (const struct worker *w = replaced->first_worker; w; w = w->next) {
		struct worker *mine = queue_worker_make(q, w->id);
		if (!mine)
			return no_memory(err);
		if (mine->last < w->last)
			mine->last = w->last;
	}
	q->at = replaced->at;
	q->mono = replaced->mono;
	for (struct worker *w = q->first_worker; w; w = w->next) {
		while (w->hand.head)
			piece_return(q, w->hand.head, 0);
		w->generation = 0;
	}
	if (q->incarnation < replaced->incarnation)
		q->incarnation = replaced->incarnation;
	q->incarnation++;
	if (q->next_id < replaced->next_id)
		q->next_id = replaced->next_id;
	q->has_settled = 0;
	q->refusals = 0;
	q->retries = replaced->retries;
	q->lease = replaced->lease;
	if (replaced->first_at > 0)
		q->first_at = replaced->first_at;
	q->samples_repeated = replaced->samples_repeated;
	if (replaced->samples_done > q->samples_done)
		q->samples_repeated += replaced->samples_done - q->samples_done;
	return 0;
}

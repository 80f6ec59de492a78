/*
 * feed: see feed.h.  There is one lock.  The thread releases it only while it reads a piece or
 * fills a batch (busy); to change anything on which that depends, the trainer waits until it has
 * ended.
 *
 * Two cursors run over the list of pieces: `cut`, behind the last row that is in a batch, and
 * `taken`, behind the last row that the trainer has.  Pieces before `taken` are freed.
 */
#include "work/feed.h"

#include "base/random.h"
#include "base/thread.h"
#include "work/rows_spill.h"

#include <stdlib.h>
#include <string.h>

#define BATCHES 4 /* one batch in the trainer's hand, one being filled, the others ready; and */
#define KEPT 1    /* the one before, if the trainer still needs it */

struct held_piece {
	struct held_piece *next;
	struct piece piece;
	int parsed;
	struct rows rows;
	uint32_t *order; /* NULL: in file order */
};

struct cursor {
	struct held_piece *in; /* NULL: behind the last one */
	uint64_t position;     /* in it */
};

struct feed {
	struct feed_options options;
	pthread_t thread;
	struct map map;
	int running; /* the thread was started */
	pthread_mutex_t lock;
	pthread_cond_t work; /* for the thread */
	pthread_cond_t news; /* for the trainer */
	int stop, busy;
	int short_ok; /* the trainer waits, and would accept a short batch */
	struct held_piece *first, *last;
	struct cursor taken, cut;
	uint64_t held, uncut; /* rows behind each */
	uint64_t batches;     /* cut so far */
	struct batch batch[BATCHES + KEPT];
	size_t slots;                        /* of them in use */
	struct cursor after[BATCHES + KEPT]; /* position of cut when the batch was full */
	size_t ready_first, ready_count; /* a ring; those in hand are before ready_first */
	struct error failed;             /* code 0: no */
	struct rows spare;               /* arrays of a freed piece, to be used again */
};

/* ---- the list of pieces; under the lock ---- */

static void held_free(struct feed *f, struct held_piece *p)
{
	if (p->rows.row_room > f->spare.row_room) {
		rows_free(&f->spare);
		f->spare = p->rows;
	} else {
		rows_free(&p->rows);
	}
	free(p->order);
	free(p);
}

static uint64_t held_end(const struct held_piece *p)
{
	return p->piece.skip + p->piece.take;
}

/* A cursor at the end of the last piece stays there: pieces that are added later are behind it. */
static void cursor_settle(struct cursor *c)
{
	while (c->in && c->in->next && c->position == held_end(c->in)) {
		c->in = c->in->next;
		c->position = c->in->piece.skip;
	}
}

static void free_taken(struct feed *f)
{
	while (f->first && f->first != f->taken.in) {
		struct held_piece *gone = f->first;
		f->first = gone->next;
		held_free(f, gone);
	}
}

static struct held_piece *first_unparsed(const struct feed *f)
{
	struct held_piece *p = f->cut.in;
	while (p && p->parsed)
		p = p->next;
	return p;
}

/* Counts no further than to one batch. */
static uint64_t parsed_uncut(const struct feed *f)
{
	uint64_t rows = 0, at = f->cut.position;
	for (const struct held_piece *p = f->cut.in; p && p->parsed && rows < f->options.size;
	     p = p->next) {
		rows += held_end(p) - at;
		at = p->next ? p->next->piece.skip : 0;
	}
	return rows;
}

/* ---- the thread ---- */

static int feed_parse(struct feed *f, struct held_piece *p, struct error *err)
{
	const struct piece *piece = &p->piece;
	uint64_t begin = piece->begin, length = piece->length;
	if (piece->shuffled) {
		p->order = malloc(length * sizeof(*p->order));
		if (!p->order)
			return error_set(err, ERROR_OS, "", "out of memory");
		random_permute(p->order, length, piece->seed);
	} else {
		begin += piece->skip; /* in order, so only these are needed */
		length = piece->take;
	}
	struct dataset *ds = f->options.dataset;
	/* These rows have come from another worker since: shardd handed them out when they were
	 * here. */
	if (f->options.spill && dataset_has(ds, begin, length) < length &&
	    rows_spill_load(f->options.spill, ds, err) != 0)
		return -1;
	return dataset_read(ds, begin, length, &p->rows, err);
}

/* The place in p->rows of the row at a position; -1 if the row was bad and skipped. */
static ptrdiff_t find_row(const struct held_piece *p, uint64_t position)
{
	const struct rows *rows = &p->rows;
	uint64_t row = p->piece.begin + (p->order ? p->order[position] : position);
	uint64_t first = p->piece.begin + (p->order ? 0 : p->piece.skip);
	size_t low = 0, high = rows->count;
	if (row - first < rows->count && rows->row[row - first] == row)
		return (ptrdiff_t)(row - first);
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (rows->row[middle] < row)
			low = middle + 1;
		else
			high = middle;
	}
	return low < rows->count && rows->row[low] == row ? (ptrdiff_t)low : -1;
}

static int feed_add_rows(struct feed *f, struct batch *b, const struct held_piece *p,
			 uint64_t position, uint64_t length, struct error *err)
{
	const struct rows *rows = &p->rows;
	batch_add_range(b, p->piece.id, p->piece.begin + position, length);
	for (uint64_t i = 0; i < length; i++) {
		ptrdiff_t at = find_row(p, position + i);
		if (at < 0)
			continue;
		size_t keys = batch_sample_keys(rows, (size_t)at, &f->options.keys);
		if ((b->count == b->row_room || !b->offset ||
		     b->offset[b->count] + keys > b->key_room) &&
		    batch_reserve(b, (size_t)(length - i), keys * (size_t)(length - i), err) != 0)
			return -1;
		batch_add_sample(b, rows, (size_t)at, &f->options.keys);
	}
	return 0;
}

/* Fills b from *cut on, and moves *cut. Reads the pieces up to `last`, which are parsed; later
 * pieces may change meanwhile. */
static int feed_fill(struct feed *f, struct batch *b, uint64_t size, struct cursor *cut,
		     const struct held_piece *last, struct error *err)
{
	const struct rows *rows = &cut->in->rows;
	int audit = f->options.keys.are_rows;
	batch_start(b, audit ? 0 : rows->dense_columns, !audit && rows->value != NULL);
	if (batch_reserve(b, size, audit ? size : size * rows->fields, err) != 0)
		return -1;
	while (b->positions < size) {
		struct held_piece *p = cut->in;
		uint64_t left = held_end(p) - cut->position;
		uint64_t length = left < size - b->positions ? left : size - b->positions;
		if (length > 0 && !batch_takes_range(b, p->piece.id,
						     p->piece.begin + cut->position, length))
			break;
		if (length > 0 && feed_add_rows(f, b, p, cut->position, length, err) != 0)
			return -1;
		cut->position += length;
		if (length < left || p == last)
			break;
		cut->in = p->next;
		cut->position = p->next->piece.skip;
	}
	return batch_finish(b, &f->map, f->options.key_count, err);
}

/* Reads the next piece outside the lock. */
static void step_parse(struct feed *f, struct held_piece *p)
{
	struct error err = {0};
	p->rows = f->spare;
	f->spare = (struct rows){0};
	f->busy = 1;
	pthread_mutex_unlock(&f->lock);
	int result = feed_parse(f, p, &err);
	pthread_mutex_lock(&f->lock);
	f->busy = 0;
	if (result < 0)
		f->failed = err;
	else
		p->parsed = 1;
}

static void step_cut(struct feed *f)
{
	struct error err = {0};
	size_t slot = (f->ready_first + f->ready_count) % f->slots;
	struct cursor cut = f->cut;
	const struct held_piece *last = cut.in;
	while (last->next && last->next->parsed)
		last = last->next;
	f->busy = 1;
	pthread_mutex_unlock(&f->lock);
	int result = feed_fill(f, &f->batch[slot], f->options.size, &cut, last, &err);
	pthread_mutex_lock(&f->lock);
	f->busy = 0;
	if (result < 0) {
		f->failed = err;
		return;
	}
	f->batch[slot].serial = ++f->batches;
	f->uncut -= f->batch[slot].positions;
	f->cut = cut;
	cursor_settle(&f->cut);
	f->after[slot] = f->cut;
	f->ready_count++;
}

static int can_cut(const struct feed *f)
{
	if (f->ready_count == BATCHES - 1 || f->uncut == 0)
		return 0;
	uint64_t rows = parsed_uncut(f);
	if (rows >= f->options.size)
		return 1;
	return rows > 0 && f->short_ok && f->ready_count == 0 && !first_unparsed(f);
}

static void *feed_thread_main(void *arg)
{
	struct feed *f = arg;
	pthread_mutex_lock(&f->lock);
	while (!f->stop) {
		struct held_piece *p = NULL;
		if (f->failed.code == 0 && can_cut(f))
			step_cut(f);
		else if (f->failed.code == 0 && (p = first_unparsed(f)) != NULL)
			step_parse(f, p);
		else
			pthread_cond_wait(&f->work, &f->lock);
		pthread_cond_broadcast(&f->news);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* ---- the trainer's side ---- */

int feed_new(struct feed **out, const struct feed_options *options, struct error *err)
{
	struct feed *f = calloc(1, sizeof(*f));
	if (!f)
		return error_set(err, ERROR_OS, "", "out of memory");
	f->options = *options;
	f->map = *options->map;
	f->slots = BATCHES + (options->keeps ? KEPT : 0);
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->work, NULL);
	pthread_cond_init(&f->news, NULL);
	int errnum = thread_start(&f->thread, feed_thread_main, f);
	if (errnum != 0) {
		feed_free(f);
		return error_set(err, ERROR_OS, "", "the reading thread: %s", strerror(errnum));
	}
	f->running = 1;
	*out = f;
	return 0;
}

static void wait_idle(struct feed *f)
{
	while (f->busy)
		pthread_cond_wait(&f->news, &f->lock);
}

static void feed_drop_all(struct feed *f)
{
	f->taken = f->cut = (struct cursor){0};
	free_taken(f);
	f->last = NULL;
	f->held = f->uncut = 0;
	f->ready_count = 0;
}

void feed_free(struct feed *f)
{
	if (!f)
		return;
	if (f->running) {
		pthread_mutex_lock(&f->lock);
		f->stop = 1;
		pthread_cond_signal(&f->work);
		pthread_mutex_unlock(&f->lock);
		pthread_join(f->thread, NULL);
	}
	feed_drop_all(f);
	rows_free(&f->spare);
	for (size_t i = 0; i < BATCHES + KEPT; i++)
		batch_free(&f->batch[i]);
	pthread_cond_destroy(&f->news);
	pthread_cond_destroy(&f->work);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

int feed_add(struct feed *f, const struct piece *piece, struct error *err)
{
	if (piece->take == 0)
		return 0;
	struct held_piece *p = calloc(1, sizeof(*p));
	if (!p)
		return error_set(err, ERROR_OS, "", "out of memory");
	p->piece = *piece;
	pthread_mutex_lock(&f->lock);
	if (f->last)
		f->last->next = p;
	else
		f->first = p;
	f->last = p;
	if (!f->taken.in)
		f->taken = f->cut = (struct cursor){p, piece->skip};
	cursor_settle(&f->taken);
	cursor_settle(&f->cut);
	f->held += piece->take;
	f->uncut += piece->take;
	pthread_cond_signal(&f->work);
	pthread_mutex_unlock(&f->lock);
	return 0;
}

int feed_knows(struct feed *f, uint64_t id)
{
	int known = 0;
	pthread_mutex_lock(&f->lock);
	for (struct held_piece *p = f->taken.in; p && !known; p = p->next)
		known = p->piece.id == id &&
			(p != f->taken.in || f->taken.position < held_end(p));
	pthread_mutex_unlock(&f->lock);
	return known;
}

uint64_t feed_held(struct feed *f)
{
	pthread_mutex_lock(&f->lock);
	uint64_t held = f->held;
	pthread_mutex_unlock(&f->lock);
	return held;
}

void feed_resize(struct feed *f, uint64_t size)
{
	pthread_mutex_lock(&f->lock);
	wait_idle(f);
	f->options.size = size;
	f->cut = f->taken;
	f->uncut = f->held;
	f->ready_count = 0;
	pthread_cond_signal(&f->work);
	pthread_mutex_unlock(&f->lock);
}

void feed_follow(struct feed *f, const struct map *map)
{
	pthread_mutex_lock(&f->lock);
	wait_idle(f);
	f->map = *map;
	pthread_cond_signal(&f->work);
	pthread_mutex_unlock(&f->lock);
}

int feed_number(struct feed *f, uint64_t begin, struct error *err)
{
	pthread_mutex_lock(&f->lock);
	wait_idle(f);
	int result = dataset_number(f->options.dataset, begin, err);
	pthread_mutex_unlock(&f->lock);
	return result;
}

void feed_place(struct feed *f, uint64_t row, char *out, size_t max)
{
	pthread_mutex_lock(&f->lock);
	wait_idle(f);
	dataset_place(f->options.dataset, row, out, max);
	pthread_mutex_unlock(&f->lock);
}

void feed_drop(struct feed *f)
{
	pthread_mutex_lock(&f->lock);
	wait_idle(f);
	feed_drop_all(f);
	pthread_mutex_unlock(&f->lock);
}

/* Waits until a batch is ready, or can't become so: NULL. Under the lock. */
static struct batch *wait_ready(struct feed *f, int short_ok)
{
	f->short_ok = short_ok;
	while (f->ready_count == 0 && f->failed.code == 0 &&
	       (f->busy || can_cut(f) || first_unparsed(f))) {
		pthread_cond_signal(&f->work);
		pthread_cond_wait(&f->news, &f->lock);
	}
	f->short_ok = 0;
	return f->ready_count > 0 ? &f->batch[f->ready_first] : NULL;
}

static int feed_result(const struct feed *f, const struct batch *b, struct error *err)
{
	if (b || f->failed.code == 0)
		return 0;
	*err = f->failed;
	return -1;
}

int feed_take(struct feed *f, int short_ok, struct batch **out, struct error *err)
{
	pthread_mutex_lock(&f->lock);
	*out = wait_ready(f, short_ok);
	if (*out) {
		f->taken = f->after[f->ready_first];
		cursor_settle(&f->taken);
		free_taken(f);
		f->held -= (*out)->positions;
		f->ready_first = (f->ready_first + 1) % f->slots;
		f->ready_count--;
		pthread_cond_signal(&f->work);
	}
	int result = feed_result(f, *out, err);
	pthread_mutex_unlock(&f->lock);
	return result;
}

int feed_foresee(struct feed *f, int short_ok, const struct batch **out, struct error *err)
{
	pthread_mutex_lock(&f->lock);
	*out = wait_ready(f, short_ok);
	int result = feed_result(f, *out, err);
	pthread_mutex_unlock(&f->lock);
	return result;
}

const struct batch *feed_next(struct feed *f)
{
	pthread_mutex_lock(&f->lock);
	const struct batch *b = f->ready_count > 0 ? &f->batch[f->ready_first] : NULL;
	pthread_mutex_unlock(&f->lock);
	return b;
}

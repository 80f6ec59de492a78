/*
 * The rows of an epoch: each host's to their owners, the owners' sums to all hosts, and all of it
 * as one list into the client's memory.
 */
#include "fabric/sum_internal.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH_MAX (UINT32_C(1) << 20)

static uint8_t *sum_rows_in(struct epoch *e, size_t from, struct piece p, size_t *bytes)
{
	struct member *m = &e->member[from];

	(void)bytes; /* whatever the other side sends */
	if (from == e->self)
		return NULL;
	return p.kind == PIECE_ROWS ? &m->rows.state : &m->merged.state;
}

static uint8_t *sum_rows_out(struct epoch *e, size_t to, struct piece p)
{
	struct member *m = &e->member[to];

	if (to == e->self)
		return NULL;
	return p.kind == PIECE_ROWS ? &m->rows_out : &m->merged_out;
}

static const void *sum_rows_data(struct epoch *e, size_t to, struct piece p, size_t *bytes)
{
	const struct rowlist *list = &e->member[to].mine;

	if (!e->rows_said || (p.kind == PIECE_MERGED && e->rows_missing))
		return NULL;
	if (p.kind == PIECE_MERGED)
		list = &e->member[e->self].merged.list;
	*bytes = rowlist_bytes(list->count, e->width);
	return list->count ? (const void *)list->key : "";
}

static int sum_rows_wanted(struct epoch *e, struct piece p)
{
	(void)e, (void)p;
	return 1;
}

static void *sum_rows_place(struct epoch *e, struct piece p)
{
	(void)e, (void)p;
	return NULL;
}

/* ---- the lists of all owners ---- */

static void sum_rows_gather(struct epoch *e)
{
	struct rowlist *list = calloc(e->hosts, sizeof *list);
	uint64_t rows = 0;

	if (!list) {
		epoch_fail(e, SUM_ROOM, "out of memory");
		return;
	}
	for (size_t i = 0; i < e->hosts; i++) {
		list[i] = e->member[i].merged.list;
		rows += list[i].count;
	}
	size_t bytes = rowlist_bytes(rows, e->width);
	if (bytes > e->out_bytes) {
		epoch_fail(e, SUM_ROOM, "%llu rows, which are %zu bytes; out-bytes=%llu",
			   (unsigned long long)rows, bytes, (unsigned long long)e->out_bytes);
	} else {
		if (rows)
			rowlist_merge(list, e->hosts, e->width, (size_t)rows, e->out, e->at);
		e->out_rows = rows;
		epoch_one_less(e);
	}
	free(list);
}

static void merged_is_here(struct epoch *e)
{
	if (--e->merged_missing == 0)
		sum_rows_gather(e);
}

/* ---- what this host owns ---- */

static void merge(struct epoch *e)
{
	struct rowlist *list = calloc(e->hosts, sizeof *list);
	struct list_in *own = &e->member[e->self].merged;

	if (!list)
		goto no_memory;
	for (size_t i = 0; i < e->hosts; i++)
		list[i] = e->member[i].rows.list;
	size_t count = rowlist_count(list, e->hosts, e->at);
	own->bytes = rowlist_bytes(count, e->width);
	if (own->bytes > SUM_PIECE_MAX) {
		free(list);
		epoch_fail(e, SUM_ROOM, "%zu rows of one host are more than 1 GiB", count);
		return;
	}
	own->block = block_take(e->sum, own->bytes);
	if (!own->block)
		goto no_memory;
	rowlist_merge(list, e->hosts, e->width, count, own->block->data, e->at);
	own->list = rowlist_at(own->block->data, count);
	free(list);
	for (size_t i = 0; i < e->hosts; i++) {
		block_give(e->sum, e->member[i].rows.block);
		e->member[i].rows.block = NULL;
	}
	for (size_t i = 1; i < e->hosts; i++) /* not all of them to the same host first */
		wire_offer(e, (e->self + i) % e->hosts, (struct piece){PIECE_MERGED, 0, 0});
	merged_is_here(e);
	return;
no_memory:
	free(list);
	epoch_fail(e, SUM_ROOM, "out of memory");
}

static void rows_are_here(struct epoch *e)
{
	if (--e->rows_missing == 0)
		merge(e);
}

/* ---- as they come ---- */

int rows_agree(struct epoch *e, size_t member, uint32_t width)
{
	if (width && !e->width)
		e->width = width;
	if (!width || width == e->width)
		return 0;
	epoch_fail(e, SUM_DIFFERS, "rows of %s have width %u, others %u", epoch_host(e, member),
		   width, e->width);
	return -1;
}

static void sum_rows_take(struct epoch *e, size_t from, struct piece p, const void *bulk,
			  size_t bytes, struct block *block)
{
	struct list_in *l = p.kind == PIECE_ROWS ? &e->member[from].rows : &e->member[from].merged;
	size_t row = rowlist_bytes(1, e->width);

	if (!block && bytes) {
		block = block_take(e->sum, bytes);
		if (!block) {
			epoch_fail(e, SUM_ROOM, "out of memory");
			return;
		}
		memcpy(block->data, bulk, bytes);
	}
	l->state = PIECE_DONE;
	l->block = block;
	l->bytes = bytes;
	if (bytes)
		l->list = rowlist_at(block->data, bytes / row);
	epoch_one_less(e);
	if (p.kind == PIECE_ROWS)
		rows_are_here(e);
	else
		merged_is_here(e);
}

const struct piece_way rows_way = {sum_rows_in,     sum_rows_out,   sum_rows_data,
				   sum_rows_wanted, sum_rows_place, sum_rows_take};

/* ---- this host's own ---- */

static int sum_rows_split(struct epoch *e, const struct sum_rows *rows, struct error *err)
{
	struct rowlist *list = calloc(e->hosts, sizeof *list);
	int result = -1;

	e->mine = block_take(e->sum, rowlist_bytes(rows->count, rows->width));
	if (!list || !e->mine)
		error_set(err, ERROR_OS, NULL, "out of memory");
	else
		result = rowlist_split(rows->rows, (size_t)rows->count, rows->width, e->hosts,
				       e->mine->data, list, err);
	for (size_t i = 0; result == 0 && i < e->hosts; i++) {
		e->member[i].mine = list[i];
		if (rowlist_bytes(list[i].count, rows->width) > SUM_PIECE_MAX)
			result = error_set(err, ERROR_OS, NULL,
					   "%zu rows for one host are more than 1 GiB",
					   (size_t)list[i].count);
	}
	if (result != 0) {
		block_give(e->sum, e->mine);
		e->mine = NULL;
	}
	free(list);
	return result;
}

enum sum_code rows_say(struct epoch *e, const struct sum_rows *rows, struct error *err)
{
	if (rows->count && (rows->width == 0 || rows->width > WIDTH_MAX)) {
		error_set(err, ERROR_DATA, NULL, "width=%u, it is 1 to %u", rows->width, WIDTH_MAX);
		return SUM_BAD;
	}
	if (rows->count && rowlist_bytes(rows->count, rows->width) == 0) {
		error_set(err, ERROR_DATA, NULL, "rows=%llu are too many",
			  (unsigned long long)rows->count);
		return SUM_BAD;
	}
	uintptr_t out = (uintptr_t)rows->out, dense = (uintptr_t)e->dense;
	if (rows->out_bytes && e->floats && out < dense + e->floats * sizeof(float) &&
	    dense < out + rows->out_bytes) {
		error_set(err, ERROR_DATA, NULL, "the sums of rows would go into the dense vector");
		return SUM_BAD;
	}
	if (rows->count && sum_rows_split(e, rows, err) != 0)
		return err->code == ERROR_DATA ? SUM_BAD : SUM_ROOM;
	e->out = rows->out;
	e->out_bytes = rows->out_bytes;
	e->out_release = rows->release;
	e->out_arg = rows->arg;
	e->rows_said = 1;
	if (rows->count && rows_agree(e, e->self, rows->width) != 0)
		return SUM_OK; /* the answer to the wait reports it */
	epoch_one_less(e);
	for (size_t i = 1; i < e->hosts; i++)
		wire_offer(e, (e->self + i) % e->hosts, (struct piece){PIECE_ROWS, 0, 0});
	e->member[e->self].rows.list = e->member[e->self].mine;
	rows_are_here(e);
	return SUM_OK;
}

void rows_met(struct epoch *e, size_t member)
{
	wire_offer(e, member, (struct piece){PIECE_ROWS, 0, 0});
	wire_offer(e, member, (struct piece){PIECE_MERGED, 0, 0});
}

/* ---- the whole of it ---- */

int sum_rows_begin(struct epoch *e)
{
	e->at = calloc(e->hosts, sizeof *e->at);
	if (!e->at)
		return -1;
	e->rows_missing = e->merged_missing = e->hosts;
	/* Said here; gathered here; both kinds to and from each other host. */
	e->left += 2 + 4 * (e->hosts - 1);
	return 0;
}

void rows_done(struct epoch *e)
{
	for (size_t i = 0; i < e->hosts; i++) {
		block_give(e->sum, e->member[i].rows.block);
		block_give(e->sum, e->member[i].merged.block);
		e->member[i].rows.block = e->member[i].merged.block = NULL;
	}
	block_give(e->sum, e->mine);
	e->mine = NULL;
}

void rows_end(struct epoch *e)
{
	rows_done(e);
	free(e->at);
	e->at = NULL;
}

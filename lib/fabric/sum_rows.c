/*
 * The rows of a round: each host's to their owners, the owners' sums to all hosts, and all of it
 * as one list into the client's memory.
 */
#include "fabric/sum_internal.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH_MAX (UINT32_C(1) << 20)

static uint8_t *sum_rows_in(struct round *rd, size_t from, struct piece p, size_t *bytes)
{
	struct member *m = &rd->member[from];

	(void)bytes; /* whatever the other side sends */
	if (from == rd->self || rd->no_rows)
		return NULL;
	return p.kind == PIECE_ROWS ? &m->rows.state : &m->merged.state;
}

static uint8_t *sum_rows_out(struct round *rd, size_t to, struct piece p)
{
	struct member *m = &rd->member[to];

	if (to == rd->self || rd->no_rows)
		return NULL;
	return p.kind == PIECE_ROWS ? &m->rows_out : &m->merged_out;
}

static const void *sum_rows_data(struct round *rd, size_t to, struct piece p, size_t *bytes)
{
	const struct rowlist *list = &rd->member[to].mine;

	if (!rd->rows_said || (p.kind == PIECE_MERGED && rd->rows_missing))
		return NULL;
	if (p.kind == PIECE_MERGED)
		list = &rd->member[rd->self].merged.list;
	*bytes = rowlist_bytes(list->count, rd->width);
	return list->count ? (const void *)list->key : "";
}

static void *sum_rows_place(struct round *rd, struct piece p)
{
	(void)rd, (void)p;
	return NULL;
}

/* ---- the lists of all owners ---- */

static void sum_rows_gather(struct round *rd)
{
	struct rowlist *list = calloc(rd->hosts, sizeof *list);
	uint64_t rows = 0;

	if (!list) {
		round_fail(rd, SUM_ROOM, "out of memory");
		return;
	}
	for (size_t i = 0; i < rd->hosts; i++) {
		list[i] = rd->member[i].merged.list;
		rows += list[i].count;
	}
	size_t bytes = rowlist_bytes(rows, rd->width);
	if (bytes > rd->out_bytes) {
		round_fail(rd, SUM_ROOM, "%llu rows, which are %zu bytes; out-bytes=%llu",
			   (unsigned long long)rows, bytes, (unsigned long long)rd->out_bytes);
	} else {
		if (rows)
			rowlist_merge(list, rd->hosts, rd->width, (size_t)rows, rd->out, rd->at);
		rd->out_rows = rows;
		round_one_less(rd);
	}
	free(list);
}

static void merged_is_here(struct round *rd)
{
	if (--rd->merged_missing == 0)
		sum_rows_gather(rd);
}

/* ---- what this host owns ---- */

static void merge(struct round *rd)
{
	struct rowlist *list = calloc(rd->hosts, sizeof *list);
	struct list_in *own = &rd->member[rd->self].merged;

	if (!list)
		goto no_memory;
	for (size_t i = 0; i < rd->hosts; i++)
		list[i] = rd->member[i].rows.list;
	size_t count = rowlist_count(list, rd->hosts, rd->at);
	own->bytes = rowlist_bytes(count, rd->width);
	if (own->bytes > SUM_PIECE_MAX) {
		free(list);
		round_fail(rd, SUM_ROOM, "%zu rows of one host are more than 1 GiB", count);
		return;
	}
	own->block = block_take(rd->sum, own->bytes);
	if (!own->block)
		goto no_memory;
	rowlist_merge(list, rd->hosts, rd->width, count, own->block->data, rd->at);
	own->list = rowlist_at(own->block->data, count);
	free(list);
	for (size_t i = 0; i < rd->hosts; i++) {
		block_give(rd->sum, rd->member[i].rows.block);
		rd->member[i].rows.block = NULL;
	}
	for (size_t i = 1; i < rd->hosts; i++) /* not all of them to the same host first */
		wire_offer(rd, (rd->self + i) % rd->hosts, (struct piece){PIECE_MERGED, 0, 0});
	merged_is_here(rd);
	return;
no_memory:
	free(list);
	round_fail(rd, SUM_ROOM, "out of memory");
}

static void rows_are_here(struct round *rd)
{
	if (--rd->rows_missing == 0)
		merge(rd);
}

/* ---- as they come ---- */

int rows_agree(struct round *rd, size_t member, uint32_t width)
{
	if (width && !rd->width)
		rd->width = width;
	if (!width || width == rd->width)
		return 0;
	round_fail(rd, SUM_DIFFERS, "rows of %s have width %u, others %u", round_host(rd, member),
		   width, rd->width);
	return -1;
}

static void sum_rows_take(struct round *rd, size_t from, struct piece p, const void *bulk,
			  size_t bytes, struct block *block)
{
	struct list_in *l =
		p.kind == PIECE_ROWS ? &rd->member[from].rows : &rd->member[from].merged;
	size_t row = rowlist_bytes(1, rd->width);

	if (!block && bytes) {
		block = block_take(rd->sum, bytes);
		if (!block) {
			round_fail(rd, SUM_ROOM, "out of memory");
			return;
		}
		memcpy(block->data, bulk, bytes);
	}
	l->state = PIECE_DONE;
	l->block = block;
	l->bytes = bytes;
	if (bytes)
		l->list = rowlist_at(block->data, bytes / row);
	round_one_less(rd);
	if (p.kind == PIECE_ROWS)
		rows_are_here(rd);
	else
		merged_is_here(rd);
}

const struct piece_way rows_way = {sum_rows_in, sum_rows_out,   sum_rows_data,
				   wire_want,   sum_rows_place, sum_rows_take};

/* ---- this host's own ---- */

static int sum_rows_split(struct round *rd, const struct sum_rows *rows, struct error *err)
{
	struct rowlist *list = calloc(rd->hosts, sizeof *list);
	int result = -1;

	rd->mine = block_take(rd->sum, rowlist_bytes(rows->count, rows->width));
	if (!list || !rd->mine)
		error_set(err, ERROR_OS, NULL, "out of memory");
	else
		result = rowlist_split(rows->rows, (size_t)rows->count, rows->width, rd->hosts,
				       rd->mine->data, list, err);
	for (size_t i = 0; result == 0 && i < rd->hosts; i++) {
		rd->member[i].mine = list[i];
		if (rowlist_bytes(list[i].count, rows->width) > SUM_PIECE_MAX)
			result = error_set(err, ERROR_OS, NULL,
					   "%zu rows for one host are more than 1 GiB",
					   (size_t)list[i].count);
	}
	if (result != 0) {
		block_give(rd->sum, rd->mine);
		rd->mine = NULL;
	}
	free(list);
	return result;
}

enum sum_code rows_say(struct round *rd, const struct sum_rows *rows, struct error *err)
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
	uintptr_t out = (uintptr_t)rows->out, dense = (uintptr_t)rd->dense;
	if (rows->out_bytes && rd->floats && out < dense + rd->floats * sizeof(float) &&
	    dense < out + rows->out_bytes) {
		error_set(err, ERROR_DATA, NULL, "the sums of rows would go into the dense vector");
		return SUM_BAD;
	}
	if (rows->count && sum_rows_split(rd, rows, err) != 0)
		return err->code == ERROR_DATA ? SUM_BAD : SUM_ROOM;
	rd->out = rows->out;
	rd->out_bytes = rows->out_bytes;
	rd->out_release = rows->release;
	rd->out_arg = rows->arg;
	rd->rows_said = 1;
	if (rows->count && rows_agree(rd, rd->self, rows->width) != 0)
		return SUM_OK; /* the answer to the wait reports it */
	round_one_less(rd);
	for (size_t i = 1; i < rd->hosts; i++)
		wire_offer(rd, (rd->self + i) % rd->hosts, (struct piece){PIECE_ROWS, 0, 0});
	rd->member[rd->self].rows.list = rd->member[rd->self].mine;
	rows_are_here(rd);
	return SUM_OK;
}

void rows_met(struct round *rd, size_t member)
{
	wire_offer(rd, member, (struct piece){PIECE_ROWS, 0, 0});
	wire_offer(rd, member, (struct piece){PIECE_MERGED, 0, 0});
}

/* ---- the whole of it ---- */

int sum_rows_begin(struct round *rd)
{
	rd->rows_said = rd->no_rows;
	if (rd->no_rows)
		return 0;
	rd->at = calloc(rd->hosts, sizeof *rd->at);
	if (!rd->at)
		return -1;
	rd->rows_missing = rd->merged_missing = rd->hosts;
	/* Said here; gathered here; both kinds to and from each other host. */
	rd->left += 2 + 4 * (rd->hosts - 1);
	return 0;
}

void rows_done(struct round *rd)
{
	for (size_t i = 0; i < rd->hosts; i++) {
		block_give(rd->sum, rd->member[i].rows.block);
		block_give(rd->sum, rd->member[i].merged.block);
		rd->member[i].rows.block = rd->member[i].merged.block = NULL;
	}
	block_give(rd->sum, rd->mine);
	rd->mine = NULL;
}

void rows_end(struct round *rd)
{
	rows_done(rd);
	free(rd->at);
	rd->at = NULL;
}

/* stock: see stock.h. */
#include "agent/stock.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

void stock_free(struct stock *s)
{
	free(s->piece);
	*s = (struct stock){0};
}

/* The pieces are to begin at `first`, with so many free places behind them. */
static int stock_make_room(struct stock *s, size_t first, size_t more, struct error *err)
{
	if (GROW(s->piece, s->room, first + s->count + more) != 0)
		return error_set(err, ERROR_OS, "", "out of memory");
	if (first != s->first)
		memmove(s->piece + first, s->piece + s->first, s->count * sizeof *s->piece);
	s->first = first;
	return 0;
}

int stock_add(struct stock *s, const struct piece *p, struct error *err)
{
	if (p->take == 0)
		return 0;
	if (stock_make_room(s, s->first + s->count == s->room ? 0 : s->first, 1, err) != 0)
		return -1;
	s->piece[s->first + s->count++] = *p;
	s->rows += p->take;
	return 0;
}

int stock_knows(const struct stock *s, uint64_t id)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->piece[s->first + i].id == id)
			return 1;
	return 0;
}

void stock_drop(struct stock *s)
{
	s->first = s->count = 0;
	s->rows = 0;
}

void stock_cut(struct stock *s, uint64_t rows, struct stock_cut *cut, struct batch *batch)
{
	cut->ranges = 0;
	cut->rows = 0;
	batch->positions = batch->count = batch->range_count = batch->ranges_bytes = 0;
	while (s->count > 0 && cut->rows < rows) {
		struct piece *p = &s->piece[s->first];
		uint64_t left = rows - cut->rows, length = p->take < left ? p->take : left;
		if (!batch_takes_range(batch, p->id, p->begin + p->skip, length))
			break;
		batch_add_range(batch, p->id, p->begin + p->skip, length);
		cut->range[cut->ranges++] = (struct stock_range){*p, p->skip, length};
		cut->rows += length;
		p->skip += length;
		p->take -= length;
		if (p->take > 0)
			break;
		s->first++;
		s->count--;
	}
	batch->count = batch->positions;
	s->rows -= cut->rows;
}

/* In front of the others; or of what is left of the same piece. */
static void stock_give_back(struct stock *s, const struct stock_range *r)
{
	struct piece *p = &s->piece[s->first];
	if (s->count == 0 || p->id != r->piece.id || p->skip != r->position + r->length) {
		*--p = r->piece;
		p->skip = r->position + r->length;
		p->take = 0;
		s->first--;
		s->count++;
	}
	p->skip -= r->length;
	p->take += r->length;
	s->rows += r->length;
}

int stock_uncut(struct stock *s, struct stock_cut *cut, struct batch *batch, struct error *err)
{
	if (s->first < cut->ranges && stock_make_room(s, cut->ranges, 0, err) != 0)
		return -1;
	while (cut->ranges > 0)
		stock_give_back(s, &cut->range[--cut->ranges]);
	cut->rows = 0;
	batch->positions = batch->count = batch->range_count = batch->ranges_bytes = 0;
	return 0;
}

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

int stock_add(struct stock *s, const struct piece *p, struct error *err)
{
	if (p->take == 0)
		return 0;
	if (s->first > 0 && s->first + s->count == s->room) {
		memmove(s->piece, s->piece + s->first, s->count * sizeof *s->piece);
		s->first = 0;
	}
	if (GROW(s->piece, s->room, s->first + s->count + 1) != 0)
		return error_set(err, ERROR_OS, "", "out of memory");
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

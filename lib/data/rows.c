/*
 * rows: the arrays of dataset.h.  They only grow, to the size of the largest read, so that reading
 * in a loop does not allocate.
 */
#include "data/parse.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

void rows_free(struct rows *rows)
{
	free(rows->row);
	free(rows->label);
	free(rows->weight);
	free(rows->dense);
	free(rows->offset);
	free(rows->key);
	free(rows->value_room);
	*rows = (struct rows){0};
}

void rows_begin(struct rows *rows, const struct schema *s)
{
	rows->count = 0;
	rows->dense_columns = s->dense_count;
	rows->fields = schema_fields(s);
	rows->value_wanted = s->syntax.format == ROW_LIBSVM || s->syntax.format == ROW_BAG;
	rows->value = rows->value_wanted ? rows->value_room : NULL;
	if (rows->offset)
		rows->offset[0] = 0;
}

/* Of several arrays with one room. */
static int rows_grow(struct rows *r, size_t count)
{
	size_t row = r->row_room, label = row, weight = row, offset = r->offset ? row + 1 : 0;
	int first = r->offset == NULL;
	if (GROW(r->row, row, count) != 0 || GROW(r->label, label, row) != 0 ||
	    GROW(r->weight, weight, row) != 0 || GROW(r->offset, offset, row + 1) != 0)
		return -1;
	if (first)
		r->offset[0] = 0;
	r->row_room = row;
	return 0;
}

int rows_reserve_many(struct rows *r, size_t rows, size_t keys, struct error *err)
{
	size_t dense, need;
	if (r->count + rows > r->row_room && rows_grow(r, r->count + rows) != 0)
		return error_set(err, ERROR_OS, "rows", "out of memory");
	if (__builtin_mul_overflow(r->count + rows, r->dense_columns, &dense) ||
	    __builtin_add_overflow(r->offset[r->count], keys, &need))
		return error_set(err, ERROR_OS, "rows", "too many");
	if (GROW(r->dense, r->dense_room, dense) != 0 || GROW(r->key, r->key_room, need) != 0 ||
	    /* Rows without a key have values all the same: NULL would say that others have none. */
	    (r->value_wanted && GROW(r->value_room, r->value_room_count, need > 0 ? need : 1) != 0))
		return error_set(err, ERROR_OS, "rows", "out of memory");
	r->value = r->value_wanted ? r->value_room : NULL;
	return 0;
}

int rows_reserve(struct rows *r, size_t keys, struct error *err)
{
	return rows_reserve_many(r, 1, keys, err);
}

/*
 * rows: the arrays of dataset.h.  They only grow, to the size of the largest read, so that reading
 * in a loop does not allocate.
 */
#include "data/parse.h"

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
	rows->value_wanted = s->format == ROW_LIBSVM;
	rows->value = rows->value_wanted ? rows->value_room : NULL;
	if (rows->offset)
		rows->offset[0] = 0;
}

static int grow(void *array, size_t count, size_t size)
{
	size_t bytes;
	void *old, *larger;
	memcpy(&old, array, sizeof old);
	if (__builtin_mul_overflow(count, size, &bytes))
		return -1;
	larger = realloc(old, bytes);
	if (!larger)
		return -1;
	memcpy(array, &larger, sizeof larger);
	return 0;
}

static int grow_rows(struct rows *r)
{
	size_t room = r->row_room ? r->row_room * 2 : 256;
	int first = r->offset == NULL;
	if (grow(&r->row, room, sizeof *r->row) || grow(&r->label, room, sizeof *r->label) ||
	    grow(&r->weight, room, sizeof *r->weight) ||
	    grow(&r->offset, room + 1, sizeof *r->offset))
		return -1;
	if (first)
		r->offset[0] = 0;
	r->row_room = room;
	return 0;
}

int rows_reserve(struct rows *r, size_t keys, struct error *err)
{
	size_t dense, need;
	if (r->count == r->row_room && grow_rows(r) != 0)
		return error_set(err, ERROR_OS, "rows", "out of memory");
	if (__builtin_mul_overflow(r->count + 1, r->dense_columns, &dense) ||
	    __builtin_add_overflow(r->offset[r->count], keys, &need))
		return error_set(err, ERROR_OS, "rows", "too many");
	if (dense > r->dense_room) {
		size_t room = dense * 2;
		if (grow(&r->dense, room, sizeof *r->dense) != 0)
			return error_set(err, ERROR_OS, "rows", "out of memory");
		r->dense_room = room;
	}
	if (need > r->key_room) {
		size_t room = need * 2;
		if (grow(&r->key, room, sizeof *r->key) != 0)
			return error_set(err, ERROR_OS, "rows", "out of memory");
		r->key_room = room;
	}
	if (r->value_wanted && need > r->value_room_count) {
		size_t room = need * 2;
		if (grow(&r->value_room, room, sizeof *r->value_room) != 0)
			return error_set(err, ERROR_OS, "rows", "out of memory");
		r->value_room_count = room;
		r->value = r->value_room;
	}
	return 0;
}

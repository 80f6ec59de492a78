/* table: the workers of a stream, by number and by id. */
#include "cmd/speed-predict.h"

#include "base/grow.h"

void table_clear(struct table *t)
{
	HASH_CLEAR(hh, t->by_id);
	for (size_t i = 0; i < t->count; i++) {
		predictor_free(t->row[i]->predictor);
		predictor_free(t->row[i]->loaded);
		free(t->row[i]);
	}
	free(t->row);
	predict_group_free(t->group);
	*t = (struct table){0};
}

int table_add(struct table *t, const char *id, struct worker **out, struct error *err)
{
	if (t->count == PREDICT_GROUP_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d workers", PREDICT_GROUP_MAX);
	struct worker *w = GROW(t->row, t->room, t->count + 1) == 0 ? calloc(1, sizeof *w) : NULL;
	if (!w)
		return error_set(err, ERROR_OS, NULL, "out of memory for a worker");
	snprintf(w->id, sizeof w->id, "%s", id);
	HASH_ADD_STR(t->by_id, id, w);
	if (hash_lacks(w)) {
		free(w);
		return error_set(err, ERROR_OS, NULL, "out of memory for a worker");
	}
	w->number = t->count;
	t->row[t->count++] = w;
	*out = w;
	return 0;
}

struct worker *table_find(const struct table *t, const char *id)
{
	struct worker *w;
	HASH_FIND_STR(t->by_id, id, w);
	return w;
}

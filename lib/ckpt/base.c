/*
 * base: makes a checkpoint that has only the rows that changed since an older one, its base, read
 * as if it had all rows.  The other rows come from the base (ckpt.h).
 */
#include "ckpt/base.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/option.h"
#include "param/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BUCKET_KEYS 8

/* The directory of the base: beside dir. If dir is a link or ".", it is beside the directory that
 * dir stands for. */
static int base_path(const char *dir, const char *base, char *out, size_t max, struct error *err)
{
	char plain[CKPT_PATH_MAX], parent[CKPT_PATH_MAX];
	struct stat st;
	size_t len = strlen(dir);
	while (len > 1 && dir[len - 1] == '/')
		len--;
	if (len + sizeof "/.." > sizeof parent)
		return error_set(err, ERROR_USAGE, dir, "path too long");
	snprintf(plain, sizeof plain, "%.*s", (int)len, dir);
	const char *last = fs_basename(plain);
	if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0 ||
	    (lstat(plain, &st) == 0 && S_ISLNK(st.st_mode)))
		snprintf(parent, sizeof parent, "%.*s/..", (int)len, dir);
	else
		fs_dirname(plain, parent, sizeof parent);
	return fs_join(out, max, parent, base, err);
}

int ckpt_base_read(struct ckpt_manifest *base, const struct ckpt_manifest *m, const char *dir,
		   char path[CKPT_PATH_MAX], struct error *err)
{
	struct error why = {0};
	*base = (struct ckpt_manifest){0};
	if (base_path(dir, m->base, path, CKPT_PATH_MAX, err) != 0)
		return -1;
	if (ckpt_manifest_read(base, path, &why) != 0)
		return error_set(err, why.code == ERROR_NOINPUT ? ERROR_DATA : why.code, dir,
				 "its other rows are in %.200s: %.200s", path, why.text);
	if (base->sum != m->base_sum || base->base[0] || base->foreign) {
		ckpt_manifest_free(base);
		return error_set(err, ERROR_DATA, dir,
				 "its other rows are in %.200s, which is not the checkpoint that "
				 "it was made from",
				 path);
	}
	return 0;
}

int ckpt_set_base(struct ckpt_manifest *m, const char *dir, const char *base, struct error *err)
{
	char path[CKPT_PATH_MAX];
	struct ckpt_manifest other;
	if (base_path(dir, base, path, sizeof path, err) != 0)
		return -1;
	if (!option_id_ok(base))
		return error_set(err, ERROR_DATA, NULL, "'%.80s' is no name of a checkpoint", base);
	if (ckpt_manifest_read(&other, path, err) != 0)
		return -1;
	int whole = !other.base[0] && !other.foreign;
	if (whole) {
		memcpy(m->base, base, strlen(base) + 1);
		m->base_sum = other.sum;
	}
	ckpt_manifest_free(&other);
	return whole ? 0 : error_set(err, ERROR_DATA, path, "has not all parameters itself");
}

int ckpt_find_base(const char *dir, char *out, size_t max)
{
	struct ckpt_manifest m;
	int result = -1;
	if (ckpt_manifest_read(&m, dir, NULL) == 0 && m.base[0])
		result = base_path(dir, m.base, out, max, NULL);
	ckpt_manifest_free(&m);
	return result;
}

/* ---- which rows a checkpoint has itself ---- */

/* The keys in buckets by their places. Places spread evenly, so a key is looked for among a few. */
struct own_keys {
	uint32_t *key;
	size_t count, room;
	size_t *first; /* where each bucket begins; and where the last one ends */
	unsigned shift;
};

static int ckpt_base_take_keys(void *owner, size_t rows, const uint32_t *keys, const float *values,
			       const float *const *slots, struct error *err)
{
	struct own_keys *o = owner;
	(void)values;
	(void)slots;
	if (GROW(o->key, o->room, o->count + rows) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(o->key + o->count, keys, rows * sizeof *keys);
	o->count += rows;
	return 0;
}

static size_t ckpt_base_bucket_of(const struct own_keys *o, uint32_t key)
{
	return (size_t)((uint64_t)map_place(key) >> o->shift);
}

static int fill_buckets(struct own_keys *o, struct error *err)
{
	o->shift = 32;
	while (o->shift > 0 && (MAP_PLACES >> o->shift) * BUCKET_KEYS < o->count)
		o->shift--;
	size_t buckets = (size_t)(MAP_PLACES >> o->shift);
	uint32_t *sorted = malloc((o->count + 1) * sizeof *sorted);
	o->first = calloc(buckets + 1, sizeof *o->first);
	if (!sorted || !o->first) {
		free(sorted);
		return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	for (size_t i = 0; i < o->count; i++)
		o->first[ckpt_base_bucket_of(o, o->key[i])]++;
	for (size_t i = 0, end = 0; i <= buckets; i++)
		o->first[i] = end += o->first[i];
	/* Each bucket is filled from its end down, so that first[] then says where it begins. */
	for (size_t i = o->count; i-- > 0;)
		sorted[--o->first[ckpt_base_bucket_of(o, o->key[i])]] = o->key[i];
	free(o->key);
	o->key = sorted;
	return 0;
}

static int is_own(const struct own_keys *o, uint32_t key)
{
	size_t bucket = ckpt_base_bucket_of(o, key), i = o->first[bucket];
	while (i < o->first[bucket + 1] && o->key[i] != key)
		i++;
	return i < o->first[bucket + 1];
}

/* ---- the base's rows that the checkpoint lacks ---- */

struct others {
	const struct stream_taker *taker;
	const struct stream_shape *shape;
	struct own_keys own;
	uint32_t *key; /* of a block, as values[] is */
	float *values[1 + STREAM_SLOTS_MAX];
};

static int ckpt_base_make_room(struct others *o, struct error *err)
{
	if (o->key)
		return 0;
	int made = (o->key = malloc(PLANES_BYTES_MAX)) != NULL;
	for (size_t k = 0; k < 1 + STREAM_SLOTS_MAX; k++)
		made &= (o->values[k] = malloc(PLANES_BYTES_MAX)) != NULL;
	return made ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
}

static int take_others(void *others, size_t rows, const uint32_t *keys, const float *values,
		       const float *const *slots, struct error *err)
{
	struct others *o = others;
	size_t width = o->shape->width, n = 0, bytes = width * sizeof(float);
	if (ckpt_base_make_room(o, err) != 0)
		return -1;
	for (size_t i = 0; i < rows; i++) {
		if (is_own(&o->own, keys[i]))
			continue;
		o->key[n] = keys[i];
		if (values)
			memcpy(o->values[0] + n * width, values + i * width, bytes);
		for (size_t k = 0; slots && o->taker->slots && k < o->shape->row_slots; k++)
			memcpy(o->values[1 + k] + n * width, slots[k] + i * width, bytes);
		n++;
	}
	return n ? o->taker->rows(o->taker->owner, n, o->key, values ? o->values[0] : NULL,
				  slots ? (const float *const *)o->values + 1 : NULL, err)
		 : 0;
}

int ckpt_base_rows(ckpt_read_fn *read_own, ckpt_read_fn *read_base, void *owner,
		   const struct stream_shape *shape, const struct part_want *want,
		   const struct stream_taker *taker, struct error *err)
{
	struct others o = {.taker = taker, .shape = shape};
	struct stream_taker keys = {.rows = ckpt_base_take_keys, .owner = &o.own, .keys_only = 1};
	struct stream_taker rows = *taker;
	struct part_want places = {.place_begin = want->place_begin, .place_end = want->place_end};
	rows.rows = take_others;
	rows.owner = &o;
	int result = read_own(owner, &places, &keys, err);
	if (result == 0)
		result = fill_buckets(&o.own, err);
	if (result == 0)
		result = read_base(owner, &places, &rows, err);
	free(o.own.key);
	free(o.own.first);
	free(o.key);
	for (size_t k = 0; k < 1 + STREAM_SLOTS_MAX; k++)
		free(o.values[k]);
	return result;
}

/*
 * reshard: see reshard.h.  It goes part by part: it reads what belongs to the part, wherever it is,
 * and writes it at once.  So it needs memory for one block of rows only.
 */
#include "ckpt/reshard.h"

#include "base/fs.h"
#include "ckpt/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKING ".ckpt-making" /* its maker holds a lock on it; removed when all is made */

struct reshard {
	struct ckpt *ckpt;
	const char *out;
	int level;
	struct team *team; /* for writing; the reader has one of its own */
	struct map map;
	uint64_t rows[MAP_PARTS_MAX]; /* of each new part */
	struct ckpt_manifest manifest;
	/* the part that is being written */
	uint32_t part;
	struct stream_shape shape;
	struct stream_writer *writer;
	size_t most, have; /* rows of a block; rows that are in it now */
	uint32_t *keys;
	float *values[1 + STREAM_SLOTS_MAX];
};

/* Makes the directory. It may exist if it is empty: that is left of a maker that died before it had
 * its lock. */
static int make_empty(const char *out)
{
	if (mkdir(out, 0700) == 0)
		return 0;
	int errnum = errno;
	if (errnum == EEXIST && rmdir(out) == 0)
		return mkdir(out, 0700);
	errno = errnum;
	return -1;
}

int ckpt_make_dir(const char *out, int *making, struct error *err)
{
	char lock[CKPT_PATH_MAX], manifest[CKPT_PATH_MAX];
	if (fs_join(lock, sizeof lock, out, MAKING, err) != 0 ||
	    fs_join(manifest, sizeof manifest, out, CKPT_MANIFEST, err) != 0)
		return -1;
	if (access(lock, F_OK) == 0 && access(manifest, F_OK) != 0) {
		if (fs_lock(lock, making, err) != 0)
			return -1;
		int result = fs_remove_tree(out, err);
		close(*making);
		if (result != 0)
			return -1;
	}
	if (make_empty(out) != 0)
		return error_errno(err, ERROR_CANTCREAT, out, "can't be made");
	if (fs_lock(lock, making, err) == 0)
		return 0;
	if (err->code != ERROR_TEMPFAIL)
		unlink(lock);
	rmdir(out); /* this fails if another process has made its lock */
	return -1;
}

int ckpt_made_dir(const char *out, int making, int result, struct error *err)
{
	char lock[CKPT_PATH_MAX];
	if (result == 0)
		result = fs_join(lock, sizeof lock, out, MAKING, err);
	if (result == 0 && unlink(lock) != 0)
		result = error_errno(err, ERROR_IO, lock, "can't be removed");
	if (result != 0)
		fs_remove_tree(out, NULL);
	close(making);
	return result;
}

/* ---- what is read ---- */

static int reshard_count_rows(void *reshard, size_t rows, const uint32_t *keys, const float *values,
			      const float *const *slots, struct error *err)
{
	struct reshard *r = reshard;
	(void)values;
	(void)slots;
	(void)err;
	for (size_t i = 0; i < rows; i++)
		r->rows[map_part_of_key(&r->map, keys[i])]++;
	return 0;
}

static int reshard_take_dense(void *reshard, int slot, uint64_t begin, size_t count,
			      const float *values, struct error *err)
{
	struct reshard *r = reshard;
	uint64_t from = r->shape.dense_begin, to = from + r->shape.dense_count;
	uint64_t first = begin > from ? begin : from, end = begin + count < to ? begin + count : to;
	return first < end ? stream_dense(r->writer, slot, values + (first - begin), end - first, err)
			   : 0;
}

static int reshard_put_rows(struct reshard *r, struct error *err)
{
	int result = r->have ? stream_rows(r->writer, r->have, r->keys, r->values[0],
					   (const float *const *)r->values + 1, err)
			     : 0;
	r->have = 0;
	return result;
}

static int reshard_take_rows(void *reshard, size_t rows, const uint32_t *keys, const float *values,
			     const float *const *slots, struct error *err)
{
	struct reshard *r = reshard;
	size_t width = r->shape.width;
	for (size_t i = 0; i < rows; i++) {
		if (map_part_of_key(&r->map, keys[i]) != r->part)
			continue;
		r->keys[r->have] = keys[i];
		memcpy(r->values[0] + r->have * width, values + i * width, width * sizeof *values);
		for (size_t k = 0; k < r->shape.row_slots; k++)
			memcpy(r->values[1 + k] + r->have * width, slots[k] + i * width,
			       width * sizeof *values);
		if (++r->have == r->most && reshard_put_rows(r, err) != 0)
			return -1;
	}
	return 0;
}

/* ---- what is written ---- */

static int reshard_write_notes(struct reshard *r, struct error *err)
{
	const char *key, *value;
	for (size_t i = 0; (key = ckpt_note_at(r->ckpt, i, &value)) != NULL; i++)
		if (stream_note(r->writer, key, value, err) != 0)
			return -1;
	return 0;
}

static int write_values(struct reshard *r, struct error *err)
{
	const struct stream_taker taker = {
		.dense = reshard_take_dense, .rows = reshard_take_rows, .owner = r, .slots = 1};
	const struct part_want dense = {.dense_begin = r->shape.dense_begin,
					.dense_end = r->shape.dense_begin + r->shape.dense_count};
	const struct part_want rows = {.place_begin = r->map.key_begin[r->part],
				       .place_end = r->map.key_begin[r->part + 1]};
	if (reshard_write_notes(r, err) != 0 || ckpt_read(r->ckpt, &dense, &taker, err) != 0 ||
	    ckpt_read(r->ckpt, &rows, &taker, err) != 0 || reshard_put_rows(r, err) != 0)
		return -1;
	return stream_end(r->writer, err);
}

static int reshard_write_part(struct reshard *r, struct error *err)
{
	char name[CKPT_NAME_MAX], path[CKPT_PATH_MAX];
	struct part_writer *file;
	uint64_t bytes, sum;
	ckpt_part_name(r->part, name);
	if (fs_join(path, sizeof path, r->out, name, err) != 0 ||
	    part_create(&file, path, err) != 0)
		return -1;
	part_compress(file, r->level, r->team);
	r->shape.part = r->part;
	r->shape.dense_begin = r->map.dense_begin[r->part];
	r->shape.dense_count = r->map.dense_begin[r->part + 1] - r->shape.dense_begin;
	r->shape.rows = r->rows[r->part];
	r->writer = NULL;
	int result = stream_begin(&r->writer, part_sink(file), &r->shape, err);
	if (result == 0)
		result = write_values(r, err);
	stream_writer_free(r->writer);
	if (result != 0) {
		part_abandon(file);
		return -1;
	}
	return part_finish(file, &bytes, &sum, err) == 0
		       ? ckpt_add(&r->manifest, name, bytes, sum, err)
		       : -1;
}

static int copy_files(struct reshard *r, struct error *err)
{
	const struct ckpt_manifest *m = ckpt_get_manifest(r->ckpt);
	char path[CKPT_PATH_MAX];
	for (size_t i = 0; i < m->count; i++) {
		const char *name = m->file[i].name;
		if (strncmp(name, "part-", 5) == 0)
			continue;
		if (ckpt_check_file(r->ckpt, name, path, sizeof path, err) != 0 ||
		    ckpt_include(&r->manifest, r->out, path, name, err) != 0)
			return -1;
	}
	return 0;
}

static int reshard_make_room(struct reshard *r, struct error *err)
{
	const struct part_want all = {.place_end = MAP_PLACES};
	const struct stream_taker taker = {.rows = reshard_count_rows, .owner = r, .keys_only = 1};
	if (r->shape.width == 0)
		return 0;
	r->most = stream_block_rows(&r->shape);
	r->keys = malloc(r->most * sizeof *r->keys);
	int made = r->keys != NULL;
	for (size_t k = 0; k <= r->shape.row_slots; k++) {
		r->values[k] = malloc(r->most * r->shape.width * sizeof(float));
		made &= r->values[k] != NULL;
	}
	return made ? ckpt_read(r->ckpt, &all, &taker, err)
		    : error_set(err, ERROR_OS, r->out, "out of memory");
}

static int reshard_write_all(struct reshard *r, struct error *err)
{
	const struct ckpt_manifest *m = ckpt_get_manifest(r->ckpt);
	if (ckpt_manifest_start(&r->manifest, m->job, m->iteration, m->incarnation, m->at, err) !=
		    0 ||
	    reshard_make_room(r, err) != 0)
		return -1;
	r->manifest.epoch = m->epoch;
	for (r->part = 0; r->part < r->map.parts; r->part++)
		if (reshard_write_part(r, err) != 0)
			return -1;
	return copy_files(r, err) == 0 ? ckpt_commit(&r->manifest, r->out, err) : -1;
}

int ckpt_reshard(struct ckpt *c, const char *out, uint32_t parts, int level, struct error *err)
{
	struct reshard *r = calloc(1, sizeof *r); /* large */
	if (!r)
		return error_set(err, ERROR_OS, out, "out of memory");
	r->ckpt = c;
	r->out = out;
	r->level = level;
	r->team = ckpt_team();
	r->shape = (struct stream_shape){.parts = parts,
					 .dense_slots = ckpt_dense_slots(c),
					 .width = ckpt_width(c),
					 .row_slots = ckpt_row_slots(c)};
	map_even(&r->map, parts, ckpt_dense_count(c));
	int making, result = ckpt_make_dir(out, &making, err);
	if (result == 0)
		result = ckpt_made_dir(out, making, reshard_write_all(r, err), err);
	team_free(r->team);
	ckpt_manifest_free(&r->manifest);
	free(r->keys);
	for (size_t k = 0; k <= STREAM_SLOTS_MAX; k++)
		free(r->values[k]);
	free(r);
	return result;
}

/* ckpt_make: small checkpoints for the unit tests, and a directory for each test. */
#ifndef PACELINE_UNIT_CKPT_MAKE_H
#define PACELINE_UNIT_CKPT_MAKE_H

#include "base/fs.h"
#include "ckpt/ckpt.h"
#include "param/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OK(call)                                                                                   \
	do {                                                                                       \
		struct error err_ = {0};                                                           \
		struct error *err = &err_;                                                         \
		if ((call) != 0) {                                                                 \
			print_error("%s: %s: %s\n", #call, err_.place, err_.text);                 \
			fail();                                                                    \
		}                                                                                  \
	} while (0)

struct make {
	uint64_t dense;
	uint32_t dense_slots, width, row_slots, rows, parts;
	uint64_t piece; /* values and rows handed over at a time */
};

static char test_dir[64];

static inline int make_dir(void **state)
{
	(void)state;
	strcpy(test_dir, "/tmp/paceline-ckpt.XXXXXX");
	return mkdtemp(test_dir) ? 0 : -1;
}

static inline int remove_dir(void **state)
{
	(void)state;
	return fs_remove_tree(test_dir, NULL);
}

static inline const char *in_dir(const char *name)
{
	static char path[8][256];
	static int turn;
	char *out = path[turn++ % 8];
	snprintf(out, 256, "%s/%s", test_dir, name);
	return out;
}

/* Two files of the directory, to the byte. */
static inline void same_file(const char *a, const char *b)
{
	char *x, *y;
	size_t n, m;
	OK(fs_read_file(in_dir(a), 1 << 24, &x, &n, err));
	OK(fs_read_file(in_dir(b), 1 << 24, &y, &m, err));
	assert_int_equal(n, m);
	assert_memory_equal(x, y, n);
	free(x);
	free(y);
}

/* As it is, and not as fs_replace_file() does: thousands of times. */
static inline void write_plain(const char *path, const char *data, size_t len)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static inline uint64_t mix(uint64_t z)
{
	z += 0x9E3779B97F4A7C15ull;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	return z ^ (z >> 31);
}

/* What element i of a slot (-1: the parameters) must be. */
static inline float dense_value(int slot, uint64_t i)
{
	return slot == 0 ? 0 : (float)(int32_t)mix(i * 8 + (uint64_t)(slot + 1)) * 0x1p-31f;
}

/* The n-th row's key: an odd factor, so all differ. */
static inline uint32_t row_key(uint32_t n)
{
	return n * 2246822519u;
}

static inline float row_value(int slot, uint32_t key, uint32_t column)
{
	return (float)(int32_t)mix((uint64_t)key << 20 | column << 4 | (uint32_t)(slot + 1)) *
	       0x1p-33f;
}

/* More threads than most machines that test have cores. */
static inline struct team *make_team(void)
{
	static struct team *team;
	if (!team)
		OK(team_new(&team, 3, err));
	return team;
}

static inline void make_rows(struct stream_writer *w, const struct make *m, uint32_t part)
{
	uint32_t *keys = malloc(((size_t)m->piece + 1) * sizeof *keys);
	float *values[1 + STREAM_SLOTS_MAX];
	static struct map map;
	uint64_t n = 0;
	map_even(&map, m->parts, m->dense);
	for (int s = 0; s < 1 + STREAM_SLOTS_MAX; s++)
		values[s] = malloc(((size_t)m->piece + 1) * m->width * sizeof(float));
	for (uint32_t i = 0; i <= m->rows; i++) {
		if (n && (n == m->piece || i == m->rows)) {
			OK(stream_rows(w, n, keys, values[0], (const float *const *)values + 1, err));
			n = 0;
		}
		if (i == m->rows || map_part_of_key(&map, row_key(i)) != part)
			continue;
		keys[n] = row_key(i);
		for (int s = 0; s <= (int)m->row_slots; s++)
			for (uint32_t c = 0; c < m->width; c++)
				values[s][n * m->width + c] = row_value(s - 1, keys[n], c);
		n++;
	}
	for (int s = 0; s < 1 + STREAM_SLOTS_MAX; s++)
		free(values[s]);
	free(keys);
}

static inline void make_part(struct ckpt_manifest *manifest, const char *dir, const struct make *m,
			     uint32_t part)
{
	char name[CKPT_NAME_MAX], path[CKPT_PATH_MAX];
	struct stream_shape shape = {.part = part, .parts = m->parts, .dense_slots = m->dense_slots,
				     .width = m->width, .row_slots = m->row_slots};
	struct part_writer *file;
	struct stream_writer *w;
	static struct map map;
	uint64_t bytes, sum;
	float *values = malloc(((size_t)m->piece + 1) * sizeof *values);
	map_even(&map, m->parts, m->dense);
	shape.dense_begin = map.dense_begin[part];
	shape.dense_count = map.dense_begin[part + 1] - shape.dense_begin;
	ckpt_part_name(part, name);
	snprintf(path, sizeof path, "%s/%s", dir, name);
	for (uint32_t i = 0; m->width && i < m->rows; i++)
		shape.rows += map_part_of_key(&map, row_key(i)) == part;
	OK(part_create(&file, path, err));
	part_compress(file, (int)(m->parts + m->piece) % 10, m->parts % 2 ? NULL : make_team());
	OK(stream_begin(&w, part_sink(file), &shape, err));
	OK(stream_note(w, "step", "12", err));
	for (int slot = (int)m->dense_slots - 1; slot >= -1; slot--)
		for (uint64_t i = 0; i < shape.dense_count; i += m->piece) {
			uint64_t n = shape.dense_count - i < m->piece ? shape.dense_count - i
								       : m->piece;
			for (uint64_t k = 0; k < n; k++)
				values[k] = dense_value(slot, shape.dense_begin + i + k);
			OK(stream_dense(w, slot, values, n, err));
		}
	if (m->width)
		make_rows(w, m, part);
	OK(stream_end(w, err));
	stream_writer_free(w);
	OK(part_finish(file, &bytes, &sum, err));
	OK(ckpt_add(manifest, name, bytes, sum, err));
	free(values);
}

/* A layout that fits: the dense vector as two tensors, the table "emb". */
static inline void make_layout(struct layout *l, const struct make *m)
{
	layout_start(l, 7);
	if (m->dense)
		OK(layout_add_tensor(l, "bias", 1, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, err));
	if (m->dense > 1)
		OK(layout_add_tensor(l, "w", m->dense - 1, 1, LAYOUT_NORMAL, 0.5, LAYOUT_OPTIMIZER,
				     err));
	struct layout_table t = {.name = "emb", .width = m->width, .scale = 0.01};
	if (m->width)
		OK(layout_set_table(l, &t, err));
}

/* A whole checkpoint at dir, which is made. */
static inline void make_checkpoint(const char *dir, const struct make *m, uint64_t iteration,
				   uint64_t incarnation)
{
	struct ckpt_manifest own, *manifest = &own;
	struct layout *l = malloc(sizeof *l);
	OK(fs_make_dirs(dir, err));
	OK(ckpt_manifest_start(manifest, "unit", iteration, incarnation, 1.7e9, err));
	for (uint32_t i = 0; i < m->parts; i++)
		make_part(manifest, dir, m, i);
	make_layout(l, m);
	OK(layout_write(l, in_dir("layout.txt"), err));
	OK(ckpt_include(manifest, dir, in_dir("layout.txt"), "layout", err));
	char path[CKPT_PATH_MAX];
	snprintf(path, sizeof path, "%s/shards", dir);
	OK(fs_replace_file(path, "queue\n", 6, err));
	OK(ckpt_add_file(manifest, dir, "shards", err));
	OK(ckpt_commit(manifest, dir, err));
	free(l);
	ckpt_manifest_free(manifest);
}

struct seen {
	const struct make *m;
	uint32_t rows;
	uint64_t dense;
	unsigned char *seen; /* [rows] */
};

/* Whether rows are those that were written, for the first time. -1 when not. */
static inline int check_rows(void *arg, size_t rows, const uint32_t *keys, const float *values,
			     const float *const *slots, struct error *err)
{
	struct seen *s = arg;
	for (size_t i = 0; i < rows; i++) {
		uint32_t n = 0, key = keys[i];
		while (n < s->m->rows && row_key(n) != key)
			n++;
		if (n == s->m->rows || s->seen[n]++)
			return error_set(err, 1, NULL, "row %u is unknown or came twice", key);
		for (uint32_t at = 0, width = s->m->width; at < width; at++) {
			if (values[i * width + at] != row_value(-1, key, at))
				return error_set(err, 1, NULL, "row %u differs", key);
			for (int k = 0; k < (int)s->m->row_slots; k++)
				if (slots[k][i * width + at] != row_value(k, key, at))
					return error_set(err, 1, NULL, "slot %d of row %u differs", k,
							 key);
		}
		s->rows++;
	}
	return 0;
}

static inline int check_dense(void *arg, int slot, uint64_t begin, size_t count, const float *values,
			      struct error *err)
{
	struct seen *s = arg;
	for (size_t i = 0; i < count; i++)
		if (values[i] != dense_value(slot, begin + i))
			return error_set(err, 1, NULL, "slot %d differs", slot);
	s->dense += count;
	return 0;
}

static inline int check_once(struct ckpt *c, const struct make *m)
{
	struct error err = {0};
	struct seen s = {.m = m, .seen = calloc(m->rows + 1, 1)};
	const struct part_want want = {.dense_end = m->dense, .place_end = MAP_PLACES};
	const struct stream_taker taker = {.dense = check_dense, .rows = check_rows, .owner = &s, .slots = 1};
	int result = 0;
	if (ckpt_dense_count(c) != m->dense || ckpt_width(c) != m->width ||
	    ckpt_dense_slots(c) != m->dense_slots)
		result = -2;
	else if (ckpt_read(c, &want, &taker, &err) != 0)
		result = err.code == 1 ? -2 : -1;
	else if (s.rows != m->rows || s.dense != m->dense * (1 + m->dense_slots))
		result = -2;
	free(s.seen);
	return result;
}

/* Reads all that is in c, by one thread and by several. 0 when it is what make_checkpoint() wrote, -1
 * when it could not be read or -2 when it was read and is something else. */
static inline int check_content(struct ckpt *c, const struct make *m)
{
	int alone = check_once(c, m);
	if (alone == -1 && m->rows < 100)
		return alone; /* thousands of times */
	ckpt_share(c);
	return check_once(c, m) == alone ? alone : -2;
}

#endif

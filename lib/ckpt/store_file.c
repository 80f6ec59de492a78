/*
 * store_file: the store and checkpoints: a part file out, and this part's share of any checkpoint back in,
 * whatever number of servers wrote it.  Writing runs in a forked child; it only reads the store.
 */
#include "ckpt/store_file.h"

#include "base/number.h"
#include "param/store_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_AT_ONCE 4096

static int write_notes(const struct store *s, struct part_writer *w, struct error *err)
{
	char steps[32];

	number_format_u64(s->steps, steps);
	if (part_note(w, "optimizer", opt_name(&s->opt), err) != 0)
		return -1;
	return part_note(w, "steps", steps, err);
}

/* Records hold parameters and slots side by side; the file wants each for itself. */
static int write_rows(const struct store *s, struct part_writer *w, struct error *err)
{
	size_t width = s->width, n = table_count(s->table), sections = 1 + s->row_slots;
	uint32_t *key = malloc(ROWS_AT_ONCE * sizeof *key);
	float *values = malloc(ROWS_AT_ONCE * width * sections * sizeof *values);
	const float *slot[OPT_SLOTS_MAX] = {NULL, NULL};
	int rc = 0;

	if (!key || !values)
		rc = error_set(err, ERROR_OS, "rows", "no memory");
	for (size_t begin = 0; rc == 0 && begin < n; begin += ROWS_AT_ONCE) {
		size_t len = n - begin < ROWS_AT_ONCE ? n - begin : ROWS_AT_ONCE;
		for (size_t i = 0; i < len; i++) {
			const float *row = table_at(s->table, begin + i);
			key[i] = table_key(row);
			for (size_t k = 0; k < sections; k++)
				memcpy(values + (k * ROWS_AT_ONCE + i) * width, row + k * width,
				       width * sizeof *values);
		}
		for (size_t k = 0; k < s->row_slots; k++)
			slot[k] = values + (k + 1) * ROWS_AT_ONCE * width;
		rc = part_rows(w, len, key, values, s->row_slots ? slot : NULL, err);
	}
	free(key);
	free(values);
	return rc;
}

int store_write(const struct store *s, const char *path, uint64_t *bytes, uint64_t *sum,
		struct error *err)
{
	struct part_shape shape = {
		.part = s->part,
		.parts = s->map.parts,
		.dense_begin = s->dense_begin,
		.dense_count = s->dense_count,
		.dense_slots = (uint32_t)s->slots,
		.width = (uint32_t)s->width,
		.row_slots = (uint32_t)s->row_slots,
	};
	struct part_writer *w;

	if (part_create(&w, path, &shape, err) != 0)
		return -1;
	if (write_notes(s, w, err) != 0)
		goto failed;
	for (size_t k = 0; s->dense_count && k <= s->slots; k++) {
		if (part_dense(w, (int)k - 1, s->dense + k * s->dense_stride, s->dense_count,
			       err) != 0)
			goto failed;
	}
	if (s->table && write_rows(s, w, err) != 0)
		goto failed;
	return part_finish(w, bytes, sum, err);
failed:
	part_abandon(w);
	return -1;
}

/* ---- restoring ---- */

struct restore {
	struct store *store;
	int slots; /* the checkpoint's slots are this optimiser's */
	const char *dir;
};

/* Slots are finite, as all that a part file gives, but roots are taken of some. */
static int bad_slot(const struct store *s, const char *dir, size_t k, float value,
		    const char *what, uint64_t number, struct error *err)
{
	return error_set(err, ERROR_DATA, dir, "slot %zu of %s can't be %g (%s %llu)", k,
			 opt_name(&s->opt), (double)value, what, (unsigned long long)number);
}

static int take_row(uint32_t key, const float *values, const float *const *slots, void *arg,
		    struct error *err)
{
	struct restore *r = arg;
	struct store *s = r->store;
	float *row;

	if (map_part_of_key(&s->map, key) != s->part)
		return 0;
	if (store_rows(s, &key, 1, 0, &row, err) != 0)
		return -1;
	memcpy(row, values, s->width * sizeof *row);
	float *slot[OPT_SLOTS_MAX] = {row + s->width, row + 2 * s->width};
	if (!r->slots && s->row_slots)
		opt_init(&s->opt, row, slot, s->width);
	for (size_t k = 0; r->slots && k < s->row_slots; k++) {
		size_t bad = opt_bad_slot(&s->opt, k, slots[k], s->width);
		if (bad < s->width)
			return bad_slot(s, r->dir, k, slots[k][bad], "key", key, err);
		memcpy(slot[k], slots[k], s->width * sizeof *row);
	}
	return 0;
}

static int same_shape(const struct store *s, const struct ckpt *c, struct error *err)
{
	uint64_t dense = layout_dense_count(&s->layout);

	if (ckpt_dense_count(c) != dense)
		return error_set(err, ERROR_CONFIG, ckpt_dir(c),
				 "it has %llu dense parameters, the layout %llu",
				 (unsigned long long)ckpt_dense_count(c),
				 (unsigned long long)dense);
	if (ckpt_width(c) != s->width)
		return error_set(err, ERROR_CONFIG, ckpt_dir(c),
				 "its rows are %u wide, the layout's %zu", ckpt_width(c), s->width);
	return 0;
}

int store_restore(struct store *s, struct ckpt *c, int *slots_lost, struct error *err)
{
	const char *note = ckpt_note(c, "optimizer"), *steps = ckpt_note(c, "steps");
	struct restore r = {s, 0, ckpt_dir(c)};
	struct error ignored;

	if (same_shape(s, c, err) != 0)
		return -1;
	r.slots = note && strcmp(note, opt_name(&s->opt)) == 0 && ckpt_dense_slots(c) == s->slots &&
		  (s->width == 0 || ckpt_row_slots(c) == s->row_slots);
	*slots_lost = !r.slots && s->slots > 0;
	if (s->dense_count &&
	    ckpt_read_dense(c, -1, s->dense_begin, s->dense_count, s->dense, err) != 0)
		return -1;
	float *slot[OPT_SLOTS_MAX] = {s->dense + s->dense_stride, s->dense + 2 * s->dense_stride};
	if (!r.slots && s->dense_count)
		opt_init(&s->opt, s->dense, slot, s->dense_count);
	for (size_t k = 0; r.slots && s->dense_count && k < s->slots; k++) {
		if (ckpt_read_dense(c, (int)k, s->dense_begin, s->dense_count, slot[k], err) != 0)
			return -1;
		size_t bad = opt_bad_slot(&s->opt, k, slot[k], s->dense_count);
		if (bad < s->dense_count)
			return bad_slot(s, r.dir, k, slot[k][bad], "dense parameter",
					s->dense_begin + bad, err);
	}
	s->steps = 0;
	if (r.slots && steps &&
	    number_u64(steps, 0, STORE_STEPS_MAX, &s->steps, "steps", &ignored) != 0)
		return error_set(err, ERROR_DATA, ckpt_dir(c),
				 "steps=%s is no number, or too large", steps);
	if (s->table && ckpt_each_row(c, take_row, &r, err) != 0)
		return -1;
	return 0;
}

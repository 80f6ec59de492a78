/*
 * The store on its way to another process of the same part: the dense range with its slots as it
 * lies in memory, rows with theirs a group at a time.  Both sides have the same layout and
 * optimiser: the record before says so.
 */
#include "param/store_internal.h"

#include "record/record.h"

#include <stdlib.h>
#include <string.h>

#define GROUP_BYTES ((size_t)64 << 10)

static size_t row_floats(const struct store *s)
{
	return s->width * (1 + s->row_slots);
}

static size_t group_rows(const struct store *s)
{
	size_t rows = GROUP_BYTES / ((1 + row_floats(s)) * sizeof(float));

	return rows ? rows : 1;
}

static int send_dense(const struct store *s, struct outlet *o, struct error *err)
{
	char line[256];
	struct record_out r;
	size_t bytes = s->dense_count * sizeof *s->dense;

	for (size_t k = 0; s->dense_count && k <= s->slots; k++) {
		record_begin(&r, line, sizeof line, "dense");
		record_add_u64(&r, "slot", k);
		record_add_u64(&r, "bytes", bytes);
		if (outlet_record(o, &r, err) != 0 ||
		    outlet_put(o, s->dense + k * s->dense_stride, bytes, err) != 0)
			return -1;
	}
	return 0;
}

static int send_rows(const struct store *s, struct outlet *o, struct error *err)
{
	size_t count = store_row_count(s), each = row_floats(s), most = group_rows(s);
	char line[256];
	struct record_out r;

	for (size_t at = 0; at < count;) {
		size_t n = count - at < most ? count - at : most;
		record_begin(&r, line, sizeof line, "rows");
		record_add_u64(&r, "count", n);
		record_add_u64(&r, "bytes", n * (1 + each) * sizeof(float));
		if (outlet_record(o, &r, err) != 0)
			return -1;
		for (size_t end = at + n; at < end; at++) {
			const float *row = table_at(s->table, at);
			uint32_t key = table_key(row);
			if (outlet_put(o, &key, sizeof key, err) != 0 ||
			    outlet_put(o, row, each * sizeof *row, err) != 0)
				return -1;
		}
	}
	return 0;
}

void store_describe(const struct store *s, struct record_out *r)
{
	record_add(r, "optimizer", opt_name(&s->opt));
	record_add_u64(r, "steps", s->steps);
	record_add_u64(r, "dense", s->dense_count);
	record_add_u64(r, "slots", s->slots);
	record_add_u64(r, "width", s->width);
	record_add_u64(r, "row-slots", s->row_slots);
	record_add_u64(r, "rows", store_row_count(s));
}

int store_give(const struct store *s, struct outlet *o, struct error *err)
{
	return send_dense(s, o, err) != 0 ? -1 : send_rows(s, o, err);
}

/* ---- the other side ---- */

static int same(const struct record *r, const char *key, uint64_t mine, struct error *err)
{
	uint64_t theirs;

	if (record_u64(r, key, 0, UINT64_MAX, &theirs, err) != 0)
		return -1;
	if (theirs != mine)
		return error_set(err, ERROR_CONFIG, NULL, "has %s=%llu, we %llu", key,
				 (unsigned long long)theirs, (unsigned long long)mine);
	return 0;
}

int store_expect(struct store *s, const struct record *r, struct error *err)
{
	const char *optimizer;

	if (record_text(r, "optimizer", &optimizer, err) != 0)
		return -1;
	if (strcmp(optimizer, opt_name(&s->opt)) != 0)
		return error_set(err, ERROR_CONFIG, NULL, "has optimizer=%.40s, we %s", optimizer,
				 opt_name(&s->opt));
	if (same(r, "dense", s->dense_count, err) != 0 || same(r, "slots", s->slots, err) != 0 ||
	    same(r, "width", s->width, err) != 0 || same(r, "row-slots", s->row_slots, err) != 0 ||
	    record_u64(r, "steps", 0, STORE_STEPS_MAX, &s->steps, err) != 0 ||
	    record_u64(r, "rows", 0, UINT32_MAX, &s->rows_due, err) != 0)
		return -1;
	s->dense_due = s->dense_count ? s->slots + 1 : 0;
	return 0;
}

/* As of a part file: parameters (slot 0) and slots of the optimiser that can stand in a store. */
static int check(const struct store *s, const float *x, size_t n, uint64_t slot, struct error *err)
{
	size_t bad = slot == 0 ? opt_bad_value(x, n) : opt_bad_slot(&s->opt, slot - 1, x, n);

	if (bad < n)
		return error_set(err, ERROR_DATA, NULL, "%g can't stand in slot %llu of %s",
				 (double)x[bad], (unsigned long long)slot, opt_name(&s->opt));
	return 0;
}

static int take_dense(struct store *s, const struct record *r, struct call *c, struct error *err)
{
	uint64_t slot, bytes = s->dense_count * sizeof *s->dense;

	if (s->dense_due == 0)
		return error_set(err, ERROR_DATA, NULL, "dense parameters that are not due");
	if (record_u64(r, "slot", s->slots + 1 - s->dense_due, s->slots + 1 - s->dense_due, &slot,
		       err) != 0 ||
	    record_u64(r, "bytes", bytes, bytes, &bytes, err) != 0)
		return -1;
	s->dense_due--;
	float *values = s->dense + slot * s->dense_stride;
	if (call_bytes(c, values, (size_t)bytes, err) != 0)
		return -1;
	return check(s, values, s->dense_count, slot, err);
}

static int take_rows(struct store *s, const struct record *r, struct call *c, struct error *err)
{
	size_t each = row_floats(s) * sizeof(float);
	uint64_t count, bytes;

	if (record_u64(r, "count", 1, s->rows_due, &count, err) != 0)
		return -1;
	bytes = count * (sizeof(uint32_t) + each);
	if (record_u64(r, "bytes", bytes, bytes, &bytes, err) != 0)
		return -1;
	char *group = malloc((size_t)bytes);
	uint32_t *key = malloc((size_t)count * sizeof *key);
	float **row = malloc((size_t)count * sizeof *row);
	int rc = group && key && row ? call_bytes(c, group, (size_t)bytes, err)
				     : error_set(err, ERROR_OS, NULL, "no memory for %llu rows",
						 (unsigned long long)count);
	for (uint64_t i = 0; rc == 0 && i < count; i++)
		memcpy(&key[i], group + i * (sizeof *key + each), sizeof *key);
	if (rc == 0)
		rc = store_rows(s, key, (size_t)count, 0, row, err);
	for (uint64_t i = 0; rc == 0 && i < count; i++) {
		memcpy(row[i], group + i * (sizeof *key + each) + sizeof *key, each);
		for (uint64_t k = 0; rc == 0 && k <= s->row_slots; k++)
			rc = check(s, row[i] + k * s->width, s->width, k, err);
	}
	free(group);
	free(key);
	free(row);
	s->rows_due -= count;
	return rc;
}

int store_take(struct store *s, const struct record *r, struct call *c, struct error *err)
{
	return record_is(r, "dense") ? take_dense(s, r, c, err) : take_rows(s, r, c, err);
}

int store_taken(const struct store *s, struct error *err)
{
	if (s->dense_due || s->rows_due)
		return error_set(err, ERROR_DATA, NULL, "%zu dense ranges and %llu rows did not come",
				 s->dense_due, (unsigned long long)s->rows_due);
	return 0;
}

/*
 * layout: see layout.h.  Arithmetic on names and indexes, and its text form; it holds no parameters
 * and must never depend on how many servers there are.
 */
#include "param/layout.h"

#include "base/fs.h"
#include "base/option.h"
#include "record/record.h"

#include <Random123/philox.h>

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The third word of the counter: it says what the index in the first two words counts. */
enum { STREAM_DENSE = 0, STREAM_ROW = 1 };

#define SCALE_MAX 1e6

static const char *const init_names[] = {"zero", "normal", "uniform"};
static const char *const update_names[] = {"optimizer", "add"};
static const char *const export_names[] = {"rows", "dense"};

void layout_start(struct layout *l, uint64_t seed)
{
	memset(l, 0, sizeof *l);
	l->seed = seed;
}

uint64_t layout_dense_count(const struct layout *l)
{
	if (l->count == 0)
		return 0;
	const struct layout_tensor *last = &l->tensor[l->count - 1];
	return last->begin + last->rows * last->cols;
}

const struct layout_tensor *layout_tensor(const struct layout *l, const char *name)
{
	for (size_t i = 0; i < l->count; i++)
		if (strcmp(l->tensor[i].name, name) == 0)
			return &l->tensor[i];
	return NULL;
}

static int layout_check_name(const struct layout *l, const char *name, struct error *err)
{
	if (!option_id_ok(name))
		return error_set(err, ERROR_DATA, NULL, "'%.80s' is no name for a tensor", name);
	if (layout_tensor(l, name) || (l->has_table && strcmp(l->table.name, name) == 0))
		return error_set(err, ERROR_DATA, NULL, "two tensors are called '%s'", name);
	return 0;
}

static int check_scale(const char *name, double scale, struct error *err)
{
	if (!(scale >= 0 && scale <= SCALE_MAX))
		return error_set(err, ERROR_DATA, NULL, "%s: scale %g is not in 0..%g", name, scale,
				 SCALE_MAX);
	return 0;
}

int layout_add_tensor(struct layout *l, const char *name, uint64_t rows, uint64_t cols,
		      enum layout_init init, double scale, enum layout_update update,
		      struct error *err)
{
	uint64_t elements, begin = layout_dense_count(l);
	if (layout_check_name(l, name, err) != 0 || check_scale(name, scale, err) != 0)
		return -1;
	if (l->count == LAYOUT_TENSORS_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d tensors", LAYOUT_TENSORS_MAX);
	if (rows == 0 || cols == 0)
		return error_set(err, ERROR_DATA, NULL, "%s: a tensor without elements", name);
	if (__builtin_mul_overflow(rows, cols, &elements) || elements > LAYOUT_DENSE_MAX - begin)
		return error_set(err, ERROR_DATA, NULL, "%s: more than %llu elements in all", name,
				 LAYOUT_DENSE_MAX);
	struct layout_tensor *t = &l->tensor[l->count++];
	memcpy(t->name, name, strlen(name) + 1);
	t->rows = rows;
	t->cols = cols;
	t->begin = begin;
	t->init = init;
	t->scale = scale;
	t->update = update;
	return 0;
}

int layout_set_table(struct layout *l, const struct layout_table *table, struct error *err)
{
	if (l->has_table)
		return error_set(err, ERROR_DATA, NULL, "more than one table");
	if (layout_check_name(l, table->name, err) != 0 ||
	    check_scale(table->name, table->scale, err) != 0)
		return -1;
	if (table->width == 0 || table->width > LAYOUT_WIDTH_MAX)
		return error_set(err, ERROR_DATA, NULL, "%s: width %u is not in 1..%u", table->name,
				 table->width, LAYOUT_WIDTH_MAX);
	if (table->zero_columns > table->width)
		return error_set(err, ERROR_DATA, NULL, "%s: more zero-columns than columns",
				 table->name);
	if (table->rows > (1ull << 32))
		return error_set(err, ERROR_DATA, NULL, "%s: more rows than there are keys",
				 table->name);
	if (table->export == LAYOUT_EXPORT_DENSE && table->rows == 0)
		return error_set(err, ERROR_DATA, NULL, "%s: export=dense needs rows=",
				 table->name);
	l->table = *table;
	l->has_table = 1;
	return 0;
}

/* ---- initial values ---- */

static philox4x32_ctr_t layout_draw(const struct layout *l, uint32_t stream, uint64_t index,
				    uint32_t block)
{
	philox4x32_ctr_t counter = {
		{(uint32_t)index, (uint32_t)(index >> 32), stream, block}};
	philox4x32_key_t key = {{(uint32_t)l->seed, (uint32_t)(l->seed >> 32)}};
	return philox4x32(counter, key);
}

/* A number in (0, 1): never 0 or 1, so that its logarithm is finite. */
static double layout_unit(uint32_t bits)
{
	return ((double)bits + 0.5) * 0x1p-32;
}

/* Four values from one draw. Two uniform numbers make two normal ones (Box and Muller, 1958). */
static void normal4(philox4x32_ctr_t bits, double scale, float out[4])
{
	for (int i = 0; i < 4; i += 2) {
		double radius = scale * sqrt(-2 * log(layout_unit(bits.v[i])));
		double angle = 2 * M_PI * layout_unit(bits.v[i + 1]);
		out[i] = (float)(radius * cos(angle));
		out[i + 1] = (float)(radius * sin(angle));
	}
}

static void uniform4(philox4x32_ctr_t bits, double scale, float out[4])
{
	for (int i = 0; i < 4; i++)
		out[i] = (float)(scale * (2 * layout_unit(bits.v[i]) - 1));
}

/* Element i of the flat vector is the value i % 4 of draw i / 4. */
static void init_range(const struct layout *l, const struct layout_tensor *t, uint64_t begin,
		       uint64_t count, float *out)
{
	if (t->init == LAYOUT_ZERO || t->scale == 0) {
		memset(out, 0, (size_t)count * sizeof *out);
		return;
	}
	float four[4];
	for (uint64_t i = 0; i < count; i++) {
		uint64_t index = begin + i;
		if (i == 0 || index % 4 == 0) {
			philox4x32_ctr_t bits = layout_draw(l, STREAM_DENSE, index / 4, 0);
			if (t->init == LAYOUT_NORMAL)
				normal4(bits, t->scale, four);
			else
				uniform4(bits, t->scale, four);
		}
		out[i] = four[index % 4];
	}
}

void layout_init_dense(const struct layout *l, uint64_t begin, uint64_t count, float *out)
{
	for (size_t i = 0; i < l->count && count > 0; i++) {
		const struct layout_tensor *t = &l->tensor[i];
		uint64_t end = t->begin + t->rows * t->cols;
		if (begin >= end)
			continue;
		uint64_t here = end - begin < count ? end - begin : count;
		init_range(l, t, begin, here, out);
		begin += here;
		out += here;
		count -= here;
	}
}

void layout_init_row(const struct layout *l, uint32_t key, float *out)
{
	const struct layout_table *t = &l->table;
	float four[4];
	for (uint32_t i = 0; i < t->width; i++) {
		if (i < t->zero_columns || t->scale == 0) {
			out[i] = 0;
			continue;
		}
		if (i == t->zero_columns || i % 4 == 0)
			normal4(layout_draw(l, STREAM_ROW, key, i / 4), t->scale, four);
		out[i] = four[i % 4];
	}
}

/* ---- the text form ---- */

static int take_choice(const struct record *r, const char *key, const char *const *names,
		       unsigned count, unsigned *out, struct error *err)
{
	const char *value = record_get(r, key);
	if (!value)
		return 0;
	for (unsigned i = 0; i < count; i++)
		if (strcmp(value, names[i]) == 0) {
			*out = i;
			return 0;
		}
	return error_set(err, ERROR_DATA, NULL, "%s=: '%.80s' is unknown", key, value);
}

static int take_tensor(struct layout *l, const struct record *r, struct error *err)
{
	const char *name;
	uint64_t rows, cols;
	double scale = 0;
	unsigned init = LAYOUT_ZERO, update = LAYOUT_OPTIMIZER;
	if (record_text(r, "name", &name, err) != 0 ||
	    record_u64(r, "rows", 1, LAYOUT_DENSE_MAX, &rows, err) != 0 ||
	    record_u64(r, "cols", 1, LAYOUT_DENSE_MAX, &cols, err) != 0 ||
	    record_real_opt(r, "scale", 0, SCALE_MAX, &scale, err) != 0 ||
	    take_choice(r, "init", init_names, 3, &init, err) != 0 ||
	    take_choice(r, "update", update_names, 2, &update, err) != 0)
		return -1;
	return layout_add_tensor(l, name, rows, cols, (enum layout_init)init, scale,
				 (enum layout_update)update, err);
}

static int take_table(struct layout *l, const struct record *r, struct error *err)
{
	struct layout_table t = {0};
	const char *name;
	uint64_t width, zero_columns = 0;
	unsigned update = LAYOUT_OPTIMIZER, export = LAYOUT_EXPORT_ROWS;
	if (record_id(r, "name", &name, err) != 0 ||
	    record_u64(r, "width", 1, LAYOUT_WIDTH_MAX, &width, err) != 0 ||
	    record_u64_opt(r, "rows", 0, 1ull << 32, &t.rows, err) != 0 ||
	    record_u64_opt(r, "zero-columns", 0, width, &zero_columns, err) != 0 ||
	    record_real_opt(r, "scale", 0, SCALE_MAX, &t.scale, err) != 0 ||
	    take_choice(r, "update", update_names, 2, &update, err) != 0 ||
	    take_choice(r, "export", export_names, 2, &export, err) != 0)
		return -1;
	memcpy(t.name, name, strlen(name) + 1);
	t.width = (uint32_t)width;
	t.zero_columns = (uint32_t)zero_columns;
	t.update = (enum layout_update)update;
	t.export = (enum layout_export)export;
	return layout_set_table(l, &t, err);
}

/* *started: the layout record has come. Records of an unknown type are ignored, because formats
 * grow. */
static int layout_take_record(struct layout *l, const struct record *r, int *started,
			      struct error *err)
{
	uint64_t version, seed;
	if (record_is(r, "layout")) {
		if (*started)
			return error_set(err, ERROR_DATA, NULL, "a second layout record");
		if (record_u64(r, "version", 1, 1, &version, err) != 0 ||
		    record_u64(r, "seed", 0, UINT64_MAX, &seed, err) != 0)
			return -1;
		layout_start(l, seed);
		*started = 1;
		return 0;
	}
	if (!*started)
		return error_set(err, ERROR_DATA, NULL, "'layout version=1' must come first");
	if (record_is(r, "tensor"))
		return take_tensor(l, r, err);
	if (record_is(r, "table"))
		return take_table(l, r, err);
	return 0;
}

int layout_read(struct layout *l, const char *path, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	struct record_reader *in = record_reader_new(fd, path);
	struct record *r = malloc(sizeof *r);
	int result = -1, started = 0;
	layout_start(l, 0);
	while (in && r) {
		result = record_read(in, r, err);
		if (result == RECORD_ONE && layout_take_record(l, r, &started, err) != 0)
			result = error_wrap(err, record_reader_place(in));
		if (result == RECORD_END && !started)
			result = error_set(err, ERROR_DATA, path, "holds no layout record");
		if (result == RECORD_END || result < 0)
			break;
	}
	if (!in || !r)
		error_set(err, ERROR_OS, path, "out of memory");
	free(r);
	record_reader_free(in);
	close(fd);
	return result;
}

static void put_tensor(struct record_out *o, char *line, const struct layout_tensor *t)
{
	record_begin(o, line, RECORD_LINE_MAX, "tensor");
	record_add(o, "name", t->name);
	record_add_u64(o, "rows", t->rows);
	record_add_u64(o, "cols", t->cols);
	record_add(o, "init", init_names[t->init]);
	record_add_real(o, "scale", t->scale);
	if (t->update != LAYOUT_OPTIMIZER)
		record_add(o, "update", update_names[t->update]);
}

static void put_table(struct record_out *o, char *line, const struct layout_table *t)
{
	record_begin(o, line, RECORD_LINE_MAX, "table");
	record_add(o, "name", t->name);
	record_add_u64(o, "width", t->width);
	record_add_u64(o, "rows", t->rows);
	record_add_u64(o, "zero-columns", t->zero_columns);
	record_add_real(o, "scale", t->scale);
	if (t->update != LAYOUT_OPTIMIZER)
		record_add(o, "update", update_names[t->update]);
	if (t->export != LAYOUT_EXPORT_ROWS)
		record_add(o, "export", export_names[t->export]);
}

int layout_write(const struct layout *l, const char *path, struct error *err)
{
	/* A line that we write is under 512 bytes, as names are ids. */
	char text[(LAYOUT_TENSORS_MAX + 2) * 512], line[RECORD_LINE_MAX];
	struct record_out o;
	size_t len = 0;
	for (size_t i = 0; i < l->count + 2; i++) {
		if (i == 0) {
			record_begin(&o, line, sizeof line, "layout");
			record_add_u64(&o, "version", 1);
			record_add_u64(&o, "seed", l->seed);
		} else if (i <= l->count) {
			put_tensor(&o, line, &l->tensor[i - 1]);
		} else if (l->has_table) {
			put_table(&o, line, &l->table);
		} else {
			break;
		}
		size_t n = record_end(&o, NULL);
		if (n == 0 || n > sizeof text - len)
			return error_set(err, ERROR_SOFTWARE, path, "a layout line is too long");
		memcpy(text + len, line, n);
		len += n;
	}
	return fs_replace_file(path, text, len, err);
}

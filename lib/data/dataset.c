/*
 * dataset: see dataset.h.  Puts files, their indexes and the row parser together.  Must never print
 * or keep anything outside its struct.
 */
#include "data/dataset.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/number.h"
#include "base/search.h"
#include "base/u64map.h"
#include "data/parse.h"
#include "data/rowcache.h"
#include "data/rowfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct file {
	struct rowfile rows;
	struct columns columns;
	struct rowcache_use cache;
	uint64_t first; /* number of its first row */
};

/* Ranges of rows whose numbers differ from their place in the dataset. */
struct span {
	uint64_t begin, length, place;
};

struct dataset {
	const struct schema *schema;
	struct file *file;
	size_t file_count, file_room;
	uint64_t rows;
	struct span *span; /* NULL: numbers are places */
	size_t span_count, span_room;
	uint64_t shift; /* number - place, of what is being read */
	char *index_dir;
	uint64_t bad_rows_max;
	dataset_progress_fn *progress;
	void *progress_arg;
	const char *progress_path;
	struct parser parser;
	int caches; /* are read */
	uint64_t keep_left;
	uint64_t cached_rows;
	size_t current; /* the file that is read; the others rest */
	struct u64map bad; /* numbers of the bad rows found: in a later epoch they do not count
			    * again */
	char last_bad[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
};

/* ---- opening ---- */

static void on_index(uint64_t done, uint64_t total, void *arg)
{
	struct dataset *ds = arg;
	ds->progress("index", ds->progress_path, done, total, ds->progress_arg);
}

static int bind_header(struct dataset *ds, struct file *f, struct error *err)
{
	struct row_ref header = {0};
	if (rowfile_header(&f->rows, &header, err) < 0)
		return -1;
	return columns_bind(&f->columns, &ds->parser, &f->rows.scan, &header, f->rows.path, err);
}

static int dataset_open_file(struct dataset *ds, struct file *f, const char *path,
			     struct error *err)
{
	const struct rowfile_options options = {
		.index_dir = ds->index_dir,
		.making = {.keep = ds->index_dir ? INDEX_KEEP : INDEX_KEEP_IF,
			   .progress = ds->progress ? on_index : NULL,
			   .arg = ds}};
	ds->progress_path = path;
	if (rowfile_open(&f->rows, path, ds->schema->syntax, &options, err) != 0 ||
	    bind_header(ds, f, err) != 0)
		return -1;
	const struct columns *c = &f->columns;
	if (c->image_label && c->image_labels != f->rows.index->rows)
		return error_set(err, ERROR_DATA, path, "holds %llu images, and %.300s %llu labels",
				 (unsigned long long)f->rows.index->rows, c->image_label_path,
				 (unsigned long long)c->image_labels);
	rowfile_rest(&f->rows);
	rowfile_keep(&f->rows, &ds->keep_left);
	f->first = ds->rows;
	ds->rows += f->rows.index->rows;
	return 0;
}

static void file_rest(struct file *f)
{
	rowfile_rest(&f->rows);
	rowcache_use_rest(&f->cache);
}

static void close_file(struct file *f)
{
	rowcache_use_end(&f->cache);
	rowfile_close(&f->rows);
	columns_free(&f->columns);
}

static int dataset_open_all(struct dataset *ds, const struct dataset_options *o, struct error *err)
{
	if (o->path_count == 0 || o->path_count > DATASET_FILES_MAX)
		return error_set(err, ERROR_CONFIG, "DATA", "%zu files (1..%d are possible)",
				 o->path_count, DATASET_FILES_MAX);
	if (o->index_dir && fs_make_dirs(o->index_dir, err) != 0)
		return -1;
	ds->file = calloc(o->path_count, sizeof *ds->file);
	ds->file_room = ds->file ? o->path_count : 0;
	ds->index_dir = o->index_dir ? strdup(o->index_dir) : NULL;
	if (!ds->file || (o->index_dir && !ds->index_dir))
		return error_set(err, ERROR_OS, "dataset", "out of memory");
	if (parser_init(&ds->parser, ds->schema, o->label_optional, err) != 0)
		return -1;
	for (size_t i = 0; i < o->path_count; i++) {
		ds->file_count = i + 1;
		if (dataset_open_file(ds, &ds->file[i], o->paths[i], err) != 0)
			return -1;
	}
	if (ds->rows == 0)
		return error_set(err, ERROR_DATA, o->paths[0], "holds no rows%s",
				 ds->schema->syntax.format == ROW_CSV ? ", only the names of columns" : "");
	return 0;
}

int dataset_open(struct dataset **out, const struct schema *schema,
		 const struct dataset_options *options, struct error *err)
{
	struct dataset *ds = calloc(1, sizeof *ds);
	if (!ds)
		return error_set(err, ERROR_OS, "dataset", "out of memory");
	ds->schema = schema;
	ds->bad_rows_max = options->bad_rows_max;
	ds->caches = options->caches && !options->label_optional;
	ds->keep_left = options->keep_max;
	ds->progress = options->progress;
	ds->progress_arg = options->progress_arg;
	if (dataset_open_all(ds, options, err) != 0) {
		dataset_close(ds);
		return -1;
	}
	*out = ds;
	return 0;
}

void dataset_close(struct dataset *ds)
{
	if (!ds)
		return;
	for (size_t i = 0; i < ds->file_count; i++)
		close_file(&ds->file[i]);
	free(ds->file);
	free(ds->span);
	free(ds->index_dir);
	parser_free(&ds->parser);
	u64map_free(&ds->bad);
	free(ds);
}

uint64_t dataset_rows(const struct dataset *ds)
{
	return ds->rows;
}

uint64_t dataset_bad_rows(const struct dataset *ds)
{
	return ds->bad.count;
}

const char *dataset_last_bad(const struct dataset *ds)
{
	return ds->last_bad;
}

int dataset_bad_rows_option(const char *text, uint64_t *bad_rows_max, struct error *err)
{
	uint64_t n;
	if (strcmp(text, "stop") == 0) {
		*bad_rows_max = 0;
		return 0;
	}
	if (strncmp(text, "skip:", 5) != 0 ||
	    number_u64_span(text + 5, strlen(text + 5), &n) != 0 || n == 0)
		return error_set(err, ERROR_CONFIG, "BAD_ROWS",
				 "'%.80s' is neither 'stop' nor 'skip:N' with N from 1", text);
	*bad_rows_max = n;
	return 0;
}

/* ---- numbers ---- */

static const struct span *span_of(const struct dataset *ds, uint64_t row)
{
	for (size_t i = 0; i < ds->span_count; i++)
		if (row >= ds->span[i].begin && row - ds->span[i].begin < ds->span[i].length)
			return &ds->span[i];
	return NULL;
}

uint64_t dataset_has(const struct dataset *ds, uint64_t begin, uint64_t length)
{
	uint64_t has = 0;
	if (!ds->span)
		has = begin < ds->rows ? ds->rows - begin : 0;
	for (const struct span *s; ds->span && has < length && (s = span_of(ds, begin + has));)
		has = s->begin + s->length - begin;
	return has < length ? has : length;
}

static int add_span(struct dataset *ds, struct span span, struct error *err)
{
	if (GROW(ds->span, ds->span_room, ds->span_count + 1) != 0)
		return error_set(err, ERROR_OS, "dataset", "out of memory");
	ds->span[ds->span_count++] = span;
	return 0;
}

int dataset_number(struct dataset *ds, uint64_t begin, struct error *err)
{
	if (ds->span) {
		ds->span[0].begin = begin;
		return 0;
	}
	return add_span(ds, (struct span){.begin = begin, .length = ds->rows}, err);
}

int dataset_add(struct dataset *ds, const char *path, uint64_t begin, struct error *err)
{
	uint64_t place = ds->rows;
	if (ds->file_count == DATASET_FILES_MAX)
		return error_set(err, ERROR_CONFIG, path, "is one file too many: %d are possible",
				 DATASET_FILES_MAX);
	file_rest(&ds->file[ds->current]); /* the files move */
	if (GROW(ds->file, ds->file_room, ds->file_count + 1) != 0)
		return error_set(err, ERROR_OS, "dataset", "out of memory");
	struct file *f = &ds->file[ds->file_count];
	*f = (struct file){0};
	if (dataset_open_file(ds, f, path, err) != 0) {
		close_file(f); /* the caller may add it again once it can be read */
		return -1;
	}
	ds->file_count++;
	return add_span(ds, (struct span){begin, ds->rows - place, place}, err);
}

struct row_syntax dataset_syntax(const struct dataset *ds)
{
	return ds->schema->syntax;
}

uint64_t dataset_file_rows(const struct dataset *ds, size_t file)
{
	return ds->file[file].rows.index->rows;
}

uint64_t dataset_text_bytes(const struct dataset *ds)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < ds->file_count; i++)
		bytes += ds->file[i].rows.index->text_bytes;
	return bytes;
}

uint64_t dataset_cached_rows(const struct dataset *ds)
{
	return ds->cached_rows;
}

/* ---- reading ---- */

/* The file that holds the row: the last one that begins at or before it and is not empty. */
static size_t file_of(const struct dataset *ds, uint64_t row)
{
	return search_last(&ds->file->first, sizeof *ds->file, ds->file_count, row);
}

/* Makes the file that holds the row the current one. */
static struct file *dataset_enter(struct dataset *ds, uint64_t row)
{
	size_t i = file_of(ds, row);
	if (i != ds->current)
		file_rest(&ds->file[ds->current]);
	ds->current = i;
	return &ds->file[i];
}

/* Makes `row` the next of its file. */
static int go_to(struct dataset *ds, uint64_t row, struct error *err)
{
	struct file *f = dataset_enter(ds, row);
	return rowfile_go_to(&f->rows, row - f->first, err);
}

/* Handles a bad row: counts it and leaves it out, or returns the error that ends reading. */
static int dataset_take_bad(struct dataset *ds, const struct row_ref *ref, size_t at,
			    uint64_t number, struct error *why, struct error *err)
{
	if (u64map_get(&ds->bad, number))
		return 0;
	parse_place(why->place, sizeof why->place, ds->file[ds->current].rows.path, ref, at);
	error_format(why, ds->last_bad, sizeof ds->last_bad);
	if (ds->bad.count >= ds->bad_rows_max) {
		char text[ERROR_TEXT_MAX];
		snprintf(text, sizeof text, "%s", why->text);
		/* Wrong labels mean a wrong POSITIVE, not bad rows. */
		if (ds->bad_rows_max > 0)
			snprintf(text, sizeof text, "%.400s (more than %llu bad rows)", why->text,
				 (unsigned long long)ds->bad_rows_max);
		else if (strncmp(why->text, "label ", 6) != 0)
			snprintf(text, sizeof text, "%.400s; BAD_ROWS=skip:N leaves such rows out",
				 why->text);
		memcpy(why->text, text, sizeof text);
		if (err)
			*err = *why;
		return -1;
	}
	if (u64map_reserve(&ds->bad, ds->bad.count + 1) != 0)
		return error_set(err, ERROR_OS, "dataset", "out of memory");
	u64map_put(&ds->bad, number, ds);
	return 0;
}

/* Rows up to `end`, all in the current file. */
static int dataset_read_rows(struct dataset *ds, uint64_t end, struct rows *rows, struct error *err)
{
	struct file *f = &ds->file[ds->current];
	struct row_ref ref;
	struct error why;
	while (f->first + f->rows.at < end) {
		size_t at;
		uint64_t number = f->first + f->rows.at + ds->shift;
		if (rowfile_next(&f->rows, &ref, err) != 0)
			return -1;
		int result = parse_row(&ds->parser, &f->columns, &f->rows.scan, &ref, number, rows,
				       &at, &why);
		if (result == PARSE_OK)
			continue;
		if (result < 0) {
			if (err)
				*err = why;
			return -1;
		}
		if (dataset_take_bad(ds, &ref, at, number, &why, err) != 0)
			return -1;
	}
	return 0;
}

/* From the cache of the current file: 1; 0: *length rows have to be read from the text. Labels are
 * counted and columns are fitted by what the text says. */
static int dataset_read_cached(struct dataset *ds, uint64_t begin, uint64_t *length, struct rows *rows)
{
	struct file *f = &ds->file[ds->current];
	if (!ds->caches || ds->parser.fit || ds->parser.classes || ds->parser.labels ||
	    !rowcache_use(&f->cache, f->rows.path, ds->index_dir, ds->schema, f->rows.index,
			  begin - f->first, length, begin + ds->shift, rows))
		return 0;
	ds->cached_rows += *length;
	return 1;
}

static int dataset_read_all(struct dataset *ds, uint64_t begin, uint64_t length, struct rows *rows,
			    struct error *err)
{
	for (uint64_t end = begin + length, take; begin < end; begin += take) {
		const struct file *f = dataset_enter(ds, begin);
		uint64_t stop = f->first + f->rows.index->rows;
		take = (stop < end ? stop : end) - begin;
		if (!dataset_read_cached(ds, begin, &take, rows) &&
		    (go_to(ds, begin, err) != 0 ||
		     dataset_read_rows(ds, begin + take, rows, err) != 0))
			return -1;
	}
	return 0;
}

/* The same, by numbers; they are converted to places span by span. */
static int dataset_read_spans(struct dataset *ds, uint64_t begin, uint64_t length,
			      struct rows *rows, struct error *err)
{
	while (length > 0) {
		const struct span *s = span_of(ds, begin);
		uint64_t here = s->begin + s->length - begin;
		if (here > length)
			here = length;
		ds->shift = s->begin - s->place;
		if (dataset_read_all(ds, begin - ds->shift, here, rows, err) != 0)
			return -1;
		begin += here;
		length -= here;
	}
	return 0;
}

int dataset_read(struct dataset *ds, uint64_t begin, uint64_t length, struct rows *rows,
		 struct error *err)
{
	rows_begin(rows, ds->schema);
	if (dataset_has(ds, begin, length) < length)
		return error_set(err, ERROR_DATA, ds->file[0].rows.path,
				 "rows from %llu on, %llu of them, are not within its %llu rows",
				 (unsigned long long)begin, (unsigned long long)length,
				 (unsigned long long)ds->rows);
	if ((ds->span ? dataset_read_spans(ds, begin, length, rows, err)
		      : dataset_read_all(ds, begin, length, rows, err)) == 0)
		return 0;
	file_rest(&ds->file[ds->current]);
	return -1;
}

void dataset_place(struct dataset *ds, uint64_t row, char *out, size_t max)
{
	const struct span *s = ds->span ? span_of(ds, row) : NULL;
	uint64_t place = s ? row - s->begin + s->place : row;
	struct row_ref ref;
	if (dataset_has(ds, row, 1) < 1) {
		snprintf(out, max, "row %llu", (unsigned long long)row);
		return;
	}
	snprintf(out, max, "%s", ds->file[file_of(ds, place)].rows.path);
	if (go_to(ds, place, NULL) == 0 &&
	    rowfile_next(&ds->file[ds->current].rows, &ref, NULL) == 0)
		snprintf(out, max, "%s:%llu", ds->file[ds->current].rows.path,
			 (unsigned long long)ref.line);
	rowfile_rest(&ds->file[ds->current].rows);
}

void dataset_count_labels(struct dataset *ds, struct labels *labels)
{
	ds->parser.labels = labels;
}

static void label_place(uint64_t row, char *out, size_t max, void *arg)
{
	char place[ERROR_PLACE_MAX];
	dataset_place(arg, row, place, sizeof place);
	snprintf(out, max, "%s", fs_basename(place));
}

void dataset_describe_labels(struct dataset *ds, const struct labels *labels, char *out, size_t max)
{
	labels_describe(labels, label_place, ds, out, max);
}

/* ---- fitting ---- */

#define FIT_ROWS 4096

static double fit_deviation(const struct fit_column *f)
{
	double deviation = f->count ? sqrt(f->squares / (double)f->count) : 0;
	return deviation > 0 ? deviation : 1;
}

int schema_fit(struct schema *s, struct dataset *ds, struct error *err)
{
	struct rows rows = {0};
	struct fit_column *fit = calloc(s->dense_count + 1, sizeof *fit);
	struct classes classes = {0};
	if (!fit)
		return error_set(err, ERROR_OS, "fit", "out of memory");
	int scales = schema_scales(s), finds = s->labels == SCHEMA_CLASS && s->classes.count == 0;
	ds->parser.fit = scales ? fit : NULL;
	ds->parser.classes = finds ? &classes : NULL;
	int result = 0;
	for (uint64_t begin = 0; result == 0 && begin < ds->rows; begin += FIT_ROWS) {
		uint64_t left = ds->rows - begin;
		if (ds->progress && begin % (64 * FIT_ROWS) == 0)
			ds->progress("fit", ds->file[file_of(ds, begin)].rows.path, begin, ds->rows,
				     ds->progress_arg);
		result = dataset_read(ds, begin, left < FIT_ROWS ? left : FIT_ROWS, &rows, err);
	}
	ds->parser.fit = NULL;
	ds->parser.classes = NULL;
	if (result == 0 && finds) {
		s->classes = classes;
		classes = (struct classes){0};
	}
	if (result == 0) {
		for (size_t i = 0; scales && i < s->dense_count; i++) {
			s->dense[i].mean = fit[i].mean;
			s->dense[i].deviation = fit_deviation(&fit[i]);
		}
		if (scales && s->labels == SCHEMA_REAL) {
			s->label_mean = fit[s->dense_count].mean;
			s->label_deviation = fit_deviation(&fit[s->dense_count]);
		}
		s->fitted |= scales;
		parser_refresh(&ds->parser);
		if (ds->progress)
			ds->progress("fit", ds->file[ds->file_count - 1].rows.path, ds->rows,
				     ds->rows, ds->progress_arg);
	}
	rows_free(&rows);
	classes_free(&classes);
	free(fit);
	return result;
}

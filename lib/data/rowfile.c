/* rowfile: see rowfile.h. */
#include "data/rowfile.h"

#include "base/grow.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* guess: of any format. */
static int rowfile_look_at(const char *path, int guess, struct row_syntax *syntax, struct error *err)
{
	struct source *source;
	struct rowscan scan;
	if (source_open(&source, path, err) != 0)
		return -1;
	int result = rowscan_init(&scan, guess ? row_syntax(ROW_LINES) : *syntax, err);
	if (result == 0)
		result = rowscan_start(&scan, source, 1, err);
	if (result == 0 && guess)
		result = rowscan_guess(&scan, err);
	*syntax = scan.syntax;
	rowscan_free(&scan);
	source_close(source);
	return result;
}

int rowfile_look(const char *path, struct row_syntax *syntax, struct error *err)
{
	return rowfile_look_at(path, 0, syntax, err);
}

int rowfile_guess(const char *path, const char *index, struct row_syntax *syntax,
		  struct error *err)
{
	struct index *old;
	if (index_read(&old, index, 0, NULL) != 0)
		return rowfile_look_at(path, 1, syntax, err);
	*syntax = old->syntax;
	index_free(old);
	return 0;
}

int rowfile_open(struct rowfile *f, const char *path, struct row_syntax syntax,
		 const struct rowfile_options *o, struct error *err)
{
	char name[PATH_MAX];
	*f = (struct rowfile){.path = strdup(path)};
	if (!f->path)
		return error_set(err, ERROR_OS, path, "out of memory");
	if (!o->index_path && index_path(name, sizeof name, path, o->index_dir, err) != 0)
		return -1;
	if (source_open(&f->source, path, err) != 0)
		return -1;
	if (syntax.format != ROW_LINES && source_check_text(f->source, err) != 0) {
		rowfile_rest(f);
		return -1;
	}
	int result = index_open(&f->index, f->source, syntax, o->index_path ? o->index_path : name,
				&o->making, err);
	rowfile_rest(f);
	return result;
}

void rowfile_close(struct rowfile *f)
{
	rowfile_rest(f);
	index_free(f->index);
	free(f->path);
	free(f->kept);
	*f = (struct rowfile){0};
}

void rowfile_rest(struct rowfile *f)
{
	rowscan_free(&f->scan);
	source_close(f->source);
	f->source = NULL;
}

/* At the start of the file, anew. */
static int rowfile_start(struct rowfile *f, struct error *err)
{
	rowfile_rest(f);
	f->aside = 1;
	if (source_open(&f->source, f->path, err) != 0)
		return -1;
	return rowscan_init(&f->scan, f->index->syntax, err);
}

int rowfile_header(struct rowfile *f, struct row_ref *row, struct error *err)
{
	if (f->index->syntax.format != ROW_CSV)
		return 0;
	int got = rowfile_start(f, err) == 0 ? rowscan_start(&f->scan, f->source, 1, err) : -1;
	if (got == 0)
		got = rowscan_next(&f->scan, row, 0, err);
	if (got == ROWSCAN_END)
		return error_set(err, ERROR_DATA, f->path, "is empty: no header line");
	return got == ROWSCAN_ROW ? 1 : -1;
}

/* ---- rows by number ---- */

static size_t image_bytes(const struct rowfile *f)
{
	return row_label_bytes(f->index->syntax) + f->index->syntax.pixels;
}

void rowfile_keep(struct rowfile *f, uint64_t *left)
{
	const struct index *ix = f->index;
	uint64_t bytes;
	if (ix->packing == SOURCE_PLAIN || !row_is_image(ix->syntax) || ix->rows == 0 ||
	    __builtin_mul_overflow(ix->rows, image_bytes(f) + 1, &bytes) || bytes > *left)
		return;
	/* Memory is taken from the system only where rows are written. */
	f->kept = calloc(ix->rows, image_bytes(f) + 1);
	*left -= f->kept ? bytes : 0;
}

/* NULL: rows are not kept. The first byte says whether this one is there. */
static char *kept_row(const struct rowfile *f, uint64_t row)
{
	return f->kept && row < f->index->rows ? f->kept + row * (image_bytes(f) + 1) : NULL;
}

static int read_row(struct rowfile *f, struct row_ref *row, struct error *err)
{
	int got = rowscan_next(&f->scan, row, 0, err);
	if (got == ROWSCAN_END)
		return error_set(err, ERROR_DATA, f->path,
				 "holds fewer rows than its index: was it changed?");
	if (got != ROWSCAN_ROW)
		return -1;
	char *kept = kept_row(f, f->at);
	if (kept && row->len == image_bytes(f)) {
		memcpy(kept + 1, row->data, row->len);
		*kept = 1;
	}
	f->at++;
	return 0;
}

static int rowfile_seek(struct rowfile *f, uint64_t row, struct error *err)
{
	struct row_ref passed;
	uint64_t every = f->index->every;
	if ((f->aside || f->at > row || f->at / every != row / every) &&
	    index_seek(f->index, f->source, &f->scan, row, &f->at, err) != 0)
		return -1;
	f->aside = 0;
	while (f->at < row)
		if (read_row(f, &passed, err) != 0)
			return -1;
	return 0;
}

int rowfile_next(struct rowfile *f, struct row_ref *row, struct error *err)
{
	const char *kept = kept_row(f, f->at);
	if (kept && *kept) {
		size_t bytes = image_bytes(f);
		*row = (struct row_ref){.data = kept + 1,
					.len = bytes,
					.raw_len = bytes,
					.offset = f->index->place->offset + f->at * bytes,
					.line = f->at + 1};
		f->at++;
		f->aside = 1;
		return 0;
	}
	if (f->aside && rowfile_seek(f, f->at, err) != 0)
		return -1;
	return read_row(f, row, err);
}

int rowfile_go_to(struct rowfile *f, uint64_t row, struct error *err)
{
	if (!f->source && rowfile_start(f, err) != 0)
		return -1;
	if (source_check_unchanged(f->source, &f->index->identity, err) != 0)
		return -1;
	const char *kept = kept_row(f, row);
	if (!kept || !*kept)
		return rowfile_seek(f, row, err);
	f->aside |= f->at != row;
	f->at = row;
	return 0;
}

/* ---- text ---- */

static int rowfile_append(struct rowfile_text *out, const char *data, size_t len, struct error *err)
{
	if (GROW(out->data, out->room, out->len + len) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(out->data + out->len, data, len);
	out->len += len;
	return 0;
}

/* Writes the row unchanged, but always with a newline. */
static int append_row(struct rowfile_text *out, const struct row_ref *row, struct error *err)
{
	if (rowfile_append(out, row->data, row->raw_len, err) != 0)
		return -1;
	return row->raw_len > row->len ? 0 : rowfile_append(out, "\n", 1, err);
}

int rowfile_add_header(struct rowfile *f, struct rowfile_text *out, struct error *err)
{
	struct row_ref row;
	int got = rowfile_header(f, &row, err);
	return got == 1 ? append_row(out, &row, err) : got;
}

int rowfile_add_rows(struct rowfile *f, uint64_t begin, uint64_t length, size_t bytes_max,
		     struct rowfile_text *out, uint64_t *count, struct error *err)
{
	struct row_ref row;
	*count = 0;
	if (begin >= f->index->rows || length == 0)
		return 0;
	if (length > f->index->rows - begin)
		length = f->index->rows - begin;
	int result = rowfile_go_to(f, begin, err);
	while (result == 0 && *count < length && (*count == 0 || out->len < bytes_max)) {
		result = rowfile_next(f, &row, err) == 0 ? append_row(out, &row, err) : -1;
		*count += result == 0;
	}
	if (result != 0)
		rowfile_rest(f);
	return result;
}

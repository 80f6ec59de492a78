/* raw: see raw.h. */
#include "data/raw.h"

#include "base/grow.h"
#include "data/index.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct raw {
	struct source *source;
	struct index *index;
	struct rowscan scan;
	uint64_t at; /* number of the row that scan gives next; UINT64_MAX: not known */
};

static int find_index(struct raw *r, const char *path, enum row_format format, const char *dir,
		      struct error *err)
{
	char name[PATH_MAX];
	if (index_path(name, sizeof name, path, dir, err) != 0)
		return -1;
	if (index_read(&r->index, name, 0, NULL) == 0) {
		int is = r->index->format == format ? index_is_of(r->index, r->source, err) : 0;
		if (is != 0)
			return is < 0 ? -1 : 0;
		index_free(r->index);
		r->index = NULL;
	}
	return index_build(&r->index, r->source, format, NULL, NULL, err);
}

int raw_open(struct raw **out, const char *path, enum row_format format, const char *index_dir,
	     struct error *err)
{
	struct raw *r = calloc(1, sizeof *r);
	if (!r)
		return error_set(err, ERROR_OS, path, "out of memory");
	r->at = UINT64_MAX;
	int result = source_open(&r->source, path, err);
	if (result == 0)
		result = find_index(r, path, format, index_dir, err);
	source_close(r->source); /* what follows begins at its start, or where the index says */
	r->source = NULL;
	if (result == 0)
		result = source_open(&r->source, path, err);
	if (result == 0)
		result = rowscan_init(&r->scan, format, err);
	if (result != 0) {
		raw_close(r);
		return -1;
	}
	*out = r;
	return 0;
}

void raw_close(struct raw *r)
{
	if (!r)
		return;
	rowscan_free(&r->scan);
	index_free(r->index);
	source_close(r->source);
	free(r);
}

uint64_t raw_rows(const struct raw *r)
{
	return r->index->rows;
}

static int append(struct raw_text *out, const char *data, size_t len, struct error *err)
{
	if (GROW(out->data, out->room, out->len + len) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(out->data + out->len, data, len);
	out->len += len;
	return 0;
}

/* As it stands, but never without its newline. */
static int append_row(struct raw_text *out, const struct row_ref *row, struct error *err)
{
	if (append(out, row->data, row->raw_len, err) != 0)
		return -1;
	return row->raw_len > row->len ? 0 : append(out, "\n", 1, err);
}

int raw_header(struct raw *r, struct raw_text *out, struct error *err)
{
	struct row_ref row;
	if (r->index->format != ROW_CSV)
		return 0;
	struct error why;
	char *path = strdup(source_name(r->source));
	struct source *source = NULL;
	int result = path ? source_open(&source, path, err)
			  : error_set(err, ERROR_OS, NULL, "out of memory");
	r->at = UINT64_MAX;
	if (result == 0)
		result = rowscan_start(&r->scan, source, 1, err);
	if (result == 0) {
		int got = rowscan_next(&r->scan, &row, 0, &why);
		result = got == ROWSCAN_ROW ? append_row(out, &row, err)
			 : got < 0          ? -1
					    : error_set(&why, ERROR_DATA, path, "is empty");
		if (result != 0 && err && got != ROWSCAN_ROW)
			*err = why;
	}
	source_close(source);
	free(path);
	return result;
}

static int go_to(struct raw *r, uint64_t row, struct error *err)
{
	struct row_ref ref;
	if (source_check_unchanged(r->source, &r->index->identity, err) != 0)
		return -1;
	if (r->at != row && index_seek(r->index, r->source, &r->scan, row, &r->at, err) != 0)
		return -1;
	while (r->at < row) {
		int got = rowscan_next(&r->scan, &ref, 0, err);
		if (got != ROWSCAN_ROW)
			return got < 0 ? -1
				       : error_set(err, ERROR_DATA, source_name(r->source),
						   "holds fewer rows than its index");
		r->at++;
	}
	return 0;
}

int raw_read(struct raw *r, uint64_t begin, uint64_t length, size_t bytes_max,
	     struct raw_text *out, uint64_t *count, struct error *err)
{
	struct row_ref row;
	*count = 0;
	if (begin >= r->index->rows || length == 0)
		return 0;
	if (length > r->index->rows - begin)
		length = r->index->rows - begin;
	if (go_to(r, begin, err) != 0) {
		r->at = UINT64_MAX;
		return -1;
	}
	while (*count < length && (*count == 0 || out->len < bytes_max)) {
		int got = rowscan_next(&r->scan, &row, 0, err);
		if (got == ROWSCAN_ROW && append_row(out, &row, err) == 0) {
			r->at++;
			++*count;
			continue;
		}
		r->at = UINT64_MAX;
		return got == ROWSCAN_END ? error_set(err, ERROR_DATA, source_name(r->source),
						      "holds fewer rows than its index")
					  : -1;
	}
	return 0;
}

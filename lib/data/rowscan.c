/*
 * rowscan: see rowscan.h.  Finds rows in a stream of bytes for the index, for --cat and for the
 * readers alike, so that all three count the same.  Must never judge what a row holds.
 *
 * libcsv only sees lines with a quote in them (and what follows inside the quotes): a line without
 * a quote that begins a row ends it, in libcsv's own rules.
 */
#include "data/rowscan.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 262144

static int rowscan_is_blank(int c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static int is_any_blank(unsigned char c)
{
	return rowscan_is_blank(c);
}

/* The blanks for libcsv, which asks a function for each byte. */
static int is_blank_but_tab(unsigned char c)
{
	return c == ' ' || c == '\r';
}

static int is_blank_but_space(unsigned char c)
{
	return c == '\t' || c == '\r';
}

static int is_newline(unsigned char c)
{
	return c == '\n';
}

/* ---- libcsv ---- */

static void on_field(void *data, size_t len, void *arg)
{
	struct rowscan_fields *f = arg;
	if (GROW(f->bytes, f->bytes_room, f->bytes_len + len + ROWSCAN_SLACK) != 0 ||
	    GROW(f->end, f->room, f->count + 1) != 0) {
		f->failed = 1;
		return;
	}
	if (len)
		memcpy(f->bytes + f->bytes_len, data, len);
	f->bytes_len += len;
	f->end[f->count++] = f->bytes_len;
}

static void rowscan_on_row(int c, void *arg)
{
	(void)c;
	((struct rowscan_fields *)arg)->row_done = 1;
}

static int rowscan_no_memory(struct rowscan *r, struct error *err)
{
	return error_set(err, ERROR_OS, r->source ? source_name(r->source) : "rows",
			 "out of memory");
}

static int bad_row(struct rowscan *r, struct error *err, const char *why)
{
	char place[ERROR_PLACE_MAX];
	snprintf(place, sizeof place, "%.480s:%llu", source_name(r->source),
		 (unsigned long long)r->line);
	return error_set(err, ERROR_DATA, place, "%s", why);
}

/* A line (or the rest of the text) through libcsv; 1 when it ended a row. */
static int feed_csv(struct rowscan *r, size_t from, size_t to, int last, struct error *err)
{
	struct rowscan_fields *f = &r->fields;
	if (!r->row_open) {
		f->count = f->bytes_len = 0;
		f->row_done = 0;
	}
	size_t n = csv_parse(&r->csv, r->buffer + from, to - from, on_field, rowscan_on_row, f);
	if (n != to - from || f->failed)
		return rowscan_no_memory(r, err);
	if (last && !f->row_done) {
		/* Only the end is checked strictly, for a quote left open. */
		(void)csv_set_opts(&r->csv, CSV_STRICT | CSV_STRICT_FINI);
		if (csv_fini(&r->csv, on_field, rowscan_on_row, f) != 0)
			return bad_row(r, err, "a quote is never closed");
	}
	if (f->failed)
		return rowscan_no_memory(r, err);
	return f->row_done;
}

int rowscan_fields(struct rowscan *r, const struct row_ref *row, const struct row_field **field,
		   size_t *count, struct error *err)
{
	struct rowscan_fields *f = &r->fields;
	size_t n = 0;
	if (row->quoted) {
		if (GROW(f->field, f->field_room, f->count) != 0)
			return rowscan_no_memory(r, err);
		for (size_t from = 0; n < f->count; n++) {
			f->field[n] = (struct row_field){f->bytes + from, f->end[n] - from};
			from = f->end[n];
		}
	} else {
		const char *p = row->data, *end = row->data + row->len;
		for (;;) {
			const char *next = memchr(p, row->separator, (size_t)(end - p));
			const char *to = next ? next : end;
			if (GROW(f->field, f->field_room, n + 1) != 0)
				return rowscan_no_memory(r, err);
			const char *from = p, *stop = to;
			while (from < stop && rowscan_is_blank(*from))
				from++;
			while (stop > from && rowscan_is_blank(stop[-1]))
				stop--;
			f->field[n++] = (struct row_field){from, (size_t)(stop - from)};
			if (!next)
				break;
			p = next + 1;
		}
	}
	*field = f->field;
	*count = n;
	return 0;
}

size_t rowscan_field_at(const struct row_ref *row, size_t index)
{
	size_t at = 0, field = 0;
	int quoted = 0, begun = 0;
	for (size_t i = 0; i < row->len && field < index; i++) {
		char c = row->data[i];
		if (quoted) {
			/* A doubled quote closes and opens again, which comes to the same. */
			quoted = c != '"';
		} else if (c == '"') {
			quoted = !begun || (i > 0 && row->data[i - 1] == '"');
			begun = 1;
		} else if (c == row->separator) {
			field++;
			at = i + 1;
			begun = 0;
		} else if (!rowscan_is_blank(c)) {
			begun = 1;
		}
	}
	return at;
}

/* ---- lines ---- */

int rowscan_init(struct rowscan *r, struct row_syntax syntax, struct error *err)
{
	*r = (struct rowscan){.syntax = syntax, .room = 2 * CHUNK};
	r->buffer = malloc(r->room + ROWSCAN_SLACK);
	if (!r->buffer)
		return rowscan_no_memory(r, err);
	memset(r->buffer + r->room, 0, ROWSCAN_SLACK);
	return 0;
}

static int begin_csv(struct rowscan *r, struct error *err)
{
	if (r->csv_ready)
		csv_free(&r->csv);
	r->csv_ready = csv_init(&r->csv, 0) == 0;
	if (!r->csv_ready)
		return rowscan_no_memory(r, err);
	char separator = r->syntax.separator;
	csv_set_delim(&r->csv, (unsigned char)separator);
	csv_set_space_func(&r->csv, separator == '\t'  ? is_blank_but_tab
				    : separator == ' ' ? is_blank_but_space
						       : is_any_blank);
	csv_set_term_func(&r->csv, is_newline);
	r->fields.failed = 0;
	return 0;
}

void rowscan_free(struct rowscan *r)
{
	if (r->csv_ready)
		csv_free(&r->csv);
	free(r->buffer);
	free(r->fields.bytes);
	free(r->fields.end);
	free(r->fields.field);
	*r = (struct rowscan){0};
}

/* More bytes behind those in the buffer. */
static int fill_buffer(struct rowscan *r, struct error *err)
{
	if (r->room - r->end < CHUNK / 2 && r->begin > 0) {
		memmove(r->buffer, r->buffer + r->begin, r->end - r->begin);
		r->scan -= r->begin;
		r->end -= r->begin;
		r->begin = 0;
	}
	if (r->room - r->end < CHUNK / 2) {
		char *larger = realloc(r->buffer, r->room + CHUNK + ROWSCAN_SLACK);
		if (!larger)
			return rowscan_no_memory(r, err);
		r->buffer = larger;
		r->room += CHUNK;
		memset(r->buffer + r->room, 0, ROWSCAN_SLACK);
	}
	size_t got, max = r->room - r->end < CHUNK ? r->room - r->end : CHUNK;
	if (source_read(r->source, r->buffer + r->end, max, &got, err) != 0)
		return -1;
	r->end += got;
	r->eof = got == 0;
	return 0;
}

static void rowscan_give(struct rowscan *r, struct row_ref *row, size_t to)
{
	size_t raw = to - r->begin, len = raw;
	const char *data = r->buffer + r->begin;
	if (len && data[len - 1] == '\n')
		len--;
	if (len && data[len - 1] == '\r')
		len--;
	row->data = data;
	row->len = len;
	row->raw_len = raw;
	row->offset = r->offset;
	row->line = r->line;
	row->separator = r->syntax.separator;
}

/* The row (or the line that is not a row) ends at `to`, after `lines` newlines. */
static void rowscan_pass(struct rowscan *r, size_t to, uint64_t lines)
{
	r->offset += to - r->begin;
	r->begin = r->scan = to;
	r->line += lines;
	r->lines_in_row = 0;
	r->row_open = 0;
}

/* ---- images ---- */

static int image_header(struct rowscan *r, struct error *err)
{
	struct row_idx idx;
	const char *name = source_name(r->source);
	while (r->end - r->begin < ROW_IDX_HEADER_MAX && !r->eof)
		if (fill_buffer(r, err) != 0)
			return -1;
	if (r->end == r->begin)
		return error_set(err, ERROR_DATA, name, "is empty: no idx header");
	if (row_idx_header((const unsigned char *)r->buffer + r->begin, r->end - r->begin, &idx) != 0)
		return error_set(err, ERROR_DATA, name,
				 "is no idx file of bytes: it does not begin with 0, 0, 8, the number of "
				 "its sizes (1 to 4), and these");
	if (idx.sizes == 1)
		return error_set(err, ERROR_DATA, name,
				 "holds labels, not images; name the file of images, and its labels "
				 "are found");
	if (idx.pixels < 1 || idx.pixels > ROW_PIXELS_MAX)
		return error_set(err, ERROR_DATA, name, "its images have %llu bytes, not 1 to %d",
				 (unsigned long long)idx.pixels, ROW_PIXELS_MAX);
	if (r->syntax.pixels > 0 && r->syntax.pixels != idx.pixels)
		return error_set(err, ERROR_DATA, name, "its images have %llu bytes, not %u",
				 (unsigned long long)idx.pixels, r->syntax.pixels);
	r->syntax.pixels = (uint32_t)idx.pixels;
	r->begin = r->scan = idx.bytes;
	r->offset = idx.bytes;
	r->rows_left = idx.rows;
	return 0;
}

static int begin_images(struct rowscan *r, struct error *err)
{
	r->rows_left = UINT64_MAX;
	if (r->syntax.format == ROW_IDX && r->offset == 0 && image_header(r, err) != 0)
		return -1;
	r->row_bytes = row_label_bytes(r->syntax) + r->syntax.pixels;
	return 0;
}

static int next_image(struct rowscan *r, struct row_ref *row, int nowait, struct error *err)
{
	while (r->end - r->begin < r->row_bytes && !r->eof) {
		if (nowait && !source_ready(r->source))
			return ROWSCAN_WAIT;
		if (fill_buffer(r, err) != 0)
			return -1;
	}
	if (r->rows_left == 0 || r->end == r->begin) {
		if (r->end > r->begin)
			return bad_row(r, err, "there are more bytes than its header says");
		if (r->rows_left > 0 && r->rows_left < UINT64_MAX)
			return bad_row(r, err, "it ends here, before its header says (cut short?)");
		return ROWSCAN_END;
	}
	if (r->end - r->begin < r->row_bytes) {
		char why[120];
		snprintf(why, sizeof why, "it ends within a row; rows of FORMAT=%s have %zu bytes here",
			 row_syntax_name(r->syntax), r->row_bytes);
		return bad_row(r, err, why);
	}
	*row = (struct row_ref){.data = r->buffer + r->begin,
				.len = r->row_bytes,
				.raw_len = r->row_bytes,
				.offset = r->offset,
				.line = r->line};
	rowscan_pass(r, r->begin + r->row_bytes, 1);
	r->rows_left -= r->rows_left < UINT64_MAX;
	return ROWSCAN_ROW;
}

/* ---- any row ---- */

int rowscan_start(struct rowscan *r, struct source *source, uint64_t line, struct error *err)
{
	r->source = source;
	r->begin = r->scan = r->end = 0;
	r->offset = source_offset(source);
	r->line = line;
	r->lines_in_row = 0;
	r->row_open = r->eof = 0;
	/* The read before may have left libcsv inside a row. */
	if (r->syntax.format == ROW_CSV && begin_csv(r, err) != 0)
		return -1;
	r->row_bytes = 0;
	if (row_is_image(r->syntax))
		return begin_images(r, err);
	if (r->offset > 0)
		return 0;
	while (r->end < 3 && !r->eof)
		if (fill_buffer(r, err) != 0)
			return -1;
	if (r->end >= 3 && memcmp(r->buffer, "\xef\xbb\xbf", 3) == 0) {
		r->begin = r->scan = 3;
		r->offset = 3;
	}
	return 0;
}

/* Whether the line is a row of its own; for csv, -1 is an error and 2 an open row. */
static int rowscan_judge(struct rowscan *r, struct row_ref *row, size_t line_at, size_t to,
			 int last, struct error *err)
{
	rowscan_give(r, row, to);
	row->quoted = 0;
	switch (r->syntax.format) {
	case ROW_CIFAR10:
	case ROW_CIFAR100:
	case ROW_IDX: /* next_image() has them */
	case ROW_LINES:
		return 1;
	case ROW_CRITEO:
		return row->len > 0;
	case ROW_BAG:
	case ROW_LIBSVM:
		return row->len > 0 && row->data[0] != '#' && !row_is_blank(row->data, row->len, row->separator);
	case ROW_CSV:
		break;
	}
	if (!r->row_open && !memchr(row->data, '"', row->len))
		return !row_is_blank(row->data, row->len, row->separator);
	int done = feed_csv(r, line_at, to, last, err);
	row->quoted = 1;
	return done < 0 ? -1 : done ? 1 : 2;
}

int rowscan_next(struct rowscan *r, struct row_ref *row, int nowait, struct error *err)
{
	/* For csv: the beginning of the line that libcsv has not got yet. If a row has several
	 * lines it differs from scan's begin, otherwise it is the same. */
	size_t line_at = r->row_open ? r->scan : r->begin;
	if (r->row_bytes > 0)
		return next_image(r, row, nowait, err);
	for (size_t look = r->scan;;) {
		const char *newline = memchr(r->buffer + look, '\n', r->end - look);
		if (!newline && !r->eof) {
			look = r->end;
			if (r->end - r->begin > ROWSCAN_ROW_MAX)
				break;
			if (nowait && !source_ready(r->source))
				return ROWSCAN_WAIT;
			size_t shift = r->begin;
			if (fill_buffer(r, err) != 0)
				return -1;
			shift -= r->begin;
			look -= shift;
			line_at -= shift;
			continue;
		}
		if (!newline && r->begin == r->end)
			return ROWSCAN_END;
		size_t to = newline ? (size_t)(newline - r->buffer) + 1 : r->end;
		if (to - r->begin > ROWSCAN_ROW_MAX)
			break;
		int is_row = rowscan_judge(r, row, line_at, to, !newline, err);
		if (is_row < 0)
			return -1;
		if (is_row == 2) {
			r->row_open = 1;
			r->lines_in_row++;
			r->scan = line_at = look = to;
			continue;
		}
		rowscan_pass(r, to, r->lines_in_row + (newline != NULL));
		if (is_row)
			return ROWSCAN_ROW;
		if (r->rows_until > 0 && r->offset >= r->rows_until)
			return ROWSCAN_WAIT;
		line_at = look = r->begin;
	}
	return bad_row(r, err,
		       r->row_open ? "row longer than 1 MiB (a quote that is never closed?)"
				   : "row longer than 1 MiB");
}

/* ---- guess ---- */

int rowscan_guess(struct rowscan *r, struct error *err)
{
	/* Reads on until a line that is not empty is complete. */
	for (size_t look = r->begin; !r->eof && r->end - r->begin < CHUNK;) {
		const char *newline = memchr(r->buffer + look, '\n', r->end - look);
		if (newline) {
			size_t to = (size_t)(newline - r->buffer);
			if (r->buffer[look] != '#' &&
			    !row_is_blank(r->buffer + look, to - look, '\0'))
				break;
			look = to + 1;
		} else if (fill_buffer(r, err) != 0) {
			return -1;
		}
	}
	r->syntax = row_syntax_guess(r->buffer + r->begin, r->end - r->begin);
	if (r->syntax.format == ROW_IDX)
		return begin_images(r, err);
	return r->syntax.format == ROW_CSV ? begin_csv(r, err) : 0;
}

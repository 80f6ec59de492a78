/*
 * rows_text: see rows_text.h.
 *
 * A reader stands at a row of a file.  Up to the last place of the index before a shard's end it
 * hands over bytes without looking at them, wherever the index shows that there are as many lines
 * as rows; the rest, and where lines and rows differ, it scans row by row.
 */
#include "agent/rows_text.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/random.h"
#include "data/rowfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUT_BYTES 262144
#define SPLICE_BYTES (1u << 20)
#define NO_FILE SIZE_MAX
#define NO_SPLICE (ROWS_CANCELLED + 1)

struct rows_text {
	struct rowfile *file;
	uint64_t *first; /* of each file, and of what comes behind the last one */
	size_t count;
	uint64_t begin; /* the number of the first row */
	char *header;   /* with its newline; NULL: none */
	size_t header_len;
	int wants_header;
};

struct rows_reader {
	const struct rows_text *text;
	struct rowfile file; /* path and index are the text's */
	size_t at;           /* which one it is; NO_FILE: none */
	const struct rows_sink *to;
	char *out; /* not written yet */
	size_t out_len;
	/* A shuffled piece, kept for its next part: its rows one after the other, where each ends,
	 * and their order. length 0: none. */
	struct piece gathered;
	struct rowfile_text rows;
	size_t *end;
	uint32_t *order;
	size_t end_room, order_room;
};

/* ---- files ---- */

static int rows_text_open_file(struct rows_text *t, size_t i, const struct rows_text_options *o,
			       struct row_syntax syntax, struct error *err)
{
	const struct rowfile_options options = {
		.index_dir = o->index_dir,
		.making = {.keep = o->index_dir ? INDEX_KEEP : INDEX_KEEP_IF,
			   .progress = o->progress,
			   .arg = (void *)(uintptr_t)o->paths[i]}};
	t->count = i + 1;
	if (rowfile_open(&t->file[i], o->paths[i], syntax, &options, err) != 0)
		return -1;
	t->first[i + 1] = t->first[i] + t->file[i].index->rows;
	return 0;
}

static int rows_text_find_syntax(const struct rows_text_options *o, struct row_syntax *syntax,
				 struct error *err)
{
	char index[PATH_MAX];
	*syntax = o->syntax;
	for (size_t i = 0; i < o->count && !o->named; i++) {
		if (index_path(index, sizeof index, o->paths[i], o->index_dir, err) != 0 ||
		    rowfile_guess(o->paths[i], index, syntax, err) != 0)
			return -1;
		if (syntax->format != ROW_LINES) /* an empty file counts as this format, too */
			break;
	}
	return 0;
}

/* The header of a file, unless it is empty; all have to have the same one, or columns would change
 * their meaning in the middle. */
static int rows_text_take_header(struct rows_text *t, struct rowfile *f, struct error *err)
{
	struct rowfile_text line = {0};
	if (f->index->text_bytes == 0)
		return 0;
	int result = rowfile_add_header(f, &line, err);
	rowfile_rest(f);
	if (result != 0 || line.len == 0) {
		free(line.data);
		return result;
	}
	if (!t->header) {
		t->header = line.data;
		t->header_len = line.len;
		return 0;
	}
	size_t mine = strcspn(line.data, "\r\n"), first = strcspn(t->header, "\r\n");
	if (mine != first || memcmp(line.data, t->header, mine) != 0)
		result = error_set(err, ERROR_DATA, f->path, "its header line is not that of %s",
				   t->file[0].path);
	free(line.data);
	return result;
}

static int rows_text_open_all(struct rows_text *t, const struct rows_text_options *o,
			      struct error *err)
{
	struct row_syntax syntax;
	if (rows_text_find_syntax(o, &syntax, err) != 0)
		return -1;
	if (row_is_image(syntax))
		return error_set(err, ERROR_CONFIG, o->paths[0],
				 "FORMAT=%s has rows of bytes, and a trainer gets lines of text",
				 row_syntax_name(syntax));
	if (o->header && syntax.format != ROW_CSV)
		return error_set(err, ERROR_CONFIG, o->paths[0],
				 "is read as %s, which has no header line; is it --format csv?",
				 row_syntax_name(syntax));
	for (size_t i = 0; i < o->count; i++)
		if (rows_text_open_file(t, i, o, syntax, err) != 0 ||
		    rows_text_take_header(t, &t->file[i], err) != 0)
			return -1;
	return 0;
}

int rows_text_open(struct rows_text **out, const struct rows_text_options *o, struct error *err)
{
	struct rows_text *t = calloc(1, sizeof *t);
	if (t) {
		t->file = calloc(o->count, sizeof *t->file);
		t->first = calloc(o->count + 1, sizeof *t->first);
		t->wants_header = o->header;
	}
	if (!t || !t->file || !t->first) {
		rows_text_free(t);
		return error_set(err, ERROR_OS, "", "out of memory");
	}
	if ((o->index_dir && fs_make_dirs(o->index_dir, err) != 0) ||
	    rows_text_open_all(t, o, err) != 0) {
		rows_text_free(t);
		return -1;
	}
	*out = t;
	return 0;
}

void rows_text_free(struct rows_text *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->count; i++)
		rowfile_close(&t->file[i]);
	free(t->file);
	free(t->first);
	free(t->header);
	free(t);
}

uint64_t rows_text_rows(const struct rows_text *t)
{
	return t->first[t->count];
}

int rows_text_fit(struct rows_text *t, uint64_t samples, uint64_t part_begin, uint64_t part,
		  struct error *err)
{
	uint64_t want = part ? part : samples;
	t->begin = part ? part_begin : 0;
	if (rows_text_rows(t) == want)
		return 0;
	return error_set(err, ERROR_CONFIG, "--rows", "the files have %llu rows, but %s has %llu",
			 (unsigned long long)rows_text_rows(t), part ? "our partition" : "the queue",
			 (unsigned long long)want);
}

/* ---- readers ---- */

int rows_reader_new(struct rows_reader **out, const struct rows_text *text, struct error *err)
{
	struct rows_reader *r = calloc(1, sizeof *r);
	if (r)
		r->out = malloc(OUT_BYTES);
	if (!r || !r->out) {
		free(r);
		return error_set(err, ERROR_OS, "", "out of memory");
	}
	r->text = text;
	r->at = NO_FILE;
	*out = r;
	return 0;
}

void rows_reader_free(struct rows_reader *r)
{
	if (!r)
		return;
	rowfile_rest(&r->file);
	free(r->out);
	free(r->rows.data);
	free(r->end);
	free(r->order);
	free(r);
}

/* The file of that number is the one that is read. */
static void turn_to(struct rows_reader *r, size_t i)
{
	if (r->at == i)
		return;
	rowfile_rest(&r->file);
	r->file = (struct rowfile){.path = r->text->file[i].path, .index = r->text->file[i].index};
	r->at = i;
}

/* ---- the pipe ---- */

static int wait_for_room(const struct rows_sink *to)
{
	struct pollfd p[2] = {{.fd = to->fd, .events = POLLOUT}, {.fd = to->cancel, .events = POLLIN}};
	while (poll(p, to->cancel >= 0 ? 2 : 1, -1) < 0 && errno == EINTR)
		;
	return to->cancel >= 0 && p[1].revents ? ROWS_CANCELLED : ROWS_GIVEN;
}

/* The error of a write that failed. */
static int after_errno(const struct rows_sink *to, struct error *err)
{
	if (errno == EAGAIN)
		return wait_for_room(to);
	if (errno == EINTR)
		return ROWS_GIVEN;
	if (errno == EPIPE)
		return ROWS_CLOSED;
	return error_errno(err, ERROR_IO, "rows", "write to the command");
}

static int rows_text_write_out(const struct rows_sink *to, const char *data, size_t len,
			       struct error *err)
{
	while (len > 0) {
		ssize_t n = write(to->fd, data, len);
		if (n >= 0) {
			data += n;
			len -= (size_t)n;
			continue;
		}
		int result = after_errno(to, err);
		if (result != ROWS_GIVEN)
			return result;
	}
	return ROWS_GIVEN;
}

static int rows_text_flush(struct rows_reader *r, struct error *err)
{
	size_t len = r->out_len;
	r->out_len = 0;
	return rows_text_write_out(r->to, r->out, len, err);
}

static int rows_text_put(struct rows_reader *r, const char *data, size_t len, struct error *err)
{
	if (len > OUT_BYTES - r->out_len) {
		int result = rows_text_flush(r, err);
		if (result != ROWS_GIVEN)
			return result;
	}
	if (len > OUT_BYTES)
		return rows_text_write_out(r->to, data, len, err);
	memcpy(r->out + r->out_len, data, len);
	r->out_len += len;
	return ROWS_GIVEN;
}

int rows_reader_header(struct rows_reader *r, const struct rows_sink *to, struct error *err)
{
	if (!r->text->wants_header || !r->text->header)
		return ROWS_GIVEN;
	return rows_text_write_out(to, r->text->header, r->text->header_len, err);
}

/* ---- rows in their order ---- */

/* Rows of a file from f->at, the start of a stride of its index, up to `end` that may be handed over
 * unseen: the number of the row behind them, the start of a stride, too. Each row is a line at least;
 * so where there are as many lines as rows, nothing else is there. */
static uint64_t plain_until(const struct index *ix, uint64_t at, uint64_t end)
{
	for (uint64_t i = at / ix->every; i + 1 < ix->place_count; i++) {
		if ((i + 1) * ix->every > end ||
		    ix->place[i + 1].line - ix->place[i].line != ix->every)
			break;
		at = (i + 1) * ix->every;
	}
	return at;
}

static int was_cut(const struct rowfile *f, struct error *err)
{
	return error_set(err, ERROR_DATA, f->path, "is shorter than its index says: was the file "
						   "changed?");
}

/* Moves bytes from the page cache into the pipe, up to an offset. */
static int splice_until(struct rows_reader *r, uint64_t until, struct error *err)
{
	struct source *source = r->file.source;
	int fd = source_plain_fd(source);
	if (fd < 0)
		return NO_SPLICE;
	for (uint64_t at = source_offset(source); at < until;) {
		loff_t from = (loff_t)at;
		size_t max = until - at < SPLICE_BYTES ? (size_t)(until - at) : SPLICE_BYTES;
		ssize_t n = splice(fd, &from, r->to->fd, NULL, max, SPLICE_F_NONBLOCK);
		if (n == 0)
			return was_cut(&r->file, err);
		if (n < 0 && errno == EINVAL) /* a file system that can't */
			return NO_SPLICE;
		int result = n < 0 ? after_errno(r->to, err) : ROWS_GIVEN;
		if (result != ROWS_GIVEN)
			return result;
		at += n > 0 ? (uint64_t)n : 0;
		if (n > 0 && source_seek(source, at, err) != 0)
			return -1;
	}
	return ROWS_GIVEN;
}

static int copy_until(struct rows_reader *r, uint64_t until, struct error *err)
{
	struct source *source = r->file.source;
	int result = ROWS_GIVEN;
	while (result == ROWS_GIVEN && source_offset(source) < until) {
		uint64_t left = until - source_offset(source);
		size_t got;
		if (source_read(source, r->out, left < OUT_BYTES ? (size_t)left : OUT_BYTES, &got,
				err) != 0)
			return -1;
		result = got == 0 ? was_cut(&r->file, err)
				  : rows_text_write_out(r->to, r->out, got, err);
	}
	return result;
}

/* Writes bytes that the scan has already read, as far as they are wanted. */
static int hand_over_read(struct rows_reader *r, uint64_t until, struct error *err)
{
	struct rowscan *scan = &r->file.scan;
	size_t there = scan->end - scan->begin;
	if (there > until - scan->offset)
		there = (size_t)(until - scan->offset);
	int result = rows_text_write_out(r->to, scan->buffer + scan->begin, there, err);
	scan->begin += there;
	scan->scan = scan->begin;
	scan->offset += there;
	return result;
}

/* Copies rows up to number `row`, the start of a stride, without looking at them. */
static int hand_over(struct rows_reader *r, uint64_t row, struct error *err)
{
	struct rowfile *f = &r->file;
	struct index_place to = f->index->place[row / f->index->every];
	int result = rows_text_flush(r, err);
	if (result == ROWS_GIVEN)
		result = hand_over_read(r, to.offset, err);
	if (result != ROWS_GIVEN)
		return result;
	f->at = row;
	f->scan.line = to.line;
	if (f->scan.offset == to.offset)
		return ROWS_GIVEN;
	result = splice_until(r, to.offset, err);
	if (result == NO_SPLICE)
		result = copy_until(r, to.offset, err);
	if (result == ROWS_GIVEN && rowscan_start(&f->scan, f->source, to.line, err) != 0)
		return -1;
	return result;
}

static int is_at_stride(const struct rowfile *f)
{
	const struct index *ix = f->index;
	return f->at % ix->every == 0 && ix->place[f->at / ix->every].offset == f->scan.offset;
}

static int give_row(struct rows_reader *r, struct error *err)
{
	struct row_ref row;
	if (rowfile_next(&r->file, &row, err) != 0)
		return -1;
	int result = rows_text_put(r, row.data, row.raw_len, err);
	return result == ROWS_GIVEN && row.raw_len == row.len ? rows_text_put(r, "\n", 1, err)
							      : result;
}

/* Rows [begin, end) of the file that is read. */
static int give_rows(struct rows_reader *r, uint64_t begin, uint64_t end, struct error *err)
{
	struct rowfile *f = &r->file;
	if (rowfile_go_to(f, begin, err) != 0)
		return -1;
	int result = ROWS_GIVEN;
	while (result == ROWS_GIVEN && f->at < end) {
		uint64_t until = is_at_stride(f) ? plain_until(f->index, f->at, end) : f->at;
		result = until > f->at ? hand_over(r, until, err) : give_row(r, err);
	}
	return result;
}

/* ---- rows of a shuffled piece ---- */

static int gather_rows(struct rows_reader *r, uint64_t begin, uint64_t end, size_t at,
		       struct error *err)
{
	struct rowfile *f = &r->file;
	struct rowfile_text *text = &r->rows;
	struct row_ref row;
	if (rowfile_go_to(f, begin, err) != 0)
		return -1;
	for (; f->at < end; r->end[at++] = text->len) {
		if (rowfile_next(f, &row, err) != 0)
			return -1;
		if (GROW(text->data, text->room, text->len + row.raw_len + 1) != 0)
			return error_set(err, ERROR_OS, f->path, "out of memory");
		memcpy(text->data + text->len, row.data, row.raw_len);
		text->len += row.raw_len;
		if (row.raw_len == row.len)
			text->data[text->len++] = '\n';
	}
	return ROWS_GIVEN;
}

static int give_shuffled(struct rows_reader *r, const struct piece *p, struct error *err)
{
	int result = ROWS_GIVEN;
	for (uint64_t i = p->skip; result == ROWS_GIVEN && i < p->skip + p->take; i++) {
		uint32_t row = r->order[i];
		size_t from = row ? r->end[row - 1] : 0;
		result = rows_text_put(r, r->rows.data + from, r->end[row] - from, err);
	}
	return result;
}

/* ---- pieces ---- */

/* Rows of all files together, file by file; a shuffled piece is only gathered. */
static int go_through(struct rows_reader *r, uint64_t begin, uint64_t end, int shuffled,
		      struct error *err)
{
	const struct rows_text *t = r->text;
	uint64_t row = begin;
	int result = ROWS_GIVEN;
	for (size_t i = 0; result == ROWS_GIVEN && row < end; i++) {
		if (t->first[i + 1] <= row)
			continue;
		uint64_t first = t->first[i];
		uint64_t stop = t->first[i + 1] < end ? t->first[i + 1] : end;
		turn_to(r, i);
		result = shuffled ? gather_rows(r, row - first, stop - first, (size_t)(row - begin),
						err)
				  : give_rows(r, row - first, stop - first, err);
		/* The rows must come from the file as it was when it was opened. */
		if (result == ROWS_GIVEN &&
		    source_check_unchanged(r->file.source, &r->file.index->identity, err) != 0)
			result = -1;
		row = stop;
	}
	return result;
}

/* Trainers get a piece in several parts, but it is read once. */
static int rows_text_gather(struct rows_reader *r, const struct piece *p, struct error *err)
{
	uint64_t begin = p->begin - r->text->begin;
	struct piece *kept = &r->gathered;
	if (kept->length == p->length && kept->begin == p->begin && kept->seed == p->seed)
		return 0;
	kept->length = 0;
	if (GROW(r->end, r->end_room, p->length) != 0 ||
	    GROW(r->order, r->order_room, p->length) != 0)
		return error_set(err, ERROR_OS, "", "out of memory");
	r->rows.len = 0;
	if (go_through(r, begin, begin + p->length, 1, err) != 0)
		return -1;
	random_permute(r->order, (size_t)p->length, p->seed);
	*kept = *p;
	return 0;
}

/* Whether all rows of a piece are here: ERROR_CONFIG. */
static int check_here(const struct rows_text *t, const struct piece *p, struct error *err)
{
	uint64_t rows = rows_text_rows(t);
	if (p->begin >= t->begin && p->begin - t->begin <= rows &&
	    p->length <= rows - (p->begin - t->begin))
		return 0;
	return error_set(err, ERROR_CONFIG, "--rows",
			 "shard %llu has rows %llu to %llu, but the files hold rows %llu to %llu",
			 (unsigned long long)p->id, (unsigned long long)p->begin,
			 (unsigned long long)(p->begin + p->length - 1),
			 (unsigned long long)t->begin, (unsigned long long)(t->begin + rows) - 1);
}

static int rows_text_give(struct rows_reader *r, const struct piece *p, struct error *err)
{
	uint64_t begin = p->begin - r->text->begin;
	if (check_here(r->text, p, err) != 0)
		return -1;
	if (!p->shuffled)
		return go_through(r, begin + p->skip, begin + p->skip + p->take, 0, err);
	return rows_text_gather(r, p, err) != 0 ? -1 : give_shuffled(r, p, err);
}

int rows_reader_give(struct rows_reader *r, const struct piece *p, const struct rows_sink *to,
		     struct error *err)
{
	r->to = to;
	r->out_len = 0;
	int result = rows_text_give(r, p, err);
	if (result == ROWS_GIVEN)
		result = rows_text_flush(r, err);
	if (result != ROWS_GIVEN) { /* its position is not known */
		rowfile_rest(&r->file);
		r->at = NO_FILE;
	}
	return result;
}

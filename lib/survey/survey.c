/*
 * survey: see survey.h.  Reads with lib/data's own rowscan, so that a guess is about the rows that
 * the job will see.  Must never decide for the user what he can be asked.
 */
#include "survey/survey.h"

#include "base/number.h"
#include "base/utf8.h"
#include "base/words.h"
#include "data/rowscan.h"
#include "data/schema.h"
#include "data/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD 4096       /* bytes that tell text from anything else */
#define GUESS_ROWS 100  /* that a separator is tried on */
#define NAMES_SHOWN 10  /* of the columns, where one is not found */

/* ---- what is no text ---- */

/* Magic numbers of files that must be converted first. */
static const struct {
	const char *head;
	size_t at, len;
	const char *what;
} strangers[] = {
	{"PAR1", 0, 4, "a Parquet file: write it as csv first (duckdb -csv -c \"from 'FILE'\", or "
		       "pandas)"},
	{"ARROW1", 0, 6, "an Arrow file: write it as csv first"},
	{"\x89HDF", 0, 4, "an HDF5 file: write it as csv first"},
	{"PK\3\4", 0, 4, "a zip archive, or a spreadsheet: unzip it (unzip -p FILE | gzip > FILE.csv.gz), "
			 "or save the sheet as csv"},
	{"1AY&SY", 4, 6, "compressed with bzip2: bzcat FILE | gzip > FILE.gz"},
	{"\xfd"
	 "7zXZ", 0, 5, "compressed with xz: xzcat FILE | gzip > FILE.gz"},
	{"SQLite format 3", 0, 15, "an SQLite database: sqlite3 -header -csv FILE 'select * from TABLE'"},
	{"\xff\xfe", 0, 2, "text in UTF-16: iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", 0, 2, "text in UTF-16: iconv -f UTF-16 -t UTF-8"},
	{"ustar", 257, 5, "a tar archive: take the csv out of it (tar -xf)"},
	{"{\"", 0, 2, "JSON: write it as csv first (jq -r, @csv)"},
	{"[{", 0, 2, "JSON: write it as csv first (jq -r, @csv)"},
	{"<?xml", 0, 5, "XML: write it as csv first"},
};

/* Behind head[len] stands a NUL. */
static int survey_check_text(const char *path, const char *head, size_t len, struct error *err)
{
	if (len == 0)
		return error_set(err, ERROR_DATA, path, "is empty");
	for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
		if (len >= strangers[i].at + strangers[i].len &&
		    memcmp(head + strangers[i].at, strangers[i].head, strangers[i].len) == 0)
			return error_set(err, ERROR_DATA, path, "is %s", strangers[i].what);
	const char *nul = memchr(head, '\0', len);
	if (nul)
		return error_set(err, ERROR_DATA, path,
				 "is no text: byte %zu is 0. Paceline reads csv, tsv, criteo, libsvm, bag, idx "
				 "and the files of CIFAR, plain or compressed",
				 (size_t)(nul - head));
	if (memchr(head, '\r', len) && !memchr(head, '\n', len))
		return error_set(err, ERROR_DATA, path,
				 "has carriage returns for line ends: tr '\\r' '\\n' < FILE > FILE.csv");
	if (strspn(head, " \t\r\n") >= len)
		return error_set(err, ERROR_DATA, path,
				 "begins with %zu bytes of blank lines; grep '[^[:space:]]' leaves them out",
				 len);
	return 0;
}

static int survey_read_head(const char *path, char *head, size_t *len, struct error *err)
{
	struct source *source;
	size_t got = 1;
	*len = 0;
	if (source_open(&source, path, err) != 0)
		return -1;
	int result = 0;
	while (result == 0 && got > 0 && *len < HEAD) {
		result = source_read(source, head + *len, HEAD - *len, &got, err);
		*len += result == 0 ? got : 0;
	}
	source_close(source);
	head[*len] = '\0';
	return result;
}

/* idx files say what they are. Of CIFAR's the size tells it: of a file that is not packed, and no
 * text. */
static int survey_find_images(struct survey *s, const char *path, const char *head, size_t len)
{
	struct row_idx idx;
	struct stat st;
	s->syntax = row_syntax_guess(head, len);
	if (s->syntax.format == ROW_IDX &&
	    row_idx_header((const unsigned char *)head, len, &idx) == 0) {
		snprintf(s->image, sizeof s->image, "%u-%u-%u", idx.size[1],
			 idx.sizes > 2 ? idx.size[2] : 1, idx.sizes > 3 ? idx.size[3] : 1);
		return 1;
	}
	if (!memchr(head, '\0', len) || strcmp(survey_cat(path), "cat") != 0 || stat(path, &st) != 0)
		return 0;
	for (enum row_format f = ROW_CIFAR10; f <= ROW_CIFAR100; f++) {
		s->syntax = row_syntax(f);
		size_t row = row_label_bytes(s->syntax) + s->syntax.pixels;
		if ((size_t)st.st_size % row == 0 && (size_t)st.st_size > 0) {
			snprintf(s->image, sizeof s->image, "32-32-3");
			return 1;
		}
	}
	return 0;
}

/* ---- rows ---- */

struct reading {
	struct source *source;
	struct rowscan scan;
};

static void reading_end(struct reading *r)
{
	rowscan_free(&r->scan);
	source_close(r->source);
}

/* Empty lines are no rows: a small packed file may have so many that it takes minutes to pass them. */
static int reading_begin(struct reading *r, const char *path, struct row_syntax syntax,
			 uint64_t bytes_max, struct error *err)
{
	*r = (struct reading){0};
	if (source_open(&r->source, path, err) != 0)
		return -1;
	if (rowscan_init(&r->scan, syntax, err) == 0 &&
	    rowscan_start(&r->scan, r->source, 1, err) == 0) {
		r->scan.rows_until = bytes_max;
		return 0;
	}
	reading_end(r);
	return -1;
}

/* How many fields a row has with this separator, and in how many of the first rows; *fields is 0
 * where rows do not agree, or can't be read so. */
static int try_separator(const char *path, char separator, uint64_t bytes_max, size_t *fields,
			 size_t *agree, struct error *err)
{
	struct reading r;
	struct row_ref row;
	const struct row_field *field;
	size_t count, rows = 0;
	int got;
	*fields = *agree = 0;
	const struct row_syntax syntax = {.format = ROW_CSV, .separator = separator};
	if (reading_begin(&r, path, syntax, bytes_max, err) != 0)
		return -1;
	while (rows < GUESS_ROWS && (got = rowscan_next(&r.scan, &row, 0, NULL)) == ROWSCAN_ROW) {
		if (rowscan_fields(&r.scan, &row, &field, &count, NULL) != 0)
			break;
		if (rows++ == 0)
			*fields = count;
		*agree += count == *fields;
	}
	reading_end(&r);
	if (10 * *agree < 9 * rows)
		*fields = 0;
	return 0;
}

/* The separator with which most rows have the same number of fields, and more than one. */
static int survey_find_separator(const char *path, uint64_t bytes_max, char *separator,
				 struct error *err)
{
	static const char known[] = ",\t;|";
	size_t most = 1, best = 0, fields, agree;
	*separator = '\0';
	for (size_t i = 0; known[i]; i++) {
		if (try_separator(path, known[i], bytes_max, &fields, &agree, err) != 0)
			return -1;
		if (fields > 1 && (agree > best || (agree == best && fields > most))) {
			*separator = known[i];
			most = fields;
			best = agree;
		}
	}
	return 0;
}

/* A row of LDA-C: how many fields follow, then so many word:count. Returns their number; -1: it is none. */
static int64_t bag_fields(const struct row_ref *row)
{
	uint64_t said = 0, count = 0, number;
	size_t i = 0;
	for (int is_first = 1; i < row->len && row->data[i] != '#'; is_first = 0) {
		size_t len = 0, colon;
		while (i + len < row->len && !strchr(" \t\r", row->data[i + len]))
			len++;
		for (colon = 0; colon < len && row->data[i + colon] != ':';)
			colon++;
		if (number_u64_span(row->data + i, colon, &number) != 0 || is_first != (colon == len))
			return -1;
		if (is_first)
			said = number;
		else if (number_u64_span(row->data + i + colon + 1, len - colon - 1, &number) != 0 ||
			 number == 0)
			return -1;
		count += !is_first;
		for (i += len; i < row->len && strchr(" \t\r", row->data[i]);)
			i++;
	}
	return said == count ? (int64_t)count : -1;
}

/* Whether all of the first rows are of LDA-C; labels of libsvm are not like that. */
static int survey_find_bag(struct survey *s, const char *path, uint64_t bytes_max, struct error *err)
{
	struct reading r;
	struct row_ref row;
	int64_t fields = 0, most = 0;
	if (reading_begin(&r, path, row_syntax(ROW_BAG), bytes_max, err) != 0)
		return -1;
	for (int rows = 0; rows < GUESS_ROWS && fields >= 0 &&
			   rowscan_next(&r.scan, &row, 0, NULL) == ROWSCAN_ROW;
	     rows++) {
		fields = bag_fields(&row);
		most = fields > most ? fields : most;
	}
	reading_end(&r);
	if (fields >= 0 && most > 1)
		s->syntax = row_syntax(ROW_BAG);
	return 0;
}

static int survey_find_syntax(struct survey *s, const char *path, const char *head, size_t len,
			      uint64_t bytes_max, struct error *err)
{
	s->syntax = survey_is_named_bag(path) ? row_syntax(ROW_BAG) : row_syntax_guess(head, len);
	if ((s->syntax.format == ROW_LIBSVM || s->syntax.format == ROW_LINES) &&
	    survey_find_bag(s, path, bytes_max, err) != 0)
		return -1;
	if (s->syntax.format == ROW_BAG || s->syntax.format == ROW_CRITEO ||
	    s->syntax.format == ROW_LIBSVM)
		return 0;
	char guessed = s->syntax.separator;
	s->syntax = (struct row_syntax){.format = ROW_CSV};
	if (survey_find_separator(path, bytes_max, &s->syntax.separator, err) != 0)
		return -1;
	/* If rows fit none of them, say which rows. */
	if (!s->syntax.separator)
		s->syntax.separator = guessed;
	if (s->syntax.separator)
		return 0;
	return error_set(err, ERROR_DATA, path,
			 "has one column only: no comma, tab, semicolon or | separates values (where "
			 "blanks do: tr -s ' ' , < FILE > FILE.csv; for text see TOPICS in paceline-job(5))");
}

/* ---- names ---- */

static int survey_is_number(const struct row_field *f)
{
	double x;
	return number_real_span(f->data, f->len, &x) == 0;
}

/* 0, 1, 2, ...: what pandas writes as names where there are none. */
static int counts_up(const struct row_field *field, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double x;
		if (number_real_span(field[i].data, field[i].len, &x) != 0 || x != (double)i)
			return 0;
	}
	return count > 2;
}

static int by_text(const void *a, const void *b)
{
	const struct row_field *x = a, *y = b;
	size_t n = x->len < y->len ? x->len : y->len;
	int order = memcmp(x->data, y->data, n);
	return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Names are not numbers, few are empty, and no two are equal. */
static int looks_like_names(const struct row_field *field, size_t count)
{
	size_t empty = 0;
	if (counts_up(field, count))
		return 1;
	for (size_t i = 0; i < count; i++) {
		empty += field[i].len == 0;
		if (survey_is_number(&field[i]))
			return 0;
	}
	if (2 * empty > count)
		return 0;
	struct row_field *sorted = malloc(count * sizeof *sorted);
	int twice = 0;
	if (!sorted)
		return 1;
	memcpy(sorted, field, count * sizeof *sorted);
	qsort(sorted, count, sizeof *sorted, by_text);
	for (size_t i = 1; i < count; i++)
		twice += sorted[i].len > 0 && by_text(&sorted[i - 1], &sorted[i]) == 0;
	free(sorted);
	/* A few names may appear twice; values do so all the time. */
	return twice < 2 || 10 * twice < (int)count;
}

static int no_header(const struct survey *s, const char *path, const struct row_field *first,
		     size_t count, struct error *err)
{
	char place[ERROR_PLACE_MAX], between[24], file[170];
	snprintf(place, sizeof place, "%.480s:1", path);
	if (s->syntax.separator == '\t')
		snprintf(between, sizeof between, "\"$(printf '\\t')\"");
	else
		snprintf(between, sizeof between, "'%c'", s->syntax.separator);
	return error_set(err, ERROR_DATA, place,
			 "holds values ('%.*s', ...), not the names of the %zu columns; this puts names "
			 "before it: { seq -s %s -f c%%g %zu; %s %s; } > named.%s",
			 first->len > 40 ? 40 : (int)first->len, first->data, count, between, count,
			 survey_cat(path), words_quote(path, file, sizeof file), row_syntax_name(s->syntax));
}

/* Columns of one name can't be told apart in a job file. */
static int find_twins(struct survey *s, struct error *err)
{
	struct row_field *name = calloc(s->count + 1, sizeof *name);
	if (!name)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < s->count; i++)
		name[i] = (struct row_field){s->column[i].name, strlen(s->column[i].name)};
	qsort(name, s->count, sizeof *name, by_text);
	for (size_t k = 1; k < s->count; k++)
		for (size_t i = 0; by_text(&name[k - 1], &name[k]) == 0 && i < s->count; i++)
			s->column[i].twin |= strcmp(s->column[i].name, name[k].data) == 0;
	free(name);
	return 0;
}

/* ---- columns ---- */

static int open_columns(struct survey *s, const struct row_field *field, size_t count,
			struct error *err)
{
	s->column = calloc(count, sizeof *s->column);
	if (!s->column)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < count; i++) {
		if (column_open(&s->column[i], field[i].data, field[i].len, err) != 0)
			return -1;
		s->count++;
	}
	return 0;
}

static int add_fields(struct survey *s, const struct row_ref *row, const struct row_field *field,
		      size_t count, struct error *err)
{
	s->rows++;
	if (count != s->count) {
		if (s->ragged++ == 0) {
			s->ragged_line = row->line;
			s->ragged_fields = count;
		}
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		if (column_add(&s->column[i], field[i].data, field[i].len, row->line, err) != 0)
			return -1;
	return 0;
}

/* criteo, libsvm: the label is what stands first. */
static int add_label(struct survey *s, const struct row_ref *row, struct error *err)
{
	size_t at = 0, words = 0;
	int blank = 1;
	for (size_t i = 0; i < row->len && row->data[i] != '#'; i++) {
		int space = row->data[i] == ' ' || row->data[i] == '\t';
		words += !space && blank;
		blank = space;
	}
	while (at < row->len && row->data[at] != ' ' && row->data[at] != '\t')
		at++;
	s->features += words > 0 ? (double)(words - 1) : 0;
	return column_add(&s->column[0], row->data, at, row->line, err);
}

static int survey_take_row(struct survey *s, const char *path, struct rowscan *scan,
			   const struct row_ref *row, struct error *err)
{
	const struct row_field *field;
	size_t count;
	s->rows += s->syntax.format != ROW_CSV;
	if (row_is_image(s->syntax))
		return 0;
	for (size_t i = 0; s->syntax.format == ROW_BAG && i < row->len && row->data[i] != '#'; i++)
		s->features += row->data[i] == ':';
	if (s->syntax.format != ROW_CSV)
		return s->syntax.format == ROW_BAG ? 0 : add_label(s, row, err);
	if (rowscan_fields(scan, row, &field, &count, err) != 0)
		return -1;
	if (s->column)
		return add_fields(s, row, field, count, err);
	if (!looks_like_names(field, count))
		return no_header(s, path, field, count, err);
	return open_columns(s, field, count, err);
}

/* More digits would suggest that the number is exact. */
static uint64_t two_digits(double x)
{
	double unit = pow(10, fmax(0, floor(log10(x)) - 1));
	return (uint64_t)(round(x / unit) * unit);
}

/* Estimates the rows of the whole file, assuming that the rest is like the rows that were read. */
static void count_about(struct survey *s, struct source *source)
{
	struct source_identity id;
	uint64_t consumed = source_consumed(source);
	s->rows_about = s->rows;
	if (!s->whole && consumed > 0 && source_identify(source, &id, NULL) == 0)
		s->rows_about = two_digits((double)s->rows * (double)id.bytes / (double)consumed);
}

static int survey_read_rows(struct survey *s, const char *path, uint64_t bytes_max,
			    struct error *err)
{
	static const struct row_field label = {"label", 5};
	struct reading r;
	struct row_ref row;
	int got = ROWSCAN_ROW, result = 0;
	if ((s->syntax.format == ROW_CRITEO || s->syntax.format == ROW_LIBSVM) &&
	    open_columns(s, &label, 1, err) != 0)
		return -1;
	if (reading_begin(&r, path, s->syntax, bytes_max, err) != 0)
		return -1;
	while (result == 0 && s->bytes < bytes_max &&
	       (got = rowscan_next(&r.scan, &row, 0, err)) == ROWSCAN_ROW) {
		s->bytes = row.offset + row.raw_len;
		if (s->not_utf8 == 0 && !row_is_image(s->syntax) && !utf8_is(row.data, row.len))
			s->not_utf8 = row.line;
		s->many_lines |= !row_is_image(s->syntax) && memchr(row.data, '\n', row.len) != NULL;
		result = survey_take_row(s, path, &r.scan, &row, err);
	}
	s->whole = got == ROWSCAN_END;
	s->syntax = r.scan.syntax;
	if (got < 0)
		result = -1;
	count_about(s, r.source);
	reading_end(&r);
	return result;
}

static int survey(struct survey *s, const char *path, uint64_t bytes_max, struct error *err)
{
	char head[HEAD + 1];
	size_t len;
	if (survey_read_head(path, head, &len, err) != 0)
		return -1;
	if (!survey_find_images(s, path, head, len) &&
	    (survey_check_text(path, head, len, err) != 0 ||
	     survey_find_syntax(s, path, head, len, bytes_max, err) != 0))
		return -1;
	if (survey_read_rows(s, path, bytes_max, err) != 0)
		return -1;
	for (size_t i = 0; i < s->count; i++)
		column_close(&s->column[i]);
	if (find_twins(s, err) != 0)
		return -1;
	if (s->rows == 0)
		return error_set(err, ERROR_DATA, path, "has a line of names, but no row behind "
							"it");
	s->features /= (double)s->rows;
	if (10 * s->ragged > s->rows)
		return error_set(err, ERROR_DATA, path,
				 "%llu of %llu rows do not have the %zu columns of line 1; the "
				 "first is line %llu, with %zu",
				 (unsigned long long)s->ragged, (unsigned long long)s->rows, s->count,
				 (unsigned long long)s->ragged_line, s->ragged_fields);
	return 0;
}

int survey_file(struct survey *s, const char *path, uint64_t bytes_max, struct error *err)
{
	*s = (struct survey){0};
	if (survey(s, path, bytes_max, err) == 0)
		return 0;
	survey_free(s);
	return -1;
}

void survey_free(struct survey *s)
{
	for (size_t i = 0; i < s->count; i++)
		column_free(&s->column[i]);
	free(s->column);
	*s = (struct survey){0};
}

/* The first names, where none is near. */
static void survey_list_names(const struct survey *s, char *out, size_t max)
{
	size_t at = 0, shown = s->count < NAMES_SHOWN ? s->count : NAMES_SHOWN;
	for (size_t i = 0; i < shown && at < max; i++)
		at += (size_t)snprintf(out + at, max - at, "%s'%.30s'", i > 0 ? ", " : "",
				       s->column[i].name);
	if (s->count > shown && at < max)
		snprintf(out + at, max - at, " and %zu more", s->count - shown);
}

size_t survey_column(const struct survey *s, const char *path, const char *name, struct error *err)
{
	size_t found = SIZE_MAX;
	char list[ERROR_TEXT_MAX];
	const char **names = calloc(s->count + 1, sizeof *names);
	if (!names) {
		error_set(err, ERROR_OS, path, "out of memory");
		return SIZE_MAX;
	}
	for (size_t i = 0; i < s->count; i++) {
		names[i] = s->column[i].name;
		if (found == SIZE_MAX && strcmp(names[i], name) == 0)
			found = i;
	}
	const char *nearest = schema_nearest(name, names, s->count);
	survey_list_names(s, list, sizeof list);
	if (found == SIZE_MAX && nearest)
		error_set(err, ERROR_DATA, path, "no column '%.80s' in line 1; the nearest is '%.80s'",
			  name, nearest);
	else if (found == SIZE_MAX)
		error_set(err, ERROR_DATA, path, "no column '%.80s' in line 1, which has %s", name,
			  list);
	free(names);
	return found;
}

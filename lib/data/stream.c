/*
 * stream: rows from a descriptor until its end (dataset.h, struct row_stream).  No index, no second
 * look: what predict(1) reads.
 */
#include "data/dataset.h"
#include "data/parse.h"
#include "data/rowscan.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

struct row_stream {
	const struct schema *schema;
	struct source *source;
	struct rowscan scan;
	struct parser parser;
	struct columns columns;
	uint64_t number, bad_rows, bad_rows_max;
};

static int bind_stream(struct row_stream *in, struct error *err)
{
	struct row_syntax syntax = in->schema->syntax;
	struct row_ref header = {0};
	if (source_check_text(in->source, err) != 0 ||
	    rowscan_init(&in->scan, syntax, err) != 0 ||
	    rowscan_start(&in->scan, in->source, 1, err) != 0)
		return -1;
	if (syntax.format == ROW_CSV) {
		int got = rowscan_next(&in->scan, &header, 0, err);
		if (got < 0)
			return -1;
		if (got == ROWSCAN_END)
			return error_set(err, ERROR_DATA, source_name(in->source),
					 "is empty: no header line");
	}
	return columns_bind(&in->columns, &in->parser, &in->scan, &header, source_name(in->source),
			    err);
}

int row_stream_open(struct row_stream **out, const struct schema *schema, int fd,
		    const struct row_stream_options *options, struct error *err)
{
	struct row_stream *in = calloc(1, sizeof *in);
	if (!in)
		return error_set(err, ERROR_OS, options->name, "out of memory");
	in->schema = schema;
	in->bad_rows_max = options->bad_rows_max;
	if (source_open_fd(&in->source, fd, options->name, err) != 0 ||
	    parser_init(&in->parser, schema, options->label_optional, err) != 0 ||
	    bind_stream(in, err) != 0) {
		row_stream_close(in);
		return -1;
	}
	*out = in;
	return 0;
}

void row_stream_close(struct row_stream *in)
{
	if (!in)
		return;
	source_close(in->source);
	rowscan_free(&in->scan);
	parser_free(&in->parser);
	columns_free(&in->columns);
	free(in);
}

uint64_t row_stream_bad_rows(const struct row_stream *in)
{
	return in->bad_rows;
}

static int row_stream_take_bad(struct row_stream *in, const struct row_ref *ref, size_t at,
			       struct error *err)
{
	if (in->bad_rows < in->bad_rows_max) {
		in->bad_rows++;
		return 0;
	}
	if (err)
		parse_place(err->place, sizeof err->place, source_name(in->source), ref, at);
	return -1;
}

int row_stream_read(struct row_stream *in, size_t max, struct rows *rows, struct error *err)
{
	struct row_ref ref;
	struct error why;
	rows_begin(rows, in->schema);
	while (rows->count < max) {
		size_t at;
		int got = rowscan_next(&in->scan, &ref, rows->count > 0, err);
		if (got < 0)
			return -1;
		if (got != ROWSCAN_ROW)
			break;
		int result = parse_row(&in->parser, &in->columns, &in->scan, &ref, in->number++,
				       rows, &at, &why);
		if (result == PARSE_OK)
			continue;
		if (err)
			*err = why;
		if (result < 0 || row_stream_take_bad(in, &ref, at, err) != 0)
			return -1;
	}
	return 0;
}

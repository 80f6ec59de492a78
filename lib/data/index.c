/*
 * index: see index.h.  Building and using; the file form is in index_file.c.  Must never decide
 * where an index is kept: its callers do.
 */
#include "data/index.h"

#include "base/grow.h"
#include "base/search.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define WINDOWS_BYTES_MAX (UINT64_C(256) << 20)
#define PROGRESS_EVERY (UINT64_C(4) << 20) /* bytes of text */

struct building {
	struct index *ix;
	struct source *source;
	size_t place_room, point_room, window_room, window_at_room;
	size_t places_max, points_max;
	uint64_t span;
	uint64_t window_bytes; /* of all windows */
};

void index_free(struct index *ix)
{
	if (!ix)
		return;
	for (size_t i = 0; ix->window && i < ix->point_count; i++)
		free(ix->window[i]);
	free(ix->window);
	free(ix->window_at);
	free(ix->point);
	free(ix->place);
	free(ix->path);
	free(ix);
}

static int index_no_memory(struct error *err)
{
	return error_set(err, ERROR_OS, "index", "out of memory");
}

/* Removes every second place, and doubles the distance. */
static void thin_places(struct index *ix)
{
	for (size_t i = 0; 2 * i < ix->place_count; i++)
		ix->place[i] = ix->place[2 * i];
	ix->place_count = (ix->place_count + 1) / 2;
	ix->every *= 2;
}

static int add_place(struct building *b, uint64_t offset, uint64_t line, struct error *err)
{
	struct index *ix = b->ix;
	if (ix->rows % ix->every != 0)
		return 0;
	if (ix->place_count == b->places_max) {
		thin_places(ix);
		if (ix->rows % ix->every != 0)
			return 0;
	}
	if (GROW(ix->place, b->place_room, ix->place_count + 1) != 0)
		return index_no_memory(err);
	ix->place[ix->place_count++] = (struct index_place){offset, line};
	return 0;
}

/* Removes every second access point but the first, and doubles the span. */
static void thin_points(struct building *b)
{
	struct index *ix = b->ix;
	size_t kept = 0;
	for (size_t i = 0; i < ix->point_count; i++) {
		if (i % 2 == 1) {
			b->window_bytes -= ix->point[i].window_len;
			free(ix->window[i]);
			continue;
		}
		ix->point[kept] = ix->point[i];
		ix->window[kept] = ix->window[i];
		kept++;
	}
	ix->point_count = kept;
	b->span *= 2;
}

static int grow_points(struct building *b, struct error *err)
{
	struct index *ix = b->ix;
	if (GROW(ix->point, b->point_room, ix->point_count + 1) != 0 ||
	    GROW(ix->window, b->window_room, ix->point_count + 1) != 0 ||
	    GROW(ix->window_at, b->window_at_room, ix->point_count + 1) != 0)
		return index_no_memory(err);
	return 0;
}

static int on_point(const struct source_point *p, const void *window, size_t window_len, void *arg,
		    struct error *err)
{
	struct building *b = arg;
	struct index *ix = b->ix;
	while (ix->point_count > 1 &&
	       (ix->point_count >= b->points_max || b->window_bytes > WINDOWS_BYTES_MAX))
		thin_points(b);
	if (grow_points(b, err) != 0)
		return -1;
	struct source_point point = *p;
	unsigned char *packed = NULL;
	if (window_len) {
		size_t len;
		if (source_pack_window(window, window_len, &packed, &len) != 0)
			return index_no_memory(err);
		unsigned char *shorter = realloc(packed, len);
		if (shorter)
			packed = shorter;
		point.window_len = (uint32_t)len;
		point.window_sum = XXH3_64bits(packed, len);
	}
	ix->point[ix->point_count] = point;
	ix->window[ix->point_count++] = packed;
	b->window_bytes += point.window_len;
	return 0;
}

/* The last access point that is not behind offset. */
static size_t point_before(const struct index *ix, uint64_t offset)
{
	return search_last(&ix->point->out, sizeof *ix->point, ix->point_count, offset);
}

static int enter_point(const struct index *ix, struct source *source, size_t i, struct error *err)
{
	const struct source_point *p = &ix->point[i];
	unsigned char *fetched = NULL, *window;
	size_t len;
	if (p->window_len == 0)
		return source_seek_point(source, p, NULL, 0, err);
	if (!ix->window && index_fetch_window(ix, i, &fetched, err) != 0)
		return -1;
	int rc = source_unpack_window(fetched ? fetched : ix->window[i], p->window_len, &window,
				      &len);
	free(fetched);
	if (rc != 0)
		return error_set(err, ERROR_DATA, ix->path, "damaged index: window %zu", i);
	int result = source_seek_point(source, p, window, len, err);
	free(window);
	return result;
}

/* ---- building ---- */

static int scan_all(struct building *b, struct rowscan *scan, index_progress_fn *progress,
		    void *arg, struct error *err)
{
	struct index *ix = b->ix;
	struct source *source = b->source;
	if (rowscan_start(scan, source, 1, err) != 0)
		return -1;
	struct row_ref row;
	int header = ix->syntax.format == ROW_CSV;
	uint64_t said = 0;
	int result;
	while ((result = rowscan_next(scan, &row, 0, err)) == ROWSCAN_ROW) {
		if (header) {
			header = 0;
			continue;
		}
		if (add_place(b, row.offset, row.line, err) != 0)
			return -1;
		ix->rows++;
		if (progress && row.offset - said >= PROGRESS_EVERY) {
			said = row.offset;
			progress(source_consumed(source), ix->identity.bytes, arg);
		}
	}
	ix->lines = scan->line - 1;
	ix->text_bytes = source_offset(source);
	return result;
}

static int index_build_all(struct building *b, index_progress_fn *progress, void *arg,
			   struct error *err)
{
	struct index *ix = b->ix;
	struct source *source = b->source;
	if (source_identify(source, &ix->identity, err) != 0)
		return -1;
	source_collect(source, &b->span, on_point, b);
	struct rowscan scan;
	int result = rowscan_init(&scan, ix->syntax, err);
	if (result == 0)
		result = scan_all(b, &scan, progress, arg, err);
	ix->syntax = scan.syntax; /* pixels come from the file */
	rowscan_free(&scan);
	source_collect(source, NULL, NULL, NULL);
	if (result == 0 && source_check_unchanged(source, &ix->identity, err) != 0)
		result = error_set(err, ERROR_TEMPFAIL, source_name(source),
				   "was changed while it was indexed");
	if (result == 0 && progress)
		progress(ix->identity.bytes, ix->identity.bytes, arg);
	return result;
}

int index_build_within(struct index **out, struct source *source, struct row_syntax syntax,
		       const struct index_bounds *bounds, index_progress_fn *progress, void *arg,
		       struct error *err)
{
	struct index *ix = calloc(1, sizeof *ix);
	if (!ix)
		return index_no_memory(err);
	ix->syntax = syntax;
	ix->packing = source_packing(source);
	ix->every = bounds->every;
	struct building b = {.ix = ix,
			     .source = source,
			     .places_max = bounds->places_max,
			     .points_max = bounds->points_max,
			     .span = bounds->span};
	int result = index_build_all(&b, progress, arg, err);
	if (result != 0) {
		index_free(ix);
		return -1;
	}
	*out = ix;
	return 0;
}

int index_build(struct index **out, struct source *source, struct row_syntax syntax,
		index_progress_fn *progress, void *arg, struct error *err)
{
	static const struct index_bounds bounds = {INDEX_EVERY, INDEX_PLACES_MAX, INDEX_SPAN,
						   INDEX_POINTS_MAX};
	return index_build_within(out, source, syntax, &bounds, progress, arg, err);
}

static int differs(struct error *err, const char *what)
{
	error_set(err, ERROR_NEGATIVE, "index", "%s", what);
	return 0;
}

int index_is_of(const struct index *ix, struct source *source, struct error *err)
{
	struct source_identity now;
	if (source_identify(source, &now, err) != 0)
		return -1;
	if (now.bytes != ix->identity.bytes)
		return differs(err, "stale: the data file has another size");
	if (now.mtime_ns != ix->identity.mtime_ns)
		return differs(err, "stale: the data file was changed since");
	if (now.head_bytes != ix->identity.head_bytes || now.head_sum != ix->identity.head_sum)
		return differs(err, "stale: the data file begins with other bytes");
	if (source_packing(source) != ix->packing)
		return differs(err, "stale: the data file is compressed in another way");
	return 1;
}

int index_same(const struct index *a, const struct index *b, struct error *err)
{
	if (!row_syntax_same(a->syntax, b->syntax))
		return differs(err, "the formats differ");
	if (a->rows != b->rows || a->lines != b->lines || a->text_bytes != b->text_bytes)
		return differs(err, "the data file holds other rows");
	if (a->every != b->every || a->place_count != b->place_count ||
	    (a->place_count && memcmp(a->place, b->place, a->place_count * sizeof *a->place) != 0))
		return differs(err, "the rows begin elsewhere");
	if (a->point_count != b->point_count)
		return differs(err, "the access points differ");
	for (size_t i = 0; i < a->point_count; i++)
		if (a->point[i].in != b->point[i].in || a->point[i].out != b->point[i].out ||
		    a->point[i].bits != b->point[i].bits)
			return differs(err, "the access points differ");
	return 1;
}

uint64_t index_span_most(const struct index *ix)
{
	uint64_t most = 0;
	for (size_t i = 0; i < ix->point_count; i++) {
		uint64_t end = i + 1 < ix->point_count ? ix->point[i + 1].out : ix->text_bytes;
		most = end - ix->point[i].out > most ? end - ix->point[i].out : most;
	}
	return most;
}

int index_seek(const struct index *ix, struct source *source, struct rowscan *scan, uint64_t row,
	       uint64_t *at, struct error *err)
{
	size_t i = (size_t)(row / ix->every);
	const struct index_place *place = &ix->place[i];
	if (ix->packing == SOURCE_PLAIN) {
		if (source_seek(source, place->offset, err) != 0)
			return -1;
	} else {
		size_t nearest = point_before(ix, place->offset);
		/* The source's present position may already be nearer. */
		uint64_t here = source_offset(source);
		if (here > place->offset || here < ix->point[nearest].out)
			if (enter_point(ix, source, nearest, err) != 0)
				return -1;
		if (source_skip_to(source, place->offset, err) != 0)
			return -1;
	}
	*at = i * ix->every;
	return rowscan_start(scan, source, place->line, err);
}

int index_path(char *out, size_t out_max, const char *data_path, const char *dir, struct error *err)
{
	int n;
	if (!dir) {
		n = snprintf(out, out_max, "%s.rowidx", data_path);
	} else {
		char absolute[PATH_MAX];
		if (!realpath(data_path, absolute))
			return error_errno(err, 0, data_path, "can't be read");
		const char *slash = strrchr(data_path, '/');
		n = snprintf(out, out_max, "%s/%s.%016llx.rowidx", dir,
			     slash ? slash + 1 : data_path,
			     (unsigned long long)XXH3_64bits(absolute, strlen(absolute)));
	}
	if (n < 0 || (size_t)n >= out_max)
		return error_set(err, ERROR_CANTCREAT, data_path, "the index's path is too long");
	return 0;
}

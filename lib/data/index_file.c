/*
 * index_file: the file form of a row index, paceline-index(5).  One record, then tables of 64-bit
 * numbers, least significant byte first, then the windows:
 *
 *     paceline-index version=3 format=csv ... sum=XXXXXXXXXXXXXXXX\n
 *     places:  (offset, line) each
 *     points:  (out, in, bits, window length, window sum) each
 *     windows: one behind the other
 *
 * sum covers the record before it, table-sum both tables, a point's window sum its window: a large
 * index is opened without reading its windows, and nothing unchecked is ever used.
 */
#include "data/index.h"

#include "base/fs.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define INDEX_VERSION 3 /* before, there were points inside of zstd frames */
#define PLACE_BYTES 16
#define POINT_BYTES 40

static void put64(unsigned char *p, uint64_t x)
{
	for (size_t i = 0; i < 8; i++)
		p[i] = (unsigned char)(x >> (8 * i));
}

static uint64_t get64(const unsigned char *p)
{
	uint64_t x = 0;
	for (size_t i = 8; i-- > 0;)
		x = x << 8 | p[i];
	return x;
}

static void hex64(char out[17], uint64_t x)
{
	snprintf(out, 17, "%016llx", (unsigned long long)x);
}

static size_t tables_bytes(const struct index *ix)
{
	return ix->place_count * PLACE_BYTES + ix->point_count * POINT_BYTES;
}

static void put_tables(const struct index *ix, unsigned char *p)
{
	for (size_t i = 0; i < ix->place_count; i++, p += PLACE_BYTES) {
		put64(p, ix->place[i].offset);
		put64(p + 8, ix->place[i].line);
	}
	for (size_t i = 0; i < ix->point_count; i++, p += POINT_BYTES) {
		put64(p, ix->point[i].out);
		put64(p + 8, ix->point[i].in);
		put64(p + 16, ix->point[i].bits);
		put64(p + 24, ix->point[i].window_len);
		put64(p + 32, ix->point[i].window_sum);
	}
}

static size_t index_file_put_head(struct index *ix, const unsigned char *tables, uint64_t windows)
{
	char sum[17];
	struct record_out o;
	record_begin(&o, ix->head, sizeof ix->head, "paceline-index");
	record_add_u64(&o, "version", INDEX_VERSION);
	record_add(&o, "format", row_syntax_name(ix->syntax));
	if (row_syntax_is_odd(ix->syntax)) {
		char separator[8];
		row_separator_text(ix->syntax.separator, separator);
		record_add(&o, "separator", separator);
	}
	if (row_is_image(ix->syntax))
		record_add_u64(&o, "pixels", ix->syntax.pixels);
	record_add(&o, "compression", source_packing_name(ix->packing));
	record_add_u64(&o, "rows", ix->rows);
	record_add_u64(&o, "lines", ix->lines);
	record_add_u64(&o, "text-bytes", ix->text_bytes);
	record_add_u64(&o, "file-bytes", ix->identity.bytes);
	record_add_u64(&o, "mtime-ns", ix->identity.mtime_ns);
	record_add_u64(&o, "head-bytes", ix->identity.head_bytes);
	hex64(sum, ix->identity.head_sum);
	record_add(&o, "head-sum", sum);
	record_add_u64(&o, "every", ix->every);
	record_add_u64(&o, "places", ix->place_count);
	record_add_u64(&o, "points", ix->point_count);
	record_add_u64(&o, "windows-bytes", windows);
	hex64(sum, XXH3_64bits(tables, tables_bytes(ix)));
	record_add(&o, "table-sum", sum);
	hex64(sum, XXH3_64bits(o.data, o.len));
	record_add(&o, "sum", sum);
	return record_end(&o, NULL);
}

/* Computes where each window lies from the lengths; returns the bytes of all windows. */
static uint64_t place_windows(struct index *ix, uint64_t from)
{
	uint64_t at = from;
	for (size_t i = 0; i < ix->point_count; i++) {
		ix->window_at[i] = at;
		at += ix->point[i].window_len;
	}
	return at - from;
}

int index_write(struct index *ix, const char *path, struct error *err)
{
	size_t tables = tables_bytes(ix);
	uint64_t windows = place_windows(ix, 0);
	unsigned char *table = malloc(tables + 1);
	char *name = strdup(path);
	unsigned char *file = malloc(sizeof ix->head + tables + (size_t)windows);
	int result = -1;
	if (!table || !name || !file) {
		error_set(err, ERROR_OS, path, "out of memory");
	} else {
		put_tables(ix, table);
		size_t at = index_file_put_head(ix, table, windows);
		memcpy(file, ix->head, at);
		memcpy(file + at, table, tables);
		place_windows(ix, at + tables);
		for (size_t i = 0; i < ix->point_count; i++)
			if (ix->point[i].window_len)
				memcpy(file + ix->window_at[i], ix->window[i],
				       ix->point[i].window_len);
		result = fs_replace_file(path, file, at + tables + (size_t)windows, err);
	}
	free(table);
	free(file);
	if (result != 0) {
		free(name);
		return -1;
	}
	for (size_t i = 0; ix->window && i < ix->point_count; i++)
		free(ix->window[i]);
	free(ix->window);
	ix->window = NULL;
	free(ix->path);
	ix->path = name;
	return 0;
}

/* ---- reading ---- */

static int index_file_bad(const char *path, struct error *err, const char *why)
{
	return error_set(err, ERROR_DATA, path, "damaged index: %s", why);
}

static int get_hex(const struct record *r, const char *key, uint64_t *out, struct error *err)
{
	const char *text;
	if (record_text(r, key, &text, err) != 0)
		return -1;
	char *end;
	errno = 0;
	unsigned long long x = strtoull(text, &end, 16);
	if (strlen(text) != 16 || *end != '\0' || errno != 0 || text[0] == '-' || text[0] == '+')
		return error_set(err, ERROR_DATA, NULL, "%s=: '%.40s' is no sum", key, text);
	*out = x;
	return 0;
}

/* The first line into ix->head; *len with its newline. */
static int index_file_read_head(struct index *ix, int fd, const char *path, size_t *len,
				struct error *err)
{
	size_t have = 0;
	while (have < sizeof ix->head - 1) {
		ssize_t n = pread(fd, ix->head + have, sizeof ix->head - 1 - have, (off_t)have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, ERROR_IO, path, "read");
		if (n == 0)
			break;
		have += (size_t)n;
	}
	char *newline = memchr(ix->head, '\n', have);
	if (!newline)
		return index_file_bad(path, err, "no first line");
	*len = (size_t)(newline - ix->head) + 1;
	newline[1] = '\0';
	return 0;
}

static int index_file_take_head(struct index *ix, const struct record *r, uint64_t *table_sum,
				uint64_t *windows, struct error *err)
{
	const char *format, *compression;
	uint64_t version, places, points, pixels = 0;
	if (!record_is(r, "paceline-index"))
		return error_set(err, ERROR_DATA, NULL, "it is no index");
	if (record_u64(r, "version", 1, INT64_MAX, &version, err) != 0)
		return -1;
	if (version != INDEX_VERSION)
		return error_set(err, ERROR_DATA, NULL, "it has version %llu, but %d is needed",
				 (unsigned long long)version, INDEX_VERSION);
	if (record_text(r, "format", &format, err) != 0 ||
	    record_text(r, "compression", &compression, err) != 0 ||
	    record_u64(r, "rows", 0, INT64_MAX, &ix->rows, err) != 0 ||
	    record_u64(r, "lines", 0, INT64_MAX, &ix->lines, err) != 0 ||
	    record_u64(r, "text-bytes", 0, INT64_MAX, &ix->text_bytes, err) != 0 ||
	    record_u64(r, "file-bytes", 0, INT64_MAX, &ix->identity.bytes, err) != 0 ||
	    record_u64(r, "mtime-ns", 0, UINT64_MAX, &ix->identity.mtime_ns, err) != 0 ||
	    record_u64(r, "head-bytes", 0, INT64_MAX, &ix->identity.head_bytes, err) != 0 ||
	    get_hex(r, "head-sum", &ix->identity.head_sum, err) != 0 ||
	    record_u64(r, "every", 1, INT64_MAX, &ix->every, err) != 0 ||
	    record_u64(r, "places", 0, INDEX_PLACES_MAX, &places, err) != 0 ||
	    record_u64(r, "points", 0, INDEX_POINTS_MAX, &points, err) != 0 ||
	    record_u64(r, "windows-bytes", 0, INT64_MAX, windows, err) != 0 ||
	    get_hex(r, "table-sum", table_sum, err) != 0)
		return -1;
	int found = row_syntax_find(format, record_get(r, "separator"), &ix->syntax, NULL);
	int packing = source_packing_find(compression);
	if (found == 0 && row_is_image(ix->syntax) &&
	    record_u64(r, "pixels", 1, ROW_PIXELS_MAX, &pixels, err) != 0)
		return -1;
	ix->syntax.pixels = (uint32_t)pixels;
	if (found != 0 || packing < 0)
		return error_set(err, ERROR_DATA, NULL, "unknown format or compression");
	ix->packing = (enum source_packing)packing;
	ix->place_count = (size_t)places;
	ix->point_count = (size_t)points;
	if (places != ix->rows / ix->every + (ix->rows % ix->every != 0) ||
	    (ix->packing != SOURCE_PLAIN && ix->rows && !points))
		return error_set(err, ERROR_DATA, NULL, "too few places");
	return 0;
}

/* The sum over the line up to " sum=" was written last. */
static int check_head(const struct index *ix, size_t len, struct error *err)
{
	char want[32];
	const size_t tail = sizeof " sum=0123456789abcdef\n" - 1;
	if (len < tail)
		return error_set(err, ERROR_DATA, NULL, "first line too short");
	snprintf(want, sizeof want, " sum=%016llx\n",
		 (unsigned long long)XXH3_64bits(ix->head, len - tail));
	if (memcmp(want, ix->head + len - tail, tail) != 0)
		return error_set(err, ERROR_DATA, NULL, "the checksum of its first line differs");
	return 0;
}

static int take_tables(struct index *ix, const unsigned char *p, struct error *err)
{
	ix->place = malloc((ix->place_count + 1) * sizeof *ix->place);
	ix->point = malloc((ix->point_count + 1) * sizeof *ix->point);
	ix->window_at = malloc((ix->point_count + 1) * sizeof *ix->window_at);
	if (!ix->place || !ix->point || !ix->window_at)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < ix->place_count; i++, p += PLACE_BYTES)
		ix->place[i] = (struct index_place){get64(p), get64(p + 8)};
	for (size_t i = 0; i < ix->point_count; i++, p += POINT_BYTES) {
		uint64_t bits = get64(p + 16), window = get64(p + 24);
		if (bits > SOURCE_BITS_MAX || window > SOURCE_PACKED_MAX ||
		    (ix->packing != SOURCE_GZIP && (bits > 0 || window > 0)))
			return error_set(err, ERROR_DATA, NULL, "access point %zu", i);
		ix->point[i] = (struct source_point){.out = get64(p),
						     .in = get64(p + 8),
						     .bits = (uint32_t)bits,
						     .window_len = (uint32_t)window,
						     .window_sum = get64(p + 32)};
	}
	return 0;
}

static int read_tables(struct index *ix, int fd, const char *path, size_t at, uint64_t table_sum,
		       uint64_t windows, struct error *err)
{
	size_t bytes = tables_bytes(ix);
	struct stat st;
	if (fstat(fd, &st) != 0)
		return error_errno(err, ERROR_IO, path, "fstat");
	/* Check the size before we allocate what the first line promises. */
	if ((uint64_t)st.st_size != at + bytes + windows)
		return error_set(err, ERROR_DATA, NULL, "%llu bytes long instead of %llu",
				 (unsigned long long)st.st_size,
				 (unsigned long long)(at + bytes + windows));
	unsigned char *table = malloc(bytes + 1);
	if (!table)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	int result = fs_pread_all(fd, table, bytes, at, NULL, err);
	if (result == 0 && XXH3_64bits(table, bytes) != table_sum)
		result = error_set(err, ERROR_DATA, NULL, "the checksum of its tables differs");
	if (result == 0)
		result = take_tables(ix, table, err);
	if (result == 0 && place_windows(ix, at + bytes) != windows)
		result = error_set(err, ERROR_DATA, NULL, "windows-bytes is not their sum");
	free(table);
	return result;
}

static int index_file_read(struct index *ix, int fd, const char *path, struct error *err)
{
	size_t len = 0;
	uint64_t table_sum, windows;
	struct record *r = malloc(sizeof *r);
	ix->path = strdup(path);
	if (!r || !ix->path) {
		free(r);
		return error_set(err, ERROR_OS, path, "out of memory");
	}
	int result = index_file_read_head(ix, fd, path, &len, err);
	if (result == 0) {
		result = record_parse(r, ix->head, len - 1, err);
		if (result == 0)
			result = check_head(ix, len, err);
		if (result == 0)
			result = index_file_take_head(ix, r, &table_sum, &windows, err);
		if (result == 0)
			result = read_tables(ix, fd, path, len, table_sum, windows, err);
		if (result != 0 && err && err->place[0] == '\0' && err->code == ERROR_DATA) {
			struct error why = *err;
			index_file_bad(path, err, why.text);
		}
	}
	free(r);
	return result;
}

int index_read(struct index **out, const char *path, int check_windows, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	struct index *ix = calloc(1, sizeof *ix);
	int result = ix ? index_file_read(ix, fd, path, err)
			: error_set(err, ERROR_OS, path, "out of memory");
	close(fd);
	for (size_t i = 0; result == 0 && check_windows && i < ix->point_count; i++) {
		if (ix->point[i].window_len == 0)
			continue;
		unsigned char *window = NULL;
		result = index_fetch_window(ix, i, &window, err);
		free(window);
	}
	if (result != 0) {
		index_free(ix);
		return -1;
	}
	*out = ix;
	return 0;
}

int index_fetch_window(const struct index *ix, size_t i, unsigned char **out, struct error *err)
{
	/* Opens the file each time, so that a thousand files cost no descriptors; then checks that
	 * it is still the same index. */
	int fd = open(ix->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, ix->path, "can't be read");
	char head[sizeof ix->head];
	size_t head_len = strlen(ix->head), len = ix->point[i].window_len;
	unsigned char *data = malloc(len + 1);
	int result = data ? 0 : error_set(err, ERROR_OS, ix->path, "out of memory");
	if (result == 0)
		result = fs_pread_all(fd, head, head_len, 0, ix->path, err);
	if (result == 0 && memcmp(head, ix->head, head_len) != 0)
		result = error_set(err, ERROR_TEMPFAIL, ix->path, "was replaced while in use");
	if (result == 0)
		result = fs_pread_all(fd, data, len, ix->window_at[i], ix->path, err);
	if (result == 0 && XXH3_64bits(data, len) != ix->point[i].window_sum)
		result = index_file_bad(ix->path, err, "the checksum of a window differs");
	close(fd);
	if (result != 0) {
		free(data);
		return -1;
	}
	*out = data;
	return 0;
}

/* ---- the one to use ---- */

static int index_file_may_write(const char *path)
{
	char dir[PATH_MAX];
	fs_dirname(path, dir, sizeof dir);
	return access(dir, W_OK) == 0;
}

static int index_file_keep(struct index *ix, const char *path, enum index_keep how,
			   struct error *err)
{
	struct error why;
	if (how == INDEX_KEEP)
		return index_write(ix, path, err);
	if (how == INDEX_KEEP_NOT || !index_file_may_write(path) ||
	    index_write(ix, path, &why) == 0 || why.code == ERROR_IO)
		return 0;
	if (err)
		*err = why;
	return -1;
}

/* 1: the index fits; 0: there is none that fits; -1: the data file can't be read. */
static int read_fitting(struct index **out, struct source *source, struct row_syntax syntax,
			const char *path, struct error *err)
{
	if (index_read(out, path, 0, NULL) != 0)
		return 0;
	int is = row_syntax_same((*out)->syntax, syntax) ? index_is_of(*out, source, err) : 0;
	if (is == 1)
		return 1;
	index_free(*out);
	*out = NULL;
	return is;
}

int index_open(struct index **out, struct source *source, struct row_syntax syntax, const char *path,
	       const struct index_making *making, struct error *err)
{
	*out = NULL;
	int found = making->anew ? 0 : read_fitting(out, source, syntax, path, err);
	if (found != 0)
		return found == 1 ? 0 : -1;
	if (index_build(out, source, syntax, making->progress, making->arg, err) != 0)
		return -1;
	if (index_file_keep(*out, path, making->keep, err) == 0)
		return 0;
	index_free(*out);
	*out = NULL;
	return -1;
}

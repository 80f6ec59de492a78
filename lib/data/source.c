/*
 * source: see source.h.  Knows files and descriptors; packed ones are read by source_gzip.c and
 * source_zstd.c.  Must never know what a row is.
 *
 * Reads go through pread or read into buffers, never through a mapping: a file that is cut short
 * while we read it must be an error, not a SIGBUS.
 */
#include "data/source_internal.h"

#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HEAD_MAX 65536

static const struct source_codec *codec_of(enum source_packing packing)
{
	static const struct source_codec *const codecs[] = {NULL, &source_gzip, &source_zstd};
	return codecs[packing];
}

const char *source_packing_name(enum source_packing packing)
{
	return packing == SOURCE_PLAIN ? "none" : codec_of(packing)->name;
}

int source_packing_find(const char *name)
{
	for (int i = SOURCE_PLAIN; i <= SOURCE_ZSTD; i++)
		if (strcmp(source_packing_name((enum source_packing)i), name) == 0)
			return i;
	return -1;
}

const char *source_name(const struct source *s)
{
	return s->name;
}

enum source_packing source_packing(const struct source *s)
{
	return s->packing;
}

int source_plain_fd(const struct source *s)
{
	return s->regular && s->packing == SOURCE_PLAIN ? s->fd : -1;
}

uint64_t source_offset(const struct source *s)
{
	return s->out_at;
}

uint64_t source_consumed(const struct source *s)
{
	return s->file_at - (s->in_end - s->in_begin);
}

/* One read(2) or pread(2); *got 0 at the end of the file. */
static int read_some(struct source *s, void *data, size_t max, size_t *got, struct error *err)
{
	for (;;) {
		ssize_t n = s->regular ? pread(s->fd, data, max, (off_t)s->file_at)
				       : read(s->fd, data, max);
		if (n >= 0) {
			s->file_at += (uint64_t)n;
			*got = (size_t)n;
			return 0;
		}
		if (errno == EAGAIN) {
			/* Another process made the pipe non-blocking: wait as read(2) would
			 * have. */
			struct pollfd p = {.fd = s->fd, .events = POLLIN};
			if (poll(&p, 1, -1) >= 0 || errno == EINTR)
				continue;
		}
		if (errno != EINTR)
			return error_errno(err, ERROR_IO, s->name, "read");
	}
}

int source_no_memory(const struct source *s, struct error *err)
{
	return error_set(err, ERROR_OS, s->name, "out of memory");
}

int source_fill_input(struct source *s, struct error *err)
{
	if (s->in_eof)
		return 0;
	if (s->in_begin > 0) {
		memmove(s->input, s->input + s->in_begin, s->in_end - s->in_begin);
		s->in_end -= s->in_begin;
		s->in_begin = 0;
	}
	size_t got;
	if (read_some(s, s->input + s->in_end, SOURCE_INPUT_MAX - s->in_end, &got, err) != 0)
		return -1;
	if (got == 0)
		s->in_eof = 1;
	s->in_end += got;
	return 0;
}

int source_want_input(struct source *s, size_t need, struct error *err)
{
	while (s->in_end - s->in_begin < need && !s->in_eof)
		if (source_fill_input(s, err) != 0)
			return -1;
	return 0;
}

/* The longest magic number of a compression format. */
#define MARK_MAX 4

static int find_packing(struct source *s, struct error *err)
{
	s->input = malloc(SOURCE_INPUT_MAX);
	if (!s->input)
		return source_no_memory(s, err);
	if (source_want_input(s, MARK_MAX, err) != 0)
		return -1;
	for (int i = SOURCE_GZIP; i <= SOURCE_ZSTD; i++) {
		const struct source_codec *codec = codec_of((enum source_packing)i);
		if (!codec->matches(s->input + s->in_begin, s->in_end - s->in_begin))
			continue;
		if (codec->open(s, err) != 0)
			return -1;
		s->packing = (enum source_packing)i;
		break;
	}
	return 0;
}

static int source_make(struct source **out, int fd, int owns, int regular, const char *name,
		       struct error *err)
{
	struct source *s = calloc(1, sizeof *s);
	if (s) {
		*s = (struct source){.fd = fd, .owns_fd = owns, .regular = regular};
		s->name = strdup(name);
	}
	if (!s || !s->name) {
		free(s);
		if (owns)
			close(fd);
		return error_set(err, ERROR_OS, name, "out of memory");
	}
	if (find_packing(s, err) != 0) {
		source_close(s);
		return -1;
	}
	*out = s;
	return 0;
}

static int not_regular(const char *path, mode_t mode, struct error *err)
{
	static const char why[] = "rows are read by number, and more than once";
	if (S_ISDIR(mode))
		return error_set(err, ERROR_NOINPUT, path, "is a directory, not a file of rows");
	if (S_ISFIFO(mode))
		return error_set(err, ERROR_NOINPUT, path,
				 "is a pipe, but a file is needed: %s. Write one first: COMMAND | pzstd "
				 ">rows.csv.zst",
				 why);
	return error_set(err, ERROR_NOINPUT, path, "is a %s, but a file is needed: %s",
			 S_ISSOCK(mode) ? "socket" : "device", why);
}

int source_open(struct source **out, const char *path, struct error *err)
{
	/* Non-blocking, so that a FIFO is refused at once, without waiting for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st = {0};
	/* A socket can't even be opened. */
	if (fd < 0 && errno == ENXIO && stat(path, &st) == 0)
		return not_regular(path, st.st_mode, err);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return not_regular(path, st.st_mode, err);
	}
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return source_make(out, fd, 1, 1, path, err);
}

int source_open_fd(struct source **out, int fd, const char *name, struct error *err)
{
	return source_make(out, fd, 0, 0, name, err);
}

void source_close(struct source *s)
{
	if (!s)
		return;
	if (s->unpack)
		codec_of(s->packing)->close(s);
	if (s->owns_fd)
		close(s->fd);
	free(s->input);
	free(s->name);
	free(s);
}

static uint64_t mtime_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)st->st_mtim.tv_nsec;
}

int source_identify(struct source *s, struct source_identity *out, struct error *err)
{
	struct stat st;
	if (fstat(s->fd, &st) != 0)
		return error_errno(err, ERROR_IO, s->name, "fstat");
	uint64_t size = (uint64_t)st.st_size;
	size_t head = size < HEAD_MAX ? (size_t)size : HEAD_MAX;
	unsigned char *data = malloc(HEAD_MAX);
	if (!data)
		return error_set(err, ERROR_OS, s->name, "out of memory");
	int result = fs_pread_all(s->fd, data, head, 0, s->name, err);
	if (result == 0)
		*out = (struct source_identity){.bytes = size,
						.mtime_ns = mtime_ns(&st),
						.head_bytes = head,
						.head_sum = XXH3_64bits(data, head)};
	free(data);
	return result;
}

int source_check_unchanged(struct source *s, const struct source_identity *id, struct error *err)
{
	struct stat st;
	if (fstat(s->fd, &st) != 0)
		return error_errno(err, ERROR_IO, s->name, "fstat");
	if ((uint64_t)st.st_size != id->bytes || mtime_ns(&st) != id->mtime_ns)
		return error_set(err, ERROR_DATA, s->name, "was changed while in use");
	return 0;
}

static int read_plain(struct source *s, void *data, size_t max, size_t *got, struct error *err)
{
	size_t left = s->in_end - s->in_begin;
	if (left == 0)
		return s->in_eof ? (*got = 0, 0) : read_some(s, data, max, got, err);
	if (left > max)
		left = max;
	memcpy(data, s->input + s->in_begin, left);
	s->in_begin += left;
	*got = left;
	return 0;
}

int source_damaged(const struct source *s, struct error *err, const char *why)
{
	return error_set(err, ERROR_DATA, s->name, "byte %llu: the %s data is damaged (%s)",
			 (unsigned long long)source_consumed(s), source_packing_name(s->packing), why);
}

int source_truncated(const struct source *s, struct error *err)
{
	return error_set(err, ERROR_DATA, s->name,
			 "byte %llu: the %s data ends too early (truncated file?)",
			 (unsigned long long)source_consumed(s), source_packing_name(s->packing));
}

int source_begin_unit(struct source *s, struct error *err)
{
	struct source_point p = {.out = s->out_at, .in = source_consumed(s)};
	if (s->point && (s->units == 0 || s->out_at - s->last_point >= *s->span)) {
		if (s->point(&p, NULL, 0, s->point_arg, err) != 0)
			return -1;
		s->last_point = s->out_at;
	}
	s->units++;
	return 0;
}

int source_read(struct source *s, void *data, size_t max, size_t *got, struct error *err)
{
	if (s->packing != SOURCE_PLAIN)
		return codec_of(s->packing)->read(s, data, max, got, err);
	if (read_plain(s, data, max, got, err) != 0)
		return -1;
	s->out_at += *got;
	return 0;
}

int source_check_text(const struct source *s, struct error *err)
{
	static const struct {
		const char *mark;
		size_t len;
		const char *what, *how;
	} foreign[] = {
		{"PAR1\x15", 5, "Parquet", NULL},
		{"ARROW1\0", 7, "Arrow (Feather)", NULL},
		{"Obj\1", 4, "Avro", NULL},
		{"\x89HDF", 4, "HDF5", NULL},
		{"SQLite format 3", 16, "an SQLite database", NULL},
		{"PK\3\4", 4, "a zip archive or a spreadsheet", NULL},
		{"\xfd" "7zXZ", 6, "xz", "xz -dc"},
		{"BZh91AY&SY", 10, "bzip2", "bzip2 -dc"},
		{"\x04\x22\x4d\x18", 4, "lz4", "lz4 -dc"},
		{"\xff\xfe", 2, "UTF-16 text", "iconv -f UTF-16 -t UTF-8"},
		{"\xfe\xff", 2, "UTF-16 text", "iconv -f UTF-16 -t UTF-8"},
	};
	const unsigned char *head = s->input + s->in_begin;
	if (s->packing != SOURCE_PLAIN || s->out_at > 0)
		return 0;
	for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
		if (s->in_end - s->in_begin < foreign[i].len ||
		    memcmp(head, foreign[i].mark, foreign[i].len) != 0)
			continue;
		if (foreign[i].how)
			return error_set(err, ERROR_DATA, s->name,
					 "is %s, which Paceline does not read; convert it to zstd: %s FILE | pzstd "
					 ">FILE.zst",
					 foreign[i].what, foreign[i].how);
		return error_set(err, ERROR_DATA, s->name,
				 "is %s, which Paceline does not read; write its rows as csv "
				 "(paceline-job(5), EXAMPLES)",
				 foreign[i].what);
	}
	return 0;
}

int source_ready(struct source *s)
{
	if (s->regular || s->in_begin < s->in_end || s->in_eof || s->pending || s->done)
		return 1;
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	return poll(&p, 1, 0) != 0;
}

void source_collect(struct source *s, uint64_t *span, source_point_fn *point, void *arg)
{
	s->span = span;
	s->point = s->packing != SOURCE_PLAIN ? point : NULL;
	s->point_arg = arg;
}

void source_jump(struct source *s, uint64_t file_at, uint64_t out_at)
{
	s->file_at = file_at;
	s->out_at = out_at;
	s->in_begin = s->in_end = 0;
	s->in_eof = 0;
	s->pending = s->done = 0;
}

int source_seek(struct source *s, uint64_t offset, struct error *err)
{
	if (!s->regular || s->packing != SOURCE_PLAIN)
		return error_set(err, ERROR_SOFTWARE, s->name, "can't seek there");
	source_jump(s, offset, offset);
	return 0;
}

int source_seek_point(struct source *s, const struct source_point *p, const void *window,
		      size_t window_len, struct error *err)
{
	if (!s->regular || s->packing == SOURCE_PLAIN)
		return error_set(err, ERROR_SOFTWARE, s->name, "can't seek there");
	source_jump(s, p->in, p->out);
	return codec_of(s->packing)->seek(s, p, window, window_len, err);
}

int source_skip_to(struct source *s, uint64_t offset, struct error *err)
{
	if (s->packing == SOURCE_PLAIN && s->regular)
		return source_seek(s, offset, err);
	char *scratch = malloc(SOURCE_INPUT_MAX);
	if (!scratch)
		return error_set(err, ERROR_OS, s->name, "out of memory");
	int result = 0;
	while (result == 0 && s->out_at < offset) {
		uint64_t left = offset - s->out_at;
		size_t got;
		result = source_read(s, scratch, left < SOURCE_INPUT_MAX ? (size_t)left : SOURCE_INPUT_MAX, &got,
				     err);
		if (result == 0 && got == 0)
			result = error_set(err, ERROR_DATA, s->name,
					   "ends at byte %llu of the text, before byte %llu",
					   (unsigned long long)s->out_at, (unsigned long long)offset);
	}
	free(scratch);
	return result;
}

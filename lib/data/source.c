/*
 * source: see source.h.  Knows files, descriptors and gzip; must never know what a row is.
 *
 * Reads go through pread or read into buffers, never through a mapping: a file that is cut short
 * while we read it must be an error, not a SIGBUS.
 */
#include "data/source.h"

#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define INPUT_MAX 131072
#define HEAD_MAX 65536
#define GZIP_TRAILER 8 /* CRC-32 and length behind each member */

enum gzip_state {
	GZIP_BETWEEN, /* a member may begin here, or the file ends */
	GZIP_MEMBER,  /* zlib reads header, blocks and trailer */
	GZIP_RAW,     /* entered at an access point: blocks only, the trailer is ours to skip */
	GZIP_DONE
};

struct source {
	int fd;
	int owns_fd, regular, gzip;
	char *name;
	uint64_t file_at;    /* bytes of the file read into input */
	uint64_t out_at;     /* offset in the text */
	unsigned char *input; /* read and not yet used: input[in_begin .. in_end) */
	size_t in_begin, in_end;
	int in_eof;
	z_stream z;
	int z_ready;
	int z_pending; /* the last call filled its room: zlib may hold more text already */
	enum gzip_state state;
	uint64_t members;
	source_point_fn *point;
	void *point_arg;
	uint64_t *span;
	uint64_t last_point;
};

const char *source_name(const struct source *s)
{
	return s->name;
}

int source_is_gzip(const struct source *s)
{
	return s->gzip;
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
			/* Someone else made the pipe non-blocking: wait as read would have. */
			struct pollfd p = {.fd = s->fd, .events = POLLIN};
			if (poll(&p, 1, -1) >= 0 || errno == EINTR)
				continue;
		}
		if (errno != EINTR)
			return error_errno(err, ERROR_IO, s->name, "read");
	}
}

/* More compressed input behind what is left of it. */
static int fill_input(struct source *s, struct error *err)
{
	if (s->in_eof)
		return 0;
	if (s->in_begin > 0) {
		memmove(s->input, s->input + s->in_begin, s->in_end - s->in_begin);
		s->in_end -= s->in_begin;
		s->in_begin = 0;
	}
	size_t got;
	if (read_some(s, s->input + s->in_end, INPUT_MAX - s->in_end, &got, err) != 0)
		return -1;
	if (got == 0)
		s->in_eof = 1;
	s->in_end += got;
	return 0;
}

/* At least `need` bytes of input unless the file ends before. */
static int want_input(struct source *s, size_t need, struct error *err)
{
	while (s->in_end - s->in_begin < need && !s->in_eof)
		if (fill_input(s, err) != 0)
			return -1;
	return 0;
}

static int looks_gzip(const struct source *s)
{
	return s->in_end - s->in_begin >= 2 && s->input[s->in_begin] == 0x1f &&
	       s->input[s->in_begin + 1] == 0x8b;
}

static int find_compression(struct source *s, struct error *err)
{
	s->input = malloc(INPUT_MAX);
	if (!s->input)
		return error_set(err, ERROR_OS, s->name, "out of memory");
	if (want_input(s, 2, err) != 0)
		return -1;
	s->gzip = looks_gzip(s);
	if (!s->gzip)
		return 0;
	/* 31: gzip header and trailer, the largest window. */
	if (inflateInit2(&s->z, 31) != Z_OK)
		return error_set(err, ERROR_OS, s->name, "out of memory");
	s->z_ready = 1;
	return 0;
}

static int make(struct source **out, int fd, int owns, int regular, const char *name,
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
	if (find_compression(s, err) != 0) {
		source_close(s);
		return -1;
	}
	*out = s;
	return 0;
}

int source_open(struct source **out, const char *path, struct error *err)
{
	/* Not blocking, so that a FIFO is refused instead of waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	struct stat st;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return error_set(err, ERROR_NOINPUT, path, "is not a regular file");
	}
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return make(out, fd, 1, 1, path, err);
}

int source_open_fd(struct source **out, int fd, const char *name, struct error *err)
{
	return make(out, fd, 0, 0, name, err);
}

void source_close(struct source *s)
{
	if (!s)
		return;
	if (s->z_ready)
		inflateEnd(&s->z);
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

static int damaged(struct source *s, struct error *err, const char *why)
{
	return error_set(err, ERROR_DATA, s->name, "byte %llu: the gzip data is damaged (%s)",
			 (unsigned long long)source_consumed(s), why);
}

static int truncated(struct source *s, struct error *err)
{
	return error_set(err, ERROR_DATA, s->name,
			 "byte %llu: the gzip data ends too early (truncated file?)",
			 (unsigned long long)source_consumed(s));
}

/* Behind a member: another one, zero padding up to the end, or the end. */
static int next_member(struct source *s, struct error *err)
{
	if (want_input(s, 2, err) != 0)
		return -1;
	if (looks_gzip(s)) {
		if (inflateReset2(&s->z, 31) != Z_OK)
			return damaged(s, err, "inflateReset2");
		s->state = GZIP_MEMBER;
		struct source_point p = {.out = s->out_at, .in = source_consumed(s)};
		if (s->point && (s->members == 0 || s->out_at - s->last_point >= *s->span)) {
			if (s->point(&p, NULL, 0, s->point_arg, err) != 0)
				return -1;
			s->last_point = s->out_at;
		}
		s->members++;
		return 0;
	}
	for (;;) {
		while (s->in_begin < s->in_end && s->input[s->in_begin] == 0)
			s->in_begin++;
		if (s->in_begin < s->in_end)
			return damaged(s, err, "bytes behind the last member that are no gzip");
		if (s->in_eof)
			break;
		if (fill_input(s, err) != 0)
			return -1;
	}
	s->state = GZIP_DONE;
	return 0;
}

static int skip_trailer(struct source *s, struct error *err)
{
	if (want_input(s, GZIP_TRAILER, err) != 0)
		return -1;
	if (s->in_end - s->in_begin < GZIP_TRAILER) {
		s->in_begin = s->in_end;
		return truncated(s, err);
	}
	s->in_begin += GZIP_TRAILER;
	return 0;
}

/* At a block boundary: an access point when the last one is far enough back. */
static int maybe_point(struct source *s, struct error *err)
{
	/* 128: between two blocks; 64: the last block is over, nothing of it follows. */
	if (!(s->z.data_type & 128) || (s->z.data_type & 64) ||
	    s->out_at - s->last_point < *s->span)
		return 0;
	unsigned char window[SOURCE_WINDOW_MAX];
	uInt len = 0;
	if (inflateGetDictionary(&s->z, window, &len) != Z_OK || len == 0)
		return 0;
	struct source_point p = {.out = s->out_at,
				 .in = source_consumed(s),
				 .bits = (uint32_t)(s->z.data_type & 7)};
	s->last_point = s->out_at;
	return s->point(&p, window, len, s->point_arg, err);
}

/* One call of inflate(); *got bytes of text. */
static int inflate_some(struct source *s, void *data, size_t max, size_t *got, struct error *err)
{
	*got = 0;
	if (!s->z_pending && want_input(s, 1, err) != 0)
		return -1;
	s->z.next_in = s->input + s->in_begin;
	s->z.avail_in = (uInt)(s->in_end - s->in_begin);
	s->z.next_out = data;
	s->z.avail_out = max > 1u << 30 ? 1u << 30 : (uInt)max;
	uInt room = s->z.avail_out;
	int rc = inflate(&s->z, s->point ? Z_BLOCK : Z_NO_FLUSH);
	s->in_begin = s->in_end - s->z.avail_in;
	*got = room - s->z.avail_out;
	s->out_at += *got;
	s->z_pending = s->z.avail_out == 0;
	switch (rc) {
	case Z_STREAM_END:
		if (s->state == GZIP_RAW && skip_trailer(s, err) != 0)
			return -1;
		s->state = GZIP_BETWEEN;
		return 0;
	case Z_OK:
		return s->point ? maybe_point(s, err) : 0;
	case Z_BUF_ERROR:
		if (s->in_eof && s->in_begin == s->in_end && *got == 0)
			return truncated(s, err);
		/* zlib holds what it was given and wants more. */
		return s->in_begin == s->in_end ? fill_input(s, err) : 0;
	case Z_MEM_ERROR:
		return error_set(err, ERROR_OS, s->name, "out of memory");
	default:
		return damaged(s, err, s->z.msg ? s->z.msg : "inflate");
	}
}

static int read_gzip(struct source *s, void *data, size_t max, size_t *got, struct error *err)
{
	*got = 0;
	while (*got == 0 && s->state != GZIP_DONE) {
		if (s->state == GZIP_BETWEEN) {
			if (next_member(s, err) != 0)
				return -1;
			continue;
		}
		if (inflate_some(s, data, max, got, err) != 0)
			return -1;
	}
	return 0;
}

int source_read(struct source *s, void *data, size_t max, size_t *got, struct error *err)
{
	if (s->gzip)
		return read_gzip(s, data, max, got, err);
	if (read_plain(s, data, max, got, err) != 0)
		return -1;
	s->out_at += *got;
	return 0;
}

int source_ready(struct source *s)
{
	if (s->regular || s->in_begin < s->in_end || s->in_eof || s->z_pending || s->state == GZIP_DONE)
		return 1;
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	return poll(&p, 1, 0) != 0;
}

void source_collect(struct source *s, uint64_t *span, source_point_fn *point, void *arg)
{
	s->span = span;
	s->point = s->gzip ? point : NULL;
	s->point_arg = arg;
}

static void jump(struct source *s, uint64_t file_at, uint64_t out_at)
{
	s->file_at = file_at;
	s->out_at = out_at;
	s->in_begin = s->in_end = 0;
	s->in_eof = 0;
	s->z_pending = 0;
}

int source_seek(struct source *s, uint64_t offset, struct error *err)
{
	if (!s->regular || s->gzip)
		return error_set(err, ERROR_SOFTWARE, s->name, "can't seek there");
	jump(s, offset, offset);
	return 0;
}

int source_seek_point(struct source *s, const struct source_point *p, const void *window,
		      size_t window_len, struct error *err)
{
	if (!s->regular || !s->gzip)
		return error_set(err, ERROR_SOFTWARE, s->name, "can't seek there");
	if (p->window_len == 0) {
		jump(s, p->in, p->out);
		s->state = GZIP_BETWEEN;
		return 0;
	}
	jump(s, p->in - (p->bits ? 1 : 0), p->out);
	if (inflateReset2(&s->z, -15) != Z_OK)
		return damaged(s, err, "inflateReset2");
	if (p->bits) {
		if (want_input(s, 1, err) != 0)
			return -1;
		if (s->in_begin == s->in_end)
			return truncated(s, err);
		int byte = s->input[s->in_begin++];
		if (inflatePrime(&s->z, (int)p->bits, byte >> (8 - p->bits)) != Z_OK)
			return damaged(s, err, "inflatePrime");
	}
	if (inflateSetDictionary(&s->z, window, (uInt)window_len) != Z_OK)
		return damaged(s, err, "inflateSetDictionary");
	s->state = GZIP_RAW;
	return 0;
}

int source_skip_to(struct source *s, uint64_t offset, struct error *err)
{
	if (!s->gzip && s->regular)
		return source_seek(s, offset, err);
	char *scratch = malloc(INPUT_MAX);
	if (!scratch)
		return error_set(err, ERROR_OS, s->name, "out of memory");
	int result = 0;
	while (result == 0 && s->out_at < offset) {
		uint64_t left = offset - s->out_at;
		size_t got;
		result = source_read(s, scratch, left < INPUT_MAX ? (size_t)left : INPUT_MAX, &got,
				     err);
		if (result == 0 && got == 0)
			result = error_set(err, ERROR_DATA, s->name,
					   "ends at byte %llu of the text, before byte %llu",
					   (unsigned long long)s->out_at, (unsigned long long)offset);
	}
	free(scratch);
	return result;
}

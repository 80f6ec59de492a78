/*
 * part_write: part files, written in one pass (part.h).  It may run in a forked child of a server:
 * its memory grows with the index only.
 */
#include "ckpt/part.h"

#include "base/fs.h"
#include "base/grow.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

struct part_writer {
	char *path;
	int fd;
	int stays; /* the file existed before: it is not removed */
	struct stream_sink sink;
	uint64_t offset;
	XXH3_state_t *file_sum, *index_sum;
	char *index;
	size_t index_len, index_room;
};

/* Appends bytes to the file and to its sum. */
static int part_write_append(struct part_writer *w, const void *data, size_t len, struct error *err)
{
	if (len && fs_write_all(w->fd, data, len, w->path, err) != 0)
		return -1;
	XXH3_64bits_update(w->file_sum, data, len);
	w->offset += len;
	return 0;
}

/* The first record is written at once; all others go to the index. */
static int part_write_put(void *writer, struct record_out *r, const void *values, size_t bytes,
			  struct error *err)
{
	struct part_writer *w = writer;
	size_t len = record_end(r, NULL);

	if (len == 0)
		return error_set(err, ERROR_SOFTWARE, w->path, "an index line is too long");
	if (w->offset == 0) {
		XXH3_64bits_update(w->index_sum, r->data, len);
		return part_write_append(w, r->data, len, err);
	}
	if (GROW(w->index, w->index_room, w->index_len + len) != 0)
		return error_set(err, ERROR_OS, w->path, "out of memory");
	memcpy(w->index + w->index_len, r->data, len);
	w->index_len += len;
	return part_write_append(w, values, bytes, err);
}

static int create(struct part_writer **out, int fd, const char *path, struct error *err)
{
	struct part_writer *w = calloc(1, sizeof *w);

	if (!w)
		return error_set(err, ERROR_OS, path, "out of memory");
	w->fd = -1;
	w->sink = (struct stream_sink){
		.put = part_write_put, .owner = w, .at = &w->offset, .level = PLANES_LEVEL};
	w->path = strdup(path);
	w->file_sum = XXH3_createState();
	w->index_sum = XXH3_createState();
	if (!w->path || !w->file_sum || !w->index_sum) {
		error_set(err, ERROR_OS, path, "out of memory");
		part_abandon(w);
		return -1;
	}
	XXH3_64bits_reset(w->file_sum);
	XXH3_64bits_reset(w->index_sum);
	w->stays = fd >= 0;
	w->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0)
			: open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (w->fd < 0) {
		error_errno(err, ERROR_CANTCREAT, path, "can't be made");
		part_abandon(w);
		return -1;
	}
	*out = w;
	return 0;
}

int part_create(struct part_writer **out, const char *path, struct error *err)
{
	return create(out, -1, path, err);
}

int part_create_in(struct part_writer **out, int fd, const char *name, struct error *err)
{
	return create(out, fd, name, err);
}

void part_compress(struct part_writer *w, int level, struct team *team)
{
	w->sink.level = level;
	w->sink.team = team;
}

const struct stream_sink *part_sink(struct part_writer *w)
{
	return &w->sink;
}

/* Writes the index and the last line, behind the blocks. */
static int put_index(struct part_writer *w, struct error *err)
{
	char end[PART_END_BYTES + 1];

	snprintf(end, sizeof end, PART_END_FORMAT, w->offset);
	XXH3_64bits_update(w->index_sum, w->index, w->index_len);
	XXH3_64bits_update(w->index_sum, end, PART_END_PREFIX_BYTES);
	snprintf(end + PART_END_PREFIX_BYTES, sizeof end - PART_END_PREFIX_BYTES,
		 "%016" PRIx64 "\n", (uint64_t)XXH3_64bits_digest(w->index_sum));
	if (part_write_append(w, w->index, w->index_len, err) != 0)
		return -1;
	return part_write_append(w, end, PART_END_BYTES, err);
}

static int part_write_finish(struct part_writer *w, struct error *err)
{
	if (put_index(w, err) != 0)
		return -1;
	if (fsync(w->fd) != 0)
		return error_errno(err, ERROR_IO, w->path, "fsync");
	int fd = w->fd;
	w->fd = -1;
	if (close(fd) != 0) {
		error_errno(err, ERROR_IO, w->path, "close");
		if (!w->stays)
			unlink(w->path);
		return -1;
	}
	return 0;
}

int part_finish(struct part_writer *w, uint64_t *bytes, uint64_t *sum, struct error *err)
{
	int result = part_write_finish(w, err);

	if (result == 0) {
		*bytes = w->offset;
		*sum = XXH3_64bits_digest(w->file_sum);
	}
	part_abandon(w);
	return result;
}

void part_abandon(struct part_writer *w)
{
	if (!w)
		return;
	/* An open descriptor here means that the file was not finished. */
	if (w->fd >= 0) {
		close(w->fd);
		if (!w->stays)
			unlink(w->path);
	}
	XXH3_freeState(w->file_sum);
	XXH3_freeState(w->index_sum);
	free(w->index);
	free(w->path);
	free(w);
}

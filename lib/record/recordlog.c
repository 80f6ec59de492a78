/* recordlog: see recordlog.h. An effect, apart from the pure files of this room: it knows nothing
 * of what the lines mean. */
#include "record/recordlog.h"

#include "base/grow.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GATHER_MAX (1u << 20) /* lines beyond this are written at once */

/* Removes an incomplete last line, left by a power cut: a reader would stop at it. */
static void drop_torn_line(int fd)
{
	char tail[RECORD_LINE_MAX];
	struct stat st;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	off_t begin = st.st_size > (off_t)sizeof tail ? st.st_size - (off_t)sizeof tail : 0;
	ssize_t n = pread(fd, tail, sizeof tail, begin);
	ssize_t keep = n;
	while (keep > 0 && tail[keep - 1] != '\n')
		keep--;
	if (keep < n && (keep > 0 || begin == 0))
		(void)!ftruncate(fd, begin + keep);
}

static int recordlog_open_file(const char *path, int *fd, struct error *err)
{
	/* A FIFO may have no reader for hours: better lose lines than block. */
	*fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	if (*fd < 0)
		return error_errno(err, ERROR_CANTCREAT, path, "can't be opened for appending");
	drop_torn_line(*fd);
	return 0;
}

int recordlog_open(struct recordlog *log, const char *path, struct error *err)
{
	*log = (struct recordlog){.path = path, .fd = -1};
	return recordlog_open_file(path, &log->fd, err);
}

int recordlog_reopen(struct recordlog *log, struct error *err)
{
	int fd;
	int result = recordlog_flush(log, err);
	if (recordlog_open_file(log->path, &fd, err) != 0)
		return -1;
	close(log->fd);
	log->fd = fd;
	return result;
}

void recordlog_close(struct recordlog *log)
{
	if (log->fd >= 0)
		close(log->fd);
	free(log->data);
	*log = (struct recordlog){.fd = -1};
}

/* Removes the part of a batch that was written before the disk was full. */
static void cut_back(int fd, size_t written)
{
	struct stat st;
	if (written > 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    (size_t)st.st_size >= written)
		(void)!ftruncate(fd, st.st_size - (off_t)written);
}

/* Writes all gathered lines, or none. */
static int recordlog_write_out(struct recordlog *log, struct error *err)
{
	size_t written = 0;
	int result = 0;
	while (written < log->len) {
		ssize_t n = write(log->fd, log->data + written, log->len - written);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			result = error_errno(err, ERROR_IO, log->path, "write");
			cut_back(log->fd, written);
			break;
		}
		written += (size_t)n;
	}
	if (result != 0) {
		log->lost += log->lines;
	} else if (log->len > 0) {
		log->lost = 0;
		log->is_told = 0;
	}
	log->len = 0;
	log->lines = 0;
	return result;
}

void recordlog_add(struct recordlog *log, const char *line, size_t len)
{
	if (log->len + len > GATHER_MAX)
		(void)recordlog_write_out(log, NULL); /* reported by the next flush that fails */
	if (GROW(log->data, log->room, log->len + len) != 0) {
		log->lost++;
		return;
	}
	memcpy(log->data + log->len, line, len);
	log->len += len;
	log->lines++;
}

int recordlog_flush(struct recordlog *log, struct error *err)
{
	if (recordlog_write_out(log, err) == 0 || log->is_told)
		return 0;
	log->is_told = 1;
	return -1;
}

int recordlog_turn(struct recordlog *log, struct error *err)
{
	char older[PATH_MAX];
	struct stat st, named;
	int result = 0;
	if (log->fd < 0 || fstat(log->fd, &st) != 0 || !S_ISREG(st.st_mode))
		return 0;
	int is_gone = stat(log->path, &named) != 0
			      ? errno == ENOENT
			      : named.st_ino != st.st_ino || named.st_dev != st.st_dev;
	if (!is_gone && st.st_size < RECORDLOG_BYTES_MAX)
		return 0;
	snprintf(older, sizeof older, "%s.1", log->path);
	if (!is_gone && rename(log->path, older) != 0)
		result = error_errno(err, ERROR_IO, older, "rename");
	if (result == 0)
		result = recordlog_reopen(log, err) == 0 ? 1 : -1;
	if (result < 0 && log->is_stuck)
		return 0;
	log->is_stuck = result < 0;
	return result;
}

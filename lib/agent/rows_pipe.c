/* rows_pipe: see rows_pipe.h. */
#include "agent/rows_pipe.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PIPE_BYTES (1 << 20)

struct rows_pipe {
	struct rows_reader *reader; /* the thread's */
	pthread_t thread;
	int has_thread;
	int cancel, news; /* eventfds */

	pthread_mutex_t mutex;
	pthread_cond_t change;
	/* below: under the mutex */
	int quit, has_ended, at_work;
	int write_end;  /* -1: closed; the thread's while at_work */
	int read_end;   /* in state ALL, to see what is left in it; else -1 */
	int has_header; /* is still to be written */
	struct piece *piece; /* [first, count) are to be written */
	size_t first, count, room;
	enum rows_pipe_state state;
	struct error error;
};

static void signal_fd(int fd)
{
	uint64_t one = 1;
	while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

static void drain_fd(int fd)
{
	uint64_t count;
	while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
		;
}

/* Nothing more is written. */
static void rows_pipe_finish(struct rows_pipe *p, enum rows_pipe_state state)
{
	char name[64];
	if (state == ROWS_PIPE_ALL) {
		/* Keeps the pipe open: otherwise we could not ask how much is left in it. */
		snprintf(name, sizeof name, "/proc/self/fd/%d", p->write_end);
		p->read_end = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	}
	fs_close(&p->write_end);
	p->first = p->count = 0;
	p->state = state;
	signal_fd(p->news);
}

/* ---- the thread ---- */

/* With the mutex: finds the next bytes to write, and records the result. */
static int write_next(struct rows_pipe *p, struct error *err)
{
	struct rows_sink to = {.fd = p->write_end, .cancel = p->cancel};
	struct piece piece = p->has_header ? (struct piece){0} : p->piece[p->first];
	int has_header = p->has_header;
	p->at_work = 1;
	pthread_mutex_unlock(&p->mutex);
	int result = has_header ? rows_reader_header(p->reader, &to, err)
				: rows_reader_give(p->reader, &piece, &to, err);
	pthread_mutex_lock(&p->mutex);
	p->at_work = 0;
	if (has_header)
		p->has_header = 0;
	else
		p->first++;
	return result;
}

static void *rows_pipe_work(void *arg)
{
	struct rows_pipe *p = arg;
	pthread_mutex_lock(&p->mutex);
	while (!p->quit) {
		int is_open = p->state == ROWS_PIPE_OPEN && p->write_end >= 0;
		if (is_open && (p->has_header || p->first < p->count)) {
			int result = write_next(p, &p->error);
			if (result == ROWS_GIVEN)
				signal_fd(p->news);
			else
				rows_pipe_finish(p, result < 0 ? ROWS_PIPE_BAD : ROWS_PIPE_CLOSED);
			pthread_cond_broadcast(&p->change);
		} else if (is_open && p->has_ended) {
			rows_pipe_finish(p, ROWS_PIPE_ALL);
		} else {
			pthread_cond_wait(&p->change, &p->mutex);
		}
	}
	pthread_mutex_unlock(&p->mutex);
	return NULL;
}

/* ---- the owner ---- */

static int rows_pipe_start(struct rows_pipe *p, struct error *err)
{
	int errnum = thread_start(&p->thread, rows_pipe_work, p);
	if (errnum != 0)
		return error_set(err, ERROR_OS, "", "thread: %s", strerror(errnum));
	p->has_thread = 1;
	return 0;
}

int rows_pipe_new(struct rows_pipe **out, const struct rows_text *text, struct error *err)
{
	struct rows_pipe *p = calloc(1, sizeof *p);
	if (!p)
		return error_set(err, ERROR_OS, "", "out of memory");
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->change, NULL);
	p->write_end = p->read_end = -1;
	p->state = ROWS_PIPE_CLOSED;
	p->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int result = p->cancel < 0 || p->news < 0 ? error_errno(err, ERROR_OS, "", "eventfd")
						  : rows_reader_new(&p->reader, text, err);
	if (result == 0)
		result = rows_pipe_start(p, err);
	if (result != 0) {
		rows_pipe_free(p);
		return -1;
	}
	*out = p;
	return 0;
}

void rows_pipe_cancel(struct rows_pipe *p)
{
	pthread_mutex_lock(&p->mutex);
	if (p->at_work) {
		signal_fd(p->cancel);
		while (p->at_work)
			pthread_cond_wait(&p->change, &p->mutex);
	}
	drain_fd(p->cancel);
	if (p->state == ROWS_PIPE_OPEN)
		rows_pipe_finish(p, ROWS_PIPE_CLOSED);
	pthread_mutex_unlock(&p->mutex);
}

void rows_pipe_free(struct rows_pipe *p)
{
	if (!p)
		return;
	if (p->has_thread) {
		rows_pipe_cancel(p);
		pthread_mutex_lock(&p->mutex);
		p->quit = 1;
		pthread_cond_broadcast(&p->change);
		pthread_mutex_unlock(&p->mutex);
		pthread_join(p->thread, NULL);
	}
	rows_reader_free(p->reader);
	fs_close(&p->write_end);
	fs_close(&p->read_end);
	fs_close(&p->cancel);
	fs_close(&p->news);
	pthread_mutex_destroy(&p->mutex);
	pthread_cond_destroy(&p->change);
	free(p->piece);
	free(p);
}

int rows_pipe_begin(struct rows_pipe *p, int *read_end, struct error *err)
{
	int fd[2];
	rows_pipe_cancel(p);
	if (pipe2(fd, O_CLOEXEC) != 0)
		return error_errno(err, ERROR_OS, "", "pipe");
	(void)fcntl(fd[1], F_SETPIPE_SZ, PIPE_BYTES); /* a smaller one is slower, and no mistake */
	fcntl(fd[1], F_SETFL, O_NONBLOCK);
	pthread_mutex_lock(&p->mutex);
	fs_close(&p->read_end);
	p->write_end = fd[1];
	p->first = p->count = 0;
	p->has_ended = 0;
	p->has_header = 1;
	p->state = ROWS_PIPE_OPEN;
	pthread_cond_broadcast(&p->change);
	pthread_mutex_unlock(&p->mutex);
	*read_end = fd[0];
	return 0;
}

int rows_pipe_add(struct rows_pipe *p, const struct piece *piece, struct error *err)
{
	int result = 0;
	pthread_mutex_lock(&p->mutex);
	if (p->state == ROWS_PIPE_OPEN) {
		if (p->first > 0 && p->count == p->room) {
			memmove(p->piece, p->piece + p->first,
				(p->count - p->first) * sizeof *p->piece);
			p->count -= p->first;
			p->first = 0;
		}
		result = GROW(p->piece, p->room, p->count + 1);
		if (result == 0)
			p->piece[p->count++] = *piece;
	}
	pthread_cond_broadcast(&p->change);
	pthread_mutex_unlock(&p->mutex);
	return result == 0 ? 0 : error_set(err, ERROR_OS, "", "out of memory");
}

void rows_pipe_end(struct rows_pipe *p)
{
	pthread_mutex_lock(&p->mutex);
	p->has_ended = 1;
	pthread_cond_broadcast(&p->change);
	pthread_mutex_unlock(&p->mutex);
}

int rows_pipe_fd(const struct rows_pipe *p)
{
	return p->news;
}

void rows_pipe_look(struct rows_pipe *p, struct rows_pipe_look *look)
{
	int unread = 0;
	drain_fd(p->news);
	pthread_mutex_lock(&p->mutex);
	*look = (struct rows_pipe_look){.state = p->state, .pending = p->count - p->first};
	if (p->state == ROWS_PIPE_BAD)
		look->error = p->error;
	if (p->read_end >= 0 && ioctl(p->read_end, FIONREAD, &unread) == 0)
		look->unread = (size_t)unread;
	pthread_mutex_unlock(&p->mutex);
}

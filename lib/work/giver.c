/* giver: hands out the text of rows that are here, one client at a time; see paceline-protocol(7),
 * ROWS OF OTHERS.  A client that is silent is closed. */
#include "work/mover_internal.h"

#include "base/clock.h"
#include "base/fs.h"
#include "data/rowfile.h"
#include "record/framer.h"
#include "record/record.h"
#include "work/spill.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SILENCE_SECONDS_MAX 30.0

int mover_socket(char *out, size_t max, const char *dir, const char *worker, struct error *err)
{
	char name[96];
	snprintf(name, sizeof name, "%s.rows.sock", worker);
	return fs_join(out, max, dir, name, err);
}

int giver_listen(struct mover *m, struct error *err)
{
	char path[4096];
	if (mover_socket(path, sizeof path, m->options.dir, m->options.worker, err) != 0)
		return -1;
	return transport_listen(&m->listens, path, err);
}

/* ---- a client ---- */

struct client {
	struct mover *mover;
	int fd;
	struct framer in;
	char data[RECORD_LINE_MAX];
	struct record record;
};

/* Whether the descriptor is ready; 0: nobody wants to wait any longer. */
static int wait_for(const struct client *c, short events)
{
	double until = clock_mono() + SILENCE_SECONDS_MAX;
	while (!atomic_load(&c->mover->stop) && clock_mono() < until) {
		struct pollfd p = {.fd = c->fd, .events = events};
		if (poll(&p, 1, (int)(MOVER_LOOK_SECONDS * 1000)) > 0)
			return 1;
	}
	return 0;
}

static int put(const struct client *c, const char *data, size_t len)
{
	struct iovec piece = {(char *)(uintptr_t)data, len};
	for (size_t count = len > 0; count > 0;) {
		ssize_t n = transport_write(c->fd, &piece, 1, -1);
		if (n < 0 || (n == 0 && !wait_for(c, POLLOUT)))
			return -1;
		count = transport_advance(&piece, 1, (size_t)n);
	}
	return 0;
}

static int put_record(const struct client *c, struct record_out *o, const char *text)
{
	size_t len = record_end(o, text);
	return put(c, o->data, len);
}

/* The next line. -1: no more, or a line without end. */
static int get_line(struct client *c, const char **line, size_t *len)
{
	enum framer_found found;
	while ((found = framer_line(&c->in, sizeof c->data, line, len)) == FRAMER_MORE) {
		struct iovec piece[2];
		size_t count = framer_pieces(&c->in, NULL, 0, piece);
		ssize_t n = transport_read(c->fd, piece, count, NULL);
		if (n < 0 || (n == 0 && !wait_for(c, POLLIN)))
			return -1;
		framer_came(&c->in, (size_t)n);
	}
	return found == FRAMER_LINE ? 0 : -1;
}

static int refuse(const struct client *c, const char *code, const char *text)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "err");
	record_add(&o, "code", code);
	return put_record(c, &o, text);
}

/* ---- rows ---- */

struct wanted {
	const struct mover *mover;
	uint64_t begin, length;
	struct rowfile_text text;
	size_t header;
	uint64_t count;
};

/* What of the wanted rows is in this file, which begins with row `first`. */
static int look(const char *path, uint64_t first, struct wanted *w, uint64_t *rows,
		struct error *err)
{
	struct rowfile file;
	const struct mover_options *o = &w->mover->options;
	const struct rowfile_options options = {.index_dir = o->index_dir};
	int result = rowfile_open(&file, path, o->format, &options, err);
	*rows = result == 0 ? file.index->rows : 0;
	if (result == 0 && w->begin >= first && w->begin - first < *rows) {
		w->text.len = 0;
		result = rowfile_add_header(&file, &w->text, err);
		w->header = w->text.len;
		if (result == 0)
			result = rowfile_add_rows(&file, w->begin - first, w->length,
						  MOVER_CHUNK_BYTES, &w->text, &w->count, err);
	}
	rowfile_close(&file);
	return result;
}

static int look_spilled(const char *path, uint64_t begin, uint64_t count, void *arg,
			struct error *err)
{
	struct wanted *w = arg;
	if (w->begin < begin || w->begin - begin >= count)
		return 0;
	return look(path, begin, w, &count, err) != 0 ? -1 : w->count > 0;
}

static int find_rows(struct wanted *w, struct error *err)
{
	const struct mover_options *o = &w->mover->options;
	uint64_t first = o->begin, rows;
	if (w->begin < o->begin || w->begin - o->begin >= o->length)
		return spill_each(o->spill, look_spilled, w, err);
	for (size_t i = 0; i < o->path_count && w->count == 0; i++, first += rows)
		if (look(o->paths[i], first, w, &rows, err) != 0)
			return -1;
	return 0;
}

static int answer_rows(struct client *c)
{
	struct wanted w = {.mover = c->mover};
	struct error err;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	int result;
	if (record_u64(&c->record, "begin", 0, UINT64_MAX, &w.begin, &err) != 0 ||
	    record_u64(&c->record, "length", 1, UINT64_MAX, &w.length, &err) != 0)
		return refuse(c, "bad-request", err.text);
	if (find_rows(&w, &err) < 0) {
		result = refuse(c, "data", err.text);
	} else if (w.count == 0) {
		result = refuse(c, "unknown-row", "that row is not here");
	} else {
		record_begin(&o, line, sizeof line, "rows");
		record_add_u64(&o, "begin", w.begin);
		record_add_u64(&o, "count", w.count);
		record_add_u64(&o, "header-bytes", w.header);
		record_add_u64(&o, "bytes", w.text.len);
		result = put_record(c, &o, NULL);
		if (result == 0)
			result = put(c, w.text.data, w.text.len);
		if (result == 0)
			result = put(c, "ok\n", 3);
	}
	free(w.text.data);
	return result;
}

static int handle(struct client *c, const char *line, size_t len)
{
	struct error err;
	if (record_parse(&c->record, line, len, &err) != 0)
		return refuse(c, "bad-request", err.text);
	if (!record_is(&c->record, "rows"))
		return refuse(c, "unknown-request", "rows begin= length= is all that is known");
	return answer_rows(c);
}

static void serve(struct client *c)
{
	char greeting[RECORD_LINE_MAX];
	const char *line;
	struct record_out o;
	size_t len;
	record_begin(&o, greeting, sizeof greeting, "paceline");
	record_add(&o, "role", "rows");
	record_add(&o, "version", "1");
	record_add(&o, "id", c->mover->options.worker);
	if (put_record(c, &o, NULL) != 0)
		return;
	while (get_line(c, &line, &len) == 0)
		if (handle(c, line, len) != 0)
			return;
}

void *giver_main(void *mover)
{
	struct mover *m = mover;
	static _Thread_local struct client c; /* large */
	while (!atomic_load(&m->stop)) {
		struct pollfd p = {.fd = m->listens.fd, .events = POLLIN};
		if (poll(&p, 1, (int)(MOVER_LOOK_SECONDS * 1000)) <= 0)
			continue;
		c.mover = m;
		c.in = (struct framer){0};
		framer_lend(&c.in, c.data, sizeof c.data);
		c.fd = transport_accept(&m->listens);
		if (c.fd < 0)
			continue;
		serve(&c);
		close(c.fd);
	}
	return NULL;
}

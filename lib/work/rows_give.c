/* rows_give: hands out the text of rows that are here; see paceline-protocol(7), ROWS OF OTHERS. */
#include "work/rows_move_internal.h"

#include "base/fs.h"
#include "base/log.h"
#include "data/rowfile.h"
#include "record/record.h"
#include "wire/server.h"
#include "wire/timer.h"
#include "work/rows_spill.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHUNK_BYTES ((size_t)8 << 20) /* of rows in one answer, about */
#define SILENCE_SECONDS_MAX 30.0

int rows_move_socket(char *out, size_t max, const char *dir, const char *worker, struct error *err)
{
	char name[96];
	snprintf(name, sizeof name, "%s.rows.sock", worker);
	return fs_join(out, max, dir, name, err);
}

struct wanted {
	const struct rows_move *move;
	uint64_t begin, length;
	struct rowfile_text text;
	size_t header;
	uint64_t count;
};

/* Which of the wanted rows are in this file, whose first row is `first`. */
static int rows_give_look(const char *path, uint64_t first, struct wanted *w, uint64_t *rows,
			  struct error *err)
{
	struct rowfile file;
	const struct rows_move_options *o = &w->move->options;
	const struct rowfile_options options = {.index_dir = o->index_dir};
	int result = rowfile_open(&file, path, o->syntax, &options, err);
	*rows = result == 0 ? file.index->rows : 0;
	if (result == 0 && w->begin >= first && w->begin - first < *rows) {
		w->text.len = 0;
		result = rowfile_add_header(&file, &w->text, err);
		w->header = w->text.len;
		if (result == 0)
			result = rowfile_add_rows(&file, w->begin - first, w->length, CHUNK_BYTES,
						  &w->text, &w->count, err);
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
	return rows_give_look(path, begin, w, &count, err) != 0 ? -1 : w->count > 0;
}

static int rows_give_find_rows(struct wanted *w, struct error *err)
{
	const struct rows_move_options *o = &w->move->options;
	uint64_t first = o->begin, rows;
	if (w->begin < o->begin || w->begin - o->begin >= o->length)
		return rows_spill_each(o->spill, look_spilled, w, err);
	for (size_t i = 0; i < o->path_count && w->count == 0; i++, first += rows)
		if (rows_give_look(o->paths[i], first, w, &rows, err) != 0)
			return -1;
	return 0;
}

static void rows_give_on_rows(struct request *rq, void *rows_move)
{
	struct wanted w = {.move = rows_move};
	const struct record *r = request_record(rq);
	struct error err;
	if (record_u64(r, "begin", 0, UINT64_MAX, &w.begin, &err) != 0 ||
	    record_u64(r, "length", 1, UINT64_MAX, &w.length, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	int found = rows_give_find_rows(&w, &err);
	if (found < 0 || w.count == 0) {
		free(w.text.data);
		if (found < 0)
			request_err(rq, "data", "%s", err.text);
		else
			request_err(rq, "unknown-row", "that row is not here");
		return;
	}
	request_put_record(rq, RECORD("rows", F("begin", w.begin), F("count", w.count),
				      F("header-bytes", w.header), F("bytes", w.text.len)));
	request_put_ref(rq, w.text.data, w.text.len, free, w.text.data);
	request_ok(rq, NULL);
}

int rows_give_start(struct rows_move *m, struct error *err)
{
	static const struct verb verbs[] = {{"rows", "begin length", "", rows_give_on_rows, 0,
					     "the text of rows that are here"}};
	char path[4096], fields[96];
	struct server_options options = {.path = path,
					 .role = "rows",
					 .greeting_fields = fields,
					 .verbs = verbs,
					 .verb_count = 1,
					 .owner = m,
					 .idle_seconds = SILENCE_SECONDS_MAX,
					 .begun_seconds = SILENCE_SECONDS_MAX,
					 .beside = 1};
	snprintf(fields, sizeof fields, "id=%s", m->options.worker);
	if (rows_move_socket(path, sizeof path, m->options.dir, m->options.worker, err) != 0 ||
	    server_new(&m->server, &options, err) != 0)
		return -1;
	return server_listen(m->server, err);
}

static void rows_give_on_look(void *rows_move)
{
	struct rows_move *m = rows_move;
	timer_set(m->look, ROWS_LOOK_SECONDS);
	if (atomic_load(&m->stop))
		server_stop(m->server);
}

void *rows_give_main(void *rows_move)
{
	struct rows_move *m = rows_move;
	struct error err = {0};
	m->look = timer_new(server_base(m->server), rows_give_on_look, m);
	if (m->look)
		timer_set(m->look, ROWS_LOOK_SECONDS);
	if (!m->look || server_run(m->server, NULL, 0, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "rows are not given: %s: %s", err.place, err.text);
	timer_free(m->look);
	return NULL;
}

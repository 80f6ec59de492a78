/*
 * sup_standing: what outlives a lead and a supervisor: the actions in force (a lead of a new
 * incarnation is told them again) and how often each node was restarted by intention.  One small
 * file, STATE/standing, written new with each change:
 *
 *     force incarnation=     the lead that has them
 *     action ...             each, without its reason
 *     heavy id= count= at=   each node that was restarted
 *
 * It is of these processes only: when none is left the next run begins without it.
 */
#include "run/sup.h"

#include "base/fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STANDING_BYTES_MAX (8u << 20)

static void standing_path(const struct supervisor *s, char *out)
{
	place_state(&s->place, "standing", out);
}

/* ---- in force ---- */

static int same(const struct action *a, enum action_kind kind, const char *id)
{
	return a->kind == kind && (kind == ACTION_BACKUP_WORKERS || strcmp(a->id, id) == 0);
}

const struct action *sup_force_find(const struct supervisor *s, enum action_kind kind,
				    const char *id)
{
	for (size_t i = 0; i < s->force.count; i++)
		if (same(&s->force.action[i], kind, id))
			return &s->force.action[i];
	return NULL;
}

/* The last of a kind (and id) is in force. */
static int put(struct sup_force *f, const struct action *a)
{
	for (size_t i = 0; i < f->count; i++)
		if (same(&f->action[i], a->kind, a->id)) {
			f->action[i] = *a;
			return 0;
		}
	if (f->count == f->room) {
		size_t room = f->room ? f->room * 2 : 16;
		struct action *more = realloc(f->action, room * sizeof *more);
		if (!more)
			return -1;
		f->action = more;
		f->room = room;
	}
	f->action[f->count++] = *a;
	return 0;
}

void sup_force_take(struct supervisor *s, const char *lines)
{
	struct record r;
	struct action a;
	for (const char *p = lines; *p;) {
		size_t n = strcspn(p, "\n");
		if (n > 0 && record_parse(&r, p, n, NULL) == 0 && action_parse(&a, &r, NULL) == 0)
			put(&s->force, &a);
		p += n + (p[n] == '\n');
	}
}

char *sup_force_lines(const struct supervisor *s)
{
	char line[RECORD_LINE_MAX], *text = NULL;
	size_t len = 0;
	FILE *out = s->force.count > 0 ? open_memstream(&text, &len) : NULL;
	if (!out)
		return NULL;
	for (size_t i = 0; i < s->force.count; i++) {
		action_format(&s->force.action[i], line, sizeof line);
		fputs(line, out);
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* ---- the file ---- */

static void print(const struct supervisor *s, FILE *out)
{
	char line[RECORD_LINE_MAX], *lines = sup_force_lines(s);
	struct record_out o;
	record_begin(&o, line, sizeof line, "force");
	record_add_u64(&o, "incarnation", s->force.incarnation);
	record_end(&o, NULL);
	fputs(line, out);
	fputs(lines ? lines : "", out);
	free(lines);
	for (size_t i = 0; i < s->node_count; i++) {
		const struct sup_node *n = &s->node[i];
		if (n->heavy.count == 0)
			continue;
		record_begin(&o, line, sizeof line, "heavy");
		record_add(&o, "id", n->id);
		record_add_u64(&o, "count", n->heavy.count);
		record_add_seconds(&o, "at", n->heavy.last);
		record_end(&o, NULL);
		fputs(line, out);
	}
}

void sup_standing_write(struct supervisor *s)
{
	char path[PLACE_MAX], *text = NULL;
	size_t len = 0;
	struct error err;
	FILE *out = open_memstream(&text, &len);
	standing_path(s, path);
	if (out)
		print(s, out);
	if (!out || fclose(out) != 0)
		error_set(&err, ERROR_OS, path, "out of memory");
	else if (fs_replace_file(path, text, len, &err) == 0) {
		free(text);
		return;
	}
	/* The job goes on: what is lost is lost only to a supervisor that comes after a crash. */
	sup_note(s, "warning", "%s: %s", err.place, err.text);
	free(text);
}

static int take(struct supervisor *s, const struct record *r, struct error *err)
{
	struct action a;
	if (record_is(r, "force"))
		return record_u64(r, "incarnation", 0, UINT64_MAX, &s->force.incarnation, err);
	if (record_is(r, "action")) {
		if (action_parse(&a, r, err) != 0)
			return -1;
		if (a.kind == ACTION_ADJUST_BS && job_balance(s->job))
			return 0; /* of another SOLUTION, before */
		return put(&s->force, &a) == 0 ? 0 : error_set(err, ERROR_OS, NULL, "no memory");
	}
	if (!record_is(r, "heavy"))
		return 0;
	const char *id;
	uint64_t count;
	double at;
	if (record_id(r, "id", &id, err) != 0 ||
	    record_u64(r, "count", 0, UINT64_MAX, &count, err) != 0 ||
	    record_real(r, "at", 0, 1e300, &at, err) != 0)
		return -1;
	struct sup_node *n = sup_node_find(s, id);
	if (n)
		n->heavy = (struct heavy_past){.count = count, .last = at};
	return 0;
}

int sup_standing_read(struct supervisor *s, struct error *err)
{
	char path[PLACE_MAX], *text;
	struct record r;
	int result = 0;
	standing_path(s, path);
	if (fs_read_file(path, STANDING_BYTES_MAX, &text, NULL, err) != 0)
		return err->code == ERROR_NOINPUT ? 0 : -1;
	for (char *p = text; result == 0 && *p;) {
		size_t n = strcspn(p, "\n");
		result = record_parse(&r, p, n, err) != 0 ? -1 : take(s, &r, err);
		p += n + (p[n] == '\n');
	}
	free(text);
	return result == 0 ? 0 : error_wrap(err, path);
}

void sup_standing_forget(struct supervisor *s)
{
	char path[PLACE_MAX];
	standing_path(s, path);
	if (unlink(path) != 0 && errno != ENOENT)
		sup_note(s, "warning", "%s can't be removed: %s", path, strerror(errno));
	s->force.count = 0;
	s->force.incarnation = 0;
	for (size_t i = 0; i < s->node_count; i++)
		s->node[i].heavy = (struct heavy_past){0};
}

/*
 * sup_log: what happened and why, as records: STATE/job.log (one write a record, so that lines of
 * a supervisor that was killed are whole), and events to the monitor.
 */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

int sup_log_open(struct supervisor *s, struct error *err)
{
	char path[PLACE_MAX];
	place_state(&s->place, "job.log", path);
	s->log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (s->log_fd < 0)
		return error_errno(err, ERROR_CANTCREAT, path, "can't be opened");
	return 0;
}

static void put(struct supervisor *s, struct record_out *o, const char *text)
{
	record_add_seconds(o, "at", clock_epoch());
	size_t len = record_end(o, text);
	/* A full disk must not stop a job: its log is for people. */
	if (len > 0 && s->log_fd >= 0 && write(s->log_fd, o->data, len) < 0 && errno != ENOSPC)
		log_say(LOG_LEVEL_WARNING, "job.log: %s", strerror(errno));
}

void sup_log(struct supervisor *s, struct record_out *o)
{
	put(s, o, NULL);
}

void sup_note(struct supervisor *s, const char *type, const char *fmt, ...)
{
	char text[1024], line[RECORD_LINE_MAX];
	struct record_out o;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	log_say(strcmp(type, "error") == 0 ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, "%s", text);
	record_begin(&o, line, sizeof line, type);
	put(s, &o, text);
}

void sup_add_end(struct record_out *o, const struct node_end *end)
{
	if (end->seen)
		record_add_u64(o, end->signal ? "signal" : "status",
			       (uint64_t)(end->signal ? end->signal : end->status));
}

static void fill(struct record_out *o, char *line, const struct sup_node *n, const char *kind,
		 const struct node_end *end)
{
	record_begin(o, line, RECORD_LINE_MAX, "event");
	record_add(o, "role", sup_role_name(n->role));
	record_add(o, "id", n->id);
	record_add(o, "kind", kind);
	/* A restart by intention: HEAVY_LIMIT counts those only. */
	if (n->restart_from > 0 && strcmp(kind, "restart") == 0)
		record_add_u64(o, "meant", 1);
	if (end) {
		sup_add_end(o, end);
		record_add(o, "class", policy_class_name(policy_class(end)));
	}
}

static void put_event(struct supervisor *s, const struct sup_process *p, struct record_out *to_log,
		      struct record_out *to_monitor)
{
	const struct sup_node *n = p->node;
	record_add_u64(to_log, "life", p->life);
	put(s, to_log, NULL);
	if (p == &n->heir) /* the node itself goes on */
		return;
	if (n->role != ROLE_SERVER && n->role != ROLE_WORKER)
		return;
	/* Fire and forget: a monitor that is not there misses it. */
	record_add_seconds(to_monitor, "at", clock_epoch());
	sup_link_send(&s->monitor->link, to_monitor, NULL, 0, NULL, NULL);
}

static void add_silence(struct record_out *o, const struct sup_silence *silence)
{
	record_add(o, "section", pulse_section_name(silence->section));
	record_add_seconds(o, "silent", silence->seconds);
	record_add_seconds(o, "limit", silence->limit);
	record_add(o, "state", silence->state);
	record_add(o, "wchan", silence->wchan);
}

void sup_event_lost(struct supervisor *s, const struct sup_process *p,
		    const struct sup_silence *silence)
{
	char line[RECORD_LINE_MAX], other[RECORD_LINE_MAX];
	struct record_out to_log, to_monitor;
	fill(&to_log, line, p->node, "lost", NULL);
	fill(&to_monitor, other, p->node, "lost", NULL);
	add_silence(&to_log, silence);
	add_silence(&to_monitor, silence);
	put_event(s, p, &to_log, &to_monitor);
}

void sup_event(struct supervisor *s, const struct sup_node *n, const char *kind,
	       const struct node_end *end)
{
	char line[RECORD_LINE_MAX], other[RECORD_LINE_MAX];
	struct record_out to_log, to_monitor;
	fill(&to_log, line, n, kind, end);
	fill(&to_monitor, other, n, kind, end);
	put_event(s, &n->now, &to_log, &to_monitor);
}

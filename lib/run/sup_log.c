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
	if (end) {
		sup_add_end(o, end);
		record_add(o, "class", policy_class_name(policy_class(end)));
	}
}

void sup_event(struct supervisor *s, const struct sup_node *n, const char *kind,
	       const struct node_end *end)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	fill(&o, line, n, kind, end);
	record_add_u64(&o, "life", n->now.life);
	put(s, &o, NULL);
	if (n->role != ROLE_SERVER && n->role != ROLE_WORKER)
		return;
	/* Fire and forget: a monitor that is not there misses it. */
	fill(&o, line, n, kind, end);
	record_add_seconds(&o, "at", clock_epoch());
	sup_link_send(&s->monitor->link, &o, NULL, 0, NULL, NULL);
}

/*
 * sup_log: what happened and why, as records: STATE/job.log (each written at once and whole, so that
 * it can be read while we go on, or after we were killed), and events to the monitor.
 */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_BYTES_MAX (64u << 20) /* then it becomes job.log.1, and the one before goes */

/* What can't be renamed goes on in the old one. */
static int put_away(struct supervisor *s)
{
	char older[PLACE_MAX];
	place_state(&s->place, "job.log.1", older);
	return rename(s->log_path, older) == 0 || errno == ENOENT ? 0 : -1;
}

int sup_log_open(struct supervisor *s, struct error *err)
{
	struct stat st;
	place_state(&s->place, "job.log", s->log_path);
	if (stat(s->log_path, &st) == 0 && st.st_size >= (off_t)LOG_BYTES_MAX)
		put_away(s);
	return recordlog_open(&s->log, s->log_path, err);
}

/* A full disk must not stop a job: its log is for people. */
static void flush(struct supervisor *s)
{
	struct error err;
	if (s->log.fd >= 0 && recordlog_flush(&s->log, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s; what can't be written is lost", err.place,
			err.text);
}

void sup_log_text(struct supervisor *s, const char *lines, size_t len)
{
	recordlog_add(&s->log, lines, len);
	flush(s);
}

static void put(struct supervisor *s, struct record_out *o, const char *text)
{
	record_add_seconds(o, "at", clock_epoch());
	size_t len = record_end(o, text);
	if (len > 0)
		sup_log_text(s, o->data, len);
}

void sup_log_begin(struct supervisor *s, int goes_on)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "begin");
	record_add(&o, "job", s->job->name);
	record_add_u64(&o, "workers", s->job->workers);
	record_add_u64(&o, "servers", s->job->servers);
	record_add_u64(&o, "batch", s->job->batch);
	record_add(&o, "sync", s->job->sync);
	record_add(&o, "solution", s->job->solution);
	if (goes_on)
		record_add_u64(&o, "goes-on", 1);
	put(s, &o, NULL);
}

/* The new file says what the old one began with: one day it is the oldest there is. */
void sup_log_bound(struct supervisor *s)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	struct error err;
	struct stat st;
	if (s->log.fd < 0 || fstat(s->log.fd, &st) != 0 || st.st_size < (off_t)LOG_BYTES_MAX)
		return;
	if (put_away(s) != 0 || recordlog_reopen(&s->log, &err) != 0)
		return;
	sup_log_begin(s, 1);
	record_begin(&o, line, sizeof line, "phase");
	record_add(&o, "name", sup_phase_name(s->phase));
	put(s, &o, NULL);
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

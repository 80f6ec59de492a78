/* logs: see logs.h. */
#include "run/sup.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define NODE_BYTES_LAUNCH (8u << 20) /* at a launch; then the log becomes ID.log.1 */
#define NODE_BYTES_MAX (64u << 20)   /* while it runs */
#define LOOKS 64                     /* logs of nodes that are looked at in a tick */
#define REOPEN_SECONDS 5.0           /* at least, until the monitor is told to do it again */
#define RETRY_SECONDS 60.0           /* until a retry is said again */
#define WORDS_MAX 4096               /* of a node's last words */
#define STACKS_MAX 16384             /* of all threads of a trainer */
#define LINES_MAX 20

void sup_log_init(struct supervisor *s)
{
	s->log.file.fd = -1;
}

int sup_log_open(struct supervisor *s, struct error *err)
{
	dirs_state(&s->dirs, "job.log", s->log.path);
	if (recordlog_open(&s->log.file, s->log.path, err) != 0)
		return -1;
	(void)recordlog_turn(&s->log.file, err); /* else it goes on growing */
	return 0;
}

/* A full disk must not stop a job, because its log is only for people. */
static void logs_flush(struct supervisor *s)
{
	struct error err;
	if (s->log.file.fd >= 0 && recordlog_flush(&s->log.file, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s; what can't be written is lost", err.place,
			err.text);
}

void sup_log_text(struct supervisor *s, const char *lines, size_t len)
{
	recordlog_add(&s->log.file, lines, len);
	logs_flush(s);
}

static void logs_put(struct supervisor *s, struct record_out *o, const char *text)
{
	record_add_seconds(o, "at", clock_epoch());
	size_t len = record_end(o, text);
	if (len > 0)
		sup_log_text(s, o->data, len);
}

void sup_log_begin(struct supervisor *s, int goes_on)
{
	logs_put(s,
		 RECORD("begin", F("job", s->job->name),
			F("workers", sup_count(s, sup_trainers(s))),
			F("servers", sup_count(s, &role_server)),
			F("replicas", sup_count(s, &role_replica)),
			sup_network_fabric(s) ? F("fabric", sup_network_fabric(s)) : F_NONE,
			F("batch", sup_scale_batch(s)),
			F("shard", s->job->batch * s->job->batches_per_shard),
			F("sync", s->job->sync), F("solution", s->job->solution),
			goes_on ? F("goes-on", 1) : F_NONE),
		 NULL);
	sup_hosts_log(s);
}

/* The new file repeats the beginning of the old one, which will be removed one day. */
static void logs_bound_own(struct supervisor *s)
{
	struct error err;
	if (recordlog_turn(&s->log.file, &err) != 1)
		return;
	sup_log_begin(s, 1);
	logs_put(s, RECORD("phase", F("name", sup_phase_name(s->phases.now))), NULL);
	sup_brain_log_known(s);
}

void sup_log(struct supervisor *s, struct record_out *o)
{
	logs_put(s, o, NULL);
}

static int was_said(struct sup_log *log, const char *text)
{
	uint64_t sum = XXH3_64bits(text, strlen(text));
	double now = clock_mono();
	size_t oldest = 0;
	for (size_t i = 0; i < SUP_LOG_RETRIES; i++) {
		if (log->retry[i].at > 0 && log->retry[i].sum == sum) {
			if (now - log->retry[i].at < RETRY_SECONDS)
				return 1;
			oldest = i;
			break;
		}
		if (log->retry[i].at < log->retry[oldest].at)
			oldest = i;
	}
	log->retry[oldest].sum = sum;
	log->retry[oldest].at = now;
	return 0;
}

void sup_note(struct supervisor *s, const char *type, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (strcmp(type, "retry") == 0 && was_said(&s->log, text))
		return;
	log_say(strcmp(type, "error") == 0 ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, "%s", text);
	logs_put(s, RECORD_BARE(type), text);
}

void sup_add_end(struct record_out *o, const struct node_end *end)
{
	if (end->seen)
		record_add_u64(o, end->signal ? "signal" : "status",
			       (uint64_t)(end->signal ? end->signal : end->status));
	if (end->seen && end->oom)
		record_add_u64(o, "oom", 1);
}

static void logs_fill(struct record_out *o, char *line, const struct sup_node *n, const char *role,
		      const char *kind, const struct node_end *end,
		      const struct sup_silence *silence)
{
	record_begin(o, line, RECORD_LINE_MAX, "event");
	record_add(o, "role", role);
	record_add(o, "id", n->id);
	record_add(o, "kind", kind);
	/* A restart by intention: KILL_RESTART counts those only. */
	if (n->restart.from > 0 && strcmp(kind, "restart") == 0)
		record_add_u64(o, "meant", 1);
	if (n->sup->hosts.count > 1)
		record_add(o, "host", n->place.host);
	if (end) {
		sup_add_end(o, end);
		record_add(o, "class", end_class_name(sup_node_class(n, end)));
		if (n->said[0])
			record_add(o, "why", n->said);
	}
	if (silence) {
		record_add(o, "section", pulse_section_name(silence->section));
		record_add_seconds(o, "silent", silence->seconds);
		record_add_seconds(o, "deadline", silence->limit);
		record_add(o, "state", silence->state);
		record_add(o, "wchan", silence->wchan);
		if (silence->in[0])
			record_add(o, "in", silence->in);
		if (silence->waiting[0])
			record_add(o, "waiting", silence->waiting);
	}
}

static void put_event(const struct sup_process *p, const char *kind, const struct node_end *end,
		      const struct sup_silence *silence)
{
	const struct sup_node *n = p->node;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	logs_fill(&o, line, n, n->role->name, kind, end, silence);
	record_add_u64(&o, "life", p->life);
	logs_put(n->sup, &o, NULL);
	/* The node itself goes on when it is about the next process. */
	if (p == &n->restart.next || !n->role->told_as)
		return;
	/* A monitor that is not there misses it. */
	logs_fill(&o, line, n, n->role->told_as, kind, end, silence);
	record_add_seconds(&o, "at", clock_epoch());
	sup_tell(&sup_monitor(n->sup)->link, &o);
}

void sup_event_hung(const struct sup_process *p, const struct sup_silence *silence)
{
	put_event(p, "hung", NULL, silence);
}

void sup_event(const struct sup_node *n, const char *kind, const struct node_end *end)
{
	put_event(&n->now, kind, end, NULL);
}

void sup_log_close(struct supervisor *s)
{
	recordlog_close(&s->log.file);
}

/* ---- what nodes print ---- */

void sup_node_log_path(const struct sup_node *n, char *out)
{
	char name[128];
	snprintf(name, sizeof name, "logs/%s.log", n->id);
	dirs_state(&n->sup->dirs, name, out);
}

void sup_node_log_rotate(struct sup_node *n)
{
	char path[DIRS_PATH_MAX], older[DIRS_PATH_MAX + 2];
	struct stat st;
	sup_node_log_path(n, path);
	n->log_begin = 0;
	if (stat(path, &st) != 0)
		return;
	snprintf(older, sizeof older, "%s.1", path);
	if (st.st_size < (off_t)NODE_BYTES_LAUNCH || rename(path, older) != 0)
		n->log_begin = st.st_size;
}

/* While its writer runs a log can't be renamed, because the writer has it open: it is copied and
 * then truncated. The writer appends, so it goes on at the new end; lines written in between are
 * lost. */
static void cut_if_large(const char *path)
{
	char older[DIRS_PATH_MAX + 2];
	struct stat st;
	if (stat(path, &st) != 0 || st.st_size < (off_t)NODE_BYTES_MAX)
		return;
	snprintf(older, sizeof older, "%s.1", path);
	int in = open(path, O_RDWR | O_CLOEXEC);
	int out = open(older, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (in >= 0 && out >= 0) {
		while (copy_file_range(in, NULL, out, NULL, NODE_BYTES_MAX, 0) > 0)
			;
		if (ftruncate(in, 0) != 0)
			log_say(LOG_LEVEL_WARNING, "%s: %s", path, strerror(errno));
	}
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
}

/* The monitor reopens its log when we tell it to, so no line is lost. We also tell it when another
 * program has moved the file (logrotate(8)). */
static void bound_bpt(struct supervisor *s)
{
	char path[DIRS_PATH_MAX], older[DIRS_PATH_MAX];
	struct stat st;
	struct sup_node *monitor = sup_monitor(s);
	dirs_state(&s->dirs, "bpt.log", path);
	int is_gone = stat(path, &st) != 0;
	if ((!is_gone && st.st_size < (off_t)NODE_BYTES_MAX) || monitor->stage != STAGE_READY ||
	    clock_mono() - s->log.reopened < REOPEN_SECONDS)
		return;
	s->log.reopened = clock_mono();
	dirs_state(&s->dirs, "bpt.log.1", older);
	if (is_gone || rename(path, older) == 0)
		sup_process_signal(&monitor->now, SIGHUP);
}

void sup_logs_bound(struct supervisor *s)
{
	char path[DIRS_PATH_MAX];
	size_t number = 0, end = s->log.looked + LOOKS;
	EACH_NODE (n, s) {
		if (number >= s->log.looked && number < end) {
			sup_node_log_path(n, path);
			cut_if_large(path);
		}
		number++;
	}
	s->log.looked = end < number ? end : 0;
	bound_bpt(s);
	logs_bound_own(s);
}

/* The line that says where a node's time went is for `trainctl report`. */
static int is_for_people(const char *line)
{
	return strncmp(line, "spent id=", strlen("spent id=")) != 0;
}

/* Finds the last lines for people in text, in their order, and returns how many. Cuts text into
 * lines. */
static size_t last_lines(char *text, const char *line[LINES_MAX])
{
	size_t count = 0;
	char *save = NULL;
	for (char *one = strtok_r(text, "\n", &save); one; one = strtok_r(NULL, "\n", &save)) {
		if (!is_for_people(one))
			continue;
		if (count == LINES_MAX)
			memmove(line, line + 1, --count * sizeof *line);
		line[count++] = one;
	}
	return count;
}

/* The end of what its latest process has printed; NULL: there is no such file. */
static char *logs_tail(const struct sup_node *n, const char *path, char *text, size_t max)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	off_t size = lseek(fd, 0, SEEK_END);
	off_t begin = size >= n->log_begin ? n->log_begin : 0; /* it was cut meanwhile */
	off_t from = size - begin > (off_t)max - 1 ? size - (off_t)max + 1 : begin;
	ssize_t got = pread(fd, text, max - 1, from);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	/* There is half a line before the first whole one, or only half a line. */
	char *start = from > begin ? strchr(text, '\n') : NULL;
	return start && start[1] ? start + 1 : text;
}

void sup_last_words(const struct sup_node *n)
{
	char path[DIRS_PATH_MAX], text[WORDS_MAX];
	const char *line[LINES_MAX];
	sup_node_log_path(n, path);
	char *words = logs_tail(n, path, text, sizeof text);
	if (!words)
		return;
	size_t count = last_lines(words, line);
	if (count == 0) {
		log_say(LOG_LEVEL_ERROR, "%s printed nothing; its log is %s", n->id, path);
		return;
	}
	log_say(LOG_LEVEL_ERROR, "last lines of %s:", n->id);
	for (size_t i = 0; i < count; i++)
		log_say(LOG_LEVEL_ERROR, "  %s", line[i]);
	log_say(LOG_LEVEL_ERROR, "whole log of %s: %s", n->id, path);
}

void sup_said(const struct sup_node *n, int is_end, char out[SAID_MAX])
{
	char path[DIRS_PATH_MAX], text[STACKS_MAX];
	sup_node_log_path(n, path);
	char *words = logs_tail(n, path, text, sizeof text);
	out[0] = '\0';
	if (words)
		(is_end ? said_end : said_stack)(words, out);
}

/*
 * parent: see parent.h.  The node's parent must stay small and must never decide anything: it knows
 * one node, writes one file, and does not read the network.
 *
 * What it is to do comes through a file without a name on descriptor 3: strings, NUL behind each.
 * Descriptor 4 is the lock.
 */
#include "proc/parent.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/number.h"
#include "proc/keeper.h"
#include "proc/process.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPEC_FD 3
#define LOCK_FD 4
#define SPEC_MAX (16u << 20)
#define SPEC_WORDS 10 /* in front of the program's own */
#define RECORD_FILE_MAX 65536
#define END_TRIES 20 /* half a second apart: a full disk may have room again */

/* ---- the record file ---- */

static int parent_take_node(struct node_record *r, const struct record *rec, struct error *err)
{
	const char *id, *boot, *host;
	uint64_t parent, pid;
	if (record_id(rec, "id", &id, err) != 0 ||
	    record_u64(rec, "life", 0, UINT64_MAX, &r->life, err) != 0 ||
	    record_u64(rec, "parent", 1, INT32_MAX, &parent, err) != 0 ||
	    record_u64(rec, "parent-start", 0, UINT64_MAX, &r->parent_start, err) != 0 ||
	    record_u64(rec, "pid", 1, INT32_MAX, &pid, err) != 0 ||
	    record_u64(rec, "start", 0, UINT64_MAX, &r->start, err) != 0 ||
	    record_text(rec, "boot", &boot, err) != 0 ||
	    record_text(rec, "host", &host, err) != 0 ||
	    record_real(rec, "at", 0, 1e300, &r->at, err) != 0)
		return -1;
	snprintf(r->id, sizeof r->id, "%s", id);
	snprintf(r->boot, sizeof r->boot, "%s", boot);
	snprintf(r->host, sizeof r->host, "%s", host);
	const char *by = record_get(rec, "cores-by");
	if (by)
		limits_way_find(by, &r->by.cores);
	by = record_get(rec, "memory-by");
	if (by)
		limits_way_find(by, &r->by.memory);
	r->parent = (pid_t)parent;
	r->pid = (pid_t)pid;
	return 0;
}

static int parent_take_end(struct node_record *r, const struct record *rec, struct error *err)
{
	uint64_t status = 0, sig = 0, oom = 0;
	if (record_u64_opt(rec, "status", 0, 255, &status, err) != 0 ||
	    record_u64_opt(rec, "signal", 0, 255, &sig, err) != 0 ||
	    record_u64_opt(rec, "oom", 0, 1, &oom, err) != 0 ||
	    record_real(rec, "at", 0, 1e300, &r->end_at, err) != 0)
		return -1;
	r->ended = 1;
	r->end = (struct node_end){
		.seen = 1, .status = (int)status, .signal = (int)sig, .oom = (int)oom};
	return 0;
}

int node_record_read(const char *path, struct node_record *r, struct error *err)
{
	char *text;
	size_t len;
	struct record rec;
	memset(r, 0, sizeof *r);
	if (fs_read_file(path, RECORD_FILE_MAX, &text, &len, err) != 0)
		return -1;
	struct record_walk walk = record_walk(text, len);
	int result = 0, nodes = 0, got;
	while (result == 0 && (got = record_next(&walk, &rec, err)) != RECORD_END) {
		nodes += got == RECORD_ONE && record_is(&rec, "node");
		if (got != RECORD_ONE)
			result = -1;
		else if (record_is(&rec, "node"))
			result = parent_take_node(r, &rec, err);
		else if (record_is(&rec, "end"))
			result = parent_take_end(r, &rec, err);
	}
	free(text);
	if (result == 0 && nodes != 1)
		result = error_set(err, ERROR_DATA, NULL, "has %d node records", nodes);
	return result == 0 ? 0 : error_wrap(err, path);
}

static size_t format_end(const struct node_record *r, char text[RECORD_LINE_MAX])
{
	struct record_out o;
	record_begin(&o, text, RECORD_LINE_MAX, "end");
	if (r->end.signal)
		record_add_u64(&o, "signal", (uint64_t)r->end.signal);
	else
		record_add_u64(&o, "status", (uint64_t)r->end.status);
	record_add_seconds(&o, "at", r->end_at);
	if (r->end.oom)
		record_add_u64(&o, "oom", 1);
	return record_end(&o, NULL);
}

int node_record_write(const char *path, const struct node_record *r, struct error *err)
{
	char text[2 * RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, text, RECORD_LINE_MAX, "node");
	record_add(&o, "id", r->id);
	record_add_u64(&o, "life", r->life);
	record_add_u64(&o, "parent", (uint64_t)r->parent);
	record_add_u64(&o, "parent-start", r->parent_start);
	record_add_u64(&o, "pid", (uint64_t)r->pid);
	record_add_u64(&o, "start", r->start);
	record_add(&o, "boot", r->boot);
	record_add(&o, "host", r->host);
	record_add_seconds(&o, "at", r->at);
	if (r->by.cores != LIMITS_NONE)
		record_add(&o, "cores-by", limits_way_name(r->by.cores));
	if (r->by.memory != LIMITS_NONE)
		record_add(&o, "memory-by", limits_way_name(r->by.memory));
	size_t len = record_end(&o, NULL);
	if (r->ended)
		len += format_end(r, text + len);
	return fs_replace_file(path, text, len, err);
}

int node_record_running(const struct node_record *r)
{
	char boot[BOOT_ID_MAX];
	boot_id(boot);
	if (strcmp(boot, r->boot) != 0)
		return 0;
	return (process_alive(r->parent, r->parent_start) ? RECORD_PARENT_RUNS : 0) |
	       (!r->ended && process_alive(r->pid, r->start) ? RECORD_NODE_RUNS : 0);
}

/* ---- the supervisor's side ---- */

static int parent_put_text(int fd, const char *text, struct error *err)
{
	return fs_write_all(fd, text, strlen(text) + 1, "launch", err);
}

static int put_front(int fd, const struct launch *launch, struct error *err)
{
	const struct launcher *launcher = launch->name.place->launcher;
	const struct node_start start = {.name = &launch->name,
					 .template = launch->template,
					 .make = launch->make,
					 .bring = launch->bring,
					 .lock = launch->lock_there,
					 .keeps = launch->keeps,
					 .limits = launch->limits};
	struct argv front = {0};
	int result = launcher->start(&start, &front, err);
	for (size_t i = 0; result == 0 && i < front.count; i++)
		result = parent_put_text(fd, front.word[i], err);
	argv_free(&front);
	return result;
}

static int put_spec(int fd, const struct launch *launch, struct error *err)
{
	/* On another host node-host(8) sets the limits. */
	const struct limits none = {0};
	const struct limits *l = launch->name.place->launcher->is_far ? &none : &launch->limits;
	char life[24], cores[32], memory[24], first[24];
	number_format_u64(launch->life, life);
	number_format_real(l->cores, cores);
	number_format_u64(l->memory, memory);
	number_format_u64(l->first_core, first);
	const char *const about[SPEC_WORDS] = {
		launch->name.id, life,	launch->record, launch->log,
		launch->name.place->host, cores, memory, first,
		launch->search ? launch->search : "",
		launch->keeps && !launch->name.place->launcher->is_far ? "1" : "0"};
	int result = 0;
	for (size_t i = 0; result == 0 && i < sizeof about / sizeof *about; i++)
		result = parent_put_text(fd, about[i], err);
	if (result == 0)
		result = put_front(fd, launch, err);
	for (size_t i = 0; result == 0 && launch->argv[i]; i++)
		result = parent_put_text(fd, launch->argv[i], err);
	return result;
}

/* In the child, before exec: only what is safe there. Descriptors of the supervisor are
 * close-on-exec by rule; these two are moved to where the parent looks for them. */
static void become_parent(int spec, int lock, const char *id)
{
	char *const argv[] = {(char *)(size_t)PARENT_NAME, (char *)(size_t)id, NULL};
	int high_spec = fcntl(spec, F_DUPFD, 10), high_lock = fcntl(lock, F_DUPFD, 10);
	if (high_spec < 0 || high_lock < 0 || dup2(high_spec, SPEC_FD) < 0 ||
	    dup2(high_lock, LOCK_FD) < 0)
		_exit(ERROR_OS);
	close(high_spec);
	close(high_lock);
	execv("/proc/self/exe", argv);
	_exit(ERROR_OS);
}

int parent_launch(const struct launch *launch, pid_t *parent, struct error *err)
{
	int lock;
	if (fs_lock(launch->lock, &lock, err) != 0)
		return -1;
	int spec = memfd_create("node", MFD_CLOEXEC);
	int result = spec < 0 ? error_errno(err, ERROR_OS, launch->name.id, "memfd")
			      : put_spec(spec, launch, err);
	pid_t pid = -1;
	if (result == 0) {
		lseek(spec, 0, SEEK_SET);
		pid = process_fork(); /* settle_in() lets signals come again */
		if (pid == 0)
			become_parent(spec, lock, launch->name.id);
		if (pid < 0)
			result = error_errno(err, ERROR_OS, launch->name.id, "fork");
	}
	if (spec >= 0)
		close(spec);
	close(lock); /* the parent's copy keeps the lock */
	*parent = pid;
	return result;
}

/* ---- the parent's side ---- */

struct spec {
	char *text;
	const char *id, *record, *log, *host, *search;
	struct limits want;
	struct limits_group limits;
	uint64_t life;
	int keeps;
	char **words, **argv; /* the second: within the first, with what limits put in front */
};

static int read_spec(struct spec *spec)
{
	size_t len, count = 0;
	char path[32];
	snprintf(path, sizeof path, "/proc/self/fd/%d", SPEC_FD);
	if (fs_read_file(path, SPEC_MAX, &spec->text, &len, NULL) != 0)
		return -1;
	char *word[SPEC_WORDS], *p = spec->text, *end = p + len;
	for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
		if (p >= end)
			return -1;
		word[i] = p;
		p += strlen(p) + 1;
	}
	spec->id = word[0];
	spec->record = word[2];
	spec->log = word[3];
	spec->host = word[4];
	if (number_u64(word[1], 0, UINT64_MAX, &spec->life, "life", NULL) != 0 ||
	    number_real(word[5], 0, 1e9, &spec->want.cores, "cores", NULL) != 0 ||
	    number_u64(word[6], 0, UINT64_MAX, &spec->want.memory, "memory", NULL) != 0 ||
	    number_u64(word[7], 0, UINT64_MAX, &spec->want.first_core, "core", NULL) != 0 || p >= end)
		return -1;
	spec->search = word[8];
	spec->keeps = strcmp(word[9], "1") == 0;
	for (char *q = p; q < end; q += strlen(q) + 1)
		count++;
	spec->words = calloc(LIMITS_FRONTS + count + 1, sizeof *spec->words);
	if (!spec->words)
		return -1;
	spec->argv = spec->words + LIMITS_FRONTS;
	for (size_t i = 0; p < end; p += strlen(p) + 1)
		spec->argv[i++] = p;
	return 0;
}

static void limit(struct spec *spec)
{
	struct limits_where where = limits_here;
	where.search = spec->search;
	limits_make(&spec->limits, &spec->want, spec->id, &where);
	for (size_t i = spec->limits.fronts; i > 0; i--)
		*--spec->argv = spec->limits.front[i - 1];
}

/* The process before may have been killed in the middle of a line. */
static void parent_end_line(const char *path, int log)
{
	char last;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* log may be one that can only be written to */
	if (fd >= 0 && lseek(fd, -1, SEEK_END) >= 0 && read(fd, &last, 1) == 1 && last != '\n')
		dprintf(log, "\n");
	if (fd >= 0)
		close(fd);
}

/* Gives the node its own session, without a terminal or the supervisor's group, and its output to
 * the log. */
static int settle_in(const struct spec *spec)
{
	prctl(PR_SET_NAME, PARENT_NAME);
	setsid();
	fcntl(LOCK_FD, F_SETFD, FD_CLOEXEC);
	close(SPEC_FD);
	close_range(LOCK_FD + 1, ~0u, 0);
	process_signals_reset();
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int log = open(spec->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log >= 0)
		parent_end_line(spec->log, log);
	if (null < 0 || log < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
		return -1;
	if (null > LOCK_FD)
		close(null);
	if (log > LOCK_FD)
		close(log);
	return 0;
}

/* Waits for the message that the record is written; if none comes (the parent was killed), starts
 * no node. */
static void parent_become_node(const struct spec *spec, int gate, int keeper)
{
	/* The service manager talks to the supervisor, not to nodes. */
	static const char *const not_yours[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
						"LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES"};
	sigset_t none;
	signal(SIGUSR1, SIG_IGN); /* before any signal can come; see parent.h */
	/* Not process_signals_reset(): a SIGTERM that came since fork() is for this node. */
	signal(SIGHUP, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < sizeof not_yours / sizeof *not_yours; i++)
		unsetenv(not_yours[i]);
	setenv("PACELINE_HOST", spec->host, 1);
	keeper_pass(keeper);
	setpgid(0, 0);
	process_await(gate);
	process_become(PARENT_NAME, spec->argv);
}

static int parent_start_node(struct spec *spec, struct node_record *r)
{
	int gate[2];
	if (pipe2(gate, O_CLOEXEC) != 0)
		return -1;
	int keeper = spec->keeps ? keeper_start() : -1;
	r->pid = process_fork(); /* parent_become_node() lets signals come, and loses none */
	if (r->pid == 0) {
		close(gate[1]);
		parent_become_node(spec, gate[0], keeper);
	}
	close(gate[0]);
	if (keeper >= 0)
		close(keeper);
	if (r->pid > 0) {
		setpgid(r->pid, r->pid); /* also here: parent or child, whichever comes first */
		limits_take(&spec->limits, r->pid);
		r->by = spec->limits.ways;
		if (process_start(r->pid, &r->start) == 0 &&
		    node_record_write(spec->record, r, NULL) == 0) {
			/* If it was killed meanwhile it does not read this: its end is recorded
			 * nevertheless. */
			if (write(gate[1], "", 1) < 0)
				(void)0;
			close(gate[1]);
			return 0;
		}
	}
	close(gate[1]);
	return -1;
}

/* On a full disk there is no room for another file; what is left of the last block of this one is
 * enough for a line. */
static int append_end(const char *path, const struct node_record *r)
{
	char text[RECORD_LINE_MAX];
	size_t len = format_end(r, text);
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
	int written = size >= 0 && write(fd, text, len) == (ssize_t)len;
	if (size >= 0 && !written && ftruncate(fd, size) != 0)
		written = 0; /* an incomplete line: the end is unknown */
	if (fd >= 0)
		close(fd);
	return written ? 0 : -1;
}

static void write_end(struct spec *spec, struct node_record *r, int status)
{
	r->ended = 1;
	r->end_at = clock_epoch();
	r->end = end_of(status);
	limits_end(&spec->limits, &r->end);
	for (int i = 0; i < END_TRIES && node_record_write(spec->record, r, NULL) != 0 &&
			append_end(spec->record, r) != 0; i++)
		clock_sleep(0.5);
}

int parent_main(int argc, char **argv)
{
	static struct spec spec; /* large */
	struct node_record r = {0};
	(void)argv;
	if (argc != 2 || read_spec(&spec) != 0)
		return ERROR_USAGE; /* started by hand */
	if (settle_in(&spec) != 0) {
		dprintf(2, PARENT_NAME ": %s: can't be written: %s\n", spec.log, strerror(errno));
		return ERROR_OS;
	}
	limit(&spec);
	snprintf(r.id, sizeof r.id, "%s", spec.id);
	snprintf(r.host, sizeof r.host, "%s", spec.host);
	r.life = spec.life;
	r.parent = getpid();
	r.at = clock_epoch();
	boot_id(r.boot);
	if (process_start(r.parent, &r.parent_start) != 0 || parent_start_node(&spec, &r) != 0)
		return ERROR_OS;
	siginfo_t info;
	while (waitid(P_PID, (id_t)r.pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
		;
	/* A launch template's shell may have died before the program. The dead node still holds its
	 * pid, so this reaches no stranger. */
	kill(-r.pid, SIGKILL);
	process_kill_session(r.parent); /* processes of the node in groups of their own */
	write_end(&spec, &r, process_wait(r.pid));
	free(spec.words);
	free(spec.text);
	return 0;
}

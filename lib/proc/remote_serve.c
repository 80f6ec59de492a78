/* remote_serve: see remote_serve.h. Requests come from our own user, on the machine where the job is. */
#include "proc/remote_serve.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/version.h"
#include "proc/alone.h"
#include "proc/host_test.h"
#include "proc/inspect.h"
#include "proc/keeper.h"
#include "proc/limits.h"
#include "proc/process.h"
#include "proc/remote.h"
#include "record/framer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK 65536
#define ARGV_MAX (16u << 20) /* bytes of a command */
#define SYNC_BYTES (64u << 20) /* of a long file: a sign of life comes in between */
#define READ_MAX 256         /* bytes of a file's first line */

struct serve {
	const char *search;
	int gate;    /* to the process that waits for us, which hears that we move; when it ends we end */
	int signals; /* signalfd */
	pid_t node;  /* 0: none */
	int lock;    /* that the node is the only one of its name (alone.h); -1: none */
	struct limits_group limits; /* of the node */
	struct framer framer;
	char in[2 * CHUNK];
	double heard, beat, moved; /* the last: when the gate was told that we move */
	struct inspect_motion motion; /* of the node, */
	double looked;                /* at this time of clock_mono(); 0: never */
	int failed; /* something that the node needs could not be made */
	int over;   /* nobody hears us any more */
};

static volatile sig_atomic_t group; /* of the node; 0: none */

static void serve_kill_group(void)
{
	if (group > 0)
		kill(-(pid_t)group, SIGKILL);
}

/* Nobody reads what we say. */
static void on_alarm(int sig)
{
	(void)sig;
	serve_kill_group();
	_exit(ERROR_TEMPFAIL);
}

/* ---- saying ---- */

static void serve_move(struct serve *s)
{
	double now = clock_mono();
	if (now - s->moved < REMOTE_BEAT_SECONDS)
		return;
	s->moved = now;
	(void)send(s->gate, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* the gate's end is seen in a turn */
}

static void serve_say(struct serve *s, const void *data, size_t len)
{
	alarm((unsigned)REMOTE_FAR_SECONDS);
	if (fs_write_all(1, data, len, "standard output", NULL) != 0)
		s->over = 1;
	alarm(0);
	s->beat = clock_mono();
	serve_move(s);
}

static void say_record(struct serve *s, struct record_out *o, const char *text)
{
	size_t len = record_end(o, text);
	serve_say(s, o->data, len);
}

static void say_ok(struct serve *s)
{
	static const char line[] = "ok\n";
	serve_say(s, line, sizeof line - 1);
}

static void say_error(struct serve *s, const struct error *err)
{
	say_record(s,
		   RECORD("err", F("code", "refused"), F("status", (uint64_t)err->code),
			  F("place", err->place)),
		   err->text);
}

static void serve_greet(struct serve *s)
{
	char boot[BOOT_ID_MAX];
	struct node_place here;
	launcher_here(&here);
	boot_id(boot);
	say_record(s,
		   RECORD("paceline", F("role", "node-host"), F("version", 1),
			  F("program", PACELINE_VERSION), F("host", here.host), F("boot", boot),
			  F("cores", here.cores), F("memory-mib", here.memory_mib)),
		   NULL);
}

/* A long time since the last look counts only once: we may have slept ourselves. */
static void look_at_node(struct serve *s)
{
	double now = clock_mono(), since = s->looked > 0 ? now - s->looked : 0;
	struct inspect_groups groups = {0};
	inspect_groups_read(&groups);
	inspect_motion(&s->motion, &groups, s->node,
		       since < 2 * REMOTE_BEAT_SECONDS ? since : 2 * REMOTE_BEAT_SECONDS);
	inspect_groups_free(&groups);
	s->looked = now;
}

static void say_beat(struct serve *s)
{
	struct record_out *o = RECORD_BARE("beat");
	if (s->node) {
		look_at_node(s);
		record_add_seconds(o, "still", s->motion.still);
		record_add_seconds(o, "stopped", s->motion.stopped);
	}
	say_record(s, o, NULL);
}

static void keep_beating(struct serve *s)
{
	struct pollfd out = {.fd = 1, .events = POLLOUT};
	serve_move(s);
	if (clock_mono() - s->beat < REMOTE_BEAT_SECONDS)
		return;
	if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT))
		say_beat(s);
	s->beat = clock_mono();
}

/* ---- hearing ---- */

/* Reads what has arrived into the buffer. -1: the conversation has ended. */
static int serve_hear(struct serve *s)
{
	struct iovec piece[2];
	size_t count = framer_pieces(&s->framer, NULL, 0, piece);
	ssize_t n = count > 0 ? readv(0, piece, (int)count) : 0;
	if (count == 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
		return 0;
	if (n <= 0)
		return -1;
	framer_came(&s->framer, (size_t)n);
	s->heard = clock_mono();
	return 0;
}

/* Takes some of a payload; 0: it is complete; -1: it does not come. A long one takes longer than
 * the other end waits for a sign of life, so we send some. */
static ssize_t serve_take_payload(struct serve *s, void *to, size_t max)
{
	double began = clock_mono(); /* before, its own storage may have kept this end */
	while (s->framer.due > 0) {
		size_t n = framer_take(&s->framer, to, max);
		struct pollfd in = {.fd = 0, .events = POLLIN};
		keep_beating(s);
		if (n > 0)
			return (ssize_t)n;
		int ready = poll(&in, 1, (int)(REMOTE_BEAT_SECONDS * 1000));
		if ((ready < 0 && errno != EINTR) || (ready > 0 && serve_hear(s) != 0) ||
		    (ready == 0 && clock_mono() - began >= REMOTE_FAR_SECONDS)) {
			s->over = 1;
			return -1;
		}
	}
	return 0;
}

/* Discards the rest of a payload. */
static void drop_payload(struct serve *s)
{
	char some[CHUNK];
	while (serve_take_payload(s, some, sizeof some) > 0)
		;
}

/* ---- files ---- */

static int serve_look(struct serve *s, const struct record *r, struct error *err)
{
	const char *path;
	struct stat st;
	uint64_t max = 0, sum;
	if (record_text(r, "path", &path, err) != 0 ||
	    record_u64_opt(r, "sample", 0, UINT32_MAX, &max, err) != 0)
		return -1;
	if (stat(path, &st) != 0 || access(path, R_OK) != 0)
		return error_errno(err, 0, path, "can't be read");
	const char *kind = S_ISREG(st.st_mode)   ? "file"
			   : S_ISDIR(st.st_mode) ? "directory"
						 : "other";
	struct record_out *o = RECORD("ok", F("kind", kind), F("size", (uint64_t)st.st_size));
	if (max > 0 && S_ISREG(st.st_mode)) {
		if (fs_sample_sum(path, max, &sum, err) != 0)
			return -1;
		record_add_u64(o, "sum", sum);
	}
	say_record(s, o, NULL);
	return 0;
}

static int serve_read_line(struct serve *s, const struct record *r, struct error *err)
{
	char text[READ_MAX + 1];
	const char *path;
	if (record_text(r, "path", &path, err) != 0)
		return -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, text, READ_MAX);
	int errnum = errno;
	if (fd >= 0)
		close(fd);
	errno = errnum;
	if (n < 0)
		return error_errno(err, 0, path, "can't be read");
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	say_record(s, RECORD("ok", F("text", text)), NULL);
	return 0;
}

static int could(struct serve *s, const struct record *r, struct error *err)
{
	const char *path;
	struct stat st;
	if (record_text(r, "path", &path, err) != 0)
		return -1;
	int is_there = stat(path, &st) == 0;
	if (is_there && !S_ISDIR(st.st_mode))
		return error_set(err, ERROR_CANTCREAT, path, "is not a directory");
	if ((is_there ? fs_is_ours(path, err) : fs_could_make_dirs(path, err)) != 0)
		return -1;
	say_ok(s);
	return 0;
}

static int serve_room(struct serve *s, const struct record *r, struct error *err)
{
	char dir[PATH_MAX];
	const char *path;
	struct statvfs st;
	if (record_text(r, "path", &path, err) != 0)
		return -1;
	snprintf(dir, sizeof dir, "%s", path);
	while (access(dir, F_OK) != 0 && strlen(dir) > 1) {
		char up[PATH_MAX];
		fs_dirname(dir, up, sizeof up);
		memcpy(dir, up, sizeof dir);
	}
	if (statvfs(dir, &st) != 0)
		return error_errno(err, 0, path, "room can't be seen");
	say_record(s, RECORD("ok", F("bytes-free", (uint64_t)st.f_bavail * st.f_frsize)), NULL);
	return 0;
}

static int serve_make(struct serve *s, const struct record *r, struct error *err)
{
	const char *path;
	if (record_text(r, "path", &path, err) != 0 || fs_make_dirs(path, err) != 0 ||
	    fs_is_ours(path, err) != 0)
		return -1;
	say_ok(s);
	return 0;
}

static int serve_fill(int fd, const char *path, void *arg, struct error *err)
{
	char some[CHUNK];
	size_t unsynced = 0;
	ssize_t n;
	while ((n = serve_take_payload(arg, some, sizeof some)) > 0) {
		if (fs_write_all(fd, some, (size_t)n, path, err) != 0)
			return -1;
		unsynced += (size_t)n;
		if (unsynced < SYNC_BYTES)
			continue;
		if (fdatasync(fd) != 0)
			return error_errno(err, ERROR_IO, path, "fdatasync");
		unsynced = 0;
	}
	return n == 0 ? 0 : error_set(err, ERROR_IO, path, "has not arrived completely");
}

static int file(struct serve *s, const struct record *r, struct error *err)
{
	char dir[PATH_MAX];
	const char *path;
	if (record_text(r, "path", &path, err) != 0)
		return -1;
	fs_dirname(path, dir, sizeof dir);
	if (fs_make_dirs(dir, err) != 0 || fs_replace(path, 0600, serve_fill, s, err) != 0)
		return -1;
	say_ok(s);
	return 0;
}

/* If the file becomes shorter meanwhile, its rest can't be sent: end the conversation. */
static void serve_send_all(struct serve *s, int fd, uint64_t bytes)
{
	char some[CHUNK];
	while (bytes > 0 && !s->over) {
		ssize_t n = read(fd, some, bytes < sizeof some ? (size_t)bytes : sizeof some);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			s->over = 1;
			return;
		}
		serve_say(s, some, (size_t)n);
		bytes -= (uint64_t)n;
	}
}

static int send_back(struct serve *s, const struct record *r, struct error *err)
{
	const char *path;
	struct stat st;
	if (record_text(r, "path", &path, err) != 0)
		return -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) != 0) {
		error_errno(err, 0, path, "can't be read");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (S_ISREG(st.st_mode)) {
		say_record(s, RECORD("ok", F("bytes", (uint64_t)st.st_size)), NULL);
		serve_send_all(s, fd, (uint64_t)st.st_size);
	} else
		error_set(err, ERROR_CONFIG, path, "is no file");
	close(fd);
	return S_ISREG(st.st_mode) ? 0 : -1;
}

static int serve_find_program(const struct serve *s, const char *name, char path[PATH_MAX],
			      struct error *err)
{
	if (process_find(name, s->search, path, PATH_MAX, NULL) == 0)
		return 0;
	return error_set(err, ERROR_CONFIG, name, "program is neither beside node-host nor on PATH");
}

static int program(struct serve *s, const struct record *r, struct error *err)
{
	char path[PATH_MAX];
	const char *name;
	if (record_text(r, "name", &name, err) != 0 || serve_find_program(s, name, path, err) != 0)
		return -1;
	say_record(s, RECORD("ok", F("path", path)), NULL);
	return 0;
}

/* ---- the node ---- */

/* Changes to the asking side's directory; if it does not exist here, stays where we were
 * started. */
static void serve_enter(const char *dir)
{
	if (dir && dir[0] == '/' && chdir(dir) == 0)
		setenv("PWD", dir, 1);
}

/* The child waits here until its limits are set; its own copy of `go` is closed already. */
static void serve_become_node(const char *host, const char *dir, int hold, int keeper,
			      int ignores_usr1, char *const *argv)
{
	process_await(hold);
	process_signals_reset_but(ignores_usr1 ? SIGUSR1 : 0);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0) {
		dprintf(2, "node-host: /dev/null: %s\n", strerror(errno));
		_exit(ERROR_OS);
	}
	setenv("PACELINE_HOST", host, 1);
	serve_enter(dir);
	keeper_pass(keeper);
	process_become("node-host", argv);
}

static int serve_start_node(struct serve *s, const char *host, const char *dir, int keeps,
			    int ignores_usr1, char *const *argv, struct error *err)
{
	int hold[2];
	if (pipe2(hold, O_CLOEXEC) != 0)
		return error_errno(err, ERROR_OS, argv[0], "pipe");
	int keeper = keeps ? keeper_start() : -1;
	pid_t us = getpid(), pid = process_fork();
	if (pid == 0) {
		close(hold[1]);
		if (getppid() != us)
			_exit(ERROR_TEMPFAIL);
		serve_become_node(host, dir, hold[0], keeper, ignores_usr1, argv);
	}
	if (keeper >= 0)
		close(keeper);
	if (pid > 0) {
		setpgid(pid, pid);
		limits_take(&s->limits, pid);
		if (write(hold[1], "", 1) != 1)
			s->over = 1;
	} else
		error_errno(err, ERROR_OS, argv[0], "fork");
	close(hold[0]);
	close(hold[1]);
	if (pid < 0)
		return -1;
	s->node = pid;
	group = (sig_atomic_t)pid;
	return 0;
}

/* Words with a NUL behind each, behind those in front; to be freed. */
static char **argv_of(const struct limits_group *g, char *text, size_t len)
{
	size_t count = g->fronts, i = 0;
	for (size_t k = 0; k < len; k++)
		count += text[k] == '\0';
	char **argv = calloc(count + 1, sizeof *argv);
	for (; argv && i < g->fronts; i++)
		argv[i] = (char *)(size_t)g->front[i];
	for (char *p = text; argv && i < count; p += strlen(p) + 1)
		argv[i++] = p;
	return argv;
}

static int serve_take_limits(struct serve *s, const struct record *r, struct error *err)
{
	struct limits_where where = limits_here;
	struct limits want = {0};
	char id[48];
	where.search = s->search;
	if (record_real_opt(r, "cores", 0, 1e9, &want.cores, err) != 0 ||
	    record_u64_opt(r, "memory", 0, UINT64_MAX, &want.memory, err) != 0 ||
	    record_u64_opt(r, "first-core", 0, UINT64_MAX, &want.first_core, err) != 0)
		return -1;
	snprintf(id, sizeof id, "node-host");
	limits_make(&s->limits, &want, id, &where);
	return 0;
}

/* Whether nobody asks any more: he was killed, and what he asked for has come late. */
static int serve_input_has_ended(void)
{
	struct pollfd in = {.fd = 0, .events = POLLRDHUP};
	return poll(&in, 1, 0) > 0 && (in.revents & (POLLHUP | POLLRDHUP));
}

/* The lock of an earlier request is let go: who had it was killed, and that is all. */
static int serve_lock(struct serve *s, const struct record *r, struct error *err)
{
	const char *path;
	pid_t killed;
	int lock;
	if (record_text(r, "path", &path, err) != 0)
		return -1;
	if (serve_input_has_ended())
		return error_set(err, ERROR_UNAVAILABLE, path, "who asked for the lock has gone: nobody is killed");
	if (alone_take(path, &lock, &killed, err) != 0)
		return -1;
	fs_close(&s->lock);
	s->lock = lock;
	say_record(s, RECORD("ok", killed ? F("killed", (uint64_t)killed) : F_NONE), NULL);
	return 0;
}

static int serve_run(struct serve *s, const struct record *r, struct error *err)
{
	const char *host;
	uint64_t bytes, keeps = 0, ignores_usr1 = 0;
	if (record_text(r, "host", &host, err) != 0 ||
	    record_u64_opt(r, "hold", 0, 1, &keeps, err) != 0 ||
	    record_u64_opt(r, "ignore-usr1", 0, 1, &ignores_usr1, err) != 0 ||
	    record_u64(r, "bytes", 2, ARGV_MAX, &bytes, err) != 0)
		return -1;
	if (s->node || s->failed)
		return error_set(err, ERROR_SOFTWARE, NULL,
				 s->node ? "runs a node already" : "a file that it needs is "
								   "missing");
	if (serve_take_limits(s, r, err) != 0)
		return -1;
	size_t first = s->limits.fronts;
	char *text = malloc((size_t)bytes);
	size_t at = 0;
	ssize_t n = 1;
	while (text && n > 0 && (n = serve_take_payload(s, text + at, (size_t)bytes - at)) > 0)
		at += (size_t)n;
	char **argv = text && n == 0 && text[bytes - 1] == '\0'
			      ? argv_of(&s->limits, text, (size_t)bytes)
			      : NULL;
	char path[PATH_MAX];
	int result = argv ? 0 : error_set(err, ERROR_OS, NULL, "the command has not arrived "
							       "completely");
	if (result == 0 && serve_input_has_ended())
		result = error_set(err, ERROR_UNAVAILABLE, NULL,
				   "who asked for the command has gone: it is not run");
	if (result == 0 && !strchr(argv[first], '/')) {
		result = serve_find_program(s, argv[first], path, err);
		argv[first] = path;
	}
	if (result == 0)
		result = serve_start_node(s, host, record_get(r, "dir"), (int)keeps,
					  (int)ignores_usr1, argv, err);
	if (result != 0)
		limits_end(&s->limits, &(struct node_end){0});
	free(argv);
	free(text);
	if (result == 0)
		say_ok(s);
	return result;
}

/* A payload that is thrown away, to measure its speed. */
static int sink(struct serve *s, const struct record *r, struct error *err)
{
	(void)r;
	(void)err;
	drop_payload(s);
	if (!s->over)
		say_ok(s);
	return 0;
}

/* What `node-host --test` says of this machine. */
static int test(struct serve *s, const struct record *r, struct error *err)
{
	char said[RECORD_LINE_MAX];
	static struct record found; /* large */
	int fd, pid;
	(void)r;
	if (host_test_begin(s->search, &fd, &pid, err) != 0 ||
	    host_test_end(fd, pid, said, sizeof said, err) != 0 ||
	    record_parse(&found, said, strlen(said), err) != 0)
		return -1;
	struct record_out *o = RECORD_BARE("ok");
	record_add_fields(o, &found, NULL);
	say_record(s, o, NULL);
	return 0;
}

/* How a node would be limited here. */
static int limits(struct serve *s, const struct record *r, struct error *err)
{
	struct limits_where where = limits_here;
	struct limits want = {0};
	where.search = s->search;
	if (record_real_opt(r, "cores", 0, 1e9, &want.cores, err) != 0 ||
	    record_u64_opt(r, "memory", 0, UINT64_MAX, &want.memory, err) != 0)
		return -1;
	struct limits_ways ways = limits_look(&want, &where);
	say_record(s,
		   RECORD("ok", F("cores-by", limits_way_name(ways.cores)),
			  F("memory-by", limits_way_name(ways.memory))),
		   NULL);
	return 0;
}

static int serve_send_signal(struct serve *s, const struct record *r, struct error *err)
{
	uint64_t number;
	if (record_u64(r, "number", 1, NSIG - 1, &number, err) != 0)
		return -1;
	if (s->node)
		kill(-s->node, (int)number);
	say_ok(s);
	return 0;
}

/* Kill the node's group before we report that the node has ended. */
static void node_ended(struct serve *s)
{
	serve_kill_group();
	process_kill_session(getpid());
	group = 0;
	struct node_end end = end_of(process_wait(s->node));
	limits_end(&s->limits, &end);
	say_record(s,
		   RECORD("end",
			  end.signal ? F("signal", (uint64_t)end.signal)
				     : F("status", (uint64_t)end.status),
			  end.oom ? F("oom", 1) : F_NONE),
		   NULL);
	s->node = 0;
	s->over = 1;
}

static int serve_has_ended(const struct serve *s)
{
	siginfo_t info = {0};
	return s->node && waitid(P_PID, (id_t)s->node, &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
	       info.si_pid == s->node;
}

/* ---- the conversation ---- */

static const struct {
	const char *name;
	int (*ask)(struct serve *s, const struct record *r, struct error *err);
	int is_needed; /* without it no node is started */
} verbs[] = {
	{"look", serve_look, 0}, {"read", serve_read_line, 0},
	{"could", could, 0},     {"room", serve_room, 0},
	{"make", serve_make, 1}, {"file", file, 1},
	{"lock", serve_lock, 1},
	{"send", send_back, 0},  {"program", program, 0},
	{"run", serve_run, 0},   {"signal", serve_send_signal, 0},
	{"sink", sink, 0},       {"test", test, 0},
	{"limits", limits, 0},
};

static void serve_answer(struct serve *s, const struct record *r)
{
	struct error err = {0};
	size_t i = 0, count = sizeof verbs / sizeof *verbs;
	uint64_t bytes = 0;
	if (record_is(r, "beat"))
		return;
	while (i < count && !record_is(r, verbs[i].name))
		i++;
	int result = record_u64_opt(r, "bytes", 0, UINT64_MAX, &bytes, &err);
	framer_expect(&s->framer, bytes);
	if (result == 0)
		result = i < count ? verbs[i].ask(s, r, &err)
				   : error_set(&err, ERROR_SOFTWARE, NULL, "unknown request %.64s", r->type);
	drop_payload(s);
	if (result == 0)
		return;
	s->failed |= i < count && verbs[i].is_needed;
	say_error(s, &err);
}

static void answer_all(struct serve *s)
{
	static struct record r;
	const char *line;
	size_t len;
	struct error err;
	enum framer_found found;
	while (!s->over && (found = framer_line(&s->framer, RECORD_LINE_MAX, &line, &len)) != FRAMER_MORE)
		if (found == FRAMER_LONG || record_parse(&r, line, len, &err) != 0)
			s->over = 1; /* what follows can't be told apart */
		else
			serve_answer(s, &r);
}

/* Signals to us go to the node; without a node they end us. */
static void serve_take_signals(struct serve *s)
{
	struct signalfd_siginfo info;
	while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
		int sig = (int)info.ssi_signo;
		if (sig != SIGCHLD && s->node)
			kill(-s->node, sig);
		else if (sig != SIGCHLD)
			s->over = 1;
	}
}

static void serve_turn(struct serve *s)
{
	struct pollfd polls[] = {{.fd = 0, .events = POLLIN},
				 {.fd = s->signals, .events = POLLIN},
				 {.fd = s->gate, .events = POLLIN}};
	double wait = s->beat + REMOTE_BEAT_SECONDS - clock_mono();
	poll(polls, 3, wait > 0 ? (int)(wait * 1000) + 1 : 0);
	if (polls[0].revents && serve_hear(s) != 0)
		s->over = 1;
	if (polls[2].revents || clock_mono() - s->heard >= REMOTE_FAR_SECONDS)
		s->over = 1;
	serve_take_signals(s);
	answer_all(s);
	if (serve_has_ended(s))
		node_ended(s);
	keep_beating(s);
}

static int signals_wanted(sigset_t *set)
{
	static const int wanted[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
	sigemptyset(set);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		sigaddset(set, wanted[i]);
	return sigprocmask(SIG_BLOCK, set, NULL);
}

static int serve_all(const char *search, int gate)
{
	static struct serve s;
	sigset_t set;
	const struct sigaction late = {.sa_handler = on_alarm};
	setsid();
	process_signals_reset();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	sigaction(SIGALRM, &late, NULL);
	/* Stopped, it would be forgotten without the elder. Going on it sees that the elder has gone. */
	prctl(PR_SET_PDEATHSIG, SIGCONT);
	s.search = search;
	s.gate = gate;
	s.lock = -1;
	s.heard = clock_mono();
	framer_lend(&s.framer, s.in, sizeof s.in);
	if (signals_wanted(&set) != 0)
		return ERROR_OS;
	s.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s.signals < 0)
		return ERROR_OS;
	serve_greet(&s);
	while (!s.over)
		serve_turn(&s);
	serve_kill_group();
	process_kill_session(getpid());
	if (s.node)
		limits_end(&s.limits, &(struct node_end){0});
	return 0;
}

/* ---- the one that waits ---- */

static volatile sig_atomic_t worker;

static void serve_pass_on(int sig)
{
	if (worker > 0)
		kill((pid_t)worker, sig);
}

/* Waits until the younger ends (0), or has not moved for so long that it may never do so again (1):
 * something holds it, or has stopped it. When nobody asks any more it is to end, so it goes on if it was
 * stopped, and has less time. Beats that are missed are counted, and no time is taken: we may have been
 * stopped ourselves. */
static int serve_is_stuck(pid_t younger, int gate)
{
	struct pollfd in[] = {{.fd = gate, .events = POLLIN}, {.fd = 0, .events = POLLRDHUP}};
	double most = REMOTE_STUCK_SECONDS;
	char words[64];
	for (double still = 0; still < most;) {
		int ready = poll(in, 2, (int)(REMOTE_BEAT_SECONDS * 1000));
		if (ready > 0 && in[0].revents) {
			if (read(gate, words, sizeof words) <= 0)
				return 0;
			still = 0;
		}
		if (ready > 0 && in[1].revents) {
			in[1].fd = -1;
			most = REMOTE_LEFT_SECONDS;
			kill(younger, SIGCONT);
		}
		if (ready == 0)
			still += REMOTE_BEAT_SECONDS;
	}
	return 1;
}

int remote_serve(const char *search)
{
	static const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
	const struct sigaction action = {.sa_handler = serve_pass_on, .sa_flags = SA_RESTART};
	siginfo_t info = {0};
	int gate[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) != 0)
		return ERROR_OS;
	pid_t pid = process_fork();
	if (pid == 0) {
		close(gate[0]);
		_exit(serve_all(search, gate[1]));
	}
	close(gate[1]);
	if (pid < 0)
		return ERROR_OS;
	worker = (sig_atomic_t)pid;
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
		sigaction(passed[i], &action, NULL);
	close(1);
	if (!serve_is_stuck(pid, gate[0]))
		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	/* One that was killed leaves what it had started; one that does not move goes with it. */
	if (info.si_code != CLD_EXITED)
		process_kill_session(pid);
	int status = process_wait(pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : ERROR_TEMPFAIL;
}

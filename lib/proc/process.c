/* process: see process.h. */
#include "proc/process.h"

#include "base/clock.h"
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads one field, from the third on, of /proc's line about a running process (not a zombie). */
static int stat_field(pid_t pid, int wanted, uint64_t *value)
{
	char text[FS_PROC_MAX];
	const char *p = fs_stat_fields(fs_read_proc(text, "/proc/%ld/stat", (long)pid));
	if (pid <= 0 || !p || *p == 'Z' || *p == 'X')
		return -1;
	for (int field = 3; p && field < wanted; field++)
		if ((p = strchr(p, ' ')))
			p++;
	if (p)
		*value = strtoull(p, NULL, 10);
	return p ? 0 : -1;
}

int process_start(pid_t pid, uint64_t *start)
{
	return stat_field(pid, 22, start);
}

int process_alive(pid_t pid, uint64_t start)
{
	uint64_t now;
	return process_start(pid, &now) == 0 && now == start;
}

int process_watch(pid_t pid, uint64_t start)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd >= 0 && !process_alive(pid, start)) { /* checked after the descriptor holds the
						      * process */
		close(fd);
		return -1;
	}
	return fd;
}

pid_t process_fork(void)
{
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t pid = fork();
	int errnum = errno;
	if (pid != 0)
		sigprocmask(SIG_SETMASK, &before, NULL);
	errno = errnum;
	return pid;
}

int process_wait(pid_t pid)
{
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

void process_signals_reset_but(int ignored)
{
	sigset_t none;
	for (int sig = 1; sig < NSIG; sig++) {
		signal(sig, SIG_IGN); /* pending signals are gone */
		if (sig != ignored)
			signal(sig, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void process_signals_reset(void)
{
	process_signals_reset_but(0);
}

void process_await(int pipe)
{
	char word;
	ssize_t n;
	do
		n = read(pipe, &word, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(ERROR_TEMPFAIL);
}

void process_become(const char *who, char *const *argv)
{
	execv(argv[0], argv);
	process_not_run(who, argv[0]);
}

void process_not_run(const char *who, const char *program)
{
	int errnum = errno;
	dprintf(2, "%s: %s: %s\n", who, program, strerror(errnum));
	_exit(errnum == EAGAIN || errnum == ENOMEM ? ERROR_OS : ERROR_CONFIG);
}

static int process_runs(const char *path)
{
	return access(path, X_OK) == 0;
}

#define EXEC_DIR "libexec/paceline"

/* PREFIX/libexec/paceline and PREFIX/bin, if we are in one of them; else both are our own
 * directory. */
static int find_dirs(char exec[PATH_MAX], char bin[PATH_MAX], struct error *err)
{
	char self[PATH_MAX], prefix[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n < 0)
		return error_errno(err, ERROR_OS, "/proc/self/exe", "can't be read");
	self[n] = '\0';
	fs_dirname(self, bin, PATH_MAX);
	fs_dirname(bin, prefix, sizeof prefix);
	if (fs_join(exec, PATH_MAX, prefix, EXEC_DIR, NULL) != 0 || !process_runs(exec))
		memcpy(exec, bin, PATH_MAX);
	size_t len = strlen(bin), end = strlen("/" EXEC_DIR);
	if (len > end && strcmp(bin + len - end, "/" EXEC_DIR) == 0)
		memcpy(bin + len - end, "/bin", sizeof "/bin");
	return 0;
}

int process_exec_dir(char *out, size_t out_max, struct error *err)
{
	char exec[PATH_MAX], bin[PATH_MAX];
	if (find_dirs(exec, bin, err) != 0)
		return -1;
	snprintf(out, out_max, "%s", exec);
	return 0;
}

int process_find(const char *program, const char *search, char *out, size_t out_max,
		 struct error *err)
{
	char exec[PATH_MAX], bin[PATH_MAX];
	if (find_dirs(exec, bin, NULL) == 0 &&
	    ((fs_join(out, out_max, exec, program, NULL) == 0 && process_runs(out)) ||
	     (fs_join(out, out_max, bin, program, NULL) == 0 && process_runs(out))))
		return 0;
	for (const char *p = search ? search : ""; *p;) {
		size_t len = strcspn(p, ":");
		int m = snprintf(out, out_max, "%.*s/%s", (int)len, p, program);
		if (len > 0 && m > 0 && (size_t)m < out_max && process_runs(out))
			return 0;
		p += len + (p[len] == ':');
	}
	return error_set(err, ERROR_CONFIG, program,
			 "program is neither beside trainctl nor on PATH");
}

/* ---- a session ---- */

#define SESSION_TRIES 100 /* ten milliseconds apart */

/* An ended process has no session. */
static int is_of_session(pid_t pid, pid_t session)
{
	uint64_t of;
	return stat_field(pid, 6, &of) == 0 && of == (uint64_t)session;
}

void process_kill_session(pid_t session)
{
	pid_t self = getpid();
	for (int i = 0, left = 1; left && i < SESSION_TRIES; i++) {
		DIR *d = opendir("/proc");
		left = 0;
		for (struct dirent *e; d && (e = readdir(d));) {
			pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
			if (pid > 0 && pid != self && is_of_session(pid, session))
				left |= kill(pid, SIGKILL) == 0;
		}
		if (d)
			closedir(d);
		if (left)
			clock_sleep(0.01);
	}
}

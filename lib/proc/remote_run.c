/* remote_run: see remote_run.h. */
#include "proc/remote_run.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct running {
	const struct remote_run *what;
	struct remote *remote;
	int signals;  /* signalfd */
	size_t left;  /* answers to come before the node runs; the last one is that of `run` */
	int has_asked, has_ended, killed_by;
	int ignores_usr1;
	struct node_end *end;
};

#define DIR_MAX 1024 /* bytes of a directory name that fits into the request, whatever is in it */

static int ask_run(struct running *r, struct error *err)
{
	char dir[DIR_MAX], *text = NULL;
	size_t len = 0;
	FILE *out = grow_stream(&text, &len);
	for (char *const *word = r->what->argv; out && *word; word++)
		fwrite(*word, 1, strlen(*word) + 1, out);
	if (!out || fclose(out) != 0) {
		free(text);
		return error_set(err, ERROR_OS, r->what->host.host, "out of memory");
	}
	struct record_out *o = RECORD("run", F("host", r->what->host.host),
				      getcwd(dir, sizeof dir) ? F("dir", dir) : F_NONE);
	if (limits_any(&r->what->limits)) {
		record_add_real(o, "cores", r->what->limits.cores);
		record_add_u64(o, "memory", r->what->limits.memory);
		record_add_u64(o, "first-core", r->what->limits.first_core);
	}
	if (r->what->keeps)
		record_add_u64(o, "hold", 1);
	if (r->ignores_usr1)
		record_add_u64(o, "ignore-usr1", 1);
	record_add_u64(o, "bytes", len);
	int result = remote_ask(r->remote, o, text, len, err);
	free(text);
	r->left++;
	return result;
}

/* After the greeting: sends the files that the node needs, and starts the node, without waiting for
 * answers in between. */
static int remote_run_ask_all(struct running *r, struct error *err)
{
	if (!remote_greets(r->remote) || r->has_asked)
		return 0;
	r->has_asked = 1;
	for (const char *const *dir = r->what->make; dir && *dir; dir++, r->left++)
		if (remote_ask_path(r->remote, "make", *dir, err) != 0)
			return -1;
	for (const char *const *lock = r->what->lock; lock && *lock; lock++, r->left++)
		if (remote_ask_path(r->remote, "lock", *lock, err) != 0)
			return -1;
	for (const char *const *path = r->what->bring; path && *path; path++)
		if (remote_bring(r->remote, *path, &r->left, err) != 0)
			return -1;
	return ask_run(r, err);
}

static int remote_run_pass_on(struct running *r, int sig, struct error *err)
{
	if (!r->has_asked) { /* nothing has been started */
		if (sig != SIGUSR1 || !r->ignores_usr1)
			r->killed_by = sig;
		return 0;
	}
	return remote_ask(r->remote, RECORD("signal", F("number", (uint64_t)sig)), NULL, 0, err);
}

static int remote_run_take_signals(struct running *r, struct error *err)
{
	struct signalfd_siginfo info;
	int result = 0;
	while (result == 0 && read(r->signals, &info, sizeof info) == (ssize_t)sizeof info)
		result = remote_run_pass_on(r, (int)info.ssi_signo, err);
	return result;
}

static int remote_run_take_end(struct running *r, const struct record *rec, struct error *err)
{
	uint64_t status = 0, sig = 0, oom = 0;
	if (record_u64_opt(rec, "status", 0, 255, &status, err) != 0 ||
	    record_u64_opt(rec, "signal", 0, NSIG - 1, &sig, err) != 0 ||
	    record_u64_opt(rec, "oom", 0, 1, &oom, err) != 0)
		return error_wrap(err, r->what->host.host);
	*r->end = (struct node_end){
		.seen = 1, .status = (int)status, .signal = (int)sig, .oom = (int)oom};
	r->has_ended = 1;
	remote_done(r->remote);
	return 0;
}

static void remote_run_take_ok(struct running *r, const struct record *rec)
{
	uint64_t killed = 0;
	r->left--;
	record_u64_opt(rec, "killed", 0, UINT64_MAX, &killed, NULL);
	if (killed)
		log_say(LOG_LEVEL_WARNING,
			"%s: process %llu had been given up here, and lived on: killed, with what it ran",
			r->what->host.host, (unsigned long long)killed);
}

static int remote_run_take_answers(struct running *r, struct error *err)
{
	const struct record *rec;
	int got;
	while ((got = remote_take(r->remote, &rec, err)) > 0) {
		int result = 0;
		if (record_is(rec, "end"))
			result = remote_run_take_end(r, rec, err);
		else if (r->left > 0 && record_is(rec, "err"))
			result = remote_refused(r->remote, rec, err);
		else if (r->left > 0 && record_is(rec, "ok"))
			remote_run_take_ok(r, rec);
		if (result != 0)
			return -1;
	}
	return got;
}

/* After the node's end, waits for the far side to end: the node's last output comes with it. */
static int remote_run_turn(struct running *r, struct error *err)
{
	struct pollfd polls[REMOTE_POLLS + 1];
	struct error over;
	remote_wants(r->remote, polls);
	polls[REMOTE_POLLS] = (struct pollfd){.fd = r->signals, .events = POLLIN};
	if (poll(polls, REMOTE_POLLS + 1, remote_timeout(r->remote)) < 0 && errno != EINTR)
		return error_errno(err, ERROR_OS, r->what->host.host, "poll");
	if (remote_run_take_signals(r, err) != 0)
		return -1;
	int result = remote_turn(r->remote, polls, &over);
	if (remote_run_take_answers(r, err) != 0 || remote_run_ask_all(r, err) != 0)
		return -1;
	inspect_show(remote_motion(r->remote));
	if (result == 0)
		return 0;
	if (err)
		*err = over;
	return -1;
}

static int block_signals(int *fd)
{
	static const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
		sigaddset(&set, passed[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -1;
	*fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *fd < 0 ? -1 : 0;
}

static int is_ignored(int sig)
{
	struct sigaction now;
	return sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

int remote_run(const struct remote_run *what, struct node_end *end, struct error *err)
{
	struct running r = {.what = what,
			    .signals = -1,
			    .end = end,
			    .ignores_usr1 = is_ignored(SIGUSR1)};
	if (block_signals(&r.signals) != 0)
		return error_errno(err, ERROR_OS, what->host.host, "signals");
	int result = remote_open(&r.remote, &what->host, err);
	while (result == 0 && !r.killed_by)
		result = remote_run_turn(&r, err);
	if (r.killed_by)
		*end = (struct node_end){.seen = 1, .signal = r.killed_by};
	remote_close(r.remote);
	close(r.signals);
	return r.has_ended || r.killed_by ? 0 : -1;
}

/* ---- files from there ---- */

struct fetch {
	struct remote *remote;
	const char *host, *path;
	int refused; /* the host is there, and has no such file */
};

static int fetch_turn(struct fetch *f, int *done, struct error *err)
{
	struct pollfd polls[REMOTE_POLLS];
	const struct record *rec;
	struct error over;
	remote_wants(f->remote, polls);
	if (poll(polls, REMOTE_POLLS, remote_timeout(f->remote)) < 0 && errno != EINTR)
		return error_errno(err, ERROR_OS, f->host, "poll");
	int result = remote_turn(f->remote, polls, &over), got = remote_take(f->remote, &rec, err);
	if (got < 0)
		return -1;
	if (got > 0 && !record_is(rec, "ok")) {
		f->refused = 1;
		return remote_refused(f->remote, rec, err);
	}
	*done = got > 0;
	if (*done || result == 0)
		return 0;
	if (err)
		*err = over;
	return -1;
}

static int remote_run_fill(int fd, const char *path, void *arg, struct error *err)
{
	struct fetch *f = arg;
	int done = 0, result = remote_ask_path(f->remote, "send", f->path, err);
	(void)path;
	remote_into(f->remote, fd);
	while (result == 0 && !done)
		result = fetch_turn(f, &done, err);
	remote_into(f->remote, -1);
	return result;
}

int remote_fetch(const struct remote_options *host, const struct remote_pair *pair, size_t count,
		 struct error *err)
{
	struct fetch f = {.host = host->host};
	struct error one;
	int result = 0;
	if (remote_open(&f.remote, host, err) != 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		f.path = pair[i].path;
		f.refused = 0;
		if (fs_replace(pair[i].to, 0600, remote_run_fill, &f, &one) == 0)
			continue;
		if (result == 0 && err)
			*err = one;
		result = -1;
		if (!f.refused) /* half an answer may be before the next one */
			break;
	}
	remote_close(f.remote);
	return result;
}

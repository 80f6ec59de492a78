/* keeper: see keeper.h. It must stay small, as the node's parent: it knows one link. */
#include "proc/keeper.h"

#include "base/clock.h"
#include "base/keep.h"
#include "proc/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define NODE_FD 3
#define LOOK_SECONDS 0.5 /* whether the link still leads here */

struct kept {
	int fd; /* -1: nothing */
	char link[KEEP_LINK_MAX], target[64];
};

static int leads_here(const struct kept *k)
{
	char is[sizeof k->target];
	ssize_t n = readlink(k->link, is, sizeof is - 1);
	is[n > 0 ? n : 0] = '\0';
	return strcmp(is, k->target) == 0;
}

static void keeper_let_go(struct kept *k)
{
	if (k->fd < 0)
		return;
	if (leads_here(k))
		unlink(k->link);
	close(k->fd);
	k->fd = -1;
}

static int keeper_hold(struct kept *k, int fd)
{
	k->fd = fd;
	snprintf(k->target, sizeof k->target, "/proc/%d/fd/%d", (int)getpid(), fd);
	unlink(k->link);
	if (symlink(k->target, k->link) == 0)
		return 0;
	close(fd);
	k->fd = -1;
	return -1;
}

static void keeper_serve(void)
{
	static struct kept k = {.fd = -1};
	static char link[KEEP_LINK_MAX];
	int fd;
	while (keep_next(NODE_FD, &fd, link)) {
		keeper_let_go(&k);
		memcpy(k.link, link, sizeof link);
		keep_answer(NODE_FD, fd < 0 || keeper_hold(&k, fd) == 0);
	}
	for (double s = 0; k.fd >= 0 && s < KEEPER_SECONDS && leads_here(&k); s += LOOK_SECONDS)
		clock_sleep(LOOK_SECONDS);
	keeper_let_go(&k);
}

/* Close everything of the node's parent: its lock, the log. */
static void become_keeper(int node)
{
	prctl(PR_SET_NAME, KEEPER_NAME);
	setsid();
	process_signals_reset();
	signal(SIGHUP, SIG_IGN);
	int own = fcntl(node, F_DUPFD, 10);
	int null = open("/dev/null", O_RDWR);
	if (own < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
	    dup2(own, NODE_FD) < 0)
		_exit(1);
	close_range(NODE_FD + 1, ~0u, 0);
	if (chdir("/") != 0)
		_exit(1);
	keeper_serve();
	_exit(0);
}

int keeper_start(void)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	pid_t pid = process_fork();
	if (pid == 0) {
		close(ends[0]);
		become_keeper(ends[1]);
	}
	close(ends[1]);
	if (pid > 0)
		return ends[0];
	close(ends[0]);
	return -1;
}

void keeper_pass(int keeper)
{
	char number[16];
	unsetenv(KEEP_VARIABLE);
	if (keeper < 0 || fcntl(keeper, F_SETFD, 0) != 0)
		return;
	snprintf(number, sizeof number, "%d", keeper);
	setenv(KEEP_VARIABLE, number, 1);
}

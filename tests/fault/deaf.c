/*
 * deaf: asks whoever listens at the sockets of a directory, every 100 ms each, and says at its end
 * (SIGTERM) how long each took to answer at worst: "NAME SECONDS AT" a line, AT the seconds since it
 * began.  What it has to wait for the machine itself counts for nobody, nor does what the one that is
 * asked waits for a core, nor who ends.
 *
 *   deaf DIR
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX	64
#define EVERY	0.1
#define OWN_MAX 0.05

static struct ear {
	char name[100], text[4096];
	int fd; /* -1: it is not asked */
	size_t len;
	pid_t pid; /* of who listens there */
	double asked, next, worst, worst_at;
	double queued; /* seconds that it had waited for a core when it was asked */
} ear[MAX];
static int count;
static volatile sig_atomic_t over;

static void on_term(int number)
{
	(void)number;
	over = 1;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void find(const char *dir)
{
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		size_t len = strlen(e->d_name);
		int i = 0;
		if (len < 6 || len >= sizeof ear->name || strcmp(e->d_name + len - 5, ".sock") != 0)
			continue;
		while (i < count && strcmp(ear[i].name, e->d_name) != 0)
			i++;
		if (i < count || count == MAX)
			continue;
		strcpy(ear[count].name, e->d_name);
		ear[count++].fd = -1;
	}
	if (d)
		closedir(d);
}

/* Seconds that the first thread of a process, which has its loop, has waited for a core so far. */
static double queued(pid_t pid)
{
	char path[64];
	unsigned long long waited = 0;
	snprintf(path, sizeof path, "/proc/%d/schedstat", (int)pid);
	FILE *f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%*u %llu", &waited) != 1)
		waited = 0;
	fclose(f);
	return (double)waited / 1e9;
}

static void hear(struct ear *e, double at)
{
	double took = at - e->asked;
	if (took <= e->worst)
		return;
	double waited = queued(e->pid) - e->queued; /* less than 0: it has ended */
	took -= waited > 0 ? waited : 0;
	if (took > e->worst) {
		e->worst = took;
		e->worst_at = at;
	}
}

static void hang_up(struct ear *e)
{
	close(e->fd);
	e->fd = -1;
}

static void ask(struct ear *e, const char *dir)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	static const char text[] = "stat\n";
	if (snprintf(to.sun_path, sizeof to.sun_path, "%s/%s", dir, e->name) >= (int)sizeof to.sun_path)
		return;
	e->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	e->len = 0;
	e->asked = now();
	e->next = e->asked + EVERY;
	if (connect(e->fd, (struct sockaddr *)&to, sizeof to) != 0) {
		if (errno == EAGAIN) /* nobody has taken those before us */
			e->next = e->asked;
		hang_up(e);
	} else if (send(e->fd, text, sizeof text - 1, MSG_NOSIGNAL) < 0)
		hang_up(e);
	else {
		struct ucred who = {0};
		socklen_t size = sizeof who;
		getsockopt(e->fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
		e->pid = who.pid;
		e->queued = queued(who.pid);
	}
}

/* The answer's last line is ok or err. */
static void take(struct ear *e)
{
	ssize_t got = recv(e->fd, e->text + e->len, sizeof e->text - 1 - e->len, 0);
	if (got <= 0) {
		hang_up(e);
		return;
	}
	e->len += (size_t)got;
	e->text[e->len] = '\0';
	if (strstr(e->text, "\nok") || strstr(e->text, "\nerr") || e->len == sizeof e->text - 1) {
		hear(e, now());
		hang_up(e);
	}
}

int main(int argc, char **argv)
{
	struct pollfd poll_for[MAX];
	double began = now(), before = began, at;
	if (argc != 2)
		return 64;
	signal(SIGTERM, on_term);
	for (; !over; before = at) {
		find(argv[1]);
		for (int i = 0; i < count; i++) {
			if (ear[i].fd < 0 && now() >= ear[i].next)
				ask(&ear[i], argv[1]);
			poll_for[i] = (struct pollfd){.fd = ear[i].fd, .events = POLLIN};
		}
		poll(poll_for, (nfds_t)count, 20);
		at = now();
		double own = at - before > OWN_MAX ? at - before - OWN_MAX : 0;
		for (int i = 0; i < count; i++) {
			if (ear[i].fd < 0)
				continue;
			ear[i].asked += own;
			if (poll_for[i].revents)
				take(&ear[i]);
			else
				hear(&ear[i], at);
		}
	}
	for (int i = 0; i < count; i++)
		printf("%s %.2f %.1f\n", ear[i].name, ear[i].worst, ear[i].worst_at - began);
	return 0;
}

/*
 * pairs: the load of tests/bench/shardd-redis. One process, one epoll loop, N clients; each
 * finishes the shard in its hand and takes the next in one write, and waits for both answers.
 * The same loop drives shardd (done + get) and Redis (LREM + LMOVE).
 *
 *   pairs shardd SOCKET CLIENTS SECONDS     prints pairs a second
 *   pairs redis SOCKET CLIENTS SECONDS
 *   pairs fill SOCKET COUNT                 the list `todo` of Redis
 *   pairs idle SOCKET CLIENTS               workers that have said hello, until stdin ends
 */
#include "rounds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct client {
	int fd;
	int number;
	unsigned long long generation;
	char id[24];
	char in[4096];
	size_t len;
};

static const char *path;
static int is_redis;

static void die(const char *what)
{
	fprintf(stderr, "pairs: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int dial(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
		die(path);
	return fd;
}

static void say(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);
		if (n <= 0)
			die("write");
		text += n;
		len -= (size_t)n;
	}
}

/* Reads until `count` lines are there; the text stays in c->in, terminated. */
static void hear(struct client *c, int count)
{
	c->len = 0;
	for (;;) {
		ssize_t n = read(c->fd, c->in + c->len, sizeof c->in - 1 - c->len);
		if (n <= 0)
			die("read");
		c->len += (size_t)n;
		c->in[c->len] = '\0';
		int lines = 0;
		for (const char *p = c->in; (p = strchr(p, '\n')) != NULL; p++)
			lines++;
		if (lines >= count)
			return;
	}
}

static int take_id(struct client *c, const char *before, char end)
{
	const char *p = strstr(c->in, before);
	const char *stop = p ? strchr(p + strlen(before), end) : NULL;
	if (!p || !stop)
		return 0;
	p += strlen(before);
	snprintf(c->id, sizeof c->id, "%.*s", (int)(stop - p), p);
	return 1;
}

static void hello(struct client *c)
{
	char text[128];
	say(c->fd, text, (size_t)snprintf(text, sizeof text, "hello worker=w%d\n", c->number));
	hear(c, 2); /* greeting and ok */
	if (sscanf(strstr(c->in, "generation="), "generation=%llu", &c->generation) != 1)
		die("hello");
}

static void first(struct client *c)
{
	char text[128];
	if (is_redis) {
		say(c->fd, text,
		    (size_t)snprintf(text, sizeof text, "LMOVE todo doing LEFT RIGHT\r\n"));
		hear(c, 2);
		if (!take_id(c, "\r\n", '\r'))
			die("LMOVE");
		return;
	}
	hello(c);
	say(c->fd, text,
	    (size_t)snprintf(text, sizeof text, "get worker=w%d generation=%llu\n", c->number,
			     c->generation));
	hear(c, 2);
	if (!take_id(c, "id=", ' '))
		die("get");
}

static void ask(struct client *c)
{
	char text[256];
	int n = is_redis
			? snprintf(
				  text, sizeof text,
				  "*4\r\n$4\r\nLREM\r\n$5\r\ndoing\r\n$1\r\n1\r\n$%zu\r\n%s\r\n"
				  "*5\r\n$5\r\nLMOVE\r\n$4\r\ntodo\r\n$5\r\ndoing\r\n$4\r\nLEFT\r\n"
				  "$5\r\nRIGHT\r\n",
				  strlen(c->id), c->id)
			: snprintf(text, sizeof text,
				   "done worker=w%d generation=%llu id=%s\n"
				   "get worker=w%d generation=%llu\n",
				   c->number, c->generation, c->id, c->number, c->generation);
	c->len = 0;
	say(c->fd, text, (size_t)n);
}

/* Three lines answer a pair, in both: ok, shard, ok; :1, $N, ID. */
static int answered(struct client *c)
{
	ssize_t n = read(c->fd, c->in + c->len, sizeof c->in - 1 - c->len);
	if (n <= 0)
		die("read");
	c->len += (size_t)n;
	c->in[c->len] = '\0';
	int lines = 0;
	const char *second = NULL;
	for (const char *p = c->in; (p = strchr(p, '\n')) != NULL; p++)
		if (++lines == 2)
			second = p;
	if (lines < 3)
		return 0;
	if (is_redis ? strncmp(c->in, ":1\r\n", 4) != 0 : strncmp(c->in, "ok\n", 3) != 0) {
		fprintf(stderr, "pairs: unexpected: %s", c->in);
		exit(1);
	}
	if (is_redis)
		snprintf(c->id, sizeof c->id, "%.*s", (int)strcspn(second + 1, "\r"), second + 1);
	else if (!take_id(c, "id=", ' '))
		die(c->in);
	return 1;
}

static struct client *connect_all(int count)
{
	struct client *c = calloc((size_t)count, sizeof *c);
	struct rlimit limit;
	if (!c)
		die("memory");
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	for (int i = 0; i < count; i++) {
		c[i].fd = dial();
		c[i].number = i;
	}
	return c;
}

static void run(int count, double seconds)
{
	struct client *c = connect_all(count);
	int loop = epoll_create1(0);
	for (int i = 0; i < count; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = &c[i]};
		first(&c[i]);
		epoll_ctl(loop, EPOLL_CTL_ADD, c[i].fd, &e);
		ask(&c[i]);
	}
	unsigned long long pairs = 0;
	double begin = now(), end;
	while ((end = now()) < begin + seconds) {
		struct epoll_event events[64];
		int n = epoll_wait(loop, events, 64, 1000);
		for (int i = 0; i < n; i++) {
			struct client *one = events[i].data.ptr;
			if (!answered(one))
				continue;
			pairs++;
			ask(one);
		}
	}
	printf("%.0f\n", (double)pairs / (end - begin));
}

static void fill(int count)
{
	int fd = dial();
	static char text[1 << 16], in[1 << 16];
	size_t len = 0;
	unsigned long long answers = 0, asked = 0;
	for (int i = 0; i < count;) {
		len = (size_t)sprintf(text, "RPUSH todo");
		for (int k = 0; k < 1000 && i < count; k++)
			len += (size_t)sprintf(text + len, " %d", i++);
		len += (size_t)sprintf(text + len, "\r\n");
		say(fd, text, len);
		asked++;
		while (answers < asked) {
			ssize_t n = read(fd, in, sizeof in);
			if (n <= 0)
				die("read");
			for (ssize_t k = 0; k < n; k++)
				answers += in[k] == '\n';
		}
	}
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: pairs shardd|redis|fill|idle SOCKET COUNT [SECONDS]\n");
		return 64;
	}
	path = argv[2];
	is_redis = strcmp(argv[1], "redis") == 0;
	int count = atoi(argv[3]);
	if (strcmp(argv[1], "fill") == 0) {
		fill(count);
	} else if (strcmp(argv[1], "idle") == 0) {
		struct client *c = connect_all(count);
		for (int i = 0; i < count; i++)
			hello(&c[i]);
		puts("ready");
		fflush(stdout);
		while (getchar() != EOF)
			;
	} else {
		run(count, argc > 4 ? atof(argv[4]) : 2);
	}
	return 0;
}

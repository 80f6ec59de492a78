/*
 * lb-barrier: N workers at a lead, all of them this process: how long the barrier takes, from the
 * last push to the last answer, when each worker's speed is another one in each iteration.
 *
 * lb-barrier SOCKET WORKERS ITERATIONS alone|expected: prints iterations= mean-us= p50-us= p99-us=, the sizes told
 * summing to the batch in each iteration when there are any (told=: answers that had a size).
 */
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PARAMETERS 16
#define WORKERS_MAX 4096

struct client {
	int fd;
	char in[65536];
	size_t len;
	unsigned long size;
};

static struct client client[WORKERS_MAX];
static unsigned long told;
static int members;     /* that an answer named */
static int first_alone; /* the lead expects nobody */

static void die(const char *what)
{
	fprintf(stderr, "lb-barrier: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_client(struct client *c, const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
	c->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0)
		die(path);
}

static void say(struct client *c, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(c->fd, text, len);
		if (n < 0)
			die("write");
		text += n;
		len -= (size_t)n;
	}
}

/* Lines until the closing one, which must be ok. */
static void hear(struct client *c)
{
	for (;;) {
		char *end;
		while ((end = memchr(c->in, '\n', c->len))) {
			size_t line = (size_t)(end - c->in) + 1;
			char *size;
			*end = '\0';
			int closing = strncmp(c->in, "ok", 2) == 0;
			if (strncmp(c->in, "err", 3) == 0) {
				fprintf(stderr, "lb-barrier: %s\n", c->in);
				exit(1);
			}
			members += strncmp(c->in, "member ", 7) == 0;
			if (strncmp(c->in, "action", 6) == 0 && (size = strstr(c->in, " size="))) {
				c->size = strtoul(size + 6, NULL, 10);
				told++;
			}
			memmove(c->in, c->in + line, c->len - line);
			c->len -= line;
			if (closing)
				return;
		}
		ssize_t n = read(c->fd, c->in + c->len, sizeof c->in - c->len);
		if (n <= 0)
			die("read");
		c->len += (size_t)n;
	}
}

static void join(int worker)
{
	char line[200];
	int len = snprintf(line, sizeof line, "join worker=w%d generation=1 incarnation=1\n", worker);

	say(&client[worker], line, (size_t)len);
}

static void push(int worker, unsigned long k, double speed)
{
	char text[600];
	unsigned long size = client[worker].size;
	int len = snprintf(text, sizeof text,
			   "push worker=w%d generation=1 incarnation=1 sequence=%lu iteration=%lu "
			   "count=%lu dense=1 rows=0 speed=%.9g time=%.9g mem=0.5 bytes=%zu\n",
			   worker, k + 1, k, size, speed, (double)size / speed,
			   PARAMETERS * sizeof(float));

	memset(text + len, 0, PARAMETERS * sizeof(float));
	say(&client[worker], text, (size_t)len + PARAMETERS * sizeof(float));
}

/* If nobody else was expected the first one enters alone, and closes an iteration when all others
 * have asked: connections are heard in any order. */
static void enter(int workers)
{
	join(0);
	if (first_alone)
		hear(&client[0]);
	for (int i = 1; i < workers; i++)
		join(i);
	if (first_alone) {
		do {
			members = 0;
			say(&client[0], "members\n", 8);
			hear(&client[0]);
		} while (members < workers);
		push(0, 0, 500);
	}
	for (int i = 0; i < workers; i++)
		hear(&client[i]);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 64;
	int workers = atoi(argv[2]);
	first_alone = strcmp(argv[4], "alone") == 0;
	unsigned long rounds = strtoul(argv[3], NULL, 10), sum = 0;
	double *us = calloc(rounds, sizeof *us), mean = 0;

	if (!us || workers < 1 || workers > WORKERS_MAX)
		return 64;
	for (int i = 0; i < workers; i++) {
		client[i].size = 32;
		open_client(&client[i], argv[1]);
	}
	enter(workers);
	srand(3);
	for (unsigned long n = 0; n < rounds; n++) {
		unsigned long before = told, k = n + (unsigned long)first_alone;
		for (int i = 0; i < workers - 1; i++)
			push(i, k, 100 + rand() % 900);
		double began = clock_mono();
		push(workers - 1, k, 100 + rand() % 900);
		for (int i = 0; i < workers; i++)
			hear(&client[i]);
		us[n] = (clock_mono() - began) * 1e6;
		mean += us[n] / (double)rounds;
		sum = 0;
		for (int i = 0; i < workers; i++)
			sum += client[i].size;
		if (told > before && sum != (unsigned long)workers * 32) {
			fprintf(stderr, "lb-barrier: sizes sum to %lu in iteration %lu\n", sum, k);
			return 1;
		}
	}
	qsort(us, rounds, sizeof *us, by_value);
	printf("iterations=%lu told=%lu mean-us=%.1f p50-us=%.1f p99-us=%.1f\n", rounds, told, mean,
	       us[rounds / 2], us[rounds * 99 / 100]);
	return 0;
}

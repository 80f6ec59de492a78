/* balance: lib/solve asked for the gate at every barrier. */
#include "cmd/ps-server.h"

#include <stdlib.h>

struct balancer {
	struct balance *balance;
	struct balance_member *member;
	size_t room;
	int warned; /* that it can't be met */
};

int balancer_new(struct balancer **out, const char *method, uint64_t global, struct error *err)
{
	struct balancer *b = calloc(1, sizeof *b);

	if (!b)
		return error_set(err, ERROR_OS, "--balance", "no memory");
	if (balance_new(&b->balance, method, global, err) != 0) {
		free(b);
		return -1;
	}
	*out = b;
	return 0;
}

void balancer_free(struct balancer *b)
{
	if (!b)
		return;
	balance_free(b->balance);
	free(b->member);
	free(b);
}

static int reserve(struct balancer *b, size_t n, struct error *err)
{
	if (n <= b->room)
		return 0;
	free(b->member);
	b->member = calloc(n * 2, sizeof *b->member);
	b->room = b->member ? n * 2 : 0;
	return b->room ? 0 : error_set(err, ERROR_OS, "--balance", "no memory");
}

static int ask(struct balancer *b, struct gate_number *g, size_t n, struct error *err)
{
	if (reserve(b, n, err) != 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		b->member[i] = (struct balance_member){.worker = g[i].worker,
						       .speed = g[i].speed,
						       .time = g[i].time,
						       .mem = g[i].mem,
						       .count = g[i].count,
						       .most = g[i].most,
						       .size = g[i].size};
	if (balance_round(b->balance, b->member, n, err) != 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		g[i].size = b->member[i].size;
		g[i].warn = b->member[i].warn;
	}
	return 0;
}

int balancer_sizes(uint64_t iteration, struct gate_number *member, size_t members, void *balancer)
{
	struct balancer *b = balancer;
	struct error err = {0};

	(void)iteration;
	if (ask(b, member, members, &err) == 0) {
		b->warned = 0;
		return 0;
	}
	if (!b->warned)
		log_say(LOG_LEVEL_WARNING, "sizes stay as they are: %s", err.text);
	b->warned = 1;
	return -1;
}

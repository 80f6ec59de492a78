/*
 * xfer-sched: how long a schedule takes: the order of N updates, and their groups over 4
 * aggregators. Hosts of 1.25, 0.41, 0.31 and 0.25 GB/s (70, 10, 10, 10 %: 10 Gbit/s and less),
 * updates of 1 to 100 MB of a model of 100 MB, without deadlines.  Beside it the order as it is
 * printed: each time every update is asked when it would be there.
 *
 *   xfer-sched UPDATES RUNS HOSTS: a record of medians, in ms
 */
#include "base/random.h"
#include "solve/xfer_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define AGGREGATORS 4
#define RUNS_MAX 99

static size_t updates, hosts;
static struct xfer_update *u;
static struct xfer_part *part;
static size_t *order, *way;

/* Of the CPU: nothing here waits, and what else runs does not count. */
static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void make(struct xfer_net *net, uint64_t *seed)
{
	static const int64_t rate[] = {1250000000, 412500000, 312500000, 250000000};
	for (size_t i = 0; i <= hosts; i++) {
		uint64_t kind = random_next(seed) % 10;
		int64_t r = rate[kind < 7 || i == hosts ? 0 : kind - 6];
		if (xfer_net_add(net, NULL) != 0 ||
		    xfer_port_from(&net->host[i].out, 0, r, NULL) != 0 ||
		    xfer_port_from(&net->host[i].in, 0, r, NULL) != 0)
			abort();
	}
	for (size_t i = 0; i < updates; i++) {
		part[i] = (struct xfer_part){
			.to = hosts, .bytes = 1000000 + (int64_t)(random_next(seed) % 99000000)};
		u[i] = (struct xfer_update){.host = random_next(seed) % hosts,
					    .part = &part[i],
					    .parts = 1,
					    .deadline = XFER_NO_DEADLINE,
					    .count = 1};
	}
}

/* Shortest first, as it is printed; returns the last time. */
static int64_t plainly(struct xfer_net *net)
{
	struct xfer_hop hop = {0};
	char *sent = calloc(updates, 1);
	for (size_t n = 0; n < updates && sent; n++) {
		size_t best = updates;
		int64_t least = XFER_NEVER;
		for (size_t i = 0; i < updates; i++) {
			int64_t end = sent[i] ? XFER_NEVER
					      : xfer_end(net, u[i].host, hosts, part[i].bytes, 0);
			if (end < least || (end == least && !sent[i] && best < updates &&
					    part[i].bytes < part[best].bytes)) {
				least = end;
				best = i;
			}
		}
		sent[best] = 1;
		if (xfer_send(net, u[best].host, hosts, part[best].bytes, 0, &hop, NULL) != 0)
			abort();
	}
	free(sent);
	return hop.end;
}

static int compare_ms(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median(double *ms, size_t runs)
{
	qsort(ms, runs, sizeof *ms, compare_ms);
	return ms[runs / 2];
}

int main(int argc, char **argv)
{
	static double ordered[RUNS_MAX], whole[RUNS_MAX], plain[RUNS_MAX];
	updates = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	size_t runs = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	hosts = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	u = calloc(updates + 1, sizeof *u);
	part = calloc(updates + 1, sizeof *part);
	order = calloc(updates + 1, sizeof *order);
	way = calloc(updates + 1, sizeof *way);
	if (updates == 0 || hosts == 0 || runs == 0 || runs > RUNS_MAX || !u || !part || !order || !way)
		return 64;
	for (size_t r = 0; r < runs; r++) {
		struct xfer_net net = {0};
		struct xfer_aggregator agg[AGGREGATORS];
		uint64_t seed = r;
		size_t sent;
		make(&net, &seed);
		size_t outer = xfer_begin(&net);
		double begin = now_ms();
		if (xfer_order(&net, u, updates, 0, order, &sent, NULL) != 0)
			return 71;
		ordered[r] = now_ms() - begin;
		int64_t last = u[order[sent - 1]].there;
		xfer_undo(&net, outer);
		struct xfer_batch b = {.net = &net,
				       .u = u,
				       .order = order,
				       .count = sent,
				       .aggregator = agg,
				       .aggregators =
					       xfer_best_hosts(&net, hosts, AGGREGATORS, agg),
				       .dense = &(const int64_t){100000000}};
		if (xfer_group(&b, way, NULL) != 0)
			return 71;
		whole[r] = now_ms() - begin;
		begin = now_ms();
		if (updates <= 1000 && plainly(&net) != last) {
			fprintf(stderr, "xfer-sched: the two orders differ\n");
			return 1;
		}
		plain[r] = now_ms() - begin;
		xfer_net_clear(&net);
	}
	double ours = median(ordered, runs), printed = median(plain, runs);
	printf("bench name=xfer-sched updates=%zu hosts=%zu order-ms=%.3f groups-ms=%.3f", updates,
	       hosts, ours, median(whole, runs));
	if (updates <= 1000)
		printf(" plain-ms=%.2f ratio=%.0f", printed, printed / ours);
	putchar('\n');
	return 0;
}

/* xfer_hosts: what is done a host at a time (xfer_group.h): sums at the source, the choice of
 * aggregators, copies of a model. */
#include "solve/xfer_group.h"

#include <stdlib.h>
#include <string.h>

struct host_row {
	const struct xfer_update *u;
	size_t i;
};

static int compare_hosts(const struct host_row *a, const struct host_row *b)
{
	if (a->u->host != b->u->host)
		return a->u->host < b->u->host ? -1 : 1;
	return a->u->ready < b->u->ready ? -1 : a->u->ready > b->u->ready;
}

/* Of one host and time, the earliest deadline first. */
static int compare_host_rows(const void *x, const void *y)
{
	const struct host_row *a = x, *b = y;
	int diff = compare_hosts(a, b);
	if (diff == 0 && a->u->deadline != b->u->deadline)
		diff = a->u->deadline < b->u->deadline ? -1 : 1;
	return diff ? diff : a->i < b->i ? -1 : a->i > b->i;
}

/* Of the rows [from, to) of one host: the first that is summed with those behind it; to: none is.
 */
static size_t sum_from(const struct host_row *row, size_t from, size_t to, const int64_t *dense)
{
	while (from < to && row[from].u->deadline < to - from)
		from++;
	for (size_t p = 0; to - from > 1 && p < row[from].u->parts; p++) {
		int64_t bytes = 0;
		for (size_t i = from; i < to; i++)
			bytes += row[i].u->part[p].bytes;
		if (dense[p] > 0 && bytes > dense[p])
			return from;
	}
	return to;
}

size_t xfer_sum_hosts(const struct xfer_update *u, size_t n, const int64_t *dense,
		      struct xfer_update *sum, struct xfer_part *part, size_t *into,
		      struct error *err)
{
	struct host_row *row = calloc(n + 1, sizeof *row);
	size_t count = 0;
	if (!row) {
		error_set(err, ERROR_OS, NULL, "out of memory for %zu updates", n);
		return SIZE_MAX;
	}
	for (size_t i = 0; i < n; i++) {
		row[i] = (struct host_row){.u = &u[i], .i = i};
		into[i] = i; /* at first: the first update that it is summed with */
	}
	qsort(row, n, sizeof *row, compare_host_rows);
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && compare_hosts(&row[from], &row[to]) == 0;)
			to++;
		size_t first = sum_from(row, from, to, dense), least = SIZE_MAX;
		for (size_t i = first; i < to; i++)
			least = row[i].i < least ? row[i].i : least;
		for (size_t i = first; i < to; i++)
			into[row[i].i] = least;
	}
	free(row);
	for (size_t i = 0; i < n; i++) {
		if (into[i] == i) {
			sum[count] = u[i];
			sum[count].part = memcpy(part + count * u[i].parts, u[i].part,
						 u[i].parts * sizeof *part);
			into[i] = count++;
			continue;
		}
		into[i] = into[into[i]];
		struct xfer_update *s = &sum[into[i]];
		for (size_t p = 0; p < s->parts; p++)
			s->part[p].bytes += u[i].part[p].bytes;
		s->count += u[i].count;
		if (u[i].deadline < s->deadline)
			s->deadline = u[i].deadline;
	}
	for (size_t i = 0; i < count; i++)
		for (size_t p = 0; p < sum[i].parts && sum[i].count > 1; p++)
			if (dense[p] > 0 && sum[i].part[p].bytes > dense[p])
				sum[i].part[p].bytes = dense[p];
	return count;
}

static int64_t host_rate(const struct xfer_net *net, size_t host)
{
	int64_t in = xfer_port_rate(&net->host[host].in, 0);
	int64_t out = xfer_port_rate(&net->host[host].out, 0);
	return in < out ? in : out;
}

size_t xfer_best_hosts(const struct xfer_net *net, size_t server, size_t k,
		       struct xfer_aggregator *aggregator)
{
	size_t count = 0;
	for (size_t host = 0; host < net->hosts; host++) {
		int64_t rate = host_rate(net, host);
		size_t at = count;
		if (host == server || rate == 0)
			continue;
		/* Behind those that are as fast. */
		while (at > 0 && host_rate(net, aggregator[at - 1].host) < rate)
			at--;
		if (at >= k)
			continue;
		count += count < k;
		memmove(&aggregator[at + 1], &aggregator[at],
			(count - 1 - at) * sizeof *aggregator);
		aggregator[at] = (struct xfer_aggregator){.host = host};
	}
	return count;
}

/* ---- copies of a model ---- */

static void net_exchange(struct xfer_net *net)
{
	for (size_t i = 0; i < net->hosts; i++) {
		struct xfer_port out = net->host[i].out;
		net->host[i].out = net->host[i].in;
		net->host[i].in = out;
	}
}

struct tree {
	struct xfer_update *u;
	struct xfer_part *part;
	size_t *order, *way, sent;
};

static int tree_plan(struct tree *t, struct xfer_net *net, size_t server, int64_t bytes,
		     const struct xfer_aggregator *distributor, size_t k,
		     const struct xfer_copy *copy, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		t->part[i] = (struct xfer_part){.to = server, .bytes = bytes};
		t->u[i] = (struct xfer_update){.host = copy[i].to,
					       .part = &t->part[i],
					       .parts = 1,
					       .deadline = XFER_NO_DEADLINE,
					       .count = 1};
	}
	size_t outer = xfer_begin(net);
	if (xfer_order(net, t->u, n, 0, t->order, &t->sent, err) != 0)
		return -1;
	xfer_undo(net, outer);
	struct xfer_batch b = {.net = net,
			       .u = t->u,
			       .order = t->order,
			       .count = t->sent,
			       .aggregator = distributor,
			       .aggregators = k,
			       .dense = &bytes};
	if (xfer_group(&b, t->way, err) != 0)
		return -1;
	/* A distributor that has its copy needs no second one. */
	for (size_t i = 0; i < t->sent; i++)
		for (size_t d = 0; d < k; d++) {
			size_t members = 0;
			for (size_t m = 0; m < t->sent; m++)
				members += t->way[m] == d + 1;
			if (members > 0 && t->u[t->order[i]].host == distributor[d].host)
				t->way[i] = d + 1;
		}
	return 0;
}

/* The distributor's copy, then those of its members. */
static int tree_group(const struct tree *t, struct xfer_net *net, size_t server, int64_t bytes,
		      const struct xfer_aggregator *distributor, size_t d, struct xfer_copy *copy,
		      size_t *count, struct error *err)
{
	size_t from = d ? distributor[d - 1].host : server, members = 0;
	struct xfer_hop first = {0};
	for (size_t i = 0; i < t->sent; i++)
		members += t->way[i] == d;
	if (members > 0 && d > 0) {
		if (xfer_send(net, server, from, bytes, 0, &first, err) != 0)
			return -1;
		copy[(*count)++] = (struct xfer_copy){.from = server, .to = from, .hop = first};
	}
	for (size_t i = 0; i < t->sent; i++) {
		struct xfer_copy c = {.from = from, .to = t->u[t->order[i]].host};
		if (t->way[i] != d || (d > 0 && c.to == from))
			continue;
		c.hop.end = XFER_NEVER;
		if (first.end != XFER_NEVER &&
		    xfer_send(net, from, c.to, bytes, first.end, &c.hop, err) != 0)
			return -1;
		copy[(*count)++] = c;
	}
	return 0;
}

int xfer_distribute(struct xfer_net *net, size_t server, int64_t bytes,
		    const struct xfer_aggregator *distributor, size_t k, struct xfer_copy *copy,
		    size_t n, size_t *count, struct error *err)
{
	struct tree t = {.u = calloc(n + 1, sizeof *t.u),
			 .part = calloc(n + 1, sizeof *t.part),
			 .order = calloc(n + 1, sizeof *t.order),
			 .way = calloc(n + 1, sizeof *t.way)};
	int result = 0;
	if (!t.u || !t.part || !t.order || !t.way)
		result = error_set(err, ERROR_OS, NULL, "out of memory for %zu copies", n);
	net_exchange(net);
	if (result == 0)
		result = tree_plan(&t, net, server, bytes, distributor, k, copy, n, err);
	net_exchange(net);
	*count = 0;
	for (size_t d = k + 1; d-- > 0 && result == 0;)
		result = tree_group(&t, net, server, bytes, distributor, d, copy, count, err);
	for (size_t i = t.sent; i < n && result == 0; i++)
		copy[(*count)++] = (struct xfer_copy){
			.from = server, .to = t.u[t.order[i]].host, .hop.end = XFER_NEVER};
	free(t.u);
	free(t.part);
	free(t.order);
	free(t.way);
	return result;
}

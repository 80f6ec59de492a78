/* What crosses the network, if the job says how many bytes its parameters are: links whose rates change
 * over time. */
#include "sim/sim_internal.h"

#include <math.h>

double network_over(const struct sim_node *n, double from, double bytes)
{
	size_t low = 0, high = n->links;
	while (low < high) { /* the first record behind `from` */
		size_t middle = low + (high - low) / 2;
		if (n->link[middle].from.at <= from)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return from;
	for (; low < n->links; low++) {
		double rate = n->link[low - 1].rate, most = (n->link[low].from.at - from) * rate;
		if (bytes <= most)
			break;
		bytes -= most;
		from = n->link[low].from.at;
	}
	return from + bytes / n->link[low - 1].rate;
}

double network_exchange(struct sim *s, const struct sim_node *n, double from)
{
	double bytes = s->job.servers > 0 ? s->job.bytes : 0; /* a replica is on the worker's host */
	double end = network_over(n, from, bytes);
	for (size_t i = s->workers; i < s->nodes; i++) {
		struct sim_node *server = &s->node[i];
		if (server->links == 0)
			continue;
		server->port = network_over(server, fmax(server->port, from),
					    bytes / (double)s->job.servers);
		end = fmax(end, server->port);
	}
	return end;
}

/* A ring: each host sends so much, and the slowest link is what all wait for. */
double network_sum(const struct sim *s)
{
	double hosts = (double)s->job.hosts, end = s->now;
	for (size_t i = 0; i < s->links; i += s->node[s->link[i].from.node].links)
		end = fmax(end, network_over(&s->node[s->link[i].from.node], s->now,
					     2 * (hosts - 1) / hosts * s->job.bytes));
	return end;
}

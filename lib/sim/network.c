/* What crosses the network, if the job says how many bytes its parameters are: links whose rates change
 * over time, of nodes, and of hosts, which all nodes there share. */
#include "sim/sim_internal.h"

#include <math.h>

/* When these bytes are over it, if nothing else is. */
static double network_over(const struct sim_line *l, double from, double bytes)
{
	size_t low = 0, high = l->links;
	while (low < high) { /* the first record behind `from` */
		size_t middle = low + (high - low) / 2;
		if (l->link[middle].from.at <= from)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return from;
	for (; low < l->links; low++) {
		double rate = l->link[low - 1].rate, most = (l->link[low].from.at - from) * rate;
		if (bytes <= most)
			break;
		bytes -= most;
		from = l->link[low].from.at;
	}
	return from + bytes / l->link[low - 1].rate;
}

/* The same behind what it carries already. */
static double network_through(struct sim_line *l, double from, double bytes)
{
	if (l->links == 0 || bytes <= 0)
		return from;
	l->busy_until = network_over(l, fmax(l->busy_until, from), bytes);
	return l->busy_until;
}

/* Between servers and a worker on their host nothing crosses the network. */
double network_exchange(struct sim *s, const struct sim_node *n, double from)
{
	double bytes = s->job.servers > 0 ? s->job.bytes : 0; /* a replica is on the worker's host */
	double part = bytes / (double)s->job.servers, far = 0, end = from;
	if (s->links == 0)
		return from;
	for (size_t i = s->workers; i < s->nodes; i++) {
		struct sim_node *server = &s->node[i];
		if (server->host == n->host)
			continue;
		far += part;
		end = fmax(end, network_through(&server->line, from, part));
		if (server->host != SIM_NO_HOST)
			end = fmax(end, network_through(&s->host[server->host], from, part));
	}
	end = fmax(end, network_through(&s->host[n->host], from, far));
	return fmax(end, network_over(&n->line, from, far));
}

/* A ring: each host sends so much, and the slowest link is what all wait for. A worker's link is its host's. */
double network_sum(struct sim *s)
{
	double hosts = (double)s->job.hosts, end = s->now;
	double bytes = 2 * (hosts - 1) / hosts * s->job.bytes;
	for (size_t i = 0; i < s->links;) {
		const struct sim_line *l = network_line(s, s->link[i].from.node);
		end = fmax(end, network_over(l, s->now, bytes));
		i += l->links;
	}
	return end;
}

struct sim_line *network_line(struct sim *s, size_t number)
{
	return number < s->places ? &s->node[number].line : &s->host[number - s->places];
}

/* What crosses the network, if the job says how many bytes its parameters are: links whose rates change
 * over time, of nodes, and of hosts, which all nodes there share. */
#include "sim/sim_internal.h"

#include "solve/xfer_share.h"

#include <math.h>
#include <stdlib.h>

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

double network_hop(struct sim *s, uint32_t from, uint32_t to, double at)
{
	return fmax(network_through(&s->host[from], at, s->job.bytes), network_through(&s->host[to], at, s->job.bytes));
}

double network_rate(const struct sim_line *l, double at, double *next)
{
	double rate = INFINITY;
	for (size_t i = 0; i < l->links; i++) {
		if (l->link[i].from.at > at) {
			*next = fmin(*next, l->link[i].from.at);
			break;
		}
		rate = l->link[i].rate;
	}
	return rate;
}

/* Between servers and a worker on their host nothing crosses the network. */
double network_exchange_over_links(struct sim *s, const struct sim_node *n, double from)
{
	double bytes = s->job.servers > 0 ? s->job.bytes : 0; /* a replica is on the worker's host */
	double part = bytes / (double)s->job.servers, far = 0, end = from;
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

/* Who sums how much, by the links' rates; NULL: all alike, in a ring. To be freed. */
static struct xfer_member *network_shares(struct sim *s)
{
	size_t hosts = (size_t)s->job.hosts;
	struct xfer_member *m = s->job.by_links && hosts > 2 && s->job.bytes > 0 ? calloc(hosts, sizeof *m) : NULL;
	struct xfer_round round;
	struct error err;
	double next = INFINITY;
	if (!m)
		return NULL;
	for (size_t i = 0; i < hosts; i++)
		m[i] = (struct xfer_member){.works = 1, .rate = fmin(network_rate(&s->host[i], s->now, &next), 1e15)};
	xfer_level(m, hosts);
	if (xfer_shares(m, hosts, s->job.bytes, &round, &err) == 0 && !round.is_ring)
		return m;
	free(m);
	return NULL;
}

/* Each host sends, and gets, so much, and the slowest link is what all wait for. A worker's link is its host's. */
double network_sum(struct sim *s)
{
	double hosts = (double)s->job.hosts, end = s->now;
	struct xfer_member *m = network_shares(s);
	for (size_t i = 0; i < s->links;) {
		size_t number = s->link[i].from.node;
		const struct sim_line *l = network_line(s, number);
		size_t host = number < s->places ? s->node[number].host : number - s->places;
		double part = m ? 1 + (hosts - 2) * m[host].share : 2 * (hosts - 1) / hosts;
		end = fmax(end, network_over(l, s->now, part * s->job.bytes));
		i += l->links;
	}
	free(m);
	return end;
}

struct sim_line *network_line(struct sim *s, size_t number)
{
	return number < s->places ? &s->node[number].line : &s->host[number - s->places];
}

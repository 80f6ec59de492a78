/* search: see search.h. */
#include "plan/search.h"

#include "base/least.h"

#include <math.h>

/* What workers ask of servers may be a tenth more than there is (constraint 4): the published plan
 * of 24 workers asks 137 cores of 128, as the number of servers is rounded down. */
#define SHORT 1.1

#define SIZES 64 /* of servers that are tried, besides the usual one */

/* Bytes of a server, if there are `count` of them; 0: not known. */
static uint64_t server_bytes(const struct search *s, uint64_t count)
{
	if (!s->servers_bytes)
		return s->server_bytes;
	return s->servers_bytes / count + (s->servers_bytes % count > 0);
}

uint64_t search_cores(const struct plan_role_size role[PLAN_ROLES])
{
	return role[PLAN_WORKER].count * role[PLAN_WORKER].cores +
	       role[PLAN_SERVER].count * role[PLAN_SERVER].cores;
}

int search_fits(const struct plan_limits *l, const struct plan_role_size role[PLAN_ROLES])
{
	double bytes = 0;
	for (int i = 0; i < PLAN_ROLES; i++) {
		if (role[i].count < 1 || role[i].count > l->cores || role[i].cores < 1 ||
		    role[i].cores > l->node_cores)
			return 0;
		if (l->node_bytes && role[i].bytes > l->node_bytes)
			return 0;
		bytes += (double)role[i].count * (double)role[i].bytes;
	}
	return search_cores(role) <= l->cores && (!l->bytes || bytes <= (double)l->bytes);
}

double search_rate(const struct fit *f, const struct plan_role_size role[PLAN_ROLES])
{
	const struct plan_role_size *w = &role[PLAN_WORKER], *s = &role[PLAN_SERVER];
	double workers = (double)w->count;
	double t = fit_time(f, workers, (double)w->cores, (double)(s->count * s->cores));
	return t > 0 ? workers / t : NAN;
}

static struct found with_rate(const struct search *s, const struct plan_role_size role[PLAN_ROLES])
{
	return (struct found){.role = {role[PLAN_WORKER], role[PLAN_SERVER]},
			      .rate = search_rate(s->fit, role)};
}

/* ---- the published formulas ---- */

/* How many servers the memory has room for beside so many workers, if what each has is known and
 * not what all need together. */
static uint64_t servers_by_bytes(const struct search *s, uint64_t workers)
{
	const struct plan_limits *l = s->limits;
	double left = (double)l->bytes - (double)workers * (double)s->worker_bytes;
	if (!l->bytes || s->servers_bytes || !s->server_bytes)
		return l->cores;
	return left > 0 ? (uint64_t)left / s->server_bytes : 0;
}

/* So many workers and what is left for servers; more servers than that where their memory needs
 * them. */
static int formula_with(const struct search *s, uint64_t workers, uint64_t w, struct found *out)
{
	const struct plan_limits *l = s->limits;
	uint64_t left = l->cores - workers * w;
	struct plan_role_size role[PLAN_ROLES] = {{workers, w, s->worker_bytes}, {0}};
	uint64_t cores = least(least(l->server_cores, l->node_cores), left);
	for (; cores >= 1; cores--) {
		uint64_t count = least(left / cores, servers_by_bytes(s, workers));
		role[PLAN_SERVER] = (struct plan_role_size){count, cores, server_bytes(s, count)};
		int is_short =
			(double)workers * s->fit->server_cores > SHORT * (double)(count * cores);
		if (!(is_short && workers > 1) && search_fits(l, role)) {
			*out = with_rate(s, role);
			return 1;
		}
		if (!s->servers_bytes)
			break;
	}
	return 0;
}

struct found search_formula(const struct search *s)
{
	const struct plan_limits *l = s->limits;
	struct found out = {.rate = NAN};
	uint64_t w = (uint64_t)ceil(s->fit->worker_cores);
	w = w < 1 ? 1 : least(least(w, l->node_cores), l->cores - 1);
	double workers = (double)l->cores / (s->fit->worker_cores + s->fit->server_cores);
	uint64_t most = least(s->workers_max, (l->cores - 1) / w);
	uint64_t count = workers < (double)most ? (uint64_t)workers : most;
	for (count = count < 1 ? 1 : count; count >= 1; count--)
		if (formula_with(s, count, w, &out))
			break;
	return out;
}

/* ---- the search ---- */

struct best {
	const struct search *search;
	double enough; /* a rate that counts as the best */
	struct found found;
	uint64_t cores, off; /* of found */
};

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void search_look_at(struct best *b, const struct plan_role_size role[PLAN_ROLES])
{
	if (!search_fits(b->search->limits, role))
		return;
	struct found f = with_rate(b->search, role);
	uint64_t cores = search_cores(role);
	uint64_t off = apart(role[PLAN_SERVER].cores, b->search->limits->server_cores);
	int is_better;
	if (b->enough == 0 || !b->found.role[PLAN_WORKER].count) /* first the best rate */
		is_better = f.rate >= b->enough &&
			    (!b->found.role[PLAN_WORKER].count || f.rate > b->found.rate);
	else
		is_better = f.rate >= b->enough &&
			    (cores < b->cores || (cores == b->cores && off < b->off));
	if (!is_better)
		return;
	b->found = f;
	b->cores = cores;
	b->off = off;
}

/* Servers for workers that leave `left` cores: as many as they can use, of each size. */
static void look_at_servers(struct best *b, const struct plan_role_size *worker, uint64_t left)
{
	const struct search *s = b->search;
	const struct plan_limits *l = s->limits;
	struct plan_role_size role[PLAN_ROLES] = {*worker, {0}};
	if (s->servers) {
		role[PLAN_SERVER] = *s->servers;
		search_look_at(b, role);
		return;
	}
	double use = ceil((double)worker->count * s->fit->server_cores);
	uint64_t need = use < (double)left ? (uint64_t)use : left;
	uint64_t usual = least(l->server_cores, l->node_cores);
	uint64_t by_memory = 1;
	if (s->servers_bytes && l->node_bytes)
		by_memory =
			s->servers_bytes / l->node_bytes + (s->servers_bytes % l->node_bytes > 0);
	double most = (double)worker->count /
		      fit_time(s->fit, (double)worker->count, (double)worker->cores, (double)need);
	if (most < b->enough || (b->enough == 0 && most <= b->found.rate))
		return; /* not even if no core is left over */
	for (uint64_t i = 0; i <= least(l->node_cores, SIZES); i++) {
		uint64_t size = i ? i : usual;
		for (uint64_t count = need / size; count <= need / size + 1; count++) {
			if (count < by_memory)
				continue;
			role[PLAN_SERVER] =
				(struct plan_role_size){count, size, server_bytes(s, count)};
			search_look_at(b, role);
		}
	}
}

static void search_look_at_all(struct best *b)
{
	const struct search *s = b->search;
	const struct plan_limits *l = s->limits;
	uint64_t w_most = (uint64_t)fmin(ceil(s->fit->worker_cores), (double)l->node_cores);
	uint64_t used = s->servers ? s->servers->count * s->servers->cores : 1;
	if (used >= l->cores)
		return;
	for (uint64_t w = 1; w <= w_most; w++) {
		uint64_t most = least(s->workers_max, (l->cores - used) / w);
		for (uint64_t n = 1; n <= most; n++) {
			struct plan_role_size worker = {n, w, s->worker_bytes};
			look_at_servers(b, &worker, l->cores - n * w);
		}
	}
}

struct found search_best(const struct search *s)
{
	struct best b = {.search = s};
	if (!(s->fit->worker_cores > 0))
		return b.found;
	search_look_at_all(&b);
	if (!b.found.role[PLAN_WORKER].count)
		return b.found;
	struct best frugal = {.search = s, .enough = b.found.rate * (1 - PLAN_EQUAL)};
	search_look_at_all(&frugal);
	return frugal.found.role[PLAN_WORKER].count ? frugal.found : b.found;
}

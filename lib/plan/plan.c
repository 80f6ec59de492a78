/* plan: see plan.h. */
#include "plan/plan.h"

#include "base/grow.h"
#include "base/least.h"
#include "base/reals.h"
#include "plan/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FULL 0.9       /* DLRover: CPU use from which a server gets more */
#define MORE_USED 1.2  /* a server that does so much more than its peers is hot, not slow */
#define UNEVEN 1.25    /* a server that takes so many times as long as its peers, and does more */
#define FEW_CORES 0.75 /* of its peers' cores */
#define MORE_BYTES 1.2 /* memory for what was used at most */
#define BYTES_UNIT (1ull << 20)
#define WORSE 0.1      /* a plan that does so much less than another one did is taken back */
#define STEP 4         /* the next plan has this part of the cores that made it worse */
#define SURE 0.8       /* confidence from which a search is believed */

static const char FASTER_BEFORE[] = "faster-before";

const char *plan_what_name(enum plan_what what)
{
	static const char *const names[] = {"replace", "migrate", "rebalance"};
	return names[what];
}

void plan_init(struct plan *p, const struct plan_limits *limits, enum plan_stage stage,
	       const struct history *history)
{
	*p = (struct plan){.limits = *limits, .stage = stage, .history = history, .changed = NAN};
}

void plan_clear(struct plan *p)
{
	free(p->answer.action);
	p->answer = (struct plan_answer){0};
}

static uint64_t plan_room_for(uint64_t bytes, uint64_t node_bytes)
{
	double want = (double)bytes * MORE_BYTES;
	if (bytes == 0 || want > (double)PLAN_BYTES_MAX)
		return bytes;
	uint64_t out = ((uint64_t)want + BYTES_UNIT - 1) / BYTES_UNIT * BYTES_UNIT;
	return node_bytes && out > node_bytes && bytes <= node_bytes ? node_bytes : out;
}

/* ---- the answer ---- */

int plan_changes(const struct plan_answer *a)
{
	return a->actions > 0 || a->changes[PLAN_WORKER] || a->changes[PLAN_SERVER];
}

static void plan_begin_answer(struct plan_answer *a, const struct usage *u)
{
	a->actions = 0;
	a->method = "none";
	a->reason = "balanced";
	a->rate = a->confidence = NAN;
	a->like = NULL;
	for (int i = 0; i < PLAN_ROLES; i++) {
		const struct usage_role *r = &u->role[i];
		double cores = r->count ? ceil(r->cores / (double)r->count - 1e-9) : 0;
		a->role[i] = (struct plan_role_size){r->count, (uint64_t)cores, r->bytes};
		a->changes[i] = 0;
	}
}

static int set_role(struct plan_answer *a, enum plan_role role, struct plan_role_size to,
		    int is_new)
{
	struct plan_role_size *now = &a->role[role];
	a->changes[role] = is_new || to.count != now->count || to.cores != now->cores;
	if (a->changes[role])
		*now = to;
	return a->changes[role];
}

/* A role of which only the memory would be another one stays as it is, unless it has too much for
 * the limits. Whether anything changes. */
static int set_roles(struct plan_answer *a, const struct plan_limits *l,
		     const struct plan_role_size *to)
{
	int changes = 0;
	for (int i = 0; i < PLAN_ROLES; i++)
		changes |= set_role(a, (enum plan_role)i, to[i], 0);
	if (!changes || search_fits(l, a->role))
		return changes;
	for (int i = 0; i < PLAN_ROLES; i++)
		if (to[i].count)
			set_role(a, (enum plan_role)i, to[i], 1);
	return 1;
}

static int add_action(struct plan_answer *a, struct plan_action action, struct error *err)
{
	if (GROW(a->action, a->room, a->actions + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for an answer");
	a->action[a->actions++] = action;
	a->method = "rule";
	a->reason = action.reason;
	return 0;
}

/* Why nothing changes; where something does, that is what the answer says. */
static void say_why_not(struct plan_answer *a, const char *reason)
{
	if (!plan_changes(a))
		a->reason = reason;
}

/* ---- the first plan ---- */

/* A plan of other days, made smaller until it fits. */
static void shrink(const struct plan_limits *l, struct plan_role_size role[PLAN_ROLES])
{
	struct plan_role_size *w = &role[PLAN_WORKER], *s = &role[PLAN_SERVER];
	for (int i = 0; i < PLAN_ROLES; i++) {
		role[i].cores = least(role[i].cores, l->node_cores);
		if (l->node_bytes)
			role[i].bytes = least(role[i].bytes, l->node_bytes);
	}
	while (!search_fits(l, role)) {
		if (w->count > 1)
			w->count--;
		else if (s->count > 1)
			s->count--;
		else if (s->cores > 1)
			s->cores--;
		else if (w->cores > 1)
			w->cores--;
		else
			w->bytes = s->bytes = 0; /* one of each is the least */
	}
}

static void plan_first(struct plan *p, const struct usage *u)
{
	const struct plan_limits *l = &p->limits;
	struct plan_answer *a = &p->answer;
	struct plan_role_size role[PLAN_ROLES] = {{.count = 1}, {.count = 1}};
	a->like = p->history ? history_nearest(p->history, u) : NULL;
	if (a->like) {
		for (int i = 0; i < PLAN_ROLES; i++)
			role[i] = (struct plan_role_size){a->like->count[i], a->like->cores[i],
							  a->like->bytes[i]};
		a->rate = a->like->rate;
		uint64_t cores = search_cores(role);
		shrink(l, role);
		if (search_cores(role) != cores)
			a->rate = NAN;
	} else {
		role[PLAN_SERVER].cores =
			least(least(l->server_cores, l->node_cores), l->cores / 2);
		role[PLAN_WORKER].cores = least(l->node_cores, l->cores - role[PLAN_SERVER].cores);
	}
	a->method = a->like ? "history" : "default";
	a->reason = "first";
	set_roles(a, l, role);
}

/* ---- out of memory ---- */

/* Bytes of all nodes: of a role that changes those of the answer. */
static double bytes_of_all(const struct plan_answer *a, const struct usage *u)
{
	double sum = 0;
	for (int i = 0; i < PLAN_ROLES; i++)
		if (a->changes[i])
			sum += (double)a->role[i].count * (double)a->role[i].bytes;
	for (size_t i = 0; i < u->count; i++)
		if (!a->changes[u->node[i].role])
			sum += (double)u->node[i].bytes;
	return sum;
}

/* Double memory, or half the batch where there is no more. */
static int heal_worker(struct plan *p, const struct usage *u, const struct usage_node *n,
		       double *bytes, struct error *err)
{
	const struct plan_limits *l = &p->limits;
	struct plan_action action = {.what = PLAN_REPLACE, .node = n, .reason = "oom"};
	uint64_t now = n->bytes ? n->bytes : n->used_bytes, twice = 2 * now;
	double more = *bytes - (double)n->bytes + (double)twice;
	if (now && twice <= PLAN_BYTES_MAX && (!l->node_bytes || twice <= l->node_bytes) &&
	    (!l->bytes || more <= (double)l->bytes)) {
		action.bytes = twice;
		*bytes = more;
	} else if (u->batch > 1) {
		action.batch = u->batch / 2;
	} else {
		say_why_not(&p->answer, "memory");
		return 0;
	}
	return add_action(&p->answer, action, err);
}

/* Twice the servers: smaller ones and fewer workers, if there are not cores enough. Whether there
 * is more memory than before. */
static int heal_servers(struct plan *p)
{
	const struct plan_limits *l = &p->limits;
	struct plan_answer *a = &p->answer;
	struct plan_role_size role[PLAN_ROLES] = {a->role[PLAN_WORKER], a->role[PLAN_SERVER]};
	struct plan_role_size *w = &role[PLAN_WORKER], *s = &role[PLAN_SERVER];
	s->count *= 2;
	if (s->count + 1 > l->cores)
		return 0;
	w->cores = least(w->cores, l->node_cores);
	w->cores = least(w->cores, l->cores - s->count);
	while (w->count > 1 && w->count * w->cores + s->count > l->cores)
		w->count--;
	uint64_t workers = w->count ? w->count * w->cores : 1; /* there will be one */
	s->cores = least(least(s->cores, l->node_cores), (l->cores - workers) / s->count);
	double each = (double)s->bytes;
	if (l->node_bytes) {
		w->bytes = least(w->bytes, l->node_bytes);
		each = fmin(each, (double)l->node_bytes);
	}
	if (l->bytes)
		each = fmin(each, floor(((double)l->bytes - (double)w->count * (double)w->bytes) /
					(double)s->count));
	if (s->bytes && each <= (double)s->bytes / 2)
		return 0;
	s->bytes = s->bytes ? (uint64_t)each : 0;
	if (w->count && !search_fits(l, role))
		return 0;
	set_roles(a, l, role);
	return 1;
}

/* 1: somebody was; 0: nobody; -1: ERROR_OS. */
static int heal(struct plan *p, const struct usage *u, struct error *err)
{
	struct plan_answer *a = &p->answer;
	int came[PLAN_ROLES] = {0};
	for (size_t i = 0; i < u->count; i++)
		came[u->node[i].role] |= u->node[i].oom;
	if (came[PLAN_SERVER]) {
		int is_more = heal_servers(p);
		a->method = is_more ? "rule" : a->method;
		a->reason = is_more ? "oom" : "memory";
	}
	double bytes = bytes_of_all(a, u); /* what the servers get is not there for the workers */
	for (size_t i = 0; i < u->count; i++) {
		const struct usage_node *n = &u->node[i];
		if (n->oom && n->role == PLAN_WORKER && heal_worker(p, u, n, &bytes, err) != 0)
			return -1;
	}
	return came[PLAN_WORKER] || came[PLAN_SERVER];
}

/* ---- what a change is worth ---- */

static int is_worth_it(struct plan *p, const struct usage *u, double rate)
{
	const struct plan_limits *l = &p->limits;
	if (!(rate >= u->rate * (1 + l->gain))) {
		p->answer.reason = "gain";
		return 0;
	}
	double steps = u->left / (double)u->batch;
	if (!isnan(u->left) && !(l->cost + steps / rate < steps / u->rate)) {
		p->answer.reason = "cost";
		return 0;
	}
	return 1;
}

/* ---- single nodes: hot, slow, with too few cores ---- */

struct peers {
	double time,
		cores; /* medians; of two the smaller time, the larger number of cores; 0: none */
};

static int look_at_peers(const struct usage *u, enum plan_role role, struct peers *out,
			 struct error *err)
{
	size_t times = 0, count = 0;
	double *v = reallocarray(NULL, u->count ? 2 * u->count : 1, sizeof *v), *cores;
	*out = (struct peers){0};
	if (!v)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu nodes", u->count);
	cores = v + u->count;
	for (size_t i = 0; i < u->count; i++) {
		if (u->node[i].role != role)
			continue;
		if (!isnan(u->node[i].time))
			v[times++] = u->node[i].time;
		cores[count++] = u->node[i].cores;
	}
	reals_sort(v, times);
	reals_sort(cores, count);
	if (times > 1)
		out->time = v[(times - 1) / 2];
	if (count > 1)
		out->cores = cores[count / 2];
	free(v);
	return 0;
}

/* Cores of a server in place of a hot one (DLRover 4.2): what so many workers ask of it. A server
 * with all of its cores in use shows only a part of that, so at least half as many again. */
static double hot_cores(const struct plan *p, const struct usage *u, const struct usage_node *n)
{
	double total = u->role[PLAN_SERVER].used, need = 0;
	if (total > 0)
		need = n->used / total * p->fit.server_cores * (double)u->role[PLAN_WORKER].count;
	return fmax(ceil(need - 1e-9), ceil(1.5 * n->cores));
}

/* Whether a server holds up all others, as more is asked of it: a step would be shorter if all did
 * the same.  It is, by how much longer it takes than they do on average. */
static int holds_up(struct plan *p, const struct usage *u, const struct usage_node *n,
		    const struct peers *peers)
{
	double sum = 0, count = 0, workers = (double)u->role[PLAN_WORKER].count;
	if (!u->can_rebalance || !(n->time > UNEVEN * peers->time))
		return 0;
	for (size_t i = 0; i < u->count; i++) {
		const struct usage_node *other = &u->node[i];
		if (other->role != PLAN_SERVER || isnan(other->time))
			continue;
		if (other->time > n->time)
			return 0; /* it is the one */
		sum += other->time;
		count++;
	}
	if (isnan(u->update))
		return 1;
	double saved = u->update * (1 - sum / count / n->time);
	double rate = workers / (workers / u->rate - saved);
	if (!is_worth_it(p, u, rate))
		return 0;
	p->answer.rate = rate;
	return 1;
}

static int plan_judge(struct plan *p, const struct usage *u, const struct usage_node *n,
		      const struct peers *peers, double *spare, struct error *err)
{
	const struct usage_role *all = &u->role[n->role];
	int is_slow = peers->time > 0 && !isnan(n->time) && n->time > p->limits.slow * peers->time;
	int is_full = n->role == PLAN_SERVER && n->used >= FULL * n->cores;
	if (all->count < 2)
		return 0;
	double others = (all->used - n->used) / (double)(all->count - 1), want = 0;
	int is_uneven = n->role == PLAN_SERVER && n->used > MORE_USED * others &&
			holds_up(p, u, n, peers);
	if (!(is_slow || is_full || is_uneven))
		return 0;
	struct plan_action action = {.what = PLAN_REPLACE, .node = n};
	if (is_uneven && n->cores >= FEW_CORES * peers->cores) {
		action.what = PLAN_REBALANCE;
		action.reason = "hot";
		return add_action(&p->answer, action, err);
	}
	if (n->cores < FEW_CORES * peers->cores) {
		action.reason = "few-cores";
		want = ceil(peers->cores);
	} else if (n->role == PLAN_SERVER && n->used > MORE_USED * others) {
		action.reason = "hot";
		want = hot_cores(p, u, n);
	} else if (is_slow) {
		action.what = PLAN_MIGRATE;
		action.reason = "slow-machine";
		return add_action(&p->answer, action, err);
	} else {
		return 0; /* as busy as the others */
	}
	want = fmin(want, fmin((double)p->limits.node_cores, floor(n->cores + *spare)));
	if (want <= n->cores) {
		say_why_not(&p->answer, "cores");
		return 0;
	}
	*spare -= want - n->cores;
	action.cores = (uint64_t)want;
	return add_action(&p->answer, action, err);
}

static int judge_nodes(struct plan *p, const struct usage *u, struct error *err)
{
	struct peers peers[PLAN_ROLES];
	double spare =
		(double)p->limits.cores - u->role[PLAN_WORKER].cores - u->role[PLAN_SERVER].cores;
	if (look_at_peers(u, PLAN_WORKER, &peers[PLAN_WORKER], err) != 0 ||
	    look_at_peers(u, PLAN_SERVER, &peers[PLAN_SERVER], err) != 0)
		return -1;
	for (size_t i = 0; i < u->count; i++)
		if (plan_judge(p, u, &u->node[i], &peers[u->node[i].role], &spare, err) != 0)
			return -1;
	return 0;
}

/* ---- the whole job ---- */

/* What a node of the role has, as far as one may have it. */
static uint64_t bytes_as_now(const struct usage_role *role, const struct plan_limits *l)
{
	return l->node_bytes ? least(role->bytes, l->node_bytes) : role->bytes;
}

static struct search search_of(const struct plan *p, const struct usage *u)
{
	const struct plan_limits *l = &p->limits;
	const struct usage_role *worker = &u->role[PLAN_WORKER], *server = &u->role[PLAN_SERVER];
	struct search s = {.limits = l,
			   .fit = &p->fit,
			   .workers_max = l->cores,
			   .worker_bytes = plan_room_for(worker->used_bytes, l->node_bytes),
			   .servers_bytes = plan_room_for(server->used_bytes_sum, 0),
			   .server_bytes = bytes_as_now(server, l)};
	if (!s.worker_bytes)
		s.worker_bytes = bytes_as_now(worker, l);
	if (!isnan(u->samples)) { /* more than the root of all steps and they cost convergence */
		double root = floor(sqrt(u->samples / (double)u->batch));
		s.workers_max = root < 1 ? 1 : root < (double)l->cores ? (uint64_t)root : l->cores;
	}
	return s;
}

static double confidence(const struct plan *p, const struct plan_role_size role[PLAN_ROLES])
{
	return 1 - fit_error(&p->fit, (double)role[PLAN_WORKER].count,
			     (double)role[PLAN_WORKER].cores,
			     (double)(role[PLAN_SERVER].count * role[PLAN_SERVER].cores));
}

/* What was measured of it counts, where that is less than the fit expects. */
static double plan_rate_of(const struct plan *p, const struct found *f)
{
	const struct plan_role_size *w = &f->role[PLAN_WORKER], *s = &f->role[PLAN_SERVER];
	for (size_t i = 0; i < p->fit.count; i++) {
		const struct fit_point *k = &p->fit.point[i];
		if (k->workers == (double)w->count && k->w == (double)w->cores &&
		    k->servers == (double)(s->count * s->cores) && k->did < f->rate)
			return k->did;
	}
	return f->rate;
}

static void change_to(struct plan *p, const struct usage *u, const struct found *f,
		      const char *method, const char *reason)
{
	struct plan_answer *a = &p->answer;
	struct plan_role_size now[PLAN_ROLES] = {a->role[PLAN_WORKER], a->role[PLAN_SERVER]};
	double rate = plan_rate_of(p, f);
	a->method = method;
	if (!f->role[PLAN_WORKER].count) {
		a->reason = "memory";
		return;
	}
	int is_same = 1, is_within = search_cores(now) <= p->limits.cores;
	for (int i = 0; i < PLAN_ROLES; i++) {
		is_same &= f->role[i].count == now[i].count && f->role[i].cores == now[i].cores;
		is_within &= now[i].cores <= p->limits.node_cores;
	}
	if (is_same || (is_within && u->rate > 0 && !is_worth_it(p, u, rate)))
		return;
	a->reason = reason;
	set_roles(a, &p->limits, f->role);
	a->rate = rate;
}

/* A configuration as a plan that does what it did. */
static struct found plan_measured(const struct fit_point *k, const struct search *s)
{
	uint64_t servers = (uint64_t)k->servers_count;
	return (struct found){
		.role = {{(uint64_t)k->workers, (uint64_t)ceil(k->w - 1e-9), s->worker_bytes},
			 {servers, (uint64_t)ceil(k->servers / k->servers_count - 1e-9),
			  s->servers_bytes ? s->servers_bytes / servers + 1 : s->server_bytes}},
		.rate = k->late};
}

static double plan_cores_of(const struct fit_point *k)
{
	return k->workers * k->w + k->servers;
}

/* A plan that does clearly less than an earlier configuration did, so not what the fit had promised, is
 * taken back.  Where more cores made it worse, the next plan may have a quarter of them: so few others are
 * tried, each of them nearer.  Of what there was before the last rounds count, as a slow node may have left
 * since; of what is judged all rounds, too, as the whole job may be slow for a while.  Whether it changes
 * anything. */
static int take_back(struct plan *p, const struct usage *u)
{
	struct search s = search_of(p, u);
	struct found best = {.rate = 0};
	const struct fit_point *from = NULL, *now = &p->fit.point[0];
	p->within = p->limits;
	for (size_t i = 0; i < p->fit.count; i++) {
		const struct fit_point *k = &p->fit.point[i];
		struct found f = plan_measured(k, &s);
		now = k->seen > now->seen ? k : now;
		if (!(f.rate > best.rate) || f.role[PLAN_WORKER].count > s.workers_max ||
		    !search_fits(&p->limits, f.role))
			continue;
		best = f;
		from = k;
	}
	double worse = best.rate / (1 + fmax(p->limits.gain, WORSE));
	for (size_t i = 0; from && i < p->fit.count; i++) {
		const struct fit_point *k = &p->fit.point[i];
		if (k->did < worse && plan_cores_of(k) > plan_cores_of(from))
			p->within.cores = least(p->within.cores,
						(uint64_t)(plan_cores_of(from) +
							   (plan_cores_of(k) - plan_cores_of(from)) / STEP));
	}
	if (!(now->did < worse))
		return 0;
	change_to(p, u, &best, "rule", FASTER_BEFORE);
	return plan_changes(&p->answer);
}

/* Workers before servers: servers stay if that costs less than another change has to gain. */
static struct found search_workers_first(const struct plan *p, const struct usage *u,
					 struct search *s)
{
	struct found all = search_best(s);
	struct plan_role_size servers = p->answer.role[PLAN_SERVER];
	if (servers.bytes == 0) /* what they have is not said: what they need */
		servers.bytes =
			plan_room_for(u->role[PLAN_SERVER].used_bytes, p->limits.node_bytes);
	s->servers = &servers;
	struct found workers = search_best(s);
	s->servers = NULL;
	if (workers.role[PLAN_WORKER].count && workers.rate * (1 + p->limits.gain) >= all.rate)
		return workers;
	return all;
}

/* DLRover's adjust where the search knows too little: servers that are idle get more workers. */
static void use_idle_servers(struct plan *p, const struct usage *u, struct search *s)
{
	const struct usage_role *server = &u->role[PLAN_SERVER];
	struct plan_answer *a = &p->answer;
	double count = (double)u->role[PLAN_WORKER].count;
	double each = server->used / count;
	if (server->used >= FULL * server->cores || each <= 0) {
		struct found f = search_formula(s);
		change_to(p, u, &f, "formula", "busy-servers");
		return;
	}
	struct plan_role_size role[PLAN_ROLES] = {a->role[PLAN_WORKER], a->role[PLAN_SERVER]};
	struct plan_role_size *w = &role[PLAN_WORKER];
	double more = fmin(floor(server->cores / each), (double)s->workers_max);
	w->count = (uint64_t)fmin(more, (double)s->limits->cores);
	w->bytes = s->worker_bytes;
	while (w->count > a->role[PLAN_WORKER].count && !search_fits(s->limits, role))
		w->count--;
	a->method = "formula";
	if (w->count <= a->role[PLAN_WORKER].count)
		return;
	struct found f = {.role = {role[PLAN_WORKER], role[PLAN_SERVER]}};
	f.rate = search_rate(&p->fit, f.role);
	change_to(p, u, &f, "formula", "idle-servers");
}

static void improve(struct plan *p, const struct usage *u, enum plan_stage stage)
{
	struct search s = search_of(p, u);
	struct found f = {.rate = NAN};
	s.limits = &p->within;
	if (p->fit.is_determined)
		f = stage == PLAN_ADJUST ? search_workers_first(p, u, &s) : search_best(&s);
	if (f.role[PLAN_WORKER].count && confidence(p, f.role) >= SURE) {
		change_to(p, u, &f, "search", "faster");
	} else if (stage == PLAN_ADJUST) {
		use_idle_servers(p, u, &s);
	} else {
		f = search_formula(&s);
		change_to(p, u, &f, "formula", "faster");
	}
}

/* ---- the measure of one worker ---- */

/* Whether a step could be shorter by more than gain if that part of it took no time. */
static int sample_is_worth(const struct plan *p, const struct usage *u, double part)
{
	double step = u->io + u->compute + u->update;
	return !(part < p->limits.gain * step); /* NAN: not known */
}

/* Whether somebody is held back, so that what it can use is not known yet: it gets all the cores of
 * a node, as the paper's sample has them. */
static int sample(struct plan *p, const struct usage *u)
{
	const struct plan_limits *l = &p->limits;
	struct plan_answer *a = &p->answer;
	struct plan_role_size role[PLAN_ROLES] = {a->role[PLAN_WORKER], a->role[PLAN_SERVER]};
	struct plan_role_size *worker = &role[PLAN_WORKER], *server = &role[PLAN_SERVER];
	double workers = (double)worker->count;
	const char *reason = NULL;
	a->reason = "measured";
	if (fit_is_held_back(fit_at_work(u, PLAN_WORKER), u->role[PLAN_WORKER].cores / workers) &&
	    worker->cores < l->node_cores) {
		worker->cores = l->node_cores;
		reason = "busy-worker";
	}
	if (fit_is_held_back(fit_at_work(u, PLAN_SERVER), u->role[PLAN_SERVER].cores / workers) &&
	    sample_is_worth(p, u, u->update)) {
		if (server->cores < l->node_cores)
			server->cores = l->node_cores;
		else
			server->count *= 2;
		reason = "busy-servers";
	}
	/* Where both don't fit, servers get their half and the worker what is left. */
	if (reason && !search_fits(l, role) && worker->count == 1 && server->count == 1) {
		server->cores = least(server->cores, l->cores / 2);
		worker->cores = least(worker->cores, l->cores - server->cores);
	}
	if (!reason || !search_fits(l, role) || !set_roles(a, l, role))
		return 0;
	a->method = "rule";
	a->reason = reason;
	return 1;
}

static int plan_is_too_early(const struct plan *p, const struct usage *u)
{
	double last = isnan(u->changed) ? p->changed : u->changed;
	return !isnan(last) && !isnan(u->at) && u->at - last < p->limits.every;
}

static int plan_decide(struct plan *p, const struct usage *u, struct error *err)
{
	struct plan_answer *a = &p->answer;
	enum plan_stage stage = u->has_stage ? u->stage : p->stage;
	int is_auto = stage == PLAN_AUTO;
	if (u->count == 0) {
		plan_first(p, u);
		return 0;
	}
	int came = heal(p, u, err);
	if (came != 0)
		return came < 0 ? -1 : 0;
	if (is_auto)
		stage = u->role[PLAN_WORKER].count > 1 ? PLAN_ADJUST : PLAN_OPTIMIZE;
	if (!u->role[PLAN_WORKER].count || !u->role[PLAN_SERVER].count || u->rate <= 0) {
		a->reason = "no-steps";
		return 0;
	}
	if (plan_is_too_early(p, u)) {
		a->reason = "every";
		return 0;
	}
	if (stage == PLAN_SAMPLE || (is_auto && stage == PLAN_OPTIMIZE)) {
		if (sample(p, u) || stage == PLAN_SAMPLE)
			return 0;
		a->reason = "balanced";
	}
	if (stage == PLAN_ADJUST && judge_nodes(p, u, err) != 0)
		return -1;
	if (a->actions == 0 && !take_back(p, u))
		improve(p, u, stage);
	return 0;
}

int plan_round(struct plan *p, const struct usage *u, struct error *err)
{
	struct plan_answer *a = &p->answer;
	fit_add(&p->fit, u);
	plan_begin_answer(a, u);
	if (plan_decide(p, u, err) != 0)
		return -1;
	if (plan_changes(a))
		p->changed = isnan(u->at) ? p->changed : u->at;
	if (p->fit.rounds && a->role[PLAN_WORKER].count && a->role[PLAN_SERVER].count) {
		if ((a->actions == 0 && a->reason != FASTER_BEFORE) || isnan(a->rate))
			a->rate = search_rate(&p->fit, a->role);
		a->confidence = confidence(p, a->role);
	}
	return 0;
}

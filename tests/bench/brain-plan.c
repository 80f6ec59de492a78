/*
 * brain-plan: a job whose nodes are computed, and a brain that is real: a filter as BRAIN= of a job
 * file may name it, run with the rounds so far as the supervisor runs it (plan/rounds.h,
 * job/brain_filter.h).  Seconds are simulated ones.
 *
 *   brain-plan -j wdl|xdeepfm [-b BRAIN] [-s SEED] [-p N,w,P,s] [-k none|worker|server] [-S] [-R]
 *   brain-plan -j wdl|xdeepfm -t | -n
 *
 *   -p   begins with N workers of w cores and P servers of s cores; without, as res-plan(1) does
 *   -k   one node's machine has a quarter of its speed, until the node is on another one
 *   -S   static: no brain, and each worker has a part of the data of its own, equally large
 *   -R   servers can't share out their parameters anew
 *   -v   prints every answer on stderr
 *   -t   prints the plan that somebody finds who knows the job, with equal workers and servers
 *   -n   prints the job's numbers, for brain-plan-rival.awk
 *
 * A worker's step (DLRover 4.1) takes
 *
 *   t = t_IO + W_c/min(w, w^) + W_u/min(s, s^)
 *
 * where s is a worker's share of the servers' cores.  The last term is that of the slowest server:
 * two tensors of the wdl job are not spread over the servers, as in the paper, until servers share
 * out their parameters anew (`rebalance`, which the paper has not: tests/rebalance.bats shows it
 * done).
 *
 * Numbers are the published ones, and what follows from them:
 *
 * - t of one worker, w^ and s^: Table 1.
 * - Cores and memory: 200 cores, 32 a node; 192 GB, which a machine has (6.1).  Table 2 takes 160 and
 *   80 GB, of which 1/1.2 are in use.
 * - t_IO grows with each worker beside the first: Table 1 has 47.8 steps a second of 8 workers
 *   (xdeepfm), the text 258 of 24 (wdl, no server hot).
 * - W_u (wdl): two servers of 8 that are hot cost 48 of these 258 steps.
 * - The rest is in proportion to the cores of Table 2, as in a plan that can't be better; IO is 12 %
 *   of one worker's step (wdl), 4 % (xdeepfm).
 *
 * With them the plans of Table 2 have 211 and 47.8 steps a second; published are 210 and 47.8.
 * Samples: five epochs of nine tenths of Criteo, 512 a step.  A node that starts takes 20 s to
 * launch and 100 s to initialise (6.3); training goes on meanwhile without it, for all brains
 * alike.  A worker of another size is such a start; a server hands over.
 *
 * Noise: each round 3 % of rates, 5 % of parts, and one round in fifty is half as slow again.
 */
#include "base/number.h"
#include "base/random.h"
#include "job/brain_filter.h"
#include "plan/rounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CORES 200
#define GB (1ull << 30)
#define BYTES (192 * GB) /* of the job, and of a node */
#define MORE_BYTES 1.2   /* res-plan(1) gives so much more than is used */
#define NODE_CORES 32
#define SERVER_CORES 16
#define GAIN 0.05
#define EVERY 60.0
#define ROUND 5.0      /* seconds: PLAN_EVERY / 12 */
#define LAUNCH 120.0   /* of a node */
#define MOVE 1.0       /* all wait while parameters change their owner */
#define FIRST_COST 2.0 /* of a change, before one was seen */
#define QUARTER 0.25
#define QUIET 12 /* rounds */
#define PLAN_EQUAL 0.005
#define NODES_MAX 1024
#define SECONDS_MAX (48 * 3600.0)

struct kind {
	const char *name;
	double io, io_more;                /* seconds; io_more: for each worker beside the first */
	double worker_work, server_work;   /* core seconds */
	double worker_most, server_most;   /* w^, s^ */
	double hot;                        /* of each of two tensors that are not spread */
	uint64_t plan[4];                  /* Table 2 */
	double worker_bytes, server_bytes; /* that a worker, that all servers together use */
	uint64_t batch;
	double steps;
};

static const struct kind kinds[] = {
	{.name = "wdl",
	 .io = 0.010,
	 .io_more = 0.0004,
	 .worker_work = 0.0583,
	 .server_work = 0.285,
	 .worker_most = 2.5,
	 .server_most = 5.7,
	 .hot = 1.0 / 18,
	 .plan = {24, 3, 8, 16},
	 .worker_bytes = 4 * GB / MORE_BYTES,
	 .server_bytes = 64 * GB / MORE_BYTES,
	 .batch = 512,
	 .steps = 402900},
	{.name = "xdeepfm",
	 .io = 0.006,
	 .io_more = 0.00087,
	 .worker_work = 2.58,
	 .server_work = 0.0687,
	 .worker_most = 19.4,
	 .server_most = 3.1,
	 .plan = {8, 20, 2, 16},
	 .worker_bytes = 8 * GB / MORE_BYTES,
	 .server_bytes = 16 * GB / MORE_BYTES,
	 .batch = 512,
	 .steps = 402900},
};

struct one { /* a node */
	char id[OPTION_ID_MAX];
	double cores, speed;
	double ready; /* from this second on it works */
	double next;  /* cores of the server that takes its place at `next_at`; 0: none does */
	double next_at, next_speed;
	double left; /* steps of its own data (static) */
};

static const struct kind *kind;
static struct one worker[NODES_MAX], server[NODES_MAX];
static size_t workers, servers;
static size_t serving;      /* servers that have parameters: the first ones */
static double now, stalled; /* until then nobody trains */
static int tells;     /* every answer, on stderr */
static int stays;     /* nothing is shared out anew */
static int even;      /* hot tensors have been shared out, since the servers came */
static double steps;        /* done */
static uint64_t dice;

/* ---- noise ---- */

static double normal(void)
{
	double u = random_uniform(&dice), v = random_uniform(&dice);
	return sqrt(-2 * log(u > 0 ? u : 1e-12)) * cos(6.283185307179586 * v);
}

static double about(double value, double part)
{
	return value * exp(part * normal());
}

/* ---- the truth ---- */

static double share_of(size_t i, size_t count)
{
	if (even || count == 1)
		return 1 / (double)count;
	return (1 - 2 * kind->hot) / (double)count + (i < 2 ? kind->hot : 0);
}

/* Seconds in which server i does its part of one worker's update. */
static double answer_time(size_t i, size_t at_work)
{
	double part = kind->server_work * share_of(i, serving);
	double cores =
		fmin(server[i].cores / (double)at_work, kind->server_most * share_of(i, serving));
	return part / cores / server[i].speed;
}

static double update_time(size_t at_work)
{
	double most = 0;
	for (size_t i = 0; i < serving; i++)
		most = fmax(most, answer_time(i, at_work));
	return most;
}

static double compute_time(const struct one *w)
{
	return kind->worker_work / fmin(w->cores, kind->worker_most) / w->speed;
}

static double io_time(const struct one *w, size_t at_work)
{
	return (kind->io + kind->io_more * (double)(at_work - 1)) / w->speed;
}

static double step_time(const struct one *w, double update, size_t at_work)
{
	return io_time(w, at_work) + compute_time(w) + update;
}

static size_t at_work(void)
{
	size_t count = 0;
	for (size_t i = 0; i < workers; i++)
		count += worker[i].ready <= now && worker[i].left > 0;
	return count;
}

/* Steps a second, as if all were at work that there are. */
static double rate_now(void)
{
	size_t count = at_work();
	double update = count > 0 ? update_time(count) : 0, sum = 0;
	for (size_t i = 0; i < workers; i++)
		if (worker[i].ready <= now && worker[i].left > 0)
			sum += 1 / step_time(&worker[i], update, count);
	return sum;
}

/* ---- nodes ---- */

static void add_node(struct one *n, const char *prefix, size_t number, double cores, double ready)
{
	*n = (struct one){.cores = cores, .speed = 1, .ready = ready, .left = INFINITY};
	snprintf(n->id, sizeof n->id, "%s%zu", prefix, number);
}

static void set_up(const uint64_t plan[4])
{
	workers = servers = 0;
	while (workers < plan[0]) {
		add_node(&worker[workers], "w", workers, (double)plan[1], 0);
		workers++;
	}
	while (servers < plan[2]) {
		add_node(&server[servers], "ps", servers, (double)plan[3], 0);
		servers++;
	}
	serving = servers;
}

/* ---- the plan of somebody who knows ---- */

static uint64_t workers_most(void)
{
	double left = (double)BYTES / MORE_BYTES - kind->server_bytes;
	return (uint64_t)(left / kind->worker_bytes);
}

static double rate_of(const uint64_t plan[4])
{
	set_up(plan);
	return rate_now();
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Of all with at least that rate the one whose servers have most nearly the usual size; rate 0: the
 * highest rate. */
static double tuned_from(double rate, uint64_t best[4])
{
	double most = rate;
	uint64_t off = UINT64_MAX;
	for (uint64_t w = 1; w <= NODE_CORES; w++)
		for (uint64_t n = 1; n * w < CORES && n <= workers_most(); n++)
			for (uint64_t s = 1; s <= NODE_CORES && s <= CORES - n * w; s++) {
				/* Fewer servers with the same workers are not better. */
				uint64_t plan[4] = {n, w, (CORES - n * w) / s, s};
				double r = rate_of(plan);
				int is_better = rate > 0 ? r >= rate && apart(s, SERVER_CORES) < off
							 : r > most;
				if (!is_better)
					continue;
				most = r;
				off = apart(s, SERVER_CORES);
				memcpy(best, plan, sizeof plan);
			}
	return most;
}

static double tuned(uint64_t best[4])
{
	double most = tuned_from(0, best);
	tuned_from(most * (1 - PLAN_EQUAL), best);
	return most;
}

/* ---- a round ---- */

static void put(FILE *out, struct record_out *o)
{
	size_t len = record_end(o, NULL);
	fwrite(o->data, 1, len, out);
}

static void put_node(FILE *out, const char *role, const struct one *n, double used, double bytes,
		     double time)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "node");
	record_add(&o, "role", role);
	record_add(&o, "id", n->id);
	record_add_brief(&o, "cores", n->cores);
	record_add_brief(&o, "used", fmin(about(used, 0.03), n->cores));
	record_add_u64(&o, "used-bytes", (uint64_t)bytes);
	record_add_brief(&o, "time", about(time, 0.05));
	put(out, &o);
}

/* As the supervisor writes it (run/brain.c). */
static char *round_text(double changed, size_t *len)
{
	char *text = NULL, line[RECORD_LINE_MAX];
	FILE *out = open_memstream(&text, len);
	struct record_out o;
	double rate = rate_now(), update = update_time(workers), slow = 1;
	double io = 0, compute = 0;
	if (random_uniform(&dice) < 0.02)
		slow = 1.5;
	for (size_t i = 0; i < workers; i++) {
		io += io_time(&worker[i], workers) / (double)workers;
		compute += compute_time(&worker[i]) / (double)workers;
	}
	record_begin(&o, line, sizeof line, "job");
	record_add_u64(&o, "batch", kind->batch);
	record_add_brief(&o, "steps-per-second", about(rate, 0.03) / slow);
	record_add_brief(&o, "io-time", about(io, 0.05) * slow);
	record_add_brief(&o, "compute-time", about(compute, 0.05) * slow);
	record_add_brief(&o, "update-time", about(update, 0.05) * slow);
	record_add_brief(&o, "samples", kind->steps * (double)kind->batch);
	record_add_brief(&o, "left", (kind->steps - steps) * (double)kind->batch);
	record_add_seconds(&o, "at", 1e6 + now);
	record_add_seconds(&o, "changed", changed);
	if (servers > 1 && !even && !stays)
		record_add_u64(&o, "rebalance", 1);
	put(out, &o);
	/* A machine that others keep busy computes the same in more time: so much less in use. */
	for (size_t i = 0; i < workers; i++) {
		double t = step_time(&worker[i], update, workers);
		put_node(out, "worker", &worker[i], kind->worker_work / t / slow,
			 kind->worker_bytes, t * slow);
	}
	for (size_t i = 0; i < servers; i++)
		put_node(out, "server", &server[i],
			 rate * kind->server_work * share_of(i, servers) / slow,
			 kind->server_bytes * share_of(i, servers), answer_time(i, workers) * slow);
	fclose(out);
	return text;
}

/* ---- what is answered is carried out ---- */

struct change {
	int under_way;
	double began, steps, rate; /* rate: before it */
	uint64_t count;
	double last; /* when it was over; 0: none yet */
	double cost_sum;
	/* Sizes, once the numbers are as they are to be. */
	struct plan_role_size size[PLAN_ROLES];
	int sizes;
};

static int is_worker_away(const struct one *w)
{
	return w->ready > now;
}

static void resize(struct change *c)
{
	for (size_t i = 0; i < workers; i++)
		if (worker[i].cores != (double)c->size[PLAN_WORKER].cores) {
			worker[i].cores = (double)c->size[PLAN_WORKER].cores;
			worker[i].ready = now + LAUNCH;
		}
	for (size_t i = 0; i < servers; i++)
		if (server[i].cores != (double)c->size[PLAN_SERVER].cores) {
			server[i].next = (double)c->size[PLAN_SERVER].cores;
			server[i].next_at = now + LAUNCH;
			server[i].next_speed = server[i].speed;
		}
	c->sizes = 0;
}

static void scale(const struct plan_role_size role[PLAN_ROLES])
{
	size_t want[PLAN_ROLES];
	for (int i = 0; i < PLAN_ROLES; i++)
		want[i] = role[i].count < NODES_MAX ? (size_t)role[i].count : NODES_MAX;
	workers = want[PLAN_WORKER] < workers ? want[PLAN_WORKER] : workers;
	while (workers < want[PLAN_WORKER]) {
		add_node(&worker[workers], "w", workers, (double)role[PLAN_WORKER].cores,
			 now + LAUNCH);
		workers++;
	}
	if (want[PLAN_SERVER] < servers) {
		servers = serving = want[PLAN_SERVER];
		even = 0;
		stalled = now + MOVE;
	}
	while (servers < want[PLAN_SERVER]) {
		add_node(&server[servers], "ps", servers, (double)role[PLAN_SERVER].cores,
			 now + LAUNCH);
		servers++;
	}
}

static struct one *find(enum plan_role role, const char *id)
{
	struct one *n = role == PLAN_WORKER ? worker : server;
	size_t count = role == PLAN_WORKER ? workers : servers;
	for (size_t i = 0; i < count; i++)
		if (strcmp(n[i].id, id) == 0)
			return &n[i];
	return NULL;
}

/* Elsewhere the machine is a good one. */
static void change_node(const struct answer_node *a)
{
	struct one *n = find(a->role, a->id);
	double cores = a->cores > 0 ? (double)a->cores : n ? n->cores : 0;
	if (!n)
		return;
	if (a->what == PLAN_REBALANCE) {
		even = 1;
		stalled = now + MOVE;
	} else if (a->role == PLAN_WORKER) {
		n->cores = cores;
		n->ready = now + LAUNCH;
		n->speed = a->what == PLAN_MIGRATE ? 1 : n->speed;
	} else {
		n->next = cores;
		n->next_at = now + LAUNCH;
		n->next_speed = a->what == PLAN_MIGRATE ? 1 : n->speed;
	}
}

static void begin_change(struct change *c, const struct answer *a)
{
	const double cores[PLAN_ROLES] = {worker[workers - 1].cores, server[servers - 1].cores};
	const size_t count[PLAN_ROLES] = {workers, servers};
	c->under_way = 1;
	c->began = now;
	c->steps = steps;
	c->rate = rate_now();
	c->sizes = a->plans[PLAN_WORKER] || a->plans[PLAN_SERVER];
	for (int i = 0; i < PLAN_ROLES; i++)
		c->size[i] = a->plans[i] ? a->role[i]
					 : (struct plan_role_size){count[i], (uint64_t)cores[i], 0};
	scale(c->size);
	for (size_t i = 0; i < a->count; i++)
		change_node(&a->node[i]);
}

/* Servers that have started take their parts; one with a successor gives it. */
static void look_at_servers(void)
{
	int all = 1;
	for (size_t i = 0; i < servers; i++) {
		all &= server[i].ready <= now;
		if (server[i].next > 0 && server[i].next_at <= now) {
			server[i].cores = server[i].next;
			server[i].speed = server[i].next_speed;
			server[i].next = 0;
			stalled = now + MOVE;
		}
	}
	if (all && serving < servers) {
		serving = servers;
		even = 0;
		stalled = now + MOVE;
	}
}

static int is_settled(void)
{
	for (size_t i = 0; i < workers; i++)
		if (is_worker_away(&worker[i]))
			return 0;
	for (size_t i = 0; i < servers; i++)
		if (server[i].ready > now || server[i].next > 0)
			return 0;
	return serving == servers && stalled <= now;
}

static void look_at_change(struct change *c)
{
	if (!c->under_way || !is_settled())
		return;
	if (c->sizes) {
		resize(c);
		if (!is_settled())
			return;
	}
	c->under_way = 0;
	c->count++;
	c->last = 1e6 + now;
	c->cost_sum += fmax(now - c->began - (steps - c->steps) / c->rate, 0);
}

/* ---- a job ---- */

struct told {              /* for the record */
	double near, best; /* seconds until 0.9, 0.97 of the tuned rate; NAN: never */
	double near_steps;
	uint64_t best_changes;
	uint64_t asked, quiet; /* quiet: answers in a row that changed nothing */
};

static void note(struct told *t, double enough, const struct change *c)
{
	double rate = rate_now();
	if (stalled > now)
		return;
	if (isnan(t->near) && rate >= 0.9 * enough) {
		t->near = now;
		t->near_steps = steps;
	}
	if (isnan(t->best) && rate >= 0.97 * enough) {
		t->best = now;
		t->best_changes = c->count + (c->under_way != 0);
	}
}

static void pass_second(double seconds)
{
	size_t count = at_work();
	double update = count > 0 ? update_time(count) : 0;
	for (size_t i = 0; i < workers && stalled <= now; i++) {
		struct one *w = &worker[i];
		if (w->ready > now || w->left <= 0)
			continue;
		double did = fmin(seconds / step_time(w, update, count), w->left);
		w->left -= did;
		steps += did;
	}
	now += seconds;
}

static int ask(const char *brain, struct rounds *rounds, struct change *c, struct told *told,
	       struct error *err)
{
	struct brain_limits limits = {.cores = CORES,
				      .node_cores = NODE_CORES,
				      .server_cores = SERVER_CORES,
				      .bytes = BYTES,
				      .node_bytes = BYTES,
				      .gain = GAIN,
				      .every = EVERY,
				      .cost = c->count > 0 ? c->cost_sum / (double)c->count
							   : FIRST_COST};
	struct argv words = {0};
	struct answer answer = {0};
	size_t len, bytes;
	char *round = round_text(c->last, &len), *all = NULL, *text = NULL;
	int result = rounds_add(rounds, round, len, err);
	free(round);
	/* Too early for a change: what a brain says now would come to nothing.  One that is content
	 * is asked once a minute, which saves time here. */
	if (result != 0 || (c->last > 0 && 1e6 + now - c->last < EVERY) ||
	    (told->quiet > QUIET && told->quiet++ % QUIET != 0))
		return result;
	told->asked++;
	all = rounds_text(rounds, &bytes);
	result = brain_words(&words, brain, &limits, getenv("PATH"), err);
	if (result == 0)
		result = brain_ask_once(&words, all, bytes, &text, &len, err);
	if (result == 0)
		result = answer_parse(&answer, text, len, err);
	if (result == 0 && tells)
		fprintf(stderr, "%.0f s, %.0f steps/s:\n%.*s", now, rate_now(), (int)len, text);
	told->quiet = result == 0 && answer_changes(&answer) ? 0 : told->quiet + 1;
	if (result == 0 && answer_changes(&answer))
		begin_change(c, &answer);
	answer_clear(&answer);
	free(all);
	free(text);
	return result;
}

static int run(const char *brain, double enough, struct change *c, struct told *told,
	       struct error *err)
{
	struct rounds rounds = {0};
	double since = now;
	int result = 0;
	while (result == 0 && steps < kind->steps - 1e-3 && now < SECONDS_MAX) {
		look_at_servers();
		look_at_change(c);
		note(told, enough, c);
		if (!brain || c->under_way || !is_settled())
			since = now;
		if (now - since >= ROUND) {
			result = ask(brain, &rounds, c, told, err);
			since = now;
		}
		pass_second(1);
	}
	rounds_clear(&rounds);
	return result;
}

/* ---- */

static int usage(void)
{
	fprintf(stderr, "usage: brain-plan -j wdl|xdeepfm [-t] [-n] [-S] [-R] [-v] [-b BRAIN] [-s SEED] "
			"[-p N,w,P,s] [-k worker|server]\n");
	return 64;
}

static void print(const struct told *t, const struct change *c, double best)
{
	printf("seconds=%.0f changes=%llu best-at=%.0f best-changes=%llu near-at=%.0f "
	       "near-part=%.3f "
	       "throughput=%.3f workers=%zu worker-cores=%g servers=%zu server-cores=%g "
	       "asked=%llu\n",
	       now, (unsigned long long)c->count, t->best, (unsigned long long)t->best_changes,
	       t->near, t->near_steps / kind->steps, rate_now() / best, workers, worker[0].cores,
	       servers, server[0].cores, (unsigned long long)t->asked);
}

static void print_numbers(void)
{
	printf("io=%g\nio_more=%g\nwc=%g\nwu=%g\nwm=%g\nsm=%g\nhot=%g\nw=%lu\ns=%lu\ncores=%d\n"
	       "workers_max=%lu\n",
	       kind->io, kind->io_more, kind->worker_work, kind->server_work, kind->worker_most,
	       kind->server_most, kind->hot, kind->plan[1], kind->plan[3], CORES, workers_most());
}

int main(int argc, char **argv)
{
	uint64_t best[4] = {0}, plan[4] = {1, NODE_CORES, 1, SERVER_CORES};
	const char *brain = NULL, *slow = "none";
	int show = 0, numbers = 0, is_static = 0, option;
	struct change change = {0};
	struct told told = {.near = NAN, .best = NAN};
	struct error err;
	dice = 1;
	while ((option = getopt(argc, argv, "j:b:s:p:k:tnSRv")) != -1)
		switch (option) {
		case 'j':
			for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
				if (strcmp(kinds[i].name, optarg) == 0)
					kind = &kinds[i];
			break;
		case 'b':
			brain = optarg;
			break;
		case 's':
			dice = strtoull(optarg, NULL, 10);
			break;
		case 'p':
			if (sscanf(optarg, "%lu,%lu,%lu,%lu", &plan[0], &plan[1], &plan[2],
				   &plan[3]) != 4)
				return usage();
			break;
		case 'k':
			slow = optarg;
			break;
		case 't':
			show = 1;
			break;
		case 'R':
			stays = 1;
			break;
		case 'v':
			tells = 1;
			break;
		case 'n':
			numbers = 1;
			break;
		case 'S':
			is_static = 1;
			break;
		default:
			return usage();
		}
	if (!kind || optind != argc)
		return usage();
	for (size_t i = 0; i < NODES_MAX; i++)
		worker[i].left = INFINITY;
	if (numbers) {
		print_numbers();
		return 0;
	}
	double rate = tuned(best);
	if (show) {
		printf("%lu,%lu,%lu,%lu %.1f\n", best[0], best[1], best[2], best[3], rate);
		return 0;
	}
	set_up(plan);
	if (strcmp(slow, "worker") == 0)
		worker[workers / 2].speed = QUARTER;
	else if (strcmp(slow, "server") == 0)
		server[servers - 1].speed = QUARTER;
	for (size_t i = 0; is_static && i < workers; i++)
		worker[i].left = kind->steps / (double)workers;
	if (run(is_static ? NULL : brain, rate, &change, &told, &err) != 0) {
		fprintf(stderr, "brain-plan: %s: %s\n", err.place, err.text);
		return 1;
	}
	print(&told, &change, rate);
	return 0;
}

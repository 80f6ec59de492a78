/*
 * lead-schedule: what the lead of a job with FABRIC=mlfabric computes for an update: its gate with a
 * schedule at each event, over a simulated time.  One server, workers on hosts of their own, a dense
 * model of 4 MB, SYNC=asp,delay:2N; a worker announces, is granted, sends, and computes again when its
 * push is answered.  The server's port takes one sum, or one push, after the other.
 *
 *   lead-schedule WORKERS HOSTS SERVER-RATE LOAD UPDATES
 *
 * Links have 125 MB/s, that of the server SERVER-RATE (MB/s).  LOAD: what all workers would send if none
 * waited, over what the server's port takes.
 */
#include "base/random.h"

#define lead_parts_here bench_parts_here
#include "../../lib/lead/lead_schedule.c"

#include "lead/gate.h"

#include <time.h>

#define BYTES 4000000
#define RATE 125.0 /* MB/s */
#define WORKERS_MAX 1000

enum next { NEXT_ANNOUNCE, NEXT_GRANT, NEXT_PUSH, NEXT_ANSWER };

struct bench_worker {
	char name[24];
	enum next next;
	int64_t at; /* of the next announcement, or push */
	uint64_t sequence, pulled, group;
};

static struct bench_worker worker[WORKERS_MAX];
static size_t workers, hosts;
static struct gate *gate;
static struct map map;
static struct part_here here;
static int64_t now, port_free, port_ns, compute_ns;
static uint64_t updates, events, waiting, group, seed = 1;
static double cpu, most, first_most;

static const struct map *bench_map(const void *part)
{
	(void)part;
	return &map;
}

const struct part_here *bench_parts_here(const struct lead_parts *p)
{
	(void)p;
	return &here;
}

static double cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void bench_answer(const struct gate_effect *e)
{
	struct bench_worker *w = &worker[e->token % WORKERS_MAX];
	const char *at = strstr(e->fields, "group=");
	if (!e->ok)
		exit(fprintf(stderr, "lead-schedule: %s: %s\n", w->name, e->fields) > 0);
	if (w->next == NEXT_GRANT && strstr(e->fields, "granted=1")) {
		w->group = at ? strtoull(at + 6, NULL, 10) : 0;
		if (!w->group || w->group != group)
			port_free = (port_free > now ? port_free : now) + port_ns;
		group = w->group;
		w->at = port_free;
		w->next = NEXT_PUSH;
		return;
	}
	updates += w->next != NEXT_ANNOUNCE; /* else it has joined */
	w->pulled = gate_iteration(gate);
	w->at = now + compute_ns + (int64_t)(random_next(&seed) % (uint64_t)(compute_ns / 8));
	w->next = NEXT_ANNOUNCE;
}

static void bench_drain(void)
{
	const struct gate_effect *e;
	while ((e = gate_next(gate)) != NULL)
		if (e->kind == GATE_ANSWER)
			bench_answer(e);
		else if (e->kind == GATE_HOLD)
			gate_held(gate, NULL, 0);
		else if (e->kind == GATE_SETTLE)
			gate_settled(gate, e->number, NULL, 0);
}

static struct gate_who bench_who(const struct bench_worker *w)
{
	return (struct gate_who){.worker = w->name,
				 .generation = 1,
				 .incarnation = 1,
				 .connection = 1,
				 .token = (uint64_t)(w - worker)};
}

static void bench_count(double before)
{
	double took = cpu_ms() - before;
	cpu += took;
	most = took > most ? took : most;
}

static void bench_event(struct bench_worker *w)
{
	const uint64_t part = BYTES;
	const struct gate_range range = {.id = 1, .begin = 0, .length = 1};
	struct gate_who who = bench_who(w);
	struct gate_push push = {.sequence = w->sequence + (w->next == NEXT_ANNOUNCE),
				 .iteration = w->pulled,
				 .count = 1,
				 .size = 1,
				 .pulled = w->pulled,
				 .range = &range,
				 .ranges = 1,
				 .part = &part,
				 .parts = 1,
				 .group = w->group};
	double before = cpu_ms();
	(void)gate_clock(gate, now);
	if (w->next == NEXT_ANNOUNCE) {
		w->sequence++;
		w->group = push.group = 0;
		w->next = NEXT_GRANT;
		gate_announce(gate, &who, &push);
	} else {
		w->next = NEXT_ANSWER;
		gate_push(gate, &who, &push);
	}
	bench_drain();
	bench_count(before);
	events++;
	for (size_t i = 0; i < workers; i++)
		waiting += worker[i].next == NEXT_GRANT;
}

/* The next worker, or the gate itself: NULL. */
static struct bench_worker *bench_next(void)
{
	struct bench_worker *first = NULL;
	double before = cpu_ms();
	int64_t due = gate_clock(gate, now);
	bench_drain();
	bench_count(before);
	for (size_t i = 0; i < workers; i++)
		if ((worker[i].next == NEXT_ANNOUNCE || worker[i].next == NEXT_PUSH) &&
		    (!first || worker[i].at < first->at))
			first = &worker[i];
	if (first && first->at <= due) {
		now = first->at > now ? first->at : now;
		return first;
	}
	now = due > now ? due : now + 1;
	return NULL;
}

static void bench_begin(struct lead *l, double server_rate)
{
	static char text[1 << 18];
	char *at = text, *end = text + sizeof text;
	struct error err = {0};
	map_even(&map, 1, BYTES / sizeof(float));
	here = (struct part_here){.map = bench_map};
	at += snprintf(at, (size_t)(end - at), "link host=s out=%.0f in=%.0f\nserver id=ps0 host=s\n",
		       server_rate * 1e6, server_rate * 1e6);
	for (size_t i = 0; i < hosts; i++)
		at += snprintf(at, (size_t)(end - at), "link host=h%zu out=%.0f in=%.0f\n", i, RATE * 1e6,
			       RATE * 1e6);
	for (size_t i = 0; i < workers; i++) {
		snprintf(worker[i].name, sizeof worker[i].name, "w%zu", i);
		at += snprintf(at, (size_t)(end - at), "worker id=w%zu host=h%zu\n", i, i % hosts);
	}
	const struct gate_options options = {.sync = GATE_ASP,
					     .incarnation = 1,
					     .commit = 1,
					     .round_first = 1,
					     .bounds_delay = 1,
					     .delay_max = 2 * workers,
					     .announces = 1,
					     .schedule = lead_schedule,
					     .host_name = lead_schedule_host,
					     .schedule_arg = l};
	if (schedule_read(l, text, (size_t)(at - text), &err) != 0 || gate_new(&gate, &options, &err) != 0)
		exit(fprintf(stderr, "lead-schedule: %s\n", err.text) > 0);
	gate_shards(gate, 1);
	for (size_t i = 0; i < workers; i++) {
		struct gate_who who = bench_who(&worker[i]);
		gate_join(gate, &who);
	}
	bench_drain();
}

/* A schedule in which all workers wait. */
static double bench_plan(struct lead *l)
{
	static struct gate_offer offer[WORKERS_MAX];
	static const uint64_t part = BYTES;
	double before, took, least = 0;
	for (int run = 0; run < 5; run++) {
		for (size_t i = 0; i < workers; i++)
			offer[i] = (struct gate_offer){.worker = worker[i].name,
						       .deadline = 2 * workers,
						       .size = &part,
						       .sizes = 1,
						       .left = 1};
		before = cpu_ms();
		if (lead_schedule(offer, workers, l) != 0)
			abort();
		took = cpu_ms() - before;
		least = run == 0 || took < least ? took : least;
	}
	return least;
}

int main(int argc, char **argv)
{
	static struct lead l;
	if (argc != 6)
		return 64;
	workers = strtoull(argv[1], NULL, 10);
	hosts = strtoull(argv[2], NULL, 10);
	double server_rate = strtod(argv[3], NULL), load = strtod(argv[4], NULL);
	uint64_t enough = strtoull(argv[5], NULL, 10) + 2 * workers;
	if (workers > WORKERS_MAX || hosts == 0)
		return 64;
	l.schedule_log.fd = -1;
	port_ns = (int64_t)(BYTES / server_rate * 1e3);
	compute_ns = (int64_t)((double)port_ns * (double)workers / load);
	bench_begin(&l, server_rate);
	while (updates < enough) {
		struct bench_worker *w = bench_next();
		if (updates < 2 * workers) { /* the first ones come together */
			first_most = most > first_most ? most : first_most;
			cpu = most = 0;
			events = waiting = 0;
		}
		if (w)
			bench_event(w);
	}
	printf("bench name=lead-schedule workers=%zu hosts=%zu server-mb=%g load=%g waiting=%.1f groups=%llu "
	       "far-groups=%llu event-ms=%.3f update-ms=%.3f most-ms=%.3f first-most-ms=%.3f plan-ms=%.3f seconds=%.2f\n",
	       workers, hosts, server_rate, load, (double)waiting / (double)events,
	       (unsigned long long)gate_groups(gate), (unsigned long long)gate_far_groups(gate),
	       cpu / (double)events, cpu / (double)(enough - 2 * workers), most, first_most, bench_plan(&l), 1e-9 * (double)now);
	gate_free(gate);
	lead_schedule_free(&l);
	return 0;
}

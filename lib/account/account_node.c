/* account_node: the nodes in an account: their states, their restarts, and what they had done at
 * which time. */
#include "account/account.h"

#include "account/account_internal.h"
#include "base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A spare that takes a place is a worker from then on, also when it waits again later; some records
 * name no role. */
static void account_node_take_role(struct account_node *n, const char *role)
{
	if (role[0] && (!n->role[0] || strcmp(n->role, "spare") == 0))
		snprintf(n->role, sizeof n->role, "%s", role);
}

struct account_node *account_node(struct account *a, const char *id, const char *role)
{
	struct account_reader *in = a->reader;
	for (size_t k = 0; k < a->nodes; k++) { /* records of all nodes come in the same order */
		size_t i = (in->found + 1 + k) % a->nodes;
		if (strcmp(a->node[i].id, id) == 0) {
			in->found = i;
			account_node_take_role(&a->node[i], role);
			return &a->node[i];
		}
	}
	struct account_intake *intake = calloc(1, sizeof *intake);
	if (!intake || GROW(a->node, a->nodes_room, a->nodes + 1) != 0) {
		free(intake);
		in->failed = 1;
		return NULL;
	}
	struct account_node *n = &a->node[a->nodes++];
	*n = (struct account_node){.intake = intake, .busy = NAN};
	snprintf(n->id, sizeof n->id, "%s", id);
	snprintf(n->role, sizeof n->role, "%s", role);
	return n;
}

int account_is_worker(const struct account_node *n)
{
	return strcmp(n->role, "worker") == 0;
}

int account_is_server(const struct account_node *n)
{
	return strcmp(n->role, "server") == 0 || strcmp(n->role, "replica") == 0;
}

void account_node_free(struct account_node *n)
{
	free(n->spans.span);
	free(n->point);
	free(n->intake);
}

static void account_node_enter(struct account *a, struct account_node *n, enum account_state state)
{
	account_enter(a, &n->spans, (int)state, a->at);
}

void account_node_away(struct account *a, struct account_node *n, double at)
{
	account_enter(a, &n->spans, ACCOUNT_AWAY, at);
	n->intake->handing = 0;
}

double account_state_seconds(const struct account_node *n, enum account_state state)
{
	double seconds = 0;
	for (size_t i = 0; i < n->spans.count; i++)
		if (n->spans.span[i].what == (int)state)
			seconds += n->spans.span[i].to - n->spans.span[i].from;
	return seconds;
}

/* ---- restarts ---- */

static void put_restart(struct account *a, struct account_node *n, int by_standby)
{
	struct account_intake *in = n->intake;
	account_tell(a, RECORD("restarted", F_SECONDS("at", in->from), F("role", n->role),
			       F("id", n->id), F("why", in->why),
			       in->reason[0] ? F("reason", in->reason) : F_NONE,
			       F_SECONDS("seconds", a->at - in->from),
			       F_SECONDS("down", a->at - in->ended_at),
			       by_standby ? F("standby", 1) : F_NONE));
	a->restarts++;
	n->restarts++;
	struct account_mark *m = account_mark(a, ACCOUNT_RESTART);
	if (!m)
		return;
	m->at = in->from;
	m->node = (size_t)(n - a->node);
	snprintf(m->what, sizeof m->what, "%s", in->why);
	m->seconds = a->at - in->from;
	m->down = a->at - in->ended_at;
	m->by_standby = by_standby;
	account_mark_reason(a, m, in->reason);
}

static void forget_restart(struct account_intake *in)
{
	in->ended_at = in->from = 0;
	in->asked = in->handing = 0;
	in->reason[0] = '\0';
}

static void take_ready(struct account *a, struct account_node *n, uint64_t life)
{
	account_node_enter(a, n, ACCOUNT_UP);
	if (n->intake->ended_at != 0)
		put_restart(a, n, n->intake->standby == life + 1);
	else if (n->intake->handing) /* the earlier process, for a new supervisor */
		return;
	forget_restart(n->intake);
}

/* The node is left over from a killed supervisor. If it is not the process that the supervisor
 * knew, there was a restart that nobody saw. */
static void take_adopted(struct account *a, struct account_node *n, uint64_t life)
{
	struct account_intake *in = n->intake;
	account_node_enter(a, n, ACCOUNT_STARTING);
	if (life <= in->life || in->ended_at != 0)
		return;
	in->ended_at = NAN;
	if (in->asked)
		return;
	snprintf(in->why, sizeof in->why, "unseen");
	in->from = a->at;
}

static void account_node_take_end(struct account *a, struct account_node *n, const struct record *r)
{
	struct account_intake *in = n->intake;
	in->ended_at = a->at;
	if (!in->asked) {
		const char *signal = record_get(r, "signal"), *status = record_get(r, "status");
		snprintf(in->why, sizeof in->why, "%s%.8s",
			 signal   ? "signal-"
			 : status ? "status-"
				  : "unseen",
			 signal   ? signal
			 : status ? status
				  : "");
		in->from = a->at;
		snprintf(in->reason, sizeof in->reason, "%s", account_value(r, "why"));
	}
	account_node_enter(a, n, ACCOUNT_DOWN);
}

static void take_start(struct account *a, struct account_node *n)
{
	account_node_enter(a, n, ACCOUNT_STARTING);
	forget_restart(n->intake); /* the first of its run */
	if (n->points == 0)
		n->intake->begun = 1;
}

static void take_event(struct account *a, const struct record *r)
{
	struct account_node *n = account_node(a, account_value(r, "id"), account_value(r, "role"));
	const char *kind = account_value(r, "kind");
	uint64_t life = n ? n->intake->life : 0;
	if (!n || record_u64_opt(r, "life", 0, UINT64_MAX, &life, NULL) != 0)
		return;
	struct account_intake *in = n->intake;
	if (record_get(r, "host"))
		snprintf(n->host, sizeof n->host, "%s", record_get(r, "host"));
	if (strcmp(kind, "kill") == 0) {
		if (!in->asked) /* not from KILL_RESTART's guard: killed by a person, or by a
				 * deadline */
			snprintf(in->why, sizeof in->why, "killed");
		in->from = in->from > 0 && in->asked ? in->from : a->at;
		in->asked = 1;
	} else if (strcmp(kind, "hung") == 0) {
		if (!in->handing) { /* else the next process is given up */
			const char *at = account_value(r, "in");
			snprintf(in->why, sizeof in->why, "hung");
			snprintf(in->reason, sizeof in->reason, "%s%s", at[0] ? "it was in " : "", at);
			in->from = a->at;
			in->asked = 1;
		}
	} else if (strcmp(kind, "exit") == 0)
		account_node_take_end(a, n, r);
	else if (strcmp(kind, "start") == 0)
		take_start(a, n);
	else if (strcmp(kind, "restart") == 0)
		account_node_enter(a, n, ACCOUNT_AGAIN);
	else if (strcmp(kind, "joins") == 0)
		account_node_enter(a, n, ACCOUNT_STARTING);
	else if (strcmp(kind, "adopt") == 0)
		take_adopted(a, n, life);
	else if (strcmp(kind, "ready") == 0)
		take_ready(a, n, life);
	else if (strcmp(kind, "left") == 0) {
		account_node_enter(a, n, ACCOUNT_AWAY);
		forget_restart(in);
	}
	if (strcmp(account_value(r, "role"), "spare") == 0)
		account_node_enter(a, n,
				   ACCOUNT_AWAY); /* it waits for a place, and trains nothing */
	in->life = life;
}

/* For a server: its next process is up, or has failed and the old one goes on. */
static void take_hand_over(struct account *a, const struct record *r, int failed)
{
	struct account_node *n = account_node(a, account_value(r, "id"), "");
	if (!n)
		return;
	if (failed && n->intake->ended_at == 0)
		forget_restart(n->intake);
	n->intake->handing = !failed;
}

/* Of a server; it may take over. */
static void take_standby(struct account *a, const struct record *r)
{
	struct account_node *n = account_node(a, account_value(r, "id"), "");
	uint64_t life;
	if (n && record_u64(r, "life", 0, UINT64_MAX - 1, &life, NULL) == 0)
		n->intake->standby = life + 1;
}

/* By a decision, or a person. */
static void take_restart(struct account *a, const struct record *r)
{
	struct account_node *n = account_node(a, account_value(r, "id"), "");
	if (!n)
		return;
	struct account_intake *in = n->intake;
	snprintf(in->reason, sizeof in->reason, "%s", account_value(r, "reason"));
	snprintf(in->why, sizeof in->why, "kill-restart");
	in->from = a->at;
	in->asked = 1;
}

/* ---- what it had done ---- */

/* Points are sums, so leaving one out loses nothing. */
static void thin(struct account_node *n)
{
	size_t count = 1;
	for (size_t i = 2; i < n->points; i += 2)
		n->point[count++] = n->point[i];
	n->points = count;
}

static void account_node_add_point(struct account *a, struct account_node *n,
				   const struct account_point *p)
{
	if (n->points == ACCOUNT_POINTS_MAX)
		thin(n);
	if (GROW(n->point, n->room, n->points + 1) != 0)
		a->reader->failed = 1;
	else
		n->point[n->points++] = *p;
}

/* The first point of a course: 0, when the node was ready first; if the log no longer has the
 * beginning, what the node had done by then. */
static double course_begin(const struct account_node *n, double at)
{
	for (size_t i = 0; i < n->spans.count; i++)
		if (n->spans.span[i].what == ACCOUNT_UP)
			return fmin(n->spans.span[i].from, at);
	return at;
}

static struct account_sums difference(const struct account_sums *now,
				      const struct account_sums *then)
{
	return (struct account_sums){.batches = now->batches - then->batches,
				     .samples = now->samples - then->samples,
				     .time = now->time - then->time,
				     .compute = now->compute - then->compute,
				     .comm = now->comm - then->comm,
				     .wait = now->wait - then->wait};
}

static void add_sums(struct account *a, struct account_node *n, const struct account_sums *sums,
		     double at)
{
	struct account_intake *in = n->intake;
	struct account_point next = {.at = at};
	struct account_sums more = *sums;
	if (n->points == 0) {
		next.compute = next.comm = next.wait = isnan(sums->compute) ? NAN : 0;
		if (in->begun) {
			next.at = course_begin(n, at);
			account_node_add_point(a, n, &next);
			next.at = at;
		} else
			more = (struct account_sums){0};
	} else {
		next = n->point[n->points - 1];
		next.at = fmax(at, next.at);
		if (sums->batches >= in->last.batches)
			more = difference(sums, &in->last); /* else a monitor that began anew */
	}
	in->last = *sums;
	if (n->points > 0 && more.batches <= 0)
		return; /* nothing new */
	next.batches += more.batches;
	next.steps += more.batches * fmax(in->accum, 1);
	next.samples += more.samples;
	next.time += more.time;
	next.compute += more.compute;
	next.comm += more.comm;
	next.wait += more.wait;
	account_node_add_point(a, n, &next);
}

/* Reads a `series` record or a node of a decision's snapshot: both come from the monitor. */
static void take_sums(struct account *a, struct account_node *n, const struct record *r)
{
	struct account_sums s = {.compute = NAN, .comm = NAN, .wait = NAN};
	double at = a->at;
	record_real_opt(r, "batches", 0, 1e300, &s.batches, NULL);
	record_real_opt(r, "samples", 0, 1e300, &s.samples, NULL);
	record_real_opt(r, "time-sum", 0, 1e300, &s.time, NULL);
	record_real_opt(r, "compute-sum", 0, 1e300, &s.compute, NULL);
	record_real_opt(r, "comm-sum", 0, 1e300, &s.comm, NULL);
	record_real_opt(r, "wait-sum", 0, 1e300, &s.wait, NULL);
	record_real_opt(r, "last", 0, 1e300, &at, NULL);
	record_u64_opt(r, "size", 0, UINT64_MAX, &n->size, NULL);
	if (!n->intake->has_sums && n->points > 0)
		n->intake->last = s; /* the earlier sums were estimates: the difference is not
				      * known */
	n->intake->has_sums = 1;
	if (s.batches > 0)
		add_sums(a, n, &s, fmin(at, a->at));
}

static void account_node_take_device(struct account_node *n, const struct record *r)
{
	struct account_device d = {.launch = 0};
	record_real_opt(r, "device-speed", 0, 1e15, &d.speed, NULL);
	record_real_opt(r, "launch", 0, 1e300, &d.launch, NULL);
	record_u64_opt(r, "saturation", 1, UINT64_MAX, &d.saturation, NULL);
	record_u64_opt(r, "max", 1, UINT64_MAX, &d.max, NULL);
	if (!(d.speed > 0) || d.max == 0)
		return;
	snprintf(d.type, sizeof d.type, "%s", account_value(r, "type"));
	n->device = d;
}

static void take_series(struct account *a, const struct record *r)
{
	struct account_node *n = account_node(a, account_value(r, "id"), account_value(r, "role"));
	uint64_t stale;
	if (!n)
		return;
	take_sums(a, n, r);
	account_node_take_device(n, r);
	stale = n->intake->stale;
	record_u64_opt(r, "stale", 0, UINT64_MAX, &stale, NULL);
	/* Each generation of a worker counts from 0. */
	n->stale += stale < n->intake->stale ? stale : stale - n->intake->stale;
	n->intake->stale = stale;
}

/* Snapshots of an older log have no sums: estimate the times of batches from the node's speed, and
 * their number from the batch size, over the short window. */
static void account_node_guess(struct account *a, struct account_node *n, const struct record *r,
			       double samples, double speed)
{
	struct account_intake *in = n->intake;
	struct account_sums s = in->last;
	double size = 0, at = a->reader->snapshot_at;
	record_real_opt(r, "size", 0, 1e300, &size, NULL);
	record_real_opt(r, "last", 0, 1e300, &at, NULL);
	if (in->has_sums || !(size > 0) || !(speed > 0))
		return;
	double more = samples >= in->samples ? samples - in->samples : samples;
	s.compute = s.comm = s.wait = NAN;
	s.samples += more;
	s.batches += more / size;
	s.time += more / speed;
	add_sums(a, n, &s, fmin(at, a->at));
}

/* Of a decision's snapshot. */
static void account_node_take(struct account *a, const struct record *r)
{
	double samples = 0, speed = NAN, snapshot_at = a->reader->snapshot_at;
	struct account_node *n = account_node(a, account_value(r, "id"), account_value(r, "role"));
	if (!n || record_real_opt(r, "samples", 0, 1e300, &samples, NULL) != 0 ||
	    record_real_opt(r, "speed-short", 0, 1e300, &speed, NULL) != 0)
		return;
	struct account_intake *in = n->intake;
	double time = snapshot_at - in->samples_at;
	if (in->samples_at > 0 && time > 0 && samples >= in->samples && speed > 0) {
		in->busy += (samples - in->samples) / speed;
		in->watched += time;
	}
	record_u64_opt(r, "size", 0, UINT64_MAX, &n->size, NULL);
	record_real_opt(r, "accum", 1, 1e300, &in->accum, NULL);
	account_node_take_device(n, r);
	if (record_get(r, "batches"))
		take_sums(a, n, r);
	else
		account_node_guess(a, n, r, samples, speed);
	in->samples_at = snapshot_at;
	in->samples = samples;
}

static double account_node_away_between(const struct account_node *n, double from, double to)
{
	static const enum account_state states[] = {ACCOUNT_AWAY, ACCOUNT_STARTING, ACCOUNT_DOWN,
						    ACCOUNT_AGAIN};
	double sum = 0;
	for (size_t i = 0; i < sizeof states / sizeof *states; i++)
		sum += account_overlap(&n->spans, (int)states[i], from, to);
	return sum;
}

double account_up(const struct account_node *n, double from, double to)
{
	return to - from - account_node_away_between(n, from, to);
}

/* The share of the work between two points that was done in a part of that time, assuming an even
 * speed while the node was up. */
static double account_node_share(const struct account_node *n, const struct account_point *p,
				 double from, double to)
{
	double begin = fmax(p[0].at, from), end = fmin(p[1].at, to);
	double all = p[1].at - p[0].at, part = end - begin;
	if (!(all > 0))
		return from <= p[1].at && p[1].at < to;
	if (!(part > 0))
		return 0;
	double up = account_up(n, p[0].at, p[1].at);
	return up > 1e-6 ? fmin(account_up(n, begin, end) / up, 1) : part / all;
}

/* The first point behind that time. */
static size_t point_at(const struct account_node *n, double at)
{
	size_t low = 0, high = n->points;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (n->point[middle].at < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct account_point account_between(const struct account_node *n, double from, double to)
{
	struct account_point sum = {.at = to};
	size_t first = point_at(n, from);
	for (size_t i = first > 0 ? first : 1; i < n->points && n->point[i - 1].at < to; i++) {
		const struct account_point *p = &n->point[i - 1];
		double part = account_node_share(n, p, from, to);
		if (!(part > 0))
			continue;
		sum.batches += part * (p[1].batches - p[0].batches);
		sum.samples += part * (p[1].samples - p[0].samples);
		sum.steps += part * (p[1].steps - p[0].steps);
		sum.time += part * (p[1].time - p[0].time);
		sum.compute += part * (p[1].compute - p[0].compute);
		sum.comm += part * (p[1].comm - p[0].comm);
		sum.wait += part * (p[1].wait - p[0].wait);
	}
	return sum;
}

double account_collective(const struct account_point *did)
{
	double besides = did->compute + did->comm - did->time;
	return besides > 0 ? besides : 0; /* NAN, too */
}

double account_rows(const struct account_point *did)
{
	return did->compute > 0 ? fmax(did->time - did->compute - did->comm, 0) : 0;
}

/* ---- in and out ---- */

int account_take_node(struct account *a, const struct record *r)
{
	if (record_is(r, "event"))
		take_event(a, r);
	else if (record_is(r, "series"))
		take_series(a, r);
	else if (record_is(r, "node"))
		account_node_take(a, r);
	else if (record_is(r, "restart"))
		take_restart(a, r);
	else if (record_is(r, "standby"))
		take_standby(a, r);
	else if (record_is(r, "hand-over") || record_is(r, "handover-failed"))
		take_hand_over(a, r, record_is(r, "handover-failed"));
	else
		return 0;
	return 1;
}

void account_node_end(struct account *a, struct account_node *n)
{
	const struct account_intake *in = n->intake;
	account_close(&n->spans, a->at);
	if (in->watched > 0)
		n->busy = in->busy / in->watched;
	else if (n->points > 1 && n->point[n->points - 1].at > n->point[0].at)
		n->busy = n->point[n->points - 1].time /
			  (n->point[n->points - 1].at - n->point[0].at);
}

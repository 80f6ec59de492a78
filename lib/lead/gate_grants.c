/*
 * Grants: which pushes that were announced may be sent, and which are dropped before that.
 *
 * A grant promises a commit in time.  So there are never more grants than can be kept, whoever
 * comes first: if all that are granted commit one after the other, the oldest first, none has a
 * delay above the bound.  A push that would break this is not granted; if it is here already, its
 * commit waits.
 *
 * A worker with a grant may die (then it is out), or be stopped, or have a link that became slow.
 * It has the time that its bytes should take, several times; then its promise is given up, so that
 * nobody waits for it.  What it sends later is judged when it comes.
 *
 * Those of one host that are granted at the same time are a group: they may be summed there, and
 * one sum goes over the network.  So a group is one unit, which is committed whole or not at all:
 * when one member does not come, the others are dropped.  Its members never change.
 *
 * Where the schedule says that all are there sooner if those of several hosts are summed on one of
 * them, these are a group, too (a crew).  Then each is told how many of the group are on its host,
 * and where all are summed.
 */
#include "lead/gate_internal.h"

#include "base/grow.h"
#include "solve/xfer_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MATES_NS_MAX INT64_C(5000000000)
#define CREW_SLACK INT64_C(100000000) /* ns: programs take some time, too */
#define CREW_PAUSE_LEAST INT64_C(10000000000)
#define CREW_PAUSE_MOST INT64_C(640000000000)
#define GRANT_LEAST INT64_C(1000000000) /* ns, and then so many times what is expected */
#define GRANT_TIMES 4
#define GRANT_PACE 1000.0 /* ns a byte, as long as nothing is known of a worker */

static int64_t grant_until(const struct gate *g, const struct push *p)
{
	double pace = p->worker->pace > 0 ? p->worker->pace : GRANT_PACE;
	double ns = GRANT_TIMES * fmax(pace * (double)p->bytes, (double)(p->there - g->now));

	return g->now + GRANT_LEAST + (ns < 1e18 ? (int64_t)ns : INT64_C(1000000000000000000));
}

/* It has come: what its bytes took. At most twice as much as before: it may have been stopped. */
static void grant_learn(struct gate *g, const struct push *p)
{
	struct worker *w = p->worker;
	double most = 2 * (w->pace > 0 ? w->pace : GRANT_PACE);
	double pace = (double)(g->now - p->granted_at) / (double)p->bytes;

	if (p->bytes > 0)
		w->pace = pace < most ? pace : most;
}

static int is_promised(const struct push *p)
{
	return p->grant == GRANT_GIVEN && units_has_step(p);
}

/* One more that must commit by its deadline. 0: that is over. */
static int put_deadline(struct gate *g, const struct push *p, uint64_t version, size_t places)
{
	uint64_t delay = units_delay(p, version);

	if (!g->options.bounds_delay)
		return 1;
	if (p->pulled == GATE_PULLED_UNKNOWN || delay > g->options.delay_max)
		return 0;
	if (g->options.delay_max - delay < places)
		g->place[g->options.delay_max - delay]++;
	return 1;
}

/* Whether all promises can be kept when the next commit meets this version: with `more`, and
 * without `gone`, which may be NULL. */
static int grants_fit(struct gate *g, const struct push *more, const struct push *gone,
		      uint64_t version)
{
	const struct push *const list[] = {g->announced.first, g->held.first};
	size_t places = g->announced.count + g->held.count + 1, due = 0;
	int fit = 1;

	if (GROW(g->place, g->places_max, places) != 0) {
		g->failed = 1;
		return 0;
	}
	memset(g->place, 0, places * sizeof *g->place);
	for (size_t i = 0; i < 2; i++) {
		for (const struct push *p = list[i]; p && fit; p = p->next) {
			if (p != gone && is_promised(p))
				fit = put_deadline(g, p, version, places);
		}
	}
	if (more && fit)
		fit = put_deadline(g, more, version, places);
	for (size_t i = 0; i < places && fit; i++) {
		due += g->place[i];
		fit = due <= i + 1;
	}
	return fit;
}

int grants_let_commit(struct gate *g, const struct push *p, uint64_t version)
{
	return g->announced.count + g->held.count <= 1 || grants_fit(g, NULL, p, version + 1);
}

/* The version that the next commit meets, besides those that wait. */
static uint64_t next_version(const struct gate *g)
{
	uint64_t version = g->applied;

	for (const struct push *p = g->sent.first; p; p = p->next)
		version += (uint64_t)units_has_step(p);
	return version;
}

static void grant_tell(struct gate *g, const struct push *p, uint64_t token, const char *more)
{
	if (p->group && p->here && p->at)
		effect_ok(g, token, NULL, "granted=1 group=%llu members=%zu here=%zu at=%s%s",
			  (unsigned long long)p->group, p->members, p->here,
			  g->options.host_name(p->at, g->options.schedule_arg), more);
	else if (p->group && p->here)
		effect_ok(g, token, NULL, "granted=1 group=%llu members=%zu here=%zu%s",
			  (unsigned long long)p->group, p->members, p->here, more);
	else if (p->group)
		effect_ok(g, token, NULL, "granted=1 group=%llu members=%zu%s",
			  (unsigned long long)p->group, p->members, more);
	else
		effect_ok(g, token, NULL, "granted=1%s", more);
}

static void grant_answer(struct gate *g, struct push *p)
{
	for (size_t i = 0; i < p->tokens; i++)
		grant_tell(g, p, p->token[i], i ? " repeated=1" : "");
	p->tokens = 0;
}

static void grant_give(struct gate *g, struct push *p)
{
	p->grant = GRANT_GIVEN;
	p->granted_at = g->now;
	p->until = grant_until(g, p);
}

static int may_join(struct gate *g, const struct push *p, const struct push *with)
{
	return p != with && p->grant == GRANT_ASKED && !p->is_rival &&
	       (p->host == with->host || (with->crew && p->crew == with->crew)) &&
	       units_has_step(p) && !(p->scale < with->scale || p->scale > with->scale) &&
	       grants_fit(g, p, NULL, next_version(g));
}

/* Of a group with members on several hosts: how many are with p, and where all are summed. */
static void grant_place(const struct gate *g, struct push *p, size_t crew)
{
	size_t here = 0;
	int is_there = 0;

	for (const struct push *q = g->announced.first; q; q = q->next) {
		here += q->group == p->group && q->host == p->host;
		is_there |= q->group == p->group && q->host == crew;
	}
	p->here = here < p->members ? here : 0;
	p->at = is_there ? crew : 0;
}

/* p, which was granted, with those of its host and of its crew that wait, too. */
static void grant_group(struct gate *g, struct push *p)
{
	if (p->host && units_has_step(p)) {
		for (struct push *q = g->announced.first; q; q = q->next) {
			if (!may_join(g, q, p))
				continue;
			if (!p->group) {
				p->group = ++g->groups;
				p->members = 1;
			}
			p->members++;
			q->group = p->group;
			grant_give(g, q);
		}
	}
	for (struct push *q = g->announced.first; q && p->group; q = q->next) {
		if (q->group != p->group)
			continue;
		q->members = p->members;
		grant_place(g, q, p->crew);
		grant_answer(g, q);
	}
	g->far_groups += p->group && p->at;
	grant_answer(g, p);
}

/* It was worth it if it took not much longer than was said; else the rates were other ones. */
void grants_judge_crew(struct gate *g, const struct push *p, int is_over)
{
	int64_t said = p->there - p->granted_at, took = g->now - p->granted_at;

	if (!p->group || !p->at || g->now < g->crew_from)
		return;
	if (is_over && took - said <= said / 4 + CREW_SLACK) {
		g->crew_pause /= 2;
		return;
	}
	g->crew_pause *= 2;
	if (g->crew_pause < CREW_PAUSE_LEAST)
		g->crew_pause = CREW_PAUSE_LEAST;
	if (g->crew_pause > CREW_PAUSE_MOST)
		g->crew_pause = CREW_PAUSE_MOST;
	g->crew_from = g->now + g->crew_pause;
}

void grants_give_up(struct gate *g, uint64_t group)
{
	if (!group)
		return;
	for (const struct push *p = g->announced.first; p; p = p->next) {
		if (p->group == group)
			grants_judge_crew(g, p, 0);
	}
	for (struct push *p = g->announced.first; p; p = p->next) {
		if (p->group == group) {
			p->late = 1;
			p->group = 0;
		}
	}
	for (struct push *p = g->held.first; p; p = p->next) {
		if (p->group == group) {
			g->late += !p->late;
			p->late = 1;
			p->group = 0;
		}
	}
}

/* From now on it is a push that came too late: its rows go back, and the answer says so. */
static void grant_refuse(struct gate *g, struct push *p)
{
	struct worker *w = p->worker;

	pushes_remove(&g->announced, p);
	w->announced = NULL;
	g->spared += p->bytes;
	p->late = p->stale = 1;
	g->late++;
	pushes_hold(g, p);
}

/* ---- the schedule ---- */

/* What never comes is waited for for a while, too. */
static int64_t time_after(int64_t now, int64_t ns)
{
	return now + (ns < XFER_TIME_MAX / 2 ? ns : XFER_TIME_MAX / 2);
}

/* The version that the first of those meets that have no promise yet. */
static uint64_t free_version(const struct gate *g)
{
	uint64_t version = next_version(g);

	for (const struct push *p = g->announced.first; p; p = p->next)
		version += (uint64_t)is_promised(p);
	for (const struct push *p = g->held.first; p; p = p->next)
		version += (uint64_t)is_promised(p);
	return version;
}

/* What is summed is sent once. */
static int is_first_of_group(const struct gate *g, const struct push *p)
{
	const struct push *q = p->group ? g->announced.first : p;

	while (q != p && q->group != p->group)
		q = q->next;
	return q == p;
}

static struct gate_offer grant_offer(const struct gate *g, const struct push *p, uint64_t version)
{
	struct gate_offer o = {.worker = p->worker->id,
			       .size = p->part,
			       .sizes = p->parts,
			       .deadline = XFER_NO_DEADLINE,
			       .left = 1,
			       .is_on_its_way = p->grant != GRANT_ASKED};

	if (p->pulled == GATE_PULLED_UNKNOWN && g->options.bounds_delay)
		o.deadline = 0;
	else if (g->options.bounds_delay)
		o.deadline = xfer_deadline(p->pulled, version, g->options.delay_max);
	if (o.is_on_its_way)
		o.left = p->grant == GRANT_GIVEN && p->there > g->now && is_first_of_group(g, p)
				 ? (double)(p->there - g->now) / (double)(p->there - p->granted_at)
				 : 0;
	return o;
}

static void grants_schedule(struct gate *g)
{
	struct gate_offer *offer = calloc(g->announced.count + 1, sizeof *offer);
	uint64_t version = free_version(g);
	size_t n = 0;

	if (!offer) {
		g->failed = 1;
		return;
	}
	for (const struct push *p = g->announced.first; p; p = p->next)
		offer[n++] = grant_offer(g, p, version);
	int rc = g->options.schedule(offer, n, g->options.schedule_arg);
	n = 0;
	for (struct push *p = g->announced.first; p; p = p->next, n++) {
		if (p->grant != GRANT_ASKED)
			continue;
		p->is_rival = rc == 0 && offer[n].is_late;
		p->worker->host = p->host = rc == 0 ? offer[n].host : 0;
		p->crew = rc == 0 && g->now >= g->crew_from ? offer[n].crew : 0;
		p->hop = rc == 0 && g->now >= g->crew_from ? offer[n].hop : -1;
		p->alone = offer[n].alone;
		p->start = rc == 0 ? time_after(g->now, offer[n].start) : g->now;
		p->there = rc == 0 ? time_after(g->now, offer[n].there) : g->now;
	}
	free(offer);
}

/* Others of its host that will announce soon: it is worth the time that its own bytes take, but one
 * that stands still is not waited for all that time. */
static int waits_for_mates(const struct gate *g, struct push *p)
{
	int64_t own = p->there - p->start;
	int64_t until = p->asked_at + (own < MATES_NS_MAX ? own : MATES_NS_MAX);

	if (!p->host || !units_has_step(p) || g->now >= until)
		return 0;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->state == WORKER_ACTIVE && w->host == p->host && !w->announced && !worker_held(w) &&
		    !w->waiting) {
			p->start = until;
			return 1;
		}
	}
	return 0;
}

/* By when w, of another host, will announce its next push; 0: that is not known, or it is late. */
static int64_t grant_expected(const struct gate *g, const struct worker *w, int64_t alone)
{
	int64_t slack = w->away / 4 + alone / 8; /* no batch takes as long as the one before */

	if (w->state != WORKER_ACTIVE || !w->host || w->waiting || w->away > MATES_NS_MAX)
		return 0;
	if (w->push)
		return g->now + w->away + slack;
	if (!w->announced)
		return w->answered + w->away + slack > g->now ? w->answered + w->away + slack : 0;
	if (w->announced->grant != GRANT_GIVEN)
		return 0;
	return (w->announced->there > g->now ? w->announced->there : g->now) + w->away + slack;
}

/* A crew with those of another host spares the time of one push, and costs that of a hop, and until
 * they announce.  Where that is worth it, pushes take turns in vain: all come again at the same
 * time then, so that nobody waits long. */
static int waits_for_crew(const struct gate *g, struct push *p)
{
	int64_t worth = p->alone / 5 * 3 - p->hop, until = p->asked_at + p->alone + worth;

	if (!p->host || p->hop < 0 || !units_has_step(p) || worth <= 0 || p->alone > MATES_NS_MAX)
		return 0;
	for (const struct worker *w = g->workers; w; w = w->hh.next) {
		if (w->host == p->host || w->away > worth)
			continue;
		int64_t at = grant_expected(g, w, p->alone);
		if (at && g->now < until) {
			p->start = at < until ? at : until;
			return 1;
		}
	}
	return 0;
}

static int grant_waits(const struct gate *g, struct push *p)
{
	for (struct push *q = g->announced.first; q && p->crew; q = q->next) {
		if (q->grant == GRANT_ASKED && q->crew == p->crew && waits_for_mates(g, q)) {
			p->start = q->start;
			return 1;
		}
	}
	return waits_for_mates(g, p) || waits_for_crew(g, p);
}

static int somebody_asks(const struct gate *g)
{
	for (const struct push *p = g->announced.first; p; p = p->next) {
		if (p->grant == GRANT_ASKED)
			return 1;
	}
	return 0;
}

void grants_step(struct gate *g)
{
	if (!somebody_asks(g))
		return;
	if (g->options.schedule)
		grants_schedule(g);
	for (struct push *p = g->announced.first, *next; p; p = next) {
		next = p->next;
		if (p->grant != GRANT_ASKED)
			continue;
		if (p->is_rival)
			grant_refuse(g, p);
		else if (p->start > g->now || grant_waits(g, p))
			continue;
		else if (!units_has_step(p) || grants_fit(g, p, NULL, next_version(g))) {
			grant_give(g, p);
			grant_group(g, p);
		} else
			grant_refuse(g, p);
	}
}

/* ---- events ---- */

void grants_repeat(struct gate *g, struct push *p, uint64_t token)
{
	if (p->grant != GRANT_ASKED)
		grant_tell(g, p, token, " repeated=1");
	else if (p->tokens == GATE_TOKENS_MAX)
		effect_err(g, token, "busy", "this announcement was repeated too often");
	else
		p->token[p->tokens++] = token;
}

void grants_end(struct gate *g, struct worker *w, const char *why)
{
	struct push *p = w->announced;

	if (!p)
		return;
	w->announced = NULL;
	pushes_remove(&g->announced, p);
	grants_give_up(g, p->group);
	for (size_t i = 0; i < p->tokens; i++)
		effect_err(g, p->token[i], "fenced", "%s", why);
	push_free(g, p);
}

/* A push of other numbers than those that were announced was promised nothing. One that says that it
 * is of a group may be in a sum with others. */
void grants_take(struct gate *g, struct worker *w, struct push *came, uint64_t group)
{
	struct push *p = g->options.announces ? w->announced : NULL;

	if (group != 0 && (!p || p->group != group))
		came->late = 1;
	if (!p)
		return;
	if (p->sequence == came->sequence && p->pulled == came->pulled && p->count == came->count) {
		came->grant = p->grant;
		if (p->late)
			came->late = 1;
		if (!came->late && p->group == group) {
			came->group = p->group;
			came->members = p->members;
			came->at = p->at;
			came->there = p->there;
			came->granted_at = p->granted_at;
			p->group = 0; /* it goes on with this one */
		}
		if (p->grant == GRANT_GIVEN || p->grant == GRANT_OVER)
			grant_learn(g, p);
		grant_answer(g, w->announced);
	}
	grants_end(g, w, "another push came");
}

void gate_reschedule(struct gate *g)
{
	if (somebody_asks(g))
		units_step(g);
}

int64_t gate_clock(struct gate *g, int64_t ns)
{
	int64_t next;
	int is_due = 0;

	g->now = ns;
	for (struct push *p = g->announced.first; p; p = p->next) {
		if (p->grant == GRANT_GIVEN && p->until <= ns) {
			p->grant = GRANT_OVER;
			grants_give_up(g, p->group);
			is_due = 1;
		}
		is_due |= p->grant == GRANT_ASKED && p->start <= ns;
	}
	if (is_due || g->late_at <= ns)
		units_step(g);
	next = g->late_at;
	for (const struct push *p = g->announced.first; p; p = p->next) {
		if (p->grant == GRANT_GIVEN && p->until < next)
			next = p->until;
		if (p->grant == GRANT_ASKED && p->start < next)
			next = p->start;
	}
	return next;
}

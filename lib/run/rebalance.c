/* rebalance: see rebalance.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/human.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOON_SECONDS 1.0
#define LONG_AGO 600.0 /* seconds, after which an even load may have become uneven */
#define EARLY_PART 0.1 /* of REBALANCE every: the pause while servers have counted too little */

static int rebalance_is_on(const struct supervisor *s)
{
	return strcmp(s->job->rebalance, "on") == 0 && sup_count(s, &role_server) > 0;
}

static int is_asked_by_person(const struct supervisor *s)
{
	return s->rebalance.rq != NULL;
}

static int rebalance_is_spent(const struct supervisor *s)
{
	return s->rebalance.done >= s->job->rebalance_limit;
}

static void rebalance_again(struct supervisor *s, double seconds)
{
	s->rebalance.not_before = clock_mono() + seconds;
}

void sup_rebalance_soon(struct supervisor *s)
{
	s->rebalance.is_even = 0;
	rebalance_again(s, fmin(SOON_SECONDS, s->job->rebalance_every));
}

int sup_rebalance_helps(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	return n->role == &role_server && rebalance_is_on(s) && !s->rebalance.is_even &&
	       sup_rebalance_is_offered(s) && sup_rebalance_want(s, "hot", NULL) == 0;
}

/* ---- who wants it ---- */

static int rebalance_refuse(struct request *rq, const char *code, const char *text)
{
	if (rq)
		request_err(rq, code, "%s", text);
	return -1;
}

/* The client that asked has gone: the rebalance is done all the same. */
static void rebalance_cancelled(struct request *rq, void *sup)
{
	struct supervisor *s = sup;
	(void)rq;
	s->rebalance.rq = NULL;
}

int sup_rebalance_is_offered(const struct supervisor *s)
{
	const struct sup_rebalance *b = &s->rebalance;
	if (b->is_even && clock_mono() - b->even_at < LONG_AGO)
		return 0;
	return s->scale.now.servers > 1 && sup_count(s, &role_server) > 1 && !rebalance_is_spent(s);
}

int sup_rebalance_want(struct supervisor *s, const char *reason, struct request *rq)
{
	struct sup_rebalance *b = &s->rebalance;
	if (job_kind(s->job)->servers_stay)
		return rebalance_refuse(rq, "no-servers", "this job has no parameter servers");
	if (s->phases.goal != GOAL_DONE || s->phases.now >= PHASE_FINISHING)
		return rebalance_refuse(rq, "over", "the job ends");
	if (s->scale.now.servers < 2)
		return rebalance_refuse(rq, "one-server", "one server has all parameters");
	if (sup_turn_is_due(s, TURN_REBALANCE))
		return rebalance_refuse(rq, "moving", "servers share out their parameters already");
	if (!rq && rebalance_is_spent(s))
		return -1;
	b->wanted = 1;
	b->rq = rq;
	snprintf(b->reason, sizeof b->reason, "%s", reason);
	rebalance_again(s, 0);
	if (rq)
		request_defer(rq, rebalance_cancelled, s);
	sup_kick(s);
	return 0;
}

void sup_rebalance_over(struct supervisor *s)
{
	struct request *rq = s->rebalance.rq;
	s->rebalance.wanted = 0;
	s->rebalance.rq = NULL;
	if (rq)
		request_err(rq, "over", "the job has ended");
}

static void rebalance_answer_ok(struct request *rq, const struct record *r)
{
	static const char *const keys[] = {"busiest", "peak", "moved-bytes", "stall"};
	struct record_out *o = RECORD_BARE("ok");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (record_get(r, keys[i]))
			record_add(o, keys[i], record_get(r, keys[i]));
	request_ok_record(rq, o);
}

/* Somebody wanted a rebalance, and nothing has moved: the log says why. */
static void rebalance_log_refused(struct supervisor *s, const char *code)
{
	sup_log(s, RECORD("rebalance-refused", F("code", code), F("reason", s->rebalance.reason)));
}

/* r: what the lead said; NULL: its connection went. */
static void rebalance_answer(struct supervisor *s, const struct record *r)
{
	struct sup_rebalance *b = &s->rebalance;
	struct request *rq = b->rq;
	if (b->wanted && !sup_answer_ok(r))
		rebalance_log_refused(s, r ? sup_answer_code(r) : "lost");
	else if (b->wanted && b->is_even)
		rebalance_log_refused(s, "even");
	b->wanted = 0;
	b->rq = NULL;
	if (rq && sup_answer_ok(r))
		rebalance_answer_ok(rq, r);
	else if (rq)
		request_err(rq, r ? sup_answer_code(r) : "lost", "%s",
			    !r        ? "a server ended meanwhile"
			    : r->text ? r->text
				      : "refused");
}

/* ---- what the lead says ---- */

/* "BEFORE,AFTER" */
static void read_peak(const struct record *r, double *before, double *after)
{
	const char *text = record_get(r, "peak");
	char *stop = NULL;
	*before = *after = NAN;
	if (!text)
		return;
	*before = strtod(text, &stop);
	if (stop != text && *stop == ',')
		*after = strtod(stop + 1, NULL);
}

static void log_moved(struct supervisor *s, const struct record *r, uint64_t bytes)
{
	char moved[HUMAN_MAX], held[HUMAN_MAX];
	double before, after, stall = 0;
	uint64_t version = 0;
	const char *id = record_get(r, "busiest"),
		   *reason = s->rebalance.wanted ? s->rebalance.reason : "imbalance";
	read_peak(r, &before, &after);
	record_u64_opt(r, "version", 0, UINT64_MAX, &version, NULL);
	record_real_opt(r, "stall", 0, 1e300, &stall, NULL);
	log_say(LOG_LEVEL_INFO,
		"%s had %.3g times the mean of all servers to do: %s of parameters have moved, and "
		"the busiest has %.3g times; workers waited %s at most",
		id ? id : "a server", before, human_bytes((double)bytes, moved), after,
		human_time(stall, held));
	sup_log(s,
		RECORD("rebalanced", F("id", id ? id : ""), F_REAL("before", before),
		       F_REAL("after", after), F("moved-bytes", bytes), F_SECONDS("stall", stall),
		       F("map", version), F("of", s->job->rebalance_limit),
		       F("count", s->rebalance.done), F("reason", reason)));
}

/* A crash may lose one from the count; the limit still works. */
static void rebalance_count(struct supervisor *s)
{
	s->rebalance.done++;
	sup_scale_keep(s, 0);
}

static void rebalance_on_ok(struct supervisor *s, const struct record *r)
{
	struct sup_rebalance *b = &s->rebalance;
	uint64_t bytes = 0;
	record_u64_opt(r, "moved-bytes", 0, UINT64_MAX, &bytes, NULL);
	b->failed[0] = '\0';
	b->is_even = bytes == 0;
	b->even_at = clock_mono();
	if (bytes == 0)
		return;
	b->moved++;
	rebalance_count(s);
	log_moved(s, r, bytes);
}

/* A reason that passes, after which the lead is asked again: servers have counted too little so
 * far, parameters are moving, or a server is not connected. */
static int is_passing(const char *code)
{
	return strcmp(code, "early") == 0 || strcmp(code, "moving") == 0 ||
	       strcmp(code, "lost") == 0;
}

static void rebalance_on_refused(struct supervisor *s, const struct record *r)
{
	struct sup_rebalance *b = &s->rebalance;
	char text[SUP_ANSWER_TEXT];
	if (is_passing(sup_answer_code(r))) {
		double seconds = EARLY_PART * s->job->rebalance_every;
		if (b->wanted)
			seconds = fmin(seconds, SOON_SECONDS);
		rebalance_again(s, fmax(seconds, SOON_SECONDS / 4));
		return;
	}
	rebalance_count(s);
	sup_answer_text(r, text);
	sup_log(s, RECORD("rebalanced", F("failed", text)));
	if (strncmp(b->failed, text, 500) != 0)
		sup_note(s, "warning",
			 "a server that has more to do than others keeps its keys: %s", text);
	snprintf(b->failed, sizeof b->failed, "%.500s", text);
}

static void rebalance_on_answer(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	struct sup_rebalance *b = &s->rebalance;
	b->open = 0;
	rebalance_again(s, s->job->rebalance_every);
	if (sup_answer_ok(r))
		rebalance_on_ok(s, r);
	else if (r)
		rebalance_on_refused(s, r);
	if (!r || !is_passing(sup_answer_code(r)))
		rebalance_answer(s, r);
	sup_kick(s);
}

/* ---- asking ---- */

/* Whether all servers are up, and nobody else changes them. */
static int rebalance_may_ask(const struct supervisor *s)
{
	if (s->phases.now != PHASE_RUNNING || s->phases.goal != GOAL_DONE || s->progress.all_done ||
	    !sup_turn_may_begin(s, TURN_REBALANCE))
		return 0;
	EACH_OF (n, s, &role_server)
		if (n->stage != STAGE_READY || n->restart.wanted || n->now.doomed)
			return 0;
	return sup_link_up(&s->links.lead_move);
}

/* Uneven maps have versions, and servers that start after a rollback need a higher one. So it is on
 * disk that there are such maps before the first one is made. */
static int rebalance_write_down(struct supervisor *s)
{
	if (s->scale.servers.maps_moved)
		return 0;
	s->scale.servers.maps_moved = 1;
	if (sup_scale_keep(s, 0) == 0)
		return 0;
	s->scale.servers.maps_moved = 0;
	return -1;
}

/* The job has been scaled to one server meanwhile. */
static int is_pointless(struct supervisor *s)
{
	struct request *rq = s->rebalance.rq;
	if (!s->rebalance.wanted || sup_turn_is_due(s, TURN_SCALE) || sup_count(s, &role_server) > 1)
		return 0;
	rebalance_log_refused(s, "one-server");
	s->rebalance.wanted = 0;
	s->rebalance.rq = NULL;
	rebalance_refuse(rq, "one-server", "one server has all parameters");
	return 1;
}

static void rebalance_ask(struct supervisor *s)
{
	struct sup_rebalance *b = &s->rebalance;
	if (b->open) {
		(void)sup_move_is_late(s);
		return;
	}
	if (is_pointless(s) || sup_count(s, &role_server) < 2)
		return;
	if (b->not_before <= 0)
		rebalance_again(s, s->job->rebalance_every);
	if (clock_mono() < b->not_before) {
		if (b->wanted)
			sup_kick_after(s, b->not_before - clock_mono());
		return;
	}
	if (!rebalance_may_ask(s))
		return;
	if (rebalance_is_spent(s) && !is_asked_by_person(s)) {
		if (!b->limit_told++ && s->job->rebalance_limit > 0)
			sup_note(s, "rebalance",
				 "REBALANCE=limit:%llu: servers keep the keys that they have now",
				 (unsigned long long)s->job->rebalance_limit);
		sup_rebalance_over(s);
		return;
	}
	if (rebalance_write_down(s) != 0)
		return; /* not on disk yet; then a kick follows */
	sup_move_began(s);
	b->open = sup_ask_now(&b->ask, &s->links.lead_move,
			      RECORD("rebalance", b->wanted ? F_NONE
							    : F_REAL("gain", s->job->rebalance_gain)),
			      NULL, rebalance_on_answer, s) == 0;
	if (!b->open)
		rebalance_again(s, SOON_SECONDS);
}

void sup_rebalance_step(struct supervisor *s)
{
	if (s->rebalance.wanted)
		rebalance_ask(s);
}

void sup_rebalance_periodic(struct supervisor *s)
{
	if (rebalance_is_on(s) || s->rebalance.wanted)
		rebalance_ask(s);
}

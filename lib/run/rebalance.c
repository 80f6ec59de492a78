/* rebalance: see rebalance.h. */
#include "run/sup.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>

#define AGAIN_SECONDS 600.0 /* after one in vain: what is asked of whom may be different then */

static int refuse(struct request *rq, const char *code, const char *text)
{
	if (rq)
		request_err(rq, code, "%s", text);
	return -1;
}

/* Who asked has gone: it is done all the same. */
static void cancelled(struct request *rq, void *sup)
{
	struct supervisor *s = sup;
	(void)rq;
	s->rebalance.rq = NULL;
}

int sup_rebalance_want(struct supervisor *s, const char *reason, struct request *rq)
{
	struct sup_rebalance *b = &s->rebalance;
	if (job_is_allreduce(s->job) || job_is_foreign(s->job))
		return refuse(rq, "no-servers", "this job has no parameter servers");
	if (s->phases.goal != GOAL_DONE || s->phases.now >= PHASE_FINISHING)
		return refuse(rq, "over", "the job ends");
	if (s->scale.now.servers < 2)
		return refuse(rq, "one-server", "one server has all parameters");
	if (b->wanted)
		return refuse(rq, "moving", "parameters are being shared out anew");
	b->wanted = 1;
	b->rq = rq;
	snprintf(b->reason, sizeof b->reason, "%s", reason);
	if (rq)
		request_defer(rq, cancelled, s);
	sup_kick(s);
	return 0;
}

int sup_rebalance_is_due(const struct supervisor *s)
{
	return s->rebalance.wanted;
}

int sup_rebalance_moves(const struct supervisor *s)
{
	return s->rebalance.ask.open > 0;
}

int sup_rebalance_helps(const struct supervisor *s)
{
	const struct sup_rebalance *b = &s->rebalance;
	if (b->in_vain > 0 && b->servers == s->scale.now.servers &&
	    clock_mono() - b->in_vain < AGAIN_SECONDS)
		return 0;
	return s->scale.now.servers > 1;
}

static void answer_ok(struct request *rq, uint64_t bytes, double stall, const char *peak)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "ok");
	record_add_u64(&o, "moved-bytes", bytes);
	record_add_seconds(&o, "stall", stall);
	record_add(&o, "peak", peak);
	request_ok_record(rq, &o);
}

static void end(struct supervisor *s, const struct record *r)
{
	struct sup_rebalance *b = &s->rebalance;
	struct request *rq = b->rq;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	uint64_t bytes = 0;
	double stall = NAN;
	const char *peak = r ? record_get(r, "peak") : NULL;
	int went_well = sup_answer_ok(r);
	b->wanted = 0;
	b->rq = NULL;
	if (went_well) {
		record_u64_opt(r, "moved-bytes", 0, UINT64_MAX, &bytes, NULL);
		record_real_opt(r, "stall", 0, 1e300, &stall, NULL);
		b->in_vain = bytes == 0 ? clock_mono() : 0;
		b->servers = s->scale.now.servers;
	}
	record_begin(&o, line, sizeof line, went_well ? "rebalanced" : "rebalance-refused");
	if (went_well) {
		record_add_u64(&o, "moved-bytes", bytes);
		record_add_seconds(&o, "stall", stall);
		record_add(&o, "peak", peak ? peak : "");
	} else {
		record_add(&o, "code", r ? sup_answer_code(r) : "lost");
	}
	record_add(&o, "reason", b->reason);
	sup_log(s, &o);
	if (rq && went_well)
		answer_ok(rq, bytes, stall, peak ? peak : "");
	else if (rq)
		request_err(rq, r ? sup_answer_code(r) : "lost", "%s",
			    !r        ? "a server ended meanwhile"
			    : r->text ? r->text
				      : "refused");
	sup_kick(s);
}

static void on_answer(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	if (s->rebalance.wanted)
		end(s, r);
}

/* What waits for members, or starts servers, comes first. */
static int may_start(const struct supervisor *s)
{
	EACH_OF (n, s, &role_server)
		if (n->stage != STAGE_READY)
			return 0;
	return !sup_scale_is_due(s) && !sup_checkpoint_is_made(s) && !sup_restart_hands_over(s);
}

void sup_rebalance_step(struct supervisor *s)
{
	struct sup_rebalance *b = &s->rebalance;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (!b->wanted || b->ask.open || !may_start(s))
		return;
	if (!s->scale.servers.ever) {
		s->scale.servers.ever = 1;
		if (sup_scale_keep(s, 0) != 0) {
			s->scale.servers.ever = 0;
			return; /* it is tried again */
		}
	}
	record_begin(&o, line, sizeof line, "rebalance");
	sup_ask(&b->ask, &s->links.lead_move, &o, NULL, on_answer, s);
}

void sup_rebalance_over(struct supervisor *s)
{
	struct request *rq = s->rebalance.rq;
	s->rebalance.wanted = 0;
	s->rebalance.rq = NULL;
	if (rq)
		request_err(rq, "over", "the job has ended");
}

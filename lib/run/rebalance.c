/* rebalance: see rebalance.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/human.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOON_SECONDS 1.0
#define EARLY_PART 0.1 /* of REBALANCE_EVERY, while servers have counted too little */

static int is_on(const struct supervisor *s)
{
	return strcmp(s->job->rebalance, "on") == 0 && sup_count(s, &role_server) > 0;
}

static int is_spent(const struct supervisor *s)
{
	return s->rebalance.done >= s->job->rebalance_limit;
}

int sup_rebalance_is_under_way(const struct supervisor *s)
{
	return s->rebalance.open;
}

int sup_rebalance_is_due(const struct supervisor *s)
{
	return s->rebalance.open || s->rebalance.hot;
}

static void again(struct supervisor *s, double seconds)
{
	s->rebalance.next = clock_mono() + seconds;
}

void sup_rebalance_soon(struct supervisor *s)
{
	s->rebalance.is_even = 0;
	again(s, fmin(SOON_SECONDS, s->job->rebalance_every));
}

int sup_rebalance_helps(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	if (n->role != &role_server || !is_on(s) || is_spent(s) || s->rebalance.is_even ||
	    sup_count(s, &role_server) < 2)
		return 0;
	s->rebalance.hot = 1;
	again(s, 0);
	return 1;
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
	char line[RECORD_LINE_MAX], moved[HUMAN_MAX], held[HUMAN_MAX];
	struct record_out o;
	double before, after, stall = 0;
	uint64_t version = 0;
	const char *id = record_get(r, "busiest"), *reason = s->rebalance.hot ? "hot" : "imbalance";
	read_peak(r, &before, &after);
	record_u64_opt(r, "version", 0, UINT64_MAX, &version, NULL);
	record_real_opt(r, "stall", 0, 1e300, &stall, NULL);
	log_say(LOG_LEVEL_INFO,
		"%s had %.3g times the mean of all servers to do: %s of parameters have moved, and the "
		"busiest has %.3g times; workers waited %s at most",
		id ? id : "a server", before, human_bytes((double)bytes, moved), after,
		human_time(stall, held));
	record_begin(&o, line, sizeof line, "rebalanced");
	record_add(&o, "id", id ? id : "");
	record_add_real(&o, "before", before);
	record_add_real(&o, "after", after);
	record_add_u64(&o, "moved-bytes", bytes);
	record_add_seconds(&o, "stall", stall);
	record_add_u64(&o, "map", version);
	record_add_u64(&o, "of", s->job->rebalance_limit);
	record_add_u64(&o, "count", s->rebalance.done);
	record_add(&o, "reason", reason);
	sup_log(s, &o);
}

/* A limit that forgets one in a crash is one still. */
static void count_one(struct supervisor *s)
{
	s->rebalance.done++;
	sup_scale_keep(s, 0);
}

static void on_ok(struct supervisor *s, const struct record *r)
{
	struct sup_rebalance *b = &s->rebalance;
	uint64_t bytes = 0;
	record_u64_opt(r, "moved-bytes", 0, UINT64_MAX, &bytes, NULL);
	b->failed[0] = '\0';
	b->is_even = bytes == 0;
	if (bytes == 0)
		return;
	b->moved++;
	count_one(s);
	log_moved(s, r, bytes);
}

/* Others are there than asked for, or moved meanwhile; or too little is known: it is asked again. */
static int is_passing(const char *code)
{
	return strcmp(code, "early") == 0 || strcmp(code, "moving") == 0 ||
	       strcmp(code, "lost") == 0;
}

static void on_refused(struct supervisor *s, const struct record *r)
{
	struct sup_rebalance *b = &s->rebalance;
	char text[SUP_ANSWER_TEXT], line[RECORD_LINE_MAX];
	struct record_out o;
	if (is_passing(sup_answer_code(r))) {
		again(s, fmax(EARLY_PART * s->job->rebalance_every, SOON_SECONDS / 4));
		return;
	}
	count_one(s);
	sup_answer_text(r, text);
	record_begin(&o, line, sizeof line, "rebalanced");
	record_add(&o, "failed", text);
	sup_log(s, &o);
	if (strncmp(b->failed, text, 500) != 0)
		sup_note(s, "warning", "a server that has more to do than others keeps its keys: %s",
			 text);
	snprintf(b->failed, sizeof b->failed, "%.500s", text);
}

static void on_answer(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	struct sup_rebalance *b = &s->rebalance;
	b->open = 0;
	again(s, s->job->rebalance_every);
	if (sup_answer_ok(r))
		on_ok(s, r);
	else if (r)
		on_refused(s, r);
	if (!r || !is_passing(sup_answer_code(r)))
		b->hot = 0;
	sup_kick(s);
}

/* ---- asking ---- */

/* All servers stand, and nobody else changes them. */
static int may_ask(const struct supervisor *s)
{
	if (s->phases.now != PHASE_RUNNING || s->phases.goal != GOAL_DONE || s->progress.all_done ||
	    sup_scale_is_due(s) || sup_checkpoint_is_made(s) || sup_restart_hands_over(s))
		return 0;
	EACH_OF (n, s, &role_server)
		if (n->stage != STAGE_READY || n->restart.wanted || n->now.doomed)
			return 0;
	return sup_link_up(&s->links.lead_move);
}

/* An uneven map has a version of its own, and the servers after a rollback begin above it: that is on
 * disk before the first one is made. */
static int write_down(struct supervisor *s)
{
	if (s->scale.servers.ever)
		return 0;
	s->scale.servers.ever = 1;
	if (sup_scale_keep(s, 0) == 0)
		return 0;
	s->scale.servers.ever = 0;
	return -1;
}

void sup_rebalance_periodic(struct supervisor *s)
{
	struct sup_rebalance *b = &s->rebalance;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (!is_on(s) || b->open || sup_count(s, &role_server) < 2)
		return;
	if (b->next <= 0)
		again(s, s->job->rebalance_every);
	if (clock_mono() < b->next || !may_ask(s))
		return;
	if (is_spent(s)) {
		if (!b->limit_told++ && s->job->rebalance_limit > 0)
			sup_note(s, "rebalance",
				 "REBALANCE_LIMIT=%llu: servers keep the keys that they have now",
				 (unsigned long long)s->job->rebalance_limit);
		b->hot = 0;
		return;
	}
	if (write_down(s) != 0) {
		again(s, s->job->rebalance_every);
		return;
	}
	record_begin(&o, line, sizeof line, "rebalance");
	record_add_real(&o, "gain", s->job->rebalance_gain);
	b->open = sup_ask(&b->ask, &s->links.lead_move, &o, NULL, on_answer, s) == 0;
	if (!b->open)
		again(s, SOON_SECONDS);
}

/* progress: see progress.h. */
#include "run/show.h"
#include "run/sup.h"

#include "base/clock.h"
#include "job/spent.h"
#include "base/grow.h"
#include "base/number.h"
#include "solve/why.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SNAPSHOT_TICKS 4  /* between two looks at the monitor */
#define WAIT_SECONDS 30.0 /* `stat wait=`: asked again after this long */
#define SNAPSHOT_BYTES_MAX (8u << 20)
#define READY_SECONDS 0.1    /* between questions for members; */
#define MEMBERS_UNHURT 100.0 /* so many workers double it */

/* ---- shardd ---- */

static void note_rate(struct supervisor *s)
{
	struct sup_rate *rate = &s->progress.rate;
	if (rate->count > 0 && s->progress.stat.samples_done < rate->point[rate->count - 1].samples)
		rate->count = 0; /* rolled back */
	if (rate->count == SUP_RATE_POINTS)
		memmove(rate->point, rate->point + 1, --rate->count * sizeof *rate->point);
	rate->point[rate->count].at = clock_mono();
	rate->point[rate->count++].samples = s->progress.stat.samples_done;
}

double sup_rate(const struct supervisor *s)
{
	const struct sup_rate *rate = &s->progress.rate;
	if (rate->count < 2)
		return NAN;
	size_t last = rate->count - 1;
	double time = rate->point[last].at - rate->point[0].at;
	return time > 0 ? (double)(rate->point[last].samples - rate->point[0].samples) / time : NAN;
}

static void take_stat(struct supervisor *s, const struct record *r)
{
	struct sup_stat stat = {.known = 1, .first_at = NAN, .last_at = NAN};
	const struct {
		const char *key;
		uint64_t *at;
	} counts[] = {{"full", &stat.full},
		      {"lost", &stat.lost},
		      {"epoch", &stat.epoch},
		      {"todo", &stat.todo},
		      {"doing", &stat.doing},
		      {"done", &stat.done},
		      {"held", &stat.held},
		      {"shards", &stat.shards},
		      {"shards-done", &stat.shards_done},
		      {"samples-done", &stat.samples_done},
		      {"incarnation", &stat.incarnation}};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		record_u64_opt(r, counts[i].key, 0, UINT64_MAX, counts[i].at, NULL);
	record_real_opt(r, "first-at", 0, 1e300, &stat.first_at, NULL);
	record_real_opt(r, "last-at", 0, 1e300, &stat.last_at, NULL);
	s->progress.stat = stat;
	note_rate(s);
}

static void progress_show_row(struct supervisor *s);

static void progress_on_stat(const struct record *r, void *owner)
{
	if (record_is(r, "stat"))
		take_stat(owner, r);
}

static void on_stat_end(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	(void)r;
	if (s->progress.row_waits)
		progress_show_row(s);
	sup_kick(s);
}

static int stat_again(struct supervisor *s)
{
	return sup_ask_again(&s->progress.stat_question, &sup_shardd(s)->link, RECORD_BARE("stat"),
			     progress_on_stat, on_stat_end, s);
}

void sup_ask_stat(struct supervisor *s)
{
	sup_ask(&s->progress.stat_question, &sup_shardd(s)->link, RECORD_BARE("stat"),
		progress_on_stat, on_stat_end, s);
}

void sup_stat_forget(struct supervisor *s)
{
	s->progress.stat.known = 0;
}

static int nothing_left(const struct sup_stat *stat)
{
	return stat->known && stat->todo == 0 && stat->doing == 0; /* in any epoch */
}

int sup_nothing_left(const struct supervisor *s)
{
	return nothing_left(&s->progress.stat);
}

static void progress_on_done(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	if (sup_answer_ok(r) && s->phases.now == PHASE_RUNNING)
		s->progress.all_done = nothing_left(&s->progress.stat);
	sup_kick(s);
}

void sup_wait_done(struct supervisor *s)
{
	if (s->progress.all_done)
		return;
	sup_ask(&s->progress.done_question, &s->links.shardd_wait,
		RECORD("stat", F_REAL("wait", WAIT_SECONDS)), progress_on_stat, progress_on_done,
		s);
}

void sup_progress_phase(struct supervisor *s)
{
	s->progress.all_done = s->progress.last.known = s->progress.members_trained = 0;
	sup_network_log(s);
	if (sup_series_due(s))
		sup_ask_snapshot(s);
}

/* ---- the end's numbers ---- */

static void progress_on_held(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	char *held = s->progress.last.held;
	const char *id = record_get(r, "id");
	size_t at = strlen(held), max = sizeof s->progress.last.held;
	if (id && at + strlen(id) + 2 < max)
		snprintf(held + at, max - at, "%s%s", at ? "," : "", id);
}

static void on_held_end(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	s->progress.last.known = sup_answer_ok(r);
	sup_kick(s);
}

/* Both questions are on one connection, so they are answered in this order. */
void sup_ask_last(struct supervisor *s)
{
	if (s->progress.held_question.open)
		return;
	s->progress.last.held[0] = '\0';
	if (stat_again(s) == 0)
		sup_ask(&s->progress.held_question, &sup_shardd(s)->link,
			RECORD("list", F("state", "held")), progress_on_held, on_held_end, s);
}

/* ---- rows ---- */

/* The worker that delays the others: the greatest mean time of a batch in the short window. */
static void find_slowest(struct supervisor *s)
{
	const struct snapshot *now = &s->progress.snapshot.now;
	const struct snapshot_node *slowest = NULL;
	struct run_row *row = &s->progress.row;
	struct why why;
	for (size_t i = 0; i < now->node_count; i++) {
		const struct snapshot_node *n = &now->node[i];
		if (n->role != NODE_WORKER || n->state != NODE_UP || isnan(n->ratio_short))
			continue;
		if (!slowest || n->ratio_short > slowest->ratio_short)
			slowest = n;
	}
	row->slowest[0] = row->why[0] = row->told[0] = '\0';
	row->ratio = row->told_age = NAN;
	if (!slowest)
		return;
	row->ratio = slowest->ratio_short;
	snprintf(row->slowest, sizeof row->slowest, "%s", slowest->id);
	why_gather(&why, now, NODE_WORKER);
	why_slow(&why, slowest, row->why);
	const struct sup_node *n = sup_find_of(s, sup_trainers(s), slowest->id);
	if (n && n->last_action.what[0]) {
		snprintf(row->told, sizeof row->told, "%s", n->last_action.what);
		row->told_age = clock_mono() - n->last_action.at;
	}
}

/* Whether it prints what the others do: it trains, or is to begin with all others. */
static int prints_all(const struct sup_node *n)
{
	return n->stage == STAGE_READY || (n->stage == STAGE_STARTING && n->lives <= 1);
}

/* Rank 0, or the first that lives while it is dead. Behind their loops ranks end one after the
 * other, and well: it stays who it was. */
static void fill_first(struct supervisor *s, struct run_row *row)
{
	const struct sup_node *first = NULL, *second = NULL;
	if (s->phases.now >= PHASE_FINISHING)
		return;
	EACH_OF (n, s, sup_trainers(s)) {
		if (!prints_all(n))
			continue;
		second = first ? n : NULL;
		first = first ? first : n;
		if (second)
			break;
	}
	first = first ? first : sup_first(s, sup_trainers(s));
	snprintf(row->first, sizeof row->first, "%.*s", OPTION_ID_MAX - 1, first ? first->id : "");
	snprintf(row->second, sizeof row->second, "%.*s", OPTION_ID_MAX - 1, second ? second->id : "");
}

static void fill_row(struct supervisor *s)
{
	struct run_row *row = &s->progress.row;
	row->state = sup_phase_name(s->phases.now);
	row->known = s->progress.stat.known;
	row->epochs = s->job->epochs;
	row->samples = s->progress.stat.samples_done;
	row->epoch =
		s->progress.stat.epoch + 1 < row->epochs ? s->progress.stat.epoch + 1 : row->epochs;
	row->total = s->options.samples * s->job->epochs;
	row->time = clock_mono() - s->phases.started;
	row->eta = NAN;
	if (row->rate > 0 && row->total >= row->samples)
		row->eta = (double)(row->total - row->samples) / row->rate;
	fill_first(s, row);
	find_slowest(s);
	sup_waits(s, row->waits, sizeof row->waits);
}

static void log_row(struct supervisor *s, const struct run_row *row)
{
	struct record_out *o = RECORD_BARE("row");
	show_fields(o, row);
	record_add_u64(o, "members", row->members);
	sup_log(s, o);
}

/* A row has the samples that shardd counts: the lead counts anew in each of its lives. */
static void progress_show_row(struct supervisor *s)
{
	s->progress.row_waits = 0;
	fill_row(s);
	log_row(s, &s->progress.row);
	if (s->options.row)
		s->options.row(&s->progress.row, s->options.arg);
	sup_answer_watchers(s, &s->progress.row);
}

static void progress_take_row(struct supervisor *s, const struct record *r)
{
	uint64_t samples = 0;
	double at = 0;
	if (s->progress.row_waits) /* no answer from shardd since: shown with the count of before */
		progress_show_row(s);
	s->progress.row.loss = NAN;
	record_u64_opt(r, "iteration", 0, UINT64_MAX, &s->progress.row.iteration, NULL);
	record_real_opt(r, "loss", -1e300, 1e300, &s->progress.row.loss, NULL);
	if (!isnan(s->progress.row.loss))
		s->progress.loss_until = s->progress.row.iteration;
	record_u64_opt(r, "samples", 0, UINT64_MAX, &samples, NULL);
	record_u64_opt(r, "members", 0, UINT64_MAX, &s->progress.row.members, NULL);
	if (job_has_delay(s->job))
		show_take_delays(&s->progress.row.delays, r);
	record_real_opt(r, "at", 0, 1e300, &at, NULL);
	if (s->progress.row_at > 0 && at > s->progress.row_at && samples > s->progress.row_samples)
		s->progress.row.rate =
			(double)(samples - s->progress.row_samples) / (at - s->progress.row_at);
	s->progress.row_at = at;
	s->progress.row_samples = samples;
	s->progress.row_waits = 1;
	/* Asked again, because an answer under way may be older than this row. */
	if (stat_again(s) != 0)
		progress_show_row(s);
}

/* If several are equally slow, the lead warns of one after the other, again and again: once for
 * each process is enough. */
static void take_warning(struct supervisor *s, const struct record *r)
{
	struct sup_node *n = sup_find_of(s, sup_trainers(s), record_get(r, "id"));
	if (n && n->warned != n->lives)
		sup_note(s, "warning", "%s: the job is faster without it", n->id);
	if (n)
		n->warned = n->lives;
}

/* A rank's gradient, and so the sum of all: a loss that is nan is seen later, in all of them. */
static void take_bad(struct supervisor *s, const struct record *r)
{
	const struct sup_node *n = sup_find_of(s, sup_trainers(s), record_get(r, "worker"));
	const char *iteration = record_get(r, "iteration");
	char who[SUP_WHO_MAX];
	if (n)
		sup_note(s, "warning", "iteration %.20s: %s: %s; its log may name the parameter",
			 iteration ? iteration : "", sup_who(n, who), r->text ? r->text : "");
}

static void take_enough(struct supervisor *s, const struct record *r)
{
	const char *worker = record_get(r, "worker"), *why = record_get(r, "why");
	char reason[RECORD_LINE_MAX];
	snprintf(reason, sizeof reason, "%.64s has trained enough%s%.400s", worker ? worker : "",
		 why && *why ? ", " : "", why ? why : "");
	sup_finish_by(s, SPENT_ENOUGH, reason);
}

static void report_take(struct sup_reported *all, const char *name, size_t len, double value)
{
	size_t i = 0;
	while (i < all->count && (strncmp(all->item[i].name, name, len) != 0 || all->item[i].name[len]))
		i++;
	if (i == SUP_REPORTED_MAX || len == 0 || len >= sizeof all->item[i].name)
		return;
	all->count += i == all->count;
	snprintf(all->item[i].name, sizeof all->item[i].name, "%.*s", (int)len, name);
	all->item[i].value = value;
}

/* "NAME:NUMBER,...", as a trainer says it: what is none is passed over. */
static void take_report(struct supervisor *s, const struct record *r)
{
	struct sup_reported *all = &s->progress.reported;
	const char *worker = record_get(r, "worker"), *values = record_get(r, "values");
	double value;
	for (const char *at = values ? values : ""; *at; at += *at == ',') {
		size_t len = strcspn(at, ","), name = strcspn(at, ":,");
		if (name < len && number_real_span(at + name + 1, len - name - 1, &value) == 0)
			report_take(all, at, name, value);
		at += len;
	}
	record_u64_opt(r, "iteration", 0, UINT64_MAX, &all->iteration, NULL);
	all->at = clock_mono();
	sup_log(s, RECORD("report", F("worker", worker ? worker : ""), F("iteration", all->iteration),
			  F("values", values ? values : "")));
}

void sup_reported_text(const struct sup_reported *r, char out[SUP_REPORTED_TEXT])
{
	size_t len = 0;
	out[0] = '\0';
	for (size_t i = 0; i < r->count && len < SUP_REPORTED_TEXT - 64; i++)
		len += (size_t)snprintf(out + len, SUP_REPORTED_TEXT - len, "%s%s %.6g", i ? ", " : "",
					r->item[i].name, r->item[i].value);
}

static void progress_on_row(const struct record *r, void *owner)
{
	if (record_is(r, "row"))
		progress_take_row(owner, r);
	else if (record_is(r, "warn"))
		take_warning(owner, r);
	else if (record_is(r, "bad"))
		take_bad(owner, r);
	else if (record_is(r, "enough"))
		take_enough(owner, r);
	else if (record_is(r, "report"))
		take_report(owner, r);
}

void sup_progress_up(struct link *link, const struct record *greeting)
{
	struct supervisor *s = link->sup;
	(void)greeting;
	s->progress.row_at = 0; /* a lead that was rolled back counts from its cut */
	if (sup_ask_now(&s->progress.rows_question, link,
			RECORD("watch", F_REAL("every", s->options.row_seconds)), progress_on_row,
			NULL, s) != 0)
		sup_fail(s, ERROR_OS, "out of memory"); /* no other reason: it is up */
}

/* ---- the monitor ---- */

static const char *const own_info[] = {"samples-left",   "rate",           "backup-workers",
				       "restart-worker", "restart-server", "restart-all",    "sync"};

/* Whether this is info that we know better than any sender. */
static int progress_is_ours(const struct record *r)
{
	const char *name = record_is(r, "info") ? record_get(r, "name") : NULL;
	for (size_t i = 0; name && i < sizeof own_info / sizeof *own_info; i++)
		if (strcmp(name, own_info[i]) == 0)
			return 1;
	return 0;
}

static void progress_append(struct sup_snapshot *p, struct record_out *o)
{
	size_t len = record_end(o, NULL);
	if (p->bytes + len > SNAPSHOT_BYTES_MAX) {
		p->is_wrong = 1;
		error_set(&p->wrong, ERROR_DATA, NULL, "a snapshot of more than %u bytes",
			  SNAPSHOT_BYTES_MAX);
	} else if (GROW(p->text, p->room, p->bytes + len + 1) != 0) {
		p->is_wrong = 1;
		error_set(&p->wrong, ERROR_OS, NULL, "out of memory");
	} else {
		memcpy(p->text + p->bytes, o->data, len + 1);
		p->bytes += len;
	}
}

/* A record of the monitor's snapshot. The supervisor adds how long each node has been silent. */
static void progress_on_snapshot(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	struct sup_snapshot *p = &s->progress.snapshot;
	const char *id = record_is(r, "node") ? record_get(r, "id") : NULL;
	struct sup_node *n = id ? sup_find(s, id) : NULL;
	if (p->is_wrong || p->is_old || progress_is_ours(r) || (n && sup_node_is_spare(n)))
		return;
	struct record_out *o = RECORD_BARE(r->type);
	record_add_fields(o, r, n ? "silent" : NULL);
	if (n && sup_watch_section(n)[0])
		record_add_seconds(o, "silent", n->watch.pulse.silent);
	progress_append(p, o);
	p->is_wrong |= snapshot_add(&p->filling, r, &p->wrong) != 0;
	if (!n || p->filling.node_count == 0)
		return;
	struct snapshot_node *last = &p->filling.node[p->filling.node_count - 1];
	if (strcmp(last->id, n->id) != 0)
		return;
	last->silent = sup_watch_section(n)[0] ? n->watch.pulse.silent : NAN;
	n->measured_at = p->filling.node_count - 1;
}

static void on_snapshot_end(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	struct sup_snapshot *p = &s->progress.snapshot;
	if (!sup_answer_ok(r) || p->bytes == 0)
		return;
	if (!p->is_wrong) {
		struct snapshot old = p->now;
		p->now = p->filling;
		p->filling = old;
	}
	sup_series(s);
	sup_decide(s);
	sup_brain(s);
}

void sup_snapshot_is_old(struct supervisor *s)
{
	struct sup_snapshot *p = &s->progress.snapshot;
	if (!p->question.open)
		return;
	p->is_old = 1;
	p->bytes = 0;
}

void sup_ask_snapshot(struct supervisor *s)
{
	struct sup_snapshot *p = &s->progress.snapshot;
	if (p->question.open)
		return;
	snapshot_clear(&p->filling);
	p->bytes = 0;
	p->is_wrong = p->is_old = 0;
	sup_ask(&p->question, &sup_monitor(s)->link, RECORD_BARE("snapshot"), progress_on_snapshot,
		on_snapshot_end, s);
}

const struct snapshot_node *sup_measured(const struct sup_node *n)
{
	const struct snapshot *now = &n->sup->progress.snapshot.now;
	size_t at = n->measured_at;
	if (at < now->node_count && strcmp(now->node[at].id, n->id) == 0)
		return &now->node[at];
	/* measured_at may be its place in the next snapshot, which is on its way. */
	for (at = 0; at < now->node_count; at++)
		if (strcmp(now->node[at].id, n->id) == 0)
			return &now->node[at];
	return NULL;
}

void sup_snapshot_info(struct supervisor *s, const char *name, const char *value)
{
	struct sup_snapshot *p = &s->progress.snapshot;
	struct record r;
	if (p->is_wrong)
		return;
	struct record_out *o = RECORD("info", F("name", name), F("value", value), F("age", "0"));
	progress_append(p, o);
	p->is_wrong |= record_first(&r, o->data, o->len, &p->wrong) != 0 ||
		       snapshot_add(&p->now, &r, &p->wrong) != 0;
}

/* ---- members ---- */

static void progress_on_member(const struct record *r, void *owner)
{
	const char *state = record_get(r, "state");
	struct sup_node *n = sup_find_of(owner, sup_trainers(owner), record_get(r, "worker"));
	uint64_t samples = 0;
	record_u64_opt(r, "samples", 0, UINT64_MAX, &samples, NULL);
	if (n && samples > 0)
		n->sup->progress.members_trained = 1;
	if (n && state && strcmp(state, "active") == 0)
		n->member_at = n->sup->progress.members_at;
	/* A trainer that has done all there was is ready, too: it still has to save. */
	if (n && n->stage == STAGE_STARTING && state &&
	    (strcmp(state, "active") == 0 || (sup_goes_back(n) && strcmp(state, "ended") == 0)))
		sup_node_answers(n, 0);
}

static void progress_on_members(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	if (sup_answer_ok(r))
		s->progress.members_heard = s->progress.members_at;
	sup_kick(s);
}

/* The answer has a record for each member: so the pause grows with their number. */
static double members_pause(const struct supervisor *s)
{
	return READY_SECONDS * (1 + (double)sup_count(s, sup_trainers(s)) / MEMBERS_UNHURT);
}

int sup_is_member(const struct sup_node *n)
{
	double asked = n->sup->progress.members_at;
	return asked > 0 && n->member_at >= asked && clock_mono() - asked < 2 * members_pause(n->sup);
}

void sup_ask_members(struct supervisor *s)
{
	double now = clock_mono(), pause = members_pause(s);
	if (!sup_lead(s))
		return; /* the watchdog sees them */
	sup_kick_after(s, pause);
	if (now - s->progress.members_at < 0.9 * pause || s->progress.members_question.open)
		return;
	s->progress.members_at = now;
	s->progress.members_trained = 0;
	sup_ask(&s->progress.members_question, &sup_lead(s)->link, RECORD_BARE("members"),
		progress_on_member, progress_on_members, s);
}

int sup_members_heard(struct supervisor *s)
{
	if (!sup_lead(s) || !sup_link_up(&sup_lead(s)->link) ||
	    s->progress.members_heard >= s->phases.entered)
		return 1;
	sup_ask_members(s);
	return 0;
}

/* ---- beginning, tick, end ---- */

void sup_progress_init(struct supervisor *s)
{
	struct sup_progress *p = &s->progress;
	p->row.rate = p->row.loss = p->row.ratio = NAN;
	p->stat.first_at = p->stat.last_at = NAN;
	snapshot_init(&p->snapshot.now);
	snapshot_init(&p->snapshot.filling);
}

void sup_progress_free(struct supervisor *s)
{
	snapshot_clear(&s->progress.snapshot.now);
	snapshot_clear(&s->progress.snapshot.filling);
	free(s->progress.snapshot.text);
}

/* Without iterations there is no lead that sends rows: they are made here. */
static void make_row(struct supervisor *s)
{
	struct run_row *row = &s->progress.row;
	double now = clock_mono();
	if (sup_lead(s) || s->phases.now != PHASE_RUNNING || s->progress.row_waits ||
	    now - s->progress.row_at < s->options.row_seconds)
		return;
	s->progress.row_at = now;
	row->rate = sup_rate(s);
	row->iteration = s->progress.stat.shards_done;
	row->members = 0;
	EACH_OF (n, s, sup_trainers(s))
		row->members += n->stage == STAGE_READY;
	s->progress.row_waits = 1;
	if (stat_again(s) != 0)
		progress_show_row(s);
}

void sup_progress_end(struct supervisor *s)
{
	const struct sup_progress *p = &s->progress;
	if (job_kind(s->job)->holds != HOLD_TRAINERS || p->row.iteration == 0 || !isnan(p->row.loss))
		return;
	if (p->loss_until > 0)
		sup_note(s, "warning",
			 "no loss since iteration %llu: the trainers reported none, or none that "
			 "is a number",
			 (unsigned long long)p->loss_until);
	else
		sup_note(s, "warning",
			 "no loss at all: the trainers reported none, or none that is a number");
}

void sup_progress_tick(struct supervisor *s)
{
	sup_ask_stat(s);
	make_row(s);
	if (s->progress.ticks++ % SNAPSHOT_TICKS == 0 || sup_series_due(s))
		sup_ask_snapshot(s); /* not at each tick: it has a record for each node */
	sup_network_tick(s);
	fill_row(s);
	if (s->options.tick)
		s->options.tick(&s->progress.row, s->options.arg);
}

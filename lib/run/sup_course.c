/*
 * sup_course: how the job goes: what shardd, the lead and the monitor say, gathered into rows, and
 * whether all samples are in the model.  It only asks; nothing here changes a daemon's state.
 */
#include "run/show.h"
#include "run/sup.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SNAPSHOT_TICKS 4  /* between two looks at the monitor */
#define WAIT_SECONDS 30.0 /* `stat wait=`: asked again after this long */

/* ---- shardd ---- */

static void note_rate(struct supervisor *s)
{
	struct sup_rate *rate = &s->rate;
	if (rate->count > 0 && s->stat.samples_done < rate->point[rate->count - 1].samples)
		rate->count = 0; /* rolled back */
	if (rate->count == SUP_RATE_POINTS)
		memmove(rate->point, rate->point + 1, --rate->count * sizeof *rate->point);
	rate->point[rate->count].at = clock_mono();
	rate->point[rate->count++].samples = s->stat.samples_done;
}

double sup_rate(const struct supervisor *s)
{
	const struct sup_rate *rate = &s->rate;
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
	} counts[] = {{"epoch", &stat.epoch},
		      {"epochs", &stat.epochs},
		      {"todo", &stat.todo},
		      {"doing", &stat.doing},
		      {"done", &stat.done},
		      {"held", &stat.held},
		      {"shards", &stat.shards},
		      {"shards-done", &stat.shards_done},
		      {"samples-done", &stat.samples_done},
		      {"samples-repeated", &stat.samples_repeated},
		      {"incarnation", &stat.incarnation}};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		record_u64_opt(r, counts[i].key, 0, UINT64_MAX, counts[i].at, NULL);
	record_real_opt(r, "first-at", 0, 1e300, &stat.first_at, NULL);
	record_real_opt(r, "last-at", 0, 1e300, &stat.last_at, NULL);
	s->stat = stat;
	note_rate(s);
}

static void show_row(struct supervisor *s);

static void on_stat(const struct record *r, int closing, const void *payload, size_t bytes,
		    void *arg)
{
	struct supervisor *s = arg;
	(void)payload;
	(void)bytes;
	if (closing) {
		s->stat_asked = 0;
		if (s->row_waits)
			show_row(s);
		sup_kick(s);
	} else if (record_is(r, "stat"))
		take_stat(s, r);
}

void sup_ask_stat(struct supervisor *s)
{
	char line[64];
	struct record_out o;
	if (s->stat_asked)
		return;
	record_begin(&o, line, sizeof line, "stat");
	if (sup_link_send(&s->shardd->link, &o, NULL, 0, on_stat, s) == 0)
		s->stat_asked = 1;
}

static int nothing_left(const struct sup_stat *stat)
{
	return stat->known && stat->todo == 0 && stat->doing == 0; /* in any epoch */
}

static void on_wait(const struct record *r, int closing, const void *payload, size_t bytes,
		    void *arg)
{
	struct supervisor *s = arg;
	(void)payload;
	(void)bytes;
	if (!closing) {
		if (record_is(r, "stat"))
			take_stat(s, r);
		return;
	}
	s->wait_pending = 0;
	if (r && record_is(r, "ok") && s->phase == PHASE_RUNNING)
		s->all_done = nothing_left(&s->stat);
	sup_kick(s);
}

/* Asks to be told when there is nothing left to hand out and nothing in anybody's hands. */
void sup_wait_done(struct supervisor *s)
{
	char line[64];
	struct record_out o;
	if (s->wait_pending || s->all_done)
		return;
	record_begin(&o, line, sizeof line, "stat");
	record_add_real(&o, "wait", WAIT_SECONDS);
	if (sup_link_send(&s->shardd_wait, &o, NULL, 0, on_wait, s) == 0)
		s->wait_pending = 1;
}

/* ---- the end's numbers ---- */

static void on_held(const struct record *r, int closing, const void *payload, size_t bytes,
		    void *arg)
{
	struct supervisor *s = arg;
	(void)payload;
	(void)bytes;
	if (!closing) {
		const char *id = record_get(r, "id");
		size_t at = strlen(s->held);
		if (id && at + strlen(id) + 2 < sizeof s->held)
			snprintf(s->held + at, sizeof s->held - at, "%s%s", at ? "," : "", id);
		return;
	}
	s->last_asked = 0;
	s->last_known = r && record_is(r, "ok");
	sup_kick(s);
}

/* stat, and the names of held shards: both on one connection, so answered in this order. */
void sup_ask_last(struct supervisor *s)
{
	char line[64];
	struct record_out o;
	if (s->last_asked)
		return;
	s->held[0] = '\0';
	s->stat_asked = 0;
	sup_ask_stat(s);
	record_begin(&o, line, sizeof line, "list");
	record_add(&o, "state", "held");
	if (sup_link_send(&s->shardd->link, &o, NULL, 0, on_held, s) == 0)
		s->last_asked = 1;
}

/* ---- rows ---- */

/* Who holds the others up: the greatest mean time of a batch in the short window. */
static void find_slowest(struct supervisor *s)
{
	s->row.slowest[0] = '\0';
	s->row.ratio = NAN;
	for (size_t i = 0; i < s->snapshot.node_count; i++) {
		const struct snapshot_node *n = &s->snapshot.node[i];
		if (n->role != NODE_WORKER || n->state != NODE_UP || isnan(n->ratio_short))
			continue;
		if (isnan(s->row.ratio) || n->ratio_short > s->row.ratio) {
			s->row.ratio = n->ratio_short;
			snprintf(s->row.slowest, sizeof s->row.slowest, "%s", n->id);
		}
	}
}

static void fill_row(struct supervisor *s)
{
	struct run_row *row = &s->row;
	row->epochs = s->job->epochs;
	row->samples = s->stat.samples_done;
	row->epoch = s->stat.epoch + 1 < row->epochs ? s->stat.epoch + 1 : row->epochs;
	row->total = s->options.samples * s->job->epochs;
	row->time = clock_mono() - s->started;
	row->left = NAN;
	if (row->rate > 0 && row->total >= row->samples)
		row->left = (double)(row->total - row->samples) / row->rate;
	find_slowest(s);
}

static void log_row(struct supervisor *s, const struct run_row *row)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "row");
	show_fields(&o, row);
	record_add_u64(&o, "members", row->members);
	sup_log(s, &o);
}

/* Samples are shardd's count: the lead's begins again with each of its lives. */
static void show_row(struct supervisor *s)
{
	s->row_waits = 0;
	fill_row(s);
	log_row(s, &s->row);
	if (s->options.row)
		s->options.row(&s->row, s->options.arg);
	sup_answer_watchers(s, &s->row);
}

static void take_row(struct supervisor *s, const struct record *r)
{
	uint64_t samples = 0;
	double at = 0;
	if (s->row_waits) /* shardd is slow, or away: with the count of before */
		show_row(s);
	s->row.loss = NAN;
	record_u64_opt(r, "iteration", 0, UINT64_MAX, &s->row.iteration, NULL);
	record_real_opt(r, "loss", -1e300, 1e300, &s->row.loss, NULL);
	record_u64_opt(r, "samples", 0, UINT64_MAX, &samples, NULL);
	record_u64_opt(r, "members", 0, UINT64_MAX, &s->row.members, NULL);
	record_real_opt(r, "at", 0, 1e300, &at, NULL);
	if (s->row_at > 0 && at > s->row_at && samples > s->row_samples)
		s->row.rate = (double)(samples - s->row_samples) / (at - s->row_at);
	s->row_at = at;
	s->row_samples = samples;
	s->row_waits = 1;
	s->stat_asked = 0; /* one that is under way may have been answered before this row */
	sup_ask_stat(s);
}

/* Where several are as slow the lead warns of one after the other, again and again: once a process
 * of each is enough. */
static void take_warning(struct supervisor *s, const struct record *r)
{
	const char *id = record_get(r, "id");
	struct sup_node *n = id ? sup_node_find(s, id) : NULL;
	if (n && n->warned != n->lives)
		sup_note(s, "warning", "%s: the job is faster without it", n->id);
	if (n)
		n->warned = n->lives;
}

static void on_row(const struct record *r, int closing, const void *payload, size_t bytes,
		   void *arg)
{
	(void)payload;
	(void)bytes;
	if (!closing && record_is(r, "row"))
		take_row(arg, r);
	else if (!closing && record_is(r, "warn"))
		take_warning(arg, r);
}

void sup_watch_up(struct link *link, const struct record *greeting)
{
	struct supervisor *s = link->sup;
	char line[64];
	struct record_out o;
	(void)greeting;
	s->row_at = 0; /* a lead that was rolled back counts from its cut */
	record_begin(&o, line, sizeof line, "watch");
	record_add_real(&o, "every", s->options.row_seconds);
	sup_link_send(link, &o, NULL, 0, on_row, s);
}

/* ---- the monitor ---- */

static void on_snapshot(const struct record *r, int closing, const void *payload, size_t bytes,
			void *arg)
{
	struct supervisor *s = arg;
	struct error err;
	(void)payload;
	(void)bytes;
	if (!closing) {
		s->snapshot_bad |= snapshot_add(&s->filling, r, &err) != 0;
		return;
	}
	s->tick_snapshot = 0;
	if (r && record_is(r, "ok") && !s->snapshot_bad) {
		struct snapshot old = s->snapshot;
		s->snapshot = s->filling;
		s->filling = old;
	}
	snapshot_clear(&s->filling);
}

static void ask_snapshot(struct supervisor *s)
{
	char line[64];
	struct record_out o;
	if (s->tick_snapshot)
		return;
	snapshot_clear(&s->filling);
	s->snapshot_bad = 0;
	record_begin(&o, line, sizeof line, "snapshot");
	if (sup_link_send(&s->monitor->link, &o, NULL, 0, on_snapshot, s) == 0)
		s->tick_snapshot = 1;
}

/* A worker is ready when the lead has it as a member: it has no socket to be asked on. */
static void on_member(const struct record *r, int closing, const void *payload, size_t bytes,
		      void *arg)
{
	struct supervisor *s = arg;
	(void)payload;
	(void)bytes;
	if (closing) {
		s->tick_members = 0;
		return;
	}
	const char *id = record_get(r, "worker"), *state = record_get(r, "state");
	struct sup_node *n = id ? sup_node_find(s, id) : NULL;
	if (n && n->role == ROLE_WORKER && n->stage == STAGE_STARTING && state &&
	    strcmp(state, "active") == 0)
		sup_node_event(n, EVENT_ANSWERS);
}

void sup_ask_members(struct supervisor *s)
{
	char line[64];
	struct record_out o;
	if (s->tick_members)
		return;
	record_begin(&o, line, sizeof line, "members");
	if (sup_link_send(&s->servers[0].link, &o, NULL, 0, on_member, s) == 0)
		s->tick_members = 1;
}

void sup_course_tick(struct supervisor *s)
{
	sup_acts_tick(s);
	sup_decide_first(s);
	sup_stray_tick(s);
	if (s->phase < PHASE_STOPPING) {
		sup_ask_stat(s);
		if (s->ticks++ % SNAPSHOT_TICKS == 0)
			ask_snapshot(s); /* a record a node */
	}
	if (s->phase == PHASE_RUNNING && s->stat.known) {
		fill_row(s);
		if (s->options.tick)
			s->options.tick(&s->row, s->options.arg);
	}
}

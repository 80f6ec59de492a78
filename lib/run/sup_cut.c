/*
 * sup_cut: checkpoints: when, under which name, and how many are kept.  The lead makes them; a name
 * is never used twice (renaming over an old one is slow and would lose it half-way).
 */
#include "run/sup.h"

#include "base/clock.h"
#include "base/number.h"
#include "ckpt/ckpt.h"
#include "job/fresh.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define CUT_RETRY_SECONDS 1.0
#define CUT_FAILURES_MAX 30 /* in a row, where the job can't go on without one */

static void directory(const struct supervisor *s, char *out)
{
	place_state(&s->place, "checkpoints", out);
}

int sup_cut_find(struct supervisor *s, struct error *err)
{
	char dir[PLACE_MAX];
	directory(s, dir);
	s->latest[0] = '\0';
	if (ckpt_latest(dir, s->latest, sizeof s->latest, err) == 0)
		return 0;
	s->latest[0] = '\0';
	return err->code == ERROR_NEGATIVE || err->code == ERROR_NOINPUT ? 0 : -1;
}

/* One above the greatest number there is, complete or not. */
static uint64_t next_number(const char *dir)
{
	uint64_t greatest = 0, number;
	DIR *d = opendir(dir);
	if (!d)
		return 1;
	for (struct dirent *e; (e = readdir(d));)
		if (number_u64_span(e->d_name, strlen(e->d_name), &number) == 0 &&
		    number > greatest)
			greatest = number;
	closedir(d);
	return greatest + 1;
}

static void pruned(const char *name, void *arg)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "pruned");
	record_add(&o, "checkpoint", name);
	sup_log(arg, &o);
}

static void prune(struct supervisor *s)
{
	char dir[PLACE_MAX];
	struct error err;
	/* What servers are to restore, and what is being scored. */
	const char *protect[3] = {NULL};
	size_t n = 0;
	if (s->intent)
		protect[n++] = s->cut;
	if (s->scorer)
		protect[n++] = s->score_of;
	directory(s, dir);
	if (ckpt_prune(dir, s->job->keep, protect, pruned, s, &err) != 0)
		sup_note(s, "warning", "old checkpoints can't be removed: %s: %s", err.place,
			 err.text);
}

/* From now on this run has a model of its own. */
static void forget_previous(struct supervisor *s)
{
	struct error err;
	if (s->cut_samples > 0 && fresh_forget(&s->place, &err) != 0)
		sup_note(s, "warning", "the run before can't be removed: %s: %s", err.place,
			 err.text);
}

static void succeeded(struct supervisor *s, const struct record *r)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	snprintf(s->latest, sizeof s->latest, "%s", s->making);
	s->cut_done = 1;
	s->cut_failures = 0;
	s->cut_at = clock_mono();
	uint64_t iteration = 0;
	record_u64_opt(r, "iteration", 0, UINT64_MAX, &iteration, NULL);
	if (iteration > s->cut_iteration) {
		s->cut_iteration = iteration;
		s->rollbacks = 0;
	}
	record_begin(&o, line, sizeof line, "checkpoint");
	record_add(&o, "path", s->latest);
	const char *const keys[] = {"iteration", "incarnation", "stall"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (record_get(r, keys[i]))
			record_add(&o, keys[i], record_get(r, keys[i]));
	sup_log(s, &o);
	sup_answer_checkpoints(s, 1);
	forget_previous(s);
	prune(s);
}

static void failed(struct supervisor *s, const struct record *r)
{
	const char *code = r ? record_get(r, "code") : "the lead's connection closed";
	s->cut_failures++;
	s->cut_again = clock_mono() + CUT_RETRY_SECONDS;
	s->cut_at = clock_mono();
	if (!r) /* rolled back, handed over, or the deadline: the phases see to it */
		return;
	sup_answer_checkpoints(s, 0);
	sup_note(s, "warning", "checkpoint %s failed: %s%s%s", s->making, code ? code : r->type,
		 r->text ? ": " : "", r->text ? r->text : "");
	if (s->cut_failures >= CUT_FAILURES_MAX && s->phase != PHASE_RUNNING)
		sup_fail(s, ERROR_IO, "no checkpoint after %u tries", s->cut_failures);
	sup_kick_after(s, CUT_RETRY_SECONDS);
}

static void on_cut(const struct record *r, int closing, const void *payload, size_t bytes,
		   void *arg)
{
	struct supervisor *s = arg;
	(void)payload;
	(void)bytes;
	if (!closing)
		return;
	s->cut_pending = 0;
	if (r && record_is(r, "ok"))
		succeeded(s, r);
	else
		failed(s, r);
	sup_kick(s);
}

void sup_cut_start(struct supervisor *s)
{
	char dir[PLACE_MAX], line[RECORD_LINE_MAX];
	struct record_out o;
	/* A part that is handing over would not answer. */
	if (s->cut_pending || clock_mono() < s->cut_again || sup_heir_any(s))
		return;
	directory(s, dir);
	snprintf(s->making, sizeof s->making, "%.3900s/%06llu", dir,
		 (unsigned long long)next_number(dir));
	record_begin(&o, line, sizeof line, "cut");
	record_add(&o, "path", s->making);
	s->cut_done = 0;
	s->cut_samples = s->stat.samples_done; /* so many at least will be in it */
	if (sup_link_send(&s->lead_cut, &o, NULL, 0, on_cut, s) == 0)
		s->cut_pending = 1;
}

void sup_cut_periodic(struct supervisor *s)
{
	double every = s->job->checkpoint_every;
	int due = every > 0 && clock_mono() - s->cut_at >= every;
	if (due || s->checkpoint_waiters)
		sup_cut_start(s);
}

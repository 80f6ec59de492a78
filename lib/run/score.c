/* score: see score.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "job/spent.h"
#include "proc/child.h"
#include "proc/process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Through a file, not a pipe: sh tells the status of a pipe's last program only, and half a
 * prediction must not become a score. */
static const char script[] =
	"p=$1 a=$2 c=$3 t=$4 b=$5 l=$6 d=$7; shift 7; true >\"$t\" || exit 73; "
	"case $l in class) o='--probabilities label' ;; *) o= ;; esac; "
	"for f; do \"$p\" -c \"$c\" --bad-rows \"$b\" --device \"$d\" $o \"$f\" >>\"$t\" || exit; done; "
	"\"$a\" --labels \"$l\" <\"$t\"; e=$?; rm -f \"$t\"; exit $e";

/* Which of them a model has: the first one says whether it became better. */
static void wanted_scores(const struct job *job, enum score wanted[2])
{
	unsigned labels = job_labels(job);
	wanted[0] = job_has_documents(job)  ? SCORE_LOG_LOSS
		    : labels == MODEL_CLASS ? SCORE_ACCURACY
		    : labels == MODEL_REAL  ? SCORE_RMSE
					    : SCORE_AUC;
	wanted[1] = labels == MODEL_REAL ? SCORE_MAE : SCORE_LOG_LOSS;
}

static void log_score(struct supervisor *s)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "score");
	record_add(&o, "checkpoint", s->score.scored);
	scores_put(&o, s->score.value);
	sup_log(s, &o);
}

static void say_score(const struct supervisor *s)
{
	char text[200];
	scores_text(s->score.value, text, sizeof text);
	log_say(LOG_LEVEL_INFO, "%s of %s", text, s->score.scored);
}

static int take_scores(struct supervisor *s, const char *output)
{
	struct record_walk walk = record_walk(output, strlen(output));
	struct record r;
	enum score wanted[2];
	double all[SCORES];
	int got;
	wanted_scores(s->job, wanted);
	while ((got = record_next(&walk, &r, NULL)) != RECORD_END) {
		if (got != RECORD_ONE || !record_is(&r, "auc"))
			continue;
		scores_take(&r, all);
		for (size_t i = 0; i < 2; i++)
			s->score.value[wanted[i]] = all[wanted[i]];
		if (!isnan(all[wanted[0]]) && !isnan(all[wanted[1]]))
			return 0;
	}
	return -1;
}

/* EVAL patience: so many scores in a row without a better one. */
static void score_judge(struct supervisor *s)
{
	enum score wanted[2];
	wanted_scores(s->job, wanted);
	double now = s->score.value[wanted[0]], more = now - s->score.best;
	if (isnan(s->score.best) || (score_names[wanted[0]].rises ? more > 0 : more < 0)) {
		s->score.best = now;
		s->score.without_gain = 0;
		return;
	}
	s->score.without_gain++;
	if (s->job->patience > 0 && s->score.without_gain >= s->job->patience)
		sup_finish_by(s, SPENT_PATIENCE, "EVAL patience: no better score any more");
}

/* A scoring that was under way when the job ended may be of an older checkpoint: then the last one
 * is scored, too. */
static int is_last(const struct supervisor *s)
{
	return s->phases.now == PHASE_SCORING && strcmp(s->score.scored, s->checkpoint.latest) == 0;
}

/* At the end the job has a model, but no score: the next run scores it again. */
static void score_failed(struct supervisor *s, int status, const char *why)
{
	scores_none(s->score.value);
	if (is_last(s))
		s->score.status = status ? status : ERROR_SOFTWARE;
	sup_note(s, "warning", "scoring TEST with %s failed: %s", s->score.scored, why);
}

static void on_scored(const struct child_end *e, void *arg)
{
	struct supervisor *s = arg;
	char text[CHILD_WHY_MAX];
	s->score.child = NULL;
	if (child_failure(e, text))
		score_failed(s, e->cut == CHILD_WHOLE ? end_status(&e->end) : ERROR_TEMPFAIL, text);
	else if (take_scores(s, e->output) != 0)
		score_failed(s, ERROR_DATA,
			     job_has_documents(s->job)
				     ? "TEST has no document of two words or more"
			     : job_labels(s->job) == MODEL_BINARY
				     ? "TEST has no AUC: it needs rows of both classes"
				     : "TEST has no score: its weights are 0");
	else {
		log_score(s);
		if (s->phases.now == PHASE_RUNNING) {
			say_score(s);
			score_judge(s);
		}
	}
	if (is_last(s))
		s->score.done = 1;
	sup_kick(s);
}

void sup_score_start(struct supervisor *s, const char *checkpoint, int last)
{
	char predict[DIRS_PATH_MAX], auc[DIRS_PATH_MAX], temporary[DIRS_PATH_MAX];
	struct error err;
	if (s->score.child)
		return;
	s->score.done = last; /* so that a failure to start does not hold the end up */
	scores_none(s->score.value);
	s->score.at = clock_mono();
	struct argv argv = {0};
	snprintf(s->score.scored, sizeof s->score.scored, "%s", checkpoint);
	if (process_find("predict", s->options.search_path, predict, sizeof predict, &err) != 0 ||
	    process_find("auc", s->options.search_path, auc, sizeof auc, &err) != 0) {
		score_failed(s, err.code, err.text);
		return;
	}
	dirs_state(&s->dirs, "scores.tmp", temporary);
	argv_add(&argv, "/bin/sh", "-c", script, "score", predict, auc, s->score.scored, temporary,
		 s->job->bad_rows, job_labels_word(s->job),
		 /* this machine need not have one, and the model is there */
		 model_device_is_card(s->job->device) ? "auto" : "cpu");
	for (size_t i = 0; i < s->job->test.count; i++)
		argv_add(&argv, s->job->test.item[i]);
	const struct child_options options = {
		.seconds = deadline_seconds(DEADLINE_SCORE), .done = on_scored, .arg = s};
	if (child_ask(&s->score.child, s->base, &argv, options, &err) == 0)
		s->score.done = 0;
	else
		score_failed(s, err.code, err.text);
}

/* A score needs a checkpoint of now: one is made, and the next turn scores it. */
void sup_score_periodic(struct supervisor *s)
{
	double every = s->job->eval_every, now = clock_mono();
	if (every <= 0 || s->score.child || now - s->score.at < every)
		return;
	if (s->checkpoint.at <= s->score.at || strcmp(s->score.scored, s->checkpoint.latest) == 0)
		sup_checkpoint_make(s);
	else
		sup_score_start(s, s->checkpoint.latest, 0);
}

void sup_score_stop(struct supervisor *s)
{
	child_free(s->score.child);
	s->score.child = NULL;
}

void sup_score_init(struct supervisor *s)
{
	scores_none(s->score.value);
	s->score.best = NAN;
	s->score.at = clock_mono();
}

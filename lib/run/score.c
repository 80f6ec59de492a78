/* score: see score.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "job/spent.h"
#include "proc/child.h"
#include "proc/process.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void score_forget(struct supervisor *s)
{
	if (s->score.file > 0)
		close(s->score.file);
	s->score.file = 0;
}

static void score_over(struct supervisor *s)
{
	score_forget(s);
	if (is_last(s))
		s->score.done = 1;
	sup_kick(s);
}

/* At the end the job has a model, but no score: the next run scores it again. */
static void score_failed(struct supervisor *s, int status, const char *why)
{
	scores_none(s->score.value);
	if (is_last(s))
		s->score.status = status ? status : ERROR_SOFTWARE;
	sup_note(s, "warning", "scoring TEST with %s failed: %s", s->score.scored, why);
}

/* Whether one of the two has failed; then that is known. */
static int score_refused(struct supervisor *s, const struct child_end *e)
{
	char text[CHILD_WHY_MAX];
	s->score.child = NULL;
	if (!child_failure(e, text))
		return 0;
	score_failed(s, e->cut == CHILD_WHOLE ? end_status(&e->end) : ERROR_TEMPFAIL, text);
	return 1;
}

static void on_scored(const struct child_end *e, void *arg)
{
	struct supervisor *s = arg;
	if (score_refused(s, e))
		;
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
	score_over(s);
}

static int score_find(const struct supervisor *s, const char *program, struct argv *argv, struct error *err)
{
	char path[DIRS_PATH_MAX];
	if (process_find(program, s->options.search_path, path, sizeof path, err) != 0)
		return -1;
	argv_add(argv, path);
	return 0;
}

static int score_ask(struct supervisor *s, struct argv *argv, struct child_options options, struct error *err)
{
	options.seconds = deadline_seconds(DEADLINE_SCORE);
	options.arg = s;
	return child_ask(&s->score.child, s->base, argv, options, err);
}

static int score_compare(struct supervisor *s, struct error *err)
{
	struct argv argv = {0};
	if (score_find(s, "auc", &argv, err) != 0)
		return -1;
	argv_add(&argv, "--labels", job_labels_word(s->job));
	lseek(s->score.file, 0, SEEK_SET);
	return score_ask(s, &argv, (struct child_options){.input_file = s->score.file, .done = on_scored}, err);
}

/* Half a prediction must not become a score: so not by a pipe. */
static void on_predicted(const struct child_end *e, void *arg)
{
	struct supervisor *s = arg;
	struct error err;
	int failed = score_refused(s, e);
	if (!failed && score_compare(s, &err) != 0) {
		score_failed(s, err.code, err.text);
		failed = 1;
	}
	if (failed)
		score_over(s);
}

static int score_begin(struct supervisor *s, struct error *err)
{
	char temporary[DIRS_PATH_MAX];
	struct argv argv = {0};
	dirs_state(&s->dirs, "scores.tmp", temporary);
	s->score.file = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (s->score.file < 0 || unlink(temporary) != 0)
		return error_errno(err, ERROR_CANTCREAT, temporary, "can't be made");
	if (score_find(s, "predict", &argv, err) != 0)
		return -1;
	argv_add(&argv, "-c", s->score.scored, "--bad-rows", s->job->bad_rows,
		 /* this machine need not have one, and the model is there */
		 "--device", model_device_is_card(s->job->device) ? "auto" : "cpu");
	if (job_labels(s->job) == MODEL_CLASS)
		argv_add(&argv, "--probabilities", "label");
	argv_add(&argv, "--");
	for (size_t i = 0; i < s->job->test.count; i++)
		argv_add(&argv, s->job->test.item[i]);
	return score_ask(s, &argv, (struct child_options){.output_file = s->score.file, .done = on_predicted}, err);
}

void sup_score_start(struct supervisor *s, const char *checkpoint, int last)
{
	struct error err;
	if (s->score.child)
		return;
	s->score.done = last; /* so that a failure to start does not hold the end up */
	scores_none(s->score.value);
	s->score.at = clock_mono();
	snprintf(s->score.scored, sizeof s->score.scored, "%s", checkpoint);
	if (score_begin(s, &err) == 0) {
		s->score.done = 0;
		return;
	}
	score_forget(s);
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
	score_forget(s);
}

void sup_score_init(struct supervisor *s)
{
	scores_none(s->score.value);
	s->score.best = NAN;
	s->score.at = clock_mono();
}

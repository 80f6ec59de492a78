/*
 * speed-predict(1): how fast each worker will be in the next iteration. A filter: an observation in,
 * a prediction out, which knows nothing of the speed on its own line.
 */
#include "cmd/filter.h"
#include "cmd/speed-predict.h"

#include "record/record.h"

#include <math.h>
#include <unistd.h>

/* The start of a worker that the file does not have: the file's model that has learnt from most
 * lines; NULL: there is none. */
static const struct predictor *teacher(const struct table *t)
{
	const struct worker *best = NULL;
	for (size_t i = 0; i < t->count; i++)
		if (t->row[i]->samples > (best ? best->samples : 0))
			best = t->row[i];
	if (!best)
		return NULL;
	return best->loaded ? best->loaded : best->predictor;
}

static int worker_new(struct job *job, const char *id, struct worker **out, struct error *err)
{
	size_t number;
	const struct predictor *from = teacher(&job->now);
	if (table_add(&job->now, id, out, err) != 0 ||
	    (job->now.group && predict_group_add(job->now.group, &number, err) != 0))
		return -1;
	if (from)
		return predictor_reuse(&(*out)->predictor, from, err);
	return predictor_new(&(*out)->predictor, &job->config, err);
}

/* A worker of the file whose next line is not the expected one: keep what its model has learnt. */
static int speed_predict_begin_anew(struct job *job, struct worker *w, struct error *err)
{
	w->loaded = w->predictor;
	w->predictor = NULL;
	if (job->now.group)
		predict_group_renew(job->now.group, w->number);
	return predictor_reuse(&w->predictor, w->loaded, err);
}

/* A worker's first line in this run. w: the file's worker, which goes on if its next k comes; or
 * NULL. */
static int speed_predict_meet(struct job *job, struct worker *w, const char *id, uint64_t k,
			      struct worker **out, struct error *err)
{
	int result = 0, goes_on = w && w->k + 1 == k;
	if (!job->came_first && !goes_on && job->now.group) { /* the round numbers have changed */
		predict_group_close(job->now.group);
		job->now.round = k;
	}
	*out = w;
	if (!w)
		result = worker_new(job, id, out, err);
	else if (!goes_on)
		result = speed_predict_begin_anew(job, w, err);
	if (result != 0)
		return -1;
	(*out)->came = 1;
	*(job->came_last ? &job->came_last->came_next : &job->came_first) = *out;
	job->came_last = *out;
	return 0;
}

/* ---- observations ---- */
struct obs {
	const char *id;
	uint64_t k;
	double cpu, mem, speed; /* NAN: not said */
};

static int parse_obs(const struct record *r, struct obs *o, struct error *err)
{
	*o = (struct obs){.cpu = NAN, .mem = NAN, .speed = NAN};
	if (record_id(r, "id", &o->id, err) != 0 ||
	    record_u64(r, "k", 0, UINT64_MAX - 1, &o->k, err) != 0 ||
	    record_real_opt(r, "cpu", 0, 1, &o->cpu, err) != 0 ||
	    record_real_opt(r, "mem", 0, 1, &o->mem, err) != 0)
		return -1;
	return record_real_opt(r, "speed", PREDICT_SPEED_MIN, PREDICT_SPEED_MAX, &o->speed, err);
}

static int find_worker(struct job *job, const struct obs *o, struct worker **out, struct error *err)
{
	struct worker *w = *out = table_find(&job->now, o->id);
	if (!w || !w->came)
		return speed_predict_meet(job, w, o->id, o->k, out, err);
	if (o->k != w->k + 1)
		return error_set(err, ERROR_DATA, NULL, "k=%llu of id=%s after k=%llu: %s",
				 (unsigned long long)o->k, o->id, (unsigned long long)w->k,
				 o->k > w->k ? "lines are missing" : "k goes back");
	return 0;
}

static double predict(struct job *job, struct worker *w, const struct obs *o)
{
	struct predict_group *group = job->now.group;
	double said = predictor_predict(w->predictor, o->cpu, o->mem);
	if (!group)
		return said;
	if (o->k > job->now.round) {
		predict_group_close(group);
		job->now.round = o->k;
	}
	return predict_group_predict(group, w->number, said,
				     strcmp(job->loss, "max") == 0 ? PREDICT_LOSS_MAX
								   : PREDICT_LOSS_BOTH);
}

static void speed_predict_answer(const struct obs *o, double said)
{
	record_print(stdout, RECORD("pred", F("id", o->id), F("k", o->k), F_BRIEF("speed", said),
				    !isnan(o->speed) ? F_BRIEF("actual", o->speed) : F_NONE));
}

static int take_obs(const struct record *r, void *arg, struct error *err)
{
	struct job *job = arg;
	struct obs o;
	struct worker *w;
	if (parse_obs(r, &o, err) != 0 || find_worker(job, &o, &w, err) != 0)
		return -1;
	w->k = o.k;
	double said = predict(job, w, &o);
	speed_predict_answer(&o, said);
	if (isnan(o.speed))
		return 0;
	if (!isnan(said) && o.k >= job->score_from) {
		w->sum += (said - o.speed) * (said - o.speed);
		w->scored++;
	}
	predictor_observe(w->predictor, o.speed);
	if (job->now.group)
		predict_group_observe(job->now.group, w->number, o.speed);
	return 0;
}

static void speed_predict_print_scores(const struct job *job)
{
	for (const struct worker *w = job->came_first; w; w = w->came_next) {
		record_print(
			stdout,
			RECORD("score", F("id", w->id),
			       F_BRIEF("rmse", w->scored ? sqrt(w->sum / (double)w->scored) : NAN),
			       F("n", w->scored)));
	}
}

/* ---- options ---- */
static int parse_order(const char *text, struct predict_config *c, struct error *err)
{
	unsigned p, d, q;
	char rest;
	if (strcmp(text, "aic") == 0) {
		c->by_aic = 1;
		return 0;
	}
	if (strspn(text, "0123456789,") != strlen(text) ||
	    sscanf(text, "%1u,%1u,%1u%c", &p, &d, &q, &rest) != 3 || p > PREDICT_ORDER_MAX ||
	    d > 2 || q > PREDICT_ORDER_MAX || p + q == 0)
		return error_set(err, ERROR_USAGE, "--order",
				 "'%.40s' is neither aic nor P,D,Q with P and Q from 0 to %d, not "
				 "both 0, and D from 0 to 2",
				 text, PREDICT_ORDER_MAX);
	c->p = p;
	c->d = d;
	c->q = q;
	return 0;
}

static int speed_predict_run(struct job *job, const char *load, const char *save, int strict,
			     struct error *err)
{
	if (save && !save[0])
		return error_set(err, ERROR_USAGE, "--save", "no name of a file");
	if (load && file_load(job, load, err) != 0)
		return -1;
	if (job->grouped && !job->now.group && predict_group_new(&job->now.group, err) != 0)
		return -1;
	if (filter_read(PROGRAM, strict, "obs", take_obs, job, err) != 0)
		return -1;
	speed_predict_print_scores(job);
	if (fflush(stdout) != 0 || !save)
		return 0; /* a failed write is reported at the end */
	return file_save(job, save, err);
}

int main(int argc, char **argv)
{
	struct job job = {.loss = "both"};
	struct predict_config *c = &job.config;
	const char *model = "mix", *order = "2,2,1", *load = NULL, *save = NULL;
	int strict = 0, loss_seen = 0;
	uint64_t window;
	predict_config_init(c, PREDICT_MIX);
	window = c->window;
	const struct option_row rows[] = {
		{.name = "model", .letter = 'm', .kind = OPTION_CHOICE, .target = &model,
		 .arg = "MODEL", .help = "how to predict (mix)",
		 .choices = PREDICT_CHOICES},
		{.name = "loss", .kind = OPTION_CHOICE, .target = &job.loss, .arg = "LOSS",
		 .help = "mix: which error is to be small (both)", .choices = "rmse|both|max",
		 .seen = &loss_seen},
		{.name = "alpha", .kind = OPTION_REAL, .target = &c->alpha, .arg = "WEIGHT",
		 .help = "ema: weight of the newest speed", .min = 1e-9, .max = 1},
		{.name = "quantile", .kind = OPTION_REAL, .target = &c->quantile, .arg = "FRACTION",
		 .help = "quantile: which quantile of the times", .min = 0, .max = 1},
		{.name = "window", .kind = OPTION_COUNT, .target = &window, .arg = "LINES",
		 .help = "quantile: number of times it is taken over", .min = 1, .max = PREDICT_WINDOW_MAX},
		{.name = "order", .kind = OPTION_TEXT, .target = &order, .arg = "P,D,Q",
		 .help = "arima: its order, or aic (2,2,1)"},
		{.name = "warmup", .kind = OPTION_COUNT, .target = &c->warmup, .arg = "LINES",
		 .help = "rnn, lstm, narx: observations before; until then ema predicts", .max = 1e9},
		{.name = "load", .kind = OPTION_TEXT, .target = &load, .arg = "FILE",
		 .help = "continue with, or start from, saved models"},
		{.name = "save", .kind = OPTION_TEXT, .target = &save, .arg = "FILE",
		 .help = "write the models at the end of input"},
		{.name = "seed", .kind = OPTION_COUNT, .target = &c->seed, .arg = "N",
		 .help = "seed of the nets' random numbers", .max = 9e15},
		{.name = "score-from", .kind = OPTION_COUNT, .target = &job.score_from, .arg = "K",
		 .help = "first k that counts in the scores", .max = 9e15},
		{.name = "strict", .kind = OPTION_FLAG, .target = &strict,
		 .help = "unknown record types are errors"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "[-m MODEL] [--loss rmse|both|max] [--load FILE] [--save FILE] "
			    "< observations > predictions",
		.about = "Predicts the speed of each worker in the next iteration.",
		.rows = rows};
	struct error err = {0};
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	int parsed = parse_order(order, c, &err);
	if (parsed == 0 && loss_seen && strcmp(model, "mix") != 0 && strcmp(job.loss, "rmse") != 0)
		parsed = error_set(&err, ERROR_USAGE, "--loss", "%s is for -m mix only", job.loss);
	if (strcmp(model, "mix") != 0)
		job.loss = "rmse";
	job.grouped = strcmp(job.loss, "rmse") != 0;
	if (parsed != 0)
		return cmd_fail(PROGRAM, &err);
	predict_model_of(model, &c->model); /* a choice is a model */
	c->window = (size_t)window;
	cmd_confine(&(struct confine_ask){.read = {load}, .replace = {save}});
	int status = speed_predict_run(&job, load, save, strict, &err) == 0
			     ? 0
			     : cmd_fail(PROGRAM, &err);
	table_clear(&job.now);
	return cmd_end(PROGRAM, status);
}

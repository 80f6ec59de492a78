/*
 * speed-predict(1): how fast each worker will be in the next iteration. A filter: an observation in,
 * a prediction out, which knows nothing of the speed on its own line.
 */
#include "cmd/cmd.h"
#include "cmd/filter.h"

#include "base/fs.h"
#include "base/number.h"
#include "stats/predict_group.h"
#include "wire/record.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>
#include <uthash.h>

#define PROGRAM "speed-predict"

struct worker {
	char id[65];
	uint64_t k; /* of its last line */
	struct predictor *predictor;
	double sum; /* of squared errors, this run's */
	uint64_t scored;
	size_t number;
	UT_hash_handle hh;
};

struct table {
	struct worker **row;
	size_t count, room;
	struct worker *by_id;
	struct predict_group *group; /* NULL: not asked for */
	uint64_t round;              /* k of the newest line */
};

struct job {
	struct predict_config config;
	int max_loss;
	uint64_t score_from;
	struct table now, saved; /* saved: the models of an earlier run; empty without --load */
	int begun;
};

/* ---- workers ---- */
static void table_clear(struct table *t)
{
	HASH_CLEAR(hh, t->by_id);
	for (size_t i = 0; i < t->count; i++) {
		predictor_free(t->row[i]->predictor);
		free(t->row[i]);
	}
	free(t->row);
	predict_group_free(t->group);
	*t = (struct table){0};
}

static int table_add(struct table *t, const char *id, struct worker **out, struct error *err)
{
	if (t->count == PREDICT_GROUP_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d workers", PREDICT_GROUP_MAX);
	if (t->count == t->room) {
		size_t room = t->room ? 2 * t->room : 16;
		struct worker **row = reallocarray(t->row, room, sizeof *row);
		if (!row)
			return error_set(err, ERROR_OS, NULL, "no memory for %zu workers", room);
		t->row = row;
		t->room = room;
	}
	struct worker *w = calloc(1, sizeof *w);
	if (!w)
		return error_set(err, ERROR_OS, NULL, "no memory for a worker");
	snprintf(w->id, sizeof w->id, "%s", id);
	w->number = t->count;
	t->row[t->count++] = w;
	HASH_ADD_STR(t->by_id, id, w);
	*out = w;
	return 0;
}

static struct worker *table_find(const struct table *t, const char *id)
{
	struct worker *w;
	HASH_FIND_STR(t->by_id, id, w);
	return w;
}

/* The saved model that a worker unknown to the file starts from: of those that know most. */
static const struct worker *teacher(const struct table *saved, const char *id)
{
	const struct worker *best = table_find(saved, id);
	for (size_t i = 0; !best && i < saved->count; i++)
		if (predictor_count(saved->row[i]->predictor) > 0)
			best = saved->row[i];
	for (size_t i = 0; i < saved->count && best && strcmp(best->id, id) != 0; i++)
		if (predictor_count(saved->row[i]->predictor) >
		    predictor_count(best->predictor))
			best = saved->row[i];
	return best;
}

static int worker_new(struct job *job, const char *id, struct worker **out, struct error *err)
{
	size_t number;
	if (table_add(&job->now, id, out, err) != 0)
		return -1;
	const struct worker *from = teacher(&job->saved, id);
	if (job->now.group && predict_group_add(job->now.group, &number, err) != 0)
		return -1;
	if (from)
		return predictor_reuse(&(*out)->predictor, from->predictor, err);
	return predictor_new(&(*out)->predictor, &job->config, err);
}

/* With the first line it shows whether the saved run goes on or another one begins. */
static int begin(struct job *job, const char *id, uint64_t k, struct error *err)
{
	job->begun = 1;
	const struct worker *same = table_find(&job->saved, id);
	if (same && same->k + 1 == k) {
		job->now = job->saved;
		job->saved = (struct table){0};
		return 0;
	}
	if (!job->max_loss)
		return 0;
	if (job->saved.group)
		return predict_group_reuse(&job->now.group, job->saved.group, err);
	return predict_group_new(&job->now.group, err);
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
	if (!job->begun && begin(job, o->id, o->k, err) != 0)
		return -1;
	struct worker *w = *out = table_find(&job->now, o->id);
	if (!w)
		return worker_new(job, o->id, out, err);
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
	return predict_group_predict(group, w->number, said);
}

static void answer(const struct obs *o, double said)
{
	char line[RECORD_LINE_MAX];
	struct record_out out;
	record_begin(&out, line, sizeof line, "pred");
	record_add(&out, "id", o->id);
	record_add_u64(&out, "k", o->k);
	record_add_brief(&out, "speed", said);
	if (!isnan(o->speed))
		record_add_brief(&out, "actual", o->speed);
	fwrite(line, 1, record_end(&out, NULL), stdout);
}

static int take_obs(struct job *job, const struct record *r, struct error *err)
{
	struct obs o;
	struct worker *w;
	if (parse_obs(r, &o, err) != 0 || find_worker(job, &o, &w, err) != 0)
		return -1;
	w->k = o.k;
	double said = predict(job, w, &o);
	answer(&o, said);
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

static int read_all(struct job *job, int strict, struct error *err)
{
	static struct record r;
	struct filter_unknown unknown = {.program = PROGRAM, .strict = strict};
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	if (!in)
		return error_set(err, ERROR_OS, NULL, "no memory");
	int got, result = 0;
	while (result == 0) {
		/* Who waits for the prediction gets it before we wait for the next line. */
		if (!record_reader_buffered(in))
			fflush(stdout);
		if ((got = record_read(in, &r, err)) == RECORD_END)
			break;
		if (got < 0)
			result = -1;
		else if (got == RECORD_BLANK)
			continue;
		else if (!record_is(&r, "obs"))
			result = filter_unknown(&unknown, &r, record_reader_place(in), err);
		else if (take_obs(job, &r, err) != 0)
			result = error_wrap(err, record_reader_place(in));
	}
	record_reader_free(in);
	return result;
}

static void print_scores(const struct table *t)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	for (size_t i = 0; i < t->count; i++) {
		const struct worker *w = t->row[i];
		record_begin(&o, line, sizeof line, "score");
		record_add(&o, "id", w->id);
		record_add_brief(&o, "rmse", w->scored ? sqrt(w->sum / (double)w->scored) : NAN);
		record_add_u64(&o, "n", w->scored);
		fwrite(line, 1, record_end(&o, NULL), stdout);
	}
}

/* ---- model files ---- */
static int put_line(const char *line, size_t len, void *file, struct error *err)
{
	if (fwrite(line, 1, len, file) == len)
		return 0;
	return error_errno(err, 0, NULL, "write");
}

static int put_head(const struct job *job, FILE *file, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, PROGRAM);
	record_add_u64(&o, "version", 1);
	record_add(&o, "model", predict_model_name(job->config.model));
	record_add(&o, "loss", job->max_loss ? "max" : "rmse");
	record_add_u64(&o, "workers", job->now.count);
	record_add_u64(&o, "round", job->now.round);
	return put_line(line, record_end(&o, NULL), file, err);
}

static int put_models(const struct job *job, FILE *file, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (put_head(job, file, err) != 0)
		return -1;
	for (size_t i = 0; i < job->now.count; i++) {
		struct worker *w = job->now.row[i];
		record_begin(&o, line, sizeof line, "worker");
		record_add(&o, "id", w->id);
		record_add_u64(&o, "k", w->k);
		if (put_line(line, record_end(&o, NULL), file, err) != 0 ||
		    predictor_save(w->predictor, put_line, file, err) != 0)
			return -1;
	}
	if (job->now.group && predict_group_save(job->now.group, put_line, file, err) != 0)
		return -1;
	record_begin(&o, line, sizeof line, "whole");
	return put_line(line, record_end(&o, NULL), file, err);
}

static int fill_file(int fd, const char *path, void *arg, struct error *err)
{
	int own = dup(fd);
	FILE *file = own < 0 ? NULL : fdopen(own, "w");
	if (!file) {
		error_errno(err, ERROR_OS, path, "open");
		if (own >= 0)
			close(own);
		return -1;
	}
	int result = put_models(arg, file, err);
	if (fclose(file) != 0 && result == 0)
		result = error_errno(err, 0, path, "write");
	return result;
}

/* Records of a file whose end may not come before its `whole` record. */
static int take_line(struct record *r, void *in, struct error *err)
{
	int got = record_read(in, r, err);
	if (got == RECORD_ONE)
		return 0;
	if (got < 0)
		return -1;
	return error_set(err, ERROR_DATA, NULL,
			 got == RECORD_END ? "the model file ends here, in mid-model"
					   : "an empty line in a model file");
}

static int take_head(struct job *job, struct record *r, uint64_t *workers, struct error *err)
{
	uint64_t version;
	const char *model, *loss;
	const char *want = predict_model_name(job->config.model);
	const char *want_loss = job->max_loss ? "max" : "rmse";
	if (!record_is(r, PROGRAM))
		return error_set(err, ERROR_DATA, NULL, "this is no model file of %s", PROGRAM);
	if (record_u64(r, "version", 1, 1, &version, err) != 0 ||
	    record_text(r, "model", &model, err) != 0 || record_text(r, "loss", &loss, err) != 0 ||
	    record_u64(r, "workers", 0, PREDICT_GROUP_MAX, workers, err) != 0 ||
	    record_u64(r, "round", 0, UINT64_MAX, &job->saved.round, err) != 0)
		return -1;
	if (strcmp(model, want) != 0 || strcmp(loss, want_loss) != 0)
		return error_set(err, ERROR_DATA, NULL,
				 "these are models of kind %.20s with loss %.20s, not of %s with %s",
				 model, loss, want, want_loss);
	return 0;
}

static int take_worker(struct job *job, struct record *r, struct record_reader *in,
		       struct error *err)
{
	const char *id;
	uint64_t k;
	struct worker *w;
	if (!record_is(r, "worker"))
		return error_set(err, ERROR_DATA, NULL, "a worker expected, this is '%.40s'",
				 r->type);
	if (record_id(r, "id", &id, err) != 0 ||
	    record_u64(r, "k", 0, UINT64_MAX - 1, &k, err) != 0)
		return -1;
	if (table_find(&job->saved, id))
		return error_set(err, ERROR_DATA, NULL, "worker id=%s stands twice", id);
	if (table_add(&job->saved, id, &w, err) != 0)
		return -1;
	w->k = k;
	if (take_line(r, in, err) != 0)
		return -1;
	if (!record_is(r, "model"))
		return error_set(err, ERROR_DATA, NULL, "a model expected, this is '%.40s'",
				 r->type);
	return predictor_load(&w->predictor, r, take_line, in, err);
}

static int take_group(struct job *job, struct record *r, struct record_reader *in,
		      struct error *err)
{
	if (take_line(r, in, err) != 0)
		return -1;
	if (!record_is(r, "group"))
		return error_set(err, ERROR_DATA, NULL, "a group expected, this is '%.40s'",
				 r->type);
	if (predict_group_load(&job->saved.group, r, take_line, in, err) != 0)
		return -1;
	if (predict_group_count(job->saved.group) != job->saved.count)
		return error_set(err, ERROR_DATA, NULL, "the group is not of the workers before");
	return 0;
}

static int take_models(struct job *job, struct record_reader *in, struct record *r,
		       struct error *err)
{
	uint64_t workers;
	if (take_line(r, in, err) != 0 || take_head(job, r, &workers, err) != 0)
		return -1;
	for (uint64_t i = 0; i < workers; i++)
		if (take_line(r, in, err) != 0 || take_worker(job, r, in, err) != 0)
			return -1;
	if (job->max_loss && take_group(job, r, in, err) != 0)
		return -1;
	if (take_line(r, in, err) != 0)
		return -1;
	if (!record_is(r, "whole"))
		return error_set(err, ERROR_DATA, NULL, "the file's last record expected, not '%.40s'",
				 r->type);
	return 0;
}

static int load_models(struct job *job, const char *path, struct error *err)
{
	static struct record r;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	struct record_reader *in = record_reader_new(fd, path);
	int result = in ? take_models(job, in, &r, err) : error_set(err, ERROR_OS, NULL, "no memory");
	if (result != 0 && in && !err->place[0])
		error_wrap(err, record_reader_place(in));
	record_reader_free(in);
	close(fd);
	return result;
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

static int run(struct job *job, const char *load, const char *save, int strict, struct error *err)
{
	if (load && load_models(job, load, err) != 0)
		return -1;
	if (read_all(job, strict, err) != 0)
		return -1;
	print_scores(&job->now);
	if (fflush(stdout) != 0 || !save)
		return 0; /* the failed output is reported at the end */
	if (!job->begun) { /* nothing came: the file stays what it was */
		job->now = job->saved;
		job->saved = (struct table){0};
		if (job->max_loss && !job->now.group &&
		    predict_group_new(&job->now.group, err) != 0)
			return -1;
	}
	return fs_replace(save, 0644, fill_file, job, err);
}

int main(int argc, char **argv)
{
	struct job job = {0};
	struct predict_config *c = &job.config;
	const char *model = "auto", *loss = "rmse", *order = "2,2,1", *load = NULL, *save = NULL;
	int strict = 0, first;
	uint64_t window;
	predict_config_init(c, PREDICT_AUTO);
	window = c->window;
	const struct option_row rows[] = {
		{.name = "model", .letter = 'm', .kind = OPTION_CHOICE, .target = &model,
		 .arg = "MODEL", .help = "how to predict (auto)",
		 .choices = "last|ema|quantile|arima|rnn|lstm|narx|auto"},
		{.name = "loss", .kind = OPTION_CHOICE, .target = &loss, .arg = "LOSS",
		 .help = "auto: what is to be small (rmse)", .choices = "rmse|max"},
		{.name = "alpha", .kind = OPTION_REAL, .target = &c->alpha, .arg = "WEIGHT",
		 .help = "ema: weight of the newest speed", .min = 1e-9, .max = 1},
		{.name = "quantile", .kind = OPTION_REAL, .target = &c->quantile, .arg = "PART",
		 .help = "quantile: of the times", .min = 0, .max = 1},
		{.name = "window", .kind = OPTION_COUNT, .target = &window, .arg = "LINES",
		 .help = "quantile: times looked at", .min = 1, .max = PREDICT_WINDOW_MAX},
		{.name = "order", .kind = OPTION_TEXT, .target = &order, .arg = "P,D,Q",
		 .help = "arima: its order, or aic (2,2,1)"},
		{.name = "warmup", .kind = OPTION_COUNT, .target = &c->warmup, .arg = "LINES",
		 .help = "rnn, lstm, narx: ema speaks before", .max = 1e9},
		{.name = "load", .kind = OPTION_TEXT, .target = &load, .arg = "FILE",
		 .help = "go on with, or start from, saved models"},
		{.name = "save", .kind = OPTION_TEXT, .target = &save, .arg = "FILE",
		 .help = "write the models at the end of input"},
		{.name = "seed", .kind = OPTION_COUNT, .target = &c->seed, .arg = "N",
		 .help = "of the nets' random numbers", .max = 9e15},
		{.name = "score-from", .kind = OPTION_COUNT, .target = &job.score_from, .arg = "K",
		 .help = "first k that counts in the scores", .max = 9e15},
		{.name = "strict", .kind = OPTION_FLAG, .target = &strict,
		 .help = "unknown record types are errors"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "[-m MODEL] [--loss rmse|max] [--load FILE] [--save FILE] "
			    "< observations > predictions",
		.about = "The speed that each worker will have in the next iteration.",
		.rows = rows};
	struct error err = {0};
	cmd_begin(PROGRAM);
	int parsed = option_parse(&table, argc, argv, &first, stdout, &err);
	if (parsed == OPTION_SHOWN)
		return cmd_end(PROGRAM, 0);
	if (parsed == 0 && first < argc)
		parsed = error_set(&err, ERROR_USAGE, argv[first], "is no option");
	if (parsed == 0)
		parsed = parse_order(order, c, &err);
	job.max_loss = strcmp(loss, "max") == 0;
	if (parsed == 0 && job.max_loss && strcmp(model, "auto") != 0)
		parsed = error_set(&err, ERROR_USAGE, "--loss", "max is for -m auto only");
	if (parsed != 0)
		return cmd_fail(PROGRAM, &err);
	predict_model_of(model, &c->model); /* a choice is a model */
	c->window = (size_t)window;
	int status = run(&job, load, save, strict, &err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
	table_clear(&job.now);
	table_clear(&job.saved);
	return cmd_end(PROGRAM, status);
}

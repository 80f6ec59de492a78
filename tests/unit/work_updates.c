/*
 * An update is the same whoever computes it: one and the same set of samples, split over any
 * workers and hosts, in batches of any sizes and any number of steps, moves the parameters as one
 * process does that has them all, to the rounding of a sum in another order.  And replicas of one
 * job are equal to the bit, whatever was summed where.
 *
 * With the programs: a lead, replicas, and where there are several, fabricd under mpirun, which are
 * looked for beside this test.  The workers are threads of it.
 */
#include "data/dataset.h"
#include "model/model.h"
#include "param/layout.h"
#include "param/opt.h"
#include "param/store.h"
#include "wire/call.h"
#include "work/replica.h"

#include "base/fs.h"

#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FIELDS 3
#define DENSE 3
#define HASH_BITS 8
#define KEYS (1u << HASH_BITS)
#define SAMPLES_MAX 900
#define WORKERS_MAX 5
#define HOSTS_MAX 3
#define PATIENCE 60.0

static char programs[512]; /* the folder; "": there are none */
static uint64_t state;

static uint32_t below(uint32_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((state >> 33) % n);
}

static float within(double most)
{
	return (float)(most * ((double)below(1u << 24) / (1 << 23) - 1));
}

/* ---- samples ---- */

struct samples {
	size_t count;
	float dense[SAMPLES_MAX * DENSE], label[SAMPLES_MAX], weight[SAMPLES_MAX];
	uint32_t key[SAMPLES_MAX * FIELDS];
};

static void draw(struct samples *s, size_t count)
{
	s->count = count;
	for (size_t i = 0; i < count * DENSE; i++)
		s->dense[i] = within(1);
	for (size_t i = 0; i < count; i++) {
		s->label[i] = below(3) == 0;
		s->weight[i] = 1 + within(0.5);
		for (size_t j = 0; j < FIELDS; j++) /* a column of few keys, and others */
			s->key[i * FIELDS + j] = j == 0 ? below(7) : below(KEYS);
	}
}

/* Those of `of` for whom owner[i] is `mine`, as a batch; owner NULL: all. */
static int make_batch(struct batch *b, const struct samples *of, const uint8_t *owner, uint8_t mine,
		      const struct map *map, struct error *err)
{
	size_t offset[SAMPLES_MAX + 1], count = 0;
	uint64_t row[SAMPLES_MAX];
	for (size_t i = 0; i <= SAMPLES_MAX; i++)
		offset[i] = i * FIELDS;
	for (size_t i = 0; i < SAMPLES_MAX; i++)
		row[i] = i;
	struct rows rows = {.count = of->count,
			    .dense_columns = DENSE,
			    .fields = FIELDS,
			    .row = row,
			    .dense = (float *)(uintptr_t)of->dense,
			    .label = (float *)(uintptr_t)of->label,
			    .weight = (float *)(uintptr_t)of->weight,
			    .offset = offset,
			    .key = (uint32_t *)(uintptr_t)of->key};
	batch_start(b, DENSE, 0);
	if (batch_reserve(b, SAMPLES_MAX, SAMPLES_MAX * FIELDS, err) != 0)
		return -1;
	for (size_t i = 0; i < of->count; i++) {
		if (owner && owner[i] != mine)
			continue;
		batch_add_sample(b, &rows, i, &(struct model_keys){0});
		count++;
	}
	if (count > 0)
		batch_add_range(b, mine + 1u, 0, count);
	return batch_finish(b, map, KEYS, err);
}

/* ---- the processes of a job ---- */

struct job {
	uint32_t hosts, workers;
	int wide; /* layers so large that a bucket of them is summed before the rest is computed */
	char dir[64], lead[128], replica[HOSTS_MAX][128], layout_path[128];
	pid_t pid[HOSTS_MAX + 2];
	size_t pids;
	struct model_spec spec;
	struct layout layout;
	struct map map;
	struct opt opt;
	struct store *alone; /* one process that has all samples */
	struct exchange *reader[HOSTS_MAX];
	uint64_t iteration;

	/* what the workers do next, and how it went */
	pthread_barrier_t begin, end;
	int stop;
	struct samples samples;
	uint8_t owner[SAMPLES_MAX];
	uint32_t step[WORKERS_MAX]; /* samples in a step of each */
	char wrong[256];
	pthread_mutex_t lock;
};

struct worker {
	struct job *job;
	uint32_t number;
	uint64_t sequence, iteration;
	pthread_t thread;
	struct exchange *exchange;
	struct model *model;
};

static void wrong(struct job *j, const char *what, const struct error *err)
{
	pthread_mutex_lock(&j->lock);
	if (!j->wrong[0])
		snprintf(j->wrong, sizeof j->wrong, "%s: %.100s: %.100s", what,
			 err ? err->place : "", err ? err->text : "");
	pthread_mutex_unlock(&j->lock);
}

static void spawn(struct job *j, const char *const *words)
{
	char name[600];
	pid_t pid = fork();
	if (pid > 0) {
		j->pid[j->pids++] = pid;
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	snprintf(name, sizeof name, "%s/%zu.err", j->dir, j->pids);
	if (!freopen(name, "w", stderr))
		_exit(127);
	snprintf(name, sizeof name, "%s/%s", programs, words[0]);
	if (access(name, X_OK) == 0)
		execv(name, (char *const *)(uintptr_t)words);
	else
		execvp(words[0], (char *const *)(uintptr_t)words);
	_exit(127);
}

static void spawn_lead(struct job *j)
{
	char replicas[HOSTS_MAX * 128] = "", expect[16];
	for (uint32_t i = 0; i < j->hosts; i++)
		snprintf(replicas + strlen(replicas), sizeof replicas - strlen(replicas), "%s%s",
			 i ? "," : "", j->replica[i]);
	snprintf(expect, sizeof expect, "%u", j->workers);
	spawn(j, (const char *[]){"ps-server", "-s", j->lead, "--id", "lead", "--lead-only",
				  "--replicas", replicas, "--layout", j->layout_path,
				  /* so that they enter together; nobody follows its sizes */
				  "--balance", "lb-bsp", "--batch", "100", "--expect", expect,
				  NULL});
}

static void spawn_replica(struct job *j, uint32_t i)
{
	static const char hosts[] = "a,b,c";
	char id[16], share[32], fabric[160], names[8], lr[16];
	snprintf(id, sizeof id, "r%u", i);
	snprintf(share, sizeof share, "%u/%u", i, j->hosts);
	snprintf(fabric, sizeof fabric, "%s/%c/fabric.sock", j->dir, hosts[2 * i]);
	snprintf(names, sizeof names, "%.*s", (int)(2 * j->hosts - 1), hosts);
	snprintf(lr, sizeof lr, "%g", (double)j->opt.lr);
	const char *words[24] = {"ps-server", "-s",          j->replica[i], "--id", id,
				 "--replica", share,         "--layout",    j->layout_path,
				 "--optimizer", opt_name(j->opt.kind), "--lr",  lr, "--serve"};
	if (j->hosts > 1)
		memcpy(words + 14, (const char *[]){"--fabric", fabric, "--hosts", names},
		       4 * sizeof *words);
	spawn(j, words);
}

static void spawn_fabric(struct job *j)
{
	static const char names[] = "abc";
	const char *words[16 * HOSTS_MAX] = {"mpirun", "--oversubscribe", "--bind-to", "none"};
	static char host[HOSTS_MAX][32], dir[HOSTS_MAX][80], program[600];
	size_t n = 4;
	snprintf(program, sizeof program, "%s/fabricd", programs);
	for (uint32_t i = 0; i < j->hosts; i++) {
		snprintf(host[i], sizeof host[i], "PACELINE_HOST=%c", names[i]);
		snprintf(dir[i], sizeof dir[i], "%s/%c", j->dir, names[i]);
		mkdir(dir[i], 0700);
		if (i > 0)
			words[n++] = ":";
		const char *rank[] = {"-n", "1", "-x", host[i], program, "--run-dir", dir[i]};
		memcpy(words + n, rank, sizeof rank);
		n += sizeof rank / sizeof *rank;
	}
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	spawn(j, words);
}

/* ---- workers ---- */

static struct exchange *connect_to(struct job *j, uint32_t host, const char *name, struct error *err)
{
	struct replica_options options = {.lead = j->lead,
					  .replica = j->replica[host],
					  .dense_count = model_dense_count(&j->spec),
					  .width = model_width(&j->spec),
					  .key_count = KEYS,
					  .talk = {.worker = name,
						   .wait_seconds = PATIENCE,
						   .answer_seconds = PATIENCE}};
	struct exchange *x;
	uint64_t low, high;
	if (replica_new(&x, &options, err) != 0)
		return NULL;
	int result = x->kind->connect(x, &low, &high, err);
	if (result == WORK_OK) {
		x->kind->identify(x, 1, high);
		return x;
	}
	x->kind->free(x);
	return NULL;
}

static void on_final(void *owner, size_t begin, size_t count)
{
	struct worker *w = owner;
	w->exchange->kind->final(w->exchange, w->sequence, w->iteration, begin, count);
}

/* Its share of the samples, in steps. */
static int take_part(struct worker *w, struct batch *b, struct error *err)
{
	struct job *j = w->job;
	struct exchange *x = w->exchange;
	struct exchange_values v;
	struct exchange_push push = {.sequence = ++w->sequence, .iteration = w->iteration};
	size_t step = j->step[w->number];
	int result;
	if (make_batch(b, &j->samples, j->owner, (uint8_t)w->number, &j->map, err) != 0 ||
	    (result = x->kind->pull(x, w->iteration, b, &v, err)) < 0)
		return -1;
	for (size_t at = 0; result == WORK_OK && at < b->count; at += step) {
		size_t count = b->count - at < step ? b->count - at : step;
		struct model_batch slice = batch_slice(b, at, count, 0);
		model_on_final(w->model, at + count == b->count ? on_final : NULL, w);
		if (model_train(w->model, &slice, v.dense, v.rows, v.dense_gradient, v.row_gradient,
				&push.loss, err) != 0)
			return -1;
	}
	push.size = b->count;
	if (result == WORK_OK)
		result = x->kind->push(x, &push, b, NULL, err);
	if (result == WORK_OK)
		result = x->kind->wait(x, &w->iteration, err);
	if (result > 0)
		error_set(err, ERROR_SOFTWARE, "", "result %d", result);
	return result == WORK_OK ? 0 : -1;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct job *j = w->job;
	struct exchange_member member = {.size = 1};
	struct error err = {0};
	struct batch b = {0};
	char name[8];
	snprintf(name, sizeof name, "w%u", w->number);
	w->exchange = connect_to(j, w->number % j->hosts, name, &err);
	if (!w->exchange || model_new(&w->model, &j->spec, NULL, &err) != 0)
		wrong(j, "a worker begins", &err);
	else if (w->exchange->kind->join(w->exchange, &member, &w->iteration, &err) != WORK_OK)
		wrong(j, "a worker joins", &err);
	for (;;) {
		pthread_barrier_wait(&j->begin);
		if (j->stop)
			break;
		if (!j->wrong[0] && take_part(w, &b, &err) != 0)
			wrong(j, "a worker takes part", &err);
		pthread_barrier_wait(&j->end);
	}
	batch_free(&b);
	model_free(w->model);
	if (w->exchange)
		w->exchange->kind->free(w->exchange);
	return NULL;
}

/* ---- a job from begin to end ---- */

static void begin_job(struct job *j, struct worker *w, const char *optimizer, float lr)
{
	struct error err = {0};
	j->pids = 0;
	strcpy(j->dir, "/tmp/paceline-updates.XXXXXX");
	assert_non_null(mkdtemp(j->dir));
	snprintf(j->lead, sizeof j->lead, "%s/lead.sock", j->dir);
	snprintf(j->layout_path, sizeof j->layout_path, "%s/layout", j->dir);
	for (uint32_t i = 0; i < j->hosts; i++)
		snprintf(j->replica[i], sizeof j->replica[i], "%s/r%u.sock", j->dir, i);
	model_spec_default(&j->spec, "wdl");
	j->spec.dense_inputs = DENSE;
	j->spec.fields = FIELDS;
	j->spec.embed = 4;
	j->spec.hidden.width[0] = j->wide ? 1100 : 12;
	j->spec.hidden.width[1] = j->wide ? 1400 : 8;
	j->spec.hash_bits = HASH_BITS;
	assert_int_equal(model_layout(&j->spec, &j->layout, &err), 0);
	assert_int_equal(layout_write(&j->layout, j->layout_path, &err), 0);
	map_even(&j->map, 1, layout_dense_count(&j->layout));
	assert_int_equal(opt_by_name(&j->opt, optimizer, &err), 0);
	j->opt.lr = lr;
	assert_int_equal(store_new(&j->alone, &j->layout, &j->map, 0, &j->opt, &err), 0);
	if (j->hosts > 1)
		spawn_fabric(j);
	for (uint32_t i = 0; i < j->hosts; i++)
		spawn_replica(j, i);
	spawn_lead(j);
	pthread_mutex_init(&j->lock, NULL);
	pthread_barrier_init(&j->begin, NULL, j->workers + 1);
	pthread_barrier_init(&j->end, NULL, j->workers + 1);
	for (uint32_t i = 0; i < j->hosts; i++) {
		j->reader[i] = connect_to(j, i, "reader", &err);
		if (!j->reader[i])
			fail_msg("%s: %s", err.place, err.text);
	}
	for (uint32_t i = 0; i < j->workers; i++) {
		w[i] = (struct worker){.job = j, .number = i};
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	}
}

static void end_job(struct job *j, struct worker *w)
{
	j->stop = 1;
	pthread_barrier_wait(&j->begin);
	for (uint32_t i = 0; i < j->workers; i++)
		pthread_join(w[i].thread, NULL);
	for (uint32_t i = 0; i < j->hosts; i++)
		j->reader[i]->kind->free(j->reader[i]);
	while (j->pids > 0) { /* the lead first: it would say that the others go */
		kill(j->pid[--j->pids], SIGTERM);
		waitpid(j->pid[j->pids], NULL, 0);
	}
	store_free(j->alone);
	char command[128];
	snprintf(command, sizeof command, "rm -rf '%s'", j->dir);
	assert_int_equal(system(command), 0);
}

/* One unit: these samples, split anyhow. */
static void unit(struct job *j, size_t samples)
{
	draw(&j->samples, samples);
	uint32_t most = below(j->workers) + 1; /* some may have nothing, once in a while most of them */
	for (size_t i = 0; i < samples; i++)
		j->owner[i] = (uint8_t)below(below(2) ? most : j->workers);
	for (uint32_t i = 0; i < j->workers; i++)
		j->step[i] = below(3) == 0 ? 1000 : 1 + below(j->wide ? 40 : 200);
	pthread_barrier_wait(&j->begin);
	pthread_barrier_wait(&j->end);
	if (j->wrong[0])
		fail_msg("iteration %llu: %s", (unsigned long long)j->iteration, j->wrong);
	j->iteration++;
}

/* The same by one process. */
static void unit_alone(struct job *j, struct model *model)
{
	struct batch b = {0};
	struct error err = {0};
	double loss = 0;
	assert_int_equal(make_batch(&b, &j->samples, NULL, 0, &j->map, &err), 0);
	size_t width = model_width(&j->spec), dense = layout_dense_count(&j->layout);
	float **row = malloc(b.unique * sizeof *row);
	float *values = calloc(b.unique * width * 2 + dense, sizeof *values);
	float *row_gradient = values + b.unique * width, *gradient = row_gradient + b.unique * width;
	assert_int_equal(store_rows(j->alone, b.key, b.unique, 1, row, &err), 0);
	store_pull_rows(j->alone, row, b.unique, values);
	struct model_batch all = batch_slice(&b, 0, b.count, 0);
	assert_int_equal(model_train(model, &all, store_dense(j->alone), values, gradient,
				     row_gradient, &loss, &err),
			 0);
	struct store_push push = {.dense = gradient,
				  .rows = b.unique,
				  .row = row,
				  .row_gradient = row_gradient,
				  .count = b.count,
				  .scale = 1};
	assert_int_equal(store_apply(j->alone, &push, 1, &err), 0);
	free(row);
	free(values);
	batch_free(&b);
}

/* All parameters that a replica has, as of this iteration, into out. */
static void read_all(struct job *j, uint32_t host, float *out)
{
	static uint32_t key[KEYS];
	size_t begins[] = {0, KEYS}, dense = layout_dense_count(&j->layout);
	struct batch all = {.unique = KEYS, .key = key, .part_begin = begins, .parts = 1};
	struct exchange_values v;
	struct error err = {0};
	for (uint32_t i = 0; i < KEYS; i++)
		key[i] = i;
	struct exchange *x = j->reader[host];
	if (x->kind->pull(x, j->iteration, &all, &v, &err) != WORK_OK)
		fail_msg("%s: %s", err.place, err.text);
	memcpy(out, v.dense, dense * sizeof *out);
	memcpy(out + dense, v.rows, KEYS * model_width(&j->spec) * sizeof *out);
}

static size_t floats_of(const struct job *j)
{
	return layout_dense_count(&j->layout) + KEYS * model_width(&j->spec);
}

/* A wide layer has many ReLUs, and where one is at its bend rounding decides what it lets through. */
static void compare_with_alone(struct job *j)
{
	float most = j->wide ? 1e-4f : 1e-5f;
	size_t dense = layout_dense_count(&j->layout), floats = floats_of(j);
	float *want = malloc(2 * floats * sizeof *want), *got = want + floats;
	uint32_t key[KEYS];
	for (uint32_t i = 0; i < KEYS; i++)
		key[i] = i;
	memcpy(want, store_dense(j->alone), dense * sizeof *want);
	store_look_rows(j->alone, key, KEYS, want + dense);
	for (uint32_t host = 0; host < j->hosts; host++) {
		read_all(j, host, got);
		for (size_t i = 0; i < floats; i++)
			if (fabsf(got[i] - want[i]) > most * (fabsf(want[i]) + 0.2f))
				fail_msg("iteration %llu, host %u: parameter %zu of %zu is %.9g, "
					 "not %.9g",
					 (unsigned long long)j->iteration, host, i, floats,
					 (double)got[i], (double)want[i]);
	}
	free(want);
}

static void compare_replicas(struct job *j)
{
	size_t floats = floats_of(j);
	float *first = malloc(2 * floats * sizeof *first), *other = first + floats;
	read_all(j, 0, first);
	for (uint32_t host = 1; host < j->hosts; host++) {
		read_all(j, host, other);
		assert_memory_equal(first, other, floats * sizeof *first);
	}
	free(first);
}

/* ---- tests ---- */

static int is_there(const char *program)
{
	char name[600];
	snprintf(name, sizeof name, "%s/%s", programs, program);
	return programs[0] && access(name, X_OK) == 0;
}

static void need(uint32_t hosts)
{
	int world = is_there("fabricd") && system("command -v mpirun >/dev/null") == 0;
	if (is_there("ps-server") && (hosts == 1 || world))
		return;
	print_message("# skipped: %s\n", hosts > 1 && !world ? "no fabricd, or no mpirun"
							   : "no programs beside this test");
	skip();
}

struct counts {
	uint64_t parts, errors;
};

static void count_parts(const struct record *r, void *arg)
{
	struct counts *c = arg;
	const char *verb = record_get(r, "verb");
	if (!verb || strcmp(verb, "part") != 0)
		return;
	(void)record_u64_opt(r, "requests", 0, UINT64_MAX, &c->parts, NULL);
	(void)record_u64_opt(r, "errors", 0, UINT64_MAX, &c->errors, NULL);
}

/* Every worker with samples told once a unit that its layer is final, and was understood. */
static void check_told(const struct job *j)
{
	for (uint32_t i = 0; i < j->hosts; i++) {
		static struct record closing;
		struct counts counts = {0, 0};
		struct error err;
		struct call *c;
		assert_int_equal(call_open(&c, j->replica[i], 0, PATIENCE, &err), 0);
		assert_int_equal(call_request(c, "counters\n", 9, &closing, count_parts, &counts,
					      &err),
				 CALL_OK);
		call_close(c);
		assert_true(j->wide ? counts.parts > 0 : counts.parts == 0);
		assert_int_equal(counts.errors, 0);
	}
}

static void any_split(uint32_t hosts, uint32_t workers, int wide)
{
	static struct job j;
	struct worker w[WORKERS_MAX];
	struct error err = {0};
	struct model *model;
	need(hosts);
	j = (struct job){.hosts = hosts, .workers = workers, .wide = wide};
	begin_job(&j, w, "sgd", 0.5f);
	assert_int_equal(model_new(&model, &j.spec, NULL, &err), 0);
	for (int i = 0; i < (wide ? 4 : 25); i++) {
		unit(&j, 1 + below(wide ? 200 : i % 3 ? 400 : SAMPLES_MAX));
		unit_alone(&j, model);
		compare_with_alone(&j);
	}
	compare_replicas(&j);
	check_told(&j);
	model_free(model);
	end_job(&j, w);
}

static void by_one_worker(void **unused)
{
	(void)unused;
	state = 1;
	any_split(1, 1, 0);
}

static void by_workers_of_one_host(void **unused)
{
	(void)unused;
	state = 2;
	any_split(1, 4, 0);
	any_split(1, 3, 1);
}

static void by_workers_of_several_hosts(void **unused)
{
	(void)unused;
	state = 3;
	any_split(2, 3, 0);
	any_split(3, 5, 0);
	any_split(2, 4, 1);
}

/* An optimiser that remembers all that was, so that no difference is lost. */
static void replicas_stay_equal(void **unused)
{
	(void)unused;
	static struct job j;
	struct worker w[WORKERS_MAX];
	need(3);
	state = 4;
	j = (struct job){.hosts = 3, .workers = 4};
	begin_job(&j, w, "adam", 0.01f);
	for (int i = 0; i < 1000; i++)
		unit(&j, 1 + below(60));
	compare_replicas(&j);
	end_job(&j, w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_one_worker),
		cmocka_unit_test(by_workers_of_one_host),
		cmocka_unit_test(by_workers_of_several_hosts),
		cmocka_unit_test(replicas_stay_equal),
	};
	char *end = argc > 0 ? strrchr(argv[0], '/') : NULL;
	if (end)
		snprintf(programs, sizeof programs, "%.*s/../bin", (int)(end - argv[0]), argv[0]);
	openblas_set_num_threads(1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

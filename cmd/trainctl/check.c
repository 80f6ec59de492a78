/* trainctl check: all that `trainctl run` looks at before it starts the first process, with the
 * same errors and the same exit status; then what the job would do. Nothing of the job is made: a
 * directory for what run would prepare is made elsewhere, and removed. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/human.h"
#include "base/log.h"
#include "data/schema.h"
#include "job/brain_filter.h"
#include "job/condition.h"
#include "job/deadline.h"
#include "job/hosts.h"
#include "job/job.h"
#include "job/kind.h"
#include "job/prepare.h"
#include "job/program.h"
#include "job/spent.h"
#include "model/model.h"
#include "param/layout.h"
#include "proc/host_test.h"
#include "proc/process.h"
#include "record/record.h"
#include "run/metrics.h"
#include "run/supervisor.h"
#include "sim/copy.h"

#include <math.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_FOUND_STATUS 127 /* of sh(1) */

/* What run would do with the state that is there. */
enum start { START_BEGIN, START_GO_ON, START_ADOPT, START_OVER, START_FINISHED };
static const char *const start_names[] = {"begin", "go-on", "adopt", "start-over", "finished"};

struct call {
	struct trainctl_call run; /* the options of run */
	int self_test, cluster;
	char trial[DIRS_MAX];     /* what run would prepare is made there */
};

struct checked {
	enum start start;
	struct condition before; /* what the existing state was made with; .name empty: there is
				  * none */
	struct prepared ready;
	size_t dense, sparse; /* columns */
	uint64_t parameters;  /* dense ones, and rows of the table times their width */
	struct hosts hosts;
};

/* ---- sockets, programs ---- */

static int is_taken(const struct dirs *dirs, const char *name, char path[DIRS_PATH_MAX])
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	dirs_run(dirs, name, path);
	if (strlen(path) >= sizeof at.sun_path)
		return 0; /* dirs_resolve() has checked it */
	memcpy(at.sun_path, path, strlen(path) + 1);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int taken = fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) == 0;
	if (fd >= 0)
		close(fd);
	return taken;
}

/* No other process may listen at the sockets of this job's daemons: another job would have the same
 * --run-dir. */
static int check_sockets(const struct job *job, const struct dirs *dirs, struct error *err)
{
	static const char *const services[] = {"trainctl.sock", "shardd.sock", "bpt-monitor.sock"};
	char name[32], path[DIRS_PATH_MAX];
	size_t count = sizeof services / sizeof *services;
	for (size_t i = 0; i < count + job->servers; i++) {
		snprintf(name, sizeof name, "ps%zu.sock", i - count);
		if (is_taken(dirs, i < count ? services[i] : name, path))
			return error_set(err, ERROR_TEMPFAIL, path,
					 "a process answers here already: another job uses this "
					 "run directory");
	}
	return 0;
}

static int check_find_programs(const char *const *programs, struct error *err)
{
	char path[DIRS_PATH_MAX];
	for (; *programs; programs++)
		if (process_find(*programs, getenv("PATH"), path, sizeof path, err) != 0)
			return -1;
	return 0;
}

static int check_programs(const struct job *job, struct error *err)
{
	const char *const own[] = {"shardd", "bpt-monitor", "ps-server", job_kind(job)->program,
				   NULL};
	static const char *const score[] = {"predict", "auc", NULL};
	if (check_find_programs(own, err) != 0)
		return -1;
	return job->test.count > 0 ? check_find_programs(score, err) : 0;
}

/* Whether sh(1) knows that word, which may be one of its own. */
static int shell_knows(const char *word)
{
	char *const argv[] = {
		"/bin/sh", "-c", "command -v \"$1\" >/dev/null", "sh", (char *)word, NULL};
	pid_t pid = process_fork();
	if (pid == 0) {
		process_signals_reset();
		process_become(PROGRAM, argv);
	}
	int status = pid > 0 ? process_wait(pid) : 0;
	return pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 0;
}

/* Looks for the program of a trainer that runs on this machine without a launcher; the error has
 * the exit status that the shell would give. */
static int check_trainer(const struct job *job, const struct hosts *hosts, struct error *err)
{
	char program[DIRS_PATH_MAX];
	if (!job_kind(job)->foreign || job->launch_worker[0] || hosts->first > 0 ||
	    !program_of(job->trainer, program, sizeof program) || shell_knows(program))
		return 0;
	return error_set(err, NOT_FOUND_STATUS, "TRAINER", "%.200s: no such program here", program);
}

/* ---- the trial ---- */

static void check_on_progress(const char *what, const char *path, uint64_t done, uint64_t total,
			      void *arg)
{
	static double shown;
	double now = clock_mono();
	(void)arg;
	if (done != total && now - shown < 0.2)
		return;
	shown = now;
	fprintf(stderr, "\r\033[K");
	if (done != total)
		fprintf(stderr, "%s %.300s: %d%%", what, path,
			total ? (int)(100.0 * (double)done / (double)total) : 0);
}

static int check_measure(struct checked *k, const struct dirs *trial, struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct schema *schema;
	static struct layout layout; /* large */
	dirs_state(trial, "schema", path);
	if (schema_read(&schema, path, err) != 0)
		return -1;
	k->dense = schema->dense_count;
	k->sparse = schema->sparse_count;
	schema_free(schema);
	dirs_state(trial, "layout", path);
	if (layout_read(&layout, path, err) != 0)
		return -1;
	k->parameters = layout_dense_count(&layout);
	if (layout.has_table)
		k->parameters += layout.table.rows * layout.table.width;
	return 0;
}

static int check_room(const struct job *job, const struct dirs *dirs, const struct dirs *trial,
		      const struct checked *k, struct error *err)
{
	uint64_t bytes;
	struct hosts_environment env;
	if (k->hosts.count == 1)
		return 0;
	trainctl_hosts_environment(&env);
	if (hosts_checkpoint_bytes(job, trial, k->ready.samples, &bytes, err) != 0)
		return -1;
	return hosts_room(&k->hosts, dirs, bytes, &env, err);
}

static int in_trial(const struct job *job, const struct dirs *dirs, const struct call *call,
		    struct checked *k, struct error *err)
{
	struct dirs trial = *dirs;
	const struct prepare_options options = {
		.running = k->start == START_ADOPT,
		.fresh = call->run.fresh,
		.finished = k->start == START_FINISHED,
		.memory_mib = k->start != START_ADOPT && k->hosts.count == 1
				      ? k->hosts.place[0].memory_mib
				      : 0,
		.progress = isatty(STDERR_FILENO) ? check_on_progress : NULL};
	memcpy(trial.state, call->trial, sizeof call->trial);
	int result = prepare_trial(job, dirs, &trial, &options, &k->ready, err);
	if (result == 0 && k->start != START_FINISHED && !job_kind(job)->foreign)
		result = check_measure(k, &trial, err);
	if (result == 0 && k->start != START_FINISHED && k->start != START_ADOPT)
		result = check_room(job, dirs, &trial, k, err);
	return result;
}

static int find_start(const struct job *job, const struct dirs *dirs, const struct call *call,
		      struct checked *k, struct error *err)
{
	k->start = START_BEGIN;
	if (condition_read(&k->before, dirs, err) != 0)
		return error_is_lack(err) ? -1 : 0;
	if (k->before.node[0])
		k->start = START_ADOPT;
	else if (call->run.fresh)
		k->start = START_OVER;
	else if (k->before.is_finished && !spent_goes_on(job, dirs, k->before.ended))
		k->start = START_FINISHED;
	else if (k->before.is != CONDITION_NEW)
		k->start = START_GO_ON;
	return 0;
}

/* While nodes run, hosts that are missing are only reported, as run does. */
static int check_hosts(const struct job *job, const struct dirs *dirs, struct checked *k,
		       struct error *err)
{
	struct hosts_environment env;
	trainctl_hosts_environment(&env);
	int result = hosts_look(
		&k->hosts, job, dirs, &env,
		deadline_seconds(k->start == START_ADOPT ? DEADLINE_ADOPT : DEADLINE_HOSTS), err);
	return result == 0 || k->start == START_ADOPT ? 0 : -1;
}

/* The numbers of scale hold when the job goes on; --fresh forgets them. */
static int check_nodes(const struct job *job, const struct dirs *dirs, const struct call *call,
		       const struct checked *k, struct error *err)
{
	struct supervisor_options options = {.job = job, .dirs = *dirs, .hosts = &k->hosts};
	if (call->run.fresh)
		memcpy(options.dirs.state, call->trial, sizeof call->trial);
	return supervisor_check(&options, err);
}

/* Reports all errors in one run: prints each but the last one, which the caller prints. */
struct wrong {
	size_t count;
	struct error last;
	int code; /* exit status of an error that would come again, if there is one */
};

static void check_note(struct wrong *w, int result, const struct error *err)
{
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX + 8];
	if (result == 0)
		return;
	if (w->count++ > 0) {
		error_format(&w->last, text, sizeof text);
		log_say(LOG_LEVEL_ERROR, "%s", text);
	}
	w->last = *err;
	if (w->code == 0 || (hosts_comes_again(err->code) && !hosts_comes_again(w->code)))
		w->code = err->code;
}

static int check_whole_job(const struct job *job, const struct dirs *dirs, const struct call *call,
			   struct checked *k, struct error *err)
{
	struct wrong w = {0};
	if (trainctl_runs_already(job, dirs, &call->run, err) != 0 || dirs_check(dirs, err) != 0 ||
	    find_start(job, dirs, call, k, err) != 0)
		return -1;
	if (k->start == START_FINISHED)
		return in_trial(job, dirs, call, k, err);
	if (k->start == START_ADOPT && call->run.fresh)
		return error_set(err, ERROR_TEMPFAIL, dirs->state,
				 "--fresh, but %s of this job still runs: stop it first",
				 k->before.node);
	if (k->start != START_ADOPT) {
		check_note(&w, check_sockets(job, dirs, err), err);
		check_note(&w, metrics_try(job, err), err);
		check_note(&w, check_nodes(job, dirs, call, k, err), err);
	}
	check_note(&w, check_programs(job, err), err);
	check_note(&w, check_trainer(job, &k->hosts, err), err);
	check_note(&w, check_hosts(job, dirs, k, err), err);
	check_note(&w, in_trial(job, dirs, call, k, err), err);
	if (w.count == 0)
		return 0;
	*err = w.last;
	err->code = w.code;
	return -1;
}

/* ---- what it will do ---- */

static void add_memory(struct record_out *o, const char *key, uint64_t bytes)
{
	if (bytes > 0)
		record_add_u64(o, key, bytes);
	else
		record_add(o, key, "all");
}

static void put_start(const struct job *job, const struct dirs *dirs, const struct checked *k)
{
	struct record_out *o =
		RECORD("check", F("job", job->name), F("start", start_names[k->start]),
		       F("rows", k->ready.samples), F("bad-rows", k->ready.bad_rows),
		       F("samples-done", k->before.samples_done),
		       F("samples", k->ready.samples * job->epochs));
	if (job_kind(job)->foreign) {
		record_add(o, "trainer", job->trainer);
		record_add(o, "trainer-kind", job->trainer_kind);
	} else {
		record_add_u64(o, "dense", k->dense);
		record_add_u64(o, "sparse", k->sparse);
		record_add(o, "model", job->model);
		record_add_u64(o, "parameters", k->parameters);
	}
	record_add_u64(o, "workers", job->workers);
	record_add_u64(o, "servers", job_kind(job)->holds == HOLD_SERVERS ? job->servers : 0);
	record_add_u64(o, "batch", job->batch);
	record_add_u64(o, "epochs", job->epochs);
	record_add(o, "sync", job->sync);
	record_add(o, "solution", job->solution);
	if (job_has_brain(job)) {
		struct brain_limits l = brain_limits_of(job, &k->hosts);
		record_add(o, "brain", job->brain);
		record_add_u64(o, "cores", l.cores);
		record_add_u64(o, "node-cores", l.node_cores);
		add_memory(o, "memory", l.bytes);
		add_memory(o, "node-memory", l.node_bytes);
	}
	record_add_u64(o, "hosts", k->hosts.count - k->hosts.first);
	record_add(o, "launcher", k->hosts.launcher->name);
	record_add(o, "run-dir", dirs->run);
	record_add(o, "state-dir", dirs->state);
	record_print(stdout, o);
}

static void put_cluster(const struct job *job, const struct checked *k)
{
	struct record_out *o = RECORD_BARE("job");
	copy_job(o, job, k->ready.samples, k->hosts.count - k->hosts.first);
	record_print(stdout, o);
}

static void tell_files(const char *what, const struct job_list *files, const uint64_t *rows)
{
	for (size_t i = 0; i < files->count; i++) {
		printf("  %-12s %s", i == 0 ? what : "", files->item[i]);
		if (rows)
			printf("  (%llu rows)", (unsigned long long)rows[i]);
		putchar('\n');
	}
}

static void tell_hosts(const struct hosts *h)
{
	char text[HOSTS_TEXT_MAX];
	for (size_t i = 0; h->count > 1 && i < h->count; i++) {
		hosts_text(h, i, text);
		printf("  %-12s %s\n", i == 0 ? "hosts" : "", text);
	}
}

static void tell_trainer(const struct job *job)
{
	const struct job_kind *kind = job_kind(job);
	printf("  %-12s %s\n  %-12s %s: %s\n", "trainer", job->trainer, "", kind->name, kind->does);
	if (job->each_output[0])
		printf("  %-12s %s\n", "output", job->each_output);
}

static void tell_brain(const struct job *job, const struct checked *k)
{
	char all[HUMAN_MAX], one[HUMAN_MAX];
	if (!job_has_brain(job))
		return;
	struct brain_limits l = brain_limits_of(job, &k->hosts);
	printf("  %-12s %s: at most %llu cores, %llu a node", "brain", job->brain,
	       (unsigned long long)l.cores, (unsigned long long)l.node_cores);
	if (l.bytes > 0)
		printf("; %s of memory", human_bytes((double)l.bytes, all));
	if (l.node_bytes > 0)
		printf("%s %s a node", l.bytes > 0 ? "," : ";",
		       human_bytes((double)l.node_bytes, one));
	printf("; changes %g s apart, %llu at most\n", job->plan_every,
	       (unsigned long long)job->plan_limit);
}

static void tell_start(const struct job *job, const struct dirs *dirs, const struct checked *k)
{
	const unsigned long long done = k->before.samples_done,
				 all = k->ready.samples * job->epochs,
				 batches = (all + job->batch - 1) / job->batch;
	switch (k->start) {
	case START_BEGIN:
		printf("%s: run would begin it\n", job->name);
		break;
	case START_GO_ON:
		printf("%s: run would go on with it, after %llu of %llu samples\n", job->name, done,
		       all);
		break;
	case START_ADOPT:
		printf("%s: run would take over the nodes that run, %s for one\n", job->name,
		       k->before.node);
		break;
	case START_OVER:
		printf("%s: run --fresh would start it over; the run before is kept until the new "
		       "one has a checkpoint\n",
		       job->name);
		break;
	case START_FINISHED:
		return;
	}
	tell_files("data", &job->data, k->ready.rows);
	if (k->ready.bad_rows > 0)
		printf("  %-12s %llu rows can't be read and are left out\n", "",
		       (unsigned long long)k->ready.bad_rows);
	tell_files("test", &job->test, NULL);
	if (job_kind(job)->foreign)
		tell_trainer(job);
	else {
		printf("  %-12s %s; %zu numeric columns, %zu of categories\n", "format",
		       job->format, k->dense, k->sparse);
		printf("  %-12s %s, %llu parameters at most; %s, learning rate %g%s%s\n", "model",
		       job->model, (unsigned long long)k->parameters, job->optimizer, job->lr,
		       strcmp(job->schedule, "constant") == 0 ? "" : ", schedule ",
		       strcmp(job->schedule, "constant") == 0 ? "" : job->schedule);
	}
	printf("  %-12s %llu epoch%s of %llu rows, about %llu batches of %llu\n", "course",
	       (unsigned long long)job->epochs, job->epochs == 1 ? "" : "s",
	       (unsigned long long)k->ready.samples, batches, (unsigned long long)job->batch);
	if (job->max_time > 0)
		printf("  %-12s %g s at most\n", "", job->max_time);
	printf("  %-12s %llu worker%s, ", "nodes", (unsigned long long)job->workers,
	       job->workers == 1 ? "" : "s");
	if (job_kind(job)->holds == HOLD_SERVERS)
		printf("%llu server%s, ", (unsigned long long)job->servers,
		       job->servers == 1 ? "" : "s");
	printf("%s; solution %s\n", job->sync, job->solution);
	tell_brain(job, k);
	tell_hosts(&k->hosts);
	printf("  %-12s %s\n  %-12s %s\n", "sockets", dirs->run, "state", dirs->state);
}

/* ---- a test of the hosts ---- */

static void tell_test(const struct host_test *t)
{
	static const char *const of[] = {"compute", "memory", "link"};
	char number[HUMAN_MAX];
	printf("  %-12s %s", "self-test", t->host);
	for (int k = 0; k < HOST_TEST_KINDS; k++)
		if (!isnan(t->value[k]))
			printf("%s %s %s/s", k == 0 ? ":" : ",", of[k],
			       human_count(t->value[k], number));
	printf("%s%s\n", t->why[0] ? "; BAD: " : "; good", t->why);
}

static void put_test(const struct host_test *t)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	host_test_record(&o, line, sizeof line, t);
	record_print(stdout, &o);
}

static int self_test(struct hosts *hosts, struct error *err)
{
	struct hosts_environment env;
	trainctl_hosts_environment(&env);
	int bad = hosts_test(hosts, &env, isatty(STDOUT_FILENO) ? tell_test : put_test, err);
	return bad > 0 ? ERROR_NEGATIVE : bad;
}

/* The exit status that run would have, as far as it is known now; -1: err says why it would fail.
 */
static int check_job(const char *path, const struct call *call, struct error *err)
{
	static struct checked k;
	struct job job;
	struct dirs dirs;
	char text[SPENT_TEXT_MAX];
	if (trainctl_begin(&job, &dirs, path, &call->run, err) != 0)
		return -1;
	int result = trainctl_hosts(&k.hosts, &job, err);
	if (result == 0)
		result = check_whole_job(&job, &dirs, call, &k, err);
	if (result == 0 && call->cluster)
		put_cluster(&job, &k);
	else if (result == 0 && k.start == START_FINISHED) {
		fprintf(stderr, PROGRAM ": this job has been finished; --fresh starts over\n");
		spent_text(&job, &dirs, k.before.ended, text);
		if (text[0])
			fprintf(stderr, PROGRAM ": %s\n", text);
		fputs(k.before.summary, stdout);
		result = k.before.status;
	} else if (result == 0 && isatty(STDOUT_FILENO))
		tell_start(&job, &dirs, &k);
	else if (result == 0)
		put_start(&job, &dirs, &k);
	if (result == 0 && !call->cluster && k.start != START_FINISHED && k.start != START_ADOPT) {
		fflush(stdout);
		trainctl_tell_hosts(&job, &k.hosts);
	}
	if (result == 0 && call->self_test)
		result = self_test(&k.hosts, err);
	free(k.ready.rows);
	hosts_free(&k.hosts);
	job_free(&job);
	return result;
}

/* ---- a process that cleans up ---- */

static pid_t looking;
static volatile sig_atomic_t passed_on;

static void check_pass_on(int sig)
{
	passed_on = 1;
	if (looking > 0)
		kill(looking, sig);
}

/* Indexing large data takes a while, and Ctrl-C must not leave half an index in /tmp. So another
 * process does the work, and this one waits and removes the directory. */
static int check_apart(const char *path, struct call *call, struct error *err)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	const struct sigaction action = {.sa_handler = check_pass_on};
	const char *tmp = getenv("TMPDIR");
	int result;
	snprintf(call->trial, sizeof call->trial, "%.3000s/trainctl-check.XXXXXX",
		 tmp && tmp[0] ? tmp : "/tmp");
	if (!mkdtemp(call->trial))
		return error_errno(err, ERROR_CANTCREAT, call->trial, "can't be made");
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &action, NULL);
	looking = process_fork();
	if (looking == 0) {
		process_signals_reset();
		signal(SIGPIPE, SIG_IGN);
		result = check_job(path, call, err);
		exit(cmd_end(PROGRAM, result >= 0 ? result : cmd_fail(PROGRAM, err)));
	}
	if (looking < 0)
		result = error_errno(err, ERROR_OS, NULL, "no process");
	else {
		int status = process_wait(looking);
		if (WIFEXITED(status))
			result = WEXITSTATUS(status);
		else if (passed_on)
			result = 128 + WTERMSIG(status);
		else
			result = error_set(err, ERROR_OS, path,
					   "the process that looked at the job was killed by signal %d",
					   WTERMSIG(status));
	}
	fs_remove_tree(call->trial, NULL);
	return result;
}

int trainctl_check(int argc, char **argv)
{
	static struct call call;
	const struct option_row rows[] = {TRAINCTL_ROWS_CALL(&call.run),
					  {.name = "self-test",
					   .kind = OPTION_FLAG,
					   .target = &call.self_test,
					   .help = "test the hosts, for a second or two; if any is "
						   "bad, name it and exit with 1"},
					  {.name = "cluster",
					   .kind = OPTION_FLAG,
					   .target = &call.cluster,
					   .help = "print the job as trainsim reads it"},
					  {0}};
	const struct option_table table = {
		PROGRAM " check", "JOB.env [OPTION]...",
		"Checks a job as run would before it starts a process, with the same errors and "
		"the same exit status. It changes nothing, and says what the job will do.",
		rows, NULL};
	const char *path;
	struct error err;
	cmd_parsed(PROGRAM, trainctl_parse(&table, argc, argv, "job file", &path, &err), &err);
	int result = check_apart(path, &call, &err);
	return result >= 0 ? result : cmd_fail(PROGRAM, &err);
}

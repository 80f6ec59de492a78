/*
 * role: see role.h.  The run directory stands on every command line, and a worker's --id before it:
 * people look nodes up by them.
 */
#include "run/sup.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/words.h"
#include "ckpt/ckpt.h"
#include "proc/process.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPORT_SECONDS_MAX 0.5
#define ANSWER_SECONDS 864000.0
#define WAIT_SECONDS_MAX 86400.0
#define LEARNT_BYTES_MAX (64u << 20)

/* Words one behind the other, then made into one block. */
struct words {
	char *text;
	size_t len, room, count;
	int failed;
};

static void put(struct words *w, const char *data, size_t len)
{
	if (GROW(w->text, w->room, w->len + len) != 0) {
		w->failed = 1;
		return;
	}
	memcpy(w->text + w->len, data, len);
	w->len += len;
}

__attribute__((format(printf, 2, 3))) static void add(struct words *w, const char *fmt, ...)
{
	char word[2 * DIRS_PATH_MAX];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(word, sizeof word, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof word)
		w->failed = 1;
	else
		put(w, word, (size_t)n + 1);
	w->count++;
}

static void add_count(struct words *w, const char *option, uint64_t value)
{
	add(w, "%s", option);
	add(w, "%llu", (unsigned long long)value);
}

static void add_real(struct words *w, const char *option, double value)
{
	add(w, "%s", option);
	add(w, "%.17g", value);
}

static void add_text(struct words *w, const char *option, const char *value)
{
	add(w, "%s", option);
	add(w, "%s", value);
}

void sup_socket(const struct supervisor *s, const char *id, char *out)
{
	char name[96];
	snprintf(name, sizeof name, "%s.sock", id);
	dirs_run(&s->dirs, name, out);
}

static void add_socket(struct words *w, const struct supervisor *s, const char *option,
		       const char *id)
{
	char path[DIRS_PATH_MAX];
	sup_socket(s, id, path);
	add_text(w, option, path);
}

static void add_state(struct words *w, const struct supervisor *s, const char *option,
		      const char *name)
{
	char path[DIRS_PATH_MAX];
	dirs_state(&s->dirs, name, path);
	add_text(w, option, path);
}

/* Sockets of those that hold parameters but the first `skip`, separated by commas, as one word. */
static void add_servers(struct words *w, const struct supervisor *s, const char *option,
			size_t skip)
{
	char path[DIRS_PATH_MAX];
	add(w, "%s", option);
	int first = 1;
	EACH_OF (n, s, sup_keepers(s)) {
		if (sup_rank(n) < skip || (n->role == &role_server && !sup_scale_has_part(n)))
			continue;
		sup_socket(s, n->id, path);
		put(w, ",", first ? 0 : 1);
		put(w, path, strlen(path));
		first = 0;
	}
	put(w, "", 1);
	w->count++;
}

/* Its drag file: ID.LIFE for this process only, else ID; given even when it is not there yet,
 * because a node reads it anew before each batch. */
static void add_drag(struct words *w, const struct sup_node *n, uint64_t life)
{
	const char *dir = n->sup->job->drag;
	char path[DIRS_PATH_MAX];
	if (!dir[0])
		return;
	snprintf(path, sizeof path, "%.3900s/%s.%llu", dir, n->id, (unsigned long long)life);
	if (access(path, F_OK) != 0)
		snprintf(path, sizeof path, "%.3900s/%s", dir, n->id);
	add_text(w, "--drag", path);
}

/* As one word: with many workers it is longer than add() takes. */
static void add_partitions(struct words *w, const struct supervisor *s)
{
	char one[128];
	add(w, "--partitions");
	EACH_OF (n, s, &role_worker) {
		int len = snprintf(one, sizeof one, "%s:%llu", n->id,
				   (unsigned long long)s->options.rows[n->number]);
		put(w, one, (size_t)len);
		put(w, sup_next_of(n) ? "," : "", 1);
	}
	w->count++;
	add_real(w, "--migrate", s->job->migrate);
}

static void shardd_words(struct words *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	const struct job *job = s->job;
	(void)life;
	(void)take_over;
	add_socket(w, s, "-s", "shardd");
	add_state(w, s, "-j", "journal");
	add_count(w, "-n", s->options.samples);
	add_count(w, "-b", job->batch);
	add_count(w, "-m", job->batches_per_shard);
	add_count(w, "-e", job->epochs);
	add_text(w, "--shuffle", job->shuffle);
	add_count(w, "--seed", job->seed);
	add_count(w, "--retries", job->shard_retries);
	if (sup_lead(s))
		add(w, "--settle-only");
	if (job_is_local(job))
		add_partitions(w, s);
}

static void monitor_words(struct words *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	(void)life;
	(void)take_over;
	add_socket(w, s, "-s", "bpt-monitor");
	add_real(w, "--short", s->job->shorter);
	add_real(w, "--long", s->job->longer);
	add_state(w, s, "--log", "bpt.log");
}

/* A decision must find something newer than the last one did. */
static void add_report(struct words *w, const struct job *job)
{
	add_count(w, "--report-every", job->report_every);
	add_real(w, "--report-seconds", fmin(REPORT_SECONDS_MAX, job->every / 2));
}

/* A worker that does not move is found here first, and killed. The lead lets go of members that are
 * no nodes of this job, and of all while nobody supervises it; 0: never. */
static double stranger_seconds(const struct supervisor *s)
{
	double seconds = fmax(2 * s->watchdog.rules.least[PULSE_BATCH],
			      s->watchdog.rules.least[PULSE_START]);
	if (job_has_foreign_parameters(s->job)) /* they write checkpoints */
		seconds = fmax(seconds, 2 * s->watchdog.saving.least[PULSE_CHECKPOINT]);
	return isfinite(seconds) ? seconds : 0;
}

static void add_who(struct words *w, const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	add_text(w, "--id", n->id);
	add_socket(w, s, "-s", n->id);
	add_count(w, "--incarnation", s->recover.incarnation ? s->recover.incarnation : 1);
}

void sup_memory_dir(const struct supervisor *s, char out[DIRS_PATH_MAX])
{
	out[0] = '\0';
	if (s->job->checkpoint_memory[0])
		snprintf(out, DIRS_PATH_MAX, "%s/paceline-%u-%s", s->job->checkpoint_memory,
			 (unsigned)getuid(), s->job->name);
}

static void add_parameters(struct words *w, const struct supervisor *s)
{
	char memory[DIRS_PATH_MAX];
	add_state(w, s, "--layout", "layout");
	add_text(w, "--optimizer", s->job->optimizer);
	add_real(w, "--lr", s->job->lr);
	add_real(w, "--l2", s->job->l2);
	add_count(w, "--checkpoint-level", s->job->checkpoint_level);
	sup_memory_dir(s, memory);
	if (memory[0])
		add_text(w, "--memory", memory);
}

/* The checkpoint that a job begins with, of this start or of all; NULL: none. */
static const char *restored(const struct supervisor *s)
{
	if (s->recover.cut[0])
		return s->recover.cut;
	return s->job->init[0] ? s->job->init : NULL;
}

/* What a lead needs to know, wherever it is. */
static void add_lead(struct words *w, const struct supervisor *s)
{
	const struct job *job = s->job;
	add_socket(w, s, "--shards", "shardd");
	add_text(w, "--job", job->name);
	if (job_balance(job)) {
		add_text(w, "--balance", job_balance(job));
		add_count(w, "--batch", sup_scale_batch(s));
		add_count(w, "--least", job->options.least);
		add_count(w, "--expect", sup_count(s, sup_trainers(s)));
		add_state(w, s, "--balance-log", "balance.log");
	}
	static const char *const included[] = {"job.env", "schema", "layout", "model"};
	size_t count = job_is_foreign(job) ? 1 : sizeof included / sizeof *included;
	for (size_t i = 0; i < count; i++)
		add_state(w, s, "--include", included[i]);
}

static void server_words(struct words *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	size_t servers = (size_t)s->scale.now.servers;
	add_who(w, n);
	add(w, "--part");
	add(w, "%zu/%zu", sup_rank(n), servers);
	if (n->joining)
		add(w, "--join");
	else if (!take_over && sup_scale_map(s) > 1)
		add_count(w, "--map-version", sup_scale_map(s));
	add_real(w, "--hung", stranger_seconds(s));
	add_text(w, "--sync", s->job->sync);
	add_parameters(w, s);
	/* What it takes over comes from the process before it; that cut may be pruned by now. */
	if (take_over)
		add(w, "--take-over");
	else if (restored(s) && !n->joining)
		add_text(w, "--restore", restored(s));
	add_socket(w, s, "--monitor", "bpt-monitor");
	add_report(w, s->job);
	add_drag(w, n, life);
	if (n != sup_lead(s))
		return;
	if (servers > 1)
		add_servers(w, s, "--servers", 1);
	add_lead(w, s);
}

static void lead_words(struct words *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	(void)life;
	(void)take_over;
	add_who(w, n);
	add(w, "--lead-only");
	if (job_is_foreign(s->job)) {
		add_text(w, "--sync", s->job->sync);
		if (restored(s))
			add_text(w, "--restore", restored(s));
	} else
		add_servers(w, s, "--replicas", 0);
	add_real(w, "--hung", stranger_seconds(s));
	add_lead(w, s);
}

/* The names of the replicas' hosts, in their order. */
static void add_fabric(struct words *w, const struct supervisor *s)
{
	add_socket(w, s, "--fabric", sup_fabric(s)->id);
	add(w, "--hosts");
	EACH_OF (n, s, &role_replica) {
		const char *name = s->hosts.host[n->home].name;
		put(w, name, strlen(name));
		put(w, sup_next_of(n) ? "," : "", 1);
	}
	w->count++;
}

/* One that begins with the others has what they have; a later one is filled by one of them. */
static void replica_words(struct words *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	(void)take_over;
	add_who(w, n);
	add(w, "--replica");
	add(w, "%zu/%zu", sup_rank(n), sup_count(s, n->role));
	add_parameters(w, s);
	if (s->recover.together && restored(s))
		add_text(w, "--restore", restored(s));
	else if (s->recover.together)
		add(w, "--serve");
	if (sup_count(s, n->role) > 1)
		add_fabric(w, s);
	add_socket(w, s, "--monitor", "bpt-monitor");
	add_report(w, s->job);
	add_drag(w, n, life);
}

int sup_workers_learn(const struct supervisor *s)
{
	return job_balance(s->job) && strcmp(s->job->solution, "lb-bsp") == 0;
}

static void learnt_path(const struct sup_node *n, char *out)
{
	char name[96];
	snprintf(name, sizeof name, "predict-%s", n->id);
	dirs_state(&n->sup->dirs, name, out);
}

/* A worker starts with what it learnt in its earlier life; a new one with what PREDICT_FROM says,
 * the state of another job or one file, or with what another worker of this job has learnt. */
static int find_learnt(const struct sup_node *n, char out[DIRS_PATH_MAX])
{
	const struct job *job = n->sup->job;
	char state[DIRS_PATH_MAX];
	learnt_path(n, out);
	if (access(out, F_OK) == 0)
		return 0;
	if (job->predict_from[0]) {
		if (dirs_learnt(job->predict_from, n->id, out) != 0)
			snprintf(out, DIRS_PATH_MAX, "%s", job->predict_from);
		return 0;
	}
	dirs_state(&n->sup->dirs, "", state);
	return dirs_learnt(state, n->id, out);
}

/* What is brought to another host is the worker's own: nothing of another name is written there. */
static void take_learnt(const struct sup_node *n, char path[DIRS_PATH_MAX])
{
	char own[DIRS_PATH_MAX], *text;
	size_t len;
	learnt_path(n, own);
	if (!n->place.apart || strcmp(path, own) == 0 ||
	    fs_read_file(path, LEARNT_BYTES_MAX, &text, &len, NULL) != 0)
		return;
	if (fs_replace_file(own, text, len, NULL) == 0)
		memcpy(path, own, sizeof own);
	free(text);
}

static void add_predict(struct words *w, const struct sup_node *n)
{
	char path[DIRS_PATH_MAX];
	if (!sup_workers_learn(n->sup))
		return;
	add_text(w, "--predict", n->sup->job->predict);
	if (find_learnt(n, path) == 0) {
		take_learnt(n, path);
		add_text(w, "--predict-load", path);
	}
	learnt_path(n, path);
	add_text(w, "--predict-save", path);
}

static void add_patience(struct words *w, const struct supervisor *s)
{
	/* Who is hung is found here: a worker that waits for him must not give up first. */
	add_real(w, "--answer", ANSWER_SECONDS);
	/* It sits out a rollback longer than we do, even when a server hangs as it starts. */
	add_real(w, "--wait", fmin(2 * s->watchdog.rules.least[PULSE_START], WAIT_SECONDS_MAX));
}

static void worker_words(struct words *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	const struct job *job = s->job;
	(void)take_over;
	add_text(w, "--id", n->id);
	add_socket(w, s, "--shards", "shardd");
	if (job_is_allreduce(job)) {
		add_socket(w, s, "--lead", sup_lead(s)->id);
		add_socket(w, s, "--replica", sup_replica_of(n)->id);
	} else
		add_servers(w, s, "--servers", 0);
	add_socket(w, s, "--monitor", "bpt-monitor");
	if (job_is_local(job)) {
		char spill[96];
		snprintf(spill, sizeof spill, "spill/%s", n->id);
		add_text(w, "--data", job->data.item[n->number]);
		add_state(w, s, "--spill", spill);
		add_text(w, "--peers", s->dirs.run);
	}
	for (size_t i = 0; !job_is_local(job) && i < job->data.count; i++)
		add_text(w, "--data", job->data.item[i]);
	add_state(w, s, "--index-dir", "index");
	add_state(w, s, "--schema", "schema");
	add_state(w, s, "--model-file", "model");
	add_count(w, "--batch", sup_share(n));
	add_text(w, "--bad-rows", job->bad_rows);
	add_count(w, "--ahead", job->ahead);
	add_report(w, job);
	add_text(w, "--profile", job->profile);
	add_predict(w, n);
	add_patience(w, s);
	add_drag(w, n, life);
}

/* As the worker that it may become. */
static void spare_words(struct words *w, const struct sup_node *n, uint64_t life, int take_over)
{
	worker_words(w, n, life, take_over);
	add_socket(w, n->sup, "--spare", "trainctl");
}

/* A format of NAME=VALUE and its arguments, for the node's environment. */
#define ADD_VARIABLE(w, ...) (add(w, "--env"), add(w, __VA_ARGS__))

/* What torch.distributed and the like look for. */
static void add_environment(struct words *w, const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	char address[HOST_NAME_MAX_BYTES];
	size_t rank = 0, local = 0, beside = 0, count = 0;
	EACH_OF (other, s, n->role) {
		if (other == n) {
			rank = count;
			local = beside;
		}
		beside += other->at == n->at;
		count++;
	}
	sup_trainers_address(s, address, sizeof address);
	ADD_VARIABLE(w, "RANK=%zu", rank);
	ADD_VARIABLE(w, "WORLD_SIZE=%zu", count);
	ADD_VARIABLE(w, "LOCAL_RANK=%zu", local);
	ADD_VARIABLE(w, "LOCAL_WORLD_SIZE=%zu", beside);
	ADD_VARIABLE(w, "MASTER_ADDR=%s", address);
	ADD_VARIABLE(w, "MASTER_PORT=%u", s->trainers.port);
	ADD_VARIABLE(w, "PACELINE_SAMPLES=%llu", (unsigned long long)s->options.samples);
	ADD_VARIABLE(w, "PACELINE_EPOCHS=%llu", (unsigned long long)s->job->epochs);
	ADD_VARIABLE(w, "PACELINE_BATCH=%llu", (unsigned long long)s->job->batch);
	ADD_VARIABLE(w, "PACELINE_JOB=%s", s->job->name);
	ADD_VARIABLE(w, "PACELINE_STATE=%s", s->dirs.state);
	if (s->job->data.count == 0)
		return;
	char *names = words_join(s->job->data.item, s->job->data.count);
	add(w, "--env");
	w->failed |= names == NULL;
	put(w, "PACELINE_DATA=", strlen("PACELINE_DATA="));
	put(w, names ? names : "", names ? strlen(names) + 1 : 1);
	w->count++;
	free(names);
}

/* Rows for a command's standard input, text as in the files. */
static void add_rows(struct words *w, const struct supervisor *s)
{
	const struct job *job = s->job;
	for (size_t i = 0; i < job->data.count; i++)
		add_text(w, "--rows", job->data.item[i]);
	if (job->data.count == 0)
		return;
	add_state(w, s, "--index-dir", "index");
	add_text(w, "--format", job->format);
	if (strcmp(job->format, "csv") == 0)
		add_text(w, "--separator", job->separator);
	if (strcmp(job->trainer_header, "1") == 0)
		add(w, "--header");
}

static void agent_words(struct words *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	const struct job *job = s->job;
	(void)life;
	(void)take_over;
	add_text(w, "--id", n->id);
	add_socket(w, s, "--shards", "shardd");
	if (sup_lead(s)) {
		add_socket(w, s, "--lead", sup_lead(s)->id);
		add_count(w, "--batch", sup_share(n));
		add(w, "--rank");
		add(w, "%zu/%zu", sup_rank(n), sup_count(s, n->role));
		if (restored(s))
			add_text(w, "--resume", restored(s));
		add_count(w, "--ahead", job->ahead);
		add_report(w, job);
		add_patience(w, s);
	} else
		add_rows(w, s);
	add_socket(w, s, "--monitor", "bpt-monitor");
	if (strcmp(job->trainer_kind, "each") == 0) {
		add(w, "--each");
		if (job->each_output[0])
			add_text(w, "--output", job->each_output);
		if (job->each_jobs > 1)
			add_count(w, "--jobs", job->each_jobs);
	}
	add_real(w, "--grace", job->trainer_grace);
	add_environment(w, n);
	add(w, "--");
	add(w, "/bin/sh");
	add(w, "-c");
	put(w, job->trainer, strlen(job->trainer) + 1);
	w->count++;
}

static void add_fabricd(struct words *w, const struct supervisor *s, const char *fabricd)
{
	char routes[DIRS_PATH_MAX];
	dirs_run(&s->dirs, "routes", routes);
	add(w, "%s", fabricd);
	add_text(w, "--run-dir", s->dirs.run);
	add_text(w, "--routes", routes);
}

/* A context for each host, so that each rank is told the name of its own; this host has rank 0. */
static void add_mpirun(struct words *w, const struct supervisor *s, const char *fabricd)
{
	char users[DIRS_PATH_MAX];
	size_t added = 0;
	add(w, "mpirun");
	add(w, "--oversubscribe");
	add_text(w, "--bind-to", "none");
	add(w, "--mca");
	add_text(w, "odls_base_sigkill_timeout", "0");
	if (sup_more_in_world(s)) { /* several allocations: mpirun knows only its own */
		add(w, "--mca");
		add_text(w, "plm", "rsh");
		add(w, "--mca");
		add_text(w, "ras", "^slurm");
	}
	add(w, "--mca");
	dirs_run(&s->dirs, SUP_ROUTES_USERS, users);
	add(w, "plm_rsh_agent");
	if (sup_routes_have_users(s) || sup_more_in_world(s))
		add(w, "sh %s", users);
	else
		add(w, SUP_ROUTES_SSH);
	for (size_t i = 0; i < s->hosts.count; i++) {
		const struct sup_host *h = &s->hosts.host[i];
		const char *at = strrchr(h->place->host, '@');
		if (!h->in_world)
			continue;
		if (added++ > 0)
			add(w, ":");
		add_text(w, "-n", "1");
		add_text(w, "--host", at ? at + 1 : h->place->host);
		add_fabricd(w, s, fabricd);
		add_text(w, "--host", h->name);
	}
}

static void add_network(struct words *w, const char *network)
{
	add(w, "OMPI_MCA_btl_tcp_if_include=%s", network);
	add(w, "OMPI_MCA_oob_tcp_if_include=%s", network);
}

/* The process that holds the MPI world together. In an allocation of Slurm mpirun starts its ranks by
 * srun, else by ssh. */
static void fabric_words(struct words *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	char fabricd[DIRS_PATH_MAX];
	(void)life;
	(void)take_over;
	if (process_find("fabricd", s->options.search_path, fabricd, sizeof fabricd, NULL) != 0)
		snprintf(fabricd, sizeof fabricd, "fabricd");
	if (geteuid() == 0) { /* so was trainctl started; then mpirun wants to be asked twice */
		add(w, "OMPI_ALLOW_RUN_AS_ROOT=1");
		add(w, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
	}
	if (s->options.network && s->options.network[0])
		add_network(w, s->options.network);
	add(w, "SLURM_OVERLAP=1"); /* what it has started by srun runs beside the nodes' steps */
	add_mpirun(w, s, fabricd);
}

/* ---- files ---- */

static void put_file(const char **list, char (*path)[DIRS_PATH_MAX], const char *file)
{
	size_t i = 0;
	while (i < SUP_FILES_MAX && list[i])
		i++;
	if (i == SUP_FILES_MAX)
		return;
	snprintf(path[i], sizeof path[i], "%s", file);
	list[i] = path[i];
}

static void make_dir(struct sup_files *f, const struct sup_node *n, const char *name)
{
	char path[DIRS_PATH_MAX];
	dirs_state(&n->sup->dirs, name, path);
	put_file(f->make, f->path[0], path);
}

static void bring_file(struct sup_files *f, const struct sup_node *n, const char *name)
{
	char path[DIRS_PATH_MAX];
	dirs_state(&n->sup->dirs, name, path);
	if (access(path, R_OK) == 0)
		put_file(f->bring, f->path[1], path);
}

/* What servers begin with, and what it needs. */
static void bring_cut(struct sup_files *f, const char *cut)
{
	char base[DIRS_PATH_MAX];
	put_file(f->bring, f->path[1], cut);
	if (ckpt_find_base(cut, base, sizeof base) == 0)
		put_file(f->bring, f->path[1], base);
}

void sup_files(const struct sup_node *n, struct sup_files *f)
{
	const struct supervisor *s = n->sup;
	char learnt[96];
	memset(f->make, 0, sizeof f->make);
	memset(f->bring, 0, sizeof f->bring);
	put_file(f->make, f->path[0], s->dirs.run);
	put_file(f->make, f->path[0], s->dirs.state);
	if (n->role == &role_worker || n->role == &role_spare) {
		snprintf(learnt, sizeof learnt, "predict-%s", n->id);
		make_dir(f, n, "index");
		make_dir(f, n, "spill");
		bring_file(f, n, "schema");
		bring_file(f, n, "model");
		bring_file(f, n, learnt);
	} else if (n->role == &role_agent) {
		make_dir(f, n, "index");
		make_dir(f, n, "checkpoints");
		if (restored(s))
			put_file(f->bring, f->path[1], restored(s));
	} else if (n->role->back) {
		make_dir(f, n, "checkpoints");
		bring_file(f, n, "layout");
		if (restored(s) && !n->joining &&
		    (n->role != &role_replica || s->recover.together))
			bring_cut(f, restored(s));
	}
}

/* ---- the table ---- */

static uint64_t single(const struct supervisor *s)
{
	(void)s;
	return 1;
}

static uint64_t fabrics_of(const struct supervisor *s)
{
	return s->hosts.count > 1;
}

static uint64_t servers_of(const struct supervisor *s)
{
	return job_is_allreduce(s->job) || job_is_foreign(s->job) ? 0 : sup_scale_servers(s);
}

static uint64_t leads_of(const struct supervisor *s)
{
	return job_is_allreduce(s->job) || job_has_foreign_parameters(s->job) ? 1 : 0;
}

/* One on each host that trains. */
static uint64_t replicas_of(const struct supervisor *s)
{
	return job_is_allreduce(s->job) ? s->hosts.count - s->hosts.first : 0;
}

static uint64_t workers_of(const struct supervisor *s)
{
	return job_is_foreign(s->job) ? 0 : sup_scale_workers(s);
}

static uint64_t agents_of(const struct supervisor *s)
{
	return job_is_foreign(s->job) ? sup_scale_workers(s) : 0;
}

static uint64_t spares_of(const struct supervisor *s)
{
	return s->job->hot_spares;
}

static const char *launch_server(const struct job *job)
{
	return job->launch_server;
}

static const char *launch_worker(const struct job *job)
{
	return job->launch_worker;
}

static struct limits server_limits(const struct job *job)
{
	return (struct limits){.cores = job->server_cores, .memory = job->server_memory};
}

static struct limits worker_limits(const struct job *job)
{
	return (struct limits){.cores = job->worker_cores, .memory = job->worker_memory};
}

const struct role role_fabric = {.name = "fabric",
				 .program = "env",
				 .id = "fabric",
				 .count = fabrics_of,
				 .words = fabric_words,
				 .retried = 1,
				 .service = 1};
const struct role role_shardd = {.name = "shardd",
				 .program = "shardd",
				 .id = "shardd",
				 .count = single,
				 .words = shardd_words,
				 .asked = "workers",
				 .service = 1};
const struct role role_monitor = {.name = "monitor",
				  .program = "bpt-monitor",
				  .id = "bpt-monitor",
				  .count = single,
				  .words = monitor_words,
				  .service = 1};
const struct role role_lead = {.name = "lead",
			       .program = "ps-server",
			       .id = "lead",
			       .count = leads_of,
			       .words = lead_words,
			       .death = DEATH_LEAD,
			       .restart = RESTART_KILL,
			       .back = 1};
const struct role role_replica = {.name = "replica",
				  .program = "ps-server",
				  .id = "r%u",
				  .count = replicas_of,
				  .words = replica_words,
				  .template = launch_server,
				  .limits = server_limits,
				  .keeps = 1,
				  .where = WHERE_REPLICA,
				  .death = DEATH_REPLICA,
				  .restart = RESTART_KILL,
				  .asked = "stat",
				  .told = "server",
				  .back = 1};
const struct role role_server = {.name = "server",
				 .program = "ps-server",
				 .id = "ps%u",
				 .count = servers_of,
				 .words = server_words,
				 .template = launch_server,
				  .limits = server_limits,
				  .keeps = 1,
				 .where = WHERE_SERVER,
				 .death = DEATH_ROLLBACK,
				 .restart = RESTART_HAND_OVER,
				 .told = "server",
				 .back = 1};
const struct role role_worker = {.name = "worker",
				 .program = "worker",
				 .id = "w%u",
				 .count = workers_of,
				 .words = worker_words,
				 .template = launch_worker,
				  .limits = worker_limits,
				 .where = WHERE_WORKER,
				 .ready = READY_MEMBER,
				 .death = DEATH_FENCE,
				 .restart = RESTART_KILL,
				 .told = "worker"};
/* Whoever looks at the job sees a worker; its program is the agent around a trainer. */
const struct role role_agent = {.name = "worker",
				.program = "agent",
				.id = "w%u",
				.count = agents_of,
				.words = agent_words,
				.template = launch_worker,
				  .limits = worker_limits,
				.where = WHERE_WORKER,
				.ready = READY_MEMBER,
				.death = DEATH_TRAINER,
				.restart = RESTART_KILL,
				.told = "worker",
				.foreign = 1};
/* What it may have left behind is of the time when it was a worker. */
const struct role role_spare = {.name = "spare",
				.program = "worker",
				.id = "s%u",
				.count = spares_of,
				.words = spare_words,
				.template = launch_worker,
				.limits = worker_limits,
				.where = WHERE_SPARE,
				.ready = READY_ASKS,
				.death = DEATH_FENCE};
const struct role *const roles[] = {&role_fabric,  &role_shardd, &role_monitor,
				    &role_lead,    &role_replica, &role_server,
				    &role_worker,  &role_agent,   &role_spare,   NULL};

char **sup_command(const struct sup_node *n, uint64_t life, int take_over, struct error *err)
{
	struct words w = {0};
	char path[DIRS_PATH_MAX];
	if (process_find(n->role->program, n->sup->options.search_path, path, sizeof path, err) !=
	    0)
		return NULL;
	add(&w, "%s", path);
	n->role->words(&w, n, life, take_over);
	size_t table = (w.count + 1) * sizeof(char *);
	char **argv = w.failed ? NULL : malloc(table + w.len);
	if (argv) {
		char *p = (char *)argv + table;
		memcpy(p, w.text, w.len);
		for (size_t i = 0; i < w.count; i++, p += strlen(p) + 1)
			argv[i] = p;
		argv[w.count] = NULL;
	} else
		error_set(err, ERROR_OS, n->id, "command line too long, or out of memory");
	free(w.text);
	return argv;
}

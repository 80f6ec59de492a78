/*
 * role: see role.h.  Every command line has the run directory, and before it a worker's has --id:
 * by these people find a node among all processes.
 */
#include "run/sup.h"

#include "base/argv.h"
#include "base/fs.h"
#include "base/words.h"
#include "ckpt/ckpt.h"
#include "proc/process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_BYTES 60000 /* of names in a variable, before they are quoted */
#define REPORT_SECONDS_MAX 0.5
#define ANSWER_SECONDS 864000.0
#define WAIT_SECONDS_MAX 86400.0
#define LEARNT_BYTES_MAX (64u << 20)

void sup_socket(const struct supervisor *s, const char *id, char *out)
{
	char name[96];
	snprintf(name, sizeof name, "%s.sock", id);
	dirs_run(&s->dirs, name, out);
}

static void add_socket(struct argv *w, const struct supervisor *s, const char *option,
		       const char *id)
{
	char path[DIRS_PATH_MAX];
	sup_socket(s, id, path);
	argv_add(w, option, path);
}

static void add_state(struct argv *w, const struct supervisor *s, const char *option,
		      const char *name)
{
	char path[DIRS_PATH_MAX];
	dirs_state(&s->dirs, name, path);
	argv_add(w, option, path);
}

/* Sockets of those that hold parameters, except the first `skip`, with commas between them. */
static void add_servers(struct argv *w, const struct supervisor *s, const char *option,
			size_t skip)
{
	char path[DIRS_PATH_MAX];
	argv_add(w, option, "");
	int first = 1;
	EACH_OF (n, s, sup_holders(s)) {
		if (sup_rank(n) < skip || (n->role == &role_server && !sup_scale_has_part(n)))
			continue;
		sup_socket(s, n->id, path);
		argv_more(w, first ? "" : ",");
		argv_more(w, path);
		first = 0;
	}
}

/* Its drag file: ID.LIFE for this process only, else ID; given even when it is not there yet,
 * because a node reads it anew before each batch. */
static void add_drag(struct argv *w, const struct sup_node *n, uint64_t life)
{
	const char *dir = n->sup->job->drag;
	char path[DIRS_PATH_MAX];
	if (!dir[0])
		return;
	snprintf(path, sizeof path, "%.3900s/%s.%llu", dir, n->id, (unsigned long long)life);
	if (access(path, F_OK) != 0)
		snprintf(path, sizeof path, "%.3900s/%s", dir, n->id);
	argv_add(w, "--drag", path);
}

static void add_partitions(struct argv *w, const struct supervisor *s)
{
	char one[128];
	argv_add(w, "--partitions", "");
	EACH_OF (n, s, &role_worker) {
		snprintf(one, sizeof one, "%s:%llu%s", n->id,
			 (unsigned long long)s->options.rows[n->number], sup_next_of(n) ? "," : "");
		argv_more(w, one);
	}
	argv_real(w, "--migrate", s->job->migrate);
}

static void shardd_words(struct argv *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	const struct job *job = s->job;
	(void)life;
	(void)take_over;
	add_socket(w, s, "-s", "shardd");
	add_state(w, s, "-j", "journal");
	argv_u64(w, "-n", s->options.samples);
	argv_u64(w, "-b", job->batch);
	argv_u64(w, "-m", job->batches_per_shard);
	argv_u64(w, "-e", job->epochs);
	if (job_has_documents(job))
		argv_add(w, "--apart");
	argv_add(w, "--shuffle", job->shuffle);
	argv_u64(w, "--seed", job->seed);
	argv_u64(w, "--retries", job->shard_retries);
	if (sup_lead(s))
		argv_add(w, "--settle-only");
	if (job_is_local(job))
		add_partitions(w, s);
}

static void monitor_words(struct argv *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	(void)life;
	(void)take_over;
	add_socket(w, s, "-s", "bpt-monitor");
	argv_real(w, "--short", s->job->shorter);
	argv_real(w, "--long", s->job->longer);
	add_state(w, s, "--log", "bpt.log");
}

/* Reports come so often that each decision finds newer ones than the decision before it. */
static void add_report(struct argv *w, const struct job *job)
{
	argv_u64(w, "--report-every", job->report_every);
	argv_real(w, "--report-seconds", fmin(REPORT_SECONDS_MAX, job->every / 2));
}

/* Seconds after which the lead drops a member that is silent; 0: never. A node of this job that is
 * silent is killed by the watchdog before that. So this only meets members that are no nodes of the
 * job, and, while no supervisor runs, any member. */
static double stranger_seconds(const struct supervisor *s)
{
	double seconds = fmax(2 * s->watchdog.rules.least[PULSE_BATCH],
			      s->watchdog.rules.least[PULSE_START]);
	if (job_kind(s->job)->cut == CUT_SAVED) /* they write checkpoints */
		seconds = fmax(seconds, 2 * s->watchdog.saving.least[PULSE_CHECKPOINT]);
	return isfinite(seconds) ? seconds : 0;
}

static void add_who(struct argv *w, const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	argv_add(w, "--id", n->id);
	add_socket(w, s, "-s", n->id);
	argv_u64(w, "--incarnation", s->recover.incarnation ? s->recover.incarnation : 1);
}

void sup_memory_dir(const struct supervisor *s, char out[DIRS_PATH_MAX])
{
	const char *base = s->job->checkpoint_memory;
	snprintf(out, DIRS_PATH_MAX, "%s/paceline-%u-%s", base[0] ? base : "/dev/shm",
		 (unsigned)getuid(), s->job->name);
}

static void add_checkpoint_memory(struct argv *w, const struct supervisor *s)
{
	char memory[DIRS_PATH_MAX];
	sup_memory_dir(s, memory);
	if (s->job->checkpoint_memory[0])
		argv_add(w, "--memory", memory);
}

static void add_parameters(struct argv *w, const struct supervisor *s)
{
	add_state(w, s, "--layout", "layout");
	argv_add(w, "--optimizer", s->job->optimizer);
	argv_real(w, "--lr", s->job->lr);
	argv_real(w, "--l2", s->job->l2);
	if (strcmp(s->job->schedule, "constant") != 0) {
		argv_add(w, "--schedule", s->job->schedule);
		argv_real(w, "--beta", s->job->rate_beta);
	}
	if (s->job->rate_steps > 0)
		argv_u64(w, "--steps", s->job->rate_steps);
	if (!isnan(s->job->rate_factor))
		argv_real(w, "--factor", s->job->rate_factor);
	if (s->job->warmup > 0)
		argv_u64(w, "--warmup", s->job->warmup);
	if (s->job->decay > 0)
		argv_real(w, "--decay", s->job->decay);
	argv_u64(w, "--checkpoint-level", s->job->checkpoint_level);
	add_checkpoint_memory(w, s);
}

/* The checkpoint with which nodes begin: the one that the job goes back to, or INIT. NULL: none. */
static const char *cut_to_restore(const struct supervisor *s)
{
	if (s->recover.cut[0])
		return s->recover.cut;
	return s->job->init[0] ? s->job->init : NULL;
}

/* The same, of trainers. Where one of them may start later than the others, it begins with what another
 * one has: the checkpoint is an old one then, or pruned. If no other one is left, the lead asks for a
 * rollback. */
static const char *saved_to_restore(const struct supervisor *s)
{
	const char *cut = cut_to_restore(s);
	if (!job_kind(s->job)->sums)
		return cut;
	EACH_OF (n, s, &role_agent)
		if (n->stage == STAGE_READY)
			return NULL;
	int is_pruned = cut == s->recover.cut && !s->recover.intent && access(cut, F_OK) != 0;
	return is_pruned ? NULL : cut;
}

/* What every lead needs to know: the one in the first server, and one of its own. */
static void add_lead(struct argv *w, const struct supervisor *s)
{
	const struct job *job = s->job;
	add_socket(w, s, "--shards", "shardd");
	argv_add(w, "--job", job->name);
	if (job_bounds_delay(job))
		argv_u64(w, "--delay-max", job->delay_max);
	if (job_bounds_delay(job) && sup_fabric(s)) /* on one host there is little to spare */
		argv_add(w, "--announce", job_by_links(job) ? "by-links" : "at-once");
	if (job_by_links(job) && sup_fabric(s))
		add_state(w, s, "--schedule-log", "schedule.log");
	if (job->late > 0)
		argv_real(w, "--late", job->late);
	if (job_balance(job)) {
		argv_add(w, "--balance", job_balance(job));
		argv_u64(w, "--batch", sup_scale_batch(s));
		argv_u64(w, "--least", job->options.least);
		add_state(w, s, "--balance-log", "balance.log");
	}
	if (job_balance(job) || job_kind(s->job)->sums)
		argv_u64(w, "--expect", sup_count(s, sup_trainers(s)));
	static const char *const included[] = {"job.env", "schema", "layout", "model"};
	size_t count = job_kind(job)->cut == CUT_SAVED ? 1 : sizeof included / sizeof *included;
	for (size_t i = 0; i < count; i++)
		add_state(w, s, "--include", included[i]);
}

/* Whether standbys may lack what workers keep. */
static int may_lag(const struct supervisor *s)
{
	return s->job->divergence > 0 && strcmp(s->job->standby, "on") == 0;
}

static void server_words(struct argv *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	size_t servers = (size_t)s->scale.now.servers;
	add_who(w, n);
	argv_add(w, "--part");
	argv_format(w, "%zu/%zu", sup_rank(n), servers);
	if (sup_leads_alone(s))
		argv_add(w, "--led");
	if (n->joining)
		argv_add(w, "--join");
	else if (!take_over && sup_scale_map(s) > 1)
		argv_u64(w, "--map-version", sup_scale_map(s));
	argv_real(w, "--hung", stranger_seconds(s));
	argv_add(w, "--sync", s->job->sync);
	add_parameters(w, s);
	/* One that takes over gets all from the process before it; the cut may be pruned by now. */
	if (take_over)
		argv_add(w, n->restart.stands ? "--standby" : "--take-over");
	else if (cut_to_restore(s) && !n->joining)
		argv_add(w, "--restore", cut_to_restore(s));
	if (may_lag(s) && n != sup_lead(s))
		argv_u64(w, "--divergence", s->job->divergence);
	if (take_over && sup_restart_has_far(n))
		argv_add(w, "--far");
	add_socket(w, s, "--monitor", "bpt-monitor");
	add_report(w, s->job);
	add_drag(w, n, life);
	if (n != sup_lead(s))
		return;
	if (servers > 1)
		add_servers(w, s, "--servers", 1);
	if (strcmp(s->job->standby, "on") == 0)
		argv_add(w, "--followed");
	add_lead(w, s);
}

static void lead_words(struct argv *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	(void)life;
	(void)take_over;
	enum kind_holds holds = job_kind(s->job)->holds;
	add_who(w, n);
	argv_add(w, "--lead-only");
	if (holds == HOLD_REPLICAS)
		add_servers(w, s, "--replicas", 0);
	else
		argv_add(w, "--sync", s->job->sync);
	if (holds == HOLD_SERVERS)
		add_servers(w, s, "--servers", 0);
	else if (job_kind(s->job)->foreign && saved_to_restore(s))
		argv_add(w, "--restore", saved_to_restore(s));
	if (job_kind(s->job)->sums)
		argv_add(w, "--sums");
	argv_real(w, "--hung", stranger_seconds(s));
	add_lead(w, s);
}

/* The names of the replicas' hosts, in their order. */
static void add_fabric(struct argv *w, const struct supervisor *s)
{
	add_socket(w, s, "--fabric", sup_fabric(s)->id);
	argv_add(w, "--hosts", "");
	EACH_OF (n, s, &role_replica) {
		argv_more(w, s->hosts.host[n->home].name);
		argv_more(w, sup_next_of(n) ? "," : "");
	}
}

/* A replica that begins with the others begins with what they have; a later one is filled by
 * another. */
static void replica_words(struct argv *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	(void)take_over;
	add_who(w, n);
	argv_add(w, "--replica");
	argv_format(w, "%zu/%zu", sup_rank(n), sup_count(s, n->role));
	if (job_kind(s->job)->sums)
		argv_add(w, "--sums");
	else
		add_parameters(w, s);
	if (s->recover.together && !job_kind(s->job)->sums)
		argv_add(w, cut_to_restore(s) ? "--restore" : "--serve", cut_to_restore(s));
	if (sup_count(s, n->role) > 1)
		add_fabric(w, s);
	add_socket(w, s, "--monitor", "bpt-monitor");
	add_report(w, s->job);
	add_drag(w, n, life);
}

int sup_workers_learn(const struct supervisor *s)
{
	return job_balance(s->job) && strcmp(s->job->solution, "lb-bsp") == 0 &&
	       strcmp(s->job->predict, "none") != 0;
}

void sup_learnt_path(const struct sup_node *n, char *out)
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
	sup_learnt_path(n, out);
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

/* Only a file of the worker's own name is brought to another host: what it learns from is copied to
 * that name here. The
 * disk is not waited for: a file that is damaged when the power fails is learnt anew. */
static void role_take_learnt(const struct sup_node *n, char path[DIRS_PATH_MAX])
{
	char own[DIRS_PATH_MAX], *text;
	size_t len;
	sup_learnt_path(n, own);
	if (!n->place.apart || strcmp(path, own) == 0 ||
	    fs_read_file(path, LEARNT_BYTES_MAX, &text, &len, NULL) != 0)
		return;
	if (fs_replace_for_now(own, text, len, NULL) == 0)
		memcpy(path, own, sizeof own);
	free(text);
}

static void add_predict(struct argv *w, const struct sup_node *n)
{
	char path[DIRS_PATH_MAX];
	if (!sup_workers_learn(n->sup))
		return;
	argv_add(w, "--predict", n->sup->job->predict);
	if (find_learnt(n, path) == 0) {
		role_take_learnt(n, path);
		argv_add(w, "--predict-load", path);
	}
	sup_learnt_path(n, path);
	argv_add(w, "--predict-save", path);
}

/* What a worker has measured of its card, or an agent of its trainer, stays for its next life. */
static void add_device_file(struct argv *w, const struct sup_node *n)
{
	char name[96];
	snprintf(name, sizeof name, "device-%s", n->id);
	add_state(w, n->sup, "--device-file", name);
}

/* Workers on a host share its cards. */
static void role_add_device(struct argv *w, const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	uint64_t rank = 0;
	if (!model_device_is_card(s->job->device))
		return;
	EACH_OF (other, s, n->role)
		rank += other->number < n->number && other->at == n->at;
	argv_add(w, "--device", s->job->device);
	argv_u64(w, "--local-rank", rank);
	add_device_file(w, n);
}

static void add_patience(struct argv *w, const struct supervisor *s)
{
	/* Which node hangs is found out here: a worker that waits for it must not give up first. */
	argv_real(w, "--answer", ANSWER_SECONDS);
	/* It waits for the end of a rollback longer than the supervisor does, even if a server
	 * hangs at its start. */
	argv_real(w, "--wait", fmin(2 * s->watchdog.rules.least[PULSE_START], WAIT_SECONDS_MAX));
}

static void worker_words(struct argv *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	const struct job *job = s->job;
	char memory[DIRS_PATH_MAX];
	(void)take_over;
	argv_add(w, "--id", n->id);
	add_socket(w, s, "--shards", "shardd");
	sup_memory_dir(s, memory);
	if (may_lag(s))
		argv_add(w, "--memory", memory);
	if (sup_leads_alone(s))
		add_socket(w, s, "--lead", sup_lead(s)->id);
	if (job_kind(job)->holds == HOLD_REPLICAS) {
		add_socket(w, s, "--replica", sup_replica_of(n)->id);
		if (job_overlaps(job))
			argv_add(w, "--delay", "1");
	} else
		add_servers(w, s, "--servers", 0);
	add_socket(w, s, "--monitor", "bpt-monitor");
	if (job_is_local(job)) {
		char spill[96];
		snprintf(spill, sizeof spill, "spill/%s", n->id);
		argv_add(w, "--data", job->data.item[n->number]);
		add_state(w, s, "--spill", spill);
		argv_add(w, "--peers", s->dirs.run);
	}
	for (size_t i = 0; !job_is_local(job) && i < job->data.count; i++)
		argv_add(w, "--data", job->data.item[i]);
	if (!job_is_local(job)) /* a partition is one file of those that it has */
		add_state(w, s, "--data-sums", "data-sums");
	add_state(w, s, "--index-dir", "index");
	/* What is read once needs no cache. */
	argv_add(w, "--row-cache", strcmp(job->row_cache, "off") == 0 ? "off"
				   : job->epochs > 1		       ? "make"
								       : "use");
	add_state(w, s, "--schema", "schema");
	add_state(w, s, "--model-file", "model");
	argv_u64(w, "--batch", sup_share(n));
	if (job->clip > 0)
		argv_real(w, "--clip", job->clip);
	argv_add(w, "--bad-rows", job->bad_rows);
	argv_u64(w, "--ahead", job->ahead);
	add_report(w, job);
	argv_add(w, "--profile", strcmp(job->profile, "on") == 0 ? "1" : "0");
	role_add_device(w, n);
	add_predict(w, n);
	add_patience(w, s);
	add_drag(w, n, life);
}

/* As the worker that it may become. */
static void spare_words(struct argv *w, const struct sup_node *n, uint64_t life, int take_over)
{
	worker_words(w, n, life, take_over);
	add_socket(w, n->sup, "--spare", "trainctl");
}

/* A format of NAME=VALUE and its arguments, for the node's environment. */
#define ADD_VARIABLE(w, ...) (argv_add(w, "--env"), argv_format(w, __VA_ARGS__))

/* Without it each of several trainers on a host computes with as many threads as the host has
 * cores: the threads of one spin while those of another have something to do. */
static void add_omp_threads(struct argv *w, const struct sup_node *n, size_t beside)
{
	const char *own = n->sup->options.omp_threads;
	size_t each = n->sup->hosts.host[n->at].place->cores / beside;
	if (own)
		ADD_VARIABLE(w, "OMP_NUM_THREADS=%s", own);
	else if (beside > 1)
		ADD_VARIABLE(w, "OMP_NUM_THREADS=%zu", each > 1 ? each : 1);
}

/* Linux takes no variable of more than 128 KiB. */
static void add_names(struct argv *w, const struct job_list *data)
{
	char number[24] = "";
	for (size_t i = 0, count, part = 1; i < data->count; i += count) {
		size_t bytes = 0;
		for (count = 0; i + count < data->count && bytes < NAMES_BYTES; count++)
			bytes += strlen(data->item[i + count]) + 1;
		char *names = words_join(data->item + i, count);
		w->failed |= names == NULL;
		ADD_VARIABLE(w, "PACELINE_DATA%s=%s", number, names ? names : "");
		snprintf(number, sizeof number, "_%zu", ++part);
		free(names);
	}
}

/* What torch.distributed and the like look for. */
static void add_environment(struct argv *w, const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	char address[HOST_NAME_MAX_BYTES];
	size_t rank = 0, local = 0, beside = 0, count = 0;
	EACH_OF (other, s, &role_agent) {
		if (other == n) {
			rank = count;
			local = beside;
		}
		beside += other->at == n->at;
		count++;
	}
	if (sup_node_is_spare(n)) { /* it is told its rank with its place */
		rank = count + sup_rank(n);
		local = beside;
		EACH_OF (other, s, n->role)
			local += other->number < n->number && other->at == n->at;
	}
	sup_trainers_address(s, address, sizeof address);
	ADD_VARIABLE(w, "RANK=%zu", rank);
	ADD_VARIABLE(w, "WORLD_SIZE=%zu", count);
	ADD_VARIABLE(w, "LOCAL_RANK=%zu", local);
	ADD_VARIABLE(w, "LOCAL_WORLD_SIZE=%zu", beside);
	add_omp_threads(w, n, beside);
	ADD_VARIABLE(w, "MASTER_ADDR=%s", address);
	ADD_VARIABLE(w, "MASTER_PORT=%u", s->trainers.port);
	ADD_VARIABLE(w, "PACELINE_SAMPLES=%llu", (unsigned long long)s->options.samples);
	ADD_VARIABLE(w, "PACELINE_EPOCHS=%llu", (unsigned long long)s->job->epochs);
	ADD_VARIABLE(w, "PACELINE_BATCH=%llu", (unsigned long long)s->job->batch);
	ADD_VARIABLE(w, "PACELINE_JOB=%s", s->job->name);
	ADD_VARIABLE(w, "PACELINE_STATE=%s", s->dirs.state);
	add_names(w, &s->job->data);
}

/* Rows for a command's standard input, text as in the files. */
static void role_add_rows(struct argv *w, const struct supervisor *s)
{
	const struct job *job = s->job;
	for (size_t i = 0; i < job->data.count; i++)
		argv_add(w, "--rows", job->data.item[i]);
	if (job->data.count == 0)
		return;
	add_state(w, s, "--index-dir", "index");
	argv_add(w, "--format", job->format);
	if (strcmp(job->format, "csv") == 0)
		argv_add(w, "--separator", job->separator);
	if (strcmp(job->trainer_header, "on") == 0)
		argv_add(w, "--header");
}

static void agent_words(struct argv *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	const struct job *job = s->job;
	(void)life;
	(void)take_over;
	argv_add(w, "--id", n->id);
	add_socket(w, s, "--shards", "shardd");
	if (sup_lead(s)) {
		add_socket(w, s, "--lead", sup_lead(s)->id);
		argv_u64(w, "--batch", sup_share(n));
		argv_add(w, "--rank");
		argv_format(w, "%zu/%zu", sup_rank(n), sup_count(s, n->role));
		if (job_kind(s->job)->sums)
			add_socket(w, s, "--replica", sup_replica_of(n)->id);
		if (sup_node_is_spare(n)) /* it will need a newer state */
			add_socket(w, s, "--spare", "trainctl");
		else if (saved_to_restore(s))
			argv_add(w, "--resume", saved_to_restore(s));
		add_checkpoint_memory(w, s);
		argv_u64(w, "--ahead", job->ahead);
		add_report(w, job);
		add_patience(w, s);
		if (strcmp(job->profile, "on") == 0)
			argv_u64(w, "--profile", job->options.least);
		add_device_file(w, n);
		add_predict(w, n);
	} else
		role_add_rows(w, s);
	add_socket(w, s, "--monitor", "bpt-monitor");
	if (job_kind(job)->given == GIVEN_SHARD) {
		argv_add(w, "--each");
		if (job->each_output[0])
			argv_add(w, "--output", job->each_output);
		if (job->each_jobs > 1)
			argv_u64(w, "--jobs", job->each_jobs);
	}
	argv_real(w, "--grace", job->trainer_grace);
	add_environment(w, n);
	argv_add(w, "--", "/bin/sh", "-c", job->trainer);
}

static void add_fabricd(struct argv *w, const struct supervisor *s, const char *fabricd)
{
	char routes[DIRS_PATH_MAX];
	dirs_run(&s->dirs, "routes", routes);
	argv_add(w, fabricd, "--run-dir", s->dirs.run, "--routes", routes, "--rounds",
		 job_rounds(s->job));
}

/* mpirun gets an application context for each host: so each rank is told the name of its host. This
 * host has rank 0. */
static void add_mpirun(struct argv *w, const struct supervisor *s, const char *fabricd)
{
	size_t added = 0;
	argv_add(w, "mpirun", "--oversubscribe", "--bind-to", "none");
	argv_add(w, "--mca", "odls_base_sigkill_timeout", "0");
	/* Its daemon on another host hears nothing of a host that died without a word: it is to end
	 * after 25 seconds, and not after the eight minutes that are Open MPI's own. */
	argv_add(w, "--mca", "oob_tcp_keepalive_time", "10");
	argv_add(w, "--mca", "oob_tcp_keepalive_intvl", "5");
	argv_add(w, "--mca", "oob_tcp_keepalive_probes", "3");
	if (sup_more_in_world(s)) /* several allocations: mpirun knows only its own */
		argv_add(w, "--mca", "plm", "rsh", "--mca", "ras", "^slurm");
	/* It starts all its daemons itself: the other hosts do not have the file. */
	argv_add(w, "--mca", "plm_rsh_no_tree_spawn", "1");
	argv_add(w, "--mca", "plm_rsh_agent", SUP_ROUTES_AGENT);
	EACH_HOST (h, s, 0) {
		if (!h->in_world)
			continue;
		if (added++ > 0)
			argv_add(w, ":");
		argv_add(w, "-n", "1", "--host", sup_host_plain(h->place->host));
		add_fabricd(w, s, fabricd);
		argv_add(w, "--host", h->name);
	}
}

static void add_network(struct argv *w, const char *network)
{
	argv_format(w, "OMPI_MCA_btl_tcp_if_include=%s", network);
	argv_format(w, "OMPI_MCA_oob_tcp_if_include=%s", network);
}

/* The process that holds the MPI world together. In an allocation of Slurm mpirun starts its ranks
 * by srun, else as the launcher does it. */
static void fabric_words(struct argv *w, const struct sup_node *n, uint64_t life, int take_over)
{
	const struct supervisor *s = n->sup;
	char fabricd[DIRS_PATH_MAX], reach[DIRS_PATH_MAX];
	(void)life;
	(void)take_over;
	if (process_find("fabricd", s->options.search_path, fabricd, sizeof fabricd, NULL) != 0)
		snprintf(fabricd, sizeof fabricd, "fabricd");
	if (geteuid() == 0) { /* mpirun runs as root only if it is told so twice */
		argv_add(w, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
	}
	if (s->options.network && s->options.network[0])
		add_network(w, s->options.network);
	argv_add(w, "SLURM_OVERLAP=1"); /* what it has started by srun runs beside the nodes' steps */
	dirs_run(&s->dirs, SUP_ROUTES_REACH, reach);
	argv_format(w, "PACELINE_REACH=%s", reach);
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

static void role_make_dir(struct sup_files *f, const struct sup_node *n, const char *name)
{
	char path[DIRS_PATH_MAX];
	dirs_state(&n->sup->dirs, name, path);
	put_file(f->make, f->path[0], path);
}

static void bring_path(struct sup_files *f, const char *path)
{
	if (access(path, R_OK) == 0)
		put_file(f->bring, f->path[1], path);
}

static void role_bring_file(struct sup_files *f, const struct sup_node *n, const char *name)
{
	char path[DIRS_PATH_MAX];
	dirs_state(&n->sup->dirs, name, path);
	bring_path(f, path);
}

/* The checkpoint with which servers begin, and the full one on which it is based. */
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
	char learnt[DIRS_PATH_MAX];
	memset(f->make, 0, sizeof f->make);
	memset(f->bring, 0, sizeof f->bring);
	put_file(f->make, f->path[0], s->dirs.run);
	put_file(f->make, f->path[0], s->dirs.state);
	sup_learnt_path(n, learnt);
	if (n->role == &role_worker || n->role == &role_spare) {
		role_make_dir(f, n, "index");
		role_make_dir(f, n, "spill");
		role_bring_file(f, n, "schema");
		role_bring_file(f, n, "model");
		bring_path(f, learnt);
	} else if (n->role == &role_agent || n->role == &role_spare_agent) {
		role_make_dir(f, n, "index");
		role_make_dir(f, n, "checkpoints");
		bring_path(f, learnt);
		if (n->role == &role_agent && saved_to_restore(s))
			put_file(f->bring, f->path[1], saved_to_restore(s));
	} else if (n->role->goes_back) {
		role_make_dir(f, n, "checkpoints");
		role_bring_file(f, n, "layout");
		/* A standby and who takes over have it from the server, which runs. */
		if (cut_to_restore(s) && !n->joining && !n->now.runs &&
		    (n->role != &role_replica || (s->recover.together && !job_kind(s->job)->sums)))
			bring_cut(f, cut_to_restore(s));
	}
}

/* ---- the table ---- */

static uint64_t role_count_one(const struct supervisor *s)
{
	(void)s;
	return 1;
}

static uint64_t role_count_fabrics(const struct supervisor *s)
{
	return s->hosts.count > 1;
}

static uint64_t role_count_servers(const struct supervisor *s)
{
	return job_kind(s->job)->holds == HOLD_SERVERS ? sup_scale_servers(s) : 0;
}

static uint64_t role_count_leads(const struct supervisor *s)
{
	return (uint64_t)sup_leads_alone(s);
}

/* One on each host that trains. */
static uint64_t role_count_replicas(const struct supervisor *s)
{
	return job_kind(s->job)->holds == HOLD_REPLICAS ? s->hosts.count - s->hosts.first : 0;
}

static uint64_t role_count_workers(const struct supervisor *s)
{
	return job_kind(s->job)->foreign ? 0 : sup_scale_workers(s);
}

static uint64_t role_count_agents(const struct supervisor *s)
{
	return job_kind(s->job)->foreign ? sup_scale_workers(s) : 0;
}

static uint64_t role_count_spares(const struct supervisor *s)
{
	return job_kind(s->job)->foreign ? 0 : s->job->hot_spares;
}

static uint64_t role_count_spare_agents(const struct supervisor *s)
{
	return job_kind(s->job)->foreign ? s->job->hot_spares : 0;
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
				 .count = role_count_fabrics,
				 .words = fabric_words,
				 .retried = 1,
				 .service = 1};
const struct role role_shardd = {.name = "shardd",
				 .program = "shardd",
				 .id = "shardd",
				 .count = role_count_one,
				 .words = shardd_words,
				 .question = "workers",
				 .service = 1};
const struct role role_monitor = {.name = "monitor",
				  .program = "bpt-monitor",
				  .id = "bpt-monitor",
				  .count = role_count_one,
				  .words = monitor_words,
				  .service = 1};
const struct role role_lead = {.name = "lead",
			       .program = "ps-server",
			       .id = "lead",
			       .count = role_count_leads,
			       .words = lead_words,
			       .death = DEATH_LEAD,
			       .restart = RESTART_KILL,
			       .goes_back = 1};
const struct role role_replica = {.name = "replica",
				  .program = "ps-server",
				  .id = "r%u",
				  .count = role_count_replicas,
				  .words = replica_words,
				  .template = launch_server,
				  .limits = server_limits,
				  .in_memory = 1,
				  .where = WHERE_HOLDER,
				  .death = DEATH_REPLICA,
				  .restart = RESTART_KILL,
				  .question = "stat",
				  .told_as = "server",
				  .goes_back = 1};
const struct role role_server = {.name = "server",
				 .program = "ps-server",
				 .id = "ps%u",
				 .count = role_count_servers,
				 .words = server_words,
				 .template = launch_server,
				 .limits = server_limits,
				 .in_memory = 1,
				 .where = WHERE_HOLDER,
				 .death = DEATH_ROLLBACK,
				 .restart = RESTART_HAND_OVER,
				 .question = "stat",
				 .told_as = "server",
				 .goes_back = 1};
const struct role role_worker = {.name = "worker",
				 .program = "worker",
				 .id = "w%u",
				 .count = role_count_workers,
				 .words = worker_words,
				 .template = launch_worker,
				  .limits = worker_limits,
				 .where = WHERE_WORKER,
				 .ready = READY_MEMBER,
				 .death = DEATH_FENCE,
				 .restart = RESTART_KILL,
				 .told_as = "worker"};
/* People see a worker; its program is the agent, which runs the trainer. */
const struct role role_agent = {.name = "worker",
				.program = "agent",
				.id = "w%u",
				.count = role_count_agents,
				.words = agent_words,
				.template = launch_worker,
				  .limits = worker_limits,
				.in_memory = 1,
				.where = WHERE_WORKER,
				.ready = READY_MEMBER,
				.death = DEATH_FENCE,
				.restart = RESTART_KILL,
				.told_as = "worker",
				.foreign = 1};
/* A spare may have been a worker before, and have left something behind: so it is fenced, too. */
const struct role role_spare = {.name = "spare",
				.program = "worker",
				.id = "s%u",
				.count = role_count_spares,
				.words = spare_words,
				.template = launch_worker,
				.limits = worker_limits,
				.where = WHERE_SPARE,
				.ready = READY_ASKS,
				.death = DEATH_FENCE};
const struct role role_spare_agent = {.name = "spare",
				      .program = "agent",
				      .id = "s%u",
				      .count = role_count_spare_agents,
				      .words = agent_words,
				      .template = launch_worker,
				      .limits = worker_limits,
				      .where = WHERE_SPARE,
				      .ready = READY_ASKS,
				      .death = DEATH_FENCE,
				      .foreign = 1};
const struct role *const roles[] = {&role_fabric,  &role_shardd, &role_monitor,
				    &role_lead,    &role_replica, &role_server,
				    &role_worker,  &role_agent,   &role_spare,   &role_spare_agent,
				    NULL};

int sup_command(const struct sup_node *n, uint64_t life, int take_over, struct argv *argv,
		struct error *err)
{
	char path[DIRS_PATH_MAX];
	if (process_find(n->role->program, n->sup->options.search_path, path, sizeof path, err) !=
	    0)
		return -1;
	argv_add(argv, path);
	n->role->words(argv, n, life, take_over);
	return argv_end(argv, err);
}

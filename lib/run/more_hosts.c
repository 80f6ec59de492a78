/* more_hosts: see more_hosts.h. */
#include "run/sup.h"

#include "base/argv.h"
#include "base/clock.h"
#include "base/number.h"
#include "proc/child.h"
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define LIST_SECONDS 2.0    /* until Slurm is asked again which allocations there are */
#define ANSWER_SECONDS 20.0 /* for squeue, for scancel, and for a host that is checked */
#define AGAIN_SECONDS 30.0  /* after a request that was refused, or a host that can't be used */
#define PENDING_SECONDS 3e7 /* about a year: a request may wait */
#define CANCEL_SECONDS 5.0  /* at the end, before we go on without an answer */

/* ---- how many are wanted ---- */

static double cores_each(const struct supervisor *s)
{
	return s->job->worker_cores > 0 ? s->job->worker_cores : 1;
}

static uint64_t workers_on(const struct supervisor *s, uint64_t cores)
{
	double room = floor((double)cores / cores_each(s));
	return room >= 1 ? (uint64_t)room : 1;
}

/* Workers that the job's own hosts have cores for. */
static uint64_t own_room(const struct supervisor *s)
{
	uint64_t room = 0;
	for (size_t i = s->hosts.first; i < s->more.base; i++)
		room += workers_on(s, s->hosts.host[i].place->cores);
	return room; /* all of them are used: LAUNCHER more and scale --hosts exclude each other */
}

/* Cores of a further host, which is not known yet: assumed to be like the job's last own one. */
static uint64_t cores_of_more(const struct supervisor *s)
{
	return s->hosts.host[s->more.base - 1].place->cores;
}

static uint64_t room_of_more(const struct supervisor *s)
{
	return workers_on(s, cores_of_more(s));
}

static size_t more_hosts_wanted(const struct supervisor *s)
{
	uint64_t workers = s->scale.now.workers, own = own_room(s), each = room_of_more(s);
	if (s->phases.now >= PHASE_WINDING || workers <= own)
		return 0;
	uint64_t hosts = (workers - own + each - 1) / each;
	return hosts < s->more.count ? (size_t)hosts : s->more.count;
}

size_t sup_more_home(const struct supervisor *s, uint64_t number)
{
	if (s->more.count == 0)
		return 0;
	uint64_t own = own_room(s), at;
	if (number < own)
		return 0;
	at = (number - own) / room_of_more(s);
	return s->more.base + (at < s->more.count ? (size_t)at : s->more.count - 1);
}

/* ---- saying ---- */

static void more_hosts_log(struct supervisor *s, const char *state, const struct sup_more_host *m)
{
	sup_log(s,
		RECORD("more-host", F("state", state), m ? F("host", m->place.host) : F_NONE,
		       m ? F("job", m->place.slurm_job) : F_NONE,
		       !m && s->more.preemptible ? F("partition", s->job->preemptible) : F_NONE,
		       !m && s->more.since > 0 ? F_SECONDS("waited", clock_mono() - s->more.since)
					       : F_NONE));
}

/* ---- running Slurm's programs ---- */

static int more_hosts_begin(struct supervisor *s, struct argv *w, const char *program)
{
	char path[PATH_MAX];
	struct error err;
	if (process_find(program, s->options.search_path, path, sizeof path, &err) != 0) {
		sup_note(s, "warning", "LAUNCHER more: %s is not on PATH", program);
		s->more.list_at = s->more.ask_at = clock_mono() + AGAIN_SECONDS;
		return -1;
	}
	argv_add(w, path);
	return 0;
}

/* If this fails it is tried again, because the list still has the allocation. */
static void more_hosts_cancel(struct supervisor *s, uint64_t job)
{
	const struct child_options options = {.seconds = ANSWER_SECONDS};
	struct argv w = {0};
	struct child *child;
	if (more_hosts_begin(s, &w, "scancel") != 0)
		return;
	argv_format(&w, "%llu", (unsigned long long)job);
	child_ask(&child, s->base, &w, options, NULL);
}

/* ---- a host ---- */

static struct sup_host *host_of(struct sup_more_host *m)
{
	struct supervisor *s = m->sup;
	return &s->hosts.host[s->more.base + (size_t)(m - s->more.one)];
}

int sup_is_more_host(const struct sup_host *h)
{
	const struct supervisor *s = h->sup;
	return s->more.count > 0 && h >= &s->hosts.host[s->more.base];
}

static struct sup_more_host *one_of(const struct sup_host *h)
{
	return &h->sup->more.one[h - &h->sup->hosts.host[h->sup->more.base]];
}

static void more_hosts_drop(struct sup_more_host *m, const char *why)
{
	struct supervisor *s = m->sup;
	if (m->checking)
		child_free(m->checking);
	m->checking = NULL;
	more_hosts_log(s, why, m);
	log_say(LOG_LEVEL_INFO, "%s is no host of this job any more (%s)", m->place.host, why);
	sup_host_taken(host_of(m));
	m->place.host[0] = '\0';
	m->place.slurm_job = 0;
	sup_in_force_changed(s);
}

static void unfit(struct sup_more_host *m, const char *output)
{
	struct supervisor *s = m->sup;
	char *list = NULL;
	uint64_t job = m->place.slurm_job;
	size_t len = strcspn(output, "\n");
	if (asprintf(&list, "%s%s%s", s->more.unfit ? s->more.unfit : "", s->more.unfit ? "," : "",
		     m->place.host) >= 0) {
		free(s->more.unfit);
		s->more.unfit = list;
	}
	sup_note(s, "warning", "%s can't be used: %.*s; it is given back", m->place.host, (int)len,
		 output);
	s->more.ask_at = clock_mono() + AGAIN_SECONDS;
	more_hosts_drop(m, "unfit");
	more_hosts_cancel(s, job);
}

/* Takes what check_script prints there. */
static void on_host(const struct child_end *e, void *arg)
{
	struct sup_more_host *m = arg;
	unsigned long long cores, kib, sees;
	const char *said = strstr(e->output, "paceline-host ");
	char text[CHILD_WHY_MAX];
	m->checking = NULL;
	if (child_failure(e, text) || !said ||
	    sscanf(said, "paceline-host %llu %llu %llu", &cores, &kib, &sees) != 3) {
		unfit(m, e->output[0] ? e->output : "it does not answer");
		return;
	}
	m->place.cores = cores;
	m->place.memory_mib = kib / 1024;
	m->place.apart = !sees;
	more_hosts_log(m->sup, "there", m);
	sup_host_given(host_of(m));
	sup_in_force_changed(m->sup);
}

/* $1: our socket, which must not be there; $2: our journal, which is there if the host sees our
 * files; the others: the data. */
static const char check_script[] =
	"[ ! -S \"$1\" ] || { echo \"$1 is the same as here: --run-dir on a disk of its own\"; "
	"exit 78; }; "
	"sees=0; [ ! -e \"$2\" ] || sees=1; shift 2; "
	"for f; do [ -r \"$f\" ] || { echo \"$f is not there\"; exit 66; }; done; "
	"echo paceline-host $(nproc) $(sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo) "
	"$sees";

/* Begins to check whether its data and its kit are there. */
static void more_hosts_check(struct sup_more_host *m)
{
	struct supervisor *s = m->sup;
	const struct child_options options = {
		.errors = CHILD_ERRORS_IN_OUTPUT, .seconds = ANSWER_SECONDS, .done = on_host, .arg = m};
	char socket[DIRS_PATH_MAX], journal[DIRS_PATH_MAX];
	struct argv w = {0};
	struct error err;
	dirs_run(&s->dirs, "trainctl.sock", socket);
	dirs_state(&s->dirs, "journal", journal);
	argv_add(&w, m->place.node_host, "--by", "slurm");
	argv_u64(&w, "--slurm-job", m->place.slurm_job);
	argv_add(&w, m->place.host, "/bin/sh", "-c", check_script, "check", socket, journal);
	for (size_t i = 0; i < s->job->data.count; i++)
		argv_add(&w, s->job->data.item[i]);
	if (child_ask(&m->checking, s->base, &w, options, &err) != 0)
		sup_note(s, "warning", "%s can't be asked: %s", m->place.host, err.text);
}

static void granted(struct supervisor *s, uint64_t job, const char *host)
{
	for (size_t i = 0; i < s->more.count; i++) {
		struct sup_more_host *m = &s->more.one[i];
		if (m->place.slurm_job != 0)
			continue;
		snprintf(m->place.host, sizeof m->place.host, "%s", host);
		m->place.slurm_job = job;
		m->seen = 1;
		sup_host_named(host_of(m));
		more_hosts_log(s, "granted", m);
		more_hosts_check(m);
		return;
	}
	more_hosts_cancel(s, job); /* we have no use for it */
}

/* ---- which there are ---- */

static struct sup_more_host *more_hosts_find(struct supervisor *s, uint64_t job)
{
	for (size_t i = 0; i < s->more.count; i++)
		if (s->more.one[i].place.slurm_job == job)
			return &s->more.one[i];
	return NULL;
}

/* "JOB STATE HOST", a line each. */
static void more_hosts_take_line(struct supervisor *s, char *line)
{
	char *save = NULL, *id = strtok_r(line, " ", &save), *state = strtok_r(NULL, " ", &save),
	     *host = strtok_r(NULL, " ", &save);
	uint64_t job;
	if (!id || !state || number_u64(id, 1, UINT32_MAX, &job, NULL, NULL) != 0)
		return;
	struct sup_more_host *m = more_hosts_find(s, job);
	/* A request of a supervisor before us: nobody would know when it is granted. */
	if (strcmp(state, "PENDING") == 0 && !s->more.request)
		more_hosts_cancel(s, job);
	if (strcmp(state, "RUNNING") != 0 || !host || !launcher_host_ok(host))
		return;
	if (m)
		m->seen = 1;
	else
		granted(s, job, host);
}

static void on_list(const struct child_end *e, void *arg)
{
	struct supervisor *s = arg;
	char *text, *save = NULL, why[CHILD_WHY_MAX];
	s->more.listing = NULL;
	if (child_failure(e, why) || !(text = strdup(e->output)))
		return; /* no answer from Slurm means nothing for its hosts */
	for (size_t i = 0; i < s->more.count; i++)
		s->more.one[i].seen = 0;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		more_hosts_take_line(s, line);
	free(text);
	for (size_t i = 0; i < s->more.count; i++)
		if (s->more.one[i].place.slurm_job != 0 && !s->more.one[i].seen)
			more_hosts_drop(&s->more.one[i], "ended");
	s->more.listed = 1;
	sup_kick(s);
}

static void more_hosts_list(struct supervisor *s)
{
	const struct child_options options = {.seconds = ANSWER_SECONDS, .done = on_list, .arg = s};
	struct argv w = {0};
	if (more_hosts_begin(s, &w, "squeue") != 0)
		return;
	argv_add(&w, "--noheader", "--me", "--name", s->more.name, "--format=%i %T %N");
	s->more.list_at = clock_mono() + LIST_SECONDS;
	child_ask(&s->more.listing, s->base, &w, options, NULL);
}

/* ---- asking for one ---- */

static void on_request(const struct child_end *e, void *arg)
{
	struct supervisor *s = arg;
	char why[CHILD_WHY_MAX];
	s->more.request = NULL;
	s->more.list_at = 0;
	if (!child_failure(e, why))
		return;
	more_hosts_log(s, "refused", NULL);
	if (s->more.preemptible && !s->more.refused) {
		sup_note(s, "warning",
			 "LAUNCHER=preemptible:%s gives no host: asked in the usual partition",
			 s->job->preemptible);
		s->more.refused = 1;
	} else {
		sup_note(s, "warning", "Slurm gives no further host: asked again in %g s",
			 AGAIN_SECONDS);
		s->more.ask_at = clock_mono() + AGAIN_SECONDS;
	}
}

/* The hosts that Slurm must not give: all that we have, and those that can't be used. */
static void exclude(const struct supervisor *s, struct argv *w)
{
	const char *comma = "";
	argv_add(w, "--exclude=");
	EACH_HOST (h, s, 0) {
		if (!h->place->host[0])
			continue;
		argv_more(w, comma);
		argv_more(w, h->place->host);
		comma = ",";
	}
	if (s->more.unfit) {
		argv_more(w, ",");
		argv_more(w, s->more.unfit);
	}
}

static void more_hosts_ask(struct supervisor *s)
{
	const struct child_options options = {
		.seconds = PENDING_SECONDS, .done = on_request, .arg = s};
	struct argv w = {0};
	uint64_t workers = room_of_more(s);
	if (more_hosts_begin(s, &w, "salloc") != 0)
		return;
	s->more.preemptible = s->job->preemptible[0] && !s->more.refused;
	argv_add(&w, "--no-shell", "--quiet", "--nodes=1", "--ntasks=1");
	argv_format(&w, "--cpus-per-task=%.0f",
		    fmax(1, fmin(ceil((double)workers * cores_each(s)), (double)cores_of_more(s))));
	if (s->job->worker_memory > 0 && s->options.hosts->slurm_memory)
		argv_format(&w, "--mem=%lluM",
			    (unsigned long long)((workers * s->job->worker_memory + 1048575) /
						 1048576));
	argv_add(&w, "--job-name", s->more.name);
	exclude(s, &w);
	if (s->more.preemptible)
		argv_add(&w, "--partition", s->job->preemptible);
	s->more.since = clock_mono();
	if (child_ask(&s->more.request, s->base, &w, options, NULL) != 0)
		s->more.ask_at = clock_mono() + AGAIN_SECONDS;
	else
		more_hosts_log(s, "asked", NULL);
}

double sup_more_pending(const struct supervisor *s)
{
	return s->more.request ? clock_mono() - s->more.since : NAN;
}

/* ---- giving back ---- */

/* Whether a node belongs there, or still runs there. */
static int is_used(const struct sup_more_host *m)
{
	struct supervisor *s = m->sup;
	size_t at = s->more.base + (size_t)(m - s->more.one);
	EACH_NODE (n, s)
		if (n->role != &role_fabric &&
		    (n->home == at || (n->at == at && !sup_node_is_off(n))))
			return 1;
	return 0;
}

static size_t more_hosts_held(const struct supervisor *s)
{
	size_t held = 0;
	for (size_t i = 0; i < s->more.count; i++)
		held += s->more.one[i].place.slurm_job != 0;
	return held;
}

/* Gives one back, the last first: its workers have the highest numbers. */
static void more_hosts_give_back(struct supervisor *s)
{
	for (size_t i = s->more.count; i > 0; i--) {
		struct sup_more_host *m = &s->more.one[i - 1];
		if (m->place.slurm_job == 0)
			continue;
		if (is_used(m))
			return;
		uint64_t job = m->place.slurm_job;
		more_hosts_drop(m, "given-back");
		more_hosts_cancel(s, job);
		return;
	}
}

/* Ends a request that nobody needs any more. If Slurm keeps it, the next list cancels it. */
static void withdraw(struct supervisor *s)
{
	child_free(s->more.request);
	s->more.request = NULL;
	s->more.list_at = 0;
}

void sup_more_tick(struct supervisor *s)
{
	double now = clock_mono();
	if (!s->more.begun)
		return;
	size_t want = more_hosts_wanted(s), has = more_hosts_held(s);
	if (!s->more.listing && now >= s->more.list_at &&
	    (!s->more.listed || want > 0 || has > 0 || s->more.request))
		more_hosts_list(s);
	if (!s->more.listed)
		return;
	if (s->more.request && has >= want)
		withdraw(s);
	else if (!s->more.request && has < want && !s->more.listing && now >= s->more.ask_at &&
		 s->phases.now == PHASE_RUNNING)
		more_hosts_ask(s);
	else if (has > want && s->phases.now == PHASE_RUNNING)
		more_hosts_give_back(s);
}

void sup_more_recheck(struct sup_node *n)
{
	if (sup_is_more_host(sup_host_of(n)))
		n->sup->more.list_at = 0;
}

/* ---- beginning and end ---- */

/* The name is the same for every supervisor of this state directory, and for no other one. */
static void name_all(struct supervisor *s)
{
	snprintf(s->more.name, sizeof s->more.name, "paceline-%.60s-%08llx", s->job->name,
		 (unsigned long long)XXH3_64bits(s->dirs.state, strlen(s->dirs.state)) >> 32);
}

int sup_more_init(struct supervisor *s, struct error *err)
{
	const struct hosts *given = s->options.hosts;
	size_t count = (size_t)s->job->more_hosts;
	if (!given || count == 0)
		return 0;
	s->more.one = calloc(count, sizeof *s->more.one);
	if (!s->more.one)
		return error_set(err, ERROR_OS, "hosts", "out of memory");
	s->more.base = given->count;
	s->more.count = count;
	for (size_t i = 0; i < count; i++)
		s->more.one[i] = (struct sup_more_host){
			.sup = s,
			.place = {.launcher = launcher_find("slurm"),
				  .apart = 1,
				  .node_host = given->node_host}};
	name_all(s);
	return 0;
}

void sup_more_begin(struct supervisor *s)
{
	s->more.begun = s->more.count > 0;
}

/* Cancels all of them by their name, and waits for that: nobody would try it again. */
static void cancel_all(struct supervisor *s)
{
	struct argv w = {0};
	if (more_hosts_begin(s, &w, "scancel") != 0)
		return;
	argv_add(&w, "--name", s->more.name);
	double until = clock_mono() + CANCEL_SECONDS;
	pid_t pid = process_fork();
	if (pid == 0) {
		process_signals_reset();
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (null >= 0) {
			dup2(null, 1);
			dup2(null, 2);
		}
		execv(w.word[0], w.word);
		_exit(ERROR_OS);
	}
	while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 && clock_mono() < until)
		clock_sleep(0.01);
	argv_free(&w);
}

void sup_more_free(struct supervisor *s)
{
	size_t had = more_hosts_held(s) + (s->more.request != NULL);
	child_free(s->more.request);
	child_free(s->more.listing);
	for (size_t i = 0; i < s->more.count; i++) {
		if (s->more.one[i].place.slurm_job != 0 && s->more.begun)
			more_hosts_log(s, "given-back", &s->more.one[i]);
		child_free(s->more.one[i].checking);
	}
	if (s->more.begun && had > 0)
		cancel_all(s);
	free(s->more.one);
	free(s->more.unfit);
	s->more = (struct sup_more_hosts){0};
}

/* ---- the file ---- */

void sup_more_print(const struct sup_host *h, struct record_out *o)
{
	const struct sup_more_host *m = one_of(h);
	record_add_u64(o, "more", (uint64_t)(m - h->sup->more.one));
	record_add_u64(o, "job", m->place.slurm_job);
	record_add_u64(o, "cores", m->place.cores);
	record_add_u64(o, "memory-mib", m->place.memory_mib);
	record_add_u64(o, "apart", m->place.apart != 0);
}

/* Such a host was there a moment ago, and counts as there until Slurm says something else. */
int sup_more_take(struct supervisor *s, const struct record *r, struct error *err)
{
	uint64_t at, job, cores, mib, apart;
	const char *name;
	if (record_text(r, "name", &name, err) != 0 ||
	    record_u64(r, "more", 0, UINT64_MAX, &at, err) != 0 ||
	    record_u64(r, "job", 1, UINT32_MAX, &job, err) != 0 ||
	    record_u64(r, "cores", 0, UINT64_MAX, &cores, err) != 0 ||
	    record_u64(r, "memory-mib", 0, UINT64_MAX, &mib, err) != 0 ||
	    record_u64(r, "apart", 0, 1, &apart, err) != 0)
		return -1;
	if (at >= s->more.count)
		return 0;
	struct sup_more_host *m = &s->more.one[at];
	snprintf(m->place.host, sizeof m->place.host, "%s", name);
	m->place.slurm_job = job;
	m->place.cores = cores;
	m->place.memory_mib = mib;
	m->place.apart = apart != 0;
	sup_host_named(host_of(m));
	host_of(m)->state = HOST_THERE;
	return 0;
}

int sup_more_in_world(const struct supervisor *s)
{
	for (size_t i = 0; i < s->more.count; i++)
		if (s->hosts.host[s->more.base + i].in_world)
			return 1;
	return 0;
}

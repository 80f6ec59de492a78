/* hosts: see hosts.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "proc/child.h"
#include "proc/remote.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_SECONDS 1.0     /* between two probes */
#define CUT_OFF_SECONDS 5.0   /* without an answer, once nothing runs there any more */
/* The same while connections remain: the host may only be slow. By then its ends have given up the
 * connections, and killed what ran there. */
#define SILENT_SECONDS REMOTE_FAR_SECONDS
/* A host is doubted when a node there has been silent for so long, and for so much of the time that
 * it may be. */
#define DOUBT_SECONDS 10.0
#define DOUBT_SHARE (1.0 / 3)

/* ---- which there are ---- */

const char *sup_host_plain(const char *host)
{
	const char *at = strrchr(host, '@');
	return at ? at + 1 : host;
}

/* A host's name may be an address; the fabric wants a plain word. */
static void name_host(struct sup_host *h, size_t i)
{
	const char *name = sup_host_plain(h->place->host);
	if (option_id_ok(name))
		snprintf(h->name, sizeof h->name, "%.64s", name);
	else
		snprintf(h->name, sizeof h->name, "host%zu", i);
}

int sup_hosts_init(struct supervisor *s, struct error *err)
{
	const struct hosts *given = s->options.hosts;
	struct sup_hosts *hosts = &s->hosts;
	size_t count = given ? given->count : 1;
	if (!given)
		launcher_here(&hosts->here);
	if (sup_more_init(s, err) != 0)
		return -1;
	hosts->host = calloc(count + s->more.count, sizeof *hosts->host);
	if (!hosts->host)
		return error_set(err, ERROR_OS, "hosts", "out of memory");
	hosts->count = count;
	hosts->first = given ? given->first : 0;
	for (size_t i = 0; i < count; i++) {
		struct sup_host *h = &hosts->host[i];
		h->sup = s;
		h->place = given ? &given->place[i] : &hosts->here;
		name_host(h, i);
		if (h->place->bad[0] && count - hosts->first > 1 && s->job->host_avoid > 0)
			h->avoided = clock_mono() + s->job->host_avoid;
	}
	for (size_t i = 0; i < s->more.count; i++)
		hosts->host[hosts->count++] = (struct sup_host){
			.sup = s, .place = &s->more.one[i].place, .state = HOST_NONE};
	return 0;
}

void sup_hosts_free(struct supervisor *s)
{
	EACH_HOST (h, s, 0)
		child_free(h->probing);
	free(s->hosts.host);
	s->hosts.host = NULL;
	s->hosts.count = 0;
}

struct sup_node *sup_fabric(const struct supervisor *s)
{
	return sup_first(s, &role_fabric);
}

struct sup_host *sup_host_of(const struct sup_node *n)
{
	return &n->sup->hosts.host[n->at];
}

const char *sup_host_word(const struct sup_host *h)
{
	return host_word(h->state, h->use, sup_host_is_avoided(h));
}

static int is_far(const struct sup_host *h)
{
	return h != &h->sup->hosts.host[0];
}

int sup_fabric_is_there(const struct supervisor *s)
{
	const struct sup_node *fabric = sup_fabric(s);
	return fabric && fabric->stage == STAGE_READY && sup_link_up(&fabric->link);
}

int sup_host_is_reached(const struct sup_node *n)
{
	return n->at == 0 || sup_fabric_is_there(n->sup);
}

void sup_hosts_log(struct supervisor *s)
{
	EACH_HOST (h, s, 0) {
		if (s->hosts.count == 1 || h->state == HOST_NONE)
			continue;
		int known = h->place->cores > 0; /* it has answered */
		sup_log(s, RECORD("host", F("name", h->place->host), F("state", sup_host_word(h)),
				  F("launcher", h->place->launcher->name),
				  known ? F("cores", h->place->cores) : F_NONE,
				  known ? F("memory-mib", h->place->memory_mib) : F_NONE,
				  known ? F("sees-state", !h->place->apart) : F_NONE,
				  F("trains", h >= s->hosts.host + s->hosts.first),
				  h->place->bad[0] ? F("why", h->place->bad) : F_NONE));
	}
}

/* Says what is not limited as it should be. */
static void add_open(char *text, size_t max, const struct limits_ways *by,
		     const struct limits *want)
{
	const char *cores = "", *memory = "";
	if (want->cores > 0 && by->cores == LIMITS_NONE)
		cores = "cores are not limited";
	else if (by->cores == LIMITS_PROCESS)
		cores = "cores are a set of whole ones";
	if (want->memory > 0 && by->memory == LIMITS_NONE)
		memory = "memory is not limited";
	else if (by->memory == LIMITS_PROCESS)
		memory = "memory is limited for each process by itself";
	snprintf(text, max, "%s%s%s", cores, cores[0] && memory[0] ? ", " : "", memory);
}

void sup_hosts_limits(struct supervisor *s)
{
	const struct limits want = job_limits(s->job);
	struct limits_where where = limits_here;
	where.search = s->options.search_path;
	for (size_t i = 0; limits_any(&want) && i < s->hosts.count; i++) {
		if (sup_is_more_host(&s->hosts.host[i]))
			continue; /* nobody has asked it */
		const struct node_place *place = s->hosts.host[i].place;
		struct limits_ways by = i == 0 ? limits_look(&want, &where) : place->by;
		char open[128];
		sup_log(s, RECORD("limits", F("host", place->host),
				  F("cores-by", limits_way_name(by.cores)),
				  F("memory-by", limits_way_name(by.memory))));
		add_open(open, sizeof open, &by, &want);
		if (open[0])
			sup_note(s, "warning", "%s has no control group for nodes: %s", place->host,
				 open);
	}
}

/* ---- where a node runs ---- */

static void hosts_put(struct sup_node *n, size_t at)
{
	n->at = at;
	n->place = *n->sup->hosts.host[at].place;
}

void sup_host_home(struct sup_node *n)
{
	const struct hosts *hosts = n->sup->options.hosts;
	size_t home = n->role->where == WHERE_WORKER ? sup_more_home(n->sup, n->number) : 0;
	if (hosts && home == 0 && n->role->where == WHERE_WORKER)
		home = hosts_worker(hosts, n->number);
	else if (hosts && n->role->where == WHERE_SPARE)
		home = hosts_worker(hosts, n->sup->job->workers + n->number);
	else if (hosts && n->role->where == WHERE_HOLDER)
		home = hosts_holder(hosts, n->number);
	n->home = home;
	hosts_put(n, home);
}

int sup_host_is_avoided(const struct sup_host *h)
{
	return h->state == HOST_THERE && h->avoided > clock_mono();
}

static int hosts_is_there(const struct sup_host *h)
{
	return h->state == HOST_THERE && h->use == HOST_USED;
}

static int is_good(const struct sup_host *h)
{
	return hosts_is_there(h) && !sup_host_is_avoided(h);
}

static int is_joined(const struct sup_host *h)
{
	return host_is_joined(h->state, h->use, !is_far(h));
}

/* Index of the number-th of the hosts that train and for which is_such() holds, counted round and
 * round; the count of hosts: none is. */
static size_t nth(const struct sup_hosts *hosts, int (*is_such)(const struct sup_host *h),
		  size_t number)
{
	size_t such = 0;
	for (size_t i = hosts->first; i < hosts->count; i++)
		such += is_such(&hosts->host[i]) != 0;
	for (size_t i = hosts->first, k = 0; i < hosts->count; i++)
		if (is_such(&hosts->host[i]) && k++ == number % such)
			return i;
	return hosts->count;
}

/* A host that is avoided is better than none. */
static size_t substitute(const struct sup_hosts *hosts, size_t number)
{
	size_t at = nth(hosts, is_good, number);
	return at < hosts->count ? at : nth(hosts, hosts_is_there, number);
}

static int any_lost(const struct supervisor *s)
{
	EACH_HOST (h, s, s->hosts.first)
		if (h->state == HOST_LOST && h->use == HOST_USED)
			return 1;
	return 0;
}

int sup_host_is_fixed(const struct sup_node *n)
{
	return n->role->where == WHERE_HERE;
}

/* Whether it can run on its host only: a replica belongs to its host, and rows that only one host
 * has can't be read elsewhere. */
static int is_bound_to_host(const struct sup_node *n)
{
	return n->role == &role_replica ||
	       (n->role == &role_worker && job_is_local(n->sup->job) && n->place.apart);
}

/* If it were at this host. */
static const char *stays_at(const struct sup_node *n, const struct sup_host *at)
{
	const struct sup_hosts *hosts = &n->sup->hosts;
	if (sup_host_is_fixed(n))
		return "it belongs to the machine of trainctl";
	if (is_bound_to_host(n))
		return "it belongs to its host";
	EACH_HOST (h, n->sup, hosts->first)
		if (h != at && is_good(h))
			return NULL;
	return hosts->count - hosts->first < 2 ? "the job has no other host"
					       : "all other hosts are gone or avoided";
}

const char *sup_host_stays(const struct sup_node *n)
{
	return stays_at(n, sup_host_of(n));
}

struct sup_host *sup_host_by_name(struct supervisor *s, const char *name)
{
	EACH_HOST (h, s, 0)
		if (strcmp(h->place->host, name) == 0)
			return h;
	return NULL;
}

void sup_host_avoid_of(struct sup_node *n, const char *why)
{
	if (!sup_host_stays(n))
		sup_host_avoid(sup_host_of(n), n->id, why);
}

int sup_host_avoid(struct sup_host *h, const char *id, const char *why)
{
	struct supervisor *s = h->sup;
	double seconds = s->job->host_avoid;
	size_t others = 0;
	EACH_HOST (other, s, s->hosts.first)
		others += other != h && is_good(other);
	if (seconds <= 0 || h->state != HOST_THERE || others == 0)
		return -1;
	h->avoided = clock_mono() + seconds;
	log_say(LOG_LEVEL_WARNING, "%s is avoided for %g s (BAD_HOSTS avoid): %s%s%s",
		h->place->host, seconds, id ? id : "", id ? " " : "", why);
	sup_log(s, RECORD("host", F("name", h->place->host), F("state", sup_host_word(h)),
			  F_SECONDS("seconds", seconds), id ? F("id", id) : F_NONE, F("why", why)));
	sup_in_force_changed(s);
	return 0;
}

int sup_host_is_awaited(const struct sup_node *n)
{
	const struct sup_host *home = &n->sup->hosts.host[n->home];
	return n->stage == STAGE_OFF && is_bound_to_host(n) &&
	       (home->state == HOST_GONE || home->use != HOST_USED);
}

int sup_host_is_done_without(const struct sup_node *n)
{
	return n->role == &role_replica && sup_node_is_off(n) &&
	       n->sup->hosts.host[n->home].use == HOST_UNUSED;
}

static size_t hosts_servers(const struct supervisor *s, size_t at)
{
	size_t count = 0;
	EACH_OF (n, s, &role_server) {
		count += n->at == at;
		count += n->restart.stands && n->restart.next.runs && n->restart.next.at == at;
	}
	return count;
}

size_t sup_host_standby(const struct sup_node *n)
{
	const struct sup_hosts *hosts = &n->sup->hosts;
	int (*const such[])(const struct sup_host *h) = {is_good, hosts_is_there};
	size_t best = n->at;
	for (size_t pass = 0; pass < 2 && best == n->at; pass++)
		for (size_t i = 1; i < hosts->count; i++) {
			size_t at = (n->at + i) % hosts->count;
			if (at >= hosts->first && such[pass](&hosts->host[at]) &&
			    (best == n->at ||
			     hosts_servers(n->sup, at) < hosts_servers(n->sup, best)))
				best = at;
		}
	return best;
}

int sup_host_standby_stays(const struct sup_node *n, size_t at)
{
	if (at == n->at)
		return sup_host_standby(n) == at;
	return hosts_is_there(&n->sup->hosts.host[at]);
}

static void begin_world(struct supervisor *s, uint64_t life)
{
	EACH_HOST (h, s, 0)
		h->in_world = is_joined(h) ? life + 1 : 0;
}

static size_t hosts_world_size(const struct supervisor *s)
{
	size_t size = 0;
	EACH_HOST (h, s, 0)
		size += is_joined(h) != 0;
	return size;
}

/* -1: no fabric is needed, because this machine is alone. */
static int choose_fabric(struct sup_node *n)
{
	if (hosts_world_size(n->sup) < 2)
		return -1;
	begin_world(n->sup, n->lives);
	sup_fabric_log_begin(n);
	sup_in_force_changed(n->sup);
	sup_routes_begin(n->sup);
	return 0;
}

size_t sup_host_choice(const struct sup_node *n)
{
	const struct sup_hosts *hosts = &n->sup->hosts;
	const struct sup_host *home = &hosts->host[n->home];
	/* Wherever it is now: a choice that moves it must not change by that. */
	if (sup_host_is_fixed(n) ||
	    (hosts_is_there(home) && (is_good(home) || stays_at(n, home))))
		return n->home;
	if ((home->state == HOST_LOST && home->use == HOST_USED) || is_bound_to_host(n))
		return hosts->count;
	return substitute(hosts, n->number);
}

/* If all hosts that train are gone, waits for one of them, but not for ever. */
static void fail_if_no_host(struct supervisor *s)
{
	struct sup_hosts *hosts = &s->hosts;
	double now = clock_mono(), most = s->job->host_wait;
	char text[64] = "";
	if (any_lost(s) || substitute(hosts, 0) < hosts->count)
		return;
	if (most > 0)
		snprintf(text, sizeof text, ", %g s at most (BAD_HOSTS wait)", most);
	if (hosts->none_since == 0) {
		hosts->none_since = now;
		sup_note(s, "warning", "no host is left to train on: waiting for one%s", text);
	} else if (most > 0 && now - hosts->none_since >= most)
		sup_fail(s, ERROR_UNAVAILABLE, "no host to train on for %g s (BAD_HOSTS wait)",
			 most);
}

/* Some rows may be only on a host that is gone. The other workers train their own rows meanwhile.
 * When these are done the job waits for the host, and stops at last. It can go on later. */
static void stop_if_awaited(struct supervisor *s, double now)
{
	char text[512];
	struct sup_hosts *hosts = &s->hosts;
	if (s->progress.stat.samples_done != hosts->samples) {
		hosts->samples = s->progress.stat.samples_done;
		hosts->trained_at = now;
	}
	if (s->phases.now != PHASE_RUNNING || s->job->host_wait <= 0)
		return;
	EACH_OF (n, s, &role_worker) {
		const struct sup_host *h = &hosts->host[n->home];
		if (!sup_host_is_awaited(n) ||
		    now - fmax(h->since, hosts->trained_at) < s->job->host_wait)
			continue;
		snprintf(text, sizeof text,
			 "%s is gone, it alone has the rows of %s, and all other rows are trained; "
			 "waited %g s (BAD_HOSTS wait)",
			 h->place->host, n->id, s->job->host_wait);
		s->phases.fail_status = ERROR_UNAVAILABLE;
		sup_finish_early(s, GOAL_STOP, text);
		return;
	}
}

int sup_host_routes_hold(const struct supervisor *s)
{
	return hosts_world_size(s) < 2 || (sup_fabric_is_there(s) && sup_routes_hold(s));
}

int sup_host_choose(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	struct sup_hosts *hosts = &s->hosts;
	if (hosts->count == 1)
		return 0;
	if (n->role == &role_fabric)
		return choose_fabric(n);
	size_t at = sup_host_choice(n);
	if (at == hosts->count) {
		fail_if_no_host(s);
		return -1;
	}
	hosts->none_since = 0;
	if (at != n->at) {
		const struct sup_host *home = &hosts->host[n->home];
		if (home->state == HOST_NONE)
			sup_note(s, "placed", "%s runs on %s until Slurm gives a further host",
				 n->id, hosts->host[at].place->host);
		else
			sup_note(s, "placed", "%s runs on %s: %s is %s", n->id,
				 hosts->host[at].place->host, home->place->host,
				 home->use != HOST_USED ? "not used"
				 : at == n->home && s->scale.hosts.under_way ? "used"
				 : at != n->home && home->state == HOST_THERE ? "avoided"
				 : at != n->home			    ? "gone"
				 : home->place->slurm_job		    ? "there"
									    : "there again");
		hosts_put(n, at);
		sup_in_force_changed(s);
	}
	/* The fabric may still have the socket of a node that ran elsewhere. */
	sup_routes_step(s);
	if (hosts_world_size(s) > 1 && !sup_routes_hold(s))
		return -1;
	return at == 0 || sup_fabric_is_there(s) ? 0 : -1;
}

/* ---- lost, gone, there again ---- */

/* Its state has changed. */
static void log_state(struct sup_host *h)
{
	sup_log(h->sup, RECORD("host", F("name", h->place->host), F("state", sup_host_word(h))));
	sup_in_force_changed(h->sup);
	sup_kick(h->sup);
}

/* Whether no node there has a connection any more. What ran there was killed with its connection,
 * so others may do its work, even if the host is well. */
static int is_cut_off(const struct sup_host *h)
{
	size_t at = (size_t)(h - h->sup->hosts.host);
	EACH_NODE (n, h->sup)
		if ((n->now.runs && n->at == at) ||
		    (n->restart.next.runs && n->restart.next.at == at))
			return 0;
	return 1;
}

static void kill_all(struct sup_host *h)
{
	child_free(h->probing);
	h->probing = NULL;
	EACH_NODE (n, h->sup) {
		if (n->restart.next.runs && n->restart.next.at == (size_t)(h - h->sup->hosts.host))
			sup_restart_kill_next(n);
		if (sup_host_of(n) == h && n->role != &role_fabric)
			sup_node_kill(n);
	}
}

/* Ends the trainers that belong there and run elsewhere: they start there. One whose end would make
 * all go back returns at the next rollback. */
static void call_home(struct sup_host *h)
{
	EACH_OF (n, h->sup, sup_trainers(h->sup))
		if (n->at != n->home && !sup_takes_back(n) && &h->sup->hosts.host[n->home] == h)
			sup_node_kill(n);
}

/* If it fails: silent is the seconds since something was heard from it, and why is for people. */
static void hosts_event(struct sup_host *h, enum host_event event, double silent, const char *why)
{
	char text[512] = "";
	double now = clock_mono();
	const char *name = h->place->host,
		   *how = h->state == HOST_NONE ? ": Slurm has given it" : " again";
	enum host_do todo = host_step(&h->state, h->use, event);
	switch (todo) {
	case HOST_DO_NOTHING:
		return;
	case HOST_DO_PROBE:
		snprintf(text, sizeof text, "%s is lost: %s; it is asked for an answer", name, why);
		h->probe_at = now;
		break;
	case HOST_DO_TELL:
	case HOST_DO_HOME:
		snprintf(text, sizeof text, "%s is there%s", name, how);
		break;
	case HOST_DO_KILL:
		snprintf(text, sizeof text,
			 "%s is gone: no answer for %.3g s; its nodes run elsewhere until it is "
			 "back",
			 name, now - h->since);
		break;
	case HOST_DO_YIELD: /* Slurm tells the processes there to end, and so do we */
		break;
	}
	h->since = now - silent;
	h->unanswered = 0;
	if (text[0]) {
		sup_note(h->sup, "warning", "%s", text);
		log_state(h);
	}
	if (todo == HOST_DO_KILL || todo == HOST_DO_YIELD)
		kill_all(h);
	if (todo == HOST_DO_HOME && h->use == HOST_USED)
		call_home(h);
	sup_kick(h->sup);
}

void sup_host_named(struct sup_host *h)
{
	name_host(h, (size_t)(h - h->sup->hosts.host));
	h->swept = 0;
	EACH_NODE (n, h->sup)
		if (sup_host_of(n) == h)
			n->place = *h->place;
}

void sup_host_given(struct sup_host *h)
{
	hosts_event(h, HOST_ANSWERS, 0, NULL);
}

void sup_host_taken(struct sup_host *h)
{
	hosts_event(h, HOST_TAKEN, 0, NULL);
}

/* On a link that is full, the answer to a probe needs some time. */
static double probe_seconds(const struct sup_host *h, double now)
{
	double least = deadline_seconds(DEADLINE_HOST);
	if (is_cut_off(h))
		return least;
	if (h->state != HOST_LOST)
		return DOUBT_SECONDS;
	return fmax(least, h->since + SILENT_SECONDS - now);
}

static void give_up_if_silent(struct sup_host *h)
{
	double now = clock_mono();
	if (h->answer_by > 0) /* no node is left that could run elsewhere */
		return;
	int unanswered = h->unanswered || (h->probing && now - h->probed >= CUT_OFF_SECONDS);
	if (unanswered && now - h->since >= (is_cut_off(h) ? CUT_OFF_SECONDS : SILENT_SECONDS))
		hosts_event(h, HOST_SILENT, 0, NULL);
}

/* The pause grows with the time that the host is gone, so that one that was given up wrongly is
 * found soon. */
static double pause_before_probe(const struct sup_host *h, double now)
{
	double most = deadline_seconds(DEADLINE_HOST_AGAIN), passed = now - h->since;
	if (h->state != HOST_GONE || passed < PROBE_SECONDS)
		return PROBE_SECONDS;
	return passed < most ? passed : most;
}

static void hosts_on_probe(const struct child_end *e, void *arg)
{
	struct sup_host *h = arg;
	double now = clock_mono();
	char text[CHILD_WHY_MAX];
	int answers = child_failure(e, text) == NULL;
	h->probing = NULL;
	if (h->probe == PROBE_PENDING) {
		h->probe = answers ? PROBE_THERE : PROBE_MISSING;
		sup_kick(h->sup);
	}
	hosts_event(h, answers ? HOST_ANSWERS : HOST_FAILS,
		    !answers && h->doubted > 0 ? now - h->doubted : 0, "it does not answer");
	h->unanswered = !answers;
	if (answers) {
		h->doubted = 0;
		h->heard = now;
		return;
	}
	h->probe_at = now + pause_before_probe(h, now);
	give_up_if_silent(h);
}

void sup_host_set_use(struct sup_host *h, enum host_use use)
{
	if (h->use == use)
		return;
	h->use = use;
	h->probe = PROBE_NONE;
	log_say(LOG_LEVEL_INFO, "%s is %s", h->place->host,
		use == HOST_USED     ? "used from now on"
		: use == HOST_LEAVES ? "left"
				     : "not used any more");
	log_state(h);
}

static void hosts_probe(struct sup_host *h)
{
	double now = clock_mono();
	const struct child_options options = {
		/* Of a host that does not answer, ssh says the same each time. */
		.errors = CHILD_ERRORS_DROPPED,
		.seconds = probe_seconds(h, now), .done = hosts_on_probe, .arg = h};
	struct argv argv = {0};
	struct error err;
	if (h->probing || !is_far(h))
		return;
	argv_add(&argv, h->place->node_host, "--by", h->place->launcher->name);
	argv_u64(&argv, "--slurm-job", h->place->slurm_job);
	argv_add(&argv, h->place->host, "/bin/sh", "-c", ":");
	h->probed = now;
	h->probe_at = now + PROBE_SECONDS;
	if (child_ask(&h->probing, h->sup->base, &argv, options, &err) != 0)
		sup_note(h->sup, "warning", "%s can't be asked: %s", h->place->host, err.text);
}

void sup_host_probe(struct sup_host *h)
{
	h->probe = is_far(h) ? PROBE_PENDING : PROBE_THERE;
	if (h->probe == PROBE_PENDING)
		hosts_probe(h);
	if (h->probe == PROBE_PENDING && !h->probing)
		h->probe = PROBE_MISSING;
}

/* A host that has just died may soon be back. Whether it is used makes no difference here. */
int sup_host_await(struct sup_host *h)
{
	double now = clock_mono();
	if (h->state == HOST_THERE) {
		h->state = HOST_LOST;
		h->since = now;
	}
	if (h->answer_by == 0)
		h->answer_by = fmax(now, h->since + deadline_seconds(DEADLINE_HOST_AGAIN));
	hosts_probe(h);
	return sup_host_is_waited_for(h);
}

int sup_host_is_waited_for(const struct sup_host *h)
{
	return h->state != HOST_THERE && (h->probing || clock_mono() < h->answer_by);
}

int sup_host_was_lost(const struct sup_node *n, const struct node_end *end)
{
	return n->at != 0 && launcher_lost_host(&n->place, end);
}

/* A world ends at once with any of its hosts, and launchers may report a lost host later. So all
 * are probed. */
static void hosts_probe_all(struct supervisor *s)
{
	double now = clock_mono();
	EACH_HOST (h, s, 1) {
		if (h->state != HOST_THERE || h->use == HOST_UNUSED || h->probing)
			continue;
		h->doubted = now;
		hosts_probe(h);
	}
}

void sup_host_ended(struct sup_process *p, const struct node_end *end)
{
	struct sup_node *n = p->node;
	struct sup_host *h = &n->sup->hosts.host[p->at];
	char why[128];
	n->sup->hosts.killed |= !end->seen || end->signal;
	if (n->role == &role_fabric && !n->end_wanted) {
		sup_fabric_log_ended(n);
		hosts_probe_all(n->sup); /* one of them may be why */
	}
	sup_more_recheck(n);
	if (!is_far(h) || !launcher_lost_host(h->place, end))
		return;
	snprintf(why, sizeof why, "%s can't be reached there", n->id);
	hosts_event(h, HOST_FAILS, 0, why);
	hosts_probe(h);
}

void sup_host_doubt(struct sup_node *n)
{
	if (n->at != 0 && sup_host_of(n)->state == HOST_THERE)
		hosts_probe(sup_host_of(n));
}

void sup_host_silent(struct sup_node *n, double silent, double limit)
{
	struct sup_host *h = sup_host_of(n);
	double now = clock_mono(), since = fmax(now - silent, h->heard);
	if (n->at == 0 || h->state != HOST_THERE || h->probing ||
	    now - since < fmax(DOUBT_SECONDS, limit * DOUBT_SHARE))
		return;
	h->doubted = since;
	hosts_probe(h);
}

void sup_host_restore(struct supervisor *s, const char *name, int is_gone, uint64_t in_world,
		      double avoided, double leaves)
{
	double left = avoided < s->job->host_avoid ? avoided : s->job->host_avoid;
	struct sup_host *h = sup_host_by_name(s, name);
	if (!h)
		return;
	h->in_world = in_world;
	if (left > 0)
		h->avoided = clock_mono() + left;
	if (h->use == HOST_LEAVES && isfinite(leaves))
		h->leave_by = clock_mono() + fmax(leaves, 0);
	if (is_gone && is_far(h))
		h->state = HOST_GONE;
}

/* What was kept may be about an earlier world. Then it is not known which hosts are in the world
 * that runs, and another one is started. A host that is gone is assumed to be in it, so that we do
 * not wait for it to end by itself. */
void sup_hosts_adopted(struct supervisor *s)
{
	const struct sup_node *fabric = sup_fabric(s);
	if (!fabric || !sup_node_runs(fabric))
		return;
	EACH_HOST (h, s, 0)
		if (h->in_world != fabric->now.life + 1 && h->state != HOST_GONE)
			h->in_world = 0;
}

void sup_hosts_are_there(struct supervisor *s)
{
	EACH_HOST (h, s, 0)
		if (h->place->host[0])
			h->state = HOST_THERE;
	EACH_NODE (n, s)
		hosts_put(n, n->home);
}

void sup_host_put(struct sup_node *n, size_t at)
{
	hosts_put(n, at);
	sup_in_force_changed(n->sup);
}

void sup_host_placed(struct sup_node *n, const char *name)
{
	const struct sup_host *h = sup_host_by_name(n->sup, name);
	if (h)
		hosts_put(n, (size_t)(h - n->sup->hosts.host));
}

void sup_host_found(struct sup_node *n, const char *name, const char *lost)
{
	const struct sup_host *h = sup_host_by_name(n->sup, name);
	struct sup_host *home = &n->sup->hosts.host[n->home];
	if (!h || h == sup_host_of(n))
		return;
	sup_host_placed(n, name);
	if (h != home && sup_host_by_name(n->sup, lost) == home && home->state == HOST_THERE)
		home->state = HOST_GONE;
}

/* ---- the fabric ---- */

/* Gives up a world that does not come up. One of its hosts may be the reason. */
static void renew_if_late(struct sup_node *fabric)
{
	struct supervisor *s = fabric->sup;
	double time = clock_mono() - fabric->now.since;
	if (fabric->stage != STAGE_STARTING || fabric->now.doomed ||
	    time < deadline_seconds(DEADLINE_FABRIC))
		return;
	sup_note(s, "late", "the fabric is not up after %.3g s: started anew", time);
	hosts_probe_all(s);
	sup_node_give_up(fabric);
}

void sup_hosts_tick(struct supervisor *s)
{
	struct sup_node *fabric = sup_fabric(s);
	double now = clock_mono();
	int ends = s->phases.now >= PHASE_STOPPING;
	if (!fabric)
		return;
	EACH_HOST (h, s, 1) {
		if (h->state == HOST_NONE || (ends ? now >= h->answer_by : h->use == HOST_UNUSED))
			continue;
		give_up_if_silent(h);
		if (h->state != HOST_THERE && now >= h->probe_at)
			hosts_probe(h);
	}
	if (ends)
		return;
	renew_if_late(fabric);
	stop_if_awaited(s, now);
}

/* Ends the world, so that another one is started. Ranks that are asked to end do so together,
 * unless one of them is gone (without). The next world waits for a rank that is cut off. */
static void hosts_renew(struct sup_node *fabric, int without)
{
	const struct supervisor *s = fabric->sup;
	if (without) {
		sup_node_kill(fabric);
		return;
	}
	fabric->uncounted += s->scale.hosts.under_way != 0;
	sup_tell(&fabric->link, RECORD_BARE("end"));
	sup_node_renew(fabric, sup_link_up(&fabric->link) ? 0 : SIGTERM);
}

static int lacks_a_host(const struct supervisor *s)
{
	EACH_HOST (h, s, 1)
		if (h->in_world && h->state != HOST_THERE)
			return 1;
	return 0;
}

/* Asks the ranks to end, if all can hear it: one that mpirun kills leaves its sockets behind. */
void sup_fabric_stop(struct sup_node *fabric)
{
	if (fabric->stage == STAGE_STOPPING)
		return;
	if (!sup_link_up(&fabric->link) || lacks_a_host(fabric->sup)) {
		sup_node_stop(fabric, SIGTERM);
		return;
	}
	sup_tell(&fabric->link, RECORD_BARE("end"));
	sup_node_stop(fabric, 0);
	timer_set(fabric->timer, deadline_seconds(DEADLINE_STOP));
}

static int is_misplaced(const struct sup_host *h)
{
	return host_is_misplaced(h->state, h->use, !is_far(h), h->in_world != 0);
}

int sup_hosts_are_joined(const struct supervisor *s)
{
	const struct sup_node *fabric = sup_fabric(s);
	if (!fabric)
		return 1;
	if (hosts_world_size(s) < 2)
		return sup_node_is_off(fabric);
	EACH_HOST (h, s, 1)
		if (is_misplaced(h))
			return 0;
	return sup_fabric_is_there(s) && !fabric->end_wanted;
}

/* If the world does not have the present hosts, another one is started: nothing is lost by that. A
 * lost host stays in it until it is gone. A host that comes back when nothing is left to train
 * stays out. */
void sup_hosts_step(struct supervisor *s)
{
	struct sup_node *fabric = sup_fabric(s);
	int differs = 0, without = 0;
	if (!fabric)
		return;
	EACH_HOST (h, s, 1) {
		differs |= is_misplaced(h);
		without |= (h->state == HOST_GONE || h->state == HOST_NONE) && h->in_world;
	}
	if (differs && (without || !s->progress.all_done) && sup_node_runs(fabric) &&
	    !fabric->end_wanted)
		hosts_renew(fabric, without);
	sup_routes_step(s);
}

/*
 * sup_nodes: the processes of a job: launched through their parents, watched, stopped, adopted.
 *
 * What an end means is the table's business (policy.h); what is done about it, that of the room for
 * the role (sup_mend, sup_rollback).  Every process is known by its record file, so that it makes
 * no difference which supervisor started it.
 */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const role_name[] = {"shardd", "monitor", "server", "worker"};

const char *sup_role_name(enum sup_role role)
{
	return role_name[role];
}

static struct timeval timeval_of(double seconds)
{
	struct timeval t = {.tv_sec = (time_t)seconds};
	t.tv_usec = (suseconds_t)((seconds - (double)t.tv_sec) * 1e6);
	return t;
}

static void arm(struct event *timer, double seconds)
{
	struct timeval tv = timeval_of(seconds);
	event_add(timer, &tv);
}

static void record_path(const struct sup_node *n, uint64_t life, char *out)
{
	char name[128];
	snprintf(name, sizeof name, "nodes/%s.%llu", n->id, (unsigned long long)life);
	place_state(&n->sup->place, name, out);
}

static void lock_path(const struct sup_node *n, char *out)
{
	char name[128];
	snprintf(name, sizeof name, "nodes/%s.lock", n->id);
	place_state(&n->sup->place, name, out);
}

/* ---- watching ---- */

static void unwatch(struct sup_node *n)
{
	if (n->watch)
		event_free(n->watch);
	n->watch = NULL;
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

static void on_end(evutil_socket_t fd, short what, void *arg);

static int watch(struct sup_node *n, pid_t pid, uint64_t start)
{
	unwatch(n);
	n->fd = process_watch(pid, start);
	if (n->fd < 0)
		return -1;
	n->watch = event_new(n->sup->base, n->fd, EV_READ | EV_PERSIST, on_end, n);
	return n->watch && event_add(n->watch, NULL) == 0 ? 0 : -1;
}

static int read_record(const struct sup_node *n, struct node_record *r)
{
	char path[PLACE_MAX];
	record_path(n, n->life, path);
	return node_record_read(path, r, NULL);
}

static void ended(struct sup_node *n, const struct node_end *end)
{
	unwatch(n);
	event_del(n->deadline);
	event_del(n->timer);
	n->end = *end;
	n->parent = n->pid = 0;
	enum end_class class = policy_class(end);
	sup_event(n->sup, n, "exit", end);
	if (n->role == ROLE_SHARDD || n->role == ROLE_MONITOR || n->role == ROLE_SERVER)
		sup_kick(n->sup);
	sup_node_event(n, class == END_UNRETRYABLE ? EVENT_ENDED_BAD : EVENT_ENDED);
}

/* The watched process ended: usually the parent, which has written how. If it was killed instead,
 * the node may go on without it. */
static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct sup_node *n = arg;
	struct node_record r;
	int status = 0;
	(void)fd;
	(void)what;
	if (n->parent > 0)
		waitpid(n->parent, &status, WNOHANG); /* ours to reap, or init's */
	struct node_end end = {0};
	if (read_record(n, &r) == 0) {
		if (r.ended)
			end = r.end;
		else if (!n->orphan && process_alive(r.pid, r.start)) {
			n->orphan = 1;
			n->pid = r.pid;
			n->start = r.start;
			if (watch(n, r.pid, r.start) == 0) {
				sup_note(n->sup, "orphan", "%s goes on without its parent", n->id);
				return;
			}
		}
	} else if (!n->orphan && WIFEXITED(status) && WEXITSTATUS(status) != 0)
		end = (struct node_end){.seen = 1, .status = WEXITSTATUS(status)};
	ended(n, &end);
}

/* ---- launching ---- */

static const char *launcher_of(const struct sup_node *n)
{
	if (n->role == ROLE_WORKER)
		return n->sup->job->launch_worker;
	return n->role == ROLE_SERVER ? n->sup->job->launch_server : NULL;
}

static int launch(struct sup_node *n, struct error *err)
{
	char record[PLACE_MAX], log[PLACE_MAX], lock[PLACE_MAX];
	n->life = n->lives;
	char **argv = sup_command(n, err);
	if (!argv)
		return -1;
	record_path(n, n->life, record);
	sup_node_log_path(n, log);
	lock_path(n, lock);
	sup_log_rotate(n);
	struct launch l = {.id = n->id,
			   .life = n->life,
			   .record = record,
			   .log = log,
			   .lock = lock,
			   .launcher = launcher_of(n),
			   .argv = argv};
	int result = parent_launch(&l, &n->parent, err);
	free(argv);
	if (result != 0)
		return -1;
	n->restarts = n->lives++;
	n->pid = 0;
	n->orphan = 0;
	n->asked = 0;
	n->since = clock_mono();
	uint64_t start;
	if (process_start(n->parent, &start) != 0 || watch(n, n->parent, start) != 0) {
		/* It ended at once; its end is looked at as if it had been watched. */
		struct timeval now = {0};
		event_base_once(n->sup->base, -1, EV_TIMEOUT, on_end, n, &now);
	}
	return 0;
}

static void on_ready_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct sup_node *n = arg;
	(void)fd;
	(void)what;
	sup_note(n->sup, "late", "%s does not answer after %g s: killed", n->id,
		 deadline_seconds(DEADLINE_READY));
	sup_node_kill(n);
	n->asked = 0; /* counts against it */
}

void sup_node_want(struct sup_node *n)
{
	struct error err;
	if (n->stage != STAGE_OFF)
		return;
	if (launch(n, &err) != 0) {
		char text[1024];
		error_format(&err, text, sizeof text);
		if (err.code == ERROR_TEMPFAIL || err.code == ERROR_OS) {
			sup_note(n->sup, "retry", "%s can't be started yet: %s", n->id, text);
			sup_kick_after(n->sup, 1);
		} else
			sup_fail(n->sup, err.code, "%s can't be started: %s", n->id, text);
		return;
	}
	sup_node_event(n, EVENT_LAUNCHED);
	sup_event(n->sup, n, n->lives > 1 ? "restart" : "start", NULL);
	if (n->role != ROLE_WORKER)
		arm(n->deadline, deadline_seconds(DEADLINE_READY));
}

/* ---- signals ---- */

static void on_timer(evutil_socket_t fd, short what, void *arg);

static void send_signal(struct sup_node *n)
{
	struct node_record r;
	if (n->pid == 0 && read_record(n, &r) == 0) {
		n->pid = r.pid;
		n->start = r.start;
	}
	if (n->pid == 0) {
		arm(n->timer, 0.02); /* its parent is just about to start it */
		return;
	}
	if (!process_alive(n->pid, n->start))
		return;
	/* The node leads a group of its own: a launch template's shell is hit with the program. */
	if (kill(-n->pid, n->stop_signal) != 0)
		kill(n->pid, n->stop_signal);
	if (n->stop_signal != SIGKILL)
		arm(n->timer, deadline_seconds(DEADLINE_STOP));
}

static void pause_over(struct sup_node *n)
{
	sup_node_event(n, EVENT_PAUSE_OVER);
	sup_kick(n->sup);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct sup_node *n = arg;
	(void)fd;
	(void)what;
	if (n->stage == STAGE_PAUSING) {
		pause_over(n);
		return;
	}
	if (n->pid != 0 && n->stop_signal != SIGKILL) {
		sup_note(n->sup, "late", "%s does not end after %g s: SIGKILL", n->id,
			 deadline_seconds(DEADLINE_STOP));
		n->stop_signal = SIGKILL;
	}
	send_signal(n);
}

void sup_node_stop(struct sup_node *n, int signal)
{
	if (n->stage == STAGE_OFF || (n->stage == STAGE_STOPPING && signal == n->stop_signal))
		return;
	n->stop_signal = signal;
	event_del(n->deadline);
	sup_node_event(n, EVENT_STOP);
}

void sup_node_kill(struct sup_node *n)
{
	if (n->stage != STAGE_STARTING && n->stage != STAGE_READY)
		return;
	n->asked = 1;
	n->stop_signal = SIGKILL;
	sup_event(n->sup, n, "kill", NULL);
	send_signal(n);
}

/* ---- the table's actions ---- */

/* Whether it may be launched again after this end. */
static int within_limit(struct sup_node *n)
{
	char text[128];
	struct supervisor *s = n->sup;
	if (clock_mono() - n->since >= POLICY_WELL_SECONDS)
		n->in_a_row = 0;
	if (n->asked)
		return 1;
	n->in_a_row++;
	policy_end_text(&n->end, text, sizeof text);
	if (n->in_a_row <= s->job->restarts) {
		sup_note(s, "relaunch", "%s: %s; starts again (%llu of %llu)", n->id, text,
			 (unsigned long long)n->in_a_row, (unsigned long long)s->job->restarts);
		return 1;
	}
	sup_last_words(n);
	sup_fail(s, policy_end_status(&n->end), "%s: %s, %llu times in a row (RESTARTS)", n->id,
		 text, (unsigned long long)n->in_a_row);
	return 0;
}

static void mend(struct sup_node *n)
{
	if (!within_limit(n))
		return;
	switch (n->role) {
	case ROLE_WORKER:
		n->mend = MEND_ASK;
		break;
	case ROLE_SERVER:
		sup_rollback_begin(n->sup, "a server ended");
		break;
	default:
		sup_node_event(n, EVENT_MENDED);
	}
	sup_kick(n->sup);
}

static void fail(struct sup_node *n)
{
	char text[128];
	policy_end_text(&n->end, text, sizeof text);
	sup_last_words(n);
	sup_fail(n->sup, policy_end_status(&n->end), "%s: %s, which would happen again", n->id,
		 text);
}

void sup_node_event(struct sup_node *n, enum node_event event)
{
	struct error err;
	enum node_action action;
	if (policy_step(&n->stage, event, &action, &err) != 0) {
		sup_fail(n->sup, err.code, "%s: %s", n->id, err.text);
		return;
	}
	switch (action) {
	case DO_NOTHING:
		break;
	case DO_TELL:
		event_del(n->deadline);
		sup_event(n->sup, n, "ready", NULL);
		break;
	case DO_MEND:
		mend(n);
		break;
	case DO_FAIL:
		fail(n);
		break;
	case DO_PAUSE:
		arm(n->timer, n->asked ? 0 : policy_pause(n->in_a_row));
		break;
	case DO_LAUNCH:
		break; /* the phase's step wants it, when it is time */
	case DO_SIGNAL:
		if (n->stop_signal)
			send_signal(n);
		break;
	case DO_GONE:
		event_del(n->timer);
		break;
	}
	sup_kick(n->sup);
}

/* ---- adopting ---- */

static int latest_life(const struct sup_node *n, uint64_t *life)
{
	char dir[PLACE_MAX];
	size_t len = strlen(n->id);
	int found = 0;
	place_state(&n->sup->place, "nodes", dir);
	DIR *d = opendir(dir);
	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));) {
		char *end;
		if (strncmp(e->d_name, n->id, len) != 0 || e->d_name[len] != '.' ||
		    e->d_name[len + 1] < '0' || e->d_name[len + 1] > '9')
			continue;
		unsigned long long number = strtoull(e->d_name + len + 1, &end, 10);
		if (*end == '\0' && (!found || number > *life)) {
			*life = number;
			found = 1;
		}
	}
	closedir(d);
	return found;
}

/* A parent that holds the lock and has written no record of a running node yet: the supervisor
 * before us was killed as it launched. It is waited for, so that no id runs twice. */
static int settle(struct sup_node *n, struct node_record *r, struct error *err)
{
	char lock[PLACE_MAX];
	lock_path(n, lock);
	double until = clock_mono() + deadline_seconds(DEADLINE_ADOPT);
	for (;;) {
		int fd, known = latest_life(n, &n->life) && read_record(n, r) == 0;
		int running = known ? node_record_running(r) : 0;
		if (running & RECORD_NODE_RUNS)
			return 1;
		if (fs_lock(lock, &fd, err) == 0) {
			close(fd);
			return known ? 0 : -1; /* -1: never started, or as good as */
		}
		if (err->code != ERROR_TEMPFAIL || clock_mono() > until)
			return -2;
		clock_sleep(0.02);
	}
}

static int adopt(struct sup_node *n, struct error *err)
{
	struct node_record r;
	int how = settle(n, &r, err);
	if (how == -2)
		return -1;
	if (how == -1)
		return 0;
	n->lives = n->life + 1;
	n->restarts = n->life;
	if (how == 0)
		return 0;
	n->pid = r.pid;
	n->start = r.start;
	n->since = clock_mono();
	n->orphan = !(node_record_running(&r) & RECORD_PARENT_RUNS);
	n->parent = n->orphan ? 0 : r.parent;
	if (watch(n, n->orphan ? r.pid : r.parent, n->orphan ? r.start : r.parent_start) != 0) {
		/* Gone in this moment: seen in the first turn of the loop. */
		struct timeval now = {0};
		event_base_once(n->sup->base, -1, EV_TIMEOUT, on_end, n, &now);
	}
	sup_node_event(n, EVENT_LAUNCHED);
	sup_event(n->sup, n, "adopt", NULL);
	if (n->role != ROLE_WORKER)
		arm(n->deadline, deadline_seconds(DEADLINE_READY));
	return 1;
}

/* Of a node that ended while no supervisor was there the end still counts. */
static void take_missed_end(struct sup_node *n)
{
	struct node_record r;
	if (n->stage != STAGE_OFF || n->lives == 0 || read_record(n, &r) != 0)
		return;
	n->since = r.ended ? clock_mono() - (r.end_at - r.at) : clock_mono();
	sup_node_event(n, EVENT_LAUNCHED);
	struct node_end none = {0};
	ended(n, r.ended ? &r.end : &none);
}

/* Nothing runs: records are of an earlier run, and lives are counted anew. */
static void forget(struct supervisor *s)
{
	for (size_t i = 0; i < s->node_count; i++) {
		struct sup_node *n = &s->node[i];
		char path[PLACE_MAX];
		for (uint64_t life = 0; life < n->lives; life++) {
			record_path(n, life, path);
			unlink(path);
		}
		n->lives = n->restarts = 0;
	}
}

int sup_nodes_adopt(struct supervisor *s, struct error *err)
{
	int running = 0;
	for (size_t i = 0; i < s->node_count; i++) {
		int one = adopt(&s->node[i], err);
		if (one < 0)
			return -1;
		running += one;
	}
	if (running == 0) {
		forget(s);
		return 0;
	}
	for (size_t i = 0; i < s->node_count; i++)
		take_missed_end(&s->node[i]);
	return running;
}

/* ---- all ---- */

static int node_init(struct supervisor *s, struct sup_node *n, enum sup_role role, uint32_t index,
		     const char *id, struct error *err)
{
	n->sup = s;
	n->role = role;
	n->index = index;
	n->fd = -1;
	snprintf(n->id, sizeof n->id, "%s", id);
	n->timer = evtimer_new(s->base, on_timer, n);
	n->deadline = evtimer_new(s->base, on_ready_deadline, n);
	if (!n->timer || !n->deadline)
		return error_set(err, ERROR_OS, id, "out of memory");
	return 0;
}

int sup_nodes_new(struct supervisor *s, struct error *err)
{
	size_t servers = s->job->servers, workers = s->job->workers;
	s->node_count = 2 + servers + workers;
	s->node = calloc(s->node_count, sizeof *s->node);
	if (!s->node)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->shardd = s->node;
	s->monitor = s->node + 1;
	s->servers = s->node + 2;
	s->workers = s->servers + servers;
	if (node_init(s, s->shardd, ROLE_SHARDD, 0, "shardd", err) != 0 ||
	    node_init(s, s->monitor, ROLE_MONITOR, 0, "bpt-monitor", err) != 0)
		return -1;
	for (size_t i = 0; i < servers + workers; i++) {
		char id[32];
		int server = i < servers;
		uint32_t index = (uint32_t)(server ? i : i - servers);
		snprintf(id, sizeof id, server ? "ps%u" : "w%u", index);
		if (node_init(s, &s->servers[i], server ? ROLE_SERVER : ROLE_WORKER, index, id,
			      err) != 0)
			return -1;
	}
	return 0;
}

void sup_nodes_free(struct supervisor *s)
{
	for (size_t i = 0; s->node && i < s->node_count; i++) {
		struct sup_node *n = &s->node[i];
		sup_link_close(&n->link);
		unwatch(n);
		if (n->timer)
			event_free(n->timer);
		if (n->deadline)
			event_free(n->deadline);
	}
	free(s->node);
	s->node = NULL;
}

int sup_nodes_off(const struct sup_node *first, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (first[i].stage != STAGE_OFF)
			return 0;
	return 1;
}

struct sup_node *sup_node_find(struct supervisor *s, const char *id)
{
	for (size_t i = 0; i < s->node_count; i++)
		if (strcmp(s->node[i].id, id) == 0)
			return &s->node[i];
	return NULL;
}

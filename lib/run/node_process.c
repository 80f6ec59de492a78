/* node_process: see node_process.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "proc/process.h"

#include <dirent.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define RECORDS_KEPT 4 /* of a node, with that of its last process */

static void record_path(const struct sup_node *n, uint64_t life, char *out)
{
	char name[128];
	snprintf(name, sizeof name, "nodes/%s.%llu", n->id, (unsigned long long)life);
	dirs_state(&n->sup->dirs, name, out);
}

static int node_process_read_record(const struct sup_process *p, struct node_record *r)
{
	char path[DIRS_PATH_MAX];
	record_path(p->node, p->life, path);
	return node_record_read(path, r, NULL);
}

static void lock_path(const struct sup_node *n, int second, char *out)
{
	char name[128];
	snprintf(name, sizeof name, "nodes/%s%s.lock", n->id, second ? ".heir" : "");
	dirs_state(&n->sup->dirs, name, out);
}

/* The same two on another host, in the run directory, where another job may have nodes of these ids. A
 * node that takes over takes its own; any other one takes the first, and ends who has the second. */
struct locks_there {
	char path[2][DIRS_PATH_MAX];
	const char *list[3]; /* NULL behind the last */
};

static void locks_there(const struct sup_node *n, int second, int take_over, struct locks_there *l)
{
	char job[HOST_NAME_MAX_BYTES + DIRS_PATH_MAX], name[128];
	struct node_place here;
	launcher_here(&here);
	int len = snprintf(job, sizeof job, "%s:%s", here.host, n->sup->dirs.state);
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof name, "%s.%016llx%s.lock", n->id,
			 (unsigned long long)XXH3_64bits(job, (size_t)len), i ? ".heir" : "");
		dirs_run(&n->sup->dirs, name, l->path[i]);
	}
	l->list[0] = l->path[take_over ? second : 1];
	l->list[1] = take_over ? NULL : l->path[0];
	l->list[2] = NULL;
}

/* Which of the two locks are held, a bit each; -1: err. */
static int locks_held(const struct sup_node *n, struct error *err)
{
	int held = 0;
	for (int second = 0; second < 2; second++) {
		char path[DIRS_PATH_MAX];
		int fd;
		lock_path(n, second, path);
		if (fs_lock(path, &fd, err) == 0)
			close(fd);
		else if (err->code == ERROR_TEMPFAIL)
			held |= 1 << second;
		else
			return -1;
	}
	return held;
}

/* ---- watching ---- */

static void unwatch(struct sup_process *p)
{
	if (p->watch)
		event_free(p->watch);
	p->watch = NULL;
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

static void node_process_has_ended(struct sup_process *p, const struct node_end *end)
{
	unwatch(p);
	p->runs = 0;
	p->parent = p->pid = 0;
	p->ended(p->node, end);
}

static void node_process_follow(struct sup_process *p, pid_t pid, uint64_t start);

/* Its parent has ended without a word: the node may go on without it. */
static int goes_on(struct sup_process *p, const struct node_record *r)
{
	if (p->orphan || !process_alive(r->pid, r->start))
		return 0;
	p->orphan = 1;
	p->pid = r->pid;
	p->start = r->start;
	node_process_follow(p, p->pid, p->start);
	if (p->doomed)
		sup_process_signal(p, SIGKILL);
	else
		sup_note(p->node->sup, "orphan", "%s goes on without its parent", p->node->id);
	return 1;
}

/* The watched process has ended: usually the parent, which has written how the node ended. */
static void node_process_on_end(evutil_socket_t fd, short what, void *arg)
{
	struct sup_process *p = arg;
	struct node_record r;
	struct node_end end = {0};
	int status = 0;
	(void)fd;
	(void)what;
	if (p->parent > 0)
		waitpid(p->parent, &status, WNOHANG); /* it fails if the parent is not our child */
	if (node_process_read_record(p, &r) == 0) {
		if (r.ended)
			end = r.end;
		else if (goes_on(p, &r))
			return;
	} else if (!p->orphan && WIFEXITED(status) && WEXITSTATUS(status) != 0)
		end = (struct node_end){.seen = 1, .status = WEXITSTATUS(status)};
	node_process_has_ended(p, &end);
}

/* If the process has ended already, its end is handled in the next turn of the loop. */
static void node_process_follow(struct sup_process *p, pid_t pid, uint64_t start)
{
	unwatch(p);
	p->fd = process_watch(pid, start);
	p->watch =
		event_new(p->node->sup->base, p->fd, EV_READ | EV_PERSIST, node_process_on_end, p);
	if (!p->watch)
		sup_fail(p->node->sup, ERROR_OS, "%s can't be watched: out of memory", p->node->id);
	else if (p->fd < 0 || event_add(p->watch, NULL) != 0)
		event_active(p->watch, EV_TIMEOUT, 0);
}

void sup_process_init(struct sup_process *p, struct sup_node *n,
		      void (*ended)(struct sup_node *n, const struct node_end *end))
{
	*p = (struct sup_process){.node = n, .ended = ended, .fd = -1};
}

void sup_process_release(struct sup_process *p)
{
	unwatch(p);
}

/* ---- launching, adopting ---- */

/* A node may be started thousands of times. The last records tell what happened to it. */
static void drop_old_record(const struct sup_node *n)
{
	char path[DIRS_PATH_MAX];
	struct node_record r;
	if (n->lives <= RECORDS_KEPT)
		return;
	record_path(n, n->lives - 1 - RECORDS_KEPT, path);
	if (node_record_read(path, &r, NULL) == 0 && !node_record_running(&r))
		unlink(path);
}

/* The lock that a new process takes: 0 or 1; -1: err. */
static int choose_lock(const struct sup_node *n, int take_over, struct error *err)
{
	int held = locks_held(n, err);
	if (held < 0)
		return -1;
	if (held == 3 || (held && !take_over))
		return error_set(err, ERROR_TEMPFAIL, n->id, "an earlier process still ends");
	return held == 1;
}

int sup_process_launch(struct sup_process *p, size_t at, int take_over, struct error *err)
{
	struct sup_node *n = p->node;
	char record[DIRS_PATH_MAX], log[DIRS_PATH_MAX], lock[DIRS_PATH_MAX];
	int second = choose_lock(n, take_over, err);
	struct argv argv = {0};
	if (second < 0 || sup_command(n, n->lives, take_over, &argv, err) != 0)
		return -1;
	record_path(n, n->lives, record);
	sup_node_log_path(n, log);
	lock_path(n, second, lock);
	p->at = at;
	if (!take_over)
		sup_node_log_rotate(n); /* nobody writes to it */
	struct sup_files files;
	sup_files(n, &files);
	struct locks_there there;
	locks_there(n, second, take_over, &there);
	struct launch l = {.name = {.id = n->id,
				    .number = n->number,
				    .place = n->sup->hosts.host[at].place},
			   .life = n->lives,
			   .record = record,
			   .log = log,
			   .lock = lock,
			   .template = n->role->template ? n->role->template(n->sup->job) : NULL,
			   .limits = sup_node_limits(n, at),
			   .keeps = n->role->in_memory && n->sup->job->checkpoint_memory[0],
			   .search = n->sup->options.search_path,
			   .make = files.make,
			   .bring = files.bring,
			   .lock_there = there.list,
			   .argv = argv.word};
	pid_t parent;
	int result = parent_launch(&l, &parent, err);
	argv_free(&argv);
	if (result != 0)
		return -1;
	p->runs = 1;
	p->life = sup_node_next_life(n);
	drop_old_record(n);
	p->parent = parent;
	p->pid = 0;
	p->found = p->orphan = p->doomed = p->forced = 0;
	p->missed = 0;
	p->since = clock_mono();
	if (process_start(parent, &p->parent_start) != 0)
		p->parent_start = 0; /* ended at once */
	node_process_follow(p, parent, p->parent_start);
	return 0;
}

/* Watches its parent, which knows how it ends; without one, the process itself. */
static void follow_either(struct sup_process *p)
{
	if (p->orphan)
		node_process_follow(p, p->pid, p->start);
	else
		node_process_follow(p, p->parent, p->parent_start);
}

static void adopt_process(struct sup_process *p, const struct node_record *r)
{
	p->runs = 1;
	p->life = r->life;
	p->pid = r->pid;
	p->start = r->start;
	p->since = clock_mono();
	p->doomed = p->forced = 0;
	p->found = 1;
	p->orphan = !(node_record_running(r) & RECORD_PARENT_RUNS);
	p->parent = p->orphan ? 0 : r->parent;
	p->parent_start = r->parent_start;
	p->missed = 0;
	follow_either(p);
}

void sup_process_move(struct sup_process *p, struct sup_process *from)
{
	struct sup_process moved = *from;
	unwatch(p);
	unwatch(from);
	moved.ended = p->ended;
	moved.fd = -1;
	moved.watch = NULL;
	*p = moved;
	sup_process_init(from, p->node, from->ended);
	from->at = p->at;
	follow_either(p);
}

/* ---- signals ---- */

pid_t sup_process_pid(struct sup_process *p)
{
	struct node_record r;
	if (p->runs && p->pid == 0 && node_process_read_record(p, &r) == 0) {
		p->pid = r.pid;
		p->start = r.start;
	}
	return p->pid;
}

int sup_process_is_late(const struct sup_process *p)
{
	if (p->missed == 0)
		return p->doomed;
	return p->pid == 0 && clock_mono() - p->missed >= deadline_seconds(DEADLINE_GONE);
}

int sup_process_force(struct sup_process *p)
{
	struct sup_node *n = p->node;
	struct node_end unseen = {0};
	if (!p->runs)
		return 0;
	if (!p->forced && p->parent > 0 && process_alive(p->parent, p->parent_start) &&
	    !process_alive(p->pid, p->start)) {
		sup_note(n->sup, "late", "%s %s, but its parent does not say so: killed, too",
			 n->id, p->pid != 0 ? "was killed" : "is to end");
		p->forced = 1;
		kill(p->parent, SIGKILL);
		return 1;
	}
	/* It hangs in the kernel, which waits for storage. No other process of the id starts before
	 * it has ended, because its parent holds the lock. */
	sup_note(n->sup, "late", "%s was killed and does not end: left alone until it does", n->id);
	node_process_has_ended(p, &unseen);
	return 0;
}

int sup_process_signal(struct sup_process *p, int signal)
{
	if (!p->runs)
		return 1;
	p->doomed |= signal == SIGKILL;
	if (sup_process_pid(p) == 0) { /* its parent is about to start it */
		if (p->missed == 0)
			p->missed = clock_mono();
		return -1;
	}
	p->missed = 0;
	if (!process_alive(p->pid, p->start))
		return 1;
	p->node->place.launcher->stop(p->pid, signal);
	return 0;
}

/* ---- what runs already ---- */

static int latest_life(const struct sup_node *n, uint64_t *life)
{
	char dir[DIRS_PATH_MAX];
	size_t len = strlen(n->id);
	int found = 0;
	dirs_state(&n->sup->dirs, "nodes", dir);
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

void sup_recall_lives(struct sup_node *n)
{
	uint64_t latest;
	if (latest_life(n, &latest))
		sup_node_lived(n, latest + 1);
}

/* What the records of an id say. */
struct found {
	int known;                 /* there is a record */
	uint64_t latest;           /* life of the last one */
	size_t nodes;              /* processes that run: 0, 1, or 2 */
	size_t parents;            /* those of them whose parent runs */
	struct node_record run[2]; /* the elder first */
	/* One whose node has ended, and whose parent runs and has not said so; pid 0: none. */
	struct node_record mute;
};

/* Reads them from the last life backwards. Only a node that hands over can have two processes.
 * Between them there may be lives that failed to take over. */
static void node_process_read_records(const struct sup_node *n, struct found *f)
{
	char path[DIRS_PATH_MAX];
	struct node_record r;
	size_t most = n->role->restart == RESTART_HAND_OVER ? 2 : 1;
	*f = (struct found){0};
	f->known = latest_life(n, &f->latest);
	for (uint64_t life = f->latest + 1; f->known && life-- > 0 && f->nodes < most;) {
		record_path(n, life, path);
		int runs = node_record_read(path, &r, NULL) == 0 ? node_record_running(&r) : 0;
		if (runs & RECORD_NODE_RUNS) {
			f->run[1] = f->run[0];
			f->run[0] = r;
			f->nodes++;
			f->parents += (runs & RECORD_PARENT_RUNS) != 0;
		} else if ((runs & RECORD_PARENT_RUNS) && !r.ended) {
			f->mute = r;
		} else if (most == 1)
			break;
	}
}

/* If an earlier supervisor was killed while it launched a node, the parent holds a lock and has
 * written no record of a running node yet. We wait for the record, so that no id runs twice. A
 * parent whose node has ended, and which does not say so for long, hangs, and is killed. */
static int node_process_settle(struct sup_node *n, struct found *f, struct error *err)
{
	double until = clock_mono() + deadline_seconds(DEADLINE_ADOPT);
	int forced = 0;
	for (;;) {
		int held = locks_held(n, err);
		if (held < 0)
			return -1;
		node_process_read_records(n, f);
		if ((size_t)((held & 1) + (held >> 1)) == f->parents)
			return 0;
		if (clock_mono() > until && f->mute.pid > 0 && !forced) {
			sup_note(n->sup, "late",
				 "%s has ended, but its parent does not say so: killed", n->id);
			kill(f->mute.parent, SIGKILL);
			forced = 1;
			until = clock_mono() + deadline_seconds(DEADLINE_ADOPT);
		} else if (clock_mono() > until)
			return error_set(err, ERROR_TEMPFAIL, n->id,
					 "a process of it neither starts nor ends");
		clock_sleep(0.02);
	}
}

/* The host with which the life before this one was lost; "": it ended in another way, or is not
 * known. */
static const char *node_process_lost_host(struct sup_node *n, struct node_record *r)
{
	struct sup_process before = n->now;
	if (before.life-- == 0 || node_process_read_record(&before, r) != 0 || !r->ended)
		return "";
	const struct sup_host *h = sup_host_by_name(n->sup, r->host);
	return h && launcher_lost_host(h->place, &r->end) ? r->host : "";
}

/* Returns how many processes of the node run; -1: err. Two processes of a server may run, if the
 * supervisor was killed in the middle of a hand-over. The younger is the next one, and the first to
 * end shows the result (restart.h). */
static int node_process_adopt(struct sup_node *n, struct error *err)
{
	struct found f;
	struct node_record before;
	if (node_process_settle(n, &f, err) != 0)
		return -1;
	if (!f.known)
		return 0;
	n->now.life = f.latest;
	sup_node_lived(n, f.latest + 1);
	if (f.nodes == 0)
		return 0;
	adopt_process(&n->now, &f.run[0]);
	sup_host_found(n, f.run[0].host, node_process_lost_host(n, &before));
	n->now.at = n->at;
	sup_node_found(n);
	if (f.nodes == 2) {
		const struct sup_host *h = sup_host_by_name(n->sup, f.run[1].host);
		n->restart.next.at = h ? (size_t)(h - n->sup->hosts.host) : n->at;
		adopt_process(&n->restart.next, &f.run[1]);
		sup_restart_goes_on(n);
	} else
		sup_restart_found(n);
	return (int)f.nodes;
}

/* An end of a node that no supervisor saw counts, too. */
static void take_missed_end(struct sup_node *n)
{
	struct node_record r;
	if (n->stage != STAGE_OFF || n->lives == 0 || node_process_read_record(&n->now, &r) != 0)
		return;
	n->now.since = r.ended ? clock_mono() - (r.end_at - r.at) : clock_mono();
	sup_node_missed_end(n, r.ended ? &r.end : &(struct node_end){0});
}

/* Nothing runs: the records of earlier processes go, and what was in force for them. */
static void node_process_forget(struct supervisor *s)
{
	EACH_NODE (n, s) {
		char path[DIRS_PATH_MAX];
		for (uint64_t life = 0; life < n->lives; life++) {
			record_path(n, life, path);
			unlink(path);
		}
		sup_node_lived(n, 0);
	}
	sup_hosts_are_there(s);
	sup_in_force_forget(s);
}

/* Kills the process of this record if it runs and no node of the job has its id. Returns whether it
 * did. */
static int end_stray(struct supervisor *s, const char *path)
{
	struct node_record r;
	int runs = node_record_read(path, &r, NULL) == 0 ? node_record_running(&r) : 0;
	if (!runs || sup_find(s, r.id))
		return 0;
	sup_note(s, "stray",
		 "%s runs, and is no node of this job (its line in STATE/kept is gone): it is "
		 "killed",
		 r.id);
	if (runs & RECORD_NODE_RUNS)
		kill(-r.pid, SIGKILL);
	else
		kill(r.parent, SIGKILL);
	return 1;
}

/* Only STATE/kept says which nodes a scaled job has. If a person has removed that line, nodes run
 * that the job file does not have, and they may have parameters, rows, and a place at the
 * barrier. */
static void end_strays(struct supervisor *s)
{
	char dir[DIRS_PATH_MAX], path[DIRS_PATH_MAX + 256];
	dirs_state(&s->dirs, "nodes", dir);
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.' || strstr(e->d_name, ".tmp") || strstr(e->d_name, ".lock"))
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		s->recover.strays |= end_stray(s, path);
	}
	if (d)
		closedir(d);
	s->scale.servers.maps_moved |= s->recover.strays;
}

int sup_adopt(struct supervisor *s, struct error *err)
{
	int running = 0;
	if (!s->scale.is_kept)
		end_strays(s);
	EACH_NODE (n, s) {
		int one = node_process_adopt(n, err);
		if (one < 0)
			return -1;
		running += one;
	}
	if (running == 0) {
		node_process_forget(s);
		return 0;
	}
	EACH_NODE (n, s)
		take_missed_end(n);
	sup_hosts_adopted(s);
	return running;
}

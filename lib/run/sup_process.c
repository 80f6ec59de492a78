/*
 * sup_process: one process of a node: launched through its parent, watched, signalled.  It only
 * says that a process has ended; what that means for the node is for sup_nodes and sup_heir.
 * Every process is known by its record file, so that it makes no difference which supervisor
 * started it.
 *
 * Two locks an id, ID.lock and ID.heir.lock: each parent holds one while it lives.  So no id runs
 * twice, but for a server that hands over to its next process.
 */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void sup_process_path(const struct sup_node *n, uint64_t life, char *out)
{
	char name[128];
	snprintf(name, sizeof name, "nodes/%s.%llu", n->id, (unsigned long long)life);
	place_state(&n->sup->place, name, out);
}

int sup_process_read(const struct sup_process *p, struct node_record *r)
{
	char path[PLACE_MAX];
	sup_process_path(p->node, p->life, path);
	return node_record_read(path, r, NULL);
}

static void lock_path(const struct sup_node *n, int second, char *out)
{
	char name[128];
	snprintf(name, sizeof name, "nodes/%s%s.lock", n->id, second ? ".heir" : "");
	place_state(&n->sup->place, name, out);
}

/* Bits of the locks that are held; -1: err. */
static int locks_held(const struct sup_node *n, struct error *err)
{
	int held = 0;
	for (int second = 0; second < 2; second++) {
		char path[PLACE_MAX];
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

int sup_process_locks(const struct sup_node *n, struct error *err)
{
	int held = locks_held(n, err);
	return held < 0 ? -1 : (held & 1) + (held >> 1);
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

static void ended(struct sup_process *p, const struct node_end *end)
{
	struct sup_node *n = p->node;
	unwatch(p);
	p->runs = 0;
	p->parent = p->pid = 0;
	if (p == &n->heir)
		sup_heir_ended(n, end);
	else if (n->heir.runs)
		sup_heir_old_ended(n, end);
	else
		sup_node_ended(n, end);
}

static void follow(struct sup_process *p, pid_t pid, uint64_t start);

/* Its parent was killed: the node may go on without it. */
static int goes_on(struct sup_process *p, const struct node_record *r)
{
	if (p->orphan || !process_alive(r->pid, r->start))
		return 0;
	p->orphan = 1;
	p->pid = r->pid;
	p->start = r->start;
	follow(p, p->pid, p->start);
	if (p->doomed)
		sup_process_signal(p, SIGKILL);
	else
		sup_note(p->node->sup, "orphan", "%s goes on without its parent", p->node->id);
	return 1;
}

/* The watched process ended: usually the parent, which has written how. */
static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct sup_process *p = arg;
	struct node_record r;
	struct node_end end = {0};
	int status = 0;
	(void)fd;
	(void)what;
	if (p->parent > 0)
		waitpid(p->parent, &status, WNOHANG); /* ours to reap, or init's */
	if (sup_process_read(p, &r) == 0) {
		if (r.ended)
			end = r.end;
		else if (goes_on(p, &r))
			return;
	} else if (!p->orphan && WIFEXITED(status) && WEXITSTATUS(status) != 0)
		end = (struct node_end){.seen = 1, .status = WEXITSTATUS(status)};
	ended(p, &end);
}

/* One that is gone already is looked at in the next turn, as if it had been watched. */
static void follow(struct sup_process *p, pid_t pid, uint64_t start)
{
	unwatch(p);
	p->fd = process_watch(pid, start);
	p->watch = event_new(p->node->sup->base, p->fd, EV_READ | EV_PERSIST, on_end, p);
	if (!p->watch)
		sup_fail(p->node->sup, ERROR_OS, "%s can't be watched: out of memory", p->node->id);
	else if (p->fd < 0 || event_add(p->watch, NULL) != 0)
		event_active(p->watch, EV_TIMEOUT, 0);
}

void sup_process_init(struct sup_process *p, struct sup_node *n)
{
	p->node = n;
	p->fd = -1;
}

void sup_process_release(struct sup_process *p)
{
	unwatch(p);
}

/* ---- launching, adopting ---- */

static const char *launcher_of(const struct sup_node *n)
{
	if (n->role == ROLE_WORKER)
		return n->sup->job->launch_worker;
	return n->role == ROLE_SERVER ? n->sup->job->launch_server : NULL;
}

/* Which lock a new process takes; -1: err. */
static int choose_lock(const struct sup_node *n, int take_over, struct error *err)
{
	int held = locks_held(n, err);
	if (held < 0)
		return -1;
	if (held == 3 || (held && !take_over))
		return error_set(err, ERROR_TEMPFAIL, n->id, "an earlier process still ends");
	return held == 1;
}

int sup_process_launch(struct sup_process *p, int take_over, struct error *err)
{
	struct sup_node *n = p->node;
	char record[PLACE_MAX], log[PLACE_MAX], lock[PLACE_MAX];
	int second = choose_lock(n, take_over, err);
	char **argv = second < 0 ? NULL : sup_command(n, n->lives, take_over, err);
	if (!argv)
		return -1;
	sup_process_path(n, n->lives, record);
	sup_node_log_path(n, log);
	lock_path(n, second, lock);
	if (!take_over)
		sup_log_rotate(n); /* nobody writes to it */
	struct launch l = {.id = n->id,
			   .life = n->lives,
			   .record = record,
			   .log = log,
			   .lock = lock,
			   .launcher = launcher_of(n),
			   .argv = argv};
	pid_t parent;
	int result = parent_launch(&l, &parent, err);
	free(argv);
	if (result != 0)
		return -1;
	p->runs = 1;
	p->life = n->lives++;
	p->parent = parent;
	p->pid = 0;
	p->orphan = p->doomed = p->forced = 0;
	p->since = clock_mono();
	if (process_start(parent, &p->parent_start) != 0)
		p->parent_start = 0; /* ended at once */
	follow(p, parent, p->parent_start);
	return 0;
}

void sup_process_adopt(struct sup_process *p, const struct node_record *r)
{
	p->runs = 1;
	p->life = r->life;
	p->pid = r->pid;
	p->start = r->start;
	p->since = clock_mono();
	p->doomed = p->forced = 0;
	p->orphan = !(node_record_running(r) & RECORD_PARENT_RUNS);
	p->parent = p->orphan ? 0 : r->parent;
	p->parent_start = r->parent_start;
	if (p->orphan)
		follow(p, p->pid, p->start);
	else
		follow(p, p->parent, p->parent_start);
}

void sup_process_move(struct sup_process *p, struct sup_process *from)
{
	struct sup_node *n = p->node;
	unwatch(p);
	unwatch(from);
	*p = *from;
	*from = (struct sup_process){0};
	sup_process_init(from, n);
	if (p->orphan)
		follow(p, p->pid, p->start);
	else
		follow(p, p->parent, p->parent_start);
}

/* ---- signals ---- */

int sup_process_force(struct sup_process *p)
{
	struct sup_node *n = p->node;
	struct node_end unseen = {0};
	if (!p->runs)
		return 0;
	if (!p->forced && p->parent > 0 && process_alive(p->parent, p->parent_start) &&
	    !process_alive(p->pid, p->start)) {
		sup_note(n->sup, "late", "%s was killed, but its parent does not say so: killed, too",
			 n->id);
		p->forced = 1;
		kill(p->parent, SIGKILL);
		return 1;
	}
	/* The kernel waits for its storage. No other process of the id starts before it has gone:
	 * its parent holds the lock. */
	sup_note(n->sup, "late", "%s was killed and does not end: left to itself", n->id);
	ended(p, &unseen);
	return 0;
}

int sup_process_signal(struct sup_process *p, int signal)
{
	struct node_record r;
	if (!p->runs)
		return 1;
	p->doomed |= signal == SIGKILL;
	if (p->pid == 0 && sup_process_read(p, &r) == 0) {
		p->pid = r.pid;
		p->start = r.start;
	}
	if (p->pid == 0)
		return -1; /* its parent is just about to start it */
	if (!process_alive(p->pid, p->start))
		return 1;
	/* The node leads a group of its own: a launch template's shell is hit with the program. */
	if (kill(-p->pid, signal) != 0)
		kill(p->pid, signal);
	return 0;
}

/*
 * sup_adopt: what an earlier supervisor left running.  A job's nodes outlive it; by their record
 * files they are found, watched and minded as if they had been started here.
 *
 * Of a server two processes may run: the supervisor was killed in the middle of a hand-over.  The
 * younger is the heir, and whoever ends first says how it went (sup_heir.c).
 */
#include "run/sup.h"

#include "base/clock.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* What the records of an id say. */
struct found {
	int known;          /* there is a record */
	uint64_t latest;    /* life of the last one */
	size_t nodes;       /* processes that run: 0, 1, or 2 */
	size_t parents;     /* of them, with a parent */
	struct node_record run[2]; /* the elder first */
	struct node_record mute;   /* its node has ended, and its parent has not said so; pid 0: none */
};

/* From the last one backwards. Only a server can have two, and those that failed to take over may
 * lie between. */
static void look(const struct sup_node *n, struct found *f)
{
	char path[PLACE_MAX];
	struct node_record r;
	size_t most = n->role == ROLE_SERVER ? 2 : 1;
	*f = (struct found){0};
	f->known = latest_life(n, &f->latest);
	for (uint64_t life = f->latest + 1; f->known && life-- > 0 && f->nodes < most;) {
		sup_process_path(n, life, path);
		int runs = node_record_read(path, &r, NULL) == 0 ? node_record_running(&r) : 0;
		if (runs & RECORD_NODE_RUNS) {
			f->run[1] = f->run[0];
			f->run[0] = r;
			f->nodes++;
			f->parents += (runs & RECORD_PARENT_RUNS) != 0;
		} else if ((runs & RECORD_PARENT_RUNS) && !r.ended) {
			f->mute = r;
		} else if (n->role != ROLE_SERVER)
			break;
	}
}

/* A parent that holds a lock and has written no record of a running node yet: the supervisor before
 * us was killed as it launched. It is waited for, so that no id runs twice. One whose node has ended
 * long ago hangs, and is killed. */
static int settle(struct sup_node *n, struct found *f, struct error *err)
{
	double until = clock_mono() + deadline_seconds(DEADLINE_ADOPT);
	int forced = 0;
	for (;;) {
		int locks = sup_process_locks(n, err);
		if (locks < 0)
			return -1;
		look(n, f);
		if ((size_t)locks == f->parents)
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

static int adopt(struct sup_node *n, struct error *err)
{
	struct found f;
	if (settle(n, &f, err) != 0)
		return -1;
	if (!f.known)
		return 0;
	n->now.life = f.latest;
	n->lives = f.latest + 1;
	n->restarts = f.latest;
	if (f.nodes == 0)
		return 0;
	sup_process_adopt(&n->now, &f.run[0]);
	sup_node_event(n, EVENT_LAUNCHED);
	sup_event(n->sup, n, "adopt", NULL);
	sup_node_expect(n, 1);
	if (f.nodes == 2) {
		sup_process_adopt(&n->heir, &f.run[1]);
		sup_heir_watch(n);
	}
	return (int)f.nodes;
}

/* Of a node that ended while no supervisor was there the end still counts. */
static void take_missed_end(struct sup_node *n)
{
	struct node_record r;
	if (n->stage != STAGE_OFF || n->lives == 0 || sup_process_read(&n->now, &r) != 0)
		return;
	n->now.since = r.ended ? clock_mono() - (r.end_at - r.at) : clock_mono();
	sup_node_event(n, EVENT_LAUNCHED);
	struct node_end none = {0};
	sup_node_ended(n, r.ended ? &r.end : &none);
}

/* Nothing runs: records are of an earlier run, lives are counted anew, and what was in force for
 * those nodes is so no more. */
static void forget(struct supervisor *s)
{
	for (size_t i = 0; i < s->node_count; i++) {
		struct sup_node *n = &s->node[i];
		char path[PLACE_MAX];
		for (uint64_t life = 0; life < n->lives; life++) {
			sup_process_path(n, life, path);
			unlink(path);
		}
		n->lives = n->restarts = 0;
	}
	sup_standing_forget(s);
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

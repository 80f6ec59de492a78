/* oom: see oom.h. */
#include "run/sup.h"

#include "base/human.h"

#include <stdio.h>

#define STEPS_TIMES_MAX 8 /* steps may be so many times smaller than half, so that all are equal */

/* The steps of a server are those of all servers: a step after the end of one helps all. */
static uint64_t oom_steps_of(const struct sup_node *n)
{
	uint64_t sum = 0;
	if (n->role != &role_server)
		return n->oom.steps;
	EACH_OF (other, n->sup, n->role)
		sum += other->oom.steps;
	return sum;
}

/* The two fields say what is another now. */
static void oom_step(struct sup_node *n, struct record_value first, struct record_value second)
{
	n->oom.steps++;
	n->sup->roster.oom_steps++;
	n->oom.stepped = 1;
	sup_log(n->sup, RECORD("oom", F("id", n->id), F("step", oom_steps_of(n)),
			       F("limit", n->sup->job->oom_limit), first, second));
}

static int more_memory(struct sup_node *n)
{
	char before[HUMAN_MAX], after[HUMAN_MAX];
	uint64_t was = n->memory, most = n->place.memory_mib << 20;
	uint64_t now = most > 0 && was > most / 2 ? most : 2 * was;
	if (was == 0 || now <= was)
		return 0;
	sup_node_sized(n, n->cores, now);
	oom_step(n, F("memory", now), F("memory-before", was));
	log_say(LOG_LEVEL_INFO, "%s ended for want of memory: it is given %s in place of %s", n->id,
		human_bytes((double)now, after), human_bytes((double)was, before));
	return 1;
}

/* Makes steps at most half as large. They get the same size if there is a number of steps, not far
 * above twice the old one, that divides the batch. */
static void oom_halve(struct action *a, uint64_t least)
{
	uint64_t all = a->size * a->accum, twice = 2 * a->accum;
	a->accum = twice;
	for (uint64_t n = twice; n <= twice * STEPS_TIMES_MAX && all / n >= least; n++)
		if (all % n == 0) {
			a->accum = n;
			break;
		}
	a->size = (all + a->accum - 1) / a->accum;
}

static int smaller_batch(struct sup_node *n)
{
	struct error err;
	struct decision list = {0};
	struct supervisor *s = n->sup;
	const struct action *now = sup_in_force_find(s, ACTION_ADJUST_BS, n->id);
	struct action a = {.kind = ACTION_ADJUST_BS, .size = sup_share(n), .accum = 1};
	if (n->role != sup_trainers(s) || !sup_lead(s) || job_balance(s->job))
		return 0;
	if (now)
		a = *now;
	if (a.size / 2 < s->job->options.least)
		return 0;
	snprintf(a.id, sizeof a.id, "%s", n->id);
	snprintf(a.reason, sizeof a.reason, "it ended for want of memory");
	oom_halve(&a, s->job->options.least);
	int result = decision_add(&list, &a, 0, &err);
	if (result == 0)
		result = sup_actions_carry(s, &list, "oom", NULL, &err) < 0 ? -1 : 0;
	decision_free(&list);
	if (result != 0)
		return 0;
	oom_step(n, F("size", a.size), F("accum", a.accum));
	return 1;
}

/* Whether the end of another server has already led to more servers: servers of equal size run out
 * of memory at about the same time. */
static int more_servers_come(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	return n->role == &role_server && sup_scale_servers_wanted(s) >= 2 * s->scale.now.servers;
}

/* The end of a server makes all go back to a checkpoint. From there twice as many servers go on,
 * each with about half of the parameters. */
static int more_servers(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	uint64_t was = s->scale.now.servers;
	if (n->role != &role_server ||
	    sup_scale_want(s, 0, 2 * was, "a server ended for want of memory", NULL) != 0)
		return 0;
	oom_step(n, F("servers", 2 * was), F("servers-before", was));
	return 1;
}

void sup_oom_ended(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	n->oom.stepped = more_servers_come(n);
	if (n->oom.stepped || n->leaving || s->phases.now >= PHASE_STOPPING ||
	    oom_steps_of(n) >= s->job->oom_limit)
		return;
	if (more_servers(n) || more_memory(n) || smaller_batch(n))
		sup_in_force_changed(s);
	else
		sup_note(s, "warning",
			 "%s ended for want of memory, and can get neither more memory nor smaller "
			 "batches",
			 n->id);
}

/* scale_hosts: the hosts' part of scale.h. */
#include "run/sup.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define WAIT_SECONDS 1.0

/* ---- their names ---- */

static struct sup_host *scale_hosts_find(const struct supervisor *s, const char *name)
{
	EACH_HOST (h, s, 0) {
		if (!sup_is_more_host(h) &&
		    (strcmp(h->place->host, name) == 0 || strcmp(h->name, name) == 0))
			return h;
	}
	return NULL;
}

static int scale_hosts_add(const struct supervisor *s, const char *name, unsigned char *hosts,
			   struct sup_scale_refusal *why)
{
	struct sup_host *h = scale_hosts_find(s, name);
	size_t i = h ? (size_t)(h - s->hosts.host) : 0;
	if (h && i >= s->hosts.first) {
		hosts[i] = 1;
		return 0;
	}
	if (h)
		return sup_scale_refuse(why, "no-host", "%.80s is none of HOSTS: it trains nothing",
					name);
	return sup_scale_refuse(why, "no-host", "'%.80s' is none of HOSTS", name);
}

int sup_scale_hosts_parse(const struct supervisor *s, const char *names, unsigned char **out,
			  struct sup_scale_refusal *why)
{
	char *save = NULL, *text = strdup(names), kept[SCALE_HOSTS_MAX];
	unsigned char *hosts = calloc(s->hosts.count, 1);
	int result = 0, any = 0;
	*out = NULL;
	if (!text || !hosts)
		result = sup_scale_refuse(why, "no-memory", "out of memory");
	else if (s->hosts.count < 2)
		result = sup_scale_refuse(why, "no-host", "this job has no HOSTS");
	for (char *name = result == 0 ? strtok_r(text, ", ", &save) : NULL; name && result == 0;
	     name = strtok_r(NULL, ", ", &save), any = 1)
		result = scale_hosts_add(s, name, hosts, why);
	if (result == 0 && !any)
		result = sup_scale_refuse(why, "bad-scale",
					  "a job needs one host at least; `trainctl stop` ends it");
	if (result == 0) {
		sup_scale_hosts_text(s, hosts, kept);
		if (strlen(kept) + 2 >= sizeof kept)
			result = sup_scale_refuse(why, "no-room",
						  "the names of these hosts have more than %d bytes "
						  "together, and can't be kept",
						  SCALE_HOSTS_MAX);
	}
	free(text);
	if (result == 0)
		*out = hosts;
	else
		free(hosts);
	return result;
}

void sup_scale_hosts_text(const struct supervisor *s, const unsigned char *wanted,
			  char out[SCALE_HOSTS_MAX])
{
	size_t len = 0, given = s->options.hosts ? s->options.hosts->count : 1;
	int all = 1;
	out[0] = '\0';
	for (size_t i = s->hosts.first; i < given && len + 1 < SCALE_HOSTS_MAX; i++) {
		const struct sup_host *h = &s->hosts.host[i];
		if (wanted ? !wanted[i] : h->use != HOST_USED) {
			all = 0;
			continue;
		}
		int n = snprintf(out + len, SCALE_HOSTS_MAX - len, "%s%s", len ? "," : "",
				 h->place->host);
		len += n > 0 ? (size_t)n : 0;
	}
	if (all && !wanted)
		out[0] = '\0';
}

uint64_t sup_scale_hosts_sum(const struct supervisor *s)
{
	const struct hosts *given = s->options.hosts;
	XXH64_hash_t sum = 0;
	for (size_t i = 0; given && i < given->count; i++)
		sum = XXH3_64bits_withSeed(given->place[i].host, strlen(given->place[i].host), sum);
	return sum;
}

int sup_scale_hosts_differ(const struct supervisor *s, const unsigned char *wanted)
{
	for (size_t i = s->hosts.first; i < s->hosts.count; i++)
		if ((wanted[i] != 0) != (s->hosts.host[i].use == HOST_USED))
			return 1;
	return 0;
}

/* ---- before a change ---- */

void sup_scale_hosts_forget(struct supervisor *s)
{
	EACH_HOST (h, s, 0)
		h->probe = PROBE_NONE;
}

int sup_scale_hosts_ask(struct supervisor *s, const unsigned char *wanted,
			struct sup_scale_refusal *why)
{
	int awaited = 0;
	const struct sup_host *missing = NULL;
	for (size_t i = s->hosts.first; i < s->hosts.count; i++) {
		struct sup_host *h = &s->hosts.host[i];
		if (!wanted[i] || h->use == HOST_USED)
			continue;
		if (h->probe == PROBE_NONE)
			sup_host_probe(h);
		awaited |= h->probe == PROBE_PENDING;
		if (h->probe == PROBE_MISSING)
			missing = h;
	}
	if (awaited)
		return 1;
	return missing ? sup_scale_refuse(why, "no-host", "%s does not answer", missing->place->host)
		       : 0;
}

/* ---- a change ---- */

/* What asks for this host to be left, now or later; NULL: nothing. */
static const struct sup_wish *scale_hosts_drains(const struct sup_host *h)
{
	const struct sup_wish *w = h->sup->scale.wishes;
	while (w && w->drained != h)
		w = w->next;
	return w;
}

static void scale_hosts_set(struct supervisor *s, const unsigned char *wanted)
{
	for (size_t i = s->hosts.first; i < s->hosts.count; i++) {
		struct sup_host *h = &s->hosts.host[i];
		const struct sup_wish *drains = scale_hosts_drains(h);
		if (wanted[i])
			h->leave_by = 0;
		else if (drains)
			h->leave_by = drains->leave_by;
		sup_host_set_use(h, host_use_next(h->use, wanted[i], 0));
	}
}

void sup_scale_hosts_begin(struct supervisor *s, const unsigned char *wanted)
{
	struct sup_scale_hosts *c = &s->scale.hosts;
	char text[SCALE_HOSTS_MAX];
	sup_scale_hosts_end(s);
	sup_scale_hosts_text(s, NULL, text);
	c->from = strdup(text);
	c->before = calloc(s->hosts.count, 1);
	for (size_t i = 0; c->before && i < s->hosts.count; i++)
		c->before[i] = s->hosts.host[i].use == HOST_USED;
	c->under_way = 1;
	scale_hosts_set(s, wanted);
}

void sup_scale_hosts_take(struct supervisor *s, const unsigned char *wanted, int under_way)
{
	for (size_t i = s->hosts.first; i < s->hosts.count; i++)
		if (!wanted[i])
			s->hosts.host[i].use = under_way ? HOST_LEAVES : HOST_UNUSED;
	s->scale.hosts.under_way = under_way;
}

void sup_scale_hosts_end(struct supervisor *s)
{
	struct sup_scale_hosts *c = &s->scale.hosts;
	free(c->from);
	free(c->before);
	*c = (struct sup_scale_hosts){0};
}

/* Whether nodes may move: the hosts that come can be reached, and their replicas have the
 * parameters. */
static int scale_hosts_are_ready(const struct supervisor *s)
{
	size_t serve = 0, missing = 0;
	if (!sup_hosts_are_joined(s))
		return 0;
	EACH_OF (n, s, &role_replica) {
		const struct sup_host *h = &s->hosts.host[n->home];
		if (h->use != HOST_USED || h->state != HOST_THERE)
			continue;
		int serves = n->stage == STAGE_READY && n->watch.seen.serves;
		serve += serves != 0;
		missing += !serves;
	}
	if (job_kind(s->job)->holds != HOLD_REPLICAS)
		return 1;
	return serve > 0 && (missing == 0 || sup_scale_is_late(s));
}

/* An earlier supervisor began the change, and no file says which hosts were used before. They are
 * taken to be those whose replicas have the parameters: these will do in any case. */
static void scale_hosts_recall(struct supervisor *s)
{
	struct sup_scale_hosts *c = &s->scale.hosts;
	int any = 0;
	unsigned char *serve = calloc(s->hosts.count, 1);
	EACH_OF (n, s, &role_replica)
		if (serve && n->stage == STAGE_READY && n->watch.seen.serves)
			any = serve[n->at] = 1;
	if (any)
		c->before = serve;
	else
		free(serve);
}

void sup_scale_hosts_stay(struct supervisor *s)
{
	EACH_HOST (h, s, s->hosts.first)
		if (h->use == HOST_LEAVES && h->leave_by > 0)
			return;
	if (!s->scale.hosts.before)
		scale_hosts_recall(s);
	if (s->scale.hosts.before)
		scale_hosts_set(s, s->scale.hosts.before);
}

static void scale_hosts_give_up(struct supervisor *s)
{
	snprintf(s->scale.why, sizeof s->scale.why,
		 "new hosts are not ready after %g s; the earlier hosts are used again",
		 deadline_seconds(DEADLINE_SCALE));
	sup_note(s, "warning", "not scaled: %s", s->scale.why);
	scale_hosts_set(s, s->scale.hosts.before);
}

static int may_change_host(const struct sup_node *n)
{
	return (n->role == sup_trainers(n->sup) || sup_node_is_spare(n)) && !n->leaving;
}

uint64_t sup_scale_hosts_more(const struct supervisor *s)
{
	const struct sup_scale *c = &s->scale;
	return job_kind(s->job)->sums && c->under_way && c->hosts.under_way && !c->hosts.moved &&
	       c->now.workers == 1 && !c->why[0];
}

/* The node ends as one that leaves does, and starts elsewhere at once. */
static void scale_hosts_move(struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	size_t to = sup_host_choice(n);
	if (!sup_node_runs(n) || n->end_wanted || to == s->hosts.count || to == n->at ||
	    (s->hosts.host[n->at].use == HOST_USED && to != n->home) || sup_scale_holds(n))
		return;
	n->restart.from = clock_mono(); /* its rows are given back, and no shard is held for it */
	n->uncounted++;
	sup_node_renew(n, SIGTERM);
}

int sup_scale_goes(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	size_t to;
	if (n->role != &role_server || n->leaving || n->joining || !s->scale.hosts.under_way ||
	    !s->scale.hosts.ready || s->scale.hosts.moved)
		return 0;
	to = sup_host_choice(n);
	return to < s->hosts.count && to != n->at;
}

/* Whether it is where it is to be, or is not waited for. */
static int has_moved(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	if (n->role == &role_server && !n->leaving && !n->joining)
		return (!sup_scale_goes(n) && n->stage == STAGE_READY) || sup_scale_is_late(s);
	if (!may_change_host(n) || sup_node_is_spare(n) || n->joining)
		return 1;
	if (n->stage == STAGE_READY && !n->end_wanted)
		return 1;
	return n->in_a_row > 0 || sup_host_is_awaited(n) || s->progress.all_done ||
	       !sup_trainer_is_needed(n) || sup_scale_is_late(s);
}

/* The machine goes, whether its nodes are ready or not: what is killed before that is missed at
 * once, and not only when the host has been silent for long. */
static void scale_hosts_clear(struct sup_host *h)
{
	struct supervisor *s = h->sup;
	size_t at = (size_t)(h - s->hosts.host);
	EACH_NODE (n, s) {
		if (n->at != at || sup_host_is_fixed(n) || !sup_node_runs(n))
			continue;
		sup_note(s, "warning", "%s has not left %s in time, and is killed", n->id,
			 h->place->host);
		n->uncounted++;
		sup_node_kill(n);
	}
}

/* 1: somebody is still there. */
static int scale_hosts_leave(struct sup_host *h)
{
	struct supervisor *s = h->sup;
	size_t at = (size_t)(h - s->hosts.host);
	int busy = 0;
	EACH_NODE (n, s)
		busy |= (n->at == at && n->role != &role_replica && !sup_host_is_fixed(n) &&
			 !sup_node_is_off(n)) ||
			(n->restart.next.runs && n->restart.next.at == at);
	EACH_OF (n, s, &role_replica) {
		if (n->at != at || sup_node_is_off(n))
			continue;
		if (!busy && sup_turn_may_begin(s, TURN_RELEASE)) /* no worker uses it any more */
			sup_node_stop(n, SIGTERM);
		busy = 1;
	}
	sup_host_set_use(h, host_use_next(h->use, 0, !busy));
	return busy;
}

int sup_scale_drain(struct supervisor *s, const char *host, double within, struct request *rq)
{
	struct sup_host *drained = scale_hosts_find(s, host);
	char names[SCALE_HOSTS_MAX] = "", reason[SCALE_REASON_MAX];
	double leave_by = within > 0 ? clock_mono() + within : 0;
	size_t len = 0;
	if (!drained)
		return -1;
	if (drained->use == HOST_LEAVES) {
		drained->leave_by = leave_by;
		sup_in_force_changed(s);
	}
	EACH_HOST (h, s, s->hosts.first) {
		if (h == drained || scale_hosts_drains(h) || h->use != HOST_USED ||
		    sup_is_more_host(h) || len >= sizeof names)
			continue;
		int n = snprintf(names + len, sizeof names - len, "%s%s", len ? "," : "",
				 h->place->host);
		len += n > 0 ? (size_t)n : 0;
	}
	snprintf(reason, sizeof reason, "%.100s is drained", host);
	struct sup_wish *w = sup_scale_want_hosts(s, 0, 0, names, reason, rq);
	if (w) {
		w->drained = drained;
		w->leave_by = leave_by;
	}
	return 0;
}

void sup_scale_hosts_late(struct supervisor *s)
{
	for (struct sup_wish *w = s->scale.wishes; w; w = w->next) {
		double left = w->leave_by - clock_mono();
		if (w->leave_by <= 0 || w->is_late)
			continue;
		if (left > 0) {
			sup_kick_after(s, left);
			continue;
		}
		w->is_late = 1;
		scale_hosts_clear(w->drained);
	}
}

int sup_scale_hosts_step(struct supervisor *s)
{
	struct sup_scale_hosts *c = &s->scale.hosts;
	int there = 0, moved = 1, goes = 0;
	if (!c->under_way)
		return 0;
	EACH_HOST (h, s, s->hosts.first)
		if (h->use == HOST_LEAVES && h->leave_by > 0 && clock_mono() >= h->leave_by) {
			h->leave_by = 0;
			scale_hosts_clear(h); /* whether the others are ready or not */
		}
	if (!c->ready && !scale_hosts_are_ready(s)) {
		if (!sup_scale_is_late(s)) {
			sup_kick_after(s, WAIT_SECONDS);
			return 1;
		}
		if (!c->before)
			scale_hosts_recall(s);
		if (c->before)
			scale_hosts_give_up(s);
	}
	c->ready = 1;
	EACH_NODE (n, s)
		if (may_change_host(n))
			scale_hosts_move(n);
	EACH_NODE (n, s)
		moved &= has_moved(n);
	/* The fabric begins anew without the hosts that leave: standbys that servers wait for, or that
	 * take over, would be lost. */
	EACH_OF (n, s, &role_server)
		goes |= !has_moved(n);
	EACH_HOST (h, s, s->hosts.first) {
		if (h->use != HOST_LEAVES)
			continue;
		there |= goes || scale_hosts_leave(h);
	}
	if (c->moved)
		return 0;
	c->moved = moved && !there && (sup_hosts_are_joined(s) || sup_scale_is_late(s));
	sup_kick_after(s, c->moved ? 0 : WAIT_SECONDS);
	return 1;
}

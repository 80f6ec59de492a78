/* roster: see roster.h. */
#include "run/sup.h"

#include <stdlib.h>

struct sup_node *sup_first(const struct supervisor *s, const struct role *role)
{
	EACH_NODE (n, s)
		if (n->role == role)
			return n;
	return NULL;
}

struct sup_node *sup_next_of(const struct sup_node *n)
{
	return n->next && n->next->role == n->role ? n->next : NULL;
}

struct sup_node *sup_shardd(const struct supervisor *s)
{
	return sup_first(s, &role_shardd);
}

struct sup_node *sup_monitor(const struct supervisor *s)
{
	return sup_first(s, &role_monitor);
}

struct sup_node *sup_lead(const struct supervisor *s)
{
	return sup_first(s, sup_leads_alone(s) ? &role_lead : &role_server);
}

int sup_leads_alone(const struct supervisor *s)
{
	enum kind_lead lead = job_kind(s->job)->lead;
	return lead == LEAD_ALONE || (lead == LEAD_IN_SERVER && s->hosts.count > 1);
}

const struct role *sup_holders(const struct supervisor *s)
{
	static const struct role *const role[] = {[HOLD_SERVERS] = &role_server,
						  [HOLD_REPLICAS] = &role_replica,
						  [HOLD_TRAINERS] = &role_lead,
						  [HOLD_NOBODY] = &role_lead};
	return role[job_kind(s->job)->holds];
}

struct sup_node *sup_replica_of(const struct sup_node *worker)
{
	EACH_OF (n, worker->sup, &role_replica)
		if (n->at == worker->at)
			return n;
	return sup_first(worker->sup, &role_replica);
}

struct sup_node *sup_find(struct supervisor *s, const char *id)
{
	struct sup_node *n;
	HASH_FIND_STR(s->roster.by_id, id, n);
	return n;
}

struct sup_node *sup_find_of(struct supervisor *s, const struct role *role, const char *id)
{
	struct sup_node *n = id ? sup_find(s, id) : NULL;
	return n && n->role == role ? n : NULL;
}

size_t sup_count(const struct supervisor *s, const struct role *role)
{
	size_t count = 0;
	EACH_OF (n, s, role)
		count++;
	return count;
}

size_t sup_rank(const struct sup_node *n)
{
	size_t rank = 0;
	for (struct sup_node *p = sup_first(n->sup, n->role); p && p != n; p = sup_next_of(p))
		rank++;
	return rank;
}

int sup_off(const struct supervisor *s, const struct role *role)
{
	EACH_OF (n, s, role)
		if (!sup_node_is_off(n))
			return 0;
	return 1;
}

uint64_t sup_all_restarts(const struct supervisor *s)
{
	uint64_t restarts = 0;
	EACH_NODE (n, s)
		restarts += n->restarts;
	for (const struct sup_node *n = s->roster.former; n; n = n->next)
		restarts += n->restarts;
	return restarts;
}

uint64_t sup_share(const struct sup_node *worker)
{
	uint64_t batch = sup_scale_batch(worker->sup), workers = worker->sup->scale.now.workers;
	return batch / workers + (sup_rank(worker) < batch % workers);
}

/* ---- filling it ---- */

static size_t roster_order(const struct role *role)
{
	size_t i = 0;
	while (roles[i] && roles[i] != role)
		i++;
	return i;
}

static int stands_before(const struct sup_node *n, const struct role *role, uint32_t number)
{
	return n->role == role ? n->number < number : roster_order(n->role) < roster_order(role);
}

/* A node with this number has left the job before: it comes back. NULL: none has. */
static struct sup_node *roster_back(struct supervisor *s, const struct role *role, uint32_t number)
{
	for (struct sup_node **at = &s->roster.former; *at; at = &(*at)->next) {
		struct sup_node *n = *at;
		if (n->role != role || n->number != number)
			continue;
		*at = n->next;
		n->in_a_row = n->trials = 0;
		n->uncounted = n->lives - n->restarts;
		n->leaving = 0;
		n->spare.given_up = 0;
		n->last_action = (struct sup_last_action){0};
		sup_host_home(n);
		return n;
	}
	return NULL;
}

struct sup_node *sup_roster_add(struct supervisor *s, const struct role *role, struct error *err)
{
	uint32_t number = 0;
	struct sup_node **at = &s->roster.first, *n;
	EACH_OF (other, s, role)
		number += other->number == number;
	if (role == &role_worker && job_is_local(s->job) && number >= s->job->data.count) {
		error_set(err, ERROR_CONFIG, role->name, "there is no file of DATA for one more");
		return NULL;
	}
	n = roster_back(s, role, number);
	if (!n && (n = sup_node_new(s, role, number, err)))
		sup_recall_lives(n);
	if (!n)
		return NULL;
	HASH_ADD_STR(s->roster.by_id, id, n);
	if (hash_lacks(n)) {
		error_set(err, ERROR_OS, n->id, "out of memory");
		sup_node_free(n);
		return NULL;
	}
	sup_brain_size(n);
	while (*at && stands_before(*at, role, number))
		at = &(*at)->next;
	n->next = *at;
	*at = n;
	return n;
}

void sup_roster_leave(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	struct sup_node **at = &s->roster.first;
	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	HASH_DEL(s->roster.by_id, n);
	sup_links_close(n); /* nobody listens there any more */
	n->next = s->roster.former;
	s->roster.former = n;
}

void sup_roster_order(struct supervisor *s)
{
	struct sup_node *rest = s->roster.first;
	s->roster.first = NULL;
	while (rest) {
		struct sup_node *n = rest, **at = &s->roster.first;
		rest = n->next;
		while (*at && stands_before(*at, n->role, n->number))
			at = &(*at)->next;
		n->next = *at;
		*at = n;
	}
}

int sup_roster_fill(struct supervisor *s, struct error *err)
{
	for (size_t i = 0; roles[i]; i++)
		for (uint64_t k = roles[i]->count(s); k > 0; k--)
			if (!sup_roster_add(s, roles[i], err))
				return -1;
	return 0;
}

void sup_roster_free(struct supervisor *s)
{
	HASH_CLEAR(hh, s->roster.by_id);
	struct sup_node **const lists[] = {&s->roster.first, &s->roster.former};
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		while (*lists[i]) {
			struct sup_node *n = *lists[i];
			*lists[i] = n->next;
			sup_node_free(n);
		}
}

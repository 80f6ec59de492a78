/* state: what is read. */
#include "cmd/xfer-sched.h"

#include "base/grow.h"
#include "cmd/filter.h"

#include <math.h>

#define BY_VERSION (XFER_NO_DEADLINE - 1)
#define SECONDS_MAX 1e9

static int state_memory(struct error *err)
{
	return error_set(err, ERROR_OS, NULL, "out of memory");
}

static int state_seconds(const struct record *r, const char *key, int64_t *ns, struct error *err)
{
	double seconds = 0;
	if (record_real_opt(r, key, 0, SECONDS_MAX, &seconds, err) != 0)
		return -1;
	*ns = llround(seconds * 1e9);
	return 0;
}

static int state_rate(const struct record *r, const char *key, int64_t *rate, struct error *err)
{
	double value = 0;
	if (record_real_opt(r, key, 0, (double)XFER_RATE_MAX, &value, err) != 0)
		return -1;
	*rate = llround(value);
	return 0;
}

/* A host that has its link. */
static int state_host(const struct sched_state *s, const struct record *r, const char *key,
		      size_t *host, struct error *err)
{
	const char *id;
	if (record_id(r, key, &id, err) != 0)
		return -1;
	*host = idset_find(&s->hosts, id);
	if (*host == SIZE_MAX)
		return error_set(err, ERROR_DATA, NULL, "host %s has no link before this line", id);
	return 0;
}

static int link_port(struct xfer_port *p, const struct record *r, const char *key, int64_t at,
		     int is_first, struct error *err)
{
	int64_t rate;
	if (!record_get(r, key))
		return 0;
	if (p->count == 0 && !is_first)
		return error_set(err, ERROR_DATA, NULL,
				 "%s= at %s, but the host's first link has none", key,
				 record_get(r, "at") ? record_get(r, "at") : "0");
	if (state_rate(r, key, &rate, err) != 0)
		return -1;
	return xfer_port_from(p, at, rate, err);
}

static int take_link(struct sched_state *s, const struct record *r, struct error *err)
{
	const char *id;
	int64_t at;
	if (record_id(r, "host", &id, err) != 0 || state_seconds(r, "at", &at, err) != 0)
		return -1;
	int added = idset_add(&s->hosts, id, err);
	if (added < 0 || (added && xfer_net_add(&s->net, err) != 0))
		return -1;
	if (!added && at == 0)
		return error_set(err, ERROR_DATA, NULL,
				 "host %s appears twice; from when on? at= is missing", id);
	struct xfer_host *h = &s->net.host[idset_find(&s->hosts, id)];
	if (link_port(&h->out, r, "out", at, added, err) != 0)
		return -1;
	return link_port(&h->in, r, "in", at, added, err);
}

static int take_server(struct sched_state *s, const struct record *r, struct error *err)
{
	struct sched_server v = {0};
	uint64_t version, dense = 0;
	if (GROW(s->server, s->server_room, s->servers + 1) != 0)
		return state_memory(err);
	if (state_host(s, r, "host", &v.host, err) != 0 ||
	    record_u64(r, "version", 0, UINT64_MAX / 4, &version, err) != 0 ||
	    record_u64_opt(r, "part", 0, UINT32_MAX, &v.part, err) != 0 ||
	    record_u64_opt(r, "bytes", 1, XFER_BYTES_MAX, &dense, err) != 0)
		return -1;
	v.dense = (int64_t)dense;
	for (size_t i = 0; i < s->servers; i++)
		if (s->server[i].part == v.part)
			return error_set(err, ERROR_DATA, NULL, "part %llu has two servers",
					 (unsigned long long)v.part);
	if (s->servers > 0 && version != s->version)
		return error_set(err, ERROR_DATA, NULL,
				 "version %llu, but that of the other part is %llu",
				 (unsigned long long)version, (unsigned long long)s->version);
	s->version = version;
	s->server[s->servers++] = v;
	return 0;
}

/* The names of sums and models. */
static int state_is_taken(const char *id)
{
	return strcmp(id, "model") == 0 ||
	       (id[0] == 'a' && id[1] && id[1 + strspn(id + 1, "0123456789")] == '\0');
}

static int parse_update(struct sched_state *s, struct sched_update *u, const struct record *r,
			struct error *err)
{
	const struct sched_options *o = s->options;
	uint64_t committed = 0;
	*u = (struct sched_update){.norm = 1, .deadline = BY_VERSION};
	if (state_host(s, r, "host", &u->host, err) != 0 ||
	    state_seconds(r, "ready", &u->ready, err) != 0 ||
	    record_u64_opt(r, "version", 0, UINT64_MAX / 4, &u->version, err) != 0 ||
	    record_u64_opt(r, "deadline", 0, BY_VERSION - 1, &u->deadline, err) != 0 ||
	    record_u64_opt(r, "committed", 0, 1, &committed, err) != 0 ||
	    record_real_opt(r, "norm", 0, 1e150, &u->norm, err) != 0)
		return -1;
	u->is_committed = committed == 1;
	if (!u->is_committed && !record_get(r, "version") && !record_get(r, "deadline"))
		return error_set(err, ERROR_DATA, NULL, "neither version= nor deadline=");
	if (o->has_divergence && !o->counts_updates && !record_get(r, "norm"))
		return error_set(err, ERROR_DATA, NULL, "--divergence-max needs norm=");
	if (o->counts_updates)
		u->norm = 1;
	return 0;
}

static int take_update(struct sched_state *s, const struct record *r, struct error *err)
{
	struct sched_update u;
	uint64_t bytes, part = 0;
	const char *id;
	size_t server = 0;
	if (GROW(s->update, s->update_room, s->updates.count + 1) != 0 ||
	    GROW(s->part, s->part_room, s->parts + 1) != 0)
		return state_memory(err);
	if (record_id(r, "id", &id, err) != 0 || parse_update(s, &u, r, err) != 0 ||
	    record_u64(r, "bytes", 0, XFER_BYTES_MAX, &bytes, err) != 0 ||
	    record_u64_opt(r, "part", 0, UINT32_MAX, &part, err) != 0)
		return -1;
	if (state_is_taken(id))
		return error_set(err, ERROR_DATA, NULL, "id=%s is the name of a sum or a model",
				 id);
	while (server < s->servers && s->server[server].part != part)
		server++;
	if (server == s->servers && strcmp(s->options->mode, "round") != 0)
		return error_set(err, ERROR_DATA, NULL, "no server of part %llu before this line",
				 (unsigned long long)part);
	int added = idset_add(&s->updates, id, err);
	if (added < 0)
		return -1;
	size_t row = idset_find(&s->updates, id);
	if (added)
		s->update[row] = u;
	struct sched_update *first = &s->update[row];
	for (size_t i = first->last_part; i > 0; i = s->part[i - 1].before)
		if (s->part[i - 1].server == server)
			return error_set(err, ERROR_DATA, NULL, "update %s appears twice", id);
	if (first->host != u.host)
		return error_set(err, ERROR_DATA, NULL, "update %s is on another host, too", id);
	if (first->version != u.version || first->deadline != u.deadline ||
	    first->ready != u.ready || first->norm < u.norm || first->norm > u.norm)
		return error_set(err, ERROR_DATA, NULL,
				 "update %s has another version=, deadline=, ready= or norm= than "
				 "before: only part= and bytes= differ",
				 id);
	s->bytes += (int64_t)bytes;
	if (s->bytes > XFER_ALL_BYTES_MAX)
		return error_set(err, ERROR_DATA, NULL,
				 "the updates up to here have more than 2^62 bytes together");
	s->part[s->parts++] = (struct sched_part){.update = row,
						  .server = server,
						  .before = first->last_part,
						  .bytes = (int64_t)bytes};
	first->last_part = s->parts;
	return 0;
}

static int take_aggregator(struct sched_state *s, const struct record *r, struct error *err)
{
	struct xfer_aggregator a = {0};
	if (GROW(s->aggregator, s->aggregator_room, s->aggregators + 1) != 0)
		return state_memory(err);
	if (state_host(s, r, "host", &a.host, err) != 0 ||
	    state_rate(r, "sum-rate", &a.sum_rate, err) != 0)
		return -1;
	if (record_get(r, "sum-rate") && a.sum_rate == 0)
		return error_set(err, ERROR_DATA, NULL, "sum-rate=0: it would never end");
	for (size_t i = 0; i < s->aggregators; i++)
		if (s->aggregator[i].host == a.host)
			return error_set(err, ERROR_DATA, NULL, "aggregator %s appears twice",
					 idset_get(&s->hosts, a.host));
	s->aggregator[s->aggregators++] = a;
	return 0;
}

static int take_distributor(struct sched_state *s, const struct record *r, struct error *err)
{
	struct xfer_aggregator a = {0};
	if (GROW(s->distributor, s->distributor_room, s->distributors + 1) != 0)
		return state_memory(err);
	if (state_host(s, r, "host", &a.host, err) != 0)
		return -1;
	for (size_t i = 0; i < s->distributors; i++)
		if (s->distributor[i].host == a.host)
			return error_set(err, ERROR_DATA, NULL, "distributor %s appears twice",
					 idset_get(&s->hosts, a.host));
	s->distributor[s->distributors++] = a;
	return 0;
}

static int take_replica(struct sched_state *s, const struct record *r, struct error *err)
{
	if (s->has_replica)
		return error_set(err, ERROR_DATA, NULL, "a second replica");
	s->has_replica = 1;
	if (state_host(s, r, "host", &s->replica, err) != 0 ||
	    record_u64(r, "version", 0, UINT64_MAX / 4, &s->replica_version, err) != 0)
		return -1;
	return record_real_opt(r, "history", 0, 1e150, &s->history, err);
}

/* to=HOST,HOST: all hosts with a link before this line if it is missing. */
static int take_model(struct sched_state *s, const struct record *r, struct error *err)
{
	struct sched_model m = {0};
	uint64_t bytes;
	if (GROW(s->model, s->model_room, s->models + 1) != 0)
		return state_memory(err);
	if (state_host(s, r, "host", &m.host, err) != 0 ||
	    record_u64(r, "bytes", 1, XFER_BYTES_MAX, &bytes, err) != 0)
		return -1;
	m.bytes = (int64_t)bytes;
	if (m.bytes > XFER_ALL_BYTES_MAX / (int64_t)s->net.hosts)
		return error_set(err, ERROR_DATA, NULL,
				 "a copy for each of %zu hosts is more than 2^62 bytes together",
				 s->net.hosts);
	m.to = calloc(s->net.hosts + 1, 1);
	if (!m.to)
		return state_memory(err);
	s->model[s->models++] = m;
	const char *to = record_get(r, "to");
	if (!to)
		memset(m.to, 1, s->net.hosts);
	while (to && *to) {
		char id[OPTION_ID_MAX];
		size_t len = strcspn(to, ",");
		snprintf(id, sizeof id, "%.*s", (int)(len < sizeof id ? len : sizeof id - 1), to);
		size_t host = idset_find(&s->hosts, id);
		if (host == SIZE_MAX)
			return error_set(err, ERROR_DATA, NULL,
					 "to=: host %s has no link before this line", id);
		m.to[host] = 1;
		to += len + (to[len] == ',');
	}
	m.to[m.host] = 0;
	return 0;
}

typedef int take_fn(struct sched_state *s, const struct record *r, struct error *err);

static const struct {
	const char *type;
	take_fn *take;
} taken[] = {{"link", take_link},
	     {"server", take_server},
	     {"update", take_update},
	     {"aggregator", take_aggregator},
	     {"distributor", take_distributor},
	     {"replica", take_replica},
	     {"model", take_model}};

static take_fn *taker_of(const struct record *r)
{
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		if (record_is(r, taken[i].type))
			return taken[i].take;
	return NULL;
}

/* What a server has and the replica lacks is known one by one. */
static int state_check(const struct sched_state *s, struct error *err)
{
	uint64_t ahead = 0;
	for (size_t i = 0; i < s->updates.count; i++)
		ahead += s->update[i].is_committed != 0;
	if (s->updates.count == 0 && s->models == 0)
		return error_set(err, ERROR_DATA, "stdin", "neither an update nor a model");
	if (s->has_replica && s->replica_version + ahead != s->version)
		return error_set(err, ERROR_DATA, "stdin",
				 "the replica has version %llu, the server %llu, and %llu updates "
				 "are committed=1: one for each version between is needed",
				 (unsigned long long)s->replica_version,
				 (unsigned long long)s->version, (unsigned long long)ahead);
	return 0;
}

static int state_take(const struct record *r, void *state, struct error *err)
{
	take_fn *take = taker_of(r);
	return take ? take(state, r, err) : 1;
}

int sched_read(struct sched_state *s, struct error *err)
{
	if (filter_read(PROGRAM, s->options->strict, NULL, state_take, s, err) != 0 ||
	    state_check(s, err) != 0)
		return -1;
	const struct sched_options *o = s->options;
	for (size_t i = 0; i < s->updates.count; i++) {
		struct sched_update *u = &s->update[i];
		if (u->deadline == BY_VERSION)
			u->deadline = o->has_delay_max
					      ? xfer_deadline(u->version, s->version, o->delay_max)
					      : XFER_NO_DEADLINE;
		if (strcmp(o->mode, "sync") == 0)
			u->deadline = XFER_NO_DEADLINE;
	}
	return 0;
}

void sched_clear(struct sched_state *s)
{
	idset_clear(&s->hosts);
	idset_clear(&s->updates);
	xfer_net_clear(&s->net);
	for (size_t i = 0; i < s->models; i++)
		free(s->model[i].to);
	free(s->update);
	free(s->part);
	free(s->server);
	free(s->aggregator);
	free(s->distributor);
	free(s->model);
}

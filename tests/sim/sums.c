/* sums: see sums.h. */
#include "tests/sim/sums.h"

#include "tests/sim/kernel.h"

#include "fabric/links.h"
#include "fabric/world.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

/* What is under way: a message, or one side of bulk. */
struct way {
	unsigned from, to, tag;
	void *memory;
	size_t bytes;
	world_done_fn *sent;
	void (*came)(void *arg, size_t bytes);
	void *arg;
};

struct list {
	struct way *way;
	size_t count, room;
};

/* A host's rank. */
struct world {
	struct between *between;
	unsigned rank;
	world_message_fn *hears;
	void *arg;
};

struct between {
	const char *host[SUMS_HOSTS_MAX];
	unsigned hosts;
	int (*host_of)(pid_t pid);
	struct world world[SUMS_HOSTS_MAX];
	struct sums *sums[SUMS_HOSTS_MAX];
	struct verb verb[SUMS_VERBS];
	struct list messages, sends, receives;
	struct event *next;
};

static void list_add(struct list *l, struct way w)
{
	if (l->count == l->room) {
		l->room = 2 * l->room + 8;
		if (!(l->way = realloc(l->way, l->room * sizeof *l->way)))
			sim_fail("out of memory");
	}
	l->way[l->count++] = w;
}

static struct way list_take(struct list *l, size_t i)
{
	struct way w = l->way[i];
	memmove(l->way + i, l->way + i + 1, (--l->count - i) * sizeof w);
	return w;
}

/* The first one between the same hosts, and with the same tag. */
static size_t list_find(const struct list *l, const struct way *w)
{
	size_t i = 0;
	while (i < l->count && (l->way[i].from != w->from || l->way[i].to != w->to || l->way[i].tag != w->tag))
		i++;
	return i;
}

static void soon(struct between *b)
{
	struct timeval t = {0, 1 + (int)sim_random(sim_chance(0.05) ? 500000 : 5000)};
	if (!event_pending(b->next, EV_TIMEOUT, NULL))
		event_add(b->next, &t);
}

static void deliver(struct between *b)
{
	size_t i = (size_t)sim_random(b->messages.count + b->sends.count);
	if (i < b->messages.count) {
		struct way m = list_take(&b->messages, list_find(&b->messages, &b->messages.way[i]));
		struct world *w = &b->world[m.to];
		w->hears(m.from, m.memory, m.bytes, w->arg);
		free(m.memory);
		return;
	}
	i -= b->messages.count;
	size_t k = list_find(&b->receives, &b->sends.way[i]);
	if (k == b->receives.count)
		return;
	struct way s = list_take(&b->sends, i), r = list_take(&b->receives, k);
	if (s.bytes > r.bytes)
		sim_fail("%zu bytes come where %zu have room", s.bytes, r.bytes);
	memcpy(r.memory, s.memory, s.bytes);
	s.sent(s.arg);
	r.came(r.arg, s.bytes);
}

static void between_on_next(evutil_socket_t fd, short what, void *between)
{
	struct between *b = between;
	(void)fd;
	(void)what;
	for (uint64_t n = 1 + sim_random(8); n > 0 && b->messages.count + b->sends.count > 0; n--)
		deliver(b);
	if (b->messages.count + b->sends.count > 0)
		soon(b);
}

/* ---- for lib/fabric/sums.c ---- */

unsigned __wrap_world_rank(const struct world *w);
unsigned __wrap_world_rank(const struct world *w)
{
	return w->rank;
}

unsigned __wrap_world_size(const struct world *w);
unsigned __wrap_world_size(const struct world *w)
{
	return w->between->hosts;
}

const char *__wrap_world_host(const struct world *w, unsigned rank);
const char *__wrap_world_host(const struct world *w, unsigned rank)
{
	return w->between->host[rank];
}

int __wrap_world_find(const struct world *w, const char *host);
int __wrap_world_find(const struct world *w, const char *host)
{
	for (unsigned i = 0; i < w->between->hosts; i++)
		if (strcmp(w->between->host[i], host) == 0)
			return (int)i;
	return -1;
}

void __wrap_world_on(struct world *w, enum world_channel channel, world_message_fn *fn, void *arg);
void __wrap_world_on(struct world *w, enum world_channel channel, world_message_fn *fn, void *arg)
{
	(void)channel;
	w->hears = fn;
	w->arg = arg;
}

int __wrap_world_tell(struct world *w, unsigned rank, enum world_channel channel, const void *head, size_t head_bytes,
		      const void *data, size_t bytes);
int __wrap_world_tell(struct world *w, unsigned rank, enum world_channel channel, const void *head, size_t head_bytes,
		      const void *data, size_t bytes)
{
	char *copy = malloc(head_bytes + bytes + 1);
	(void)channel;
	if (!copy)
		return -1;
	memcpy(copy, head, head_bytes);
	if (bytes)
		memcpy(copy + head_bytes, data, bytes);
	list_add(&w->between->messages, (struct way){.from = w->rank, .to = rank, .memory = copy, .bytes = head_bytes + bytes});
	soon(w->between);
	return 0;
}

int __wrap_world_send_bulk(struct world *w, unsigned rank, enum world_channel channel, unsigned tag, const void *data,
			   size_t bytes, world_done_fn *done, void *arg);
int __wrap_world_send_bulk(struct world *w, unsigned rank, enum world_channel channel, unsigned tag, const void *data,
			   size_t bytes, world_done_fn *done, void *arg)
{
	(void)channel;
	list_add(&w->between->sends, (struct way){.from = w->rank, .to = rank, .tag = tag, .memory = (void *)(uintptr_t)data,
						  .bytes = bytes, .sent = done, .arg = arg});
	soon(w->between);
	return 0;
}

int __wrap_world_receive_some(struct world *w, unsigned rank, enum world_channel channel, unsigned tag, void *into,
			      size_t bytes, void (*done)(void *arg, size_t came), void *arg);
int __wrap_world_receive_some(struct world *w, unsigned rank, enum world_channel channel, unsigned tag, void *into,
			      size_t bytes, void (*done)(void *arg, size_t came), void *arg)
{
	(void)channel;
	list_add(&w->between->receives, (struct way){.from = rank, .to = w->rank, .tag = tag, .memory = into, .bytes = bytes,
						     .came = done, .arg = arg});
	soon(w->between);
	return 0;
}

void __wrap_links_own(const struct links *l, struct sum_rates *rates);
void __wrap_links_own(const struct links *l, struct sum_rates *rates)
{
	(void)l;
	*rates = (struct sum_rates){{.rate = (double)(1 + sim_random(1000)) * 1e6}, {.rate = (double)(1 + sim_random(1000)) * 1e6}};
}

/* ---- for the server ---- */

static void between_on_request(struct request *rq, void *between)
{
	struct between *b = between;
	int host = b->host_of(connection_pid(request_connection(rq)));
	for (size_t i = 0; host >= 0 && i < SUMS_VERBS; i++)
		if (record_is(request_record(rq), sums_verbs[i].name)) {
			sums_verbs[i].handler(rq, b->sums[host]);
			return;
		}
	request_err(rq, "lost", "this host is in no world");
}

static void between_broken(void *between)
{
	(void)between;
	sim_fail("out of memory");
}

int between_new(struct between **out, const char *const *host, unsigned hosts, int (*host_of)(pid_t pid), struct error *err)
{
	struct between *b = calloc(1, sizeof *b);
	enum sum_way way = (enum sum_way)sim_random(SUM_WAYS);
	if (!b)
		return error_set(err, ERROR_OS, "sums", "out of memory");
	b->hosts = hosts;
	b->host_of = host_of;
	memcpy(b->host, host, hosts * sizeof *host);
	memcpy(b->verb, sums_verbs, sizeof b->verb);
	for (size_t i = 0; i < SUMS_VERBS; i++)
		b->verb[i].handler = between_on_request;
	for (unsigned i = 0; i < hosts; i++) {
		b->world[i] = (struct world){.between = b, .rank = i};
		if (sums_new(&b->sums[i], between_broken, b, err) != 0 || sums_enter(b->sums[i], &b->world[i], NULL, way, err) != 0)
			return -1;
	}
	*out = b;
	return 0;
}

const struct verb *between_verbs(const struct between *b)
{
	return b->verb;
}

void between_begin(struct between *b, struct event_base *base)
{
	b->next = event_new(base, -1, 0, between_on_next, b);
}

void between_closed(struct between *b, struct connection *c)
{
	for (unsigned i = 0; i < b->hosts; i++)
		sums_closed(b->sums[i], c);
}

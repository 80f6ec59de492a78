/* daemons: what clients say to each daemon, over its socket, in one process; see targets.h. */
#include "tests/fuzz/targets.h"

#include "base/fs.h"
#include "fabric/relay_internal.h"
#include "lead/lead.h"
#include "monitor/monitor.h"
#include "ps/fork.h"
#include "ps/ps.h"
#include "shard/service_internal.h"
#include "wire/http.h"
#include "wire/transport.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

static struct error why;

/* ---- clients ---- */

#define CLIENTS 3
#define NEXT '\f' /* what is behind it is said by the next client, in another turn of the loop */
#define MAPPED 4096
#define STILL 2 /* turns of the loop in which nothing is said: what waits is answered in them, or not at all */

struct talk {
	struct event_base *base;
	struct event *turn;
	const char *path;
	void (*over)(void *owner); /* all clients have gone */
	void *owner;
	const uint8_t *data;
	size_t left;
	int fd[CLIENTS], next, still;
};

static int talk_connect(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	size_t len = strlen(path);
	fuzz_must(len < sizeof to.sun_path, "a name too long");
	memcpy(to.sun_path, path, len + 1);
	if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Memory of its own goes with what a client says that shares some; that of a state does not change any more. */
static void talk_say(int fd, const uint8_t *data, size_t size)
{
	struct iovec piece = {(uint8_t *)(uintptr_t)data, size};
	int memory = -1, is_state = size > 6 && memcmp(data, "state ", 6) == 0;
	if (is_state || (size > 4 && memcmp(data, "map ", 4) == 0)) {
		int seals = F_SEAL_SHRINK | (is_state ? F_SEAL_GROW | F_SEAL_WRITE : 0);
		memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		fuzz_must(ftruncate(memory, MAPPED) == 0 && fcntl(memory, F_ADD_SEALS, seals) == 0, "memfd");
	}
	/* It may have gone. */
	(void)transport_write(fd, &piece, 1, memory);
	if (memory >= 0)
		close(memory);
}

static void talk_hear(int fd)
{
	static char answers[1 << 16];
	while (fd >= 0 && recv(fd, answers, sizeof answers, 0) == sizeof answers)
		;
}

static void talk_turn(evutil_socket_t none, short what, void *arg)
{
	static const struct timeval at_once = {0, 0};
	struct talk *t = arg;
	(void)none, (void)what;
	for (int i = 0; i < CLIENTS; i++)
		talk_hear(t->fd[i]);
	if (t->left > 0) {
		const uint8_t *end = memchr(t->data, NEXT, t->left);
		size_t size = end ? (size_t)(end - t->data) : t->left;
		int *fd = &t->fd[t->next++ % CLIENTS];
		if (*fd < 0)
			*fd = talk_connect(t->path);
		if (*fd >= 0 && size > 0)
			talk_say(*fd, t->data, size);
		t->data += size + (end != NULL);
		t->left -= size + (end != NULL);
	} else if (t->still++ == STILL) {
		for (int i = 0; i < CLIENTS; i++)
			if (t->fd[i] >= 0)
				close(t->fd[i]);
	} else if (t->still > 2 * STILL) {
		t->over(t->owner);
		return;
	}
	event_add(t->turn, &at_once);
}

/* Before the loop runs. */
static void talk_begin(struct talk *t, struct event_base *base, const char *path, const uint8_t *data, size_t size)
{
	static const struct timeval at_once = {0, 0};
	*t = (struct talk){.base = base, .path = path, .data = data, .left = size, .fd = {-1, -1, -1}};
	t->turn = event_new(base, -1, 0, talk_turn, t);
	event_add(t->turn, &at_once);
}

static void talk_stop_server(void *server)
{
	server_stop(server);
}

void fuzz_talk(struct server *s, const char *path, const uint8_t *data, size_t size)
{
	struct talk t;
	talk_begin(&t, server_base(s), path, data, size);
	t.over = talk_stop_server;
	t.owner = s;
	server_run(s, NULL, 0, &why);
	event_free(t.turn);
}

/* What a daemon would do in a process of its own, or with files that it is told of. */
static void talk_refuse(struct request *rq, void *owner)
{
	(void)owner;
	request_err(rq, "fuzz", "not here");
}

void fuzz_tame(struct verb *verb, size_t count, const char *const *names)
{
	for (size_t i = 0; i < count && verb[i].name; i++)
		for (const char *const *name = names; *name; name++)
			if (strcmp(verb[i].name, *name) == 0)
				verb[i].handler = talk_refuse;
}

/* ---- shardd ---- */

/* On a disk that is nearly full a journal is begun with fewer zeros: to read megabytes of them costs most of the time.
 * Linked with --wrap. */
int __wrap_fstatvfs(int fd, struct statvfs *disk);
int __wrap_fstatvfs(int fd, struct statvfs *disk)
{
	(void)fd;
	*disk = (struct statvfs){.f_bavail = 4096, .f_frsize = 4096};
	return 0;
}

void fuzz_shardd(const uint8_t *data, size_t size)
{
	static const char *const files[] = {"save", "load", NULL};
	char socket[128], dir[128];
	static const struct partition_own own[] = {{"w0", 30}, {"w1", 30}};
	struct service *s;
	if (size < 1)
		return;
	int has_own = data[0] >> 3 & 1;
	const struct service_options options = {
		.socket = fuzz_path(socket, "shardd.sock"),
		.dir = fuzz_path(dir, "journal"),
		.sync = JOURNAL_OFF,
		.compact_bytes = (uint64_t)1 << 40,
		.parameters = {.samples = 60, .batch = 4, .batches = 3, .epochs = 2,
			       .shuffle = has_own ? QUEUE_SHUFFLE_NONE : QUEUE_SHUFFLE_SHARDS,
			       .partition = has_own ? own : NULL, .partitions = has_own ? 2 : 0},
		.migrate = has_own ? 2 : 0,
		.retries = data[0] & 1 ? 1 : 0,
		.lease = data[0] & 2 ? 100 : 0,
		.settle_only = data[0] >> 2 & 1,
		.given = {.samples = 1},
	};
	fs_remove_tree(dir, NULL);
	fuzz_must(service_new(&s, &options, &why) == 0, "service_new");
	fuzz_tame(s->verbs, VERBS_MAX, files);
	fuzz_talk(service_server(s), socket, data + 1, size - 1);
	fuzz_must(!s->is_fatal, "a client has ended it");
	service_end(s, &why);
	service_free(s);
	/* What was answered is there again: of one input in four, as this takes as long as all the rest. */
	unsigned char sum = 0;
	for (size_t i = 0; i < size; i++)
		sum ^= data[i];
	if (sum & 3)
		return;
	fuzz_must(service_new(&s, &options, &why) == 0, "its journal is refused");
	service_free(s);
}

/* ---- the lead, and a part of the parameters ---- */

static void talk_store(struct store **store)
{
	static struct layout layout;
	static struct map map;
	static const struct layout_table table = {.name = "t", .width = 2, .zero_columns = 2};
	struct opt opt;
	layout_start(&layout, 0);
	fuzz_must(layout_add_tensor(&layout, "a", 6, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, &why) == 0 &&
			  layout_set_table(&layout, &table, &why) == 0 && opt_by_name(&opt, "sgd", &why) == 0,
		  "layout");
	opt.lr = 1.0f;
	map_even(&map, 1, 6);
	fuzz_must(store_new(store, &layout, &map, 0, &opt, &why) == 0, "store_new");
}

/* No process is begun: it would hold the lock of this one's name. Linked with --wrap. */
int __wrap_fork_start(struct fork_child **out, struct server *server, const struct fork_job *job, fork_done_fn *done, void *arg,
		      struct error *err);
int __wrap_fork_start(struct fork_child **out, struct server *server, const struct fork_job *job, fork_done_fn *done, void *arg,
		      struct error *err)
{
	(void)out, (void)server, (void)job, (void)done, (void)arg;
	return error_set(err, ERROR_OS, "fuzz", "no process");
}

#define VERBS 64

static size_t talk_verbs(struct verb out[VERBS], const struct verb *verbs, size_t count)
{
	/* Those fork, connect to sockets that they are told of, write there, or wait for an heir, who would be here. */
	static const char *const others[] = {"cut",  "follow", "fill",	    "copy", "prepare",
					     "give", "move",   "take-over", NULL};
	fuzz_must(count <= VERBS, "too many verbs");
	memcpy(out, verbs, count * sizeof *verbs);
	fuzz_tame(out, count, others);
	return count;
}

/* with_lead: in one process, as part 0 is; else orders come from a client, too. */
static void talk_ps(const uint8_t *data, size_t size, int with_lead, int with_part)
{
	static struct verb verbs[VERBS], more[VERBS];
	struct store *store = NULL;
	struct ps *ps = NULL;
	struct lead *lead = NULL;
	struct server *s;
	char path[128];
	if (size < 1)
		return;
	unsigned how = data[0];
	fuzz_path(path, "ps0.sock");
	struct server_options options = {.path = path, .role = "ps-server", .verbs = verbs};
	if (with_part) {
		talk_store(&store);
		const struct ps_options part = {.id = "ps0", .parts = 1, .incarnation = 1, .store = store,
						.bsp = with_lead && (how & 3) == 0, .socket = path, .report_every = 1};
		fuzz_must(ps_new(&ps, &part, &why) == 0, "ps_new");
		options.more_verbs = more;
		options.more_count = talk_verbs(more, ps_verbs, ps_verb_count);
		options.more_owner = ps;
		options.verb_count = talk_verbs(verbs, ps_led_verbs, ps_led_verb_count);
		options.owner = ps;
	}
	if (with_lead) {
		struct part_here here;
		struct lead_options o = {
			.gate = {.sync = (how & 3) == 0 ? GATE_BSP : (how & 3) == 1 ? GATE_SSP : GATE_ASP,
				 .staleness = 1,
				 .backup = (how & 3) == 0 && ps ? how >> 2 & 1 : 0,
				 .incarnation = 1,
				 .settle_first = 1,
				 .bounds_delay = (how & 3) != 0 && ps && how & 8,
				 .delay_max = 2,
				 .announces = (how & 3) != 0 && ps && how & 8},
			.id = "ps0", .socket = path, .job = "fuzz", .balance_least = 1};
		if (ps) {
			here = ps_here(ps);
			o.here = &here;
			o.map = store_map(store);
		}
		if ((how & 3) == 0 && how & 16) {
			o.balance_method = "lb-bsp";
			o.balance_batch = 64;
		}
		fuzz_must(lead_new(&lead, &o, &why) == 0, "lead_new");
		options.verb_count = talk_verbs(verbs, lead_verbs, lead_verb_count);
		options.owner = lead;
		options.closed = lead_closed;
		const struct ps_more together = {.ready = lead_can_go, .give = lead_give, .take = lead_take,
						 .seen = lead_seen, .owner = lead};
		if (ps)
			ps_set_more(ps, &together);
	}
	fuzz_must(server_new(&s, &options, &why) == 0 && server_listen(s, &why) == 0, "server_new");
	fuzz_must((!ps || ps_start(ps, s, &why) == 0) && (!lead || lead_start(lead, s, &why) == 0), "start");
	fuzz_talk(s, path, data + 1, size - 1);
	lead_stop(lead);
	ps_stop(ps);
	server_free(s);
	lead_free(lead);
	ps_free(ps);
	store_free(store);
}

/* With parameters, or with sums only; alone on its host, and without a fabricd. */
void fuzz_replica(const uint8_t *data, size_t size)
{
	static struct verb verbs[VERBS], more[VERBS];
	static struct map map;
	struct layout layout;
	struct store *store = NULL;
	struct ps *ps;
	struct server *s;
	struct opt opt;
	char path[128];
	if (size < 1)
		return;
	int sums = data[0] & 1;
	fuzz_path(path, "r0.sock");
	if (sums) {
		layout_start(&layout, 0);
		map_first(&map, 1, 0);
		fuzz_must(opt_by_name(&opt, "add", &why) == 0 && store_new_bare(&store, &layout, &map, 0, &opt, &why) == 0,
			  "store_new_bare");
	} else {
		talk_store(&store);
	}
	const struct ps_options part = {.id = "r0", .parts = 1, .replicas = 1, .incarnation = 1, .store = store, .bsp = 1,
					.socket = path, .sums = sums, .empty = !sums && data[0] & 2, .report_every = 1};
	fuzz_must(ps_new(&ps, &part, &why) == 0, "ps_new");
	const struct server_options options = {
		.path = path, .role = "ps-server", .verbs = verbs, .more_verbs = more, .owner = ps, .more_owner = ps,
		.verb_count = talk_verbs(verbs, ps_replica_verbs, ps_replica_verb_count),
		.more_count = sums ? talk_verbs(more, ps_sums_verbs, ps_sums_verb_count)
				   : talk_verbs(more, ps_full_verbs, ps_full_verb_count)};
	fuzz_must(server_new(&s, &options, &why) == 0 && server_listen(s, &why) == 0 && ps_start(ps, s, &why) == 0, "start");
	fuzz_talk(s, path, data + 1, size - 1);
	ps_stop(ps);
	server_free(s);
	ps_free(ps);
	store_free(store);
}

void fuzz_lead(const uint8_t *data, size_t size)
{
	talk_ps(data, size, 1, 0);
}

void fuzz_ps(const uint8_t *data, size_t size)
{
	talk_ps(data, size, 0, 1);
}

void fuzz_ps_lead(const uint8_t *data, size_t size)
{
	talk_ps(data, size, 1, 1);
}

/* ---- bpt-monitor ---- */

static void monitor_put(const char *text, size_t len, void *arg)
{
	(void)arg;
	fuzz_must(len > 0 && text[len - 1] == '\n', "no whole record");
}

void fuzz_monitor(const uint8_t *data, size_t size)
{
	static struct record record;
	struct monitor *m;
	struct metrics_page page = {0};
	double now = 1000, at;
	fuzz_must(monitor_new(&m, 30, 60, &why) == 0, "monitor_new");
	struct record_walk walk = record_walk((const char *)data, size);
	int got;
	while ((got = record_next(&walk, &record, &why)) != RECORD_END)
		if (got == RECORD_ONE && monitor_add_from(m, &record, now, 0, &at, &why) == MONITOR_TAKEN)
			now += 1;
	fuzz_must(monitor_snapshot(m, now, monitor_put, NULL, &why) == 0, "monitor_snapshot");
	monitor_history(m, NODE_WORKER, "w0", 10, monitor_put, NULL);
	monitor_prometheus(m, now, &page, &why);
	metrics_free(&page);
	monitor_free(m);
}

/* ---- a page over HTTP ---- */

static int http_page(void *owner, const char **text, size_t *len, struct error *err)
{
	(void)owner, (void)err;
	*text = "a 1\n";
	*len = 4;
	return 0;
}

static void http_over(void *base)
{
	event_base_loopbreak(base);
}

void fuzz_http(const uint8_t *data, size_t size)
{
	static struct event_base *base;
	char path[128];
	struct talk t;
	struct http *h;
	if (!base)
		base = event_base_new();
	const struct http_options options = {.base = base, .path = "/metrics", .type = "text/plain",
					     .about = "none\n", .seconds = 5, .page = http_page};
	fuzz_must(http_new(&h, &options, &why) == 0 && http_listen_unix(h, fuzz_path(path, "http.sock"), &why) == 0,
		  "http_new");
	talk_begin(&t, base, path, data, size);
	t.over = http_over;
	t.owner = base;
	event_base_dispatch(base);
	event_free(t.turn);
	http_free(h);
	event_base_loop(base, EVLOOP_NONBLOCK);
}

/* ---- the relay: this program's own world ---- */

#define RANKS 3 /* this host is the first */
#define BULKS 64

struct world {
	world_message_fn *fn;
	void *arg;
	struct {
		world_done_fn *done;
		void *arg, *into;
		size_t bytes;
	} bulk[BULKS];
	size_t bulks;
};

static const char *const relay_hosts[RANKS] = {"h0", "h1", "h2"};

unsigned world_rank(const struct world *w)
{
	(void)w;
	return 0;
}

unsigned world_size(const struct world *w)
{
	(void)w;
	return RANKS;
}

const char *world_host(const struct world *w, unsigned rank)
{
	(void)w;
	return relay_hosts[rank];
}

int world_find(const struct world *w, const char *host)
{
	(void)w;
	for (int i = 0; i < RANKS; i++)
		if (strcmp(relay_hosts[i], host) == 0)
			return i;
	return -1;
}

void world_on(struct world *w, enum world_channel channel, world_message_fn *fn, void *arg)
{
	(void)channel;
	w->fn = fn;
	w->arg = arg;
}

/* What is sent is read. */
static void relay_read(const void *data, size_t bytes)
{
	const uint8_t *at = data;
	static unsigned char sum;
	for (size_t i = 0; i < bytes; i++)
		sum = (unsigned char)(sum + at[i]);
}

int world_tell(struct world *w, unsigned rank, enum world_channel channel, const void *head, size_t head_bytes,
	       const void *data, size_t bytes)
{
	(void)w, (void)channel, (void)head;
	fuzz_must(rank < RANKS && head_bytes + bytes <= WORLD_MESSAGE_MAX, "a message too long, or to nobody");
	relay_read(data, bytes);
	return 0;
}

static int relay_bulk(struct world *w, void *into, size_t bytes, world_done_fn *done, void *arg)
{
	if (w->bulks == BULKS)
		return -1;
	w->bulk[w->bulks].done = done;
	w->bulk[w->bulks].arg = arg;
	w->bulk[w->bulks].into = into;
	w->bulk[w->bulks++].bytes = bytes;
	return 0;
}

int world_send_bulk(struct world *w, unsigned rank, enum world_channel channel, unsigned tag, const void *data,
		    size_t bytes, world_done_fn *done, void *arg)
{
	(void)channel;
	fuzz_must(rank < RANKS && tag <= WORLD_TAG_MAX, "a tag that is none, or to nobody");
	relay_read(data, bytes);
	return relay_bulk(w, NULL, bytes, done, arg);
}

int world_receive_bulk(struct world *w, unsigned rank, enum world_channel channel, unsigned tag, void *into,
		       size_t bytes, world_done_fn *done, void *arg)
{
	(void)rank, (void)channel, (void)tag;
	return relay_bulk(w, into, bytes, done, arg);
}

/* All that is under way comes to its end, of which some begins anew. */
static void relay_bulk_end(struct world *w)
{
	for (int i = 0; i < 4 && w->bulks > 0; i++) {
		struct world now = *w;
		w->bulks = 0;
		for (size_t k = 0; k < now.bulks; k++) {
			if (now.bulk[k].into)
				memset(now.bulk[k].into, 7, now.bulk[k].bytes);
			now.bulk[k].done(now.bulk[k].arg);
		}
	}
}

/* Each step is an operation and what it needs: a message of another host, or what a client or a daemon here does. */
void fuzz_relay(const uint8_t *data, size_t size)
{
	static struct event_base *base;
	static const char text[] = "route socket=ps0.sock host=h0\nroute socket=ps1.sock host=h1\n";
	static const char map[] = "map bytes=4096\n";
	char near[160], far[160];
	struct world w = {0};
	struct relay *relay = NULL;
	struct routes routes = {0};
	struct relay_options options = {.base = NULL, .world = &w, .run_dir = fuzz_dir()};
	struct transport_listener daemon;
	int served[4], client[2] = {-1, -1}, count = 0;
	if (!base)
		base = event_base_new();
	options.base = base;
	snprintf(near, sizeof near, "%s/ps1.sock", options.run_dir);
	snprintf(far, sizeof far, "%s/ps0.sock", options.run_dir);
	fuzz_must(transport_listen(&daemon, far, &why) == 0 && relay_new(&relay, &options, &why) == 0 &&
			  routes_read(&routes, text, sizeof text - 1, "fuzz", &why) == 0,
		  "relay_new");
	relay_set_routes(relay, &routes);
	for (size_t at = 0; at + 8 <= size;) {
		const uint8_t *p = data + at;
		unsigned kind = p[0] % 18, len = p[7];
		at += 8;
		len = len < size - at ? len : (unsigned)(size - at);
		int *fd = &client[p[1] & 1];
		if (kind <= KIND_ACK) {
			static char message[sizeof(struct head) + 256];
			struct head h = {.kind = (uint16_t)kind, .pass = p[1] & 1, .origin = p[1] >> 1 & 3, .number = p[2],
					 .offset = (uint64_t)p[3] * 8, .bytes = (uint64_t)p[4] * 8 + (p[5] & 7),
					 .tag = p[6]};
			if (p[1] & 128)
				h.bytes <<= 8;
			memcpy(message, &h, sizeof h);
			memcpy(message + sizeof h, data + at, len);
			w.fn(1 + (p[1] >> 6 & 1), message, sizeof h + len, w.arg);
			at += len;
		} else if (kind == KIND_ACK + 1) {
			if (*fd < 0)
				*fd = talk_connect(near);
			if (*fd >= 0)
				talk_say(*fd, data + at, len);
			at += len;
		} else if (kind == KIND_ACK + 2) {
			if (*fd < 0)
				*fd = talk_connect(near);
			if (*fd >= 0)
				talk_say(*fd, (const uint8_t *)map, sizeof map - 1);
		} else if (kind == KIND_ACK + 3 && *fd >= 0) {
			if (p[1] & 2)
				shutdown(*fd, SHUT_WR);
			else
				close(*fd), *fd = -1;
		} else if (kind == KIND_ACK + 4 && count > 0) {
			talk_say(served[p[1] % count], data + at, len);
			at += len;
		} else {
			relay_bulk_end(&w);
		}
		event_base_loop(base, EVLOOP_NONBLOCK);
		int fresh;
		while (count < 4 && (fresh = transport_accept(&daemon)) >= 0)
			served[count++] = fresh;
		for (int i = 0; i < count; i++)
			talk_hear(served[i]);
		talk_hear(client[0]);
		talk_hear(client[1]);
	}
	relay_stop(relay);
	relay_bulk_end(&w);
	relay_free(relay);
	transport_unlisten(&daemon, far);
	for (int i = 0; i < count; i++)
		close(served[i]);
	for (int i = 0; i < 2; i++)
		if (client[i] >= 0)
			close(client[i]);
	event_base_loop(base, EVLOOP_NONBLOCK);
}

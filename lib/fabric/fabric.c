/* fabric: see fabric.h. */
#include "fabric/fabric.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "fabric/links.h"
#include "fabric/relay.h"
#include "fabric/routing.h"
#include "fabric/sums.h"
#include "fabric/world.h"
#include "record/record.h"

#include <event2/event.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define LOCK_SECONDS 10.0
#define LOCK_PAUSE_SECONDS 0.02

struct fabric {
	struct fabric_options options;
	char path[PATH_MAX], greeting[512];
	struct server *server;
	struct world *world;
	struct relay *relay;
	struct routing *routing;
	struct event *on_hup;
	struct sums *sums;
	struct links *links;
	int broken;
	double began;
};

/* ---- what can be asked ---- */

static void fabric_on_stat(struct request *rq, void *fabric)
{
	const struct fabric *f = fabric;
	struct world_counts n;
	struct relay_counts relayed;
	world_count(f->world, &n);
	relay_count(f->relay, &relayed);
	for (unsigned i = 0; i < world_size(f->world); i++) {
		request_put_record(
			rq, RECORD("host", F("host", world_host(f->world, i)), F("rank", i)));
	}
	struct record_out *o = RECORD(
		"stat", F("host", f->options.host), F("rank", world_rank(f->world)),
		F("size", world_size(f->world)), F("messages-sent", n.messages_sent),
		F("messages-received", n.messages_received), F("sent-bytes", n.bytes_sent),
		F("received-bytes", n.bytes_received), F("under-way", n.under_way),
		F("near", relayed.near), F("far", relayed.far),
		F("conversations", relayed.conversations), F("listens", relayed.listens),
		F("stream-bytes", relayed.stream_bytes), F("payload-bytes", relayed.payload_bytes),
		F("copied-bytes", relayed.copied_bytes), F("added-bytes", relayed.added_bytes),
		F("kept-bytes", relayed.kept_bytes), F("sockets", n.sockets),
		F("sleeps", n.sleeps));
	sums_stat(f->sums, o);
	record_add_seconds(o, "up", clock_mono() - f->began);
	request_put_record(rq, o);
	request_ok(rq, NULL);
}

static void fabric_on_links(struct request *rq, void *fabric)
{
	links_answer(((struct fabric *)fabric)->links, rq);
	request_ok(rq, NULL);
}

static void list_routes(const struct fabric *f, struct request *rq)
{
	const struct routes *all = relay_routes(f->relay);
	for (size_t i = 0; i < all->count; i++) {
		const struct route *r = &all->at[i];
		request_put_record(rq,
				   RECORD("route", F("socket", r->socket), F("host", r->host),
					  F("listens", relay_listens(f->relay, r->socket) != 0)));
	}
	request_ok(rq, NULL);
}

/* A client that waits until routes are in force. */
struct asking {
	struct fabric *fabric;
	struct request *request;
	uint64_t number;
};

static void on_routes_done(const char *why, void *asking)
{
	struct asking *a = asking;
	if (why)
		request_err(a->request, "bad-request", "%s", why);
	else
		request_ok(a->request, NULL);
	free(a);
}

static void on_routes_cancelled(struct request *rq, void *asking)
{
	struct asking *a = asking;
	(void)rq;
	if (a->fabric->routing)
		routing_forget(a->fabric->routing, a->number);
	free(a);
}

static void fabric_on_routes(struct request *rq, void *fabric)
{
	struct fabric *f = fabric;
	struct payload *records = request_payload(rq);
	struct error why;
	if (!records) {
		list_routes(f, rq);
		return;
	}
	struct asking *a = malloc(sizeof *a);
	if (!a) {
		request_err(rq, "no-memory", NULL);
		return;
	}
	*a = (struct asking){.fabric = f, .request = rq};
	a->number = routing_set(f->routing, payload_data(records), payload_bytes(records),
				on_routes_done, a, &why);
	if (a->number == 0) {
		free(a);
		request_bad(rq, &why);
		return;
	}
	request_defer(rq, on_routes_cancelled, a);
}

static void fabric_end(struct fabric *f)
{
	world_end(f->world);
	server_stop(f->server);
}

static void fabric_on_end(struct request *rq, void *fabric)
{
	request_ok(rq, NULL);
	fabric_end(fabric);
}

static const struct verb verbs[] = {
	{"end", "", "", fabric_on_end, 0, "ends all ranks, as SIGTERM does"},
	{"links", "", "", fabric_on_links, 0, "how fast the network to the other hosts is"},
	{"routes", "", "bytes", fabric_on_routes, ROUTES_TEXT_MAX,
	 "which daemon is on which host; route records as payload replace the table"},
	{"stat", "", "", fabric_on_stat, 0,
	 "the hosts of this world, and what has gone between them"},
};

/* ---- life ---- */

static void fabric_on_signal(int signal, void *fabric)
{
	(void)signal;
	fabric_end(fabric);
}

static void fabric_on_ended(void *fabric)
{
	struct fabric *f = fabric;
	server_stop(f->server);
}

/* trainctl, which started this world, starts it anew. */
static void fabric_on_broken(void *fabric)
{
	struct fabric *f = fabric;
	if (f->broken++ == 0)
		fabric_end(f);
}

static void fabric_on_closed(struct connection *c, void *fabric)
{
	struct fabric *f = fabric;
	sums_closed(f->sums, c);
}

static void fabric_on_hup(evutil_socket_t number, short what, void *fabric)
{
	(void)number;
	(void)what;
	routing_reread(((struct fabric *)fabric)->routing);
}

static int open_relay(struct fabric *f, struct error *err)
{
	struct relay_options relay = {.base = server_base(f->server),
				      .world = f->world,
				      .run_dir = f->options.run_dir};
	struct routing_options routing = {.world = f->world,
					  .file = f->options.routes,
					  .broken = fabric_on_broken,
					  .owner = f};
	if (relay_new(&f->relay, &relay, err) != 0)
		return -1;
	routing.relay = f->relay;
	if (routing_new(&f->routing, &routing, err) != 0)
		return -1;
	f->on_hup = evsignal_new(relay.base, SIGHUP, fabric_on_hup, f);
	if (!f->on_hup || event_add(f->on_hup, NULL) != 0)
		return error_set(err, ERROR_OS, NULL, "no event loop");
	return 0;
}

static int is_stopped_fabricd(pid_t pid)
{
	char text[FS_PROC_MAX];
	const char *state = fs_stat_fields(fs_read_proc(text, "/proc/%ld/stat", (long)pid));
	return state && strstr(text, " (fabricd) ") && (*state == 'T' || *state == 't');
}

/* Who has this file locked, as flock(2) does; 0: not known. A file of another device may have the
 * same number. */
static pid_t lock_holder(const char *path)
{
	struct stat st;
	char line[256];
	unsigned major_of, minor_of;
	unsigned long long inode;
	long pid, found = 0;
	FILE *in = stat(path, &st) == 0 ? fopen("/proc/locks", "re") : NULL;
	while (in && !found && fgets(line, sizeof line, in))
		if (sscanf(line, "%*s FLOCK %*s WRITE %ld %x:%x:%llu", &pid, &major_of, &minor_of,
			   &inode) == 4 &&
		    major_of == major(st.st_dev) && minor_of == minor(st.st_dev) &&
		    inode == (unsigned long long)st.st_ino && pid > 0)
			found = pid;
	if (in)
		fclose(in);
	return (pid_t)found;
}

/* One that is stopped would hold the socket for ever: its own world gave it up after 30 s, but
 * where the first host has died without a word nobody is left to end it. */
static int end_stopped(const struct fabric *f)
{
	char lock[sizeof f->path + 8];
	snprintf(lock, sizeof lock, "%s.lock", f->path);
	pid_t pid = lock_holder(lock);
	if (pid == 0 || !is_stopped_fabricd(pid) || kill(pid, SIGKILL) != 0)
		return -1;
	log_say(LOG_LEVEL_WARNING, "an earlier fabricd (pid %ld) is stopped: killed", (long)pid);
	return 0;
}

/* Before this process is a rank: only one fabricd may run. The previous one may still be ending,
 * together with its world. */
static int take_socket(struct fabric *f, const struct server_options *options, struct error *err)
{
	double deadline = clock_mono() + LOCK_SECONDS;
	while (server_new(&f->server, options, err) != 0) {
		if (err->code != ERROR_TEMPFAIL)
			return -1;
		if (clock_mono() > deadline) {
			if (end_stopped(f) != 0)
				return -1;
			deadline = clock_mono() + LOCK_SECONDS;
		}
		clock_sleep(LOCK_PAUSE_SECONDS);
	}
	return 0;
}

static uint64_t fabric_summed(const void *fabric)
{
	const struct fabric *f = fabric;
	struct relay_counts relayed = {0};
	if (f->relay)
		relay_count(f->relay, &relayed);
	return sums_bytes(f->sums) + relayed.added_bytes;
}

static void fabric_measured(void *fabric)
{
	sums_follow(((struct fabric *)fabric)->sums);
}

static int open_fabric(struct fabric *f, struct error *err)
{
	if (sums_new(&f->sums, fabric_on_broken, f, err) != 0)
		return -1;
	struct server_options server = {.path = f->path,
					.role = "fabricd",
					.greeting_fields = f->greeting,
					.verbs = verbs,
					.verb_count = sizeof verbs / sizeof *verbs,
					.owner = f,
					.more_verbs = sums_verbs,
					.more_count = SUMS_VERBS,
					.more_owner = f->sums,
					.closed = fabric_on_closed,
					.signalled = fabric_on_signal};
	struct world_options world = {.host = f->options.host,
				      .version = f->options.version,
				      .way = f->options.way,
				      .ended = fabric_on_ended,
				      .owner = f};
	if (fs_join(f->path, sizeof f->path, f->options.run_dir, "fabric.sock", err) != 0)
		return -1;
	snprintf(f->greeting, sizeof f->greeting, "host=%s", f->options.host);
	if (take_socket(f, &server, err) != 0)
		return -1;
	world.base = server_base(f->server);
	if (world_open(&f->world, &world, err) != 0)
		return -1;
	if (links_new(&f->links, world.base, f->world, fabric_summed, fabric_measured, f, err) ==
		    0 &&
	    sums_enter(f->sums, f->world, f->links, f->options.way, err) == 0 &&
	    open_relay(f, err) == 0)
		return 0;
	world_end(f->world);
	return -1;
}

int fabric_new(struct fabric **out, const struct fabric_options *options, struct error *err)
{
	struct fabric *f = calloc(1, sizeof *f);
	if (!f)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	f->options = *options;
	f->began = clock_mono();
	if (open_fabric(f, err) == 0) {
		*out = f;
		return 0;
	}
	(void)fabric_free(f, NULL);
	return -1;
}

struct server *fabric_server(struct fabric *f)
{
	return f->server;
}

int fabric_free(struct fabric *f, struct error *err)
{
	if (!f)
		return 0;
	/* MPI_Finalize may take long, or never return: remove the names before. */
	relay_stop(f->relay);
	if (f->server)
		server_unlisten(f->server);
	int result = world_close(f->world, err);
	routing_free(f->routing);
	f->routing = NULL;
	relay_free(f->relay);
	if (f->on_hup)
		event_free(f->on_hup);
	sums_leave(f->sums);
	links_free(f->links);
	server_free(f->server);
	sums_free(f->sums);
	if (f->broken)
		result = error_set(err, ERROR_OS, NULL, "out of memory");
	free(f);
	return result;
}

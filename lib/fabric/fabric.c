/* fabric: see fabric.h. */
#include "fabric/fabric.h"

#include "base/clock.h"
#include "base/fs.h"
#include "fabric/sums.h"
#include "fabric/world.h"
#include "record/record.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct fabric {
	struct fabric_options options;
	char path[PATH_MAX], greeting[512];
	struct server *server;
	struct world *world;
	struct sums *sums;
	int broken;
	double began;
};

/* ---- what can be asked ---- */

static void on_stat(struct request *rq, void *fabric)
{
	const struct fabric *f = fabric;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	struct world_counts n;
	world_count(f->world, &n);
	for (unsigned i = 0; i < world_size(f->world); i++) {
		record_begin(&o, line, sizeof line, "host");
		record_add(&o, "host", world_host(f->world, i));
		record_add_u64(&o, "rank", i);
		request_put_record(rq, &o);
	}
	record_begin(&o, line, sizeof line, "stat");
	record_add(&o, "host", f->options.host);
	record_add_u64(&o, "rank", world_rank(f->world));
	record_add_u64(&o, "size", world_size(f->world));
	record_add_u64(&o, "messages-sent", n.messages_sent);
	record_add_u64(&o, "messages-received", n.messages_received);
	record_add_u64(&o, "sent-bytes", n.bytes_sent);
	record_add_u64(&o, "received-bytes", n.bytes_received);
	record_add_u64(&o, "under-way", n.under_way);
	record_add_u64(&o, "sockets", n.sockets);
	record_add_u64(&o, "sleeps", n.sleeps);
	sums_stat(f->sums, &o);
	record_add_seconds(&o, "up", clock_mono() - f->began);
	request_put_record(rq, &o);
	request_ok(rq, NULL);
}

static const struct verb verbs[] = {
	{"stat", "", "", on_stat, 0, "the hosts of this world, and what has gone between them"},
};

/* ---- life ---- */

static void on_signal(int signal, void *fabric)
{
	struct fabric *f = fabric;
	(void)signal;
	world_end(f->world);
	server_stop(f->server);
}

static void on_ended(void *fabric)
{
	struct fabric *f = fabric;
	server_stop(f->server);
}

/* Whoever started this world starts it anew. */
static void on_broken(void *fabric)
{
	struct fabric *f = fabric;
	if (f->broken++ == 0)
		on_signal(0, f);
}

static void on_closed(struct connection *c, void *fabric)
{
	struct fabric *f = fabric;
	sums_closed(f->sums, c);
}

static int open_fabric(struct fabric *f, struct error *err)
{
	if (sums_new(&f->sums, on_broken, f, err) != 0)
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
					.closed = on_closed,
					.signalled = on_signal};
	struct world_options world = {.host = f->options.host,
				      .version = f->options.version,
				      .ended = on_ended,
				      .owner = f};
	if (fs_join(f->path, sizeof f->path, f->options.run_dir, "fabric.sock", err) != 0)
		return -1;
	/* The lock first: a second fabricd of this host is no rank. */
	snprintf(f->greeting, sizeof f->greeting, "host=%s", f->options.host);
	if (server_new(&f->server, &server, err) != 0)
		return -1;
	world.base = server_base(f->server);
	if (world_open(&f->world, &world, err) != 0)
		return -1;
	return sums_enter(f->sums, f->world, err);
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
	int result = world_close(f->world, err);
	sums_leave(f->sums);
	server_free(f->server);
	sums_free(f->sums);
	if (f->broken)
		result = error_set(err, ERROR_OS, NULL, "out of memory");
	free(f);
	return result;
}

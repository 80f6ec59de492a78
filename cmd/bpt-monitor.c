/*
 * bpt-monitor(8): windows over the batch processing times of a job's nodes. A daemon on a socket,
 * or a filter over recorded records; what is measured, and how, is in lib/monitor.
 */
#include "cmd/daemon.h"
#include "cmd/filter.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/grow.h"
#include "monitor/monitor.h"
#include "record/recordlog.h"

#include <event2/event.h>
#include <math.h>
#include <unistd.h>

#define PROGRAM "bpt-monitor"
/* A clock that is off by less counts as right: its record may have been on its way for so long. */
#define BEHIND_SECONDS_MIN 0.5
#define IDLE_SECONDS 0 /* reporters may be silent for hours: an iteration can be that long */

struct daemon {
	struct monitor *monitor;
	struct server *server;
	struct request **watcher; /* deferred requests, in no order */
	size_t watcher_count, watcher_room;
	const char *prometheus;
	int prometheus_failed; /* said so already */
	struct recordlog log;
	int has_log;
	struct metrics_page page;
};

/* ---- requests ---- */

static void put_answer(const char *text, size_t len, void *rq)
{
	request_put(rq, text, len);
}

static void fail_request(struct request *rq, const struct error *err)
{
	if (err->code == ERROR_DATA)
		request_bad(rq, err);
	else
		request_err(rq, err->code == ERROR_TEMPFAIL ? "limit" : "internal", "%s",
			    err->text);
}

/* How far the clock of this connection's client is behind ours; kept as long as the connection is
 * open. */
static void on_clock(struct request *rq, void *owner)
{
	(void)owner;
	struct connection *c = request_connection(rq);
	struct error err = {0};
	double at, *behind = connection_user(c);
	if (record_real(request_record(rq), "at", 0, 1e15, &at, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!behind && !(behind = malloc(sizeof *behind))) {
		request_err(rq, "internal", "out of memory");
		return;
	}
	*behind = clock_epoch() - at;
	if (fabs(*behind) < BEHIND_SECONDS_MIN)
		*behind = 0;
	connection_set_user(c, behind);
	request_ok(rq, "behind=%.3f", *behind);
}

static void bpt_monitor_on_closed(struct connection *c, void *owner)
{
	(void)owner;
	free(connection_user(c));
}

/* A client that has sent no clock record uses this machine's clock, which may have been set since
 * we began. */
static double behind_us(struct request *rq)
{
	const double *said = connection_user(request_connection(rq));
	double set = clock_epoch() - clock_wall();
	return said ? *said : fabs(set) < BEHIND_SECONDS_MIN ? 0 : set;
}

/* bpt, device, event and info go into the monitor, and from there to the log and to all
 * watchers. */
static void bpt_monitor_on_record(struct request *rq, void *owner)
{
	struct daemon *d = owner;
	struct error err = {0};
	const struct record *r = request_record(rq);
	double at;
	if (monitor_add_from(d->monitor, r, clock_epoch(), behind_us(rq), &at, &err) !=
	    MONITOR_TAKEN) {
		fail_request(rq, &err);
		return;
	}
	if (d->has_log || d->watcher_count) {
		struct record_out *o = RECORD_BARE(r->type);
		record_add_fields(o, r, "at");
		record_add_seconds(o, "at", at);
		size_t len = record_end(o, NULL);
		if (d->has_log && len)
			recordlog_add(&d->log, o->data, len);
		for (size_t i = 0; len && i < d->watcher_count; i++)
			request_put(d->watcher[i], o->data, len);
	}
	request_ok(rq, NULL);
}

static void bpt_monitor_on_snapshot(struct request *rq, void *owner)
{
	struct daemon *d = owner;
	struct error err = {0};
	if (monitor_snapshot(d->monitor, clock_epoch(), put_answer, rq, &err) != 0)
		fail_request(rq, &err);
	else
		request_ok(rq, NULL);
}

/* role= is needed only where a worker and a server have the same id. */
static void on_history(struct request *rq, void *owner)
{
	struct daemon *d = owner;
	struct error err = {0};
	const struct record *r = request_record(rq);
	const char *id, *word = record_get(r, "role");
	uint64_t last = MONITOR_HISTORY_MAX;
	enum node_role role;
	if (record_id(r, "id", &id, &err) != 0 ||
	    record_u64_opt(r, "last", 1, UINT64_MAX, &last, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (word && node_role_in(r, &role, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	int found = -1;
	if (word)
		found = monitor_history(d->monitor, role, id, last, put_answer, rq);
	else if ((found = monitor_history(d->monitor, NODE_WORKER, id, last, put_answer, rq)) != 0)
		found = monitor_history(d->monitor, NODE_SERVER, id, last, put_answer, rq);
	if (found == 0)
		request_ok(rq, NULL);
	else
		request_err(rq, "unknown-node", "no node has the id %.64s", id);
}

static void watcher_left(struct request *rq, void *owner)
{
	struct daemon *d = owner;
	for (size_t i = 0; i < d->watcher_count; i++)
		if (d->watcher[i] == rq) {
			d->watcher[i] = d->watcher[--d->watcher_count];
			return;
		}
}

static void bpt_monitor_on_watch(struct request *rq, void *owner)
{
	struct daemon *d = owner;
	if (GROW(d->watcher, d->watcher_room, d->watcher_count + 1) != 0) {
		request_err(rq, "internal", "out of memory");
		return;
	}
	d->watcher[d->watcher_count++] = rq;
	request_defer(rq, watcher_left, d);
}

static const struct verb verbs[] = {
	{"bpt", "role id iter time size",
	 "at accum count compute comm wait cpu mem psi-cpu psi-mem throttled own-cpu "
	 "own-mem",
	 bpt_monitor_on_record, 0,
	 "a node's batch, or the mean of count batches: seconds without waiting for others, "
	 "samples"},
	{"device", "role id type speed saturation max", "at launch", bpt_monitor_on_record, 0,
	 "what a node has measured about its device"},
	{"event", "role id kind", "at status signal class meant", bpt_monitor_on_record, 0,
	 "a node's start, ready, exit, hung, kill, restart or left"},
	{"info", "name value", "at", bpt_monitor_on_record, 0,
	 "something from outside, such as pending"},
	{"clock", "at", "", on_clock, 0,
	 "at= of the next records on this connection is by this "
	 "clock"},
	{"snapshot", "", "", bpt_monitor_on_snapshot, 0, "the job, its nodes and infos as of now"},
	{"history", "id", "role last", on_history, 0, "the last reports of a node"},
	{"watch", "", "", bpt_monitor_on_watch, 0,
	 "each record taken, from now on, until the client closes"},
};

/* ---- files ---- */

static int write_page(struct daemon *d, struct error *err)
{
	metrics_clear(&d->page);
	if (monitor_prometheus(d->monitor, clock_epoch(), &d->page, err) != 0)
		return -1;
	return fs_publish(d->prometheus, d->page.text, d->page.len, err);
}

/* A failure is logged once; the job goes on, and writing is tried again. */
static void bpt_monitor_on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	struct daemon *d = arg;
	struct error err = {0};
	int failed = write_page(d, &err) != 0;
	if (failed && !d->prometheus_failed)
		log_say(LOG_LEVEL_ERROR, "%s: %s", err.place, err.text);
	d->prometheus_failed = failed;
}

static void bpt_monitor_on_hup(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	struct daemon *d = arg;
	struct error err = {0};
	if (d->has_log && recordlog_reopen(&d->log, &err) != 0)
		log_say(LOG_LEVEL_ERROR, "%s: %s", err.place, err.text);
}

static int flush_log(void *owner, struct error *err)
{
	struct daemon *d = owner;
	if (d->has_log && recordlog_flush(&d->log, err) != 0)
		log_say(LOG_LEVEL_ERROR, "%s: %s; records are lost until there is room", err->place,
			err->text);
	return 0;
}

/* ---- the two ways to run ---- */

struct settings {
	const char *socket, *prometheus, *log;
	double window_short, window_long, every;
	int filter, strict;
};

static int bpt_monitor_serve(struct daemon *d, const struct settings *s, struct error *err)
{
	struct event *timer = NULL, *hup = NULL;
	struct event_base *base = server_base(d->server);
	const struct timeval every = clock_timeval(s->every);
	int result = -1;
	/* Each time it is told to, it opens its log anew. */
	const char *log = s->log && strcmp(s->log, "-") == 0 ? NULL : s->log;
	cmd_confine(&(struct confine_ask){.write = {s->log && !log ? "/dev/stdout" : NULL},
					  .replace = {s->socket, s->prometheus, log},
					  .sockets = CONFINE_UNIX_SOCKETS});
	if (daemon_listen(d->server, err) != 0)
		return -1;
	hup = evsignal_new(base, SIGHUP, bpt_monitor_on_hup, d);
	timer = event_new(base, -1, EV_PERSIST, bpt_monitor_on_timer, d);
	if (!hup || !timer || event_add(hup, NULL) != 0 ||
	    (s->prometheus && event_add(timer, &every) != 0))
		error_set(err, ERROR_OS, NULL, "out of memory for events");
	else
		result = daemon_run(d->server, err);
	if (result == 0 && s->prometheus)
		result = write_page(d, err);
	if (hup)
		event_free(hup);
	if (timer)
		event_free(timer);
	return result;
}

static int run_daemon(const struct settings *s, struct monitor *m, struct error *err)
{
	struct daemon d = {.monitor = m, .prometheus = s->prometheus};
	const struct server_options options = {.path = s->socket,
					       .role = PROGRAM,
					       .verbs = verbs,
					       .verb_count = sizeof verbs / sizeof *verbs,
					       .one_way = "bpt device event info clock",
					       .owner = &d,
					       .flush = flush_log,
					       .closed = bpt_monitor_on_closed,
					       .idle_seconds = IDLE_SECONDS};
	int result = -1;
	if (server_new(&d.server, &options, err) != 0)
		return -1;
	if (s->log) {
		const char *path = strcmp(s->log, "-") == 0 ? "/dev/stdout" : s->log;
		d.has_log = recordlog_open(&d.log, path, err) == 0;
	}
	/* If the page can't be written, say so now; otherwise people would notice it only by an old
	 * page. */
	if ((!s->log || d.has_log) && (!s->prometheus || write_page(&d, err) == 0))
		result = bpt_monitor_serve(&d, s, err);
	server_free(d.server);
	if (d.has_log) {
		struct error late = {0};
		if (recordlog_flush(&d.log, &late) != 0 && result == 0) {
			*err = late;
			result = -1;
		}
		recordlog_close(&d.log);
	}
	free(d.watcher);
	metrics_free(&d.page);
	return result;
}

static void put_stdout(const char *text, size_t len, void *arg)
{
	(void)arg;
	fwrite(text, 1, len, stdout);
}

static int bpt_monitor_take_line(struct monitor *m, const struct record *r, const char *place,
				 struct filter_unknown *unknown, struct error *err)
{
	if (record_is(r, "snapshot"))
		return monitor_snapshot(m, monitor_latest(m), put_stdout, NULL, err);
	int result = monitor_add(m, r, NAN, NULL, err);
	if (result == MONITOR_UNKNOWN)
		return filter_unknown(unknown, r, place, err);
	if (result < 0 && err->code == ERROR_TEMPFAIL) /* here it is the input's fault */
		err->code = ERROR_DATA;
	return result < 0 ? error_wrap(err, place) : 0;
}

static int run_filter(const struct settings *s, struct monitor *m, struct error *err)
{
	static struct record r;
	struct filter_unknown unknown = {.program = PROGRAM, .strict = s->strict};
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	if (!in)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	cmd_confine(&(struct confine_ask){.sockets = CONFINE_NO_SOCKETS});
	int got, result = 0;
	while (result == 0 && (got = record_read(in, &r, err)) != RECORD_END)
		if (got != RECORD_BLANK)
			result = got < 0 ? -1
					 : bpt_monitor_take_line(m, &r, record_reader_place(in),
								 &unknown, err);
	record_reader_free(in);
	if (result == 0)
		result = monitor_snapshot(m, monitor_latest(m), put_stdout, NULL, err);
	return result;
}

static int bpt_monitor_check_settings(const struct settings *s, struct error *err)
{
	if (s->window_short > s->window_long)
		return error_set(err, ERROR_USAGE, "--short", "%g is longer than --long %g",
				 s->window_short, s->window_long);
	if (!s->filter && !s->socket)
		return error_set(err, ERROR_USAGE, NULL, "needs -s SOCKET or --filter");
	if (s->filter && (s->socket || s->prometheus || s->log))
		return error_set(err, ERROR_USAGE, "--filter",
				 "takes neither -s, --prometheus nor --log");
	if (!s->filter && s->strict)
		return error_set(err, ERROR_USAGE, "--strict", "is for --filter");
	return 0;
}

int main(int argc, char **argv)
{
	struct settings s = {.window_short = 300, .window_long = 600, .every = 5};
	const struct option_row rows[] = {
		{.name = "socket", .letter = 's', .kind = OPTION_TEXT, .target = &s.socket,
		 .arg = "SOCKET", .help = "serve here"},
		{.name = "filter", .kind = OPTION_FLAG, .target = &s.filter,
		 .help = "records on stdin, snapshot on stdout"},
		{.name = "short", .kind = OPTION_SECONDS, .target = &s.window_short,
		 .arg = "SECONDS", .help = "short window", .min = 0.001, .max = 1e9},
		{.name = "long", .kind = OPTION_SECONDS, .target = &s.window_long, .arg = "SECONDS",
		 .help = "long window", .min = 0.001, .max = 1e9},
		{.name = "prometheus", .kind = OPTION_TEXT, .target = &s.prometheus, .arg = "FILE",
		 .help = "write metrics to FILE, for Prometheus"},
		{.name = "every", .kind = OPTION_SECONDS, .target = &s.every, .arg = "SECONDS",
		 .help = "how often --prometheus writes", .min = 0.1, .max = 86400},
		{.name = "log", .kind = OPTION_TEXT, .target = &s.log, .arg = "FILE",
		 .help = "append each record taken; SIGHUP opens it again"},
		{.name = "strict", .kind = OPTION_FLAG, .target = &s.strict,
		 .help = "--filter: unknown record types are errors"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "-s SOCKET [--short SECONDS] [--long SECONDS] [--prometheus FILE] "
			    "[--log FILE]\n"
			    "--filter [--short SECONDS] [--long SECONDS] < records > snapshot",
		.about = "Keeps windows over batch processing times, node states and information "
			 "from outside.",
		.rows = rows,
		.epilogue = DAEMON_CLIENTS};
	struct error err = {0};
	struct monitor *m = NULL;
	int status = 0;
	loop_begin(PROGRAM);
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	if (bpt_monitor_check_settings(&s, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	if (monitor_new(&m, s.window_short, s.window_long, &err) != 0 ||
	    (s.filter ? run_filter(&s, m, &err) : run_daemon(&s, m, &err)) != 0)
		status = cmd_fail(PROGRAM, &err);
	monitor_free(m);
	return cmd_end(PROGRAM, status);
}

/* service: see service.h. It has the queue and the journal, and decides when changes go to the
 * disk. Requests are in verbs.c, reads.c, moves.c and files.c, answers that are held back in
 * wait.c. */
#include "shard/service_internal.h"

#include "base/boot.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "record/sealed.h"
#include "shard/scan.h"
#include "wire/timer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GATHER_GAP 4.0   /* gathering ends after 1/4 of a commit's time without a request */
#define GATHER_LIMIT 2.0 /* and in any case after 1/2 of a commit's time */
#define SYNC_SECONDS_MAX 0.001 /* a longer commit was held up by others */
/* Between attempts to write down the end of a lease on a full disk. */
#define RETRY_SECONDS 1.0

void service_clock(struct service *s)
{
	if (!journal_is_pending(s->journal))
		queue_clock(s->queue, fields_milliseconds(clock_epoch() + s->set_back),
			    clock_mono());
}

/* The clock may have been set back since the journal's last line: the queue's time must not go
 * back. */
static void follow_clock(struct service *s)
{
	struct queue_stat stat;
	queue_stat(s->queue, &stat);
	double last = fmax(stat.at, fmax(stat.first_at, stat.last_at));
	s->set_back = fmax(last - clock_epoch(), 0);
}

void service_set_fatal(struct service *s, const struct error *err)
{
	if (s->is_fatal)
		return;
	s->is_fatal = 1;
	s->fatal = *err;
	if (s->fatal.code != ERROR_OS)
		s->fatal.code = ERROR_IO;
}

int service_is_whole(struct service *s, struct request *rq)
{
	if (!s->is_lost)
		return 1;
	request_err(rq, "boot",
		    "the machine was started anew since boot %s: lines may be missing, load a "
		    "saved state",
		    queue_loose(s->queue));
	return 0;
}

int service_is_here(const struct service *s, const struct record *r)
{
	const char *boot = record_get(r, "boot");
	return boot && s->boot[0] && strcmp(boot, s->boot) == 0 && s->options.sync != JOURNAL_OFF;
}

int service_make_room(struct service *s, size_t bytes, struct error *err)
{
	service_clock(s);
	if (s->is_lost)
		return error_set(err, ERROR_TEMPFAIL, journal_path(s->journal),
				 "lines may be missing: a saved state must be loaded");
	if (journal_reserve(s->journal, bytes, err) != 0) {
		if (journal_is_broken(s->journal)) {
			service_set_fatal(s, err);
			return -1;
		}
		if (!s->was_full)
			log_say(LOG_LEVEL_ERROR,
				"%s: %s; changes are refused until there is room", err->place,
				err->text);
		s->was_full = 1;
		return -1;
	}
	if (s->was_full)
		log_say(LOG_LEVEL_INFO, "%s: there is room again", journal_path(s->journal));
	s->was_full = 0;
	return 0;
}

int service_may_change(struct service *s, struct request *rq, size_t bytes)
{
	struct error err;
	if (!service_is_whole(s, rq))
		return 0;
	if (service_make_room(s, bytes, &err) == 0)
		return 1;
	request_err(rq, "journal", "%s: %s", err.place, err.text);
	return 0;
}

static void count_client(struct service *s, struct connection *c)
{
	uintptr_t before = (uintptr_t)connection_user(c);
	if (before == s->commit)
		return;
	s->clients++;
	s->clients_back += before != 0 && before == s->commit - 1;
	connection_set_user(c, (void *)s->commit);
}

/* Puts changes on disk; or gives them to the kernel, if that is enough. */
static int service_write_down(struct service *s, struct error *err)
{
	int is_firm = s->is_firm;
	s->is_firm = 0;
	return is_firm ? journal_commit(s->journal, err) : journal_write(s->journal, err);
}

void service_changed(struct service *s, struct request *rq)
{
	struct error err;
	s->is_stirred = 1;
	s->is_firm |= !s->is_loose;
	if (rq && !s->is_loose)
		count_client(s, request_connection(rq));
	if (s->options.sync == JOURNAL_ALWAYS && service_write_down(s, &err) != 0)
		/* The flush hook ends the server before an answer is sent. */
		service_set_fatal(s, &err);
}

/* ---- queue and journal ---- */

static void log_change(void *service, const char *line, size_t len)
{
	struct service *s = service;
	if (!journal_is_pending(s->journal)) {
		char mark[SEALED_MAX];
		struct record_out o;
		struct queue_stat stat;
		queue_stat(s->queue, &stat);
		record_begin(&o, mark, sizeof mark, SCAN_MARK);
		fields_add_time(&o, "at", stat.at);
		journal_add(s->journal, o.data, o.len);
	}
	journal_add(s->journal, line, len);
}

void service_write_state(void *service, void (*line)(void *arg, const char *line, size_t len),
			 void *arg)
{
	queue_write(((struct service *)service)->queue, line, arg);
}

/* Whether lines are of an earlier boot of the machine. */
static int service_is_lost(const struct service *s, const char *boot)
{
	return boot[0] && strcmp(boot, s->boot) != 0;
}

void service_adopt(struct service *s, struct queue *q)
{
	queue_free(s->queue);
	s->queue = q;
	queue_set_log(q, log_change, s);
	queue_set_watch(q, watch_change, s);
	number_format_real(queue_lease(q), s->lease_text);
	s->is_lost = service_is_lost(s, queue_loose(q));
	s->is_stirred = 1;
}

struct replay {
	const struct service *service;
	struct queue_loader *loader;
};

static int replay_line(void *replay, const char *line, size_t len, struct error *err)
{
	struct replay *r = replay;
	int taken = queue_loader_line(r->loader, line, len, err);
	if (taken >= 0 && service_is_lost(r->service, queue_loader_loose(r->loader)))
		taken |= SCAN_LOOSE;
	return taken;
}

static int replay(struct service *s, struct queue **q, struct error *err)
{
	struct queue_loader *loader = queue_loader_new(NULL);
	struct replay r = {s, loader};
	if (!loader)
		return error_set(err, ERROR_OS, s->options.dir, "out of memory");
	int result = journal_replay(s->journal, replay_line, &r, err);
	if (result != 0)
		queue_loader_free(loader);
	else if ((result = queue_loader_finish(loader, q, err)) != 0)
		error_wrap(err, journal_path(s->journal));
	if (result != 0)
		journal_name_older(s->journal, err);
	return result;
}

/* Compares the command line with the journal. */
static int check_given(const struct service *s, const struct queue *q, struct error *err)
{
	const struct queue_parameters *have = queue_parameters(q);
	const struct queue_parameters *want = &s->options.parameters;
	const struct service_given *given = &s->options.given;
	const struct {
		int is_given;
		const char *name;
		uint64_t have, want;
	} numbers[] = {
		{given->samples, "-n", have->samples, want->samples},
		{given->batches, "-m", have->batches, want->batches},
		{given->epochs, "-e", have->epochs, want->epochs},
		{given->seed, "--seed", have->seed, want->seed},
		{given->apart, "--apart", have->apart, want->apart},
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (numbers[i].is_given && numbers[i].have != numbers[i].want)
			return error_set(err, ERROR_CONFIG, journal_path(s->journal),
					 "is of %s %llu, not %llu", numbers[i].name,
					 (unsigned long long)numbers[i].have,
					 (unsigned long long)numbers[i].want);
	if (given->shuffle && have->shuffle != want->shuffle)
		return error_set(err, ERROR_CONFIG, journal_path(s->journal),
				 "is of --shuffle %s, not %s", queue_shuffle_name(have->shuffle),
				 queue_shuffle_name(want->shuffle));
	if (given->partitions && !partitions_same(have->partition, have->partitions,
						  want->partition, want->partitions))
		return error_set(err, ERROR_CONFIG, journal_path(s->journal),
				 "is of other --partitions");
	return 0;
}

static int check_migrate(const struct service *s, const struct queue *q, struct error *err)
{
	if (!s->options.given.migrate || queue_own(q))
		return 0;
	return error_set(err, ERROR_USAGE, "--migrate", "is for --partitions");
}

/* Begins a new journal, with the state of the old one if there is one: nothing is acknowledged that
 * is only in the kernel's memory. */
static int service_begin(struct service *s, struct queue *q, struct error *err)
{
	service_adopt(s, q);
	follow_clock(s);
	service_clock(s);
	queue_restart_leases(q);
	return journal_begin(s->journal, service_write_state, s, err);
}

static void service_set(struct queue *q, uint64_t retries, double lease)
{
	struct queue_change c = {.retries = retries, .lease = lease};
	queue_make(q, queue_kind("set"), &c, NULL);
}

static void set_migrate(struct queue *q, double threshold)
{
	struct queue_change c = {.threshold = threshold};
	queue_make(q, queue_kind("migrate"), &c, NULL);
}

/* Changes what the command line gives. In a new journal this is part of the state. */
static void service_set_given(struct service *s, struct queue *q)
{
	const struct service_given *given = &s->options.given;
	service_set(q, given->retries ? s->options.retries : queue_retries(q),
		    given->lease ? s->options.lease : queue_lease(q));
	if (given->migrate)
		set_migrate(q, s->options.migrate);
}

/* A full disk is no reason not to answer: the old journal stays in use, as far as it has room. */
static int service_keep(struct service *s, struct error *err)
{
	const struct service_given *given = &s->options.given;
	if (journal_is_broken(s->journal))
		return -1;
	log_say(LOG_LEVEL_WARNING, "%s: %s: the old one goes on", err->place, err->text);
	if (journal_keep(s->journal, err) != 0)
		return -1;
	if (!given->retries && !given->lease && !given->migrate)
		return 0;
	if (journal_reserve(s->journal, 3 * JOURNAL_LINE_BYTES, err) != 0)
		return -1;
	service_set_given(s, s->queue);
	return journal_commit(s->journal, err);
}

static int service_go_on(struct service *s, struct error *err)
{
	struct queue *q = NULL;
	if (replay(s, &q, err) != 0)
		return -1;
	if (service_is_lost(s, queue_loose(q)))
		log_say(LOG_LEVEL_WARNING,
			"%s: of boot %s of the machine: settles may be missing, and all changes "
			"are refused until a saved state is loaded",
			journal_path(s->journal), queue_loose(q));
	if (check_given(s, q, err) != 0 || check_migrate(s, q, err) != 0) {
		queue_free(q);
		return -1;
	}
	service_set_given(s, q);
	return service_begin(s, q, err) == 0 ? 0 : service_keep(s, err);
}

static int begin_new(struct service *s, struct error *err)
{
	struct queue *q;
	if (!s->options.given.samples)
		return error_set(err, ERROR_USAGE, "-n", "is needed, the number of rows: %s holds no journal to go on with",
				 s->options.dir);
	if (queue_new(&q, &s->options.parameters, err) != 0)
		return -1;
	if (check_migrate(s, q, err) != 0) {
		queue_free(q);
		return -1;
	}
	service_set(q, s->options.retries, s->options.lease);
	set_migrate(q, s->options.migrate);
	return service_begin(s, q, err);
}

/* ---- leases ---- */

static void service_arm_lease(struct service *s)
{
	double end;
	if (s->is_lost || timer_is_set(s->lease_timer) || !queue_next_expiry(s->queue, &end))
		return;
	double left = end - clock_mono();
	if (left <= 0) /* there was no room to write its end down */
		left = s->was_full ? RETRY_SECONDS : 0.001;
	if (left > WAIT_SECONDS_MAX)
		left = WAIT_SECONDS_MAX;
	timer_set(s->lease_timer, left);
}

static void on_lease(void *service)
{
	struct service *s = service;
	struct error err;
	while (service_make_room(s, JOURNAL_LINE_BYTES, &err) == 0 && queue_expire(s->queue, 1) > 0)
		service_changed(s, NULL);
	service_arm_lease(s);
}

/* ---- a journal that has grown long ---- */

static void end_compaction(struct service *s)
{
	struct error err;
	if (s->compaction)
		event_free(s->compaction);
	s->compaction = NULL;
	if (journal_compact_end(s->journal, &err) == 0)
		return;
	if (journal_is_broken(s->journal))
		service_set_fatal(s, &err);
	else
		log_say(LOG_LEVEL_WARNING, "%s: %s; the journal goes on as it is", err.place,
			err.text);
}

static void on_compacted(evutil_socket_t fd, short what, void *service)
{
	(void)fd;
	(void)what;
	end_compaction(service);
}

static void service_compact(struct service *s)
{
	struct error err;
	int fd;
	if (journal_compact(s->journal, service_write_state, s, &fd, &err) != 0) {
		log_say(LOG_LEVEL_WARNING, "%s: %s", err.place, err.text);
		return;
	}
	s->compaction = event_new(server_base(s->server), fd, EV_READ, on_compacted, s);
	if (!s->compaction || event_add(s->compaction, NULL) != 0)
		end_compaction(s); /* no memory for an event: wait for the child here */
}

/* ---- turns ---- */

/* Clients that the last commit answered send their next requests soon, one after the other. It pays
 * to wait for all of them, for a fraction of the time of a commit, and then to make one commit for
 * all. A client that is alone is already back. */
static void service_gather(struct service *s)
{
	double begin = clock_mono(), last = begin, now = begin;
	double gap = s->sync_seconds / GATHER_GAP, limit = s->sync_seconds / GATHER_LIMIT;
	while (s->clients_back < s->clients_before && now - last <= gap && now - begin <= limit) {
		size_t before = s->clients;
		server_gather(s->server);
		now = clock_mono();
		if (s->clients != before)
			last = now;
	}
}

static int service_commit(struct service *s, struct error *err)
{
	if (s->options.sync != JOURNAL_GROUP || !s->is_firm || !journal_is_pending(s->journal))
		return service_write_down(s, err);
	double begin = clock_mono();
	int result = service_write_down(s, err);
	double took = clock_mono() - begin;
	if (took > SYNC_SECONDS_MAX)
		took = SYNC_SECONDS_MAX;
	s->sync_seconds += (took - s->sync_seconds) / 8;
	s->commit++;
	s->clients_before = s->clients;
	s->clients = s->clients_back = 0;
	return result;
}

static int service_flush(void *service, struct error *err)
{
	struct service *s = service;
	struct error why;
	if (s->options.sync == JOURNAL_GROUP && s->is_firm && journal_is_pending(s->journal))
		service_gather(s);
	if (s->is_stirred) {
		moves_plan(s);
		wait_serve(s);
	}
	if (!s->is_fatal && service_commit(s, &why) != 0)
		service_set_fatal(s, &why);
	if (s->is_fatal) {
		*err = s->fatal;
		return -1;
	}
	service_arm_lease(s);
	if (journal_is_long(s->journal))
		service_compact(s);
	return 0;
}

/* The row of a verb is in the file of its function. */
static size_t collect_verbs(struct service *s)
{
	static const struct verb *const tables[] = {change_verbs, read_verbs, move_verbs,
						    file_verbs};
	size_t count = 0;
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const struct verb *v = tables[i]; v->name; v++) {
			assert(count < VERBS_MAX);
			s->verbs[count++] = *v;
		}
	return count;
}

static int service_make_server(struct service *s, struct error *err)
{
	const struct server_options options = {
		.path = s->options.socket,
		.role = "shardd",
		.verbs = s->verbs,
		.verb_count = collect_verbs(s),
		.owner = s,
		.flush = service_flush,
	};
	if (server_new(&s->server, &options, err) != 0)
		return -1;
	s->lease_timer = timer_new(server_base(s->server), on_lease, s);
	return s->lease_timer ? 0 : error_set(err, ERROR_OS, s->options.socket, "out of memory");
}

int service_new(struct service **out, const struct service_options *options, struct error *err)
{
	struct service *s = calloc(1, sizeof *s);
	if (!s)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->options = *options;
	s->commit = 1;
	boot_id(s->boot);
	if (journal_open(&s->journal, options->dir, options->sync, options->compact_bytes, err) ==
		    0 &&
	    service_make_server(s, err) == 0 &&
	    (journal_exists(s->journal) ? service_go_on(s, err) : begin_new(s, err)) == 0) {
		*out = s;
		return 0;
	}
	service_free(s);
	return -1;
}

struct server *service_server(const struct service *s)
{
	return s->server;
}

int service_end(struct service *s, struct error *err)
{
	if (!queue_loose(s->queue)[0] || s->is_lost || s->options.sync == JOURNAL_OFF)
		return 0;
	if (service_make_room(s, JOURNAL_LINE_BYTES, err) != 0)
		/* No line: `loose` says too much then, which does no harm. */
		return journal_is_broken(s->journal) ? -1 : 0;
	struct queue_change c = {0};
	queue_make(s->queue, queue_kind("loose"), &c, NULL);
	return journal_commit(s->journal, err);
}

void service_free(struct service *s)
{
	if (!s)
		return;
	if (s->compaction)
		event_free(s->compaction);
	timer_free(s->lease_timer);
	server_free(s->server);
	wait_free(s);
	journal_close(s->journal);
	queue_free(s->queue);
	free(s->hello);
	free(s);
}

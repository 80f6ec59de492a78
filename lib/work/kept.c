/* kept: see kept.h. */
#include "work/kept.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "wire/call.h"
#include "work/kept_file.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GREETING_SECONDS 2.0
#define ANSWER_SECONDS 30.0
#define LOOK_MS 5000     /* between two looks for files of workers that have died */
#define AWAY_SECONDS 5.0 /* a part whose socket is not there for so long does not come back */
#define PAUSE_MS 10      /* between attempts to connect; grows to */
#define PAUSE_MS_MAX 250

struct kept {
	char *path, *dir;
	struct kept_file *file;
	pthread_t thread;
	int wake;         /* readable: the thread is to end; -1: there is no thread */
	atomic_int known; /* the part knows that we keep */
	uint64_t refused;
};

/* ---- in the thread ---- */

/* Waits for the part, if there is a connection, or for the end. 1: it is to end. */
static int kept_wait(const struct kept *k, const struct call *c, int ms)
{
	struct pollfd fd[2] = {{.fd = k->wake, .events = POLLIN},
			       {.fd = c ? call_fd(c) : -1, .events = POLLIN}};

	(void)poll(fd, 2, ms);
	return fd[0].revents != 0;
}

/* A copy goes at a time, so that the worker never waits for this. */
static int send_all(struct kept_file *f, struct call *c, struct record *r, struct error *err)
{
	struct kept_push q;
	uint64_t sequence = 0;
	int got;

	while ((got = kept_file_get(f, sequence, &q, err)) > 0) {
		int rc = call_send(c, q.text, q.head, q.text + q.head, q.bytes, err);
		free(q.text);
		if (rc != 0 || call_receive(c, r, err) != 0)
			return -1;
		sequence = q.sequence + 1;
	}
	return got;
}

/* keep or release, of the owner of the file. */
static int kept_ask(const struct kept_file *f, const char *verb, struct call *c, struct record *r,
		    struct error *err)
{
	const struct kept_owner *o = kept_file_owner(f);

	if (call_record(c,
			RECORD(verb, F("worker", o->worker), F("generation", o->generation),
			       F("incarnation", o->incarnation), F("pid", (uint64_t)getpid())),
			NULL, 0, err) != 0)
		return -1;
	return call_receive(c, r, err);
}

/* Below 0: the part is of an earlier incarnation than the file; 0: of the same. */
static int kept_age(const struct kept_file *f, const struct record *greeting)
{
	uint64_t is = 0, was = kept_file_owner(f)->incarnation;

	if (record_u64(greeting, "incarnation", 0, UINT64_MAX, &is, NULL) != 0)
		return -1;
	return is < was ? -1 : is > was;
}

/* As long as the connection is there. 1: it is to end. */
static int kept_speak(struct kept *k, struct call *c, struct record *r)
{
	struct error err;
	int end = 0;

	if (kept_age(k->file, call_greeting(c)) != 0 || !call_greets_with(c, "keep"))
		return kept_wait(k, NULL, PAUSE_MS_MAX);
	if (call_greets_with(c, "behind") && send_all(k->file, c, r, &err) != 0)
		return 0;
	if (kept_ask(k->file, "keep", c, r, &err) != 0 || !record_is(r, "keeps"))
		return kept_wait(k, NULL, PAUSE_MS_MAX);
	k->known = 1;
	while (!end && call_receive_within(c, r, 0, &err) != 0 && err.code == ERROR_TEMPFAIL) {
		kept_take_over(k->dir, k->path);
		end = kept_wait(k, c, LOOK_MS);
	}
	k->known = 0;
	return end;
}

static void *kept_main(void *keep)
{
	struct kept *k = keep;
	struct record *r = malloc(sizeof *r);
	int end = !r, pause = PAUSE_MS;
	struct error err;

	while (!end) {
		struct call *c = NULL;
		if (call_open(&c, k->path, 0, GREETING_SECONDS, &err) == 0) {
			call_set_answer(c, ANSWER_SECONDS);
			end = kept_speak(k, c, r);
			call_close(c);
			pause = PAUSE_MS;
		} else {
			end = kept_wait(k, NULL, pause);
			pause = pause * 2 < PAUSE_MS_MAX ? pause * 2 : PAUSE_MS_MAX;
		}
	}
	free(r);
	return NULL;
}

/* ---- what is not needed any more ---- */

/* 0: the part needs nothing of it. */
static int kept_ask_release(struct kept_file *f, struct call *c, struct record *r)
{
	int age = kept_age(f, call_greeting(c));
	struct error err;

	if (age != 0)
		return age < 0 ? -1 : 0;
	if (call_greets_with(c, "behind") && send_all(f, c, r, &err) != 0)
		return -1;
	call_set_answer(c, ANSWER_SECONDS);
	return kept_ask(f, "release", c, r, &err);
}

void kept_release(struct kept *k)
{
	double deadline = clock_mono() + ANSWER_SECONDS, gone = clock_mono() + AWAY_SECONDS;
	struct record *r = malloc(sizeof *r);
	int done = 0;
	struct error err;

	while (r && !done && kept_file_bytes(k->file) > 0 && clock_mono() < deadline &&
	       clock_mono() < gone) {
		struct call *c = NULL;
		if (call_open(&c, k->path, 0, GREETING_SECONDS, &err) == 0) {
			done = kept_ask_release(k->file, c, r) == 0;
			gone = clock_mono() + AWAY_SECONDS;
		} else if (err.code != ERROR_UNAVAILABLE)
			gone = clock_mono() + AWAY_SECONDS; /* it is there, and stands still */
		call_close(c);
		if (!done)
			clock_sleep(PAUSE_MS * 1e-3);
	}
	if (done)
		kept_file_until(k->file, UINT64_MAX);
	free(r);
}

/* Forgets what has no name; a file that the part may still need stays, for whoever adopts it. */
static void kept_free(struct kept *k)
{
	uint64_t one = 1;

	if (!k)
		return;
	if (k->wake >= 0 && write(k->wake, &one, sizeof one) != sizeof one)
		log_say(LOG_LEVEL_WARNING, "an eventfd can't be written");
	if (k->wake >= 0) {
		pthread_join(k->thread, NULL);
		close(k->wake);
	}
	kept_file_close(k->file, kept_file_bytes(k->file) == 0);
	free(k->path);
	free(k->dir);
	free(k);
}

static void *kept_retire_main(void *kept)
{
	kept_release(kept);
	kept_free(kept);
	return NULL;
}

/* 0: another thread does it. */
static int kept_retire_aside(struct kept *k)
{
	pthread_t thread;

	if (kept_file_bytes(k->file) == 0 || thread_start(&thread, kept_retire_main, k) != 0)
		return -1;
	pthread_detach(thread);
	return 0;
}

void kept_retire(struct kept *k)
{
	if (k && kept_retire_aside(k) != 0)
		kept_free(k);
}

static struct kept *kept_alloc(const char *path, const char *dir)
{
	struct kept *k = calloc(1, sizeof *k);

	if (!k)
		return NULL;
	k->wake = -1;
	k->path = strdup(path);
	k->dir = dir ? strdup(dir) : NULL;
	if (k->path && (k->dir || !dir))
		return k;
	free(k->path);
	free(k->dir);
	free(k);
	return NULL;
}

void kept_take_over(const char *dir, const char *path)
{
	struct kept_file *f;

	while (dir && kept_file_adopt(&f, dir, path)) {
		struct kept *k = kept_alloc(path, NULL);
		size_t bytes = kept_file_bytes(f);
		if (!k) {
			kept_file_close(f, 0);
			return;
		}
		k->file = f;
		if (bytes > 0)
			log_say(LOG_LEVEL_INFO,
				"%s: worker %s has died; the %zu bytes that it kept are at hand",
				path, kept_file_owner(f)->worker, bytes);
		if (kept_retire_aside(k) == 0)
			continue;
		kept_free(k);
		if (bytes > 0)
			return; /* without a thread it would be found again and again */
	}
}

/* ---- in the worker ---- */

int kept_new(struct kept **out, const struct kept_options *options, struct error *err)
{
	struct kept_owner owner = {.generation = options->generation,
				   .incarnation = options->incarnation};
	struct kept *k = kept_alloc(options->path, options->dir);

	if (!k)
		return error_set(err, ERROR_OS, options->path, "out of memory");
	snprintf(owner.part, sizeof owner.part, "%s", options->path);
	snprintf(owner.worker, sizeof owner.worker, "%s", options->worker);
	if (k->dir && kept_file_new(&k->file, &owner, k->dir, err) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s: what this worker keeps is lost if it dies",
			err->place, err->text);
	if (!k->file && kept_file_new(&k->file, &owner, NULL, err) != 0) {
		kept_free(k);
		return -1;
	}
	int wake = eventfd(0, EFD_CLOEXEC);
	k->wake = wake;
	if (wake >= 0 && thread_start(&k->thread, kept_main, k) == 0) {
		*out = k;
		return 0;
	}
	k->wake = -1;
	if (wake >= 0)
		close(wake);
	kept_free(k);
	return error_set(err, ERROR_OS, options->path, "no thread can keep pushes");
}

int kept_is_full(const struct kept *k, size_t bytes)
{
	return kept_file_bytes(k->file) + bytes > KEPT_FILE_MAX;
}

int kept_add(struct kept *k, const char *line, size_t len, uint64_t sequence, const void *payload,
	     size_t bytes)
{
	struct error err = {0};

	if (!k->known || bytes == 0 || kept_is_full(k, bytes))
		return 0;
	if (kept_file_add(k->file, line, len, sequence, payload, bytes, &err) == 0)
		return 1;
	if (log_is_worth(++k->refused))
		log_say(LOG_LEVEL_WARNING,
			"%s: a push can't be kept, so the standby gets it at once: %s; %llu so far",
			err.place, err.text, (unsigned long long)k->refused);
	return 0;
}

void kept_until(struct kept *k, uint64_t sequence)
{
	kept_file_until(k->file, sequence);
}

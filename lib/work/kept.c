/* kept: see kept.h. */
#include "work/kept.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "wire/call.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GREETING_SECONDS 2.0
#define ANSWER_SECONDS 30.0
#define AWAY_SECONDS 5.0 /* a part whose socket is not there for so long does not come back */
#define PAUSE_MS 10      /* between attempts to connect; grows to */
#define PAUSE_MS_MAX 250

struct kept_push {
	struct kept_push *next;
	uint64_t sequence;
	size_t head, bytes;
	char text[]; /* request and payload */
};

struct kept {
	char *path, *worker;
	uint64_t generation, incarnation;
	pthread_t thread;
	int wake; /* readable: the thread is to end */
	pthread_mutex_t lock;
	/* with the lock */
	int known; /* the part knows that we keep */
	struct kept_push *first, **end;
	size_t bytes;
};

static void kept_drop_first(struct kept *k)
{
	struct kept_push *q = k->first;

	k->first = q->next;
	if (!k->first)
		k->end = &k->first;
	k->bytes -= q->head + q->bytes;
	free(q);
}

/* ---- in the thread ---- */

/* Waits for the part, if there is a connection, or for the end. 1: it is to end. */
static int kept_wait(const struct kept *k, const struct call *c, int ms)
{
	struct pollfd fd[2] = {{.fd = k->wake, .events = POLLIN},
			       {.fd = c ? call_fd(c) : -1, .events = POLLIN}};

	(void)poll(fd, 2, ms);
	return fd[0].revents != 0;
}

static int kept_ask(struct call *c, const char *text, size_t head, size_t bytes, struct record *r,
		    struct error *err)
{
	if (call_send(c, text, head, text + head, bytes, err) != 0)
		return -1;
	return call_receive(c, r, err);
}

/* The worker waits meanwhile, if it wants to push. */
static int send_all(struct kept *k, struct call *c, struct record *r, struct error *err)
{
	int rc = 0;

	pthread_mutex_lock(&k->lock);
	for (const struct kept_push *q = k->first; q && rc == 0; q = q->next)
		rc = kept_ask(c, q->text, q->head, q->bytes, r, err);
	pthread_mutex_unlock(&k->lock);
	return rc;
}

static void kept_known(struct kept *k, int known)
{
	pthread_mutex_lock(&k->lock);
	k->known = known;
	pthread_mutex_unlock(&k->lock);
}

static int kept_says(const struct record *greeting, const char *key)
{
	uint64_t value = 0;

	return record_u64_opt(greeting, key, 0, 1, &value, NULL) == 0 && value;
}

/* As long as the connection is there. 1: it is to end. */
static int kept_speak(struct kept *k, struct call *c, struct record *r)
{
	const struct record *greeting = call_greeting(c);
	uint64_t incarnation = 0;
	struct error err;
	int end = 0;

	if (record_u64(greeting, "incarnation", 0, UINT64_MAX, &incarnation, &err) != 0 ||
	    incarnation != k->incarnation || !kept_says(greeting, "keep"))
		return kept_wait(k, NULL, PAUSE_MS_MAX);
	if (kept_says(greeting, "behind") && send_all(k, c, r, &err) != 0)
		return 0;
	if (call_record(c,
			RECORD("keep", F("worker", k->worker), F("generation", k->generation),
			       F("incarnation", k->incarnation), F("pid", (uint64_t)getpid())),
			NULL, 0, &err) != 0 ||
	    call_receive(c, r, &err) != 0 || !record_is(r, "keeps"))
		return kept_wait(k, NULL, PAUSE_MS_MAX);
	kept_known(k, 1);
	while (!end && call_receive_within(c, r, 0, &err) != 0 && err.code == ERROR_TEMPFAIL)
		end = kept_wait(k, c, -1);
	kept_known(k, 0);
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

/* ---- in the worker ---- */

static void kept_clear(struct kept *k)
{
	while (k->first)
		kept_drop_first(k);
	if (k->wake >= 0)
		close(k->wake);
	pthread_mutex_destroy(&k->lock);
	free(k->path);
	free(k->worker);
	free(k);
}

int kept_new(struct kept **out, const struct kept_options *options, struct error *err)
{
	struct kept *k = calloc(1, sizeof *k);

	if (!k)
		return error_set(err, ERROR_OS, options->path, "out of memory");
	pthread_mutex_init(&k->lock, NULL);
	k->end = &k->first;
	k->generation = options->generation;
	k->incarnation = options->incarnation;
	k->path = strdup(options->path);
	k->worker = strdup(options->worker);
	k->wake = eventfd(0, EFD_CLOEXEC);
	if (!k->path || !k->worker || k->wake < 0 || thread_start(&k->thread, kept_main, k) != 0) {
		kept_clear(k);
		return error_set(err, ERROR_OS, options->path, "no thread can keep pushes");
	}
	*out = k;
	return 0;
}

void kept_free(struct kept *k)
{
	uint64_t one = 1;

	if (!k)
		return;
	if (write(k->wake, &one, sizeof one) != sizeof one)
		log_say(LOG_LEVEL_WARNING, "an eventfd can't be written");
	pthread_join(k->thread, NULL);
	kept_clear(k);
}

/* The request again, as `kept`, which is as long as `push`. */
static struct kept_push *kept_copy(const char *line, size_t len, const void *payload, size_t bytes)
{
	char field[32];
	int more = snprintf(field, sizeof field, " bytes=%zu\n", bytes);
	struct kept_push *q = malloc(sizeof *q + len + (size_t)more + bytes);

	if (!q)
		return NULL;
	q->head = len + (size_t)more;
	q->bytes = bytes;
	memcpy(q->text, line, len);
	memcpy(q->text, "kept", 4);
	memcpy(q->text + len, field, (size_t)more);
	memcpy(q->text + q->head, payload, bytes);
	return q;
}

static int kept_is_empty(struct kept *k)
{
	pthread_mutex_lock(&k->lock);
	int is_empty = !k->first;
	pthread_mutex_unlock(&k->lock);
	return is_empty;
}

static int kept_ask_release(struct kept *k, struct call *c, struct record *r, struct error *err)
{
	if (kept_says(call_greeting(c), "behind") && send_all(k, c, r, err) != 0)
		return -1;
	call_set_answer(c, ANSWER_SECONDS);
	if (call_record(c,
			RECORD("release", F("worker", k->worker), F("generation", k->generation),
			       F("incarnation", k->incarnation)),
			NULL, 0, err) != 0)
		return -1;
	return call_receive(c, r, err);
}

void kept_release(struct kept *k)
{
	double deadline = clock_mono() + ANSWER_SECONDS, gone = clock_mono() + AWAY_SECONDS;
	struct record *r = malloc(sizeof *r);
	int done = !r;
	struct error err;

	while (!done && !kept_is_empty(k) && clock_mono() < deadline && clock_mono() < gone) {
		struct call *c = NULL;
		if (call_open(&c, k->path, 0, GREETING_SECONDS, &err) == 0) {
			done = kept_ask_release(k, c, r, &err) == 0;
			gone = clock_mono() + AWAY_SECONDS;
		} else if (err.code != ERROR_UNAVAILABLE)
			gone = clock_mono() + AWAY_SECONDS; /* it is there, and stands still */
		call_close(c);
		if (!done)
			clock_sleep(PAUSE_MS * 1e-3);
	}
	free(r);
}

static void *kept_retire_main(void *kept)
{
	kept_release(kept);
	kept_free(kept);
	return NULL;
}

void kept_retire(struct kept *k)
{
	pthread_t thread;

	if (!k)
		return;
	if (kept_is_empty(k) || thread_start(&thread, kept_retire_main, k) != 0)
		kept_free(k);
	else
		pthread_detach(thread);
}

int kept_add(struct kept *k, const char *line, size_t len, uint64_t sequence, const void *payload,
	     size_t bytes)
{
	struct kept_push *q = NULL;

	pthread_mutex_lock(&k->lock);
	if (k->known && bytes > 0 && k->bytes + bytes <= KEPT_BYTES_MAX)
		q = kept_copy(line, len, payload, bytes);
	if (q) {
		q->next = NULL;
		q->sequence = sequence;
		*k->end = q;
		k->end = &q->next;
		k->bytes += q->head + q->bytes;
	}
	pthread_mutex_unlock(&k->lock);
	return q != NULL;
}

void kept_until(struct kept *k, uint64_t sequence)
{
	pthread_mutex_lock(&k->lock);
	while (k->first && k->first->sequence < sequence)
		kept_drop_first(k);
	pthread_mutex_unlock(&k->lock);
}

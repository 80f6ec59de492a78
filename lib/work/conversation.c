/* conversation: see conversation.h. */
#include "work/conversation.h"

#include "base/clock.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define PAUSE_SECONDS 0.05       /* between attempts to connect */
/* Seconds between attempts to connect again: a fraction of the time that the daemon has been away.
 * An heir is up soon, but a server that stays away is not asked 200 times a second by each
 * worker. */
#define BACK_PAUSE_PART 0.125
#define BACK_PAUSE_SECONDS_MIN 0.005
#define BACK_PAUSE_SECONDS_MAX 0.25
#define GREETING_SECONDS 2       /* seconds until another attempt; *stop is checked in between */
#define STOP_GRACE_SECONDS 30    /* seconds to wait for an unfinished batch, once *stop is set */
#define NEEDLESS_SECONDS 0.25    /* seconds between checks whether we still need one that went */
#define STOP_BACK_SECONDS 2      /* and seconds for a server that went to come back */

int conversation_stopped(const struct conversation *c)
{
	return c->options.stop && *c->options.stop;
}

/* ---- connecting ---- */

static int conversation_check_greeting(const struct conversation *c, struct error *err)
{
	const struct conversation_options *o = &c->options;
	if (!o->check || o->check(call_greeting(c->call), o->wanted, err) == 0)
		return 0;
	return error_wrap(err, o->path);
}

/* A stopped server has a socket, too, but does not greet. */
static double greeting_seconds(const struct conversation *c)
{
	return c->options.answer_seconds < GREETING_SECONDS ? c->options.answer_seconds
							    : GREETING_SECONDS;
}

static int conversation_try_connect(struct conversation *c, struct error *err)
{
	if (!c->call)
		return call_open(&c->call, c->options.path, 0, greeting_seconds(c), err);
	call_set_answer(c->call, greeting_seconds(c));
	return call_reopen(c->call, err);
}

int conversation_connect(struct conversation *c, double deadline, struct error *err)
{
	while (conversation_try_connect(c, err) != 0) {
		if (err->code != ERROR_UNAVAILABLE && err->code != ERROR_TEMPFAIL)
			return -1;
		if (clock_mono() >= deadline) {
			err->code = ERROR_UNAVAILABLE;
			return -1;
		}
		if (conversation_stopped(c))
			return WORK_STOP;
		clock_sleep(PAUSE_SECONDS);
	}
	call_set_answer(c->call, c->options.answer_seconds);
	if (conversation_check_greeting(c, err) == 0)
		return WORK_OK;
	conversation_close(c);
	return -1;
}

static void conversation_forget(struct conversation *c)
{
	c->open_count = c->asides = 0;
	c->aside_refused = 0;
}

void conversation_close(struct conversation *c)
{
	call_close(c->call);
	c->call = NULL;
	conversation_forget(c);
}

void conversation_disconnect(struct conversation *c)
{
	if (c->call)
		call_disconnect(c->call);
	conversation_forget(c);
}

int conversation_fd(const struct conversation *c)
{
	return c->call ? call_fd(c->call) : -1;
}

int conversation_incarnation(const struct conversation *c, uint64_t *incarnation,
			     struct error *err)
{
	if (record_u64(call_greeting(c->call), "incarnation", 0, UINT64_MAX, incarnation, err) != 0)
		return error_wrap(err, c->options.path);
	return 0;
}

static void pause_since(double gone)
{
	double pause = (clock_mono() - gone) * BACK_PAUSE_PART;
	pause = pause > BACK_PAUSE_SECONDS_MIN ? pause : BACK_PAUSE_SECONDS_MIN;
	clock_sleep(pause < BACK_PAUSE_SECONDS_MAX ? pause : BACK_PAUSE_SECONDS_MAX);
}

/* The connection is lost: waits until the same daemon, or its heir, is there again. */
static int conversation_come_back(struct conversation *c, struct error *err)
{
	double gone = clock_mono(), grace = 0, look = gone + NEEDLESS_SECONDS;
	double deadline = gone + (c->brief ? 0 : c->options.wait_seconds);
	uint64_t incarnation;
	if (c->options.once)
		return WORK_RESET;
	call_set_answer(c->call, greeting_seconds(c));
	while (call_reopen(c->call, err) != 0) {
		if (err->code != ERROR_UNAVAILABLE && err->code != ERROR_TEMPFAIL)
			return -1;
		double now = clock_mono();
		if (now >= deadline) {
			err->code = ERROR_UNAVAILABLE;
			return -1;
		}
		if (conversation_stopped(c) && grace == 0)
			grace = now + STOP_BACK_SECONDS;
		if (conversation_stopped(c) && now >= grace)
			return WORK_STOP;
		if (c->options.needless && now >= look) {
			if (c->options.needless(c->options.wanted)) {
				conversation_close(c);
				return WORK_MAP;
			}
			look = clock_mono() + NEEDLESS_SECONDS;
		}
		pause_since(gone);
	}
	c->asides = 0;
	call_set_answer(c->call, c->options.answer_seconds);
	if (conversation_check_greeting(c, err) != 0 ||
	    conversation_incarnation(c, &incarnation, err) != 0)
		return -1;
	return incarnation == c->incarnation ? WORK_OK : WORK_RESET;
}

static int send_open(struct conversation *c, struct error *err)
{
	for (uint32_t n = 0; n < c->open_count; n++) {
		const struct conversation_request *r =
			&c->open[(c->open_first + n) % CONVERSATION_OPEN_MAX];
		if (call_send(c->call, r->line, r->len, r->payload, r->bytes, err) != 0)
			return -1;
	}
	return 0;
}

int conversation_again(struct conversation *c, struct error *err)
{
	while (err->code == ERROR_UNAVAILABLE) {
		int result = conversation_come_back(c, err);
		if (result != WORK_OK)
			return result;
		if (send_open(c, err) == 0)
			return WORK_OK;
	}
	if (err->code == ERROR_TEMPFAIL) /* a silent daemon counts as away */
		err->code = ERROR_UNAVAILABLE;
	return -1;
}

/* ---- asking ---- */

void conversation_begin(const struct conversation *c, struct record_out *o, char *line,
			const char *type)
{
	record_begin(o, line, RECORD_LINE_MAX, type);
	record_add(o, "worker", c->options.worker);
	record_add_u64(o, "generation", c->generation);
	record_add_u64(o, "incarnation", c->incarnation);
}

/* Ends a request, and counts it among the open ones. */
static int conversation_add(struct conversation *c, struct record_out *o, const void *payload,
			    size_t bytes, struct error *err)
{
	size_t len = record_end(o, NULL);
	if (!c->call) /* it was needless */
		return WORK_MAP;
	if (len == 0)
		return error_set(err, ERROR_SOFTWARE, c->options.path,
				 "a request longer than a line");
	struct conversation_request *r =
		&c->open[(c->open_first + c->open_count++) % CONVERSATION_OPEN_MAX];
	memcpy(r->line, o->data, len);
	r->len = len;
	r->payload = payload;
	r->bytes = bytes;
	return WORK_OK;
}

int conversation_pass(struct conversation *c, struct record_out *o, int fd, struct error *err)
{
	int result = conversation_add(c, o, NULL, 0, err);
	if (result == WORK_OK && call_send_with(c->call, o->data, o->len, fd, err) != 0)
		return conversation_again(c, err);
	return result;
}

int conversation_ask(struct conversation *c, struct record_out *o, const void *payload,
		     size_t bytes, struct error *err)
{
	int result = conversation_add(c, o, payload, bytes, err);
	if (result != WORK_OK)
		return result;
	size_t len = o->len;
	if (call_send(c->call, o->data, len, payload, bytes, err) != 0)
		return conversation_again(c, err);
	return WORK_OK;
}

int conversation_aside(struct conversation *c, struct record_out *o)
{
	struct error ignored;
	size_t len = record_end(o, NULL);
	if (c->aside_refused || len == 0 || c->open_count > 0)
		return 0;
	if (call_send(c->call, o->data, len, NULL, 0, &ignored) == 0)
		c->asides++;
	else /* half of the request may have arrived: nothing may follow on this connection */
		(void)shutdown(call_fd(c->call), SHUT_RDWR);
	return 1;
}

/* ---- answers ---- */

int conversation_is_here(const struct conversation *c, double seconds)
{
	struct timespec most = {.tv_sec = (time_t)seconds};
	most.tv_nsec = (long)((seconds - (double)most.tv_sec) * 1e9);
	if (!c->call || call_buffered(c->call))
		return 1;
	struct pollfd p = {.fd = call_fd(c->call), .events = POLLIN};
	return ppoll(&p, 1, &most, NULL) > 0;
}

/* c->record is the last record of an answer. 1: of an aside. */
static int close_answer(struct conversation *c)
{
	if (c->asides == 0) {
		c->open_first = (c->open_first + 1) % CONVERSATION_OPEN_MAX;
		c->open_count--;
		return 0;
	}
	const char *code = record_is(&c->record, "err") ? record_get(&c->record, "code") : NULL;
	c->asides--;
	c->aside_refused |= code && strcmp(code, "unknown-request") == 0;
	return 1;
}

int conversation_receive(struct conversation *c, enum patience patience, int *anew,
			 struct error *err)
{
	double began = clock_mono(), grace = 0;
	if (!c->call)
		return WORK_MAP;
	for (;;) {
		if (call_receive_turn(c->call, &c->record, began, err) == 0) {
			int last = record_is(&c->record, "ok") || record_is(&c->record, "err");
			if (!last || !close_answer(c))
				return WORK_OK;
			continue;
		}
		if (err->code != ERROR_TEMPFAIL || clock_mono() - began >= c->options.answer_seconds) {
			int result = conversation_again(c, err);
			if (result != WORK_OK)
				return result;
			if (anew)
				*anew = 1;
			began = clock_mono();
			continue;
		}
		if (!conversation_stopped(c))
			continue;
		if (grace == 0)
			grace = clock_mono() + (patience == PATIENT ? STOP_GRACE_SECONDS : 0);
		if (clock_mono() >= grace)
			return WORK_STOP;
	}
}

int conversation_try(struct conversation *c, struct error *err)
{
	while (call_receive_within(c->call, &c->record, 0, err) == 0) {
		int last = record_is(&c->record, "ok") || record_is(&c->record, "err");
		if (!last || !close_answer(c))
			return WORK_OK;
	}
	return err->code == ERROR_TEMPFAIL ? WORK_WAIT : conversation_again(c, err);
}

int conversation_refused(const struct conversation *c, struct error *err)
{
	const char *code = record_get(&c->record, "code"), *text = c->record.text;
	if (code && strcmp(code, "fenced") == 0)
		return WORK_FENCED;
	if (code && strcmp(code, "map") == 0)
		return WORK_MAP;
	if (code && strcmp(code, "diverged") == 0) {
		error_set(err, ERROR_DATA, c->options.path, "%s", text ? text : code);
		return WORK_DIVERGED;
	}
	if (code && strcmp(code, "empty") == 0) /* a replica that is not filled yet */
		return WORK_RESET;
	/* A server without memory, or one that found us too slow, may accept us in our next
	 * life. */
	int is_passing = code && (strcmp(code, "no-memory") == 0 || strcmp(code, "slow") == 0 ||
				  strcmp(code, "busy") == 0);
	return error_set(err, is_passing ? ERROR_TEMPFAIL : ERROR_SOFTWARE, c->options.path,
			 "err code=%s: %s", code ? code : "", text ? text : "");
}

int conversation_answer(struct conversation *c, enum patience patience, struct error *err)
{
	for (;;) {
		int result = conversation_receive(c, patience, NULL, err);
		if (result != WORK_OK)
			return result;
		if (record_is(&c->record, "ok"))
			return WORK_OK;
		if (record_is(&c->record, "err"))
			return conversation_refused(c, err);
		if (record_is(&c->record, "action") && c->options.action)
			c->options.action(&c->record, c->options.owner);
	}
}

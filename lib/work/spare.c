/* spare: see spare.h. A restarted supervisor knows the spares by its files; they ask it again. */
#include "work/spare.h"

#include "base/clock.h"
#include "monitor/node.h"
#include "wire/call.h"
#include "work/result.h"

#include <poll.h>

#define PAUSE_SECONDS 0.1  /* between attempts to connect */
#define GREETING_SECONDS 2 /* a supervisor that is stopped has a socket, too */
#define TURN_MS 500        /* between looks at the flag that a signal sets */

int spare_fd(const struct spare *s)
{
	return s->call ? call_fd(s->call) : -1;
}

static void work_spare_hang_up(struct spare *s)
{
	call_close(s->call);
	s->call = NULL;
}

void spare_close(struct spare *s)
{
	work_spare_hang_up(s);
	s->deadline = 0;
}

/* -1: ERROR_UNAVAILABLE or ERROR_TEMPFAIL: there is no supervisor now. */
static int work_spare_ask(struct spare *s, struct error *err)
{
	if (call_open(&s->call, s->path, 0, GREETING_SECONDS, err) != 0)
		return -1;
	return call_record(s->call, RECORD("spare", F("id", s->id)), NULL, 0, err);
}

static int work_spare_take(struct spare *s, const struct record *r, struct error *err)
{
	if (!record_is(r, "ok"))
		return WORK_END; /* the job is over, or knows no such spare */
	if (record_u64(r, "batch", 1, NODE_BATCH_MAX, &s->batch, err) != 0 ||
	    record_u64(r, "rank", 0, UINT64_MAX, &s->rank, err) != 0)
		return error_wrap(err, s->path);
	return WORK_OK;
}

int spare_try(struct spare *s, struct error *err)
{
	static struct record r; /* large */
	double now = clock_mono();
	if (s->deadline <= 0)
		s->deadline = now + s->wait_seconds;
	if (!s->call && now < s->retry_at)
		return WORK_WAIT;
	int result = s->call ? 0 : work_spare_ask(s, err);
	if (result == 0) {
		s->deadline = now + s->wait_seconds;
		result = call_receive_within(s->call, &r, 0, err);
		if (result != 0 && err->code == ERROR_TEMPFAIL)
			return WORK_WAIT;
	}
	if (result == 0)
		result = work_spare_take(s, &r, err);
	else if ((err->code == ERROR_UNAVAILABLE || err->code == ERROR_TEMPFAIL) &&
		 now < s->deadline)
		result = WORK_WAIT;
	work_spare_hang_up(s);
	s->retry_at = now + PAUSE_SECONDS;
	return result;
}

int spare_wait(struct spare *s, struct error *err)
{
	int result;
	while (!*s->stop && (result = spare_try(s, err)) == WORK_WAIT) {
		struct pollfd p = {.fd = spare_fd(s), .events = POLLIN};
		poll(&p, 1, p.fd < 0 ? (int)(PAUSE_SECONDS * 1e3) : TURN_MS);
	}
	if (!*s->stop)
		return result;
	spare_close(s);
	return WORK_STOP;
}

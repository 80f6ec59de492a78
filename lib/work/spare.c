/* spare: see spare.h. A restarted supervisor knows the spares by its files; they ask it again. */
#include "work/spare.h"

#include "base/clock.h"
#include "monitor/node.h"
#include "wire/call.h"
#include "work/result.h"

#include <string.h>

#define PAUSE_SECONDS 0.1  /* between attempts to connect */
#define GREETING_SECONDS 2 /* a supervisor that is stopped has a socket, too */

static int work_spare_stopped(const struct spare_options *o)
{
	return o->stop && *o->stop;
}

static int work_spare_is_lost(const struct error *err)
{
	return err->code == ERROR_UNAVAILABLE || err->code == ERROR_TEMPFAIL;
}

static int work_spare_ask(struct call *c, const struct spare_options *o, struct error *err)
{
	return call_record(c, RECORD("spare", F("id", o->id)), NULL, 0, err);
}

/* Waits for the answer. WORK_WAIT: the connection has gone. */
static int work_spare_hear(struct call *c, const struct spare_options *o, uint64_t *batch,
			   struct error *err)
{
	static struct record r; /* large */
	double began = clock_mono();
	for (;;) {
		if (work_spare_stopped(o))
			return WORK_STOP;
		if (call_receive_turn(c, &r, began, err) == 0)
			break;
		if (err->code == ERROR_UNAVAILABLE)
			return WORK_WAIT;
		if (err->code != ERROR_TEMPFAIL)
			return -1;
	}
	if (record_is(&r, "ok"))
		return record_u64(&r, "batch", 1, NODE_BATCH_MAX, batch, err) == 0
			       ? WORK_OK
			       : error_wrap(err, o->path);
	return WORK_END; /* refused: the job is over, or knows no such spare */
}

int spare_wait(const struct spare_options *o, uint64_t *batch, struct error *err)
{
	double deadline = clock_mono() + o->wait_seconds;
	for (;;) {
		struct call *c = NULL;
		int result = WORK_WAIT;
		if (work_spare_stopped(o))
			return WORK_STOP;
		if (call_open(&c, o->path, 0, GREETING_SECONDS, err) == 0) {
			if (work_spare_ask(c, o, err) == 0) {
				deadline = clock_mono() + o->wait_seconds;
				result = work_spare_hear(c, o, batch, err);
				if (result == WORK_WAIT)
					deadline = clock_mono() + o->wait_seconds;
			}
			call_close(c);
		} else if (!work_spare_is_lost(err))
			return -1;
		if (result != WORK_WAIT)
			return result;
		if (clock_mono() >= deadline)
			return -1;
		clock_sleep(PAUSE_SECONDS);
	}
}

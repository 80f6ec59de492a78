/* policy: see policy.h. No clock, no process, no memory: the same question, the same answer. */
#include "proc/policy.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum end_class policy_class(const struct node_end *end)
{
	if (!end->seen)
		return END_RETRYABLE;
	switch (end->signal) {
	case 0:
		break;
	case SIGKILL:
	case SIGTERM:
	case SIGHUP:
	case SIGPIPE:
		return END_RETRYABLE;
	default:
		return END_UNRETRYABLE;
	}
	switch (end->status) {
	case 0:
		return END_CLEAN;
	case ERROR_UNAVAILABLE:
	case ERROR_OS:
	case ERROR_IO:
	case ERROR_TEMPFAIL:
	/* What a shell says of a launch template whose program died by such a signal. */
	case 128 + SIGKILL:
	case 128 + SIGTERM:
	case 128 + SIGHUP:
	case 128 + SIGPIPE:
		return END_RETRYABLE;
	default:
		return END_UNRETRYABLE;
	}
}

const char *policy_class_name(enum end_class c)
{
	static const char *const name[] = {"clean", "retryable", "unretryable"};
	return name[c];
}

void policy_end_text(const struct node_end *end, char *out, size_t out_max)
{
	if (!end->seen)
		snprintf(out, out_max, "an end that nobody saw");
	else if (end->signal)
		snprintf(out, out_max, "signal %d (%s)", end->signal, strsignal(end->signal));
	else
		snprintf(out, out_max, "exit status %d", end->status);
}

int policy_end_status(const struct node_end *end)
{
	if (!end->seen)
		return ERROR_SOFTWARE;
	if (end->signal)
		return 128 + end->signal;
	return end->status ? end->status : ERROR_SOFTWARE;
}

double policy_pause(uint64_t in_a_row)
{
	double pause = 0.1;
	while (in_a_row-- > 1 && pause < 5)
		pause *= 2;
	return pause < 5 ? pause : 5;
}

int policy_did_well(double ready_seconds, int worked)
{
	return ready_seconds >= POLICY_WELL_SECONDS && worked;
}

struct step {
	signed char known;
	unsigned char stage;
	unsigned char action;
};

#define GO(stage, action) {1, stage, action}

static const struct step table[STAGES][EVENTS] = {
	[STAGE_OFF] = {
		[EVENT_LAUNCHED] = GO(STAGE_STARTING, DO_NOTHING),
		[EVENT_STOP] = GO(STAGE_OFF, DO_NOTHING),
	},
	[STAGE_STARTING] = {
		[EVENT_ANSWERS] = GO(STAGE_READY, DO_TELL),
		[EVENT_ENDED] = GO(STAGE_MENDING, DO_MEND),
		[EVENT_ENDED_BAD] = GO(STAGE_OFF, DO_FAIL),
		[EVENT_HANDED] = GO(STAGE_STARTING, DO_NOTHING),
		[EVENT_STOP] = GO(STAGE_STOPPING, DO_SIGNAL),
	},
	[STAGE_READY] = {
		[EVENT_ANSWERS] = GO(STAGE_READY, DO_NOTHING),
		[EVENT_ENDED] = GO(STAGE_MENDING, DO_MEND),
		[EVENT_ENDED_BAD] = GO(STAGE_OFF, DO_FAIL),
		[EVENT_HANDED] = GO(STAGE_STARTING, DO_NOTHING),
		[EVENT_STOP] = GO(STAGE_STOPPING, DO_SIGNAL),
	},
	[STAGE_MENDING] = {
		[EVENT_MENDED] = GO(STAGE_PAUSING, DO_PAUSE),
		[EVENT_STOP] = GO(STAGE_OFF, DO_GONE),
	},
	[STAGE_PAUSING] = {
		[EVENT_PAUSE_OVER] = GO(STAGE_OFF, DO_LAUNCH),
		[EVENT_STOP] = GO(STAGE_OFF, DO_GONE),
	},
	[STAGE_STOPPING] = {
		/* An answer may still be on its way. */
		[EVENT_ANSWERS] = GO(STAGE_STOPPING, DO_NOTHING),
		[EVENT_ENDED] = GO(STAGE_OFF, DO_GONE),
		[EVENT_ENDED_BAD] = GO(STAGE_OFF, DO_GONE),
		[EVENT_STOP] = GO(STAGE_STOPPING, DO_SIGNAL),
	},
};

const char *node_stage_name(enum node_stage stage)
{
	static const char *const name[STAGES] = {"off",     "starting", "up",
						      "mending", "pausing",  "stopping"};
	return name[stage];
}

static const char *node_event_name(enum node_event event)
{
	static const char *const name[EVENTS] = {"launched",    "answers", "ended",
						      "ended-bad",   "handed-over", "mended",
						      "pause-over",  "stop"};
	return name[event];
}

int policy_step(enum node_stage *stage, enum node_event event, enum node_action *action,
		struct error *err)
{
	const struct step *step = &table[*stage][event];
	if (!step->known)
		return error_set(err, ERROR_SOFTWARE, "node", "event %s in state %s",
				 node_event_name(event), node_stage_name(*stage));
	*stage = (enum node_stage)step->stage;
	*action = (enum node_action)step->action;
	return 0;
}

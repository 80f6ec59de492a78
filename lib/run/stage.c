/* stage: see stage.h. No clock, no process, no memory: the same question, the same answer. */
#include "run/stage.h"

struct step {
	signed char known;
	unsigned char stage;
	unsigned char action;
};

#define GO(stage, action)                                                                          \
	{                                                                                          \
		1, stage, action                                                                   \
	}

static const struct step table[STAGES][EVENTS] = {
	[STAGE_OFF] =
		{
			[EVENT_LAUNCHED] = GO(STAGE_STARTING, DO_NOTHING),
			[EVENT_STOP] = GO(STAGE_OFF, DO_NOTHING),
		},
	[STAGE_STARTING] =
		{
			[EVENT_ANSWERS] = GO(STAGE_READY, DO_TELL),
			[EVENT_ENDED] = GO(STAGE_MENDING, DO_MEND),
			[EVENT_ENDED_BAD] = GO(STAGE_OFF, DO_FAIL),
			[EVENT_HANDED] = GO(STAGE_STARTING, DO_NOTHING),
			[EVENT_STOP] = GO(STAGE_STOPPING, DO_SIGNAL),
		},
	[STAGE_READY] =
		{
			[EVENT_ANSWERS] = GO(STAGE_READY, DO_NOTHING),
			[EVENT_ENDED] = GO(STAGE_MENDING, DO_MEND),
			[EVENT_ENDED_BAD] = GO(STAGE_OFF, DO_FAIL),
			[EVENT_HANDED] = GO(STAGE_STARTING, DO_NOTHING),
			[EVENT_STOP] = GO(STAGE_STOPPING, DO_SIGNAL),
		},
	[STAGE_MENDING] =
		{
			[EVENT_MENDED] = GO(STAGE_PAUSING, DO_PAUSE),
			[EVENT_STOP] = GO(STAGE_OFF, DO_GONE),
		},
	[STAGE_PAUSING] =
		{
			[EVENT_PAUSE_OVER] = GO(STAGE_OFF, DO_LAUNCH),
			[EVENT_STOP] = GO(STAGE_OFF, DO_GONE),
		},
	[STAGE_STOPPING] =
		{
			/* An answer may still be on its way. */
			[EVENT_ANSWERS] = GO(STAGE_STOPPING, DO_NOTHING),
			[EVENT_ENDED] = GO(STAGE_OFF, DO_GONE),
			[EVENT_ENDED_BAD] = GO(STAGE_OFF, DO_GONE),
			[EVENT_STOP] = GO(STAGE_STOPPING, DO_SIGNAL),
		},
};

const char *stage_name(enum node_stage stage)
{
	static const char *const name[STAGES] = {"off",     "starting", "up",
						 "mending", "pausing",  "stopping"};
	return name[stage];
}

static const char *event_name(enum node_event event)
{
	static const char *const name[EVENTS] = {"launched",   "answers",     "ended",
						 "ended-bad",  "handed-over", "mended",
						 "pause-over", "stop"};
	return name[event];
}

int stage_step(enum node_stage *stage, enum node_event event, enum node_action *action,
	       struct error *err)
{
	const struct step *step = &table[*stage][event];
	if (!step->known)
		return error_set(err, ERROR_SOFTWARE, "node", "event %s in state %s",
				 event_name(event), stage_name(*stage));
	*stage = (enum node_stage)step->stage;
	*action = (enum node_action)step->action;
	return 0;
}

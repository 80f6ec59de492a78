/*
 * loop: the first line of a main() that has an event loop.
 */
#ifndef PACELINE_CMD_LOOP_H
#define PACELINE_CMD_LOOP_H

#include "cmd/cmd.h"

#include <event2/event.h>

static inline void loop_log(int severity, const char *text)
{
	if (severity >= EVENT_LOG_WARN)
		log_say(severity == EVENT_LOG_ERR ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING,
			"event loop: %s", text);
}

static inline void loop_fatal(int code)
{
	(void)code;
	exit(ERROR_OS);
}

/* cmd_begin(); and where libevent can't go on (it gets no descriptor for signals, no memory), it ends the
 * program with our status and message, not with its own. */
static inline void loop_begin(const char *program)
{
	cmd_begin(program);
	event_set_log_callback(loop_log);
	event_set_fatal_callback(loop_fatal);
}

#endif

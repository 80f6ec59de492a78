#include "base/log.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

static log_sink_fn *sink;
static void *sink_arg;
static enum log_level sink_highest = LOG_LEVEL_INFO;

void log_set_sink(log_sink_fn *new_sink, void *arg, enum log_level highest)
{
	sink = new_sink;
	sink_arg = arg;
	sink_highest = highest;
}

void log_say(enum log_level level, const char *fmt, ...)
{
	if (!sink || level > sink_highest)
		return;
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	error_plain(text);
	sink(level, text, sink_arg);
}

int log_is_worth(uint64_t count)
{
	return (count & (count - 1)) == 0;
}

/* end: see end.h. */
#include "proc/end.h"

#include "base/error.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

struct node_end end_of(int status)
{
	if (WIFSIGNALED(status))
		return (struct node_end){.seen = 1, .signal = WTERMSIG(status)};
	return (struct node_end){.seen = 1, .status = WEXITSTATUS(status)};
}

enum end_class end_class_of(const struct node_end *end)
{
	if (!end->seen)
		return END_RETRYABLE;
	if (end->oom)
		return END_OOM;
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
		return END_RETRYABLE;
	default:
		return END_UNRETRYABLE;
	}
}

const char *end_class_name(enum end_class c)
{
	static const char *const name[] = {"clean", "retryable", "unretryable", "oom"};
	return name[c];
}

void end_text(const struct node_end *end, char *out, size_t out_max)
{
	if (!end->seen)
		snprintf(out, out_max, "an unknown end");
	else if (end->signal)
		snprintf(out, out_max, "%ssignal %d (%s)", end->oom ? "out of memory, " : "",
			 end->signal, strsignal(end->signal));
	else
		snprintf(out, out_max, "%sexit status %d", end->oom ? "out of memory, " : "",
			 end->status);
}

int end_status(const struct node_end *end)
{
	if (!end->seen)
		return ERROR_SOFTWARE;
	if (end->signal)
		return 128 + end->signal;
	return end->status ? end->status : ERROR_SOFTWARE;
}

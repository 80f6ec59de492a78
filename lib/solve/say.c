/* say: see say.h. */
#include "solve/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void say_reason(char *out, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(out, ACTION_REASON_MAX, format, args);
	va_end(args);
}

int say_action(struct voice *v, const struct action *a)
{
	v->given++;
	return v->take(a, v->arg, v->err);
}

int say_none(struct voice *v, const char *format, ...)
{
	struct action a = {.kind = ACTION_NONE};
	va_list args;
	va_start(args, format);
	vsnprintf(a.reason, sizeof a.reason, format, args);
	va_end(args);
	return say_action(v, &a);
}

int say_restart(struct voice *v, const struct snapshot_node *n, const char *reason)
{
	struct action a = {.kind = ACTION_KILL_RESTART, .role = n->role};
	memcpy(a.id, n->id, sizeof a.id);
	say_reason(a.reason, "%s", reason);
	return say_action(v, &a);
}

int say_backup(struct voice *v, uint64_t count, const char *reason)
{
	struct action a = {.kind = ACTION_BACKUP_WORKERS, .count = count};
	say_reason(a.reason, "%s", reason);
	return say_action(v, &a);
}

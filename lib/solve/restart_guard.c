/* restart_guard: see restart_guard.h. */
#include "solve/restart_guard.h"

#include "base/clock.h"

#include <stddef.h>

enum restart_answer restart_guard(const struct restart_rules *rules,
				  const struct restart_past *node, double last_any, double now)
{
	if (node->count >= rules->limit)
		return RESTART_LIMIT;
	if (clock_within(node->last, now, rules->window))
		return RESTART_WINDOW;
	if (clock_within(last_any, now, rules->cooldown))
		return RESTART_COOLDOWN;
	return RESTART_GO;
}

const char *restart_guard_word(enum restart_answer answer)
{
	static const char *const word[] = {NULL, "limit", "window", "cool-down"};
	return word[answer];
}

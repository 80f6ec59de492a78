/* heavy: see heavy.h. */
#include "run/heavy.h"

#include <stddef.h>

/* A clock that was set back must not lock nodes up until it has come there again. */
static int within(double last, double now, double seconds)
{
	return last > 0 && now >= last && now - last < seconds;
}

enum heavy_answer heavy_check(const struct heavy_rules *rules, const struct heavy_past *node,
			      double last_any, double now)
{
	if (node->count >= rules->limit)
		return HEAVY_LIMIT;
	if (within(node->last, now, rules->window))
		return HEAVY_WINDOW;
	if (within(last_any, now, rules->cooldown))
		return HEAVY_COOLDOWN;
	return HEAVY_GO;
}

const char *heavy_word(enum heavy_answer answer)
{
	static const char *const word[] = {NULL, "limit", "window", "cool-down"};
	return word[answer];
}

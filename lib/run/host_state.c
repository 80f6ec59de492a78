/* host_state: see host_state.h. */
#include "run/host_state.h"

static const struct {
	enum host_do todo;
	enum host_reach reach; /* from then on, if something is to be done */
} table[HOST_REACHES][HOST_EVENTS] = {
	[HOST_THERE] = {[HOST_FAILS] = {HOST_DO_PROBE, HOST_LOST},
			[HOST_TAKEN] = {HOST_DO_YIELD, HOST_NONE}},
	[HOST_LOST] = {[HOST_ANSWERS] = {HOST_DO_TELL, HOST_THERE},
		       [HOST_SILENT] = {HOST_DO_KILL, HOST_GONE},
		       [HOST_TAKEN] = {HOST_DO_YIELD, HOST_NONE}},
	[HOST_GONE] = {[HOST_ANSWERS] = {HOST_DO_HOME, HOST_THERE},
		       [HOST_TAKEN] = {HOST_DO_YIELD, HOST_NONE}},
	[HOST_NONE] = {[HOST_ANSWERS] = {HOST_DO_HOME, HOST_THERE}},
};

enum host_do host_step(enum host_reach *reach, enum host_use use, enum host_event event)
{
	enum host_do todo = table[*reach][event].todo;
	int unused = use == HOST_UNUSED;
	if (todo == HOST_DO_NOTHING || (unused && (event == HOST_FAILS || event == HOST_SILENT)))
		return HOST_DO_NOTHING;
	*reach = table[*reach][event].reach;
	return unused && event == HOST_ANSWERS ? HOST_DO_NOTHING : todo;
}

enum host_use host_use_next(enum host_use use, int wanted, int empty)
{
	if (wanted)
		return HOST_USED;
	return use == HOST_USED ? HOST_LEAVES : empty ? HOST_UNUSED : use;
}

int host_is_joined(enum host_reach reach, enum host_use use, int here)
{
	return reach == HOST_THERE && (use != HOST_UNUSED || here);
}

int host_is_misplaced(enum host_reach reach, enum host_use use, int here, int in_world)
{
	return (reach != HOST_LOST || use == HOST_UNUSED) &&
	       (in_world != 0) != host_is_joined(reach, use, here);
}

const char *host_word(enum host_reach reach, enum host_use use, int avoided)
{
	static const char *const word[] = {"there", "lost", "gone", "none"};
	if (use != HOST_USED)
		return use == HOST_LEAVES ? "leaving" : "unused";
	return avoided ? "avoided" : word[reach];
}

/* spent: see spent.h. */
#include "meter/spent.h"

#include "record/record.h"

size_t spent_record(const struct spent *s, const char *id, double now, double epoch, char *line,
		    size_t max)
{
	static const char *const key[SPENT_KINDS] = {"compute", "comm",   "wait", "shards",
						     "actions", "report", "rows", "profile", "predict"};
	struct record_out o;
	record_begin(&o, line, max, "spent");
	record_add(&o, "id", id);
	for (int i = 0; i < SPENT_KINDS; i++)
		record_add_seconds(&o, key[i], s->seconds[i]);
	record_add_seconds(&o, "total", now - s->began);
	record_add_u64(&o, "iterations", s->iterations);
	record_add_seconds(&o, "at", epoch);
	return record_end(&o, NULL);
}

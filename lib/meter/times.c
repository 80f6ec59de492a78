/* times: see times.h. Sums only; meter.c says them. */
#include "meter/times.h"

#include "record/record.h"

#define EARLY_MAX 8 /* the last of the early reports */

size_t spent_record(const struct spent *s, const char *id, double now, double epoch, char *line,
		    size_t max)
{
	static const char *const key[SPENT_KINDS] = {
		"compute", "comm", "wait", "shards", "actions", "report", "rows", "profile", "predict"};
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

void tally_start(struct tally *t, double now)
{
	*t = (struct tally){.since = now};
}

int tally_is_due(const struct tally *t, const struct tally_rules *r, uint64_t more, double now)
{
	uint64_t total = t->total + more;
	int early = total <= EARLY_MAX && (total & (total - 1)) == 0;
	return early || t->count + more >= r->every || now - t->since >= r->seconds;
}

int tally_add(struct tally *t, const struct tally_rules *r, const struct tally_batch *b, double now)
{
	t->total++;
	t->count++;
	t->sum.time += b->time;
	t->sum.compute += b->compute;
	t->sum.comm += b->comm;
	t->sum.wait += b->wait;
	t->sum.samples += b->samples;
	return tally_is_due(t, r, 0, now);
}

uint64_t tally_take(struct tally *t, double now, struct tally_batch *mean)
{
	uint64_t count = t->count;
	double n = (double)count;
	if (count == 0)
		return 0;
	*mean = (struct tally_batch){.time = t->sum.time / n,
				     .compute = t->sum.compute / n,
				     .comm = t->sum.comm / n,
				     .wait = t->sum.wait / n,
				     .samples = (t->sum.samples + count / 2) / count};
	t->sum = (struct tally_batch){0};
	t->count = 0;
	t->since = now;
	return count;
}

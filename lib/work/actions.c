/* actions: see actions.h. */
#include "work/actions.h"

#include "base/clock.h"
#include "base/log.h"
#include "monitor/node.h"

#include <string.h>

enum { NEWS_SIZE = 1, NEWS_SCALE = 2, NEWS_BARRIER = 4 };

void actions_start(struct actions *a, const char *worker, uint64_t batch)
{
	*a = (struct actions){.worker = worker,
			      .size = batch,
			      .accum = 1,
			      .scale = 1,
			      .new_size = batch,
			      .new_accum = 1};
}

static int read_action(struct actions *a, const struct record *r, struct error *err)
{
	const char *kind = record_get(r, "kind"), *id = record_get(r, "id");
	uint64_t size, accum = 1;
	if (!kind || !id || strcmp(id, a->worker) != 0)
		return 0;
	if (strcmp(kind, "adjust-bs") == 0) {
		if (record_u64(r, "size", 1, NODE_BATCH_MAX, &size, err) != 0 ||
		    record_u64_opt(r, "accum", 1, NODE_BATCH_MAX / size, &accum, err) != 0)
			return -1;
		a->new_size = size;
		a->new_accum = accum;
		/* Not the actions of a barrier, which come with each batch: the lead's log has
		 * them. */
		a->news |= record_get(r, "barrier") ? NEWS_BARRIER : NEWS_SIZE;
	} else if (strcmp(kind, "adjust-lr") == 0) {
		if (record_real(r, "scale", 0, 1e9, &a->scale, err) != 0)
			return -1;
		a->news |= NEWS_SCALE;
	}
	return 0;
}

void actions_take(struct actions *a, const struct record *r)
{
	struct error err;
	if (read_action(a, r, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "an action is not obeyed: %s: %s", err.place, err.text);
}

static void log_applied(struct actions *a, const char *kind, uint64_t iteration)
{
	if (!a->log)
		return;
	struct record_out *o = RECORD("applied", F("kind", kind), F("id", a->worker));
	if (strcmp(kind, "adjust-bs") == 0) {
		record_add_u64(o, "size", a->size);
		record_add_u64(o, "accum", a->accum);
	} else {
		record_add_real(o, "scale", a->scale);
	}
	record_add_u64(o, "iteration", iteration);
	record_add_seconds(o, "at", clock_epoch());
	size_t len = record_end(o, NULL);
	if (len > 0)
		a->log(o->data, len, a->owner);
}

int actions_resize(const struct actions *a)
{
	return (a->news & NEWS_SIZE) && (a->new_size != a->size || a->new_accum != a->accum);
}

/* The servers weight the gradients (adjust-lr); here only the batch changes. */
int actions_obey(struct actions *a, uint64_t iteration)
{
	int news = a->news, changed = a->new_size != a->size || a->new_accum != a->accum;
	a->news = 0;
	a->size = a->new_size;
	a->accum = a->new_accum;
	if (news & NEWS_SIZE)
		log_applied(a, "adjust-bs", iteration);
	if (news & NEWS_SCALE)
		log_applied(a, "adjust-lr", iteration);
	return changed;
}

uint64_t actions_rows_to_ask(uint64_t batch, uint64_t ahead, uint64_t held)
{
	uint64_t most = batch * ahead, half = ahead > 1 ? batch * (ahead / 2) : batch;
	if (held >= batch && held * 2 > most)
		return 0;
	return most - held < half ? most - held : half;
}

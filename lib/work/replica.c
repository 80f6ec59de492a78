/* replica: see replica.h. */
#include "work/replica.h"

#include "base/clock.h"
#include "param/map.h"
#include "work/lead_client.h"
#include "work/part_clients.h"

#include <stdlib.h>
#include <string.h>

struct replica {
	struct exchange exchange; /* first */
	struct replica_options options;
	struct map map;
	struct part_clients parts; /* one part: it has all */
	struct conversation lead;
	/* With a delay: */
	const struct batch *ahead;     /* its parameters are here; NULL: none */
	struct exchange_values values; /* of that batch */
	float *dense;                  /* a copy of the replica's */
	/* Not answered by the lead: the last push; that we compute. */
	int is_flying, computes;
	/* The answer to the last push, if it came while we computed. */
	int is_heard, is_dropped;
	uint64_t heard;
	uint64_t late_iteration; /* where a late batch belongs */
};

static struct replica *replica_of(struct exchange *x)
{
	return (struct replica *)(void *)x;
}

/* What is not answered belongs to a connection, or a generation, that is over. */
static void replica_forget(struct replica *s)
{
	s->ahead = NULL;
	s->is_flying = s->computes = s->is_heard = s->exchange.late = 0;
}

static void replica_disconnect(struct exchange *x)
{
	part_clients_close(&replica_of(x)->parts);
	conversation_close(&replica_of(x)->lead);
	replica_forget(replica_of(x));
}

static void replica_free(struct exchange *x)
{
	replica_disconnect(x);
	part_clients_free(&replica_of(x)->parts);
	free(replica_of(x)->dense);
	free(x);
}

static const struct map *replica_map(const struct exchange *x)
{
	return &((const struct replica *)(const void *)x)->map;
}

static int replica_connected(const struct exchange *x)
{
	const struct replica *s = (const struct replica *)(const void *)x;
	return s->lead.call && part_clients_connected(&s->parts);
}

static void replica_identify(struct exchange *x, uint64_t generation, uint64_t incarnation)
{
	struct replica *s = replica_of(x);
	part_clients_identify(&s->parts, generation, incarnation);
	s->lead.generation = generation;
	s->lead.incarnation = incarnation;
	replica_forget(s);
}

/* When one of them is gone, the lead must not wait for us either; and nobody needs an answer that
 * is still open. */
static int replica_end_of(struct replica *s, int result, int open)
{
	if (result == WORK_RESET || (result != WORK_OK && open))
		replica_disconnect(&s->exchange);
	return result;
}

/* ---- connecting ---- */

static int replica_check_greeting(const struct record *r, const void *options, struct error *err)
{
	const struct replica_options *o = options;
	uint64_t dense, width;
	if (!record_get(r, "replica"))
		return error_set(err, ERROR_CONFIG, "", "is no replica");
	if (record_u64(r, "dense", 0, UINT64_MAX, &dense, err) != 0 ||
	    record_u64(r, "width", 0, UINT32_MAX, &width, err) != 0)
		return -1;
	if (dense == o->dense_count && width == o->width)
		return 0;
	return error_set(err, ERROR_CONFIG, "",
			 "serves another model: %llu dense parameters and rows of %llu, not %llu "
			 "and %u",
			 (unsigned long long)dense, (unsigned long long)width,
			 (unsigned long long)o->dense_count, o->width);
}

static int replica_connect(struct exchange *x, uint64_t *low, uint64_t *high, struct error *err)
{
	struct replica *s = replica_of(x);
	double deadline = clock_mono() + s->options.talk.wait_seconds;
	uint64_t lead;
	int result = part_clients_connect(&s->parts, deadline, low, high, err);
	if (result == WORK_OK && !s->lead.call)
		result = conversation_connect(&s->lead, deadline, err);
	if (result != WORK_OK)
		return replica_end_of(s, result, 0);
	if (conversation_incarnation(&s->lead, &lead, err) != 0)
		return -1;
	x->is_watched = s->options.delay && record_get(call_greeting(s->lead.call), "late");
	*low = lead < *low ? lead : *low;
	*high = lead > *high ? lead : *high;
	return WORK_OK;
}

/* ---- what is told to the lead alone ---- */

static int replica_join(struct exchange *x, const struct exchange_member *member,
			uint64_t *iteration, struct error *err)
{
	struct replica *s = replica_of(x);
	const char *id = record_get(call_greeting(s->parts.part[0].talk.call), "id");
	int result = part_clients_drop_early(&s->parts, HASTY, err);
	if (result == WORK_OK)
		result = lead_client_join(&s->lead, member, id, iteration, err);
	return replica_end_of(s, result, result == WORK_STOP);
}

static int replica_leave(struct exchange *x, int brief, uint64_t idle, struct error *err)
{
	struct replica *s = replica_of(x);
	if (!s->lead.call)
		return WORK_RESET;
	s->lead.brief = brief;
	int result = part_clients_drop_early(&s->parts, PATIENT, err);
	if (result == WORK_OK)
		result = lead_client_leave(&s->lead, idle, err);
	s->lead.brief = 0;
	return replica_end_of(s, result, result == WORK_STOP);
}

static int replica_end(struct exchange *x, struct error *err)
{
	struct replica *s = replica_of(x);
	int result = part_clients_drop_early(&s->parts, HASTY, err);
	if (result == WORK_OK)
		result = lead_client_end(&s->lead, err);
	return replica_end_of(s, result, result == WORK_STOP);
}

/* ---- a batch ---- */

static int copy_dense(struct replica *s, struct exchange_values *values, struct error *err)
{
	size_t bytes = s->options.dense_count * sizeof(float);
	if (!s->dense && !(s->dense = malloc(bytes + 1)))
		return error_set(err, ERROR_OS, "", "out of memory");
	memcpy(s->dense, values->dense, bytes);
	values->dense = s->dense;
	return WORK_OK;
}

static int pull_here(struct replica *s, uint64_t iteration, const struct batch *b,
		     struct exchange_values *values, struct error *err)
{
	int result = part_clients_pull(&s->parts, iteration, b, values, err);
	if (result == WORK_OK && s->options.delay && s->parts.part[0].looked)
		return copy_dense(s, values, err);
	return result;
}

/* Nobody waits for a late batch, so that a step may be made while dense parameters are copied: then
 * the replica is at another iteration afterwards, and they are copied again. */
static int pull_unawaited(struct replica *s, uint64_t iteration, const struct batch *b,
			  struct exchange_values *values, struct error *err)
{
	int result = pull_here(s, iteration, b, values, err);
	const float *dense = values->dense;
	while (result == WORK_OK) {
		uint64_t copied = s->parts.as_of;
		result = part_clients_pull(&s->parts, iteration, b, values, err);
		if (result != WORK_OK || s->parts.as_of == copied)
			break;
		if (s->parts.part[0].looked)
			result = copy_dense(s, values, err);
	}
	if (s->parts.part[0].looked)
		values->dense = dense;
	return result;
}

/* Tells the lead that a batch is computed from now on, or is done. */
static int tell_compute(struct replica *s, int done, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&s->lead, &o, line, "compute");
	if (done)
		record_add_u64(&o, "done", 1);
	return conversation_ask(&s->lead, &o, NULL, 0, err);
}

static int replica_pull(struct exchange *x, uint64_t iteration, const struct batch *b,
			struct exchange_values *values, struct error *err)
{
	struct replica *s = replica_of(x);
	int is_here = s->ahead == b, was_late = x->late, result = WORK_OK;
	s->ahead = NULL;
	x->late = 0;
	if (x->is_watched) {
		result = tell_compute(s, 0, err);
		s->computes = 1;
	}
	if (result != WORK_OK)
		return replica_end_of(s, result, 1);
	if (is_here)
		*values = s->values;
	else if (was_late) /* it may miss an iteration, as all do */
		result = pull_unawaited(s, iteration - 1, b, values, err);
	else
		result = pull_here(s, iteration, b, values, err);
	return replica_end_of(s, result, result == WORK_FENCED || result == WORK_STOP);
}

static void replica_final(struct exchange *x, uint64_t sequence, uint64_t iteration, size_t begin,
			  size_t count)
{
	struct replica *s = replica_of(x);
	struct part_client *p = &s->parts.part[0];
	if (!part_client_fits(p) || s->options.delay) /* the iteration before may be under way */
		return;
	part_client_final(p, sequence, iteration, begin, count);
}

static int push_to_replica(struct replica *s, const struct exchange_push *push,
			   const struct batch *b, struct error *err)
{
	struct conversation *c = &s->parts.part[0].talk;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(c, &o, line, "push");
	lead_client_add_push(&o, push, b);
	int result = part_clients_push(&s->parts, 0, &o, push->sequence, b, err);
	return result == WORK_OK ? conversation_answer(c, PATIENT, err) : result;
}

/* pulled: the iteration of the parameters from which this push was computed. */
static int push_to_lead(struct replica *s, const struct exchange_push *push, const struct batch *b,
			uint64_t pulled, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&s->lead, &o, line, "push");
	lead_client_add_push(&o, push, b);
	lead_client_add_report(&o, push);
	if (s->options.delay)
		record_add_u64(&o, "pulled", pulled);
	record_add_u64(&o, "dense", 0);
	record_add_u64(&o, "rows", 0);
	s->is_flying = 1;
	return conversation_ask(&s->lead, &o, NULL, 0, err);
}

/* The lead has not heard of this push: the parameters of its iteration stay as they are. */
static int pull_ahead(struct replica *s, struct exchange_push *push, const struct batch *next,
		      struct error *err)
{
	int result = pull_here(s, push->iteration, next, &s->values, err);
	if (result != WORK_OK)
		return result;
	push->waited = s->values.waited;
	s->values.waited = 0;
	s->ahead = next;
	return WORK_OK;
}

static int replica_push(struct exchange *x, struct exchange_push *push, const struct batch *b,
			const struct batch *next, struct error *err)
{
	struct replica *s = replica_of(x);
	uint64_t pulled = s->parts.as_of;
	int result = push_to_replica(s, push, b, err);
	if (result == WORK_OK && s->options.delay && next)
		result = pull_ahead(s, push, next, err);
	if (result == WORK_OK)
		result = push_to_lead(s, push, b, pulled, err);
	if (result == WORK_OK && !s->options.delay)
		result = part_clients_ask_early(&s->parts, push, b, next, err);
	return replica_end_of(s, result,
			      result == WORK_FENCED || result == WORK_STOP || s->parts.early);
}

/* The answer to the last push. */
static int hear_push(struct replica *s, struct error *err)
{
	int result = lead_client_wait(&s->lead, &s->heard, err);
	s->is_flying = 0;
	s->is_heard = 1;
	s->is_dropped = result == WORK_OK && record_get(&s->lead.record, "dropped");
	return result;
}

/* The lead says that the batch is late, or that it knows it is done. */
static int hear_late(struct replica *s, struct error *err)
{
	int result = conversation_answer(&s->lead, PATIENT, err);
	s->computes = 0;
	s->exchange.late = result == WORK_OK && record_get(&s->lead.record, "late");
	if (!s->exchange.late)
		return result;
	if (record_u64(&s->lead.record, "iteration", 1, UINT64_MAX, &s->late_iteration, err) != 0)
		return error_wrap(err, s->lead.options.path);
	return WORK_OK;
}

static int replica_heed(struct exchange *x, double seconds, struct error *err)
{
	struct replica *s = replica_of(x);
	int result = WORK_OK;
	if (!s->computes)
		clock_sleep(seconds);
	else if (conversation_is_here(&s->lead, seconds))
		result = s->is_flying ? hear_push(s, err) : hear_late(s, err);
	return replica_end_of(s, result, 1);
}

static int replica_computed(struct exchange *x, uint64_t *iteration, struct error *err)
{
	struct replica *s = replica_of(x);
	int result = WORK_OK;
	if (s->computes) {
		result = tell_compute(s, 1, err);
		if (result == WORK_OK && s->is_flying)
			result = hear_push(s, err);
		if (result == WORK_OK)
			result = hear_late(s, err);
		if (result == WORK_OK) /* to done= */
			result = conversation_answer(&s->lead, PATIENT, err);
	}
	if (x->late)
		*iteration = s->late_iteration;
	return replica_end_of(s, result, 1);
}

static int replica_wait(struct exchange *x, uint64_t *iteration, struct error *err)
{
	struct replica *s = replica_of(x);
	int result = s->is_heard ? WORK_OK : hear_push(s, err);
	s->is_heard = 0;
	*iteration = s->heard;
	x->dropped = s->is_dropped;
	if (result == WORK_OK)
		result = part_clients_check_early(&s->parts, *iteration);
	return replica_end_of(s, result, result == WORK_STOP || s->parts.early);
}

static const struct exchange_kind replica_kind = {
	.free = replica_free,
	.map = replica_map,
	.connect = replica_connect,
	.disconnect = replica_disconnect,
	.connected = replica_connected,
	.identify = replica_identify,
	.join = replica_join,
	.leave = replica_leave,
	.end = replica_end,
	.pull = replica_pull,
	.final = replica_final,
	.push = replica_push,
	.heed = replica_heed,
	.computed = replica_computed,
	.wait = replica_wait,
};

int replica_new(struct exchange **out, const struct replica_options *options, struct error *err)
{
	struct replica *s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(err, ERROR_OS, "", "out of memory");
	s->exchange.kind = &replica_kind;
	s->options = *options;
	map_even(&s->map, 1, options->dense_count);
	if (part_clients_new(&s->parts, &s->map, options->width, err) != 0) {
		free(s);
		return -1;
	}
	struct conversation_options *lead = &s->lead.options,
				    *talk = &s->parts.part[0].talk.options;
	*lead = *talk = options->talk;
	lead->path = options->lead;
	lead->check = lead_client_check;
	talk->path = options->replica;
	talk->once = 1;
	talk->check = replica_check_greeting;
	talk->wanted = &s->options;
	talk->action = NULL;
	s->parts.part[0].key_count = options->key_count;
	s->parts.part[0].looks = 1;
	s->parts.part[0].two_pushes = options->delay;
	*out = &s->exchange;
	return 0;
}

/*
 * What the lead can be asked: each request becomes an event of the gate, whose effects answer it.
 */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "lead/turns.h"
#include "param/map.h"
#include "record/record.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SPEED_MAX 1e18 /* samples a second */
#define ANNOUNCED_BYTES_MAX (UINT64_C(1) << 42) /* to a part */
#define LOSS_MAX 1e30  /* of a push: the sum of any number of them is finite */

/* ---- workers ---- */

int lead_who(struct request *rq, struct gate_who *who, struct error *err)
{
	const struct record *r = request_record(rq);

	memset(who, 0, sizeof *who);
	who->connection = connection_number(request_connection(rq));
	return record_id(r, "worker", &who->worker, err) != 0 ||
			       record_u64(r, "generation", 1, UINT64_MAX - 1, &who->generation,
					  err) != 0 ||
			       record_u64(r, "incarnation", 0, UINT64_MAX, &who->incarnation,
					  err) != 0
		       ? -1
		       : 0;
}

int lead_is_of_member(const struct lead *l, struct request *rq, const struct gate_who *who)
{
	if (who->incarnation == l->options.gate.incarnation &&
	    gate_is_member(l->gate, who->worker, who->generation))
		return 1;
	request_err(rq, "no-member", "%s is not of this generation", who->worker);
	return 0;
}

static void member_event(struct request *rq, struct lead *l,
			 void (*event)(struct gate *g, const struct gate_who *who))
{
	struct gate_who who;
	struct error err = {0};

	if (lead_who(rq, &who, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	who.token = lead_defer(l, rq);
	if (!who.token)
		return;
	event(l->gate, &who);
	lead_pump(l);
}

/* Takes the replica that the worker names. 0: there is none of that name, and rq was answered. */
static int pushes_to(struct lead *l, struct request *rq, const struct gate_who *who)
{
	const char *replica = record_get(request_record(rq), "replica");

	if (replica && gate_pushes_to(l->gate, who, replica) == 0)
		return 1;
	request_err(rq, "no-replica", "%s%.64s%s of the %zu replicas",
		    replica ? "'" : "replica= is missing: give one", replica ? replica : "",
		    replica ? "' is none" : "", l->options.replica_count);
	return 0;
}

static void on_join(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct gate_who who;
	struct error err = {0};
	double speed = 0.0;
	uint64_t most = 0, begins = 0, world = 0, version = GATE_NO_STATE, beginning = 0;

	if (record_u64_opt(request_record(rq), "begins", 0, 1, &begins, &err) != 0 ||
	    record_u64_opt(request_record(rq), "world", 1, GATE_WORKERS_MAX, &world, &err) != 0 ||
	    record_u64_opt(request_record(rq), "version", 0, GATE_NO_STATE - 1, &version, &err) != 0 ||
	    record_u64_opt(request_record(rq), "beginning", 0, UINT64_MAX, &beginning, &err) != 0 ||
	    record_real_opt(request_record(rq), "speed", 0.0, SPEED_MAX, &speed, &err) != 0 ||
	    record_u64_opt(request_record(rq), "max", 0, UINT64_MAX, &most, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (lead_who(rq, &who, &err) == 0 && who.incarnation == l->options.gate.incarnation) {
		gate_state(l->gate, &who, version, beginning);
		if (l->replicas && !pushes_to(l, rq, &who))
			return;
		if (l->options.sums)
			lead_replicas_ask(l, record_get(request_record(rq), "replica"));
		if (speed > 0.0)
			gate_speed(l->gate, &who, speed);
		gate_most(l->gate, &who, most);
		if (begins)
			gate_takes_part(l->gate, &who, world);
		lead_trainers_join(l, request_record(rq));
		lead_expect(l);
		lead_replicas_wait(l);
	}
	member_event(rq, l, gate_join);
}

/* A worker that keeps the parameters itself: what its next batch is. */
static void requests_on_begin(struct request *rq, void *lead)
{
	struct lead *l = lead;
	const struct record *r = request_record(rq);
	struct gate_who who;
	struct gate_batch batch = {0};
	struct error err = {0};
	uint64_t with_none = 0, ahead = 0;

	if (lead_who(rq, &who, &err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX - 1, &batch.iteration, &err) != 0 ||
	    record_u64(r, "count", 0, ORDER_COUNT_MAX, &batch.count, &err) != 0 ||
	    record_u64_opt(r, "empty", 0, 1, &with_none, &err) != 0 ||
	    record_u64_opt(r, "ahead", 0, 1, &ahead, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	batch.with_none = with_none != 0;
	batch.is_ahead = ahead != 0;
	who.token = lead_defer(l, rq);
	if (!who.token)
		return;
	gate_take_part(l->gate, &who, &batch);
	lead_pump(l);
}

static void requests_on_leave(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct gate_who who;
	struct error err = {0};
	uint64_t idle = 0;

	if (record_u64_opt(request_record(rq), "idle", 0, ORDER_COUNT_MAX, &idle, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (idle && lead_who(rq, &who, &err) == 0)
		gate_idle(l->gate, &who, idle);
	member_event(rq, lead, gate_leave);
}

static void requests_on_end(struct request *rq, void *lead)
{
	member_event(rq, lead, gate_end);
}

/* A trainer says that the model is trained enough, or the supervisor does. Only who watches can end
 * the job: whoever comes to watch later is told, too. */
static void requests_on_enough(struct request *rq, void *lead)
{
	struct lead *l = lead;
	const char *why = record_get(request_record(rq), "why");
	struct gate_who who = {0};
	struct error err = {0};

	if (!l->options.gate.foreign) {
		request_err(rq, "bad-request", "only for workers that have parameters themselves");
		return;
	}
	if (record_get(request_record(rq), "worker") && lead_who(rq, &who, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	int is_first = who.worker && !l->enough[0] &&
		       who.incarnation == l->options.gate.incarnation &&
		       gate_is_member(l->gate, who.worker, who.generation);
	if (is_first) {
		struct record_out *o = RECORD("enough", F("worker", who.worker), F("why", why ? why : ""));
		size_t len = record_end(o, NULL);
		memcpy(l->enough, o->data, len + 1);
		watchers_say(l->watchers, l->enough, len);
	}
	who.token = lead_defer(l, rq);
	if (!who.token)
		return;
	gate_enough(l->gate, &who);
	lead_pump(l);
}

/* What a trainer measures of its model, for watchers and checkpoints. */
static void requests_on_report(struct request *rq, void *lead)
{
	struct lead *l = lead;
	const char *values;
	struct gate_who who = {0};
	struct error err = {0};

	if (lead_who(rq, &who, &err) != 0 ||
	    record_text(request_record(rq), "values", &values, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!lead_is_of_member(l, rq, &who))
		return;
	struct record_out *o = RECORD("report", F("worker", who.worker),
				      F("iteration", gate_iteration(l->gate)), F("values", values));
	size_t len = record_end(o, NULL);
	watchers_say(l->watchers, o->data, len);
	if (strlen(values) < sizeof l->reported)
		strcpy(l->reported, values);
	request_ok(rq, NULL);
}

void lead_closed(struct connection *c, void *lead)
{
	struct lead *l = lead;

	gate_closed(l->gate, connection_number(c));
	lead_pump(l);
}

/* What the worker says of this batch and the next. */
static int numbers_read(const struct record *r, struct gate_push *push, struct error *err)
{
	return record_real_opt(r, "speed", 0.0, SPEED_MAX, &push->speed, err) != 0 ||
			       record_real_opt(r, "time", 0.0, 1e9, &push->time, err) != 0 ||
			       record_real_opt(r, "mem", 0.0, 1.0, &push->mem, err) != 0 ||
			       record_u64_opt(r, "max", 0, UINT64_MAX, &push->most, err) != 0
		       ? -1
		       : 0;
}

/* The sum of losses. One that is not finite, or as good as that, says that the model has diverged:
 * applying its gradient would spread that to all parameters, unseen. */
static int loss_read(struct request *rq, double *loss, int *diverged, struct error *err)
{
	const char *text = record_get(request_record(rq), "loss");

	*loss = 0.0;
	*diverged = text && (!*text || strcasestr(text, "nan") || strcasestr(text, "inf"));
	if (!text || *diverged)
		return 0;
	if (record_real(request_record(rq), "loss", -DBL_MAX, DBL_MAX, loss, err) != 0)
		return -1;
	*diverged = fabs(*loss) > LOSS_MAX;
	return 0;
}

static int push_read(const struct record *r, struct gate_range *range, struct gate_push *push,
		     struct error *err)
{
	const char *ranges = record_get(r, "ranges");

	return gate_ranges_parse(ranges ? ranges : "", range, &push->ranges, err) != 0 ||
			       record_u64(r, "sequence", 0, UINT64_MAX - 1, &push->sequence, err) !=
				       0 ||
			       record_u64(r, "iteration", 0, UINT64_MAX - 1, &push->iteration,
					  err) != 0 ||
			       record_u64(r, "count", 0, ORDER_COUNT_MAX, &push->count, err) != 0 ||
			       record_u64_opt(r, "skipped", 0, ORDER_COUNT_MAX, &push->skipped,
					      err) != 0 ||
			       record_u64_opt(r, "size", 0, ORDER_COUNT_MAX, &push->size, err) !=
				       0 ||
			       record_u64_opt(r, "pulled", 0, UINT64_MAX - 1, &push->pulled, err) !=
				       0 ||
			       record_u64_opt(r, "group", 0, UINT64_MAX, &push->group, err) != 0 ||
			       numbers_read(r, push, err) != 0
		       ? -1
		       : 0;
}

/* Where there are no parameters, a push has no gradient. */
static enum part_staged stage_nothing(struct lead *l, struct request *rq, const char *unfit)
{
	const struct record *r = request_record(rq);
	uint64_t dense = 0, rows = 0;
	struct error err = {0};

	if (unfit) {
		if (log_is_worth(++l->diverged))
			log_say(LOG_LEVEL_WARNING, "a push of %s is refused: %s; %llu so far",
				record_get(r, "worker"), unfit, (unsigned long long)l->diverged);
		request_err(rq, "diverged", "worker %s, iteration %s: %s", record_get(r, "worker"),
			    record_get(r, "iteration"), unfit);
		return PART_UNFIT;
	}
	if (record_u64_opt(r, "dense", 0, 0, &dense, &err) != 0 ||
	    record_u64_opt(r, "rows", 0, 0, &rows, &err) != 0)
		request_err(rq, "bad-request", "there are no parameters here: %s", err.text);
	else if (request_payload(rq) && payload_bytes(request_payload(rq)))
		request_err(rq, "bad-request", "there are no parameters here, and no gradient");
	else
		return PART_STAGED;
	return PART_BAD;
}

static enum part_staged stage(struct lead *l, struct request *rq, const char *unfit)
{
	const struct part_here *here = lead_parts_here(l->parts);

	return here ? here->stage(here->part, rq, unfit) : stage_nothing(l, rq, unfit);
}

/* A member whose gradient can't be applied is waited for no longer: it has no other one for these
 * rows. */
static void on_push(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct gate_range range[GATE_RANGES_MAX];
	struct gate_push push = {.range = range, .pulled = GATE_PULLED_UNKNOWN};
	struct gate_who who;
	struct error err = {0};
	int diverged;
	uint64_t map = 1;
	enum part_staged staged = PART_STAGED;

	if (push_read(request_record(rq), range, &push, &err) != 0 ||
	    loss_read(rq, &push.loss, &diverged, &err) != 0 || lead_who(rq, &who, &err) != 0 ||
	    record_u64_opt(request_record(rq), "map", 0, UINT64_MAX, &map, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	int wanted = gate_wants(l->gate, &who, push.sequence);
	if (wanted && !lead_map_is(l, map)) {
		lead_refuse_map(l, rq);
		return;
	}
	if (wanted)
		staged = stage(l, rq, diverged ? "the loss is not finite, or beyond 1e30" : NULL);
	if (staged == PART_UNFIT)
		gate_unfit(l->gate, &who, push.sequence);
	l->told += staged == PART_STAGED && record_get(request_record(rq), "loss");
	if (l->options.gate.announces)
		lead_clock(l);
	if (staged == PART_STAGED && (who.token = lead_defer(l, rq)) != 0)
		gate_push(l->gate, &who, &push);
	lead_pump(l);
}

/* "N,N,...": bytes to each part. */
static int sizes_read(const struct record *r, uint64_t *part, size_t *parts, struct error *err)
{
	const char *sizes = record_get(r, "sizes"), *text = sizes;
	char number[24];

	for (*parts = 0; text && *text; ++*parts) {
		size_t len = strcspn(text, ",");
		snprintf(number, sizeof number, "%.*s", (int)(len < 23 ? len : 23), text);
		if (*parts == MAP_PARTS_MAX ||
		    number_u64(number, 0, ANNOUNCED_BYTES_MAX, &part[*parts], "sizes", err) != 0 ||
		    (text[len] && !text[len + 1]))
			return error_set(err, ERROR_DATA, NULL,
					 "sizes=%.64s are no bytes to each part", sizes);
		text += len + (text[len] == ',');
	}
	return 0;
}

static void on_announce(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct gate_range range[GATE_RANGES_MAX];
	uint64_t part[MAP_PARTS_MAX];
	struct gate_push push = {.range = range, .part = part, .pulled = GATE_PULLED_UNKNOWN};
	struct gate_who who;
	struct error err = {0};

	if (push_read(request_record(rq), range, &push, &err) != 0 ||
	    sizes_read(request_record(rq), part, &push.parts, &err) != 0 ||
	    lead_who(rq, &who, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	who.token = lead_defer(l, rq);
	if (!who.token)
		return;
	lead_clock(l);
	gate_announce(l->gate, &who, &push);
	lead_pump(l);
}

static void on_compute(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct gate_who who;
	struct error err = {0};
	uint64_t done = 0;

	if (lead_who(rq, &who, &err) != 0 ||
	    record_u64_opt(request_record(rq), "done", 0, 1, &done, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	who.token = lead_defer(l, rq);
	if (!who.token)
		return;
	lead_clock(l);
	gate_compute(l->gate, &who, done != 0);
	lead_pump(l);
}

void lead_seen(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct gate_who who;
	struct error ignored;

	if (l->taken && lead_who(rq, &who, &ignored) == 0)
		gate_here(l->gate, who.worker, who.generation, who.connection);
}

/* ---- the supervisor ---- */

static void requests_on_fence(struct request *rq, void *lead)
{
	struct lead *l = lead;
	const char *worker;
	uint64_t generation, token;
	struct error err = {0};

	if (record_id(request_record(rq), "worker", &worker, &err) != 0 ||
	    record_u64(request_record(rq), "generation", 0, UINT64_MAX - 2, &generation, &err) !=
		    0) {
		request_bad(rq, &err);
		return;
	}
	token = lead_defer(l, rq);
	if (!token)
		return;
	gate_fence(l->gate, worker, generation, token);
	lead_pump(l);
}

static void requests_on_cut(struct request *rq, void *lead)
{
	struct lead *l = lead;
	const char *path;
	struct error err = {0};

	if (l->options.gate.foreign && !gate_tells_all(l->gate)) {
		request_err(rq, "no-part",
			    "there are no parameters here, and a member that could not be told; "
			    "shardd saves its queue");
		return;
	}
	if (record_text(request_record(rq), "path", &path, &err) != 0 || !*path) {
		request_err(rq, "bad-request", "path=DIRECTORY is wanted");
		return;
	}
	lead_cut_begin(l, rq, path, record_get(request_record(rq), "base"));
	lead_pump(l);
}

static void requests_on_act(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct payload *payload = request_payload(rq);
	struct error err = {0};
	uint64_t number = 0;

	if (record_u64_opt(request_record(rq), "number", 1, UINT64_MAX, &number, &err) != 0) {
		request_bad(rq, &err);
		return;
	}
	if (!payload || payload_bytes(payload) > ACTIONS_BYTES_MAX) {
		request_err(rq, "bad-request",
			    "a payload of action lines is missing; at most %u bytes",
			    ACTIONS_BYTES_MAX);
		return;
	}
	/* A copy: the client could change mapped memory between check and use. */
	size_t len = payload_bytes(payload);
	char *lines = malloc(len + 1);
	uint64_t token = lines ? lead_defer(l, rq) : 0;
	if (!token) {
		if (!lines)
			request_err(rq, "no-memory", NULL);
		free(lines);
		return;
	}
	memcpy(lines, payload_data(payload), len);
	if (gate_act(l->gate, lines, len, number, token, &err) != 0) {
		struct request *refused = lead_undefer(l, token);
		if (err.code == ERROR_NOPERM)
			request_err(refused, "balanced", "%s", err.text);
		else
			request_bad(refused, &err);
	}
	free(lines);
	lead_pump(l);
}

static struct rows_fields row_fields(const struct lead *l, double now)
{
	return (struct rows_fields){.samples = l->samples,
				    .members = gate_active(l->gate),
				    .delays = gate_delays(l->gate),
				    .at = clock_epoch(),
				    .time = now - l->started};
}

static void requests_on_finish(struct request *rq, void *lead)
{
	struct lead *l = lead;
	uint64_t token = lead_defer(l, rq);

	if (!token)
		return;
	struct rows_fields f = row_fields(l, clock_mono());
	watchers_end(l->watchers, gate_iteration(l->gate), &f);
	gate_finish(l->gate, token);
	lead_pump(l);
}

struct members {
	const struct lead *lead;
	struct request *rq;
};

static void put_member(const struct gate_member *m, void *arg)
{
	const struct members *members = arg;
	struct record_out *o = RECORD(
		"member", F("worker", m->worker), F("generation", m->generation),
		F("iteration", m->iteration), F("state", m->state),
		F("owes", m->owes ? "push" : ""), F("pushes", m->pushes), F("samples", m->samples),
		F("size", m->size), m->grant[0] ? F("grant", m->grant) : F_NONE);
	delay_put(o, m->delays);
	if (m->replica[0])
		record_add(o, "replica", m->replica);
	if (lead_trainers_saves(members->lead, m->worker, m->generation))
		record_add(o, "saves", "1");
	lead_trainers_put(members->lead, m, o);
	request_put_record(members->rq, o);
}

static void requests_on_members(struct request *rq, void *lead)
{
	struct members members = {.lead = lead, .rq = rq};
	const struct part_here *here = lead_parts_here(members.lead->parts);
	if (gate_members(members.lead->gate, put_member, &members) != 0) {
		request_err(rq, "no-memory", "to sort the members");
		return;
	}
	struct record_out *o = RECORD_BARE("ok");
	if (here)
		here->standby(here->part, o);
	request_ok_record(rq, o);
}

static void requests_on_stat(struct request *rq, void *lead)
{
	struct lead *l = lead;
	const struct part_here *here = lead_parts_here(l->parts);
	const struct sizes *sizes = &l->sizes;
	const struct settling *s = &l->settling;
	struct record_out *o = RECORD("stat", F("id", l->options.id));
	if (here)
		here->stat(here->part, o);
	else {
		record_add_u64(o, "iteration", gate_iteration(l->gate));
		record_add_u64(o, "incarnation", l->options.gate.incarnation);
		record_add_u64(o, "diverged", l->diverged);
	}
	record_add_u64(o, "members", gate_active(l->gate));
	record_add_u64(o, "balances", sizes->asked);
	record_add_brief(o, "balance-us",
			 sizes->asked ? sizes->seconds / (double)sizes->asked * 1e6 : 0.0);
	record_add_u64(o, "settles", s->answers);
	record_add_brief(o, "settle-us", s->answers ? s->seconds / (double)s->answers * 1e6 : 0.0);
	delay_put(o, gate_delays(l->gate));
	if (l->options.gate.bounds_delay)
		record_add_u64(o, "delay-max", l->options.gate.delay_max);
	if (l->options.gate.announces)
		record_add_u64(o, "spared-bytes", gate_spared(l->gate));
	if (l->options.schedules) {
		record_add_u64(o, "links", turns_links(l->turns));
		record_add_u64(o, "groups", gate_groups(l->gate));
		record_add_u64(o, "far-groups", gate_far_groups(l->gate));
	}
	if (l->replicas) {
		char names[RECORD_LINE_MAX / 2];
		lead_replicas_names(l, names, sizeof names);
		record_add_u64(o, "refused", l->refusals);
		record_add(o, "replicas", names);
		record_add_u64(o, "round", gate_round(l->gate));
	}
	if (l->term || l->replicas)
		record_add_u64(o, "term", l->term);
	request_put_record(rq, o);
	request_ok(rq, NULL);
}

/* ---- rows for watchers ---- */

static void requests_on_watch(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct error err = {0};
	double every = 0.0;

	if (record_real_opt(request_record(rq), "every", 0.0, 1e9, &every, &err) != 0)
		request_bad(rq, &err);
	else
		watchers_add(&l->watchers, rq, every, gate_iteration(l->gate), clock_mono());
	if (l->enough[0])
		watchers_say(l->watchers, l->enough, strlen(l->enough));
}

void lead_rows(struct lead *l, uint64_t iteration, uint64_t samples, double loss)
{
	struct rows_unit unit = {iteration, samples, loss, l->told};
	double now = clock_mono();

	l->samples += samples;
	struct rows_fields f = row_fields(l, now);
	watchers_row(l->watchers, &unit, &f, now);
}

#define WHO_KEYS "worker generation incarnation"

const struct verb lead_verbs[] = {
	{"push", WHO_KEYS " sequence iteration count",
	 "dense rows size skipped ranges pulled loss speed time mem map group members here at "
	 "dense-bytes "
	 "sum "
	 "sum-of",
	 on_push, PART_PAYLOAD_BYTES_MAX,
	 "gradients; answered when they are committed and applied"},
	{"announce", WHO_KEYS " sequence iteration count sizes", "size skipped ranges pulled",
	 on_announce, 0, "a push that could be sent; answered when it may be, or is dropped"},
	{"compute", WHO_KEYS, "done", on_compute, 0,
	 "a batch is begun, or done; answered when it is done, or when the sum goes on without it"},
	{"join", WHO_KEYS, "size speed max replica begins world boot version", on_join, 0,
	 "become a member, at the next iteration"},
	{"begin", WHO_KEYS " iteration count", "empty ahead", requests_on_begin, 0,
	 "for a worker that has parameters itself: it begins its next batch; answered when all "
	 "workers have begun"},
	{"leave", WHO_KEYS, "idle", requests_on_leave, 0,
	 "units no longer wait for this worker; idle: nothing is handed out to it, and so many samples "
	 "still count"},
	{"end", WHO_KEYS, "", requests_on_end, 0,
	 "no work is left; answered when the job is finished"},
	{"enough", "", WHO_KEYS " why", requests_on_enough, 0,
	 "the model is trained enough: no iteration begins any more; of a worker that has parameters itself, or the "
	 "supervisor"},
	{"report", WHO_KEYS " values", "", requests_on_report, 0,
	 "what such a worker measures of its model, for those that watch"},
	{"saved", WHO_KEYS " iteration", "path failed why", lead_on_saved, LEAD_SAVED_BYTES_MAX,
	 "what such a worker has written for a checkpoint; payload: its files"},
	{"given", WHO_KEYS " attempt", "iteration failed why", lead_on_given, 0,
	 "its state is with its replica, for workers that join; or it could not be"},
	{"trainer", WHO_KEYS, "waits pauses stopped state wchan", lead_on_trainer, 0,
	 "what an agent sees of its trainer, when it has changed"},
	{"fence", "worker generation", "", requests_on_fence, 0,
	 "the supervisor: refuse generations up to this one"},
	{"cut", "path", "base", requests_on_cut, 0,
	 "the supervisor: a checkpoint into a new directory"},
	{"parts", "", "", lead_on_parts, 0, "which part has which parameters"},
	{"move", "parts", "servers piece-bytes", lead_on_move, ORDER_BYTES_MAX,
	 "the supervisor: give the parameters to these parts; payload: where each begins"},
	{"rebalance", "", "gain", lead_on_rebalance, 0,
	 "the supervisor: give all parts the same work, if that gains enough"},
	{"act", "", "number", requests_on_act, ACTIONS_BYTES_MAX,
	 "the supervisor: actions for all workers; payload: their lines"},
	{"links", "", "", lead_on_links, ORDER_BYTES_MAX,
	 "the supervisor: rates of links, and who is on which host"},
	{"finish", "", "", requests_on_finish, 0, "the supervisor: workers that said end may go"},
	{"watch", "", "every", requests_on_watch, 0,
	 "a row of progress now and then, until you go"},
	{"members", "", "", requests_on_members, 0, "who takes part"},
	{"stat", "", "", requests_on_stat, 0, "what is here"},
};
const size_t lead_verb_count = sizeof lead_verbs / sizeof *lead_verbs;

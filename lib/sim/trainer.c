/* Workers: the life of trainer.h (lib/work), with planned times in place of processes. */
#include "sim/sim_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_AGAIN_SECONDS 1.0 /* who has nothing to do; as worker(1) */

struct gate_who worker_who(const struct sim *s, const struct sim_node *n)
{
	uint64_t process = sim_process(s, n);
	return (struct gate_who){.worker = n->id, .seat = n->seat, .generation = n->generation, .incarnation = s->incarnation,
				 .connection = process, .token = process};
}

/* ---- rows ---- */

static uint64_t worker_batch(const struct sim_node *n)
{
	return n->actions.size * n->actions.accum;
}

static enum queue_result worker_asks(struct sim *s, struct sim_node *n, const char *kind,
			     struct queue_change *c)
{
	struct error err; /* filled by what fails; its 1 KB is not cleared each time */
	c->worker = n->id;
	c->seat = n->row_seat;
	c->generation = n->generation;
	queue_clock(s->queue, SIM_EPOCH + s->now, s->now);
	enum queue_result result = queue_make(s->queue, queue_kind(kind), c, &err);
	if (result == QUEUE_MEMORY || result == QUEUE_BAD)
		sim_fail(s, &err);
	return result;
}

static void ask_rows(struct sim *s, struct sim_node *n, uint64_t max)
{
	struct queue_change c = {.max = max};
	n->has_asked = 1;
	n->coming = (struct sim_piece){0};
	if (worker_asks(s, n, "get", &c) == QUEUE_OK)
		n->coming = (struct sim_piece){c.piece.id, c.piece.begin + c.piece.skip, c.piece.take};
}

/* The rows that it holds: `few`, or, when these were not enough, memory. */
static struct sim_piece *worker_hand(struct sim_node *n)
{
	return n->many_room > 0 ? n->many : n->few;
}

static uint32_t worker_room(const struct sim_node *n)
{
	return n->many_room > 0 ? n->many_room : SIM_FEW;
}

/* -1: no memory. */
static int worker_grow_hand(struct sim_node *n)
{
	uint32_t room = 2 * worker_room(n);
	struct sim_piece *many = malloc(room * sizeof *many);
	if (!many)
		return -1;
	memcpy(many, worker_hand(n), n->helds * sizeof *many);
	free(n->many);
	n->many = many;
	n->many_room = room;
	return 0;
}

/* Returns whether there were any. */
static int take_rows(struct sim *s, struct sim_node *n)
{
	n->has_asked = 0;
	if (n->coming.length == 0)
		return 0;
	if (n->helds == worker_room(n) && worker_grow_hand(n) != 0) {
		sim_fail_memory(s);
		return 0;
	}
	worker_hand(n)[n->helds++] = n->coming;
	n->rows_held += n->coming.length;
	if (s->first_at < 0)
		s->first_at = s->now;
	return 1;
}

/* As a trainer's: it asks when few rows are in hand, for one piece, and takes the answer before its next batch;
 * it waits for it when it lacks rows for this one. Returns how many times it did. */
static unsigned worker_gather(struct sim *s, struct sim_node *n)
{
	unsigned waits = 0;
	uint64_t size = worker_batch(n);
	int is_dry = 0;
	do {
		uint64_t max = actions_rows_to_ask(size, s->job.ahead, n->rows_held);
		int is_here = n->has_asked, lacks = n->rows_held < size;
		if (!is_here && max > 0)
			ask_rows(s, n, max);
		if (is_here || (n->has_asked && lacks)) {
			waits += !is_here;
			is_dry = !take_rows(s, n);
		}
	} while (n->rows_held < size && !is_dry && !s->failed);
	return waits;
}

/* How many samples the next batch has. */
static uint64_t worker_batch_rows(struct sim_node *n)
{
	const struct sim_piece *held = worker_hand(n);
	uint64_t size = worker_batch(n), rows = 0;
	for (size_t i = 0; i < n->helds && i < GATE_RANGES_MAX && rows < size; i++)
		rows += held[i].length;
	return rows < size ? rows : size;
}

/* Takes these from the front; returns how many ranges they are. */
static size_t worker_take_batch(struct sim_node *n, struct gate_range range[GATE_RANGES_MAX])
{
	struct sim_piece *held = worker_hand(n);
	size_t ranges = 0, used = 0;
	for (uint64_t left = n->batch.samples; left > 0; ranges++) {
		struct sim_piece *p = &held[used];
		uint64_t take = p->length < left ? p->length : left;
		range[ranges] = (struct gate_range){p->id, p->begin, take};
		p->begin += take;
		p->length -= take;
		left -= take;
		used += p->length == 0;
	}
	n->helds -= (uint32_t)used;
	if (used > 0)
		memmove(held, held + used, n->helds * sizeof *held);
	n->rows_held -= n->batch.samples;
	return ranges;
}

/* ---- its speed ---- */

/* A worker begins with what it learnt in its earlier life; a new one with what another has learnt
 * (work/speed.h). */
static void worker_speed_begin(struct sim *s, struct sim_node *n)
{
	struct predict_config config;
	struct predictor *own = n->speed, *past = own;
	struct error err;
	if (!s->job.predicts)
		return;
	for (size_t i = 0; i < s->workers && !past && s->first_at >= 0; i++)
		if (s->node[i].speed && predictor_count(s->node[i].speed) > 0)
			past = s->node[i].speed;
	n->speed = NULL;
	n->foretold = 0;
	predict_config_init(&config, s->job.predict);
	if ((past ? predictor_reuse(&n->speed, past, &err) : predictor_new(&n->speed, &config, &err)) != 0)
		sim_fail(s, &err);
	else
		predictor_predict(n->speed, NAN, NAN);
	predictor_free(own);
}

/* What it says of its next batch, when this one was at least as large as it was to be. */
static double worker_foretells(const struct sim *s, struct sim_node *n, const struct drag *drag)
{
	double own = s->cost.sample, cpu = s->job.load && drag->speed > 0 && own > 0
						   ? fmax(0, 1 - drag->speed * own) : NAN;
	if (!n->speed)
		return 0;
	n->foretold = predictor_next(n->speed, n->batch.samples < worker_batch(n) || !(n->batch.time > 0)
						       ? 0 : (double)n->batch.samples / n->batch.time,
				     cpu, NAN);
	return n->foretold;
}

/* ---- a life ---- */

static void worker_hello(struct sim *s, struct sim_node *n)
{
	struct queue_change c = {0};
	if (worker_asks(s, n, "hello", &c) != QUEUE_OK) {
		struct error err;
		error_set(&err, ERROR_SOFTWARE, n->id, "shardd refuses it");
		sim_fail(s, &err);
	}
	n->generation = c.generation;
	n->row_seat = (uint32_t)queue_seat(s->queue, n->id);
	n->sequence = 0;
	n->helds = 0;
	n->rows_held = 0;
	n->has_asked = 0;
	n->is_member = 0;
	overlap_forget(n);
}

void worker_begins_anew(struct sim *s, struct sim_node *n)
{
	n->seat = 0;
	n->is_listed = n->is_due = 0;
	n->late = 0;
	n->group = 0;
	worker_hello(s, n);
	n->mark = s->now;
	n->state = SIM_IDLE;
	hung_owes(s, n, s->now);
	sim_plan(s, s->now + s->cost.message, EVENT_NEXT, n);
}

static void worker_comes(struct sim *s, struct sim_node *n)
{
	s->to_come -= !n->has_come;
	n->has_come = 1;
}

void worker_start(struct sim *s, struct sim_node *n)
{
	worker_comes(s, n);
	worker_hello(s, n);
	worker_speed_begin(s, n);
	n->mark = s->now;
	n->state = SIM_IDLE;
	hung_owes(s, n, s->now);
	control_device(s, n);
	control_event(s, n, "ready");
	scale_step(s);
	resources_started(s, n);
	worker_next(s, n);
}

static void worker_join(struct sim *s, struct sim_node *n)
{
	struct gate_who who = worker_who(s, n);
	char replica[24];
	n->state = SIM_JOINING;
	hung_rests(s, n);
	snprintf(replica, sizeof replica, "r%u", n->host);
	if (leading_has_replicas(s))
		gate_pushes_to(s->gate, &who, replica);
	if (n->foretold > 0)
		gate_speed(s->gate, &who, n->foretold);
	gate_join(s->gate, &who);
	n->seat = (uint32_t)gate_seat(s->gate, n->id);
	if (n->seat > 0)
		s->row_seat[n->seat - 1] = n->row_seat;
	if (!s->is_expecting)
		sim_plan(s, s->now + GATE_EXPECT_SECONDS, EVENT_BEGIN, NULL);
	s->is_expecting = 1;
	if (s->to_come == 0 && s->is_smaller)
		gate_begin(s->gate);
	leading_obey(s);
}

static void worker_leave(struct sim *s, struct sim_node *n)
{
	struct gate_who who = worker_who(s, n);
	control_report(s, n);
	n->state = SIM_LEAVING;
	hung_rests(s, n);
	n->is_member = 0;
	gate_leave(s->gate, &who);
	leading_obey(s);
}

/* shardd answers as soon as there are rows, and at the latest when it asks again. */
static void worker_wait(struct sim *s, struct sim_node *n)
{
	n->state = SIM_WAITING;
	n->mark = s->now;
	hung_owes(s, n, s->now);
	sim_plan(s, s->now + ASK_AGAIN_SECONDS, EVENT_ASK, n);
	if (n->is_listed)
		return;
	n->is_listed = 1;
	n->next_waiter = NULL;
	*(s->last_waiter ? &s->last_waiter->next_waiter : &s->first_waiter) = n;
	s->last_waiter = n;
}

void worker_serve(struct sim *s)
{
	while (s->first_waiter && !s->failed && queue_has_todo(s->queue)) {
		struct sim_node *n = s->first_waiter;
		s->first_waiter = n->next_waiter;
		if (!s->first_waiter)
			s->last_waiter = NULL;
		n->is_listed = 0;
		if (n->state == SIM_WAITING && !n->is_stopped)
			worker_next(s, n);
	}
}

/* It had its answer meanwhile, or waits since a later time. */
void worker_asks_again(struct sim *s, struct sim_node *n)
{
	if (n->state == SIM_WAITING && s->now >= n->mark + ASK_AGAIN_SECONDS)
		worker_next(s, n);
}

/* Its answer is there, or it asks shardd again. */
void worker_next(struct sim *s, struct sim_node *n)
{
	unsigned waits = worker_gather(s, n);
	if (s->failed)
		return;
	if (n->rows_held == 0 && n->is_member) {
		worker_leave(s, n);
		return;
	}
	if (n->rows_held == 0) {
		worker_wait(s, n);
		return;
	}
	if (!n->is_member) {
		worker_join(s, n);
		return;
	}
	n->state = SIM_COMPUTING;
	n->batch = (struct tally_batch){.samples = worker_batch_rows(n)};
	if (waits * s->cost.rows > 0)
		sim_plan(s, s->now + waits * s->cost.rows, EVENT_PULLED, n);
	else
		worker_pulled(s, n);
}

int worker_begins_next(struct sim *s, struct sim_node *n, double mark)
{
	unsigned waits = worker_gather(s, n);
	if (s->failed || n->rows_held == 0)
		return 0;
	n->state = SIM_COMPUTING;
	n->batch = (struct tally_batch){.samples = worker_batch_rows(n)};
	n->mark = mark;
	hung_owes(s, n, mark);
	worker_computes(s, n, mark + waits * s->cost.rows, mark);
	return 1;
}

void worker_pulled(struct sim *s, struct sim_node *n)
{
	worker_computes(s, n, s->now, n->mark);
}

void worker_computes(struct sim *s, struct sim_node *n, double from, double mark)
{
	const struct drag *drag = cluster_drag(s, n);
	double served = from > s->served_at ? from : s->served_at;
	n->owes += served - from; /* it waits for a server */
	double pulled = network_exchange(s, n, served) + s->cost.pull;
	double own = n->pace * (s->cost.batch + s->cost.sample * (double)n->batch.samples);
	double elapsed = pulled - mark - (served - from) + own;
	double computed = pulled + own + drag_pause(drag, n->batch.samples, n->actions.size, elapsed);
	n->batch.wait += served - from;
	n->batch.comm = pulled - served;
	n->batch.compute = computed - pulled;
	if (s->job.delay != SIM_NO_DELAY)
		n->pulled = gate_iteration(s->gate);
	if (s->job.overlaps)
		overlap_computes(s, n, computed);
	else if (s->links > 0 || s->announce.is_on) /* in the order of time, as links are shared */
		sim_plan(s, computed, EVENT_COMPUTED, n);
	else
		worker_computed(s, n, computed);
}

/* Its gradients are with the servers then. */
static void worker_sends(struct sim *s, struct sim_node *n, double from, double end)
{
	n->pushed_at = end + s->cost.push;
	n->batch.comm += n->pushed_at - from;
	n->batch.time = n->pushed_at - n->mark - n->batch.wait;
	wave_plan(s, n->pushed_at + s->cost.message, n);
	hung_plan_if_long(s, n, n->pushed_at);
}

void worker_computed(struct sim *s, struct sim_node *n, double at)
{
	if (s->job.overlaps && !overlap_may_push(s, n))
		return;
	if (s->announce.is_on)
		sim_plan(s, at + s->cost.message, EVENT_ANNOUNCED, n);
	else
		worker_sends(s, n, at, network_exchange(s, n, at));
}

/* Without its ranges. */
static struct gate_push worker_push(struct sim *s, struct sim_node *n)
{
	return (struct gate_push){.sequence = n->sequence,
				  .iteration = n->iteration,
				  .count = n->batch.samples,
				  .size = worker_batch(n),
				  .pulled = s->job.delay != SIM_NO_DELAY ? n->pulled : GATE_PULLED_UNKNOWN,
				  .time = n->batch.time};
}

/* Its rows go with the announcement, and with the push: one that is dropped gives them back. */
void worker_announces(struct sim *s, struct sim_node *n)
{
	struct gate_who who = worker_who(s, n);
	if (!n->announced && !(n->announced = malloc(GATE_RANGES_MAX * sizeof *n->announced))) {
		sim_fail_memory(s);
		return;
	}
	n->ranges = worker_take_batch(n, n->announced);
	n->sequence++;
	n->group = 0;
	n->pushed_at = s->now;
	n->batch.time = s->now - n->mark - n->batch.wait;
	n->state = SIM_ASKING;
	hung_rests(s, n);
	struct gate_push push = worker_push(s, n);
	push.range = n->announced;
	push.ranges = n->ranges;
	announce_push(s, &who, &push);
	leading_obey(s);
}

void worker_sent(struct sim *s, struct sim_node *n, double end)
{
	double from = s->now + s->cost.message;
	n->batch.wait += from - n->pushed_at;
	n->state = SIM_COMPUTING;
	worker_sends(s, n, from, end);
}

void worker_pushed(struct sim *s, struct sim_node *n)
{
	struct gate_who who = worker_who(s, n);
	struct gate_range range[GATE_RANGES_MAX];
	const struct drag *drag = cluster_drag(s, n);
	struct gate_push push = worker_push(s, n);
	if (s->announce.is_on) {
		push.range = n->announced;
		push.ranges = n->ranges;
		push.group = n->group;
	} else {
		push.sequence = ++n->sequence;
		push.ranges = worker_take_batch(n, range);
		push.range = range;
	}
	push.speed = worker_foretells(s, n, drag);
	push.most = drag->memory > 0 ? (uint64_t)device_samples((double)drag->memory) : 0;
	n->state = SIM_PUSHING;
	hung_rests(s, n);
	pulse_work(&n->pulse, push.count);
	if (s->job.overlaps) {
		n->is_flying = 1;
		n->flying = push.count;
	}
	announce_clock(s);
	gate_push(s->gate, &who, &push);
	leading_obey(s);
	if (s->job.overlaps)
		overlap_pushed(s, n);
}

/* What was measured so far was about another size. */
void worker_obeys(struct sim *s, struct sim_node *n, const char *actions)
{
	struct record_walk walk = record_walk(actions, strlen(actions));
	struct record r;
	struct error err;
	while (record_next(&walk, &r, &err) == RECORD_ONE)
		actions_take(&n->actions, &r);
	if (actions_resize(&n->actions))
		control_report(s, n);
	actions_obey(&n->actions, n->iteration);
}

static void worker_refused(struct sim *s, struct sim_node *n)
{
	worker_hello(s, n); /* starts over, as a real one */
	n->mark = s->now;
	n->state = SIM_IDLE;
	hung_owes(s, n, s->now);
	sim_plan(s, s->now + s->cost.message, EVENT_NEXT, n);
}

uint64_t worker_number(const char *digits)
{
	uint64_t number = 0;
	for (; *digits >= '0' && *digits <= '9'; digits++)
		number = number * 10 + (uint64_t)(*digits - '0');
	return number;
}

/* Nothing happens until then but that workers have their answers: no event, no other effect of the lead, and nobody
 * waits for rows that somebody could give back. */
static int worker_all_is_quiet(const struct sim *s, double until)
{
	size_t answers = gate_only_answers(s->gate);
	return answers > 0 && !s->first_waiter && !s->job.overlaps && !s->announce.is_timed && !queue_is_over(s->queue) &&
	       until <= s->options.until && events_next_at(&s->events, 4 * answers) > until;
}

/* At a barrier all are answered, and all begin their next batches when their answers are there. If all is quiet until
 * then, each begins as soon as it is answered, while what belongs to it is at hand; that changes nothing but the order
 * in which this is computed. Nobody does so behind one who can't: it stands still, or may have no rows. */
static int worker_may_begin_at_once(struct sim *s, const struct sim_node *n, double there)
{
	if (s->at_once == AT_ONCE_MAYBE)
		s->at_once = worker_all_is_quiet(s, there) ? AT_ONCE_YES : AT_ONCE_NO;
	if (n->is_stopped || n->late > 0 || (n->rows_held == 0 && !(n->has_asked && n->coming.length > 0)))
		s->at_once = AT_ONCE_NO;
	return s->at_once == AT_ONCE_YES;
}

static void worker_begins_at_once(struct sim *s, struct sim_node *n, double there)
{
	double now = s->now;
	s->now = s->moved_at = there;
	worker_next(s, n);
	s->now = now;
}

/* The lead's answer is on its way; it is there after `message`. */
void worker_answered(struct sim *s, struct sim_node *n, const struct gate_effect *e)
{
	if (e->token != sim_process(s, n) || n->state == SIM_OFF)
		return;
	if (!e->ok && n->state != SIM_LEAVING) {
		worker_refused(s, n);
		return;
	}
	if (n->state == SIM_ASKING && strncmp(e->fields, "granted=1", 9) == 0) {
		announce_granted(s, n, e->fields);
		return;
	}
	if (s->job.overlaps && n->is_flying) {
		n->is_flying = 0;
		if (n->state == SIM_COMPUTING) {
			overlap_answered(s, n, e);
			return;
		}
	}
	hung_owes(s, n, s->now);
	if (n->state == SIM_LEAVING) {
		s->at_once = AT_ONCE_NO;
		n->state = SIM_IDLE;
		sim_plan(s, s->now + s->cost.message, EVENT_NEXT, n);
		return;
	}
	double there = s->now + s->cost.message;
	if (n->state == SIM_ASKING) /* it was dropped */
		pulse_work(&n->pulse, n->batch.samples);
	if (n->state == SIM_PUSHING || n->state == SIM_ASKING) {
		n->batch.wait += there - n->pushed_at;
		if (tally_add(&n->tally, &s->reports, &n->batch, there))
			control_report(s, n);
	}
	if (e->iteration > 0) /* most: to a push that is settled */
		n->iteration = e->iteration;
	else if (strncmp(e->fields, "iteration=", 10) == 0)
		n->iteration = worker_number(e->fields + 10);
	if (!n->is_member)
		n->ready_at = s->now;
	n->is_member = 1;
	if (e->actions)
		worker_obeys(s, n, e->actions);
	n->mark = there;
	n->state = SIM_IDLE;
	if (s->at_once != AT_ONCE_NO && worker_may_begin_at_once(s, n, there))
		worker_begins_at_once(s, n, there);
	else
		sim_plan(s, there, EVENT_NEXT, n);
}

/* Its process ends; its rows go back, and nobody waits for it. */
void worker_dies(struct sim *s, struct sim_node *n)
{
	struct queue_change c = {0};
	uint64_t connection = sim_process(s, n);
	n->life++;
	n->state = SIM_OFF;
	n->is_stopped = 0;
	n->is_due = 0;
	n->late = 0;
	n->is_member = 0;
	n->owes = -1;
	overlap_forget(n);
	worker_asks(s, n, "fail", &c);
	gate_closed(s->gate, connection);
	leading_obey(s);
	worker_serve(s);
}

/* The lead expects one worker less, if it still waits for all. */
void worker_leaves_job(struct sim *s, struct sim_node *n)
{
	worker_comes(s, n);
	worker_dies(s, n);
	s->is_smaller = 1;
	if (s->to_come == 0)
		gate_begin(s->gate);
	leading_obey(s);
}

/* ---- it stands still ---- */

/* Work of its own, not an answer that it waits for. */
static int worker_is_work(enum event_kind kind)
{
	return kind == EVENT_START || kind == EVENT_COMPUTED || kind == EVENT_ANNOUNCED || kind == EVENT_PUSHED;
}

void worker_stops(struct sim *s, struct sim_node *n)
{
	if (n->state == SIM_OFF || n->is_stopped)
		return;
	n->is_stopped = 1;
	n->stopped = s->now;
	hung_plan(s, n);
}

static void worker_plan_again(struct sim *s, struct sim_node *n, enum event_kind kind, double at)
{
	if (s->job.overlaps && kind == EVENT_COMPUTED)
		overlap_plan(s, n, at);
	else
		sim_plan(s, at, kind, n);
}

void worker_goes_on(struct sim *s, struct sim_node *n)
{
	double stood = s->now - n->stopped;
	if (!n->is_stopped)
		return;
	n->is_stopped = 0;
	int is_working = n->state == SIM_STARTING || (n->state == SIM_COMPUTING && n->waits_since < 0);
	n->late += is_working ? stood : 0;
	if (n->is_due && (!worker_is_work(n->due.kind) || !worker_is_held_up(s, n, &n->due)))
		worker_plan_again(s, n, n->due.kind, s->now);
	n->is_due = 0;
}

int worker_holds_up(struct sim *s, struct sim_node *n, const struct event *e)
{
	if (overlap_is_void(s, n, e))
		return 1;
	if (n->is_stopped) {
		n->is_due = 1;
		n->due = *e;
		return 1;
	}
	double late = worker_is_work(e->kind) ? n->late : 0;
	n->late = 0;
	if (!(late > 0))
		return 0;
	n->batch.time += late;
	n->batch.compute += late;
	n->pushed_at += late;
	worker_plan_again(s, n, e->kind, e->at + late);
	return 1;
}

/*
 * trainer: see trainer.h.  One thread speaks to all daemons; the feed's thread only reads files.
 * Must never report progress to shardd: the lead does, when it has committed.
 */
#include "work/trainer.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "meter/meter.h"
#include "monitor/node.h"
#include "record/drag.h"
#include "work/actions.h"
#include "work/exchange.h"
#include "work/feed.h"
#include "work/replica.h"
#include "work/rows_move.h"
#include "work/servers.h"
#include "work/shards.h"
#include "work/trial.h"

#include <math.h>
#include <stdlib.h>

#define PROFILE_BATCHES 8    /* a profile measures sizes up to so many batches */
#define PROFILE_CARD (UINT64_C(1) << 18) /* and on a card up to so many samples, if that is more */
#define MODEL_FILE_MAX (UINT64_C(1) << 20)
#define IDLE_ASK_SECONDS 1.0 /* shardd may hold a get back this long; *stop waits for it */
#define PAUSE_SECONDS 0.05
#define LOOKS 8 /* in a step, whether the batch is late */

struct trainer {
	struct trainer_options options;
	struct model *model;
	size_t dense_count, width;
	struct shards *shards;
	struct exchange *exchange;
	struct feed *feed; /* NULL: not yet; until then the dataset is ours */
	struct rows_move *move; /* NULL: no rows move, or not yet */
	uint64_t own_rows;
	struct actions actions;
	struct meter *meter;
	struct speed *speed; /* NULL: speeds are not predicted */
	int member;
	int steady; /* the answer to the last push did not change the batches */
	uint64_t iteration, sequence;
	uint64_t map; /* the version that batches are grouped by */
	const struct batch *batch; /* in hand; NULL: none */
	uint64_t size, accum;      /* that it was cut for */
	/* With a delay. Its push is not answered; NULL: there is no such batch. */
	const struct batch *flying;
	const struct batch *next; /* feed_take() gives it at once; NULL: not known */
	int is_resized;           /* a report is due before the next batch is counted */
	double mark;               /* when this batch's time began */
	double pushing;            /* seconds that the last push took to send */
	struct drag_file drag;
	size_t fits; /* samples of a step on the card, as known; 0: not */
};

/* ---- small things ---- */

static uint64_t batch_size(const struct trainer *t)
{
	return t->actions.size * t->actions.accum;
}

static int trainer_stopped(const struct trainer *t)
{
	return t->options.stop && *t->options.stop;
}

static void trainer_take_action(const struct record *r, void *owner)
{
	struct trainer *t = owner;
	double began = clock_mono();
	actions_take(&t->actions, r);
	meter_spend(t->meter, SPENT_ACTIONS, began);
}

static void trainer_obey(struct trainer *t)
{
	t->steady = 1;
	if (!t->actions.news)
		return;
	t->is_resized |= actions_resize(&t->actions);
	double began = clock_mono();
	if (actions_obey(&t->actions, t->iteration)) {
		feed_resize(t->feed, batch_size(t));
		t->steady = 0;
	}
	meter_spend(t->meter, SPENT_ACTIONS, began);
}

/* What was measured so far was about another size. */
static void report_resized(struct trainer *t)
{
	if (t->is_resized)
		meter_report(t->meter);
	t->is_resized = 0;
}

/* ---- start and end ---- */

static int trainer_has(const struct batch *b, uint64_t id)
{
	for (size_t i = 0; b && i < b->range_count; i++)
		if (b->range[i].id == id)
			return 1;
	return 0;
}

/* shardd says what we hold; a piece that we do not know was in an answer that got lost. */
static int trainer_take_held(const struct piece *p, void *owner, struct error *err)
{
	struct trainer *t = owner;
	if (trainer_has(t->batch, p->id) || trainer_has(t->flying, p->id))
		return 0;
	return feed_knows(t->feed, p->id) ? 0 : feed_add(t->feed, p, err);
}

static int new_exchange(struct trainer *t, struct error *err)
{
	const struct trainer_options *o = &t->options;
	struct conversation_options talk = {.worker = o->meter.id,
					    .wait_seconds = o->wait_seconds,
					    .answer_seconds = o->answer_seconds,
					    .stop = o->stop,
					    .action = trainer_take_action,
					    .owner = t};
	struct servers_options servers = {.paths = o->servers,
					  .lead = o->lead,
					  .count = o->server_count,
					  .keep_dir = o->keep_dir,
					  .dense_count = model_dense_count(o->spec),
					  .width = model_width(o->spec),
					  .key_count = model_key_count(o->spec),
					  .talk = talk};
	struct replica_options replica = {.lead = o->lead,
					  .replica = o->replica,
					  .dense_count = servers.dense_count,
					  .width = servers.width,
					  .key_count = servers.key_count,
					  .delay = o->delay,
					  .talk = talk};
	return o->replica ? replica_new(&t->exchange, &replica, err)
			  : servers_new(&t->exchange, &servers, err);
}

static int new_parts(struct trainer *t, struct error *err)
{
	const struct trainer_options *o = &t->options;
	struct generation shards = {.path = o->shards,
				    .worker = o->meter.id,
				    .wait_seconds = o->wait_seconds,
				    .answer_seconds = o->answer_seconds,
				    .stop = o->stop,
				    .held = trainer_take_held,
				    .owner = t};
	actions_start(&t->actions, o->meter.id, o->batch);
	t->actions.log = o->meter.log;
	t->actions.owner = o->meter.owner;
	if (shards_new(&t->shards, &shards, err) != 0 ||
	    new_exchange(t, err) != 0 ||
	    (o->speed && speed_new(&t->speed, o->speed, err) != 0))
		return -1;
	return meter_new(&t->meter, &o->meter, err);
}

/* From now on the dataset is the feed's. */
static int start_feed(struct trainer *t, struct error *err)
{
	const struct trainer_options *o = &t->options;
	struct feed_options feed = {.dataset = o->dataset,
				    .keys = model_keys(o->spec),
				    .key_count = model_key_count(o->spec),
				    .map = t->exchange->kind->map(t->exchange),
				    .size = batch_size(t),
				    .spill = o->spill,
				    .keeps = o->delay};
	return feed_new(&t->feed, &feed, err);
}

int trainer_new(struct trainer **out, const struct trainer_options *options, struct error *err)
{
	struct trainer *t = calloc(1, sizeof(*t));
	if (!t)
		return error_set(err, ERROR_OS, "", "out of memory");
	t->options = *options;
	t->drag.path = options->drag;
	t->own_rows = dataset_rows(options->dataset);
	if (model_new(&t->model, options->spec, &options->device, err) != 0 || new_parts(t, err) != 0) {
		trainer_free(t);
		return -1;
	}
	if (options->fold_fraction > 0)
		model_fold_fraction(t->model, options->fold_fraction);
	t->dense_count = (size_t)model_dense_count(options->spec);
	t->width = model_width(options->spec);
	*out = t;
	return 0;
}

void trainer_free(struct trainer *t)
{
	if (!t)
		return;
	rows_move_stop(t->move);
	feed_free(t->feed);
	if (t->exchange)
		t->exchange->kind->free(t->exchange);
	shards_free(t->shards);
	speed_free(t->speed);
	meter_free(t->meter);
	model_free(t->model);
	free(t);
}

static int start_move(struct trainer *t, uint64_t begin, struct error *err)
{
	const struct trainer_options *o = &t->options;
	struct rows_move_options move = {.worker = o->meter.id,
					 .shards = o->shards,
					 .dir = o->peers,
					 .spill = o->spill,
					 .paths = o->paths,
					 .path_count = o->path_count,
					 .index_dir = o->index_dir,
					 .syntax = dataset_syntax(o->dataset),
					 .begin = begin,
					 .length = t->own_rows,
					 .answer_seconds = o->answer_seconds};
	return o->peers && !t->move ? rows_move_start(&t->move, &move, err) : 0;
}

/* Checks that the queue is of these data; with partitions, ours begins with the row that shardd
 * says. */
static int check_samples(struct trainer *t, struct error *err)
{
	const struct generation *g = shards_generation(t->shards);
	uint64_t queue = g->samples, data = t->own_rows;
	int has_part = g->part_samples > 0;
	if (has_part != (t->options.spill != NULL))
		return error_set(err, ERROR_CONFIG, t->options.shards,
				 has_part ? "hands out partitions: --spill is needed"
					  : "hands out no partitions: leave --spill out");
	if (has_part && g->part_samples == data)
		return feed_number(t->feed, g->part_begin, err) != 0
			       ? -1
			       : start_move(t, g->part_begin, err);
	if (has_part)
		queue = g->part_samples;
	else if (queue == data)
		return 0;
	return error_set(err, ERROR_CONFIG, t->options.shards,
			 "hands out %llu samples, but the data have %llu rows",
			 (unsigned long long)queue, (unsigned long long)data);
}

/* Begins a new generation, with servers of the queue's incarnation. During a rollback the two
 * differ: servers with a higher one mean that the queue was loaded after our hello. */
static int trainer_start_over(struct trainer *t, struct error *err)
{
	double deadline = clock_mono() + t->options.wait_seconds;
	struct exchange *x = t->exchange;
	uint64_t low, high, incarnation;
	int hello = 1;
	for (;;) {
		double began = clock_mono();
		int result = hello ? shards_hello(t->shards, err) : WORK_OK;
		began = meter_spend(t->meter, SPENT_SHARDS, began);
		if (result == WORK_OK && check_samples(t, err) != 0)
			return -1;
		if (result == WORK_OK)
			result = x->kind->connect(x, &low, &high, err);
		meter_spend(t->meter, SPENT_COMM, began);
		if (result != WORK_OK)
			return result;
		incarnation = shards_generation(t->shards)->incarnation;
		if (low == incarnation && high == incarnation)
			break;
		if (clock_mono() >= deadline)
			return error_set(err, ERROR_UNAVAILABLE,
					 t->options.replica ? t->options.replica
							    : t->options.servers[0],
					 "servers of incarnation %llu, a queue of %llu",
					 (unsigned long long)low, (unsigned long long)incarnation);
		hello = high > incarnation;
		x->kind->disconnect(x);
		clock_sleep(PAUSE_SECONDS);
		if (trainer_stopped(t))
			return WORK_STOP;
	}
	x->kind->identify(x, shards_generation(t->shards)->number, incarnation);
	t->sequence = 0;
	t->mark = clock_mono();
	return WORK_OK;
}

/* Leaves the barrier: units no longer wait for us. An answer that nobody waits for any more is
 * dropped with its connection. */
static void trainer_forget(struct trainer *t)
{
	struct error ignored;
	struct exchange *x = t->exchange;
	if (t->member && x->kind->connected(x) &&
	    (t->flying || x->kind->leave(x, 1, 0, &ignored) != WORK_OK))
		x->kind->disconnect(x);
	t->member = 0;
	t->batch = t->flying = t->next = NULL;
	feed_drop(t->feed);
}

/* ---- a batch ---- */

/* The samples that fit into a step, as measured or as an emulated device says; 0: not known. */
static uint64_t most(struct trainer *t)
{
	uint64_t memory = drag_look(&t->drag)->memory;
	return meter_most(t->meter) > 0 || memory == 0
		       ? meter_most(t->meter)
		       : (uint64_t)device_samples((double)memory);
}

static int trainer_join(struct trainer *t, struct error *err)
{
	struct exchange_member member = {
		.size = batch_size(t), .speed = speed_next(t->speed), .most = most(t)};
	double began = clock_mono();
	int result = t->exchange->kind->join(t->exchange, &member, &t->iteration, err);
	meter_spend(t->meter, SPENT_WAIT, began);
	if (result != WORK_OK)
		return result;
	t->member = 1;
	trainer_obey(t);
	report_resized(t);
	t->mark = clock_mono();
	return WORK_OK;
}

/* Requests rows from shardd when few are in hand, and takes the answer: at once if it is there,
 * else after waiting if less than a whole batch is in hand. *dry: WORK_WAIT or WORK_END as shardd
 * said; then it is not asked again. */
static int stock_up(struct trainer *t, int *dry, struct error *err)
{
	uint64_t size = batch_size(t), held = feed_held(t->feed);
	uint64_t max = actions_rows_to_ask(size, t->options.ahead, held);
	struct piece piece;
	if (!*dry && max > 0) {
		int result = shards_ask(t->shards, max, 0, err);
		if (result != WORK_OK)
			return result;
	}
	if (!shards_asked(t->shards))
		return WORK_OK;
	int result = shards_take(t->shards, held < size, &piece, err);
	if (result == WORK_STOP)
		return trainer_stopped(t) ? WORK_STOP : WORK_OK;
	if (result == WORK_WAIT || result == WORK_END) {
		*dry = result;
		return WORK_OK;
	}
	return result == WORK_OK ? feed_add(t->feed, &piece, err) : result;
}

/* Until there are rows for a whole batch, or for the last one (*dry). WORK_WAIT, WORK_END: there
 * are none. */
static int trainer_gather(struct trainer *t, int *dry, struct error *err)
{
	for (;;) {
		double began = clock_mono();
		int result = trainer_stopped(t) ? WORK_STOP : stock_up(t, dry, err);
		meter_spend(t->meter, SPENT_SHARDS, began);
		if (result != WORK_OK)
			return result;
		uint64_t held = feed_held(t->feed);
		if (held == 0 && *dry)
			return *dry;
		if (held >= batch_size(t) || *dry)
			return WORK_OK;
	}
}

/* Finds t->next, so that it can be pulled before the present batch is in the parameters. NULL:
 * there is none now, or we are to stop. */
static int foresee(struct trainer *t, struct error *err)
{
	int dry = 0, result = trainer_gather(t, &dry, err);
	double began = clock_mono();
	if (result != WORK_OK)
		return result == WORK_WAIT || result == WORK_END || result == WORK_STOP ? WORK_OK
											: result;
	result = feed_foresee(t->feed, dry != 0, &t->next, err);
	meter_spend(t->meter, SPENT_ROWS, began);
	return result;
}

/* WORK_OK: t->batch is there and we are a member. WORK_WAIT, WORK_END: nothing to do. */
static int next_batch(struct trainer *t, struct error *err)
{
	int dry = 0;
	t->batch = NULL;
	for (;;) {
		struct batch *b;
		int result = t->next && !trainer_stopped(t) ? WORK_OK
							    : trainer_gather(t, &dry, err);
		if (result != WORK_OK)
			return result;
		if (!t->member) { /* which may change the batch's size */
			result = trainer_join(t, err);
			if (result != WORK_OK)
				return result;
			continue;
		}
		double began = clock_mono();
		result = feed_take(t->feed, dry != 0, &b, err);
		meter_spend(t->meter, SPENT_ROWS, began);
		t->next = NULL;
		if (result < 0)
			return -1;
		t->batch = b;
		t->size = batch_size(t);
		t->accum = t->actions.accum;
		if (b)
			return WORK_OK;
	}
}

/* elapsed: seconds of this batch's own time so far. */
static int slow_down(struct trainer *t, const struct drag *drag, double elapsed, struct error *err)
{
	struct exchange *x = t->exchange;
	double until = clock_mono(), left;
	int result = WORK_OK;
	until += drag_pause(drag, t->batch->positions, t->actions.size, elapsed);
	while (result == WORK_OK && !x->late && (left = until - clock_mono()) > 0 &&
	       !trainer_stopped(t)) {
		if (x->is_watched)
			result = x->kind->heed(x, left, err);
		else
			clock_sleep(left);
	}
	return result;
}

/* Adds the likely reason, and the row of b that stands out, to the error. */
static int diverged(struct trainer *t, const struct batch *b, struct error *err)
{
	struct batch_extreme e = batch_extreme(b, t->options.unit_weights);
	struct error what = *err;
	char place[ERROR_PLACE_MAX];
	feed_place(t->feed, e.row, place, sizeof(place));
	return error_set(err, ERROR_DATA, what.place,
			 "%.200s: the learning rate is too large for these data, or they hold values beyond "
			 "reason; the largest of this batch are at %.140s: weight %g, value %g",
			 what.text, place, e.weight, e.value);
}

static void on_final(void *trainer, size_t begin, size_t count)
{
	struct trainer *t = trainer;
	struct exchange *x = t->exchange;
	x->kind->final(x, t->sequence, t->iteration, begin, count);
}

static double squares_of(const float *x, size_t count)
{
	double sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += (double)x[i] * (double)x[i];
	return sum;
}

/* By the norm of all its parts together (Pascanu, Mikolov, Bengio, ICML 2013, Algorithm 1). A norm
 * that is not finite is for the servers to refuse. */
static void clip_gradient(const struct trainer *t, const struct exchange_values *v)
{
	size_t rows = t->batch->unique * t->width;
	double norm = sqrt(squares_of(v->dense_gradient, t->dense_count) +
			   squares_of(v->row_gradient, rows)) /
		      (double)(t->batch->count > 0 ? t->batch->count : 1);
	if (!(norm > t->options.clip) || !isfinite(norm))
		return;
	float scale = (float)(t->options.clip / norm);
	for (size_t i = 0; i < t->dense_count; i++)
		v->dense_gradient[i] *= scale;
	for (size_t i = 0; i < rows; i++)
		v->row_gradient[i] *= scale;
}

/* The card's memory held less than was known. */
static void note_fits(struct trainer *t)
{
	size_t fits = model_fits(t->model);
	if (fits == t->fits)
		return;
	t->fits = fits;
	log_say(LOG_LEVEL_WARNING,
		"the memory of %s is full: more than %zu samples are computed in parts",
		model_card(t->model), fits);
	meter_fits(t->meter, fits);
}

/* The step behind the samples before `end`, or of the next batch, may go to the card meanwhile. If
 * each answer changes the batches, the next one is not the one that is ready now. */
static struct model_batch look_ahead(const struct trainer *t, size_t end, size_t size)
{
	const struct batch *b = t->batch;
	if (end == b->count) {
		b = t->steady ? feed_next(t->feed) : NULL;
		end = 0;
	}
	if (!b)
		return (struct model_batch){0};
	return batch_slice(b, end, b->count - end < size ? b->count - end : size,
			   t->options.unit_weights);
}

/* The steps of a batch add up; nothing is exchanged between them, and gradients are final in the
 * last one only. */
static int compute(struct trainer *t, const struct exchange_values *v, double *loss,
		   struct error *err)
{
	const struct batch *b = t->batch;
	struct exchange *x = t->exchange;
	/* On a card a step is short, and a part of one takes as long to copy. */
	int looks = x->is_watched && !model_card(t->model);
	size_t size = looks ? t->actions.size / LOOKS + 1 : t->actions.size;
	*loss = 0;
	for (size_t at = 0; at < b->count; at += size) {
		size_t count = b->count - at < size ? b->count - at : size;
		int is_last = at + count == b->count, result = WORK_OK;
		if (x->is_watched && at > 0)
			result = x->kind->heed(x, 0, err);
		if (result != WORK_OK || x->late)
			return result;
		int tells = is_last && x->kind->final && !(t->options.clip > 0);
		model_on_final(t->model, tells ? on_final : NULL, t);
		struct model_batch slice = batch_slice(b, at, count, t->options.unit_weights),
				   next = look_ahead(t, at + count, size);
		slice.next = next.count > 0 ? &next : NULL;
		if (model_train(t->model, &slice, v->dense, v->rows, v->dense_gradient,
				v->row_gradient, loss, err) != 0)
			return -1;
	}
	note_fits(t);
	if (t->options.clip > 0)
		clip_gradient(t, v);
	if (isfinite(*loss) || x->late)
		return WORK_OK;
	error_set(err, ERROR_DATA, "", "worker %s, iteration %llu: the loss is not finite",
		  t->options.meter.id, (unsigned long long)t->iteration);
	return diverged(t, t->batch, err);
}

/* With the parameters at hand, computes the steps of the batch, one after the other. */
static int trainer_take_steps(struct trainer *t, const struct exchange_values *values, double began,
			      double *loss, struct error *err)
{
	const struct drag *drag = drag_look(&t->drag);
	uint64_t size = t->actions.size;
	if (drag_fits(drag, t->batch->positions < size ? t->batch->positions : size, err) != 0)
		return -1;
	int result = compute(t, values, loss, err);
	meter_emulated(t->meter, drag->cores);
	if (result == WORK_OK)
		result = slow_down(t, drag, clock_mono() - began - values->waited, err);
	return result;
}

static void trainer_account(struct trainer *t, uint64_t iteration, const struct tally_batch *b)
{
	meter_batch(t->meter, iteration, t->accum, b);
	report_resized(t);
	speed_keep(t->speed, clock_mono());
	if (t->options.spent_wanted && *t->options.spent_wanted) {
		*t->options.spent_wanted = 0;
		meter_log_spent(t->meter);
	}
}

/* Predicts the next batch. seconds: of this batch so far; sending is assumed to take as long as
 * last time. */
static void foretell(struct trainer *t, struct exchange_push *push, double seconds)
{
	double began = clock_mono();
	uint64_t samples = t->batch->positions;
	push->time = seconds + t->pushing;
	push->most = most(t);
	/* A batch that is shorter than planned says nothing about the speed. */
	speed_foretell(t->speed, t->meter, samples >= push->size ? samples : 0, push);
	meter_spend(t->meter, SPENT_PREDICT, began);
}

/* The map may have changed. */
static void follow_map(struct trainer *t)
{
	const struct map *map = t->exchange->kind->map(t->exchange);
	if (map->version != t->map)
		feed_follow(t->feed, map);
	t->map = map->version;
}

/* With the parameters of the batch, computes it. began: its own time. */
static int trainer_compute(struct trainer *t, double began, double *loss, struct tally_batch *b,
			   struct error *err)
{
	struct exchange_values values;
	double pulling = clock_mono();
	int result = t->exchange->kind->pull(t->exchange, t->iteration, t->batch, &values, err);
	if (result != WORK_OK)
		return result;
	double pulled = clock_mono();
	follow_map(t);
	if (values.waited > pulled - pulling) /* by a server's clock */
		values.waited = pulled - pulling;
	result = trainer_take_steps(t, &values, began, loss, err);
	b->compute += clock_mono() - pulled;
	b->comm += pulled - pulling - values.waited;
	b->wait += values.waited;
	return result;
}

/* Waits until the last push is in the parameters, and obeys what the answer says. */
static int trainer_settle(struct trainer *t, struct tally_batch *b, struct error *err)
{
	struct exchange *x = t->exchange;
	const struct batch *flying = t->flying;
	double began = clock_mono(), obeying = meter_spent(t->meter, SPENT_ACTIONS);
	int result = x->kind->wait(x, &t->iteration, err);
	if (result != WORK_OK)
		return result == WORK_DIVERGED ? diverged(t, flying, err) : result;
	t->flying = NULL;
	follow_map(t);
	t->mark = clock_mono();
	/* Carrying out actions does not count as waiting. */
	obeying = meter_spent(t->meter, SPENT_ACTIONS) - obeying;
	b->wait += t->mark - began - obeying;
	trainer_obey(t);
	return WORK_OK;
}

/* The same for the push of the batch before. *again: what is computed is older than one iteration,
 * or of parameters that changed meanwhile. */
static int trainer_settle_before(struct trainer *t, struct tally_batch *b, int *again,
				 struct error *err)
{
	uint64_t expected = t->iteration;
	double mark = t->mark;
	int result = trainer_settle(t, b, err);
	*again = t->exchange->dropped || t->iteration != expected;
	t->mark = mark;
	return result;
}

/* Says that the batch is computed. If it is late, all its time so far was a wait for nothing: *b is
 * as that of a batch that begins now. began: its own time. */
static int trainer_computed(struct trainer *t, double began, struct tally_batch *b, int *again,
			    struct error *err)
{
	struct exchange *x = t->exchange;
	uint64_t iteration = t->iteration;
	double computed = clock_mono();
	int result = x->is_watched ? x->kind->computed(x, &iteration, err) : WORK_OK;
	b->wait += clock_mono() - computed;
	if (result == WORK_OK && t->flying)
		result = trainer_settle_before(t, b, again, err);
	if (result != WORK_OK || !x->late)
		return result;
	*again = 1;
	*b = (struct tally_batch){.samples = b->samples, .wait = clock_mono() - began};
	t->iteration = iteration;
	return trainer_stopped(t) ? WORK_STOP : WORK_OK;
}

static int trainer_train(struct trainer *t, struct error *err)
{
	struct tally_batch b = {.samples = t->batch->positions};
	struct exchange_push push = {.sequence = ++t->sequence, .size = t->size};
	struct exchange *x = t->exchange;
	int result, again = 0;
	double began = t->mark;
	do {
		result = trainer_compute(t, again ? clock_mono() : began, &push.loss, &b, err);
		again = 0;
		if (result == WORK_OK)
			result = trainer_computed(t, began, &b, &again, err);
		if (result != WORK_OK)
			return result == WORK_DIVERGED ? diverged(t, t->flying, err) : result;
	} while (again);
	if (t->options.delay && (result = foresee(t, err)) != WORK_OK)
		return result;
	push.iteration = t->iteration;
	foretell(t, &push, clock_mono() - began - b.wait);
	double foretold = clock_mono();
	/* If each answer changes the batches, the next batch is not the one that is ready now. */
	const struct batch *next = t->next;
	if (!t->options.delay && t->steady)
		next = feed_next(t->feed);
	if ((result = x->kind->push(x, &push, t->batch, next, err)) != WORK_OK)
		return result == WORK_DIVERGED ? diverged(t, t->batch, err) : result;
	t->mark = clock_mono();
	t->pushing = t->mark - foretold - push.waited;
	b.comm += t->pushing;
	b.wait += push.waited;
	b.time = t->mark - began - b.wait;
	t->flying = t->batch;
	t->iteration++;
	if (!t->next && (result = trainer_settle(t, &b, err)) != WORK_OK)
		return result;
	t->batch = NULL;
	trainer_account(t, push.iteration, &b);
	return WORK_OK;
}

/* ---- the life ---- */

static int trainer_leave(struct trainer *t, uint64_t idle, struct error *err)
{
	double began = clock_mono();
	meter_report(t->meter); /* no batch follows for a while */
	if (!t->member)
		return WORK_OK;
	t->member = 0;
	int result = t->exchange->kind->leave(t->exchange, 0, idle, err);
	meter_spend(t->meter, SPENT_WAIT, began);
	return result;
}

/* Nothing to hand out: leaves the barrier, then waits at shardd. */
static int wait_for_work(struct trainer *t, struct error *err)
{
	struct piece piece;
	int result = trainer_leave(t, batch_size(t), err);
	double began = clock_mono();
	if (result == WORK_OK)
		result = shards_ask(t->shards, actions_rows_to_ask(batch_size(t), t->options.ahead, 0),
				    IDLE_ASK_SECONDS, err);
	if (result == WORK_OK)
		result = shards_take(t->shards, 1, &piece, err);
	meter_spend(t->meter, SPENT_WAIT, began);
	if (result == WORK_OK)
		return feed_add(t->feed, &piece, err);
	return result == WORK_WAIT || result == WORK_END ? WORK_OK : result;
}

/* The lead answers when the final checkpoint is there. */
static int trainer_end(struct trainer *t, struct error *err)
{
	int result = trainer_leave(t, 0, err);
	double began = clock_mono();
	if (result == WORK_OK)
		result = t->exchange->kind->end(t->exchange, err);
	meter_spend(t->meter, SPENT_WAIT, began);
	return result == WORK_OK ? WORK_END : result;
}

/* We are to stop: what is computed is not lost. */
static int trainer_land(struct trainer *t, struct error *err)
{
	struct tally_batch ignored = {0};
	int result = trainer_settle(t, &ignored, err);
	return result == WORK_OK ? WORK_STOP : result;
}

/* Works from hello until something ends it: WORK_END, WORK_STOP, WORK_FENCED, WORK_RESET or -1. */
static int trainer_live(struct trainer *t, struct error *err)
{
	int result = trainer_start_over(t, err);
	while (result == WORK_OK) {
		result = next_batch(t, err);
		if (result == WORK_OK)
			result = trainer_train(t, err);
		else if (result == WORK_STOP && t->flying)
			return trainer_land(t, err);
		else if (result == WORK_WAIT)
			result = wait_for_work(t, err);
		else if (result == WORK_END)
			return trainer_end(t, err);
	}
	return result;
}

static int trainer_lives(struct trainer *t, struct error *err)
{
	int result;
	do {
		double began = clock_mono();
		result = trainer_live(t, err);
		if (result == WORK_FENCED || result == WORK_RESET)
			log_say(LOG_LEVEL_INFO, "%s: starting over",
				result == WORK_FENCED ? "refused" : "a server went away");
		trainer_forget(t);
		/* so that repeated refusals do not keep everybody busy */
		if (clock_mono() - began < PAUSE_SECONDS && result >= 0)
			clock_sleep(PAUSE_SECONDS);
	} while (result == WORK_FENCED || result == WORK_RESET);
	shards_bye(t->shards);
	return result;
}

/* Measures the device. 0, 1 (*stop is set) or -1. */
static int profile(struct trainer *t, struct error *err)
{
	const struct trainer_options *o = &t->options;
	const char *card = model_card(t->model);
	uint64_t size_max = o->batch * PROFILE_BATCHES;
	if (card && size_max < PROFILE_CARD)
		size_max = PROFILE_CARD;
	struct trial_options options = {.model = t->model,
					.spec = o->spec,
					.dataset = o->dataset,
					.unit_weights = o->unit_weights,
					.rows = size_max};
	struct device_options device = {.prepare = trial_prepare,
					.step = trial_step,
					.size_max = size_max,
					.most = NODE_BATCH_MAX,
					.drag = drag_look(&t->drag),
					.name = card,
					.left = card ? trial_left : NULL,
					.keep = {.path = card ? o->device_file : NULL},
					.stop = o->stop};
	struct trial *trial;
	double began = clock_mono();
	if ((device.keep.path && fs_sample_sum(o->model_path, MODEL_FILE_MAX, &device.keep.model, err) != 0) ||
	    trial_new(&trial, &options, err) != 0)
		return -1;
	meter_spend(t->meter, SPENT_PROFILE, began);
	device.owner = trial;
	int result = meter_device(t->meter, &device, err);
	trial_free(trial);
	if (card && result == 0)
		model_limit(t->model, t->fits = (size_t)meter_most(t->meter));
	return result;
}

int trainer_run(struct trainer *t, struct error *err)
{
	int result = t->options.profile ? profile(t, err) : 0;
	if (result == 0 && start_feed(t, err) != 0)
		result = -1;
	if (result == 0)
		result = trainer_lives(t, err);
	meter_report(t->meter);
	speed_keep(t->speed, NAN);
	meter_log_spent(t->meter);
	return result < 0 ? -1 : 0;
}

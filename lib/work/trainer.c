/*
 * trainer: see trainer.h.  One thread speaks to all daemons; the feed's thread only reads files.
 * Must never report progress to shardd: the lead does, when it has committed.
 */
#include "work/trainer.h"

#include "base/clock.h"
#include "base/log.h"
#include "work/feed.h"
#include "work/report.h"
#include "work/servers.h"
#include "work/shards.h"
#include "wire/drag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_ASK_SECONDS 1.0 /* shardd may hold a get back this long; *stop waits for it */
#define PAUSE_SECONDS 0.05

enum { NEWS_SIZE = 1, NEWS_SCALE = 2 };

struct trainer {
	struct trainer_options options;
	struct model *model;
	struct shards *shards;
	struct servers *servers;
	struct feed *feed;
	struct report *report;
	uint64_t size, accum; /* in force: rows in a step, steps in a push */
	uint64_t new_size, new_accum; /* from the next batch on */
	double scale;                 /* of the learning rate, as last told */
	int news;                     /* NEWS_: told, and not yet obeyed */
	int member;
	uint64_t iteration, sequence;
	const struct batch *batch; /* in hand; NULL: none */
	double mark; /* when this batch's time began */
	struct drag_file drag;
};

/* ---- actions ---- */

static void log_applied(struct trainer *t, const char *kind, struct record_out *o)
{
	record_add(o, "kind", kind);
	record_add(o, "id", t->options.worker);
	if (strcmp(kind, "adjust-bs") == 0) {
		record_add_u64(o, "size", t->size);
		record_add_u64(o, "accum", t->accum);
	} else {
		record_add_real(o, "scale", t->scale);
	}
	record_add_u64(o, "iteration", t->iteration);
	record_add_seconds(o, "at", clock_epoch());
	size_t len = record_end(o, NULL);
	if (len > 0 && t->options.applied)
		t->options.applied(o->data, len, t->options.owner);
}

static int read_action(struct trainer *t, const struct record *r, struct error *err)
{
	const char *kind = record_get(r, "kind"), *id = record_get(r, "id");
	uint64_t size, accum = 1;
	if (!kind || !id || strcmp(id, t->options.worker) != 0)
		return 0;
	if (strcmp(kind, "adjust-bs") == 0) {
		if (record_u64(r, "size", 1, TRAINER_BATCH_MAX, &size, err) < 0 ||
		    record_u64_opt(r, "accum", 1, TRAINER_BATCH_MAX / size, &accum, err) < 0)
			return -1;
		t->new_size = size;
		t->new_accum = accum;
		t->news |= NEWS_SIZE;
	} else if (strcmp(kind, "adjust-lr") == 0) {
		if (record_real(r, "scale", 0, 1e9, &t->scale, err) < 0)
			return -1;
		t->news |= NEWS_SCALE;
	}
	return 0;
}

/* Actions come before the record that says which iteration they are for. */
static void take_action(const struct record *r, void *owner)
{
	struct error err;
	if (read_action(owner, r, &err) < 0)
		log_say(LOG_LEVEL_WARNING, "an action is not obeyed: %s: %s", err.place, err.text);
}

/* The servers weigh the gradients (adjust-lr); here only the batch changes. */
static void obey(struct trainer *t)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	int news = t->news;
	t->news = 0;
	if (t->new_size != t->size || t->new_accum != t->accum) {
		t->size = t->new_size;
		t->accum = t->new_accum;
		feed_resize(t->feed, t->size * t->accum);
	}
	if (news & NEWS_SIZE) {
		record_begin(&o, line, sizeof(line), "applied");
		log_applied(t, "adjust-bs", &o);
	}
	if (news & NEWS_SCALE) {
		record_begin(&o, line, sizeof(line), "applied");
		log_applied(t, "adjust-lr", &o);
	}
}

/* ---- start and end ---- */

/* shardd says what we hold; what we do not know of was an answer that got lost. */
static int take_held(const struct piece *p, void *owner, struct error *err)
{
	struct trainer *t = owner;
	for (size_t i = 0; t->batch && i < t->batch->range_count; i++)
		if (t->batch->range[i].id == p->id)
			return 0;
	return feed_knows(t->feed, p->id) ? 0 : feed_add(t->feed, p, err);
}

static int new_talkers(struct trainer *t, struct error *err)
{
	const struct trainer_options *o = &t->options;
	uint64_t keys = model_keys_are_rows(o->spec) ? o->spec->samples
						     : (uint64_t)1 << o->spec->hash_bits;
	struct shards_options shards = {.path = o->shards,
					.worker = o->worker,
					.wait_seconds = o->wait_seconds,
					.answer_seconds = o->answer_seconds,
					.stop = o->stop,
					.held = take_held,
					.owner = t};
	struct servers_options servers = {.paths = o->servers,
					  .count = o->server_count,
					  .worker = o->worker,
					  .dense_count = model_dense_count(o->spec),
					  .width = model_width(o->spec),
					  .key_count = keys,
					  .wait_seconds = o->wait_seconds,
					  .answer_seconds = o->answer_seconds,
					  .stop = o->stop,
					  .action = take_action,
					  .owner = t};
	struct feed_options feed = {.dataset = o->dataset,
				    .keys_are_rows = model_keys_are_rows(o->spec),
				    .key_count = keys,
				    .parts = o->server_count,
				    .size = o->batch};
	if (shards_new(&t->shards, &shards, err) < 0 ||
	    servers_new(&t->servers, &servers, err) < 0 || feed_new(&t->feed, &feed, err) < 0)
		return -1;
	return report_new(&t->report, o->monitor, err);
}

int trainer_new(struct trainer **out, const struct trainer_options *options, struct error *err)
{
	struct trainer *t = calloc(1, sizeof(*t));
	if (!t)
		return error_set(err, ERROR_OS, "", "no memory");
	t->options = *options;
	t->drag.path = options->drag;
	t->size = t->new_size = options->batch;
	t->accum = t->new_accum = 1;
	if (model_new(&t->model, options->spec, err) < 0 || new_talkers(t, err) < 0) {
		trainer_free(t);
		return -1;
	}
	*out = t;
	return 0;
}

void trainer_free(struct trainer *t)
{
	if (!t)
		return;
	feed_free(t->feed);
	servers_free(t->servers);
	shards_free(t->shards);
	report_free(t->report);
	model_free(t->model);
	free(t);
}

static int stopped(const struct trainer *t)
{
	return t->options.stop && *t->options.stop;
}

static int check_samples(const struct trainer *t, struct error *err)
{
	uint64_t queue = shards_samples(t->shards), data = dataset_rows(t->options.dataset);
	if (queue == data)
		return 0;
	return error_set(err, ERROR_CONFIG, t->options.shards,
			 "hands out %llu samples, but the data have %llu rows",
			 (unsigned long long)queue, (unsigned long long)data);
}

/* A new generation, and servers of the queue's incarnation. While a rollback goes on the two
 * differ: servers with a higher one mean that the queue was loaded after our hello. */
static int start_over(struct trainer *t, struct error *err)
{
	double deadline = clock_mono() + t->options.wait_seconds;
	uint64_t low, high, incarnation;
	int hello = 1;
	for (;;) {
		int result = hello ? shards_hello(t->shards, err) : WORK_OK;
		if (result == WORK_OK && check_samples(t, err) < 0)
			return -1;
		if (result == WORK_OK)
			result = servers_connect(t->servers, &low, &high, err);
		if (result != WORK_OK)
			return result;
		incarnation = shards_incarnation(t->shards);
		if (low == incarnation && high == incarnation)
			break;
		if (clock_mono() >= deadline)
			return error_set(err, ERROR_UNAVAILABLE, t->options.servers[0],
					 "servers of incarnation %llu, a queue of %llu",
					 (unsigned long long)low, (unsigned long long)incarnation);
		hello = high > incarnation;
		servers_disconnect(t->servers);
		clock_sleep(PAUSE_SECONDS);
		if (stopped(t))
			return WORK_STOP;
	}
	servers_identify(t->servers, shards_generation(t->shards), incarnation);
	t->sequence = 0;
	t->mark = clock_mono();
	return WORK_OK;
}

/* Nobody waits for us any more. */
static void forget(struct trainer *t)
{
	struct error ignored;
	if (t->member && servers_connected(t->servers) &&
	    servers_leave(t->servers, &ignored) != WORK_OK)
		servers_disconnect(t->servers);
	t->member = 0;
	t->batch = NULL;
	feed_drop(t->feed);
}

/* ---- a batch ---- */

static int join(struct trainer *t, struct error *err)
{
	int result = servers_join(t->servers, t->size * t->accum, &t->iteration, err);
	if (result != WORK_OK)
		return result;
	t->member = 1;
	obey(t);
	t->mark = clock_mono();
	return WORK_OK;
}

/* Asks shardd for more when there is no whole batch in hand, or half of what may be held at most, and
 * takes its answer: at once when there is one, after waiting when there is no whole batch in hand. *dry: WORK_WAIT or
 * WORK_END as shardd said; then it is not asked again. */
static int stock_up(struct trainer *t, int *dry, struct error *err)
{
	uint64_t size = t->size * t->accum, most = size * t->options.ahead;
	uint64_t held = feed_held(t->feed);
	struct piece piece;
	if (!*dry && (held < size || held * 2 <= most)) {
		int result = shards_ask(t->shards, most - held, 0, err);
		if (result != WORK_OK)
			return result;
	}
	if (!shards_asked(t->shards))
		return WORK_OK;
	int result = shards_take(t->shards, held < size, &piece, err);
	if (result == WORK_STOP)
		return stopped(t) ? WORK_STOP : WORK_OK;
	if (result == WORK_WAIT || result == WORK_END) {
		*dry = result;
		return WORK_OK;
	}
	return result == WORK_OK ? feed_add(t->feed, &piece, err) : result;
}

/* WORK_OK: t->batch is there and we are a member. WORK_WAIT, WORK_END: nothing to do. */
static int next_batch(struct trainer *t, struct error *err)
{
	int dry = 0;
	t->batch = NULL;
	for (;;) {
		struct batch *b;
		int result = stopped(t) ? WORK_STOP : stock_up(t, &dry, err);
		if (result != WORK_OK)
			return result;
		uint64_t held = feed_held(t->feed);
		if (held == 0 && dry)
			return dry;
		if (held < t->size * t->accum && !dry)
			continue;
		if (!t->member) { /* which may change the batch's size */
			result = join(t, err);
			if (result != WORK_OK)
				return result;
			continue;
		}
		if (feed_take(t->feed, dry != 0, &b, err) < 0)
			return -1;
		t->batch = b;
		if (b)
			return WORK_OK;
	}
}

static double slow_down(struct trainer *t, const struct drag *drag, double began)
{
	double before = clock_mono();
	double pause = drag_pause(drag, t->batch->positions, t->size, before - began);
	double until = before + pause, left;
	while ((left = until - clock_mono()) > 0 && !stopped(t))
		clock_sleep(left);
	return pause;
}

static int compute(struct trainer *t, const struct servers_values *v, double *loss,
		   struct error *err)
{
	const struct batch *b = t->batch;
	*loss = 0;
	for (size_t at = 0; at < b->count; at += t->size) {
		size_t count = b->count - at < t->size ? b->count - at : t->size;
		struct model_batch slice = batch_slice(b, at, count, t->options.unit_weights);
		if (model_train(t->model, &slice, v->dense, v->rows, v->dense_gradient,
				v->row_gradient, loss, err) < 0)
			return -1;
	}
	if (!isfinite(*loss))
		return error_set(err, ERROR_DATA, "",
				 "the loss is not a number in iteration %llu: LR is too large for "
				 "these data, or they hold values beyond reason",
				 (unsigned long long)t->iteration);
	return WORK_OK;
}

static void report_bpt(struct trainer *t, double time, double computing, double comm, double wait)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (t->iteration % t->options.report_every != 0)
		return;
	record_begin(&o, line, sizeof(line), "bpt");
	record_add(&o, "role", "worker");
	record_add(&o, "id", t->options.worker);
	record_add_u64(&o, "iter", t->iteration);
	record_add_seconds(&o, "time", time);
	record_add_u64(&o, "size", t->batch->positions);
	record_add_seconds(&o, "at", clock_epoch());
	record_add_seconds(&o, "compute", computing);
	record_add_seconds(&o, "comm", comm);
	record_add_seconds(&o, "wait", wait);
	size_t len = record_end(&o, NULL);
	report_send(t->report, line, len);
}

static int train(struct trainer *t, struct error *err)
{
	struct servers_values values;
	struct servers_push push = {.sequence = ++t->sequence,
				    .iteration = t->iteration,
				    .size = t->size * t->accum};
	uint64_t iteration = t->iteration;
	int dropped, result;
	double began = t->mark, pulling = clock_mono();
	if ((result = servers_pull(t->servers, t->iteration, t->batch, &values, err)) != WORK_OK)
		return result;
	double pulled = clock_mono();
	const struct drag *drag = drag_look(&t->drag);
	uint64_t step = t->batch->positions < t->size ? t->batch->positions : t->size;
	if (drag_fits(drag, step, err) < 0)
		return -1;
	if ((result = compute(t, &values, &push.loss, err)) != WORK_OK)
		return result;
	slow_down(t, drag, began);
	double computed = clock_mono();
	if ((result = servers_push(t->servers, &push, t->batch, err)) != WORK_OK)
		return result;
	double pushed = clock_mono();
	if ((result = servers_pushed(t->servers, &iteration, &dropped, err)) != WORK_OK)
		return result;
	t->mark = clock_mono();
	report_bpt(t, pushed - began, computed - pulled, (pulled - pulling) + (pushed - computed),
		   t->mark - pushed);
	t->iteration = iteration;
	t->batch = NULL;
	obey(t);
	return WORK_OK;
}

/* ---- the life ---- */

static int leave(struct trainer *t, struct error *err)
{
	if (!t->member)
		return WORK_OK;
	t->member = 0;
	return servers_leave(t->servers, err);
}

/* Nothing to hand out: out of the barrier, then at shardd's door. */
static int wait_for_work(struct trainer *t, struct error *err)
{
	struct piece piece;
	int result = leave(t, err);
	if (result == WORK_OK)
		result = shards_ask(t->shards, t->size * t->accum * t->options.ahead,
				    IDLE_ASK_SECONDS, err);
	if (result == WORK_OK)
		result = shards_take(t->shards, 1, &piece, err);
	if (result == WORK_OK)
		return feed_add(t->feed, &piece, err);
	return result == WORK_WAIT || result == WORK_END ? WORK_OK : result;
}

/* The lead answers when the final checkpoint is there. */
static int end(struct trainer *t, struct error *err)
{
	int result = leave(t, err);
	if (result == WORK_OK)
		result = servers_end(t->servers, err);
	return result == WORK_OK ? WORK_END : result;
}

/* From hello until something ends it: WORK_END, WORK_STOP, WORK_FENCED, WORK_RESET or -1. */
static int live(struct trainer *t, struct error *err)
{
	int result = start_over(t, err);
	while (result == WORK_OK) {
		result = next_batch(t, err);
		if (result == WORK_OK)
			result = train(t, err);
		else if (result == WORK_WAIT)
			result = wait_for_work(t, err);
		else if (result == WORK_END)
			return end(t, err);
	}
	return result;
}

int trainer_run(struct trainer *t, struct error *err)
{
	int result;
	do {
		double began = clock_mono();
		result = live(t, err);
		if (result == WORK_FENCED || result == WORK_RESET)
			log_say(LOG_LEVEL_INFO, "%s: starting over",
				result == WORK_FENCED ? "refused" : "a server went away");
		forget(t);
		/* so that a refusal that repeats itself does not keep everybody busy */
		if (clock_mono() - began < PAUSE_SECONDS && result >= 0)
			clock_sleep(PAUSE_SECONDS);
	} while (result == WORK_FENCED || result == WORK_RESET);
	shards_bye(t->shards);
	return result < 0 ? -1 : 0;
}

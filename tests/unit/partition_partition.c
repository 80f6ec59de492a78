/* Partitions: shares against a plain definition, whole lives of a queue against what each row
 * should have, and a second queue that follows the first one's lines. */
#include "tests/unit/queue.h"
#include "tests/unit/rounds.h"

#include <time.h>

static uint64_t state;

static uint64_t pick(uint64_t below)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (z ^ (z >> 31)) % below;
}

/* ---- decisions ---- */

static void shares_are_in_proportion(void **unused)
{
	(void)unused;
	const uint64_t rows[] = {2000, 2000, 2000, 2000, 2000};
	const uint64_t given[] = {64, 96, 128, 160, 192};
	const uint64_t want[] = {1000, 1500, 2000, 2500, 3000};
	uint64_t share[5];
	partitions_shares(rows, given, 5, 1, share);
	assert_memory_equal(share, want, sizeof want);
	/* One below its lowest gets that; the others divide the rest: 9400 by 96:128:160:192. */
	partitions_shares(rows, (const uint64_t[]){0, 96, 128, 160, 192}, 5, 600, share);
	assert_int_equal(share[0], 600);
	assert_in_range(share[1], 1566, 1567);
	assert_in_range(share[4], 3133, 3134);
	/* Nobody did anything: everybody keeps what they have. */
	partitions_shares(rows, (const uint64_t[]){0, 0, 0, 0, 0}, 5, 600, share);
	assert_memory_equal(share, rows, sizeof rows);
}

static void shares_keep_the_sum(void **unused)
{
	(void)unused;
	state = 7;
	for (int trial = 0; trial < ROUNDS(20000); trial++) {
		uint64_t rows[9], given[9], share[9], sum = 0, all = 0;
		size_t count = 1 + pick(9);
		uint64_t floor_rows = pick(50);
		for (size_t i = 0; i < count; i++) {
			rows[i] = 1 + pick(pick(2) ? 10 : 1000000);
			given[i] = pick(3) ? pick(1000000) : 0;
			all += rows[i];
		}
		partitions_shares(rows, given, count, floor_rows, share);
		for (size_t i = 0; i < count; i++) {
			sum += share[i];
			assert_true(share[i] >= (rows[i] < floor_rows ? rows[i] : floor_rows));
			assert_true(share[i] >= 1);
			/* Faster is never less, but for lowest values and one row of rounding. */
			for (size_t j = 0; j < count; j++)
				if (given[i] > given[j] && share[j] > floor_rows + 1 && rows[j] > floor_rows)
					assert_true(share[i] + 1 >= share[j]);
		}
		assert_int_equal(sum, all);
	}
}

/* ---- lives ---- */

#define WORKERS 5
#define ROWS_MAX 700
#define HAND 4

struct life {
	struct queue *queue;
	struct text journal;
	uint64_t generation[WORKERS];
	struct queue_piece hand[WORKERS][HAND];
	size_t held[WORKERS];
	uint64_t applied[WORKERS * ROWS_MAX];
	uint64_t samples, epochs, moves;
};

/* As a journal that is begun anew. */
static void begin_text(struct life *l)
{
	l->journal.len = 0;
	queue_write(l->queue, text_add, &l->journal);
	queue_set_log(l->queue, text_add, &l->journal);
}

static enum queue_result say_move(struct queue *q, uint64_t id, const char *from, const char *to,
				  uint64_t begin, uint64_t length)
{
	struct queue_change c = {
		.id = id, .from = from, .to = to, .begin = begin, .length = length};
	return say(q, "move", &c);
}

static enum queue_result say_moved(struct queue *q, const char *worker, uint64_t id)
{
	struct queue_change c = {.id = id, .worker = worker};
	return say(q, "moved", &c);
}

static const char *name(size_t i)
{
	static const char *const names[] = {"w0", "w1", "w2", "w3", "w4"};
	return names[i];
}

static void start(struct life *l, double migrate, enum queue_shuffle shuffle)
{
	struct partition_own part[WORKERS];
	struct error err = {0};
	memset(l, 0, sizeof *l);
	for (size_t i = 0; i < WORKERS; i++) {
		part[i] = (struct partition_own){.rows = 1 + pick(ROWS_MAX)};
		strcpy(part[i].worker, name(i));
		l->samples += part[i].rows;
	}
	l->epochs = 1 + pick(7);
	struct queue_parameters p = {.samples = l->samples, .batch = 1 + pick(40), .batches = 1 + pick(4),
				     .epochs = l->epochs, .shuffle = shuffle, .seed = 3,
				     .partition = part, .partitions = WORKERS};
	assert_int_equal(queue_new(&l->queue, &p, &err), 0);
	struct queue_change set = {.threshold = migrate};
	say(l->queue, "migrate", &set);
	begin_text(l);
	for (size_t i = 0; i < WORKERS; i++)
		assert_int_equal(say_hello(l->queue, name(i), &l->generation[i]), QUEUE_OK);
}

static size_t owner_of(const struct queue_parameters *p, uint64_t row)
{
	size_t i = 0;
	for (uint64_t end = p->partition[0].rows; row >= end; end += p->partition[++i].rows)
		;
	return i;
}

static void get(struct life *l, size_t w, int may_be_foreign)
{
	struct queue_piece *p = &l->hand[w][l->held[w]];
	if (l->held[w] == HAND)
		return;
	enum queue_result result =
		say_get(l->queue, name(w), l->generation[w], 1 + pick(60), p);
	assert_true(result == QUEUE_OK || result == QUEUE_WAIT || result == QUEUE_END);
	if (result != QUEUE_OK)
		return;
	if (!may_be_foreign)
		assert_int_equal(owner_of(queue_parameters(l->queue), p->begin), w);
	l->held[w]++;
}

/* A row of a piece stands for its position when samples are shuffled: what counts is that all of a
 * frame comes once, so positions will do. */
static enum queue_result settle_of(struct queue *q, uint64_t number, uint64_t iteration,
				   uint64_t incarnation, struct queue_range *line, size_t count,
				   struct error *why)
{
	struct queue_settlement s = {
		.number = number, .iteration = iteration, .incarnation = incarnation};

	return queue_settle(q, &s, line, count, why);
}

static void apply(struct life *l, size_t w)
{
	struct error err = {0};
	if (l->held[w] == 0)
		return;
	size_t i = pick(l->held[w]);
	struct queue_piece p = l->hand[w][i];
	uint64_t lo = p.skip, n = 1 + pick(p.take);
	struct queue_range line = {.worker = name(w), .generation = l->generation[w], .id = p.id,
				  .begin = p.begin + lo, .length = n};
	static uint64_t number; number++;
	assert_int_equal(settle_of(l->queue, number, number, queue_incarnation(l->queue), &line,
				      1, &err),
			 QUEUE_OK);
	assert_false(line.refused);
	for (uint64_t row = 0; row < n; row++)
		l->applied[p.begin + lo + row]++;
	l->hand[w][i].skip += n;
	l->hand[w][i].take -= n;
	if (l->hand[w][i].take == 0)
		l->hand[w][i] = l->hand[w][--l->held[w]];
}

static void die(struct life *l, size_t w)
{
	uint64_t shards;
	assert_int_equal(say_fail(l->queue, name(w), &shards), QUEUE_OK);
	assert_int_equal(shards, l->held[w]);
	l->held[w] = 0;
	assert_int_equal(say_hello(l->queue, name(w), &l->generation[w]), QUEUE_OK);
}

static void move(struct life *l)
{
	const struct partitions *own = queue_own(l->queue);
	struct partition_move *moves;
	size_t count;
	assert_int_equal(partitions_due(own, queue_parameters(l->queue)->batch, &moves, &count), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(say_move(l->queue, moves[i].id, name(moves[i].from),
					  name(moves[i].to), moves[i].begin, moves[i].length),
				 QUEUE_OK);
	free(moves);
	if (own->moves == 0 || pick(4) > 0)
		return;
	struct partition_move one = own->move[pick(own->moves)];
	if (pick(8) == 0) {
		struct queue_change c = {.id = one.id};
		assert_int_equal(say(l->queue, "drop", &c), QUEUE_OK);
	} else {
		assert_int_equal(say_moved(l->queue, name(one.from), one.id), QUEUE_NOT_YOURS);
		assert_int_equal(say_moved(l->queue, name(one.to), one.id), QUEUE_OK);
		l->moves++;
	}
}

/* To the end; then each row was applied as often as it was handed out, once at least. */
static void live(struct life *l, int has_moves)
{
	say_set(l->queue, 0, 0); /* no piece is held for ever */
	for (int turn = 0; !queue_is_over(l->queue); turn++) {
		size_t w = pick(WORKERS * (WORKERS + 1) / 2), who = 0;
		assert_true(turn < 1000000);
		while (w > who) /* w4 is five times as fast as w0 */
			w -= ++who;
		switch (pick(40)) {
		case 0:
			die(l, who);
			break;
		case 1:
			assert_replayed(l->queue, &l->journal);
			if (pick(3) == 0)
				begin_text(l);
			break;
		default:
			get(l, who, has_moves);
			apply(l, who);
			move(l);
		}
	}
	uint64_t sum = 0, rows = 0;
	for (size_t i = 0; i < WORKERS; i++) {
		const struct partition *p = &queue_own(l->queue)->partition[i];
		for (size_t j = 0; j < p->count; j++) {
			struct partition_run run = p->run[j];
			assert_true(run.times >= 1);
			rows += run.length;
			sum += run.length * run.times;
			for (uint64_t r = run.begin; r < run.begin + run.length; r++)
				if (queue_parameters(l->queue)->shuffle == QUEUE_SHUFFLE_NONE)
					assert_int_equal(l->applied[r], run.times);
		}
	}
	assert_int_equal(rows, l->samples);
	assert_int_equal(sum, l->samples * l->epochs);
	assert_replayed(l->queue, &l->journal);
	queue_free(l->queue);
	free(l->journal.data);
}

static void each_row_counts_as_told(void **unused)
{
	(void)unused;
	struct life *l = malloc(sizeof *l);
	for (uint64_t seed = 0; seed < (uint64_t)ROUNDS(60); seed++) {
		state = seed;
		start(l, 0, seed % 2 ? QUEUE_SHUFFLE_SAMPLES : QUEUE_SHUFFLE_NONE);
		live(l, 0);
	}
	free(l);
}

static void moves_lose_nothing(void **unused)
{
	(void)unused;
	struct life *l = malloc(sizeof *l);
	uint64_t moves = 0;
	for (uint64_t seed = 100; seed < 100 + (uint64_t)ROUNDS(120); seed++) {
		state = seed;
		start(l, 0.25 + (double)pick(8) / 4, seed % 2 ? QUEUE_SHUFFLE_SAMPLES : QUEUE_SHUFFLE_NONE);
		live(l, 1);
		moves += l->moves;
	}
	assert_true(moves > 100 / (uint64_t)rounds_part());
	free(l);
}

/* What the giver has not handed out in its pass comes in the receiver's; the rest in its
 * next. */
static void a_move_keeps_passes(void **unused)
{
	(void)unused;
	const struct partition_own part[] = {{"w0", 100}, {"w1", 100}};
	struct queue_parameters p = {.samples = 200, .batch = 10, .batches = 1, .epochs = 9,
				     .partition = part, .partitions = 2};
	struct queue *q;
	struct error err = {0};
	struct queue_piece piece;
	uint64_t g0, g1;
	assert_int_equal(queue_new(&q, &p, &err), 0);
	assert_int_equal(say_hello(q, "w0", &g0), QUEUE_OK);
	assert_int_equal(say_hello(q, "w1", &g1), QUEUE_OK);
	for (int i = 0; i < 7; i++) /* rows 0..69 of w0 */
		assert_int_equal(say_get(q, "w0", g0, 10, &piece), QUEUE_OK);
	for (int i = 0; i < 3; i++) /* rows 100..129 of w1 */
		assert_int_equal(say_get(q, "w1", g1, 10, &piece), QUEUE_OK);
	assert_int_equal(say_move(q, 0, "w0", "w1", 60, 20), QUEUE_OK);
	assert_int_equal(say_moved(q, "w1", 0), QUEUE_OK);
	assert_int_equal(say_moved(q, "w1", 0), QUEUE_OK); /* said again */
	const struct partition *from = &queue_own(q)->partition[0], *to = from + 1;
	assert_int_equal(from->rows, 80);
	assert_int_equal(from->left, 20); /* 80..99 */
	assert_int_equal(to->rows, 120);
	assert_int_equal(to->left, 80); /* 130..199, and 70..79 */
	/* Spread in runs of five: 70..79 among what is left of this pass, 60..69 behind. */
	uint64_t at = 0, ahead = 0, behind = 0;
	for (size_t i = 0; i < to->count; at += to->run[i++].length) {
		uint64_t begin = to->run[i].begin;
		if (begin >= 100)
			continue;
		assert_int_equal(to->run[i].length, 5);
		assert_int_equal(to->run[i].times, begin < 70);
		*(at < to->left ? &ahead : &behind) += begin;
		assert_true(at > 0);
	}
	assert_int_equal(ahead, 70 + 75);
	assert_int_equal(behind, 60 + 65);
	assert_int_equal(say_move(q, 1, "w0", "w1", 60, 20), QUEUE_BAD);
	queue_free(q);
}

/* One epoch: everything is reserved, so nobody trains a row twice, and the fast one waits. */
static void one_epoch_is_each_row_once(void **unused)
{
	(void)unused;
	const struct partition_own part[] = {{"w0", 50}, {"w1", 50}};
	struct queue_parameters p = {.samples = 100, .batch = 10, .batches = 5, .epochs = 1,
				     .partition = part, .partitions = 2};
	struct queue *q;
	struct error err = {0};
	struct queue_piece piece = {0};
	uint64_t g0, g1;
	assert_int_equal(queue_new(&q, &p, &err), 0);
	assert_int_equal(say_hello(q, "w2", &g1), QUEUE_UNKNOWN_WORKER);
	assert_int_equal(say_hello(q, "w0", &g0), QUEUE_OK);
	assert_int_equal(say_hello(q, "w1", &g1), QUEUE_OK);
	assert_int_equal(say_get(q, "w1", g1, 0, &piece), QUEUE_OK);
	assert_int_equal(piece.begin, 50);
	assert_int_equal(piece.length, 50);
	assert_int_equal(say_done(q, "w1", g1, piece.id), QUEUE_OK);
	assert_int_equal(say_get(q, "w1", g1, 0, &piece), QUEUE_WAIT);
	assert_int_equal(say_get(q, "w0", g0, 0, &piece), QUEUE_OK);
	assert_int_equal(say_get(q, "w0", g0, 0, &piece), QUEUE_WAIT);
	assert_int_equal(say_done(q, "w0", g0, piece.id), QUEUE_OK);
	assert_int_equal(say_get(q, "w0", g0, 0, &piece), QUEUE_END);
	queue_free(q);
}

/* Each is found, and a name that is there twice; with 65536 in less CPU time than comparing all with
 * all takes by far. */
static void many_are_found(void **unused)
{
	enum { MANY = 65536 };
	struct partition_own *own = calloc(MANY, sizeof *own);
	struct error err;
	clock_t begin = clock();
	(void)unused;
	assert_non_null(own);
	for (size_t i = 0; i < MANY; i++) {
		snprintf(own[i].worker, sizeof own[i].worker, "w%zu", i * 7919 % MANY);
		own[i].rows = 1;
	}
	assert_int_equal(partitions_check(own, MANY, MANY, &err), 0);
	struct partitions *p = partitions_new(own, MANY, 100, 1);
	assert_non_null(p);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(partitions_find(p, own[i].worker), i);
	assert_int_equal(partitions_find(p, "w65536"), MANY);
	assert_int_equal(partitions_find(p, ""), MANY);
	partitions_free(p);
	memcpy(own[1].worker, own[MANY - 1].worker, sizeof own[1].worker);
	assert_int_equal(partitions_check(own, MANY, MANY, &err), -1);
	assert_non_null(strstr(err.text, own[1].worker));
	free(own);
	assert_true(clock() - begin < 10 * CLOCKS_PER_SEC);
}

static void lists_are_read(void **unused)
{
	(void)unused;
	static const char *const bad[] = {"", "w0", "w0:", ":5", "w0:x", "w0:1,", "w 0:1", "w0:1:2"};
	struct partition_own *list;
	struct error err = {0};
	size_t count;
	assert_int_equal(partitions_option("w0:500,w1:250", &list, &count, &err), 0);
	assert_int_equal(count, 2);
	assert_string_equal(list[1].worker, "w1");
	assert_int_equal(list[1].rows, 250);
	free(list);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(partitions_option(bad[i], &list, &count, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_in_proportion),
		cmocka_unit_test(shares_keep_the_sum),
		cmocka_unit_test(each_row_counts_as_told),
		cmocka_unit_test(moves_lose_nothing),
		cmocka_unit_test(a_move_keeps_passes),
		cmocka_unit_test(one_epoch_is_each_row_once),
		cmocka_unit_test(many_are_found),
		cmocka_unit_test(lists_are_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

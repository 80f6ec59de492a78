/*
 * shard_queue: the queue against a naive model.  The model is an array with a place for every
 * sample of every epoch; random requests go to both.  Whatever happens, each sample is in exactly
 * one place, the queue's counts are the model's, and a queue made from the lines that were
 * written (state, then changes) is the same as the one that wrote them.
 */
#include "base/random.h"
#include "shard/ledger.h"
#include "tests/unit/queue.h"
#include "tests/unit/rounds.h"

#include <time.h>

#define WORKERS 3
#define SAMPLES_MAX 64

/* ---- the naive model: position p of a frame is what is counted, so samples are known by it ----
 */
struct hand {
	int worker; /* -1: none */
	uint64_t generation, id, begin, length, epoch;
	unsigned char left[SAMPLES_MAX]; /* by position: 1 while it is neither done nor back */
};

struct model {
	struct queue *q;
	struct queue_parameters p;
	uint64_t done;                /* positions told done */
	uint64_t generation[WORKERS]; /* in force */
	uint64_t last[WORKERS];
	struct hand hand[512];
	size_t hands;
	struct text journal;
	uint64_t rng;
	double mono;
};

static const char *const name[WORKERS] = {"w0", "w1", "w2"};

static uint64_t pick(struct model *m, uint64_t n)
{
	return random_next(&m->rng) % n;
}

static void start(struct model *m, struct queue *q)
{
	m->q = q;
	m->journal.len = 0;
	queue_write(q, text_add, &m->journal);
	queue_clock(q, 1000, m->mono);
	text_add(&m->journal, "time at=1000", strlen("time at=1000"));
	queue_set_log(q, text_add, &m->journal);
}

static uint64_t in_hands(const struct model *m)
{
	uint64_t n = 0;
	for (size_t i = 0; i < m->hands; i++)
		for (uint64_t k = 0; k < m->hand[i].length; k++)
			n += m->hand[i].left[k];
	return n;
}

/* Samples of pieces that the queue lists in a state. */
struct sum {
	uint64_t samples, pieces;
};

static int add_piece(void *arg, const struct queue_piece *piece)
{
	struct sum *sum = arg;
	sum->samples += piece->take;
	sum->pieces++;
	return 0;
}

static int add_hand(void *arg, const struct queue_piece *piece)
{
	*(uint64_t *)arg += piece->take;
	return 0;
}

static void check(struct model *m)
{
	struct queue_stat stat;
	queue_stat(m->q, &stat);
	assert_int_equal(stat.samples_done, m->done);
	struct sum todo = {0}, held = {0};
	assert_int_equal(queue_list(m->q, 1u << QUEUE_TODO, 0, add_piece, &todo), 0);
	assert_int_equal(queue_list(m->q, 1u << QUEUE_HELD, 0, add_piece, &held), 0);
	uint64_t doing = 0, generation, last;
	for (int w = 0; w < WORKERS; w++)
		if (m->last[w] > 0) {
			queue_who(m->q, name[w], &generation, &last, add_hand, &doing, NULL);
			assert_int_equal(generation, m->generation[w]);
			assert_int_equal(last, m->last[w]);
		}
	assert_int_equal(doing, in_hands(m));
	struct ledger l;
	uint64_t rows = 0;
	assert_int_equal(ledger_of(&l, m->q, NULL), 0);
	for (size_t i = 0; i < l.runs; i++)
		rows += l.run[i].length;
	assert_int_equal(rows, m->done);
	ledger_free(&l);
	for (size_t i = 1; m->p.apart && i < m->hands; i++)
		assert_int_equal(m->hand[i].epoch, m->hand[0].epoch);
	/* The heart of it: every sample is in one place, and in one only. */
	assert_int_equal(todo.samples + held.samples + doing + m->done, m->p.samples * m->p.epochs);
	assert_int_equal(stat.todo, todo.pieces);
	assert_int_equal(stat.held, held.pieces);
	if (queue_is_over(m->q) && held.pieces == 0) {
		assert_int_equal(stat.shards_done, stat.shards);
		assert_int_equal(stat.epoch, m->p.epochs);
	}
}

/* ---- what is done to both ---- */

static void drop_hand(struct model *m, size_t i)
{
	m->hand[i] = m->hand[--m->hands];
}

static void lose_all(struct model *m, int w)
{
	for (size_t i = m->hands; i-- > 0;)
		if (m->hand[i].worker == w)
			drop_hand(m, i);
}

static void do_hello(struct model *m, int w)
{
	uint64_t generation;
	assert_int_equal(say_hello(m->q, name[w], &generation), QUEUE_OK);
	assert_int_equal(generation, m->last[w] + 1);
	lose_all(m, w);
	m->generation[w] = m->last[w] = generation;
}

static void do_get(struct model *m, int w)
{
	struct queue_piece piece;
	uint64_t max = pick(m, 3) == 0 ? 0 : 1 + pick(m, 6);
	enum queue_result result = say_get(m->q, name[w], m->generation[w], max, &piece);
	if (m->generation[w] == 0) {
		assert_int_equal(result, m->last[w] ? QUEUE_FENCED : QUEUE_UNKNOWN_WORKER);
		return;
	}
	if (result != QUEUE_OK) {
		assert_int_equal(result, in_hands(m) ? QUEUE_WAIT : QUEUE_END);
		return;
	}
	assert_true(m->hands < 512 && piece.length <= SAMPLES_MAX);
	assert_true(max == 0 || piece.take <= max);
	assert_true(piece.begin + piece.length <= m->p.samples);
	assert_true(piece.take > 0 && piece.skip + piece.take <= piece.length);
	if (m->p.shuffle != QUEUE_SHUFFLE_SAMPLES)
		assert_true(piece.skip == 0 && piece.take == piece.length && piece.seed == 0);
	struct hand *h = &m->hand[m->hands++];
	*h = (struct hand){.worker = w,
			   .generation = m->generation[w],
			   .id = piece.id,
			   .begin = piece.begin,
			   .length = piece.length,
			   .epoch = piece.epoch};
	for (uint64_t k = 0; k < piece.take; k++)
		h->left[piece.skip + k] = 1;
}

/* Takes positions out of a hand; returns how many there were; is_empty: none is left. */
static uint64_t take_out(struct hand *h, uint64_t lo, uint64_t hi, int *is_empty)
{
	uint64_t n = 0;
	for (uint64_t k = lo; k < hi; k++) {
		n += h->left[k];
		h->left[k] = 0;
	}
	*is_empty = !memchr(h->left, 1, h->length);
	return n;
}

static void random_range(struct model *m, const struct hand *h, uint64_t *lo, uint64_t *hi)
{
	*lo = pick(m, h->length);
	*hi = *lo + 1 + pick(m, h->length - *lo);
}

static void do_one(struct model *m, size_t i)
{
	struct hand *h = &m->hand[i];
	const char *w = name[h->worker];
	uint64_t lo, hi;
	int is_empty;
	random_range(m, h, &lo, &hi);
	switch (pick(m, 6)) {
	case 0:
		assert_int_equal(say_done(m->q, w, h->generation, h->id), QUEUE_OK);
		m->done += take_out(h, 0, h->length, &is_empty);
		break;
	case 1:
		assert_int_equal(say_progress(m->q, w, h->generation, h->id, hi), QUEUE_OK);
		m->done += take_out(h, 0, hi, &is_empty);
		break;
	case 2:
		assert_int_equal(say_back(m->q, w, h->generation, h->id), QUEUE_OK);
		is_empty = 1;
		break;
	case 3:
		assert_int_equal(say_back_range(m->q, w, h->generation, h->id, h->begin + lo,
						  hi - lo),
				 QUEUE_OK);
		take_out(h, lo, hi, &is_empty);
		break;
	case 4:
		assert_int_equal(queue_renew(m->q, w, h->generation, h->id, NULL), QUEUE_OK);
		return;
	default:
		assert_int_equal(say_done(m->q, name[(h->worker + 1) % WORKERS],
					    m->generation[(h->worker + 1) % WORKERS], h->id),
				 m->generation[(h->worker + 1) % WORKERS] ? QUEUE_NOT_YOURS
				 : m->last[(h->worker + 1) % WORKERS]     ? QUEUE_FENCED
									  : QUEUE_UNKNOWN_WORKER);
		return;
	}
	if (is_empty)
		drop_hand(m, i);
}

#define LINES_MAX 12

static enum queue_result settle_of(struct queue *q, uint64_t number, uint64_t iteration,
				   uint64_t incarnation, struct queue_range *line, size_t count,
				   struct error *why)
{
	struct queue_settlement s = {
		.number = number, .iteration = iteration, .incarnation = incarnation};

	return queue_settle(q, &s, line, count, why);
}

static enum queue_result known(const struct queue *q, uint64_t number, uint64_t incarnation,
			       struct error *why)
{
	struct queue_settlement s = {.number = number, .incarnation = incarnation};

	return queue_settle_known(q, &s, why);
}

/* A line of a settle as the model sees it. */
struct asked {
	size_t hand; /* SIZE_MAX: of nobody's hand, or of a generation that is none */
	uint64_t lo, hi;
};

/* Rows of a hand, mostly; now and then of another's, of a generation or a shard that is none. */
static void ask_line(struct model *m, struct queue_range *line, struct asked *asked)
{
	size_t i = pick(m, m->hands);
	struct hand *h = &m->hand[i];
	*asked = (struct asked){.hand = i};
	random_range(m, h, &asked->lo, &asked->hi);
	*line = (struct queue_range){.is_back = pick(m, 3) == 0,
				    .worker = name[h->worker],
				    .generation = h->generation,
				    .id = h->id,
				    .begin = h->begin + asked->lo,
				    .length = asked->hi - asked->lo};
	switch (pick(m, 24)) {
	case 0:
		line->generation += 7;
		break;
	case 1:
		line->id = 1u << 30;
		break;
	case 2:
		line->length = h->length + 1;
		break;
	case 3:
		line->worker = "nobody";
		break;
	case 4:
		line->begin = UINT64_MAX;
		break;
	default:
		return;
	}
	asked->hand = SIZE_MAX;
}

/* All of its rows are in the hand, and no other line names one of them. */
static int is_good(const struct model *m, const struct asked *asked, size_t count, size_t i)
{
	if (asked[i].hand == SIZE_MAX)
		return 0;
	for (uint64_t k = asked[i].lo; k < asked[i].hi; k++)
		if (!m->hand[asked[i].hand].left[k])
			return 0;
	for (size_t j = 0; j < count; j++)
		if (j != i && asked[j].hand == asked[i].hand && asked[j].lo < asked[i].hi &&
		    asked[i].lo < asked[j].hi)
			return 0;
	return 1;
}

/* Which apply lines are refused: one that is not good takes its generation's others with it. */
static size_t expect_refusals(const struct model *m, const struct queue_range *line,
			      const struct asked *asked, size_t count, int *refused)
{
	size_t n = 0;
	for (size_t i = 0; i < count; i++) {
		refused[i] = 0;
		for (size_t j = 0; j < count && !line[i].is_back; j++)
			refused[i] |= !line[j].is_back && !is_good(m, asked, count, j) &&
				      line[j].generation == line[i].generation &&
				      strcmp(line[j].worker, line[i].worker) == 0;
		n += (size_t)refused[i];
	}
	return n;
}

static const char *note_of(uint64_t number)
{
	static char note[32];

	snprintf(note, sizeof note, "%llu-1-2", (unsigned long long)number);
	return note;
}

static uint64_t take_term(struct queue *q)
{
	struct queue_change c = {.worker = NULL};

	assert_int_equal(queue_make(q, queue_kind("term"), &c, NULL), QUEUE_OK);
	return c.term;
}

static void do_settle(struct model *m)
{
	struct queue_range line[LINES_MAX];
	struct asked asked[LINES_MAX];
	int refused[LINES_MAX];
	size_t count = m->hands ? pick(m, LINES_MAX + 1) : 0, refusals;
	struct queue_stat stat;
	queue_stat(m->q, &stat);
	for (size_t i = 0; i < count; i++)
		ask_line(m, &line[i], &asked[i]);
	size_t expected = expect_refusals(m, line, asked, count, refused);
	static uint64_t number;
	number++;
	struct queue_settlement s = {.number = number,
				     .iteration = stat.iteration + 1,
				     .incarnation = stat.incarnation,
				     .term = pick(m, 2) ? queue_term(m->q) : 0,
				     .is_whole = pick(m, 2) == 0,
				     .note = pick(m, 2) ? note_of(number) : NULL};
	const char *note, *before_note;
	uint64_t before = queue_committed(m->q, &before_note);
	char before_copy[OPTION_ID_MAX];
	snprintf(before_copy, sizeof before_copy, "%s", before_note);
	assert_int_equal(queue_settle(m->q, &s, line, count, NULL), QUEUE_OK);
	int nothing = s.is_whole && expected > 0;
	uint64_t after = queue_committed(m->q, &note);
	if (s.note && !nothing) {
		assert_true(after == s.iteration + 1);
		assert_string_equal(note, s.note);
	} else {
		assert_true(after == (s.term ? before : 0));
		assert_string_equal(note, s.term ? before_copy : "");
	}
	assert_true(queue_settled_whole(m->q) == s.is_whole);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(line[i].refused, refused[i]);
	queue_refusals(m->q, &refusals);
	assert_int_equal(refusals, expected);
	assert_int_equal(settle_of(m->q, number, 5, stat.incarnation, line, count, NULL),
			 QUEUE_REPEATED);
	for (size_t i = 0; i < count; i++) {
		int is_empty;
		if (asked[i].hand == SIZE_MAX || refused[i] || nothing)
			continue;
		uint64_t n = take_out(&m->hand[asked[i].hand], asked[i].lo, asked[i].hi, &is_empty);
		m->done += line[i].is_back ? 0 : n;
	}
	for (size_t i = m->hands; i-- > 0;)
		if (!memchr(m->hand[i].left, 1, m->hand[i].length))
			drop_hand(m, i);
}

static void do_release(struct model *m)
{
	struct queue_stat stat;
	queue_stat(m->q, &stat);
	for (uint64_t id = 0; stat.held > 0 && id < stat.shards * 40; id++)
		say_release(m->q, id);
}

/* Leases end for some pieces: the model asks the queue which worker lost what. */
static int mark(void *arg, const struct queue_piece *piece)
{
	struct model *m = arg;
	for (size_t i = 0; i < m->hands; i++)
		if (m->hand[i].id == piece->id)
			m->hand[i].generation |= 1ull << 63;
	return 0;
}

static void do_expire(struct model *m)
{
	say_set(m->q, queue_retries(m->q), 10);
	m->mono += 4;
	queue_clock(m->q, 1000, m->mono);
	queue_expire(m->q, 0);
	queue_list(m->q, 1u << QUEUE_DOING, 0, mark, m);
	for (size_t i = m->hands; i-- > 0;) {
		if (m->hand[i].generation >> 63)
			m->hand[i].generation &= ~(1ull << 63);
		else
			drop_hand(m, i);
	}
}

/* save, some more requests, load: generations are fenced, done samples are those of the save. */
static char *saved;
static uint64_t saved_done;

static void do_save(struct model *m)
{
	free(saved);
	saved = text_of(m->q);
	saved_done = m->done;
}

static void do_load(struct model *m)
{
	if (!saved)
		return;
	struct queue *q = queue_of_text(saved, NULL, NULL);
	uint64_t before = queue_incarnation(m->q);
	assert_int_equal(queue_roll_back(q, m->q, NULL), 0);
	assert_int_equal(queue_incarnation(q), before + 1);
	queue_free(m->q);
	for (int w = 0; w < WORKERS; w++) {
		lose_all(m, w);
		m->generation[w] = 0;
	}
	m->done = saved_done;
	start(m, q);
}

static void step(struct model *m)
{
	int w = (int)pick(m, WORKERS);
	uint64_t shards;
	uint64_t dice = pick(m, 200);
	if (dice < 16) {
		do_hello(m, w);
	} else if (dice < 20) {
		if (m->generation[w]) {
			assert_int_equal(say_bye(m->q, name[w], m->generation[w]),
					 QUEUE_OK);
			lose_all(m, w);
			m->generation[w] = 0;
		}
	} else if (dice < 26) {
		assert_int_equal(say_fail(m->q, name[w], &shards),
				 m->last[w] ? QUEUE_OK : QUEUE_UNKNOWN_WORKER);
		lose_all(m, w);
		m->generation[w] = 0;
	} else if (dice < 90) {
		do_get(m, w);
	} else if (dice < 165) {
		if (m->hands > 0)
			do_one(m, pick(m, m->hands));
	} else if (dice < 185) {
		do_settle(m);
	} else if (dice < 188) {
		do_release(m);
	} else if (dice < 195) {
		do_expire(m);
	} else if (dice < 197) {
		do_save(m);
	} else if (dice == 197) {
		do_load(m);
	} else if (dice == 198) {
		uint64_t before = queue_term(m->q);
		assert_true(take_term(m->q) == before + 1);
	}
}

static void run_random(enum queue_shuffle shuffle, uint64_t seed)
{
	struct model m = {.rng = seed};
	m.p = (struct queue_parameters){.samples = 1 + pick(&m, 40),
					.batch = 1 + pick(&m, 5),
					.batches = 1 + pick(&m, 3),
					.epochs = 1 + pick(&m, 3),
					.shuffle = shuffle,
					.seed = pick(&m, 1000),
					.apart = seed % 2 == 0};
	struct queue *q;
	assert_int_equal(queue_new(&q, &m.p, NULL), 0);
	start(&m, q);
	free(saved);
	saved = NULL;
	for (int i = 0; i < 300; i++) {
		step(&m);
		check(&m);
		if (i % 16 == 0)
			assert_replayed(m.q, &m.journal);
		if (queue_is_over(m.q) && pick(&m, 20) == 0)
			break;
	}
	assert_replayed(m.q, &m.journal);
	queue_free(m.q);
	free(m.journal.data);
	free(saved);
	saved = NULL;
}

static void test_random_none(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= (uint64_t)ROUNDS(500); seed++)
		run_random(QUEUE_SHUFFLE_NONE, seed);
}

static void test_random_shards(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= (uint64_t)ROUNDS(500); seed++)
		run_random(QUEUE_SHUFFLE_SHARDS, seed);
}

static void test_random_samples(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= (uint64_t)ROUNDS(500); seed++)
		run_random(QUEUE_SHUFFLE_SAMPLES, seed);
}

/* Workers that only ever finish what they get: every row of every epoch comes once. */
static void test_each_row_once(void **state)
{
	(void)state;
	for (int shuffle = 0; shuffle < 3; shuffle++) {
		struct queue_parameters p = {.samples = 103,
					     .batch = 4,
					     .batches = 3,
					     .epochs = 4,
					     .shuffle = (enum queue_shuffle)shuffle,
					     .seed = 7};
		struct queue *q;
		assert_int_equal(queue_new(&q, &p, NULL), 0);
		assert_int_equal(queue_shards(q), 9);
		unsigned char seen[4][103] = {{0}};
		uint64_t generation, expected = 0;
		say_hello(q, "w", &generation);
		struct queue_piece piece;
		for (uint64_t max = 0;
		     say_get(q, "w", generation, max % 13, &piece) == QUEUE_OK; max++) {
			assert_true(piece.epoch >= expected); /* epochs come one after the other */
			expected = piece.epoch;
			for (uint64_t k = 0; k < piece.length; k++)
				seen[piece.epoch][piece.begin + k]++;
			assert_int_equal(say_done(q, "w", generation, piece.id), QUEUE_OK);
		}
		for (int e = 0; e < 4; e++)
			for (int i = 0; i < 103; i++)
				assert_int_equal(seen[e][i], 1);
		queue_free(q);
	}
}

/* ---- the ledger ---- */

#define LEDGER_ROWS 103
#define LEDGER_EPOCHS 3

static void assert_ledger(const struct queue *q, unsigned char seen[LEDGER_EPOCHS][LEDGER_ROWS])
{
	struct ledger l;
	size_t i = 0;
	assert_int_equal(ledger_of(&l, q, NULL), 0);
	for (uint64_t e = 0; e < LEDGER_EPOCHS; e++)
		for (uint64_t row = 0; row < LEDGER_ROWS;) {
			if (!seen[e][row]) {
				row++;
				continue;
			}
			assert_true(i < l.runs);
			assert_int_equal(l.run[i].epoch, e);
			assert_int_equal(l.run[i].begin, row);
			while (row < LEDGER_ROWS && seen[e][row])
				row++;
			assert_int_equal(l.run[i].begin + l.run[i].length, row);
			i++;
		}
	assert_int_equal(l.runs, i);
	ledger_free(&l);
}

/* Pieces that are taken, trained up to anywhere, and given back: the ledger has the rows. */
static void test_ledger_has_the_rows(void **state)
{
	(void)state;
	for (int shuffle = 0; shuffle < 3; shuffle++) {
		struct queue_parameters p = {.samples = LEDGER_ROWS,
					     .batch = 4,
					     .batches = 3,
					     .epochs = LEDGER_EPOCHS,
					     .shuffle = (enum queue_shuffle)shuffle,
					     .seed = 7};
		unsigned char seen[LEDGER_EPOCHS][LEDGER_ROWS] = {{0}};
		struct queue *q;
		struct queue_piece piece;
		uint64_t generation, random = 5;
		assert_int_equal(queue_new(&q, &p, NULL), 0);
		assert_ledger(q, seen);
		say_hello(q, "w", &generation);
		while (say_get(q, "w", generation, random_next(&random) % 13, &piece) == QUEUE_OK) {
			uint32_t order[12];
			uint64_t upto = random_next(&random) % (piece.length + 1);
			for (uint32_t k = 0; k < piece.length; k++)
				order[k] = k;
			if (piece.seed)
				random_permute(order, piece.length, piece.seed);
			for (uint64_t k = piece.skip; k < piece.skip + piece.take && k < upto; k++)
				seen[piece.epoch][piece.begin + order[k]] = 1;
			assert_int_equal(say_progress(q, "w", generation, piece.id, upto), QUEUE_OK);
			assert_ledger(q, seen);
			if (upto < piece.skip + piece.take)
				assert_int_equal(say_back(q, "w", generation, piece.id), QUEUE_OK);
			assert_ledger(q, seen);
		}
		for (int e = 0; e < LEDGER_EPOCHS; e++)
			assert_null(memchr(seen[e], 0, LEDGER_ROWS));
		queue_free(q);
	}
}

static void test_order_is_the_published_one(void **state)
{
	(void)state;
	uint64_t stream = 1234567; /* the well-known first outputs for this seed */
	assert_true(random_next(&stream) == 6457827717110365317u);
	assert_true(random_next(&stream) == 3203168211198807973u);
	assert_true(random_next(&stream) == 9817491932198370423u);
	uint32_t a[5];
	random_permute(a, 5, 1234567);
	/* by hand: the first four outputs modulo 5, 4, 3, 2 are 2, 1, 0, 1 */
	const uint32_t expected[5] = {4, 3, 0, 1, 2};
	assert_memory_equal(a, expected, sizeof a);
}

/* Two orders are at hand at once: what is read with two epochs in turn takes as many permutations
 * as there are epochs, not pieces. Compared with one permutation, in CPU time. */
static void test_two_epochs_in_turn(void **state)
{
	(void)state;
	const struct queue_parameters p = {.samples = 400000, .batch = 1, .batches = 1,
					   .epochs = 3, .shuffle = QUEUE_SHUFFLE_SHARDS};
	enum { IN_TURN = 300 };
	struct queue *q;
	struct queue_piece piece = {0};
	uint64_t generation;
	char worker[32];
	clock_t begin = clock();
	assert_int_equal(queue_new(&q, &p, NULL), 0);
	assert_int_equal(say_hello(q, "w", &generation), QUEUE_OK);
	assert_int_equal(say_get(q, "w", 1, 0, &piece), QUEUE_OK);
	clock_t permutation = clock() - begin + CLOCKS_PER_SEC / 1000;
	for (uint64_t i = 0; i < p.samples - IN_TURN; i++) {
		assert_int_equal(say_done(q, "w", 1, piece.id), QUEUE_OK);
		assert_int_equal(say_get(q, "w", 1, 0, &piece), QUEUE_OK);
	}
	assert_int_equal(say_back(q, "w", 1, piece.id), QUEUE_OK);
	for (int i = 0; i < 2 * IN_TURN; i++) {
		snprintf(worker, sizeof worker, "w%d", i % IN_TURN);
		if (i < IN_TURN)
			assert_int_equal(say_hello(q, worker, &generation), QUEUE_OK);
		assert_int_equal(say_get(q, worker, 1, 0, &piece), QUEUE_OK);
		assert_int_equal(piece.epoch, i / IN_TURN);
	}
	char *text = text_of(q);
	begin = clock();
	struct queue *copy = queue_of_text(text, NULL, NULL);
	assert_non_null(copy);
	assert_true(clock() - begin < 50 * permutation);
	free(text);
	queue_free(copy);
	queue_free(q);
}

/* A queue with shards of `batch` rows, one epoch. */
static struct queue *queue_with(uint64_t samples, uint64_t batch)
{
	struct queue_parameters p = {
		.samples = samples, .batch = batch, .batches = 1, .epochs = 1};
	struct queue *q;
	assert_int_equal(queue_new(&q, &p, NULL), 0);
	return q;
}

/* The same, with so many of them in the hand of w, generation 1. */
static struct queue *queue_in_hand(uint64_t samples, uint64_t batch, int shards)
{
	struct queue *q = queue_with(samples, batch);
	uint64_t generation;
	struct queue_piece piece;
	assert_int_equal(say_hello(q, "w", &generation), QUEUE_OK);
	for (int i = 0; i < shards; i++)
		assert_int_equal(say_get(q, "w", 1, 0, &piece), QUEUE_OK);
	return q;
}

static struct queue_stat stat_of(const struct queue *q)
{
	struct queue_stat stat;
	queue_stat(q, &stat);
	return stat;
}

/* The piece in work is blamed, the others in the hand are not; release begins anew. */
static void test_held(void **state)
{
	(void)state;
	struct queue *q = queue_with(3, 1);
	say_set(q, 2, 0);
	uint64_t generation, shards;
	struct queue_piece piece;
	struct queue_stat stat;
	for (int life = 0; life < 2; life++) {
		say_hello(q, "w", &generation);
		for (int i = 0; i < 3; i++)
			assert_int_equal(say_get(q, "w", generation, 0, &piece), QUEUE_OK);
		queue_stat(q, &stat);
		assert_int_equal(stat.held, 0);
		say_fail(q, "w", &shards);
		assert_int_equal(shards, 3);
	}
	assert_int_equal(stat_of(q).held, 1);
	assert_int_equal(stat_of(q).todo, 2);
	assert_int_equal(say_release(q, 1), QUEUE_OK); /* it is todo: said before */
	assert_int_equal(say_release(q, 0), QUEUE_OK);
	assert_int_equal(stat_of(q).held, 0);
	assert_int_equal(say_release(q, 9), QUEUE_UNKNOWN_SHARD);
	queue_free(q);
}

/* An epoch begins when the one before is in the model; what was held comes alone, too. */
static void test_epochs_apart(void **state)
{
	(void)state;
	const struct queue_parameters p = {
		.samples = 2, .batch = 1, .batches = 1, .epochs = 2, .apart = 1};
	uint64_t generation, shards;
	struct queue_piece one = {0}, other = {0};
	struct queue *q;
	assert_int_equal(queue_new(&q, &p, NULL), 0);
	say_set(q, 1, 0);
	say_hello(q, "a", &generation);
	say_hello(q, "b", &generation);
	assert_int_equal(say_get(q, "a", 1, 0, &one), QUEUE_OK);
	say_fail(q, "a", &shards); /* holds it */
	say_hello(q, "a", &generation);
	assert_int_equal(say_get(q, "b", 1, 0, &other), QUEUE_OK);
	assert_int_equal(say_get(q, "a", generation, 0, &other), QUEUE_WAIT);
	assert_int_equal(say_done(q, "b", 1, other.id), QUEUE_OK);
	assert_int_equal(say_get(q, "a", generation, 0, &other), QUEUE_OK);
	assert_int_equal(other.epoch, 1);
	assert_int_equal(say_release(q, one.id), QUEUE_OK);
	assert_int_equal(say_get(q, "b", 1, 0, &one), QUEUE_OK);
	assert_int_equal(one.epoch, 1);
	assert_int_equal(say_done(q, "a", generation, other.id), QUEUE_OK);
	assert_int_equal(say_get(q, "a", generation, 0, &other), QUEUE_WAIT);
	assert_int_equal(say_done(q, "b", 1, one.id), QUEUE_OK);
	assert_int_equal(say_get(q, "a", generation, 0, &other), QUEUE_OK);
	assert_int_equal(other.epoch, 0);
	queue_free(q);
}

/* One settle of count lines, and the samples that are done after it. */
static uint64_t settle(struct queue *q, struct queue_range *line, size_t count)
{
	static uint64_t number;
	struct queue_stat stat;
	assert_int_equal(settle_of(q, ++number, 1, 1, line, count, NULL), QUEUE_OK);
	queue_stat(q, &stat);
	return stat.samples_done;
}

static struct queue_range apply(const char *worker, uint64_t id, uint64_t begin, uint64_t length)
{
	return (struct queue_range){
		.worker = worker, .generation = 1, .id = id, .begin = begin, .length = length};
}

static void test_settle_counts_only_rows_in_hand(void **state)
{
	(void)state;
	struct queue *q = queue_in_hand(20, 10, 1);
	struct error err;
	/* Each of these takes line 0, which is good, with it: they are one gradient. */
	const struct queue_range bad[] = {
		apply("w", 77, 0, 5),		  /* a shard that never was */
		apply("w", 1, 10, 5),		  /* one in nobody's hand yet */
		apply("w", 0, 5, 6),		  /* rows past its end */
		apply("w", 0, UINT64_MAX - 1, 6), /* a sum that overflows */
		apply("w", 0, 5, UINT64_MAX),
		apply("w", 0, 4, 3), /* a row of line 0 again */
		apply("w", 0, 0, 5), /* the same range twice */
		apply("w", 0, 0, 10),
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct queue_range line[2] = {apply("w", 0, 0, 5), bad[i]};
		assert_int_equal(settle(q, line, 2), 0);
		assert_true(line[0].refused && line[1].refused);
		struct queue_range turned[2] = {bad[i], apply("w", 0, 0, 5)};
		assert_int_equal(settle(q, turned, 2), 0);
		assert_true(turned[0].refused && turned[1].refused);
	}
	struct queue_range line = apply("w", 0, 0, 5);
	assert_int_equal(settle_of(q, 999, 1, 2, &line, 1, &err), QUEUE_FENCED);
	assert_int_equal(settle(q, &line, 1), 5);
	assert_false(line.refused);
	/* Under another number it is another gradient for the same rows. */
	assert_int_equal(settle(q, &line, 1), 5);
	assert_true(line.refused);
	line = apply("w", 0, 4, 6);
	assert_int_equal(settle(q, &line, 1), 5);
	assert_true(line.refused);
	/* In todo again, by the worker's own wish: what is applied now would be twice. */
	say_back(q, "w", 1, 0);
	line = apply("w", 0, 5, 5);
	assert_int_equal(settle(q, &line, 1), 5);
	assert_true(line.refused);
	queue_free(q);
}

/* Rows that came back and are done by another are no longer the first one's. */
static void test_settle_of_rows_that_another_did(void **state)
{
	(void)state;
	struct queue *q = queue_with(20, 10);
	uint64_t generation;
	struct queue_piece piece = {0}, fresh;
	say_hello(q, "w0", &generation);
	say_hello(q, "w1", &generation);
	say_get(q, "w0", 1, 0, &piece);
	say_back(q, "w0", 1, piece.id);
	say_get(q, "w1", 1, 0, &fresh);
	say_get(q, "w1", 1, 0, &piece);
	assert_int_equal(piece.id, 0);
	say_done(q, "w1", 1, 0);
	struct queue_range line[2] = {apply("w0", 0, 0, 10), apply("w1", 1, 10, 10)};
	assert_int_equal(settle(q, line, 2), 20); /* w1's are carried out */
	assert_true(line[0].refused && !line[1].refused);
	queue_free(q);
}

static void test_settle_refused_in_the_middle_of_a_push(void **state)
{
	(void)state;
	struct queue *q = queue_in_hand(20, 10, 2);
	struct queue_range line[3] = {apply("w", 1, 10, 10), apply("w", 0, 0, 10),
				     apply("w", 0, 0, 10)};
	line[1].is_back = 1;
	assert_int_equal(settle(q, line, 3), 0);
	assert_true(line[0].refused && !line[1].refused && line[2].refused);
	/* A part of a piece that was given back. */
	say_back_range(q, "w", 1, 1, 12, 3);
	struct queue_range around = apply("w", 1, 10, 10);
	assert_int_equal(settle(q, &around, 1), 0);
	assert_true(around.refused);
	struct queue_range rest[2] = {apply("w", 1, 10, 2), apply("w", 1, 15, 5)};
	assert_int_equal(settle(q, rest, 2), 7);
	queue_free(q);
}

/* A settle's lines as an older version wrote them, in the order of the request: carried out in that
 * order, as they were then. */
static void test_settle_is_replayed_in_its_order(void **state)
{
	(void)state;
	struct queue *q = queue_with(20, 10);
	struct model m = {0};
	start(&m, q);
	static const char *const lines[] = {
		"hello worker=w0 generation=1",
		"get worker=w0 id=0",
		"get worker=w0 id=1",
		"settle number=1 iteration=1 lines=2",
		"back worker=w0 id=1 begin=10 length=10",
		"back worker=w0 id=0 begin=0 length=10",
		"get worker=w0 id=1",
		"get worker=w0 id=0",
	};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		text_add(&m.journal, lines[i], strlen(lines[i]));
	queue_free(queue_of_text(m.journal.data, NULL, NULL));
	free(m.journal.data);
	queue_free(q);
}

#define MANY 80000

/* Every other row of one shard, last ones first: far more than a machine can do in the time of a
 * test if each line were compared with each other, or with each run of the shard. */
static void test_settle_of_many_lines(void **state)
{
	(void)state;
	struct queue_parameters p = {
		.samples = 2 * MANY, .batch = 2 * MANY, .batches = 1, .epochs = 1};
	struct queue *q;
	assert_int_equal(queue_new(&q, &p, NULL), 0);
	uint64_t generation;
	struct queue_piece piece;
	say_hello(q, "w", &generation);
	say_get(q, "w", generation, 0, &piece);
	struct queue_range *line = malloc(MANY * sizeof *line);
	char(*stranger)[16] = malloc(MANY * sizeof *stranger);
	assert_true(line && stranger);
	for (uint64_t i = 0; i < MANY; i++) {
		snprintf(stranger[i], sizeof *stranger, "s%u", (unsigned)i);
		line[i] = apply(stranger[i], 0, i, 1);
	}
	assert_int_equal(settle(q, line, MANY), 0);
	for (uint64_t i = 0; i < MANY; i++)
		line[i] = apply("w", 0, 2 * (MANY - 1 - i), 1);
	assert_int_equal(settle(q, line, MANY), MANY);
	/* As many runs are left, and a start reads them. */
	char *text = text_of(q);
	struct queue *copy = queue_of_text(text, NULL, NULL);
	char *again = text_of(copy);
	assert_string_equal(text, again);
	free(text);
	free(again);
	queue_free(copy);
	for (uint64_t i = 0; i < MANY; i++)
		line[i].begin++;
	assert_int_equal(settle(q, line, MANY), 2 * MANY);
	free(line);
	free(stranger);
	queue_free(q);
}

static void test_settle_that_comes_late(void **state)
{
	(void)state;
	struct queue *q = queue_in_hand(20, 10, 1);
	size_t refusals;
	struct error err;
	struct queue_range line = apply("w", 0, 0, 5);
	assert_int_equal(settle_of(q, 7, 1, 1, &line, 1, NULL), QUEUE_OK);
	struct queue_range fenced = line;
	fenced.generation = 2;
	assert_int_equal(settle_of(q, 8, 2, 1, &fenced, 1, NULL), QUEUE_OK);
	/* 7 once more, by another way: what 8 was answered stays. */
	line.begin = 5;
	assert_int_equal(known(q, 7, 1, &err), QUEUE_BAD);
	assert_non_null(strstr(err.text, "settle 7 comes after 8"));
	assert_int_equal(settle_of(q, 7, 1, 1, &line, 1, &err), QUEUE_BAD);
	assert_int_equal(stat_of(q).samples_done, 5);
	assert_int_equal(stat_of(q).iteration, 2);
	assert_int_equal(settle_of(q, 8, 2, 1, &fenced, 1, NULL), QUEUE_REPEATED);
	queue_refusals(q, &refusals);
	assert_int_equal(refusals, 1);
	queue_free(q);
}

/* Of what a worker holds when it falls silent, the piece in work is blamed, and nothing else until
 * the worker gives a sign of life. */
static void test_leases(void **state)
{
	(void)state;
	struct queue *q = queue_with(3, 1);
	uint64_t generation;
	struct queue_piece piece;
	double end;
	say_set(q, 1, 10);
	queue_clock(q, 1000, 50);
	assert_false(queue_next_expiry(q, &end));
	say_hello(q, "w", &generation);
	for (int i = 0; i < 3; i++)
		say_get(q, "w", generation, 0, &piece);
	assert_true(queue_next_expiry(q, &end));
	assert_true(end == 60);
	queue_clock(q, 1000, 55);
	assert_int_equal(queue_renew(q, "w", generation, 1, NULL), QUEUE_OK);
	queue_clock(q, 1000, 60);
	assert_int_equal(queue_expire(q, 0), 2); /* 0 is blamed and held; 2 comes back */
	assert_int_equal(stat_of(q).held, 1);
	assert_int_equal(stat_of(q).doing, 1);
	queue_clock(q, 1000, 65);
	assert_int_equal(queue_expire(q, 0), 1); /* 1 is the oldest now, but nobody was there */
	assert_int_equal(stat_of(q).held, 1);
	assert_int_equal(say_get(q, "w", generation, 0, &piece), QUEUE_OK);
	queue_clock(q, 1000, 75);
	assert_int_equal(queue_expire(q, 0), 1);
	assert_int_equal(stat_of(q).held, 2);
	/* Clocks of another life say nothing of this one. */
	assert_int_equal(say_get(q, "w", generation, 0, &piece), QUEUE_OK);
	queue_clock(q, 1000, 500);
	queue_restart_leases(q);
	assert_int_equal(queue_expire(q, 0), 0);
	queue_free(q);
}

static int note_returns(void *arg, const struct queue_piece *piece)
{
	*(uint64_t *)arg = piece->returns;
	return 0;
}

/* A piece with a hole comes back as two, each with the story of the one. */
static void test_runs_inherit(void **state)
{
	(void)state;
	struct queue *q = queue_with(10, 10);
	uint64_t generation, shards, returns;
	struct queue_piece piece;
	say_set(q, 2, 0);
	say_hello(q, "w", &generation);
	say_get(q, "w", generation, 0, &piece);
	say_hello(q, "w", &generation); /* a death */
	say_get(q, "w", generation, 0, &piece);
	struct queue_range line = {
		.worker = "w", .generation = generation, .begin = 4, .length = 2};
	assert_int_equal(settle_of(q, 1, 1, 1, &line, 1, NULL), QUEUE_OK);
	say_bye(q, "w", generation);
	queue_list(q, 1u << QUEUE_TODO, 1, note_returns, &returns); /* id 1: the second run */
	assert_int_equal(returns, 2);
	say_hello(q, "w", &generation);
	say_get(q, "w", generation, 0, &piece);
	say_get(q, "w", generation, 0, &piece);
	say_fail(q, "w", &shards);
	assert_int_equal(stat_of(q).held, 1); /* the first of them, at its second death */
	assert_int_equal(stat_of(q).todo, 1);
	/* Released, it has two lives again. */
	assert_int_equal(say_release(q, 0), QUEUE_OK);
	say_hello(q, "w", &generation);
	say_get(q, "w", generation, 0, &piece);
	say_back(q, "w", generation, 1);
	say_get(q, "w", generation, 0, &piece);
	assert_int_equal(piece.id, 0);
	say_fail(q, "w", &shards);
	assert_int_equal(stat_of(q).held, 0);
	queue_free(q);
}

/* Files that somebody made by hand: what does not fit together is refused, and crashes nothing. */
static void test_made_by_hand(void **state)
{
	(void)state;
	static const char good[] =
		"queue version=1 samples=40 batch=10 batches=1 epochs=1 shuffle=none seed=0\n"
		"state incarnation=1 cursor=3 next-id=6 iteration=0 retries=3 lease=0 "
		"pieces-done=0 "
		"shards-done=0 samples-done=5 samples-repeated=0 first-at=1 last-at=1\n"
		"settled number=4 lines=1\n"
		"fenced worker=w0 generation=1 id=2\n"
		"worker id=w0 generation=2 last=2\n"
		"piece id=0 state=doing origin=0 begin=0 length=10 lo=0 hi=2 cut=1 worker=w0 "
		"deaths=0 "
		"returns=0 at=1\n"
		"run lo=4 hi=7\n"
		"piece id=1 state=todo origin=1 begin=10 length=10 lo=0 hi=10 deaths=0 returns=1 "
		"at=1\n"
		"piece id=2 state=held origin=2 begin=20 length=10 lo=0 hi=10 deaths=3 returns=3 "
		"at=1\n"
		"end lines=9\n";
	static const struct {
		const char *from, *to;
	} change[] = {
		{"version=1", "version=2"},
		{"samples=40", "samples=0"},
		{"samples=40", "samples=25"},
		{"batch=10", "batch=20"},
		{"shuffle=none", "shuffle=all"},
		{"epochs=1", "epochs=2"},
		{"cursor=3", "cursor=4"},
		{"cursor=3", "cursor=5"},
		{"cursor=3", "cursor=0"},
		{"next-id=6", "next-id=3"},
		{"samples-done=5", "samples-done=6"},
		{"shards-done=0", "shards-done=1"},
		{"lease=0", "lease=-1"},
		{"lines=1\n", "lines=2\n"},
		{"lines=1\n", "lines=0\n"},
		{"settled", "unsettled"},
		{"last=2", "last=3"},
		{"generation=2 last=2", "generation=0 last=2"},
		{"id=w0", "id=w/0"},
		{"id=w0", "id=w1"},
		{"origin=0", "origin=1"},
		{"origin=0", "origin=9"},
		{"id=0 state", "id=1 state"},
		{"begin=10", "begin=9"},
		{"begin=10 length=10", "begin=10 length=11"},
		{"begin=10 length=10", "begin=18446744073709551615 length=10"},
		{"lo=0 hi=10", "lo=10 hi=10"},
		{"lo=0 hi=10", "lo=0 hi=11"},
		{"lo=4", "lo=1"},
		{"hi=7", "hi=11"},
		{"hi=7", "hi=6"},
		{"cut=1 ", ""},
		{"state=doing", "state=gone"},
		{"worker=w0 deaths", "worker=w9 deaths"},
		{" worker=w0 deaths", " deaths"},
		{"deaths=3", "deaths=x"},
		{"returns=3", "returns=4294967296"},
		{"at=1\n", "\n"},
		{"id=2 state=held origin=2", "id=2 state=held origin=1"},
		{"lines=9", "lines=8"},
		{"end lines=9\n", ""},
		{"piece id=1", "prize id=1"},
		{"run lo=4 hi=7\n", ""},
		{"queue", "state"},
		{"state incarnation", "stale incarnation"},
	};
	struct error err;
	struct queue *q = queue_of_text(good, NULL, &err);
	if (!q)
		fail_msg("%s", err.text);
	queue_free(q);
	for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
		const char *at = strstr(good, change[i].from);
		assert_non_null(at);
		char text[sizeof good + 64];
		snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, change[i].to,
			 at + strlen(change[i].from));
		q = queue_of_text(text, NULL, &err);
		if (q)
			fail_msg("%s -> %s was taken", change[i].from, change[i].to);
	}
}

/* A whole settle counts or does not; an older lead's is refused; what was committed last is known to
 * the next lead, also after a rollback. */
static void test_whole_settles_and_terms(void **state)
{
	(void)state;
	struct queue *q = queue_in_hand(40, 10, 2);
	struct queue_range line[2] = {apply("w", 0, 0, 5), apply("w", 1, 10, 5)};
	struct queue_settlement s = {.number = 1, .iteration = 6, .incarnation = 1, .is_whole = 1};
	struct error err;
	const char *note;
	size_t refusals;
	assert_true(take_term(q) == 1);
	assert_true(queue_committed(q, &note) == 0);
	s.term = 1;
	s.note = "77-5-5";
	line[1].generation = 2;
	line[1].worker = "nobody";
	assert_int_equal(queue_settle(q, &s, line, 2, NULL), QUEUE_OK);
	queue_refusals(q, &refusals);
	assert_int_equal(refusals, 1);
	assert_int_equal(stat_of(q).samples_done, 0);
	assert_int_equal(stat_of(q).iteration, 0);
	assert_true(queue_committed(q, &note) == 0);
	s.number = 2;
	assert_int_equal(queue_settle(q, &s, line, 1, NULL), QUEUE_OK);
	assert_int_equal(stat_of(q).samples_done, 5);
	assert_true(queue_committed(q, &note) == 7);
	assert_string_equal(note, "77-5-5");
	/* What is late for a unit is settled without a note: that of the unit stays. */
	s = (struct queue_settlement){.number = 3, .iteration = 7, .incarnation = 1, .term = 1};
	assert_int_equal(queue_settle(q, &s, NULL, 0, NULL), QUEUE_OK);
	assert_true(queue_committed(q, &note) == 7);
	/* Another lead: its numbers are its own. */
	char *text = text_of(q);
	assert_true(take_term(q) == 2);
	assert_int_equal(queue_settle(q, &s, NULL, 0, &err), QUEUE_FENCED);
	assert_non_null(strstr(err.text, "term 1 is not in force: 2 is"));
	s.term = 2;
	s.number = 1;
	assert_int_equal(queue_settle(q, &s, NULL, 0, NULL), QUEUE_OK);
	struct queue *old = queue_of_text(text, NULL, NULL);
	assert_int_equal(queue_roll_back(old, q, NULL), 0);
	assert_true(queue_committed(old, &note) == 7);
	assert_string_equal(note, "77-5-5");
	assert_true(take_term(old) == 3);
	/* A lead that knows no terms trains on: nobody may take that note for the last one. */
	s = (struct queue_settlement){.number = 9, .iteration = 9, .incarnation = 2};
	assert_int_equal(queue_settle(old, &s, NULL, 0, NULL), QUEUE_OK);
	assert_true(queue_committed(old, &note) == 0);
	queue_free(old);
	queue_free(q);
	free(text);
}

/* No id is given twice, also not after a rollback to a time when fewer had been given. */
static void test_rollback_keeps_what_never_goes_back(void **state)
{
	(void)state;
	struct queue *q = queue_with(40, 10);
	uint64_t generation, given;
	struct queue_piece piece;
	say_hello(q, "w", &generation);
	assert_int_equal(settle_of(q, 9, 1, 1, NULL, 0, NULL), QUEUE_OK);
	char *text = text_of(q);
	say_get(q, "w", generation, 3, &piece);
	say_get(q, "w", generation, 3, &piece);
	given = piece.id;
	struct queue *old = queue_of_text(text, NULL, NULL);
	assert_int_equal(known(old, 9, 1, NULL), QUEUE_REPEATED);
	assert_int_equal(queue_roll_back(old, q, NULL), 0);
	assert_int_equal(known(old, 9, 2, NULL), QUEUE_OK);
	assert_int_equal(known(old, 3, 2, NULL), QUEUE_OK); /* numbers begin anew */
	assert_int_equal(known(old, 9, 1, NULL), QUEUE_FENCED);
	say_hello(old, "w", &generation);
	assert_int_equal(generation, 2);
	say_get(old, "w", generation, 3, &piece);
	assert_true(piece.id > given);
	queue_free(old);
	queue_free(q);
	free(text);
}

static int highest_id(void *arg, const struct queue_piece *piece)
{
	*(uint64_t *)arg = piece->id;
	return 0;
}

/* A piece whose middle is done comes back in two runs, of which one gets an id. */
static void test_rollback_gives_runs_new_ids(void **state)
{
	(void)state;
	struct queue *q = queue_in_hand(40, 10, 1);
	struct queue_range middle = apply("w", 0, 4, 2);
	struct queue_piece piece;
	uint64_t last = 0;
	assert_int_equal(settle(q, &middle, 1), 2);
	char *text = text_of(q);
	assert_int_equal(say_get(q, "w", 1, 3, &piece), QUEUE_OK); /* a part */
	struct queue *old = queue_of_text(text, NULL, NULL);
	assert_int_equal(queue_roll_back(old, q, NULL), 0);
	assert_int_equal(queue_list(old, 1u << QUEUE_TODO, 0, highest_id, &last), 0);
	assert_true(last > piece.id);
	queue_free(old);
	queue_free(q);
	free(text);
}

/* After more was handed out, goes back to what the queue is now. */
static struct queue *rolled_back(struct queue *q, uint64_t generation)
{
	struct queue_piece piece;
	char *text = text_of(q);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(say_get(q, "w", generation, 3, &piece), QUEUE_OK);
	struct queue *old = queue_of_text(text, NULL, NULL);
	assert_int_equal(queue_roll_back(old, q, NULL), 0);
	free(text);
	queue_free(q);
	return old;
}

/* What a rollback takes out of hands, or a worker leaves behind, is handed out again before
 * anything else, in its order, and what follows is cut as it would have been: the same rows, in the
 * same order, as without it. */
static void test_nothing_changes_the_order(void **state)
{
	(void)state;
	for (int way = 0; way < 6; way++) {
		enum queue_shuffle shuffle = (enum queue_shuffle)(way / 2);
		struct queue_parameters p = {
			.samples = 40, .batch = 5, .batches = 2, .epochs = 2, .shuffle = shuffle, .seed = 7};
		struct queue_piece without[64], piece = {0};
		struct queue *q;
		uint64_t generation;
		size_t pieces = 0, at = 4;
		assert_int_equal(queue_new(&q, &p, NULL), 0);
		say_hello(q, "w", &generation);
		while (say_get(q, "w", generation, 4, &without[pieces]) == QUEUE_OK)
			pieces++;
		queue_free(q);
		assert_int_equal(queue_new(&q, &p, NULL), 0);
		say_hello(q, "w", &generation);
		uint64_t other;
		say_hello(q, "v", &other);
		for (size_t i = 0; i < 9; i++) { /* two hold what is rolled back */
			int is_others = i == 5 || i == 8;
			assert_int_equal(say_get(q, is_others ? "v" : "w",
						 is_others ? other : generation, 4, &piece),
					 QUEUE_OK);
			if (i < at)
				say_done(q, "w", generation, piece.id);
		}
		if (way % 2) {
			struct queue_change c[] = {
				{.worker = "w", .generation = generation, .front = 1},
				{.worker = "v", .generation = other, .front = 1}};
			assert_int_equal(say(q, "bye", &c[0]), QUEUE_OK);
			assert_int_equal(say(q, "bye", &c[1]), QUEUE_OK);
		} else {
			q = rolled_back(q, generation);
		}
		char *text = text_of(q);
		queue_free(q);
		q = queue_of_text(text, NULL, NULL); /* a file knows it, too */
		say_hello(q, "w", &generation);
		while (say_get(q, "w", generation, 4, &piece) == QUEUE_OK) {
			assert_true(piece.begin == without[at].begin &&
				    piece.length == without[at].length &&
				    piece.skip == without[at].skip && piece.take == without[at].take &&
				    piece.seed == without[at].seed);
			at++;
		}
		assert_true(at == pieces);
		queue_free(q);
		free(text);
	}
}

static void test_parameters(void **state)
{
	(void)state;
	struct queue_parameters p = {
		.samples = UINT64_MAX / 2, .batch = UINT64_MAX, .batches = UINT64_MAX, .epochs = 1};
	struct queue *q = NULL;
	struct error err;
	assert_int_equal(queue_new(&q, &p, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	p.samples = 0;
	assert_int_equal(queue_new(&q, &p, &err), -1);
	p.samples = 1000;
	assert_int_equal(queue_new(&q, &p, &err), 0);
	assert_int_equal(queue_shards(q), 1);
	queue_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_none),
		cmocka_unit_test(test_random_shards),
		cmocka_unit_test(test_random_samples),
		cmocka_unit_test(test_each_row_once),
		cmocka_unit_test(test_ledger_has_the_rows),
		cmocka_unit_test(test_order_is_the_published_one),
		cmocka_unit_test(test_two_epochs_in_turn),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_epochs_apart),
		cmocka_unit_test(test_settle_counts_only_rows_in_hand),
		cmocka_unit_test(test_settle_of_rows_that_another_did),
		cmocka_unit_test(test_settle_refused_in_the_middle_of_a_push),
		cmocka_unit_test(test_settle_is_replayed_in_its_order),
		cmocka_unit_test(test_settle_of_many_lines),
		cmocka_unit_test(test_settle_that_comes_late),
		cmocka_unit_test(test_leases),
		cmocka_unit_test(test_runs_inherit),
		cmocka_unit_test(test_made_by_hand),
		cmocka_unit_test(test_whole_settles_and_terms),
		cmocka_unit_test(test_rollback_keeps_what_never_goes_back),
		cmocka_unit_test(test_rollback_gives_runs_new_ids),
		cmocka_unit_test(test_nothing_changes_the_order),
		cmocka_unit_test(test_parameters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

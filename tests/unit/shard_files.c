/*
 * shard_files: journals and saves as they were first written (version=1).  What is made of them
 * today is what was made of them then; and each kind of line is followed, or refused.
 */
#include "tests/unit/queue.h"

#include "record/sealed.h"

static const char changes[] =
	"queue version=1 samples=100 batch=10 batches=1 epochs=2 shuffle=none seed=0\n"
	"state incarnation=1 cursor=0 next-id=20 iteration=0 retries=1 lease=0 pieces-done=0 "
	"shards-done=0 samples-done=0 samples-repeated=0 first-at=0 last-at=0\n"
	"end lines=2\n"
	"time at=1795333716.144\n"
	"hello worker=w0 generation=1\n"
	"get worker=w0 id=0\n"
	"get worker=w0 id=20 max=7\n"
	"hello worker=w1 generation=1\n"
	"get worker=w1 id=1\n"
	"get worker=w0 id=2\n"
	"get worker=w0 id=3\n"
	"get worker=w0 id=4\n"
	"progress worker=w0 id=3 upto=4\n"
	"back worker=w0 id=4\n"
	"get worker=w1 id=5\n"
	"back worker=w1 id=5 begin=52 length=3\n"
	"settle number=4 iteration=3 lines=3\n"
	"apply worker=w0 id=0 begin=2 length=3\n"
	"back worker=w0 id=0 begin=7 length=1\n"
	"fenced worker=w9 generation=1 id=1\n"
	"get worker=w1 id=6\n"
	"bye worker=w1\n"
	"hello worker=w2 generation=1\n"
	"get worker=w2 id=7\n"
	"fail worker=w2\n"
	"release id=7\n"
	"hello worker=w2 generation=2\n"
	"get worker=w2 id=8\n"
	"fail worker=w2\n"
	"get worker=w0 id=9\n"
	"done worker=w0 id=9\n";

/* What the shardd that wrote them made of them at its next start. */
static const char changes_then[] =
	"queue version=1 samples=100 batch=10 batches=1 epochs=2 shuffle=none seed=0\n"
	"state incarnation=1 cursor=10 next-id=24 iteration=3 retries=1 lease=0 "
	"pieces-done=1 shards-done=1 samples-done=17 samples-repeated=0 "
	"first-at=1795333716.144 last-at=1795333716.144\n"
	"settled number=4 lines=1\n"
	"fenced worker=w9 generation=1 id=1\n"
	"worker id=w0 generation=1 last=1\n"
	"piece id=0 state=doing origin=0 begin=0 length=10 lo=0 hi=2 cut=1 worker=w0 "
	"deaths=0 returns=0 at=1795333716.144\n"
	"run lo=5 hi=7\n"
	"run lo=8 hi=10\n"
	"piece id=20 state=doing origin=1 begin=10 length=7 lo=0 hi=7 cut=1 worker=w0 "
	"deaths=0 returns=0 at=1795333716.144\n"
	"piece id=2 state=doing origin=2 begin=20 length=10 lo=0 hi=10 worker=w0 deaths=0 "
	"returns=0 at=1795333716.144\n"
	"piece id=3 state=doing origin=3 begin=30 length=10 lo=4 hi=10 worker=w0 deaths=0 "
	"returns=0 at=1795333716.144\n"
	"worker id=w1 generation=0 last=1\n"
	"worker id=w2 generation=0 last=2\n"
	"piece id=4 state=todo origin=4 begin=40 length=10 lo=0 hi=10 deaths=0 returns=1 "
	"at=1795333716.144\n"
	"piece id=21 state=todo origin=5 begin=52 length=3 lo=0 hi=3 cut=1 deaths=0 "
	"returns=1 at=1795333716.144\n"
	"piece id=22 state=todo origin=0 begin=7 length=1 lo=0 hi=1 cut=1 deaths=0 returns=1 "
	"at=1795333716.144\n"
	"piece id=1 state=todo origin=1 begin=17 length=3 lo=0 hi=3 cut=1 deaths=0 returns=1 "
	"at=1795333716.144\n"
	"piece id=5 state=todo origin=5 begin=50 length=2 lo=0 hi=2 cut=1 deaths=0 returns=1 "
	"at=1795333716.144\n"
	"piece id=23 state=todo origin=5 begin=55 length=5 lo=0 hi=5 cut=1 deaths=0 "
	"returns=1 at=1795333716.144\n"
	"piece id=6 state=todo origin=6 begin=60 length=10 lo=0 hi=10 deaths=0 returns=1 "
	"at=1795333716.144\n"
	"piece id=7 state=todo origin=7 begin=70 length=10 lo=0 hi=10 deaths=0 returns=1 "
	"at=1795333716.144\n"
	"piece id=8 state=held origin=8 begin=80 length=10 lo=0 hi=10 deaths=1 returns=1 "
	"at=1795333716.144\n"
	"end lines=22\n";

static const char partitions[] =
	"queue version=1 samples=90 batch=10 batches=1 epochs=3 shuffle=none seed=0 "
	"partitions=3\n"
	"partition worker=w0 samples=30\n"
	"partition worker=w1 samples=30\n"
	"partition worker=w2 samples=30\n"
	"state incarnation=1 cursor=0 next-id=0 iteration=0 retries=3 lease=0 pieces-done=0 "
	"shards-done=0 samples-done=0 samples-repeated=0 first-at=0 last-at=0 begun=0 "
	"migrate=0.5 next-move=0 moves-done=0 rows-moved=0\n"
	"pass worker=w0 done=0 left=30 given=0\n"
	"rows begin=0 length=30 times=0\n"
	"pass worker=w1 done=0 left=30 given=0\n"
	"rows begin=30 length=30 times=0\n"
	"pass worker=w2 done=0 left=30 given=0\n"
	"rows begin=60 length=30 times=0\n"
	"end lines=11\n"
	"time at=1795333716.144\n"
	"hello worker=w0 generation=1\n"
	"hello worker=w1 generation=1\n"
	"get worker=w0 id=0\n"
	"get worker=w0 id=1\n"
	"done worker=w0 id=0\n"
	"done worker=w0 id=1\n"
	"get worker=w0 id=2\n"
	"get worker=w0 id=3\n"
	"get worker=w1 id=4\n"
	"move id=0 from=w2 to=w0 begin=70 length=20\n"
	"move id=1 from=w1 to=w0 begin=46 length=14\n";

static const char partitions_then[] =
	"queue version=1 samples=90 batch=10 batches=1 epochs=3 shuffle=none seed=0 "
	"partitions=3\n"
	"partition worker=w0 samples=30\n"
	"partition worker=w1 samples=30\n"
	"partition worker=w2 samples=30\n"
	"state incarnation=1 cursor=0 next-id=5 iteration=0 retries=3 lease=0 pieces-done=2 "
	"shards-done=2 samples-done=20 samples-repeated=0 first-at=1795333716.144 "
	"last-at=1795333716.144 begun=5 migrate=0.5 next-move=2 moves-done=0 rows-moved=0\n"
	"pass worker=w0 done=1 left=20 given=40\n"
	"rows begin=10 length=20 times=1\n"
	"rows begin=0 length=10 times=2\n"
	"pass worker=w1 done=0 left=20 given=10\n"
	"rows begin=40 length=20 times=0\n"
	"rows begin=30 length=10 times=1\n"
	"pass worker=w2 done=0 left=30 given=0\n"
	"rows begin=60 length=30 times=0\n"
	"move id=0 from=w2 to=w0 begin=70 length=20\n"
	"move id=1 from=w1 to=w0 begin=46 length=14\n"
	"worker id=w0 generation=1 last=1\n"
	"piece id=2 state=doing origin=2 begin=20 length=10 lo=0 hi=10 partition=w0 "
	"worker=w0 deaths=0 returns=0 at=1795333716.144\n"
	"piece id=3 state=doing origin=3 begin=0 length=10 lo=0 hi=10 partition=w0 worker=w0 "
	"deaths=0 returns=0 at=1795333716.144\n"
	"worker id=w1 generation=1 last=1\n"
	"piece id=4 state=doing origin=4 begin=30 length=10 lo=0 hi=10 partition=w1 "
	"worker=w1 deaths=0 returns=0 at=1795333716.144\n"
	"end lines=20\n";

static void assert_same(const char *journal, const char *then)
{
	struct error err = {0};
	struct queue *a = queue_of_text(journal, NULL, &err);
	if (!a)
		fail_msg("the journal: %s", err.text);
	struct queue *b = queue_of_text(then, NULL, &err);
	if (!b)
		fail_msg("the state: %s", err.text);
	char *x = text_of(a), *y = text_of(b);
	assert_string_equal(x, y);
	free(x);
	free(y);
	queue_free(a);
	queue_free(b);
}

static void test_changes(void **state)
{
	(void)state;
	assert_same(changes, changes_then);
	assert_same(partitions, partitions_then);
}

static struct queue *followed(const char *text, const char *lines, struct error *err)
{
	char all[8192];
	snprintf(all, sizeof all, "%s%s", text, lines);
	return queue_of_text(all, NULL, err);
}

static void test_each_kind(void **state)
{
	(void)state;
	static const char *const good[] = {
		"set retries=7 lease=2.5\n",
		"expire id=2 blamed=0\n",
		"expire id=2 blamed=1\n",
		"done worker=w0 id=20\n",
		"release id=8\n",
		"settle number=5 iteration=4 lines=0\n",
		"loose boot=aaaa-1\n",
		"loose\n",
	};
	static const char *const bad[] = {
		"done worker=w0 id=6\n", /* it is in nobody's hand */
		"done worker=w9 id=2\n",
		"done worker=w0\n",
		"get worker=w0 id=7\n", /* it would be another */
		"get worker=w1 id=4\n", /* none in force */
		"hello worker=w0 generation=3\n",
		"release id=6\n", /* it is not held */
		"expire id=6 blamed=0\n",
		"expire id=2 blamed=2\n",
		"progress worker=w0 id=2\n",
		"progress worker=w0 id=3 upto=4\n", /* said before */
		"back worker=w0 id=2 begin=20\n",
		"back worker=w0 id=2 length=5\n",
		"migrate threshold=2\n", /* of what? */
		"moved id=0\n",
		"loose boot=a/b\n",
		"unheard-of id=1\n",
		"settle number=6 iteration=4 lines=1\ndone worker=w0 id=20\n",
		"settle number=6 iteration=4 lines=1\napply worker=w9 id=20 begin=10 length=1\n",
		"settle number=6 iteration=4 lines=1\napply worker=w0 id=4 begin=40 length=1\n",
	};
	struct error err = {0};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct queue *q = followed(changes_then, good[i], &err);
		if (!q)
			fail_msg("%s: %s", good[i], err.text);
		queue_free(q);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (followed(changes_then, bad[i], &err))
			fail_msg("%s was taken", bad[i]);
}

static void test_moves(void **state)
{
	(void)state;
	struct error err = {0};
	struct queue *q = followed(partitions_then,
				   "moved id=1\ndrop id=0\nmigrate threshold=0\n", &err);
	assert_non_null(q);
	assert_int_equal(queue_own(q)->moves_done, 1);
	assert_int_equal(queue_own(q)->moves, 0);
	assert_int_equal(queue_own(q)->partition[0].rows, 44);
	queue_free(q);
	assert_null(followed(partitions_then, "moved id=2\n", &err));
	assert_null(followed(partitions_then, "moved id=1\nmoved id=1\n", &err));
	assert_null(followed(partitions_then, "hello worker=w7 generation=1\n", &err));
}

/* Nobody is handed anything who has no partition, whatever a file says. */
static void test_a_worker_without_a_partition(void **state)
{
	(void)state;
	struct error err = {0};
	char text[sizeof partitions_then + 64];
	const char *end = strstr(partitions_then, "end lines=20\n");
	snprintf(text, sizeof text, "%.*sworker id=w9 generation=1 last=1\nend lines=21\n",
		 (int)(end - partitions_then), partitions_then);
	assert_null(followed(text, "get worker=w9 id=5\n", &err));
	assert_non_null(strstr(err.text, "partition"));
}

/* Which boot's lines may be lost is part of the state, until a rollback. */
static void test_loose(void **state)
{
	(void)state;
	struct error err = {0};
	struct queue *q = followed(changes_then, "loose boot=aaaa-1\n", &err);
	char *text = text_of(q);
	struct queue *copy = queue_of_text(text, NULL, &err);
	assert_string_equal(queue_loose(copy), "aaaa-1");
	assert_int_equal(queue_roll_back(copy, q, &err), 0);
	assert_string_equal(queue_loose(copy), "");
	queue_free(copy);
	queue_free(q);
	free(text);
}

/* A number that the next `get` would take past its end. */
static void test_more_often_than_all_together(void **state)
{
	(void)state;
	struct error err;
	char text[sizeof partitions_then];
	memcpy(text, partitions_then, sizeof text);
	char *times = strstr(text, "length=10 times=2");
	assert_non_null(times);
	times[strlen("length=10 times=")] = '5';
	queue_free(followed(text, "", &err));
	times[strlen("length=10 times=")] = '6';
	assert_null(followed(text, "", &err));
	assert_string_equal(err.text, "`rows` were handed out more often than all together");
}

/* The largest numbers and the longest ids, as a save made by hand may say them, are written as they
 * were read, and no line is longer than a sealed one may be. */
#define U64 "18446744073709551615"
#define U32 "4294967295"
#define REAL "2.2250738585072014e-308"
#define TIME "1000000000000000.000"
#define SAMPLES "4611686018427387903" /* 2^62 - 1 */
#define HALF "2305843009213693951"
#define ID32 "an-id-of-two-and-thirty-letters-"
#define ID ID32 ID32

static const char largest[] =
	"queue version=1 samples=" SAMPLES " batch=" U64 " batches=" U64
	" epochs=1 shuffle=samples seed=" U64 " partitions=1\n"
	"partition worker=" ID " samples=" SAMPLES "\n"
	"state incarnation=" U64 " cursor=0 next-id=9223372036854775807 iteration=" U64
	" retries=" U64 " lease=" REAL " pieces-done=" U64
	" shards-done=18446744073709551614 samples-done=4611686018427387902"
	" samples-repeated=" U64 " first-at=" TIME " last-at=" TIME " loose=" ID " begun=" U64
	" migrate=" REAL " next-move=" U64 " moves-done=" U64 " rows-moved=" U64 "\n"
	"settled number=" U64 " lines=1\n"
	"fenced worker=" ID " generation=" U64 " id=" U64 "\n"
	"pass worker=" ID " done=" U64 " left=" SAMPLES " given=" U64 "\n"
	"rows begin=0 length=" SAMPLES " times=1\n"
	"worker id=" ID " generation=" U64 " last=" U64 "\n"
	"piece id=9223372036854775806 state=doing origin=9223372036854775806 begin=" HALF
	" length=" HALF " lo=2305843009213693950 hi=" HALF " seed=" U64 " cut=1 partition=" ID
	" worker=" ID " deaths=" U32 " returns=" U32 " at=" TIME "\n"
	"end lines=9\n";

static void test_largest(void **state)
{
	(void)state;
	struct error err = {0};
	struct queue *q = queue_of_text(largest, NULL, &err);
	if (!q)
		fail_msg("%s", err.text);
	char *text = text_of(q);
	assert_string_equal(text, largest);
	for (size_t n, at = 0; text[at]; at += n + 1) {
		n = strcspn(text + at, "\n");
		assert_in_range(n + SEALED_SUM_BYTES + 1, 0, SEALED_MAX);
	}
	queue_free(q);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_each_kind),
		cmocka_unit_test(test_moves),
		cmocka_unit_test(test_a_worker_without_a_partition),
		cmocka_unit_test(test_loose),
		cmocka_unit_test(test_more_often_than_all_together),
		cmocka_unit_test(test_largest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

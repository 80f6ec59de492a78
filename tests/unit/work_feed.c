/*
 * The reading thread: every position once and in the published order, whatever the sizes; new sizes,
 * dropping, bad rows.
 */
#include "data/dataset.h"
#include "data/schema.h"
#include "base/random.h"
#include "work/feed.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ROWS 1000

static char path[64];
static struct schema *schema;

/* Row i has the number i as its dense column, and row i % 97 == 96 a bad label when bad is set. */
static void write_data(int bad)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "label,number,name\n");
	for (int i = 0; i < ROWS; i++)
		fprintf(f, "%s,%d,n%d\n", bad && i % 97 == 96 ? "maybe" : i % 3 ? "0" : "1", i,
			i % 10);
	fclose(f);
}

static int set_up(void **unused)
{
	(void)unused;
	struct error err = {0};
	struct schema_options options = {.format = "csv",
					 .label = "label",
					 .dense = "number",
					 .sparse = "name",
					 .dense_scale = "none"};
	strcpy(path, "/tmp/paceline-feed.XXXXXX");
	int fd = mkstemp(path);
	if (fd < 0)
		return -1;
	close(fd);
	return schema_new(&schema, &options, &err);
}

static int tear_down(void **unused)
{
	(void)unused;
	char index[80];
	schema_free(schema);
	snprintf(index, sizeof(index), "%s.rowidx", path);
	unlink(index);
	return unlink(path);
}

struct stage {
	struct dataset *dataset;
	struct feed *feed;
};

/* A signal is for the thread that waits for work: no other one takes it. */
static void others_take_no_signals(void)
{
	char name[300], line[128];
	unsigned long long blocked;
	int others = 0;
	DIR *tasks = opendir("/proc/self/task");
	assert_non_null(tasks);
	for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
		if (atoi(task->d_name) == 0 || atoi(task->d_name) == getpid())
			continue;
		snprintf(name, sizeof name, "/proc/self/task/%s/status", task->d_name);
		FILE *f = fopen(name, "r");
		assert_non_null(f);
		while (fgets(line, sizeof line, f))
			if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
				assert_true(blocked >> (SIGTERM - 1) & 1);
		fclose(f);
		others++;
	}
	closedir(tasks);
	assert_true(others > 0);
}

static struct map map; /* one part has all */

static struct stage start(uint64_t size, uint64_t bad_rows_max, int audit)
{
	struct error err = {0};
	struct stage s;
	const char *paths[] = {path};
	struct dataset_options options = {
		.paths = paths, .path_count = 1, .bad_rows_max = bad_rows_max};
	if (dataset_open(&s.dataset, schema, &options, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	map_even(&map, 1, 0);
	struct feed_options feed = {.dataset = s.dataset,
				    .keys = {.are_rows = audit},
				    .key_count = audit ? ROWS : 1 << 20,
				    .map = &map,
				    .size = size};
	assert_int_equal(feed_new(&s.feed, &feed, &err), 0);
	others_take_no_signals();
	return s;
}

static void finish(struct stage *s)
{
	feed_free(s->feed);
	dataset_close(s->dataset);
}

static void add(struct stage *s, struct piece p)
{
	struct error err = {0};
	if (p.take == 0)
		p.take = p.length - p.skip;
	assert_int_equal(feed_add(s->feed, &p, &err), 0);
}

static struct batch *take(struct stage *s, int short_ok)
{
	struct error err = {0};
	struct batch *b;
	if (feed_take(s->feed, short_ok, &b, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return b;
}

/* Pieces of 300 and 40 rows in batches of 64: full ones first, the last is short and only given when
 * asked for. */
static void in_order(void **unused)
{
	(void)unused;
	write_data(0);
	struct stage s = start(64, 0, 0);
	add(&s, (struct piece){.id = 1, .begin = 100, .length = 300});
	add(&s, (struct piece){.id = 2, .begin = 600, .length = 40});
	assert_int_equal(feed_held(s.feed), 340);
	for (int i = 0; i < 5; i++) {
		struct batch *b = take(&s, 0);
		assert_non_null(b);
		assert_int_equal(b->count, 64);
		for (int j = 0; j < 64; j++) {
			int row = i * 64 + j;
			assert_true(b->dense[j] == (float)(row < 300 ? 100 + row : 300 + row));
			assert_true(b->label[j] == ((int)b->dense[j] % 3 ? 0.0f : 1.0f));
		}
		assert_int_equal(b->unique, 10);
		assert_int_equal(b->range_count, i < 4 ? 1 : 2);
		assert_int_equal(feed_knows(s.feed, 1), i < 4);
		assert_true(feed_knows(s.feed, 2));
	}
	assert_null(take(&s, 0));
	struct batch *b = take(&s, 1);
	assert_int_equal(b->count, 20);
	assert_int_equal(b->range[0].id, 2);
	assert_int_equal(b->range[0].begin, 620);
	assert_int_equal(b->range[0].length, 20);
	assert_int_equal(feed_held(s.feed), 0);
	assert_false(feed_knows(s.feed, 2));
	assert_null(take(&s, 1));
	/* and on, when there is more */
	add(&s, (struct piece){.id = 3, .begin = 0, .length = 64});
	b = take(&s, 0);
	assert_int_equal(b->range[0].id, 3);
	finish(&s);
}

static void shuffled(void **unused)
{
	(void)unused;
	uint32_t order[200];
	write_data(0);
	struct stage s = start(50, 0, 0);
	add(&s, (struct piece){.id = 9, .begin = 500, .length = 200, .seed = 77, .shuffled = 1,
			       .skip = 30, .take = 120});
	random_permute(order, 200, 77);
	size_t position = 30;
	for (int i = 0; i < 3; i++) {
		struct batch *b = take(&s, i == 2);
		assert_int_equal(b->range[0].begin, 500 + position);
		for (size_t j = 0; j < b->count; j++, position++)
			assert_true(b->dense[j] == (float)(500 + order[position]));
	}
	assert_int_equal(position, 150);
	assert_null(take(&s, 1));
	finish(&s);
}

/* The batches cut ahead are cut again; nothing is lost or given twice. */
static void resized(void **unused)
{
	(void)unused;
	write_data(0);
	struct stage s = start(10, 0, 1);
	int seen[ROWS] = {0};
	uint64_t sizes[] = {10, 7, 33, 1, 200, 64}, serial = 0;
	for (uint64_t begin = 0; begin < ROWS; begin += 50)
		add(&s, (struct piece){.id = begin, .begin = begin, .length = 50, .seed = begin,
				       .shuffled = begin % 100 == 0});
	for (size_t i = 0;; i++) {
		struct batch *b = take(&s, 1);
		if (!b)
			break;
		for (size_t j = 0; j < b->count; j++)
			seen[b->key[b->index[j]]]++;
		assert_true(b->serial > serial);
		const struct batch *next = feed_next(s.feed);
		serial = next ? next->serial : b->serial;
		feed_resize(s.feed, sizes[i % 6]);
		b = take(&s, 0);
		if (!b)
			continue;
		/* It may lie where the one did that is cut again: it is another one. */
		assert_true(b->serial > serial);
		serial = b->serial;
		assert_int_equal(b->count, sizes[i % 6]);
		for (size_t j = 0; j < b->count; j++)
			seen[b->key[b->index[j]]]++;
	}
	for (int i = 0; i < ROWS; i++)
		assert_int_equal(seen[i], 1);
	finish(&s);
}

/* What is foreseen is what is taken, and the batch before stays: nothing is put into its place. */
static void foreseen(void **unused)
{
	(void)unused;
	struct error err = {0};
	const struct batch *next, *seen[6];
	write_data(0);
	struct stage s = start(64, 0, 0);
	feed_free(s.feed);
	struct feed_options feed = {.dataset = s.dataset,
				    .key_count = 1 << 20,
				    .map = &map,
				    .size = 64,
				    .keeps = 1};
	assert_int_equal(feed_new(&s.feed, &feed, &err), 0);
	add(&s, (struct piece){.id = 1, .begin = 0, .length = 330});
	for (int i = 0; i < 6; i++) {
		assert_int_equal(feed_foresee(s.feed, i == 5, &next, &err), 0);
		assert_int_equal(feed_held(s.feed), 330 - 64 * i);
		assert_non_null(next);
		seen[i] = take(&s, 0);
		assert_ptr_equal(seen[i], next);
	}
	assert_ptr_not_equal(seen[0], seen[4]);
	assert_ptr_equal(seen[0], seen[5]);
	assert_int_equal(seen[5]->count, 10);
	assert_int_equal(feed_foresee(s.feed, 1, &next, &err), 0);
	assert_null(next);
	finish(&s);
}

static void dropped(void **unused)
{
	(void)unused;
	write_data(0);
	struct stage s = start(16, 0, 0);
	for (int i = 0; i < 20; i++) {
		add(&s, (struct piece){.id = 1, .begin = 0, .length = 800});
		add(&s, (struct piece){.id = 2, .begin = 800, .length = 100});
		if (i % 2)
			take(&s, 0);
		feed_drop(s.feed);
		assert_int_equal(feed_held(s.feed), 0);
		assert_null(take(&s, 1));
	}
	add(&s, (struct piece){.id = 5, .begin = 900, .length = 20});
	struct batch *b = take(&s, 1);
	assert_true(b->dense[0] == 900.0f);
	finish(&s);
}

/* More pieces than a push may name make a batch short. */
static void many_ranges(void **unused)
{
	(void)unused;
	write_data(0);
	struct stage s = start(100, 0, 0);
	for (uint64_t i = 0; i < 100; i++)
		add(&s, (struct piece){.id = i, .begin = i * 2, .length = 1});
	struct batch *b = take(&s, 0);
	assert_int_equal(b->range_count, BATCH_RANGES_MAX);
	assert_int_equal(b->count, BATCH_RANGES_MAX);
	b = take(&s, 1);
	assert_int_equal(b->count, 100 - BATCH_RANGES_MAX);
	finish(&s);
}

static void bad_rows_skipped(void **unused)
{
	(void)unused;
	write_data(1);
	struct stage s = start(100, 20, 0);
	add(&s, (struct piece){.id = 1, .begin = 50, .length = 150, .seed = 3, .shuffled = 1});
	add(&s, (struct piece){.id = 2, .begin = 200, .length = 150, .skip = 50});
	uint64_t positions = 0, count = 0;
	struct batch *b;
	while ((b = take(&s, 1))) {
		positions += b->positions;
		count += b->count;
		for (size_t j = 0; j < b->count; j++)
			assert_int_not_equal((int)b->dense[j] % 97, 96);
	}
	assert_int_equal(positions, 250);
	assert_int_equal(count, 250 - 3); /* 96, 193, 290 */
	finish(&s);
}

static void bad_row_stops(void **unused)
{
	(void)unused;
	struct error err = {0};
	struct batch *b;
	write_data(1);
	struct stage s = start(10, 0, 0);
	add(&s, (struct piece){.id = 1, .begin = 90, .length = 20});
	assert_int_equal(feed_take(s.feed, 1, &b, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_non_null(strstr(err.place, ":98:")); /* the header is line 1 */
	finish(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),	    cmocka_unit_test(shuffled),
		cmocka_unit_test(resized),	    cmocka_unit_test(dropped),
		cmocka_unit_test(many_ranges),	    cmocka_unit_test(bad_rows_skipped),
		cmocka_unit_test(bad_row_stops),    cmocka_unit_test(foreseen),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}

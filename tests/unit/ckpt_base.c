/* ckpt_base: checkpoints that have only the rows that changed since an older one read as if they had
 * all; and are damaged when that one is. */
#include "ckpt_make.h"
#include "rounds.h"

#include "ckpt/export.h"
#include "ckpt/reshard.h"

#define ROWS 3000u
#define WIDTH 4

static struct layout layout;
static struct store *store[2];
static uint32_t mark[2];

static void make_stores(void)
{
	const struct layout_table t = {.name = "emb", .width = WIDTH, .scale = 1};
	struct opt opt;
	static struct map map;
	layout_start(&layout, 5);
	OK(layout_add_tensor(&layout, "w", 100, 1, LAYOUT_NORMAL, 1, LAYOUT_OPTIMIZER, err));
	OK(layout_set_table(&layout, &t, err));
	OK(opt_by_name(&opt, "adagrad", err));
	opt.lr = 0.1f;
	map_even(&map, 2, 100);
	for (uint32_t p = 0; p < 2; p++) {
		store_free(store[p]);
		OK(store_new(&store[p], &layout, &map, p, &opt, err));
	}
}

/* A step on every n-th row of those that there are, which are made. */
static void train(uint32_t first, uint32_t n)
{
	static float dense[100], gradient[ROWS * WIDTH];
	static uint32_t key[ROWS];
	static float *row[ROWS];
	for (size_t i = 0; i < ROWS * WIDTH; i++)
		gradient[i] = (float)(i % 7) - 3;
	for (size_t i = 0; i < 100; i++)
		dense[i] = 1;
	for (uint32_t p = 0; p < 2; p++) {
		size_t rows = 0;
		for (uint32_t i = first; i < ROWS; i += n)
			if (map_part_of_key(store_map(store[p]), row_key(i)) == p)
				key[rows++] = row_key(i);
		OK(store_rows(store[p], key, rows, 1, row, err));
		const struct store_push push = {.dense = dense, .rows = rows, .row = row,
						.row_gradient = gradient, .count = 10, .size = 10,
						.scale = 1};
		OK(store_apply(store[p], &push, 1, err));
	}
}

/* base NULL: all of it. Which parts write all rows all the same. */
static void cut(const char *name, const char *base, int knows)
{
	struct ckpt_manifest own, *m = &own;
	char path[CKPT_PATH_MAX], part_name[CKPT_NAME_MAX];
	const char *dir = in_dir(name);
	uint64_t bytes, sum;
	OK(fs_make_dirs(dir, err));
	OK(ckpt_manifest_start(m, "j", 7, 1, 1, err));
	if (base)
		OK(ckpt_set_base(m, dir, base, err));
	for (uint32_t p = 0; p < 2; p++) {
		ckpt_part_name(p, part_name);
		snprintf(path, sizeof path, "%s/%s", dir, part_name);
		OK(ckpt_write_part(store[p], path, base && (knows & 1 << p) ? mark[p] : 0, 1, &bytes, &sum,
				   err));
		OK(ckpt_add(m, part_name, bytes, sum, err));
		if (!base)
			mark[p] = store_mark(store[p]);
	}
	OK(layout_write(&layout, in_dir("layout"), err));
	OK(ckpt_include(m, dir, in_dir("layout"), NULL, err));
	OK(ckpt_commit(m, dir, err));
	ckpt_manifest_free(m);
}

static void export(const char *name, const char *file)
{
	struct ckpt *c;
	OK(ckpt_open(&c, in_dir(name), err));
	ckpt_share(c);
	OK(ckpt_export_file(c, in_dir(file), err));
	ckpt_close(c);
}

static uint64_t bytes_of(const char *name)
{
	struct ckpt_entry *e;
	size_t count;
	uint64_t bytes = 0;
	OK(ckpt_list(in_dir("d"), &e, &count, err));
	for (size_t i = 0; i < count; i++)
		if (strcmp(e[i].name, name) == 0 && e[i].complete)
			bytes = e[i].bytes;
	free(e);
	return bytes;
}

static struct store *restore(const char *name)
{
	struct store *s;
	struct opt opt;
	struct ckpt *c;
	static struct map one;
	int lost;
	OK(opt_by_name(&opt, "adagrad", err));
	map_even(&one, 1, 100);
	OK(store_new_bare(&s, &layout, &one, 0, &opt, err));
	OK(ckpt_open(&c, in_dir(name), err));
	OK(ckpt_restore(c, s, &lost, err));
	assert_int_equal(lost, 0);
	assert_int_equal(store_row_count(s), ckpt_row_count(c));
	ckpt_close(c);
	return s;
}

static void same_stores(const char *a, const char *b)
{
	struct store *x = restore(a), *y = restore(b);
	uint32_t key;
	float *p, *q;
	assert_memory_equal(store_dense(x), store_dense(y), 400);
	for (uint32_t i = 0; i < ROWS; i++) {
		key = row_key(i);
		OK(store_rows(x, &key, 1, 1, &p, err));
		OK(store_rows(y, &key, 1, 1, &q, err));
		assert_memory_equal(p, q, 2 * WIDTH * sizeof(float)); /* with their slot */
	}
	store_free(x);
	store_free(y);
}

static void make_chain(void)
{
	OK(fs_make_dirs(in_dir("d"), err));
	make_stores();
	train(0, 2);
	cut("d/1", NULL, 0);
	train(0, 50);
	train(1, 50); /* new ones, too */
	cut("d/2", "1", 3);
	cut("d/3", NULL, 0); /* the same, with all rows */
}

static void it_reads_as_if_it_had_all(void **state)
{
	struct ckpt *c;
	(void)state;
	make_chain();
	assert_int_equal(ckpt_verify(in_dir("d/2"), NULL, NULL, NULL), 0);
	assert_true(bytes_of("2") < bytes_of("3") / 4);
	OK(ckpt_open(&c, in_dir("d/2"), err));
	assert_int_equal(ckpt_row_count(c), 1500 + 60);
	ckpt_close(c);
	export("d/2", "2.safetensors");
	export("d/3", "3.safetensors");
	same_file("2.safetensors", "3.safetensors");
	same_stores("d/2", "d/3");
	/* In other parts it has all rows itself. */
	OK(ckpt_open(&c, in_dir("d/2"), err));
	OK(ckpt_reshard(c, in_dir("d/4"), 3, 1, err));
	ckpt_close(c);
	OK(fs_remove_tree(in_dir("d/1"), err));
	export("d/4", "4.safetensors");
	same_file("4.safetensors", "3.safetensors");
}

/* A part that another process writes, which does not know what has changed. */
static void who_does_not_know_writes_all(void **state)
{
	(void)state;
	make_chain();
	for (int knows = 0; knows < 3; knows++) {
		char name[16], file[32];
		snprintf(name, sizeof name, "d/5%d", knows);
		snprintf(file, sizeof file, "%d.safetensors", knows);
		/* The mark is of 3 by now. */
		cut(name, "3", knows);
		export(name, file);
		export("d/3", "3.safetensors");
		same_file(file, "3.safetensors");
		same_stores(name, "d/3");
	}
}

static int refused(const char *name, const char *text)
{
	struct error why = {0};
	struct ckpt *c;
	if (ckpt_open(&c, in_dir(name), &why) == 0) {
		ckpt_close(c);
		return 0;
	}
	print_message("%s: %s\n", why.place, why.text);
	return why.code == ERROR_DATA && strstr(why.text, text);
}

static void without_its_base_it_is_none(void **state)
{
	char path[CKPT_PATH_MAX];
	struct ckpt_manifest own, *m = &own;
	(void)state;
	make_chain();
	assert_int_equal(0, rename(in_dir("d/1"), in_dir("d/gone")));
	assert_true(refused("d/2", "its other rows are in"));
	OK(ckpt_latest(in_dir("d"), path, sizeof path, err));
	assert_int_equal(bytes_of("2"), 0);
	/* Another one by that name. */
	assert_int_equal(0, rename(in_dir("d/3"), in_dir("d/1")));
	assert_true(refused("d/2", "not the checkpoint that it was made from"));
	/* Nor may a base have one. */
	assert_int_equal(0, rename(in_dir("d/1"), in_dir("d/3")));
	assert_int_equal(0, rename(in_dir("d/gone"), in_dir("d/1")));
	assert_false(refused("d/2", ""));
	OK(ckpt_manifest_start(m, "j", 7, 1, 1, err));
	assert_int_equal(ckpt_set_base(m, in_dir("d/9"), "2", NULL), -1);
	assert_int_equal(ckpt_set_base(m, in_dir("d/9"), "../d/1", NULL), -1);
	ckpt_manifest_free(m);
}

static void count_bad(const char *place, const char *text, void *arg)
{
	(void)place;
	(void)text;
	++*(int *)arg;
}

static void damage_of_the_base_is_found(void **state)
{
	static const char *const names[] = {"d/1/MANIFEST", "d/1/part-0", "d/1/part-1", "d/1/layout",
					    "d/2/MANIFEST", "d/2/part-0", "d/2/part-1"};
	char *data;
	size_t len;
	(void)state;
	make_chain();
	for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
		OK(fs_read_file(in_dir(names[n]), 1 << 24, &data, &len, err));
		for (size_t i = 0; i < len; i += 1 + (size_t)mix(i) % (len / 40 + 1)) {
			int bad = 0;
			data[i] ^= 4;
			OK(fs_replace_file(in_dir(names[n]), data, len, err));
			data[i] ^= 4;
			assert_true(ckpt_verify(in_dir("d/2"), count_bad, &bad, NULL) > 0);
			assert_true(bad > 0);
		}
		OK(fs_replace_file(in_dir(names[n]), data, len, err));
		free(data);
	}
	assert_int_equal(ckpt_verify(in_dir("d/2"), NULL, NULL, NULL), 0);
}

/* Parts that say another number of rows than they and the base have: too few, and too many. */
static void how_many_rows_there_are_is_checked(void **state)
{
	struct error why = {0};
	struct ckpt *c;
	(void)state;
	OK(fs_make_dirs(in_dir("d"), err));
	for (int more = 0; more < 2; more++) {
		int bad = 0;
		const char *base = more ? "few" : "many", *name = more ? "d/x" : "d/y";
		make_stores();
		train(0, more ? 500 : 2);
		cut(more ? "d/few" : "d/many", NULL, 0);
		make_stores();
		train(0, more ? 2 : 500);
		for (uint32_t p = 0; p < 2; p++)
			mark[p] = store_mark(store[p]);
		train(0, 1000);
		cut(name, base, 3);
		assert_true(ckpt_verify(in_dir(name), count_bad, &bad, NULL) > 0);
		OK(ckpt_open(&c, in_dir(name), err));
		assert_int_equal(ckpt_export_file(c, in_dir("x.safetensors"), &why), -1);
		assert_int_equal(why.code, ERROR_DATA);
		ckpt_close(c);
	}
}

/* Restored: as reference is (0), refused (-1), or something else (-2). */
static int read_back(const char *name, struct store *reference)
{
	static const uint32_t trained[] = {0, 1, 500, 1000, 1500, 1501, 2000, 2500};
	static struct map one;
	struct store *s;
	struct opt opt;
	struct ckpt *c;
	int lost, result = -1;
	OK(opt_by_name(&opt, "adagrad", err));
	map_even(&one, 1, 100);
	if (ckpt_open(&c, in_dir(name), NULL) != 0)
		return -1;
	OK(store_new_bare(&s, &layout, &one, 0, &opt, err));
	if (ckpt_restore(c, s, &lost, NULL) == 0) {
		result = store_row_count(s) == store_row_count(reference) &&
			 memcmp(store_dense(s), store_dense(reference), 400) == 0 ? 0 : -2;
		for (size_t i = 0; result == 0 && i < sizeof trained / sizeof *trained; i++) {
			uint32_t key = row_key(trained[i]);
			float *p, *q;
			OK(store_rows(s, &key, 1, 1, &p, err));
			OK(store_rows(reference, &key, 1, 1, &q, err));
			if (memcmp(p, q, 2 * WIDTH * sizeof(float)) != 0)
				result = -2;
		}
	}
	store_free(s);
	ckpt_close(c);
	return result;
}

/* Few rows, so that each byte has its turn. */
static void make_small_chain(void)
{
	OK(fs_make_dirs(in_dir("d"), err));
	make_stores();
	train(0, 500);
	cut("d/1", NULL, 0);
	train(0, 1000);
	train(1, 1500);
	cut("d/2", "1", 3);
}

static void every_byte_of_both_counts(void **state)
{
	static const char *const names[] = {"d/1/MANIFEST", "d/1/part-0", "d/1/part-1",
					    "d/2/MANIFEST", "d/2/part-0", "d/2/part-1"};
	char *data;
	size_t len;
	(void)state;
	make_small_chain();
	struct store *reference = restore("d/2");
	for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
		OK(fs_read_file(in_dir(names[n]), 1 << 24, &data, &len, err));
		for (size_t i = 0; i < len; i += (size_t)rounds_part()) {
			int bad = 0;
			data[i] = (char)(data[i] ^ 1 << (i % 8));
			write_plain(in_dir(names[n]), data, len);
			data[i] = (char)(data[i] ^ 1 << (i % 8));
			assert_true(ckpt_verify(in_dir("d/2"), count_bad, &bad, NULL) > 0);
			assert_int_not_equal(read_back("d/2", reference), -2);
			/* Cut short there. */
			write_plain(in_dir(names[n]), data, i);
			assert_true(ckpt_verify(in_dir("d/2"), count_bad, &bad, NULL) > 0);
			assert_int_equal(read_back("d/2", reference), -1);
		}
		write_plain(in_dir(names[n]), data, len);
		free(data);
	}
	assert_int_equal(ckpt_verify(in_dir("d/2"), NULL, NULL, NULL), 0);
	assert_int_equal(read_back("d/2", reference), 0);
	store_free(reference);
}

static void remember(const char *name, void *gone)
{
	snprintf((char *)gone + strlen(gone), 64, "%s ", name);
}

static void prune_knows_bases(void **state)
{
	char gone[256] = "";
	struct ckpt_pruning how = {.keep = 1, .removed = remember, .arg = gone};
	(void)state;
	make_chain();
	OK(fs_remove_tree(in_dir("d/3"), err));
	cut("d/0", NULL, 0); /* which is older, by its name */
	OK(ckpt_prune(in_dir("d"), &how, err));
	assert_string_equal(gone, "0 ");
	const char *const protect[] = {"2", NULL};
	gone[0] = '\0';
	train(0, 2);
	cut("d/7", NULL, 0);
	how.protect = protect;
	OK(ckpt_prune(in_dir("d"), &how, err));
	assert_string_equal(gone, "");
	how.protect = NULL;
	OK(ckpt_prune(in_dir("d"), &how, err));
	assert_string_equal(gone, "1 2 ");
}

static int end_stores(void **state)
{
	(void)state;
	store_free(store[0]);
	store_free(store[1]);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_reads_as_if_it_had_all, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(who_does_not_know_writes_all, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(without_its_base_it_is_none, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(damage_of_the_base_is_found, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(how_many_rows_there_are_is_checked, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(every_byte_of_both_counts, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(prune_knows_bases, make_dir, remove_dir),
	};
	return cmocka_run_group_tests(tests, NULL, end_stores);
}

/* ckpt_damage: no damage goes unnoticed, and no damage harms the reader. */
#include "ckpt_make.h"
#include "rounds.h"

#include <sys/stat.h>
#include <xxhash.h>

static const struct make small = {.dense = 40, .dense_slots = 1, .width = 2, .row_slots = 1,
				  .rows = 12, .parts = 2, .piece = 5};

static char found_place[ERROR_PLACE_MAX];

static void remember(const char *place, const char *text, void *arg)
{
	(void)text;
	(void)arg;
	snprintf(found_place, sizeof found_place, "%s", place);
}

static int verify(const char *dir)
{
	found_place[0] = '\0';
	return ckpt_verify(dir, remember, NULL, NULL);
}

/* Opened and read: what was written (0), refused (-1), or something else (-2). */
static int read_back(const char *dir, const struct make *m)
{
	struct ckpt *c;
	if (ckpt_open(&c, dir, NULL) != 0)
		return -1;
	int result = check_content(c, m);
	ckpt_close(c);
	return result;
}

/* Each step-th byte. */
static void flip_each(const char *dir, const struct make *m, const char *const *names, size_t count,
		      size_t step)
{
	char *data, place[256];
	size_t len;
	make_checkpoint(in_dir(dir), m, 1, 0);
	assert_int_equal(verify(in_dir(dir)), 0);
	for (size_t n = 0; n < count; n++) {
		char path[256];
		snprintf(path, sizeof path, "%s/%s", in_dir(dir), names[n]);
		OK(fs_read_file(path, 1 << 20, &data, &len, err));
		for (size_t i = 0; i < len; i += step)
			for (int turn = 0; turn < 2; turn++) {
				char flip = (char)(turn ? 0x20 : 1 << (i % 8));
				data[i] = (char)(data[i] ^ flip);
				write_plain(path, data, len);
				assert_true(verify(in_dir(dir)) > 0);
				snprintf(place, sizeof place, "%s", path);
				assert_memory_equal(found_place, place, strlen(place));
				assert_int_not_equal(read_back(in_dir(dir), m), -2);
				data[i] = (char)(data[i] ^ flip);
			}
		write_plain(path, data, len);
		free(data);
	}
	assert_int_equal(verify(in_dir(dir)), 0);
}

static void every_flipped_byte_is_found(void **state)
{
	static const char *const names[] = {"MANIFEST", "part-0", "part-1", "shards", "layout"};
	(void)state;
	flip_each("flip", &small, names, sizeof names / sizeof *names, (size_t)rounds_part());
}

static void one_file_is_checked_while_others_are_missing(void **state)
{
	char path[256], *data;
	size_t len;
	(void)state;
	make_checkpoint(in_dir("one"), &small, 1, 0);
	snprintf(path, sizeof path, "%s/part-0", in_dir("one"));
	unlink(path);
	OK(ckpt_check_sum(in_dir("one"), "part-1", err));
	assert_int_not_equal(ckpt_check_sum(in_dir("one"), "part-0", NULL), 0);
	assert_int_not_equal(ckpt_check_sum(in_dir("one"), "part-2", NULL), 0);
	snprintf(path, sizeof path, "%s/part-1", in_dir("one"));
	OK(fs_read_file(path, 1 << 20, &data, &len, err));
	data[len / 2] ^= 1;
	write_plain(path, data, len);
	assert_int_not_equal(ckpt_check_sum(in_dir("one"), "part-1", NULL), 0);
	free(data);
}

static void cut_each(const char *dir, const struct make *m, const char *const *names, size_t count,
		     size_t step)
{
	char *data;
	size_t len;
	make_checkpoint(in_dir(dir), m, 1, 0);
	for (size_t n = 0; n < count; n++) {
		char path[256];
		snprintf(path, sizeof path, "%s/%s", in_dir(dir), names[n]);
		OK(fs_read_file(path, 1 << 20, &data, &len, err));
		for (size_t i = 0; i < len; i += step) {
			assert_int_equal(truncate(path, (off_t)(len - 1 - i)), 0);
			assert_true(verify(in_dir(dir)) > 0);
			assert_int_equal(read_back(in_dir(dir), m), -1);
		}
		write_plain(path, data, len);
		/* One byte too many. */
		FILE *f = fopen(path, "a");
		fputc('\n', f);
		fclose(f);
		assert_true(verify(in_dir(dir)) > 0);
		assert_int_equal(read_back(in_dir(dir), m), -1);
		write_plain(path, data, len);
		free(data);
	}
}

static void every_truncation_is_found(void **state)
{
	static const char *const names[] = {"MANIFEST", "part-0", "shards"};
	(void)state;
	cut_each("cut", &small, names, sizeof names / sizeof *names, (size_t)rounds_part());
}

/* The same where planes are deflated: a flipped bit there changes many bytes, or none. */
static void so_it_is_where_planes_are_deflated(void **state)
{
	static const struct make many = {.dense = 150, .dense_slots = 1, .width = 30, .rows = 6,
					 .parts = 1, .piece = 150};
	static const char *const names[] = {"part-0"};
	char *data, *at;
	unsigned first, planes[4];
	size_t len;
	int deflated = 0;
	(void)state;
	make_checkpoint(in_dir("deflated"), &many, 1, 0);
	OK(fs_read_file(in_dir("deflated/part-0"), 1 << 20, &data, &len, err));
	for (at = data; (at = memmem(at, len - (size_t)(at - data), "planes=", 7)); at++)
		if (sscanf(at, "planes=%u,%u,%u,%u ", &first, &planes[1], &planes[2], &planes[3]) == 4)
			deflated += planes[3] > 1 && planes[3] < first;
	free(data);
	OK(fs_remove_tree(in_dir("deflated"), err));
	assert_true(deflated > 1);
	flip_each("deflated", &many, names, 1, (size_t)rounds_part());
	OK(fs_remove_tree(in_dir("deflated"), err));
	cut_each("deflated", &many, names, 1, (size_t)rounds_part());
}

static void missing_files_are_found(void **state)
{
	static const char *const names[] = {"part-1", "shards", "layout", "MANIFEST"};
	struct error why = {0};
	struct ckpt *c;
	(void)state;
	for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
		make_checkpoint(in_dir("miss"), &small, 1, 0);
		char path[256];
		snprintf(path, sizeof path, "%s/%s", in_dir("miss"), names[n]);
		assert_int_equal(unlink(path), 0);
		assert_int_equal(verify(in_dir("miss")), 1);
		assert_int_equal(ckpt_open(&c, in_dir("miss"), &why), -1);
		assert_int_equal(why.code, n == 3 ? ERROR_NOINPUT : ERROR_DATA);
		OK(fs_remove_tree(in_dir("miss"), err));
	}
	assert_int_equal(verify(in_dir("miss")), -1);
}

/* Every checksum is right, but the two parts don't belong together. */
static void mixed_up_parts_are_found(void **state)
{
	static const struct stream_shape second[] = {
		{.part = 1, .parts = 2, .dense_begin = 3, .dense_count = 2, .width = 1},
		{.part = 1, .parts = 2, .dense_begin = 4, .dense_count = 2, .width = 1},
		{.part = 1, .parts = 2, .dense_begin = 2, .dense_count = 2, .width = 1},
		{.part = 0, .parts = 2, .dense_begin = 3, .dense_count = 2, .width = 1},
		{.part = 1, .parts = 3, .dense_begin = 3, .dense_count = 2, .width = 1},
		{.part = 1, .parts = 2, .dense_begin = 3, .dense_count = 2, .width = 2},
		{.part = 1, .parts = 2, .dense_begin = 3, .dense_count = 2, .width = 1,
		 .dense_slots = 1},
		{.part = 1, .parts = 2, .dense_begin = 3, .dense_count = 2, .width = 1,
		 .row_slots = 1},
	};
	static const struct stream_shape first = {.parts = 2, .dense_count = 3, .width = 1};
	struct ckpt_manifest own, *m = &own;
	const float values[3] = {1, 2, 3};
	(void)state;
	for (size_t i = 0; i < sizeof second / sizeof *second; i++) {
		struct ckpt *c;
		struct error why = {0};
		uint64_t bytes, sum;
		OK(fs_make_dirs(in_dir("mix"), err));
		OK(ckpt_manifest_start(m, "j", 1, 0, 1, err));
		for (uint32_t part = 0; part < 2; part++) {
			const struct stream_shape *shape = part ? &second[i] : &first;
			char name[CKPT_NAME_MAX], path[256];
			struct part_writer *file;
			struct stream_writer *w;
			ckpt_part_name(part, name);
			snprintf(path, sizeof path, "%s/%s", in_dir("mix"), name);
			OK(part_create(&file, path, err));
			OK(stream_begin(&w, part_sink(file), shape, err));
			for (int slot = -1; slot < (int)shape->dense_slots; slot++)
				OK(stream_dense(w, slot, values, shape->dense_count, err));
			OK(stream_end(w, err));
			stream_writer_free(w);
			OK(part_finish(file, &bytes, &sum, err));
			OK(ckpt_add(m, name, bytes, sum, err));
		}
		OK(ckpt_commit(m, in_dir("mix"), err));
		ckpt_manifest_free(m);
		assert_int_equal(verify(in_dir("mix")), i ? 1 : 0);
		assert_int_equal(ckpt_open(&c, in_dir("mix"), &why), i ? -1 : 0);
		if (i)
			assert_int_equal(why.code, ERROR_DATA);
		else
			ckpt_close(c);
		OK(fs_remove_tree(in_dir("mix"), err));
	}
}

/* What part_read_all() of part_read.c checks, made to fit again: hostile bytes reach the parser of the
 * index with checksums that are right. */
static void fix_sum(char *data, size_t len)
{
	char *newline = memchr(data, '\n', len);
	size_t first = newline ? (size_t)(newline - data) + 1 : 0;
	uint64_t at = strtoull(data + len - 52 + 10, NULL, 10);
	if (at > len - 52)
		return;
	XXH3_state_t *sum = XXH3_createState();
	char digits[17];
	XXH3_64bits_reset(sum);
	XXH3_64bits_update(sum, data, first);
	XXH3_64bits_update(sum, data + at, len - 17 - at);
	snprintf(digits, sizeof digits, "%016llx", (unsigned long long)XXH3_64bits_digest(sum));
	memcpy(data + len - 17, digits, 16);
	XXH3_freeState(sum);
}

static int count_rows(void *arg, size_t rows, const uint32_t *keys, const float *values,
		      const float *const *slots, struct error *err)
{
	uint64_t *total = arg;
	(void)err;
	for (size_t i = 0; i < rows; i++)
		*total += keys[i] != 0 || values[2 * i] != 0 || slots[0][2 * i] != 0;
	return 0;
}

static int count_dense(void *arg, int slot, uint64_t begin, size_t count, const float *values,
		       struct error *err)
{
	uint64_t *total = arg;
	(void)slot;
	(void)begin;
	(void)err;
	for (size_t i = 0; i < count; i++)
		*total += values[i] != 0;
	return 0;
}

/* As a reader without MANIFEST's help sees it. */
static int read_part(const char *path)
{
	const struct part_want all = {.dense_end = UINT64_MAX, .place_end = MAP_PLACES};
	uint64_t total = 0;
	const struct stream_taker taker = {
		.dense = count_dense, .rows = count_rows, .owner = &total, .slots = 1};
	struct part_reader *p;
	if (part_open(&p, path, NULL) != 0)
		return 0;
	const struct stream_shape *s = stream_get_shape(part_stream(p));
	if (s->width == 2 && s->row_slots == 1)
		part_read(p, &all, &taker, NULL);
	part_verify(p, remember, NULL);
	part_close(p);
	return 1;
}

static void hostile_parts_do_no_harm(void **state)
{
	char *data, *hostile;
	size_t len;
	int opened = 0;
	(void)state;
	make_checkpoint(in_dir("fuzz"), &small, 1, 0);
	OK(fs_read_file(in_dir("fuzz/part-0"), 1 << 20, &data, &len, err));
	hostile = malloc(len);
	for (uint64_t turn = 0; turn < (uint64_t)ROUNDS(6000); turn++) {
		memcpy(hostile, data, len);
		size_t flips = 1 + mix(turn) % 3;
		for (size_t i = 0; i < flips; i++) {
			/* Text is where decisions are: prefer digits in its place. */
			uint64_t r = mix(turn * 8 + i + 1000000);
			hostile[r % len] = (char)(r & 1ull << 40 ? '0' + (r >> 41) % 10 : r >> 41);
		}
		fix_sum(hostile, len);
		write_plain(in_dir("hostile"), hostile, len);
		opened += read_part(in_dir("hostile"));
	}
	/* The fixed sums must have let many through, or this tested nothing. */
	assert_true(opened > ROUNDS(200));
	free(hostile);
	free(data);
}

static void hostile_manifests_do_no_harm(void **state)
{
	char *data, *hostile;
	size_t len;
	struct ckpt *c;
	(void)state;
	make_checkpoint(in_dir("mani"), &small, 1, 0);
	OK(fs_read_file(in_dir("mani/MANIFEST"), 1 << 20, &data, &len, err));
	hostile = malloc(len);
	for (uint64_t turn = 0; turn < (uint64_t)ROUNDS(4000); turn++) {
		memcpy(hostile, data, len);
		uint64_t r = mix(turn);
		hostile[r % (len - 25)] = (char)(r & 1ull << 40 ? '0' + (r >> 41) % 10 : r >> 41);
		char digits[17];
		snprintf(digits, sizeof digits, "%016llx",
			 (unsigned long long)XXH3_64bits(hostile, len - 17));
		memcpy(hostile + len - 17, digits, 16);
		write_plain(in_dir("mani/MANIFEST"), hostile, len);
		if (ckpt_open(&c, in_dir("mani"), NULL) == 0) {
			assert_int_not_equal(check_content(c, &small), -2);
			ckpt_close(c);
		}
	}
	free(hostile);
	free(data);
}

/* Put in place of a file between the look at its length and the reading. */
static void a_pipe_is_not_waited_for(void **state)
{
	struct part_reader *p;
	struct error why = {0};
	uint64_t bytes, sum;
	(void)state;
	alarm(60);
	assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
	assert_int_equal(part_open(&p, in_dir("pipe"), &why), -1);
	assert_int_equal(why.code, ERROR_DATA);
	assert_int_equal(ckpt_sum_file(in_dir("pipe"), 0, &bytes, &sum, &why), -1);
	assert_int_equal(why.code, ERROR_DATA);
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_flipped_byte_is_found),
		cmocka_unit_test(one_file_is_checked_while_others_are_missing),
		cmocka_unit_test(every_truncation_is_found),
		cmocka_unit_test(so_it_is_where_planes_are_deflated),
		cmocka_unit_test(missing_files_are_found),
		cmocka_unit_test(mixed_up_parts_are_found),
		cmocka_unit_test(hostile_parts_do_no_harm),
		cmocka_unit_test(hostile_manifests_do_no_harm),
		cmocka_unit_test(a_pipe_is_not_waited_for),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

/*
 * data_rowcache: rows from a cache are those of the text, in whatever order they are read and
 * whatever has become of the file; a cache of other data or another schema is not read.
 */
#include "base/fs.h"
#include "base/log.h"
#include "data/dataset.h"
#include "data/rowcache_internal.h"

#include "scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

#define ROWS 1000 /* three blocks and a part of one */

static char path[2][128], cache[2][160];
static char told[700];
static int times_told;
static unsigned long free_bytes;

/* In the place of the C library's. */
int fstatvfs(int fd, struct statvfs *disk)
{
	(void)fd;
	*disk = (struct statvfs){.f_frsize = 1, .f_bavail = free_bytes};
	return 0;
}

static void on_log(enum log_level level, const char *text, void *arg)
{
	(void)level;
	(void)arg;
	times_told++;
	snprintf(told, sizeof told, "%s", text);
}

static int set_up(void **state)
{
	assert_int_equal(scratch_make(state), 0);
	for (int i = 0; i < 2; i++) {
		snprintf(path[i], sizeof path[i], "%s/%c", scratch, 'a' + i);
		snprintf(cache[i], sizeof cache[i], "%s/%c.rowcache", scratch, 'a' + i);
	}
	free_bytes = 1u << 30;
	log_set_sink(on_log, NULL, LOG_LEVEL_INFO);
	times_told = 0;
	told[0] = '\0';
	return 0;
}

enum kind { CSV, REAL, CLASS, CRITEO, LIBSVM, BAG, KINDS };

static struct schema *make_schema(enum kind kind, uint64_t hash_bits)
{
	static const struct schema_options of[KINDS] = {
		[CSV] = {.format = "csv",
			 .label = "y",
			 .weight = "w",
			 .dense = "a,b",
			 .sparse = "c",
			 .dense_scale = "none"},
		[CRITEO] = {.format = "criteo", .dense_scale = "none"},
		[LIBSVM] = {.format = "libsvm"},
		[BAG] = {.format = "bag"}};
	struct schema_options o = of[kind == REAL || kind == CLASS ? CSV : kind];
	struct schema *s;
	struct error err;
	o.hash_bits = kind == BAG ? 0 : hash_bits;
	o.labels = kind == REAL ? "real" : kind == CLASS ? "class" : NULL;
	if (schema_new(&s, &o, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	s->label_mean = kind == REAL ? 7 : 0;
	for (const char *label = "0"; kind == CLASS && label; label = *label == '0' ? "1" : NULL)
		assert_int_equal(classes_add(&s->classes, label, 1, &err), 0);
	return s;
}

/* bad: the number of a row that is one, or ROWS. */
static void write_rows(enum kind kind, int file, unsigned bad)
{
	FILE *f = fopen(path[file], "wb");
	assert_non_null(f);
	kind = kind == REAL || kind == CLASS ? CSV : kind;
	if (kind == CSV)
		fprintf(f, "y,w,a,b,c\n");
	for (unsigned i = 0; i < ROWS; i++) {
		const char *label = i == bad ? "x" : i % 3 ? "0" : "1";
		/* Weights and values other than 1 in some blocks only. */
		unsigned odd = i < 300 ? i % 7 + 1 : 1;
		if (kind == CSV)
			fprintf(f, "%s,%u,%u.5,,\"v\n%80u\"\n", label, odd, i, i % 50);
		for (unsigned k = 0; kind == CRITEO && k < 40; k++)
			fprintf(f, "%s%s%.*u", k ? "\t" : "", k ? "" : label, k > 0, k * i % 90);
		for (unsigned k = 0; (kind == LIBSVM || kind == BAG) && k < i % 9; k++)
			fprintf(f, "%s%s %u:%u", k || kind == BAG ? "" : label,
				i == bad ? " x" : "", k * i % 90, odd);
		if (kind == LIBSVM && i % 9 == 0)
			fprintf(f, "%s", label);
		if (kind == BAG)
			fprintf(f, "%s", i == bad ? " x" : i % 9 ? "" : "name");
		fprintf(f, "%s", kind == CSV ? "" : "\n");
	}
	fclose(f);
}

static struct rowcache_making making(const struct schema *s, int file)
{
	return (struct rowcache_making){.schema = s, .data_path = path[file], .path = cache[file]};
}

static struct rowcache_made make_cache(const struct schema *s, int file)
{
	struct rowcache_making m = making(s, file);
	struct rowcache_made made;
	struct error err;
	if (rowcache_make(&m, &made, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	assert_int_equal(rowcache_is_made(&m, &err), 1);
	return made;
}

static struct dataset *open_data(const struct schema *s, size_t files, int caches)
{
	const char *paths[] = {path[0], path[1]};
	struct dataset_options o = {
		.paths = paths, .path_count = files, .bad_rows_max = 1000, .caches = caches};
	struct dataset *ds;
	struct error err;
	if (dataset_open(&ds, s, &o, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return ds;
}

static void check_same(const struct rows *a, const struct rows *b)
{
	size_t n = a->count, keys = n ? a->offset[n] : 0;
	assert_int_equal(b->count, n);
	assert_int_equal(!a->value, !b->value);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(a->offset[i + 1], b->offset[i + 1]);
	if (n == 0)
		return;
	assert_memory_equal(a->row, b->row, n * sizeof *a->row);
	assert_memory_equal(a->label, b->label, n * sizeof *a->label);
	assert_memory_equal(a->weight, b->weight, n * sizeof *a->weight);
	if (a->dense_columns)
		assert_memory_equal(a->dense, b->dense, n * a->dense_columns * sizeof *a->dense);
	if (keys)
		assert_memory_equal(a->key, b->key, keys * sizeof *a->key);
	if (keys && a->value)
		assert_memory_equal(a->value, b->value, keys * sizeof *a->value);
}

/* Ranges of all kinds from both. */
static void compare_ranges(struct dataset *text, struct dataset *ds)
{
	struct rows a = {0}, b = {0};
	struct error err;
	uint64_t all = dataset_rows(text), chance = 7;
	for (int i = 0; i < 40; i++) {
		chance = chance * 6364136223846793005u + 1442695040888963407u;
		uint64_t begin = i == 0 ? 0 : (chance >> 33) % all;
		uint64_t length = i == 0 ? all : (chance >> 20) % (all - begin);
		assert_int_equal(dataset_read(text, begin, length, &a, &err), 0);
		if (dataset_read(ds, begin, length, &b, &err) != 0)
			fail_msg("%s: %s", err.place, err.text);
		check_same(&a, &b);
	}
	assert_int_equal(dataset_bad_rows(text), dataset_bad_rows(ds));
	rows_free(&a);
	rows_free(&b);
}

/* Whether rows are those of the text; returns how many came from the cache. */
static uint64_t compare_files(const struct schema *s, size_t files)
{
	struct dataset *text = open_data(s, files, 0), *ds = open_data(s, files, 1);
	compare_ranges(text, ds);
	uint64_t cached = dataset_cached_rows(ds);
	dataset_close(text);
	dataset_close(ds);
	return cached;
}

static void test_all_formats(void **state)
{
	(void)state;
	for (enum kind kind = CSV; kind < KINDS; kind++)
		for (unsigned bad = 700; bad <= ROWS; bad += ROWS - 700) {
			struct error err;
			struct schema *s = make_schema(kind, 20);
			write_rows(kind, 0, bad);
			struct rowcache_made made = make_cache(s, 0);
			assert_int_equal(made.rows, ROWS);
			assert_int_equal(made.text_rows, bad < ROWS ? ROWCACHE_EVERY : 0);
			struct stat st;
			assert_int_equal(stat(cache[0], &st), 0);
			assert_int_equal(made.bytes, st.st_size);
			assert_true(compare_files(s, 1) > 0);
			struct rowcache_making m = making(s, 0);
			assert_int_equal(rowcache_check(&m, &err), 0);
			schema_free(s);
		}
	assert_string_equal(told, "");
}

/* Each file has its own, or none; whoever reads goes from one to the other. */
static void test_several_files(void **state)
{
	(void)state;
	struct schema *s = make_schema(CSV, 20);
	write_rows(CSV, 0, ROWS);
	write_rows(CSV, 1, 3);
	make_cache(s, 0);
	uint64_t one = compare_files(s, 2);
	make_cache(s, 1);
	uint64_t both = compare_files(s, 2);
	assert_true(one > 0);
	assert_true(both > one);
	schema_free(s);
}

/* One that is made while rows are read is found before long, and one that is replaced while another
 * file is read. */
static void test_appears(void **state)
{
	(void)state;
	struct schema *s = make_schema(LIBSVM, 20);
	struct error err;
	struct rows rows = {0};
	write_rows(LIBSVM, 0, ROWS);
	write_rows(LIBSVM, 1, ROWS);
	struct dataset *ds = open_data(s, 2, 1);
	assert_int_equal(dataset_read(ds, 0, ROWS, &rows, &err), 0);
	make_cache(s, 0);
	for (int i = 0; i < 100 && dataset_cached_rows(ds) == 0; i++)
		assert_int_equal(dataset_read(ds, 0, ROWS, &rows, &err), 0);
	uint64_t cached = dataset_cached_rows(ds);
	assert_true(cached > 0);
	assert_int_equal(dataset_read(ds, ROWS, ROWS, &rows, &err), 0);
	make_cache(s, 0);
	assert_int_equal(dataset_read(ds, 0, ROWS, &rows, &err), 0);
	assert_int_equal(dataset_read(ds, 0, ROWS, &rows, &err), 0);
	assert_true(dataset_cached_rows(ds) > cached);
	rows_free(&rows);
	dataset_close(ds);
	schema_free(s);
}

/* However long the text is read. */
static void check_refused(const struct schema *s, const char *why)
{
	struct rows rows = {0};
	struct error err;
	times_told = 0;
	struct dataset *ds = open_data(s, 1, 1);
	for (int i = 0; i < 50; i++)
		assert_int_equal(dataset_read(ds, 0, ROWS, &rows, &err), 0);
	assert_int_equal(dataset_cached_rows(ds), 0);
	rows_free(&rows);
	dataset_close(ds);
	assert_int_equal(times_told, 1);
	if (!strstr(told, why))
		fail_msg("'%s' is not in '%s'", why, told);
}

static void test_stale(void **state)
{
	(void)state;
	struct schema *s = make_schema(CSV, 20), *other = make_schema(CSV, 19);
	const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	struct error err;
	write_rows(CSV, 0, ROWS);
	make_cache(s, 0);
	check_refused(other, "a.rowcache: made with other columns or options; the text");
	other->hash_bits = 20;
	other->dense[0].mean = 1;
	check_refused(other, "made with other columns or options");
	assert_true(compare_files(s, 1) > 0);
	struct schema *labels[] = {make_schema(REAL, 20), make_schema(CLASS, 20)};
	for (int i = 0; i < 2; i++) {
		check_refused(labels[i], "made with other columns or options");
		make_cache(labels[i], 0);
		assert_true(compare_files(labels[i], 1) > 0);
		labels[i]->label_mean = 8;
		assert_int_equal(classes_add(&labels[i]->classes, "2", 1, &err), 0);
		check_refused(labels[i], "made with other columns or options");
		schema_free(labels[i]);
	}
	make_cache(s, 0);
	if (geteuid() == 0) { /* nobody else can give a file away */
		assert_int_equal(chown(cache[0], 12345, (gid_t)-1), 0);
		check_refused(s, "a.rowcache: belongs to another user; the text");
		assert_int_equal(chown(path[0], 12345, (gid_t)-1), 0);
		assert_true(compare_files(s, 1) > 0);
	}
	assert_int_equal(utimensat(AT_FDCWD, path[0], old, 0), 0);
	check_refused(s, "a.rowcache: stale: the data file was changed since");
	schema_free(s);
	schema_free(other);
}

/* As without a cache: whoever reads on is told. */
static void test_changed_while_open(void **state)
{
	(void)state;
	struct schema *s = make_schema(CSV, 20);
	struct error err;
	struct rows rows = {0};
	write_rows(CSV, 0, ROWS);
	make_cache(s, 0);
	struct dataset *ds = open_data(s, 1, 1);
	assert_int_equal(dataset_read(ds, 0, 10, &rows, &err), 0);
	assert_int_equal(dataset_cached_rows(ds), 10);
	FILE *f = fopen(path[0], "ab");
	fprintf(f, "1,1,1,1,1\n");
	fclose(f);
	assert_int_equal(dataset_read(ds, 0, 10, &rows, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	rows_free(&rows);
	dataset_close(ds);
	schema_free(s);
}

/* Every byte of the file matters, or does not: rows are never others than those of the text. */
static void test_damaged(void **state)
{
	(void)state;
	struct schema *s = make_schema(LIBSVM, 20);
	struct error err;
	char *bytes;
	size_t len;
	write_rows(LIBSVM, 0, ROWS);
	make_cache(s, 0);
	assert_int_equal(fs_read_file(cache[0], 1u << 30, &bytes, &len, &err), 0);
	for (size_t at = 0; at < len; at += at < 400 ? 7 : 997) {
		bytes[at] ^= 1;
		assert_int_equal(fs_replace_for_now(cache[0], bytes, len, &err), 0);
		bytes[at] ^= 1;
		times_told = 0;
		compare_files(s, 1);
		assert_true(times_told == 1 || at < 4096);
	}
	for (size_t shorter = 0; shorter < len; shorter += 997) {
		assert_int_equal(fs_replace_for_now(cache[0], bytes, shorter, &err), 0);
		check_refused(s, "a.rowcache: ");
	}
	free(bytes);
	schema_free(s);
}

static void put_sum(char *text, uint64_t sum)
{
	char digits[17];
	snprintf(digits, sizeof digits, "%016llx", (unsigned long long)sum);
	memcpy(text, digits, 16);
}

/* With sums that are right all the same. */
static void forge(char *bytes, size_t len, size_t at, uint32_t number)
{
	const size_t table_at = len - rowcache_blocks(ROWS) * sizeof(struct rowcache_entry);
	struct rowcache_entry entry[2];
	struct error err;
	memcpy(bytes + ROWCACHE_HEAD + at, &number, sizeof number);
	memcpy(entry, bytes + table_at, sizeof entry);
	entry[0].sum = XXH3_64bits(bytes + ROWCACHE_HEAD, entry[1].at - entry[0].at);
	memcpy(bytes + table_at, entry, sizeof entry);
	put_sum(strstr(bytes, " table-sum=") + 11, XXH3_64bits(bytes + table_at, len - table_at));
	char *sum = strstr(bytes, " sum=");
	put_sum(sum + 5, XXH3_64bits(bytes, (size_t)(sum - bytes)));
	assert_int_equal(fs_replace_for_now(cache[0], bytes, len, &err), 0);
}

/* A file whose writer meant harm. */
static void test_forged(void **state)
{
	(void)state;
	const size_t head = sizeof(struct rowcache_block), column = 4 * ROWCACHE_EVERY;
	const struct {
		enum kind kind;
		size_t at;
		uint32_t number, flags;                         /* 0: as they were */
	} of[] = {{LIBSVM, 0, 255, 0},                          /* rows */
		  {LIBSVM, 4, UINT32_MAX, 0},                   /* keys */
		  {LIBSVM, head + column, UINT32_MAX, 0},       /* the first offset */
		  {LIBSVM, head + 2 * column, UINT32_MAX, 0},   /* the last one */
		  {LIBSVM, head + 2 * column + 4, 1u << 20, 0}, /* a key */
		  {CLASS, 4, ROWCACHE_EVERY / 2,
		   ROWCACHE_WEIGHTS | ROWCACHE_VALUES}, /* half the keys, and their values */
		  {CLASS, head, 0x40000000u, 0},        /* a label: class 2 of 2 */
		  {CLASS, head, 0x7fc00000u, 0},        /* nan */
		  {CLASS, head, 0xbf800000u, 0}};       /* -1 */
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct schema *s = make_schema(of[i].kind, 20);
		struct error err;
		char *bytes;
		size_t len;
		write_rows(of[i].kind, 0, ROWS);
		make_cache(s, 0);
		assert_int_equal(fs_read_file(cache[0], 1u << 30, &bytes, &len, &err), 0);
		if (of[i].flags != 0)
			forge(bytes, len, offsetof(struct rowcache_block, flags), of[i].flags);
		forge(bytes, len, of[i].at, of[i].number);
		times_told = 0;
		compare_files(s, 1);
		assert_int_equal(times_told, 1);
		assert_non_null(strstr(told, "numbers in block 0 are out of range"));
		free(bytes);
		schema_free(s);
	}
}

/* It was whole when it was opened. */
static void test_cut_while_open(void **state)
{
	(void)state;
	struct schema *s = make_schema(CSV, 20);
	write_rows(CSV, 0, ROWS);
	make_cache(s, 0);
	struct dataset *text = open_data(s, 1, 0), *ds = open_data(s, 1, 1);
	struct rows rows = {0};
	struct error err;
	assert_int_equal(dataset_read(ds, 0, 10, &rows, &err), 0);
	assert_int_equal(truncate(cache[0], 5000), 0);
	compare_ranges(text, ds);
	assert_int_equal(times_told, 1);
	rows_free(&rows);
	dataset_close(text);
	dataset_close(ds);
	schema_free(s);
}

static void test_check_finds(void **state)
{
	(void)state;
	struct schema *s = make_schema(CSV, 20);
	struct error err;
	struct stat st;
	write_rows(CSV, 0, ROWS);
	make_cache(s, 0);
	assert_int_equal(stat(path[0], &st), 0);
	/* The same size, time and first 64 KiB. */
	int fd = open(path[0], O_WRONLY);
	assert_int_equal(pwrite(fd, "7", 1, st.st_size - 3), 1);
	close(fd);
	const struct timespec times[2] = {st.st_atim, st.st_mtim};
	assert_int_equal(utimensat(AT_FDCWD, path[0], times, 0), 0);
	struct rowcache_making m = making(s, 0);
	assert_int_equal(rowcache_is_made(&m, &err), 1);
	assert_int_equal(rowcache_check(&m, &err), -1);
	assert_int_equal(err.code, ERROR_NEGATIVE);
	assert_string_equal(err.text, "rows from 768 on are others than in the text");
	schema_free(s);
}

static void test_stopped(void **state)
{
	(void)state;
	struct schema *s = make_schema(CSV, 20);
	atomic_int stop = 1;
	struct rowcache_made made;
	struct error err;
	write_rows(CSV, 0, ROWS);
	struct rowcache_making m = making(s, 0);
	m.stop = &stop;
	assert_int_equal(rowcache_make(&m, &made, &err), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	assert_int_equal(access(cache[0], F_OK), -1);
	assert_int_equal(rowcache_is_made(&m, &err), 0);
	schema_free(s);
}

/* What is not written yet may take half of what is free; known from the first block on. */
static void test_no_room(void **state)
{
	(void)state;
	struct schema *s = make_schema(CSV, 20);
	struct rowcache_made made;
	struct error err;
	write_rows(CSV, 0, ROWS);
	struct rowcache_making m = making(s, 0);
	uint64_t bytes = make_cache(s, 0).bytes;
	unlink(cache[0]);
	free_bytes = (unsigned long)bytes;
	assert_int_equal(rowcache_make(&m, &made, &err), -1);
	assert_int_equal(err.code, ERROR_CANTCREAT);
	assert_non_null(strstr(err.text, ", more than half of the "));
	assert_int_equal(access(cache[0], F_OK), -1);
	free_bytes *= 2;
	make_cache(s, 0);
	schema_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all_formats, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_several_files, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_appears, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_stale, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_changed_while_open, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_damaged, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_forged, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_cut_while_open, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_check_finds, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_no_room, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_stopped, set_up, scratch_remove)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

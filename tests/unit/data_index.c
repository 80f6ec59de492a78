/*
 * data_index: random files, plain and gzip, read at random rows through their index, against the
 * rows found by reading all of them; index files with every byte damaged; stale indexes.
 */
#include "base/fs.h"
#include "data/index.h"

#include "scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zlib.h>

#include <cmocka.h>

static char path[128], index_name[160];
static uint64_t rng;

static uint64_t below(uint64_t n)
{
	rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (rng >> 33) % n;
}

static int set_up(void **state)
{
	struct error err;
	assert_int_equal(scratch_make(state), 0);
	snprintf(path, sizeof path, "%s/file", scratch);
	assert_int_equal(index_path(index_name, sizeof index_name, path, NULL, &err), 0);
	rng = 11;
	return 0;
}

/* Digits, which deflate into many blocks; now and then an empty line behind. */
static int digits_row(char *row, size_t number)
{
	int len = sprintf(row, "%zu,", number);
	for (uint64_t i = below(400); i > 0; i--)
		row[len++] = (char)('0' + below(10));
	row[len++] = '\n';
	if (below(20) == 0)
		row[len++] = '\n';
	return len;
}

/* n rows, of which row i begins with its number: "123,words\n", some quoted over several lines. */
static void write_rows(size_t n, int csv, int gzip)
{
	gzFile z = gzip ? gzopen(path, "wb3") : NULL;
	FILE *f = gzip ? NULL : fopen(path, "wb");
	assert_true(z || f);
	for (size_t i = 0; i < n + (csv ? 1 : 0); i++) {
		char row[600];
		int len;
		if (csv && i == 0)
			len = snprintf(row, sizeof row, "number,words\r\n");
		else if (csv && below(10) == 0)
			len = snprintf(row, sizeof row, "%zu,\"a\n%llu\"\"\n,\"\n", i - 1,
				       (unsigned long long)below(1u << 30));
		else
			len = digits_row(row, i - (csv ? 1 : 0));
		if (!csv && len > 2 && row[len - 2] == '\n')
			len--; /* in lines, an empty one would be a row */
		if (gzip)
			assert_int_equal(gzwrite(z, row, (unsigned)len), len);
		else
			assert_int_equal(fwrite(row, 1, (size_t)len, f), len);
	}
	if (gzip)
		assert_int_equal(gzclose(z), Z_OK);
	else
		assert_int_equal(fclose(f), 0);
}

static struct index *build(enum row_format format)
{
	struct source *s;
	struct index *ix;
	struct error err;
	assert_int_equal(source_open(&s, path, &err), 0);
	assert_int_equal(index_build(&ix, s, row_syntax(format), NULL, NULL, &err), 0);
	source_close(s);
	return ix;
}

static void check_at(struct index *ix, struct source *s, struct rowscan *scan, uint64_t row)
{
	struct error err;
	uint64_t at;
	struct row_ref ref;
	assert_int_equal(index_seek(ix, s, scan, row, &at, &err), 0);
	assert_true(at <= row && row - at < ix->every);
	for (uint64_t i = at; i < row + 3 && i < ix->rows; i++) {
		assert_int_equal(rowscan_next(scan, &ref, 0, &err), ROWSCAN_ROW);
		assert_int_equal(strtoull(ref.data, NULL, 10), i);
	}
}

static void check_random_rows(struct index *ix, int rounds)
{
	struct source *s;
	struct rowscan scan;
	struct error err;
	assert_int_equal(source_open(&s, path, &err), 0);
	assert_int_equal(rowscan_init(&scan, ix->syntax, &err), 0);
	check_at(ix, s, &scan, ix->rows - 1);
	check_at(ix, s, &scan, 0);
	for (int i = 0; i < rounds; i++)
		check_at(ix, s, &scan, below(ix->rows));
	rowscan_free(&scan);
	source_close(s);
}

static void test_any_row_of_any_file(void **state)
{
	(void)state;
	struct error err;
	for (int kind = 0; kind < 4; kind++) {
		int csv = kind & 1, gzip = kind >> 1;
		write_rows(30000, csv, gzip);
		struct index *ix = build(csv ? ROW_CSV : ROW_LINES), *read;
		assert_int_equal(ix->rows, 30000);
		assert_int_equal(ix->packing, gzip ? SOURCE_GZIP : SOURCE_PLAIN);
		if (gzip)
			assert_true(ix->point_count >= 3);
		check_random_rows(ix, 100); /* windows in memory */
		assert_int_equal(index_write(ix, index_name, &err), 0);
		assert_int_equal(index_read(&read, index_name, 1, &err), 0);
		assert_int_equal(index_same(ix, read, &err), 1);
		check_random_rows(read, 100); /* windows in the file */
		index_free(read);
		index_free(ix);
	}
}

/* Files beyond the bounds: places and points are thinned, again and again, and still lead there. */
static void test_thinned(void **state)
{
	(void)state;
	const struct index_bounds bounds = {.every = 2, .places_max = 16, .span = 20000, .points_max = 8};
	for (int gzip = 0; gzip < 2; gzip++) {
		struct source *s;
		struct index *ix, *read;
		struct error err;
		write_rows(20001, 1, gzip);
		assert_int_equal(source_open(&s, path, &err), 0);
		assert_int_equal(index_build_within(&ix, s, row_syntax(ROW_CSV), &bounds, NULL, NULL, &err), 0);
		source_close(s);
		assert_int_equal(ix->rows, 20001);
		assert_true(ix->every >= 2048);
		assert_int_equal(ix->place_count, 20001 / ix->every + 1);
		if (gzip)
			assert_true(ix->point_count >= 4 && ix->point_count <= 8 &&
				    ix->point[1].out > 8 * bounds.span);
		check_random_rows(ix, 50);
		assert_int_equal(index_write(ix, index_name, &err), 0);
		assert_int_equal(index_read(&read, index_name, 1, &err), 0);
		check_random_rows(read, 50);
		index_free(read);
		index_free(ix);
	}
}

/* The line of a row is the one an editor shows, whatever was skipped to get there. */
static void test_line_numbers(void **state)
{
	(void)state;
	write_rows(5000, 1, 0);
	struct index *ix = build(ROW_CSV);
	struct source *s;
	struct rowscan all, some;
	struct error err;
	struct row_ref ref, direct;
	assert_int_equal(source_open(&s, path, &err), 0);
	assert_int_equal(rowscan_init(&all, row_syntax(ROW_CSV), &err), 0);
	assert_int_equal(rowscan_start(&all, s, 1, &err), 0);
	assert_int_equal(rowscan_next(&all, &ref, 0, &err), ROWSCAN_ROW);
	uint64_t seen = 0;
	for (uint64_t row = 0; row < 5000; row++) {
		assert_int_equal(rowscan_next(&all, &ref, 0, &err), ROWSCAN_ROW);
		if (row % 777 != 0)
			continue;
		struct source *other;
		uint64_t at;
		assert_int_equal(source_open(&other, path, &err), 0);
		assert_int_equal(rowscan_init(&some, row_syntax(ROW_CSV), &err), 0);
		assert_int_equal(index_seek(ix, other, &some, row, &at, &err), 0);
		for (; at <= row; at++)
			assert_int_equal(rowscan_next(&some, &direct, 0, &err), ROWSCAN_ROW);
		assert_int_equal(direct.line, ref.line);
		assert_int_equal(direct.offset, ref.offset);
		seen += direct.line > row + 2; /* lines and rows differ, or nothing is shown */
		rowscan_free(&some);
		source_close(other);
	}
	assert_true(seen > 3);
	rowscan_free(&all);
	source_close(s);
	index_free(ix);
}

static void test_small_and_empty_files(void **state)
{
	(void)state;
	struct error err;
	struct index *ix, *read;
	FILE *f = fopen(path, "wb");
	fclose(f);
	for (int format = ROW_LINES; format <= ROW_LIBSVM; format++) {
		if (format == ROW_IDX) /* needs a header */
			continue;
		ix = build((enum row_format)format);
		assert_int_equal(ix->rows, 0);
		assert_int_equal(index_write(ix, index_name, &err), 0);
		assert_int_equal(index_read(&read, index_name, 1, &err), 0);
		assert_int_equal(index_same(ix, read, &err), 1);
		index_free(read);
		index_free(ix);
	}
	for (size_t n = 1; n < 3 * INDEX_EVERY; n += INDEX_EVERY - 1) {
		write_rows(n, 1, 1);
		ix = build(ROW_CSV);
		assert_int_equal(ix->rows, n);
		check_random_rows(ix, 10);
		index_free(ix);
	}
}

static void test_every_damaged_byte_is_noticed(void **state)
{
	(void)state;
	struct error err;
	write_rows(12000, 0, 1);
	struct index *ix = build(ROW_LINES), *read;
	assert_true(ix->point_count >= 2);
	assert_int_equal(index_write(ix, index_name, &err), 0);
	char *data;
	size_t len;
	assert_int_equal(fs_read_file(index_name, 1u << 24, &data, &len, &err), 0);
	for (size_t i = 0; i < len; i += i < 2000 ? 1 : 97) {
		FILE *f = fopen(index_name, "r+b");
		fseek(f, (long)i, SEEK_SET);
		fputc(data[i] ^ 4, f);
		fclose(f);
		assert_int_equal(index_read(&read, index_name, 1, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
		assert_string_equal(err.place, index_name);
		f = fopen(index_name, "r+b");
		fseek(f, (long)i, SEEK_SET);
		fputc(data[i], f);
		fclose(f);
	}
	for (size_t cut = 0; cut < len; cut += 1 + len / 50) {
		FILE *f = fopen(index_name, "wb");
		fwrite(data, 1, cut, f);
		fclose(f);
		assert_int_equal(index_read(&read, index_name, 0, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
	}
	/* Damaged behind our back: a window is checked when it is used. */
	FILE *f = fopen(index_name, "wb");
	data[len - 1] ^= 1;
	fwrite(data, 1, len, f);
	fclose(f);
	assert_int_equal(index_read(&read, index_name, 0, &err), 0);
	struct source *s;
	struct rowscan scan;
	uint64_t at;
	assert_int_equal(source_open(&s, path, &err), 0);
	assert_int_equal(rowscan_init(&scan, row_syntax(ROW_LINES), &err), 0);
	assert_int_equal(index_seek(read, s, &scan, read->rows - 1, &at, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	rowscan_free(&scan);
	source_close(s);
	index_free(read);
	index_free(ix);
	free(data);
}

static int is_of(const struct index *ix, struct error *err)
{
	struct source *s;
	assert_int_equal(source_open(&s, path, err), 0);
	int is = index_is_of(ix, s, err);
	source_close(s);
	return is;
}

static void test_stale(void **state)
{
	(void)state;
	struct error err;
	struct stat st;
	write_rows(1000, 0, 0);
	struct index *ix = build(ROW_LINES);
	assert_int_equal(is_of(ix, &err), 1);
	assert_int_equal(stat(path, &st), 0);
	FILE *f = fopen(path, "r+b");
	fputs("X", f); /* same size; then the same time */
	fclose(f);
	struct timespec past[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	assert_int_equal(utimensat(AT_FDCWD, path, past, 0), 0);
	assert_int_equal(is_of(ix, &err), 0);
	assert_non_null(strstr(err.text, "changed"));
	struct timespec same[2] = {st.st_atim, st.st_mtim};
	assert_int_equal(utimensat(AT_FDCWD, path, same, 0), 0);
	assert_int_equal(is_of(ix, &err), 0);
	assert_non_null(strstr(err.text, "begins with other bytes"));
	f = fopen(path, "ab");
	fputs("more\n", f);
	fclose(f);
	assert_int_equal(is_of(ix, &err), 0);
	assert_non_null(strstr(err.text, "size"));
	index_free(ix);
}

static void test_names_in_a_directory(void **state)
{
	(void)state;
	char a[256], b[256], sub[160];
	struct error err;
	write_rows(1, 0, 0);
	assert_int_equal(index_path(a, sizeof a, path, "idx", &err), 0);
	assert_int_equal(strncmp(a, "idx/file.", 9), 0);
	snprintf(sub, sizeof sub, "%s/sub", scratch);
	assert_int_equal(fs_make_dirs(sub, &err), 0);
	char old[128];
	snprintf(old, sizeof old, "%s", path);
	snprintf(path, sizeof path, "%.100s/sub/file", scratch);
	write_rows(1, 0, 0);
	assert_int_equal(index_path(b, sizeof b, path, "idx", &err), 0);
	assert_string_not_equal(a, b);
	snprintf(path, sizeof path, "%.64s/missing", scratch);
	assert_int_equal(index_path(b, sizeof b, path, "idx", &err), -1);
	assert_int_equal(err.code, ERROR_NOINPUT);
}

/* Of an earlier version: whole, but not to be used. */
static void test_other_version(void **state)
{
	(void)state;
	write_rows(1000, 1, 0);
	struct index *ix = build(ROW_CSV), *read;
	struct error err;
	char head[1024], *sum, digits[17];
	assert_int_equal(index_write(ix, index_name, &err), 0);
	index_free(ix);
	FILE *f = fopen(index_name, "r+b");
	assert_non_null(f);
	assert_non_null(fgets(head, sizeof head, f));
	*strstr(head, "version=") = '\0';
	size_t at = strlen(head) + strlen("version=");
	rewind(f);
	assert_non_null(fgets(head, sizeof head, f));
	head[at] = '1';
	sum = strstr(head, " sum=");
	assert_non_null(sum);
	snprintf(digits, sizeof digits, "%016llx",
		 (unsigned long long)XXH3_64bits(head, (size_t)(sum - head)));
	memcpy(sum + strlen(" sum="), digits, 16);
	rewind(f);
	fputs(head, f);
	fclose(f);
	assert_int_equal(index_read(&read, index_name, 0, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_string_equal(err.text, "damaged index: it has version 1, but 3 is needed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_any_row_of_any_file, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_thinned, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_line_numbers, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_small_and_empty_files, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_every_damaged_byte_is_noticed, set_up,
						scratch_remove),
		cmocka_unit_test_setup_teardown(test_stale, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_names_in_a_directory, set_up, scratch_remove),
		cmocka_unit_test_setup_teardown(test_other_version, set_up, scratch_remove),
	};
	return cmocka_run_group_tests_name("data_index", tests, NULL, NULL);
}

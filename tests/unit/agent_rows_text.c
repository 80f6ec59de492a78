/*
 * agent_rows_text: the rows of any shard, in any order of shards, are those that a walk through the
 * files row by row gives: of all formats, packings, and where other lines stand between the rows.
 */
#include "agent/rows_text.h"
#include "base/random.h"
#include "tests/unit/scratch.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#define ROWS_MAX 4000
#define FILES_MAX 4

/* What the files hold, written by hand beside them. */
struct want {
	char *row[ROWS_MAX]; /* with its newline */
	size_t rows;
	char *paths[FILES_MAX];
	size_t files;
};

static struct piece whole_of(uint64_t begin, uint64_t length)
{
	return (struct piece){.begin = begin, .length = length, .take = length};
}

/* ---- files ---- */

struct text {
	char *data;
	size_t len, room;
};

static void add(struct text *t, const char *data, size_t len)
{
	if (t->len + len > t->room) {
		t->room = 2 * (t->len + len);
		t->data = realloc(t->data, t->room);
		assert_non_null(t->data);
	}
	memcpy(t->data + t->len, data, len);
	t->len += len;
}

static void write_file(const char *path, const struct text *t, int gzip)
{
	if (gzip) {
		gzFile f = gzopen(path, "wb6");
		assert_non_null(f);
		if (t->len > 0)
			assert_int_equal(gzwrite(f, t->data, (unsigned)t->len), t->len);
		assert_int_equal(gzclose(f), Z_OK);
		return;
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	if (t->len > 0)
		assert_int_equal(fwrite(t->data, 1, t->len, f), t->len);
	assert_int_equal(fclose(f), 0);
}

struct kind {
	struct row_syntax syntax;
	const char *header;
	int odd;    /* rows over several lines, or lines between them: one in so many; 0: none */
	int gzip, last_newline;
	size_t rows;
};

static void add_row(struct want *w, struct text *t, const struct kind *k, size_t i, uint64_t *rng)
{
	char row[256], pad[100];
	int odd = k->odd && random_next(rng) % (uint64_t)k->odd == 0;
	size_t len = random_next(rng) % sizeof pad;
	memset(pad, 'x', sizeof pad);
	if (k->syntax.format == ROW_LIBSVM && odd)
		add(t, "# a comment\n\n", 13);
	if (k->syntax.format == ROW_LIBSVM)
		snprintf(row, sizeof row, "1 1:%zu 2:%zu\n", i, len);
	else if (odd)
		snprintf(row, sizeof row, "%zu,\"%.*s\n\n%zu\"\r\n", i, (int)len, pad, i);
	else
		snprintf(row, sizeof row, "%zu,%.*s\n", i, (int)len, pad);
	w->row[w->rows] = strdup(row);
	assert_non_null(w->row[w->rows++]);
	add(t, row, strlen(row));
}

static void add_file(struct want *w, const struct kind *k, uint64_t *rng)
{
	struct text t = {0};
	char path[128];
	snprintf(path, sizeof path, "%s/f%zu", scratch, w->files);
	w->paths[w->files++] = strdup(path);
	if (k->header)
		add(&t, k->header, strlen(k->header));
	for (size_t i = 0; i < k->rows; i++)
		add_row(w, &t, k, w->rows, rng);
	if (!k->last_newline && t.len > 0)
		t.len--;
	write_file(path, &t, k->gzip);
	free(t.data);
}

static void forget(struct want *w)
{
	for (size_t i = 0; i < w->rows; i++)
		free(w->row[i]);
	for (size_t i = 0; i < w->files; i++)
		free(w->paths[i]);
}

/* ---- the other end of the pipe ---- */

struct reader {
	int fd;
	struct text got;
	pthread_t thread;
};

static void *read_all(void *arg)
{
	struct reader *r = arg;
	char data[65536];
	for (ssize_t n; (n = read(r->fd, data, sizeof data)) > 0;)
		add(&r->got, data, (size_t)n);
	return NULL;
}

/* What the pieces give, in one text. */
static struct text given(struct rows_reader *r, const struct piece *p, size_t count, int header)
{
	int fd[2];
	struct error err = {0};
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(fcntl(fd[1], F_SETFL, O_NONBLOCK), 0);
	struct reader reader = {.fd = fd[0]};
	struct rows_sink to = {.fd = fd[1], .cancel = -1};
	assert_int_equal(pthread_create(&reader.thread, NULL, read_all, &reader), 0);
	if (header)
		assert_int_equal(rows_reader_header(r, &to, &err), ROWS_GIVEN);
	for (size_t i = 0; i < count; i++) {
		int result = rows_reader_give(r, &p[i], &to, &err);
		if (result != ROWS_GIVEN)
			print_error("%s: %s\n", err.place, err.text);
		assert_int_equal(result, ROWS_GIVEN);
	}
	close(fd[1]);
	pthread_join(reader.thread, NULL);
	close(fd[0]);
	return reader.got;
}

static void check_piece(struct rows_reader *r, const struct want *w, struct piece p)
{
	struct text want = {0};
	uint32_t order[ROWS_MAX];
	for (size_t i = 0; i < p.length; i++)
		order[i] = (uint32_t)i;
	if (p.shuffled)
		random_permute(order, p.length, p.seed);
	for (uint64_t i = p.skip; i < p.skip + p.take; i++)
		add(&want, w->row[p.begin + order[i]], strlen(w->row[p.begin + order[i]]));
	struct text got = given(r, &p, 1, 0);
	assert_int_equal(got.len, want.len);
	if (want.len > 0)
		assert_memory_equal(got.data, want.data, want.len);
	free(got.data);
	free(want.data);
}

static struct rows_text *open_text(const struct want *w, struct row_syntax syntax, int header)
{
	struct rows_text *t;
	struct error err = {0};
	struct rows_text_options o = {.paths = (const char *const *)w->paths,
				      .count = w->files,
				      .named = 1,
				      .syntax = syntax,
				      .header = header};
	if (rows_text_open(&t, &o, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return t;
}

static void check_all(const struct want *w, struct row_syntax syntax, uint64_t *rng)
{
	struct rows_text *t = open_text(w, syntax, 0);
	struct rows_reader *r;
	struct error err;
	assert_int_equal(rows_text_rows(t), w->rows);
	assert_int_equal(rows_reader_new(&r, t, &err), 0);
	/* In order, in shards of one size: goes on where it is. */
	for (size_t size = 100; size < w->rows; size += 611)
		for (size_t at = 0; at < w->rows; at += size)
			check_piece(r, w,
				    whole_of(at, size < w->rows - at ? size : w->rows - at));
	check_piece(r, w, whole_of(0, w->rows));
	for (int i = 0; i < 60; i++) {
		struct piece p = {.begin = random_next(rng) % w->rows, .seed = random_next(rng)};
		p.length = 1 + random_next(rng) % (w->rows - p.begin);
		p.skip = i % 3 == 0 ? random_next(rng) % p.length : 0;
		p.take = i % 3 == 0 ? 1 + random_next(rng) % (p.length - p.skip) : p.length;
		p.shuffled = i % 2;
		check_piece(r, w, p);
	}
	rows_reader_free(r);
	rows_text_free(t);
}

static void test_all_kinds(void **state)
{
	(void)state;
	const struct row_syntax csv = row_syntax(ROW_CSV), svm = row_syntax(ROW_LIBSVM),
				lines = row_syntax(ROW_LINES);
	const struct kind kinds[] = {
		{csv, "i,x\n", 0, 0, 1, 2000},	 {csv, "\xef\xbb\xbfi,x\r\n", 0, 1, 0, 2000},
		{csv, "i,x\n", 300, 0, 0, 2000}, {csv, "i,x\n", 3, 1, 1, 700},
		{svm, NULL, 0, 0, 1, 2000},	 {svm, NULL, 400, 1, 1, 2000},
		{lines, NULL, 0, 0, 0, 1300},	 {lines, NULL, 0, 1, 1, 1},
	};
	uint64_t rng = 13;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct want w = {0};
		struct kind small = kinds[i], empty = kinds[i];
		small.rows = 300;
		small.gzip = !small.gzip;
		empty.rows = 0;
		assert_int_equal(scratch_make(NULL), 0);
		add_file(&w, &kinds[i], &rng);
		add_file(&w, &empty, &rng);
		add_file(&w, &small, &rng);
		check_all(&w, kinds[i].syntax, &rng);
		forget(&w);
		assert_int_equal(scratch_remove(NULL), 0);
	}
}

/* libsvm whose end is a comment, without its newline: no row, and no part of one. */
static void test_end_that_is_no_row(void **state)
{
	(void)state;
	struct want w = {0};
	struct text t = {0};
	char line[128];
	for (int i = 0; i < 512; i++) {
		snprintf(line, sizeof line, "1 1:%d\n", i);
		w.row[w.rows++] = strdup(line);
		add(&t, line, strlen(line));
	}
	add(&t, "# the end", 9);
	snprintf(line, sizeof line, "%s/f", scratch);
	w.paths[w.files++] = strdup(line);
	write_file(line, &t, 0);
	uint64_t rng = 1;
	check_all(&w, row_syntax(ROW_LIBSVM), &rng);
	free(t.data);
	forget(&w);
}

static void test_header(void **state)
{
	(void)state;
	struct want w = {0};
	uint64_t rng = 1;
	const struct kind k = {row_syntax(ROW_CSV), "i,x\r\n", 0, 0, 1, 2};
	const struct kind other = {row_syntax(ROW_CSV), "x,i\n", 0, 0, 1, 2};
	add_file(&w, &k, &rng);
	add_file(&w, &k, &rng);
	struct rows_text *t = open_text(&w, k.syntax, 1);
	struct rows_reader *r;
	struct error err;
	struct piece p = whole_of(1, 1);
	assert_int_equal(rows_reader_new(&r, t, &err), 0);
	struct text got = given(r, &p, 1, 1);
	add(&got, "", 1);
	assert_memory_equal(got.data, "i,x\r\n1,", 7);
	free(got.data);
	rows_reader_free(r);
	rows_text_free(t);
	add_file(&w, &other, &rng);
	struct rows_text_options o = {.paths = (const char *const *)w.paths,
				      .count = w.files,
				      .named = 1,
				      .syntax = k.syntax};
	assert_int_equal(rows_text_open(&t, &o, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	assert_non_null(strstr(err.text, "its header line is not that of"));
	o.syntax = row_syntax(ROW_LINES);
	o.header = 1;
	assert_int_equal(rows_text_open(&t, &o, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	forget(&w);
}

/* A file that was changed since: named, whether it is as long as before, longer or shorter. */
static void test_changed_file(void **state)
{
	(void)state;
	const struct kind k = {row_syntax(ROW_LINES), NULL, 0, 0, 1, 3000};
	for (int how = 0; how < 3; how++) {
		struct want w = {0};
		uint64_t rng = 1;
		add_file(&w, &k, &rng);
		struct rows_text *t = open_text(&w, k.syntax, 0);
		struct rows_reader *r;
		struct error err;
		struct stat st;
		struct piece p = whole_of(0, 10);
		assert_int_equal(rows_reader_new(&r, t, &err), 0);
		free(given(r, &p, 1, 0).data);
		assert_int_equal(stat(w.paths[0], &st), 0);
		struct timespec times[2] = {st.st_atim, st.st_mtim};
		if (how == 0)
			times[1].tv_sec++;
		else
			assert_int_equal(truncate(w.paths[0], st.st_size + (how == 1 ? 1 : -1000)), 0);
		assert_int_equal(utimensat(AT_FDCWD, w.paths[0], times, 0), 0);
		int fd[2];
		assert_int_equal(pipe(fd), 0);
		struct rows_sink to = {.fd = fd[1], .cancel = -1};
		p.begin = 10;
		assert_int_equal(rows_reader_give(r, &p, &to, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
		assert_string_equal(err.place, w.paths[0]);
		close(fd[0]);
		close(fd[1]);
		rows_reader_free(r);
		rows_text_free(t);
		forget(&w);
	}
}

static void test_nobody_reads(void **state)
{
	(void)state;
	const struct kind k = {row_syntax(ROW_LINES), NULL, 0, 0, 1, 3000};
	struct want w = {0};
	uint64_t rng = 1;
	add_file(&w, &k, &rng);
	struct rows_text *t = open_text(&w, k.syntax, 0);
	struct rows_reader *r;
	struct error err;
	struct piece p = whole_of(0, 3000), outside = whole_of(2999, 2);
	int fd[2], cancel[2];
	assert_int_equal(rows_reader_new(&r, t, &err), 0);
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(pipe(cancel), 0);
	assert_int_equal(fcntl(fd[1], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(write(cancel[1], "", 1), 1);
	struct rows_sink to = {.fd = fd[1], .cancel = cancel[0]};
	assert_int_equal(rows_reader_give(r, &p, &to, &err), ROWS_CANCELLED); /* the pipe is full */
	close(fd[0]);
	assert_int_equal(rows_reader_give(r, &p, &to, &err), ROWS_CLOSED);
	assert_int_equal(rows_reader_give(r, &outside, &to, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	close(fd[1]);
	close(cancel[0]);
	close(cancel[1]);
	check_piece(r, &w, p); /* none of that has harmed it */
	rows_reader_free(r);
	rows_text_free(t);
	forget(&w);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_kinds),
#define WITH_SCRATCH(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)
		WITH_SCRATCH(test_end_that_is_no_row),
		WITH_SCRATCH(test_header),
		WITH_SCRATCH(test_changed_file),
		WITH_SCRATCH(test_nobody_reads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

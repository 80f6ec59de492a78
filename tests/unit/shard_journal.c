/*
 * shard_journal: every byte of a journal is changed in several ways, every length is cut, every
 * sector is lost, and what is read is either refused or nothing that counted is missing.  Then
 * files on disk: replay, going on after a torn tail, replacing a long one while changes come.
 */
#include "base/fs.h"
#include "shard/journal.h"
#include "record/sealed.h"
#include "shard/scan.h"

#include "scratch.h"

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define BATCHES 5
#define LINES_A_BATCH 13

/* ---- bytes ---- */

struct seen {
	size_t lines;
	char text[1 << 16];
	size_t len;
	int due; /* lines that a group still needs */
	int is_loose;
};

/* "group n=3" is completed by three lines more; behind "loose" anything may be missing. */
static int see(void *arg, const char *line, size_t len, struct error *err)
{
	struct seen *s = arg;
	(void)err;
	s->lines++;
	memcpy(s->text + s->len, line, len);
	s->text[s->len + len] = '\n';
	s->len += len + 1;
	if (len == 5 && memcmp(line, "loose", 5) == 0)
		s->is_loose = 1;
	if (s->is_loose)
		return SCAN_LOOSE;
	if (s->due > 0)
		return --s->due > 0;
	if (len == 9 && memcmp(line, "group n=3", 9) == 0)
		s->due = 3;
	return s->due > 0;
}

static void add(struct sealed_out *o, const char *line)
{
	sealed_add(o, line, strlen(line));
}

/* A journal of several batches, zeros behind; *last is where the last batch begins. */
static struct sealed_out make(size_t *last)
{
	struct sealed_out o = {.fd = -1};
	char line[64];
	add(&o, "queue version=1");
	add(&o, "end lines=1");
	for (int b = 0; b < BATCHES; b++) {
		*last = o.len;
		snprintf(line, sizeof line, SCAN_MARK " at=%d.000", 1700000000 + b);
		add(&o, line);
		for (int i = 0; i < LINES_A_BATCH; i++) {
			snprintf(line, sizeof line, "get worker=w%d id=%d", i % 3, b * 100 + i);
			add(&o, line);
		}
	}
	return o;
}

static int scan(const char *data, size_t size, struct scan *out, struct seen *seen,
		struct error *err)
{
	memset(seen, 0, sizeof *seen);
	return scan_lines(data, size, "journal.000001", see, seen, out, err);
}

static size_t count_lines(const char *data, size_t len)
{
	size_t n = 0;
	for (size_t i = 0; i < len; i++)
		n += data[i] == '\n';
	return n;
}

static struct seen seen;

static void test_every_byte(void **state)
{
	(void)state;
	size_t last;
	struct sealed_out o = make(&last);
	size_t size = o.len + 2048, all = count_lines(o.data, o.len);
	char *data = calloc(1, size);
	struct scan out;
	struct error err;
	memcpy(data, o.data, o.len);
	assert_int_equal(scan(data, size, &out, &seen, &err), 0);
	assert_int_equal(seen.lines, all);
	assert_int_equal(out.end, o.len);
	assert_int_equal(out.torn, 0);
	static const unsigned char change[] = {0x01, 0x02, 0x20, 0x40, 0x80, 0xff};
	for (size_t i = 0; i < o.len; i++) {
		for (size_t k = 0; k <= sizeof change; k++) {
			/* the last change makes a zero of it */
			data[i] = k == sizeof change ? '\0' : (char)(o.data[i] ^ change[k]);
			int result = scan(data, size, &out, &seen, &err);
			if (result == 0 && i > last && i % 512 == 511) {
				/* the first byte of a line and the last of a sector, a zero now,
				 * with no batch behind: so a crash may have left it */
				assert_int_equal(k, sizeof change);
				assert_int_equal(o.data[i - 1], '\n');
			} else if (result == 0) { /* a newline that is a zero now can be put back */
				assert_int_equal(i, o.len - 1);
				assert_int_equal(k, sizeof change);
				assert_int_equal(seen.lines, all);
				assert_true(out.lacks_newline);
			} else {
				char place[64];
				assert_int_equal(err.code, ERROR_DATA);
				snprintf(place, sizeof place, "journal.000001:%zu",
					 count_lines(o.data, i) + 1);
				assert_string_equal(err.place, place);
			}
			data[i] = o.data[i];
		}
	}
	/* Behind the end nothing was ever written. */
	data[o.len + 700] = 'x';
	assert_int_equal(scan(data, size, &out, &seen, &err), -1);
	free(data);
	sealed_free(&o);
}

static void test_every_length(void **state)
{
	(void)state;
	size_t last;
	struct sealed_out o = make(&last);
	struct scan out;
	struct error err;
	char *data = calloc(1, o.len + 1024);
	for (size_t len = 0; len <= o.len; len++) {
		for (int zeros = 0; zeros < 2;
		     zeros++) { /* a file that ends, and one that was filled */
			memset(data, 0, o.len + 1024);
			memcpy(data, o.data, len);
			assert_int_equal(scan(data, len + (zeros ? 1024 : 0), &out, &seen, &err),
					 0);
			size_t whole = count_lines(o.data, len);
			/* the last line may lack its newline only */
			assert_int_equal(seen.lines, whole + (size_t)out.lacks_newline);
			assert_memory_equal(o.data, data, out.end);
		}
	}
	free(data);
	sealed_free(&o);
}

/* Sectors that did not reach the disk: of the last batch that is a crash, of others damage. */
static void test_every_sector(void **state)
{
	(void)state;
	size_t last;
	struct sealed_out o = make(&last);
	size_t size = (o.len / 512 + 3) * 512;
	struct scan out;
	struct error err;
	char *data = malloc(size);
	int torn = 0, damaged = 0;
	for (size_t from = 0; from < o.len; from = (from / 512 + 1) * 512) {
		memset(data, 0, size);
		memcpy(data, o.data, o.len);
		size_t end = (from / 512 + 1) * 512;
		memset(data + from, 0, end - from);
		int result = scan(data, size, &out, &seen, &err);
		if (end > last) { /* the last mark is gone, too: nothing says that it was there */
			assert_int_equal(result, 0);
			torn++;
		} else {
			assert_int_equal(result, -1);
			damaged++;
		}
	}
	/* All of the last batch that lies in its first sector, as the sector's old bytes stayed. */
	memset(data, 0, size);
	memcpy(data, o.data, o.len);
	memset(data + last, 0, 512 - last % 512);
	assert_int_equal(scan(data, size, &out, &seen, &err), 0);
	assert_int_equal(out.end, last);
	assert_true(out.torn > 0 || o.len <= (last / 512 + 1) * 512);
	assert_true(torn > 0 && damaged > 2);
	free(data);
	sealed_free(&o);
}

static void test_group_is_whole_or_absent(void **state)
{
	(void)state;
	struct sealed_out o = {.fd = -1};
	struct scan out;
	struct error err;
	add(&o, SCAN_MARK " at=1.000");
	size_t before = o.len;
	add(&o, "group n=3");
	add(&o, "apply id=1");
	add(&o, "apply id=2");
	size_t third = o.len;
	add(&o, "apply id=3");
	for (size_t len = before; len <= o.len; len++) {
		assert_int_equal(scan(o.data, len, &out, &seen, &err), 0);
		int is_whole = len >= o.len - 1; /* but for the newline at most */
		assert_int_equal(out.end, is_whole ? o.len - (size_t)out.lacks_newline : before);
		if (len == third)
			assert_int_equal(out.torn, third - before);
	}
	sealed_free(&o);
}

/* Behind a line that says so, what is whole counts, whatever follows; before it, nothing is
 * forgiven. */
static void test_loose(void **state)
{
	(void)state;
	size_t last;
	struct sealed_out o = make(&last);
	add(&o, "loose");
	size_t loose = o.len;
	char line[64];
	for (int i = 0; i < 40; i++) {
		snprintf(line, sizeof line, "%s at=%d", i % 5 ? "apply" : SCAN_MARK, i);
		add(&o, line);
	}
	size_t size = (o.len / 512 + 2) * 512;
	char *data = calloc(1, size);
	struct scan out;
	struct error err;
	memcpy(data, o.data, o.len);
	for (size_t i = 0; i < o.len; i++) {
		for (int k = 0; k < 3; k++) { /* a byte, a rest, a sector */
			size_t end = k == 0 ? i + 1 : k == 1 ? size : (i / 512 + 1) * 512;
			if (k == 0)
				data[i] = (char)(o.data[i] ^ 1);
			else
				memset(data + i, 0, end - i);
			int result = scan(data, size, &out, &seen, &err);
			if (i >= loose) {
				assert_int_equal(result, 0);
				assert_true(out.is_loose);
				size_t whole = count_lines(o.data, i);
				assert_int_equal(seen.lines, whole + (size_t)out.lacks_newline);
				assert_memory_equal(o.data, data, out.end);
			} else if (k == 0 || (k == 2 && end < loose)) {
				assert_int_equal(result, -1);
			}
			memset(data, 0, size);
			memcpy(data, o.data, o.len);
		}
	}
	free(data);
	sealed_free(&o);
}

static void test_lines_moved(void **state)
{
	(void)state;
	struct sealed_out o = {.fd = -1};
	struct scan out;
	struct error err;
	add(&o, "get id=1");
	size_t one = o.len;
	add(&o, "get id=2");
	add(&o, "get id=3");
	char data[256];
	/* the second line left out, then the first one doubled */
	memcpy(data, o.data, one);
	memcpy(data + one, o.data + 2 * one, one);
	assert_int_equal(scan(data, 2 * one, &out, &seen, &err), -1);
	assert_string_equal(err.place, "journal.000001:2");
	memcpy(data + one, o.data, one);
	assert_int_equal(scan(data, 2 * one, &out, &seen, &err), -1);
	sealed_free(&o);
}

/* ---- files ---- */

/* The state is one number, the changes count it up. */
static void count_state(void *owner, void (*line)(void *arg, const char *line, size_t len),
			void *arg)
{
	char text[64];
	int n = snprintf(text, sizeof text, "state count=%d", *(int *)owner);
	line(arg, text, (size_t)n);
}

static int count_line(void *arg, const char *line, size_t len, struct error *err)
{
	int *count = arg;
	(void)err;
	if (len > 12 && memcmp(line, "state count=", 12) == 0)
		*count = atoi(line + 12);
	else if (len == 2 && memcmp(line, "up", 2) == 0)
		(*count)++;
	return 0;
}

/* As a start does: what is read is written anew. */
static struct journal *reopen(struct journal *j, int *count)
{
	struct error err;
	journal_close(j);
	assert_int_equal(journal_open(&j, scratch, JOURNAL_GROUP, 4096, &err), 0);
	*count = -1;
	if (journal_exists(j)) {
		if (journal_replay(j, count_line, count, &err) != 0 ||
		    journal_begin(j, count_state, count, &err) != 0)
			fail_msg("%s: %s", err.place, err.text);
	}
	return j;
}

static void up(struct journal *j, int *count, int times)
{
	struct error err;
	for (int i = 0; i < times; i++) {
		assert_int_equal(journal_reserve(j, 2 + SEALED_SUM_BYTES + 1, &err), 0);
		journal_add(j, "up", 2);
		(*count)++;
	}
	assert_true(journal_is_pending(j));
	assert_int_equal(journal_commit(j, &err), 0);
	assert_false(journal_is_pending(j));
}

static int files_in(const char *suffix)
{
	int n = 0;
	DIR *d = opendir(scratch);
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		size_t len = strlen(e->d_name), k = strlen(suffix);
		n += strncmp(e->d_name, "journal.", 8) == 0 && len >= k &&
		     strcmp(e->d_name + len - k, suffix) == 0;
	}
	closedir(d);
	return n;
}

static void test_replay(void **state)
{
	(void)state;
	struct error err;
	int count, expected = 7;
	struct journal *j = reopen(NULL, &count);
	struct journal *second;
	assert_false(journal_exists(j));
	assert_int_equal(journal_open(&second, scratch, JOURNAL_GROUP, 4096, &err), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	for (int round = 0; round < 4; round++) {
		up(j, &expected, 100);
		j = reopen(j, &count);
		assert_int_equal(count, expected);
	}
	/* What was not committed is not there. */
	assert_int_equal(journal_reserve(j, 64, &err), 0);
	journal_add(j, "up", 2);
	j = reopen(j, &count);
	assert_int_equal(count, expected);
	journal_close(j);
}

static void test_goes_on_after_a_torn_tail(void **state)
{
	(void)state;
	struct error err;
	int count, expected = 0;
	struct journal *j = reopen(NULL, &count);
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	up(j, &expected, 3);
	char *data;
	size_t len;
	char path[512];
	snprintf(path, sizeof path, "%s", journal_path(j));
	assert_int_equal(fs_read_file(path, 1 << 30, &data, &len, &err), 0);
	size_t end = strnlen(data, len);
	FILE *f = fopen(path, "r+");
	fseek(f, (long)end, SEEK_SET);
	fputs("up su", f);
	fclose(f);
	j = reopen(j, &count);
	assert_int_equal(count, expected);
	up(j, &expected, 3);
	j = reopen(j, &count);
	assert_int_equal(count, expected);
	/* The last newline is lost: the line counts, and the next one follows it. */
	free(data);
	snprintf(path, sizeof path, "%s", journal_path(j));
	assert_int_equal(fs_read_file(path, 1 << 30, &data, &len, &err), 0);
	end = strnlen(data, len);
	f = fopen(path, "r+");
	fseek(f, (long)end - 1, SEEK_SET);
	fputc('\0', f);
	fclose(f);
	j = reopen(j, &count);
	assert_int_equal(count, expected);
	up(j, &expected, 1);
	j = reopen(j, &count);
	assert_int_equal(count, expected);
	journal_close(j);
	free(data);
}

static void test_begin_replaces(void **state)
{
	(void)state;
	struct error err;
	int count, expected = 1;
	struct journal *j = reopen(NULL, &count);
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	up(j, &expected, 10);
	/* What was buffered is not part of what follows. */
	assert_int_equal(journal_reserve(j, 64, &err), 0);
	journal_add(j, "up", 2);
	expected = 1000;
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	assert_false(journal_is_pending(j));
	up(j, &expected, 10);
	assert_int_equal(files_in(""), 1);
	j = reopen(j, &count);
	assert_int_equal(count, 1010);
	journal_close(j);
}

static void test_compaction(void **state)
{
	(void)state;
	struct error err;
	int count, expected = 0;
	struct journal *j = reopen(NULL, &count);
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	for (int round = 0; round < 3; round++) {
		assert_false(journal_is_long(j));
		up(j, &expected, 300);
		assert_true(journal_is_long(j));
		int fd;
		assert_int_equal(journal_compact(j, count_state, &expected, &fd, &err), 0);
		assert_false(journal_is_long(j));
		up(j, &expected, 50); /* while the child writes, or after: they must not be lost */
		struct pollfd p = {.fd = fd, .events = POLLIN};
		assert_int_equal(poll(&p, 1, 20000), 1);
		assert_int_equal(journal_reserve(j, 64, &err), 0);
		journal_add(j, "up", 2); /* not yet committed when the file changes */
		expected++;
		assert_int_equal(journal_compact_end(j, &err), 0);
		up(j, &expected, 20);
		assert_int_equal(files_in(".new"), 0);
		if (round == 1) {
			j = reopen(j, &count);
			assert_int_equal(count, expected);
			assert_int_equal(files_in(""), 1);
		}
	}
	j = reopen(j, &count);
	assert_int_equal(count, expected);
	/* Killed in the middle: what the child has written is thrown away. */
	up(j, &expected, 300);
	int fd;
	assert_int_equal(journal_compact(j, count_state, &expected, &fd, &err), 0);
	up(j, &expected, 5);
	j = reopen(j, &count);
	assert_int_equal(count, expected);
	assert_int_equal(files_in(".new"), 0);
	journal_close(j);
}

/* Killed between the new name and the removal of the old one: the newer counts. */
static void test_newest_counts(void **state)
{
	(void)state;
	struct error err;
	int count, expected = 5;
	struct journal *j = reopen(NULL, &count);
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	char old[600], kept[600];
	snprintf(old, sizeof old, "%s", journal_path(j));
	snprintf(kept, sizeof kept, "%s/kept", scratch);
	assert_int_equal(link(old, kept), 0);
	expected = 6;
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	assert_int_equal(rename(kept, old), 0);
	char half[600];
	snprintf(half, sizeof half, "%s/journal.000009.new", scratch);
	fclose(fopen(half, "w"));
	j = reopen(j, &count);
	assert_int_equal(count, 6);
	assert_int_equal(files_in(""), 1);
	journal_close(j);
}

static void write_file(const char *name, const char *data, size_t len)
{
	struct error err;
	char path[600];
	snprintf(path, sizeof path, "%s/%s", scratch, name);
	assert_int_equal(fs_replace_file(path, data, len, &err), 0);
}

static int opened_and_replayed(struct journal **j, struct error *err)
{
	int count = -1;
	assert_int_equal(journal_open(j, scratch, JOURNAL_GROUP, 4096, err), 0);
	int result = journal_replay(*j, count_line, &count, err);
	if (result != 0)
		journal_name_older(*j, err);
	return result;
}

/* A newer one that can't be read takes nothing from the older one. */
static void test_older_stays_until_the_newer_was_read(void **state)
{
	(void)state;
	struct error err;
	int count, expected = 5;
	struct journal *j = reopen(NULL, &count);
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	up(j, &expected, 3);
	journal_close(j);
	static const char *const planted[] = {"", "garbage\n", "state count=9 sum=00000000\n"};
	for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
		write_file("journal.000099", planted[i], strlen(planted[i]));
		assert_int_equal(opened_and_replayed(&j, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
		assert_non_null(strstr(err.place, "journal.000099"));
		assert_non_null(strstr(err.text, "journal.000001, which is older, is whole"));
		journal_close(j);
		assert_int_equal(files_in(""), 2);
	}
	char path[600];
	snprintf(path, sizeof path, "%s/journal.000099", scratch);
	assert_int_equal(unlink(path), 0);
	/* Names that are none of ours count for nothing. */
	write_file("journal.7", "x", 1);
	write_file("journal.18446744073709551615", "x", 1);
	write_file("journal.0000009", "x", 1);
	j = reopen(NULL, &count);
	assert_int_equal(count, expected);
	assert_int_equal(files_in(""), 4);
	journal_close(j);
}

/* Whatever is cut off a journal: it is noticed when a line or a part of one was there. */
static void test_every_cut_is_noticed(void **state)
{
	(void)state;
	struct error err;
	int count, expected = 0;
	char path[512], *data;
	size_t len;
	struct journal *j = reopen(NULL, &count);
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	for (int i = 0; i < 20; i++)
		up(j, &expected, 2);
	snprintf(path, sizeof path, "%s", journal_path(j));
	journal_close(j);
	assert_int_equal(fs_read_file(path, 1 << 30, &data, &len, &err), 0);
	size_t used = strnlen(data, len);
	assert_true(used > 500 && used < len);
	for (size_t cut = 0; cut <= used; cut++) {
		write_file("journal.000001", data, cut);
		assert_int_equal(opened_and_replayed(&j, &err), -1);
		assert_int_equal(err.code, ERROR_DATA);
		journal_close(j);
	}
	write_file("journal.000001", data, used + 1); /* of the zeros nobody needs more than one */
	j = reopen(NULL, &count);
	assert_int_equal(count, expected);
	journal_close(j);
	free(data);
}

static int count_loosely(void *arg, const char *line, size_t len, struct error *err)
{
	static int is_loose;
	is_loose = (is_loose && strncmp(line, "state ", 6) != 0) ||
		   (len == 5 && memcmp(line, "loose", 5) == 0);
	return count_line(arg, line, len, err) | (is_loose ? SCAN_LOOSE : SCAN_TAKEN);
}

/* A file whose lines were not waited for, found after another boot with any end. */
static void test_loose_lines_may_be_missing(void **state)
{
	(void)state;
	struct error err;
	int count, expected = 0;
	char path[512], *data;
	size_t len;
	struct journal *j = reopen(NULL, &count);
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	up(j, &expected, 5);
	assert_int_equal(journal_reserve(j, 64, &err), 0);
	journal_add(j, "loose", 5);
	assert_int_equal(journal_commit(j, &err), 0);
	snprintf(path, sizeof path, "%s", journal_path(j));
	assert_int_equal(fs_read_file(path, 1 << 30, &data, &len, &err), 0);
	size_t firm = strnlen(data, len);
	free(data);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(journal_reserve(j, 64, &err), 0);
		journal_add(j, "up", 2);
		assert_int_equal(journal_write(j, &err), 0);
		assert_false(journal_is_pending(j));
	}
	journal_close(j);
	assert_int_equal(fs_read_file(path, 1 << 30, &data, &len, &err), 0);
	size_t used = strnlen(data, len), line = 2 + SEALED_SUM_BYTES + 1;
	for (size_t cut = 0; cut <= used; cut++) {
		write_file("journal.000001", data, cut);
		assert_int_equal(journal_open(&j, scratch, JOURNAL_GROUP, 4096, &err), 0);
		count = -1;
		if (cut < firm - 1) {
			assert_int_equal(journal_replay(j, count_loosely, &count, &err), -1);
			assert_int_equal(err.code, ERROR_DATA);
		} else {
			assert_int_equal(journal_replay(j, count_loosely, &count, &err), 0);
			size_t whole = cut < firm ? 0 : (cut - firm + 1) / line;
			assert_int_equal(count, 5 + (int)whole);
		}
		journal_close(j);
	}
	/* Who is of the same boot forgives nothing. */
	write_file("journal.000001", data, used);
	assert_int_equal(opened_and_replayed(&j, &err), -1);
	journal_close(j);
	free(data);
}

/* The zeros behind the lines never end, however many lines come at once. */
static void test_zeros_are_always_behind(void **state)
{
	(void)state;
	struct error err;
	int count, expected = 0;
	struct stat st;
	struct journal *j = reopen(NULL, &count);
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	assert_int_equal(stat(journal_path(j), &st), 0);
	char *data, line[2 * JOURNAL_LINE_BYTES];
	size_t len, at = 0, filled = (size_t)st.st_size;
	memset(line, 'x', sizeof line);
	assert_int_equal(fs_read_file(journal_path(j), 1 << 30, &data, &len, &err), 0);
	at = strnlen(data, len);
	free(data);
	/* Up to the last byte that was filled: a line that would take it has more filled first. */
	for (int i = 0; at < filled + 1000; i++) {
		size_t n = filled - at > sizeof line ? JOURNAL_LINE_BYTES - SEALED_SUM_BYTES - 1
			   : filled > at + SEALED_SUM_BYTES + 1 ? filled - at - SEALED_SUM_BYTES - 1
							       : 100;
		size_t whole = n + SEALED_SUM_BYTES + 1;
		assert_int_equal(journal_reserve(j, whole, &err), 0);
		journal_add(j, line, n);
		at += whole;
		if (i % 1000 == 0 || at + 1000 > filled) {
			assert_int_equal(journal_commit(j, &err), 0);
			assert_int_equal(stat(journal_path(j), &st), 0);
			assert_true((size_t)st.st_size > at);
		}
	}
	journal_close(j);
}

/* A start writes down anew what it has read: nobody knows whether it is on the disk. */
static void test_start_begins_anew(void **state)
{
	(void)state;
	struct error err;
	int count, expected = 3;
	char before[512];
	struct journal *j = reopen(NULL, &count);
	assert_int_equal(journal_begin(j, count_state, &expected, &err), 0);
	for (int round = 0; round < 3; round++) {
		up(j, &expected, 7);
		snprintf(before, sizeof before, "%s", journal_path(j));
		j = reopen(j, &count);
		assert_int_equal(count, expected);
		assert_string_not_equal(journal_path(j), before);
		assert_int_equal(access(before, F_OK), -1);
		assert_int_equal(files_in(""), 1);
	}
	journal_close(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_every_length),
		cmocka_unit_test(test_every_sector),
		cmocka_unit_test(test_group_is_whole_or_absent),
		cmocka_unit_test(test_loose),
		cmocka_unit_test(test_lines_moved),
		cmocka_unit_test_setup_teardown(test_replay, scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_goes_on_after_a_torn_tail, scratch_make,
						scratch_remove),
		cmocka_unit_test_setup_teardown(test_begin_replaces, scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_compaction, scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_newest_counts, scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_older_stays_until_the_newer_was_read, scratch_make,
						scratch_remove),
		cmocka_unit_test_setup_teardown(test_every_cut_is_noticed, scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_loose_lines_may_be_missing, scratch_make,
						scratch_remove),
		cmocka_unit_test_setup_teardown(test_zeros_are_always_behind, scratch_make, scratch_remove),
		cmocka_unit_test_setup_teardown(test_start_begins_anew, scratch_make, scratch_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

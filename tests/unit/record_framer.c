/* record/framer: the same lines and payloads come out, however the bytes came in. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "record/framer.h"

#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 64
#define ROOM 96

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

/* "LENGTH\n", and as many bytes of payload behind it, over and over. */
static size_t make_stream(char *out, size_t max, size_t *lines)
{
	size_t at = 0;
	*lines = 0;
	while (at + 400 < max) {
		size_t bytes = next_random(3) == 0 ? next_random(300) : 0;
		int n = 0;
		for (size_t left = bytes; n == 0 || left > 0; left /= 10)
			out[at + (size_t)n++] = (char)('0' + left % 10); /* the last digit first */
		at += (size_t)n;
		out[at++] = '\n';
		for (size_t i = 0; i < bytes; i++)
			out[at++] = (char)next_random(256);
		++*lines;
	}
	return at;
}

/* Brings the next bytes of the stream, as many as the read takes or fewer. */
static void bring(struct framer *f, const char *stream, size_t len, size_t *at, char *to,
		  size_t bytes)
{
	struct iovec piece[2];
	size_t count = framer_pieces(f, to, bytes, piece), come = 0;
	size_t most = 1 + next_random(next_random(2) ? 5 : 200);
	assert_true(count > 0);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < piece[i].iov_len && come < most && *at < len; k++, come++)
			((char *)piece[i].iov_base)[k] = stream[(*at)++];
	framer_came(f, come);
}

static void test_any_pieces(void **state)
{
	(void)state;
	static char stream[20000], lent[ROOM], payload[400];
	for (int round = 0; round < 300; round++) {
		struct framer f = {0};
		size_t lines, len = make_stream(stream, sizeof stream, &lines), at = 0, checked = 0;
		size_t got = 0;
		framer_lend(&f, lent, sizeof lent);
		while (lines > 0) {
			const char *line;
			size_t n;
			if (f.due > 0) {
				size_t due = (size_t)f.due;
				size_t some = framer_take(&f, payload + got, 1 + next_random(400));
				if (some == 0) {
					bring(&f, stream, len, &at, payload + got, next_random(300));
					some = due - (size_t)f.due;
				}
				got += some;
				if (f.due == 0) {
					assert_memory_equal(payload, stream + checked, got);
					checked += got;
				}
				continue;
			}
			enum framer_found found = framer_line(&f, LINE_MAX_BYTES, &line, &n);
			assert_int_not_equal(found, FRAMER_LONG);
			if (found == FRAMER_MORE) {
				assert_false(framer_has_line(&f));
				if (next_random(4) == 0) {
					/* Others have the buffer meanwhile. */
					assert_int_equal(framer_return(&f), 0);
					memset(lent, '\n', sizeof lent);
					framer_lend(&f, lent, sizeof lent);
				}
				bring(&f, stream, len, &at, NULL, 0);
				continue;
			}
			assert_memory_equal(line, stream + checked, n);
			assert_int_equal(stream[checked + n], '\n');
			checked += n + 1;
			size_t bytes = 0;
			while (n > 0)
				bytes = bytes * 10 + (size_t)(line[--n] - '0');
			framer_expect(&f, bytes);
			got = 0;
			lines--;
		}
		framer_clear(&f);
	}
}

static void test_long_lines(void **state)
{
	(void)state;
	char data[200];
	struct framer f = {0};
	struct iovec piece[2];
	const char *line;
	size_t len;
	framer_lend(&f, data, sizeof data);
	assert_int_equal(framer_line(&f, 8, &line, &len), FRAMER_MORE);
	assert_int_equal(framer_pieces(&f, NULL, 0, piece), 1);
	assert_ptr_equal(piece[0].iov_base, data);
	memcpy(data, "1234567\n12345678\n", 17);
	framer_came(&f, 7);
	assert_int_equal(framer_line(&f, 8, &line, &len), FRAMER_MORE);
	(void)framer_pieces(&f, NULL, 0, piece);
	framer_came(&f, 10);
	assert_int_equal(framer_line(&f, 8, &line, &len), FRAMER_LINE);
	assert_int_equal(len, 7);
	assert_int_equal(framer_line(&f, 8, &line, &len), FRAMER_LONG);
	assert_int_equal(framer_left(&f), 9);
	assert_int_equal(framer_line(&f, 9, &line, &len), FRAMER_LINE);
	assert_int_equal(framer_left(&f), 0);
	framer_clear(&f);
}

/* A payload goes where it is wanted, what follows it into the buffer, and never the other way. */
static void test_direct(void **state)
{
	(void)state;
	char data[64], to[64] = "";
	struct framer f = {0};
	struct iovec piece[2];
	framer_lend(&f, data, sizeof data);
	framer_expect(&f, 10);
	assert_int_equal(framer_pieces(&f, to, 64, piece), 2);
	assert_ptr_equal(piece[0].iov_base, to);
	assert_int_equal(piece[0].iov_len, 10);
	framer_came(&f, 4);
	assert_int_equal(f.due, 6);
	assert_int_equal(framer_pieces(&f, to + 4, 2, piece), 2);
	assert_int_equal(piece[0].iov_len, 2);
	memcpy(data, "abcdef", 6);
	framer_came(&f, 2 + 6);
	assert_int_equal(f.due, 4);
	/* What lies in the buffer comes first. */
	assert_int_equal(framer_pieces(&f, to + 6, 58, piece), 1);
	framer_came(&f, 0);
	assert_int_equal(framer_take(&f, to + 6, 3), 3);
	assert_int_equal(framer_take(&f, to + 9, 100), 1);
	assert_memory_equal(to + 6, "abcd", 4);
	assert_int_equal(f.due, 0);
	assert_int_equal(framer_left(&f), 2);
	/* Thrown away. */
	framer_expect(&f, 1);
	assert_int_equal(framer_take(&f, NULL, 100), 1);
	assert_int_equal(framer_left(&f), 1);
	framer_clear(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_pieces),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_direct),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

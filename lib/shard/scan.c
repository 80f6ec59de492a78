/* scan: see scan.h. Works on bytes in memory, so that every kind of damage can be tried on it. */
#include "shard/scan.h"

#include "record/sealed.h"

#include <stdio.h>
#include <string.h>

#define SECTOR 512

static size_t scan_find(const char *data, size_t from, size_t size, char c)
{
	const char *p = from < size ? memchr(data + from, c, size - from) : NULL;
	return p ? (size_t)(p - data) : size;
}

/* Megabytes of zeros end a journal: most of them are passed over at once. */
static const char scan_zeros[4096];

static size_t zeros_end(const char *data, size_t from, size_t size)
{
	while (size - from >= sizeof scan_zeros && memcmp(data + from, scan_zeros, sizeof scan_zeros) == 0)
		from += sizeof scan_zeros;
	while (from < size && data[from] == '\0')
		from++;
	return from;
}

static int is_mark(const char *line, size_t len)
{
	size_t n = strlen(SCAN_MARK);
	return len > n && memcmp(line, SCAN_MARK, n) == 0 && line[n] == ' ';
}

/* Whether a batch begins behind `from`: then everything before it had reached the disk. A line is
 * believed if its sum continues the sum that the line before it states, no matter whether that line
 * is whole. */
static int is_batch_behind(const char *data, size_t from, size_t size)
{
	uint32_t chain = 0, sum;
	int has_chain = 0;
	while (from < size) {
		size_t end = scan_find(data, from, size, '\n'), content;
		if (end == size)
			return 0;
		const char *text = data + from;
		size_t len = end - from;
		if (has_chain && is_mark(text, len) &&
		    sealed_valid(text, len, chain, &content, &sum))
			return 1;
		has_chain = sealed_said(text, len, &chain) == 0;
		from = end + 1;
	}
	return 0;
}

enum tail { TAIL_CLEAN, TAIL_LACKS_NEWLINE, TAIL_TORN, TAIL_DAMAGED };

/* Judges what begins at `at` and is not a valid line. */
static enum tail judge_tail(const char *data, size_t at, size_t size, uint32_t chain)
{
	size_t newline = scan_find(data, at, size, '\n'), zero = scan_find(data, at, size, '\0');
	if (newline < zero)
		return TAIL_DAMAGED; /* a whole line, but not the one that was written */
	size_t behind = zeros_end(data, zero, size), content;
	uint32_t sum;
	/* Nothing follows but zeros: it is empty, or the beginning of a line. */
	if (behind == size) {
		if (zero == at)
			return TAIL_CLEAN;
		if (sealed_valid(data + at, zero - at, chain, &content, &sum))
			return TAIL_LACKS_NEWLINE;
		/* The newline has become another byte. */
		if (sealed_valid(data + at, zero - at - 1, chain, &content, &sum))
			return TAIL_DAMAGED;
		return is_batch_behind(data, at, zero) ? TAIL_DAMAGED : TAIL_TORN;
	}
	int is_hole = (zero == at || zero % SECTOR == 0) && behind % SECTOR == 0;
	return is_hole && !is_batch_behind(data, at, size) ? TAIL_TORN : TAIL_DAMAGED;
}

static size_t last_used(const char *data, size_t from, size_t size)
{
	while (size - from >= sizeof scan_zeros &&
	       memcmp(data + size - sizeof scan_zeros, scan_zeros, sizeof scan_zeros) == 0)
		size -= sizeof scan_zeros;
	while (size > from && data[size - 1] == '\0')
		size--;
	return size;
}

static int scan_refuse(struct error *err, const char *place, uint64_t line)
{
	char at[ERROR_PLACE_MAX];
	snprintf(at, sizeof at, "%.480s:%llu", place, (unsigned long long)line);
	return error_set(err, ERROR_DATA, at, "damaged: the line is not the one that was written");
}

int scan_lines(const char *data, size_t size, const char *place,
	       int (*line)(void *arg, const char *line, size_t len, struct error *err), void *arg,
	       struct scan *out, struct error *err)
{
	/* whole: up to the last complete group. now: up to here. */
	struct scan whole = {0}, now = {0};
	for (;;) {
		size_t end = scan_find(data, now.end, size, '\n'), len = end - now.end, content;
		const char *text = data + now.end;
		uint32_t sum;
		int lacks_newline = 0;
		if (end == size || !sealed_valid(text, len, now.chain, &content, &sum)) {
			enum tail tail = judge_tail(data, now.end, size, now.chain);
			if (tail == TAIL_DAMAGED && !now.is_loose)
				return scan_refuse(err, place, now.lines + 1);
			if (tail != TAIL_LACKS_NEWLINE)
				break;
			lacks_newline = 1;
			len = scan_find(data, now.end, size, '\0') - now.end;
			sealed_valid(text, len, now.chain, &content, &sum);
		}
		now.lines++;
		int taken = line(arg, text, content, err);
		if (taken < 0) {
			char at[ERROR_PLACE_MAX];
			snprintf(at, sizeof at, "%.480s:%llu", place,
				 (unsigned long long)now.lines);
			return error_wrap(err, at);
		}
		now.end += len + !lacks_newline;
		now.chain = sum;
		now.lacks_newline = lacks_newline;
		now.is_loose = (taken & SCAN_LOOSE) != 0;
		if (!(taken & SCAN_PARTIAL))
			whole = now;
		if (lacks_newline)
			break;
	}
	*out = whole;
	out->torn = last_used(data, whole.end, size) - whole.end;
	return 0;
}

/* format: see format.h. */
#include "data/format.h"

#include <string.h>

static const char *const names[] = {"lines", "criteo", "csv", "libsvm"};

const char *row_format_name(enum row_format format)
{
	return names[format];
}

int row_format_find(const char *name)
{
	for (int i = 0; i < 4; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

static int is_blank(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

int row_is_blank(const char *data, size_t len)
{
	/* Nearly every line ends this at its first byte. */
	size_t i = 0;
	while (i < len && is_blank((unsigned char)data[i]))
		i++;
	return i == len;
}

/* "LABEL 3:1 10:0.5": the second word is numbers with a colon. */
static int looks_libsvm(const char *line, size_t len)
{
	size_t i = 0;
	while (i < len && !is_blank((unsigned char)line[i]))
		i++;
	while (i < len && is_blank((unsigned char)line[i]))
		i++;
	if (i + 4 < len && memcmp(line + i, "qid:", 4) == 0)
		return 1;
	size_t digits = i;
	while (i < len && line[i] >= '0' && line[i] <= '9')
		i++;
	return i > digits && i < len && line[i] == ':';
}

enum row_format row_format_guess(const char *head, size_t len)
{
	if (len >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0) {
		head += 3;
		len -= 3;
	}
	/* The first line that is neither empty nor a libsvm comment. */
	while (len > 0) {
		const char *newline = memchr(head, '\n', len);
		size_t line = newline ? (size_t)(newline - head) : len;
		if (head[0] != '#' && !row_is_blank(head, line)) {
			size_t tabs = 0;
			for (size_t i = 0; i < line; i++)
				tabs += head[i] == '\t';
			if (tabs >= 35 && tabs <= 39)
				return ROW_CRITEO;
			if (looks_libsvm(head, line))
				return ROW_LIBSVM;
			return memchr(head, ',', line) ? ROW_CSV : ROW_LINES;
		}
		size_t step = newline ? line + 1 : line;
		head += step;
		len -= step;
	}
	return ROW_LINES;
}

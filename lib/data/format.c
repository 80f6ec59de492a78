/* format: see format.h. */
#include "data/format.h"

#include <string.h>

static const char *const names[] = {"lines", "bag", "cifar10", "cifar100",
				    "criteo", "csv", "idx", "libsvm"};

#define CIFAR_PIXELS (32 * 32 * 3)

struct row_syntax row_syntax(enum row_format format)
{
	int is_cifar = format == ROW_CIFAR10 || format == ROW_CIFAR100;
	return (struct row_syntax){.format = format,
				   .separator = format == ROW_CSV ? ',' : '\0',
				   .pixels = is_cifar ? CIFAR_PIXELS : 0};
}

int row_syntax_same(struct row_syntax a, struct row_syntax b)
{
	return a.format == b.format && a.separator == b.separator &&
	       (a.pixels == b.pixels || a.pixels == 0 || b.pixels == 0);
}

int row_is_image(struct row_syntax s)
{
	return s.format == ROW_IDX || s.format == ROW_CIFAR10 || s.format == ROW_CIFAR100;
}

size_t row_label_bytes(struct row_syntax s)
{
	return s.format == ROW_CIFAR10 ? 1 : s.format == ROW_CIFAR100 ? 2 : 0;
}

/* Two zeros, 8 for bytes, the number of sizes, and each size, most significant byte first. */
int row_idx_header(const unsigned char *head, size_t len, struct row_idx *out)
{
	if (len < 8 || head[0] || head[1] || head[2] != 8 || head[3] < 1 || head[3] > 4 ||
	    len < 4 + 4 * (size_t)head[3])
		return -1;
	*out = (struct row_idx){.bytes = 4 + 4 * (size_t)head[3], .pixels = 1, .sizes = head[3]};
	for (unsigned i = 0; i < out->sizes; i++) {
		const unsigned char *p = head + 4 + 4 * (size_t)i;
		uint32_t size = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
				(uint32_t)p[2] << 8 | p[3];
		out->size[i] = size;
		if (i == 0)
			out->rows = size;
		else if (__builtin_mul_overflow(out->pixels, size, &out->pixels))
			return -1;
	}
	return 0;
}

const char *row_syntax_name(struct row_syntax s)
{
	return s.format == ROW_CSV && s.separator == '\t' ? "tsv" : names[s.format];
}

int row_syntax_is_odd(struct row_syntax s)
{
	return s.format == ROW_CSV && s.separator != ',' && s.separator != '\t';
}

/* -1: it can't be a separator. Letters, digits and the signs of numbers would be a mistake. */
static int format_find_separator(const char *text)
{
	if (strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0)
		return '\t';
	if (strlen(text) != 1 || (unsigned char)text[0] > 126)
		return -1;
	char c = text[0];
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("0123456789+-._\"\r\n", c))
		return -1;
	return c;
}

void row_separator_text(char separator, char *out)
{
	if (separator == '\t') {
		strcpy(out, "tab");
		return;
	}
	out[0] = separator;
	out[1] = '\0';
}

static int find_format(const char *name, struct row_syntax *out)
{
	*out = (struct row_syntax){.format = ROW_CSV, .separator = '\t'};
	if (strcmp(name, "tsv") == 0)
		return 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i], name) == 0) {
			*out = row_syntax((enum row_format)i);
			return 0;
		}
	return -1;
}

int row_syntax_find(const char *format, const char *separator, struct row_syntax *out,
		    struct error *err)
{
	int given = format && *format;
	*out = row_syntax(ROW_CSV);
	if (given && find_format(format, out) != 0)
		return error_set(err, ERROR_CONFIG, "FORMAT",
				 "'%.80s' is none of " ROW_FORMAT_CHOICES, format);
	if (!given && (!separator || !*separator))
		return error_set(err, ERROR_CONFIG, "FORMAT",
				 "is not given: give one of " ROW_FORMAT_CHOICES);
	if (!separator || !*separator)
		return 0;
	int c = format_find_separator(separator);
	if (c < 0)
		return error_set(err, ERROR_CONFIG, "FORMAT separator",
				 "'%.80s' is neither one character (no letter, digit, quote or "
				 "sign of a number) nor the word tab",
				 separator);
	if (out->format != ROW_CSV)
		return error_set(err, ERROR_CONFIG, "FORMAT separator",
				 "is for csv and tsv; FORMAT is %s", row_syntax_name(*out));
	if (out->separator == '\t' && c != '\t')
		return error_set(err, ERROR_CONFIG, "FORMAT separator",
				 "FORMAT=tsv has tabs; with '%c' between fields it is FORMAT=csv", c);
	out->separator = (char)c;
	return 0;
}

static int format_is_blank(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

int row_is_blank(const char *data, size_t len, char separator)
{
	/* Nearly every line ends this at its first byte. */
	size_t i = 0;
	while (i < len && format_is_blank((unsigned char)data[i]) && data[i] != separator)
		i++;
	return i == len;
}

/* "LABEL 3:1 10:0.5": the second word is numbers with a colon. */
static int looks_libsvm(const char *line, size_t len)
{
	size_t i = 0;
	while (i < len && !format_is_blank((unsigned char)line[i]))
		i++;
	while (i < len && format_is_blank((unsigned char)line[i]))
		i++;
	if (i + 4 < len && memcmp(line + i, "qid:", 4) == 0)
		return 1;
	size_t digits = i;
	while (i < len && line[i] >= '0' && line[i] <= '9')
		i++;
	return i > digits && i < len && line[i] == ':';
}

static size_t format_count_of(const char *line, size_t len, char c)
{
	size_t n = 0;
	for (size_t i = 0; i < len; i++)
		n += line[i] == c;
	return n;
}

/* Criteo: 40 fields, of which up to three at the end may have lost their tabs; the first is the
 * label. A table with a header and as many columns has a name there. */
static int looks_criteo(const char *line, size_t len)
{
	size_t tabs = format_count_of(line, len, '\t');
	int label = len > 1 && (line[0] == '\t' || (strchr("01", line[0]) && line[1] == '\t'));
	return tabs >= 35 && tabs <= 39 && label;
}

char row_separator_guess(const char *line, size_t len, char separator)
{
	static const char known[] = ",\t;|";
	char best = separator;
	size_t most = separator ? format_count_of(line, len, separator) : 0;
	for (size_t i = 0; known[i]; i++) {
		size_t n = format_count_of(line, len, known[i]);
		if (n > most) {
			most = n;
			best = known[i];
		}
	}
	return best;
}

static struct row_syntax guess_line(const char *line, size_t len)
{
	if (looks_criteo(line, len))
		return row_syntax(ROW_CRITEO);
	if (looks_libsvm(line, len))
		return row_syntax(ROW_LIBSVM);
	char separator = row_separator_guess(line, len, '\0');
	if (!separator)
		return row_syntax(ROW_LINES);
	return (struct row_syntax){.format = ROW_CSV, .separator = separator};
}

struct row_syntax row_syntax_guess(const char *head, size_t len)
{
	struct row_idx idx;
	if (row_idx_header((const unsigned char *)head, len, &idx) == 0 && idx.sizes > 1)
		return row_syntax(ROW_IDX);
	if (len >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0) {
		head += 3;
		len -= 3;
	}
	/* The first line that is neither empty nor a libsvm comment. */
	while (len > 0) {
		const char *newline = memchr(head, '\n', len);
		size_t line = newline ? (size_t)(newline - head) : len;
		if (head[0] != '#' && !row_is_blank(head, line, '\0'))
			return guess_line(head, line);
		size_t step = newline ? line + 1 : line;
		head += step;
		len -= step;
	}
	return row_syntax(ROW_LINES);
}

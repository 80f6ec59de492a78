/*
 * plrec: from-tsv: columns to records.
 */
#include "cmd/plrec.h"

/* Cuts at tabs. */
static size_t tsv_split(char *line, char **column, size_t max)
{
	size_t n = 0;
	for (char *p = line; p && n < max; n++) {
		column[n] = p;
		p = strchr(p, '\t');
		if (p)
			*p++ = '\0';
		if (p && n + 1 == max)
			return max + 1;
	}
	return n;
}

/* Undoes the backslashes of put_tsv(), in place. */
static void unescape(char *s)
{
	char *to = s;
	for (; *s; s++) {
		if (*s == '\\' && s[1] && strchr("tnr\\", s[1])) {
			s++;
			*to++ = *s == 't' ? '\t' : *s == 'n' ? '\n' : *s == 'r' ? '\r' : '\\';
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

/* The first key that appears twice, or NULL: a record could not hold both columns. */
const char *rec_doubled(char **key, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(key[i], key[j]) == 0)
				return key[i];
	return NULL;
}

static int tsv_take_header(char *line, size_t len, char **key, size_t *count, const char *place,
			   struct error *err)
{
	char *copy = malloc(len + 1);
	if (!copy)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(copy, line, len + 1);
	*count = tsv_split(copy, key, KEYS_MAX);
	if (*count > KEYS_MAX)
		return error_set(err, ERROR_DATA, place, "more than %d columns", KEYS_MAX);
	for (size_t i = 0; i < *count; i++)
		if (!rec_is_name(key[i]))
			return error_set(err, ERROR_DATA, place,
					 "'%.80s' is no key (a-z, 0-9, -): name the columns instead",
					 key[i]);
	const char *twice = rec_doubled(key, *count);
	return twice ? error_set(err, ERROR_DATA, place, "column '%.80s' appears twice", twice) : 0;
}

static int each_row(const char *type, char *line, char **key, size_t count, const char *place,
		    struct error *err)
{
	char *column[KEYS_MAX], text[RECORD_LINE_MAX + 1];
	size_t columns = tsv_split(line, column, count);
	if (columns != count)
		return error_set(err, ERROR_DATA, place, "%s than %zu columns",
				 columns < count ? "fewer" : "more", count);
	struct record_out o;
	record_begin(&o, text, sizeof text, type);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(column[i], "-") == 0)
			continue;
		unescape(column[i]);
		record_add(&o, key[i], column[i]);
	}
	return rec_put(&o, NULL, place, err);
}

int rec_from_tsv(char **arg, int arg_count, struct error *err)
{
	struct rec_lines in = {0};
	char *line, *header[KEYS_MAX], **key = arg + 1;
	size_t len, count = (size_t)arg_count - 1;
	int whole, got, result = 0, has_header = count == 0;
	if (has_header)
		key = header;
	while (result == 0 && (got = rec_next_line(&in, &line, &len, &whole, err)) != 0) {
		if (got < 0)
			result = -1;
		else if (!whole)
			result = error_set(err, ERROR_DATA, in.place,
					   "the input ends without a newline");
		else if (strlen(line) != len)
			result = error_set(err, ERROR_DATA, in.place, "NUL byte in the line");
		else if (count == 0)
			result = tsv_take_header(line, len, key, &count, in.place, err);
		else
			result = each_row(arg[0], line, key, count, in.place, err);
	}
	if (has_header && count > 0)
		free(header[0]);
	free(in.data);
	return result;
}

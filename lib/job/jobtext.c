/*
 * jobtext: see jobtext.h.  Must never accept what sh and systemd would read differently, and never
 * knows what a key means.
 */
#include "job/jobtext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Characters that end or change a bare word in sh; a blank would start a second word (and a
 * command). */
static const char bare_special[] = " \t|&;<>()$`\\\"'";

#define IS_DATA "; if these are data, `trainctl init` makes their job file"

/* what: the key, or the line's words; NULL: neither. */
static int jobtext_bad(struct error *err, const char *name, size_t line, const char *what,
		       const char *why)
{
	char place[ERROR_PLACE_MAX];
	snprintf(place, sizeof place, "%.400s:%zu", name, line);
	return error_set(err, ERROR_CONFIG, place, "%.80s%s%s", what ? what : "", what ? ": " : "",
			 why);
}

static int key_char(int c, int first)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
	       (!first && c >= '0' && c <= '9');
}

/* 'text': everything up to the next single quote. Returns the position behind it, or NULL. */
static const char *take_single(const char *p, const char *end, char *out, size_t *n)
{
	const char *close = memchr(p, '\'', (size_t)(end - p));
	if (!close)
		return NULL;
	*n = (size_t)(close - p);
	memcpy(out, p, *n);
	return close + 1;
}

/* "text": a backslash means itself unless one of " \ ` $ follows, in both languages. */
static const char *take_double(const char *p, const char *end, char *out, size_t *n,
			       const char **why)
{
	size_t len = 0;
	*why = "the double quote is not closed on its line";
	for (; p < end; p++) {
		if (*p == '"') {
			*n = len;
			return p + 1;
		}
		if (*p == '$' || *p == '`') {
			*why = "sh would expand $ and ` in double quotes; put the value in single "
			       "quotes";
			return NULL;
		}
		if (*p == '\\' && p + 1 < end && strchr("\"\\`$", p[1]))
			p++;
		out[len++] = *p;
	}
	return NULL;
}

/* sh does that at the beginning of a value, and as in PATH behind each colon. */
static int tilde_expands(const char *value)
{
	return value[0] == '~' || strstr(value, ":~") != NULL;
}

static const char *take_bare(const char *p, const char *end, char *out, size_t *n, const char **why)
{
	const char *start = p;
	while (p < end && !strchr(bare_special, *p))
		p++;
	*n = (size_t)(p - start);
	memcpy(out, start, *n);
	out[*n] = '\0';
	if (tilde_expands(out)) {
		*why = "sh would expand the ~ at the beginning or behind a colon; write the whole "
		       "directory";
		return NULL;
	}
	if (p < end && *p != ' ' && *p != '\t') {
		*why = "a value without quotes can't hold any of | & ; < > ( ) $ ` \\ \" '; put it "
		       "in single quotes, which keep all characters";
		return NULL;
	}
	return p;
}

/* value is room for one, of JOBTEXT_VALUE_MAX bytes. */
static int jobtext_take_line(const char *name, size_t line, const char *p, const char *end,
			     char *value, jobtext_fn *each, void *arg, struct error *err)
{
	char key[JOBTEXT_KEY_MAX];
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if (p == end || *p == '#')
		return 0;
	if (memchr(p, '\0', (size_t)(end - p)))
		return jobtext_bad(err, name, line, NULL,
				   "holds a NUL byte: this is no text" IS_DATA);
	/* Not of a line of data, whose file should stay as it is. */
	if (end[-1] == '\r' && (*p == '\r' || memchr(p, '=', (size_t)(end - p))))
		return jobtext_bad(
			err, name, line, NULL,
			"ends in a carriage return (DOS line ends); this removes them: sed -i "
			"'s/\\r$//' FILE");
	const char *start = p;
	while (p < end && key_char((unsigned char)*p, p == start))
		p++;
	size_t key_len = (size_t)(p - start);
	if (key_len == 0 || key_len >= sizeof key || p == end || *p != '=') {
		snprintf(value, JOBTEXT_VALUE_MAX, "'%.*s'", (int)(end - start > 70 ? 70 : end - start),
			 start);
		return jobtext_bad(
			err, name, line, value,
			line > 1 ? "is not KEY=value (no blanks around =, no export)"
				 : "is not KEY=value (no blanks around =, no export)" IS_DATA);
	}
	memcpy(key, start, key_len);
	key[key_len] = '\0';
	p++;
	if ((size_t)(end - p) >= JOBTEXT_VALUE_MAX)
		return jobtext_bad(err, name, line, key, "value too long");
	size_t n = 0;
	const char *why = "the single quote is not closed on its line";
	const char *rest;
	if (p < end && *p == '\'')
		rest = take_single(p + 1, end, value, &n);
	else if (p < end && *p == '"')
		rest = take_double(p + 1, end, value, &n, &why);
	else
		rest = take_bare(p, end, value, &n, &why);
	if (!rest)
		return jobtext_bad(err, name, line, key, why);
	value[n] = '\0';
	while (rest < end && (*rest == ' ' || *rest == '\t'))
		rest++;
	if (rest < end)
		return jobtext_bad(
			err, name, line, key,
			"text behind the value, which sh and systemd read differently: put the "
			"whole value in single quotes");
	return each(key, value, line, arg, err);
}

int jobtext_parse(const char *name, const char *text, size_t len, jobtext_fn *each, void *arg,
		  struct error *err)
{
	const char *p = text, *stop = text + len;
	struct error later;
	int result = 0;
	char *value = malloc(JOBTEXT_VALUE_MAX);
	if (!value)
		return error_set(err, ERROR_OS, name, "out of memory");
	for (size_t line = 1; p < stop; line++) {
		const char *end = memchr(p, '\n', (size_t)(stop - p));
		if (!end)
			end = stop;
		if (jobtext_take_line(name, line, p, end, value, each, arg,
				      result == 0 ? err : &later) != 0)
			result = -1;
		p = end + 1;
	}
	free(value);
	return result;
}

size_t jobtext_format(const char *key, const char *value, char *out, size_t out_max)
{
	int n;
	if (!tilde_expands(value) && !strpbrk(value, bare_special))
		n = snprintf(out, out_max, "%s=%s", key, value);
	else if (!strchr(value, '\''))
		n = snprintf(out, out_max, "%s='%s'", key, value);
	else {
		size_t at = (size_t)snprintf(out, out_max, "%s=\"", key);
		for (const char *p = value; *p && at + 4 < out_max; p++) {
			if (strchr("\"\\`$", *p))
				out[at++] = '\\';
			out[at++] = *p;
		}
		n = (int)at + snprintf(out + at, out_max - at, "\"");
	}
	return n < 0 ? 0 : (size_t)n;
}

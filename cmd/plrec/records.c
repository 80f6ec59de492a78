/*
 * plrec: from records: tsv, json, where.  Nothing is kept between two records.
 */
#include "cmd/plrec.h"

#include "base/number.h"
#include "base/utf8.h"

#include <unistd.h>

#define EXACT_MAX 9007199254740991.0 /* 2^53 - 1: whole numbers that every double tells apart */

/* A member of a record by its key, as the commands use it; NULL when it is missing. */
static const char *records_member(const struct record *r, const char *key)
{
	return strcmp(key, "type") == 0 ? r->type : record_get(r, key);
}

/* ---- writing ---- */

static void put_tsv(const char *value)
{
	if (!value) {
		putchar_unlocked('-');
		return;
	}
	for (; *value; value++) {
		switch (*value) {
		case '\t':
			fputs("\\t", stdout);
			break;
		case '\n':
			fputs("\\n", stdout);
			break;
		case '\r':
			fputs("\\r", stdout);
			break;
		case '\\':
			fputs("\\\\", stdout);
			break;
		default:
			putchar_unlocked(*value);
		}
	}
}

/* jansson reads JSON (json.c), but JSON is written here: jansson would take two and a half times as
 * long, print all digits of a double (0.78309899999999999) instead of the digits of the record
 * (0.783099), and refuse text that is not UTF-8. */

static void put_json_text(const char *value)
{
	const char *s = value;
	putchar_unlocked('"');
	while (*s) {
		size_t n = utf8_length(s);
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			printf("\\u%04x", (unsigned)*s);
		else if (n == 0)
			fputs(UTF8_REPLACEMENT, stdout); /* JSON has no room for other bytes */
		else
			fwrite(s, 1, n, stdout);
		s += n ? n : 1;
	}
	putchar_unlocked('"');
}

static const char *skip_digits(const char *p)
{
	return p + strspn(p, "0123456789");
}

/* Whether text is a number in JSON's grammar that every JSON reader reads without loss. */
static int is_json_number(const char *text)
{
	const char *p = text + (*text == '-'), *end = skip_digits(p);
	int whole = 1;
	if (end == p || (*p == '0' && end > p + 1))
		return 0;
	p = end;
	if (*p == '.') {
		whole = 0;
		end = skip_digits(p + 1);
		if (end == p + 1)
			return 0;
		p = end;
	}
	if (*p == 'e' || *p == 'E') {
		whole = 0;
		p += 1 + (p[1] == '+' || p[1] == '-');
		end = skip_digits(p);
		if (end == p)
			return 0;
		p = end;
	}
	double value;
	if (*p || number_real_span(text, strlen(text), &value) != 0)
		return 0;
	return !whole || (value >= -EXACT_MAX && value <= EXACT_MAX);
}

static void put_json_member(const char *key, const char *value, int *count)
{
	printf("%s\"%s\":", (*count)++ ? "," : "{", key);
	if (!value)
		fputs("null", stdout);
	else if (is_json_number(value))
		fputs(value, stdout);
	else
		put_json_text(value);
}

/* ---- a record ---- */

int rec_each_tsv(const struct rec_job *job, const struct record *r, struct error *err)
{
	(void)err;
	for (int i = 0; i < job->count; i++) {
		if (i > 0)
			putchar_unlocked('\t');
		put_tsv(records_member(r, job->arg[i]));
	}
	if (rec_with_text) {
		putchar_unlocked('\t');
		put_tsv(r->text);
	}
	putchar_unlocked('\n');
	return 0;
}

int rec_each_json(const struct rec_job *job, const struct record *r, struct error *err)
{
	int count = 0;
	if (record_get(r, "type") || (rec_with_text && record_get(r, "text")))
		return error_set(err, ERROR_DATA, NULL,
				 "a key of the record has the name of the type's or text's member");
	for (int i = 0; i < job->count; i++)
		put_json_member(job->arg[i], records_member(r, job->arg[i]), &count);
	if (job->count == 0) {
		put_json_member("type", r->type, &count);
		for (size_t i = 0; i < r->count; i++)
			put_json_member(r->field[i].key, r->field[i].value, &count);
	}
	if (rec_with_text && r->text)
		put_json_member("text", r->text, &count);
	fputs("}\n", stdout);
	return 0;
}

int rec_condition(const char *text, struct rec_condition *c, struct error *err)
{
	size_t n = rec_name_length(text);
	const char *p = text + n;
	c->op = *p;
	if (n == 0 || n >= sizeof c->key || *p == '\0' || !strchr("=!<>", *p) ||
	    (*p == '!' && p[1] != '='))
		return error_set(err, ERROR_USAGE, NULL,
				 "'%.80s' is no condition (KEY=VALUE, KEY!=VALUE, KEY<NUMBER, ...)",
				 text);
	memcpy(c->key, text, n);
	c->key[n] = '\0';
	p++;
	if (c->op != '=' && *p == '=') {
		c->op = c->op == '<' ? 'l' : c->op == '>' ? 'g' : '!';
		p++;
	}
	c->value = p;
	if (c->op != '=' && c->op != '!')
		return number_real(p, -1e308, 1e308, &c->number, text, err);
	return 0;
}

static int holds(const struct rec_condition *c, const struct record *r)
{
	const char *value = records_member(r, c->key);
	double number;
	if (c->op == '=' || c->op == '!')
		return (value && strcmp(value, c->value) == 0) == (c->op == '=');
	if (!value || number_real_span(value, strlen(value), &number) != 0)
		return 0;
	switch (c->op) {
	case '<':
		return number < c->number;
	case '>':
		return number > c->number;
	case 'l':
		return number <= c->number;
	default:
		return number >= c->number;
	}
}

int rec_each_where(const struct rec_job *job, const struct record *r, struct error *err)
{
	struct rec_condition c;
	for (int i = 0; i < job->count; i++) {
		if (rec_condition(job->arg[i], &c, err) != 0)
			return -1;
		if (!holds(&c, r))
			return 0;
	}
	char line[RECORD_LINE_MAX + 1];
	struct record_out o;
	record_begin(&o, line, sizeof line, r->type);
	record_add_fields(&o, r, NULL);
	size_t len = record_end(&o, rec_with_text ? r->text : NULL);
	if (len == 0)
		return error_set(err, ERROR_DATA, NULL, "too long once written anew");
	fwrite(line, 1, len, stdout);
	return 0;
}

int rec_from_records(const struct rec_job *job, struct error *err)
{
	static struct record r;
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	if (!in)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	int result = 0;
	while (result == 0) {
		if (!record_reader_buffered(in) && rec_flush(err) != 0) {
			result = -1;
			break;
		}
		int got = record_read(in, &r, err);
		if (got == RECORD_END)
			break;
		if (got < 0)
			result = -1;
		else if (got == RECORD_ONE && job->each(job, &r, err) != 0)
			result = error_wrap(err, record_reader_place(in));
	}
	record_reader_free(in);
	return result;
}

/* record: see record.h and paceline-record(5). Pure text work: no sockets, no clock. */
#include "record/record.h"

#include "base/number.h"
#include "base/option.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_name_start(unsigned char c)
{
	return c >= 'a' && c <= 'z';
}

static int is_name(unsigned char c)
{
	return is_name_start(c) || (c >= '0' && c <= '9') || c == '-';
}

static int record_hex_value(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Below 64. */
static unsigned char record_hash(const char *key)
{
	unsigned h = 0;
	for (; *key; key++)
		h = h * 31 + (unsigned char)*key;
	return h & 63;
}

static int record_bad(struct error *err, size_t at, const char *why)
{
	return error_set(err, ERROR_DATA, NULL, "byte %zu: %s", at + 1, why);
}

/* Copies one value to *to, decoded and terminated; *i ends behind it. */
static int take_value(const char *line, size_t len, size_t *i, char **to, struct error *err)
{
	char *out = *to;
	size_t k = *i;
	for (; k < len && line[k] != ' ' && line[k] != '\t'; k++) {
		unsigned char c = (unsigned char)line[k];
		if (c == '%') {
			int high =
				k + 2 < len + 0 ? record_hex_value((unsigned char)line[k + 1]) : -1;
			int low =
				k + 2 < len + 0 ? record_hex_value((unsigned char)line[k + 2]) : -1;
			if (k + 2 >= len || high < 0 || low < 0)
				return record_bad(err, k, "'%' without two hexadecimal digits");
			c = (unsigned char)(high * 16 + low);
			if (c == 0)
				return record_bad(err, k, "a value may not hold a NUL");
			k += 2;
		} else if (c < 0x20 || c == 0x7f) {
			return record_bad(err, k, "control character in a value");
		}
		*out++ = (char)c;
	}
	*out++ = '\0';
	*to = out;
	*i = k;
	return 0;
}

static const struct record_field *record_find(const struct record *r, const char *key, unsigned char hash)
{
	if (!(r->key_bits >> hash & 1))
		return NULL;
	for (size_t i = 0; i < r->count; i++)
		if (r->hash[i] == hash && strcmp(r->field[i].key, key) == 0)
			return &r->field[i];
	return NULL;
}

/* Copies a type or key; *i ends on the byte behind it. */
static int record_take_name(const char *line, size_t len, size_t *i, char **to, const char *what,
			    struct error *err)
{
	size_t k = *i;
	if (k >= len || !is_name_start((unsigned char)line[k]))
		return error_set(err, ERROR_DATA, NULL, "byte %zu: %s must begin with a-z", k + 1,
				 what);
	char *out = *to;
	while (k < len && is_name((unsigned char)line[k]))
		*out++ = line[k++];
	*out++ = '\0';
	*to = out;
	*i = k;
	return 0;
}

int record_parse(struct record *r, const char *line, size_t len, struct error *err)
{
	r->count = 0;
	r->text = NULL;
	r->key_bits = 0;
	if (len >= RECORD_LINE_MAX)
		return error_set(err, ERROR_DATA, NULL, "line longer than %d bytes",
				 RECORD_LINE_MAX);
	if (memchr(line, '\0', len))
		return error_set(err, ERROR_DATA, NULL, "NUL byte in the line");
	/* Decodes in place: every piece shrinks or keeps its length, and its separator makes room
	 * for the NUL. */
	char *to = r->line;
	size_t i = 0;
	r->type = to;
	if (record_take_name(line, len, &i, &to, "the type", err) != 0)
		return -1;
	while (i < len && line[i] == ' ') {
		i++;
		if (r->count == RECORD_FIELDS_MAX)
			return record_bad(err, i, "too many fields");
		struct record_field *f = &r->field[r->count];
		f->key = to;
		if (record_take_name(line, len, &i, &to, "a key", err) != 0)
			return -1;
		if (i >= len || line[i] != '=')
			return error_set(err, ERROR_DATA, NULL, "byte %zu: key '%.40s' without '='",
					 i + 1, f->key);
		i++;
		f->value = to;
		if (take_value(line, len, &i, &to, err) != 0)
			return -1;
		unsigned char hash = record_hash(f->key);
		if (record_find(r, f->key, hash))
			return error_set(err, ERROR_DATA, NULL, "key '%.40s' appears twice", f->key);
		r->key_bits |= 1ull << hash;
		r->hash[r->count++] = hash;
	}
	if (i < len && line[i] == '\t') {
		size_t n = len - i - 1;
		memcpy(to, line + i + 1, n);
		to[n] = '\0';
		r->text = to;
		i = len;
	}
	if (i != len)
		return record_bad(err, i, "fields must be key=value with single spaces between");
	return 0;
}

const char *record_get(const struct record *r, const char *key)
{
	const struct record_field *f = record_find(r, key, record_hash(key));
	return f ? f->value : NULL;
}

int record_is(const struct record *r, const char *type)
{
	return strcmp(r->type, type) == 0;
}

/* A bad number is an error of data here, and the text names the key: the reader adds the place. */
static int as_data(struct error *err, const char *key)
{
	if (err) {
		char text[ERROR_TEXT_MAX];
		snprintf(text, sizeof text, "%s=: %.460s", key, err->text);
		memcpy(err->text, text, sizeof text);
		err->code = ERROR_DATA;
		err->place[0] = '\0';
	}
	return -1;
}

int record_text(const struct record *r, const char *key, const char **out, struct error *err)
{
	const char *value = record_get(r, key);
	if (!value)
		return error_set(err, ERROR_DATA, NULL, "%.64s: %s= is missing", r->type, key);
	*out = value;
	return 0;
}

int record_id(const struct record *r, const char *key, const char **out, struct error *err)
{
	if (record_text(r, key, out, err) != 0)
		return -1;
	if (!option_id_ok(*out))
		return error_set(err, ERROR_DATA, NULL, "%s=: '%.80s' is no id (1 to 64 of letters, digits, . _ -)", key,
				 *out);
	return 0;
}

int record_u64_opt(const struct record *r, const char *key, uint64_t min, uint64_t max,
		   uint64_t *out, struct error *err)
{
	const char *value = record_get(r, key);
	if (value && number_u64(value, min, max, out, NULL, err) != 0)
		return as_data(err, key);
	return 0;
}

int record_real_opt(const struct record *r, const char *key, double min, double max, double *out,
		    struct error *err)
{
	const char *value = record_get(r, key);
	if (value && *value && number_real(value, min, max, out, NULL, err) != 0)
		return as_data(err, key);
	return 0;
}

int record_u64(const struct record *r, const char *key, uint64_t min, uint64_t max, uint64_t *out,
	       struct error *err)
{
	const char *value;
	if (record_text(r, key, &value, err) != 0)
		return -1;
	return record_u64_opt(r, key, min, max, out, err);
}

int record_real(const struct record *r, const char *key, double min, double max, double *out,
		struct error *err)
{
	const char *value = NULL;
	if (record_text(r, key, &value, err) != 0)
		return -1;
	return number_real(value, min, max, out, NULL, err) != 0 ? as_data(err, key) : 0;
}

/* One byte stays free for the newline and one for the NUL. */
static void record_put(struct record_out *o, const char *data, size_t len)
{
	if (o->overflow || len + 2 > o->max - o->len) {
		o->overflow = 1;
		return;
	}
	memcpy(o->data + o->len, data, len);
	o->len += len;
}

void record_begin(struct record_out *o, char *data, size_t max, const char *type)
{
	*o = (struct record_out){.data = data, .max = max};
	record_put(o, type, strlen(type));
}

static int must_encode(unsigned char c)
{
	return c <= 0x20 || c == '%' || c == 0x7f;
}

static void put_value(struct record_out *o, const char *value)
{
	static const char hex[] = "0123456789ABCDEF";
	while (*value) {
		size_t plain = 0;
		while (value[plain] && !must_encode((unsigned char)value[plain]))
			plain++;
		if (plain)
			record_put(o, value, plain);
		value += plain;
		if (*value) {
			unsigned char c = (unsigned char)*value++;
			char code[3] = {'%', hex[c >> 4], hex[c & 15]};
			record_put(o, code, 3);
		}
	}
}

static void put_key(struct record_out *o, const char *key)
{
	record_put(o, " ", 1);
	record_put(o, key, strlen(key));
	record_put(o, "=", 1);
}

void record_add(struct record_out *o, const char *key, const char *value)
{
	put_key(o, key);
	put_value(o, value);
}

void record_add_u64(struct record_out *o, const char *key, uint64_t value)
{
	char text[32];
	size_t n = number_format_u64(value, text);
	put_key(o, key);
	record_put(o, text, n);
}

void record_add_real(struct record_out *o, const char *key, double value)
{
	char text[40];
	put_key(o, key);
	if (isfinite(value))
		record_put(o, text, number_format_real(value, text));
}

void record_add_brief(struct record_out *o, const char *key, double value)
{
	char text[NUMBER_TEXT_MAX];
	put_key(o, key);
	if (isfinite(value))
		record_put(o, text, number_format_brief(value, text));
}

void record_add_seconds(struct record_out *o, const char *key, double value)
{
	char text[NUMBER_TEXT_MAX];
	put_key(o, key);
	if (isfinite(value))
		record_put(o, text, number_format_seconds(value, text));
}

void record_add_fields(struct record_out *o, const struct record *r, const char *except)
{
	for (size_t i = 0; i < r->count; i++)
		if (!except || strcmp(r->field[i].key, except) != 0)
			record_add(o, r->field[i].key, r->field[i].value);
}

size_t record_end(struct record_out *o, const char *text)
{
	if (text && text[0] && !o->overflow) {
		record_put(o, "\t", 1);
		size_t start = o->len, room = o->max - o->len;
		size_t n = strlen(text);
		/* Text is for people: cut it rather than lose the whole record. */
		if (n + 2 > room)
			n = room > 2 ? room - 2 : 0;
		record_put(o, text, n);
		for (size_t i = start; i < o->len; i++)
			if (o->data[i] == '\n' || o->data[i] == '\0')
				o->data[i] = ' ';
	}
	if (o->overflow || o->len + 1 > RECORD_LINE_MAX) {
		o->data[0] = '\0';
		return 0;
	}
	o->data[o->len++] = '\n';
	o->data[o->len] = '\0';
	return o->len;
}

void record_print(FILE *out, struct record_out *o)
{
	size_t len = record_end(o, NULL);
	fwrite(o->data, 1, len, out);
}

struct record_out *record_make(struct record_line *l, const char *type,
			       const struct record_value *value)
{
	struct record_out *o = &l->out;
	record_begin(o, l->line, sizeof l->line, type);
	for (const struct record_value *v = value; v->kind != RECORD_LAST; v++)
		switch (v->kind) {
		case RECORD_LAST:
		case RECORD_NONE:
			break;
		case RECORD_TEXT:
			record_add(o, v->key, v->text);
			break;
		case RECORD_COUNT:
			record_add_u64(o, v->key, v->count);
			break;
		case RECORD_REAL:
			record_add_real(o, v->key, v->real);
			break;
		case RECORD_BRIEF:
			record_add_brief(o, v->key, v->real);
			break;
		case RECORD_SECONDS:
			record_add_seconds(o, v->key, v->real);
			break;
		}
	return o;
}

/* ---- the records of a text ---- */

struct record_walk record_walk(const char *text, size_t len)
{
	return (struct record_walk){.at = text, .end = len > 0 ? text + len : text};
}

int record_next(struct record_walk *w, struct record *r, struct error *err)
{
	while (w->at < w->end) {
		size_t left = (size_t)(w->end - w->at);
		const char *newline = memchr(w->at, '\n', left);
		w->line = w->at;
		w->len = newline ? (size_t)(newline - w->at) : left;
		w->at += newline ? w->len + 1 : left;
		w->number++;
		if (!newline)
			return error_set(err, ERROR_DATA, NULL, "the last line has no newline");
		if (w->len > 0)
			return record_parse(r, w->line, w->len, err) == 0 ? RECORD_ONE : -1;
	}
	return RECORD_END;
}

int record_first(struct record *r, const char *text, size_t len, struct error *err)
{
	const char *newline = memchr(text, '\n', len);
	return record_parse(r, text, newline ? (size_t)(newline - text) : len, err);
}

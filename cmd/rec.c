/*
 * rec: records to columns, TSV, JSON lines, and back; and a sieve.  A filter: it keeps nothing
 * between two lines, and writes out what it has before it waits for more.
 */
#include "cmd/cmd.h"

#include "base/number.h"
#include "wire/record.h"

#include <jansson.h>
#include <unistd.h>

#define PROGRAM "rec"
#define KEYS_MAX 256
#define LINE_MAX_BYTES (1u << 20) /* of a line that is no record */
#define EXACT_MAX 9007199254740991.0 /* 2^53 - 1: whole numbers that every double tells apart */

static int with_text, with_header;
static const char *default_type;

static const struct option_row rows[] = {
	{.name = "text", .letter = 't', .kind = OPTION_FLAG, .target = &with_text,
	 .help = "keep the text behind the tab: last column, member text"},
	{.name = "header", .letter = 'H', .kind = OPTION_FLAG, .target = &with_header,
	 .help = "tsv: a line with the keys first"},
	{.name = "type", .letter = 'T', .kind = OPTION_TEXT, .target = &default_type, .arg = "TYPE",
	 .help = "from-json: the type of objects that have none"},
	{0}};

static const struct option_table table = {
	.program = PROGRAM,
	.synopsis = "[-tH] tsv KEY...\n[-t] json [KEY...]\n[-t] where CONDITION...\n"
		    "from-tsv TYPE [KEY...]\n[-T TYPE] from-json",
	.about = "Records on standard input to TSV or JSON lines, and back.",
	.rows = rows,
	.epilogue = "CONDITION: KEY=VALUE, KEY!=VALUE, KEY<NUMBER, KEY>NUMBER, KEY<=NUMBER, "
		    "KEY>=NUMBER;\nthe key `type` is the record's type. No key, no value: `-` in "
		    "TSV, null in JSON.",
};

/* ---- names ---- */

static size_t name_length(const char *text)
{
	if (text[0] < 'a' || text[0] > 'z')
		return 0;
	return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
}

static int is_name(const char *text)
{
	size_t n = name_length(text);
	return n > 0 && text[n] == '\0';
}

static int check_names(char **name, int count, struct error *err)
{
	for (int i = 0; i < count; i++)
		if (!is_name(name[i]))
			return error_set(err, ERROR_USAGE, NULL, "'%.80s' is no key (a-z, 0-9, -)",
					 name[i]);
	return count <= KEYS_MAX ? 0 : error_set(err, ERROR_USAGE, NULL, "more than %d keys",
						 KEYS_MAX);
}

/* A record's member as the commands see it; NULL when it is missing. */
static const char *member(const struct record *r, const char *key)
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

/* Length of the UTF-8 character at s, 0 when there is none. */
static size_t utf8_length(const unsigned char *s)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 && s[0] < 0xf8 ? 4
				 : s[0] >= 0xe0 && s[0] < 0xf0   ? 3
				 : s[0] >= 0xc0 && s[0] < 0xe0   ? 2
								 : 0;
	unsigned code = n > 1 ? s[0] & (0xffu >> (n + 1)) : 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3fu);
	}
	if (n > 1 && (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)))
		return 0;
	return n;
}

static void put_json_text(const char *value)
{
	const unsigned char *s = (const unsigned char *)value;
	putchar_unlocked('"');
	while (*s) {
		size_t n = utf8_length(s);
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			printf("\\u%04x", *s);
		else if (n == 0)
			fputs("\xef\xbf\xbd", stdout); /* U+FFFD: JSON has no room for other bytes */
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

/* A number of JSON's grammar that every reader of JSON gets unchanged. */
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

/* ---- from records ---- */

struct job {
	char **arg; /* keys or conditions */
	int count;
	int (*each)(const struct job *job, const struct record *r, struct error *err);
};

static int each_tsv(const struct job *job, const struct record *r, struct error *err)
{
	(void)err;
	for (int i = 0; i < job->count; i++) {
		if (i > 0)
			putchar_unlocked('\t');
		put_tsv(member(r, job->arg[i]));
	}
	if (with_text) {
		putchar_unlocked('\t');
		put_tsv(r->text);
	}
	putchar_unlocked('\n');
	return 0;
}

static int each_json(const struct job *job, const struct record *r, struct error *err)
{
	int count = 0;
	if (record_get(r, "type") || (with_text && record_get(r, "text")))
		return error_set(err, ERROR_DATA, NULL,
				 "a key of the record has the name of the type's or text's member");
	for (int i = 0; i < job->count; i++)
		put_json_member(job->arg[i], member(r, job->arg[i]), &count);
	if (job->count == 0) {
		put_json_member("type", r->type, &count);
		for (size_t i = 0; i < r->count; i++)
			put_json_member(r->field[i].key, r->field[i].value, &count);
	}
	if (with_text && r->text)
		put_json_member("text", r->text, &count);
	fputs("}\n", stdout);
	return 0;
}

struct condition {
	char key[128];
	char op; /* = ! < > and, for <= and >=, l and g */
	const char *value;
	double number;
};

static int parse_condition(const char *text, struct condition *c, struct error *err)
{
	size_t n = name_length(text);
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

static int holds(const struct condition *c, const struct record *r)
{
	const char *value = member(r, c->key);
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

static int each_where(const struct job *job, const struct record *r, struct error *err)
{
	struct condition c;
	for (int i = 0; i < job->count; i++) {
		if (parse_condition(job->arg[i], &c, err) != 0)
			return -1;
		if (!holds(&c, r))
			return 0;
	}
	char line[RECORD_LINE_MAX + 1];
	struct record_out o;
	record_begin(&o, line, sizeof line, r->type);
	record_add_fields(&o, r, NULL);
	size_t len = record_end(&o, with_text ? r->text : NULL);
	if (len == 0)
		return error_set(err, ERROR_DATA, NULL, "too long once written anew");
	fwrite(line, 1, len, stdout);
	return 0;
}

/* A reader that left (head(1)) ends us early, and quietly. */
static int reader_left;

static int flush_output(struct error *err)
{
	if (fflush(stdout) == 0)
		return 0;
	reader_left = errno == EPIPE;
	return error_errno(err, ERROR_IO, "standard output", "write");
}

static int from_records(const struct job *job, struct error *err)
{
	static struct record r;
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	if (!in)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	int result = 0;
	while (result == 0) {
		if (!record_reader_buffered(in) && flush_output(err) != 0) {
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

/* ---- lines that are no records ---- */

struct lines {
	char *data;
	size_t begin, end, room;
	unsigned long long number;
	int ended;
	char place[64];
};

static int more_lines(struct lines *in, struct error *err)
{
	if (in->begin > 0) {
		memmove(in->data, in->data + in->begin, in->end - in->begin);
		in->end -= in->begin;
		in->begin = 0;
	}
	if (in->room - in->end < 65536) {
		char *larger = realloc(in->data, in->room + 131072);
		if (!larger)
			return error_set(err, ERROR_OS, NULL, "out of memory");
		in->data = larger;
		in->room += 131072;
	}
	ssize_t n;
	do
		n = read(STDIN_FILENO, in->data + in->end, in->room - in->end - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, ERROR_IO, "stdin", "read");
	in->end += (size_t)n;
	in->ended = n == 0;
	return 0;
}

/* The next line, NUL for its newline; 1, or 0 at the end. *whole is 0 for a last line without
 * newline. */
static int next_line(struct lines *in, char **line, size_t *len, int *whole, struct error *err)
{
	for (;;) {
		size_t have = in->end - in->begin;
		char *start = in->data ? in->data + in->begin : NULL;
		char *newline = have ? memchr(start, '\n', have) : NULL;
		if (newline || (in->ended && have > 0)) {
			*line = start;
			*len = newline ? (size_t)(newline - start) : have;
			*whole = newline != NULL;
			start[*len] = '\0';
			in->begin += *len + (newline != NULL);
			snprintf(in->place, sizeof in->place, "stdin:%llu", ++in->number);
			return 1;
		}
		if (in->ended)
			return 0;
		if (have > LINE_MAX_BYTES)
			return error_set(err, ERROR_DATA, "stdin", "line %llu is longer than %u bytes",
					 in->number + 1, LINE_MAX_BYTES);
		if (flush_output(err) != 0 || more_lines(in, err) != 0)
			return -1;
	}
}

static int end_record(struct record_out *o, const char *text, const char *place, struct error *err)
{
	size_t len = record_end(o, text);
	if (len == 0)
		return error_set(err, ERROR_DATA, place, "does not fit into a record of %d bytes",
				 RECORD_LINE_MAX);
	fwrite(o->data, 1, len, stdout);
	return 0;
}

/* ---- from-tsv ---- */

/* Cuts at tabs. */
static size_t split(char *line, char **column, size_t max)
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

/* Takes the backslashes of put_tsv() back, in place. */
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

/* The first key that stands twice, or NULL: a record could not hold both columns. */
static const char *doubled(char **key, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(key[i], key[j]) == 0)
				return key[i];
	return NULL;
}

static int take_header(char *line, size_t len, char **key, size_t *count, const char *place,
		       struct error *err)
{
	char *copy = malloc(len + 1);
	if (!copy)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(copy, line, len + 1);
	*count = split(copy, key, KEYS_MAX);
	if (*count > KEYS_MAX)
		return error_set(err, ERROR_DATA, place, "more than %d columns", KEYS_MAX);
	for (size_t i = 0; i < *count; i++)
		if (!is_name(key[i]))
			return error_set(err, ERROR_DATA, place,
					 "'%.80s' is no key (a-z, 0-9, -): name the columns instead",
					 key[i]);
	const char *twice = doubled(key, *count);
	return twice ? error_set(err, ERROR_DATA, place, "column '%.80s' stands twice", twice) : 0;
}

static int each_row(const char *type, char *line, char **key, size_t count, const char *place,
		    struct error *err)
{
	char *column[KEYS_MAX], text[RECORD_LINE_MAX + 1];
	size_t columns = split(line, column, count);
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
	return end_record(&o, NULL, place, err);
}

static int from_tsv(char **arg, int arg_count, struct error *err)
{
	struct lines in = {0};
	char *line, *header[KEYS_MAX], **key = arg + 1;
	size_t len, count = (size_t)arg_count - 1;
	int whole, got, result = 0, has_header = count == 0;
	if (has_header)
		key = header;
	while (result == 0 && (got = next_line(&in, &line, &len, &whole, err)) != 0) {
		if (got < 0)
			result = -1;
		else if (!whole)
			result = error_set(err, ERROR_DATA, in.place,
					   "the input ends without a newline");
		else if (strlen(line) != len)
			result = error_set(err, ERROR_DATA, in.place, "NUL byte in the line");
		else if (count == 0)
			result = take_header(line, len, key, &count, in.place, err);
		else
			result = each_row(arg[0], line, key, count, in.place, err);
	}
	if (has_header && count > 0)
		free(header[0]);
	free(in.data);
	return result;
}

/* ---- from-json ---- */

static int add_member(struct record_out *o, const char *key, const json_t *value, const char *place,
		      struct error *err)
{
	char number[40];
	if (!is_name(key))
		return error_set(err, ERROR_DATA, place, "member '%.80s' is no key (a-z, 0-9, -)",
				 key);
	switch (json_typeof(value)) {
	case JSON_NULL:
		return 0;
	case JSON_STRING:
		record_add(o, key, json_string_value(value));
		return 0;
	case JSON_INTEGER:
		snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		record_add(o, key, number);
		return 0;
	case JSON_REAL:
		record_add_real(o, key, json_real_value(value));
		return 0;
	case JSON_TRUE:
	case JSON_FALSE:
		record_add(o, key, json_is_true(value) ? "1" : "0");
		return 0;
	default:
		return error_set(err, ERROR_DATA, place, "member '%.80s' is an array or object",
				 key);
	}
}

static int put_object(json_t *object, const char *place, struct error *err)
{
	const char *type = json_string_value(json_object_get(object, "type"));
	const char *text = json_string_value(json_object_get(object, "text"));
	char line[RECORD_LINE_MAX + 1];
	struct record_out o;
	if (!type)
		type = default_type;
	if (!type || !is_name(type))
		return error_set(err, ERROR_DATA, place, type ? "type '%.80s' is no name"
							      : "no member \"type\"%s",
				 type ? type : "");
	record_begin(&o, line, sizeof line, type);
	const char *key;
	json_t *value;
	json_object_foreach(object, key, value)
		if (strcmp(key, "type") != 0 && !(with_text && strcmp(key, "text") == 0) &&
		    add_member(&o, key, value, place, err) != 0)
			return -1;
	return end_record(&o, with_text ? text : NULL, place, err);
}

static int from_json(struct error *err)
{
	struct lines in = {0};
	char *line;
	size_t len;
	int whole, got, result = 0;
	while (result == 0 && (got = next_line(&in, &line, &len, &whole, err)) != 0) {
		if (got < 0) {
			result = -1;
			break;
		}
		if (strspn(line, " \t\r") == len)
			continue;
		json_error_t why;
		json_t *object = json_loadb(line, len, JSON_REJECT_DUPLICATES, &why);
		if (!object)
			result = error_set(err, ERROR_DATA, in.place, "column %d: %s", why.column,
					   why.text);
		else if (!json_is_object(object))
			result = error_set(err, ERROR_DATA, in.place, "no JSON object");
		else
			result = put_object(object, in.place, err);
		json_decref(object);
	}
	free(in.data);
	return result;
}

/* ---- commands ---- */

static int usage(struct error *err, const char *why)
{
	return error_set(err, ERROR_USAGE, NULL, "%s", why);
}

static int run(char **arg, int count, struct error *err)
{
	struct job job = {.arg = arg + 1, .count = count - 1};
	const char *command = arg[0];
	if (strcmp(command, "from-tsv") == 0) {
		if (job.count < 1)
			return usage(err, "from-tsv needs the type");
		if (check_names(job.arg, job.count, err) != 0)
			return -1;
		const char *twice = doubled(job.arg + 1, (size_t)job.count - 1);
		if (twice)
			return error_set(err, ERROR_USAGE, twice, "stands twice");
		return from_tsv(job.arg, job.count, err);
	}
	if (strcmp(command, "from-json") == 0) {
		if (default_type && !is_name(default_type))
			return error_set(err, ERROR_USAGE, "--type", "'%.80s' is no name",
					 default_type);
		return job.count == 0 ? from_json(err) : usage(err, "from-json takes no operand");
	}
	if (strcmp(command, "where") == 0) {
		struct condition c;
		if (job.count == 0)
			return usage(err, "where needs a condition");
		for (int i = 0; i < job.count; i++)
			if (parse_condition(job.arg[i], &c, err) != 0)
				return -1;
		job.each = each_where;
		return from_records(&job, err);
	}
	if (strcmp(command, "json") != 0 && strcmp(command, "tsv") != 0)
		return error_set(err, ERROR_USAGE, NULL, "there is no command '%.80s'", command);
	job.each = command[0] == 't' ? each_tsv : each_json;
	if (job.each == each_tsv && job.count == 0)
		return usage(err, "tsv needs keys");
	if (check_names(job.arg, job.count, err) != 0)
		return -1;
	if (job.each == each_tsv && with_header) {
		for (int i = 0; i < job.count; i++)
			printf("%s%s", i ? "\t" : "", job.arg[i]);
		fputs(with_text ? "\ttext\n" : "\n", stdout);
	}
	return from_records(&job, err);
}

int main(int argc, char **argv)
{
	struct error err = {0};
	int first;
	cmd_begin(PROGRAM);
	int got = option_parse(&table, argc, argv, &first, stdout, &err);
	if (got < 0)
		return cmd_fail(PROGRAM, &err);
	if (got == OPTION_SHOWN)
		return cmd_end(PROGRAM, 0);
	if (first == argc) {
		usage(&err, "a command is missing: tsv, json, where, from-tsv or from-json");
		return cmd_fail(PROGRAM, &err);
	}
	/* Options may stand behind the command, too. */
	char **arg = argv + first, *command = arg[0];
	int count = argc - first, next;
	got = option_parse(&table, count, arg, &next, stdout, &err);
	if (got < 0)
		return cmd_fail(PROGRAM, &err);
	if (got == OPTION_SHOWN)
		return cmd_end(PROGRAM, 0);
	arg += next - 1;
	arg[0] = command;
	if (run(arg, count - next + 1, &err) != 0) {
		/* What was right before the error goes out first. */
		struct error late;
		(void)flush_output(&late);
		return reader_left ? ERROR_IO : cmd_fail(PROGRAM, &err);
	}
	return cmd_end(PROGRAM, 0);
}

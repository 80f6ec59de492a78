/* value: see value.h. Must never know which column a value is from. */
#include "survey/value.h"

#include "base/number.h"

#include <string.h>
#include <strings.h>

static const char *const spellings[VALUE_SPELLINGS] = {
	"",    "NA",   "N/A",  "n/a",  "#N/A", "nan", "NaN", "NAN", "-nan", "NaT",
	"null", "NULL", "Null", "None", "nil",  "\\N", "?",   "-",   "--",   "."};

const char *value_spelling(size_t i)
{
	return i < VALUE_SPELLINGS ? spellings[i] : NULL;
}

static int value_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* How many digits begin at p, and their value. */
static size_t value_digits(const char *p, const char *end, unsigned *value)
{
	size_t n = 0;
	*value = 0;
	for (; p + n < end && value_is_digit(p[n]) && n < 5; n++)
		*value = *value * 10 + (unsigned)(p[n] - '0');
	return n;
}

static int day_ok(unsigned month, unsigned day)
{
	return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

/* 2024-05-31, 31.05.2024, 5/31/24: returns how long it is, or 0. */
static size_t take_day(const char *text, const char *end)
{
	unsigned part[3];
	size_t width[3], at = 0;
	char between = '\0';
	for (int i = 0; i < 3; i++) {
		width[i] = value_digits(text + at, end, &part[i]);
		if (width[i] == 0 || width[i] > 4)
			return 0;
		at += width[i];
		if (i == 2)
			break;
		if (text + at == end || !strchr("-/.", text[at]) || (i == 1 && text[at] != between))
			return 0;
		between = text[at++];
	}
	if (width[0] == 4)
		return day_ok(part[1], part[2]) ? at : 0;
	if (width[2] == 4 || (width[2] == 2 && between != '-'))
		return width[0] <= 2 && width[1] <= 2 &&
				       (day_ok(part[0], part[1]) || day_ok(part[1], part[0]))
			       ? at
			       : 0;
	return 0;
}

/* 13:05, 13:05:59.25, with a zone behind it. */
static size_t value_take_time(const char *text, const char *end)
{
	unsigned hour, minute, second;
	size_t at = value_digits(text, end, &hour), n;
	if (at == 0 || at > 2 || hour > 24 || text + at == end || text[at++] != ':')
		return 0;
	n = value_digits(text + at, end, &minute);
	if (n != 2 || minute > 59)
		return 0;
	at += n;
	if (text + at < end && text[at] == ':') {
		n = value_digits(text + at + 1, end, &second);
		if (n != 2 || second > 60)
			return 0;
		at += n + 1;
	}
	while (text + at < end && (value_is_digit(text[at]) || strchr(".,+-:Z ", text[at])))
		at++;
	return at;
}

static int is_date(const char *text, size_t len)
{
	const char *end = text + len;
	size_t day = take_day(text, end);
	if (day == len)
		return 1;
	if (day > 0 && (text[day] == ' ' || text[day] == 'T')) {
		size_t time = value_take_time(text + day + 1, end);
		return time > 0 && day + 1 + time == len;
	}
	return day == 0 && value_take_time(text, end) == len;
}

/* 3,14 or 1,234 or 1.234,5: digits and points with a comma among them. */
static int has_comma(const char *text, size_t len)
{
	size_t commas = 0, figures = 0;
	for (size_t i = text[0] == '-' || text[0] == '+'; i < len; i++) {
		commas += text[i] == ',';
		figures += value_is_digit(text[i]) != 0;
		if (!value_is_digit(text[i]) && text[i] != ',' && text[i] != '.')
			return 0;
	}
	return commas > 0 && figures > 0 && text[len - 1] != ',';
}

static int has_percent(const char *text, size_t len)
{
	double x;
	if (len < 2 || text[len - 1] != '%')
		return 0;
	len -= text[len - 2] == ' ' ? 2 : 1;
	return number_real_span(text, len, &x) == 0;
}

static size_t count_words(const char *text, size_t len)
{
	size_t words = 0;
	for (size_t i = 0; i < len; i++)
		words += text[i] != ' ' && (i == 0 || text[i - 1] == ' ');
	return words;
}

static void look_number(const char *text, size_t len, struct value *out)
{
	size_t sign = text[0] == '-' || text[0] == '+';
	unsigned month, day;
	out->kind = VALUE_NUMBER;
	out->whole = 1;
	for (size_t i = sign; i < len; i++)
		out->whole &= value_is_digit(text[i]);
	out->padded = out->whole && len > sign + 1 && text[sign] == '0';
	if (out->whole && len == 8 && (memcmp(text, "19", 2) == 0 || memcmp(text, "20", 2) == 0)) {
		value_digits(text + 4, text + 6, &month);
		value_digits(text + 6, text + 8, &day);
		out->day = day_ok(month, day);
	}
}

void value_look(const char *text, size_t len, struct value *out)
{
	*out = (struct value){.kind = VALUE_WORD};
	for (size_t i = 0; i < VALUE_SPELLINGS && len <= 4; i++)
		if (strlen(spellings[i]) == len && memcmp(spellings[i], text, len) == 0) {
			out->kind = VALUE_MISSING;
			out->spelling = i;
			return;
		}
	if (number_real_span(text, len, &out->number) == 0)
		look_number(text, len, out);
	else if (is_date(text, len))
		out->kind = VALUE_DATE;
	else if (has_comma(text, len))
		out->kind = VALUE_COMMA;
	else if (has_percent(text, len))
		out->kind = VALUE_PERCENT;
	out->words = count_words(text, len);
}

/* 1.0 and 0.0 are what 1 and 0 become in a column where values are missing. */
static int value_is_one(const char *a, const char *b)
{
	double x, y;
	return number_real_span(a, strlen(a), &x) == 0 && number_real_span(b, strlen(b), &y) == 0 &&
	       x == 1 && (y == 0 || y == -1);
}

int value_yes(const char *a, const char *b)
{
	static const char *const known[][2] = {
		{"yes", "no"},    {"y", "n"},
		{"true", "false"}, {"t", "f"},         {"positive", "negative"}, {"pos", "neg"},
		{"+", "-"},       {"on", "off"},       {"good", "bad"},     {"pass", "fail"},
		{"spam", "ham"},  {"malignant", "benign"}, {"won", "lost"},
		{"ja", "nein"},   {"oui", "non"},      {"si", "no"},        {"sim", "nao"}};
	if (value_is_one(a, b) || value_is_one(b, a))
		return value_is_one(a, b) ? 1 : -1;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (strcasecmp(a, known[i][0]) == 0 && strcasecmp(b, known[i][1]) == 0)
			return 1;
		if (strcasecmp(b, known[i][0]) == 0 && strcasecmp(a, known[i][1]) == 0)
			return -1;
	}
	return 0;
}

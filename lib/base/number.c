/* number: see number.h. Strict and locale-free; strtod is only used where it cannot see a locale's
 * point, because programs of this kit never call setlocale(). */
#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int number_u64_span(const char *text, size_t len, uint64_t *out)
{
	if (len == 0 || len > 20)
		return -1;
	uint64_t value = 0;
	for (size_t i = 0; i < len; i++) {
		unsigned digit = (unsigned)(unsigned char)text[i] - '0';
		if (digit > 9 || __builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return -1;
	}
	*out = value;
	return 0;
}

/* Accepts digits with at most one point and an exponent; refuses everything else that strtod
 * takes. */
static int is_decimal(const char *text, size_t len)
{
	size_t i = 0, digits = 0;
	if (i < len && (text[i] == '-' || text[i] == '+'))
		i++;
	while (i < len && text[i] >= '0' && text[i] <= '9')
		i++, digits++;
	if (i < len && text[i] == '.')
		for (i++; i < len && text[i] >= '0' && text[i] <= '9'; i++)
			digits++;
	if (digits == 0)
		return 0;
	if (i < len && (text[i] == 'e' || text[i] == 'E')) {
		i++;
		if (i < len && (text[i] == '-' || text[i] == '+'))
			i++;
		size_t first = i;
		while (i < len && text[i] >= '0' && text[i] <= '9')
			i++;
		if (i == first)
			return 0;
	}
	return i == len;
}

int number_real_span(const char *text, size_t len, double *out)
{
	/* Up to 15 digits and a small power of ten are exact in a double: the fast path that
	 * nearly every field of a data file takes. */
	static const double power[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7,
				       1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
	size_t i = 0, digits = 0, fraction = 0;
	int negative = len > 0 && text[0] == '-';
	uint64_t mantissa = 0;
	if (len > 0 && (text[0] == '-' || text[0] == '+'))
		i++;
	for (; i < len && (unsigned)(text[i] - '0') <= 9; i++, digits++)
		mantissa = mantissa * 10 + (uint64_t)(text[i] - '0');
	if (i < len && text[i] == '.')
		for (i++; i < len && (unsigned)(text[i] - '0') <= 9; i++, digits++, fraction++)
			mantissa = mantissa * 10 + (uint64_t)(text[i] - '0');
	if (i == len && digits > 0 && digits <= 15) {
		double value = (double)mantissa / power[fraction];
		*out = negative ? -value : value;
		return 0;
	}
	char copy[512];
	if (len >= sizeof copy || !is_decimal(text, len))
		return -1;
	memcpy(copy, text, len);
	copy[len] = '\0';
	double value = strtod(copy, NULL);
	if (!isfinite(value))
		return -1;
	*out = value;
	return 0;
}

int number_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out, const char *what,
	       struct error *err)
{
	uint64_t value;
	if (number_u64_span(text, strlen(text), &value) != 0)
		return error_set(err, ERROR_USAGE, what, "'%.80s' is not a whole number", text);
	if (value < min && max == UINT64_MAX)
		return error_set(err, ERROR_USAGE, what, "%.80s is less than %llu", text,
				 (unsigned long long)min);
	if (value < min || value > max)
		return error_set(err, ERROR_USAGE, what, "%.80s is not in %llu..%llu", text,
				 (unsigned long long)min, (unsigned long long)max);
	*out = value;
	return 0;
}

/* Says what is wrong with text that is almost a number. */
static const char *why_none(const char *text)
{
	size_t number = strspn(text, "0123456789.");
	if (strchr(text, ','))
		return ": write a point, not a comma, before the fraction";
	if (number > 0 && strcspn(text + number, "0123456789") == strlen(text + number))
		return ": write it without a unit";
	return "";
}

int number_real(const char *text, double min, double max, double *out, const char *what,
		struct error *err)
{
	double value;
	if (number_real_span(text, strlen(text), &value) != 0)
		return error_set(err, ERROR_USAGE, what, "'%.80s' is not a number%s", text,
				 why_none(text));
	if (value < min || value > max)
		return error_set(err, ERROR_USAGE, what, "%.80s is not in %g..%g", text, min, max);
	*out = value;
	return 0;
}

int number_seconds(const char *text, double min, double max, double *out, const char *what,
		   struct error *err)
{
	static const struct {
		char letter;
		double seconds;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
	size_t len = strlen(text);
	double value, unit = 1;
	for (size_t i = 0; len > 1 && i < sizeof units / sizeof *units; i++)
		if (text[len - 1] == units[i].letter) {
			unit = units[i].seconds;
			len--;
			break;
		}
	if (number_real_span(text, len, &value) != 0)
		return error_set(err, ERROR_USAGE, what,
				 "'%.80s' is not a number of seconds (suffixes are s, m, h, d)", text);
	if (value * unit < min || value * unit > max)
		return error_set(err, ERROR_USAGE, what, "%.80s is not in %g..%g s", text, min, max);
	*out = value * unit;
	return 0;
}

int number_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *out, const char *what,
		 struct error *err)
{
	size_t len = strlen(text);
	uint64_t factor = 1, value;
	if (len > 1) {
		switch (text[len - 1]) {
		case 'K':
			factor = 1ull << 10;
			break;
		case 'M':
			factor = 1ull << 20;
			break;
		case 'G':
			factor = 1ull << 30;
			break;
		case 'T':
			factor = 1ull << 40;
			break;
		}
	}
	if (number_u64_span(text, len - (factor > 1), &value) != 0 ||
	    __builtin_mul_overflow(value, factor, &value))
		return error_set(err, ERROR_USAGE, what, "'%.80s' is not a size in bytes", text);
	if (value < min || value > max)
		return error_set(err, ERROR_USAGE, what, "%.80s is not in %llu..%llu bytes", text,
				 (unsigned long long)min, (unsigned long long)max);
	*out = value;
	return 0;
}

size_t number_format_u64(uint64_t x, char *out)
{
	char digits[20];
	size_t n = 0;
	do
		digits[n++] = (char)('0' + x % 10);
	while ((x /= 10) != 0);
	for (size_t i = 0; i < n; i++)
		out[i] = digits[n - 1 - i];
	out[n] = '\0';
	return n;
}

size_t number_format_real(double x, char *out)
{
	static const int precision[] = {6, 9, 17};
	int n = 0;
	for (size_t i = 0; i < sizeof precision / sizeof *precision; i++) {
		n = snprintf(out, 32, "%.*g", precision[i], x);
		if (strtod(out, NULL) == x)
			break;
	}
	return (size_t)n;
}

__extension__ typedef unsigned __int128 number_wide;

/* x times 10^decimals, to the nearest whole number, of two the even one, exactly: for x below 2^53, and
 * decimals up to 12, so that the product fits. */
static uint64_t number_scaled(double x, unsigned decimals)
{
	static const uint64_t power[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000,
					 1000000000, 10000000000, 100000000000, 1000000000000};
	int exponent;
	number_wide product = (uint64_t)ldexp(frexp(x, &exponent), 53);
	unsigned shift = (unsigned)(53 - exponent); /* at least 1 but for the greatest x */
	product *= power[decimals];
	if (shift == 0 || shift > 126)
		return shift == 0 ? (uint64_t)product : 0;
	uint64_t whole = (uint64_t)(product >> shift);
	number_wide half = (number_wide)1 << (shift - 1), rest = product & (2 * half - 1);
	return whole + (rest > half || (rest == half && (whole & 1)));
}

/* With so many digits behind the point. */
static size_t number_put_point(uint64_t scaled, unsigned decimals, char *out)
{
	char digits[24];
	size_t n = number_format_u64(scaled, digits), at = 0;
	if (n <= decimals) {
		memset(out, '0', decimals + 1 - n);
		at = decimals + 1 - n;
	}
	memcpy(out + at, digits, n + 1);
	n += at;
	memmove(out + n - decimals + 1, out + n - decimals, decimals + 1);
	out[n - decimals] = '.';
	return n + 1;
}

size_t number_format_seconds(double x, char *out)
{
	double size = fabs(x);
	if (!(size < 1e13)) /* times since 1970 are below, and millionths fit 64 bits */
		return (size_t)snprintf(out, NUMBER_TEXT_MAX, "%.6f", x);
	*out = '-';
	int sign = signbit(x) != 0;
	return (size_t)sign + number_put_point(number_scaled(size, 6), 6, out + sign);
}

size_t number_format_brief(double x, char *out)
{
	/* The doubles at these bounds are not below what they stand for. */
	static const double bound[] = {1e-2, 1e-1, 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7};
	double size = fabs(x);
	unsigned decimals = 11;
	if (!(size >= 1e-3 && size < 1e8))
		return (size_t)snprintf(out, NUMBER_TEXT_MAX, "%.9g", x);
	while (decimals > 1 && size >= bound[11 - decimals])
		decimals--;
	uint64_t scaled = number_scaled(size, decimals);
	for (; decimals > 0 && scaled % 10 == 0; scaled /= 10)
		decimals--;
	size_t sign = x < 0;
	*out = '-';
	return sign + (decimals > 0 ? number_put_point(scaled, decimals, out + sign)
				    : number_format_u64(scaled, out + sign));
}

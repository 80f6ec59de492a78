/* human: see human.h. */
#include "base/human.h"

#include <math.h>
#include <stdio.h>

#define MINUTE 60ull
#define HOUR 3600ull
#define DAY 86400ull

static const char *unknown(char *out)
{
	snprintf(out, HUMAN_MAX, "-");
	return out;
}

/* How many digits behind the point make three in all, for x in [0, 1000). */
static int behind_point(double x)
{
	return x < 9.995 ? 2 : x < 99.95 ? 1 : 0;
}

const char *human_count(double x, char out[HUMAN_MAX])
{
	static const char *const unit[] = {"", "k", "M", "G", "T", "P", "E"};
	const size_t units = sizeof unit / sizeof *unit;
	double size = fabs(x);
	size_t u = 0;
	if (!isfinite(x))
		return unknown(out);
	if (size < 1000 && size == floor(size)) {
		snprintf(out, HUMAN_MAX, "%.0f", x);
		return out;
	}
	for (; size >= 999.5 && u + 1 < units; u++)
		size /= 1000;
	if (size >= 999.5)
		snprintf(out, HUMAN_MAX, "%.3g", x);
	else if (u == 0 && size < 0.1)
		snprintf(out, HUMAN_MAX, "%.2g", x);
	else
		snprintf(out, HUMAN_MAX, "%s%.*f%s", x < 0 ? "-" : "", behind_point(size), size,
			 unit[u]);
	return out;
}

const char *human_bytes(double bytes, char out[HUMAN_MAX])
{
	static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	const size_t units = sizeof unit / sizeof *unit;
	size_t u = 0;
	if (!isfinite(bytes) || bytes < 0)
		return unknown(out);
	for (; bytes >= (u == 0 ? 1024 : 1023.5) && u + 1 < units; u++)
		bytes /= 1024;
	snprintf(out, HUMAN_MAX, bytes < 1e15 ? "%.*f %s" : "%.*e %s", u > 0 && bytes < 9.95, bytes,
		 unit[u]);
	return out;
}

const char *human_real(double x, int digits, char out[HUMAN_MAX])
{
	double least = x == 0 ? 1 : fabs(x) * pow(10, digits);
	if (!isfinite(x))
		return unknown(out);
	snprintf(out, HUMAN_MAX, fabs(x) < 1e6 && least >= 1 ? "%.*f" : "%.*g",
		 digits < 9 ? digits : 9, x);
	return out;
}

const char *human_percent(double part, char out[HUMAN_MAX])
{
	if (!isfinite(part) || part < 0)
		return unknown(out);
	double percent = floor(100 * part + 1e-9);
	snprintf(out, HUMAN_MAX, percent < 1e6 ? "%.0f%%" : "%.3g%%", percent);
	return out;
}

/* Below a minute; brief: without the blank. */
static int format_short(double seconds, const char *blank, char *out)
{
	if (seconds <= 0)
		return snprintf(out, HUMAN_MAX, "0%ss", blank);
	if (seconds < 0.0009995)
		return snprintf(out, HUMAN_MAX, "%.3g%sus", ceil(seconds * 1e6), blank);
	if (seconds < 0.9995)
		return snprintf(out, HUMAN_MAX, "%.*f%sms", seconds < 0.00995, seconds * 1e3,
				blank);
	if (seconds < 59.5)
		return snprintf(out, HUMAN_MAX, "%.*f%ss", seconds < 9.95, seconds, blank);
	return 0;
}

/* A minute or more, in its two largest units. */
struct two {
	unsigned long long many, few; /* of the greater unit, of the lesser one */
	const char *great, *less, *great_brief, *less_brief;
};

static struct two two_units(double seconds)
{
	unsigned long long s = (unsigned long long)(seconds + 0.5);
	unsigned long long m = (s + MINUTE / 2) / MINUTE, h = (s + HOUR / 2) / HOUR;
	if (s < HOUR)
		return (struct two){s / 60, s % 60, "min", "s", "m", "s"};
	if (m * MINUTE < DAY)
		return (struct two){m / 60, m % 60, "h", "min", "h", "m"};
	return (struct two){h / 24, h % 24, "d", "h", "d", "h"};
}

const char *human_time(double seconds, char out[HUMAN_MAX])
{
	if (isnan(seconds) || seconds > 1e12)
		return unknown(out);
	if (format_short(seconds, " ", out) > 0)
		return out;
	struct two t = two_units(seconds);
	if (t.few == 0 || t.many > 99999)
		snprintf(out, HUMAN_MAX, "%llu %s", t.many, t.great);
	else
		snprintf(out, HUMAN_MAX, "%llu %s %llu %s", t.many, t.great, t.few, t.less);
	return out;
}

const char *human_wait(double seconds, char out[HUMAN_MAX])
{
	if (!(seconds < 9.95))
		return human_time(seconds, out);
	snprintf(out, HUMAN_MAX, "%.0f s", seconds > 0 ? seconds : 0);
	return out;
}

const char *human_time_brief(double seconds, char out[HUMAN_MAX])
{
	if (isnan(seconds) || seconds > 1e12)
		return unknown(out);
	if (format_short(seconds, "", out) > 0)
		return out;
	struct two t = two_units(seconds);
	if (t.many > 999)
		snprintf(out, HUMAN_MAX, "%llu%s", t.many, t.great_brief);
	else
		snprintf(out, HUMAN_MAX, "%llu%s%02llu%s", t.many, t.great_brief, t.few,
			 t.less_brief);
	return out;
}

/* summary: see summary.h. */
#include "screen/summary.h"

#include "base/human.h"
#include "record/scores.h"
#include "screen/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 1400

struct lines {
	struct screen_line *line;
	size_t count, width;
};

static const char *summary_value(const struct record *r, const char *key)
{
	const char *text = record_get(r, key);
	return text ? text : "";
}

static double summary_real(const struct record *r, const char *key)
{
	double x;
	return record_real(r, key, -1e300, 1e300, &x, NULL) == 0 ? x : NAN;
}

static uint64_t summary_count(const struct record *r, const char *key)
{
	uint64_t n = 0;
	record_u64_opt(r, key, 0, UINT64_MAX, &n, NULL);
	return n;
}

__attribute__((format(printf, 3, 4))) static void
summary_put(struct lines *l, enum screen_tint tint, const char *format, ...)
{
	char text[TEXT_MAX], clean[TEXT_MAX];
	va_list ap;
	if (l->count == SUMMARY_LINES)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	text_clean(text, clean, sizeof clean);
	struct screen_line *line = &l->line[l->count++];
	text_words(clean, l->width, line->text, sizeof line->text);
	line->tint = tint;
	line->from = 0;
	line->len = tint == TINT_NONE ? 0 : strlen(line->text);
}

static void put_end(struct lines *l, const struct record *r)
{
	char time[HUMAN_MAX], samples[HUMAN_MAX], restarts[64] = "", took[64] = "";
	const char *state = summary_value(r, "state"), *ended = summary_value(r, "ended");
	double ran = summary_real(r, "time");
	uint64_t n = summary_count(r, "restarts");
	if (n > 0)
		snprintf(restarts, sizeof restarts, ", %llu restart%s", (unsigned long long)n,
			 n > 1 ? "s" : "");
	const char *early = strcmp(ended, "max-time") == 0   ? "ended by MAX_TIME"
			    : strcmp(ended, "patience") == 0 ? "ended by EVAL patience"
			    : strcmp(ended, "enough") == 0   ? "ended by its trainer, as trained enough"
							     : NULL;
	if (!isnan(ran))
		snprintf(took, sizeof took, " %s %s",
			 strcmp(state, "done") == 0 && !early ? "in" : "after",
			 human_time(ran, time));
	if (early)
		state = early;
	summary_put(l, strcmp(state, "failed") == 0 ? TINT_BAD : TINT_STRONG,
		    "%s: %s%s, %s samples%s%s", summary_value(r, "job"), state[0] ? state : "over",
		    took, human_count(summary_real(r, "samples"), samples), restarts,
		    strcmp(state, "stopped") == 0 ? "; the same command goes on" : "");
}

static void put_failure(struct lines *l, const struct record *r)
{
	if (summary_value(r, "failed")[0] && summary_value(r, "signal")[0])
		summary_put(l, TINT_BAD, "%s ended by signal %s", summary_value(r, "failed"),
			    summary_value(r, "signal"));
	else if (summary_value(r, "failed")[0])
		summary_put(l, TINT_BAD, "%s ended with status %s", summary_value(r, "failed"),
			    summary_value(r, "status"));
	if (summary_count(r, "held") > 0)
		summary_put(l, TINT_BAD, "%llu of %llu shards held, not in the model: %s",
			    (unsigned long long)summary_count(r, "held"),
			    (unsigned long long)summary_count(r, "shards"),
			    summary_value(r, "held-ids"));
}

static void put_score(struct lines *l, const struct record *r)
{
	double value[SCORES];
	char text[200];
	scores_take(r, value);
	scores_text(value, text, sizeof text);
	if (strcmp(summary_value(r, "score"), "failed") == 0)
		summary_put(l, TINT_BAD,
			    "the scoring of TEST failed; `trainctl run` scores it again");
	if (strcmp(summary_value(r, "after-loop"), "failed") == 0)
		summary_put(l, TINT_BAD,
			    "what follows the trainers' loops failed; `trainctl run` does it again");
	if (text[0])
		summary_put(l, TINT_NONE, "TEST: %s", text);
}

size_t summary_lines(const struct record *r, size_t width, struct screen_line line[SUMMARY_LINES])
{
	struct lines l = {line, 0, width < SCREEN_WIDTH_MAX ? width : SCREEN_WIDTH_MAX};
	char rows[HUMAN_MAX];
	put_end(&l, r);
	put_score(&l, r);
	put_failure(&l, r);
	if (summary_count(r, "repeated") > 0)
		summary_put(&l, TINT_NONE,
			    "%s samples trained again, after going back to a checkpoint",
			    human_count((double)summary_count(r, "repeated"), rows));
	if (summary_count(r, "bad-rows") > 0)
		summary_put(&l, TINT_NONE, "%s bad rows left out",
			    human_count((double)summary_count(r, "bad-rows"), rows));
	return l.count;
}

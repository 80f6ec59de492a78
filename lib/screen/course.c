/* course: see course.h. */
#include "screen/course.h"

#include "base/human.h"
#include "screen/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BAR_LEAST 5
#define BAR_MOST 50
#define LEFT_STEADY 60 /* columns from which on the bar does not move as the time gets shorter */
#define WHY_LEAST 21   /* columns: fewer say nothing */
#define EVEN 1.1       /* times the mean: less is nothing to look at */
#define SLOW 1.3       /* times the mean: worth a look */

void course_init(struct course *c)
{
	*c = (struct course){.loss = NAN,
			     .samples = NAN,
			     .total = NAN,
			     .rate = NAN,
			     .eta = NAN,
			     .ratio = NAN,
			     .told_age = NAN};
}

static void course_take_text(const struct record *r, const char *key, char *out, size_t max)
{
	const char *text = record_get(r, key);
	if (text)
		text_clean(text, out, max);
}

void course_take(struct course *c, const struct record *r)
{
	const struct {
		const char *key;
		double *at;
	} real[] = {{"loss", &c->loss},     {"samples-done", &c->samples},
		    {"samples", &c->total}, {"samples-per-second", &c->rate},
		    {"eta", &c->eta},       {"ratio", &c->ratio}};
	const struct {
		const char *key;
		uint64_t *at;
	} count[] = {{"iteration", &c->iteration},
		     {"epoch", &c->epoch},
		     {"epochs", &c->epochs},
		     {"restarts", &c->restarts},
		     {"held", &c->held}};
	for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
		const char *text = record_get(r, real[i].key);
		if (text && !text[0])
			*real[i].at = NAN;
		else if (text)
			record_real(r, real[i].key, -1e300, 1e300, real[i].at, NULL);
	}
	for (size_t i = 0; i < sizeof count / sizeof *count; i++)
		record_u64_opt(r, count[i].key, 0, UINT64_MAX, count[i].at, NULL);
	course_take_text(r, "state", c->state, sizeof c->state);
	course_take_text(r, "slowest", c->slowest, sizeof c->slowest);
	course_take_text(r, "why", c->waits, sizeof c->waits);
}

const char *course_state(const char *state)
{
	static const struct {
		const char *state, *words;
	} word[] = {{"services", "starting"},
		    {"rollback", "going back to the last checkpoint"},
		    {"servers", "starting"},
		    {"first-cut", "first checkpoint"},
		    {"winding", "workers finish"},
		    {"last-cut", "last checkpoint"},
		    {"finishing", "finishing"},
		    {"stopping", "stopping"},
		    {"scoring", "scoring TEST"},
		    {"over", "over"},
		    {"", "running"}};
	for (size_t i = 0; i < sizeof word / sizeof *word; i++)
		if (strcmp(word[i].state, state) == 0)
			return word[i].words;
	return state;
}

void course_ago(double seconds, char *out, size_t max)
{
	static const struct {
		double seconds;
		const char *name;
	} unit[] = {{86400, "d"}, {3600, "h"}, {60, "min"}};
	for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
		if (seconds >= unit[i].seconds) {
			snprintf(out, max, "%.0f %s ago", floor(seconds / unit[i].seconds),
				 unit[i].name);
			return;
		}
	if (isnan(seconds))
		snprintf(out, max, "once");
	else
		snprintf(out, max, "%.0f s ago", seconds > 0 ? floor(seconds) : 0);
}

static int course_runs(const struct course *c)
{
	return !c->state[0] || strcmp(c->state, "running") == 0;
}

/* ---- the first line: how long, and how much of it is done ---- */

static double part_done(const struct course *c)
{
	double part = c->total > 0 ? c->samples / c->total : NAN;
	return part > 1 ? 1 : part;
}

/* The long form and the brief one. */
static void say_left(const struct course *c, char *text, char *brief, size_t max)
{
	char time[HUMAN_MAX];
	if (c->waits[0]) {
		snprintf(text, max, "waits");
		snprintf(brief, max, "%s", text);
	} else if (!course_runs(c)) {
		snprintf(text, max, "%s", course_state(c->state));
		snprintf(brief, max, "%s", text);
	} else if (isnan(c->eta)) {
		snprintf(text, max, "time left not known yet");
		snprintf(brief, max, "time left: ?");
	} else {
		double left = ceil(c->eta); /* a part of a second is nothing to wait for */
		snprintf(text, max, "%s left", human_wait(left, time));
		if (left < 10)
			snprintf(brief, max, "%s", text);
		else
			snprintf(brief, max, "%s left", human_time_brief(left, time));
	}
}

static void first_line(const struct course *c, size_t width, int blocks, struct screen_line *line)
{
	char text[64], brief[64], part[HUMAN_MAX], bar[4 * BAR_MOST + 1] = ""; /* of UTF-8 */
	double done = part_done(c);
	say_left(c, text, brief, sizeof text);
	human_percent(done, part);
	const size_t behind = isnan(done) ? 0 : 1 + 4; /* " 100%" */
	size_t need = behind + LINE_GAP + BAR_LEAST;
	const char *left = strlen(text) + need <= width ? text : brief;
	size_t wide = strlen(left);
	if (width >= LEFT_STEADY && wide < 17)
		wide = 17;
	if (behind == 0 || wide + need > width) {
		const struct piece piece[] = {{{text, brief}, 1, 8, 0},
					      PIECE(behind ? part : NULL)};
		line_fit(piece, 2, width, line->text, sizeof line->text);
	} else {
		size_t room = width - wide - need + BAR_LEAST;
		text_bar(done, room < BAR_MOST ? room : BAR_MOST, blocks, bar, sizeof bar);
		snprintf(line->text, sizeof line->text, "%-*s%*s%s %4s", (int)wide, left, LINE_GAP,
			 "", bar, part);
	}
	line->tint = TINT_STRONG;
	line->from = 0;
	line->len = strlen(left) < strlen(line->text) ? strlen(left) : strlen(line->text);
}

/* ---- the others ---- */

#define FORM_MAX 192

struct words {
	struct piece piece[8];
	char text[8][PIECE_FORMS][FORM_MAX];
	size_t count;
};

__attribute__((format(printf, 3, 4))) static void course_say(struct words *w, int form,
							     const char *format, ...)
{
	va_list ap;
	char *out = w->text[w->count][form];
	va_start(ap, format);
	vsnprintf(out, FORM_MAX, format, ap);
	va_end(ap);
	w->piece[w->count].form[form] = out;
}

static void say_numbers(const struct course *c, struct words *w)
{
	char number[HUMAN_MAX], other[HUMAN_MAX];
	if (!isnan(c->loss)) {
		course_say(w, 0, "loss %s", human_real(c->loss, 4, number));
		w->count++;
	}
	if (!isnan(c->rate)) {
		course_say(w, 0, "%s samples/s", human_count(c->rate, number));
		course_say(w, 1, "%s/s", number);
		w->count++;
	}
	if (c->epoch > 0) {
		course_say(w, 0, "epoch %llu/%llu", (unsigned long long)c->epoch,
			   (unsigned long long)c->epochs);
		w->count++;
	}
	if (c->held > 0) {
		course_say(w, 0, "%llu shards held", (unsigned long long)c->held);
		w->count++;
	}
	if (c->restarts > 0) {
		course_say(w, 0, "%llu restart%s", (unsigned long long)c->restarts,
			   c->restarts > 1 ? "s" : "");
		w->piece[w->count++].extra = 1;
	}
	if (c->total > 0 && !isnan(c->samples)) {
		course_say(w, 0, "%s of %s samples", human_count(c->samples, number),
			   human_count(c->total, other));
		w->piece[w->count++].extra = 1;
	}
	if (c->iteration > 0) {
		course_say(w, 0, "step %llu", (unsigned long long)c->iteration);
		w->piece[w->count++].extra = 1;
	}
}

static void say_slowest(const struct course *c, struct words *w)
{
	char ratio[HUMAN_MAX], ago[64];
	if (!c->slowest[0] || isnan(c->ratio))
		return;
	if (c->ratio < EVEN) { /* whose name would be another one each second */
		course_say(w, 0, "no worker is slow");
		w->count++;
		return;
	}
	human_real(c->ratio, 2, ratio);
	course_say(w, 0, "slowest %s: %sx the mean", c->slowest, ratio);
	course_say(w, 1, "%s: %sx the mean", c->slowest, ratio);
	course_say(w, 2, "%s %sx", c->slowest, ratio);
	w->count++;
	if (c->why[0]) {
		course_say(w, 0, "%s", c->why);
		w->piece[w->count].words = 1;
		w->piece[w->count++].least = WHY_LEAST;
	}
	if (c->told[0]) {
		course_ago(c->told_age, ago, sizeof ago);
		course_say(w, 0, "%s, %s", c->told, ago);
		w->piece[w->count++].extra = 1;
	}
}

/* The line takes all of its words in their longest forms. */
static size_t whole_width(const struct words *w)
{
	size_t width = 0;
	for (size_t i = 0; i < w->count; i++)
		width += text_width(w->piece[i].form[0]) + (i ? LINE_GAP : 0);
	return width;
}

static void mark(struct screen_line *line, const char *word, enum screen_tint tint)
{
	const char *at = strstr(line->text, word);
	if (!at)
		return;
	line->tint = tint;
	line->from = (size_t)(at - line->text);
	line->len = strlen(word);
}

static void mark_slowest(const struct course *c, struct screen_line *line)
{
	char ratio[HUMAN_MAX + 2], number[HUMAN_MAX];
	if (!(c->ratio >= SLOW))
		return;
	snprintf(ratio, sizeof ratio, "%sx", human_real(c->ratio, 2, number));
	mark(line, ratio, TINT_SLOW);
}

static void say_waits(const struct course *c, size_t width, struct screen_line *line)
{
	char text[COURSE_WAITS_MAX + 32];
	snprintf(text, sizeof text, "the job waits: %s", c->waits);
	text_words(text, width, line->text, SCREEN_LINE_MAX);
	mark(line, line->text, TINT_BAD);
}

size_t course_lines(const struct course *c, size_t width, int blocks,
		    struct screen_line line[COURSE_LINES])
{
	static const struct words nothing;
	struct words numbers = nothing, slowest = nothing;
	size_t count = 1;
	width = width < SCREEN_WIDTH_MAX ? width : SCREEN_WIDTH_MAX;
	for (size_t i = 0; i < COURSE_LINES; i++)
		line[i].text[0] = '\0', line[i].tint = TINT_NONE, line[i].from = line[i].len = 0;
	first_line(c, width, blocks, &line[0]);
	say_numbers(c, &numbers);
	if (!c->waits[0])
		say_slowest(c, &slowest);
	if (numbers.count > 0)
		line_fit(numbers.piece, numbers.count, width, line[count++].text, SCREEN_LINE_MAX);
	if (c->waits[0]) {
		say_waits(c, width, &line[count]);
		return count + 1;
	}
	size_t used = numbers.count ? text_width(line[count - 1].text) : 0;
	if (slowest.count == 0)
		return count;
	if (used > 0 && used == whole_width(&numbers) &&
	    used + LINE_GAP + whole_width(&slowest) <= width) {
		char more[SCREEN_LINE_MAX];
		line_fit(slowest.piece, slowest.count, width - used - LINE_GAP, more, sizeof more);
		size_t at = strlen(line[count - 1].text);
		snprintf(line[count - 1].text + at, SCREEN_LINE_MAX - at, "%*s%s", LINE_GAP, "",
			 more);
	} else
		line_fit(slowest.piece, slowest.count, width, line[count++].text, SCREEN_LINE_MAX);
	mark_slowest(c, &line[count - 1]);
	return count;
}

void course_row(const struct course *c, size_t width, char *out, size_t max)
{
	static const struct words nothing;
	struct words w = nothing;
	char number[HUMAN_MAX];
	char text[64], brief[64];
	say_left(c, text, brief, sizeof text);
	course_say(&w, 0, "step %llu", (unsigned long long)c->iteration);
	w.count++;
	if (!isnan(c->eta)) {
		course_say(&w, 0, "%s", text);
		course_say(&w, 1, "%s", brief);
		w.count++;
	}
	if (!isnan(c->loss)) {
		course_say(&w, 0, "loss %s", human_real(c->loss, 4, number));
		w.count++;
	}
	if (!isnan(c->rate)) {
		course_say(&w, 0, "%s samples/s", human_count(c->rate, number));
		course_say(&w, 1, "%s/s", number);
		w.count++;
	}
	if (c->ratio >= EVEN)
		say_slowest(c, &w);
	line_fit(w.piece, w.count, width < SCREEN_WIDTH_MAX ? width : SCREEN_WIDTH_MAX, out, max);
}

/* pulse: see pulse.h. No clock, no process: the same ticks, the same answer. */
#include "monitor/pulse.h"

#include "base/number.h"

#include <math.h>
#include <string.h>

#define SECONDS_MAX 1e9
#define WEIGHT 0.25 /* weight of the newest time in the usual time */
#define FADES 0.99  /* the longest time decays by this factor with each piece of work */

static const char *const section_name[PULSE_SECTIONS] = {"start", "batch", "exchange",
							 "checkpoint", "hand-over", "pause"};

const char *pulse_section_name(enum pulse_section section)
{
	return section_name[section];
}

/* ---- rules ---- */

static void pulse_set(struct pulse_rules *rules, enum pulse_section section, double seconds)
{
	rules->least[section] = seconds;
	rules->fixed[section] = 1;
}

static int pulse_section_of(const char *word, size_t len, enum pulse_section *section)
{
	for (int i = 0; i < PULSE_SECTIONS; i++)
		if (strlen(section_name[i]) == len && memcmp(section_name[i], word, len) == 0) {
			*section = (enum pulse_section)i;
			return 0;
		}
	return -1;
}

static int pulse_take_word(struct pulse_rules *rules, const struct pulse_rules *usual, char *word,
			   struct error *err)
{
	enum pulse_section section = PULSE_BATCH;
	char *colon = strchr(word, ':'), *number = colon ? colon + 1 : word;
	double seconds = INFINITY;
	if (colon && pulse_section_of(word, (size_t)(colon - word), &section) != 0)
		return error_set(err, ERROR_CONFIG, NULL,
				 "'%.40s' is none of start, batch, exchange, checkpoint, hand-over, "
				 "pause",
				 word);
	if (strcmp(number, "auto") == 0) {
		if (!colon)
			*rules = *usual;
		rules->least[section] = usual->least[section];
		rules->fixed[section] = usual->fixed[section];
		return 0;
	}
	if (strcmp(number, "never") != 0 &&
	    number_real(number, 0, SECONDS_MAX, &seconds, NULL, NULL) != 0)
		return error_set(err, ERROR_CONFIG, NULL,
				 "'%.40s' is neither seconds nor never nor auto", number);
	if (!(seconds > 0))
		seconds = INFINITY;
	pulse_set(rules, section, seconds);
	if (colon)
		return 0;
	pulse_set(rules, PULSE_EXCHANGE, seconds);
	/* A checkpoint does not make a wait shorter. */
	if (seconds > rules->least[PULSE_CHECKPOINT])
		pulse_set(rules, PULSE_CHECKPOINT, seconds);
	for (int i = 0; isinf(seconds) && i < PULSE_SECTIONS; i++)
		pulse_set(rules, (enum pulse_section)i, seconds);
	return 0;
}

/* A limit for one section wins over a limit for several, in any order. */
int pulse_rules_parse(struct pulse_rules *rules, const char *text, struct error *err)
{
	const struct pulse_rules usual = *rules;
	for (int of_one = 0; of_one < 2; of_one++) {
		char copy[256], *rest = copy, *word;
		if (strlen(text) >= sizeof copy)
			return error_set(err, ERROR_CONFIG, NULL, "is longer than %zu bytes",
					 sizeof copy - 1);
		strcpy(copy, text);
		while (text[0] && (word = strsep(&rest, ",")))
			if ((strchr(word, ':') != NULL) == of_one &&
			    pulse_take_word(rules, &usual, word, err) != 0)
				return -1;
	}
	return 0;
}

/* ---- a pulse ---- */

void pulse_rest(struct pulse *p)
{
	p->silent = p->busy = 0;
}

void pulse_begin(struct pulse *p)
{
	pulse_rest(p);
	p->begun = 0;
}

void pulse_tick(struct pulse *p, double seconds, int owes)
{
	if (!owes)
		return;
	seconds = seconds < PULSE_TICK_MAX ? seconds : PULSE_TICK_MAX;
	p->silent += seconds;
	p->busy += seconds;
}

void pulse_sign(struct pulse *p)
{
	p->silent = 0;
}

void pulse_resume(struct pulse *p)
{
	pulse_rest(p);
	p->begun = 1;
}

void pulse_work(struct pulse *p, uint64_t units)
{
	double each = p->busy / (double)(units ? units : 1);
	p->longest *= FADES;
	if (p->busy > p->longest)
		p->longest = p->busy;
	p->usual = p->usual > 0 ? p->usual + WEIGHT * (each - p->usual) : each;
	pulse_rest(p);
	p->begun = 1;
}

double pulse_limit(const struct pulse *p, const struct pulse_rules *rules,
		   enum pulse_section section, uint64_t units)
{
	double limit = rules->least[section];
	if (rules->fixed[section])
		return limit;
	limit = fmax(limit, PULSE_TIMES * p->usual * (double)(units ? units : 1));
	return fmax(limit, PULSE_LONGEST * p->longest);
}

int pulse_hung(const struct pulse *p, const struct pulse_rules *rules, enum pulse_section section,
	       uint64_t units)
{
	return p->silent > pulse_limit(p, rules, section, units);
}

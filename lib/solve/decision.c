/* decision: see decision.h. */
#include "solve/decision.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int decision_add(struct decision *d, const struct action *a, size_t line, struct error *err)
{
	size_t room = d->room;
	if (GROW(d->item, room, d->count + 1) != 0 || GROW(d->line, d->room, d->count + 1) != 0)
		return error_set(err, ERROR_OS, "actions", "out of memory");
	d->item[d->count] = *a;
	d->line[d->count++] = line;
	return 0;
}

void decision_free(struct decision *d)
{
	free(d->item);
	free(d->line);
	*d = (struct decision){0};
}

/* A mistyped word must not leave half a decision. */
int decision_parse(struct decision *d, const char *text, size_t len, struct error *err)
{
	struct record_walk walk = record_walk(text, len);
	struct record r;
	struct action a;
	int got;
	while ((got = record_next(&walk, &r, err)) == RECORD_ONE)
		if (action_parse(&a, &r, err) != 0 || decision_add(d, &a, walk.number, err) != 0)
			break;
	if (got == RECORD_END)
		return 0;
	if (text[len - 1] != '\n' && walk.at == walk.end)
		error_set(err, ERROR_DATA, NULL, "ends in the middle");
	char why[sizeof err->text];
	memcpy(why, err->text, sizeof why);
	return error_set(err, err->code, NULL, "line %llu: %.900s", (unsigned long long)walk.number,
			 why);
}

const char *action_id(const struct action *a)
{
	return a->kind == ACTION_BACKUP_WORKERS ? "" : a->id;
}

const char *action_nonsense(const struct action *a, const struct decision_rules *rules, int is_known)
{
	switch (a->kind) {
	case ACTION_ADJUST_BS:
		if (rules->is_balanced)
			return "balanced";
		if (!is_known)
			return "unknown-node";
		return a->size == 0 || a->accum == 0 || a->size > NODE_BATCH_MAX ||
				       a->accum > NODE_BATCH_MAX / a->size
			       ? "size"
			       : NULL;
	case ACTION_ADJUST_LR:
		if (!rules->has_rate)
			return "no-rate";
		return is_known ? NULL : "unknown-node";
	case ACTION_BACKUP_WORKERS:
		if (a->count > 0 && rules->no_backup)
			return rules->no_backup;
		return a->count >= rules->workers ? "count" : NULL;
	case ACTION_KILL_RESTART:
		return is_known ? NULL : "unknown-node";
	case ACTION_NONE:
		break;
	}
	return NULL;
}

const char *action_nonsense_words(const char *word)
{
	static const char *const words[][2] = {
		{"balanced", "SOLUTION sets the sizes itself, at every barrier"},
		{"unknown-node", "there is no such worker or server"},
		{"size", "size= times accum= is 0, or more than a batch can be"},
		{"trainer", "no backup workers: the batches of a TRAINER are in its own parameters "
			    "already, and can't be left out"},
		{"sums", "no backup workers: a rank that is left out of an iteration lacks its step, and would "
			 "need the state of another rank, for which all wait"},
		{"no-rate", "MODEL=lda has no learning rate: it counts"},
		{"no-barrier", "no backup workers: only iterations of SYNC=bsp and SYNC=allreduce end for all "
			       "at once"},
		{"count", "as many as there are workers, or more"}};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(words[i][0], word) == 0)
			return words[i][1];
	return word;
}

char *decision_lead_lines(const struct decision *d, size_t max, size_t *count, struct error *err)
{
	char line[RECORD_LINE_MAX], *text = NULL;
	size_t len = 0;
	FILE *out = grow_stream(&text, &len);
	*count = 0;
	for (size_t i = 0; out && i < d->count; i++) {
		struct action a = d->item[i];
		if (a.kind == ACTION_NONE || a.kind == ACTION_KILL_RESTART)
			continue;
		a.reason[0] = '\0';
		action_format(&a, line, sizeof line);
		fputs(line, out);
		++*count;
	}
	if (!out || fclose(out) != 0) {
		free(text);
		error_set(err, ERROR_OS, "actions", "out of memory");
		return NULL;
	}
	if (len <= max)
		return text;
	free(text);
	error_set(err, ERROR_DATA, NULL, "more than %zu bytes of actions", max);
	return NULL;
}

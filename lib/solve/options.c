/* options: see options.h. Nothing here names an option but its row. */
#include "solve/options.h"

#include "base/number.h"
#include "monitor/node.h"
#include "record/record.h"
#include "solve/accum.h"

#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(struct solution_options, field)

static const struct solution_option table[] = {
	{"batch", SOLUTION_COUNT, 1, 0x1p53, "", AT(batch), "BATCH",
	 "global batch; else the sum of the sizes in the snapshot"},
	{"lambda", SOLUTION_REAL, 1, 1e9, "1.3", AT(lambda), "SOLUTION lambda",
	 "a node is slow when its time is so many times the mean"},
	{"pending", SOLUTION_REAL, 0, 1e9, "60", AT(pending), "SOLUTION pending",
	 "the cluster is busy when a new node waits so many seconds"},
	{"sync", SOLUTION_SYNC, 0, 0, "", AT(sync), "SYNC",
	 "bsp, ssp or asp; else as the snapshot says, or bsp"},
	{"limit", SOLUTION_COUNT, 0, 1 << 20, "3", AT(limit), "KILL_RESTART",
	 "most intended restarts of a node"},
	{"cmax", SOLUTION_COUNT, 1, ACCUM_STEPS_MAX, "5", AT(cmax), "SOLUTION cmax",
	 "most accumulation steps of a batch (antdt-dd)"},
	{"least", SOLUTION_COUNT, 1, NODE_BATCH_MAX, "1", AT(least), "SOLUTION least",
	 "fewest samples in a step of a worker"},
};
#define ROWS (sizeof table / sizeof *table)
_Static_assert(ROWS <= SOLUTION_OPTIONS_MAX, "SOLUTION_OPTIONS_MAX is too small");

static const struct {
	const char *word;
	enum solution_sync sync;
} syncs[] = {{"allreduce", SYNC_BSP}, /* to a solution they are one: a barrier */
	     {"bsp", SYNC_BSP},
	     {"ssp", SYNC_SSP},
	     {"asp", SYNC_ASP}};

const struct solution_option *solution_option(size_t i)
{
	return i < ROWS ? &table[i] : NULL;
}

int solution_sync_of(const char *word, enum solution_sync *out)
{
	size_t len = strncmp(word, "ssp:", 4) == 0 ? 3 : strlen(word);
	for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++)
		if (len == strlen(syncs[i].word) && strncmp(syncs[i].word, word, len) == 0) {
			*out = syncs[i].sync;
			return 0;
		}
	return -1;
}

int solution_option_set(const struct solution_option *row, struct solution_options *o,
			const char *value, struct error *err)
{
	void *field = (char *)o + row->at;
	switch (row->kind) {
	case SOLUTION_COUNT:
		return number_u64(value, (uint64_t)row->min, (uint64_t)row->max, field, row->key,
				  err);
	case SOLUTION_REAL:
		return number_real(value, row->min, row->max, field, row->key, err);
	case SOLUTION_SYNC:
		if (solution_sync_of(value, field) == 0)
			return 0;
		break;
	}
	return error_set(err, ERROR_USAGE, row->key, "'%.32s' is none of bsp|ssp|asp|allreduce", value);
}

void solution_options_init(struct solution_options *o)
{
	*o = (struct solution_options){.number = 1};
	for (size_t i = 0; i < ROWS; i++)
		if (table[i].given[0])
			solution_option_set(&table[i], o, table[i].given, NULL);
}

int solution_options_set(struct solution_options *o, const char *assignment, struct error *err)
{
	const char *equals = strchr(assignment, '=');
	char known[256] = "", key[32];
	if (!equals)
		return error_set(err, ERROR_USAGE, assignment, "is not KEY=VALUE");
	snprintf(key, sizeof key, "%.*s", (int)(equals - assignment), assignment);
	for (size_t i = 0; i < ROWS; i++) {
		if (strcmp(table[i].key, key) == 0)
			return solution_option_set(&table[i], o, equals + 1, err);
		snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
			 i > 0 ? ", " : "", table[i].key);
	}
	return error_set(err, ERROR_USAGE, key, "is no option of a solution: %s", known);
}

size_t solution_option_format(const struct solution_option *row, const struct solution_options *o,
			      char out[SOLUTION_OPTION_TEXT_MAX])
{
	const void *field = (const char *)o + row->at;
	out[0] = '\0';
	if (row->kind == SOLUTION_REAL)
		number_format_real(*(const double *)field, out);
	else if (row->kind == SOLUTION_COUNT && (row->given[0] || *(const uint64_t *)field > 0))
		number_format_u64(*(const uint64_t *)field, out);
	for (size_t i = 0; row->kind == SOLUTION_SYNC && i < sizeof syncs / sizeof *syncs; i++)
		if (*(const enum solution_sync *)field == syncs[i].sync)
			strcpy(out, syncs[i].word);
	return strlen(out);
}

void solution_options_add(struct record_out *o, const struct solution_options *options)
{
	char value[SOLUTION_OPTION_TEXT_MAX];
	for (size_t i = 0; i < ROWS; i++)
		if (solution_option_format(&table[i], options, value) > 0)
			record_add(o, table[i].key, value);
}

void solution_options_arguments(const struct solution_options *o, struct solution_arguments *out)
{
	char value[SOLUTION_OPTION_TEXT_MAX];
	size_t n = 0;
	for (size_t i = 0; i < ROWS; i++)
		if (solution_option_format(&table[i], o, value) > 0) {
			snprintf(out->text[n], sizeof out->text[n], "%s=%s", table[i].key, value);
			out->item[n] = out->text[n];
			n++;
		}
	out->item[n] = NULL;
}

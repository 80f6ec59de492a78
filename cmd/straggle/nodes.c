/* nodes: lists of ids, as people write them: w0,w1,ps0 or w0..w19. */
#include "cmd/straggle.h"

#include "base/grow.h"
#include "base/number.h"
#include "base/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 4096

static int add_one(struct nodes *n, const char *id, const char *option, struct error *err)
{
	if (!option_id_ok(id))
		return error_set(err, ERROR_USAGE, option,
				 "'%.80s' is no id (1 to 64 of letters, digits, . _ -)", id);
	for (size_t i = 0; i < n->count; i++)
		if (strcmp(n->id[i], id) == 0)
			return error_set(err, ERROR_USAGE, option, "%s appears twice", id);
	if (n->count == NODES_MAX)
		return error_set(err, ERROR_USAGE, option, "more than %d nodes", NODES_MAX);
	if (GROW(n->id, n->room, n->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	snprintf(n->id[n->count++], sizeof *n->id, "%.64s", id);
	return 0;
}

/* "w3..w7": the same letters, and numbers behind them. */
static int is_range(const char *word, size_t *prefix, uint64_t *first, uint64_t *last)
{
	static const char digits[] = "0123456789";
	const char *dots = strstr(word, "..");
	size_t letters = dots ? strcspn(word, digits) : 0;
	if (!dots || letters >= (size_t)(dots - word) || strncmp(word, dots + 2, letters) != 0)
		return 0;
	const char *from = word + letters, *to = dots + 2 + letters;
	*prefix = letters;
	return number_u64_span(from, (size_t)(dots - from), first) == 0 &&
	       number_u64_span(to, strlen(to), last) == 0;
}

static int add_word(struct nodes *n, const char *word, const char *option, struct error *err)
{
	uint64_t first, last;
	size_t prefix;
	if (!is_range(word, &prefix, &first, &last))
		return add_one(n, word, option, err);
	if (first > last)
		return error_set(err, ERROR_USAGE, option, "'%s' runs backwards", word);
	for (uint64_t i = first; i <= last; i++) {
		char id[128];
		snprintf(id, sizeof id, "%.*s%llu", (int)prefix, word, (unsigned long long)i);
		if (add_one(n, id, option, err) != 0)
			return -1;
	}
	return 0;
}

int nodes_add(struct nodes *n, const char *text, const char *option, struct error *err)
{
	while (*text) {
		char word[128];
		size_t len = strcspn(text, ",");
		if (len >= sizeof word)
			return error_set(err, ERROR_USAGE, option, "'%.80s...' is no id", text);
		memcpy(word, text, len);
		word[len] = '\0';
		if (add_word(n, word, option, err) != 0)
			return -1;
		text += len + (text[len] == ',');
	}
	return 0;
}

static int nodes_is_listed(const struct nodes *n, const char *id, size_t len)
{
	for (size_t i = 0; i < n->count; i++)
		if (strlen(n->id[i]) == len && memcmp(n->id[i], id, len) == 0)
			return 1;
	return 0;
}

int nodes_of_patterns(struct nodes *n, char *const *words, size_t count, struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		const char *at = words[i];
		if (strncmp(at, "nodes=", 6) != 0)
			continue;
		for (at += 6; *at;) {
			char word[128];
			size_t len = strcspn(at, ",");
			snprintf(word, sizeof word, "%.*s", (int)(len < 127 ? len : 127), at);
			if (!nodes_is_listed(n, at, len) && add_one(n, word, "nodes=", err) != 0)
				return -1;
			at += len + (at[len] == ',');
		}
	}
	return 0;
}

const char *const *nodes_list(struct nodes *n, struct error *err)
{
	n->list = calloc(n->count + 1, sizeof *n->list);
	for (size_t i = 0; n->list && i < n->count; i++)
		n->list[i] = n->id[i];
	if (!n->list)
		error_set(err, ERROR_OS, NULL, "out of memory");
	return n->list;
}

void nodes_free(struct nodes *n)
{
	free(n->id);
	free(n->list);
}

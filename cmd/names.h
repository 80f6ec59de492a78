/*
 * names: several names in one option's value, FILE,FILE, or in several.
 */
#ifndef PACELINE_CMD_NAMES_H
#define PACELINE_CMD_NAMES_H

#include "cmd/cmd.h"

#include <unistd.h>

struct names {
	size_t count;
	const char *item[OPTION_LIST_MAX];
};

/* Splits at commas; a word that names a file as it stands is not split. What item[] points into
 * stays until the end. */
static inline int names_split(struct names *n, const char *words, const char *option,
			      struct error *err)
{
	if (access(words, F_OK) == 0 && n->count < OPTION_LIST_MAX) {
		n->item[n->count++] = words;
		return 0;
	}
	char *text = strdup(words);
	if (!text)
		return error_set(err, ERROR_OS, option, "out of memory");
	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		if (n->count == OPTION_LIST_MAX)
			return error_set(err, ERROR_USAGE, option, "more than %d", OPTION_LIST_MAX);
		n->item[n->count++] = word;
	}
	return 0;
}

#endif

/* argv: see argv.h. */
#include "base/argv.h"

#include "base/grow.h"
#include "base/number.h"
#include "base/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes word. */
static void argv_take(struct argv *a, char *word)
{
	if (!word || GROW(a->word, a->room, a->count + 2) != 0) {
		free(word);
		a->failed = 1;
		return;
	}
	a->word[a->count++] = word;
	a->word[a->count] = NULL;
}

void argv_add_all(struct argv *a, const char *const *words)
{
	for (; *words; words++)
		argv_take(a, strdup(*words));
}

void argv_format(struct argv *a, const char *format, ...)
{
	char *word;
	va_list ap;
	va_start(ap, format);
	int n = vasprintf(&word, format, ap);
	va_end(ap);
	argv_take(a, n < 0 ? NULL : word);
}

void argv_u64(struct argv *a, const char *option, uint64_t value)
{
	char text[24];
	number_format_u64(value, text);
	argv_add(a, option, text);
}

void argv_real(struct argv *a, const char *option, double value)
{
	char text[32];
	number_format_real(value, text);
	argv_add(a, option, text);
}

void argv_more(struct argv *a, const char *text)
{
	if (a->failed)
		return;
	char **last = &a->word[a->count - 1];
	size_t len = strlen(*last), more = strlen(text);
	char *longer = realloc(*last, len + more + 1);
	if (longer) {
		memcpy(longer + len, text, more + 1);
		*last = longer;
	} else
		a->failed = 1;
}

int argv_end(struct argv *a, struct error *err)
{
	if (!a->failed)
		return 0;
	argv_free(a);
	return error_set(err, ERROR_OS, NULL, "out of memory");
}

void argv_free(struct argv *a)
{
	words_free(a->word, a->count);
	*a = (struct argv){0};
}

/* words: see words.h. */
#include "base/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\n";

void words_free(char **item, size_t count)
{
	for (size_t i = 0; item && i < count; i++)
		free(item[i]);
	free(item);
}

/* One word from text on into out, which has room for all of it; *used of the text. */
static int words_take_one(const char *text, char *out, size_t *used, struct error *err)
{
	const char *p = text;
	char quote = '\0';
	for (; *p && (quote || !strchr(blanks, *p)); p++) {
		if (quote ? *p == quote : *p == '\'' || *p == '"') {
			quote = quote ? '\0' : *p;
			continue;
		}
		int escapes = *p == '\\' && p[1] &&
			      (quote == '"' ? strchr("\"\\`$", p[1]) != NULL : quote == '\0');
		p += escapes;
		*out++ = *p;
	}
	if (quote)
		return error_set(err, ERROR_CONFIG, NULL, "the %s quote is not closed: %.120s",
				 quote == '"' ? "double" : "single", text);
	*out = '\0';
	*used = (size_t)(p - text);
	return 0;
}

static int words_split_into(const char *text, size_t max, char **item, size_t *count, char *word,
			    struct error *err)
{
	for (;;) {
		size_t used = 0;
		text += strspn(text, blanks);
		if (!*text)
			return 0;
		if (*count == max)
			return error_set(err, ERROR_CONFIG, NULL, "more than %zu names", max);
		if (words_take_one(text, word, &used, err) != 0)
			return -1;
		item[*count] = strdup(word);
		if (!item[*count])
			return error_set(err, ERROR_OS, NULL, "out of memory");
		(*count)++;
		text += used;
	}
}

int words_split(const char *text, size_t max, char ***item, size_t *count, struct error *err)
{
	size_t len = strlen(text);
	char *word = malloc(len + 1);
	/* A word and what stands behind it are two bytes at least. */
	*item = calloc(len / 2 + 2, sizeof **item);
	*count = 0;
	int result = -1;
	if (!word || !*item)
		error_set(err, ERROR_OS, NULL, "out of memory");
	else
		result = words_split_into(text, max, *item, count, word, err);
	free(word);
	if (result != 0) {
		words_free(*item, *count);
		*item = NULL;
		*count = 0;
	}
	return result;
}

/* The characters of a word that needs no quotes: none that words_split() interprets. */
static int words_is_plain(const char *word)
{
	return *word && !strpbrk(word, " \t\n'\"\\");
}

/* A single quote ends the quotes, stands there escaped, and begins them again. */
static char *put_quoted(char *out, const char *word)
{
	*out++ = '\'';
	for (; *word; word++) {
		if (*word == '\'')
			out = stpcpy(out, "'\\'");
		*out++ = *word;
	}
	*out++ = '\'';
	return out;
}

static char *words_put_one(char *out, const char *word)
{
	return words_is_plain(word) ? stpcpy(out, word) : put_quoted(out, word);
}

const char *words_quote(const char *text, char *out, size_t max)
{
	static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "_./,:@%+-=";
	size_t len = strlen(text);
	/* zsh expands a = at the beginning. */
	if (len > 0 && text[0] != '=' && text[strspn(text, bare)] == '\0' && len < max)
		return strcpy(out, text);
	if (WORDS_QUOTED(len) <= max)
		*put_quoted(out, text) = '\0';
	else
		snprintf(out, max, "...");
	return out;
}

char *words_join(char *const *item, size_t count)
{
	size_t room = 1;
	for (size_t i = 0; i < count; i++)
		room += 4 * strlen(item[i]) + 3;
	char *text = malloc(room), *p = text;
	for (size_t i = 0; text && i < count; i++) {
		if (i > 0)
			*p++ = ' ';
		p = words_put_one(p, item[i]);
	}
	if (text)
		*p = '\0';
	return text;
}

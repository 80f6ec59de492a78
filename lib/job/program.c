/* program: see program.h. */
#include "job/program.h"

#include <string.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
#define DIGITS "0123456789"

#define PLAIN LETTERS DIGITS "./+-,@%:="

/* The length of NAME= at the beginning; 0: there is none. */
static size_t assigns(const char *word)
{
	size_t name = strspn(word, LETTERS DIGITS);
	return name > 0 && !strchr(DIGITS, word[0]) && word[name] == '=' ? name + 1 : 0;
}

static int program_is(const char *word, size_t len, const char *text)
{
	return len == strlen(text) && strncmp(word, text, len) == 0;
}

int program_of(const char *command, char *out, size_t max)
{
	for (const char *word = command;;) {
		word += strspn(word, " \t");
		size_t len = strcspn(word, " \t\n"), set = assigns(word);
		/* A value may be that of another variable: no shell splits it. */
		size_t known = set + strspn(word + set, set > 0 ? PLAIN "$" : PLAIN);
		if (len == 0 || known < len || word[0] == '-' || program_is(word, set, "PATH="))
			return 0;
		if (set == 0 && !program_is(word, len, "exec") && !program_is(word, len, "env")) {
			if (len >= max)
				return 0;
			memcpy(out, word, len);
			out[len] = '\0';
			return 1;
		}
		word += len;
	}
}

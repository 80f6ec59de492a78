/* What holds for each line on a screen: it fits, and no word of it is a part of one. */
#include "screen/text.h"

#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Whether word stands in known, between blanks. */
static inline int is_known(const char *word, size_t len, const char *known)
{
	for (const char *p = known; (p = strstr(p, word)) != NULL; p++)
		if ((p == known || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
			return 1;
	return 0;
}

/* known: all words that may stand there. Bars, and dots or a comma at a word's end, are no words.
 */
static inline void check_line(const char *line, size_t width, const char *known)
{
	char word[512];
	if (text_width(line) > width)
		fail_msg("%zu columns, not %zu: '%s'", text_width(line), width, line);
	for (const char *p = line; *p;) {
		p += strspn(p, " ");
		size_t n = strcspn(p, " ");
		const char *start = p;
		p += n;
		if (n == 0 || strspn(start, "#.") >= n)
			continue;
		snprintf(word, sizeof word, "%.*s", (int)n, start);
		if (is_known(word, n, known))
			continue;
		/* before the dots, the word may have lost what separates it from the next one */
		size_t bare = n;
		if (n > 3 && strcmp(word + n - 3, "...") == 0)
			bare = n - 3;
		word[bare] = '\0';
		const char *ends[] = {"", ",", ";", ":"};
		int found = 0;
		for (size_t i = 0; i < 4 && bare < n; i++) {
			snprintf(word + bare, sizeof word - bare, "%s", ends[i]);
			found |= is_known(word, strlen(word), known);
		}
		if (!found)
			fail_msg("a part of a word in '%s' (%zu): '%.*s'", line, width, (int)n,
				 start);
	}
}

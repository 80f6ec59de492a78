/* near: see near.h. */
#include "base/near.h"

#include "base/error.h"

#include <stdint.h>
#include <string.h>

static int small(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static size_t near_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t near_distance(const char *a, const char *b)
{
	size_t row[3][NEAR_WORD_MAX + 1]; /* distances for this letter of a, and for the two letters
					   * before */
	size_t width = strlen(b);
	if (width > NEAR_WORD_MAX || strlen(a) > NEAR_WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= width; j++)
		row[0][j] = j;
	size_t i = 1;
	for (; a[i - 1]; i++) {
		size_t *now = row[i % 3], *before = row[(i + 2) % 3], *older = row[(i + 1) % 3];
		now[0] = i;
		for (size_t j = 1; j <= width; j++) {
			int same = small(a[i - 1]) == small(b[j - 1]);
			now[j] = near_least(before[j - 1] + !same,
					    near_least(before[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && small(a[i - 1]) == small(b[j - 2]) &&
			    small(a[i - 2]) == small(b[j - 1]))
				now[j] = near_least(now[j], older[j - 2] + 1);
		}
	}
	return row[(i - 1) % 3][width];
}

void near_look(struct near *near, const char *given, const char *word)
{
	size_t distance = near_distance(given, word);
	if (near->word && distance >= near->distance)
		return;
	near->word = word;
	near->distance = distance;
}

int near_enough(const struct near *near, const char *given)
{
	size_t len = strlen(given);
	return near->word && near->distance != SIZE_MAX && 2 * near->distance < len + 1;
}

int near_unknown(const struct near *near, const char *given, struct error *err)
{
	int enough = near_enough(near, given);
	return error_set(err, ERROR_USAGE, NULL, "unknown command '%.80s'%s%s", given,
			 enough ? "; the nearest is " : "", enough ? near->word : "");
}

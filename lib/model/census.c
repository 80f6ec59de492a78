/* census: see census.h. */
#include "model/census.h"

#include "base/grow.h"
#include "base/u64map.h"

#include <stdlib.h>

#define COUNT_MAX (UINT64_C(1) << 24)

struct census {
	struct u64map number; /* of a word, from 1 */
	uint64_t *times;      /* by these numbers */
	size_t words, room;
	uint64_t group[LDA_GROUPS];
	uint64_t longest;
};

int census_new(struct census **out, struct error *err)
{
	*out = calloc(1, sizeof **out);
	return *out ? 0 : error_set(err, ERROR_OS, "", "out of memory");
}

void census_free(struct census *c)
{
	if (!c)
		return;
	u64map_free(&c->number);
	free(c->times);
	free(c);
}

/* How often a word has occurred; NULL: no memory. */
static uint64_t *census_times(struct census *c, uint32_t key)
{
	uintptr_t number = (uintptr_t)u64map_get(&c->number, key);
	if (number == 0) {
		if (GROW(c->times, c->room, c->words + 1) != 0 ||
		    u64map_reserve(&c->number, c->words + 1) != 0)
			return NULL;
		c->times[c->words++] = 0;
		number = c->words;
		u64map_put(&c->number, key, (void *)number);
	}
	return &c->times[number - 1];
}

int census_add(struct census *c, uint64_t row, const uint32_t *key, const float *value,
	       size_t count, struct error *err)
{
	uint64_t words = 0, *group = &c->group[row % LDA_GROUPS];
	for (size_t i = 0; i < count; i++) {
		uint64_t *times = census_times(c, key[i]);
		if (!times)
			return error_set(err, ERROR_OS, "", "out of memory for %zu words",
					 c->words);
		*times += (uint64_t)value[i];
		words += (uint64_t)value[i];
		if (*times > COUNT_MAX)
			return error_set(err, ERROR_DATA, "",
					 "word %u occurs more than 2^24 times in all documents: "
					 "leave such words out, they are in every topic",
					 key[i]);
	}
	*group += words;
	if (*group > COUNT_MAX)
		return error_set(err, ERROR_DATA, "",
				 "one of %d groups of documents has more than 2^24 words: no more "
				 "can be counted",
				 LDA_GROUPS);
	if (words > c->longest)
		c->longest = words;
	return 0;
}

void census_end(const struct census *c, struct model_spec *spec)
{
	lda_options(spec)->words = c->words;
	lda_options(spec)->longest = c->longest;
}

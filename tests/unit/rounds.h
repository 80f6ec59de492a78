/* rounds: how often a random test does what it does. A sanitizer makes each round many times as dear
 * and sees the same in a fifth of them; `make check` is content with a twentieth there. */
#ifndef PACELINE_TESTS_ROUNDS_H
#define PACELINE_TESTS_ROUNDS_H

#include <stdlib.h>

#if defined __SANITIZE_ADDRESS__
#define ROUNDS_ARE_DEAR 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define ROUNDS_ARE_DEAR 1
#endif
#endif
#ifndef ROUNDS_ARE_DEAR
#define ROUNDS_ARE_DEAR 0
#endif

/* One in so many. */
static inline int rounds_part(void)
{
	if (!ROUNDS_ARE_DEAR)
		return 1;
	return getenv("PACELINE_ALL") ? 5 : 20;
}

#define ROUNDS(count) ((count) / rounds_part())

#endif

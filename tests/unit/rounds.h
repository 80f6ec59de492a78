/* rounds: how often a random test does what it does. A sanitizer makes each round many times as dear
 * and sees the same in a fifth of them. */
#ifndef PACELINE_TESTS_ROUNDS_H
#define PACELINE_TESTS_ROUNDS_H

#if defined __SANITIZE_ADDRESS__
#define ROUNDS_PART 5
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define ROUNDS_PART 5
#endif
#endif
#ifndef ROUNDS_PART
#define ROUNDS_PART 1
#endif

#define ROUNDS(count) ((count) / ROUNDS_PART)

#endif

/* rounds: how often a random test does what it does. A sanitizer makes each round many times as dear
 * and sees the same in a part of them: a fifth, or what a test says before it includes this, whose
 * rounds map megabytes. */
#ifndef PACELINE_TESTS_ROUNDS_H
#define PACELINE_TESTS_ROUNDS_H

#ifndef ROUNDS_SANITIZED
#define ROUNDS_SANITIZED 5
#endif

#if defined __SANITIZE_ADDRESS__
#define ROUNDS_PART ROUNDS_SANITIZED
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define ROUNDS_PART ROUNDS_SANITIZED
#endif
#endif
#ifndef ROUNDS_PART
#define ROUNDS_PART 1
#endif

#define ROUNDS(count) ((count) / ROUNDS_PART)

#endif

/* fuzz: the targets for libFuzzer, and for AFL++ (afl-clang-fast -fsanitize=fuzzer); $PACELINE_FUZZ names one.
 * "list" prints all of them. */
#include "tests/fuzz/targets.h"


#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *name = getenv("PACELINE_FUZZ");
	(void)argc, (void)argv;
	signal(SIGPIPE, SIG_IGN);
	if (name && strcmp(name, "list") == 0) {
		for (const struct fuzz_target *t = fuzz_targets; t->name; t++)
			printf("%s %s\n", t->name, t->files);
		exit(0);
	}
	target = name ? fuzz_find(name) : NULL;
	if (!target) {
		fprintf(stderr, "fuzz: PACELINE_FUZZ names no target\n");
		exit(64);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_run(target, data, size);
	return 0;
}

#ifndef PACELINE_FUZZ_AFL
/* ---- lines of records as such: a word is worth more than a byte ---- */

static unsigned mutate_draw(unsigned *seed, unsigned below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return below ? (*seed >> 8) % below : 0;
}

static size_t mutate_replace(uint8_t *data, size_t size, size_t max, size_t at, size_t len, const void *with, size_t n)
{
	if (size - len + n > max)
		return size;
	static uint8_t kept[4096];
	if (n > sizeof kept)
		return size;
	memcpy(kept, with, n); /* it may be of the same data */
	memmove(data + at + n, data + at + len, size - at - len);
	memcpy(data + at, kept, n);
	return size - len + n;
}

/* A line, its newline included. */
static size_t mutate_line(const uint8_t *data, size_t size, unsigned *seed, size_t *begin)
{
	size_t at = mutate_draw(seed, (unsigned)size);
	while (at > 0 && data[at - 1] != '\n')
		at--;
	size_t end = at;
	while (end < size && data[end] != '\n')
		end++;
	*begin = at;
	return end - at + (end < size);
}

/* A value of a field. */
static size_t mutate_value(const uint8_t *data, size_t size, unsigned *seed, size_t *begin)
{
	size_t at = mutate_draw(seed, (unsigned)size);
	while (at < size && data[at] != '=')
		at++;
	if (at == size)
		return *begin = size, 0;
	size_t end = ++at;
	while (end < size && data[end] != ' ' && data[end] != '\n' && data[end] != '\t')
		end++;
	*begin = at;
	return end - at;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	static const char *const numbers[] = {"0", "1", "2", "3", "4", "7", "12", "100", "1000", "4096", "65536",
					      "4294967295", "4294967296", "9007199254740993", "18446744073709551615",
					      "-1", "1e300", "0.5", "", "w0", "w1", "s0", "nan"};
	size_t at, len, to, other;
	if (!target->lines || size == 0 || mutate_draw(&seed, 2) == 0)
		return LLVMFuzzerMutate(data, size, max);
	for (unsigned i = 1 + mutate_draw(&seed, 3); i > 0 && size > 0; i--)
		switch (mutate_draw(&seed, 5)) {
		case 0: /* a line is gone */
			len = mutate_line(data, size, &seed, &at);
			size = mutate_replace(data, size, max, at, len, "", 0);
			break;
		case 1: /* a line stands elsewhere, too */
			len = mutate_line(data, size, &seed, &at);
			mutate_line(data, size, &seed, &to);
			size = mutate_replace(data, size, max, to, 0, data + at, len);
			break;
		case 2: /* a value is that of another field */
			len = mutate_value(data, size, &seed, &at);
			other = mutate_value(data, size, &seed, &to);
			size = mutate_replace(data, size, max, to, other, data + at, len);
			break;
		case 3: { /* or a number */
			const char *number = numbers[mutate_draw(&seed, sizeof numbers / sizeof *numbers)];
			len = mutate_value(data, size, &seed, &at);
			if (at < size)
				size = mutate_replace(data, size, max, at, len, number, strlen(number));
			break;
		}
		default: /* or one more, or one less */
			len = mutate_value(data, size, &seed, &at);
			if (len > 0 && data[at + len - 1] >= '0' && data[at + len - 1] <= '9')
				data[at + len - 1] = (uint8_t)('0' + mutate_draw(&seed, 10));
		}
	return size > 0 ? size : LLVMFuzzerMutate(data, size, max);
}
#endif

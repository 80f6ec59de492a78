/* fuzz_targets: what fuzzers have kept (tests/fuzz/corpus) once more, and each of it changed at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "rounds.h"
#include "tests/fuzz/targets.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORPUS "tests/fuzz/corpus"
#define CHANGED 1000 /* of each file */
#define FILE_MAX ((size_t)1 << 20)

static unsigned draw(uint64_t *seed, size_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((*seed >> 33) % (below ? below : 1));
}

/* Bytes and pieces, in the same way each time. */
static size_t change(uint8_t *data, size_t size, uint64_t *seed)
{
	for (unsigned n = 1 + draw(seed, 4); n > 0 && size > 0; n--) {
		size_t at = draw(seed, size), len = 1 + draw(seed, size - at < 32 ? size - at : 32);
		switch (draw(seed, 4)) {
		case 0:
			data[at] ^= (uint8_t)(1u << draw(seed, 8));
			break;
		case 1:
			data[at] = (uint8_t)"0 9=\n\t-.,:%\""[draw(seed, 12)];
			break;
		case 2:
			memmove(data + at, data + at + len, size - at - len);
			size -= len;
			break;
		default:
			memmove(data + at + len, data + at, size - at);
			size += len;
		}
	}
	return size;
}

static void what_is_kept_does_no_harm(void **state)
{
	unsigned files = 0;
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	for (const struct fuzz_target *t = fuzz_targets; t->name; t++) {
		char path[600];
		struct dirent *entry;
		snprintf(path, sizeof path, CORPUS "/%s", t->name);
		DIR *dir = opendir(path);
		if (!dir)
			fail_msg("%s: there is none", path);
		fuzz_run(t, (const uint8_t *)"", 0);
		while ((entry = readdir(dir))) {
			char *text;
			size_t len;
			struct error err;
			if (entry->d_name[0] == '.')
				continue;
			snprintf(path, sizeof path, CORPUS "/%s/%s", t->name, entry->d_name);
			assert_int_equal(fs_read_file(path, FILE_MAX, &text, &len, &err), 0);
			fuzz_run(t, (const uint8_t *)text, len);
			uint64_t seed = len;
			/* What is large is slow. */
			for (size_t i = 0; i < (size_t)ROUNDS(CHANGED) * 1000 / (1000 + len); i++) {
				uint8_t *other = malloc(len + 200);
				memcpy(other, text, len);
				size_t size = change(other, len, &seed);
				fuzz_run(t, other, size);
				free(other);
			}
			free(text);
			files++;
		}
		closedir(dir);
	}
	assert_true(files > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_kept_does_no_harm)};
	return cmocka_run_group_tests_name("fuzz_targets", tests, NULL, NULL);
}

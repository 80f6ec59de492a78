/* For ckpt-save: seconds of copying so many bytes once into memory that is new. */
#include "rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static char *memory(size_t bytes)
{
	char *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		exit(71);
	(void)madvise(m, bytes, MADV_HUGEPAGE);
	return m;
}

int main(int argc, char **argv)
{
	size_t bytes = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
	char *from = memory(bytes), *to = memory(bytes);

	memset(from, 1, bytes);
	double begin = now();
	memcpy(to, from, bytes);
	double seconds = now() - begin;
	printf("%.4f\n", to[bytes - 1] ? seconds : 0);
	return 0;
}

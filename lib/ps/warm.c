/* See warm.h. */
#include "ps/warm.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEAST_BYTES ((size_t)4 << 20)
#define PIECE_BYTES ((size_t)16 << 20) /* without a look whether it is wanted */

struct warm {
	pthread_t thread;
	char *at, *end;
	atomic_int over;
};

static void *warm_main(void *warm)
{
	struct warm *w = warm;

	for (char *at = w->at; at < w->end && !atomic_load(&w->over); at += PIECE_BYTES) {
		size_t left = (size_t)(w->end - at);
		if (madvise(at, left < PIECE_BYTES ? left : PIECE_BYTES, MADV_POPULATE_WRITE) != 0)
			break;
	}
	return NULL;
}

struct warm *warm_begin(void *at, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), skip = -(uintptr_t)at % page;
	struct warm *w = at && bytes >= LEAST_BYTES ? calloc(1, sizeof *w) : NULL;

	if (!w)
		return NULL;
	w->at = (char *)at + skip;
	w->end = w->at + (bytes - skip) / page * page;
	if (thread_start(&w->thread, warm_main, w) == 0)
		return w;
	free(w);
	return NULL;
}

void warm_end(struct warm *w)
{
	if (!w)
		return;
	atomic_store(&w->over, 1);
	pthread_join(w->thread, NULL);
	free(w);
}

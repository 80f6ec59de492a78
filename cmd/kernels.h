/*
 * kernels: how programs whose models multiply matrices come to kernels of OpenBLAS that are right
 * here.
 *
 * OpenBLAS has chosen when main() begins, and what the user says in OPENBLAS_CORETYPE stands as
 * long as it computes right.  To have others the program starts itself anew, once: the variable
 * PACELINE_BLAS_CHOSEN tells it so, and their fold_fraction.
 */
#ifndef PACELINE_CMD_KERNELS_H
#define PACELINE_CMD_KERNELS_H

#include "base/number.h"
#include "cmd/cmd.h"
#include "model/kernel.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What OpenBLAS maps for each thread that computes. */
#define KERNELS_THREAD_BYTES ((size_t)128 << 20)
#define KERNELS_PATH_MAX 4096
#define KERNELS_THREADS "OPENBLAS_NUM_THREADS"
#define KERNELS_CHOOSE "OPENBLAS_CORETYPE"
#define KERNELS_CHOSEN "PACELINE_BLAS_CHOSEN"

struct kernels {
	const char *cache; /* --blas-cache; NULL: in the user's cache */
	int probe;
	int fastest; /* main() says so: the speed of matrix products matters; one thread */
	double fold_fraction; /* found, for model_fold_fraction(); 0: it was not measured */
};

#define KERNELS_OPTIONS(k)                                                                         \
	{.name = "blas-cache",                                                                     \
	 .kind = OPTION_TEXT,                                                                      \
	 .target = &(k).cache,                                                                     \
	 .arg = "FILE",                                                                            \
	 .help = "where the best BLAS kernels are remembered (see FILES)"},                        \
	{                                                                                          \
		.name = "blas-probe", .kind = OPTION_FLAG, .target = &(k).probe,                   \
		.help = "check the BLAS kernels in use and print how fast they are"                \
	}

#define KERNELS_FILES                                                                              \
	"Files: ${XDG_CACHE_HOME:-$HOME/.cache}/paceline/blas remembers the best kernels.\n"

/* This program's file: its name is the process's, too. */
static inline int kernels_self(char out[KERNELS_PATH_MAX], struct error *err)
{
	ssize_t len = readlink("/proc/self/exe", out, KERNELS_PATH_MAX - 1);
	if (len <= 0)
		return error_errno(err, ERROR_OS, "/proc/self/exe", "can't be read");
	out[len] = '\0';
	return 0;
}

static inline int kernels_have_room(size_t threads)
{
	size_t bytes = threads * KERNELS_THREAD_BYTES;
	void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return room != MAP_FAILED && munmap(room, bytes) == 0;
}

/* Before anything else is done with OpenBLAS. It asks again and again for memory that a limit
 * refuses: each of its threads does, in silence, and whoever waits for one of them waits for ever.
 * Where there is too little for all, the program starts itself anew without threads; -1: it is too
 * little for one. */
static inline int kernels_need_room(char **argv, struct error *err)
{
	char self[KERNELS_PATH_MAX];
	int threads = openblas_get_num_threads();
	if (kernels_have_room((size_t)threads))
		return 0;
	const char *asked = getenv(KERNELS_THREADS);
	/* Once: another library under OpenBLAS's name need not heed it. */
	if (threads > 1 && !(asked && strcmp(asked, "1") == 0) &&
	    setenv(KERNELS_THREADS, "1", 1) == 0 && kernels_self(self, err) == 0)
		execv(self, argv);
	return error_set(err, ERROR_OS, "OpenBLAS",
			 "has no memory here: it needs %zu MiB for itself",
			 KERNELS_THREAD_BYTES >> 20);
}

/* OpenBLAS does not declare this, and has it only where it has threads. */
extern int blas_thread_shutdown_(void) __attribute__((weak));

/* OpenBLAS has started one for each core when it was loaded. It starts them again when it needs them. */
static inline void kernels_end_threads(void)
{
	if (blas_thread_shutdown_)
		blas_thread_shutdown_();
}

/* --blas-probe; the exit status. */
static inline int kernels_probe(const char *program)
{
	struct kernel_speed speed;
	struct error err;
	if (kernel_judge(&err) != 0)
		return cmd_fail(program, &err);
	kernel_measure(&speed);
	printf("%.2f %.2f\n", speed.gflops, speed.fold_fraction);
	return 0;
}

static inline const char *kernels_cache(const struct kernels *k, char *out, size_t max)
{
	const char *home = getenv("HOME"), *cache = getenv("XDG_CACHE_HOME");
	int len = -1;
	if (k->cache)
		return k->cache;
	if (cache && cache[0] == '/')
		len = snprintf(out, max, "%s/paceline/blas", cache);
	else if (home && home[0] == '/')
		len = snprintf(out, max, "%s/.cache/paceline/blas", home);
	return len > 0 && (size_t)len < max ? out : NULL;
}

/* Returns only when that can't be. */
static inline int kernels_start_anew(const struct kernels *k, const char *self,
				     const struct kernel_choice *choice, char **argv,
				     struct error *err)
{
	char fraction[32];
	snprintf(fraction, sizeof fraction, "%g", choice->fold_fraction);
	if ((choice->name[0] ? setenv(KERNELS_CHOOSE, choice->name, 1)
			     : unsetenv(KERNELS_CHOOSE)) != 0 ||
	    setenv(KERNELS_CHOSEN, fraction, 1) != 0 ||
	    (k->fastest && setenv("OPENBLAS_NUM_THREADS", "1", 1) != 0))
		return error_errno(err, ERROR_OS, self, "environment");
	execv(self, argv);
	return error_errno(err, ERROR_OS, self, "can't be started anew");
}

/* Ends in another program where that can be; else 0: the kernels in use are as good, or -1. wrong:
 * what stands in OPENBLAS_CORETYPE ("" nothing) gives wrong results; NULL: it does not. */
static inline int kernels_change(struct kernels *k, const char *wrong, const char *cache,
				 char **argv, struct error *err)
{
	char self[KERNELS_PATH_MAX];
	struct kernel_choice choice;
	if (kernels_self(self, err) != 0)
		return -1;
	if (kernel_choose(self, "--blas-probe", cache, wrong, &choice, err) != 0)
		return -1;
	k->fold_fraction = choice.fold_fraction;
	if (!wrong && !choice.name[0])
		return 0;
	if (wrong)
		log_say(LOG_LEVEL_WARNING, "starts anew with %s%s",
			choice.name[0] ? "matrix kernels " : "OpenBLAS' own choice", choice.name);
	return kernels_start_anew(k, self, &choice, argv, err);
}

/* Before anything is computed or read from stdin. -1: nothing right is to be had. */
static inline int kernels_settle(struct kernels *k, char **argv, struct error *err)
{
	char path[KERNELS_PATH_MAX];
	const char *given = getenv(KERNELS_CHOOSE), *cache = kernels_cache(k, path, sizeof path);
	const char *fraction = getenv(KERNELS_CHOSEN);
	int chosen = fraction != NULL;
	if (chosen && number_real(fraction, 0, 1, &k->fold_fraction, "", NULL) != 0)
		k->fold_fraction = 0;
	unsetenv(KERNELS_CHOSEN);
	if (kernel_judge(err) != 0) {
		if (chosen) { /* what was remembered is not true any more */
			kernel_forget(cache);
			err->code = ERROR_TEMPFAIL;
		}
		if (chosen || err->code != ERROR_CONFIG)
			return -1;
		log_say(LOG_LEVEL_WARNING, "%s: %s", err->place, err->text);
		return kernels_change(k, given ? given : "", cache, argv, err);
	}
	if (chosen || !k->fastest)
		return 0;
	if (given && given[0]) {
		log_say(LOG_LEVEL_INFO, KERNELS_CHOOSE "=%s: matrix kernels %s, as requested",
			given, kernel_name());
		return 0;
	}
	if (kernels_change(k, NULL, cache, argv, err) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s: goes on with the kernels it has", err->place,
			err->text);
	return 0;
}

#endif

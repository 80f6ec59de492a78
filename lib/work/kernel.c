/*
 * kernel: see kernel.h.  Takes a quarter of a second, once a machine; must never keep a worker from
 * starting.
 */
#include "work/kernel.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/number.h"
#include "wire/record.h"

#include <cblas.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define SIZE 512               /* of the square matrices that are multiplied */
#define ROUNDS 8               /* the best counts */
#define PROBE_SECONDS 5.0
#define OTHERS_SECONDS 5.0     /* another process measures: its answer is waited for */
#define GAIN_MIN 1.05          /* against OpenBLAS' own choice */

double kernel_measure(void)
{
	float *memory = malloc(3 * SIZE * SIZE * sizeof(float));
	double best = 0;
	if (!memory)
		return 0;
	for (size_t i = 0; i < 3 * SIZE * SIZE; i++)
		memory[i] = (float)(i % 17) * 0.125f - 1.0f;
	const float *a = memory, *b = memory + SIZE * SIZE;
	float *c = memory + 2 * SIZE * SIZE;
	for (int round = 0; round < ROUNDS; round++) {
		double start = clock_mono();
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, SIZE, SIZE, SIZE, 1.0f, a,
			    SIZE, b, SIZE, 0.0f, c, SIZE);
		double speed = 2e-9 * SIZE * SIZE * SIZE / (clock_mono() - start);
		best = speed > best ? speed : best;
	}
	free(memory);
	return best;
}

/* ---- candidates ---- */

struct candidate {
	const char *name;
	int possible;
};

#define CANDIDATES 4

static void list_candidates(struct candidate list[CANDIDATES])
{
	int avx2 = 0, avx512 = 0, bf16 = 0;
#if defined(__x86_64__)
	__builtin_cpu_init();
	avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
#endif
	list[0] = (struct candidate){"", 1};
	list[1] = (struct candidate){"Haswell", avx2};
	list[2] = (struct candidate){"SkylakeX", avx512};
	list[3] = (struct candidate){"Cooperlake", bf16};
}

/* ---- a probe in a process of its own ---- */

static void become_probe(const char *program, const char *probe, const char *name, int out)
{
	char *argv[] = {(char *)(size_t)program, (char *)(size_t)probe, NULL};
	int nothing = open("/dev/null", O_RDWR);
	if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(out, 1) < 0 || dup2(nothing, 2) < 0)
		_exit(71);
	if (*name ? setenv("OPENBLAS_CORETYPE", name, 1) : unsetenv("OPENBLAS_CORETYPE"))
		_exit(71);
	if (setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0)
		execv(program, argv);
	_exit(71);
}

/* What the child says within the time, without its newline. */
static void listen_to(int fd, char *text, size_t max)
{
	double deadline = clock_mono() + PROBE_SECONDS;
	size_t len = 0;
	while (len + 1 < max) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		double left = deadline - clock_mono();
		int n = left > 0 ? poll(&p, 1, (int)(left * 1e3) + 1) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		ssize_t got = n > 0 ? read(fd, text + len, max - 1 - len) : 0;
		if (got <= 0)
			break;
		len += (size_t)got;
	}
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

/* GFLOP/s, or 0 when it crashed, was silent or said something else. */
static double run_probe(const char *program, const char *probe, const char *name)
{
	int pipe_fd[2], status;
	char text[64];
	double speed = 0;
	if (pipe2(pipe_fd, O_CLOEXEC) != 0)
		return 0;
	pid_t child = fork();
	if (child == 0)
		become_probe(program, probe, name, pipe_fd[1]);
	close(pipe_fd[1]);
	if (child > 0) {
		listen_to(pipe_fd[0], text, sizeof(text));
		kill(child, SIGKILL); /* done, or too late */
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		if (number_real(text, 0, 1e9, &speed, "", NULL) < 0)
			speed = 0;
	}
	close(pipe_fd[0]);
	return speed;
}

static int contest(const char *program, const char *probe, char name[KERNEL_NAME_MAX],
		   double *speed)
{
	struct candidate list[CANDIDATES];
	list_candidates(list);
	*name = '\0';
	*speed = run_probe(program, probe, "");
	int measured = *speed > 0;
	double beat = *speed * GAIN_MIN;
	for (size_t i = 1; i < CANDIDATES; i++) {
		double got = list[i].possible ? run_probe(program, probe, list[i].name) : 0;
		measured |= got > 0;
		if (got <= beat)
			continue;
		*speed = beat = got;
		snprintf(name, KERNEL_NAME_MAX, "%s", list[i].name);
	}
	return measured;
}

/* ---- the file ---- */

/* One home directory may be seen from machines of several kinds. */
static uint64_t machine_sum(void)
{
	char text[16384];
	size_t len = 0;
	int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t got = read(fd, text, sizeof(text) - 1);
		len = got > 0 ? (size_t)got : 0;
		close(fd);
	}
	text[len] = '\0';
	uint64_t sum = 0;
	static const char *const lines[] = {"model name", "flags", "Features", "CPU part"};
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		const char *line = strstr(text, lines[i]);
		if (line)
			sum = XXH3_64bits_withSeed(line, strcspn(line, "\n"), sum);
	}
	const char *version = openblas_get_config();
	return XXH3_64bits_withSeed(version, strlen(version), sum);
}

static int cache_read(const char *cache, const char *machine, char name[KERNEL_NAME_MAX])
{
	int fd = open(cache, O_RDONLY | O_CLOEXEC), found = 0;
	struct record_reader *in = fd >= 0 ? record_reader_new(fd, cache) : NULL;
	struct record *r = malloc(sizeof(*r));
	struct error err;
	int got;
	while (in && r && !found && (got = record_read(in, r, &err)) > 0) {
		const char *kernel = record_get(r, "kernel"), *of = record_get(r, "machine");
		if (got != RECORD_ONE || !record_is(r, "blas") || !kernel || !of ||
		    strcmp(of, machine) != 0 || strlen(kernel) >= KERNEL_NAME_MAX)
			continue;
		strcpy(name, kernel);
		found = 1;
	}
	free(r);
	if (in)
		record_reader_free(in);
	if (fd >= 0)
		close(fd);
	return found;
}

/* Adds a line; those of other machines stay. */
static void cache_write(const char *cache, const char *machine, const char *name, double speed)
{
	char line[RECORD_LINE_MAX], *old = NULL, *text;
	size_t old_len = 0;
	struct record_out o;
	struct error err;
	record_begin(&o, line, sizeof(line), "blas");
	record_add(&o, "machine", machine);
	record_add(&o, "kernel", name);
	record_add_real(&o, "gflops", speed);
	size_t len = record_end(&o, NULL);
	if (fs_read_file(cache, 1 << 20, &old, &old_len, &err) < 0)
		old_len = 0;
	if ((text = malloc(old_len + len)) != NULL) {
		if (old_len > 0)
			memcpy(text, old, old_len);
		memcpy(text + old_len, line, len);
		(void)fs_replace_file(cache, text, old_len + len, &err);
	}
	free(text);
	free(old);
}

/* A lock while we measure, so that workers that start together do not disturb each other. -1: no
 * lock to be had, or *found meanwhile. */
static int lock_or_wait(const char *cache, const char *machine, char name[KERNEL_NAME_MAX],
			int *found)
{
	char dir[4096], path[4096];
	struct error err;
	int fd = -1;
	double deadline = clock_mono() + OTHERS_SECONDS;
	fs_dirname(cache, dir, sizeof(dir));
	if (fs_make_dirs(dir, &err) < 0 ||
	    (size_t)snprintf(path, sizeof(path), "%s.lock", cache) >= sizeof(path))
		return -1;
	while (!(*found = cache_read(cache, machine, name)) && fs_lock(path, &fd, &err) < 0) {
		if (err.code != ERROR_TEMPFAIL || clock_mono() >= deadline)
			return -1;
		clock_sleep(0.05);
	}
	return fd;
}

int kernel_choose(const char *program, const char *probe, const char *cache,
		  char name[KERNEL_NAME_MAX], struct error *err)
{
	char machine[17];
	double speed;
	int found = 0, lock = -1, measured = 0;
	*name = '\0';
	if (!strstr(openblas_get_config(), "DYNAMIC_ARCH"))
		return 0; /* there is only one */
	snprintf(machine, sizeof(machine), "%016llx", (unsigned long long)machine_sum());
	if (cache)
		lock = lock_or_wait(cache, machine, name, &found);
	if (!found && lock >= 0) /* the one who held the lock may just have written */
		found = cache_read(cache, machine, name);
	if (!found) {
		measured = contest(program, probe, name, &speed);
		if (measured && cache)
			cache_write(cache, machine, name, speed);
	}
	if (lock >= 0)
		close(lock);
	if (!found && !measured)
		return error_set(err, ERROR_OS, program, "could not be run to measure kernels");
	return 0;
}

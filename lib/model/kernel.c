/*
 * kernel: see kernel.h.  Measuring takes half a second, once for each machine; judging takes some
 * milliseconds at each start.
 */
#include "model/kernel.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/number.h"
#include "model/first.h"
#include "model/piece.h"
#include "record/record.h"

#include <cblas.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define SIZE 512 /* the matrices that are multiplied are SIZE x SIZE */
#define ROUNDS 8 /* the fastest one counts */
#define PROBE_SECONDS 10.0
#define OTHERS_SECONDS 10.0 /* wait so long for another process that measures */
#define GAIN_MIN 1.05       /* against OpenBLAS' own choice */

/* ---- right or wrong ---- */

/* C (m x n) = alpha A (m x k) B (k x n) + beta C. a_t, b_t: the matrix is transposed in memory. */
struct product {
	int m, n, k, a_t, b_t;
	int more; /* floats between rows */
	float alpha, beta;
};

/* The kinds of products of lib/model; first of one block or less, then of several blocks. Sizes are
 * near powers of two, as vectors and blocks are; the last ones go through all loops of a blocked
 * product. */
static const struct {
	int m, n, k;
} sizes[] = {
	{1, 1, 1},    {3, 1, 7},     {1, 17, 5},   {5, 3, 2},      {7, 9, 1},     {13, 7, 31},
	{31, 33, 17}, {63, 5, 65},   {19, 47, 15}, {67, 129, 65},  {129, 67, 35}, {37, 21, 513},
	{255, 33, 9}, {511, 65, 31}, {65, 517, 7}, {161, 97, 129}, {33, 71, 801},
};

#define SPAN_MAX (1 << 17) /* floats of a matrix, with the gaps between its rows */
#define GUARD 12345.0f     /* fills the gaps between rows of the result: must not be changed */

struct judge {
	float *a, *b, *c;     /* as the kernels see them */
	double *right, *size; /* the result, and the sum of the absolute values that it adds up */
	uint32_t seed;
};

static float number_next(struct judge *j)
{
	j->seed = j->seed * 1664525u + 1013904223u;
	return (float)(j->seed >> 8) * 0x1p-23f - 1.0f;
}

static void number_rows(struct judge *j, float *to, int rows, int cols, int stride)
{
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < stride; c++)
			to[r * stride + c] = c < cols ? number_next(j) : NAN; /* never to be read */
}

static void plain_loop(struct judge *j, const struct product *p, int lda, int ldb, int ldc)
{
	for (int r = 0; r < p->m; r++) {
		double *right = j->right + (size_t)r * (size_t)p->n;
		double *size = j->size + (size_t)r * (size_t)p->n;
		for (int c = 0; c < p->n; c++) {
			double was = p->beta != 0 ? (double)(p->beta * j->c[r * ldc + c]) : 0;
			right[c] = was;
			size[c] = fabs(was);
		}
		for (int i = 0; i < p->k; i++) {
			double x = (double)p->alpha *
				   (double)(p->a_t ? j->a[i * lda + r] : j->a[r * lda + i]);
			const float *y = p->b_t ? j->b + i : j->b + i * ldb;
			int step = p->b_t ? ldb : 1;
			for (int c = 0; c < p->n; c++) {
				double add = x * (double)y[c * step];
				right[c] += add;
				size[c] += fabs(add);
			}
		}
	}
}

/* A product with one column is computed as models do it: matrix times vector. */
static void ask_kernels(const struct judge *j, const struct product *p, int lda, int ldb, int ldc)
{
	if (p->n == 1 && ldc == 1 && (p->b_t || ldb == 1))
		cblas_sgemv(CblasRowMajor, p->a_t ? CblasTrans : CblasNoTrans, p->a_t ? p->k : p->m,
			    p->a_t ? p->m : p->k, p->alpha, j->a, lda, j->b, 1, p->beta, j->c, 1);
	else
		cblas_sgemm(CblasRowMajor, p->a_t ? CblasTrans : CblasNoTrans,
			    p->b_t ? CblasTrans : CblasNoTrans, p->m, p->n, p->k, p->alpha, j->a,
			    lda, j->b, ldb, p->beta, j->c, ldc);
}

/* Rounding is at most the number of additions times the precision of a float, as kernels may add in
 * any order. */
static int judge_one(struct judge *j, const struct product *p, struct error *err)
{
	int lda = (p->a_t ? p->m : p->k) + p->more, ldb = (p->b_t ? p->k : p->n) + p->more;
	int ldc = p->n + p->more;
	double part = (p->k + 4) * 0x1p-23;
	number_rows(j, j->a, p->a_t ? p->k : p->m, lda - p->more, lda);
	number_rows(j, j->b, p->b_t ? p->n : p->k, ldb - p->more, ldb);
	for (int i = 0; i < p->m * ldc; i++) /* with beta 0 the old value must not matter */
		j->c[i] = i % ldc >= p->n ? GUARD : p->beta != 0 ? number_next(j) : NAN;
	plain_loop(j, p, lda, ldb, ldc);
	ask_kernels(j, p, lda, ldb, ldc);
	for (int i = 0; i < p->m * ldc; i++) {
		int r = i / ldc, c = i % ldc, at = r * p->n + c;
		double got = (double)j->c[i], want = c < p->n ? j->right[at] : (double)GUARD;
		if (fabs(got - want) <= (c < p->n ? part * j->size[at] : 0.0)) /* false for NAN */
			continue;
		return error_set(
			err, ERROR_CONFIG, kernel_name(),
			"these matrix kernels compute wrong results: %s%s product of %d x "
			"%d and %d x %d%s, rows %d apart: %.9g in row %d, column %d, where "
			"a plain loop has %.9g",
			p->a_t ? "T" : "N", p->b_t ? "T" : "N", p->m, p->k, p->k, p->n,
			p->beta != 0 ? ", added" : "", ldc, got, r, c, want);
	}
	return 0;
}

static int judge_all(struct judge *j, struct error *err)
{
	static const float alpha[] = {1.0f, 0.4f, 0.4f}, beta[] = {0.0f, 1.0f, 0.0f};
	static const int more[] = {0, 0, 1, 5};
	size_t count = sizeof sizes / sizeof *sizes, turn = 0;
	for (size_t i = 0; i < count; i++)
		for (int how = 0; how < 4; how++, turn++) {
			struct product p = {sizes[i].m,      sizes[i].n,    sizes[i].k,
					    how & 1,         how >> 1,      more[(turn / 3) % 4],
					    alpha[turn % 3], beta[turn % 3]};
			struct product column = {sizes[i].m, 1, sizes[i].k,      how & 1,
						 0,          0, alpha[turn % 3], 1.0f};
			if (judge_one(j, &p, err) != 0 || judge_one(j, &column, err) != 0)
				return -1;
		}
	return 0;
}

const char *kernel_name(void)
{
	return openblas_get_corename();
}

int kernel_judge(struct error *err)
{
	/* One float behind an aligned address, as parameters in a dense vector may be. */
	float *memory = malloc((3 * SPAN_MAX + 1) * sizeof(float));
	double *plain = malloc(2 * SPAN_MAX * sizeof(double));
	int result = -1;
	if (memory && plain) {
		struct judge j = {memory + 1, memory + 1 + SPAN_MAX, memory + 1 + 2 * SPAN_MAX,
				  plain,      plain + SPAN_MAX,      1};
		result = judge_all(&j, err);
	} else {
		error_set(err, ERROR_OS, "", "out of memory");
	}
	free(memory);
	free(plain);
	return result;
}

/* ---- how fast ---- */

static double measure_products(void)
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

/* A first layer whose columns all have half as many categories as there are rows. */
#define FOLD_ROWS 1024
#define FOLD_COLUMNS 8
#define FOLD_KEYS (FOLD_COLUMNS * FOLD_ROWS / 2)
#define FOLD_OUT 128
#define FOLD_EMBED 16

struct fold_trial {
	struct model model;
	struct model_batch batch;
	struct first_batch layer;
	uint32_t offset[FOLD_ROWS + 1], index[FOLD_ROWS * FOLD_COLUMNS];
	float rows[FOLD_KEYS * (1 + FOLD_EMBED)], row_gradient[FOLD_KEYS * (1 + FOLD_EMBED)];
	float weight[FOLD_OUT * FOLD_COLUMNS * FOLD_EMBED];
	float weight_gradient[FOLD_OUT * FOLD_COLUMNS * FOLD_EMBED];
};

static void trial_fill(struct fold_trial *t)
{
	static const struct model_blas blas = {.gemm = cblas_sgemm, .gemv = cblas_sgemv};
	t->model.spec = (struct model_spec){
		.fields = FOLD_COLUMNS, .embed = FOLD_EMBED, .hidden = {1, {FOLD_OUT}}};
	t->model.width = 1 + FOLD_EMBED;
	t->model.blas = &blas;
	for (uint32_t i = 0; i < FOLD_ROWS; i++)
		for (uint32_t j = 0; j < FOLD_COLUMNS; j++) /* 389 is prime: in any order */
			t->index[i * FOLD_COLUMNS + j] =
				j * (FOLD_ROWS / 2) + (389 * i + j) % (FOLD_ROWS / 2);
	for (uint32_t i = 0; i <= FOLD_ROWS; i++)
		t->offset[i] = i * FOLD_COLUMNS;
	t->batch = (struct model_batch){.count = FOLD_ROWS, .offset = t->offset, .index = t->index};
	t->layer = (struct first_batch){.model = &t->model,
					.batch = &t->batch,
					.rows = t->rows,
					.weight = t->weight,
					.gain = 1,
					.block = FOLD_ROWS,
					.weight_gradient = t->weight_gradient,
					.row_gradient = t->row_gradient};
}

/* Seconds; infinite: no memory. */
static double trial_run(struct fold_trial *t, struct first *f, double fraction)
{
	struct error err;
	t->model.fold_fraction = fraction;
	double start = clock_mono();
	if (first_begin(f, &t->layer, &err) != 0)
		return INFINITY;
	float *y = first_forward(f, 0, FOLD_ROWS);
	memcpy(first_by_y(f), y, FOLD_ROWS * FOLD_OUT * sizeof(float));
	first_backward(f);
	first_end(f);
	return clock_mono() - start;
}

/* Folding takes still + slope * fraction of the time of the plain product (fold.c): the fraction at
 * which it takes as long. */
static double measure_fold(void)
{
	struct fold_trial *t = calloc(1, sizeof(*t));
	struct first *f[2] = {first_new(), first_new()};
	double best[2] = {INFINITY, INFINITY}, still = 2.0 / FOLD_EMBED;
	if (t && f[0] && f[1]) {
		trial_fill(t);
		for (int round = 0; round < ROUNDS; round++)
			for (int folds = 0; folds < 2; folds++) {
				double took = trial_run(t, f[folds], folds);
				best[folds] = took < best[folds] ? took : best[folds];
			}
	}
	first_free(f[0]);
	first_free(f[1]);
	free(t);
	if (!isfinite(best[0]) || !isfinite(best[1]))
		return 0;
	double slope = (best[1] / best[0] - still) / 0.5;
	return slope > 1 - still ? (1 - still) / slope : 1;
}

void kernel_measure(struct kernel_speed *speed)
{
	speed->gflops = measure_products();
	speed->fold_fraction = measure_fold();
}

/* ---- candidates ---- */

struct candidate {
	const char *name;
	int possible;
	int last; /* slow: tried only if nothing before it was right */
};

#define CANDIDATES 7

static void list_candidates(struct candidate list[CANDIDATES])
{
	int sse3 = 0, sse42 = 0, avx = 0, avx2 = 0, avx512 = 0, bf16 = 0;
#if defined(__x86_64__)
	__builtin_cpu_init();
	sse3 = __builtin_cpu_supports("sse3") != 0;
	sse42 = __builtin_cpu_supports("sse4.2") != 0;
	avx = __builtin_cpu_supports("avx") != 0;
	avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
#endif
	list[0] = (struct candidate){"", 1, 0};
	list[1] = (struct candidate){"Haswell", avx2, 0};
	list[2] = (struct candidate){"SkylakeX", avx512, 0};
	list[3] = (struct candidate){"Cooperlake", bf16, 0};
	list[4] = (struct candidate){"Sandybridge", avx, 1};
	list[5] = (struct candidate){"Nehalem", sse42, 1};
	list[6] = (struct candidate){"Prescott", sse3, 1};
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

/* Reads what the child says in time, without its newline. */
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

static int speed_read(char *text, struct kernel_speed *speed)
{
	char *second = strchr(text, ' ');
	if (!second)
		return -1;
	*second++ = '\0';
	return number_real(text, 0, 1e9, &speed->gflops, "", NULL) != 0
		       ? -1
		       : number_real(second, 0, 1, &speed->fold_fraction, "", NULL);
}

/* All 0: it was wrong, crashed, said nothing or something else. */
static struct kernel_speed run_probe(const char *program, const char *probe, const char *name)
{
	int pipe_fd[2], status;
	char text[64];
	struct kernel_speed speed = {0};
	if (pipe2(pipe_fd, O_CLOEXEC) != 0)
		return speed;
	pid_t child = fork();
	if (child == 0)
		become_probe(program, probe, name, pipe_fd[1]);
	close(pipe_fd[1]);
	if (child > 0) {
		listen_to(pipe_fd[0], text, sizeof(text));
		kill(child, SIGKILL); /* done, or too late */
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		if (speed_read(text, &speed) != 0)
			speed = (struct kernel_speed){0};
	}
	close(pipe_fd[0]);
	return speed;
}

static int contest(const char *program, const char *probe, struct kernel_choice *choice,
		   double *gflops)
{
	struct candidate list[CANDIDATES];
	struct kernel_speed got = run_probe(program, probe, "");
	list_candidates(list);
	*choice = (struct kernel_choice){.fold_fraction = got.fold_fraction};
	*gflops = got.gflops;
	int measured = *gflops > 0;
	double beat = *gflops * GAIN_MIN;
	for (size_t i = 1; i < CANDIDATES; i++) {
		if (!list[i].possible || (list[i].last && measured))
			continue;
		got = run_probe(program, probe, list[i].name);
		measured |= got.gflops > 0;
		if (got.gflops <= beat)
			continue;
		*gflops = beat = got.gflops;
		choice->fold_fraction = got.fold_fraction;
		snprintf(choice->name, KERNEL_NAME_MAX, "%s", list[i].name);
	}
	return measured;
}

/* ---- the file ---- */

/* The sum tells machines apart: machines of several kinds may share one home directory. */
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
	static const char *const lines[] = {"vendor_id",  "cpu family", "model\t",
					    "model name", "stepping",   "flags",
					    "Features",   "CPU part",   "CPU implementer"};
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		const char *line = strstr(text, lines[i]);
		if (line)
			sum = XXH3_64bits_withSeed(line, strcspn(line, "\n"), sum);
	}
	/* How this program was built, which may be another build than the one before. */
	sum = XXH3_64bits_withSeed(&(int){PIECE}, sizeof(int), sum);
	/* OpenBLAS' version and how it was built, but not the kernels that are in use now. */
	const char *version = openblas_get_config(), *in_use = strstr(version, kernel_name());
	size_t first = in_use ? (size_t)(in_use - version) : strlen(version);
	sum = XXH3_64bits_withSeed(version, first, sum);
	if (in_use)
		in_use += strlen(kernel_name());
	return in_use ? XXH3_64bits_withSeed(in_use, strlen(in_use), sum) : sum;
}

static void machine_text(char text[17])
{
	snprintf(text, 17, "%016llx", (unsigned long long)machine_sum());
}

/* Whether the line is of this machine. Lines without judged=1 are ignored: their kernels were
 * measured, but not judged; and lines without fold-fraction=, which are older. */
static int kernel_is_ours(const struct record *r, const char *machine, double *fraction)
{
	const char *kernel = record_get(r, "kernel"), *of = record_get(r, "machine");
	const char *judged = record_get(r, "judged"), *fold = record_get(r, "fold-fraction");
	return record_is(r, "blas") && kernel && strlen(kernel) < KERNEL_NAME_MAX && of &&
	       strcmp(of, machine) == 0 && judged && strcmp(judged, "1") == 0 && fold &&
	       number_real(fold, 0, 1, fraction, "", NULL) == 0;
}

static int cache_read(const char *cache, const char *machine, const char *wrong,
		      struct kernel_choice *choice)
{
	int fd = open(cache, O_RDONLY | O_CLOEXEC), found = 0;
	struct record_reader *in = fd >= 0 ? record_reader_new(fd, cache) : NULL;
	struct record *r = malloc(sizeof(*r));
	struct error err;
	int got;
	while (in && r && !found && (got = record_read(in, r, &err)) > 0) {
		double fraction;
		if (got != RECORD_ONE || !kernel_is_ours(r, machine, &fraction) ||
		    (wrong && strcmp(record_get(r, "kernel"), wrong) == 0))
			continue;
		strcpy(choice->name, record_get(r, "kernel"));
		choice->fold_fraction = fraction;
		found = 1;
	}
	free(r);
	if (in)
		record_reader_free(in);
	if (fd >= 0)
		close(fd);
	return found;
}

/* Replaces the line of this machine with `line`; lines of other machines stay. */
static void cache_write(const char *cache, const char *machine, const char *line, size_t len)
{
	char *old = NULL, *text, mark[40];
	size_t old_len = 0, kept = 0;
	struct error err;
	snprintf(mark, sizeof(mark), "blas machine=%s ", machine);
	if (fs_read_file(cache, 1 << 20, &old, &old_len, &err) != 0)
		old_len = 0;
	if ((text = malloc(old_len + len + 1)) != NULL) {
		for (size_t at = 0, end; at < old_len; at = end) {
			const char *newline = memchr(old + at, '\n', old_len - at);
			end = newline ? (size_t)(newline - old) + 1 : old_len;
			if (!newline || strncmp(old + at, mark, strlen(mark)) == 0)
				continue;
			memcpy(text + kept, old + at, end - at);
			kept += end - at;
		}
		memcpy(text + kept, line, len);
		(void)fs_replace_file(cache, text, kept + len, &err);
	}
	free(text);
	free(old);
}

static void kernel_remember(const char *cache, const char *machine,
			    const struct kernel_choice *choice, double gflops)
{
	struct record_out *o = RECORD("blas", F("machine", machine), F("kernel", choice->name),
				      F("judged", 1), F_REAL("gflops", gflops),
				      F_REAL("fold-fraction", choice->fold_fraction));
	size_t len = record_end(o, NULL);
	cache_write(cache, machine, o->data, len);
}

void kernel_forget(const char *cache)
{
	char machine[17];
	machine_text(machine);
	if (cache)
		cache_write(cache, machine, "", 0);
}

/* Locks the cache while we measure, so that workers that start together do not disturb each other.
 * -1: there is no lock, or *found: another process has found the kernels. */
static int lock_or_wait(const char *cache, const char *machine, const char *wrong,
			struct kernel_choice *choice, int *found)
{
	char dir[4096], path[4096];
	struct error err;
	int fd = -1;
	double deadline = clock_mono() + OTHERS_SECONDS;
	fs_dirname(cache, dir, sizeof(dir));
	if (fs_make_dirs(dir, &err) != 0 ||
	    (size_t)snprintf(path, sizeof(path), "%s.lock", cache) >= sizeof(path))
		return -1;
	while (!(*found = cache_read(cache, machine, wrong, choice)) &&
	       fs_lock(path, &fd, &err) != 0) {
		if (err.code != ERROR_TEMPFAIL || clock_mono() >= deadline)
			return -1;
		clock_sleep(0.05);
	}
	return fd;
}

int kernel_choose(const char *program, const char *probe, const char *cache, const char *wrong,
		  struct kernel_choice *choice, struct error *err)
{
	char machine[17];
	double gflops;
	int found = 0, lock = -1, measured = 0;
	*choice = (struct kernel_choice){0};
	if (!strstr(openblas_get_config(), "DYNAMIC_ARCH")) /* there is only one */
		return wrong ? error_set(err, ERROR_CONFIG, program,
					 "OpenBLAS has no other kernels")
			     : 0;
	machine_text(machine);
	if (cache)
		lock = lock_or_wait(cache, machine, wrong, choice, &found);
	if (!found && lock >= 0) /* the one who held the lock may just have written */
		found = cache_read(cache, machine, wrong, choice);
	if (!found) {
		measured = contest(program, probe, choice, &gflops);
		if (measured && cache)
			kernel_remember(cache, machine, choice, gflops);
	}
	if (lock >= 0)
		close(lock);
	if (!found && !measured)
		return error_set(err, ERROR_CONFIG, program,
				 "none of OpenBLAS' kernels could be measured and found right");
	return 0;
}

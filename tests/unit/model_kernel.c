/* Kernels of OpenBLAS that are fast and wrong: they are not taken, whoever asked for them. The
 * products are computed here: rightly, but for the kernels named in $KERNEL_WRONG ("default":
 * OpenBLAS' own choice), which are wrong in the way that $KERNEL_HOW says. Started with PROBE this
 * program is the probe. */
#include "model/kernel.h"

#include <cblas.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PROBE "--probe"
#define PROBE_FRACTION 0.5
#define SQUARE 512 /* what is measured, and nothing else has this size */
#define FOLDED 1024 /* rows where folding is measured */

static char self[4096], dir[64], cache[128];

/* ---- OpenBLAS, as far as it is asked ---- */

static int is_wrong(void)
{
	const char *core = getenv("OPENBLAS_CORETYPE"), *wrong = getenv("KERNEL_WRONG");
	const char *name = core && *core ? core : "default";
	return wrong && (strcmp(wrong, "all") == 0 || strstr(wrong, name) != NULL);
}

static int wrong_so(const char *how)
{
	const char *set = getenv("KERNEL_HOW");
	return is_wrong() && strcmp(set ? set : "odd", how) == 0;
}

static void multiply(int m, int n, int k, int a_t, int b_t, float alpha, const float *a, int lda,
		     const float *b, int ldb, float beta, float *c, int ldc)
{
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++) {
			double sum = 0;
			for (int l = 0; l < k; l++)
				sum += (double)(a_t ? a[l * lda + i] : a[i * lda + l]) *
				       (double)(b_t ? b[j * ldb + l] : b[l * ldb + j]);
			float old = beta != 0.0f ? beta * c[i * ldc + j] : 0.0f;
			c[i * ldc + j] = (float)((double)alpha * sum) + old;
		}
}

void cblas_sgemm(OPENBLAS_CONST enum CBLAS_ORDER order, OPENBLAS_CONST enum CBLAS_TRANSPOSE ta,
		 OPENBLAS_CONST enum CBLAS_TRANSPOSE tb, OPENBLAS_CONST blasint m,
		 OPENBLAS_CONST blasint n, OPENBLAS_CONST blasint k, OPENBLAS_CONST float alpha,
		 OPENBLAS_CONST float *a, OPENBLAS_CONST blasint lda, OPENBLAS_CONST float *b,
		 OPENBLAS_CONST blasint ldb, OPENBLAS_CONST float beta, float *c,
		 OPENBLAS_CONST blasint ldc)
{
	(void)order;
	int a_t = ta == CblasTrans, b_t = tb == CblasTrans;
	if (m == SQUARE && n == SQUARE && k == SQUARE) {
		usleep(is_wrong() ? 10 : 2000); /* no other is as fast */
		return;
	}
	if (m == FOLDED || k == FOLDED)
		return;
	if (wrong_so("crash"))
		abort();
	multiply(m, n, k, a_t, b_t, alpha, a, lda, b, ldb,
		 wrong_so("beta") && beta == 0.0f ? 1e-30f : beta, c, ldc);
	if ((wrong_so("odd") && m % 2 == 1 && n > 16) ||
	    (wrong_so("trans") && a_t && b_t && k > 32))
		c[(m - 1) * ldc + n - 1] += 0.01f;
	if (wrong_so("beyond") && ldc > n)
		c[n] = 0.0f;
	if (wrong_so("coarse")) /* products of 8 bits */
		c[0] *= 1.0f + 0x1p-9f;
}

void cblas_sgemv(OPENBLAS_CONST enum CBLAS_ORDER order, OPENBLAS_CONST enum CBLAS_TRANSPOSE ta,
		 OPENBLAS_CONST blasint m, OPENBLAS_CONST blasint n, OPENBLAS_CONST float alpha,
		 OPENBLAS_CONST float *a, OPENBLAS_CONST blasint lda, OPENBLAS_CONST float *x,
		 OPENBLAS_CONST blasint step, OPENBLAS_CONST float beta, float *y,
		 OPENBLAS_CONST blasint y_step)
{
	(void)order;
	(void)step;
	(void)y_step;
	int a_t = ta == CblasTrans;
	multiply(a_t ? n : m, 1, a_t ? m : n, a_t, 0, alpha, a, lda, x, 1, beta, y, 1);
	if (wrong_so("vector") && a_t && n > 4)
		y[4] = NAN;
}

/* ---- */

static void wrong(const char *names, const char *how)
{
	setenv("KERNEL_WRONG", names, 1);
	setenv("KERNEL_HOW", how, 1);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/paceline-kernel.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(cache, sizeof cache, "%s/blas", dir);
	unsetenv("OPENBLAS_CORETYPE");
	unsetenv("KERNEL_WRONG");
	unsetenv("KERNEL_HOW");
	return 0;
}

static int tear_down(void **state)
{
	char lock[140];
	(void)state;
	snprintf(lock, sizeof lock, "%s.lock", cache);
	unlink(cache);
	unlink(lock);
	return rmdir(dir);
}

static void right_ones_pass(void **state)
{
	struct error err;
	(void)state;
	assert_int_equal(kernel_judge(&err), 0);
}

static void each_wrong_way_is_found(void **state)
{
	static const char *const ways[] = {"odd", "trans", "beta", "beyond", "coarse", "vector"};
	(void)state;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		struct error err = {0};
		wrong("default", ways[i]);
		if (kernel_judge(&err) == 0)
			fail_msg("'%s' passed", ways[i]);
		assert_int_equal(err.code, ERROR_CONFIG);
		assert_non_null(strstr(err.text, "wrong results"));
		assert_string_equal(err.place, kernel_name());
	}
}

static void choose(const char *was_wrong, const char *want, int how)
{
	struct kernel_choice choice = {.name = "?"};
	struct error err = {0};
	assert_int_equal(kernel_choose(self, PROBE, cache, was_wrong, &choice, &err), how);
	if (how == 0 && want)
		assert_string_equal(choice.name, want);
	if (how == 0)
		assert_float_equal(choice.fold_fraction, PROBE_FRACTION, 1e-9);
	if (how != 0)
		assert_int_equal(err.code, ERROR_CONFIG);
}

/* Beside slow ones that are right, a fast one that is wrong is not taken, nor is one that crashes.
 */
static void a_fast_one_that_is_wrong_loses(void **state)
{
	struct kernel_choice got;
	struct error err;
	(void)state;
	wrong("SkylakeX Haswell", "odd");
	assert_int_equal(kernel_choose(self, PROBE, NULL, NULL, &got, &err), 0);
	assert_string_not_equal(got.name, "SkylakeX");
	assert_string_not_equal(got.name, "Haswell");
	wrong("SkylakeX Haswell", "crash");
	assert_int_equal(kernel_choose(self, PROBE, NULL, NULL, &got, &err), 0);
	assert_string_not_equal(got.name, "SkylakeX");
	assert_string_not_equal(got.name, "Haswell");
}

/* OpenBLAS' own choice is wrong: another one, even a slow one; and no word of the cache against it.
 */
static void the_default_may_be_wrong(void **state)
{
	struct kernel_choice got;
	struct error err;
	(void)state;
	choose(NULL, NULL, 0); /* all were right: remembered */
	wrong("default Cooperlake SkylakeX Haswell Sandybridge", "odd");
	assert_int_equal(kernel_choose(self, PROBE, NULL, "", &got, &err), 0);
#if defined(__x86_64__)
	assert_string_equal(got.name, "Nehalem");
	FILE *f = fopen(cache, "r");
	char line[256];
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof line, f));
	fclose(f);
	if (strstr(line, " kernel= "))
		choose("", "Nehalem", 0);
#endif
}

static void without_any_right_one_there_is_none(void **state)
{
	(void)state;
	wrong("all", "odd");
	choose("", NULL, -1);
	assert_int_not_equal(access(cache, F_OK), 0);
}

/* What was remembered is taken for this processor and library, when it was judged; else not. */
static void memory_is_of_this_machine_and_judged(void **state)
{
	char line[256], machine[64];
	struct kernel_choice got;
	struct error err;
	(void)state;
	choose(NULL, NULL, 0);
	FILE *f = fopen(cache, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof line, f));
	fclose(f);
	assert_int_equal(sscanf(line, "blas machine=%63s kernel=", machine), 1);
	assert_non_null(strstr(line, " judged=1 "));

	static const struct {
		const char *machine, *words;
		int taken;
	} lines[] = {{NULL, "judged=1 fold-fraction=0.25", 1},
		     {NULL, "fold-fraction=0.25", 0},
		     {NULL, "judged=1", 0},
		     {NULL, "judged=1 fold-fraction=1.5", 0},
		     {NULL, "judged=1 fold-fraction=", 0},
		     {"0123456789abcdef", "judged=1 fold-fraction=0.25", 0}};
	wrong("Prescott", "odd"); /* never the fastest */
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		f = fopen(cache, "w");
		assert_non_null(f);
		fprintf(f, "blas machine=%s kernel=Prescott gflops=1e6 %s\n",
			lines[i].machine ? lines[i].machine : machine, lines[i].words);
		fclose(f);
		assert_int_equal(kernel_choose(self, PROBE, cache, NULL, &got, &err), 0);
		assert_int_equal(strcmp(got.name, "Prescott") == 0, lines[i].taken);
		assert_float_equal(got.fold_fraction, (lines[i].taken ? 0.25 : PROBE_FRACTION), 1e-9);
	}
	f = fopen(cache, "w");
	assert_non_null(f);
	fprintf(f,
		"blas machine=0123456789abcdef kernel=x judged=1 gflops=1 fold-fraction=1\n"
		"blas machine=%s kernel=Prescott judged=1 gflops=1e6 fold-fraction=1\nhalf",
		machine);
	fclose(f);
	choose("Prescott", NULL, 0); /* judged to be wrong since then */
	choose(NULL, NULL, 0);
	f = fopen(cache, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof line, f)); /* of another machine: stays */
	assert_non_null(strstr(line, "machine=0123456789abcdef "));
	assert_non_null(fgets(line, sizeof line, f));
	assert_null(strstr(line, "Prescott"));
	assert_null(fgets(line, sizeof line, f));
	fclose(f);
	kernel_forget(cache);
	f = fopen(cache, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof line, f));
	assert_null(fgets(line, sizeof line, f));
	fclose(f);
}

int main(int argc, char **argv)
{
	struct error err;
	if (argc > 1 && strcmp(argv[1], PROBE) == 0) {
		if (kernel_judge(&err) != 0)
			return err.code;
		struct kernel_speed speed;
		kernel_measure(&speed);
		printf("%.2f %g\n", speed.gflops, speed.fold_fraction > 0 ? PROBE_FRACTION : 0.0);
		return 0;
	}
	ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
	if (len <= 0)
		return 71;
	self[len] = '\0';
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(right_ones_pass, set_up, tear_down),
		cmocka_unit_test_setup_teardown(each_wrong_way_is_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_fast_one_that_is_wrong_loses, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_default_may_be_wrong, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_any_right_one_there_is_none, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(memory_is_of_this_machine_and_judged, set_up,
						tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

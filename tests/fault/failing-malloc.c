/*
 * failing-malloc: an allocation of a program fails.  Preloaded (LD_PRELOAD) by tests/fault/calls.c,
 * which counts and says in the file $FAILING_ALLOCATIONS which one, of the program $FAILING_PROGRAM and
 * its children; with $FAILING_OWN only those of its own code, not of libraries for themselves.  Counts from main() on.  Under gcc's ASan it stands before ASan's own functions
 * (verify_asan_link_order=0).  What OpenBLAS allocates for itself does not fail: it never looks whether
 * it was given anything, and nothing of ours can help it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct allocations {
	long count, nth;
	int is_always, struck;
} *shared;

typedef int main_fn(int, char **, char **);
static main_fn *real_main;
static int is_own_only;

static int is_own(void *caller)
{
	Dl_info object, program;
	return dladdr(caller, &object) != 0 && dladdr((void *)real_main, &program) != 0 && object.dli_fbase == program.dli_fbase;
}

static int is_of_blas(void *caller)
{
	Dl_info object;
	return dladdr(caller, &object) != 0 && object.dli_fname && strstr(object.dli_fname, "blas");
}

/* Whether this allocation of CALLER fails. */
static int fails_for(void *caller)
{
	if (!shared || is_of_blas(caller) || (is_own_only && !is_own(caller)))
		return 0;
	long mine = __atomic_add_fetch(&shared->count, 1, __ATOMIC_RELAXED);
	if (shared->nth == 0 || (mine != shared->nth && !(shared->is_always && mine > shared->nth)))
		return 0;
	shared->struck = 1;
	errno = ENOMEM;
	return 1;
}

#define fails() fails_for(__builtin_return_address(0))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FIND(name)                                                                                 \
	static __typeof__(&name) real;                                                             \
	if (!real)                                                                                 \
		real = REAL(name)

void *malloc(size_t n)
{
	FIND(malloc);
	return fails() ? NULL : real(n);
}

void *calloc(size_t count, size_t n)
{
	FIND(calloc);
	return fails() ? NULL : real(count, n);
}

void *realloc(void *old, size_t n)
{
	FIND(realloc);
	return n > 0 && fails() ? NULL : real(old, n);
}

void *reallocarray(void *old, size_t count, size_t n)
{
	FIND(reallocarray);
	return fails() ? NULL : real(old, count, n);
}

void *aligned_alloc(size_t to, size_t n)
{
	FIND(aligned_alloc);
	return fails() ? NULL : real(to, n);
}

int posix_memalign(void **out, size_t to, size_t n)
{
	FIND(posix_memalign);
	return fails() ? ENOMEM : real(out, to, n);
}

/* glibc's own call the malloc() in glibc, or ASan's. */
char *strdup(const char *s)
{
	FIND(strdup);
	return fails() ? NULL : real(s);
}

char *strndup(const char *s, size_t n)
{
	FIND(strndup);
	return fails() ? NULL : real(s, n);
}

static int counted_main(int argc, char **argv, char **environment)
{
	const char *path = getenv("FAILING_ALLOCATIONS"), *program = getenv("FAILING_PROGRAM");
	int fd = -1;
	is_own_only = getenv("FAILING_OWN") != NULL;
	if (path && program && strcmp(program, program_invocation_short_name) == 0)
		fd = open(path, O_RDWR | O_CLOEXEC);
	void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (memory != MAP_FAILED)
		shared = memory;
	return real_main(argc, argv, environment);
}

int __libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
		      void (*end)(void), void *stack)
{
	typedef int start_fn(main_fn *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
	start_fn *start = (start_fn *)dlsym(RTLD_NEXT, "__libc_start_main");
	real_main = main;
	return start(counted_main, argc, argv, init, fini, end, stack);
}

/*
 * machine: a CUDA card made of one CPU thread, for tests.  cuda_runtime.h and cublas_v2.h beside it
 * are the language and the calls; here is what they stand on.  With this folder in front of the
 * include path, .cu sources compile with g++ and clang++ and run where there is no card.
 *
 * Each thread of a block is a fibre with a stack of its own, so barriers and warp operations really
 * wait.  Blocks run one after the other.  What a card leaves open is chosen by a seed: the order of
 * blocks and threads, who goes on after a barrier, and when a stream does its work.
 *
 *   0     blocks and threads in order, streams at once
 *   1     blocks and threads backwards, streams only when somebody waits for them
 *   more  all of it at random
 *
 * A mistake ends the program with status 99 and one line: a barrier or a mask that not all reach,
 * the host in the card's memory, a kernel in the host's, a copy of memory that is not pinned.
 * Others are found by the sanitizers, which know of fibres, blocks, memory and streams: ASan
 * (bounds), MSan (memory of the card and of a block that nobody has written), TSan (what no
 * barrier, stream or event puts in order), UBSan (a float4 at an odd place).  Without them, fresh
 * memory is full of NaNs, and a wrong order shows in the result under some seed.
 *
 * It cannot show: fused multiply-add, the last bits of expf and cuBLAS, a weak order of memory,
 * errors that a card tells later, speed.  All sources that use it are one translation unit.
 */
#ifndef CUDACPU_MACHINE_H
#define CUDACPU_MACHINE_H

#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#ifndef __x86_64__
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define CUDACPU_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define CUDACPU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUDACPU_ASAN 1
#elif __has_feature(thread_sanitizer)
#define CUDACPU_TSAN 1
#elif __has_feature(memory_sanitizer)
#define CUDACPU_MSAN 1
#endif
#endif

#ifdef CUDACPU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef CUDACPU_MSAN
#include <sanitizer/msan_interface.h>
#endif
#ifdef CUDACPU_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreReadsBegin(const char *file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char *file, int line);
extern "C" void AnnotateIgnoreWritesBegin(const char *file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char *file, int line);
#endif

/* What runs on a fibre and is the machine's own: TSan must not take it for the kernel's. */
#define CUDACPU_OWN __attribute__((noinline, no_sanitize("thread")))

struct uint3 {
	unsigned x, y, z;
};

struct dim3 {
	unsigned x, y, z;
	constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
	{
	}
};

namespace cudacpu
{

[[noreturn]] __attribute__((format(printf, 1, 2), noinline)) inline void found(const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	dprintf(2, "cudacpu: %s\n", text);
	_exit(99);
}

/* ---- what the sanitizers are told ---- */

/* While one lives, TSan does not look: the machine's own tables are no part of what is tested. */
struct unwatched {
#ifdef CUDACPU_TSAN
	unwatched()
	{
		AnnotateIgnoreReadsBegin("", 0);
		AnnotateIgnoreWritesBegin("", 0);
	}
	~unwatched()
	{
		AnnotateIgnoreReadsEnd("", 0);
		AnnotateIgnoreWritesEnd("", 0);
	}
#else
	unwatched()
	{
	}
#endif
};

#ifdef CUDACPU_TSAN
inline void *tsan_new()
{
	return __tsan_create_fiber(0);
}
inline void tsan_end(void *context)
{
	__tsan_destroy_fiber(context);
}
inline void *tsan_here()
{
	return __tsan_get_current_fiber();
}
/* Inline: TSan counts calls and returns of each context. */
__attribute__((always_inline)) inline void tsan_go(void *context)
{
	__tsan_switch_to_fiber(context, __tsan_switch_to_fiber_no_sync);
}
/* What came before happens() at a place comes before what follows after() at it. */
CUDACPU_OWN inline void happens(void *place)
{
	__tsan_release(place);
}
CUDACPU_OWN inline void after(void *place)
{
	__tsan_acquire(place);
}
#else
inline void *tsan_new()
{
	return NULL;
}
inline void tsan_end(void *)
{
}
inline void *tsan_here()
{
	return NULL;
}
inline void tsan_go(void *)
{
}
inline void happens(void *)
{
}
inline void after(void *)
{
}
#endif

/* Memory that nobody has written: as floats NaNs, as indexes far out of bounds. More of it would
 * only be pages that protect() has to look at. */
inline void forget(void *at, size_t bytes)
{
	memset(at, 0xff, bytes < 1 << 20 ? bytes : 1 << 20);
#ifdef CUDACPU_MSAN
	__msan_poison(at, bytes);
#endif
}

inline void fence_off(void *at, size_t bytes)
{
#ifdef CUDACPU_ASAN
	__asan_poison_memory_region(at, bytes);
#endif
	(void)at, (void)bytes;
}

inline void fence_open(void *at, size_t bytes)
{
#ifdef CUDACPU_ASAN
	__asan_unpoison_memory_region(at, bytes);
#endif
	(void)at, (void)bytes;
}

/* ---- the seed, and what a test may have wrong with the card ---- */

struct control {
	uint64_t seed = 0, state = 0;
	long fail = 0;      /* this allocation fails, and the one after it; 0: none */
	long asked = 0;     /* allocations so far */
	long live = 0;      /* what was made and not yet freed */
	int driver = 13000; /* 0: none */
	int cards = 1, card = 0; /* card: that is used */
	size_t memory = (size_t)1 << 34;
	int major = 9;
	int blas = 1;    /* 0: there is no library */
	long graphs = 0; /* started */
	int lost = 0;    /* 1 more than the number of the card that no longer answers */
	int nccl = 0;    /* 0: there is no library; 2: it can't start */
};
inline control set;

/* A program that loads such a plug-in is told by files: their directory is in the environment. */
inline const char *told(const char *name, int number = -1)
{
	static char path[4096];
	const char *dir = getenv("PACELINE_CUDACPU");
	if (number < 0)
		snprintf(path, sizeof(path), "%s/%s", dir ? dir : "/nowhere", name);
	else
		snprintf(path, sizeof(path), "%s/%s-%d", dir ? dir : "/nowhere", name, number);
	return path;
}

/* The number in a file; otherwise: there is none. */
inline size_t told_number(const char *name, size_t otherwise)
{
	FILE *f = fopen(told(name), "r");
	if (f && fscanf(f, "%zu", &otherwise) != 1)
		otherwise = 0;
	if (f)
		fclose(f);
	return otherwise;
}

/* A line more in the file `streams`, so that a test sees what a program does. */
inline void tell_stream()
{
	FILE *f = getenv("PACELINE_CUDACPU") ? fopen(told("streams"), "a") : NULL;
	if (f) {
		fputs("a stream\n", f);
		fclose(f);
	}
}

/* The file lost-N is there. */
inline bool is_lost(int card = set.card)
{
	return set.lost == card + 1 || access(told("lost", card), F_OK) == 0;
}

inline void seed(uint64_t value)
{
	set.seed = value;
	set.state = value * 0x9e3779b97f4a7c15u + 1;
}

CUDACPU_OWN inline uint32_t draw(uint32_t below)
{
	set.state = set.state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((set.state >> 33) * below >> 31);
}

/* Counts an allocation; whether it fails. */
inline bool fails()
{
	set.asked++;
	if (set.fail > 0 && (set.asked == set.fail || set.asked == set.fail + 1))
		return true;
	set.live++;
	return false;
}

/* ---- memory: the card's is open only while it works ---- */

constexpr size_t ARENA = (size_t)1 << 35, PLACE = 256, PAGE = 4096;

struct piece {
	char *at;
	size_t bytes;
	int card; /* whose it is */
};

struct memory {
	char *base = NULL;
	int open = 0;
	size_t closed = 0;                 /* so many bytes are, now */
	std::vector<piece> pieces, pinned; /* pieces: in the order of addresses */
};
inline memory mem;

inline bool on_card(const void *p)
{
	return mem.base && (const char *)p >= mem.base && (const char *)p < mem.base + ARENA;
}

/* card -1: of any. */
inline bool lies_in(const std::vector<piece> &list, const void *p, size_t bytes, int card)
{
	for (const piece &one : list)
		if ((const char *)p >= one.at && (const char *)p + bytes <= one.at + one.bytes)
			return card < 0 || one.card == card;
	return false;
}

inline void touched(int, siginfo_t *info, void *)
{
	if (on_card(info->si_addr))
		found("the host touches memory of the card");
	found("%p is read or written, where nothing is", info->si_addr);
}

inline size_t card_room(size_t bytes)
{
	return (bytes + PLACE + PAGE - 1) / PAGE * PAGE;
}

/* It takes its time, so it is done only where streams work at once. */
inline void protect()
{
	const piece *last = mem.pieces.empty() ? NULL : &mem.pieces.back();
	size_t used = last ? (size_t)(last->at - mem.base) + card_room(last->bytes) : 0;
	size_t closes = mem.open || set.seed > 0 ? 0 : used,
	       most = mem.closed > closes ? mem.closed : closes;
	if (closes != mem.closed &&
	    mprotect(mem.base, most, closes ? PROT_NONE : PROT_READ | PROT_WRITE) != 0)
		found("mprotect fails");
	mem.closed = closes;
}

struct opened {
	opened()
	{
		unwatched own;
		if (mem.open++ == 0)
			protect();
	}
	~opened()
	{
		unwatched own;
		if (--mem.open == 0)
			protect();
	}
};

inline void *card_take(size_t bytes)
{
	unwatched own;
	if (!mem.base) {
		void *at = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (at == MAP_FAILED)
			found("no address space");
		mem.base = (char *)at;
		struct sigaction act = {};
		act.sa_sigaction = touched;
		act.sa_flags = SA_SIGINFO;
		sigaction(SIGSEGV, &act, NULL);
		sigaction(SIGBUS, &act, NULL);
	}
	char *at = mem.base;
	size_t before = 0; /* the first gap that is large enough */
	while (before < mem.pieces.size() &&
	       (size_t)(mem.pieces[before].at - at) < card_room(bytes)) {
		at = mem.pieces[before].at + card_room(mem.pieces[before].bytes);
		before++;
	}
	if (at + card_room(bytes) > mem.base + ARENA)
		found("the tests take more memory than the card of this stand-in has");
	opened now;
	mem.pieces.insert(mem.pieces.begin() + (long)before, {at, bytes, set.card});
	fence_open(at, bytes);
	forget(at, bytes);
	fence_off(at + bytes, card_room(bytes) - bytes);
	return at;
}

inline void take_back(std::vector<piece> &list, void *p, const char *what)
{
	for (size_t i = 0; i < list.size(); i++)
		if (list[i].at == p) {
			set.live--;
			if (&list == &mem.pieces)
				fence_off(p, list[i].bytes);
			list.erase(list.begin() + (long)i);
			return;
		}
	found("%s of what was not allocated", what);
}

/* ---- fibres ---- */

constexpr size_t STACK = 1 << 17;
constexpr unsigned BLOCK_MAX = 1024;

struct fibre {
	void *place = NULL; /* its stack pointer while it does not run */
	char *stack = NULL; /* NULL: the host's */
	const void *bottom = NULL;
	size_t bytes = 0;
	void *fake = NULL; /* ASan's */
	void *tsan = NULL; /* TSan's, of who started the kernel */
#ifndef __x86_64__
	ucontext_t context;
#endif
};

#ifdef __x86_64__
/* Saves what a call must keep, changes the stack, and goes on there. */
extern "C" void cudacpu_change(void **save, void *load);
asm(".text\n.local cudacpu_change\n.type cudacpu_change,@function\ncudacpu_change:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size cudacpu_change,.-cudacpu_change\n");
#endif

void fibre_main();

inline void fibre_prepare(fibre *f)
{
	if (!f->stack) {
		f->stack = (char *)mmap(NULL, STACK, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (f->stack == MAP_FAILED)
			found("no memory for a stack");
		f->bottom = f->stack;
		f->bytes = STACK;
	}
	fence_open(f->stack, STACK); /* what the last one to run here left */
	f->fake = NULL;
#ifdef __x86_64__
	void **top = (void **)(f->stack + STACK) - 3;
	*top = NULL;                 /* fibre_main returns to nobody */
	*--top = (void *)fibre_main; /* the stack is then aligned as behind a call */
	f->place = top - 6;
	memset(f->place, 0, 6 * sizeof(void *));
#else
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = STACK;
	makecontext(&f->context, fibre_main, 0);
#endif
}

CUDACPU_OWN inline void fibre_change(fibre *from, fibre *to, bool ends)
{
#ifdef CUDACPU_ASAN
	__sanitizer_start_switch_fiber(ends ? NULL : &from->fake, to->bottom, to->bytes);
#endif
#ifdef __x86_64__
	cudacpu_change(&from->place, to->place);
#else
	swapcontext(&from->context, &to->context);
#endif
#ifdef CUDACPU_ASAN
	__sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
	(void)ends;
}

/* ---- a block ---- */

enum state { NEW, READY, AT_BARRIER, AT_WARP, ENDED };

struct thread {
	dim3 index = dim3();
	unsigned number = 0; /* in the block; its warp is number / 32 */
	state is = NEW;
	fibre *on = NULL;
	void *tsan = NULL;
	const char *file = "";
	int line = 0;
	/* At a warp operation: whom it waits for, what it gives, whose value it asks for (-1: a
	 * bit of each). */
	unsigned mask = 0;
	int source = 0;
	uint64_t value = 0;
};

struct shared_piece {
	const void *name;
	void *at;
};

struct block {
	dim3 index = dim3(), size = dim3(), grid = dim3();
	dim3 thread_index = dim3(); /* of who runs */
	unsigned turns = 0;         /* blocks so far */
	unsigned count = 0, live = 0, at_barrier = 0, ready_count = 0;
	unsigned generation = 0; /* of barriers: TSan's places take turns */
	char barrier[2] = {}, warps[32] = {};
	unsigned ready[BLOCK_MAX] = {};
	shared_piece shared[16] = {};
	unsigned shared_count = 0;
	size_t shared_bytes = 0;
	thread threads[BLOCK_MAX];
	void (*body)(void *) = NULL;
	void *body_of = NULL;
	char *starts = NULL, *ends = NULL;
};
inline block here;
inline thread *now; /* NULL: the host runs */
inline fibre host_fibre;
/* Who uses a stack again comes, for TSan, after who had it before. So these are threads of two
 * blocks, and not of one number: whoever writes what the same thread of the block before has
 * written is found. */
inline fibre fibres[BLOCK_MAX];
constexpr unsigned TURN = 37;

CUDACPU_OWN inline void make_ready(thread *t)
{
	t->is = READY;
	here.ready[here.ready_count++] = t->number;
}

/* From a thread back to the host, until it is this thread's turn again. */
CUDACPU_OWN inline void leave(bool ends)
{
	thread *t = now;
	tsan_go(host_fibre.tsan);
	fibre_change(t->on, &host_fibre, ends);
}

CUDACPU_OWN inline void body_run()
{
	fibre *stack = now->on;
	after(here.starts);
	after(stack);
	here.body(here.body_of);
	happens(stack);
	happens(here.ends);
}

CUDACPU_OWN inline void fibre_main()
{
#ifdef CUDACPU_ASAN
	__sanitizer_finish_switch_fiber(NULL, &host_fibre.bottom, &host_fibre.bytes);
#endif
	body_run();
	now->is = ENDED;
	here.live--;
	leave(true);
}

CUDACPU_OWN inline void barrier(const char *file, int line)
{
	thread *t = now;
	t->is = AT_BARRIER;
	t->file = file;
	t->line = line;
	char *place = &here.barrier[here.generation % 2];
	happens(place);
	here.at_barrier++;
	leave(false);
	after(place);
}

CUDACPU_OWN inline void barrier_open()
{
	const thread *first = NULL;
	for (unsigned i = 0; i < here.count; i++) {
		const thread *t = &here.threads[i];
		if (t->is == ENDED)
			continue;
		if (first && (first->line != t->line || strcmp(first->file, t->file) != 0))
			found("threads %u and %u of a block wait at different barriers, %s:%d and "
			      "%s:%d",
			      first->number, i, first->file, first->line, t->file, t->line);
		first = first ? first : t;
	}
	if (here.live < here.count)
		found("%u threads wait at the barrier %s:%d, which %u others of the block have not "
		      "reached: "
		      "they ended",
		      here.live, first->file, first->line, here.count - here.live);
	here.at_barrier = 0;
	here.generation++;
	for (unsigned i = 0; i < here.count; i++)
		make_ready(&here.threads[i]);
}

/* Whether all of the mask have come; then they all have their results, and go on. */
CUDACPU_OWN inline bool warp_meets(thread *t)
{
	thread *warp = t - t->number % 32;
	uint64_t results[32];
	for (unsigned lane = 0; lane < 32; lane++) {
		if (!(t->mask >> lane & 1))
			continue;
		thread *other = warp + lane;
		if (other->number >= here.count || other->is == ENDED)
			found("%s:%d: the mask %x has lane %u, which %s", t->file, t->line, t->mask,
			      lane,
			      other->number >= here.count ? "the block does not have"
							  : "has ended");
		if (other->is != AT_WARP)
			return false;
		if (other->mask != t->mask || other->line != t->line ||
		    strcmp(other->file, t->file) != 0)
			return false; /* it may yet be met there by the others */
	}
	for (unsigned lane = 0; lane < 32; lane++) {
		if (!(t->mask >> lane & 1))
			continue;
		int source = warp[lane].source;
		uint64_t bits = 0;
		if (source < 0) {
			for (unsigned i = 0; i < 32; i++)
				if ((t->mask >> i & 1) && warp[i].value)
					bits |= (uint64_t)1 << i;
			results[lane] = bits;
		} else if (t->mask >> source & 1) {
			results[lane] = warp[source].value;
		} else {
			found("%s:%d: lane %u reads lane %d, which is not in the mask %x", t->file,
			      t->line, lane, source, t->mask);
		}
	}
	for (unsigned lane = 0; lane < 32; lane++)
		if (t->mask >> lane & 1) {
			warp[lane].value = results[lane];
			if (&warp[lane] != t)
				make_ready(&warp[lane]);
		}
	t->is = READY;
	return true;
}

CUDACPU_OWN inline uint64_t warp_meet(unsigned mask, uint64_t value, int source, const char *file,
				      int line)
{
	thread *t = now;
	if (!(mask >> t->number % 32 & 1))
		found("%s:%d: lane %u is not in its own mask %x", file, line, t->number % 32, mask);
	t->mask = mask;
	t->value = value;
	t->source = source;
	t->file = file;
	t->line = line;
	t->is = AT_WARP;
	if (!warp_meets(t))
		leave(false);
	return t->value;
}

/* __shared__ memory is the heap's, so that the sanitizers see its ends, and each block has it anew.
 */
CUDACPU_OWN inline void *shared(const void *name, size_t bytes)
{
	for (unsigned i = 0; i < here.shared_count; i++)
		if (here.shared[i].name == name) {
			after(&here.shared[i]);
			return here.shared[i].at;
		}
	if (here.shared_count == 16 || (here.shared_bytes += bytes) > 48 << 10)
		found("a block takes more than 48 KiB of shared memory");
	void *at = aligned_alloc(64, (bytes + 63) / 64 * 64);
	forget(at, bytes);
	fence_off((char *)at + bytes, (bytes + 63) / 64 * 64 - bytes);
	here.shared[here.shared_count] = {name, at};
	happens(&here.shared[here.shared_count++]);
	return at;
}

CUDACPU_OWN inline void thread_resume(thread *t)
{
	if (t->is == NEW) {
		t->on = &fibres[(t->number + TURN * here.turns) % here.count];
		fibre_prepare(t->on);
		t->tsan = tsan_new();
	}
	now = t;
	here.thread_index = t->index;
	tsan_go(t->tsan);
	fibre_change(&host_fibre, t->on, false);
	now = NULL;
	if (t->is == ENDED)
		tsan_end(t->tsan);
}

CUDACPU_OWN inline thread *thread_next()
{
	unsigned at = 0;
	if (set.seed > 0)
		at = set.seed == 1 ? here.ready_count - 1 : draw(here.ready_count);
	unsigned number = here.ready[at];
	here.ready_count--;
	if (set.seed == 0) /* few wait at a time, or all of them in order */
		memmove(here.ready, here.ready + 1, here.ready_count * sizeof(*here.ready));
	else
		here.ready[at] = here.ready[here.ready_count];
	return &here.threads[number];
}

CUDACPU_OWN inline void block_run(unsigned number)
{
	here.index = dim3(number % here.grid.x, number / here.grid.x % here.grid.y,
			  number / here.grid.x / here.grid.y);
	here.turns++;
	here.live = here.count;
	here.at_barrier = here.shared_count = here.ready_count = 0;
	here.shared_bytes = 0;
	for (unsigned i = 0; i < here.count; i++) {
		thread *t = &here.threads[i];
		t->index = dim3(i % here.size.x, i / here.size.x % here.size.y,
				i / here.size.x / here.size.y);
		t->number = i;
		t->is = NEW;
		here.ready[here.ready_count++] = i;
	}
	while (here.live > 0) {
		if (here.ready_count == 0) {
			for (unsigned i = 0; i < here.count; i++)
				if (here.threads[i].is == AT_WARP)
					found("lane %u waits at %s:%d for the others of its mask "
					      "%x for ever",
					      i % 32, here.threads[i].file, here.threads[i].line,
					      here.threads[i].mask);
			found("nobody of a block can go on");
		}
		thread_resume(thread_next());
		if (here.at_barrier > 0 && here.at_barrier == here.live)
			barrier_open();
	}
	unwatched own;
	for (unsigned i = 0; i < here.shared_count; i++)
		free(here.shared[i].at);
}

/* Runs a kernel: `body` once for each thread. */
inline void grid_run(dim3 grid, dim3 size, void (*body)(void *), void *of)
{
	char starts, ends;
	opened memory;
	happens(&starts);
	{
		unwatched own;
		here.grid = grid;
		here.size = size;
		here.count = size.x * size.y * size.z;
		here.body = body;
		here.body_of = of;
		here.starts = &starts;
		here.ends = &ends;
		host_fibre.tsan = tsan_here();
		unsigned blocks = grid.x * grid.y * grid.z;
		std::vector<unsigned> order(blocks);
		for (unsigned i = 0; i < blocks; i++)
			order[i] = set.seed == 1 ? blocks - 1 - i : i;
		for (unsigned i = blocks; set.seed > 1 && i > 1; i--)
			std::swap(order[i - 1], order[draw(i)]);
		for (unsigned one : order)
			block_run(one);
	}
	after(&ends);
}

/* ---- streams ---- */

struct event;

struct task {
	std::function<void()> run; /* empty: an event */
	event *of;
	uint64_t ticket; /* 0: run; what the event is then, or has to be */
	bool waits;
};

struct graph {
	std::vector<std::function<void()>> tasks;
};

struct stream {
	std::vector<task *> tasks;
	graph *captures = NULL;
	void *tsan = NULL;
	char place = 0;
	int card = set.card;
};

struct event {
	stream *on = NULL;
	uint64_t asked = 0, reached = 0;
	double at = 0; /* seconds, when it was reached */
	char place = 0;
};

inline std::vector<stream *> streams;

CUDACPU_OWN inline bool can_run(const task *t)
{
	return !t->waits || t->of->reached >= t->ticket;
}

CUDACPU_OWN inline void task_do(stream *s, task *t)
{
	void *host = tsan_here();
	tsan_go(s->tsan);
	after(t);
	if (t->run) {
		opened memory;
		t->run();
	} else if (t->waits) {
		after(&t->of->place);
	} else {
		happens(&t->of->place);
		unwatched own;
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		t->of->at = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
		t->of->reached = t->ticket;
	}
	happens(&s->place);
	tsan_go(host);
}

CUDACPU_OWN inline void stream_step(stream *s)
{
	task *t;
	{
		unwatched own;
		t = s->tasks.front();
		s->tasks.erase(s->tasks.begin());
	}
	task_do(s, t);
	unwatched own;
	delete t;
}

/* A card that is lost does nothing; whoever waits for it alone waits for ever. */
CUDACPU_OWN inline void stream_drain(stream *s, bool host_waits = true)
{
	while (!s->tasks.empty() && !is_lost(s->card)) {
		const task *first = s->tasks.front();
		if (can_run(first)) {
			stream_step(s);
			continue;
		}
		stream_drain(first->of->on, host_waits);
		if (s->tasks.empty() || s->tasks.front() != first || can_run(first))
			continue; /* that one waited for this one */
		if (!host_waits)
			return;
		if (is_lost(first->of->on->card))
			found("card %d waits for card %d, which is lost, and the host for it",
			      s->card, first->of->on->card);
	}
}

/* What happens meanwhile: any stream may do some of its work whenever the host calls. */
CUDACPU_OWN inline void meanwhile()
{
	unwatched own;
	for (unsigned i = set.seed > 1 && !streams.empty() ? draw(4) : 0; i > 0; i--) {
		stream *s = streams[draw((uint32_t)streams.size())];
		if (!s->tasks.empty() && can_run(s->tasks.front()) && !is_lost(s->card))
			stream_step(s);
	}
}

/* A step of each that can do one. */
inline void stream_pass()
{
	unwatched own;
	for (stream *s : streams)
		if (!s->tasks.empty() && can_run(s->tasks.front()) && !is_lost(s->card))
			stream_step(s);
}

inline void stream_add(stream *s, std::function<void()> run, event *of = NULL, uint64_t ticket = 0,
		       bool waits = false)
{
	if (!s)
		found("the default stream is used: it waits for all others");
	if (s->captures) {
		if (!run)
			found("events in a graph are not known to this stand-in");
		s->captures->tasks.push_back(std::move(run));
		return;
	}
	task *t;
	{
		unwatched own;
		t = new task{std::move(run), of, ticket, waits};
		s->tasks.push_back(t);
	}
	happens(t);
	if (set.seed == 0)
		stream_drain(s, false);
	else
		meanwhile();
}

} // namespace cudacpu

#endif

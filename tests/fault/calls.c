/*
 * calls: each system call of a program fails, one run after the other.  Compiled and told what to run
 * by tests/fault/calls.  Linux on x86-64, by ptrace(2): so calls of libraries and of stdio count, too.
 *
 *   calls NAME DIR [KEY=VALUE]... -- COMMAND...
 *
 * DIR/prepared is copied to DIR/work, in which COMMAND runs; its standard input is DIR/work/stdin, if
 * that is there.  A first run without a fault says what is right, and how many calls could give each
 * error.  Then each of these calls gives it, once, and from then on; reads and writes are short;
 * the process is killed before and after the call; an allocation fails.  Afterwards COMMAND runs
 * again without a fault.  Wrong is
 *   - a signal that was not sent here, a status that is none of sysexits(3), no place in the message
 *   - more than `deadline` seconds
 *   - status 0, and other output or files than in the first run
 *   - another status after EINTR, EAGAIN, or what was short
 *   - a file that is neither as it was before nor as the first run left it; one more file
 *   - another result of the run afterwards
 * and with say=, where COMMAND is a daemon on DIR/work/sock,
 *   - an answer that is neither an error nor that of the first run; none, from a daemon that lives
 *   - after the restart, a state that is not that after the acknowledged requests
 *
 * KEYS  say=FILE      the requests, a line each; lines behind one with bytes=N are its payload
 *       state=REQUEST its answer, or the file `state` that it writes, is the state
 *       program=NAME  the calls of this program count, among those that COMMAND starts
 *       own=1         only calls and allocations of its own code count, not those of libraries for themselves (MPI's)
 *       speaks=NAME   whose message says why, if not that program's
 *       mask=KEY,KEY  fields that no two runs share
 *       status=N      of the first run (0)
 *       again=STATUS  the run afterwards may also have this status; several, with commas; never: there is
 *                     no such run
 *       last=FILE     is made last: other files may be half while it is not there
 *       check=COMMAND of a shell, in DIR/work, with $status, $error, $acknowledged requests, says whether what is there is right; then
 *                     output and files are not compared
 *       deadline=S    (60: the machine may be busy)
 *       malloc=FILE   the library that makes allocations fail
 *       most=N        calls for each error, spread over all (0: all)
 *       pairs=N       afterwards so many runs in which two calls fail, by chance
 *       seed=N        of that
 *       part=K parts=N  only every Nth fault, beginning with the Kth; the same of pairs
 *       count=1       no fault: faults= says how many there are
 *       only=ERROR    [:N[:once|always[+ERROR:M]]]: of a pair, the Mth call behind the first one
 *       show=1        what was struck
 */
#define _GNU_SOURCE
#include <assert.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TASKS_MAX 512
#define REQUESTS_MAX 512

static const char *name, *dir, *program, *speaks, *say_file, *state_request, *mask, *check, *preload, *only, *again_statuses, *last;
static int first_status, show, is_own_only;
static double deadline = 60.0;
static long most, pairs, part, parts = 1;
static char **command;

/* ---- what can go wrong ---- */

enum what { BIO, BNOSPC, BROFS, BMFILE, BNOMEM, BINTR, BAGAIN, BPIPE, BRESET, SHORT, KILL_BEFORE, KILL_AFTER,
	    MALLOC, WHATS, COUNT, NONE }; /* COUNT: nothing, but calls are counted */

static const struct {
	const char *name;
	int errnum;
	int is_harmless; /* who knows of it goes on */
	int is_once;     /* for ever would be nonsense, or the same */
} whats[WHATS] = {
	[BIO] = {"EIO", EIO, 0, 0},
	[BNOSPC] = {"ENOSPC", ENOSPC, 0, 0},
	[BROFS] = {"EROFS", EROFS, 0, 0},
	[BMFILE] = {"EMFILE", EMFILE, 0, 0},
	[BNOMEM] = {"ENOMEM", ENOMEM, 0, 0},
	[BINTR] = {"EINTR", EINTR, 1, 1},
	[BAGAIN] = {"EAGAIN", EAGAIN, 1, 1},
	[BPIPE] = {"EPIPE", EPIPE, 0, 0},
	[BRESET] = {"ECONNRESET", ECONNRESET, 0, 0},
	[SHORT] = {"short", 0, 1, 0},
	[KILL_BEFORE] = {"kill-before", 0, 0, 1},
	[KILL_AFTER] = {"kill-after", 0, 0, 1},
	[MALLOC] = {"malloc", ENOMEM, 0, 0},
};

enum on { NOTHING, PATH, OPENED, FD }; /* what a call is about */

#define IO 1 << BIO
#define SPC 1 << BNOSPC
#define ROFS 1 << BROFS
#define MFILE 1 << BMFILE
#define MEM 1 << BNOMEM
#define INTR 1 << BINTR
#define AGAIN 1 << BAGAIN
#define PIPE 1 << BPIPE
#define RESET 1 << BRESET
#define LESS 1 << SHORT

/* The errors that a call can give; for those on a descriptor, if it is a file; a socket; a pipe or else. */
static const struct call {
	long nr;
	const char *name;
	enum on on;
	unsigned file, socket, other;
} calls[] = {
#define CALL(word, ...) {SYS_##word, #word, __VA_ARGS__}
#define READS(word) CALL(word, FD, IO | LESS, RESET | INTR | AGAIN | LESS | MEM, INTR | AGAIN)
#define WRITES(word)                                                                               \
	CALL(word, FD, IO | SPC | ROFS | LESS, PIPE | RESET | INTR | AGAIN | LESS | MEM, INTR | AGAIN)
	READS(read), READS(readv), READS(pread64), READS(preadv), READS(recvfrom), READS(recvmsg),
	WRITES(write), WRITES(writev), WRITES(pwrite64), WRITES(pwritev), WRITES(sendto), WRITES(sendmsg),
	CALL(sendfile, FD, IO | SPC | ROFS | LESS, 0, 0),
	CALL(copy_file_range, FD, IO | SPC | ROFS | LESS, 0, 0),
	CALL(open, OPENED, IO | MFILE | MEM | SPC | ROFS, 0, 0),
	CALL(openat, OPENED, IO | MFILE | MEM | SPC | ROFS, 0, 0),
	CALL(close, FD, IO | SPC, 0, 0),
	CALL(fsync, FD, IO | SPC | ROFS, 0, 0),
	CALL(fdatasync, FD, IO | SPC | ROFS, 0, 0),
	CALL(ftruncate, FD, IO | SPC | ROFS, 0, 0),
	CALL(fallocate, FD, IO | SPC | ROFS, 0, 0),
	CALL(flock, FD, IO | INTR | MEM, 0, 0),
	CALL(getdents64, FD, IO, 0, 0),
	CALL(fchmod, FD, IO | ROFS, 0, 0),
	CALL(fstat, FD, IO | MEM, 0, 0),
	CALL(fstatfs, FD, IO | MEM, 0, 0),
	CALL(newfstatat, PATH, IO | MEM, 0, 0),
	CALL(stat, PATH, IO | MEM, 0, 0),
	CALL(lstat, PATH, IO | MEM, 0, 0),
	CALL(statx, PATH, IO | MEM, 0, 0),
	CALL(statfs, PATH, IO | MEM, 0, 0),
	CALL(access, PATH, IO | MEM | ROFS, 0, 0),
	CALL(faccessat2, PATH, IO | MEM | ROFS, 0, 0),
	CALL(readlink, PATH, IO | MEM, 0, 0),
	CALL(readlinkat, PATH, IO | MEM, 0, 0),
	CALL(rename, PATH, IO | SPC | ROFS | MEM, 0, 0),
	CALL(renameat2, PATH, IO | SPC | ROFS | MEM, 0, 0),
	CALL(link, PATH, IO | SPC | ROFS | MEM, 0, 0),
	CALL(linkat, PATH, IO | SPC | ROFS | MEM, 0, 0),
	CALL(symlink, PATH, IO | SPC | ROFS | MEM, 0, 0),
	CALL(mkdir, PATH, IO | SPC | ROFS | MEM, 0, 0),
	CALL(mkdirat, PATH, IO | SPC | ROFS | MEM, 0, 0),
	CALL(unlink, PATH, IO | ROFS | MEM, 0, 0),
	CALL(unlinkat, PATH, IO | ROFS | MEM, 0, 0),
	CALL(rmdir, PATH, IO | ROFS | MEM, 0, 0),
	CALL(chmod, PATH, IO | ROFS, 0, 0),
	CALL(execve, PATH, IO | MEM, 0, 0),
	CALL(mmap, NOTHING, MEM, 0, 0),
	CALL(mremap, NOTHING, MEM, 0, 0),
	CALL(brk, NOTHING, MEM, 0, 0),
	CALL(clone, NOTHING, MEM, 0, 0),
	CALL(clone3, NOTHING, MEM, 0, 0),
	CALL(fork, NOTHING, MEM, 0, 0),
	CALL(vfork, NOTHING, MEM, 0, 0),
	CALL(pipe2, NOTHING, MFILE | MEM, 0, 0),
	CALL(socket, NOTHING, MFILE | MEM, 0, 0),
	CALL(socketpair, NOTHING, MFILE | MEM, 0, 0),
	CALL(epoll_create1, NOTHING, MFILE | MEM, 0, 0),
	CALL(eventfd2, NOTHING, MFILE | MEM, 0, 0),
	CALL(timerfd_create, NOTHING, MFILE | MEM, 0, 0),
	CALL(memfd_create, NOTHING, MFILE | MEM, 0, 0),
	CALL(dup, NOTHING, MFILE, 0, 0),
	CALL(dup2, NOTHING, MFILE, 0, 0),
	CALL(dup3, NOTHING, MFILE, 0, 0),
	CALL(accept4, FD, 0, MFILE | MEM | INTR | AGAIN | RESET, 0),
	CALL(bind, FD, 0, MEM | IO | SPC | ROFS, 0),
	CALL(listen, FD, 0, MEM, 0),
	CALL(connect, FD, 0, MEM | INTR, 0),
	CALL(setsockopt, FD, 0, MEM, 0),
	CALL(getsockopt, FD, 0, MEM, 0),
	CALL(epoll_ctl, NOTHING, MEM | SPC, 0, 0),
	CALL(epoll_wait, NOTHING, INTR, 0, 0),
	CALL(epoll_pwait, NOTHING, INTR, 0, 0),
	CALL(poll, NOTHING, INTR | MEM, 0, 0),
	CALL(ppoll, NOTHING, INTR | MEM, 0, 0),
	CALL(wait4, NOTHING, INTR, 0, 0),
	CALL(waitid, NOTHING, INTR, 0, 0),
	CALL(nanosleep, NOTHING, INTR, 0, 0),
	CALL(clock_nanosleep, NOTHING, INTR, 0, 0),
	CALL(getrandom, NOTHING, INTR, 0, 0),
};

static const struct call *calls_find(long nr)
{
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (calls[i].nr == nr)
			return &calls[i];
	return NULL;
}

/* ---- a run ---- */

static struct fault {
	enum what what;
	long nth;
	int is_always;
	/* Of a pair: what the gap-th call gives, of those behind the first one that could. */
	enum what then;
	long gap;
} fault;

static int is_pair(const struct fault *f)
{
	return f->gap > 0;
}

static int gives(const struct fault *f, enum what what)
{
	return f->what == what || (is_pair(f) && f->then == what);
}

/* Shared with the library that makes allocations fail. */
static struct allocations {
	long count, nth;
	int is_always, struck;
} *allocations;

static struct run {
	pid_t pid;
	pid_t main;             /* the program's, if that is another one */
	int status;             /* as of waitpid(2) */
	int hung, struck, struck_then, hit_stderr, killed;
	long behind;            /* calls behind the first one that could give the second error */
	long seen[WHATS];       /* calls that could */
	char where[400];        /* what was struck first */
	struct timespec began;
} run;

static double seconds_since(const struct timespec *t)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - t->tv_sec) + 1e-9 * (double)(now.tv_nsec - t->tv_nsec);
}

static struct task {
	pid_t tid;
	enum { FRESH, BEFORE_MAIN, COUNTED, PASSED } state;
	uintptr_t entry;
	long code;             /* what the breakpoint replaced */
	int is_inside;         /* of a call */
	const struct call *call;
	int result;            /* that it will have instead of its own: -errno; 1: its own */
	int kills;             /* when it is over */
	unsigned long long last[3]; /* call, and what it was about */
	int repeats;
	uintptr_t piece;       /* the length of a struct iovec that was made shorter */
	uint64_t length;
} tasks[TASKS_MAX];

static struct task *task_of(pid_t tid)
{
	struct task *unused = NULL;
	for (size_t i = 0; i < TASKS_MAX; i++) {
		if (tasks[i].tid == tid)
			return &tasks[i];
		if (tasks[i].tid == 0 && !unused)
			unused = &tasks[i];
	}
	assert(unused);
	*unused = (struct task){.tid = tid};
	return unused;
}

static size_t read_proc(char *out, size_t max, pid_t tid, const char *what)
{
	char path[100];
	snprintf(path, sizeof path, "/proc/%d/%s", (int)tid, what);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, max - 1);
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static pid_t group_of(pid_t tid)
{
	char text[4096];
	read_proc(text, sizeof text, tid, "status");
	const char *at = strstr(text, "\nTgid:");
	return at ? atoi(at + 6) : tid;
}

/* Whether a signal handler of its own could interrupt it. */
static int has_handlers(pid_t tid)
{
	char text[4096];
	read_proc(text, sizeof text, tid, "status");
	const char *at = strstr(text, "\nSigCgt:");
	return at && (strtoull(at + 8, NULL, 16) & ~(3ull << 31)) != 0;
}

static int never_waits(pid_t tid, int fd)
{
	char text[400], what[40];
	snprintf(what, sizeof what, "fdinfo/%d", fd);
	read_proc(text, sizeof text, tid, what);
	const char *at = strstr(text, "flags:");
	return at && (strtoul(at + 6, NULL, 8) & O_NONBLOCK) != 0;
}

/* A pipe of which it has both ends: there nothing happens that happens between processes; nor in an eventfd. */
static int is_own_pipe(pid_t tid, int fd, const char *pipe)
{
	char path[100], to[100];
	for (int other = 0; other < 40; other++) {
		snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)tid, other);
		ssize_t n = other == fd ? 0 : readlink(path, to, sizeof to - 1);
		if (n > 0 && (to[n] = '\0', strcmp(to, pipe) == 0))
			return 1;
	}
	return 0;
}

/* Of the errors `wanted`, those that this call can give. */
static unsigned can_give(pid_t tid, const struct call *call, const struct user_regs_struct *r, unsigned wanted)
{
	unsigned could = call->file;
	if (!((call->file | call->socket | call->other | (PIPE)) & wanted))
		return 0;
	int flags = (int)(call->nr == SYS_openat ? r->rdx : r->rsi);
	if (call->on == OPENED && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_CREAT))
		could &= ~(unsigned)(SPC | ROFS);
	if ((call->nr == SYS_access && !(r->rsi & W_OK)) || (call->nr == SYS_faccessat2 && !(r->rdx & W_OK)))
		could &= ~(unsigned)(ROFS);
	if (call->on == FD) {
		char path[100], to[400];
		snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)tid, (int)r->rdi);
		ssize_t n = readlink(path, to, sizeof to - 1);
		to[n > 0 ? n : 0] = '\0';
		if (to[0] != '/')
			could = strncmp(to, "socket:", 7) == 0 ? call->socket : n > 0 ? call->other : 0;
		if ((to[0] == 'p' && is_own_pipe(tid, (int)r->rdi, to)) || strncmp(to, "anon_inode:", 11) == 0)
			could = 0;
		/* Standard output is a file here, and a pipe for most people. */
		if (r->rdi == 1 && call->nr == SYS_write && to[0] == '/')
			could |= PIPE;
		if (could & wanted & (AGAIN) && !never_waits(tid, (int)r->rdi))
			could &= ~(unsigned)(AGAIN);
		if (call->nr == SYS_sendto && (r->r10 & MSG_DONTWAIT))
			could |= AGAIN;
	}
	if (could & wanted & (INTR) && call->nr != SYS_epoll_wait && call->nr != SYS_epoll_pwait && !has_handlers(tid))
		could &= ~(unsigned)(INTR);
	if (could & (LESS) && (call->nr == SYS_recvmsg || call->nr == SYS_sendmsg))
		could &= ~(unsigned)(LESS);
	return could;
}

/* ---- whose call it is ---- */

/* Where there is code; what is mapped later is read again. */
static struct code {
	uintptr_t begin, end;
	enum { OWN, OF_C, OF_OTHERS } of;
} codes[1024];
static size_t code_count;
static pid_t codes_of;

static void read_codes(pid_t tid)
{
	char path[60], line[1200], exe[1000];
	snprintf(path, sizeof path, "/proc/%d/exe", (int)tid);
	ssize_t n = readlink(path, exe, sizeof exe - 1);
	exe[n > 0 ? n : 0] = '\0';
	snprintf(path, sizeof path, "/proc/%d/maps", (int)tid);
	FILE *maps = fopen(path, "re");
	for (code_count = 0; maps && fgets(line, sizeof line, maps);) {
		unsigned long begin, end;
		char may[5], file[1000] = "";
		if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %999s", &begin, &end, may, file) < 3 || may[2] != 'x' ||
		    code_count == sizeof codes / sizeof *codes)
			continue;
		const char *base = strrchr(file, '/');
		int of_c = !base || strncmp(base, "/libc.", 6) == 0 || strncmp(base, "/libc-", 6) == 0 || strstr(base, "failing-malloc");
		codes[code_count++] = (struct code){begin, end, strcmp(file, exe) == 0 ? OWN : of_c ? OF_C : OF_OTHERS};
	}
	if (maps)
		fclose(maps);
	codes_of = tid;
}

/* By the first address on the stack that is code, and none of the C library's. */
static int is_own(pid_t tid, const struct user_regs_struct *r)
{
	uintptr_t stack[512];
	struct iovec here = {stack, sizeof stack}, there = {(void *)(uintptr_t)r->rsp, sizeof stack};
	ssize_t n = process_vm_readv(tid, &here, 1, &there, 1, 0);
	if (codes_of != group_of(tid))
		read_codes(group_of(tid));
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof *stack; i++)
		for (size_t k = 0; k < code_count; k++)
			if (stack[i] >= codes[k].begin && stack[i] < codes[k].end && codes[k].of != OF_C)
				return codes[k].of == OWN;
	return 0;
}

static void tell_where(struct task *t, const struct user_regs_struct *r)
{
	char text[256] = "", path[60];
	if (t->call->on == PATH || t->call->on == OPENED) {
		size_t at = r->rdi > 0xffffffff && (int)r->rdi != AT_FDCWD ? r->rdi : r->rsi, len = 0;
		while (len < sizeof text - sizeof(long)) {
			long word = ptrace(PTRACE_PEEKDATA, t->tid, (void *)(at + len), NULL);
			memcpy(text + len, &word, sizeof word);
			if (memchr(&word, 0, sizeof word))
				break;
			len += sizeof word;
		}
	} else if (t->call->on == FD) {
		snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)t->tid, (int)r->rdi);
		if (readlink(path, text, sizeof text - 1) < 0)
			text[0] = '\0';
	}
	size_t had = strlen(run.where);
	snprintf(run.where + had, sizeof run.where - had, "%s%s %.180s", had ? ", then " : "", t->call->name, text);
}

/* The call that begins gives this. */
static void strike(struct task *t, struct user_regs_struct *r, enum what what)
{
	run.hit_stderr |= t->call->on == FD && r->rdi == 2;
	if (what == KILL_BEFORE) {
		run.killed = 1;
		kill(group_of(t->tid), SIGKILL);
	} else if (what == KILL_AFTER) {
		t->kills = 1;
	} else if (what == SHORT) {
		if (t->call->nr != SYS_readv && t->call->nr != SYS_writev) {
			unsigned long long *count = t->call->nr == SYS_copy_file_range ? &r->r8
						    : t->call->nr == SYS_sendfile      ? &r->r10
										       : &r->rdx;
			*count = (*count + 1) / 2;
		} else if (r->rdx > 1) {
			r->rdx = 1;
		} else {
			t->piece = r->rsi + sizeof(void *);
			t->length = (uint64_t)ptrace(PTRACE_PEEKDATA, t->tid, (void *)t->piece, NULL);
			ptrace(PTRACE_POKEDATA, t->tid, (void *)t->piece, (void *)((t->length + 1) / 2));
		}
		ptrace(PTRACE_SETREGS, t->tid, NULL, r);
	} else {
		t->result = t->call->nr == SYS_brk ? 0 : -whats[what].errnum;
		/* A descriptor is closed, whatever is answered. */
		if (t->call->nr != SYS_close) {
			r->orig_rax = (unsigned long long)-1;
			ptrace(PTRACE_SETREGS, t->tid, NULL, r);
		}
	}
}

/* A call begins: it may have to fail. */
static void enter(struct task *t, struct user_regs_struct *r)
{
	t->call = calls_find((long)r->orig_rax);
	t->result = 1;
	t->kills = 0;
	t->piece = 0;
	if (is_own_only && r->orig_rax == SYS_mmap && (r->rdx & PROT_EXEC))
		codes_of = 0;
	if (!t->call || (is_own_only && !is_own(t->tid, r)))
		return;
	/* Of many that are the same, such as in a loop that fills a file, the first two count. */
	unsigned long long now[3] = {r->orig_rax, r->rdi, r->rdx};
	t->repeats = memcmp(now, t->last, sizeof now) == 0 ? t->repeats + 1 : 0;
	memcpy(t->last, now, sizeof now);
	if (t->repeats > 1 && !run.struck)
		return;
	unsigned wanted = fault.what == COUNT ? ~0u : 1u << fault.what | (is_pair(&fault) ? 1u << fault.then : 0);
	unsigned could = can_give(t->tid, t->call, r, wanted & ~(1u << KILL_BEFORE | 1u << KILL_AFTER)) | 1 << KILL_BEFORE | 1 << KILL_AFTER;
	for (int i = 0; i < WHATS; i++)
		run.seen[i] += could >> i & 1;
	if (fault.what >= MALLOC)
		return;
	if (is_pair(&fault) && run.struck) {
		if (could >> fault.then & 1 && ++run.behind == fault.gap) {
			run.struck_then = 1;
			tell_where(t, r);
			strike(t, r, fault.then);
		}
		return;
	}
	if (!(could >> fault.what & 1))
		return;
	long mine = run.seen[fault.what];
	if (mine != fault.nth && !(fault.is_always && mine > fault.nth))
		return;
	if (!run.struck)
		tell_where(t, r);
	run.struck = 1;
	strike(t, r, fault.what);
}

static void leave(struct task *t, struct user_regs_struct *r)
{
	if (t->piece)
		ptrace(PTRACE_POKEDATA, t->tid, (void *)t->piece, (void *)t->length);
	t->piece = 0;
	if (t->result <= 0) {
		r->rax = (unsigned long long)(long long)t->result;
		ptrace(PTRACE_SETREGS, t->tid, NULL, r);
		if (t->result == -EPIPE && !(t->call->nr == SYS_sendto && (r->r10 & MSG_NOSIGNAL)) &&
		    t->call->nr != SYS_sendmsg)
			syscall(SYS_tgkill, group_of(t->tid), t->tid, SIGPIPE);
	}
	t->result = 1;
	if (t->kills) {
		run.killed = 1;
		kill(group_of(t->tid), SIGKILL);
	}
}

/* Calls count from where the dynamic linker has done its work. */
static void wait_for_main(struct task *t)
{
	char aux[4096];
	size_t n = read_proc(aux, sizeof aux, t->tid, "auxv");
	t->state = PASSED;
	for (size_t at = 0; at + sizeof(Elf64_auxv_t) <= n; at += sizeof(Elf64_auxv_t)) {
		Elf64_auxv_t a;
		memcpy(&a, aux + at, sizeof a);
		if (a.a_type != AT_ENTRY)
			continue;
		t->entry = a.a_un.a_val;
		t->code = ptrace(PTRACE_PEEKTEXT, t->tid, (void *)t->entry, NULL);
		ptrace(PTRACE_POKETEXT, t->tid, (void *)t->entry, (void *)((t->code & ~0xffl) | 0xcc));
		t->state = BEFORE_MAIN;
	}
}

static void reach_main(struct task *t)
{
	struct user_regs_struct r;
	ptrace(PTRACE_GETREGS, t->tid, NULL, &r);
	r.rip = t->entry;
	ptrace(PTRACE_SETREGS, t->tid, NULL, &r);
	ptrace(PTRACE_POKETEXT, t->tid, (void *)t->entry, (void *)t->code);
	t->state = COUNTED;
	t->is_inside = 0;
	if (!run.main)
		run.main = t->tid;
}

static int is_program(pid_t tid)
{
	char path[60], to[1000];
	snprintf(path, sizeof path, "/proc/%d/exe", (int)tid);
	ssize_t n = readlink(path, to, sizeof to - 1);
	to[n > 0 ? n : 0] = '\0';
	const char *base = strrchr(to, '/');
	return base && strcmp(base + 1, program) == 0;
}

/* Lets a stopped task go on; once nothing more is to happen, without a stop at each call. */
static void go_on(struct task *t, int signal)
{
	int is_over = fault.what == NONE || fault.what == MALLOC ||
		      (run.struck && !fault.is_always && !t->is_inside && (!is_pair(&fault) || run.struck_then));
	ptrace(t->state == COUNTED && !is_over ? PTRACE_SYSCALL : PTRACE_CONT, t->tid, NULL,
	       (void *)(long)signal);
}

static void stopped(struct task *t, int status)
{
	const int options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK |
			    PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
	int signal = WSTOPSIG(status), event = status >> 16;
	struct user_regs_struct r;
	if (signal == (SIGTRAP | 0x80)) {
		ptrace(PTRACE_GETREGS, t->tid, NULL, &r);
		t->is_inside = !t->is_inside;
		if (t->is_inside)
			enter(t, &r);
		else
			leave(t, &r);
		signal = 0;
	} else if (event == PTRACE_EVENT_EXEC) {
		t->is_inside = 0;
		if (is_program(t->tid)) {
			wait_for_main(t);
		} else {
			t->state = PASSED;
		}
		signal = 0;
	} else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
		unsigned long child;
		ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &child);
		struct task *c = task_of((pid_t)child);
		int had_stopped = c->state == PASSED;
		c->state = t->state == COUNTED ? COUNTED : PASSED;
		if (had_stopped)
			go_on(c, 0);
		signal = 0;
	} else if (t->state == FRESH) {
		/* A child of which its parent's stop has not told yet, or the command itself. */
		if (t->tid == run.pid) {
			ptrace(PTRACE_SETOPTIONS, t->tid, NULL, (void *)(long)options);
			t->state = PASSED;
			if (is_program(t->tid))
				wait_for_main(t);
			go_on(t, 0);
		} else {
			t->state = PASSED;
		}
		return;
	} else if (t->state == BEFORE_MAIN && signal == SIGTRAP) {
		reach_main(t);
		signal = 0;
	} else if (signal == SIGSTOP || (signal == SIGTRAP && event != 0)) {
		signal = 0;
	}
	go_on(t, signal);
}

static void ignore(int signal)
{
	(void)signal;
}

/* Starts the command in DIR/work. */
static pid_t begin(const char *out, const char *err)
{
	char path[1000];
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	snprintf(path, sizeof path, "%s/work", dir);
	setpgid(0, 0);
	if (chdir(path) != 0)
		_exit(125);
	int in = open("stdin", O_RDONLY);
	dup2(in >= 0 ? in : open("/dev/null", O_RDONLY), 0);
	unlink(out);
	dup2(open(out, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600), 1);
	dup2(open(err, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600), 2);
	close_range(3, ~0u, 0);
	if (fault.what == MALLOC)
		setenv("LD_PRELOAD", preload, 1);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	execvp(command[0], command);
	_exit(126);
}

static void *converse(void *unused);

/* One run, with `fault` or without; what it wrote is in DIR/out, DIR/err. */
static void run_command(struct fault with, int speaks)
{
	char out[1000], err[1000];
	pthread_t client;
	int status;
	pid_t tid;
	fault = with;
	memset(tasks, 0, sizeof tasks);
	memset(&run, 0, sizeof run);
	*allocations = (struct allocations){.nth = with.what == MALLOC ? with.nth : 0, .is_always = with.is_always};
	snprintf(out, sizeof out, "%s/out", dir);
	snprintf(err, sizeof err, "%s/err", dir);
	clock_gettime(CLOCK_MONOTONIC, &run.began);
	run.pid = begin(out, err);
	/* Interrupts waitpid(2), again and again: the first one may come too early. */
	struct itimerval timer = {.it_value.tv_sec = (time_t)deadline + 1, .it_interval.tv_usec = 100000};
	setitimer(ITIMER_REAL, &timer, NULL);
	if (speaks)
		pthread_create(&client, NULL, converse, NULL);
	int is_over = 0;
	while ((tid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
		if (tid < 0) {
			if (seconds_since(&run.began) < deadline)
				continue;
			run.hung = !is_over;
			kill(-run.pid, SIGKILL);
			kill(run.pid, SIGKILL);
			for (size_t i = 0; i < TASKS_MAX; i++)
				if (tasks[i].tid)
					kill(tasks[i].tid, SIGKILL);
			continue;
		}
		if (WIFSTOPPED(status)) {
			stopped(task_of(tid), status);
			continue;
		}
		if (tid == run.pid) {
			run.status = status;
			is_over = 1;
			/* What it left running is no part of the verdict. */
			kill(-run.pid, SIGKILL);
			__atomic_store_n(&run.pid, -tid, __ATOMIC_RELEASE);
		}
		for (size_t i = 0; i < TASKS_MAX; i++)
			if (tasks[i].tid == tid)
				tasks[i].tid = 0;
	}
	if (speaks)
		pthread_join(client, NULL);
	timer = (struct itimerval){0};
	setitimer(ITIMER_REAL, &timer, NULL);
	if (with.what == MALLOC) {
		run.struck = allocations->struck;
		snprintf(run.where, sizeof run.where, "malloc");
	}
	run.seen[MALLOC] = allocations->count;
}

/* ---- files ---- */

struct text {
	char *data;
	size_t len;
};

static struct text read_text(const char *path)
{
	struct stat st;
	struct text t = {NULL, 0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		if (fd >= 0)
			close(fd);
		return t;
	}
	t.data = malloc((size_t)st.st_size + 1);
	ssize_t n = read(fd, t.data, (size_t)st.st_size);
	t.len = n > 0 ? (size_t)n : 0;
	t.data[t.len] = '\0';
	close(fd);
	return t;
}

/* Takes out the fields of `mask`. */
static struct text masked(struct text t)
{
	size_t to = 0;
	if (!mask || !t.data || memchr(t.data, 0, t.len))
		return t;
	for (size_t at = 0; at < t.len;) {
		size_t skip = 0;
		if (t.data[at] == ' ')
			for (const char *key = mask; *key;) {
				size_t n = strcspn(key, ",");
				if (strncmp(t.data + at + 1, key, n) == 0 && t.data[at + 1 + n] == '=')
					skip = 1 + strcspn(t.data + at + 1, " \n\t");
				key += n + (key[n] == ',');
			}
		if (skip)
			at += skip;
		else
			t.data[to++] = t.data[at++];
	}
	t.len = to;
	t.data[to] = '\0';
	return t;
}

static int same(struct text a, struct text b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

#define FILES_MAX 256
struct tree {
	size_t count;
	struct file {
		char *path;
		mode_t mode;
		struct timespec changed;
		struct text text;
	} file[FILES_MAX];
};

static struct tree *walk_tree;
static size_t walk_skip;
static int walk_masks;

static int walk_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)at;
	(void)type;
	if (!path[walk_skip] || S_ISSOCK(st->st_mode))
		return 0;
	assert(walk_tree->count < FILES_MAX);
	struct file *f = &walk_tree->file[walk_tree->count++];
	f->path = strdup(path + walk_skip + 1);
	f->mode = st->st_mode;
	f->changed = st->st_mtim;
	f->text = S_ISREG(st->st_mode) ? read_text(path) : (struct text){NULL, 0};
	if (walk_masks)
		f->text = masked(f->text);
	return 0;
}

static void tree_read(struct tree *t, const char *sub, int is_masked)
{
	char path[1000];
	snprintf(path, sizeof path, "%s/%s", dir, sub);
	for (size_t i = 0; i < t->count; i++) {
		free(t->file[i].path);
		free(t->file[i].text.data);
	}
	t->count = 0;
	walk_tree = t;
	walk_masks = is_masked;
	walk_skip = strlen(path);
	nftw(path, walk_one, 16, FTW_PHYS);
}

static const struct file *tree_find(const struct tree *t, const char *path)
{
	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->file[i].path, path) == 0)
			return &t->file[i];
	return NULL;
}

static int is_as_in(const struct file *f, const struct tree *t)
{
	const struct file *g = tree_find(t, f->path);
	return g && (g->mode & S_IFMT) == (f->mode & S_IFMT) && same(f->text, g->text);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static struct tree prepared, before, reference, is; /* before: the prepared one, masked */

static void renew(void)
{
	char path[2000];
	snprintf(path, sizeof path, "%s/work", dir);
	nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH);
	mkdir(path, 0700);
	for (size_t i = 0; i < prepared.count; i++) {
		const struct file *f = &prepared.file[i];
		snprintf(path, sizeof path, "%s/work/%s", dir, f->path);
		if (S_ISDIR(f->mode)) {
			mkdir(path, f->mode & 0777);
			continue;
		}
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, f->mode & 0777);
		if (fd < 0 || write(fd, f->text.data, f->text.len) != (ssize_t)f->text.len)
			exit(71);
		/* An index knows its data by their time. */
		futimens(fd, (const struct timespec[]){f->changed, f->changed});
		close(fd);
	}
}

/* ---- a conversation ---- */

static struct request {
	struct text text;
	struct text answer;      /* of the first run */
	struct text state_after; /* the same */
} requests[REQUESTS_MAX + 1]; /* [0]: before any */
static size_t request_count;

static struct talk {
	int is_first;         /* nothing is right or wrong yet */
	int asks_state_only;
	size_t acknowledged;  /* requests */
	int is_unsure;        /* the next one may have been carried out */
	int was_silent;
	struct text state;
	char wrong[600];
} talk;

static void read_requests(void)
{
	struct text all = read_text(say_file);
	for (size_t at = 0; at < all.len;) {
		size_t len = strcspn(all.data + at, "\n") + 1;
		const char *bytes = memmem(all.data + at, len, " bytes=", 7);
		if (bytes)
			len += (size_t)atol(bytes + 7);
		struct request *r = &requests[++request_count];
		assert(request_count < REQUESTS_MAX && at + len <= all.len);
		r->text = (struct text){all.data + at, len};
		at += len;
	}
}

static int has_ended(void)
{
	return __atomic_load_n(&run.pid, __ATOMIC_ACQUIRE) < 0;
}

static int reach(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct timespec pause = {.tv_nsec = 300000};
	snprintf(to.sun_path, sizeof to.sun_path, "work/sock"); /* in DIR, however long that is */
	/* Where all calls fail, it may live and never listen. */
	double limit = fault.is_always && fault.what != SHORT ? deadline / 2 : deadline;
	while (!has_ended() && seconds_since(&run.began) < limit) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
			return fd;
		close(fd);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 5000000)
			pause.tv_nsec += pause.tv_nsec / 8;
	}
	return -1;
}

struct input {
	int fd;
	size_t at, len;
	char data[1 << 16];
};

/* Whether all tasks of the daemon wait, and its first one for clients; it has computed so far in *ran. */
static int is_waiting(char *ran, size_t max)
{
	char path[60], text[1000];
	pid_t pid = has_ended() ? 0 : run.main ? run.main : run.pid;
	size_t len = 0, n;
	struct dirent *e;
	if (pid <= 0 || read_proc(text, sizeof text, pid, "syscall") == 0)
		return 0;
	long nr = atol(text);
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *d = nr == SYS_epoll_wait || nr == SYS_epoll_pwait ? opendir(path) : NULL;
	int result = d != NULL;
	while (d && result && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		n = read_proc(text, sizeof text, atoi(e->d_name), "stat");
		const char *state = n ? strrchr(text, ')') : NULL;
		result = state && state[1] == ' ' && state[2] == 'S';
		n = result ? read_proc(text, sizeof text, atoi(e->d_name), "schedstat") : 0;
		len += (size_t)snprintf(ran + len, max - len, "%.60s", text);
		result = result && len < max;
	}
	if (d)
		closedir(d);
	return result;
}

/* Waits until the daemon has ended (1), or nothing has moved in it for 20 ms, or `fd` says something (0). */
static int settles(int fd)
{
	char ran[2][2000] = {"", ""};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	for (int i = 0, quiet = 0; quiet < 4 && seconds_since(&run.began) < deadline; i = !i) {
		if (has_ended())
			return 1;
		quiet = is_waiting(ran[i], sizeof ran[i]) && strcmp(ran[0], ran[1]) == 0 ? quiet + 1 : 0;
		if (poll(&p, 1, 5) > 0)
			return 0;
	}
	return has_ended();
}

/* The next byte; -1: the other side is gone, -2: it is silent. */
static int next_byte(struct input *in)
{
	if (in->at == in->len) {
		struct pollfd p = {.fd = in->fd, .events = POLLIN};
		int ms = (int)(deadline * 500);
		/* Where all calls fail, nobody needs to answer. */
		if (fault.is_always && fault.what != SHORT && settles(in->fd) == 0 && poll(&p, 1, 0) == 0)
			return -2;
		while (ms > 0 && poll(&p, 1, 50) == 0 && !has_ended())
			ms -= 50;
		if (ms <= 0)
			return -2;
		ssize_t n = recv(in->fd, in->data, sizeof in->data, MSG_DONTWAIT);
		if (n <= 0)
			return -1;
		in->at = 0;
		in->len = (size_t)n;
	}
	return (unsigned char)in->data[in->at++];
}

/* The records of an answer, with the payloads behind them, to its closing one. 1: ok, 0: err. */
static int take_answer(struct input *in, struct text *answer, int is_greeting)
{
	size_t room = 1 << 16, line = 0;
	answer->data = malloc(room);
	answer->len = 0;
	for (;;) {
		int c = next_byte(in);
		if (c < 0)
			return c;
		if (answer->len + 2 > room)
			answer->data = realloc(answer->data, room *= 2);
		answer->data[answer->len++] = (char)c;
		answer->data[answer->len] = '\0';
		if (c != '\n')
			continue;
		const char *text = answer->data + line, *bytes = strstr(text, " bytes=");
		if (is_greeting || strncmp(text, "ok", 2) == 0)
			return 1;
		if (strncmp(text, "err", 3) == 0)
			return 0;
		for (long left = bytes ? atol(bytes + 7) : 0; left > 0; left--) {
			if ((c = next_byte(in)) < 0)
				return c;
			if (answer->len + 2 > room)
				answer->data = realloc(answer->data, room *= 2);
			answer->data[answer->len++] = (char)c;
		}
		line = answer->len;
	}
}

static int ask(struct input *in, struct text request, struct text *answer)
{
	*answer = (struct text){NULL, 0};
	for (size_t at = 0; at < request.len;) {
		ssize_t n = send(in->fd, request.data + at, request.len - at, MSG_NOSIGNAL);
		if (n <= 0)
			return -1;
		at += (size_t)n;
	}
	int result = take_answer(in, answer, 0);
	*answer = masked(*answer);
	return result;
}

static int ask_state(struct input *in, struct text *state)
{
	char line[600], path[1000];
	struct text answer;
	snprintf(line, sizeof line, "%s\n", state_request);
	snprintf(path, sizeof path, "%s/work/state", dir);
	unlink(path);
	int result = ask(in, (struct text){line, strlen(line)}, &answer);
	*state = masked(read_text(path));
	if (state->data)
		free(answer.data);
	else
		*state = answer;
	return result;
}

static void talk_wrong(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (!talk.wrong[0])
		vsnprintf(talk.wrong, sizeof talk.wrong, fmt, ap);
	va_end(ap);
}

/* Says the requests in their order. One that is refused is said once more. */
static void say_all(struct input *in)
{
	struct text answer;
	int result = 1;
	for (size_t i = 1; i <= request_count && result > 0; i++) {
		struct request *r = &requests[i];
		result = ask(in, r->text, &answer);
		if (result == 0 && fault.what < WHATS) {
			free(answer.data);
			result = ask(in, r->text, &answer);
		}
		talk.is_unsure = result < 0;
		talk.was_silent = result == -2;
		if (result > 0 && talk.is_first) {
			r->answer = answer;
			if (state_request)
				ask_state(in, &r->state_after);
			talk.acknowledged++;
			continue;
		}
		if (result > 0) {
			talk.acknowledged++;
			if (!same(answer, r->answer))
				talk_wrong("request %zu is answered %.*s", i, (int)answer.len, answer.data);
		} else if (talk.is_first) {
			fprintf(stderr, "# %s: request %zu: %.*s%.*s\n", name, i, (int)r->text.len,
				r->text.data, (int)answer.len, answer.data);
			exit(71);
		}
		free(answer.data);
	}
}

static void *converse(void *unused)
{
	struct input in = {.fd = reach()};
	struct text answer = {NULL, 0};
	if (in.fd >= 0 && (talk.is_unsure = take_answer(&in, &answer, 1)) > 0) {
		talk.is_unsure = 0;
		if (talk.is_first && state_request)
			ask_state(&in, &requests[0].state_after);
		if (talk.asks_state_only) {
			if (state_request && ask_state(&in, &talk.state) <= 0)
				talk_wrong("the state is not told after the restart");
		} else {
			say_all(&in);
		}
	} else if (in.fd >= 0) {
		talk.was_silent = talk.is_unsure == -2;
	}
	if (in.fd >= 0)
		close(in.fd);
	free(answer.data);
	/* A daemon that lives answers the next client. */
	if (!has_ended() && !fault.is_always) {
		if (talk.was_silent)
			talk_wrong("request %zu is not answered", talk.acknowledged + 1);
		in = (struct input){.fd = reach()};
		if (in.fd >= 0) {
			take_answer(&in, &answer, 1);
			free(answer.data);
			int result = ask(&in, (struct text){(char *)"help\n", 5}, &answer);
			/* It may be about to end. */
			if (result == -2 || (result == 0 && !has_ended()))
				talk_wrong("the next client is not answered");
			free(answer.data);
			close(in.fd);
		}
	}
	/* One that has closed us may be on its way to its end. */
	if (talk.is_unsure && !talk.was_silent)
		settles(-1);
	pid_t pid = __atomic_load_n(&run.pid, __ATOMIC_ACQUIRE);
	if (pid > 0)
		kill(pid, SIGTERM);
	return unused;
}

/* ---- verdicts ---- */

static long fault_count, pair_count, wrong_count;

static void fault_text(char *out, size_t max, const struct fault *f)
{
	int n = snprintf(out, max, "%s:%ld:%s", whats[f->what].name, f->nth, f->is_always ? "always" : "once");
	if (is_pair(f))
		snprintf(out + n, max - (size_t)n, "+%s:%ld", whats[f->then].name, f->gap);
}

static int is_wrong;
static void wrong(const struct fault *f, const char *where, const char *fmt, ...)
{
	char text[100], path[1000];
	va_list ap;
	fault_text(text, sizeof text, f);
	if (!is_wrong++) {
		wrong_count++;
		printf("# %s %s (%s):\n", name, text, where);
	}
	printf("#   ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	snprintf(path, sizeof path, "%s/err", dir);
	struct text err = read_text(path);
	while (err.len > 0 && err.data[err.len - 1] == '\n')
		err.data[--err.len] = '\0';
	char *last = err.data ? strrchr(err.data, '\n') : NULL;
	printf("%s%.300s\n", err.len ? "; " : "", last ? last + 1 : err.len ? err.data : "");
	free(err.data);
	fflush(stdout);
}

/* Whether the last line of its messages is PROGRAM: PLACE: TEXT. */
static int says_where(void)
{
	char path[1000];
	snprintf(path, sizeof path, "%s/err", dir);
	struct text err = read_text(path);
	while (err.len > 0 && err.data[err.len - 1] == '\n')
		err.data[--err.len] = '\0';
	const char *line = err.data ? strrchr(err.data, '\n') : NULL;
	line = line ? line + 1 : err.data;
	const char *base = speaks ? speaks : program;
	int result = 0;
	if (line && strncmp(line, base, strlen(base)) == 0 && strncmp(line + strlen(base), ": ", 2) == 0) {
		const char *colon = strstr(line + strlen(base) + 2, ": ");
		/* Memory is lacking everywhere. */
		result = (colon && colon[2]) || strstr(line, "out of memory");
	}
	free(err.data);
	return result;
}

/* A sanitizer, or OpenBLAS beside its threads, that gets no memory itself ends the process so. */
static int is_librarys_own(void)
{
	struct text err = read_text("err");
	int result = err.data && (strstr(err.data, "AddressSanitizer: CHECK failed") ||
				  strstr(err.data, "OpenBLAS: malloc failed"));
	free(err.data);
	return result;
}

static struct text first_out;

static int is_in(int status, const char *list)
{
	for (const char *at = list; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
		if (atoi(at) == status)
			return 1;
	return 0;
}

static int checks(int status)
{
	char line[4000];
	snprintf(line, sizeof line, "cd work && status=%d error=%s acknowledged=%zu && { %s\n} >../check.out 2>&1",
		 status, fault.what < WHATS ? whats[gives(&fault, BIO) ? BIO : fault.what].name : "",
		 talk.acknowledged, check);
	return system(line) == 0;
}

static struct text output(void)
{
	char path[1000];
	snprintf(path, sizeof path, "%s/out", dir);
	return masked(read_text(path));
}

/* Files that must be as in the first run, or (is_half) as there or as before. */
static void compare_files(const struct fault *f, const char *where, int is_half, int may_leave)
{
	tree_read(&is, "work", 1);
	/* Who finds no `last` takes the others for what they are: half. */
	if (last && may_leave && !tree_find(&is, last))
		return;
	for (size_t i = 0; i < is.count; i++) {
		const struct file *file = &is.file[i];
		if (is_as_in(file, &reference) || (is_half && is_as_in(file, &before)))
			continue;
		if (tree_find(&reference, file->path) || tree_find(&before, file->path))
			wrong(f, where, "%s is neither old nor new", file->path);
		else if (!may_leave)
			wrong(f, where, "left: %s", file->path);
	}
	for (size_t i = 0; !is_half && i < reference.count; i++)
		if (!tree_find(&is, reference.file[i].path))
			wrong(f, where, "%s is missing", reference.file[i].path);
}

/* Who knows of it goes on. */
static int is_harmless(const struct fault *f)
{
	return whats[f->what].is_harmless && (!is_pair(f) || whats[f->then].is_harmless);
}

static void judge_end(const struct fault *f, const char *where, int *status)
{
	int signal = WIFSIGNALED(run.status) ? WTERMSIG(run.status) : 0;
	*status = WEXITSTATUS(run.status);
	if (signal && !(signal == SIGKILL && run.killed) && !(signal == SIGPIPE && gives(f, BPIPE)) &&
	    !(signal == SIGTERM && says_where())) {
		wrong(f, where, run.hung ? "hangs" : "signal %d", signal);
	} else if (!signal && *status != first_status && !(run.killed && *status == 128 + SIGKILL)) {
		/* trainctl's may be that of the node that failed; node-host has 255 if its far end failed, or was killed. */
		if (*status != 1 && (*status < 64 || *status > 78) && !(speaks && *status == 128 + SIGKILL) &&
		    !(*status == 255 && strcmp(name, "node-host") == 0))
			wrong(f, where, "status %d", *status);
		/* Whose reader has gone is not told. */
		if (!run.hit_stderr && !gives(f, BPIPE) && !says_where())
			wrong(f, where, "status %d, no place in the message", *status);
		if (is_harmless(f))
			wrong(f, where, "status %d", *status);
		if (*status == 70)
			wrong(f, where, "status 70");
	}
	if (signal)
		*status = 256 + signal;
}

/* may_leave: it could not tidy up. */
static void judge_result(const struct fault *f, const char *where, int status, int may_leave)
{
	if (check) {
		if (!checks(status))
			wrong(f, where, "status %d; what is there is wrong", status);
		return;
	}
	struct text out = output();
	if (status == first_status && !same(out, first_out))
		wrong(f, where, "status %d, but other output", status);
	free(out.data);
	compare_files(f, where, status != first_status, may_leave);
}

static void judge_files(const struct fault *f)
{
	char where[sizeof run.where];
	int status, killed = run.killed;
	memcpy(where, run.where, sizeof where);
	judge_end(f, where, &status);
	judge_result(f, where, status, killed || f->is_always || is_pair(f));
	if (again_statuses && strcmp(again_statuses, "never") == 0)
		return;
	run_command((struct fault){.what = NONE}, 0);
	int after = WIFEXITED(run.status) ? WEXITSTATUS(run.status) : 256 + WTERMSIG(run.status);
	snprintf(where + strlen(where), sizeof where - strlen(where), ", run again");
	if (after == first_status)
		judge_result(f, where, after, 1);
	else if (!is_in(after, again_statuses))
		wrong(f, where, "status %d", after);
}

static void judge_talk(const struct fault *f)
{
	char where[sizeof run.where];
	struct talk t = talk;
	int status;
	memcpy(where, run.where, sizeof where);
	judge_end(f, where, &status);
	if (t.wrong[0])
		wrong(f, where, "%s", t.wrong);
	if (check && !checks(status))
		wrong(f, where, "status %d, %zu requests were acknowledged; what is there is wrong", status, t.acknowledged);
	if (is_harmless(f) && t.acknowledged < request_count)
		wrong(f, where, "only %zu requests were answered", t.acknowledged);
	talk = (struct talk){.asks_state_only = 1};
	run_command((struct fault){.what = NONE}, 1);
	if (run.hung || !WIFEXITED(run.status) || WEXITSTATUS(run.status) != first_status) {
		wrong(f, where, "started again: status %d", WIFEXITED(run.status) ? WEXITSTATUS(run.status) : WTERMSIG(run.status));
	} else if (talk.wrong[0]) {
		wrong(f, where, "%s", talk.wrong);
	} else if (state_request) {
		size_t at = t.acknowledged;
		if (!same(talk.state, requests[at].state_after) &&
		    !(t.is_unsure && at < request_count && same(talk.state, requests[at + 1].state_after)))
			wrong(f, where, "%zu requests were acknowledged%s; the state after the restart is\n%.*s\n, not\n%.*s\n",
			      at, t.is_unsure ? ", or one more" : "", (int)talk.state.len, talk.state.data,
			      (int)requests[at].state_after.len, requests[at].state_after.data);
	}
	free(talk.state.data);
}

/* 1: there was such a call. */
static int try_fault(struct fault f)
{
	is_wrong = 0;
	renew();
	talk = (struct talk){0};
	run_command(f, say_file != NULL);
	if (!run.struck || (is_pair(&f) && !run.struck_then))
		return 0;
	if (is_librarys_own())
		return 1;
	*(is_pair(&f) ? &pair_count : &fault_count) += 1;
	if (show) {
		char text[100];
		fault_text(text, sizeof text, &f);
		printf("# %s %s: %s, %s %d after %.1f ms, %zu acknowledged\n", name, text, run.where,
		       WIFEXITED(run.status) ? "status" : "signal",
		       WIFEXITED(run.status) ? WEXITSTATUS(run.status) : WTERMSIG(run.status),
		       1000.0 * seconds_since(&run.began), talk.acknowledged);
		fflush(stdout);
	}
	if (say_file)
		judge_talk(&f);
	else
		judge_files(&f);
	return 1;
}

static void first_run(void)
{
	renew();
	talk = (struct talk){.is_first = 1};
	run_command((struct fault){.what = COUNT}, say_file != NULL);
	unlink("first");
	if (link("out", "first") != 0)
		exit(71);
	if (!WIFEXITED(run.status) || WEXITSTATUS(run.status) != first_status || (check && !checks(first_status)) || run.hung) {
		printf("# %s: without a fault: status %d\n", name, run.status);
		exit(1);
	}
	first_out = output();
	tree_read(&reference, "work", 1);
}

static enum what what_named(const char *word)
{
	for (int w = 0; w < WHATS; w++)
		if (strcmp(whats[w].name, word) == 0)
			return (enum what)w;
	return NONE;
}

/* Two calls, by chance; often the second one is among those that follow because the first one has failed. */
static struct fault any_pair(const long *possible)
{
	struct fault f = {.what = MALLOC};
	while (f.what >= KILL_BEFORE || possible[f.what] == 0)
		f.what = (enum what)(random() % WHATS);
	f.nth = 1 + random() % possible[f.what];
	f.then = (enum what)(random() % MALLOC);
	f.gap = 1 + random() % (random() % 2 ? 4 : 40);
	return f;
}

int main(int argc, char **argv)
{
	int i = 3;
	long nth = 0;
	enum what chosen = NONE;
	const char *mode = NULL;
	int is_count = 0;
	long seed = 1;
	if (argc < 5)
		return 64;
	name = argv[1];
	dir = argv[2];
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		char *value = strchr(argv[i], '=') + 1;
		struct {
			const char *key, **target;
		} texts[] = {{"say", &say_file}, {"state", &state_request}, {"program", &program}, {"speaks", &speaks}, {"mask", &mask},
			     {"check", &check}, {"malloc", &preload}, {"only", &only}, {"again", &again_statuses},
			     {"last", &last}};
		size_t len = (size_t)(value - argv[i]) - 1;
		for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
			if (strlen(texts[k].key) == len && strncmp(argv[i], texts[k].key, len) == 0)
				*texts[k].target = *value ? value : NULL;
		if (strncmp(argv[i], "status=", 7) == 0)
			first_status = atoi(value);
		if (strncmp(argv[i], "own=", 4) == 0)
			is_own_only = atoi(value);
		if (strncmp(argv[i], "show=", 5) == 0)
			show = atoi(value);
		if (strncmp(argv[i], "pairs=", 6) == 0)
			pairs = atol(value);
		if (strncmp(argv[i], "seed=", 5) == 0)
			seed = atol(value);
		if (strncmp(argv[i], "part=", 5) == 0)
			part = atol(value);
		if (strncmp(argv[i], "parts=", 6) == 0)
			parts = atol(value);
		if (strncmp(argv[i], "count=", 6) == 0)
			is_count = atoi(value);
		if (strncmp(argv[i], "most=", 5) == 0)
			most = atol(value);
		if (strncmp(argv[i], "deadline=", 9) == 0)
			deadline = atof(value);
	}
	command = argv + i + 1;
	if (!program)
		program = strrchr(command[0], '/') ? strrchr(command[0], '/') + 1 : command[0];
	struct fault pair = {.what = NONE};
	if (only) {
		char what[40] = "", then[40] = "";
		sscanf(only, "%39[^:]:%ld:once+%39[^:]:%ld", what, &nth, then, &pair.gap);
		chosen = what_named(what);
		if (chosen == NONE || (pair.gap && what_named(then) == NONE))
			return 64;
		mode = strchr(only, ':') ? strchr(strchr(only, ':') + 1, ':') : NULL;
		pair = (struct fault){.what = chosen, .nth = nth, .then = what_named(then), .gap = pair.gap};
	}
	char shared[1000];
	if (chdir(dir) != 0)
		return 71;
	snprintf(shared, sizeof shared, "%s/allocations", dir);
	int fd = open(shared, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof *allocations) != 0)
		return 71;
	allocations = mmap(NULL, sizeof *allocations, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	setenv("FAILING_ALLOCATIONS", shared, 1);
	setenv("FAILING_PROGRAM", program, 1);
	if (is_own_only)
		setenv("FAILING_OWN", "1", 1);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGALRM, &(struct sigaction){.sa_handler = ignore}, NULL);

	struct timespec began;
	clock_gettime(CLOCK_MONOTONIC, &began);
	if (say_file)
		read_requests();
	tree_read(&prepared, "prepared", 0);
	tree_read(&before, "prepared", 1);
	first_run();
	/* Once more: the first one also asks for the state after each request. */
	renew();
	talk = (struct talk){0};
	run_command((struct fault){.what = COUNT}, say_file != NULL);
	long possible[WHATS], all = run.seen[KILL_BEFORE];
	memcpy(possible, run.seen, sizeof possible);
	if (preload) {
		renew();
		talk = (struct talk){0};
		run_command((struct fault){.what = MALLOC}, say_file != NULL);
		possible[MALLOC] = run.seen[MALLOC];
	}
	srandom((unsigned)(seed + part * 100));
	pairs = is_count ? 0 : (pairs + parts - 1 - part) / parts;
	for (int w = 0; w < WHATS && !pair.gap; w++) {
		if (chosen != NONE && chosen != (enum what)w)
			continue;
		long step = most > 0 && possible[w] > most ? possible[w] / most : 1;
		if (is_count) {
			fault_count += (most > 0 && possible[w] > most ? most : possible[w]) * (whats[w].is_once ? 1 : 2);
			continue;
		}
		/* A conversation may take some calls more than the first time. */
		for (long n = nth ? nth : 1 + (step - 1) * w / WHATS, turn = w; n <= possible[w] + (step == 1 ? 8 : 0) || nth; n += step) {
			if (turn++ % parts != part)
				continue;
			struct fault f = {.what = (enum what)w, .nth = n};
			int was_there = 0;
			if (!mode || strcmp(mode, ":once") == 0)
				was_there = try_fault(f);
			f.is_always = 1;
			if (!whats[w].is_once && (was_there || mode) && (!mode || strcmp(mode, ":always") == 0))
				was_there |= try_fault(f);
			if (!was_there || nth)
				break;
		}
	}
	if (pair.gap)
		try_fault(pair);
	for (long n = 0, tries = 0; chosen == NONE && n < pairs && tries < 4 * pairs; tries++)
		n += try_fault(any_pair(possible));
	printf("failing-calls program=%s calls=%ld faults=%ld pairs=%ld wrong=%ld seconds=%.0f\n", name, all, fault_count,
	       pair_count, wrong_count, seconds_since(&began));
	return wrong_count > 0;
}

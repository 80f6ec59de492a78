/* kernel: see kernel.h. */
#include "tests/sim/kernel.h"

#include "base/log.h"
#include "base/random.h"

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define FILES_MAX 256
#define SHARED_MAX (1 << 22) /* bytes of one file of memory */
#define STACK_BYTES (1u << 20)
#define PROCESSES_MAX 512
#define RUNS_TOGETHER 20
#define NEVER INT64_MAX
#define CALLS_MAX 1000000 /* of a process before another one goes on */
#define SECOND 1000000000ll
#define NAME_BYTES 128
#define TOLD_BYTES (64u << 20)
#define SECTOR 512 /* is written as a whole or not at all */

/* ---- what there is ---- */

struct write_back {
	struct write_back *next;
	size_t at, len; /* of a truncation: len is SIZE_MAX, at is the new length */
	int was_short;
	char data[];
};

struct entry {
	char name[NAME_BYTES];
	struct inode *inode;
};

/* A file, a directory, a name of a socket. */
struct inode {
	struct inode *next;
	ino_t number;
	mode_t mode;
	nlink_t links;
	char *data, *durable;
	size_t len, room, durable_len, durable_room;
	struct write_back *first, *last; /* since the last sync */
	struct entry *entry;
	size_t entries, entry_room;
	struct file *listener, *lock;
	int64_t changed;
};

/* A change of one or two names, which the disk may not have. */
struct name_change {
	struct inode *dir[2], *old[2];
	char name[2][NAME_BYTES];
	int count;
};

struct segment {
	size_t bytes;
	int64_t at;
	struct file *passed;
};

/* One direction of a connection. */
struct stream {
	int ends; /* of two */
	char *data;
	size_t len, room, max;
	struct segment *segment;
	size_t segments, segment_room;
	int64_t last_at, end_at; /* of the last byte; when the end is seen, NEVER: it is open */
	int deaf, reset; /* nobody reads it */
	int breaks;      /* what is written next arrives late, and is the last */
	uint64_t edge; /* how often something came or went */
};

enum file_kind { FILE_NULL, FILE_INODE, FILE_SOCKET, FILE_LISTENER, FILE_STREAM, FILE_COUNTER, FILE_PROCESS, FILE_MEMORY };

struct file {
	enum file_kind kind;
	int uses, flags, memory; /* memory: the real one's descriptor */
	struct inode *inode;
	size_t pos;
	char *text; /* of /proc */
	struct stream *in, *out;
	pid_t owner, peer; /* peer: of FILE_PROCESS, which one */
	struct file **waiting; /* to be accepted */
	size_t waits;
	uint64_t counter, edge;
};

enum wait { WAIT_NOT, WAIT_TIME, WAIT_POLL, WAIT_LOOP };

struct process {
	pid_t pid, parent; /* with whom it dies; 0: with nobody */
	pid_t forker;      /* whose fork() it is; 0: it is none */
	char name[32];
	int (*main)(int, char **);
	int argc;
	char **argv;
	void (*outside)(void *), (*thread)(void *);
	void *arg;
	ucontext_t context; /* of its first step; swapcontext() would be two system calls */
	jmp_buf here;
	int began;
	char *stack;
	struct file **file; /* FILES_MAX of them */
	struct process *leader; /* whose thread it is; NULL: its own */
	int host;
	enum wait wait;
	const pthread_cond_t *news; /* that it waits for */
	int64_t until, stopped_until;
	struct pollfd *polled;
	nfds_t polls;
	struct event_base *loop;
	int alive, status, saved_errno, ends_at_sync;
	uint64_t pending, ignored;
	void (*handler[65])(int);
};

struct event_base {
	struct process *owner;
	struct event **added, **active;
	size_t added_count, added_room, active_count, active_room;
	int broken;
};

struct told;

static struct {
	uint64_t seed, random, steps, calls; /* calls: in this step */
	int tells; /* this is a forked child, which tells what it does */
	struct told *told;
	int64_t now, boot_at, set;
	FILE *trace;
	int calm, full;
	double preempt, shorten, late;
	struct process **process;
	size_t processes, process_room;
	struct process *living[PROCESSES_MAX];
	size_t lives;
	struct process *running;
	jmp_buf scheduler;
	char *free_stack[PROCESSES_MAX];
	size_t free_stacks;
	struct inode *inodes, *root;
	pid_t bridge;
	ino_t last_inode;
	struct name_change *change;
	size_t changes, change_room;
	unsigned boot;
} sim;

pid_t __real_fork(void);
pid_t __real_waitpid(pid_t pid, int *status, int flags);
int __real_close(int fd);
int __real_memfd_create(const char *name, unsigned flags);
void *__real_mmap(void *at, size_t len, int protection, int flags, int fd, off_t from);
int __real_ftruncate(int fd, off_t len);
int __real_fallocate(int fd, int mode, off_t at, off_t len);
int __real_fcntl(int fd, int command, ...);
int __real_fstat(int fd, struct stat *st);
ssize_t __real_pread(int fd, void *data, size_t len, off_t at);
ssize_t __real_pwrite(int fd, const void *data, size_t len, off_t at);

/* ---- small things ---- */

static void *need(void *memory)
{
	if (!memory)
		sim_fail("the simulation has no memory left");
	return memory;
}

static void *sim_grow(void *array, size_t *room, size_t needed, size_t size)
{
	if (needed <= *room)
		return array;
	*room = 2 * needed + 8;
	return need(realloc(array, *room * size));
}

uint64_t sim_random(uint64_t below)
{
	return below ? random_next(&sim.random) % below : 0;
}

int sim_chance(double probability)
{
	return random_uniform(&sim.random) < probability;
}

void sim_weather(struct sim_weather *w, int kinds, double probability)
{
	*w = (struct sim_weather){.kinds = kinds};
	for (int i = 0; i < kinds; i++) {
		w->weight[i] = sim_chance(probability) ? (double)sim_random(100) : 0;
		w->sum += w->weight[i];
	}
}

int sim_weather_harm(const struct sim_weather *w)
{
	double at = w->sum * (double)sim_random(1u << 20) / (1u << 20);
	for (int i = 0; w->sum > 0 && i < w->kinds; i++)
		if ((at -= w->weight[i]) < 0)
			return i;
	return -1;
}

double sim_seconds(void)
{
	return (double)sim.now / 1e9;
}

uint64_t sim_steps(void)
{
	return sim.steps;
}

void sim_trace(const char *fmt, ...)
{
	if (!sim.trace)
		return;
	va_list ap;
	va_start(ap, fmt);
	fprintf(sim.trace, "%12.6f %-10s ", sim_seconds(), sim.running ? sim.running->name : "-");
	vfprintf(sim.trace, fmt, ap);
	fputc('\n', sim.trace);
	va_end(ap);
}

_Noreturn void sim_fail(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fflush(sim.trace ? sim.trace : stdout);
	printf("seed %llu, step %llu, %.6f s, %s: ", (unsigned long long)sim.seed,
	       (unsigned long long)sim.steps, sim_seconds(), sim.running ? sim.running->name : "-");
	vprintf(fmt, ap);
	printf("\n");
	fflush(stdout);
	_Exit(1);
}

/* ---- processes ---- */

static void sim_end_files(struct process *p);
static void sim_end(struct process *p, int status);
static void socket_break(struct file *f);
/* What a forked child does to the machine: struct deed, and its bytes, one after the other. */
struct told {
	size_t len;
	char deeds[TOLD_BYTES];
};
enum deed_kind { DEED_CREATE, DEED_WRITE, DEED_SYNC, DEED_UNLINK, DEED_RMDIR, DEED_SEND, DEED_DIES_TOO, DEED_END };
static int fork_tells(enum deed_kind kind, void *what, const void *data, size_t len, size_t at);

static struct process *sim_find(pid_t pid)
{
	return pid > 0 && (size_t)pid <= sim.processes ? sim.process[pid - 1] : NULL;
}

int sim_is_alive(pid_t pid)
{
	const struct process *p = sim_find(pid);
	return p && p->alive;
}

int sim_status(pid_t pid)
{
	const struct process *p = sim_find(pid);
	return p ? p->status : -1;
}

void sim_place(pid_t pid, int host)
{
	sim_find(pid)->host = host;
}

static int sim_host_of(pid_t pid)
{
	const struct process *p = sim_find(pid);
	return p ? p->host : 0;
}

void sim_bridge(pid_t pid)
{
	sim.bridge = pid;
	for (size_t i = 0; pid == 0 && i < sim.lives; i++)
		for (int fd = 0; fd < FILES_MAX; fd++) {
			struct file *f = sim.living[i]->file[fd];
			if (f && f->kind == FILE_SOCKET && f->in && sim_host_of(f->peer) != sim.living[i]->host)
				socket_break(f);
		}
}

void sim_end_host(int host)
{
	sim_trace("host %d fails", host);
	for (size_t i = sim.lives; i-- > 0;)
		if (i < sim.lives && sim.living[i]->host == host) {
			sim_end(sim.living[i], 128 + SIGKILL);
			i = sim.lives;
		}
}

static void sim_end(struct process *p, int status)
{
	if (!p->alive)
		return;
	sim_trace("%s (%d) ends: %d", p->name, p->pid, status);
	if (p->pid == sim.bridge)
		sim_bridge(0);
	p->alive = 0;
	p->status = status;
	sim_end_files(p);
	size_t at = 0;
	while (sim.living[at] != p)
		at++;
	sim.living[at] = sim.living[--sim.lives];
	for (at = sim.lives; at-- > 0;) /* a child's end may take more of them away */
		if (at < sim.lives && sim.living[at]->parent == p->pid) {
			sim_end(sim.living[at], 128 + SIGKILL);
			at = sim.lives;
		}
	if (p != sim.running && p->stack && sim.free_stacks < PROCESSES_MAX) {
		sim.free_stack[sim.free_stacks++] = p->stack;
		p->stack = NULL;
	}
}

static void sim_switch_out(struct process *p)
{
	p->saved_errno = errno;
	if (_setjmp(p->here) == 0)
		_longjmp(sim.scheduler, 1);
	errno = p->saved_errno;
}

_Noreturn static void sim_leave(int status)
{
	if (fork_tells(DEED_END, NULL, NULL, 0, (size_t)status))
		_Exit(0);
	struct process *p = sim.running;
	sim_end(p, status);
	_longjmp(sim.scheduler, 1);
}

static void sim_entry(void)
{
	struct process *p = sim.running;
	errno = 0;
	if (p->outside)
		p->outside(p->arg);
	else if (p->thread)
		p->thread(p->arg);
	if (p->outside || p->thread)
		sim_leave(0);
	sim_leave(p->main(p->argc, p->argv));
}

static struct process *sim_make(const char *name, struct process *leader)
{
	struct process *p = need(calloc(1, sizeof *p));
	p->host = sim.running ? sim.running->host : 0;
	p->leader = leader;
	p->file = leader ? leader->file : need(calloc(FILES_MAX, sizeof *p->file));
	sim.process = sim_grow(sim.process, &sim.process_room, sim.processes + 1, sizeof *sim.process);
	sim.process[sim.processes++] = p;
	if (sim.lives == PROCESSES_MAX)
		sim_fail("too many processes at a time");
	sim.living[sim.lives++] = p;
	p->pid = (pid_t)sim.processes;
	snprintf(p->name, sizeof p->name, "%s", name);
	p->alive = 1;
	p->stack = sim.free_stacks > 0
			   ? sim.free_stack[--sim.free_stacks]
			   : mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (p->stack == MAP_FAILED)
		need(NULL);
	getcontext(&p->context);
	p->context.uc_stack.ss_sp = p->stack;
	p->context.uc_stack.ss_size = STACK_BYTES;
	p->context.uc_link = NULL;
	makecontext(&p->context, sim_entry, 0);
	for (int i = 0; !leader && i < 3; i++) {
		p->file[i] = need(calloc(1, sizeof *p->file[i]));
		p->file[i]->uses = 1;
	}
	return p;
}

pid_t sim_start(const char *name, int (*main)(int argc, char **argv), int argc, char **argv)
{
	struct process *p = sim_make(name, NULL);
	p->main = main;
	p->argc = argc;
	p->argv = need(calloc((size_t)argc + 1, sizeof *p->argv));
	for (int i = 0; i < argc; i++)
		p->argv[i] = need(strdup(argv[i]));
	sim_trace("starts %s (%d)", name, p->pid);
	return p->pid;
}

void sim_dies_with(pid_t pid, pid_t parent)
{
	sim_find(pid)->parent = parent;
	if (parent && !sim_is_alive(parent))
		sim_end(sim_find(pid), 128 + SIGKILL);
}

/* ---- streams ---- */

static size_t stream_here(const struct stream *s)
{
	size_t bytes = 0;
	for (size_t i = 0; i < s->segments && s->segment[i].at <= sim.now; i++)
		bytes += s->segment[i].bytes;
	return bytes;
}

static int stream_ended(const struct stream *s)
{
	return s->segments == 0 && s->end_at <= sim.now;
}

/* When something that is under way arrives. */
static int64_t stream_next(const struct stream *s)
{
	if (s->segments > 0 && s->segment[0].at > sim.now)
		return s->segment[0].at;
	if (s->segments == 0 && s->end_at > sim.now)
		return s->end_at;
	return NEVER;
}

static struct stream *stream_make(void)
{
	static const size_t sizes[] = {1500, 4096, 65536, 212992};
	struct stream *s = need(calloc(1, sizeof *s));
	s->ends = 2;
	s->end_at = NEVER;
	s->max = sizes[sim.calm ? 3 : sim_random(4)];
	return s;
}

static int64_t stream_delay(void)
{
	if (sim.calm || !sim_chance(sim.late))
		return 0;
	return (int64_t)sim_random(sim_chance(0.02) ? 3 * (uint64_t)SECOND : SECOND / 100);
}

static void file_drop(struct file *f);

static void stream_let_go(struct stream *s)
{
	if (--s->ends > 0)
		return;
	for (size_t i = 0; i < s->segments; i++)
		if (s->segment[i].passed)
			file_drop(s->segment[i].passed);
	free(s->data);
	free(s->segment);
	free(s);
}

static void stream_end_write(struct stream *s)
{
	if (s->end_at != NEVER)
		return;
	int64_t at = sim.now + stream_delay();
	s->end_at = at > s->last_at ? at : s->last_at;
	s->edge++;
}

static void stream_end_read(struct stream *s)
{
	s->deaf = 1;
	s->edge++;
}

/* ---- fork ---- */

struct deed {
	enum deed_kind kind;
	void *what;
	size_t len, at;
};

/* Whether this is a forked child; then it tells the run. */
static int fork_tells(enum deed_kind kind, void *what, const void *data, size_t len, size_t at)
{
	const struct deed d = {kind, what, len, at};
	if (!sim.tells)
		return 0;
	if (sim.told->len + sizeof d + len > sizeof sim.told->deeds)
		_Exit(1);
	memcpy(sim.told->deeds + sim.told->len, &d, sizeof d);
	if (len > 0)
		memcpy(sim.told->deeds + sim.told->len + sizeof d, data, len);
	sim.told->len += sizeof d + len;
	return 1;
}

/* -1 with errno. */
static ssize_t stream_write(struct stream *s, const struct iovec *piece, size_t count, struct file *passed)
{
	size_t len = 0, done = 0;
	for (size_t i = 0; i < count; i++)
		len += piece[i].iov_len;
	if (s->deaf || s->end_at != NEVER) {
		errno = s->reset ? ECONNRESET : EPIPE;
		return -1;
	}
	size_t free_bytes = s->max - s->len;
	if (len == 0)
		return 0;
	for (size_t i = 0; sim.tells && i < count; i++)
		fork_tells(DEED_SEND, s, piece[i].iov_base, piece[i].iov_len, 0);
	if (sim.tells)
		return (ssize_t)len;
	if (free_bytes == 0) {
		errno = EAGAIN;
		return -1;
	}
	size_t n = len < free_bytes ? len : free_bytes;
	if (!sim.calm && n > 1 && sim_chance(sim.shorten))
		n = 1 + sim_random(n);
	s->data = sim_grow(s->data, &s->room, s->len + n, 1);
	for (size_t i = 0; i < count && done < n; i++) {
		size_t take = piece[i].iov_len < n - done ? piece[i].iov_len : n - done;
		memcpy(s->data + s->len + done, piece[i].iov_base, take);
		done += take;
	}
	s->len += n;
	int64_t at = sim.now + stream_delay();
	s->last_at = at > s->last_at ? at : s->last_at;
	struct segment *last = s->segments > 0 ? &s->segment[s->segments - 1] : NULL;
	if (last && last->at == s->last_at && !passed) {
		last->bytes += n;
	} else {
		s->segment = sim_grow(s->segment, &s->segment_room, s->segments + 1, sizeof *s->segment);
		if (passed)
			passed->uses++;
		s->segment[s->segments++] = (struct segment){n, s->last_at, passed};
	}
	s->edge++;
	return (ssize_t)n;
}

/* 0: the end; -1 with errno. */
static ssize_t stream_read(struct stream *s, const struct iovec *piece, size_t count, struct file **passed)
{
	size_t here = stream_here(s), len = 0, done = 0;
	for (size_t i = 0; i < count; i++)
		len += piece[i].iov_len;
	if (s->reset && here == 0 && s->end_at <= sim.now) {
		s->reset = 0; /* is told once */
		errno = ECONNRESET;
		return -1;
	}
	if (stream_ended(s))
		return 0;
	if (here == 0 || len == 0) {
		errno = EAGAIN;
		return len == 0 ? 0 : -1;
	}
	size_t n = here < len ? here : len;
	if (!sim.calm && n > 1 && sim_chance(sim.shorten))
		n = 1 + sim_random(n);
	if (s->segment[0].passed) {
		if (passed && !*passed)
			*passed = s->segment[0].passed;
		else
			file_drop(s->segment[0].passed);
		s->segment[0].passed = NULL;
	}
	size_t edge = 0, k = 0; /* a descriptor comes with the first byte of its message */
	for (; k < s->segments && edge < n; k++) {
		if (k > 0 && s->segment[k].passed) {
			n = edge < n ? edge : n;
			break;
		}
		edge += s->segment[k].bytes;
	}
	for (size_t i = 0; i < count && done < n; i++) {
		size_t take = piece[i].iov_len < n - done ? piece[i].iov_len : n - done;
		memcpy(piece[i].iov_base, s->data + done, take);
		done += take;
	}
	memmove(s->data, s->data + n, s->len - n);
	s->len -= n;
	size_t left = n;
	for (k = 0; k < s->segments && s->segment[k].bytes <= left; k++)
		left -= s->segment[k].bytes;
	memmove(s->segment, s->segment + k, (s->segments - k) * sizeof *s->segment);
	s->segments -= k;
	if (left > 0)
		s->segment[0].bytes -= left;
	s->edge++;
	return (ssize_t)n;
}

/* ---- open files ---- */

static struct file *file_make(enum file_kind kind)
{
	struct file *f = need(calloc(1, sizeof *f));
	f->kind = kind;
	f->uses = 1;
	f->owner = sim.running ? sim.running->pid : 0;
	return f;
}

/* The connection is lost; both ends hear of it at some time, and what is under way still arrives. */
static void socket_break(struct file *f)
{
	stream_end_write(f->in);
	stream_end_write(f->out);
	f->in->deaf = f->out->deaf = 1;
}

static void socket_end(struct file *f)
{
	if (!f->in)
		return;
	if (f->in->len > 0) /* unread: the other side hears of a reset */
		f->out->reset = 1;
	stream_end_read(f->in);
	stream_end_write(f->out);
	stream_let_go(f->in);
	stream_let_go(f->out);
}

static void file_drop(struct file *f)
{
	if (--f->uses > 0)
		return;
	if (f->kind == FILE_SOCKET)
		socket_end(f);
	if (f->kind == FILE_LISTENER) {
		if (f->inode && f->inode->listener == f)
			f->inode->listener = NULL;
		for (size_t i = 0; i < f->waits; i++)
			file_drop(f->waiting[i]);
		free(f->waiting);
	}
	if (f->kind == FILE_STREAM && f->in) {
		stream_end_read(f->in);
		stream_let_go(f->in);
	}
	if (f->kind == FILE_STREAM && f->out) {
		stream_end_write(f->out);
		stream_let_go(f->out);
	}
	if (f->kind == FILE_INODE && f->inode->lock == f)
		f->inode->lock = NULL;
	if (f->kind == FILE_MEMORY)
		__real_close(f->memory);
	free(f->text);
	free(f);
}

static void sim_end_files(struct process *p)
{
	for (int i = 0; !p->leader && i < FILES_MAX; i++)
		if (p->file[i]) {
			file_drop(p->file[i]);
			p->file[i] = NULL;
		}
}

static struct file *file_of(int fd)
{
	struct file *f = fd >= 0 && fd < FILES_MAX ? sim.running->file[fd] : NULL;
	if (!f)
		errno = EBADF;
	return f;
}

static int file_put(struct file *f, int from)
{
	struct process *p = sim.running;
	for (int i = from; i < FILES_MAX; i++)
		if (!p->file[i]) {
			p->file[i] = f;
			return i;
		}
	file_drop(f);
	errno = EMFILE;
	return -1;
}

void sim_give_file(pid_t pid, int fd, int as)
{
	struct file *f = file_of(fd);
	f->uses++;
	sim_find(pid)->file[as] = f;
}

int sim_pid_file(pid_t pid)
{
	struct file *f = file_make(FILE_PROCESS);
	f->peer = pid;
	return file_put(f, 3);
}

static short file_state(const struct file *f)
{
	short state = 0;
	switch (f->kind) {
	case FILE_NULL:
	case FILE_INODE:
	case FILE_MEMORY:
		return POLLIN | POLLOUT;
	case FILE_LISTENER:
		return f->waits > 0 ? POLLIN : 0;
	case FILE_PROCESS:
		return sim_is_alive(f->peer) ? 0 : POLLIN;
	case FILE_COUNTER:
		return POLLOUT | (f->counter > 0 ? POLLIN : 0);
	case FILE_SOCKET:
	case FILE_STREAM:
		if (!f->in && !f->out)
			return POLLOUT | POLLHUP;
		if (f->in && (stream_here(f->in) > 0 || stream_ended(f->in)))
			state |= POLLIN;
		if (f->out && (f->out->len < f->out->max || f->out->deaf || sim.tells))
			state |= POLLOUT;
		if (f->kind == FILE_STREAM && f->in && stream_ended(f->in))
			state = (short)((state | POLLHUP) & ~POLLIN);
		if (f->kind == FILE_STREAM && f->out && f->out->deaf)
			state |= POLLERR;
		if (f->kind == FILE_SOCKET && stream_ended(f->in) && (f->out->deaf || f->out->end_at != NEVER))
			state |= POLLHUP;
		return state;
	}
	return state;
}

/* When it may become ready by itself. */
static int64_t file_next(const struct file *f)
{
	return f->in ? stream_next(f->in) : NEVER;
}

static uint64_t file_edge(const struct file *f)
{
	/* What arrives is an edge when it is seen. */
	uint64_t edge = f->edge + f->waits + f->counter;
	if (f->in)
		edge += f->in->edge * 1000003 + stream_here(f->in) + (uint64_t)(stream_ended(f->in) ? 1 : 0);
	if (f->out)
		edge += f->out->edge * 7919;
	return edge;
}

/* ---- waiting, and who goes on ---- */

static short poll_file(const struct process *p, int fd, short events)
{
	if (fd < 0)
		return 0;
	const struct file *f = fd < FILES_MAX ? p->file[fd] : NULL;
	if (!f)
		return POLLNVAL;
	return (short)(file_state(f) & (events | POLLHUP | POLLERR));
}

static int loop_is_ready(struct event_base *b);
static int64_t loop_next(const struct event_base *b);

static int has_signal(const struct process *p)
{
	return p->pending != 0;
}

static int64_t process_stopped(const struct process *p)
{
	return p->leader ? p->leader->stopped_until : p->stopped_until;
}

static int process_is_ready(struct process *p)
{
	if (process_stopped(p) > sim.now)
		return 0;
	if (p->wait == WAIT_NOT || p->until <= sim.now)
		return 1;
	if (p->wait == WAIT_LOOP)
		return loop_is_ready(p->loop);
	if (has_signal(p))
		return 1;
	for (nfds_t i = 0; p->wait == WAIT_POLL && i < p->polls; i++)
		if (poll_file(p, p->polled[i].fd, p->polled[i].events))
			return 1;
	return 0;
}

static int64_t process_next(const struct process *p)
{
	int64_t at = p->until;
	if (process_stopped(p) > sim.now)
		return process_stopped(p);
	if (p->wait == WAIT_LOOP) {
		int64_t then = loop_next(p->loop);
		return then < at ? then : at;
	}
	for (nfds_t i = 0; p->wait == WAIT_POLL && i < p->polls; i++) {
		const struct file *f = p->polled[i].fd >= 0 ? p->file[p->polled[i].fd] : NULL;
		int64_t then = f ? file_next(f) : NEVER;
		at = then < at ? then : at;
	}
	return at;
}

static void sim_wait(enum wait wait, int64_t until)
{
	if (sim.tells)
		sim_fail("a forked child waits");
	struct process *p = sim.running;
	p->wait = wait;
	p->until = until;
	sim_switch_out(p);
	p->wait = WAIT_NOT;
}

/* A call of a process: takes time, and another one may go on before it. */
static void sim_call(void)
{
	if (sim.tells)
		return;
	sim.now += 500 + (int64_t)sim_random(2000);
	if (++sim.calls > CALLS_MAX)
		sim_fail("it makes call after call, and waits for nothing");
	if (!sim.calm && !sim.running->outside && sim_chance(sim.preempt))
		sim_wait(WAIT_NOT, NEVER);
}

static void deliver(struct process *p)
{
	for (int n = 1; n <= 64; n++)
		if ((p->pending >> (n - 1) & 1) && p->handler[n]) {
			p->pending &= ~(1ull << (n - 1));
			p->handler[n](n);
		}
}

static void hang(void)
{
	for (size_t i = 0; i < sim.lives; i++) {
		const struct process *p = sim.living[i];
		sim_trace("%s (%d) waits%s", p->name, p->pid, p->wait == WAIT_LOOP ? " in its loop" : "");
	}
	sim_fail("all wait, and nobody has a deadline");
}

static void sim_switch_in(struct process *p)
{
	if (_setjmp(sim.scheduler) != 0)
		return;
	if (p->began)
		_longjmp(p->here, 1);
	p->began = 1;
	setcontext(&p->context);
}

uint64_t sim_run(uint64_t seed, FILE *trace, void (*outside)(void *arg), void *arg)
{
	struct process *ready[PROCESSES_MAX], *first, *p;
	struct told *told = sim.told ? sim.told : sim_shared(sizeof *told);
	memset(&sim, 0, sizeof sim);
	sim.told = told;
	sim.seed = sim.random = seed;
	sim.trace = trace;
	sim.now = SECOND;
	/* Some machines are quieter than others. */
	sim.preempt = sim_chance(0.5) ? 0.02 : 0.2;
	sim.shorten = sim_chance(0.5) ? 0.02 : 0.3;
	sim.late = sim_chance(0.3) ? 0 : 0.3;
	sim.root = need(calloc(1, sizeof *sim.root));
	sim.root->mode = S_IFDIR | 0755;
	sim.root->links = 2;
	sim.inodes = sim.root;
	sim.root->number = ++sim.last_inode;
	first = sim_make("outside", NULL);
	first->outside = outside;
	first->arg = arg;
	while (first->alive) {
		size_t count = 0, at = 0;
		int64_t next = NEVER;
		for (size_t i = 0; i < sim.lives; i++) {
			p = sim.living[i];
			if (process_is_ready(p)) {
				ready[count++] = p;
			} else if (count == 0) {
				int64_t then = process_next(p);
				next = then < next ? then : next;
			}
		}
		if (count == 0 && next == NEVER)
			hang();
		if (count == 0) {
			sim.now = next > sim.now ? next : sim.now;
			continue;
		}
		at = sim_random(count);
		sim.running = p = ready[at];
		sim.steps++;
		sim.calls = 0;
		sim_switch_in(p);
		sim.running = NULL;
		if (!p->alive && p->stack && sim.free_stacks < PROCESSES_MAX) {
			sim.free_stack[sim.free_stacks++] = p->stack;
			p->stack = NULL;
		}
	}
	for (size_t i = 0; i < sim.processes; i++)
		if (sim.process[i]->stack)
			munmap(sim.process[i]->stack, STACK_BYTES);
	while (sim.free_stacks > 0)
		munmap(sim.free_stack[--sim.free_stacks], STACK_BYTES);
	return sim.steps;
}

/* ---- many runs ---- */

_Noreturn void __real_exit(int status);

void *sim_shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return need(memory == MAP_FAILED ? NULL : memory);
}

int sim_main(int argc, char **argv, void (*outside)(void *arg))
{
	int is_traced = argc > 1 && strcmp(argv[1], "-t") == 0;
	if (argc < 2 + is_traced) {
		fprintf(stderr, "usage: %s [-t] SEED [SEEDS [STEPS]]\n", argv[0]);
		return 64;
	}
	setenv("PACELINE_CONFINE", "off", 1); /* it would hold for all of them */
	uint64_t seed = strtoull(argv[1 + is_traced], NULL, 10), steps = 0, run = 0;
	uint64_t seeds = argc > 2 + is_traced ? strtoull(argv[2 + is_traced], NULL, 10) : 1;
	uint64_t most = argc > 3 + is_traced ? strtoull(argv[3 + is_traced], NULL, 10) : UINT64_MAX;
	/* What killed processes leave behind goes with the process that has simulated a few runs. */
	uint64_t *made = sim_shared(2 * sizeof *made), end = seed + seeds;
	while (seed < end && steps < most) {
		int status = 0;
		made[0] = made[1] = 0;
		pid_t child = __real_fork();
		if (child == 0) {
			stderr = is_traced ? stdout : need(fopen("/dev/null", "w"));
			for (; made[0] < RUNS_TOGETHER && seed < end && steps + made[1] < most; seed++, made[0]++)
				made[1] += sim_run(seed, is_traced ? stdout : NULL, outside, NULL);
			fflush(stdout);
			_Exit(0);
		}
		if (child < 0 || __real_waitpid(child, &status, 0) != child) {
			perror("fork");
			return 71;
		}
		if (WIFSIGNALED(status))
			printf("seed %llu: signal %d\n", (unsigned long long)(seed + made[0]), WTERMSIG(status));
		if (status != 0)
			return 1;
		seed += made[0];
		run += made[0];
		steps += made[1];
	}
	printf("seeds %llu steps %llu\n", (unsigned long long)run, (unsigned long long)steps);
	return 0;
}

void sim_signal(pid_t pid, int number)
{
	struct process *p = sim_find(pid);
	if (!p || !p->alive)
		return;
	sim_trace("signal %d to %s (%d)", number, p->name, pid);
	uint64_t bit = 1ull << (number - 1);
	if (number == SIGKILL) {
		sim_end(p, 128 + SIGKILL);
	} else if (p->handler[number] == SIG_DFL && !(p->ignored & bit)) {
		sim_end(p, 128 + number);
	} else if (!(p->ignored & bit)) {
		p->pending |= bit;
	}
}

void sim_end_at_sync(pid_t pid, unsigned which)
{
	struct process *p = sim_find(pid);
	if (p)
		p->ends_at_sync = (int)which;
}

void sim_stop(pid_t pid, double seconds)
{
	struct process *p = sim_find(pid);
	if (!p || !p->alive)
		return;
	sim_trace("%s (%d) stands still for %g s", p->name, pid, seconds);
	p->stopped_until = sim.now + (int64_t)(seconds * 1e9);
}

void sim_cut_connections(pid_t pid)
{
	struct process *p = sim_find(pid);
	if (!p || !p->alive)
		return;
	sim_trace("connections of %s (%d) break", p->name, pid);
	int is_later = sim_chance(0.5);
	for (int i = 0; i < FILES_MAX; i++) {
		struct file *f = p->file[i];
		if (!f || f->kind != FILE_SOCKET || !f->in)
			continue;
		f->in->breaks = f->out->breaks = is_later;
		if (!is_later)
			socket_break(f);
	}
}

void sim_be_calm(void)
{
	sim.calm = 1;
	sim.full = 0;
}

void sim_fill_disk(int is_full)
{
	sim_trace("the disk %s", is_full ? "is full" : "has room again");
	sim.full = is_full;
}

/* ---- files ---- */

static struct inode *inode_make(mode_t mode)
{
	struct inode *n = need(calloc(1, sizeof *n));
	n->mode = mode;
	n->number = ++sim.last_inode;
	n->changed = sim.now;
	n->next = sim.inodes;
	sim.inodes = n;
	return n;
}

static struct entry *dir_find(const struct inode *dir, const char *name)
{
	for (size_t i = 0; i < dir->entries; i++)
		if (strcmp(dir->entry[i].name, name) == 0)
			return &dir->entry[i];
	return NULL;
}

static struct inode *dir_set(struct inode *dir, const char *name, struct inode *inode)
{
	struct entry *e = dir_find(dir, name);
	struct inode *old = e ? e->inode : NULL;
	if (old)
		old->links--;
	if (inode)
		inode->links++;
	if (e && inode) {
		e->inode = inode;
	} else if (e) {
		*e = dir->entry[--dir->entries];
	} else if (inode) {
		dir->entry = sim_grow(dir->entry, &dir->entry_room, dir->entries + 1, sizeof *dir->entry);
		e = &dir->entry[dir->entries++];
		snprintf(e->name, sizeof e->name, "%s", name);
		e->inode = inode;
	}
	return old;
}

static struct name_change *change_new(void)
{
	sim.change = sim_grow(sim.change, &sim.change_room, sim.changes + 1, sizeof *sim.change);
	struct name_change *c = &sim.change[sim.changes++];
	memset(c, 0, sizeof *c);
	return c;
}

static void change_add(struct name_change *c, struct inode *dir, const char *name, struct inode *inode)
{
	int i = c->count++;
	c->dir[i] = dir;
	snprintf(c->name[i], sizeof c->name[i], "%s", name);
	c->old[i] = dir_set(dir, name, inode);
}

/* The directory in which the last name of path is, and that name. NULL with errno. */
static struct inode *walk(const char *path, char name[NAME_BYTES])
{
	struct inode *dir = sim.root;
	snprintf(name, NAME_BYTES, "%s", ".");
	while (*path) {
		size_t n = strcspn(path, "/");
		if (n == 0) {
			path++;
			continue;
		}
		if (n >= NAME_BYTES) {
			errno = ENAMETOOLONG;
			return NULL;
		}
		if (strcmp(name, ".") != 0) {
			struct entry *e = dir_find(dir, name);
			if (!e || !S_ISDIR(e->inode->mode)) {
				errno = e ? ENOTDIR : ENOENT;
				return NULL;
			}
			dir = e->inode;
		}
		snprintf(name, NAME_BYTES, "%.*s", (int)n, path);
		path += n;
	}
	return dir;
}

static struct inode *find_path(const char *path)
{
	char name[NAME_BYTES];
	struct inode *dir = walk(path, name);
	if (!dir)
		return NULL;
	if (strcmp(name, ".") == 0)
		return dir;
	struct entry *e = dir_find(dir, name);
	if (!e)
		errno = ENOENT;
	return e ? e->inode : NULL;
}

static void inode_write(struct inode *n, const void *data, size_t len, size_t at)
{
	n->data = sim_grow(n->data, &n->room, at + len, 1);
	if (at > n->len)
		memset(n->data + n->len, 0, at - n->len);
	memcpy(n->data + at, data, len);
	n->len = at + len > n->len ? at + len : n->len;
	n->changed = sim.now;
}

static void inode_pend(struct inode *n, const void *data, size_t len, size_t at)
{
	size_t bytes = len == SIZE_MAX ? 0 : len;
	struct write_back *last = n->last;
	/* The rest of one that came short: the disk hardly sees a sector in between. */
	if (bytes > 0 && last && last->was_short && last->at + last->len == at) {
		struct write_back **at_last = &n->first;
		while (*at_last != last)
			at_last = &(*at_last)->next;
		*at_last = n->last = last = need(realloc(last, sizeof *last + last->len + bytes));
		memcpy(last->data + last->len, data, bytes);
		last->len += bytes;
		return;
	}
	struct write_back *w = need(malloc(sizeof *w + bytes));
	*w = (struct write_back){.at = at, .len = len};
	if (bytes > 0)
		memcpy(w->data, data, bytes);
	if (n->last)
		n->last->next = w;
	else
		n->first = w;
	n->last = w;
}

/* -1 with errno. */
static ssize_t inode_pwrite(struct inode *n, const void *data, size_t len, size_t at)
{
	if (sim.full && at + len > n->len) {
		errno = ENOSPC;
		return -1;
	}
	size_t whole = len;
	if (!sim.calm && len > 1 && sim_chance(sim.shorten / 4))
		len = 1 + sim_random(len);
	fork_tells(DEED_WRITE, n, data, len, at);
	inode_write(n, data, len, at);
	inode_pend(n, data, len, at);
	n->last->was_short = len < whole;
	return (ssize_t)len;
}

static void inode_truncate(struct inode *n, size_t len)
{
	if (sim.tells)
		sim_fail("a forked child cuts a file");
	n->data = sim_grow(n->data, &n->room, len, 1);
	if (len > n->len)
		memset(n->data + n->len, 0, len - n->len);
	n->len = len;
	inode_pend(n, NULL, SIZE_MAX, len);
}

static void durable_take(struct inode *n, const struct write_back *w, size_t from, size_t to)
{
	size_t end = w->len == SIZE_MAX ? w->at : w->at + to;
	if (end > n->durable_len) {
		n->durable = sim_grow(n->durable, &n->durable_room, end, 1);
		memset(n->durable + n->durable_len, 0, end - n->durable_len);
		n->durable_len = end;
	}
	if (w->len == SIZE_MAX)
		n->durable_len = end;
	else if (to > from)
		memcpy(n->durable + w->at + from, w->data + from, to - from);
}

/* Each is on disk. */
static void inode_settle(struct inode *n)
{
	for (struct write_back *w = n->first, *next; w; w = next) {
		next = w->next;
		durable_take(n, w, 0, w->len == SIZE_MAX ? 0 : w->len);
		free(w);
	}
	n->first = n->last = NULL;
}

/* The power has failed: of each sector's writes the first are on disk, up to some one. Usually those of a write are
 * there or not together. */
static void inode_lose(struct inode *n)
{
	double lost = random_uniform(&sim.random), torn = sim_chance(0.5) ? random_uniform(&sim.random) : 0;
	size_t last = 0;
	for (const struct write_back *w = n->first; w; w = w->next)
		last = w->len != SIZE_MAX && w->at + w->len > last ? w->at + w->len : last;
	char *stale = need(calloc(last / SECTOR + 1, 1));
	for (struct write_back *w = n->first, *next; w; w = next) {
		next = w->next;
		int is_torn = sim_chance(torn), is_lost = sim_chance(lost);
		if (w->len == SIZE_MAX && !is_lost)
			durable_take(n, w, 0, 0);
		for (size_t at = w->at; w->len != SIZE_MAX && at < w->at + w->len;) {
			size_t sector = at / SECTOR, end = (sector + 1) * SECTOR;
			end = end < w->at + w->len ? end : w->at + w->len;
			stale[sector] |= (char)(is_torn ? sim_chance(0.5) : is_lost);
			if (!stale[sector])
				durable_take(n, w, at - w->at, end - w->at);
			at = end;
		}
		free(w);
	}
	n->first = n->last = NULL;
	free(stale);
}

static void inode_sync(struct inode *n)
{
	if (fork_tells(DEED_SYNC, n, NULL, 0, 0))
		return;
	if (sim.running->ends_at_sync > 0 && --sim.running->ends_at_sync == 0)
		sim_leave(128 + SIGKILL);
	if (!sim.calm) /* a disk takes its time */
		sim_wait(WAIT_TIME, sim.now + (int64_t)sim_random(sim_chance(0.02) ? 300000000 : 2000000));
	inode_settle(n);
	if (!S_ISDIR(n->mode))
		return;
	size_t kept = 0;
	for (size_t i = 0; i < sim.changes; i++)
		if (sim.change[i].dir[sim.change[i].count - 1] != n)
			sim.change[kept++] = sim.change[i];
	sim.changes = kept;
}

void sim_cut_power(void)
{
	sim_trace("the power fails");
	for (size_t i = sim.lives; i-- > 0;)
		if (i < sim.lives && !sim.living[i]->outside) {
			sim_end(sim.living[i], 128 + SIGKILL);
			i = sim.lives;
		}
	/* Of each directory's changes the first are on disk, up to some one. */
	for (struct inode *dir = sim.inodes; dir; dir = dir->next) {
		size_t count = 0, keep;
		for (size_t i = 0; S_ISDIR(dir->mode) && i < sim.changes; i++)
			count += sim.change[i].dir[sim.change[i].count - 1] == dir;
		keep = sim_random(count + 1);
		for (size_t i = sim.changes; i-- > 0 && count > 0;) {
			struct name_change *c = &sim.change[i];
			if (c->dir[c->count - 1] != dir || count-- <= keep)
				continue;
			for (int k = c->count; k-- > 0;)
				dir_set(c->dir[k], c->name[k], c->old[k]);
		}
	}
	sim.changes = 0;
	for (struct inode *n = sim.inodes; n; n = n->next) {
		if (!S_ISREG(n->mode))
			continue;
		inode_lose(n);
		n->data = sim_grow(n->data, &n->room, n->durable_len, 1);
		if (n->durable_len > 0)
			memcpy(n->data, n->durable, n->durable_len);
		n->len = n->durable_len;
	}
	sim.boot++;
	sim.now += SECOND + (int64_t)sim_random(60 * (uint64_t)SECOND);
	sim.boot_at = sim.now;
	if (sim_chance(0.2)) /* and the clock is wrong */
		sim.set = (int64_t)sim_random(7200 * (uint64_t)SECOND) - 3600 * SECOND;
}

/* ---- calls: files ---- */

/* There are no links. */
char *__wrap_realpath(const char *path, char *out);
char *__wrap_realpath(const char *path, char *out)
{
	return out ? strcpy(out, path) : strdup(path);
}

char *__wrap___realpath_chk(const char *path, char *out, size_t room);
char *__wrap___realpath_chk(const char *path, char *out, size_t room)
{
	(void)room;
	return __wrap_realpath(path, out);
}

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	char name[NAME_BYTES];
	sim_call();
	if (strcmp(path, "/proc/sys/kernel/random/boot_id") == 0) {
		struct file *f = file_make(FILE_NULL);
		char text[64];
		snprintf(text, sizeof text, "%08x-0000-4000-8000-%012llx\n", sim.boot,
			 (unsigned long long)(sim.seed & 0xffffffffffffull));
		f->text = need(strdup(text));
		return file_put(f, 3);
	}
	if ((flags & O_TMPFILE) == O_TMPFILE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	struct inode *dir = walk(path, name);
	if (!dir)
		return -1;
	struct entry *e = dir_find(dir, name);
	struct inode *n = strcmp(name, ".") == 0 ? dir : e ? e->inode : NULL;
	if (n && (flags & O_CREAT) && (flags & O_EXCL)) {
		errno = EEXIST;
		return -1;
	}
	if (!n && !(flags & O_CREAT)) {
		errno = ENOENT;
		return -1;
	}
	if (n && (((flags & O_DIRECTORY) && !S_ISDIR(n->mode)) || S_ISSOCK(n->mode))) {
		errno = S_ISSOCK(n->mode) ? ENXIO : ENOTDIR;
		return -1;
	}
	if (!n) {
		n = inode_make(S_IFREG | 0600);
		change_add(change_new(), dir, name, n);
		fork_tells(DEED_CREATE, dir, name, strlen(name) + 1, (size_t)n);
	}
	if ((flags & O_TRUNC) && n->len > 0)
		inode_truncate(n, 0);
	struct file *f = file_make(FILE_INODE);
	f->inode = n;
	f->flags = flags;
	int fd = file_put(f, 3);
	sim_trace("open %s: %d", path, fd);
	return fd;
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
	struct file *f = file_of(fd);
	if (!f)
		return -1;
	sim.running->file[fd] = NULL;
	file_drop(f);
	sim_call();
	return 0;
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at)
{
	sim_call();
	struct file *f = file_of(fd);
	if (f && f->kind == FILE_MEMORY)
		return __real_pwrite(f->memory, data, len, at);
	ssize_t n = f && f->kind == FILE_INODE ? inode_pwrite(f->inode, data, len, (size_t)at) : -1;
	sim_trace("pwrite %d: %zd bytes at %lld", fd, n, (long long)at);
	return n;
}

ssize_t __wrap_pwritev(int fd, const struct iovec *piece, int count, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *piece, int count, off_t at)
{
	ssize_t done = 0;
	for (int i = 0; i < count; i++) {
		ssize_t n = __wrap_pwrite(fd, piece[i].iov_base, piece[i].iov_len, at + done);
		if (n < 0)
			return done > 0 ? done : n;
		done += n;
		if ((size_t)n < piece[i].iov_len)
			break;
	}
	return done;
}

ssize_t __wrap_pread(int fd, void *data, size_t len, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t len, off_t at)
{
	sim_call();
	struct file *f = file_of(fd);
	if (f && f->kind == FILE_MEMORY)
		return __real_pread(f->memory, data, len, at);
	if (!f || f->kind != FILE_INODE)
		return -1;
	const struct inode *n = f->inode;
	size_t left = (size_t)at < n->len ? n->len - (size_t)at : 0;
	len = len < left ? len : left;
	if (!sim.calm && len > 1 && sim_chance(sim.shorten / 4))
		len = 1 + sim_random(len);
	if (len > 0)
		memcpy(data, n->data + at, len);
	return (ssize_t)len;
}

ssize_t __wrap_readv(int fd, const struct iovec *piece, int count);
ssize_t __wrap_readv(int fd, const struct iovec *piece, int count)
{
	sim_call();
	struct file *f = file_of(fd);
	if (!f)
		return -1;
	if (f->kind == FILE_COUNTER) {
		if (f->counter == 0) {
			errno = EAGAIN;
			return -1;
		}
		memcpy(piece->iov_base, &f->counter, sizeof f->counter);
		f->counter = 0;
		return sizeof f->counter;
	}
	if (f->in) {
		while (!(f->flags & O_NONBLOCK) && !(file_state(f) & (POLLIN | POLLHUP))) {
			struct pollfd p = {.fd = fd, .events = POLLIN};
			sim.running->polled = &p;
			sim.running->polls = 1;
			sim_wait(WAIT_POLL, NEVER);
		}
		return stream_read(f->in, piece, (size_t)count, NULL);
	}
	const char *text = f->text ? f->text : f->kind == FILE_INODE ? f->inode->data : NULL;
	size_t size = f->text ? strlen(f->text) : f->kind == FILE_INODE ? f->inode->len : 0;
	size_t left = f->pos < size ? size - f->pos : 0, done = 0;
	for (int i = 0; i < count && left > 0; i++) {
		size_t n = piece[i].iov_len < left ? piece[i].iov_len : left;
		memcpy(piece[i].iov_base, text + f->pos, n);
		f->pos += n;
		left -= n;
		done += n;
	}
	return (ssize_t)done;
}

ssize_t __wrap_read(int fd, void *data, size_t len);
ssize_t __wrap_read(int fd, void *data, size_t len)
{
	struct iovec piece = {data, len};
	return __wrap_readv(fd, &piece, 1);
}

ssize_t __wrap___read_chk(int fd, void *data, size_t len, size_t room);
ssize_t __wrap___read_chk(int fd, void *data, size_t len, size_t room)
{
	(void)room;
	return __wrap_read(fd, data, len);
}

ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	struct file *f = file_of(fd);
	struct iovec piece = {(void *)(uintptr_t)data, len};
	if (!f)
		return -1;
	if (f->kind == FILE_NULL)
		return (ssize_t)len;
	if (f->kind == FILE_COUNTER) {
		uint64_t add;
		memcpy(&add, data, sizeof add);
		f->counter += add;
		return sizeof add;
	}
	if (f->out) {
		sim_call();
		return stream_write(f->out, &piece, 1, NULL);
	}
	ssize_t n = __wrap_pwrite(fd, data, len, (off_t)((f->flags & O_APPEND) ? f->inode->len : f->pos));
	if (n > 0)
		f->pos += (size_t)n;
	return n;
}

int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	sim_call();
	struct file *f = file_of(fd);
	sim_trace("sync %d", fd);
	if (f && f->kind == FILE_INODE)
		inode_sync(f->inode);
	return f ? 0 : -1;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	return __wrap_fdatasync(fd);
}

int __wrap_ftruncate(int fd, off_t len);
int __wrap_ftruncate(int fd, off_t len)
{
	sim_call();
	struct file *f = file_of(fd);
	if (f && f->kind == FILE_MEMORY && len > SHARED_MAX) {
		errno = EFBIG;
		return -1;
	}
	if (f && f->kind == FILE_MEMORY)
		return __real_ftruncate(f->memory, len);
	if (!f || f->kind != FILE_INODE)
		return -1;
	inode_truncate(f->inode, (size_t)len);
	return 0;
}

off_t __wrap_lseek(int fd, off_t by, int from);
off_t __wrap_lseek(int fd, off_t by, int from)
{
	struct file *f = file_of(fd);
	if (!f || f->kind != FILE_INODE)
		return -1;
	off_t at = by + (from == SEEK_END ? (off_t)f->inode->len : from == SEEK_CUR ? (off_t)f->pos : 0);
	if (at < 0) {
		errno = EINVAL;
		return -1;
	}
	f->pos = (size_t)at;
	return at;
}

int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
	struct file *f = file_make(FILE_MEMORY);
	f->memory = __real_memfd_create(name, flags);
	return file_put(f, 3);
}

/* Memory is the real machine's; of a file on disk it is a copy. */
void *__wrap_mmap(void *at, size_t len, int protection, int flags, int fd, off_t from);
void *__wrap_mmap(void *at, size_t len, int protection, int flags, int fd, off_t from)
{
	const struct file *f = fd >= 0 ? file_of(fd) : NULL;
	if (fd < 0)
		return __real_mmap(at, len, protection, flags, fd, from);
	if (f && f->kind == FILE_MEMORY)
		return __real_mmap(at, len, protection, flags, f->memory, from);
	if (!f || f->kind != FILE_INODE || (protection & PROT_WRITE)) {
		errno = EACCES;
		return MAP_FAILED;
	}
	char *copy = __real_mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t left = (size_t)from < f->inode->len ? f->inode->len - (size_t)from : 0;
	if (copy != MAP_FAILED && left > 0)
		memcpy(copy, f->inode->data + from, left < len ? left : len);
	return copy;
}

int __wrap_fallocate(int fd, int mode, off_t at, off_t len);
int __wrap_fallocate(int fd, int mode, off_t at, off_t len)
{
	const struct file *f = file_of(fd);
	errno = EOPNOTSUPP;
	return f && f->kind == FILE_MEMORY ? __real_fallocate(f->memory, mode, at, len) : -1;
}

int __wrap_posix_fadvise(int fd, off_t at, off_t len, int advice);
int __wrap_posix_fadvise(int fd, off_t at, off_t len, int advice)
{
	(void)fd;
	(void)at;
	(void)len;
	(void)advice;
	return 0;
}

int __wrap_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode)
{
	(void)mode;
	return file_of(fd) ? 0 : -1;
}

static int stat_of(const struct inode *n, struct stat *st)
{
	*st = (struct stat){.st_dev = 1, .st_ino = n->number, .st_mode = n->mode, .st_nlink = n->links,
			    .st_uid = getuid(),
			    .st_size = (off_t)n->len, .st_blksize = 4096};
	st->st_mtim.tv_sec = n->changed / SECOND;
	st->st_mtim.tv_nsec = n->changed % SECOND;
	return 0;
}

int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st)
{
	const struct file *f = file_of(fd);
	if (!f)
		return -1;
	if (f->kind == FILE_INODE)
		return stat_of(f->inode, st);
	if (f->kind == FILE_MEMORY)
		return __real_fstat(f->memory, st);
	*st = (struct stat){.st_mode = f->text ? S_IFREG : S_IFCHR};
	return 0;
}

int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
	sim_call();
	const struct inode *n = find_path(path);
	return n ? stat_of(n, st) : -1;
}

int __wrap_lstat(const char *path, struct stat *st);
int __wrap_lstat(const char *path, struct stat *st)
{
	return __wrap_stat(path, st);
}

int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
	(void)mode;
	sim_call();
	return find_path(path) ? 0 : -1;
}

int __wrap_fstatvfs(int fd, struct statvfs *st);
int __wrap_fstatvfs(int fd, struct statvfs *st)
{
	(void)fd;
	*st = (struct statvfs){.f_bsize = 4096, .f_frsize = 4096, .f_bavail = sim.full ? 0 : 1000};
	return 0;
}

int __wrap_statvfs(const char *path, struct statvfs *st);
int __wrap_statvfs(const char *path, struct statvfs *st)
{
	(void)path;
	*st = (struct statvfs){.f_bsize = 4096, .f_frsize = 4096, .f_blocks = 2000,
			       .f_bavail = sim.full ? 0 : 1000, .f_bfree = sim.full ? 0 : 1000};
	return 0;
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
	char name[NAME_BYTES];
	sim_call();
	struct inode *dir = walk(path, name);
	if (!dir)
		return -1;
	if (strcmp(name, ".") == 0 || dir_find(dir, name)) {
		errno = EEXIST;
		return -1;
	}
	change_add(change_new(), dir, name, inode_make(S_IFDIR | (mode & 0777)));
	return 0;
}

int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
	char old_name[NAME_BYTES], new_name[NAME_BYTES];
	sim_call();
	struct inode *old_dir = walk(from, old_name), *new_dir = old_dir ? walk(to, new_name) : NULL;
	struct entry *e = new_dir ? dir_find(old_dir, old_name) : NULL;
	if (!e) {
		errno = ENOENT;
		return -1;
	}
	struct inode *n = e->inode;
	struct name_change *c = change_new();
	change_add(c, old_dir, old_name, NULL);
	change_add(c, new_dir, new_name, n);
	sim_trace("rename %s to %s", from, to);
	return 0;
}

static int remove_name(struct inode *dir, const char *name, int is_dir)
{
	fork_tells(is_dir ? DEED_RMDIR : DEED_UNLINK, dir, name, strlen(name) + 1, 0);
	struct entry *e = dir_find(dir, name);
	if (!e || is_dir != S_ISDIR(e->inode->mode) || (is_dir && e->inode->entries > 0)) {
		errno = !e ? ENOENT : !is_dir ? EISDIR : S_ISDIR(e->inode->mode) ? ENOTEMPTY : ENOTDIR;
		return -1;
	}
	if (S_ISSOCK(e->inode->mode)) /* a socket is not on disk */
		dir_set(dir, name, NULL);
	else
		change_add(change_new(), dir, name, NULL);
	return 0;
}

static int remove_path(const char *call, const char *path, int is_dir)
{
	char name[NAME_BYTES];
	sim_call();
	struct inode *dir = walk(path, name);
	sim_trace("%s %s", call, path);
	return dir ? remove_name(dir, name, is_dir) : -1;
}

int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
	return remove_path("unlink", path, 0);
}

int __wrap_rmdir(const char *path);
int __wrap_rmdir(const char *path)
{
	return remove_path("rmdir", path, 1);
}

int __wrap_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags)
{
	int is_dir = (flags & AT_REMOVEDIR) != 0;
	if (fd == AT_FDCWD)
		return is_dir ? __wrap_rmdir(name) : __wrap_unlink(name);
	sim_call();
	struct file *f = file_of(fd);
	sim_trace("unlink %s", name);
	return f ? remove_name(f->inode, name, is_dir) : -1;
}

/* For directories only. */
int __wrap_openat(int fd, const char *name, int flags, ...);
int __wrap_openat(int fd, const char *name, int flags, ...)
{
	if (fd == AT_FDCWD)
		return __wrap_open(name, flags);
	sim_call();
	struct file *d = file_of(fd), *f;
	struct entry *e = d ? dir_find(d->inode, name) : NULL;
	if (!e) {
		errno = ENOENT;
		return -1;
	}
	f = file_make(FILE_INODE);
	f->inode = e->inode;
	f->flags = flags;
	return file_put(f, 3);
}

int __wrap_flock(int fd, int how);
int __wrap_flock(int fd, int how)
{
	sim_call();
	struct file *f = file_of(fd);
	if (!f || f->kind != FILE_INODE)
		return -1;
	struct inode *n = f->inode;
	if (n->lock && n->lock != f) {
		errno = EWOULDBLOCK;
		return -1;
	}
	n->lock = (how & LOCK_UN) ? NULL : f;
	return 0;
}

struct listing {
	size_t count, next;
	int fd;
	struct dirent entry;
	char (*name)[NAME_BYTES];
};

DIR *__wrap_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd)
{
	const struct inode *dir = sim.running->file[fd]->inode;
	struct listing *l = need(calloc(1, sizeof *l));
	l->fd = fd;
	l->name = need(calloc(dir->entries + 1, sizeof *l->name));
	for (size_t i = 0; i < dir->entries; i++)
		memcpy(l->name[l->count++], dir->entry[i].name, NAME_BYTES);
	return (DIR *)l;
}

DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
	int fd = __wrap_open(path, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? NULL : __wrap_fdopendir(fd);
}

struct dirent *__wrap_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir)
{
	struct listing *l = (struct listing *)dir;
	if (l->next == l->count)
		return NULL;
	snprintf(l->entry.d_name, sizeof l->entry.d_name, "%s", l->name[l->next++]);
	return &l->entry;
}

int __wrap_dirfd(DIR *dir);
int __wrap_dirfd(DIR *dir)
{
	return ((struct listing *)dir)->fd;
}

int __wrap_closedir(DIR *dir);
int __wrap_closedir(DIR *dir)
{
	struct listing *l = (struct listing *)dir;
	__wrap_close(l->fd);
	free(l->name);
	free(l);
	return 0;
}

/* ---- calls: descriptors ---- */

int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
	va_list ap;
	va_start(ap, command);
	int arg = va_arg(ap, int);
	va_end(ap);
	struct file *f = file_of(fd);
	if (!f)
		return -1;
	if (command == F_ADD_SEALS || command == F_GET_SEALS)
		return f->kind == FILE_MEMORY ? __real_fcntl(f->memory, command, arg) : -1;
	switch (command) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		f->uses++;
		return file_put(f, arg);
	case F_GETFL:
		return f->flags;
	case F_SETFL:
		f->flags = arg;
		return 0;
	case F_GETFD:
	case F_SETFD:
		return 0;
	default:
		errno = EINVAL;
		return -1;
	}
}

int __wrap_dup2(int fd, int as);
int __wrap_dup2(int fd, int as)
{
	struct file *f = file_of(fd);
	if (!f || fd == as)
		return f ? as : -1;
	f->uses++;
	if (sim.running->file[as])
		file_drop(sim.running->file[as]);
	sim.running->file[as] = f;
	return as;
}

int __wrap_close_range(unsigned first, unsigned last, int flags);
int __wrap_close_range(unsigned first, unsigned last, int flags)
{
	(void)flags;
	for (unsigned i = first; i < FILES_MAX && i <= last; i++)
		if (sim.running->file[i])
			__wrap_close((int)i);
	return 0;
}

int __wrap_pipe2(int fd[2], int flags);
int __wrap_pipe2(int fd[2], int flags)
{
	struct file *in = file_make(FILE_STREAM), *out = file_make(FILE_STREAM);
	in->in = out->out = stream_make();
	in->flags = out->flags = flags & O_NONBLOCK;
	fd[0] = file_put(in, 3);
	fd[1] = file_put(out, 3);
	return 0;
}

/* ---- calls: sockets ---- */

int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol)
{
	(void)domain;
	(void)protocol;
	sim_call();
	struct file *f = file_make(FILE_SOCKET);
	f->flags = type & SOCK_NONBLOCK ? O_NONBLOCK : 0;
	return file_put(f, 3);
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
	(void)len;
	char name[NAME_BYTES];
	sim_call();
	struct file *f = file_of(fd);
	if (address->sa_family != AF_UNIX) /* any port is free */
		return 0;
	struct inode *dir = walk(((const struct sockaddr_un *)address)->sun_path, name);
	if (!f || !dir)
		return -1;
	if (dir_find(dir, name)) {
		errno = EADDRINUSE;
		return -1;
	}
	f->inode = inode_make(S_IFSOCK | 0600);
	dir_set(dir, name, f->inode);
	return 0;
}

int __wrap_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog)
{
	(void)backlog;
	sim_call();
	struct file *f = file_of(fd);
	if (!f)
		return -1;
	f->kind = FILE_LISTENER;
	f->inode->listener = f;
	return 0;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	(void)len;
	sim_call();
	struct file *f = file_of(fd);
	struct inode *n = find_path(((const struct sockaddr_un *)address)->sun_path);
	if (!f || !n)
		return -1;
	if (!n->listener || (sim_host_of(n->listener->owner) != sim.running->host && !sim.bridge)) {
		errno = ECONNREFUSED;
		return -1;
	}
	struct file *l = n->listener, *there = file_make(FILE_SOCKET);
	there->in = f->out = stream_make();
	there->out = f->in = stream_make();
	there->peer = sim.running->pid;
	f->peer = l->owner;
	l->waiting = need(realloc(l->waiting, (l->waits + 1) * sizeof *l->waiting));
	l->waiting[l->waits++] = there;
	l->edge++;
	sim_trace("connect %d to %s", fd, ((const struct sockaddr_un *)address)->sun_path);
	return 0;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
	(void)address;
	(void)len;
	sim_call();
	struct file *l = file_of(fd);
	if (!l)
		return -1;
	if (l->waits == 0) {
		errno = EAGAIN;
		return -1;
	}
	struct file *f = l->waiting[0];
	memmove(l->waiting, l->waiting + 1, --l->waits * sizeof *l->waiting);
	f->flags = flags & SOCK_NONBLOCK ? O_NONBLOCK : 0;
	f->owner = sim.running->pid;
	return file_put(f, 3);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	(void)level;
	const struct file *f = file_of(fd);
	if (!f)
		return -1;
	if (name == SO_PEERCRED && *len >= sizeof(struct ucred)) {
		struct ucred who = {.pid = f->peer};
		memcpy(value, &who, sizeof who);
	} else {
		memset(value, 0, *len);
	}
	return 0;
}

static ssize_t sim_send(int fd, const struct iovec *piece, size_t count, struct file *passed)
{
	sim_call();
	struct file *f = file_of(fd);
	if (!f)
		return -1;
	if (!f->out) {
		errno = ENOTCONN;
		return -1;
	}
	if (f->out->breaks && !sim.calm)
		f->out->last_at = sim.now + (int64_t)sim_random(SECOND);
	ssize_t n = stream_write(f->out, piece, count, passed);
	if (f->out->breaks)
		socket_break(f);
	if (n > 0 && sim.trace) { /* its first line, if it is text */
		const char *text = piece->iov_base;
		int len = 0;
		while (len < n && (size_t)len < piece->iov_len && text[len] >= ' ' && text[len] <= '~')
			len++;
		sim_trace("send %d: %zd: %.*s", fd, n, len, text);
	}
	return n;
}

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
	(void)flags;
	struct iovec piece = {(void *)(uintptr_t)data, len};
	return sim_send(fd, &piece, 1, NULL);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	(void)flags;
	struct file *passed = NULL;
	const struct cmsghdr *h = message->msg_controllen > 0 ? CMSG_FIRSTHDR(message) : NULL;
	if (h) {
		int other;
		memcpy(&other, CMSG_DATA(h), sizeof other);
		passed = file_of(other);
	}
	return sim_send(fd, message->msg_iov, message->msg_iovlen, passed);
}

ssize_t __wrap_sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t to_len);
ssize_t __wrap_sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	(void)fd;
	(void)data;
	(void)flags;
	(void)to;
	(void)to_len;
	return (ssize_t)len;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	(void)flags;
	sim_call();
	struct file *f = file_of(fd), *passed = NULL;
	if (!f)
		return -1;
	if (!f->in) {
		errno = ENOTCONN;
		return -1;
	}
	ssize_t n = stream_read(f->in, message->msg_iov, message->msg_iovlen, &passed);
	if (!passed) {
		message->msg_controllen = 0;
		return n;
	}
	struct cmsghdr *h = CMSG_FIRSTHDR(message);
	int other = file_put(passed, 3);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof other);
	memcpy(CMSG_DATA(h), &other, sizeof other);
	message->msg_controllen = CMSG_SPACE(sizeof other);
	return n;
}

ssize_t __wrap_recv(int fd, void *data, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t len, int flags)
{
	(void)flags;
	struct iovec piece = {data, len};
	return __wrap_readv(fd, &piece, 1);
}

int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
	sim_call();
	struct file *f = file_of(fd);
	if (!f || !f->in)
		return -1;
	if (how != SHUT_RD)
		stream_end_write(f->out);
	if (how != SHUT_WR) {
		stream_end_read(f->in);
		stream_end_write(f->in);
	}
	return 0;
}

static int poll_all(struct pollfd *p, nfds_t count)
{
	int ready = 0;
	for (nfds_t i = 0; i < count; i++) {
		p[i].revents = poll_file(sim.running, p[i].fd, p[i].events);
		ready += p[i].revents != 0;
	}
	return ready;
}

static int poll_until(struct pollfd *p, nfds_t count, int64_t until)
{
	struct process *self = sim.running;
	sim_call();
	for (;;) {
		int ready = poll_all(p, count);
		if (ready > 0 || until <= sim.now)
			return ready;
		if (has_signal(self)) {
			deliver(self);
			errno = EINTR;
			return -1;
		}
		self->polled = p;
		self->polls = count;
		sim_wait(WAIT_POLL, until);
	}
}

int __wrap_poll(struct pollfd *p, nfds_t count, int ms);
int __wrap_poll(struct pollfd *p, nfds_t count, int ms)
{
	return poll_until(p, count, ms < 0 ? NEVER : sim.now + ms * 1000000ll);
}

int __wrap___poll_chk(struct pollfd *p, nfds_t count, int ms, size_t room);
int __wrap___poll_chk(struct pollfd *p, nfds_t count, int ms, size_t room)
{
	(void)room;
	return __wrap_poll(p, count, ms);
}

int __wrap_ppoll(struct pollfd *p, nfds_t count, const struct timespec *t, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *p, nfds_t count, const struct timespec *t, const sigset_t *mask)
{
	(void)mask;
	return poll_until(p, count, t ? sim.now + t->tv_sec * SECOND + t->tv_nsec : NEVER);
}

/* ---- calls: time, processes, chance ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	sim.now += 50;
	int64_t at = sim.now - sim.boot_at;
	if (id == CLOCK_REALTIME)
		at = sim.now + sim.set + 1700000000ll * SECOND;
	t->tv_sec = at / SECOND;
	t->tv_nsec = at % SECOND;
	return 0;
}

/* What the real one keeps for a process, it would keep for all of them here. */
double __wrap_clock_epoch(void);
double __wrap_clock_epoch(void)
{
	sim.now += 50;
	return (double)(sim.now + sim.set) / 1e9 + 1.7e9;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	sim_wait(WAIT_TIME, sim.now + t->tv_sec * SECOND + t->tv_nsec);
	deliver(sim.running);
	return 0;
}

ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags)
{
	(void)flags;
	for (size_t i = 0; i < len; i++)
		((unsigned char *)to)[i] = (unsigned char)sim_random(256);
	return (ssize_t)len;
}

/* It would hold for all of them. */
int __wrap_setpriority(int which, id_t who, int priority);
int __wrap_setpriority(int which, id_t who, int priority)
{
	(void)which;
	(void)who;
	(void)priority;
	return 0;
}

pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
	return sim.running->leader ? sim.running->leader->pid : sim.running->pid;
}

int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags)
{
	struct file *f = file_make(FILE_COUNTER);
	f->counter = count;
	f->flags = flags & EFD_NONBLOCK ? O_NONBLOCK : 0;
	return file_put(f, 3);
}

int __wrap_eventfd_write(int fd, eventfd_t add);
int __wrap_eventfd_write(int fd, eventfd_t add)
{
	struct file *f = file_of(fd);
	if (!f)
		return -1;
	f->counter += add;
	return 0;
}

/* It gives another one the processor. */
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	sim_wait(WAIT_TIME, sim.now + 20000);
	return 0;
}

/* What the real machine does must not be seen. */
int __wrap_getrusage(int who, struct rusage *use);
int __wrap_getrusage(int who, struct rusage *use)
{
	(void)who;
	memset(use, 0, sizeof *use);
	return 0;
}

int __wrap_sysinfo(struct sysinfo *info);
int __wrap_sysinfo(struct sysinfo *info)
{
	*info = (struct sysinfo){.totalram = 1u << 30, .freeram = 1u << 29, .mem_unit = 1};
	return 0;
}

/* One deed after the other, as a process of the run. */
static void fork_main(void *arg)
{
	size_t theirs = 0;
	struct inode *made = NULL; /* instead of theirs */
	for (char *at = arg;;) {
		struct deed d;
		memcpy(&d, at, sizeof d);
		at += sizeof d;
		sim_call();
		struct stream *s = d.what;
		struct inode *n = made && (size_t)d.what == theirs ? made : d.what;
		if (d.kind == DEED_CREATE && (made || dir_find(n, at)))
			sim_leave(1);
		if (d.kind == DEED_CREATE) {
			theirs = d.at;
			made = inode_make(S_IFREG | 0600);
			change_add(change_new(), n, at, made);
		}
		for (size_t done = 0; (d.kind == DEED_WRITE || d.kind == DEED_SEND) && done < d.len;) {
			struct iovec piece = {at + done, d.len - done};
			ssize_t m = d.kind == DEED_SEND ? stream_write(s, &piece, 1, NULL)
							: inode_pwrite(n, at + done, d.len - done, d.at + done);
			if (m < 0 && errno != EAGAIN)
				sim_leave(1);
			if (m < 0)
				sim_wait(WAIT_TIME, sim.now + 1000000);
			else
				done += (size_t)m;
		}
		if (d.kind == DEED_SYNC)
			inode_sync(n);
		if (d.kind == DEED_UNLINK || d.kind == DEED_RMDIR)
			remove_name(n, at, d.kind == DEED_RMDIR);
		if (d.kind == DEED_DIES_TOO)
			sim_dies_with(sim.running->pid, sim.running->forker);
		if (d.kind == DEED_END)
			sim_leave((int)d.at);
		at += d.len;
	}
}

/* The child runs at once, to its end, as a real child of this process: so it has all memory as it was. What it does to
 * the machine is then done by a process of the run, which takes its time, finds the disk full, can be killed. It has
 * none of its parent's files but what it writes to. */
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
	struct process *parent = sim.running, *p = sim_make(parent->name, NULL);
	fflush(sim.trace ? sim.trace : stdout);
	sim.told->len = 0;
	pid_t child = __real_fork();
	if (child < 0)
		sim_fail("no process for a forked child");
	for (int i = 0; i < FILES_MAX; i++) {
		struct file *f = parent->file[i];
		if (f && (child == 0 || f->out)) {
			p->file[i] = f;
			f->uses++;
		}
	}
	if (child == 0) {
		sim.tells = 1;
		sim.running = p;
		sim.calm = 1;
		sim.trace = NULL;
		return 0;
	}
	struct deed last = {.kind = DEED_SYNC};
	while (__real_waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (sim.told->len >= sizeof last)
		memcpy(&last, sim.told->deeds + sim.told->len - sizeof last, sizeof last);
	if (last.kind != DEED_END)
		sim_fail("a forked child crashes");
	char *deeds = need(malloc(sim.told->len));
	memcpy(deeds, sim.told->deeds, sim.told->len);
	p->forker = parent->pid;
	p->thread = fork_main;
	p->arg = deeds;
	sim_trace("forks %d", p->pid);
	return p->pid;
}

int __wrap_prctl(int option, unsigned long value);
int __wrap_prctl(int option, unsigned long value)
{
	if (option == PR_SET_PDEATHSIG && value == SIGKILL)
		fork_tells(DEED_DIES_TOO, NULL, NULL, 0, 0);
	return 0;
}

pid_t sim_forked(pid_t parent)
{
	for (size_t i = sim.lives; i-- > 0;)
		if (sim.living[i]->forker == parent)
			return sim.living[i]->pid;
	return 0;
}

_Noreturn void __wrap_exit(int status);
_Noreturn void __wrap_exit(int status)
{
	sim_leave(status);
}

_Noreturn void __wrap__exit(int status);
_Noreturn void __wrap__exit(int status)
{
	sim_leave(status);
}

/* A process is alone in its group. */
int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
	pid = pid < 0 ? -pid : pid;
	if (!sim_is_alive(pid)) {
		errno = ESRCH;
		return -1;
	}
	if (number != 0)
		sim_signal(pid, number);
	return 0;
}

/* Any process may be asked about, again and again. */
pid_t __wrap_waitpid(pid_t pid, int *status, int flags);
pid_t __wrap_waitpid(pid_t pid, int *status, int flags)
{
	(void)flags;
	const struct process *p = sim_find(pid);
	if (!p || p->alive)
		return p ? 0 : -1;
	if (status)
		*status = p->status < 128 ? p->status << 8 : p->status - 128;
	return pid;
}

struct thread {
	void *(*run)(void *arg);
	void *arg;
};

static void thread_main(void *arg)
{
	const struct thread t = *(struct thread *)arg;
	free(arg);
	t.run(t.arg);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	(void)attr;
	struct process *leader = sim.running->leader ? sim.running->leader : sim.running;
	struct thread *t = need(malloc(sizeof *t));
	*t = (struct thread){run, arg};
	struct process *p = sim_make(leader->name, leader);
	p->parent = leader->pid;
	p->thread = thread_main;
	p->arg = t;
	*thread = (pthread_t)p->pid;
	return 0;
}

int __wrap_pthread_detach(pthread_t thread);
int __wrap_pthread_detach(pthread_t thread)
{
	(void)thread;
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
	(void)result;
	while (sim_is_alive((pid_t)thread))
		sim_wait(WAIT_TIME, sim.now + 1000000);
	return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
	while (pthread_mutex_trylock(lock) != 0)
		sim_wait(WAIT_TIME, sim.now + 1000);
	return 0;
}

static int cond_wait(pthread_cond_t *news, pthread_mutex_t *lock, int64_t until)
{
	struct process *self = sim.running;
	self->news = news;
	pthread_mutex_unlock(lock);
	sim_wait(WAIT_TIME, until);
	self->news = NULL;
	deliver(self);
	__wrap_pthread_mutex_lock(lock);
	return until <= sim.now ? ETIMEDOUT : 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *news, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *news, pthread_mutex_t *lock)
{
	cond_wait(news, lock, NEVER);
	return 0;
}

/* By the clock since boot: so the kit asks for it. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *news, pthread_mutex_t *lock, const struct timespec *t);
int __wrap_pthread_cond_timedwait(pthread_cond_t *news, pthread_mutex_t *lock, const struct timespec *t)
{
	return cond_wait(news, lock, sim.boot_at + t->tv_sec * SECOND + t->tv_nsec);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *news);
int __wrap_pthread_cond_broadcast(pthread_cond_t *news)
{
	for (size_t i = 0; i < sim.lives; i++)
		if (sim.living[i]->news == news)
			sim.living[i]->until = sim.now;
	return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *news);
int __wrap_pthread_cond_signal(pthread_cond_t *news)
{
	return __wrap_pthread_cond_broadcast(news);
}

/* One core. */
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	(void)pid;
	memset(set, 0, bytes);
	CPU_SET(0, set);
	return 0;
}

static void event_signals(int number)
{
	(void)number;
}

void (*__wrap_signal(int number, void (*handler)(int)))(int);
void (*__wrap_signal(int number, void (*handler)(int)))(int)
{
	struct process *p = sim.running;
	uint64_t bit = 1ull << (number - 1);
	p->ignored = handler == SIG_IGN ? p->ignored | bit : p->ignored & ~bit;
	p->handler[number] = handler == SIG_IGN || handler == SIG_DFL ? NULL : handler;
	return SIG_DFL;
}

int __wrap_sigaction(int number, const struct sigaction *now, struct sigaction *before);
int __wrap_sigaction(int number, const struct sigaction *now, struct sigaction *before)
{
	if (before)
		*before = (struct sigaction){.sa_handler = SIG_DFL};
	if (now)
		__wrap_signal(number, now->sa_handler);
	return 0;
}

int __wrap_getrlimit(int what, struct rlimit *limit);
int __wrap_getrlimit(int what, struct rlimit *limit)
{
	(void)what;
	*limit = (struct rlimit){FILES_MAX, FILES_MAX};
	return 0;
}

int __wrap_setrlimit(int what, const struct rlimit *limit);
int __wrap_setrlimit(int what, const struct rlimit *limit)
{
	(void)what;
	(void)limit;
	return 0;
}

static void sim_sink(enum log_level level, const char *text, void *arg)
{
	(void)level;
	(void)arg;
	sim_trace("says: %s", text);
}

void __real_log_set_sink(log_sink_fn *sink, void *arg, enum log_level highest);
void __wrap_log_set_sink(log_sink_fn *sink, void *arg, enum log_level highest);
void __wrap_log_set_sink(log_sink_fn *sink, void *arg, enum log_level highest)
{
	(void)sink;
	(void)arg;
	(void)highest;
	__real_log_set_sink(sim_sink, NULL, LOG_LEVEL_INFO);
}

/* ---- the loop that libevent would be ---- */

enum { IS_ADDED = 1, IS_TIMED = 2, IS_ACTIVE = 4, IS_LISTED = 8 };

#define FLAGS(ev) ((ev)->ev_evcallback.evcb_flags)
#define AT(ev) ((ev)->ev_timeout_pos.min_heap_idx)

/* Where an edge-triggered one keeps what it saw last. */
static uint64_t *seen_of(struct event *ev)
{
	return (uint64_t *)(void *)&ev->ev_.ev_io.ev_io_next;
}

static int64_t due_of(const struct event *ev)
{
	return ev->ev_timeout.tv_sec * SECOND + ev->ev_timeout.tv_usec;
}

struct event_config *event_config_new(void)
{
	return need(calloc(1, 1));
}

void event_config_free(struct event_config *config)
{
	free(config);
}

int event_config_set_flag(struct event_config *config, int flag)
{
	(void)config;
	(void)flag;
	return 0;
}

int event_config_require_features(struct event_config *config, int feature)
{
	(void)config;
	(void)feature;
	return 0;
}

void event_set_log_callback(event_log_cb call)
{
	(void)call;
}

void event_set_fatal_callback(event_fatal_cb call)
{
	(void)call;
}

struct event_base *event_base_new(void)
{
	struct event_base *b = need(calloc(1, sizeof *b));
	b->owner = sim.running;
	return b;
}

struct event_base *event_base_new_with_config(const struct event_config *config)
{
	(void)config;
	return event_base_new();
}

void event_base_free(struct event_base *b)
{
	free(b->added);
	free(b->active);
	free(b);
}

int event_assign(struct event *ev, struct event_base *b, evutil_socket_t fd, short events, event_callback_fn call,
		 void *arg)
{
	memset(ev, 0, sizeof *ev);
	ev->ev_base = b;
	ev->ev_fd = fd;
	ev->ev_events = events;
	ev->ev_evcallback.evcb_cb_union.evcb_callback = call;
	ev->ev_evcallback.evcb_arg = arg;
	return 0;
}

struct event *event_new(struct event_base *b, evutil_socket_t fd, short events, event_callback_fn call, void *arg)
{
	struct event *ev = need(malloc(sizeof *ev));
	event_assign(ev, b, fd, events, call, arg);
	return ev;
}

int event_add(struct event *ev, const struct timeval *after)
{
	struct event_base *b = ev->ev_base;
	/* A timer that is not set (lib/wire/timer.c). */
	if (after && after->tv_sec >= 1000000000)
		return event_del(ev);
	if (!(FLAGS(ev) & IS_LISTED)) {
		b->added = sim_grow(b->added, &b->added_room, b->added_count + 1, sizeof *b->added);
		AT(ev) = (int)b->added_count;
		b->added[b->added_count++] = ev;
		FLAGS(ev) |= IS_LISTED;
	}
	if (ev->ev_events & (EV_READ | EV_WRITE | EV_SIGNAL)) {
		if (!(FLAGS(ev) & IS_ADDED))
			*seen_of(ev) = 0;
		FLAGS(ev) |= IS_ADDED;
	}
	if (ev->ev_events & EV_SIGNAL)
		b->owner->handler[ev->ev_fd] = event_signals;
	if (after) {
		int64_t span = after->tv_sec * SECOND + after->tv_usec * 1000;
		int64_t due = sim.now + span;
		ev->ev_timeout.tv_sec = due / SECOND;
		ev->ev_timeout.tv_usec = due % SECOND;
		if (ev->ev_events & EV_PERSIST)
			ev->ev_.ev_io.ev_timeout = *after;
		FLAGS(ev) |= IS_TIMED;
	}
	return 0;
}

static void event_unqueue(struct event *ev)
{
	struct event_base *b = ev->ev_base;
	for (size_t i = 0; (FLAGS(ev) & IS_ACTIVE) && i < b->active_count; i++)
		if (b->active[i] == ev) {
			memmove(b->active + i, b->active + i + 1, (--b->active_count - i) * sizeof *b->active);
			break;
		}
	FLAGS(ev) &= (short)~IS_ACTIVE;
}

int event_del(struct event *ev)
{
	struct event_base *b = ev->ev_base;
	if (!b)
		return -1;
	event_unqueue(ev);
	if (FLAGS(ev) & IS_LISTED) {
		struct event *last = b->added[--b->added_count];
		b->added[AT(ev)] = last;
		AT(last) = AT(ev);
	}
	if (ev->ev_events & EV_SIGNAL)
		b->owner->handler[ev->ev_fd] = NULL;
	FLAGS(ev) = 0;
	return 0;
}

void event_free(struct event *ev)
{
	event_del(ev);
	free(ev);
}

int event_pending(const struct event *ev, short what, struct timeval *left)
{
	short is = 0;
	(void)left;
	if (FLAGS(ev) & IS_ADDED)
		is |= ev->ev_events & (EV_READ | EV_WRITE | EV_SIGNAL);
	if (FLAGS(ev) & IS_TIMED)
		is |= EV_TIMEOUT;
	if (FLAGS(ev) & IS_ACTIVE)
		is |= ev->ev_res;
	return is & what;
}

void event_active(struct event *ev, int result, short calls)
{
	struct event_base *b = ev->ev_base;
	(void)calls;
	if (FLAGS(ev) & IS_ACTIVE) {
		ev->ev_res |= (short)result;
		return;
	}
	ev->ev_res = (short)result;
	FLAGS(ev) |= IS_ACTIVE;
	b->active = sim_grow(b->active, &b->active_room, b->active_count + 1, sizeof *b->active);
	b->active[b->active_count++] = ev;
}

static short event_is_due(const struct event_base *b, struct event *ev)
{
	short what = 0;
	if ((FLAGS(ev) & IS_TIMED) && due_of(ev) <= sim.now)
		what |= EV_TIMEOUT;
	if (!(FLAGS(ev) & IS_ADDED))
		return what;
	if (ev->ev_events & EV_SIGNAL)
		return b->owner->pending >> (ev->ev_fd - 1) & 1 ? what | EV_SIGNAL : what;
	const struct file *f = ev->ev_fd >= 0 && ev->ev_fd < FILES_MAX ? b->owner->file[ev->ev_fd] : NULL;
	if (!f)
		return what;
	if ((ev->ev_events & EV_ET) && *seen_of(ev) == file_edge(f) + 1)
		return what;
	short state = file_state(f);
	if ((ev->ev_events & EV_READ) && (state & (POLLIN | POLLHUP | POLLERR)))
		what |= EV_READ;
	if ((ev->ev_events & EV_WRITE) && (state & (POLLOUT | POLLHUP | POLLERR)))
		what |= EV_WRITE;
	return what;
}

static int loop_is_ready(struct event_base *b)
{
	if (b->active_count > 0)
		return 1;
	for (size_t i = 0; i < b->added_count; i++)
		if (event_is_due(b, b->added[i]))
			return 1;
	return 0;
}

static int64_t loop_next(const struct event_base *b)
{
	int64_t at = NEVER;
	for (size_t i = 0; i < b->added_count; i++) {
		const struct event *ev = b->added[i];
		if ((FLAGS(ev) & IS_TIMED) && due_of(ev) < at)
			at = due_of(ev);
		if (!(FLAGS(ev) & IS_ADDED) || (ev->ev_events & EV_SIGNAL) || ev->ev_fd < 0)
			continue;
		const struct file *f = b->owner->file[ev->ev_fd];
		int64_t then = f ? file_next(f) : NEVER;
		at = then < at ? then : at;
	}
	return at;
}

static void loop_collect(struct event_base *b)
{
	size_t from = b->active_count;
	for (size_t i = 0; i < b->added_count; i++) {
		struct event *ev = b->added[i];
		short what = event_is_due(b, ev);
		if (!what)
			continue;
		if ((ev->ev_events & EV_ET) && (what & (EV_READ | EV_WRITE)))
			*seen_of(ev) = file_edge(b->owner->file[ev->ev_fd]) + 1;
		if (what & EV_SIGNAL)
			b->owner->pending &= ~(1ull << (ev->ev_fd - 1));
		event_active(ev, what, 1);
	}
	for (size_t i = b->active_count; i-- > from + 1;) {
		size_t k = from + sim_random(i - from + 1);
		struct event *other = b->active[k];
		b->active[k] = b->active[i];
		b->active[i] = other;
	}
}

static void loop_call_one(struct event_base *b)
{
	struct event *ev = b->active[0];
	short what = ev->ev_res;
	event_unqueue(ev);
	if (!(ev->ev_events & EV_PERSIST)) {
		event_del(ev);
	} else if (FLAGS(ev) & IS_TIMED) {
		struct timeval again = ev->ev_.ev_io.ev_timeout;
		event_add(ev, &again);
	}
	ev->ev_evcallback.evcb_cb_union.evcb_callback(ev->ev_fd, what, ev->ev_evcallback.evcb_arg);
}

int event_base_loop(struct event_base *b, int flags)
{
	sim_call();
	b->broken = 0;
	for (;;) {
		if (b->added_count == 0 && b->active_count == 0)
			return 1;
		loop_collect(b);
		if (b->active_count == 0 && (flags & EVLOOP_NONBLOCK))
			return 0;
		if (b->active_count == 0) {
			b->owner->loop = b;
			sim_wait(WAIT_LOOP, NEVER);
			continue;
		}
		while (b->active_count > 0 && !b->broken)
			loop_call_one(b);
		if (b->broken || (flags & (EVLOOP_ONCE | EVLOOP_NONBLOCK)))
			return 0;
	}
}

int event_base_dispatch(struct event_base *b)
{
	return event_base_loop(b, 0);
}

int event_base_loopbreak(struct event_base *b)
{
	b->broken = 1;
	return 0;
}

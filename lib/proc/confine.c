/* confine: see confine.h. The C library has no functions for Landlock, and headers of the kernel that are
 * older than it lack its names: they stand here. */
#include "proc/confine.h"

#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- files ---- */

/* From linux/landlock.h; the same numbers on every machine. */
#define LANDLOCK_CREATE 444
#define LANDLOCK_ADD 445
#define LANDLOCK_RESTRICT 446
#define ASK_VERSION 1
#define RULE_PATH 1

enum {
	WRITE_FILE = 1 << 1,
	READ_FILE = 1 << 2,
	READ_DIR = 1 << 3,
	REMOVE_DIR = 1 << 4,
	REMOVE_FILE = 1 << 5,
	MAKE_DIR = 1 << 7,
	MAKE_REGULAR = 1 << 8,
	MAKE_SOCKET = 1 << 9,
	MOVE = 1 << 13, /* from one directory to another; the kernel's word is REFER */
	TRUNCATE = 1 << 14,
};
#define OF_FIRST_VERSION ((1 << 13) - 1) /* with those that nobody is given: execute, make devices, links */
#define DEVICE_CONTROL (1 << 15)
#define READING (READ_FILE | READ_DIR)
#define OF_FILES (WRITE_FILE | READ_FILE | TRUNCATE)
#define WRITING                                                                                    \
	(READING | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REGULAR | MAKE_SOCKET | \
	 MOVE | TRUNCATE)

struct ruleset {
	uint64_t files, net, scoped;
};

struct path_rule {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

/* What a kernel knows: a later one knows more. */
static void confine_known(long version, const struct confine_ask *ask, struct ruleset *r)
{
	*r = (struct ruleset){.files = OF_FIRST_VERSION};
	if (version >= 2)
		r->files |= MOVE;
	if (version >= 3)
		r->files |= TRUNCATE;
	if (version >= 4 && ask->sockets != CONFINE_ANY_SOCKETS)
		r->net = 1 << 0 | 1 << 1; /* TCP: bind, connect */
	if (version >= 5)
		r->files |= DEVICE_CONTROL;
	if (version >= 6) /* abstract sockets, but systemd's may be one; signals to others */
		r->scoped = (ask->sockets == CONFINE_NO_SOCKETS ? 1u << 0 : 0) |
			    (ask->signals ? 0 : 1u << 1);
}

/* -1: there is such a file, but no rule for it. */
static int confine_allow(int ruleset, const char *path, uint64_t allowed)
{
	struct stat st;
	int fd = open(path, O_PATH | O_CLOEXEC), result = -1;
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP || errno == ENAMETOOLONG
			       ? 0 : -1;
	if (fstat(fd, &st) == 0) {
		struct path_rule rule = {
			.allowed = S_ISDIR(st.st_mode) ? allowed : allowed & OF_FILES, .parent = fd};
		result = syscall(LANDLOCK_ADD, ruleset, RULE_PATH, &rule, 0) == 0 ? 0 : -1;
	}
	close(fd);
	return result;
}

static int confine_allow_all(int ruleset, const struct confine_ask *ask, uint64_t known)
{
	char dir[PATH_MAX];
	int result = 0;
	for (size_t i = 0; i < CONFINE_PATHS; i++) {
		if (ask->read[i])
			result |= confine_allow(ruleset, ask->read[i], known & READING);
		if (ask->write[i])
			result |= confine_allow(ruleset, ask->write[i], known & WRITING);
		if (!ask->replace[i])
			continue;
		fs_dirname(ask->replace[i], dir, sizeof dir);
		result |= confine_allow(ruleset, dir, known & WRITING);
	}
	for (size_t i = 0; i < ask->more_count; i++)
		result |= confine_allow(ruleset, ask->more[i], known & READING);
	return result;
}

static void confine_files(const struct confine_ask *ask)
{
	struct ruleset r;
	long version = syscall(LANDLOCK_CREATE, NULL, 0, ASK_VERSION);
	if (version < 1)
		return;
	confine_known(version, ask, &r);
	size_t bytes = version >= 6 ? sizeof r : version >= 4 ? offsetof(struct ruleset, scoped)
							      : offsetof(struct ruleset, net);
	int fd = (int)syscall(LANDLOCK_CREATE, &r, bytes, 0);
	if (fd < 0)
		return;
	/* A program that may not use its own files would fail later, and could not say why. */
	if (confine_allow_all(fd, ask, r.files) == 0)
		syscall(LANDLOCK_RESTRICT, fd, 0);
	close(fd);
}

/* ---- calls ---- */

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#define FOREIGN_CALLS 0x40000000u /* calls of x32 have these numbers */
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#define FOREIGN_CALLS UINT32_MAX
#endif

#ifdef MACHINE

static const uint32_t refused[] = {
	/* another program; rights over other processes */
	SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
	/* another view of the machine */
	SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot,
	/* would make sockets behind this filter's back; and parts of the kernel in which holes are found */
	425 /* io_uring_setup */, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl,
	SYS_add_key, SYS_request_key, SYS_init_module, SYS_finit_module, SYS_delete_module,
	SYS_kexec_load,
};
#define REFUSED (sizeof refused / sizeof *refused)

#define LOAD(what) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (what)))
#define IF(test, k, yes, no) ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_K | (test), (k), (yes), (no)))
#define ANSWER(what) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (what)))

/* A jump skips so many of the next statements: each test answers at once, where it can. */
static void confine_calls(enum confine_sockets sockets)
{
	const uint32_t no = SECCOMP_RET_ERRNO | EPERM;
	struct sock_filter f[2 * REFUSED + 16];
	unsigned short n = 0;
	f[n++] = LOAD(offsetof(struct seccomp_data, arch));
	f[n++] = IF(BPF_JEQ, MACHINE, 1, 0);
	f[n++] = ANSWER(no);
	f[n++] = LOAD(offsetof(struct seccomp_data, nr));
	f[n++] = IF(BPF_JGE, FOREIGN_CALLS, 0, 1);
	f[n++] = ANSWER(no);
	for (size_t i = 0; i < REFUSED; i++) {
		f[n++] = IF(BPF_JEQ, refused[i], 0, 1);
		f[n++] = ANSWER(no);
	}
	if (sockets != CONFINE_ANY_SOCKETS) {
		f[n++] = IF(BPF_JEQ, SYS_socket, 0, 3);
		f[n++] = LOAD(offsetof(struct seccomp_data, args)); /* the family; both are little-endian */
		f[n++] = IF(BPF_JEQ, sockets == CONFINE_UNIX_SOCKETS ? AF_UNIX : UINT32_MAX, 1, 0);
		f[n++] = ANSWER(no);
	}
	f[n++] = ANSWER(SECCOMP_RET_ALLOW);
	const struct sock_fprog program = {.len = n, .filter = f};
	/* For all threads; and kernels before 5.16 would else make our loads and stores slower. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		    SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) != 0)
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

#else

static void confine_calls(enum confine_sockets sockets)
{
	(void)sockets;
}

#endif

void confine(const struct confine_ask *ask)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return; /* both need it */
	confine_files(ask);
	confine_calls(ask->sockets);
}

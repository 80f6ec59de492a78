/* alone: see alone.h. */
#include "proc/alone.h"

#include "base/fs.h"
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define TRIES 5 /* each waits up to a second for the end of who was killed */

/* Somebody may have locked the file by hand. A holder of another PID namespace has no pid here. */
static int alone_is_of_us(pid_t pid)
{
	char theirs[FS_PROC_MAX], ours[FS_PROC_MAX];
	return pid > 0 && getsid(pid) == pid &&
	       strcmp(fs_read_proc(theirs, "/proc/%ld/comm", (long)pid),
		      fs_read_proc(ours, "/proc/%ld/comm", (long)getpid())) == 0;
}

int alone_take(const char *path, int *lock, pid_t *killed, struct error *err)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
	pid_t holder = 0;
	if (fd < 0)
		return error_errno(err, ERROR_CANTCREAT, path, "lock can't be made");
	for (int i = 0; i < TRIES; i++) {
		struct flock of = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		if (fcntl(fd, F_SETLK, &of) == 0) {
			*lock = fd;
			*killed = holder;
			return 0;
		}
		if (fcntl(fd, F_GETLK, &of) != 0) {
			error_errno(err, ERROR_OS, path, "can't be locked");
			close(fd);
			return -1;
		}
		if (of.l_type == F_UNLCK)
			continue;
		holder = of.l_pid;
		if (!alone_is_of_us(holder))
			break;
		process_kill_session(holder);
	}
	close(fd);
	return error_set(err, ERROR_TEMPFAIL, path,
			 "process %ld has this lock and does not end: end it by hand", (long)holder);
}

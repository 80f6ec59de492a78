/* Preloaded by tests: the machine's boot id is what the file $BOOT_ID says, where that is set; each
 * fdatasync adds a byte to the file $SYNCS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *instead(const char *path)
{
	const char *boot = getenv("BOOT_ID");
	return boot && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? boot : path;
}

#define OPEN(name)                                                                                 \
	int name(const char *path, int flags, ...)                                                 \
	{                                                                                          \
		va_list ap;                                                                        \
		va_start(ap, flags);                                                               \
		mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;            \
		va_end(ap);                                                                        \
		return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name))(instead(path),   \
										  flags, mode);    \
	}
OPEN(open)
OPEN(open64)

int fdatasync(int fd)
{
	const char *syncs = getenv("SYNCS");
	int log = syncs ? open(syncs, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	if (log >= 0) {
		if (write(log, ".", 1) != 1)
			abort();
		close(log);
	}
	return fsync(fd);
}

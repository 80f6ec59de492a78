/*
 * daemon: what the service manager's environment tells a daemon, read here once: lib/ reads none.
 */
#ifndef PACELINE_CMD_DAEMON_H
#define PACELINE_CMD_DAEMON_H

#include "base/fs.h"
#include "cmd/loop.h"
#include "wire/notify.h"
#include "wire/server.h"

#include <limits.h>

/* What --help says of clients (wire/server.h). */
#define DAEMON_CLIENTS                                                                             \
	"A request that a client has begun must be complete in 60 s, and 1 s for each MiB of its\n" \
	"payload. While others wait for room, a payload that stops coming has 5 to 10 s. Clients may\n" \
	"be idle; one that leaves 64 MiB of answers unread is closed."

/* The checkpoints of the job in whose state this file is; a link may lead to them. */
static inline const char *daemon_checkpoints(const char *file, char out[PATH_MAX])
{
	char dir[PATH_MAX];
	fs_dirname(file, dir, sizeof dir);
	return fs_join(out, PATH_MAX, dir, "checkpoints", NULL) == 0 ? out : NULL;
}

/* At the manager's socket, where it listens at one for us. */
static inline int daemon_listen(struct server *server, struct error *err)
{
	int fd = notify_listen_fd(getenv("LISTEN_PID"), getenv("LISTEN_FDS"));
	return fd < 0 ? 0 : server_use_fd(server, fd, err);
}

static inline int daemon_run(struct server *server, struct error *err)
{
	return server_run(server, getenv("NOTIFY_SOCKET"),
			  notify_watchdog_seconds(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID")),
			  err);
}

#endif

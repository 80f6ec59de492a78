/*
 * notify: the two halves of the service manager's protocol, sd_notify(3) and sd_listen_fds(3),
 * without libsystemd.  The environment is read by main(), never here.
 */
#ifndef PACELINE_WIRE_NOTIFY_H
#define PACELINE_WIRE_NOTIFY_H

/* Sends "READY=1" and the like as one datagram; socket is $NOTIFY_SOCKET: a path, or @name in the
 * abstract namespace. NULL does nothing, and failures are ignored: a service manager need not
 * listen. Never blocks. */
void notify_send(const char *socket, const char *text);

/* The first inherited descriptor (3) when $LISTEN_PID and $LISTEN_FDS (both may be NULL) say that
 * it is meant for this process, with close-on-exec set; else -1. */
int notify_listen_fd(const char *listen_pid, const char *listen_fds);

/* How often the manager wants to hear WATCHDOG=1, from $WATCHDOG_USEC and $WATCHDOG_PID (both may
 * be NULL); 0: not at all. */
double notify_watchdog_seconds(const char *usec, const char *pid);

#endif

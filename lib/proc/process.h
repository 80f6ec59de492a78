/*
 * process: processes that may not be our children, told apart for certain.
 *
 * A pid alone names whoever has it now.  Pid, start time (clock ticks since boot, /proc/PID/stat)
 * and boot id together name one process for ever; that is what node records keep.
 */
#ifndef PACELINE_PROC_PROCESS_H
#define PACELINE_PROC_PROCESS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Start time of a process that runs (a zombie does not); -1 when there is none. */
int process_start(pid_t pid, uint64_t *start);
/* Whether exactly that process still runs. */
int process_alive(pid_t pid, uint64_t start);
/* A descriptor that becomes readable when exactly that process ends; -1 when it is gone. */
int process_watch(pid_t pid, uint64_t start);

/* fork(), with all signals blocked in the child, which must not run our handlers: they would tell us
 * of a Ctrl-C a second time, through descriptors that both have. Before it does anything else it calls
 * process_signals_reset(), executes a program of ours that does, or takes them up as its own. */
pid_t process_fork(void);
/* Waits until a child of ours has ended; its status, as of waitpid(). */
int process_wait(pid_t pid);
/* Forgets what came meanwhile (it was for the group that it was in), then all as after a login. */
void process_signals_reset(void);

/* For the leader of a session: SIGKILL to all others of it, until none is left but ended ones; one
 * that the kernel holds is left after a second. Who has made a session of his own is not found. */
void process_kill_session(void);

/* In a child: executes a program, whose words end with NULL. Where that fails the child ends with 78,
 * or 71 when there is no memory, and says so on standard error, as `who`. */
_Noreturn void process_become(const char *who, char *const *argv);
/* That end, for one that was executed in another way: errno says why. */
_Noreturn void process_not_run(const char *who, const char *program);

/* Where a program of the kit lies: beside our own executable, else on `search` (a PATH). An
 * installed kit and a build directory both work, whatever PATH says. ERROR_CONFIG when nowhere. */
int process_find(const char *program, const char *search, char *out, size_t out_max,
		 struct error *err);

#endif

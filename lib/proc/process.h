/*
 * process: processes that may not be our children, told apart for certain.
 *
 * A pid alone names the process that has it now.  Pid, start time (clock ticks since boot,
 * /proc/PID/stat) and boot id together name one process for ever; node records keep all three.
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
 * of a Ctrl-C a second time, through shared descriptors. Before anything else the child must call
 * process_signals_reset(), execute a program of ours that does, or handle the signals itself. */
pid_t process_fork(void);
/* Waits until a child of ours has ended; its status, as of waitpid(). */
int process_wait(pid_t pid);
/* Forgets signals that came meanwhile (they were for its old group); then all is as at a login. */
void process_signals_reset(void);
/* The same, and this one is ignored. */
void process_signals_reset_but(int ignored);

/* SIGKILL to all in the session but us, until only ended ones are left; gives up after a second on
 * one that the kernel holds. A session has the pid of its leader, which must be us or must not have
 * been waited for: else the pid may be another one's by now. Does not find a process with its own
 * session. */
void process_kill_session(pid_t session);

/* In a child: waits until a byte comes through the pipe; ends with ERROR_TEMPFAIL if none will. */
void process_await(int pipe);
/* In a child: executes a program, whose words end with NULL. If that fails, the child ends with 78,
 * or 71 when there is no memory, and says so on standard error, as `who`. */
_Noreturn void process_become(const char *who, char *const *argv);
/* The same end, for a program executed in another way: errno says why. */
_Noreturn void process_not_run(const char *who, const char *program);

/* The directory of the programs that only others start: PREFIX/libexec/paceline when we are installed,
 * else (a build directory) our own. */
int process_exec_dir(char *out, size_t out_max, struct error *err);
/* Where a program of the kit is: there, among those that people start, or on `search` (a PATH). An
 * installed kit and a build directory both work, with any PATH. ERROR_CONFIG: nowhere. */
int process_find(const char *program, const char *search, char *out, size_t out_max,
		 struct error *err);

#endif

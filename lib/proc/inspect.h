/*
 * inspect: what the kernel knows of processes that nobody can ask any more, because they do not
 * move: of each of their threads the state, the kernel function that it waits in, its system call,
 * and the kernel's stack where that may be read.
 *
 * Nothing is read that could wait for the process itself (cmdline, maps).
 */
#ifndef PACELINE_PROC_INSPECT_H
#define PACELINE_PROC_INSPECT_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* State ("T (stopped)") and wait channel of a process's first thread; "" where they can't be read.
 */
void inspect_process(pid_t pid, char *state, size_t state_max, char *wchan, size_t wchan_max);
/* All threads of the leader of a process group and of the others in it, as lines for people, each
 * behind `prefix`. */
void inspect_group(FILE *out, const char *prefix, pid_t leader);

#endif

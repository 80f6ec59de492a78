/*
 * inspect: what the kernel knows of processes that do not move and so can't be asked: of each
 * thread the state, the kernel function in which it waits, its system call, and the kernel's stack
 * if that may be read.
 *
 * Nothing is read that could wait for the process itself (cmdline, maps).
 */
#ifndef PACELINE_PROC_INSPECT_H
#define PACELINE_PROC_INSPECT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* State ("T (stopped)") and wait channel of a process's first thread; "" where they can't be read.
 */
void inspect_process(pid_t pid, char *state, size_t state_max, char *wchan, size_t wchan_max);
/* The same for the process that best explains why its group does not move: one that is stopped,
 * else one that waits for a disk, else the leader. */
void inspect_worst(pid_t leader, char *state, size_t state_max, char *wchan, size_t wchan_max);
/* All threads of the leader of a process group and of the others in it, as lines for people, each
 * behind `prefix`. */
void inspect_group(FILE *out, const char *prefix, pid_t leader);

/* For how long a process group has not moved: its processes used no processor time and had no page
 * faults, and none of their threads runs, wants to, or waits for a disk.  What it has started in a
 * group of its own (an agent its trainer) counts by itself: the agent may move beside it.  Zeros: nothing is
 * known yet. */
struct inspect_motion {
	double still;   /* seconds in which neither moved, as far as is known */
	double stopped; /* seconds in which one was stopped (SIGSTOP, a debugger) and none of its group moved */
	struct inspect_part {
		double still, stopped;
		uint64_t work; /* what they had used at the last look */
	} own, started;
};

/* All processes, by their group: read once for all groups that are looked at together. Zeros: not
 * read. */
struct inspect_groups {
	struct inspect_member {
		pid_t group, pid, from; /* from: the group of its parent, if it leads one; else 0 */
	} *item;
	size_t count, room;
	int is_read;
};
void inspect_groups_read(struct inspect_groups *g);
void inspect_groups_free(struct inspect_groups *g);

/* Looks again, `seconds` after the last look. groups: read just now. */
void inspect_motion(struct inspect_motion *m, const struct inspect_groups *groups, pid_t leader,
		    double seconds);
/* A process that stands for a group on another host (remote_run.h) shows in its own name how that
 * group moves. The first sets the name, the second reads it. -1: it shows nothing. */
void inspect_show(const struct inspect_motion *m);
int inspect_shown(struct inspect_motion *m, pid_t pid);

#endif

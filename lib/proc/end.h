/*
 * end: how a process ended, and whether the next one may fare better.  Pure.
 *
 * Exit statuses are those of all programs of the kit (paceline(7)).  After 69, 71, 74, 75, death by
 * KILL, TERM, HUP, PIPE, or an end that nobody saw, the next process may fare better; any other end
 * would come again.  What starts a process may know more: see launcher.h.
 */
#ifndef PACELINE_PROC_END_H
#define PACELINE_PROC_END_H

#include <stddef.h>

struct node_end {
	int seen;   /* 0: nobody recorded how it ended (its parent was killed too, or a reboot) */
	int status; /* exit status, when signal is 0 */
	int signal; /* 0: it exited */
	int oom;    /* because there was no memory for it (limits.h) */
};

/* Who started a process that was killed says so, where it knows no more than that others were. */
#define END_PERHAPS_MEMORY "perhaps killed for want of memory"

/* From a status of waitpid(2). */
struct node_end end_of(int status);

/* OOM: it may go well with more memory, or with less to do. */
enum end_class { END_CLEAN, END_RETRYABLE, END_UNRETRYABLE, END_OOM };
enum end_class end_class_of(const struct node_end *end);
const char *end_class_name(enum end_class c);
/* "exit status 65", "signal 9 (Killed)", "an end that nobody saw" into out. */
void end_text(const struct node_end *end, char *out, size_t out_max);
/* Exit status of a whole job that this end stops: the status itself, 128 + signal, or 70. */
int end_status(const struct node_end *end);

#endif

/* straggle: what its files share: the two kinds of targets, and the guardian that frees them. */
#ifndef PACELINE_CMD_STRAGGLE_H
#define PACELINE_CMD_STRAGGLE_H

#include "base/error.h"
#include "base/option.h"
#include "straggle/schedule.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROGRAM "straggle"

/* guard.c: a process of its own that undoes everything when straggle is gone, however it went.
 * What it is told of, it is told before it is done. */
#define GUARD_NAME "guardian"
struct guard {
	pid_t pid; /* 0: none */
	int fd;
};
int guard_start(struct guard *g, struct error *err);
int guard_file(struct guard *g, const char *path, struct error *err);
int guard_process(struct guard *g, pid_t pid, uint64_t start, struct error *err);
/* All is undone: it forgets and ends. */
void guard_end(struct guard *g);
/* -1 when it has ended, which nobody but a kill can make it do. */
int guard_check(struct guard *g, struct error *err);
int guard_main(void); /* under GUARD_NAME */

/* files.c: a drag file for each slot of the schedule. */
struct files;
/* force: files that are there already are taken over. */
int files_new(struct files **out, const char *dir, const struct schedule *s, int force,
	      struct guard *g, struct error *err);
int files_set(struct files *f, size_t slot, const struct schedule_state *state,
	      struct error *err);
void files_free(struct files *f); /* removes them; NULL is fine */

/* processes.c */
struct processes;
struct processes_options {
	const char *list, *file, *match; /* NULL: none */
	double period;                   /* seconds from a stop to the next */
};
int processes_new(struct processes **out, const struct processes_options *options,
		  struct error *err);
size_t processes_count(const struct processes *p);
const char *const *processes_ids(const struct processes *p);
int processes_guard(struct processes *p, struct guard *g, struct error *err);
void processes_set(struct processes *p, size_t i, double slowdown, double now);
/* Stops and continues what is due; when to come again. gone(i) is called for those that ended. */
double processes_tick(struct processes *p, double now, void (*gone)(size_t i, void *arg),
		      void *arg);
int processes_left(const struct processes *p);
void processes_continue(struct processes *p, double now);
void processes_free(struct processes *p); /* continues all; NULL is fine */

/* nodes.c: the ids that --nodes and --servers list, "w0..w5" among them. */
struct nodes {
	char (*id)[OPTION_ID_MAX];
	const char **list;
	size_t count, room, workers;
};
int nodes_add(struct nodes *n, const char *text, const char *option, struct error *err);
/* Those that patterns name, when no option names any. */
int nodes_of_patterns(struct nodes *n, char *const *words, size_t count, struct error *err);
const char *const *nodes_list(struct nodes *n, struct error *err);
void nodes_free(struct nodes *n);

#endif

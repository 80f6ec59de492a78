/*
 * launcher: the ways in which a node's process is brought to its place, a row of a table each: how
 * it is started, how it is told to end, and what its end means there.
 *
 * A node on another host will be a process of this one (ssh, srun) that stands for it, so that
 * parents, records and adoption stay as they are.  A new launcher is a row, and a function where
 * the way differs.
 */
#ifndef PACELINE_PROC_LAUNCHER_H
#define PACELINE_PROC_LAUNCHER_H

#include "base/error.h"
#include "base/option.h"
#include "proc/end.h"

#include <stdint.h>
#include <sys/types.h>

struct launcher;

/* Where a node runs. What is there is shared by all nodes of the place. */
struct node_place {
	const struct launcher *launcher;
	char host[256]; /* as it calls itself */
	uint64_t cores;
	uint64_t memory_mib;
};

/* Who is started. */
struct node_name {
	const char *id;
	uint64_t number; /* within its role, from 0 */
	const struct node_place *place;
};

struct launcher {
	const char *name;
	/* A line for sh(1), to be freed, in which "$@" is the program with its arguments; NULL in
	 * *line: the program itself. The template is what the job's owner wants in front ("":
	 * nothing). */
	int (*start)(const char *template, const struct node_name *name, char **line,
		     struct error *err);
	/* Sends a signal to the node and what it started. -1: there is nobody. */
	int (*stop)(pid_t pid, int signal);
	enum end_class (*class_of)(const struct node_end *end);
};

/* NULL: there is none. */
const struct launcher *launcher_find(const char *name);

/* This host, with the launcher "local". */
void launcher_here(struct node_place *place);

/* A template's words, as they stand for this node, to be freed: %i its id, %n its number, %h the
 * host, %cores and %mem (MiB) what the host has, %% a percent sign. Others are ERROR_CONFIG, named
 * with the column. */
int launcher_words(const char *template, const struct node_name *name, char **out,
		   struct error *err);
/* Whether it would do for any node. */
int launcher_check(const char *template, struct error *err);

#endif

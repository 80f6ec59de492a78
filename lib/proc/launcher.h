/*
 * launcher: the ways to bring a node's process to its place, each a row of a table: how it is
 * started, how it is told to end, and what its end means there.
 *
 * A node on another host is a process of this one, node-host(8), which stands for it: it takes the
 * node's signals and ends as the node ends, so that parents, records and adoption are the same
 * everywhere.  A new launcher is a row, and a function where the way differs.
 */
#ifndef PACELINE_PROC_LAUNCHER_H
#define PACELINE_PROC_LAUNCHER_H

#include "base/argv.h"
#include "base/error.h"
#include "base/option.h"
#include "proc/end.h"
#include "proc/limits.h"

#include <stdint.h>
#include <sys/types.h>

struct launcher;

#define LAUNCHER_CHOICES "slurm|ssh" /* those that reach other hosts, for options and keys */

#define HOST_NAME_MAX_BYTES 256 /* of a host's name, NUL included */

/* Where a node runs. All nodes of the place share it. */
struct node_place {
	const struct launcher *launcher;
	char host[HOST_NAME_MAX_BYTES]; /* as HOSTS names it; without HOSTS, its own name */
	uint64_t cores;
	uint64_t memory_mib; /* of the host, or what a control group leaves of it */
	int apart;             /* it does not see the state directory of this machine */
	char bad[160]; /* why a test found it bad (host_test.h); "": none did */
	const char *node_host; /* path of that program, the same here and there; NULL: it is here */
	uint64_t slurm_job; /* the allocation that it belongs to; 0: the one that we are in */
	struct limits_ways by; /* how nodes are limited there, where they are */
};

/* Who is started. */
struct node_name {
	const char *id;
	uint64_t number; /* within its role, from 0 */
	const struct node_place *place;
};

/* What is started. */
struct node_start {
	const struct node_name *name;
	const char *template; /* what the job's owner wants in front; NULL or "": nothing */
	/* What the node needs on another host, NULL-terminated; NULL: nothing. Before it starts,
	 * the directories of `make` are made there with mode 0700; if the place is apart, files and
	 * directories of `bring` are brought there, with their content, under the same names. */
	const char *const *make, *const *bring;
	/* On another host: files that are locked there, after those directories are made. Who has one of
	 * them, because he was given up and lives on, is killed first; the last one is held. */
	const char *const *lock;
	int keeps;            /* on another host: as in struct launch */
	struct limits limits; /* on another host: what it may use */
};

/* Who is reached. */
struct node_reach {
	const char *host;
	const char *line; /* for sh(1) there; NULL: the words end in front of it */
	/* By Slurm: the memory to ask for, 0: none; the allocation, 0: the one that we are in. */
	uint64_t memory_mib, slurm_job;
};

struct launcher {
	const char *name;
	int is_far; /* to other hosts */
	/* The words in front of the program; none: the program itself is started. */
	int (*start)(const struct node_start *start, struct argv *front, struct error *err);
	/* Sends a signal to the node and what it started. -1: there is nobody. */
	int (*stop)(pid_t pid, int signal);
	enum end_class (*class_of)(const struct node_end *end);
	/* For a far one: the words that let sh(1) run a line on a host, with its standard input and
	 * output here. The line is the last of them. So nodes are reached, and so mpirun(1) starts
	 * its daemons. */
	int (*reach)(const struct node_reach *to, struct argv *words, struct error *err);
	int openings; /* connections to one host that may be opened at the same time; 0: any */
};

/* NULL: there is none. */
const struct launcher *launcher_find(const char *name);

/* The exit status of node-host(8) when the node itself did not end: the host was not reached, or
 * the connection was lost. No program of the kit has it. */
#define LOST_STATUS 255
/* And when the node was killed because there was no memory for it. */
#define OOM_STATUS 254
/* Whether an end says that the host was lost: another place may do better. */
int launcher_lost_host(const struct node_place *place, const struct node_end *end);

/* Whether a text can be the name of a host: letters, digits and . _ - @ : [ ], no - first. */
int launcher_host_ok(const char *text);

/* This host, with the launcher "local". */
void launcher_here(struct node_place *place);

/* A template's words for this node, to be freed: %i its id, %n its number, %h the host, %cores and
 * %mem (MiB) what the host has, %% a percent sign. ERROR_CONFIG: any other; err has its column. */
int launcher_words(const char *template, const struct node_name *name, char **out,
		   struct error *err);
/* Whether the template is good for any node. */
int launcher_check(const char *template, struct error *err);

#endif

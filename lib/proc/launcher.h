/*
 * launcher: the ways in which a node's process is brought to its place, a row of a table each: how
 * it is started, how it is told to end, and what its end means there.
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

#define HOST_NAME_MAX_BYTES 256 /* of a host's name, NUL included */

/* Where a node runs. What is there is shared by all nodes of the place. */
struct node_place {
	const struct launcher *launcher;
	char host[HOST_NAME_MAX_BYTES]; /* as HOSTS names it; without HOSTS as it calls itself */
	uint64_t cores;
	uint64_t memory_mib; /* of the host, or what a control group leaves of it */
	int apart;             /* it does not see the state directory of this machine */
	char bad[160]; /* a test has found that it is bad (host_test.h): why; "": none has */
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
	/* What the node needs on another host, NULL-terminated; NULL: nothing. Before it starts the
	 * directories of `make` are made there with mode 0700; where the place is apart, files and
	 * directories of `bring` are brought there, with all that is in them, under the same names. */
	const char *const *make, *const *bring;
	int keeps;            /* on another host: as in struct launch */
	struct limits limits; /* on another host: what it may use */
};

/* Who is reached. */
struct node_reach {
	const char *host, *program;
	/* By Slurm: memory that it is to have, 0: nobody asks; the allocation, 0: the one that we are in. */
	uint64_t memory_mib, slurm_job;
};

struct launcher {
	const char *name;
	int is_far; /* to other hosts */
	/* The words that stand in front of the program; none: the program is started itself. */
	int (*start)(const struct node_start *start, struct argv *front, struct error *err);
	/* Sends a signal to the node and what it started. -1: there is nobody. */
	int (*stop)(pid_t pid, int signal);
	enum end_class (*class_of)(const struct node_end *end);
	/* Of one that is far: the words that run `program --serve` on a host, with its standard input
	 * and output here. */
	int (*reach)(const struct node_reach *to, struct argv *words, struct error *err);
	int openings; /* so many connections to one host may be opened at the same time; 0: any */
};

/* NULL: there is none. */
const struct launcher *launcher_find(const char *name);

/* The exit status of node-host(8) when it was not the node that ended: the host was not reached, or
 * the connection was lost. No program of the kit has it. */
#define LOST_STATUS 255
/* And when the node was killed because there was no memory for it. */
#define OOM_STATUS 254
/* Whether an end says that: another place may do better. */
int launcher_lost_host(const struct node_place *place, const struct node_end *end);

/* Whether a text can be the name of a host: letters, digits and . _ - @ : [ ], no - first. */
int launcher_host_ok(const char *text);

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

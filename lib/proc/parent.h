/*
 * parent: each node has a small parent of its own, so that the node and the knowledge of how it
 * ended outlive the supervisor.
 *
 * trainctl starts itself again under the name node-parent (its command line is then only that name
 * and the node's id, so that killing trainctl or a job's workers by name never hits it).
 * The parent leads a session of its own, starts the node in a process group of its own, writes who
 * runs into the node's record file, waits, and adds how the node ended; then it ends itself.  When
 * the node ends, what is left of its process group, and of the session, is killed.  The node finds
 * the name of its host in $PACELINE_HOST.  It begins with SIGUSR1 ignored, with which the supervisor
 * asks nodes something: one that does not listen yet must not die of it.
 *
 * Record file (STATE/nodes/ID.LIFE), always whole:
 *     node id=w0 life=3 parent= parent-start= pid= start= boot= host= at= [cores-by= memory-by=]
 *     end status=75 at=          or: end signal=9 at= [oom=1]  (only once it has ended)
 * cores-by and memory-by say how it is limited (limits.h), when it is and runs on this host.
 */
#ifndef PACELINE_PROC_PARENT_H
#define PACELINE_PROC_PARENT_H

#include "base/boot.h"
#include "base/error.h"
#include "base/option.h"
#include "proc/end.h"
#include "proc/launcher.h"
#include "proc/process.h"

#include <stdint.h>
#include <sys/types.h>

#define PARENT_NAME "node-parent"

struct node_record {
	char id[OPTION_ID_MAX];
	uint64_t life; /* 0 for the first process of this id */
	pid_t parent, pid;
	uint64_t parent_start, start; /* as in process.h */
	char boot[BOOT_ID_MAX];
	char host[HOST_NAME_MAX_BYTES]; /* where the node runs, as its place has it */
	double at; /* seconds since 1970 */
	struct limits_ways by;
	int ended;
	struct node_end end; /* seen is set when ended */
	double end_at;
};

int node_record_read(const char *path, struct node_record *r, struct error *err);
int node_record_write(const char *path, const struct node_record *r, struct error *err);

enum { RECORD_PARENT_RUNS = 1, RECORD_NODE_RUNS = 2 };
/* Bits; nothing of another boot runs. */
int node_record_running(const struct node_record *r);

struct launch {
	struct node_name name;
	uint64_t life;
	const char *record;   /* file to be made */
	const char *log;      /* stdout and stderr are appended here */
	const char *lock;     /* file that the parent keeps locked while it lives */
	const char *template; /* what the launcher of its place puts in front; NULL or "": nothing */
	const char *const *make, *const *bring, *const *lock_there; /* on another host: see struct node_start */
	struct limits limits; /* what it may use */
	const char *search;   /* a PATH, for what enforces them; or NULL */
	int keeps;            /* it has something that must outlive it (keeper.h) */
	char *const *argv;    /* program with its path, and arguments; NULL-terminated */
};

/* Starts the parent, a child of the caller, and returns its pid. ERROR_TEMPFAIL: somebody has the
 * lock. A missing program shows in the node's end (status 78). */
int parent_launch(const struct launch *launch, pid_t *parent, struct error *err);

/* The parent's main(), when a program was started under PARENT_NAME; returns its exit status. */
int parent_main(int argc, char **argv);

#endif

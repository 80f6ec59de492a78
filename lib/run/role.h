/*
 * role: what a node is for.  A table has a row for each role: its program and the words of its
 * command line, how it is seen to be ready, and what its death asks for.
 *
 * A new role is a row in role.c, with the function that writes its words.  For a service, of which
 * there is one node, that is all: it is started first, is asked for its `counters`, is started
 * again when it ends, and ends last.
 */
#ifndef PACELINE_RUN_ROLE_H
#define PACELINE_RUN_ROLE_H

#include "base/error.h"
#include "job/dirs.h"
#include "job/job.h"
#include "proc/limits.h"

#include <stdint.h>

struct sup_node;
struct supervisor;
struct argv;

enum role_ready {
	READY_ANSWERS, /* its socket greets */
	READY_MEMBER,  /* the lead has it as a member; it has no socket */
	READY_ASKS     /* it asks for a place (spare.h); it has no socket */
};

/* What its death asks for before the node may run again. */
enum role_death {
	DEATH_NOTHING,
	DEATH_FENCE,    /* what it had in hand is given up, and its generation is refused; but of a
			   trainer that has parameters itself: DEATH_ROLLBACK */
	DEATH_ROLLBACK, /* all that hold parameters go back to a checkpoint, with the queue */
	DEATH_REPLICA,  /* DEATH_ROLLBACK, if no other replica has the parameters; else it starts
			   empty */
	DEATH_LEAD      /* DEATH_ROLLBACK, if it found no parameters with which it can go on; else
			   nothing */
};

/* On which of the job's hosts. */
enum role_where {
	WHERE_HERE,   /* this machine */
	WHERE_HOLDER, /* one host that trains after the other */
	WHERE_WORKER, /* as PLACE says */
	WHERE_SPARE   /* the same, behind the workers */
};

/* How it is restarted by intention. */
enum role_restart { RESTART_NEVER, RESTART_KILL, RESTART_HAND_OVER };

struct role {
	const char *name; /* in events and in status */
	const char *program;
	const char *id; /* with %u for its number, where there may be several */
	uint64_t (*count)(const struct supervisor *s);
	void (*words)(struct argv *w, const struct sup_node *n, uint64_t life, int take_over);
	const char *(*template)(const struct job *job); /* words before its command; NULL: none */
	/* What it may use at first; NULL: all that is there. */
	struct limits (*limits)(const struct job *job);
	int in_memory; /* it has a copy of its part in memory (CHECKPOINT memory) */
	enum role_where where;
	enum role_ready ready;
	enum role_death death;
	enum role_restart restart;
	const char *question; /* the watchdog's question, once a second; NULL: "counters" */
	const char *told_as; /* the role that the monitor is told with its events; NULL: none */
	int service; /* it runs from the first phase to the last; all others end before it does */
	int retried; /* its program is none of the kit's: it is tried again after most statuses */
	int goes_back; /* a rollback stops it and starts it again */
	int foreign; /* it runs a user's command, and ends as this ends (trainers.h) */
};

extern const struct role role_fabric, role_shardd, role_monitor, role_lead, role_replica,
	role_server, role_worker, role_agent, role_spare, role_spare_agent;
/* In the order in which they are listed; NULL behind the last. */
extern const struct role *const roles[];

/* Whether workers keep what they learn about their speeds (predict-ID). */
int sup_workers_learn(const struct supervisor *s);
/* Where; out holds DIRS_PATH_MAX bytes. */
void sup_learnt_path(const struct sup_node *n, char *out);
/* Adds the command line of a node's process to argv. */
int sup_command(const struct sup_node *n, uint64_t life, int take_over, struct argv *argv,
		struct error *err);
/* What the node's next process needs on a host that does not see our files: paths of directories
 * that are made there, and of files that are brought. */
#define SUP_FILES_MAX 8
struct sup_files {
	char path[2][SUP_FILES_MAX][DIRS_PATH_MAX];
	const char *make[SUP_FILES_MAX + 1], *bring[SUP_FILES_MAX + 1]; /* NULL behind the last */
};
void sup_files(const struct sup_node *n, struct sup_files *files);
/* Where servers have their last cut in memory, and workers what they keep, on each host. */
void sup_memory_dir(const struct supervisor *s, char out[DIRS_PATH_MAX]);
/* Path of the socket of a node. out holds DIRS_PATH_MAX bytes. */
void sup_socket(const struct supervisor *s, const char *id, char *out);

#endif

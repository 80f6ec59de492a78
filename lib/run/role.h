/*
 * role: what a node is for, a row of a table each: its program and the words of its command line,
 * how it is seen to be ready, and what its death asks for.
 *
 * A new role is a row in role.c, with the function that writes its words.  A service that there is
 * one of needs no more: it is started first, is asked for its `counters`, is started again when it
 * ends, and ends last.
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

/* Before it may run again. */
enum role_death {
	DEATH_NOTHING,
	DEATH_FENCE,    /* what it had in hand is given up, and its generation refused; if it is a
			   trainer that has parameters itself, the same as: */
	DEATH_ROLLBACK, /* all that hold parameters go back to a checkpoint, with the queue */
	DEATH_REPLICA,  /* the same, when no other has the parameters; else it starts empty */
	DEATH_LEAD      /* the same, when it found no parameters to lead */
};

/* On which of the job's hosts. */
enum role_where {
	WHERE_HERE,    /* this machine */
	WHERE_SERVER,  /* one host after the other; the first one, which leads, on this machine */
	WHERE_REPLICA, /* one on each host that trains */
	WHERE_WORKER,  /* as PLACE says */
	WHERE_SPARE    /* the same, behind the workers */
};

/* How it is restarted by intention. */
enum role_restart { RESTART_NEVER, RESTART_KILL, RESTART_HAND_OVER };

struct role {
	const char *name; /* in events and in status */
	const char *program;
	const char *id; /* with %u for its number, where there may be several */
	uint64_t (*count)(const struct supervisor *s);
	void (*words)(struct argv *w, const struct sup_node *n, uint64_t life, int take_over);
	const char *(*template)(const struct job *job); /* for its launcher; NULL: none */
	/* What it may use at first; NULL: all that is there. */
	struct limits (*limits)(const struct job *job);
	int keeps; /* it has a copy of its part in memory (CHECKPOINT memory) */
	enum role_where where;
	enum role_ready ready;
	enum role_death death;
	enum role_restart restart;
	const char *asked; /* once a second, whether it moves; NULL: "counters" */
	const char *told;  /* the role that the monitor is told with its events; NULL: none */
	int service; /* it runs from the first phase to the last; all others end before it does */
	int retried; /* its program is none of the kit: most of its statuses say nothing */
	int back;    /* it goes back with the parameters: stopped, and started, in a rollback */
	int foreign; /* it ends as a command of the user's ends (trainers.h) */
};

extern const struct role role_fabric, role_shardd, role_monitor, role_lead, role_replica,
	role_server, role_worker, role_agent, role_spare;
/* In the order in which they are listed; NULL behind the last. */
extern const struct role *const roles[];

/* They keep what they learn about their speeds (predict-ID). */
int sup_workers_learn(const struct supervisor *s);
/* The command line of a node's process, behind what stands in argv. */
int sup_command(const struct sup_node *n, uint64_t life, int take_over, struct argv *argv,
		struct error *err);
/* Directories and files that its next process needs, where its host does not see ours, as paths. */
#define SUP_FILES_MAX 8
struct sup_files {
	char path[2][SUP_FILES_MAX][DIRS_PATH_MAX];
	const char *make[SUP_FILES_MAX + 1], *bring[SUP_FILES_MAX + 1]; /* NULL behind the last */
};
void sup_files(const struct sup_node *n, struct sup_files *files);
/* Where servers have their last cut in memory, on each host; "": nowhere. */
void sup_memory_dir(const struct supervisor *s, char out[DIRS_PATH_MAX]);
/* Path of the socket of a node. out holds DIRS_PATH_MAX bytes. */
void sup_socket(const struct supervisor *s, const char *id, char *out);

#endif

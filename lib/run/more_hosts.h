/*
 * more_hosts: hosts that Slurm gives the job besides those of its allocation, at most as many as
 * LAUNCHER more says.  Each is a further allocation (salloc --no-shell), in the partition that
 * LAUNCHER preemptible names, if it names one.
 *
 * A job is full when it has more workers than its hosts have cores for (as many each as WORKERS
 * cores says, else one).  Then Slurm is asked for the hosts that are missing, and training goes on:
 * workers that belong on a host that is not there yet run on the others.  When Slurm gives a host,
 * we check whether it can be used (it has the data and the kit).  Then it is a host like the others
 * (hosts.h), and the workers that belong there move there.  When the job shrinks, its last host is
 * given back; when the job is over, all are.
 *
 * All further allocations of a job have one name.  Every few seconds Slurm is asked which there
 * are, so that a supervisor after a crash goes on with them.  An allocation may end (its time is
 * over, it was preempted, somebody has cancelled it).  Then the job has its host no longer: its
 * processes have been told to end (SIGTERM), and its workers leave and run elsewhere.
 *
 * Records: more-host state=asked|refused|granted|there|unfit|ended|given-back [host=] [job=]
 * [partition=] [waited=]
 */
#ifndef PACELINE_RUN_MORE_HOSTS_H
#define PACELINE_RUN_MORE_HOSTS_H

#include "base/error.h"
#include "proc/launcher.h"

#include <stddef.h>
#include <stdint.h>

struct child;
struct record;
struct record_out;
struct sup_host;
struct sup_node;
struct supervisor;

/* A place for one of them; its host is hosts.host[more.base + index]. */
struct sup_more_host {
	struct supervisor *sup;
	struct node_place place; /* host "": Slurm has given none */
	struct child *checking;  /* asks whether it can be used; NULL: nothing does */
	int seen;                /* in what Slurm said last */
};

struct sup_more_hosts {
	size_t base, count; /* index of the first of them among hosts; 0: the job has none */
	struct sup_more_host *one;
	char name[96]; /* of the allocations */
	char *unfit;   /* names of hosts that can't be used, with commas */
	struct child *request; /* salloc: a request is pending; NULL: none is */
	struct child *listing; /* squeue runs; NULL: it does not */
	int listed;          /* Slurm has said at least once which there are */
	double since;        /* clock_mono(): the request began */
	double list_at, ask_at; /* clock_mono(): not before */
	int preemptible;        /* the request is for that partition */
	int refused;            /* that partition gives us no host */
	int begun;              /* sup_more_begin() */
};

/* Makes room for them among the hosts. Call before the roster is filled. */
int sup_more_init(struct supervisor *s, struct error *err);
/* Call when it is known which nodes run: from now on Slurm is asked. */
void sup_more_begin(struct supervisor *s);
void sup_more_tick(struct supervisor *s);
/* Gives all back, if sup_more_begin() was called. */
void sup_more_free(struct supervisor *s);

/* The host of a worker with this number; 0: it belongs on one of the job's own. */
size_t sup_more_home(const struct supervisor *s, uint64_t number);
/* Seconds for which the request has been pending; NAN: none is. */
double sup_more_pending(const struct supervisor *s);
/* A node has ended, perhaps because Slurm has taken its host: Slurm is asked at once. */
void sup_more_recheck(struct sup_node *n);
/* What is kept of one (in_force.h), and what an earlier supervisor kept. */
void sup_more_print(const struct sup_host *h, struct record_out *o);
int sup_more_take(struct supervisor *s, const struct record *r, struct error *err);
int sup_is_more_host(const struct sup_host *h);
/* Whether one of them is in the fabric: its processes are started with its allocation's number. */
int sup_more_in_world(const struct supervisor *s);

#endif

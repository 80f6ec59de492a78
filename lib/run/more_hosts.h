/*
 * more_hosts: hosts that Slurm gives the job besides those of its allocation, LAUNCHER more at most: one
 * further allocation each (salloc --no-shell), in the partition LAUNCHER preemptible where there is one.
 *
 * A job is full when it has more workers than its hosts have cores for (WORKERS cores each, else one).
 * Then Slurm is asked for as many hosts as are missing, and training goes on: workers that belong on
 * a host that is not there yet run on the others.  One that Slurm gives is asked whether it can be used
 * (its data, its kit); then it is a host like the others (hosts.h), and who belongs there moves there.
 * Where the job shrinks the last host is given back; and all of them when the job is over.
 *
 * Slurm knows all of it by one name for the job's further allocations: every few seconds it is asked
 * which there are, so that a supervisor that comes after a crash goes on with them.  An allocation that
 * is not running any more (its time is over, it was preempted, somebody has cancelled it) takes its
 * host along: its processes have been told to end (SIGTERM), workers leave and run elsewhere.
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

/* One that may be had; its host is hosts.host[more.base + index]. */
struct sup_more_host {
	struct supervisor *sup;
	struct node_place place; /* host "": there is none */
	struct child *checking;  /* asks whether it can be used; NULL: nothing does */
	int seen;                /* in what Slurm said last */
};

struct sup_more_hosts {
	size_t base, count; /* the first of them among hosts; 0: none is wanted */
	struct sup_more_host *one;
	char name[96]; /* of the allocations */
	char *unfit;   /* names of hosts that can't be used, with commas */
	struct child *request; /* salloc: a request is pending; NULL: none is */
	struct child *listing; /* squeue runs; NULL: it does not */
	int listed;          /* Slurm has said at least once which there are */
	double since;        /* clock_mono(): of the request */
	double list_at, ask_at; /* clock_mono(): not before */
	int preemptible;        /* the request is for that partition */
	int refused;            /* that partition is not there for us */
	int begun;
};

/* Room for them among the hosts; before the roster is filled. */
int sup_more_init(struct supervisor *s, struct error *err);
/* Who runs is known: from now on Slurm is asked. */
void sup_more_begin(struct supervisor *s);
void sup_more_tick(struct supervisor *s);
/* Gives all back, where begun. */
void sup_more_free(struct supervisor *s);

/* The host of a worker with this number; 0: it belongs on one of the job's own. */
size_t sup_more_home(const struct supervisor *s, uint64_t number);
/* Seconds for which the request has been pending; NAN: none is. */
double sup_more_pending(const struct supervisor *s);
/* A node has ended, perhaps because Slurm has taken its host: Slurm is asked at once. */
void sup_more_recheck(struct sup_node *n);
/* What a file keeps of one, and what it had kept. */
void sup_more_print(const struct sup_host *h, struct record_out *o);
int sup_more_take(struct supervisor *s, const struct record *r, struct error *err);
int sup_is_more_host(const struct sup_host *h);
/* One of them is in the fabric: its processes are started with its allocation's number. */
int sup_more_in_world(const struct supervisor *s);

#endif

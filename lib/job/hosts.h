/*
 * hosts: the machines of a job: which they are, how nodes are started there, and which worker
 * belongs where.
 *
 * HOSTS names them; without it they are those that Slurm has allocated, and without an allocation
 * this machine alone.  The first place is always this machine, where trainctl runs, with the
 * daemons that there is one of.  When HOSTS does not name it, it trains nothing.
 */
#ifndef PACELINE_JOB_HOSTS_H
#define PACELINE_JOB_HOSTS_H

#include "base/error.h"
#include "proc/launcher.h"

#include <stddef.h>
#include <stdint.h>

struct dirs;
struct job;

#define HOSTS_MAX 1024

/* What the environment says; NULL or "" where it says nothing. main() fills it. */
struct hosts_environment {
	const char *slurm_nodes; /* $SLURM_JOB_NODELIST */
	const char *slurm_memory; /* $SLURM_MEM_PER_NODE, or $SLURM_MEM_PER_CPU */
	const char *search_path; /* $PATH */
};

struct hosts {
	size_t count;
	struct node_place *place;        /* [0] is this machine */
	const struct launcher *launcher; /* to the others; "local" where there are none */
	int slurm_memory; /* its allocation has memory */
	size_t first;                    /* the first place that trains: 0, or 1 */
	/* how many workers each place has, by PLACE; NULL: one after the other */
	uint64_t *workers;
	char *node_host; /* path of that program; NULL where all is here */
};

/* Finds names and launcher; nobody is contacted. LAUNCHER that does not fit, a PLACE with hosts
 * that there are not, a machine that is none of the allocation's: ERROR_CONFIG. */
int hosts_find(struct hosts *h, const struct job *job, const struct hosts_environment *env,
	       struct error *err);
void hosts_free(struct hosts *h);

/* Asks all other hosts at once, and waits for so many seconds (DEADLINE_HOSTS) at most: whether they
 * answer, with the same version; whether RUN_DIR is theirs alone, and could be made; whether they see
 * the state directory, and if not, whether it could be made; whether the data are there, of the same
 * size; whether the programs are. Nothing is made. What is wrong is said through base/log.h, a line
 * each; the error counts it, with the status of one that would be wrong again, if there is one. Fills
 * cores, memory and `apart` of those that answer. */
int hosts_look(struct hosts *h, const struct job *job, const struct dirs *dirs,
	       const struct hosts_environment *env, double seconds, struct error *err);
/* Tests all hosts that train, at once (proc/host_test.h), and fills `bad` of their places. each
 * (may be NULL) is told of each. The number of bad ones, or -1. */
struct host_test;
int hosts_test(struct hosts *h, const struct hosts_environment *env,
	       void (*each)(const struct host_test *t), struct error *err);
/* Whether what failed with this status would fail again, if nobody changes anything. */
int hosts_comes_again(int code);
/* Whether a checkpoint of so many bytes has room in the state directory of each host that has
 * answered, this one included. Said in the same way. */
int hosts_room(const struct hosts *h, const struct dirs *dirs, uint64_t bytes,
	       const struct hosts_environment *env, struct error *err);
/* Bytes of the dense parameters of the model that was prepared. */
int hosts_dense_bytes(const struct dirs *dirs, uint64_t *bytes, struct error *err);
/* Bytes of a checkpoint of it, at most. */
int hosts_checkpoint_bytes(const struct job *job, const struct dirs *dirs, uint64_t samples,
			   uint64_t *bytes, struct error *err);
/* A line for people: how a place is reached, and what is there. */
#define HOSTS_TEXT_MAX 512
void hosts_text(const struct hosts *h, size_t i, char out[HOSTS_TEXT_MAX]);

/* The network of this machine in which all other hosts are by their names, as "10.1.0.0/16"; "":
 * there is none, or names have other addresses than IPv4's. Asks the resolver, and waits for it. */
#define HOSTS_NETWORK_MAX 24
void hosts_network(const struct hosts *h, char out[HOSTS_NETWORK_MAX]);

/* Index of the place of a worker, and of a server or replica, by their numbers from 0, when all
 * hosts are there. */
size_t hosts_worker(const struct hosts *h, uint64_t number);
size_t hosts_holder(const struct hosts *h, uint64_t number);

/* Whether a value of PLACE can be one. */
int hosts_place_check(const char *value, struct error *err);

#endif

/*
 * hosts: which of the job's machines are there, and on which of them each node runs.
 *
 * Every node has a home by its number (job/hosts.h).  A host is lost when the launcher of a node
 * says that it did not reach the host, or when a node there was silent for a while and the host
 * does not answer a probe (node-host(8) runs nothing there).  From then on the host is probed again
 * and again, and no node is started there.  If it answers, all is as before.  If not, it is gone:
 *
 * - after five seconds, when all connections to it have ended: what ran there has been killed;
 * - after thirty seconds without a word from it, when some connections remain.  It may only be
 *   slow, and its ends of the connections kill what ran there only after that time.
 *
 * When a host is gone:
 *
 * - its workers and servers run on the other hosts (a server's parameters come from its standby,
 *   or from the last checkpoint, as after any death of a server), and its replica waits for it;
 * - the fabric is started anew without it.
 *
 * A host that is gone is probed now and then.  When it answers it is used again: the fabric
 * includes it, its replica and its workers return at once; its servers, and trainers that have
 * parameters, return after the next rollback.
 *
 * A host that is there can be avoided for BAD_HOSTS avoid seconds: a node hung there, or was slow
 * even after a restart, or a person says so.  No node is killed for it.  A node that starts in that
 * time runs on another host if it may; after that time it returns when it starts again.  The last
 * host that is not avoided stays so.
 *
 * `trainctl scale --hosts` takes hosts out of use and into use again.  A host that is not in use is
 * treated as if it did not belong to the job.
 *
 * The fabric is a node of this machine: the process that holds the MPI world together.  Nodes on
 * other hosts are started once the fabric is there.
 */
#ifndef PACELINE_RUN_HOSTS_H
#define PACELINE_RUN_HOSTS_H

#include "base/error.h"
#include "base/option.h"
#include "proc/launcher.h"
#include "run/host_state.h"
#include "run/network.h"

#include <stddef.h>
#include <stdint.h>

struct child;
struct supervisor;
struct sup_node;
struct sup_process;

/* A probe asks a host whether it is there. This is the result of the probe before a host is taken
 * into use. */
enum sup_host_probe { PROBE_NONE, PROBE_PENDING, PROBE_THERE, PROBE_MISSING };

struct sup_host {
	struct supervisor *sup;
	const struct node_place *place;
	char name[OPTION_ID_MAX]; /* the fabric's name for it */
	enum host_reach state;
	enum host_use use; /* whether the job trains there (scale_hosts.c) */
	enum sup_host_probe probe;
	uint64_t in_world;      /* N + 1: it is in the world of the fabric's life N; 0: in none */
	struct child *probing;  /* the probe that runs; NULL: none */
	int unanswered;         /* the last probe had no answer */
	int swept;              /* what nobody needs was removed there, or can't be (parts.h) */
	double since, probe_at; /* clock_mono(): it has its state since; the next probe */
	double probed, heard;   /* clock_mono(): the last probe began; it answered last */
	double avoided;         /* clock_mono(): it is avoided until then; 0: it is not */
	double leave_by;        /* clock_mono(): HOST_LEAVES: what is there then is killed; 0: never */
	double doubted;         /* clock_mono(): a node there is silent since; 0: none is */
	double answer_by;       /* clock_mono(): the end waits for its answer until then; 0: no */
	struct network_link network;
};

struct sup_hosts {
	struct node_place here; /* if the job has no hosts */
	struct sup_host *host;  /* [0] is this machine */
	size_t count, first;    /* the first one that trains */
	int64_t log_from;       /* where the log of the fabric that runs begins */
	int killed;             /* a process was, and may have left a socket; or it is not known */
	double none_since;      /* clock_mono(): since when all that train are gone; 0: not so */
	uint64_t samples;       /* trained, as seen last, */
	double trained_at;      /* and clock_mono() when that number last changed */
};

#define EACH_HOST(h, s, from)                                                                      \
	for (struct sup_host *h = (s)->hosts.host + (from);                                        \
	     h < (s)->hosts.host + (s)->hosts.count; h++)

int sup_hosts_init(struct supervisor *s, struct error *err);
void sup_hosts_free(struct supervisor *s);
/* If there are several hosts, a record for each: how it is reached, what it has. */
void sup_hosts_log(struct supervisor *s);

/* If nodes are limited, a record for each host: how limits are enforced there. People are told
 * where that is less than the job asks for. */
void sup_hosts_limits(struct supervisor *s);
/* Finds the node's home, and places it there. */
void sup_host_home(struct sup_node *n);
/* Call before a node is started: chooses its host. -1: it must wait. */
int sup_host_choose(struct sup_node *n);
/* Whether the node waits for its host. Then nobody waits for the node. */
int sup_host_is_awaited(const struct sup_node *n);
/* Whether its answers can reach us: it runs on this machine, or the fabric is there. */
int sup_host_is_reached(const struct sup_node *n);
/* Whether the node ended because its host was lost. */
int sup_host_was_lost(const struct sup_node *n, const struct node_end *end);

/* ---- other modules say what has happened ---- */
void sup_host_ended(struct sup_process *p, const struct node_end *end);
/* Avoids the host of this node, if the node has another one to go to; why is for people. */
void sup_host_avoid_of(struct sup_node *n, const char *why);
/* Avoids this host; -1: no other one is good. id: of the node that is the reason, or NULL. */
int sup_host_avoid(struct sup_host *h, const char *id, const char *why);
struct sup_host *sup_host_by_name(struct supervisor *s, const char *name); /* NULL: none is */
const char *sup_host_plain(const char *host); /* "me@north" without the user */
int sup_host_is_avoided(const struct sup_host *h);
/* Why the node has no other host to go to, for people; NULL: it has one. */
const char *sup_host_stays(const struct sup_node *n);
/* The node was given up: its host is probed. */
void sup_host_doubt(struct sup_node *n);
/* The node has been silent for `silent` of the `limit` seconds that it may be. Its host may be the
 * reason, and is probed if that is long. */
void sup_host_silent(struct sup_node *n, double silent, double limit);
/* What an earlier supervisor knew of a host. avoided: seconds for which it still is avoided; 0 or
 * less: it is not. leaves: seconds until it has to be left; INFINITY: no limit was set. */
void sup_host_restore(struct supervisor *s, const char *name, int gone, uint64_t in_world,
		      double avoided, double leaves);
/* Call when the nodes that run are known. */
void sup_hosts_adopted(struct supervisor *s);
/* Where a standby of the server runs best: on another host, that with the fewest servers and
 * standbys, if possible one that is not avoided; if there is no other one, on the server's own. */
size_t sup_host_standby(const struct sup_node *n);
/* Whether it may stay on this host. */
int sup_host_standby_stays(const struct sup_node *n, size_t at);
/* Its standby runs on this host, and is the server now. */
void sup_host_put(struct sup_node *n, size_t at);
/* Whether a process of another host can be reached by the routes that are there now. */
int sup_host_routes_hold(const struct supervisor *s);
/* An earlier supervisor had placed the node on this host. */
void sup_host_placed(struct sup_node *n, const char *name);
/* The node runs on this host. lost: the host with which its life before was lost; "": none was. If
 * the earlier supervisor was killed before it kept where the node runs, it did not keep either that
 * the lost host is gone. So that host counts as gone until it answers; then the node returns. */
void sup_host_found(struct sup_node *n, const char *name, const char *lost);
/* Call at a start when nothing runs: all hosts have just answered. */
void sup_hosts_are_there(struct supervisor *s);
void sup_hosts_tick(struct supervisor *s);
void sup_hosts_step(struct supervisor *s);
/* For a further host of Slurm's, which was HOST_NONE: it has a name now; it can be used from now
 * on; Slurm has taken it back, and it is HOST_NONE again. */
void sup_host_named(struct sup_host *h);
void sup_host_given(struct sup_host *h);
void sup_host_taken(struct sup_host *h);
const char *sup_host_word(const struct sup_host *h); /* of its state */
/* ---- for the end of the job (parts.c) ---- */
/* It does not answer, and is asked again: once, if it has been gone for long. 0: that is over. */
int sup_host_await(struct sup_host *h);
/* Whether an answer of it is still waited for. */
int sup_host_is_waited_for(const struct sup_host *h);
/* ---- for scale_hosts.c ---- */
/* Changes its use. Hosts that are used, and those that leave, are in the fabric. */
void sup_host_set_use(struct sup_host *h, enum host_use use);
/* Probes the host; the answer will be in h->probe. */
void sup_host_probe(struct sup_host *h);
/* Index of the host where the node would be started now; the count of hosts: nowhere. */
size_t sup_host_choice(const struct sup_node *n);
/* Whether the node stays on trainctl's machine, whatever hosts are used. */
int sup_host_is_fixed(const struct sup_node *n);
/* Whether it is a replica of a host that is not used: the job does without it. */
int sup_host_is_done_without(const struct sup_node *n);
/* Whether the fabric is up with the hosts that it needs, or no fabric is needed. */
int sup_hosts_are_joined(const struct supervisor *s);
/* The host where a node runs. */
struct sup_host *sup_host_of(const struct sup_node *n);
struct sup_node *sup_fabric(const struct supervisor *s); /* NULL: there are no other hosts */
int sup_fabric_is_there(const struct supervisor *s); /* all other hosts are reached over it */
/* Call at the job's end. */
void sup_fabric_stop(struct sup_node *fabric);

#endif

/*
 * saves: how much time FABRIC=mlfabric saves a job, or would save.  Pure: an estimate by what the
 * hosts' links carried in some seconds, and by how long their workers waited for that.
 *
 * Servers.  Pushes that wait for the same link are summed, so that it carries fewer.  While one is
 * on its way, the others come together: behind a host's own slow link two groups are left of its n
 * workers, and behind the link of the servers' host one of each host, at least two (two in all
 * where hosts sum for each other).  A batch then waits for fewer others, if the link is busy:
 *
 *     saved = u min(C - U, n (D - D'))    u = min(1, n D / C)
 *
 * C: seconds of a batch with FABRIC=plain; U: without waiting for others; D: those in which each
 * push keeps the link busy, and D' if pushes are summed: measured with mlfabric, else D times
 * groups/n, for dense gradients.  The order of pushes, drops, and models that are sent once are
 * left out.
 *
 * Sums of allreduce.  What a ring and shares take by the rates (solve/xfer_share.h), and what those
 * that were made really took: the shortest wait of all workers, and at most a batch of theirs.
 */
#ifndef PACELINE_RUN_SAVES_H
#define PACELINE_RUN_SAVES_H

#include <stddef.h>

struct saves_way {
	double bytes, busy; /* busy: the seconds that they took; 0: not known */
};

struct saves_host {
	struct saves_way out, in;
	size_t workers, servers;
	/* Of its workers together: seconds from one batch to the next; in these, of sending and
	 * receiving, and of waiting for others; bytes that were added to others', and not sent. */
	double batches, time, comm, wait, added;
};

struct saves_job {
	double seconds;            /* in which all this happened */
	double dense;              /* bytes of a push that can be summed */
	double ring, shares, sums; /* seconds by the rates of so many sums, by either */
	int is_behind;             /* the next batch goes on behind a sum */
	int is_saved;              /* what mlfabric saved; else what it would have saved */
};

/* Seconds. 0 also where nothing is known, as where each host has a server. */
double saves_servers(const struct saves_job *job, const struct saves_host *host, size_t hosts);
double saves_sums(const struct saves_job *job, const struct saves_host *host, size_t hosts);

#endif

/*
 * sum_pair: memory in which a replica keeps the last two sums of its job: the one that is being
 * made, and the one before it.  Whoever has mapped it has both still when the replica has died.
 *
 * The file: heads of 64 bytes of both sums, what it is, and from SUM_PAIR_AT on the sums, floats
 * each.  Only the replica writes.  A sum is whole when all hosts are in it, and committed when the
 * lead has said so.
 */
#ifndef PACELINE_PARAM_SUM_PAIR_H
#define PACELINE_PARAM_SUM_PAIR_H

#include "base/error.h"
#include "param/layout.h"

#include <stddef.h>
#include <stdint.h>

#define SUM_PAIR_AT 4096
#define SUM_PAIR_FLOATS_MAX LAYOUT_DENSE_MAX

enum sum_pair_state { SUM_PAIR_OPEN, SUM_PAIR_WHOLE, SUM_PAIR_COMMITTED };

struct sum_pair_head {
	uint64_t state, iteration, round;
};

struct sum_pair {
	int fd;      /* for others: it can be mapped only for reading; -1: there is no memory */
	int own_fd;  /* of the replica: for its fabricd, which writes there; -1: it is another's */
	char *base;
	size_t bytes;
	uint64_t floats, incarnation;
};

/* New memory, got at once, so that nobody has to end later for want of it. ERROR_OS: there is not
 * enough. */
int sum_pair_make(struct sum_pair *p, uint64_t floats, uint64_t incarnation, struct error *err);
/* That of another process, to be read. fd stays the caller's. ERROR_DATA: it is none, or could
 * shrink under us. */
int sum_pair_open(struct sum_pair *p, int fd, struct error *err);
void sum_pair_close(struct sum_pair *p);

size_t sum_pair_offset(const struct sum_pair *p, int which); /* which: 0 or 1 */
float *sum_pair_at(const struct sum_pair *p, int which);
/* Of memory that another process writes: the state is that of this iteration and round. */
struct sum_pair_head sum_pair_head(const struct sum_pair *p, int which);
void sum_pair_set(struct sum_pair *p, int which, const struct sum_pair_head *head);
/* Which of them is the sum of this iteration and is at least in this state; -1: none. */
int sum_pair_find(const struct sum_pair *p, uint64_t iteration, enum sum_pair_state least);

#endif

/*
 * standby: another process that takes this part's place when this process dies.
 *
 * The standby asks the part to `follow`.  A child of the part sends it everything that is here, as
 * to an heir.  From then on the part repeats to it, over the standby's own socket, each push that
 * it stages and each order of the lead, in the same sequence.  When the standby has answered all
 * that came so far, it is in force: its name is in the lock of the part's socket
 * (server_name_heir()), and from then on the part answers a push or an order only after the standby
 * has.  So whatever anybody was told about this part, the standby knows; what was not answered is
 * asked again, and finds the standby under the part's name.
 *
 * With options.divergence the standby has the names of pushes and the orders at once, but may lack
 * gradients that their workers keep (keepers.h, lag.h, behind.h), until a merged difference brings
 * it past them (merge.h).
 *
 * The part may lose its standby at any time: it first takes the name out of the lock, and then
 * answers without it.  A standby whose name is not in the lock never takes over, also if it was
 * stopped meanwhile and does not know.
 *
 * A standby on another host gives no name, as there is no lock that both see.  It takes over when
 * somebody else who sees both hosts tells it that the part has died (SIGUSR1; trainctl does), and
 * its connection to the part has ended, and the part has said `in-force` before.  If the part went
 * on without it in the meantime, the lead finds a server that lacks what is committed, and ends:
 * all go back.  So nothing is wrong then, either.  If the part can be reached again and nobody told
 * of its death, the standby ends.
 */
#ifndef PACELINE_PS_STANDBY_H
#define PACELINE_PS_STANDBY_H

#include "ps/ps_internal.h"

/* ---- at the part ---- */

void standby_on_follow(struct request *rq, void *ps);
/* Repeats to the standby, if there is one, what is being done here. */
void standby_push(struct ps *p, struct staged *s);
void standby_order(struct ps *p, const struct order *o);
/* After an apply. */
void standby_applied(struct ps *p);
/* Answers a push that is staged here, with what its worker has to keep. */
void standby_staged(struct ps *p, struct request *rq, const char *worker, uint64_t generation,
		    uint64_t sequence);
/* What a worker kept is gone. */
void standby_lost_keeper(struct ps *p, const char *worker, uint64_t generation);
/* request_ok(), when the standby has answered what it was sent so far. */
void standby_ok(struct ps *p, struct request *rq, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* a->done of an order that is carried out, when the standby has answered all it was sent. */
void standby_done(struct ps *p, const struct order_answer *a);
/* Goes on without it. why NULL: it has gone. */
void standby_drop(struct ps *p, const char *why);
void standby_stat(const struct ps *p, struct record_out *o);

/* ---- at the standby: handover.c ---- */

/* Takes what is at the part, as its standby with this socket. *out is the connection to it, which
 * ends with it, or when it goes on without the standby. name NULL: the part is on another host. */
int standby_take(struct ps *p, const char *path, const char *socket, const char *name,
		 struct call **out, struct error *err);

#endif

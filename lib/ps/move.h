/*
 * move: parameters of this part on their way to other parts, and theirs to this one, as the lead
 * orders (lead/order.h): an attempt is prepared, given, and then adopted or kept.  A giver sends to
 * each receiver over the receiver's socket, through shared memory when both are on one host.
 *
 * Until the attempt is adopted, the part serves what it served before, and nothing of what came.
 */
#ifndef PACELINE_PS_MOVE_H
#define PACELINE_PS_MOVE_H

#include "ps/ps_internal.h"

struct ps_move;

/* The orders prepare, give, adopt, cancel. */
void move_prepare(struct ps *p, const struct order *o, const struct order_answer *a);
void move_give(struct ps *p, const struct order *o, const struct order_answer *a);
void move_adopt(struct ps *p, const struct order *o, const struct order_answer *a);
void move_cancel(struct ps *p, const struct order *o, const struct order_answer *a);
/* The request of a giver. */
void move_on_accept(struct request *rq, void *ps);

int move_is_busy(const struct ps *p); /* an attempt is prepared */
void move_stop(struct ps *p);         /* forgets what is under way */

/* Whether the client uses the map of this part; 0: it does not, and was answered. */
int move_check_map(struct ps *p, struct request *rq);

/* Handing over: the map, if it is not the first one. */
int move_give_map(const struct ps *p, struct call *c, struct error *err);
int move_take_map(struct ps *p, const struct record *r, struct call *c, struct error *err);

#endif

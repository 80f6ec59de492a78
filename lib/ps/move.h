/*
 * move: parameters that move from this part to others, and from others to this one, as the lead
 * orders (lead/order.h).  An attempt is prepared, given, and then adopted or cancelled.  A giver
 * sends to each receiver over the receiver's socket; if both are on one host, through shared
 * memory.
 *
 * Until the attempt is adopted, the part serves what it served before, and nothing of what has
 * come.
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
/* The request `accept`, which a giver sends to a receiver. */
void move_on_accept(struct request *rq, void *ps);

int move_is_busy(const struct ps *p); /* an attempt is prepared */
void move_stop(struct ps *p);         /* ends what is under way */

/* Whether the client uses the map of this part. 0: it does not, and the request was answered. */
int move_check_map(struct ps *p, struct request *rq);

/* For a hand-over: sends and takes the map, if it is not the first one. */
int move_give_map(const struct ps *p, struct call *c, struct error *err);
int move_take_map(struct ps *p, const struct record *r, struct call *c, struct error *err);

#endif

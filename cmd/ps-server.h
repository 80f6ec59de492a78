/* What the files of ps-server(8) share. */
#ifndef PACELINE_CMD_PS_SERVER_H
#define PACELINE_CMD_PS_SERVER_H

#include "cmd/cmd.h"
#include "gate/gate.h"
#include "solve/balance.h"

/* balance.c: lib/solve asked at every barrier. */
struct balancer;
int balancer_new(struct balancer **out, const char *method, uint64_t global, struct error *err);
void balancer_free(struct balancer *b);
gate_balance_fn balancer_sizes; /* arg: a struct balancer */

#endif

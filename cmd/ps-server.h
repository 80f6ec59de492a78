/* What the files of ps-server(8) share. */
#ifndef PACELINE_CMD_PS_SERVER_H
#define PACELINE_CMD_PS_SERVER_H

#include "cmd/cmd.h"
#include "gate/gate.h"

#define BALANCE_NAMES "lb-bsp|lb-bsp-gpu"

/* balance.c: lib/solve asked at every barrier. */
struct balance;
int balance_new(struct balance **out, const char *method, uint64_t global, struct error *err);
void balance_free(struct balance *b);
gate_balance_fn balance_sizes; /* arg: a struct balance */

#endif

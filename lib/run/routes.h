/*
 * routes: tells the fabric (fabricd(8)) where each socket of the job really is: in RUN_DIR/routes,
 * which a fabric reads when it starts, and by a message to one that runs.
 */
#ifndef PACELINE_RUN_ROUTES_H
#define PACELINE_RUN_ROUTES_H

#include "run/talk.h"

#include <stddef.h>

#define SUP_ROUTES_SSH "ssh -T -x -o BatchMode=yes -o ConnectTimeout=10"
#define SUP_ROUTES_SRUN                                                                            \
	"srun --overlap --nodes=1 --ntasks=1 --overcommit --cpu-bind=none --mpi=none --no-kill --quiet"
#define SUP_ROUTES_USERS "ssh-users"

struct supervisor;

struct sup_routes {
	char *text; /* what the file has; NULL: there is none yet */
	size_t bytes;
	int held; /* the fabric that runs has taken these routes */
	struct question question;
};

/* Before a start: whether the fabric has room for the routes of all nodes. */
int sup_routes_fit(const struct supervisor *s, struct error *err);
void sup_routes_begin(struct supervisor *s); /* another fabric is to be started */
/* Whether a host is named with a user ("me@north"): then `sh RUN_DIR/SUP_ROUTES_USERS HOST
 * COMMAND...` is ssh to HOST as that user. */
int sup_routes_have_users(const struct supervisor *s);
void sup_routes_step(struct supervisor *s);
/* Whether the fabric uses these routes; or no fabric runs, and the next one reads the file. */
int sup_routes_hold(const struct supervisor *s);
void sup_routes_free(struct supervisor *s);

#endif

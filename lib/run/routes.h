/*
 * routes: tells the fabric (fabricd(8)) where each socket of the job really is: in RUN_DIR/routes,
 * which a fabric reads when it starts, and by a message to one that runs.
 */
#ifndef PACELINE_RUN_ROUTES_H
#define PACELINE_RUN_ROUTES_H

#include "run/talk.h"

#include <stddef.h>

/* A file in RUN_DIR, for mpirun(1), which calls SUP_ROUTES_AGENT HOST COMMAND... in place of ssh: the
 * command runs on the host, brought there by its launcher. mpirun splits the agent at blanks and
 * colons, and the path of the file may have some; so it is in the environment. */
#define SUP_ROUTES_REACH "reach"
#define SUP_ROUTES_AGENT "sh -c .${IFS}\"$PACELINE_REACH\""

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
void sup_routes_step(struct supervisor *s);
/* Whether the fabric uses these routes; or no fabric runs, and the next one reads the file. */
int sup_routes_hold(const struct supervisor *s);
void sup_routes_free(struct supervisor *s);

#endif

/* trainctl: what its files share: one main() a subcommand, each returns an exit status. */
#ifndef PACELINE_CMD_TRAINCTL_H
#define PACELINE_CMD_TRAINCTL_H

#include "run/place.h"

#define PROGRAM "trainctl"

int trainctl_run(int argc, char **argv);
int trainctl_status(int argc, char **argv);
int trainctl_stop(int argc, char **argv);
int trainctl_checkpoint(int argc, char **argv);
int trainctl_solve(int argc, char **argv);
int trainctl_replay(int argc, char **argv);

void trainctl_environment(struct place_environment *env);

#endif

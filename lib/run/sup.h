/*
 * sup: the supervisor and its modules, for the files of this room only.
 *
 * Each module has a header, and a struct here that only this module writes; others may read the
 * struct, and call the module's functions.
 *
 * The supervisor is level-triggered.  Callbacks only note what happened and kick; then the step of
 * the phase looks at the state and does the next thing that is missing.  The same steps serve a
 * first start, an adoption after kill -9, and a rollback.
 */
#ifndef PACELINE_RUN_SUP_H
#define PACELINE_RUN_SUP_H

#include "job/deadline.h"
#include "job/kind.h"
#include "run/abandoned.h"
#include "run/action.h"
#include "run/brain.h"
#include "run/checkpoint.h"
#include "run/decide.h"
#include "run/fabric_log.h"
#include "run/hosts.h"
#include "run/in_force.h"
#include "run/kept.h"
#include "run/logs.h"
#include "run/metrics.h"
#include "run/more_hosts.h"
#include "run/newest.h"
#include "run/node.h"
#include "run/oom.h"
#include "run/parts.h"
#include "run/phase.h"
#include "run/progress.h"
#include "run/rebalance.h"
#include "run/recover.h"
#include "run/restart.h"
#include "run/role.h"
#include "run/room.h"
#include "run/roster.h"
#include "run/routes.h"
#include "run/scale.h"
#include "run/score.h"
#include "run/self_test.h"
#include "run/series.h"
#include "run/spare.h"
#include "run/standstill.h"
#include "run/supervisor.h"
#include "run/talk.h"
#include "run/trainers.h"
#include "run/turn.h"
#include "run/verbs.h"
#include "run/watchdog.h"
#include "wire/timer.h"

struct supervisor {
	/* as the caller gave them */
	struct supervisor_options options;
	const struct job *job;
	struct dirs dirs;
	struct server *server;
	struct event_base *base;
	struct event *tick, *periodic, *hangup;
	struct {
		double before; /* seconds of the job's earlier starts */
		double kept;   /* clock_mono(): when the sum was written last */
	} spent;
	/* what each module owns */
	struct sup_phases phases;
	struct sup_log log;
	struct sup_hosts hosts;
	struct sup_more_hosts more;
	struct sup_routes routes;
	struct sup_network network;
	struct sup_roster roster;
	struct sup_scale scale;
	struct sup_move move;
	struct sup_rebalance rebalance;
	struct sup_links links;
	struct sup_watchdog watchdog;
	struct sup_standstill standstill;
	struct sup_newest newest;
	struct sup_recover recover;
	struct sup_trainers trainers;
	struct sup_checkpoints checkpoint;
	struct sup_parts parts;
	struct sup_progress progress;
	struct sup_room room;
	struct sup_series series;
	struct sup_abandoned abandoned;
	struct sup_decisions decide;
	struct sup_brain brain;
	struct sup_actions_sent actions;
	struct sup_in_force in_force;
	struct sup_kept kept;
	struct sup_self_test self_test;
	struct sup_score score;
	struct sup_clients clients;
	struct sup_metrics metrics;
};

/* Whether enough files and sockets may be open for the nodes of the job and so many more. Without
 * them processes could neither be started nor stopped, and would be left behind. -1: ERROR_OS. */
int sup_may_open_files(const struct supervisor *s, const struct sup_sizes *more, struct error *err);

/* Takes from STATE/kept how long the job ran before. */
int sup_time_take(struct supervisor *s, const struct record *r, struct error *err);

#endif

/* kind: see kind.h. */
#include "job/kind.h"

#include "job/job.h"

#include <string.h>

#define SUMS "sums" /* TRAINER_KIND=loop with SYNC=allreduce */

static const struct job_kind kinds[] = {
	{.name = "servers", .program = "worker", .given = GIVEN_BATCHES,
	 .holds = HOLD_SERVERS, .lead = LEAD_IN_SERVER, .cut = CUT_PARTS, .backup = 1,
	 .cut_limit = DEADLINE_CUT, .finish_limit = DEADLINE_FINISH},

	{.name = JOB_ALLREDUCE, .program = "worker", .given = GIVEN_BATCHES,
	 .holds = HOLD_REPLICAS, .lead = LEAD_ALONE, .cut = CUT_PARTS, .backup = 1,
	 .cut_limit = DEADLINE_CUT, .finish_limit = DEADLINE_FINISH,
	 .servers_stay = "with SYNC=" JOB_ALLREDUCE " replicas have all"},

	{.name = "loop", .program = "agent", .foreign = 1, .given = GIVEN_WORDS,
	 .does = "asks for batches, and saves what it has learnt",
	 .holds = HOLD_TRAINERS, .lead = LEAD_ALONE, .cut = CUT_SAVED, .goes_back = 1,
	 .cut_limit = DEADLINE_SAVE, .finish_limit = DEADLINE_TRAINED,
	 .workers_stay = "TRAINER_KIND=loop: trainers have parameters, and know how many they are; "
			 "`trainctl stop`, which saves, then the same with WORKERS=%llu: a new trainer "
			 "begins with what the first one has saved",
	 .servers_stay = "its trainers are your own",
	 .hosts_stay = "TRAINER_KIND=loop: trainers have parameters; stop the job, change HOSTS, and "
		       "run it again"},

	{.name = SUMS, .program = "agent", .foreign = 1, .given = GIVEN_WORDS,
	 .does = "asks for batches, has its gradients summed, and saves what it has learnt",
	 .holds = HOLD_REPLICAS, .sums = 1, .lead = LEAD_ALONE, .cut = CUT_SAVED,
	 .cut_limit = DEADLINE_SAVE, .finish_limit = DEADLINE_TRAINED,
	 .servers_stay = "its trainers are your own"},

	{.name = "each", .program = "agent", .foreign = 1, .given = GIVEN_SHARD,
	 .does = "once for each shard",
	 .holds = HOLD_NOBODY, .lead = LEAD_NONE, .cut = CUT_NONE,
	 .finish_limit = DEADLINE_FINISH, .servers_stay = "its trainers are your own"},

	{.name = "rows", .program = "agent", .foreign = 1, .given = GIVEN_ROWS,
	 .does = "rows on standard input",
	 .holds = HOLD_NOBODY, .lead = LEAD_NONE, .cut = CUT_NONE,
	 .finish_limit = DEADLINE_FINISH, .servers_stay = "its trainers are your own"},
};

const struct job_kind *job_kind(const struct job *job)
{
	int sums = strcmp(job->sync, JOB_ALLREDUCE) == 0;
	const char *name = !job->trainer[0] ? (sums ? JOB_ALLREDUCE : "servers")
			   : sums && strcmp(job->trainer_kind, "loop") == 0 ? SUMS
									    : job->trainer_kind;
	size_t i = 0;
	while (i + 1 < sizeof kinds / sizeof *kinds && strcmp(kinds[i].name, name) != 0)
		i++;
	return &kinds[i];
}

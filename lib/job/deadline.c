/* deadline: see deadline.h. */
#include "job/deadline.h"

#include <stdio.h>

static const struct {
	const char *name;
	double seconds;
	const char *what;
} table[DEADLINES] = {
	[DEADLINE_READY] = {"start", 600,
			    "a started node answers, or a worker has done a batch (HUNG)"},
	[DEADLINE_BATCH] = {"batch", 30, "a worker has done a batch; or 20 times its usual time "
					 "(HUNG)"},
	[DEADLINE_EXCHANGE] = {"exchange", 30,
			       "a daemon answers, a worker goes on; or 20 times its usual time "
			       "(HUNG)"},
	[DEADLINE_STALL] = {"checkpoint", 120, "a daemon answers during a checkpoint (HUNG)"},
	[DEADLINE_HANDOVER] = {"hand-over", 60,
			       "a server has given its state to its next process (HUNG)"},
	[DEADLINE_PAUSE] = {"pause", 1800,
			    "a TRAINER's pause ends, if it named no limit (HUNG)"},
	[DEADLINE_TRAINER] = {"trainer", 600,
			      "a TRAINER has done a batch; or 20 times its usual time (HUNG)"},
	[DEADLINE_STOPPED] = {"stopped", 10,
			      "a stopped node (SIGSTOP) that owes something goes on (HUNG)"},
	[DEADLINE_GONE] = {"gone", 10, "a killed node has ended; then its parent is killed, too"},
	[DEADLINE_ANSWER] = {"answer", 30, "a daemon answers; then its connection is made anew"},
	[DEADLINE_CUT] = {"cut", 900, "a checkpoint is written; then it is tried again"},
	[DEADLINE_SAVE] = {"save", 1860,
			   "TRAINERs have written a checkpoint; until then none counts as hung"},
	[DEADLINE_ACT] = {"actions", 120, "actions reach the workers; then they are dropped"},
	[DEADLINE_STOP] = {"stop", 10, "a node ends after SIGTERM; then SIGKILL"},
	[DEADLINE_FINISH] = {"finish", 60,
			     "workers leave after the final checkpoint; then SIGTERM"},
	[DEADLINE_TRAINED] = {"trained", 3600,
			      "TRAINERs end after the final checkpoint; then SIGTERM"},
	[DEADLINE_SOLUTION] = {"solution", 10, "an executable SOLUTION decides; then it is killed"},
	[DEADLINE_SCORE] = {"score", 3600, "predict and auc score TEST; then they are killed"},
	[DEADLINE_STRAY] = {"stray", 30,
			    "other clients finish the last rows; then the rows are handed out "
			    "again"},
	[DEADLINE_SCRAPE] = {"scrape", 5,
			     "a client has its METRICS over HTTP; then its connection is closed"},
	[DEADLINE_HOST] = {"host", 5, "a host answers; after 5 to 30 s more its nodes move to "
				      "other hosts"},
	[DEADLINE_HOST_AGAIN] = {"host-again", 15,
				 "a host that is gone is asked again; at the end of the job, it is given up"},
	[DEADLINE_FABRIC] = {"fabric", 30, "the fabric connects the hosts; then it starts again"},
	[DEADLINE_HOSTS] = {"hosts", 60, "every host has answered before a start"},
	[DEADLINE_SCALE] = {"scale", 120,
			    "new nodes are up; then servers are given up, and workers join later"},
	[DEADLINE_MOVE] = {"move", 2400,
			   "a piece of parameters has moved between servers; then all go back"},
	[DEADLINE_ADOPT] = {"adopt", 5, "a node that an earlier trainctl was starting is up"},
};

double deadline_seconds(enum deadline which)
{
	return table[which].seconds;
}

int deadline_rules(struct pulse_rules *rules, const char *hung, struct error *err)
{
	static const enum deadline of[PULSE_SECTIONS] = {
		[PULSE_START] = DEADLINE_READY,
		[PULSE_BATCH] = DEADLINE_BATCH,
		[PULSE_EXCHANGE] = DEADLINE_EXCHANGE,
		[PULSE_CHECKPOINT] = DEADLINE_STALL,
		[PULSE_HANDOVER] = DEADLINE_HANDOVER,
		[PULSE_PAUSE] = DEADLINE_PAUSE,
	};
	*rules = (struct pulse_rules){0};
	for (int i = 0; i < PULSE_SECTIONS; i++)
		rules->least[i] = deadline_seconds(of[i]);
	return pulse_rules_parse(rules, hung, err);
}

/* Parsed again, because a single number counts for checkpoints only if it is longer than this. */
int deadline_rules_saving(struct pulse_rules *rules, const char *hung, struct error *err)
{
	*rules = (struct pulse_rules){0};
	for (int i = 0; i < PULSE_SECTIONS; i++)
		rules->least[i] = deadline_seconds(DEADLINE_SAVE);
	return pulse_rules_parse(rules, hung, err);
}

double deadline_stopped(const struct pulse_rules *rules, enum pulse_section section)
{
	return rules->fixed[section] ? rules->least[section] : deadline_seconds(DEADLINE_STOPPED);
}

void deadline_text(char *out, size_t out_max)
{
	size_t at = 0;
	out[0] = '\0';
	for (size_t i = 0; i < DEADLINES && at < out_max; i++) {
		int n = snprintf(out + at, out_max - at, "%s  %-12s %4g s  until %s", i ? "\n" : "",
				 table[i].name, table[i].seconds, table[i].what);
		at += n > 0 ? (size_t)n : 0;
	}
}

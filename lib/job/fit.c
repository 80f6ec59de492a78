/* fit: see fit.h. */
#include "job/fit.h"

#include "job/kind.h"

#include <string.h>

static int job_fit_is(const char *value, const char *word)
{
	return strcmp(value, word) == 0;
}

static int is_backup(const struct job *job)
{
	return strncmp(job->solution, "backup:", 7) == 0;
}

/* ---- refused ---- */

static int backup_of_trainer(const struct job *job)
{
	return is_backup(job) && !job_kind(job)->backup;
}

static int backup_without_barrier(const struct job *job)
{
	return is_backup(job) && !job_has_barrier(job);
}

static int dd_of_trainer(const struct job *job)
{
	return job_fit_is(job->solution, "antdt-dd") && job_kind(job)->foreign;
}

static int profile_of_trainer(const struct job *job)
{
	return job_fit_is(job->profile, "on") && job_kind(job)->foreign;
}

static int brain_without_servers(const struct job *job)
{
	return job_has_brain(job) && job_kind(job)->holds != HOLD_SERVERS;
}

static int brain_of_partitions(const struct job *job)
{
	return job_has_brain(job) && job_is_local(job);
}

static int rebalance_without_servers(const struct job *job)
{
	return job_fit_is(job->rebalance, "on") && job_kind(job)->holds != HOLD_SERVERS;
}

static int delay_of_more(const struct job *job)
{
	return job_overlaps(job) && job->delay_max > 1;
}

static int late_without_delay(const struct job *job)
{
	return job->late > 0 && !job_overlaps(job);
}

static int overlap_of_documents(const struct job *job)
{
	return job_has_documents(job) && job_overlaps(job);
}

static int delay_at_barrier(const struct job *job)
{
	return job_fit_is(job->schedule, "adadelay") && job_has_barrier(job);
}

static int standby_without_servers(const struct job *job)
{
	return job_fit_is(job->standby, "on") && job_kind(job)->holds != HOLD_SERVERS;
}

static int documents_without_barrier(const struct job *job)
{
	return job_has_documents(job) && !job_has_barrier(job);
}

static int documents_of_partitions(const struct job *job)
{
	return job_has_documents(job) && job_is_local(job);
}

static int documents_of_another(const struct job *job)
{
	return job_has_documents(job) && job->init[0];
}

/* ---- told ---- */

static int divergence_of_none(const struct job *job)
{
	return job->divergence > 0 && job_fit_is(job->standby, "off");
}

static int dd_without_profile(const struct job *job)
{
	return job_fit_is(job->solution, "antdt-dd") && job_fit_is(job->profile, "off");
}

static int lb_of_trainer(const struct job *job)
{
	return job_fit_is(job->solution, "lb-bsp") && job_kind(job)->foreign;
}

static int lb_gpu_of_trainer(const struct job *job)
{
	return job_fit_is(job->solution, "lb-bsp-gpu") && job_kind(job)->foreign;
}

static int predicts(const struct job *job)
{
	return job_fit_is(job->solution, "lb-bsp") && !job_kind(job)->foreign;
}

/* A default is not the user's wish: a job file that trainctl has written has all keys. */
static int predict_of_none(const struct job *job)
{
	return !predicts(job) && !job_fit_is(job->predict, "mix") &&
	       !job_fit_is(job->predict, "none");
}

static int predict_from_of_none(const struct job *job)
{
	return !predicts(job) && job->predict_from[0];
}

static int fabric_of_none(const struct job *job)
{
	return job_fit_is(job->fabric, "mlfabric") && job_kind(job)->holds != HOLD_REPLICAS &&
	       !job_by_links(job);
}

static int delay_of_few(const struct job *job)
{
	return job_bounds_delay(job) && job->delay_max < job->workers;
}

static int data_compressed(const struct job *job)
{
	for (size_t i = 0; i < job->data.count; i++)
		if (job_packed(job->data.item[i]) > 0)
			return 1;
	return 0;
}

static const struct row {
	const char *key;
	int (*holds)(const struct job *job);
	enum job_fit fit;
	const char *text;
} table[] = {
	{"SOLUTION", backup_of_trainer, JOB_FIT_REFUSED,
	 "SOLUTION=backup:N leaves batches out, but a TRAINER's model has learnt from them "
	 "already, and would train these rows once more: use SOLUTION=antdt-nd or pace, which give "
	 "a slow trainer fewer rows"},
	{"SOLUTION", backup_without_barrier, JOB_FIT_REFUSED,
	 "SOLUTION=backup:N ends iterations without the slowest workers; only SYNC=bsp and "
	 "SYNC=allreduce have iterations that end"},
	{"SOLUTION", dd_of_trainer, JOB_FIT_REFUSED,
	 "SOLUTION=antdt-dd needs measurements of the device, which only workers of the kit make: "
	 "with TRAINER use SOLUTION=antdt-nd or pace"},
	{"SOLUTION profile", profile_of_trainer, JOB_FIT_REFUSED,
	 "SOLUTION=profile:on lets workers of the kit measure their devices, but a TRAINER "
	 "measures nothing: use profile:off"},
	{"BRAIN", brain_without_servers, JOB_FIT_REFUSED,
	 "BRAIN finds how many workers and servers there are; with TRAINER or SYNC=allreduce there are "
	 "no servers: BRAIN=off"},
	{"BRAIN", brain_of_partitions, JOB_FIT_REFUSED,
	 "BRAIN finds how many workers and servers there are; with PARTITIONS=local there is a "
	 "worker for each file of DATA: BRAIN=off"},
	{"REBALANCE", rebalance_without_servers, JOB_FIT_REFUSED,
	 "REBALANCE moves keys between servers; with TRAINER or SYNC=allreduce there are no "
	 "servers: REBALANCE=off"},
	{"OPTIMIZER schedule", delay_at_barrier, JOB_FIT_REFUSED,
	 "OPTIMIZER=schedule:adadelay is for SYNC=asp and ssp: with bsp and allreduce no push has a delay, "
	 "or all have the same, so schedule:sqrt is the same (adagrad: constant)"},
	{"SYNC delay", delay_of_more, JOB_FIT_REFUSED,
	 "SYNC=allreduce,delay:N: while workers compute one batch, one sum is made, so N is 1 at "
	 "most"},
	{"SYNC late", late_without_delay, JOB_FIT_REFUSED,
	 "SYNC late drops what a worker computes while the sum before is made, which is SYNC "
	 "delay:1: SYNC=allreduce,delay:1,late:N"},
	{"SYNC delay", overlap_of_documents, JOB_FIT_REFUSED,
	 "MODEL=lda takes a document's last topics back before it draws new ones, so what the last "
	 "batch has changed must be in what a worker pulls: SYNC=allreduce without delay"},
	{"SERVERS standby", standby_without_servers, JOB_FIT_REFUSED,
	 "SERVERS=standby:on is for parameter servers; with TRAINER or SYNC=allreduce there are "
	 "none: standby:off"},
	{"SYNC", documents_without_barrier, JOB_FIT_REFUSED,
	 "MODEL=lda takes a document's last topics back before it draws new ones, so what the last "
	 "pass has committed must be in what a worker pulls: SYNC=bsp or SYNC=allreduce"},
	{"PARTITIONS", documents_of_partitions, JOB_FIT_REFUSED,
	 "MODEL=lda trains every document once in each pass; with PARTITIONS=local fast workers "
	 "begin the next pass earlier: PARTITIONS=shared"},
	{"INIT", documents_of_another, JOB_FIT_REFUSED,
	 "INIT: the parameters of MODEL=lda have the topics of each document of DATA, and nobody "
	 "knows whether those of another checkpoint are of these documents"},
	{"SERVERS divergence", divergence_of_none, JOB_FIT_TOLD,
	 "without standby:on no server has a standby: divergence changes nothing"},
	{"SOLUTION profile", dd_without_profile, JOB_FIT_TOLD,
	 "with SOLUTION=profile:off no worker measures its device, so SOLUTION=antdt-dd can't "
	 "decide unless the monitor gets device records from elsewhere"},
	{"SOLUTION", lb_of_trainer, JOB_FIT_TOLD,
	 "SOLUTION=lb-bsp: a TRAINER does not predict its speed, so the speed of its last batch is "
	 "used"},
	{"SOLUTION", lb_gpu_of_trainer, JOB_FIT_TOLD,
	 "SOLUTION=lb-bsp-gpu respects the memory of a device only if the TRAINER says mem= with "
	 "each step, see agent(1)"},
	{"SOLUTION predict", predict_of_none, JOB_FIT_TOLD,
	 "SOLUTION predict has no effect here: workers of the kit predict their speeds, for "
	 "SOLUTION=lb-bsp"},
	{"PREDICT_FROM", predict_from_of_none, JOB_FIT_TOLD,
	 "PREDICT_FROM has no effect here: workers of the kit predict their speeds, for "
	 "SOLUTION=lb-bsp"},
	{"FABRIC", fabric_of_none, JOB_FIT_TOLD,
	 "FABRIC=mlfabric has no effect here: it is about sums over hosts, which only "
	 "SYNC=allreduce has, and about pushes with a bound of their delay, SYNC delay"},
	{"SYNC delay", delay_of_few, JOB_FIT_TOLD,
	 "SYNC delay is smaller than WORKERS: between a slow worker's pull and its push all others "
	 "push, so most of its pushes are dropped and their rows are trained again"},
	{"DATA", data_compressed, JOB_FIT_TOLD,
	 "DATA is compressed, so a worker must also decompress rows before its own (in a .zst, those "
	 "of its frame: zstd writes one frame, pzstd frames of a few MB): text may train several "
	 "times as fast (zcat FILE > FILE.csv; zstdcat of .zst)"},
};

enum job_fit job_fit(const struct job *job, size_t i, const char *path, struct error *what)
{
	if (i >= sizeof table / sizeof *table)
		return JOB_FIT_OVER;
	const struct row *row = &table[i];
	if (!row->holds(job))
		return JOB_FIT_FINE;
	error_set(what, ERROR_CONFIG, job_place(job, row->key, path), "%s", row->text);
	return row->fit;
}

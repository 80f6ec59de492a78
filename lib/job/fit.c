/* fit: see fit.h. */
#include "job/fit.h"

#include "base/option.h"
#include "data/format.h"
#include "job/keys.h"
#include "job/kind.h"
#include "param/opt.h"

#include <stdio.h>
#include <stdlib.h>
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

static int backup_of_sums(const struct job *job)
{
	return is_backup(job) && job_kind(job)->sums;
}

static int backup_of_trainer(const struct job *job)
{
	return is_backup(job) && !job_kind(job)->backup;
}

static int backup_without_barrier(const struct job *job)
{
	return is_backup(job) && !job_has_barrier(job);
}

static int drag_of_trainer(const struct job *job)
{
	return job->drag[0] && job_kind(job)->foreign;
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

static int dd_without_profile(const struct job *job)
{
	return job_fit_is(job->solution, "antdt-dd") && job_fit_is(job->profile, "off");
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
	{"SOLUTION", backup_of_sums, JOB_FIT_REFUSED,
	 "SOLUTION=backup:N ends iterations without the slowest workers, but a TRAINER that is left out "
	 "lacks a step, and would need the state of another one, for which all wait: use SOLUTION=antdt-nd "
	 "or pace, which give a slow one fewer rows"},
	{"SOLUTION", backup_of_trainer, JOB_FIT_REFUSED,
	 "SOLUTION=backup:N leaves batches out, but a TRAINER's model has learnt from them "
	 "already, and would train these rows once more: use SOLUTION=antdt-nd or pace, which give "
	 "a slow trainer fewer rows"},
	{"SOLUTION", backup_without_barrier, JOB_FIT_REFUSED,
	 "SOLUTION=backup:N ends iterations without the slowest workers; only SYNC=bsp and "
	 "SYNC=allreduce have iterations that end"},
	{"DRAG", drag_of_trainer, JOB_FIT_REFUSED,
	 "DRAG slows workers and servers of the kit; with TRAINER there are none"},
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
	{"SOLUTION profile", dd_without_profile, JOB_FIT_TOLD,
	 "with SOLUTION=profile:off no device is measured, so SOLUTION=antdt-dd can't "
	 "decide unless the monitor gets device records from elsewhere"},
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

/* ---- told: keys without an effect ---- */

static int holds_servers(const struct job *job)
{
	return job_kind(job)->holds == HOLD_SERVERS;
}

static int holds_parts(const struct job *job)
{
	return holds_servers(job) || job_kind(job)->holds == HOLD_REPLICAS;
}

static int has_standby(const struct job *job)
{
	return job_fit_is(job->standby, "on");
}

static int has_lead(const struct job *job)
{
	return job_kind(job)->lead != LEAD_NONE;
}

static int has_checkpoints(const struct job *job)
{
	return job_kind(job)->cut != CUT_NONE;
}

/* Of a job without checkpoints another row tells. */
static int is_not_saved(const struct job *job)
{
	return job_kind(job)->cut != CUT_SAVED;
}

static int predicts(const struct job *job)
{
	return job_fit_is(job->solution, "lb-bsp") && has_lead(job);
}

static int predicts_from(const struct job *job)
{
	return predicts(job) && !job_fit_is(job->predict, "none");
}

static int is_kit(const struct job *job)
{
	return !job_kind(job)->foreign;
}

/* LABEL tells of what format a .tsv is, and then which line is its header. */
static int reads_label(const struct job *job)
{
	return !job_kind(job)->foreign || (job->data.count > 0 && job_fit_is(job->format, "tsv"));
}

/* "lines" is what job_finish() gives a TRAINER. */
static int reads_format(const struct job *job)
{
	return job->data.count > 0 || job_fit_is(job->format, JOB_LINES);
}

static int has_optimizer(const struct job *job)
{
	return job_kind(job)->foreign || model_takes_labels(job->model);
}

static int is_foreign(const struct job *job)
{
	return job_kind(job)->foreign;
}

static int gives_rows(const struct job *job)
{
	enum kind_given given = job_kind(job)->given;
	return !is_foreign(job) || given == GIVEN_ROWS ||
	       (given == GIVEN_SHARD && job->data.count > 0);
}

static int may_pause(const struct job *job)
{
	return job_kind(job)->given == GIVEN_WORDS;
}

static int has_sums(const struct job *job)
{
	return job_kind(job)->holds == HOLD_REPLICAS;
}

static int is_scaled(const struct job *job)
{
	return !job_kind(job)->workers_stay && !job_is_local(job);
}

static int fit_rebalances(const struct job *job)
{
	return job_fit_is(job->rebalance, "on");
}

static int fit_has_text(const struct job *job)
{
	struct row_syntax syntax;
	return job_row_syntax(job, &syntax, NULL) != 0 || !row_is_image(syntax);
}

/* "KEY *": the key and all its parts. works: whether the keys have an effect in this job. */
static const struct idle {
	const char *const keys[10];
	int (*works)(const struct job *job);
	const char *text;
} idle[] = {
	{{"MODEL *", "OPTIMIZER *", "BAD_ROWS *", "POSITIVE", "NEGATIVE", "DENSE", "SPARSE",
	  "WEIGHT", "MISSING", "FORMAT cache"},
	 is_kit, "a TRAINER has a model of its own, and reads its rows itself"},
	{{"FORMAT", "FORMAT separator"}, reads_format, "there is no DATA, only SAMPLES"},
	{{"WORKERS device"}, is_kit, "a TRAINER chooses its device itself"},
	{{"MODEL scale", "FORMAT cache"}, fit_has_text,
	 "bytes of images are divided by 255, and are as quick to read as a cache"},
	{{"LABEL"}, reads_label, "a TRAINER reads its rows itself"},
	{{"OPTIMIZER *", "BAD_ROWS classes"}, has_optimizer,
	 "MODEL=lda and audit count; they have neither a learning rate nor classes"},
	{{"BATCH scaling"}, is_scaled, "the workers of such a job can't be scaled"},
	{{"PARTITIONS migrate"}, job_is_local, "rows move only with PARTITIONS=local"},
	{{"SYNC", "WORKERS ahead", "MONITOR report", "SOLUTION every", "SOLUTION profile"}, has_lead,
	 "commands of TRAINER_KIND=each and rows have no iterations"},
	{{"SERVERS"}, holds_servers,
	 "with TRAINER or SYNC=" JOB_ALLREDUCE " there are no parameter servers"},
	{{"SERVERS cores", "SERVERS memory", "LAUNCH_SERVER"}, holds_parts,
	 "with TRAINER there are no parameter servers"},
	{{"SERVERS divergence"}, has_standby, "without standby:on no server has a standby"},
	{{"SOLUTION predict"}, predicts,
	 "speeds are predicted for SOLUTION=lb-bsp"},
	{{"PREDICT_FROM"}, predicts_from,
	 "speeds are predicted for SOLUTION=lb-bsp without predict:none"},
	{{"HUNG hand-over"}, holds_servers, "only parameter servers hand over"},
	{{"HUNG pause"}, may_pause, "only a TRAINER of TRAINER_KIND=loop pauses"},
	{{"CHECKPOINT *", "RESTARTS rollbacks", "HUNG checkpoint"}, has_checkpoints,
	 "commands of TRAINER_KIND=each and rows have no checkpoints"},
	{{"CHECKPOINT full", "CHECKPOINT level"}, is_not_saved,
	 "what is in a checkpoint is what the TRAINER saves"},
	{{"FABRIC rounds"}, has_sums, "only SYNC=" JOB_ALLREDUCE " sums gradients over hosts"},
	{{"TRAINER_KIND", "TRAINER_KIND grace", "TRAINER_KIND header"}, is_foreign, "there is no TRAINER"},
	{{"TRAINER_KIND header"}, gives_rows, "a TRAINER gets rows of DATA only by TRAINER_KIND=rows and each"},
	{{"BRAIN every", "BRAIN gain", "BRAIN limit", "BRAIN cores", "BRAIN node-cores", "BRAIN memory",
	  "BRAIN node-memory"},
	 job_has_brain, "without BRAIN nothing is planned"},
	{{"REBALANCE every", "REBALANCE gain", "REBALANCE limit"}, fit_rebalances,
	 "without REBALANCE=on no keys move"},
};

/* A default is not the user's wish: a job file that trainctl has written has all keys, and the rate
 * in place of auto. */
static int is_wish(const struct job *job, const struct key_row *row)
{
	if (job_fit_is(row->name, "OPTIMIZER lr") && job->lr == opt_usual_lr(job->optimizer))
		return 0;
	char *value = job_is_given(job, row->name) ? key_text(job, row) : NULL;
	int result = value && strcmp(value, row->given) != 0;
	free(value);
	return result;
}

/* Tells of those keys of the row that somebody has given, in one line. */
static enum job_fit look_at_idle(const struct job *job, const struct idle *row, const char *path,
				 struct error *what)
{
	char names[256] = "";
	const char *place = NULL;
	size_t count = 0;
	for (size_t i = 0;
	     !row->works(job) && i < sizeof row->keys / sizeof *row->keys && row->keys[i]; i++) {
		size_t len = strcspn(row->keys[i], " ");
		int all = job_fit_is(row->keys[i] + len, " *");
		const struct key_row *key =
			all ? key_family(row->keys[i], len) : key_find(row->keys[i]);
		for (; key; key = all ? key_next(key) : NULL) {
			size_t at = strlen(names);
			if (!is_wish(job, key))
				continue;
			snprintf(names + at, sizeof names - at, "%s%s", count++ > 0 ? ", " : "",
				 key->name);
			if (!place)
				place = job_place(job, key->name, path);
		}
	}
	if (count == 0)
		return JOB_FIT_FINE;
	error_set(what, ERROR_CONFIG, place, "%s %s no effect here: %s", names,
		  count > 1 ? "have" : "has", row->text);
	return JOB_FIT_TOLD;
}

enum job_fit job_fit(const struct job *job, size_t i, const char *path, struct error *what)
{
	size_t count = sizeof table / sizeof *table;
	if (i >= count + sizeof idle / sizeof *idle)
		return JOB_FIT_OVER;
	if (i >= count)
		return look_at_idle(job, &idle[i - count], path, what);
	const struct row *row = &table[i];
	if (!row->holds(job))
		return JOB_FIT_FINE;
	error_set(what, ERROR_CONFIG, job_place(job, row->key, path), "%s", row->text);
	return row->fit;
}

/*
 * job: see job.h.  Must never touch what the keys name (no file but the job file is opened here):
 * whether data and directories are there is for those that use them.
 */
#include "job/job.h"

#include "base/fs.h"
#include "base/near.h"
#include "base/number.h"
#include "base/option.h"
#include "base/words.h"
#include "data/format.h"
#include "job/deadline.h"
#include "job/hosts.h"
#include "job/jobtext.h"
#include "job/metrics_to.h"
#include "model/model.h"
#include "predict/predict.h"
#include "proc/launcher.h"
#include "proc/limits.h"
#include "solve/balance.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOB_FILE_MAX (1u << 20)
#define JOB_LIST_MAX 65536
#define ALLREDUCE "allreduce"
#define SYNC_CHOICES "bsp|ssp:N|asp|" ALLREDUCE
#define LINES "lines" /* of FORMAT, with TRAINER */
#define CHANGE_SHOWN 24 /* bytes of a value in job_compare()'s text */

enum kind {
	ID,
	TEXT,
	CHOICE,
	COUNT,
	REAL,
	BYTES,
	NUMBERS,
	FILES,   /* that are there */
	PATH,    /* of one that is there */
	PLACE,   /* of one that may come later */
	PROGRAM, /* of an executable, or a word */
	SYNC,
	BAD_ROWS,
	DEADLINES_OF,
	METRICS_OF,
	HOSTS_OF,
	PLACING,
	TEMPLATE
};

struct row {
	const char *key;
	enum kind kind;
	size_t at;         /* offset in struct job */
	const char *given; /* default, as text; NULL: must be given or is found in job_finish() */
	double min, max;
	const char *choices; /* of CHOICE; of others what --help shows and completion offers */
	enum job_change change;
	const char *help;
};

#define AT(field) offsetof(struct job, field)
#define FREE JOB_CHANGE_FREE
#define STOPPED JOB_CHANGE_STOPPED
#define FRESH JOB_CHANGE_FRESH

static const struct row own_rows[] = {
	{"JOB", ID, AT(name), "", 0, 0, NULL, FRESH, "name of the job"},
	{"DATA", FILES, AT(data), "", 0, 0, NULL, FRESH, "training data, one file or several"},
	{"FORMAT", CHOICE, AT(format), "", 0, 0, ROW_FORMAT_CHOICES "|" LINES, FRESH,
	 "of DATA and TEST"},
	{"SEPARATOR", TEXT, AT(separator), "", 0, 0, NULL, FRESH,
	 "between two columns: a character, or tab (csv)"},
	{"LABEL", TEXT, AT(label), "", 0, 0, NULL, FRESH, "label column (csv, tsv)"},
	{"DENSE", TEXT, AT(dense), "", 0, 0, NULL, FRESH, "numeric columns (csv, tsv)"},
	{"SPARSE", TEXT, AT(sparse), "", 0, 0, NULL, FRESH, "category columns (csv, tsv)"},
	{"WEIGHT", TEXT, AT(weight), "", 0, 0, NULL, FRESH, "column of sample weights (csv, tsv)"},
	{"POSITIVE", TEXT, AT(positive), "", 0, 0, NULL, FRESH, "label value that means 1"},
	{"NEGATIVE", TEXT, AT(negative), "", 0, 0, NULL, FRESH, "label value that means 0"},
	{"MISSING", TEXT, AT(missing), "", 0, 0, NULL, FRESH,
	 "values that mean there is none, like NA,? (csv, tsv)"},
	{"DENSE_SCALE", CHOICE, AT(dense_scale), "log-z", 0, 0, "log-z|z|none", FRESH,
	 "scaling of dense columns"},
	{"CLASSES", CHOICE, AT(classes), "both", 0, 0, "both|any", FREE,
	 "labels that DATA must hold: 0 and 1, or any"},
	{"BAD_ROWS", BAD_ROWS, AT(bad_rows), "stop", 0, 0, "stop|skip:N", FREE,
	 "what becomes of rows that can't be read: at most N are left out"},
	{"TEST", FILES, AT(test), "", 0, 0, NULL, FREE, "data scored at the end"},
	{"MODEL", CHOICE, AT(model), "lr", 0, 0, MODEL_CHOICES, FRESH, "what is trained"},
	{"EMBED", COUNT, AT(embed), "16", 1, 1024, NULL, FRESH, "embedding width (wdl)"},
	{"HIDDEN", NUMBERS, AT(hidden), "64,32", 1, 65536, NULL, FRESH, "hidden layers (wdl)"},
	{"HASH_BITS", COUNT, AT(hash_bits), "20", 1, 31, NULL, FRESH, "2^N hashed categories"},
	{"L2", REAL, AT(l2), "0", 0, 1e6, NULL, STOPPED, "L2 penalty"},
	{"INIT", PATH, AT(init), "", 0, 0, NULL, FRESH, "checkpoint to start from"},
	{"OPTIMIZER", CHOICE, AT(optimizer), "adagrad", 0, 0, "sgd|momentum|adagrad|adam|ftrl",
	 FRESH, "how gradients are applied"},
	{"LR", REAL, AT(lr), NULL, 1e-30, 1e6, NULL, STOPPED, "learning rate"},
	{"BATCH", COUNT, AT(batch), "1024", 1, 1e9, NULL, FRESH, "global batch, samples"},
	{"BATCHES_PER_SHARD", COUNT, AT(batches_per_shard), "100", 1, 1e9, NULL, FRESH,
	 "global batches in one shard"},
	{"EPOCHS", COUNT, AT(epochs), "1", 1, 1e9, NULL, FRESH, "passes over DATA"},
	{"SHUFFLE", CHOICE, AT(shuffle), "none", 0, 0, "none|shards|samples", FRESH,
	 "order of samples"},
	{"PARTITIONS", CHOICE, AT(partitions), "shared", 0, 0, "shared|local", FRESH,
	 "local: each worker trains its own file of DATA only"},
	{"MIGRATE", REAL, AT(migrate), "2", 0, 1e9, NULL, STOPPED,
	 "rows move when passes of workers over their data differ by more, 0: never"},
	{"SEED", COUNT, AT(seed), "1", 0, 0, NULL, FRESH, "seed of every random choice"},
	{"SHARD_RETRIES", COUNT, AT(shard_retries), "3", 0, 1e6, NULL, FRESH,
	 "data on which so many workers died are left out, 0: never"},
	{"EVAL_EVERY", REAL, AT(eval_every), "0", 0, 1e9, NULL, FREE,
	 "seconds between scorings of TEST, 0: only at the end"},
	{"PATIENCE", COUNT, AT(patience), "0", 0, 1e9, NULL, FREE,
	 "so many scorings without a better AUC end the job, 0: never"},
	{"MAX_TIME", REAL, AT(max_time), "0", 0, 1e9, NULL, FREE,
	 "seconds after which the job ends as it is, all starts together, 0: never"},
	{"WORKERS", COUNT, AT(workers), "2", 1, 1024, NULL, STOPPED, "worker nodes"},
	{"SERVERS", COUNT, AT(servers), "1", 1, 64, NULL, STOPPED, "parameter servers"},
	{"HOT_SPARES", COUNT, AT(hot_spares), "0", 0, 64, NULL, STOPPED,
	 "workers that stand ready, and take a dead one's place"},
	{"BATCH_SCALING", CHOICE, AT(batch_scaling), "keep", 0, 0, "keep|linear|sqrt", STOPPED,
	 "what becomes of BATCH and LR when the job is scaled"},
	{"SYNC", SYNC, AT(sync), "bsp", 0, 0, SYNC_CHOICES, STOPPED,
	 "how far workers may be apart"},
	{"SOLUTION", PROGRAM, AT(solution), "none", 0, 0, "NAME|FILE", FREE,
	 "who decides: a name (trainctl solve --help), or the path of an executable"},
	{"EVERY", REAL, AT(every), "60", 0.1, 1e9, NULL, FREE, "seconds between decisions"},
	{"SHORT", REAL, AT(shorter), "300", 0.1, 1e9, NULL, STOPPED, "the monitor's short window, seconds"},
	{"LONG", REAL, AT(longer), "600", 0.1, 1e9, NULL, STOPPED, "the monitor's long window, seconds"},
	{"HEAVY_WINDOW", REAL, AT(heavy_window), NULL, 0, 1e9, NULL, FREE,
	 "seconds in which a solution restarts a node at most once"},
	{"HEAVY_COOLDOWN", REAL, AT(heavy_cooldown), "0", 0, 1e9, NULL, FREE,
	 "seconds between such restarts of any nodes"},
	{"HEAVY_LIMIT", COUNT, AT(heavy_limit), "3", 0, 1e6, NULL, FREE,
	 "how many such restarts a node may have, 0: none"},
	{"BRAIN", PROGRAM, AT(brain), "off", 0, 0, "off|on|FILE", FREE,
	 "who finds how many workers and servers of which size: res-plan, or an executable"},
	{"PLAN_EVERY", REAL, AT(plan_every), "60", 0.1, 1e9, NULL, FREE,
	 "seconds between two changes by BRAIN at least"},
	{"PLAN_GAIN", REAL, AT(plan_gain), "0.05", 0, 100, NULL, FREE,
	 "a change by BRAIN is expected to make the job faster by this part"},
	{"PLAN_LIMIT", COUNT, AT(plan_limit), "20", 0, 1e6, NULL, FREE,
	 "changes by BRAIN at most, 0: none, it is only asked"},
	{"CORES", COUNT, AT(cores), "0", 0, 100000, NULL, FREE,
	 "cores that BRAIN may give to all nodes together, 0: those of the hosts"},
	{"NODE_CORES", COUNT, AT(node_cores), "0", 0, 100000, NULL, FREE,
	 "cores that BRAIN may give to one node, 0: those of the largest host"},
	{"MEMORY", BYTES, AT(memory), "0", 0, 9e15, NULL, FREE,
	 "memory that BRAIN may give to all nodes together, 500G for example, 0: any"},
	{"NODE_MEMORY", BYTES, AT(node_memory), "0", 0, 9e15, NULL, FREE,
	 "memory that BRAIN may give to one node, 0: any"},
	{"REBALANCE", CHOICE, AT(rebalance), "off", 0, 0, "off|on", FREE,
	 "a server that has more to do than the others gives some of its keys away"},
	{"REBALANCE_EVERY", REAL, AT(rebalance_every), "60", 0.1, 1e9, NULL, FREE,
	 "seconds between two looks at what servers have to do"},
	{"REBALANCE_GAIN", REAL, AT(rebalance_gain), "0.2", 0, 1, NULL, FREE,
	 "keys move if the busiest server has less to do then, by this part"},
	{"REBALANCE_LIMIT", COUNT, AT(rebalance_limit), "20", 0, 1e6, NULL, FREE,
	 "how many times keys move for it at most, 0: never"},
	{"REPORT_EVERY", COUNT, AT(report_every), "10", 1, 1e9, NULL, FREE,
	 "iterations between a worker's reports"},
	{"AHEAD", COUNT, AT(ahead), "4", 1, 1024, NULL, FREE,
	 "batches that a worker reserves in advance"},
	{"PREDICT", CHOICE, AT(predict), "auto", 0, 0, "none|" PREDICT_CHOICES, FREE,
	 "how workers predict their speeds (lb-bsp)"},
	{"PREDICT_FROM", PATH, AT(predict_from), "", 0, 0, NULL, FREE,
	 "predictions start from this: STATE of another job, or a file"},
	{"PROFILE", CHOICE, AT(profile), "", 0, 0, "0|1", FREE,
	 "1: workers measure their devices first"},
	{"METRICS", METRICS_OF, AT(metrics), "", 0, 0, NULL, FREE,
	 "FILE.prom, DIR/, unix:SOCKET or http://ADDRESS:PORT, for Prometheus"},
	{"HOSTS", HOSTS_OF, AT(hosts), "", 0, 0, NULL, STOPPED,
	 "names of the machines (those of Slurm's allocation, else this one)"},
	{"LAUNCHER", CHOICE, AT(launcher), "", 0, 0, LAUNCHER_CHOICES, STOPPED,
	 "what starts nodes on other machines; found out when not given"},
	{"PLACE", PLACING, AT(place), "spread", 0, 0, "spread|fill|HOST:N", FREE,
	 "how workers are spread over HOSTS"},
	{"HOST_WAIT", REAL, AT(host_wait), "600", 0, 1e9, NULL, FREE,
	 "seconds for a host that is gone and without which nothing goes on, 0: for ever"},
	{"SELF_TEST", CHOICE, AT(self_test), "off", 0, 0, "off|on", FREE,
	 "hosts are tested before the job, and when a node is suspected"},
	{"MORE_HOSTS", COUNT, AT(more_hosts), "0", 0, HOSTS_MAX, NULL, STOPPED,
	 "so many hosts at most that Slurm is asked for when the job's own are full"},
	{"PREEMPTIBLE", TEXT, AT(preemptible), "", 0, 0, NULL, FREE,
	 "partition of Slurm for them, from which they may be taken away"},
	{"HOST_AVOID", REAL, AT(host_avoid), "600", 0, 1e9, NULL, FREE,
	 "seconds for which a host where a node hung is avoided, 0: never"},
	{"RESTARTS", COUNT, AT(restarts), "10", 0, 1e6, NULL, FREE,
	 "how many times in a row a node is started again"},
	{"ROLLBACKS", COUNT, AT(rollbacks), "3", 0, 1e6, NULL, FREE,
	 "how many times in a row all go back without a newer checkpoint"},
	{"HUNG", DEADLINES_OF, AT(hung), "auto", 0, 0, NULL, FREE,
	 "seconds without a sign of life after which a node is given up"},
	{"CHECKPOINT_EVERY", REAL, AT(checkpoint_every), "60", 0, 1e9, NULL, FREE,
	 "seconds between checkpoints, 0: only at the end"},
	{"KEEP", COUNT, AT(keep), "3", 1, 1e6, NULL, FREE, "checkpoints kept"},
	{"CHECKPOINT_FULL_EVERY", COUNT, AT(checkpoint_full_every), "1", 1, 1e6, NULL, FREE,
	 "of so many checkpoints one has all rows, the others those that changed since"},
	{"CHECKPOINT_MEMORY", PLACE, AT(checkpoint_memory), "", 0, 0, NULL, FREE,
	 "directory in memory (/dev/shm) where servers keep their part of the last checkpoint"},
	{"CHECKPOINT_LEVEL", COUNT, AT(checkpoint_level), "1", 0, 9, NULL, FREE,
	 "how hard checkpoints are compressed: 0 not at all, 9 is slow and smallest"},
	{"TRAINER", TEXT, AT(trainer), "", 0, 0, NULL, FREE,
	 "command of a trainer of your own, for sh; see paceline-trainers(7)"},
	{"TRAINER_KIND", CHOICE, AT(trainer_kind), "agent", 0, 0, "agent|each|rows", FRESH,
	 "how TRAINER works: in words, a command for each shard, rows on stdin"},
	{"SAMPLES", COUNT, AT(samples), "0", 0, 0, NULL, FRESH,
	 "how many samples TRAINER has, in place of DATA"},
	{"TRAINER_GRACE", REAL, AT(trainer_grace), "10", 0, 1e6, NULL, FREE,
	 "seconds that TRAINER has to end before it is killed"},
	{"TRAINER_HEADER", CHOICE, AT(trainer_header), "0", 0, 0, "0|1", STOPPED,
	 "1: rows for TRAINER begin with the header of DATA"},
	{"EACH_OUTPUT", PLACE, AT(each_output), "", 0, 0, NULL, STOPPED,
	 "directory for what commands of TRAINER_KIND=each print, a file a shard"},
	{"EACH_JOBS", COUNT, AT(each_jobs), "1", 1, 1024, NULL, FREE,
	 "commands of TRAINER_KIND=each that a worker runs at once"},
	{"WORKER_CORES", REAL, AT(worker_cores), "0", 0, 1e6, NULL, FREE,
	 "cores that a worker may use, 1.5 for example, 0: all"},
	{"SERVER_CORES", REAL, AT(server_cores), "0", 0, 1e6, NULL, FREE,
	 "cores that a server may use, 0: all"},
	{"WORKER_MEMORY", BYTES, AT(worker_memory), "0", 0, 1e18, NULL, FREE,
	 "memory that a worker may use, 2G for example, 0: all"},
	{"SERVER_MEMORY", BYTES, AT(server_memory), "0", 0, 1e18, NULL, FREE,
	 "memory that a server may use, 0: all"},
	{"OOM_LIMIT", COUNT, AT(oom_limit), "3", 0, 1e6, NULL, FREE,
	 "how many times a node that had too little memory is given more, or less to do"},
	{"LAUNCH_WORKER", TEMPLATE, AT(launch_worker), "", 0, 0, NULL, FREE,
	 "words in front of a worker's command"},
	{"LAUNCH_SERVER", TEMPLATE, AT(launch_server), "", 0, 0, NULL, FREE,
	 "words in front of a server's command"},
	{"DRAG", PLACE, AT(drag), "", 0, 0, NULL, STOPPED, "directory of drag files"},
};
#define OWN_ROWS (sizeof own_rows / sizeof *own_rows)
#define INCLUDE "INCLUDE" /* no key of a job: another job file is read in its place */
#define INCLUDES_MAX 16   /* files within each other */

static const struct row *own_row(const char *key)
{
	for (size_t i = 0; i < OWN_ROWS; i++)
		if (strcmp(own_rows[i].key, key) == 0)
			return &own_rows[i];
	return NULL;
}

/* The i-th of all keys: ours, then those of a solution's options that are not ours, too. -1: there
 * are no more. */
static int row_get(size_t i, struct row *out)
{
	const struct solution_option *option;
	if (i < OWN_ROWS) {
		*out = own_rows[i];
		return 0;
	}
	i -= OWN_ROWS;
	for (size_t k = 0; (option = solution_option(k)); k++) {
		if (own_row(option->job_key) || i-- > 0)
			continue;
		*out = (struct row){.key = option->job_key,
				    .kind = option->kind == SOLUTION_COUNT ? COUNT : REAL,
				    .at = AT(options) + option->at,
				    .given = option->given,
				    .min = option->min,
				    .max = option->max,
				    .change = FREE,
				    .help = option->help};
		return 0;
	}
	return -1;
}

static uint64_t most(const char *key)
{
	const struct row *row = own_row(key);
	return row ? (uint64_t)row->max : 0;
}

uint64_t job_workers_most(void)
{
	return most("WORKERS");
}

uint64_t job_servers_most(void)
{
	return most("SERVERS");
}

const char *job_key(size_t i, const char **default_text, const char **help)
{
	struct row row;
	if (row_get(i, &row) != 0) {
		*default_text = "";
		*help = "another job file, read in the place of this line";
		return i > 0 && row_get(i - 1, &row) == 0 ? INCLUDE : NULL;
	}
	*default_text = row.given ? row.given : "";
	*help = row.help;
	return row.key;
}

const char *job_key_values(size_t i)
{
	struct row row;
	if (row_get(i, &row) != 0)
		return i > 0 && row_get(i - 1, &row) == 0 ? "FILE" : NULL; /* INCLUDE */
	if (row.choices)
		return row.choices;
	return row.kind == FILES				? "FILE"
	       : row.kind == PATH || row.kind == PLACE ? "PATH"
						       : NULL;
}

static int is_list(enum kind kind)
{
	return kind == NUMBERS || kind == FILES || kind == METRICS_OF || kind == HOSTS_OF;
}

static int is_name(enum kind kind)
{
	return kind == FILES || kind == PATH || kind == PLACE || kind == PROGRAM;
}

static int is_number(enum kind kind)
{
	return kind == COUNT || kind == REAL || kind == BYTES;
}

static void *field(const struct job *job, const struct row *row)
{
	return (char *)(size_t)job + row->at;
}

/* ---- values ---- */

static void list_free(struct job_list *list)
{
	words_free(list->item, list->count);
	*list = (struct job_list){0};
}

static int list_split(struct job_list *list, const char *value, const char *separators,
		      const char *place, struct error *err)
{
	struct job_list made = {0};
	size_t room = 2;
	for (const char *p = value; *p; p++)
		room += strchr(separators, *p) != NULL;
	if (room > JOB_LIST_MAX)
		return error_set(err, ERROR_CONFIG, place, "more than %d items", JOB_LIST_MAX);
	made.item = calloc(room, sizeof *made.item);
	if (!made.item)
		return error_set(err, ERROR_OS, place, "out of memory");
	for (const char *p = value; *p;) {
		size_t n = strcspn(p, separators);
		if (n > 0 && !(made.item[made.count++] = strndup(p, n))) {
			made.count--;
			list_free(&made);
			return error_set(err, ERROR_OS, place, "out of memory");
		}
		p += n + (p[n] != '\0');
	}
	list_free(list);
	*list = made;
	return 0;
}

/* Names of files, which may hold blanks: quoted as for sh. */
static int files_split(struct job_list *list, const char *key, const char *value, const char *place,
		       struct error *err)
{
	struct job_list made = {0};
	struct error why = {0};
	int result = words_split(value, JOB_LIST_MAX, &made.item, &made.count, &why);
	for (size_t i = 0; result == 0 && i < made.count; i++)
		if (!made.item[i][0])
			result = error_set(&why, ERROR_CONFIG, NULL, "an empty name");
	if (result != 0) {
		list_free(&made);
		return error_set(err, why.code, place, "%s: %.400s", key, why.text);
	}
	list_free(list);
	*list = made;
	return 0;
}

static char *list_join(const struct job_list *list, char separator)
{
	size_t len = 1;
	for (size_t i = 0; i < list->count; i++)
		len += strlen(list->item[i]) + 1;
	char *text = malloc(len), *p = text;
	for (size_t i = 0; text && i < list->count; i++) {
		if (i > 0)
			*p++ = separator;
		p = stpcpy(p, list->item[i]);
	}
	if (text)
		*p = '\0';
	return text;
}

static int text_set(char **at, const char *value, const char *place, struct error *err)
{
	char *copy = strdup(value);
	if (!copy)
		return error_set(err, ERROR_OS, place, "out of memory");
	free(*at);
	*at = copy;
	return 0;
}

static int choice_check(const struct row *row, const char *value, const char *place,
			struct error *err)
{
	size_t len = strlen(value);
	for (const char *p = row->choices; *p;) {
		size_t n = strcspn(p, "|");
		if (n == len && memcmp(p, value, n) == 0)
			return 0;
		p += n + (p[n] == '|');
	}
	return error_set(err, ERROR_CONFIG, place, "%s: '%.80s' is none of %s", row->key, value,
			 row->choices);
}

/* word, or word:N */
static int prefixed_count(const char *value, const char *word, uint64_t max, uint64_t *out)
{
	size_t n = strlen(word);
	if (strncmp(value, word, n) != 0 || value[n] != ':')
		return -1;
	return number_u64(value + n + 1, 0, max, out, NULL, NULL);
}

static int sync_check(const char *value, const char *place, struct error *err)
{
	uint64_t bound;
	if (strcmp(value, "bsp") == 0 || strcmp(value, "asp") == 0 ||
	    strcmp(value, ALLREDUCE) == 0 || prefixed_count(value, "ssp", 1000000, &bound) == 0)
		return 0;
	return error_set(err, ERROR_CONFIG, place, "SYNC: '%.80s' is none of " SYNC_CHOICES, value);
}

static int bad_rows_check(struct job *job, const char *value, const char *place, struct error *err)
{
	uint64_t most = 0;
	if (strcmp(value, "stop") != 0 && prefixed_count(value, "skip", UINT64_MAX, &most) != 0)
		return error_set(err, ERROR_CONFIG, place,
				 "BAD_ROWS: '%.80s' is neither stop nor skip:N", value);
	job->bad_rows_max = most;
	return 0;
}

static int deadlines_check(const struct row *row, const char *value, const char *place,
			   struct error *err)
{
	struct pulse_rules rules;
	struct error why;
	if (deadline_rules(&rules, value, &why) == 0)
		return 0;
	return error_set(err, ERROR_CONFIG, place, "%s: %.900s", row->key, why.text);
}

static int template_check(const struct row *row, const char *value, const char *place,
			  struct error *err)
{
	struct error why;
	if (launcher_check(value, &why) == 0)
		return 0;
	return error_set(err, why.code, place, "%s: %.900s", row->key, why.text);
}

static int numbers_check(const struct row *row, const struct job_list *list, const char *place,
			 struct error *err)
{
	uint64_t n;
	char what[ERROR_PLACE_MAX];
	snprintf(what, sizeof what, "%.400s: %s", place, row->key);
	for (size_t i = 0; i < list->count; i++)
		if (number_u64(list->item[i], (uint64_t)row->min, (uint64_t)row->max, &n, what,
			       err) != 0) {
			if (err)
				err->code = ERROR_CONFIG;
			return -1;
		}
	return 0;
}

static int metrics_check(const struct row *row, const struct job_list *list, const char *place,
			 struct error *err)
{
	struct metrics_to to;
	struct error why;
	if (list->count > METRICS_TO_MAX)
		return error_set(err, ERROR_CONFIG, place, "%s: more than %d places", row->key,
				 METRICS_TO_MAX);
	for (size_t i = 0; i < list->count; i++)
		if (metrics_to_parse(&to, list->item[i], &why) != 0)
			return error_set(err, why.code, place, "%s: %.900s", row->key, why.text);
	return 0;
}

static int hosts_check(const struct row *row, const struct job_list *list, const char *place,
		       struct error *err)
{
	if (list->count > HOSTS_MAX)
		return error_set(err, ERROR_CONFIG, place, "%s: more than %d", row->key, HOSTS_MAX);
	for (size_t i = 0; i < list->count; i++) {
		if (!launcher_host_ok(list->item[i]))
			return error_set(err, ERROR_CONFIG, place,
					 "%s: '%.80s' is no name of a host (letters, digits, . _ - @ "
					 ": [ ])",
					 row->key, list->item[i]);
		for (size_t k = 0; k < i; k++)
			if (strcmp(list->item[i], list->item[k]) == 0)
				return error_set(err, ERROR_CONFIG, place, "%s: %.80s stands twice",
						 row->key, list->item[i]);
	}
	return 0;
}

/* Of a node: 0, or enough to start in. */
static int memory_store(const struct row *row, const char *value, uint64_t *out, const char *what,
			struct error *err)
{
	uint64_t bytes;
	if (number_bytes(value, 0, (uint64_t)row->max, &bytes, what, err) != 0)
		return -1;
	if (bytes > 0 && bytes < LIMITS_LEAST_MEMORY)
		return error_set(err, ERROR_CONFIG, what,
				 "'%.40s' is less than %uM, in which nothing starts (suffixes are K, "
				 "M, G)",
				 value, LIMITS_LEAST_MEMORY >> 20);
	*out = bytes;
	return 0;
}

static int number_store(struct job *job, const struct row *row, const char *value,
			const char *place, struct error *err)
{
	char what[ERROR_PLACE_MAX];
	int result;
	snprintf(what, sizeof what, "%.400s: %s", place, row->key);
	if (row->kind == COUNT)
		result = number_u64(value, (uint64_t)row->min,
				    row->max > 0 ? (uint64_t)row->max : UINT64_MAX, field(job, row),
				    what, err);
	else if (row->kind == BYTES)
		result = memory_store(row, value, field(job, row), what, err);
	else
		result = number_real(value, row->min, row->max, field(job, row), what, err);
	if (result != 0 && err)
		err->code = ERROR_CONFIG;
	return result;
}

static int store(struct job *job, const struct row *row, const char *value, const char *place,
		 struct error *err)
{
	if (is_number(row->kind))
		return number_store(job, row, value, place, err);
	if (row->kind == FILES)
		return files_split(field(job, row), row->key, value, place, err);
	if (row->kind == METRICS_OF)
		return files_split(field(job, row), row->key, value, place, err) == 0
			       ? metrics_check(row, field(job, row), place, err)
			       : -1;
	if (row->kind == HOSTS_OF)
		return list_split(field(job, row), value, ", \t", place, err) == 0
			       ? hosts_check(row, field(job, row), place, err)
			       : -1;
	if (row->kind == NUMBERS) {
		if (list_split(field(job, row), value, ", \t", place, err) != 0)
			return -1;
		return numbers_check(row, field(job, row), place, err);
	}
	int given = value[0] != '\0';
	uint64_t size;
	if (given && row->kind == ID && !option_id_ok(value))
		return error_set(err, ERROR_CONFIG, place,
				 "%s: '%.80s' is no id (1 to 64 of letters, digits, . _ -)",
				 row->key, value);
	if (row->kind == CHOICE && (given || (row->given && row->given[0])) &&
	    choice_check(row, value, place, err) != 0)
		return -1;
	if (row->kind == SYNC && sync_check(value, place, err) != 0)
		return -1;
	if (row->kind == BAD_ROWS && bad_rows_check(job, value, place, err) != 0)
		return -1;
	if (row->kind == DEADLINES_OF && deadlines_check(row, value, place, err) != 0)
		return -1;
	if (row->kind == PLACING && hosts_place_check(value, place, err) != 0)
		return -1;
	if (row->kind == TEMPLATE && template_check(row, value, place, err) != 0)
		return -1;
	if (row->at == offsetof(struct job, checkpoint_memory) &&
	    number_bytes(value, 0, UINT64_MAX, &size, NULL, NULL) == 0)
		return error_set(err, ERROR_CONFIG, place,
				 "%s: '%.80s' is a size; a directory is wanted, such as /dev/shm",
				 row->key, value);
	return text_set(field(job, row), value, place, err);
}

/* ---- keys ---- */

int job_init(struct job *job, struct error *err)
{
	memset(job, 0, sizeof *job);
	job->lr = job->heavy_window = NAN;
	job->origin = calloc(OWN_ROWS, sizeof *job->origin);
	if (!job->origin)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	struct row row;
	for (size_t i = 0; row_get(i, &row) == 0; i++)
		if (row.given && store(job, &row, row.given, "default", err) != 0) {
			job_free(job);
			return -1;
		}
	return 0;
}

static void origin_free(struct job_origin *origin)
{
	free(origin->dir);
	free(origin->place);
	*origin = (struct job_origin){0};
}

void job_free(struct job *job)
{
	struct row row;
	for (size_t i = 0; job->origin && i < OWN_ROWS; i++)
		origin_free(&job->origin[i]);
	free(job->origin);
	for (size_t i = 0; row_get(i, &row) == 0; i++) {
		if (is_list(row.kind))
			list_free(field(job, &row));
		else if (!is_number(row.kind))
			free(*(char **)field(job, &row));
	}
	memset(job, 0, sizeof *job);
}

static const char *nearest(const char *key)
{
	struct near near = {0};
	struct row row;
	for (size_t i = 0; row_get(i, &row) == 0; i++)
		near_look(&near, key, row.key);
	near_look(&near, key, INCLUDE);
	return near.word;
}

/* dir: of the job file in which it stands; NULL: it stands in none. */
static int set_from(struct job *job, const char *key, const char *value, const char *place,
		    const char *dir, struct error *err)
{
	struct row row;
	size_t i = 0;
	while (row_get(i, &row) == 0 && strcmp(row.key, key) != 0)
		i++;
	if (row_get(i, &row) != 0)
		return error_set(err, ERROR_CONFIG, place, "unknown key %.64s; the nearest is %s",
				 key, nearest(key));
	if (store(job, &row, value, place, err) != 0)
		return -1;
	if (i >= OWN_ROWS)
		return 0;
	struct job_origin *origin = &job->origin[i];
	int names = is_name(row.kind) || row.kind == METRICS_OF;
	origin_free(origin);
	if (!(origin->place = strdup(place)) ||
	    (dir && names && !(origin->dir = strdup(dir))))
		return error_set(err, ERROR_OS, place, "out of memory");
	return 0;
}

int job_set(struct job *job, const char *key, const char *value, const char *place,
	    struct error *err)
{
	return set_from(job, key, value, place, NULL, err);
}

int job_set_text(struct job *job, const char *assignment, struct error *err)
{
	char key[JOBTEXT_KEY_MAX];
	const char *equals = strchr(assignment, '=');
	if (!equals || equals == assignment || (size_t)(equals - assignment) >= sizeof key)
		return error_set(err, ERROR_USAGE, "--set", "'%.80s' is not KEY=VALUE", assignment);
	memcpy(key, assignment, (size_t)(equals - assignment));
	key[equals - assignment] = '\0';
	if (strcmp(key, INCLUDE) == 0)
		return error_set(err, ERROR_USAGE, "--set", INCLUDE " stands in job files only");
	if (strlen(equals + 1) >= JOBTEXT_VALUE_MAX || strchr(equals + 1, '\n'))
		return error_set(err, ERROR_USAGE, "--set",
				 "value of %s is too long or has a newline", key);
	return job_set(job, key, equals + 1, "--set", err);
}

/* dir: NULL: the current one. */
static int absolute_in(const char *dir, char **path, struct error *err)
{
	char here[PATH_MAX], full[2 * PATH_MAX];
	if (**path == '\0' || **path == '/')
		return 0;
	if (!dir && !getcwd(here, sizeof here))
		return error_errno(err, ERROR_OS, *path, "current directory");
	snprintf(full, sizeof full, "%s/%s", dir ? dir : here, *path);
	return text_set(path, full, *path, err);
}

struct reading {
	struct job *job;
	const char *path;
	char dir[PATH_MAX]; /* of path, absolute */
	int kept;           /* templates and names as an earlier version took them */
	dev_t device;       /* of the file */
	ino_t inode;
	const struct reading *outer; /* the file that includes this one, or NULL */
};

static int read_file(struct job *job, const char *path, int kept, const struct reading *outer,
		     const char *place, struct error *err);

/* Its name is seen from the file that names it, and nothing else: so an included file is the same
 * one wherever a job is started. */
static int include(const struct reading *reading, const char *value, const char *place,
		   struct error *err)
{
	char path[PATH_MAX];
	const char *slash = strrchr(reading->path, '/');
	int len = value[0] != '/' && slash ? (int)(slash - reading->path) + 1 : 0;
	size_t depth = 1;
	if (!value[0])
		return 0;
	for (const struct reading *r = reading; r; r = r->outer)
		depth++;
	if (depth > INCLUDES_MAX)
		return error_set(err, ERROR_CONFIG, place, INCLUDE ": more than %d files deep",
				 INCLUDES_MAX);
	if (snprintf(path, sizeof path, "%.*s%s", len, reading->path, value) >= (int)sizeof path)
		return error_set(err, ERROR_CONFIG, place, INCLUDE ": path too long");
	return read_file(reading->job, path, reading->kept, reading, place, err);
}

static int take(const char *key, const char *value, size_t line, void *arg, struct error *err)
{
	struct reading *reading = arg;
	char place[ERROR_PLACE_MAX];
	snprintf(place, sizeof place, "%.400s:%zu", reading->path, line);
	if (strcmp(key, INCLUDE) == 0)
		return include(reading, value, place, err);
	const struct row *row = reading->kept ? own_row(key) : NULL;
	if (row && row->kind == TEMPLATE)
		return text_set(field(reading->job, row), value, place, err);
	/* An earlier version split names at blanks and knew no quotes. */
	if (row && row->kind == FILES && job_set(reading->job, key, value, place, NULL) != 0)
		return list_split(field(reading->job, row), value, " \t", place, err);
	return set_from(reading->job, key, value, place, reading->dir, err);
}

/* Which file it is, and whether it is being read already. */
static int identify(struct reading *reading, const char *place, struct error *err)
{
	struct stat st;
	char name[PATH_MAX];
	if (stat(reading->path, &st) != 0)
		return error_errno(err, 0, reading->path, "can't be read");
	reading->device = st.st_dev;
	reading->inode = st.st_ino;
	for (const struct reading *r = reading->outer; r; r = r->outer)
		if (r->device == st.st_dev && r->inode == st.st_ino)
			return error_set(err, ERROR_CONFIG, place,
					 INCLUDE ": %.300s is being read already: it would include "
						 "itself", reading->path);
	fs_dirname(reading->path, name, sizeof name);
	/* Without links, as the current directory is: it is the same by whatever way it is named. */
	if (!realpath(name, reading->dir))
		return error_errno(err, 0, name, "can't be seen");
	return 0;
}

/* Nobody may ever write into a pipe that a job file names. */
static int refuse_pipe(const char *path, const char *place, struct error *err)
{
	struct stat st;
	if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
		return error_set(err, ERROR_CONFIG, place, INCLUDE ": %.300s is a pipe; a file is needed",
				 path);
	return 0;
}

/* place: of the line that includes it; NULL: none does. */
static int read_file(struct job *job, const char *path, int kept, const struct reading *outer,
		     const char *place, struct error *err)
{
	char *text;
	size_t len;
	struct reading reading = {.job = job, .path = path, .kept = kept, .outer = outer};
	if (place && refuse_pipe(path, place, err) != 0)
		return -1;
	if (fs_read_file(path, JOB_FILE_MAX, &text, &len, err) != 0)
		return place ? error_wrap(err, place) : -1;
	int result = identify(&reading, place, err);
	if (result == 0)
		result = jobtext_parse(path, text, len, take, &reading, err);
	free(text);
	return result;
}

int job_read(struct job *job, const char *path, struct error *err)
{
	return read_file(job, path, 0, NULL, NULL, err);
}

int job_read_kept(struct job *job, const char *path, struct error *err)
{
	return read_file(job, path, 1, NULL, NULL, err);
}

/* ---- the whole ---- */

/* Every worker reads rows by their numbers, in each epoch again: a stream can't give them. */
static int refuse_stdin(const struct job_list *list, const char *key, const char *path,
			struct error *err)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->item[i], "-") == 0)
			return error_set(err, ERROR_CONFIG, path,
					 "%s: - means standard input, and a file is needed: rows are "
					 "read by number, and more than once. Write one first: COMMAND "
					 "| zstd >rows.csv.zst (a file with that name is ./-)",
					 key);
	return 0;
}

/* A file in DIR/ is called after the job. What is made lies beside the job file. */
static int finish_metrics(struct job *job, struct error *err)
{
	const char *dir = job->origin[own_row("METRICS") - own_rows].dir;
	for (size_t i = 0; i < job->metrics.count; i++) {
		char **word = &job->metrics.item[i], *path, whole[2 * PATH_MAX];
		struct metrics_to to;
		if (metrics_to_parse(&to, *word, err) != 0)
			return -1;
		if (!to.path)
			continue;
		while (strncmp(to.path, "./", 2) == 0)
			to.path += 2;
		int n = snprintf(whole, sizeof whole, "%s%s%s", to.path,
				 to.kind == METRICS_TO_DIR ? job->name : "",
				 to.kind == METRICS_TO_DIR ? ".prom" : "");
		if (n < 0 || n >= PATH_MAX)
			return error_set(err, ERROR_CONFIG, *word, "path too long");
		path = strdup(whole);
		if (!path)
			return error_set(err, ERROR_OS, *word, "out of memory");
		int result = absolute_in(dir, &path, err);
		if (result == 0) {
			snprintf(whole, sizeof whole, "%s%s",
				 to.kind == METRICS_TO_UNIX ? "unix:" : "", path);
			result = text_set(word, whole, path, err);
		}
		free(path);
		if (result != 0)
			return -1;
	}
	return 0;
}

static int ends_in(const char *name, size_t len, const char *ending)
{
	size_t n = strlen(ending);
	return len > n && memcmp(name + len - n, ending, n) == 0;
}

size_t job_packed(const char *path)
{
	static const char *const packed[] = {".gz", ".zst"};
	for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
		if (ends_in(path, strlen(path), packed[i]))
			return strlen(packed[i]);
	return 0;
}

/* By the name alone, no file is opened here. A .tsv is a table whose label column is named, else
 * Criteo's rows, which have no names. */
static const char *guess_format(const char *path, int has_label)
{
	static const char *const guess[][2] = {{".csv", "csv"},	      {".svm", "libsvm"},
					       {".libsvm", "libsvm"}, {".ffm", "libsvm"},
					       {".libffm", "libsvm"}, {".tab", "tsv"}};
	size_t len = strlen(path) - job_packed(path);
	for (size_t i = 0; i < sizeof guess / sizeof *guess; i++)
		if (ends_in(path, len, guess[i][0]))
			return guess[i][1];
	if (ends_in(path, len, ".tsv"))
		return has_label ? "tsv" : "criteo";
	return NULL;
}

static double default_lr(const char *optimizer)
{
	static const struct {
		const char *name;
		double lr;
	} defaults[] = {{"sgd", 0.1},
			{"momentum", 0.01},
			{"adagrad", 0.05},
			{"adam", 0.001},
			{"ftrl", 0.1}};
	for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
		if (strcmp(defaults[i].name, optimizer) == 0)
			return defaults[i].lr;
	return 0.05;
}

/* FORMAT says it, else SEPARATOR, which only a csv has, else the name of the first file. */
static int finish_format(struct job *job, const char *path, struct error *err)
{
	const char *format = job->format;
	char separator[8];
	struct row_syntax syntax;
	if (!format[0] && !job->separator[0] && job->data.count > 0)
		format = guess_format(job->data.item[0], job->label[0] != '\0');
	if (job_is_foreign(job) && (!format || !format[0]) && !job->separator[0])
		return text_set(&job->format, LINES, path, err); /* what is in them is TRAINER's business */
	if (job_is_foreign(job) && strcmp(job->format, LINES) == 0)
		return 0;
	if (format && strcmp(format, LINES) == 0)
		return error_set(err, ERROR_CONFIG, path,
				 "FORMAT=" LINES " is for a TRAINER of your own: the kit's own has to "
				 "know what is in a row");
	if (!format)
		return error_set(err, ERROR_CONFIG, path,
				 "no FORMAT, and the name of %.200s does not tell it: FORMAT is one "
				 "of " ROW_FORMAT_CHOICES "%s",
				 job->data.item[0],
				 job->data.count > 1 ? " (a name with blanks is quoted inside of DATA: "
						       "DATA=\"'my rows.csv'\")"
						     : "");
	if (row_syntax_find(format, job->separator, &syntax, err) != 0)
		return error_wrap(err, path);
	if (syntax.format != ROW_CSV && (job->label[0] || job->weight[0]))
		return error_set(err, ERROR_CONFIG, path,
				 "LABEL and WEIGHT name columns of a csv or tsv; FORMAT is %s",
				 row_syntax_name(syntax));
	row_separator_text(syntax.separator, separator);
	if (text_set(&job->separator, separator, path, err) != 0)
		return -1;
	return text_set(&job->format, row_syntax_name(syntax), path, err);
}

int job_row_syntax(const struct job *job, struct row_syntax *out, struct error *err)
{
	if (strcmp(job->format, LINES) != 0)
		return row_syntax_find(job->format, job->separator, out, err);
	*out = row_syntax(ROW_LINES);
	return 0;
}

const char *job_balance(const struct job *job)
{
	return balance_is(job->solution) ? job->solution : NULL;
}

uint64_t job_batch_workers(const struct job *job)
{
	return job->batch / job->options.least;
}

const char *job_least_words(const struct job *job, char out[JOB_LEAST_MAX])
{
	snprintf(out, JOB_LEAST_MAX, "LEAST=%llu samples", (unsigned long long)job->options.least);
	return job->options.least > 1 ? out : "one sample";
}

int job_is_allreduce(const struct job *job)
{
	return strcmp(job->sync, ALLREDUCE) == 0;
}

int job_is_foreign(const struct job *job)
{
	return job->trainer[0] != '\0';
}

int job_has_foreign_parameters(const struct job *job)
{
	return job_is_foreign(job) && strcmp(job->trainer_kind, "agent") == 0;
}

int job_has_brain(const struct job *job)
{
	return strcmp(job->brain, "off") != 0;
}

struct limits job_limits(const struct job *job)
{
	return (struct limits){.cores = fmax(job->worker_cores, job->server_cores),
			       .memory = job->worker_memory > job->server_memory
						 ? job->worker_memory
						 : job->server_memory};
}

int job_is_local(const struct job *job)
{
	return strcmp(job->partitions, "local") == 0;
}

/* The value as a job file would say it; to be freed. */
static char *value_text(const struct job *job, const struct row *row)
{
	char number[40];
	const void *at = field(job, row);
	switch (row->kind) {
	case COUNT:
	case BYTES:
		number_format_u64(*(const uint64_t *)at, number);
		return strdup(number);
	case REAL:
		if (isnan(*(const double *)at))
			return strdup("");
		number_format_real(*(const double *)at, number);
		return strdup(number);
	case NUMBERS:
	case HOSTS_OF:
		return list_join(at, ',');
	case FILES:
	case METRICS_OF:
		return words_join(((const struct job_list *)at)->item,
				  ((const struct job_list *)at)->count);
	default:
		return strdup(*(char *const *)at);
	}
}

/* Options whose keys are ours, too: a solution is told what the job is told. */
static int finish_options(struct job *job, const char *path, struct error *err)
{
	const struct solution_option *option;
	for (size_t i = 0; (option = solution_option(i)); i++) {
		const struct row *row = own_row(option->job_key);
		char *value = row ? value_text(job, row) : NULL;
		if (row && !value)
			return error_set(err, ERROR_OS, path, "out of memory");
		int result = row ? solution_option_set(option, &job->options, value, err) : 0;
		free(value);
		if (result != 0)
			return -1;
	}
	return 0;
}

int job_is_given(const struct job *job, const char *key)
{
	return job_place(job, key) != NULL;
}

const char *job_place(const struct job *job, const char *key)
{
	const struct row *row = own_row(key);
	return row && job->origin ? job->origin[row - own_rows].place : NULL;
}

int job_file(const struct job *job, size_t i, struct job_file *out)
{
	for (const struct row *row = own_rows; row < own_rows + OWN_ROWS; row++) {
		if (!is_name(row->kind))
			continue;
		struct job_list *list = row->kind == FILES ? field(job, row) : NULL;
		char **one = list ? NULL : field(job, row);
		size_t count = list ? list->count : (*one)[0] != '\0';
		if (i >= count) {
			i -= count;
			continue;
		}
		*out = (struct job_file){.key = row->key,
					 .index = i,
					 .name = list ? &list->item[i] : one,
					 .origin = &job->origin[row - own_rows],
					 .is_program = row->kind == PROGRAM,
					 .is_late = row->kind == PLACE};
		return 0;
	}
	return -1;
}

static int finish_names(struct job *job, struct error *err)
{
	struct job_file file;
	for (size_t i = 0; job_file(job, i, &file) == 0; i++)
		if (!file.origin->dir && (!file.is_program || strchr(*file.name, '/')) &&
		    absolute_in(NULL, file.name, err) != 0)
			return -1;
	return 0;
}

/* Keys that are for the kit's own worker, or for another kind of trainer. */
static int finish_trainer(const struct job *job, const char *path, struct error *err)
{
	int agent = strcmp(job->trainer_kind, "agent") == 0, each = strcmp(job->trainer_kind, "each") == 0;
	const struct {
		int is;
		const char *text;
	} wrong[] = {
		{!job_is_foreign(job) && job->samples > 0,
		 "SAMPLES is for a TRAINER of your own; the kit's own reads DATA, which says how many"},
		{!job_is_foreign(job) && job->each_output[0],
		 "EACH_OUTPUT is for a TRAINER of your own"},
		{!job_is_foreign(job), NULL},
		{job->samples > 0 && job->data.count > 0,
		 "SAMPLES and DATA: one of them says how many samples there are"},
		{job->samples == 0 && job->data.count == 0,
		 "no SAMPLES and no DATA: how many samples are there? SAMPLES=N, or DATA, whose rows are "
		 "counted"},
		{strcmp(job->trainer_kind, "rows") == 0 && job->data.count == 0,
		 "TRAINER_KIND=rows gives rows of DATA, and there is no DATA"},
		{job->each_output[0] && !each, "EACH_OUTPUT is for TRAINER_KIND=each"},
		{job->each_jobs > 1 && !each, "EACH_JOBS is for TRAINER_KIND=each"},
		{job->test.count > 0,
		 "TEST is scored with models of the kit; a TRAINER scores its own"},
		{job->init[0] != '\0', "INIT has parameters of the kit; a TRAINER loads its own"},
		{job_is_allreduce(job),
		 "SYNC=" ALLREDUCE " adds up gradients of the kit's own worker: with TRAINER, SYNC=bsp"},
		{job_is_local(job), "PARTITIONS=local is for the kit's own worker"},
		{job->hot_spares > 0, "HOT_SPARES is for the kit's own worker"},
		{!agent && strcmp(job->solution, "none") != 0,
		 "SOLUTION decides on iterations, which only TRAINER_KIND=agent has"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (wrong[i].is)
			return wrong[i].text ? error_set(err, ERROR_CONFIG, path, "%s", wrong[i].text)
					     : 0;
	return 0;
}

/* It plans workers and servers: both must be able to be there. */
static int finish_brain(const struct job *job, const char *path, struct error *err)
{
	if (!job_has_brain(job) || job->cores != 1)
		return 0;
	return error_set(err, ERROR_CONFIG, path,
			 "CORES=1: a worker and a server need one each, 2 at least");
}

int job_finish(struct job *job, const char *path, struct error *err)
{
	char least[JOB_LEAST_MAX];
	if (!job->name[0])
		return error_set(err, ERROR_CONFIG, path, "no JOB: a job needs a name, like JOB=try");
	if (finish_trainer(job, path, err) != 0)
		return -1;
	if (job->data.count == 0 && !job_is_foreign(job))
		return error_set(err, ERROR_CONFIG, path, "no DATA: which file is to be trained on?");
	if (refuse_stdin(&job->data, "DATA", path, err) != 0 ||
	    refuse_stdin(&job->test, "TEST", path, err) != 0)
		return -1;
	if (finish_format(job, path, err) != 0)
		return -1;
	if (!job->profile[0] &&
	    text_set(&job->profile, strcmp(job->solution, "antdt-dd") == 0 ? "1" : "0", path,
		     err) != 0)
		return -1;
	if (isnan(job->heavy_window))
		job->heavy_window = job->longer;
	if (isnan(job->lr))
		job->lr = default_lr(job->optimizer);
	if (job_is_local(job) && job->data.count != job->workers)
		return error_set(err, ERROR_CONFIG, path,
				 "PARTITIONS=local needs a file of DATA for each worker: %zu files, "
				 "WORKERS=%llu",
				 job->data.count, (unsigned long long)job->workers);
	if (job_is_local(job) && job->hot_spares > 0)
		return error_set(err, ERROR_CONFIG, path,
				 "HOT_SPARES: with PARTITIONS=local nobody else has a worker's rows");
	if (job_is_local(job) && strcmp(job->shuffle, "shards") == 0)
		return error_set(err, ERROR_CONFIG, path,
				 "PARTITIONS=local has no shards to shuffle: SHUFFLE=none or samples");
	if (job->workers > job_batch_workers(job))
		return error_set(err, ERROR_CONFIG, path,
				 "BATCH=%llu is less than %s for each of WORKERS=%llu",
				 (unsigned long long)job->batch, job_least_words(job, least),
				 (unsigned long long)job->workers);
	if (job_balance(job) && strcmp(job->batch_scaling, "keep") != 0)
		return error_set(err, ERROR_CONFIG, path,
				 "SOLUTION=%s shares BATCH at every barrier: BATCH_SCALING=keep",
				 job->solution);
	if (job->more_hosts > 0 && (job_is_allreduce(job) || job_is_local(job)))
		return error_set(err, ERROR_CONFIG, path,
				 "MORE_HOSTS gives workers further hosts; with %s they can't run there",
				 job_is_local(job) ? "PARTITIONS=local" : "SYNC=" ALLREDUCE);
	if (job->more_hosts == 0 && job->preemptible[0])
		return error_set(err, ERROR_CONFIG, path,
				 "PREEMPTIBLE is for further hosts, and MORE_HOSTS is 0");
	if (job->longer < job->shorter)
		return error_set(err, ERROR_CONFIG, path, "LONG=%g is shorter than SHORT=%g",
				 job->longer, job->shorter);
	if (job->eval_every > 0 && job->test.count == 0)
		return error_set(err, ERROR_CONFIG, path, "EVAL_EVERY scores TEST now and then, and there is no TEST");
	if (job->patience > 0 && job->eval_every == 0)
		return error_set(err, ERROR_CONFIG, path, "PATIENCE counts the scores of EVAL_EVERY, which is 0");
	if (job_balance(job) && strcmp(job->sync, "bsp") != 0 && !job_is_allreduce(job))
		return error_set(err, ERROR_CONFIG, path,
				 "SOLUTION=%s sets sizes at the barrier; SYNC=%s has none: SYNC=bsp "
				 "and SYNC=" ALLREDUCE " have",
				 job->solution, job->sync);
	if (finish_brain(job, path, err) != 0)
		return -1;
	if (finish_options(job, path, err) != 0 || finish_metrics(job, err) != 0)
		return -1;
	return finish_names(job, err);
}

static int write_rows(const struct job *job, FILE *out)
{
	struct row row;
	for (size_t i = 0; row_get(i, &row) == 0; i++) {
		char *value = value_text(job, &row);
		if (!value)
			return -1;
		size_t max = 2 * strlen(value) + 80;
		char *line = malloc(max);
		if (line && jobtext_format(row.key, value, line, max) > 0)
			fprintf(out, "%s\n", line);
		free(value);
		free(line);
		if (!line)
			return -1;
	}
	return 0;
}

int job_write(const struct job *job, const char *path, struct error *err)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	if (!out)
		return error_set(err, ERROR_OS, path, "out of memory");
	int result = write_rows(job, out);
	if (fclose(out) != 0 || result != 0)
		result = error_set(err, ERROR_OS, path, "out of memory");
	if (result == 0)
		result = fs_replace_file(path, text, len, err);
	free(text);
	return result;
}

/* A stopped job can go on with another value of these; a finished one would have to train again. */
static int is_late(const struct row *row)
{
	static const char *const keys[] = {"L2", "LR", "TEST"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (strcmp(row->key, keys[i]) == 0)
			return 1;
	return 0;
}

/* A method that sets sizes at every barrier is the lead's from its start to its end. */
static enum job_change change_of(const struct row *row, const struct job *old,
				 const struct job *now, int finished)
{
	const char *before = job_balance(old), *after = job_balance(now);
	if (strcmp(row->key, "TRAINER") == 0 && job_is_foreign(old) != job_is_foreign(now))
		return FRESH;
	if (finished && is_late(row))
		return FRESH;
	if (strcmp(row->key, "SOLUTION") == 0 &&
	    strcmp(before ? before : "", after ? after : "") != 0)
		return STOPPED;
	if (strcmp(row->key, "LEAST") == 0 && before)
		return STOPPED;
	return row->change;
}

/* Long values, and those that look alike, are no help. */
static size_t add_change(char *keys, size_t at, const char *key, const char *old, const char *now)
{
	char values[2 * CHANGE_SHOWN + 16] = "";
	const char *comma = at > 0 ? ", " : "";
	if (old[0] && now[0] && strlen(old) <= CHANGE_SHOWN && strlen(now) <= CHANGE_SHOWN)
		snprintf(values, sizeof values, " (%s, not %s)", old, now);
	if (at + strlen(key) + strlen(values) + 3 >= JOB_KEYS_MAX)
		return at;
	return at + (size_t)snprintf(keys + at, JOB_KEYS_MAX - at, "%s%s%s", comma, key, values);
}

enum job_change job_compare(const struct job *old, const struct job *now, int finished, char *keys)
{
	enum job_change gravest = JOB_SAME;
	size_t at = 0;
	struct row row;
	keys[0] = '\0';
	for (size_t i = 0; row_get(i, &row) == 0; i++) {
		char *a = value_text(old, &row), *b = value_text(now, &row);
		int differs = a && b && strcmp(a, b) != 0;
		enum job_change change = change_of(&row, old, now, finished);
		if (differs && change >= gravest) {
			at = change > gravest ? 0 : at;
			gravest = change;
			at = add_change(keys, at, row.key, a, b);
		}
		free(a);
		free(b);
	}
	return gravest;
}

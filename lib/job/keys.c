/* keys: see keys.h. */
#include "job/keys.h"

#include "data/format.h"
#include "job/hosts.h"
#include "model/model.h"
#include "monitor/node.h"
#include "param/opt.h"
#include "predict/predict.h"
#include "proc/launcher.h"
#include "solve/accum.h"

#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(struct job, field)
#define FREE JOB_CHANGE_FREE
#define STOPPED JOB_CHANGE_STOPPED
#define FRESH JOB_CHANGE_FRESH

/* Models whose rows have columns: all without documents. */
static char columns_models[256];

/* Options of models follow the row MODEL. */
static const struct key_row own_rows[] = {
	{"JOB", NULL, NULL, KEY_ID, AT(name), "", 0, 0, NULL, NULL, FRESH, "name of the job"},
	{"INCLUDE", NULL, NULL, KEY_INCLUDE, 0, "", 0, 0, "FILE", NULL, FREE,
	 "another job file, read in the place of this line"},
	{"MAX_TIME", NULL, NULL, KEY_SECONDS, AT(max_time), "never", 0, 1e9, "never", NULL, FREE,
	 "seconds of training after which the job ends as it is, all starts together"},
	{"SEED", NULL, NULL, KEY_COUNT, AT(seed), "1", 0, 0, NULL, NULL, FRESH,
	 "seed of every random choice"},

	{"DATA", NULL, NULL, KEY_FILES, AT(data), "", 0, 0, "FILE", NULL, FRESH,
	 "training data, one file or several"},
	{"TEST", NULL, NULL, KEY_FILES, AT(test), "", 0, 0, "FILE", NULL, FREE,
	 "data scored at the end"},
	{"FORMAT", "format", NULL, KEY_CHOICE, AT(format), "auto", 0, 0,
	 "auto|" ROW_FORMAT_CHOICES "|" JOB_LINES, NULL, FRESH, "of DATA and TEST"},
	{"FORMAT separator", NULL, "SEPARATOR", KEY_SEPARATOR, AT(separator), "auto", 0, 0,
	 "auto|tab|space|comma|semicolon|pipe", NULL, FRESH,
	 "between two columns (csv): a character, or its name"},
	{"FORMAT cache", NULL, NULL, KEY_CHOICE, AT(row_cache), "on", 0, 0, "off|on", NULL, FREE,
	 "rows are kept parsed in STATE/index, for epochs after the first"},
	{"LABEL", NULL, NULL, KEY_TEXT, AT(label), "", 0, 0, NULL, NULL, FRESH,
	 "label column (csv, tsv)"},
	{"POSITIVE", NULL, NULL, KEY_TEXT, AT(positive), "", 0, 0, NULL, NULL, FRESH,
	 "label value that means 1"},
	{"NEGATIVE", NULL, NULL, KEY_TEXT, AT(negative), "", 0, 0, NULL, NULL, FRESH,
	 "label value that means 0"},
	{"WEIGHT", NULL, NULL, KEY_TEXT, AT(weight), "", 0, 0, NULL, NULL, FRESH,
	 "column of sample weights (csv, tsv)"},
	{"DENSE", NULL, NULL, KEY_TEXT, AT(dense), "", 0, 0, NULL, NULL, FRESH,
	 "numeric columns (csv, tsv)"},
	{"SPARSE", NULL, NULL, KEY_TEXT, AT(sparse), "", 0, 0, NULL, NULL, FRESH,
	 "category columns (csv, tsv)"},
	{"MISSING", NULL, NULL, KEY_TEXT, AT(missing), "", 0, 0, NULL, NULL, FRESH,
	 "values that mean a missing value, like NA,? (csv, tsv)"},
	{"BAD_ROWS", "rows", NULL, KEY_BAD_ROWS, AT(bad_rows), "stop", 0, 0, "stop|skip:N", NULL,
	 FREE, "rows that can't be read: they end the job, or up to N are left out"},
	{"BAD_ROWS classes", NULL, "CLASSES", KEY_CHOICE, AT(classes), "both", 0, 0, "both|any",
	 NULL, FREE, "labels that DATA must have: both 0 and 1, or any"},

	{"MODEL", "name", NULL, KEY_CHOICE, AT(model), "lr", 0, 0, MODEL_CHOICES, NULL, FRESH,
	 "what is trained"},
	{"MODEL hash-bits", NULL, "HASH_BITS", KEY_COUNT, AT(hash_bits), "20", 1, 31, NULL,
	 columns_models, FRESH, "2^N hashed categories"},
	{"MODEL scale", NULL, "DENSE_SCALE", KEY_CHOICE, AT(dense_scale), "log-z", 0, 0,
	 "log-z|z|none", columns_models, FRESH, "scaling of dense columns"},
	{"INIT", NULL, NULL, KEY_PATH, AT(init), "", 0, 0, "PATH", NULL, FRESH,
	 "checkpoint to start from"},
	{"OPTIMIZER", "name", NULL, KEY_CHOICE, AT(optimizer), "adagrad", 0, 0,
	 OPT_JOB_NAMES, NULL, FRESH, "how gradients are applied"},
	{"OPTIMIZER lr", NULL, "LR", KEY_REAL, AT(lr), "auto", 1e-30, 1e6, "auto", NULL, STOPPED,
	 "learning rate"},
	{"OPTIMIZER l2", NULL, "L2", KEY_REAL, AT(l2), "0", 0, 1e6, NULL, NULL, STOPPED,
	 "L2 penalty"},
	{"OPTIMIZER schedule", NULL, NULL, KEY_CHOICE, AT(schedule), "constant", 0, 0, OPT_SCHEDULES,
	 OPT_RATED, STOPPED, "how the rate falls: with the steps, or with them and the delay"},
	{"OPTIMIZER beta", NULL, NULL, KEY_REAL, AT(rate_beta), "0", 0, 1e9, NULL, OPT_SCHEDULED,
	 STOPPED, "added to the root by which a schedule divides lr (sqrt, adadelay)"},
	{"OPTIMIZER steps", NULL, NULL, KEY_COUNT, AT(rate_steps), "", 1, 1e15, NULL, OPT_RATED, STOPPED,
	 "after so many steps the rate is multiplied by factor again (step), or is as low as it gets "
	 "(cosine)"},
	{"OPTIMIZER factor", NULL, NULL, KEY_REAL, AT(rate_factor), "auto", 0, 1, "auto", OPT_RATED,
	 STOPPED, "what is left of lr; auto: 0.1 of step, 0 of cosine"},
	{"OPTIMIZER warmup", NULL, NULL, KEY_COUNT, AT(warmup), "0", 0, 1e15, NULL, OPT_RATED, STOPPED,
	 "steps in which the rate rises to lr"},
	{"OPTIMIZER decay", NULL, NULL, KEY_REAL, AT(decay), "0", 0, 1e6, NULL, OPT_RATED, STOPPED,
	 "L2 penalty apart from the gradient: each step makes a parameter smaller by rate x decay"},
	{"OPTIMIZER clip", NULL, NULL, KEY_REAL, AT(clip), "never", 0, 1e18, "never", NULL, STOPPED,
	 "a worker's gradient with a larger norm becomes one with this norm"},
	{"BATCH", "samples", NULL, KEY_COUNT, AT(batch), "1024", 1, 1e9, NULL, NULL, STOPPED,
	 "global batch, samples"},
	{"BATCH shard", NULL, "BATCHES_PER_SHARD", KEY_COUNT, AT(batches_per_shard), "100", 1, 1e9,
	 NULL, NULL, FRESH, "global batches in one shard"},
	{"BATCH scaling", NULL, "BATCH_SCALING", KEY_CHOICE, AT(batch_scaling), "none", 0, 0,
	 "none|linear|sqrt", NULL, STOPPED,
	 "how batch and learning rate change when the job is scaled"},
	{"EPOCHS", NULL, NULL, KEY_COUNT, AT(epochs), "1", 1, 1e9, NULL, NULL, FRESH,
	 "passes over DATA"},
	{"SHUFFLE", NULL, NULL, KEY_CHOICE, AT(shuffle), "none", 0, 0, "none|shards|samples", NULL,
	 FRESH, "order of samples"},
	{"PARTITIONS", "rows", NULL, KEY_CHOICE, AT(partitions), "shared", 0, 0, "shared|local",
	 NULL, FRESH, "local: each worker trains only its own file of DATA"},
	{"PARTITIONS migrate", NULL, "MIGRATE", KEY_REAL, AT(migrate), "2", 0, 1e9, "never", NULL,
	 STOPPED, "rows move when workers' passes over their data differ by more"},
	{"SYNC", "mode", NULL, KEY_SYNC, AT(sync), "bsp", 0, 0, JOB_SYNC_CHOICES, NULL, STOPPED,
	 "how far workers may be apart"},
	{"SYNC delay", NULL, NULL, KEY_COUNT, AT(delay_max), "none", 1, 1e9, "none",
	 "asp|ssp|" JOB_ALLREDUCE, STOPPED,
	 "most commits between a pull and its push's; allreduce: 1, sums go while workers compute"},
	{"SYNC late", NULL, NULL, KEY_REAL, AT(late), "never", 1, 1e9, "never", JOB_ALLREDUCE, STOPPED,
	 "a sum goes on without a worker whose batch takes so many times the median"},
	{"EVAL", "every", "EVAL_EVERY", KEY_SECONDS, AT(eval_every), "end", 0, 1e9, "end", NULL,
	 FREE, "seconds between scorings of TEST"},
	{"EVAL patience", NULL, "PATIENCE", KEY_COUNT, AT(patience), "never", 0, 1e9, "never", NULL,
	 FREE, "scorings without a better one after which the job ends"},

	{"WORKERS", "count", NULL, KEY_COUNT, AT(workers), "2", 1, 1024, NULL, NULL, STOPPED,
	 "worker nodes"},
	{"WORKERS cores", NULL, "WORKER_CORES", KEY_REAL, AT(worker_cores), "all", 0, 1e6, "all",
	 NULL, FREE, "cores that a worker may use, 1.5 for example"},
	{"WORKERS memory", NULL, "WORKER_MEMORY", KEY_BYTES, AT(worker_memory), "all", 0, 1e18,
	 "all", NULL, FREE, "memory that a worker may use, 2G for example"},
	{"WORKERS device", NULL, NULL, KEY_DEVICE, AT(device), "cpu", 0, 0, MODEL_DEVICES, NULL,
	 FREE, "what computes: cuda is a card of NVIDIA, auto a card if there is one"},
	{"WORKERS spares", NULL, "HOT_SPARES", KEY_COUNT, AT(hot_spares), "0", 0, 64, NULL, NULL,
	 STOPPED, "additional workers, ready to replace a dead one"},
	{"WORKERS ahead", NULL, "AHEAD", KEY_COUNT, AT(ahead), "4", 1, 1024, NULL, NULL, FREE,
	 "batches that a worker reserves in advance"},
	{"SERVERS", "count", NULL, KEY_COUNT, AT(servers), "1", 1, 64, NULL, NULL, STOPPED,
	 "parameter servers"},
	{"SERVERS cores", NULL, "SERVER_CORES", KEY_REAL, AT(server_cores), "all", 0, 1e6, "all",
	 NULL, FREE, "cores that a server may use, 1.5 for example"},
	{"SERVERS memory", NULL, "SERVER_MEMORY", KEY_BYTES, AT(server_memory), "all", 0, 1e18,
	 "all", NULL, FREE, "memory that a server may use, 2G for example"},
	{"SERVERS standby", NULL, NULL, KEY_CHOICE, AT(standby), "off", 0, 0, "off|on", NULL, FREE,
	 "each server has a second process, which takes over when it dies"},
	{"SERVERS divergence", NULL, NULL, KEY_COUNT, AT(divergence), "0", 0, 1e6, NULL, NULL, FREE,
	 "gradients that such a process may lack for a while, because workers keep them"},
	{"LAUNCH_WORKER", NULL, NULL, KEY_TEMPLATE, AT(launch_worker), "", 0, 0, NULL, NULL, FREE,
	 "words in front of a worker's command"},
	{"LAUNCH_SERVER", NULL, NULL, KEY_TEMPLATE, AT(launch_server), "", 0, 0, NULL, NULL, FREE,
	 "words in front of a server's command"},

	{"SOLUTION", "filter", NULL, KEY_PROGRAM, AT(solution), "none", 0, 0, "NAME|FILE", NULL,
	 FREE, "what decides: a name (trainctl solve --help), or the path of an executable"},
	{"SOLUTION every", NULL, "EVERY", KEY_SECONDS, AT(every), "60", 0.1, 1e9, NULL, NULL, FREE,
	 "seconds between decisions"},
	{"SOLUTION lambda", NULL, "LAMBDA", KEY_REAL, AT(options.lambda), "1.3", 1, 1e9, NULL,
	 "antdt-nd|pace", FREE, "a node is slow when its time is so many times the mean"},
	{"SOLUTION pending", NULL, "PENDING", KEY_SECONDS, AT(options.pending), "60", 0, 1e9, NULL,
	 "antdt-nd|pace", FREE, "the cluster is busy when a new node waits so many seconds"},
	{"SOLUTION cmax", NULL, "CMAX", KEY_COUNT, AT(options.cmax), "5", 1, ACCUM_STEPS_MAX, NULL,
	 "antdt-dd", FREE, "most accumulation steps of a batch (antdt-dd)"},
	{"SOLUTION least", NULL, "LEAST", KEY_COUNT, AT(options.least), "1", 1, NODE_BATCH_MAX,
	 NULL, NULL, FREE, "fewest samples in a step of a worker"},
	{"SOLUTION predict", NULL, "PREDICT", KEY_CHOICE, AT(predict), "mix", 0, 0,
	 "none|" PREDICT_CHOICES, NULL, FREE, "how workers predict their speeds (lb-bsp)"},
	{"SOLUTION profile", NULL, "PROFILE", KEY_CHOICE, AT(profile), "auto", 0, 0, "auto|on|off",
	 NULL, FREE, "workers measure their devices first; auto: cards, and for antdt-dd"},
	{"PREDICT_FROM", NULL, NULL, KEY_PATH, AT(predict_from), "", 0, 0, "PATH", NULL, FREE,
	 "start of predictions: STATE of another job, or a file"},
	{"MONITOR report", NULL, "REPORT_EVERY", KEY_COUNT, AT(report_every), "10", 1, 1e9, NULL,
	 NULL, FREE, "iterations between two reports of a node"},
	{"MONITOR short", NULL, "SHORT", KEY_SECONDS, AT(shorter), "300", 0.1, 1e9, NULL, NULL,
	 STOPPED, "the short window, seconds"},
	{"MONITOR long", NULL, "LONG", KEY_SECONDS, AT(longer), "600", 0.1, 1e9, NULL, NULL,
	 STOPPED, "the long window, seconds"},
	{"KILL_RESTART", "limit", "HEAVY_LIMIT", KEY_COUNT, AT(heavy_limit), "3", 0, 1e6, NULL,
	 NULL, FREE, "intended restarts that a node may have"},
	{"KILL_RESTART window", NULL, "HEAVY_WINDOW", KEY_SECONDS, AT(heavy_window), "auto", 0, 1e9,
	 "auto", NULL, FREE,
	 "seconds in which a node is restarted at most once; auto: MONITOR long"},
	{"KILL_RESTART cooldown", NULL, "HEAVY_COOLDOWN", KEY_SECONDS, AT(heavy_cooldown), "0", 0,
	 1e9, NULL, NULL, FREE, "seconds between two intended restarts of any nodes"},
	{"DRAG", NULL, NULL, KEY_PLACE, AT(drag), "", 0, 0, "PATH", NULL, STOPPED,
	 "directory of drag files"},

	{"HUNG", "deadline", NULL, KEY_DEADLINE, AT(hung_of[0]), "auto", 0, 1e9, "auto|never", NULL,
	 FREE, "seconds without a sign of life after which a node is killed"},
	{"HUNG start", NULL, NULL, KEY_DEADLINE, AT(hung_of[1]), "", 0, 1e9, "auto|never", NULL,
	 FREE, "the same for its start"},
	{"HUNG batch", NULL, NULL, KEY_DEADLINE, AT(hung_of[2]), "", 0, 1e9, "auto|never", NULL,
	 FREE, "for a worker's batch"},
	{"HUNG exchange", NULL, NULL, KEY_DEADLINE, AT(hung_of[3]), "", 0, 1e9, "auto|never", NULL,
	 FREE, "for answers, and between batches"},
	{"HUNG checkpoint", NULL, NULL, KEY_DEADLINE, AT(hung_of[4]), "", 0, 1e9, "auto|never",
	 NULL, FREE, "for answers while a checkpoint is made"},
	{"HUNG hand-over", NULL, NULL, KEY_DEADLINE, AT(hung_of[5]), "", 0, 1e9, "auto|never", NULL,
	 FREE, "for a server's hand-over"},
	{"HUNG pause", NULL, NULL, KEY_DEADLINE, AT(hung_of[6]), "", 0, 1e9, "auto|never", NULL,
	 FREE, "for a TRAINER's pause"},
	{"RESTARTS", "node", NULL, KEY_COUNT, AT(restarts), "10", 0, 1e6, NULL, NULL, FREE,
	 "how many times in a row a node is started again"},
	{"RESTARTS rollbacks", NULL, "ROLLBACKS", KEY_COUNT, AT(rollbacks), "3", 0, 1e6, NULL, NULL,
	 FREE, "how many times in a row all go back to the same checkpoint"},
	{"RESTARTS shard", NULL, "SHARD_RETRIES", KEY_COUNT, AT(shard_retries), "3", 0, 1e6,
	 "never", NULL, FRESH, "a piece of data is left out after so many workers died on it"},
	{"RESTARTS oom", NULL, "OOM_LIMIT", KEY_COUNT, AT(oom_limit), "3", 0, 1e6, NULL, NULL, FREE,
	 "how many times a node without memory is given more, or less to do"},

	{"CHECKPOINT", "every", "CHECKPOINT_EVERY", KEY_SECONDS, AT(checkpoint_every), "60", 0, 1e9,
	 "end", NULL, FREE, "seconds between checkpoints"},
	{"CHECKPOINT keep", NULL, "KEEP", KEY_COUNT, AT(keep), "3", 1, 1e6, NULL, NULL, FREE,
	 "how many checkpoints are kept"},
	{"CHECKPOINT full", NULL, "CHECKPOINT_FULL_EVERY", KEY_COUNT, AT(checkpoint_full_every),
	 "1", 1, 1e6, NULL, NULL, FREE,
	 "one of so many has all rows, the others have only rows that changed"},
	{"CHECKPOINT level", NULL, "CHECKPOINT_LEVEL", KEY_COUNT, AT(checkpoint_level), "1", 0, 9,
	 NULL, NULL, FREE, "compression: 0 none, 9 slowest and smallest"},
	{"CHECKPOINT memory", NULL, "CHECKPOINT_MEMORY", KEY_MEMORY, AT(checkpoint_memory), "off",
	 0, 0, "off|on|DIR", NULL, FREE, "servers, or trainers, keep their part of the last "
					 "checkpoint in memory, too"},

	{"HOSTS", NULL, NULL, KEY_HOSTS, AT(hosts), "", 0, 0, NULL, NULL, STOPPED,
	 "names of the machines (those of Slurm's allocation, else this one)"},
	{"PLACE", NULL, NULL, KEY_PLACING, AT(place), "spread", 0, 0, "spread|fill|HOST:N", NULL,
	 FREE, "how workers are spread over HOSTS"},
	{"FABRIC", "kind", NULL, KEY_CHOICE, AT(fabric), "plain", 0, 0, "plain|mlfabric", NULL, STOPPED,
	 "what goes between HOSTS: mlfabric lets it follow the rates of their links"},
	{"FABRIC rounds", NULL, NULL, KEY_CHOICE, AT(fabric_rounds), "rate", 0, 0, "ring|rate",
	 "mlfabric", STOPPED, "how sums of gradients go between hosts (allreduce)"},
	{"LAUNCHER", "by", NULL, KEY_CHOICE, AT(launcher), "auto", 0, 0, "auto|" LAUNCHER_CHOICES,
	 NULL, STOPPED, "what starts nodes on other machines"},
	{"LAUNCHER more", NULL, "MORE_HOSTS", KEY_COUNT, AT(more_hosts), "0", 0, HOSTS_MAX, NULL,
	 NULL, STOPPED,
	 "hosts that the job may request from Slurm when its own are full"},
	{"LAUNCHER preemptible", NULL, "PREEMPTIBLE", KEY_TEXT, AT(preemptible), "", 0, 0, NULL,
	 NULL, FREE, "Slurm's partition for these hosts, which may be taken away"},
	{"BAD_HOSTS avoid", NULL, "HOST_AVOID", KEY_SECONDS, AT(host_avoid), "600", 0, 1e9, "never",
	 NULL, FREE, "seconds for which a host is avoided after a node hung there"},
	{"BAD_HOSTS wait", NULL, "HOST_WAIT", KEY_SECONDS, AT(host_wait), "600", 0, 1e9, "forever",
	 NULL, FREE, "seconds to wait for a lost host without which nothing goes on"},
	{"BAD_HOSTS test", NULL, "SELF_TEST", KEY_CHOICE, AT(self_test), "off", 0, 0, "off|on",
	 NULL, FREE, "hosts are tested before the job, and when a node is suspected"},

	{"TRAINER", NULL, NULL, KEY_TEXT, AT(trainer), "", 0, 0, NULL, NULL, FREE,
	 "command of a trainer of your own, for sh; see paceline-trainers(7)"},
	{"TRAINER_KIND", "kind", NULL, KEY_CHOICE, AT(trainer_kind), "loop", 0, 0, "loop|each|rows",
	 NULL, FRESH, "how TRAINER runs: asks for batches, once for each shard, rows on stdin"},
	{"TRAINER_KIND grace", NULL, "TRAINER_GRACE", KEY_SECONDS, AT(trainer_grace), "10", 0, 1e6,
	 NULL, NULL, FREE, "seconds that TRAINER has to end before it is killed"},
	{"TRAINER_KIND jobs", NULL, "EACH_JOBS", KEY_COUNT, AT(each_jobs), "1", 1, 1024, NULL,
	 "each", FREE, "how many commands a worker runs at once (each)"},
	{"TRAINER_KIND header", NULL, "TRAINER_HEADER", KEY_CHOICE, AT(trainer_header), "off", 0, 0,
	 "off|on", NULL, STOPPED, "rows for TRAINER begin with the header of DATA"},
	{"EACH_OUTPUT", NULL, NULL, KEY_PLACE, AT(each_output), "", 0, 0, "PATH", NULL, STOPPED,
	 "directory for the output of TRAINER_KIND=each, a file for each shard"},
	{"SAMPLES", NULL, NULL, KEY_COUNT, AT(samples), "", 0, 0, NULL, NULL, FRESH,
	 "number of TRAINER's samples, instead of DATA"},

	{"BRAIN", "planner", NULL, KEY_PROGRAM, AT(brain), "off", 0, 0, "off|on|FILE", NULL, FREE,
	 "what plans number and size of nodes: on is res-plan; or an executable"},
	{"BRAIN every", NULL, "PLAN_EVERY", KEY_SECONDS, AT(plan_every), "60", 0.1, 1e9, NULL, NULL,
	 FREE, "least seconds between two changes"},
	{"BRAIN gain", NULL, "PLAN_GAIN", KEY_REAL, AT(plan_gain), "0.05", 0, 100, NULL, NULL, FREE,
	 "a change must be expected to make the job faster by this fraction"},
	{"BRAIN limit", NULL, "PLAN_LIMIT", KEY_COUNT, AT(plan_limit), "20", 0, 1e6, NULL, NULL,
	 FREE, "most changes; with 0 the brain is asked, but nothing changes"},
	{"BRAIN cores", NULL, "CORES", KEY_COUNT, AT(cores), "all", 0, 100000, "all", NULL, FREE,
	 "most cores of all nodes together"},
	{"BRAIN node-cores", NULL, "NODE_CORES", KEY_COUNT, AT(node_cores), "all", 0, 100000, "all",
	 NULL, FREE, "most cores of one node; all: those of the largest host"},
	{"BRAIN memory", NULL, "MEMORY", KEY_BYTES, AT(memory), "all", 0, 9e15, "all", NULL, FREE,
	 "most memory of all nodes together, 500G for example"},
	{"BRAIN node-memory", NULL, "NODE_MEMORY", KEY_BYTES, AT(node_memory), "all", 0, 9e15,
	 "all", NULL, FREE, "most memory of one node"},
	{"REBALANCE", "mode", NULL, KEY_CHOICE, AT(rebalance), "off", 0, 0, "off|on", NULL, FREE,
	 "a busy server gives some of its keys to the others"},
	{"REBALANCE every", NULL, "REBALANCE_EVERY", KEY_SECONDS, AT(rebalance_every), "60", 0.1,
	 1e9, NULL, NULL, FREE, "seconds between two comparisons of servers"},
	{"REBALANCE gain", NULL, "REBALANCE_GAIN", KEY_REAL, AT(rebalance_gain), "0.2", 0, 1, NULL,
	 NULL, FREE, "keys move if that reduces the busiest server's work by this fraction"},
	{"REBALANCE limit", NULL, "REBALANCE_LIMIT", KEY_COUNT, AT(rebalance_limit), "20", 0, 1e6,
	 NULL, NULL, FREE, "how many times keys move at most"},

	{"METRICS", NULL, NULL, KEY_METRICS, AT(metrics), "", 0, 0, NULL, NULL, FREE,
	 "FILE.prom, DIR/, unix:SOCKET or http://ADDRESS:PORT, for Prometheus"},
};
_Static_assert(sizeof own_rows / sizeof *own_rows + MODEL_ALL_OPTIONS_MAX <= KEY_ROWS_MAX,
	       "KEY_ROWS_MAX is too small");

struct key_row key_rows[KEY_ROWS_MAX];
size_t key_count;

static struct option_text {
	char name[40], of[128], help[160];
} option_texts[MODEL_ALL_OPTIONS_MAX];

static struct key_row option_row(const struct model_option *o, size_t i)
{
	struct option_text *t = &option_texts[i];
	int is_choice = o->kind == MODEL_CHOICE;
	snprintf(t->name, sizeof t->name, "MODEL %s", o->name);
	model_option_owners(o->name, t->of, sizeof t->of);
	snprintf(t->help, sizeof t->help, "%s (%s)", o->help, t->of);
	for (char *c = t->help; (c = strchr(c, '|'));)
		*c = ',';
	return (struct key_row){.name = t->name,
				.old = strcmp(o->name, "embed") == 0    ? "EMBED"
				       : strcmp(o->name, "hidden") == 0 ? "HIDDEN"
									: NULL,
				.kind = is_choice ? KEY_CHOICE : KEY_OPTION,
				.at = AT(option) + i * sizeof(char *),
				.given = o->given,
				.words = o->words,
				.of = t->of,
				.change = FRESH,
				.help = t->help};
}

/* Before main(): the options are in the models' files, where no constant can be taken from. */
__attribute__((constructor)) static void key_rows_fill(void)
{
	const struct model_option *o;
	size_t len = 0;
	for (size_t i = 0; model_name_at(i); i++)
		if (!model_has_documents(model_name_at(i)))
			len += (size_t)snprintf(columns_models + len, sizeof columns_models - len,
						"%s%s", len ? "|" : "", model_name_at(i));
	for (size_t i = 0; i < sizeof own_rows / sizeof *own_rows; i++) {
		key_rows[key_count++] = own_rows[i];
		for (size_t k = 0;
		     strcmp(own_rows[i].name, "MODEL") == 0 && (o = model_option_at(k)); k++)
			key_rows[key_count++] = option_row(o, k);
	}
}

static int keys_is_of(const struct key_row *row, const char *key, size_t len)
{
	return strncmp(row->name, key, len) == 0 &&
	       (row->name[len] == '\0' || row->name[len] == ' ');
}

const struct key_row *key_find(const char *name)
{
	for (const struct key_row *row = key_rows; row < key_rows + key_count; row++)
		if (strcmp(row->name, name) == 0)
			return row;
	return NULL;
}

const struct key_row *key_family(const char *key, size_t len)
{
	for (const struct key_row *row = key_rows; len > 0 && row < key_rows + key_count; row++)
		if (keys_is_of(row, key, len))
			return row;
	return NULL;
}

const struct key_row *key_next(const struct key_row *row)
{
	const struct key_row *next = row + 1;
	return next < key_rows + key_count && keys_is_of(next, row->name, key_len(row)) ? next
											: NULL;
}

const struct key_row *key_old(const char *key)
{
	for (const struct key_row *row = key_rows; row < key_rows + key_count; row++)
		if (row->old && strcmp(row->old, key) == 0)
			return row;
	return NULL;
}

const char *key_section(const struct key_row *row)
{
	static const char *const sections[][2] = {
		{"JOB", "Job"},		{"DATA", "Data"},	    {"MODEL", "Model and training"},
		{"WORKERS", "Nodes"},	{"SOLUTION", "Stragglers"}, {"HUNG", "Failures"},
		{"CHECKPOINT", "Checkpoints"}, {"HOSTS", "Hosts and network"}, {"TRAINER", "Trainers"},
		{"BRAIN", "Resources"}, {"METRICS", "Reports"}};
	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
		if (strcmp(sections[i][0], row->name) == 0)
			return sections[i][1];
	return NULL;
}

size_t key_len(const struct key_row *row)
{
	return strcspn(row->name, " ");
}

const char *key_part(const struct key_row *row)
{
	const char *blank = strchr(row->name, ' ');
	return blank ? blank + 1 : row->head;
}

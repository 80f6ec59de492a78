/*
 * job: what a job file says (paceline-job(5)), and which of it may change later.
 *
 * Reading, hints, the resolved file and the comparison with a job that has state all go by the
 * table of keys in keys.h.
 */
#ifndef PACELINE_JOB_JOB_H
#define PACELINE_JOB_JOB_H

#include "base/error.h"
#include "model/option.h"
#include "monitor/pulse.h"
#include "solve/options.h"

#include <stddef.h>
#include <stdint.h>

#define JOB_ALLREDUCE "allreduce"
#define JOB_SYNC_CHOICES "bsp|ssp:N|asp|" JOB_ALLREDUCE
#define JOB_LINES "lines" /* of FORMAT, with TRAINER */

struct job_list {
	size_t count;
	char **item; /* NULL-terminated */
};

/* Where the value of a key was given. */
struct job_origin {
	char *dir;   /* of the job file, absolute, where it names files; NULL: in no job file */
	char *place; /* file:line, --set; NULL: nobody gave it */
};

struct job {
	char *name; /* JOB */
	/* data */
	struct job_list data, test; /* absolute paths */
	char *format;    /* bag | criteo | csv | libsvm | tsv | lines; "" until job_finish() */
	char *separator; /* csv, tsv: as row_separator_text() writes it, from job_finish() on */
	char *label, *positive, *negative, *weight; /* "" when not given */
	char *dense, *sparse;  /* lists of columns, as schema.h wants them; "" when not given */
	char *missing;         /* a list of values; "" when not given */
	char *dense_scale;     /* log-z | z | none */
	char *classes;         /* both | any */
	char *bad_rows;        /* stop | skip:N */
	uint64_t bad_rows_max; /* N of skip:N; 0: stop */
	char *row_cache;       /* off | on */
	/* model and optimiser */
	char *model, *optimizer, *schedule, *init;
	uint64_t hash_bits;
	char *option[MODEL_ALL_OPTIONS_MAX]; /* of models, as model_option_at() counts them */
	double l2, lr;          /* lr NaN until job_finish() */
	double rate_beta;       /* of schedule, as are the next two */
	uint64_t rate_steps;    /* 0: none */
	double rate_factor;     /* NAN: auto */
	uint64_t warmup;        /* steps */
	double decay;
	double clip;            /* 0: never */
	/* course */
	uint64_t batch, batches_per_shard, epochs, seed, shard_retries;
	char *shuffle;               /* none | shards | samples */
	char *partitions;            /* shared | local */
	double migrate;              /* passes, 0: never */
	double eval_every, max_time; /* seconds, 0: never */
	uint64_t patience;           /* evaluations, 0: any number */
	/* nodes */
	uint64_t workers, servers, hot_spares, restarts, rollbacks;
	char *batch_scaling; /* none | linear | sqrt: what becomes of batch when workers come or go */
	/* see pulse_rules_parse(): in all, from job_finish() on; and its parts */
	char *hung, *hung_of[1 + PULSE_SECTIONS];
	char *sync; /* bsp | ssp:N | asp, as given */
	double late; /* times the median batch; 0: no worker is too late for a sum */
	uint64_t delay_max; /* units; 0: none given (see job_bounds_delay(), job_overlaps()) */
	double worker_cores, server_cores; /* of each; 0: not limited */
	uint64_t worker_memory, server_memory; /* bytes of each; 0: not limited */
	char *device; /* one of MODEL_DEVICES, that workers and the scoring of TEST compute on */
	char *standby; /* off | on: a server has another process that takes over when it dies */
	uint64_t divergence; /* pushes that a standby may be behind */
	uint64_t more_hosts;   /* at most, of further allocations of Slurm */
	char *preemptible;     /* a partition of Slurm; "" */
	uint64_t oom_limit; /* steps after ends for memory, of each node */
	char *launch_worker, *launch_server, *drag;
	/* Names; none: this machine, or what Slurm has allocated (hosts.h). */
	struct job_list hosts;
	char *launcher;        /* one of LAUNCHER_CHOICES; "": found out */
	char *place;           /* spread | fill | HOST:N,...; see hosts.h */
	char *fabric;          /* plain | mlfabric */
	char *fabric_rounds;   /* of mlfabric: ring | rate */
	double host_wait;      /* seconds, 0: for ever */
	char *self_test;       /* off | on */
	double host_avoid;     /* seconds, 0: no host is avoided */
	/* decisions */
	char *solution; /* a name, or the path of an executable */
	double every, shorter, longer;
	struct solution_options options; /* for the solution; all of them from job_finish() on */
	/* restarts by intention; heavy_window NaN until job_finish() */
	double heavy_window, heavy_cooldown;
	uint64_t heavy_limit;
	/* how many nodes of which size, found while it trains (run/brain.h) */
	char *brain; /* off | on, or the path of an executable */
	double plan_every, plan_gain;
	uint64_t plan_limit, cores, node_cores; /* cores 0: what the hosts have */
	uint64_t memory, node_memory;           /* bytes, of all nodes, of one; 0: not limited */
	char *rebalance; /* off | on: a server that has more to do than others gives keys away */
	double rebalance_every, rebalance_gain;
	uint64_t rebalance_limit;
	/* of workers, what they tell and take */
	uint64_t report_every, ahead;
	char *predict; /* none, or a model of lib/predict */
	char *predict_from;
	char *profile; /* off | on; "" until job_finish() */
	struct job_list metrics; /* words of job/metrics_to.h; files' and sockets' paths absolute */
	/* checkpoints */
	double checkpoint_every; /* seconds, 0: only at the end */
	uint64_t keep;
	char *checkpoint_memory; /* a directory; "": none */
	uint64_t checkpoint_level, checkpoint_full_every;
	/* a trainer of the user's own, in a worker's place */
	char *trainer;       /* for sh -c; "": the kit's own worker */
	char *trainer_kind;  /* loop | each | rows */
	uint64_t samples;    /* where no DATA says how many; 0: DATA does */
	double trainer_grace; /* seconds between SIGTERM and SIGKILL */
	char *trainer_header; /* off | on */
	char *each_output;   /* a directory; "": what commands print goes to the node's log */
	uint64_t each_jobs;
	struct job_origin *origin; /* of each key; for job_file() and job_place() */
};

/* Everything at its default. -1: out of memory. */
int job_init(struct job *job, struct error *err);
void job_free(struct job *job);

/* A file with those that it includes, "-" for stdin is not taken. ERROR_NOINPUT, or ERROR_CONFIG
 * with place "file:line". */
int job_read(struct job *job, const char *path, struct error *err);
/* One KEY=VALUE, where VALUE may be "HEAD,name:value,...": parts that it does not name stay, and ""
 * resets all. place says where it came from. An unknown key names the nearest known one, one of
 * before the new one. */
int job_set(struct job *job, const char *key, const char *value, const char *place,
	    struct error *err);
/* "KEY=VALUE" of --set: the value as it stands, unquoted. */
int job_set_text(struct job *job, const char *assignment, struct error *err);
/* After the last key: what must be there, defaults that depend on other keys, keys that do not
 * fit together. Names of files become absolute as the current directory sees them; those that a job
 * file gives are for job_locate() (locate.h). */
int job_finish(struct job *job, const char *path, struct error *err);

/* The value of a model's option; NULL: no model has it. */
const char *job_option(const struct job *job, const char *name);
/* The model with its options; what the data say is not set. */
void job_model(const struct job *job, struct model_spec *spec);
/* What its labels are, enum model_labels; 0: it has none. */
unsigned job_labels(const struct job *job);
/* The same as a word of MODEL_LABELS: those of DATA are read even if the model does not look. */
const char *job_labels_word(const struct job *job);
/* Whether a job file or --set gave a value to this key, rather than its default; "WORKERS cores" is
 * that part, "WORKERS" the head alone. */
int job_is_given(const struct job *job, const char *key);

/* Where that is, for a message about the key. Nobody gave it: otherwise, often the whole file. */
const char *job_place(const struct job *job, const char *key, const char *otherwise);

/* A name of a file in the job. */
struct job_file {
	const char *key;
	size_t index; /* among those of its key */
	char **name;  /* the job's: to be replaced by another string of malloc() */
	const struct job_origin *origin;
	int is_program; /* SOLUTION: may be the name of a built-in one as well */
	int is_late;    /* need not be there when the job begins */
};
/* The i-th of all, by their keys. -1: there are no more. */
int job_file(const struct job *job, size_t i, struct job_file *out);

/* The most that WORKERS and SERVERS can be. */
uint64_t job_workers_most(void);
uint64_t job_servers_most(void);

/* What a row of DATA is. */
struct row_syntax;
int job_row_syntax(const struct job *job, struct row_syntax *out, struct error *err);
/* Bytes of the ending by which a file's name says that it is compressed; 0: it does not. */
size_t job_packed(const char *path);
/* SYNC delay under ssp and asp: pushes that would be staler are dropped. */
int job_bounds_delay(const struct job *job);
/* SYNC delay under allreduce: workers compute while the sum of the batch before is made. */
int job_overlaps(const struct job *job);
/* Whether a gradient may be stale. */
int job_has_delay(const struct job *job);
/* Pushes take turns by the rates of hosts' links. */
int job_by_links(const struct job *job);
/* How the fabric sums: rate or ring. */
const char *job_rounds(const struct job *job);
/* The solution that the lead carries out at every barrier, or NULL. */
const char *job_balance(const struct job *job);
/* How many workers BATCH is enough for, by least. */
uint64_t job_batch_workers(const struct job *job);
/* "one sample", or "SOLUTION=least:8 samples": of a worker at least, for a message. */
#define JOB_LEAST_MAX 48
const char *job_least_words(const struct job *job, char out[JOB_LEAST_MAX]);
/* MODEL=lda: rows are documents, and there are no labels. */
int job_has_documents(const struct job *job);
/* Whether each iteration ends for all at once (SYNC=bsp, SYNC=allreduce). */
int job_has_barrier(const struct job *job);
/* Whether a brain finds how many nodes there are, and of which size. */
int job_has_brain(const struct job *job);
/* What any of its nodes may use, at most; none: they are not limited. */
struct limits;
struct limits job_limits(const struct job *job);
/* Whether each worker reads its own file only. */
int job_is_local(const struct job *job);

/* The resolved job, every key, as a job file; durable. */
int job_write(const struct job *job, const char *path, struct error *err);

enum job_change {
	JOB_SAME = 0,
	JOB_CHANGE_FREE,    /* every change may come while it runs or between runs */
	JOB_CHANGE_STOPPED, /* only when nothing of the job runs */
	JOB_CHANGE_FRESH    /* only from the start: the state was made under another value */
};
/* The gravest difference; keys (JOB_KEYS_MAX bytes) names all of that gravity, "A (old, not new),
 * B". finished: of a run that is over, whose model and score are made: what goes into them can't
 * change any more. */
#define JOB_KEYS_MAX 400
enum job_change job_compare(const struct job *old, const struct job *now, int finished, char *keys);

/* For help and completion: each value of a job file. */
struct job_key {
	const char *name; /* "CHECKPOINT keep"; the head is "CHECKPOINT" */
	size_t key_len;   /* bytes of its key in name */
	const char *part; /* "keep"; NULL: the key is this value alone */
	const char *given, *help;
	const char *section; /* that begins here; NULL: none does */
	/* Words, "a|ssp:N|c", or what begins with a capital: FILE, PATH, NAME|FILE; "": a number,
	 * or text. */
	char values[120];
	int is_first, is_head; /* of its key */
};
/* The i-th. -1: there are no more. */
int job_key(size_t i, struct job_key *out);

#endif

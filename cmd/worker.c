/*
 * worker: a node that trains.  It takes shards from shardd(8) and parameters from ps-server(8),
 * gives gradients back, and owns nothing that can't be lost.
 */
#include "cmd/kernels.h"
#include "cmd/loop.h"
#include "cmd/names.h"
#include "cmd/node.h"

#include "data/dataset.h"
#include "data/origin.h"
#include "data/schema.h"
#include "meter/load.h"
#include "model/model.h"
#include "monitor/node.h"
#include "param/map.h"
#include "work/caching.h"
#include "work/result.h"
#include "work/spare.h"
#include "work/trainer.h"

#include <cblas.h>

#define PROGRAM "worker"
#define CACHE_LEAST (UINT64_C(8) << 20) /* bytes of text, for which a cache is not worth its disk */
#define KEEP_MOST (UINT64_C(256) << 20) /* bytes of images */

static struct {
	const char *shards, *servers, *lead, *replica, *memory, *drag, *spare;
	struct option_list data;
	const char *data_sums, *index_dir, *row_cache, *bad_rows, *schema, *model;
	uint64_t batch, ahead, delay, profile;
	double clip;
	const struct speed_options *speed; /* NULL: its speed is not predicted */
	struct model_device device;
	const char *spill, *peers;
} opt = {.row_cache = "use", .bad_rows = "stop", .batch = 256, .ahead = 4,
	 .device = {.name = "cpu"}};

static struct node_options node = {
	.meter = {.load_root = "", .report_every = 10, .report_seconds = 0.5},
	.wait = 60,
	.answer = 600};
static struct kernels kernels;

static const struct option_row option_rows[] = {
	{.name = "id", .kind = OPTION_ID, .target = &node.meter.id, .arg = "ID",
	 .help = "name of this worker; needed"},
	{.name = "shards", .kind = OPTION_TEXT, .target = &opt.shards, .arg = "SOCKET",
	 .help = "the socket of shardd; needed"},
	{.name = "servers", .kind = OPTION_TEXT, .target = &opt.servers, .arg = "SOCKET[,SOCKET]",
	 .help = "the sockets of the ps-servers, part 0 first; or with AllReduce:"},
	{.name = "replica", .kind = OPTION_TEXT, .target = &opt.replica, .arg = "SOCKET",
	 .help = "the socket of the replica of all parameters on this host"},
	{.name = "lead", .kind = OPTION_TEXT, .target = &opt.lead, .arg = "SOCKET",
	 .help = "that of the lead, if it has no parameters (part 0)"},
	{.name = "delay", .kind = OPTION_COUNT, .target = &opt.delay, .arg = "0|1",
	 .help = "1: compute a batch while the one before is summed over all replicas", .max = 1},
	{.name = "memory", .kind = OPTION_TEXT, .target = &opt.memory, .arg = "DIR",
	 .help = "with --servers: keep pushes for a standby in this directory, which lies in memory"},
	{.name = "monitor", .kind = OPTION_TEXT, .target = &node.meter.monitor, .arg = "SOCKET",
	 .help = "the socket of bpt-monitor, for reports"},
	{.name = "data", .kind = OPTION_LIST, .target = &opt.data, .arg = "FILE[,FILE]",
	 .help = "training data, in the order of their rows; required, may be repeated"},
	{.name = "data-sums", .kind = OPTION_TEXT, .target = &opt.data_sums, .arg = "FILE",
	 .help = "what the data were when the job began; data that are others now are refused"},
	{.name = "index-dir", .kind = OPTION_TEXT, .target = &opt.index_dir, .arg = "DIR",
	 .help = "directory of row indexes and row caches (beside the data)"},
	{.name = "row-cache", .kind = OPTION_CHOICE, .target = &opt.row_cache, .arg = "MODE",
	 .choices = "off|use|make",
	 .help = "read rows from caches, if there are some (use); make them meanwhile"},
	{.name = "bad-rows", .kind = OPTION_TEXT, .target = &opt.bad_rows, .arg = "stop|skip:N",
	 .help = "what to do about a bad row (stop)"},
	{.name = "spill", .kind = OPTION_TEXT, .target = &opt.spill, .arg = "DIR",
	 .help = "directory for rows that move to this worker; its data are a partition"},
	{.name = "peers", .kind = OPTION_TEXT, .target = &opt.peers, .arg = "DIR",
	 .help = "with --spill: where workers ask each other for rows, at DIR/ID.rows.sock"},
	{.name = "schema", .kind = OPTION_TEXT, .target = &opt.schema, .arg = "FILE",
	 .help = "what the columns mean; needed"},
	{.name = "model-file", .kind = OPTION_TEXT, .target = &opt.model, .arg = "FILE",
	 .help = "the model file, as in a job's state and its checkpoints; required"},
	{.name = "batch", .kind = OPTION_COUNT, .target = &opt.batch, .arg = "ROWS",
	 .help = "rows in a batch of this worker, until an action changes it", .min = 1,
	 .max = NODE_BATCH_MAX},
	{.name = "ahead", .kind = OPTION_COUNT, .target = &opt.ahead, .arg = "BATCHES",
	 .help = "most batches reserved at shardd in advance", .min = 1, .max = 1024},
	{.name = "clip", .kind = OPTION_REAL, .target = &opt.clip, .arg = "NORM",
	 .help = "a gradient of a larger norm becomes one of this norm (any)", .max = 1e18},
	{.name = "spare", .kind = OPTION_TEXT, .target = &opt.spare, .arg = "SOCKET",
	 .help = "be a spare: get ready, and wait until trainctl, at this socket, has a place"},
	{.name = "drag", .kind = OPTION_TEXT, .target = &opt.drag, .arg = "FILE",
	 .help = "read before each batch: delay=, speed=, launch=, saturation=, memory=, type=, cores="},
	NODE_REPORT_OPTIONS(node),
	{.name = "profile", .kind = OPTION_COUNT, .target = &opt.profile, .arg = "0|1",
	 .help = "1: measure this device before joining, for the monitor", .max = 1},
	{.name = "device", .kind = OPTION_TEXT, .target = &opt.device.name, .arg = MODEL_DEVICES,
	 .help = "what computes: a card of NVIDIA (cuda), or auto: a card if there is one (cpu)"},
	{.name = "local-rank", .kind = OPTION_COUNT, .target = &opt.device.rank, .arg = "N",
	 .help = "of this worker on its host: with several cards it takes this one, modulo (0)",
	 .max = 1 << 20},
	NODE_SPEED_OPTIONS(node),
	NODE_OPTIONS(node),
	KERNELS_OPTIONS(kernels),
	{0}};

static const struct option_table table = {
	.program = PROGRAM,
	.synopsis = "--id ID --shards SOCKET --servers SOCKET[,SOCKET] --data FILE... --schema FILE "
		    "--model-file FILE [OPTION]...\n"
		    "--id ID --shards SOCKET --replica SOCKET --lead SOCKET --data FILE... --schema FILE "
		    "--model-file FILE [OPTION]...",
	.about = "Trains: takes shards from shardd, pulls parameters from ps-servers or a replica, "
		 "and\npushes gradients.",
	.rows = option_rows,
	.epilogue = KERNELS_FILES};

static volatile int stop, spent_wanted;

static void worker_on_stop(int number)
{
	(void)number;
	stop = 1;
}

static void on_usr1(int number)
{
	(void)number;
	spent_wanted = 1;
}

static void worker_catch_signals(void)
{
	struct sigaction action = {.sa_handler = worker_on_stop};
	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	action.sa_handler = on_usr1;
	sigaction(SIGUSR1, &action, NULL);
}

/* ---- what the options name ---- */

_Static_assert(OPTION_LIST_MAX <= MAP_PARTS_MAX, "a map has room for all servers named");

static int worker_check_options(struct names *servers, struct names *data, struct error *err)
{
	if (!node.meter.id || !opt.shards || (!opt.servers && !opt.replica) || opt.data.count == 0 ||
	    !opt.schema || !opt.model)
		return error_set(err, ERROR_USAGE, "",
				 "--id, --shards, --servers (or --replica and --lead), --data, "
				 "--schema and --model-file are needed");
	if (opt.replica && (opt.servers || !opt.lead))
		return error_set(err, ERROR_USAGE, "--replica",
				 "goes with --lead, and not with --servers");
	if (opt.delay && !opt.replica)
		return error_set(err, ERROR_USAGE, "--delay", "is for --replica");
	if (opt.memory && opt.replica)
		return error_set(err, ERROR_USAGE, "--memory", "is for --servers");
	if (!model_device_ok(opt.device.name))
		return error_set(err, ERROR_USAGE, "--device", "'%.80s' is none of " MODEL_DEVICES,
				 opt.device.name);
	if (node_predicts(&node, &opt.speed, err) != 0)
		return -1;
	if (opt.peers && !opt.spill)
		return error_set(err, ERROR_USAGE, "", "--peers is for partitions: needs --spill");
	if (opt.servers && names_split(servers, opt.servers, "--servers", err) != 0)
		return -1;
	for (size_t i = 0; i < opt.data.count; i++)
		if (names_split(data, opt.data.item[i], "--data", err) != 0)
			return -1;
	if ((opt.servers && servers->count == 0) || data->count == 0)
		return error_set(err, ERROR_USAGE, "", "--servers and --data are needed");
	return 0;
}

static int fit(struct schema *schema, struct dataset *data, struct error *err)
{
	struct labels labels = {0};
	char text[800];
	dataset_count_labels(data, &labels);
	int result = schema_fit(schema, data, err);
	dataset_count_labels(data, NULL);
	if (result == 0 && labels_are_odd(&labels)) {
		dataset_describe_labels(data, &labels, text, sizeof text);
		log_say(LOG_LEVEL_WARNING, "the data have more than two labels: %s", text);
	}
	return result;
}

/* A worker that begins later than the job must not train on other data. Another host may lack the
 * file, and have copies of the data. */
static int worker_compare_data(const struct names *files, const struct schema *schema,
			       struct error *err)
{
	const struct origin_files origin = {.file = files->item,
					    .count = files->count,
					    .are_idx = schema->syntax.format == ROW_IDX};
	if (!opt.data_sums || access(opt.data_sums, F_OK) != 0)
		return 0;
	return origin_check(opt.data_sums, &origin, err);
}

/* For images of packed files that are read more than once; most of what the machine has left is for
 * others. */
static uint64_t worker_keep_max(void)
{
	struct load *load;
	if (strcmp(opt.row_cache, "make") != 0 || load_new(&load, node.meter.load_root, NULL) != 0)
		return 0;
	uint64_t some = load_memory_left(load) / 8;
	load_free(load);
	return some < KEEP_MOST ? some : KEEP_MOST;
}

static int worker_open_data(const struct names *files, struct schema **schema,
			    struct dataset **data, struct error *err)
{
	struct dataset_options options = {.paths = files->item,
					  .path_count = files->count,
					  .index_dir = opt.index_dir,
					  .caches = strcmp(opt.row_cache, "off") != 0,
					  .keep_max = worker_keep_max()};
	if (dataset_bad_rows_option(opt.bad_rows, &options.bad_rows_max, err) != 0)
		return -1;
	if (schema_read(schema, opt.schema, err) != 0 ||
	    worker_compare_data(files, *schema, err) != 0 ||
	    dataset_open(data, *schema, &options, err) != 0)
		return -1;
	return schema_needs_fit(*schema) ? fit(*schema, *data, err) : 0;
}

/* It has to agree with the data. */
static int read_model(struct model_spec *spec, const struct schema *schema,
		      const struct dataset *data, struct error *err)
{
	uint32_t dense = (uint32_t)schema->dense_count, sparse = (uint32_t)schema_fields(schema);
	uint64_t rows = dataset_rows(data);
	if (model_spec_read(opt.model, spec, err) != 0)
		return -1;
	const struct model_keys keys = model_keys(spec);
	if ((keys.own_rows > 0) != (schema->syntax.format == ROW_BAG))
		return error_set(err, ERROR_CONFIG, opt.model,
				 "lda is for rows of the format bag, and for no others");
	unsigned labels = model_labels_of(spec);
	if ((labels && (labels == MODEL_REAL) != (schema->labels == SCHEMA_REAL)) ||
	    spec->classes != schema->classes.count)
		return error_set(err, ERROR_CONFIG, opt.model,
				 "is for %u classes; labels of the schema are %s, %zu classes",
				 spec->classes, schema_labels_name(schema->labels),
				 schema->classes.count);
	if (spec->dense_inputs == dense && spec->fields == sparse &&
	    spec->hash_bits == schema->hash_bits &&
	    ((!keys.are_rows && !keys.own_rows) || opt.spill || spec->samples == rows))
		return 0;
	return error_set(err, ERROR_CONFIG, opt.model,
			 "is for %u dense columns, %u sparse ones, %u hash bits and %llu rows; the "
			 "data have %u, %u, %u and %llu",
			 spec->dense_inputs, spec->fields, spec->hash_bits,
			 (unsigned long long)spec->samples, dense, sparse, schema->hash_bits,
			 (unsigned long long)rows);
}

/* ---- running ---- */

/* Training needs no cache; bytes of images are as quick to read. */
static struct caching *start_caching(const struct names *files, const struct schema *schema,
				     const struct dataset *data)
{
	const struct caching_options options = {.schema = schema,
						.paths = files->item,
						.path_count = files->count,
						.index_dir = opt.index_dir};
	struct caching *caching = NULL;
	struct error err;
	if (strcmp(opt.row_cache, "make") == 0 && !row_is_image(schema->syntax) &&
	    dataset_text_bytes(data) >= CACHE_LEAST &&
	    caching_start(&caching, &options, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "no row cache: %s", err.text);
	return caching;
}

static int worker_train(const struct names *servers, const struct names *files,
			const struct schema *schema, struct dataset *data,
			const struct model_spec *spec, struct error *err)
{
	struct trainer *trainer = NULL;
	int log_fd;
	if (node_open_log(&node, &log_fd, err) != 0)
		return -1;
	node.meter.log = node_write_log;
	node.meter.owner = &log_fd;
	struct trainer_options options = {.meter = node.meter,
					  .shards = opt.shards,
					  .servers = servers->item,
					  .server_count = (uint32_t)servers->count,
					  .lead = opt.lead,
					  .replica = opt.replica,
					  .delay = opt.delay != 0,
					  .keep_dir = opt.memory,
					  .drag = opt.drag,
					  .dataset = data,
					  .spec = spec,
					  .spill = opt.spill,
					  .peers = opt.peers,
					  .paths = files->item,
					  .path_count = files->count,
					  .index_dir = opt.index_dir,
					  .fold_fraction = kernels.fold_fraction,
					  .clip = opt.clip,
					  .unit_weights = schema->weight == NULL,
					  .batch = opt.batch,
					  .ahead = opt.ahead,
					  .profile = opt.profile != 0,
					  .device = opt.device,
					  .device_file = node.device_file,
					  .speed = opt.speed,
					  .model_path = opt.model,
					  .wait_seconds = node.wait,
					  .answer_seconds = node.answer,
					  .stop = &stop,
					  .spent_wanted = &spent_wanted};
	int result = trainer_new(&trainer, &options, err);
	if (result == 0)
		result = trainer_run(trainer, err);
	trainer_free(trainer);
	node_close_log(log_fd);
	return result;
}

/* 1: there is a place, or none was to be waited for; 0: there is none. */
static int wait_for_place(struct error *err)
{
	struct spare spare = {
		.path = opt.spare, .id = node.meter.id, .wait_seconds = node.wait, .stop = &stop};
	if (!opt.spare)
		return 1;
	int result = spare_wait(&spare, err);
	if (result == WORK_OK)
		opt.batch = spare.batch;
	return result < 0 ? -1 : result == WORK_OK;
}

/* We compute in one thread. Those of OpenBLAS spin for 40 ms before they sleep, unless they are ended. */
static void worker_be_one_thread(void)
{
	openblas_set_num_threads(1);
	kernels_end_threads();
}

/* Whatever a driver of cards needs is not known to us. Without --index-dir caches lie beside the data, which
 * may be anywhere. */
static void worker_confine(void)
{
	if (!model_device_is_card(opt.device.name))
		cmd_confine(&(struct confine_ask){
			.read = {"/"},
			.write = {opt.index_dir ? opt.index_dir : "/", opt.peers},
			.replace = {opt.spill, opt.memory, node.log, node.device_file,
				    node.speed.save},
			.sockets = CONFINE_UNIX_SOCKETS});
}

int main(int argc, char **argv)
{
	static struct names servers, data_files;
	struct error err = {0};
	struct schema *schema = NULL;
	struct dataset *data = NULL;
	struct model_spec spec;
	loop_begin(PROGRAM);
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	if (kernels_need_room(argv, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	worker_be_one_thread();
	if (kernels.probe)
		return cmd_end(PROGRAM, kernels_probe(PROGRAM));
	worker_catch_signals();
	int result = worker_check_options(&servers, &data_files, &err);
	if (result == 0)
		result = worker_open_data(&data_files, &schema, &data, &err);
	if (result == 0)
		result = read_model(&spec, schema, data, &err);
	kernels.fastest = result == 0 && model_uses_blas(&spec);
	if (result == 0 && !model_keys(&spec).are_rows)
		result = kernels_settle(&kernels, argv, &err);
	if (result == 0)
		worker_confine(); /* it does not start itself anew any more */
	int has_place = result == 0 ? wait_for_place(&err) : 0;
	if (has_place < 0)
		result = -1;
	if (has_place > 0) {
		struct caching *caching = start_caching(&data_files, schema, data);
		node.meter.beside = caching ? caching_seconds : NULL;
		node.meter.thread = caching;
		result = worker_train(&servers, &data_files, schema, data, &spec, &err);
		caching_stop(caching);
	}
	if (data && dataset_bad_rows(data) > 0)
		log_say(LOG_LEVEL_WARNING, "%llu bad rows were skipped; the last: %s",
			(unsigned long long)dataset_bad_rows(data), dataset_last_bad(data));
	if (data && dataset_cached_rows(data) > 0)
		log_say(LOG_LEVEL_INFO, "%llu rows came from row caches",
			(unsigned long long)dataset_cached_rows(data));
	dataset_close(data);
	schema_free(schema);
	return cmd_end(PROGRAM, result < 0 ? cmd_fail(PROGRAM, &err) : 0);
}

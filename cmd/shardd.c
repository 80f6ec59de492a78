/*
 * shardd(8): hands out shards of the training data, remembers what is in the model. The daemon is
 * in lib/shard/service; here is its command line.
 */
#include "cmd/daemon.h"
#include "shard/service.h"

#define PROGRAM "shardd"

struct settings {
	struct service_options options;
	const char *shuffle, *sync, *partitions;
	struct partition_own *partition;
};

static int shardd_check_settings(struct settings *s, struct error *err)
{
	struct service_options *o = &s->options;
	if (!o->socket || !o->dir)
		return error_set(err, ERROR_USAGE, NULL, "needs -s SOCKET and -j DIR");
	if (s->partitions) {
		if (partitions_option(s->partitions, &s->partition, &o->parameters.partitions,
					  err) != 0)
			return -1;
		o->parameters.partition = s->partition;
		o->given.partitions = 1;
		for (size_t i = 0; !o->given.samples && i < o->parameters.partitions; i++)
			o->parameters.samples += s->partition[i].rows;
		o->given.samples = 1;
	}
	o->parameters.apart = (uint64_t)o->given.apart;
	queue_shuffle_of(s->shuffle, &o->parameters.shuffle); /* one of the choices */
	if (strcmp(s->sync, "always") == 0)
		o->sync = JOURNAL_ALWAYS;
	else
		o->sync = strcmp(s->sync, "off") == 0 ? JOURNAL_OFF : JOURNAL_GROUP;
	return 0;
}

/* Who asks names the files of save and load: they are where the journal's directory is, or below. */
static int shardd_confine(const struct service_options *o, struct error *err)
{
	char checkpoints[PATH_MAX], *dir = realpath(o->dir, NULL);
	if (!dir)
		return error_errno(err, 0, o->dir, "can't be looked at");
	cmd_confine(&(struct confine_ask){.read = {"/proc/sys/kernel/random/boot_id"},
					  .write = {daemon_checkpoints(dir, checkpoints)},
					  .replace = {dir, o->socket},
					  .sockets = CONFINE_UNIX_SOCKETS});
	free(dir);
	return 0;
}

static int shardd_serve(const struct settings *s, struct error *err)
{
	struct service *service;
	if (service_new(&service, &s->options, err) != 0)
		return -1;
	int result = shardd_confine(&s->options, err);
	if (result == 0)
		result = daemon_listen(service_server(service), err);
	if (result == 0)
		result = daemon_run(service_server(service), err);
	if (result == 0)
		result = service_end(service, err);
	service_free(service);
	return result;
}

int main(int argc, char **argv)
{
	struct settings s = {
		.options = {.parameters = {.batch = 1024, .batches = 100, .epochs = 1},
			    .retries = 3, .migrate = 2, .compact_bytes = 64 << 20},
		.shuffle = "none",
		.sync = "group",
	};
	struct service_options *o = &s.options;
	const struct option_row rows[] = {
		{.name = "socket", .letter = 's', .kind = OPTION_TEXT, .target = &o->socket,
		 .arg = "SOCKET", .help = "serve here"},
		{.name = "journal", .letter = 'j', .kind = OPTION_TEXT, .target = &o->dir,
		 .arg = "DIR", .help = "directory of the journal; continues from a journal that is "
				       "there"},
		{.name = "samples", .letter = 'n', .kind = OPTION_COUNT,
		 .target = &o->parameters.samples, .arg = "SAMPLES",
		 .help = "rows of the training data; required for a new journal", .min = 1,
		 .seen = &o->given.samples},
		{.name = "batch", .letter = 'b', .kind = OPTION_COUNT,
		 .target = &o->parameters.batch, .arg = "GLOBAL_BATCH",
		 .help = "samples a batch; a journal that is there keeps its own", .min = 1},
		{.name = "batches", .letter = 'm', .kind = OPTION_COUNT,
		 .target = &o->parameters.batches, .arg = "BATCHES_PER_SHARD",
		 .help = "batches a shard", .min = 1, .seen = &o->given.batches},
		{.name = "epochs", .letter = 'e', .kind = OPTION_COUNT,
		 .target = &o->parameters.epochs, .arg = "EPOCHS", .help = "how many times each "
									   "sample is used",
		 .min = 1, .seen = &o->given.epochs},
		{.name = "apart", .kind = OPTION_FLAG, .target = &o->given.apart,
		 .help = "hand out an epoch's rows when all of the epoch before are in the model"},
		{.name = "shuffle", .kind = OPTION_CHOICE, .target = &s.shuffle,
		 .arg = "WHAT", .choices = "none|shards|samples",
		 .help = "order of shards, and of samples in them (none)",
		 .seen = &o->given.shuffle},
		{.name = "seed", .kind = OPTION_COUNT, .target = &o->parameters.seed, .arg = "N",
		 .help = "seed of the shuffle", .seen = &o->given.seed},
		{.name = "lease", .kind = OPTION_SECONDS, .target = &o->lease, .arg = "SECONDS",
		 .help = "a piece returns to the queue if it is not renewed for so long; 0: never", .max = 1e9,
		 .seen = &o->given.lease},
		{.name = "retries", .kind = OPTION_COUNT, .target = &o->retries, .arg = "N",
		 .help = "deaths of workers after which their shard is held; 0: never",
		 .max = 4294967295.0, .seen = &o->given.retries},
		{.name = "partitions", .kind = OPTION_TEXT, .target = &s.partitions,
		 .arg = "ID:ROWS[,ID:ROWS]",
		 .help = "give each worker only rows of its own, in this order"},
		{.name = "migrate", .kind = OPTION_REAL, .target = &o->migrate, .arg = "TIMES",
		 .help = "rows move when passes differ by more (2); 0: never", .max = 1e9,
		 .seen = &o->given.migrate},
		{.name = "settle-only", .kind = OPTION_FLAG, .target = &o->settle_only,
		 .help = "only the lead's settle makes rows done, and only fail reports a death"},
		{.name = "sync", .kind = OPTION_CHOICE, .target = &s.sync,
		 .arg = "WHEN", .choices = "always|group|off",
		 .help = "fdatasync for each request (always), once for all that have arrived "
			 "(group), or never (off)"},
		{.name = "compact", .kind = OPTION_BYTES, .target = &o->compact_bytes,
		 .arg = "BYTES", .help = "rewrite the journal after so many bytes of changes",
		 .min = 1024},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "-s SOCKET -j DIR -n SAMPLES [-b GLOBAL_BATCH] [-m BATCHES_PER_SHARD] "
			    "[-e EPOCHS] [--apart] [--shuffle none|shards|samples] [--seed N] "
			    "[--lease SECONDS] [--retries N] [--sync always|group|off] "
			    "[--partitions ID:ROWS[,ID:ROWS]] [--migrate TIMES] "
			    "[--settle-only] [--compact BYTES]\n"
			    "-s SOCKET -j DIR",
		.about = "Hands out shards of the training data and remembers what is in the model.",
		.rows = rows,
		.epilogue = "The second form continues from the journal in DIR. A get with wait= is "
			    "answered within wait= seconds,\n86400 at most.\n" DAEMON_CLIENTS};
	struct error err = {0};
	loop_begin(PROGRAM);
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	if (shardd_check_settings(&s, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	int result = shardd_serve(&s, &err);
	free(s.partition);
	return cmd_end(PROGRAM, result == 0 ? 0 : cmd_fail(PROGRAM, &err));
}

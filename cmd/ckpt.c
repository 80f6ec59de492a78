/*
 * ckpt(1): looks at checkpoints, checks them, removes old ones, turns one into another number of
 * parts or into safetensors and back.  It never writes into a checkpoint.
 */
#include "cmd/cmd.h"
#include "cmd/jobdir.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/near.h"
#include "ckpt/ckpt.h"
#include "ckpt/export.h"
#include "ckpt/import.h"
#include "ckpt/reshard.h"
#include "record/record.h"

#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAM "ckpt"
#define OPERANDS_MAX 2   /* of a verb */

static uint64_t opt_keep, opt_servers, opt_level = PLANES_LEVEL;
static const char *opt_protect, *opt_job, *opt_run_dir, *opt_layout;
static int keep_seen, protect_seen, job_seen, run_dir_seen, servers_seen, layout_seen, level_seen;

static const struct option_row rows[] = {
	{.name = "keep", .kind = OPTION_COUNT, .target = &opt_keep, .arg = "N", .min = 1,
	 .help = "prune: how many complete checkpoints to keep; required", .seen = &keep_seen},
	{.name = "protect", .kind = OPTION_TEXT, .target = &opt_protect, .arg = "PATH",
	 .help = "prune: a checkpoint to keep, whatever its age", .seen = &protect_seen},
	{.name = "servers", .kind = OPTION_COUNT, .target = &opt_servers, .arg = "M", .min = 1,
	 .max = MAP_PARTS_MAX, .help = "reshard, import: number of parts (reshard: required)",
	 .seen = &servers_seen},
	{.name = "level", .kind = OPTION_COUNT, .target = &opt_level, .arg = "N",
	 .max = PLANES_LEVEL_MAX, .help = "reshard, import: compression, 0 none to 9 smallest",
	 .seen = &level_seen},
	{.name = "layout", .kind = OPTION_TEXT, .target = &opt_layout, .arg = "FILE",
	 .help = "import: which tensors are parameters", .seen = &layout_seen},
	{.name = "job", .letter = 'j', .kind = OPTION_ID, .target = &opt_job, .arg = "NAME",
	 .help = "the checkpoints of this job, or its newest one", .seen = &job_seen},
	{.name = "run-dir", .kind = OPTION_TEXT, .target = &opt_run_dir, .arg = "DIR",
	 .help = "of the job with this run directory", .seen = &run_dir_seen},
	{0}};

static const struct option_table table = {
	.program = PROGRAM,
	.synopsis = "list|latest DIR|-j JOB\nshow|verify PATH|-j JOB\n"
		    "prune DIR|-j JOB --keep N [--protect PATH]\n"
		    "export PATH|-j JOB FILE.safetensors\n"
		    "import FILE.safetensors OUT [--layout FILE] [--servers M] [--level N]\n"
		    "reshard PATH|-j JOB OUT --servers M [--level N]",
	.about = "Lists, shows, verifies, prunes, exports, imports and reshards checkpoints.",
	.rows = rows};

static int run_list(const char *const *operand, struct error *err)
{
	struct ckpt_entry *entry;
	size_t count;
	if (ckpt_list(operand[0], &entry, &count, err) != 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		const struct ckpt_entry *e = &entry[i];
		struct record_out *o = RECORD("checkpoint", F("name", e->name),
					      F("state", e->complete ? "complete" : "incomplete"));
		if (e->complete) {
			if (e->foreign)
				record_add(o, "kind", "foreign");
			record_add_u64(o, "iteration", e->iteration);
			record_add_u64(o, "incarnation", e->incarnation);
			record_add_seconds(o, "at", e->at);
			record_add_u64(o, "parts", e->parts);
			record_add_u64(o, "bytes", e->bytes);
			if (e->base[0])
				record_add(o, "base", e->base);
			if (e->reported[0])
				record_add(o, "reported", e->reported);
		}
		record_print(stdout, o);
	}
	free(entry);
	return 0;
}

static int run_latest(const char *const *operand, struct error *err)
{
	char path[CKPT_PATH_MAX];
	if (ckpt_latest(operand[0], path, sizeof path, err) != 0)
		return -1;
	printf("%s\n", path);
	return 0;
}

static void add_head(struct record_out *o, const struct ckpt_manifest *m)
{
	if (m->foreign)
		record_add(o, "kind", "foreign");
	record_add(o, "job", m->job);
	record_add_u64(o, "iteration", m->iteration);
	record_add_u64(o, "incarnation", m->incarnation);
	record_add_seconds(o, "at", m->at);
	if (m->epoch >= 0)
		record_add_u64(o, "epoch", (uint64_t)m->epoch);
	if (m->base[0])
		record_add(o, "base", m->base);
	if (m->reported[0])
		record_add(o, "reported", m->reported);
}

static void show_head(const struct ckpt *c)
{
	const struct ckpt_manifest *m = ckpt_get_manifest(c);
	struct record_out *o = RECORD_BARE("checkpoint");
	add_head(o, m);
	record_add_u64(o, "parts", m->parts);
	record_add_u64(o, "dense", ckpt_dense_count(c));
	record_add_u64(o, "dense-slots", ckpt_dense_slots(c));
	record_add_u64(o, "rows", ckpt_row_count(c));
	record_add_u64(o, "width", ckpt_width(c));
	record_add_u64(o, "row-slots", ckpt_row_slots(c));
	record_print(stdout, o);
}

static void show_files(const struct ckpt_manifest *m)
{
	for (size_t i = 0; i < m->count; i++) {
		char sum[17];
		snprintf(sum, sizeof sum, "%016" PRIx64, m->file[i].sum);
		record_print(stdout, RECORD("file", F("name", m->file[i].name),
					    F("bytes", m->file[i].bytes), F("sum", sum)));
	}
}

/* Prints the notes of the first part (optimiser, counters). */
static void show_notes(const struct ckpt *c)
{
	const char *key, *value;
	for (size_t i = 0; (key = ckpt_note_at(c, i, &value)) != NULL; i++) {
		record_print(stdout, RECORD("note", F("key", key), F("value", value)));
	}
}

/* A checkpoint of trainers: only they know what is in their files. */
static void show_foreign(const struct ckpt_manifest *m)
{
	struct record_out *o = RECORD_BARE("checkpoint");
	add_head(o, m);
	record_print(stdout, o);
	show_files(m);
	for (size_t i = 0; i < m->saved_count; i++) {
		const struct ckpt_saved *s = &m->saved[i];
		char sum[17];
		snprintf(sum, sizeof sum, "%016" PRIx64, s->sum);
		record_print(stdout, RECORD("saved", F("worker", s->worker),
					    s->path[0] ? F("path", s->path) : F_NONE,
					    s->bytes ? F("bytes", s->bytes) : F_NONE,
					    s->bytes ? F("sum", sum) : F_NONE));
	}
}

/* 1: the checkpoint is of trainers, and has been shown. */
static int try_foreign(const char *dir, struct error *err)
{
	struct ckpt_manifest m;
	int result = ckpt_manifest_read(&m, dir, err);
	if (result == 0 && m.foreign) {
		show_foreign(&m);
		result = 1;
	}
	ckpt_manifest_free(&m);
	return result;
}

static int run_show(const char *const *operand, struct error *err)
{
	struct ckpt *c;
	int foreign = try_foreign(operand[0], err);
	if (foreign != 0)
		return foreign < 0 ? -1 : 0;
	char *text;
	size_t len;
	if (ckpt_open(&c, operand[0], err) != 0)
		return -1;
	int result = 0;
	show_head(c);
	show_files(ckpt_get_manifest(c));
	show_notes(c);
	/* Prints the records of the layout unchanged. */
	if (ckpt_find_file(c, "layout")) {
		result = ckpt_read_file(c, "layout", &text, &len, err);
		if (result == 0) {
			fwrite(text, 1, len, stdout);
			free(text);
		}
	}
	ckpt_close(c);
	return result;
}

static void tell_damage(const char *place, const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "%s: %s: %s\n", PROGRAM, place, text);
}

/* One file of a checkpoint, whose others may be missing. */
static int ckpt_main_verify(const char *path, struct error *err)
{
	char dir[CKPT_PATH_MAX];
	fs_dirname(path, dir, sizeof dir);
	const char *slash = strrchr(path, '/');
	if (ckpt_check_sum(dir, slash ? slash + 1 : path, err) == 0)
		return 0;
	if (err->code == ERROR_DATA || err->code == ERROR_NOINPUT)
		err->code = ERROR_NEGATIVE;
	return -1;
}

static int run_verify(const char *const *operand, struct error *err)
{
	struct stat st;
	if (stat(operand[0], &st) == 0 && S_ISREG(st.st_mode))
		return ckpt_main_verify(operand[0], err);
	int found = ckpt_verify(operand[0], tell_damage, NULL, err);
	if (found < 0)
		return -1;
	if (found > 0)
		return error_set(err, ERROR_NEGATIVE, operand[0], "is damaged in %d place%s", found,
				 found == 1 ? "" : "s");
	return 0;
}

static void tell_removed(const char *name, void *arg)
{
	(void)arg;
	record_print(stdout, RECORD("removed", F("name", name)));
}

static int run_prune(const char *const *operand, struct error *err)
{
	if (!keep_seen)
		return error_set(err, ERROR_USAGE, NULL, "prune needs --keep N");
	const char *const protect[] = {opt_protect, NULL};
	const struct ckpt_pruning how = {
		.keep = opt_keep, .protect = protect, .removed = tell_removed, .bad = tell_damage};
	return ckpt_prune(operand[0], &how, err);
}

/* Writes to a pipe. The file is completed in an unnamed file first, so that a damaged checkpoint
 * writes nothing. */
static int export_stdout(struct ckpt *c, struct error *err)
{
	char buffer[65536];
	size_t n;
	FILE *file = tmpfile();
	if (!file)
		return error_errno(err, ERROR_CANTCREAT, "-", "no temporary file");
	int result = ckpt_export(c, fileno(file), "standard output", err);
	rewind(file);
	while (result == 0 && (n = fread(buffer, 1, sizeof buffer, file)) > 0)
		result = fs_write_all(STDOUT_FILENO, buffer, n, "standard output", err);
	if (result == 0 && ferror(file))
		result = error_errno(err, ERROR_IO, "temporary file", "read");
	fclose(file);
	return result;
}

static int run_export(const char *const *operand, struct error *err)
{
	struct ckpt *c;
	if (ckpt_open(&c, operand[0], err) != 0)
		return -1;
	ckpt_share(c);
	int result = strcmp(operand[1], "-") == 0 ? export_stdout(c, err)
						  : ckpt_export_file(c, operand[1], err);
	ckpt_close(c);
	return result;
}

static void tell_left_out(const char *name, void *file)
{
	char plain[256];
	snprintf(plain, sizeof plain, "%s", name);
	error_plain(plain);
	fprintf(stderr, "%s: %s: tensor '%s' is left out: the layout does not name it\n", PROGRAM,
		(const char *)file, plain);
}

static int run_import(const char *const *operand, struct error *err)
{
	const struct ckpt_import how = {.file = operand[0],
					.out = operand[1],
					.layout = opt_layout,
					.parts = servers_seen ? (uint32_t)opt_servers : 1,
					.level = (int)opt_level,
					.at = clock_epoch(),
					.left_out = tell_left_out,
					.arg = (void *)(size_t)operand[0]};
	return ckpt_import(&how, err);
}

static int run_reshard(const char *const *operand, struct error *err)
{
	struct ckpt *c;
	if (!servers_seen)
		return error_set(err, ERROR_USAGE, NULL, "reshard needs --servers M");
	if (ckpt_open(&c, operand[0], err) != 0)
		return -1;
	ckpt_share(c);
	int result = ckpt_reshard(c, operand[1], (uint32_t)opt_servers, (int)opt_level, err);
	ckpt_close(c);
	return result;
}

/* Options that only some verbs take. */
enum { TAKES_PRUNE = 1, TAKES_SERVERS = 2, TAKES_LAYOUT = 4 };

/* The directory or checkpoint of -j and --run-dir, as the first operand. */
enum by_job { BY_JOB_DIR, BY_JOB_NEWEST, BY_NO_JOB };

static const struct verb {
	const char *name, *operands;
	size_t count;
	int takes;
	enum by_job by_job;
	enum { WRITES_NOTHING, WRITES_FIRST, MAKES_SECOND } writes; /* which operand */
	int (*run)(const char *const *operand, struct error *err);
} verbs[] = {
	{"list", "DIR or -j JOB", 1, 0, BY_JOB_DIR, WRITES_NOTHING, run_list},
	{"latest", "DIR or -j JOB", 1, 0, BY_JOB_DIR, WRITES_NOTHING, run_latest},
	{"show", "PATH or -j JOB", 1, 0, BY_JOB_NEWEST, WRITES_NOTHING, run_show},
	{"verify", "PATH or -j JOB", 1, 0, BY_JOB_NEWEST, WRITES_NOTHING, run_verify},
	{"prune", "DIR or -j JOB, and --keep N", 1, TAKES_PRUNE, BY_JOB_DIR, WRITES_FIRST,
	 run_prune},
	{"export", "PATH or -j JOB, and FILE.safetensors", 2, 0, BY_JOB_NEWEST,
	 MAKES_SECOND, run_export},
	{"import", "FILE.safetensors, and OUT", 2, TAKES_SERVERS | TAKES_LAYOUT, BY_NO_JOB,
	 MAKES_SECOND, run_import},
	{"reshard", "PATH or -j JOB, OUT, and --servers M", 2, TAKES_SERVERS, BY_JOB_NEWEST,
	 MAKES_SECOND, run_reshard},
};

static const struct verb *find_verb(char *const *operand, size_t count, struct error *err)
{
	if (count == 0) {
		error_set(err, ERROR_USAGE, NULL, "which command? list, show, verify, ...");
		return NULL;
	}
	struct near near = {0};
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		const struct verb *v = &verbs[i];
		near_look(&near, operand[0], v->name);
		if (strcmp(v->name, operand[0]) != 0)
			continue;
		size_t given = count - 1;
		int by_job = job_seen || run_dir_seen;
		int others = (keep_seen || protect_seen ? TAKES_PRUNE : 0) |
			     (servers_seen || level_seen ? TAKES_SERVERS : 0) | (layout_seen ? TAKES_LAYOUT : 0);
		given += by_job != 0;
		if (given != v->count || (others & ~v->takes) || (v->by_job == BY_NO_JOB && by_job)) {
			error_set(err, ERROR_USAGE, NULL, "%s takes %s", v->name, v->operands);
			return NULL;
		}
		return v;
	}
	near_unknown(&near, operand[0], err);
	return NULL;
}

/* The verb's operands, the first of them found by the job's name where that was given. */
static int ckpt_main_run(const struct verb *verb, char *const *given, struct error *err)
{
	const char *operand[OPERANDS_MAX] = {NULL};
	char path[CKPT_PATH_MAX];
	int by_job = job_seen || run_dir_seen;
	if (!by_job && verb->by_job != BY_NO_JOB && !strchr(given[0], '/') &&
	    access(given[0], F_OK) != 0)
		return error_set(err, ERROR_NOINPUT, given[0],
				 "there is no such directory; a job is named with -j NAME");
	if (by_job && (verb->by_job == BY_JOB_DIR
			       ? jobdir_checkpoints(opt_job, opt_run_dir, path, err)
			       : jobdir_newest(opt_job, opt_run_dir, path, err)) != 0)
		return -1;
	operand[0] = path;
	for (size_t i = 0; i + (size_t)by_job < verb->count; i++)
		operand[i + (size_t)by_job] = given[i];
	int makes_file = verb->writes == MAKES_SECOND && strcmp(operand[1], "-") != 0;
	cmd_confine(&(struct confine_ask){
		.read = {"/"},
		.write = {verb->writes == WRITES_FIRST ? operand[0] : NULL,
			  verb->writes == MAKES_SECOND && !makes_file ? P_tmpdir : NULL},
		.replace = {makes_file ? operand[1] : NULL}});
	return verb->run(operand, err);
}

int main(int argc, char **argv)
{
	struct error err = {0};
	int first;
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, option_parse(&table, argc, argv, &first, stdout, &err), &err);
	char **operand = argv + first;
	const struct verb *verb = find_verb(operand, (size_t)(argc - first), &err);
	if (!verb)
		return cmd_fail(PROGRAM, &err);
	int status = ckpt_main_run(verb, operand + 1, &err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
	return cmd_end(PROGRAM, status);
}

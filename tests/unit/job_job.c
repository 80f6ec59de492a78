/* The job file: what sh and systemd read alike is read, all else is refused with its place. */
#include "job/job.h"
#include "job/jobtext.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char got[4096];

static int note(const char *key, const char *value, size_t line, void *arg, struct error *err)
{
	(void)arg;
	(void)err;
	size_t n = strlen(got);
	snprintf(got + n, sizeof got - n, "%zu:%s=[%s] ", line, key, value);
	return 0;
}

static const char *parse(const char *text)
{
	struct error err;
	got[0] = '\0';
	if (jobtext_parse("f", text, strlen(text), note, NULL, &err) != 0)
		snprintf(got, sizeof got, "%d %s: %s", err.code, err.place, err.text);
	return got;
}

static void reads_what_sh_and_systemd_read(void **state)
{
	(void)state;
	assert_string_equal(parse("A=1\n# c\n\n  B='x y#$'  \nC=\"a\\\"b\\c\\$\"\nD=\nE=a#b=c"),
			    "1:A=[1] 4:B=[x y#$] 5:C=[a\"b\\c$] 6:D=[] 7:E=[a#b=c] ");
}

static void refuses_with_the_line(void **state)
{
	(void)state;
	const char *const bad[][2] = {
		{"A=1\nexport B=2\n", "f:2"},   {"A=1 2\n", "text behind"},
		{"A =1\n", "no blanks around"}, {"A=1 # c\n", "text behind"},
		{"A=$B\n", "without quotes"},       {"A=\"$B\"\n", "single quotes"},
		{"A='b\n", "not closed"},       {"A=\"b\n'", "not closed"},
		{"A='b'c\n", "text behind"},    {"A=b;c\n", "A: a value without quotes"},
		{"A=~/x\n", "expand the ~"},       {"A=a:~b\n", "expand the ~"},
		{"A=1\r\n", "carriage return"},
		{"=x\n", "'=x': is not KEY=value"},      {"1A=x\n", "not KEY=value"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!strstr(parse(bad[i][0]), bad[i][1]) || strncmp(got, "78 f:", 5) != 0)
			fail_msg("%s gave %s", bad[i][0], got);
}

static void nul_and_long_values_are_refused(void **state)
{
	(void)state;
	struct error err;
	char text[JOBTEXT_VALUE_MAX + 8];
	assert_int_equal(jobtext_parse("f", "A=\0b\n", 5, note, NULL, &err), -1);
	memset(text, 'x', sizeof text);
	memcpy(text, "A=", 2);
	assert_int_equal(jobtext_parse("f", text, sizeof text, note, NULL, &err), -1);
	assert_non_null(strstr(err.text, "too long"));
}

static void what_is_written_is_read_again(void **state)
{
	(void)state;
	const char *const values[] = {"plain",         "",      "two words", "it's",
				      "a'b\"c$d`e\\f", "~home", "#x", "unix:~/x", "a~b"};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		char line[256], want[256];
		jobtext_format("K", values[i], line, sizeof line);
		snprintf(want, sizeof want, "1:K=[%s] ", values[i]);
		assert_string_equal(parse(line), want);
	}
}

static struct job job;

static const char *set(const char *key, const char *value)
{
	struct error err;
	got[0] = '\0';
	if (job_set(&job, key, value, "f:7", &err) != 0)
		snprintf(got, sizeof got, "%d %s: %s", err.code, err.place, err.text);
	return got;
}

static int start(void **state)
{
	(void)state;
	return job_init(&job, NULL);
}

static int stop(void **state)
{
	(void)state;
	job_free(&job);
	return 0;
}

static void defaults(void **state)
{
	(void)state;
	struct error err;
	set("JOB", "j");
	set("DATA", "/d/a.tsv.gz /d/b.tsv.gz");
	assert_int_equal(job_finish(&job, "f", &err), 0);
	assert_int_equal(job.batch, 1024);
	assert_int_equal(job.batches_per_shard, 100);
	assert_int_equal(job.workers, 2);
	assert_int_equal(job.servers, 1);
	assert_int_equal(job.epochs, 1);
	assert_string_equal(job_option(&job, "embed"), "16");
	assert_int_equal(job.hash_bits, 20);
	assert_string_equal(job_option(&job, "hidden"), "64-32");
	assert_int_equal(job.data.count, 2);
	assert_string_equal(job.format, "criteo");
	assert_string_equal(job.model, "lr");
	assert_string_equal(job.optimizer, "adagrad");
	assert_true(job.lr == 0.05);
	assert_string_equal(job.sync, "bsp");
	assert_string_equal(job.solution, "none");
	assert_true(job.options.pending == 60);
	assert_int_equal(job.options.cmax, 5);
	assert_int_equal(job.options.least, 1);
	assert_int_equal(job.options.batch, 1024);
	assert_int_equal(job.options.sync, SYNC_BSP);
	assert_true(job.heavy_window == job.longer);
	assert_true(job.heavy_cooldown == 0);
	assert_int_equal(job.heavy_limit, 3);
	assert_int_equal(job.report_every, 10);
	assert_int_equal(job.ahead, 4);
	assert_string_equal(job.profile, "off");
}

static void defaults_that_other_keys_give(void **state)
{
	(void)state;
	struct error err;
	set("JOB", "j");
	set("DATA", "/d/a.csv");
	set("SOLUTION", "antdt-dd");
	set("MONITOR", "long:15m");
	set("SYNC", "ssp:4");
	set("KILL_RESTART", "7");
	set("SOLUTION", "cmax:2");
	assert_int_equal(job_finish(&job, "f", &err), 0);
	assert_true(job.options.sync == SYNC_SSP && job.options.limit == 7 && job.options.cmax == 2);
	assert_string_equal(job.profile, "on");
	assert_true(job.heavy_window == 900);
	assert_non_null(strstr(set("SOLUTION", "profile:1"), "SOLUTION profile"));
	assert_non_null(strstr(set("WORKERS", "ahead:0"), "WORKERS ahead"));
}

static void unknown_key_names_the_nearest(void **state)
{
	(void)state;
	assert_string_equal(set("BATCHES", "1"),
			    "78 f:7: unknown key BATCHES; the nearest is BATCH");
	assert_non_null(strstr(set("WORKER", "1"), "the nearest is WORKERS"));
	assert_non_null(strstr(set("epochs", "1"), "the nearest is EPOCHS"));
	assert_non_null(strstr(set("CHECKPOIT", "1"), "the nearest is CHECKPOINT"));
	assert_string_equal(set("NPROC", "2"),
			    "78 f:7: unknown key NPROC; `trainctl init --keys` lists all keys");
}

static void values_out_of_range(void **state)
{
	(void)state;
	const char *const bad[][2] = {
		{"WORKERS", "0"},       {"WORKERS", "1.5"}, {"MONITOR", "5"},
		{"SYNC", "ssp"},        {"SYNC", "ssp:-1"}, {"SYNC", "allreduc"},
		{"FORMAT", "parquet"},  {"OPTIMIZER", "lr:inf"}, {"OPTIMIZER", "lr:0.1x"},
		{"SOLUTION", "every:0"},         {"JOB", "a/b"},     {"BAD_ROWS", "skip"},
		{"BAD_ROWS", "skip:x"}, {"MODEL", "hidden:64-x"}, {"MODEL", "hidden:0"},
		{"MODEL", "hash-bits:32"},    {"MODEL", "gpt"},   {"EPOCHS", "0"},
		{"SERVERS", "65"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (strncmp(set(bad[i][0], bad[i][1]), "78 f:7", 6) != 0)
			fail_msg("%s=%s gave '%s'", bad[i][0], bad[i][1], got);
	assert_string_equal(set("SYNC", "ssp:3"), "");
	assert_string_equal(set("BAD_ROWS", "skip:10"), "");
	assert_int_equal(job.bad_rows_max, 10);
	assert_string_equal(set("CHECKPOINT", "0.25"), "");
}

static void keys_that_do_not_fit(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(job_finish(&job, "f", &err), -1);
	assert_non_null(strstr(err.text, "no JOB"));
	set("JOB", "j");
	assert_int_equal(job_finish(&job, "f", &err), -1);
	assert_non_null(strstr(err.text, "no DATA"));
	set("DATA", "/d/a.data");
	assert_int_equal(job_finish(&job, "f", &err), -1);
	assert_non_null(strstr(err.text, "no FORMAT"));
	set("FORMAT", "csv");
	set("BATCH", "3");
	set("WORKERS", "4");
	assert_int_equal(job_finish(&job, "f", &err), -1);
	assert_non_null(strstr(err.text, "BATCH=3"));
	set("BATCH", "4");
	set("EVAL", "patience:2");
	assert_int_equal(job_finish(&job, "f", &err), -1);
	set("EVAL", "2");
	assert_int_equal(job_finish(&job, "f", &err), -1);
	set("TEST", "t");
	assert_int_equal(job_finish(&job, "f", &err), 0);
	assert_int_equal(job.test.item[0][0], '/');
}

static void finished_format(const char *data, const char *format, const char *separator,
			    const char *label, const char *want, const char *want_separator)
{
	struct error err;
	struct job j;
	char part[32];
	snprintf(part, sizeof part, "separator:%s", separator);
	assert_int_equal(job_init(&j, &err), 0);
	assert_int_equal(job_set(&j, "JOB", "j", "f", &err), 0);
	assert_int_equal(job_set(&j, "DATA", data, "f", &err), 0);
	assert_int_equal(job_set(&j, "FORMAT", format, "f", &err), 0);
	if (separator[0])
		assert_int_equal(job_set(&j, "FORMAT", part, "f", &err), 0);
	assert_int_equal(job_set(&j, "LABEL", label, "f", &err), 0);
	if (job_finish(&j, "f", &err) != 0) {
		assert_null(want_separator);
		assert_int_equal(err.code, ERROR_CONFIG);
		if (!strstr(err.place, want) && !strstr(err.text, want))
			fail_msg("%s: %s", err.place, err.text);
	} else {
		assert_non_null(want_separator);
		assert_string_equal(j.format, want);
		assert_string_equal(j.separator, want_separator);
	}
	job_free(&j);
}

/* FORMAT wins, then SEPARATOR, then the file's name; a .tsv with LABEL has a header. */
static void what_says_the_format(void **state)
{
	(void)state;
	finished_format("a.csv", "", "", "y", "csv", ",");
	finished_format("a.csv.zst", "", "", "y", "csv", ",");
	finished_format("a.tsv", "", "", "y", "tsv", "tab");
	finished_format("a.tsv.gz", "", "", "", "criteo", "");
	finished_format("a.tab.zst", "", "", "y", "tsv", "tab");
	finished_format("a.tsv", "criteo", "", "", "criteo", "");
	finished_format("a.txt", "tsv", "", "y", "tsv", "tab");
	finished_format("a.txt", "", "semicolon", "y", "csv", ";");
	finished_format("a.tsv", "", ";", "y", "csv", ";");
	finished_format("a.txt", "", "tab", "y", "tsv", "tab");
	finished_format("a.tsv", "csv", "\\t", "y", "tsv", "tab");
	finished_format("a.txt", "", "", "y", "FORMAT is one of bag|cifar10|cifar100|criteo|csv|idx|libsvm|tsv", NULL);
	finished_format("a.tsv", "criteo", "", "y", "FORMAT is criteo", NULL);
	finished_format("a.svm", "libsvm", ";", "", "FORMAT separator", NULL);
	finished_format("a.csv", "", "x", "y", "FORMAT separator", NULL);
}

static void the_resolved_file_is_the_same_job(void **state)
{
	(void)state;
	struct error err;
	struct job again;
	char keys[JOB_KEYS_MAX];
	char path[] = "/tmp/run_job.XXXXXX";
	close(mkstemp(path));
	set("JOB", "j");
	set("DATA", "/d/a.csv /d/b.csv");
	set("POSITIVE", ">50K");
	set("LAUNCH_WORKER", "nice -n '5' \"x\"");
	set("OPTIMIZER", "lr:0.1");
	assert_int_equal(job_finish(&job, "f", &err), 0);
	assert_int_equal(job_write(&job, path, &err), 0);
	assert_int_equal(job_init(&again, &err), 0);
	assert_int_equal(job_read(&again, path, &err), 0);
	assert_int_equal(job_finish(&again, path, &err), 0);
	assert_int_equal(job_compare(&job, &again, 0, keys), JOB_SAME);
	assert_string_equal(again.launch_worker, job.launch_worker);
	assert_int_equal(job_set(&again, "CHECKPOINT", "keep:9", "f", &err), 0);
	assert_int_equal(job_set(&again, "KILL_RESTART", "window:9", "f", &err), 0);
	assert_int_equal(job_set(&again, "MONITOR", "report:9", "f", &err), 0);
	assert_int_equal(job_set(&again, "WORKERS", "ahead:9", "f", &err), 0);
	assert_int_equal(job_set(&again, "SOLUTION", "profile:on", "f", &err), 0);
	assert_int_equal(job_compare(&job, &again, 0, keys), JOB_CHANGE_FREE);
	assert_int_equal(job_set(&again, "SOLUTION", "even", "f", &err), 0);
	assert_int_equal(job_compare(&job, &again, 0, keys), JOB_CHANGE_FREE);
	assert_int_equal(job_set(&again, "SOLUTION", "lb-bsp", "f", &err), 0);
	assert_int_equal(job_compare(&job, &again, 0, keys), JOB_CHANGE_STOPPED);
	assert_string_equal(keys, "SOLUTION (none, not lb-bsp)");
	assert_int_equal(job_compare(&again, &again, 0, keys), JOB_SAME);
	assert_int_equal(job_set(&job, "SOLUTION", "least:9", "f", &err), 0); /* lb-bsp: the lead's */
	assert_int_equal(job_compare(&again, &job, 0, keys), JOB_CHANGE_STOPPED);
	assert_int_equal(job_set(&again, "SOLUTION", "antdt-nd", "f", &err), 0);
	assert_int_equal(job_compare(&again, &job, 0, keys), JOB_CHANGE_FREE);
	assert_int_equal(job_set(&job, "SOLUTION", "least:1", "f", &err), 0);
	assert_int_equal(job_set(&again, "SOLUTION", "even", "f", &err), 0);
	assert_int_equal(job_set(&again, "WORKERS", "9", "f", &err), 0);
	assert_int_equal(job_compare(&job, &again, 0, keys), JOB_CHANGE_STOPPED);
	assert_int_equal(job_set(&again, "BATCH", "9", "f", &err), 0);
	assert_int_equal(job_compare(&job, &again, 0, keys), JOB_CHANGE_STOPPED);
	assert_int_equal(job_compare(&job, &again, 1, keys), JOB_CHANGE_FRESH);
	assert_string_equal(keys, "BATCH (1024, not 9)");
	assert_int_equal(job_set(&again, "EPOCHS", "9", "f", &err), 0);
	assert_int_equal(job_compare(&job, &again, 0, keys), JOB_CHANGE_FRESH);
	assert_string_equal(keys, "EPOCHS (1, not 9)");
	job_free(&again);
	unlink(path);
}

/* What a stopped job may go on with is too late for one whose model is made. */
static void a_finished_job_is_what_it_was_made_with(void **state)
{
	(void)state;
	struct error err;
	struct job again;
	char keys[JOB_KEYS_MAX];
	set("JOB", "j");
	set("DATA", "/d/a.csv");
	assert_int_equal(job_finish(&job, "f", &err), 0);
	assert_int_equal(job_init(&again, &err), 0);
	assert_int_equal(job_set(&again, "JOB", "j", "f", &err), 0);
	assert_int_equal(job_set(&again, "DATA", "/d/a.csv", "f", &err), 0);
	assert_int_equal(job_set(&again, "OPTIMIZER", "lr:0.3", "f", &err), 0);
	assert_int_equal(job_finish(&again, "f", &err), 0);
	assert_int_equal(job_compare(&job, &again, 0, keys), JOB_CHANGE_STOPPED);
	assert_int_equal(job_compare(&job, &again, 1, keys), JOB_CHANGE_FRESH);
	assert_string_equal(keys, "OPTIMIZER lr (0.05, not 0.3)");
	assert_int_equal(job_set(&again, "TEST", "/d/t.csv", "f", &err), 0);
	assert_int_equal(job_set(&again, "WORKERS", "5", "f", &err), 0);
	assert_int_equal(job_compare(&job, &again, 1, keys), JOB_CHANGE_FRESH);
	assert_string_equal(keys, "TEST, OPTIMIZER lr (0.05, not 0.3)");
	job_free(&again);
}

/* ---- parts ---- */

static void a_later_line_changes_what_it_names(void **state)
{
	(void)state;
	struct error err;
	set("CHECKPOINT", "5m,keep:5,memory:on");
	assert_true(job.checkpoint_every == 300);
	assert_int_equal(job.keep, 5);
	assert_string_equal(job.checkpoint_memory, "/dev/shm");
	assert_int_equal(job_set_text(&job, "CHECKPOINT=keep:7", &err), 0);
	assert_true(job.checkpoint_every == 300);
	assert_int_equal(job.keep, 7);
	assert_true(job_is_given(&job, "CHECKPOINT") && job_is_given(&job, "CHECKPOINT keep"));
	assert_false(job_is_given(&job, "CHECKPOINT level"));
	set("CHECKPOINT", "every:end,keep:");
	assert_true(job.checkpoint_every == 0);
	assert_int_equal(job.keep, 3);
	set("CHECKPOINT", "");
	assert_true(job.checkpoint_every == 60);
	assert_string_equal(job.checkpoint_memory, "");
	assert_false(job_is_given(&job, "CHECKPOINT"));
}

static void parts_that_are_none(void **state)
{
	(void)state;
	assert_string_equal(set("CHECKPOINT", "60,kep:3"),
			    "78 f:7: CHECKPOINT has no part kep; the nearest is keep");
	assert_string_equal(set("CHECKPOINT", "kep:3"),
			    "78 f:7: CHECKPOINT has no part kep; the nearest is keep");
	assert_non_null(strstr(set("CHECKPOINT", "60,5"),
			       "78 f:7: CHECKPOINT: '5' is not NAME:VALUE with one of its parts every, keep, "));
	assert_string_equal(set("CHECKPOINT", "60,every:5"), "78 f:7: CHECKPOINT: every is given twice");
	assert_string_equal(set("CHECKPOINT", "keep:5,keep:5"), "78 f:7: CHECKPOINT: keep is given twice");
	assert_non_null(strstr(set("CHECKPOINT", "60,"), "is not NAME:VALUE"));
	assert_string_equal(set("MONITOR", "report:5,long:1h"), "");
	assert_true(job.longer == 3600);
	assert_string_equal(set("BAD_ROWS", "skip:10,classes:any"), "");
	assert_int_equal(job.bad_rows_max, 10);
	assert_string_equal(set("SOLUTION", "./a:b,lambda:2"), "");
	assert_string_equal(job.solution, "./a:b");
}

/* A model may have its own default of an option that others have. */
static void a_default_of_the_model(void **state)
{
	(void)state;
	static const char *const lines[][2] = {
		{"ffm", "4"}, {"ffm,embed:16", "16"}, {"ffm,embed:", "4"}, {"xdeepfm", "16"}};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		struct error err;
		struct model_spec spec;
		job_free(&job);
		job_init(&job, NULL);
		set("JOB", "j");
		set("DATA", "/d/a.csv");
		assert_string_equal(set("MODEL", lines[i][0]), "");
		assert_int_equal(job_finish(&job, "f", &err), 0);
		assert_string_equal(job_option(&job, "embed"), lines[i][1]);
		job_model(&job, &spec);
		assert_int_equal(spec.embed, atoi(lines[i][1]));
	}
}

/* A head knows parts that another one does not. */
static void a_new_head_forgets(void **state)
{
	(void)state;
	struct error err;
	set("JOB", "j");
	set("DATA", "/d/a.csv");
	set("MODEL", "wdl,embed:8,hash-bits:10");
	set("MODEL", "lr");
	assert_string_equal(job_option(&job, "embed"), "16");
	assert_int_equal(job.hash_bits, 10);
	set("SOLUTION", "pace,lambda:2,every:5");
	set("SOLUTION", "even");
	assert_true(job.options.lambda == 1.3 && job.every == 5);
	assert_int_equal(job_finish(&job, "f", &err), 0);
	set("SOLUTION", "lambda:2,filter:even");
	assert_int_equal(job_finish(&job, "f", &err), -1);
	assert_string_equal(err.place, "f:7");
	assert_string_equal(err.text, "SOLUTION=even has no lambda, which is of antdt-nd|pace");
}

static void words_in_place_of_zeros(void **state)
{
	(void)state;
	assert_string_equal(set("EVAL", "0"), "78 f:7: EVAL: '0' is not a value here: write end");
	assert_string_equal(set("BAD_HOSTS", "wait:0s"),
			    "78 f:7: BAD_HOSTS wait: '0s' is not a value here: write forever");
	assert_string_equal(set("BAD_HOSTS", "wait:forever,avoid:never"), "");
	assert_true(job.host_wait == 0 && job.host_avoid == 0);
	assert_string_equal(set("WORKERS", "cores:all,memory:1T,spares:0"), "");
	assert_true(job.worker_memory == (uint64_t)1 << 40);
	assert_string_equal(set("RESTARTS", "0,shard:never"), "");
	assert_string_equal(set("MAX_TIME", "1.5h"), "");
	assert_true(job.max_time == 5400);
	assert_string_equal(set("MAX_TIME", "never"), "");
	assert_true(job.max_time == 0);
}

static const char *hung_of(const char *text)
{
	struct error err;
	set("HUNG", text);
	assert_int_equal(job_finish(&job, "f", &err), 0);
	return job.hung;
}

static void deadlines_are_merged(void **state)
{
	(void)state;
	set("JOB", "j");
	set("DATA", "/d/a.csv");
	assert_string_equal(hung_of("auto"), "auto");
	assert_string_equal(hung_of("5m,start:never"), "300,start:never");
	assert_string_equal(hung_of("checkpoint:auto"), "300,start:never,checkpoint:auto");
	assert_string_equal(hung_of(""), "auto");
	assert_non_null(strstr(set("HUNG", "strat:5"), "the nearest is start"));
	assert_non_null(strstr(set("HUNG", "0"), "neither seconds nor never nor auto"));
}

static const char *read_text(const char *text)
{
	struct error err = {0};
	struct job j;
	char path[] = "/tmp/run_job.XXXXXX";
	int fd = mkstemp(path);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	assert_int_equal(job_init(&j, &err), 0);
	if (job_read(&j, path, &err) == 0)
		fail_msg("%s was read", text);
	assert_int_equal(err.code, ERROR_CONFIG);
	snprintf(got, sizeof got, "%s %s", strchr(err.place, ':'), err.text);
	job_free(&j);
	unlink(path);
	return got;
}

/* All lines of a file at once, with the words of now. */
static void old_keys_say_the_new_lines(void **state)
{
	(void)state;
	assert_string_equal(set("KEEP", "5"),
			    "78 f:7: KEEP is a part of CHECKPOINT now: CHECKPOINT=keep:5");
	assert_string_equal(read_text("JOB=j\nKEEP=5\nCHECKPOINT_EVERY=60\n"),
			    ":2 KEEP is a part of CHECKPOINT now: CHECKPOINT=60,keep:5");
	assert_string_equal(read_text("CHECKPOINT_EVERY=0\nHIDDEN=8,4\nOPTIMIZER=sgd\nLR=1\nPROFILE=1\n"
				      "BATCH_SCALING=keep\nWORKER_CORES=0\nSHORT=2\n"),
			    ":1 CHECKPOINT_EVERY is a part of CHECKPOINT now, and other old keys are parts, too: "
			    "MODEL=hidden:8-4; OPTIMIZER=sgd,lr:1; BATCH=scaling:none; WORKERS=cores:all; "
			    "SOLUTION=profile:on; MONITOR=short:2; CHECKPOINT=end");
	/* A message has room for so much: what is left out is counted. */
	char text[512];
	snprintf(text, sizeof text, "LR=1\nKEEP=5\nPREEMPTIBLE=%0350d\nSHORT=2\n", 0);
	assert_string_equal(read_text(text),
			    ":1 LR is a part of OPTIMIZER now, and other old keys are parts, too: "
			    "OPTIMIZER=lr:1; MONITOR=short:2; CHECKPOINT=keep:5; and 1 more");
}

/* What solutions know of a key is what the job file says of it. */
static void options_of_solutions_are_keys(void **state)
{
	(void)state;
	struct job_key key;
	const struct solution_option *option;
	for (size_t i = 0; (option = solution_option(i)); i++) {
		size_t k = 0;
		while (job_key(k, &key) == 0 && strcmp(key.name, option->job_key) != 0)
			k++;
		assert_int_equal(job_key(k, &key), 0);
		if (option->given[0])
			assert_string_equal(key.given, option->given);
	}
}

static void set_option(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(job_set_text(&job, "BATCH=64", &err), 0);
	assert_int_equal(job.batch, 64);
	assert_int_equal(job_set_text(&job, "POSITIVE=a b $c", &err), 0);
	assert_string_equal(job.positive, "a b $c");
	assert_int_equal(job_set_text(&job, "BATCH", &err), -1);
	assert_int_equal(err.code, ERROR_USAGE);
	assert_int_equal(job_set_text(&job, "=3", &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_sh_and_systemd_read),
		cmocka_unit_test(refuses_with_the_line),
		cmocka_unit_test(nul_and_long_values_are_refused),
		cmocka_unit_test(what_is_written_is_read_again),
		cmocka_unit_test_setup_teardown(defaults, start, stop),
		cmocka_unit_test_setup_teardown(defaults_that_other_keys_give, start, stop),
		cmocka_unit_test_setup_teardown(unknown_key_names_the_nearest, start, stop),
		cmocka_unit_test_setup_teardown(values_out_of_range, start, stop),
		cmocka_unit_test_setup_teardown(keys_that_do_not_fit, start, stop),
		cmocka_unit_test_setup_teardown(what_says_the_format, start, stop),
		cmocka_unit_test_setup_teardown(the_resolved_file_is_the_same_job, start, stop),
		cmocka_unit_test_setup_teardown(a_finished_job_is_what_it_was_made_with, start, stop),
		cmocka_unit_test_setup_teardown(a_later_line_changes_what_it_names, start, stop),
		cmocka_unit_test_setup_teardown(parts_that_are_none, start, stop),
		cmocka_unit_test_setup_teardown(a_default_of_the_model, start, stop),
		cmocka_unit_test_setup_teardown(a_new_head_forgets, start, stop),
		cmocka_unit_test_setup_teardown(words_in_place_of_zeros, start, stop),
		cmocka_unit_test_setup_teardown(deadlines_are_merged, start, stop),
		cmocka_unit_test_setup_teardown(old_keys_say_the_new_lines, start, stop),
		cmocka_unit_test(options_of_solutions_are_keys),
		cmocka_unit_test_setup_teardown(set_option, start, stop),
	};
	return cmocka_run_group_tests_name("run_job", tests, NULL, NULL);
}

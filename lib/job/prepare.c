/* prepare: see prepare.h. Must never touch a state directory whose job runs under other values. */
#include "job/prepare.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/human.h"
#include "base/log.h"
#include "param/layout.h"
#include "param/opt.h"
#include "data/origin.h"
#include "data/rowfile.h"
#include "data/source.h"
#include "model/census.h"
#include "model/model.h"
#include "predict/file.h"
#include "job/fresh.h"
#include "job/kind.h"
#include "proc/parent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *prepare_given(const char *text)
{
	return text[0] ? text : NULL;
}

/* ---- is it the same job? ---- */

/* Running nodes are reached by their sockets, so the run directory must be the same. */
static int same_run_dir(const struct dirs *dirs, struct error *err)
{
	char path[DIRS_PATH_MAX], *text;
	dirs_state(dirs, "run-dir", path);
	if (fs_read_file(path, DIRS_PATH_MAX, &text, NULL, NULL) != 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	int same = strcmp(text, dirs->run) == 0;
	if (!same)
		error_set(err, ERROR_CONFIG, dirs->run,
			  "nodes of this job run with the run directory %.200s", text);
	free(text);
	return same ? 0 : -1;
}

static int write_run_dir(const struct dirs *made, struct error *err)
{
	char path[DIRS_PATH_MAX], line[DIRS_PATH_MAX];
	dirs_state(made, "run-dir", path);
	int n = snprintf(line, sizeof line, "%s\n", made->run);
	return fs_replace_file(path, line, (size_t)n, err);
}

/* Whether a run has begun here: its job file is written last. */
static int has_begun(const struct dirs *dirs)
{
	char path[DIRS_PATH_MAX];
	dirs_state(dirs, "job.env", path);
	return access(path, F_OK) == 0;
}

static int compare_keys(const struct job *job, const struct dirs *dirs, int running, int finished,
			struct error *err)
{
	char path[DIRS_PATH_MAX], keys[JOB_KEYS_MAX];
	struct job old;
	if (!has_begun(dirs))
		return 0;
	dirs_state(dirs, "job.env", path);
	if (job_init(&old, err) != 0)
		return -1;
	int result = job_read(&old, path, err);
	if (result == 0)
		result = job_finish(&old, path, err);
	enum job_change change = result == 0 ? job_compare(&old, job, finished, keys) : JOB_SAME;
	job_free(&old);
	if (change == JOB_CHANGE_FRESH)
		return error_set(
			err, ERROR_CONFIG, dirs->state,
			"holds the state of this job with another %s%s; --fresh starts over", keys,
			finished ? "" : ": with the old value it goes on");
	if (change == JOB_CHANGE_STOPPED && running)
		return error_set(err, ERROR_CONFIG, dirs->state,
				 "nodes of this job run with another %s; stop it first", keys);
	return result;
}

static struct origin_files prepare_files(const struct job *job)
{
	struct row_syntax syntax;
	return (struct origin_files){
		.file = (const char *const *)job->data.item,
		.count = job->data.count,
		.are_idx = job_row_syntax(job, &syntax, NULL) == 0 && syntax.format == ROW_IDX};
}

/* The state of an older version does not have this file: there is nothing to compare. */
static int compare_data(const struct job *job, const struct dirs *dirs, struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct origin_files files = prepare_files(job);
	if (!has_begun(dirs))
		return 0;
	dirs_state(dirs, "data-sums", path);
	if (access(path, F_OK) != 0)
		return 0;
	if (origin_check(path, &files, err) == 0)
		return 0;
	if (err->code == ERROR_CONFIG)
		snprintf(err->text + strlen(err->text), sizeof err->text - strlen(err->text),
			 ": DATA is not what %.200s was made with; --fresh starts over",
			 dirs->state);
	return -1;
}

static int prepare_compare(const struct job *job, const struct dirs *dirs, int running,
			   int finished, struct error *err)
{
	if (compare_keys(job, dirs, running, finished, err) != 0)
		return -1;
	/* Running workers notice changed data themselves, and until then they must be
	 * supervised. */
	return running ? 0 : compare_data(job, dirs, err);
}

int prepare_finished(const struct job *job, const struct dirs *dirs, struct error *err)
{
	return prepare_compare(job, dirs, 0, 1, err);
}

/* ---- schema, dataset ---- */

/* A model that gets the label as a column learns nothing else. */
static int check_label(const struct schema *s, const struct schema_column *columns, size_t count,
		       const char *key, struct error *err)
{
	for (size_t i = 0; s->label && i < count; i++)
		if (strcmp(columns[i].name, s->label) == 0)
			return error_set(
				err, ERROR_CONFIG, key,
				"'%.80s' is the LABEL, which is not known when rows are scored",
				s->label);
	return 0;
}

static int wanted_schema(const struct job *job, struct schema **schema, struct error *err)
{
	struct schema_options options = {.format = job->format,
					 .separator = prepare_given(job->separator),
					 .label = prepare_given(job->label),
					 .labels = job_labels_word(job),
					 .dense = prepare_given(job->dense),
					 .sparse = prepare_given(job->sparse),
					 .weight = prepare_given(job->weight),
					 .positive = prepare_given(job->positive),
					 .negative = prepare_given(job->negative),
					 .missing = prepare_given(job->missing),
					 .dense_scale = job->dense_scale,
					 .hash_bits = job->hash_bits};
	struct row_syntax syntax;
	if (job_row_syntax(job, &syntax, err) != 0)
		return -1;
	if (syntax.format == ROW_IDX) { /* how large images are, the first file says */
		if (rowfile_look(job->data.item[0], &syntax, err) != 0)
			return -1;
		options.pixels = syntax.pixels;
	}
	if (schema_new(schema, &options, err) != 0)
		return -1;
	if (check_label(*schema, (*schema)->dense, (*schema)->dense_count, "DENSE", err) == 0 &&
	    check_label(*schema, (*schema)->sparse, (*schema)->sparse_count, "SPARSE", err) == 0)
		return 0;
	schema_free(*schema);
	return -1;
}

int prepare_columns(const struct job *job, const char *path, struct error *err)
{
	struct schema *schema;
	if (job_kind(job)->foreign)
		return 0;
	if (wanted_schema(job, &schema, err) != 0)
		return error_wrap(err, path);
	schema_free(schema);
	return 0;
}

static int saved_schema(const char *path, const struct schema *wanted, struct schema **saved,
			struct error *err)
{
	struct error why;
	if (schema_read(saved, path, err) != 0)
		return -1;
	if (schema_equal(wanted, *saved, &why))
		return 0;
	schema_free(*saved);
	*saved = NULL;
	return error_set(err, ERROR_CONFIG, path,
			 "does not fit the job (%.300s); --fresh starts over", why.text);
}

/* Whether items `from` to `to` are one name with blanks: relative names, each of which became an
 * absolute path. */
static int is_one_name(const struct job_list *list, size_t from, size_t to, char *name, size_t max)
{
	const char *second = list->item[from + 1];
	for (size_t dir = 1; dir <= strlen(second); dir++) {
		size_t at = (size_t)snprintf(name, max, "%s", list->item[from]);
		for (size_t i = from + 1; i <= to && second[dir - 1] == '/' && at < max; i++) {
			const char *item = list->item[i];
			int under = strncmp(item, second, dir) == 0;
			at += (size_t)snprintf(name + at, max - at, " %s",
					       item + (under ? dir : 0));
		}
		if (second[dir - 1] == '/' && at < max && access(name, F_OK) == 0)
			return 1;
	}
	return 0;
}

/* A file that is not there may be half of a name with blanks. */
static void hint_names(const struct job_list *list, const char *key, struct error *err)
{
	enum { BLANKS_MAX = 8 };
	char name[DIRS_PATH_MAX];
	size_t n = strlen(err->text);
	if (err->code != ERROR_NOINPUT || list->count > 1000)
		return;
	for (size_t from = 0; from + 1 < list->count; from++)
		for (size_t to = from + 1; to < list->count && to <= from + BLANKS_MAX; to++) {
			if (!is_one_name(list, from, to, name, sizeof name))
				continue;
			snprintf(err->text + n, sizeof err->text - n,
				 "; a name with blanks is quoted inside of %s: %s=\"'%.100s'\"",
				 key, key, fs_basename(name));
			return;
		}
	for (size_t i = 0; i < list->count; i++)
		if (strpbrk(list->item[i], "*?[") && access(list->item[i], F_OK) != 0) {
			snprintf(err->text + n, sizeof err->text - n,
				 "; names are taken literally, * ? and [ too");
			return;
		}
}

static int prepare_open_data(const struct job *job, const struct dirs *dirs,
			     const struct schema *schema, const struct prepare_options *o,
			     struct dataset **ds, struct error *err)
{
	char index[DIRS_PATH_MAX];
	dirs_state(dirs, "index", index);
	struct dataset_options options = {.paths = (const char *const *)job->data.item,
					  .path_count = job->data.count,
					  .index_dir = index,
					  .bad_rows_max = job->bad_rows_max,
					  .progress = o->progress,
					  .progress_arg = o->progress_arg};
	if (dataset_open(ds, schema, &options, err) == 0)
		return 0;
	if (err)
		hint_names(&job->data, "DATA", err);
	return -1;
}

/* ---- the rows ---- */

#define LOOK_ROWS 1024 /* read at once, and of each file of TEST */

/* Counts rows by label, as far as the answer may depend on it: until both labels were seen, or to
 * the end if bad rows are counted. */
static int count_labels(struct dataset *ds, int to_end, uint64_t count[2], struct error *err)
{
	struct rows rows = {0};
	uint64_t all = dataset_rows(ds), take;
	int result = 0;
	for (uint64_t at = 0; result == 0 && at < all; at += take) {
		if (count[0] > 0 && count[1] > 0 && !to_end)
			break;
		take = all - at < LOOK_ROWS ? all - at : LOOK_ROWS;
		result = dataset_read(ds, at, take, &rows, err);
		for (size_t i = 0; result == 0 && i < rows.count; i++)
			count[rows.label[i] > 0]++;
	}
	rows_free(&rows);
	return result;
}

#define CENSUS_ROWS 1000000 /* looked at, to explain a label that is refused */

/* Without NEGATIVE a misspelt label means 0, and nothing else would show it. */
static int takes_any_label(const struct job *job)
{
	return job->positive[0] && !job->negative[0] && job_labels(job) == MODEL_BINARY;
}

/* Whether to count bad rows or odd labels here, unless schema_fit() reads all rows anyway. */
static int counts_all(const struct job *job)
{
	return job->bad_rows_max > 0 || takes_any_label(job);
}

static void say_labels(const struct job *job, struct dataset *ds, const struct labels *labels)
{
	char text[800];
	const struct label_value *zero = labels_most(labels, LABEL_ZERO);
	if (!labels_are_odd(labels))
		return;
	dataset_describe_labels(ds, labels, text, sizeof text);
	if (zero && takes_any_label(job))
		log_say(LOG_LEVEL_WARNING,
			"DATA has more than two labels: %s. With NEGATIVE='%s', a row with any "
			"third label is a bad row",
			text, zero->text);
	else
		log_say(LOG_LEVEL_WARNING, "DATA has more than two labels: %s", text);
}

/* A label was refused: list the other labels, which shows what POSITIVE and NEGATIVE should be. */
static void explain_labels(const struct job *job, const struct dirs *dirs,
			   const struct schema *schema, struct error *err)
{
	const struct prepare_options quiet = {0};
	struct labels labels = {0};
	struct rows rows = {0};
	struct dataset *ds;
	struct job lenient = *job;
	lenient.bad_rows_max = CENSUS_ROWS;
	if (prepare_open_data(&lenient, dirs, schema, &quiet, &ds, NULL) != 0)
		return;
	uint64_t all = dataset_rows(ds), most = all < CENSUS_ROWS ? all : CENSUS_ROWS, take;
	int result = 0;
	dataset_count_labels(ds, &labels);
	for (uint64_t at = 0; result == 0 && at < most; at += take) {
		take = most - at < LOOK_ROWS ? most - at : LOOK_ROWS;
		result = dataset_read(ds, at, take, &rows, NULL);
	}
	dataset_count_labels(ds, NULL);
	if (result == 0) {
		size_t n = strlen(err->text);
		char text[400];
		dataset_describe_labels(ds, &labels, text, sizeof text);
		snprintf(err->text + n, sizeof err->text - n, ". Labels of %s%llu rows: %.330s",
			 most < all ? "the first " : "all ", (unsigned long long)most, text);
	}
	rows_free(&rows);
	dataset_close(ds);
}

/* A misspelt POSITIVE makes every label 0, and a model learns to say so, with a falling loss. */
static int check_labels(const struct job *job, const struct schema *schema, struct dataset *ds,
			struct error *err)
{
	uint64_t count[2] = {0, 0};
	int wanted = job_labels(job) == MODEL_BINARY && strcmp(job->classes, "both") == 0;
	int to_end = counts_all(job) && !schema_needs_fit(schema);
	if (!wanted && !to_end)
		return 0;
	if (count_labels(ds, to_end, count, err) != 0)
		return -1;
	if (!wanted || (count[0] > 0 && count[1] > 0))
		return 0;
	if (count[0] + count[1] == 0)
		return error_set(err, ERROR_DATA, job->data.item[0],
				 "holds no row that can be read");
	if (count[1] == 0 && job->positive[0])
		return error_set(err, ERROR_DATA, job->data.item[0],
				 "POSITIVE: no label is '%.80s', so all %llu rows have label 0; "
				 "BAD_ROWS=classes:any trains on them all the same",
				 job->positive, (unsigned long long)count[0]);
	return error_set(
		err, ERROR_DATA, job->data.item[0],
		"all %llu rows have label %d; BAD_ROWS=classes:any trains on them all the same",
		(unsigned long long)(count[0] + count[1]), count[1] > 0);
}

/* Of documents those of two words or more are scored: one tells the topics, another is told. */
static int has_scored(const struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		double words = 0;
		for (size_t k = rows->offset[i]; k < rows->offset[i + 1]; k++)
			words += (double)rows->value[k];
		if (words >= 2)
			return 1;
	}
	return 0;
}

/* Report an error now that would stop the scoring hours later. *scored: a row that has a score was
 * found. */
static int check_test_file(const struct job *job, const struct schema *schema, const char *path,
			   int *scored, struct error *err)
{
	const struct row_stream_options options = {.name = path,
						   .bad_rows_max = job->bad_rows_max};
	struct source *source; /* says what is no regular file */
	struct row_stream *in;
	struct rows rows = {0};
	if (source_open(&source, path, err) != 0)
		return -1;
	source_close(source);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	int result = row_stream_open(&in, schema, fd, &options, err);
	if (result == 0) {
		result = row_stream_read(in, LOOK_ROWS, &rows, err);
		if (result == 0 && rows.count == 0)
			result = error_set(err, ERROR_DATA, path, "holds no row");
		*scored |= !job_has_documents(job);
		while (result == 0 && rows.count > 0 && !*scored) {
			*scored = has_scored(&rows);
			result = row_stream_read(in, LOOK_ROWS, &rows, err);
		}
		row_stream_close(in);
	}
	rows_free(&rows);
	close(fd);
	return result;
}

static int check_test(const struct job *job, const struct schema *schema, struct error *err)
{
	int result = 0, scored = 0;
	for (size_t i = 0; result == 0 && i < job->test.count; i++)
		result = check_test_file(job, schema, job->test.item[i], &scored, err);
	if (result == 0 && job->test.count > 0 && !scored)
		result =
			error_set(err, ERROR_DATA, job->test.item[0],
				  "has no document of two words or more, so nothing can be scored");
	if (result == 0)
		return 0;
	if (err)
		hint_names(&job->test, "TEST", err);
	return error_wrap(err, "TEST");
}

/* The i-th class of INIT's parameters has to be the i-th one here. */
static int prepare_check_classes(const struct job *job, const struct schema *schema,
				 struct error *err)
{
	struct schema *before;
	char path[DIRS_PATH_MAX];
	if (fs_join(path, sizeof path, job->init, "schema", err) != 0)
		return -1;
	if (access(path, F_OK) != 0) /* a trainer's own */
		return 0;
	if (schema_read(&before, path, err) != 0)
		return -1;
	int same = classes_same(&before->classes, &schema->classes);
	schema_free(before);
	return same ? 0
		    : error_set(err, ERROR_CONFIG, job->init,
				"INIT: its classes are not those of DATA");
}

/* The passes over all rows before anything is trained on them: labels, means and deviations. */
static int look_at_rows(const struct job *job, const struct dirs *dirs, struct schema *schema,
			struct dataset *ds, struct error *err)
{
	struct labels labels = {0};
	int fits = schema_needs_fit(schema);
	dataset_count_labels(ds, &labels);
	int result = check_labels(job, schema, ds, err);
	if (result == 0 && fits) {
		labels = (struct labels){0};
		result = schema_fit(schema, ds, err);
	}
	if (result == 0 && schema->labels == SCHEMA_CLASS && schema->classes.count == 1)
		result =
			error_set(err, ERROR_DATA, job->data.item[0],
				  "all rows have the label '%.80s': there is nothing to tell apart",
				  schema->classes.value[0].text);
	if (result == 0 && schema->labels == SCHEMA_CLASS && job->init[0])
		result = prepare_check_classes(job, schema, err);
	dataset_count_labels(ds, NULL);
	if (result == 0 && (fits || counts_all(job)))
		say_labels(job, ds, &labels);
	else if (result != 0 && err && labels_have_bad(&labels) &&
		 strncmp(err->text, "label '", 7) == 0)
		explain_labels(job, dirs, schema, err);
	return result;
}

/* What the model has to know of the documents: counted once, later read from its file. */
static int prepare_count_words(const struct job *job, const struct dirs *made, struct dataset *ds,
			       int saved, struct model_spec *spec, struct error *err)
{
	char path[DIRS_PATH_MAX], place[ERROR_PLACE_MAX];
	struct rows rows = {0};
	struct census *census;
	struct model_spec old;
	uint64_t all = dataset_rows(ds), take;
	dirs_state(made, "model", path);
	if (saved) {
		if (model_spec_read(path, &old, err) != 0)
			return -1;
		lda_options(spec)->words = lda_options(&old)->words;
		lda_options(spec)->longest = lda_options(&old)->longest;
		return 0;
	}
	int result = census_new(&census, err);
	for (uint64_t at = 0; result == 0 && at < all; at += take) {
		take = all - at < LOOK_ROWS ? all - at : LOOK_ROWS;
		result = dataset_read(ds, at, take, &rows, err);
		for (size_t i = 0; result == 0 && i < rows.count; i++) {
			size_t from = rows.offset[i], words = rows.offset[i + 1] - from;
			if (words == 0) /* there may be no arrays, if there is no word at all */
				continue;
			result = census_add(census, rows.row[i], rows.key + from, rows.value + from,
					    words, err);
			if (result != 0) {
				dataset_place(ds, rows.row[i], place, sizeof place);
				error_wrap(err, place);
			}
		}
	}
	if (result == 0)
		census_end(census, spec);
	if (result == 0 && lda_options(spec)->words == 0)
		result = error_set(err, ERROR_DATA, job->data.item[0], "no document has a word");
	rows_free(&rows);
	census_free(census);
	return result;
}

/* Records the data files, once, before anything is trained on them. */
static int write_origin(const struct job *job, const struct dirs *made, struct dataset *ds,
			struct prepared *out, struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct origin origin = {.rows = out->samples, .bad_rows = dataset_bad_rows(ds)};
	struct origin_files files = prepare_files(job);
	out->bad_rows = origin.bad_rows;
	dirs_state(made, "data-sums", path);
	return origin_write(path, &origin, &files, err);
}

static int read_origin(const struct dirs *dirs, struct prepared *out)
{
	char path[DIRS_PATH_MAX];
	struct origin origin;
	dirs_state(dirs, "data-sums", path);
	if (origin_read(path, &origin, NULL) != 0)
		return -1;
	out->bad_rows = origin.bad_rows;
	return 0;
}

/* ---- model, layout ---- */

/* The rows of a table come with the data; the dense parameters are there at once. Each worker has
 * their gradient, and what it computes. */
static int has_memory(const struct job *job, const struct model_spec *spec,
		      const struct layout *layout, uint64_t memory_mib, struct error *err)
{
	char need[HUMAN_MAX], has[HUMAN_MAX];
	struct opt opt;
	if (opt_by_name(&opt, job->optimizer, err) != 0)
		return -1;
	double memory = (double)memory_mib * 1048576;
	double dense = (double)layout_dense_count(layout);
	double scratch = model_device_is_card(job->device) ? 0 : (double)model_scratch(spec);
	double bytes = sizeof(float) * (dense * (double)(1 + opt_slots(&opt)) +
					(double)job->workers * (dense + scratch));
	if (memory_mib == 0 || bytes <= memory)
		return 0;
	return error_set(err, ERROR_CONFIG, "MODEL",
			 "the parameters of its layers, with what OPTIMIZER keeps of each and what "
			 "WORKERS=%llu compute with, need %s of memory, and this machine has %s",
			 (unsigned long long)job->workers, human_bytes(bytes, need),
			 human_bytes(memory, has));
}

/* spec: the job's, with what was counted in the data. */
static int write_model(const struct job *job, const struct dirs *dirs, const struct schema *schema,
		       struct model_spec spec, uint64_t memory_mib, struct error *err)
{
	char path[DIRS_PATH_MAX];
	static struct layout layout; /* large */
	spec.dense_inputs = (uint32_t)schema->dense_count;
	spec.fields = (uint32_t)schema_fields(schema);
	spec.hash_bits = schema->hash_bits;
	spec.classes = (uint32_t)schema->classes.count;
	spec.l2 = job->l2;
	spec.seed = job->seed;
	dirs_state(dirs, "model", path);
	if (model_spec_check(&spec, err) != 0 || model_spec_write(path, &spec, err) != 0)
		return -1;
	layout_start(&layout, job->seed);
	dirs_state(dirs, "layout", path);
	if (model_layout(&spec, &layout, err) != 0 ||
	    has_memory(job, &spec, &layout, memory_mib, err) != 0)
		return -1;
	return layout_write(&layout, path, err);
}

static int prepare_count_rows(const struct job *job, const struct dataset *ds, struct prepared *out,
			      struct error *err)
{
	out->samples = dataset_rows(ds);
	if (out->samples == 0)
		return error_set(err, ERROR_DATA, job->data.item[0], "holds no row");
	out->rows = calloc(job->data.count, sizeof *out->rows);
	if (!out->rows)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < job->data.count; i++) {
		out->rows[i] = dataset_file_rows(ds, i);
		if (out->rows[i] == 0 && job_is_local(job))
			return error_set(err, ERROR_DATA, job->data.item[i],
					 "holds no row: a partition needs one");
	}
	return 0;
}

/* dirs: where indexes are, and the run before; made: where this run's files go, often the same. */
static int with_schema(const struct job *job, const struct dirs *dirs, const struct dirs *made,
		       struct schema *schema, int saved, const struct prepare_options *options,
		       struct prepared *out, struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct dataset *ds;
	struct model_spec spec;
	job_model(job, &spec);
	dirs_state(made, "schema", path);
	if (prepare_open_data(job, dirs, schema, options, &ds, err) != 0)
		return -1;
	int result = prepare_count_rows(job, ds, out, err);
	/* Soon, if the rows of TEST can be read before all of DATA is. */
	int early = schema->labels != SCHEMA_CLASS;
	if (result == 0 && !options->running && early)
		result = check_test(job, schema, err);
	if (result == 0 && !saved)
		result = look_at_rows(job, dirs, schema, ds, err);
	if (result == 0 && !options->running && !early)
		result = check_test(job, schema, err);
	if (result == 0 && job_has_documents(job))
		result = prepare_count_words(job, made, ds, saved, &spec, err);
	if (result == 0 && !saved)
		result = schema_write(schema, path, err);
	/* A state without it was made by an earlier version. */
	if (result == 0 && (!saved || read_origin(made, out) != 0))
		result = write_origin(job, made, ds, out, err);
	dataset_close(ds);
	spec.samples = out->samples;
	return result == 0 ? write_model(job, made, schema, spec, options->memory_mib, err) : -1;
}

/* ---- a trainer of the user's own ---- */

struct counting {
	const struct prepare_options *options;
	const char *path;
};

static void on_count(uint64_t done, uint64_t total, void *arg)
{
	const struct counting *c = arg;
	if (c->options->progress)
		c->options->progress("index", c->path, done, total, c->options->progress_arg);
}

/* Rows are counted and indexed; only the trainer knows what is in them. */
static int count_files(const struct job *job, const struct dirs *dirs,
		       const struct prepare_options *options, struct prepared *out,
		       struct error *err)
{
	char index[DIRS_PATH_MAX];
	struct row_syntax syntax;
	struct counting counting = {.options = options};
	struct rowfile_options o = {
		.index_dir = index,
		.making = {.keep = INDEX_KEEP, .progress = on_count, .arg = &counting}};
	int result = 0;
	dirs_state(dirs, "index", index);
	if (fs_make_dirs(index, err) != 0 || job_row_syntax(job, &syntax, err) != 0)
		return -1;
	out->rows = calloc(job->data.count, sizeof *out->rows);
	if (!out->rows)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; result == 0 && i < job->data.count; i++) {
		struct rowfile f = {0};
		counting.path = job->data.item[i];
		result = rowfile_open(&f, job->data.item[i], syntax, &o, err);
		if (result == 0)
			out->samples += out->rows[i] = f.index->rows;
		rowfile_close(&f);
	}
	if (result == 0 && out->samples == 0)
		result = error_set(err, ERROR_DATA, job->data.item[0], "holds no row");
	if (result != 0 && err)
		hint_names(&job->data, "DATA", err);
	return result;
}

/* Files of an older job would mix with the files of this one. */
static int look_at_output(const char *dir, struct error *err)
{
	DIR *d = opendir(dir);
	int result = 0;
	for (struct dirent *e; d && result == 0 && (e = readdir(d));) {
		size_t epoch = strspn(e->d_name, "0123456789");
		const char *rest = e->d_name + epoch;
		if (epoch > 0 && rest[0] == '-' && rest[1] &&
		    !rest[1 + strspn(rest + 1, "0123456789")])
			result = error_set(err, ERROR_CONFIG, dir,
					   "holds output of another job (%.80s): remove it, or name "
					   "another directory", e->d_name);
	}
	if (d)
		closedir(d);
	return result;
}

static int make_foreign(const struct job *job, const struct dirs *dirs, const struct dirs *made,
			const struct prepare_options *options, struct prepared *out,
			struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct origin origin = {0};
	struct origin_files files = prepare_files(job);
	out->samples = job->samples;
	if (!has_begun(made) && job->each_output[0] && look_at_output(job->each_output, err) != 0)
		return -1;
	dirs_state(made, "data-sums", path);
	if (job->data.count > 0 && count_files(job, dirs, options, out, err) != 0)
		return -1;
	origin.rows = out->samples;
	if (job->data.count > 0 && access(path, F_OK) != 0 &&
	    origin_write(path, &origin, &files, err) != 0)
		return -1;
	if (write_run_dir(made, err) != 0)
		return -1;
	dirs_state(made, "job.env", path);
	return job_write(job, path, err);
}

/* Where HOSTS train, each of their workers finds out for itself. */
static int prepare_look_at_device(const struct job *job, struct error *err)
{
	struct model_spec spec;
	if (!model_device_is_card(job->device) || strcmp(job->device, "auto") == 0 ||
	    job->hosts.count > 0)
		return 0;
	job_model(job, &spec);
	return model_device_look(&spec, job->device, err) < 0 ? -1 : 0;
}

static int prepare_make(const struct job *job, const struct dirs *dirs, const struct dirs *made,
			const struct prepare_options *options, struct prepared *out,
			struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct schema *wanted = NULL, *schema = NULL;
	if (job_kind(job)->foreign)
		return make_foreign(job, dirs, made, options, out, err);
	if ((!options->running && prepare_look_at_device(job, err) != 0) ||
	    wanted_schema(job, &wanted, err) != 0)
		return -1;
	dirs_state(made, "schema", path);
	int saved = access(path, F_OK) == 0 && has_begun(made), result = 0;
	if (saved)
		result = saved_schema(path, wanted, &schema, err);
	if (result == 0)
		result = with_schema(job, dirs, made, saved ? schema : wanted, saved, options, out,
				     err);
	schema_free(wanted);
	schema_free(schema);
	if (result == 0)
		result = write_run_dir(made, err);
	dirs_state(made, "job.env", path);
	return result == 0 ? job_write(job, path, err) : -1;
}

static int begin_or_go_on(const struct job *job, const struct dirs *dirs,
			  const struct prepare_options *options, struct prepared *out,
			  struct error *err)
{
	if (prepare_compare(job, dirs, options->running, 0, err) != 0 ||
	    (options->running && same_run_dir(dirs, err) != 0))
		return -1;
	return prepare_make(job, dirs, dirs, options, out, err);
}

/* ---- starting over ---- */

/* Whether path is inside of dir, by any name; a path that does not exist is in nothing. */
static int lies_in(const char *path, const char *dir)
{
	char *whole = realpath(path, NULL), *top = realpath(dir, NULL);
	size_t len = top ? strlen(top) : 0;
	int result = whole && top && strncmp(whole, top, len) == 0 &&
		     (whole[len] == '/' || whole[len] == '\0');
	free(whole);
	free(top);
	return result;
}

/* The earlier run is moved, and later removed: the new run must not start from any file of it. */
static int prepare_check_apart(const struct job *job, const struct dirs *dirs, struct error *err)
{
	if (job->init[0] && fresh_takes(dirs, job->init))
		return error_set(
			err, ERROR_CONFIG, job->init,
			"INIT is a checkpoint of the run that --fresh would remove: move it");
	const struct job_list *const lists[] = {&job->data, &job->test};
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < lists[i]->count; k++)
			if (fresh_takes(dirs, lists[i]->item[k]))
				return error_set(err, ERROR_CONFIG, lists[i]->item[k],
						 "lies where --fresh removes what a run has left "
						 "in %s: move it",
						 dirs->state);
	if (job->predict_from[0] && lies_in(job->predict_from, dirs->state))
		return error_set(
			err, ERROR_CONFIG, job->predict_from,
			"PREDICT_FROM is of the run that --fresh would remove: move it");
	return 0;
}

/* A state directory of another job's name is not removed. A file that can't be read has no name. */
static int prepare_check_name(const struct job *job, const struct dirs *dirs, struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct job old;
	int result = 0;
	dirs_state(dirs, "job.env", path);
	if (job_init(&old, err) != 0)
		return -1;
	if (job_read(&old, path, NULL) == 0 && old.name[0] && strcmp(old.name, job->name) != 0)
		result = error_set(err, ERROR_CONFIG, dirs->state,
				   "holds the state of job %s, not of %s: choose another directory",
				   old.name, job->name);
	job_free(&old);
	return result;
}

static int prepare_start_over(const struct job *job, const struct dirs *dirs,
			      const struct prepare_options *options, struct prepared *out,
			      struct error *err)
{
	struct dirs made;
	if (prepare_check_name(job, dirs, err) != 0 || prepare_check_apart(job, dirs, err) != 0 ||
	    fresh_begin(dirs, &made, err) != 0)
		return -1;
	if (prepare_make(job, dirs, &made, options, out, err) != 0) {
		fresh_give_up(dirs);
		return -1;
	}
	if (fresh_commit(dirs, err) != 0)
		return -1;
	return dirs_make(dirs, err);
}

/* A worker that has learnt in an earlier life of this job does not read it. */
static int check_learnt(const struct job *job, const struct dirs *dirs, int fresh, uint64_t worker,
			char model[DIRS_PATH_MAX], struct error *err)
{
	char name[64], own[DIRS_PATH_MAX], earlier[DIRS_PATH_MAX];
	struct predictor *p = NULL;
	enum predict_model kind;
	snprintf(name, sizeof name, "predict-w%llu", (unsigned long long)worker);
	dirs_state(dirs, name, own);
	if ((!fresh && access(own, F_OK) == 0) || predict_model_of(job->predict, &kind) != 0)
		return 0;
	memcpy(earlier, model, sizeof earlier);
	if (dirs_learnt(job->predict_from, name + strlen("predict-"), model) != 0)
		snprintf(model, DIRS_PATH_MAX, "%s", job->predict_from);
	if (strcmp(model, earlier) == 0)
		return 0;
	int result = predict_file_load(&p, model, kind, err);
	predictor_free(p);
	return result == 0 ? 0 : error_wrap(err, "PREDICT_FROM");
}

/* Reported here: otherwise each worker would report that it can't use the file, and learn anew. */
static int check_predict_from(const struct job *job, const struct dirs *dirs, int fresh,
			      struct error *err)
{
	const char *path = job->predict_from;
	char model[DIRS_PATH_MAX] = "";
	struct stat st;
	if (!path[0])
		return 0;
	if (access(path, R_OK) != 0 || stat(path, &st) != 0)
		return error_errno(err, ERROR_NOINPUT, path, "PREDICT_FROM");
	if (S_ISDIR(st.st_mode) && dirs_learnt(path, "w0", model) != 0)
		return error_set(err, ERROR_NOINPUT, path,
				 "PREDICT_FROM: the directory has no predict-ID of any worker");
	model[0] = 0;
	for (uint64_t i = 0; i < job->workers; i++)
		if (check_learnt(job, dirs, fresh, i, model, err) != 0)
			return -1;
	return 0;
}

/* Reported here: otherwise all servers would report it, and leave a state behind. In later starts
 * INIT is not used. */
static int check_init(const struct job *job, const struct dirs *dirs, int fresh, struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct stat st;
	if (!job->init[0] || (!fresh && has_begun(dirs)))
		return 0;
	if (stat(job->init, &st) != 0)
		return error_errno(err, ERROR_NOINPUT, job->init, "INIT");
	if (fs_join(path, sizeof path, job->init, "MANIFEST", err) != 0)
		return -1;
	if (access(path, F_OK) != 0)
		return error_set(
			err, ERROR_NOINPUT, job->init,
			"INIT: is no checkpoint, it has no MANIFEST; those of a job are in "
			"STATE/checkpoints/NUMBER");
	return 0;
}

int prepare(const struct job *job, const struct dirs *dirs,
	    const struct prepare_options *options, struct prepared *out, struct error *err)
{
	int result = check_predict_from(job, dirs, options->fresh, err);
	*out = (struct prepared){0};
	if (result == 0)
		result = check_init(job, dirs, options->fresh, err);
	if (result == 0 && options->fresh)
		result = prepare_start_over(job, dirs, options, out, err);
	else if (result == 0)
		result = begin_or_go_on(job, dirs, options, out, err);
	if (result != 0) {
		free(out->rows);
		out->rows = NULL;
	}
	return result;
}

/* ---- a trial ---- */

/* A file that is replaced in the trial's directory replaces the link, not its target. */
static int link_one(const char *from, const char *to, const char *name, struct error *err)
{
	char a[DIRS_PATH_MAX + 256], b[DIRS_PATH_MAX + 256];
	snprintf(a, sizeof a, "%s/%s", from, name);
	snprintf(b, sizeof b, "%s/%s", to, name);
	if (access(a, F_OK) != 0 || symlink(a, b) == 0)
		return 0;
	return error_errno(err, ERROR_CANTCREAT, b, "can't be made");
}

/* The rows of the data need not be looked for again. */
static int link_indexes(const struct dirs *dirs, const struct dirs *trial, struct error *err)
{
	char from[DIRS_PATH_MAX], to[DIRS_PATH_MAX];
	int result = 0;
	dirs_state(dirs, "index", from);
	dirs_state(trial, "index", to);
	if (fs_make_dirs(to, err) != 0)
		return -1;
	DIR *d = opendir(from);
	for (struct dirent *e; d && result == 0 && (e = readdir(d));)
		if (e->d_name[0] != '.')
			result = link_one(from, to, e->d_name, err);
	if (d)
		closedir(d);
	return result;
}

/* An error names the state directory itself. */
static void name_state(char *text, size_t max, const struct dirs *dirs, const struct dirs *trial)
{
	char rest[ERROR_TEXT_MAX + ERROR_PLACE_MAX];
	char *at = strstr(text, trial->state);
	if (!at)
		return;
	snprintf(rest, sizeof rest, "%s", at + strlen(trial->state));
	snprintf(at, max - (size_t)(at - text), "%s%s", dirs->state, rest);
}

int prepare_trial(const struct job *job, const struct dirs *dirs, const struct dirs *trial,
		  const struct prepare_options *options, struct prepared *out, struct error *err)
{
	static const char *const kept[] = {"job.env", "run-dir", "schema", "model", "data-sums"};
	*out = (struct prepared){0};
	int result = check_predict_from(job, dirs, options->fresh, err);
	if (result == 0)
		result = check_init(job, dirs, options->fresh, err);
	if (result == 0)
		result = link_indexes(dirs, trial, err);
	for (size_t i = 0; result == 0 && !options->fresh && i < sizeof kept / sizeof *kept; i++)
		result = link_one(dirs->state, trial->state, kept[i], err);
	if (result == 0 && options->fresh &&
	    (prepare_check_name(job, dirs, err) != 0 || prepare_check_apart(job, dirs, err) != 0 ||
	     fresh_check(dirs, err) != 0))
		result = -1;
	if (result == 0 && options->finished)
		result = prepare_compare(job, trial, 0, 1, err);
	else if (result == 0)
		result = begin_or_go_on(job, trial, options, out, err);
	if (result != 0) {
		name_state(err->place, sizeof err->place, dirs, trial);
		name_state(err->text, sizeof err->text, dirs, trial);
		free(out->rows);
		out->rows = NULL;
	}
	return result;
}

/* ---- what runs ---- */

struct running {
	size_t nodes, parents; /* by their records: those that run; those whose parent does */
	size_t held;           /* locks of parents */
	char id[OPTION_ID_MAX];
	char lock[DIRS_PATH_MAX + 256]; /* one that is held */
};

static int is_held(const char *path)
{
	int fd;
	struct error err;
	if (fs_lock(path, &fd, &err) != 0)
		return err.code == ERROR_TEMPFAIL;
	close(fd);
	return 0;
}

static int look_at_record(const char *path, struct running *out, struct error *err)
{
	struct node_record r;
	if (node_record_read(path, &r, err) != 0)
		return error_is_lack(err) ? -1 : 0;
	int runs = node_record_running(&r);
	if (!runs)
		return 0;
	out->nodes++;
	out->parents += (runs & RECORD_PARENT_RUNS) != 0;
	snprintf(out->id, sizeof out->id, "%s", r.id);
	return 0;
}

static int look_at_nodes(const struct dirs *dirs, int locks, struct running *out, struct error *err)
{
	char dir[DIRS_PATH_MAX], path[DIRS_PATH_MAX + 256];
	*out = (struct running){0};
	dirs_state(dirs, "nodes", dir);
	DIR *d = opendir(dir);
	if (!d && errno != ENOENT)
		return error_errno(err, ERROR_IO, dir, "can't be listed");
	int result = 0;
	for (struct dirent *e; d && result == 0;) {
		errno = 0;
		if (!(e = readdir(d))) {
			result = errno ? error_errno(err, ERROR_IO, dir, "can't be listed") : 0;
			break;
		}
		if (e->d_name[0] == '.' || strstr(e->d_name, ".tmp"))
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (!strstr(e->d_name, ".lock"))
			result = look_at_record(path, out, err);
		else if (locks && is_held(path)) {
			out->held++;
			memcpy(out->lock, path, sizeof path);
		}
	}
	if (d)
		closedir(d);
	return result;
}

int prepare_look(const struct dirs *dirs, char *id, struct error *err)
{
	struct running now;
	if (look_at_nodes(dirs, 0, &now, err) != 0)
		return -1;
	if (now.nodes > 0)
		snprintf(id, OPTION_ID_MAX, "%s", now.id);
	return now.nodes > 0;
}

int prepare_running(const struct dirs *dirs, char *id)
{
	struct error err;
	int runs = prepare_look(dirs, id, &err);
	if (runs < 0)
		snprintf(id, OPTION_ID_MAX, "a node"); /* as far as we can see */
	return runs != 0;
}

int prepare_settle(const struct dirs *dirs, double seconds, struct error *err)
{
	struct running now;
	double until = clock_mono() + seconds;
	for (;;) {
		if (look_at_nodes(dirs, 1, &now, err) != 0)
			return -1;
		if (now.held <= now.parents)
			return 0;
		if (clock_mono() >= until)
			return error_set(err, ERROR_TEMPFAIL, now.lock,
					 "is held by a node that an earlier trainctl was just "
					 "starting, and that neither comes up nor ends: try again");
		clock_sleep(0.02);
	}
}

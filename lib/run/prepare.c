/* prepare: see prepare.h. Must never touch a state directory whose job runs under other values. */
#include "run/prepare.h"

#include "base/fs.h"
#include "ckpt/layout.h"
#include "model/model.h"
#include "run/parent.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *given(const char *text)
{
	return text[0] ? text : NULL;
}

/* ---- is it the same job? ---- */

/* Nodes that run are reached by their sockets, so they must be where they were. */
static int same_run_dir(const struct place *place, int running, struct error *err)
{
	char path[PLACE_MAX], *text;
	place_state(place, "run-dir", path);
	if (running && fs_read_file(path, PLACE_MAX, &text, NULL, NULL) == 0) {
		text[strcspn(text, "\n")] = '\0';
		int same = strcmp(text, place->run) == 0;
		if (!same)
			error_set(err, ERROR_CONFIG, place->run,
				  "nodes of this job run with the run directory %.200s", text);
		free(text);
		if (!same)
			return -1;
	}
	char line[PLACE_MAX];
	int n = snprintf(line, sizeof line, "%s\n", place->run);
	return fs_replace_file(path, line, (size_t)n, err);
}

static int compare(const struct job *job, const struct place *place, int running, struct error *err)
{
	char path[PLACE_MAX];
	const char *key;
	struct job old;
	place_state(place, "job.env", path);
	if (access(path, F_OK) != 0)
		return 0;
	if (job_init(&old, err) != 0)
		return -1;
	int result = job_read(&old, path, err);
	if (result == 0)
		result = job_finish(&old, path, err);
	enum job_change change = result == 0 ? job_compare(&old, job, &key) : JOB_SAME;
	job_free(&old);
	if (change == JOB_CHANGE_FRESH)
		return error_set(err, ERROR_CONFIG, place->state,
				 "holds the state of this job with another %s; --fresh starts over",
				 key);
	if (change == JOB_CHANGE_STOPPED && running)
		return error_set(err, ERROR_CONFIG, place->state,
				 "nodes of this job run with another %s; stop it first", key);
	return result;
}

/* ---- schema, dataset ---- */

static int wanted_schema(const struct job *job, struct schema **schema, struct error *err)
{
	struct schema_options options = {.format = job->format,
					 .label = given(job->label),
					 .dense = given(job->dense),
					 .sparse = given(job->sparse),
					 .weight = given(job->weight),
					 .positive = given(job->positive),
					 .negative = given(job->negative),
					 .dense_scale = job->dense_scale,
					 .hash_bits = job->hash_bits};
	return schema_new(schema, &options, err);
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

static int open_data(const struct job *job, const struct place *place, const struct schema *schema,
		     dataset_progress_fn *progress, void *arg, struct dataset **ds,
		     struct error *err)
{
	char index[PLACE_MAX];
	place_state(place, "index", index);
	struct dataset_options options = {.paths = (const char *const *)job->data.item,
					  .path_count = job->data.count,
					  .index_dir = index,
					  .bad_rows_max = job->bad_rows_max,
					  .progress = progress,
					  .progress_arg = arg};
	return dataset_open(ds, schema, &options, err);
}

static int fit(const char *path, struct schema *schema, struct dataset *ds, struct error *err)
{
	if (schema_needs_fit(schema) && schema_fit(schema, ds, err) != 0)
		return -1;
	return schema_write(schema, path, err);
}

/* ---- model, layout ---- */

static int write_model(const struct job *job, const struct place *place,
		       const struct schema *schema, uint64_t samples, struct error *err)
{
	char path[PLACE_MAX];
	struct model_spec spec;
	static struct layout layout; /* large */
	model_spec_default(&spec);
	snprintf(spec.name, sizeof spec.name, "%s", job->model);
	spec.dense_inputs = (uint32_t)schema->dense_count;
	spec.fields = (uint32_t)schema_fields(schema);
	spec.embed = (uint32_t)job->embed;
	spec.hash_bits = (uint32_t)job->hash_bits;
	spec.l2 = job->l2;
	spec.seed = job->seed;
	spec.samples = samples;
	if (job->hidden.count > MODEL_HIDDEN_MAX)
		return error_set(err, ERROR_CONFIG, "HIDDEN", "more than %d layers",
				 MODEL_HIDDEN_MAX);
	spec.hidden_count = (uint32_t)job->hidden.count;
	for (size_t i = 0; i < job->hidden.count; i++)
		spec.hidden[i] = (uint32_t)strtoul(job->hidden.item[i], NULL, 10);
	place_state(place, "model", path);
	if (model_spec_check(&spec, err) != 0 || model_spec_write(path, &spec, err) != 0)
		return -1;
	layout_start(&layout, job->seed);
	place_state(place, "layout", path);
	if (model_layout(&spec, &layout, err) != 0)
		return -1;
	return layout_write(&layout, path, err);
}

static int count_rows(const struct job *job, const struct dataset *ds, struct prepared *out,
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

static int with_schema(const struct job *job, const struct place *place, struct schema *schema,
		       int saved, dataset_progress_fn *progress, void *arg, struct prepared *out,
		       struct error *err)
{
	char path[PLACE_MAX];
	struct dataset *ds;
	place_state(place, "schema", path);
	if (open_data(job, place, schema, progress, arg, &ds, err) != 0)
		return -1;
	int result = count_rows(job, ds, out, err);
	if (result == 0 && !saved)
		result = fit(path, schema, ds, err);
	dataset_close(ds);
	return result == 0 ? write_model(job, place, schema, out->samples, err) : -1;
}

int prepare(const struct job *job, const struct place *place, int running,
	    dataset_progress_fn *progress, void *arg, struct prepared *out, struct error *err)
{
	char path[PLACE_MAX];
	struct schema *wanted = NULL, *schema = NULL;
	*out = (struct prepared){0};
	if (compare(job, place, running, err) != 0 || same_run_dir(place, running, err) != 0 ||
	    wanted_schema(job, &wanted, err) != 0)
		return -1;
	place_state(place, "schema", path);
	int saved = access(path, F_OK) == 0, result = 0;
	if (saved)
		result = saved_schema(path, wanted, &schema, err);
	if (result == 0)
		result = with_schema(job, place, saved ? schema : wanted, saved, progress, arg, out,
				     err);
	schema_free(wanted);
	schema_free(schema);
	place_state(place, "job.env", path);
	if (result == 0)
		result = job_write(job, path, err);
	if (result != 0)
		free(out->rows);
	return result;
}

/* ---- starting over ---- */

/* What workers have learnt of their speeds: predict-ID, one each. */
static int remove_models(const struct place *place, struct error *err)
{
	char dir[PLACE_MAX], path[PLACE_MAX];
	int result = 0;
	place_state(place, "", dir);
	DIR *d = opendir(dir);
	for (struct dirent *e; d && result == 0 && (e = readdir(d));) {
		if (strncmp(e->d_name, "predict-", 8) != 0)
			continue;
		place_state(place, e->d_name, path);
		result = fs_remove_tree(path, err);
	}
	if (d)
		closedir(d);
	return result;
}

/* By whatever way it is named; what is not there is in nothing. */
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

int prepare_fresh(const struct job *job, const struct place *place, struct error *err)
{
	static const char *const ours[] = {"summary",     "intent",  "nodes", "journal",
					   "checkpoints", "schema",  "model", "layout",
					   "job.env",     "job.log", "logs",  "run-dir",
					   "standing",    "spill",   "balance.log"};
	char path[PLACE_MAX];
	place_state(place, "checkpoints", path);
	if (job->init[0] && lies_in(job->init, path))
		return error_set(
			err, ERROR_CONFIG, job->init,
			"INIT is a checkpoint of the run that --fresh would remove: move it");
	if (job->predict_from[0] && lies_in(job->predict_from, place->state))
		return error_set(
			err, ERROR_CONFIG, job->predict_from,
			"PREDICT_FROM is of the run that --fresh would remove: move it");
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
		place_state(place, ours[i], path);
		if (fs_remove_tree(path, err) != 0)
			return -1;
	}
	return remove_models(place, err);
}

int prepare_running(const struct place *place, char *id)
{
	char dir[PLACE_MAX], path[PLACE_MAX + 256];
	struct node_record r;
	int running = 0;
	place_state(place, "nodes", dir);
	DIR *d = opendir(dir);
	if (!d)
		return 0;
	for (struct dirent *e; !running && (e = readdir(d));) {
		if (e->d_name[0] == '.' || strstr(e->d_name, ".lock") || strstr(e->d_name, ".tmp"))
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (node_record_read(path, &r, NULL) == 0 && node_record_running(&r)) {
			running = 1;
			snprintf(id, OPTION_ID_MAX, "%s", r.id);
		}
	}
	closedir(d);
	return running;
}

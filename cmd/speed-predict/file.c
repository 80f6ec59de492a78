/*
 * file: models of an earlier run. Records: a head, for each worker its id and its predictor, the
 * group if there is one, and `whole`, without which the file was cut off.
 */
#include "cmd/speed-predict.h"

#include "base/fs.h"
#include "predict/file.h"

#include <fcntl.h>
#include <unistd.h>

static int speed_file_put_head(const struct job *job, struct predict_file *file, struct error *err)
{
	struct record_out *o = RECORD(
		PROGRAM, F("version", 1), F("model", predict_model_name(job->config.model)),
		F("loss", job->loss), F("workers", job->now.count), F("round", job->now.round));
	return predict_file_put(o->data, record_end(o, NULL), file, err);
}

static int put_models(const struct job *job, struct predict_file *file, struct error *err)
{
	if (speed_file_put_head(job, file, err) != 0)
		return -1;
	for (size_t i = 0; i < job->now.count; i++) {
		struct worker *w = job->now.row[i];
		struct record_out *o = RECORD("worker", F("id", w->id), F("k", w->k));
		if (predict_file_put(o->data, record_end(o, NULL), file, err) != 0 ||
		    predictor_save(w->predictor, predict_file_put, file, err) != 0)
			return -1;
	}
	if (job->now.group && predict_group_save(job->now.group, predict_file_put, file, err) != 0)
		return -1;
	return predict_file_put_end(file, err);
}

static int speed_file_fill(int fd, const char *path, void *arg, struct error *err)
{
	int own = dup(fd);
	struct predict_file file = {.out = own < 0 ? NULL : fdopen(own, "w")};
	if (!file.out) {
		error_errno(err, ERROR_OS, path, "open");
		if (own >= 0)
			close(own);
		return -1;
	}
	int result = put_models(arg, &file, err);
	if (fclose(file.out) != 0 && result == 0)
		result = error_errno(err, 0, path, "write");
	return result;
}

static int speed_file_take_head(struct job *job, struct record *r, uint64_t *workers,
				struct error *err)
{
	uint64_t version;
	const char *model, *loss;
	const char *want = predict_model_name(job->config.model);
	const char *want_loss = job->loss;
	if (!record_is(r, PROGRAM))
		return error_set(err, ERROR_DATA, NULL, "this is no model file of %s", PROGRAM);
	if (record_u64(r, "version", 1, 1, &version, err) != 0 ||
	    record_text(r, "model", &model, err) != 0 || record_text(r, "loss", &loss, err) != 0 ||
	    record_u64(r, "workers", 0, PREDICT_GROUP_MAX, workers, err) != 0 ||
	    record_u64(r, "round", 0, UINT64_MAX, &job->now.round, err) != 0)
		return -1;
	if (strcmp(model, want) != 0 || strcmp(loss, want_loss) != 0)
		return error_set(err, ERROR_DATA, NULL,
				 "these are models of kind %.20s with loss %.20s, not of %s with %s",
				 model, loss, want, want_loss);
	return 0;
}

static int take_worker(struct job *job, struct record *r, struct predict_file *in,
		       struct error *err)
{
	const char *id;
	uint64_t k;
	struct worker *w;
	if (!record_is(r, "worker"))
		return error_set(err, ERROR_DATA, NULL, "a worker expected, this is '%.40s'",
				 r->type);
	if (record_id(r, "id", &id, err) != 0 ||
	    record_u64(r, "k", 0, UINT64_MAX - 1, &k, err) != 0)
		return -1;
	if (table_find(&job->now, id))
		return error_set(err, ERROR_DATA, NULL, "worker id=%s appears twice", id);
	if (table_add(&job->now, id, &w, err) != 0)
		return -1;
	w->k = k;
	if (predict_file_take(r, in, err) != 0)
		return -1;
	if (!record_is(r, "model"))
		return error_set(err, ERROR_DATA, NULL, "a model expected, this is '%.40s'",
				 r->type);
	if (predictor_load(&w->predictor, r, predict_file_take, in, err) != 0)
		return -1;
	w->samples = predictor_count(w->predictor);
	return 0;
}

static int speed_file_take_group(struct job *job, struct record *r, struct predict_file *in,
				 struct error *err)
{
	if (predict_file_take(r, in, err) != 0)
		return -1;
	if (!record_is(r, "group"))
		return error_set(err, ERROR_DATA, NULL, "a group expected, this is '%.40s'",
				 r->type);
	if (predict_group_load(&job->now.group, r, predict_file_take, in, err) != 0)
		return -1;
	if (predict_group_count(job->now.group) != job->now.count)
		return error_set(err, ERROR_DATA, NULL, "the group is not of the workers before");
	return 0;
}

static int take_models(struct job *job, struct predict_file *in, struct record *r,
		       struct error *err)
{
	uint64_t workers;
	if (predict_file_take(r, in, err) != 0 || speed_file_take_head(job, r, &workers, err) != 0)
		return -1;
	for (uint64_t i = 0; i < workers; i++)
		if (predict_file_take(r, in, err) != 0 || take_worker(job, r, in, err) != 0)
			return -1;
	if (job->grouped && speed_file_take_group(job, r, in, err) != 0)
		return -1;
	return predict_file_take_end(in, r, err);
}

int file_load(struct job *job, const char *path, struct error *err)
{
	static struct record r;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	struct predict_file file = {.in = record_reader_new(fd, path)};
	int result = file.in ? take_models(job, &file, &r, err)
			     : error_set(err, ERROR_OS, NULL, "out of memory");
	if (result != 0 && file.in && !err->place[0])
		error_wrap(err, record_reader_place(file.in));
	record_reader_free(file.in);
	close(fd);
	return result;
}

int file_save(struct job *job, const char *path, struct error *err)
{
	return fs_replace(path, 0644, speed_file_fill, job, err);
}

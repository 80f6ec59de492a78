/* file: see file.h. */
#include "predict/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* One record's bytes, added to those before. */
static void predict_file_add(struct predict_file *f, const char *line, size_t len)
{
	f->sum = XXH3_64bits_withSeed(line, len, f->sum);
}

int predict_file_put(const char *line, size_t len, void *file, struct error *err)
{
	struct predict_file *f = file;
	predict_file_add(f, line, len);
	if (fwrite(line, 1, len, f->out) == len)
		return 0;
	return error_errno(err, 0, NULL, "write");
}

static int next_record(struct predict_file *f, struct record *r, struct error *err)
{
	int got = record_read(f->in, r, err);
	if (got == RECORD_ONE)
		return 0;
	if (got < 0)
		return -1;
	return error_set(err, ERROR_DATA, NULL,
			 got == RECORD_END ? "the model file ends here, in mid-model"
					   : "an empty line in a model file");
}

/* As it was written: the reader keeps a record's parts only. */
static void add_record(struct predict_file *f, const struct record *r)
{
	struct record_out *o = RECORD_BARE(r->type);
	for (size_t i = 0; i < r->count; i++)
		record_add(o, r->field[i].key, r->field[i].value);
	predict_file_add(f, o->data, record_end(o, r->text));
}

int predict_file_take(struct record *r, void *file, struct error *err)
{
	if (next_record(file, r, err) != 0)
		return -1;
	add_record(file, r);
	return 0;
}

static void sum_text(const struct predict_file *f, char text[17])
{
	snprintf(text, 17, "%016" PRIx64, f->sum);
}

int predict_file_put_end(struct predict_file *f, struct error *err)
{
	char sum[17];
	sum_text(f, sum);
	struct record_out *o = RECORD("whole", F("sum", sum));
	return predict_file_put(o->data, record_end(o, NULL), f, err);
}

int predict_file_take_end(struct predict_file *f, struct record *r, struct error *err)
{
	const char *said;
	char sum[17];
	sum_text(f, sum);
	if (next_record(f, r, err) != 0)
		return -1;
	if (!record_is(r, "whole"))
		return error_set(err, ERROR_DATA, NULL, "the file's last record expected, not '%.40s'",
				 r->type);
	if (record_text(r, "sum", &said, err) != 0)
		return -1;
	if (strcmp(said, sum) != 0)
		return error_set(err, ERROR_DATA, NULL,
				 "the file is damaged: its checksum is %s, not '%.40s'", sum, said);
	int got = record_read(f->in, r, err);
	if (got == RECORD_END)
		return 0;
	return got < 0 ? -1 : error_set(err, ERROR_DATA, NULL, "the file goes on behind its end");
}

/* ---- a file with one predictor ---- */

static int take_one(struct predictor **out, struct predict_file *in, enum predict_model model,
		    struct error *err)
{
	const char *want = predict_model_name(model), *kind = NULL;
	struct predictor *saved = NULL;
	struct record *r = malloc(sizeof *r);
	int result = r ? predict_file_take(r, in, err)
		       : error_set(err, ERROR_OS, NULL, "out of memory");
	if (result == 0 && (!record_is(r, "model") || !(kind = record_get(r, "kind"))))
		result = error_set(err, ERROR_DATA, NULL,
				   "this is no model of one worker, as in predict-ID of a job's STATE");
	if (result == 0 && strcmp(kind, want) != 0)
		result = error_set(err, ERROR_DATA, NULL, "a model of kind %.20s, not %s", kind,
				   want);
	if (result == 0)
		result = predictor_load(&saved, r, predict_file_take, in, err);
	if (result == 0)
		result = predict_file_take_end(in, r, err);
	if (result == 0)
		result = predictor_reuse(out, saved, err);
	predictor_free(saved);
	free(r);
	return result;
}

int predict_file_load(struct predictor **out, const char *path, enum predict_model model,
		      struct error *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
	if (fd < 0)
		return error_errno(err, 0, path, "open");
	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
		close(fd);
		return error_set(err, ERROR_DATA, path, "no regular file");
	}
	struct predict_file file = {.in = record_reader_new(fd, path)};
	struct record_reader *in = file.in;
	int result = in ? take_one(out, &file, model, err)
			: error_set(err, ERROR_OS, "", "out of memory");
	/* The reader says where by itself: the file, mostly with the line. */
	if (result != 0 && in && strcmp(err->place, path) != 0 &&
	    strcmp(err->place, record_reader_place(in)) != 0)
		error_wrap(err, record_reader_place(in));
	record_reader_free(in);
	close(fd);
	return result;
}

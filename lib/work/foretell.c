/* foretell: see foretell.h. Called by the trainer's thread only. */
#include "work/foretell.h"

#include "base/log.h"
#include "predict/file.h"
#include "meter/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEEP_SECONDS 30.0 /* between writings */
#define PATH_ROOM 4096
#define WATCHED 0.25 /* of a batch: the load that the next one begins with */

struct foretell {
	struct predictor *predictor; /* NULL: none */
	struct watch *watch;
	const char *save;
	double kept; /* when; NAN: not yet */
	double speed, mem;
};

/* ---- the file ---- */

static int take_model(struct predictor **out, struct predict_file *in,
		      const struct foretell_options *o, struct error *err)
{
	const char *want = predict_model_name(o->model), *kind;
	struct predictor *saved = NULL;
	struct record *r = malloc(sizeof *r);
	int result = r ? predict_file_take(r, in, err) : error_set(err, ERROR_OS, NULL, "no memory");
	if (result == 0 && (!record_is(r, "model") || !(kind = record_get(r, "kind"))))
		result = error_set(err, ERROR_DATA, NULL, "this is no model");
	if (result == 0 && strcmp(kind, want) != 0)
		result = error_set(err, ERROR_DATA, NULL, "a model of kind %.20s, not %s", kind,
				   want);
	if (result == 0)
		result = predictor_load(&saved, r, predict_file_take, in, err);
	if (result == 0)
		result = predict_file_take_end(in, r, err);
	if (result == 0) /* this run may be on another node */
		result = predictor_reuse(out, saved, err);
	predictor_free(saved);
	free(r);
	return result;
}

static int load_model(struct predictor **out, const struct foretell_options *o, struct error *err)
{
	struct stat st;
	int fd = open(o->load, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, 0, o->load, "open");
	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
		close(fd);
		return error_set(err, ERROR_DATA, o->load, "no regular file");
	}
	struct predict_file file = {.in = record_reader_new(fd, o->load)};
	struct record_reader *in = file.in;
	int result = in ? take_model(out, &file, o, err) : error_set(err, ERROR_OS, "", "no memory");
	/* The reader says where by itself: the file, mostly with the line. */
	if (result != 0 && in && strcmp(err->place, o->load) != 0 &&
	    strcmp(err->place, record_reader_place(in)) != 0)
		error_wrap(err, record_reader_place(in));
	record_reader_free(in);
	close(fd);
	return result;
}

static int save_model(struct foretell *f, struct error *err)
{
	char path[PATH_ROOM];
	if (snprintf(path, sizeof path, "%s.new", f->save) >= (int)sizeof path)
		return error_set(err, ERROR_CANTCREAT, f->save, "too long");
	struct predict_file file = {.out = fopen(path, "we")};
	if (!file.out)
		return error_errno(err, ERROR_CANTCREAT, path, "open");
	int result = predictor_save(f->predictor, predict_file_put, &file, err);
	if (result == 0)
		result = predict_file_put_end(&file, err);
	if (fclose(file.out) != 0 && result == 0)
		result = error_errno(err, 0, path, "write");
	if (result == 0 && rename(path, f->save) != 0)
		result = error_errno(err, 0, f->save, "rename");
	if (result != 0)
		unlink(path);
	return result;
}

void foretell_keep(struct foretell *f, double now)
{
	struct error err = {0};
	if (!f->save || !f->predictor || predictor_count(f->predictor) == 0)
		return;
	if (!isnan(now)) {
		if (isnan(f->kept))
			f->kept = now;
		if (now < f->kept + KEEP_SECONDS)
			return;
		f->kept = now;
	}
	if (save_model(f, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "a model is not kept: %s: %s", err.place, err.text);
}

/* ---- speeds ---- */

int foretell_new(struct foretell **out, const struct foretell_options *options, struct error *err)
{
	struct predict_config config;
	struct error why = {0};
	struct foretell *f = calloc(1, sizeof *f);
	if (!f)
		return error_set(err, ERROR_OS, "", "no memory");
	f->save = options->save;
	f->kept = NAN;
	int result = watch_new(&f->watch, options->load_root, options->predict, err);
	if (result == 0 && options->predict && options->load &&
	    load_model(&f->predictor, options, &why) != 0)
		log_say(LOG_LEVEL_WARNING, "speeds are learnt anew: %s: %s", why.place, why.text);
	if (result == 0 && options->predict && !f->predictor) {
		predict_config_init(&config, options->model);
		result = predictor_new(&f->predictor, &config, err);
	}
	if (result != 0) {
		foretell_free(f);
		return -1;
	}
	if (f->predictor)
		predictor_predict(f->predictor, NAN, NAN);
	*out = f;
	return 0;
}

void foretell_free(struct foretell *f)
{
	if (!f)
		return;
	predictor_free(f->predictor);
	watch_free(f->watch);
	free(f);
}

void foretell_batch(struct foretell *f, uint64_t samples, double seconds, double now)
{
	struct load_values load;
	double speed = seconds > 0 ? (double)samples / seconds : 0;
	watch_look(f->watch, now, &load);
	watch_seconds(f->watch, seconds * WATCHED);
	f->mem = load.mem > 0 ? fmin(load.mem, 1) : 0; /* NAN: 0 */
	if (!f->predictor)
		return;
	if (speed >= PREDICT_SPEED_MIN && speed <= PREDICT_SPEED_MAX)
		predictor_observe(f->predictor, speed);
	speed = predictor_predict(f->predictor, load.cpu, load.mem);
	f->speed = speed >= PREDICT_SPEED_MIN && speed <= PREDICT_SPEED_MAX ? speed : 0;
}

double foretell_speed(const struct foretell *f)
{
	return f->speed;
}

double foretell_mem(const struct foretell *f)
{
	return f->mem;
}

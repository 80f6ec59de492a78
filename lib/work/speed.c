/* speed: see speed.h. */
#include "work/speed.h"

#include "base/log.h"
#include "predict/file.h"
#include "work/exchange.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEEP_SECONDS 30.0 /* between writings */
#define PATH_ROOM 4096

struct speed {
	struct predictor *predictor;
	const char *save;
	double kept; /* when the file was last written; NAN: not yet */
	double next;
};

/* ---- the file ---- */

static int save_model(struct speed *s, struct error *err)
{
	char path[PATH_ROOM];
	if (snprintf(path, sizeof path, "%s.new", s->save) >= (int)sizeof path)
		return error_set(err, ERROR_CANTCREAT, s->save, "too long");
	struct predict_file file = {.out = fopen(path, "we")};
	if (!file.out)
		return error_errno(err, ERROR_CANTCREAT, path, "open");
	int result = predictor_save(s->predictor, predict_file_put, &file, err);
	if (result == 0)
		result = predict_file_put_end(&file, err);
	if (fclose(file.out) != 0 && result == 0)
		result = error_errno(err, 0, path, "write");
	if (result == 0 && rename(path, s->save) != 0)
		result = error_errno(err, 0, s->save, "rename");
	if (result != 0)
		unlink(path);
	return result;
}

void speed_keep(struct speed *s, double now)
{
	struct error err = {0};
	if (!s || !s->save || predictor_count(s->predictor) == 0)
		return;
	if (!isnan(now)) {
		if (isnan(s->kept))
			s->kept = now;
		if (now < s->kept + KEEP_SECONDS)
			return;
		s->kept = now;
	}
	if (save_model(s, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "what was learnt about speeds is not saved: %s: %s", err.place, err.text);
}

/* ---- speeds ---- */

int speed_new(struct speed **out, const struct speed_options *options, struct error *err)
{
	struct predict_config config;
	struct error why = {0};
	struct speed *s = calloc(1, sizeof *s);
	if (!s)
		return error_set(err, ERROR_OS, "", "out of memory");
	s->save = options->save;
	s->kept = NAN;
	if (options->load && access(options->load, F_OK) == 0 &&
	    predict_file_load(&s->predictor, options->load, options->model, &why) != 0)
		log_say(LOG_LEVEL_WARNING, "speeds are learnt from nothing: %s: %s", why.place, why.text);
	predict_config_init(&config, options->model);
	if (!s->predictor && predictor_new(&s->predictor, &config, err) != 0) {
		speed_free(s);
		return -1;
	}
	predictor_predict(s->predictor, NAN, NAN);
	*out = s;
	return 0;
}

void speed_free(struct speed *s)
{
	if (!s)
		return;
	predictor_free(s->predictor);
	free(s);
}

void speed_foretell(struct speed *s, struct meter *m, uint64_t samples, struct exchange_push *push)
{
	struct load_values load;
	double speed = push->time > 0 ? (double)samples / push->time : 0;
	meter_look(m, push->time, &load);
	push->mem = fmax(push->mem, load.mem > 0 ? fmin(load.mem, 1) : 0); /* NAN: 0 */
	if (s)
		s->next = push->speed = predictor_next(s->predictor, speed, load.cpu, load.mem);
}

double speed_next(const struct speed *s)
{
	return s ? s->next : 0;
}

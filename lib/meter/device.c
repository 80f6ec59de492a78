/* device: see device.h. */
#include "meter/device.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"

#include <ctype.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZES_MAX 32
#define REPEATS_MIN 3
#define REPEATS_MAX 100
#define SIZE_SECONDS 0.002   /* a short step is repeated for this long */
#define STEP_SECONDS_LONG 0.1 /* a step as long as this is not repeated a third time */
#define SECONDS_ENOUGH 1.0   /* no larger sizes are tried after that, when a line can be seen */
#define SECONDS_MOST 10.0    /* nor after that at all */
#define ABOVE_ENOUGH 3       /* sizes above saturation */

struct bench {
	const struct device_options *options;
	struct drag drag;
	uint64_t size;       /* of the steps now */
	double sample_bytes; /* at least */
	double began;
	uint64_t resident, left; /* bytes before the first step: in memory; that the card has left */
	uint64_t full;           /* samples that do not fit the card; 0: all did */
};

/* ---- memory ---- */

/* Bytes of this process that are in memory; 0: not known. */
static uint64_t resident_bytes(void)
{
	char text[128];
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[len < 0 ? 0 : len] = '\0';
	char *resident = strchr(text, ' ');
	return resident ? strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint64_t card_left(const struct bench *b)
{
	return b->options->left ? b->options->left(b->options->owner) : 0;
}

/* Memory left over bytes a sample. */
static double node_fits(const struct bench *b)
{
	uint64_t left = load_memory_left(b->options->load), now = resident_bytes();
	double each = b->sample_bytes, measured = 0;
	if (now > b->resident)
		measured = (double)(now - b->resident) / (double)b->size;
	return left > 0 ? (double)left / (measured > each ? measured : each) : (double)b->size;
}

/* The same of a card, which has the last size in its memory. */
static double card_fits(const struct bench *b)
{
	uint64_t left = card_left(b);
	double most = (double)b->size, full = (double)b->full;
	if (b->left > left)
		most += (double)left / ((double)(b->left - left) / (double)b->size);
	return b->full > 0 && most >= full ? full - 1 : most;
}

double device_samples(double full)
{
	return fmax(full * DEVICE_MEMORY_PART, 1);
}

/* Samples that fit; the drag may say it. */
static uint64_t samples_that_fit(const struct bench *b)
{
	double most = (double)b->drag.memory, limit = (double)b->options->most;
	if (b->drag.memory == 0)
		most = node_fits(b);
	if (b->options->left)
		most = fmin(most, card_fits(b));
	most = device_samples(most);
	return most < limit ? (uint64_t)most : b->options->most;
}

/* ---- a step ---- */

static int device_stopped(const struct bench *b)
{
	return b->options->stop && *b->options->stop;
}

static int time_step(struct bench *b, double *seconds, struct error *err)
{
	double began = clock_mono(), until, left;
	int result = b->options->step(b->options->owner, err);
	if (result > 0)
		b->full = b->size;
	if (result != 0)
		return result;
	until = clock_mono();
	until += drag_pause(&b->drag, b->size, b->size, until - began);
	while ((left = until - clock_mono()) > 0 && !device_stopped(b))
		clock_sleep(left);
	*seconds = clock_mono() - began;
	return 0;
}

/* The shortest of a few: what is longer was disturbed. 1: it does not fit, or *stop is set. */
static int time_size(struct bench *b, struct profile_point *p, struct error *err)
{
	double began = clock_mono(), seconds;
	p->seconds = 0;
	b->size = p->size;
	if (b->options->prepare(b->options->owner, p->size, &b->sample_bytes, err) != 0)
		return -1;
	for (int n = 0; n < REPEATS_MAX; n++) {
		if (n >= REPEATS_MIN && clock_mono() - began > SIZE_SECONDS)
			break;
		if (n == REPEATS_MIN - 1 && p->seconds > STEP_SECONDS_LONG)
			break;
		if (device_stopped(b))
			return 1;
		int result = time_step(b, &seconds, err);
		if (result != 0)
			return result;
		if (n == 0 || seconds < p->seconds)
			p->seconds = seconds;
	}
	if (!(p->seconds > 0))
		p->seconds = 1e-9; /* a clock that stands still: no step is that short */
	return 0;
}

/* ---- all of them ---- */

static int device_enough(const struct bench *b, const struct profile_point *p, size_t count)
{
	double spent = clock_mono() - b->began;
	return spent > SECONDS_MOST ||
	       (spent > SECONDS_ENOUGH && count >= profile_flat(p, count) + ABOVE_ENOUGH);
}

static int device_measure_sizes(struct bench *b, struct device *d, struct error *err)
{
	struct profile_point p[SIZES_MAX];
	uint64_t most = b->options->size_max;
	size_t count = 0;
	b->resident = resident_bytes();
	d->left = b->left = card_left(b);
	if (b->drag.memory > 0 && most > b->drag.memory)
		most = b->drag.memory;
	/* The largest may be no power of two: where it is little more than what saturates the device, nothing
	 * else tells a launch from the samples. */
	for (uint64_t size = 1; count < SIZES_MAX; size = size < most / 2 ? 2 * size : most) {
		p[count].size = size;
		int result = time_size(b, &p[count], err);
		if (result > 0 && b->full > 0 && count > 0)
			break;
		if (result != 0)
			return result;
		if (device_enough(b, p, ++count) || size == most)
			break;
	}
	b->size = p[count - 1].size;
	profile_fit(p, count, &d->profile);
	d->max = samples_that_fit(b);
	return 0;
}

/* Letters, digits and .-_ of a name; runs of others become one dash. */
static void make_id(const char *name, char *out)
{
	size_t len = 0;
	for (; *name && *name != '\n' && len < OPTION_ID_MAX - 1; name++) {
		if (isalnum((unsigned char)*name) || *name == '.' || *name == '_')
			out[len++] = *name;
		else if (len > 0 && out[len - 1] != '-')
			out[len++] = '-';
	}
	while (len > 0 && out[len - 1] == '-')
		len--;
	out[len] = '\0';
}

static void name_processor(char *type)
{
	char text[4096];
	int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[len < 0 ? 0 : len] = '\0';
	const char *line = strstr(text, "model name"), *name = line ? strchr(line, ':') : NULL;
	make_id(name ? name + 1 : "", type);
}

/* ---- kept ---- */

void device_put(const struct device *d, struct record_out *o)
{
	record_add(o, "type", d->type);
	record_add_brief(o, "launch", d->profile.launch);
	record_add_brief(o, "speed", d->profile.speed);
	record_add_u64(o, "saturation", d->profile.saturation);
	record_add_u64(o, "max", d->max);
}

int device_keep(const struct device *d, const struct device_file *keep, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof(line), "device");
	device_put(d, &o);
	record_add_u64(&o, "left", d->left);
	record_add_u64(&o, "model", keep->model);
	return fs_replace_for_now(keep->path, line, record_end(&o, NULL), err);
}

int device_recall(struct device *d, const struct device_file *keep, uint64_t most)
{
	const char *type;
	struct record r;
	char *text;
	size_t len;
	uint64_t model;
	if (!keep->path || fs_read_file(keep->path, RECORD_LINE_MAX, &text, &len, NULL) != 0)
		return 0;
	int is_it = record_first(&r, text, len, NULL) == 0 && record_is(&r, "device") &&
		    record_text(&r, "type", &type, NULL) == 0 && strcmp(type, d->type) == 0 &&
		    record_u64(&r, "model", 0, UINT64_MAX, &model, NULL) == 0 &&
		    model == keep->model &&
		    record_real(&r, "launch", 0, 1e9, &d->profile.launch, NULL) == 0 &&
		    record_real(&r, "speed", 0, 1e18, &d->profile.speed, NULL) == 0 &&
		    record_u64(&r, "saturation", 1, most, &d->profile.saturation, NULL) == 0 &&
		    record_u64(&r, "max", 1, most, &d->max, NULL) == 0 &&
		    record_u64(&r, "left", 0, UINT64_MAX, &d->left, NULL) == 0;
	free(text);
	return is_it;
}

void device_name(struct device *d, const char *name)
{
	if (name)
		make_id(name, d->type);
	else
		name_processor(d->type);
	if (!option_id_ok(d->type))
		strcpy(d->type, "cpu");
}

/* A card of which others had more then is measured anew: it holds more now. */
static int device_kept(struct device *d, const struct bench *b)
{
	const struct device_options *options = b->options;
	return device_recall(d, &options->keep, options->most) && d->profile.speed > 0 &&
	       card_left(b) <= d->left + d->left / 8;
}

int device_measure(struct device *d, const struct device_options *options, struct error *err)
{
	struct bench b = {.options = options, .drag = *options->drag, .began = clock_mono()};
	b.drag.delay = 0;
	device_name(d, b.drag.type[0] ? b.drag.type : options->name);
	if (device_kept(d, &b))
		return 0;
	int result = device_measure_sizes(&b, d, err);
	struct error why;
	if (result == 0 && options->keep.path && device_keep(d, &options->keep, &why) != 0)
		log_say(LOG_LEVEL_WARNING, "what was measured of the device is not kept: %s: %s",
			why.place, why.text);
	return result;
}

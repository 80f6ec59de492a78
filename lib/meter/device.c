/* device: see device.h. */
#include "meter/device.h"

#include "base/clock.h"

#include <ctype.h>
#include <fcntl.h>
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

/* Samples that fit: the drag says so, or memory left over bytes a sample. */
static uint64_t samples_that_fit(const struct bench *b, uint64_t before, uint64_t after)
{
	uint64_t left = load_memory_left(b->options->load);
	double most = (double)b->drag.memory, limit = (double)b->options->most;
	if (b->drag.memory == 0) {
		double each = b->sample_bytes, measured = 0;
		if (after > before)
			measured = (double)(after - before) / (double)b->size;
		most = left > 0 ? (double)left / (measured > each ? measured : each)
				: (double)b->size;
	}
	most *= DEVICE_MEMORY_PART;
	return most < 1 ? 1 : most < limit ? (uint64_t)most : b->options->most;
}

/* ---- a step ---- */

static int device_stopped(const struct bench *b)
{
	return b->options->stop && *b->options->stop;
}

static int time_step(struct bench *b, double *seconds, struct error *err)
{
	double began = clock_mono(), until, left;
	if (b->options->step(b->options->owner, err) != 0)
		return -1;
	until = clock_mono();
	until += drag_pause(&b->drag, b->size, b->size, until - began);
	while ((left = until - clock_mono()) > 0 && !device_stopped(b))
		clock_sleep(left);
	*seconds = clock_mono() - began;
	return 0;
}

/* The shortest of a few: what is longer was disturbed. */
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
		if (time_step(b, &seconds, err) != 0)
			return -1;
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
	uint64_t most = b->options->size_max, before = resident_bytes();
	size_t count = 0;
	if (b->drag.memory > 0 && most > b->drag.memory)
		most = b->drag.memory;
	for (uint64_t size = 1; size <= most && count < SIZES_MAX; size *= 2) {
		p[count].size = size;
		int result = time_size(b, &p[count], err);
		if (result != 0)
			return result;
		if (device_enough(b, p, ++count))
			break;
	}
	profile_fit(p, count, &d->profile);
	d->max = samples_that_fit(b, before, resident_bytes());
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

int device_measure(struct device *d, const struct device_options *options, struct error *err)
{
	struct bench b = {.options = options, .drag = *options->drag, .began = clock_mono()};
	b.drag.delay = 0;
	if (b.drag.type[0])
		make_id(b.drag.type, d->type);
	else if (options->name)
		make_id(options->name, d->type);
	else
		name_processor(d->type);
	if (!option_id_ok(d->type))
		strcpy(d->type, "cpu");
	return device_measure_sizes(&b, d, err);
}

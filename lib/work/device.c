/* device: see device.h. Must not touch a parameter of the job: its own are zero and its own. */
#include "work/device.h"

#include "base/clock.h"
#include "base/option.h"
#include "work/batch.h"
#include "work/result.h"

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
	struct rows rows;
	struct batch batch;
	struct map map;
	float *dense, *dense_gradient, *row, *row_gradient;
	size_t row_room;
	struct drag drag;
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

/* What a sample takes at least, whatever the allocator did: its own numbers, and the rows that its
 * keys name with their gradients. */
static double sample_bytes_min(const struct bench *b)
{
	double keys = (double)b->batch.offset[b->batch.count] / (double)b->batch.count;
	return (double)(b->batch.dense_columns + 2) * sizeof(float) +
	       keys * (3 * sizeof(uint32_t) +
		       2 * sizeof(float) * (double)model_width(b->options->spec));
}

/* Samples that fit: the drag says so, or memory left over bytes a sample. */
static uint64_t samples_that_fit(const struct bench *b, uint64_t before, uint64_t after)
{
	uint64_t left = load_memory_left(b->options->load);
	double most = (double)b->drag.memory;
	if (b->drag.memory == 0) {
		double each = sample_bytes_min(b), measured = 0;
		if (after > before)
			measured = (double)(after - before) / (double)b->batch.count;
		most = left > 0 ? (double)left / (measured > each ? measured : each)
				: (double)b->batch.count;
	}
	most *= DEVICE_MEMORY_PART;
	return most < 1 ? 1 : most < NODE_BATCH_MAX ? (uint64_t)most : NODE_BATCH_MAX;
}

/* ---- a step ---- */

/* Keys of the first `size` rows; few rows are used again and again. */
static size_t count_keys(const struct rows *rows, uint64_t size)
{
	return (size_t)(size / rows->count) * rows->offset[rows->count] +
	       rows->offset[size % rows->count];
}

static int fill_batch(struct bench *b, uint64_t size, struct error *err)
{
	const struct device_options *o = b->options;
	const struct rows *rows = &b->rows;
	int audit = model_keys_are_rows(o->spec);
	uint64_t key_count = audit ? o->spec->samples : (uint64_t)1 << o->spec->hash_bits;
	batch_start(&b->batch, audit ? 0 : rows->dense_columns, !audit && rows->value != NULL);
	if (batch_reserve(&b->batch, (size_t)size, audit ? (size_t)size : count_keys(rows, size),
			  err) < 0)
		return -1;
	for (uint64_t i = 0; i < size; i++)
		batch_add_sample(&b->batch, rows, (size_t)(i % rows->count), audit);
	map_even(&b->map, 1, 0);
	return batch_finish(&b->batch, &b->map, key_count, err);
}

static int make_parameters(struct bench *b, struct error *err)
{
	size_t dense = model_dense_count(b->options->spec);
	size_t rows = b->batch.unique * model_width(b->options->spec);
	if (!b->dense) {
		b->dense = calloc(dense + 1, sizeof(float));
		b->dense_gradient = calloc(dense + 1, sizeof(float));
	}
	if (rows >= b->row_room) {
		free(b->row);
		free(b->row_gradient);
		b->row_room = rows + 1;
		b->row = calloc(b->row_room, sizeof(float));
		b->row_gradient = calloc(b->row_room, sizeof(float));
	}
	if (!b->dense || !b->dense_gradient || !b->row || !b->row_gradient)
		return error_set(err, ERROR_OS, "", "no memory to measure the device");
	return 0;
}

static int stopped(const struct bench *b)
{
	return b->options->stop && *b->options->stop;
}

static int time_step(struct bench *b, uint64_t size, double *seconds, struct error *err)
{
	double loss = 0, began = clock_mono(), until, left;
	struct model_batch all = batch_slice(&b->batch, 0, b->batch.count,
					     b->options->unit_weights);
	if (model_train(b->options->model, &all, b->dense, b->row, b->dense_gradient,
			b->row_gradient, &loss, err) < 0)
		return -1;
	double trained = clock_mono();
	until = trained + drag_pause(&b->drag, size, size, trained - began);
	while ((left = until - clock_mono()) > 0 && !stopped(b))
		clock_sleep(left);
	*seconds = clock_mono() - began;
	return 0;
}

/* The shortest of a few: what is longer was disturbed. */
static int time_size(struct bench *b, struct profile_point *p, struct error *err)
{
	double began = clock_mono(), seconds;
	p->seconds = 0;
	if (fill_batch(b, p->size, err) < 0 || make_parameters(b, err) < 0)
		return -1;
	for (int n = 0; n < REPEATS_MAX; n++) {
		if (n >= REPEATS_MIN && clock_mono() - began > SIZE_SECONDS)
			break;
		if (n == REPEATS_MIN - 1 && p->seconds > STEP_SECONDS_LONG)
			break;
		if (stopped(b))
			return WORK_STOP;
		if (time_step(b, p->size, &seconds, err) < 0)
			return -1;
		if (n == 0 || seconds < p->seconds)
			p->seconds = seconds;
	}
	if (!(p->seconds > 0))
		p->seconds = 1e-9; /* a clock that stands still: no step is that short */
	return WORK_OK;
}

/* ---- all of them ---- */

static int enough(const struct bench *b, const struct profile_point *p, size_t count)
{
	double spent = clock_mono() - b->began;
	return spent > SECONDS_MOST ||
	       (spent > SECONDS_ENOUGH && count >= profile_flat(p, count) + ABOVE_ENOUGH);
}

static int measure(struct bench *b, struct device *d, struct error *err)
{
	struct profile_point p[SIZES_MAX];
	uint64_t most = b->options->size_max, before = resident_bytes();
	size_t count = 0;
	if (b->drag.memory > 0 && most > b->drag.memory)
		most = b->drag.memory;
	for (uint64_t size = 1; size <= most && count < SIZES_MAX; size *= 2) {
		p[count].size = size;
		int result = time_size(b, &p[count], err);
		if (result != WORK_OK)
			return result;
		if (enough(b, p, ++count))
			break;
	}
	profile_fit(p, count, &d->profile);
	d->max = samples_that_fit(b, before, resident_bytes());
	return WORK_OK;
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
	struct bench b = {.options = options, .began = clock_mono()};
	uint64_t rows = dataset_rows(options->dataset);
	b.drag = *drag_look(options->drag);
	b.drag.delay = 0;
	if (b.drag.type[0])
		make_id(b.drag.type, d->type);
	else if (options->name)
		make_id(options->name, d->type);
	else
		name_processor(d->type);
	if (!option_id_ok(d->type))
		strcpy(d->type, "cpu");
	int result = dataset_read(options->dataset, 0,
				  rows < options->size_max ? rows : options->size_max, &b.rows, err);
	if (result == 0 && b.rows.count == 0)
		result = error_set(err, ERROR_DATA, "", "no row to measure the device with");
	if (result == 0)
		result = measure(&b, d, err);
	rows_free(&b.rows);
	batch_free(&b.batch);
	free(b.dense);
	free(b.dense_gradient);
	free(b.row);
	free(b.row_gradient);
	return result;
}

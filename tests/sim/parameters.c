/* parameters: see parameters.h. */
#include "tests/sim/parameters.h"

#include "tests/sim/kernel.h"

#include "base/clock.h"
#include "base/fs.h"
#include "ckpt/ckpt.h"
#include "data/dataset.h"
#include "data/schema.h"
#include "model/model.h"
#include "param/layout.h"
#include "work/trainer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS_MAX 4096
#define WORKERS_MAX 8
#define SERVERS_MAX 8

/* ---- before it begins ---- */

static void put_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	struct error err;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (fs_replace_file(path, text, strlen(text), &err) != 0)
		sim_fail("%s: %s", err.place, err.text);
}

void parameters_prepare(const char *state, uint64_t rows)
{
	static char data[16 * ROWS_MAX];
	char text[400];
	size_t len = (size_t)snprintf(data, sizeof data, "y,a,b\n");
	for (uint64_t i = 0; i < rows; i++)
		len += (size_t)snprintf(data + len, sizeof data - len, "%d,%d,%d\n", (int)i % 2, (int)i, (int)i % 7);
	put_file("/data", strrchr(PARAMETERS_DATA, '/') + 1, data);
	put_file(state, "schema", "schema version=1 format=csv label=y scale=none\ndense name=a\nsparse name=b\nend\n");
	snprintf(text, sizeof text,
		 "model version=1 name=audit dense-inputs=1 fields=1 embed=1 hidden= hash-bits=20 l2=0 seed=1 samples=%d counts=1\n",
		 (int)rows);
	put_file(state, "model", text);
	snprintf(text, sizeof text,
		 "layout version=1 seed=1\n"
		 "tensor name=counts rows=%d cols=1 init=zero scale=0 update=add\n"
		 "table name=audit width=1 rows=%d zero-columns=1 scale=0 update=add export=dense\n",
		 (int)rows, (int)rows);
	put_file(state, "layout", text);
}

/* ---- a worker ---- */

/* What is one for each process elsewhere. */
static struct stopped {
	pid_t pid;
	volatile int stop, spent_wanted;
} stopped[WORKERS_MAX];

static void worker_on_stop(int number)
{
	(void)number;
	for (int i = 0; i < WORKERS_MAX; i++)
		if (stopped[i].pid == getpid())
			stopped[i].stop = 1;
}

int __real_model_train(struct model *m, const struct model_batch *batch, const float *dense, const float *rows,
		       float *dense_gradient, float *row_gradient, double *loss_sum, struct error *err);
int __wrap_model_train(struct model *m, const struct model_batch *batch, const float *dense, const float *rows,
		       float *dense_gradient, float *row_gradient, double *loss_sum, struct error *err);
int __wrap_model_train(struct model *m, const struct model_batch *batch, const float *dense, const float *rows,
		       float *dense_gradient, float *row_gradient, double *loss_sum, struct error *err)
{
	clock_sleep((double)sim_random(1000) / 1000); /* it takes time */
	return __real_model_train(m, batch, dense, rows, dense_gradient, row_gradient, loss_sum, err);
}

static int train(struct trainer_options *o, const char *schema_path, struct error *err)
{
	const char *data_path = PARAMETERS_DATA;
	const struct dataset_options data_options = {.paths = &data_path, .path_count = 1, .index_dir = o->index_dir};
	struct schema *schema;
	struct dataset *data;
	struct model_spec spec;
	struct trainer *t;
	if (schema_read(&schema, schema_path, err) != 0 || dataset_open(&data, schema, &data_options, err) != 0 ||
	    model_spec_read(o->model_path, &spec, err) != 0)
		return -1;
	o->dataset = data;
	o->spec = &spec;
	int result = trainer_new(&t, o, err);
	if (result == 0)
		result = trainer_run(t, err);
	trainer_free(t);
	dataset_close(data);
	schema_free(schema);
	return result;
}

int parameters_worker(int argc, char **argv)
{
	const char *servers[SERVERS_MAX], *schema = "", *named = "", *batch = "1", *ahead = "1", *wait = "60", *answer = "600",
		   *delay = "0";
	struct trainer_options o = {.meter = {.load_root = "", .report_every = 5, .report_seconds = 1},
				    .device = {.name = "cpu"},
				    .unit_weights = 1,
				    .servers = servers};
	const struct {
		const char *name, **value;
	} options[] = {{"--id", &o.meter.id}, {"--shards", &o.shards}, {"--lead", &o.lead}, {"--monitor", &o.meter.monitor},
		       {"--servers", &named}, {"--replica", &o.replica}, {"--delay", &delay}, {"--memory", &o.keep_dir}, {"--index-dir", &o.index_dir}, {"--schema", &schema},
		       {"--model-file", &o.model_path}, {"--batch", &batch}, {"--ahead", &ahead}, {"--wait", &wait},
		       {"--answer", &answer}};
	struct error err = {0};
	for (int i = 1; i + 1 < argc; i++)
		for (size_t k = 0; k < sizeof options / sizeof *options; k++)
			if (strcmp(argv[i], options[k].name) == 0)
				*options[k].value = argv[i + 1];
	char *list = strdup(named), *at = list;
	for (char *name; list && *list && o.server_count < SERVERS_MAX && (name = strsep(&at, ",")) != NULL;)
		servers[o.server_count++] = name;
	struct stopped *s = &stopped[o.meter.id[1] - '0'];
	*s = (struct stopped){.pid = getpid()};
	signal(SIGTERM, worker_on_stop);
	o.batch = strtoull(batch, NULL, 10);
	o.ahead = strtoull(ahead, NULL, 10);
	o.delay = atoi(delay);
	o.wait_seconds = strtod(wait, NULL);
	o.answer_seconds = strtod(answer, NULL);
	o.stop = &s->stop;
	o.spent_wanted = &s->spent_wanted;
	int result = train(&o, schema, &err);
	if (result != 0)
		sim_trace("%s: %s", err.place, err.text);
	return result == 0 ? 0 : err.code ? err.code : 1;
}

/* ---- in the end ---- */

struct sums {
	uint64_t rows;
	float dense[ROWS_MAX], row[ROWS_MAX];
};

static int sums_dense(void *owner, int slot, uint64_t begin, size_t count, const float *values, struct error *err)
{
	struct sums *s = owner;
	(void)err;
	for (size_t i = 0; slot < 0 && i < count && begin + i < s->rows; i++)
		s->dense[begin + i] += values[i];
	return 0;
}

static int sums_rows(void *owner, size_t rows, const uint32_t *keys, const float *values, const float *const *slots,
		     struct error *err)
{
	struct sums *s = owner;
	(void)slots;
	(void)err;
	for (size_t i = 0; i < rows; i++)
		if (keys[i] < s->rows)
			s->row[keys[i]] += values[i];
	return 0;
}

void parameters_check(const char *checkpoint, uint64_t rows, uint64_t epochs)
{
	static struct sums s;
	const struct part_want all = {.dense_end = UINT64_MAX, .place_end = UINT64_MAX};
	const struct stream_taker taker = {.dense = sums_dense, .rows = sums_rows, .owner = &s};
	struct ckpt *c;
	struct error err;
	memset(&s, 0, sizeof s);
	s.rows = rows;
	if (ckpt_open(&c, checkpoint, &err) != 0 || ckpt_read(c, &all, &taker, &err) != 0)
		sim_fail("%s: %s", err.place, err.text);
	ckpt_close(c);
	for (uint64_t i = 0; i < rows; i++)
		if (s.dense[i] != (float)epochs || s.row[i] != (float)epochs)
			sim_fail("sample %d is %g times in the dense part and %g times in the table of %s", (int)i,
				 (double)s.dense[i], (double)s.row[i], checkpoint);
}

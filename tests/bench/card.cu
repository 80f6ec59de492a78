/*
 * card: what bench/card measures: each kernel of lib/model/cuda beside what the card can do, and
 * models through the plug-in, with all copies.  What the card can do is measured, too: a copy
 * within its memory, and a large product.  With tests/cudacpu in front of the include path it runs
 * without a card, and its figures mean nothing.
 *
 *   card SAMPLES RUNS PEAK    PEAK: the side of the large product
 */
#include "model/cuda/cin.h"
#include "model/cuda/fm.h"
#include "model/cuda/images.h"
#include "model/cuda/layers.h"
#include "model/cuda/plugin.h"
#include "model/cuda/product.h"
#include "model/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vector>

/* As in the papers about these models: Criteo's columns. */
#define FIELDS 39
#define DENSE 13
#define EMBED 16
#define HIDDEN 400
#define MAPS 64
#define CLASSES 10
#define SECTOR 32 /* bytes that a card reads at least */

struct bench {
	struct device device;
	struct queue *q;
	size_t n, runs;
	double bandwidth, flops; /* bytes, operations a second */
	std::vector<struct room> rooms;
};

static void bench_die(const char *what, const struct error *err)
{
	fprintf(stderr, "card: %s: %s\n", what, err->text);
	exit(err->code);
}

static void *room_of(struct bench *b, size_t bytes)
{
	struct error err = {};
	struct room r = {};
	if (room_grow(&r, bytes, &err) != 0)
		bench_die("memory", &err);
	b->rooms.push_back(r);
	return r.at;
}

__global__ void fill_kernel(size_t count, float *to)
{
	for (size_t at = thread_number(); at < count; at += thread_count())
		to[at] = (float)((uint32_t)at * 2654435761u >> 8) * 0x1p-24f - 0.5f;
}

static float *floats_of(struct bench *b, size_t count)
{
	float *to = (float *)room_of(b, count * sizeof(float));
	queue_kernel(b->q, "fill_kernel", queue_grid(count), QUEUE_BLOCK, fill_kernel, count, to);
	return to;
}

static void *sent(struct bench *b, const void *from, size_t bytes)
{
	struct error err = {};
	struct room pinned = {};
	void *to = room_of(b, bytes);
	if (pinned_grow(&pinned, bytes, &err) != 0)
		bench_die("memory", &err);
	memcpy(pinned.at, from, bytes);
	queue_to_card(b->q, to, pinned.at, bytes);
	if (queue_wait(b->q, &err) != 0)
		bench_die("copy", &err);
	pinned_free(&pinned);
	return to;
}

/* Seconds of one run. */
template <typename F> static double seconds_of(struct bench *b, F run)
{
	struct error err = {};
	cudaEvent_t begin, end;
	float ms = 0;
	queue_keep(b->q, cudaEventCreateWithFlags(&begin, 0), "cudaEventCreate");
	queue_keep(b->q, cudaEventCreateWithFlags(&end, 0), "cudaEventCreate");
	run();
	cudaEventRecord(begin, b->q->stream);
	for (size_t i = 0; i < b->runs; i++)
		run();
	cudaEventRecord(end, b->q->stream);
	if (queue_wait(b->q, &err) != 0)
		bench_die("kernel", &err);
	cudaEventElapsedTime(&ms, begin, end);
	cudaEventDestroy(begin);
	cudaEventDestroy(end);
	return (double)ms * 1e-3 / (double)b->runs;
}

/* roof: the time that the card needs for so many bytes or operations, of the time that it took.
 * bytes: each array once. */
template <typename F>
static void bench_kernel(struct bench *b, const char *name, double bytes, double flops, F run)
{
	double took = seconds_of(b, run), by_bytes = bytes / b->bandwidth,
	       by_flops = flops / b->flops;
	printf("bench name=card kernel=%s samples=%zu us=%.1f mbytes=%.1f mflop=%.1f roof=%.2f\n",
	       name, b->n, took * 1e6, bytes * 1e-6, flops * 1e-6,
	       (by_bytes > by_flops ? by_bytes : by_flops) / took);
}

static void peak(struct bench *b, size_t side)
{
	size_t count = side * side;
	float *x = floats_of(b, count), *w = floats_of(b, count), *y = floats_of(b, count);
	double bytes = (double)(count * sizeof(float));
	double copy = seconds_of(b, [&] {
		queue_keep(b->q,
			   cudaMemcpyAsync(y, x, count * sizeof(float), cudaMemcpyDeviceToDevice,
					   b->q->stream),
			   "copy");
	});
	double product = seconds_of(
		b, [&] { product_forward(b->q, side, side, side, 1.0f, x, w, side, 0.0f, y); });
	b->bandwidth = 2 * bytes / copy;
	b->flops = 2 * (double)side * (double)count / product;
	printf("bench name=card card=\"%s\" gbytes-per-second=%.0f gflop-per-second=%.0f\n",
	       b->device.about, b->bandwidth * 1e-9, b->flops * 1e-9);
}

static void bench_free(struct bench *b)
{
	for (struct room &one : b->rooms)
		room_free(&one);
	b->rooms.clear();
}

/* ---- a batch: keys of very different frequency ---- */

struct batch {
	size_t unique;
	std::vector<uint32_t> offset, index;
	std::vector<float> x, label;
};

static struct batch batch_of(size_t n)
{
	struct batch m;
	uint64_t state = 7;
	m.unique = n * FIELDS / 4 + 1;
	for (size_t i = 0; i <= n; i++)
		m.offset.push_back((uint32_t)(i * FIELDS));
	for (size_t k = 0; k < n * FIELDS; k++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		double r = (double)(state >> 11) * 0x1p-53;
		m.index.push_back((uint32_t)(r * r * r * (double)m.unique));
	}
	m.x.assign(n * DENSE, 0.5f);
	for (size_t i = 0; i < n; i++)
		m.label.push_back(i % 4 == 0 ? 1.0f : 0.0f);
	return m;
}

/* ---- kernels ---- */

static void bench_rows(struct bench *b)
{
	struct batch m = batch_of(b->n);
	size_t n = b->n, keys = m.index.size(), width = 1 + EMBED, in = FIELDS * EMBED + DENSE;
	struct queue *q = b->q;
	struct keys k = {n,
			 (uint32_t *)sent(b, m.offset.data(), m.offset.size() * 4),
			 (uint32_t *)sent(b, m.index.data(), keys * 4),
			 NULL,
			 floats_of(b, m.unique * width),
			 width};
	struct occurrences o;
	size_t bytes = occurrences_bytes(keys, m.unique);
	std::vector<uint32_t> sorted(bytes / 4), next(m.unique);
	occurrences_sort(&o, sorted.data(), next.data(), m.offset.data(), m.index.data(), n,
			 m.unique);
	o = occurrences_at(&o, sent(b, sorted.data(), bytes));
	float *x = floats_of(b, n * DENSE), *dense = floats_of(b, 1 + DENSE), *z = floats_of(b, n),
	      *to = floats_of(b, n * in), *s = floats_of(b, n * EMBED),
	      *by = floats_of(b, keys * EMBED), *rows = floats_of(b, m.unique * width),
	      *parts = floats_of(b, o.pieces * width);
	double all = (double)keys, embedding = EMBED * 4;
	bench_kernel(b, "rows_wide", all * (4 + SECTOR) + (double)n * DENSE * 4, 0,
		     [&] { rows_wide(q, k, x, DENSE, dense, z); });
	bench_kernel(b, "rows_gather", all * (4 + 2 * embedding) + (double)n * DENSE * 8, 0,
		     [&] { rows_gather(q, k, FIELDS, EMBED, 1.0f, x, DENSE, to); });
	bench_kernel(b, "rows_gradient",
		     all * (8 + SECTOR + embedding) +
			     (double)(2 * o.pieces + m.unique) * (double)width * 4,
		     0, [&] { rows_gradient(q, o, NULL, z, 1, by, 1.0f, width, parts, rows); });
	bench_kernel(b, "fm_forward", all * (4 + embedding) + (double)n * embedding, 0,
		     [&] { fm_forward(q, k, EMBED, 1.0f, s, z); });
	bench_kernel(b, "fm_backward", all * (4 + 3 * embedding) + (double)n * embedding, 0,
		     [&] { fm_backward(q, k, EMBED, 1.0f, s, z, 0, by); });
	bench_free(b);
}

static void bench_layers(struct bench *b)
{
	size_t n = b->n, in = FIELDS * EMBED + DENSE, out = HIDDEN;
	struct queue *q = b->q;
	float *x = floats_of(b, n * in), *w = floats_of(b, out * in), *y = floats_of(b, n * out),
	      *by = floats_of(b, n * out), *bias = floats_of(b, out),
	      *parts = floats_of(b, layers_parts(n, out)), *z = floats_of(b, n * CLASSES),
	      *label = floats_of(b, n);
	double *each = (double *)room_of(b, n * 8), *loss = (double *)room_of(b, 8),
	       *of_parts = (double *)room_of(b, loss_parts(n) * 8);
	double flops = 2 * (double)n * (double)out * (double)in, outputs = (double)(n * out) * 4,
	       inputs = (double)(n * in) * 4;
	queue_zero(q, label, n * 4);
	queue_zero(q, loss, 8);
	bench_kernel(b, "product_forward", inputs + outputs, flops,
		     [&] { product_forward(q, n, out, in, 1.0f, x, w, in, 0.0f, y); });
	bench_kernel(b, "product_by_weight", inputs + outputs, flops,
		     [&] { product_by_weight(q, n, out, in, 1.0f, by, x, w, in); });
	bench_kernel(b, "product_by_input", inputs + outputs, flops,
		     [&] { product_by_input(q, n, out, in, 1.0f, by, w, in, 0.0f, x); });
	bench_kernel(b, "bias_relu", 2 * outputs, 0,
		     [&] { layers_bias_relu(q, n, out, y, bias, 1.0f); });
	bench_kernel(b, "relu_back", 3 * outputs, 0, [&] { layers_relu_back(q, n, out, by, y); });
	bench_kernel(b, "column_sums", outputs, 0,
		     [&] { layers_column_sums(q, n, out, by, NULL, 1.0f, parts, bias); });
	bench_kernel(b, "dot", outputs, 0, [&] { layers_dot(q, n, out, y, bias, 1.0f, z); });
	bench_kernel(b, "loss_log", (double)n * 16, 0,
		     [&] { loss_of(q, LOSS_LOG, n, 1, z, label, NULL, z, each, of_parts, loss); });
	bench_kernel(b, "loss_softmax", (double)n * CLASSES * 8, 0, [&] {
		loss_of(q, LOSS_SOFTMAX, n, CLASSES, z, label, NULL, z, each, of_parts, loss);
	});
	bench_free(b);
}

static void bench_cin(struct bench *b)
{
	struct queue *q = b->q;
	struct cin c = {b->n * EMBED, FIELDS, MAPS, MAPS, NULL, NULL, NULL};
	float *w = floats_of(b, MAPS * MAPS * FIELDS), *next = floats_of(b, MAPS * c.lines),
	      *by_x = floats_of(b, MAPS * c.lines), *by_x0 = floats_of(b, FIELDS * c.lines),
	      *parts = floats_of(b, cin_parts(c));
	double flops = 2 * (double)c.lines * MAPS * MAPS * FIELDS,
	       bytes = (double)c.lines * (FIELDS + 2 * MAPS) * 4;
	c.x0 = floats_of(b, FIELDS * c.lines);
	c.x = floats_of(b, MAPS * c.lines);
	c.w = w;
	bench_kernel(b, "cin_forward", bytes, flops, [&] { cin_forward(q, c, next); });
	bench_kernel(b, "cin_by_weight", bytes, flops,
		     [&] { cin_by_weight(q, c, next, parts, w); });
	bench_kernel(b, "cin_by_input", 2 * bytes, flops,
		     [&] { cin_by_input(q, c, next, by_x, by_x0); });
	bench_free(b);
}

/* Images of CIFAR, of which a batch has fewer. */
static void bench_images(struct bench *b)
{
	struct queue *q = b->q;
	size_t images = b->n / 16 + 1, pixels = 32 * 32, channels = 32;
	struct images s = {images, channels, 32, 32, 1};
	float *x = floats_of(b, images * pixels * channels),
	      *windows = floats_of(b, images * pixels * channels * IMAGES_WINDOW),
	      *pooled = floats_of(b, images * pixels * channels / 4),
	      *bias = floats_of(b, channels);
	uint8_t *which = (uint8_t *)room_of(b, images * pixels * channels / 4);
	double values = (double)(images * pixels * channels) * 4;
	bench_kernel(b, "images_windows", values * (1 + IMAGES_WINDOW), 0,
		     [&] { images_windows(q, s, x, windows); });
	bench_kernel(b, "images_windows_back", values * (1 + IMAGES_WINDOW), 0,
		     [&] { images_windows_back(q, s, windows, x); });
	bench_kernel(b, "images_pool", values * (1 + 0.25 + 0.0625), 0,
		     [&] { images_pool(q, s, x, bias, 0, pooled, which); });
	bench_kernel(b, "images_pool_back", values * (1 + 0.5 + 0.0625), 0,
		     [&] { images_pool_back(q, s, pooled, pooled, which, 0, x); });
	bench_free(b);
}

/* ---- models: copies to the card and back included ---- */

static double seconds_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void bench_model(struct bench *b, const char *name)
{
	struct model_spec spec = {};
	struct error err = {};
	struct batch m = batch_of(b->n);
	void *s = NULL;
	snprintf(spec.name, sizeof(spec.name), "%s", name);
	spec.dense_inputs = DENSE;
	spec.fields = FIELDS;
	spec.embed = EMBED;
	spec.hidden = {2, {HIDDEN, HIDDEN}};
	if (strcmp(name, "dcn") == 0)
		((struct dcn_options *)spec.own)->cross = 3;
	if (strcmp(name, "xdeepfm") == 0)
		((struct xdeepfm_options *)spec.own)->cin = {2, {MAPS, MAPS}};
	if (paceline_model_backend.open(&s, &spec, "cuda", &err) != 0)
		bench_die(name, &err);
	const struct plugin *p = ((const struct cards *)s)->card[0];
	size_t width = p->weights + p->by_width;
	std::vector<float> dense(p->dense_count, 0.01f), rows(m.unique * width, 0.01f),
		dense_gradient(dense.size()), row_gradient(rows.size());
	struct model_batch batch = {};
	batch.count = b->n;
	batch.dense = m.x.data();
	batch.label = m.label.data();
	batch.offset = m.offset.data();
	batch.index = m.index.data();
	struct model_load load = {&batch, m.unique, dense.data(), rows.data(), 0};
	double loss = 0, began = 0;
	struct model_sums sums = {dense_gradient.data(), row_gradient.data(), &loss, NULL, NULL};
	for (size_t i = 0; i < 3 + b->runs; i++) { /* the first ones make room, and a graph */
		if (i == 3)
			began = seconds_now();
		if (paceline_model_backend.begin(s, &load, &err) != 0 ||
		    paceline_model_backend.train(s, &sums, &err) != 0)
			bench_die(name, &err);
	}
	printf("bench name=card model=%s samples=%zu rows-per-second=%.0f mib=%zu\n", name, b->n,
	       (double)(b->n * b->runs) / (seconds_now() - began), p->memory.bytes >> 20);
	paceline_model_backend.free(s);
}

int main(int argc, char **argv)
{
	struct bench b = {};
	struct error err = {};
	if (argc != 4 || device_open(&b.device, "cuda", 1, &err) != 0)
		bench_die("cuda", &err);
	b.q = &b.device.queue;
	b.n = strtoul(argv[1], NULL, 10);
	b.runs = strtoul(argv[2], NULL, 10);
	peak(&b, strtoul(argv[3], NULL, 10));
	bench_free(&b);
	bench_rows(&b);
	bench_layers(&b);
	bench_cin(&b);
	bench_images(&b);
	for (const char *name : {"wdl", "deepfm", "dcn", "xdeepfm"})
		bench_model(&b, name);
	device_close(&b.device);
	return 0;
}

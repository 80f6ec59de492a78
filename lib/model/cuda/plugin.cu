/*
 * plugin: lib/model/backend.h on a card.  All work of a batch is queued in one stream, in the
 * order of the calls; the host waits only at the end.  So what the host writes for the card is
 * written once a batch, and lies in pinned memory.
 */
#include "model/cuda/plugin.h"

#include "model/cuda/layers.h"

#include <stdlib.h>
#include <string.h>

#define MODEL_AT(name) &cuda_##name,
static const struct cuda_model *const models[] = {CUDA_MODELS(MODEL_AT)};
#define MODEL_NAME(name) " " #name
#define NAMES CUDA_MODELS(MODEL_NAME)

/* The gradient comes back in pieces of so many floats at least, PIECES_MOST at most. */
#define PIECE_FLOATS ((size_t)1 << 18)
#define PIECES_MOST ((size_t)64)

void *carve(struct carver *c, size_t bytes)
{
	void *to = c->at ? c->at + c->used : NULL;
	c->used += (bytes + 255) / 256 * 256;
	return to;
}

/* ---- life ---- */

static void graph_free(struct plugin *p)
{
	if (p->graph)
		cudaGraphExecDestroy(p->graph);
	p->graph = NULL;
}

static void plugin_free(void *s)
{
	struct plugin *p = (struct plugin *)s;
	if (!p)
		return;
	if (p->device.queue.stream)
		cudaStreamSynchronize(p->device.queue.stream);
	for (size_t i = 0; i < PIECES_MOST; i++)
		if (p->told[i])
			cudaEventDestroy(p->told[i]);
	graph_free(p);
	room_free(&p->memory);
	pinned_free(&p->input_pinned);
	pinned_free(&p->sums_pinned);
	free(p->next.at);
	device_close(&p->device);
	free(p->own);
	free(p);
}

size_t plugin_vector(struct plugin *p, size_t count)
{
	p->widest = p->widest > count ? p->widest : count;
	return plugin_matrix(p, 1, count);
}

size_t plugin_matrix(struct plugin *p, size_t rows, size_t columns)
{
	size_t at = p->dense_count;
	p->dense_count += rows * columns;
	return at;
}

/* As model_labels_of() and model_loss_of(). */
static void plugin_shape(struct plugin *p)
{
	unsigned may = p->model->labels,
		 labels = (may & (may - 1)) == 0 ? may : may & 1u << p->spec.labels;
	p->outputs = labels == MODEL_CLASS ? p->spec.classes : 1;
	p->kind = p->model->loss          ? p->model->loss(&p->spec)
		  : labels == MODEL_CLASS ? LOSS_SOFTMAX
		  : labels == MODEL_REAL  ? LOSS_SQUARED
					  : LOSS_LOG;
	p->part_rows = 1;
	p->model->open(p);
}

static const struct cuda_model *plugin_find(const struct model_spec *spec, const char *device,
					    struct error *err)
{
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++)
		if (strcmp(models[i]->name, spec->name) == 0)
			return models[i];
	cuda_error(err, ERROR_CONFIG, device, "%s is not computed on a card:" NAMES " are",
		   spec->name);
	return NULL;
}

static int plugin_look(const struct model_spec *spec, const char *device, struct error *err)
{
	return plugin_find(spec, device, err) ? device_look(device, err) : -1;
}

static int plugin_open(void **s, const struct model_spec *spec, const char *device,
		       struct error *err)
{
	const struct cuda_model *model = plugin_find(spec, device, err);
	if (!model)
		return -1;
	struct plugin *p = (struct plugin *)calloc(1, sizeof(*p));
	if (!p)
		return cuda_error(err, ERROR_OS, "", "out of memory");
	p->spec = *spec;
	p->model = model;
	if (device_open(&p->device, device, model->products, err) != 0) {
		plugin_free(p);
		return -1;
	}
	p->own = calloc(1, model->own_bytes + 1);
	if (!p->own) {
		plugin_free(p);
		return cuda_error(err, ERROR_OS, "", "out of memory");
	}
	plugin_shape(p);
	*s = p;
	return 0;
}

static const char *plugin_about(void *s)
{
	return ((struct plugin *)s)->device.about;
}

static size_t plugin_left(void *)
{
	return device_left();
}

/* ---- the batch goes to the card ---- */

static size_t row_width(const struct plugin *p)
{
	return p->weights + p->by_width;
}

/* What differs between batches of the same size comes last, here and below: all else then has the
 * same place in each of them, and the graph of the last one is that of the next (graph_step). */
static void input_carve(const struct plugin *p, const struct model_load *l, struct carver *c,
			struct input *in)
{
	const struct model_batch *b = l->batch;
	in->dense = CARVE(c, float, p->dense_count);
	in->offset = CARVE(c, uint32_t, p->count + 1);
	in->index = CARVE(c, uint32_t, p->keys);
	in->value = b->value && p->keys > 0 ? CARVE(c, float, p->keys) : NULL;
	in->x = CARVE(c, float, p->count * p->spec.dense_inputs);
	in->label = l->forward_only ? NULL : CARVE(c, float, p->count);
	in->weight = b->weight && !l->forward_only ? CARVE(c, float, p->count) : NULL;
	in->rows = CARVE(c, float, p->unique *row_width(p));
	in->sorted = l->forward_only ? NULL : carve(c, occurrences_bytes(p->keys, p->unique));
}

/* All that a batch needs on the card: one piece of memory, whose size is known before it is asked
 * for. */
static void batch_carve(struct plugin *p, const struct model_load *l, struct carver *c)
{
	size_t n = p->count;
	p->z = CARVE(c, float, n * p->outputs);
	if (p->model->carve)
		p->model->carve(p, c, n);
	if (!l->forward_only) {
		p->delta = CARVE(c, float, n * p->outputs);
		p->by = CARVE(c, float, p->keys * p->by_width);
		p->parts = CARVE(c, float, layers_parts(n * p->part_rows, p->widest));
		p->loss_parts = CARVE(c, double, loss_parts(n));
		p->loss_each = CARVE(c, double, p->kind == LOSS_SOFTMAX ? n : 0);
		p->loss = CARVE(c, double, 1);
		p->dense_gradient = CARVE(c, float, p->dense_count);
	}
	input_carve(p, l, c, &p->card);
	if (l->forward_only)
		return;
	p->row_gradient = CARVE(c, float, p->unique *row_width(p));
	p->piece_sums = CARVE(c, float, (p->keys / ROWS_PIECE + p->unique) * row_width(p));
}

static int batch_grow(struct plugin *p, const struct model_load *l, struct error *err)
{
	struct carver c = {}, pinned = {};
	struct input in;
	batch_carve(p, l, &c);
	input_carve(p, l, &pinned, &in);
	size_t sums = l->forward_only
			      ? p->count * p->outputs * sizeof(float)
			      : sizeof(double) +
					(p->dense_count + p->unique * row_width(p)) * sizeof(float);
	if (room_grow(&p->memory, c.used, err) != 0 ||
	    pinned_grow(&p->input_pinned, pinned.used, err) != 0 ||
	    pinned_grow(&p->sums_pinned, sums, err) != 0)
		return -1;
	c = {(char *)p->memory.at, 0};
	batch_carve(p, l, &c);
	pinned = {(char *)p->input_pinned.at, 0};
	input_carve(p, l, &pinned, &p->host);
	return 0;
}

/* While one array is on its way, the next one is copied to pinned memory. */
template <typename T>
static void input_send(struct plugin *p, T *card, T *host, const T *from, size_t count)
{
	if (!from || count == 0)
		return;
	memcpy(host, from, count * sizeof(T));
	queue_to_card(&p->device.queue, card, host, count * sizeof(T));
}

static void input_send_all(struct plugin *p, const struct model_load *l)
{
	const struct model_batch *b = l->batch;
	uint32_t first = b->offset[0];
	for (size_t i = 0; i <= p->count; i++)
		p->host.offset[i] = p->keys > 0 ? b->offset[i] - first : 0;
	queue_to_card(&p->device.queue, p->card.offset, p->host.offset,
		      (p->count + 1) * sizeof(uint32_t));
	input_send(p, p->card.index, p->host.index, b->index + first, p->keys);
	input_send(p, p->card.rows, p->host.rows, l->rows, p->unique * row_width(p));
	input_send(p, p->card.dense, p->host.dense, l->dense, p->dense_count);
	input_send(p, p->card.value, p->host.value, b->value ? b->value + first : NULL, p->keys);
	input_send(p, p->card.x, p->host.x, b->dense, p->count * p->spec.dense_inputs);
	if (l->forward_only)
		return;
	input_send(p, p->card.label, p->host.label, b->label, p->count);
	input_send(p, p->card.weight, p->host.weight, b->weight, p->count);
}

static int plugin_begin(void *s, const struct model_load *l, struct error *err)
{
	struct plugin *p = (struct plugin *)s;
	struct queue *q = &p->device.queue;
	const struct model_batch *b = l->batch;
	if (p->is_under_way) /* one that ended with an error */
		cudaStreamSynchronize(q->stream);
	p->is_under_way = 1;
	q->failed = 0;
	p->count = b->count;
	p->keys = row_width(p) > 0 ? b->offset[b->count] - b->offset[0] : 0;
	p->unique = row_width(p) > 0 ? l->unique : 0;
	if (batch_grow(p, l, err) != 0)
		return -1;
	input_send_all(p, l);
	if (!l->forward_only) {
		queue_zero(q, p->loss, sizeof(double));
		queue_zero(q, p->dense_gradient, p->dense_count * sizeof(float));
	}
	return 0;
}

/* ---- it is computed ---- */

static struct samples samples_of(const struct plugin *p)
{
	const struct input *in = &p->card;
	struct samples r = {};
	r.keys = {p->count, in->offset, in->index, in->value, in->rows, row_width(p)};
	r.x = in->x;
	r.z = p->z;
	if (!in->label)
		return r;
	r.label = in->label;
	r.weight = in->weight;
	r.delta = p->delta;
	r.by = p->by;
	r.parts = p->parts;
	return r;
}

/* The host sorts while the card computes. */
static int rows_back(struct plugin *p, struct error *err)
{
	struct queue *q = &p->device.queue;
	struct occurrences o;
	size_t bytes = p->unique * sizeof(uint32_t);
	if (bytes > p->next.bytes) {
		free(p->next.at);
		p->next.bytes = 0;
		if (!(p->next.at = malloc(bytes)))
			return cuda_error(err, ERROR_OS, "", "out of memory");
		p->next.bytes = bytes;
	}
	if (p->unique == 0)
		return 0;
	occurrences_sort(&o, p->host.sorted, (uint32_t *)p->next.at, p->host.offset, p->host.index,
			 p->count, p->unique);
	queue_to_card(q, p->card.sorted, p->host.sorted, occurrences_bytes(p->keys, p->unique));
	p->occurrences = occurrences_at(&o, p->card.sorted);
	rows_gradient(q, p->occurrences, p->card.value, p->delta, p->weights, p->by, p->model->gain,
		      row_width(p), p->piece_sums, p->row_gradient);
	return 0;
}

static void compute(struct plugin *p, const struct samples *r)
{
	struct queue *q = &p->device.queue;
	p->model->forward(p, r);
	loss_of(q, p->kind, r->keys.n, p->outputs, r->z, r->label, r->weight, r->delta,
		p->loss_each, p->loss_parts, p->loss);
	p->model->backward(p, r);
}

/* Records the kernels. Where that fails, they are started one by one from then on. */
static int graph_record(struct plugin *p, const struct samples *r)
{
	struct queue *q = &p->device.queue, was = *q;
	cudaGraph_t graph = NULL;
	cudaError_t result = cudaStreamBeginCapture(q->stream, cudaStreamCaptureModeThreadLocal);
	if (result == cudaSuccess) {
		compute(p, r);
		result = cudaStreamEndCapture(q->stream, &graph);
	}
	if (result == cudaSuccess && !q->failed)
		result = cudaGraphInstantiate(&p->graph, graph, 0);
	if (graph)
		cudaGraphDestroy(graph);
	if (result == cudaSuccess && !q->failed)
		return 0;
	cudaGetLastError();
	*q = was;
	p->graph = NULL;
	p->no_graphs = 1;
	return -1;
}

/* The second batch of a size is recorded, and those that follow start as one graph: starting each
 * kernel takes longer than a small one runs. */
static void graph_compute(struct plugin *p, const struct samples *r)
{
	struct queue *q = &p->device.queue;
	struct graph_of of;
	memset(&of, 0, sizeof(of)); /* it is compared */
	of = {p->memory.at, r->keys.value, r->weight, r->keys.rows, p->count, p->keys};
	int is_alike = memcmp(&of, &p->last, sizeof(of)) == 0;
	p->last = of;
	if (!is_alike)
		graph_free(p);
	else if (!p->graph && !p->no_graphs && !q->failed)
		graph_record(p, r);
	if (!p->graph)
		compute(p, r);
	else if (!q->failed)
		queue_keep(q, cudaGraphLaunch(p->graph, q->stream), "cudaGraphLaunch");
}

/* ---- sums, scores ---- */

static void add(float *to, const float *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] += from[i];
}

/* The dense gradient comes from its end on, and each piece is told when it is there. */
static int end_dense(struct plugin *p, float *from, const struct model_sums *sums, size_t piece,
		     struct error *err)
{
	struct queue *q = &p->device.queue;
	size_t end = p->dense_count;
	for (size_t i = 0; end > 0; i++) {
		size_t count = end < piece ? end : piece;
		queue_keep(q, cudaEventSynchronize(p->told[i]), "waiting for the card");
		if (queue_tell(q, err) != 0)
			return -1;
		end -= count;
		add(sums->dense_gradient + end, from + end, count);
		if (sums->final)
			sums->final(sums->owner, end, count);
	}
	return 0;
}

static int plugin_train(void *s, const struct model_sums *sums, struct error *err)
{
	struct plugin *p = (struct plugin *)s;
	struct queue *q = &p->device.queue;
	struct samples r = samples_of(p);
	size_t row_floats = p->unique * row_width(p), at = p->dense_count,
	       piece = (p->dense_count + PIECES_MOST - 1) / PIECES_MOST;
	double *loss = (double *)p->sums_pinned.at;
	float *dense = (float *)(loss + 1), *rows = dense + p->dense_count;
	piece = piece > PIECE_FLOATS ? piece : PIECE_FLOATS;
	graph_compute(p, &r);
	if (rows_back(p, err) != 0)
		return -1;
	for (size_t i = 0; at > 0; i++) {
		size_t count = at < piece ? at : piece;
		at -= count;
		queue_to_host(q, dense + at, p->dense_gradient + at, count * sizeof(float));
		if (!q->failed && !p->told[i])
			queue_keep(q, cudaEventCreateWithFlags(&p->told[i], cudaEventDisableTiming),
				   "cudaEventCreate");
		if (!q->failed)
			queue_keep(q, cudaEventRecord(p->told[i], q->stream), "cudaEventRecord");
	}
	queue_to_host(q, rows, p->row_gradient, row_floats * sizeof(float));
	queue_to_host(q, loss, p->loss, sizeof(double));
	if (queue_tell(q, err) != 0 || end_dense(p, dense, sums, piece, err) != 0 ||
	    queue_wait(q, err) != 0)
		return -1;
	p->is_under_way = 0;
	add(sums->row_gradient, rows, row_floats);
	*sums->loss += *loss;
	return 0;
}

static int plugin_logits(void *s, float *z, struct error *err)
{
	struct plugin *p = (struct plugin *)s;
	struct queue *q = &p->device.queue;
	struct samples r = samples_of(p);
	size_t bytes = p->count * p->outputs * sizeof(float);
	p->model->forward(p, &r);
	queue_to_host(q, p->sums_pinned.at, p->z, bytes);
	if (queue_wait(q, err) != 0)
		return -1;
	p->is_under_way = 0;
	memcpy(z, p->sums_pinned.at, bytes);
	return 0;
}

/* The only name that the plug-in shows. */
extern "C" __attribute__((visibility("default")))
const struct model_backend paceline_model_backend = {
	MODEL_BACKEND_ABI,
	sizeof(struct model_spec),
	sizeof(struct model_batch),
	sizeof(struct error),
	plugin_look,
	plugin_open,
	plugin_begin,
	plugin_train,
	plugin_logits,
	plugin_free,
	plugin_about,
	plugin_left,
};

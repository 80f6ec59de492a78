/*
 * plugin: a model on one card.  All work of a batch is queued in one stream, in the order of the
 * calls; the host waits only at the end.  So what the host writes for the card is written once a
 * batch, and lies in pinned memory.
 *
 * While the card computes, the host brings the rows of the next batch, if it is known (slot).  That
 * is most of what a model of images or of numbers has copied: of 4096 samples of 784 numbers for
 * 203,530 parameters 12.8 MB of 14.5; but of 4096 with 39 keys each, 90,000 of them different, and
 * embeddings of 16, 2.6 MB of 15, as each key's row comes and its gradient goes.  Parameters can't
 * come ahead: they are those of the step before.
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

static void graph_free(struct slot *s)
{
	if (s->graph)
		cudaGraphExecDestroy(s->graph);
	s->graph = NULL;
}

static void slot_free(struct slot *s)
{
	graph_free(s);
	room_free(&s->memory);
	pinned_free(&s->pinned);
	s->ahead.serial = 0;
}

void plugin_free(struct plugin *p)
{
	if (p->device.queue.stream)
		cudaStreamSynchronize(p->device.queue.stream);
	if (p->ahead.stream) {
		cudaStreamSynchronize(p->ahead.stream);
		cudaStreamDestroy(p->ahead.stream);
	}
	if (p->arrived)
		cudaEventDestroy(p->arrived);
	for (size_t i = 0; i < PIECES_MOST; i++)
		if (p->told[i])
			cudaEventDestroy(p->told[i]);
	slot_free(&p->slot[0]);
	slot_free(&p->slot[1]);
	room_free(&p->memory);
	pinned_free(&p->parameters_pinned);
	pinned_free(&p->sums_pinned);
	free(p->counts.at);
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
	p->piece = (p->dense_count + PIECES_MOST - 1) / PIECES_MOST;
	p->piece = p->piece > PIECE_FLOATS ? p->piece : PIECE_FLOATS;
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

int plugin_look(const struct model_spec *spec, const char *device, struct error *err)
{
	return plugin_find(spec, device, err) ? device_look(device, err) : -1;
}

int plugin_open(struct plugin **out, const struct model_spec *spec, const char *device,
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
	*out = p;
	return 0;
}

/* ---- the batch goes to the card ---- */

static size_t row_width(const struct plugin *p)
{
	return p->weights + p->by_width;
}

/* What differs between batches of the same size comes last, here and below: all else then has the
 * same place in each of them, and the graph of the last one is that of the next (plugin_compute). */
static void slot_carve(const struct plugin *p, const struct slot *s, const struct model_batch *b,
		       struct carver *c, struct input *in)
{
	*in = {};
	in->offset = CARVE(c, uint32_t, s->count + 1);
	in->index = CARVE(c, uint32_t, s->keys);
	in->value = b->value && s->keys > 0 ? CARVE(c, float, s->keys) : NULL;
	in->x = CARVE(c, float, s->count * p->spec.dense_inputs);
	in->label = b->label ? CARVE(c, float, s->count) : NULL;
	in->weight = b->weight ? CARVE(c, float, s->count) : NULL;
	in->sorted = b->label ? carve(c, occurrences_bytes(s->keys, s->unique)) : NULL;
}

/* While one array is on its way, the next one is copied to pinned memory, if it is not there. */
template <typename T>
static void input_send(struct queue *q, T *card, T *host, const T *from, size_t count)
{
	if (!from || count == 0)
		return;
	if (from != host)
		memcpy(host, from, count * sizeof(T));
	queue_to_card(q, card, host, count * sizeof(T));
}

/* Brings the rows of a batch, whose labels are NULL where it is not trained. */
static int slot_fill(const struct plugin *p, struct slot *s, struct queue *q,
		     const struct model_batch *b, size_t unique, struct error *err)
{
	struct carver c = {}, pinned = {};
	uint32_t first = b->offset[0];
	s->count = b->count;
	s->keys = row_width(p) > 0 ? b->offset[b->count] - first : 0;
	s->unique = row_width(p) > 0 ? unique : 0;
	s->is_sorted = 0;
	slot_carve(p, s, b, &c, &s->card);
	if (room_grow(&s->memory, c.used, err) != 0 ||
	    pinned_grow(&s->pinned, c.used, err) != 0)
		return -1;
	c = {(char *)s->memory.at, 0};
	pinned = {(char *)s->pinned.at, 0};
	slot_carve(p, s, b, &c, &s->card);
	slot_carve(p, s, b, &pinned, &s->host);
	for (size_t i = 0; i <= s->count; i++)
		s->host.offset[i] = s->keys > 0 ? b->offset[i] - first : 0;
	queue_to_card(q, s->card.offset, s->host.offset, (s->count + 1) * sizeof(uint32_t));
	input_send(q, s->card.index, s->host.index, b->index + first, s->keys);
	input_send(q, s->card.value, s->host.value, b->value ? b->value + first : NULL, s->keys);
	input_send(q, s->card.x, s->host.x, b->dense, s->count * p->spec.dense_inputs);
	input_send(q, s->card.label, s->host.label, b->label, s->count);
	input_send(q, s->card.weight, s->host.weight, b->weight, s->count);
	return 0;
}

/* All else that a batch needs on the card: one piece of memory, whose size is known before it is
 * asked for. */
static void batch_carve(struct plugin *p, const struct model_load *l, struct carver *c)
{
	const struct slot *s = &p->slot[p->now];
	size_t n = s->count;
	p->card = s->card;
	p->z = CARVE(c, float, n * p->outputs);
	if (p->model->carve)
		p->model->carve(p, c, n);
	if (!l->forward_only) {
		p->delta = CARVE(c, float, n * p->outputs);
		p->by = CARVE(c, float, s->keys * p->by_width);
		p->parts = CARVE(c, float, layers_parts(n * p->part_rows, p->widest));
		p->loss_parts = CARVE(c, double, loss_parts(n));
		p->loss_each = CARVE(c, double, p->kind == LOSS_SOFTMAX ? n : 0);
		p->loss = CARVE(c, double, 1);
		p->dense_gradient = CARVE(c, float, p->dense_count);
	}
	p->card.dense = CARVE(c, float, p->dense_count);
	p->card.rows = CARVE(c, float, s->unique *row_width(p));
	if (l->forward_only)
		return;
	p->row_gradient = CARVE(c, float, s->unique *row_width(p));
	p->piece_sums = CARVE(c, float, (s->keys / ROWS_PIECE + s->unique) * row_width(p));
}

static int batch_grow(struct plugin *p, const struct model_load *l, struct error *err)
{
	const struct slot *s = &p->slot[p->now];
	struct carver c = {};
	batch_carve(p, l, &c);
	p->row_floats = s->unique * row_width(p);
	size_t parameters = (p->dense_count + p->row_floats) * sizeof(float),
	       sums = l->forward_only ? s->count * p->outputs * sizeof(float) : parameters;
	if (room_grow(&p->memory, c.used, err) != 0 ||
	    (!p->first && pinned_grow(&p->parameters_pinned, parameters, err) != 0) ||
	    pinned_grow(&p->sums_pinned, sizeof(double) + sums, err) != 0)
		return -1;
	p->loss_came = (double *)p->sums_pinned.at;
	p->came = (float *)(p->loss_came + 1);
	c = {(char *)p->memory.at, 0};
	batch_carve(p, l, &c);
	return 0;
}

static int batch_begin(struct plugin *p, const struct model_load *l, struct error *err)
{
	struct queue *q = &p->device.queue;
	struct model_batch b = *l->batch;
	struct slot *s = &p->slot[!p->now];
	const struct model_batch *ahead = &s->ahead;
	if (l->forward_only)
		b.label = b.weight = NULL;
	if (ahead->serial > 0 && ahead->serial == b.serial && ahead->offset == b.offset &&
	    ahead->count == b.count) {
		p->now = !p->now;
		queue_keep(q, cudaStreamWaitEvent(q->stream, p->arrived, 0), "cudaStreamWaitEvent");
	} else if (slot_fill(p, &p->slot[p->now], q, &b, l->unique, err) != 0) {
		return -1;
	}
	s->ahead.serial = 0;
	s = &p->slot[p->now];
	if (batch_grow(p, l, err) != 0)
		return -1;
	float *dense = (float *)(p->first ? p->first : p)->parameters_pinned.at,
	      *rows = dense + p->dense_count;
	input_send(q, p->card.rows, rows, p->first ? rows : l->rows, p->row_floats);
	input_send(q, p->card.dense, dense, p->first ? dense : l->dense, p->dense_count);
	if (!l->forward_only) {
		queue_zero(q, p->loss, sizeof(double));
		queue_zero(q, p->dense_gradient, p->dense_count * sizeof(float));
	}
	return 0;
}

static void batch_forget(struct plugin *p)
{
	cudaStreamSynchronize(p->device.queue.stream);
	slot_free(&p->slot[0]);
	slot_free(&p->slot[1]);
	room_free(&p->memory);
}

int plugin_begin(struct plugin *p, const struct model_load *l, struct error *err)
{
	p->device.queue.failed = 0;
	p->next = {};
	if (l->batch->next)
		p->next = *l->batch->next;
	int result = batch_begin(p, l, err);
	if (result != 0) {
		/* What came ahead, or is larger than this batch needs, may have taken the memory. */
		p->no_ahead |= p->slot[!p->now].memory.at != NULL;
		batch_forget(p);
		result = batch_begin(p, l, err);
	}
	if (result != 0)
		batch_forget(p);
	return result;
}

/* ---- it is computed ---- */

static struct samples samples_of(const struct plugin *p)
{
	const struct input *in = &p->card;
	struct samples r = {};
	r.keys = {p->slot[p->now].count, in->offset, in->index, in->value, in->rows, row_width(p)};
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
static int slot_sort(struct plugin *p, struct slot *s, struct queue *q, struct error *err)
{
	struct occurrences o;
	size_t bytes = s->unique * sizeof(uint32_t);
	if (s->unique == 0 || s->is_sorted)
		return 0;
	if (bytes > p->counts.bytes) {
		free(p->counts.at);
		p->counts.bytes = 0;
		if (!(p->counts.at = malloc(bytes)))
			return cuda_error(err, ERROR_OS, "", "out of memory");
		p->counts.bytes = bytes;
	}
	occurrences_sort(&o, s->host.sorted, (uint32_t *)p->counts.at, s->host.offset,
			 s->host.index, s->count, s->unique);
	queue_to_card(q, s->card.sorted, s->host.sorted, occurrences_bytes(s->keys, s->unique));
	s->occurrences = occurrences_at(&o, s->card.sorted);
	s->is_sorted = 1;
	return 0;
}

void plugin_ahead(struct plugin *p)
{
	struct queue *q = &p->ahead;
	struct slot *s = &p->slot[!p->now];
	struct error err = {};
	if (p->next.count == 0 || p->next.serial == 0 || p->no_ahead)
		return;
	p->no_ahead = (!q->stream && cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking)) ||
		      (!p->arrived &&
		       cudaEventCreateWithFlags(&p->arrived, cudaEventDisableTiming));
	cudaGetLastError();
	q->failed = 0;
	/* Rows that came ahead, but not for the batch that followed, may still be on their way. */
	if (p->no_ahead || queue_wait(q, &err) != 0)
		return;
	p->no_ahead = slot_fill(p, s, q, &p->next, p->next.unique, &err) != 0 ||
		      slot_sort(p, s, q, &err) != 0;
	if (p->no_ahead || q->failed)
		return;
	queue_keep(q, cudaEventRecord(p->arrived, q->stream), "cudaEventRecord");
	if (!q->failed)
		s->ahead = p->next;
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
static int graph_record(struct plugin *p, struct slot *s, const struct samples *r)
{
	struct queue *q = &p->device.queue, was = *q;
	cudaGraph_t graph = NULL;
	cudaError_t result = cudaStreamBeginCapture(q->stream, cudaStreamCaptureModeThreadLocal);
	if (result == cudaSuccess) {
		compute(p, r);
		result = cudaStreamEndCapture(q->stream, &graph);
	}
	if (result == cudaSuccess && !q->failed)
		result = cudaGraphInstantiate(&s->graph, graph, 0);
	if (graph)
		cudaGraphDestroy(graph);
	if (result == cudaSuccess && !q->failed)
		return 0;
	cudaGetLastError();
	*q = was;
	s->graph = NULL;
	p->no_graphs = 1;
	return -1;
}

/* The second batch of a size is recorded, and those that follow start as one graph: starting each
 * kernel takes longer than a small one runs. */
int plugin_compute(struct plugin *p, struct error *err)
{
	const struct samples all = samples_of(p), *r = &all;
	struct queue *q = &p->device.queue;
	struct slot *s = &p->slot[p->now];
	struct graph_of of;
	memset(&of, 0, sizeof(of)); /* it is compared */
	of = {p->memory.at,  s->memory.at, r->keys.value, r->weight,
	      r->keys.rows, s->count,     s->keys};
	int is_alike = memcmp(&of, &s->last, sizeof(of)) == 0;
	s->last = of;
	if (!is_alike)
		graph_free(s);
	else if (!s->graph && !p->no_graphs && !q->failed)
		graph_record(p, s, r);
	if (!s->graph)
		compute(p, r);
	else if (!q->failed)
		queue_keep(q, cudaGraphLaunch(s->graph, q->stream), "cudaGraphLaunch");
	if (slot_sort(p, s, q, err) != 0)
		return -1;
	if (s->unique > 0)
		rows_gradient(q, s->occurrences, p->card.value, p->delta, p->weights, p->by,
			      p->model->gain, row_width(p), p->piece_sums, p->row_gradient);
	return 0;
}

/* ---- sums, scores ---- */

void plugin_back(struct plugin *p)
{
	struct queue *q = &p->device.queue;
	size_t at = p->dense_count;
	for (size_t i = 0; at > 0; i++) {
		size_t count = at < p->piece ? at : p->piece;
		at -= count;
		queue_to_host(q, p->came + at, p->dense_gradient + at, count * sizeof(float));
		if (!q->failed && !p->told[i])
			queue_keep(q, cudaEventCreateWithFlags(&p->told[i], cudaEventDisableTiming),
				   "cudaEventCreate");
		if (!q->failed)
			queue_keep(q, cudaEventRecord(p->told[i], q->stream), "cudaEventRecord");
	}
	queue_to_host(q, p->came + p->dense_count, p->row_gradient, p->row_floats * sizeof(float));
	queue_to_host(q, p->loss_came, p->loss, sizeof(double));
}

void plugin_scores(struct plugin *p)
{
	struct samples r = samples_of(p);
	p->model->forward(p, &r);
	queue_to_host(&p->device.queue, p->came, p->z, r.keys.n * p->outputs * sizeof(float));
}

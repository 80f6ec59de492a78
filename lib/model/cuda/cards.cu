/*
 * cards: lib/model/backend.h on one card or several of this host.  A batch is dealt to them in equal
 * parts, each has all its parameters, and their sums are added: by NCCL, where it is there, else by
 * the host, in the order of the cards.  All are called from one thread.
 *
 * It must never wait for one card alone once NCCL sums: if another one is lost, that never ends.
 * (Memory that grows for rows ahead waits so, seldom; a job's deadlines are for what hangs.)
 */
#include "model/cuda/plugin.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What we use of NCCL, whose header is seldom installed. */
typedef struct ncclComm *comm;
#define NCCL_SUM 0
#define NCCL_FLOAT 7
#define NCCL_DOUBLE 8

struct nccl {
	void *library;
	comm comms[MODEL_CARDS_MAX]; /* NULL: the host sums */
	int (*init)(comm *to, int count, const int *numbers);
	int (*destroy)(comm c), (*abort)(comm c);
	int (*begin)(), (*end)();
	int (*reduce)(const void *from, void *to, size_t count, int type, int op, int root, comm c,
		      cudaStream_t stream);
};

struct cards {
	size_t count, used; /* used: by this batch */
	struct plugin *card[MODEL_CARDS_MAX];
	struct nccl nccl;
	int is_under_way, sums; /* the cards may work on a batch; NCCL sums it */
	char about[320];
};

static struct plugin *on(struct cards *c, size_t i)
{
	cudaSetDevice(c->card[i]->device.number);
	return c->card[i];
}

/* ---- life ---- */

static void nccl_open(struct cards *c)
{
	struct nccl *n = &c->nccl;
	int numbers[MODEL_CARDS_MAX];
	for (size_t i = 0; i < c->count; i++)
		numbers[i] = c->card[i]->device.number;
	n->library = c->count > 1 ? dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!n->library)
		return;
	*(void **)&n->init = dlsym(n->library, "ncclCommInitAll");
	*(void **)&n->destroy = dlsym(n->library, "ncclCommDestroy");
	*(void **)&n->abort = dlsym(n->library, "ncclCommAbort");
	*(void **)&n->begin = dlsym(n->library, "ncclGroupStart");
	*(void **)&n->end = dlsym(n->library, "ncclGroupEnd");
	*(void **)&n->reduce = dlsym(n->library, "ncclReduce");
	if (!n->init || !n->destroy || !n->abort || !n->begin || !n->end || !n->reduce ||
	    n->init(n->comms, (int)c->count, numbers) != 0)
		memset(n->comms, 0, sizeof(n->comms));
	cudaGetLastError();
}

static void cards_free(void *s)
{
	struct cards *c = (struct cards *)s;
	for (size_t i = 0; c && i < c->count && c->nccl.comms[0]; i++)
		(c->is_under_way ? c->nccl.abort : c->nccl.destroy)(c->nccl.comms[i]);
	for (size_t i = 0; c && i < c->count; i++)
		plugin_free(on(c, i));
	free(c);
}

/* The i-th card that a name means, by itself: of cuda:0+2+tf32 cuda:0+tf32, then cuda:2+tf32. 0:
 * there are no more. */
static int name_one(const char *device, size_t i, char *one, size_t bytes)
{
	const char *at = strchr(device, ':'), *tf32 = strstr(device, "+tf32");
	int is_whole = !at && i == 0;
	for (; at && i > 0; i--)
		at = strchr(at + 1, '+');
	if (is_whole)
		snprintf(one, bytes, "%s", device);
	else if (at && at != tf32)
		snprintf(one, bytes, "%.4s:%.*s%s", device, (int)strcspn(at + 1, "+"), at + 1,
			 tf32 ? tf32 : "");
	return is_whole || (at && at != tf32);
}

static int cards_look(const struct model_spec *spec, const char *device, struct error *err)
{
	char one[64];
	struct error why = {};
	int there = -1;
	for (size_t i = 0; there < 0 && name_one(device, i, one, sizeof(one)); i++)
		there = plugin_look(spec, one, &why);
	return there < 0 ? cuda_error(err, why.code, why.place, "%s", why.text) : there;
}

/* Cards that can't be had are left out, unless it is all: one may have been lost. */
static int cards_open(void **s, const struct model_spec *spec, const char *device,
		      struct error *err)
{
	char one[64], without[128] = "";
	struct error why = {};
	struct cards *c = (struct cards *)calloc(1, sizeof(*c));
	if (!c)
		return cuda_error(err, ERROR_OS, "", "out of memory");
	for (size_t i = 0; c->count < MODEL_CARDS_MAX && name_one(device, i, one, sizeof(one)); i++)
		if (plugin_open(&c->card[c->count], spec, one, &why) == 0)
			c->card[c->count++]->first = c->card[0];
		else if (strlen(without) + sizeof(one) < sizeof(without))
			sprintf(without + strlen(without), ", without %s", one);
	if (c->count == 0) {
		cards_free(c);
		return cuda_error(err, why.code, why.place, "%s", why.text);
	}
	c->card[0]->first = NULL;
	nccl_open(c);
	if (c->count > 1)
		sprintf(c->about, "%zu x ", c->count);
	snprintf(c->about + strlen(c->about), sizeof(c->about) - 8, "%s%s%s",
		 c->card[0]->device.about, c->nccl.comms[0] ? ", NCCL" : "", without);
	*s = c;
	return 0;
}

static const char *cards_about(void *s)
{
	return ((struct cards *)s)->about;
}

/* As if all were like the first one. */
static size_t cards_left(void *s)
{
	struct cards *c = (struct cards *)s;
	on(c, 0);
	return device_left() * c->count;
}

/* ---- a batch ---- */

/* A batch that is too small for all is for the first one. */
static size_t users(const struct cards *c, size_t samples)
{
	return samples < c->count ? 1 : c->count;
}

static struct model_batch share(const struct cards *c, const struct model_batch *b, size_t n,
				size_t i)
{
	struct model_batch part = *b;
	size_t begin = b->count * i / n;
	part.count = b->count * (i + 1) / n - begin;
	part.offset += begin;
	part.label = b->label ? b->label + begin : NULL;
	part.weight = b->weight ? b->weight + begin : NULL;
	part.dense = b->dense ? b->dense + begin * c->card[0]->spec.dense_inputs : NULL;
	return part;
}

static int cards_begin(void *s, const struct model_load *l, struct error *err)
{
	struct cards *c = (struct cards *)s;
	for (size_t i = 0; c->is_under_way && i < c->count; i++) /* they may still work on it */
		cudaStreamSynchronize(on(c, i)->device.queue.stream);
	c->is_under_way = 1;
	c->used = l->forward_only ? 1 : users(c, l->batch->count);
	c->sums = c->used > 1 && c->nccl.comms[0];
	for (size_t i = 0; i < c->used; i++) {
		struct model_load part = *l;
		struct model_batch batch = share(c, l->batch, c->used, i), next = {};
		if (batch.next && i < users(c, batch.next->count))
			next = share(c, batch.next, users(c, batch.next->count), i);
		batch.next = &next;
		part.batch = &batch;
		if (plugin_begin(on(c, i), &part, err) != 0)
			return -1;
	}
	return 0;
}

static int cards_tell(struct cards *c, struct error *err)
{
	for (size_t i = 0; i < c->used; i++)
		if (queue_tell(&c->card[i]->device.queue, err) != 0)
			return -1;
	return 0;
}

/* Waits for this event, or with NULL until all is done. */
static int cards_wait(struct cards *c, size_t i, cudaEvent_t told, struct error *err)
{
	static const char what[] = "waiting for the card";
	struct queue *q = &c->card[i]->device.queue;
	int busy = c->sums;
	if (!busy)
		queue_keep(q, told ? cudaEventSynchronize(told) : cudaStreamSynchronize(q->stream),
			   what);
	while (busy && cards_tell(c, err) == 0) {
		for (size_t k = busy = 0; k < c->used; k++) {
			struct queue *other = &c->card[k]->device.queue;
			cudaError_t result = cudaStreamQuery(other->stream);
			busy |= result == cudaErrorNotReady;
			if (result != cudaErrorNotReady)
				queue_keep(other, result, what);
		}
		if (told && cudaEventQuery(told) == cudaSuccess)
			busy = 0;
		sched_yield();
	}
	return cards_tell(c, err);
}

/* To the first card. */
static void cards_reduce(struct cards *c)
{
	struct nccl *n = &c->nccl;
	int result = n->begin();
	for (size_t i = 0; i < c->used; i++) {
		struct plugin *p = on(c, i);
		cudaStream_t stream = p->device.queue.stream;
		result |= n->reduce(p->dense_gradient, p->dense_gradient, p->dense_count,
				    NCCL_FLOAT, NCCL_SUM, 0, n->comms[i], stream);
		result |= n->reduce(p->row_gradient, p->row_gradient, p->row_floats, NCCL_FLOAT,
				    NCCL_SUM, 0, n->comms[i], stream);
		result |= n->reduce(p->loss, p->loss, 1, NCCL_DOUBLE, NCCL_SUM, 0, n->comms[i],
				    stream);
	}
	result |= n->end();
	queue_keep(&c->card[0]->device.queue, result ? (int)cudaErrorUnknown : 0, "NCCL");
}

static void add(float *to, const float *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] += from[i];
}

/* The dense gradient comes from its end on, and each piece is told when it is there. */
static int end_dense(struct cards *c, size_t senders, const struct model_sums *sums,
		     struct error *err)
{
	size_t end = c->card[0]->dense_count, piece = c->card[0]->piece;
	for (size_t i = 0; end > 0; i++) {
		size_t count = end < piece ? end : piece;
		end -= count;
		for (size_t k = 0; k < senders; k++) {
			if (cards_wait(c, k, c->card[k]->told[i], err) != 0)
				return -1;
			add(sums->dense_gradient + end, c->card[k]->came + end, count);
		}
		if (sums->final)
			sums->final(sums->owner, end, count);
	}
	return 0;
}

static int cards_train(void *s, const struct model_sums *sums, struct error *err)
{
	struct cards *c = (struct cards *)s;
	size_t senders = c->sums ? 1 : c->used;
	for (size_t i = 0; i < c->used; i++)
		if (plugin_compute(on(c, i), err) != 0)
			return -1;
	if (cards_tell(c, err) != 0)
		return -1;
	if (c->sums)
		cards_reduce(c);
	for (size_t i = 0; i < senders; i++)
		plugin_back(on(c, i));
	for (size_t i = 0; i < c->used; i++)
		plugin_ahead(on(c, i));
	if (cards_tell(c, err) != 0 || end_dense(c, senders, sums, err) != 0)
		return -1;
	for (size_t i = 0; i < c->used; i++)
		if (cards_wait(c, i, NULL, err) != 0)
			return -1;
	c->is_under_way = 0;
	for (size_t i = 0; i < senders; i++) {
		const struct plugin *p = c->card[i];
		add(sums->row_gradient, p->came + p->dense_count, p->row_floats);
		*sums->loss += *p->loss_came;
	}
	return 0;
}

static int cards_logits(void *s, float *z, struct error *err)
{
	struct cards *c = (struct cards *)s;
	struct plugin *p = on(c, 0); /* alone */
	plugin_scores(p);
	if (cards_wait(c, 0, NULL, err) != 0)
		return -1;
	c->is_under_way = 0;
	memcpy(z, p->came, p->slot[p->now].count * p->outputs * sizeof(float));
	return 0;
}

/* The only name that the plug-in shows. */
extern "C" __attribute__((visibility("default")))
const struct model_backend paceline_model_backend = {
	MODEL_BACKEND_ABI,
	sizeof(struct model_spec),
	sizeof(struct model_batch),
	sizeof(struct error),
	cards_look,
	cards_open,
	cards_begin,
	cards_train,
	cards_logits,
	cards_free,
	cards_about,
	cards_left,
};

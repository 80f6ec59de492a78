/*
 * device: see device.h.  It must never print or end the process: what is wrong with a card goes
 * into a struct error, a clear line each.
 */
#include "model/cuda/device.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a card can't be used, another host or the CPU can: 69. */
#define CARD_MAJOR 7
#define CARD_MINOR 5

int cuda_error(struct error *err, int code, const char *place, const char *fmt, ...)
{
	va_list args;
	if (!err)
		return -1;
	err->code = code;
	snprintf(err->place, sizeof(err->place), "%s", place);
	va_start(args, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	return -1;
}

static int no_memory(struct error *err, const char *whose, size_t bytes)
{
	return cuda_error(err, ERROR_OS, "", "out of memory: %s has no %zu MiB more", whose,
			  (bytes + (1u << 20) - 1) >> 20);
}

/* ---- the queue ---- */

void queue_to_card(struct queue *q, void *to, const void *pinned, size_t bytes)
{
	if (!q->failed && bytes > 0)
		queue_keep(q, cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, q->stream),
			   "copy to the card");
}

void queue_to_host(struct queue *q, void *pinned, const void *from, size_t bytes)
{
	if (!q->failed && bytes > 0)
		queue_keep(q,
			   cudaMemcpyAsync(pinned, from, bytes, cudaMemcpyDeviceToHost, q->stream),
			   "copy from the card");
}

void queue_zero(struct queue *q, void *at, size_t bytes)
{
	if (!q->failed && bytes > 0)
		queue_keep(q, cudaMemsetAsync(at, 0, bytes, q->stream), "memset");
}

int queue_tell(const struct queue *q, struct error *err)
{
	if (!q->failed)
		return 0;
	if (q->failed == cudaErrorMemoryAllocation ||
	    q->failed == QUEUE_BLAS + CUBLAS_STATUS_ALLOC_FAILED)
		return cuda_error(err, ERROR_OS, "cuda", "%s: out of memory", q->what);
	if (q->failed >= QUEUE_BLAS)
		return cuda_error(err, ERROR_TEMPFAIL, "cuda", "%s: cuBLAS says %d", q->what,
				  q->failed - QUEUE_BLAS);
	return cuda_error(err, ERROR_TEMPFAIL, "cuda", "%s: %s", q->what,
			  cudaGetErrorString((cudaError_t)q->failed));
}

int queue_wait(struct queue *q, struct error *err)
{
	queue_keep(q, cudaStreamSynchronize(q->stream), "waiting for the card");
	return queue_tell(q, err);
}

/* ---- memory ---- */

int room_grow(struct room *r, size_t bytes, struct error *err)
{
	if (bytes <= r->bytes)
		return 0;
	room_free(r);
	r->bytes = bytes + bytes / 8; /* batches differ a little */
	if (cudaMalloc(&r->at, r->bytes) == cudaSuccess)
		return 0;
	r->bytes = bytes; /* but where memory is short, this is enough */
	if (cudaMalloc(&r->at, bytes) == cudaSuccess)
		return 0;
	cudaGetLastError(); /* it would be told again by the next launch */
	*r = {};
	return no_memory(err, "the card", bytes);
}

void room_free(struct room *r)
{
	cudaFree(r->at);
	r->at = NULL;
	r->bytes = 0;
}

int pinned_grow(struct room *r, size_t bytes, struct error *err)
{
	if (bytes <= r->bytes)
		return 0;
	pinned_free(r);
	bytes += bytes / 8;
	if (cudaHostAlloc(&r->at, bytes, cudaHostAllocDefault) != cudaSuccess) {
		cudaGetLastError();
		r->at = NULL;
		return no_memory(err, "the host, in pinned memory,", bytes);
	}
	r->bytes = bytes;
	return 0;
}

void pinned_free(struct room *r)
{
	if (r->at)
		cudaFreeHost(r->at);
	r->at = NULL;
	r->bytes = 0;
}

/* ---- the card ---- */

/* "cuda", "cuda:1", "cuda:1+tf32"; card -1: none is named. */
static int device_name(const char *name, int *card, int *tf32, struct error *err)
{
	char *end = NULL;
	const char *rest = name + 4;
	*card = -1;
	*tf32 = 0;
	if (strncmp(name, "cuda", 4) == 0 && *rest == ':' && rest[1] >= '0' && rest[1] <= '9') {
		long number = strtol(rest + 1, &end, 10);
		*card = number < 1 << 20 ? (int)number : 1 << 20;
		rest = end;
	}
	if (strncmp(name, "cuda", 4) == 0 && strcmp(rest, "+tf32") == 0)
		*tf32 = 1;
	else if (strncmp(name, "cuda", 4) != 0 || *rest)
		return cuda_error(err, ERROR_CONFIG, "device", "%s is not cuda[:NUMBER][+tf32]",
				  name);
	return 0;
}

static int device_count(const char *name, struct error *err)
{
	int driver = 0, cards = 0;
	/* Without a driver, cudaGetDeviceCount() says that it is too old. */
	if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
		return cuda_error(err, ERROR_UNAVAILABLE, name, "no NVIDIA driver on this host");
	cudaError_t result = cudaGetDeviceCount(&cards);
	if (result == cudaErrorInsufficientDriver)
		return cuda_error(err, ERROR_UNAVAILABLE, name,
				  "the NVIDIA driver is for CUDA %d.%d: too old", driver / 1000,
				  driver % 1000 / 10);
	if (result == cudaErrorNoDevice || (result == cudaSuccess && cards == 0))
		return cuda_error(err, ERROR_UNAVAILABLE, name, "no card on this host");
	if (result != cudaSuccess)
		return cuda_error(err, ERROR_UNAVAILABLE, name, "%s", cudaGetErrorString(result));
	return cards;
}

static int device_find(const char *name, int card, struct cudaDeviceProp *is, struct error *err)
{
	int cards = device_count(name, err);
	if (cards < 0)
		return -1;
	if (card >= cards)
		return cuda_error(err, ERROR_UNAVAILABLE, name, "this host has only %d %s", cards,
				  cards == 1 ? "card, cuda:0" : "cards");
	if (cudaGetDeviceProperties(is, card) != cudaSuccess)
		return cuda_error(err, ERROR_UNAVAILABLE, name, "the card does not answer");
	if (is->major * 10 + is->minor < CARD_MAJOR * 10 + CARD_MINOR)
		return cuda_error(err, ERROR_UNAVAILABLE, name,
				  "%s has compute capability %d.%d: %d.%d is the least", is->name,
				  is->major, is->minor, CARD_MAJOR, CARD_MINOR);
	return 0;
}

int device_look(const char *name, struct error *err)
{
	struct cudaDeviceProp is;
	int card, tf32, cards;
	if (device_name(name, &card, &tf32, err) != 0 || (cards = device_count(name, err)) < 0)
		return -1;
	if (card >= 0)
		return device_find(name, card, &is, err) == 0 ? cards : -1;
	for (int i = 0; i < cards; i++)
		if (device_find(name, i, &is, err) == 0)
			return cards;
	return -1;
}

size_t device_left(void)
{
	size_t left = 0, all;
	return cudaMemGetInfo(&left, &all) == cudaSuccess ? left : 0;
}

int device_open(struct device *d, const char *name, int products, struct error *err)
{
	struct cudaDeviceProp is;
	int card;
	memset(d, 0, sizeof(*d));
	if (device_name(name, &card, &d->tf32, err) != 0 ||
	    device_find(name, card = card < 0 ? 0 : card, &is, err) != 0)
		return -1;
	d->number = card;
	cudaError_t result = cudaSetDevice(card);
	if (result == cudaSuccess)
		result = cudaStreamCreateWithFlags(&d->queue.stream, cudaStreamNonBlocking);
	if (result != cudaSuccess) {
		cudaGetLastError();
		d->queue.stream = NULL;
		return cuda_error(err, ERROR_UNAVAILABLE, name, "%s", cudaGetErrorString(result));
	}
	if (products && blas_open(&d->blas, d->queue.stream, d->tf32, err) != 0) {
		device_close(d);
		return -1;
	}
	d->queue.blas = d->blas;
	snprintf(d->about, sizeof(d->about), "%.100s, %zu MiB%s", is.name, is.totalGlobalMem >> 20,
		 d->tf32 ? ", tf32" : "");
	return 0;
}

void device_close(struct device *d)
{
	blas_free(d->blas);
	if (d->queue.stream)
		cudaStreamDestroy(d->queue.stream);
	memset(d, 0, sizeof(*d));
}

/*
 * backend: the seam between a model and a device that computes it: a plug-in, a shared object that
 * defines `paceline_model_backend`.  It is loaded when a program is asked for such a device, so
 * programs and hosts without one need nothing of it.  lib/model/cuda is one.
 *
 * Parameters stay with the caller; a backend gets them with each batch, and gives gradients.  Calls
 * come from one thread, and for each batch in this order:
 *   training   begin, train
 *   scores     begin with forward_only, logits
 * After an error, the next call is begin or free.
 */
#ifndef PACELINE_MODEL_BACKEND_H
#define PACELINE_MODEL_BACKEND_H

#ifdef __cplusplus
#define _Alignas alignas
#endif
#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MODEL_BACKEND_ABI 3
#define MODEL_CARDS_MAX 16 /* in the name of a device */
#define MODEL_BACKEND_SYMBOL "paceline_model_backend"

/* What a batch is computed from. All of it is borrowed until the end of the batch. */
struct model_load {
	const struct model_batch *batch;
	size_t unique; /* rows */
	const float *dense, *rows;
	int forward_only;
};

/* Where its sums go: as in model_train(). */
struct model_sums {
	float *dense_gradient, *row_gradient; /* ADDED to */
	double *loss;                         /* ADDED to */
	model_final_fn *final; /* NULL: nobody is told; from the vector's end on */
	void *owner;
};

/* Functions return 0, or -1 with an error: ERROR_UNAVAILABLE: this host can't (no driver, no
 * library, another card); ERROR_CONFIG: no such model or device; ERROR_OS: memory runs out, a
 * smaller batch may do; ERROR_TEMPFAIL: the device answers no more. */
struct model_backend {
	uint32_t abi, spec_bytes, batch_bytes, error_bytes; /* what it was compiled with */
	/* How many cards this host has; -1: there is none on which open() could succeed, of those
	 * that `device` may mean. It takes none. */
	int (*look)(const struct model_spec *spec, const char *device, struct error *err);
	int (*open)(void **s, const struct model_spec *spec, const char *device, struct error *err);
	int (*begin)(void *s, const struct model_load *load, struct error *err);
	/* These two wait until all is computed. Where memory runs out, nothing was added. */
	int (*train)(void *s, const struct model_sums *sums, struct error *err);
	int (*logits)(void *s, float *z, struct error *err);
	void (*free)(void *s);         /* NULL is fine */
	const char *(*about)(void *s); /* "NVIDIA H100, 81559 MiB": until free */
	size_t (*left)(void *s);       /* bytes of the card's memory that nobody has; 0: not known */
};

/* Loads the plug-in of this installation, or of this build. */
int model_backend_find(const struct model_backend **out, struct error *err);

/* Loads the plug-in of that path, for as long as the program runs. ERROR_UNAVAILABLE: there is
 * none, or it is of another version. */
int model_backend_load(const char *path, const struct model_backend **out, struct error *err);
/* The last part of it: whether its structs are ours. */
int model_backend_check(const struct model_backend *b, const char *path, struct error *err);

#ifdef __cplusplus
}
#endif

#endif

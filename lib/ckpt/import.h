/*
 * import: a safetensors file as a checkpoint, the reverse of export; or anybody's file of tensors,
 * with a layout that says which of them are parameters.
 *
 * A tensor of the layout is the tensor of that name: F32, F64, F16 or BF16, its first dimension the
 * layout's rows, and as many elements.  A table is either NAME.keys (I64 or I32, [R]) and NAME.values
 * ([R, width]), or one tensor NAME whose row k is that of key k; of a table that export writes as one
 * tensor, rows that have their initial values are left out, as nobody has touched them.
 * There are no optimiser slots: they start anew.
 */
#ifndef PACELINE_CKPT_IMPORT_H
#define PACELINE_CKPT_IMPORT_H

#include "base/error.h"

#include <stdint.h>

struct ckpt_import {
	const char *file;   /* safetensors */
	const char *layout; /* path; NULL: the one in the file's metadata */
	const char *out;    /* a new directory */
	uint32_t parts;     /* 1..MAP_PARTS_MAX */
	int level;          /* of compression */
	double at;          /* seconds since 1970, for its MANIFEST */
	/* Told each tensor that the layout does not name; NULL: nobody wants to know. */
	void (*left_out)(const char *name, void *arg);
	void *arg;
};

/* On failure out is removed, or was never made. */
int ckpt_import(const struct ckpt_import *how, struct error *err);

#endif

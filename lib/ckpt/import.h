/*
 * import: makes a checkpoint of a safetensors file.  It is the reverse of export; it also takes
 * anybody's file of tensors, with a layout that says which of them are parameters.
 *
 * A tensor of the layout is read from the tensor of the same name.  That one is F32, F64, F16 or
 * BF16; its first dimension is the layout's rows, and it has as many elements.  A table is either
 * NAME.keys (I64 or I32, [R]) and NAME.values ([R, width]), or one tensor NAME whose row k is that
 * of key k.  If export writes the table as one tensor, rows with their initial values are left out:
 * they are rows that nobody has touched.  There are no optimiser slots: they start anew.
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
	/* Called with the name of each tensor that the layout does not have; or NULL. */
	void (*left_out)(const char *name, void *arg);
	void *arg;
};

/* Makes the checkpoint. If it fails, there is no directory out. */
int ckpt_import(const struct ckpt_import *how, struct error *err);

#endif

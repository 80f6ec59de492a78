/*
 * export: a checkpoint as one safetensors file (huggingface.co/docs/safetensors).  The file has the
 * length of the header in 8 bytes, a JSON header padded with blanks to a multiple of 8, and then
 * the tensors without gaps.
 *
 * Each dense tensor keeps its name.  It is F32 of shape [rows, cols], or [rows] if cols is 1.  A
 * table with export=dense is one F32 tensor of all its rows ([rows] if its width is 1); rows that
 * do not exist have their initial values.  Any other table is two tensors, NAME.keys (I64, [R]) and
 * NAME.values (F32, [R, width]), in ascending order of the key.  The keys come first in the file,
 * so that each tensor is aligned to its elements.
 *
 * The metadata have the files schema, model and layout, so that the export is enough to score with
 * (predict(1)).  Optimiser slots are not exported.
 */
#ifndef PACELINE_CKPT_EXPORT_H
#define PACELINE_CKPT_EXPORT_H

#include "ckpt/ckpt.h"

/* Writes into an empty regular file. All space is allocated before anything is written, so that a
 * full disk is an error (ERROR_IO) and not a crash. name is for the place of errors. */
int ckpt_export(struct ckpt *c, int fd, const char *name, struct error *err);

/* Writes a new file, which exists whole or not at all. ERROR_CANTCREAT: it can't be made at
 * path. */
int ckpt_export_file(struct ckpt *c, const char *path, struct error *err);

#endif

/*
 * export: a checkpoint as one safetensors file (huggingface.co/docs/safetensors): 8 bytes length of
 * the header, a JSON header padded with blanks to a multiple of 8, then the tensors without gaps.
 *
 * Every dense tensor by its name as F32, shape [rows, cols], or [rows] when cols is 1.  A table with
 * export=dense is one F32 tensor of all its rows ([rows] when its width is 1), absent rows with their
 * initial values; another table is NAME.keys (I64, [R]) and NAME.values (F32, [R, width]) in ascending
 * order of the key.  The metadata hold the files schema, model and layout, so that the export says by
 * itself how to score with it (predict(1)).  Optimiser slots stay behind.  Keys come first in the file,
 * so that each tensor is aligned to its elements.
 */
#ifndef PACELINE_CKPT_EXPORT_H
#define PACELINE_CKPT_EXPORT_H

#include "ckpt/ckpt.h"

/* Into an empty regular file. The space is taken before anything is written, so that a full disk
 * is an error (ERROR_IO) and nothing worse. name is for places. */
int ckpt_export(struct ckpt *c, int fd, const char *name, struct error *err);

/* As a file that is there whole or not at all. A path that can't be made: ERROR_CANTCREAT. */
int ckpt_export_file(struct ckpt *c, const char *path, struct error *err);

#endif

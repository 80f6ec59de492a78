/* store_file: a store as a part file of a checkpoint, and back (param/store.h). */
#ifndef PACELINE_CKPT_STORE_FILE_H
#define PACELINE_CKPT_STORE_FILE_H

#include "base/error.h"
#include "ckpt/ckpt.h"
#include "param/store.h"

#include <stdint.h>

/* Writes the part file; for a forked child. */
int store_write(const struct store *s, const char *path, uint64_t *bytes, uint64_t *sum,
		struct error *err);
/* Takes this part's share of a checkpoint, however that one was cut. *slots_lost: the optimiser's
 * slots were not there (another optimiser) and start anew. */
int store_restore(struct store *s, struct ckpt *c, int *slots_lost, struct error *err);

#endif

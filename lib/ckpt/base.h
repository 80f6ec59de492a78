/* base: checkpoints that have only some of the rows, and where the others are.  Private to the
 * room; see ckpt.h. */
#ifndef PACELINE_CKPT_BASE_H
#define PACELINE_CKPT_BASE_H

#include "ckpt/ckpt.h"

/* The MANIFEST of the base of the checkpoint in dir, beside it, if it is the one that m was made from;
 * ERROR_DATA when not: then base is empty. */
int ckpt_base_read(struct ckpt_manifest *base, const struct ckpt_manifest *m, const char *dir,
		   char path[CKPT_PATH_MAX], struct error *err);

typedef int ckpt_read_fn(void *owner, const struct part_want *want,
			 const struct stream_taker *taker, struct error *err);

/* Gives the taker those rows of the base that the checkpoint itself does not have; nothing of the
 * dense range. Needs 9 bytes for each row that the checkpoint has itself. */
int ckpt_base_rows(ckpt_read_fn *read_own, ckpt_read_fn *read_base, void *owner,
		   const struct stream_shape *shape, const struct part_want *want,
		   const struct stream_taker *taker, struct error *err);

#endif

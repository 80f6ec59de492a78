/* base: checkpoints that have only some of the rows; another checkpoint, the base, has the others.
 * Private to the room; see ckpt.h. */
#ifndef PACELINE_CKPT_BASE_H
#define PACELINE_CKPT_BASE_H

#include "ckpt/ckpt.h"

/* Reads the MANIFEST of the base of the checkpoint in dir. m is that checkpoint's own MANIFEST.
 * path gets the base's directory, which is beside dir. ERROR_DATA: the base is missing, or is not
 * the one from which m was made; then *base is empty. */
int ckpt_base_read(struct ckpt_manifest *base, const struct ckpt_manifest *m, const char *dir,
		   char path[CKPT_PATH_MAX], struct error *err);

typedef int ckpt_read_fn(void *owner, const struct part_want *want,
			 const struct stream_taker *taker, struct error *err);

/* Gives the taker those rows of the base that the checkpoint does not have itself, and nothing of
 * the dense range. owner is for read_own and read_base. Needs 9 bytes for each row that the
 * checkpoint has itself. */
int ckpt_base_rows(ckpt_read_fn *read_own, ckpt_read_fn *read_base, void *owner,
		   const struct stream_shape *shape, const struct part_want *want,
		   const struct stream_taker *taker, struct error *err);

#endif

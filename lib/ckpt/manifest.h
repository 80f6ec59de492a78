/* manifest: what the room's files share about MANIFEST.  Private to the room; see ckpt.h. */
#ifndef PACELINE_CKPT_MANIFEST_H
#define PACELINE_CKPT_MANIFEST_H

#include "ckpt/ckpt.h"

#define CKPT_MANIFEST "MANIFEST"

/* Whether a file of the checkpoint is there with its length. */
int ckpt_check_length(const char *dir, const struct ckpt_file *f, struct error *err);

/* As ckpt_write_part(), into an open file; fd -1: one that is made at path. */
int ckpt_write_part_in(const struct store *s, int fd, const char *path, uint32_t since, int level,
		       uint64_t *bytes, uint64_t *sum, struct error *err);
/* Reads part i from this file from now on, if it is of the same shape. */
int ckpt_replace_part(struct ckpt *c, uint32_t i, const char *path);
/* As many threads as there are cores; NULL when there is one, or no memory: then one does it all. To
 * be freed. */
struct team *ckpt_team(void);

#endif

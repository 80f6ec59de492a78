/* manifest: what the room's files share about MANIFEST.  Private to the room; see ckpt.h. */
#ifndef PACELINE_CKPT_MANIFEST_H
#define PACELINE_CKPT_MANIFEST_H

#include "ckpt/ckpt.h"

#define CKPT_MANIFEST "MANIFEST"

/* Checks that a file of the checkpoint exists and has its length. */
int ckpt_check_length(const char *dir, const struct ckpt_file *f, struct error *err);

/* Like ckpt_write_part(), but into an open file; fd -1: into a new one at path. */
int ckpt_write_part_in(const struct store *s, int fd, const char *path, uint32_t since, int level,
		       uint64_t *bytes, uint64_t *sum, struct error *err);
/* From now on part i is read from this file, if it has the same shape. */
int ckpt_replace_part(struct ckpt *c, uint32_t i, const char *path);
/* As many threads as there are cores. NULL: there is one core, or no memory; then the caller does
 * all the work. To be freed. */
struct team *ckpt_team(void);

#endif

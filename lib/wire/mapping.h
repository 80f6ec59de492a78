/*
 * mapping: memory that a client and its server share for payloads: a descriptor (memfd_create(2),
 * sealed against shrinking) that went over the socket.
 */
#ifndef PACELINE_WIRE_MAPPING_H
#define PACELINE_WIRE_MAPPING_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Reference counted; not for several threads at once. */
struct mapping {
	size_t references;
	char *base;
	size_t bytes;
};

/* Memory that another process has made: fd stays the caller's. -1: ERROR_DATA when the memory can't
 * be trusted. */
int mapping_new(struct mapping **out, int fd, uint64_t bytes, struct error *err);
/* New memory, all zero; pass *fd on to the other process. */
int mapping_make(struct mapping **out, int *fd, uint64_t bytes, struct error *err);
void mapping_release(struct mapping *m); /* NULL is fine */
/* NULL when the range is not inside, or offset is not a multiple of 8; m may be NULL. */
void *mapping_at(const struct mapping *m, uint64_t offset, uint64_t bytes);

#endif

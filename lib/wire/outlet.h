/*
 * outlet: records and bulk to one client, in order, by a process that does nothing else meanwhile.
 * Parameters are written from where they lie; small pieces are gathered.  Every pause of the other
 * side ends: OUTLET_SECONDS without a byte taken is an error.
 */
#ifndef PACELINE_WIRE_OUTLET_H
#define PACELINE_WIRE_OUTLET_H

#include "base/error.h"
#include "record/record.h"

#include <stddef.h>

#define OUTLET_SECONDS 20.0

struct outlet;

/* fd: non-blocking, the caller's. */
int outlet_new(struct outlet **out, int fd, struct error *err);
void outlet_free(struct outlet *o); /* NULL is fine; what was not flushed is lost */

int outlet_put(struct outlet *o, const void *data, size_t len, struct error *err);
int outlet_record(struct outlet *o, struct record_out *r, struct error *err); /* record_end(r, NULL) */
int outlet_flush(struct outlet *o, struct error *err);
/* After a flush: one line of the client, at most max-1 bytes, without its newline. */
int outlet_listen(struct outlet *o, char *line, size_t max, struct error *err);

#endif

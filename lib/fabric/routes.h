/*
 * routes: which daemon of a job lives on which host.
 *
 *     route socket=shardd.sock host=alpha
 */
#ifndef PACELINE_FABRIC_ROUTES_H
#define PACELINE_FABRIC_ROUTES_H

#include "base/most.h"
#include "base/option.h"
#include "fabric/world.h"

#define ROUTES_TEXT_MAX MOST_ROUTES_BYTES

struct route {
	char socket[OPTION_ID_MAX]; /* a name in the directory of the job's sockets */
	char host[WORLD_HOST_MAX];
};

/* All zero at first. */
struct routes {
	struct route *at;
	size_t count, room;
};

/* Records of other types are ignored. place: where the text is from. -1: ERROR_CONFIG; *r is
 * unchanged. */
int routes_read(struct routes *r, const char *text, size_t len, const char *place,
		struct error *err);
const struct route *routes_find(const struct routes *r, const char *socket); /* or NULL */
void routes_clear(struct routes *r);

#endif

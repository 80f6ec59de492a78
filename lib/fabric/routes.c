/* routes: see routes.h. */
#include "fabric/routes.h"

#include "base/grow.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void routes_clear(struct routes *r)
{
	free(r->at);
	*r = (struct routes){0};
}

const struct route *routes_find(const struct routes *r, const char *socket)
{
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->at[i].socket, socket) == 0)
			return &r->at[i];
	return NULL;
}

static int routes_add(struct routes *r, const struct record *record, struct error *err)
{
	const char *socket, *host;
	if (record_id(record, "socket", &socket, err) != 0 ||
	    record_id(record, "host", &host, err) != 0)
		return -1;
	if (strcmp(socket, "fabric.sock") == 0)
		return error_set(err, ERROR_DATA, NULL, "socket=%s is every fabricd's own", socket);
	if (routes_find(r, socket))
		return error_set(err, ERROR_DATA, NULL, "socket=%s has two routes", socket);
	if (GROW(r->at, r->room, r->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	struct route *new = &r->at[r->count++];
	snprintf(new->socket, sizeof new->socket, "%s", socket);
	snprintf(new->host, sizeof new->host, "%s", host);
	return 0;
}

/* Adds the line to an error of the text. */
static int routes_read_all(struct routes *r, struct record_walk *walk, struct record *record,
			   const char *place, struct error *err)
{
	char where[ERROR_PLACE_MAX];
	int got;
	while ((got = record_next(walk, record, err)) == RECORD_ONE)
		if (record_is(record, "route") && (got = routes_add(r, record, err)) != 0)
			break;
	if (got != -1)
		return 0;
	if (err && err->code == ERROR_DATA) {
		snprintf(where, sizeof where, "%s:%llu", place, (unsigned long long)walk->number);
		error_wrap(err, where);
		err->code = ERROR_CONFIG;
	}
	return -1;
}

int routes_read(struct routes *r, const char *text, size_t len, const char *place,
		struct error *err)
{
	struct routes all = {0};
	struct record_walk walk = record_walk(text, len);
	if (len > ROUTES_TEXT_MAX)
		return error_set(err, ERROR_CONFIG, place, "%zu bytes of routes: at most %d", len,
				 ROUTES_TEXT_MAX);
	struct record *record = malloc(sizeof *record);
	if (!record)
		return error_set(err, ERROR_OS, place, "out of memory");
	int result = routes_read_all(&all, &walk, record, place, err);
	free(record);
	if (result != 0) {
		routes_clear(&all);
		return -1;
	}
	routes_clear(r);
	*r = all;
	return 0;
}

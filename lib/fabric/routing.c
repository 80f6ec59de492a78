/* routing: see routing.h. Messages between two ranks keep their order: versions come in order. */
#include "fabric/routing.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE_BYTES 32768 /* bytes of a text in one message of the world */

enum kind {
	KIND_MORE,   /* a piece of the text of a message that follows */
	KIND_SET,    /* to rank 0, with records */
	KIND_REREAD, /* to rank 0 */
	KIND_NOW,    /* from rank 0 to all, with records */
	KIND_TAKEN,  /* to rank 0: this version is in force here */
	KIND_DONE    /* to the rank that asked; with a text: it was refused */
};

struct head {
	uint64_t kind, number; /* of the request; a version for NOW and TAKEN */
};

/* A request of a client here. */
struct asked {
	struct asked *next;
	uint64_t number;
	routing_done_fn *done;
	void *arg;
};

/* At rank 0: the client to answer when all ranks have this version. */
struct waiting {
	struct waiting *next;
	unsigned rank;
	uint64_t number, version;
};

/* The pieces of a text that have come from one rank. */
struct pieces {
	char *text;
	size_t len, room;
};

struct routing {
	struct routing_options options;
	struct pieces *pieces; /* by rank */
	unsigned ranks;
	struct asked *asked;
	uint64_t last_number;
	/* rank 0 */
	uint64_t version, *taken; /* by rank */
	struct waiting *waiting;
};

/* Whoever waits for a message that can't be sent waits forever, and some ranks would have other routes
 * than others: -1, and the world ends. */
static int routing_say(struct routing *r, unsigned rank, enum kind kind, uint64_t number,
		       const char *text, size_t len)
{
	struct head head = {.kind = kind, .number = number};
	const struct head more = {.kind = KIND_MORE};
	int result = 0;
	for (; len > PIECE_BYTES && result == 0; text += PIECE_BYTES, len -= PIECE_BYTES)
		result = world_tell(r->options.world, rank, WORLD_ROUTES, &more, sizeof more, text,
				    PIECE_BYTES);
	if (result == 0)
		result = world_tell(r->options.world, rank, WORLD_ROUTES, &head, sizeof head, text,
				    len);
	if (result != 0)
		r->options.broken(r->options.owner);
	return result;
}

/* ---- rank 0 ---- */

static void tell_those_done(struct routing *r)
{
	uint64_t least = UINT64_MAX;
	for (unsigned i = 0; i < world_size(r->options.world); i++)
		least = r->taken[i] < least ? r->taken[i] : least;
	for (struct waiting **at = &r->waiting; *at;) {
		struct waiting *w = *at;
		if (w->version > least) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		(void)routing_say(r, w->rank, KIND_DONE, w->number, NULL, 0);
		free(w);
	}
}

/* Sends to all ranks, itself included. -1: err says why not. */
static int put_in_force(struct routing *r, const char *text, size_t len, const char *place,
			struct error *err)
{
	struct routes routes = {0};
	if (routes_read(&routes, text, len, place, err) != 0)
		return -1;
	for (size_t i = 0; i < routes.count; i++)
		if (world_find(r->options.world, routes.at[i].host) < 0)
			log_say(LOG_LEVEL_WARNING, "%s: socket=%s: there is no host %s in this world",
				place, routes.at[i].socket, routes.at[i].host);
	routes_clear(&routes);
	r->version++;
	for (unsigned i = 0; i < world_size(r->options.world); i++)
		if (routing_say(r, i, KIND_NOW, r->version, text, len) != 0)
			return error_set(err, ERROR_OS, place, "out of memory");
	return 0;
}

/* A pipe would block this rank until it has a writer, and the others would take it for dead. */
static int routing_read_file(struct routing *r, struct error *err)
{
	char *text;
	size_t len;
	struct stat st;
	if (stat(r->options.file, &st) == 0 && !S_ISREG(st.st_mode))
		return error_set(err, ERROR_CONFIG, r->options.file, "is no regular file");
	if (fs_read_file(r->options.file, ROUTES_TEXT_MAX, &text, &len, err) != 0)
		return -1;
	int result = put_in_force(r, text, len, r->options.file, err);
	free(text);
	return result;
}

static void on_set(struct routing *r, unsigned rank, uint64_t number, const char *text, size_t len)
{
	struct error why = {0};
	char said[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	struct waiting *w = malloc(sizeof *w);
	int result = w ? put_in_force(r, text, len, "routes", &why)
		       : error_set(&why, ERROR_OS, NULL, "out of memory");
	if (result == 0) {
		*w = (struct waiting){r->waiting, rank, number, r->version};
		r->waiting = w;
		return;
	}
	free(w);
	error_format(&why, said, sizeof said);
	(void)routing_say(r, rank, KIND_DONE, number, said, strlen(said));
}

static void on_reread(struct routing *r)
{
	struct error why;
	char said[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	if (!r->options.file) {
		log_say(LOG_LEVEL_WARNING, "there is no routes file to read again");
	} else if (routing_read_file(r, &why) != 0) {
		error_format(&why, said, sizeof said);
		log_say(LOG_LEVEL_ERROR, "%s: the old routes stay in force", said);
	}
}

/* ---- every rank ---- */

static void on_now(struct routing *r, uint64_t version, const char *text, size_t len)
{
	struct routes routes = {0};
	struct error why;
	if (routes_read(&routes, text, len, "routes", &why) != 0) {
		log_say(LOG_LEVEL_ERROR, "%s", why.text); /* no memory: rank 0 has read them */
		r->options.broken(r->options.owner);
		return;
	}
	relay_set_routes(r->options.relay, &routes);
	(void)routing_say(r, 0, KIND_TAKEN, version, NULL, 0);
}

static void routing_on_done(struct routing *r, uint64_t number, const char *text, size_t len)
{
	char why[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	struct asked **at = &r->asked;
	while (*at && (*at)->number != number)
		at = &(*at)->next;
	if (!*at)
		return;
	struct asked *a = *at;
	*at = a->next;
	snprintf(why, sizeof why, "%.*s", (int)len, text);
	a->done(len > 0 ? why : NULL, a->arg);
	free(a);
}

static int keep_piece(struct pieces *p, const char *text, size_t len)
{
	if (p->len + len > ROUTES_TEXT_MAX || GROW(p->text, p->room, p->len + len) != 0)
		return -1;
	memcpy(p->text + p->len, text, len);
	p->len += len;
	return 0;
}

static void on_whole(struct routing *r, unsigned rank, const struct head *h, const char *text,
		     size_t len)
{
	switch ((enum kind)h->kind) {
	case KIND_MORE:
		break;
	case KIND_SET:
		on_set(r, rank, h->number, text, len);
		break;
	case KIND_REREAD:
		on_reread(r);
		break;
	case KIND_NOW:
		on_now(r, h->number, text, len);
		break;
	case KIND_TAKEN:
		r->taken[rank] = h->number;
		tell_those_done(r);
		break;
	case KIND_DONE:
		routing_on_done(r, h->number, text, len);
		break;
	}
}

/* A text of several pieces counts only if all were kept: its last piece alone would be other
 * routes. */
static void routing_on_message(unsigned rank, const void *data, size_t bytes, void *routing)
{
	struct routing *r = routing;
	struct head h;
	if (bytes < sizeof h)
		return;
	memcpy(&h, data, sizeof h);
	const char *text = (const char *)data + sizeof h;
	size_t len = bytes - sizeof h;
	struct pieces *p = &r->pieces[rank];
	if (p->len == 0 && h.kind != KIND_MORE) {
		on_whole(r, rank, &h, text, len);
		return;
	}
	if (keep_piece(p, text, len) != 0) {
		log_say(LOG_LEVEL_ERROR, "routes of rank %u: too long, or out of memory", rank);
		p->len = ROUTES_TEXT_MAX; /* so everything that belongs to it is gone, too */
		r->options.broken(r->options.owner);
		if (h.kind == KIND_MORE)
			return;
	} else if (h.kind != KIND_MORE)
		on_whole(r, rank, &h, p->text, p->len);
	else
		return;
	free(p->text);
	*p = (struct pieces){0};
}

uint64_t routing_set(struct routing *r, const char *text, size_t len, routing_done_fn *done,
		     void *arg, struct error *err)
{
	struct asked *a = malloc(sizeof *a);
	if (len > ROUTES_TEXT_MAX) {
		error_set(err, ERROR_DATA, "routes", "%zu bytes: at most %d", len, ROUTES_TEXT_MAX);
	} else if (!a || routing_say(r, 0, KIND_SET, r->last_number + 1, text, len) != 0) {
		error_set(err, ERROR_OS, "routes", "out of memory");
	} else {
		*a = (struct asked){r->asked, ++r->last_number, done, arg};
		r->asked = a;
		return a->number;
	}
	free(a);
	return 0;
}

void routing_forget(struct routing *r, uint64_t number)
{
	struct asked **at = &r->asked;
	while (*at && (*at)->number != number)
		at = &(*at)->next;
	if (!*at)
		return;
	struct asked *a = *at;
	*at = a->next;
	free(a);
}

void routing_reread(struct routing *r)
{
	(void)routing_say(r, 0, KIND_REREAD, 0, NULL, 0);
}

int routing_new(struct routing **out, const struct routing_options *options, struct error *err)
{
	struct routing *r = calloc(1, sizeof *r);
	if (!r)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	r->options = *options;
	r->ranks = world_size(options->world);
	r->taken = calloc(world_size(options->world), sizeof *r->taken);
	r->pieces = calloc(r->ranks, sizeof *r->pieces);
	int result = r->taken && r->pieces ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	if (result == 0) {
		world_on(options->world, WORLD_ROUTES, routing_on_message, r);
		if (world_rank(options->world) == 0 && options->file)
			result = routing_read_file(r, err);
	}
	if (result == 0)
		*out = r;
	else
		routing_free(r);
	return result;
}

void routing_free(struct routing *r)
{
	if (!r)
		return;
	while (r->asked) {
		struct asked *a = r->asked;
		r->asked = a->next;
		free(a);
	}
	while (r->waiting) {
		struct waiting *w = r->waiting;
		r->waiting = w->next;
		free(w);
	}
	for (unsigned i = 0; r->pieces && i < r->ranks; i++) /* the world may be gone */
		free(r->pieces[i].text);
	free(r->pieces);
	free(r->taken);
	free(r);
}

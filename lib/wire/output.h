/*
 * output: bytes on their way to a non-blocking socket, as a chain of chunks.
 *
 * Small pieces share a chunk (from a pool: nothing is allocated per answer), large ones get a
 * chunk of their own, and borrowed ones are not copied at all.  An empty output owns no memory, so
 * that thousands of idle connections cost nothing here.
 *
 * libevent's evbuffer does nearly the same, and was tried: an answer of 43 bytes took 25 ns in
 * place of 10, one behind an open request 60 in place of 10; it can't say which bytes are borrowed
 * (a client is closed for the others), and its writes raise SIGPIPE.
 */
#ifndef PACELINE_WIRE_OUTPUT_H
#define PACELINE_WIRE_OUTPUT_H

#include <stddef.h>

struct chunk;

/* Free chunks, shared by all outputs of one server or peer. Zeroed at first. */
struct chunk_pool {
	struct chunk *free;
	size_t count;
};

struct output {
	struct chunk *first, *last;
	size_t bytes;  /* all that waits */
	size_t copied; /* how many of these are in our own memory */
};

void chunk_pool_clear(struct chunk_pool *pool);

/* -1: out of memory, nothing was added. */
int output_put(struct output *o, struct chunk_pool *pool, const void *data, size_t len);
/* Room for len bytes in one piece at the end (NULL: out of memory). Fill it; output_commit() then
 * makes the bytes really used a part of the output. */
char *output_reserve(struct output *o, struct chunk_pool *pool, size_t len);
void output_commit(struct output *o, size_t used);
/* Like output_put(), with a descriptor that goes with the first of these bytes. It stays the
 * caller's, and may be closed at once. -1 also if there are no more descriptors. */
int output_put_with(struct output *o, struct chunk_pool *pool, const void *data, size_t len,
		    int pass);
/* Borrowed bytes; release(arg) is called when they are written or dropped (at once when this
 * returns -1). */
int output_put_ref(struct output *o, struct chunk_pool *pool, const void *data, size_t len,
		   void (*release)(void *arg), void *arg);
/* Moves all of `from` behind `to`. */
void output_move(struct output *to, struct output *from, struct chunk_pool *pool);
void output_clear(struct output *o, struct chunk_pool *pool);

enum output_result { OUTPUT_DONE = 0, OUTPUT_BLOCKED = 1 };
/* Writes until nothing is left, or the socket takes no more or has taken enough for one turn: in
 * both cases wait until it is writable. -1 with errno: the peer is gone. */
int output_write(struct output *o, struct chunk_pool *pool, int fd);

#endif

/*
 * framer: cuts a stream of bytes into lines and the payloads that follow them.
 *
 * It knows no descriptor and owns no buffer.  The reader lends it a buffer, reads to where
 * framer_pieces() says, tells framer_came() how much came, and takes lines and payloads until no
 * whole one is left.  A server lends one buffer to each client in turn; between its turns a client
 * keeps the bytes that are left, often none.
 */
#ifndef PACELINE_RECORD_FRAMER_H
#define PACELINE_RECORD_FRAMER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct framer {
	char *data; /* the buffer lent, or `kept` */
	size_t room, begin, end;
	uint64_t due;  /* bytes of a payload that come before the next line */
	size_t direct; /* how many of them the present read may take */
	char *kept;    /* memory of its own */
	size_t kept_room;
};

/* Lends a buffer with more room than was kept, and moves what was kept there. *f is all zero at
 * first. */
void framer_lend(struct framer *f, char *data, size_t room);
/* Takes the buffer back: what is left moves to memory of its own. -1: there is none. */
int framer_return(struct framer *f);
/* Forgets all. */
void framer_clear(struct framer *f);

/* Bytes that have come and were not taken yet. */
static inline size_t framer_left(const struct framer *f)
{
	return f->end - f->begin;
}

/* Where the next read goes; returns how many pieces (0: the buffer is full). If a payload is due
 * and none of it is in the buffer, the read goes directly to `to`, `bytes` at most. */
size_t framer_pieces(struct framer *f, void *to, size_t bytes, struct iovec piece[2]);
/* n bytes have come there. */
void framer_came(struct framer *f, size_t n);

enum framer_found { FRAMER_LONG = -1, FRAMER_MORE = 0, FRAMER_LINE = 1 };

/* The next line, without its newline, valid until the next read; FRAMER_MORE: it is not whole yet.
 * FRAMER_LONG: with its newline it has more than max bytes; nothing was taken. Not while a payload
 * is due. */
enum framer_found framer_line(struct framer *f, size_t max, const char **line, size_t *len);
/* Whether a whole line is there. */
int framer_has_line(const struct framer *f);

/* Call when the last line announced a payload. */
static inline void framer_expect(struct framer *f, uint64_t bytes)
{
	f->due = bytes;
}

/* Moves bytes of the payload that are there, at most `bytes`, to `to` (NULL: throws them away);
 * returns how many. */
size_t framer_take(struct framer *f, void *to, size_t bytes);

#endif

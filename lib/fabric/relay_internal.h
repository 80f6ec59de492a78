/*
 * relay_internal: what the files of the relay share: relay.c (listening, who is who, messages),
 * relay_link.c (what goes to one host), relay_sum.c (what is summed before that), relay_far.c (sums
 * from host to host), relay_read.c and relay_write.c (one conversation's socket).
 *
 * The relay owns listeners, links and conversations.  A conversation that is over is taken out of
 * the table and closed; its memory is freed when nothing points to it any more: `held` counts the
 * lists of those that wait, and the chunks that MPI reads or writes.
 */
#ifndef PACELINE_FABRIC_RELAY_INTERNAL_H
#define PACELINE_FABRIC_RELAY_INTERNAL_H

#include "base/u64map.h"
#include "fabric/relay.h"
#include "record/framer.h"
#include "record/record.h"
#include "wire/mapping.h"
#include "wire/transport.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <xxhash.h>

#define READ_ROOM (64 * 1024)
#define DATA_MAX (32 * 1024)               /* of a stream, in one message */
#define CONVERSATION_WINDOW (256 * 1024)
#define LINK_WINDOW (4 * 1024 * 1024)
#define LINK_ACK (256 * 1024)
#define CHUNK_BYTES (512 * 1024)
#define CHUNKS_MAX 4                       /* of one link, on their way */
#define SMALL_BYTES (16 * 1024)            /* a larger payload in memory goes as chunks */
#define FAR_SECONDS 3.0                    /* until sums of other hosts go on coming */

/* The kind of a message; its fields and data follow. */
enum kind {
	KIND_OPEN,   /* data: the name of the socket */
	KIND_DATA,   /* of the stream; with `pass`, its first byte carries the mirror's descriptor */
	KIND_MAP,    /* the client shares `bytes` of memory */
	KIND_SMALL,  /* data: a payload, at `offset` of the memory */
	KIND_CHUNK,  /* `bytes` for `offset` of the memory come as bulk with this tag; data: of the
		      * stream, behind them */
	KIND_COPY,   /* they are there already, in the memory of another client; data: struct copy */
	KIND_LACK,   /* no, they are not: send them */
	KIND_CREDIT, /* `bytes` of the stream have been taken */
	KIND_SHUT,   /* the stream has ended; the other direction goes on */
	KIND_GONE,   /* the client or daemon at this end has gone */
	KIND_SUM,    /* begins a conversation that carries a sum; data: struct far */
	KIND_SUMMED, /* it was added; `offset`: the number of the whole sum */
	KIND_ACK     /* of a link, not of a conversation: `bytes` were handled */
};

struct head {
	uint16_t kind, pass;
	uint32_t origin; /* the rank where the conversation began, and its number there */
	uint64_t number;
	uint64_t offset, bytes;
	uint32_t tag, zero;
};

/* Where the same bytes are, and what they must be. */
struct copy {
	uint64_t number; /* of the other conversation */
	uint64_t offset; /* in its memory */
	XXH128_hash_t hash;
};

/* Which sum it belongs to, and of how many pushes it is. */
struct far {
	uint64_t socket, group, members, here, dense_bytes;
};

/* Waits for its turn at the socket. */
struct piece {
	struct piece *next;
	size_t begin, end; /* of data */
	int is_chunk;      /* no data: what follows waits until the chunk is there */
	int is_here;
	int passes;        /* the mirror's descriptor, with the first byte */
	int lacks;         /* a copy that failed: its chunk was asked for */
	uint64_t offset, bytes;            /* of a copy, in the memory */
	struct copy copy;
	struct piece *copy_next;
	struct conversation *held;         /* while the chunk comes: the memory is there */
	struct conversation *conversation; /* NULL: it is over */
	char data[];
};

struct conversation {
	struct relay *relay;
	struct link *link; /* to the other side */
	uint64_t number;
	uint32_t origin;
	unsigned is_near : 1;  /* its client is here; else its daemon */
	unsigned is_over : 1;
	unsigned read_end : 1; /* its socket is at the end of input */
	unsigned said_end : 1; /* and the other side knows */
	unsigned deaf : 1;     /* its socket takes no more */
	unsigned blocked : 1;  /* for now */
	unsigned shut : 1;     /* the other side's stream has ended */
	unsigned was_shut : 1; /* and its socket was told */
	unsigned gone : 1;     /* and reads no more */
	unsigned drained : 1;  /* then: all that its daemon had to say was thrown away */
	unsigned has_more : 1; /* its socket, that nothing is to be read from now */
	unsigned waits_link : 1, waits_bulk : 1, resuming : 1;
	unsigned is_sum : 1;   /* it has no sockets, and carries a sum (relay_far.c) */
	short watched;
	int fd; /* -1: not connected yet */
	int passed_fd, mirror_fd;
	size_t held;
	double connect_until;
	struct event event;
	/* reading */
	struct framer in;
	int64_t window; /* how many more bytes may be sent */
	struct mapping *mapping;
	uint64_t bulk_offset, bulk_bytes; /* still to be sent, and then `line` */
	uint64_t bulk_at;                 /* where that payload begins */
	XXH128_hash_t *hash;              /* of the chunks of the payload that were sent or copied */
	size_t hashes, hash_room;
	uint64_t like; /* the conversation whose chunks may be the same; 0: none */
	uint64_t lack_offset, lack_bytes; /* to be sent, as they could not be copied */
	char *line; /* that names it, perhaps with others before it */
	size_t line_len;
	/* a push that may be summed with others (relay_sum.c) */
	uint64_t socket;  /* a hash of its name */
	uint64_t group, members, dense_bytes;
	uint64_t here;       /* so many of the members are on this host */
	int at;              /* the rank that sums all; -1: this one, those that are here */
	double parked_until; /* 0: it is not parked */
	struct conversation *carrier; /* takes it to another host, in a sum; NULL: it does not */
	const struct conversation *sum_lead; /* of the sum that it is being added to; NULL: none */
	float *sum;
	size_t sum_room;
	uint64_t sum_at, sum_bytes; /* this part of the payload comes from there */
	uint64_t shift;             /* the payload begins so much later in the memory */
	size_t flying;              /* chunks */
	struct conversation *park_next, *link_next, *bulk_next, *resume_next, *connect_next;
	/* writing */
	struct piece *first, *last;
	size_t kept, taken; /* bytes that wait; bytes written and not yet credited */
	size_t coming;        /* chunks */
	uint64_t named, came; /* bytes of a sum: of chunks that were named; that are here */
	struct piece *copies; /* of others, from its memory, when no chunk is coming */
};

struct queue {
	struct conversation *first, *last;
};

/* Everything that goes to one rank. */
struct link {
	struct relay *relay;
	unsigned rank;
	size_t flying; /* bytes of messages that were not acknowledged */
	size_t looked; /* bytes that came and were not yet acknowledged */
	struct queue waiting; /* until flying is less */
	struct queue bulk;    /* with chunks to send */
	unsigned chunks, tag;
	unsigned mirrors; /* of clients there, here */
};

struct listener {
	struct relay *relay;
	struct route route;
	struct transport_listener at;
	char *path;
	struct event *event;
	int told; /* why it can't be listened at */
};

struct relay {
	struct relay_options options;
	struct routes routes;
	struct listener **listener;
	size_t listener_count, listener_room;
	struct link *link; /* by rank */
	unsigned link_count;
	struct u64map all; /* conversations by conversation_key() */
	struct conversation *connecting;
	struct queue resume;
	struct event *work;
	struct timer *retry, *unpark, *sum;
	struct conversation *parked;
	struct conversation *guests;  /* sums that came from other hosts */
	struct conversation *summing; /* the lead of the sum that is being made; NULL: none */
	size_t summed;                /* floats of it */
	uint64_t sums;
	uint64_t last_number;
	struct relay_counts counts;
	struct record record;
	char input[READ_ROOM + RECORD_LINE_MAX];
	char out[DATA_MAX]; /* of the stream that is being read */
	size_t out_len;
	int stopped;
};

/* relay.c */
struct conversation *relay_find(const struct relay *relay, uint32_t origin, uint64_t number);
/* NULL: out of memory. */
struct conversation *conversation_new(struct relay *relay, unsigned rank, uint32_t origin,
				      uint64_t number);
/* Tells the other side and closes: nothing comes from there any more. */
void conversation_leave(struct conversation *c);
/* Closes only. */
void conversation_end(struct conversation *c);
void conversation_hold(struct conversation *c);
void conversation_release(struct conversation *c);
void conversation_watch(struct conversation *c);
/* Reads from it again soon, from the loop. */
void conversation_resume_later(struct conversation *c);

/* relay_link.c */
/* -1: out of memory. link_tell() fills in whose it is. */
int link_say(struct link *l, const struct head *head, const void *data, size_t bytes);
int link_tell(struct conversation *c, struct head head, const void *data, size_t bytes);
int link_is_full(const struct link *l);
void link_wait(struct conversation *c);  /* until it is not full */
void link_bulk(struct conversation *c);  /* its chunks, in turn with those of others */
/* Sends a chunk that the other side could not copy. */
void link_lacked(struct conversation *c, uint64_t offset, uint64_t bytes);
void link_heard(struct link *l, size_t bytes);
void link_acked(struct link *l, size_t bytes);
/* Receives and drops bulk that is on its way and not wanted any more. */
void link_swallow(struct link *l, unsigned tag, size_t bytes);

/* relay_sum.c */
/* A push of a group, whose record is in relay->record: keeps it until the others are here. 0: it
 * goes as it is. */
int relay_sum_park(struct conversation *c, const char *line, size_t len, uint64_t offset,
		   uint64_t bytes);
void relay_sum_forget(struct conversation *c);
void relay_sum_on_time(void *relay);
void relay_sum_step(void *relay);
/* It goes to its server: with the dense gradient of all in this sum, or without one. */
void relay_sum_send(struct conversation *c, int leads, uint64_t number);
void relay_sum_unpark(struct conversation *c);

/* relay_far.c */
/* Takes the sum of the pushes whose sum_lead this is to the host that sums all. -1: it can't. */
int relay_far_carry(struct conversation *lead);
void relay_far_open(struct relay *relay, unsigned rank, const struct head *h, const void *data,
		    size_t bytes);
void relay_far_came(struct conversation *guest);
void relay_far_summed(struct conversation *carrier, uint64_t number);
void relay_far_forget(struct conversation *c);
void relay_far_on_time(struct relay *relay, double now);
/* Whether all of a guest is here, and it is part of c's sum. */
int relay_far_is_mate(const struct conversation *c, const struct conversation *guest);

/* relay_read.c */
/* Keeps what is to be said, and this line behind it, until its payload has gone. -1: out of
 * memory. */
int conversation_keep_line(struct conversation *c, const char *line, size_t len);
/* It was sent. */
void conversation_said_line(struct conversation *c);
/* Lines that have come behind it go with it. 0: they can't, as a payload may be among them. */
int conversation_keep_rest(struct conversation *c);
void conversation_read(struct conversation *c);
void conversation_resume(struct conversation *c);
int conversation_reads(const struct conversation *c); /* whether it waits for input */
int conversation_drains(const struct conversation *c); /* and nobody hears it */

/* relay_write.c */
void conversation_take(struct conversation *c, const char *data, size_t bytes, int passes);
void conversation_take_chunk(struct conversation *c, const struct head *h);
void conversation_take_copy(struct conversation *c, const struct head *h, const struct copy *copy);
void conversation_write(struct conversation *c); /* what can be written now */
void conversation_drop_pieces(struct conversation *c);

#endif

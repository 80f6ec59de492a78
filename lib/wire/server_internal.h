/*
 * server_internal: what the files of the server (server.c, connection.c, input.c, request.c,
 * payload.c, verbs.c) share.  Nobody else includes this.
 *
 * Who owns what: the server owns connections; a connection owns its requests, its output and the
 * payload that is being read; a request owns one reference to its payload.  Nothing is freed while
 * a handler could still hold it: connections go only in server_turn(), when no handler runs.
 */
#ifndef PACELINE_WIRE_SERVER_INTERNAL_H
#define PACELINE_WIRE_SERVER_INTERNAL_H

#include "record/framer.h"
#include "wire/mapping.h"
#include "wire/output.h"
#include "wire/server.h"
#include "wire/transport.h"

#include <event2/event.h>
#include <event2/event_struct.h>

#define INPUT_ROOM (64 * 1024 + RECORD_LINE_MAX) /* one read, behind what was left of the last */
#define DISCARD_BYTES_MAX (1024 * 1024)          /* of a payload that nobody wants */
#define OPEN_MAX 1024                            /* requests of one client without an answer */
#define UNREAD_PAUSE (256 * 1024) /* with this much unread, no further request is taken */

/* Requests that were begun: half a line, a payload that is still to come. */
#define BEGUN_RATE (1024 * 1024) /* the deadline is a second longer for so many bytes */
#define BEGUN_LOOKS 12           /* so many looks are in the deadline of a short one */
#define PAYLOADS_BYTES_MAX (256u << 20) /* of all clients' payloads that are being read */
#define PAYLOAD_FREE_BYTES 2048  /* one so short is not counted, and never waits */

struct verb_entry {
	const struct verb *verb;
	char **required; /* the table row's words, split */
	size_t required_count;
	void *owner; /* for the handler */
	int one_way;
	uint64_t requests, errors;
};

struct verb_table {
	struct verb_entry *entry;
	size_t count;
	int any_one_way;
};

/* Blocks for payloads; lives as long as one of them does. */
struct payload_pool {
	size_t references;
	struct payload *small;
	size_t small_count;
	struct payload *spare; /* the large one freed last: its pages are warm */
};

struct payload {
	size_t references;
	size_t bytes;
	char *data;
	size_t room; /* of storage; 0 when mapped */
	struct mapping *mapping;
	struct payload_pool *pool;
	struct payload *next;
	_Alignas(16) char storage[];
};

enum request_state {
	REQUEST_HANDLING,
	REQUEST_DEFERRED,
	REQUEST_CANCELLING,
	REQUEST_ANSWERED /* waits for the answers before it */
};

struct request {
	struct connection *connection;
	struct request *next;
	struct verb_entry *verb;
	struct payload *payload;
	struct output out; /* used while an earlier request is open */
	void (*cancelled)(struct request *rq, void *arg);
	void *arg;
	enum request_state state;
};

struct connection {
	struct server *server;
	struct connection *next, *previous;
	struct connection *dirty_next, *closing_next, *resume_next;
	struct event event;
	int fd;
	short watched;      /* the flags of event; 0: not added */
	unsigned blocked : 1; /* the last write came short */
	unsigned ended : 1;   /* reads no more; closed when all is answered and written */
	unsigned paused : 1;  /* reads no more until answers are read */
	unsigned dirty : 1;
	unsigned closing : 1;
	unsigned resuming : 1;
	unsigned lost : 1;    /* the other side is gone: writing is useless; what it said is read */
	unsigned buried : 1;  /* is being freed: no list takes it any more */
	unsigned active : 1;  /* did something since the last sweep */
	unsigned waits : 1;   /* reads no more until there is room for its payload */
	int passed_fd; /* a descriptor that came and that no request has taken yet, or -1 */
	uid_t uid;
	pid_t pid;
	uint64_t number;
	void *user;
	double active_at;
	struct output out;
	size_t held;  /* bytes in the outputs of requests that are not first */
	size_t stuck; /* own bytes that the last write left */
	struct request *first, *last;
	size_t open;
	struct framer in; /* if a payload is due and `payload` is NULL, it is thrown away */
	struct payload *payload; /* being read */
	uint64_t due_seen; /* bytes of it that were due at the last look; UINT64_MAX: no look yet */
	uint64_t payload_bytes; /* announced, and counted by the server */
	struct verb_entry *payload_verb;
	struct connection *waits_next;
	unsigned looks; /* how often the present unfinished request was looked at */
	char *line; /* of the request that waits for its payload */
	size_t line_len;
	struct mapping *mapping;
};

struct server {
	struct server_options options;
	char *path, *greeting;
	size_t greeting_len;
	struct verb_table verbs;
	struct event_base *base;
	struct event *listener, *on_term, *on_int;
	struct timer *accept_again, *sweep, *look, *watchdog;
	double watchdog_seconds;
	struct transport_listener listens;
	int lock_fd;
	int stop, draining, abandoned, accept_told;
	double lacking_since; /* clients got no memory; 0: the last one did */
	struct connection *connections;
	size_t connection_count;
	uint64_t connection_last;
	struct connection *dirty, *closing, *resume;
	struct request *handling; /* not answered, not deferred */
	struct request *request_free;
	size_t request_free_count;
	struct chunk_pool chunks;
	struct payload_pool *payloads;
	uint64_t payload_bytes; /* of those being read */
	struct connection *first_waiting; /* for room for a payload, the longest first */
	const char *notify_socket;
	struct record record;
	char input[INPUT_ROOM];
};

/* server.c */
void server_look_later(struct server *s); /* sets the timer that looks at unfinished requests */

/* connection.c */
struct connection *connection_new(struct server *s, int fd);
void connection_free(struct connection *c); /* tells requests and owner */
void connection_flush(struct connection *c);
/* Notes that c has something to do at the end of this turn: writing, or other events to wait
 * for. */
void connection_mark_dirty(struct connection *c);
void connection_end(struct connection *c);  /* reads no more, answers what was asked */
void connection_lose(struct connection *c); /* the other side is gone, or as good as */
void connection_watch(struct connection *c);
/* Whether no further request of c may be taken now. */
int connection_must_pause(const struct connection *c);

/* input.c */
void connection_read(struct connection *c);
void connection_resume(struct connection *c); /* requests that were read and not yet handled */
void connection_drop_input(struct connection *c);
/* Looks at the request that c has begun: answers and closes when it takes too long. Returns whether
 * there is still one. */
int connection_look(struct connection *c);

/* request.c */
struct request *request_new(struct connection *c, struct verb_entry *verb, struct payload *payload);
void request_cancel_all(struct connection *c);

/* payload.c */
struct payload_pool *payload_pool_new(void);
void payload_pool_release(struct payload_pool *pool);
/* For a payload that is still to come: its memory grows as it comes. */
struct payload *payload_begin(struct payload_pool *pool, size_t bytes);
/* Makes room for the first `need` bytes, or more if that is cheap. -1: out of memory. */
int payload_grow(struct payload **p, size_t need);
/* Part of the mapping; NULL with err when it is not inside, or not aligned to 8. */
struct payload *payload_of_mapping(struct payload_pool *pool, struct mapping *m, uint64_t offset,
				   uint64_t bytes, struct error *err);

/* verbs.c */
int verbs_new(struct verb_table *t, struct server *s, const struct server_options *options,
	      struct error *err);
void verbs_free(struct verb_table *t);
struct verb_entry *verbs_find(struct verb_table *t, const char *name);
/* The first required key that r lacks, or NULL. */
const char *verbs_missing(const struct verb_entry *v, const struct record *r);
/* Whether it is the built-in verb `map`. */
int verbs_is_map(const struct verb_entry *v);

#endif

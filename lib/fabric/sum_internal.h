/*
 * sum_internal: what the files of sums share: sum.c (rounds), sum_wire.c (what hosts tell each
 * other), sum_ring.c and sum_shares.c (dense), sum_rows.c (rows).  Nobody else includes this.
 *
 * Everything that travels is a piece.  For each piece both sides know its state; a round counts
 * what is still missing, and is done at 0.
 */
#ifndef PACELINE_FABRIC_SUM_INTERNAL_H
#define PACELINE_FABRIC_SUM_INTERNAL_H

#include "fabric/ranges.h"
#include "fabric/rowlist.h"
#include "fabric/sum.h"

#define BUCKET_FLOATS (UINT64_C(1) << 18)      /* 1 MB */
#define BUCKET_HOST_FLOATS (UINT64_C(1) << 16) /* at least: 256 KB for each host */
#define CHUNK_UNIT 1024                        /* floats: shorter vectors are not cut */
#define RECEIVES_MAX 64                        /* of bulk at once; their numbers are tags */
#define WINDOW_BYTES ((size_t)8 << 20)         /* all of these together, or a single longer one */
#define SPARES_MAX 32                          /* blocks that are kept for later */

enum piece_kind {
	PIECE_PARTIAL, /* a chunk that not all hosts have added to */
	PIECE_FINAL,   /* its sum */
	PIECE_ROWS,    /* of one host, to their owner */
	PIECE_MERGED,  /* of one owner, to a host */
	PIECE_SHARE,   /* a segment of one host, to its owner */
	PIECE_SUM,     /* its sum, to a host */
	PIECE_KINDS
};

struct piece {
	enum piece_kind kind;
	uint32_t bucket, chunk; /* of the ring's kinds; a segment, and its owner's turn; else 0 */
};

/* What is from PIECE_GIVEN on has a tag: there is room for it there, and it is not ready here. */
enum piece_state { PIECE_NOT_YET, PIECE_OFFERED, PIECE_MOVING, PIECE_DONE, PIECE_GIVEN };

/* Memory for what is received, used again and again. */
struct block {
	struct block *next;
	size_t room;
	_Alignas(64) char data[];
};

struct chunk {
	uint8_t partial_in, partial_out, final_in, final_out; /* enum piece_state */
	struct block *early; /* a partial that came before this host's own bucket was ready */
};

/* A bucket of the ring, a segment of the shares. */
struct unit {
	uint64_t filled; /* floats that this host has named */
	uint64_t check;
	uint32_t left; /* of a bucket: finals of others that are still to come */
	uint8_t ready, checked;
};

struct list_in {
	struct block *block; /* NULL: this host's own, or empty */
	size_t bytes;
	uint8_t state;
	struct rowlist list;
};

/* A host of a round, by its place in the order of ranks. */
struct member {
	unsigned rank;
	uint64_t life;       /* of its round; 0: it has not opened it yet */
	struct rowlist mine; /* what this host has for it */
	uint8_t rows_out, merged_out;
	struct list_in rows, merged;
};

struct answer {
	sum_answer_fn *fn;
	void *arg;
};

struct round {
	struct sum *sum;
	struct round *next; /* of those that are retired */
	const void *client;
	uint64_t round, iteration, life, hosts_check;
	size_t hosts, self;
	uint64_t left; /* what is missing */
	uint64_t wire_bytes;
	size_t under_way;

	float *dense;
	uint64_t floats, unit_floats; /* the last unit may have fewer */
	const struct dense_way *way;
	struct shares *shares; /* by shares, or until the first host has told that it is the ring */
	int tells_ring;        /* this host does */
	int gives_ahead;       /* room for bulk of the ring, before it is offered */
	uint32_t units;
	struct unit *unit;
	struct chunk *chunk; /* hosts of them a bucket */
	struct ranges parts;

	uint32_t width; /* 0: not known */
	int no_rows, rows_said;
	size_t rows_missing, merged_missing; /* lists that have not come */
	struct block *mine;
	void *out;
	uint64_t out_bytes, out_rows;
	size_t *at; /* scratch of rowlist */

	void (*release)(void *arg), (*out_release)(void *arg);
	void *release_arg, *out_arg;
	struct answer opened, waited, dropped;
	int retired, done, told, want_check;
	enum sum_code failed;
	char why[ERROR_TEXT_MAX];
	struct member member[];
};

/* What a host has told about its open round; life 0: it has none. */
struct host {
	uint64_t life, round, iteration, floats, hosts_check;
	struct sum_rates rates; /* as it knew them then */
	int no_rows;
	int left; /* it has left that round before its end */
};

struct offer {
	struct offer *next;
	struct round *round;
	size_t from;
	struct piece piece;
	size_t bytes;
};

struct receive {
	struct sum *sum;
	struct round *round; /* NULL: free */
	size_t from, bytes;
	struct piece piece;
	struct block *block; /* NULL: it comes into the client's memory */
};

struct sum {
	struct sum_link link;
	struct round *open, *retired;
	uint64_t lives;
	struct offer *first_offer, **last_offer;
	size_t offers, receiving; /* bytes */
	uint64_t looked;          /* sums by shares only to learn rates; see sum_plan.c */
	uint64_t rings;           /* sums by the ring since the last of them */
	struct receive receive[RECEIVES_MAX];
	struct block *spare;
	size_t spares, blocks_bytes;
	uint64_t opened, done, died, wire_bytes, dense_bytes, by_ring;
	double owned;
	int turning;
	_Alignas(64) char aligned[SUM_MESSAGE_MAX];
	struct host host[];
};

/* ---- sum.c ---- */
/* Ends the round before it is done, and tells its other hosts. Nothing if it ended already. */
void round_fail(struct round *rd, enum sum_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void round_one_less(struct round *rd);
const char *round_host(const struct round *rd, size_t member);
/* Call after each event: handles what has ended meanwhile: answers, memory, the next receives. */
void sum_turn(struct sum *s);

struct block *block_take(struct sum *s, size_t bytes); /* NULL: no memory */
void block_give(struct sum *s, struct block *b);       /* NULL is fine */

/* ---- sum_wire.c ---- */
void wire_tell_open(struct round *rd);
/* To a member that has opened the round. */
void wire_tell_owner(struct round *rd, size_t to, uint32_t segment, uint32_t turn, size_t owner);
void wire_tell_leave(struct round *rd);
void wire_tell_plan(struct round *rd, size_t to, const uint32_t *count);
/* Looks whether a host has opened the same round or another one, and acts on it. */
void wire_meet(struct round *rd, size_t member);
/* A piece of this host is ready for a member: sends or offers it, once, when that one has opened
 * the round. */
void wire_offer(struct round *rd, size_t to, struct piece piece);
/* A piece that was offered can be taken now. */
void wire_want(struct round *rd, size_t from, struct piece piece, size_t bytes);
/* Room was given for a piece that does not come. */
void wire_send_nothing(struct round *rd, size_t to, uint8_t state);
/* A piece of so many bytes is sent without being asked for. */
int wire_is_short(size_t bytes);
/* A message; sum_turn() is the caller's. */
void wire_take(struct sum *s, unsigned rank, const void *data, size_t bytes);
void wire_forget_offers(struct round *rd);
void wire_pump(struct sum *s);

/* ---- the dense vector: sum_units.c, sum_ring.c, sum_shares.c ---- */
/* Cuts it, into no unit if it is empty. -1: no memory. */
int units_make(struct round *rd, uint64_t floats);
void units_end(struct round *rd);
size_t unit_floats(const struct round *rd, uint32_t i);
float *unit_at(const struct round *rd, uint32_t i);
/* This host has named these floats. */
void units_part(struct round *rd, uint64_t begin, uint64_t end);
void unit_check(struct round *rd, uint32_t i); /* takes its checksum: best while it is in a cache */
uint64_t units_check(struct round *rd);

struct dense_way {
	int (*begin)(struct round *rd); /* cuts it. -1: no memory */
	void (*end)(struct round *rd);  /* also after begin() failed */
	void (*ready)(struct round *rd, uint32_t unit); /* here */
	void (*met)(struct round *rd, size_t member);
};
extern const struct dense_way dense_by_ring, dense_by_shares;

/* Room that was given for what this host has not sent will not be used. */
void ring_give_back(struct round *rd);
/* After which host the ring begins to add what is at this place. */
size_t ring_chunk(const struct round *rd, uint64_t at);

/* The first host has told how many segments each host owns; none of any: it is the ring. -1: that
 * makes no sense. */
int shares_plan(struct round *rd, const uint32_t *count);
/* Whether a message about a piece of the vector is none for now: it is kept until this host knows
 * the owner that it means, or it was for one who no longer is. */
int shares_defer(struct round *rd, unsigned rank, struct piece piece, const void *data,
		 size_t bytes);
/* Keeps a message until the plan is known. 0: it is. */
int shares_keep_early(struct round *rd, unsigned rank, const void *data, size_t bytes);
/* A segment has got another owner. -1: that makes no sense. */
int shares_owner(struct round *rd, uint32_t segment, uint32_t turn, size_t owner);
/* Gives segments to other owners where this host's link has become slower. */
void shares_follow(struct round *rd);

/* ---- sum_plan.c ---- */
/* Whether the round's vector may go by shares. */
int shares_are_thought_of(const struct round *rd);
/* How many of the segments each host owns; none of any: it is the ring. -1: no memory. */
int plan_shares(const struct round *rd, uint32_t *count);
/* For how many segments this host asks at once, if hosts own so many. */
size_t plan_begun(const struct round *rd, const uint32_t *count);
/* How many of this host's own segments get other owners by what is known of its link now, of those
 * that may; how many of them each host gets. */
uint32_t plan_away(const struct round *rd, uint32_t own, uint32_t may, uint32_t *count);

/* ---- sum_rows.c ---- */
int sum_rows_begin(struct round *rd);
void rows_done(struct round *rd); /* lets go of what came and went */
void rows_end(struct round *rd);
enum sum_code rows_say(struct round *rd, const struct sum_rows *rows, struct error *err);
void rows_met(struct round *rd, size_t member);
/* -1: it is not the width of the others; the round has ended. */
int rows_agree(struct round *rd, size_t member, uint32_t width);

/* ---- pieces: the ring's and the rows' way of saying what a piece is ---- */
struct piece_way {
	/* How far the piece is that comes from, or goes to, this member; NULL: there is none. */
	uint8_t *(*in)(struct round *rd, size_t from, struct piece piece, size_t *bytes);
	uint8_t *(*out)(struct round *rd, size_t to, struct piece piece);
	/* What is sent; NULL: it is not ready. */
	const void *(*data)(struct round *rd, size_t to, struct piece piece, size_t *bytes);
	/* It is ready there: wire_want() it when it may come. */
	void (*offered)(struct round *rd, size_t from, struct piece piece, size_t bytes);
	/* Where it goes; NULL: into a block. */
	void *(*place)(struct round *rd, struct piece piece);
	/* It is here: in its place (data NULL), or at data, which is block's where there is one.
	 * The block is the callee's from here on. */
	void (*take)(struct round *rd, size_t from, struct piece piece, const void *data,
		     size_t bytes, struct block *block);
};
extern const struct piece_way ring_way, rows_way, shares_way;

#endif

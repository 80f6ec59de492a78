/*
 * part_client: a worker's side of one part of the parameters: of a ps-server(8), or of a replica,
 * which has all of them.  Parameters come and gradients go through memory that is shared with it,
 * one mapping for the life of a connection; a batch that does not fit there goes inline.  If the
 * part lets us read its dense parameters in place, they are not copied at all.
 *
 * Or a rank's side of a replica that only sums (--sums of ps-server(8)): it has no parameters, and
 * what it has summed lies in memory that outlives it (sum_pair.h).  That memory, and the gradient's,
 * which stays where it is, are handed to its next process, so that its death loses nothing.
 */
#ifndef PACELINE_WORK_PART_CLIENT_H
#define PACELINE_WORK_PART_CLIENT_H

#include "param/sum_pair.h"
#include "work/conversation.h"
#include "work/exchange.h"

struct kept;

struct part_client {
	struct conversation talk;
	/* set before it is connected */
	uint64_t dense_begin, dense_count; /* floats */
	uint32_t width;                    /* floats of a row */
	uint64_t key_count;                /* rows there can be */
	uint64_t dense_most;               /* floats that it may grow to; 0: dense_count */
	uint64_t map;                      /* the version in use; 0: it is not said */
	int looks;                         /* read its dense parameters in place (`look`) */
	const char *keep_dir;              /* where, so that they outlive us; NULL: nowhere */
	int keeps;                         /* keep pushes, where the part asks for it (kept.h) */
	int two_pushes;                    /* a push stays in place until the one after the next */
	int only_sums;                     /* it has no parameters */

	/* Of the present batch: this part has so many rows, from this one on. */
	size_t rows, first;
	const uint32_t *key; /* keys of those rows */
	const float *looked; /* its dense parameters, read-only; NULL: they are pulled */

	/* private */
	size_t looked_bytes;
	char *memory;        /* NULL: none is shared */
	size_t rows_max;     /* that fit there */
	size_t dense_max;    /* floats */
	size_t keys_at, push_at, other_at; /* other_at: of the push before, with two_pushes */
	int same_clock;      /* it runs on this host */
	double asked;        /* when the last pull was sent, */
	size_t asked_rows;   /* and of how many rows */
	struct kept *keep;   /* NULL: nothing is kept */
	char *inline_push;
	size_t inline_room;
	size_t final_begin, final_count; /* not told yet */
	struct sum_pair sums;            /* bytes 0: there are none */
};

/* What came with the answer to a pull. */
struct part_answer {
	double reached;     /* when it could be answered, by our clock */
	uint64_t iteration; /* to which the parameters belong */
};

/* Connects, and shares memory with the part. Results as of conversation.h. */
int part_client_connect(struct part_client *p, double deadline, struct error *err);
void part_client_close(struct part_client *p);
void part_client_free(struct part_client *p); /* what it points to */

/* The batch of the following calls: the keys of this part, and the place of the first of them among
 * all keys of the batch. The caller owns key, and keeps it until the next batch. */
void part_client_take(struct part_client *p, const uint32_t *key, size_t first, size_t rows);
/* Whether these rows fit into the memory that is shared. */
int part_client_fits(const struct part_client *p);
/* Whether the last pull asked for these rows, and their parameters are in shared memory. */
int part_client_asked_for(const struct part_client *p, const uint32_t *key, size_t rows);
/* Where the parameters of a batch that fits are after the pull, and where its gradients belong. */
struct exchange_values part_client_values(const struct part_client *p);

/* Asks for the parameters. after: sequence of the push behind which it is sent; 0: none. */
int part_client_ask_pull(struct part_client *p, uint64_t iteration, uint64_t after,
			 struct error *err);
/* Reads the answer, to dense and rows of this part; `to` NULL: where part_client_values() says. */
struct part_place {
	float *dense, *rows;
};
int part_client_answer_pull(struct part_client *p, const struct part_place *to,
			    struct part_answer *answer, struct error *err);

/* A push: line is begun (conversation_begin()), and the payload is the gradients of this part, at
 * `from`; NULL: where part_client_values() says. */
struct part_gradients {
	const float *dense, *rows;
};
int part_client_ask_push(struct part_client *p, struct record_out *line, uint64_t sequence,
			 const struct part_gradients *from, struct error *err);
/* This worker leaves in order: what it keeps must not be needed any more. */
void part_client_release(struct part_client *p);
/* After its answer, which is in talk.record: what is kept may be less now. */
void part_client_pushed(struct part_client *p);
/* The bytes of that. */
size_t part_client_push_bytes(const struct part_client *p);
/* These floats of the dense gradient are final while the rest is computed; only for a batch that
 * fits. They are told once enough of them, one before the other, are. */
void part_client_final(struct part_client *p, uint64_t sequence, uint64_t iteration, size_t begin,
		       size_t count);

/* ---- of a replica that only sums ---- */

/* Asks it to sum vectors of dense_count floats, and gives it what was summed before. */
int part_client_ask_room(struct part_client *p, struct error *err);
/* Its answer, which is in talk.record. ERROR_DATA: it has brought no sums of this length. */
int part_client_take_room(struct part_client *p, struct error *err);
/* The file of the gradient, dense_count floats: others may map it, too. */
int part_client_gradient_fd(const struct part_client *p);
/* The sum of this iteration, if all hosts are in it: where in the file of sums it begins. -1: it is
 * not there. round 0: any. */
int64_t part_client_sum_at(const struct part_client *p, uint64_t iteration, uint64_t round);

#endif

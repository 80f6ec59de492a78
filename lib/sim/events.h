/* events: what is to happen, in the order of time; at the same time in the order in which it was
 * planned.  Nothing is planned for before what was taken last.
 *
 * A radix heap (Ahuja et al., "Faster algorithms for the shortest path problem", JACM 1990): an event
 * waits in the bucket of the highest bit in which its time differs from the last one that was taken.
 * The bits of doubles that are not negative have their order.  Events move through few buckets, each
 * read from begin to end, so that a hundred thousand of them cost what a hundred do. */
#ifndef PACELINE_SIM_EVENTS_H
#define PACELINE_SIM_EVENTS_H

#include <stddef.h>
#include <stdint.h>

enum event_kind {
	EVENT_SUMMED,  /* all replicas have the sum */
	EVENT_SETTLED, /* shardd has carried out the settle */
	EVENT_HAPPENS, /* node: the number of an event of the cluster */
	EVENT_CLOCK,   /* the lead wants to know that it is so late */
	EVENT_BEGIN,   /* the lead waits no longer for workers that it expects */
	EVENT_HUNG,    /* a worker is given up, unless it has moved */
	/* a node's, up to EVENT_ASK */
	EVENT_START,   /* its process is there */
	EVENT_NEXT,    /* it has its answer */
	EVENT_PULLED,  /* computes from now on */
	EVENT_COMPUTED, /* its push begins, over links */
	EVENT_ANNOUNCED, /* its push could begin */
	EVENT_PUSHED,  /* its push is at the lead */
	/* these come again and again, also if nothing else happens any more */
	EVENT_ASK,     /* it asks shardd again */
	EVENT_SAVED,   /* a checkpoint is written */
	EVENT_SAVE,    /* one is due */
	EVENT_LINKS,   /* some have another rate */
	EVENT_BRAIN,   /* the brain looks at a snapshot */
	EVENT_LOOK,    /* the supervisor looks at the monitor */
	EVENT_SERIES   /* the log says how the job goes */
};

struct event {
	double at;
	uint32_t node;
	uint32_t kind : 5, life : 27; /* of an earlier life: void */
};

#define EVENTS_BUCKETS 65

struct events {
	struct event_bucket {
		struct event *event; /* in the order in which they were planned, as far as their times are equal */
		size_t count, room;
	} bucket[EVENTS_BUCKETS]; /* [0]: those of `last` */
	size_t next; /* of bucket[0] */
	uint64_t last; /* the bits of a time */
};

/* -1: no memory. */
int events_spread(struct events *e); /* for events_take(): fills the first bucket, which is empty; 0: there is none */
int events_add(struct events *e, struct event new);
/* 0: there is none. */
static inline int events_take(struct events *e, struct event *out)
{
	struct event_bucket *now = &e->bucket[0];
	if (e->next == now->count) {
		e->next = now->count = 0;
		int result = events_spread(e);
		if (result <= 0)
			return result;
	}
	*out = now->event[e->next++];
	return 1;
}
/* When the next one is, INFINITY: there is none; or some time before that, if this takes a look at more than `most`. */
double events_next_at(const struct events *e, size_t most);
/* The next ones, `count` of them, as far as is known. */
static inline const struct event *events_to_come(const struct events *e, size_t *count)
{
	*count = e->bucket[0].count - e->next;
	return &e->bucket[0].event[e->next];
}
void events_free(struct events *e);

#endif

/* events: what is to happen, in the order of time; at the same time in the order in which it was
 * planned.  A binary heap. */
#ifndef PACELINE_SIM_EVENTS_H
#define PACELINE_SIM_EVENTS_H

#include <stddef.h>
#include <stdint.h>

enum event_kind {
	EVENT_START,   /* node: its process is there */
	EVENT_NEXT,    /* node: it has its answer, or asks shardd again */
	EVENT_PULLED,  /* node: computes from now on */
	EVENT_PUSHED,  /* node: its push is at the lead */
	EVENT_SUMMED,  /* all replicas have the sum */
	EVENT_SETTLED, /* shardd has carried out the settle */
	EVENT_SAVED,   /* a checkpoint is written */
	EVENT_SAVE,    /* one is due */
	EVENT_LOOK,    /* the supervisor looks at the monitor */
	EVENT_SERIES,  /* the log says how the job goes */
	EVENT_HAPPENS  /* node: the number of an event of the cluster */
};

struct event {
	double at;
	uint64_t order;
	enum event_kind kind;
	uint32_t node, life; /* of an earlier life: void */
};

struct events {
	struct event *heap;
	size_t count, room;
	uint64_t planned;
};

int events_add(struct events *e, double at, enum event_kind kind, uint32_t node, uint32_t life); /* -1: no memory */
int events_take(struct events *e, struct event *out); /* 0: there is none */
void events_free(struct events *e);

#endif

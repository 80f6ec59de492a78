/*
 * drag: a file that slows a worker or a server down on purpose (straggle(1)), or makes it act as a
 * device of another kind:
 *
 *     drag [delay=S] [speed=V] [launch=S] [saturation=N] [memory=N] [type=NAME] [cores=V]
 *
 * A worker reads it before each batch, a server before each unit; the file may change, come and go
 * at any time.  A bad file must never stop a job: it is reported once and ignored.
 */
#ifndef PACELINE_RECORD_DRAG_H
#define PACELINE_RECORD_DRAG_H

#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define DRAG_BYTES_MAX 512
#define DRAG_TYPE_MAX 64
#define DRAG_SECONDS_MAX 86400.0
#define DRAG_SPEED_MAX 1e15
#define DRAG_CORES_MAX 1e5
#define DRAG_SAMPLES_MAX (UINT64_C(1) << 53) /* exact in a double */

struct drag {
	double delay;        /* seconds on top of each batch */
	double speed;        /* samples/s; 0: as fast as it is */
	double launch;       /* with speed: seconds before each step */
	uint64_t saturation; /* with speed: a step of fewer samples takes as long as this many */
	uint64_t memory;     /* samples that fit into a step; 0: any number */
	char type[DRAG_TYPE_MAX]; /* of the emulated device; "": none said */
	double cores; /* cores that the device says it keeps busy while it works; 0: as measured */
};

/* Reads the first line of a drag file's text. -1: ERROR_DATA, and *d is no drag. */
int drag_parse(const char *text, size_t len, struct drag *d, struct error *err);

/* The same from the keys of a record of any type, and back: keys whose value is 0 are left out. */
int drag_fields(const struct record *r, struct drag *d, struct error *err);
void drag_add(struct record_out *o, const struct drag *d);

/* A drag file that is looked at often: text that has not changed is not parsed again. */
struct drag_file {
	const char *path; /* the caller's; NULL: never any drag */
	struct drag drag;
	size_t len;
	int told;
	char text[DRAG_BYTES_MAX];
};

/* {.path = path} is enough at first. Never NULL; no drag if the file is not there or is bad, of
 * which the first time is logged. Valid until the next look. */
const struct drag *drag_look(struct drag_file *f);

/* The least seconds that a batch lasts, without delay: samples in steps of size, the last step has
 * the rest. 0 without speed. */
double drag_seconds(const struct drag *d, uint64_t samples, uint64_t size);

/* Seconds to sleep in such a batch that took elapsed so far: the rest of drag_seconds(), plus
 * delay. */
double drag_pause(const struct drag *d, uint64_t samples, uint64_t size, double elapsed);

/* Whether a step of so many samples fits into memory; -1: it does not (ERROR_OS). */
int drag_fits(const struct drag *d, uint64_t samples, struct error *err);

#endif

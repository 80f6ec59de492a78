/*
 * drag: a file that slows this worker down, on purpose (straggle(1)):
 *
 *     drag [delay=SECONDS] [pace=SAMPLES_PER_SECOND]
 *
 * It is read before each batch and may change, come and go at any time.
 */
#ifndef PACELINE_WORK_DRAG_H
#define PACELINE_WORK_DRAG_H

#include "base/error.h"

struct drag {
	double delay, pace; /* 0: none */
};

/* A file that is not there is no drag. -1 for one that says something else: no drag either, and
 * ERROR_DATA with the file as place. */
int drag_read(const char *path, struct drag *d, struct error *err);

/* Seconds to sleep in a batch of size samples that took elapsed so far: at the pace it lasts
 * size/pace at least, and delay comes on top. */
double drag_pause(const struct drag *d, double size, double elapsed);

#endif

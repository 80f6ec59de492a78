/*
 * room: whether there is room for what the job writes.  Where there is none shardd takes no change, no
 * checkpoint is complete and no node can be started: the job waits, and goes on once there is.  It is
 * told when that begins and ends, and as long as it lasts by `status`, top and run's bar.
 */
#ifndef PACELINE_RUN_ROOM_H
#define PACELINE_RUN_ROOM_H

#include <stddef.h>
#include <stdint.h>

struct aside;
struct supervisor;

struct sup_room {
	struct aside *looking;
	double begun, looked; /* clock_mono(): a look by it, and any that had an answer */
	double left;          /* bytes, in the file system of STATE; 0: no file can be made there */
	int told;
};

void sup_room_tick(struct supervisor *s);
void sup_room_free(struct supervisor *s);
/* Looks now, unless the storage hangs: then it is as it was seen last. Whether so many bytes have none
 * there; of 0: no file could be made at all, as the record of a node that is started. */
int sup_room_is_none(struct supervisor *s, uint64_t bytes);
/* As it was seen last, by us or by shardd. */
int sup_room_is_waited_for(const struct supervisor *s);
/* What the job waits for, for people; "": for nothing that would be told. */
void sup_waits(const struct supervisor *s, char *out, size_t max);

#endif

/*
 * room: whether there is room on disk for what the job writes.  Without room shardd takes no
 * change, no checkpoint is completed and no node can be started: the job waits, and goes on once
 * there is room.  People are told when the wait begins and ends; while it lasts, `trainctl status`
 * and the lines of `trainctl run` show it.
 */
#ifndef PACELINE_RUN_ROOM_H
#define PACELINE_RUN_ROOM_H

#include <stddef.h>
#include <stdint.h>

struct aside;
struct supervisor;

struct sup_room {
	struct aside *looking;
	double begun, looked; /* clock_mono(): the last look began; the last answer came */
	double left;          /* bytes, in the file system of STATE; 0: no file can be made there */
	int told;             /* people were told that the job waits */
};

void sup_room_tick(struct supervisor *s);
void sup_room_free(struct supervisor *s);
/* Whether there is no room for so many bytes; for 0: whether no file can be made at all, such as
 * the record of a new node. Looks now; if the storage hangs, the answer is that of the last
 * look. */
int sup_room_is_none(struct supervisor *s, uint64_t bytes);
/* As we or shardd saw it last. */
int sup_room_is_waited_for(const struct supervisor *s);
/* What the job waits for, for people; "": nothing that people need to know. */
void sup_waits(const struct supervisor *s, char *out, size_t max);

#endif

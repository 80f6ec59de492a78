/* room: see room.h. */
#include "run/sup.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LOOK_SECONDS 0.5
#define LEAST_BYTES 8192 /* less is no room for a record of a node, or an intent */

/* A limit to a file's size and a quota are not seen here: shardd says when it runs into one. */
static void look(struct supervisor *s)
{
	struct statvfs st;
	int is_root = geteuid() == 0; /* some room is kept for root */
	s->room.looked = clock_mono();
	s->room.left = INFINITY;
	if (statvfs(s->dirs.state, &st) != 0)
		return;
	if (st.f_blocks > 0)
		s->room.left = (double)(is_root ? st.f_bfree : st.f_bavail) * (double)st.f_frsize;
	if (s->room.left < LEAST_BYTES ||
	    (st.f_files > 0 && (is_root ? st.f_ffree : st.f_favail) == 0))
		s->room.left = 0;
}

int sup_room_is_waited_for(const struct supervisor *s)
{
	return (s->room.looked > 0 && s->room.left <= 0) ||
	       (s->progress.stat.known && s->progress.stat.full);
}

void sup_room_tick(struct supervisor *s)
{
	if (clock_mono() - s->room.looked >= LOOK_SECONDS)
		look(s);
	if (sup_room_is_waited_for(s) == s->room.told || s->phases.now >= PHASE_OVER)
		return;
	s->room.told = !s->room.told;
	if (s->room.told)
		sup_note(s, "room", "the job waits: no room in %s", s->dirs.state);
	else
		sup_note(s, "room", "there is room in %s again", s->dirs.state);
}

int sup_room_is_none(struct supervisor *s, uint64_t bytes)
{
	look(s);
	return s->room.left <= (double)bytes;
}

void sup_waits(const struct supervisor *s, char *out, size_t max)
{
	out[0] = '\0';
	if (sup_room_is_waited_for(s))
		snprintf(out, max, "no room in %s", s->dirs.state);
	else if (s->recover.verifying)
		snprintf(out, max, "whether %s is damaged", s->recover.cut);
}

/* room: see room.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "wire/aside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LOOK_SECONDS 0.5
#define LEAST_BYTES 8192 /* with less there is no room for a node's record, or an intent */

struct look {
	char dir[DIRS_PATH_MAX];
	double left;
};

/* Bytes that can still be written. A limit to a file's size and a quota are not seen here: shardd
 * says when it runs into one. */
static double room_left_in(const char *dir)
{
	struct statvfs st;
	int is_root = geteuid() == 0; /* some room is kept for root */
	double left = INFINITY;
	if (statvfs(dir, &st) != 0)
		return left;
	if (st.f_blocks > 0)
		left = (double)(is_root ? st.f_bfree : st.f_bavail) * (double)st.f_frsize;
	if (left < LEAST_BYTES || (st.f_files > 0 && (is_root ? st.f_ffree : st.f_favail) == 0))
		return 0;
	return left;
}

static void room_note(struct supervisor *s, double left)
{
	s->room.left = left;
	s->room.looked = clock_mono();
}

static void room_work(void *arg)
{
	struct look *l = arg;
	l->left = room_left_in(l->dir);
}

static void room_done(void *arg, void *owner)
{
	const struct look *l = arg;
	room_note(owner, l->left);
}

/* Looks in a thread: storage that hangs gives no answer, and the loop goes on without it. */
static void look_aside(struct supervisor *s)
{
	static const struct aside_work how = {room_work, room_done, free};
	struct look *l = calloc(1, sizeof *l);
	s->room.begun = clock_mono();
	if (!l)
		return;
	memcpy(l->dir, s->dirs.state, sizeof s->dirs.state);
	if (aside_start(&s->room.looking, s->base, &how, l, s, NULL) != 0)
		free(l);
}

int sup_room_is_waited_for(const struct supervisor *s)
{
	return (s->room.looked > 0 && s->room.left <= 0) ||
	       (s->progress.stat.known && s->progress.stat.full);
}

void sup_room_tick(struct supervisor *s)
{
	if (!s->room.looking && clock_mono() - s->room.begun >= LOOK_SECONDS)
		look_aside(s);
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
	int hangs = s->room.looking && clock_mono() - s->room.begun >= LOOK_SECONDS;
	if (!hangs)
		room_note(s, room_left_in(s->dirs.state));
	return s->room.looked > 0 && s->room.left <= (double)bytes;
}

void sup_room_free(struct supervisor *s)
{
	aside_abandon(&s->room.looking);
}

void sup_waits(const struct supervisor *s, char *out, size_t max)
{
	out[0] = '\0';
	if (sup_room_is_waited_for(s))
		snprintf(out, max, "no room in %s", s->dirs.state);
	else if (s->kept.why[0])
		snprintf(out, max, "%s/" DIRS_KEPT " can't be written: %s", s->dirs.state, s->kept.why);
	else if (s->recover.verifying)
		snprintf(out, max, "whether %s is damaged", s->recover.cut);
	else
		snprintf(out, max, "%s", s->standstill.why);
}

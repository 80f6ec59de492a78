/*
 * sup_stray: rows in the hands of nobody.  Any client may take rows of the job; one that goes
 * without a word keeps them, and no death of a node will ever bring them back.  When nothing is
 * left to hand out and nothing has been trained for a while, a holder that is neither a worker of
 * this job nor a member of the lead has what it holds taken from it: as by its own bye, since no
 * shard is to blame.
 */
#include "run/sup.h"

#include "base/clock.h"

#include <string.h>

/* One question is out at a time; one that is lost begins anew with the next look. */
static int ask(struct supervisor *s, struct link *link, struct record_out *o, peer_reply_fn *reply)
{
	if (sup_link_send(link, o, NULL, 0, reply, s) != 0)
		return -1;
	s->stray.asked = 1;
	return 0;
}

static void look_behind(struct supervisor *s, const char *id);

static void on_bye(const struct record *r, int closing, const void *payload, size_t bytes,
		   void *arg)
{
	struct supervisor *s = arg;
	(void)payload;
	(void)bytes;
	if (!closing)
		return;
	s->stray.asked = 0;
	if (!r || !record_is(r, "ok"))
		return;
	sup_note(s, "stray",
		 "%s is no worker of this job, nor a member, and nothing was trained for %g s: "
		 "what it held is handed out again",
		 s->stray.id, deadline_seconds(DEADLINE_STRAY));
	look_behind(s, s->stray.id);
}

static void on_who(const struct record *r, int closing, const void *payload, size_t bytes,
		   void *arg)
{
	struct supervisor *s = arg;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	uint64_t generation = 0;
	(void)payload;
	(void)bytes;
	if (!closing)
		return;
	s->stray.asked = 0;
	if (!r || !record_is(r, "ok") ||
	    record_u64(r, "generation", 1, UINT64_MAX, &generation, NULL) != 0)
		return;
	record_begin(&o, line, sizeof line, "bye");
	record_add(&o, "worker", s->stray.id);
	record_add_u64(&o, "generation", generation);
	(void)ask(s, &s->shardd->link, &o, on_bye);
}

/* A member that is silent is the lead's business. */
static void on_members(const struct record *r, int closing, const void *payload, size_t bytes,
		       void *arg)
{
	struct supervisor *s = arg;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	(void)payload;
	(void)bytes;
	if (!closing) {
		const char *id = record_get(r, "worker"), *state = record_get(r, "state");
		s->stray.is_member |= id && strcmp(id, s->stray.id) == 0 && state &&
				      strcmp(state, "active") == 0;
		return;
	}
	s->stray.asked = 0;
	if (!r || !record_is(r, "ok"))
		return;
	if (s->stray.is_member) {
		look_behind(s, s->stray.id);
		return;
	}
	record_begin(&o, line, sizeof line, "who");
	record_add(&o, "worker", s->stray.id);
	(void)ask(s, &s->shardd->link, &o, on_who);
}

/* The first name behind the last one that was looked at. */
static void take_id(struct supervisor *s, const char *id)
{
	struct sup_stray *y = &s->stray;
	if (strlen(id) < sizeof y->id && strcmp(id, y->behind) > 0 &&
	    (!y->id[0] || strcmp(id, y->id) < 0) && !sup_node_find(s, id))
		memcpy(y->id, id, strlen(id) + 1);
}

static void on_list(const struct record *r, int closing, const void *payload, size_t bytes,
		    void *arg)
{
	struct supervisor *s = arg;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	(void)payload;
	(void)bytes;
	if (!closing) {
		const char *id = record_get(r, "worker");
		if (id)
			take_id(s, id);
		return;
	}
	s->stray.asked = 0;
	if (!r || !record_is(r, "ok"))
		return;
	if (!s->stray.id[0]) { /* all are ours: not again at once */
		s->stray.since += deadline_seconds(DEADLINE_STRAY) / 10;
		return;
	}
	s->stray.is_member = 0;
	record_begin(&o, line, sizeof line, "members");
	(void)ask(s, &s->servers[0].link, &o, on_members);
}

/* At the holders of rows, one after the other in the order of their names. */
static void look_behind(struct supervisor *s, const char *id)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	memmove(s->stray.behind, id, strlen(id) + 1);
	s->stray.id[0] = '\0';
	record_begin(&o, line, sizeof line, "list");
	record_add(&o, "state", "doing");
	(void)ask(s, &s->shardd->link, &o, on_list);
}

void sup_stray_tick(struct supervisor *s)
{
	const struct sup_stat *stat = &s->stat;
	if (s->phase != PHASE_RUNNING || !stat->known || stat->doing == 0 || stat->todo > 0 ||
	    stat->samples_done != s->stray.samples) {
		s->stray.samples = stat->samples_done;
		s->stray.since = clock_mono();
		return;
	}
	if (!s->stray.asked && clock_mono() - s->stray.since >= deadline_seconds(DEADLINE_STRAY))
		look_behind(s, "");
}

/* scale_servers: the servers' part of scale.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/grow.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 5
#define AGAIN_SECONDS 0.5 /* after an attempt that failed */
#define LOOK_SECONDS 0.2  /* while it is under way */
#define PROGRESS_SECONDS 5.0
#define MAP_BITS 32       /* of a version: the number of the map in its incarnation */

int sup_scale_has_part(const struct sup_node *n)
{
	return n->role == &role_server && !n->joining &&
	       !(n->leaving && n->sup->scale.servers.step == SCALE_OVER);
}

uint64_t sup_scale_map(const struct supervisor *s)
{
	return s->scale.servers.maps_moved ? s->recover.incarnation << MAP_BITS : 1;
}

/* Those that have parts are those that are wanted. */
static void scale_servers_arrive(struct supervisor *s)
{
	s->scale.servers.step = SCALE_OVER;
	s->scale.servers.is_unkept = 1;
	sup_kick(s);
}

static void scale_servers_again(struct supervisor *s, enum scale_move step, double seconds)
{
	s->scale.servers.step = step;
	s->scale.servers.not_before = clock_mono() + seconds;
	sup_kick_after(s, seconds);
}

/* The servers that were there before stay, and the new ones leave. */
static void scale_servers_revert(struct supervisor *s)
{
	s->scale.now.servers = 0;
	EACH_OF (n, s, &role_server) {
		int was_new = n->joining;
		n->joining = 0;
		n->leaving = was_new;
		s->scale.now.servers += !was_new;
	}
	scale_servers_arrive(s);
	if (!s->scale.why[0])
		snprintf(s->scale.why, sizeof s->scale.why, "%s", s->scale.servers.why);
	sup_note(s, "warning", "servers stay as they are: %s", s->scale.why);
}

/* ---- new ones ---- */

static void scale_servers_join(struct supervisor *s)
{
	int up = 1;
	if (s->scale.servers.began <= 0)
		s->scale.servers.began = clock_mono();
	sup_links_servers(s);
	EACH_OF (n, s, &role_server) {
		sup_node_want(n);
		up &= n->stage == STAGE_READY && sup_link_up(&n->link);
	}
	double left = s->scale.servers.began + deadline_seconds(DEADLINE_SCALE) - clock_mono();
	if (up)
		s->scale.servers.step = SCALE_MOVE;
	else if (left <= 0) {
		snprintf(s->scale.servers.why, sizeof s->scale.servers.why,
			 "new servers are not up after %g s", deadline_seconds(DEADLINE_SCALE));
		scale_servers_revert(s);
	} else
		sup_kick_after(s, left);
}

/* It may have a part by now. Only the lead knows, and may wait for this server in vain. */
void sup_scale_joiner_ended(struct sup_node *n)
{
	struct sup_scale_servers *c = &n->sup->scale.servers;
	if (c->step != SCALE_MOVE)
		return;
	c->tries++;
	scale_servers_again(n->sup, SCALE_LOOK, 0);
}

/* After the death of a joining server not before the lead has said that it has no part: its next
 * process would not have it. */
int sup_scale_may_launch(const struct sup_node *n)
{
	enum scale_move step = n->sup->scale.servers.step;
	return n->role != &role_server || !n->joining || (step != SCALE_MOVE && step != SCALE_LOOK);
}

/* ---- what the lead does ---- */

/* It can't be said how long a move may take, but how long a piece of it may: each piece that has
 * moved makes a new version of the map. */
static void on_moving(const struct record *r, void *owner)
{
	struct sup_move *m = &((struct supervisor *)owner)->move;
	uint64_t version;
	if (!sup_answer_ok(r) || record_u64(r, "version", 0, UINT64_MAX, &version, NULL) != 0 ||
	    version == m->version)
		return;
	m->version = version;
	m->changed = clock_mono();
}

void sup_move_began(struct supervisor *s)
{
	s->move.changed = clock_mono();
}

int sup_move_is_late(struct supervisor *s)
{
	struct sup_move *m = &s->move;
	double now = clock_mono();
	if (now - m->changed >= deadline_seconds(DEADLINE_MOVE)) {
		sup_rollback_begin(s, "parameters did not move on");
		return 1;
	}
	if (now - m->asked >= PROGRESS_SECONDS) {
		m->asked = now;
		sup_ask(&m->question, &sup_lead(s)->link, RECORD_BARE("parts"), NULL, on_moving, s);
	}
	return 0;
}

static void on_move(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	struct sup_scale_servers *c = &s->scale.servers;
	sup_kick(s);
	if (c->step != SCALE_MOVE)
		return;
	if (sup_answer_ok(r)) {
		record_u64_opt(r, "moved-bytes", 0, UINT64_MAX, &c->bytes, NULL);
		record_real_opt(r, "stall", 0, 1e300, &c->stall, NULL);
		EACH_OF (n, s, &role_server)
			n->joining = 0;
		scale_servers_arrive(s);
		return;
	}
	if (r && strcmp(sup_answer_code(r), "moving") != 0) {
		char text[SUP_ANSWER_TEXT];
		snprintf(c->why, sizeof c->why, "%s", sup_answer_text(r, text));
		sup_note(s, "retry", "parts are not moved yet: %s", c->why);
		c->tries++;
	}
	scale_servers_again(s, SCALE_LOOK, LOOK_SECONDS);
}

static void scale_servers_move(struct supervisor *s)
{
	struct sup_scale_servers *c = &s->scale.servers;
	char path[DIRS_PATH_MAX], *parts = NULL;
	size_t len = 0;
	uint64_t part = 0;
	if (c->move.open)
		return;
	FILE *out = grow_stream(&parts, &len);
	EACH_OF (n, s, &role_server) {
		if (!out || n->leaving)
			continue;
		sup_socket(s, n->id, path);
		record_print(out, RECORD("part", F("part", part++), F("socket", path)));
	}
	if (!out || fclose(out) != 0) {
		sup_fail(s, ERROR_OS, "out of memory");
		free(parts);
		return;
	}
	/* A line for each socket: all in the request would make it longer than a line may be. */
	sup_move_began(s);
	sup_ask_with(&c->move, &s->links.lead_move,
		     RECORD("move", F("parts", s->scale.now.servers), F("bytes", len)), parts, len,
		     on_move, s);
	free(parts);
}

static void scale_servers_on_part(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	if (!record_is(r, "part"))
		return;
	struct sup_node *n = sup_find_of(s, &role_server, record_get(r, "id"));
	if (n)
		n->has_part = 1;
}

/* Whether all servers that have parts run: with one that does not, its parameters are lost. */
static int scale_servers_all_run(const struct supervisor *s)
{
	EACH_OF (n, s, &role_server)
		if (n->has_part && !sup_node_runs(n))
			return 0;
	return 1;
}

/* Whether those have parts that are to have them, and no others. */
static int parts_are_as_wanted(const struct supervisor *s)
{
	EACH_OF (n, s, &role_server)
		if (n->leaving ? n->has_part : !n->has_part)
			return 0;
	return 1;
}

static void scale_servers_on_found(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	struct sup_scale_servers *c = &s->scale.servers;
	uint64_t moving = 0;
	if (c->step != SCALE_LOOK || s->phases.now != PHASE_RUNNING)
		return;
	if (sup_answer_ok(r) && !scale_servers_all_run(s)) { /* even if the lead still waits */
		sup_rollback_begin(s, "a server ended while parts moved");
		return;
	}
	if (!sup_answer_ok(r) || record_u64_opt(r, "moving", 0, 1, &moving, NULL) != 0 || moving) {
		scale_servers_again(s, SCALE_LOOK, LOOK_SECONDS);
		return;
	}
	EACH_OF (n, s, &role_server)
		n->joining &= !n->has_part;
	if (c->tries < TRIES_MAX) {
		scale_servers_again(s, SCALE_JOIN, c->tries > 0 ? AGAIN_SECONDS : 0);
		return;
	}
	if (parts_are_as_wanted(s)) /* though they are not even yet */
		scale_servers_arrive(s);
	else
		scale_servers_revert(s);
}

static void scale_servers_find_parts(struct supervisor *s)
{
	if (s->scale.servers.look.open)
		return;
	EACH_OF (n, s, &role_server)
		n->has_part = 0;
	/* On another connection than the move, which is not answered yet. */
	sup_ask(&s->scale.servers.look, &sup_lead(s)->link, RECORD_BARE("parts"),
		scale_servers_on_part, scale_servers_on_found, s);
}

/* ---- servers that have no part any more ---- */

static int scale_servers_let_go(struct supervisor *s)
{
	int there = 0;
	for (struct sup_node *n = sup_first(s, &role_server), *next; n; n = next) {
		next = sup_next_of(n);
		if (!n->leaving)
			continue;
		if (!sup_turn_may_begin(s, TURN_RELEASE)) {
			there = 1;
			continue;
		}
		sup_node_stop(n, SIGTERM);
		if (sup_node_is_off(n))
			sup_scale_leave(n);
		else
			there = 1;
	}
	return there;
}

/* ---- for others ---- */

void sup_scale_servers_begin(struct supervisor *s, int anew)
{
	struct sup_scale_servers *c = &s->scale.servers;
	c->tries = 0;
	c->began = 0;
	c->bytes = 0;
	c->stall = NAN;
	c->why[0] = '\0';
	if (s->scale.now.servers == s->scale.from.servers)
		return;
	c->maps_moved = 1;
	sup_move_began(s);
	/* An earlier supervisor may have asked the lead already. */
	scale_servers_again(s, anew ? SCALE_JOIN : SCALE_LOOK, 0);
}

void sup_scale_servers_fail(struct supervisor *s)
{
	s->scale.servers.tries = TRIES_MAX;
	scale_servers_again(s, SCALE_LOOK, 0);
}

int sup_scale_servers_step(struct supervisor *s)
{
	struct sup_scale_servers *c = &s->scale.servers;
	if (c->step != SCALE_OVER && clock_mono() < c->not_before) {
		sup_kick_after(s, c->not_before - clock_mono());
		return 1;
	}
	if (c->step == SCALE_JOIN)
		scale_servers_join(s);
	if (c->step == SCALE_MOVE)
		scale_servers_move(s);
	if (c->step == SCALE_LOOK)
		scale_servers_find_parts(s);
	if ((c->step == SCALE_MOVE || c->step == SCALE_LOOK) && sup_move_is_late(s))
		return 1;
	if (c->step != SCALE_OVER)
		return 1;
	/* If this supervisor dies, the next one knows by this that missing servers have left. */
	if (c->is_unkept && sup_scale_keep(s, 1) != 0)
		return 1;
	c->is_unkept = 0;
	return scale_servers_let_go(s);
}

int sup_scale_rolled_back(struct supervisor *s)
{
	struct sup_scale_servers *c = &s->scale.servers;
	enum scale_move before = c->step;
	if (job_kind(s->job)->holds != HOLD_SERVERS)
		return 0;
	sup_rebalance_soon(s); /* all maps are even now */
	c->is_unkept |= sup_scale_take_servers(s) || before != SCALE_OVER;
	c->step = SCALE_OVER;
	if (c->is_unkept && sup_scale_keep(s, s->scale.under_way) != 0)
		return -1;
	c->is_unkept = 0;
	for (struct sup_node *n = sup_first(s, &role_server), *next; n; n = next) {
		next = sup_next_of(n);
		n->joining = 0;
		if (n->leaving || n->number >= s->scale.now.servers)
			sup_scale_leave(n);
	}
	return sup_scale_add_servers(s);
}

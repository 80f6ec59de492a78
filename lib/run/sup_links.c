/*
 * sup_links: connections to the daemons.  Each is for one purpose, so that an answer that is held
 * back (a checkpoint, an action, `stat wait=`) keeps no other waiting.  Decides nothing.
 */
#include "run/sup.h"

#include <string.h>

static void on_up(struct peer *p, const struct record *greeting, void *owner)
{
	struct link *link = owner;
	(void)p;
	if (link->up)
		link->up(link, greeting);
	sup_kick(link->sup);
}

static void on_down(struct peer *p, void *owner)
{
	struct link *link = owner;
	(void)p;
	sup_kick(link->sup);
}

static void open_link(struct supervisor *s, struct link *link, struct sup_node *node,
		      const char *socket_of, double answer_seconds,
		      void (*up)(struct link *link, const struct record *greeting))
{
	char path[PLACE_MAX];
	if (link->peer)
		return;
	sup_socket(s, socket_of, path);
	link->sup = s;
	link->node = node;
	link->up = up;
	struct peer_options options = {.path = path,
				       .up = on_up,
				       .down = on_down,
				       .owner = link,
				       .answer_seconds = answer_seconds};
	link->peer = peer_new(s->base, &options);
	if (!link->peer)
		sup_fail(s, ERROR_OS, "no connection to %s: out of memory", socket_of);
}

void sup_link_close(struct link *link)
{
	struct peer *peer = link->peer;
	link->peer = NULL; /* first: those who are told must find it closed */
	peer_free(peer);
}

int sup_link_up(const struct link *link)
{
	return link->peer && peer_is_up(link->peer);
}

int sup_link_send(struct link *link, struct record_out *o, const void *payload, size_t bytes,
		  peer_reply_fn *reply, void *arg)
{
	size_t len = record_end(o, NULL);
	if (len == 0 || !sup_link_up(link))
		return -1;
	return peer_send(link->peer, o->data, len, payload, bytes, reply, arg);
}

static void node_up(struct link *link, const struct record *greeting)
{
	struct supervisor *s = link->sup;
	struct sup_node *n = link->node;
	uint64_t incarnation = 0;
	/* A server of before the rollback can't be there any more; one that an earlier supervisor
	 * left half-way can. */
	if (n->role == ROLE_SERVER &&
	    record_u64_opt(greeting, "incarnation", 0, UINT64_MAX, &incarnation, NULL) == 0 &&
	    incarnation != 0 && s->incarnation != 0 && incarnation != s->incarnation) {
		sup_rollback_begin(s, "a server of another incarnation runs");
		return;
	}
	if (n->stage == STAGE_STARTING || n->stage == STAGE_READY)
		sup_node_event(n, EVENT_ANSWERS);
}

/* On which a node is asked whether it moves. No deadline here: that is for sup_pulse.c. */
static void open_asking(struct supervisor *s, struct sup_node *n)
{
	open_link(s, &n->asking, n, n->id, 0, NULL);
}

void sup_links_close(struct sup_node *n)
{
	sup_link_close(&n->link);
	sup_link_close(&n->asking);
}

void sup_links_services(struct supervisor *s)
{
	open_asking(s, s->shardd);
	open_asking(s, s->monitor);
	open_link(s, &s->shardd->link, s->shardd, "shardd", deadline_seconds(DEADLINE_ANSWER),
		  node_up);
	open_link(s, &s->shardd_wait, s->shardd, "shardd", 0, NULL);
	open_link(s, &s->monitor->link, s->monitor, "bpt-monitor",
		  deadline_seconds(DEADLINE_ANSWER), node_up);
}

static void open_server(struct supervisor *s, struct sup_node *n)
{
	open_link(s, &n->link, n, n->id, deadline_seconds(DEADLINE_ANSWER), node_up);
	open_asking(s, n);
}

void sup_link_again(struct sup_node *server)
{
	sup_links_close(server);
	open_server(server->sup, server);
}

void sup_links_servers(struct supervisor *s)
{
	for (size_t i = 0; i < s->job->servers; i++)
		open_server(s, &s->servers[i]);
	const char *lead = s->servers[0].id;
	open_link(s, &s->lead_cut, &s->servers[0], lead, deadline_seconds(DEADLINE_CUT), NULL);
	open_link(s, &s->lead_act, &s->servers[0], lead, deadline_seconds(DEADLINE_ACT),
		  sup_acts_up);
	open_link(s, &s->lead_watch, &s->servers[0], lead, 0, sup_watch_up);
}

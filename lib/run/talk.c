/* talk: see talk.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "wire/peer.h"

#include <stdio.h>

#define UNSENT_SECONDS 0.25 /* until what could not be sent is sent again */

/* ---- connections ---- */

static void talk_on_up(struct peer *p, const struct record *greeting, void *owner)
{
	struct link *link = owner;
	(void)p;
	if (link->up)
		link->up(link, greeting);
	sup_kick(link->sup);
}

static void talk_on_down(struct peer *p, void *owner)
{
	struct link *link = owner;
	(void)p;
	sup_kick(link->sup);
}

static void open_link(struct link *link, struct sup_node *n, double answer_seconds,
		      void (*up)(struct link *link, const struct record *greeting))
{
	char path[DIRS_PATH_MAX];
	if (link->peer)
		return;
	sup_socket(n->sup, n->id, path);
	link->sup = n->sup;
	link->node = n;
	link->up = up;
	struct peer_options options = {.path = path,
				       .up = talk_on_up,
				       .down = talk_on_down,
				       .owner = link,
				       .answer_seconds = answer_seconds};
	link->peer = peer_new(n->sup->base, &options);
	if (!link->peer)
		sup_fail(n->sup, ERROR_OS, "no connection to %s: out of memory", n->id);
}

static void close_link(struct link *link)
{
	struct peer *peer = link->peer;
	link->peer = NULL; /* first: those whom peer_free() tells must find it closed */
	peer_free(peer);
}

int sup_link_up(const struct link *link)
{
	return link->peer && peer_is_up(link->peer);
}

/* Somebody may have set the machine's clock since the monitor began. */
static void talk_tell_clock(struct link *monitor)
{
	sup_tell(monitor, RECORD("clock", F_SECONDS("at", clock_epoch())));
}

static void node_up(struct link *link, const struct record *greeting)
{
	struct sup_node *n = link->node;
	uint64_t incarnation = 0;
	if (n == sup_monitor(n->sup))
		talk_tell_clock(link);
	record_u64_opt(greeting, "incarnation", 0, UINT64_MAX, &incarnation, NULL);
	sup_node_answers(n, incarnation);
}

/* Opens the node's link, and another one for the watchdog's questions. That one has no deadline,
 * because the watchdog has its own. */
static void open_node(struct sup_node *n)
{
	open_link(&n->link, n, deadline_seconds(DEADLINE_ANSWER), node_up);
	open_link(&n->watch_link, n, 0, NULL);
}

void sup_links_close(struct sup_node *n)
{
	close_link(&n->link);
	close_link(&n->watch_link);
}

void sup_links_services(struct supervisor *s)
{
	EACH_NODE (n, s)
		if (n->role->service)
			open_node(n);
	open_link(&s->links.shardd_wait, sup_shardd(s), 0, NULL);
}

void sup_link_again(struct sup_node *server)
{
	struct link *act = &server->sup->links.lead_act;
	sup_links_close(server);
	open_node(server);
	/* A lead that took over may have greeted here before its life was known: then it was taken
	 * for the one before, and not told what is in force. */
	if (act->node == server && act->peer) {
		close_link(act);
		open_link(act, server, deadline_seconds(DEADLINE_ACT), sup_actions_up);
	}
}

void sup_links_servers(struct supervisor *s)
{
	struct sup_node *lead = sup_lead(s);
	if (!lead)
		return;
	EACH_NODE (n, s)
		if (n->role->goes_back)
			open_node(n);
	open_link(&s->links.lead_cut, lead, deadline_seconds(job_kind(s->job)->cut_limit), NULL);
	open_link(&s->links.lead_act, lead, deadline_seconds(DEADLINE_ACT), sup_actions_up);
	open_link(&s->links.lead_watch, lead, 0, sup_progress_up);
	if (sup_first(s, &role_server))
		open_link(&s->links.lead_move, lead, 0, NULL);
}

void sup_links_close_servers(struct supervisor *s)
{
	close_link(&s->links.lead_cut);
	close_link(&s->links.lead_act);
	close_link(&s->links.lead_watch);
	close_link(&s->links.lead_move);
	EACH_NODE (n, s)
		if (n->role->goes_back)
			sup_links_close(n);
}

void sup_links_free(struct supervisor *s)
{
	sup_links_close_servers(s);
	close_link(&s->links.shardd_wait);
	EACH_NODE (n, s)
		sup_links_close(n);
}

/* ---- questions ---- */

static void on_reply(const struct record *r, int closing, void *arg)
{
	struct question *q = arg;
	int is_last = q->open == 1, counts = is_last && !q->stale;
	if (!closing) {
		if (counts && q->each)
			q->each(r, q->owner);
		return;
	}
	q->open--;
	if (is_last)
		q->stale = 0;
	if (is_last && q->done)
		q->done(counts ? r : NULL, q->owner);
}

static int talk_ask(struct question *q, struct link *link, struct record_out *o,
		    const void *payload, size_t bytes, sup_answer_fn *each, sup_answer_fn *done,
		    void *owner)
{
	size_t len = record_end(o, NULL);
	if (!sup_link_up(link))
		return -1;
	if (len == 0) {
		sup_fail(link->sup, ERROR_SOFTWARE, "a request to %s is longer than a line",
			 link->node->id);
		return -1;
	}
	q->each = each;
	q->done = done;
	q->owner = owner;
	if (peer_send(link->peer, o->data, len, payload, bytes, on_reply, q) != 0)
		return -1;
	q->open++;
	return 0;
}

void sup_ask_with(struct question *q, struct link *link, struct record_out *o, const void *payload,
		  size_t bytes, sup_answer_fn *done, void *owner)
{
	if (!q->open && talk_ask(q, link, o, payload, bytes, NULL, done, owner) != 0 && link->sup)
		sup_kick_after(link->sup, UNSENT_SECONDS);
}

void sup_ask(struct question *q, struct link *link, struct record_out *o, sup_answer_fn *each,
	     sup_answer_fn *done, void *owner)
{
	if (sup_ask_now(q, link, o, each, done, owner) != 0 && link->sup)
		sup_kick_after(link->sup, UNSENT_SECONDS);
}

int sup_ask_now(struct question *q, struct link *link, struct record_out *o, sup_answer_fn *each,
		sup_answer_fn *done, void *owner)
{
	return q->open ? 0 : talk_ask(q, link, o, NULL, 0, each, done, owner);
}

int sup_ask_again(struct question *q, struct link *link, struct record_out *o, sup_answer_fn *each,
		  sup_answer_fn *done, void *owner)
{
	return talk_ask(q, link, o, NULL, 0, each, done, owner);
}

void sup_ask_forget(struct question *q)
{
	q->stale = q->open > 0;
}

void sup_tell(struct link *link, struct record_out *o)
{
	size_t len = record_end(o, NULL);
	if (len > 0 && sup_link_up(link))
		peer_send(link->peer, o->data, len, NULL, 0, NULL, NULL);
}

int sup_answer_ok(const struct record *r)
{
	return r && record_is(r, "ok");
}

const char *sup_answer_code(const struct record *r)
{
	const char *code = r ? record_get(r, "code") : NULL;
	return code ? code : "";
}

const char *sup_answer_text(const struct record *r, char out[SUP_ANSWER_TEXT])
{
	const char *code = sup_answer_code(r);
	snprintf(out, SUP_ANSWER_TEXT, "%s%s%s", code[0] ? code : r->type, r->text ? ": " : "",
		 r->text ? r->text : "");
	return out;
}

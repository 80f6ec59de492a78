/* A server dies: all servers go back to the last checkpoint, and the queue of rows with them (run/recover.h).
 * Processes of workers live on; they say hello again, and pull when the servers are there. */
#include "sim/sim_internal.h"

#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void back_put_line(void *file, const char *line, size_t len)
{
	fwrite(line, 1, len, file);
	putc('\n', file);
}

void back_cut(struct sim *s)
{
	struct sim_saved *save = &s->back.next;
	if (!s->back.is_possible)
		return;
	free(save->text);
	*save = (struct sim_saved){.iteration = gate_iteration(s->gate), .samples = s->result.samples};
	FILE *out = grow_stream(&save->text, &save->len);
	if (!out) {
		sim_fail_memory(s);
		return;
	}
	queue_write(s->queue, back_put_line, out);
	if (fclose(out) != 0)
		sim_fail_memory(s);
}

void back_saved(struct sim *s)
{
	struct sim_back *b = &s->back;
	if (!b->next.text)
		return;
	free(b->last.text);
	b->last = b->next;
	b->next.text = NULL;
}

void back_free(struct sim *s)
{
	free(s->back.last.text);
	free(s->back.next.text);
}

static int back_load(struct sim *s, struct error *err)
{
	const struct sim_saved *save = &s->back.last;
	struct queue_loader *l = queue_loader_new(NULL);
	struct queue *q = NULL;
	int result = l ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t at = 0; at < save->len && result == 0;) {
		size_t len = (size_t)((const char *)memchr(save->text + at, '\n', save->len - at) - (save->text + at)) + 1;
		if (queue_loader_line(l, save->text + at, len - 1, err) < 0)
			result = -1;
		at += len;
	}
	if (result != 0) {
		queue_loader_free(l);
		return -1;
	}
	if (queue_loader_finish(l, &q, err) != 0 || queue_roll_back(q, s->queue, err) != 0) {
		queue_free(q);
		return -1;
	}
	queue_free(s->queue);
	s->queue = q;
	return 0;
}

/* Nothing that the lead, shardd, servers, or workers whose processes are there had under way goes on. */
static int back_is_void(const struct sim *s, const struct event *e)
{
	switch ((enum event_kind)e->kind) {
	case EVENT_SETTLED:
	case EVENT_CLOCK:
	case EVENT_BEGIN:
	case EVENT_SAVE:
	case EVENT_SAVED:
		return 1;
	case EVENT_START: /* of one that begins, it goes on */
		return e->node >= s->workers && e->node < s->nodes;
	case EVENT_NEXT:
	case EVENT_PULLED:
	case EVENT_COMPUTED:
	case EVENT_ANNOUNCED:
	case EVENT_PUSHED:
	case EVENT_ASK:
		return 1;
	default:
		return 0;
	}
}

static void back_events(struct sim *s)
{
	struct events old = s->events;
	struct event e;
	s->events = (struct events){0};
	s->moves = 0;
	while (events_take(&old, &e) > 0)
		if (!back_is_void(s, &e))
			sim_plan_as(s, e.at, (enum event_kind)e.kind, e.node, e.life);
	events_free(&old);
}

static int back_is_there(const struct sim_node *n)
{
	return n->state != SIM_OFF && n->state != SIM_STARTING;
}

static void back_server(struct sim *s, struct sim_node *n)
{
	control_event(s, n, "exit");
	n->life++;
	control_event(s, n, "restart");
	n->busy_until = s->served_at;
	n->state = SIM_JOINING;
	sim_plan(s, s->served_at, EVENT_START, n);
}

void back_go(struct sim *s)
{
	struct error err;
	size_t there = 0;
	sim_note(s, "rollback", "a server ended: all servers go back to the last checkpoint");
	back_events(s);
	free(s->back.next.text);
	s->back.next.text = NULL;
	if (back_load(s, &err) != 0) {
		sim_fail(s, &err);
		return;
	}
	s->result.samples = s->back.last.samples;
	s->result.iterations = s->back.last.iteration;
	s->served_at = s->now + s->cost.start_server;
	for (size_t i = 0; i < s->job.workers; i++)
		there += (size_t)back_is_there(&s->node[i]);
	if (leading_again(s, s->back.last.iteration, there, &err) != 0) {
		sim_fail(s, &err);
		return;
	}
	for (size_t i = s->workers; i < s->nodes; i++)
		back_server(s, &s->node[i]);
	for (size_t i = 0; i < s->workers; i++)
		if (back_is_there(&s->node[i]))
			worker_begins_anew(s, &s->node[i]);
	if (s->job.checkpoint > 0)
		sim_plan(s, s->served_at + s->job.checkpoint, EVENT_SAVE, NULL);
	leading_obey(s);
}

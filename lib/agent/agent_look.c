/*
 * The agent, on the trainer's host, watches the trainer while the trainer has the word: whether it
 * is stopped, waits in a collective for other trainers, or pauses; and whether it waits in a sum.
 * It reports changes to the lead, and trainctl asks the lead. So neither the agent's own state nor
 * a trainer that waits is taken for the cause of a silence.
 */
#include "agent/agent_internal.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SECONDS 2.0 /* seconds; most batches have ended before */
#define EVERY_SECONDS 1.0
#define WAITS_SECONDS 3.0 /* a trainer says so each second while it waits */

void agent_look_turn(struct agent *a)
{
	struct look *l = &a->look;
	l->turn_at = clock_mono();
	l->motion = (struct inspect_motion){0};
	l->at = 0;
}

static int is_its_turn(const struct agent *a)
{
	return a->word == WORD_NONE && a->command.pid > 0 && !a->command.ended && !a->finished;
}

/* It waits in a sum, for the others, or for what adds it up. */
static int is_in_sum(const struct agent *a)
{
	return a->options.replica && a->word == WORD_STEP;
}

double agent_look_due(const struct agent *a)
{
	const struct look *l = &a->look;
	if (is_in_sum(a) && !l->seen.waits)
		return a->word_at + EVERY_SECONDS;
	if (!is_its_turn(a))
		return INFINITY;
	return fmax(l->turn_at + FIRST_SECONDS, l->at + EVERY_SECONDS);
}

static void agent_look_say(struct agent *a, struct error *err, int *result)
{
	struct look *l = &a->look;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	l->told = l->seen;
	l->is_asked = 1;
	conversation_begin(&a->lead, &o, line, "trainer");
	if (l->seen.waits)
		record_add_u64(&o, "waits", 1);
	if (l->seen.pauses > 0)
		record_add_real(&o, "pauses", l->seen.pauses);
	if (l->seen.stopped)
		record_add_u64(&o, "stopped", 1);
	if (l->seen.state[0]) {
		record_add(&o, "state", l->seen.state);
		record_add(&o, "wchan", l->seen.wchan);
	}
	*result = agent_ask(a, &o, (struct asked){.kind = ASK_TRAINER}, NULL, 0, err);
}

static void agent_look_now(struct agent *a, double now)
{
	struct look *l = &a->look;
	struct inspect_groups groups = {0};
	double seconds = l->at > 0 ? now - l->at : EVERY_SECONDS;
	l->at = now;
	inspect_groups_read(&groups);
	inspect_motion(&l->motion, &groups, a->command.pid, fmin(seconds, FIRST_SECONDS));
	inspect_groups_free(&groups);
	l->seen.stopped = l->motion.stopped > 0;
}

/* The next word ends a stop or a wait; its state is the one when we asked. */
int agent_look(struct agent *a, struct error *err)
{
	struct look *l = &a->look;
	double now = clock_mono();
	int result = WORK_OK;
	if (!is_its_turn(a)) {
		l->seen.stopped = 0;
		l->seen.waits = is_in_sum(a) && now >= a->word_at + EVERY_SECONDS;
		l->seen.state[0] = l->seen.wchan[0] = '\0';
	} else if (now >= agent_look_due(a)) {
		agent_look_now(a, now);
		/* A trainer that waits for a place says next at once: this one gets none now. */
		spare_close(&a->spare);
	}
	if (is_its_turn(a) && now - l->waits_at > WAITS_SECONDS)
		l->seen.waits = 0;
	int is_known = l->seen.waits == l->told.waits && l->seen.stopped == l->told.stopped &&
		       l->seen.pauses == l->told.pauses &&
		       strcmp(l->seen.state, l->told.state) == 0;
	if (!is_known && !l->is_asked && a->lead.call && a->phase != PHASE_OUT &&
	    a->phase != PHASE_JOINING && a->phase != PHASE_ENDED &&
	    a->asked.count + 3 < CONVERSATION_OPEN_MAX)
		agent_look_say(a, err, &result);
	return result;
}

void agent_look_forget(struct agent *a)
{
	a->look.told = (struct look_seen){0};
	a->look.is_asked = 0;
}

/* ---- words ---- */

void agent_waits(struct agent *a)
{
	a->look.waits_at = clock_mono();
	a->look.seen.waits = 1;
}

/* ---- asked for ---- */

/* Python prints its stacks at this signal, which other programs ignore (paceline.py). */
void agent_look_closely(struct agent *a)
{
	struct look *l = &a->look;
	char *text = NULL;
	size_t len = 0;
	FILE *out;
	if (a->command.pid <= 0 || a->command.ended || !(out = grow_stream(&text, &len)))
		return;
	inspect_group(out, "", a->command.pid);
	if (fclose(out) == 0) {
		log_say(LOG_LEVEL_INFO,
			"the trainer of %s, as the kernel sees it:", a->options.meter.id);
		for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save))
			log_say(LOG_LEVEL_INFO, "  %s", line);
	}
	free(text);
	inspect_worst(a->command.pid, l->seen.state, sizeof l->seen.state, l->seen.wchan,
		      sizeof l->seen.wchan);
	command_kill(&a->command, SIGURG);
}

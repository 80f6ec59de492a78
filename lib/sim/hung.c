/* Who hangs: what run/watchdog.c does, without a look each second: a worker's silence is judged when it would be
 * too long, if nothing comes before. */
#include "sim/sim_internal.h"

#include "job/deadline.h"

#include <math.h>

/* When it is given up as it is now. */
static double hung_due(const struct sim *s, const struct sim_node *n, enum pulse_section *section, double *limit)
{
	*section = !n->pulse.begun ? PULSE_START : n->is_member ? PULSE_BATCH : PULSE_EXCHANGE;
	*limit = pulse_limit(&n->pulse, &s->hung, *section, n->actions.size * n->actions.accum);
	double due = n->owes + *limit, stopped = deadline_stopped(&s->hung, PULSE_BATCH);
	if (!n->is_stopped || s->hung.fixed[*section] || fmax(n->owes, n->stopped) + stopped >= due)
		return due;
	*limit = stopped;
	return fmax(n->owes, n->stopped) + stopped;
}

void hung_plan(struct sim *s, struct sim_node *n)
{
	enum pulse_section section;
	double limit, due;
	if (n->owes < 0 || !isfinite(due = hung_due(s, n, &section, &limit)) ||
	    (n->watched > s->now && n->watched <= due))
		return;
	n->watched = fmax(due, s->now);
	n->watched_since = n->owes;
	sim_plan(s, n->watched, EVENT_HUNG, n);
}

void hung_plan_if_long(struct sim *s, struct sim_node *n, double until)
{
	if (until - n->owes > fmin(s->hung.least[PULSE_START], s->hung.least[PULSE_BATCH]))
		hung_plan(s, n);
}

void hung_look(struct sim *s, struct sim_node *n)
{
	enum pulse_section section;
	double limit;
	if (s->now != n->watched || n->owes < 0)
		return;
	if (hung_due(s, n, &section, &limit) <= s->now)
		control_gives_up(s, n, pulse_section_name(section), s->now - n->owes, limit);
	else if (n->is_stopped || n->owes == n->watched_since) /* its batch is long, or began after it stopped */
		hung_plan(s, n);
}

/* duty: see duty.h. */
#include "straggle/duty.h"

#include <math.h>

void duty_go_on(struct duty *d, double now)
{
	if (d->stopped)
		d->stopped_for += now - d->since;
	d->stopped = 0;
}

void duty_start(struct duty *d, double slowdown, double first)
{
	*d = (struct duty){.slowdown = slowdown,
			   .turn = slowdown > 1 ? first : INFINITY,
			   .begin = first,
			   .cycle = first};
}

/* A new period, or the second part of this one. */
void duty_turn(struct duty *d, double period, double now)
{
	if (d->stopped) {
		duty_go_on(d, now);
		d->turn = d->cycle + period;
		return;
	}
	d->cycle = now - d->turn < period ? d->turn : now;
	double share = 1 - 1 / d->slowdown;
	double due = share * (d->cycle + period - d->begin) - d->stopped_for;
	d->turn = d->cycle + period;
	if (due > 0) {
		d->stopped = 1;
		d->since = now;
		d->turn = fmin(now + due, d->turn);
	}
}

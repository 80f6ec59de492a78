/*
 * duty: when a process is to stop and when to go on, so that it is so many times slower: it stands
 * still for 1 - 1/slowdown of each period.  A turn that came late is made up for in the next
 * period, so that the share is right on a busy machine, too.  Pure: the caller has the clock.
 */
#ifndef PACELINE_STRAGGLE_DUTY_H
#define PACELINE_STRAGGLE_DUTY_H

struct duty {
	double slowdown;
	int stopped;
	double turn; /* when duty_turn() is due; INFINITY: never */
	/* its own */
	double begin, cycle, since, stopped_for;
};

/* From first on; a stop that goes on is over. */
void duty_start(struct duty *d, double slowdown, double first);
/* At or after d->turn: sets d->stopped, and the next turn. */
void duty_turn(struct duty *d, double period, double now);
/* Ends a stop before its time. */
void duty_go_on(struct duty *d, double now);

#endif

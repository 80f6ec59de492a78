/* again: see again.h. */
#include "proc/again.h"

double again_pause(uint64_t in_a_row)
{
	double pause = 0.1;
	while (in_a_row-- > 1 && pause < 5)
		pause *= 2;
	return pause < 5 ? pause : 5;
}

int again_did_well(double ready_seconds, int worked)
{
	return ready_seconds >= AGAIN_WELL_SECONDS && worked;
}

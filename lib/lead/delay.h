/*
 * delay: how stale the gradients are that go into the model.  The delay of a push is the number of
 * units that were committed between its pull and its own commit (MLfabric, section 3.1: tau); under
 * BSP it is 0.  Pure.
 *
 * Delays up to 7 are counted one by one, and greater ones in steps of an eighth of their power of
 * two, so that a quantile is exact or at most an eighth too high.
 */
#ifndef PACELINE_LEAD_DELAY_H
#define PACELINE_LEAD_DELAY_H

#include "record/record.h"

#include <stdint.h>

#define DELAY_BITS 20 /* a delay of more than 2^20 counts as that */
#define DELAY_STEPS (8 * (DELAY_BITS - 2) + 1)

struct delays {
	uint32_t count[DELAY_STEPS];
	uint64_t pushes, most; /* most: the greatest delay, exact */
	uint64_t dropped;      /* pushes that were too stale */
};

void delay_count(struct delays *d, uint64_t delay);
/* The least delay that at least this fraction (0..1) of the pushes did not exceed; 0: no push. */
uint64_t delay_quantile(const struct delays *d, double fraction);
/* `delay= delay-95= delay-most=`, if there was a push; `stale=`, if any was dropped for it. */
void delay_put(struct record_out *o, const struct delays *d);

#endif

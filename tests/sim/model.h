/* model: what the journal of shardd(8) says of the rows. */
#ifndef PACELINE_TESTS_SIM_MODEL_H
#define PACELINE_TESTS_SIM_MODEL_H

#include "tests/sim/kernel.h"

#include "shard/ledger.h"

/* Fails if not each row is in the model once for each epoch. */
static inline void model_has_all(const char *journal, uint64_t rows, uint64_t epochs)
{
	struct ledger l;
	struct error err;
	if (ledger_read(&l, journal, &err) != 0)
		sim_fail("%s: %s", err.place, err.text);
	if (l.runs != epochs)
		sim_fail("%zu runs of rows are in the model, not %llu", l.runs, (unsigned long long)epochs);
	for (uint64_t e = 0; e < epochs; e++)
		if (l.run[e].epoch != e || l.run[e].begin != 0 || l.run[e].length != rows)
			sim_fail("of epoch %llu rows %llu+%llu are in the model", (unsigned long long)l.run[e].epoch,
				 (unsigned long long)l.run[e].begin, (unsigned long long)l.run[e].length);
	ledger_free(&l);
}

#endif

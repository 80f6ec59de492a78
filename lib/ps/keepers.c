/* keepers: see keepers.h. */
#include "ps/keepers.h"

#include "ps/standby.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct keeper {
	struct keeper *next;
	struct ps *ps;
	uint64_t generation;
	int is_here; /* on this host */
	char worker[OPTION_ID_MAX];
};

int keepers_has(const struct ps *p, const char *worker, uint64_t generation, int elsewhere)
{
	for (const struct keeper *k = p->keepers; k; k = k->next)
		if (k->generation == generation && strcmp(k->worker, worker) == 0)
			return !elsewhere || !k->is_here;
	return 0;
}

static void keeper_gone(struct request *rq, void *keeper)
{
	struct keeper *k = keeper, **at = &k->ps->keepers;

	(void)rq;
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	standby_lost_keeper(k->ps, k->worker, k->generation);
	free(k);
}

void keepers_on_keep(struct request *rq, void *ps)
{
	struct ps *p = ps;
	const struct record *r = request_record(rq);
	struct keeper *k = calloc(1, sizeof *k);
	const char *worker;
	uint64_t pid = 0;
	struct error err = {0};

	if (!ps_in_force(p, rq)) {
		free(k);
	} else if (!k) {
		request_err(rq, "no-memory", "for one that keeps its pushes");
	} else if (record_id(r, "worker", &worker, &err) != 0 ||
		   record_u64(r, "generation", 1, UINT64_MAX - 1, &k->generation, &err) != 0 ||
		   record_u64_opt(r, "pid", 1, INT32_MAX, &pid, &err) != 0) {
		request_bad(rq, &err);
		free(k);
	} else {
		k->ps = p;
		snprintf(k->worker, sizeof k->worker, "%s", worker);
		/* Through a relay it would be another process. */
		k->is_here = (pid_t)pid == connection_pid(request_connection(rq));
		k->next = p->keepers;
		p->keepers = k;
		request_put_record(rq, RECORD_BARE("keeps"));
		request_defer(rq, keeper_gone, k);
	}
}

void keepers_on_release(struct request *rq, void *ps)
{
	struct ps *p = ps;
	const char *worker;
	uint64_t generation;
	struct error err = {0};

	if (!ps_in_force(p, rq))
		return;
	if (record_id(request_record(rq), "worker", &worker, &err) != 0 ||
	    record_u64(request_record(rq), "generation", 1, UINT64_MAX - 1, &generation, &err) !=
		    0) {
		request_bad(rq, &err);
		return;
	}
	standby_lost_keeper(p, worker, generation);
	standby_ok(p, rq, "%s", "");
}

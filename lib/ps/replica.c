/* A replica as a whole: how it is made, started and ended, and all requests to it. */
#include "ps/replica.h"

#include "base/clock.h"
#include "ps/fabric_client.h"
#include "record/record.h"

#include <stdlib.h>
#include <sys/mman.h>

static size_t total_bytes(const struct ps_replica *r)
{
	return store_dense_count(r->ps->store) * sizeof(float) + 64;
}

float *ps_replica_memory(struct ps_replica *r)
{
	if (r->memory)
		return r->memory;
	void *memory = mmap(NULL, total_bytes(r), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	/* Advice only: without huge pages it is slower, not wrong. */
	(void)madvise(memory, total_bytes(r), MADV_HUGEPAGE);
	return r->memory = memory;
}

int ps_replica_new(struct ps_replica **out, struct ps *p, struct error *err)
{
	struct ps_replica *r = calloc(1, sizeof *r);
	unsigned cores = team_cores();

	if (!r)
		return error_set(err, ERROR_OS, "replica", "out of memory");
	r->ps = p;
	r->life = (uint64_t)(clock_epoch() * 1e6);
	r->state = p->options.sums    ? REPLICA_FILLING
		   : p->options.empty ? REPLICA_EMPTY
				      : REPLICA_SERVING;
	r->sums.fd = r->sums.own_fd = -1;
	for (size_t i = 0; i < PS_STATES; i++)
		r->state_kept[i].fd = -1;
	if (team_new(&r->team, cores < PS_THREADS ? cores : PS_THREADS, err) != 0 ||
	    store_share(p->store, err) != 0 ||
	    (p->options.fabric && fabric_client_new(&r->fabric, r, err) != 0)) {
		ps_replica_free(r);
		return -1;
	}
	*out = r;
	return 0;
}

int ps_replica_start(struct ps_replica *r, struct error *err)
{
	if (round_start(r, err) != 0 || fill_start(r, err) != 0 || ps_state_start(r, err) != 0)
		return -1;
	return r->fabric ? fabric_client_start(r->fabric, err) : 0;
}

void ps_replica_stop(struct ps_replica *r)
{
	if (!r)
		return;
	fill_stop(r);
	ps_state_stop(r);
	fabric_client_stop(r->fabric);
	round_stop(r);
}

void ps_replica_free(struct ps_replica *r)
{
	if (!r)
		return;
	early_drop(r, NULL, UINT64_MAX);
	round_free(r);
	ps_room_free(r);
	ps_state_free(r);
	fill_free(r);
	fabric_client_free(r->fabric);
	if (r->memory)
		munmap(r->memory, total_bytes(r));
	team_free(r->team);
	free(r);
}

int ps_replica_serves(struct ps_replica *r, struct request *rq)
{
	if (r->state == REPLICA_SERVING)
		return 1;
	if (r->ps->options.sums)
		request_err(rq, "empty", "nobody has said room here yet");
	else
		request_err(rq, "empty", "there are no parameters here yet");
	return 0;
}

size_t ps_replica_rows(const struct ps_replica *r)
{
	return r->state == REPLICA_SERVING ? store_row_count(r->ps->store) : 0;
}

void ps_replica_stat(const struct ps_replica *r, struct record_out *o)
{
	static const char *const state[] = {"empty", "filling", "serving"};

	record_add(o, "replica", r->ps->options.id);
	record_add(o, "state", state[r->state]);
	if (r->ps->options.sums)
		record_add_u64(o, "sums", 1);
	record_add_u64(o, "life", r->life);
	record_add_u64(o, "round", r->round.state == ROUND_HELD ? r->round.number : 0);
	record_add_u64(o, "threads", team_threads(r->team));
	if (r->fabric)
		record_add_u64(o, "fabric", fabric_client_is_up(r->fabric) ? 1 : 0);
}

/* ---- requests ---- */

static void ps_replica_on_look(struct request *rq, void *ps)
{
	struct ps *p = ps;

	if (store_shared_fd(p->store) < 0) {
		request_err(rq, "bad-request", "there are no dense parameters");
		return;
	}
	request_ok_with(rq,
			RECORD("ok", F("map-bytes", store_dense_count(p->store) * sizeof(float))),
			store_shared_fd(p->store));
}

const struct verb ps_replica_verbs[] = {
	{"pull", "worker generation incarnation iteration dense rows",
	 "into-offset-bytes into-bytes asked after", ps_on_pull, PART_PAYLOAD_BYTES_MAX,
	 "parameters as of an iteration; payload: u32 keys"},
	{"part", "worker generation incarnation sequence iteration begin length", "", early_on_part,
	 PART_PAYLOAD_BYTES_MAX, "these floats of a gradient in mapped memory are final"},
	{"push", "worker generation incarnation sequence iteration count dense rows",
	 "size skipped ranges loss", ps_on_push, PART_PAYLOAD_BYTES_MAX,
	 "gradients; mapped ones stay where they are until the step"},
	{"sum", "incarnation round iteration replicas", "check", round_on_sum, ORDER_BYTES_MAX,
	 "the lead: add up what these members push; answered when it is done"},
	{"hold", "incarnation round", "", round_on_hold, ORDER_BYTES_MAX,
	 "the lead: it holds these pushes; a sum that waits for one that is not here fails"},
	{"apply", "incarnation iteration units round divisor", "samples", round_on_apply, 0,
	 "the lead: that sum is committed: make a step with it"},
	{"throw", "incarnation worker generation", "sequence", ps_on_order, 0,
	 "the lead: what is staged of a worker that is fenced, or has gone, goes"},
	{"stat", "", "", ps_on_stat, 0, "what is here"},
};
const size_t ps_replica_verb_count = sizeof ps_replica_verbs / sizeof *ps_replica_verbs;

const struct verb ps_full_verbs[] = {
	{"look", "", "", ps_replica_on_look, 0,
	 "the dense parameters, to be read where they lie: a descriptor comes with the answer"},
	{"cut", "incarnation path", "iteration base", ps_on_order, 0,
	 "the lead: fork now and write all parameters into path"},
	{"fill", "incarnation from iteration", "round", fill_on_fill, 0,
	 "the lead: copy all parameters from the replica at this socket"},
	{"copy", "incarnation", "iteration", fill_on_copy, 0,
	 "another replica: all parameters as they are now"},
};
const size_t ps_full_verb_count = sizeof ps_full_verbs / sizeof *ps_full_verbs;

const struct verb ps_sums_verbs[] = {
	{"room", "incarnation floats", "", ps_room_on_room, 0,
	 "a rank: so long is a gradient; the last two sums, to be read where they lie: a descriptor "
	 "comes with the answer"},
	{"look", "", "", ps_room_on_look, 0, "the same memory"},
	{"state", "incarnation attempt iteration length", "", ps_state_on_state, 0,
	 "a rank: what its trainer has saved for another one; its descriptor comes with the request"},
	{"state-get", "incarnation attempt", "from", ps_state_on_get, 0,
	 "a rank: that memory, also from another replica; without from, a replica: its bytes"},
};
const size_t ps_sums_verb_count = sizeof ps_sums_verbs / sizeof *ps_sums_verbs;

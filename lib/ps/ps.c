/* A part as a whole: how it is made, started and ended, and what it tells of itself. */
#include "ps/move.h"
#include "ps/replica.h"
#include "ps/behind.h"
#include "ps/keepers.h"
#include "ps/merge.h"
#include "ps/standby.h"

#include "base/clock.h"
#include "param/store_move.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>

int ps_new(struct ps **out, const struct ps_options *options, struct error *err)
{
	struct ps *p = calloc(1, sizeof *p);

	if (!p)
		return error_set(err, ERROR_OS, "ps", "out of memory");
	p->options = *options;
	boot_id(p->boot);
	p->drag.path = options->drag;
	p->store = options->store;
	ps_heat_anew(p);
	p->applied = options->iteration;
	p->reported = clock_mono();
	p->waits_end = &p->waits;
	behind_start(&p->behind);
	p->buffers = buffers_new();
	if (!p->buffers)
		error_set(err, ERROR_OS, "ps", "out of memory");
	if (!p->buffers || stage_new(&p->stage, err) != 0 ||
	    (options->replicas && ps_replica_new(&p->replica, p, err) != 0)) {
		ps_free(p);
		return -1;
	}
	*out = p;
	return 0;
}

/* Tells the clock to a monitor, which may be on another host with another clock. */
static void ps_tell_clock(struct peer *monitor, const struct record *greeting, void *ps)
{
	(void)greeting;
	(void)ps;
	struct record_out *o = RECORD("clock", F_SECONDS("at", clock_epoch()));
	size_t len = record_end(o, NULL);
	(void)peer_send(monitor, o->data, len, NULL, 0, NULL, NULL);
}

int ps_start(struct ps *p, struct server *server, struct error *err)
{
	struct peer_options options = {.path = p->options.monitor, .up = ps_tell_clock, .owner = p};

	p->server = server;
	if (ps_handover_start(p, err) != 0 || ps_waits_start(p, err) != 0 ||
	    behind_wait(p, err) != 0 || (p->replica && ps_replica_start(p->replica, err) != 0))
		return -1;
	if (!p->options.monitor)
		return 0;
	p->monitor = peer_new(server_base(server), &options);
	if (!p->monitor)
		return error_set(err, ERROR_OS, p->options.monitor, "out of memory");
	return 0;
}

void ps_stop(struct ps *p)
{
	if (!p)
		return;
	if (p->fork) {
		fork_stop(p->fork);
		ps_cut_forget(p);
	}
	standby_drop(p, "the part ends");
	move_stop(p);
	ps_replica_stop(p->replica);
	ps_handover_stop(p);
	ps_waits_stop(p);
	if (p->monitor)
		peer_free(p->monitor);
}

void ps_free(struct ps *p)
{
	if (!p)
		return;
	ps_replica_free(p->replica);
	behind_free(&p->behind);
	stage_free(p->stage);
	buffers_free(p->buffers);
	free(p->scratch);
	free(p->unit);
	free(p->held);
	free(p->unit_from);
	call_close(p->handed);
	free(p);
}

const struct error *ps_broken(const struct ps *p)
{
	return p->broken ? &p->error : NULL;
}

void ps_break(struct ps *p, const struct error *err)
{
	if (!p->broken)
		p->error = *err;
	p->broken = 1;
	server_stop(p->server);
}

struct team *ps_team(const struct ps *p)
{
	return p->replica ? p->replica->team : NULL;
}

uint64_t ps_life(const struct ps *p)
{
	return p->replica ? p->replica->life : 0;
}

const char *ps_boot(const struct ps *p)
{
	return p->boot;
}

int ps_lacks(const struct ps *p)
{
	return behind_lacks(p);
}

uint32_t ps_part(const struct ps *p)
{
	return p->options.part;
}

uint64_t ps_iteration(const struct ps *p)
{
	return p->applied;
}

static uint64_t ps_iteration_of(const void *ps)
{
	return ps_iteration(ps);
}

/* Without id= and members=. */
static void ps_stat(const void *ps, struct record_out *o)
{
	const struct ps *p = ps;
	int one_of_parts = !p->replica;
	char part[32];

	snprintf(part, sizeof part, "%u/%u", one_of_parts ? p->options.part : p->options.replica,
		 one_of_parts ? p->options.parts : p->options.replicas);
	record_add(o, "part", part);
	if (p->replica)
		ps_replica_stat(p->replica, o);
	record_add_u64(o, "iteration", p->applied);
	record_add_u64(o, "incarnation", p->options.incarnation);
	record_add_u64(o, "dense", store_dense_count(p->store));
	record_add_u64(o, "rows",
		       p->replica ? ps_replica_rows(p->replica) : store_row_count(p->store));
	record_add_u64(o, "staged", stage_count(p->stage));
	record_add_u64(o, "pushes", p->pushes);
	record_add_u64(o, "pulls", p->pulls);
	record_add_u64(o, "diverged", p->diverged);
	record_add_u64(o, "bounded", p->bounded);
	record_add(o, "boot", p->boot);
	standby_stat(p, o);
	if (p->replica)
		return;
	const struct map *map = store_map(p->store);
	uint32_t at = store_part(p->store);
	record_add_u64(o, "map", map->version);
	record_add_u64(o, "dense-begin", map->dense_begin[at]);
	record_add_u64(o, "key-begin", map->key_begin[at]);
	record_add_u64(o, "keys", map->key_begin[at + 1] - map->key_begin[at]);
	if (map->version == 0)
		record_add_u64(o, "join", 1);
	record_add_u64(o, "dense-bytes", store_dense_bytes(p->store));
	record_add_u64(o, "row-bytes", store_row_bytes(p->store));
	if (store_width(p->store))
		heat_stat(&p->heat, store_width(p->store), o);
}

static void ps_standby_stat(const void *ps, struct record_out *o)
{
	standby_stat(ps, o);
}

struct part_here ps_here(struct ps *p)
{
	return (struct part_here){.part = p,
				  .obey = ps_obey_here,
				  .stage = ps_stage,
				  .iteration = ps_iteration_of,
				  .stat = ps_stat,
				  .standby = ps_standby_stat};
}

/* Whether a request of a worker is of this incarnation. 0: it is not, and was refused. */
int ps_in_force(struct ps *p, struct request *rq)
{
	struct error err;
	uint64_t incarnation;

	if (record_u64(request_record(rq), "incarnation", 0, UINT64_MAX, &incarnation, &err) != 0) {
		request_bad(rq, &err);
		return 0;
	}
	if (incarnation != p->options.incarnation) {
		request_err(rq, "fenced", "incarnation %llu is in force",
			    (unsigned long long)p->options.incarnation);
		return 0;
	}
	return 1;
}

void ps_heat_anew(struct ps *p)
{
	const struct map *map = store_map(p->store);
	uint64_t begin = map->key_begin[store_part(p->store)];

	heat_start(&p->heat, begin, map->key_begin[store_part(p->store) + 1] - begin);
}

static void ps_on_heat(struct request *rq, void *ps)
{
	const struct ps *p = ps;
	char text[HEAT_TEXT];

	heat_text(&p->heat, store_width(p->store), text);
	request_ok_record(rq, RECORD("ok", F("key-begin", p->heat.begin), F("keys", p->heat.places),
				     F_REAL("units", p->heat.units),
				     F_REAL("element", heat_element(&p->heat)),
				     F("dense-bytes", store_dense_bytes(p->store)),
				     F("row-bytes", store_row_bytes(p->store)), F("heat", text)));
}

/* ---- requests ---- */

void ps_on_stat(struct request *rq, void *ps)
{
	struct ps *p = ps;
	struct record_out *o = RECORD("stat", F("id", p->options.id));
	ps_stat(p, o);
	record_add_u64(o, "members", 0);
	request_put_record(rq, o);
	request_ok(rq, NULL);
}

const struct verb ps_verbs[] = {
	{"pull", "worker generation incarnation iteration dense rows",
	 "into-offset-bytes into-bytes asked after map", ps_on_pull, PART_PAYLOAD_BYTES_MAX,
	 "parameters as of an iteration; payload: u32 keys"},
	{"take-over", "incarnation", "", ps_on_take_over, 0,
	 "an heir: all that is here; then say taken, and this server ends"},
	{"taken", "", "", ps_on_taken, 0, "an heir: it has it all"},
	{"follow", "incarnation socket", "name pid", standby_on_follow, 0,
	 "a standby: all that is here, and later all that comes, to this socket"},
	{"keep", "worker generation incarnation", "pid", keepers_on_keep, 0,
	 "a worker: it keeps what it pushes, as long as this connection is there"},
	{"release", "worker generation incarnation", "", keepers_on_release, 0,
	 "a worker that leaves: answered when what it keeps is not needed any more"},
	{"heat", "", "incarnation", ps_on_heat, 0, "how much is asked of which places of keys"},
	{"accept", "incarnation attempt", "", move_on_accept, PART_PAYLOAD_BYTES_MAX,
	 "another part: parameters that will be yours; payload: their stream"},
};
const size_t ps_verb_count = sizeof ps_verbs / sizeof *ps_verbs;

const struct verb ps_led_verbs[] = {
	{"push", "worker generation incarnation sequence iteration count dense rows",
	 "size skipped ranges loss map group members here at dense-bytes sum sum-of kept full",
	 ps_on_push, PART_PAYLOAD_BYTES_MAX, "gradients, staged until the lead says apply"},
	{"kept", "worker generation incarnation sequence iteration count dense rows",
	 "size skipped ranges loss map group members here at dense-bytes sum sum-of",
	 behind_on_kept, PART_PAYLOAD_BYTES_MAX,
	 "a push again that its worker kept, and that is absent here"},
	{"merge", "incarnation iteration", "", merge_on_merge, PART_PAYLOAD_BYTES_MAX,
	 "to a standby: parameters that have changed up to this iteration"},
	{"hold", "incarnation", "round", ps_on_order, ORDER_BYTES_MAX,
	 "the lead: keep these staged; those that are not here are told"},
	{"apply", "incarnation iteration units", "held", ps_on_order, ORDER_BYTES_MAX,
	 "the lead: these staged parts are committed"},
	{"throw", "incarnation worker generation", "sequence", ps_on_order, 0,
	 "the lead: staged parts of a worker that is fenced, or has gone, go"},
	{"cut", "incarnation path", "iteration base attempt later", ps_on_order, 0,
	 "the lead: fork now and write this part into path"},
	{"prepare", "incarnation attempt map iteration", "later", ps_on_order, ORDER_BYTES_MAX,
	 "the lead: a map that may come; find what goes where, and make room"},
	{"give", "incarnation attempt", "", ps_on_order, 0,
	 "the lead: give what changes its owner to its new one, and keep it"},
	{"adopt", "incarnation attempt map iteration", "", ps_on_order, ORDER_BYTES_MAX,
	 "the lead: the map that was prepared is in force"},
	{"cancel", "incarnation attempt", "", ps_on_order, 0,
	 "the lead: that map comes no more, all stays as it is"},
	{"stat", "", "", ps_on_stat, 0, "what is here"},
};
const size_t ps_led_verb_count = sizeof ps_led_verbs / sizeof *ps_led_verbs;

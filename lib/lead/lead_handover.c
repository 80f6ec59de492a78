/*
 * Handing over the lead: besides what every part has, the gate, what the other servers have not
 * answered yet, and the totals.  Not while a checkpoint is being made.
 *
 * The settle that is with shardd is said again by the heir, under its number; shardd answers it as
 * it did, or does it now.
 */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "wire/call.h"
#include "wire/timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_SECONDS 30.0 /* for members to come back to an heir, */
#define MEMBERS_BATCHES 4.0  /* and the time of so many batches */
#define TEXT_BYTES_MAX (UINT64_C(1) << 30)

/* ---- giving ---- */

int lead_can_go(void *lead)
{
	struct lead *l = lead;

	return !l->cut.busy && !lead_move_is_busy(l) && !l->broken;
}

static int give_told(uint32_t part, uint64_t iteration, uint64_t units, const char *text,
		     size_t head, size_t bytes, void *heir, struct error *err)
{
	return call_record(heir,
			   RECORD("told", F("part", part), F("iteration", iteration),
				  F("units", units), F("head-bytes", head),
				  F("bytes", head + bytes)),
			   text, head + bytes, err);
}

/* Where the other parts are: they may be others than those that the heir was started with. */
static int give_sockets(const struct lead *l, struct call *heir, struct error *err)
{
	size_t count = lead_parts_count(l->parts), len = 0;
	char *text = malloc(count * (ORDER_SOCKET_MAX + 1) + 1);

	if (!text)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (uint32_t i = 1; i < count; i++)
		len += (size_t)sprintf(text + len, "%.*s\n", ORDER_SOCKET_MAX - 1,
				       lead_parts_name(l->parts, i));
	int rc = len ? call_record(heir, RECORD("sockets", F("bytes", len)), text, len, err) : 0;
	free(text);
	return rc;
}

int lead_give(void *lead, struct call *heir, struct error *err)
{
	struct lead *l = lead;
	char *text;
	size_t len;
	int rc;
	struct record_out *r = RECORD(
		"total", F("samples", l->samples), F_SECONDS("time", clock_mono() - l->started),
		F("since", l->started_at), F("attempts", l->attempts), F("term", l->term));
	if (call_record(heir, r, NULL, 0, err) != 0 || gate_save(l->gate, &text, &len, err) != 0)
		return -1;
	rc = call_record(heir, RECORD("gate", F("bytes", len)), text, len, err);
	free(text);
	if (rc == 0)
		rc = give_sockets(l, heir, err);
	return rc == 0 ? lead_parts_owed(l->parts, give_told, heir, err) : -1;
}

/* ---- taking ---- */

static char *lead_handover_take_text(const struct record *r, struct call *c, uint64_t *bytes,
				     struct error *err)
{
	char *text;

	if (record_u64(r, "bytes", 1, TEXT_BYTES_MAX, bytes, err) != 0)
		return NULL;
	text = malloc((size_t)*bytes);
	if (!text)
		error_set(err, ERROR_OS, NULL, "out of memory");
	else if (call_bytes(c, text, (size_t)*bytes, err) == 0)
		return text;
	free(text);
	return NULL;
}

static int take_total(struct lead *l, const struct record *r, struct error *err)
{
	uint64_t attempts = 0; /* an earlier version does not say it */
	double time;

	if (record_u64(r, "samples", 0, UINT64_MAX, &l->samples, err) != 0 ||
	    record_real(r, "time", 0.0, 1e15, &time, err) != 0 ||
	    record_u64(r, "since", 0, UINT64_MAX, &l->started_at, err) != 0 ||
	    record_u64_opt(r, "attempts", 0, UINT64_MAX, &attempts, err) != 0 ||
	    record_u64_opt(r, "term", 0, UINT32_MAX, &l->term, err) != 0)
		return -1;
	l->started = clock_mono() - time;
	/* The parts have seen these numbers; our own are lower if the clock was set back. */
	if (l->attempts < attempts)
		l->attempts = attempts;
	return 0;
}

static int take_gate(struct lead *l, const struct record *r, struct call *c, struct error *err)
{
	const struct part_here *here = lead_parts_here(l->parts);
	uint64_t bytes;
	char *text = lead_handover_take_text(r, c, &bytes, err);
	int rc = text ? gate_load(l->gate, text, (size_t)bytes, err) : -1;

	free(text);
	if (rc == 0 && gate_iteration(l->gate) != here->iteration(here->part))
		rc = error_set(err, ERROR_DATA, NULL,
			       "its gate is at iteration %llu, its part at %llu",
			       (unsigned long long)gate_iteration(l->gate),
			       (unsigned long long)here->iteration(here->part));
	if (rc == 0 && l->started_at > gate_iteration(l->gate))
		rc = error_set(err, ERROR_DATA, NULL, "since=%llu is to come",
			       (unsigned long long)l->started_at);
	l->taken = rc == 0;
	return rc;
}

static int take_told(struct lead *l, const struct record *r, struct call *c, struct error *err)
{
	uint64_t part, iteration, units, head, bytes;
	char *text;

	if (record_u64(r, "part", 0, UINT32_MAX, &part, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &iteration, err) != 0 ||
	    record_u64(r, "units", 0, UINT64_MAX, &units, err) != 0 ||
	    record_u64(r, "head-bytes", 1, RECORD_LINE_MAX, &head, err) != 0 ||
	    record_u64(r, "bytes", head, TEXT_BYTES_MAX, &bytes, err) != 0)
		return -1;
	text = lead_handover_take_text(r, c, &bytes, err);
	return text ? lead_parts_owe(l->parts, (uint32_t)part, iteration, units, text,
				     (size_t)head, (size_t)(bytes - head), err)
		    : -1;
}

static int take_sockets(struct lead *l, const struct record *r, struct call *c, struct error *err)
{
	size_t count = lead_parts_count(l->parts), n = 0;
	const char **socket = calloc(count, sizeof *socket);
	uint64_t bytes;
	char *text = socket ? lead_handover_take_text(r, c, &bytes, err) : NULL, *at = text;
	int rc = -1;

	for (; text && at < text + bytes && n < count; n++) {
		char *end = memchr(at, '\n', (size_t)(text + bytes - at));
		if (!end)
			break;
		*end = '\0';
		socket[n] = at;
		at = end + 1;
	}
	if (text && at == text + bytes && n + 1 == count)
		rc = lead_parts_begin(l->parts, socket, n, err);
	else if (text)
		error_set(err, ERROR_CONFIG, NULL, "has another number of parts");
	free(text);
	free(socket);
	return rc;
}

int lead_take(void *lead, const struct record *r, struct call *c, struct error *err)
{
	struct lead *l = lead;

	if (record_is(r, "total"))
		return take_total(l, r, err);
	if (record_is(r, "gate"))
		return take_gate(l, r, c, err);
	if (record_is(r, "sockets"))
		return take_sockets(l, r, c, err);
	if (record_is(r, "told"))
		return take_told(l, r, c, err);
	return 0;
}

void lead_go_by(struct lead *l, const struct map *map)
{
	lead_parts_go_by(l->parts, map);
}

const struct map *lead_map(const struct lead *l)
{
	return lead_parts_map(l->parts);
}

/* ---- members ---- */

static void on_absent(void *lead)
{
	struct lead *l = lead;

	gate_absent(l->gate);
	lead_pump(l);
}

/* Members say something only once a batch: the time of a few batches is waited for. */
static double members_seconds(const struct lead *l)
{
	double units = (double)(gate_iteration(l->gate) - l->started_at);
	double batch = units > 0.0 ? (clock_mono() - l->started) / units : 0.0;

	if (l->options.gate.sync != GATE_BSP)
		batch *= (double)gate_active(l->gate);
	return MEMBERS_SECONDS + MEMBERS_BATCHES * (batch < 3600.0 ? batch : 3600.0);
}

int lead_hand_start(struct lead *l, struct event_base *base)
{
	l->absent = timer_new(base, on_absent, l);
	if (!l->absent)
		return -1;
	if (l->taken)
		timer_set(l->absent, members_seconds(l));
	return 0;
}

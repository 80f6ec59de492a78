/* Before a lead without a part begins: what the parts know.  See lead.h. */
#include "lead/lead.h"

#include "base/clock.h"
#include "param/map.h"
#include "wire/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_SECONDS 600.0 /* for the parts to be there: they may restore a checkpoint first */
#define ANSWER_SECONDS 30.0
#define AGAIN_SECONDS 0.1

/* 1: to be asked again. So is one of an earlier incarnation: it was given up on its host and lives on, and
 * the one that was started in its place is about to end it. */
static int ask_once(const char *socket, uint64_t incarnation, double seconds, struct record *r,
		    struct error *err)
{
	struct call *c = NULL;
	uint64_t of = incarnation;
	int rc = call_open(&c, socket, seconds, ANSWER_SECONDS, err);

	if (rc == 0)
		rc = call_record(c, RECORD_BARE("stat"), NULL, 0, err);
	if (rc == 0)
		rc = call_receive(c, r, err);
	call_close(c);
	if (rc == 0)
		record_u64_opt(r, "incarnation", 0, UINT64_MAX, &of, NULL);
	if (rc == 0 && of < incarnation)
		rc = error_set(err, ERROR_TEMPFAIL, socket, "is of incarnation %llu, not of %llu",
			       (unsigned long long)of, (unsigned long long)incarnation);
	if (rc == 0)
		return 0;
	return err->code == ERROR_UNAVAILABLE || err->code == ERROR_TEMPFAIL ? 1 : -1;
}

static int ask_part(const char *socket, uint64_t incarnation, double until, struct record *r,
		    struct error *err)
{
	int rc;

	while ((rc = ask_once(socket, incarnation, until - clock_mono(), r, err)) > 0 &&
	       clock_mono() < until)
		clock_sleep(AGAIN_SECONDS);
	return rc == 0 ? 0 : -1;
}

/* Adds part i of n to the map. */
static int add_part(const struct record *r, uint32_t i, uint32_t n, uint64_t incarnation,
		    struct lead_parts_state *s, struct error *err)
{
	struct map *map = &s->map;
	const char *is = record_get(r, "part");
	uint64_t version, at, dense, place, keys, iteration, of;
	char part[32];

	if (record_u64(r, "map", 0, UINT64_MAX, &version, err) != 0 ||
	    record_u64(r, "dense-begin", 0, UINT64_MAX / 2, &at, err) != 0 ||
	    record_u64(r, "dense", 0, UINT64_MAX / 2, &dense, err) != 0 ||
	    record_u64(r, "key-begin", 0, MAP_PLACES, &place, err) != 0 ||
	    record_u64(r, "keys", 0, MAP_PLACES, &keys, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &iteration, err) != 0 ||
	    record_u64(r, "incarnation", 0, UINT64_MAX, &of, err) != 0)
		return -1;
	snprintf(part, sizeof part, "%u/%u", i, n);
	if (!is || strcmp(is, part) != 0)
		return error_set(err, ERROR_TEMPFAIL, NULL, "is part %s, not %s", is ? is : "?",
				 part);
	if (of != incarnation || (i > 0 && version != map->version))
		return error_set(err, ERROR_TEMPFAIL, NULL,
				 "is of incarnation %llu and goes by map %llu, not of %llu and by %llu",
				 (unsigned long long)of, (unsigned long long)version,
				 (unsigned long long)incarnation,
				 (unsigned long long)(i > 0 ? map->version : version));
	if (at != map->dense_begin[i] || place != map->key_begin[i])
		return error_set(err, ERROR_TEMPFAIL, NULL,
				 "does not begin where the part before it ends");
	map->version = version;
	map->dense_begin[i + 1] = at + dense;
	map->key_begin[i + 1] = place + keys;
	s->low = i == 0 || iteration < s->low ? iteration : s->low;
	s->high = i == 0 || iteration > s->high ? iteration : s->high;
	return 0;
}

int lead_parts_ask(const char *const *sockets, size_t count, uint64_t incarnation,
		   struct lead_parts_state *s, struct error *err)
{
	double until = clock_mono() + PARTS_SECONDS;
	struct record *r = malloc(sizeof *r);
	int rc = r ? 0 : error_set(err, ERROR_OS, "parts", "out of memory");

	*s = (struct lead_parts_state){.map.parts = (uint32_t)count};
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		rc = ask_part(sockets[i], incarnation, until, r, err);
		if (rc == 0 && add_part(r, i, (uint32_t)count, incarnation, s, err) != 0)
			rc = error_wrap(err, sockets[i]);
	}
	free(r);
	if (rc == 0 && !map_is_whole(&s->map, s->map.dense_begin[count]))
		rc = error_set(err, ERROR_TEMPFAIL, "parts", "do not have all keys together");
	return rc == 0 ? 0 : -1;
}

/* When pushes that are announced are sent: links as the supervisor says them, and the log of schedules. */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "base/grow.h"
#include "lead/turns.h"
#include "param/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int lead_schedule_new(struct lead *l, struct error *err)
{
	return l->options.schedule_log
		       ? recordlog_open(&l->schedule_log, l->options.schedule_log, err)
		       : 0;
}

const char *lead_schedule_host(size_t host, void *lead)
{
	return turns_host(((struct lead *)lead)->turns, host);
}

void lead_on_links(struct request *rq, void *lead)
{
	struct lead *l = lead;
	struct payload *payload = request_payload(rq);
	size_t len = payload ? payload_bytes(payload) : 0;
	char *text = malloc(len + 1); /* a copy: mapped memory could change */
	struct error err = {0};

	if (!text) {
		request_err(rq, "no-memory", NULL);
		return;
	}
	if (len)
		memcpy(text, payload_data(payload), len);
	if (turns_read(&l->turns, text, len, &err) == 0) {
		lead_clock(l);
		gate_reschedule(l->gate);
		request_ok(rq, NULL);
	} else
		request_bad(rq, &err);
	free(text);
	lead_pump(l);
}

/* Only a schedule by which something happens now. */
static void log_write(struct lead *l, const struct gate_offer *o, size_t n, const char *text,
		      size_t len)
{
	int is_of_use = 0;

	for (size_t i = 0; i < n; i++)
		is_of_use |= !o[i].is_on_its_way && (o[i].is_late || o[i].start == 0);
	if (!is_of_use)
		return;
	recordlog_add(&l->schedule_log, text, len);
	lead_log_write(&l->schedule_log);
}

static int64_t lead_schedule_dense(size_t part, const void *map)
{
	const struct map *m = map;

	return (int64_t)((m->dense_begin[part + 1] - m->dense_begin[part]) * sizeof(float));
}

int lead_schedule(struct gate_offer *o, size_t n, void *lead)
{
	struct lead *l = lead;
	const struct map *map = lead_parts_map(l->parts);
	const struct turns_dense dense = {map ? map->parts : 0, lead_schedule_dense, map};
	struct error err = {0};
	char *text = NULL;
	size_t len = 0;

	if (!l->turns)
		return -1;
	FILE *log = l->schedule_log.fd >= 0 ? grow_stream(&text, &len) : NULL;
	int rc = turns_schedule(l->turns, &dense, o, n, log, clock_epoch(), &err);
	if (log && fclose(log) == 0 && rc == 0)
		log_write(l, o, n, text, len);
	free(text);
	return rc;
}

/* Orders as text, and back.  Nothing that comes over a socket is trusted. */
#include "lead/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_ROOM 512 /* of a push: an id and eight numbers; of a member: two ids and two */
#define SERVER_ROOM 4096 /* of a server: an id, a path that may need encoding, three numbers */

static const char *const kind_name[ORDERS] = {"hold", "apply", "throw", "cut", "sum", "fill",
					      "prepare", "give", "adopt", "cancel", "heat"};

/* ---- writing ---- */

static size_t push_line(char *out, const struct order_push *push)
{
	struct record_out o;

	record_begin(&o, out, LINE_ROOM, "part");
	record_add(&o, "worker", push->worker);
	record_add_u64(&o, "generation", push->generation);
	record_add_u64(&o, "sequence", push->sequence);
	record_add_u64(&o, "unit", push->unit);
	record_add_u64(&o, "count", push->count);
	record_add_u64(&o, "size", push->size);
	if (push->scale < 1.0 || push->scale > 1.0)
		record_add_real(&o, "scale", push->scale);
	if (push->delay)
		record_add_u64(&o, "delay", push->delay);
	return record_end(&o, NULL);
}

static size_t member_line(char *out, const struct order_member *member)
{
	struct record_out o;

	record_begin(&o, out, LINE_ROOM, "member");
	record_add(&o, "worker", member->worker);
	record_add_u64(&o, "generation", member->generation);
	record_add(&o, "replica", member->replica);
	if (member->scale < 1.0 || member->scale > 1.0)
		record_add_real(&o, "scale", member->scale);
	return record_end(&o, NULL);
}

static size_t server_line(char *out, const struct order_server *server)
{
	struct record_out o;

	record_begin(&o, out, SERVER_ROOM, "part");
	record_add(&o, "id", server->id);
	record_add(&o, "socket", server->socket);
	record_add_u64(&o, "dense-begin", server->dense_begin);
	record_add_u64(&o, "key-begin", server->key_begin);
	if (server->joins)
		record_add_u64(&o, "joins", 1);
	return record_end(&o, NULL);
}

static size_t head_line(char *out, const struct order *order, size_t bytes)
{
	struct record_out o;

	record_begin(&o, out, RECORD_LINE_MAX, kind_name[order->kind]);
	record_add_u64(&o, "incarnation", order->incarnation);
	switch (order->kind) {
	case ORDER_HOLD:
		if (order->round)
			record_add_u64(&o, "round", order->round);
		break;
	case ORDER_APPLY:
		record_add_u64(&o, "iteration", order->iteration);
		record_add_u64(&o, "units", order->units);
		if (order->held)
			record_add_u64(&o, "held", order->held);
		if (order->round) {
			record_add_u64(&o, "round", order->round);
			record_add_real(&o, "divisor", order->divisor);
			record_add_u64(&o, "samples", order->samples);
		}
		break;
	case ORDER_THROW:
		record_add(&o, "worker", order->worker);
		record_add_u64(&o, "generation", order->generation);
		if (order->one)
			record_add_u64(&o, "sequence", order->sequence);
		break;
	case ORDER_CUT:
		record_add(&o, "path", order->path);
		record_add_u64(&o, "iteration", order->iteration);
		if (order->base)
			record_add(&o, "base", order->base);
		if (order->attempt)
			record_add_u64(&o, "attempt", order->attempt);
		break;
	case ORDER_SUM:
		record_add_u64(&o, "round", order->round);
		record_add_u64(&o, "iteration", order->iteration);
		record_add(&o, "replicas", order->replicas);
		if (order->check)
			record_add_u64(&o, "check", 1);
		break;
	case ORDER_FILL:
		record_add_u64(&o, "round", order->round);
		record_add(&o, "from", order->from);
		record_add_u64(&o, "iteration", order->iteration);
		break;
	case ORDER_PREPARE:
	case ORDER_ADOPT:
		record_add_u64(&o, "attempt", order->attempt);
		record_add_u64(&o, "map", order->version);
		record_add_u64(&o, "iteration", order->iteration);
		break;
	case ORDER_GIVE:
	case ORDER_CANCEL:
		record_add_u64(&o, "attempt", order->attempt);
		break;
	default:
		break;
	}
	if (order->later)
		record_add_u64(&o, "later", 1);
	if (bytes)
		record_add_u64(&o, "bytes", bytes);
	return record_end(&o, NULL);
}

/* The payload is written behind room for a head, then moved to it. */
char *order_write(const struct order *o, size_t *head, size_t *bytes)
{
	char line[RECORD_LINE_MAX];
	char *text = malloc(RECORD_LINE_MAX + (o->pushes + o->members) * LINE_ROOM +
			    o->servers * SERVER_ROOM);

	*head = *bytes = 0;
	if (!text)
		return NULL;
	for (size_t i = 0; i < o->pushes; i++)
		*bytes += push_line(text + RECORD_LINE_MAX + *bytes, &o->push[i]);
	for (size_t i = 0; i < o->members; i++)
		*bytes += member_line(text + RECORD_LINE_MAX + *bytes, &o->member[i]);
	for (size_t i = 0; i < o->servers; i++)
		*bytes += server_line(text + RECORD_LINE_MAX + *bytes, &o->server[i]);
	*head = head_line(line, o, *bytes);
	memmove(text + *head, text + RECORD_LINE_MAX, *bytes);
	memcpy(text, line, *head);
	return text;
}

/* ---- reading ---- */

static int read_push(struct order *o, struct order_push *push, const struct record *r,
		     struct error *err)
{
	const char *worker;

	push->scale = 1.0;
	if (!record_is(r, "part"))
		return error_set(err, ERROR_DATA, NULL, "%.64s is no part", r->type);
	if (record_id(r, "worker", &worker, err) != 0 ||
	    record_u64(r, "generation", 1, UINT64_MAX, &push->generation, err) != 0 ||
	    record_u64(r, "sequence", 0, UINT64_MAX, &push->sequence, err) != 0 ||
	    record_u64(r, "unit", 0, o->units ? o->units - 1 : 0, &push->unit, err) != 0 ||
	    record_u64_opt(r, "count", 0, ORDER_COUNT_MAX, &push->count, err) != 0 ||
	    record_u64_opt(r, "size", 0, ORDER_COUNT_MAX, &push->size, err) != 0 ||
	    record_real_opt(r, "scale", 0.0, 1e9, &push->scale, err) != 0 ||
	    record_u64_opt(r, "delay", 0, UINT64_MAX, &push->delay, err) != 0)
		return -1;
	if (o->pushes && push->unit < push[-1].unit)
		return error_set(err, ERROR_DATA, NULL, "units out of order");
	snprintf(push->worker, sizeof push->worker, "%s", worker);
	o->pushes++;
	return 0;
}

static int read_member(struct order *o, struct order_member *member, const struct record *r,
		       struct error *err)
{
	const char *worker, *replica;

	member->scale = 1.0;
	if (!record_is(r, "member"))
		return error_set(err, ERROR_DATA, NULL, "%.64s is no member", r->type);
	if (record_id(r, "worker", &worker, err) != 0 ||
	    record_u64(r, "generation", 1, UINT64_MAX, &member->generation, err) != 0 ||
	    record_id(r, "replica", &replica, err) != 0 ||
	    record_real_opt(r, "scale", 0.0, 1e9, &member->scale, err) != 0)
		return -1;
	snprintf(member->worker, sizeof member->worker, "%s", worker);
	snprintf(member->replica, sizeof member->replica, "%s", replica);
	o->members++;
	return 0;
}

static int read_server(struct order *o, struct order_server *server, const struct record *r,
		       struct error *err)
{
	const char *id, *socket;
	uint64_t joins = 0;

	if (!record_is(r, "part"))
		return error_set(err, ERROR_DATA, NULL, "%.64s is no part", r->type);
	if (record_id(r, "id", &id, err) != 0 || record_text(r, "socket", &socket, err) != 0 ||
	    record_u64(r, "dense-begin", 0, UINT64_MAX, &server->dense_begin, err) != 0 ||
	    record_u64(r, "key-begin", 0, UINT64_MAX, &server->key_begin, err) != 0 ||
	    record_u64_opt(r, "joins", 0, 1, &joins, err) != 0)
		return -1;
	if (strlen(socket) >= sizeof server->socket)
		return error_set(err, ERROR_DATA, NULL, "socket is too long");
	snprintf(server->id, sizeof server->id, "%s", id);
	memcpy(server->socket, socket, strlen(socket) + 1);
	server->joins = (int)joins;
	o->servers++;
	return 0;
}

static int has_servers(const struct order *o)
{
	return o->kind == ORDER_PREPARE || o->kind == ORDER_ADOPT;
}

static int order_read_line(struct order *o, void *lines, const struct record *r, struct error *err)
{
	if (o->kind == ORDER_SUM)
		return read_member(o, (struct order_member *)lines + o->members, r, err);
	if (has_servers(o))
		return read_server(o, (struct order_server *)lines + o->servers, r, err);
	return read_push(o, (struct order_push *)lines + o->pushes, r, err);
}

/* text is a copy: in shared memory there could be more lines when they are read than when they were
 * counted. */
static int order_read_lines(struct order *o, const char *text, size_t len, struct error *err)
{
	struct record *r = malloc(sizeof *r);
	struct record_walk walk = record_walk(text, len);
	size_t lines = 0;
	void *all;
	int rc = -1;

	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	all = calloc(lines + 1, o->kind == ORDER_SUM ? sizeof *o->member
				: has_servers(o)     ? sizeof *o->server
						     : sizeof *o->push);
	if (o->kind == ORDER_SUM)
		o->member = all;
	else if (has_servers(o))
		o->server = all;
	else
		o->push = all;
	if (!r || !all || lines > ORDER_PUSHES_MAX)
		error_set(err, ERROR_OS, NULL, "out of memory for %zu lines", lines);
	else if (len && text[len - 1] != '\n')
		error_set(err, ERROR_DATA, NULL, "the last line has no end");
	else
		while ((rc = record_next(&walk, r, err)) == RECORD_ONE) {
			if (order_read_line(o, all, r, err) != 0) {
				rc = -1;
				break;
			}
		}
	free(r);
	return rc == RECORD_END ? 0 : -1;
}

/* Of an apply: what it says of a sum, if it is of one. */
static int order_read_sum(struct order *o, const struct record *r, struct error *err)
{
	if (!record_get(r, "round"))
		return 0;
	if (o->units != 1)
		return error_set(err, ERROR_DATA, NULL, "a sum is one unit");
	return record_u64(r, "round", 1, UINT64_MAX, &o->round, err) != 0 ||
			       record_real(r, "divisor", 0.0, 1e300, &o->divisor, err) != 0 ||
			       record_u64_opt(r, "samples", 0, UINT64_MAX, &o->samples, err) != 0
		       ? -1
		       : 0;
}

static int order_read_head(struct order *o, const struct record *r, struct error *err)
{
	uint64_t later = 0;

	if (record_u64(r, "incarnation", 0, UINT64_MAX, &o->incarnation, err) != 0 ||
	    record_u64_opt(r, "later", 0, 1, &later, err) != 0)
		return -1;
	o->later = (int)later;
	switch (o->kind) {
	case ORDER_HOLD:
		o->units = ORDER_PUSHES_MAX;
		return record_u64_opt(r, "round", 1, UINT64_MAX, &o->round, err);
	case ORDER_APPLY:
		return record_u64(r, "iteration", 0, UINT64_MAX - ORDER_PUSHES_MAX, &o->iteration,
				  err) != 0 ||
				       record_u64(r, "units", 1, ORDER_PUSHES_MAX, &o->units,
						  err) != 0 ||
				       record_u64_opt(r, "held", 1, UINT64_MAX, &o->held, err) != 0
			       ? -1
			       : order_read_sum(o, r, err);
	case ORDER_SUM: {
		uint64_t check = 0;
		if (record_u64_opt(r, "check", 0, 1, &check, err) != 0)
			return -1;
		o->check = (int)check;
		return record_u64(r, "round", 1, UINT64_MAX, &o->round, err) != 0 ||
				       record_u64(r, "iteration", 0, UINT64_MAX - 1, &o->iteration,
						  err) != 0
			       ? -1
			       : record_text(r, "replicas", &o->replicas, err);
	}
	case ORDER_FILL:
		return record_u64_opt(r, "round", 1, UINT64_MAX, &o->round, err) != 0 ||
				       record_text(r, "from", &o->from, err) != 0
			       ? -1
			       : record_u64(r, "iteration", 0, UINT64_MAX, &o->iteration, err);
	case ORDER_PREPARE:
	case ORDER_ADOPT:
		return record_u64(r, "attempt", 1, UINT64_MAX, &o->attempt, err) != 0 ||
				       record_u64(r, "map", 1, UINT64_MAX, &o->version, err) != 0
			       ? -1
			       : record_u64(r, "iteration", 0, UINT64_MAX, &o->iteration, err);
	case ORDER_GIVE:
	case ORDER_CANCEL:
		return record_u64(r, "attempt", 1, UINT64_MAX, &o->attempt, err);
	case ORDER_HEAT:
		return 0;
	case ORDER_THROW:
		o->one = record_get(r, "sequence") != NULL;
		return record_id(r, "worker", &o->worker, err) != 0 ||
				       record_u64(r, "generation", 0, UINT64_MAX, &o->generation,
						  err) != 0
			       ? -1
			       : record_u64_opt(r, "sequence", 0, UINT64_MAX, &o->sequence, err);
	default:
		o->iteration = ORDER_ANYWHERE;
		o->base = record_get(r, "base");
		return record_text(r, "path", &o->path, err) != 0 ||
				       record_u64_opt(r, "attempt", 1, UINT64_MAX, &o->attempt,
						      err) != 0
			       ? -1
			       : record_u64_opt(r, "iteration", 0, UINT64_MAX, &o->iteration, err);
	}
}

static int order_read_kind(struct order *o, const struct record *r, struct error *err)
{
	for (int i = 0; i < ORDERS; i++) {
		o->kind = (enum order_kind)i;
		if (record_is(r, kind_name[i]))
			return 0;
	}
	return error_set(err, ERROR_DATA, NULL, "%.64s is no order", r->type);
}

int order_read(struct order *o, const struct record *r, const void *payload, size_t bytes,
	       struct error *err)
{
	char *text;
	int rc;

	*o = (struct order){.push = NULL};
	if (order_read_kind(o, r, err) != 0 || order_read_head(o, r, err) != 0)
		return -1;
	if (bytes == 0)
		return 0;
	text = malloc(bytes);
	if (!text)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	memcpy(text, payload, bytes);
	rc = order_read_lines(o, text, bytes, err);
	free(text);
	return rc;
}

void order_clear(struct order *o)
{
	free((void *)o->push);
	free((void *)o->member);
	free((void *)o->server);
	o->server = NULL;
	o->servers = 0;
	o->push = NULL;
	o->member = NULL;
	o->pushes = o->members = 0;
}

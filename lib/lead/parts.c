/* The set of parts: who is in it, and what all of them are told. */
#include "lead/parts.h"

#include "base/boot.h"
#include "lead/part_remote.h"

#include <stdlib.h>
#include <string.h>

struct lead_parts {
	struct lead_parts_options options;
	struct part_here here;
	struct part_remote **remote; /* parts `local`, .. */
	uint32_t local;              /* 1: part 0 is here */
	size_t count;
	char boot[BOOT_ID_MAX]; /* of this process */
};

static void changed(void *parts)
{
	struct lead_parts *p = parts;

	p->options.ready(lead_parts_ready(p), p->options.owner);
}

static uint64_t iteration(void *parts)
{
	struct lead_parts *p = parts;

	return p->options.iteration(p->options.owner);
}

static void broken(const struct error *err, void *parts)
{
	struct lead_parts *p = parts;

	p->options.broken(err, p->options.owner);
}

/* The answer to an order that can't fail. */
static void committed(uint32_t part, const struct order_result *result, void *parts)
{
	struct lead_parts *p = parts;
	struct error err = {0};

	if (!result->code)
		return;
	error_set(&err, ERROR_TEMPFAIL, lead_parts_name(p, part),
		  "what is committed was not applied: %s: %s", result->code, result->text);
	broken(&err, p);
}

int lead_parts_new(struct lead_parts **out, const struct lead_parts_options *options,
		   struct error *err)
{
	struct lead_parts *p = calloc(1, sizeof *p);

	if (p)
		p->remote = calloc(options->count + 1, sizeof *p->remote);
	if (!p || !p->remote)
		goto no_memory;
	p->options = *options;
	p->local = options->here ? 1 : 0;
	if (options->here)
		p->here = *options->here;
	p->count = p->local + options->count;
	boot_id(p->boot);
	for (size_t i = 0; i < options->count; i++) {
		struct part_remote_options remote = {.path = options->sockets[i],
						     .part = p->local + (uint32_t)i,
						     .parts = p->count,
						     .incarnation = options->incarnation,
						     .iteration = iteration,
						     .changed = changed,
						     .committed = committed,
						     .broken = broken,
						     .owner = p};
		p->remote[i] = part_remote_new(&remote);
		if (!p->remote[i])
			goto no_memory;
	}
	*out = p;
	return 0;
no_memory:
	lead_parts_free(p);
	return error_set(err, ERROR_OS, "parts", "out of memory");
}

int lead_parts_start(struct lead_parts *p, struct event_base *base, struct error *err)
{
	for (size_t i = 0; i < p->options.count; i++) {
		if (part_remote_start(p->remote[i], base) != 0)
			return error_set(err, ERROR_OS, p->options.sockets[i], "out of memory");
	}
	return 0;
}

void lead_parts_stop(struct lead_parts *p)
{
	for (size_t i = 0; i < p->options.count; i++)
		part_remote_stop(p->remote[i]);
}

void lead_parts_free(struct lead_parts *p)
{
	for (size_t i = 0; p && p->remote && i < p->options.count; i++)
		part_remote_free(p->remote[i]);
	if (p)
		free(p->remote);
	free(p);
}

size_t lead_parts_count(const struct lead_parts *p)
{
	return p->count;
}

int lead_parts_ready(const struct lead_parts *p)
{
	size_t ready = p->local;

	for (size_t i = 0; i < p->options.count; i++)
		ready += part_remote_ready(p->remote[i]) ? 1 : 0;
	return ready == p->count;
}

const char *lead_parts_boot(const struct lead_parts *p)
{
	for (size_t i = 0; i < p->options.count; i++) {
		if (strcmp(part_remote_boot(p->remote[i]), p->boot) != 0)
			return "";
	}
	return p->count ? p->boot : "";
}

const char *lead_parts_name(const struct lead_parts *p, uint32_t part)
{
	return part < p->local ? "part 0" : p->options.sockets[part - p->local];
}

const struct part_here *lead_parts_here(const struct lead_parts *p)
{
	return p->local ? &p->here : NULL;
}

/* ---- orders ---- */

static int give_remote(struct lead_parts *p, const struct order *o, const struct order_answer *a)
{
	size_t head, bytes;
	char *text = p->options.count ? order_write(o, &head, &bytes) : NULL;
	int rc = text || p->options.count == 0 ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < p->options.count; i++) {
		struct order_answer of = *a;
		of.part = p->local + (uint32_t)i;
		rc = part_remote_obey(p->remote[i], o, text, head, bytes, &of);
	}
	free(text);
	for (size_t i = 0; rc == 0 && o->kind == ORDER_APPLY && i < p->options.count; i++)
		part_remote_flush(p->remote[i]);
	return rc;
}

void lead_parts_give(struct lead_parts *p, struct order *o, const struct order_answer *a)
{
	struct order_answer of = a ? *a : (struct order_answer){.done = committed, .arg = p};
	struct error err = {0};

	o->incarnation = p->options.incarnation;
	if (give_remote(p, o, &of) != 0) {
		error_set(&err, ERROR_OS, "parts", "out of memory");
		broken(&err, p);
	} else if (p->local)
		p->here.obey(p->here.part, o, &of);
}

/* ---- handing over ---- */

int lead_parts_owed(const struct lead_parts *p, lead_parts_owed_fn *fn, void *arg,
		    struct error *err)
{
	for (size_t i = 0; i < p->options.count; i++) {
		if (part_remote_owed(p->remote[i], fn, arg, err) != 0)
			return -1;
	}
	return 0;
}

int lead_parts_owe(struct lead_parts *p, uint32_t part, uint64_t at, uint64_t units,
		   const char *text, size_t head, size_t bytes, struct error *err)
{
	if (part < p->local || part >= p->count)
		return error_set(err, ERROR_DATA, NULL, "part %u is not elsewhere", part);
	if (part_remote_owe(p->remote[part - p->local], at, units, text, head, bytes) != 0)
		return error_set(err, ERROR_OS, lead_parts_name(p, part), "out of memory");
	return 0;
}

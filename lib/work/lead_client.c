/* lead_client: see lead_client.h. */
#include "work/lead_client.h"

#include "base/number.h"

int lead_client_check(const struct record *greeting, const void *unused, struct error *err)
{
	const char *part = record_get(greeting, "part");
	(void)unused;
	return part ? error_set(err, ERROR_CONFIG, "", "is part %s, not a lead without parameters",
				part)
		    : 0;
}

static void lead_client_add_known(struct record_out *o, const char *key, double value)
{
	if (value > 0)
		record_add_brief(o, key, value);
}

static int lead_client_ask(struct conversation *lead, struct record_out *o, enum patience patience,
			   struct error *err)
{
	int result = conversation_ask(lead, o, NULL, 0, err);
	return result == WORK_OK ? conversation_answer(lead, patience, err) : result;
}

static int lead_client_read_iteration(const struct conversation *lead, uint64_t *iteration,
				      struct error *err)
{
	if (record_u64(&lead->record, "iteration", 0, UINT64_MAX, iteration, err) != 0)
		return error_wrap(err, lead->options.path);
	return WORK_OK;
}

void lead_client_add_member(struct record_out *o, const struct exchange_member *member)
{
	record_add_u64(o, "size", member->size);
	lead_client_add_known(o, "speed", member->speed);
	if (member->most > 0)
		record_add_u64(o, "max", member->most);
}

int lead_client_join(struct conversation *lead, const struct exchange_member *member,
		     const char *replica, uint64_t *iteration, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(lead, &o, line, "join");
	if (replica)
		record_add(&o, "replica", replica);
	lead_client_add_member(&o, member);
	int result = lead_client_ask(lead, &o, HASTY, err);
	return result == WORK_OK ? lead_client_read_iteration(lead, iteration, err) : result;
}

int lead_client_leave(struct conversation *lead, uint64_t idle, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(lead, &o, line, "leave");
	if (idle)
		record_add_u64(&o, "idle", idle);
	return lead_client_ask(lead, &o, PATIENT, err);
}

int lead_client_end(struct conversation *lead, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(lead, &o, line, "end");
	return lead_client_ask(lead, &o, HASTY, err);
}

/* ---- a push ---- */

static void lead_client_add_ranges(struct record_out *o, const struct batch *b)
{
	char text[RECORD_LINE_MAX], *end = text;
	for (size_t i = 0; i < b->range_count; i++) {
		if (i > 0)
			*end++ = ',';
		end += number_format_u64(b->range[i].id, end);
		*end++ = ':';
		end += number_format_u64(b->range[i].begin, end);
		*end++ = ':';
		end += number_format_u64(b->range[i].length, end);
	}
	*end = '\0';
	record_add(o, "ranges", text);
}

void lead_client_add_push(struct record_out *o, const struct exchange_push *push,
			  const struct batch *b)
{
	record_add_u64(o, "sequence", push->sequence);
	record_add_u64(o, "iteration", push->iteration);
	record_add_u64(o, "count", b->count);
	record_add_u64(o, "size", push->size);
	/* Rows that can't be read count as covered, but are not in the gradient. */
	if (b->positions > b->count)
		record_add_u64(o, "skipped", b->positions - b->count);
	lead_client_add_ranges(o, b);
}

void lead_client_add_report(struct record_out *o, const struct exchange_push *push)
{
	if (!push->no_loss)
		record_add_real(o, "loss", push->loss);
	lead_client_add_known(o, "speed", push->speed);
	lead_client_add_known(o, "time", push->time);
	lead_client_add_known(o, "mem", push->mem);
	if (push->most > 0)
		record_add_u64(o, "max", push->most);
}

int lead_client_wait(struct conversation *lead, uint64_t *iteration, struct error *err)
{
	int result = conversation_answer(lead, PATIENT, err);
	return result == WORK_OK ? lead_client_read_iteration(lead, iteration, err) : result;
}

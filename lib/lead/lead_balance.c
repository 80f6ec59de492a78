/*
 * Sizes at every barrier, as the lead sees them: it asks lib/solve for the gate, measures what that
 * costs those who wait, and writes down what it was decided on, so that it can be decided again
 * (trainctl solve --log): a `balancing` record before a lead's first, then `balance` records.
 *
 * A log that can't be written is said once; training goes on.
 */
#include "lead/lead_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "solve/balance_log.h"

#include <stdlib.h>
#include <string.h>

/* Records are kept until all of a barrier are there: those who wait lose less by one write(2) than
 * by several. */
static void put_log(struct record_out *o, void *lead)
{
	struct lead *l = lead;
	size_t len = record_end(o, NULL);

	recordlog_add(&l->sizes.log, o->data, len);
}

static void put_begin(struct lead *l)
{
	put_log(RECORD("balancing", F("method", l->options.balance_method),
		       F("batch", l->options.balance_batch), F("least", l->options.balance_least),
		       F_SECONDS("at", clock_epoch())),
		l);
	l->sizes.begun = 1;
}

static void put_warning(struct lead *l, uint64_t iteration, const char *worker)
{
	size_t len;

	log_say(LOG_LEVEL_WARNING, "%s: the job is faster without it", worker);
	struct record_out *o = RECORD("warn", F("id", worker), F("reason", "remove-straggler"),
				      F("iteration", iteration));
	len = record_end(o, NULL);
	watchers_say(l->watchers, o->data, len);
	if (l->sizes.log.fd >= 0)
		recordlog_add(&l->sizes.log, o->data, len);
}

/* A sum that is not the batch is said when it begins, changes and is over. */
static void say_sum(struct lead *l, const struct balance_member *m, size_t n)
{
	uint64_t sum = 0, batch = l->options.balance_batch;

	for (size_t i = 0; i < n; i++)
		sum += m[i].size;
	if (sum != l->sizes.sum && sum == batch)
		log_say(LOG_LEVEL_INFO, "iterations are of %llu samples again",
			(unsigned long long)sum);
	else if (sum != l->sizes.sum)
		log_say(LOG_LEVEL_WARNING,
			"iterations are of %llu samples, not %llu: the workers (%zu) have %s",
			(unsigned long long)sum, (unsigned long long)batch, n,
			sum < batch ? "no memory for more" : "the least each");
	l->sizes.sum = sum;
}

/* What can't be done is said once, until it can be again. */
static int lead_balance_sizes(struct lead *l, struct balance_member *m, size_t n)
{
	struct error err = {0};
	int rc = balance_round(l->sizes.balance, m, n, &err);

	if (rc != 0 && !l->sizes.warned)
		log_say(LOG_LEVEL_WARNING, "sizes stay as they are: %s", err.text);
	l->sizes.warned = rc != 0;
	if (rc == 0)
		say_sum(l, m, n);
	return rc;
}

static int lead_balance_ask(uint64_t iteration, struct balance_member *m, size_t n, void *lead)
{
	struct lead *l = lead;
	double began = clock_mono(), asked;
	uint64_t changes = 0, *before = malloc(n * sizeof *before + 1);
	int rc = before && !l->broken ? 0 : -1; /* as it ends, members seem to go one by one */

	for (size_t i = 0; rc == 0 && i < n; i++)
		before[i] = m[i].size;
	if (rc == 0)
		rc = lead_balance_sizes(l, m, n);
	asked = clock_mono();
	if (rc == 0 && l->sizes.log.fd >= 0 && !l->sizes.begun)
		put_begin(l); /* an heir: not before the old one's last barrier */
	for (size_t i = 0; rc == 0 && i < n; i++) {
		changes += m[i].size != before[i];
		if (m[i].warn)
			put_warning(l, iteration, m[i].worker);
	}
	if (rc == 0 && (changes || l->sizes.whole) && l->sizes.log.fd >= 0)
		balance_log_round(iteration, m, n, l->sizes.whole ? before : NULL,
				  (asked - began) * 1e6, put_log, l);
	free(before);
	lead_log_write(&l->sizes.log);
	l->sizes.asked++;
	l->sizes.seconds += clock_mono() - began;
	return rc;
}

int lead_balance_new(struct lead *l, struct error *err)
{
	if (!l->options.balance_method)
		return 0;
	if (balance_new(&l->sizes.balance, l->options.balance_method, l->options.balance_batch,
			l->options.balance_least, err) != 0)
		return -1;
	l->sizes.sum = l->options.balance_batch;
	l->options.gate.balance = lead_balance_ask;
	l->options.gate.balance_arg = l;
	l->sizes.whole = strcmp(l->options.balance_method, "lb-bsp-gpu") == 0;
	return l->options.balance_log ? recordlog_open(&l->sizes.log, l->options.balance_log, err)
				      : 0;
}

void lead_balance_free(struct lead *l)
{
	recordlog_close(&l->sizes.log);
	balance_free(l->sizes.balance);
}

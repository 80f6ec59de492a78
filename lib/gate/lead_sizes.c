/*
 * Sizes at every barrier, as the lead sees them: it asks its owner's function for the gate, measures
 * what that costs those who wait, and writes down each change with what it was decided on.
 *
 * A log that can't be written is said once; training goes on.
 */
#include "gate/lead_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_MAX 700  /* bytes of a list: with a last item, four of them fit a record */
#define NUMBER_MAX 40 /* bytes of a number as text */

struct list {
	char text[LIST_MAX + GATE_ID_MAX + 2 * NUMBER_MAX];
	size_t len;
};

static void add_text(struct list *l, const char *text)
{
	size_t len = strlen(text);

	memcpy(l->text + l->len, text, len + 1);
	l->len += len;
}

static void add_number(struct list *l, double value, int first)
{
	char text[NUMBER_MAX];

	if (!first)
		add_text(l, ",");
	snprintf(text, sizeof text, "%.6g", value);
	if (value > 0.0)
		add_text(l, text);
}

static void write_log(struct lead *l, struct record_out *o)
{
	size_t len = record_end(o, NULL);

	if (write(l->sizes.fd, o->data, len) == (ssize_t)len)
		return;
	if (!l->sizes.lost)
		log_say(LOG_LEVEL_WARNING, "%s: %s; what is not written is lost",
			l->options.balance_log, strerror(errno));
	l->sizes.lost = 1;
}

/* As many as fit a record; the number of them. */
static size_t put_some(struct lead *l, uint64_t iteration, const struct gate_number *m, size_t n,
		       double us)
{
	struct list sizes = {.len = 0}, speeds = {.len = 0}, times = {.len = 0}, mems = {.len = 0};
	char line[RECORD_LINE_MAX], number[NUMBER_MAX];
	struct record_out o;
	size_t i;

	for (i = 0; i < n && sizes.len < LIST_MAX && speeds.len < LIST_MAX && times.len < LIST_MAX &&
		    mems.len < LIST_MAX;
	     i++) {
		if (i)
			add_text(&sizes, ",");
		add_text(&sizes, m[i].worker);
		add_text(&sizes, ":");
		number_format_u64(m[i].size, number);
		add_text(&sizes, number);
		add_number(&speeds, m[i].speed, i == 0);
		add_number(&times, m[i].time, i == 0);
		add_number(&mems, m[i].mem, i == 0);
	}
	record_begin(&o, line, sizeof line, "balance");
	record_add_u64(&o, "iteration", iteration);
	record_add_brief(&o, "time-us", rint(us * 10.0) / 10.0);
	record_add(&o, "sizes", sizes.text);
	record_add(&o, "speeds", speeds.text);
	record_add(&o, "times", times.text);
	record_add(&o, "mems", mems.text);
	write_log(l, &o);
	return i;
}

static void put_warning(struct lead *l, uint64_t iteration, const char *worker)
{
	char line[512];
	struct record_out o;

	log_say(LOG_LEVEL_WARNING, "%s: the job is faster without it", worker);
	for (struct watcher *w = l->watchers; ; w = w->next) {
		record_begin(&o, line, sizeof line, "warn");
		record_add(&o, "id", worker);
		record_add(&o, "reason", "remove-straggler");
		record_add_u64(&o, "iteration", iteration);
		if (!w) {
			if (l->sizes.fd >= 0)
				write_log(l, &o);
			return;
		}
		request_put_record(w->rq, &o);
	}
}

static int ask(uint64_t iteration, struct gate_number *m, size_t n, void *lead)
{
	struct lead *l = lead;
	double began = clock_mono(), asked;
	uint64_t changes = 0, *before = malloc(n * sizeof *before + 1);
	int rc = before ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < n; i++)
		before[i] = m[i].size;
	if (rc == 0)
		rc = l->sizes.ask(iteration, m, n, l->sizes.arg);
	asked = clock_mono();
	for (size_t i = 0; rc == 0 && i < n; i++) {
		changes += m[i].size != before[i];
		if (m[i].warn)
			put_warning(l, iteration, m[i].worker);
	}
	free(before);
	for (size_t i = 0; changes && l->sizes.fd >= 0 && i < n;)
		i += put_some(l, iteration, m + i, n - i, (asked - began) * 1e6);
	l->sizes.asked++;
	l->sizes.seconds += clock_mono() - began;
	return rc;
}

int lead_sizes_new(struct lead *l, struct error *err)
{
	l->sizes.fd = -1;
	l->sizes.ask = l->options.gate.balance;
	l->sizes.arg = l->options.gate.balance_arg;
	if (!l->sizes.ask)
		return 0;
	l->options.gate.balance = ask;
	l->options.gate.balance_arg = l;
	if (!l->options.balance_log)
		return 0;
	l->sizes.fd = open(l->options.balance_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	return l->sizes.fd < 0 ? error_errno(err, ERROR_CANTCREAT, l->options.balance_log, "open")
			       : 0;
}

void lead_sizes_free(struct lead *l)
{
	if (l->sizes.fd >= 0)
		close(l->sizes.fd);
}

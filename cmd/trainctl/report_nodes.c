/* report: words for what was done to nodes. */
#include "cmd/trainctl/report.h"

#include "base/human.h"
#include "base/utf8.h"
#include "record/record.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct words {
	const struct record *r;
	char *out;
	size_t max, at;
};

__attribute__((format(printf, 2, 3))) static void add_words(struct words *w, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(w->out + w->at, w->max - w->at, fmt, ap);
	va_end(ap);
	w->at += n > 0 ? (size_t)n : 0;
	if (w->at >= w->max)
		w->at = w->max - 1;
}

static const char *text(const struct words *w, const char *key)
{
	const char *value = record_get(w->r, key);
	return value ? value : "";
}

static double real_of(const struct words *w, const char *key)
{
	double value = NAN;
	record_real_opt(w->r, key, 0, 1e300, &value, NULL);
	return value;
}

static const char *bytes(const struct words *w, const char *key, char out[HUMAN_MAX])
{
	return human_bytes(real_of(w, key), out);
}

/* ", 2 to 3 servers" */
static void add_count(struct words *w, const char *role)
{
	char from[32], to[32];
	snprintf(from, sizeof from, "from-%ss", role);
	snprintf(to, sizeof to, "%ss", role);
	if (strcmp(text(w, from), text(w, to)) != 0)
		add_words(w, "%s%s to %s %ss", w->at > 0 ? ", " : "from ", text(w, from),
			  text(w, to), role);
}

static void scaled(struct words *w)
{
	char seconds[HUMAN_MAX], moved[HUMAN_MAX], held[HUMAN_MAX];
	add_count(w, "worker");
	add_count(w, "server");
	if (text(w, "hosts")[0])
		add_words(w, "%shosts from %s to %s", w->at > 0 ? ", " : "", text(w, "from-hosts"),
			  text(w, "hosts"));
	if (w->at == 0)
		add_words(w, "as many nodes as before");
	add_words(w, "; it took %s", human_time(real_of(w, "seconds"), seconds));
	if (record_get(w->r, "moved-bytes"))
		add_words(w, "; %s of parameters moved", bytes(w, "moved-bytes", moved));
	if (real_of(w, "stall") >= 0)
		add_words(w, ", workers waited %s at most", human_time(real_of(w, "stall"), held));
	if (text(w, "failed")[0])
		add_words(w, "; not done: %s", text(w, "failed"));
}

static void scale_refused(struct words *w)
{
	add_words(w, "not scaled");
	if (text(w, "workers")[0])
		add_words(w, " to %s workers", text(w, "workers"));
	if (text(w, "servers")[0])
		add_words(w, "%s to %s servers", text(w, "workers")[0] ? "," : "",
			  text(w, "servers"));
	if (text(w, "hosts")[0])
		add_words(w, " to hosts %s", text(w, "hosts"));
	add_words(w, ": refused (%s)", text(w, "code"));
}

static void oom(struct words *w)
{
	char to[HUMAN_MAX], from[HUMAN_MAX];
	add_words(w, "%s had no memory left: ", text(w, "id"));
	if (record_get(w->r, "servers"))
		add_words(w, "%s servers instead of %s", text(w, "servers"),
			  text(w, "servers-before"));
	else if (record_get(w->r, "memory"))
		add_words(w, "%s instead of %s", bytes(w, "memory", to),
			  bytes(w, "memory-before", from));
	else
		add_words(w, "batches in %s steps of %s samples", text(w, "accum"),
			  text(w, "size"));
	add_words(w, " (step %s of %s)", text(w, "step"), text(w, "limit"));
}

static void resize_words(struct words *w)
{
	char memory[HUMAN_MAX];
	double cores = real_of(w, "cores");
	add_words(w, "%s may use ", text(w, "id"));
	if (cores > 0)
		add_words(w, "%g core%s", cores, cores == 1 ? "" : "s");
	else
		add_words(w, "all cores");
	if (real_of(w, "memory") > 0)
		add_words(w, " and %s of memory", bytes(w, "memory", memory));
}

static void spare(struct words *w)
{
	char waited[HUMAN_MAX];
	add_words(w, "%s, which had stood ready for %s, took the place of %s", text(w, "id"),
		  human_time(real_of(w, "waited"), waited), text(w, "for"));
}

static void more_host(struct words *w)
{
	char waited[HUMAN_MAX];
	const char *state = text(w, "state");
	int has_host = record_get(w->r, "host") != NULL;
	if (!has_host) {
		add_words(w, "Slurm: a further host was %s", state);
		if (text(w, "partition")[0])
			add_words(w, ", of partition %s", text(w, "partition"));
		if (real_of(w, "waited") >= 0)
			add_words(w, ", after %s", human_time(real_of(w, "waited"), waited));
	} else {
		add_words(w, "Slurm: host %s of allocation %s: %s", text(w, "host"), text(w, "job"),
			  state);
	}
}

static void host_changed(struct words *w)
{
	char seconds[HUMAN_MAX];
	add_words(w, "host %s: %s", text(w, "name"), text(w, "state"));
	if (real_of(w, "seconds") > 0)
		add_words(w, " for %s", human_time(real_of(w, "seconds"), seconds));
	if (text(w, "id")[0])
		add_words(w, ", because of %s", text(w, "id"));
}

static void host_test(struct words *w)
{
	if (strcmp(text(w, "state"), "bad") == 0)
		add_words(w, "host %s is bad, as its self-test says", text(w, "name"));
}

static void placed(struct words *w)
{
	add_words(w, "%s", w->r->text ? w->r->text : "a node runs on another host");
}

int report_turn_words(const struct account_turn *t, char *out, size_t max, char *why,
		      size_t why_max)
{
	static const struct {
		const char *type;
		void (*say)(struct words *w);
	} row[] = {{"scaled", scaled},     {"scale-refused", scale_refused},
		   {"oom", oom},           {"resize", resize_words},
		   {"spare", spare},       {"more-host", more_host},
		   {"host", host_changed}, {"host-test", host_test},
		   {"placed", placed}};
	static struct record r; /* large */
	struct words w = {.r = &r, .out = out, .max = max};
	out[0] = why[0] = '\0';
	struct error err;
	if (record_first(&r, t->line, strlen(t->line), &err) != 0)
		return 0;
	const char *reason = text(&w, record_get(&r, "why") ? "why" : "reason");
	if (strncmp(reason, "brain: ", 7) == 0)
		return 0; /* among the brain's plans */
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (record_is(&r, row[i].type))
			row[i].say(&w);
	snprintf(why, why_max, "%s", reason);
	utf8_plain(out);
	utf8_plain(why);
	return out[0] != '\0';
}

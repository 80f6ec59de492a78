/* report: what happened in a job, in words. */
#include "cmd/trainctl/report.h"

#include "base/human.h"
#include "base/number.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the job ---- */

void report_title(const struct report *p, char *out, size_t max)
{
	const struct account *a = p->a;
	char took[HUMAN_MAX], samples[HUMAN_MAX], how[256];
	double count = a->rows > 0 ? a->row[a->rows - 1].samples : 0;
	number_real(a->samples, 0, 1e300, &count, NULL, NULL);
	human_time(account_seconds(a), took);
	if (strcmp(a->state, "failed") == 0)
		snprintf(how, sizeof how, "failed after %s%s%s", took, a->failed[0] ? ", by " : "",
			 a->failed);
	else if (strcmp(a->state, "stopped") == 0)
		snprintf(how, sizeof how, "stopped after %s (run goes on from its checkpoint)",
			 took);
	else if (strcmp(a->state, "done") == 0)
		snprintf(how, sizeof how, "done in %s", took);
	else
		snprintf(how, sizeof how, "not ended after %s (it runs, or was killed)", took);
	snprintf(out, max, "%s: %s, %s samples", a->job, how, human_count(count, samples));
	utf8_plain(out);
}

void report_subtitle(const struct report *p, char *out, size_t max)
{
	const struct account *a = p->a;
	uint64_t holders = a->replicas ? a->replicas : a->servers;
	snprintf(out, max, "%llu worker%s, %llu %s%s, batches of %llu, %s, SOLUTION=%s%s",
		 (unsigned long long)a->workers, a->workers == 1 ? "" : "s",
		 (unsigned long long)holders, a->replicas ? "replica" : "server",
		 holders == 1 ? "" : "s",
		 (unsigned long long)a->batch, a->sync, a->solution,
		 a->runs > 1 ? "; in several runs" : "");
	utf8_plain(out);
}

/* ---- costs ---- */

void report_cost_words(const struct report *p, enum cost_kind kind, char *out, size_t max)
{
	const struct cost *c = &p->cost;
	if (!c->known && kind == COST_OTHER)
		snprintf(out, max, "training");
	else if (kind == COST_WAITING && c->slowest.seconds > 0.5 * c->of[kind])
		snprintf(out, max, "%s, mostly for %s", cost_text[kind],
			 p->a->node[c->slowest.node].id);
	else
		snprintf(out, max, "%s", cost_text[kind]);
	utf8_plain(out);
}

/* ---- decisions ---- */

static const char *node_name(const struct report *p, size_t node)
{
	return node < p->a->nodes ? p->a->node[node].id : "a node";
}

static void report_words_append(char *out, size_t max, const char *text)
{
	size_t at = strlen(out);
	snprintf(out + at, max - at, "%s%s", at > 0 ? ", " : "", text);
}

/* A new batch size, as one of several or alone. */
static void size_words(const struct report *p, const struct effect *e, char *text, size_t max)
{
	const struct account_mark *least = NULL, *most = NULL;
	char small[HUMAN_MAX], large[HUMAN_MAX];
	for (size_t i = e->mark_first; i <= e->mark_last; i++) {
		const struct account_mark *m = &p->a->mark[i];
		if (m->kind != ACCOUNT_ACTION || strcmp(m->what, "adjust-bs") != 0 ||
		    isnan(m->size))
			continue;
		least = !least || m->size < least->size ? m : least;
		most = !most || m->size > most->size ? m : most;
	}
	if (!least) {
		snprintf(text, max, "sizes set");
		return;
	}
	human_count(least->size, small);
	human_count(most->size, large);
	if (least == most || least->size >= most->size)
		snprintf(text, max, "batch sizes set to %s", small);
	else
		snprintf(text, max, "batch sizes set, from %s (%s) to %s (%s)", small,
			 node_name(p, least->node), large, node_name(p, most->node));
}

/* New learning rates; when a job is scaled, all workers get the same one. */
static void rate_words(const struct report *p, const struct effect *e, char *text, size_t max)
{
	const struct account_mark *least = NULL, *most = NULL;
	int several = 0;
	text[0] = '\0';
	for (size_t i = e->mark_first; i <= e->mark_last; i++) {
		const struct account_mark *m = &p->a->mark[i];
		if (m->kind != ACCOUNT_ACTION || strcmp(m->what, "adjust-lr") != 0 ||
		    isnan(m->size))
			continue;
		several |= least && m->node != least->node;
		least = !least || m->size < least->size ? m : least;
		most = !most || m->size > most->size ? m : most;
	}
	if (!least)
		return;
	if (least->size < most->size)
		snprintf(text, max, "learning rates set, from %.3g (%s) to %.3g (%s) times",
			 least->size, node_name(p, least->node), most->size,
			 node_name(p, most->node));
	else if (several)
		snprintf(text, max, "learning rates times %.3g", least->size);
	else
		snprintf(text, max, "learning rate of %s times %.3g", node_name(p, least->node),
			 least->size);
}

void report_effect_words(const struct report *p, const struct effect *e, char *out, size_t max)
{
	const struct account_mark *m = &p->a->mark[e->mark];
	char text[300];
	out[0] = '\0';
	if (e->restarts == 1)
		snprintf(text, sizeof text, "%s restarted", node_name(p, m->node));
	else
		snprintf(text, sizeof text, "%zu nodes restarted", e->restarts);
	if (e->restarts > 0)
		report_words_append(out, max, text);
	if (e->sizes > 0) {
		size_words(p, e, text, sizeof text);
		report_words_append(out, max, text);
	}
	for (size_t i = e->mark_first; i <= e->mark_last && e->others > 0; i++) {
		const struct account_mark *k = &p->a->mark[i];
		if (k->kind != ACCOUNT_ACTION)
			continue;
		if (strcmp(k->what, "backup-workers") != 0)
			continue;
		snprintf(text, sizeof text, "%.0f backup workers", k->size);
		report_words_append(out, max, text);
	}
	rate_words(p, e, text, sizeof text);
	if (text[0])
		report_words_append(out, max, text);
	utf8_plain(out);
}

/* ---- a brain ---- */

static void plan_words(const struct account_plan *p, char *out, size_t max)
{
	static const char *const roles[] = {"worker", "server"};
	size_t at = 0;
	out[0] = '\0';
	if (strcmp(p->what, "rebalance") == 0)
		at += (size_t)snprintf(out, max, "parameters divided among the servers anew, "
						 "because of %s", p->id);
	else if (p->nodes > 0)
		at += (size_t)snprintf(out, max, "%s%s for %s",
				       strcmp(p->what, "migrate") == 0 ? "another machine"
								       : "another process",
				       p->nodes > 1 ? "s" : "", p->id);
	if (p->nodes > 1 && at < max)
		at += (size_t)snprintf(out + at, max - at, " and %llu others",
				       (unsigned long long)(p->nodes - 1));
	for (int i = 0; i < 2 && at < max; i++) {
		int same = p->had[i].count == p->has[i].count && p->had[i].cores == p->has[i].cores;
		if (same)
			continue;
		at += (size_t)snprintf(out + at, max - at, "%s%llu %s%s of %llu core%s (before: %llu of %llu)",
				       at > 0 ? ", " : "", (unsigned long long)p->has[i].count,
				       roles[i], p->has[i].count == 1 ? "" : "s",
				       (unsigned long long)p->has[i].cores,
				       p->has[i].cores == 1 ? "" : "s",
				       (unsigned long long)p->had[i].count,
				       (unsigned long long)p->had[i].cores);
	}
}

void report_plan_words(const struct account_plan *p, char *out, size_t max)
{
	char before[HUMAN_MAX], after[HUMAN_MAX], expected[HUMAN_MAX];
	plan_words(p, out, max);
	size_t at = strlen(out);
	human_count(p->before, before);
	human_count(p->after, after);
	human_count(p->expected, expected);
	if (isnan(p->took))
		snprintf(out + at, max - at, "; not done before the end");
	else if (isnan(p->after))
		snprintf(out + at, max - at, "; the effect is not known");
	else if (isnan(p->expected))
		snprintf(out + at, max - at, ": from %s to %s samples/s (x%.2f)", before, after,
			 p->after / p->before);
	else
		snprintf(out + at, max - at, ": from %s to %s samples/s (x%.2f; %s were expected)",
			 before, after, p->after / p->before, expected);
	utf8_plain(out);
}

/* The reasons of res-plan(1); an executable has its own. */
static const char *reason_means(const char *reason)
{
	static const struct {
		const char *reason, *means;
	} row[] = {
		{"faster", "the measured steps promise more"},
		{"faster-before", "it did less than these had done"},
		{"busy-worker", "it used all of its cores"},
		{"busy-servers", "they used all of their cores"},
		{"idle-servers", "they had cores left for more workers"},
		{"oom", "no memory was left"},
		{"hot", "it gets more requests than the others"},
		{"few-cores", "it has fewer cores than the others"},
		{"slow-machine", "it takes longer, and gets no more requests than the others"},
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (strcmp(reason, row[i].reason) == 0)
			return row[i].means;
	return NULL;
}

void report_plan_reason(const struct account_plan *p, char *out, size_t max)
{
	char took[HUMAN_MAX], cost[HUMAN_MAX], sure[HUMAN_MAX], means[128] = "";
	if (reason_means(p->reason))
		snprintf(means, sizeof means, " (%s)", reason_means(p->reason));
	size_t at = (size_t)snprintf(out, max, "%s%s%s%s", p->reason, means,
				     p->method[0] ? ", by " : "", p->method);
	if (!isnan(p->confidence) && at < max)
		at += (size_t)snprintf(out + at, max - at, "; sure to %s",
				       human_percent(p->confidence, sure));
	if (!isnan(p->took) && at < max)
		at += (size_t)snprintf(out + at, max - at, "; it took %s",
				       human_time(p->took, took));
	if (!isnan(p->cost) && at < max)
		snprintf(out + at, max - at, " and cost %s of training", human_time(p->cost, cost));
	utf8_plain(out);
}

/* ---- servers ---- */

void report_rebalance_words(const struct account_rebalance *b, char *out, size_t max)
{
	char moved[HUMAN_MAX], held[HUMAN_MAX];
	snprintf(out, max,
		 "%s had %.2f times the mean work of all servers%s: %s of parameters moved, and "
		 "the busiest had %.2f times after that; workers waited %s at most",
		 b->id, b->before, strcmp(b->reason, "hot") == 0 ? ", as the brain found" : "",
		 human_bytes(b->bytes, moved), b->after, human_time(b->stall, held));
	utf8_plain(out);
}

/* ---- links ---- */

void report_link_words(const struct account *a, const struct account_link *l, char *out, size_t max)
{
	static const char *const did[] = {"sent", "received"};
	char bytes[HUMAN_MAX], rate[HUMAN_MAX];
	size_t at =
		(size_t)snprintf(out, max, "more for what went over the slow link of %s:", l->host);
	for (int i = 0; i < 2; i++)
		if (l->way[i].cost > 0 && at < max)
			at += (size_t)snprintf(
				out + at, max - at, " %s %s at %s/s,",
				human_bytes(l->way[i].bytes, bytes), did[i],
				human_bytes(l->way[i].bytes / l->way[i].seconds, rate));
	if (at < max)
		snprintf(out + at, max - at, " where the median link carries %s/s",
			 human_bytes(a->link_bytes / a->link_seconds, rate));
	utf8_plain(out);
}

/* ---- restarts ---- */

static int report_is_meant(const struct account_mark *m)
{
	return strcmp(m->what, "kill-restart") == 0;
}

int report_is_failure(const struct account_mark *m)
{
	return m->kind == ACCOUNT_ROLLBACK || m->kind == ACCOUNT_STOOD ||
	       (m->kind == ACCOUNT_RESTART && !report_is_meant(m));
}

void report_restart_words(const struct report *p, const struct account_mark *m, char *out,
			  size_t max)
{
	const char *id = node_name(p, m->node);
	char back[HUMAN_MAX], what[128];
	if (m->kind == ACCOUNT_STOOD) {
		snprintf(out, max, "iteration %s stood still for %s: %s", m->what,
			 human_time(m->seconds, back), m->reason ? m->reason : "");
		utf8_plain(out);
		return;
	}
	if (strncmp(m->what, "signal-", 7) == 0) {
		int number = atoi(m->what + 7);
		const char *name = number > 0 ? sigabbrev_np(number) : NULL;
		snprintf(what, sizeof what, "%s was killed by signal %s%s%s", id, m->what + 7,
			 name ? ", SIG" : "", name ? name : "");
	} else if (strncmp(m->what, "status-", 7) == 0)
		snprintf(what, sizeof what, "%s ended with status %s", id, m->what + 7);
	else if (strcmp(m->what, "hung") == 0)
		snprintf(what, sizeof what, "%s gave no sign of life and was killed", id);
	else if (strcmp(m->what, "killed") == 0)
		snprintf(what, sizeof what, "%s was killed by trainctl", id);
	else if (strcmp(m->what, "unseen") == 0)
		snprintf(what, sizeof what, "%s ended while no trainctl supervised it", id);
	else
		snprintf(what, sizeof what, "%s was restarted (%s)", id, m->what);
	human_time(m->seconds, back);
	const char *reason = m->reason && !report_is_meant(m) ? m->reason : "";
	snprintf(out, max, "%s%s%s; %s after %s", what, reason[0] ? ": " : "", reason,
		 m->by_standby ? "its standby took over, and served" : "ready again", back);
	utf8_plain(out);
}

/* report: machine or job? What cost the job most, why, and what to do next, with the evidence. */
#include "cmd/trainctl/report.h"

#include "base/human.h"
#include "base/reals.h"
#include "base/utf8.h"
#include "base/words.h"
#include "record/record.h"
#include "screen/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VERDICT_LINES 3
#define VERDICT_TEXT 600
#define APART 1.1 /* times the median: less is alike */
#define CHEAP 20  /* checkpoints may cost one part in so many */

/* ---- evidence: what nodes did in a batch, or for a sample, beside the median one ---- */

static double all_time(const struct account_point *did)
{
	return did->time;
}

static double computing(const struct account_point *did)
{
	return did->compute;
}

static double communicating(const struct account_point *did)
{
	return did->comm;
}

static const struct evidence_kind {
	const char *name, *text;
	const char *why; /* where this makes a worker slow; NULL: it is a sum */
	int servers, of_sample;
	double (*seconds)(const struct account_point *did);
} evidence_kind[] = {
	{"sample", "a sample", NULL, 0, 1, all_time},
	{"batch", "a batch", NULL, 0, 0, all_time},
	{"computing", "  computing",
	 "it takes longer to compute: its cores are slow, shared with others, or limited", 0, 0,
	 computing},
	{"communicating", "  communicating",
	 "it takes longer to communicate: look at its link, and at what else uses it", 0, 0,
	 communicating},
	{"rows", "  getting rows",
	 "it takes longer to get its rows: look at its disk, and at what else uses it", 0, 0,
	 account_rows},
	{"server-batch", "a server's batch", NULL, 1, 0, all_time},
};
#define EVIDENCE (sizeof evidence_kind / sizeof *evidence_kind)

struct evidence {
	double median, worst;
	const struct account_node *node; /* the worst; NULL: there are not two, or they are 0 */
};

static double evidence_value(const struct report_node *n, const struct evidence_kind *kind,
			     int of_sample)
{
	double each = of_sample ? n->did.samples : n->did.batches;
	return each > 0 ? kind->seconds(&n->did) / each : NAN;
}

static struct evidence evidence_of(const struct report_nodes *all, const struct evidence_kind *kind,
				   int of_sample)
{
	struct evidence e = {NAN, -1, NULL};
	double *value = all->value;
	size_t known = 0;
	for (size_t i = 0; i < all->count; i++) {
		const struct report_node *n = &all->node[i];
		double x = evidence_value(n, kind, of_sample);
		if (account_is_server(n->node) != kind->servers || isnan(x))
			continue;
		value[known++] = x;
		if (x > e.worst) {
			e.worst = x;
			e.node = n->node;
		}
	}
	if (known < 2 || !(e.worst > 0))
		e.node = NULL;
	else {
		reals_sort(value, known);
		e.median = value[(known - 1) / 2];
	}
	return e;
}

/* ---- words ---- */

static const char *const verdict_text[VERDICTS] = {
	[VERDICT_JOB] = "all workers are alike, and busy",
	[VERDICT_UNKNOWN] = "not known: the log has no measurements of workers",
	[VERDICT_FAILED] = "the job failed",
	[VERDICT_SERVER] = "takes longer than the other servers, and all wait for it",
	[VERDICT_LINK] = "has a slow link",
	[VERDICT_TURNS] = "workers wait for slower ones, but for no single one",
	[VERDICT_DATA] = "workers wait for shards and rows",
	[VERDICT_RESTARTS] = "restarts, and what was trained again",
	[VERDICT_STOOD] = "it stood still",
	[VERDICT_CHECKPOINTS] = "workers wait for checkpoints",
	[VERDICT_MEETING] = "workers wait for servers and sums, all of them alike",
	[VERDICT_AROUND] = "start, end and scoring; the training is short"};

static const struct report_node *accused(const struct report_nodes *all, const struct report *p,
					 const struct verdict *v)
{
	for (size_t i = 0; i < all->count && v->node != ACCOUNT_NOBODY; i++)
		if (all->node[i].node == &p->a->node[v->node])
			return &all->node[i];
	return NULL;
}

static void verdict_line(const struct report *p, const struct report_nodes *all,
			const struct verdict *v, char *out, size_t max)
{
	char seconds[HUMAN_MAX], of[HUMAN_MAX], part[HUMAN_MAX], what[320];
	const struct report_node *n = accused(all, p, v);
	const char *host = v->kind == VERDICT_HOST || v->kind == VERDICT_LINK ? "host " : "";
	double times = n ? evidence_value(n, &evidence_kind[0], 1) /
				   evidence_of(all, &evidence_kind[0], 1).median
			 : NAN;
	if (v->kind == VERDICT_UNKNOWN || v->kind == VERDICT_FAILED) {
		snprintf(out, max, "%s%s%s", verdict_text[v->kind], v->id[0] ? ", by " : "", v->id);
		return;
	}
	if (!v->machine)
		snprintf(what, sizeof what, "job, no machine: %s", verdict_text[v->kind]);
	else if (verdict_text[v->kind])
		snprintf(what, sizeof what, "machine: %s%s %s", host, v->id, verdict_text[v->kind]);
	else if (times >= APART)
		snprintf(what, sizeof what, "machine: %s%s takes %.1f times as long for a sample as "
					    "the median worker", host, v->id, times);
	else
		snprintf(what, sizeof what, "machine: the others wait for %s%s", host, v->id);
	snprintf(out, max, "%s; %s %s of %s (%s)", what,
		 v->kind == VERDICT_JOB ? "training took" : "it cost",
		 human_time(v->seconds, seconds), human_time(p->cost.seconds, of),
		 human_percent(v->seconds / p->cost.seconds, part));
}

/* Which part of its batch makes a worker slow, for the same samples. */
static const char *slow_part(const struct report_nodes *all, const struct report_node *n)
{
	const char *why = "its batches are as fast as others': they are larger, or it was slow for a "
			  "while only";
	double most = 0;
	for (size_t k = 0; n && k < EVIDENCE; k++) {
		double more = evidence_value(n, &evidence_kind[k], 1) -
			      evidence_of(all, &evidence_kind[k], 1).median;
		if (evidence_kind[k].why && more > most) {
			most = more;
			why = evidence_kind[k].why;
		}
	}
	return why;
}

static struct account_point all_workers(const struct report_nodes *all)
{
	struct account_point sum = {0};
	for (size_t i = 0; i < all->count; i++)
		if (account_is_worker(all->node[i].node)) {
			sum.time += all->node[i].did.time;
			sum.compute += all->node[i].did.compute;
			sum.comm += all->node[i].did.comm;
		}
	return sum;
}

static void verdict_stood(const struct account *a, char *out, size_t max)
{
	const struct account_mark *longest = NULL;
	for (size_t i = 0; i < a->marks; i++)
		if (a->mark[i].kind == ACCOUNT_STOOD &&
		    (!longest || a->mark[i].seconds > longest->seconds))
			longest = &a->mark[i];
	snprintf(out, max, "%s", longest && longest->reason ? longest->reason : "");
}

static void verdict_why(const struct report *p, const struct report_nodes *all, const struct verdict *v,
		    char *out, size_t max)
{
	const struct account *a = p->a;
	const struct report_node *n = accused(all, p, v);
	struct account_point did = all_workers(all);
	char time[HUMAN_MAX], other[HUMAN_MAX], rows[HUMAN_MAX];
	double each = a->checkpoints ? v->seconds / (double)a->checkpoints : NAN;
	switch (v->kind) {
	case VERDICT_WORKER:
	case VERDICT_HOST:
		snprintf(out, max, "%s", slow_part(all, n));
		break;
	case VERDICT_RESTARTS:
		snprintf(out, max, "%llu restarts, %llu times back to a checkpoint%s%s",
			 (unsigned long long)a->restarts, (unsigned long long)a->rollbacks,
			 v->id[0] ? "; most often " : "", v->id);
		break;
	case VERDICT_STOOD:
		verdict_stood(a, out, max);
		break;
	case VERDICT_CHECKPOINTS:
		snprintf(out, max, "%llu checkpoints, of each of which workers waited for %s",
			 (unsigned long long)a->checkpoints, human_time(each, time));
		break;
	case VERDICT_DATA:
		snprintf(out, max, "%s until workers had shards, %s until they had rows",
			 human_time(p->cost.of[COST_OTHER], time), human_time(p->cost.rows, other));
		break;
	case VERDICT_FAILED:
	case VERDICT_UNKNOWN:
		snprintf(out, max, "%s", a->error ? a->error : "no worker has reported a batch");
		break;
	default:
		snprintf(out, max, "of their batches workers compute for %s, communicate for %s, and "
				   "get rows for %s",
			 human_percent(did.compute / did.time, time),
			 human_percent(did.comm / did.time, other),
			 human_percent(account_rows(&did) / did.time, rows));
	}
}

/* One key line of the job file, or one command. */
static void verdict_next(const struct report *p, const struct report_nodes *all,
		     const struct verdict *v, char *out, size_t max)
{
	const struct account *a = p->a;
	struct account_point did = all_workers(all);
	char id[WORDS_QUOTED(OPTION_ID_MAX)], job[WORDS_QUOTED(OPTION_ID_MAX)];
	int runs = strcmp(a->state, "unfinished") == 0;
	int decides = strcmp(a->solution, "none") != 0 && strcmp(a->solution, "even") != 0;
	words_quote(a->job, job, sizeof job);
	words_quote(v->id, id, sizeof id);
	if ((v->kind == VERDICT_WORKER || v->kind == VERDICT_HOST || v->kind == VERDICT_TURNS) &&
	    !decides)
		snprintf(out, max, "SOLUTION=pace");
	else if (v->kind == VERDICT_TURNS && strcmp(a->sync, "bsp") == 0 && a->servers > 0)
		snprintf(out, max, "SYNC=ssp:3");
	else if (v->kind == VERDICT_LINK && strcmp(a->fabric, "plain") == 0)
		snprintf(out, max, "FABRIC=mlfabric");
	else if ((v->kind == VERDICT_HOST || v->kind == VERDICT_LINK) && runs)
		snprintf(out, max, "trainctl drain %s -j %s", id, job);
	else if (v->kind == VERDICT_HOST || v->kind == VERDICT_LINK)
		snprintf(out, max, "BAD_HOSTS=test:on");
	else if (v->kind == VERDICT_SERVER)
		snprintf(out, max, "REBALANCE=on");
	else if (v->kind == VERDICT_DATA && p->cost.of[COST_OTHER] > p->cost.rows)
		snprintf(out, max, "WORKERS=ahead:8");
	else if (v->kind == VERDICT_CHECKPOINTS) /* what they cost falls with their number */
		snprintf(out, max, "CHECKPOINT=%.0f",
			 ceil(CHEAP * v->seconds / p->cost.seconds * p->cost.training /
			      (double)(a->checkpoints + 1)));
	else if (v->kind == VERDICT_MEETING || (v->kind == VERDICT_JOB && did.comm > did.compute))
		snprintf(out, max, "BATCH=%llu", 2 * (unsigned long long)a->batch);
	else if (v->kind == VERDICT_JOB)
		snprintf(out, max, "WORKERS=%llu", 2 * (unsigned long long)a->workers);
	else if (v->kind == VERDICT_AROUND)
		snprintf(out, max, "nothing: a longer job starts and ends only once, too");
	else
		snprintf(out, max, "trainctl logs %s%s-j %s", v->id[0] ? id : "",
			 v->id[0] ? " " : "", job);
}

/* ---- told ---- */

static void verdict_words(const struct report *p, struct verdict *v, char text[VERDICT_LINES][VERDICT_TEXT])
{
	const struct report_nodes *all = &p->nodes;
	*v = verdict_of(p->a, &p->cost);
	verdict_line(p, all, v, text[0], VERDICT_TEXT);
	verdict_why(p, all, v, text[1], VERDICT_TEXT);
	verdict_next(p, all, v, text[2], VERDICT_TEXT);
	for (size_t i = 0; i < VERDICT_LINES; i++)
		utf8_plain(text[i]);
}

static const struct grid_column evidence_column[] = {
	{.head = ""},
	{.head = "median", .rank = 1, .align = GRID_RIGHT},
	{.head = "worst", .rank = 0, .align = GRID_RIGHT},
	{.head = "of", .rank = 0},
	{.head = "times", .rank = 2, .align = GRID_RIGHT},
};

void report_tell_verdict(const struct report *p, const struct report_page *page)
{
	static const char *const label[VERDICT_LINES] = {"Verdict", "Why", "Next"};
	char text[VERDICT_LINES][VERDICT_TEXT], median[HUMAN_MAX], worst[HUMAN_MAX], skew[HUMAN_MAX];
	char name[OPTION_ID_MAX];
	struct verdict v;
	struct grid table;
	verdict_words(p, &v, text);
	page->words(page->to, REPORT_HEADING, "Machine or job?");
	for (size_t i = 0; i < VERDICT_LINES; i++)
		page->row(page->to, &(struct report_row){NAN, NAN, 0, text[i], "", label[i]});
	grid_init(&table, evidence_column, sizeof evidence_column / sizeof *evidence_column);
	for (size_t k = 0; k < EVIDENCE; k++) {
		struct evidence e = evidence_of(&p->nodes, &evidence_kind[k], evidence_kind[k].of_sample);
		if (!e.node)
			continue;
		text_name(e.node->id, page->name, name, sizeof name);
		const char *const cell[] = {
			evidence_kind[k].text, human_time(e.median, median),
			human_time(e.worst, worst), name,
			human_real(e.worst / e.median, 2, skew)};
		grid_add(&table, cell);
	}
	if (table.rows > 0)
		page->table(page->to, &table);
	grid_free(&table);
}

void report_put_verdict(const struct report *p)
{
	char text[VERDICT_LINES][VERDICT_TEXT];
	struct verdict v;
	verdict_words(p, &v, text);
	record_print(stdout, RECORD("verdict", F("kind", verdict_name[v.kind]),
				    F("machine", (uint64_t)v.machine), F("id", v.id),
				    F_SECONDS("seconds", v.seconds),
				    F_BRIEF("fraction", v.seconds / p->cost.seconds),
				    F("says", text[0]), F("why", text[1]), F("next", text[2])));
	for (size_t k = 0; k < EVIDENCE; k++) {
		struct evidence e = evidence_of(&p->nodes, &evidence_kind[k], evidence_kind[k].of_sample);
		if (e.node)
			record_print(stdout, RECORD("evidence", F("name", evidence_kind[k].name),
						    F_BRIEF("median", e.median),
						    F_BRIEF("worst", e.worst),
						    F("id", e.node->id)));
	}
}

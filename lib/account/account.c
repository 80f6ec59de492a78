/* account: see account.h. The job; its nodes are account_node.c's. */
#include "account/account.h"

#include "account/account_internal.h"
#include "base/grow.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int account_new(struct account **out, account_tell_fn *tell, void *arg, struct error *err)
{
	struct account *a = calloc(1, sizeof *a);
	if (a)
		a->reader = calloc(1, sizeof *a->reader);
	if (!a || !a->reader) {
		free(a);
		return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	scores_none(a->score);
	a->reader->tell = tell;
	a->reader->arg = arg;
	*out = a;
	return 0;
}

void account_free(struct account *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->nodes; i++)
		account_node_free(&a->node[i]);
	for (size_t i = 0; i < a->marks; i++)
		free(a->mark[i].reason);
	for (size_t i = 0; i < a->reader->bys; i++)
		free(a->reader->by[i]);
	free(a->reader->by);
	free(a->reader);
	free(a->phase_spans.span);
	free(a->error);
	free(a->node);
	free(a->row);
	free(a->mark);
	free(a->plan);
	free(a->rebalance);
	free(a->link);
	for (size_t i = 0; i < a->turns; i++)
		free(a->turn[i].line);
	free(a->turn);
	free(a);
}

const char *account_value(const struct record *r, const char *key)
{
	const char *text = record_get(r, key);
	return text ? text : "";
}

void account_tell(struct account *a, struct record_out *o)
{
	if (a->reader->tell && record_end(o, NULL) > 0)
		a->reader->tell(o->data, a->reader->arg);
}

static int account_out_of_memory(struct account *a)
{
	a->reader->failed = 1;
	return -1;
}

/* ---- spans ---- */

void account_close(struct account_spans *s, double at)
{
	if (s->count == 0)
		return;
	struct account_span *last = &s->span[s->count - 1];
	if (at > last->to)
		last->to = at;
}

void account_enter(struct account *a, struct account_spans *s, int what, double at)
{
	account_close(s, at);
	if (s->count > 0) {
		struct account_span *last = &s->span[s->count - 1];
		if (last->what == what)
			return;
		if (last->to > at)
			at = last->to; /* the clock went back */
		if (last->to == last->from)
			s->count--; /* nothing of it is left */
	}
	if (GROW(s->span, s->room, s->count + 1) != 0) {
		account_out_of_memory(a);
		return;
	}
	s->span[s->count++] = (struct account_span){at, at, what};
}

/* The first span that ends behind that time. */
static size_t span_at(const struct account_spans *s, double at)
{
	size_t low = 0, high = s->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->span[middle].to <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

double account_overlap(const struct account_spans *s, int what, double from, double to)
{
	double sum = 0;
	for (size_t i = span_at(s, from); i < s->count && s->span[i].from < to; i++)
		if (s->span[i].what == what)
			sum += fmin(s->span[i].to, to) - fmax(s->span[i].from, from);
	return sum;
}

/* ---- marks ---- */

struct account_mark *account_mark(struct account *a, enum account_kind kind)
{
	if (GROW(a->mark, a->marks_room, a->marks + 1) != 0) {
		account_out_of_memory(a);
		return NULL;
	}
	struct account_mark *m = &a->mark[a->marks++];
	*m = (struct account_mark){.kind = kind,
				   .at = a->at,
				   .node = ACCOUNT_NOBODY,
				   .size = NAN,
				   .seconds = NAN,
				   .written = NAN,
				   .down = NAN};
	return m;
}

void account_mark_reason(struct account *a, struct account_mark *m, const char *reason)
{
	if (reason[0] && !(m->reason = strndup(reason, ACCOUNT_REASON_MAX - 1)))
		account_out_of_memory(a);
}

/* The solution that decides from now on. */
static void take_decider(struct account *a, const char *name)
{
	struct account_reader *in = a->reader;
	for (in->by_now = 0; in->by_now < in->bys; in->by_now++)
		if (strcmp(in->by[in->by_now], name) == 0)
			return;
	if (GROW(in->by, in->bys_room, in->bys + 1) != 0 ||
	    !(in->by[in->bys] = strndup(name, 255))) {
		account_out_of_memory(a);
		return;
	}
	in->bys++;
}

static char *decider(const struct account *a)
{
	const struct account_reader *in = a->reader;
	return in->by_now < in->bys ? in->by[in->by_now] : NULL;
}

/* ---- phases and runs ---- */

static void close_phase(struct account *a)
{
	struct account_reader *in = a->reader;
	if (in->phase_now < a->phases && a->at > in->phase_since)
		a->phase[in->phase_now].seconds += a->at - in->phase_since;
	in->phase_since = a->at;
	account_close(&a->phase_spans, a->at);
}

static void take_phase(struct account *a, const char *name)
{
	struct account_reader *in = a->reader;
	close_phase(a);
	for (in->phase_now = 0; in->phase_now < a->phases; in->phase_now++)
		if (strcmp(a->phase[in->phase_now].name, name) == 0)
			break;
	if (in->phase_now == a->phases && a->phases < ACCOUNT_PHASES_MAX) {
		snprintf(a->phase[a->phases].name, sizeof a->phase->name, "%s", name);
		a->phases++;
	}
	account_enter(a, &a->phase_spans, (int)in->phase_now, a->at);
}

int account_is_training(const struct account *a, int phase)
{
	return phase >= 0 && (size_t)phase < a->phases &&
	       strcmp(a->phase[phase].name, "running") == 0;
}

static void account_keep(char *out, size_t max, const char *text)
{
	snprintf(out, max, "%s", text);
}

#define KEEP(out, text) account_keep((out), sizeof(out), (text))

/* What the begin record says of the job. */
static void take_description(struct account *a, const struct record *r)
{
	KEEP(a->job, account_value(r, "job"));
	KEEP(a->solution, account_value(r, "solution"));
	KEEP(a->sync, account_value(r, "sync"));
	KEEP(a->fabric, account_value(r, "fabric"));
	record_u64_opt(r, "workers", 0, UINT64_MAX, &a->workers, NULL);
	record_u64_opt(r, "servers", 0, UINT64_MAX, &a->servers, NULL);
	record_u64_opt(r, "replicas", 0, UINT64_MAX, &a->replicas, NULL);
	record_u64_opt(r, "batch", 0, UINT64_MAX, &a->batch, NULL);
	record_u64_opt(r, "shard", 0, UINT64_MAX, &a->shard, NULL);
}

/* Nobody knows when a killed supervisor ended: take its last record. */
static void take_begin(struct account *a, const struct record *r, double before)
{
	double now = a->at;
	a->at = before;
	close_phase(a);
	for (size_t i = 0; i < a->nodes; i++)
		account_node_away(a, &a->node[i], before);
	if (a->runs > 0)
		account_enter(a, &a->phase_spans, ACCOUNT_PHASES_MAX, before); /* none */
	a->at = a->reader->phase_since = now;
	a->reader->phase_now = ACCOUNT_PHASES_MAX;
	a->runs++;
	take_description(a, r);
	KEEP(a->state, "unfinished");
	a->failed[0] = '\0';
	free(a->error);
	a->error = NULL;
	take_phase(a, "services");
}

static void account_take_summary(struct account *a, const struct record *r)
{
	KEEP(a->state, account_value(r, "state"));
	KEEP(a->samples, account_value(r, "samples"));
	KEEP(a->jct, account_value(r, "jct"));
	scores_take(r, a->score);
	KEEP(a->failed, account_value(r, "failed"));
}

static void take_error(struct account *a, const struct record *r)
{
	free(a->error);
	a->error = r->text ? strdup(r->text) : NULL;
	if (r->text && !a->error)
		account_out_of_memory(a);
}

/* ---- the course of the loss ---- */

static void merge_rows(struct account_row *out, const struct account_row *p)
{
	const struct account_row *q = p + 1;
	double weight = p->weight + q->weight, loss = q->loss;
	if (isnan(q->loss))
		loss = p->loss;
	else if (!isnan(p->loss) && weight > 0)
		loss = (p->loss * p->weight + q->loss * q->weight) / weight;
	*out = (struct account_row){q->at, loss, q->samples, weight};
}

static void thin_rows(struct account *a)
{
	size_t count = 0;
	for (size_t i = 0; i + 1 < a->rows; i += 2)
		merge_rows(&a->row[count++], &a->row[i]);
	if (a->rows % 2)
		a->row[count++] = a->row[a->rows - 1];
	a->rows = count;
}

/* Where a count has fallen, another lead has begun. */
static void take_delays(struct account *a, const struct record *r)
{
	uint64_t most = 0, stale = 0;
	struct account_reader *last = a->reader;
	if (!record_get(r, "delay"))
		return;
	record_u64_opt(r, "delay", 0, UINT64_MAX, &a->delay[0], NULL);
	record_u64_opt(r, "delay-95", 0, UINT64_MAX, &a->delay[1], NULL);
	record_u64_opt(r, "delay-most", 0, UINT64_MAX, &most, NULL);
	record_u64_opt(r, "stale", 0, UINT64_MAX, &stale, NULL);
	int is_new = most < last->delay_most || stale < last->stale;
	a->leads += is_new;
	a->stale += is_new ? stale : stale - last->stale;
	a->delay[2] = most > a->delay[2] ? most : a->delay[2];
	a->delay_known = 1;
	last->delay_most = most;
	last->stale = stale;
}

static void account_take_row(struct account *a, const struct record *r)
{
	struct account_row row = {.at = a->at, .loss = NAN, .samples = NAN};
	record_real_opt(r, "loss", -1e300, 1e300, &row.loss, NULL);
	record_real_opt(r, "samples-done", 0, 1e300, &row.samples, NULL);
	record_real_opt(r, "samples", 0, 1e300, &a->total, NULL);
	record_u64_opt(r, "epochs", 0, UINT64_MAX, &a->epochs, NULL);
	take_delays(a, r);
	if (isnan(row.samples))
		return;
	row.weight = fmax(row.samples - a->reader->samples, 0);
	a->reader->samples = row.samples;
	if (a->rows == ACCOUNT_POINTS_MAX)
		thin_rows(a);
	if (GROW(a->row, a->rows_room, a->rows + 1) != 0)
		account_out_of_memory(a);
	else
		a->row[a->rows++] = row;
}

/* ---- decisions ---- */

static void account_take_action(struct account *a, const struct record *r)
{
	const char *kind = account_value(r, "kind"), *by = decider(a);
	double accum = 1;
	if (strcmp(kind, "none") == 0)
		return;
	a->actions++;
	struct record_out *o = RECORD("decided", F_SECONDS("at", a->at), F("by", by ? by : ""));
	record_add_fields(o, r, NULL);
	account_tell(a, o);
	struct account_mark *m = account_mark(a, ACCOUNT_ACTION);
	if (!m)
		return;
	KEEP(m->what, kind);
	m->by = decider(a);
	record_real_opt(r, "size", 0, 1e300, &m->size, NULL);
	record_real_opt(r, "accum", 1, 1e300, &accum, NULL);
	m->size *= accum;
	record_real_opt(r, "count", 0, 1e300, &m->size, NULL);
	record_real_opt(r, "scale", 0, 1e300, &m->size, NULL);
	account_mark_reason(a, m, account_value(r, "reason"));
	const char *id = account_value(r, "id");
	struct account_node *n = id[0] ? account_node(a, id, account_value(r, "role")) : NULL;
	if (n)
		a->mark[a->marks - 1].node = (size_t)(n - a->node);
}

static void take_refused(struct account *a, const struct record *r)
{
	a->refused++;
	struct record_out *o = RECORD_BARE("refused");
	record_add_fields(o, r, NULL);
	account_tell(a, o);
	struct account_mark *m = account_mark(a, ACCOUNT_REFUSED);
	if (!m)
		return;
	KEEP(m->what, account_value(r, "kind"));
	account_mark_reason(a, m, account_value(r, "reason"));
}

static void take_checkpoint(struct account *a, const struct record *r)
{
	struct account_mark *m = account_mark(a, ACCOUNT_CHECKPOINT);
	a->checkpoints++;
	if (!m)
		return;
	record_real_opt(r, "stall", 0, 1e300, &m->seconds, NULL);
	record_real_opt(r, "seconds", 0, 1e300, &m->written, NULL);
}

/* A job that goes on does so from its last checkpoint: nothing has failed. */
static void take_rollback(struct account *a)
{
	size_t now = a->reader->phase_now;
	a->rollbacks++;
	account_mark(a,
		     a->runs > 1 && now < a->phases && strcmp(a->phase[now].name, "services") == 0
			     ? ACCOUNT_GOES_ON
			     : ACCOUNT_ROLLBACK);
}

static void take_stood(struct account *a, const struct record *r)
{
	struct record_out *o = RECORD_BARE("stood");
	record_add_fields(o, r, NULL);
	account_tell(a, o);
	struct account_mark *m = account_mark(a, ACCOUNT_STOOD);
	if (!m)
		return;
	record_real_opt(r, "seconds", 0, 1e300, &m->seconds, NULL);
	m->at = a->at - (m->seconds > 0 ? m->seconds : 0);
	KEEP(m->what, account_value(r, "iteration"));
	account_mark_reason(a, m, account_value(r, "why"));
}

static void account_take_decision(struct account *a, const struct record *r)
{
	a->decisions++;
	a->reader->snapshot_at = a->at;
	take_decider(a, account_value(r, "solution"));
}

/* ---- a brain ---- */

static void account_take_sizes(struct account_plan *p, const struct record *r)
{
	static const char *const roles[] = {"worker", "server"};
	for (int i = 0; i < 2; i++) {
		char key[32];
		snprintf(key, sizeof key, "%ss", roles[i]);
		record_u64_opt(r, key, 0, UINT64_MAX, &p->has[i].count, NULL);
		snprintf(key, sizeof key, "%s-cores", roles[i]);
		record_u64_opt(r, key, 0, UINT64_MAX, &p->has[i].cores, NULL);
		snprintf(key, sizeof key, "had-%ss", roles[i]);
		record_u64_opt(r, key, 0, UINT64_MAX, &p->had[i].count, NULL);
		snprintf(key, sizeof key, "had-%s-cores", roles[i]);
		record_u64_opt(r, key, 0, UINT64_MAX, &p->had[i].cores, NULL);
	}
}

static void account_take_plan(struct account *a, const struct record *r)
{
	const char *refused = record_get(r, "refused");
	a->plans_refused += refused && strcmp(refused, "same") != 0;
	if (strcmp(account_value(r, "change"), "yes") != 0)
		return;
	struct record_out *o = RECORD_BARE("planned");
	record_add_fields(o, r, NULL);
	account_tell(a, o);
	if (GROW(a->plan, a->plans_room, a->plans + 1) != 0) {
		account_out_of_memory(a);
		return;
	}
	struct account_plan *p = &a->plan[a->plans++];
	*p = (struct account_plan){.at = a->at,
				   .before = NAN,
				   .expected = NAN,
				   .after = NAN,
				   .confidence = NAN,
				   .took = NAN,
				   .cost = NAN};
	account_take_sizes(p, r);
	KEEP(p->reason, account_value(r, "reason"));
	KEEP(p->method, account_value(r, "method"));
	KEEP(p->id, account_value(r, "id"));
	KEEP(p->what, account_value(r, "what"));
	record_u64_opt(r, "nodes", 0, UINT64_MAX, &p->nodes, NULL);
	record_real_opt(r, "now", 0, 1e300, &p->before, NULL);
	record_real_opt(r, "expected", 0, 1e300, &p->expected, NULL);
	record_real_opt(r, "confidence", 0, 1, &p->confidence, NULL);
}

static void take_changed(struct account *a, const struct record *r)
{
	if (a->plans == 0)
		return;
	record_real_opt(r, "took", 0, 1e300, &a->plan[a->plans - 1].took, NULL);
	record_real_opt(r, "cost", 0, 1e300, &a->plan[a->plans - 1].cost, NULL);
}

/* A round that was measured. */
static void account_take_round(struct account *a, const struct record *r)
{
	double rate = NAN, batch = NAN;
	a->rounds++;
	record_real_opt(r, "steps-per-second", 0, 1e300, &rate, NULL);
	record_real_opt(r, "batch", 0, 1e300, &batch, NULL);
	if (a->plans > 0 && !isnan(a->plan[a->plans - 1].took) && !isnan(rate * batch))
		a->plan[a->plans - 1].after = rate * batch;
}

/* ---- what a trainer reports ---- */

static void account_take_reported(struct account *a, const char *name, size_t len, double value,
		       uint64_t iteration)
{
	size_t i = 0;
	while (i < a->reported_count &&
	       (strncmp(a->reported[i].name, name, len) != 0 || a->reported[i].name[len]))
		i++;
	struct account_reported *v = &a->reported[i];
	if (i == ACCOUNT_REPORTED_MAX || len == 0 || len >= sizeof v->name)
		return;
	int is_new = i == a->reported_count;
	a->reported_count += (size_t)is_new;
	memcpy(v->name, name, len);
	for (int k = 0; k < 3; k++) {
		if (!is_new && ((k == 1 && value >= v->value[k]) || (k == 2 && value <= v->value[k])))
			continue;
		v->value[k] = value;
		v->iteration[k] = iteration;
	}
}

/* "NAME:NUMBER,..." */
static void account_take_report(struct account *a, const struct record *r)
{
	uint64_t iteration = 0;
	double value;
	record_u64_opt(r, "iteration", 0, UINT64_MAX, &iteration, NULL);
	for (const char *at = account_value(r, "values"); *at; at += *at == ',') {
		size_t len = strcspn(at, ","), name = strcspn(at, ":,");
		if (name < len && number_real_span(at + name + 1, len - name - 1, &value) == 0)
			account_take_reported(a, at, name, value, iteration);
		at += len;
	}
}

/* ---- servers ---- */

/* Changes that failed are reported as warnings. */
static void take_rebalanced(struct account *a, const struct record *r)
{
	if (record_get(r, "failed"))
		return;
	struct record_out *o = RECORD_BARE("rebalanced");
	record_add_fields(o, r, NULL);
	account_tell(a, o);
	if (GROW(a->rebalance, a->rebalances_room, a->rebalances + 1) != 0) {
		account_out_of_memory(a);
		return;
	}
	struct account_rebalance *b = &a->rebalance[a->rebalances++];
	*b = (struct account_rebalance){
		.at = a->at, .before = NAN, .after = NAN, .bytes = NAN, .stall = NAN};
	KEEP(b->id, account_value(r, "id"));
	KEEP(b->reason, account_value(r, "reason"));
	record_real_opt(r, "before", 0, 1e300, &b->before, NULL);
	record_real_opt(r, "after", 0, 1e300, &b->after, NULL);
	record_real_opt(r, "moved-bytes", 0, 1e300, &b->bytes, NULL);
	record_real_opt(r, "stall", 0, 1e300, &b->stall, NULL);
}

/* ---- links ---- */

static struct account_link *link_of_host(struct account *a, const char *host)
{
	for (size_t i = 0; i < a->links; i++)
		if (strcmp(a->link[i].host, host) == 0)
			return &a->link[i];
	if (GROW(a->link, a->links_room, a->links + 1) != 0) {
		account_out_of_memory(a);
		return NULL;
	}
	struct account_link *link = &a->link[a->links++];
	*link = (struct account_link){.host = ""};
	KEEP(link->host, host);
	return link;
}

static void account_take_link(struct account *a, const struct record *r)
{
	static const char *const key[2][3] = {{"out", "sent-bytes", "out-cost"},
					      {"in", "received-bytes", "in-cost"}};
	struct account_link *link = link_of_host(a, account_value(r, "host"));
	double median = NAN, saves = 0;
	record_real_opt(r, "median", 0, 1e300, &median, NULL);
	record_real_opt(r, "fabric-saves", 0, 1e300, &saves, NULL);
	a->fabric_saves[strcmp(a->fabric, "mlfabric") == 0] += saves;
	for (int i = 0; link && i < 2; i++) {
		double rate = NAN, bytes = 0, cost = 0;
		record_real_opt(r, key[i][0], 0, 1e300, &rate, NULL);
		record_real_opt(r, key[i][1], 0, 1e300, &bytes, NULL);
		record_real_opt(r, key[i][2], 0, 1e300, &cost, NULL);
		if (!(rate > 0) || !(median > 0))
			continue;
		link->way[i].bytes += bytes;
		link->way[i].seconds += bytes / rate;
		link->way[i].cost += cost;
		a->link_bytes += bytes;
		a->link_seconds += bytes / median;
	}
}

/* ---- nodes ---- */

static int is_turn(const struct record *r)
{
	static const char *const types[] = {"scaled",	 "scale-refused", "oom",    "resize",
					    "spare",	 "more-host",	  "placed", "host-test"};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (record_is(r, types[i]))
			return 1;
	/* Others list what there is. */
	return record_is(r, "host") && !record_get(r, "trains");
}

static void account_take_turn(struct account *a, const struct record *r)
{
	struct record_out *o = RECORD_BARE(r->type);
	record_add_fields(o, r, NULL);
	account_tell(a, o);
	o = RECORD_BARE(r->type);
	record_add_fields(o, r, NULL);
	if (record_end(o, r->text) == 0)
		return;
	char *copy = strdup(o->data);
	if (!copy || GROW(a->turn, a->turns_room, a->turns + 1) != 0) {
		free(copy);
		account_out_of_memory(a);
		return;
	}
	a->turn[a->turns++] = (struct account_turn){.at = a->at, .line = copy};
	if (record_is(r, "scaled") && !record_get(r, "failed"))
		a->scaled++;
	else if (record_is(r, "oom"))
		a->ooms++;
	else if (record_is(r, "spare"))
		a->spares++;
}

/* ---- records in ---- */

static void account_take_record(struct account *a, const struct record *r, double before)
{
	if (account_take_node(a, r))
		return;
	if (record_is(r, "begin") && (a->runs == 0 || !record_get(r, "goes-on")))
		take_begin(a, r, before);
	else if (record_is(r, "phase"))
		take_phase(a, account_value(r, "name"));
	else if (record_is(r, "decision"))
		account_take_decision(a, r);
	else if (record_is(r, "by-hand"))
		take_decider(a, record_get(r, "by") ? account_value(r, "by") : "hand");
	else if (record_is(r, "row"))
		account_take_row(a, r);
	else if (record_is(r, "action"))
		account_take_action(a, r);
	else if (record_is(r, "refused"))
		take_refused(a, r);
	else if (record_is(r, "decided"))
		a->skipped += record_get(r, "skipped") != NULL;
	else if (record_is(r, "brain-job"))
		account_take_round(a, r);
	else if (record_is(r, "brain-done"))
		account_take_plan(a, r);
	else if (record_is(r, "brain-changed"))
		take_changed(a, r);
	else if (record_is(r, "report"))
		account_take_report(a, r);
	else if (is_turn(r))
		account_take_turn(a, r);
	else if (record_is(r, "rebalanced"))
		take_rebalanced(a, r);
	else if (record_is(r, "link"))
		account_take_link(a, r);
	else if (record_is(r, "rollback"))
		take_rollback(a);
	else if (record_is(r, "stood"))
		take_stood(a, r);
	else if (record_is(r, "repeated"))
		record_u64_opt(r, "in-all", 0, UINT64_MAX, &a->repeated, NULL);
	else if (record_is(r, "checkpoint"))
		take_checkpoint(a, r);
	else if (record_is(r, "error"))
		take_error(a, r);
	else if (record_is(r, "summary"))
		account_take_summary(a, r);
}

/* If the clock was set back before a run began, times continue from the last one. */
static void account_take_time(struct account *a, const struct record *r)
{
	double at;
	if (!record_get(r, "at") || record_real(r, "at", 0, 1e300, &at, NULL) != 0)
		return;
	if (record_is(r, "begin") && at + a->reader->set_back < a->at)
		a->reader->set_back = a->at - at;
	a->at = at + a->reader->set_back;
}

int account_take(struct account *a, const struct record *r, struct error *err)
{
	double before = a->at;
	account_take_time(a, r);
	if (a->first_at == 0)
		a->first_at = a->at;
	account_take_record(a, r, before);
	return a->reader->failed ? error_set(err, ERROR_OS, NULL, "out of memory") : 0;
}

void account_end(struct account *a)
{
	close_phase(a);
	for (size_t i = 0; i < a->nodes; i++)
		account_node_end(a, &a->node[i]);
}

double account_seconds(const struct account *a)
{
	double seconds = 0;
	for (size_t i = 0; i < a->phases; i++)
		seconds += a->phase[i].seconds;
	return seconds;
}

double account_seconds_by(const struct account *a, double at)
{
	double seconds = 0;
	for (size_t i = 0; i < a->phase_spans.count; i++) {
		const struct account_span *p = &a->phase_spans.span[i];
		if (p->from >= at)
			break;
		if (p->what < ACCOUNT_PHASES_MAX)
			seconds += fmin(p->to, at) - p->from;
	}
	return seconds;
}

double account_at(const struct account *a, double seconds)
{
	for (size_t i = 0; i < a->phase_spans.count; i++) {
		const struct account_span *p = &a->phase_spans.span[i];
		double length = p->to - p->from;
		if (p->what >= ACCOUNT_PHASES_MAX)
			continue;
		if (seconds <= length)
			return p->from + seconds;
		seconds -= length;
	}
	return a->at;
}

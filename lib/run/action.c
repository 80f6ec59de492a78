/* action: see action.h. */
#include "run/sup.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Actions of one decision, on their way to the lead. */
struct sup_act {
	struct sup_act *next;
	struct supervisor *sup;
	char *text;
	size_t bytes, count;
	uint64_t number;          /* so that the lead does not take a repeated request twice */
	struct question question; /* open: it was sent */
	int is_repeat;            /* all that is in force, for a lead that does not know it */
	double until;             /* clock_mono(): dropped then, if no lead has taken it */
	char who[128];
	struct request *rq; /* NULL: nobody waits */
	size_t refused;     /* restarts of the same decision; for rq */
};

/* ---- checking ---- */

static void action_log_refused(struct supervisor *s, const struct action *a, size_t line,
			       const char *reason, struct request *rq)
{
	s->actions.refused[a->kind]++;
	for (int to_log = 0; to_log < 2; to_log++) {
		struct record_out *o = RECORD("refused", F("kind", action_kind_name(a->kind)),
					      F("id", action_id(a)), F("reason", reason),
					      line > 0 ? F("line", line) : F_NONE);
		if (to_log)
			sup_log(s, o);
		else if (rq)
			request_put_record(rq, o);
	}
}

static struct decision_rules action_rules(struct supervisor *s)
{
	const struct job_kind *kind = job_kind(s->job);
	return (struct decision_rules){
		.is_balanced = job_balance(s->job) != NULL,
		.has_rate = !job_has_documents(s->job),
		.no_backup = !kind->backup		? kind->sums ? "sums" : "trainer"
			     : !job_has_barrier(s->job) ? "no-barrier"
							: NULL,
		.workers = sup_count(s, sup_trainers(s))};
}

/* Whether the job has the node, and, for a restart, such a node can be restarted. A size for a worker
 * that is not up is fine: the worker gets it when it joins. */
static int action_is_known(struct supervisor *s, const struct action *a)
{
	struct sup_node *n = action_id(a)[0] ? sup_find(s, a->id) : NULL;
	if (!n || a->kind != ACTION_KILL_RESTART || a->role == NODE_WORKER)
		return n && n->role == sup_trainers(s);
	return a->role == NODE_SERVER && n->role->goes_back;
}

static int action_check(struct supervisor *s, const struct decision *list, struct request *rq,
			struct error *err)
{
	const struct decision_rules rules = action_rules(s);
	for (size_t i = 0; i < list->count; i++) {
		const struct action *a = &list->item[i];
		const char *why = action_nonsense(a, &rules, action_is_known(s, a));
		char line[48] = "";
		if (!why)
			continue;
		action_log_refused(s, a, list->line[i], why, rq);
		if (list->line[i] > 0)
			snprintf(line, sizeof line, "line %zu: ", list->line[i]);
		return error_set(err, ERROR_DATA, NULL, "%s%s%s%s: %s (%s)", line,
				 action_kind_name(a->kind), action_id(a)[0] ? " " : "",
				 action_id(a), why, action_nonsense_words(why));
	}
	return 0;
}

/* Samples that the running workers will train in an iteration after this decision; 0: it sets no
 * size. */
static uint64_t sum_of_sizes(const struct supervisor *s, const struct decision *list)
{
	uint64_t sum = 0;
	int sets = 0;
	EACH_OF (n, s, sup_trainers(s)) {
		const struct action *size = NULL;
		for (size_t k = 0; k < list->count; k++)
			if (list->item[k].kind == ACTION_ADJUST_BS &&
			    strcmp(list->item[k].id, n->id) == 0)
				size = &list->item[k];
		sets |= size != NULL;
		if (!size && n->stage != STAGE_STARTING && n->stage != STAGE_READY)
			continue;
		if (!size)
			size = sup_in_force_find(s, ACTION_ADJUST_BS, n->id);
		sum += size ? size->size * size->accum : sup_share(n);
	}
	return sets ? sum : 0;
}

static void warn_of_sum(struct supervisor *s, const struct decision *list)
{
	uint64_t sum = sum_of_sizes(s, list);
	uint64_t batch = sup_scale_batch(s);
	if (sum == 0 || sum == batch)
		return;
	sup_log(s, RECORD("warning", F("kind", "adjust-bs"), F("sum", sum), F("batch", batch)));
}

/* Says with its sizes what they are parts of, if they are: all of them, or those of all that run. Then
 * the lead cuts it anew when ranks come and go. */
static void say_batch(struct supervisor *s, const struct decision *list)
{
	uint64_t sum = 0, batch = sup_scale_batch(s);
	for (size_t i = 0; i < list->count; i++)
		if (list->item[i].kind == ACTION_ADJUST_BS)
			sum += list->item[i].size * list->item[i].accum;
	for (size_t i = 0; (sum == batch || sum_of_sizes(s, list) == batch) && i < list->count; i++)
		if (list->item[i].kind == ACTION_ADJUST_BS)
			list->item[i].batch = batch;
}

/* ---- to the lead ---- */

static void action_drop(struct sup_act *act)
{
	for (struct sup_act **p = &act->sup->actions.first; *p; p = &(*p)->next)
		if (*p == act) {
			*p = act->next;
			break;
		}
	free(act->text);
	free(act);
}

static void action_answer(struct request *rq, size_t count, size_t refused, const char *iteration)
{
	request_ok_record(rq, RECORD("ok", F("actions", count), F("refused", refused),
				     iteration ? F("iteration", iteration) : F_NONE));
}

static void action_acknowledged(struct sup_act *act, const struct record *r)
{
	struct supervisor *s = act->sup;
	const char *iteration = record_get(r, "iteration");
	sup_log(s, RECORD("acted", F("by", act->who), F("actions", act->count),
			  F("iteration", iteration ? iteration : "")));
	sup_in_force_take(s, act->text);
	if (act->rq)
		action_answer(act->rq, act->count, act->refused, iteration);
}

static void action_on_act(const struct record *r, void *owner)
{
	struct sup_act *act = owner;
	if (!r)
		return; /* the next lead gets it */
	if (sup_answer_ok(r))
		action_acknowledged(act, r);
	else {
		sup_note(act->sup, "warning", "the lead refuses actions (%s): %s", act->who,
			 r->text ? r->text : "");
		if (act->rq)
			request_err(act->rq, "refused", "%s", r->text ? r->text : "by the lead");
	}
	action_drop(act);
}

static void action_send_all(struct supervisor *s)
{
	for (struct sup_act *act = s->actions.first; act; act = act->next) {
		sup_ask_with(&act->question, &s->links.lead_act,
			     RECORD("act", F("number", act->number), F("bytes", act->bytes)),
			     act->text, act->bytes, action_on_act, act);
	}
}

static void action_cancelled(struct request *rq, void *arg)
{
	(void)rq;
	((struct sup_act *)arg)->rq = NULL;
}

static uint64_t action_next_number(struct supervisor *s)
{
	uint64_t now = (uint64_t)(clock_epoch() * 1e6); /* above those of an earlier supervisor */
	s->actions.number = now > s->actions.number ? now : s->actions.number + 1;
	return s->actions.number;
}

/* Owns text from now on, even if it returns NULL. */
static struct sup_act *action_queue(struct supervisor *s, char *text, size_t count, const char *who)
{
	struct sup_act *act = calloc(1, sizeof *act), **p = &s->actions.first;
	if (!act) {
		free(text);
		return NULL;
	}
	*act = (struct sup_act){.sup = s,
				.text = text,
				.bytes = strlen(text),
				.count = count,
				.number = action_next_number(s),
				.until = clock_mono() + deadline_seconds(DEADLINE_ACT)};
	snprintf(act->who, sizeof act->who, "%s", who);
	while (*p)
		p = &(*p)->next;
	*p = act;
	return act;
}

/* A lead that was rolled back, or started anew, does not know the actions in force: it gets them
 * again. A lead that took over knows them. */
void sup_actions_up(struct link *link, const struct record *greeting)
{
	struct supervisor *s = link->sup;
	uint64_t incarnation = 0;
	record_u64_opt(greeting, "incarnation", 0, UINT64_MAX, &incarnation, NULL);
	int again =
		(incarnation != s->in_force.incarnation || sup_lead_life(s) != s->in_force.life) &&
		s->in_force.count > 0;
	for (struct sup_act *act = s->actions.first; act; act = act->next)
		again &= !act->is_repeat; /* they are on their way already */
	char *text = again ? sup_in_force_lines(s) : NULL;
	if (text) {
		/* They go in front of the decisions that came later. */
		struct sup_act *later = s->actions.first;
		s->actions.first = NULL;
		struct sup_act *act = action_queue(s, text, s->in_force.count, "in-force");
		if (act) {
			act->is_repeat = 1;
			act->next = later;
		} else
			s->actions.first = later;
	}
	action_send_all(s);
}

void sup_actions_tick(struct supervisor *s)
{
	double now = clock_mono();
	for (struct sup_act *act = s->actions.first, *next; act; act = next) {
		next = act->next;
		if (act->question.open || now < act->until)
			continue;
		sup_note(s, "warning", "actions (%s) are dropped: no lead for %g s", act->who,
			 deadline_seconds(DEADLINE_ACT));
		if (act->rq)
			request_err(act->rq, "late", "no lead took them in time");
		action_drop(act);
	}
}

void sup_actions_over(struct supervisor *s)
{
	while (s->actions.first) {
		if (s->actions.first->rq)
			request_err(s->actions.first->rq, "over", "the job has ended");
		action_drop(s->actions.first);
	}
}

/* ---- carrying out ---- */

static void action_describe(const struct action *a, char *out, size_t max)
{
	switch (a->kind) {
	case ACTION_ADJUST_BS:
		if (a->accum > 1)
			snprintf(out, max, "size %llu in %llu steps", (unsigned long long)a->size,
				 (unsigned long long)a->accum);
		else
			snprintf(out, max, "size %llu", (unsigned long long)a->size);
		break;
	case ACTION_ADJUST_LR:
		snprintf(out, max, "lr x%g", a->scale);
		break;
	case ACTION_BACKUP_WORKERS:
		snprintf(out, max, "backup %llu", (unsigned long long)a->count);
		break;
	case ACTION_KILL_RESTART:
		snprintf(out, max, "restart");
		break;
	case ACTION_NONE:
		snprintf(out, max, "none");
		break;
	}
}

/* As it was decided: what the lead is told besides is no part of the decision. */
static void log_action(struct supervisor *s, const struct action *a)
{
	char line[RECORD_LINE_MAX];
	struct action decided = *a;
	decided.batch = 0;
	size_t len = action_format(&decided, line, sizeof line);
	sup_log_text(s, line, len);
}

/* Notes an action that is carried out, for status and the metrics. */
static void action_note(struct supervisor *s, const struct action *a)
{
	char what[64];
	struct sup_node *n = action_id(a)[0] ? sup_find(s, a->id) : NULL;
	s->actions.carried[a->kind]++;
	action_describe(a, what, sizeof what);
	snprintf(s->actions.last, sizeof s->actions.last, "%s%s%s%s%s", n ? n->id : "",
		 n ? " " : "", what, a->reason[0] ? ": " : "", a->reason);
	s->actions.last_at = clock_mono();
	if (n) {
		snprintf(n->last_action.what, sizeof n->last_action.what, "%s", what);
		n->last_action.at = clock_mono();
	}
}

/* Logs that the solution did not decide on the actions that follow. who NULL: a person did. */
static void log_decider(struct supervisor *s, const char *who, size_t count)
{
	sup_log(s, RECORD("by-hand", F("actions", count), who ? F("by", who) : F_NONE));
}

/* Carries out the restarts. Returns how many were refused. */
static size_t action_restart(struct supervisor *s, const struct decision *list,
			     struct request *rq)
{
	size_t refused = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct action *a = &list->item[i];
		if (a->kind != ACTION_KILL_RESTART)
			continue;
		const char *why = sup_restart(sup_find(s, a->id), 0, a->reason);
		if (why)
			action_log_refused(s, a, list->line[i], why, rq);
		else
			action_note(s, a);
		refused += why != NULL;
	}
	return refused;
}

int sup_actions_carry(struct supervisor *s, const struct decision *list, const char *who,
		      struct request *rq, struct error *err)
{
	size_t count;
	if (action_check(s, list, rq, err) != 0)
		return -1;
	if (strcmp(who, "scale") != 0) /* that counts ranks that are still to come */
		say_batch(s, list);
	char *text = decision_lead_lines(list, ACTIONS_BYTES_MAX, &count, err);
	if (!text)
		return -1;
	warn_of_sum(s, list);
	if (rq || strcmp(who, "scale") == 0)
		log_decider(s, rq ? NULL : who, list->count);
	for (size_t i = 0; i < list->count; i++) {
		log_action(s, &list->item[i]);
		if (list->item[i].kind != ACTION_NONE && list->item[i].kind != ACTION_KILL_RESTART)
			action_note(s, &list->item[i]);
	}
	/* The lead's actions go first, so that a restarted worker joins with the new sizes. */
	struct sup_act *act = NULL;
	if (count > 0 && !(act = action_queue(s, text, count, who)))
		return error_set(err, ERROR_OS, "actions", "out of memory");
	if (count == 0)
		free(text);
	if (act)
		action_send_all(s);
	size_t refused = action_restart(s, list, rq);
	if (rq && act) {
		act->rq = rq;
		act->count = list->count - refused;
		act->refused = refused;
		request_defer(rq, action_cancelled, act);
	} else if (rq)
		action_answer(rq, list->count - refused, refused, NULL);
	return (int)(list->count - refused);
}

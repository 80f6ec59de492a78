/* trainers: see trainers.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/random.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_LEAST 20000 /* below those that Linux gives to clients, 32768 and up */
#define PORT_COUNT 12000
#define PORT_TRIES 64
#define STATUS_NOT_EXECUTABLE 126 /* of sh(1) */
#define STATUS_NOT_FOUND 127
#define SIGNAL_STATUS 128
#define JUDGE_SECONDS 5.0

const struct role *sup_trainers(const struct supervisor *s)
{
	return job_kind(s->job)->foreign ? &role_agent : &role_worker;
}

int sup_goes_back(const struct sup_node *n)
{
	return n->role->goes_back ||
	       (n->role == &role_agent && job_kind(n->sup->job)->cut == CUT_SAVED);
}

int sup_takes_back(const struct sup_node *n)
{
	return n->role == &role_agent && job_kind(n->sup->job)->goes_back;
}

int sup_trainer_is_last(const struct sup_node *n)
{
	size_t others = 0, ready = 0;
	if (!job_kind(n->sup->job)->sums || n->role != &role_agent)
		return 0;
	EACH_OF (other, n->sup, n->role) {
		others += other != n;
		ready += other != n && other->stage == STAGE_READY && !other->end_wanted;
	}
	return others > 0 && ready == 0;
}

int sup_trainers_can_save(const struct supervisor *s)
{
	if (job_kind(s->job)->cut != CUT_SAVED || s->phases.now == PHASE_FIRST_CUT)
		return 1;
	size_t ready = 0;
	EACH_OF (n, s, &role_agent)
		ready += n->stage == STAGE_READY;
	return job_kind(s->job)->goes_back ? ready == sup_count(s, &role_agent) : ready > 0;
}

/* ---- where they meet ---- */

void sup_trainers_address(const struct supervisor *s, char *out, size_t max)
{
	const struct sup_node *first = sup_first(s, sup_trainers(s));
	const char *host = first ? first->place.host : "", *at = strrchr(host, '@');
	snprintf(out, max, "%s", s->hosts.count == 1 || !first ? "127.0.0.1" : at ? at + 1 : host);
}

static int port_is_free(unsigned port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int is_free = fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;
	if (fd >= 0)
		close(fd);
	return is_free;
}

/* Which ports are free on another host is not known here: any port will do, and a trainer that
 * finds it taken ends, and is started with another one. */
void sup_trainers_begin(struct supervisor *s)
{
	const struct sup_node *first = sup_first(s, sup_trainers(s));
	unsigned before = s->trainers.port;
	uint64_t seed = (uint64_t)(clock_mono() * 1e6) ^ ((uint64_t)getpid() << 32);
	if (!job_kind(s->job)->foreign)
		return;
	for (int i = 0; i < PORT_TRIES; i++) {
		s->trainers.port = PORT_LEAST + (unsigned)(random_next(&seed) % PORT_COUNT);
		if (s->trainers.port != before &&
		    ((first && first->at != 0) || port_is_free(s->trainers.port)))
			return;
	}
}

/* ---- ends ---- */

struct node_end sup_trainer_end(const struct node_end *end)
{
	if (!end->seen || end->signal || end->status <= SIGNAL_STATUS ||
	    end->status >= SIGNAL_STATUS + NSIG)
		return *end;
	return (struct node_end){.seen = 1, .signal = end->status - SIGNAL_STATUS};
}

int sup_trainer_is_judged(const struct sup_node *n)
{
	return sup_takes_back(n) && sup_count(n->sup, n->role) > 1 &&
	       n->sup->phases.now < PHASE_FINISHING;
}

/* How much an end looks like the one that made the others end: not at all (LATER); BY_ITSELF;
 * KNOWN: we know why it ended, and people were told. */
enum { LATER, BY_ITSELF, KNOWN };

static int trainers_certainty(const struct sup_node *n, const struct node_end *own)
{
	if (n->end_wanted || n->now.doomed || sup_host_was_lost(n, own))
		return KNOWN;
	switch (own->signal) {
	case 0:
		return own->seen && own->status != ERROR_TEMPFAIL && own->status != ERROR_UNAVAILABLE
			       ? BY_ITSELF
			       : LATER;
	case SIGABRT:
	case SIGTERM:
	case SIGHUP:
	case SIGPIPE:
		return LATER;
	default:
		return BY_ITSELF;
	}
}

static void trainers_note(struct sup_node *n, const char *text)
{
	struct sup_trainers *t = &n->sup->trainers;
	snprintf(t->failure, sizeof t->failure, "%.24s: %s", n->id, text);
	t->failure_at = clock_mono();
}

/* One that was killed said nothing about it; its agent may. */
void sup_trainer_said(struct sup_node *n)
{
	const struct node_end own = sup_trainer_end(&n->end);
	const struct node_end killed = {.seen = own.seen, .signal = own.signal};
	n->said[0] = '\0';
	int is_killed = own.signal && end_class_of(&killed) != END_UNRETRYABLE;
	if ((n->role->foreign || n->role == &role_lead) && own.seen && !sup_trainer_is_done(n, &n->end) &&
	    (own.signal || own.status != 0))
		sup_said(n, 1, n->said);
	if (is_killed && strncmp(n->said, END_PERHAPS_MEMORY, strlen(END_PERHAPS_MEMORY)) != 0)
		n->said[0] = '\0';
}

void sup_trainer_tell(struct sup_node *n, const char *text)
{
	struct sup_trainers *t = &n->sup->trainers;
	if (!n->role->foreign || sup_trainer_is_judged(n))
		return;
	trainers_note(n, text);
	if (n->said[0] && strcmp(n->said, t->told) != 0)
		sup_last_words(n);
	memcpy(t->told, n->said, sizeof t->told);
}

/* A trainer that has trained a batch starts its count of trials anew. */
void sup_trainer_ended(struct sup_node *n, const struct node_end *end)
{
	struct sup_trainers *t = &n->sup->trainers;
	const struct node_end own = sup_trainer_end(end);
	if (sup_trainer_is_done(n, end))
		sup_stat_forget(n->sup); /* what shardd says from now on tells whether all is done */
	if (!n->role->foreign || n->stage == STAGE_STOPPING)
		return;
	if (n->watch.worked)
		n->trials = 0;
	if (!n->end_wanted && n->place.launcher->class_of(&own) == END_UNRETRYABLE)
		n->trials++;
	if (!sup_trainer_is_judged(n) || (t->first && t->certainty >= trainers_certainty(n, &own)))
		return;
	if (!t->first)
		t->first_at = clock_mono();
	t->first = n;
	t->first_end = own;
	t->certainty = trainers_certainty(n, &own);
}

static int others_live(const struct supervisor *s)
{
	EACH_OF (n, s, &role_agent)
		if (sup_node_runs(n))
			return 1;
	return 0;
}

/* Who was told to leave still gives what it has. */
int sup_trainers_are_gone(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	int worked = s->checkpoint.latest_iteration > 0;
	if (!job_kind(s->job)->sums || n->role != &role_agent || s->phases.now != PHASE_RUNNING)
		return 0;
	EACH_OF (other, s, &role_agent) {
		if (other->now.runs && !other->now.doomed)
			return 0;
		worked |= other->watch.worked;
	}
	return worked;
}

static int trainers_is_spent(const struct supervisor *s)
{
	EACH_OF (n, s, &role_agent)
		if (n->trials >= TRAINERS_TRIES)
			return 1;
	return 0;
}

/* Tells which one failed first. Its last words are told with its failure, or here. */
static void tell_first(struct sup_node *n, const struct node_end *end, int is_known)
{
	struct supervisor *s = n->sup;
	struct sup_trainers *t = &s->trainers;
	char text[96];
	end_text(end, text, sizeof text);
	trainers_note(n, text);
	if (!is_known)
		sup_note(s, "failed-first", "%s failed first: %s", n->id, text);
	n->end = *end;
	if (trainers_is_spent(s))
		sup_fail_by(n, "%s, which would happen again", text);
	else if (t->is_last)
		sup_fail_by(n,
			    "%s; that is rollback %llu in a row without a checkpoint that goes "
			    "further (RESTARTS rollbacks)",
			    text, (unsigned long long)s->recover.in_a_row);
	else if (!n->end_wanted && n->in_a_row > s->job->restarts)
		sup_fail_by(n, "%s, %llu times in a row (RESTARTS)", text,
			    (unsigned long long)n->in_a_row);
	else if (!is_known)
		sup_last_words(n);
}

/* A trainer that dies because another one failed often ends before that one does: so others are
 * awaited for a moment. */
int sup_trainers_judge(struct supervisor *s)
{
	struct sup_trainers *t = &s->trainers;
	struct sup_node *first = t->first;
	double left = t->first_at + JUDGE_SECONDS - clock_mono();
	if (!first)
		return 0;
	if (t->certainty == LATER && left > 0 && others_live(s)) {
		sup_kick_after(s, left);
		return -1;
	}
	t->first = NULL;
	tell_first(first, &t->first_end, t->certainty == KNOWN);
	t->is_last = 0;
	return s->phases.now == PHASE_ROLLBACK ? 0 : -1;
}

int sup_trainer_is_done(const struct sup_node *n, const struct node_end *end)
{
	int each = job_kind(n->sup->job)->given == GIVEN_SHARD;
	return n->role->foreign && !sup_lead(n->sup) && end->seen && !end->signal &&
	       (end->status == 0 || (each && end->status == ERROR_NEGATIVE));
}

int sup_trainer_is_needed(const struct sup_node *n)
{
	const struct supervisor *s = n->sup;
	return n->lives == 0 || !sup_trainer_is_done(n, &n->end) ||
	       (s->progress.stat.known && !sup_nothing_left(s));
}

int sup_trainer_is_tried_again(const struct sup_node *n, const struct node_end *end)
{
	if (!sup_goes_back(n) || sup_count(n->sup, n->role) < 2 ||
	    (n->trials >= TRAINERS_TRIES && !sup_trainer_is_judged(n)))
		return 0;
	switch (end->status) {
	case ERROR_USAGE:
	case ERROR_DATA:
	case ERROR_CONFIG:
	case STATUS_NOT_EXECUTABLE:
	case STATUS_NOT_FOUND:
		return 0; /* of the agent, or of sh: nobody else is to blame */
	default:
		return 1;
	}
}

/* ---- samples that are trained again ---- */

int sup_repeated_take(struct supervisor *s, const struct record *r, struct error *err)
{
	struct sup_trainers *t = &s->trainers;
	t->under_way = record_get(r, "before") != NULL;
	if (record_u64(r, "samples", 0, UINT64_MAX, &t->repeated, err) != 0)
		return -1;
	return t->under_way ? record_u64(r, "before", 0, UINT64_MAX, &t->before, err) : 0;
}

static int trainers_keep(struct supervisor *s)
{
	const struct sup_trainers *t = &s->trainers;
	struct record_out *o = RECORD("repeated", F("samples", t->repeated),
				      t->under_way ? F("before", t->before) : F_NONE);
	size_t len = record_end(o, NULL);
	return sup_keep(s, KEPT_REPEATED, o->data, len);
}

/* If a rollback was not finished, more may have been done before it than is done now. */
int sup_repeated_before(struct supervisor *s)
{
	struct sup_trainers *t = &s->trainers;
	uint64_t done = s->progress.stat.samples_done;
	if (job_kind(s->job)->cut != CUT_SAVED || (t->under_way && t->before >= done))
		return 0;
	const struct sup_trainers was = *t;
	t->before = done;
	t->under_way = 1;
	if (trainers_keep(s) == 0)
		return 0;
	*t = was;
	return -1;
}

int sup_repeated_after(struct supervisor *s)
{
	struct sup_trainers *t = &s->trainers;
	if (!t->under_way)
		return 0;
	if (!s->progress.stat.known) {
		sup_ask_stat(s);
		return -1;
	}
	uint64_t done = s->progress.stat.samples_done;
	uint64_t again = t->before > done ? t->before - done : 0;
	t->under_way = 0;
	t->repeated += again;
	if (trainers_keep(s) != 0) {
		t->under_way = 1;
		t->repeated -= again;
		return -1;
	}
	sup_log(s, RECORD("repeated", F("samples", again), F("in-all", t->repeated),
			  F("checkpoint", s->recover.cut)));
	if (again > 0)
		log_say(LOG_LEVEL_INFO, "%llu samples since that checkpoint are trained again",
			(unsigned long long)again);
	return 0;
}

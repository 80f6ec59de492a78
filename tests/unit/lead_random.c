/*
 * The life of a batch under random events: a gate between simulated workers, shardd, a second
 * server and a supervisor; the same rules as batch.pml, on the real code.  Messages are delivered
 * late, workers die with requests under way, some push to the lead alone, shardd loses connections
 * before or after it journals, and now and then the gate is saved, thrown away and loaded: then all
 * requests under way are gone, and those who live make theirs again.  With rounds, it is also lost
 * now and then, and a new one knows only what shardd noted with the last settle; what the servers
 * hold may have to be applied then.
 *
 * Checked at every step: nothing is applied twice, nothing that was not settled, everything that is
 * applied is staged at both servers; every token is answered once; every member sees every act
 * once, in their order; members of an iteration have the sizes of one plan; queue and servers agree
 * at every cut; nothing is applied that is more stale than allowed, and nothing is dropped for that
 * which was granted and came in time.  In the end every sample is in the model exactly once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lead/gate.h"
#include "monitor/node.h"
#include "tests/unit/rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 4
#define SAMPLES 48
#define LIVES 64
#define CONNECTIONS (WORKERS * LIVES)
#define TOKENS 65536
#define GLOBAL 64
#define STAGED 512

static uint64_t seed_now, told_all, halves_all, moves_all, stale_all, spared_all, waits_all, groups_all,
	far_all, deaths_all, behind_all;
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("seed %llu: %s", (unsigned long long)seed_now, #condition);       \
	} while (0)

enum request_kind { R_JOIN, R_LEAVE, R_PUSH, R_ANNOUNCE, R_FENCE, R_CUT, R_ACT };
enum phase { START, READY, JOINING, MEMBER, ANNOUNCING, GRANTED, PUSHING, REFUSED, LEAVING, DEAD };

struct message {
	enum request_kind kind;
	uint64_t generation, sequence, iteration;
	int sample;
	uint64_t map; /* that its sender goes by */
	uint64_t group, members; /* in which it was granted; 0: in none */
};

struct connection {
	struct message queue[64];
	size_t head, tail;
	int open, closing; /* closing: the gate hears of it once the queue is delivered */
};

struct worker {
	enum phase phase;
	uint64_t generation, sequence, iteration, connection, lives;
	int member, sample;
	int fencing, failing; /* what the supervisor is at */
	int act;              /* the last one that it has seen */
	uint64_t size;        /* that it was told by the barrier */
	uint64_t group, members;
	int promised;         /* its push was granted, and nothing has happened since */
};

struct stage {
	struct {
		int used, worker;
		uint64_t generation, sequence, iteration, group, members;
		int sample;
	} item[STAGED];
};

struct world {
	uint64_t random;
	struct gate_options options;
	struct gate *gate;
	/* shardd */
	int todo[SAMPLES], todo_count, hold[SAMPLES], done[SAMPLES];
	uint64_t generation[WORKERS], last[WORKERS];
	uint64_t seen;
	int refused[WORKERS];
	int shards_up;
	int request, answer; /* a settle not read yet; its answer not read yet */
	int asked;           /* to hold asked_part[parts]; not answered yet */
	struct order_push asked_part[STAGED];
	size_t asked_parts;
	uint64_t number, at;
	struct gate_line line[256];
	size_t lines;
	int is_whole;
	uint64_t round, units; /* of the settle; */
	struct {
		uint64_t iteration, round, units; /* the one that was carried out last */
	} note;
	struct order_push held[STAGED]; /* by the servers, */
	size_t helds;
	uint64_t held_round; /* under this round */
	int save_request, save_answer, saved[SAMPLES];
	/* servers */
	int applied[SAMPLES];
	uint64_t iteration;
	struct stage stage[2];
	/* requests */
	struct worker worker[WORKERS];
	struct connection connection[CONNECTIONS];
	struct {
		enum request_kind kind;
		int worker, open;
		uint64_t connection, generation, sequence;
	} token[TOKENS];
	uint64_t tokens;
	int cut_busy, cut_done, acts, handed;
	/* parameters that move: 1: it is to be still, 2: it is */
	int still, moved;
	uint64_t map;
	int64_t ns;
	/* sizes at every barrier: those of the iteration that is open, by worker; 0: no member */
	uint64_t planned, plan[WORKERS];
};

static uint64_t next_random(struct world *w)
{
	uint64_t z = (w->random += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static int chance(struct world *w, uint64_t of)
{
	return next_random(w) % of == 0;
}

static void name_of(int worker, char out[16])
{
	snprintf(out, 16, "w%d", worker);
}

static int number_of(const char *name)
{
	return atoi(name + 1);
}

/* ---- staging, as both servers do it ---- */

static void stage_put(struct world *w, int server, int worker, const struct message *m)
{
	size_t slot = STAGED;

	for (size_t i = 0; i < STAGED; i++) {
		if (!w->stage[server].item[i].used)
			slot = i;
	}
	CHECK(slot < STAGED);
	w->stage[server].item[slot].used = 1;
	w->stage[server].item[slot].worker = worker;
	w->stage[server].item[slot].generation = m->generation;
	w->stage[server].item[slot].sequence = m->sequence;
	w->stage[server].item[slot].iteration = m->iteration;
	w->stage[server].item[slot].group = m->group;
	w->stage[server].item[slot].members = m->members;
	w->stage[server].item[slot].sample = m->sample;
}

static int is_staged(const struct world *w, int server, const struct order_push *p)
{
	for (size_t i = 0; i < STAGED; i++) {
		if (w->stage[server].item[i].used &&
		    w->stage[server].item[i].worker == number_of(p->worker) &&
		    w->stage[server].item[i].generation == p->generation &&
		    w->stage[server].item[i].sequence == p->sequence)
			return 1;
	}
	return 0;
}

/* Takes it out; -1 when it is not there. */
static int stage_take(struct world *w, int server, int worker, uint64_t generation,
		      uint64_t sequence)
{
	for (size_t i = 0; i < STAGED; i++) {
		if (w->stage[server].item[i].used && w->stage[server].item[i].worker == worker &&
		    w->stage[server].item[i].generation == generation &&
		    w->stage[server].item[i].sequence == sequence) {
			w->stage[server].item[i].used = 0;
			return w->stage[server].item[i].sample;
		}
	}
	return -1;
}

static void stage_throw(struct world *w, int server, int worker, uint64_t generation)
{
	for (size_t i = 0; i < STAGED; i++) {
		if (w->stage[server].item[i].used && w->stage[server].item[i].worker == worker &&
		    w->stage[server].item[i].generation <= generation)
			w->stage[server].item[i].used = 0;
	}
}

/* ---- shardd ---- */

static void give_back(struct world *w, int worker)
{
	for (int s = 0; s < SAMPLES; s++) {
		if (w->hold[s] == worker + 1) {
			w->hold[s] = 0;
			w->todo[w->todo_count++] = s;
		}
	}
}

static void shardd_settle(struct world *w)
{
	w->request = 0;
	w->answer = 1;
	if (w->seen == w->number)
		return; /* the same answer again */
	w->seen = w->number;
	memset(w->refused, 0, sizeof w->refused);
	for (size_t i = 0; i < w->lines && w->is_whole; i++) {
		int worker = number_of(w->line[i].worker);
		w->refused[worker] |= !w->line[i].back &&
				      w->line[i].generation != w->generation[worker];
	}
	for (int id = 0; id < WORKERS; id++) {
		if (w->refused[id])
			return; /* nothing of it */
	}
	for (size_t i = 0; i < w->lines; i++) {
		struct gate_line *l = &w->line[i];
		int worker = number_of(l->worker), s = (int)l->range.begin;
		if (l->generation != w->generation[worker]) {
			w->refused[worker] |= !l->back;
		} else if (w->hold[s] == worker + 1) {
			w->hold[s] = 0;
			if (l->back)
				w->todo[w->todo_count++] = s;
			else
				w->done[s] = 1;
		} else
			CHECK(l->back || w->done[s]);
	}
	if (w->is_whole) {
		w->note.iteration = w->at;
		w->note.round = w->round;
		w->note.units = w->units;
	}
}

static void shardd_answer(struct world *w)
{
	const char *fenced[WORKERS];
	char name[WORKERS][16];
	size_t n = 0;

	w->answer = 0;
	for (int i = 0; i < WORKERS; i++) {
		name_of(i, name[i]);
		if (w->refused[i])
			fenced[n++] = name[i];
	}
	gate_settled(w->gate, w->number, fenced, n);
}

/* ---- sizes ---- */

static int plan(uint64_t iteration, struct balance_member *m, size_t n, void *arg)
{
	struct world *w = arg;
	uint64_t left = GLOBAL;

	CHECK(iteration >= w->planned && n >= 1 && n <= WORKERS);
	w->planned = iteration;
	for (size_t i = 0; i < n; i++) {
		CHECK(!i || node_id_compare(m[i - 1].worker, m[i].worker) < 0);
		CHECK(m[i].speed >= 0.0 && m[i].speed < 10.0);
	}
	memset(w->plan, 0, sizeof w->plan);
	for (size_t i = 0; i < n; i++) {
		m[i].size = i + 1 == n ? left : 1 + next_random(w) % (left / 3);
		left -= m[i].size;
		w->plan[number_of(m[i].worker)] = m[i].size;
	}
	return 0;
}

/* A member computes with the size that it has when it hears of its next iteration: that must be the
 * plan's, or the sum is another one. */
static void take_size(struct world *w, struct worker *k, const struct gate_effect *e, int waited)
{
	char own[40];
	int id = (int)(k - w->worker);
	const char *at;

	if (!w->options.balance || strncmp(e->fields, "iteration=", 10) != 0)
		return;
	snprintf(own, sizeof own, "id=w%d size=", id);
	at = e->actions ? strstr(e->actions, "barrier=") : NULL;
	CHECK(!at || strncmp(e->actions, "action kind=adjust-bs id=", 25) == 0);
	if (at) {
		CHECK((at = strstr(e->actions, own)));
		k->size = strtoull(at + strlen(own), NULL, 10);
		told_all++;
	}
	uint64_t iteration = strtoull(e->fields + 10, NULL, 10);
	/* With backup workers the iteration that a worker may enter can close in the same event: others
	 * were let in while the one before it was being settled, and have pushed. */
	CHECK(iteration == w->planned || strstr(e->fields, "repeated=") || w->options.backup);
	if (iteration == w->planned && waited)
		CHECK(k->size == w->plan[id]);
}

/* ---- effects ---- */

/* Any order, and any drops: the gate must go on, and keep its promises. */
static int schedule(struct gate_offer *offer, size_t n, void *arg)
{
	struct world *w = arg;
	size_t crew = chance(w, 3) ? 0 : 1 + next_random(w) % 2; /* of both hosts */

	for (size_t i = 0; i < n; i++) {
		CHECK(offer[i].sizes == 1 && offer[i].size[0] == 1000000);
		CHECK(offer[i].left >= 0 && offer[i].left <= 1);
		CHECK(offer[i].left >= 1 || offer[i].is_on_its_way);
		offer[i].is_late = chance(w, 50) || offer[i].deadline == 0;
		offer[i].start = chance(w, 3) ? 0 : (int64_t)(next_random(w) % 20000000);
		offer[i].host = chance(w, 4) ? 0 : 1 + next_random(w) % 2;
		offer[i].crew = offer[i].host ? crew : 0;
		offer[i].hop = chance(w, 2) ? -1 : 1000;
		offer[i].alone = 20000000;
		offer[i].there = chance(w, 9) ? INT64_MAX : offer[i].start + 1000000;
		waits_all += offer[i].start > 0;
	}
	return chance(w, 5) ? -1 : 0;
}

static const char *host_name(size_t host, void *arg)
{
	(void)arg;
	return host == 1 ? "alpha" : "beta";
}

static void take_hold(struct world *w, const struct gate_effect *e)
{
	CHECK(!w->asked && !w->request && !w->answer); /* one outstanding */
	CHECK(!w->save_request && !w->save_answer && w->still != 2);
	CHECK(e->pushes > 0 && e->pushes <= STAGED);
	for (size_t i = 0; i < e->pushes; i++)
		CHECK(e->push[i].count == 1 && is_staged(w, 0, &e->push[i]));
	w->asked = 1;
	w->asked_parts = e->pushes;
	memcpy(w->asked_part, e->push, e->pushes * sizeof *e->push);
	CHECK(!w->options.round_first == !e->round && e->round >= w->held_round);
	memcpy(w->held, e->push, e->pushes * sizeof *e->push);
	w->helds = e->pushes;
	w->held_round = e->round;
}

static void answer_hold(struct world *w)
{
	const char *missing[STAGED];
	size_t n = 0;

	w->asked = 0;
	for (size_t i = 0; i < w->asked_parts; i++) {
		if (!is_staged(w, 1, &w->asked_part[i]))
			missing[n++] = w->asked_part[i].worker;
	}
	halves_all += n;
	gate_held(w->gate, missing, n);
}

/* What shardd is asked for may be with it for longer than the gate lives, whose names these are. */
static void keep_lines(struct gate_line *to, const struct gate_effect *e)
{
	static const char *const name[WORKERS] = {"w0", "w1", "w2", "w3"};

	for (size_t i = 0; i < e->lines; i++) {
		to[i] = e->line[i];
		to[i].worker = name[number_of(e->line[i].worker)];
	}
}

static int is_same_line(const struct gate_line *a, const struct gate_line *b)
{
	return strcmp(a->worker, b->worker) == 0 && a->generation == b->generation && a->back == b->back &&
	       memcmp(&a->range, &b->range, sizeof a->range) == 0;
}

static void take_settle(struct world *w, const struct gate_effect *e)
{
	CHECK(w->shards_up);
	CHECK(!w->asked && !w->request && !w->answer); /* one outstanding */
	CHECK(!w->save_request && !w->save_answer && w->still != 2);
	if (w->number == e->number) { /* repeated: the same lines */
		CHECK(w->lines == e->lines);
		for (size_t i = 0; i < e->lines; i++)
			CHECK(is_same_line(&w->line[i], &e->line[i]));
	} else
		CHECK(e->number > w->number);
	CHECK(e->lines <= 256);
	w->number = e->number;
	w->is_whole = e->whole;
	w->at = e->iteration;
	w->round = e->round;
	w->units = e->divisor;
	CHECK(!e->whole || !e->round || e->round == w->held_round);
	w->lines = e->lines;
	keep_lines(w->line, e);
	w->request = 1;
}

static int line_of(const struct world *w, const struct order_push *p, int sample)
{
	for (size_t i = 0; i < w->lines; i++) {
		if (strcmp(w->line[i].worker, p->worker) == 0 &&
		    w->line[i].generation == p->generation &&
		    (int)w->line[i].range.begin == sample && !w->line[i].back)
			return 1;
	}
	return 0;
}

static uint64_t staged_group(const struct world *w, const struct order_push *p, uint64_t *members)
{
	for (size_t i = 0; i < STAGED; i++) {
		if (w->stage[0].item[i].used &&
		    w->stage[0].item[i].worker == number_of(p->worker) &&
		    w->stage[0].item[i].generation == p->generation &&
		    w->stage[0].item[i].sequence == p->sequence) {
			*members = w->stage[0].item[i].members;
			return w->stage[0].item[i].group;
		}
	}
	return 0;
}

static uint64_t staged_iteration(const struct world *w, int worker, uint64_t generation,
				 uint64_t sequence)
{
	for (size_t i = 0; i < STAGED; i++) {
		if (w->stage[0].item[i].used && w->stage[0].item[i].worker == worker &&
		    w->stage[0].item[i].generation == generation &&
		    w->stage[0].item[i].sequence == sequence)
			return w->stage[0].item[i].iteration;
	}
	return UINT64_MAX;
}

/* What may be summed with others is applied with exactly those, and in one unit. */
static void check_groups(struct world *w, const struct gate_effect *e)
{
	for (size_t i = 0; i < e->pushes && w->options.sync != GATE_BSP; i++) {
		const struct order_push *p = &e->push[i];
		uint64_t members = 0, group = staged_group(w, p, &members), in_unit = 0;
		for (size_t k = 0; k < e->pushes; k++) {
			uint64_t ignored;
			if (e->push[k].unit != p->unit)
				continue;
			in_unit++;
			CHECK(staged_group(w, &e->push[k], &ignored) == group);
		}
		CHECK(in_unit == (group ? members : 1));
		groups_all += group > 0;
	}
}

/* Field by field: what stands behind the end of a name is anything. */
static int are_held(const struct world *w, const struct order_push *push)
{
	for (size_t i = 0; i < w->helds; i++) {
		const struct order_push *a = &push[i], *b = &w->held[i];
		if (strcmp(a->worker, b->worker) != 0 || a->generation != b->generation ||
		    a->sequence != b->sequence || a->unit != b->unit || a->count != b->count ||
		    a->size != b->size || a->scale != b->scale || a->delay != b->delay)
			return 0;
	}
	return 1;
}

static void take_apply(struct world *w, const struct gate_effect *e)
{
	CHECK(e->iteration == w->iteration && w->still != 2);
	if (w->options.round_first && e->pushes) /* exactly what is held */
		CHECK(e->pushes == w->helds && are_held(w, e->push));
	check_groups(w, e);
	const uint64_t before = w->iteration;
	w->iteration += e->units;
	for (size_t i = 0; i < e->pushes; i++) {
		const struct order_push *p = &e->push[i];
		int worker = number_of(p->worker);
		uint64_t pulled = staged_iteration(w, worker, p->generation, p->sequence);
		int a = stage_take(w, 0, worker, p->generation, p->sequence);
		int b = stage_take(w, 1, worker, p->generation, p->sequence);
		CHECK(a >= 0 && a == b);
		CHECK(!w->applied[a]); /* never twice */
		CHECK(!w->options.bounds_delay ||
		      before + p->unit - pulled <= w->options.delay_max);
		CHECK(w->done[a] && !w->refused[worker] && line_of(w, p, a));
		w->applied[a] = 1;
		if (i && w->options.sync == GATE_BSP)
			CHECK(node_id_compare(e->push[i - 1].worker, p->worker) < 0);
		CHECK(p->unit < e->units);
	}
	if (w->options.sync != GATE_BSP)
		return;
	for (size_t i = 0; i < 2 * STAGED; i++) {
		if (w->stage[i % 2].item[i / 2].iteration < w->iteration)
			w->stage[i % 2].item[i / 2].used = 0;
	}
}

static void take_cut(struct world *w)
{
	for (int s = 0; s < SAMPLES; s++)
		CHECK(w->saved[s] == w->applied[s] && w->still != 2);
	w->cut_busy = 2;
	w->cut_done++;
}

static int waits_for(const struct world *w, const struct worker *k, uint64_t token)
{
	static const enum phase phase[] = {
		[R_JOIN] = JOINING, [R_LEAVE] = LEAVING, [R_PUSH] = PUSHING,
		[R_ANNOUNCE] = ANNOUNCING};
	enum request_kind kind = w->token[token].kind;

	return k->connection == w->token[token].connection &&
	       k->generation == w->token[token].generation && k->phase == phase[kind] &&
	       ((kind != R_PUSH && kind != R_ANNOUNCE) || k->sequence == w->token[token].sequence);
}

/* Acts are numbered by the size that they tell. A join's answer has those in force, the last act
 * among them; later ones come one by one. */
static void take_acts(struct world *w, struct worker *k, const struct gate_effect *e, int join)
{
	const char *at = e->actions;
	const char *own = at && w->options.balance ? strstr(at, "barrier=") : NULL;

	if (own) /* in front of all others */
		at = strchr(own, '\n');
	for (; at && (at = strstr(at, "size=")); at += 5) {
		int act = atoi(at + 5);
		CHECK(act <= w->acts && act > 0);
		CHECK(join || act == k->act + 1);
		k->act = act;
	}
}

/* The same push, by the map that is in force now: as worker_step() will say it. */
static void push_again(struct world *w, struct worker *k)
{
	CHECK((k->phase == PUSHING || k->phase == ANNOUNCING) && w->moved);
	k->phase = MEMBER;
	k->sequence--;
}

static void take_answer(struct world *w, const struct gate_effect *e)
{
	CHECK(e->token <= w->tokens && w->token[e->token].open);
	w->token[e->token].open = 0;
	int id = w->token[e->token].worker;
	struct worker *k = id >= 0 ? &w->worker[id] : NULL;

	if (w->token[e->token].kind == R_CUT) {
		CHECK(!e->ok);
		if (w->cut_busy == 1)
			w->cut_busy = 0;
		return;
	}
	if (w->token[e->token].kind == R_FENCE) {
		CHECK(e->ok && k->fencing == 1);
		k->fencing = 2;
		return;
	}
	if (k && e->ok && k->connection == w->token[e->token].connection &&
	    k->generation == w->token[e->token].generation) {
		take_acts(w, k, e, w->token[e->token].kind == R_JOIN);
		take_size(w, k, e, waits_for(w, k, e->token));
	}
	if (!k || !waits_for(w, k, e->token))
		return; /* of a life before, or of a push that was asked for twice */
	if (e->ok && strncmp(e->fields, "iteration=", 10) == 0)
		k->iteration = strtoull(e->fields + 10, NULL, 10);
	if (!e->ok && strcmp(e->code, "map") == 0) {
		push_again(w, k);
	} else if (!e->ok) {
		CHECK(strcmp(e->code, "fenced") == 0);
		k->phase = REFUSED;
	} else if (k->phase == JOINING) {
		CHECK(strstr(e->fields, "members="));
		k->member = 1;
		k->phase = MEMBER;
	} else if (k->phase == ANNOUNCING && strstr(e->fields, "granted=1")) {
		const char *group = strstr(e->fields, "group=");
		const char *members = strstr(e->fields, "members=");
		k->group = group ? strtoull(group + 6, NULL, 10) : 0;
		k->members = members ? strtoull(members + 8, NULL, 10) : 0;
		k->promised = !group && !strstr(e->fields, "repeated=1");
		k->phase = GRANTED;
	} else if (k->phase == PUSHING || k->phase == ANNOUNCING) {
		CHECK(!strstr(e->fields, "dropped=1") || k->phase == ANNOUNCING || !k->promised);
		spared_all += k->phase == ANNOUNCING;
		k->sample = -1;
		k->phase = READY;
	} else if (k->phase == LEAVING) {
		k->member = 0;
		k->phase = k->failing ? START : READY;
		k->failing = 0;
	}
}

static void pump(struct world *w)
{
	const struct gate_effect *e;

	while ((e = gate_next(w->gate))) {
		switch (e->kind) {
		case GATE_REFUSED: /* is for people */
			break;
		case GATE_ANSWER:
			take_answer(w, e);
			break;
		case GATE_HOLD:
			take_hold(w, e);
			break;
		case GATE_SETTLE:
			take_settle(w, e);
			break;
		case GATE_APPLY:
			take_apply(w, e);
			break;
		case GATE_DROP:
			stage_take(w, 0, number_of(e->worker), e->generation, e->sequence);
			stage_take(w, 1, number_of(e->worker), e->generation, e->sequence);
			break;
		case GATE_THROW:
			stage_throw(w, 0, number_of(e->worker), e->generation);
			stage_throw(w, 1, number_of(e->worker), e->generation);
			break;
		case GATE_SAVE:
			CHECK(w->shards_up && !w->request && !w->answer);
			w->save_request = 1;
			break;
		case GATE_CUT:
			take_cut(w);
			break;
		case GATE_STILL:
			CHECK(w->still == 1 && !w->asked && !w->request && !w->answer);
			CHECK(!w->save_request && !w->save_answer && w->cut_busy < 2);
			w->still = 2;
			break;
		case GATE_SUM:
		case GATE_FILL:
		case GATE_QUIT:
			fail_msg("seed %llu: quit", (unsigned long long)seed_now);
		}
	}
	CHECK(!gate_failed(w->gate));
}

/* ---- requests ---- */

static uint64_t token(struct world *w, enum request_kind kind, int worker, uint64_t connection)
{
	w->tokens++;
	CHECK(w->tokens < TOKENS);
	w->token[w->tokens].kind = kind;
	w->token[w->tokens].worker = worker;
	w->token[w->tokens].connection = connection;
	w->token[w->tokens].open = 1;
	return w->tokens;
}

static void say(struct world *w, int id, enum request_kind kind)
{
	struct worker *k = &w->worker[id];
	struct connection *c = &w->connection[k->connection];
	struct message m = {kind,      k->generation, k->sequence, k->iteration,
			    k->sample, w->map,        k->group,    k->members};

	CHECK(c->tail < 64);
	c->queue[c->tail++] = m;
}

static void deliver_push(struct world *w, const struct gate_who *who, int id,
			 const struct message *m)
{
	struct gate_range range = {(uint64_t)m->sample + 1, (uint64_t)m->sample, 1};
	struct gate_push push = {.sequence = m->sequence,
				 .iteration = m->iteration,
				 .count = 1,
				 .pulled = m->iteration, /* the least that a pull waits for */
				 .loss = 0.5,
				 .range = &range,
				 .ranges = 1,
				 .part = &(uint64_t){1000000},
				 .parts = 1,
				 .group = m->group,
				 .speed = (double)(1 + next_random(w) % 9)};

	if (m->kind == R_ANNOUNCE) {
		gate_announce(w->gate, who, &push);
		return;
	}

	if (gate_wants(w->gate, who, m->sequence) && m->map != w->map) { /* the lead's to refuse */
		const struct gate_effect map = {.token = who->token, .code = "map"};
		take_answer(w, &map);
		return;
	}
	if (gate_wants(w->gate, who, m->sequence)) {
		stage_take(w, 0, id, m->generation, m->sequence);
		stage_put(w, 0, id, m);
	}
	gate_push(w->gate, who, &push);
}

static void deliver(struct world *w, uint64_t connection)
{
	struct connection *c = &w->connection[connection];
	int id = (int)(connection % WORKERS);
	char name[16];

	if (c->head == c->tail) {
		if (c->closing && c->open) {
			c->open = 0;
			/* Its requests go with it. */
			for (uint64_t t = 1; t <= w->tokens; t++) {
				if (w->token[t].connection == connection)
					w->token[t].open |= 2;
			}
			gate_closed(w->gate, connection + 1);
			pump(w);
		}
		return;
	}
	struct message m = c->queue[c->head++];
	if (c->head == c->tail)
		c->head = c->tail = 0;
	name_of(id, name);
	struct gate_who who = {name, m.generation, 1, connection + 1,
			       token(w, m.kind, id, connection), gate_seat(w->gate, name)};
	w->token[w->tokens].generation = m.generation;
	w->token[w->tokens].sequence = m.sequence;
	if (m.kind == R_JOIN)
		gate_join(w->gate, &who);
	else if (m.kind == R_LEAVE)
		gate_leave(w->gate, &who);
	else
		deliver_push(w, &who, id, &m);
	pump(w);
}

/* ---- workers ---- */

static void start_life(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	CHECK(k->lives < LIVES);
	k->connection = (uint64_t)id + WORKERS * k->lives++;
	w->connection[k->connection] = (struct connection){.open = 1};
	k->phase = START;
	k->member = k->failing = k->fencing = 0;
	k->sample = -1;
}

static void hello(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	give_back(w, id);
	k->generation = w->generation[id] = ++w->last[id];
	k->sequence = 0;
	k->sample = -1;
	k->member = 0;
	k->phase = READY;
}

static void go_on(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	if (w->generation[id] != k->generation) { /* shardd refuses it */
		k->phase = REFUSED;
		return;
	}
	if (k->sample < 0) {
		if (w->todo_count == 0) {
			if (k->member) {
				say(w, id, R_LEAVE);
				k->phase = LEAVING;
			}
			return;
		}
		k->sample = w->todo[0];
		memmove(w->todo, w->todo + 1, (size_t)--w->todo_count * sizeof *w->todo);
		w->hold[k->sample] = id + 1;
	}
	if (!k->member) {
		say(w, id, R_JOIN);
		k->phase = JOINING;
		return;
	}
	k->phase = MEMBER;
}

static void send_push(struct world *w, int id)
{
	struct worker *k = &w->worker[id];
	struct message m;

	/* The other server first: its pull has shown that it is where this worker is. */
	m = (struct message){R_PUSH,    k->generation, k->sequence, k->iteration,
			     k->sample, w->map,        k->group,    k->members};
	if ((w->options.sync != GATE_BSP || k->iteration >= w->iteration) && !chance(w, 25))
		stage_put(w, 1, id, &m);
	say(w, id, R_PUSH);
	if (chance(w, 8)) /* the same again */
		say(w, id, R_PUSH);
	if (chance(w, 20)) /* as nobody would */
		say(w, id, R_ANNOUNCE);
	k->phase = PUSHING;
}

static void announce(struct world *w, int id)
{
	say(w, id, R_ANNOUNCE);
	if (chance(w, 8))
		say(w, id, R_ANNOUNCE);
	w->worker[id].phase = ANNOUNCING;
}

/* A worker is stopped for long, and perhaps has been granted a push. */
static void time_passes(struct world *w)
{
	w->ns += 20 * INT64_C(1000000000);
	for (int id = 0; id < WORKERS; id++)
		w->worker[id].promised = 0;
	CHECK(gate_clock(w->gate, w->ns) > w->ns);
	pump(w);
}

static void worker_step(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	switch (k->phase) {
	case START:
		hello(w, id);
		break;
	case READY:
		go_on(w, id);
		break;
	case MEMBER:
		if (k->sample < 0)
			k->phase = READY;
		else if (w->options.sync != GATE_BSP || k->iteration <= w->iteration) {
			k->sequence++;
			k->promised = 0;
			k->group = k->members = 0;
			if (w->options.bounds_delay && !chance(w, 4))
				announce(w, id);
			else
				send_push(w, id);
		}
		break;
	case GRANTED:
		send_push(w, id);
		break;
	case REFUSED: /* leave the lead, then hello again */
		k->failing = 1;
		say(w, id, R_LEAVE);
		k->phase = LEAVING;
		break;
	default:
		break;
	}
}

static void die(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	if (k->phase == DEAD || k->lives == LIVES)
		return;
	k->phase = DEAD;
	w->connection[k->connection].closing = 1;
}

/* Its connection to the lead breaks; it starts over with hello, and no supervisor sees it. */
static void lose(struct world *w, int id)
{
	struct worker *k = &w->worker[id];

	if (k->phase == DEAD || k->lives + 4 > LIVES)
		return;
	w->connection[k->connection].closing = 1;
	start_life(w, id);
}

/* ---- the supervisor ---- */

static void supervisor_step(struct world *w)
{
	char name[16];

	for (int id = 0; id < WORKERS; id++) {
		struct worker *k = &w->worker[id];
		if (k->phase != DEAD || k->fencing == 1)
			continue;
		if (k->fencing == 0) {
			k->fencing = 1;
			name_of(id, name);
			gate_fence(w->gate, name, w->generation[id],
				   token(w, R_FENCE, id, UINT64_MAX));
			pump(w);
			return;
		}
		w->generation[id] = 0;
		give_back(w, id);
		start_life(w, id);
		return;
	}
}

static void ask_cut(struct world *w)
{
	uint64_t t = token(w, R_CUT, -1, UINT64_MAX);

	if (w->cut_busy == 0)
		w->cut_busy = 1;
	gate_cut(w->gate, t);
	pump(w);
}

static void ask_act(struct world *w)
{
	static const char *const more[] = {"", "action kind=adjust-lr id=w2 scale=0.5\n",
					   "action kind=none\n"};
	char text[80 * WORKERS + 80];
	struct error err;
	int len = snprintf(text, sizeof text, "%s", more[next_random(w) % 3]);
	w->acts++;
	/* With sizes at every barrier others only can be given. */
	for (int id = 0; id < WORKERS; id++)
		len += snprintf(text + len, sizeof text - (size_t)len,
				"action kind=%s id=w%d size=%d accum=1\n",
				w->options.balance ? "adjust-lr scale=1" : "adjust-bs", id, w->acts);

	for (int again = chance(w, 3); again >= 0; again--)
		CHECK(gate_act(w->gate, text, (size_t)len, (uint64_t)w->acts,
			       token(w, R_ACT, -1, UINT64_MAX), &err) == 0);
	pump(w);
}

/* ---- a hand-over ---- */

/* What was under way is gone: read or not, answered or not, nobody knows. Whoever lives asks again
 * on a new connection; the dead are not heard of any more. */
static void ask_again(struct world *w)
{
	static const enum request_kind kind[] = {
		[JOINING] = R_JOIN, [PUSHING] = R_PUSH, [LEAVING] = R_LEAVE,
		[ANNOUNCING] = R_ANNOUNCE};
	char name[16];

	for (uint64_t t = 1; t <= w->tokens; t++)
		w->token[t].open = 0;
	for (size_t i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &w->connection[i];
		c->head = c->tail = 0;
		c->open &= !c->closing;
	}
	w->shards_up = w->request = w->answer = w->save_request = w->save_answer = 0;
	w->asked = 0;
	for (int id = 0; id < WORKERS; id++) {
		struct worker *k = &w->worker[id];
		k->promised = 0;
		if (k->phase == JOINING || k->phase == PUSHING || k->phase == LEAVING ||
		    k->phase == ANNOUNCING)
			say(w, id, kind[k->phase]);
		if (k->fencing == 1) {
			name_of(id, name);
			gate_fence(w->gate, name, w->generation[id],
				   token(w, R_FENCE, id, UINT64_MAX));
			pump(w);
		}
	}
}

static void hand_over(struct world *w)
{
	char *text, *again;
	size_t len, len_again;
	struct error err = {0};

	if (w->still) /* the owner waits */
		return;
	if (gate_save(w->gate, &text, &len, &err) != 0) { /* during a cut it waits */
		CHECK(strstr(err.text, "cut"));
		return;
	}
	gate_free(w->gate);
	CHECK(gate_new(&w->gate, &w->options, &err) == 0);
	if (gate_load(w->gate, text, len, &err) != 0)
		fail_msg("seed %llu: %s: %s", (unsigned long long)seed_now, err.place, err.text);
	CHECK(gate_save(w->gate, &again, &len_again, &err) == 0);
	CHECK(len == len_again && memcmp(text, again, len) == 0);
	free(text);
	free(again);
	w->handed++;
	ask_again(w);
}

/* ---- a new lead ---- */

/* The lead is gone. What is in shardd's hands may still be done. */
static void lead_dies(struct world *w)
{
	struct error err = {0};

	if (w->still)
		return;
	if (w->request && chance(w, 2))
		shardd_settle(w);
	uint64_t iteration = w->note.iteration + w->note.units;
	deaths_all++;
	if (iteration > w->iteration) {
		struct gate_effect held = {.iteration = w->note.iteration,
					   .units = w->note.units,
					   .push = w->held,
					   .pushes = w->note.round ? w->helds : 0};
		behind_all++;
		CHECK(!w->note.round || w->note.round == w->held_round);
		take_apply(w, &held);
	}
	CHECK(iteration == w->iteration);
	w->cut_busy = 0;
	w->seen = w->number = 0; /* numbers are of a term */
	w->options.iteration = iteration;
	w->options.round_first += UINT64_C(1) << 32;
	gate_free(w->gate);
	CHECK(gate_new(&w->gate, &w->options, &err) == 0);
	for (int id = 0; id < WORKERS; id++)
		w->worker[id].act = w->acts;
	ask_again(w);
}

/* ---- shardd's connection ---- */

static void shards_step(struct world *w, int calm)
{
	if (w->asked && chance(w, 2)) {
		answer_hold(w);
		pump(w);
		return;
	}
	if (!w->shards_up) {
		w->shards_up = 1;
		gate_shards(w->gate, 1);
	} else if (!calm && chance(w, 10)) { /* what was under way may have been read or not */
		w->shards_up = w->request = w->answer = w->save_request = w->save_answer = 0;
		gate_shards(w->gate, 0);
	} else if (w->request) {
		shardd_settle(w);
	} else if (w->answer) {
		shardd_answer(w);
	} else if (w->save_request) {
		w->save_request = 0;
		w->save_answer = 1;
		memcpy(w->saved, w->done, sizeof w->saved);
	} else if (w->save_answer) {
		w->save_answer = 0;
		gate_saved(w->gate);
	}
	pump(w);
}

/* Members that owe a push are let go of: they were stopped for long, and move again. */
static void find_silent(const struct gate_member *m, void *arg)
{
	const struct gate_member **found = arg;
	static struct gate_member copy;

	if (m->owes && strcmp(m->worker, (*found)->worker) == 0) {
		copy = *m;
		*found = &copy;
	}
}

static void let_go(struct world *w, int id)
{
	char name[16];
	struct gate_member none = {.worker = name};
	const struct gate_member *found = &none;

	name_of(id, name);

	gate_members(w->gate, find_silent, &found);
	if (found == &none)
		return;
	gate_let_go(w->gate, name, found->generation, "silent");
	pump(w);
}

/* Parameters move to another map, or not, while nothing is settled. */
static void move_step(struct world *w, int calm)
{
	if (w->still == 0 && !calm) {
		w->still = 1;
		gate_still(w->gate);
	} else if (w->still == 2 || (w->still == 1 && !calm && chance(w, 4))) {
		int moved = w->still == 2 && chance(w, 2);
		w->moved += moved;
		w->map += (uint64_t)moved;
		for (size_t i = 0; moved && i < STAGED; i++)
			w->stage[0].item[i].used = w->stage[1].item[i].used = 0;
		w->still = 0;
		gate_go_on(w->gate, moved);
	}
	pump(w);
}

static void one_step(struct world *w, int calm)
{
	uint64_t what = next_random(w) % (calm ? 60 : 70);

	w->ns += (int64_t)(next_random(w) % 1000000);
	(void)gate_clock(w->gate, w->ns);
	pump(w);
	int id = (int)(next_random(w) % WORKERS);

	if (what < 25)
		worker_step(w, id);
	else if (what < 40) {
		uint64_t life = w->worker[id].lives;
		life = life > 1 && chance(w, 3) ? life - 2 : life - 1;
		deliver(w, (uint64_t)id + WORKERS * life);
	} else if (what < 54)
		shards_step(w, calm);
	else if (what < 58)
		supervisor_step(w);
	else if (what < 59)
		move_step(w, calm);
	else if (what < 60) {
		if (w->cut_busy == 2) {
			w->cut_busy = 0;
			gate_cut_over(w->gate);
			pump(w);
		}
	} else if (what < 61)
		die(w, id);
	else if (what < 62) { /* a person says fail */
		if (chance(w, 3)) {
			w->generation[id] = 0;
			give_back(w, id);
		}
	} else if (what < 63)
		ask_cut(w);
	else if (what < 64) {
		gate_servers(w->gate, chance(w, 2));
		pump(w);
	} else if (what < 65)
		ask_act(w);
	else if (what < 66)
		lose(w, id);
	else if (what < 67 && w->options.round_first && chance(w, 2))
		lead_dies(w);
	else if (what < 67)
		hand_over(w);
	else if (what < 68 && chance(w, 3)) { /* half a minute later */
		gate_absent(w->gate);
		pump(w);
	} else if (what < 69)
		time_passes(w);
	else if (chance(w, 3))
		let_go(w, id);
}

static int all_done(const struct world *w)
{
	for (int s = 0; s < SAMPLES; s++) {
		if (!w->applied[s] || !w->done[s])
			return 0;
	}
	return 1;
}

/* Everybody lives and all sockets work: the job must come to its end. */
static void calm_down(struct world *w)
{
	int steps = 0;

	gate_servers(w->gate, 1);
	gate_absent(w->gate);
	pump(w);
	while (!all_done(w)) {
		CHECK(++steps < 200000); /* no deadlock */
		one_step(w, 1);
	}
	for (int i = 0; i < 20000; i++)
		one_step(w, 1);
	for (uint64_t t = 1; t <= w->tokens; t++) {
		/* Open ones: requests that went with their connection, and cuts that are the
		 * owner's to answer. */
		if (w->token[t].open == 1 && w->token[t].kind != R_CUT)
			fail_msg("seed %llu: token %llu of kind %d is not answered",
				 (unsigned long long)seed_now, (unsigned long long)t,
				 (int)w->token[t].kind);
	}
}

static void one_run(struct gate_options options, uint64_t seed, uint64_t *cuts, uint64_t *handed)
{
	static struct world world;
	struct world *w = &world;
	struct error err;

	memset(w, 0, sizeof *w);
	seed_now = w->random = seed;
	options.commit = options.announces = 1;
	options.incarnation = 1;
	options.balance_arg = options.schedule_arg = w;
	options.host_name = host_name;
	w->options = options;
	CHECK(gate_new(&w->gate, &options, &err) == 0);
	for (int s = 0; s < SAMPLES; s++)
		w->todo[w->todo_count++] = s;
	for (int id = 0; id < WORKERS; id++)
		start_life(w, id);
	for (int i = 0; i < 1500 && !all_done(w); i++)
		one_step(w, 0);
	calm_down(w);
	*cuts += (uint64_t)w->cut_done;
	*handed += (uint64_t)w->handed;
	moves_all += (uint64_t)w->moved;
	stale_all += gate_delays(w->gate)->dropped;
	far_all += gate_far_groups(w->gate);
	CHECK(!options.bounds_delay || gate_delays(w->gate)->most <= options.delay_max);
	gate_free(w->gate);
}

static void runs(struct gate_options options)
{
	uint64_t cuts = 0, handed = 0;

	halves_all = moves_all = stale_all = spared_all = waits_all = groups_all = 0;
	far_all = deaths_all = behind_all = 0;
	for (uint64_t seed = 1; seed <= (uint64_t)ROUNDS(400); seed++)
		one_run(options, seed, &cuts, &handed);
	/* the events did happen */
	uint64_t part = (uint64_t)rounds_part();
	assert_true(cuts > 50 / part && handed > 500 / part && halves_all > 50 / part);
	assert_true(moves_all > 200 / part);
	assert_true(!options.balance || told_all > 1000);
	assert_true((stale_all > 0) == (options.bounds_delay != 0));
	assert_true((spared_all > 0) == (options.bounds_delay != 0));
	assert_true((waits_all > 0) == (options.schedule != NULL));
	assert_true(options.schedule ? groups_all > 300 / part : groups_all == 0);
	assert_true(options.schedule ? far_all > 40 / part : far_all == 0);
	assert_true(options.round_first ? deaths_all > 500 / part && behind_all > 20 / part
					: deaths_all == 0);
}

static void bsp(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_BSP});
}

static void bsp_balance(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_BSP, .balance = plan, .expect = 3});
}

static void bsp_balance_backup(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_BSP, .balance = plan, .backup = 1});
}

static void bsp_backup(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_BSP, .backup = 1});
}

static void ssp(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_SSP, .staleness = 1});
}

static void asp(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_ASP});
}

static void asp_delay(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_ASP, .bounds_delay = 1, .delay_max = 1});
}

static void ssp_delay(void **state)
{
	(void)state;
	runs((struct gate_options){
		.sync = GATE_SSP, .staleness = 1, .bounds_delay = 1, .delay_max = 2});
}

static void asp_schedule(void **state)
{
	(void)state;
	runs((struct gate_options){
		.sync = GATE_ASP, .bounds_delay = 1, .delay_max = 2, .schedule = schedule});
}

static void ssp_schedule(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_SSP, .staleness = 2, .bounds_delay = 1,
				   .delay_max = 5, .schedule = schedule});
}

static void new_leads_bsp(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_BSP, .backup = 1, .round_first = 1});
}

static void new_leads_ssp(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_SSP, .staleness = 1, .round_first = 1});
}

static void new_leads_asp(void **state)
{
	(void)state;
	runs((struct gate_options){.sync = GATE_ASP, .bounds_delay = 1, .delay_max = 2,
				   .schedule = schedule, .round_first = 1});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_leads_bsp),
		cmocka_unit_test(new_leads_ssp),
		cmocka_unit_test(new_leads_asp),
		cmocka_unit_test(bsp),
		cmocka_unit_test(bsp_backup),
		cmocka_unit_test(bsp_balance),
		cmocka_unit_test(bsp_balance_backup),
		cmocka_unit_test(ssp),
		cmocka_unit_test(asp),
		cmocka_unit_test(asp_delay),
		cmocka_unit_test(ssp_delay),
		cmocka_unit_test(asp_schedule),
		cmocka_unit_test(ssp_schedule),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * shards: shardd(8) as it is, and workers that take its shards, on the simulated machine (kernel.h). Workers die, come
 * back, come twice, stand still and go on when they were given up, lose connections; shardd is killed, stopped, also the
 * child that writes its journal anew, and the power fails; the disk is full for a while. Which of this happens in a run, and how often, its seed says.
 *
 * Never: a row that was acknowledged is handed out again, or a row is in two hands; a generation that has ended changes
 * anything; all wait and nobody has a deadline. In the end each row is in the model once for each epoch, and what the
 * workers were told is what the journal says.
 *
 * How it is called: sim_main() in kernel.h.
 */
#include "tests/sim/kernel.h"
#include "tests/sim/model.h"

#include "base/clock.h"
#include "record/record.h"
#include "wire/call.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int shardd_main(int argc, char **argv);

#define SOCKET "/run/shardd"
#define JOURNAL "/data/journal"
#define WORKERS 4
#define ROWS_MAX 400
#define EPOCHS_MAX 3
#define PIECES_MAX 3
#define PROCESSES 4097
#define DOUBT_SECONDS 15
#define HARMS_MAX 300
#define HELD_MAX 64 /* and what lost answers told */
#define END_SECONDS 6000.0 /* a run that takes longer after the last fault does not end */

struct facts {
	uint64_t rows, epochs, batch, batches, lease, retries, shuffled;
	int is_compact;
	pid_t shardd, worker[2 * WORKERS];
	uint64_t dead[WORKERS];  /* generations up to this one have ended: someone was told so */
	uint64_t begun[WORKERS]; /* the newest one that a worker was told */
	/* Whether somebody may have ended its generation, and we do not know yet: so many have asked for it and have no
	 * answer; what was asked on a connection that is lost may arrive until then. */
	int ends[WORKERS];
	double in_doubt[WORKERS];
	uint64_t stirred[WORKERS]; /* how often somebody asked for it */
	signed char asks_end[PROCESSES]; /* of whom this process has asked: its number from 1 on */
	uint64_t done[EPOCHS_MAX][ROWS_MAX]; /* the step at which a worker was told so */
	signed char hand[EPOCHS_MAX][ROWS_MAX]; /* whose: a worker's number from 1 on */
	uint64_t taken[EPOCHS_MAX][ROWS_MAX];   /* the step at which it was told so */
	int over[2 * WORKERS];
	int calm; /* 0: not yet; then 1, and 1 for each shardd since */
};

static struct facts *facts;

enum fault {
	FAULT_KILL_WORKER, FAULT_STOP_WORKER, FAULT_TWIN, FAULT_FAIL, FAULT_KILL_SHARDD, FAULT_KILL_SYNCING, FAULT_END_SHARDD,
	FAULT_STOP_SHARDD, FAULT_COMPACTION, FAULT_POWER, FAULT_CONNECTIONS, FAULT_DISK, FAULTS
};

/* ---- a worker ---- */

struct held {
	uint64_t id, epoch, begin, first, count; /* rows first .. first+count-1 are still to be done */
	int is_told; /* that all of it is done was sent, and no answer has come */
	double asked; /* when we asked for it; its lease has not begun before; 0: not known */
};

struct taker {
	int number; /* of its name */
	int place;  /* of its process */
	char name[8];
	struct call *call;
	struct record record;
	struct error err;
	uint64_t generation, stirred;
	uint64_t asked; /* the step of the last request */
	struct held held[HELD_MAX], listed[HELD_MAX];
	int count, listed_count;
};

static signed char *hand_of(const struct held *h, uint64_t i)
{
	return &facts->hand[h->epoch][h->first + i];
}

static int ask(struct taker *t, struct record_out *o, double wait);

static int is_certain(int number)
{
	return facts->ends[number] == 0 && sim_seconds() > facts->in_doubt[number];
}

/* Somebody has no answer, and gets none. */
static void leave_in_doubt(pid_t pid)
{
	int number = facts->asks_end[pid] - 1;
	if (number < 0)
		return;
	facts->asks_end[pid] = 0;
	facts->ends[number]--;
	facts->in_doubt[number] = sim_seconds() + DOUBT_SECONDS;
}

/* What the worker had comes back when this arrives. */
static void hands_empty(int number);

static int ask_end(struct taker *t, struct record_out *o)
{
	pid_t self = getpid();
	if (self >= PROCESSES)
		sim_fail("too many processes in one run");
	hands_empty(t->number);
	facts->asks_end[self] = (signed char)(t->number + 1);
	facts->ends[t->number]++;
	if (!ask(t, o, 0)) {
		leave_in_doubt(self);
		return 0;
	}
	facts->asks_end[self] = 0;
	facts->ends[t->number]--;
	hands_empty(t->number);
	return 1;
}

static void hands_empty(int number)
{
	for (uint64_t e = 0; e < facts->epochs; e++)
		for (uint64_t i = 0; i < facts->rows; i++)
			if (facts->hand[e][i] == number + 1)
				facts->hand[e][i] = 0;
	facts->stirred[number]++;
}

/* The first so many rows of it are in the model: shardd has said so. */
static void rows_done(const struct taker *t, struct held *h, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t *done = &facts->done[h->epoch][h->first + i];
		/* A lease may have ended: `done` is granted, and about what is left of the piece. Who has the rest
		 * may not have heard of it. */
		if (facts->lease > 0 && (*hand_of(h, i) != t->number + 1 || sim_seconds() >= h->asked + (double)facts->lease))
			continue;
		if (*done && facts->lease == 0)
			sim_fail("row %llu of epoch %llu is done twice, now by %s", (unsigned long long)(h->first + i),
				 (unsigned long long)h->epoch, t->name);
		*done = sim_steps();
		*hand_of(h, i) = 0;
	}
	h->first += count;
	h->count -= count;
}

/* A piece is in our hand, as shardd says: is that possible? */
static void read_piece(struct taker *t, struct held *h)
{
	const struct record *r = &t->record;
	uint64_t begin, length, skip = 0, take;
	*h = (struct held){0};
	if (record_u64(r, "id", 0, UINT64_MAX, &h->id, &t->err) != 0 ||
	    record_u64(r, "epoch", 0, facts->epochs - 1, &h->epoch, &t->err) != 0 ||
	    record_u64(r, "begin", 0, facts->rows - 1, &begin, &t->err) != 0 ||
	    record_u64(r, "length", 1, facts->rows - begin, &length, &t->err) != 0 ||
	    record_u64_opt(r, "skip", 0, length - 1, &skip, &t->err) != 0)
		sim_fail("%s", t->err.text);
	take = length - skip;
	if (record_u64_opt(r, "take", 1, length - skip, &take, &t->err) != 0)
		sim_fail("%s", t->err.text);
	h->begin = begin;
	h->first = begin + skip;
	h->count = take;
	for (uint64_t i = 0; i < take; i++) {
		int whose = *hand_of(h, i);
		uint64_t done = facts->done[h->epoch][h->first + i], *at = &facts->taken[h->epoch][h->first + i];
		if (done && done < t->asked)
			sim_fail("row %llu of epoch %llu was done, and %s gets it", (unsigned long long)(h->first + i),
				 (unsigned long long)h->epoch, t->name);
		if (t->stirred != facts->stirred[t->number])
			continue;
		if (facts->lease == 0 && whose > 0 && whose != t->number + 1 && *at < t->asked && is_certain(whose - 1))
			sim_fail("row %llu of epoch %llu is in the hand of w%d, and %s gets it",
				 (unsigned long long)(h->first + i), (unsigned long long)h->epoch, whose - 1, t->name);
		*hand_of(h, i) = (signed char)(t->number + 1);
		*at = sim_steps();
	}
}

static int is_ok(const struct taker *t)
{
	return record_is(&t->record, "ok");
}

/* Sends a request and waits for its answer; pieces in it are in t->listed. 1: t->record ends it. 0: the connection is
 * lost, and nobody knows whether it was carried out, or will be. */
static int ask(struct taker *t, struct record_out *o, double wait)
{
	double until = clock_mono() + wait + 5;
	t->listed_count = 0;
	t->asked = sim_steps();
	if (call_record(t->call, o, NULL, 0, &t->err) == 0)
		while (call_receive_within(t->call, &t->record, until - clock_mono(), &t->err) == 0) {
			if (is_ok(t) || record_is(&t->record, "err"))
				return 1;
			if (record_is(&t->record, "shard") && t->listed_count < HELD_MAX)
				read_piece(t, &t->listed[t->listed_count++]);
		}
	sim_trace("lost: %s", t->err.text);
	call_close(t->call);
	t->call = NULL;
	return 0;
}

/* The same in our generation, which must not be granted if somebody was told before that it has ended. */
static int ask_in_force(struct taker *t, struct record_out *o, double wait)
{
	int was_dead = t->generation <= facts->dead[t->number];
	int result = ask(t, o, wait);
	if (result && is_ok(t) && was_dead)
		sim_fail("generation %llu of %s has ended, and its request is granted",
			 (unsigned long long)t->generation, t->name);
	return result;
}

static void pause_a_while(void)
{
	clock_sleep(0.001 + (double)sim_random(50) / 1000);
}

/* A new generation. */
static void begin(struct taker *t)
{
	for (;;) {
		t->count = 0;
		if (!t->call && call_open(&t->call, SOCKET, 0, 2, &t->err) != 0) {
			pause_a_while();
			continue;
		}
		uint64_t before = facts->begun[t->number];
		if (!ask_end(t, RECORD("hello", F("worker", t->name))))
			continue;
		if (!is_ok(t)) { /* a full disk */
			pause_a_while();
			continue;
		}
		if (record_u64(&t->record, "generation", 1, UINT64_MAX, &t->generation, &t->err) != 0)
			sim_fail("%s", t->err.text);
		if (t->generation <= before)
			sim_fail("generation %llu of %s is given twice", (unsigned long long)t->generation, t->name);
		if (t->generation > facts->begun[t->number]) {
			facts->begun[t->number] = t->generation;
			facts->dead[t->number] = t->generation - 1 > facts->dead[t->number] ? t->generation - 1
											     : facts->dead[t->number];
		}
		t->stirred = facts->stirred[t->number];
		return;
	}
}

/* What shardd lists is in our hand, no more and no less. What we have told it and it does not list, it has heard. */
static void compare(struct taker *t)
{
	for (int i = 0; i < t->count; i++) {
		struct held *h = &t->held[i];
		struct held *l = t->listed;
		while (l < t->listed + t->listed_count && l->id != h->id)
			l++;
		int is_listed = l < t->listed + t->listed_count;
		if (is_listed && (l->epoch != h->epoch || l->first < h->first || l->first + l->count != h->first + h->count))
			sim_fail("piece %llu of %s has other rows than before", (unsigned long long)h->id, t->name);
		if (is_listed) {
			l->is_told = h->is_told; /* it may still be under way */
			l->asked = h->asked;
			rows_done(t, h, l->first - h->first);
		}
		if (!is_listed && h->is_told && facts->lease == 0)
			rows_done(t, h, h->count);
		if (!is_listed && !h->is_told && facts->lease == 0 && t->generation > facts->dead[t->number] &&
			 t->stirred == facts->stirred[t->number] && is_certain(t->number))
			sim_fail("piece %llu of %s is gone", (unsigned long long)h->id, t->name);
	}
	memcpy(t->held, t->listed, sizeof t->held);
	t->count = t->listed_count;
}

/* Our generation, on a new connection or the same. */
static void resume(struct taker *t)
{
	for (;;) {
		if (!t->call && call_open(&t->call, SOCKET, 0, 2, &t->err) != 0) {
			pause_a_while();
			continue;
		}
		if (!ask_in_force(t, RECORD("hello", F("worker", t->name), F("generation", t->generation)), 0))
			continue;
		if (is_ok(t))
			compare(t);
		else
			begin(t);
		return;
	}
}

/* The connection is lost, or our request was refused. */
static void again(struct taker *t)
{
	if (sim_chance(0.2))
		begin(t);
	else
		resume(t);
}

static void drop(struct taker *t, struct held *h)
{
	*h = t->held[--t->count];
}

static int is_overlap(const struct held *a, const struct held *b)
{
	return a->epoch == b->epoch && a->first < b->first + b->count && b->first < a->first + a->count;
}

static void get(struct taker *t)
{
	double wait = sim_chance(0.5) ? (double)sim_random(3000) / 1000 : 0;
	uint64_t max = sim_chance(0.5) ? 1 + sim_random(20) : facts->rows;
	double asked = sim_seconds();
	if (!ask_in_force(t, RECORD("get", F("worker", t->name), F("generation", t->generation), F("max", max),
				    F_SECONDS("wait", wait)), wait)) {
		again(t);
		return;
	}
	const char *state = record_get(&t->record, "state"), *held = record_get(&t->record, "held");
	if (!is_ok(t)) {
		pause_a_while();
		again(t);
	} else if (t->listed_count > 0) {
		for (int i = t->count; i-- > 0;) /* its lease has ended, and a part of it is ours again */
			if (is_overlap(&t->held[i], &t->listed[0]))
				drop(t, &t->held[i]);
		t->listed[0].asked = asked;
		t->held[t->count++] = t->listed[0];
	} else if (state && strcmp(state, "end") == 0 && strcmp(held, "0") == 0) {
		facts->over[t->place] = 1;
	} else {
		/* What an answer told us that got lost may be what all wait for. */
		pause_a_while();
		if (sim_chance(0.2))
			resume(t);
	}
}

static void give_back(struct taker *t, struct held *h)
{
	for (uint64_t i = 0; i < h->count; i++)
		*hand_of(h, i) = 0;
	if (!ask_in_force(t, RECORD("back", F("worker", t->name), F("generation", t->generation), F("id", h->id),
				    sim_chance(0.3) ? F("failed", 1) : F_NONE), 0))
		begin(t); /* it may still be carried out */
	else if (is_ok(t))
		drop(t, h);
	else
		again(t);
}

static void tell_progress(struct taker *t, struct held *h)
{
	uint64_t count = 1 + sim_random(h->count);
	h->is_told |= count == h->count;
	/* upto= counts from the first row of the piece as it was handed out, which is told as begin= */
	if (!ask_in_force(t, RECORD("progress", F("worker", t->name), F("generation", t->generation), F("id", h->id),
				    F("upto", h->first - h->begin + count)), 0) || !is_ok(t)) {
		again(t);
		return;
	}
	rows_done(t, h, count);
	if (h->count == 0)
		drop(t, h);
}

static void tell_done(struct taker *t, struct held *h)
{
	h->is_told = 1;
	if (!ask_in_force(t, RECORD("done", F("worker", t->name), F("generation", t->generation), F("id", h->id)), 0) ||
	    !is_ok(t)) {
		again(t);
		return;
	}
	rows_done(t, h, h->count);
	drop(t, h);
}

static int worker_main(int argc, char **argv)
{
	struct taker *t = calloc(1, sizeof *t);
	if (!t || argc != 3)
		return 1;
	t->number = atoi(argv[1]);
	t->place = atoi(argv[2]);
	snprintf(t->name, sizeof t->name, "w%d", t->number);
	begin(t);
	while (!facts->over[t->place]) {
		if (t->count < PIECES_MAX && (t->count == 0 || sim_chance(0.3))) {
			get(t);
			continue;
		}
		struct held *h = &t->held[sim_random((uint64_t)t->count)];
		pause_a_while();
		if (sim_chance(0.05))
			give_back(t, h);
		else if (sim_chance(0.3))
			tell_progress(t, h);
		else if (facts->lease > 0 && sim_chance(0.3))
			(void)(ask_in_force(t, RECORD("renew", F("worker", t->name), F("generation", t->generation),
						      F("id", h->id)), 0) && is_ok(t) ? 0 : (again(t), 0));
		else
			tell_done(t, h);
	}
	if (t->call && sim_chance(0.5))
		(void)ask_end(t, RECORD("bye", F("worker", t->name), F("generation", t->generation)));
	call_close(t->call);
	return 0;
}

/* ---- who reports deaths ---- */

static int fail_main(int argc, char **argv)
{
	struct taker *t = calloc(1, sizeof *t);
	if (!t || argc != 2)
		return 1;
	t->number = atoi(argv[1]);
	snprintf(t->name, sizeof t->name, "w%d", t->number);
	for (int tries = 0; tries < 5; tries++) {
		if (!t->call && call_open(&t->call, SOCKET, 1, 2, &t->err) != 0)
			continue;
		uint64_t begun = facts->begun[t->number];
		if (!ask_end(t, RECORD("fail", F("worker", t->name))) || !is_ok(t)) {
			pause_a_while();
			continue;
		}
		if (facts->dead[t->number] < begun)
			facts->dead[t->number] = begun;
		break;
	}
	call_close(t->call);
	return 0;
}

static void report_death(int number)
{
	char text[8], *argv[] = {"fail", text, NULL};
	snprintf(text, sizeof text, "%d", number);
	sim_start("fail", fail_main, 2, argv);
}

/* ---- outside: starts all, and does them harm ---- */

static void start_shardd(void)
{
	char rows[24], batch[24], batches[24], epochs[24], lease[24], retries[24];
	char *argv[] = {"shardd", "-s", SOCKET, "-j", JOURNAL, "-n", rows, "-b", batch, "-m", batches, "-e", epochs,
			"--lease", lease, "--retries", retries, "--shuffle", NULL, "--compact", facts->is_compact ? "2K" : "64M", NULL};
	static const char *const shuffle[] = {"none", "shards", "samples"};
	snprintf(rows, sizeof rows, "%llu", (unsigned long long)facts->rows);
	snprintf(epochs, sizeof epochs, "%llu", (unsigned long long)facts->epochs);
	snprintf(lease, sizeof lease, "%llu", (unsigned long long)facts->lease);
	snprintf(retries, sizeof retries, "%llu", (unsigned long long)facts->retries);
	snprintf(batch, sizeof batch, "%llu", (unsigned long long)facts->batch);
	snprintf(batches, sizeof batches, "%llu", (unsigned long long)facts->batches);
	argv[18] = (char *)(uintptr_t)shuffle[facts->shuffled];
	facts->shardd = sim_start("shardd", shardd_main, 21, argv);
}

static void start_worker(int place)
{
	char name[24], number[12], at[12], *argv[] = {"worker", number, at, NULL};
	snprintf(name, sizeof name, "w%d%s", place % WORKERS, place < WORKERS ? "" : "-twin");
	snprintf(number, sizeof number, "%d", place % WORKERS);
	snprintf(at, sizeof at, "%d", place);
	facts->worker[place] = sim_start(name, worker_main, 3, argv);
}

static void kill_worker(int place)
{
	leave_in_doubt(facts->worker[place]);
	sim_signal(facts->worker[place], SIGKILL);
}

static void keep_alive(void)
{
	if (!sim_is_alive(facts->shardd) && (facts->calm || sim_chance(0.3))) {
		int status = facts->shardd ? sim_status(facts->shardd) : 0;
		if (status == ERROR_DATA || (status != 0 && facts->calm > 1))
			sim_fail("shardd ends with status %d", status);
		facts->calm += facts->calm > 0;
		start_shardd();
	}
	for (int i = 0; i < WORKERS; i++)
		if (!sim_is_alive(facts->worker[i]) && !facts->over[i] && (facts->calm || sim_chance(0.3)))
			start_worker(i);
}

static void harm(enum fault fault)
{
	int i = (int)sim_random(WORKERS);
	switch (fault) {
	case FAULT_KILL_WORKER:
		kill_worker(i);
		if (sim_chance(0.7))
			report_death(i);
		break;
	case FAULT_STOP_WORKER:
		sim_stop(facts->worker[i], (double)sim_random(20000) / 1000);
		if (sim_chance(0.5))
			report_death(i);
		break;
	case FAULT_TWIN:
		if (!sim_is_alive(facts->worker[WORKERS + i]))
			start_worker(WORKERS + i);
		else
			kill_worker(WORKERS + i);
		break;
	case FAULT_FAIL:
		report_death(i);
		break;
	case FAULT_KILL_SHARDD:
		sim_signal(facts->shardd, SIGKILL);
		break;
	case FAULT_KILL_SYNCING:
		sim_signal(facts->shardd, SIGKILL);
		start_shardd();
		sim_end_at_sync(facts->shardd, 1 + (unsigned)sim_random(8));
		break;
	case FAULT_END_SHARDD:
		sim_signal(facts->shardd, SIGTERM);
		break;
	case FAULT_STOP_SHARDD:
		sim_stop(facts->shardd, (double)sim_random(8000) / 1000);
		break;
	case FAULT_COMPACTION:
		for (i = 0; facts->is_compact && i < 100 && !sim_forked(facts->shardd); i++)
			clock_sleep(0.001);
		if (sim_chance(0.5))
			sim_signal(sim_forked(facts->shardd), SIGKILL);
		else
			sim_stop(sim_forked(facts->shardd), (double)sim_random(8000) / 1000);
		break;
	case FAULT_POWER:
		sim_cut_power();
		for (i = 0; i < WORKERS; i++)
			if (!is_certain(i))
				hands_empty(i);
		memset(facts->ends, 0, sizeof facts->ends);
		memset(facts->in_doubt, 0, sizeof facts->in_doubt);
		memset(facts->asks_end, 0, sizeof facts->asks_end);
		break;
	case FAULT_CONNECTIONS:
		sim_cut_connections(sim_chance(0.5) ? facts->shardd : facts->worker[i]);
		break;
	case FAULT_DISK:
		sim_fill_disk(sim_chance(0.5));
		break;
	case FAULTS:
		break;
	}
}

static int all_over(void)
{
	for (int i = 0; i < WORKERS; i++)
		if (!facts->over[i])
			return 0;
	return 1;
}

/* Held pieces are let go. */
static void release_all(struct taker *t)
{
	if (!t->call && call_open(&t->call, SOCKET, 1, 2, &t->err) != 0)
		return;
	t->stirred = UINT64_MAX; /* they are in nobody's hand */
	if (!ask(t, RECORD("list", F("state", "held")), 0))
		return;
	for (int i = t->listed_count; i-- > 0;) {
		uint64_t id = t->listed[i].id;
		int count = t->listed_count;
		if (!ask(t, RECORD("release", F("id", id)), 0))
			return;
		t->listed_count = count;
	}
}

static void outside(void *arg)
{
	struct taker *t = calloc(1, sizeof *t);
	struct sim_weather weather;
	(void)arg;
	memset(facts, 0, sizeof *facts);
	if (!t)
		return;
	snprintf(t->name, sizeof t->name, "people");
	facts->rows = 1 + sim_random(ROWS_MAX);
	facts->epochs = 1 + sim_random(EPOCHS_MAX);
	facts->batch = 1 + sim_random(16);
	facts->batches = 1 + sim_random(8);
	facts->lease = sim_chance(0.3) ? 1 + sim_random(10) : 0;
	facts->retries = sim_chance(0.3) ? 1 + sim_random(4) : 0;
	facts->shuffled = sim_random(3);
	sim_weather(&weather, FAULTS, 0.5);
	facts->is_compact = sim_chance(0.25); /* a fork takes as long as a hundred steps */
	uint64_t pause = sim_chance(0.5) ? 100 : 2000;
	uint64_t until = 500 + sim_random(20000), harms = 0;
	start_shardd();
	for (int i = 0; i < WORKERS; i++)
		start_worker(i);
	while (sim_steps() < until && harms < HARMS_MAX && !all_over()) {
		clock_sleep((double)(1 + sim_random(pause)) / 1000);
		keep_alive();
		int fault = sim_weather_harm(&weather);
		if (fault >= 0) {
			harm((enum fault)fault);
			harms++;
		}
	}
	sim_be_calm();
	sim_trace("no more faults");
	facts->calm = 1;
	for (int i = WORKERS; i < 2 * WORKERS; i++)
		kill_worker(i);
	double began = clock_mono();
	while (!all_over()) {
		keep_alive();
		release_all(t);
		clock_sleep(1);
		if (clock_mono() > began + END_SECONDS)
			sim_fail("the rows are not all done %.0f s after the last fault", END_SECONDS);
	}
	model_has_all(JOURNAL, facts->rows, facts->epochs);
}

int main(int argc, char **argv)
{
	facts = sim_shared(sizeof *facts);
	return sim_main(argc, argv, outside);
}

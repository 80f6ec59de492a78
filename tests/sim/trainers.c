/*
 * trainers: shardd(8), the lead (ps-server --lead-only) and agents (lib/agent) as they are, with trainers that count
 * rows, on the simulated machine (kernel.h). Agents and trainers die, stand still and go on when they were given up,
 * connections break, shardd and the lead are killed or stand still.
 *
 * Never: the rows of a step are acknowledged twice, or all wait and nobody has a deadline. In the end each row is in the
 * model once for each epoch, and a trainer has trained it: one whose step was acknowledged, or was not answered when it
 * ended.
 *
 * How it is called: sim_main() in kernel.h.
 */
#include "tests/sim/command.h"
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
int ps_server_main(int argc, char **argv);

#define SHARDS "/run/shardd"
#define LEAD "/run/lead"
#define JOURNAL "/data/journal"
#define AGENTS 3
#define ROWS_MAX 300
#define EPOCHS_MAX 3
#define HARMS_MAX 100
#define END_SECONDS 6000.0

static struct facts {
	uint64_t rows, epochs, batch, size, batches, lease, sync, shuffled;
	pid_t shardd, lead, finish, agent[AGENTS];
	unsigned char said[EPOCHS_MAX][ROWS_MAX], acknowledged[EPOCHS_MAX][ROWS_MAX];
	int over[AGENTS], calm;
	uint64_t steps;
} *facts;

enum fault {
	FAULT_KILL_AGENT, FAULT_KILL_TRAINER, FAULT_STOP_AGENT, FAULT_STOP_TRAINER, FAULT_END_AGENT, FAULT_FAIL,
	FAULT_KILL_SHARDD, FAULT_END_SHARDD, FAULT_STOP_SHARDD, FAULT_KILL_LEAD, FAULT_STOP_LEAD, FAULT_CONNECTIONS, FAULTS
};

/* ---- a trainer ---- */

struct range {
	uint64_t begin, length;
};

static void count(unsigned char counts[EPOCHS_MAX][ROWS_MAX], uint64_t epoch, const struct range *range, int ranges)
{
	for (int i = 0; i < ranges; i++)
		for (uint64_t k = 0; k < range[i].length; k++)
			counts[epoch][range[i].begin + k]++;
}

int trainer_main(int argc, char **argv)
{
	struct words *w = calloc(1, sizeof *w);
	(void)argc;
	(void)argv;
	if (!w)
		return 71;
	for (;;) {
		struct range range[64];
		int ranges = 0, is_over = 0;
		uint64_t epoch = 0;
		if (!words_say("next\n"))
			return 1;
		for (;;) {
			if (!words_hear(w))
				return 1;
			const struct record *r = &w->record;
			if (record_is(r, "err"))
				sim_fail("next is answered err: %s", r->text ? r->text : "");
			if (record_is(r, "batch") && record_u64_opt(r, "epoch", 0, facts->epochs - 1, &epoch, &w->err) != 0)
				sim_fail("%s", w->err.text);
			struct range *at = &range[ranges];
			if (record_is(r, "range") &&
			    (ranges == 64 || record_u64(r, "begin", 0, facts->rows - 1, &at->begin, &w->err) != 0 ||
			     record_u64(r, "length", 1, facts->rows - at->begin, &at->length, &w->err) != 0))
				sim_fail("%s", w->err.text);
			ranges += record_is(r, "range");
			if (record_is(r, "ok")) {
				const char *state = record_get(r, "state");
				is_over = state && strcmp(state, "end") == 0;
				break;
			}
		}
		if (is_over)
			return 0;
		if (ranges == 0)
			continue;
		clock_sleep((double)sim_random(20) / 1000);
		count(facts->said, epoch, range, ranges);
		if (!words_say("step loss=0.5\n") || !words_hear(w))
			return 1;
		if (!record_is(&w->record, "ok"))
			sim_fail("step is answered %s: %s", w->record.type, w->record.text ? w->record.text : "");
		count(facts->acknowledged, epoch, range, ranges);
		facts->steps++;
		for (int i = 0; i < ranges; i++)
			for (uint64_t k = range[i].begin; k < range[i].begin + range[i].length; k++)
				if (facts->acknowledged[epoch][k] > 1)
					sim_fail("row %llu of epoch %llu is acknowledged twice", (unsigned long long)k,
						 (unsigned long long)epoch);
	}
}

/* ---- an agent, whose command is that trainer ---- */

static int agent_main(int argc, char **argv)
{
	int i = atoi(argv[argc - 1]), stopped;
	char *command[] = {argv[0], NULL};
	struct agent_options o = {.meter = {.id = argv[0], .load_root = "", .report_every = 5, .report_seconds = 1},
				  .shards = SHARDS,
				  .lead = LEAD,
				  .command = {.argv = command, .id = argv[0], .input = -1, .output = -1},
				  .memory = {.worker = argv[0], .load_root = ""},
				  .batch = facts->batch,
				  .ahead = 1 + sim_random(4),
				  .jobs = 1,
				  .grace_seconds = 10,
				  .wait_seconds = 60,
				  .answer_seconds = 600};
	int status = command_agent(&o, 0, &stopped);
	if (status == 0 && !stopped)
		facts->over[i] = 1;
	return status;
}

/* ---- outside ---- */

/* One request of the supervisor; the closing record in r. */
static int ask(const char *path, const char *line, struct record *r)
{
	struct call *c;
	struct error err;
	char text[160];
	if (call_open(&c, path, 1, 2, &err) != 0)
		return -1;
	int len = snprintf(text, sizeof text, "%s\n", line), result = call_request(c, text, (size_t)len, r, NULL, NULL, &err);
	call_close(c);
	return result;
}

/* As paceline-protocol(7) says, Deaths. */
static int fail_main(int argc, char **argv)
{
	struct record *r = calloc(1, sizeof *r);
	char line[100];
	(void)argc;
	for (int tries = 0; r && tries < 10; tries++) {
		snprintf(line, sizeof line, "who worker=%s", argv[1]);
		int result = ask(SHARDS, line, r);
		if (result == CALL_ERR)
			return 0; /* it has never said hello */
		if (result != CALL_OK)
			continue;
		snprintf(line, sizeof line, "fence worker=%s generation=%s", argv[1], record_get(r, "generation"));
		(void)ask(LEAD, line, r);
		snprintf(line, sizeof line, "fail worker=%s", argv[1]);
		if (ask(SHARDS, line, r) == CALL_OK)
			return 0;
	}
	return 1;
}

static void add_stat(const struct record *r, void *is_over)
{
	const char *todo = record_get(r, "todo"), *doing = record_get(r, "doing");
	*(int *)is_over |= todo && doing && strcmp(todo, "0") == 0 && strcmp(doing, "0") == 0;
}

/* Workers may go when all is done. */
static int finish_main(int argc, char **argv)
{
	struct record *r = calloc(1, sizeof *r);
	struct call *c;
	struct error err;
	int is_over = 0;
	(void)argc;
	(void)argv;
	if (!r || call_open(&c, SHARDS, 1, 2, &err) != 0)
		return 1;
	if (call_request(c, "stat\n", 5, r, add_stat, &is_over, &err) == CALL_OK && is_over)
		(void)ask(LEAD, "finish", r);
	call_close(c);
	return 0;
}

static void report_death(int i)
{
	char name[8], *argv[] = {"fail", name, NULL};
	snprintf(name, sizeof name, "w%d", i);
	sim_start("fail", fail_main, 2, argv);
}

static void start_shardd(void)
{
	char rows[24], size[24], batches[24], epochs[24], lease[24];
	static const char *const shuffle[] = {"none", "shards"};
	snprintf(rows, sizeof rows, "%llu", (unsigned long long)facts->rows);
	snprintf(epochs, sizeof epochs, "%llu", (unsigned long long)facts->epochs);
	snprintf(lease, sizeof lease, "%llu", (unsigned long long)facts->lease);
	snprintf(size, sizeof size, "%llu", (unsigned long long)facts->size);
	snprintf(batches, sizeof batches, "%llu", (unsigned long long)facts->batches);
	char *argv[] = {"shardd", "-s", SHARDS, "-j", JOURNAL, "-n", rows, "-b", size, "-m", batches, "-e", epochs, "--lease", lease,
			"--retries", "0", "--settle-only", "--apart", "--shuffle",
			(char *)(uintptr_t)shuffle[facts->shuffled], NULL};
	facts->shardd = sim_start("shardd", shardd_main, 21, argv);
}

static void start_lead(void)
{
	static const char *const sync[] = {"bsp", "ssp:2", "asp"};
	char *argv[] = {"ps-server", "-s", LEAD, "--id", "lead", "--lead-only", "--shards", SHARDS, "--sync",
			(char *)(uintptr_t)sync[facts->sync], NULL};
	facts->lead = sim_start("lead", ps_server_main, 10, argv);
}

static void start_agent(int i)
{
	char name[8], number[12], *argv[] = {name, number, NULL};
	snprintf(name, sizeof name, "w%d", i);
	snprintf(number, sizeof number, "%d", i);
	facts->agent[i] = sim_start(name, agent_main, 2, argv);
}

static void keep_alive(void)
{
	if (!sim_is_alive(facts->shardd) && (facts->calm || sim_chance(0.3))) {
		if (facts->shardd && (sim_status(facts->shardd) == ERROR_DATA || facts->calm > 1))
			sim_fail("shardd ends with status %d", sim_status(facts->shardd));
		facts->calm += facts->calm > 0;
		start_shardd();
	}
	if (!sim_is_alive(facts->lead) && (facts->calm || sim_chance(0.3)))
		start_lead();
	char *finish[] = {"finish", NULL};
	if (!sim_is_alive(facts->finish))
		facts->finish = sim_start("finish", finish_main, 1, finish);
	for (int i = 0; i < AGENTS; i++)
		if (!sim_is_alive(facts->agent[i]) && !facts->over[i] && (facts->calm || sim_chance(0.3))) {
			if (facts->agent[i])
				report_death(i);
			start_agent(i);
		}
}

static void harm(enum fault fault)
{
	int i = (int)sim_random(AGENTS);
	switch (fault) {
	case FAULT_KILL_AGENT: sim_signal(facts->agent[i], SIGKILL); break;
	case FAULT_KILL_TRAINER: sim_signal(command_pid(i), SIGKILL); break;
	case FAULT_STOP_AGENT: sim_stop(facts->agent[i], (double)sim_random(20000) / 1000); break;
	case FAULT_STOP_TRAINER: sim_stop(command_pid(i), (double)sim_random(20000) / 1000); break;
	case FAULT_END_AGENT: sim_signal(facts->agent[i], SIGTERM); break;
	case FAULT_FAIL: report_death(i); break;
	case FAULT_KILL_SHARDD: sim_signal(facts->shardd, SIGKILL); break;
	case FAULT_END_SHARDD: sim_signal(facts->shardd, SIGTERM); break;
	case FAULT_STOP_SHARDD: sim_stop(facts->shardd, (double)sim_random(8000) / 1000); break;
	case FAULT_KILL_LEAD: sim_signal(facts->lead, SIGKILL); break;
	case FAULT_STOP_LEAD: sim_stop(facts->lead, (double)sim_random(8000) / 1000); break;
	case FAULT_CONNECTIONS:
		sim_cut_connections(sim_chance(0.3) ? facts->shardd : sim_chance(0.5) ? facts->lead : facts->agent[i]);
		break;
	case FAULTS: break;
	}
}

static int all_over(void)
{
	for (int i = 0; i < AGENTS; i++)
		if (!facts->over[i])
			return 0;
	return 1;
}

static void check_end(void)
{
	model_has_all(JOURNAL, facts->rows, facts->epochs);
	for (uint64_t e = 0; e < facts->epochs; e++)
		for (uint64_t i = 0; i < facts->rows; i++)
			if (facts->said[e][i] == 0)
				sim_fail("row %llu of epoch %llu is in the model, and nobody has trained it",
					 (unsigned long long)i, (unsigned long long)e);
}

static void outside(void *arg)
{
	struct sim_weather weather;
	(void)arg;
	memset(facts, 0, sizeof *facts);
	command_begin();
	facts->rows = 1 + sim_random(ROWS_MAX);
	facts->epochs = 1 + sim_random(EPOCHS_MAX);
	facts->batch = 1 + sim_random(20);
	facts->size = 1 + sim_random(16);
	facts->batches = 1 + sim_random(8);
	facts->lease = 0;
	facts->sync = sim_random(3);
	facts->shuffled = sim_random(2);
	sim_weather(&weather, FAULTS, 0.4);
	uint64_t pause = sim_chance(0.5) ? 100 : 2000, until = 500 + sim_random(20000), harms = 0;
	start_shardd();
	start_lead();
	for (int i = 0; i < AGENTS; i++)
		start_agent(i);
	while (sim_steps() < until && harms < HARMS_MAX && !all_over()) {
		clock_sleep((double)(1 + sim_random(pause)) / 1000);
		keep_alive();
		int fault = sim_weather_harm(&weather);
		if (fault >= 0) {
			harm((enum fault)fault);
			harms++;
		}
	}
	/* What nothing later heals: nobody starts anew after this. */
	for (int i = 0; i < AGENTS && sim_chance(0.8); i++) {
		sim_cut_connections(facts->agent[i]);
		clock_sleep((double)sim_random(100) / 1000);
	}
	clock_sleep(1);
	sim_be_calm();
	sim_trace("no more faults");
	facts->calm = 1;
	double began = clock_mono();
	while (!all_over()) {
		keep_alive();
		clock_sleep(1);
		if (clock_mono() > began + END_SECONDS)
			sim_fail("the rows are not all done %.0f s after the last fault", END_SECONDS);
	}
	check_end();
}

int main(int argc, char **argv)
{
	facts = sim_shared(sizeof *facts);
	return sim_main(argc, argv, outside);
}

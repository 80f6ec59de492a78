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
#include "tests/sim/kernel.h"

#include "agent/agent.h"
#include "base/clock.h"
#include "record/record.h"
#include "shard/ledger.h"
#include "wire/call.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
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
#define END_SECONDS 20000.0

static struct facts {
	uint64_t rows, epochs, batch, size, batches, lease, sync, shuffled;
	pid_t shardd, lead, finish, agent[AGENTS], trainer[AGENTS];
	unsigned char said[EPOCHS_MAX][ROWS_MAX], acknowledged[EPOCHS_MAX][ROWS_MAX];
	int over[AGENTS], calm;
	uint64_t steps;
} *facts;

enum fault {
	FAULT_KILL_AGENT, FAULT_KILL_TRAINER, FAULT_STOP_AGENT, FAULT_STOP_TRAINER, FAULT_END_AGENT, FAULT_FAIL,
	FAULT_KILL_SHARDD, FAULT_END_SHARDD, FAULT_STOP_SHARDD, FAULT_KILL_LEAD, FAULT_STOP_LEAD, FAULT_CONNECTIONS, FAULTS
};

/* ---- a trainer, by its words (agent(1)) ---- */

struct words {
	char text[4096];
	size_t len;
	struct record record;
	struct error err;
};

/* The next line is in w->record. 0: nobody answers any more. */
static int hear(struct words *w)
{
	for (;;) {
		char *end = memchr(w->text, '\n', w->len);
		if (end) {
			size_t len = (size_t)(end - w->text);
			static char line[sizeof w->text]; /* until the next one is heard */
			memcpy(line, w->text, len);
			if (record_parse(&w->record, line, len, &w->err) != 0)
				sim_fail("a trainer hears '%.*s': %s", (int)len, line, w->err.text);
			w->len -= len + 1;
			memmove(w->text, end + 1, w->len);
			return 1;
		}
		ssize_t n = read(COMMAND_IN, w->text + w->len, sizeof w->text - w->len);
		if (n <= 0)
			return 0;
		w->len += (size_t)n;
	}
}

static int say(const char *word)
{
	size_t len = strlen(word);
	for (size_t done = 0; done < len;) {
		ssize_t n = write(COMMAND_OUT, word + done, len - done);
		if (n <= 0)
			return 0;
		done += (size_t)n;
	}
	return 1;
}

struct range {
	uint64_t begin, length;
};

static void count(unsigned char counts[EPOCHS_MAX][ROWS_MAX], uint64_t epoch, const struct range *range, int ranges)
{
	for (int i = 0; i < ranges; i++)
		for (uint64_t k = 0; k < range[i].length; k++)
			counts[epoch][range[i].begin + k]++;
}

static int trainer_main(int argc, char **argv)
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
		if (!say("next\n"))
			return 1;
		for (;;) {
			if (!hear(w))
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
		if (!say("step loss=0.5\n") || !hear(w))
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

int __wrap_command_start(struct command *c, const struct command_options *o, struct error *err);
int __wrap_command_start(struct command *c, const struct command_options *o, struct error *err)
{
	int in[2], out[2], i = o->id[1] - '0';
	char name[16], *argv[] = {name, NULL};
	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return error_errno(err, ERROR_OS, "", "pipe");
	snprintf(name, sizeof name, "t%d", i);
	*c = (struct command){.pid = sim_start(name, trainer_main, 1, argv), .to = in[1], .from = out[0]};
	sim_dies_with(c->pid, getpid());
	sim_give_file(c->pid, in[0], COMMAND_IN);
	sim_give_file(c->pid, out[1], COMMAND_OUT);
	close(in[0]);
	close(out[1]);
	fcntl(c->to, F_SETFL, O_NONBLOCK);
	fcntl(c->from, F_SETFL, O_NONBLOCK);
	c->pid_fd = sim_pid_file(c->pid);
	facts->trainer[i] = c->pid;
	return 0;
}

int __wrap_command_ended(struct command *c);
int __wrap_command_ended(struct command *c)
{
	if (c->ended || c->pid == 0 || sim_is_alive(c->pid))
		return c->ended;
	int status = sim_status(c->pid);
	c->ended = 1;
	c->end = (struct node_end){.seen = 1, .status = status < 128 ? status : 0, .signal = status < 128 ? 0 : status - 128};
	return 1;
}

void __wrap_command_kill(struct command *c, int number);
void __wrap_command_kill(struct command *c, int number)
{
	if (c->pid > 0 && !c->ended && number != SIGURG)
		sim_signal(c->pid, number);
}

void __wrap_command_close(struct command *c);
void __wrap_command_close(struct command *c)
{
	if (c->pid == 0)
		return;
	sim_signal(c->pid, SIGKILL);
	close(c->pid_fd);
	close(c->to);
	close(c->from);
	c->pid = 0;
}

/* What is one for each process elsewhere. */
static struct signalled {
	volatile int stop, look;
	int wake;
} *signalled[AGENTS];

static void agent_stop(int i)
{
	uint64_t one = 1;
	signalled[i]->stop = 1;
	if (write(signalled[i]->wake, &one, sizeof one) < 0)
		signalled[i]->stop = 1;
}

static void stop_0(int number)
{
	(void)number;
	agent_stop(0);
}

static void stop_1(int number)
{
	(void)number;
	agent_stop(1);
}

static void stop_2(int number)
{
	(void)number;
	agent_stop(2);
}

static int agent_main(int argc, char **argv)
{
	static void (*const stops[AGENTS])(int) = {stop_0, stop_1, stop_2};
	int i = atoi(argv[argc - 1]);
	char *command[] = {argv[0], NULL};
	struct signalled *s = calloc(1, sizeof *s);
	struct agent *a = NULL;
	struct node_end end;
	struct error err = {0};
	if (!s)
		return 71;
	signalled[i] = s;
	s->wake = eventfd(0, EFD_NONBLOCK);
	signal(SIGTERM, stops[i]);
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
				  .answer_seconds = 600,
				  .stop = &s->stop,
				  .look = &s->look,
				  .wake = s->wake};
	int result = agent_new(&a, &o, &err);
	if (result == 0)
		result = agent_run(a, &end, &err);
	agent_free(a);
	if (result != 0)
		sim_trace("%s: %s", err.place, err.text);
	if (result == 0 && !s->stop)
		facts->over[i] = 1;
	return result == 0 ? 0 : err.code ? err.code : 1;
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
	case FAULT_KILL_TRAINER: sim_signal(facts->trainer[i], SIGKILL); break;
	case FAULT_STOP_AGENT: sim_stop(facts->agent[i], (double)sim_random(20000) / 1000); break;
	case FAULT_STOP_TRAINER: sim_stop(facts->trainer[i], (double)sim_random(20000) / 1000); break;
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
	struct ledger l;
	struct error err;
	if (ledger_read(&l, JOURNAL, &err) != 0)
		sim_fail("%s: %s", err.place, err.text);
	if (l.runs != facts->epochs)
		sim_fail("%zu runs of rows are in the model, not %llu", l.runs, (unsigned long long)facts->epochs);
	for (uint64_t e = 0; e < facts->epochs; e++) {
		if (l.run[e].epoch != e || l.run[e].begin != 0 || l.run[e].length != facts->rows)
			sim_fail("of epoch %llu rows %llu+%llu are in the model", (unsigned long long)l.run[e].epoch,
				 (unsigned long long)l.run[e].begin, (unsigned long long)l.run[e].length);
		for (uint64_t i = 0; i < facts->rows; i++)
			if (facts->said[e][i] == 0)
				sim_fail("row %llu of epoch %llu is in the model, and nobody has trained it",
					 (unsigned long long)i, (unsigned long long)e);
	}
	ledger_free(&l);
}

static void outside(void *arg)
{
	double weight[FAULTS], sum = 0;
	(void)arg;
	memset(facts, 0, sizeof *facts);
	facts->rows = 1 + sim_random(ROWS_MAX);
	facts->epochs = 1 + sim_random(EPOCHS_MAX);
	facts->batch = 1 + sim_random(20);
	facts->size = 1 + sim_random(16);
	facts->batches = 1 + sim_random(8);
	facts->lease = 0;
	facts->sync = sim_random(3);
	facts->shuffled = sim_random(2);
	for (int i = 0; i < FAULTS; i++) {
		weight[i] = sim_chance(0.4) ? (double)sim_random(100) : 0;
		sum += weight[i];
	}
	uint64_t pause = sim_chance(0.5) ? 100 : 2000, until = 500 + sim_random(20000), harms = 0;
	start_shardd();
	start_lead();
	for (int i = 0; i < AGENTS; i++)
		start_agent(i);
	while (sim_steps() < until && harms < HARMS_MAX && !all_over()) {
		clock_sleep((double)(1 + sim_random(pause)) / 1000);
		keep_alive();
		double at = sum * (double)sim_random(1u << 20) / (1u << 20);
		for (int i = 0; sum > 0 && i < FAULTS; i++)
			if ((at -= weight[i]) < 0) {
				harm((enum fault)i);
				harms++;
				break;
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

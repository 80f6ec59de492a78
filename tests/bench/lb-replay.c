/*
 * lb-replay: what a job would have lasted, had its batches been cut otherwise.  Reads the `pred`
 * records of speed-predict (or of anybody), grouped by k: a round is an iteration, in which a worker
 * is as fast as its line says, whatever its batch.  The global batch is 1024 samples for each worker
 * of the first round.
 *
 *   lb-replay [-s SOLUTION] [-e SECONDS] [-w SHORT,LONG] [FROM [TO]] < pred
 *
 *   lb-bsp         Eq. 3 (lib/solve/batch.h) by the predictions, each round; the default
 *   lb-bsp-gpu     Algorithm 2 (lib/solve/step.h), each round, by the times
 *   even           the same batch for each, whatever was predicted: plain BSP
 *   antdt-nd, pace, backup:N, ...
 *                  any built-in solution of lib/solve, each SECONDS of the replayed time (10), by
 *                  what the monitor (lib/monitor) says of its windows (10,60): the loop of trainctl
 *                  without the programs.  A restart changes nothing: the trace is what was.
 *
 * Prints rounds, their time, the oracle's time for the same samples, who knows the next speeds, the
 * ratio, and how many actions there were.  Rounds FROM <= k < TO count, with workers that have both
 * a prediction and an actual speed.
 */
#include "solve/batch.h"
#include "solve/solution.h"
#include "solve/step.h"
#include "monitor/monitor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_MAX 4096
#define BATCH 1024

struct worker {
	char id[OPTION_ID_MAX];
	double said, speed; /* of this round; speed NAN: it is not there */
	uint64_t size;      /* of its next batch; 0: not said yet */
	double time;        /* of its last one */
	int known;          /* to the monitor, as up */
};

static struct worker worker[WORKERS_MAX];
static size_t workers;
static uint64_t global; /* batch */

static const struct solution *solution; /* NULL: one of the three that are asked each round */
static const char *name = "lb-bsp";
static struct solution_options options;
static double every = 10, window_short = 10, window_long = 60;
static struct monitor *monitor;
static struct step *step;
static uint64_t backup, actions;

static double now, asked, sum_time, sum_oracle;
static unsigned long rounds;

static void die(const char *what, const struct error *err)
{
	fprintf(stderr, "lb-replay: %s: %s\n", what, err ? err->text : "");
	exit(65);
}

/* ---- the cuts of each round; here[n] are those that are in it ---- */

static void share(size_t n, uint64_t batch, const double *speed, uint64_t *size)
{
	static struct batch_worker row[WORKERS_MAX];
	struct error err = {0};
	for (size_t i = 0; i < n; i++)
		row[i] = (struct batch_worker){
			.speed = speed ? speed[i] : 1, .max = BATCH_SIZE_MAX, .count = 1};
	if (batch_share(row, n, batch, &err) != 0)
		die("share", &err);
	for (size_t i = 0; i < n; i++)
		size[i] = row[i].size;
}

static void by_step(struct worker *const *here, size_t n, uint64_t *size)
{
	static struct step_worker row[WORKERS_MAX];
	struct error err = {0};
	for (size_t i = 0; i < n; i++)
		row[i] = (struct step_worker){.id = here[i]->id,
					      .time = here[i]->time,
					      .min = 1,
					      .max = BATCH_SIZE_MAX,
					      .start = here[i]->size};
	if (step_round(step, row, n, &err) != 0)
		die("step", &err);
	for (size_t i = 0; i < n; i++)
		size[i] = row[i].size;
}

/* ---- solutions ---- */

static void tell(const char *line)
{
	struct error err = {0};
	struct record r;
	if (record_parse(&r, line, strlen(line) - 1, &err) != 0 ||
	    monitor_add(monitor, &r, NAN, NULL, &err) < 0)
		die("monitor", &err);
}

static void report(struct worker *w, int here)
{
	char line[RECORD_LINE_MAX];
	if (here) {
		snprintf(line, sizeof line,
			 "bpt role=worker id=%s iter=%lu time=%.9g size=%llu at=%.6f\n", w->id, rounds,
			 w->time, (unsigned long long)w->size, now);
		tell(line);
	} else if (w->known) {
		snprintf(line, sizeof line, "event role=worker id=%s kind=hung at=%.6f\n", w->id,
			 now);
		tell(line);
	}
	w->known = here;
}

static void take_lines(const char *text, size_t len, void *snapshot)
{
	struct error err = {0};
	struct record r;
	for (const char *end; len > 0; len -= (size_t)(end + 1 - text), text = end + 1) {
		end = memchr(text, '\n', len);
		if (record_parse(&r, text, (size_t)(end - text), &err) != 0 ||
		    snapshot_add(snapshot, &r, &err) != 0)
			die("snapshot", &err);
	}
}

static int obey(const struct action *a, void *arg, struct error *err)
{
	(void)arg, (void)err;
	actions += a->kind != ACTION_NONE;
	if (a->kind == ACTION_BACKUP_WORKERS)
		backup = a->count;
	for (size_t i = 0; a->kind == ACTION_ADJUST_BS && i < workers; i++)
		if (strcmp(worker[i].id, a->id) == 0)
			worker[i].size = a->size * a->accum;
	return 0;
}

static void decide(void)
{
	struct error err = {0};
	struct snapshot s;
	snapshot_init(&s);
	if (monitor_snapshot(monitor, now, take_lines, &s, &err) != 0 ||
	    solution_decide(solution, &s, &options, obey, NULL, &err) != 0)
		die(name, &err);
	snapshot_clear(&s);
	asked = now;
}

/* ---- a round ---- */

static int by_time(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;
	return d < 0 ? -1 : d > 0;
}

/* How long it lasts, its `left` slowest not waited for; *done: samples that count. */
static double last_of(struct worker *const *here, size_t n, uint64_t left, uint64_t *done)
{
	static double time[WORKERS_MAX];
	uint64_t late = 0;
	*done = 0;
	for (size_t i = 0; i < n; i++)
		time[i] = here[i]->time;
	qsort(time, n, sizeof *time, by_time);
	double end = time[n - 1 - (left < n ? left : n - 1)];
	for (size_t i = 0; i < n; i++)
		if (here[i]->time <= end || late++ >= left)
			*done += here[i]->size;
	return end;
}

static void end_round(int counts)
{
	static struct worker *here[WORKERS_MAX];
	static double said[WORKERS_MAX], speed[WORKERS_MAX];
	static uint64_t size[WORKERS_MAX];
	uint64_t done;
	double oracle = 0;
	size_t n = 0;
	for (size_t i = 0; i < workers; i++) {
		if (isnan(worker[i].speed))
			continue;
		said[n] = worker[i].said;
		speed[n] = worker[i].speed;
		here[n++] = &worker[i];
	}
	if (n == 0)
		return;
	if (!global)
		global = BATCH * n;
	if (step)
		by_step(here, n, size);
	else if (!solution) /* those who are there share what there is for them */
		share(n, BATCH * n, strcmp(name, "even") == 0 ? NULL : said, size);
	for (size_t i = 0; i < n; i++) {
		if (!solution)
			here[i]->size = size[i];
		else if (here[i]->size == 0)
			here[i]->size = global / n;
		here[i]->time = (double)here[i]->size / speed[i];
	}
	double time = last_of(here, n, backup, &done);
	share(n, done, speed, size);
	for (size_t i = 0; i < n; i++)
		oracle = fmax(oracle, (double)size[i] / speed[i]);
	now += time;
	if (counts) {
		sum_time += time;
		sum_oracle += oracle;
		rounds++;
	}
	for (size_t i = 0; solution && i < workers; i++)
		report(&worker[i], !isnan(worker[i].speed));
	if (solution && now >= asked + every)
		decide();
	for (size_t i = 0; i < workers; i++)
		worker[i].speed = NAN;
}

/* ---- input ---- */

static struct worker *find(const char *id)
{
	static size_t next; /* workers mostly come in the same order */
	for (size_t i = 0; i < workers; i++) {
		struct worker *w = &worker[(next + i) % workers];
		if (strcmp(w->id, id) == 0) {
			next = (size_t)(w - worker) + 1;
			return w;
		}
	}
	if (workers == WORKERS_MAX)
		die("too many workers", NULL);
	snprintf(worker[workers].id, sizeof worker->id, "%s", id);
	worker[workers].speed = NAN;
	return &worker[workers++];
}

static void set_up(void)
{
	struct error err = {0};
	struct step_options steps = STEP_OPTIONS_DEFAULT;
	solution_options_init(&options);
	if (strcmp(name, "lb-bsp") == 0 || strcmp(name, "even") == 0)
		return;
	if (strcmp(name, "lb-bsp-gpu") == 0) {
		steps.global = global;
		if (!(step = step_new(&steps, &err)))
			die(name, &err);
		return;
	}
	solution = solution_find(name);
	if (!solution)
		die(name, &(struct error){.text = "no such solution"});
	options.batch = global;
	solution_options_name(&options, name);
	if (monitor_new(&monitor, window_short, window_long, &err) != 0)
		die("monitor", &err);
}

static void read_rounds(uint64_t from, uint64_t to)
{
	static struct record r;
	struct error err = {0};
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	uint64_t k, round = UINT64_MAX, here = 0;
	const char *id;
	int got = 0;
	while (in && (got = record_read(in, &r, &err)) != RECORD_END) {
		double said = NAN, speed = NAN;
		if (got < 0)
			die("stdin", &err);
		if (got == RECORD_BLANK || !record_is(&r, "pred"))
			continue;
		if (record_id(&r, "id", &id, &err) != 0 ||
		    record_u64(&r, "k", 0, UINT64_MAX, &k, &err) != 0 ||
		    record_real_opt(&r, "speed", 1e-12, 1e18, &said, &err) != 0 ||
		    record_real_opt(&r, "actual", 1e-12, 1e18, &speed, &err) != 0)
			die("stdin", &err);
		if (k != round) {
			if (here > 0 && !global) {
				global = BATCH * here;
				set_up();
			}
			end_round(round >= from && round < to);
			here = 0;
		}
		round = k;
		if (isnan(said) || isnan(speed))
			continue;
		struct worker *w = find(id);
		w->said = said;
		w->speed = speed;
		here++;
	}
	end_round(round >= from && round < to);
	record_reader_free(in);
}

int main(int argc, char **argv)
{
	int c;
	while ((c = getopt(argc, argv, "s:e:w:")) != -1) {
		if (c == 's')
			name = optarg;
		else if (c == 'e')
			every = strtod(optarg, NULL);
		else if (c != 'w' || sscanf(optarg, "%lf,%lf", &window_short, &window_long) != 2)
			return 64;
	}
	read_rounds(optind < argc ? strtoull(argv[optind], NULL, 10) : 0,
		    optind + 1 < argc ? strtoull(argv[optind + 1], NULL, 10) : UINT64_MAX);
	printf("%lu %.6f %.6f %.5f %llu\n", rounds, sum_time, sum_oracle, sum_time / sum_oracle,
	       (unsigned long long)actions);
	monitor_free(monitor);
	step_free(step);
	return 0;
}

/*
 * lb-flexrr: FlexRR (Harlap et al., SoCC '16) as a model, and what its one-sample steps cost.
 *
 *   lb-flexrr model BATCH FROM UNTIL [key=value...] < trace     `on at= id= speed=` records, by at
 *   lb-flexrr loss                                              measured with this project's models
 *
 * Why a model: our workers take a batch as one step, like all tensor frameworks, and a batch is
 * owned as a whole, by its worker, until it is committed.  A worker that gives up samples in the
 * middle of a batch would be another worker, built for nothing but to lose.  LB-BSP had to emulate
 * FlexRR, too (5.3); as there each worker's helper group is all others.
 *
 * The rules, in the order in which they are asked:
 *  1. Each iteration begins with the same batch for each; all wait for its end (BSP).
 *  2. A worker takes its samples one by one; a sample lasts loss/pace, with the pace of its start.
 *     A change of speed is so felt at once, and not with the next batch only, as it is elsewhere.
 *  3. `checks` times in a batch it looks at what the others have reported; that costs it `check`
 *     seconds.  One that has finished its own batch has reported so and idles, ready to help.
 *  4. Who at a check is behind such a helper by more than `behind` of a batch hands samples over
 *     to it, from the end of its own: `first` of a batch at first, `next` at each further time in
 *     the same iteration.  It does so for all helpers that are idle.  One helper is asked by one
 *     worker at a time.
 *  5. The helper begins `hand` seconds later (message, and samples that it has to fetch), gives the
 *     gradient back with its own push, and is idle again.
 *  With eager=1 rule 4 asks for `behind` the first time only, and then gives as long as two such
 *  portions are left: better than what is described.
 * Settings that are published: 100 checks, all others as helpers; that work goes over in small
 * portions when somebody is behind a threshold.  Its values here, 20 %, 2.5 % and 5 %, are options.
 * The values of `behind`, `first`, `next`, `check` and `hand` are assumptions.
 *
 * Prints iterations, their mean time, `over-oracle`: the samples that all could have done meanwhile
 * at their paces over those done; `of-bsp`: the time over that of BSP with the same trace, steps and
 * loss; hand-overs an iteration.  scheme=bsp: no rule 3 to 5, and the pace of a batch is that of
 * its start, as a drag file makes it: must agree with what the real thing does.
 */
#include "base/clock.h"
#include "model/model.h"
#include "record/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_MAX 1024
#define NEVER 1e300

static void die(const char *what)
{
	fprintf(stderr, "lb-flexrr: %s\n", what);
	exit(65);
}

/* ---- the trace ---- */

struct change {
	double at, pace;
};

struct worker {
	char id[64];
	struct change *change;
	size_t changes, room, now; /* now: the change in force */
	/* of an iteration: */
	uint64_t size, left;  /* own samples, and those not begun */
	uint64_t help;        /* of others, not begun */
	uint64_t given;       /* portions handed over */
	uint64_t until_check; /* own samples */
	double free_at;       /* the sample in hand ends; NEVER: idle */
};

static struct worker worker[WORKERS_MAX];
static size_t workers;

static struct worker *worker_of(const char *id)
{
	for (size_t i = 0; i < workers; i++)
		if (strcmp(worker[i].id, id) == 0)
			return &worker[i];
	if (workers == WORKERS_MAX)
		die("too many workers");
	snprintf(worker[workers].id, sizeof worker[workers].id, "%s", id);
	return &worker[workers++];
}

static void read_trace(void)
{
	static struct record r;
	struct error err;
	int got;
	struct record_reader *in = record_reader_new(STDIN_FILENO, "stdin");
	if (!in)
		die("no memory");
	while ((got = record_read(in, &r, &err)) != RECORD_END) {
		const char *id;
		struct change c;
		if (got < 0)
			die(err.text);
		if (got == RECORD_BLANK || !record_is(&r, "on"))
			continue;
		if (record_id(&r, "id", &id, &err) < 0 ||
		    record_real(&r, "at", 0, 1e9, &c.at, &err) < 0 ||
		    record_real(&r, "speed", 1e-9, 1e15, &c.pace, &err) < 0)
			die(err.text);
		struct worker *w = worker_of(id);
		if (w->changes == w->room) {
			w->room = w->room ? 2 * w->room : 64;
			w->change = realloc(w->change, w->room * sizeof *w->change);
			if (!w->change)
				die("no memory");
		}
		w->change[w->changes++] = c;
	}
	record_reader_free(in);
	if (workers == 0)
		die("an empty trace");
}

static double pace_at(struct worker *w, double t)
{
	if (w->change[w->now].at > t)
		w->now = 0;
	while (w->now + 1 < w->changes && w->change[w->now + 1].at <= t)
		w->now++;
	return w->change[w->now].pace;
}

/* What all could have done between two times. */
static double could(double from, double until)
{
	double sum = 0;
	for (size_t i = 0; i < workers; i++)
		for (size_t k = 0; k < worker[i].changes; k++) {
			double a = k == 0 ? 0 : worker[i].change[k].at;
			double b = k + 1 < worker[i].changes ? worker[i].change[k + 1].at : NEVER;
			a = fmax(a, from);
			b = fmin(b, until);
			if (b > a)
				sum += worker[i].change[k].pace * (b - a);
		}
	return sum;
}

/* ---- an iteration ---- */

static double loss = 1, checks = 100, check = 50e-6, behind = 0.2, first = 0.025, next = 0.05;
static double hand = 1e-3, eager = 0;
static uint64_t handed;

static uint64_t portion(const struct worker *w)
{
	double part = (w->given == 0 ? first : next) * (double)w->size;
	return part < 1 ? 1 : (uint64_t)llround(part);
}

/* A progress check of w at t: rules 3 and 4. */
static void look_around(struct worker *w, double t)
{
	for (size_t i = 0; i < workers; i++) {
		struct worker *h = &worker[i];
		uint64_t n = portion(w);
		if (h->free_at < NEVER)
			continue;
		if (!(w->given && eager > 0) && (double)w->left <= behind * (double)w->size)
			return;
		if (w->left < 2 * n)
			return;
		w->left -= n;
		w->given++;
		h->help = n;
		h->free_at = t + hand;
		handed++;
	}
}

/* w has ended what it had in hand at t. */
static void go_on(struct worker *w, double t)
{
	if (w->help > 0) {
		w->help--;
	} else if (w->left > 0) {
		if (w->until_check == 0) {
			double every = (double)w->size / checks;
			w->until_check = every < 1 ? 1 : (uint64_t)every;
			look_around(w, t);
			t += check;
		}
		w->until_check--;
		w->left--;
	} else {
		w->free_at = NEVER;
		return;
	}
	w->free_at = t + loss / pace_at(w, t);
}

static double iterate(double t, uint64_t batch)
{
	for (size_t i = 0; i < workers; i++) {
		struct worker *w = &worker[i];
		w->size = w->left = batch / workers + (i < batch % workers);
		w->help = w->given = 0;
		w->until_check = 1;
		w->free_at = t;
	}
	for (;;) {
		struct worker *w = &worker[0];
		for (size_t i = 1; i < workers; i++)
			if (worker[i].free_at < w->free_at)
				w = &worker[i];
		if (w->free_at == NEVER)
			return t;
		t = w->free_at;
		go_on(w, t);
	}
}

static double iterate_bsp(double t, uint64_t batch)
{
	double longest = 0;
	for (size_t i = 0; i < workers; i++) {
		double size = (double)(batch / workers + (i < batch % workers));
		longest = fmax(longest, size * loss / pace_at(&worker[i], t));
	}
	return t + longest;
}

typedef double iterate_fn(double t, uint64_t batch);

static double run(iterate_fn *step, uint64_t batch, double from, double until, uint64_t *rounds,
		  double *over)
{
	double t = from;
	handed = 0;
	for (*rounds = 0; t < until; ++*rounds)
		t = step(t, batch);
	*over = could(from, t) / (double)(*rounds * batch);
	return (t - from) / (double)*rounds;
}

static int model(int argc, char **argv)
{
	struct {
		const char *key;
		double *value;
	} known[] = {{"loss", &loss},   {"checks", &checks}, {"check", &check}, {"behind", &behind},
		     {"first", &first}, {"next", &next},     {"hand", &hand},	{"eager", &eager}};
	double from = strtod(argv[3], NULL), until = strtod(argv[4], NULL), over;
	uint64_t batch = strtoull(argv[2], NULL, 10), rounds;
	for (int i = 5; i < argc; i++) {
		const char *value = strchr(argv[i], '=');
		size_t k = 0, n = sizeof known / sizeof *known;
		while (k < n && !(value && strlen(known[k].key) == (size_t)(value - argv[i]) &&
				  strncmp(known[k].key, argv[i], strlen(known[k].key)) == 0))
			k++;
		if (k == n)
			die(argv[i]);
		*known[k].value = strtod(value + 1, NULL);
	}
	read_trace();
	double bsp = run(iterate_bsp, batch, from, until, &rounds, &over);
	printf("scheme=bsp loss=%.3g iterations=%llu seconds=%.4f over-oracle=%.3f\n", loss,
	       (unsigned long long)rounds, bsp, over);
	double mean = run(iterate, batch, from, until, &rounds, &over);
	printf("scheme=flexrr loss=%.3g behind=%g first=%g next=%g eager=%g iterations=%llu "
	       "seconds=%.4f over-oracle=%.3f of-bsp=%.3f hand-overs=%.1f\n",
	       loss, behind, first, next, eager, (unsigned long long)rounds, mean, over, mean / bsp,
	       (double)handed / (double)rounds);
	return 0;
}

/* ---- what one-sample steps cost ---- */

enum { SAMPLES = 1024, ROUNDS = 60, DENSE = 13, FIELDS = 26, ROWS = 2048 };

/* Microseconds a sample, in steps of so many; the fastest of many rounds, as others use the machine. */
static double measure(struct model *m, const struct model_spec *spec, size_t size)
{
	static float dense_in[SAMPLES * DENSE], label[SAMPLES];
	static uint32_t slice[SAMPLES + 1], index[SAMPLES * FIELDS];
	size_t count = (size_t)model_dense_count(spec), width = model_width(spec);
	float *dense = calloc(2 * count + 2 * ROWS * width, sizeof *dense);
	float *rows = dense + count, *gradient = rows + ROWS * width;
	double best = NEVER, nats = 0;
	struct error err;
	if (!dense)
		die("no memory");
	srand(1);
	for (size_t i = 0; i < SAMPLES * DENSE; i++)
		dense_in[i] = (float)rand() / (float)RAND_MAX;
	for (size_t i = 0; i < SAMPLES; i++)
		label[i] = (float)(rand() % 2);
	for (size_t i = 0; i <= SAMPLES; i++)
		slice[i] = (uint32_t)(i * FIELDS);
	for (size_t i = 0; i < SAMPLES * FIELDS; i++)
		index[i] = (uint32_t)(rand() % ROWS);
	for (size_t i = 0; i < count + ROWS * width; i++)
		dense[i] = 0.01f * (float)(rand() % 100 - 50);
	for (int round = 0; round < ROUNDS; round++) {
		double began = clock_mono();
		for (size_t at = 0; at < SAMPLES; at += size) {
			struct model_batch b = {.count = size,
						.dense = dense_in + at * DENSE,
						.label = label + at,
						.offset = slice,
						.index = index + at * FIELDS};
			if (model_train(m, &b, dense, rows, gradient, gradient + count, &nats,
					&err) < 0)
				die(err.text);
		}
		best = fmin(best, clock_mono() - began);
	}
	free(dense);
	return best * 1e6 / SAMPLES;
}

static int print_loss(void)
{
	const char *const name[] = {"lr", "wdl"};
	for (size_t i = 0; i < 2; i++) {
		struct model_spec spec;
		struct model *m;
		struct error err;
		model_spec_default(&spec, name[i]);
		spec.dense_inputs = DENSE;
		spec.fields = FIELDS;
		if (model_new(&m, &spec, NULL, &err) < 0)
			die(err.text);
		double one = measure(m, &spec, 1), some = measure(m, &spec, 32);
		double many = measure(m, &spec, 256);
		printf("model=%s us-a-sample-at-1=%.3f at-32=%.3f at-256=%.3f loss=%.2f\n", name[i],
		       one, some, many, one / fmax(some, many));
		model_free(m);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 5 && strcmp(argv[1], "model") == 0)
		return model(argc, argv);
	if (argc == 2 && strcmp(argv[1], "loss") == 0)
		return print_loss();
	fprintf(stderr, "usage: lb-flexrr model BATCH FROM UNTIL [key=value...] | loss\n");
	return 64;
}

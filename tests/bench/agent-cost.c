/*
 * agent-cost: a trainer that computes for a while (it spins) and does nothing else: how long it is
 * without work in each batch.
 *     agent-cost trainer FILE BATCHES SPIN-US       under agent(1): next and step
 *     agent-cost ahead FILE BATCHES SPIN-US         the same, `next` said together with `step`
 *     agent-cost pipe FILE BATCHES SPIN-US          a byte there and back, between two processes
 *     agent-cost direct FILE BATCHES SPIN-US SHARDS LEAD
 *                                                   without agent: push, and begin behind it
 * FILE gets a line for each batch: microseconds of both together, then of each.
 */
#include "base/boot.h"
#include "base/clock.h"
#include "wire/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 10

static FILE *out;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "agent-cost: %s\n", what);
	exit(1);
}

static void spin(double seconds)
{
	double until = clock_mono() + seconds;
	while (clock_mono() < until)
		;
}

static void note(double first, double second)
{
	fprintf(out, "%.2f %.2f %.2f\n", (first + second) * 1e6, first * 1e6, second * 1e6);
}

/* ---- as a trainer ---- */

/* The last line of the answer. */
static const char *say(int to, int from, const char *word)
{
	static char text[65536];
	size_t len = 0;
	const char *last = text;
	if (write(to, word, strlen(word)) < 0)
		fail("write");
	for (;;) {
		ssize_t n = read(from, text + len, sizeof text - 1 - len);
		if (n <= 0)
			fail("the agent went");
		len += (size_t)n;
		text[len] = '\0';
		if (text[len - 1] != '\n')
			continue;
		text[len - 1] = '\0';
		last = strrchr(text, '\n');
		last = last ? last + 1 : text;
		text[len - 1] = '\n';
		if (strncmp(last, "ok", 2) == 0 || strncmp(last, "err", 3) == 0)
			return last;
	}
}

static void as_trainer(long batches, double work)
{
	int from = atoi(getenv("PACELINE_IN")), to = atoi(getenv("PACELINE_OUT"));
	for (long i = 0; i < batches;) {
		double began = clock_mono();
		const char *answer = say(to, from, "next\n");
		double given = clock_mono();
		if (strncmp(answer, "ok state=wait", 13) == 0)
			continue;
		if (strncmp(answer, "ok state=end", 12) == 0)
			return;
		spin(work);
		double trained = clock_mono();
		say(to, from, "step loss=0.5 time=0.001\n");
		note(given - began, clock_mono() - trained);
		i++;
	}
}

/* Answers come in their order; what was read of the second one is kept. */
static const char *hear(int from, int fresh)
{
	static char text[65536];
	static size_t begin, len;
	if (fresh)
		begin = len = 0;
	for (;;) {
		char *end;
		while ((end = memchr(text + begin, '\n', len - begin))) {
			const char *line = text + begin;
			*end = '\0';
			begin = (size_t)(end - text) + 1;
			if (strncmp(line, "ok", 2) == 0 || strncmp(line, "err", 3) == 0)
				return line;
		}
		if (begin == len)
			begin = len = 0;
		ssize_t n = read(from, text + len, sizeof text - len);
		if (n <= 0)
			fail("the agent went");
		len += (size_t)n;
	}
}

static void as_trainer_ahead(long batches, double work)
{
	static const char words[] = "step loss=0.5 time=0.001\nnext\n";
	int from = atoi(getenv("PACELINE_IN")), to = atoi(getenv("PACELINE_OUT"));
	while (strncmp(say(to, from, "next\n"), "ok state=wait", 13) == 0)
		;
	for (long i = 0; i < batches; i++) {
		spin(work);
		double began = clock_mono();
		if (write(to, words, sizeof words - 1) < 0)
			fail("write");
		hear(from, 1);
		double stepped = clock_mono();
		hear(from, 0);
		note(clock_mono() - stepped, stepped - began);
	}
}

static void as_pipe(long batches, double work)
{
	int there[2], back[2];
	char byte = 'x';
	if (pipe(there) != 0 || pipe(back) != 0)
		fail("pipe");
	if (fork() == 0) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	for (long i = 0; i < batches; i++) {
		spin(work);
		double began = clock_mono();
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			fail("pipe");
		note(clock_mono() - began, 0);
	}
	close(there[1]);
}

/* ---- with nothing in between ---- */

static struct record answer;

static void hear_of(struct call *c)
{
	struct error err;
	do {
		if (call_receive(c, &answer, &err) != 0)
			fail(err.text);
		if (record_is(&answer, "err"))
			fail(answer.text ? answer.text : "refused");
	} while (!record_is(&answer, "ok"));
}

static void ask(struct call *c, const char *line)
{
	struct error err;
	if (call_send(c, line, strlen(line), NULL, 0, &err) != 0)
		fail(line);
	hear_of(c);
}

static void begin(struct record_out *o, char *line, const char *type, unsigned long long generation)
{
	record_begin(o, line, RECORD_LINE_MAX, type);
	record_add(o, "worker", "w0");
	record_add_u64(o, "generation", generation);
	record_add_u64(o, "incarnation", 1);
}

static size_t put_begin(char *line, unsigned long long generation, uint64_t iteration)
{
	struct record_out o;
	begin(&o, line, "begin", generation);
	record_add_u64(&o, "iteration", iteration);
	record_add_u64(&o, "count", SIZE);
	return record_end(&o, NULL);
}

/* Shards as long as the queue is: one piece, taken once. It does what agent does, in its words. */
static void as_worker(long batches, double work, const char *shards, const char *lead)
{
	struct call *queue, *c;
	struct error err;
	struct record_out o;
	char line[2 * RECORD_LINE_MAX], boot[BOOT_ID_MAX];
	uint64_t generation;
	if (call_open(&queue, shards, 5, 60, &err) != 0 || call_open(&c, lead, 5, 60, &err) != 0)
		fail(err.text);
	ask(queue, "hello worker=w0\n");
	record_u64(&answer, "generation", 1, UINT64_MAX, &generation, &err);
	snprintf(line, sizeof line, "get worker=w0 generation=%llu\n",
		 (unsigned long long)generation);
	ask(queue, line);
	begin(&o, line, "join", generation);
	record_add_u64(&o, "begins", 1);
	boot_id(boot);
	record_add(&o, "boot", boot);
	record_end(&o, NULL);
	ask(c, line);
	size_t len = put_begin(line, generation, 0);
	line[len] = '\0';
	ask(c, line);
	for (long i = 0; i < batches; i++) {
		char ranges[100];
		spin(work);
		begin(&o, line, "push", generation);
		record_add_u64(&o, "sequence", (uint64_t)i + 1);
		record_add_u64(&o, "iteration", (uint64_t)i);
		record_add_u64(&o, "count", SIZE);
		snprintf(ranges, sizeof ranges, "0:%ld:%d", i * SIZE, SIZE);
		record_add(&o, "ranges", ranges);
		record_add(&o, "loss", "5");
		len = record_end(&o, NULL);
		len += put_begin(line + len, generation, (uint64_t)i + 1);
		double trained = clock_mono();
		if (call_send(c, line, len, NULL, 0, &err) != 0)
			fail(err.text);
		hear_of(c);
		double pushed = clock_mono();
		hear_of(c);
		note(clock_mono() - pushed, pushed - trained);
	}
	call_close(c);
	call_close(queue);
}

int main(int argc, char **argv)
{
	if (argc < 5 || !(out = fopen(argv[2], "w")))
		fail("usage");
	long batches = atol(argv[3]);
	double work = atof(argv[4]) * 1e-6;
	if (strcmp(argv[1], "trainer") == 0)
		as_trainer(batches, work);
	else if (strcmp(argv[1], "ahead") == 0)
		as_trainer_ahead(batches, work);
	else if (strcmp(argv[1], "pipe") == 0)
		as_pipe(batches, work);
	else if (argc == 7)
		as_worker(batches, work, argv[5], argv[6]);
	fclose(out);
	if (strcmp(argv[1], "trainer") == 0 || strcmp(argv[1], "ahead") == 0)
		sleep(1000); /* until the agent is stopped: the job is not over */
	return 0;
}

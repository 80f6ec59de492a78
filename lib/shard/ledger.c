/* ledger: see ledger.h. What is in the model is all that is not in a piece, nor still to be handed
 * out; so the runs that are missing are listed, and the ledger is what lies between them. */
#include "shard/ledger.h"

#include "base/clock.h"
#include "base/random.h"
#include "shard/journal.h"
#include "shard/queue_internal.h"
#include "shard/scan.h"

#include <stdlib.h>
#include <string.h>

#define READ_TRIES 5 /* of a journal that its owner changes */
#define READ_PAUSE 0.05

struct missing {
	struct ledger_run *run;
	size_t runs, room;
	int no_memory;
};

static void ledger_miss(struct missing *m, uint64_t epoch, uint64_t begin, uint64_t length)
{
	if (m->runs == m->room) {
		size_t room = m->room ? 2 * m->room : 64;
		struct ledger_run *more = realloc(m->run, room * sizeof *more);
		if (!more) {
			m->no_memory = 1;
			return;
		}
		m->run = more;
		m->room = room;
	}
	m->run[m->runs++] = (struct ledger_run){epoch, begin, length};
}

/* Positions of a shuffled piece are rows in no order. */
static void ledger_miss_shuffled(struct missing *m, const struct piece *p)
{
	uint32_t *order = malloc((size_t)p->length * sizeof *order);
	if (!order) {
		m->no_memory = 1;
		return;
	}
	random_permute(order, (size_t)p->length, p->seed);
	for (const struct piece *r = p; r && !m->no_memory; r = r->more)
		for (uint64_t i = r->lo; i < r->hi && !m->no_memory; i++)
			ledger_miss(m, p->lane->number, p->begin + order[i], 1);
	free(order);
}

static void ledger_miss_piece(struct missing *m, const struct piece *p)
{
	if (p->seed && piece_left(p) < p->length) {
		ledger_miss_shuffled(m, p);
		return;
	}
	for (const struct piece *r = p; r; r = r->more)
		ledger_miss(m, p->lane->number, p->begin + r->lo, r->hi - r->lo);
}

/* Shards that nobody was ever given. */
static void ledger_miss_fresh(struct missing *m, const struct queue *q)
{
	uint64_t id = q->cursor;
	for (; id < q->total && id % q->shards != 0 && !m->no_memory; id++) {
		uint64_t begin, length;
		source_frame(q, id, &begin, &length);
		ledger_miss(m, id / q->shards, begin, length);
	}
	for (; id < q->total && !m->no_memory; id += q->shards)
		ledger_miss(m, id / q->shards, 0, q->p.samples);
}

static int ledger_by_row(const void *a, const void *b)
{
	const struct ledger_run *x = a, *y = b;
	if (x->epoch != y->epoch)
		return x->epoch < y->epoch ? -1 : 1;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* What lies between the missing runs; there is at most one run more an epoch than there are of
 * those. */
static int ledger_between(struct ledger *out, const struct missing *m, struct error *err)
{
	size_t i = 0;
	out->run = calloc(m->runs + (size_t)out->epochs + 1, sizeof *out->run);
	if (!out->run)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (uint64_t epoch = 0; epoch < out->epochs; epoch++) {
		uint64_t at = 0;
		for (;; i++) {
			int more = i < m->runs && m->run[i].epoch == epoch;
			uint64_t begin = more ? m->run[i].begin : out->samples;
			if (begin > at)
				out->run[out->runs++] =
					(struct ledger_run){epoch, at, begin - at};
			if (!more)
				break;
			at = begin + m->run[i].length;
		}
	}
	return 0;
}

int ledger_of(struct ledger *out, const struct queue *q, struct error *err)
{
	struct missing m = {0};
	struct piece *p;
	*out = (struct ledger){.samples = q->p.samples, .epochs = q->p.epochs};
	if (q->own)
		return error_set(err, ERROR_CONFIG, NULL,
				 "workers have rows of their own (partitions), which are counted by "
				 "passes and not by epochs");
	for (size_t at = 0; (p = u64map_next(&q->pieces, &at)) != NULL;)
		ledger_miss_piece(&m, p);
	ledger_miss_fresh(&m, q);
	if (m.runs > 0)
		qsort(m.run, m.runs, sizeof *m.run, ledger_by_row);
	int result = m.no_memory ? error_set(err, ERROR_OS, NULL, "out of memory")
				 : ledger_between(out, &m, err);
	free(m.run);
	return result;
}

static int ledger_line(void *loader, const char *line, size_t len, struct error *err)
{
	int taken = queue_loader_line(loader, line, len, err);
	/* Lines that nobody waited for may lack their end, whichever boot they are of. */
	return taken >= 0 && queue_loader_loose(loader)[0] ? taken | SCAN_LOOSE : taken;
}

static int ledger_read_once(struct queue **q, const char *dir, struct error *err)
{
	struct queue_loader *loader = queue_loader_new(NULL);
	if (!loader)
		return error_set(err, ERROR_OS, dir, "out of memory");
	if (journal_read(dir, ledger_line, loader, err) != 0) {
		queue_loader_free(loader);
		return -1;
	}
	return queue_loader_finish(loader, q, err) == 0 ? 0 : error_wrap(err, dir);
}

int ledger_read(struct ledger *out, const char *dir, struct error *err)
{
	struct queue *q;
	int result, tries = 0;
	*out = (struct ledger){0};
	while ((result = ledger_read_once(&q, dir, err)) != 0 && ++tries < READ_TRIES)
		clock_sleep(READ_PAUSE);
	if (result != 0)
		return -1;
	result = ledger_of(out, q, err);
	queue_free(q);
	return result;
}

void ledger_free(struct ledger *l)
{
	free(l->run);
}

/* partition: see partition.h. The queue checks what may be asked for; here it is done. */
#include "partition/partition.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

#define SLICES_MAX 32 /* a stretch of consecutive rows is spread in at most so many slices */

static int partitions_add(struct partitions *p, const struct partition_own *own)
{
	struct partition *part = &p->partition[p->count];
	memcpy(part->worker, own->worker, sizeof part->worker);
	part->samples = own->rows;
	if (p->count > 0)
		part->begin = part[-1].begin + part[-1].samples;
	p->count++;
	if (partition_append(part, part->begin, part->samples, 0) != 0)
		return -1;
	part->left = part->rows;
	p->unseen += part->rows;
	return 0;
}

static int partitions_by_worker(const void *a, const void *b)
{
	return strcmp((*(struct partition *const *)a)->worker,
		      (*(struct partition *const *)b)->worker);
}

struct partitions *partitions_new(const struct partition_own *own, size_t count, uint64_t batch,
				  uint64_t epochs)
{
	struct partitions *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->own = malloc(count * sizeof *p->own);
	p->partition = calloc(count, sizeof *p->partition);
	p->by_name = malloc(count * sizeof *p->by_name);
	int result = p->own && p->partition && p->by_name ? 0 : -1;
	for (size_t i = 0; result == 0 && i < count; i++)
		result = partitions_add(p, &own[i]);
	if (result != 0) {
		partitions_free(p);
		return NULL;
	}
	for (size_t i = 0; i < count; i++)
		p->by_name[i] = &p->partition[i];
	qsort(p->by_name, count, sizeof *p->by_name, partitions_by_worker);
	memcpy(p->own, own, count * sizeof *own);
	p->grain = (batch - 1) / count + 1;
	p->budget = p->unseen * epochs;
	return p;
}

void partitions_free(struct partitions *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->count; i++)
		free(p->partition[i].run);
	free(p->partition);
	free(p->by_name);
	free(p->move);
	free(p->own);
	free(p);
}

static int partitions_is_of(const void *worker, const void *part)
{
	return strcmp(worker, (*(struct partition *const *)part)->worker);
}

size_t partitions_find(const struct partitions *p, const char *worker)
{
	struct partition *const *found =
		bsearch(worker, p->by_name, p->count, sizeof *p->by_name, partitions_is_of);
	return found ? (size_t)(*found - p->partition) : p->count;
}

/* ---- the ring ---- */

static int partitions_reserve(struct partition *part, size_t more)
{
	return GROW(part->run, part->room, part->count + more);
}

int partition_prepare(struct partition *part)
{
	return partitions_reserve(part, 2);
}

static void insert(struct partition *part, size_t at, struct partition_run run)
{
	memmove(part->run + at + 1, part->run + at, (part->count - at) * sizeof run);
	part->run[at] = run;
	part->count++;
}

static void cut_out(struct partition *part, size_t at)
{
	part->count--;
	memmove(part->run + at, part->run + at + 1, (part->count - at) * sizeof *part->run);
}

/* Appends a run to the ring. It is joined with the last run if that was handed out in this
 * pass, too, ends where this one begins, and was handed out as often. */
static void partitions_push(struct partition *part, struct partition_run run)
{
	struct partition_run *last = part->count > 0 ? &part->run[part->count - 1] : NULL;
	if (last && part->left < part->rows && last->begin + last->length == run.begin &&
	    last->times == run.times)
		last->length += run.length;
	else
		insert(part, part->count, run);
}

static void partitions_turn(struct partition *part)
{
	if (part->left > 0 || part->rows == 0)
		return;
	part->left = part->rows;
	part->passes++;
}

int partition_append(struct partition *part, uint64_t begin, uint64_t length, uint64_t times)
{
	if (partitions_reserve(part, 1) != 0)
		return -1;
	insert(part, part->count, (struct partition_run){begin, length, times});
	part->rows += length;
	return 0;
}

/* The run that comes next: usually the first. If the whole budget is reserved, it is the first run
 * that was never handed out; since a move it may be behind others. */
static size_t next_run(const struct partitions *p, const struct partition *part)
{
	size_t i = 0;
	while (p->budget == p->unseen && i < part->count && part->run[i].times > 0)
		i++;
	return i;
}

uint64_t partition_offer(const struct partitions *p, const struct partition *part, uint64_t max)
{
	size_t next = next_run(p, part);
	if (next == part->count)
		return 0;
	const struct partition_run *run = &part->run[next];
	uint64_t n = max < run->length ? max : run->length;
	uint64_t free_budget = run->times == 0 ? p->budget : p->budget - p->unseen;
	if (n > part->left)
		n = part->left;
	return n < free_budget ? n : free_budget;
}

uint64_t partition_take(struct partitions *p, struct partition *part, uint64_t n)
{
	size_t next = next_run(p, part);
	struct partition_run *run = &part->run[next];
	struct partition_run taken = {run->begin, n, run->times + 1};
	p->unseen -= run->times == 0 ? n : 0;
	p->budget -= n;
	p->begun++;
	run->begin += n;
	run->length -= n;
	if (run->length == 0)
		cut_out(part, next);
	partitions_push(part, taken);
	part->left -= n;
	part->given += n;
	partitions_turn(part);
	return taken.begin;
}

/* ---- moves ---- */

struct partition_move *partitions_move(const struct partitions *p, uint64_t id)
{
	for (size_t i = 0; i < p->moves; i++)
		if (p->move[i].id == id)
			return &p->move[i];
	return NULL;
}

static uint64_t rows_within(const struct partition *part, uint64_t begin, uint64_t end)
{
	uint64_t rows = 0;
	for (size_t i = 0; i < part->count; i++) {
		const struct partition_run *run = &part->run[i];
		uint64_t lo = run->begin > begin ? run->begin : begin;
		uint64_t hi = run->begin + run->length < end ? run->begin + run->length : end;
		rows += lo < hi ? hi - lo : 0;
	}
	return rows;
}

int partitions_may_move(const struct partitions *p, const struct partition_move *m)
{
	uint64_t end;
	if (m->from >= p->count || m->to >= p->count || m->from == m->to || m->length == 0 ||
	    m->id < p->next_move || __builtin_add_overflow(m->begin, m->length, &end))
		return 0;
	for (size_t i = 0; i < p->moves; i++)
		if (p->move[i].begin < end && m->begin < p->move[i].begin + p->move[i].length)
			return 0;
	return rows_within(&p->partition[m->from], m->begin, end) == m->length &&
	       p->partition[m->from].rows > m->length;
}

int partitions_plan(struct partitions *p, const struct partition_move *move)
{
	if (GROW(p->move, p->move_room, p->moves + 1) != 0)
		return -1;
	p->move[p->moves++] = *move;
	if (p->next_move <= move->id)
		p->next_move = move->id + 1;
	return 0;
}

void partitions_drop(struct partitions *p, struct partition_move *move)
{
	size_t behind = p->moves - (size_t)(move - p->move) - 1;
	memmove(move, move + 1, behind * sizeof *move);
	p->moves--;
	for (size_t i = 0; p->moves == 0 && i < p->count; i++)
		p->partition[i].given = 0;
}

static int partitions_by_begin(const void *a, const void *b)
{
	const struct partition_run *x = a, *y = b;
	return (x->begin > y->begin) - (x->begin < y->begin);
}

/* A part of a stretch of rows, and where it belongs: at (2 * number + 1) / (2 * of) of the ring. */
struct slice {
	struct partition_run run;
	uint64_t number, of;
};

static int by_place(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;
	uint64_t left = (2 * x->number + 1) * y->of, right = (2 * y->number + 1) * x->of;
	if (left != right)
		return (left > right) - (left < right);
	return partitions_by_begin(&x->run, &y->run);
}

static size_t slice_up(const struct partition_run *run, uint64_t grain, struct slice *out)
{
	uint64_t count = run->length / grain;
	count = count < 1 ? 1 : count > SLICES_MAX ? SLICES_MAX : count;
	struct partition_run left = *run;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t n = left.length / (count - i);
		out[i] = (struct slice){{left.begin, n, left.times}, i, count};
		left.begin += n;
		left.length -= n;
	}
	return (size_t)count;
}

/* Spreads runs first..end-1 anew. Runs with consecutive rows are joined, so that rings do not
 * crumble; then each stretch is spread evenly over the whole. slice and the ring have room for
 * SLICES_MAX for each run. Returns how many runs there are now. */
static size_t partitions_spread(struct partition *part, size_t first, size_t end, uint64_t grain,
				struct slice *slice)
{
	struct partition_run *run = part->run + first;
	size_t stretches = 0, slices = 0, behind = part->count - end;
	qsort(run, end - first, sizeof *run, partitions_by_begin);
	for (size_t i = 0; i < end - first; i++) {
		struct partition_run *last = stretches > 0 ? &run[stretches - 1] : NULL;
		if (last && last->begin + last->length == run[i].begin &&
		    last->times == run[i].times)
			last->length += run[i].length;
		else
			run[stretches++] = run[i];
	}
	for (size_t i = 0; i < stretches; i++)
		slices += slice_up(&run[i], grain, slice + slices);
	qsort(slice, slices, sizeof *slice, by_place);
	memmove(run + slices, part->run + end, behind * sizeof *run);
	for (size_t i = 0; i < slices; i++)
		run[i] = slice[i].run;
	part->count = first + slices + behind;
	return slices;
}

/* Puts a run into the receiver's ring, whose first *ahead runs are still of its pass. */
static void partitions_receive(struct partition *to, struct partition_run run, int is_ahead,
			       size_t *ahead)
{
	insert(to, is_ahead ? (*ahead)++ : to->count, run);
	to->rows += run.length;
	to->left += is_ahead ? run.length : 0;
}

static size_t runs_ahead(const struct partition *part)
{
	uint64_t before = 0;
	size_t at = 0;
	while (at < part->count && before < part->left)
		before += part->run[at++].length;
	return at;
}

/* Takes the rows of [begin, end) that are in the giver's run `at` out of it. Returns how many. */
static uint64_t carve(struct partition *from, size_t at, uint64_t begin, uint64_t end,
		      struct partition_run *out)
{
	struct partition_run *run = &from->run[at];
	uint64_t lo = run->begin > begin ? run->begin : begin, run_end = run->begin + run->length;
	uint64_t hi = run_end < end ? run_end : end;
	if (lo >= hi)
		return 0;
	*out = (struct partition_run){lo, hi - lo, run->times};
	struct partition_run behind = {hi, run_end - hi, run->times};
	run->length = lo - run->begin;
	if (behind.length > 0)
		insert(from, at + 1, behind);
	if (from->run[at].length == 0)
		cut_out(from, at);
	return out->length;
}

int partitions_commit(struct partitions *p, struct partition_move *move)
{
	struct partition *from = &p->partition[move->from], *to = &p->partition[move->to];
	size_t most = SLICES_MAX * (from->count + to->count + 2), to_ahead = runs_ahead(to);
	struct slice *slice = malloc(most * sizeof *slice);
	if (!slice || partitions_reserve(from, 2) != 0 || partitions_reserve(to, most) != 0) {
		free(slice);
		return -1;
	}
	uint64_t end = move->begin + move->length, at = 0, ahead = from->left;
	for (size_t i = 0; i < from->count;) {
		struct partition_run got;
		size_t count = from->count;
		int is_ahead = at < ahead; /* a run is never on both sides */
		uint64_t n = carve(from, i, move->begin, end, &got);
		if (n == 0) {
			at += from->run[i++].length;
			continue;
		}
		at += n;
		from->rows -= n;
		from->left -= is_ahead ? n : 0;
		partitions_receive(to, got, is_ahead, &to_ahead);
		/* The rows before it in the same run stay, and have been looked at. */
		if (from->count >= count && from->run[i].begin < got.begin)
			at += from->run[i++].length;
	}
	to_ahead = partitions_spread(to, 0, to_ahead, p->grain, slice);
	partitions_spread(to, to_ahead, to->count, p->grain, slice);
	free(slice);
	partitions_turn(from);
	p->moves_done++;
	p->rows_moved += move->length;
	partitions_drop(p, move);
	return 0;
}

void partitions_roll_back(struct partitions *p, const struct partitions *replaced)
{
	if (p->next_move < replaced->next_move)
		p->next_move = replaced->next_move;
	p->migrate = replaced->migrate;
}

int partitions_are_whole(const struct partitions *p, uint64_t samples)
{
	size_t count = 0, filled = 0;
	for (size_t i = 0; i < p->count; i++)
		count += p->partition[i].count;
	struct partition_run *all = malloc((count + 1) * sizeof *all);
	if (!all)
		return -1;
	for (size_t i = 0; i < p->count; i++) {
		const struct partition *part = &p->partition[i];
		if (part->count > 0)
			memcpy(all + filled, part->run, part->count * sizeof *all);
		filled += part->count;
	}
	qsort(all, count, sizeof *all, partitions_by_begin);
	uint64_t next = 0;
	int whole = 1;
	for (size_t i = 0; i < count && whole; i++) {
		whole = all[i].begin == next && all[i].length > 0 &&
			all[i].length <= samples - next;
		next += all[i].length;
	}
	free(all);
	for (size_t i = 0; i < p->moves && whole; i++) {
		const struct partition_move *m = &p->move[i];
		whole = m->length > 0 && m->length <= samples && m->begin <= samples - m->length &&
			rows_within(&p->partition[m->from], m->begin, m->begin + m->length) ==
				m->length;
	}
	return whole && next == samples;
}

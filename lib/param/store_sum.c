/*
 * See store_sum.h.  Vectors of 16 floats are read by volatile loads, one each: compilers must not
 * look twice at memory that others write.
 */
#include "param/store_sum.h"

#include "param/store_internal.h"

#include "param/table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define LANES 16
#define PIECE ((size_t)64 << 10) /* floats that one thread takes at a time */
#define ROWS_PIECE 4096
#define ROWS_SHARED_MIN 4096 /* that are worth several threads */
#define BLOCK ((size_t)4096) /* floats of out that stay near while further sources are added */
#define TOGETHER 4           /* sources that are read side by side */
#define AHEAD 256 /* floats: memory in small pages is not fetched ahead over the end of a page */
#define APART_FLOATS_MIN ((size_t)1 << 18) /* of a sum that goes past the caches */

typedef float floats __attribute__((vector_size(64), aligned(4)));
typedef int32_t words __attribute__((vector_size(64)));

static inline floats read_once(const float *from)
{
	return *(const volatile floats *)from;
}

static inline float read_one(const float *from)
{
	return *(const volatile float *)from;
}

/* The sign bit of each lane says whether it is beyond OPT_GRADIENT_MAX: without their signs, floats
 * are ordered as their bits are, and what is no number comes last. */
static inline words beyond(floats x)
{
	const float most = OPT_GRADIENT_MAX;
	int32_t limit;

	memcpy(&limit, &most, sizeof limit);
	return limit - ((words)x & 0x7fffffff);
}

static inline int beyond_one(float x)
{
	return !(x >= -OPT_GRADIENT_MAX && x <= OPT_GRADIENT_MAX);
}

static inline int any_negative(words w)
{
	int32_t all = 0;

	for (int i = 0; i < LANES; i++)
		all |= w[i];
	return all < 0;
}

/* Whole lines past the caches are not read first. out is aligned to 64 then. */
static inline void write_sum(float *out, floats sum, int apart)
{
#ifdef __AVX512F__
	if (apart) {
		_mm512_stream_ps(out, (__m512)sum);
		return;
	}
#endif
	(void)apart;
	*(floats *)out = sum;
}

/* out = or += the weighted sum of k sources (k a constant: the loops over it vanish). Bit i of the
 * result: source i has a value that may not be. */
static inline __attribute__((always_inline)) unsigned add_sources(float *out, const float *const *g,
								  const float *weight, const int k,
								  const int first, const int apart,
								  size_t n)
{
	words bad[TOGETHER] = {{0}};
	unsigned found = 0;
	size_t i = 0;

	for (; i + LANES <= n; i += LANES) {
		floats sum;
		int j = 0;
		if (first) {
			floats x = read_once(g[0] + i);
			__builtin_prefetch(g[0] + i + AHEAD);
			bad[0] |= beyond(x);
			sum = weight[0] * x;
			j = 1;
		} else
			sum = *(floats *)(out + i);
		for (; j < k; j++) {
			floats x = read_once(g[j] + i);
			__builtin_prefetch(g[j] + i + AHEAD);
			bad[j] |= beyond(x);
			sum += weight[j] * x;
		}
		write_sum(out + i, sum, apart);
	}
	for (; i < n; i++) {
		float sum = first ? 0.0f : out[i];
		for (int j = 0; j < k; j++) {
			float x = read_one(g[j] + i);
			found |= (unsigned)beyond_one(x) << j;
			if (first && j == 0)
				sum = weight[0] * x;
			else
				sum += weight[j] * x;
		}
		out[i] = sum;
	}
	for (int j = 0; j < k; j++)
		found |= (unsigned)any_negative(bad[j]) << j;
	return found;
}

enum how { FIRST_APART, FIRST, MORE };

static unsigned add_group(float *out, const float *const *g, const float *weight, size_t k,
			  enum how how, size_t n)
{
	switch ((size_t)how * TOGETHER + k) {
	case 1:
		return add_sources(out, g, weight, 1, 1, 1, n);
	case 2:
		return add_sources(out, g, weight, 2, 1, 1, n);
	case 3:
		return add_sources(out, g, weight, 3, 1, 1, n);
	case 4:
		return add_sources(out, g, weight, 4, 1, 1, n);
	case 5:
		return add_sources(out, g, weight, 1, 1, 0, n);
	case 6:
		return add_sources(out, g, weight, 2, 1, 0, n);
	case 7:
		return add_sources(out, g, weight, 3, 1, 0, n);
	case 8:
		return add_sources(out, g, weight, 4, 1, 0, n);
	case 9:
		return add_sources(out, g, weight, 1, 0, 0, n);
	case 10:
		return add_sources(out, g, weight, 2, 0, 0, n);
	case 11:
		return add_sources(out, g, weight, 3, 0, 0, n);
	default:
		return add_sources(out, g, weight, 4, 0, 0, n);
	}
}

/* ---- dense ---- */

struct dense_job {
	const struct store *store;
	const struct store_push *push;
	size_t pushes, begin, count;
	float *out;
	int apart;            /* out is written past the caches */
	pthread_mutex_t lock; /* of bad */
	struct store_bad *bad;
};

/* Which value of a push it was. Its sender may have changed it since: then the first of the block
 * is named, with what is there now. */
static void note_bad(struct dense_job *job, size_t push, size_t at, size_t n)
{
	const float *g = job->push[push].dense + at;
	struct store_bad *bad = &job->bad[push];
	struct store_bad one = {.found = 1, .at = at, .value = read_one(g)};

	for (size_t i = 0; i < n; i++) {
		float x = read_one(g + i);
		if (beyond_one(x)) {
			one.at = at + i;
			one.value = x;
			break;
		}
	}
	pthread_mutex_lock(&job->lock);
	if (!bad->found || bad->in_rows || one.at < bad->at)
		*bad = one;
	pthread_mutex_unlock(&job->lock);
}

/* Elements at .. at + n of the vector, all updated in the same way. */
static void sum_block(struct dense_job *job, size_t at, size_t n, int add)
{
	float *out = job->out + (at - job->begin), weight[TOGETHER];
	const float *g[TOGETHER];
	size_t from[TOGETHER], k = 0;
	enum how how = FIRST;

	if (job->apart && (uintptr_t)out % 64 == 0)
		how = FIRST_APART;

	for (size_t i = 0; i <= job->pushes; i++) {
		if (k == TOGETHER || (i == job->pushes && k > 0)) {
			unsigned found = add_group(out, g, weight, k, how, n);
			for (size_t j = 0; found && j < k; j++) {
				if (found >> j & 1)
					note_bad(job, from[j], at, n);
			}
			how = MORE;
			k = 0;
		}
		if (i == job->pushes || !job->push[i].dense)
			continue;
		from[k] = i;
		g[k] = job->push[i].dense + at;
		weight[k++] = add ? 1.0f : store_weight(&job->push[i]);
	}
	if (how != MORE)
		memset(out, 0, n * sizeof *out);
}

static void sum_piece(size_t piece, void *arg)
{
	struct dense_job *job = arg;
	const struct store *s = job->store;
	size_t at = job->begin + piece * PIECE, end = job->begin + job->count;

	end = end - at > PIECE ? at + PIECE : end;
	for (size_t g = 0; g < s->segments; g++) {
		const struct segment *segment = &s->segment[g];
		size_t stop = segment->begin + segment->count;
		stop = stop < end ? stop : end;
		while (at >= segment->begin && at < stop) {
			size_t n = stop - at < BLOCK ? stop - at : BLOCK;
			sum_block(job, at, n, segment->add);
			at += n;
		}
	}
#ifdef __AVX512F__
	_mm_sfence();
#endif
}

void store_sum_dense(const struct store *s, struct team *team, const struct store_push *push,
		     size_t pushes, size_t begin, size_t count, float *out, struct store_bad *bad)
{
	struct dense_job job = {.store = s,
				.push = push,
				.pushes = pushes,
				.begin = begin,
				.count = count,
				.out = out,
				.lock = PTHREAD_MUTEX_INITIALIZER,
				.bad = bad};
	size_t sources = 0;

	for (size_t i = 0; i < pushes; i++)
		sources += push[i].dense != NULL;
	/* Further sources would have to read it again. */
	job.apart = count >= APART_FLOATS_MIN && sources <= TOGETHER;

	team_run(team, (count + PIECE - 1) / PIECE, sum_piece, &job);
	pthread_mutex_destroy(&job.lock);
}

/* ---- rows ---- */

int row_sums_reserve(const struct store *s, struct row_sums *rows, size_t count, struct error *err)
{
	if (count <= rows->room)
		return 0;
	count += count / 4;
	row_sums_free(rows);
	rows->row = malloc(count * sizeof *rows->row);
	rows->value = malloc(count * s->width * sizeof *rows->value);
	rows->room = rows->row && rows->value ? count : 0;
	return rows->room ? 0
			  : error_set(err, ERROR_OS, "rows", "out of memory for %zu rows", count);
}

void row_sums_free(struct row_sums *rows)
{
	free(rows->row);
	free(rows->value);
	*rows = (struct row_sums){0};
}

/* to = or += weight * from; where the first is that may not be, w: none. */
static size_t add_row(float *restrict to, const float *from, float weight, int first, size_t w)
{
	size_t bad = w;

	for (size_t j = 0; j < w; j++) {
		float x = read_one(from + j);
		if (beyond_one(x) && bad == w)
			bad = j;
		to[j] = first ? weight * x : to[j] + weight * x;
	}
	return bad;
}

/* The rows of all pushes, each row by the one thread whose share it is in: what a share has found
 * lies behind `most` places for each share before it. */
struct rows_job {
	const struct store_push *push;
	size_t pushes, shares, most, width;
	int add;
	struct row_sums *out;
	size_t count[TEAM_THREADS_MAX];
	pthread_mutex_t lock; /* of bad */
	struct store_bad *bad;
};

static inline size_t share_of(const float *row, size_t shares)
{
	/* Fibonacci hashing of its address. */
	uint64_t mixed = (uint64_t)(uintptr_t)row * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)((mixed >> 32) * shares >> 32);
}

static void note_bad_row(struct rows_job *job, size_t push, size_t at, float value)
{
	struct store_bad *bad = &job->bad[push];

	pthread_mutex_lock(&job->lock);
	if (!bad->found || (bad->in_rows && at < bad->at))
		*bad = (struct store_bad){.found = 1, .in_rows = 1, .at = at, .value = value};
	pthread_mutex_unlock(&job->lock);
}

static void sum_share(size_t share, void *arg)
{
	struct rows_job *job = arg;
	float **row = job->out->row + share * job->most;
	float *value = job->out->value + share * job->most * job->width;
	size_t w = job->width, count = 0;

	for (size_t k = 0; k < job->pushes; k++) {
		const struct store_push *push = &job->push[k];
		float weight = job->add ? 1.0f : store_weight(push);
		for (size_t i = 0; i < push->rows; i++) {
			const float *g = push->row_gradient + i * w;
			if (job->shares > 1 && share_of(push->row[i], job->shares) != share)
				continue;
			if (i + 16 < push->rows)
				__builtin_prefetch(push->row[i + 16] - 1, 1);
			size_t place = table_place(push->row[i], row, count);
			int first = place == count;
			count += (size_t)first;
			size_t at = add_row(value + place * w, g, weight, first, w);
			if (at < w)
				note_bad_row(job, k, i * w + at, read_one(g + at));
		}
	}
	job->count[share] = count;
}

/* Shares moved together. */
static void join_shares(struct rows_job *job)
{
	struct row_sums *out = job->out;

	out->count = job->count[0];
	for (size_t share = 1; share < job->shares; share++) {
		size_t n = job->count[share], from = share * job->most, w = job->width;
		memmove(out->row + out->count, out->row + from, n * sizeof *out->row);
		memmove(out->value + out->count * w, out->value + from * w,
			n * w * sizeof *out->value);
		out->count += n;
	}
}

int store_sum_rows(struct store *s, struct team *team, const struct store_push *push, size_t pushes,
		   struct row_sums *out, struct store_bad *bad, struct error *err)
{
	struct rows_job job = {.push = push,
			       .pushes = pushes,
			       .width = s->width,
			       .add = s->layout.has_table && s->layout.table.update == LAYOUT_ADD,
			       .out = out,
			       .lock = PTHREAD_MUTEX_INITIALIZER,
			       .bad = bad};

	for (size_t k = 0; k < pushes; k++)
		job.most += push[k].rows;
	job.shares = job.most < ROWS_SHARED_MIN ? 1 : team_threads(team);
	out->count = 0;
	/* Places that are not used take no memory. */
	if (row_sums_reserve(s, out, job.most * job.shares, err) != 0)
		return -1;
	if (job.most) {
		team_run(team, job.shares, sum_share, &job);
		join_shares(&job);
	}
	pthread_mutex_destroy(&job.lock);
	return 0;
}

/* ---- the step ---- */

struct step_job {
	struct store *store;
	const float *dense; /* of the segment */
	struct opt_step step;
	float *p;
	size_t count;
	const struct row_sums *rows;
	pthread_mutex_t lock;
	size_t held;
};

static void add_held(struct step_job *job, size_t held)
{
	if (held == 0)
		return;
	pthread_mutex_lock(&job->lock);
	job->held += held;
	pthread_mutex_unlock(&job->lock);
}

static void step_piece(size_t piece, void *arg)
{
	struct step_job *job = arg;
	size_t at = piece * PIECE, n = job->count - at < PIECE ? job->count - at : PIECE;
	float *p = job->p + at;
	float *slot[OPT_SLOTS_MAX] = {p + job->store->dense_stride,
				      p + 2 * job->store->dense_stride};

	add_held(job, opt_apply(&job->step, p, slot, job->dense + at, n));
}

static void step_rows_piece(size_t piece, void *arg)
{
	struct step_job *job = arg;
	const struct row_sums *rows = job->rows;
	size_t at = piece * ROWS_PIECE;
	size_t n = rows->count - at < ROWS_PIECE ? rows->count - at : ROWS_PIECE;

	add_held(job, store_step_rows(job->store, &job->step, rows->row + at, n,
				      rows->value + at * job->store->width));
}

void store_sum_step(struct store *s, struct team *team, const float *dense,
		    const struct row_sums *rows, double divisor, uint64_t samples)
{
	double factor = samples ? 1.0 / divisor : 0.0;
	struct step_job job = {.store = s, .rows = rows, .lock = PTHREAD_MUTEX_INITIALIZER};

	if (samples)
		s->steps++;
	for (size_t g = 0; dense && g < s->segments; g++) {
		const struct segment *segment = &s->segment[g];
		if (!samples && !segment->add)
			continue;
		job.step = store_step_of(s, segment->add, factor);
		job.p = s->dense + segment->begin;
		job.dense = dense + segment->begin;
		job.count = segment->count;
		team_run(team, (job.count + PIECE - 1) / PIECE, step_piece, &job);
	}
	int add = s->layout.has_table && s->layout.table.update == LAYOUT_ADD;
	if (rows->count && (samples || add)) {
		job.step = store_step_of(s, add, factor);
		team_run(team, (rows->count + ROWS_PIECE - 1) / ROWS_PIECE, step_rows_piece, &job);
	}
	s->held += job.held;
	pthread_mutex_destroy(&job.lock);
}

/* ---- checksums ---- */

uint64_t store_sum_checksum(const struct store *s, const float *dense, const struct row_sums *rows)
{
	uint64_t part[2] = {XXH3_64bits(dense, s->dense_count * sizeof *dense), 0};

	for (size_t i = 0; i < rows->count; i++) {
		uint32_t key = table_key(rows->row[i]);
		part[1] = XXH3_64bits_withSeed(rows->value + i * s->width,
					       s->width * sizeof *rows->value, part[1] + key);
	}
	return XXH3_64bits(part, sizeof part);
}

uint64_t store_sum_digest(const struct store *s, const struct row_sums *rows, uint64_t checksum)
{
	uint64_t part[2 + 1 + OPT_SLOTS_MAX] = {checksum, s->steps};
	size_t row_bytes = s->width * (1 + s->row_slots) * sizeof(float);

	for (size_t k = 0; k <= s->slots; k++)
		part[2 + k] = XXH3_64bits(s->dense_count > 0 ? s->dense + k * s->dense_stride : NULL,
					  s->dense_count * sizeof *s->dense);
	for (size_t i = 0; i < rows->count; i++)
		part[0] = XXH3_64bits_withSeed(rows->row[i], row_bytes, part[0]);
	return XXH3_64bits(part, sizeof part);
}

/*
 * See store_sum.h.  A vector of 16 floats is read by one volatile load: compilers must not read
 * memory twice that others write.
 */
#include "param/store_sum.h"

#include "param/store_internal.h"

#include "base/grow.h"
#include "param/table.h"

#include <math.h>
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
#define ROWS_GROUP 64
#define ROWS_SHARED_MIN 4096 /* fewer are not worth several threads */
#define BLOCK ((size_t)4096) /* floats of out that stay in the cache while more sources are added */
#define TOGETHER 4           /* sources that are read side by side */
#define AHEAD 256 /* floats; the hardware does not prefetch beyond the end of a small page */
#define APART_FLOATS_MIN ((size_t)1 << 18) /* a sum of so many is written past the caches */

typedef float floats __attribute__((vector_size(64), aligned(4)));
typedef int32_t words __attribute__((vector_size(64)));

static inline floats store_sum_read_once(const float *from)
{
	return *(const volatile floats *)from;
}

static inline float store_sum_read_one(const float *from)
{
	return *(const volatile float *)from;
}

/* The sign bit of each lane says whether its float is beyond OPT_GRADIENT_MAX. Without their sign,
 * floats are ordered as their bits are, and NaNs come last. */
static inline words store_sum_beyond(floats x)
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

/* Past the caches, whole lines are written without reading them first. Then out is aligned to
 * 64. */
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

/* out = (first) or += the weighted sum of k sources. k is a constant, so the compiler unrolls the
 * loops over it. Bit i of the result: source i has a value that is not allowed. */
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
			floats x = store_sum_read_once(g[0] + i);
			__builtin_prefetch(g[0] + i + AHEAD);
			bad[0] |= store_sum_beyond(x);
			sum = weight[0] * x;
			j = 1;
		} else
			sum = *(floats *)(out + i);
		for (; j < k; j++) {
			floats x = store_sum_read_once(g[j] + i);
			__builtin_prefetch(g[j] + i + AHEAD);
			bad[j] |= store_sum_beyond(x);
			sum += weight[j] * x;
		}
		write_sum(out + i, sum, apart);
	}
	for (; i < n; i++) {
		float sum = first ? 0.0f : out[i];
		for (int j = 0; j < k; j++) {
			float x = store_sum_read_one(g[j] + i);
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

static unsigned store_sum_add_group(float *out, const float *const *g, const float *weight,
				    size_t k, enum how how, size_t n)
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

/* ---- what is added up ---- */

struct pushes {
	const struct store_push *push;
	size_t count;
	struct store_bad *bad; /* NULL: they were judged before */
	pthread_mutex_t lock;  /* of bad */
};

/* Finds out which of n values of a push is bad. Its sender may have changed it since: then the
 * first of the n is named, with its present value. */
static void note_bad(struct pushes *pushes, size_t push, int in_rows, size_t at, size_t n)
{
	const struct store_push *from = &pushes->push[push];
	const float *g = (in_rows ? from->row_gradient : from->dense) + at;
	struct store_bad *bad = pushes->bad ? &pushes->bad[push] : NULL;
	size_t i = 0, infinite;

	if (!bad)
		return;
	while (i < n && !beyond_one(store_sum_read_one(g + i)))
		i++;
	for (infinite = i; infinite < n && isfinite(store_sum_read_one(g + infinite));)
		infinite++;
	i = i < n ? i : 0;
	pthread_mutex_lock(&pushes->lock);
	int is_infinite = bad->is_infinite || infinite < n;
	if (!bad->found || in_rows < bad->in_rows || (in_rows == bad->in_rows && at + i < bad->at))
		*bad = (struct store_bad){1, in_rows, at + i, store_sum_read_one(g + i), 0};
	bad->is_infinite = is_infinite;
	pthread_mutex_unlock(&pushes->lock);
}

/* ---- dense ---- */

struct dense_job {
	const struct store *store;
	struct pushes *pushes;
	size_t begin, count;
	float *out;
	int apart; /* out is written past the caches */
};

/* Sums elements at .. at+n-1 of the range, which are all updated in the same way. */
static void sum_block(struct pushes *pushes, size_t at, size_t n, int add, enum how how,
		      float *out)
{
	const float *g[TOGETHER];
	float weight[TOGETHER];
	size_t from[TOGETHER], k = 0;

	for (size_t i = 0; i <= pushes->count; i++) {
		if (k == TOGETHER || (i == pushes->count && k > 0)) {
			unsigned found = store_sum_add_group(out, g, weight, k, how, n);
			for (size_t j = 0; found && j < k; j++) {
				if (found >> j & 1)
					note_bad(pushes, from[j], 0, at, n);
			}
			how = MORE;
			k = 0;
		}
		if (i == pushes->count || !pushes->push[i].dense)
			continue;
		from[k] = i;
		g[k] = pushes->push[i].dense + at;
		weight[k++] = add ? 1.0f : (float)store_weight(&pushes->push[i]);
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
			float *out = job->out + (at - job->begin);
			int apart = job->apart && (uintptr_t)out % 64 == 0;
			sum_block(job->pushes, at, n, segment->add, apart ? FIRST_APART : FIRST, out);
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
	struct pushes all = {push, pushes, bad, PTHREAD_MUTEX_INITIALIZER};
	struct dense_job job = {
		.store = s, .pushes = &all, .begin = begin, .count = count, .out = out};
	size_t sources = 0;

	for (size_t i = 0; i < pushes; i++)
		sources += push[i].dense != NULL;
	/* More sources would have to read out again. */
	job.apart = count >= APART_FLOATS_MIN && sources <= TOGETHER;

	team_run(team, (count + PIECE - 1) / PIECE, sum_piece, &job);
	pthread_mutex_destroy(&all.lock);
}

/* ---- rows ---- */

static int rows_are_added(const struct store *s)
{
	return s->layout.has_table && s->layout.table.update == LAYOUT_ADD;
}

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

/* For values that were judged before, in memory that nobody writes: they may be read twice. */
static inline void add_judged(float *restrict to, const float *restrict from, float weight,
			      enum how how, size_t w)
{
	for (size_t i = 0; how == FIRST && i < w; i++)
		to[i] = weight * from[i];
	for (size_t i = 0; how == MORE && i < w; i++)
		to[i] += weight * from[i];
}

static inline unsigned store_sum_add_row(float *to, const float *from, float weight, enum how how,
					 size_t w)
{
	unsigned found = 0;

	if (w >= LANES)
		return store_sum_add_group(to, &from, &weight, 1, how, w);
	for (size_t i = 0; i < w; i++) {
		float x = store_sum_read_one(from + i);
		found |= (unsigned)beyond_one(x);
		to[i] = how == FIRST ? weight * x : to[i] + weight * x;
	}
	return found;
}

/* Sums the rows of all pushes. Each row belongs to one share, and one thread does a share. Share i
 * puts its rows behind place i * most of `out`. */
struct rows_job {
	struct pushes pushes;
	size_t shares, most, width;
	int add;
	struct row_sums *out;
	size_t count[TEAM_THREADS_MAX];
};

static inline size_t share_of(const float *row, size_t shares)
{
	/* Fibonacci hashing of the row's address (Knuth, volume 3, 6.4). */
	uint64_t mixed = (uint64_t)(uintptr_t)row * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)((mixed >> 32) * shares >> 32);
}

static void sum_share(size_t share, void *arg)
{
	struct rows_job *job = arg;
	float **row = job->out->row + share * job->most;
	float *value = job->out->value + share * job->most * job->width;
	size_t w = job->width, count = 0;

	for (size_t k = 0; k < job->pushes.count; k++) {
		const struct store_push *push = &job->pushes.push[k];
		float weight = job->add ? 1.0f : (float)store_weight(push);
		for (size_t i = 0; i < push->rows; i++) {
			const float *g = push->row_gradient + i * w;
			if (job->shares > 1 && share_of(push->row[i], job->shares) != share)
				continue;
			if (i + 16 < push->rows)
				__builtin_prefetch(push->row[i + 16] - 1, 1);
			size_t place = table_place(push->row[i], row, count);
			enum how how = place == count ? FIRST : MORE;
			count += place == count;
			if (!job->pushes.bad)
				add_judged(value + place * w, g, weight, how, w);
			else if (store_sum_add_row(value + place * w, g, weight, how, w))
				note_bad(&job->pushes, k, 1, i * w, w);
		}
	}
	job->count[share] = count;
}

/* Moves the shares together, so that no gaps are left. */
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
	struct rows_job job = {.pushes = {push, pushes, bad, PTHREAD_MUTEX_INITIALIZER},
			       .width = s->width,
			       .add = rows_are_added(s),
			       .out = out};

	for (size_t k = 0; k < pushes; k++)
		job.most += push[k].rows;
	job.shares = job.most < ROWS_SHARED_MIN ? 1 : team_threads(team);
	out->count = 0;
	/* Memory that is never written costs nothing. */
	if (row_sums_reserve(s, out, job.most * job.shares, err) != 0)
		return -1;
	if (job.most) {
		team_run(team, job.shares, sum_share, &job);
		join_shares(&job);
	}
	pthread_mutex_destroy(&job.pushes.lock);
	return 0;
}

/* ---- the step ---- */

/* What one step is made with. If there is only one push, its gradients are used as they lie, and
 * its weight goes into the factor. */
struct step {
	struct store *store;
	int samples;           /* 0: there is no mean, and only what is plainly added changes */
	uint64_t delay;
	const float *dense;    /* of the whole range; or NULL, and */
	struct pushes *pushes; /* the pushes to be summed; both NULL: nothing dense */
	double dense_factor;
	float *const *row;
	const float *gradient;
	size_t rows;
	double row_factor;
	struct changes *changes; /* with one thread only; or NULL */

	const struct segment *segment; /* the one in work */
	struct opt_step opt;
	pthread_mutex_t lock;
	size_t held; /* values, at a bound */
};

static struct opt_step step_of(const struct store *s, int add, double factor, uint64_t delay)
{
	struct opt plain = {.kind = OPT_ADD};
	struct opt_step step;

	opt_step_begin(&step, add ? &plain : &s->opt, factor, s->steps, delay);
	return step;
}

static void add_held(struct step *step, size_t held)
{
	if (held == 0)
		return;
	pthread_mutex_lock(&step->lock);
	step->held += held;
	pthread_mutex_unlock(&step->lock);
}

/* Block by block where there are pushes, so that their sum stays in the first cache. */
static void step_piece(size_t piece, void *arg)
{
	struct step *step = arg;
	const struct segment *segment = step->segment;
	size_t at = segment->begin + piece * PIECE, end = segment->begin + segment->count, n;
	size_t stride = step->store->dense_stride, block = step->dense ? PIECE : OPT_BLOCK;
	float sum[OPT_BLOCK];
	size_t held = 0;

	for (end = end - at < PIECE ? end : at + PIECE; at < end; at += n) {
		float *p = step->store->dense + at;
		float *slot[OPT_SLOTS_MAX] = {p + stride, p + 2 * stride};
		n = end - at < block ? end - at : block;
		if (!step->dense)
			sum_block(step->pushes, at, n, segment->add, FIRST, sum);
		held += opt_apply(&step->opt, p, slot, step->dense ? step->dense + at : sum, n);
	}
	add_held(step, held);
}

static void step_rows_piece(size_t piece, void *arg)
{
	struct step *step = arg;
	const struct store *s = step->store;
	size_t begin = piece * ROWS_PIECE, held = 0;
	size_t n = step->rows - begin < ROWS_PIECE ? step->rows : begin + ROWS_PIECE;
	uint32_t generation = table_generation(s->table);
	struct changes *c = step->changes;

	for (size_t at = begin; at < n; at += ROWS_GROUP) {
		size_t len = n - at < ROWS_GROUP ? n - at : ROWS_GROUP;
		size_t next = at + 2 * ROWS_GROUP < n ? at + 2 * ROWS_GROUP : n;
		for (size_t i = at + ROWS_GROUP; i < next; i++)
			store_prefetch(step->row[i], s->width * (1 + s->row_slots));
		for (size_t i = at; i < at + len; i++) {
			if (c && table_touched(step->row[i]) <= c->since)
				c->row[c->rows++] = step->row[i];
			table_touch(step->row[i], generation);
		}
		held += opt_apply_rows(&step->opt, step->row + at, len, s->width,
				       step->gradient + at * s->width);
	}
	add_held(step, held);
}

static void make_step(struct step *step, struct team *team)
{
	struct store *s = step->store;
	int add = rows_are_added(s);

	pthread_mutex_init(&step->lock, NULL);
	if (step->samples)
		s->steps++;
	for (size_t g = 0; (step->dense || step->pushes) && g < s->segments; g++) {
		step->segment = &s->segment[g];
		if (!step->samples && !step->segment->add)
			continue;
		step->opt = step_of(s, step->segment->add, step->dense_factor, step->delay);
		team_run(team, (step->segment->count + PIECE - 1) / PIECE, step_piece, step);
	}
	if (step->rows && (step->samples || add)) {
		step->opt = step_of(s, add, step->row_factor, step->delay);
		team_run(team, (step->rows + ROWS_PIECE - 1) / ROWS_PIECE, step_rows_piece, step);
	}
	s->held += step->held;
	pthread_mutex_destroy(&step->lock);
}

void store_sum_step(struct store *s, struct team *team, const float *dense,
		    const struct row_sums *rows, double divisor, uint64_t samples)
{
	double factor = samples ? 1.0 / divisor : 0.0;
	struct step step = {.store = s,
			    .samples = samples > 0,
			    .dense = dense,
			    .dense_factor = factor,
			    .row = rows->row,
			    .gradient = rows->value,
			    .rows = rows->count,
			    .row_factor = factor};

	make_step(&step, team);
}

int store_apply(struct store *s, const struct store_push *push, size_t pushes, struct error *err)
{
	struct pushes all = {.push = push, .count = pushes};
	struct step step = {.store = s};
	double count = 0.0; /* a double can't wrap to 0, whatever counts clients send */
	size_t with_dense = 0, with_rows = 0;

	for (size_t i = 0; i < pushes; i++) {
		count += (double)store_divisor(&push[i]);
		step.samples |= push[i].count > 0;
		step.delay = push[i].delay > step.delay ? push[i].delay : step.delay;
		with_dense += push[i].dense != NULL;
		with_rows += push[i].rows > 0;
	}
	/* A unit without samples has no mean; what is plainly added (the audit model) is applied
	 * all the same. */
	step.dense_factor = step.row_factor = step.samples ? 1.0 / count : 0.0;
	if (with_dense > 1)
		step.pushes = &all;
	for (size_t i = 0; i < pushes; i++) {
		if (push[i].dense && with_dense == 1) {
			step.dense = push[i].dense;
			step.dense_factor *= (double)(float)store_weight(&push[i]);
		}
		if (push[i].rows && with_rows == 1) {
			step.row = push[i].row;
			step.gradient = push[i].row_gradient;
			step.rows = push[i].rows;
			step.row_factor *= store_weight(&push[i]);
		}
	}
	/* Several pushes may touch the same rows: their gradients are summed first, and one step is
	 * made. */
	if (with_rows > 1) {
		if (store_sum_rows(s, NULL, push, pushes, &s->sums, NULL, err) != 0)
			return -1;
		step.row = s->sums.row;
		step.gradient = s->sums.value;
		step.rows = s->sums.count;
	}
	if (s->changes.since) {
		step.changes = &s->changes;
		if (GROW(s->changes.row, s->changes.room, s->changes.rows + step.rows) != 0)
			return error_set(err, ERROR_OS, "rows", "out of memory");
	}
	make_step(&step, NULL);
	return 0;
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

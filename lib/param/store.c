/*
 * The parameters of one server, and one step of the optimiser on them.  A unit passes over the
 * dense range once, block by block.  Rows are found when a push is staged, so that applying only
 * follows pointers.
 *
 * Never decides what is applied, never touches a socket.
 */
#include "param/store_internal.h"

#include "base/team.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define APART_BYTES_MIN ((size_t)1 << 20) /* smaller copies are faster through the caches */
#define ROWS_GROUP 64
#define KEYS_GROUP 1024
#define COPY_GROUP 4096 /* floats */
#define FREEZE_FLOATS ((size_t)1 << 20) /* one thread copies so many at a time */
#define INIT_FLOATS ((size_t)1 << 20)   /* one thread makes so many at a time */
#define PAGE_FLOATS ((size_t)4096 / sizeof(float))

/* ---- making ---- */

static void init_row(uint32_t key, float *row, void *arg)
{
	struct store *s = arg;
	float *slot[OPT_SLOTS_MAX] = {row + s->width, row + 2 * s->width};

	if (s->bare)
		return;
	layout_init_row(&s->layout, key, row);
	if (s->row_slots)
		opt_init(&s->opt, row, slot, s->width);
}

void store_cut_segments(struct store *s)
{
	uint64_t end = s->dense_begin + s->dense_count;

	s->segments = 0;
	for (size_t i = 0; i < s->layout.count; i++) {
		const struct layout_tensor *t = &s->layout.tensor[i];
		uint64_t from = t->begin, to = t->begin + t->rows * t->cols;
		int add = t->update == LAYOUT_ADD;
		if (from < s->dense_begin)
			from = s->dense_begin;
		if (to > end)
			to = end;
		if (from >= to)
			continue;
		struct segment *last = s->segments ? &s->segment[s->segments - 1] : NULL;
		if (last && last->add == add) {
			last->count += (size_t)(to - from);
			continue;
		}
		s->segment[s->segments++] =
			(struct segment){(size_t)(from - s->dense_begin), (size_t)(to - from), add};
	}
}

/* Reserves addresses only: memory comes with store_open_room(). */
static int reserve_room(struct store *s, uint64_t begin, uint64_t end, struct error *err)
{
	size_t floats, bytes, shift;
	void *memory;

	/* Whole pages, because the parameters alone may lie in shared memory. This part's range
	 * begins with a page. */
	s->dense_stride = (size_t)((end - begin + PAGE_FLOATS - 1) / PAGE_FLOATS * PAGE_FLOATS);
	shift = (PAGE_FLOATS - (size_t)(s->dense_begin - begin) % PAGE_FLOATS) % PAGE_FLOATS;
	if (shift)
		s->dense_stride += PAGE_FLOATS;
	if (__builtin_mul_overflow(s->dense_stride, 1 + s->slots, &floats) ||
	    __builtin_mul_overflow(floats, sizeof(float), &bytes))
		return error_set(err, ERROR_OS, "dense", "too large");
	memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return error_errno(err, ERROR_OS, "dense", "%zu bytes", bytes);
	s->memory = memory;
	s->dense_bytes = bytes;
	s->room = s->memory;
	s->room += shift;
	s->room_begin = begin;
	s->room_end = end;
	return 0;
}

int store_open_room(struct store *s, uint64_t begin, uint64_t end, struct error *err)
{
	if (begin >= end)
		return 0;
	if (begin < s->room_begin || end > s->room_end)
		return error_set(err, ERROR_OS, "dense", "no addresses for more parameters");
	for (size_t k = 0; k <= s->slots; k++) {
		float *first = store_dense_at(s, (int)k - 1, begin);
		uintptr_t at = (uintptr_t)first / 4096 * 4096;
		size_t bytes = (uintptr_t)(first + (end - begin)) - at;
		void *pages = (void *)at;
		if (mprotect(pages, bytes, PROT_READ | PROT_WRITE) != 0)
			return error_errno(err, ERROR_OS, "dense", "%zu bytes", bytes);
		/* Advice only: without huge pages it is slower, not wrong. */
		(void)madvise(pages, bytes, MADV_HUGEPAGE);
	}
	return 0;
}

void store_warm(struct store *s, uint64_t begin, uint64_t end)
{
	for (size_t k = 0; begin < end && k <= s->slots; k++) {
		float *first = store_dense_at(s, (int)k - 1, begin);
		uintptr_t at = (uintptr_t)first / 4096 * 4096;
		(void)madvise((void *)at, (uintptr_t)(first + (end - begin)) - at,
			      MADV_POPULATE_WRITE);
	}
}

void store_populate(struct store *s)
{
	store_warm(s, s->dense_begin, s->dense_begin + s->dense_count);
}

static int make_dense(struct store *s, struct error *err)
{
	uint64_t begin = s->map.dense_begin[s->part], end = s->map.dense_begin[s->part + 1];
	uint64_t all = s->map.dense_begin[s->map.parts];
	struct error ignored;

	s->dense_begin = begin;
	s->dense_count = (size_t)(end - begin);
	if (all == 0)
		return 0;
	/* If there are no addresses for the whole vector, the store gets what it needs and can't
	 * grow. */
	if (reserve_room(s, 0, all, &ignored) != 0 && begin < end &&
	    reserve_room(s, begin, end, err) != 0)
		return -1;
	if (s->room)
		s->dense = s->room + (begin - s->room_begin);
	return store_open_room(s, begin, end, err);
}

static void init_piece(size_t piece, void *arg)
{
	struct store *s = arg;
	size_t from = piece * INIT_FLOATS, left = s->dense_count - from;
	size_t count = left < INIT_FLOATS ? left : INIT_FLOATS;
	float *slot[OPT_SLOTS_MAX];

	for (size_t k = 0; k < OPT_SLOTS_MAX; k++)
		slot[k] = s->dense + (k + 1) * s->dense_stride + from;
	layout_init_dense(&s->layout, s->dense_begin + from, count, s->dense + from);
	opt_init(&s->opt, s->dense + from, slot, count);
}

/* A value takes some 30 ns: 100 GB would take one thread a quarter of an hour, in which the server
 * does not listen. Without a team it does all by itself. */
static void init_dense(struct store *s)
{
	size_t pieces = (s->dense_count - 1) / INIT_FLOATS + 1;
	unsigned cores = team_cores();
	struct team *team = NULL;

	if (pieces > 1 && cores > 1)
		(void)team_new(&team, cores < TEAM_THREADS_MAX ? cores : TEAM_THREADS_MAX, NULL);
	team_run(team, pieces, init_piece, s);
	team_free(team);
}

static int make_table(struct store *s, struct error *err)
{
	return table_new(&s->table, s->width, s->row_slots, init_row, s, err);
}

int store_new(struct store **out, const struct layout *layout, const struct map *map, uint32_t part,
	      const struct opt *opt, struct error *err)
{
	if (store_new_bare(out, layout, map, part, opt, err) != 0)
		return -1;
	if ((*out)->dense_count)
		init_dense(*out);
	return 0;
}

int store_new_bare(struct store **out, const struct layout *layout, const struct map *map,
		   uint32_t part, const struct opt *opt, struct error *err)
{
	struct store *s = calloc(1, sizeof *s);

	if (!s)
		return error_set(err, ERROR_OS, "store", "out of memory");
	s->layout = *layout;
	s->map = *map;
	s->part = part;
	s->opt = *opt;
	s->slots = opt_slots(opt);
	s->shared_fd = -1;
	if (make_dense(s, err) != 0)
		goto failed;
	store_cut_segments(s);
	if (layout->has_table) {
		s->width = layout->table.width;
		s->row_slots = layout->table.update == LAYOUT_ADD ? 0 : s->slots;
		if (make_table(s, err) != 0)
			goto failed;
	}
	*out = s;
	return 0;
failed:
	store_free(s);
	return -1;
}

void store_free(struct store *s)
{
	if (!s)
		return;
	if (s->memory)
		munmap(s->memory, s->dense_bytes);
	if (s->shared_fd >= 0)
		close(s->shared_fd);
	store_thaw(s);
	store_forget_places(s);
	table_free(s->table);
	row_sums_free(&s->sums);
	store_end_changes(s);
	free(s);
}

int store_empty(struct store *s, struct error *err)
{
	struct table *before = s->table;

	if (before && make_table(s, err) != 0)
		return -1;
	store_forget_places(s);
	table_free(before);
	s->steps = 0;
	return 0;
}

/* ---- shared with readers ---- */

static int seal(int fd, struct error *err)
{
	/* It was mapped for writing before, here. From now on nobody can map it so. */
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0)
		return 0;
	return error_errno(err, ERROR_OS, "dense", "memory can't be sealed (Linux 5.1 is needed)");
}

int store_share(struct store *s, struct error *err)
{
	size_t bytes = s->dense_stride * sizeof *s->dense;
	float *before = s->dense_count ? malloc(bytes) : NULL;
	int fd, rc = -1;

	if (s->shared_fd >= 0 || s->dense_count == 0)
		return 0;
	if (!before)
		return error_set(err, ERROR_OS, "dense", "out of memory");
	memcpy(before, s->dense, bytes);
	fd = memfd_create("paceline-parameters", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
		error_errno(err, ERROR_OS, "dense", "%zu bytes of shared memory", bytes);
	else if (mmap(s->dense, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		 MAP_FAILED)
		error_errno(err, ERROR_OS, "dense", "%zu bytes of shared memory", bytes);
	else
		rc = seal(fd, err);
	if (rc == 0) {
		(void)madvise(s->dense, bytes, MADV_HUGEPAGE);
		memcpy(s->dense, before, bytes);
		s->shared_fd = fd;
	} else if (fd >= 0)
		close(fd);
	free(before);
	return rc;
}

int store_shared_fd(const struct store *s)
{
	return s->shared_fd;
}

static void freeze_piece(size_t piece, void *store)
{
	struct store *s = store;
	size_t at = piece * FREEZE_FLOATS, n = s->dense_stride - at;

	memcpy(s->frozen + at, s->dense + at,
	       (n < FREEZE_FLOATS ? n : FREEZE_FLOATS) * sizeof *s->dense);
}

int store_freeze(struct store *s, struct team *team, struct error *err)
{
	size_t bytes = s->dense_stride * sizeof *s->dense;

	if (s->shared_fd < 0 || s->frozen)
		return 0;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return error_errno(err, ERROR_OS, "dense", "%zu bytes", bytes);
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	s->frozen = memory;
	team_run(team, (s->dense_stride + FREEZE_FLOATS - 1) / FREEZE_FLOATS, freeze_piece, s);
	return 0;
}

void store_thaw(struct store *s)
{
	if (s->frozen)
		munmap(s->frozen, s->dense_stride * sizeof *s->dense);
	s->frozen = NULL;
}

const struct map *store_map(const struct store *s)
{
	return &s->map;
}

uint32_t store_part(const struct store *s)
{
	return s->part;
}

uint64_t store_dense_begin(const struct store *s)
{
	return s->dense_begin;
}

size_t store_dense_count(const struct store *s)
{
	return s->dense_count;
}

size_t store_slots(const struct store *s)
{
	return s->slots;
}

size_t store_width(const struct store *s)
{
	return s->width;
}

size_t store_row_count(const struct store *s)
{
	return s->table ? table_count(s->table) : 0;
}

void store_dense_name(const struct store *s, size_t i, char *out, size_t max)
{
	uint64_t at = s->dense_begin + i;
	const struct layout_tensor *t = s->layout.tensor;

	while (t + 1 < s->layout.tensor + s->layout.count && t[1].begin <= at)
		t++;
	snprintf(out, max, "%s[%llu]", t->name, (unsigned long long)(at - t->begin));
}

/* ---- reading ---- */

static int store_check_key(const struct store *s, uint32_t key, struct error *err)
{
	uint64_t bound = s->layout.table.rows;

	if (bound && key >= bound)
		return error_set(err, ERROR_DATA, "keys", "%u is beyond the table's %llu rows", key,
				 (unsigned long long)bound);
	uint32_t part = map_part_of_key(&s->map, key);
	if (part != s->part)
		return error_set(err, ERROR_DATA, "keys", "%u is of part %u, this is part %u", key,
				 part, s->part);
	return 0;
}

int store_rows(struct store *s, const uint32_t *key, size_t n, int unique, float **row,
	       struct error *err)
{
	uint64_t bound = s->layout.table.rows ? s->layout.table.rows : UINT64_C(1) << 32;
	uint64_t begin = s->map.key_begin[s->part], places = s->map.key_begin[s->part + 1] - begin;
	uint32_t own[KEYS_GROUP];

	if (n == 0)
		return 0;
	if (!s->table)
		return error_set(err, ERROR_DATA, "rows", "there is no table");
	for (size_t at = 0; at < n; at += KEYS_GROUP) {
		size_t len = n - at < KEYS_GROUP ? n - at : KEYS_GROUP;
		unsigned wrong = 0;
		/* A copy, because others may write to key[] meanwhile: the keys that are checked
		 * must be the ones that are looked up. */
		memcpy(own, key + at, len * sizeof *own);
		for (size_t i = 0; i < len; i++)
			wrong |= own[i] >= bound || map_place(own[i]) - begin >= places;
		for (size_t i = 0; wrong && i < len; i++) {
			if (store_check_key(s, own[i], err) != 0)
				return -1;
		}
		if (table_rows(s->table, own, len, row + at, err) != 0)
			return -1;
		for (size_t i = at; unique && i < at + len; i++) {
			if (table_place(row[i], row, i) != i)
				return error_set(err, ERROR_DATA, "keys", "%u is there twice",
						 table_key(row[i]));
		}
	}
	return 0;
}

/* Writes whole cache lines past the caches. So they are not read first, and they do not push the
 * parameters out of the caches. */
static void copy_apart(float *out, const float *in, size_t n)
{
#ifdef __AVX512F__
	size_t head = (64 - ((size_t)(uintptr_t)out & 63)) / sizeof(float) % 16;

	if (n * sizeof *in >= APART_BYTES_MIN && ((uintptr_t)out & 3) == 0) {
		memcpy(out, in, head * sizeof *in);
		size_t i = head;
		for (; i + 64 <= n; i += 64) {
			__m512 a = _mm512_loadu_ps(in + i), b = _mm512_loadu_ps(in + i + 16);
			__m512 c = _mm512_loadu_ps(in + i + 32), d = _mm512_loadu_ps(in + i + 48);
			_mm512_stream_ps(out + i, a);
			_mm512_stream_ps(out + i + 16, b);
			_mm512_stream_ps(out + i + 32, c);
			_mm512_stream_ps(out + i + 48, d);
		}
		_mm_sfence();
		memcpy(out + i, in + i, (n - i) * sizeof *in);
		return;
	}
#endif
	memcpy(out, in, n * sizeof *in);
}

#ifdef __AVX512F__
/* Judges the registers that are stored: a second read of `from` could see other values. */
static __mmask16 move_judged(float *to, const float *from)
{
	const __m512 most = _mm512_set1_ps(OPT_GRADIENT_MAX);
	__m512 a = _mm512_loadu_ps(from), b = _mm512_loadu_ps(from + 16);

	_mm512_stream_ps(to, a);
	_mm512_stream_ps(to + 16, b);
	return _mm512_cmp_ps_mask(_mm512_abs_ps(a), most, _CMP_NLE_UQ) |
	       _mm512_cmp_ps_mask(_mm512_abs_ps(b), most, _CMP_NLE_UQ);
}
#endif

size_t store_copy_judged(float *to, const float *from, size_t n)
{
	size_t at = 0;

#ifdef __AVX512F__
	/* Past the caches: a push is read when its unit is applied, not now. */
	if (n * sizeof *to >= APART_BYTES_MIN && ((uintptr_t)to & 63) == 0) {
		for (; at + 32 <= n; at += 32) {
			if (move_judged(to + at, from + at))
				break;
		}
		_mm_sfence();
		if (at + 32 <= n)
			return at + opt_bad_gradient(to + at, 32);
	}
#endif
	while (at < n) { /* a group is judged while it is in the first cache */
		size_t len = n - at < COPY_GROUP ? n - at : COPY_GROUP, bad;
		memcpy(to + at, from + at, len * sizeof *to);
		bad = opt_bad_gradient(to + at, len);
		if (bad < len)
			return at + bad;
		at += len;
	}
	return n;
}

const float *store_dense(const struct store *s)
{
	return s->dense;
}

void store_pull_dense(const struct store *s, float *out, int apart)
{
	if (s->dense_count == 0)
		return;
	if (apart)
		copy_apart(out, s->dense, s->dense_count);
	else
		memcpy(out, s->dense, s->dense_count * sizeof *out);
}

void store_pull_rows(const struct store *s, float *const *row, size_t n, float *out)
{
	if (s->width == 1) {
		for (size_t i = 0; i < n; i++)
			out[i] = *row[i];
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (i + 16 < n)
			store_prefetch(row[i + 16], s->width);
		memcpy(out + i * s->width, row[i], s->width * sizeof *out);
	}
}

void store_look_rows(const struct store *s, const uint32_t *key, size_t n, float *out)
{
	float *row[ROWS_GROUP];

	for (size_t at = 0, len; at < n; at += len) {
		len = n - at < ROWS_GROUP ? n - at : ROWS_GROUP;
		table_look(s->table, key + at, len, row);
		for (size_t i = 0; i < len; i++, out += s->width) {
			if (row[i])
				memcpy(out, row[i], s->width * sizeof *out);
			else
				layout_init_row(&s->layout, key[at + i], out);
		}
	}
}

/* ---- what pushes weigh ---- */

/* A push's weight, within the bound that makes a sum of gradients safe. A larger one comes only
 * from naive means of batches whose sizes differ a billion times. */
double store_weight(const struct store_push *push)
{
	return push->scale < OPT_WEIGHT_MAX ? push->scale : OPT_WEIGHT_MAX;
}

/* By what a mean over one push is divided. */
uint64_t store_divisor(const struct store_push *push)
{
	return push->count > push->size ? push->count : push->size;
}

uint64_t store_held(const struct store *s)
{
	return s->held;
}

static float largest(const float *g, size_t n, float most)
{
	for (size_t i = 0; i < n; i++)
		most = fabsf(g[i]) > most ? fabsf(g[i]) : most;
	return most;
}

size_t store_largest(const struct store *s, const struct store_push *push, size_t pushes)
{
	double most = -1.0;
	size_t place = 0;

	for (size_t i = 0; i < pushes; i++) {
		float g = largest(push[i].dense, push[i].dense ? s->dense_count : 0, 0.0f);
		g = largest(push[i].row_gradient, push[i].rows * s->width, g);
		if ((double)g * store_weight(&push[i]) > most) {
			most = (double)g * store_weight(&push[i]);
			place = i;
		}
	}
	return place;
}

void store_group(const struct store *s, struct store_push *push, size_t pushes)
{
	if (s->opt.kind != OPT_SGD && s->opt.kind != OPT_MOMENTUM)
		return;
	for (size_t i = 0; i < pushes; i++)
		push[i].scale *= (double)pushes;
}

void store_naive_mean(struct store_push *push, size_t pushes)
{
	double all = 0.0;
	size_t with = 0;

	for (size_t i = 0; i < pushes; i++) {
		all += (double)store_divisor(&push[i]);
		with += push[i].count > 0; /* a push without samples has no mean */
	}
	for (size_t i = 0; i < pushes; i++) {
		if (push[i].count)
			push[i].scale *=
				all / ((double)with * (double)store_divisor(&push[i]));
	}
}

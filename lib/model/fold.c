/*
 * fold: see fold.h.  Folding saves arithmetic, and costs memory traffic: one output vector for each
 * row and folded column.  So the outputs are computed in tiles of one cache line each, a tile for
 * the whole batch at a time.  Then the tile's products (or sums) of all categories stay in the
 * second cache, while the rows pick from them in any order.
 */
#include "model/fold.h"

#include "model/piece.h"

#include <stdlib.h>
#include <string.h>

#define FOLD_ROWS_MIN 512 /* for a smaller batch counting is not worth it */
#define LANES 16 /* outputs in a tile */
#define PIECES (LANES / PIECE)
#define GROUP 8  /* sums that are kept in registers */
#define AHEAD 12 /* rows */

void fold_clear(struct fold *f)
{
	struct pool *pools[] = {&f->embedding, &f->by_embedding, &f->tile, &f->weight};
	struct words *words[] = {&f->columns, &f->base, &f->slot, &f->key, &f->seen};
	for (size_t i = 0; i < sizeof(pools) / sizeof(*pools); i++)
		free(pools[i]->data);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		free(words[i]->data);
}

/* ---- which columns are folded ---- */

/* Counts the categories of column `field` and numbers them from `from` on, in the order in which
 * they come; 0: there are too many. */
static size_t count_categories(struct fold *f, uint32_t field, size_t from, size_t most)
{
	const struct model_batch *b = f->b.batch;
	size_t fields = f->b.model->spec.fields;
	uint32_t *slot = f->slot.data + f->count, *seen = f->seen.data;
	size_t found = 0;
	for (size_t i = 0; i < b->count; i++) {
		uint32_t key = b->index[b->offset[i] + field], *mine = seen + 2 * (size_t)key;
		if (mine[0] != field + 1) {
			if (found == most)
				return 0;
			mine[0] = field + 1;
			mine[1] = (uint32_t)(from + found);
			f->key.data[from + found++] = key;
		}
		slot[i * fields] = mine[1];
	}
	return found;
}

static int plan_reserve(struct fold *f, size_t most, struct error *err)
{
	const struct model_batch *b = f->b.batch;
	size_t fields = f->b.model->spec.fields, keys = 0;
	for (uint32_t k = b->offset[0]; k < b->offset[b->count]; k++)
		keys = b->index[k] >= keys ? (size_t)b->index[k] + 1 : keys;
	if (words_grow(&f->seen, 2 * keys, err) != 0 ||
	    words_grow(&f->slot, fields * b->count, err) != 0 ||
	    words_grow(&f->key, fields * most, err) != 0)
		return -1;
	memset(f->seen.data, 0, 2 * keys * sizeof(uint32_t));
	return 0;
}

/* A column is folded if it has at most so many categories for each row of the batch. Of one time of
 * the plain product, folding takes `still` + fraction * `slope`: `still` for adding up, as long for
 * embeddings of any size, and `slope` for multiplying, where by_embedding and the weights' gradient
 * have `room` floats for `embed`. With embeddings of 16 `still` is about 1/8 where products are
 * fast, and the model knows the fraction at which both take as long. */
static double fold_fraction(const struct fold *f)
{
	double embed = (double)f->embed, room = (double)f->room;
	double still = 2 / embed, slope = (embed + 2 * room) / (3 * embed);
	double fraction = f->b.model->fold_fraction * (1 - still) / (1 - 2.0 / 16) / slope;
	return fraction > 0 ? fraction : 0;
}

static int fold_plan(struct fold *f, struct error *err)
{
	uint32_t fields = f->b.model->spec.fields;
	size_t rows = f->b.batch->count, most = (size_t)((double)rows * fold_fraction(f));
	f->count = 0;
	if (words_grow(&f->columns, fields, err) != 0 || words_grow(&f->base, fields + 1, err) != 0)
		return -1;
	f->base.data[0] = 0;
	if (rows < FOLD_ROWS_MIN || most == 0 || !f->b.weight_gradient)
		return 0;
	if (plan_reserve(f, most, err) != 0)
		return -1;
	for (uint32_t i = 0; i < fields; i++) {
		size_t from = f->base.data[f->count], found = count_categories(f, i, from, most);
		if (found == 0)
			continue;
		f->columns.data[f->count++] = i;
		f->base.data[f->count] = (uint32_t)(from + found);
	}
	for (size_t i = 1; i < rows; i++) /* remove the gaps */
		memmove(f->slot.data + i * f->count, f->slot.data + i * fields,
			f->count * sizeof(uint32_t));
	return 0;
}

int fold_begin(struct fold *f, const struct first_batch *b, struct error *err)
{
	f->b = *b;
	f->out = b->model->spec.hidden.width[0];
	f->embed = b->model->spec.embed;
	f->in = (size_t)b->model->spec.fields * f->embed + b->model->spec.dense_inputs;
	f->room = (f->embed + LANES - 1) / LANES * LANES;
	if (fold_plan(f, err) != 0)
		return -1;
	size_t total = f->base.data[f->count];
	if (total == 0)
		return 0;
	if (pool_grow(&f->embedding, total * f->room, err) != 0 ||
	    pool_grow(&f->by_embedding, total * f->room, err) != 0 ||
	    pool_grow(&f->tile, total * LANES, err) != 0 ||
	    pool_grow(&f->weight, f->room * LANES, err) != 0)
		return -1;
	memset(f->embedding.data, 0, total * f->room * sizeof(float));
	for (size_t c = 0; c < total; c++)
		for (size_t e = 0; e < f->embed; e++)
			f->embedding.data[c * f->room + e] =
				f->b.gain * f->b.rows[first_embedding(b->model, f->key.data[c]) + e];
	return 0;
}

/* Outputs of the tile that begins at `at`. */
static size_t tile_width(const struct fold *f, size_t at)
{
	return f->out - at < LANES ? f->out - at : LANES;
}

/* The part of W, times gain, of this tile and the j-th column, padded with zeros: [LANES][room], or
 * if `turned` [room][LANES]. */
static const float *take_weight(struct fold *f, size_t at, size_t j, int turned)
{
	const float *from = f->b.weight + at * f->in + f->columns.data[j] * f->embed;
	size_t width = tile_width(f, at), o_step = turned ? 1 : f->room, e_step = turned ? LANES : 1;
	memset(f->weight.data, 0, f->room * LANES * sizeof(float));
	for (size_t o = 0; o < width; o++)
		for (size_t e = 0; e < f->embed; e++)
			f->weight.data[o * o_step + e * e_step] = f->b.gain * from[o * f->in + e];
	return f->weight.data;
}

/* ---- forward ---- */

/* c[n][LANES] = (with add: +=) a[n][k] b[k][LANES]; a row of c has c_step floats. */
static inline __attribute__((always_inline)) void multiply_group(const float *a, size_t k,
	const float *b, size_t b_step, float *c, size_t c_step, size_t n, int add)
{
	for (size_t p = 0; p < LANES; p += PIECE) {
		piece sum[GROUP];
		for (size_t i = 0; i < n; i++)
			sum[i] = add ? piece_load(c + i * c_step + p) : (piece){0};
		for (size_t l = 0; l < k; l++) {
			piece x = piece_load(b + l * b_step + p);
			for (size_t i = 0; i < n; i++)
				sum[i] += x * a[i * k + l];
		}
		for (size_t i = 0; i < n; i++)
			piece_store(c + i * c_step + p, sum[i]);
	}
}

static void multiply(const float *a, size_t n, size_t k, const float *b, size_t b_step, float *c,
		     size_t c_step, int add)
{
	size_t i = 0;
	for (; i + GROUP <= n; i += GROUP)
		multiply_group(a + i * k, k, b, b_step, c + i * c_step, c_step, GROUP, add);
	for (; i < n; i++)
		multiply_group(a + i * k, k, b, b_step, c + i * c_step, c_step, 1, add);
}

static void fold_pick(const struct fold *f, float *y, size_t width)
{
	const uint32_t *slot = f->slot.data;
	const float *tile = f->tile.data;
	size_t count = f->count;
	for (size_t i = 0; i < f->b.batch->count; i++, slot += count, y += f->out) {
		piece sum[PIECES] = {0};
		__builtin_prefetch(y + AHEAD * f->out, 1);
		for (size_t j = 0; j < count; j++)
			for (size_t p = 0; p < PIECES; p++)
				sum[p] += piece_load(tile + (size_t)slot[j] * LANES + p * PIECE);
		if (width == LANES)
			memcpy(y, sum, sizeof(sum));
		else
			memcpy(y, sum, width * sizeof(float));
	}
}

void fold_forward(struct fold *f, float *y)
{
	for (size_t at = 0; at < f->out; at += LANES) {
		for (size_t j = 0; j < f->count; j++) {
			size_t base = f->base.data[j], n = f->base.data[j + 1] - base;
			multiply(f->embedding.data + base * f->room, n, f->room,
				 take_weight(f, at, j, 1), LANES, f->tile.data + base * LANES,
				 LANES, 0);
		}
		fold_pick(f, y + at, tile_width(f, at));
	}
}

/* ---- backward ---- */

static void fold_drop(struct fold *f, const float *by_y, size_t width)
{
	const uint32_t *slot = f->slot.data;
	float *tile = f->tile.data;
	size_t count = f->count;
	memset(tile, 0, f->base.data[count] * LANES * sizeof(float));
	for (size_t i = 0; i < f->b.batch->count; i++, slot += count, by_y += f->out) {
		piece g[PIECES] = {0};
		__builtin_prefetch(by_y + AHEAD * f->out, 0);
		if (width == LANES)
			memcpy(g, by_y, sizeof(g));
		else
			memcpy(g, by_y, width * sizeof(float));
		for (size_t j = 0; j < count; j++)
			for (size_t p = 0; p < PIECES; p++) {
				float *sum = tile + (size_t)slot[j] * LANES + p * PIECE;
				piece_store(sum, piece_load(sum) + g[p]);
			}
	}
}

/* Adds the outer products of sums[n][LANES] and x[n][step], for LANES inputs and GROUP outputs. */
static inline void outer(const float *sums, const float *x, size_t step, size_t n,
			 float to[GROUP][LANES])
{
	for (size_t p = 0; p < LANES; p += PIECE) {
		piece sum[GROUP] = {0};
		for (size_t c = 0; c < n; c++) {
			piece v = piece_load(x + c * step + p);
			for (size_t o = 0; o < GROUP; o++)
				sum[o] += v * sums[c * LANES + o];
		}
		for (size_t o = 0; o < GROUP; o++)
			piece_store(to[o] + p, sum[o]);
	}
}

/* Adds the gradient of the part of W of this tile and the j-th column. */
static void add_weight(struct fold *f, size_t at, size_t j)
{
	size_t base = f->base.data[j], n = f->base.data[j + 1] - base, width = tile_width(f, at);
	float *to = f->b.weight_gradient + at * f->in + f->columns.data[j] * f->embed;
	float product[GROUP][LANES];
	for (size_t e = 0; e < f->room; e += LANES) {
		size_t some = f->embed - e < LANES ? f->embed - e : LANES;
		for (size_t o = 0; o < width; o += GROUP) {
			outer(f->tile.data + base * LANES + o,
			      f->embedding.data + base * f->room + e, f->room, n, product);
			for (size_t i = 0; i < GROUP && o + i < width; i++)
				for (size_t l = 0; l < some; l++)
					to[(o + i) * f->in + e + l] += f->b.gain * product[i][l];
		}
	}
}

static void fold_add_rows(struct fold *f)
{
	for (size_t c = 0; c < f->base.data[f->count]; c++) {
		float *to = f->b.row_gradient + first_embedding(f->b.model, f->key.data[c]);
		for (size_t e = 0; e < f->embed; e++)
			to[e] += f->b.gain * f->by_embedding.data[c * f->room + e];
	}
}

void fold_backward(struct fold *f, const float *by_y)
{
	for (size_t at = 0; at < f->out; at += LANES) {
		fold_drop(f, by_y + at, tile_width(f, at));
		for (size_t j = 0; j < f->count; j++) {
			size_t base = f->base.data[j], n = f->base.data[j + 1] - base;
			const float *weight = take_weight(f, at, j, 0);
			for (size_t e = 0; e < f->room; e += LANES)
				multiply(f->tile.data + base * LANES, n, LANES, weight + e, f->room,
					 f->by_embedding.data + base * f->room + e, f->room, at > 0);
			add_weight(f, at, j);
		}
	}
	fold_add_rows(f);
}

/*
 * kernels: every kernel of lib/model/cuda, and the plug-in, on odd shapes, against plain loops in
 * double.  On a card, each runs twice; with the stand-in (machine.h), under several seeds; the bits
 * have to be the same.  TAP.
 *
 *   kernels [ROUNDS [SEEDS [MOST [NAME]]]]   shapes a test, seeds, how large shapes are; 12 4 70
 */
#include "check.h"

#include "model/backend.h"
#include "model/cuda/cin.h"
#include "model/cuda/fm.h"
#include "model/cuda/images.h"
#include "model/cuda/layers.h"
#include "model/cuda/loss.h"
#include "model/cuda/product.h"
#include "model/cuda/rows.h"
#include "model/own.h"

typedef std::vector<double> doubles;
typedef std::vector<float> floats;

/* ---- rows ---- */

/* Samples with keys: `fields` each, or if it is 0, any number. */
struct made {
	size_t n, unique, width, dense_inputs, fields;
	std::vector<uint32_t> offset, index;
	floats value, rows, x, label, weight;
	int values, weights;
};

static struct made make(struct check *c, size_t fields, size_t embed)
{
	struct made m = {};
	m.n = check_size(c, c->most);
	m.fields = fields;
	m.width = 1 + embed;
	m.unique = check_size(c, 40);
	m.dense_inputs = check_draw(c, 3) ? check_size(c, c->most) : 0;
	m.offset.push_back(0);
	for (size_t i = 0; i < m.n; i++) {
		size_t keys = fields             ? fields
			      : check_draw(c, 2) ? check_draw(c, 4)
						 : check_draw(c, 70);
		for (size_t k = 0; k < keys;
		     k++) /* the first row has most of them, the last one none */
			m.index.push_back(m.unique > 1 && check_draw(c, 2)
						  ? (uint32_t)check_draw(c, m.unique - 1)
						  : 0);
		m.offset.push_back((uint32_t)m.index.size());
	}
	m.values = check_draw(c, 2) == 0;
	m.weights = check_draw(c, 2) == 0;
	m.value = check_numbers(c, m.index.size());
	m.rows = check_numbers(c, m.unique * m.width);
	m.x = check_numbers(c, m.n * m.dense_inputs);
	m.weight = check_numbers(c, m.n);
	for (size_t i = 0; i < m.n; i++)
		m.label.push_back(check_draw(c, 2) ? 1.0f : 0.0f);
	return m;
}

static double value_of(const struct made &m, size_t k)
{
	return m.values ? (double)m.value[k] : 1;
}

static struct keys keys_of(struct check *c, const struct made &m)
{
	struct keys k = {m.n,  check_send(c, m.offset), check_send(c, m.index),
			 NULL, check_send(c, m.rows),   m.width};
	if (m.values)
		k.value = check_send(c, m.value);
	return k;
}

static void test_wide(struct check *c)
{
	struct made m = make(c, 0, check_draw(c, 3));
	floats dense = check_numbers(c, 1 + m.dense_inputs);
	doubles want;
	for (size_t i = 0; i < m.n; i++) {
		double z = (double)dense[0];
		for (size_t k = m.offset[i]; k < m.offset[i + 1]; k++)
			z += (double)m.rows[m.index[k] * m.width] * value_of(m, k);
		for (size_t j = 0; j < m.dense_inputs; j++)
			z += (double)m.x[i * m.dense_inputs + j] * (double)dense[1 + j];
		want.push_back(z);
	}
	float *z = (float *)check_room(c, m.n * sizeof(float));
	rows_wide(c->q, keys_of(c, m), check_send(c, m.x), m.dense_inputs, check_send(c, dense), z);
	check_near(c, "z", z, want, 10);
}

static void test_weights(struct check *c)
{
	struct made m = make(c, 0, check_size(c, 40));
	size_t outputs = 1 + check_draw(c, m.width);
	floats was = check_numbers(c, m.n * outputs);
	doubles want(was.begin(), was.end());
	for (size_t i = 0; i < m.n; i++)
		for (size_t k = m.offset[i]; k < m.offset[i + 1]; k++)
			for (size_t o = 0; o < outputs; o++)
				want[i * outputs + o] +=
					(double)m.rows[m.index[k] * m.width + o] * value_of(m, k);
	float *z = check_send(c, was);
	rows_weights(c->q, keys_of(c, m), outputs, z);
	check_near(c, "z", z, want, 10);
}

static void test_gather(struct check *c)
{
	size_t fields = check_size(c, 7), embed = check_size(c, 40);
	struct made m = make(c, fields, embed + check_draw(c, 3));
	doubles want;
	for (size_t i = 0; i < m.n; i++) {
		for (size_t f = 0; f < fields; f++)
			for (size_t e = 0; e < embed; e++)
				want.push_back(
					0.5 *
					(double)m.rows[(m.index[i * fields + f] + 1) * m.width -
						       embed + e]);
		for (size_t j = 0; j < m.dense_inputs; j++)
			want.push_back((double)m.x[i * m.dense_inputs + j]);
	}
	float *to = (float *)check_room(c, want.size() * sizeof(float));
	rows_gather(c->q, keys_of(c, m), fields, embed, 0.5f, check_send(c, m.x), m.dense_inputs,
		    to);
	check_near(c, "x", to, want);
}

static doubles wider(const floats &from)
{
	return doubles(from.begin(), from.end());
}

static void test_rows_gradient(struct check *c)
{
	size_t weights = check_draw(c, 3) ? check_draw(c, 4) : check_size(c, 40),
	       embed = check_draw(c, 3) || weights == 0 ? check_size(c, 17) : 0;
	struct made m = make(c, check_draw(c, 3) ? check_size(c, 5) : 0, weights + embed - 1);
	struct occurrences o;
	size_t keys = m.index.size(), bytes = occurrences_bytes(keys, m.unique);
	floats delta = check_numbers(c, m.n * weights), by = check_numbers(c, keys * embed);
	doubles want(m.unique * m.width);
	for (size_t i = 0; i < m.n; i++)
		for (size_t k = m.offset[i]; k < m.offset[i + 1]; k++)
			for (size_t j = 0; j < m.width; j++)
				want[m.index[k] * m.width + j] +=
					j < weights
						? (double)delta[i * weights + j] * value_of(m, k)
						: (double)0.4f *
							  (double)by[k * embed + j - weights];
	std::vector<uint32_t> next(m.unique), sorted(bytes / sizeof(uint32_t));
	occurrences_sort(&o, sorted.data(), next.data(), m.offset.data(), m.index.data(), m.n,
			 m.unique);
	struct keys k = keys_of(c, m);
	void *there = check_room(c, bytes), *pinned = check_pinned(c, bytes);
	memcpy(pinned, sorted.data(), bytes);
	queue_to_card(c->q, there, pinned, bytes);
	float *parts = (float *)check_room(c, o.pieces * m.width * sizeof(float));
	float *to = (float *)check_room(c, m.unique * m.width * sizeof(float));
	rows_gradient(c->q, occurrences_at(&o, there), k.value, check_send(c, delta), weights,
		      check_send(c, by), 0.4f, m.width, parts, to);
	check_near(c, "gradient", to, want, 20);
}

/* ---- layers ---- */

static void test_relu(struct check *c)
{
	size_t n = check_size(c, c->most), out = check_size(c, c->most);
	floats y = check_numbers(c, n * out), bias = check_numbers(c, out),
	       by = check_numbers(c, n * out);
	doubles want, back;
	for (size_t i = 0; i < n * out; i++) {
		double v = (double)y[i] + 0.4 * (double)bias[i % out];
		want.push_back(v > 0 ? v : 0);
		back.push_back(v > 1e-6 ? (double)by[i] : 0);
	}
	float *card = check_send(c, y), *card_by = check_send(c, by),
	      *card_bias = check_send(c, bias);
	float *to = (float *)check_room(c, n * out * sizeof(float));
	layers_bias(c->q, n, out, to, card_bias);
	floats copies = check_get(c, to, n * out);
	for (size_t i = 0; i < n * out; i++)
		if (copies[i] != bias[i % out])
			check_fail(c, "bias", i, (double)copies[i], (double)bias[i % out]);
	layers_bias_relu(c->q, n, out, card, card_bias, 0.4f);
	check_near(c, "y", card, want);
	layers_relu_back(c->q, n, out, card_by, card);
	floats got = check_get(c, card_by, n * out);
	for (size_t i = 0; i < n * out; i++)
		if (want[i] > 1e-6 || want[i] <= 0)
			if ((double)got[i] != back[i] && want[i] != 0)
				check_fail(c, "by", i, (double)got[i], back[i]);
}

static void test_dot(struct check *c)
{
	size_t n = check_size(c, c->most), in = check_size(c, c->most);
	floats h = check_numbers(c, n * in), w = check_numbers(c, in), z = check_numbers(c, n);
	doubles want = wider(z), back;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < in; j++) {
			want[i] += 0.5 * (double)h[i * in + j] * (double)w[j];
			back.push_back(0.5 * (double)z[i] * (double)w[j]);
		}
	float *card_w = check_send(c, w), *to = check_send(c, z);
	float *by = (float *)check_room(c, n * in * sizeof(float));
	layers_dot_back(c->q, n, in, to, card_w, 0.5f, by);
	layers_dot(c->q, n, in, check_send(c, h), card_w, 0.5f, to);
	check_near(c, "z", to, want, 10);
	check_near(c, "by", by, back);
}

static void test_column_sums(struct check *c)
{
	size_t n = check_size(c, c->most) * (check_draw(c, 4) ? 1 : 9),
	       columns = check_size(c, c->most);
	int factors = check_draw(c, 2) == 0, ones = check_draw(c, 4) == 0;
	columns = ones ? 1 : columns;
	floats m = check_numbers(c, n * columns), factor = check_numbers(c, n),
	       was = check_numbers(c, columns);
	doubles want = wider(was);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < columns; j++)
			want[j] += 0.4 * (factors ? (double)factor[i] : 1) *
				   (ones ? 1 : (double)m[i * columns + j]);
	float *to = check_send(c, was);
	float *parts = (float *)check_room(c, layers_parts(n, columns) * sizeof(float));
	layers_column_sums(c->q, n, columns, ones ? NULL : check_send(c, m),
			   factors ? check_send(c, factor) : NULL, 0.4f, parts, to);
	check_near(c, "sums", to, want, 20);
}

/* The loss of one output, and the gradient by it. */
static double plain_loss(enum loss kind, double z, double label, double *delta)
{
	double y = label > 0 ? 1 : -1, missing = fmax(0, 1 - y * z);
	switch (kind) {
	case LOSS_LOG:
		*delta = 1 / (1 + exp(-z)) - label;
		return fmax(z, 0) - z * label + log1p(exp(-fabs(z)));
	case LOSS_SQUARED:
		*delta = z - label;
		return (z - label) * (z - label) / 2;
	case LOSS_HINGE:
		*delta = missing > 0 ? -y : 0;
		return missing;
	default:
		*delta = -y * missing;
		return missing * missing / 2;
	}
}

static void test_loss(struct check *c)
{
	size_t n = check_size(c, 4 * c->most);
	enum loss kind = (enum loss)check_draw(c, 4);
	int weights = check_draw(c, 2) == 0;
	floats z = check_numbers(c, n), weight = check_numbers(c, n), label;
	doubles delta(n), loss = {3};
	for (size_t i = 0; i < n; i++) {
		z[i] *= check_draw(c, 4) ? 10.0f : 100.0f;
		label.push_back(kind == LOSS_SQUARED ? check_number(c)
				: check_draw(c, 2)   ? 1.0f
						     : 0.0f);
		double w = weights ? (double)weight[i] : 1;
		loss[0] += w * plain_loss(kind, (double)z[i], (double)label[i], &delta[i]);
		delta[i] *= w;
	}
	float *to = check_send(c, z);
	double *sum = check_send(c, doubles{3});
	double *parts = (double *)check_room(c, loss_parts(n) * sizeof(double));
	loss_of(c->q, kind, n, 1, to, check_send(c, label), weights ? check_send(c, weight) : NULL,
		to, NULL, parts, sum);
	check_near(c, "delta", to, delta);
	check_near(c, "loss", sum, loss, 5000 * (double)n);
}

static void test_softmax(struct check *c)
{
	size_t n = check_size(c, c->most), classes = check_size(c, c->most);
	int weights = check_draw(c, 2) == 0;
	floats z = check_numbers(c, n * classes), weight = check_numbers(c, n), label;
	doubles delta, loss = {0};
	for (float &one : z)
		one *= 30.0f;
	for (size_t i = 0; i < n; i++) {
		const float *x = &z[i * classes];
		size_t y = check_draw(c, classes);
		double most = -INFINITY, sum = 0, w = weights ? (double)weight[i] : 1;
		label.push_back((float)y);
		for (size_t j = 0; j < classes; j++)
			most = fmax(most, (double)x[j]);
		for (size_t j = 0; j < classes; j++)
			sum += exp((double)x[j] - most);
		for (size_t j = 0; j < classes; j++)
			delta.push_back(w * (exp((double)x[j] - most) / sum - (j == y ? 1 : 0)));
		loss[0] += w * (log(sum) + most - (double)x[y]);
	}
	float *card = check_send(c, z), *to = card; /* models have another place for delta */
	double *each = (double *)check_room(c, n * sizeof(double)),
	       *sum = check_send(c, doubles{0});
	double *parts = (double *)check_room(c, loss_parts(n) * sizeof(double));
	loss_of(c->q, LOSS_SOFTMAX, n, classes, card, check_send(c, label),
		weights ? check_send(c, weight) : NULL, to, each, parts, sum);
	check_near(c, "delta", to, delta);
	check_near(c, "loss", sum, loss, 30 * (double)n);
	label[n - 1] = (float)classes; /* there is no such class */
	loss_of(c->q, LOSS_SOFTMAX, n, classes, check_send(c, z), check_send(c, label), NULL, to,
		each, parts, sum);
	if (!isnan(check_get(c, sum, 1)[0]))
		check_fail(c, "loss of no class", 0, 0, NAN);
}

static void test_product(struct check *c)
{
	size_t n = check_size(c, 40), out = check_size(c, 40), in = check_size(c, 40),
	       some = 1 + check_draw(c, in);
	floats x = check_numbers(c, n * in), w = check_numbers(c, out * in),
	       by = check_numbers(c, n * out);
	floats was = check_numbers(c, out * in);
	doubles y(n * out), by_x(n * some), by_w = wider(was);
	for (size_t i = 0; i < n; i++)
		for (size_t o = 0; o < out; o++)
			for (size_t j = 0; j < in; j++) {
				y[i * out + o] +=
					0.4 * (double)x[i * in + j] * (double)w[o * in + j];
				by_w[o * in + j] +=
					0.4 * (double)by[i * out + o] * (double)x[i * in + j];
				if (j < some)
					by_x[i * some + j] += 0.4 * (double)by[i * out + o] *
							      (double)w[o * in + j];
			}
	float *card_x = check_send(c, x), *card_w = check_send(c, w), *card_by = check_send(c, by);
	float *to_y = (float *)check_room(c, n * out * sizeof(float));
	float *to_x = (float *)check_room(c, n * some * sizeof(float)), *to_w = check_send(c, was);
	product_forward(c->q, n, out, in, 0.4f, card_x, card_w, in, 0, to_y);
	product_by_input(c->q, n, out, some, 0.4f, card_by, card_w, in, 0, to_x);
	product_by_weight(c->q, n, out, in, 0.4f, card_by, card_x, to_w, in);
	check_near(c, "y", to_y, y, 5);
	check_near(c, "by_x", to_x, by_x, 5);
	check_near(c, "by_w", to_w, by_w, 5);
}

/* ---- fm, cin, images ---- */

static void test_fm(struct check *c)
{
	size_t embed = check_size(c, 40), before = check_draw(c, 3);
	int alone = check_draw(c, 2) == 0;
	struct made m = make(c, 0, embed + before - 1);
	floats delta = check_numbers(c, m.n), was = check_numbers(c, m.n),
	       by = check_numbers(c, m.index.size() * embed);
	doubles z = wider(was), want = alone ? doubles(by.size()) : wider(by);
	for (size_t i = 0; i < m.n; i++)
		for (size_t e = 0; e < embed; e++) {
			double sum = 0, squares = 0;
			for (size_t k = m.offset[i]; k < m.offset[i + 1]; k++) {
				double v = 0.5 * (double)m.rows[m.index[k] * m.width + before + e] *
					   value_of(m, k);
				sum += v;
				squares += v * v;
			}
			z[i] += 0.5 * (sum * sum - squares);
			for (size_t k = m.offset[i]; k < m.offset[i + 1]; k++) {
				double v = 0.5 * (double)m.rows[m.index[k] * m.width + before + e] *
					   value_of(m, k);
				want[k * embed + e] +=
					(double)delta[i] * value_of(m, k) * (sum - v);
			}
		}
	struct keys k = keys_of(c, m);
	float *to = check_send(c, was), *to_by = check_send(c, by);
	float *s = (float *)check_room(c, m.n * embed * sizeof(float));
	fm_forward(c->q, k, embed, 0.5f, s, to);
	fm_backward(c->q, k, embed, 0.5f, s, check_send(c, delta), alone, to_by);
	check_near(c, "z", to, z, 200);
	check_near(c, "by", to_by, want, 10);
}

static void test_cin(struct check *c)
{
	struct cin s = {};
	size_t n = check_size(c, 9), embed = check_size(c, 17), ld;
	s.lines = n * embed;
	s.fields = check_draw(c, 4) ? check_size(c, 9) : 66;
	s.high = check_size(c, 9);
	s.out = check_draw(c, 4) ? check_size(c, 20) : 67;
	ld = s.fields * embed + check_draw(c, 3);
	size_t columns = s.high * s.fields;
	floats samples = check_numbers(c, n * ld), x = check_numbers(c, s.high * s.lines),
	       w = check_numbers(c, s.out * columns), by = check_numbers(c, s.out * s.lines),
	       was_w = check_numbers(c, w.size()), was_x = check_numbers(c, x.size()),
	       was_x0 = check_numbers(c, s.fields * s.lines);
	doubles next(by.size()), by_w = wider(was_w), by_x0 = wider(was_x0), by_x = wider(was_x),
				 x0, back = wider(samples);
	for (size_t j = 0; j < s.fields; j++)
		for (size_t r = 0; r < s.lines; r++) {
			size_t at = r / embed * ld + j * embed + r % embed;
			x0.push_back((double)samples[at]);
			back[at] += (double)was_x0[j * s.lines + r];
		}
	for (size_t o = 0; o < s.out; o++)
		for (size_t h = 0; h < s.high; h++)
			for (size_t j = 0; j < s.fields; j++)
				for (size_t r = 0; r < s.lines; r++) {
					size_t at_w = o * columns + h * s.fields + j,
					       at = o * s.lines + r, at_x = h * s.lines + r,
					       at_0 = j * s.lines + r;
					double a = (double)x[at_x], b = x0[at_0],
					       v = (double)w[at_w], g = (double)by[at];
					next[at] += v * a * b;
					by_w[at_w] += g * a * b;
					by_x[at_x] += g * v * b;
					by_x0[at_0] += g * v * a;
				}
	float *card_x0 = (float *)check_room(c, x0.size() * sizeof(float)),
	      *card_samples = check_send(c, samples);
	cin_maps(c->q, n, s.fields, embed, card_samples, ld, card_x0);
	cin_maps_back(c->q, n, s.fields, embed, check_send(c, was_x0), NULL, card_samples, ld);
	s.x0 = card_x0;
	s.x = check_send(c, x);
	s.w = check_send(c, w);
	float *to = (float *)check_room(c, by.size() * sizeof(float)), *to_w = check_send(c, was_w),
	      *to_x = check_send(c, was_x), *to_x0 = check_send(c, was_x0),
	      *card_by = check_send(c, by);
	float *parts = (float *)check_room(c, cin_parts(s) * sizeof(float));
	cin_forward(c->q, s, to);
	cin_by_weight(c->q, s, card_by, parts, to_w);
	cin_by_input(c->q, s, card_by, to_x, to_x0);
	check_near(c, "x0", card_x0, x0);
	check_near(c, "samples", card_samples, back);
	check_near(c, "next", to, next, 20);
	check_near(c, "by_w", to_w, by_w, 50);
	check_near(c, "by_x", to_x, by_x, 50);
	check_near(c, "by_x0", to_x0, by_x0, 50);
}

static void test_windows(struct check *c)
{
	struct images s = {check_size(c, 3), check_size(c, 5), 1 + check_draw(c, 9),
			   1 + check_draw(c, 9), check_draw(c, 2) == 0};
	size_t size = s.height * s.width, columns = s.channels * IMAGES_WINDOW,
	       floats_of = s.n * s.channels * size;
	floats x = check_numbers(c, floats_of), by = check_numbers(c, s.n * size * columns);
	doubles want(by.size()), back(floats_of);
	for (size_t i = 0; i < s.n; i++)
		for (size_t ch = 0; ch < s.channels; ch++)
			for (size_t p = 0; p < size; p++)
				for (size_t w = 0; w < IMAGES_WINDOW; w++) {
					long y = (long)(p / s.width + w / 3) - 1,
					     left = (long)(p % s.width + w % 3) - 1;
					if (y < 0 || left < 0 || y >= (long)s.height ||
					    left >= (long)s.width)
						continue;
					size_t from = (size_t)y * s.width + (size_t)left;
					size_t at = s.by_pixel
							    ? (i * size + from) * s.channels + ch
							    : (i * s.channels + ch) * size + from;
					size_t to =
						(i * size + p) * columns + ch * IMAGES_WINDOW + w;
					want[to] = (double)x[at];
					back[at] += (double)by[to];
				}
	float *card = check_send(c, x), *to = (float *)check_room(c, by.size() * sizeof(float)),
	      *to_x = (float *)check_room(c, floats_of * sizeof(float));
	images_windows(c->q, s, card, to);
	images_windows_back(c->q, s, check_send(c, by), to_x);
	check_near(c, "windows", to, want);
	check_near(c, "by_x", to_x, back, 5);
}

static void test_pool(struct check *c)
{
	struct images s = {check_size(c, 3), check_size(c, 5), 2 + check_draw(c, 9),
			   2 + check_draw(c, 9), 1};
	int planes = check_draw(c, 2) == 0;
	size_t h = s.height / 2, w = s.width / 2, pools = s.n * h * w * s.channels;
	floats x = check_numbers(c, s.n * s.height * s.width * s.channels),
	       bias = check_numbers(c, s.channels), by = check_numbers(c, pools);
	doubles want(pools), back(x.size());
	for (size_t i = 0; i < pools; i++) {
		size_t ch = i % s.channels, col = i / s.channels % w, row = i / s.channels / w % h,
		       image = i / s.channels / w / h, best = 0;
		size_t to = planes ? ((image * s.channels + ch) * h + row) * w + col : i;
		for (size_t k = 0; k < 4; k++) {
			size_t at =
				((image * s.height + 2 * row + k / 2) * s.width + 2 * col + k % 2) *
					s.channels +
				ch;
			best = k == 0 || x[at] > x[best] ? at : best;
		}
		float most = x[best] + bias[ch];
		want[to] = most > 0.0f ? (double)most : 0;
		back[best] += most > 0.0f ? (double)by[to] : 0;
	}
	float *to = (float *)check_room(c, pools * sizeof(float)),
	      *to_x = (float *)check_room(c, x.size() * sizeof(float)),
	      *card_bias = check_send(c, bias);
	uint8_t *which = (uint8_t *)check_room(c, pools);
	images_pool(c->q, s, check_send(c, x), card_bias, planes, to, which);
	images_pool_back(c->q, s, to, check_send(c, by), which, planes, to_x);
	check_near(c, "pool", to, want);
	check_near(c, "by_x", to_x, back);
	x[0] = NAN; /* it is the most of its four, wherever it is */
	images_pool(c->q, s, check_send(c, x), card_bias, planes, to, which);
	float got;
	memcpy(&got, check_get(c, to, 1).data(), sizeof(got));
	if (!isnan(got))
		check_fail(c, "a NaN", 0, (double)got, NAN);
}

/* ---- models, one sample after the other, in double ---- */

/* A number that knows what it was made of: gradients go back along the tape, and no model needs a
 * backward of its own here. */
struct number {
	size_t at;
};
struct made_of {
	double value, by, by_left, by_right; /* by: the gradient by it; the others: of it */
	size_t left, right;
};
static std::vector<struct made_of> tape;

static struct number number_of(double value, double by_left = 0, size_t left = 0,
			       double by_right = 0, size_t right = 0)
{
	tape.push_back({value, 0, by_left, by_right, left, right});
	return {tape.size() - 1};
}

static double value_at(struct number a)
{
	return tape[a.at].value;
}

static struct number operator+(struct number a, struct number b)
{
	return number_of(value_at(a) + value_at(b), 1, a.at, 1, b.at);
}

static struct number operator*(struct number a, struct number b)
{
	return number_of(value_at(a) * value_at(b), value_at(b), a.at, value_at(a), b.at);
}

static struct number operator*(double f, struct number a)
{
	return number_of(f * value_at(a), f, a.at);
}

static struct number relu(struct number a)
{
	return value_at(a) > 0 ? a : number_of(0);
}

typedef std::vector<struct number> numbers;

/* A sample that goes through a model. */
struct plain {
	struct check *c;
	const struct model_spec *s;
	const struct made *m;
	size_t outputs;
	floats dense; /* grows while the first sample takes its parameters, so the model says how
			 many */
	numbers parameters, x;
	std::vector<numbers> rows; /* of its keys */
	doubles values;            /* of its keys */
	size_t taken;
};

/* The next parameters of the dense vector; none has more than there is room for. */
static const struct number *take(struct plain *p, size_t count)
{
	p->parameters.reserve(1 << 16);
	while (p->dense.size() < p->taken + count)
		p->dense.push_back(check_number(p->c));
	while (p->parameters.size() < p->taken + count)
		p->parameters.push_back(number_of((double)p->dense[p->parameters.size()]));
	p->taken += count;
	return &p->parameters[p->taken - count];
}

static struct number dot(const struct number *w, const numbers &x)
{
	struct number sum = number_of(0);
	for (size_t i = 0; i < x.size(); i++)
		sum = sum + w[i] * x[i];
	return sum;
}

/* softmax; with one output, lr, svm, linear and the wide part of others */
static numbers plain_wide(struct plain *p)
{
	const struct number *bias = take(p, p->outputs);
	numbers z(bias, bias + p->outputs);
	const struct number *w = take(p, p->outputs * p->x.size());
	for (size_t o = 0; o < p->outputs; o++) {
		z[o] = z[o] + dot(w + o * p->x.size(), p->x);
		for (size_t k = 0; k < p->rows.size(); k++)
			z[o] = z[o] + p->values[k] * p->rows[k][o];
	}
	return z;
}

/* The embedding of each key, multiplied by gain. */
static std::vector<numbers> embeddings(const struct plain *p, double gain)
{
	std::vector<numbers> to;
	for (const numbers &row : p->rows) {
		numbers one;
		for (size_t e = row.size() - p->s->embed; e < row.size(); e++)
			one.push_back(gain * row[e]);
		to.push_back(one);
	}
	return to;
}

/* All pairs, one by one. */
static struct number plain_pairs(const struct plain *p, double gain)
{
	struct number z = number_of(0);
	std::vector<numbers> v = embeddings(p, gain);
	for (size_t i = 0; i < v.size(); i++)
		for (size_t j = 0; j < i; j++)
			z = z + p->values[i] * p->values[j] * dot(v[i].data(), v[j]);
	return z;
}

static numbers deep_inputs(const struct plain *p, double gain)
{
	numbers x;
	for (const numbers &one : embeddings(p, gain))
		x.insert(x.end(), one.begin(), one.end());
	x.insert(x.end(), p->x.begin(), p->x.end());
	return x;
}

static numbers plain_layers(struct plain *p, numbers x, double gain)
{
	numbers z;
	for (uint32_t l = 0; l < p->s->hidden.count; l++) {
		size_t in = x.size(), out = p->s->hidden.width[l];
		const struct number *w = take(p, out * in);
		numbers y;
		for (size_t o = 0; o < out; o++)
			y.push_back(gain * dot(w + o * in, x));
		const struct number *bias = take(p, out);
		for (size_t o = 0; o < out; o++)
			y[o] = relu(y[o] + gain * bias[o]);
		x = y;
	}
	const struct number *w = take(p, p->outputs * x.size());
	for (size_t o = 0; o < p->outputs; o++)
		z.push_back(gain * dot(w + o * x.size(), x));
	return z;
}

#define PLAIN_GAIN ((double)0.4f) /* of layers beside a wide part */

static numbers plain_fm(struct plain *p)
{
	numbers z = plain_wide(p);
	return {z[0] + plain_pairs(p, 1)};
}

static numbers plain_wdl(struct plain *p)
{
	numbers z = plain_wide(p);
	return {z[0] + plain_layers(p, deep_inputs(p, PLAIN_GAIN), PLAIN_GAIN)[0]};
}

static numbers plain_deepfm(struct plain *p)
{
	numbers z = plain_wdl(p);
	return {z[0] + plain_pairs(p, PLAIN_GAIN)};
}

/* An embedding for each field: those of a pair that each has for the other's. */
static numbers plain_ffm(struct plain *p)
{
	numbers z = plain_wide(p);
	size_t embed = p->s->embed;
	for (size_t i = 0; i < p->rows.size(); i++)
		for (size_t j = 0; j < i; j++)
			for (size_t e = 0; e < embed; e++)
				z[0] = z[0] + p->rows[i][1 + j * embed + e] *
						      p->rows[j][1 + i * embed + e];
	return z;
}

/* x[l + 1] = x[0] (x[l] . weight) + bias + x[l], as it is written. */
static numbers plain_dcn(struct plain *p)
{
	numbers z = plain_wide(p), x0 = deep_inputs(p, PLAIN_GAIN), x = x0;
	size_t in = x0.size();
	for (uint32_t l = 0; l < ((const struct dcn_options *)p->s->own)->cross; l++) {
		struct number by = dot(take(p, in), x);
		const struct number *bias = take(p, in);
		for (size_t j = 0; j < in; j++)
			x[j] = x0[j] * by + bias[j] + x[j];
	}
	z[0] = z[0] + dot(take(p, in), x);
	return {z[0] + plain_layers(p, x0, PLAIN_GAIN)[0]};
}

static numbers plain_xdeepfm(struct plain *p)
{
	const struct model_widths *cin = &((const struct xdeepfm_options *)p->s->own)->cin;
	numbers z = plain_wide(p), sums;
	std::vector<numbers> x0 = embeddings(p, PLAIN_GAIN), x = x0;
	for (uint32_t k = 0; k < cin->count; k++) {
		const struct number *w = take(p, cin->width[k] * x.size() * x0.size());
		std::vector<numbers> next;
		for (uint32_t o = 0; o < cin->width[k]; o++) {
			next.push_back(numbers(p->s->embed, number_of(0)));
			for (const numbers &a : x)
				for (const numbers &b : x0) {
					for (size_t e = 0; e < a.size(); e++)
						next[o][e] = next[o][e] + *w * (a[e] * b[e]);
					w++;
				}
			sums.push_back(number_of(0));
			for (struct number one : next[o])
				sums.back() = sums.back() + one;
		}
		x = next;
	}
	z[0] = z[0] + dot(take(p, sums.size()), sums);
	return {z[0] + plain_layers(p, deep_inputs(p, PLAIN_GAIN), PLAIN_GAIN)[0]};
}

static numbers plain_mlp(struct plain *p)
{
	const struct number *bias = take(p, p->outputs);
	numbers z = plain_layers(p, p->s->fields > 0 ? deep_inputs(p, 1) : p->x, 1);
	for (size_t o = 0; o < p->outputs; o++)
		z[o] = z[o] + bias[o];
	return z;
}

/* One pixel after the other. */
static numbers plain_conv(struct plain *p)
{
	const struct conv_options *o = (const struct conv_options *)p->s->own;
	size_t height = o->image.width[0], width = o->image.width[1], in = o->image.width[2];
	numbers x = p->x, z;
	for (uint32_t l = 0; l < o->channels.count; l++) {
		size_t out = o->channels.width[l];
		const struct number *w = take(p, out * in * 9), *bias = take(p, out);
		numbers y;
		for (size_t at = 0; at < out * height * width; at++) {
			size_t ch = at / (height * width), row = at / width % height,
			       column = at % width;
			struct number sum = bias[ch];
			for (size_t k = 0; k < in * 9; k++) {
				size_t r = row + k % 9 / 3, s = column + k % 3; /* 1 more */
				if (r > 0 && s > 0 && r <= height && s <= width)
					sum = sum +
					      w[ch * in * 9 + k] *
						      x[(k / 9 * height + r - 1) * width + s - 1];
			}
			y.push_back(relu(sum));
		}
		numbers most;
		for (size_t at = 0; at < out * (height / 2) * (width / 2); at++) {
			size_t ch = at / (height / 2 * (width / 2)),
			       row = at / (width / 2) % (height / 2), column = at % (width / 2);
			struct number best = y[(ch * height + 2 * row) * width + 2 * column];
			for (size_t k = 1; k < 4; k++) {
				struct number one = y[(ch * height + 2 * row + k / 2) * width +
						      2 * column + k % 2];
				best = value_at(one) > value_at(best) ? one : best;
			}
			most.push_back(best);
		}
		x = most;
		in = out;
		height /= 2;
		width /= 2;
	}
	const struct number *w = take(p, p->outputs * x.size()), *bias = take(p, p->outputs);
	for (size_t c = 0; c < p->outputs; c++)
		z.push_back(bias[c] + dot(w + c * x.size(), x));
	return z;
}

/* What a model is here. */
struct plain_model {
	const char *name;
	numbers (*forward)(struct plain *p);
	unsigned labels;
	enum loss loss;
	int fields; /* it needs the same keys in all samples */
	/* Of a row: weights of outputs (-1: one each), and embeddings (-1: one for each field). */
	int weights, embeddings;
};
static const struct plain_model plain_models[] = {
	{"lr", plain_wide, MODEL_BINARY, LOSS_LOG, 0, 1, 0},
	{"svm", plain_wide, MODEL_BINARY, LOSS_HINGE, 0, 1, 0},
	{"linear", plain_wide, MODEL_REAL, LOSS_SQUARED, 0, 1, 0},
	{"softmax", plain_wide, MODEL_CLASS, LOSS_SOFTMAX, 0, -1, 0},
	{"fm", plain_fm, MODEL_BINARY, LOSS_LOG, 0, 1, 1},
	{"ffm", plain_ffm, MODEL_BINARY, LOSS_LOG, 1, 1, -1},
	{"wdl", plain_wdl, MODEL_BINARY, LOSS_LOG, 1, 1, 1},
	{"deepfm", plain_deepfm, MODEL_BINARY, LOSS_LOG, 1, 1, 1},
	{"dcn", plain_dcn, MODEL_BINARY, LOSS_LOG, 1, 1, 1},
	{"xdeepfm", plain_xdeepfm, MODEL_BINARY, LOSS_LOG, 1, 1, 1},
	{"mlp", plain_mlp, MODEL_CLASS, LOSS_SOFTMAX, 1, 0, 1},
	{"conv", plain_conv, MODEL_CLASS, LOSS_SOFTMAX, 1, 1, 0},
};

static const struct plain_model *plain_model_of(const char *name)
{
	for (const struct plain_model &one : plain_models)
		if (strcmp(one.name, name) == 0)
			return &one;
	abort();
}

/* Of a whole batch. */
struct plain_sums {
	doubles z, dense_gradient, row_gradient;
	double loss;
};

/* The loss of a sample, and the gradients by its outputs. */
static double sample_loss(enum loss kind, const numbers &z, double label, doubles *delta)
{
	double sum = 0;
	delta->assign(z.size(), 0);
	if (kind != LOSS_SOFTMAX)
		return plain_loss(kind, value_at(z[0]), label, delta->data());
	for (struct number one : z)
		sum += exp(value_at(one));
	for (size_t o = 0; o < z.size(); o++)
		(*delta)[o] = exp(value_at(z[o])) / sum - ((double)o == label ? 1 : 0);
	return log(sum) - value_at(z[(size_t)label]);
}

static void plain_sample(struct plain *p, const struct plain_model *model, enum loss kind, size_t i,
			 struct plain_sums *to)
{
	const struct made *m = p->m;
	size_t first = m->offset[i], keys = m->offset[i + 1] - first, width = m->width;
	doubles delta;
	tape.clear();
	p->parameters.clear();
	p->x.clear();
	p->rows.clear();
	p->values.clear();
	p->taken = 0;
	number_of(0); /* nothing: what it would give to its parts goes there */
	for (size_t j = 0; j < m->dense_inputs; j++)
		p->x.push_back(number_of((double)m->x[i * m->dense_inputs + j]));
	for (size_t k = first; k < first + keys; k++) {
		p->values.push_back(value_of(*m, k));
		p->rows.push_back({});
		for (size_t j = 0; j < width; j++)
			p->rows.back().push_back(
				number_of((double)m->rows[m->index[k] * width + j]));
	}
	numbers z = model->forward(p);
	double weight = m->weights ? (double)m->weight[i] : 1;
	to->loss += weight * sample_loss(kind, z, (double)m->label[i], &delta);
	for (size_t o = 0; o < z.size(); o++) {
		to->z.push_back(value_at(z[o]));
		tape[z[o].at].by += weight * delta[o];
	}
	for (size_t at = tape.size(); at-- > 1;) {
		struct made_of n = tape[at];
		tape[n.left].by += n.by * n.by_left;
		tape[n.right].by += n.by * n.by_right;
	}
	to->dense_gradient.resize(p->dense.size());
	for (size_t j = 0; j < p->dense.size(); j++)
		to->dense_gradient[j] += tape[p->parameters[j].at].by;
	for (size_t k = 0; k < keys; k++)
		for (size_t j = 0; j < width; j++)
			to->row_gradient[m->index[first + k] * width + j] +=
				tape[p->rows[k][j].at].by;
}

/* ---- the plug-in ---- */

static void hash(struct check *c, const floats &what)
{
	for (size_t i = 0; i < what.size() * sizeof(float); i++)
		c->bits = (c->bits ^ ((const unsigned char *)what.data())[i]) * 1099511628211u;
}

/* A sum is as exact as the largest of them. */
static void compare(struct check *c, const char *what, const floats &got, const doubles &want,
		    double scale)
{
	hash(c, got);
	for (double one : want)
		scale = fmax(scale, fabs(one));
	for (size_t i = 0; i < got.size(); i++)
		if (!(fabs((double)got[i] - want[i]) <= 2e-6 * (fabs(want[i]) + scale)))
			check_fail(c, what, i, (double)got[i], want[i]);
}

/* Whatever is told as final is all of it, once, from the end on. */
struct told {
	size_t at;
	int wrong;
};

static void tell(void *owner, size_t begin, size_t count)
{
	struct told *t = (struct told *)owner;
	t->wrong |= begin + count != t->at;
	t->at = begin;
}

static enum loss loss_of_spec(const struct plain_model *model, const struct model_spec *spec)
{
	static const enum loss of_labels[] = {LOSS_LOG, LOSS_SOFTMAX, LOSS_SQUARED};
	if (model->loss == LOSS_HINGE && ((const struct svm_options *)spec->own)->loss)
		return LOSS_SQUARED_HINGE;
	return strcmp(model->name, "mlp") == 0 ? of_labels[spec->labels] : model->loss;
}

/* A batch, and what comes of it. */
struct drawn {
	struct made m;
	floats dense;
	struct plain_sums want;
	struct model_batch batch;
};

/* With parameters that are drawn. */
static void draw_want(struct check *c, const struct model_spec *spec, struct drawn *d)
{
	const struct plain_model *model = plain_model_of(spec->name);
	struct plain p = {};
	p.c = c;
	p.s = spec;
	p.m = &d->m;
	p.outputs = spec->classes > 0 ? spec->classes : 1;
	d->want = {{}, {}, doubles(d->m.rows.size()), 0};
	for (size_t i = 0; i < d->m.n; i++)
		plain_sample(&p, model, loss_of_spec(model, spec), i, &d->want);
	d->dense = p.dense;
}

/* alike: not 0: a batch of a size that depends only on the state; nothing else does. */
static void draw_batch(struct check *c, const struct model_spec *spec, int alike, struct drawn *d)
{
	const struct plain_model *model = plain_model_of(spec->name);
	size_t outputs = spec->classes > 0 ? spec->classes : 1,
	       embeddings = model->embeddings < 0 ? spec->fields : (size_t)model->embeddings,
	       width = (model->weights < 0 ? outputs : (size_t)model->weights) +
		       embeddings * spec->embed;
	struct made &m = d->m;
	m = make(c, spec->fields, width - 1);
	if (alike) {
		c->state += (uint64_t)alike << 40;
		m.unique = alike > 1 ? 1 + check_draw(c, m.unique) : m.unique; /* memory stays */
		m.rows = check_numbers(c, m.unique * m.width);
		for (uint32_t &one : m.index)
			one = (uint32_t)check_draw(c, m.unique);
	}
	enum loss kind = loss_of_spec(model, spec);
	m.dense_inputs = spec->dense_inputs;
	m.x = check_numbers(c, m.n * m.dense_inputs);
	for (float &label : m.label)
		label = spec->classes > 0      ? (float)check_draw(c, spec->classes)
			: kind == LOSS_SQUARED ? check_number(c)
					       : label;
	draw_want(c, spec, d);
	struct model_batch &batch = d->batch;
	batch = {};
	batch.count = m.n;
	batch.dense = m.dense_inputs ? m.x.data() : NULL;
	batch.label = m.label.data();
	batch.weight = m.weights ? m.weight.data() : NULL;
	batch.offset = m.offset.data();
	batch.index = m.index.data();
	batch.value = m.values ? m.value.data() : NULL;
	batch.unique = m.unique;
}

/* next: may be NULL. */
static int run_drawn(struct check *c, void *s, const struct drawn &d, int train,
		     const struct model_batch *next, struct error *err)
{
	const struct model_backend *b = &paceline_model_backend;
	const struct made &m = d.m;
	const struct plain_sums &want = d.want;
	floats gradient(d.dense.size()), rows(m.rows.size()), z(want.z.size());
	struct model_batch batch = d.batch;
	batch.next = next;
	struct model_load load = {&batch, m.unique, d.dense.data(), m.rows.data(), !train};
	if (b->begin(s, &load, err) != 0)
		return -1;
	if (!train) {
		if (b->logits(s, z.data(), err) != 0)
			return -1;
		compare(c, "z", z, want.z, 200);
		return 0;
	}
	double loss = 5;
	struct told told = {gradient.size(), 0};
	struct model_sums sums = {gradient.data(), rows.data(), &loss, tell, &told};
	if (b->train(s, &sums, err) != 0)
		return -1;
	compare(c, "dense gradient", gradient, want.dense_gradient, 100);
	/* A row may have many of the keys, each with an error of its output. */
	compare(c, "row gradient", rows, want.row_gradient, 100 + (double)m.index.size());
	if (!(fabs(loss - 5 - want.loss) <= 1e-5 * (fabs(want.loss) + (double)m.n)))
		check_fail(c, "loss", 0, loss - 5, want.loss);
	if (told.at != 0 || told.wrong)
		check_fail(c, "told", told.at, 0, 0);
	return 0;
}

static int run_batch(struct check *c, void *s, const struct model_spec *spec, int train, int alike,
		     struct error *err)
{
	struct drawn d;
	draw_batch(c, spec, alike, &d);
	return run_drawn(c, s, d, train, NULL, err);
}

static void draw_own(struct check *c, struct model_spec *spec)
{
	struct xdeepfm_options *x = (struct xdeepfm_options *)spec->own;
	struct conv_options *v = (struct conv_options *)spec->own;
	if (strcmp(spec->name, "svm") == 0) {
		((struct svm_options *)spec->own)->loss = (uint32_t)check_draw(c, 2);
	} else if (strcmp(spec->name, "dcn") == 0) {
		((struct dcn_options *)spec->own)->cross = 1 + (uint32_t)check_draw(c, 3);
	} else if (strcmp(spec->name, "xdeepfm") == 0) {
		x->cin.count = 1 + (uint32_t)check_draw(c, 3);
		for (uint32_t i = 0; i < x->cin.count; i++)
			x->cin.width[i] = (uint32_t)check_size(c, 5);
	} else if (strcmp(spec->name, "mlp") == 0) {
		spec->fields = check_draw(c, 2) ? spec->fields : 0;
		spec->dense_inputs += spec->fields + spec->dense_inputs == 0 ? 3 : 0;
		spec->labels = (uint32_t)check_draw(c, 3);
		spec->classes = 1u << spec->labels == MODEL_CLASS ? spec->classes : 0;
	} else if (strcmp(spec->name, "conv") == 0) {
		v->channels.count = 1 + (uint32_t)check_draw(c, 2);
		v->image.count = 3;
		for (uint32_t i = 0; i < 3; i++)
			v->image.width[i] = i < 2 ? 4 + (uint32_t)check_draw(c, 4)
						  : 1 + (uint32_t)check_draw(c, 3);
		for (uint32_t i = 0; i < v->channels.count; i++)
			v->channels.width[i] = (uint32_t)check_size(c, 4);
		spec->dense_inputs = v->image.width[0] * v->image.width[1] * v->image.width[2];
	}
}

static struct model_spec draw_spec(struct check *c, const char *name)
{
	const struct plain_model *model = plain_model_of(name);
	struct model_spec spec = {};
	strcpy(spec.name, name);
	spec.dense_inputs = check_draw(c, 3) ? (uint32_t)check_size(c, 20) : 0;
	spec.fields = model->fields ? (uint32_t)check_size(c, 5) : 0;
	spec.embed = (uint32_t)check_size(c, 9);
	spec.classes = model->labels == MODEL_CLASS ? 1 + (uint32_t)check_size(c, 9) : 0;
	spec.hidden.count = 1 + (uint32_t)check_draw(c, 3);
	for (uint32_t i = 0; i < spec.hidden.count; i++)
		spec.hidden.width[i] = (uint32_t)check_size(c, 20);
	draw_own(c, &spec);
	return spec;
}

/* The test's name is the model's. */
static void test_model(struct check *c)
{
	struct model_spec spec = draw_spec(c, c->name);
	struct error err = {};
	uint64_t shape = 0;
	void *s = NULL;
#ifdef CUDACPU_MACHINE_H
	long graphs = cudacpu::set.graphs;
#endif
	if (paceline_model_backend.open(&s, &spec, "cuda", &err) != 0) {
		printf("# %s\n", err.text);
		c->failed++;
		return;
	}
	for (int i = 0; i < 10;
	     i++) { /* sizes change, so memory grows; and stay, so graphs are made */
		static const int alike[10] = {0, 0, 0, 0, 1, 2, 3, 1, 2, 3};
		if (alike[i] < 2)
			shape = c->state;
		c->state = shape;
		if (run_batch(c, s, &spec, i != 2, alike[i], &err) != 0) {
			printf("# %s\n", err.text);
			c->failed++;
		}
	}
#ifdef CUDACPU_MACHINE_H
	if (cudacpu::set.graphs < graphs + 4) /* more: sizes were the same by chance */
		check_fail(c, "graphs", 0, (double)(cudacpu::set.graphs - graphs), 4);
#endif
	paceline_model_backend.free(s);
}

/* Three batches in any order; what is said to follow does, or does not, or has become another one in
 * the same arrays. */
static void run_many(struct check *c, const char *device)
{
	static const char *const names[] = {"lr", "softmax", "fm", "wdl", "mlp", "conv"};
	struct model_spec spec = draw_spec(c, names[check_draw(c, 6)]);
	struct error err = {};
	struct drawn d[3];
	uint64_t shape = c->state, serial = 0;
	void *s = NULL;
	if (paceline_model_backend.open(&s, &spec, device, &err) != 0)
		exit(1);
	for (int i = 0; i < 3; i++) {
		c->state = check_draw(c, 2) ? shape : c->state;
		draw_batch(c, &spec, i + 1, &d[i]);
		d[i].batch.serial = ++serial;
	}
	for (size_t turn = 0, now = 0; turn < 16; turn++) {
		size_t next = check_draw(c, 3);
		int result = run_drawn(c, s, d[now], check_draw(c, 8) > 0,
				       check_draw(c, 6) ? &d[next].batch : NULL, &err);
		if (result != 0)
			check_fail(c, err.text, turn, -1, 0);
		now = check_draw(c, 3) ? next : check_draw(c, 3);
		if (now == next && check_draw(c, 3) == 0) {
			struct drawn other = d[next];
			for (float &x : other.m.x)
				x = check_number(c);
			for (uint32_t &one : other.m.index)
				one = (uint32_t)check_draw(c, other.m.unique);
			draw_want(c, &spec, &other);
			std::swap(d[next].want, other.want);
			d[next].dense = other.dense;
			std::copy(other.m.x.begin(), other.m.x.end(), d[next].m.x.begin());
			std::copy(other.m.index.begin(), other.m.index.end(),
				  d[next].m.index.begin());
			d[next].batch.serial = ++serial;
		}
	}
	paceline_model_backend.free(s);
}

static void test_ahead(struct check *c)
{
	run_many(c, "cuda");
}

#ifdef CUDACPU_MACHINE_H
/* A table with more floats than 2^32. The sanitizers' tables of it would fill the machine. */
static void test_large(struct check *c)
{
#if !defined(CUDACPU_ASAN) && !defined(CUDACPU_MSAN) && !defined(CUDACPU_TSAN)
	size_t width = 17, row = ((size_t)1 << 28) + 3, memory = cudacpu::set.memory;
	floats last = check_numbers(c, width);
	cudacpu::set.memory = (size_t)1 << 35;
	float *rows = (float *)check_room(c, (row + 1) * width * sizeof(float));
	float *pinned = (float *)check_pinned(c, width * sizeof(float)),
	      *z = (float *)check_room(c, sizeof(float)),
	      *to = (float *)check_room(c, (width - 1) * sizeof(float));
	memcpy(pinned, last.data(), width * sizeof(float));
	queue_to_card(c->q, rows + row * width, pinned, width * sizeof(float));
	struct keys k = {1,
			 check_send(c, std::vector<uint32_t>{0, 1}),
			 check_send(c, std::vector<uint32_t>{(uint32_t)row}),
			 NULL,
			 rows,
			 width};
	rows_wide(c->q, k, NULL, 0, check_send(c, floats{0.5f}), z);
	rows_gather(c->q, k, 1, width - 1, 1.0f, NULL, 0, to);
	check_near(c, "z", z, {0.5 + (double)last[0]});
	check_near(c, "x", to, doubles(last.begin() + 1, last.end()));
	cudacpu::set.memory = memory;
#endif
	(void)c;
}

static void test_cards(struct check *c)
{
	cudacpu::control was = cudacpu::set;
	cudacpu::set.cards = 4;
	cudacpu::set.nccl = (int)check_draw(c, 3);
	run_many(c, check_draw(c, 2) ? "cuda:1+3" : "cuda:0+1+2+tf32");
	cudacpu::set.cards = was.cards;
	cudacpu::set.nccl = was.nccl;
	cudaSetDevice(0);
}

/* Each allocation fails once: an error, nothing is kept, and afterwards a smaller batch works. */
static void fail_each(struct check *c, const char *device, int turns)
{
	uint64_t state = c->state;
	for (long fail = 1;; fail++) {
		struct error err = {};
		void *s = NULL;
		long live = cudacpu::set.live;
		c->state = state;
		struct model_spec spec = draw_spec(c, "wdl");
		cudacpu::set.asked = 0;
		cudacpu::set.fail = fail;
		int result = paceline_model_backend.open(&s, &spec, device, &err);
		uint64_t shape = c->state;
		for (int alike = 1; result == 0 && alike <= turns; alike++) {
			struct drawn d;
			c->state = shape;
			draw_batch(c, &spec, alike, &d);
			d.batch.serial = (uint64_t)alike;
			result = run_drawn(c, s, d, 1, &d.batch, &err);
			result = result ? result : run_drawn(c, s, d, 1, NULL, &err);
		}
		if (result != 0 && (err.code != ERROR_OS && err.code != ERROR_UNAVAILABLE))
			check_fail(c, err.text, (size_t)fail, err.code, ERROR_OS);
		cudacpu::set.fail = 0;
		if (result != 0 && s && run_batch(c, s, &spec, 1, 0, &err) != 0)
			check_fail(c, "again", (size_t)fail, -1, 0);
		paceline_model_backend.free(s);
		if (cudacpu::set.live != live)
			check_fail(c, "kept", (size_t)fail, (double)cudacpu::set.live,
				   (double)live);
		if (cudacpu::set.asked < fail)
			break;
	}
	cudacpu::set.fail = 0;
}

static void test_no_memory(struct check *c)
{
	cudacpu::control was = cudacpu::set;
	fail_each(c, "cuda", 3);
	cudacpu::set.cards = 2;
	cudacpu::set.nccl = 1;
	fail_each(c, "cuda:0+1", 1);
	cudacpu::set.cards = was.cards;
	cudacpu::set.nccl = was.nccl;
	cudaSetDevice(0);
}

static void expect(struct check *c, const char *device, int code, const char *text)
{
	struct model_spec spec = {};
	struct error err = {};
	void *s = NULL;
	strcpy(spec.name, "wdl");
	spec.fields = spec.embed = spec.hidden.width[0] = spec.hidden.count = 1;
	if (paceline_model_backend.look(&spec, device, &err) >= 0 &&
	    paceline_model_backend.open(&s, &spec, device, &err) == 0)
		paceline_model_backend.free(s);
	if (err.code != code || strcmp(err.text, text) != 0) {
		printf("# %d: %s\n", err.code, err.text);
		check_fail(c, text, 0, err.code, code);
	}
}

/* A clear line for each reason why there is no card. */
static void test_no_card(struct check *c)
{
	cudacpu::control was = cudacpu::set;
	expect(c, "cuda:0+tf32", 0, "");
	expect(c, "cuda:1", ERROR_UNAVAILABLE, "this host has only 1 card, cuda:0");
	expect(c, "cuda:99999999999", ERROR_UNAVAILABLE, "this host has only 1 card, cuda:0");
	expect(c, "cuda:", ERROR_CONFIG, "cuda: is not cuda[:NUMBER][+tf32]");
	expect(c, "gpu", ERROR_CONFIG, "gpu is not cuda[:NUMBER][+tf32]");
	cudacpu::set.driver = 0;
	expect(c, "cuda", ERROR_UNAVAILABLE, "no NVIDIA driver on this host");
	cudacpu::set = was;
	cudacpu::set.cards = 0;
	expect(c, "cuda", ERROR_UNAVAILABLE, "no card on this host");
	cudacpu::set = was;
	cudacpu::set.major = 6;
	expect(c, "cuda", ERROR_UNAVAILABLE,
	       "CPU stand-in has compute capability 6.0: 7.5 is the least");
	cudacpu::set = was;
	expect(c, "cuda:0+1", 0, "");
	expect(c, "cuda:1+2", ERROR_UNAVAILABLE, "this host has only 1 card, cuda:0");
	cudacpu::set.blas = 0;
	expect(c, "cuda", ERROR_UNAVAILABLE,
	       "no cuBLAS on this host: libcublas.so.13 is not found");
	cudacpu::set = was;
}

static void lose(struct check *c, const char *device, int lost)
{
	struct model_spec spec = draw_spec(c, "wdl");
	struct error err = {};
	struct drawn d;
	void *s = NULL;
	if (paceline_model_backend.open(&s, &spec, device, &err) != 0)
		exit(1);
	do /* one of so few would be the first card's alone */
		draw_batch(c, &spec, 0, &d);
	while (d.m.n < 3);
	cudacpu::set.lost = lost;
	if (run_drawn(c, s, d, 1, NULL, &err) == 0 || err.code != ERROR_TEMPFAIL)
		check_fail(c, "lost", (size_t)lost, err.code, ERROR_TEMPFAIL);
	paceline_model_backend.free(s);
	s = NULL;
	/* Whoever comes next does without it. */
	if (strchr(device, '+') && paceline_model_backend.open(&s, &spec, device, &err) != 0)
		check_fail(c, "without", (size_t)lost, -1, 0);
	else if (s && (!strstr(paceline_model_backend.about(s), ", without cuda:") ||
		       run_drawn(c, s, d, 1, NULL, &err) != 0))
		check_fail(c, paceline_model_backend.about(s), (size_t)lost, -1, 0);
	paceline_model_backend.free(s);
	cudacpu::set.lost = 0;
}

/* A card falls off its bus: retryable, nobody waits for it, and free works. */
static void test_lost(struct check *c)
{
	cudacpu::control was = cudacpu::set;
	lose(c, "cuda", 1);
	cudacpu::set.cards = 3;
	for (int lost = 1; lost <= 3; lost++)
		for (cudacpu::set.nccl = 0; cudacpu::set.nccl < 2; cudacpu::set.nccl++)
			lose(c, "cuda:0+1+2", lost);
	cudacpu::set.cards = was.cards;
	cudacpu::set.nccl = was.nccl;
	cudaSetDevice(0);
}
#endif

/* ---- all of them ---- */

static const struct {
	const char *name;
	void (*run)(struct check *c);
	int once; /* in one shape */
} tests[] = {
	{"wide", test_wide, 0},
	{"weights", test_weights, 0},
	{"gather", test_gather, 0},
	{"rows", test_rows_gradient, 0},
	{"relu", test_relu, 0},
	{"dot", test_dot, 0},
	{"columns", test_column_sums, 0},
	{"loss", test_loss, 0},
	{"classes", test_softmax, 0},
	{"product", test_product, 0},
	{"fm", test_fm, 0},
	{"cin", test_cin, 0},
	{"windows", test_windows, 0},
	{"pool", test_pool, 0},
	{"lr", test_model, 0},
	{"svm", test_model, 0},
	{"linear", test_model, 0},
	{"softmax", test_model, 0},
	{"fm", test_model, 0},
	{"ffm", test_model, 0},
	{"wdl", test_model, 0},
	{"deepfm", test_model, 0},
	{"dcn", test_model, 0},
	{"xdeepfm", test_model, 0},
	{"mlp", test_model, 0},
	{"conv", test_model, 0},
	{"ahead", test_ahead, 0},
#ifdef CUDACPU_MACHINE_H
	{"cards", test_cards, 0},
	{"large", test_large, 1},
	{"no memory", test_no_memory, 1},
	{"no card", test_no_card, 1},
	{"lost", test_lost, 1},
#endif
};

static uint64_t run_one(size_t test, struct check *c, uint64_t shape, uint64_t seed)
{
#ifdef CUDACPU_MACHINE_H
	cudacpu::seed(seed);
#endif
	(void)seed;
	c->name = tests[test].name;
	c->state = (shape + 1) * 0x9e3779b97f4a7c15u + test;
	c->bits = 1469598103934665603u;
	tests[test].run(c);
	check_free(c);
	return c->bits;
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 12;
	uint64_t seeds = argc > 2 ? strtoul(argv[2], NULL, 10) : 4;
	struct check c = {};
	struct device device;
	struct error err = {};
	int failed = 0, number = 0;
	c.most = argc > 3 ? strtoul(argv[3], NULL, 10) : 70;
	if (device_open(&device, "cuda", 1, &err) != 0) {
		printf("# %s\n", err.text);
		return 69;
	}
	c.q = &device.queue;
	printf("# %s\n", device.about);
	for (size_t t = 0; t < sizeof(tests) / sizeof(*tests); t++) {
		if (argc > 4 && strcmp(argv[4], tests[t].name) != 0)
			continue;
		c.failed = 0;
		for (uint64_t shape = 0; shape < (tests[t].once ? 1 : rounds); shape++) {
			uint64_t first = run_one(t, &c, shape, 0);
			for (uint64_t seed = 1; seed < seeds; seed++)
				if (run_one(t, &c, shape, seed) != first && c.failed++ < 5)
					printf("# %s: shape %llu: seed %llu gives other bits\n",
					       c.name, (unsigned long long)shape,
					       (unsigned long long)seed);
		}
		printf("%s %d - %s\n", c.failed ? "not ok" : "ok", ++number, tests[t].name);
		failed |= c.failed;
	}
	printf("1..%d\n", number);
	device_close(&device);
	return failed ? 1 : 0;
}

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
#include "model/cuda/conv.h"
#include "model/cuda/cross.h"
#include "model/cuda/fm.h"
#include "model/cuda/layers.h"
#include "model/cuda/product.h"
#include "model/cuda/rows.h"

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
	struct keys k = {m.n, check_send(c, m.offset), check_send(c, m.index), NULL};
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
	rows_wide(c->q, keys_of(c, m), check_send(c, m.rows), m.width, check_send(c, m.x),
		  m.dense_inputs, check_send(c, dense), z);
	check_near(c, "z", z, want, 10);
}

static void test_gather(struct check *c)
{
	size_t fields = check_size(c, 7), embed = check_size(c, 40);
	struct made m = make(c, fields, embed);
	doubles want;
	for (size_t i = 0; i < m.n; i++) {
		for (size_t f = 0; f < fields; f++)
			for (size_t e = 0; e < embed; e++)
				want.push_back(
					0.5 *
					(double)m.rows[m.index[i * fields + f] * m.width + 1 + e]);
		for (size_t j = 0; j < m.dense_inputs; j++)
			want.push_back((double)m.x[i * m.dense_inputs + j]);
	}
	float *to = (float *)check_room(c, want.size() * sizeof(float));
	rows_gather(c->q, keys_of(c, m), fields, embed, check_send(c, m.rows), 0.5f,
		    check_send(c, m.x), m.dense_inputs, to);
	check_near(c, "x", to, want);
}

/* by: of each occurrence, in the order of index. */
static doubles gradient_of_rows(const struct made &m, const doubles &delta, const doubles &by,
				double gain)
{
	size_t embed = m.width - 1;
	doubles want(m.unique * m.width);
	for (size_t i = 0; i < m.n; i++)
		for (size_t k = m.offset[i]; k < m.offset[i + 1]; k++) {
			double *to = &want[m.index[k] * m.width];
			to[0] += delta[i] * value_of(m, k);
			for (size_t e = 0; e < embed; e++)
				to[1 + e] += gain * by[k * embed + e];
		}
	return want;
}

static doubles wider(const floats &from)
{
	return doubles(from.begin(), from.end());
}

static void test_rows_gradient(struct check *c)
{
	size_t fields = check_draw(c, 3) ? check_size(c, 5) : 0,
	       embed = check_draw(c, 3) ? check_size(c, 17) : 0;
	struct made m = make(c, fields, embed);
	struct occurrences o;
	size_t keys = m.index.size(), bytes = occurrences_bytes(keys, m.unique),
	       extra = check_draw(c, 3);
	size_t stride = fields && embed ? fields * embed + extra : 0;
	floats delta = check_numbers(c, m.n), by = check_numbers(c, keys * embed);
	floats wide(m.n * stride);
	for (size_t i = 0; stride && i < m.n; i++)
		memcpy(&wide[i * stride], &by[i * fields * embed], fields * embed * sizeof(float));
	std::vector<uint32_t> next(m.unique), sorted(bytes / sizeof(uint32_t));
	occurrences_sort(&o, sorted.data(), next.data(), m.offset.data(), m.index.data(), m.n,
			 m.unique);
	struct keys k = keys_of(c, m);
	void *there = check_room(c, bytes), *pinned = check_pinned(c, bytes);
	memcpy(pinned, sorted.data(), bytes);
	queue_to_card(c->q, there, pinned, bytes);
	float *parts = (float *)check_room(c, o.pieces * m.width * sizeof(float));
	float *to = (float *)check_room(c, m.unique * m.width * sizeof(float));
	rows_gradient(c->q, occurrences_at(&o, there), k.offset, k.value, check_send(c, delta),
		      check_send(c, stride ? wide : by), stride, 0.4f, m.width, parts, to);
	check_near(c, "gradient", to, gradient_of_rows(m, wider(delta), wider(by), (double)0.4f),
		   20);
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
	float *card = check_send(c, y), *card_by = check_send(c, by);
	layers_bias_relu(c->q, n, out, card, check_send(c, bias), 0.4f);
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

static void test_logistic(struct check *c)
{
	size_t n = check_size(c, 4 * c->most);
	int weights = check_draw(c, 2) == 0;
	floats z = check_numbers(c, n), weight = check_numbers(c, n), label;
	doubles delta, loss = {3};
	for (size_t i = 0; i < n; i++) {
		z[i] *= check_draw(c, 4) ? 10.0f : 100.0f;
		label.push_back(check_draw(c, 2) ? 1.0f : 0.0f);
		double x = (double)z[i], y = (double)label[i], w = weights ? (double)weight[i] : 1;
		delta.push_back(w * (1 / (1 + exp(-x)) - y));
		loss[0] += w * (fmax(x, 0) - x * y + log1p(exp(-fabs(x))));
	}
	float *to = check_send(c, z);
	double *sum = check_send(c, doubles{3});
	double *parts = (double *)check_room(c, layers_loss_parts(n) * sizeof(double));
	layers_logistic(c->q, n, to, check_send(c, label), weights ? check_send(c, weight) : NULL,
			to, parts, sum);
	check_near(c, "delta", to, delta);
	check_near(c, "loss", sum, loss, (double)n);
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
	int in_place = check_draw(c, 2) == 0;
	float *card = check_send(c, z);
	float *to = in_place ? card : (float *)check_room(c, n * classes * sizeof(float));
	double *each = (double *)check_room(c, n * sizeof(double)),
	       *sum = check_send(c, doubles{0});
	double *parts = (double *)check_room(c, layers_loss_parts(n) * sizeof(double));
	layers_softmax(c->q, n, classes, card, check_send(c, label),
		       weights ? check_send(c, weight) : NULL, to, each, parts, sum);
	check_near(c, "delta", to, delta);
	check_near(c, "loss", sum, loss, 30 * (double)n);
	label[n - 1] = (float)classes; /* there is no such class */
	layers_softmax(c->q, n, classes, check_send(c, z), check_send(c, label), NULL, to, each,
		       parts, sum);
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
	product_forward(c->q, n, out, in, 0.4f, card_x, card_w, 0, to_y);
	product_by_input(c->q, n, out, some, 0.4f, card_by, card_w, in, 0, to_x);
	product_by_weight(c->q, n, out, in, 0.4f, card_by, card_x, to_w);
	check_near(c, "y", to_y, y, 5);
	check_near(c, "by_x", to_x, by_x, 5);
	check_near(c, "by_w", to_w, by_w, 5);
}

/* ---- fm, cross, cin, conv ---- */

static void test_fm(struct check *c)
{
	size_t embed = check_size(c, 40);
	struct made m = make(c, 0, embed);
	floats delta = check_numbers(c, m.n), was = check_numbers(c, m.n),
	       by = check_numbers(c, m.index.size() * embed);
	doubles z = wider(was), want = wider(by);
	for (size_t i = 0; i < m.n; i++)
		for (size_t e = 0; e < embed; e++) {
			double sum = 0, squares = 0;
			for (size_t k = m.offset[i]; k < m.offset[i + 1]; k++) {
				double v = 0.5 * (double)m.rows[m.index[k] * m.width + 1 + e] *
					   value_of(m, k);
				sum += v;
				squares += v * v;
			}
			z[i] += 0.5 * (sum * sum - squares);
			for (size_t k = m.offset[i]; k < m.offset[i + 1]; k++) {
				double v = 0.5 * (double)m.rows[m.index[k] * m.width + 1 + e] *
					   value_of(m, k);
				want[k * embed + e] +=
					(double)delta[i] * value_of(m, k) * (sum - v);
			}
		}
	struct keys k = keys_of(c, m);
	float *rows = check_send(c, m.rows), *to = check_send(c, was), *to_by = check_send(c, by);
	float *s = (float *)check_room(c, m.n * embed * sizeof(float));
	fm_forward(c->q, k, embed, rows, 0.5f, s, to);
	fm_backward(c->q, k, embed, rows, 0.5f, s, check_send(c, delta), to_by);
	check_near(c, "z", to, z, 200);
	check_near(c, "by", to_by, want, 10);
}

static void test_cross(struct check *c)
{
	size_t n = check_size(c, c->most), in = check_size(c, c->most);
	floats x0 = check_numbers(c, n * in), x = check_numbers(c, n * in),
	       w = check_numbers(c, in), bias = check_numbers(c, in), by = check_numbers(c, n * in),
	       by_x0 = check_numbers(c, n * in), by_w = check_numbers(c, in),
	       by_bias = check_numbers(c, in);
	doubles next, want_by, want_x0 = wider(by_x0), want_w = wider(by_w),
			       want_bias = wider(by_bias);
	for (size_t i = 0; i < n; i++) {
		double dot = 0, by_dot = 0;
		for (size_t j = 0; j < in; j++) {
			dot += (double)x[i * in + j] * (double)w[j];
			by_dot += (double)by[i * in + j] * (double)x0[i * in + j];
		}
		for (size_t j = 0; j < in; j++) {
			size_t at = i * in + j;
			next.push_back((double)x0[at] * dot + (double)bias[j] + (double)x[at]);
			want_by.push_back((double)by[at] + by_dot * (double)w[j]);
			want_x0[at] += (double)by[at] * dot;
			want_w[j] += by_dot * (double)x[at];
			want_bias[j] += (double)by[at];
		}
	}
	float *card_x0 = check_send(c, x0), *card_x = check_send(c, x), *card_w = check_send(c, w);
	float *dots = (float *)check_room(c, n * sizeof(float)),
	      *by_dots = (float *)check_room(c, n * sizeof(float));
	float *to = (float *)check_room(c, n * in * sizeof(float)), *to_by = check_send(c, by),
	      *to_x0 = check_send(c, by_x0), *to_w = check_send(c, by_w),
	      *to_bias = check_send(c, by_bias);
	float *parts = (float *)check_room(c, layers_parts(n, in) * sizeof(float));
	cross_forward(c->q, n, in, card_x0, card_x, card_w, check_send(c, bias), dots, to);
	cross_backward(c->q, n, in, card_x0, card_x, card_w, dots, to_by, to_x0, by_dots, parts,
		       to_w, to_bias);
	check_near(c, "next", to, next, 10);
	check_near(c, "by", to_by, want_by, 10);
	check_near(c, "by_x0", to_x0, want_x0, 10);
	check_near(c, "by_w", to_w, want_w, 100);
	check_near(c, "by_bias", to_bias, want_bias, 20);
}

static void test_cin(struct check *c)
{
	struct cin s = {};
	s.n = check_size(c, 9);
	s.embed = check_size(c, 17);
	s.fields = check_draw(c, 4) ? check_size(c, 9) : 66;
	s.high = check_size(c, 9);
	s.out = check_draw(c, 4) ? check_size(c, 20) : 67;
	size_t columns = s.high * s.fields;
	floats x0 = check_numbers(c, s.n * s.fields * s.embed),
	       x = check_numbers(c, s.n * s.high * s.embed), w = check_numbers(c, s.out * columns),
	       by = check_numbers(c, s.n * s.out * s.embed), was_w = check_numbers(c, w.size()),
	       was_x0 = check_numbers(c, x0.size()), by_pool = check_numbers(c, s.n * s.out);
	doubles next(by.size()), by_w = wider(was_w), by_x0 = wider(was_x0), by_x(x.size()),
				 pool(s.n * s.out);
	for (size_t i = 0; i < s.n; i++)
		for (size_t o = 0; o < s.out; o++)
			for (size_t h = 0; h < s.high; h++)
				for (size_t j = 0; j < s.fields; j++)
					for (size_t e = 0; e < s.embed; e++) {
						size_t at = (i * s.out + o) * s.embed + e,
						       at_x = (i * s.high + h) * s.embed + e,
						       at_0 = (i * s.fields + j) * s.embed + e,
						       at_w = o * columns + h * s.fields + j;
						double a = (double)x[at_x], b = (double)x0[at_0],
						       v = (double)w[at_w], g = (double)by[at];
						next[at] += v * a * b;
						by_w[at_w] += g * a * b;
						by_x[at_x] += g * v * b;
						by_x0[at_0] += g * v * a;
					}
	for (size_t i = 0; i < next.size(); i++)
		pool[i / s.embed] += next[i];
	s.x0 = check_send(c, x0);
	s.x = check_send(c, x);
	s.w = check_send(c, w);
	float *to = (float *)check_room(c, by.size() * sizeof(float)), *to_w = check_send(c, was_w),
	      *to_x = (float *)check_room(c, x.size() * sizeof(float)),
	      *to_x0 = check_send(c, was_x0),
	      *to_pool = (float *)check_room(c, pool.size() * sizeof(float)),
	      *card_by = check_send(c, by);
	float *parts = (float *)check_room(c, cin_parts(s) * sizeof(float));
	cin_forward(c->q, s, to);
	cin_by_weight(c->q, s, card_by, parts, to_w);
	cin_by_input(c->q, s, card_by, to_x, to_x0);
	cin_pool(c->q, s, to, to_pool);
	cin_pool_back(c->q, s, check_send(c, by_pool), card_by);
	check_near(c, "next", to, next, 20);
	check_near(c, "by_w", to_w, by_w, 20);
	check_near(c, "by_x", to_x, by_x, 50);
	check_near(c, "by_x0", to_x0, by_x0, 50);
	check_near(c, "pool", to_pool, pool, 100);
	doubles back;
	for (size_t i = 0; i < by.size(); i++)
		back.push_back((double)by[i] + (double)by_pool[i / s.embed]);
	check_near(c, "by_next", card_by, back);
}

static void test_conv(struct check *c)
{
	struct images s = {check_size(c, 3), check_size(c, 5), 1 + check_draw(c, 9),
			   1 + check_draw(c, 9), check_draw(c, 2) == 0};
	size_t size = s.height * s.width, columns = s.channels * CONV_WINDOW,
	       floats_of = s.n * s.channels * size;
	floats x = check_numbers(c, floats_of), by = check_numbers(c, s.n * size * columns);
	doubles want(by.size()), back(floats_of);
	for (size_t i = 0; i < s.n; i++)
		for (size_t ch = 0; ch < s.channels; ch++)
			for (size_t p = 0; p < size; p++)
				for (size_t w = 0; w < CONV_WINDOW; w++) {
					long y = (long)(p / s.width + w / 3) - 1,
					     left = (long)(p % s.width + w % 3) - 1;
					if (y < 0 || left < 0 || y >= (long)s.height ||
					    left >= (long)s.width)
						continue;
					size_t from = (size_t)y * s.width + (size_t)left;
					size_t at = s.by_pixel
							    ? (i * size + from) * s.channels + ch
							    : (i * s.channels + ch) * size + from;
					size_t to = (i * size + p) * columns + ch * CONV_WINDOW + w;
					want[to] = (double)x[at];
					back[at] += (double)by[to];
				}
	float *card = check_send(c, x), *to = (float *)check_room(c, by.size() * sizeof(float)),
	      *to_x = (float *)check_room(c, floats_of * sizeof(float));
	conv_windows(c->q, s, card, to);
	conv_windows_back(c->q, s, check_send(c, by), to_x);
	check_near(c, "windows", to, want);
	check_near(c, "by_x", to_x, back, 5);
}

static void test_pool(struct check *c)
{
	struct images s = {check_size(c, 3), check_size(c, 5), 2 + check_draw(c, 9),
			   2 + check_draw(c, 9), 1};
	size_t h = s.height / 2, w = s.width / 2, pools = s.n * h * w * s.channels;
	floats x = check_numbers(c, s.n * s.height * s.width * s.channels),
	       by = check_numbers(c, pools);
	doubles want, back(x.size());
	for (size_t i = 0; i < pools; i++) {
		size_t ch = i % s.channels, col = i / s.channels % w, row = i / s.channels / w % h,
		       image = i / s.channels / w / h, best = 0;
		for (size_t k = 0; k < 4; k++) {
			size_t at =
				((image * s.height + 2 * row + k / 2) * s.width + 2 * col + k % 2) *
					s.channels +
				ch;
			best = k == 0 || x[at] > x[best] ? at : best;
		}
		want.push_back((double)x[best]);
		back[best] += (double)by[i];
	}
	float *to = (float *)check_room(c, pools * sizeof(float)),
	      *to_x = (float *)check_room(c, x.size() * sizeof(float));
	uint8_t *which = (uint8_t *)check_room(c, pools);
	conv_pool(c->q, s, check_send(c, x), to, which);
	conv_pool_back(c->q, s, check_send(c, by), which, to_x);
	check_near(c, "pool", to, want);
	check_near(c, "by_x", to_x, back);
}

/* ---- the plug-in ---- */

#define PLAIN_GAIN 0.4 /* of wdl */

/* wdl in double, one sample after the other; lr is wdl without layers. */
struct plain {
	const struct model_spec *s;
	const struct made *m;
	const floats *dense;
	doubles z, dense_gradient, row_gradient;
	double loss;
};

static void plain_sample(struct plain *p, size_t i, int train)
{
	const struct model_spec *s = p->s;
	const struct made *m = p->m;
	const floats &w = *p->dense;
	uint32_t layers = strcmp(s->name, "wdl") == 0 ? s->hidden.count : 0;
	std::vector<doubles> h(layers + 1);
	double z = (double)w[0];
	size_t at = 1 + m->dense_inputs, embed = m->width - 1;
	for (size_t k = m->offset[i]; k < m->offset[i + 1]; k++) {
		z += (double)m->rows[m->index[k] * m->width] * value_of(*m, k);
		for (size_t e = 0; e < embed; e++)
			h[0].push_back(PLAIN_GAIN *
				       (double)m->rows[m->index[k] * m->width + 1 + e]);
	}
	for (size_t j = 0; j < m->dense_inputs; j++) {
		z += (double)m->x[i * m->dense_inputs + j] * (double)w[1 + j];
		h[0].push_back((double)m->x[i * m->dense_inputs + j]);
	}
	for (uint32_t l = 0; l < layers; l++) {
		size_t in = h[l].size();
		for (size_t o = 0; o < s->hidden.width[l]; o++) {
			double v = (double)w[at + s->hidden.width[l] * in + o];
			for (size_t j = 0; j < in; j++)
				v += h[l][j] * (double)w[at + o * in + j];
			h[l + 1].push_back(v > 0 ? PLAIN_GAIN * v : 0);
		}
		at += s->hidden.width[l] * (in + 1);
	}
	for (size_t j = 0; layers && j < h[layers].size(); j++)
		z += PLAIN_GAIN * h[layers][j] * (double)w[at + j];
	p->z.push_back(z);
	if (!train)
		return;
	double weight = m->weights ? (double)m->weight[i] : 1, y = (double)m->label[i];
	double delta = weight * (1 / (1 + exp(-z)) - y);
	p->loss += weight * (fmax(z, 0) - z * y + log1p(exp(-fabs(z))));
	doubles by;
	for (size_t j = 0; layers && j < h[layers].size(); j++) {
		by.push_back(PLAIN_GAIN * delta * (double)w[at + j]);
		p->dense_gradient[at + j] += PLAIN_GAIN * delta * h[layers][j];
	}
	for (uint32_t l = layers; l-- > 0;) {
		size_t in = h[l].size();
		doubles next(in);
		at -= s->hidden.width[l] * (in + 1);
		for (size_t o = 0; o < s->hidden.width[l]; o++) {
			if (!(h[l + 1][o] > 0))
				continue;
			p->dense_gradient[at + s->hidden.width[l] * in + o] += PLAIN_GAIN * by[o];
			for (size_t j = 0; j < in; j++) {
				p->dense_gradient[at + o * in + j] += PLAIN_GAIN * by[o] * h[l][j];
				next[j] += PLAIN_GAIN * by[o] * (double)w[at + o * in + j];
			}
		}
		by = next;
	}
	p->dense_gradient[0] += delta;
	for (size_t j = 0; j < m->dense_inputs; j++)
		p->dense_gradient[1 + j] += delta * (double)m->x[i * m->dense_inputs + j];
	for (size_t k = m->offset[i]; k < m->offset[i + 1]; k++) {
		double *to = &p->row_gradient[m->index[k] * m->width];
		to[0] += delta * value_of(*m, k);
		for (size_t e = 0; layers && e < embed; e++)
			to[1 + e] += PLAIN_GAIN * by[(k - m->offset[i]) * embed + e];
	}
}

static void hash(struct check *c, const floats &what)
{
	for (size_t i = 0; i < what.size() * sizeof(float); i++)
		c->bits = (c->bits ^ ((const unsigned char *)what.data())[i]) * 1099511628211u;
}

static void compare(struct check *c, const char *what, const floats &got, const doubles &want,
		    double scale)
{
	hash(c, got);
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

/* alike: not 0: a batch in one step, of a size that depends only on the state; nothing else does.
 */
static int run_batch(struct check *c, void *s, const struct model_spec *spec, int train, int alike,
		     struct error *err)
{
	const struct model_backend *b = &paceline_model_backend;
	struct made m = make(c, spec->fields, strcmp(spec->name, "wdl") == 0 ? spec->embed : 0);
	size_t in = m.fields * spec->embed + spec->dense_inputs,
	       dense_count = 1 + spec->dense_inputs;
	if (alike) {
		c->state += (uint64_t)alike << 40;
		m.unique = alike > 1 ? 1 + check_draw(c, m.unique) : m.unique; /* memory stays */
		m.rows = check_numbers(c, m.unique * m.width);
		for (uint32_t &one : m.index)
			one = (uint32_t)check_draw(c, m.unique);
	}
	m.dense_inputs = spec->dense_inputs;
	m.x = check_numbers(c, m.n * m.dense_inputs);
	m.weights = m.weights && train;
	if (m.width > 1) {
		for (uint32_t l = 0; l < spec->hidden.count; in = spec->hidden.width[l++])
			dense_count += (in + 1) * spec->hidden.width[l];
		dense_count += in;
	}
	floats dense = check_numbers(c, dense_count), gradient(dense_count), rows(m.rows.size()),
	       z(m.n);
	struct plain p = {spec, &m, &dense, {}, doubles(dense_count), doubles(m.rows.size()), 0};
	for (size_t i = 0; i < m.n; i++)
		plain_sample(&p, i, train);
	struct model_batch batch = {};
	batch.count = m.n;
	batch.dense = m.dense_inputs ? m.x.data() : NULL;
	batch.label = m.label.data();
	batch.weight = m.weights ? m.weight.data() : NULL;
	batch.offset = m.offset.data();
	batch.index = m.index.data();
	batch.value = m.values ? m.value.data() : NULL;
	struct model_load load = {&batch, m.unique, dense.data(), m.rows.data(), !train};
	if (b->begin(s, &load, err) != 0)
		return -1;
	if (!train) {
		if (b->logits(s, z.data(), err) != 0)
			return -1;
		compare(c, "z", z, p.z, 50);
		return 0;
	}
	for (size_t at = 0, count; at < m.n; at += count) {
		count = alike || check_draw(c, 2) ? m.n - at : 1 + check_draw(c, m.n - at);
		if (b->step(s, at, count, at + count == m.n, err) != 0)
			return -1;
	}
	double loss = 5;
	struct told told = {dense_count, 0};
	struct model_sums sums = {gradient.data(), rows.data(), &loss, tell, &told};
	if (b->end(s, &sums, err) != 0)
		return -1;
	compare(c, "dense gradient", gradient, p.dense_gradient, 50);
	compare(c, "row gradient", rows, p.row_gradient, 50);
	if (!(fabs(loss - 5 - p.loss) <= 1e-5 * (fabs(p.loss) + (double)m.n)))
		check_fail(c, "loss", 0, loss - 5, p.loss);
	if (told.at != 0 || told.wrong)
		check_fail(c, "told", told.at, 0, 0);
	return 0;
}

static struct model_spec draw_spec(struct check *c, const char *name)
{
	struct model_spec spec = {};
	int deep = strcmp(name, "wdl") == 0;
	strcpy(spec.name, name);
	spec.dense_inputs = check_draw(c, 3) ? (uint32_t)check_size(c, 20) : 0;
	spec.fields = deep ? (uint32_t)check_size(c, 5) : 0;
	spec.embed = (uint32_t)check_size(c, 9);
	spec.hidden.count = 1 + (uint32_t)check_draw(c, 3);
	for (uint32_t i = 0; i < spec.hidden.count; i++)
		spec.hidden.width[i] = (uint32_t)check_size(c, 20);
	return spec;
}

static void test_model(struct check *c, const char *name)
{
	struct model_spec spec = draw_spec(c, name);
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

static void test_lr(struct check *c)
{
	test_model(c, "lr");
}

static void test_wdl(struct check *c)
{
	test_model(c, "wdl");
}

#ifdef CUDACPU_MACHINE_H
/* Each allocation fails once: an error, nothing is kept, and afterwards a smaller batch works. */
static void test_no_memory(struct check *c)
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
		int result = paceline_model_backend.open(&s, &spec, "cuda", &err);
		uint64_t shape = c->state;
		for (int alike = 1; result == 0 && alike <= 3; alike++) {
			c->state = shape;
			result = run_batch(c, s, &spec, 1, alike, &err);
		}
		if (result != 0 && (err.code != ERROR_OS && err.code != ERROR_UNAVAILABLE))
			check_fail(c, err.text, (size_t)fail, err.code, ERROR_OS);
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

static void expect(struct check *c, const char *device, int code, const char *text)
{
	struct model_spec spec = {};
	struct error err = {};
	void *s = NULL;
	strcpy(spec.name, "wdl");
	spec.fields = spec.embed = spec.hidden.width[0] = spec.hidden.count = 1;
	if (paceline_model_backend.open(&s, &spec, device, &err) == 0)
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
	expect(c, "cuda:0,tf32", 0, "");
	expect(c, "cuda:1", ERROR_UNAVAILABLE, "this host has only 1 card, cuda:0");
	expect(c, "cuda:99999999999", ERROR_UNAVAILABLE, "this host has only 1 card, cuda:0");
	expect(c, "cuda:", ERROR_CONFIG, "cuda: is not cuda[:NUMBER][,tf32]");
	expect(c, "gpu", ERROR_CONFIG, "gpu is not cuda[:NUMBER][,tf32]");
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
	cudacpu::set.blas = 0;
	expect(c, "cuda", ERROR_UNAVAILABLE,
	       "no cuBLAS on this host: libcublas.so.13 is not found");
	cudacpu::set = was;
}

/* The card falls off its bus: retryable, and free works. */
static void test_lost(struct check *c)
{
	struct model_spec spec = draw_spec(c, "wdl");
	struct error err = {};
	void *s = NULL;
	if (paceline_model_backend.open(&s, &spec, "cuda", &err) != 0)
		exit(1);
	cudacpu::set.lost = 1;
	if (run_batch(c, s, &spec, 1, 0, &err) == 0 || err.code != ERROR_TEMPFAIL)
		check_fail(c, "lost", 0, err.code, ERROR_TEMPFAIL);
	cudacpu::set.lost = 0;
	paceline_model_backend.free(s);
}
#endif

/* ---- all of them ---- */

static const struct {
	const char *name;
	void (*run)(struct check *c);
	int once; /* in one shape */
} tests[] = {
	{"wide", test_wide, 0},
	{"gather", test_gather, 0},
	{"rows", test_rows_gradient, 0},
	{"relu", test_relu, 0},
	{"dot", test_dot, 0},
	{"columns", test_column_sums, 0},
	{"logistic", test_logistic, 0},
	{"softmax", test_softmax, 0},
	{"product", test_product, 0},
	{"fm", test_fm, 0},
	{"cross", test_cross, 0},
	{"cin", test_cin, 0},
	{"conv", test_conv, 0},
	{"pool", test_pool, 0},
	{"lr", test_lr, 0},
	{"wdl", test_wdl, 0},
#ifdef CUDACPU_MACHINE_H
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

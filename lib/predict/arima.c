/*
 * arima: ARIMA(p, d, q) on the last speeds (LB-BSP Table 3: 2, 2, 1), the order given or the
 * one of the smallest AIC (Ozaki 1977).
 *
 * z = the d-th differences (d = 0: less their mean);  z_t = sum phi_i z_{t-i} + e_t + sum theta_j
 * e_{t-j}.  Fitted by least conditional squares: a start by Hannan and Rissanen (a long
 * autoregression gives the e, then one regression), then Gauss-Newton steps, each taken only if it
 * helps.  Theta stays where the recursion for e forgets.
 * One order is fitted an observation, so that the cost is the same at all times; all orders compete
 * on the same speeds, those behind the first START of the window.
 */
#include "predict/predict_internal.h"

#include <math.h>
#include <string.h>

#define WINDOW 256
#define FIRST_FIT 48 /* observations; before that ema speaks */
#define REFIT_EVERY 8
#define LONG 8      /* order of the long autoregression */
#define START 12    /* speeds at the window's beginning that are nobody's target */
#define ORDER_MAX PREDICT_ORDER_MAX
#define ORDERS ((ORDER_MAX + 1) * 3 * (ORDER_MAX + 1)) /* p, d, q */
#define TERMS_MAX LONG
#define STEPS 4

struct arima_fit {
	double phi[ORDER_MAX], theta[ORDER_MAX], aic; /* aic NAN: none */
};

struct arima {
	double speed[WINDOW]; /* a ring */
	uint64_t count;
	double ema, alpha;
	uint64_t by_aic, p, d, q; /* the order in force */
	struct arima_fit fit;     /* in force */
	/* the search: where it is, and the best so far of this round */
	uint64_t next, best_p, best_d, best_q;
	double best_aic;
};

struct series {
	double z[WINDOW], e[WINDOW];
	size_t n, from; /* z[from..n) are targets */
	double mean;
};

/* The window, oldest first, differenced d times. */
static void series_make(const struct arima *a, unsigned d, struct series *s)
{
	size_t n = a->count < WINDOW ? (size_t)a->count : WINDOW;
	for (size_t i = 0; i < n; i++)
		s->z[i] = a->speed[(a->count - n + i) % WINDOW];
	s->mean = 0;
	if (d == 0) {
		for (size_t i = 0; i < n; i++)
			s->mean += s->z[i] / (double)n;
		for (size_t i = 0; i < n; i++)
			s->z[i] -= s->mean;
	}
	for (unsigned k = 0; k < d; k++, n--)
		for (size_t i = 0; i + 1 < n; i++)
			s->z[i] = s->z[i + 1] - s->z[i];
	s->n = n;
	s->from = START - d;
}

/* Least squares by Cholesky, matrix in full, n <= TERMS_MAX. -1: not solvable. */
static int arima_solve(double m[TERMS_MAX][TERMS_MAX], double *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		m[i][i] *= 1 + 1e-9;
		for (size_t j = 0; j <= i; j++) {
			double sum = m[i][j];
			for (size_t k = 0; k < j; k++)
				sum -= m[i][k] * m[j][k];
			if (i == j) {
				if (!(sum > 1e-300))
					return -1;
				m[i][i] = sqrt(sum);
			} else {
				m[i][j] = sum / m[j][j];
			}
		}
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < i; k++)
			b[i] -= m[i][k] * b[k];
		b[i] /= m[i][i];
	}
	for (size_t i = n; i-- > 0;) {
		for (size_t k = i + 1; k < n; k++)
			b[i] -= m[k][i] * b[k];
		b[i] /= m[i][i];
	}
	return 0;
}

/* Adds a target and its regressors to the normal equations. */
static void equation(double m[TERMS_MAX][TERMS_MAX], double *b, const double *x, double y, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		b[i] += x[i] * y;
		for (size_t j = 0; j < n; j++)
			m[i][j] += x[i] * x[j];
	}
}

/* Errors of a fit, the sum of their squares over the targets. Before the first one they are 0. */
static double residuals(struct series *s, const struct arima_fit *f, size_t p, size_t q)
{
	double sum = 0;
	for (size_t t = 0; t < s->n; t++) {
		double e = t >= p ? s->z[t] : 0;
		for (size_t i = 0; i < p && t >= p; i++)
			e -= f->phi[i] * s->z[t - 1 - i];
		for (size_t j = 0; j < q && j < t && t >= p; j++)
			e -= f->theta[j] * s->e[t - 1 - j];
		s->e[t] = e;
		if (t >= s->from)
			sum += e * e;
	}
	return sum;
}

/* Whether errors of long ago are forgotten: they are run through the recursion alone. */
static int forgets(const double *theta, size_t q)
{
	double e[ORDER_MAX] = {0};
	if (q == 0)
		return 1;
	if (q == 1)
		return fabs(theta[0]) < 0.995;
	e[0] = 1;
	for (int t = 0; t < 400; t++) {
		double next = 0;
		for (size_t j = 0; j < q; j++)
			next -= theta[j] * e[j];
		for (size_t j = q - 1; j > 0; j--)
			e[j] = e[j - 1];
		e[0] = next;
		if (!(fabs(next) < 1e6))
			return 0;
	}
	return fabs(e[0]) + fabs(e[1]) < 1;
}

/* Hannan and Rissanen's start; without one, all terms are 0. */
static void arima_start(struct series *s, struct arima_fit *f, size_t p, size_t q)
{
	double m[TERMS_MAX][TERMS_MAX] = {{0}}, b[TERMS_MAX] = {0}, x[TERMS_MAX];
	if (q > 0) {
		for (size_t t = LONG; t < s->n; t++) {
			for (size_t i = 0; i < LONG; i++)
				x[i] = s->z[t - 1 - i];
			equation(m, b, x, s->z[t], LONG);
		}
		if (arima_solve(m, b, LONG) != 0)
			return;
		for (size_t t = 0; t < s->n; t++) {
			s->e[t] = 0;
			if (t < LONG)
				continue;
			s->e[t] = s->z[t];
			for (size_t i = 0; i < LONG; i++)
				s->e[t] -= b[i] * s->z[t - 1 - i];
		}
		memset(m, 0, sizeof m);
		memset(b, 0, sizeof b);
	}
	for (size_t t = s->from > LONG + q ? s->from : LONG + q; t < s->n; t++) {
		for (size_t i = 0; i < p; i++)
			x[i] = s->z[t - 1 - i];
		for (size_t j = 0; j < q; j++)
			x[p + j] = s->e[t - 1 - j];
		equation(m, b, x, s->z[t], p + q);
	}
	if (arima_solve(m, b, p + q) != 0)
		return; /* differences that are all 0 need no terms */
	memcpy(f->phi, b, p * sizeof *b);
	memcpy(f->theta, b + p, q * sizeof *b);
	while (!forgets(f->theta, q))
		for (size_t j = 0; j < q; j++)
			f->theta[j] *= 0.9;
}

/* One Gauss-Newton step for (phi, theta), from the errors in s; de/dphi_i = -z_{t-i} - sum theta
 * de_{t-j}, de/dtheta_j = -e_{t-j} - sum theta de. */
static int newton(const struct series *s, const struct arima_fit *f, size_t p, size_t q, double *move)
{
	double m[TERMS_MAX][TERMS_MAX] = {{0}}, slope[ORDER_MAX + 1][TERMS_MAX] = {{0}};
	memset(move, 0, TERMS_MAX * sizeof *move);
	for (size_t t = p; t < s->n; t++) {
		double now[TERMS_MAX];
		for (size_t i = 0; i < p + q; i++) {
			size_t back = i < p ? i : i - p;
			now[i] = t < back + 1 ? 0 : i < p ? -s->z[t - 1 - back] : -s->e[t - 1 - back];
			for (size_t j = 0; j < q; j++)
				now[i] -= f->theta[j] * slope[j][i];
		}
		for (size_t j = ORDER_MAX; j > 0; j--)
			memcpy(slope[j], slope[j - 1], sizeof slope[j]);
		memcpy(slope[0], now, sizeof now);
		if (t >= s->from)
			equation(m, move, now, -s->e[t], p + q);
	}
	return arima_solve(m, move, p + q);
}

static void refine(struct series *s, struct arima_fit *f, size_t p, size_t q, double *sum)
{
	double move[TERMS_MAX];
	for (int round = 0; q > 0 && round < STEPS; round++) {
		if (newton(s, f, p, q, move) != 0)
			return;
		double part = 1;
		for (int tries = 0; tries < 3; tries++, part /= 4) {
			struct arima_fit g = *f;
			for (size_t i = 0; i < p; i++)
				g.phi[i] += part * move[i];
			for (size_t j = 0; j < q; j++)
				g.theta[j] += part * move[p + j];
			double better = forgets(g.theta, q) ? residuals(s, &g, p, q) : INFINITY;
			if (better < *sum) {
				part = *sum - better > 1e-4 * *sum ? 1 : 0;
				*f = g;
				*sum = better;
				break;
			}
		}
		residuals(s, f, p, q); /* the errors of what is in force, for the next step */
		if (part != 1)
			return;
	}
}

static int arima_fit(const struct arima *a, size_t p, unsigned d, size_t q, struct arima_fit *f)
{
	struct series s;
	series_make(a, d, &s);
	*f = (struct arima_fit){.aic = NAN};
	if (p + q > 0)
		arima_start(&s, f, p, q);
	double sum = residuals(&s, f, p, q), targets = (double)(s.n - s.from);
	if (!isfinite(sum))
		return -1;
	refine(&s, f, p, q, &sum);
	/* Equal speeds leave no error at all; the smallest number keeps the logarithm finite. */
	f->aic = targets * log(fmax(sum / targets, 1e-300)) +
		 2 * (double)(p + q + (d == 0) + 1);
	return 0;
}

/* The next order of the search; the round's best is in force when all have been tried. */
static void search(struct arima *a)
{
	struct arima_fit f;
	size_t p = (size_t)(a->next % (ORDER_MAX + 1));
	unsigned d = (unsigned)(a->next / (ORDER_MAX + 1) % 3);
	size_t q = (size_t)(a->next / (ORDER_MAX + 1) / 3);
	if (arima_fit(a, p, d, q, &f) == 0 && (isnan(a->best_aic) || f.aic < a->best_aic)) {
		a->best_aic = f.aic;
		a->best_p = p;
		a->best_d = d;
		a->best_q = q;
	}
	if (++a->next < ORDERS)
		return;
	a->next = 0;
	if (!isnan(a->best_aic)) {
		a->p = a->best_p;
		a->d = a->best_d;
		a->q = a->best_q;
		if (arima_fit(a, a->p, (unsigned)a->d, a->q, &f) == 0)
			a->fit = f;
	}
	a->best_aic = NAN;
}

static int arima_init(void *state, const struct predict_config *c, struct error *err)
{
	struct arima *a = state;
	(void)err;
	a->alpha = c->alpha;
	a->ema = a->fit.aic = a->best_aic = NAN;
	a->by_aic = c->by_aic != 0;
	a->p = c->p;
	a->d = c->d;
	a->q = c->q;
	return 0;
}

static double arima_predict(void *state, double cpu, double mem)
{
	const struct arima *a = state;
	struct series s;
	(void)cpu, (void)mem;
	if (isnan(a->fit.aic) || a->count < FIRST_FIT)
		return a->ema;
	series_make(a, (unsigned)a->d, &s);
	residuals(&s, &a->fit, (size_t)a->p, (size_t)a->q);
	double z = 0, low = INFINITY, high = 0;
	for (size_t i = 0; i < a->p; i++)
		z += a->fit.phi[i] * s.z[s.n - 1 - i];
	for (size_t j = 0; j < a->q; j++)
		z += a->fit.theta[j] * s.e[s.n - 1 - j];
	double v1 = a->speed[(a->count - 1) % WINDOW], v2 = a->speed[(a->count - 2) % WINDOW];
	double speed = a->d == 0 ? s.mean + z : a->d == 1 ? v1 + z : 2 * v1 - v2 + z;
	for (size_t i = 0; i < (a->count < WINDOW ? a->count : WINDOW); i++) {
		low = fmin(low, a->speed[i]);
		high = fmax(high, a->speed[i]);
	}
	return isfinite(speed) ? fmin(fmax(speed, low / 2), high * 2) : a->ema;
}

static void arima_observe(void *state, double speed)
{
	struct arima *a = state;
	struct arima_fit f;
	a->speed[a->count++ % WINDOW] = speed;
	a->ema = isnan(a->ema) ? speed : (1 - a->alpha) * a->ema + a->alpha * speed;
	if (a->count < FIRST_FIT)
		return;
	if (a->by_aic)
		search(a);
	/* A fit that fails leaves the old one, or ema, in force. */
	if ((isnan(a->fit.aic) || a->count % REFIT_EVERY == 0) &&
	    arima_fit(a, (size_t)a->p, (unsigned)a->d, (size_t)a->q, &f) == 0)
		a->fit = f;
}

static void arima_walk(void *state, struct predict_state *f)
{
	struct arima *a = state;
	predict_state_u64(f, "count", &a->count, UINT64_MAX / 2);
	size_t held = a->count < WINDOW ? (size_t)a->count : WINDOW;
	predict_state_reals(f, "speed", a->speed, held);
	predict_state_reals(f, "ema", &a->ema, 1);
	predict_state_u64(f, "p", &a->p, ORDER_MAX);
	predict_state_u64(f, "d", &a->d, 2);
	predict_state_u64(f, "q", &a->q, ORDER_MAX);
	predict_state_reals(f, "phi", a->fit.phi, ORDER_MAX);
	predict_state_reals(f, "theta", a->fit.theta, ORDER_MAX);
	predict_state_reals(f, "aic", &a->fit.aic, 1);
	predict_state_u64(f, "next", &a->next, ORDERS - 1);
	predict_state_u64(f, "best-p", &a->best_p, ORDER_MAX);
	predict_state_u64(f, "best-d", &a->best_d, 2);
	predict_state_u64(f, "best-q", &a->best_q, ORDER_MAX);
	predict_state_reals(f, "best-aic", &a->best_aic, 1);
}

const struct predict_kind predict_arima = {.name = "arima",
					   .bytes = sizeof(struct arima),
					   .init = arima_init,
					   .predict = arima_predict,
					   .observe = arima_observe,
					   .walk = arima_walk};

/* fit: see fit.h. Pure arithmetic, the same order of sums each time. */
#include "plan/fit.h"

#include "base/reals.h"

#include <math.h>
#include <string.h>

#define LIMITED 0.9      /* of its cores in use: it would use more */
#define SPREAD_MIN 0.005 /* nothing is measured better than this */
#define TURNS 12         /* of weighing anew */
#define CANDIDATES 12    /* values of w^ and s^ that are tried, besides what was measured */
#define PRIOR 0.01       /* price of a w^ that is e times what was measured */
#define RIDGE 1e-9       /* parts of which nothing is told: their error is large, and finite */
#define ROWS_MAX (4 * FIT_POINTS_MAX)

/* One equation: x . (io, worker_work, server_work) = y, in parts of the point's time. */
struct row {
	double x[3], y, weight;
};

/* A point by its medians. */
struct median {
	double workers, w, share, value[FIT_VALUES];
	double rounds;
	uint64_t seen;
	int has_phases;
};

/* NAN where none of the rounds said it. */
static double median_of_value(const struct fit_point *p, enum fit_value which)
{
	double v[FIT_ROUNDS_MAX];
	size_t n = 0, kept = p->rounds < FIT_ROUNDS_MAX ? (size_t)p->rounds : FIT_ROUNDS_MAX;
	for (size_t i = 0; i < kept; i++)
		if (!isnan(p->value[which][i]))
			v[n++] = p->value[which][i];
	return n ? reals_median(v, n) : NAN;
}

static struct median median_of_point(const struct fit_point *p)
{
	struct median m = {.workers = p->workers,
			   .w = p->w,
			   .share = p->servers / p->workers,
			   .seen = p->seen};
	for (int i = 0; i < FIT_VALUES; i++)
		m.value[i] = median_of_value(p, (enum fit_value)i);
	m.rounds = (double)(p->rounds < FIT_ROUNDS_MAX ? p->rounds : FIT_ROUNDS_MAX);
	m.has_phases = !isnan(m.value[FIT_COMPUTE]);
	return m;
}

/* ---- what a step can use: w^ and s^ as measured ---- */

/* Cores at work while it is the role's turn: CPU time of a step over the time of that phase; where
 * phases are not measured, over the whole step, as the paper has it. */
static double at_work(double used, double time, double phase, double cap)
{
	if (isnan(phase) || phase <= 0)
		return used;
	double cores = used * time / phase;
	return cores < cap ? cores : cap;
}

static double cores_at_work(const struct median *m, enum plan_role role)
{
	int is_worker = role == PLAN_WORKER;
	return at_work(m->value[is_worker ? FIT_WORKER_USED : FIT_SERVER_USED], m->value[FIT_TIME],
		       m->value[is_worker ? FIT_COMPUTE : FIT_UPDATE], is_worker ? m->w : m->share);
}

double fit_at_work(const struct usage *u, enum plan_role role)
{
	double workers = (double)u->role[PLAN_WORKER].count;
	return at_work(u->role[role].used / workers, workers / u->rate,
		       role == PLAN_WORKER ? u->compute : u->update, u->role[role].cores / workers);
}

int fit_is_held_back(double work, double cores)
{
	return work >= LIMITED * cores;
}

/* Workers: the newest configuration that did not hold them back; servers: the one with the fewest
 * workers, which do not get into each other's way. Where all were held back, the most. */
static double measured_cores(const struct median *m, size_t n, enum plan_role role)
{
	const struct median *best = NULL;
	double most = 0;
	for (size_t i = 0; i < n; i++) {
		double cores = cores_at_work(&m[i], role);
		most = cores > most ? cores : most;
		if (cores <= 0 ||
		    fit_is_held_back(cores, role == PLAN_WORKER ? m[i].w : m[i].share))
			continue;
		if (!best || (role == PLAN_SERVER && m[i].workers != best->workers
				      ? m[i].workers < best->workers
				      : m[i].seen > best->seen))
			best = &m[i];
	}
	if (best)
		return cores_at_work(best, role);
	return most > 0.01 ? most : 0.01;
}

/* ---- least squares with three unknowns, none negative ---- */

/* Symmetric a to its inverse; unknowns whose bit is not in `use` are left out (zeros). */
static void invert(double a[3][3], unsigned use, double out[3][3])
{
	double m[3][6] = {{0}}, unit[3];
	for (int i = 0; i < 3; i++)
		unit[i] = a[i][i] > 0 ? sqrt(a[i][i]) : 1;
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 3; j++)
			m[i][j] = (use >> i & use >> j & 1) ? a[i][j] / unit[i] / unit[j] : 0;
		m[i][i] = use >> i & 1 ? m[i][i] + RIDGE : 1;
		m[i][3 + i] = 1;
	}
	for (int p = 0; p < 3; p++) { /* positive definite: no pivoting */
		double by = m[p][p];
		for (int j = 0; j < 6; j++)
			m[p][j] /= by;
		for (int i = 0; i < 3; i++) {
			double times = m[i][p];
			for (int j = 0; i != p && j < 6; j++)
				m[i][j] -= times * m[p][j];
		}
	}
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
			out[i][j] = (use >> i & use >> j & 1) ? m[i][3 + j] / unit[i] / unit[j] : 0;
}

static double residual(const struct row *r, const double part[3])
{
	return r->x[0] * part[0] + r->x[1] * part[1] + r->x[2] * part[2] - r->y;
}

static double loss_of(const struct row *row, size_t n, const double part[3])
{
	double sum = 0, weight = 0;
	for (size_t i = 0; i < n; i++) {
		sum += row[i].weight * fabs(residual(&row[i], part));
		weight += row[i].weight;
	}
	return sum / weight;
}

/* weight: of each row in this turn. */
static void fit_solve(const struct row *row, size_t n, const double *weight, double part[3])
{
	double a[3][3] = {{0}}, b[3] = {0}, best = INFINITY, result[3] = {0};
	for (size_t i = 0; i < n; i++)
		for (int j = 0; j < 3; j++) {
			for (int k = 0; k < 3; k++)
				a[j][k] += weight[i] * row[i].x[j] * row[i].x[k];
			b[j] += weight[i] * row[i].x[j] * row[i].y;
		}
	for (unsigned use = 7; use > 0; use--) {
		double inverse[3][3], try[3] = {0}, gain = 0;
		invert(a, use, inverse);
		for (int j = 0; j < 3; j++)
			for (int k = 0; k < 3; k++)
				try[j] += inverse[j][k] * b[k];
		if (try[0] < 0 || try[1] < 0 || try[2] < 0)
			continue;
		for (int j = 0; j < 3; j++) { /* the sum of squares, less a constant */
			gain -= 2 * try[j] * b[j];
			for (int k = 0; k < 3; k++)
				gain += try[j] * a[j][k] * try[k];
		}
		if (gain < best) {
			best = gain;
			memcpy(result, try, sizeof result);
		}
		if (use == 7)
			break; /* none is negative: no better one with fewer */
	}
	memcpy(part, result, sizeof result);
}

static double fit_rows(const struct row *row, size_t n, double part[3])
{
	double weight[ROWS_MAX];
	for (size_t i = 0; i < n; i++)
		weight[i] = row[i].weight;
	for (int turn = 0; turn < TURNS; turn++) {
		fit_solve(row, n, weight, part);
		for (size_t i = 0; i < n; i++) {
			double off = fabs(residual(&row[i], part));
			weight[i] = row[i].weight / (off > SPREAD_MIN ? off : SPREAD_MIN);
		}
	}
	return loss_of(row, n, part);
}

/* ---- equations ---- */

static size_t make_rows(const struct median *m, size_t n, double w_most, double s_most,
			struct row *row)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		double t = m[i].value[FIT_TIME];
		double x1 = 1 / fmin(m[i].w, w_most), x2 = 1 / fmin(m[i].share, s_most);
		row[count++] = (struct row){{1 / t, x1 / t, x2 / t}, 1, m[i].rounds};
		if (!m[i].has_phases)
			continue;
		row[count++] = (struct row){{1 / t, 0, 0}, m[i].value[FIT_IO] / t, m[i].rounds};
		row[count++] =
			(struct row){{0, x1 / t, 0}, m[i].value[FIT_COMPUTE] / t, m[i].rounds};
		row[count++] =
			(struct row){{0, 0, x2 / t}, m[i].value[FIT_UPDATE] / t, m[i].rounds};
	}
	return count;
}

/* What is tried for w^ or s^: what was measured and, where configurations differ in it, values
 * between and around them. */
static size_t candidates(const struct median *m, size_t n, enum plan_role role, double measured,
			 double *out)
{
	double low = INFINITY, high = 0;
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		double v = role == PLAN_WORKER ? m[i].w : m[i].share;
		low = fmin(low, v);
		high = fmax(high, v);
	}
	out[count++] = measured;
	if (high <= low * 1.01 || n < 3)
		return count;
	for (int i = 0; i < CANDIDATES; i++)
		out[count++] = low * pow(high / low, (i + 1.0) / CANDIDATES);
	return count;
}

static void keep_errors(struct fit *f, const struct row *row, size_t n, const double part[3])
{
	double off[ROWS_MAX], a[3][3] = {{0}};
	for (size_t i = 0; i < n; i++)
		off[i] = fabs(residual(&row[i], part));
	double spread = 1.48 * reals_median(off, n);
	f->spread = spread > SPREAD_MIN ? spread : SPREAD_MIN;
	for (size_t i = 0; i < n; i++) {
		if (fabs(residual(&row[i], part)) > 4 * f->spread)
			continue;
		for (int j = 0; j < 3; j++)
			for (int k = 0; k < 3; k++)
				a[j][k] += row[i].x[j] * row[i].x[k];
	}
	invert(a, 7, f->inverse);
}

static void fit_all(struct fit *f)
{
	struct median m[FIT_POINTS_MAX];
	struct row row[ROWS_MAX];
	double w_most[CANDIDATES + 1], s_most[CANDIDATES + 1], best = INFINITY, kept[3] = {0};
	int phases = 0;
	for (size_t i = 0; i < f->count; i++) {
		m[i] = median_of_point(&f->point[i]);
		phases += m[i].has_phases;
	}
	double w = measured_cores(m, f->count, PLAN_WORKER);
	double s = measured_cores(m, f->count, PLAN_SERVER);
	size_t ws = candidates(m, f->count, PLAN_WORKER, w, w_most);
	size_t ss = candidates(m, f->count, PLAN_SERVER, s, s_most);
	for (size_t i = 0; i < ws; i++)
		for (size_t j = 0; j < ss; j++) {
			double part[3];
			size_t n = make_rows(m, f->count, w_most[i], s_most[j], row);
			double loss = fit_rows(row, n, part) +
				      PRIOR * (fabs(log(w_most[i] / w)) + fabs(log(s_most[j] / s)));
			if (loss >= best)
				continue;
			best = loss;
			memcpy(kept, part, sizeof kept);
			f->worker_cores = w_most[i];
			f->server_cores = s_most[j];
		}
	f->io = kept[0];
	f->worker_work = kept[1];
	f->server_work = kept[2];
	f->is_determined = phases > 0 || f->count >= 3;
	keep_errors(f, row, make_rows(m, f->count, f->worker_cores, f->server_cores, row), kept);
}

/* ---- rounds ---- */

static struct fit_point *find_point(struct fit *f, double workers, double w, double servers)
{
	size_t oldest = 0;
	for (size_t i = 0; i < f->count; i++) {
		struct fit_point *p = &f->point[i];
		if (p->workers == workers && p->w == w && p->servers == servers)
			return p;
		if (p->seen < f->point[oldest].seen)
			oldest = i;
	}
	if (f->count < FIT_POINTS_MAX)
		oldest = f->count++;
	f->point[oldest] = (struct fit_point){.workers = workers, .w = w, .servers = servers};
	return &f->point[oldest];
}

static void fit_rate(struct fit_point *p)
{
	double v[FIT_LATE];
	p->late = p->did = NAN;
	if (p->rounds < FIT_LATE)
		return;
	for (uint64_t i = 0; i < FIT_LATE; i++)
		v[i] = p->value[FIT_TIME][(p->rounds - 1 - i) % FIT_ROUNDS_MAX];
	p->late = p->workers / reals_median(v, FIT_LATE);
	p->did = fmax(p->late, p->workers / median_of_value(p, FIT_TIME));
}

/* Once a point has enough, a further round changes little: it is looked at again now and then. */
static int fit_is_due(uint64_t rounds)
{
	return rounds <= 8 || rounds % 8 == 0;
}

void fit_add(struct fit *f, const struct usage *u)
{
	const struct usage_role *worker = &u->role[PLAN_WORKER], *server = &u->role[PLAN_SERVER];
	if (!worker->count || !server->count || u->rate <= 0)
		return;
	double workers = (double)worker->count;
	struct fit_point *p = find_point(f, workers, worker->cores / workers, server->cores);
	size_t at = (size_t)(p->rounds % FIT_ROUNDS_MAX);
	p->rounds++;
	p->seen = ++f->rounds;
	p->value[FIT_TIME][at] = workers / u->rate;
	p->value[FIT_IO][at] = u->io;
	p->value[FIT_COMPUTE][at] = u->compute;
	p->value[FIT_UPDATE][at] = u->update;
	p->value[FIT_WORKER_USED][at] = worker->used / workers;
	p->value[FIT_SERVER_USED][at] = server->used / workers;
	p->servers_count = (double)server->count;
	fit_rate(p);
	if (fit_is_due(p->rounds))
		fit_all(f);
}

double fit_time(const struct fit *f, double workers, double w, double servers)
{
	if (f->worker_cores <= 0)
		return 0;
	return f->io + f->worker_work / fmin(w, f->worker_cores) +
	       f->server_work / fmin(servers / workers, f->server_cores);
}

double fit_error(const struct fit *f, double workers, double w, double servers)
{
	double t = fit_time(f, workers, w, servers), sum = 0;
	if (!(t > 0))
		return 1;
	double x[3] = {1 / t, 1 / fmin(w, f->worker_cores) / t,
		       1 / fmin(servers / workers, f->server_cores) / t};
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
			sum += x[i] * f->inverse[i][j] * x[j];
	double error = f->spread * sqrt(sum > 0 ? sum : 0);
	return error < 1 ? error : 1;
}

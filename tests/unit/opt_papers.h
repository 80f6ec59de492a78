/* Step t of one parameter p with its slots a and b, in double, straight from the papers that opt.h
 * names. f * g is the mean gradient. */
#ifndef PACELINE_TESTS_OPT_PAPERS_H
#define PACELINE_TESTS_OPT_PAPERS_H

#include "param/opt.h"

#include <math.h>

static void opt_papers(const struct opt *o, double f, unsigned t, double *p, double *a, double *b,
		       double g)
{
	double lr = (double)o->lr, l1 = (double)o->l1, l2 = (double)o->l2;

	*p -= lr * (double)o->decay * *p;
	double d = f * g + l2 * *p;
	switch (o->kind) {
	case OPT_SGD:
		*p -= lr * d;
		break;
	case OPT_MOMENTUM:
		*a = (double)o->momentum * *a + d;
		*p -= lr * *a;
		break;
	case OPT_ADAGRAD:
		*a += d * d;
		*p -= lr * d / (sqrt(*a) + 1e-10);
		break;
	case OPT_ADAM:
		*a = 0.9 * *a + 0.1 * d;
		*b = 0.999 * *b + 0.001 * d * d;
		*p -= lr * (*a / (1 - pow(0.9, t))) / (sqrt(*b / (1 - pow(0.999, t))) + 1e-8);
		break;
	case OPT_FTRL: {
		double n = *b + f * g * f * g;
		*a += f * g - (sqrt(n) - sqrt(*b)) / lr * *p;
		*b = n;
		*p = fabs(*a) <= l1 ? 0 : -(*a - (*a > 0 ? l1 : -l1)) / ((1 + sqrt(n)) / lr + l2);
		break;
	}
	case OPT_ADD:
		*p += g;
		break;
	}
}

#endif

/* facts: see facts.h. */
#include "solve/facts.h"

#include "base/number.h"

#include <math.h>
#include <stdio.h>

static void facts_put_real(const char *name, double value, facts_put_fn *put, void *arg)
{
	char text[40];
	if (isnan(value))
		return;
	snprintf(text, sizeof text, "%.6g", value);
	put(name, text, arg);
}

void facts_put(const struct facts *f, facts_put_fn *put, void *arg)
{
	char text[40];
	number_format_u64(f->samples > f->done ? f->samples - f->done : 0, text);
	put("samples-left", text, arg);
	facts_put_real("rate", f->rate, put, arg);
	facts_put_real("pending", f->pending, put, arg);
	snprintf(text, sizeof text, "%lld", f->may_leave ? (long long)f->backup : -1);
	put("backup-workers", text, arg);
	facts_put_real("restart-worker", f->restart_worker, put, arg);
	facts_put_real("restart-server", f->restart_server, put, arg);
	if (f->restart_all)
		put("restart-all", "1", arg);
	put("sync", f->sync, arg);
}

int facts_may_decide(double last, double now, double every, int has_decided, int all_reported)
{
	return now >= last + every || (!has_decided && all_reported);
}

double facts_decided(double last, double now, double every, int has_decided)
{
	double due = last + every;
	return has_decided && now >= due && now - due < every ? due : now;
}

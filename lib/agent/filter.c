/* filter: see filter.h. Here: what both kinds have in common. */
#include "agent/filter_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FENCES_MAX 4
#define RENEWALS 3 /* in a lease */
#define LOOK_SECONDS 2.0 /* without leases: only an answer tells us that we were fenced */
#define STOP_LOOK_SECONDS 0.1
#define HELD_LOGGED 20

static int make_env(struct filter *f, struct error *err)
{
	const struct command_options *c = &f->o->command;
	f->env = calloc(c->env_count + FILTER_VARIABLES, sizeof *f->env);
	if (!f->env)
		return error_set(err, ERROR_OS, "", "out of memory");
	for (size_t i = 0; i < c->env_count; i++)
		f->env[f->env_count++] = c->env[i];
	return 0;
}

int filter_start(struct filter *f, const struct agent_options *o, struct error *err)
{
	struct generation pieces = {.path = o->shards,
				    .worker = o->meter.id,
				    .wait_seconds = o->wait_seconds,
				    .answer_seconds = o->answer_seconds,
				    .stop = o->stop};
	*f = (struct filter){.o = o};
	if (make_env(f, err) != 0 || pieces_new(&f->pieces, &pieces, err) != 0 ||
	    meter_new(&f->meter, &o->meter, err) != 0) {
		filter_end(f);
		return -1;
	}
	return 0;
}

void filter_end(struct filter *f)
{
	if (f->pieces)
		pieces_bye(f->pieces);
	pieces_free(f->pieces);
	if (f->meter) {
		meter_report(f->meter);
		meter_log_spent(f->meter);
	}
	meter_free(f->meter);
	free(f->env);
	*f = (struct filter){0};
}

static int filter_check_rows(const struct filter *f, struct error *err)
{
	const struct generation *g = pieces_generation(f->pieces);
	if (!f->o->rows)
		return 0;
	return rows_text_fit(f->o->rows, g->samples, g->part_begin, g->part_samples, err);
}

int filter_hello(struct filter *f, struct error *err)
{
	if (f->fences > FENCES_MAX)
		return error_set(err, ERROR_TEMPFAIL, f->o->meter.id,
				 "is refused again and again: does another agent use this --id?");
	f->fences++;
	int result = pieces_hello(f->pieces, err);
	if (result == WORK_OK && filter_check_rows(f, err) != 0)
		return -1;
	f->renewed_at = clock_mono();
	return result;
}

int filter_stopped(struct filter *f)
{
	if (!f->o->stop || !*f->o->stop)
		return 0;
	if (f->stop_at <= 0)
		f->stop_at = clock_mono();
	return 1;
}

double filter_grace(const struct filter *f)
{
	return f->stop_at > 0 && *f->o->stop > 1 ? 0 : f->o->grace_seconds;
}

void filter_look(const struct filter *f, double *seconds)
{
	if (f->stop_at > 0)
		*seconds = fmin(*seconds, STOP_LOOK_SECONDS);
}

int filter_renews(struct filter *f, double *seconds)
{
	double lease = pieces_generation(f->pieces)->lease, now = clock_mono();
	double every = lease > 0 ? lease / RENEWALS : LOOK_SECONDS;
	int is_due = now >= f->renewed_at + every;
	if (is_due)
		f->renewed_at = now;
	*seconds = fmin(*seconds, f->renewed_at + every - now);
	return is_due;
}

void filter_trim(struct piece *p)
{
	if (p->shuffled)
		return;
	p->begin += p->skip;
	p->length = p->take;
	p->skip = 0;
}

void filter_describe(const struct piece *p, char *out, size_t max)
{
	snprintf(out, max, "shard %llu (epoch %llu, rows %llu to %llu)", (unsigned long long)p->id,
		 (unsigned long long)p->epoch, (unsigned long long)p->begin,
		 (unsigned long long)(p->begin + p->length - 1));
}

void filter_report(struct filter *f, const struct piece *p, double seconds)
{
	struct tally_batch b = {.time = seconds, .compute = seconds, .samples = p->take};
	f->fences = 0;
	meter_batch(f->meter, f->through++, 1, &b);
}

void filter_poll(struct pollfd *fd, size_t count, double seconds)
{
	int ms = seconds <= 0 ? 0 : (int)fmin(ceil(seconds * 1e3), 1e6);
	if (poll(fd, count, ms) < 0)
		for (size_t i = 0; i < count; i++)
			fd[i].revents = 0;
}

static void log_held(const struct piece *p, void *arg)
{
	uint64_t *count = arg;
	char what[200];
	filter_describe(p, what, sizeof what);
	if (++*count <= HELD_LOGGED)
		log_say(LOG_LEVEL_WARNING, "%s is held: its commands failed; `release id=%llu` to shardd "
			"hands it out again", what, (unsigned long long)p->id);
}

int filter_check_held(struct filter *f, uint64_t held, struct error *err)
{
	uint64_t count = 0;
	struct error ignored;
	if (held == 0)
		return 0;
	(void)pieces_held(f->pieces, log_held, &count, &ignored);
	return error_set(err, ERROR_NEGATIVE, "",
			 "all is done except %llu shard%s that %s held", (unsigned long long)held,
			 held == 1 ? "" : "s", held == 1 ? "is" : "are");
}

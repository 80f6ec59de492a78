/* self_test: see self_test.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "proc/child.h"
#include "proc/process.h"

#include <stdlib.h>
#include <string.h>

#define PAUSE_SECONDS 30.0 /* between two */
#define MOST_SECONDS 60.0  /* a test ends long before */

/* Its workers go elsewhere, if the guard of restarts lets them. */
static void self_test_leave(struct supervisor *s, struct sup_host *h, const char *why)
{
	if (sup_host_avoid(h, NULL, why) != 0)
		return;
	EACH_OF (n, s, sup_trainers(s))
		if (sup_host_of(n) == h && !sup_takes_back(n))
			sup_restart_elsewhere(n, 0, why);
}

static void self_test_take(struct supervisor *s, const struct record *r)
{
	const char *name = record_get(r, "name"), *state = record_get(r, "state"),
		   *why = record_get(r, "why");
	if (!record_is(r, "host-test") || !name || !state || !why)
		return;
	struct sup_host *h =
		strcmp(name, ".") == 0 ? &s->hosts.host[0] : sup_host_by_name(s, name);
	if (!h)
		return;
	struct record_out *o = RECORD("host-test", F("name", h->place->host));
	record_add_fields(o, r, "name");
	sup_log(s, o);
	if (strcmp(state, "bad") == 0) {
		sup_note(s, "bad-host", "%s is bad, as the self-test says: %s", h->place->host, why);
		self_test_leave(s, h, why);
	}
}

static void on_tested(const struct child_end *e, void *arg)
{
	struct supervisor *s = arg;
	struct record_walk walk = record_walk(e->output, e->bytes);
	struct record r;
	char text[CHILD_WHY_MAX];
	int got;
	s->self_test.child = NULL;
	/* This status says that a host is bad: the test has worked. */
	if (e->end.status != ERROR_NEGATIVE && child_failure(e, text)) {
		sup_note(s, "warning", "the self-test of the hosts has failed: %s", text);
		return;
	}
	while (s->phases.now < PHASE_STOPPING && (got = record_next(&walk, &r, NULL)) != RECORD_END)
		if (got == RECORD_ONE)
			self_test_take(s, &r);
}

/* srun reaches no host of another allocation (LAUNCHER more) from this one. */
static int is_tested(const struct sup_host *h)
{
	return h->state == HOST_THERE && h->use == HOST_USED && !sup_is_more_host(h);
}

static size_t count_tested(const struct supervisor *s)
{
	size_t count = 0;
	EACH_HOST (h, s, s->hosts.first)
		count += is_tested(h) != 0;
	return count;
}

void sup_self_test(struct supervisor *s, const char *id)
{
	char program[DIRS_PATH_MAX];
	const struct hosts *hosts = s->options.hosts;
	double now = clock_mono();
	struct argv argv = {0};
	struct error err;
	if (strcmp(s->job->self_test, "on") != 0 || count_tested(s) < 2 ||
	    s->self_test.child || (s->self_test.at > 0 && now - s->self_test.at < PAUSE_SECONDS) ||
	    process_find("node-host", s->options.search_path, program, sizeof program, &err) != 0)
		return;
	argv_add(&argv, program, "--test", "--by", hosts->launcher->name, "--program", hosts->node_host);
	EACH_HOST (h, s, s->hosts.first)
		if (is_tested(h))
			argv_add(&argv, h == s->hosts.host ? "." : h->place->host);
	const struct child_options options = {.seconds = MOST_SECONDS, .done = on_tested, .arg = s};
	s->self_test.at = now;
	sup_note(s, "self-test", "%s is suspected: all hosts are tested", id);
	if (child_ask(&s->self_test.child, s->base, &argv, options, &err) != 0)
		sup_note(s, "warning", "hosts can't be tested: %s", err.text);
}

void sup_self_test_stop(struct supervisor *s)
{
	child_free(s->self_test.child);
	s->self_test.child = NULL;
}

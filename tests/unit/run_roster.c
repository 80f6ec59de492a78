/* The order in which nodes stand, their numbers, their homes and their shares of a batch. */
#include "run/sup.h"

#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char shared[] = "shared", local[] = "local", bsp[] = "bsp", none[] = "", agents[] = "loop",
	    each[] = "each", keep[] = "keep", off[] = "off";
static struct job job = {.batch = 100, .workers = 3, .servers = 2, .data = {.count = 3}};

/* As at a start, where a job was never scaled. */
static void sizes(struct supervisor *s, const struct job *of)
{
	s->scale.now = s->scale.from = (struct sup_sizes){of->workers, of->servers};
}

static int begin(void **state)
{
	struct error err;
	struct supervisor *s = calloc(1, sizeof *s);
	*state = s;
	s->job = &job;
	sizes(s, &job);
	job.partitions = shared;
	s->base = event_base_new();
	job.sync = bsp;
	job.trainer = none;
	job.trainer_kind = agents;
	job.batch_scaling = keep;
	job.brain = job.standby = off;
	return sup_hosts_init(s, &err) == 0 ? sup_roster_fill(s, &err) : -1;
}

static int end(void **state)
{
	struct supervisor *s = *state;
	sup_roster_free(s);
	sup_hosts_free(s);
	event_base_free(s->base);
	free(s);
	return 0;
}

static void expect(const struct supervisor *s, const char *ids)
{
	char text[256] = "";
	EACH_NODE (n, s) {
		size_t at = strlen(text);
		snprintf(text + at, sizeof text - at, "%s%s", at ? " " : "", n->id);
	}
	assert_string_equal(text, ids);
}

static void as_many_as_the_job_says(void **state)
{
	struct supervisor *s = *state;
	expect(s, "shardd bpt-monitor ps0 ps1 w0 w1 w2");
	assert_int_equal(sup_count(s, &role_worker), 3);
	assert_string_equal(sup_lead(s)->id, "ps0");
	assert_ptr_equal(sup_find(s, "w1")->role, &role_worker);
	assert_null(sup_find(s, "w3"));
	assert_null(sup_find_of(s, &role_server, "w1"));
	assert_true(sup_off(s, &role_worker));
}

/* By its id a node is found while it is in the roster, and as itself when it comes back. */
static void one_that_leaves_is_not_found(void **state)
{
	struct supervisor *s = *state;
	struct sup_node *n = sup_find(s, "w1");
	struct error err;
	sup_roster_leave(n);
	assert_null(sup_find(s, "w1"));
	assert_non_null(sup_find(s, "w2"));
	assert_ptr_equal(sup_roster_add(s, &role_worker, &err), n);
	assert_ptr_equal(sup_find(s, "w1"), n);
	expect(s, "shardd bpt-monitor ps0 ps1 w0 w1 w2");
}

static void ignore(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

/* The last of a kind and an id; of all of an id nothing is left when it goes. */
static void what_is_in_force_is_found_by_kind_and_id(void **state)
{
	struct supervisor *s = *state;
	s->phases.kick = evtimer_new(s->base, ignore, NULL);
	sup_in_force_take(s, "action kind=adjust-bs id=w1 size=7 accum=2\n"
			  "action kind=adjust-lr id=w1 scale=0.5\n"
			  "action kind=adjust-bs id=w11 size=9 accum=1\n"
			  "action kind=backup-workers count=1\n"
			  "action kind=adjust-bs id=w1 size=8 accum=1\n");
	assert_int_equal(s->in_force.count, 4);
	assert_int_equal(sup_in_force_find(s, ACTION_ADJUST_BS, "w1")->size, 8);
	assert_int_equal(sup_in_force_find(s, ACTION_ADJUST_BS, "w11")->size, 9);
	assert_int_equal(sup_in_force_find(s, ACTION_BACKUP_WORKERS, "")->count, 1);
	assert_null(sup_in_force_find(s, ACTION_ADJUST_BS, "w2"));
	sup_in_force_drop(s, "w1");
	assert_int_equal(s->in_force.count, 2);
	assert_null(sup_in_force_find(s, ACTION_ADJUST_LR, "w1"));
	char *lines = sup_in_force_lines(s);
	assert_string_equal(lines, "action kind=adjust-bs id=w11 size=9 accum=1\n"
				   "action kind=backup-workers count=1\n");
	free(lines);
	sup_in_force_free(s);
	event_free(s->phases.kick);
}

static int restore(struct supervisor *s, const char *text)
{
	struct record r;
	struct error err;
	assert_int_equal(record_first(&r, text, strlen(text), &err), 0);
	return sup_in_force_restore(s, &r, &err);
}

/* A node that is no longer in the job is no error, and a type from another version neither. */
static void what_is_kept_of_a_node_reaches_it(void **state)
{
	struct supervisor *s = *state;
	const struct sup_node *n = sup_find(s, "w1");
	assert_int_equal(restore(s, "force incarnation=3 life=4"), 0);
	assert_int_equal(restore(s, "heavy id=w1 count=2 at=17"), 0);
	assert_int_equal(restore(s, "oom id=w1 steps=5"), 0);
	assert_int_equal(restore(s, "size id=w1 cores=2 memory=64 job-cores=0 job-memory=0"), 0);
	assert_int_equal(restore(s, "size id=w1 cores=7 memory=64 job-cores=1 job-memory=0"), 0);
	assert_int_equal(restore(s, "size id=w9 cores=2 memory=64 job-cores=0 job-memory=0"), 0);
	assert_int_equal(restore(s, "another id=w1"), 0);
	assert_int_equal(restore(s, "oom id=w1 steps=-1"), -1);
	assert_int_equal(restore(s, "heavy count=2 at=17"), -1);
	assert_int_equal(s->in_force.incarnation, 3);
	assert_int_equal(s->in_force.life, 4);
	assert_int_equal(n->restart.past.count, 2);
	assert_true(n->restart.past.last == 17);
	assert_int_equal(n->oom.steps, 5);
	assert_true(n->cores == 2);
	assert_int_equal(n->memory, 64);
}

static void trainers_of_ones_own(void **state)
{
	struct supervisor *s = *state;
	struct error err;
	sup_roster_free(s);
	job.trainer = agents; /* any command */
	assert_int_equal(sup_roster_fill(s, &err), 0);
	expect(s, "shardd bpt-monitor lead w0 w1 w2");
	assert_string_equal(sup_lead(s)->id, "lead");
	assert_true(sup_goes_back(sup_find(s, "w1")));
	sup_roster_free(s);
	job.trainer_kind = each;
	assert_int_equal(sup_roster_fill(s, &err), 0);
	expect(s, "shardd bpt-monitor w0 w1 w2");
	assert_null(sup_lead(s));
	assert_false(sup_goes_back(sup_find(s, "w1")));
	assert_ptr_equal(sup_find(s, "w1")->role, sup_trainers(s));
}

static void each_worker_has_its_file_where_files_are_theirs(void **state)
{
	struct supervisor *s = *state;
	struct error err;
	struct job more = job;
	sup_roster_free(s);
	more.partitions = local;
	more.workers = 4;
	s->job = &more;
	sizes(s, &more);
	assert_int_equal(sup_roster_fill(s, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	sup_roster_free(s);
	more.workers = 3;
	sizes(s, &more);
	assert_int_equal(sup_roster_fill(s, &err), 0);
	s->job = &job;
}

static void shares_make_the_batch(void **state)
{
	struct supervisor *s = *state;
	const uint64_t of_three[] = {34, 33, 33};
	EACH_OF (n, s, &role_worker)
		assert_int_equal(sup_share(n), of_three[sup_rank(n)]);
}

static void one_that_runs_is_not_off(void **state)
{
	struct supervisor *s = *state;
	sup_find(s, "w2")->stage = STAGE_READY;
	assert_false(sup_off(s, &role_worker));
	assert_true(sup_off(s, &role_server));
	sup_find(s, "w2")->stage = STAGE_OFF;
}

/* ids:host, in order; of three hosts, the first of which trains or not. */
static void expect_homes(char *sync, size_t first, const char *homes)
{
	struct supervisor *s = calloc(1, sizeof *s);
	struct node_place place[3];
	struct hosts hosts = {.count = 3, .place = place, .first = first};
	struct job far = job;
	struct error err;
	char text[512] = "";
	for (size_t i = 0; i < 3; i++) {
		launcher_here(&place[i]);
		snprintf(place[i].host, sizeof place[i].host, "h%zu", i);
	}
	far.sync = sync;
	far.servers = 3;
	s->job = &far;
	sizes(s, &far);
	s->options.hosts = &hosts;
	s->base = event_base_new();
	assert_int_equal(sup_hosts_init(s, &err), 0);
	assert_int_equal(sup_roster_fill(s, &err), 0);
	EACH_NODE (n, s) {
		size_t at = strlen(text);
		snprintf(text + at, sizeof text - at, "%s%s:%zu", at ? " " : "", n->id, n->at);
	}
	assert_string_equal(text, homes);
	if (strcmp(sync, "allreduce") == 0)
		EACH_OF (n, s, &role_worker)
			assert_int_equal(sup_replica_of(n)->at, n->at);
	sup_roster_free(s);
	sup_hosts_free(s);
	event_base_free(s->base);
	free(s);
}

static void each_has_a_home_among_hosts(void **state)
{
	static char allreduce[] = "allreduce";
	(void)state;
	expect_homes(bsp, 0,
		     "fabric:0 shardd:0 bpt-monitor:0 lead:0 ps0:0 ps1:1 ps2:2 w0:0 w1:1 w2:2");
	/* All parameters are where something is trained. */
	expect_homes(bsp, 1,
		     "fabric:0 shardd:0 bpt-monitor:0 lead:0 ps0:1 ps1:2 ps2:1 w0:1 w1:2 w2:1");
	expect_homes(allreduce, 0,
		     "fabric:0 shardd:0 bpt-monitor:0 lead:0 r0:0 r1:1 r2:2 w0:0 w1:1 w2:2");
	expect_homes(allreduce, 1,
		     "fabric:0 shardd:0 bpt-monitor:0 lead:0 r0:1 r1:2 w0:1 w1:2 w2:1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(as_many_as_the_job_says, begin, end),
		cmocka_unit_test_setup_teardown(one_that_leaves_is_not_found, begin, end),
		cmocka_unit_test_setup_teardown(what_is_in_force_is_found_by_kind_and_id, begin, end),
		cmocka_unit_test_setup_teardown(what_is_kept_of_a_node_reaches_it, begin, end),
		cmocka_unit_test_setup_teardown(trainers_of_ones_own, begin, end),
		cmocka_unit_test_setup_teardown(each_worker_has_its_file_where_files_are_theirs,
						begin, end),
		cmocka_unit_test_setup_teardown(shares_make_the_batch, begin, end),
		cmocka_unit_test_setup_teardown(one_that_runs_is_not_off, begin, end),
		cmocka_unit_test(each_has_a_home_among_hosts),
	};
	return cmocka_run_group_tests_name("run_roster", tests, NULL, NULL);
}

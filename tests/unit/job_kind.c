/* The table of kinds of job: what it says of each, and that its facts fit together. */
#include "job/job.h"
#include "job/kind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char none[] = "", own[] = "./train", bsp[] = "bsp", asp[] = "asp", sums[] = "allreduce",
	    loop[] = "loop", each[] = "each", rows[] = "rows";
static const struct job jobs[] = {{.sync = bsp, .trainer = none, .trainer_kind = loop},
				  {.sync = sums, .trainer = none, .trainer_kind = loop},
				  {.sync = bsp, .trainer = own, .trainer_kind = loop},
				  {.sync = sums, .trainer = own, .trainer_kind = loop},
				  {.sync = bsp, .trainer = own, .trainer_kind = each},
				  {.sync = asp, .trainer = own, .trainer_kind = rows}};
#define KINDS (sizeof jobs / sizeof *jobs)

/* A job that job_finish() refuses has a kind, too; and TRAINER_KIND counts only with a TRAINER. */
static void each_job_has_one(void **state)
{
	(void)state;
	static const struct job more[] = {{.sync = sums, .trainer = own, .trainer_kind = each},
					  {.sync = asp, .trainer = none, .trainer_kind = rows}};
	assert_string_equal(job_kind(&more[0])->name, "each");
	assert_string_equal(job_kind(&more[1])->name, "servers");
}

static void the_table_is_exact(void **state)
{
	(void)state;
	static const struct job_kind expected[] = {
		{"servers", "worker", NULL, 0, GIVEN_BATCHES, HOLD_SERVERS, LEAD_IN_SERVER, CUT_PARTS, 0, 0, 1,
		 DEADLINE_CUT, DEADLINE_FINISH, NULL, NULL, NULL},
		{"allreduce", "worker", NULL, 0, GIVEN_BATCHES, HOLD_REPLICAS, LEAD_ALONE, CUT_PARTS, 0, 0, 1,
		 DEADLINE_CUT, DEADLINE_FINISH, NULL, "", NULL},
		{"loop", "agent", "", 1, GIVEN_WORDS, HOLD_TRAINERS, LEAD_ALONE, CUT_SAVED, 0, 1, 0,
		 DEADLINE_SAVE, DEADLINE_TRAINED, "", "", ""},
		{"sums", "agent", "", 1, GIVEN_WORDS, HOLD_REPLICAS, LEAD_ALONE, CUT_SAVED, 1, 0, 0,
		 DEADLINE_SAVE, DEADLINE_TRAINED, NULL, "", NULL},
		{"each", "agent", "", 1, GIVEN_SHARD, HOLD_NOBODY, LEAD_NONE, CUT_NONE, 0, 0, 0,
		 DEADLINE_READY, DEADLINE_FINISH, NULL, "", NULL},
		{"rows", "agent", "", 1, GIVEN_ROWS, HOLD_NOBODY, LEAD_NONE, CUT_NONE, 0, 0, 0,
		 DEADLINE_READY, DEADLINE_FINISH, NULL, "", NULL},
	};
	assert_int_equal(KINDS, sizeof expected / sizeof *expected);
	for (size_t i = 0; i < KINDS; i++) {
		const struct job_kind *k = job_kind(&jobs[i]), *e = &expected[i];
		assert_string_equal(k->name, e->name);
		assert_string_equal(k->program, e->program);
		assert_int_equal(k->foreign, e->foreign);
		assert_int_equal(k->given, e->given);
		assert_int_equal(k->holds, e->holds);
		assert_int_equal(k->lead, e->lead);
		assert_int_equal(k->cut, e->cut);
		assert_int_equal(k->sums, e->sums);
		assert_int_equal(k->goes_back, e->goes_back);
		assert_int_equal(k->backup, e->backup);
		assert_int_equal(k->cut_limit, e->cut_limit);
		assert_int_equal(k->finish_limit, e->finish_limit);
		assert_int_equal(!k->does, !e->does);
		assert_int_equal(!k->workers_stay, !e->workers_stay);
		assert_int_equal(!k->servers_stay, !e->servers_stay);
		assert_int_equal(!k->hosts_stay, !e->hosts_stay);
	}
}

/* What a new kind has to heed as well. */
static void facts_fit_together(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		const struct job_kind *k = job_kind(&jobs[i]);
		assert_int_equal(k->lead == LEAD_NONE, k->cut == CUT_NONE);
		assert_int_equal(k->lead == LEAD_NONE, k->holds == HOLD_NOBODY);
		assert_int_equal(k->lead == LEAD_IN_SERVER, k->holds == HOLD_SERVERS);
		assert_int_equal(k->cut == CUT_SAVED, k->holds == HOLD_TRAINERS || k->sums);
		assert_true(!k->sums || k->holds == HOLD_REPLICAS);
		assert_int_equal(k->goes_back, k->holds == HOLD_TRAINERS);
		assert_int_equal(k->servers_stay == NULL, k->holds == HOLD_SERVERS);
		assert_int_equal(k->foreign, k->given != GIVEN_BATCHES);
		assert_int_equal(k->foreign, k->does != NULL);
		assert_true(!k->backup || !k->foreign);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_job_has_one),
		cmocka_unit_test(the_table_is_exact),
		cmocka_unit_test(facts_fit_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

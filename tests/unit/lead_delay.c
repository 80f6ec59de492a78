/* delay: small delays are counted exactly, quantiles of greater ones are an eighth too high at most;
 * and which pushes of a gate are too stale. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lead/delay.h"
#include "lead/gate.h"

#include <string.h>

static void small_delays_are_exact(void **state)
{
	struct delays d = {0};

	(void)state;
	assert_int_equal(delay_quantile(&d, 0.5), 0);
	for (uint64_t i = 0; i < 8; i++)
		delay_count(&d, i);
	assert_int_equal(d.pushes, 8);
	assert_int_equal(d.most, 7);
	assert_int_equal(delay_quantile(&d, 0), 0);
	assert_int_equal(delay_quantile(&d, 0.125), 0);
	assert_int_equal(delay_quantile(&d, 0.126), 1);
	assert_int_equal(delay_quantile(&d, 0.5), 3);
	assert_int_equal(delay_quantile(&d, 1), 7);
}

static void great_delays_are_an_eighth_too_high_at_most(void **state)
{
	(void)state;
	for (uint64_t delay = 1; delay < UINT64_C(1) << 20; delay = delay * 9 / 8 + 1) {
		struct delays d = {0};
		delay_count(&d, delay);
		delay_count(&d, UINT64_C(1) << 30);
		uint64_t half = delay_quantile(&d, 0.5);
		assert_true(half >= delay && half <= delay + delay / 8);
		assert_int_equal(delay_quantile(&d, 1), UINT64_C(1) << 30);
	}
}

/* ---- at a gate ---- */

static struct gate *gate;
static char said[512];

static size_t refused; /* of the next hold: so many of the first ones are missing */

static void drain(void)
{
	const struct gate_effect *e;

	said[0] = '\0';
	while ((e = gate_next(gate))) {
		size_t at = strlen(said);
		if (e->kind == GATE_ANSWER)
			snprintf(said + at, sizeof said - at, "%s;", e->ok ? e->fields : e->code);
		else if (e->kind == GATE_DROP)
			snprintf(said + at, sizeof said - at, "drop %s.%d;", e->worker,
				 (int)e->sequence);
		else if (e->kind == GATE_HOLD) {
			const char *missing[] = {e->pushes ? e->push[0].worker : ""};
			gate_held(gate, missing, refused);
			refused = 0;
		} else if (e->kind == GATE_APPLY && e->pushes > e->units)
			snprintf(said + at, sizeof said - at, "%zu in %d;", e->pushes,
				 (int)e->units);
	}
}

static void push_pulled(const char *worker, uint64_t sequence, uint64_t pulled)
{
	struct gate_push p = {.sequence = sequence, .count = 1, .pulled = pulled};

	gate_push(gate,
		  &(struct gate_who){.worker = worker, .generation = 1, .incarnation = 1,
				     .connection = 1, .token = 100 + sequence},
		  &p);
}

static void begin(enum gate_sync sync, uint64_t delay_max)
{
	static const char *const name[] = {"w0", "w1", "w2"};

	assert_int_equal(gate_new(&gate,
				  &(struct gate_options){.sync = sync, .staleness = 9, .incarnation = 1,
							 .bounds_delay = 1, .delay_max = delay_max,
							 .announces = 1},
				  NULL),
			 0);
	for (size_t i = 0; i < 3; i++)
		gate_join(gate, &(struct gate_who){.worker = name[i], .generation = 1,
						   .incarnation = 1, .connection = 1, .token = 1 + i});
	drain();
}

static void one_that_is_too_stale_is_dropped(enum gate_sync sync)
{
	begin(sync, 1);
	push_pulled("w0", 1, 0);
	drain();
	assert_string_equal(said, "iteration=1 applied=1;");
	push_pulled("w1", 1, 0); /* missed one: as many as it may */
	drain();
	assert_string_equal(said, "iteration=2 applied=1;");
	push_pulled("w2", 1, 0); /* missed two */
	drain();
	assert_string_equal(said, "drop w2.1;iteration=2 dropped=1;");
	push_pulled("w2", 1, 0); /* said again */
	drain();
	assert_string_equal(said, "iteration=2 dropped=1 repeated=1;");
	push_pulled("w2", 2, 2);
	drain();
	assert_string_equal(said, "iteration=3 applied=1;");
	push_pulled("w0", 2, 99); /* from the future: as if it had seen all */
	drain();
	assert_string_equal(said, "iteration=4 applied=1;");
	push_pulled("w1", 2, GATE_PULLED_UNKNOWN); /* it may have seen nothing */
	drain();
	assert_string_equal(said, "drop w1.2;iteration=4 dropped=1;");
	assert_int_equal(gate_delays(gate)->most, 1);
	assert_int_equal(gate_delays(gate)->pushes, 4);
	assert_int_equal(gate_delays(gate)->dropped, 2);
	gate_free(gate);
}

static void asp(void **state)
{
	(void)state;
	one_that_is_too_stale_is_dropped(GATE_ASP);
}

static void ssp(void **state)
{
	(void)state;
	one_that_is_too_stale_is_dropped(GATE_SSP);
}

/* They wait together: each is one more behind than the one before. */
static void pushes_that_close_together_count_each_other(void **state)
{
	(void)state;
	begin(GATE_ASP, 1);
	gate_servers(gate, 0);
	push_pulled("w2", 1, 0);
	push_pulled("w0", 1, 0);
	push_pulled("w1", 1, 0);
	drain();
	assert_string_equal(said, "");
	gate_servers(gate, 1);
	drain();
	assert_string_equal(said, "iteration=2 applied=1;iteration=2 applied=1;"
				  "drop w1.1;iteration=2 dropped=1;");
	gate_free(gate);
}

/* Its fence waits for the settle that names its push, and then answers before others catch up. */
static void who_is_fenced_is_told_that_its_push_was_dropped(void **state)
{
	(void)state;
	begin(GATE_SSP, 0);
	gate_servers(gate, 0);
	push_pulled("w0", 1, 0);
	push_pulled("w1", 1, 0);
	gate_servers(gate, 1);
	gate_fence(gate, "w1", 1, 9);
	drain();
	assert_string_equal(said, "drop w1.1;iteration=1 dropped=1;;iteration=1 applied=1;");
	gate_free(gate);
}

/* ---- what is announced ---- */

#define SECOND INT64_C(1000000000)

static void announce_pulled(const char *worker, uint64_t sequence, uint64_t pulled)
{
	struct gate_push p = {.sequence = sequence, .count = 1, .pulled = pulled, .part = &(uint64_t){1000}, .parts = 1};

	gate_announce(gate,
		      &(struct gate_who){.worker = worker, .generation = 1, .incarnation = 1,
					 .connection = 1, .token = 200 + sequence},
		      &p);
	drain();
}

static void what_is_too_stale_is_dropped_before_it_is_sent(void **state)
{
	(void)state;
	begin(GATE_ASP, 1);
	announce_pulled("w0", 1, 0);
	assert_string_equal(said, "granted=1;");
	announce_pulled("w0", 1, 0);
	assert_string_equal(said, "granted=1 repeated=1;");
	announce_pulled("w1", 1, 0);
	assert_string_equal(said, "granted=1;");
	announce_pulled("w2", 1, 0); /* the third of them */
	assert_string_equal(said, "drop w2.1;iteration=0 dropped=1;");
	announce_pulled("w2", 1, 0);
	assert_string_equal(said, "iteration=0 dropped=1 repeated=1;");
	assert_int_equal(gate_spared(gate), 1000);
	push_pulled("w1", 1, 0);
	drain();
	assert_string_equal(said, "iteration=1 applied=1;");
	push_pulled("w0", 1, 0);
	drain();
	assert_string_equal(said, "iteration=2 applied=1;");
	announce_pulled("w0", 1, 0); /* applied */
	assert_string_equal(said, "iteration=2 applied=1 repeated=1;");
	announce_pulled("w0", 2, GATE_PULLED_UNKNOWN);
	assert_string_equal(said, "drop w0.2;iteration=2 dropped=1;");
	announce_pulled("w9", 1, 0);
	assert_string_equal(said, "fenced;");
	assert_int_equal(gate_delays(gate)->dropped, 2);
	gate_free(gate);
}

/* ---- groups ---- */

static int64_t turn; /* of the port: when it is free */
static int is_crew;  /* w2 is on another host, and all are summed on the first one */
static int64_t takes;

/* All workers are on one host, and the parameters elsewhere. */
static int one_port(struct gate_offer *o, size_t n, void *arg)
{
	(void)arg;
	for (size_t i = 0; i < n; i++) {
		o[i].host = is_crew && strcmp(o[i].worker, "w2") == 0 ? 2 : 1;
		o[i].crew = is_crew ? 1 : 0;
		o[i].hop = is_crew ? takes / 20 : -1;
		o[i].alone = takes;
		o[i].start = turn;
		o[i].there = turn + takes;
	}
	return 0;
}

static const char *host_name(size_t host, void *arg)
{
	(void)arg;
	return host == 1 ? "alpha" : "beta";
}

static void push_in(const char *worker, uint64_t sequence, uint64_t pulled, uint64_t group)
{
	struct gate_push p = {.sequence = sequence, .count = 1, .pulled = pulled, .group = group};

	gate_push(gate,
		  &(struct gate_who){.worker = worker, .generation = 1, .incarnation = 1,
				     .connection = (uint64_t)worker[1], .token = 100 + sequence},
		  &p);
	drain();
}

/* w0 and w1 wait for the port, and are granted together. */
static void begin_group(uint64_t delay_max)
{
	static const char *const name[] = {"w0", "w1", "w2"};

	assert_int_equal(gate_new(&gate,
				  &(struct gate_options){.sync = GATE_ASP, .incarnation = 1,
							 .bounds_delay = 1, .delay_max = delay_max,
							 .announces = 1, .schedule = one_port,
							 .host_name = host_name},
				  NULL),
			 0);
	takes = 1;
	is_crew = 0;
	for (size_t i = 0; i < 3; i++)
		gate_join(gate, &(struct gate_who){.worker = name[i], .generation = 1,
						   .incarnation = 1,
						   .connection = (uint64_t)name[i][1],
						   .token = 1 + i});
	drain();
	gate_clock(gate, 0);
	turn = SECOND;
	announce_pulled("w0", 1, 0);
	announce_pulled("w1", 1, 0);
	assert_string_equal(said, "");
	turn = 0;
	gate_clock(gate, SECOND);
	drain();
	assert_string_equal(said, "granted=1 group=1 members=2;granted=1 group=1 members=2;");
}

/* A link that was slow when the push was announced, and is not any more. */
static void who_waits_is_scheduled_anew_when_a_link_has_another_rate(void **state)
{
	(void)state;
	begin_group(9);
	turn = 100 * SECOND;
	announce_pulled("w2", 1, 0);
	gate_reschedule(gate);
	drain();
	assert_string_equal(said, "");
	turn = 0;
	gate_reschedule(gate);
	drain();
	assert_string_equal(said, "granted=1;");
	gate_free(gate);
}

/* Their numbers go on from those of the lead before it. */
static void groups_of_this_lead_are_counted(void **state)
{
	(void)state;
	assert_int_equal(gate_new(&gate, &(struct gate_options){.sync = GATE_ASP, .round_first = 7},
				  NULL),
			 0);
	assert_int_equal(gate_groups(gate), 0);
	gate_free(gate);
	begin_group(9);
	assert_int_equal(gate_groups(gate), 1);
	gate_free(gate);
}

static void a_group_is_one_unit(void **state)
{
	(void)state;
	begin_group(9);
	push_in("w1", 1, 0, 1);
	assert_string_equal(said, "");
	push_in("w2", 1, 0, 0); /* others go on */
	assert_string_equal(said, "iteration=1 applied=1;");
	announce_pulled("w0", 1, 0);
	assert_string_equal(said, "granted=1 group=1 members=2 repeated=1;");
	push_in("w0", 1, 0, 1);
	assert_string_equal(said, "2 in 1;iteration=2 applied=1;iteration=2 applied=1;");
	gate_free(gate);
}

/* w0 and w1 on alpha, w2 on beta. */
static void begin_crew(void)
{
	begin_group(9);
	push_in("w0", 1, 0, 1);
	push_in("w1", 1, 0, 1);
	is_crew = 1;
	takes = SECOND;
	turn = SECOND;
	announce_pulled("w0", 2, 1);
	announce_pulled("w2", 1, 1);
	announce_pulled("w1", 2, 1);
	assert_string_equal(said, "");
	turn = 0;
	gate_clock(gate, 2 * SECOND);
	drain();
}

static void members_on_two_hosts_are_told_where_they_are_summed(void **state)
{
	(void)state;
	begin_crew();
	assert_string_equal(said, "granted=1 group=2 members=3 here=2 at=alpha;"
				  "granted=1 group=2 members=3 here=1 at=alpha;"
				  "granted=1 group=2 members=3 here=2 at=alpha;");
	assert_int_equal(gate_far_groups(gate), 1);
	announce_pulled("w2", 1, 1);
	assert_string_equal(said, "granted=1 group=2 members=3 here=1 at=alpha repeated=1;");
	push_in("w0", 2, 1, 2);
	push_in("w2", 1, 1, 2);
	assert_string_equal(said, "");
	push_in("w1", 2, 1, 2);
	assert_string_equal(said, "3 in 1;iteration=2 applied=1;iteration=2 applied=1;"
				  "iteration=2 applied=1;");
	gate_free(gate);
}

/* w0 and w1 announce together. */
static void announce_two(void)
{
	turn = SECOND;
	announce_pulled("w0", 3, 2);
	announce_pulled("w1", 3, 2);
	turn = 0;
}

static void a_crew_that_took_too_long_is_the_last_for_a_while(void **state)
{
	(void)state;
	begin_crew();
	push_in("w0", 2, 1, 2);
	push_in("w2", 1, 1, 2);
	gate_clock(gate, 5 * SECOND);
	push_in("w1", 2, 1, 2);
	announce_two();
	turn = SECOND;
	announce_pulled("w2", 2, 2);
	turn = 0;
	gate_clock(gate, 6 * SECOND);
	drain();
	assert_string_equal(said, "granted=1 group=3 members=2;granted=1 group=3 members=2;granted=1;");
	gate_free(gate);
}

/* w2 announced its second push a second after the answer to its first one, and will again. */
static void who_is_expected_soon_on_another_host_is_waited_for(void **state)
{
	(void)state;
	begin_crew();
	push_in("w0", 2, 1, 2);
	push_in("w2", 1, 1, 2);
	gate_clock(gate, 2 * SECOND + SECOND / 2);
	push_in("w1", 2, 1, 2);
	takes = 10 * SECOND;
	announce_two();
	gate_clock(gate, 3 * SECOND);
	drain();
	assert_string_equal(said, "");
	announce_pulled("w2", 2, 2);
	assert_string_equal(said, "granted=1 group=3 members=3 here=2 at=alpha;"
				  "granted=1 group=3 members=3 here=2 at=alpha;"
				  "granted=1 group=3 members=3 here=1 at=alpha;");
	gate_free(gate);
}

/* Pushes were dropped, but none for its age. */
static void none_was_stale(void)
{
	assert_int_equal(gate_delays(gate)->dropped, 0);
	gate_free(gate);
}

static void without_one_member_the_others_are_dropped(void **state)
{
	(void)state;
	begin_group(9);
	push_in("w1", 1, 0, 1);
	gate_closed(gate, '0');
	drain();
	assert_string_equal(said, "drop w1.1;iteration=0 dropped=1;");
	none_was_stale();
	begin_group(9); /* it goes first */
	gate_closed(gate, '1');
	drain();
	push_in("w0", 1, 0, 1);
	assert_string_equal(said, "drop w0.1;iteration=0 dropped=1;");
	none_was_stale();
	begin_group(9); /* it sends another push */
	push_in("w1", 1, 0, 1);
	push_in("w0", 2, 0, 0);
	assert_string_equal(said, "drop w1.1;iteration=1 dropped=1;iteration=1 applied=1;");
	none_was_stale();
	begin_group(9); /* it does not come in time */
	push_in("w1", 1, 0, 1);
	gate_clock(gate, 60 * SECOND);
	drain();
	assert_string_equal(said, "drop w1.1;iteration=0 dropped=1;");
	push_in("w0", 1, 0, 1);
	assert_string_equal(said, "drop w0.1;iteration=0 dropped=1;");
	none_was_stale();
	begin_group(9); /* a server lacks it */
	push_in("w1", 1, 0, 1);
	refused = 1;
	push_in("w0", 1, 0, 1);
	assert_string_equal(said, "fenced;drop w1.1;iteration=0 dropped=1;");
	none_was_stale();
}

/* It may be in a sum, or in none. */
static void who_says_a_group_that_was_not_granted_is_dropped(void **state)
{
	(void)state;
	begin_group(9);
	push_in("w2", 1, 0, 1);
	assert_string_equal(said, "drop w2.1;iteration=0 dropped=1;");
	push_in("w1", 1, 0, 2);
	assert_string_equal(said, "drop w1.1;iteration=0 dropped=1;");
	push_in("w0", 1, 0, 1);
	assert_string_equal(said, "drop w0.1;iteration=0 dropped=1;");
	gate_free(gate);
}

/* w2's commit would be the second one that w0 misses. */
static void w2_waits_for_w0(void)
{
	begin(GATE_ASP, 1);
	gate_clock(gate, SECOND);
	announce_pulled("w0", 1, 0);
	push_pulled("w1", 1, 0);
	drain();
	assert_string_equal(said, "iteration=1 applied=1;");
	push_pulled("w2", 1, 1);
	drain();
	assert_string_equal(said, "");
}

static void a_commit_waits_for_an_older_push_that_was_granted(void **state)
{
	(void)state;
	w2_waits_for_w0();
	push_pulled("w0", 1, 0);
	drain();
	assert_string_equal(said, "iteration=3 applied=1;iteration=3 applied=1;");
	assert_int_equal(gate_delays(gate)->dropped, 0);
	gate_free(gate);
	w2_waits_for_w0();
	gate_leave(gate, &(struct gate_who){.worker = "w0", .generation = 1, .incarnation = 1,
					    .connection = 1, .token = 9});
	drain();
	assert_string_equal(said, ";iteration=2 applied=1;");
	gate_free(gate);
}

static void one_that_does_not_come_is_waited_for_no_longer(void **state)
{
	(void)state;
	w2_waits_for_w0();
	int64_t due = gate_clock(gate, SECOND);
	assert_true(due > 2 * SECOND && due < 3 * SECOND);
	assert_int_equal(gate_clock(gate, due - 1), due);
	drain();
	assert_string_equal(said, "");
	assert_true(gate_clock(gate, due) == INT64_MAX);
	drain();
	assert_string_equal(said, "iteration=2 applied=1;");
	push_pulled("w0", 1, 0); /* it was stopped */
	drain();
	assert_string_equal(said, "drop w0.1;iteration=2 dropped=1;");
	gate_free(gate);
}

/* A worker that pushes another one than it announced, or an older version of it, was promised
 * nothing. */
static void a_promise_is_for_what_was_announced(void **state)
{
	(void)state;
	begin(GATE_ASP, 1);
	announce_pulled("w0", 1, 0);
	push_pulled("w0", 2, 0);
	drain();
	assert_string_equal(said, "iteration=1 applied=1;");
	announce_pulled("w0", 3, 1);
	announce_pulled("w0", 4, 1); /* only this one */
	assert_string_equal(said, "granted=1;");
	announce_pulled("w0", 2, 1); /* long done */
	assert_string_equal(said, "iteration=1 applied=1 repeated=1;");
	announce_pulled("w1", 1, 1);
	assert_string_equal(said, "granted=1;");
	push_pulled("w1", 1, 0); /* older than announced: but still fresh enough */
	drain();
	assert_string_equal(said, "iteration=2 applied=1;");
	push_pulled("w0", 4, 1);
	drain();
	assert_string_equal(said, "iteration=3 applied=1;");
	gate_free(gate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_delays_are_exact),
		cmocka_unit_test(great_delays_are_an_eighth_too_high_at_most),
		cmocka_unit_test(asp),
		cmocka_unit_test(ssp),
		cmocka_unit_test(pushes_that_close_together_count_each_other),
		cmocka_unit_test(who_is_fenced_is_told_that_its_push_was_dropped),
		cmocka_unit_test(what_is_too_stale_is_dropped_before_it_is_sent),
		cmocka_unit_test(a_commit_waits_for_an_older_push_that_was_granted),
		cmocka_unit_test(one_that_does_not_come_is_waited_for_no_longer),
		cmocka_unit_test(a_promise_is_for_what_was_announced),
		cmocka_unit_test(who_waits_is_scheduled_anew_when_a_link_has_another_rate),
		cmocka_unit_test(groups_of_this_lead_are_counted),
		cmocka_unit_test(a_group_is_one_unit),
		cmocka_unit_test(members_on_two_hosts_are_told_where_they_are_summed),
		cmocka_unit_test(a_crew_that_took_too_long_is_the_last_for_a_while),
		cmocka_unit_test(who_is_expected_soon_on_another_host_is_waited_for),
		cmocka_unit_test(without_one_member_the_others_are_dropped),
		cmocka_unit_test(who_says_a_group_that_was_not_granted_is_dropped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Templates of launchers, and what an end means where a shell may stand in front. */
#include "proc/launcher.h"

#include "base/words.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct node_place place = {.host = "north", .cores = 8, .memory_mib = 4096, .node_host = "/x/node-host"};
static const struct node_name name = {.id = "w3", .number = 3, .place = &place};

static void each_word_has_its_value(void **state)
{
	(void)state;
	struct error err;
	char *out;
	assert_int_equal(launcher_words("%i/%n on %h: %cores x %mem%%, 100%%i", &name, &out, &err),
			 0);
	assert_string_equal(out, "w3/3 on north: 8 x 4096%, 100%i");
	free(out);
}

static void what_stands_for_nothing_is_named_with_its_column(void **state)
{
	(void)state;
	struct error err;
	char *out;
	assert_int_equal(launcher_words("nice %x", &name, &out, &err), -1);
	assert_null(out);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_non_null(strstr(err.text, "'%x' in column 6"));
	assert_int_equal(launcher_check("at the end %", &err), -1);
	assert_non_null(strstr(err.text, "column 12"));
	assert_int_equal(launcher_check("%co", &err), -1);
	assert_int_equal(launcher_check("", &err), 0);
	assert_int_equal(launcher_check("taskset -c %n", &err), 0);
}

/* The words in front, with blanks between. */
static char *front_of(const char *launcher, const struct node_start *start)
{
	struct error err;
	struct node_place at = *start->name->place;
	struct node_name named = *start->name;
	struct node_start there = *start;
	struct argv front = {0};
	char *text = NULL;
	size_t len;
	at.launcher = launcher_find(launcher);
	named.place = &at;
	there.name = &named;
	if (at.launcher->start(&there, &front, &err) != 0)
		fail_msg("%s", err.text);
	FILE *out = open_memstream(&text, &len);
	for (size_t i = 0; i < front.count; i++)
		fprintf(out, "%s%s", i ? " " : "", front.word[i]);
	fclose(out);
	argv_free(&front);
	return text;
}

static void a_plain_command_needs_no_shell(void **state)
{
	(void)state;
	const struct {
		const char *template, *front;
	} cases[] = {{"nice -n %n", "/bin/sh -c exec nice -n 3 \"$@\" sh"},
		     {"cd / && nice", "/bin/sh -c cd / && nice \"$@\" sh"},
		     {"A=%i nice", "/bin/sh -c A=w3 nice \"$@\" sh"},
		     {"env A=%i", "/bin/sh -c exec env A=w3 \"$@\" sh"},
		     {"", ""},
		     {NULL, ""}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct node_start start = {.name = &name, .template = cases[i].template};
		char *front = front_of("local", &start);
		assert_string_equal(front, cases[i].front);
		free(front);
	}
	assert_null(launcher_find("none"));
}

static void another_host_is_reached_by_a_process_here(void **state)
{
	(void)state;
	static const char *const make[] = {"/run dir", "/state", NULL}, *const bring[] = {"/state/schema", NULL},
	     *const lock[] = {"/run dir/a", "/run dir/b", NULL};
	struct node_start start = {.name = &name, .template = "nice -n 5", .make = make, .bring = bring, .lock = lock};
	char *front = front_of("ssh", &start);
	assert_string_equal(front,
			    "/x/node-host --by ssh --id w3 --make /run dir --make /state --lock /run dir/a "
			    "--lock /run dir/b north /bin/sh -c exec nice -n 5 \"$@\" sh");
	free(front);
	struct node_place apart = place;
	struct node_name there = name;
	apart.apart = 1;
	there.place = &apart;
	start.name = &there;
	start.template = NULL;
	start.lock = NULL;
	front = front_of("slurm", &start);
	assert_string_equal(front, "/x/node-host --by slurm --id w3 --make /run dir --make /state --bring "
						   "/state/schema north");
	free(front);
	start.make = start.bring = NULL;
	start.limits = (struct limits){.cores = 1.5, .memory = 1 << 20, .first_core = 3};
	front = front_of("slurm", &start);
	assert_string_equal(front, "/x/node-host --by slurm --id w3 --cores 1.5 --memory 1048576 "
				   "--first-core 3 north");
	free(front);
}

static void the_words_that_reach_a_host(void **state)
{
	(void)state;
	struct error err;
	struct argv words = {0};
	assert_int_equal(launcher_find("slurm")->reach(&(struct node_reach){"h1", "cd; exec x", 0, 0}, &words, &err), 0);
	assert_string_equal(words.word[0], "srun");
	assert_string_equal(words.word[words.count - 4], "h1");
	assert_string_equal(words.word[words.count - 3], "/bin/sh");
	assert_string_equal(words.word[words.count - 2], "-c");
	assert_string_equal(words.word[words.count - 1], "cd; exec x");
	assert_null(words.word[words.count]);
	argv_free(&words);
	assert_int_equal(launcher_find("slurm")->reach(&(struct node_reach){"h1", NULL, 512, 7}, &words, &err), 0);
	assert_string_equal(words.word[words.count - 4], "--mem=512M");
	assert_string_equal(words.word[words.count - 3], "--jobid=7");
	assert_string_equal(words.word[words.count - 1], "-c");
	argv_free(&words);
	/* A shell there reads the line, without another one in front. */
	assert_int_equal(launcher_find("ssh")->reach(&(struct node_reach){"me@h1", "cd; exec x", 0, 0}, &words, &err), 0);
	assert_string_equal(words.word[0], "ssh");
	assert_string_equal(words.word[words.count - 3], "--");
	assert_string_equal(words.word[words.count - 2], "me@h1");
	assert_string_equal(words.word[words.count - 1], "cd; exec x");
	argv_free(&words);
}

static void what_may_be_a_host(void **state)
{
	(void)state;
	char longest[HOST_NAME_MAX_BYTES + 1];
	assert_true(launcher_host_ok("h0"));
	assert_true(launcher_host_ok("me@node-1.example.org"));
	assert_true(launcher_host_ok("[fe80::1]"));
	assert_false(launcher_host_ok(""));
	assert_false(launcher_host_ok("-oProxyCommand=x"));
	assert_false(launcher_host_ok("a b"));
	assert_false(launcher_host_ok("a;b"));
	memset(longest, 'a', sizeof longest);
	longest[HOST_NAME_MAX_BYTES] = '\0';
	assert_false(launcher_host_ok(longest));
	longest[HOST_NAME_MAX_BYTES - 1] = '\0';
	assert_true(launcher_host_ok(longest));
}

static void a_lost_host_is_no_end_of_the_node(void **state)
{
	(void)state;
	struct node_end lost = {.seen = 1, .status = LOST_STATUS}, own = {.seen = 1, .status = 78};
	struct node_place local = place;
	local.launcher = launcher_find("local");
	const char *const far[] = {"ssh", "slurm"};
	for (size_t i = 0; i < 2; i++) {
		struct node_place there = place;
		there.launcher = launcher_find(far[i]);
		assert_int_equal(there.launcher->class_of(&lost), END_RETRYABLE);
		assert_int_equal(there.launcher->class_of(&own), END_UNRETRYABLE);
		assert_true(launcher_lost_host(&there, &lost));
		assert_false(launcher_lost_host(&there, &own));
	}
	assert_int_equal(local.launcher->class_of(&lost), END_UNRETRYABLE);
	assert_false(launcher_lost_host(&local, &lost));
}

static void a_shell_in_front_tells_of_signals_by_its_status(void **state)
{
	(void)state;
	const struct launcher *local = launcher_find("local");
	struct node_end end = {.seen = 1, .status = 128 + SIGKILL};
	assert_int_equal(local->class_of(&end), END_RETRYABLE);
	end.status = 128 + SIGTERM;
	assert_int_equal(local->class_of(&end), END_RETRYABLE);
	end.status = 128 + SIGSEGV;
	assert_int_equal(local->class_of(&end), END_UNRETRYABLE);
	end.status = 0;
	assert_int_equal(local->class_of(&end), END_CLEAN);
	end.seen = 0;
	assert_int_equal(local->class_of(&end), END_RETRYABLE);
}

static void here_is_a_host(void **state)
{
	(void)state;
	struct node_place here;
	launcher_here(&here);
	assert_ptr_equal(here.launcher, launcher_find("local"));
	assert_true(here.host[0] != '\0');
	assert_true(here.cores >= 1);
	assert_true(here.memory_mib >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_word_has_its_value),
		cmocka_unit_test(what_stands_for_nothing_is_named_with_its_column),
		cmocka_unit_test(a_plain_command_needs_no_shell),
		cmocka_unit_test(another_host_is_reached_by_a_process_here),
		cmocka_unit_test(the_words_that_reach_a_host),
		cmocka_unit_test(what_may_be_a_host),
		cmocka_unit_test(a_lost_host_is_no_end_of_the_node),
		cmocka_unit_test(a_shell_in_front_tells_of_signals_by_its_status),
		cmocka_unit_test(here_is_a_host),
	};
	return cmocka_run_group_tests_name("proc_launcher", tests, NULL, NULL);
}

/* job/program: the first program of a command, where no shell is needed to tell. */
#include "job/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void is(const char *command, const char *want)
{
	char out[16] = "";
	int told = program_of(command, out, sizeof out);
	if (told != (want != NULL) || strcmp(out, want ? want : "") != 0)
		fail_msg("%s: %d %s", command, told, out);
}

static void test_told(void **state)
{
	(void)state;
	is("python3", "python3");
	is(" \tpython3 train.py $HOME 'a b'", "python3");
	is("python3\nrm x", "python3");
	is("exec python3 train.py", "python3");
	is("env python3", "python3");
	is("exec env A=1 B= ./train-1", "./train-1");
	is("A=/x:$HOME/lib exec /usr/bin/c++", "/usr/bin/c++");
	is("cd /x && exec python3", "cd");
	is("if true; then", "if");
}

static void test_not_told(void **state)
{
	static const char *const commands[] = {
		"",		    " ",	    "exec",	     "A=1",	      "exec\nx",
		"$PYTHON x",	    "'my x'",	    "\"x\"",	     "~/x",	      "x; y",
		"x&",		    "(x)",	    "{ x; }",	     "x() { y; }",    "exec -a y x",
		"env -i x",	    "A='b c' x",    "A=$(b c) x",    "A=\"b\" x",     "A=b\\ c x",
		"PATH=/opt/bin x",  "env PATH=/ x", "! x",	     "x>y",	      "# x",
		"A=`b` x",	    "x|y",	    "[a] x",	     "x*",	      "a-long-name-here",
		"A=${B:-c d} x"};
	(void)state;
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		is(commands[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_told),
					   cmocka_unit_test(test_not_told)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

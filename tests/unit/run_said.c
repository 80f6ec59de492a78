/* What a process printed about its end, or about what it is doing. */
#include "run/said.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *said_of(void (*said)(char *text, char *out), const char *text)
{
	static char out[SAID_MAX];
	char copy[4096];
	snprintf(copy, sizeof copy, "%s", text);
	said(copy, out);
	return out;
}

static const char *end_of_text(const char *text)
{
	return said_of(said_end, text);
}

static const char *stack_of_text(const char *text)
{
	return said_of(said_stack, text);
}

#define RAISED                                                                                     \
	"epoch 3\n"                                                                                \
	"Traceback (most recent call last):\n"                                                     \
	"  File \"/home/me/train.py\", line 21, in <module>\n"                                     \
	"    f()\n"                                                                                \
	"  File \"/home/me/train.py\", line 7, in f\n"                                             \
	"    return torch.cat(x)\n"                                                                \
	"           ^^^^^^^^^^^^\n"                                                                \
	"  File \"/usr/lib/python3/dist-packages/torch/x.py\", line 900, in cat\n"                 \
	"    deep()\n"                                                                             \
	"RuntimeError: sizes differ\n"

static void an_exception_with_the_users_own_place(void **state)
{
	(void)state;
	assert_string_equal(end_of_text(RAISED "agent: /bin/sh: the trainer ended: exit status 1\n"),
			    "RuntimeError: sizes differ, in f (train.py:7)");
	/* The last of several; lines behind it, and more lines of its text, do not matter. */
	assert_string_equal(end_of_text(RAISED "During handling of the above exception, another:\n"
					       "\n"
					       "Traceback (most recent call last):\n"
					       "  File \"train.py\", line 30, in <module>\n"
					       "ValueError: no\nlabel\nbye\n"),
			    "ValueError: no, in train.py:30");
	assert_string_equal(end_of_text("Traceback (most recent call last):\n"
					"  File \"/usr/lib/python3.11/runpy.py\", line 3, in run\n"
					"KeyboardInterrupt\n"),
			    "KeyboardInterrupt, in run (runpy.py:3)");
	assert_string_equal(end_of_text("Traceback (most recent call last):\n"
					"  File \"/x/a.py\", line 2\n"
					"    if x: break\n"
					"SyntaxError: 'break' outside loop\n"),
			    "SyntaxError: 'break' outside loop, in a.py:2");
}

static void a_signal_with_the_place_of_the_main_thread(void **state)
{
	(void)state;
	assert_string_equal(end_of_text("Fatal Python error: Segmentation fault\n"
					"\n"
					"Current thread 0x00007f (most recent call first):\n"
					"  File \"/usr/lib/python3.11/ctypes/x.py\", line 9 in call\n"
					"  File \"/home/me/train.py\", line 5 in kernel\n"
					"\n"
					"Thread 0x00008f (most recent call first):\n"
					"  File \"/home/me/other.py\", line 1 in g\n"
					"\n"
					"Extension modules: numpy (total: 1)\n"
					"agent: /bin/sh: the trainer ended: signal 11\n"),
			    "in kernel (train.py:5)");
}

static void other_output_by_its_last_line(void **state)
{
	(void)state;
	assert_string_equal(end_of_text("start\nno such table\n  more\n"
					"spent id=w0 compute=1\n"
					"agent: sh: the trainer ended: exit status 3\n"),
			    "last line: no such table");
	assert_string_equal(end_of_text("paceline: hello\nagent: r0.sock: floats=241, but another rank "
					"has said floats=240\n"),
			    "r0.sock: floats=241, but another rank has said floats=240");
	assert_string_equal(end_of_text(""), "");
	assert_string_equal(end_of_text("agent: sh: the trainer ended: signal 11\n"), "");
	assert_string_equal(end_of_text("Traceback (most recent call last):\n"), "");
	assert_string_equal(end_of_text("a\033[31mb\n"), "last line: a?[31mb");
}

static void stacks_that_were_asked_for(void **state)
{
	(void)state;
	const char *asked = "Thread 0x00007f (most recent call first):\n"
			    "  File \"/a/paceline.py\", line 5 in _tell_waits\n"
			    "\n"
			    "Current thread 0x00008f (most recent call first):\n"
			    "  File \"/usr/lib/python3.11/threading.py\", line 331 in wait\n"
			    "  File \"/home/me/train.py\", line 12 in stuck\n"
			    "  File \"/home/me/train.py\", line 88 in <module>\n"
			    "agent: something\n";
	assert_string_equal(stack_of_text(asked), "wait (threading.py:331), called from stuck (train.py:12)");
	assert_string_equal(stack_of_text("Current thread 0x1 (most recent call first):\n"
					  "  File \"train.py\", line 1 in f\n"),
			    "f (train.py:1)");
	char path[300];
	snprintf(path, sizeof path, "Current thread 0x1 (most recent call first):\n"
				    "  File \"/%0140d/train.py\", line 1 in f\n", 0);
	assert_string_equal(stack_of_text(path), "f (train.py:1)");
	/* Where no thread is the current one, the main thread is the last. */
	assert_string_equal(stack_of_text("Thread 0x1 (most recent call first):\n"
					  "  File \"a.py\", line 1 in f\n"
					  "Thread 0x2 (most recent call first):\n"
					  "  File \"a.py\", line 2 in g\n"),
			    "g (a.py:2)");
	assert_string_equal(stack_of_text(RAISED), "");
	assert_string_equal(stack_of_text("Current thread 0x1 (most recent call first):\n"), "");
	assert_string_equal(stack_of_text(""), "");
}

/* Whatever is printed, the line stays one, and ends. */
static void nothing_is_too_long_or_broken(void **state)
{
	char text[8192];
	(void)state;
	memset(text, 'x', sizeof text);
	memcpy(text, "Traceback (most recent call last):\n  File \"", 43);
	text[4000] = '"';
	memcpy(text + 4001, ", line 9, in ", 13);
	text[6000] = '\n';
	text[sizeof text - 1] = '\0';
	char out[SAID_MAX];
	said_end(text, out);
	assert_true(strlen(out) < SAID_MAX);
	assert_non_null(strstr(out, "x..., in x"));
	for (unsigned seed = 1; seed < 2000; seed++) {
		static const char *const piece[] = {
			"Traceback (most recent call last):\n", "  File \"", "a.py\"", ", line ",
			"7", " in ", "\n", "Current thread ", "(most recent call first):\n", "X: y",
			"Fatal Python error: ", "agent: ", " ", "\"", "<"};
		unsigned next = seed;
		text[0] = '\0';
		for (size_t at = 0, i = 0; i < 30; i++) {
			next = next * 1103515245u + 12345u;
			at += (size_t)snprintf(text + at, sizeof text - at, "%s",
					       piece[(next >> 16) % (sizeof piece / sizeof *piece)]);
		}
		char *copy = strdup(text);
		assert_non_null(copy);
		said_end(text, out);
		assert_null(strchr(out, '\n'));
		said_stack(copy, out);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_exception_with_the_users_own_place),
		cmocka_unit_test(a_signal_with_the_place_of_the_main_thread),
		cmocka_unit_test(other_output_by_its_last_line),
		cmocka_unit_test(stacks_that_were_asked_for),
		cmocka_unit_test(nothing_is_too_long_or_broken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

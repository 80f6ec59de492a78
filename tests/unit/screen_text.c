/* Text in columns: how wide, what fits; lines of pieces; tables. */
#include "screen/line.h"
#include "screen/grid.h"
#include "screen/text.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "screen_check.h"

static void widths_and_letters(void **state)
{
	(void)state;
	char out[64];
	assert_int_equal(text_width(""), 0);
	assert_int_equal(text_width("abc"), 3);
	text_clean("a\033[2Jb\xff", out, sizeof out);
	assert_string_equal(out, "a?[2Jb?");
	text_clean("k\u00f6ln", out, sizeof out); /* no such letter in C */
	assert_string_equal(out, "k?ln");
	text_clean("abcdef", out, 4);
	assert_string_equal(out, "abc");
	assert_int_equal(text_has_blocks(), 0);
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return;
	assert_int_equal(text_has_blocks(), 1);
	assert_int_equal(text_width("k\u00f6ln"), 4);
	assert_int_equal(text_width("\u6771\u4eac"), 4); /* two columns each */
	text_clean("k\u00f6ln\033\xc3", out, sizeof out);
	assert_string_equal(out, "k\u00f6ln??");
	text_words("\u6771\u4eac \u6771\u4eac", 8, out, sizeof out);
	assert_string_equal(out, "\u6771\u4eac...");
	text_name("\u6771\u4eac\u6771\u4eac", 6, out, sizeof out);
	assert_string_equal(out, "\u6771..\u4eac");
	text_bar(0.5, 3, 1, out, sizeof out);
	assert_string_equal(out, "\u2588\u258c\u2591");
	setlocale(LC_CTYPE, "C");
}

static void words_are_whole(void **state)
{
	(void)state;
	char out[64];
	static const char text[] = "computes 4.0x as long, its machine is busy";
	assert_int_equal(text_words(text, 99, out, sizeof out), strlen(text));
	assert_string_equal(out, text);
	text_words(text, strlen(text), out, sizeof out);
	assert_string_equal(out, text);
	assert_int_equal(text_words(text, 25, out, sizeof out), 24);
	assert_string_equal(out, "computes 4.0x as long..."); /* and no comma before the dots */
	assert_int_equal(text_words(text, 11, out, sizeof out), 11);
	assert_string_equal(out, "computes...");
	assert_int_equal(text_words(text, 10, out, sizeof out), 0);
	assert_string_equal(out, "");
	for (size_t width = 0; width < 60; width++) {
		text_words(text, width, out, sizeof out);
		check_line(out, width, text);
		text_words(text, width, out, 16); /* too small a buffer is no reason either */
		check_line(out, width, text);
	}
}

static void folded(void **state)
{
	(void)state;
	static const char text[] = "one two  three verylongword x";
	static const char *const line[] = {"one two", "three", "verylong", "word x"};
	const char *p = text, *next;
	for (size_t i = 0; i < 4; i++, p = next) {
		size_t n = text_fold(p, 8, &next);
		assert_int_equal(n, strlen(line[i]));
		assert_memory_equal(p, line[i], n);
	}
	assert_string_equal(p, "");
	assert_int_equal(text_fold("ab", 0, &next), 1); /* it ends whatever the width */
	assert_int_equal(text_fold("", 8, &next), 0);
}

static void names_and_bars(void **state)
{
	(void)state;
	char out[64];
	text_name("worker-12", 9, out, sizeof out);
	assert_string_equal(out, "worker-12");
	text_name("worker-12", 7, out, sizeof out);
	assert_string_equal(out, "wor..12");
	text_name("worker-12", 2, out, sizeof out);
	assert_string_equal(out, "..");
	text_name("worker-12", 0, out, sizeof out);
	assert_string_equal(out, "");
	text_bar(0.5, 10, 0, out, sizeof out);
	assert_string_equal(out, "#####.....");
	text_bar(2, 3, 0, out, sizeof out);
	assert_string_equal(out, "###");
	text_bar(0.0 / 0.0, 3, 0, out, sizeof out);
	assert_string_equal(out, "...");
}

static void pieces(void **state)
{
	(void)state;
	char out[128];
	const struct piece piece[] = {PIECE("loss 0.4312"),
				      PIECE("12.3k samples/s", "12.3k/s"),
				      {{"computes as long as three others"}, 1, 11, 0},
				      {{"step 128"}, 0, 0, 1}};
	static const struct {
		size_t width;
		const char *text;
	} want[] = {
		{10, ""},
		{11, "loss 0.4312"},
		{19, "loss 0.4312"},
		{20, "loss 0.4312  12.3k/s"},
		{28, "loss 0.4312  12.3k samples/s"},
		{33, "loss 0.4312  12.3k/s  computes..."},
		{46, "loss 0.4312  12.3k/s  computes as long as..."},
		{62, "loss 0.4312  12.3k samples/s  computes as long as three others"},
		{90, "loss 0.4312  12.3k samples/s  computes as long as three others  step 128"}};
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		line_fit(piece, 4, want[i].width, out, sizeof out);
		assert_string_equal(out, want[i].text);
	}
	/* a piece that says nothing takes no place */
	const struct piece hollow[] = {PIECE(""), PIECE("a"), PIECE(NULL), PIECE("b")};
	line_fit(hollow, 4, 10, out, sizeof out);
	assert_string_equal(out, "a  b");
}

static const struct grid_column columns[] = {{"NODE", 0, GRID_LEFT, 4, 0, 0},
					     {"STATE", 1, GRID_LEFT, 8, 0, 0},
					     {"SIZE", 3, GRID_RIGHT, 5, 0, 0},
					     {"NOTE", 9, GRID_LEFT, 6, 0, 1},
					     {"WHY", 2, GRID_LEFT, 8, 1, 0}};

static void tables(void **state)
{
	(void)state;
	struct grid t;
	size_t layout[GRID_MAX], at, width;
	char out[128];
	grid_init(&t, columns, 5);
	grid_add(&t, (const char *const[]){"w0", "up", "48", "", ""});
	grid_add(&t, (const char *const[]){"w1", "starting", "1024", NULL, "computes for longer"});
	assert_int_equal(t.rows, 2);
	static const struct {
		size_t width;
		const char *head, *row;
	} want[] = {
		{60, "NODE  STATE      SIZE  WHY", "w1    starting   1024  computes for longer"},
		{40, "NODE  STATE      SIZE  WHY", "w1    starting   1024  computes for..."},
		{31, "NODE  STATE      SIZE  WHY", "w1    starting   1024"},
		{30, "NODE  STATE     WHY", "w1    starting  computes..."},
		{23, "NODE  STATE", "w1    starting"},
		{13, "NODE", "w1"},
		{3, "N..", "w1"}};
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		grid_layout(&t, want[i].width, layout);
		grid_line(&t, layout, GRID_HEAD, out, sizeof out);
		assert_string_equal(out, want[i].head);
		size_t wide = grid_line(&t, layout, 1, out, sizeof out);
		assert_int_equal(wide, strlen(out));
		assert_string_equal(out, want[i].row);
	}
	grid_layout(&t, 60, layout);
	grid_line(&t, layout, 0, out, sizeof out);
	assert_string_equal(out, "w0    up           48");
	assert_int_equal(grid_place(&t, layout, 2, &at, &width), 0);
	assert_int_equal(at, 16);
	assert_int_equal(width, 5);
	assert_int_equal(grid_place(&t, layout, 3, &at, &width), -1);
	for (size_t w = 4; w < 100; w++) {
		grid_layout(&t, w, layout);
		for (size_t row = 0; row < t.rows; row++) {
			grid_line(&t, layout, row, out, sizeof out);
			check_line(out, w, "w0 w1 up starting 48 1024 computes for longer");
		}
	}
	grid_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(widths_and_letters),
		cmocka_unit_test(words_are_whole),
		cmocka_unit_test(folded),
		cmocka_unit_test(names_and_bars),
		cmocka_unit_test(pieces),
		cmocka_unit_test(tables),
	};
	return cmocka_run_group_tests_name("screen_text", tests, NULL, NULL);
}

/* terminal: see terminal.h. */
#include "cmd/trainctl/terminal.h"

#include "screen/text.h"

#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <curses.h>
#include <term.h>

#define WIDTH_LEAST 10
#define WIDTH_USUAL 80
#define HEIGHT_USUAL 24
#define DRAWN_MAX 16

static struct {
	enum terminal_kind kind;
	int colours;
	TERMINAL *known;               /* what terminfo says of it */
	size_t drawn, wide[DRAWN_MAX]; /* the block: how many lines, and the columns of each */
} terminal;

static volatile sig_atomic_t continued;

/* While the job was in the background, another program has written below the block. */
static void on_continue(int signal)
{
	(void)signal;
	continued = 1;
}

static int can_move(void)
{
	const char *name = getenv("TERM");
	int status;
	if (!name || !name[0] || strcmp(name, "dumb") == 0 ||
	    setupterm(NULL, STDOUT_FILENO, &status) != OK)
		return 0;
	terminal.known = cur_term;
	return cursor_up && clr_eol && carriage_return;
}

enum terminal_kind terminal_open(void)
{
	static int opened;
	const char *no_colour = getenv("NO_COLOR");
	if (opened++)
		return terminal.kind;
	setlocale(LC_CTYPE, "");
	if (!isatty(STDOUT_FILENO))
		return terminal.kind = TERMINAL_NONE;
	terminal.kind = can_move() ? TERMINAL_FULL : TERMINAL_PLAIN;
	terminal.colours = terminal.kind == TERMINAL_FULL && (!no_colour || !no_colour[0]) &&
			   max_colors >= 8 && set_a_foreground && exit_attribute_mode;
	struct sigaction act = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
	sigaction(SIGCONT, &act, NULL);
	return terminal.kind;
}

void terminal_again(void)
{
	set_curterm(terminal.known);
}

int terminal_colours(void)
{
	return terminal.colours;
}

static struct winsize size_now(void)
{
	struct winsize size = {0};
	if (terminal.kind != TERMINAL_NONE)
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	return size;
}

size_t terminal_width(void)
{
	size_t width = size_now().ws_col;
	if (terminal.kind == TERMINAL_NONE)
		return SCREEN_WIDTH_MAX;
	return width >= WIDTH_LEAST ? width : width > 0 ? WIDTH_LEAST : WIDTH_USUAL;
}

size_t terminal_height(void)
{
	size_t height = size_now().ws_row;
	return height > 0 ? height : HEIGHT_USUAL;
}

/* ---- a line ---- */

static void colour(enum screen_tint tint)
{
	const short code = tint == TINT_SLOW ? COLOR_YELLOW : COLOR_RED;
	switch (tint) {
	case TINT_SLOW:
	case TINT_BAD:
		if (terminal.colours)
			putp(tparm(set_a_foreground, (long)code, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L));
		break;
	case TINT_STRONG:
	case TINT_HEAD:
		if (terminal.kind == TERMINAL_FULL && enter_bold_mode && exit_attribute_mode)
			putp(enter_bold_mode);
		break;
	case TINT_NONE:
	case TINT_QUIET:
		break;
	}
}

static void write_line(const struct screen_line *line)
{
	size_t len = strlen(line->text);
	if (terminal.kind != TERMINAL_FULL || line->tint == TINT_NONE || line->from >= len ||
	    !exit_attribute_mode) {
		fputs(line->text, stdout);
		return;
	}
	size_t marked = line->from + line->len < len ? line->len : len - line->from;
	fwrite(line->text, 1, line->from, stdout);
	colour(line->tint);
	fwrite(line->text + line->from, 1, marked, stdout);
	putp(exit_attribute_mode);
	fputs(line->text + line->from + marked, stdout);
}

void terminal_put(const struct screen_line *line)
{
	write_line(line);
	putchar('\n');
}

void terminal_say(const char *text)
{
	size_t width = isatty(STDERR_FILENO) ? terminal_width() : 0;
	for (const char *p = text; *p && width > 0;) {
		const char *next;
		size_t n = text_fold(p, width, &next);
		if (strcspn(p, " ") > width) /* a path is printed whole even if it is too wide,
					      * because people copy it */
			n = strcspn(p, " "), next = p + n + strspn(p + n, " ");
		fprintf(stderr, "%.*s\n", (int)n, p);
		p = next;
	}
	if (width == 0)
		fprintf(stderr, "%s\n", text);
}

/* ---- the block ---- */

/* Lines that the block takes now: a terminal that has become narrower has wrapped some of them. */
static size_t terminal_rows(void)
{
	size_t width = terminal_width(), sum = 0;
	for (size_t i = 0; i < terminal.drawn; i++)
		sum += terminal.wide[i] > width ? (terminal.wide[i] + width - 1) / width : 1;
	return sum;
}

static void go_up(size_t count)
{
	putp(carriage_return);
	for (; count > 0; count--)
		putp(cursor_up);
}

/* Erase line by line, each line wholly. Some terminals remember the length of a line that was
 * longer once, and wrap its end when they become narrower; and some keep a screen that is erased
 * from its first line on as scrolled text. */
static void erase_block(void)
{
	if (continued)
		terminal.drawn = 0;
	continued = 0;
	if (terminal.drawn == 0)
		return;
	size_t taken = terminal_rows();
	go_up(taken - 1);
	for (size_t i = 0; i < taken; i++) {
		if (i > 0)
			putchar('\n');
		putp(clr_eol);
	}
	go_up(taken - 1);
	terminal.drawn = 0;
}

void terminal_clear(void)
{
	if (terminal.drawn == 0)
		return;
	erase_block();
	fflush(stdout);
}

void terminal_draw(const struct screen_line *line, size_t count)
{
	if (terminal.kind != TERMINAL_FULL)
		return;
	erase_block();
	for (size_t i = 0; i < count && i < DRAWN_MAX; i++) {
		if (i > 0)
			putchar('\n');
		write_line(&line[i]);
		terminal.wide[terminal.drawn++] = text_width(line[i].text);
	}
	fflush(stdout);
}

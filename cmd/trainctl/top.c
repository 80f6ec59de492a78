/* trainctl top: the screen of a job. One loop waits for the keyboard, the job's answer, a signal
 * and the clock at once, so that a job that does not answer stops no key. */
#include "cmd/trainctl/top.h"

#include "base/clock.h"
#include "cmd/trainctl.h"
#include "cmd/trainctl/terminal.h"
#include "screen/text.h"
#include "wire/call.h"

#include <curses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SILENT_SECONDS 3.0 /* seconds without an answer before top says so */
#define ROWS_LEAST 3       /* rows of the table, whatever is above it */
#define KEY_ESCAPE 27
#define KEY_REDRAW 12 /* Ctrl-L */

static volatile sig_atomic_t told_to_end;

static void top_on_end(int signal)
{
	told_to_end = signal;
}

static void on_child(int signal)
{
	(void)signal; /* ends sigsuspend() */
}

/* ---- what is drawn ---- */

static int has_colours;

static attr_t attribute(enum screen_tint tint)
{
	switch (tint) {
	case TINT_STRONG:
	case TINT_HEAD:
		return A_BOLD;
	case TINT_SLOW:
		return has_colours ? (attr_t)COLOR_PAIR(1) : A_BOLD;
	case TINT_BAD:
		return has_colours ? (attr_t)COLOR_PAIR(2) : A_BOLD;
	case TINT_QUIET:
	case TINT_NONE:
		break;
	}
	return A_NORMAL;
}

static void top_put(int y, const struct screen_line *line, attr_t all)
{
	size_t len = strlen(line->text), from = line->from < len ? line->from : len;
	size_t marked = line->len < len - from ? line->len : len - from;
	move(y, 0);
	attrset((int)(all));
	addnstr(line->text, (int)from);
	attrset((int)(all | attribute(line->tint)));
	addnstr(line->text + from, (int)marked);
	attrset((int)(all));
	addstr(line->text + from + marked);
	if (all & A_REVERSE)
		for (int x = getcurx(stdscr), width = getmaxx(stdscr);
		     x < width && getcury(stdscr) == y; x++)
			addch(' ');
	attrset(A_NORMAL);
}

/* The row of the chosen node; of the first one when it is not there (any more). */
static size_t chosen_row(const struct top *t)
{
	for (size_t i = 0; i < t->view.nodes; i++)
		if (strcmp(t->view.node[i].id, t->chosen) == 0)
			return i;
	return 0;
}

static void top_choose(struct top *t, size_t row)
{
	if (t->view.nodes == 0)
		return;
	row = row < t->view.nodes ? row : t->view.nodes - 1;
	memcpy(t->chosen, t->view.node[row].id, sizeof t->chosen);
}

static void draw_table(struct top *t, int y, int rows, size_t width)
{
	struct grid table;
	struct screen_line line = {.tint = TINT_HEAD};
	size_t layout[GRID_MAX], row = chosen_row(t), shown = rows > 1 ? (size_t)rows - 1 : 0;
	view_table(&t->view, &table);
	grid_layout(&table, width, layout);
	grid_line(&table, layout, GRID_HEAD, line.text, sizeof line.text);
	line.len = strlen(line.text);
	top_put(y++, &line, A_NORMAL);
	if (row < t->first)
		t->first = row;
	if (shown > 0 && row >= t->first + shown)
		t->first = row - shown + 1;
	if (t->first + shown > table.rows)
		t->first = table.rows > shown ? table.rows - shown : 0;
	for (size_t i = t->first; i < table.rows && i < t->first + shown; i++) {
		view_row(&t->view, &table, layout, i, &line);
		top_put(y++, &line, i == row ? A_REVERSE : A_NORMAL);
	}
	grid_free(&table);
}

static const char *const help[] = {
	"up down j k  choose a node",
	"PgUp PgDn    a page up or down",
	"Enter l      its log; Ctrl-C comes back",
	"s S          sort by next, by previous",
	"r            reverse the order",
	"h ?          this help",
	"q            back, or end",
	"",
	"RATIO  time of a batch over the mean",
	"TIME   of a batch, without waiting",
	"SPEED  samples a second",
	"SIZE   samples in a batch",
	"ACCUM  steps that a batch is cut into",
};

#define HELP_LINES ((int)(sizeof help / sizeof *help))

static void draw_help(int y, int bottom, size_t width)
{
	for (int i = 0; i < HELP_LINES; i++) {
		const char *p = help[i], *next;
		do {
			struct screen_line line = {.tint = TINT_NONE};
			size_t n = text_fold(p, width, &next);
			snprintf(line.text, sizeof line.text, "%.*s", (int)n, p);
			if (y < bottom)
				top_put(y++, &line, A_NORMAL);
			p = next;
		} while (*p);
	}
}

static void draw_foot(const struct top *t, int y, size_t width)
{
	struct screen_line line = {.tint = TINT_NONE};
	char sort[64], shown[64] = "";
	snprintf(sort, sizeof sort, "s sort: %s%s", view_order_name[t->order],
		 t->reverse ? ", reversed" : "");
	if (t->view.nodes > 0)
		snprintf(shown, sizeof shown, "node %zu of %zu", chosen_row(t) + 1, t->view.nodes);
	const struct piece piece[] = {PIECE("q quit"),       PIECE("h help"),    PIECE("Enter log"),
				      PIECE(sort, "s sort"), PIECE("r reverse"), PIECE(shown)};
	line_fit(piece, sizeof piece / sizeof *piece, width, line.text, sizeof line.text);
	top_put(y, &line, A_NORMAL);
}

/* Curses does not follow a new size by itself. Only the terminal knows what it shows after a
 * change: it has wrapped, cut or moved lines. So redraw everything, not only differences. */
static void follow_size(void)
{
	int height = (int)terminal_height(), width = (int)terminal_width();
	if (height == getmaxy(stdscr) && width == getmaxx(stdscr))
		return;
	resizeterm(height, width);
	clearok(stdscr, TRUE);
}

static void top_draw(struct top *t)
{
	struct screen_line line[VIEW_HEAD_MAX];
	follow_size();
	int height = getmaxy(stdscr);
	size_t width = (size_t)getmaxx(stdscr);
	double silent = clock_mono() - t->answered_at;
	erase();
	size_t count = view_head(&t->view, width, text_has_blocks(),
				 t->asked && silent > SILENT_SECONDS ? silent : 0, line);
	int rows = t->help ? HELP_LINES : ROWS_LEAST, most = height - 2 - rows, y = 0;
	for (size_t i = 0; i < count && y < (most > 1 ? most : 1); i++)
		top_put(y++, &line[i], A_NORMAL);
	if (y + rows + 2 < height)
		y++; /* an empty line */
	if (t->help)
		draw_help(y, height - 1, width);
	else
		draw_table(t, y, height - y - 1, width);
	draw_foot(t, height - 1, width);
	refresh();
}

/* ---- keys ---- */

static void sort_by(struct top *t, int step)
{
	t->order = (enum view_order)(((int)t->order + step + VIEW_ORDERS) % VIEW_ORDERS);
	view_sort(&t->view, t->order, t->reverse);
	t->first = 0;
	top_choose(t, 0);
}

/* `trainctl logs -f` on this terminal; Ctrl-C, which is its alone, comes back here. */
static void show_log(const struct top *t)
{
	sigset_t none;
	const char *id = t->view.nodes > 0 ? t->view.node[chosen_row(t)].id : "";
	const char *const argv[] = {PROGRAM, "logs", id, "--follow", t->job ? "-j" : "--run-dir",
				    t->job ? t->job : t->run_dir, NULL};
	sigemptyset(&none);
	if (!id[0])
		return;
	endwin();
	printf("%s: its log, as it grows; Ctrl-C goes back\n", id);
	fflush(stdout);
	signal(SIGINT, SIG_IGN);
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGINT, SIG_DFL);
		sigprocmask(SIG_SETMASK, &none, NULL);
		execv("/proc/self/exe", (char **)(size_t)argv);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0) {
		sigsuspend(&none);
		if (told_to_end)
			kill(pid, SIGTERM);
	}
	signal(SIGINT, top_on_end);
	clearok(stdscr, TRUE);
}

static void move_by(struct top *t, long rows)
{
	long row = (long)chosen_row(t) + rows;
	top_choose(t, row > 0 ? (size_t)row : 0);
}

/* 0: that was the last one. */
static int take_key(struct top *t, int key)
{
	long page = getmaxy(stdscr) / 2;
	switch (key) {
	case KEY_ESCAPE:
		t->help = 0;
		return 1;
	case 'q':
	case 'Q':
		if (!t->help)
			return 0;
		t->help = 0;
		return 1;
	case 'h':
	case '?':
	case KEY_F(1):
		t->help = !t->help;
		return 1;
	case 's':
	case '>':
		sort_by(t, 1);
		return 1;
	case 'S':
	case '<':
		sort_by(t, -1);
		return 1;
	case 'r':
	case 'R':
		t->reverse = !t->reverse;
		sort_by(t, 0);
		return 1;
	case 'k':
	case KEY_UP:
		move_by(t, -1);
		return 1;
	case 'j':
	case KEY_DOWN:
		move_by(t, 1);
		return 1;
	case KEY_PPAGE:
		move_by(t, -page);
		return 1;
	case KEY_NPAGE:
	case ' ':
		move_by(t, page);
		return 1;
	case 'g':
	case KEY_HOME:
		top_choose(t, 0);
		return 1;
	case 'G':
	case KEY_END:
		top_choose(t, t->view.nodes);
		return 1;
	case 'l':
	case '\r':
	case '\n':
	case KEY_ENTER:
		show_log(t);
		return 1;
	default:
		return 1;
	}
}

/* ---- the loop ---- */

static int read_keys(struct top *t)
{
	for (int key; (key = getch()) != ERR;) {
		if (key == KEY_REDRAW)
			clearok(stdscr, TRUE);
		else if (!take_key(t, key))
			return 0;
	}
	return 1;
}

/* Until a key, the job's answer, a signal, or the next question is due. keys: somebody may type.
 * -1: the terminal is gone. */
static int wait_for_something(const struct top *t, int keys)
{
	struct pollfd fds[2] = {{.fd = keys ? STDIN_FILENO : -1, .events = POLLIN},
				{.fd = t->asked ? call_fd(t->call) : -1, .events = POLLIN}};
	double seconds = t->asked ? 1 : t->ask_at - clock_mono();
	sigset_t none;
	sigemptyset(&none);
	if (seconds < 0)
		seconds = 0;
	struct timespec limit = {(time_t)seconds,
				 (long)((seconds - (double)(time_t)seconds) * 1e9)};
	if (ppoll(fds, 2, &limit, &none) > 0 && (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)))
		return -1;
	return 0;
}

static int top_watch(struct top *t, struct error *err)
{
	int keys = isatty(STDIN_FILENO); /* else nobody types: only the clock counts */
	while (!told_to_end) {
		if (!t->asked && clock_mono() >= t->ask_at && top_ask(t, err) != 0)
			break;
		if (top_receive(t, 0, err) < 0)
			break;
		top_draw(t);
		if (wait_for_something(t, keys) != 0)
			return SIGHUP;
		/* A terminal that has changed its size is a key, too. */
		if (!read_keys(t))
			return 0;
	}
	if (told_to_end)
		return told_to_end;
	t->is_over = err->code == ERROR_UNAVAILABLE;
	return t->is_over ? 0 : -1;
}

/* Signals arrive in ppoll() only; the terminal is given back before they end us. */
static void hold_signals(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction act = {.sa_handler = top_on_end};
	sigset_t held;
	sigemptyset(&held);
	sigaddset(&held, SIGWINCH);
	sigaddset(&held, SIGCHLD);
	signal(SIGCHLD, on_child);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		sigaction(ends[i], &act, NULL);
		sigaddset(&held, ends[i]);
	}
	sigprocmask(SIG_BLOCK, &held, NULL);
}

int top_on_screen(struct top *t, struct error *err)
{
	/* The terminal knows better than a COLUMNS that somebody has exported. */
	use_env(FALSE);
	use_tioctl(TRUE);
	SCREEN *screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return error_set(err, ERROR_CONFIG, getenv("TERM"), "no such terminal");
	hold_signals();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	has_colours = terminal_colours() && has_colors();
	if (has_colours) {
		start_color();
		use_default_colors();
		init_pair(1, COLOR_YELLOW, -1);
		init_pair(2, COLOR_RED, -1);
	}
	int result = top_watch(t, err);
	endwin();
	delscreen(screen);
	terminal_again();
	return result;
}

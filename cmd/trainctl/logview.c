/* logview: see logview.h. */
#include "cmd/trainctl/logview.h"

#include "base/grow.h"
#include "screen/line.h"
#include "screen/text.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAIL_BYTES (256 << 10) /* as much of the end of the file is shown */
#define KEY_ESCAPE 27

struct logview {
	char *path, *id;
	char *text; /* the end of the file, in whole lines, without what the terminal can't show */
	size_t bytes;
	struct stat seen; /* the file when it was read */
	struct {
		const char *at;
		size_t len;
	} * row; /* text, folded to width */
	size_t rows, room, width;
	size_t first; /* row that is on top */
	int follow;   /* the newest line stays in sight */
};

void logview_close(struct logview *v)
{
	if (!v)
		return;
	free(v->row);
	free(v->text);
	free(v->path);
	free(v->id);
	free(v);
}

struct logview *logview_open(const char *path, const char *id)
{
	struct logview *v = calloc(1, sizeof *v);
	if (!v)
		return NULL;
	v->path = strdup(path);
	v->id = strdup(id);
	v->follow = 1;
	v->seen.st_size = -1;
	if (v->path && v->id)
		return v;
	logview_close(v);
	return NULL;
}

/* ---- the file ---- */

static int is_new(const struct logview *v, const struct stat *now)
{
	return v->seen.st_size != now->st_size || v->seen.st_ino != now->st_ino ||
	       v->seen.st_mtim.tv_sec != now->st_mtim.tv_sec ||
	       v->seen.st_mtim.tv_nsec != now->st_mtim.tv_nsec;
}

/* text, cleaned line by line. */
static char *clean(char *text)
{
	size_t bytes = strlen(text);
	char *out = malloc(bytes + 1), *at = out;
	for (char *line = text, *end; out && *line; line = end) {
		end = line + strcspn(line, "\n");
		int ended = *end == '\n';
		*end = '\0';
		for (char *p = line; *p; p++)
			if (*p == '\t')
				*p = ' ';
		text_clean(line, at, (size_t)(out + bytes + 1 - at));
		at += strlen(at);
		if (ended) {
			*at++ = '\n';
			end++;
		}
	}
	if (out)
		*at = '\0';
	return out;
}

static char *read_tail(const char *path, off_t size)
{
	off_t from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
	char *text = malloc(TAIL_BYTES + 1), *cleaned;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 && text ? pread(fd, text, TAIL_BYTES, from) : -1;
	if (fd >= 0)
		close(fd);
	if (n < 0) {
		free(text);
		return NULL;
	}
	for (ssize_t i = 0; i < n; i++)
		if (text[i] == '\0')
			text[i] = '?';
	text[n] = '\0';
	char *line = from > 0 && strchr(text, '\n') ? strchr(text, '\n') + 1 : text;
	cleaned = clean(line);
	free(text);
	return cleaned;
}

static void take(struct logview *v, char *text)
{
	free(v->text);
	v->text = text;
	v->bytes = strlen(text);
	v->width = 0; /* to be folded */
}

static void say(struct logview *v, const char *what)
{
	char text[512];
	snprintf(text, sizeof text, "%s", what);
	char *copy = strdup(text);
	if (copy)
		take(v, copy);
}

static void look(struct logview *v)
{
	struct stat now;
	if (stat(v->path, &now) != 0) {
		if (!v->text || v->seen.st_size >= 0)
			say(v, errno == ENOENT ? "no log yet" : strerror(errno));
		v->seen.st_size = -1;
		return;
	}
	if (!is_new(v, &now))
		return;
	v->seen = now;
	char *text = read_tail(v->path, now.st_size);
	if (!text)
		say(v, strerror(errno));
	else
		take(v, text);
	if (v->bytes == 0)
		say(v, "the log is empty");
}

/* ---- the screen ---- */

static void add_row(struct logview *v, const char *at, size_t len)
{
	if (GROW(v->row, v->room, v->rows + 1) != 0)
		return;
	v->row[v->rows].at = at;
	v->row[v->rows++].len = len;
}

static void fold(struct logview *v, size_t width)
{
	char *line = v->text, *end;
	v->rows = 0;
	v->width = width;
	for (; line && *line; line = end) {
		const char *p = line, *next;
		end = line + strcspn(line, "\n");
		int ended = *end == '\n';
		*end = '\0';
		do {
			size_t n = text_fold(p, width, &next);
			add_row(v, p, n);
			p = next;
		} while (*p);
		if (ended)
			*end++ = '\n';
	}
}

static void put_piece(int y, const struct piece *piece, size_t count, size_t width, attr_t how)
{
	char text[SCREEN_LINE_MAX];
	line_fit(piece, count, width, text, sizeof text);
	attrset((int)(how));
	mvaddstr(y, 0, text);
	attrset(A_NORMAL);
}

static size_t height(void)
{
	int lines = getmaxy(stdscr) - 2; /* a head and a foot */
	return lines > 0 ? (size_t)lines : 1;
}

/* No empty screen behind the end. */
static void keep_in(struct logview *v)
{
	size_t last = v->rows > height() ? v->rows - height() : 0;
	if (v->follow || v->first >= last)
		v->first = last;
}

void logview_draw(struct logview *v)
{
	size_t width = (size_t)getmaxx(stdscr);
	char name[SCREEN_LINE_MAX];
	look(v);
	if (v->width != width)
		fold(v, width);
	keep_in(v);
	text_name(v->path, width > 20 ? width - 10 : width, name, sizeof name);
	const struct piece head[] = {PIECE(v->id), PIECE(name)};
	const struct piece foot[] = {
		PIECE("q back"), PIECE(v->follow ? "newest line" : "End newest line"),
		PIECE("arrows, PgUp, PgDn move", "arrows move"), PIECE("g first line")};
	put_piece(0, head, 2, width, A_BOLD);
	for (size_t i = 0; i < height() && v->first + i < v->rows; i++)
		mvaddnstr((int)i + 1, 0, v->row[v->first + i].at, (int)v->row[v->first + i].len);
	put_piece(getmaxy(stdscr) - 1, foot, sizeof foot / sizeof *foot, width, A_NORMAL);
}

static void move_by(struct logview *v, long rows)
{
	long first = (long)v->first + rows;
	v->first = first > 0 ? (size_t)first : 0;
	v->follow = rows > 0 && v->first + height() >= v->rows;
}

int logview_key(struct logview *v, int key)
{
	long page = (long)height() > 1 ? (long)height() - 1 : 1;
	switch (key) {
	case 'q':
	case 'Q':
	case 'l':
	case KEY_ESCAPE:
	case KEY_LEFT:
		return 0;
	case 'k':
	case KEY_UP:
		move_by(v, -1);
		return 1;
	case 'j':
	case KEY_DOWN:
	case '\r':
	case '\n':
	case KEY_ENTER:
		move_by(v, 1);
		return 1;
	case 'b':
	case KEY_PPAGE:
		move_by(v, -page);
		return 1;
	case ' ':
	case KEY_NPAGE:
		move_by(v, page);
		return 1;
	case 'g':
	case KEY_HOME:
		move_by(v, -(long)v->first);
		return 1;
	case 'G':
	case KEY_END:
		v->follow = 1;
		return 1;
	default:
		return 1;
	}
}

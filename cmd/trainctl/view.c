/* A job's state on standard output, for people: status and top, once; how a job ended. */
#include "cmd/trainctl.h"
#include "cmd/trainctl/terminal.h"
#include "base/clock.h"
#include "screen/summary.h"
#include "screen/text.h"
#include "screen/view.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define END_SECONDS 2.0 /* a job writes its last line behind its last answer */

void trainctl_show_view(struct view *v)
{
	struct screen_line line[VIEW_HEAD_MAX];
	struct grid table;
	size_t layout[GRID_MAX], width = terminal_width();
	/* A bar as wide as a file would take is no help. */
	size_t head_width = terminal_width() == SCREEN_WIDTH_MAX ? 100 : width;
	size_t count = view_head(v, head_width, text_has_blocks(), 0, line);
	for (size_t i = 0; i < count; i++)
		terminal_put(&line[i]);
	if (v->checkpoint[0])
		printf("checkpoint %s\n", v->checkpoint);
	putchar('\n');
	view_table(v, &table);
	grid_layout(&table, width, layout);
	line[0] = (struct screen_line){.tint = TINT_HEAD};
	grid_line(&table, layout, GRID_HEAD, line[0].text, sizeof line[0].text);
	line[0].len = strlen(line[0].text);
	terminal_put(&line[0]);
	for (size_t i = 0; i < table.rows; i++) {
		view_row(v, &table, layout, i, &line[0]);
		terminal_put(&line[0]);
	}
	grid_free(&table);
}

/* The last line of a log, when it is a whole one and a summary. */
static int last_summary(const char *path, struct record *r)
{
	static char text[2 * RECORD_LINE_MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC), found = -1;
	off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
	off_t most = (off_t)sizeof text - 1, from = size > most ? size - most : 0;
	ssize_t n = fd >= 0 ? pread(fd, text, (size_t)most, from) : 0;
	if (fd >= 0)
		close(fd);
	if (n < 2 || text[n - 1] != '\n')
		return -1;
	text[n - 1] = '\0';
	char *line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	size_t len = strlen(line);
	line[len++] = '\n';
	if (record_first(r, line, len, NULL) == 0 && record_is(r, "summary"))
		found = 0;
	return found;
}

void trainctl_show_end(const struct view *v)
{
	struct screen_line line[SUMMARY_LINES];
	static struct record r;
	char path[sizeof v->state_dir + 16];
	double until = clock_mono() + END_SECONDS;
	int found;
	snprintf(path, sizeof path, "%s/job.log", v->state_dir);
	while ((found = last_summary(path, &r)) != 0 && clock_mono() < until)
		clock_sleep(0.05);
	if (found != 0) {
		printf("%s: its trainctl is gone; `trainctl run` goes on with the job\n", v->name);
		return;
	}
	size_t count = summary_lines(&r, terminal_width(), line);
	for (size_t i = 0; i < count; i++)
		terminal_put(&line[i]);
}

/* trainctl top: the nodes of a job that runs as a table: drawn again and again on a terminal, once
 * anywhere else. It only asks `status`. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "run/show.h"
#include "wire/call.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ANSWER_SECONDS 10.0

static const struct {
	const char *key, *head;
	int width;
	int measured; /* a number of which four digits are enough */
} columns[] = {
	{"id", "ID", 11, 0},      {"state", "STATE", 8, 0},       {"size", "SIZE", 7, 0},
	{"accum", "ACCUM", 5, 0}, {"time", "BPT", 9, 1},          {"speed", "SPEED", 8, 1},
	{"ratio", "RATIO", 6, 1}, {"restarts", "RESTARTS", 8, 0}, {"told", "LAST TOLD", 0, 0}};

static const char *value(const struct record *r, const char *key)
{
	const char *text = record_get(r, key);
	return text && text[0] ? text : "-";
}

static void put_age(FILE *out, const struct record *r, const char *key)
{
	char text[32];
	double age;
	if (record_real(r, key, 0, 1e300, &age, NULL) != 0)
		return;
	show_time(age, text, sizeof text);
	fprintf(out, ", %s ago", text);
}

static void put_job(FILE *out, const struct record *r)
{
	fprintf(out, "%s: %s, epoch %s of %s, step %s, %s of %s samples, %s samples/s, loss %s\n",
		value(r, "name"), value(r, "state"), value(r, "epoch"), value(r, "epochs"),
		value(r, "iteration"), value(r, "samples-done"), value(r, "samples"),
		value(r, "samples-per-second"), value(r, "loss"));
	fprintf(out, "last decision: %s", value(r, "decision"));
	put_age(out, r, "decision-age");
	fputs("\n\n", out);
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
		fprintf(out, "%-*s ", columns[i].width, columns[i].head);
	fputc('\n', out);
}

/* As many of four digits as fit: a number that is cut off would be another one. */
static void brief_number(double number, int width, char *text, size_t max)
{
	int digits = 4;
	if (snprintf(text, max, "%.0f", number) <= width && number >= 1e4)
		return;
	while (snprintf(text, max, "%.*g", digits, number) > width && digits > 1)
		digits--;
}

static void put_node(FILE *out, const struct record *r)
{
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
		const char *text = value(r, columns[i].key);
		char brief[64];
		double number;
		if (columns[i].measured &&
		    record_real(r, columns[i].key, 0, 1e300, &number, NULL) == 0) {
			brief_number(number, columns[i].width, brief, sizeof brief);
			text = brief;
		}
		if (columns[i].width > 0)
			fprintf(out, "%-*.*s ", columns[i].width, columns[i].width, text);
		else
			fputs(text, out);
	}
	put_age(out, r, "told-age");
	fputc('\n', out);
}

static void put_record(const struct record *r, void *arg)
{
	if (record_is(r, "job"))
		put_job(arg, r);
	else if (record_is(r, "node"))
		put_node(arg, r);
}

/* The whole table as text, to be freed. */
static char *table(const char *socket, struct error *err)
{
	static struct record closing;
	struct call *c;
	char *text = NULL;
	size_t len;
	if (call_open(&c, socket, 0, ANSWER_SECONDS, err) != 0)
		return NULL;
	FILE *out = open_memstream(&text, &len);
	int result = out ? call_request(c, "status\n", 7, &closing, put_record, out, err)
			 : error_set(err, ERROR_OS, socket, "out of memory");
	call_close(c);
	if (out && fclose(out) != 0 && result == CALL_OK)
		result = error_set(err, ERROR_OS, socket, "out of memory");
	if (result == CALL_OK)
		return text;
	if (result == CALL_ERR)
		error_set(err, ERROR_NEGATIVE, socket, "%s",
			  closing.text ? closing.text : "refused");
	free(text);
	return NULL;
}

/* Over what stood there; long lines are cut. */
static void draw(const char *text)
{
	struct winsize size;
	size_t width = 79, height = 24, line = 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10 && size.ws_row > 3) {
		width = size.ws_col;
		height = size.ws_row;
	}
	fputs("\033[H", stdout);
	for (const char *p = text; *p && ++line < height;) {
		size_t n = strcspn(p, "\n");
		printf("%.*s\033[K\n", (int)(n < width ? n : width), p);
		p += n + (p[n] == '\n');
	}
	fputs("\033[J", stdout);
	fflush(stdout);
}

/* Until the job is gone, which is its end and no failure, or the reader says q (with enter). */
static int refresh(const char *socket, double every, struct error *err)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char *text = table(socket, err);
	if (!text)
		return -1;
	fputs("\033[2J", stdout);
	while (text) {
		draw(text);
		free(text);
		if (poll(&in, 1, (int)(every * 1000)) > 0) {
			char word[64];
			ssize_t n = read(STDIN_FILENO, word, sizeof word);
			if (n > 0 && word[0] == 'q')
				return 0;
			if (n <= 0)
				in.fd = -1; /* nobody types: only the clock counts */
		}
		text = table(socket, err);
	}
	return err->code == ERROR_UNAVAILABLE ? 0 : -1;
}

int trainctl_top(int argc, char **argv)
{
	const char *job = NULL, *run_dir = NULL, *none;
	double every = 1;
	char socket[DIRS_PATH_MAX];
	const struct option_row rows[] = {TRAINCTL_ROW_JOB(&job),
					  TRAINCTL_ROW_RUN_DIR(&run_dir, "the job's run directory"),
					  {.name = "every", .letter = 'i', .kind = OPTION_SECONDS,
					   .target = &every, .arg = "S",
					   .help = "seconds between two tables on a terminal",
					   .min = 0.1, .max = 3600},
					  {0}};
	const struct option_table options = {
		PROGRAM " top", "-j NAME | --run-dir DIR [-i SECONDS]",
		"Shows the nodes of a running job as a table, again and again on a terminal (q "
		"and enter ends it), once elsewhere.",
		rows, NULL};
	struct error err;
	int shown = trainctl_parse(&options, argc, argv, NULL, &none, &err);
	if (shown == OPTION_SHOWN)
		return 0;
	if (shown != OPTION_GO || trainctl_socket(job, run_dir, socket, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	if (isatty(STDOUT_FILENO))
		return refresh(socket, every, &err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
	char *text = table(socket, &err);
	if (!text)
		return cmd_fail(PROGRAM, &err);
	fputs(text, stdout);
	free(text);
	return 0;
}

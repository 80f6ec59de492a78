/* said: see said.h. */
#include "run/said.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

#define FRAME_MAX 120

enum said_block {
	SAID_PLAIN,
	SAID_EXCEPTION, /* outermost frame first, then what was raised */
	SAID_STACK      /* innermost frame first */
};

struct said {
	enum said_block in;
	enum said_block block; /* the last one */
	int is_current;        /* the stack is of the thread that got the signal */
	char what[SAID_MAX], last[SAID_MAX]; /* what was raised; the last line of other kinds */
	int is_of_kit; /* that is a program's of the kit */
	int is_fatal;  /* it was a signal, which the end has, too */
	/* Of the last block that counts; `own`: in a file of the user's. */
	char inner[FRAME_MAX], own[FRAME_MAX];
};

static int said_begins(const char *line, const char *with)
{
	return strncmp(line, with, strlen(with)) == 0;
}

/* Of Python, of its packages, or of the kit. */
static int is_of_others(const char *path, size_t len)
{
	static const char *const parts[] = {"/lib/python", "/site-packages/", "/dist-packages/",
					    "/paceline.py"};
	char text[1024];
	snprintf(text, sizeof text, "%.*s", (int)len, path);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (strstr(text, parts[i]))
			return 1;
	return text[0] == '<';
}

/* `  File "/a/train.py", line 12, in f`, as "f (train.py:12)". */
static void said_frame(struct said *s, const char *line)
{
	const char *path = line + strlen("  File \""), *end = strchr(path, '"');
	char file[64], number[16] = "", function[48] = "", text[FRAME_MAX];
	if (!end || sscanf(end, "\", line %15[0-9]", number) != 1)
		return;
	const char *in = strstr(end, " in ");
	snprintf(function, sizeof function, "%.47s", in ? in + strlen(" in ") : "");
	const char *slash = memrchr(path, '/', (size_t)(end - path)), *name = slash ? slash + 1 : path;
	snprintf(file, sizeof file, "%.*s", (int)(end - name), name);
	int is_named = function[0] && function[0] != '<';
	snprintf(text, sizeof text, "%s%s%s:%s%s", is_named ? function : "", is_named ? " (" : "",
		 file, number, is_named ? ")" : "");
	int is_first = s->in == SAID_EXCEPTION || !s->inner[0];
	if (is_first)
		memcpy(s->inner, text, sizeof text);
	if (!is_of_others(path, (size_t)(end - path)) && (s->in == SAID_EXCEPTION || !s->own[0]))
		memcpy(s->own, text, sizeof text);
}

static void said_begin(struct said *s, enum said_block block)
{
	s->in = s->block = block;
	s->inner[0] = s->own[0] = '\0';
}

/* What is neither a frame nor the head of a block. */
static void said_other(struct said *s, const char *line)
{
	static const char fatal[] = "Fatal Python error: ", agent[] = "agent: ", lead[] = "ps-server: ";
	const char *by = said_begins(line, agent) ? agent : said_begins(line, lead) ? lead : "";
	if (s->in == SAID_EXCEPTION && line[0] != ' ') {
		snprintf(s->what, sizeof s->what, "%s", line);
		s->is_fatal = 0;
		s->in = SAID_PLAIN;
	} else if (said_begins(line, fatal)) {
		snprintf(s->what, sizeof s->what, "%s", line + strlen(fatal));
		s->is_fatal = 1;
		said_begin(s, SAID_PLAIN);
		s->is_current = 0;
	} else if (line[0] != ' ' && !said_begins(line, "spent id=") &&
		   !said_begins(line, "trainctl: ") && !strstr(line, "the trainer ended: ")) {
		s->is_of_kit = by[0] != '\0';
		snprintf(s->last, sizeof s->last, "%s", line + strlen(by));
	}
	if (s->in == SAID_STACK && line[0] != ' ')
		s->in = SAID_PLAIN;
}

static void said_line(struct said *s, const char *line)
{
	static const char recent[] = "(most recent call first):";
	int is_stack = strstr(line, recent) != NULL;
	int is_current = is_stack && said_begins(line, "Current thread ");
	if (said_begins(line, "Traceback (most recent call last):")) {
		said_begin(s, SAID_EXCEPTION);
		s->is_current = 0;
	} else if (is_current || (is_stack && !s->is_current && said_begins(line, "Thread "))) {
		said_begin(s, SAID_STACK); /* the main thread's comes last */
		s->is_current = is_current;
	} else if (s->in != SAID_PLAIN && said_begins(line, "  File \"")) {
		said_frame(s, line);
	} else {
		said_other(s, line);
	}
}

static struct said said_read(char *text)
{
	struct said s = {0};
	char *save = NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		said_line(&s, line);
	return s;
}

void said_end(char *text, char out[SAID_MAX])
{
	struct said s = said_read(text);
	const char *place = s.own[0] ? s.own : s.inner;
	int most = SAID_MAX - FRAME_MAX - 8;
	if (!s.what[0])
		snprintf(out, SAID_MAX, "%s%.*s", s.last[0] && !s.is_of_kit ? "last line: " : "",
			 SAID_MAX - 16, s.last);
	else if (s.is_fatal && place[0])
		snprintf(out, SAID_MAX, "in %s", place);
	else if (place[0])
		snprintf(out, SAID_MAX, "%.*s%s, in %s", most, s.what,
			 strlen(s.what) > (size_t)most ? "..." : "", place);
	else
		snprintf(out, SAID_MAX, "%s", s.what);
	error_plain(out);
}

void said_stack(char *text, char out[SAID_MAX])
{
	struct said s = said_read(text);
	int both = s.own[0] && strcmp(s.own, s.inner) != 0;
	out[0] = '\0';
	if (s.block == SAID_STACK)
		snprintf(out, SAID_MAX, "%s%s%s", s.inner, both ? ", called from " : "",
			 both ? s.own : "");
	error_plain(out);
}

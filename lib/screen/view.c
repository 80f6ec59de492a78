/* view: see view.h. */
#include "screen/view.h"

#include "base/grow.h"
#include "base/human.h"
#include "screen/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECISION_LINES 2
#define SILENT_SECONDS 2.0 /* from which on a node's silence is told */
#define EVEN 1.1           /* times the mean: less is no difference */
#define SLOW 1.3           /* times the mean: marked */
#define SAVES 0.01         /* of the job's time: less that FABRIC saves is not told */

void view_init(struct view *v)
{
	*v = (struct view){.fabric_saves = NAN,
			   .reported_age = NAN,
			   .decision_age = NAN,
			   .failure_age = NAN,
			   .brain_age = NAN,
			   .link_age = NAN,
			   .up = NAN,
			   .link_rate = NAN};
	course_init(&v->course);
}

void view_free(struct view *v)
{
	free(v->node);
	view_init(v);
}

static void view_take_text(const struct record *r, const char *key, char *out, size_t max)
{
	const char *text = record_get(r, key);
	text_clean(text ? text : "", out, max);
}

static double take_real(const struct record *r, const char *key)
{
	double value;
	return record_real(r, key, 0, 1e300, &value, NULL) == 0 ? value : NAN;
}

/* A path is opened, not only shown. */
static void take_path(const struct record *r, const char *key, char *out, size_t max)
{
	const char *text = record_get(r, key);
	snprintf(out, max, "%s", text ? text : "");
}

static void take_job(struct view *v, const struct record *r)
{
	course_take(&v->course, r);
	view_take_text(r, "name", v->name, sizeof v->name);
	view_take_text(r, "reported", v->reported, sizeof v->reported);
	v->reported_age = take_real(r, "reported-age");
	view_take_text(r, "decision", v->decision, sizeof v->decision);
	take_path(r, "state-dir", v->state_dir, sizeof v->state_dir);
	take_path(r, "checkpoint", v->checkpoint, sizeof v->checkpoint);
	v->in_memory = take_real(r, "checkpoint-in-memory");
	view_take_text(r, "brain", v->brain, sizeof v->brain);
	v->brain_age = take_real(r, "brain-age");
	v->decision_age = take_real(r, "decision-age");
	view_take_text(r, "failure", v->failure, sizeof v->failure);
	v->failure_age = take_real(r, "failure-age");
	v->up = take_real(r, "up");
	view_take_text(r, "fabric", v->fabric, sizeof v->fabric);
	v->fabric_saves = take_real(r, "fabric-saves");
}

/* Of the slowest worker the job record says only the name. */
static void note_slowest(struct view *v, const struct view_node *n)
{
	struct course *c = &v->course;
	if (strcmp(n->role, "worker") != 0 || strcmp(n->id, c->slowest) != 0)
		return;
	memcpy(c->why, n->why, sizeof c->why);
	memcpy(c->told, n->told, sizeof c->told);
	c->told_age = n->told_age;
}

static void view_take_node(struct view *v, const struct record *r)
{
	if (GROW(v->node, v->room, v->nodes + 1) != 0) {
		v->failed = 1;
		return;
	}
	struct view_node *n = &v->node[v->nodes];
	*n = (struct view_node){.place = v->nodes++};
	view_take_text(r, "role", n->role, sizeof n->role);
	view_take_text(r, "id", n->id, sizeof n->id);
	view_take_text(r, "state", n->state, sizeof n->state);
	view_take_text(r, "host", n->host, sizeof n->host);
	view_take_text(r, "section", n->section, sizeof n->section);
	view_take_text(r, "told", n->told, sizeof n->told);
	view_take_text(r, "why", n->why, sizeof n->why);
	n->pid = take_real(r, "pid");
	n->restarts = take_real(r, "restarts");
	n->size = take_real(r, "size");
	n->accum = take_real(r, "accum");
	n->time = take_real(r, "time");
	n->speed = take_real(r, "speed");
	n->ratio = take_real(r, "ratio");
	n->told_age = take_real(r, "told-age");
	n->silent = take_real(r, "silent");
	note_slowest(v, n);
}

/* "at least 2.0 MiB/s out (1.2 MiB/s free)"; "": not known */
static double say_link(const struct record *r, const char *way, char *out, size_t max)
{
	char key[16], rate[HUMAN_MAX], free_rate[HUMAN_MAX];
	double value = take_real(r, way);
	snprintf(key, sizeof key, "%s-least", way);
	int is_least = take_real(r, key) > 0;
	snprintf(key, sizeof key, "%s-free", way);
	snprintf(out, max, "%s%s/s %s (%s/s free)", is_least ? "at least " : "",
		 human_bytes(value, rate), way, human_bytes(take_real(r, key), free_rate));
	if (isnan(value))
		out[0] = '\0';
	return value;
}

/* Beside a slow link, one direction of others looks slow, too: the faster one says how fast a link is. */
static void view_take_host(struct view *v, const struct record *r)
{
	char out[96], in[96], name[64];
	double rate = fmax(say_link(r, "out", out, sizeof out), say_link(r, "in", in, sizeof in));
	v->hosts++;
	if (isnan(rate) || rate >= v->link_rate)
		return;
	v->link_rate = rate;
	v->link_age = fmin(take_real(r, "out-age"), take_real(r, "in-age"));
	view_take_text(r, "name", name, sizeof name);
	snprintf(v->link, sizeof v->link, "%s has the slowest link: %s%s%s", name, out,
		 out[0] && in[0] ? ", " : "", in);
}

void view_take(struct view *v, const struct record *r)
{
	if (record_is(r, "job"))
		take_job(v, r);
	else if (record_is(r, "host"))
		view_take_host(v, r);
	else if (record_is(r, "node"))
		view_take_node(v, r);
}

/* ---- order ---- */

const char *const view_order_name[VIEW_ORDERS] = {"slow",  "node", "time",
						  "speed", "size", "restarts"};

static int view_is_up(const struct view_node *n)
{
	return strcmp(n->state, "up") == 0;
}

/* What is greater stands first; not known is last. */
static double view_weight(const struct view_node *n, enum view_order order)
{
	switch (order) {
	case VIEW_SLOW:
		if (!view_is_up(n))
			return INFINITY;
		if (strcmp(n->role, "worker") != 0)
			return NAN;
		/* Those that differ by little keep their places. */
		return n->ratio < EVEN ? 1 : round(10 * n->ratio);
	case VIEW_TIME:
		return n->time;
	case VIEW_SPEED:
		return n->speed;
	case VIEW_SIZE:
		return n->size;
	case VIEW_RESTARTS:
		return n->restarts;
	case VIEW_NODE:
	case VIEW_ORDERS:
		break;
	}
	return NAN;
}

struct sorted {
	double weight;
	struct view_node node;
};

static int view_compare(const void *a, const void *b)
{
	const struct sorted *p = a, *q = b;
	int known = !isnan(p->weight) - !isnan(q->weight);
	if (known != 0)
		return -known;
	if (p->weight > q->weight || p->weight < q->weight)
		return p->weight > q->weight ? -1 : 1;
	return (p->node.place > q->node.place) - (p->node.place < q->node.place);
}

void view_sort(struct view *v, enum view_order order, int reverse)
{
	struct sorted *all = calloc(v->nodes + 1, sizeof *all);
	if (!all) {
		v->failed = 1;
		return;
	}
	for (size_t i = 0; i < v->nodes; i++)
		all[i] = (struct sorted){view_weight(&v->node[i], order), v->node[i]};
	qsort(all, v->nodes, sizeof *all, view_compare);
	for (size_t i = 0; i < v->nodes; i++)
		v->node[reverse ? v->nodes - 1 - i : i] = all[i].node;
	free(all);
}

/* ---- above the table ---- */

static void tint(struct screen_line *line, enum screen_tint how, size_t from, size_t len)
{
	line->tint = how;
	line->from = from;
	line->len = len;
}

/* "FABRIC=plain: mlfabric would have saved 3 min"; in brief without what it saves. */
static void say_fabric(const struct view *v, char *out, size_t max, char *brief, size_t brief_max)
{
	char time[HUMAN_MAX];
	int is_plain = strcmp(v->fabric, "plain") == 0;
	snprintf(brief, brief_max, "%s%s", v->fabric[0] ? "FABRIC=" : "", v->fabric);
	snprintf(out, max, "%s", brief);
	if (v->fabric[0] && v->fabric_saves > SAVES * v->up)
		snprintf(out, max, "%s%s %s", brief,
			 is_plain ? ": mlfabric would have saved" : ", which saved",
			 human_wait(v->fabric_saves, time));
}

static void title(const struct view *v, size_t width, double silent, struct screen_line *line)
{
	char up[64] = "", name[SCREEN_LINE_MAX], dead[64], dead_brief[64], age[HUMAN_MAX];
	char fabric[96], fabric_brief[32];
	const char *state = course_state(v->course.state);
	if (!isnan(v->up))
		snprintf(up, sizeof up, "for %s", human_wait(v->up, age));
	text_name(v->name, width, name, sizeof name);
	say_fabric(v, fabric, sizeof fabric, fabric_brief, sizeof fabric_brief);
	const struct piece piece[] = {PIECE(name), PIECE(state), PIECE(up),
				      PIECE(fabric, fabric_brief)};
	if (!(silent > 0)) {
		line_fit(piece, 4, width, line->text, sizeof line->text);
		tint(line, TINT_STRONG, 0, strlen(name));
		return;
	}
	human_wait(silent, age);
	snprintf(dead, sizeof dead, "trainctl has not answered for %s", age);
	snprintf(dead_brief, sizeof dead_brief, "no answer for %s", age);
	const struct piece gone[] = {PIECE(name), PIECE(dead, dead_brief)};
	line_fit(gone, 2, width, line->text, sizeof line->text);
	if (strlen(line->text) > strlen(name) + LINE_GAP)
		tint(line, TINT_BAD, strlen(name) + LINE_GAP,
		     strlen(line->text) - strlen(name) - LINE_GAP);
}

/* "decided 12 s ago: ..." */
static size_t said(const struct view *v, const char *verb, double age, const char *what,
		   size_t width, struct screen_line *line)
{
	char text[sizeof ((struct view *)0)->decision + 96], ago[64];
	size_t count = 0;
	if (!what[0] && !v->full)
		return 0;
	if (!what[0]) {
		*line = (struct screen_line){.tint = TINT_NONE};
		snprintf(line->text, sizeof line->text, "%s: nothing yet", verb);
		return 1;
	}
	course_ago(age, ago, sizeof ago);
	snprintf(text, sizeof text, "%s %s: %s", verb, ago, what);
	for (const char *p = text; *p && count < DECISION_LINES;) {
		const char *next;
		size_t n = text_fold(p, width, &next);
		if (count + 1 == DECISION_LINES)
			text_words(p, width, line[count].text, SCREEN_LINE_MAX);
		else
			snprintf(line[count].text, SCREEN_LINE_MAX, "%.*s", (int)n, p);
		tint(&line[count], TINT_NONE, 0, 0);
		count++;
		p = next;
	}
	return count;
}

size_t view_head(const struct view *v, size_t width, int blocks, double silent,
		 struct screen_line line[VIEW_HEAD_MAX])
{
	size_t count = 1;
	width = width < SCREEN_WIDTH_MAX ? width : SCREEN_WIDTH_MAX;
	title(v, width, silent, &line[0]);
	count += course_lines(&v->course, width, blocks, &line[count]);
	count += said(v, "reported", v->reported_age, v->reported, width, &line[count]);
	count += said(v, "decided", v->decision_age, v->decision, width, &line[count]);
	count += said(v, "failed", v->failure_age, v->failure, width, &line[count]);
	count += said(v, "brain", v->brain_age, v->brain, width, &line[count]);
	count += said(v, "measured", v->link_age, v->link, width, &line[count]);
	return count;
}

/* ---- the table ---- */

enum { NODE, STATE, HOST, RATIO, TIME, SPEED, SIZE, ACCUM, RESTARTS, SILENT, WHY, TOLD, PID, COLUMNS };
_Static_assert(COLUMNS <= GRID_MAX, "a table has room for all columns");

static const struct grid_column columns[COLUMNS] = {
	[NODE] = {"NODE", 0, GRID_LEFT, 4, 0, 0},
	[STATE] = {"STATE", 1, GRID_LEFT, 8, 0, 0},
	[HOST] = {"HOST", 9, GRID_LEFT, 4, 0, 0},
	[RATIO] = {"RATIO", 2, GRID_RIGHT, 5, 0, 0},
	[TIME] = {"TIME", 3, GRID_RIGHT, 6, 0, 0},
	[SPEED] = {"SPEED", 4, GRID_RIGHT, 5, 0, 0},
	[SIZE] = {"SIZE", 7, GRID_RIGHT, 5, 0, 0},
	[ACCUM] = {"ACCUM", 10, GRID_RIGHT, 5, 0, 0},
	[RESTARTS] = {"RESTARTS", 8, GRID_RIGHT, 8, 0, 0},
	[SILENT] = {"SILENT", 6, GRID_RIGHT, 6, 0, 0},
	[WHY] = {"WHY", 5, GRID_LEFT, 26, 1, 0},
	[TOLD] = {"LAST ACTION", 11, GRID_LEFT, 18, 1, 0},
	[PID] = {"PID", 12, GRID_RIGHT, 7, 0, 0},
};

static const char *say_whole(double x, char out[HUMAN_MAX])
{
	snprintf(out, HUMAN_MAX, isnan(x) ? "-" : "%.0f", x);
	return out;
}

/* What is wrong with it, or slows it. */
static void say_why(const struct view_node *n, char *out, size_t max)
{
	char time[HUMAN_MAX];
	out[0] = '\0';
	if (n->section[0] && n->silent >= SILENT_SECONDS)
		snprintf(out, max, "silent for %s (%s)", human_wait(n->silent, time), n->section);
	else if (n->why[0])
		snprintf(out, max, "%s", n->why);
}

static void say_told(const struct view_node *n, char *out, size_t max)
{
	char ago[64];
	out[0] = '\0';
	if (!n->told[0])
		return;
	course_ago(n->told_age, ago, sizeof ago);
	snprintf(out, max, "%s, %s", n->told, ago);
}

void view_table(const struct view *v, struct grid *t)
{
	grid_init(t, columns, COLUMNS);
	for (size_t i = 0; i < v->nodes; i++) {
		const struct view_node *n = &v->node[i];
		char ratio[HUMAN_MAX], time[HUMAN_MAX], speed[HUMAN_MAX], size[HUMAN_MAX];
		char accum[HUMAN_MAX], restarts[HUMAN_MAX], pid[HUMAN_MAX], why[256], told[256];
		char silent[HUMAN_MAX];
		say_why(n, why, sizeof why);
		say_told(n, told, sizeof told);
		const char *const cell[COLUMNS] = {
			[NODE] = n->id,
			[STATE] = n->state,
			[HOST] = n->host[0] ? n->host : "-",
			[RATIO] = human_real(n->ratio, 2, ratio),
			[TIME] = human_time_brief(n->time, time),
			[SPEED] = human_count(n->speed, speed),
			[SIZE] = say_whole(n->size, size),
			[ACCUM] = say_whole(n->accum, accum),
			[RESTARTS] = say_whole(n->restarts, restarts),
			[SILENT] = human_time_brief(floor(n->silent), silent),
			[WHY] = why,
			[TOLD] = told,
			[PID] = say_whole(n->pid, pid)};
		grid_add(t, cell);
	}
}

void view_row(const struct view *v, const struct grid *t, const size_t layout[GRID_MAX], size_t row,
	      struct screen_line *line)
{
	const struct view_node *n = &v->node[row];
	size_t at, width;
	grid_line(t, layout, row, line->text, sizeof line->text);
	tint(line, TINT_NONE, 0, 0);
	size_t column = !view_is_up(n) ? STATE : RATIO;
	if ((view_is_up(n) && !(n->ratio >= SLOW)) ||
	    grid_place(t, layout, column, &at, &width) != 0)
		return;
	/* In front of it and in it are ids and numbers, of a byte a column. */
	size_t len = strlen(line->text);
	at = at < len ? at : len;
	tint(line, view_is_up(n) ? TINT_SLOW : TINT_BAD, at, at + width < len ? width : len - at);
}

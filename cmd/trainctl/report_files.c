/* report: as files: one HTML file with its pictures in it, or the pictures alone. gnuplot(1) draws
 * them, as a program; what it does not get through is said, and nothing is left half done. */
#include "cmd/trainctl/report.h"

#include "base/fs.h"
#include "base/human.h"
#include "base/number.h"
#include "base/utf8.h"
#include "base/version.h"
#include "proc/child.h"
#include "proc/process.h"

#include <event2/event.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define WIDTH 960
#define PICTURE_BYTES_MAX (32u << 20)
#define ROWS_MAX 200 /* of a table */

/* ---- gnuplot ---- */

struct drawing {
	char *data;
	size_t bytes;
	char why[160]; /* it failed; "": it did not */
};

static void on_end(const struct node_end *end, enum child_cut cut, const char *output, size_t bytes,
		   void *arg)
{
	struct drawing *d = arg;
	if (cut == CHILD_LATE)
		snprintf(d->why, sizeof d->why, "took longer than %g s", REPORT_GNUPLOT_SECONDS);
	else if (cut == CHILD_TALKS)
		snprintf(d->why, sizeof d->why, "drew more than %u MiB", PICTURE_BYTES_MAX >> 20);
	else if (end_class_of(end) != END_CLEAN)
		end_text(end, d->why, sizeof d->why);
	else if (bytes == 0)
		snprintf(d->why, sizeof d->why, "drew nothing");
	else if (!(d->data = malloc(bytes + 1)))
		snprintf(d->why, sizeof d->why, "out of memory");
	if (!d->data)
		return;
	memcpy(d->data, output, bytes);
	d->data[bytes] = '\0';
	d->bytes = bytes;
}

static int find_gnuplot(char path[PATH_MAX], struct error *err)
{
	if (process_find("gnuplot", getenv("PATH"), path, PATH_MAX, NULL) == 0)
		return 0;
	return error_set(err, ERROR_UNAVAILABLE, "gnuplot",
			 "not found, and the pictures need it (Debian: gnuplot-nox); without "
			 "--html and --png the report is text");
}

/* What script draws; to be freed. */
static int draw(const char *script, size_t bytes, struct drawing *out, struct error *err)
{
	char path[PATH_MAX];
	char *argv[] = {path, "-d", NULL}; /* nothing of the user's ~/.gnuplot */
	struct event_base *base = NULL;
	struct child *child;
	*out = (struct drawing){0};
	if (find_gnuplot(path, err) != 0)
		return -1;
	setenv("LC_CTYPE", "C.UTF-8",
	       1); /* what it gets is UTF-8, whatever the terminal's letters are */
	if (!(base = event_base_new()))
		return error_set(err, ERROR_OS, path, "out of memory");
	const struct child_options options = {.argv = argv,
					      .input = script,
					      .input_bytes = bytes,
					      .seconds = REPORT_GNUPLOT_SECONDS,
					      .output_bytes_max = PICTURE_BYTES_MAX,
					      .done = on_end,
					      .arg = out};
	int result = child_start(&child, base, &options, err);
	if (result == 0)
		event_base_dispatch(base); /* until it has ended */
	event_base_free(base);
	if (result == 0 && out->why[0])
		result = error_set(err, ERROR_UNAVAILABLE, path, "%s", out->why);
	return result;
}

/* ---- scripts ---- */

static void put_png_terminal(FILE *out, unsigned height)
{
	fprintf(out,
		"if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {\n"
		"set terminal pngcairo size %d,%u font 'sans,10' background '#FFFFFF'\n"
		"} else {\nset terminal png size %d,%u background '#FFFFFF'\n}\n",
		WIDTH, height, WIDTH, height);
}

static void put_svg_terminal(FILE *out, unsigned height)
{
	fprintf(out,
		"set terminal svg size %d,%u dynamic font 'sans-serif,12' background '#FFFFFF'\n",
		WIDTH, height);
}

static int draw_one(const struct report *p, enum picture what,
		    void (*put_terminal)(FILE *out, unsigned height), struct drawing *d,
		    struct error *err)
{
	char *script = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&script, &bytes);
	if (!out)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	put_terminal(out, picture_height(p, what));
	picture_script(p, what, "", out);
	int result = fclose(out) == 0 ? draw(script, bytes, d, err)
				      : error_set(err, ERROR_OS, NULL, "out of memory");
	free(script);
	return result;
}

/* All of them, one below the other. */
static int draw_all(const struct report *p, struct drawing *d, struct error *err)
{
	char *script = NULL, place[128];
	size_t bytes = 0;
	unsigned height = 0, at = 0;
	FILE *out = open_memstream(&script, &bytes);
	if (!out)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (int k = 0; k < PICTURES; k++)
		height += picture_has(p, (enum picture)k) ? picture_height(p, (enum picture)k) : 0;
	put_png_terminal(out, height);
	fputs("set multiplot\n", out);
	for (int k = 0; k < PICTURES; k++) {
		enum picture what = (enum picture)k;
		if (!picture_has(p, what))
			continue;
		at += picture_height(p, what);
		snprintf(place, sizeof place, "set origin 0,%.9f\nset size 1,%.9f\n",
			 1 - (double)at / height, (double)picture_height(p, what) / height);
		picture_script(p, what, place, out);
	}
	fputs("unset multiplot\n", out);
	int result = fclose(out) == 0 ? draw(script, bytes, d, err)
				      : error_set(err, ERROR_OS, NULL, "out of memory");
	free(script);
	return result;
}

static int any_picture(const struct report *p, struct error *err)
{
	for (int k = 0; k < PICTURES; k++)
		if (picture_has(p, (enum picture)k))
			return 0;
	return error_set(err, ERROR_NEGATIVE, p->path, "has nothing to draw yet");
}

/* ---- files ---- */

struct bytes {
	const char *data;
	size_t count;
};

static int fill(int fd, const char *path, void *arg, struct error *err)
{
	const struct bytes *b = arg;
	return fs_write_all(fd, b->data, b->count, path, err);
}

/* For others to read, if the user's umask lets them. */
static int put_file(const char *path, const char *data, size_t count, struct error *err)
{
	struct bytes b = {data, count};
	mode_t mask = umask(0);
	umask(mask);
	return fs_replace(path, 0666 & ~mask, fill, &b, err);
}

static int is_png(const char *path)
{
	size_t n = strlen(path);
	return n > 4 && strcmp(path + n - 4, ".png") == 0;
}

int report_png(const struct report *p, const char *path, struct error *err)
{
	struct drawing d;
	struct stat st;
	if (any_picture(p, err) != 0)
		return -1;
	if (is_png(path) && !(stat(path, &st) == 0 && S_ISDIR(st.st_mode))) {
		int result = draw_all(p, &d, err);
		if (result == 0)
			result = put_file(path, d.data, d.bytes, err);
		free(d.data);
		return result;
	}
	if (stat(path, &st) != 0 && mkdir(path, 0777) != 0)
		return error_errno(err, ERROR_CANTCREAT, path, "can't be made");
	for (int k = 0; k < PICTURES; k++) {
		char name[64], file[PATH_MAX];
		enum picture what = (enum picture)k;
		if (!picture_has(p, what))
			continue;
		snprintf(name, sizeof name, "%s.png", picture_name[k]);
		if (fs_join(file, sizeof file, path, name, err) != 0)
			return -1;
		int result = draw_one(p, what, put_png_terminal, &d, err);
		if (result == 0)
			result = put_file(file, d.data, d.bytes, err);
		free(d.data);
		if (result != 0)
			return -1;
	}
	return 0;
}

/* ---- HTML ---- */

static void put_html(FILE *out, const char *text)
{
	char plain[1024];
	snprintf(plain, sizeof plain, "%s", text);
	utf8_plain(plain);
	for (const char *c = plain; *c; c++)
		switch (*c) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		case '\'':
			fputs("&#39;", out);
			break;
		default:
			putc(*c, out);
		}
}

static void put_cell(FILE *out, const char *text, int number)
{
	fputs(number ? "<td class=\"n\">" : "<td>", out);
	put_html(out, text);
	fputs("</td>", out);
}

static void put_head(const struct report *p, FILE *out)
{
	char title[512];
	report_title(p, title, sizeof title);
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'\">\n<title>",
	      out);
	put_html(out, title);
	fputs("</title>\n<style>\n"
	      ":root{--text:#222;--page:#fff;--quiet:#666;--bad:#B00020;--line:#bbb;"
	      "--works:#0072B2;--lost:#D55E00}\n"
	      "body{font:15px/1.45 sans-serif;color:var(--text);background:var(--page);"
	      "margin:0 auto;padding:1em 1.2em;max-width:1000px;overflow-wrap:break-word}\n"
	      "h1{font-size:1.5em;margin:.4em 0 .1em}h2{font-size:1.15em;margin:1.8em 0 .4em}\n"
	      "p{margin:.3em 0}.quiet{color:var(--quiet)}.bad{color:var(--bad)}\n"
	      "table{border-collapse:collapse;margin:.4em 0}"
	      "th{text-align:left;font-weight:600;border-bottom:1px solid var(--line)}\n"
	      "td,th{padding:.15em .9em .15em 0;vertical-align:top}"
	      "td.n,th.n{text-align:right;white-space:nowrap}\n"
	      ".bar,.key{background:var(--works)}.lost{background:var(--lost)}\n"
	      ".bar{display:block;height:.8em;margin-top:.35em}td.wide{width:40%}\n"
	      ".key{display:inline-block;width:.8em;height:.8em;margin-right:.4em}\n"
	      "figure{margin:1.6em 0 0}.picture{overflow-x:auto}"
	      ".picture svg{width:100%;height:auto;display:block}\n"
	      "figcaption{color:var(--quiet);margin:.1em 0 0 1em}\n"
	      ".gantt svg{shape-rendering:crispEdges}\n"
	      /* What is wider than a telephone moves sideways by itself, in letters that can be
	       * read. */
	      "@media(max-width:700px){table{display:block;overflow-x:auto}td.wide{display:none}"
	      ".picture svg{width:720px}figcaption{margin-left:0}}\n"
	      "@media(prefers-color-scheme:dark){:root{--text:#ddd;--page:#15181b;--quiet:#9aa0a6;"
	      "--bad:#ff7b72;--line:#555;--works:#56B4E9;--lost:#E69F00}"
	      ".picture svg{filter:invert(.92) hue-rotate(180deg)}}\n"
	      "</style>\n</head>\n<body>\n<h1>",
	      out);
	put_html(out, title);
	fputs("</h1>\n", out);
}

static void put_job(const struct report *p, FILE *out)
{
	const struct account *a = p->a;
	char text[512];
	if (a->error) {
		fputs("<p class=\"bad\">", out);
		put_html(out, a->error);
		fputs("</p>\n", out);
	}
	fputs("<p>", out);
	report_subtitle(p, text, sizeof text);
	put_html(out, text);
	if (a->auc[0]) {
		snprintf(text, sizeof text, ". On TEST: AUC %.6s, log loss %.6s", a->auc,
			 a->logloss);
		put_html(out, text);
	}
	fputs(".</p>\n", out);
}

static void put_costs(const struct report *p, FILE *out)
{
	const struct cost *c = &p->cost;
	enum cost_kind kind[COST_KINDS];
	size_t count = report_costs(p, kind);
	char time[HUMAN_MAX], text[300];
	fputs("<h2>How long it took</h2>\n<table>\n<tr>", out);
	put_cell(out, human_time(c->seconds, time), 1);
	fputs("<td>with all that happened</td></tr>\n", out);
	double jct;
	if (number_real(p->a->jct, 0, c->seconds, &jct, NULL, NULL) == 0) {
		fputs("<tr>", out);
		put_cell(out, human_time(jct, time), 1);
		fputs("<td>of these, from the first shard to the last (jct)</td></tr>\n", out);
	}
	if (c->known) {
		snprintf(text, sizeof text, "without stragglers (%.2f times as fast)",
			 c->busy > 0 ? c->seconds / c->busy : 1);
		fputs("<tr>", out);
		put_cell(out, human_time(c->busy, time), 1);
		put_cell(out, text, 0);
		fputs("</tr>\n", out);
	}
	if (c->known && c->even < 0.98 * c->busy) {
		fputs("<tr>", out);
		put_cell(out, human_time(c->even, time), 1);
		fputs("<td>and with every worker as fast as the median one</td></tr>\n", out);
	}
	fputs("</table>\n<h2>Where the time went</h2>\n<table>\n", out);
	for (size_t i = 0; i < count; i++) {
		double part = c->of[kind[i]] / c->seconds;
		fputs("<tr>", out);
		put_cell(out, human_time(c->of[kind[i]], time), 1);
		snprintf(text, sizeof text, "%.1f%%", 100 * part);
		put_cell(out, text, 1);
		report_cost_words(p, kind[i], text, sizeof text);
		put_cell(out, text, 0);
		fprintf(out,
			"<td class=\"wide\"><span class=\"bar%s\" "
			"style=\"width:%.1f%%\"></span></td>"
			"</tr>\n",
			kind[i] == COST_TOGETHER ? "" : " lost", 100 * part);
	}
	fputs("</table>\n", out);
	if (c->known)
		fputs("<p class=\"quiet\"><span class=\"key\"></span>the workers train &nbsp; "
		      "<span class=\"key lost\"></span>time that is lost to anything else</p>\n",
		      out);
}

/* gnuplot's document without its head, and with a title that says what it is. */
static void put_svg(FILE *out, const char *svg, enum picture what)
{
	static const char title[] = "<title>Gnuplot</title>";
	const char *begin = strstr(svg, "<svg"), *at = begin ? strstr(begin, title) : NULL;
	if (!begin)
		return;
	if (!at) {
		fputs(begin, out);
		return;
	}
	fwrite(begin, 1, (size_t)(at - begin), out);
	fputs("<title>", out);
	put_html(out, picture_title[what]);
	fputs("</title>", out);
	fputs(at + sizeof title - 1, out);
}

static int put_pictures(const struct report *p, FILE *out, struct error *err)
{
	for (int k = 0; k < PICTURES; k++) {
		enum picture what = (enum picture)k;
		struct drawing d;
		if (!picture_has(p, what))
			continue;
		int result = draw_one(p, what, put_svg_terminal, &d, err);
		if (result == 0) {
			fprintf(out, "<figure class=\"%s\">\n<div class=\"picture\">\n",
				picture_name[k]);
			put_svg(out, d.data, what);
			fputs("</div>\n<figcaption>", out);
			put_html(out, picture_caption[k]);
			fputs("</figcaption>\n</figure>\n", out);
		}
		free(d.data);
		if (result != 0)
			return -1;
	}
	return 0;
}

static void put_workers(const struct report *p, FILE *out)
{
	size_t count;
	struct report_worker *list = report_workers(p, &count);
	char text[64];
	int collectives = 0, hosts = 0;
	for (size_t i = 0; i < count; i++) {
		collectives |= list[i].collective > 0;
		hosts |= list[i].node->host[0] != '\0';
	}
	if (count > 0)
		fputs("<h2>Workers</h2>\n<table>\n<tr><th></th><th class=\"n\">samples</th>"
		      "<th class=\"n\">batch size</th><th class=\"n\">batch time</th>"
		      "<th class=\"n\">samples/s</th><th class=\"n\">busy</th>"
		      "<th class=\"n\">waiting</th><th class=\"n\">restarts</th>",
		      out);
	if (collectives)
		fputs("<th class=\"n\">collective</th>", out);
	if (hosts)
		fputs("<th>host</th>", out);
	if (count > 0)
		fputs("</tr>\n", out);
	for (size_t i = 0; i < count && i < ROWS_MAX; i++) {
		const struct report_worker *w = &list[i];
		fputs("<tr>", out);
		put_cell(out, w->node->id, 0);
		put_cell(out, human_count(w->samples, text), 1);
		put_cell(out, human_count(w->batches > 0 ? w->samples / w->batches : NAN, text), 1);
		put_cell(out, human_time(w->batches > 0 ? w->time / w->batches : NAN, text), 1);
		put_cell(out, human_count(w->speed, text), 1);
		put_cell(out, human_percent(w->time / report_worker_seconds(w), text), 1);
		put_cell(out, human_percent(w->wait / report_worker_seconds(w), text), 1);
		snprintf(text, sizeof text, "%llu", (unsigned long long)w->node->restarts);
		put_cell(out, text, 1);
		if (collectives)
			put_cell(out, human_time(w->collective / fmax(w->batches, 1), text), 1);
		if (hosts)
			put_cell(out, w->node->host, 0);
		fputs("</tr>\n", out);
	}
	if (count > 0)
		fputs("</table>\n", out);
	if (count > ROWS_MAX)
		fprintf(out, "<p class=\"quiet\">and %zu more</p>\n", count - ROWS_MAX);
	free(list);
}

static void put_when(const struct report *p, double at, FILE *out)
{
	char time[HUMAN_MAX];
	put_cell(out, human_time(account_seconds_by(p->a, at), time), 1);
}

static void put_effect(const struct report *p, const struct effect *e, FILE *out)
{
	const struct account_mark *m = &p->a->mark[e->mark];
	char text[400], before[HUMAN_MAX], after[HUMAN_MAX], saved[HUMAN_MAX];
	fputs("<tr>", out);
	put_when(p, e->from, out);
	report_effect_words(p, e, text, sizeof text);
	fputs("<td>", out);
	put_html(out, text);
	if (m->reason) {
		fputs("<br><span class=\"quiet\">", out);
		put_html(out, m->reason);
		fputs("</span>", out);
	}
	fputs("</td>", out);
	if (isnan(e->saved)) {
		put_cell(out, "not known", 1);
		put_cell(out, "", 1);
	} else {
		snprintf(text, sizeof text, "%s to %s (x%.2f)", human_count(e->before, before),
			 human_count(e->after, after), e->after / e->before);
		put_cell(out, text, 1);
		snprintf(text, sizeof text, "%s%s", e->saved < 0 ? "lost " : "",
			 human_time(fabs(e->saved), saved));
		put_cell(out, text, 1);
	}
	fputs("</tr>\n", out);
}

static void put_effects(const struct report *p, FILE *out)
{
	size_t count;
	const struct effect **list = report_effects(p, ROWS_MAX, &count);
	if (count > 0)
		fputs("<h2>What was decided</h2>\n<table>\n<tr><th class=\"n\">at</th>"
		      "<th>what, and why</th><th class=\"n\">samples/s</th>"
		      "<th class=\"n\">saved</th></tr>\n",
		      out);
	for (size_t i = 0; i < count; i++)
		put_effect(p, list[i], out);
	if (count > 0)
		fputs("</table>\n", out);
	if (count < p->effects)
		fprintf(out, "<p class=\"quiet\">These changed most; there are %zu others.</p>\n",
			p->effects - count);
	free(list);
}

/* A row of a table: when, what, and why. */
static void put_told(const struct report *p, double at, const char *text, const char *why, FILE *out)
{
	fputs("<tr>", out);
	put_when(p, at, out);
	fputs("<td>", out);
	put_html(out, text);
	if (why[0]) {
		fputs("<br><span class=\"quiet\">", out);
		put_html(out, why);
		fputs("</span>", out);
	}
	fputs("</td></tr>\n", out);
}

static void begin_told(const char *heading, size_t already, FILE *out)
{
	if (already == 0)
		fprintf(out, "<h2>%s</h2>\n<table>\n", heading);
}

static void end_told(size_t count, FILE *out)
{
	if (count > 0)
		fputs("</table>\n", out);
	if (count > ROWS_MAX)
		fprintf(out, "<p class=\"quiet\">and %zu more</p>\n", count - ROWS_MAX);
}

static void put_resources(const struct report *p, FILE *out)
{
	char text[1024], why[300];
	size_t count = 0;
	for (; count < p->a->plans && count < ROWS_MAX; count++) {
		const struct account_plan *plan = &p->a->plan[count];
		begin_told("How it found its resources", count, out);
		report_plan_words(plan, text, sizeof text);
		report_plan_reason(plan, why, sizeof why);
		put_told(p, plan->at, text, why, out);
	}
	end_told(p->a->plans, out);
	for (count = 0; count < p->a->rebalances && count < ROWS_MAX; count++) {
		begin_told("How servers shared their work", count, out);
		report_rebalance_words(&p->a->rebalance[count], text, sizeof text);
		put_told(p, p->a->rebalance[count].at, text, "", out);
	}
	end_told(p->a->rebalances, out);
	count = 0;
	for (size_t i = 0; i < p->a->turns; i++) {
		const struct account_turn *t = &p->a->turn[i];
		if (!report_turn_words(t, text, sizeof text, why, sizeof why) || ++count > ROWS_MAX)
			continue;
		begin_told("How its nodes changed", count - 1, out);
		put_told(p, t->at, text, why, out);
	}
	end_told(count, out);
}

static void put_failures(const struct report *p, FILE *out)
{
	size_t count = 0;
	for (size_t i = 0; i < p->a->marks; i++) {
		const struct account_mark *m = &p->a->mark[i];
		char text[300] = "all servers go back to a checkpoint";
		if (!report_is_failure(m) || ++count > ROWS_MAX)
			continue;
		if (count == 1)
			fputs("<h2>What failed</h2>\n<table>\n", out);
		if (m->kind != ACCOUNT_ROLLBACK)
			report_restart_words(p, m, text, sizeof text);
		fputs("<tr>", out);
		put_when(p, m->at, out);
		put_cell(out, text, 0);
		fputs("</tr>\n", out);
	}
	if (count > 0)
		fputs("</table>\n", out);
	if (count > ROWS_MAX)
		fprintf(out, "<p class=\"quiet\">and %zu more</p>\n", count - ROWS_MAX);
}

static void put_foot(const struct report *p, FILE *out)
{
	char from[64] = "", now[64] = "";
	time_t began = (time_t)p->a->first_at, today = time(NULL);
	struct tm tm;
	if (localtime_r(&began, &tm))
		strftime(from, sizeof from, "%Y-%m-%d %H:%M:%S", &tm);
	if (localtime_r(&today, &tm))
		strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S", &tm);
	fprintf(out,
		"<p class=\"quiet\">Begun %s. Written %s by trainctl report (Paceline %s) from ",
		from, now, PACELINE_VERSION);
	put_html(out, p->path);
	fputs(". Waiting and saving are explained in trainctl(1).</p>\n</body>\n</html>\n", out);
}

int report_html(const struct report *p, const char *path, struct error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	if (any_picture(p, err) != 0)
		return -1;
	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return error_set(err, ERROR_OS, path, "out of memory");
	put_head(p, out);
	put_job(p, out);
	put_costs(p, out);
	int result = put_pictures(p, out, err);
	put_workers(p, out);
	put_resources(p, out);
	put_effects(p, out);
	put_failures(p, out);
	put_foot(p, out);
	if (fclose(out) != 0 && result == 0)
		result = error_set(err, ERROR_OS, path, "out of memory");
	if (result == 0 && strcmp(path, "-") == 0)
		fwrite(text, 1, bytes, stdout);
	else if (result == 0)
		result = put_file(path, text, bytes, err);
	free(text);
	return result;
}

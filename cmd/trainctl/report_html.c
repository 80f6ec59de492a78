/* report: one HTML file that contains its pictures and needs no other file. */
#include "cmd/trainctl/report.h"

#include "base/grow.h"
#include "base/human.h"
#include "base/utf8.h"
#include "base/version.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROWS_MAX 200 /* of a table */

struct html {
	FILE *out;
	int rows, bars; /* a table of rows is open; some have bars */
};

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

static void html_put(FILE *out, const char *before, const char *text, const char *behind)
{
	fputs(before, out);
	put_html(out, text);
	fputs(behind, out);
}

static void html_put_head(FILE *out, const char *title)
{
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
	      "figure{margin:1.6em 0 0}.phone{display:none}"
	      ".picture svg{width:100%;height:auto;display:block}\n"
	      "figcaption{color:var(--quiet);margin:.1em 0 0 1em}\n"
	      ".gantt svg,.heat svg{shape-rendering:crispEdges}\n"
	      /* On a telephone, wide tables scroll sideways, and pictures are others. */
	      "@media(max-width:700px){table{display:block;overflow-x:auto}td.wide{display:none}"
	      "td,th{padding-right:.5em}th.n{white-space:normal}"
	      ".screen{display:none}.phone{display:block}figcaption{margin-left:0}}\n"
	      "@media(prefers-color-scheme:dark){:root{--text:#ddd;--page:#15181b;--quiet:#9aa0a6;"
	      "--bad:#ff7b72;--line:#555;--works:#56B4E9;--lost:#E69F00}"
	      ".picture svg{filter:invert(.92) hue-rotate(180deg)}}\n"
	      "</style>\n</head>\n<body>\n<h1>",
	      out);
	put_html(out, title);
	fputs("</h1>\n", out);
}

static void end_rows(struct html *h)
{
	if (h->rows)
		fputs("</table>\n", h->out);
	if (h->bars)
		fputs("<p class=\"quiet\"><span class=\"key\"></span>the workers train &nbsp; "
		      "<span class=\"key lost\"></span>time that is spent on anything else</p>\n",
		      h->out);
	h->rows = h->bars = 0;
}

static void html_words(void *to, enum report_words kind, const char *text)
{
	struct html *h = to;
	end_rows(h);
	if (kind == REPORT_TITLE)
		html_put_head(h->out, text);
	else if (kind == REPORT_HEADING)
		html_put(h->out, "<h2>", text, "</h2>\n");
	else
		html_put(h->out, kind == REPORT_BAD ? "<p class=\"bad\">" : "<p>", text, "</p>\n");
}

static void html_row(void *to, const struct report_row *row)
{
	struct html *h = to;
	char time[HUMAN_MAX] = "";
	if (!isnan(row->seconds))
		human_time(row->seconds, time);
	if (row->label)
		snprintf(time, sizeof time, "%s", row->label);
	fputs(h->rows ? "" : "<table>\n", h->out);
	h->rows = 1;
	html_put(h->out, "<tr><td class=\"n\">", time, "</td>");
	if (!isnan(row->share))
		fprintf(h->out, "<td class=\"n\">%.1f%%</td>", 100 * row->share);
	html_put(h->out, "<td>", row->text, "");
	if (row->why[0])
		html_put(h->out, "<br><span class=\"quiet\">", row->why, "</span>");
	fputs("</td>", h->out);
	if (!isnan(row->share)) {
		h->bars = 1;
		fprintf(h->out,
			"<td class=\"wide\"><span class=\"bar%s\" style=\"width:%.1f%%\"></span></td>",
			row->lost ? " lost" : "", 100 * row->share);
	}
	fputs("</tr>\n", h->out);
}

static void html_table(void *to, const struct grid *t)
{
	struct html *h = to;
	size_t layout[GRID_MAX];
	end_rows(h);
	grid_layout(t, SIZE_MAX / 2, layout); /* all that are not empty */
	fputs("<table>\n", h->out);
	for (size_t i = 0; i <= t->rows; i++) {
		const char *tag = i == 0 ? "th" : "td";
		fputs("<tr>", h->out);
		for (size_t k = 0; k < t->count; k++) {
			if (!layout[k] && k > 0)
				continue;
			fprintf(h->out, "<%s%s>", tag,
				t->column[k].align == GRID_RIGHT ? " class=\"n\"" : "");
			put_html(h->out, i == 0 ? t->column[k].head
						: t->cell[(i - 1) * t->count + k]);
			fprintf(h->out, "</%s>", tag);
		}
		fputs("</tr>\n", h->out);
	}
	fputs("</table>\n", h->out);
}

/* gnuplot's SVG without its head, and with a title for screen readers. */
static void put_svg(FILE *out, const char *svg, size_t what)
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
	html_put(out, "<title>", picture_kind[what].title, "</title>");
	fputs(at + sizeof title - 1, out);
}

static int html_pictures(void *to, const struct report *p, struct error *err)
{
	static const char *const form_name[] = {[REPORT_SCREEN] = "screen", [REPORT_PHONE] = "phone"};
	struct html *h = to;
	int result = 0;
	end_rows(h);
	for (size_t what = 0; result == 0 && what < picture_count; what++) {
		if (!picture_has(p, what))
			continue;
		fprintf(h->out, "<figure class=\"%s\">\n", picture_kind[what].name);
		for (int form = REPORT_SCREEN; result == 0 && form <= REPORT_PHONE; form++) {
			struct drawing d;
			result = report_draw(p, what, (enum report_form)form, &d, err);
			if (result == 0) {
				fprintf(h->out, "<div class=\"%s picture\">\n", form_name[form]);
				put_svg(h->out, d.data, what);
				fputs("</div>\n", h->out);
			}
			free(d.data);
		}
		html_put(h->out, "<figcaption>", picture_kind[what].caption,
			 "</figcaption>\n</figure>\n");
	}
	return result;
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
	fputs(". The verdict counts the waiting that the log has; trainctl advise simulates the job without its cause. "
	      "Waiting and saving are explained in trainctl(1).</p>\n</body>\n</html>\n", out);
}

int report_html(const struct report *p, const char *path, struct error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	struct html h = {0};
	const struct report_page page = {.workers = ROWS_MAX,
					 .effects = ROWS_MAX,
					 .failures = ROWS_MAX,
					 .others = ROWS_MAX,
					 .name = 40,
					 .verdict_first = 1,
					 .words = html_words,
					 .row = html_row,
					 .table = html_table,
					 .courses = html_pictures,
					 .to = &h};
	if (report_has_pictures(p, err) != 0)
		return -1;
	if (!(h.out = grow_stream(&text, &bytes)))
		return error_set(err, ERROR_OS, path, "out of memory");
	int result = report_tell(p, &page, err);
	end_rows(&h);
	put_foot(p, h.out);
	if (fclose(h.out) != 0 && result == 0)
		result = error_set(err, ERROR_OS, path, "out of memory");
	if (result == 0 && strcmp(path, "-") == 0)
		fwrite(text, 1, bytes, stdout);
	else if (result == 0)
		result = report_put_file(path, text, bytes, err);
	free(text);
	return result;
}

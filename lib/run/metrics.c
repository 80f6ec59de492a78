/* metrics: see metrics.h. What the pages say is in metrics_page.c. */
#include "run/metrics_page.h"
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "wire/http.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SECONDS 5.0

static int is_http(const struct metrics_to *to)
{
	return to->kind == METRICS_TO_TCP || to->kind == METRICS_TO_UNIX;
}

/* ---- before the job ---- */

static int try_dir(const char *path, struct error *err)
{
	char dir[PATH_MAX];
	struct stat st;
	fs_dirname(path, dir, sizeof dir);
	if (stat(dir, &st) != 0)
		return error_errno(err, ERROR_CANTCREAT, path, "METRICS: there is no directory %s",
				   dir);
	if (access(dir, W_OK | X_OK) != 0)
		return error_errno(err, ERROR_CANTCREAT, path,
				   "METRICS: nothing can be made in %s", dir);
	return 0;
}

int metrics_try(const struct job *job, struct error *err)
{
	char name[HTTP_NAME_MAX];
	for (size_t i = 0; i < job->metrics.count; i++) {
		struct metrics_to to;
		if (metrics_to_parse(&to, job->metrics.item[i], err) != 0)
			return error_wrap(err, "METRICS");
		int result = to.path ? try_dir(to.path, err)
				     : http_try_tcp((const struct sockaddr *)&to.address, to.len,
						    name, err);
		if (result != 0)
			return -1;
	}
	return 0;
}

/* ---- one place ---- */

static int give_page(void *owner, const char **text, size_t *len, struct error *err)
{
	struct supervisor *s = owner;
	struct metrics_page *page = &s->metrics.http_page;
	if (sup_metrics_page(s, page, err) != 0)
		return -1;
	*text = page->text;
	*len = page->len;
	return 0;
}

static int need_http(struct supervisor *s, struct error *err)
{
	const struct http_options options = {
		.base = s->base,
		.path = "/metrics",
		.type = METRICS_CONTENT_TYPE,
		.about = "There is no such page. The metrics of this training job are at /metrics.\n",
		.seconds = deadline_seconds(DEADLINE_SCRAPE),
		.page = give_page,
		.owner = s};
	return s->metrics.http ? 0 : http_new(&s->metrics.http, &options, err);
}

static int open_place(struct supervisor *s, struct sup_metrics_place *p, struct error *err)
{
	const struct metrics_page *page = &s->metrics.file_page;
	if (!is_http(&p->to))
		return fs_publish(p->to.path, page->text, page->len, err);
	if (need_http(s, err) != 0)
		return -1;
	if (p->to.kind == METRICS_TO_UNIX)
		return http_listen_unix(s->metrics.http, p->to.path, err);
	return http_listen_tcp(s->metrics.http, (const struct sockaddr *)&p->to.address, p->to.len,
			       p->http_name, err);
}

static void tell_open(struct supervisor *s, const struct sup_metrics_place *p)
{
	if (p->to.kind == METRICS_TO_TCP)
		sup_note(s, "metrics", "metrics are at %s/metrics", p->http_name);
	else
		sup_note(s, "metrics", "metrics are %s %s",
			 is_http(&p->to) ? "at /metrics of" : "in", p->name);
}

static void tell_failed(struct supervisor *s, struct sup_metrics_place *p, const struct error *err)
{
	if (!p->is_told)
		sup_note(s, "warning", "metrics: %s: %s; tried again", err->place, err->text);
	p->is_told = 1;
}

/* ---- all of them ---- */

/* may_fail: returns -1 at the first that fails. Otherwise it says what failed, and goes on. */
static int metrics_write_all(struct supervisor *s, int may_fail, struct error *err)
{
	struct sup_metrics *m = &s->metrics;
	m->at = clock_mono();
	m->phase = (int)s->phases.now;
	if (m->places > 0 && sup_metrics_page(s, &m->file_page, err) != 0)
		return may_fail ? -1 : 0;
	for (size_t i = 0; i < m->places; i++) {
		struct sup_metrics_place *p = &m->place[i];
		if (p->is_open && is_http(&p->to))
			continue;
		if (open_place(s, p, err) != 0) {
			if (may_fail)
				return -1;
			tell_failed(s, p, err);
			continue;
		}
		if (!p->is_open || p->is_told)
			tell_open(s, p);
		p->is_open = 1;
		p->is_told = 0;
	}
	return 0;
}

int sup_metrics_open(struct supervisor *s, int is_running, struct error *err)
{
	struct sup_metrics *m = &s->metrics;
	m->began = clock_epoch();
	for (size_t i = 0; i < s->job->metrics.count; i++) {
		m->place[i].name = s->job->metrics.item[i];
		if (metrics_to_parse(&m->place[i].to, m->place[i].name, err) != 0)
			return -1;
		m->places++;
	}
	return metrics_write_all(s, !is_running, err);
}

void sup_metrics_tick(struct supervisor *s)
{
	struct error err;
	struct sup_metrics *m = &s->metrics;
	if (clock_mono() - m->at >= FILE_SECONDS || m->phase != (int)s->phases.now)
		metrics_write_all(s, 0, &err);
}

void sup_metrics_last(struct supervisor *s)
{
	struct error err;
	s->metrics.ended = clock_epoch();
	metrics_write_all(s, 0, &err);
}

void sup_metrics_close(struct supervisor *s)
{
	http_free(s->metrics.http);
	metrics_free(&s->metrics.file_page);
	metrics_free(&s->metrics.http_page);
}

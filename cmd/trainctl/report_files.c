/* report: pictures as files. gnuplot(1) draws them, as a separate program; if it fails, the report
 * says so and leaves no incomplete file. */
#include "cmd/trainctl/report.h"

#include "base/fs.h"
#include "base/grow.h"
#include "proc/child.h"
#include "proc/process.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WIDTH 960
#define PHONE_WIDTH 400
/* On a telephone the legend stands below. */
#define PHONE_PLACE                                                                                \
	"phone = 1\nset rmargin 9\nset key bmargin center horizontal samplen 1 width -2 font ',10'\nset title font ',13'\n"      \
	"set xtics autofreq rotate by -40\n"
#define GNUPLOT_SECONDS 60.0 /* a picture; then it is killed */
#define PICTURE_BYTES_MAX (32u << 20)

/* ---- gnuplot ---- */

static void report_files_on_end(const struct child_end *e, void *arg)
{
	struct drawing *d = arg;
	if (child_failure(e, d->why))
		return;
	if (e->bytes == 0)
		snprintf(d->why, sizeof d->why, "drew nothing");
	else if (!(d->data = malloc(e->bytes + 1)))
		snprintf(d->why, sizeof d->why, "out of memory");
	if (!d->data)
		return;
	memcpy(d->data, e->output, e->bytes + 1);
	d->bytes = e->bytes;
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
static int report_files_run_gnuplot(const char *script, size_t bytes, struct drawing *out,
				    struct error *err)
{
	char path[PATH_MAX];
	char *argv[] = {path, "-d", NULL}; /* nothing of the user's ~/.gnuplot */
	*out = (struct drawing){0};
	if (find_gnuplot(path, err) != 0)
		return -1;
	setenv("LC_CTYPE", "C.UTF-8",
	       1); /* the script is UTF-8, whatever the terminal's encoding */
	const struct child_options options = {.argv = argv,
					      .input = script,
					      .input_bytes = bytes,
					      .seconds = GNUPLOT_SECONDS,
					      .output_bytes_max = PICTURE_BYTES_MAX,
					      .done = report_files_on_end,
					      .arg = out};
	int result = child_run(&options, err);
	if (result == 0 && out->why[0])
		result = error_set(err, ERROR_UNAVAILABLE, path, "%s", out->why);
	return result;
}

/* ---- scripts ---- */

static void put_terminal(FILE *out, enum report_form form, unsigned height)
{
	if (form != REPORT_PNG)
		fprintf(out,
			"set terminal svg size %d,%u dynamic font 'sans-serif,12' background "
			"'#FFFFFF'\n",
			form == REPORT_PHONE ? PHONE_WIDTH : WIDTH, height);
	else
		fprintf(out,
			"if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {\n"
			"set terminal pngcairo size %d,%u font 'sans,10' background '#FFFFFF'\n"
			"} else {\nset terminal png size %d,%u background '#FFFFFF'\n}\n",
			WIDTH, height, WIDTH, height);
}

int report_draw(const struct report *p, size_t what, enum report_form form, struct drawing *d,
		struct error *err)
{
	char *script = NULL, place[256] = "";
	size_t bytes = 0;
	unsigned height = 0, at = 0;
	int all = what == picture_count;
	size_t from = all ? 0 : what, to = all ? picture_count : what + 1;
	FILE *out = grow_stream(&script, &bytes);
	if (!out)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t k = from; k < to; k++)
		height += picture_has(p, k) ? picture_height(p, k) : 0;
	put_terminal(out, form, height);
	fputs(all ? "set multiplot\n" : "", out);
	for (size_t k = from; k < to; k++) {
		if (!picture_has(p, k))
			continue;
		at += picture_height(p, k);
		if (all) /* one below the other */
			snprintf(place, sizeof place, "set origin 0,%.9f\nset size 1,%.9f\n",
				 1 - (double)at / height, (double)picture_height(p, k) / height);
		picture_script(p, k, form == REPORT_PHONE ? PHONE_PLACE : place, out);
	}
	fputs(all ? "unset multiplot\n" : "", out);
	int result = fclose(out) == 0 ? report_files_run_gnuplot(script, bytes, d, err)
				      : error_set(err, ERROR_OS, NULL, "out of memory");
	free(script);
	return result;
}

int report_has_pictures(const struct report *p, struct error *err)
{
	for (size_t k = 0; k < picture_count; k++)
		if (picture_has(p, k))
			return 0;
	return error_set(err, ERROR_NEGATIVE, p->path, "has nothing to draw yet");
}

/* ---- files ---- */

struct bytes {
	const char *data;
	size_t count;
};

static int report_files_fill(int fd, const char *path, void *arg, struct error *err)
{
	const struct bytes *b = arg;
	return fs_write_all(fd, b->data, b->count, path, err);
}

/* Readable by others, if the user's umask allows it. */
int report_put_file(const char *path, const char *data, size_t count, struct error *err)
{
	struct bytes b = {data, count};
	return fs_replace(path, 0666, report_files_fill, &b, err);
}

static int is_png(const char *path)
{
	size_t n = strlen(path);
	return n > 4 && strcmp(path + n - 4, ".png") == 0;
}

static int put_picture(const struct report *p, size_t what, const char *path,
		       struct error *err)
{
	struct drawing d;
	int result = report_draw(p, what, REPORT_PNG, &d, err);
	if (result == 0)
		result = report_put_file(path, d.data, d.bytes, err);
	free(d.data);
	return result;
}

int report_png(const struct report *p, const char *path, struct error *err)
{
	struct stat st;
	int result = report_has_pictures(p, err);
	if (result != 0)
		return -1;
	if (is_png(path) && !(stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
		return put_picture(p, picture_count, path, err);
	if (stat(path, &st) != 0 && mkdir(path, 0777) != 0)
		return error_errno(err, ERROR_CANTCREAT, path, "can't be made");
	for (size_t k = 0; k < picture_count && result == 0; k++) {
		char name[64], file[PATH_MAX];
		snprintf(name, sizeof name, "%s.png", picture_kind[k].name);
		if (picture_has(p, k))
			result = fs_join(file, sizeof file, path, name, err) == 0
					 ? put_picture(p, k, file, err)
					 : -1;
	}
	return result;
}

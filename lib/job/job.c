/*
 * job: see job.h.  Must never touch what the keys name (no file but the job file is opened here):
 * whether data and directories are there is for those that use them.
 */
#include "job/job.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/near.h"
#include "base/option.h"
#include "data/format.h"
#include "job/deadline.h"
#include "job/jobtext.h"
#include "job/keys.h"
#include "job/kind.h"
#include "job/metrics_to.h"
#include "param/opt.h"
#include "proc/limits.h"
#include "solve/balance.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOB_FILE_MAX (2u << 20)
#define PARTS_MAX 64    /* of a key */
#define CHANGE_SHOWN 24 /* bytes of a value in job_compare()'s text */
#define INCLUDE "INCLUDE"
#define INCLUDES_MAX 16 /* files within each other */

/* ---- keys ---- */

static struct job_origin *origin_of(const struct job *job, const struct key_row *row)
{
	return &job->origin[row - key_rows];
}

int job_init(struct job *job, struct error *err)
{
	memset(job, 0, sizeof *job);
	job->origin = calloc(key_count, sizeof *job->origin);
	if (!job->origin)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < key_count; i++)
		if (key_store(job, &key_rows[i], "", "default", err) != 0) {
			job_free(job);
			return -1;
		}
	return 0;
}

static void origin_free(struct job_origin *origin)
{
	free(origin->dir);
	free(origin->place);
	*origin = (struct job_origin){0};
}

void job_free(struct job *job)
{
	for (size_t i = 0; job->origin && i < key_count; i++) {
		origin_free(&job->origin[i]);
		key_clear(job, &key_rows[i]);
	}
	free(job->origin);
	free(job->hung);
	memset(job, 0, sizeof *job);
}

/* The place of a value. */
struct where {
	const char *place;
	const char *dir;      /* of the job file, NULL: of none */
	unsigned char *given; /* of each row: whether this file says it; or NULL */
};

/* An empty text is the default, and does not count as given. */
static int set_row(struct job *job, const struct key_row *row, const char *value,
		   const struct where *w, struct error *err)
{
	struct job_origin *origin = origin_of(job, row);
	if (key_store(job, row, value, w->place, err) != 0)
		return -1;
	origin_free(origin);
	if (w->given)
		w->given[row - key_rows] = value[0] != '\0';
	if (value[0] &&
	    (!(origin->place = strdup(w->place)) || (w->dir && !(origin->dir = strdup(w->dir)))))
		return error_set(err, ERROR_OS, w->place, "out of memory");
	return 0;
}

/* Whether the present head of its key has this part. */
static int is_fit(const struct job *job, const struct key_row *row)
{
	const struct key_row *head = key_family(row->name, key_len(row));
	char word[64];
	if (!head->head || !row->of)
		return 1;
	const char *given = *(char *const *)key_field(job, head);
	snprintf(word, sizeof word, "%.*s", (int)strcspn(given, ":"), given); /* ssp:3 is ssp */
	return strchr(given, '/') || option_is_choice(row->of, word);
}

static const struct key_row *job_part_of(const struct key_row *family, const char *name, size_t len)
{
	for (const struct key_row *row = family; row; row = key_next(row))
		if (strlen(key_part(row)) == len && memcmp(key_part(row), name, len) == 0)
			return row;
	return NULL;
}

static int no_part(const struct key_row *family, const char *word, const char *place,
		   struct error *err)
{
	char name[NEAR_WORD_MAX], parts[200] = "";
	struct near near = {0};
	snprintf(name, sizeof name, "%.*s", (int)strcspn(word, ":"), word);
	for (const struct key_row *row = family; row; row = key_next(row)) {
		size_t at = strlen(parts);
		near_look(&near, name, key_part(row));
		snprintf(parts + at, sizeof parts - at, "%s%s", at > 0 ? ", " : "", key_part(row));
	}
	if (job_part_of(family, name, strlen(name)))
		return error_set(err, ERROR_CONFIG, place, "%.*s: %s has no value: write %s:VALUE",
				 (int)key_len(family), family->name, name, name);
	if (near_enough(&near, name))
		return error_set(err, ERROR_CONFIG, place, "%.*s has no part %s; the nearest is %s",
				 (int)key_len(family), family->name, name, near.word);
	return error_set(err, ERROR_CONFIG, place, "%.*s: '%.80s' is not NAME:VALUE with one of "
						   "its parts %s",
			 (int)key_len(family), family->name, word, parts);
}

/* "HEAD,name:value,...": parts that are not named keep their values. The head is first: it drops
 * the parts that it does not have. text is cut. */
static int set_parts(struct job *job, const struct key_row *family, char *text,
		     const struct where *w, struct error *err)
{
	const struct key_row *row[PARTS_MAX] = {0};
	const char *value[PARTS_MAX];
	size_t count = 0;
	for (char *word = text, *next; word; word = next) {
		if ((next = strchr(word, ',')))
			*next++ = '\0';
		size_t len = strcspn(word, ":");
		const struct key_row *part = word[len] ? job_part_of(family, word, len) : NULL;
		const char *is = part ? word + len + 1 : word;
		if (!part && word == text && word[0] && (!word[len] || key_takes_colon(family)))
			part = family->head ? family : NULL;
		if (!part)
			return no_part(family, word, w->place, err);
		for (size_t i = 0; i < count; i++)
			if (row[i] == part)
				return error_set(err, ERROR_CONFIG, w->place,
						 "%.*s: %s is given twice", (int)key_len(family),
						 family->name, key_part(part));
		row[count] = part;
		value[count++] = is;
	}
	for (size_t i = 0; i < count; i++)
		if (row[i]->head) {
			if (set_row(job, row[i], value[i], w, err) != 0)
				return -1;
			for (const struct key_row *part = family; part; part = key_next(part))
				if (!is_fit(job, part) && set_row(job, part, "", w, err) != 0)
					return -1;
		}
	for (size_t i = 0; i < count; i++)
		if (!row[i]->head && set_row(job, row[i], value[i], w, err) != 0)
			return -1;
	return 0;
}

static int set_family(struct job *job, const struct key_row *family, const char *value,
		      const struct where *w, struct error *err)
{
	for (const struct key_row *row = family; !value[0] && row; row = key_next(row))
		if (set_row(job, row, "", w, err) != 0)
			return -1;
	if (!value[0])
		return 0;
	if (!key_part(family))
		return set_row(job, family, value, w, err);
	char *text = strdup(value);
	int result = text ? set_parts(job, family, text, w, err)
			  : error_set(err, ERROR_OS, w->place, "out of memory");
	free(text);
	return result;
}

/* "every:60,keep:5", of the rows that are given; NULL: of all that have a value. plain: a head as
 * people write it. To be freed. */
static char *family_text(const struct job *job, const struct key_row *family,
			 const unsigned char *given, int plain)
{
	char *text = NULL;
	size_t len, count = 0;
	FILE *out = grow_stream(&text, &len);
	if (!out)
		return NULL;
	for (const struct key_row *row = family; row; row = key_next(row)) {
		char *value = given && !given[row - key_rows] ? NULL : key_text(job, row);
		int is_bare = !key_part(row) || (plain && row->head);
		if (value && (given || (value[0] && is_fit(job, row))))
			fprintf(out, "%s%s%s%s", count++ > 0 ? "," : "",
				is_bare ? "" : key_part(row), is_bare ? "" : ":", value);
		free(value);
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

static int unknown_key(const char *key, const char *place, struct error *err)
{
	struct near near = {0};
	const struct key_row *part = NULL;
	size_t parts = 0;
	for (const struct key_row *row = key_rows; row < key_rows + key_count; row++) {
		char name[NEAR_WORD_MAX];
		snprintf(name, sizeof name, "%.*s", (int)key_len(row), row->name);
		const char *before = near.word;
		near_look(&near, key, name);
		if (near.word != before)
			near.word = row->name;
		if (key_part(row) && strcasecmp(key_part(row), key) == 0) {
			part = row;
			parts++;
		}
	}
	if (parts == 1)
		return error_set(err, ERROR_CONFIG, place,
				 "unknown key %.64s; %.*s has such a part: %.*s=%s:VALUE", key,
				 (int)key_len(part), part->name, (int)key_len(part), part->name,
				 key_part(part));
	if (!near_enough(&near, key))
		return error_set(err, ERROR_CONFIG, place,
				 "unknown key %.64s; `trainctl init --keys` lists all keys", key);
	return error_set(err, ERROR_CONFIG, place, "unknown key %.64s; the nearest is %.*s", key,
			 (int)strcspn(near.word, " "), near.word);
}

/* ---- keys of before ---- */

/* Converts an old value (0, commas, other words) to the new words; to be freed. */
static char *old_value(const struct key_row *row, const char *value)
{
	static const char *const words[][3] = {
		{"BATCH scaling", "keep", "none"},   {"SOLUTION predict", "auto", "mix"},
		{"SOLUTION profile", "0", "off"},    {"SOLUTION profile", "1", "on"},
		{"TRAINER_KIND header", "0", "off"}, {"TRAINER_KIND header", "1", "on"},
		{"FORMAT separator", ",", "comma"},  {"FORMAT separator", ";", "semicolon"},
		{"FORMAT separator", "|", "pipe"},   {"FORMAT separator", " ", "space"},
		{"CHECKPOINT memory", "", "off"}};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(words[i][0], row->name) == 0 && strcmp(words[i][1], value) == 0)
			return strdup(words[i][2]);
	char *text = strdup(key_is_number(row) && row->words && strcmp(row->words, "auto") != 0 &&
					    strcmp(value, "0") == 0
				    ? row->words
				    : value);
	for (char *p = text; p && *p && row->kind == KEY_OPTION; p++)
		if (strchr(", \t", *p))
			*p = '-';
	return text;
}

static int set_old(struct job *job, const struct key_row *row, const char *value,
		   const struct where *w, struct error *err)
{
	char *now = old_value(row, value);
	int result = now ? set_row(job, row, now, w, err)
			 : error_set(err, ERROR_OS, w->place, "out of memory");
	free(now);
	return result;
}

#define OLD_LINES_MAX (ERROR_TEXT_MAX - 128) /* the rest: what is said around them */

/* first: the old key that is told of. The lines of every key that has an old one, as w.given says,
 * as far as there is room. */
static int refuse_old(const struct job *job, const struct key_row *first, const unsigned char *old,
		      const struct where *w, struct error *err)
{
	char lines[OLD_LINES_MAX] = "", more[32] = "";
	size_t count = 0, left_out = 0;
	for (const struct key_row *row = key_rows; row < key_rows + key_count; row++) {
		const struct key_row *family = key_family(row->name, key_len(row)), *part = family;
		while (part && !old[part - key_rows])
			part = key_next(part);
		if (row != family || !part)
			continue;
		char *text = family_text(job, family, w->given, 1);
		size_t at = strlen(lines), room = sizeof lines - at;
		int len = snprintf(lines + at, room, "%s%.*s=%s", count > 0 ? "; " : "",
				   (int)key_len(row), row->name, text ? text : "");
		if (count++ > 0 && (size_t)len >= room) {
			lines[at] = '\0';
			left_out++;
		}
		free(text);
	}
	if (left_out > 0)
		snprintf(more, sizeof more, "; and %zu more", left_out);
	return error_set(err, ERROR_CONFIG, w->place, "%s is a part of %.*s now%s: %s%s",
			 first->old, (int)key_len(first), first->name,
			 count > 1 ? ", and other old keys are parts, too" : "", lines, more);
}

int job_set(struct job *job, const char *key, const char *value, const char *place,
	    struct error *err)
{
	unsigned char given[KEY_ROWS_MAX] = {0}, old[KEY_ROWS_MAX] = {0};
	const struct key_row *family = key_family(key, strlen(key)), *row = key_old(key);
	struct where w = {.place = place, .given = given};
	if (family)
		return set_family(job, family, value, &w, err);
	if (!row)
		return unknown_key(key, place, err);
	old[row - key_rows] = 1;
	return set_old(job, row, value, &w, err) == 0 ? refuse_old(job, row, old, &w, err) : -1;
}

int job_set_text(struct job *job, const char *assignment, struct error *err)
{
	char key[JOBTEXT_KEY_MAX];
	const char *equals = strchr(assignment, '=');
	if (!equals || equals == assignment || (size_t)(equals - assignment) >= sizeof key)
		return error_set(err, ERROR_USAGE, "--set", "'%.80s' is not KEY=VALUE", assignment);
	memcpy(key, assignment, (size_t)(equals - assignment));
	key[equals - assignment] = '\0';
	if (strcmp(key, INCLUDE) == 0)
		return error_set(err, ERROR_USAGE, "--set", INCLUDE " is for job files only");
	if (strlen(equals + 1) >= JOBTEXT_VALUE_MAX || strchr(equals + 1, '\n'))
		return error_set(err, ERROR_USAGE, "--set",
				 "value of %s is too long or has a newline", key);
	return job_set(job, key, equals + 1, "--set", err);
}

/* dir: NULL: the current one. */
static int absolute_in(const char *dir, char **path, struct error *err)
{
	char here[PATH_MAX], full[2 * PATH_MAX];
	if (**path == '\0' || **path == '/')
		return 0;
	if (!dir && !getcwd(here, sizeof here))
		return error_errno(err, ERROR_OS, *path, "current directory");
	snprintf(full, sizeof full, "%s/%s", dir ? dir : here, *path);
	return key_text_set(path, full, *path, err);
}

struct reading {
	struct job *job;
	const char *path;
	char dir[PATH_MAX]; /* of path, absolute */
	dev_t device;       /* of the file */
	ino_t inode;
	const struct reading *outer; /* the file that includes this one, or NULL */
	/* Of each row: the file says it, by its key of before. */
	unsigned char given[KEY_ROWS_MAX], old[KEY_ROWS_MAX];
	const struct key_row *first_old;
	char old_place[ERROR_PLACE_MAX];
};

static int job_read_file(struct job *job, const char *path, const struct reading *outer,
			 const char *place, struct error *err);

/* The name is relative only to the file that has the INCLUDE line, so it is the same file wherever
 * a job is started. */
static int include(const struct reading *reading, const char *value, const char *place,
		   struct error *err)
{
	char path[PATH_MAX];
	const char *slash = strrchr(reading->path, '/');
	int len = value[0] != '/' && slash ? (int)(slash - reading->path) + 1 : 0;
	size_t depth = 1;
	if (!value[0])
		return 0;
	for (const struct reading *r = reading; r; r = r->outer)
		depth++;
	if (depth > INCLUDES_MAX)
		return error_set(err, ERROR_CONFIG, place, INCLUDE ": more than %d files deep",
				 INCLUDES_MAX);
	if (snprintf(path, sizeof path, "%.*s%s", len, reading->path, value) >= (int)sizeof path)
		return error_set(err, ERROR_CONFIG, place, INCLUDE ": path too long");
	return job_read_file(reading->job, path, reading, place, err);
}

static int job_take(const char *key, const char *value, size_t line, void *arg, struct error *err)
{
	struct reading *reading = arg;
	char place[ERROR_PLACE_MAX];
	snprintf(place, sizeof place, "%.400s:%zu", reading->path, line);
	if (strcmp(key, INCLUDE) == 0)
		return include(reading, value, place, err);
	const struct key_row *family = key_family(key, strlen(key)), *row = key_old(key);
	struct where w = {place, reading->dir, reading->given};
	if (family)
		return set_family(reading->job, family, value, &w, err);
	if (!row)
		return unknown_key(key, place, err);
	if (set_old(reading->job, row, value, &w, err) != 0)
		return -1;
	if (!reading->first_old)
		memcpy(reading->old_place, place, sizeof place);
	if (!reading->first_old)
		reading->first_old = row;
	reading->old[row - key_rows] = 1;
	return 0;
}

/* Which file it is, and whether it is being read already. */
static int job_identify(struct reading *reading, const char *place, struct error *err)
{
	struct stat st;
	char name[PATH_MAX];
	if (stat(reading->path, &st) != 0)
		return error_errno(err, 0, reading->path, "can't be read");
	reading->device = st.st_dev;
	reading->inode = st.st_ino;
	for (const struct reading *r = reading->outer; r; r = r->outer)
		if (r->device == st.st_dev && r->inode == st.st_ino)
			return error_set(err, ERROR_CONFIG, place,
					 INCLUDE ": %.300s is being read already: it would include "
						 "itself",
					 reading->path);
	fs_dirname(reading->path, name, sizeof name);
	/* Without links, as the current directory is: it is the same by whatever way it is named.
	 */
	if (!realpath(name, reading->dir))
		return error_errno(err, 0, name, "can't be seen");
	return 0;
}

/* place: of the line that includes it; NULL: none does. */
static int job_read_file(struct job *job, const char *path, const struct reading *outer,
			 const char *place, struct error *err)
{
	char *text;
	size_t len;
	struct reading reading = {.job = job, .path = path, .outer = outer};
	if (fs_read_file(path, JOB_FILE_MAX, &text, &len, err) != 0)
		return place ? error_wrap(err, place) : -1;
	int result = job_identify(&reading, place, err);
	if (result == 0)
		result = jobtext_parse(path, text, len, job_take, &reading, err);
	free(text);
	struct where w = {.place = reading.old_place, .given = reading.given};
	/* Report old keys before any other mistake: a job file with one has many, and all are
	 * reported together. */
	if (reading.first_old)
		result = refuse_old(job, reading.first_old, reading.old, &w, err);
	return result;
}

int job_read(struct job *job, const char *path, struct error *err)
{
	return job_read_file(job, path, NULL, NULL, err);
}

/* ---- the whole ---- */

/* Every worker reads rows by their numbers, in each epoch again: a stream can't give them. */
static int refuse_stdin(const struct job *job, const char *key, const char *path, struct error *err)
{
	const struct job_list *list = key_field(job, key_find(key));
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->item[i], "-") == 0)
			return error_set(err, ERROR_CONFIG, job_place(job, key, path),
					 "%s: - means standard input, and a file is needed: rows are "
					 "read by number, and more than once. Write one first: COMMAND "
					 "| pzstd >rows.csv.zst (a file with that name is ./-)",
					 key);
	return 0;
}

/* In DIR/ the file gets the job's name. Files that are written start at the job file's
 * directory. */
static int finish_metrics(struct job *job, struct error *err)
{
	const char *dir = origin_of(job, key_find("METRICS"))->dir;
	for (size_t i = 0; i < job->metrics.count; i++) {
		char **word = &job->metrics.item[i], *path, whole[2 * PATH_MAX];
		struct metrics_to to;
		if (metrics_to_parse(&to, *word, err) != 0)
			return -1;
		if (!to.path)
			continue;
		while (strncmp(to.path, "./", 2) == 0)
			to.path += 2;
		int n = snprintf(whole, sizeof whole, "%s%s%s", to.path,
				 to.kind == METRICS_TO_DIR ? job->name : "",
				 to.kind == METRICS_TO_DIR ? ".prom" : "");
		if (n < 0 || n >= PATH_MAX)
			return error_set(err, ERROR_CONFIG, *word, "path too long");
		path = strdup(whole);
		if (!path)
			return error_set(err, ERROR_OS, *word, "out of memory");
		int result = absolute_in(dir, &path, err);
		if (result == 0) {
			snprintf(whole, sizeof whole, "%s%s",
				 to.kind == METRICS_TO_UNIX ? "unix:" : "", path);
			result = key_text_set(word, whole, path, err);
		}
		free(path);
		if (result != 0)
			return -1;
	}
	return 0;
}

static int ends_in(const char *name, size_t len, const char *ending)
{
	size_t n = strlen(ending);
	return len > n && memcmp(name + len - n, ending, n) == 0;
}

size_t job_packed(const char *path)
{
	static const char *const packed[] = {".gz", ".zst"};
	for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
		if (ends_in(path, strlen(path), packed[i]))
			return strlen(packed[i]);
	return 0;
}

/* Decides by the name alone, without opening the file. A .tsv is a table if LABEL is given, else
 * Criteo rows, which have no names. */
static const char *guess_format(const char *path, int has_label)
{
	static const char *const guess[][2] = {
		{".csv", "csv"},       {".svm", "libsvm"},     {".bag", "bag"},
		{".libsvm", "libsvm"}, {".ffm", "libsvm"},     {".libffm", "libsvm"},
		{".tab", "tsv"},       {"-idx3-ubyte", "idx"}, {".idx3-ubyte", "idx"}};
	size_t len = strlen(path) - job_packed(path);
	for (size_t i = 0; i < sizeof guess / sizeof *guess; i++)
		if (ends_in(path, len, guess[i][0]))
			return guess[i][1];
	if (ends_in(path, len, ".tsv"))
		return has_label ? "tsv" : "criteo";
	return NULL;
}

/* FORMAT says it, else its separator, which only a csv has, else the name of the first file. */
static int finish_format(struct job *job, const char *path, struct error *err)
{
	const char *format = job->format;
	char separator[8];
	struct row_syntax syntax;
	if (!format[0] && !job->separator[0] && job_has_documents(job))
		format = "bag";
	else if (!format[0] && !job->separator[0] && job->data.count > 0)
		format = guess_format(job->data.item[0], job->label[0] != '\0');
	if (job_kind(job)->foreign && (!format || !format[0]) && !job->separator[0])
		return key_text_set(&job->format, JOB_LINES, path,
				    err); /* what is in them is TRAINER's business */
	if (job_kind(job)->foreign && strcmp(job->format, JOB_LINES) == 0)
		return 0;
	if (format && strcmp(format, JOB_LINES) == 0)
		return error_set(err, ERROR_CONFIG, job_place(job, "FORMAT", path),
				 "FORMAT=" JOB_LINES " is for a TRAINER of your own: the kit's own worker "
				 "has to know the columns");
	if (!format)
		return error_set(err, ERROR_CONFIG, path,
				 "no FORMAT, and the name of %.200s does not tell it: FORMAT is one "
				 "of " ROW_FORMAT_CHOICES "%s",
				 job->data.item[0],
				 job->data.count > 1 ? " (a name with blanks is quoted inside of DATA: "
						       "DATA=\"'my rows.csv'\")"
						     : "");
	if (row_syntax_find(format, job->separator, &syntax, err) != 0)
		return error_wrap(err, path);
	if (!job_kind(job)->foreign && (syntax.format == ROW_BAG) != job_has_documents(job))
		return error_set(err, ERROR_CONFIG,
				 job_place(job, job->format[0] ? "FORMAT" : "MODEL", path),
				 "FORMAT=bag is for MODEL=lda, and MODEL=lda for no other format; "
				 "here are FORMAT=%s and MODEL=%s",
				 row_syntax_name(syntax), job->model);
	if (syntax.format != ROW_CSV && (job->label[0] || job->weight[0]))
		return error_set(err, ERROR_CONFIG,
				 job_place(job, job->label[0] ? "LABEL" : "WEIGHT", path),
				 "LABEL and WEIGHT name columns of a csv or tsv; FORMAT is %s",
				 row_syntax_name(syntax));
	if (row_is_image(syntax) && (job_kind(job)->foreign || job_is_local(job)))
		return error_set(
			err, ERROR_CONFIG, job_place(job, "FORMAT", path),
			"FORMAT=%s is for the kit's own worker, and rows that stay where they "
			"are: not for TRAINER and PARTITIONS=local",
			row_syntax_name(syntax));
	row_separator_text(syntax.separator, separator);
	if (key_text_set(&job->separator, separator, path, err) != 0)
		return -1;
	return key_text_set(&job->format, row_syntax_name(syntax), path, err);
}

int job_row_syntax(const struct job *job, struct row_syntax *out, struct error *err)
{
	if (strcmp(job->format, JOB_LINES) != 0)
		return row_syntax_find(job->format, job->separator, out, err);
	*out = row_syntax(ROW_LINES);
	return 0;
}

int job_by_links(const struct job *job)
{
	return job_bounds_delay(job) && strcmp(job->fabric, "mlfabric") == 0;
}

int job_bounds_delay(const struct job *job)
{
	return job->delay_max > 0 && !job_has_barrier(job);
}

int job_overlaps(const struct job *job)
{
	return job->delay_max > 0 && strcmp(job->sync, JOB_ALLREDUCE) == 0;
}

int job_has_delay(const struct job *job)
{
	return !job_has_barrier(job) || job_overlaps(job);
}

const char *job_rounds(const struct job *job)
{
	return strcmp(job->fabric, "mlfabric") == 0 ? job->fabric_rounds : "ring";
}

const char *job_balance(const struct job *job)
{
	return balance_is(job->solution) ? job->solution : NULL;
}

uint64_t job_batch_workers(const struct job *job)
{
	return job->batch / job->options.least;
}

const char *job_least_words(const struct job *job, char out[JOB_LEAST_MAX])
{
	snprintf(out, JOB_LEAST_MAX, "SOLUTION=least:%llu samples",
		 (unsigned long long)job->options.least);
	return job->options.least > 1 ? out : "one sample";
}

int job_has_documents(const struct job *job)
{
	return model_has_documents(job->model) && !job_kind(job)->foreign;
}

int job_has_barrier(const struct job *job)
{
	return option_is_choice("bsp|" JOB_ALLREDUCE, job->sync);
}

int job_has_brain(const struct job *job)
{
	return strcmp(job->brain, "off") != 0;
}

struct limits job_limits(const struct job *job)
{
	return (struct limits){.cores = fmax(job->worker_cores, job->server_cores),
			       .memory = job->worker_memory > job->server_memory
						 ? job->worker_memory
						 : job->server_memory};
}

int job_is_local(const struct job *job)
{
	return strcmp(job->partitions, "local") == 0;
}

/* A solution is told what the job is told. */
static int finish_options(struct job *job, const char *path, struct error *err)
{
	const struct solution_option *option;
	for (size_t i = 0; (option = solution_option(i)); i++) {
		char *value = key_text(job, key_find(option->job_key));
		int result = value ? solution_option_set(option, &job->options, value, err)
				   : error_set(err, ERROR_OS, path, "out of memory");
		free(value);
		if (result != 0)
			return -1;
	}
	return 0;
}

/* Refuses parts that a line gave to a head that does not have them. */
static int finish_parts(const struct job *job, struct error *err)
{
	for (const struct key_row *row = key_rows; row < key_rows + key_count; row++) {
		const struct key_row *head = key_family(row->name, key_len(row));
		if (!is_fit(job, row) && origin_of(job, row)->place)
			return error_set(err, ERROR_CONFIG, origin_of(job, row)->place,
					 "%s=%s has no %s, which is of %s", head->name,
					 *(char *const *)key_field(job, head), key_part(row),
					 row->of);
	}
	return 0;
}

/* The table of keys has one default for an option, but a model may have its own. */
static int finish_model(struct job *job, const char *path, struct error *err)
{
	for (const struct model_option *o = model_options(job->model); o && o->name; o++) {
		char key[40];
		snprintf(key, sizeof key, "MODEL %s", o->name);
		if (o->given && !job_is_given(job, key) &&
		    key_text_set(key_field(job, key_find(key)), o->given, path, err) != 0)
			return -1;
	}
	return 0;
}

/* The deadlines as one text, the general one first. */
static int finish_hung(struct job *job, const char *path, struct error *err)
{
	struct pulse_rules rules;
	char *text = family_text(job, key_find("HUNG"), NULL, 1);
	if (!text)
		return error_set(err, ERROR_OS, path, "out of memory");
	free(job->hung);
	job->hung = text;
	return deadline_rules(&rules, text, err) == 0 ? 0 : error_wrap(err, path);
}

const char *job_option(const struct job *job, const char *name)
{
	const struct model_option *o;
	for (size_t i = 0; (o = model_option_at(i)); i++)
		if (strcmp(o->name, name) == 0)
			return job->option[i];
	return NULL;
}

/* Options were checked when they were read. */
void job_model(const struct job *job, struct model_spec *spec)
{
	model_spec_default(spec, job->model);
	for (const struct model_option *o = model_options(job->model); o && o->name; o++)
		if (o->given)
			(void)model_option_set(spec, o, job_option(job, o->name), NULL);
}

unsigned job_labels(const struct job *job)
{
	struct model_spec spec;
	job_model(job, &spec);
	return model_labels_of(&spec);
}

const char *job_labels_word(const struct job *job)
{
	switch (job_labels(job)) {
	case MODEL_CLASS:
		return "class";
	case MODEL_REAL:
		return "real";
	default:
		return "binary";
	}
}

int job_is_given(const struct job *job, const char *key)
{
	return job_place(job, key, NULL) != NULL;
}

const char *job_place(const struct job *job, const char *key, const char *otherwise)
{
	const struct key_row *row = key_find(key);
	const char *place = row && job->origin ? origin_of(job, row)->place : NULL;
	return place ? place : otherwise;
}

int job_file(const struct job *job, size_t i, struct job_file *out)
{
	for (const struct key_row *row = key_rows; row < key_rows + key_count; row++) {
		if (!key_is_file(row))
			continue;
		struct job_list *list = row->kind == KEY_FILES ? key_field(job, row) : NULL;
		char **one = list ? NULL : key_field(job, row);
		size_t count = list ? list->count : (*one)[0] != '\0';
		if (i >= count) {
			i -= count;
			continue;
		}
		*out = (struct job_file){.key = row->name,
					 .index = i,
					 .name = list ? &list->item[i] : one,
					 .origin = origin_of(job, row),
					 .is_program = row->kind == KEY_PROGRAM,
					 .is_late =
						 row->kind == KEY_PLACE || row->kind == KEY_MEMORY};
		return 0;
	}
	return -1;
}

static int finish_names(struct job *job, struct error *err)
{
	struct job_file file;
	for (size_t i = 0; job_file(job, i, &file) == 0; i++)
		if (!file.origin->dir && (!file.is_program || strchr(*file.name, '/')) &&
		    absolute_in(NULL, file.name, err) != 0)
			return -1;
	return 0;
}

/* Keys that are for the kit's own worker, or for another kind of trainer. */
static int finish_trainer(const struct job *job, const char *path, struct error *err)
{
	const struct job_kind *kind = job_kind(job);
	const struct {
		int is;
		const char *key, *text;
	} wrong[] = {
		{!kind->foreign && job->samples > 0, "SAMPLES",
		 "SAMPLES is for a TRAINER of your own; the kit's own worker counts the rows of "
		 "DATA"},
		{!kind->foreign && job->each_output[0], "EACH_OUTPUT",
		 "EACH_OUTPUT is for a TRAINER of your own"},
		{!kind->foreign, "", NULL},
		{job->samples > 0 && job->data.count > 0, "SAMPLES",
		 "SAMPLES and DATA both say how many samples there are: give one of them"},
		{job->samples == 0 && job->data.count == 0, "",
		 "no SAMPLES and no DATA: how many samples are there? Give SAMPLES=N, or DATA, and "
		 "its rows are counted"},
		{kind->given == GIVEN_ROWS && job->data.count == 0, "TRAINER_KIND",
		 "TRAINER_KIND=rows gives rows of DATA, but there is no DATA"},
		{job->each_output[0] && kind->given != GIVEN_SHARD, "EACH_OUTPUT",
		 "EACH_OUTPUT is for TRAINER_KIND=each"},
		{job->test.count > 0, "TEST",
		 "TEST is scored with models of the kit; a TRAINER scores its own"},
		{job->init[0] != '\0', "INIT",
		 "INIT has parameters of the kit; a TRAINER loads its own"},
		{strcmp(job->sync, JOB_ALLREDUCE) == 0 && kind->lead == LEAD_NONE, "SYNC",
		 "SYNC=" JOB_ALLREDUCE " adds up gradients of an iteration, and only "
				       "TRAINER_KIND=loop has iterations"},
		{job_overlaps(job), "SYNC delay",
		 "SYNC=" JOB_ALLREDUCE ",delay:1 sums while the next batch is computed, but a TRAINER "
				       "makes its step before it asks for a batch"},
		{job->delay_max > 0, "SYNC delay",
		 "SYNC delay drops pushes, but what a TRAINER has trained is in its own parameters, "
		 "and can't be dropped"},
		{job_is_local(job), "PARTITIONS", "PARTITIONS=local is for the kit's own worker"},
		{job->hot_spares > 0 && !kind->sums, "WORKERS spares",
		 "WORKERS spares: where TRAINERs end, all of them begin again (SYNC=bsp), or it alone (each, "
		 "rows), and a spare would spare nothing; SYNC=" JOB_ALLREDUCE " can have spares"},
		{kind->lead == LEAD_NONE && strcmp(job->solution, "none") != 0, "SOLUTION",
		 "SOLUTION decides on iterations, which only TRAINER_KIND=loop has"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (wrong[i].is)
			return !wrong[i].text ? 0
					      : error_set(err, ERROR_CONFIG,
							  job_place(job, wrong[i].key, path), "%s",
							  wrong[i].text);
	return 0;
}

/* A brain plans workers and servers: there must be room for both. */
static int finish_brain(const struct job *job, const char *path, struct error *err)
{
	if (!job_has_brain(job) || job->cores != 1)
		return 0;
	return error_set(err, ERROR_CONFIG, job_place(job, "BRAIN cores", path),
			 "BRAIN=cores:1: a worker and a server need one core each, at least 2 "
			 "together");
}

static int finish_rate(struct job *job, const char *path, struct error *err)
{
	struct error why = {0};
	struct opt opt;

	if (opt_by_name(&opt, job->optimizer, err) != 0)
		return -1;
	const struct opt_rate rate = {.schedule = job->schedule,
				      .beta = job->rate_beta,
				      .steps = job->rate_steps,
				      .factor = job->rate_factor,
				      .warmup = job->warmup,
				      .decay = job->decay};
	if (opt_set_rate(&opt, &rate, &why) != 0) {
		char key[40];
		snprintf(key, sizeof key, "OPTIMIZER %.20s", why.place);
		return error_set(err, ERROR_CONFIG, job_place(job, key, path), "%s: %s", key,
				 why.text);
	}
	if (!isnan(job->lr))
		return 0;
	if ((opt.schedule == OPT_SQRT || opt.schedule == OPT_ADADELAY) && opt.kind != OPT_ADAGRAD)
		return error_set(
			err, ERROR_CONFIG, job_place(job, "OPTIMIZER schedule", path),
			"OPTIMIZER=%s,schedule:%s divides lr by the root of the steps: give lr, "
			"which auto does not know",
			job->optimizer, job->schedule);
	job->lr = opt_usual_lr(job->optimizer);
	return 0;
}

int job_finish(struct job *job, const char *path, struct error *err)
{
	char least[JOB_LEAST_MAX];
	if (!job->name[0])
		return error_set(err, ERROR_CONFIG, path,
				 "no JOB: a job needs a name, like JOB=try");
	if (finish_trainer(job, path, err) != 0)
		return -1;
	if (job->data.count == 0 && !job_kind(job)->foreign)
		return error_set(err, ERROR_CONFIG, path,
				 "no DATA: which file is to be trained on?");
	if (refuse_stdin(job, "DATA", path, err) != 0 || refuse_stdin(job, "TEST", path, err) != 0)
		return -1;
	if (finish_format(job, path, err) != 0)
		return -1;
	/* A card has a size below which it is idle, and one that its memory holds. */
	int is_card = !job_kind(job)->foreign && model_device_is_card(job->device);
	const char *profile = is_card || strcmp(job->solution, "antdt-dd") == 0 ? "on" : "off";
	if (!job->profile[0] && key_text_set(&job->profile, profile, path, err) != 0)
		return -1;
	if (finish_parts(job, err) != 0 || finish_model(job, path, err) != 0 ||
	    finish_hung(job, path, err) != 0)
		return -1;
	if (isnan(job->heavy_window))
		job->heavy_window = job->longer;
	if (finish_rate(job, path, err) != 0)
		return -1;
	if (job_is_local(job) && job->data.count != job->workers)
		return error_set(err, ERROR_CONFIG, job_place(job, "PARTITIONS", path),
				 "PARTITIONS=local needs a file of DATA for each worker: %zu files, "
				 "WORKERS=%llu",
				 job->data.count, (unsigned long long)job->workers);
	if (job_is_local(job) && job->hot_spares > 0)
		return error_set(err, ERROR_CONFIG, job_place(job, "WORKERS spares", path),
				 "WORKERS spares: with PARTITIONS=local a spare does not have the "
				 "rows of another worker");
	if (job_is_local(job) && strcmp(job->shuffle, "shards") == 0)
		return error_set(
			err, ERROR_CONFIG, job_place(job, "SHUFFLE", path),
			"PARTITIONS=local has no shards to shuffle: SHUFFLE=none or samples");
	if (job->workers > job_batch_workers(job))
		return error_set(err, ERROR_CONFIG, job_place(job, "WORKERS", path),
				 "BATCH=%llu is less than %s for each of WORKERS=%llu",
				 (unsigned long long)job->batch, job_least_words(job, least),
				 (unsigned long long)job->workers);
	if (job_balance(job) && strcmp(job->batch_scaling, "none") != 0)
		return error_set(err, ERROR_CONFIG, job_place(job, "BATCH scaling", path),
				 "SOLUTION=%s shares BATCH at every barrier: BATCH=scaling:none",
				 job->solution);
	if (job->more_hosts > 0 && (job_kind(job)->holds == HOLD_REPLICAS || job_is_local(job)))
		return error_set(err, ERROR_CONFIG, job_place(job, "LAUNCHER more", path),
				 "LAUNCHER more requests further hosts for workers, but with %s "
				 "workers can't run there",
				 job_is_local(job) ? "PARTITIONS=local" : "SYNC=" JOB_ALLREDUCE);
	if (job->more_hosts == 0 && job->preemptible[0])
		return error_set(err, ERROR_CONFIG, job_place(job, "LAUNCHER preemptible", path),
				 "LAUNCHER preemptible is for further hosts, but LAUNCHER more is "
				 "0");
	if (job->longer < job->shorter)
		return error_set(err, ERROR_CONFIG, job_place(job, "MONITOR long", path),
				 "MONITOR=long:%g is shorter than short:%g", job->longer,
				 job->shorter);
	if (job->eval_every > 0 && job->test.count == 0)
		return error_set(err, ERROR_CONFIG, job_place(job, "EVAL", path),
				 "EVAL scores TEST now and then, but there is no TEST");
	if (job->patience > 0 && job->eval_every == 0)
		return error_set(
			err, ERROR_CONFIG, job_place(job, "EVAL patience", path),
			"EVAL patience counts scores of TEST, but TEST is scored only at the "
			"end: give EVAL=SECONDS");
	if (job_balance(job) && !job_has_barrier(job))
		return error_set(err, ERROR_CONFIG, job_place(job, "SOLUTION", path),
				 "SOLUTION=%s sets sizes at the barrier; SYNC=%s has none: SYNC=bsp "
				 "and SYNC=" JOB_ALLREDUCE " have one",
				 job->solution, job->sync);
	if (finish_brain(job, path, err) != 0)
		return -1;
	if (finish_options(job, path, err) != 0 || finish_metrics(job, err) != 0)
		return -1;
	return finish_names(job, err);
}

/* Heads are written by their names, like parts. */
static int write_keys(const struct job *job, FILE *out, struct error *err)
{
	for (const struct key_row *row = key_rows; row < key_rows + key_count; row++) {
		if (row != key_family(row->name, key_len(row)) || row->kind == KEY_INCLUDE)
			continue;
		char key[JOBTEXT_KEY_MAX], *value = family_text(job, row, NULL, 0);
		size_t max = value ? 2 * strlen(value) + 80 : 0;
		char *line = value ? malloc(max) : NULL;
		snprintf(key, sizeof key, "%.*s", (int)key_len(row), row->name);
		if (line && jobtext_format(key, value, line, max) > 0)
			fprintf(out, "%s\n", line);
		free(value);
		free(line);
		if (!line)
			return error_set(err, ERROR_OS, key, "out of memory");
	}
	return 0;
}

/* A comma ends the value of a part. */
static int refuse_commas(const struct job *job, struct error *err)
{
	for (const struct key_row *row = key_rows; row < key_rows + key_count; row++) {
		char *value = key_part(row) ? key_text(job, row) : NULL;
		int has = value && strchr(value, ',') != NULL;
		free(value);
		if (has)
			return error_set(err, ERROR_CONFIG, origin_of(job, row)->place,
					 "%s: its value has a comma, which separates parts: use a "
					 "link whose name has none", row->name);
	}
	return 0;
}

int job_write(const struct job *job, const char *path, struct error *err)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = grow_stream(&text, &len);
	if (!out)
		return error_set(err, ERROR_OS, path, "out of memory");
	int result = refuse_commas(job, err);
	if (result == 0)
		result = write_keys(job, out, err);
	if (fclose(out) != 0)
		result = error_set(err, ERROR_OS, path, "out of memory");
	if (result == 0)
		result = fs_replace_file(path, text, len, err);
	free(text);
	return result;
}

/* A stopped job can go on with another value of these; a finished one would have to train again. */
static int job_is_late(const struct key_row *row)
{
	return strncmp(row->name, "OPTIMIZER ", 10) == 0 || strcmp(row->name, "TEST") == 0 ||
	       strcmp(row->name, "BATCH") == 0;
}

/* The lead runs a method that sets sizes at every barrier, from its start to its end. */
static enum job_change change_of(const struct key_row *row, const struct job *old,
				 const struct job *now, int finished)
{
	const char *before = job_balance(old), *after = job_balance(now);
	if (strcmp(row->name, "TRAINER") == 0 && job_kind(old)->foreign != job_kind(now)->foreign)
		return JOB_CHANGE_FRESH;
	if (finished && job_is_late(row))
		return JOB_CHANGE_FRESH;
	if (strcmp(row->name, "BATCH") == 0 && job_is_local(old)) /* by it rows move to others */
		return JOB_CHANGE_FRESH;
	if (strcmp(row->name, "SOLUTION") == 0 &&
	    strcmp(before ? before : "", after ? after : "") != 0)
		return JOB_CHANGE_STOPPED;
	if (strcmp(row->name, "SOLUTION least") == 0 && before)
		return JOB_CHANGE_STOPPED;
	return row->change;
}

/* Long values, and values that look alike, do not help the reader. */
static size_t job_add_change(char *keys, size_t at, const char *key, const char *old,
			     const char *now)
{
	char values[2 * CHANGE_SHOWN + 16] = "";
	const char *comma = at > 0 ? ", " : "";
	if (old[0] && now[0] && strlen(old) <= CHANGE_SHOWN && strlen(now) <= CHANGE_SHOWN)
		snprintf(values, sizeof values, " (%s, not %s)", old, now);
	if (at + strlen(key) + strlen(values) + 3 >= JOB_KEYS_MAX)
		return at;
	return at + (size_t)snprintf(keys + at, JOB_KEYS_MAX - at, "%s%s%s", comma, key, values);
}

enum job_change job_compare(const struct job *old, const struct job *now, int finished, char *keys)
{
	enum job_change gravest = JOB_SAME;
	size_t at = 0;
	keys[0] = '\0';
	for (const struct key_row *row = key_rows; row < key_rows + key_count; row++) {
		char *a = key_text(old, row), *b = key_text(now, row);
		int differs = a && b && strcmp(a, b) != 0;
		enum job_change change = change_of(row, old, now, finished);
		if (differs && change >= gravest) {
			at = change > gravest ? 0 : at;
			gravest = change;
			at = job_add_change(keys, at, row->name, a, b);
		}
		free(a);
		free(b);
	}
	return gravest;
}

/* ---- what help says ---- */

uint64_t job_workers_most(void)
{
	return (uint64_t)key_find("WORKERS")->max;
}

uint64_t job_servers_most(void)
{
	return (uint64_t)key_find("SERVERS")->max;
}

int job_key(size_t i, struct job_key *out)
{
	if (i >= key_count)
		return -1;
	const struct key_row *row = &key_rows[i];
	*out = (struct job_key){.key_len = key_len(row),
				.name = row->name,
				.part = key_part(row),
				.given = row->given,
				.help = row->help,
				.section = key_section(row),
				.is_first = row == key_family(row->name, key_len(row)),
				.is_head = row->head != NULL};
	snprintf(out->values, sizeof out->values, "%s%s",
		 row->words && (key_is_number(row) || row->kind == KEY_DEADLINE) ? "N|" : "",
		 row->words ? row->words : "");
	return 0;
}

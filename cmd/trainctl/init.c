/* trainctl init: looks at a data file and writes a job file that trains on it. lib/survey examines
 * the data; this file asks questions and prints. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/fs.h"
#include "base/utf8.h"
#include "base/words.h"
#include "job/job.h"
#include "job/jobtext.h"
#include "survey/plan.h"
#include "survey/survey.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME PROGRAM " init"
#define DATA_MAX 256         /* operands */
#define CLASSES_MAX 20       /* values of a label that are offered */
#define LEFT_OUT_SHOWN 12    /* columns that are named */
#define HEADER_BYTES 65536   /* of a second file, to compare its columns */
#define ANSWER_MAX 1024
#define SAID_MAX 8000        /* options of a command that is offered */

struct call {
	const char *output, *label, *positive, *test, *job;
	struct option_list set;
	uint64_t bytes;
	int force, keys;
	const char *data[DATA_MAX];
	size_t data_count;
	/* found out */
	char file[PATH_MAX]; /* of the job file; "-" for stdout */
	char name[OPTION_ID_MAX];
	char test_name[PATH_MAX], test_why[2 * SURVEY_COMMAND_MAX + SAID_MAX + 2000];
	int asks; /* there is a terminal, so questions can be asked */
};

/* ---- questions ---- */

/* An answer in line[ANSWER_MAX], without its newline; "" for enter. */
static int init_ask(const char *question, const char *usual, char *line, struct error *err)
{
	fprintf(stderr, "%s [%s]: ", question, usual);
	fflush(stderr);
	if (!fgets(line, ANSWER_MAX, stdin))
		return error_set(err, ERROR_USAGE, NULL, "no answer");
	line[strcspn(line, "\r\n")] = '\0';
	return 0;
}

/* 1..count as a number; 0: it is none. */
static size_t init_number_of(const char *answer, size_t count)
{
	char *end;
	unsigned long n = strtoul(answer, &end, 10);
	return answer[0] && *end == '\0' && n >= 1 && n <= count ? (size_t)n : 0;
}

/* Prints text of a data file safely on a terminal. */
static const char *plain(const char *text, char out[COLUMN_SHOWN + 1])
{
	snprintf(out, COLUMN_SHOWN + 1, "%s", text);
	error_plain(out);
	return out;
}

static int ask_label(const struct survey *s, const char *path, const struct survey_label *label,
		     size_t count, size_t *chosen, struct error *err)
{
	char classes[SURVEY_CLASSES_MAX], answer[ANSWER_MAX], name[COLUMN_SHOWN + 1];
	fprintf(stderr, "Which column is the model to learn?\n");
	for (size_t i = 0; i < count; i++) {
		survey_classes(&s->column[label[i].column], classes);
		fprintf(stderr, "  %zu  %-20s %s\n", i + 1,
			plain(s->column[label[i].column].name, name), classes);
	}
	for (;;) {
		if (init_ask("Its number, or the name of any column", "1", answer, err) != 0)
			return -1;
		size_t n = answer[0] ? init_number_of(answer, count) : 1;
		*chosen = n > 0 ? label[n - 1].column : survey_column(s, path, answer, err);
		if (*chosen != SIZE_MAX)
			return 0;
		fprintf(stderr, "%s\n", err->text);
	}
}

static int ask_positive(const struct column *c, const size_t *index, size_t count, int usual,
			size_t *chosen, struct error *err)
{
	char answer[ANSWER_MAX], number[COLUMN_COUNT_MAX], text[COLUMN_SHOWN + 1], first[24] = "1";
	fprintf(stderr, "Which value of %s means 1 (what you look for)?\n", plain(c->name, text));
	for (size_t i = 0; i < count; i++) {
		fprintf(stderr, "  %zu  %-20s %s rows\n", i + 1,
			plain(c->value[index[i]].text, text),
			column_count(c->value[index[i]].count, number));
		if ((int)index[i] == usual)
			snprintf(first, sizeof first, "%zu", i + 1);
	}
	for (;;) {
		if (init_ask("Its number, or the value", first, answer, err) != 0)
			return -1;
		size_t n = init_number_of(answer[0] ? answer : first, count);
		for (size_t i = 0; n == 0 && i < count; i++)
			if (strcmp(c->value[index[i]].text, answer) == 0)
				n = i + 1;
		if (n > 0) {
			*chosen = index[n - 1];
			return 0;
		}
	}
}

/* ---- the label ---- */

static int no_label(const struct survey *s, const char *path, const struct survey_label *label,
		    size_t count, struct error *err)
{
	char list[300] = "", name[COLUMN_SHOWN + 1];
	for (size_t i = 0, at = 0; i < count && at < sizeof list; i++)
		at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "",
				       plain(s->column[label[i].column].name, name));
	return error_set(err, ERROR_USAGE, path,
			 "which column is the label? Give it with --label NAME; likely: %s", list);
}

static int choose_label(const struct call *call, const struct survey *s, size_t *chosen,
			struct error *err)
{
	struct survey_label label[SURVEY_LABELS_MAX];
	const char *path = call->data[0];
	*chosen = 0;
	if (s->count == 0)
		return call->label || call->positive
			       ? error_set(err, ERROR_USAGE, call->label ? "--label" : "--positive",
					   row_is_image(s->syntax)
						   ? "the labels of images are classes; POSITIVE in the "
						     "job file may say which one means 1"
						   : "documents (a bag file) have no label")
			       : 0;
	if (s->syntax.format != ROW_CSV)
		return call->label ? error_set(err, ERROR_USAGE, "--label",
					       "the label of a %s file is the first word of a row",
					       row_syntax_name(s->syntax))
				   : 0;
	if (call->label) {
		*chosen = survey_column(s, path, call->label, err);
		if (*chosen == SIZE_MAX)
			return -1;
		if (s->column[*chosen].twin)
			return error_set(err, ERROR_DATA, path,
					 "two columns are called '%.80s': rename one", call->label);
		return 0;
	}
	size_t count = survey_labels(s, label);
	if (count == 0)
		return error_set(err, ERROR_DATA, path,
				 "no column looks like a label: none has 2 to 20 different values "
				 "(in the %llu rows looked at). Name it with --label; it may hold "
				 "numbers, or more classes",
				 (unsigned long long)s->rows);
	return call->asks ? ask_label(s, path, label, count, chosen, err)
			  : no_label(s, path, label, count, err);
}

/* 0 and 1 need no POSITIVE, nor do -1 and 1 in libsvm. */
static int init_is_plain(const struct survey *s, const struct column *c, const size_t *index,
			 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *text = c->value[index[i]].text;
		if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0 &&
		    (s->syntax.format != ROW_LIBSVM ||
		     (strcmp(text, "-1") != 0 && strcmp(text, "+1") != 0)))
			return 0;
	}
	return count == 2;
}

static int unfit_label(const struct column *c, const char *path, struct error *err)
{
	if (column_present(c) == 0 || c->distinct == 1)
		return error_set(err, ERROR_DATA, path,
				 "label '%.80s' has only one value in the %llu rows looked at: "
				 "there is nothing to learn",
				 c->name, (unsigned long long)c->rows);
	return error_set(err, ERROR_DATA, path,
			 "label '%.80s' has %llu different values: name the one that means 1 with "
			 "--positive VALUE (all others mean 0)",
			 c->name, (unsigned long long)c->distinct);
}

#define ROWS_A_CLASS 10 /* at least: fewer are too few to learn it from */

/* More than two values: numbers, as they are measured, or classes. */
static const char *model_for(const struct column *c, size_t few)
{
	if (c->numbers == column_present(c) && (c->whole < c->numbers || few == 0))
		return "linear";
	return few > 0 || c->distinct * ROWS_A_CLASS <= c->rows ? "softmax" : NULL;
}

static int said_positive(const struct call *call, const struct column *c, struct error *err)
{
	for (size_t i = 0; i < c->values; i++)
		if (strcmp(c->value[i].text, call->positive) == 0)
			return 0;
	if (c->more_values)
		return 0;
	char classes[SURVEY_CLASSES_MAX];
	survey_classes(c, classes);
	return error_set(err, ERROR_DATA, call->data[0],
			 "no '%.80s' in column '%.80s'; it holds %s", call->positive, c->name,
			 classes);
}

static int choose_positive(const struct call *call, const struct survey *s, struct plan_choices *p,
			   struct error *err)
{
	const struct column *c = &s->column[p->label];
	size_t index[CLASSES_MAX], chosen, count = column_classes(c, index, CLASSES_MAX);
	p->positive_said = 1;
	if (call->positive) {
		p->positive = call->positive;
		if (said_positive(call, c, err) != 0)
			return -1;
	} else if (init_is_plain(s, c, index, count)) {
		return 0;
	} else if (column_present(c) == 0 || c->distinct == 1) {
		return unfit_label(c, call->data[0], err);
	} else if (count != 2) {
		p->model = model_for(c, count);
		return p->model ? 0 : unfit_label(c, call->data[0], err);
	} else {
		int usual = survey_positive(c);
		int known = value_yes(c->value[index[0]].text, c->value[index[1]].text) != 0;
		chosen = (size_t)usual;
		p->positive_said = call->asks && !known;
		if (p->positive_said && ask_positive(c, index, count, usual, &chosen, err) != 0)
			return -1;
		p->positive = c->value[chosen].text;
	}
	for (size_t i = 0; count == 2 && i < 2; i++)
		if (strcmp(c->value[index[i]].text, p->positive) != 0)
			p->negative = c->value[index[i]].text;
	return 0;
}

/* ---- other files ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Whether another file can be read as the one that was looked at. */
static int init_same_columns(const struct survey *s, const char *path, const char *other,
			     struct error *err)
{
	struct survey o;
	if (survey_file(&o, other, HEADER_BYTES, err) != 0)
		return -1;
	int result = 0;
	if (!row_syntax_same(s->syntax, o.syntax))
		result = error_set(err, ERROR_DATA, other, "is written as %s, %.200s as %s",
				   row_syntax_name(o.syntax), path, row_syntax_name(s->syntax));
	else if (s->count != o.count)
		result = error_set(err, ERROR_DATA, other, "has %zu columns, %.200s has %zu",
				   o.count, path, s->count);
	for (size_t i = 0; result == 0 && i < s->count; i++)
		if (strcmp(s->column[i].name, o.column[i].name) != 0)
			result = error_set(err, ERROR_DATA, other,
					   "column %zu is '%.80s', in %.200s it is '%.80s'", i + 1,
					   o.column[i].name, path, s->column[i].name);
	survey_free(&o);
	return result;
}

/* The first name, in the order of the alphabet, that looks like the test file of the data. */
static int find_beside(const char *path, char found[PATH_MAX])
{
	char dir[PATH_MAX];
	struct dirent *entry;
	const char *name = base_name(path);
	found[0] = '\0';
	fs_dirname(path, dir, sizeof dir);
	DIR *d = opendir(dir);
	while (d && (entry = readdir(d)))
		if (survey_is_test(name, entry->d_name) &&
		    (!found[0] || strcmp(entry->d_name, base_name(found)) < 0))
			snprintf(found, PATH_MAX, "%.*s%s", (int)(name - path), path,
				 entry->d_name);
	if (d)
		closedir(d);
	return found[0] != '\0';
}

/* Adds an option and its value, if there is one, to a command; option "": a file. */
static void add_option(char said[SAID_MAX], const char *option, const char *value)
{
	char quoted[WORDS_QUOTED(500)];
	size_t at = strlen(said);
	if (value)
		snprintf(said + at, SAID_MAX - at, "%s %s", option,
			 words_quote(value, quoted, sizeof quoted));
}

/* The last command has all that this one was told. */
static void tell_split(struct call *call, const struct survey *s, const struct plan_choices *p)
{
	const char *path = call->data[0], *ending = survey_ending(s);
	char name[OPTION_ID_MAX + 16], said[SAID_MAX] = "";
	char test[SURVEY_COMMAND_MAX], train[SURVEY_COMMAND_MAX];
	/* Never the file that is read. */
	snprintf(name, sizeof name, "%s-train.%s", call->name, ending);
	snprintf(name, sizeof name, "%s%s", call->name,
		 strcmp(name, base_name(path)) == 0 ? "-split" : "");
	for (size_t i = 1; i < call->data_count; i++)
		add_option(said, "", call->data[i]);
	if (s->syntax.format == ROW_CSV)
		add_option(said, " --label", s->column[p->label].name);
	add_option(said, " --positive", p->positive_said ? p->positive : NULL);
	add_option(said, " --output", call->output);
	add_option(said, " --job", call->job);
	for (size_t i = 0; i < call->set.count; i++)
		add_option(said, " --set", call->set.item[i]);
	snprintf(call->test_why, sizeof call->test_why,
		 "no file to score was found beside DATA; without one nobody knows how good the "
		 "model is.\nThese commands put every tenth row into a test file, and all others "
		 "into DATA:\n  %s > %s-test.%s\n  %s > %s-train.%s\n  trainctl init "
		 "%s-train.%s%s --force\n",
		 survey_split(s, path, 0, test), name, ending, survey_split(s, path, 1, train),
		 name, ending, name, ending, said);
}

/* A model that is scored with rows that it was trained on looks better than it is. */
static int is_apart(const struct call *call, const char *test, struct error *err)
{
	struct stat a, b;
	for (size_t i = 0; i < call->data_count; i++)
		if (stat(test, &a) == 0 && stat(call->data[i], &b) == 0 && a.st_dev == b.st_dev &&
		    a.st_ino == b.st_ino)
			return error_set(
				err, ERROR_USAGE, test,
				"is a file of DATA, so it can't be the file to score; name it "
				"once, with --test");
	return 0;
}

static int choose_test(struct call *call, const struct survey *s, const struct plan_choices *p,
		       struct error *err)
{
	struct error why;
	const char *path = call->data[0];
	if (call->test) {
		snprintf(call->test_name, sizeof call->test_name, "%s", call->test);
		return is_apart(call, call->test, err) != 0
			       ? -1
			       : init_same_columns(s, path, call->test, err);
	}
	if (!find_beside(path, call->test_name)) {
		if (row_is_image(s->syntax))
			snprintf(call->test_why, sizeof call->test_why,
				 "no file to score was found beside DATA; --test names one\n");
		else
			tell_split(call, s, p);
		return 0;
	}
	if (is_apart(call, call->test_name, &why) == 0 &&
	    init_same_columns(s, path, call->test_name, &why) == 0) {
		snprintf(call->test_why, sizeof call->test_why,
			 "found beside DATA, with the same columns; it is scored at the end\n");
		return 0;
	}
	snprintf(call->test_why, sizeof call->test_why, "%.1000s is not taken: %.300s",
		 call->test_name, why.text);
	error_plain(call->test_why);
	strcat(call->test_why, "\n");
	call->test_name[0] = '\0';
	return 0;
}

/* A name for the job file: as given if data and job file are in this directory, else the full
 * path. */
static int job_path(const struct call *call, const char *path, char out[PATH_MAX],
		    struct error *err)
{
	char here[PATH_MAX];
	int beside = !strchr(call->file, '/');
	if (path[0] == '/' || beside) {
		snprintf(out, PATH_MAX, "%s", path);
		return 0;
	}
	if (!getcwd(here, sizeof here))
		return error_errno(err, ERROR_OS, path, "current directory");
	return fs_join(out, PATH_MAX, here, path, err);
}

/* The files as a value of DATA or TEST names them; to be freed. */
static int job_paths(const struct call *call, const char *const *path, size_t count, char **out,
		     struct error *err)
{
	char **item = calloc(count + 1, sizeof *item), one[PATH_MAX];
	int result = item ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; result == 0 && i < count; i++) {
		result = job_path(call, path[i], one, err);
		if (result == 0 && !(item[i] = strdup(one)))
			result = error_set(err, ERROR_OS, NULL, "out of memory");
	}
	*out = result == 0 ? words_join(item, count) : NULL;
	if (result == 0 && !*out)
		result = error_set(err, ERROR_OS, NULL, "out of memory");
	words_free(item, count);
	return result;
}

/* ---- the job file ---- */

struct reading {
	struct job *job;
	const char *file;
};

static int init_take(const char *key, const char *value, size_t line, void *arg, struct error *err)
{
	struct reading *r = arg;
	char place[ERROR_PLACE_MAX];
	snprintf(place, sizeof place, "%.400s:%zu", r->file, line);
	return job_set(r->job, key, value, place, err);
}

/* Refuse here what trainctl run would refuse, before anything is written. */
static int init_check(const char *file, const char *text, size_t len, struct error *err)
{
	struct job job;
	if (job_init(&job, err) != 0)
		return -1;
	struct reading reading = {&job, file};
	int result = jobtext_parse(file, text, len, init_take, &reading, err);
	if (result == 0)
		result = job_finish(&job, file, err);
	job_free(&job);
	return result;
}

static int init_fill(int fd, const char *path, void *arg, struct error *err)
{
	const char *text = arg;
	return fs_write_all(fd, text, strlen(text), path, err);
}

static int init_write_file(const struct call *call, char *text, struct error *err)
{
	if (strcmp(call->file, "-") == 0)
		return fputs(text, stdout) < 0 ? error_errno(err, ERROR_IO, "stdout", "write") : 0;
	/* Whole or not at all: half a job file would be a job file, too. */
	return (call->force ? fs_replace : fs_create)(call->file, 0666, init_fill, text, err);
}

static int has_parts(const char *name)
{
	struct job_key key;
	size_t i = 0, len = strlen(name);
	while (job_key(i, &key) == 0 && (key.key_len != len || memcmp(key.name, name, len) != 0))
		i++;
	return job_key(i, &key) == 0 && key.part;
}

/* A later line of a key with parts replaces only the parts that it names. */
static int init_set_given(struct jobfile *f, const struct option_list *set, struct error *err)
{
	for (size_t i = 0; i < set->count; i++) {
		char key[JOBTEXT_KEY_MAX];
		const char *equals = strchr(set->item[i], '=');
		if (!equals || equals == set->item[i] ||
		    (size_t)(equals - set->item[i]) >= sizeof key)
			return error_set(err, ERROR_USAGE, "--set", "'%.80s' is not KEY=VALUE",
					 set->item[i]);
		snprintf(key, sizeof key, "%.*s", (int)(equals - set->item[i]), set->item[i]);
		const char *value = equals + 1, *old = jobfile_get(f, key);
		int is_more = old && has_parts(key) && (strpbrk(old, ",:") || strpbrk(value, ",:"));
		if ((is_more ? jobfile_add : jobfile_set)(f, key, value, "as --set said\n", err) != 0)
			return -1;
	}
	return 0;
}

/* ---- what is said ---- */

static void say_label(FILE *out, const struct survey *s, const struct plan_choices *p)
{
	const struct column *c = &s->column[p->label];
	char classes[SURVEY_CLASSES_MAX], name[COLUMN_SHOWN + 1], value[COLUMN_SHOWN + 1];
	survey_classes(c, classes);
	fprintf(out, "  label    %s: %s", plain(c->name, name), classes);
	int known = p->positive && p->negative && value_yes(p->positive, p->negative) == 1;
	if (p->model && strcmp(p->model, "softmax") == 0)
		fprintf(out, "; %llu classes: MODEL=softmax (--positive VALUE makes two of them)",
			(unsigned long long)c->distinct);
	else if (p->model)
		fprintf(out, "; numbers: MODEL=%s", p->model);
	if (p->positive)
		fprintf(out, "; '%s' means 1%s", plain(p->positive, value),
			p->positive_said || known ? ""
						  : " (a guess: --positive VALUE says otherwise)");
	fputc('\n', out);
}

/* A command to copy, below a line that says what it does. */
static void say_command(FILE *out, const char *text, size_t len)
{
	char line[SURVEY_COMMAND_MAX];
	snprintf(line, sizeof line, "%.*s", len < sizeof line ? (int)len : (int)sizeof line - 1,
		 text);
	error_plain(line);
	fprintf(out, "           %s\n", line);
}

/* The names of columns that are left out, as far as a line has room for them. */
static void say_left_out(FILE *out, const struct survey *s, size_t label)
{
	char name[COLUMN_SHOWN + 1];
	size_t count = 0;
	for (size_t i = 0; i < s->count; i++) {
		struct column_verdict v;
		column_judge(&s->column[i], &v);
		if (i == label || v.use != COLUMN_OUT)
			continue;
		plain(s->column[i].name, name);
		if (count++ < LEFT_OUT_SHOWN)
			fprintf(out, "%s%s", count == 1 ? "  left out " : ", ",
				name[0] ? name : "(no name)");
	}
	if (count > LEFT_OUT_SHOWN)
		fprintf(out, " and %zu more", count - LEFT_OUT_SHOWN);
	if (count > 0)
		fputc('\n', out);
}

static void say_bad_rows(FILE *out, const struct survey *s, size_t label, const char *bad)
{
	char number[COLUMN_COUNT_MAX];
	fprintf(out, "  bad rows BAD_ROWS=%s: some rows can't be used", bad);
	if (s->column[label].absent > 0)
		fprintf(out, "; without a label: %s",
			column_count(s->column[label].absent, number));
	if (s->ragged > 0)
		fprintf(out, "; line %llu is the first, with %zu columns of %zu",
			(unsigned long long)s->ragged_line, s->ragged_fields, s->count);
	fputc('\n', out);
}

static void say_test(FILE *out, const struct call *call)
{
	if (call->test_name[0]) {
		fprintf(out, "  test     %s%s\n", call->test_name,
			call->test ? "" : ", found beside it");
		return;
	}
	/* Prints the commands in a reason. */
	const char *split = strstr(call->test_why, "\n  ");
	fprintf(out, "  test     none: %s",
		split ? "nobody will know how good the model is; these commands make one of "
			"every tenth row:\n"
		      : call->test_why);
	for (const char *p = split ? split + 1 : ""; *p;) {
		size_t n = strcspn(p, "\n");
		say_command(out, p + strspn(p, " "), n - strspn(p, " "));
		p += n + (p[n] == '\n');
	}
}

static void init_say(const struct call *call, const struct survey *s, const struct plan_choices *p,
		     const struct plan_counts *n, const struct jobfile *f)
{
	FILE *out = strcmp(call->file, "-") == 0 ? stderr : stdout;
	char file[WORDS_QUOTED(PATH_MAX)];
	char rows[COLUMN_COUNT_MAX], about[COLUMN_COUNT_MAX], separator[8], name[COLUMN_SHOWN + 1];
	char command[SURVEY_COMMAND_MAX];
	const char *missing = jobfile_get(f, "MISSING"), *bad = jobfile_get(f, "BAD_ROWS");
	row_separator_text(s->syntax.separator, separator);
	fprintf(out, "%s: %s%s%s, ", call->data[0], row_syntax_name(s->syntax),
		row_syntax_is_odd(s->syntax) ? " with " : "",
		row_syntax_is_odd(s->syntax) ? separator : "");
	if (s->whole)
		fprintf(out, "%s rows\n", column_count(s->rows, rows));
	else
		fprintf(out, "about %s rows (looked at the first %s, %.1f MB)\n",
			column_count(s->rows_about, about), column_count(s->rows, rows),
			(double)s->bytes / 1e6);
	if (s->count > 0)
		say_label(out, s, p);
	else if (row_is_image(s->syntax))
		fprintf(out, "  images   %s (height, width, channels); labels are classes\n",
			s->image);
	else
		fprintf(out, "  words    %.1f different ones in a document\n", s->features);
	if (s->syntax.format == ROW_CSV)
		fprintf(out, "  columns  %zu of numbers, %zu of categories, %zu left out\n",
			n->dense, n->sparse, n->out);
	if (s->syntax.format == ROW_CSV)
		say_left_out(out, s, p->label);
	if (missing)
		fprintf(out, "  missing  MISSING=%s: such values are read as empty ones\n",
			missing);
	if (bad)
		say_bad_rows(out, s, p->label, bad);
	if (s->not_utf8 > 0) {
		fprintf(out, "  text     line %llu is not UTF-8, and is used unchanged; if it is "
			     "Latin-1:\n",
			(unsigned long long)s->not_utf8);
		survey_recode(s, call->data[0], call->name, command);
		say_command(out, command, strlen(command));
	}
	if (s->count > 0 && survey_sorted(&s->column[p->label])) {
		fprintf(out, "  order    rows are sorted by the label; this command shuffles "
			     "them:\n");
		survey_shuffle(s, call->data[0], call->name, command);
		say_command(out, command, strlen(command));
	}
	for (size_t i = 0; i < s->count; i++)
		if (s->column[i].tells)
			fprintf(out, "  look at  %s: it tells the label of every row; is it known "
				     "before the label is?\n", plain(s->column[i].name, name));
	for (size_t i = 0; i < s->count; i++) {
		struct column_verdict v;
		column_judge(&s->column[i], &v);
		if (i != p->label && v.mend)
			fprintf(out, "  look at  %s: %s%s\n", plain(s->column[i].name, name),
				v.use == COLUMN_OUT ? "left out; " : "", v.why);
		if (s->whole && i != p->label && column_rare(&s->column[i], &v))
			fprintf(out, "  look at  %s: few rows for each value; leave it out if they are "
				     "names\n", plain(s->column[i].name, name));
	}
	say_test(out, call);
	if (strcmp(call->file, "-") == 0)
		return;
	words_quote(call->file, file, sizeof file);
	error_plain(file);
	fprintf(out, "%s is written, with a reason for each guess. Next:\n"
		     "  " PROGRAM " check %s\n  " PROGRAM " run %s\n",
		file, file, file);
}

/* ---- the whole ---- */

static int choose_names(struct call *call, struct error *err)
{
	for (size_t i = 0; i < call->set.count; i++)
		if (strncmp(call->set.item[i], "TRAINER=", strlen("TRAINER=")) == 0)
			return error_set(err, ERROR_USAGE, "--set TRAINER",
					 "init writes job files for the kit's own models; for a "
					 "trainer of your own copy examples/trainer.env, see "
					 "paceline-trainers(7)");
	if (call->job)
		snprintf(call->name, sizeof call->name, "%s", call->job);
	else
		survey_job_name(base_name(call->data[0]), call->name);
	if (call->output)
		snprintf(call->file, sizeof call->file, "%s", call->output);
	else
		snprintf(call->file, sizeof call->file, "%s.env", call->name);
	/* Before any question. */
	if (strcmp(call->file, "-") != 0 && !call->force && access(call->file, F_OK) == 0)
		return error_set(err, ERROR_CANTCREAT, call->file,
				 "is there already; --force overwrites it, -o FILE writes another");
	return 0;
}

/* The label's name and value must be written into the job file exactly as in the data. */
static int init_check_text(const struct call *call, const struct survey *s,
			   const struct plan_choices *p, struct error *err)
{
	char command[SURVEY_COMMAND_MAX];
	const char *const text[] = {s->column[p->label].name, p->positive, p->negative};
	for (size_t i = 0; i < sizeof text / sizeof *text; i++)
		if (text[i] && !utf8_is(text[i], strlen(text[i])))
			return error_set(err, ERROR_DATA, call->data[0],
					 "the label%s '%.60s' is not UTF-8, but a job file must "
					 "be; if it is Latin-1: %.300s",
					 i == 0 ? "" : "'s value", text[i],
					 survey_recode(s, call->data[0], call->name, command));
	return 0;
}

static int init_make(struct call *call, struct survey *s, struct jobfile *f, struct error *err)
{
	struct plan_choices choices = {.file = strcmp(call->file, "-") == 0 ? "JOB.env"
									    : base_name(call->file),
				       .job = call->name,
				       .shown = call->data[0]};
	struct plan_counts counts;
	char *data = NULL, *test = NULL, *text = NULL;
	size_t len;
	int result = choose_label(call, s, &choices.label, err);
	if (result == 0 && s->count > 0)
		result = choose_positive(call, s, &choices, err);
	if (result == 0 && s->count > 0)
		result = init_check_text(call, s, &choices, err);
	if (result == 0 && (!choices.model || strcmp(choices.model, "softmax") == 0))
		result = survey_tells(s, call->data[0], choices.label, choices.positive, err);
	for (size_t i = 1; result == 0 && i < call->data_count; i++)
		result = init_same_columns(s, call->data[0], call->data[i], err);
	if (result == 0)
		result = choose_test(call, s, &choices, err);
	if (result == 0 && call->test_name[0])
		result = job_paths(call, (const char *[]){call->test_name}, 1, &test, err);
	if (result == 0)
		result = job_paths(call, call->data, call->data_count, &data, err);
	choices.data = data;
	choices.test = test;
	choices.test_why = call->test_why;
	if (result == 0)
		result = plan_make(f, s, &choices, &counts, err);
	if (result == 0)
		result = init_set_given(f, &call->set, err);
	if (result == 0)
		result = jobfile_text(f, &text, &len, err);
	if (result == 0)
		result = init_check(call->file, text, len, err);
	if (result == 0)
		result = init_write_file(call, text, err);
	if (result == 0)
		init_say(call, s, &choices, &counts, f);
	free(text);
	free(test);
	free(data);
	return result;
}

static int init(struct call *call, struct error *err)
{
	struct survey s;
	struct jobfile f = {0};
	if (choose_names(call, err) != 0 ||
	    survey_file(&s, call->data[0], call->bytes, err) != 0)
		return -1;
	int result = s.rows > 1 ? init_make(call, &s, &f, err)
				: error_set(err, ERROR_DATA, call->data[0],
					    "has one row only: nothing can be learnt from it");
	if (result != 0 && !err->place[0])
		error_wrap(err, call->data[0]);
	jobfile_free(&f);
	survey_free(&s);
	return result;
}

static int init_parse(const struct option_table *table, int argc, char **argv, struct call *call,
		      struct error *err)
{
	int first, result = option_parse(table, argc, argv, &first, stdout, err);
	if (result != OPTION_GO)
		return result;
	for (; first < argc; first++) {
		if (strcmp(argv[first], "-") == 0)
			return error_set(err, ERROR_USAGE, "-",
					 "a job reads its data again and again: it must be a file");
		if (call->data_count == DATA_MAX)
			return error_set(err, ERROR_USAGE, NULL, "more than %d files", DATA_MAX);
		call->data[call->data_count++] = argv[first];
	}
	if (call->data_count == 0 && !call->keys)
		return error_set(err, ERROR_USAGE, NULL, "init: which data file?");
	return OPTION_GO;
}

static int print_keys(struct error *err)
{
	char *text;
	size_t len;
	if (jobfile_keys(&text, &len, err) != 0)
		return -1;
	int result = fputs(text, stdout) < 0 ? error_errno(err, ERROR_IO, "stdout", "write") : 0;
	free(text);
	return result;
}

int trainctl_init(int argc, char **argv)
{
	static struct call call = {.bytes = SURVEY_BYTES};
	const struct option_row rows[] = {
		{.name = "output", .letter = 'o', .kind = OPTION_TEXT, .target = &call.output,
		 .arg = "FILE", .help = "the job file; - for standard output (NAME.env)"},
		{.name = "label", .letter = 'l', .kind = OPTION_TEXT, .target = &call.label,
		 .arg = "COLUMN", .help = "column that the model learns (asked for on a terminal)"},
		{.name = "positive", .letter = 'p', .kind = OPTION_TEXT, .target = &call.positive,
		 .arg = "VALUE", .help = "the label's value that means 1 (of two the rarer)"},
		{.name = "test", .letter = 't', .kind = OPTION_TEXT, .target = &call.test,
		 .arg = "FILE", .help = "file to score at the end (found beside DATA)"},
		{.name = "job", .letter = 'j', .kind = OPTION_ID, .target = &call.job, .arg = "NAME",
		 .help = "the job's name (from that of DATA)"},
		{.name = "set", .letter = 's', .kind = OPTION_LIST, .target = &call.set,
		 .arg = "KEY=VALUE", .help = "another key of the job file; may be repeated"},
		{.name = "bytes", .kind = OPTION_BYTES, .target = &call.bytes, .arg = "N",
		 .help = "how many bytes of DATA to look at", .min = 1024, .max = 1e12},
		{.name = "force", .kind = OPTION_FLAG, .target = &call.force,
		 .help = "overwrite an existing job file"},
		{.name = "keys", .kind = OPTION_FLAG, .target = &call.keys,
		 .help = "print every key with its default, as comments; no DATA is looked at"},
		{0}};
	struct option_table table = {NAME, "DATA... [-o FILE] [OPTION]...\n--keys",
				     "Looks at data and writes a job file that trains on it.", rows,
				     "It waits only for your answers on a terminal."};
	struct error err;
	cmd_parsed(PROGRAM, init_parse(&table, argc, argv, &call, &err), &err);
	if (call.keys)
		return print_keys(&err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
	call.asks = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
	return init(&call, &err) == 0 ? 0 : cmd_fail(PROGRAM, &err);
}

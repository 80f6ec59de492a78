/* plan: see plan.h.  Every guess gets its reason; what a user should look at stands above the key. */
#include "survey/plan.h"

#include "base/grow.h"
#include "base/utf8.h"
#include "base/words.h"
#include "data/schema.h"
#include "job/jobtext.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTED 60         /* columns that are listed one by one, for each use */
#define STEPS 1000        /* iterations that a model of this kind wants, about */
#define BATCH_MAX 1024    /* the default */
#define BATCH_MIN 16
#define STEPS_AN_EPOCH 50 /* at least, as long as BATCH_MIN allows it */
#define EPOCHS_MAX 20
#define PASSES 200        /* of lda's sampler */
#define TOPICS_MAX 100    /* the default */
#define TOPICS_MIN 5
#define TOPIC_ROWS 100    /* documents for each topic, at least */
#define WORKERS 2         /* the default */
#define WDL_ROWS 4000     /* fewer are learnt better by lr */
#define SHARDS_A_WORKER 4 /* shards in an epoch, so that a slow worker can leave some to others */

/* A growing text. */
struct text {
	FILE *out;
	char *bytes;
	size_t len;
};

static int text_open(struct text *t, struct error *err)
{
	*t = (struct text){0};
	t->out = grow_stream(&t->bytes, &t->len);
	return t->out ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
}

/* The text so far, valid until the next print. */
static const char *text_so_far(struct text *t)
{
	return fflush(t->out) == 0 && t->bytes ? t->bytes : "";
}

/* Whether it is all there. */
static int text_whole(struct text *t, struct error *err)
{
	return fflush(t->out) == 0 && !ferror(t->out) ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
}

static void text_close(struct text *t)
{
	if (t->out)
		fclose(t->out);
	free(t->bytes);
}

/* ---- columns ---- */

/* A name for a list of columns: %XX for bytes that would end a name or are not UTF-8. */
static void print_name(FILE *out, const char *name)
{
	for (const char *p = name; *p;) {
		unsigned char c = (unsigned char)*p;
		size_t n = utf8_length(p);
		if (n == 0 || c == ',' || c == '%' || c < 0x20 || c == 0x7f) {
			fprintf(out, "%%%02X", c);
			n = 1;
		} else
			fwrite(p, 1, n, out);
		p += n;
	}
}

struct lists {
	struct text name[3], reason[3]; /* by use; of COLUMN_OUT no names */
	size_t count[3];
	char missing[200]; /* spellings of columns that are not left out, separated by commas */
};

/* The columns of one use, a line each; the rest is counted. */
static void survey_plan_tell(struct lists *l, enum column_use use, const char *name,
			     const char *why)
{
	char plain[COLUMN_SHOWN + 1];
	snprintf(plain, sizeof plain, "%s", name[0] ? name : "(no name)");
	error_plain(plain);
	if (l->count[use] <= LISTED)
		fprintf(l->reason[use].out, "  %-20s %s\n", plain, why);
}

/* A list in a job file has a limited length. */
static int survey_plan_has_room(struct lists *l, enum column_use use, const char *name)
{
	text_so_far(&l->name[use]);
	return l->count[use] < SCHEMA_COLUMNS_MAX &&
	       l->name[use].len + 3 * strlen(name) + 2 < JOBTEXT_VALUE_MAX;
}

static void note_missing(struct lists *l, const struct column *c)
{
	for (size_t i = 1; i < VALUE_SPELLINGS; i++) {
		size_t at = strlen(l->missing);
		char item[16], all[sizeof l->missing + 2];
		snprintf(item, sizeof item, ",%s,", value_spelling(i));
		snprintf(all, sizeof all, ",%s,", l->missing);
		if (c->missing[i] > 0 && !strstr(all, item))
			snprintf(l->missing + at, sizeof l->missing - at, "%s%s", at > 0 ? "," : "",
				 value_spelling(i));
	}
}

static void sort_column(struct lists *l, const struct column *c, int whole)
{
	struct column_verdict v;
	column_judge(c, &v);
	if (whole && column_rare(c, &v)) {
		size_t at = strlen(v.why);
		snprintf(v.why + at, sizeof v.why - at,
			 "; few rows for each: leave it out if they are names");
	}
	if (v.use != COLUMN_OUT && !survey_plan_has_room(l, v.use, c->name)) {
		v.use = COLUMN_OUT;
		snprintf(v.why, sizeof v.why, "more columns than a job file has room for");
	}
	if (v.use != COLUMN_OUT) {
		if (l->count[v.use] > 0)
			fputc(',', l->name[v.use].out);
		print_name(l->name[v.use].out, c->name);
	}
	if (v.use != COLUMN_OUT)
		note_missing(l, c);
	l->count[v.use]++;
	survey_plan_tell(l, v.use, c->name, v.why);
}

static int lists_make(struct lists *l, const struct survey *s, size_t label, struct error *err)
{
	static const char *const head[] = {
		"numbers, scaled (MODEL scale):",
		"categories, each value with weights of its own:",
		"left out:"};
	*l = (struct lists){0};
	for (int use = 0; use < 3; use++) {
		if (text_open(&l->name[use], err) != 0 || text_open(&l->reason[use], err) != 0)
			return -1;
		fprintf(l->reason[use].out, "%s\n", head[use]);
	}
	for (size_t i = 0; i < s->count; i++)
		if (i != label)
			sort_column(l, &s->column[i], s->whole);
	for (int use = 0; use < 3; use++)
		if (l->count[use] > LISTED)
			fprintf(l->reason[use].out, "  and %zu more\n", l->count[use] - LISTED);
	return 0;
}

static void lists_free(struct lists *l)
{
	for (int use = 0; use < 3; use++) {
		text_close(&l->name[use]);
		text_close(&l->reason[use]);
	}
}

static int no_columns(const struct survey *s, size_t label, struct error *err)
{
	char why[400] = "";
	for (size_t i = 0, at = 0; i < s->count && at < sizeof why; i++) {
		struct column_verdict v;
		column_judge(&s->column[i], &v);
		if (i != label)
			at += (size_t)snprintf(why + at, sizeof why - at, "%s %s: %s", at > 0 ? ";" : "",
					       s->column[i].name, v.why);
	}
	return error_set(err, ERROR_DATA, NULL,
			 "no column besides the label is good for training:%s", why);
}

/* Columns that are left out come last. */
static int set_lists(struct jobfile *f, struct lists *l, struct error *err)
{
	static const char *const key[] = {"DENSE", "SPARSE"};
	for (int use = 0; use < 2; use++)
		if (text_whole(&l->name[use], err) != 0 || text_whole(&l->reason[use], err) != 0)
			return -1;
		else if (l->count[use] > 0 && jobfile_set(f, key[use], text_so_far(&l->name[use]),
						     text_so_far(&l->reason[use]), err) != 0)
			return -1;
	return 0;
}

/* ---- data ---- */

static int set_head(struct jobfile *f, const struct survey *s, const struct plan_choices *c,
		    struct lists *l, struct error *err)
{
	struct text t;
	char rows[COLUMN_COUNT_MAX], about[COLUMN_COUNT_MAX], file[WORDS_QUOTED(256)];
	if (text_open(&t, err) != 0)
		return -1;
	fprintf(t.out, "%s: trains on %s. trainctl init wrote it", c->file, c->shown);
	if (s->whole)
		fprintf(t.out, " from all %s rows.\n", column_count(s->rows, rows));
	else
		fprintf(t.out, " from the first %s rows (%.1f MB) of about %s.\n",
			column_count(s->rows, rows), (double)s->bytes / 1e6,
			column_count(s->rows_about, about));
	fprintf(t.out, "Start: trainctl run %s    Other keys: trainctl init --keys, paceline-job(5)\n",
		words_quote(c->file, file, sizeof file));
	int result = 0;
	if (l && l->count[COLUMN_OUT] > 0) {
		result = text_whole(&l->reason[COLUMN_OUT], err);
		fprintf(t.out, "\n%s", text_so_far(&l->reason[COLUMN_OUT]));
	}
	if (result == 0)
		result = text_whole(&t, err) == 0 ? jobfile_head(f, text_so_far(&t), err) : -1;
	text_close(&t);
	return result;
}

static int set_format(struct jobfile *f, const struct survey *s, struct error *err)
{
	char reason[300], separator[8], value[40];
	row_separator_text(s->syntax.separator, separator);
	if (s->syntax.format == ROW_CSV)
		snprintf(reason, sizeof reason, "%zu columns with names in line 1\n", s->count);
	else if (s->syntax.format == ROW_BAG)
		snprintf(reason, sizeof reason,
			 "a document in each row, word:count; %.1f different words in it\n",
			 s->features);
	else if (row_is_image(s->syntax))
		snprintf(reason, sizeof reason,
			 "images of %s (height, width, channels), a byte each; the label is %s\n", s->image,
			 s->syntax.format == ROW_IDX ? "in the file beside that has \"labels\" in its name"
						     : "the byte before an image");
	else if (s->syntax.format == ROW_CRITEO)
		snprintf(reason, sizeof reason,
			 "40 fields between tabs, no names: a label, 13 numbers, 26 categories\n");
	else
		snprintf(reason, sizeof reason, "a label, then index:value; %.1f of them a row\n",
			 s->features);
	int is_odd = row_syntax_is_odd(s->syntax);
	snprintf(value, sizeof value, "%s%s%s", row_syntax_name(s->syntax), is_odd ? ",separator:" : "",
		 is_odd ? separator : "");
	return jobfile_set(f, "FORMAT", value, reason, err);
}

static int set_label(struct jobfile *f, const struct survey *s, const struct plan_choices *c,
		     struct error *err)
{
	char classes[SURVEY_CLASSES_MAX], reason[SURVEY_CLASSES_MAX + 300];
	if (s->count == 0)
		return 0;
	const struct column *label = s->column + c->label;
	survey_classes(label, classes);
	if (s->syntax.format == ROW_CSV) {
		snprintf(reason, sizeof reason, "what the model learns: %s\n", classes);
		if (jobfile_set(f, "LABEL", label->name, reason, err) != 0)
			return -1;
	}
	if (!c->positive)
		return 0;
	int guessed = !c->positive_said &&
		      !(c->negative && value_yes(c->positive, c->negative) == 1);
	snprintf(reason, sizeof reason, "the value of the label that means 1%s%s%s\n",
		 guessed ? ": a guess, it is the rarer one" : "",
		 s->syntax.format == ROW_CSV ? "" : "; there are ",
		 s->syntax.format == ROW_CSV ? "" : classes);
	if (jobfile_set(f, "POSITIVE", c->positive, reason, err) != 0)
		return -1;
	return c->negative ? jobfile_set(f, "NEGATIVE", c->negative, "", err) : 0;
}

/* BAD_ROWS, when the data have rows at which the job would stop: twice as many as are likely. */
static int set_bad_rows(struct jobfile *f, const struct survey *s, const struct plan_choices *c,
			struct error *err)
{
	uint64_t absent = s->count > 0 ? s->column[c->label].absent : 0;
	char reason[400], value[64], number[COLUMN_COUNT_MAX];
	uint64_t bad = s->ragged + absent;
	if (bad == 0)
		return 0;
	size_t at = 0;
	if (s->ragged > 0)
		at += (size_t)snprintf(reason, sizeof reason,
				       "%s rows do not have %zu columns; the first is line %llu, with %zu\n",
				       column_count(s->ragged, number), s->count,
				       (unsigned long long)s->ragged_line, s->ragged_fields);
	if (absent > 0)
		snprintf(reason + at, sizeof reason - at, "%s rows have no label\n",
			 column_count(absent, number));
	snprintf(value, sizeof value, "skip:%.0f",
		 ceil(2 * (double)bad * (double)s->rows_about / (double)s->rows));
	return jobfile_set(f, "BAD_ROWS", value, reason, err);
}

static int set_test(struct jobfile *f, const struct plan_choices *c, struct error *err)
{
	return jobfile_set(f, "TEST", c->test ? c->test : "", c->test_why ? c->test_why : "", err);
}

/* ---- the course ---- */

static int set_count(struct jobfile *f, const char *key, uint64_t n, const char *reason,
		     struct error *err)
{
	char text[24];
	snprintf(text, sizeof text, "%llu", (unsigned long long)n);
	return jobfile_set(f, key, text, reason, err);
}

static uint64_t between(double x, uint64_t min, uint64_t max)
{
	return x < (double)min ? min : x > (double)max ? max : (uint64_t)x;
}

/* A few thousand rows want small batches and several passes, millions want neither. */
static int set_course(struct jobfile *f, const struct survey *s, const struct plan_choices *c,
		      struct error *err)
{
	double rows = (double)s->rows_about;
	char number[COLUMN_COUNT_MAX], reason[SURVEY_COMMAND_MAX + 300], command[SURVEY_COMMAND_MAX];
	char value[64];
	uint64_t batch = BATCH_MIN;
	while (2 * batch <= BATCH_MAX && rows / (2.0 * (double)batch) >= STEPS_AN_EPOCH)
		batch *= 2;
	uint64_t epochs = s->syntax.format == ROW_BAG
				  ? PASSES
				  : between(ceil(STEPS * (double)batch / rows), 1, EPOCHS_MAX);
	uint64_t shard = between(rows / ((double)batch * WORKERS * SHARDS_A_WORKER), 1, 100);
	column_count(s->rows_about, number);
	snprintf(reason, sizeof reason,
		 "rows in an iteration, of all workers together; a worker gets a shard of %llu of them at "
		 "once;\nchosen for %s%s rows\n",
		 (unsigned long long)shard, s->whole ? "" : "about ", number);
	snprintf(value, sizeof value, "%llu,shard:%llu", (unsigned long long)batch,
		 (unsigned long long)shard);
	if (jobfile_set(f, "BATCH", value, reason, err) != 0)
		return -1;
	snprintf(reason, sizeof reason, "passes over DATA: %.0f iterations in all\n",
		 ceil(rows / (double)batch) * (double)epochs);
	if (set_count(f, "EPOCHS", epochs, reason, err) != 0)
		return -1;
	if (s->syntax.format == ROW_BAG) /* the order says nothing to a sampler */
		return 0;
	if (s->count > 0 && survey_sorted(&s->column[c->label])) {
		snprintf(reason, sizeof reason,
			 "DATA is sorted by the label, which makes training worse: shuffle its "
			 "rows once,\n  %s\nthis setting shuffles only within a shard\n",
			 survey_shuffle(s, c->shown, c->job, command));
		return jobfile_set(f, "SHUFFLE", "samples", reason, err);
	}
	return epochs > 1 ? jobfile_set(f, "SHUFFLE", "samples",
					"another order of the rows in each pass\n", err)
			  : 0;
}

static int set_model(struct jobfile *f, const struct survey *s, const struct plan_choices *c,
		     const struct lists *l, struct error *err)
{
	/* wdl if columns may say more together than alone, and there are enough rows to learn
	 * that. */
	char value[40], reason[160];
	if (c->model) {
		int is_class = strcmp(c->model, "softmax") == 0;
		snprintf(reason, sizeof reason, "%s: %s; POSITIVE would make two classes\n",
			 c->model,
			 is_class ? "learns which of the classes a row has"
				  : "linear regression, learns a number");
		if (jobfile_set(f, "MODEL", c->model, reason, err) != 0)
			return -1;
		return is_class ? jobfile_set(f, "OPTIMIZER", "adagrad,lr:0.2",
					      "softmax needs longer steps than lr does\n", err)
				: 0;
	}
	if (s->syntax.format == ROW_BAG) {
		snprintf(value, sizeof value, "lda,topics:%llu",
			 (unsigned long long)between((double)s->rows_about / TOPIC_ROWS, TOPICS_MIN,
						     TOPICS_MAX));
		return jobfile_set(f, "MODEL", value,
				   "topics of documents; how many there are is a guess\n", err);
	}
	if (row_is_image(s->syntax)) {
		snprintf(reason, sizeof reason,
			 "mlp: layers over the pixels; conv,image:%s: convolutions, which learn more and "
			 "take longer\n",
			 s->image);
		if (jobfile_set(f, "MODEL", "mlp,hidden:256", reason, err) != 0)
			return -1;
		return jobfile_set(f, "OPTIMIZER", "adam,lr:0.001", "suits layers\n", err);
	}
	int wide = s->syntax.format == ROW_CRITEO || (l && l->count[0] + l->count[1] > 1);
	int deep = wide && s->rows_about >= WDL_ROWS;
	return jobfile_set(f, "MODEL", deep ? "wdl" : "lr",
			   deep ? "wdl: wide & deep, learns how columns act together; lr: logistic "
				  "regression, faster\n"
				: "lr: logistic regression; wdl: wide & deep, for more rows than "
				  "DATA has\n",
			   err);
}

/* ---- the whole ---- */

static const char tail[] =
	"\n# ---- Stragglers: nothing is done about them; this line would act every 60 "
	"s\n#SOLUTION=pace\n# ---- Failures: a node that is silent for longer is killed; auto "
	"learns how long\n#HUNG=auto\n# ---- Checkpoints: seconds between them, how many are "
	"kept\n#CHECKPOINT=60,keep:3\n";

static int survey_plan_make(struct jobfile *f, const struct survey *s, const struct plan_choices *c,
			    struct lists *l, struct error *err)
{
	if (set_head(f, s, c, l, err) != 0 || jobfile_section(f, "Job", err) != 0 ||
	    jobfile_set(f, "JOB", c->job, "its name, as in: trainctl status -j NAME\n", err) != 0 ||
	    jobfile_section(f, "Data", err) != 0 ||
	    jobfile_set(f, "DATA", c->data, "", err) != 0 || set_format(f, s, err) != 0 ||
	    set_label(f, s, c, err) != 0 || (l && set_lists(f, l, err) != 0))
		return -1;
	if (l && l->missing[0] &&
	    jobfile_set(f, "MISSING", l->missing, "read as missing values, like empty ones\n",
			err) != 0)
		return -1;
	if (set_bad_rows(f, s, c, err) != 0 || set_test(f, c, err) != 0 ||
	    jobfile_section(f, "Model and training", err) != 0 || set_model(f, s, c, l, err) != 0 ||
	    set_course(f, s, c, err) != 0)
		return -1;
	if (jobfile_section(f, "Nodes", err) != 0 ||
	    set_count(f, "WORKERS", WORKERS, "processes that train\n", err) != 0 ||
	    set_count(f, "SERVERS", 1, "processes that keep the parameters\n", err) != 0)
		return -1;
	return jobfile_tail(f, tail, err);
}

int plan_make(struct jobfile *f, const struct survey *s, const struct plan_choices *c,
	      struct plan_counts *counts, struct error *err)
{
	struct lists lists = {0};
	int csv = s->syntax.format == ROW_CSV;
	int result = csv ? lists_make(&lists, s, c->label, err) : 0;
	if (csv && result == 0 && lists.count[COLUMN_DENSE] + lists.count[COLUMN_SPARSE] == 0)
		result = no_columns(s, c->label, err);
	if (result == 0)
		result = survey_plan_make(f, s, c, csv ? &lists : NULL, err);
	if (counts)
		*counts = (struct plan_counts){lists.count[COLUMN_DENSE], lists.count[COLUMN_SPARSE],
					       lists.count[COLUMN_OUT]};
	lists_free(&lists);
	return result;
}

/*
 * predict(1): scores rows with a checkpoint.  A filter: rows in, "score label" lines out, in input
 * order.  What the rows mean and which model scores them comes from the checkpoint alone.
 */
#include "cmd/jobdir.h"
#include "cmd/kernels.h"

#include "base/grow.h"
#include "ckpt/ckpt.h"
#include "data/dataset.h"
#include "data/schema.h"
#include "model/model.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#define PROGRAM "predict"
#define BATCH 1024
#define DOCUMENTS 64 /* in a batch: each of their words has a row as wide as there are topics */

static struct kernels kernels;
static const char *opt_checkpoint, *opt_job, *opt_run_dir;
static const char *opt_format, *opt_separator, *opt_bad_rows = "stop", *opt_device = "cpu";
static const char *opt_probabilities; /* NULL: none */

static const struct option_row rows_of_options[] = {
	{.name = "checkpoint", .letter = 'c', .kind = OPTION_TEXT, .target = &opt_checkpoint,
	 .arg = "PATH", .help = "checkpoint to score with"},
	{.name = "job", .letter = 'j', .kind = OPTION_ID, .target = &opt_job, .arg = "NAME",
	 .help = "or the newest checkpoint of this job"},
	{.name = "run-dir", .kind = OPTION_TEXT, .target = &opt_run_dir, .arg = "DIR",
	 .help = "or of the job with this run directory"},
	{.name = "format", .kind = OPTION_CHOICE, .target = &opt_format, .arg = "FORMAT",
	 .help = "format of the rows (that of the training data)", .choices = ROW_FORMAT_CHOICES},
	{.name = "separator", .kind = OPTION_TEXT, .target = &opt_separator, .arg = "CHARACTER",
	 .help = "separator of a csv: a character, or the word tab (that of the training data)"},
	{.name = "bad-rows", .kind = OPTION_TEXT, .target = &opt_bad_rows, .arg = "stop|skip:N",
	 .help = "what to do about a bad row (stop)"},
	{.name = "probabilities", .kind = OPTION_CHOICE, .target = &opt_probabilities, .arg = "OF",
	 .help = "of classes: behind each line its weight, and its label's probability or all",
	 .choices = "label|all"},
	{.name = "device", .kind = OPTION_TEXT, .target = &opt_device, .arg = MODEL_DEVICES,
	 .help = "what computes: a card of NVIDIA (cuda), or auto: a card if there is one (cpu)"},
	KERNELS_OPTIONS(kernels),
	{0}};

static const struct option_table table = {
	.program = PROGRAM,
	.synopsis = "-c CHECKPOINT | -j JOB | --run-dir DIR [--format FORMAT] [--separator CHARACTER]\n"
		    "[--bad-rows stop|skip:N] [--probabilities label|all] [--device DEVICE]\n"
		    "[FILE...] < rows",
	.about = "Scores rows: prints a line \"score label\" for each, in input order.",
	.rows = rows_of_options,
	.epilogue = KERNELS_FILES};

struct scorer {
	struct schema *schema;
	struct layout layout;
	struct model *model;
	struct store *store; /* the whole checkpoint, as a part of its own */
	uint64_t bad_rows_max;
	uint64_t bad_rows;
	/* one batch */
	struct rows rows;
	uint32_t *offset, *index; /* each key has a row of its own */
	float *row;
	size_t index_room, row_room;
	float *score;          /* [BATCH][outputs] */
	uint32_t outputs;
	int documents;         /* which have no labels, but words that are scored */
	float words[BATCH];
};

/* ---- from the checkpoint ---- */

static int is_criteo_name(const char *name, char letter, unsigned max)
{
	char *end;
	if (name[0] != letter || name[1] < '1' || name[1] > '9')
		return 0;
	unsigned long n = strtoul(name + 1, &end, 10);
	return *end == '\0' && n <= max;
}

/* lib/data names keys of the job file in its errors; replace them by options of this program. */
static void name_options(struct error *err)
{
	static const char *const key[][3] = {
		{"FORMAT separator", "FORMAT='csv,separator:", "--separator '"},
		{"FORMAT", "FORMAT=", "--format "}};
	char behind[ERROR_TEXT_MAX];
	for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
		if (strcmp(err->place, key[i][0]) == 0)
			snprintf(err->place, sizeof err->place, "%.*s",
				 (int)strcspn(key[i][2], " "), key[i][2]);
		for (char *at; (at = strstr(err->text, key[i][1]));) {
			snprintf(behind, sizeof behind, "%s", at + strlen(key[i][1]));
			snprintf(at, sizeof err->text - (size_t)(at - err->text), "%s%s",
				 key[i][2], behind);
		}
	}
}

/* Sets another format of the rows, if they can hold the same columns. A csv may have any separator.
 * Criteo rows and a csv with the columns I1..I13 and C1..C26 hold the same columns. */
static int change_syntax(struct schema *s, struct error *err)
{
	struct row_syntax want;
	if (row_syntax_find(opt_format, opt_separator, &want, err) != 0) {
		err->code = ERROR_USAGE;
		return -1;
	}
	int fits = want.format != ROW_LIBSVM && s->syntax.format != ROW_LIBSVM &&
		   want.format != ROW_BAG && s->syntax.format != ROW_BAG;
	for (size_t i = 0; fits && i < s->dense_count; i++)
		fits = is_criteo_name(s->dense[i].name, 'I', SCHEMA_CRITEO_DENSE);
	for (size_t i = 0; fits && i < s->sparse_count; i++)
		fits = is_criteo_name(s->sparse[i].name, 'C', SCHEMA_CRITEO_SPARSE);
	if (row_is_image(want) && row_is_image(s->syntax)) {
		fits = want.pixels == 0 || want.pixels == s->syntax.pixels;
		want.pixels = s->syntax.pixels;
	}
	if (!fits && want.format != s->syntax.format)
		return error_set(err, ERROR_CONFIG, "--format",
				 "the model was trained on %s, whose columns %s does not have",
				 row_syntax_name(s->syntax), row_syntax_name(want));
	if (want.format == ROW_CSV && !s->label && !(s->label = strdup("label")))
		return error_set(err, ERROR_OS, NULL, "out of memory");
	s->syntax = want;
	return 0;
}

static int predict_main_check_fit(const struct scorer *s, struct ckpt *c,
				  const struct model_spec *spec, struct error *err)
{
	const char *what = NULL;
	if (spec->dense_inputs != s->schema->dense_count)
		what = "dense columns";
	else if (spec->fields && spec->fields != schema_fields(s->schema))
		what = "fields";
	else if (spec->hash_bits != s->schema->hash_bits)
		what = "hash bits";
	else if (spec->classes != s->schema->classes.count)
		what = "classes";
	else if (model_dense_count(spec) != ckpt_dense_count(c))
		what = "dense parameters";
	else if (model_width(spec) != ckpt_width(c))
		what = "the width of rows";
	if (what)
		return error_set(err, ERROR_DATA, ckpt_dir(c),
				 "model, schema and parameters differ in %s", what);
	return 0;
}

static int load_parameters(struct scorer *s, struct ckpt *c, struct error *err)
{
	const struct opt opt = {.kind = OPT_SGD}; /* no slots */
	struct map map;
	int lost;
	if (ckpt_read_layout(c, &s->layout, err) != 0)
		return -1;
	map_even(&map, 1, ckpt_dense_count(c));
	ckpt_share(c);
	if (store_new_bare(&s->store, &s->layout, &map, 0, &opt, err) != 0 ||
	    ckpt_restore(c, s->store, &lost, err) != 0)
		return -1;
	if (store_row_count(s->store) != ckpt_row_count(c))
		return error_set(err, ERROR_DATA, ckpt_dir(c), "holds a row of the table twice");
	return 0;
}

static int predict_main_load(struct scorer *s, struct ckpt *c, struct error *err)
{
	char path[CKPT_PATH_MAX];
	struct model_spec spec;
	if (ckpt_check_file(c, "model", path, sizeof path, err) != 0 ||
	    model_spec_read(path, &spec, err) != 0)
		return -1;
	s->documents = model_keys(&spec).own_rows > 0;
	if (model_keys(&spec).are_rows)
		return error_set(err, ERROR_CONFIG, path, "model '%s' scores nothing", spec.name);
	if (ckpt_check_file(c, "schema", path, sizeof path, err) != 0 ||
	    schema_read(&s->schema, path, err) != 0 ||
	    predict_main_check_fit(s, c, &spec, err) != 0 || load_parameters(s, c, err) != 0)
		return -1;
	if (opt_probabilities && s->schema->labels != SCHEMA_CLASS)
		return error_set(err, ERROR_CONFIG, "--probabilities",
				 "labels of this model are no classes");
	if ((opt_format || opt_separator) && change_syntax(s->schema, err) != 0)
		return -1;
	s->outputs = model_outputs(&spec);
	if (!(s->score = calloc((size_t)BATCH * s->outputs, sizeof *s->score)))
		return error_set(err, ERROR_OS, NULL, "out of memory");
	const struct model_device device = {.name = opt_device};
	return model_new(&s->model, &spec, &device, err);
}

/* ---- a batch ---- */

static int predict_main_make_room(struct scorer *s, size_t keys, struct error *err)
{
	if (!s->offset)
		s->offset = malloc((BATCH + 1) * sizeof *s->offset);
	if (!s->offset || GROW(s->index, s->index_room, keys + 1) != 0 || keys > UINT32_MAX ||
	    GROW(s->row, s->row_room, keys * store_width(s->store) + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu keys", keys);
	return 0;
}

static int score_batch(struct scorer *s, struct error *err)
{
	const struct rows *r = &s->rows;
	size_t keys = r->offset[r->count];
	if (predict_main_make_room(s, keys, err) != 0)
		return -1;
	store_look_rows(s->store, r->key, keys, s->row);
	for (size_t i = 0; i < keys; i++)
		s->index[i] = (uint32_t)i;
	for (size_t i = 0; i <= r->count; i++)
		s->offset[i] = (uint32_t)r->offset[i];
	struct model_batch batch = {.count = r->count,
				    .dense = r->dense_columns ? r->dense : NULL,
				    .label = r->label,
				    .offset = s->offset,
				    .index = s->index,
				    .value = r->value,
				    .unique = keys};
	const float *dense = store_dense(s->store);
	if (s->documents)
		return model_complete(s->model, &batch, dense, s->row, s->score, s->words, err);
	return model_predict(s->model, &batch, dense, s->row, s->score, err);
}

/* A class is one word: blanks and the like are %XX, as in records. */
static void print_class(const struct schema *schema, size_t class)
{
	for (const char *c = schema->classes.value[class].text; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == '%' || *c == 0x7f ||
		    (*c == '-' && c[1] == '\0' && c == schema->classes.value[class].text))
			printf("%%%02X", (unsigned)(unsigned char)*c);
		else
			putchar(*c);
}

/* In the label's own units. Seven digits are what is left of a float after scaling. */
static void print_real(const struct schema *schema, float x)
{
	printf("%.7g", (double)x * schema->label_deviation + schema->label_mean);
}

/* Nine digits distinguish any two floats. */
static void print_score(const struct scorer *s, size_t i)
{
	const float *score = s->score + i * s->outputs;
	size_t best = 0;
	if (s->schema->labels == SCHEMA_REAL) {
		print_real(s->schema, *score);
	} else if (s->schema->labels == SCHEMA_CLASS) {
		for (size_t k = 1; k < s->outputs; k++)
			best = score[k] > score[best] ? k : best;
		print_class(s->schema, best);
	} else {
		printf("%.9g", (double)*score);
	}
}

/* A missing label is written as "-". */
static void print_label(const struct schema *schema, float label)
{
	if (isnan(label))
		putchar('-');
	else if (schema->labels == SCHEMA_REAL)
		print_real(schema, label);
	else if (schema->labels == SCHEMA_CLASS)
		print_class(schema, (size_t)label);
	else
		putchar(label > 0 ? '1' : '0');
}

static void print_probabilities(const struct scorer *s, size_t i)
{
	const float *score = s->score + i * s->outputs, label = s->rows.label[i];
	if (strcmp(opt_probabilities, "all") == 0)
		for (size_t k = 0; k < s->outputs; k++)
			printf(" %.9g", (double)score[k]);
	else if (isnan(label))
		fputs(" -", stdout);
	else
		printf(" %.9g", (double)score[(size_t)label]);
}

static void predict_main_print_batch(const struct scorer *s)
{
	const struct rows *r = &s->rows;
	for (size_t i = 0; i < r->count; i++) {
		print_score(s, i);
		putchar(' ');
		if (s->documents)
			printf("1 %.9g", (double)s->words[i]);
		else
			print_label(s->schema, r->label[i]);
		if (!s->documents && (s->schema->weight || opt_probabilities))
			printf(" %.9g", (double)r->weight[i]);
		if (opt_probabilities)
			print_probabilities(s, i);
		putchar('\n');
	}
	/* Write the scores so far while we wait for more rows from a pipe. */
	fflush(stdout);
}

static int score_stream(struct scorer *s, int fd, const char *name, struct error *err)
{
	const struct row_stream_options options = {
		.name = name, .bad_rows_max = s->bad_rows_max - s->bad_rows, .label_optional = 1};
	struct row_stream *in;
	if (row_stream_open(&in, s->schema, fd, &options, err) != 0)
		return -1;
	int result = 0;
	while (result == 0 && !ferror(stdout)) {
		result = row_stream_read(in, s->documents ? DOCUMENTS : BATCH, &s->rows, err);
		/* Score the rows before a bad row first, however far apart the two were read. */
		struct error why;
		if (s->rows.count == 0 || (result != 0 && err->code == ERROR_OS))
			break;
		int scored = score_batch(s, &why);
		if (scored == 0)
			predict_main_print_batch(s);
		else if (result == 0) {
			result = scored;
			*err = why;
		}
	}
	s->bad_rows += row_stream_bad_rows(in);
	row_stream_close(in);
	return result;
}

static int score_file(struct scorer *s, const char *path, struct error *err)
{
	if (strcmp(path, "-") == 0)
		return score_stream(s, STDIN_FILENO, "stdin", err);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	int result = score_stream(s, fd, path, err);
	close(fd);
	return result;
}

static int score_all(struct scorer *s, char **path, int count, struct error *err)
{
	struct ckpt *c;
	char newest[CKPT_PATH_MAX];
	if (!model_device_ok(opt_device))
		return error_set(err, ERROR_USAGE, "--device", "'%.80s' is none of " MODEL_DEVICES,
				 opt_device);
	if (!opt_checkpoint && jobdir_newest(opt_job, opt_run_dir, newest, err) != 0)
		return -1;
	if (ckpt_open(&c, opt_checkpoint ? opt_checkpoint : newest, err) != 0)
		return -1;
	int result = predict_main_load(s, c, err);
	if (result == 0 && !opt_checkpoint && ckpt_get_manifest(c)->iteration == 0)
		fputs(PROGRAM ": the newest checkpoint is that of the job's start, before any batch; in "
			      "a job that runs, `trainctl checkpoint` makes one\n",
		      stderr);
	ckpt_close(c);
	if (result == 0 && count == 0)
		result = score_file(s, "-", err);
	for (int i = 0; result == 0 && !ferror(stdout) && i < count; i++)
		result = score_file(s, path[i], err);
	if (s->bad_rows)
		fprintf(stderr, "%s: %llu bad rows left out\n", PROGRAM,
			(unsigned long long)s->bad_rows);
	return result;
}

static void scorer_free(struct scorer *s)
{
	schema_free(s->schema);
	model_free(s->model);
	store_free(s->store);
	rows_free(&s->rows);
	free(s->offset);
	free(s->index);
	free(s->row);
	free(s->score);
}

int main(int argc, char **argv)
{
	static struct scorer s;
	struct error err = {0};
	int first;
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, option_parse(&table, argc, argv, &first, stdout, &err), &err);
	int parsed = kernels_need_room(argv, &err);
	if (parsed == 0 && kernels.probe)
		return cmd_end(PROGRAM, kernels_probe(PROGRAM));
	int by_job = opt_job || opt_run_dir;
	if (parsed == 0 && (opt_checkpoint != NULL) == by_job)
		parsed = error_set(&err, ERROR_USAGE, NULL,
				   "give -c CHECKPOINT, or -j JOB for its newest one");
	if (parsed == 0 && dataset_bad_rows_option(opt_bad_rows, &s.bad_rows_max, &err) != 0)
		parsed = error_set(&err, ERROR_USAGE, "--bad-rows", "'%.80s' is neither stop nor skip:N",
				   opt_bad_rows);
	if (parsed != 0 || kernels_settle(&kernels, argv, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	if (!model_device_is_card(opt_device)) { /* whatever its driver needs is not known to us */
		kernels_end_threads();
		cmd_confine(&(struct confine_ask){.read = {"/"}});
	}
	int status = 0;
	if (score_all(&s, argv + first, argc - first, &err) != 0) {
		name_options(&err);
		status = cmd_fail(PROGRAM, &err);
	}
	scorer_free(&s);
	return cmd_end(PROGRAM, status);
}

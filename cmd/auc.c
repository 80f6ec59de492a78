/*
 * auc(1): how good scores are.  A filter: "score label [weight]" lines in, one record out.  All lines
 * are kept and sorted, so the area under the curve is exact, ties included; nothing is binned.  With
 * --labels class a score is a class, and the label's probability may follow; with --labels real it
 * is a number.
 */
#include "cmd/cmd.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/number.h"
#include "record/record.h"

#include <math.h>

#define PROGRAM "auc"
#define CLIP 1e-15 /* a wrong score of exactly 0 or 1 must have a finite log loss */
#define LINE_ROOM 4096

struct row {
	double score, weight; /* of a class: 1 if it is the label, else 0 */
	double label;         /* of a class its probability; NAN: the line has none */
};

enum { BINARY, CLASS, REAL };
static const char *opt_labels = "binary";
static int labels;

struct rows {
	struct row *row;
	size_t count, room;
	size_t lines, unlabelled; /* rows read; rows without a label, which do not count */
};

/* The next word of a line; 0 at its end. */
static size_t auc_next_word(const char **at, const char *end)
{
	while (*at < end && (**at == ' ' || **at == '\t'))
		(*at)++;
	const char *from = *at;
	while (from < end && *from != ' ' && *from != '\t')
		from++;
	return (size_t)(from - *at);
}

static int auc_bad_word(struct error *err, const char *what, const char *word, size_t len)
{
	return error_set(err, ERROR_DATA, NULL, "%s: '%.*s'", what, (int)(len < 40 ? len : 40), word);
}

/* It may be a score or label of another kind. */
static int auc_not_binary(struct error *err, const char *what, const char *word, size_t len)
{
	return error_set(err, ERROR_DATA, NULL,
			 "%s: '%.*s' (names of classes: --labels class; other numbers: --labels real)",
			 what, (int)(len < 40 ? len : 40), word);
}

#define NO_LABEL 1

static int take_score(const char *word, size_t n, struct row *r, struct error *err)
{
	if (labels == CLASS)
		return 0;
	int is_number = number_real_span(word, n, &r->score) == 0;
	if (labels == BINARY && !(is_number && r->score >= 0 && r->score <= 1))
		return auc_not_binary(err, "the score is not a number from 0 to 1", word, n);
	return is_number ? 0 : auc_bad_word(err, "the score is not a number", word, n);
}

/* score[of]: the word before it. */
static int take_label(const char *word, size_t n, const char *score, size_t of, struct row *r,
		      struct error *err)
{
	if (labels == CLASS) {
		r->score = n == of && memcmp(word, score, n) == 0;
		return 0;
	}
	int is_number = number_real_span(word, n, &r->label) == 0;
	if (labels == BINARY && !(is_number && (r->label == 0 || r->label == 1)))
		return auc_not_binary(err, "the label is neither 0 nor 1", word, n);
	return is_number ? 0 : auc_bad_word(err, "the label is not a number", word, n);
}

/* Of a class, behind the weight: the probability of the label, "-" where there is no label. */
static int take_probability(const char *word, size_t n, int none, struct row *r, struct error *err)
{
	r->label = NAN;
	if (n == 0 || (none && n == 1 && *word == '-'))
		return 0;
	if (number_real_span(word, n, &r->label) != 0 || !(r->label >= 0 && r->label <= 1))
		return auc_bad_word(err, "the probability is not a number from 0 to 1", word, n);
	return 0;
}

/* NO_LABEL: predict(1) writes "-" when a row has no label. */
static int auc_parse_row(const char *line, size_t len, struct row *r, struct error *err)
{
	const char *end = line + len;
	size_t n = auc_next_word(&line, end), of = n;
	const char *score = line;
	*r = (struct row){.weight = 1};
	if (n == 0)
		return error_set(err, ERROR_DATA, NULL, "\"score label\" expected, the line is empty");
	if (take_score(line, n, r, err) != 0)
		return -1;
	line += n;
	n = auc_next_word(&line, end);
	if (n == 0)
		return error_set(err, ERROR_DATA, NULL, "the label is missing");
	int none = n == 1 && *line == '-';
	if (!none && take_label(line, n, score, of, r, err) != 0)
		return -1;
	line += n;
	n = auc_next_word(&line, end);
	if (n && (number_real_span(line, n, &r->weight) != 0 || !(r->weight >= 0)))
		return auc_bad_word(err, "the weight is not a number from 0 up", line, n);
	line += n;
	n = auc_next_word(&line, end);
	if (labels == CLASS) {
		if (take_probability(line, n, none, r, err) != 0)
			return -1;
		line += n;
		n = auc_next_word(&line, end);
	}
	if (n)
		return auc_bad_word(err,
				    labels == CLASS
					    ? "more than score, label, weight and probability"
					    : "more than score, label and weight",
				    line, n);
	return none ? NO_LABEL : 0;
}

static int auc_add_row(struct rows *all, const char *line, size_t len, struct error *err)
{
	if (GROW(all->row, all->room, all->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory for %zu rows", all->count + 1);
	int parsed = auc_parse_row(line, len, &all->row[all->count], err);
	if (parsed < 0)
		return -1;
	all->lines++;
	all->count += parsed == 0;
	all->unlabelled += parsed == NO_LABEL;
	return 0;
}

static int auc_read_rows(FILE *in, const char *name, struct rows *all, struct error *err)
{
	char line[LINE_ROOM], place[ERROR_PLACE_MAX];
	ssize_t n;
	int result = 0;
	while (result == 0 && (n = fs_read_line(in, line, sizeof line, err)) != 0) {
		if (n < 0)
			result = -1;
		else if (line[n - 1] != '\n')
			result = error_set(err, ERROR_DATA, NULL, "the input ends without a newline");
		else
			result = auc_add_row(all, line, (size_t)n - 1, err);
		if (result != 0) {
			snprintf(place, sizeof place, "%.400s:%zu", name, all->lines + 1);
			error_wrap(err, place);
		}
	}
	if (result == 0 && all->lines == 0)
		return error_set(err, ERROR_DATA, name, "no rows");
	if (result == 0 && all->count == 0)
		return error_set(err, ERROR_DATA, name,
				 "no row has a label, so there is nothing to compare scores with: "
				 "do the data have the label's column?");
	return result;
}

static int by_score(const void *left, const void *right)
{
	const struct row *a = left, *b = right;
	return (a->score > b->score) - (a->score < b->score);
}

/* The probability that a positive has a higher score than a negative, ties counting half
 * (Mann and Whitney). NAN when one of them is missing. Sorts the rows. Without weights every sum is
 * a multiple of one half, hence exact as a double up to 10^8 rows. */
static double area(struct rows *all)
{
	double positives = 0, negatives = 0, wins = 0;
	qsort(all->row, all->count, sizeof *all->row, by_score);
	for (size_t i = 0; i < all->count;) {
		double tied[2] = {0, 0};
		size_t j = i;
		for (; j < all->count && all->row[j].score == all->row[i].score; j++)
			tied[all->row[j].label > 0] += all->row[j].weight;
		wins += tied[1] * (negatives + tied[0] / 2);
		positives += tied[1];
		negatives += tied[0];
		i = j;
	}
	return positives > 0 && negatives > 0 ? wins / (positives * negatives) : NAN;
}

/* Multiplies all weights by one power of two. No quotient of them changes, and neither sums of huge
 * weights nor products of tiny ones leave the range of a double. */
static void scale_weights(struct rows *all)
{
	double largest = 0;
	int exponent;
	for (size_t i = 0; i < all->count; i++)
		largest = fmax(largest, all->row[i].weight);
	(void)frexp(largest, &exponent);
	for (size_t i = 0; i < all->count && exponent != 0; i++)
		all->row[i].weight = ldexp(all->row[i].weight, -exponent);
}

static double log_loss(double p)
{
	return -log(p < CLIP ? CLIP : p);
}

static void print_classes(struct rows *all)
{
	double loss = 0, right = 0, weight = 0;
	for (size_t i = 0; i < all->count; i++) {
		const struct row *r = &all->row[i];
		loss += r->weight * log_loss(r->label);
		right += r->weight * r->score;
		weight += r->weight;
	}
	record_print(stdout, RECORD("auc", F_BRIEF("logloss", loss / weight),
				    F_BRIEF("accuracy", right / weight), F("n", all->count)));
}

static void print_reals(struct rows *all)
{
	double squares = 0, sizes = 0, weight = 0;
	for (size_t i = 0; i < all->count; i++) {
		double d = all->row[i].score - all->row[i].label;
		squares += all->row[i].weight * d * d;
		sizes += all->row[i].weight * fabs(d);
		weight += all->row[i].weight;
	}
	record_print(stdout, RECORD("auc", F_BRIEF("rmse", sqrt(squares / weight)),
				    F_BRIEF("mae", sizes / weight), F("n", all->count)));
}

static void print_binary(struct rows *all)
{
	double loss = 0, right = 0, weight = 0;
	for (size_t i = 0; i < all->count; i++) {
		const struct row *r = &all->row[i];
		loss += r->weight * log_loss(r->label > 0 ? r->score : 1 - r->score);
		right += r->weight * ((r->score >= 0.5) == (r->label > 0));
		weight += r->weight;
	}
	record_print(stdout,
		     RECORD("auc", F_BRIEF("auc", area(all)), F_BRIEF("logloss", loss / weight),
			    F_BRIEF("accuracy", right / weight), F("n", all->count)));
}

int main(int argc, char **argv)
{
	const struct option_row rows[] = {
		{.name = "labels", .kind = OPTION_CHOICE, .target = &opt_labels, .arg = "KIND",
		 .help = "what labels are: 0 and 1, names of classes, or numbers (binary)",
		 .choices = "binary|class|real"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "[--labels binary|class|real] [FILE]\n"
			    "< \"score label [weight [probability]]\" lines",
		.about = "Area under the ROC curve, log loss and accuracy of scores; of classes the\n"
			 "log loss (if lines have the label's probability) and the accuracy, of\n"
			 "numbers RMSE and MAE.",
		.rows = rows};
	struct error err = {0};
	struct rows all = {0};
	int first;
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, option_parse(&table, argc, argv, &first, stdout, &err), &err);
	labels = strcmp(opt_labels, "class") == 0 ? CLASS : strcmp(opt_labels, "real") == 0 ? REAL : BINARY;
	if (argc - first > 1) {
		error_set(&err, ERROR_USAGE, argv[first + 1], "one operand too many");
		return cmd_fail(PROGRAM, &err);
	}
	int piped = first == argc || strcmp(argv[first], "-") == 0;
	const char *name = piped ? "stdin" : argv[first];
	FILE *in = piped ? stdin : fopen(name, "re");
	int status = 0;
	if (!in) {
		error_errno(&err, 0, name, "can't be read");
		return cmd_fail(PROGRAM, &err);
	}
	cmd_confine(&(struct confine_ask){.sockets = CONFINE_NO_SOCKETS});
	if (auc_read_rows(in, name, &all, &err) != 0)
		status = cmd_fail(PROGRAM, &err);
	else {
		if (all.unlabelled > 0)
			fprintf(stderr, PROGRAM ": %s: %zu of %zu rows have no label and are "
						"ignored\n",
				name, all.unlabelled, all.lines);
		scale_weights(&all);
		(labels == CLASS ? print_classes : labels == REAL ? print_reals : print_binary)(&all);
	}
	if (!piped)
		fclose(in);
	free(all.row);
	return cmd_end(PROGRAM, status);
}

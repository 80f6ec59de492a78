/* beside: finds test files by their names. See survey.h. */
#include "survey/survey.h"

#include "base/option.h"
#include "base/words.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The name without its endings: "adult-train" of "adult-train.csv.gz". */
static size_t stem(const char *name)
{
	static const char *const endings[] = {".gz",  ".zst", ".csv",    ".tsv", ".tab",   ".txt",
					      ".svm", ".data", ".libsvm", ".ffm", ".libffm", ".bag",
					      ".bin"};
	size_t len = strlen(name);
	for (int again = 1; again;) {
		again = 0;
		for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
			size_t n = strlen(endings[i]);
			if (len > n && strncasecmp(name + len - n, endings[i], n) == 0) {
				len -= n;
				again = 1;
			}
		}
	}
	return len;
}

static const char *const train_words[] = {"training", "train"};
static const char *const test_words[] = {"test", "testing", "validation", "valid", "val", "eval",
					 "holdout", "t10k" /* of MNIST */};

static int is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The position of the word in name[len], not inside of a longer word; -1: it is not there. */
static int find_word(const char *name, size_t len, const char *word)
{
	size_t n = strlen(word);
	for (size_t i = 0; i + n <= len; i++)
		if (strncasecmp(name + i, word, n) == 0 && (i == 0 || !is_letter(name[i - 1])) &&
		    (i + n == len || !is_letter(name[i + n])))
			return (int)i;
	return -1;
}

static int is_between(char c)
{
	return c == '-' || c == '_' || c == '.' || c == ' ';
}

/* name[len] without the word and what joins it to the rest: "adult" of "adult-train". */
static size_t without(const char *name, size_t len, const char *const *words, size_t count,
		      char *out, size_t max)
{
	for (size_t i = 0; i < count; i++) {
		int at = find_word(name, len, words[i]);
		if (at < 0)
			continue;
		size_t from = (size_t)at, to = from + strlen(words[i]);
		if (from > 0 && is_between(name[from - 1]))
			from--;
		else if (to < len && is_between(name[to]))
			to++;
		return (size_t)snprintf(out, max, "%.*s%.*s", (int)from, name, (int)(len - to),
					name + to);
	}
	return SIZE_MAX;
}

int survey_is_test(const char *name, const char *other)
{
	char mine[256], its[256];
	size_t len = stem(name);
	if (len >= sizeof mine || strlen(other) >= sizeof its || strcmp(name, other) == 0)
		return 0;
	if (without(name, len, train_words, sizeof train_words / sizeof *train_words, mine,
		    sizeof mine) == SIZE_MAX)
		snprintf(mine, sizeof mine, "%.*s", (int)len, name);
	return without(other, stem(other), test_words, sizeof test_words / sizeof *test_words, its,
		       sizeof its) != SIZE_MAX &&
	       strcasecmp(mine, its) == 0;
}

const char *survey_cat(const char *name)
{
	size_t len = strlen(name);
	if (len > 3 && strcmp(name + len - 3, ".gz") == 0)
		return "zcat";
	return len > 4 && strcmp(name + len - 4, ".zst") == 0 ? "zstdcat" : "cat";
}

int survey_is_named_bag(const char *name)
{
	size_t len = strlen(name), packed = strlen(survey_cat(name)) - strlen("cat");
	len -= packed == 0 ? 0 : packed == 1 ? strlen(".gz") : strlen(".zst");
	return len > 4 && strncmp(name + len - 4, ".bag", 4) == 0;
}

const char *survey_ending(const struct survey *s)
{
	if (s->syntax.format == ROW_LIBSVM)
		return "svm";
	if (s->syntax.format == ROW_BAG)
		return "bag";
	return s->syntax.format == ROW_CRITEO ? "tsv" : row_syntax_name(s->syntax);
}

#define PATH_QUOTED WORDS_QUOTED(500)

/* awk: what is done to the lines of a row; a quote that is open at a line's end goes on in the next
 * one. */
#define COUNT_QUOTES "q += gsub(/\"/, \"&\")"

const char *survey_split(const struct survey *s, const char *path, int rest, char *out)
{
	const char *names = s->syntax.format == ROW_CSV ? "NR == 1 || " : "";
	char from[PATH_QUOTED];
	words_quote(path, from, sizeof from);
	if (s->many_lines)
		snprintf(out, SURVEY_COMMAND_MAX,
			 "%s %s | awk '%s { print } { " COUNT_QUOTES " } q %% 2 == 0 { row++ }'",
			 survey_cat(path), from, rest ? "!row || row % 10" : "row % 10 == 0");
	else
		snprintf(out, SURVEY_COMMAND_MAX, "%s %s | awk '%sNR %% 10%s'", survey_cat(path), from,
			 names, rest ? "" : " == 0");
	return out;
}

const char *survey_shuffle(const struct survey *s, const char *path, const char *job, char *out)
{
	const char *cat = survey_cat(path);
	char from[PATH_QUOTED];
	words_quote(path, from, sizeof from);
	if (s->many_lines)
		snprintf(out, SURVEY_COMMAND_MAX,
			 "rows() { %s %s | awk '{ " COUNT_QUOTES "; printf \"%%s%%s\", $0, q %% 2 ? \"\\001\" "
			 ": \"\\n\" }'; }; { rows | head -n 1; rows | tail -n +2 | shuf; } | tr '\\001' "
			 "'\\n' > %s-shuffled.%s",
			 cat, from, job, survey_ending(s));
	else if (s->syntax.format == ROW_CSV)
		snprintf(out, SURVEY_COMMAND_MAX,
			 "{ %s %s | head -n 1; %s %s | tail -n +2 | shuf; } > %s-shuffled.%s", cat, from,
			 cat, from, job, survey_ending(s));
	else
		snprintf(out, SURVEY_COMMAND_MAX, "%s %s | shuf > %s-shuffled.%s", cat, from, job,
			 survey_ending(s));
	return out;
}

const char *survey_recode(const struct survey *s, const char *path, const char *job, char *out)
{
	char from[PATH_QUOTED];
	snprintf(out, SURVEY_COMMAND_MAX, "%s %s | iconv -f ISO-8859-1 -t UTF-8 > %s-utf8.%s",
		 survey_cat(path), words_quote(path, from, sizeof from), job, survey_ending(s));
	return out;
}

void survey_job_name(const char *name, char *out)
{
	char plain[256];
	size_t len = stem(name), n = 0;
	if (without(name, len, train_words, sizeof train_words / sizeof *train_words, plain,
		    sizeof plain) == SIZE_MAX ||
	    !plain[0])
		snprintf(plain, sizeof plain, "%.*s", len < 255 ? (int)len : 255, name);
	for (const char *p = plain; *p && n + 1 < OPTION_ID_MAX; p++) {
		char one[2] = {*p, '\0'};
		out[n++] = *p == '.' || option_id_ok(one) ? *p : '-';
	}
	out[n] = '\0';
	if (!option_id_ok(out))
		snprintf(out, OPTION_ID_MAX, "job");
}

/* option: see option.h. */
#include "base/option.h"

#include "base/near.h"
#include "base/number.h"
#include "base/version.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 128

static int is_of_id(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

/* Called for every request: no strspn(), which builds a table of all bytes each time. */
int option_id_ok(const char *text)
{
	size_t n = 0;
	while (n < OPTION_ID_MAX && is_of_id(text[n]))
		n++;
	return n >= 1 && n < OPTION_ID_MAX && text[n] == '\0' && strcmp(text, ".") != 0 &&
	       strcmp(text, "..") != 0;
}

int option_is_choice(const char *choices, const char *text)
{
	size_t len = strlen(text);
	for (const char *p = choices; *p;) {
		size_t n = strcspn(p, "|");
		if (n == len && memcmp(p, text, n) == 0)
			return 1;
		p += n + (p[n] == '|');
	}
	return 0;
}

static int option_store(const struct option_row *row, const char *value, struct error *err)
{
	char what[96];
	snprintf(what, sizeof what, "--%s", row->name);
	uint64_t min = row->min > 0 ? (uint64_t)row->min : 0;
	uint64_t max = row->max > 0 ? (uint64_t)row->max : UINT64_MAX;
	switch (row->kind) {
	case OPTION_FLAG:
		*(int *)row->target = 1;
		return 0;
	case OPTION_TEXT:
		*(const char **)row->target = value;
		return 0;
	case OPTION_COUNT:
		return number_u64(value, min, max, row->target, what, err);
	case OPTION_BYTES:
		return number_bytes(value, min, max, row->target, what, err);
	case OPTION_REAL:
	case OPTION_SECONDS:
		return number_real(value, row->min, row->max > 0 ? row->max : 1e300, row->target,
				   what, err);
	case OPTION_CHOICE:
		if (!option_is_choice(row->choices, value))
			return error_set(err, ERROR_USAGE, what, "'%.80s' is none of %s", value,
					 row->choices);
		*(const char **)row->target = value;
		return 0;
	case OPTION_ID:
		if (!option_id_ok(value))
			return error_set(err, ERROR_USAGE, what,
					 "'%.80s' is no id (1 to 64 of letters, digits, . _ -)",
					 value);
		*(const char **)row->target = value;
		return 0;
	case OPTION_LIST: {
		struct option_list *list = row->target;
		if (list->count == OPTION_LIST_MAX)
			return error_set(err, ERROR_USAGE, what, "given more than %d times",
					 OPTION_LIST_MAX);
		list->item[list->count++] = value;
		return 0;
	}
	}
	return error_set(err, ERROR_SOFTWARE, what, "unknown kind of option %d", (int)row->kind);
}

static size_t option_count_rows(const struct option_row *rows)
{
	size_t n = 0;
	while (rows[n].name)
		n++;
	return n;
}

/* getopt_long wants its own table and a string of letters; both are made from ours. */
static int option_build(const struct option_row *rows, size_t count, struct option *longs,
			char *letters)
{
	size_t l = 0;
	letters[l++] = '+';
	letters[l++] = ':';
	for (size_t i = 0; i < count; i++) {
		int has_arg = rows[i].kind != OPTION_FLAG;
		longs[i] = (struct option){rows[i].name, has_arg, NULL, (int)(256 + i)};
		if (rows[i].letter) {
			letters[l++] = (char)rows[i].letter;
			if (has_arg)
				letters[l++] = ':';
		}
	}
	letters[l] = '\0';
	longs[count] = (struct option){"help", no_argument, NULL, 1};
	longs[count + 1] = (struct option){"version", no_argument, NULL, 2};
	longs[count + 2] = (struct option){NULL, 0, NULL, 0};
	return 0;
}

static const struct option_row *row_of(const struct option_row *rows, size_t count, int c)
{
	if (c >= 256)
		return &rows[c - 256];
	for (size_t i = 0; i < count; i++)
		if (rows[i].letter == c)
			return &rows[i];
	return NULL;
}

/* ---- long options ---- */

/* The i-th long option, --help and --version behind those of the table; NULL: no more. */
static const char *long_name(const struct option_row *rows, size_t count, size_t i)
{
	static const char *const ours[] = {"help", "version", NULL};
	return i < count ? rows[i].name : ours[i - count];
}

/* Options that begin with this text, or differ from it by one mistyped letter. */
static int could_be(const char *name, const char *given)
{
	return strncmp(name, given, strlen(given)) == 0 || near_distance(given, name) <= 1;
}

static int unknown_long(const struct option_row *rows, size_t count, const char *given,
			struct error *err)
{
	struct near near = {0};
	const char *name;
	for (size_t i = 0; (name = long_name(rows, count, i)); i++)
		near_look(&near, given, name);
	if (near_enough(&near, given))
		return error_set(err, ERROR_USAGE, NULL, "unknown option --%s; the nearest is --%s",
				 given, near.word);
	return error_set(err, ERROR_USAGE, NULL, "unknown option --%s", given);
}

/* An option may be shortened only if no other option can be meant. So --st is refused where there
 * are --set and --state-dir, although only one begins so: a user who mistyped --set must not set a
 * directory. */
static int check_long(const struct option_row *rows, size_t count, const char *argument,
		      struct error *err)
{
	char given[NEAR_WORD_MAX + 1], could[256] = "";
	const char *name;
	size_t begin_so = 0, candidates = 0;
	snprintf(given, sizeof given, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
	for (size_t i = 0; (name = long_name(rows, count, i)); i++)
		if (strcmp(name, given) == 0)
			return 0;
	for (size_t i = 0; (name = long_name(rows, count, i)); i++) {
		if (!could_be(name, given))
			continue;
		size_t at = strlen(could);
		begin_so += strncmp(name, given, strlen(given)) == 0;
		snprintf(could + at, sizeof could - at, "%s--%s", candidates++ ? ", " : "", name);
	}
	if (begin_so == 0)
		return unknown_long(rows, count, given, err);
	if (candidates == 1)
		return 0;
	return error_set(err, ERROR_USAGE, NULL, "--%s could be %s: write it in full", given, could);
}

/* What getopt_long(3) says of argv[optind - 1]. */
static int bad_option(int c, const char *given, struct error *err)
{
	if (c == ':')
		return error_set(err, ERROR_USAGE, NULL, "option needs a value: %.100s", given);
	if (optopt > ' ' && optopt < 256)
		return error_set(err, ERROR_USAGE, NULL, "unknown option -%c", optopt);
	return error_set(err, ERROR_USAGE, NULL, "option takes no value: %.100s", given);
}

static void default_text(const struct option_row *row, char *out, size_t out_max)
{
	out[0] = '\0';
	switch (row->kind) {
	case OPTION_COUNT:
	case OPTION_BYTES:
		if (*(uint64_t *)row->target != 0)
			snprintf(out, out_max, " (%llu)",
				 (unsigned long long)*(uint64_t *)row->target);
		break;
	case OPTION_REAL:
	case OPTION_SECONDS:
		snprintf(out, out_max, " (%g%s)", *(double *)row->target,
			 row->kind == OPTION_SECONDS ? " s" : "");
		break;
	default:
		break;
	}
}

static void option_help(const struct option_table *table, FILE *out)
{
	const char *line = table->synopsis;
	for (int first = 1; first || *line; first = 0) {
		size_t n = strcspn(line, "\n");
		fprintf(out, "%s %s%s%.*s\n", first ? "usage:" : "      ", table->program,
			n > 0 ? " " : "", (int)n, line);
		line += n + (line[n] == '\n');
	}
	fprintf(out, "%s\n\n", table->about);
	for (const struct option_row *row = table->rows; row->name; row++) {
		char head[128], given[64];
		int n = 0;
		if (row->letter)
			n = snprintf(head, sizeof head, "-%c, ", row->letter);
		snprintf(head + n, sizeof head - (size_t)n, "--%s%s%s", row->name,
			 row->arg ? " " : "", row->arg ? row->arg : "");
		default_text(row, given, sizeof given);
		fprintf(out, "  %-28s %s%s", head, row->help, given);
		if (row->kind == OPTION_CHOICE)
			fprintf(out, ": %s", row->choices);
		fputc('\n', out);
	}
	fprintf(out, "  %-28s %s\n  %-28s %s\n", "--help", "this text", "--version",
		"name and version");
	if (table->epilogue)
		fprintf(out, "\n%s\n", table->epilogue);
}

/* Moves an operand behind all others. */
static void option_put_last(char **argv, int argc, int at)
{
	char *operand = argv[at];
	memmove(&argv[at], &argv[at + 1], (size_t)(argc - at - 1) * sizeof *argv);
	argv[argc - 1] = operand;
}

static int option_read(const struct option_table *table, int command, int argc, char **argv,
		       int *first, FILE *out, struct error *err)
{
	struct option longs[ROWS_MAX + 3];
	char letters[2 * ROWS_MAX + 3];
	size_t count = option_count_rows(table->rows);
	if (count > ROWS_MAX)
		return error_set(err, ERROR_SOFTWARE, table->program, "too many options");
	option_build(table->rows, count, longs, letters);
	/* --help shows defaults, and must not depend on the options before it. */
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			option_help(table, out);
			return OPTION_SHOWN;
		}
		if (argv[i][0] != '-' && command)
			break;
	}
	int end = argc, is_end = 0; /* operands that were found stand behind end */
	opterr = 0;
	optind = 0; /* glibc: scan from the start again, even if somebody has parsed before */
	for (;;) {
		int at = optind > 0 ? optind : 1;
		const char *next = at < end ? argv[at] : "";
		is_end |= strcmp(next, "--") == 0;
		if (strncmp(next, "--", 2) == 0 && next[2] &&
		    check_long(table->rows, count, next, err) != 0)
			return -1;
		int c = getopt_long(end, argv, letters, longs, NULL);
		if (c == -1 && (command || optind == end))
			break;
		if (c == -1) {
			do
				option_put_last(argv, argc, optind);
			while (--end > optind && is_end);
			continue;
		}
		if (c == 1) {
			option_help(table, out);
			return OPTION_SHOWN;
		}
		if (c == 2) {
			fprintf(out, "%s %s\n", table->program, PACELINE_VERSION);
			return OPTION_SHOWN;
		}
		if (c == ':' || c == '?')
			return bad_option(c, argv[optind - 1], err);
		const struct option_row *row = row_of(table->rows, count, c);
		if (option_store(row, optarg, err) != 0)
			return -1;
		if (row->seen)
			*row->seen = 1;
	}
	*first = optind;
	return OPTION_GO;
}

int option_parse(const struct option_table *table, int argc, char **argv, int *first, FILE *out,
		 struct error *err)
{
	return option_read(table, 0, argc, argv, first, out, err);
}

int option_parse_command(const struct option_table *table, int argc, char **argv, int *first,
			 FILE *out, struct error *err)
{
	return option_read(table, 1, argc, argv, first, out, err);
}

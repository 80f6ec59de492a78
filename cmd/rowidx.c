/*
 * rowidx: where each row of a data file starts, kept in an index file; counts rows and prints rows
 * by number.  All knowledge is in lib/data; this file finds the index to use and prints.
 */
#include "cmd/cmd.h"

#include "base/number.h"
#include "data/index.h"

#include <limits.h>
#include <unistd.h>

#define PROGRAM "rowidx"
#define OPERANDS_MAX 4

static struct {
	const char *index, *format;
	int count, cat, check, force;
} opt;

static const struct option_row rows[] = {
	{.name = "index", .letter = 'o', .kind = OPTION_TEXT, .target = &opt.index, .arg = "INDEX",
	 .help = "the index file (default: FILE.rowidx)"},
	{.name = "format", .letter = 'f', .kind = OPTION_CHOICE, .target = &opt.format,
	 .arg = "FORMAT", .choices = "criteo|csv|libsvm|lines",
	 .help = "what a row is (default: as the index says, else by the first line)"},
	{.name = "count", .letter = 'c', .kind = OPTION_FLAG, .target = &opt.count,
	 .help = "print how many rows there are"},
	{.name = "cat", .letter = 'p', .kind = OPTION_FLAG, .target = &opt.cat,
	 .help = "print LENGTH rows from row BEGIN (from 0), byte by byte as they are"},
	{.name = "check", .letter = 'k', .kind = OPTION_FLAG, .target = &opt.check,
	 .help = "compare the index with the whole file; exit 1 when they differ"},
	{.name = "force", .kind = OPTION_FLAG, .target = &opt.force,
	 .help = "build the index anew, even where it fits the file"},
	{0}};

static const struct option_table table = {
	.program = PROGRAM,
	.synopsis = "[--format FORMAT] [--force] FILE [-o INDEX]\n"
		    "--count FILE|-\n"
		    "--cat FILE|- BEGIN LENGTH\n"
		    "--check FILE",
	.about = "Builds and uses an index of the rows of a csv, criteo or libsvm file, plain or gzip.",
	.rows = rows,
	.epilogue = "An index beside a file is used when size, time and first bytes of the file are still\n"
		    "those it was made from, else it is built anew. Nothing here waits for anybody."};

/* Options may stand behind FILE too. */
static int parse(int argc, char **argv, const char **operand, size_t *count, struct error *err)
{
	*count = 0;
	for (;;) {
		int first;
		int result = option_parse(&table, argc, argv, &first, stdout, err);
		if (result != OPTION_GO)
			return result;
		if (first == argc)
			return OPTION_GO;
		if (*count == OPERANDS_MAX)
			return error_set(err, ERROR_USAGE, argv[first], "one operand too many");
		operand[(*count)++] = argv[first];
		argc -= first;
		argv += first;
	}
}

static int check_usage(const char *const *operand, size_t count, struct error *err)
{
	if (opt.count + opt.cat + opt.check > 1)
		return error_set(err, ERROR_USAGE, NULL, "only one of --count, --cat, --check");
	size_t want = opt.cat ? 3 : 1;
	if (count != want)
		return error_set(err, ERROR_USAGE, NULL, "%s",
				 opt.cat ? "--cat needs FILE BEGIN LENGTH" : "needs one FILE");
	if (strcmp(operand[0], "-") == 0 && !opt.cat && !opt.count)
		return error_set(err, ERROR_USAGE, "-", "a stream can't be indexed");
	if (strcmp(operand[0], "-") == 0 && opt.index)
		return error_set(err, ERROR_USAGE, "-o", "a stream has no index");
	if (opt.index && strcmp(opt.index, "-") == 0)
		return error_set(err, ERROR_USAGE, "-o", "an index must be a file");
	return 0;
}

static void show_progress(uint64_t done, uint64_t total, void *name)
{
	if (done < total)
		fprintf(stderr, "\r%s: indexing %s: %3.0f %%", PROGRAM, (const char *)name,
			100.0 * (double)done / (double)total);
	else
		fprintf(stderr, "\r\033[K");
}

static int guess(const char *path, enum row_format *format, struct error *err)
{
	struct source *source;
	struct rowscan scan;
	if (source_open(&source, path, err) != 0)
		return -1;
	int result = rowscan_init(&scan, ROW_LINES, err);
	if (result == 0)
		result = rowscan_start(&scan, source, 1, err);
	if (result == 0)
		result = rowscan_guess(&scan, err);
	*format = scan.format;
	rowscan_free(&scan);
	source_close(source);
	return result;
}

static int build(struct index **out, const char *path, enum row_format format, struct error *err)
{
	struct source *source;
	if (source_open(&source, path, err) != 0)
		return -1;
	int result = index_build(out, source, format, isatty(2) ? show_progress : NULL,
				 (void *)(size_t)path, err);
	source_close(source);
	return result;
}

static int choose_format(const struct index *old, const char *path, enum row_format *format,
			 struct error *err)
{
	if (opt.format) {
		*format = (enum row_format)row_format_find(opt.format);
		return 0;
	}
	if (old) {
		*format = old->format;
		return 0;
	}
	return guess(path, format, err);
}

/* The index of the file: the one that is there when it fits, else a new one, kept when it can be. */
static int find_index(struct index **out, const char *path, const char *index_name,
		      struct error *err)
{
	struct source *source;
	struct index *old = NULL;
	enum row_format format;
	if (source_open(&source, path, err) != 0)
		return -1;
	int fits = 0;
	if (index_read(&old, index_name, 0, NULL) == 0)
		fits = index_is_of(old, source, err);
	source_close(source);
	if (fits < 0 || choose_format(old, path, &format, err) != 0) {
		index_free(old);
		return -1;
	}
	if (fits && format == old->format && !opt.force) {
		*out = old;
		return 0;
	}
	index_free(old);
	if (build(out, path, format, err) != 0)
		return -1;
	/* Whoever only looks needs no index kept. */
	int only_looks = (opt.count || opt.cat) && !opt.index;
	if (only_looks && !index_may_write(index_name))
		return 0;
	if (index_write(*out, index_name, err) == 0 || (only_looks && err->code == ERROR_IO))
		return 0;
	index_free(*out);
	return -1;
}

/* Prints rows that scan gives, the first of which has number at, as far as they are wanted. */
static int print_rows(struct rowscan *scan, uint64_t at, uint64_t begin, uint64_t length,
		      uint64_t *printed, struct error *err)
{
	struct row_ref row;
	*printed = 0;
	while (*printed < length) {
		int got = rowscan_next(scan, &row, 0, err);
		if (got != ROWSCAN_ROW)
			return got;
		if (at++ < begin)
			continue;
		if (fwrite(row.data, 1, row.raw_len, stdout) != row.raw_len)
			return error_errno(err, ERROR_IO, "standard output", "write");
		(*printed)++;
	}
	return 0;
}

static int cat_file(struct index *ix, const char *path, uint64_t begin, uint64_t length,
		    uint64_t *printed, struct error *err)
{
	struct source *source;
	struct rowscan scan;
	uint64_t at;
	*printed = 0;
	if (begin >= ix->rows || length == 0)
		return 0;
	if (source_open(&source, path, err) != 0)
		return -1;
	int result = source_check_unchanged(source, &ix->identity, err);
	if (result == 0)
		result = rowscan_init(&scan, ix->format, err);
	if (result == 0) {
		result = index_seek(ix, source, &scan, begin, &at, err);
		if (result == 0)
			result = print_rows(&scan, at, begin, length, printed, err);
		rowscan_free(&scan);
	}
	source_close(source);
	return result;
}

/* --count - and --cat -: by scanning. */
static int run_stream(uint64_t begin, uint64_t length, uint64_t *number, struct error *err)
{
	struct source *source;
	struct rowscan scan;
	struct row_ref row;
	if (source_open_fd(&source, 0, "stdin", err) != 0)
		return -1;
	enum row_format format = opt.format ? (enum row_format)row_format_find(opt.format) : ROW_LINES;
	int result = rowscan_init(&scan, format, err);
	if (result == 0)
		result = rowscan_start(&scan, source, 1, err);
	if (result == 0 && !opt.format)
		result = rowscan_guess(&scan, err);
	if (result == 0 && scan.format == ROW_CSV) /* the header is no row */
		result = rowscan_next(&scan, &row, 0, err) < 0 ? -1 : 0;
	if (result == 0 && opt.cat) {
		result = print_rows(&scan, 0, begin, length, number, err);
	} else if (result == 0) {
		*number = 0;
		while ((result = rowscan_next(&scan, &row, 0, err)) == ROWSCAN_ROW)
			(*number)++;
	}
	rowscan_free(&scan);
	source_close(source);
	return result;
}

static int check(const char *path, const char *index_name, struct error *err)
{
	struct index *old, *new;
	struct source *source;
	if (index_read(&old, index_name, 1, err) != 0) {
		if (err->code == ERROR_DATA)
			err->code = ERROR_NEGATIVE;
		return -1;
	}
	if (source_open(&source, path, err) != 0) {
		index_free(old);
		return -1;
	}
	int same = index_is_of(old, source, err);
	source_close(source);
	if (same == 1 && build(&new, path, old->format, err) == 0) {
		same = index_same(old, new, err);
		index_free(new);
	} else if (same == 1) {
		same = -1;
	}
	index_free(old);
	if (same == 0)
		snprintf(err->place, sizeof err->place, "%.500s", index_name);
	return same == 1 ? 0 : -1;
}

static int run(const char *const *operand, struct error *err)
{
	const char *path = operand[0];
	char name[PATH_MAX];
	struct index *ix = NULL;
	uint64_t begin = 0, length = 0, number = 0;
	if (opt.cat && (number_u64(operand[1], 0, INT64_MAX, &begin, "BEGIN", err) != 0 ||
			number_u64(operand[2], 0, INT64_MAX, &length, "LENGTH", err) != 0))
		return -1;
	int result;
	if (strcmp(path, "-") == 0) {
		result = run_stream(begin, length, &number, err);
	} else {
		if (opt.index)
			snprintf(name, sizeof name, "%s", opt.index);
		else if (index_path(name, sizeof name, path, NULL, err) != 0)
			return -1;
		if (opt.check)
			return check(path, name, err);
		if (find_index(&ix, path, name, err) != 0)
			return -1;
		number = ix->rows;
		result = opt.cat ? cat_file(ix, path, begin, length, &number, err) : 0;
		index_free(ix);
	}
	if (result != 0)
		return -1;
	if (opt.count)
		printf("%llu\n", (unsigned long long)number);
	if (opt.cat && number < length)
		return error_set(err, ERROR_NEGATIVE, path, "has only %llu of these %llu rows",
				 (unsigned long long)number, (unsigned long long)length);
	return 0;
}

int main(int argc, char **argv)
{
	const char *operand[OPERANDS_MAX];
	size_t count;
	struct error err;
	cmd_begin(PROGRAM);
	int parsed = parse(argc, argv, operand, &count, &err);
	if (parsed == OPTION_SHOWN)
		return cmd_end(PROGRAM, 0);
	if (parsed < 0 || check_usage(operand, count, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	int status = 0;
	if (run(operand, &err) != 0) {
		fflush(stdout); /* rows printed come before the word that there are no more */
		status = cmd_fail(PROGRAM, &err);
	}
	return cmd_end(PROGRAM, status);
}

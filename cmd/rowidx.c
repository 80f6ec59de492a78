/*
 * rowidx: where each row of a data file starts, kept in an index file; counts rows, prints rows by
 * number, and caches them as numbers.  All knowledge is in lib/data; this file finds the index to use
 * and prints.
 */
#include "cmd/cmd.h"

#include "base/human.h"
#include "base/log.h"
#include "base/number.h"
#include "data/rowcache.h"
#include "data/rowfile.h"
#include "record/record.h"

#include <limits.h>
#include <unistd.h>

#define PROGRAM "rowidx"
#define FRAME_LONG (UINT64_C(64) << 20) /* bytes of text: some 0.1 s */

static struct {
	const char *index, *format, *separator, *pack;
	int count, cat, check, force;
	int named; /* --format or --separator was given */
	struct row_syntax syntax;
} opt;

static const struct option_row rows[] = {
	{.name = "index", .letter = 'o', .kind = OPTION_TEXT, .target = &opt.index, .arg = "INDEX",
	 .help = "the index file (default: FILE.rowidx)"},
	{.name = "format", .letter = 'f', .kind = OPTION_CHOICE, .target = &opt.format,
	 .arg = "FORMAT", .choices = ROW_FORMAT_CHOICES "|lines",
	 .help = "format of the rows (default: by the index, else by the first line)"},
	{.name = "separator", .letter = 's', .kind = OPTION_TEXT, .target = &opt.separator,
	 .arg = "CHARACTER", .help = "separator of a csv: a character, or the word tab (,)"},
	{.name = "count", .letter = 'c', .kind = OPTION_FLAG, .target = &opt.count,
	 .help = "print how many rows there are"},
	{.name = "cat", .letter = 'p', .kind = OPTION_FLAG, .target = &opt.cat,
	 .help = "print LENGTH rows from row BEGIN (counted from 0), unchanged"},
	{.name = "check", .letter = 'k', .kind = OPTION_FLAG, .target = &opt.check,
	 .help = "compare the index with the whole file; exit 1 when they differ"},
	{.name = "pack", .kind = OPTION_TEXT, .target = &opt.pack, .arg = "SCHEMA",
	 .help = "cache the rows as the numbers that this schema makes of them, in FILE.rowcache"},
	{.name = "force", .kind = OPTION_FLAG, .target = &opt.force,
	 .help = "build the index or the cache anew, even if it fits the file"},
	{0}};

static const struct option_table table = {
	.program = PROGRAM,
	.synopsis = "[--format FORMAT] [--separator CHARACTER] [--force] FILE [-o INDEX]\n"
		    "--count FILE|-\n"
		    "--cat FILE|- BEGIN LENGTH\n"
		    "--check FILE\n"
		    "--pack SCHEMA [--check] [--force] FILE",
	.about = "Builds and uses an index of the rows of a data file, plain, gzip or zstd.",
	.rows = rows,
	.epilogue = "An index beside a file is used if the file still has the size, time and first "
		    "bytes that it\nhad when the index was made; else the index is built anew."};

static int check_usage(char *const *operand, int count, struct error *err)
{
	if (opt.count + opt.cat + opt.check > 1)
		return error_set(err, ERROR_USAGE, NULL, "only one of --count, --cat, --check");
	if (opt.pack && (opt.count || opt.cat || opt.index || opt.format || opt.separator))
		return error_set(err, ERROR_USAGE, "--pack",
				 "goes with --check and --force only: SCHEMA says the format");
	int want = opt.cat ? 3 : 1;
	if (count != want)
		return error_set(err, ERROR_USAGE, NULL, "%s",
				 opt.cat ? "--cat needs FILE BEGIN LENGTH" : "needs one FILE");
	if (strcmp(operand[0], "-") == 0 && !opt.cat && !opt.count)
		return error_set(err, ERROR_USAGE, "-", "a stream can't be %s",
				 opt.pack ? "cached" : "indexed");
	if (strcmp(operand[0], "-") == 0 && opt.index)
		return error_set(err, ERROR_USAGE, "-o", "a stream has no index");
	if (opt.index && strcmp(opt.index, "-") == 0)
		return error_set(err, ERROR_USAGE, "-o", "an index must be a file");
	if ((opt.format || opt.separator) &&
	    row_syntax_find(opt.format, opt.separator, &opt.syntax, err) != 0) {
		err->code = ERROR_USAGE;
		return -1;
	}
	opt.named = opt.format || opt.separator;
	return 0;
}

static void show_progress(uint64_t done, uint64_t total, void *name)
{
	if (done < total)
		fprintf(stderr, "\r%s: %s %s: %3.0f %%", PROGRAM, opt.pack ? "caching" : "indexing",
			(const char *)name, 100.0 * (double)done / (double)total);
	else
		fprintf(stderr, "\r\033[K");
}

static int rowidx_open_file(struct rowfile *f, const char *path, const char *index_name,
			    struct error *err)
{
	struct row_syntax syntax = opt.syntax;
	/* A command that only reads does not write an index. */
	int only_looks = (opt.count || opt.cat) && !opt.index;
	const struct rowfile_options options = {
		.index_path = index_name,
		.making = {.keep = only_looks ? INDEX_KEEP_IF : INDEX_KEEP,
			   .anew = opt.force,
			   .progress = isatty(2) ? show_progress : NULL,
			   .arg = (void *)(size_t)path}};
	if (!opt.named && rowfile_guess(path, index_name, &syntax, err) != 0)
		return -1;
	return rowfile_open(f, path, syntax, &options, err);
}

/* Long frames cost nothing in a whole pass, but much when rows are read in any order. */
static void warn_of_frames(const struct rowfile *f)
{
	char size[HUMAN_MAX];
	uint64_t most = index_span_most(f->index);
	if (f->index->packing == SOURCE_ZSTD && most > FRAME_LONG)
		log_say(LOG_LEVEL_WARNING,
			"%s: to reach a row, up to %s are decompressed, because a frame is so long; "
			"write it anew in small frames: zstdcat FILE | pzstd >NEW.zst",
			f->path, human_bytes((double)most, size));
}

static int print_row(const struct row_ref *row, struct error *err)
{
	if (fwrite(row->data, 1, row->raw_len, stdout) == row->raw_len)
		return 0;
	return error_errno(err, ERROR_IO, "standard output", "write");
}

/* Rows of images are bytes, which no filter reads. */
static int refuse_images(struct row_syntax syntax, struct error *err)
{
	if (!row_is_image(syntax))
		return 0;
	return error_set(err, ERROR_CONFIG, "--cat",
			 "rows are bytes where FORMAT=%s; there is nothing to print",
			 row_syntax_name(syntax));
}

static int cat_file(struct rowfile *f, uint64_t begin, uint64_t length, uint64_t *printed,
		    struct error *err)
{
	struct row_ref row;
	uint64_t there = begin < f->index->rows ? f->index->rows - begin : 0;
	*printed = 0;
	if (there == 0 || length == 0)
		return 0;
	if (refuse_images(f->index->syntax, err) != 0 || rowfile_go_to(f, begin, err) != 0)
		return -1;
	for (; *printed < length && *printed < there; (*printed)++)
		if (rowfile_next(f, &row, err) != 0 || print_row(&row, err) != 0)
			return -1;
	return 0;
}

/* Prints the wanted rows of a scan, from its first row on. */
static int print_rows(struct rowscan *scan, uint64_t begin, uint64_t length, uint64_t *printed,
		      struct error *err)
{
	struct row_ref row;
	*printed = 0;
	for (uint64_t at = 0; *printed < length; at++) {
		int got = rowscan_next(scan, &row, 0, err);
		if (got != ROWSCAN_ROW)
			return got;
		if (at < begin)
			continue;
		if (print_row(&row, err) != 0)
			return -1;
		(*printed)++;
	}
	return 0;
}

/* --count - and --cat -: by scanning. */
static int run_stream(uint64_t begin, uint64_t length, uint64_t *number, struct error *err)
{
	struct source *source;
	struct rowscan scan;
	struct row_ref row;
	if (source_open_fd(&source, 0, "stdin", err) != 0)
		return -1;
	int result = rowscan_init(&scan, opt.named ? opt.syntax : row_syntax(ROW_LINES), err);
	if (result == 0)
		result = rowscan_start(&scan, source, 1, err);
	if (result == 0 && !opt.named)
		result = rowscan_guess(&scan, err);
	if (result == 0 && scan.syntax.format == ROW_CSV) /* the header is no row */
		result = rowscan_next(&scan, &row, 0, err) < 0 ? -1 : 0;
	if (result == 0 && opt.cat)
		result = refuse_images(scan.syntax, err);
	if (result == 0 && opt.cat) {
		result = print_rows(&scan, begin, length, number, err);
	} else if (result == 0) {
		*number = 0;
		while ((result = rowscan_next(&scan, &row, 0, err)) == ROWSCAN_ROW)
			(*number)++;
	}
	rowscan_free(&scan);
	source_close(source);
	return result;
}

/* 1: the index equals one made now; 0: it differs, and err says how; -1: error. */
static int rowidx_compare(const struct index *old, const char *path, struct error *err)
{
	struct source *source;
	struct index *new;
	if (source_open(&source, path, err) != 0)
		return -1;
	int same = index_is_of(old, source, err);
	if (same == 1 && index_build(&new, source, old->syntax, isatty(2) ? show_progress : NULL,
				     (void *)(size_t)path, err) == 0) {
		same = index_same(old, new, err);
		index_free(new);
	} else if (same == 1) {
		same = -1;
	}
	source_close(source);
	return same;
}

static int rowidx_check(const char *path, const char *index_name, struct error *err)
{
	struct index *old;
	if (index_read(&old, index_name, 1, err) != 0) {
		if (err->code == ERROR_DATA)
			err->code = ERROR_NEGATIVE;
		return -1;
	}
	int same = rowidx_compare(old, path, err);
	index_free(old);
	if (same == 0)
		snprintf(err->place, sizeof err->place, "%.500s", index_name);
	return same == 1 ? 0 : -1;
}

/* writes: a file that is made; NULL: none is. */
static void rowidx_confine(const char *writes)
{
	cmd_confine(&(struct confine_ask){.read = {"/"}, .replace = {writes}});
}

/* ---- the cache ---- */

static int pack_make(const struct rowcache_making *m, struct error *err)
{
	struct rowcache_made made;
	int there = opt.force ? 0 : rowcache_is_made(m, err);
	if (there != 0)
		return there > 0 ? 0 : -1;
	if (rowcache_make(m, &made, err) != 0)
		return -1;
	record_print(stdout, RECORD("cache", F("path", m->path), F("rows", made.rows),
				    F("text-rows", made.text_rows), F("bytes", made.bytes)));
	return 0;
}

static int rowidx_pack(const char *path, struct error *err)
{
	char name[PATH_MAX];
	struct schema *schema;
	if (rowcache_path(name, sizeof name, path, NULL, err) != 0)
		return -1;
	rowidx_confine(name);
	if (schema_read(&schema, opt.pack, err) != 0)
		return -1;
	const struct rowcache_making making = {.schema = schema,
					       .data_path = path,
					       .path = name,
					       .progress = isatty(2) ? show_progress : NULL,
					       .arg = (void *)(size_t)path};
	int result;
	if (row_is_image(schema->syntax))
		result = error_set(err, ERROR_CONFIG, opt.pack,
				   "FORMAT=%s needs no cache: its rows are bytes, as quick to read",
				   row_syntax_name(schema->syntax));
	else if (schema_needs_fit(schema))
		result = error_set(err, ERROR_CONFIG, opt.pack,
				   "is not fitted: means and deviations, or classes, come from all of the "
				   "data; a job has such a schema in STATE/schema");
	else
		result = opt.check ? rowcache_check(&making, err) : pack_make(&making, err);
	schema_free(schema);
	return result;
}

static int rowidx_run(char *const *operand, struct error *err)
{
	const char *path = operand[0];
	char name[PATH_MAX];
	struct rowfile file = {0};
	uint64_t begin = 0, length = 0, number = 0;
	if (opt.cat && (number_u64(operand[1], 0, INT64_MAX, &begin, "BEGIN", err) != 0 ||
			number_u64(operand[2], 0, INT64_MAX, &length, "LENGTH", err) != 0))
		return -1;
	int result;
	if (opt.pack)
		return rowidx_pack(path, err);
	if (strcmp(path, "-") == 0) {
		rowidx_confine(NULL);
		result = run_stream(begin, length, &number, err);
	} else {
		if (opt.index)
			snprintf(name, sizeof name, "%s", opt.index);
		else if (index_path(name, sizeof name, path, NULL, err) != 0)
			return -1;
		rowidx_confine(opt.check ? NULL : name);
		if (opt.check)
			return rowidx_check(path, name, err);
		result = rowidx_open_file(&file, path, name, err);
		number = result == 0 ? file.index->rows : 0;
		if (result == 0)
			warn_of_frames(&file);
		if (result == 0 && opt.cat)
			result = cat_file(&file, begin, length, &number, err);
		rowfile_close(&file);
	}
	if (result != 0)
		return -1;
	if (opt.count)
		printf("%llu\n", (unsigned long long)number);
	if (opt.cat && number < length)
		return error_set(err, ERROR_NEGATIVE, path, "of the %llu rows from %llu on only "
							    "%llu are there",
				 (unsigned long long)length, (unsigned long long)begin,
				 (unsigned long long)number);
	return 0;
}

int main(int argc, char **argv)
{
	struct error err;
	int first;
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, option_parse(&table, argc, argv, &first, stdout, &err), &err);
	if (check_usage(argv + first, argc - first, &err) != 0)
		return cmd_fail(PROGRAM, &err);
	int status = 0;
	if (rowidx_run(argv + first, &err) != 0) {
		fflush(stdout); /* write the rows before the message that there are no more */
		status = cmd_fail(PROGRAM, &err);
	}
	return cmd_end(PROGRAM, status);
}

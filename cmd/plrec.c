/*
 * plrec: records to columns, TSV, JSON lines, and back; and a sieve.  A filter: it keeps nothing
 * between two lines, and writes out what it has before it waits for more.
 */
#include "cmd/plrec.h"

#include "base/near.h"

int rec_with_text;
const char *rec_default_type;
int rec_reader_left; /* when the reader has left (head(1)), end early and quietly */
static int with_header;

static const struct option_row rows[] = {
	{.name = "text", .letter = 't', .kind = OPTION_FLAG, .target = &rec_with_text,
	 .help = "keep the text behind the tab: last column, member text"},
	{.name = "header", .letter = 'H', .kind = OPTION_FLAG, .target = &with_header,
	 .help = "tsv: a line with the keys first"},
	{.name = "type", .letter = 'T', .kind = OPTION_TEXT, .target = &rec_default_type,
	 .arg = "TYPE", .help = "from-json: the type of objects that have none"},
	{0}};

static const struct option_table table = {
	.program = PROGRAM,
	.synopsis = "[-tH] tsv KEY...\n[-t] json [KEY...]\n[-t] where CONDITION...\n"
		    "from-tsv TYPE [KEY...]\n[-T TYPE] from-json",
	.about = "Records on standard input to TSV or JSON lines, and back.",
	.rows = rows,
	.epilogue = "CONDITION: KEY=VALUE, KEY!=VALUE, KEY<NUMBER, KEY>NUMBER, KEY<=NUMBER, "
		    "KEY>=NUMBER;\nthe key `type` is the record's type. No key, no value: `-` in "
		    "TSV, null in JSON.",
};

/* ---- names ---- */

size_t rec_name_length(const char *text)
{
	if (text[0] < 'a' || text[0] > 'z')
		return 0;
	return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
}

int rec_is_name(const char *text)
{
	size_t n = rec_name_length(text);
	return n > 0 && text[n] == '\0';
}

static int rec_check_names(char **name, int count, struct error *err)
{
	for (int i = 0; i < count; i++)
		if (!rec_is_name(name[i]))
			return error_set(err, ERROR_USAGE, NULL, "'%.80s' is no key (a-z, 0-9, -)",
					 name[i]);
	return count <= KEYS_MAX ? 0 : error_set(err, ERROR_USAGE, NULL, "more than %d keys",
						 KEYS_MAX);
}

int rec_flush(struct error *err)
{
	if (fflush(stdout) == 0)
		return 0;
	rec_reader_left = errno == EPIPE;
	return error_errno(err, ERROR_IO, "standard output", "write");
}

/* ---- commands ---- */

static int plrec_usage(struct error *err, const char *why)
{
	return error_set(err, ERROR_USAGE, NULL, "%s", why);
}

static int plrec_unknown_command(const char *given, struct error *err)
{
	static const char *const command[] = {"tsv", "json", "where", "from-tsv", "from-json"};
	struct near near = {0};
	for (size_t i = 0; i < sizeof command / sizeof *command; i++)
		near_look(&near, given, command[i]);
	return near_unknown(&near, given, err);
}

static int plrec_run(char **arg, int count, struct error *err)
{
	struct rec_job job = {.arg = arg + 1, .count = count - 1};
	const char *command = arg[0];
	if (strcmp(command, "from-tsv") == 0) {
		if (job.count < 1)
			return plrec_usage(err, "from-tsv needs the type");
		if (rec_check_names(job.arg, job.count, err) != 0)
			return -1;
		const char *twice = rec_doubled(job.arg + 1, (size_t)job.count - 1);
		if (twice)
			return error_set(err, ERROR_USAGE, twice, "appears twice");
		return rec_from_tsv(job.arg, job.count, err);
	}
	if (strcmp(command, "from-json") == 0) {
		if (rec_default_type && !rec_is_name(rec_default_type))
			return error_set(err, ERROR_USAGE, "--type", "'%.80s' is no name",
					 rec_default_type);
		return job.count == 0 ? rec_from_json(err)
				      : plrec_usage(err, "from-json takes no operand");
	}
	if (strcmp(command, "where") == 0) {
		struct rec_condition c;
		if (job.count == 0)
			return plrec_usage(err, "where needs a condition");
		for (int i = 0; i < job.count; i++)
			if (rec_condition(job.arg[i], &c, err) != 0)
				return -1;
		job.each = rec_each_where;
		return rec_from_records(&job, err);
	}
	if (strcmp(command, "json") != 0 && strcmp(command, "tsv") != 0)
		return plrec_unknown_command(command, err);
	job.each = command[0] == 't' ? rec_each_tsv : rec_each_json;
	if (job.each == rec_each_tsv && job.count == 0)
		return plrec_usage(err, "tsv needs keys");
	if (rec_check_names(job.arg, job.count, err) != 0)
		return -1;
	if (job.each == rec_each_tsv && with_header) {
		for (int i = 0; i < job.count; i++)
			printf("%s%s", i ? "\t" : "", job.arg[i]);
		fputs(rec_with_text ? "\ttext\n" : "\n", stdout);
	}
	return rec_from_records(&job, err);
}

int main(int argc, char **argv)
{
	struct error err = {0};
	int first;
	cmd_begin(PROGRAM);
	cmd_parsed(PROGRAM, option_parse(&table, argc, argv, &first, stdout, &err), &err);
	if (first == argc) {
		plrec_usage(&err, "a command is missing: tsv, json, where, from-tsv or from-json");
		return cmd_fail(PROGRAM, &err);
	}
	cmd_confine(&(struct confine_ask){.sockets = CONFINE_NO_SOCKETS});
	if (plrec_run(argv + first, argc - first, &err) != 0) {
		/* Write the records before the error first. */
		struct error late;
		(void)rec_flush(&late);
		return rec_reader_left ? ERROR_IO : cmd_fail(PROGRAM, &err);
	}
	return cmd_end(PROGRAM, 0);
}

/*
 * cmd: what every main() does the same way.  Only cmd/ prints and exits; lib/ hands errors up.
 */
#ifndef PACELINE_CMD_H
#define PACELINE_CMD_H

#include "base/error.h"
#include "base/log.h"
#include "base/option.h"
#include "proc/confine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void cmd_log_sink(enum log_level level, const char *text, void *program)
{
	(void)level;
	fprintf(stderr, "%s: %s\n", (const char *)program, text);
}

/* First line of a main(): a dead reader of our output, or a limit to a file's size, is a write error
 * that we report, not a death by signal. */
static inline void cmd_begin(const char *program)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	log_set_sink(cmd_log_sink, (void *)(size_t)program, LOG_LEVEL_INFO);
}

/* option_parse() of a program that takes no operands. */
static inline int cmd_options(const struct option_table *table, int argc, char **argv,
			      struct error *err)
{
	int first, result = option_parse(table, argc, argv, &first, stdout, err);
	if (result == OPTION_GO && first < argc)
		return error_set(err, ERROR_USAGE, argv[first], "takes no operands");
	return result;
}

/* "prog: place: text" on stderr; returns the exit status. */
static inline int cmd_fail(const char *program, const struct error *err)
{
	if (err->place[0])
		fprintf(stderr, "%s: %s: %s\n", program, err->place, err->text);
	else
		fprintf(stderr, "%s: %s\n", program, err->text);
	if (err->code == ERROR_USAGE)
		fprintf(stderr, "%s: --help shows the usage\n", program);
	return err->code ? err->code : ERROR_SOFTWARE;
}

/* Sanitizers start programs and look into their own process. */
#if defined(__SANITIZE_ADDRESS__)
#define CMD_IS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CMD_IS_WATCHED 1
#endif
#endif
#ifndef CMD_IS_WATCHED
#define CMD_IS_WATCHED 0
#endif

/* Where a program knows what it needs, and before it reads what others wrote. */
static inline void cmd_confine(const struct confine_ask *ask)
{
	const char *word = getenv("PACELINE_CONFINE");
	if (!CMD_IS_WATCHED && !(word && strcmp(word, "off") == 0))
		confine(ask);
}

/* Last line of a main(): output that could not be written is an error, whatever status says. */
static inline int cmd_end(const char *program, int status)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		if (errno != EPIPE)
			fprintf(stderr, "%s: standard output: %s\n", program, strerror(errno));
		return status == 0 || status == ERROR_NEGATIVE ? ERROR_IO : status;
	}
	return status;
}

/* Goes on if result, of option_parse() and the like, says so: a wrong option ends the program, and
 * so does --help. */
static inline void cmd_parsed(const char *program, int result, const struct error *err)
{
	if (result != OPTION_GO)
		exit(result == OPTION_SHOWN ? cmd_end(program, 0) : cmd_fail(program, err));
}

#endif

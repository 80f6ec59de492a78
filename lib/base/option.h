/*
 * option: one table row an option; the parser and the help text both come from it, so they cannot
 * disagree.  Long options by getopt_long(3), in full or by a beginning that can't be meant as
 * another one; a letter is optional.
 *
 * Every program has --help and --version without naming them.
 */
#ifndef PACELINE_BASE_OPTION_H
#define PACELINE_BASE_OPTION_H

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>

enum option_kind {
	OPTION_FLAG,    /* bool: target is int *, set to 1 */
	OPTION_TEXT,    /* target is const char ** (points into argv) */
	OPTION_COUNT,   /* target is uint64_t *, min..max */
	OPTION_REAL,    /* target is double *, min..max */
	OPTION_SECONDS, /* the same; the help says seconds */
	OPTION_BYTES,   /* target is uint64_t *, suffix K M G */
	OPTION_CHOICE,  /* target is const char **; `choices` is "a|b|c" */
	OPTION_LIST,    /* target is struct option_list *: may be given again and again */
	OPTION_ID       /* target is const char **; must match [A-Za-z0-9._-]{1,64} */
};

#define OPTION_LIST_MAX 1024

struct option_list {
	size_t count;
	const char *item[OPTION_LIST_MAX]; /* points into argv */
};

struct option_row {
	const char *name; /* long name without dashes */
	int letter;       /* 0 for none */
	enum option_kind kind;
	void *target;     /* holds the default before parsing */
	const char *arg;  /* metavariable in the help; NULL for flags */
	const char *help; /* one line; say the default here only for TEXT and CHOICE */
	double min, max;  /* numbers; max 0 means no upper bound */
	const char *choices;
	int *seen;        /* may be NULL; set to 1 when the option was given */
};

struct option_table {
	const char *program;
	const char *synopsis; /* what follows "usage: program"; lines separated by \n */
	const char *about;    /* one sentence */
	const struct option_row *rows; /* ends with a row whose name is NULL */
	const char *epilogue; /* deadlines, files; may be NULL */
};

enum option_result { OPTION_GO = 0, OPTION_SHOWN = 1 /* help or version was written: exit 0 */ };

/* Parses argv, and moves the operands, which may stand between options, to its end; *first is the
 * index of the first one, argc: there is none.  Help and version are written to out.  Returns
 * enum option_result or -1 with err.code ERROR_USAGE. */
int option_parse(const struct option_table *table, int argc, char **argv, int *first, FILE *out,
		 struct error *err);
/* The same where operands are a command with options of its own: ours end where it begins. */
int option_parse_command(const struct option_table *table, int argc, char **argv, int *first,
			 FILE *out, struct error *err);

#define OPTION_ID_MAX 65 /* bytes of an id with its NUL */
/* [A-Za-z0-9._-]{1,64}, and not "." or ".." (ids become file names). */
int option_id_ok(const char *text);
/* Whether text is one of the words in choices, "a|b". */
int option_is_choice(const char *choices, const char *text);

#endif

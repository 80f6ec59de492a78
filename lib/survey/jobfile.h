/*
 * jobfile: the text of a job file that explains itself, keys with a reason each; and of one that has every
 * key of paceline-job(5) as a comment, with its default and what it does.
 */
#ifndef PACELINE_SURVEY_JOBFILE_H
#define PACELINE_SURVEY_JOBFILE_H

#include "base/error.h"

#include <stddef.h>

struct jobfile_setting {
	char *key, *value;
	char *section; /* a title above it, or NULL */
	char *reason;  /* lines, each with its newline; may be "" */
};

struct jobfile {
	char *head; /* what the whole file is, lines; may be NULL */
	char *tail; /* comments behind all keys, as they stand; may be NULL */
	char *section; /* of the next key; or NULL */
	struct jobfile_setting *setting;
	size_t count, room;
};

/* All zero bytes are one without settings. */
void jobfile_free(struct jobfile *f);

int jobfile_head(struct jobfile *f, const char *lines, struct error *err);
int jobfile_tail(struct jobfile *f, const char *lines, struct error *err);
/* The next key that is set stands below this title. */
int jobfile_section(struct jobfile *f, const char *title, struct error *err);
/* A key that was set gets the other value, where it stands. -1: out of memory. */
int jobfile_set(struct jobfile *f, const char *key, const char *value, const char *reason,
		struct error *err);
/* A line more at the end; of a key of several parts it says some of them only. */
int jobfile_add(struct jobfile *f, const char *key, const char *value, const char *reason,
		struct error *err);
const char *jobfile_get(const struct jobfile *f, const char *key); /* NULL: not set */

/* The text, to be freed. */
int jobfile_text(const struct jobfile *f, char **text, size_t *len, struct error *err);
/* Every key there is: "#KEY=DEFAULT", below it its parts and what they do. To be freed. */
int jobfile_keys(char **text, size_t *len, struct error *err);

#endif

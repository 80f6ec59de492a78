/*
 * keys: the keys of a job file, one row a value: its name, what it may be, its default, when it may
 * change.  Reading and writing job files, comparing them, `trainctl init --keys`, the completion and
 * the test of paceline-job(5) all go by this table; nothing else lists keys, except job_is_late():
 * those that a job can't change any more when it is over.  Only lib/job includes it; others ask job.h.
 *
 * A key is one value (SEED), or a family of parts, of which one may be its head: the rows of a family
 * stand together.  A row is named as messages name it: "CHECKPOINT" is the head, "CHECKPOINT keep"
 * one of the other parts.
 */
#ifndef PACELINE_JOB_KEYS_H
#define PACELINE_JOB_KEYS_H

#include "job/job.h"

enum key_kind {
	KEY_INCLUDE, /* no value of a job: another job file is read in its place */
	KEY_ID,
	KEY_TEXT,
	KEY_CHOICE, /* of words */
	KEY_COUNT,
	KEY_REAL,
	KEY_SECONDS,
	KEY_BYTES,   /* of memory: enough to start a node in */
	KEY_OPTION,  /* of a model, see model/option.h */
	KEY_FILES,   /* that are there */
	KEY_PATH,    /* of one that is there */
	KEY_PLACE,   /* of one that may come later */
	KEY_PROGRAM, /* of an executable, or a word */
	KEY_MEMORY,  /* off, on, or a directory that lies in memory */
	KEY_SYNC,
	KEY_BAD_ROWS,
	KEY_SEPARATOR,
	KEY_DEADLINE,
	KEY_METRICS,
	KEY_HOSTS,
	KEY_PLACING,
	KEY_TEMPLATE,
	KEY_DEVICE
};

#define KEY_ROWS_MAX 256 /* of the table */

struct key_row {
	const char *name;
	const char *head; /* of a head: its name as a part */
	const char *old;  /* what it was called; NULL: the same */
	enum key_kind kind;
	size_t at;         /* offset in struct job */
	const char *given; /* default */
	double min, max;
	/* Of KEY_CHOICE what there is; of numbers the word for what 0 means in struct job, or auto
	 * (NAN); of others what help shows. As text auto is "". */
	const char *words;
	const char *of; /* heads that have this part, "a|b", and any path; NULL: all */
	enum job_change change;
	const char *help;
};

/* Those of keys.c, and a row for each option of a model. */
extern struct key_row key_rows[KEY_ROWS_MAX];
extern size_t key_count;

/* The row that messages call so; NULL: none. */
const struct key_row *key_find(const char *name);
/* The first row of a key; NULL: there is no such key. */
const struct key_row *key_family(const char *key, size_t len);
/* The next of the same key; NULL: there is none. */
const struct key_row *key_next(const struct key_row *row);
/* The row of which this was the name; NULL: none. */
const struct key_row *key_old(const char *key);
/* Bytes of its key, with which its name begins. */
size_t key_len(const struct key_row *row);
/* Its name as a part; NULL: its key is this value alone. */
const char *key_part(const struct key_row *row);
/* The section that begins with this row; NULL: none does. */
const char *key_section(const struct key_row *row);

/* ---- values (value.c) ---- */

void *key_field(const struct job *job, const struct key_row *row);
int key_is_file(const struct key_row *row);   /* one that is named */
int key_is_number(const struct key_row *row); /* uint64_t (KEY_COUNT, KEY_BYTES) or double */
int key_takes_colon(const struct key_row *row);
/* "" is the default. place: where the value stands. */
int key_store(struct job *job, const struct key_row *row, const char *value, const char *place,
	      struct error *err);
/* The value as a job file would say it; to be freed. "": it is not said. */
char *key_text(const struct job *job, const struct key_row *row);
void key_clear(struct job *job, const struct key_row *row);
/* Another string of malloc() there. */
int key_text_set(char **at, const char *value, const char *place, struct error *err);

#endif

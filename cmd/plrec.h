/*
 * plrec: what its files share.
 */
#ifndef PACELINE_CMD_PLREC_H
#define PACELINE_CMD_PLREC_H

#include "cmd/cmd.h"

#include "record/framer.h"
#include "record/record.h"

#define PROGRAM "plrec"
#define KEYS_MAX 256

/* plrec.c */
extern int rec_with_text;            /* the text behind the tab is kept */
extern const char *rec_default_type; /* of JSON objects that have none; NULL */
extern int rec_reader_left;          /* set by rec_flush(): nobody reads what we write */
size_t rec_name_length(const char *text); /* of the key that text begins with; 0: none */
int rec_is_name(const char *text);
int rec_flush(struct error *err);

/* records.c */
struct rec_job {
	char **arg; /* keys or conditions */
	int count;
	int (*each)(const struct rec_job *job, const struct record *r, struct error *err);
};
int rec_from_records(const struct rec_job *job, struct error *err);
int rec_each_tsv(const struct rec_job *job, const struct record *r, struct error *err);
int rec_each_json(const struct rec_job *job, const struct record *r, struct error *err);
int rec_each_where(const struct rec_job *job, const struct record *r, struct error *err);
struct rec_condition {
	char key[128];
	char op; /* = ! < > and, for <= and >=, l and g */
	const char *value;
	double number;
};
int rec_condition(const char *text, struct rec_condition *c, struct error *err);

/* lines.c */
struct rec_lines {
	char *data;
	struct framer in;
	unsigned long long number;
	char place[64];
};
/* The next line, NUL for its newline; 1, or 0 at the end. *whole is 0 for a last line without
 * newline. Writes out what there is before it waits. */
int rec_next_line(struct rec_lines *in, char **line, size_t *len, int *whole, struct error *err);
/* Writes the record out; ERROR_DATA at place when it is too long. */
int rec_put(struct record_out *o, const char *text, const char *place, struct error *err);

/* tsv.c: arg: the type, then the keys; without them the first line names them. */
int rec_from_tsv(char **arg, int arg_count, struct error *err);
/* The first key that appears twice, or NULL: a record could not hold both columns. */
const char *rec_doubled(char **key, size_t count);

/* json.c */
int rec_from_json(struct error *err);

#endif

/*
 * source_internal: a source and what unpacks it. Private to lib/data/source*.c.
 */
#ifndef PACELINE_DATA_SOURCE_INTERNAL_H
#define PACELINE_DATA_SOURCE_INTERNAL_H

#include "data/source.h"

#define SOURCE_INPUT_MAX 262144

struct source {
	int fd;
	int owns_fd, regular;
	enum source_packing packing;
	char *name;
	uint64_t file_at;     /* bytes of the file read into input */
	uint64_t out_at;      /* offset in the text */
	unsigned char *input; /* read and not yet used: input[in_begin .. in_end) */
	size_t in_begin, in_end;
	int in_eof;
	void *unpack;         /* of the packing, or NULL */
	int pending;          /* the last call filled its room: there may be more text already */
	int done;             /* all text was given */
	uint64_t units;       /* members or frames begun */
	source_point_fn *point;
	void *point_arg;
	uint64_t *span;
	uint64_t last_point;
};

/* How a packing is read. All work on source->unpack. */
struct source_codec {
	const char *name;
	int (*matches)(const unsigned char *head, size_t len);
	int (*open)(struct source *s, struct error *err);
	void (*close)(struct source *s);
	/* At least one byte unless s->done. */
	int (*read)(struct source *s, void *data, size_t max, size_t *got, struct error *err);
	/* Source already stands at p->in and p->out. */
	int (*seek)(struct source *s, const struct source_point *p, const void *window, size_t window_len,
		    struct error *err);
};

extern const struct source_codec source_gzip, source_zstd;

/* More input behind what is left of it. */
int source_fill_input(struct source *s, struct error *err);
/* At least `need` bytes of input unless the file ends before. */
int source_want_input(struct source *s, size_t need, struct error *err);
/* Goes to a byte of the file, which holds the text from out_at on. */
void source_jump(struct source *s, uint64_t file_at, uint64_t out_at);
/* A member or frame begins here, for which nothing before it is needed. */
int source_begin_unit(struct source *s, struct error *err);
int source_no_memory(const struct source *s, struct error *err);
int source_damaged(const struct source *s, struct error *err, const char *why);
int source_truncated(const struct source *s, struct error *err);

#endif

/*
 * ckpt: a checkpoint directory: one consistent cut of a job (paceline-checkpoint(5)).
 *
 *     MANIFEST         records; it is renamed into place last: without it there is no checkpoint
 *     part-0 ... part-(n-1)   the servers' parameters and optimiser slots (part.h)
 *     shards           shardd's queue of the same cut
 *     layout, ...      files included as they were (schema, model, job)
 *     w0/...           of trainers that are not ours, in place of parts (foreign)
 *
 * A directory gets a name of its own and is never renamed over an older one.
 *
 * A checkpoint may have a base: an older one beside it, which has all parameters itself.  Then it
 * has only the rows that have changed since, and reads as if it had all.
 *
 * Writing, by the lead: make the directory; every server writes its part-i; shardd writes shards;
 * ckpt_include() copies the rest; ckpt_add() enters each file; ckpt_commit() last.
 */
#ifndef PACELINE_CKPT_CKPT_H
#define PACELINE_CKPT_CKPT_H

#include "base/error.h"
#include "ckpt/part.h"
#include "param/layout.h"
#include "param/store.h"
#include "record/record.h"

#include <stddef.h>
#include <stdint.h>

#define CKPT_FILES_MAX 16384
#define CKPT_BUCKETS 4096
#define CKPT_NAME_MAX 65
#define CKPT_FILE_NAME_MAX 512
#define CKPT_FILE_LINE_MAX 2048 /* of MANIFEST: each byte of a name may be written as three */
#define CKPT_SAVED_MAX 1100
#define CKPT_PATH_MAX 4096

struct ckpt_file {
	char name[CKPT_FILE_NAME_MAX]; /* an id; of a foreign one a path, in the directory unless it
					  begins with a slash */
	uint64_t bytes;
	uint64_t sum; /* XXH3, 64 bits, seed 0, of the whole file */
	uint16_t next; /* in its bucket: a number from 1, 0 is none */
};

/* What a trainer says it has saved. */
struct ckpt_saved {
	char worker[CKPT_NAME_MAX];
	char path[CKPT_FILE_NAME_MAX]; /* of a file or directory, like a file's name; "": nothing */
};

/* ckpt_manifest_start() or ckpt_manifest_read() fills it, over whatever it was; ckpt_manifest_free() in
 * any case after them. */
struct ckpt_manifest {
	char job[CKPT_NAME_MAX];
	uint64_t iteration, incarnation;
	double at;      /* seconds since 1970 */
	int64_t epoch;  /* -1: not known */
	char base[CKPT_NAME_MAX]; /* name of the directory beside it with the other rows; "": none */
	uint64_t base_sum;        /* of its MANIFEST */
	uint64_t sum;             /* when it was read: of MANIFEST itself */
	int foreign;    /* the parameters are files of trainers that are not ours: no parts */
	uint32_t parts; /* counted from the files part-0, part-1, ... */
	size_t count;
	size_t saved_count; /* foreign: in the order of its lines */
	uint16_t bucket[CKPT_BUCKETS]; /* files by their names; as `next` */
	struct ckpt_file *file;   /* [count] */
	struct ckpt_saved *saved; /* [saved_count] */
	size_t file_room, saved_room;
};

void ckpt_manifest_free(struct ckpt_manifest *m); /* one of zeroes is fine */

/* ---- writing ---- */

/* job may be empty; otherwise it must be an id. */
int ckpt_manifest_start(struct ckpt_manifest *m, const char *job, uint64_t iteration,
			uint64_t incarnation, double at, struct error *err);
/* A file that its writer has summed (part_finish). */
int ckpt_add(struct ckpt_manifest *m, const char *name, uint64_t bytes, uint64_t sum,
	     struct error *err);
/* The same from a line `file name= bytes= sum=`. */
int ckpt_add_line(struct ckpt_manifest *m, const struct record *r, struct error *err);
/* The file of this name that was added; NULL: none. */
const struct ckpt_file *ckpt_manifest_file(const struct ckpt_manifest *m, const char *name);
/* Its parts will have only those rows that have changed since the checkpoint with this name, beside
 * dir, which must have all of them itself. */
int ckpt_set_base(struct ckpt_manifest *m, const char *dir, const char *base, struct error *err);
/* Of a foreign one: path NULL: that trainer has saved nothing. */
int ckpt_add_saved(struct ckpt_manifest *m, const char *worker, const char *path,
		   struct error *err);
/* A file that lies in dir already (shards): summed and fsynced here. */
int ckpt_add_file(struct ckpt_manifest *m, const char *dir, const char *name, struct error *err);
/* Copies the file at path to dir/name (name NULL: the last part of path), fsyncs and enters it. */
int ckpt_include(struct ckpt_manifest *m, const char *dir, const char *path, const char *name,
		 struct error *err);
/* Checks that part-0 ... part-(n-1) are there without a gap, then: temporary, fsync, rename to
 * MANIFEST, fsync of dir and of its parent. From here on the checkpoint exists. */
int ckpt_commit(struct ckpt_manifest *m, const char *dir, struct error *err);

/* "part-I" */
void ckpt_part_name(uint32_t part, char out[CKPT_NAME_MAX]);
/* One server's part, as a file at path, of rows those only that have changed since then (store_mark();
 * 0: all), compressed by all cores that this process may use; for a forked
 * child. level: of compression (param/planes.h). */
int ckpt_write_part(const struct store *s, const char *path, uint32_t since, int level,
		    uint64_t *bytes, uint64_t *sum, struct error *err);

/* ---- reading ---- */

struct ckpt;

/* Only MANIFEST: checks its own sum, nothing else. No MANIFEST: ERROR_NOINPUT. After a failure m is empty. */
int ckpt_manifest_read(struct ckpt_manifest *m, const char *dir, struct error *err);

/* The directory of the base of the checkpoint in dir into out; 0: it has one. -1: it has none, or can't be
 * read. */
int ckpt_find_base(const char *dir, char *out, size_t max);

/* What a trainer is to go on from: what it saved itself; or else what was saved by the trainer with
 * the lowest number among those that saved something; NULL: none did. */
const struct ckpt_saved *ckpt_find_saved(const struct ckpt_manifest *m, const char *worker);
/* Whether all that was saved there is as MANIFEST has it; its full path into out. ERROR_DATA. */
int ckpt_check_saved(const struct ckpt_manifest *m, const char *dir, const struct ckpt_saved *saved,
		     char *out, size_t max, struct error *err);
/* Length and XXH3 of a file; with sync it is fsynced, too. */
int ckpt_sum_file(const char *path, int sync, uint64_t *bytes, uint64_t *sum, struct error *err);

/* Whether a file in dir is the one that MANIFEST names: length and sum. */
int ckpt_check_sum(const char *dir, const char *name, struct error *err);

/* Of parameters that are ours; a foreign one is ERROR_CONFIG.
 * Refuses (ERROR_NOINPUT) a directory without MANIFEST and (ERROR_DATA) one whose MANIFEST is
 * damaged, whose files are missing or have another length, or whose parts do not fit together. */
int ckpt_open(struct ckpt **out, const char *dir, struct error *err);
void ckpt_close(struct ckpt *c); /* NULL is fine */
/* From now on all cores that this process may use read it; a taker may then be called by any of their
 * threads, by one at a time. */
void ckpt_share(struct ckpt *c);

const char *ckpt_dir(const struct ckpt *c);
const struct ckpt_manifest *ckpt_get_manifest(const struct ckpt *c);
const struct ckpt_file *ckpt_find_file(const struct ckpt *c, const char *name); /* or NULL */
/* An included file, its sum checked, NUL behind it; to be freed by the caller. */
int ckpt_read_file(struct ckpt *c, const char *name, char **out, size_t *len, struct error *err);
/* The path of an included file whose sum has been checked, for readers that take a path. */
int ckpt_check_file(struct ckpt *c, const char *name, char *path, size_t path_max,
		    struct error *err);
/* The included file `layout`; ERROR_DATA when it is not there or does not fit the parts. */
int ckpt_read_layout(struct ckpt *c, struct layout *l, struct error *err);

uint64_t ckpt_dense_count(const struct ckpt *c);
uint32_t ckpt_dense_slots(const struct ckpt *c);
uint32_t ckpt_width(const struct ckpt *c); /* 0: no rows */
uint32_t ckpt_row_slots(const struct ckpt *c);
uint64_t ckpt_row_count(const struct ckpt *c);
/* Key and value of part 0's i-th note; NULL behind the last. */
const char *ckpt_note_at(const struct ckpt *c, size_t i, const char **value);

/* What is wanted, whatever parts it lies in: see part_read(). */
int ckpt_read(struct ckpt *c, const struct part_want *want, const struct stream_taker *taker,
	      struct error *err);

/* The share of a store, whatever parts the checkpoint has: only that is read. *slots_lost: the
 * optimiser's slots were not there (another optimiser) and start anew. ERROR_CONFIG: it is another
 * model's. */
int ckpt_restore(struct ckpt *c, struct store *s, int *slots_lost, struct error *err);

/* Everything there is to check. bad() is called for each damaged place ("part-1: block 3"); returns
 * how many there were (0: whole; a directory without MANIFEST is damaged in one), or -1 when none was
 * found, but not all could be looked at (no memory, no right to). */
int ckpt_verify(const char *dir, part_bad_fn *bad, void *arg, struct error *err);

/* ---- a directory of checkpoints ---- */

struct ckpt_entry {
	char name[256];
	int foreign;
	int complete; /* MANIFEST is there and whole; otherwise the numbers are 0 */
	int damaged;  /* not complete, though MANIFEST is there; why[] says what is wrong */
	int unread;   /* damaged: the disk does not give it just now */
	char why[256];
	uint64_t iteration, incarnation;
	double at;
	uint32_t parts;
	uint64_t bytes; /* of all its files */
	char base[CKPT_NAME_MAX]; /* or "" */
};

/* All checkpoints below dir, the oldest first: by incarnation, then iteration, then time; the
 * incomplete ones before all. *out is to be freed. A name is listed when it holds a MANIFEST, or is
 * a number (the supervisor's names). */
int ckpt_list(const char *dir, struct ckpt_entry **out, size_t *count, struct error *err);

/* The newest complete one, as dir/NAME. None: ERROR_NEGATIVE. */
int ckpt_latest(const char *dir, char *out, size_t out_max, struct error *err);

struct ckpt_pruning {
	uint64_t keep;              /* so many of the newest complete ones stay, 1 at least */
	const char *const *protect; /* paths or names that stay, NULL behind the last; NULL: none */
	const char *const *damaged; /* names of some that are no use, and do not count; NULL: none known */
	const char *good;           /* path or name of one that is known to be whole; NULL: none is */
	void (*removed)(const char *name, void *arg); /* told each name; or NULL */
	part_bad_fn *bad; /* told of damage in those that are newer than the newest whole one; or NULL */
	void *arg;
};

/* Removes all but the newest complete ones, and incomplete ones whose number is below that of the
 * newest complete one (a later one may still be in the making), unless they only could not be read
 * because of an error of the disk. The base of a checkpoint that stays is not removed either. The
 * newest that is whole to its last byte always stays: before complete ones are removed, they are
 * verified, the newest first, until one is whole or known to be. ERROR_DATA: none is, and no
 * complete one was removed. MANIFEST is removed first, so that a half removed one is incomplete. */
int ckpt_prune(const char *dir, const struct ckpt_pruning *how, struct error *err);

#endif

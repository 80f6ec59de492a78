/*
 * ckpt: a checkpoint directory: one consistent cut of a job (paceline-checkpoint(5)).
 *
 *     MANIFEST         records; it gets its name last: without it there is no checkpoint
 *     part-0 ... part-(n-1)   the servers' parameters and optimiser slots (part.h)
 *     shards           shardd's queue of the same cut
 *     layout, ...      files included as they were (schema, model, job)
 *     w0/...           of trainers that are not ours, in place of parts (foreign)
 *
 * Each checkpoint gets a directory of its own; it never replaces an older one.
 *
 * A checkpoint may have a base: an older one beside it, which has all parameters itself.  Then it
 * has only the rows that have changed since, but reads as if it had all rows.
 *
 * The lead writes a checkpoint.  It makes the directory; each server writes its part-i, and shardd
 * writes shards; ckpt_include() copies other files; ckpt_add() enters each file; ckpt_commit()
 * comes last.
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
/* A line of MANIFEST: each byte of a name may be written as three. */
#define CKPT_FILE_LINE_MAX 2048
#define CKPT_SAVED_MAX 1100
#define CKPT_PATH_MAX 4096
#define CKPT_REPORTED_MAX 1024

struct ckpt_file {
	/* An id. In a foreign checkpoint it is a path, which is in the directory unless it begins
	 * with a slash. */
	char name[CKPT_FILE_NAME_MAX];
	uint64_t bytes;
	uint64_t sum; /* XXH3, 64 bits, seed 0, of the whole file */
	uint16_t next; /* next in its bucket: number of the file, from 1; 0: none */
};

/* What a trainer says it has saved. */
struct ckpt_saved {
	char worker[CKPT_NAME_MAX];
	char path[CKPT_FILE_NAME_MAX]; /* a file or directory, as a file's name; "": nothing */
	uint64_t bytes, sum; /* of one file that was held in memory where it ran; bytes 0: of none */
};

/* ckpt_manifest_start() and ckpt_manifest_read() fill it, whatever it held before. After either,
 * call ckpt_manifest_free(), also when it failed. */
struct ckpt_manifest {
	char job[CKPT_NAME_MAX];
	uint64_t iteration, incarnation;
	double at;      /* seconds since 1970 */
	int64_t epoch;  /* -1: not known */
	char base[CKPT_NAME_MAX]; /* name of the base, a directory beside it; "": none */
	uint64_t base_sum;        /* checksum of the base's MANIFEST */
	uint64_t sum;             /* after reading: checksum of MANIFEST itself */
	/* What a trainer has measured last, "NAME:VALUE,..."; "": nothing. */
	char reported[CKPT_REPORTED_MAX];
	int foreign;    /* the parameters are files of trainers that are not ours: no parts */
	uint32_t parts; /* counted from the files part-0, part-1, ... */
	size_t count;
	size_t saved_count; /* foreign: in the order of their lines */
	uint16_t bucket[CKPT_BUCKETS]; /* hash table of the files' names; numbers as in `next` */
	struct ckpt_file *file;   /* [count] */
	struct ckpt_saved *saved; /* [saved_count] */
	size_t file_room, saved_room;
};

void ckpt_manifest_free(struct ckpt_manifest *m); /* all zero is fine */

/* ---- writing ---- */

/* job may be empty; otherwise it must be an id. */
int ckpt_manifest_start(struct ckpt_manifest *m, const char *job, uint64_t iteration,
			uint64_t incarnation, double at, struct error *err);
/* Enters a file that its writer has summed (part_finish()). */
int ckpt_add(struct ckpt_manifest *m, const char *name, uint64_t bytes, uint64_t sum,
	     struct error *err);
/* The same for a line `file name= bytes= sum=`. */
int ckpt_add_line(struct ckpt_manifest *m, const struct record *r, struct error *err);
/* Finds an entered file by its name; NULL: there is none. */
const struct ckpt_file *ckpt_manifest_file(const struct ckpt_manifest *m, const char *name);
/* Sets the base: the parts will have only those rows that have changed since the checkpoint `base`,
 * which is beside dir. That one must have all its rows itself. */
int ckpt_set_base(struct ckpt_manifest *m, const char *dir, const char *base, struct error *err);
/* For a foreign checkpoint: what this trainer has saved; path NULL: nothing. */
int ckpt_add_saved(struct ckpt_manifest *m, const char *worker, const char *path,
		   struct error *err);
/* What the trainer entered last holds in memory: a record with bytes= and sum=. */
int ckpt_add_held(struct ckpt_manifest *m, const struct record *r, struct error *err);
/* Enters a file that is in dir already (shards): sums it and calls fsync. */
int ckpt_add_file(struct ckpt_manifest *m, const char *dir, const char *name, struct error *err);
/* Copies the file at path to dir/name (name NULL: the last part of path), calls fsync and enters
 * it. */
int ckpt_include(struct ckpt_manifest *m, const char *dir, const char *path, const char *name,
		 struct error *err);
/* Checks that there are part-0 ... part-(n-1) without a gap. Then it writes MANIFEST: into a
 * temporary file, fsync, rename, fsync of dir and of its parent. From here on the checkpoint
 * exists. */
int ckpt_commit(struct ckpt_manifest *m, const char *dir, struct error *err);

/* "part-I" */
void ckpt_part_name(uint32_t part, char out[CKPT_NAME_MAX]);
/* Writes one server's part to a new file at path, with only those rows that have changed since
 * `since` (store_mark(); 0: all rows). All cores that this process may use compress it; level: of
 * compression (param/planes.h). It may run in a forked child. */
int ckpt_write_part(const struct store *s, const char *path, uint32_t since, int level,
		    uint64_t *bytes, uint64_t *sum, struct error *err);

/* ---- reading ---- */

struct ckpt;

/* Reads only MANIFEST, and checks its own sum, nothing else. ERROR_NOINPUT: there is no MANIFEST.
 * After a failure m is empty. */
int ckpt_manifest_read(struct ckpt_manifest *m, const char *dir, struct error *err);

/* Writes the directory of the base of the checkpoint in dir to out. 0: it has one. -1: it has none,
 * or can't be read. */
int ckpt_find_base(const char *dir, char *out, size_t max);

/* From what a trainer is to go on: what it saved itself; otherwise what the trainer with the lowest
 * number saved. NULL: nobody has saved anything. */
const struct ckpt_saved *ckpt_find_saved(const struct ckpt_manifest *m, const char *worker);
/* Checks that all files of what was saved are as MANIFEST has them; if not: ERROR_DATA. out gets
 * its full path. */
int ckpt_check_saved(const struct ckpt_manifest *m, const char *dir, const struct ckpt_saved *saved,
		     char *out, size_t max, struct error *err);
/* Length and XXH3 of a file. sync: calls fsync as well. */
int ckpt_sum_file(const char *path, int sync, uint64_t *bytes, uint64_t *sum, struct error *err);

/* Copies all of `in` from where it stands to a new file at path, calls fsync, and sums it. If it fails,
 * the file is removed. */
int ckpt_copy_file(int in, const char *in_name, const char *path, uint64_t *bytes, uint64_t *sum,
		   struct error *err);

/* Checks that a file in dir has the length and the sum of MANIFEST. */
int ckpt_check_sum(const char *dir, const char *name, struct error *err);

/* Opens a checkpoint whose parameters are ours; a foreign one is ERROR_CONFIG. ERROR_NOINPUT: there
 * is no MANIFEST. ERROR_DATA: MANIFEST is damaged, files are missing or have another length, or the
 * parts do not fit together. */
int ckpt_open(struct ckpt **out, const char *dir, struct error *err);
void ckpt_close(struct ckpt *c); /* NULL is fine */
/* From now on all cores that this process may use share the reading. Then any of their threads may
 * call a taker, but never two at once. */
void ckpt_share(struct ckpt *c);

const char *ckpt_dir(const struct ckpt *c);
const struct ckpt_manifest *ckpt_get_manifest(const struct ckpt *c);
const struct ckpt_file *ckpt_find_file(const struct ckpt *c, const char *name); /* or NULL */
/* Reads an included file and checks its sum. There is a NUL behind it; the caller frees it. */
int ckpt_read_file(struct ckpt *c, const char *name, char **out, size_t *len, struct error *err);
/* Checks the sum of an included file and gives its path, for readers that take a path. */
int ckpt_check_file(struct ckpt *c, const char *name, char *path, size_t path_max,
		    struct error *err);
/* Reads the included file `layout`. ERROR_DATA: it is not there, or does not fit the parts. */
int ckpt_read_layout(struct ckpt *c, struct layout *l, struct error *err);

uint64_t ckpt_dense_count(const struct ckpt *c);
uint32_t ckpt_dense_slots(const struct ckpt *c);
uint32_t ckpt_width(const struct ckpt *c); /* 0: no rows */
uint32_t ckpt_row_slots(const struct ckpt *c);
uint64_t ckpt_row_count(const struct ckpt *c);
/* Key and value of part 0's i-th note; NULL behind the last. */
const char *ckpt_note_at(const struct ckpt *c, size_t i, const char **value);

/* Reads what is wanted, in whatever parts it is; see part_read(). */
int ckpt_read(struct ckpt *c, const struct part_want *want, const struct stream_taker *taker,
	      struct error *err);

/* Reads the share of a store, in whatever parts it is, and nothing else. *slots_lost: the
 * checkpoint has no slots of this optimiser, so they start anew. ERROR_CONFIG: it is of another
 * model. */
int ckpt_restore(struct ckpt *c, struct store *s, int *slots_lost, struct error *err);

/* Checks everything. bad() is called for each damaged place ("part-1: block 3"). Returns how many
 * there were; a directory without MANIFEST counts as one. -1: no damage was found, but not all
 * could be looked at (no memory, no permission). */
int ckpt_verify(const char *dir, part_bad_fn *bad, void *arg, struct error *err);

/* ---- a directory of checkpoints ---- */

struct ckpt_entry {
	char name[256];
	int foreign;
	int complete; /* MANIFEST is there and whole; otherwise the numbers are 0 */
	int damaged;  /* not complete, though it has a MANIFEST; why[] says the reason */
	int unread;   /* damaged, but only because the disk can't be read just now */
	char why[256];
	uint64_t iteration, incarnation;
	double at;
	uint32_t parts;
	uint64_t bytes; /* of all its files */
	char base[CKPT_NAME_MAX]; /* or "" */
	char reported[CKPT_REPORTED_MAX]; /* or "" */
};

/* Lists all checkpoints in dir: the incomplete ones first, then the others, the oldest first (by
 * incarnation, then iteration, then time). *out is to be freed. A directory counts if it holds a
 * MANIFEST or its name is a number, as the supervisor's names are. */
int ckpt_list(const char *dir, struct ckpt_entry **out, size_t *count, struct error *err);

/* Where none of these is complete. -1: one can't be read just now, so that it is not known. */
int ckpt_list_unread(const char *dir, const struct ckpt_entry *entry, size_t count,
		     struct error *err);

/* Writes the path of the newest complete one, dir/NAME, to out. ERROR_NEGATIVE: there is none. */
int ckpt_latest(const char *dir, char *out, size_t out_max, struct error *err);

struct ckpt_pruning {
	uint64_t keep;              /* so many of the newest complete ones stay; at least 1 */
	const char *const *protect; /* paths or names that stay, NULL behind the last; NULL: none */
	/* Names of some that are of no use, and do not count; NULL behind the last; NULL: none
	 * known. */
	const char *const *damaged;
	/* Path or name of one that is known to be whole; NULL: none is. */
	const char *good;
	/* Called with the name of each that was removed; or NULL. */
	void (*removed)(const char *name, void *arg);
	/* Called for damage in those that are newer than the newest whole one; or NULL. */
	part_bad_fn *bad;
	void *arg;
};

/* Removes complete checkpoints, all but the newest, and incomplete ones whose number is below that
 * of the newest complete one (a later one may still be in the making). Not removed are those that
 * can't be read just because of an error of the disk, and the base of a checkpoint that stays.
 *
 * The newest one that is whole to its last byte always stays. So before complete ones are removed,
 * they are verified, the newest first, until one is whole or known to be whole. ERROR_DATA: none is
 * whole, and no complete one was removed. MANIFEST is removed first, so that a half removed one is
 * incomplete. */
int ckpt_prune(const char *dir, const struct ckpt_pruning *how, struct error *err);

#endif

/*
 * fs: files that survive a power cut, directories that others can't read, locks that die with
 * their process.
 */
#ifndef PACELINE_BASE_FS_H
#define PACELINE_BASE_FS_H

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Makes dir and its parents with mode 0700, and puts their names on disk. An existing directory is
 * left as it is. */
int fs_make_dirs(const char *dir, struct error *err);

/* Whether fs_make_dirs() would succeed, as far as the nearest existing directory above tells; makes
 * nothing. */
int fs_could_make_dirs(const char *dir, struct error *err);
/* ERROR_NOPERM: a directory, or one above it, belongs to another user, in a place like /tmp where
 * anybody could have made it first, also as a link to elsewhere. */
int fs_is_ours(const char *dir, struct error *err);

/* Puts "dir/name" into out; -1: it does not fit. An absolute name is put there without dir. */
int fs_join(char *out, size_t out_max, const char *dir, const char *name, struct error *err);

/* Closes it if it is not -1, which it is then. */
void fs_close(int *fd);

/* Writes all of data, through short writes and EINTR. */
int fs_write_all(int fd, const void *data, size_t len, const char *place, struct error *err);
/* Reads exactly len bytes at offset; a shorter file is ERROR_DATA. */
int fs_pread_all(int fd, void *data, size_t len, uint64_t offset, const char *place,
		 struct error *err);

/* XXH3 (64 bits) of size and content of a regular file, to tell two copies apart. Reads the whole
 * file if it has `max` bytes at most; else its head, its tail and pieces at equal distances. Reads
 * no more than max bytes, or two pieces of 64 KiB. */
int fs_sample_sum(const char *path, uint64_t max, uint64_t *sum, struct error *err);

/* The whole file, followed by a NUL; the caller frees it. ERROR_DATA: it has more than max bytes.
 * ERROR_NOINPUT: there is none, or it is a directory, or a pipe, which might never get a writer. */
int fs_read_file(const char *path, size_t max, char **out, size_t *len, struct error *err);

/* The next line of a stream, with its newline if it has one, followed by a NUL: returns its length,
 * 0 at the end. ERROR_DATA: it is longer than max - 2 bytes. */
ssize_t fs_read_line(FILE *in, char *line, size_t max, struct error *err);

#define FS_PROC_MAX 16384
/* The file of this path in /proc, without the end of its last line; "" when it can't be read.
 * Returns out. */
char *fs_read_proc(char out[FS_PROC_MAX], const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* "STATE PPID ...": what a stat file of /proc has behind the name, which may hold anything; NULL:
 * there is no such process. */
const char *fs_stat_fields(const char *stat);

/* The file is either the old one or the new one, whenever the power fails: write to a temporary
 * file in the same directory, fsync, rename, fsync the directory. If the file system can, the
 * temporary file has no name until it is whole (then path.tmp.RANDOM, for a moment), so a process
 * that is killed leaves nothing. ERROR_CANTCREAT: path is no regular file (a device, a pipe, a
 * directory); it is left alone. */
typedef int fs_fill_fn(int fd, const char *path, void *arg, struct error *err);
int fs_replace(const char *path, mode_t mode, fs_fill_fn *fill, void *arg, struct error *err);
/* The same for a path that nobody has yet, also if somebody else makes it at the same time: ERROR_CANTCREAT. */
int fs_create(const char *path, mode_t mode, fs_fill_fn *fill, void *arg, struct error *err);
/* fs_replace() for a file whose reader notices what a power failure left of it: the disk is not waited for. */
int fs_replace_unsynced(const char *path, mode_t mode, fs_fill_fn *fill, void *arg,
			struct error *err);
/* fs_replace() with these bytes, mode 0600. */
int fs_replace_file(const char *path, const void *data, size_t len, struct error *err);
/* The same for a file that nobody reads after the power failed, or that somebody else syncs: the disk is
 * not waited for. */
int fs_replace_for_now(const char *path, const void *data, size_t len, struct error *err);
/* The same for everybody to read: mode 0644, whatever the umask says. */
int fs_publish(const char *path, const void *data, size_t len, struct error *err);

/* Whether path is a file that this user may execute (a directory has that bit, too). */
int fs_is_program(const char *path);

int fs_sync_dir(const char *dir, struct error *err);
/* The directory part of path ("." when it has none) into out. */
void fs_dirname(const char *path, char *out, size_t out_max);
/* What follows its last slash, in path itself. */
const char *fs_basename(const char *path);

/* An exclusive flock on path (made 0600 if missing); *fd holds it. ERROR_TEMPFAIL: another process
 * has it. The holder may remove path before it closes fd: even then two processes never have the
 * lock. The descriptor is close-on-exec. */
int fs_lock(const char *path, int *fd, struct error *err);

/* From now on this process may have so many files and sockets open, as far as the hard limit
 * allows. Returns how many. (The usual soft limit of 1024 is for select(2), which is not used
 * here.) */
uint64_t fs_allow_files(uint64_t count);

/* Removes a directory and everything in it (regular files and directories; links are removed, not
 * followed). */
int fs_remove_tree(const char *path, struct error *err);

#endif

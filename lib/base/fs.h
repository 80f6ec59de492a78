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

/* Makes dir and its parents, new ones with mode 0700, their names on disk. An existing directory is
 * left as it is. */
int fs_make_dirs(const char *dir, struct error *err);

/* Whether fs_make_dirs() could, in the nearest of the directories above that is there; makes
 * nothing. */
int fs_could_make_dirs(const char *dir, struct error *err);
/* ERROR_NOPERM: a directory is another user's, or lies in one that is, in a place like /tmp where
 * anybody could have made it first, as a link to elsewhere, too. */
int fs_is_ours(const char *dir, struct error *err);

/* "dir/name" into out; -1 when it does not fit. name may be absolute: then dir is left out. */
int fs_join(char *out, size_t out_max, const char *dir, const char *name, struct error *err);

/* Writes all of data, through short writes and EINTR. */
int fs_write_all(int fd, const void *data, size_t len, const char *place, struct error *err);
/* Reads exactly len bytes at offset; a shorter file is ERROR_DATA. */
int fs_pread_all(int fd, void *data, size_t len, uint64_t offset, const char *place,
		 struct error *err);

/* XXH3 (64 bits) of size and content, for two copies of a file to be told apart: all of it where it
 * has `max` bytes at most, else of pieces at equal distances, with its head and its tail. Of a
 * regular file; reads no more than max, or two pieces of 64 KiB. */
int fs_sample_sum(const char *path, uint64_t max, uint64_t *sum, struct error *err);

/* The whole file, NUL added after it, to be freed by the caller; more than max bytes is
 * ERROR_DATA. */
int fs_read_file(const char *path, size_t max, char **out, size_t *len, struct error *err);

/* The next line of a stream, its newline included if it has one, NUL behind it: returns how long it
 * is, 0 at the end. Longer than max - 2 bytes: ERROR_DATA, however long it is. */
ssize_t fs_read_line(FILE *in, char *line, size_t max, struct error *err);

/* The file is either the old one or the new one, whenever the power goes: write to a temporary
 * file in the same directory, fsync, rename, fsync the directory. It has no name until it is whole
 * (then path.tmp.RANDOM, for a moment) where the disk can do that: who is killed leaves nothing. What
 * is no regular file (a device, a pipe, a directory) is left alone: ERROR_CANTCREAT. */
typedef int fs_fill_fn(int fd, const char *path, void *arg, struct error *err);
int fs_replace(const char *path, mode_t mode, fs_fill_fn *fill, void *arg, struct error *err);
/* The same with bytes that are there, mode 0600. */
int fs_replace_file(const char *path, const void *data, size_t len, struct error *err);
/* The same for everybody to read: mode 0644, whatever the umask says. */
int fs_publish(const char *path, const void *data, size_t len, struct error *err);

/* Whether path is a file that this user may execute (a directory has that bit, too). */
int fs_is_program(const char *path);

int fs_sync_dir(const char *dir, struct error *err);
/* The directory part of path ("." when it has none) into out. */
void fs_dirname(const char *path, char *out, size_t out_max);

/* An exclusive flock on path (made 0600 when missing); *fd holds it. Taken already: -1 with
 * ERROR_TEMPFAIL. Who has it may remove path before it lets go: two never have it. The descriptor is
 * close-on-exec. */
int fs_lock(const char *path, int *fd, struct error *err);

/* From now on this process may have so many files and sockets open, as far as the hard limit lets: how
 * many it may. The usual soft limit of 1024 is kept low for select(2), which nobody uses here. */
uint64_t fs_allow_files(uint64_t count);

/* Removes a directory with what is in it (regular files and directories; links are removed, not
 * followed). */
int fs_remove_tree(const char *path, struct error *err);

#endif

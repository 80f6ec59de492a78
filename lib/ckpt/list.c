/*
 * list: a directory of checkpoints: which are complete, which is the newest, which may go (ckpt.h).
 * Things there that are no checkpoints are left alone.
 */
#include "ckpt/ckpt.h"

#include "base/fs.h"
#include "base/grow.h"
#include "ckpt/base.h"
#include "ckpt/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int ckpt_list_is_number(const char *name)
{
	return name[0] && strspn(name, "0123456789") == strlen(name);
}

/* Compares names of digits as numbers, of any length. */
static int compare_numbers(const char *a, const char *b)
{
	a += strspn(a, "0");
	b += strspn(b, "0");
	size_t la = strlen(a), lb = strlen(b);
	return la != lb ? (la > lb) - (la < lb) : strcmp(a, b);
}

static int ckpt_list_compare_names(const char *a, const char *b)
{
	int order = ckpt_list_is_number(a) && ckpt_list_is_number(b) ? compare_numbers(a, b) : 0;
	return order ? order : strcmp(a, b);
}

/* Oldest first. Incarnations come before iterations: a job that was rolled back counts its
 * iterations again. */
static int compare_entries(const void *left, const void *right)
{
	const struct ckpt_entry *a = left, *b = right;
	if (a->complete != b->complete)
		return a->complete - b->complete;
	if (a->incarnation != b->incarnation)
		return (a->incarnation > b->incarnation) - (a->incarnation < b->incarnation);
	if (a->iteration != b->iteration)
		return (a->iteration > b->iteration) - (a->iteration < b->iteration);
	if (a->at != b->at)
		return (a->at > b->at) - (a->at < b->at);
	return ckpt_list_compare_names(a->name, b->name);
}

static int check_lengths(const char *dir, const struct ckpt_manifest *m, struct error *err)
{
	for (size_t i = 0; i < m->count; i++)
		if (ckpt_check_length(dir, &m->file[i], err) != 0)
			return -1;
	return 0;
}

/* 1: its damage is known, or it can't be read just now; then it counts neither as complete nor as
 * one that may be removed. -1: nothing is known, because there is no permission, or a newer program
 * wrote it; then `latest` must not answer with an older one. */
static int not_complete(struct ckpt_entry *e, const struct error *why, struct error *err)
{
	if (why->code != ERROR_DATA && why->code != ERROR_NOINPUT && why->code != ERROR_IO) {
		if (err)
			*err = *why;
		return -1;
	}
	e->damaged = 1;
	e->unread = why->code == ERROR_IO;
	e->complete = 0;
	e->iteration = e->incarnation = 0;
	e->at = 0;
	error_format(why, e->why, sizeof e->why);
	return 1;
}

/* Checks that the base exists, with the length of its files. */
static int check_base(const char *dir, const struct ckpt_manifest *m, struct error *err)
{
	char path[CKPT_PATH_MAX];
	struct ckpt_manifest base;
	int result = ckpt_base_read(&base, m, dir, path, err);
	if (result == 0)
		result = check_lengths(path, &base, err);
	ckpt_manifest_free(&base);
	return result;
}

/* Reads MANIFEST of the checkpoint in dir, and checks that its files exist. */
static int take_manifest(const char *dir, struct ckpt_entry *e, struct error *err)
{
	struct ckpt_manifest m;
	if (ckpt_manifest_read(&m, dir, err) != 0)
		return -1;
	int result = check_lengths(dir, &m, err);
	if (result == 0) {
		e->complete = 1;
		e->foreign = m.foreign;
		memcpy(e->reported, m.reported, sizeof e->reported);
		e->iteration = m.iteration;
		e->incarnation = m.incarnation;
		e->at = m.at;
		e->parts = m.parts;
		memcpy(e->base, m.base, sizeof e->base);
		if (m.base[0])
			result = check_base(dir, &m, err);
		for (size_t i = 0; result == 0 && i < m.count; i++)
			e->bytes += m.file[i].bytes;
	}
	ckpt_manifest_free(&m);
	return result;
}

/* 1: name is a checkpoint, or what is left of one; -1: this can't be found out. */
static int ckpt_list_look_at(const char *dir, const char *name, struct ckpt_entry *e,
			     struct error *err)
{
	char path[CKPT_PATH_MAX], manifest[CKPT_PATH_MAX];
	struct stat st;
	if (name[0] == '.' || strlen(name) >= sizeof e->name ||
	    fs_join(path, sizeof path, dir, name, NULL) != 0 ||
	    fs_join(manifest, sizeof manifest, path, CKPT_MANIFEST, NULL) != 0)
		return 0;
	struct error why = {0};
	int missing = 0;
	int seen = lstat(path, &st);
	if (seen == 0 ? !S_ISDIR(st.st_mode) : errno == ENOENT)
		return 0;
	if (seen != 0 || access(manifest, F_OK) != 0) {
		missing = errno == ENOENT || errno == ELOOP;
		error_errno(&why, 0, seen != 0 ? path : manifest, "can't be looked at");
		if (!ckpt_list_is_number(name))
			return 0;
	}
	memset(e, 0, sizeof *e);
	memcpy(e->name, name, strlen(name) + 1);
	if (missing)
		return 1;
	if (why.code || take_manifest(path, e, &why) != 0)
		return not_complete(e, &why, err);
	return 1;
}

static int collect(DIR *d, const char *dir, struct ckpt_entry **out, size_t *count,
		   struct error *err)
{
	size_t room = 0;
	struct dirent *de;
	while ((errno = 0, de = readdir(d)) != NULL) {
		if (GROW(*out, room, *count + 1) != 0)
			return error_set(err, ERROR_OS, dir, "out of memory");
		int found = ckpt_list_look_at(dir, de->d_name, *out + *count, err);
		if (found < 0)
			return -1;
		*count += (size_t)found;
	}
	if (errno != 0)
		return error_errno(err, ERROR_IO, dir, "can't be listed");
	return 0;
}

int ckpt_list(const char *dir, struct ckpt_entry **out, size_t *count, struct error *err)
{
	DIR *d = opendir(dir);
	if (!d)
		return error_errno(err, 0, dir, "can't be listed");
	*out = NULL;
	*count = 0;
	int result = collect(d, dir, out, count, err);
	closedir(d);
	if (result != 0) {
		free(*out);
		*out = NULL;
		return -1;
	}
	if (*count)
		qsort(*out, *count, sizeof **out, compare_entries);
	return 0;
}

int ckpt_list_unread(const char *dir, const struct ckpt_entry *entry, size_t count,
		     struct error *err)
{
	int result = 0;
	for (size_t i = 0; i < count; i++)
		if (entry[i].unread)
			result = error_set(err, ERROR_IO, dir, "%s", entry[i].why);
	return result;
}

int ckpt_latest(const char *dir, char *out, size_t out_max, struct error *err)
{
	struct ckpt_entry *entry;
	size_t count;
	if (ckpt_list(dir, &entry, &count, err) != 0)
		return -1;
	int result = -1;
	if (count && entry[count - 1].complete)
		result = fs_join(out, out_max, dir, entry[count - 1].name, err);
	else if (ckpt_list_unread(dir, entry, count, err) == 0)
		error_set(err, ERROR_NEGATIVE, dir, "holds no complete checkpoint");
	free(entry);
	return result;
}

/* The last part of a path, without trailing slashes. */
static void last_part(const char *path, char *out, size_t max)
{
	size_t len = strlen(path);
	while (len > 1 && path[len - 1] == '/')
		len--;
	size_t from = len;
	while (from > 0 && path[from - 1] != '/')
		from--;
	snprintf(out, max, "%.*s", (int)(len - from), path + from);
}

/* MANIFEST goes first: what is half removed must not look complete. */
static int ckpt_list_remove_one(const char *dir, const char *name, struct error *err)
{
	char path[CKPT_PATH_MAX], manifest[CKPT_PATH_MAX];
	if (fs_join(path, sizeof path, dir, name, err) != 0 ||
	    fs_join(manifest, sizeof manifest, path, CKPT_MANIFEST, err) != 0)
		return -1;
	if (unlink(manifest) == 0) {
		if (fs_sync_dir(path, err) != 0)
			return -1;
	} else if (errno != ENOENT) {
		return error_errno(err, ERROR_IO, manifest, "can't be removed");
	}
	return fs_remove_tree(path, err);
}

/* list: paths or names; NULL behind the last. */
static int ckpt_list_is_in(const char *name, const char *const *list)
{
	char one[CKPT_PATH_MAX];
	for (; list && *list; list++) {
		last_part(*list, one, sizeof one);
		if (strcmp(name, one) == 0)
			return 1;
	}
	return 0;
}

static int is_one(const char *name, const char *path)
{
	const char *const list[] = {path, NULL};
	return path && ckpt_list_is_in(name, list);
}

/* Whether it is in the list by its name, or as the directory that a link or "." stands for. */
static int is_protected(const char *dir, const char *name, const char *const *list)
{
	char path[CKPT_PATH_MAX];
	struct stat own, st;
	if (ckpt_list_is_in(name, list))
		return 1;
	if (fs_join(path, sizeof path, dir, name, NULL) != 0 || stat(path, &own) != 0)
		return 0;
	for (; list && *list; list++)
		if (stat(*list, &st) == 0 && st.st_dev == own.st_dev && st.st_ino == own.st_ino)
			return 1;
	return 0;
}

static void tell_nobody(const char *place, const char *text, void *arg)
{
	(void)place;
	(void)text;
	(void)arg;
}

/* Finds the number of the newest whole one; count: there is none. -1: not all could be looked
 * at. */
static int ckpt_list_find_whole(const char *dir, const struct ckpt_entry *entry, size_t count,
				const struct ckpt_pruning *how, size_t *out, struct error *err)
{
	char path[CKPT_PATH_MAX];
	*out = count;
	for (size_t i = count; i-- > 0 && entry[i].complete;) {
		int found = is_one(entry[i].name, how->good) ? 0 : -1;
		if (found < 0 && fs_join(path, sizeof path, dir, entry[i].name, err) != 0)
			return -1;
		if (found < 0)
			found = ckpt_verify(path, how->bad ? how->bad : tell_nobody, how->arg, err);
		if (found < 0)
			return -1;
		if (found == 0) {
			*out = i;
			return 0;
		}
	}
	return 0;
}

/* Marks those that stay in any case: the newest, and those that are protected. (keep_bases() adds
 * their bases.) */
static void choose_kept(const char *dir, const struct ckpt_entry *entry, size_t count,
			const struct ckpt_pruning *how, char *kept)
{
	uint64_t newer = 0; /* complete ones that are newer */
	for (size_t i = count; i-- > 0;) {
		kept[i] = is_protected(dir, entry[i].name, how->protect) ||
			  (entry[i].complete && newer < how->keep);
		newer += entry[i].complete && !ckpt_list_is_in(entry[i].name, how->damaged);
	}
}

static void keep_bases(const struct ckpt_entry *entry, size_t count, char *kept)
{
	for (size_t i = 0; i < count; i++)
		for (size_t b = 0; kept[i] && entry[i].base[0] && b < count; b++)
			if (strcmp(entry[b].name, entry[i].base) == 0)
				kept[b] = 1;
}

/* Whether a complete one would be removed. Only then does it matter which are whole. */
static int any_goes(const struct ckpt_entry *entry, size_t count, const char *kept)
{
	for (size_t i = 0; i < count; i++)
		if (entry[i].complete && !kept[i])
			return 1;
	return 0;
}

static int ckpt_list_prune(const char *dir, const struct ckpt_entry *entry, size_t count,
			   const struct ckpt_pruning *how, char *kept, struct error *err)
{
	const char *newest = count && entry[count - 1].complete ? entry[count - 1].name : NULL;
	size_t whole = count;
	choose_kept(dir, entry, count, how, kept);
	keep_bases(entry, count, kept);
	int complete_go = any_goes(entry, count, kept), result = 0;
	if (complete_go && ckpt_list_find_whole(dir, entry, count, how, &whole, err) != 0)
		return -1;
	if (whole < count)
		kept[whole] = 1;
	keep_bases(entry, count, kept);
	for (size_t i = 0; i < count; i++) {
		const struct ckpt_entry *e = &entry[i];
		int goes = e->complete ? whole < count
				       : newest && !e->unread && ckpt_list_is_number(e->name) &&
						 ckpt_list_is_number(newest) &&
						 compare_numbers(e->name, newest) < 0;
		if (!goes || kept[i])
			continue;
		/* If one can't be removed, the others still are. */
		if (ckpt_list_remove_one(dir, e->name, result == 0 ? err : NULL) != 0)
			result = -1;
		else if (how->removed)
			how->removed(e->name, how->arg);
	}
	if (result == 0 && complete_go && whole == count)
		return error_set(err, ERROR_DATA, dir,
				 "none of its checkpoints is whole, so no complete one was "
				 "removed");
	return result;
}

int ckpt_prune(const char *dir, const struct ckpt_pruning *how, struct error *err)
{
	struct ckpt_entry *entry;
	size_t count;
	if (ckpt_list(dir, &entry, &count, err) != 0)
		return -1;
	char *kept = malloc(count + 1);
	int result = kept ? ckpt_list_prune(dir, entry, count, how, kept, err)
			  : error_set(err, ERROR_OS, dir, "out of memory");
	free(kept);
	free(entry);
	return result;
}

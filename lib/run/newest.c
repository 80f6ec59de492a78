/* newest: see newest.h. */
#include "run/sup.h"

#include "base/fs.h"
#include "base/number.h"
#include "ckpt/ckpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Whether the files that trainers of the user's own saved are there, with their lengths. The agents
 * check the sums. */
static int is_saved(const char *cut, struct error *err)
{
	char path[CKPT_PATH_MAX + CKPT_FILE_NAME_MAX];
	struct ckpt_manifest m;
	int result = ckpt_manifest_read(&m, cut, err);
	if (result == 0 && !m.foreign)
		result = error_set(err, ERROR_CONFIG, cut,
				   "is no checkpoint of trainers of your own");
	for (size_t i = 0; result == 0 && i < m.count; i++) {
		const struct ckpt_file *f = &m.file[i];
		struct stat st;
		snprintf(path, sizeof path, "%s%s%s", f->name[0] == '/' ? "" : cut,
			 f->name[0] == '/' ? "" : "/", f->name);
		if (stat(path, &st) != 0)
			result = error_errno(err, ERROR_NOINPUT, path, "is missing");
		else if ((uint64_t)st.st_size != f->bytes)
			result = error_set(err, ERROR_DATA, path, "has %llu bytes, and had %llu",
					   (unsigned long long)st.st_size,
					   (unsigned long long)f->bytes);
	}
	ckpt_manifest_free(&m);
	return result == 0 ? ckpt_check_sum(cut, "shards", err) : -1;
}

int sup_cut_is_whole(const struct supervisor *s, const char *cut, struct error *err)
{
	if (job_kind(s->job)->cut == CUT_SAVED)
		return is_saved(cut, err);
	char path[CKPT_PATH_MAX];
	struct ckpt *c;
	if (ckpt_open(&c, cut, err) != 0)
		return -1;
	int result = ckpt_check_file(c, "shards", path, sizeof path, err);
	ckpt_close(c);
	return result;
}

/* ---- damaged ones ---- */

int sup_is_passed_over(const struct supervisor *s, const char *cut)
{
	for (size_t i = 0; i < s->newest.damaged_count && i < SUP_DAMAGED_MAX; i++)
		if (strcmp(s->newest.damaged[i], fs_basename(cut)) == 0)
			return 1;
	return 0;
}

void sup_pass_over(struct supervisor *s, const char *cut, const char *why)
{
	if (sup_is_passed_over(s, cut))
		return;
	snprintf(s->newest.damaged[s->newest.damaged_count++ % SUP_DAMAGED_MAX],
		 sizeof s->newest.damaged[0], "%s", fs_basename(cut));
	sup_note(s, "damaged", "checkpoint %s is damaged, and is passed over: %s", cut, why);
}

static int is_damage(const struct error *err)
{
	return err->code == ERROR_DATA || err->code == ERROR_NOINPUT || err->code == ERROR_IO;
}

/* Reports checkpoints that are damaged by MANIFEST or a length, and newer than the chosen one
 * (NULL: none): somebody may wait for them. */
static void tell_damaged(struct supervisor *s, const char *dir, const struct ckpt_entry *e,
			 const struct ckpt_entry *chosen)
{
	char path[DIRS_PATH_MAX];
	uint64_t own, other = 0;
	if (!e->damaged || number_u64_span(e->name, strlen(e->name), &own) != 0 ||
	    (chosen && number_u64_span(chosen->name, strlen(chosen->name), &other) != 0) ||
	    (chosen && own < other) || fs_join(path, sizeof path, dir, e->name, NULL) != 0)
		return;
	sup_pass_over(s, path, e->why);
}

static int newest_find_whole(struct supervisor *s, const char *dir, struct ckpt_entry *entry,
			     size_t count, struct error *err)
{
	char path[DIRS_PATH_MAX], text[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	struct error why;
	size_t i = count, tried = 0;
	s->checkpoint.latest[0] = '\0';
	for (; i-- > 0 && entry[i].complete;) {
		if (fs_join(path, sizeof path, dir, entry[i].name, err) != 0)
			return -1;
		if (sup_is_passed_over(s, path)) {
			if (tried++ == 0)
				error_set(err, ERROR_DATA, path, "is damaged");
			continue;
		}
		if (sup_cut_is_whole(s, path, &why) == 0) {
			sup_checkpoint_use(s, path);
			break;
		}
		if (tried++ == 0)
			*err = why;
		if (!is_damage(&why)) {
			*err = why;
			return -1;
		}
		error_format(&why, text, sizeof text);
		sup_pass_over(s, path, text);
	}
	const struct ckpt_entry *chosen = s->checkpoint.latest[0] ? &entry[i] : NULL;
	for (size_t k = 0; k < count; k++)
		tell_damaged(s, dir, &entry[k], chosen);
	if (chosen)
		return 0;
	return tried ? -1 : ckpt_list_unread(dir, entry, count, err);
}

int sup_newest_find(struct supervisor *s, struct error *err)
{
	char dir[DIRS_PATH_MAX];
	struct ckpt_entry *entry;
	size_t count;
	dirs_state(&s->dirs, "checkpoints", dir);
	if (ckpt_list(dir, &entry, &count, err) != 0) {
		s->checkpoint.latest[0] = '\0';
		return err->code == ERROR_NOINPUT ? 0 : -1;
	}
	int result = newest_find_whole(s, dir, entry, count, err);
	free(entry);
	return result;
}

int sup_newest_begin(struct supervisor *s, struct error *err)
{
	if (sup_newest_find(s, err) == 0)
		return 0;
	s->newest.unread = err->code == ERROR_IO;
	return s->newest.damaged_count > 0 && is_damage(err) ? 0 : -1;
}

/*
 * rowcache_use: how a reader finds the cache of a file by itself (rowcache.h): one may appear at
 * any time, made by another process.  It is looked for now and then, as long as text is read.
 */
#include "data/rowcache_internal.h"

#include "base/log.h"

#include <limits.h>
#include <string.h>

#define LOOK_EVERY 16384 /* rows of text */

static void use_tell(const struct error *why)
{
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX];
	error_format(why, text, sizeof text);
	log_say(LOG_LEVEL_WARNING, "%s; the text of these rows is read instead", text);
}

/* One that was refused is not looked at again, unless it becomes another file. */
static void use_look(struct rowcache_use *u, int place, const char *data_path, const char *dir,
		     const struct schema *s, const struct index *ix)
{
	char path[PATH_MAX];
	struct rowcache_seal seal;
	struct stat st;
	struct error why;
	if (u->cache || rowcache_path(path, sizeof path, data_path, dir, NULL) != 0 ||
	    stat(path, &st) != 0 || rowcache_is_file(&st, &u->refused[place]))
		return;
	if (rowcache_seal(&seal, data_path, s, ix, &why) == 0 &&
	    rowcache_open(&u->cache, path, s, &seal, &why) == 0)
		return;
	u->refused[place] = st;
	if (why.code != ERROR_NOINPUT)
		use_tell(&why);
}

static void use_find(struct rowcache_use *u, const char *data_path, const char *index_dir,
		     const struct schema *s, const struct index *ix)
{
	u->look_again = LOOK_EVERY;
	if (index_dir)
		use_look(u, 1, data_path, index_dir, s, ix);
	use_look(u, 0, data_path, NULL, s, ix);
}

/* Reading the text says what has become of it. */
static int is_unchanged(const char *data_path, const struct source_identity *was)
{
	struct stat st;
	return stat(data_path, &st) == 0 && (uint64_t)st.st_size == was->bytes &&
	       (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec ==
		       was->mtime_ns;
}

int rowcache_use(struct rowcache_use *u, const char *data_path, const char *index_dir,
		 const struct schema *s, const struct index *ix, uint64_t begin, uint64_t *length,
		 uint64_t number, struct rows *rows)
{
	struct error why;
	int got = 0;
	if (!u->cache && u->look_again == 0)
		use_find(u, data_path, index_dir, s, ix);
	if (u->cache && is_unchanged(data_path, &ix->identity))
		got = rowcache_read(u->cache, begin, length, number, rows, &why);
	if (got < 0 && !u->told++)
		use_tell(&why);
	if (got < 0 && why.code == ERROR_NEGATIVE) { /* replaced: by a better one, perhaps */
		rowcache_close(u->cache);
		*u = (struct rowcache_use){0};
	}
	if (got <= 0)
		u->look_again -= *length < u->look_again ? *length : u->look_again;
	return got > 0;
}

void rowcache_use_rest(struct rowcache_use *u)
{
	if (u->cache)
		rowcache_rest(u->cache);
}

void rowcache_use_end(struct rowcache_use *u)
{
	rowcache_close(u->cache);
	*u = (struct rowcache_use){0};
}

/*
 * ckpt: one checkpoint, opened, read and verified (ckpt.h).  It only reads, and refuses everything
 * that is not covered by a correct checksum.
 */
#include "ckpt/ckpt.h"

#include "base/fs.h"
#include "ckpt/base.h"
#include "ckpt/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define INCLUDED_MAX (256u << 20) /* bytes of an included file that is read into memory */

#define FILES_BESIDE 512 /* so many files a process may have open besides parts */

/* More threads would only wait for memory and disk. */
#define TEAM_MAX 16u

struct ckpt {
	char dir[CKPT_PATH_MAX];
	struct team *team;
	struct ckpt_manifest manifest;
	struct part_reader **part; /* [manifest.parts] */
	struct ckpt *base;         /* has the rows that have not changed; NULL: all are here */
};

struct team *ckpt_team(void)
{
	unsigned cores = team_cores();
	struct team *team;
	if (cores == 1 || team_new(&team, cores < TEAM_MAX ? cores : TEAM_MAX, NULL) != 0)
		return NULL;
	return team;
}

int ckpt_check_length(const char *dir, const struct ckpt_file *f, struct error *err)
{
	char path[CKPT_PATH_MAX];
	struct stat st;
	if (fs_join(path, sizeof path, dir, f->name, err) != 0)
		return -1;
	if (stat(path, &st) != 0) {
		int gone = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
		return error_errno(err, gone ? ERROR_DATA : 0, path, "can't be looked at");
	}
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_DATA, path, "is no regular file");
	if ((uint64_t)st.st_size != f->bytes)
		return error_set(err, ERROR_DATA, path,
				 "has %" PRIu64 " bytes in place of %" PRIu64,
				 (uint64_t)st.st_size, f->bytes);
	return 0;
}

/* Checks that part i follows part i-1 without a gap, and that both have the same shape. */
static int check_part(struct ckpt *c, uint32_t i, struct error *err)
{
	const struct stream_shape *s = stream_get_shape(part_stream(c->part[i]));
	const struct stream_shape *before = i ? stream_get_shape(part_stream(c->part[i - 1])) : NULL;
	if (s->part != i || s->parts != c->manifest.parts)
		return error_set(err, ERROR_DATA, c->dir, "part-%u says it is part %u of %u", i,
				 s->part, s->parts);
	uint64_t begin = before ? before->dense_begin + before->dense_count : 0;
	if (s->dense_begin != begin)
		return error_set(err, ERROR_DATA, c->dir,
				 "part-%u begins at %" PRIu64 " in place of %" PRIu64, i,
				 s->dense_begin, begin);
	if (before && (s->dense_slots != before->dense_slots || s->width != before->width ||
		       s->row_slots != before->row_slots))
		return error_set(err, ERROR_DATA, c->dir, "part-%u has another shape than part-%u",
				 i, i - 1);
	return 0;
}

static int open_parts(struct ckpt *c, struct error *err)
{
	char name[CKPT_NAME_MAX], path[CKPT_PATH_MAX];
	for (size_t i = 0; i < c->manifest.count; i++)
		if (ckpt_check_length(c->dir, &c->manifest.file[i], err) != 0)
			return -1;
	/* A base may have as many parts. */
	fs_allow_files(2 * (uint64_t)c->manifest.parts + FILES_BESIDE);
	c->part = calloc(c->manifest.parts, sizeof *c->part);
	if (!c->part)
		return error_set(err, ERROR_OS, c->dir, "out of memory");
	for (uint32_t i = 0; i < c->manifest.parts; i++) {
		ckpt_part_name(i, name);
		if (fs_join(path, sizeof path, c->dir, name, err) != 0 ||
		    part_open(&c->part[i], path, err) != 0 || check_part(c, i, err) != 0)
			return -1;
	}
	return 0;
}

/* Opens the base, which must have the same shape. */
static int open_base(struct ckpt *c, struct error *err)
{
	char path[CKPT_PATH_MAX];
	struct ckpt_manifest m;
	int result = ckpt_base_read(&m, &c->manifest, c->dir, path, err);
	ckpt_manifest_free(&m);
	if (result != 0 || ckpt_open(&c->base, path, err) != 0)
		return -1;
	if (ckpt_width(c) != ckpt_width(c->base) || ckpt_row_slots(c) != ckpt_row_slots(c->base))
		return error_set(err, ERROR_DATA, c->dir, "its rows and those of %.200s differ", path);
	return 0;
}

/* A part that lacks rows is refused if there is no base. */
static int ckpt_check_rows(const struct ckpt *c, struct error *err)
{
	for (uint32_t i = 0; i < c->manifest.parts; i++)
		if (stream_get_shape(part_stream(c->part[i]))->partial && !c->manifest.base[0])
			return error_set(err, ERROR_DATA, c->dir,
					 "part-%u has not all rows, and MANIFEST names no base", i);
	return 0;
}

int ckpt_open(struct ckpt **out, const char *dir, struct error *err)
{
	size_t len = strlen(dir);
	while (len > 1 && dir[len - 1] == '/')
		len--;
	if (len == 0 || len >= CKPT_PATH_MAX)
		return error_set(err, ERROR_USAGE, dir, "path is empty or too long");
	struct ckpt *c = calloc(1, sizeof *c);
	if (!c)
		return error_set(err, ERROR_OS, dir, "out of memory");
	memcpy(c->dir, dir, len);
	int result = ckpt_manifest_read(&c->manifest, c->dir, err);
	if (result == 0 && c->manifest.foreign)
		result = error_set(err, ERROR_CONFIG, c->dir,
				   "its parameters are files of trainers of your own, which the "
				   "kit can't read");
	if (result != 0 || open_parts(c, err) != 0 || ckpt_check_rows(c, err) != 0 ||
	    (c->manifest.base[0] && open_base(c, err) != 0)) {
		ckpt_close(c);
		return -1;
	}
	*out = c;
	return 0;
}

void ckpt_close(struct ckpt *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; c->part && i < c->manifest.parts; i++)
		part_close(c->part[i]);
	ckpt_close(c->base);
	ckpt_manifest_free(&c->manifest);
	team_free(c->team);
	free(c->part);
	free(c);
}

const char *ckpt_dir(const struct ckpt *c)
{
	return c->dir;
}

const struct ckpt_manifest *ckpt_get_manifest(const struct ckpt *c)
{
	return &c->manifest;
}

const struct ckpt_file *ckpt_find_file(const struct ckpt *c, const char *name)
{
	return ckpt_manifest_file(&c->manifest, name);
}

/* Path and entry of an included file; its content is checked. */
static int find_included(struct ckpt *c, const char *name, char *path, size_t max,
			 const struct ckpt_file **file, struct error *err)
{
	*file = ckpt_find_file(c, name);
	if (!*file)
		return error_set(err, ERROR_DATA, c->dir, "holds no file '%s'", name);
	return fs_join(path, max, c->dir, name, err);
}

static int check_sum(const char *path, const struct ckpt_file *f, uint64_t bytes, uint64_t sum,
		     struct error *err)
{
	if (bytes != f->bytes || sum != f->sum)
		return error_set(err, ERROR_DATA, path, "is damaged: its checksum differs");
	return 0;
}

/* Checks a file in dir: first its length, then its sum. Its full path goes into path. */
static int ckpt_check_whole(const char *dir, const struct ckpt_file *f, char path[CKPT_PATH_MAX],
			    struct error *err)
{
	uint64_t bytes, sum;
	if (fs_join(path, CKPT_PATH_MAX, dir, f->name, err) != 0 ||
	    ckpt_check_length(dir, f, err) != 0 || ckpt_sum_file(path, 0, &bytes, &sum, err) != 0)
		return -1;
	return check_sum(path, f, bytes, sum, err);
}

int ckpt_read_file(struct ckpt *c, const char *name, char **out, size_t *len, struct error *err)
{
	char path[CKPT_PATH_MAX], *data;
	const struct ckpt_file *f;
	size_t n;
	if (find_included(c, name, path, sizeof path, &f, err) != 0 ||
	    fs_read_file(path, INCLUDED_MAX, &data, &n, err) != 0)
		return -1;
	if (check_sum(path, f, n, XXH3_64bits(data, n), err) != 0) {
		free(data);
		return -1;
	}
	*out = data;
	if (len)
		*len = n;
	return 0;
}

int ckpt_check_file(struct ckpt *c, const char *name, char *path, size_t path_max,
		    struct error *err)
{
	const struct ckpt_file *f;
	uint64_t bytes, sum;
	if (find_included(c, name, path, path_max, &f, err) != 0 ||
	    ckpt_sum_file(path, 0, &bytes, &sum, err) != 0)
		return -1;
	return check_sum(path, f, bytes, sum, err);
}

int ckpt_check_sum(const char *dir, const char *name, struct error *err)
{
	char path[CKPT_PATH_MAX];
	struct ckpt_manifest m;
	if (ckpt_manifest_read(&m, dir, err) != 0)
		return -1;
	const struct ckpt_file *f = ckpt_manifest_file(&m, name);
	int result = f ? ckpt_check_whole(dir, f, path, err)
		       : error_set(err, ERROR_DATA, dir, "MANIFEST names no file '%s'", name);
	ckpt_manifest_free(&m);
	return result;
}

int ckpt_read_layout(struct ckpt *c, struct layout *l, struct error *err)
{
	char path[CKPT_PATH_MAX];
	if (ckpt_check_file(c, "layout", path, sizeof path, err) != 0 ||
	    layout_read(l, path, err) != 0)
		return -1;
	if (layout_dense_count(l) != ckpt_dense_count(c))
		return error_set(err, ERROR_DATA, path,
				 "has %" PRIu64 " dense elements, the parts %" PRIu64,
				 layout_dense_count(l), ckpt_dense_count(c));
	uint32_t width = l->has_table ? l->table.width : 0;
	if (width != ckpt_width(c))
		return error_set(err, ERROR_DATA, path, "has rows of width %u, the parts of %u",
				 width, ckpt_width(c));
	return 0;
}

/* ---- of trainers that are not ours ---- */

/* Whether the file `name` is `saved`, or lies in the directory `saved`. */
static int ckpt_is_below(const char *name, const char *saved)
{
	size_t len = strlen(saved);
	return strncmp(name, saved, len) == 0 && (name[len] == '\0' || name[len] == '/');
}

int ckpt_check_saved(const struct ckpt_manifest *m, const char *dir, const struct ckpt_saved *saved,
		     char *out, size_t max, struct error *err)
{
	char path[CKPT_PATH_MAX];
	for (size_t i = 0; i < m->count; i++) {
		const struct ckpt_file *f = &m->file[i];
		if (ckpt_is_below(f->name, saved->path) && ckpt_check_whole(dir, f, path, err) != 0)
			return -1;
	}
	return fs_join(out, max, dir, saved->path, err);
}

static const struct stream_shape *last_shape(const struct ckpt *c)
{
	return stream_get_shape(part_stream(c->part[c->manifest.parts - 1]));
}

uint64_t ckpt_dense_count(const struct ckpt *c)
{
	return last_shape(c)->dense_begin + last_shape(c)->dense_count;
}

uint32_t ckpt_dense_slots(const struct ckpt *c)
{
	return last_shape(c)->dense_slots;
}

uint32_t ckpt_width(const struct ckpt *c)
{
	return last_shape(c)->width;
}

uint32_t ckpt_row_slots(const struct ckpt *c)
{
	return last_shape(c)->row_slots;
}

uint64_t ckpt_row_count(const struct ckpt *c)
{
	uint64_t rows = 0;
	for (uint32_t i = 0; i < c->manifest.parts; i++) {
		const struct stream_shape *s = stream_get_shape(part_stream(c->part[i]));
		rows += s->partial ? s->all_rows : part_row_count(c->part[i]);
	}
	return rows;
}

const char *ckpt_note_at(const struct ckpt *c, size_t i, const char **value)
{
	return stream_note_at(part_stream(c->part[0]), i, value);
}

/* ---- parameters ---- */

static int ckpt_read_own(void *ckpt, const struct part_want *want, const struct stream_taker *taker,
			 struct error *err)
{
	struct ckpt *c = ckpt;
	for (uint32_t i = 0; i < c->manifest.parts; i++)
		if (part_read(c->part[i], want, taker, err) != 0)
			return -1;
	return 0;
}

static int read_base(void *ckpt, const struct part_want *want, const struct stream_taker *taker,
		     struct error *err)
{
	return ckpt_read_own(((struct ckpt *)ckpt)->base, want, taker, err);
}

int ckpt_read(struct ckpt *c, const struct part_want *want, const struct stream_taker *taker,
	      struct error *err)
{
	int rows = c->base && ckpt_width(c) && want->place_begin < want->place_end;
	if (rows &&
	    ckpt_base_rows(ckpt_read_own, read_base, c, last_shape(c), want, taker, err) != 0)
		return -1;
	return ckpt_read_own(c, want, taker, err);
}

int ckpt_write_part(const struct store *s, const char *path, uint32_t since, int level,
		    uint64_t *bytes, uint64_t *sum, struct error *err)
{
	return ckpt_write_part_in(s, -1, path, since, level, bytes, sum, err);
}

int ckpt_write_part_in(const struct store *s, int fd, const char *path, uint32_t since, int level,
		       uint64_t *bytes, uint64_t *sum, struct error *err)
{
	struct part_writer *w;
	if ((fd < 0 ? part_create(&w, path, err) : part_create_in(&w, fd, path, err)) != 0)
		return -1;
	struct team *team = ckpt_team();
	part_compress(w, level, team);
	int result = store_write_since(s, since, part_sink(w), err);
	team_free(team);
	if (result == 0)
		return part_finish(w, bytes, sum, err);
	part_abandon(w);
	return error_wrap(err, path);
}

int ckpt_replace_part(struct ckpt *c, uint32_t i, const char *path)
{
	struct part_reader *p;
	if (part_open(&p, path, NULL) != 0)
		return -1;
	const struct stream_shape *a = stream_get_shape(part_stream(p));
	const struct stream_shape *b = stream_get_shape(part_stream(c->part[i]));
	if (a->part != b->part || a->parts != b->parts || a->dense_begin != b->dense_begin ||
	    a->dense_count != b->dense_count || a->dense_slots != b->dense_slots ||
	    a->width != b->width || a->row_slots != b->row_slots || a->partial != b->partial ||
	    part_row_count(p) != part_row_count(c->part[i])) {
		part_close(p);
		return -1;
	}
	part_close(c->part[i]);
	c->part[i] = p;
	part_share(p, c->team);
	return 0;
}

void ckpt_share(struct ckpt *c)
{
	if (!c->team)
		c->team = ckpt_team();
	for (uint32_t i = 0; i < c->manifest.parts; i++)
		part_share(c->part[i], c->team);
	if (c->base)
		ckpt_share(c->base);
}

int ckpt_restore(struct ckpt *c, struct store *s, int *slots_lost, struct error *err)
{
	const struct map *map = store_map(s);
	uint64_t dense = map->dense_begin[map->parts];
	uint32_t part = store_part(s);
	int same;
	if (ckpt_dense_count(c) != dense)
		return error_set(err, ERROR_CONFIG, c->dir,
				 "it has %" PRIu64 " dense parameters, the layout %" PRIu64,
				 ckpt_dense_count(c), dense);
	if (store_expect(s, part_stream(c->part[0]), &same, err) != 0)
		return error_wrap(err, c->dir);
	*slots_lost = !same && store_slots(s) > 0;
	const struct part_want want = {.dense_begin = map->dense_begin[part],
				       .dense_end = map->dense_begin[part + 1],
				       .place_begin = map->key_begin[part],
				       .place_end = map->key_begin[part + 1]};
	const struct part_want rows = {.place_begin = want.place_begin, .place_end = want.place_end};
	const struct stream_taker taker = store_taker(s);
	/* A row that comes twice keeps what comes last. So there is no need to know which do. */
	if ((!c->base || read_base(c, &rows, &taker, err) == 0) &&
	    ckpt_read_own(c, &want, &taker, err) == 0)
		return 0;
	return err && !err->place[0] ? error_wrap(err, c->dir) : -1;
}

/* ---- verify ---- */

struct verdict {
	struct team *team;
	part_bad_fn *bad;
	void *arg;
	int found;
	struct error trouble; /* why something could not be looked at; this is not damage */
};

static void ckpt_tell(struct verdict *v, const struct error *e)
{
	if (e->code == ERROR_OS || e->code == ERROR_NOPERM || e->code == ERROR_CONFIG) {
		v->trouble = *e;
		return;
	}
	v->bad(e->place, e->text, v->arg);
	v->found++;
}

/* A part's own checksums say which block is damaged; MANIFEST's checksum says whether the part's
 * own can be believed. */
static int verify_part(const char *path, struct verdict *v)
{
	struct error why = {0};
	struct part_reader *p;
	if (part_open(&p, path, &why) != 0) {
		ckpt_tell(v, &why);
		return 1;
	}
	part_share(p, v->team);
	int found = part_verify(p, v->bad, v->arg);
	part_close(p);
	v->found += found;
	return found != 0;
}

static void ckpt_verify_file(const char *dir, const struct ckpt_file *f, int foreign,
			     struct verdict *v)
{
	char path[CKPT_PATH_MAX];
	uint64_t bytes, sum;
	struct error why = {0};
	if (fs_join(path, sizeof path, dir, f->name, &why) != 0 ||
	    ckpt_check_length(dir, f, &why) != 0) {
		ckpt_tell(v, &why);
		return;
	}
	if (!foreign && strncmp(f->name, "part-", 5) == 0 && verify_part(path, v))
		return;
	if (ckpt_sum_file(path, 0, &bytes, &sum, &why) != 0 ||
	    check_sum(path, f, bytes, sum, &why) != 0)
		ckpt_tell(v, &why);
}

static int ckpt_count_keys(void *count, size_t rows, const uint32_t *keys, const float *values,
			   const float *const *slots, struct error *err)
{
	(void)keys;
	(void)values;
	(void)slots;
	(void)err;
	*(uint64_t *)count += rows;
	return 0;
}

/* Checks that it and its base together have as many rows as there were. */
static int check_all_rows(struct ckpt *c, struct error *err)
{
	const struct part_want rows = {.place_end = MAP_PLACES};
	uint64_t count = 0;
	const struct stream_taker taker = {
		.rows = ckpt_count_keys, .owner = &count, .keys_only = 1};
	if (!c->base || ckpt_read(c, &rows, &taker, err) != 0)
		return c->base ? -1 : 0;
	if (count != ckpt_row_count(c))
		return error_set(err, ERROR_DATA, c->dir,
				 "it and its base have %" PRIu64 " rows in place of %" PRIu64, count,
				 ckpt_row_count(c));
	return 0;
}

/* Checks what no single file shows: parts of different shapes, a layout that does not fit them,
 * rows that neither the checkpoint nor its base has. */
static void verify_whole(const char *dir, struct verdict *v)
{
	struct error why = {0};
	struct layout *l = malloc(sizeof *l);
	struct ckpt *c = NULL;
	if (!l)
		error_set(&why, ERROR_OS, dir, "out of memory");
	if (!l || ckpt_open(&c, dir, &why) != 0 ||
	    (ckpt_find_file(c, "layout") && ckpt_read_layout(c, l, &why) != 0) ||
	    check_all_rows(c, &why) != 0)
		ckpt_tell(v, &why);
	ckpt_close(c);
	free(l);
}

/* Verifies every byte of the base as well: it is needed as much. */
static void verify_base(const char *dir, const struct ckpt_manifest *m, struct verdict *v)
{
	char path[CKPT_PATH_MAX];
	struct error why = {0};
	struct ckpt_manifest base;
	if (ckpt_base_read(&base, m, dir, path, &why) != 0)
		ckpt_tell(v, &why);
	for (size_t i = 0; i < base.count; i++)
		ckpt_verify_file(path, &base.file[i], 0, v);
	ckpt_manifest_free(&base);
}

static uint64_t ckpt_bytes_of(const struct ckpt_manifest *m)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < m->count; i++)
		bytes += m->file[i].bytes;
	return bytes;
}

int ckpt_verify(const char *dir, part_bad_fn *bad, void *arg, struct error *err)
{
	struct verdict v = {.bad = bad, .arg = arg};
	struct error why = {0};
	struct ckpt_manifest m;
	if (ckpt_manifest_read(&m, dir, &why) == 0) {
		v.team = m.foreign || ckpt_bytes_of(&m) <= PLANES_BYTES_MAX ? NULL : ckpt_team();
		for (size_t i = 0; i < m.count; i++)
			ckpt_verify_file(dir, &m.file[i], m.foreign, &v);
		if (m.base[0])
			verify_base(dir, &m, &v);
		if (v.found == 0 && !v.trouble.code && !m.foreign)
			verify_whole(dir, &v);
	} else if (why.code == ERROR_DATA ||
		   (why.code == ERROR_NOINPUT && access(dir, F_OK) == 0)) {
		ckpt_tell(&v, &why);
	} else {
		v.found = -1;
		if (err)
			*err = why;
	}
	if (v.found == 0 && v.trouble.code) {
		v.found = -1;
		if (err)
			*err = v.trouble;
	}
	team_free(v.team);
	ckpt_manifest_free(&m);
	return v.found;
}

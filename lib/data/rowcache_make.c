/*
 * rowcache_make: a cache from a data file (rowcache.h), in one pass over its text.  Must never be
 * in the way of what else the disk is for.
 */
#include "data/rowcache_internal.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/human.h"
#include "data/parse.h"
#include "data/rowfile.h"
#include "record/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define ROOM_EVERY 64 /* blocks between two looks at what is free */

struct making {
	const struct rowcache_making *m;
	struct rowcache_seal seal;
	struct rowfile file;
	struct columns columns;
	struct parser parser;
	struct rows rows;
	struct rowcache_entry *entry;
	size_t blocks;
	uint32_t *block;
	size_t block_room;
	uint64_t at; /* bytes of the cache so far */
	struct rowcache_made made;
};

static int make_no_memory(const struct making *k, struct error *err)
{
	return error_set(err, ERROR_OS, k->m->path, "out of memory");
}

/* ---- a block ---- */

static int make_is_ones(const float *x, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (x[i] != 1.0f)
			return 0;
	return 1;
}

static unsigned char *make_put(unsigned char *to, const void *from, size_t count)
{
	if (count > 0)
		memcpy(to, from, 4 * count);
	return to + 4 * count;
}

/* The rows at hand; *bytes of k->block. */
static int make_block(struct making *k, size_t *bytes, struct error *err)
{
	const struct rows *r = &k->rows;
	size_t n = r->count, keys = r->offset[n], dense = r->dense_columns;
	struct rowcache_block head = {.rows = (uint32_t)n, .keys = (uint32_t)keys};
	if (keys > UINT32_MAX)
		return error_set(err, ERROR_DATA, k->m->data_path, "too many keys in %zu rows", n);
	head.flags |= make_is_ones(r->weight, n) ? 0 : ROWCACHE_WEIGHTS;
	head.flags |= !r->value || make_is_ones(r->value, keys) ? 0 : ROWCACHE_VALUES;
	*bytes = (size_t)rowcache_block_bytes(&head, dense, r->fields);
	if (GROW(k->block, k->block_room, *bytes / sizeof *k->block + 1) != 0)
		return make_no_memory(k, err);
	unsigned char *to = (unsigned char *)k->block;
	memcpy(to, &head, sizeof head);
	to = make_put(to + sizeof head, r->label, n);
	if (head.flags & ROWCACHE_WEIGHTS)
		to = make_put(to, r->weight, n);
	to = make_put(to, r->dense, n * dense);
	for (size_t i = 0; r->fields == 0 && i <= n; i++) {
		uint32_t offset = (uint32_t)r->offset[i];
		to = make_put(to, &offset, 1);
	}
	to = make_put(to, r->key, keys);
	if (head.flags & ROWCACHE_VALUES)
		make_put(to, r->value, keys);
	return 0;
}

/* Reads and parses the next `count` rows. *bad: one of them is a bad row. */
static int make_read(struct making *k, size_t count, int *bad, struct error *err)
{
	struct row_ref ref;
	struct error why;
	size_t at;
	*bad = 0;
	rows_begin(&k->rows, k->m->schema);
	for (size_t i = 0; i < count; i++) {
		uint64_t number = k->file.at;
		if (rowfile_next(&k->file, &ref, err) != 0)
			return -1;
		int got = parse_row(&k->parser, &k->columns, &k->file.scan, &ref, number, &k->rows,
				    &at, &why);
		*bad |= got == PARSE_BAD;
		if (got < 0 && err)
			*err = why;
		if (got < 0)
			return -1;
	}
	return 0;
}

/* Others need the disk, too: checkpoints, first of all. */
static int make_has_room(const struct making *k, int fd, size_t done, struct error *err)
{
	struct statvfs disk;
	char need[HUMAN_MAX], free[HUMAN_MAX];
	if (fstatvfs(fd, &disk) != 0)
		return 0;
	double blocks = (double)(k->at - ROWCACHE_HEAD);
	double all = ROWCACHE_HEAD + blocks / (double)done * (double)k->blocks;
	double room = (double)disk.f_bavail * (double)disk.f_frsize;
	if (2 * (all - (double)k->at) <= room)
		return 0;
	return error_set(err, ERROR_CANTCREAT, k->m->path,
			 "would have %s, more than half of the %s that are free there",
			 human_bytes(all, need), human_bytes(room, free));
}

static int make_one(struct making *k, int fd, size_t i, struct error *err)
{
	uint64_t left = k->seal.rows - k->made.rows;
	size_t count = left < ROWCACHE_EVERY ? (size_t)left : ROWCACHE_EVERY, bytes = 0;
	int bad;
	if (k->m->stop && *k->m->stop)
		return error_set(err, ERROR_TEMPFAIL, k->m->path, "stopped");
	if (make_read(k, count, &bad, err) != 0 || (!bad && make_block(k, &bytes, err) != 0))
		return -1;
	k->entry[i] = (struct rowcache_entry){k->at, XXH3_64bits(k->block, bytes)};
	if (bytes > 0 && fs_write_all(fd, k->block, bytes, k->m->path, err) != 0)
		return -1;
	k->at += bytes;
	k->made.rows += count;
	k->made.text_rows += bad ? count : 0;
	if (i % ROOM_EVERY == 0 && make_has_room(k, fd, i + 1, err) != 0)
		return -1;
	if (i % ROOM_EVERY == 0 && k->m->progress)
		k->m->progress(k->made.rows, k->seal.rows, k->m->arg);
	return 0;
}

/* ---- the file ---- */

static int make_head(const struct making *k, int fd, struct error *err)
{
	char head[ROWCACHE_HEAD] = "", sum[17];
	const struct source_identity *id = &k->seal.identity;
	const struct {
		const char *key;
		uint64_t value;
		int is_sum;
	} fields[] = {{"version", ROWCACHE_VERSION, 0},
		      {"rows", k->seal.rows, 0},
		      {"text-rows", k->made.text_rows, 0},
		      {"every", ROWCACHE_EVERY, 0},
		      {"file-bytes", id->bytes, 0},
		      {"mtime-ns", id->mtime_ns, 0},
		      {"head-bytes", id->head_bytes, 0},
		      {"head-sum", id->head_sum, 1},
		      {"schema-sum", k->seal.schema_sum, 1},
		      {"table-at", k->at, 0},
		      {"table-sum", XXH3_64bits(k->entry, k->blocks * sizeof *k->entry), 1}};
	struct record_out o;
	record_begin(&o, head, sizeof head, "paceline-cache");
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		snprintf(sum, sizeof sum, "%016llx", (unsigned long long)fields[i].value);
		if (fields[i].is_sum)
			record_add(&o, fields[i].key, sum);
		else
			record_add_u64(&o, fields[i].key, fields[i].value);
	}
	snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits(o.data, o.len));
	record_add(&o, "sum", sum);
	record_end(&o, NULL);
	if (lseek(fd, 0, SEEK_SET) != 0)
		return error_errno(err, ERROR_IO, k->m->path, "seek");
	return fs_write_all(fd, head, sizeof head, k->m->path, err);
}

static int make_fill(int fd, const char *path, void *arg, struct error *err)
{
	static const char head[ROWCACHE_HEAD];
	struct making *k = arg;
	k->at = sizeof head;
	if (fs_write_all(fd, head, sizeof head, path, err) != 0 ||
	    (k->blocks > 0 && rowfile_go_to(&k->file, 0, err) != 0))
		return -1;
	for (size_t i = 0; i < k->blocks; i++)
		if (make_one(k, fd, i, err) != 0)
			return -1;
	if (k->blocks > 0 && source_check_unchanged(k->file.source, &k->seal.identity, NULL) != 0)
		return error_set(err, ERROR_TEMPFAIL, k->m->data_path, "was changed meanwhile");
	if (fs_write_all(fd, k->entry, k->blocks * sizeof *k->entry, path, err) != 0)
		return -1;
	k->made.bytes = k->at + k->blocks * sizeof *k->entry;
	if (k->m->progress)
		k->m->progress(k->made.rows, k->made.rows, k->m->arg);
	return make_head(k, fd, err);
}

static int make_open(struct making *k, struct error *err)
{
	const struct rowcache_making *m = k->m;
	const struct rowfile_options options = {
		.index_dir = m->index_dir,
		.making = {.keep = m->index_dir ? INDEX_KEEP : INDEX_KEEP_IF}};
	struct row_ref header = {0};
	if (rowfile_open(&k->file, m->data_path, m->schema->syntax, &options, err) != 0)
		return -1;
	if (parser_init(&k->parser, m->schema, 0, err) != 0 ||
	    rowfile_header(&k->file, &header, err) < 0 ||
	    columns_bind(&k->columns, &k->parser, &k->file.scan, &header, m->data_path, err) != 0 ||
	    rowcache_seal(&k->seal, m->data_path, m->schema, k->file.index, err) != 0)
		return -1;
	k->blocks = (size_t)rowcache_blocks(k->seal.rows);
	k->entry = malloc((k->blocks + 1) * sizeof *k->entry);
	return k->entry ? 0 : make_no_memory(k, err);
}

static void make_end(struct making *k)
{
	rowfile_close(&k->file);
	columns_free(&k->columns);
	parser_free(&k->parser);
	rows_free(&k->rows);
	free(k->entry);
	free(k->block);
}

int rowcache_make(const struct rowcache_making *m, struct rowcache_made *out, struct error *err)
{
	struct making k = {.m = m};
	int result = make_open(&k, err);
	if (result == 0)
		result = fs_replace_unsynced(m->path, 0600, make_fill, &k, err);
	*out = k.made;
	make_end(&k);
	return result;
}

/* ---- checking ---- */

static int same_rows(const struct rows *a, const struct rows *b)
{
	size_t n = a->count, keys;
	if (n != b->count || (keys = a->offset[n]) != b->offset[n])
		return 0;
	return memcmp(a->label, b->label, n * sizeof *a->label) == 0 &&
	       memcmp(a->weight, b->weight, n * sizeof *a->weight) == 0 &&
	       memcmp(a->offset, b->offset, (n + 1) * sizeof *a->offset) == 0 &&
	       (a->dense_columns == 0 ||
		memcmp(a->dense, b->dense, n * a->dense_columns * sizeof *a->dense) == 0) &&
	       (keys == 0 || memcmp(a->key, b->key, keys * sizeof *a->key) == 0) &&
	       (keys == 0 || !a->value || memcmp(a->value, b->value, keys * sizeof *a->value) == 0);
}

/* Block by block: a block that the cache lacks must have a bad row, and no other one has. */
static int check_blocks(struct making *k, struct rowcache *cache, struct error *err)
{
	struct rows rows = {0};
	int result = k->blocks > 0 ? rowfile_go_to(&k->file, 0, err) : 0;
	for (uint64_t at = 0, take; result == 0 && at < k->seal.rows; at += take) {
		int bad = 0, got;
		take = k->seal.rows - at;
		rows_begin(&rows, k->m->schema);
		got = rowcache_read(cache, at, &take, at, &rows, err);
		if (got < 0 || make_read(k, (size_t)take, &bad, err) != 0)
			result = -1;
		else if (got == bad || (got && !same_rows(&rows, &k->rows)))
			result = error_set(err, ERROR_NEGATIVE, k->m->path,
					   "rows from %llu on are others than in the text",
					   (unsigned long long)at);
		if (result == 0 && k->m->progress)
			k->m->progress(at + take, k->seal.rows, k->m->arg);
	}
	rows_free(&rows);
	return result;
}

int rowcache_check(const struct rowcache_making *m, struct error *err)
{
	struct making k = {.m = m};
	struct rowcache *cache = NULL;
	int result = make_open(&k, err);
	if (result == 0)
		result = rowcache_open(&cache, m->path, m->schema, &k.seal, err);
	if (result == 0)
		result = check_blocks(&k, cache, err);
	if (result != 0 && err && err->code == ERROR_DATA && strcmp(err->place, m->path) == 0)
		err->code = ERROR_NEGATIVE;
	rowcache_close(cache);
	make_end(&k);
	return result;
}

int rowcache_is_made(const struct rowcache_making *m, struct error *err)
{
	struct making k = {.m = m};
	struct rowcache *cache;
	int result = make_open(&k, err);
	if (result == 0 && rowcache_open(&cache, m->path, m->schema, &k.seal, NULL) == 0) {
		rowcache_close(cache);
		result = 1;
	}
	make_end(&k);
	return result;
}

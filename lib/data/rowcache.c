/* rowcache: see rowcache.h. Reading; rowcache_make.c makes one, rowcache_use.c finds it. */
#include "data/rowcache_internal.h"

#include "base/fs.h"
#include "base/grow.h"
#include "data/parse.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct rowcache {
	char *path;
	int fd; /* -1: at rest */
	struct stat file;
	const struct schema *schema;
	uint64_t rows;
	size_t blocks;
	struct rowcache_entry *entry; /* [blocks + 1]: the last is the end */
	uint32_t *block;
	size_t block_room;
	size_t loaded; /* the number of the block that is in `block`; SIZE_MAX: none */
	/* Where its numbers lie; NULL: it has none of these. */
	const uint32_t *label, *weight, *columns, *offset, *key, *value;
};

int rowcache_seal(struct rowcache_seal *out, const char *data_path, const struct schema *s,
		  const struct index *ix, struct error *err)
{
	struct stat st;
	*out = (struct rowcache_seal){.identity = ix->identity, .rows = ix->rows};
	out->owner = stat(data_path, &st) == 0 ? st.st_uid : geteuid();
	return schema_sum(s, &out->schema_sum, err);
}

int rowcache_path(char *out, size_t out_max, const char *data_path, const char *dir,
		  struct error *err)
{
	if (index_path(out, out_max, data_path, dir, err) != 0)
		return -1;
	size_t stem = strlen(out) - (sizeof ".rowidx" - 1);
	if (stem + sizeof ".rowcache" > out_max)
		return error_set(err, ERROR_CANTCREAT, data_path, "the cache's path is too long");
	memcpy(out + stem, ".rowcache", sizeof ".rowcache");
	return 0;
}

/* ---- opening ---- */

static int rowcache_bad(struct error *err, const char *why)
{
	return error_set(err, ERROR_DATA, NULL, "damaged row cache: %s", why);
}

static int rowcache_get_sum(const struct record *r, const char *key, uint64_t *out,
			    struct error *err)
{
	const char *text;
	char *end;
	if (record_text(r, key, &text, err) != 0)
		return -1;
	*out = strtoull(text, &end, 16);
	return strlen(text) == 16 && *end == '\0' ? 0 : rowcache_bad(err, key);
}

struct head {
	struct rowcache_seal seal;
	uint64_t every, blocks, table_at, table_sum;
};

static int rowcache_take_head(const struct record *r, struct head *h, struct error *err)
{
	uint64_t version;
	if (!record_is(r, "paceline-cache"))
		return rowcache_bad(err, "it is none");
	if (record_u64(r, "version", 1, INT64_MAX, &version, err) != 0)
		return -1;
	if (version != ROWCACHE_VERSION)
		return error_set(err, ERROR_NEGATIVE, NULL, "stale: made by another version");
	if (record_u64(r, "rows", 0, INT64_MAX, &h->seal.rows, err) != 0 ||
	    record_u64(r, "every", 1, UINT32_MAX, &h->every, err) != 0 ||
	    record_u64(r, "table-at", ROWCACHE_HEAD, INT64_MAX, &h->table_at, err) != 0 ||
	    rowcache_get_sum(r, "table-sum", &h->table_sum, err) != 0 ||
	    record_u64(r, "file-bytes", 0, INT64_MAX, &h->seal.identity.bytes, err) != 0 ||
	    record_u64(r, "mtime-ns", 0, UINT64_MAX, &h->seal.identity.mtime_ns, err) != 0 ||
	    record_u64(r, "head-bytes", 0, INT64_MAX, &h->seal.identity.head_bytes, err) != 0 ||
	    rowcache_get_sum(r, "head-sum", &h->seal.identity.head_sum, err) != 0 ||
	    rowcache_get_sum(r, "schema-sum", &h->seal.schema_sum, err) != 0)
		return -1;
	h->blocks = rowcache_blocks(h->seal.rows);
	return h->every == ROWCACHE_EVERY ? 0 : rowcache_bad(err, "blocks of another size");
}

static int rowcache_read_head(const struct rowcache *c, struct head *h, struct error *err)
{
	char line[ROWCACHE_HEAD], want[32];
	const size_t tail = sizeof " sum=0123456789abcdef\n" - 1;
	struct record r;
	if (fs_pread_all(c->fd, line, sizeof line, 0, c->path, err) != 0)
		return -1;
	const char *newline = memchr(line, '\n', sizeof line);
	size_t len = newline ? (size_t)(newline - line) + 1 : 0;
	if (len < tail)
		return rowcache_bad(err, "no first line");
	snprintf(want, sizeof want, " sum=%016llx\n",
		 (unsigned long long)XXH3_64bits(line, len - tail));
	if (memcmp(want, newline + 1 - tail, tail) != 0)
		return rowcache_bad(err, "the checksum of its first line differs");
	return record_parse(&r, line, len - 1, err) != 0 ? -1 : rowcache_take_head(&r, h, err);
}

static int rowcache_compare(const struct rowcache *c, const struct head *h,
			    const struct rowcache_seal *want, struct error *err)
{
	const struct source_identity *a = &h->seal.identity, *b = &want->identity;
	uid_t owner = c->file.st_uid;
	if (owner != geteuid() && owner != want->owner && owner != 0)
		return error_set(err, ERROR_NEGATIVE, NULL, "belongs to another user");
	if (a->bytes != b->bytes || a->mtime_ns != b->mtime_ns || a->head_bytes != b->head_bytes ||
	    a->head_sum != b->head_sum || h->seal.rows != want->rows)
		return error_set(err, ERROR_NEGATIVE, NULL,
				 "stale: the data file was changed since");
	if (h->seal.schema_sum != want->schema_sum)
		return error_set(err, ERROR_NEGATIVE, NULL, "made with other columns or options");
	return 0;
}

static int rowcache_read_table(struct rowcache *c, const struct head *h, struct error *err)
{
	size_t bytes = h->blocks * sizeof *c->entry;
	if ((uint64_t)c->file.st_size != h->table_at + bytes)
		return rowcache_bad(err, "cut short");
	c->blocks = (size_t)h->blocks;
	c->entry = malloc(bytes + sizeof *c->entry);
	if (!c->entry)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	if (fs_pread_all(c->fd, c->entry, bytes, h->table_at, c->path, err) != 0)
		return -1;
	if (XXH3_64bits(c->entry, bytes) != h->table_sum)
		return rowcache_bad(err, "the checksum of its table differs");
	c->entry[c->blocks].at = h->table_at;
	for (size_t i = 0; i < c->blocks; i++)
		if (c->entry[i].at < ROWCACHE_HEAD || c->entry[i].at > c->entry[i + 1].at)
			return rowcache_bad(err, "blocks that overlap");
	return 0;
}

static int rowcache_open_file(struct rowcache *c, struct stat *st, struct error *err)
{
	c->fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (c->fd < 0)
		return error_errno(err, errno == ENOENT ? ERROR_NOINPUT : 0, NULL, "can't be read");
	if (fstat(c->fd, st) != 0 || !S_ISREG(st->st_mode))
		return error_set(err, ERROR_DATA, NULL, "is no regular file");
	return 0;
}

static int rowcache_open_all(struct rowcache *c, const struct rowcache_seal *seal,
			     struct error *err)
{
	struct head h = {0};
	if (rowcache_open_file(c, &c->file, err) != 0 || rowcache_read_head(c, &h, err) != 0 ||
	    rowcache_compare(c, &h, seal, err) != 0)
		return -1;
	c->rows = h.seal.rows;
	return rowcache_read_table(c, &h, err);
}

int rowcache_open(struct rowcache **out, const char *path, const struct schema *s,
		  const struct rowcache_seal *seal, struct error *err)
{
	struct rowcache *c = calloc(1, sizeof *c);
	if (!c)
		return error_set(err, ERROR_OS, path, "out of memory");
	c->fd = -1;
	c->schema = s;
	c->loaded = SIZE_MAX;
	c->path = strdup(path);
	int result = c->path ? rowcache_open_all(c, seal, err)
			     : error_set(err, ERROR_OS, NULL, "out of memory");
	if (result != 0) {
		rowcache_close(c);
		if (err)
			snprintf(err->place, sizeof err->place, "%.500s", path);
		return -1;
	}
	*out = c;
	return 0;
}

void rowcache_rest(struct rowcache *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

void rowcache_close(struct rowcache *c)
{
	if (!c)
		return;
	rowcache_rest(c);
	free(c->path);
	free(c->entry);
	free(c->block);
	free(c);
}

/* ---- reading ---- */

/* After a rest: it must be the same file. */
static int rowcache_wake(struct rowcache *c, struct error *err)
{
	struct stat now;
	if (c->fd >= 0)
		return 0;
	if (rowcache_open_file(c, &now, err) != 0)
		return error_wrap(err, c->path);
	if (rowcache_is_file(&now, &c->file))
		return 0;
	rowcache_rest(c);
	return error_set(err, ERROR_NEGATIVE, c->path, "was replaced");
}

static const uint32_t *rowcache_take(const uint32_t **at, uint64_t count, int is_there)
{
	const uint32_t *begin = *at;
	*at += is_there ? count : 0;
	return is_there ? begin : NULL;
}

/* Whether a model of this schema has all keys and classes. */
static int rowcache_is_known(const struct rowcache *c, uint64_t rows, uint64_t keys)
{
	const struct schema *s = c->schema;
	uint32_t bits = 0;
	for (size_t i = 0; i < keys; i++)
		bits |= c->key[i];
	for (size_t i = 0; s->labels == SCHEMA_CLASS && i < rows; i++) {
		float label;
		memcpy(&label, c->label + i, sizeof label);
		if (!(label >= 0 && label < (float)s->classes.count))
			return 0;
	}
	return (uint64_t)bits >> s->hash_bits == 0;
}

/* Sums tell damage; they do not make whoever wrote the file trustworthy.  A block that would have
 * its reader look beyond its bytes, or a model beyond its parameters, is refused. */
static int rowcache_lay_out(struct rowcache *c, uint64_t rows, uint64_t bytes)
{
	const struct rowcache_block *head = (const struct rowcache_block *)c->block;
	const struct schema *s = c->schema;
	size_t fields = schema_fields(s);
	const uint32_t *at = c->block + sizeof *head / sizeof *c->block;
	if (bytes < sizeof *head || head->rows != rows ||
	    rowcache_block_bytes(head, s->dense_count, fields) != bytes)
		return 0;
	c->label = rowcache_take(&at, rows, 1);
	c->weight = rowcache_take(&at, rows, head->flags & ROWCACHE_WEIGHTS);
	c->columns = rowcache_take(&at, rows * s->dense_count, 1);
	c->offset = rowcache_take(&at, rows + 1, fields == 0);
	c->key = rowcache_take(&at, head->keys, 1);
	c->value = rowcache_take(&at, head->keys, head->flags & ROWCACHE_VALUES);
	if (fields > 0 ? head->keys != rows * fields : c->offset[rows] > head->keys)
		return 0;
	for (size_t i = 0; c->offset && i < rows; i++)
		if (c->offset[i] > c->offset[i + 1])
			return 0;
	return rowcache_is_known(c, rows, head->keys);
}

static int rowcache_load(struct rowcache *c, size_t i, struct error *err)
{
	uint64_t at = c->entry[i].at, bytes = c->entry[i + 1].at - at;
	uint64_t rows = i + 1 < c->blocks ? ROWCACHE_EVERY : c->rows - i * ROWCACHE_EVERY;
	if (c->loaded == i)
		return 0;
	c->loaded = SIZE_MAX;
	if (rowcache_wake(c, err) != 0)
		return -1;
	if (GROW(c->block, c->block_room, bytes / sizeof *c->block + 1) != 0)
		return error_set(err, ERROR_OS, c->path, "out of memory");
	if (fs_pread_all(c->fd, c->block, bytes, at, c->path, err) != 0)
		return -1;
	if (XXH3_64bits(c->block, bytes) != c->entry[i].sum)
		return error_set(err, ERROR_DATA, c->path,
				 "damaged row cache: the checksum of block %zu differs", i);
	if (!rowcache_lay_out(c, rows, bytes))
		return error_set(err, ERROR_DATA, c->path,
				 "damaged row cache: numbers in block %zu are out of range", i);
	c->loaded = i;
	return 0;
}

static void fill_ones(float *to, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] = 1.0f;
}

/* Rows [from, from + n) of the loaded block, behind those that are in `rows`. */
static int rowcache_append(const struct rowcache *c, size_t from, size_t n, uint64_t number,
			   struct rows *rows, struct error *err)
{
	size_t dense = c->schema->dense_count, fields = schema_fields(c->schema), at = rows->count;
	size_t first = fields > 0 ? from * fields : c->offset[from];
	size_t keys = fields > 0 ? n * fields : c->offset[from + n] - first;
	if (rows_reserve_many(rows, n, keys, err) != 0)
		return -1;
	size_t to = rows->offset[at];
	memcpy(rows->label + at, c->label + from, n * sizeof *c->label);
	if (c->weight)
		memcpy(rows->weight + at, c->weight + from, n * sizeof *c->weight);
	else
		fill_ones(rows->weight + at, n);
	if (dense > 0)
		memcpy(rows->dense + at * dense, c->columns + from * dense,
		       n * dense * sizeof *c->columns);
	if (keys > 0)
		memcpy(rows->key + to, c->key + first, keys * sizeof *c->key);
	if (rows->value && c->value)
		memcpy(rows->value + to, c->value + first, keys * sizeof *c->value);
	else if (rows->value)
		fill_ones(rows->value + to, keys);
	for (size_t i = 0; i < n; i++) {
		rows->row[at + i] = number + i;
		rows->offset[at + i + 1] =
			to + (fields > 0 ? (i + 1) * fields : c->offset[from + i + 1] - first);
	}
	rows->count += n;
	return 0;
}

int rowcache_read(struct rowcache *c, uint64_t begin, uint64_t *length, uint64_t number,
		  struct rows *rows, struct error *err)
{
	size_t i = (size_t)(begin / ROWCACHE_EVERY), from = (size_t)(begin % ROWCACHE_EVERY);
	if (*length > ROWCACHE_EVERY - from)
		*length = ROWCACHE_EVERY - from;
	if (c->entry[i + 1].at == c->entry[i].at)
		return 0;
	if (rowcache_load(c, i, err) != 0 ||
	    rowcache_append(c, from, (size_t)*length, number, rows, err) != 0)
		return -1;
	return 1;
}

/*
 * manifest: MANIFEST of a checkpoint, written last and read first (ckpt.h).
 *
 *     checkpoint version=1 job=adult iteration=120 incarnation=0 at=1700000000.5 epoch=1\n
 *     file name=part-0 bytes=8123 sum=0123456789abcdef\n
 *     saved worker=w0 path=w0/model.pt\n   only with kind=foreign in the first line
 *     saved worker=w1 bytes=9123 sum=fedcba9876543210\n   held in memory only
 *     end sum=...\n        XXH3 of every byte before its digits
 */
#include "ckpt/ckpt.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/option.h"
#include "record/record.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "ckpt/manifest.h"

#define TEXT_ROOM(files) (RECORD_LINE_MAX + (size_t)((files) + 1) * CKPT_FILE_LINE_MAX)
#define TEXT_MAX TEXT_ROOM(CKPT_FILES_MAX + CKPT_SAVED_MAX)
#define FOREIGN "foreign"
#define VERSION_MAX 2
#define END_PREFIX "end sum="
#define END_BYTES (sizeof END_PREFIX - 1 + 16 + 1)
#define COPY_BYTES (1u << 18)

void ckpt_part_name(uint32_t part, char out[CKPT_NAME_MAX])
{
	snprintf(out, CKPT_NAME_MAX, "part-%u", part);
}

void ckpt_manifest_free(struct ckpt_manifest *m)
{
	free(m->file);
	free(m->saved);
	memset(m, 0, sizeof *m);
}

int ckpt_manifest_start(struct ckpt_manifest *m, const char *job, uint64_t iteration,
			uint64_t incarnation, double at, struct error *err)
{
	memset(m, 0, sizeof *m);
	if (job[0] && !option_id_ok(job))
		return error_set(err, ERROR_USAGE, NULL, "'%.80s' is no name for a job", job);
	memcpy(m->job, job, strlen(job) + 1);
	m->iteration = iteration;
	m->incarnation = incarnation;
	m->at = at;
	m->epoch = -1;
	return 0;
}

/* Whether it is a path of a foreign checkpoint: its parts are names, so it can't lead out of the
 * directory unless it begins with a slash. */
static int is_path(const char *path)
{
	const char *at = path + (path[0] == '/');
	if (strlen(path) >= CKPT_FILE_NAME_MAX)
		return 0;
	for (;;) {
		size_t len = strcspn(at, "/");
		if (len == 0 || (at[0] == '.' && (len == 1 || (len == 2 && at[1] == '.'))))
			return 0;
		if (!at[len])
			return 1;
		at += len + 1;
	}
}

static size_t manifest_bucket_of(const char *name)
{
	return XXH3_64bits(name, strlen(name)) % CKPT_BUCKETS;
}

static int check_new_name(const struct ckpt_manifest *m, const char *name, struct error *err)
{
	if ((m->foreign ? !is_path(name) : !option_id_ok(name)) || strcmp(name, CKPT_MANIFEST) == 0)
		return error_set(err, ERROR_DATA, NULL, "'%.80s' is no name for a file", name);
	if (ckpt_manifest_file(m, name))
		return error_set(err, ERROR_DATA, NULL, "file '%s' appears twice", name);
	if (m->count == CKPT_FILES_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d files", CKPT_FILES_MAX);
	return 0;
}

int ckpt_add(struct ckpt_manifest *m, const char *name, uint64_t bytes, uint64_t sum,
	     struct error *err)
{
	if (check_new_name(m, name, err) != 0)
		return -1;
	if (GROW(m->file, m->file_room, m->count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	struct ckpt_file *f = &m->file[m->count++];
	uint16_t *bucket = &m->bucket[manifest_bucket_of(name)];
	memcpy(f->name, name, strlen(name) + 1);
	f->next = *bucket;
	*bucket = (uint16_t)m->count;
	f->bytes = bytes;
	f->sum = sum;
	return 0;
}

int ckpt_add_saved(struct ckpt_manifest *m, const char *worker, const char *path,
		   struct error *err)
{
	if (!option_id_ok(worker))
		return error_set(err, ERROR_DATA, NULL, "'%.80s' is no name of a worker", worker);
	if (path && !is_path(path))
		return error_set(err, ERROR_DATA, NULL, "'%.80s' is no path%s", path,
				 strlen(path) < CKPT_FILE_NAME_MAX ? "" : ": it is too long");
	if (m->saved_count == CKPT_SAVED_MAX)
		return error_set(err, ERROR_DATA, NULL, "more than %d trainers", CKPT_SAVED_MAX);
	if (GROW(m->saved, m->saved_room, m->saved_count + 1) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	struct ckpt_saved *s = &m->saved[m->saved_count++];
	memcpy(s->worker, worker, strlen(worker) + 1);
	memcpy(s->path, path ? path : "", path ? strlen(path) + 1 : 1);
	s->bytes = 0;
	return 0;
}

const struct ckpt_saved *ckpt_find_saved(const struct ckpt_manifest *m, const char *worker)
{
	const struct ckpt_saved *first = NULL;
	for (size_t i = 0; i < m->saved_count; i++) {
		const struct ckpt_saved *s = &m->saved[i];
		if (!s->path[0])
			continue;
		if (strcmp(s->worker, worker) == 0)
			return s;
		/* By number: the entries are in the order in which trainers joined. */
		if (!first || strverscmp(s->worker, first->worker) < 0)
			first = s;
	}
	return first;
}

/* Reads `in` to its end, sums what it reads and writes it to `out` (-1: nowhere). */
static int manifest_pump(int in, const char *in_name, int out, const char *out_name,
			 uint64_t *bytes, uint64_t *sum, struct error *err)
{
	char *buffer = malloc(COPY_BYTES);
	XXH3_state_t *state = XXH3_createState();
	int result = buffer && state ? 1 : error_set(err, ERROR_OS, in_name, "out of memory");
	*bytes = 0;
	if (result > 0)
		XXH3_64bits_reset(state);
	while (result > 0) {
		ssize_t n = read(in, buffer, COPY_BYTES);
		if (n < 0) {
			result = error_errno(err, ERROR_IO, in_name, "read");
		} else if (n == 0) {
			*sum = XXH3_64bits_digest(state);
			result = 0;
		} else {
			XXH3_64bits_update(state, buffer, (size_t)n);
			*bytes += (uint64_t)n;
			if (out >= 0 && fs_write_all(out, buffer, (size_t)n, out_name, err) != 0)
				result = -1;
		}
	}
	free(buffer);
	XXH3_freeState(state);
	return result;
}

int ckpt_sum_file(const char *path, int sync, uint64_t *bytes, uint64_t *sum, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would keep us waiting */
	struct stat st;
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	int result = 0;
	if (fstat(fd, &st) != 0)
		result = error_errno(err, 0, path, "can't be looked at");
	else if (!S_ISREG(st.st_mode))
		result = error_set(err, ERROR_DATA, path, "is no regular file");
	if (result == 0)
		result = manifest_pump(fd, path, -1, NULL, bytes, sum, err);
	if (result == 0 && sync && fsync(fd) != 0)
		result = error_errno(err, ERROR_IO, path, "fsync");
	close(fd);
	return result;
}

int ckpt_add_file(struct ckpt_manifest *m, const char *dir, const char *name, struct error *err)
{
	char path[CKPT_PATH_MAX];
	uint64_t bytes, sum;
	if (check_new_name(m, name, err) != 0 || fs_join(path, sizeof path, dir, name, err) != 0 ||
	    ckpt_sum_file(path, 1, &bytes, &sum, err) != 0)
		return -1;
	return ckpt_add(m, name, bytes, sum, err);
}

int ckpt_copy_file(int in, const char *in_name, const char *path, uint64_t *bytes, uint64_t *sum,
		   struct error *err)
{
	int out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return error_errno(err, ERROR_CANTCREAT, path, "can't be made");
	int result = manifest_pump(in, in_name, out, path, bytes, sum, err);
	if (result == 0 && fsync(out) != 0)
		result = error_errno(err, ERROR_IO, path, "fsync");
	if (close(out) != 0 && result == 0)
		result = error_errno(err, ERROR_IO, path, "close");
	if (result != 0)
		unlink(path);
	return result;
}

int ckpt_include(struct ckpt_manifest *m, const char *dir, const char *path, const char *name,
		 struct error *err)
{
	char to[CKPT_PATH_MAX];
	uint64_t bytes, sum;
	if (!name)
		name = fs_basename(path);
	if (check_new_name(m, name, err) != 0 || fs_join(to, sizeof to, dir, name, err) != 0)
		return -1;
	int in = open(path, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return error_errno(err, 0, path, "can't be read");
	int result = ckpt_copy_file(in, path, to, &bytes, &sum, err);
	close(in);
	return result == 0 ? ckpt_add(m, name, bytes, sum, err) : -1;
}

/* Sets m->parts: part-0, part-1, ... without a gap; a part behind a gap is an error. */
static int count_parts(struct ckpt_manifest *m, struct error *err)
{
	uint32_t named = 0, n = 0;
	char name[CKPT_NAME_MAX];
	m->parts = 0;
	if (m->foreign)
		return 0;
	for (size_t i = 0; i < m->count; i++)
		named += strncmp(m->file[i].name, "part-", 5) == 0;
	for (int found = 1; found && n <= MAP_PARTS_MAX;) {
		ckpt_part_name(n, name);
		found = ckpt_manifest_file(m, name) != NULL;
		n += (uint32_t)found;
	}
	if (n == 0 || n != named || n > MAP_PARTS_MAX)
		return error_set(err, ERROR_DATA, NULL,
				 "%u parts are named, of which %u in a row from part-0", named, n);
	m->parts = n;
	return 0;
}

const struct ckpt_file *ckpt_manifest_file(const struct ckpt_manifest *m, const char *name)
{
	for (size_t i = m->bucket[manifest_bucket_of(name)]; i > 0; i = m->file[i - 1].next)
		if (strcmp(m->file[i - 1].name, name) == 0)
			return &m->file[i - 1];
	return NULL;
}

static void manifest_add_size(struct record_out *o, uint64_t bytes, uint64_t sum)
{
	char text[17];
	snprintf(text, sizeof text, "%016" PRIx64, sum);
	record_add_u64(o, "bytes", bytes);
	record_add(o, "sum", text);
}

/* Writes the whole text into text[TEXT_ROOM()]; returns its length. */
static size_t format_manifest(const struct ckpt_manifest *m, char *text)
{
	struct record_out o;
	record_begin(&o, text, RECORD_LINE_MAX, "checkpoint");
	record_add_u64(&o, "version", m->base[0] ? 2 : 1);
	if (m->foreign)
		record_add(&o, "kind", FOREIGN);
	record_add(&o, "job", m->job);
	record_add_u64(&o, "iteration", m->iteration);
	record_add_u64(&o, "incarnation", m->incarnation);
	record_add_real(&o, "at", m->at);
	if (m->epoch >= 0)
		record_add_u64(&o, "epoch", (uint64_t)m->epoch);
	if (m->reported[0])
		record_add(&o, "reported", m->reported);
	if (m->base[0]) {
		char sum[17];
		snprintf(sum, sizeof sum, "%016" PRIx64, m->base_sum);
		record_add(&o, "base", m->base);
		record_add(&o, "base-sum", sum);
	}
	size_t len = record_end(&o, NULL);
	for (size_t i = 0; i < m->count; i++) {
		record_begin(&o, text + len, CKPT_FILE_LINE_MAX, "file");
		record_add(&o, "name", m->file[i].name);
		manifest_add_size(&o, m->file[i].bytes, m->file[i].sum);
		len += record_end(&o, NULL);
	}
	for (size_t i = 0; i < m->saved_count; i++) {
		record_begin(&o, text + len, CKPT_FILE_LINE_MAX, "saved");
		record_add(&o, "worker", m->saved[i].worker);
		if (m->saved[i].path[0])
			record_add(&o, "path", m->saved[i].path);
		if (m->saved[i].bytes > 0)
			manifest_add_size(&o, m->saved[i].bytes, m->saved[i].sum);
		len += record_end(&o, NULL);
	}
	memcpy(text + len, END_PREFIX, sizeof END_PREFIX);
	len += sizeof END_PREFIX - 1;
	snprintf(text + len, 18, "%016" PRIx64 "\n", (uint64_t)XXH3_64bits(text, len));
	return len + 17;
}

int ckpt_commit(struct ckpt_manifest *m, const char *dir, struct error *err)
{
	char path[CKPT_PATH_MAX], parent[CKPT_PATH_MAX];
	if (count_parts(m, err) != 0)
		return error_wrap(err, dir);
	if (fs_join(path, sizeof path, dir, CKPT_MANIFEST, err) != 0)
		return -1;
	char *text = malloc(TEXT_ROOM(m->count + m->saved_count));
	if (!text)
		return error_set(err, ERROR_OS, dir, "out of memory");
	/* First the files' names, then MANIFEST's: the other entries of the directory must be on
	 * disk first. */
	int result = fs_sync_dir(dir, err);
	if (result == 0)
		result = fs_replace_file(path, text, format_manifest(m, text), err);
	free(text);
	if (result != 0)
		return -1;
	size_t len = strlen(dir);
	while (len > 1 && dir[len - 1] == '/')
		len--;
	snprintf(path, sizeof path, "%.*s", (int)len, dir);
	fs_dirname(path, parent, sizeof parent);
	return fs_sync_dir(parent, err);
}

/* ---- reading ---- */

static int manifest_read_sum(const struct record *r, const char *key, uint64_t *out,
			     struct error *err)
{
	const char *sum;
	if (record_text(r, key, &sum, err) != 0)
		return -1;
	if (strlen(sum) != 16 || strspn(sum, "0123456789abcdef") != 16)
		return error_set(err, ERROR_DATA, NULL, "%s=: '%.40s' is no checksum", key, sum);
	*out = strtoull(sum, NULL, 16);
	return 0;
}

/* The base: a name, not a path, as it is beside this one. */
static int manifest_take_base(struct ckpt_manifest *m, const struct record *r, struct error *err)
{
	const char *base;
	if (record_text(r, "base", &base, err) != 0 ||
	    manifest_read_sum(r, "base-sum", &m->base_sum, err) != 0)
		return -1;
	if (!option_id_ok(base))
		return error_set(err, ERROR_DATA, NULL, "base=: '%.80s' is no name", base);
	memcpy(m->base, base, strlen(base) + 1);
	return 0;
}

static int manifest_take_head(struct ckpt_manifest *m, const struct record *r, struct error *err)
{
	uint64_t version, iteration, incarnation, epoch = UINT64_MAX;
	const char *job, *kind = record_get(r, "kind"), *reported = record_get(r, "reported");
	double at;
	if (!record_is(r, "checkpoint"))
		return error_set(err, ERROR_DATA, NULL, "a checkpoint record must come first");
	if (record_u64(r, "version", 1, UINT64_MAX, &version, err) != 0)
		return -1;
	if (version > VERSION_MAX)
		return error_set(err, ERROR_CONFIG, NULL,
				 "is of version %" PRIu64 ", which a newer Paceline wrote; this one "
				 "reads versions up to %d",
				 version, VERSION_MAX);
	if (record_text(r, "job", &job, err) != 0 ||
	    record_u64(r, "iteration", 0, UINT64_MAX, &iteration, err) != 0 ||
	    record_u64(r, "incarnation", 0, UINT64_MAX, &incarnation, err) != 0 ||
	    record_real(r, "at", 0, 1e15, &at, err) != 0 ||
	    record_u64_opt(r, "epoch", 0, INT64_MAX, &epoch, err) != 0 ||
	    ckpt_manifest_start(m, job, iteration, incarnation, at, err) != 0)
		return -1;
	if (epoch <= INT64_MAX)
		m->epoch = (int64_t)epoch;
	snprintf(m->reported, sizeof m->reported, "%s", reported ? reported : "");
	if (version == 2 && manifest_take_base(m, r, err) != 0)
		return -1;
	m->foreign = kind && strcmp(kind, FOREIGN) == 0;
	if (kind && !m->foreign)
		return error_set(err, ERROR_DATA, NULL, "kind=%.40s is not known", kind);
	return 0;
}

static int read_size(const struct record *r, uint64_t least, uint64_t *bytes, uint64_t *sum,
		     struct error *err)
{
	return record_u64(r, "bytes", least, INT64_MAX, bytes, err) != 0
		       ? -1
		       : manifest_read_sum(r, "sum", sum, err);
}

int ckpt_add_held(struct ckpt_manifest *m, const struct record *r, struct error *err)
{
	struct ckpt_saved *s = &m->saved[m->saved_count - 1];
	return read_size(r, 1, &s->bytes, &s->sum, err);
}

static int take_saved(struct ckpt_manifest *m, const struct record *r, struct error *err)
{
	const char *worker;
	if (record_text(r, "worker", &worker, err) != 0 ||
	    ckpt_add_saved(m, worker, record_get(r, "path"), err) != 0)
		return -1;
	return record_get(r, "bytes") ? ckpt_add_held(m, r, err) : 0;
}

int ckpt_add_line(struct ckpt_manifest *m, const struct record *r, struct error *err)
{
	const char *name;
	uint64_t bytes, sum = 0;
	if (record_text(r, "name", &name, err) != 0 || read_size(r, 0, &bytes, &sum, err) != 0)
		return -1;
	return ckpt_add(m, name, bytes, sum, err);
}

static int manifest_take_line(struct ckpt_manifest *m, const struct record *r, uint64_t number,
			      struct error *err)
{
	if (number == 1)
		return manifest_take_head(m, r, err);
	if (record_is(r, "file"))
		return ckpt_add_line(m, r, err);
	return record_is(r, "saved") ? take_saved(m, r, err) : 0;
}

/* Checks the last line: it must be exactly as we would write it. */
static int manifest_check_end(const char *text, size_t len, struct error *err)
{
	char end[END_BYTES + 1];
	if (len < END_BYTES)
		return error_set(err, ERROR_DATA, NULL, "is cut off");
	size_t summed = len - 17;
	snprintf(end, sizeof end, END_PREFIX "%016" PRIx64 "\n",
		 (uint64_t)XXH3_64bits(text, summed));
	if (memcmp(end, text + len - END_BYTES, END_BYTES) != 0)
		return error_set(err, ERROR_DATA, NULL,
				 "is damaged: its last line does not fit the rest");
	return 0;
}

static int manifest_take_text(struct ckpt_manifest *m, struct record *r, const char *text,
			      size_t len, struct error *err)
{
	char place[32];
	size_t body = len - END_BYTES;
	struct record_walk walk = record_walk(text, body);
	int got;
	while ((got = record_next(&walk, r, err)) == RECORD_ONE)
		if (manifest_take_line(m, r, walk.number, err) != 0)
			break;
	if (got != RECORD_END) {
		snprintf(place, sizeof place, "line %llu", (unsigned long long)walk.number);
		return error_wrap(err, place);
	}
	return body ? count_parts(m, err) : error_set(err, ERROR_DATA, NULL, "is empty");
}

int ckpt_manifest_read(struct ckpt_manifest *m, const char *dir, struct error *err)
{
	char path[CKPT_PATH_MAX], *text;
	size_t len;
	struct stat st;
	struct error why = {0};
	memset(m, 0, sizeof *m);
	if (fs_join(path, sizeof path, dir, CKPT_MANIFEST, err) != 0)
		return -1;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* a pipe would keep us waiting */
		return error_set(err, ERROR_DATA, path, "is no regular file");
	if (fs_read_file(path, TEXT_MAX, &text, &len, &why) != 0) {
		if (why.code == ERROR_NOINPUT)
			return error_set(err, ERROR_NOINPUT, dir,
					 access(dir, F_OK) == 0
						 ? "is no complete checkpoint: it has no MANIFEST"
						 : "there is no such directory");
		if (err)
			*err = why;
		return -1;
	}
	struct record *r = malloc(sizeof *r);
	int result = r ? manifest_check_end(text, len, err)
		       : error_set(err, ERROR_OS, NULL, "out of memory");
	if (result == 0)
		result = manifest_take_text(m, r, text, len, err);
	if (result == 0) /* manifest_take_head() has cleared it */
		m->sum = XXH3_64bits(text, len);
	free(r);
	free(text);
	if (result == 0)
		return 0;
	ckpt_manifest_free(m);
	return error_wrap(err, path);
}

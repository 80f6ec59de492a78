/* origin: see origin.h. */
#include "data/origin.h"

#include "base/fs.h"
#include "base/grow.h"
#include "data/parse.h"
#include "data/source.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#define ORIGIN_BYTES_MAX (256u << 20) /* 65,536 files, a line each */
#define PIECE (1u << 20)

struct file {
	char *path;
	struct source_identity identity;
	uint64_t sum;
};

/* ---- the data ---- */

static int sum_all(int fd, const char *path, char *piece, XXH3_state_t *state, struct error *err)
{
	for (;;) {
		ssize_t n = read(fd, piece, PIECE);
		if (n == 0)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, ERROR_IO, path, "read");
		XXH3_64bits_update(state, piece, (size_t)n);
	}
}

static int sum_file(const char *path, uint64_t *sum, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	char *piece = malloc(PIECE);
	XXH3_state_t *state = XXH3_createState();
	int result = piece && state && XXH3_64bits_reset(state) == XXH_OK
			     ? sum_all(fd, path, piece, state, err)
			     : error_set(err, ERROR_OS, path, "out of memory");
	if (result == 0)
		*sum = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	free(piece);
	close(fd);
	return result;
}

static int origin_identify(const char *path, struct source_identity *out, struct error *err)
{
	struct source *source;
	if (source_open(&source, path, err) != 0)
		return -1;
	int result = source_identify(source, out, err);
	source_close(source);
	return result;
}

static void origin_free_files(struct file *file, size_t count)
{
	for (size_t i = 0; file && i < count; i++)
		free(file[i].path);
	free(file);
}

/* Those that were named, then their files of labels; NULL: an error. */
static struct file *origin_list(const struct origin_files *files, size_t *count, struct error *err)
{
	char labels[PATH_MAX];
	*count = files->are_idx ? 2 * files->count : files->count;
	struct file *list = calloc(*count + 1, sizeof *list);
	int result = list ? 0 : error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; result == 0 && i < *count; i++) {
		const char *path = files->file[i % files->count];
		if (i >= files->count) {
			result = image_label_file(path, labels, sizeof labels, err);
			path = labels;
		}
		if (result == 0 && !(list[i].path = strdup(path)))
			result = error_set(err, ERROR_OS, path, "out of memory");
	}
	if (result == 0)
		return list;
	origin_free_files(list, *count);
	return NULL;
}

/* ---- the file of records ---- */

static void print_file(FILE *out, const struct file *f)
{
	record_print(out, RECORD("file", F("path", f->path), F("bytes", f->identity.bytes),
				 F("mtime-ns", f->identity.mtime_ns),
				 F("head-bytes", f->identity.head_bytes),
				 F("head-sum", f->identity.head_sum), F("sum", f->sum)));
}

static int origin_write_down(const char *path, const struct origin *origin,
			     const struct file *file, size_t count, struct error *err)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = grow_stream(&text, &len);
	if (!out)
		return error_set(err, ERROR_OS, path, "out of memory");
	record_print(out, RECORD("data", F("version", 1), F("rows", origin->rows),
				 F("bad-rows", origin->bad_rows)));
	for (size_t i = 0; i < count; i++)
		print_file(out, &file[i]);
	int result = fclose(out) != 0 ? error_set(err, ERROR_OS, path, "out of memory")
				      : fs_replace_file(path, text, len, err);
	free(text);
	return result;
}

int origin_write(const char *path, const struct origin *origin, const struct origin_files *files,
		 struct error *err)
{
	size_t count;
	struct file *file = origin_list(files, &count, err);
	int result = file ? 0 : -1;
	for (size_t i = 0; result == 0 && i < count; i++) {
		result = origin_identify(file[i].path, &file[i].identity, err);
		if (result == 0)
			result = sum_file(file[i].path, &file[i].sum, err);
	}
	if (result == 0)
		result = origin_write_down(path, origin, file, count, err);
	origin_free_files(file, count);
	return result;
}

static int origin_take_data(const struct record *r, struct origin *out, struct error *err)
{
	uint64_t version;
	if (record_u64(r, "version", 1, 1, &version, err) != 0 ||
	    record_u64(r, "rows", 0, UINT64_MAX, &out->rows, err) != 0)
		return -1;
	return record_u64(r, "bad-rows", 0, UINT64_MAX, &out->bad_rows, err);
}

static int origin_take_file(const struct record *r, struct file *out, struct error *err)
{
	const struct {
		const char *key;
		uint64_t *at;
	} numbers[] = {{"bytes", &out->identity.bytes},
		       {"mtime-ns", &out->identity.mtime_ns},
		       {"head-bytes", &out->identity.head_bytes},
		       {"head-sum", &out->identity.head_sum},
		       {"sum", &out->sum}};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (record_u64(r, numbers[i].key, 0, UINT64_MAX, numbers[i].at, err) != 0)
			return -1;
	return 0;
}

/* file[count], or count 0: only what is known of the whole. */
static int origin_take_text(const char *text, size_t len, struct origin *out, struct file *file,
			    size_t count, struct error *err)
{
	struct record r;
	size_t files = 0, heads = 0;
	struct record_walk walk = record_walk(text, len);
	int got;
	while ((got = record_next(&walk, &r, err)) == RECORD_ONE) {
		if (record_is(&r, "data") && heads++ == 0 && origin_take_data(&r, out, err) != 0)
			return -1;
		if (record_is(&r, "file") && files++ < count &&
		    origin_take_file(&r, &file[files - 1], err) != 0)
			return -1;
	}
	if (got != RECORD_END)
		return -1;
	if (heads != 1 || (count > 0 && files != count))
		return error_set(err, ERROR_DATA, NULL, "has %zu data and %zu file records", heads,
				 files);
	return 0;
}

static int origin_read_all(const char *path, struct origin *out, struct file *file, size_t count,
			   struct error *err)
{
	char *text;
	size_t len;
	if (fs_read_file(path, ORIGIN_BYTES_MAX, &text, &len, err) != 0)
		return -1;
	int result = origin_take_text(text, len, out, file, count, err);
	free(text);
	return result == 0 ? 0 : error_wrap(err, path);
}

int origin_read(const char *path, struct origin *out, struct error *err)
{
	return origin_read_all(path, out, NULL, 0, err);
}

/* ---- still the same? ---- */

/* *touched: the file has the same bytes and another time. */
static int origin_check_file(struct file *f, int *touched, struct error *err)
{
	const char *path = f->path;
	struct source_identity now;
	uint64_t sum;
	if (origin_identify(path, &now, err) != 0)
		return -1;
	if (now.bytes != f->identity.bytes || now.head_bytes != f->identity.head_bytes ||
	    now.head_sum != f->identity.head_sum)
		return error_set(err, ERROR_CONFIG, path, "was changed since the job began");
	if (now.mtime_ns == f->identity.mtime_ns)
		return 0;
	if (sum_file(path, &sum, err) != 0)
		return -1;
	if (sum != f->sum)
		return error_set(err, ERROR_CONFIG, path, "was changed since the job began");
	f->identity.mtime_ns = now.mtime_ns;
	*touched = 1;
	return 0;
}

int origin_check(const char *path, const struct origin_files *files, struct error *err)
{
	struct origin origin = {0};
	size_t count;
	struct file *file = origin_list(files, &count, err);
	int touched = 0;
	int result = file ? origin_read_all(path, &origin, file, count, err) : -1;
	for (size_t i = 0; result == 0 && i < count; i++)
		result = origin_check_file(&file[i], &touched, err);
	/* Writes the new times, so that the next start does not read the files again; if this
	 * fails, it reads them. */
	if (result == 0 && touched)
		(void)origin_write_down(path, &origin, file, count, NULL);
	origin_free_files(file, count);
	return result;
}

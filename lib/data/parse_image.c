/*
 * parse_image: images of a byte for each pixel and channel, as numbers from 0 to 1, and their labels.
 *
 * CIFAR-10 (Krizhevsky, 2009) has the label in the byte before an image; CIFAR-100 has two there,
 * of which the second, the fine one, is taken.  idx (LeCun, Cortes, Burges: the MNIST database) has
 * them in a file beside, which is found by its name.
 */
#include "data/parse.h"

#include "base/fs.h"
#include "base/grow.h"
#include "base/number.h"
#include "data/source.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 16) /* labels that are read at once */

/* ---- labels of an idx file ---- */

/* "train-images-idx3-ubyte.gz" -> "train-labels-idx1-ubyte.gz": -1: there is no "images" in it. */
static int label_name(const char *file, char *out, size_t max)
{
	size_t dir = (size_t)(fs_basename(file) - file);
	const char *images = strstr(file + dir, "images");
	for (const char *p = images; p; p = strstr(p + 1, "images"))
		images = p;
	if (!images || strlen(file) + sizeof ".gz" > max)
		return -1;
	snprintf(out, max, "%.*slabels%s", (int)(images - file), file, images + strlen("images"));
	char *sizes = strstr(out + dir, "idx");
	if (sizes && sizes[3] >= '2' && sizes[3] <= '4')
		sizes[3] = '1';
	return 0;
}

/* It may be packed where the images are not, or the other way round. */
static void label_other_name(char *name)
{
	size_t len = strlen(name);
	if (len > 3 && strcmp(name + len - 3, ".gz") == 0)
		name[len - 3] = '\0';
	else
		memcpy(name + len, ".gz", sizeof ".gz");
}

/* Up to max bytes. */
static int read_whole(struct source *source, unsigned char *to, size_t max, size_t *len,
		      struct error *err)
{
	size_t got = 1;
	for (*len = 0; *len < max && got > 0; *len += got)
		if (source_read(source, to + *len, max - *len, &got, err) != 0)
			return -1;
	return 0;
}

/* Up to `most`, in memory that grows with what is there, not with what the header says. */
static int read_labels(struct columns *c, struct source *source, uint64_t most, struct error *err)
{
	size_t room = 0, len, want;
	do {
		want = most - c->image_labels < CHUNK ? most - c->image_labels : CHUNK;
		if (GROW(c->image_label, room, c->image_labels + want + 1) != 0)
			return error_set(err, ERROR_OS, "", "out of memory");
		if (read_whole(source, c->image_label + c->image_labels, want, &len, err) != 0)
			return -1;
		c->image_labels += len;
	} while (len == want && want > 0);
	return 0;
}

static int label_read(struct columns *c, struct source *source, const char *name, struct error *err)
{
	unsigned char head[8], more;
	struct row_idx idx;
	size_t len;
	if (read_whole(source, head, sizeof head, &len, err) != 0)
		return -1;
	if (row_idx_header(head, len, &idx) != 0 || idx.sizes != 1)
		return error_set(err, ERROR_DATA, name,
				 "is no idx file of labels: it does not begin with 0, 0, 8, 1, and how "
				 "many there are");
	if (read_labels(c, source, idx.rows, err) != 0)
		return -1;
	if (c->image_labels < idx.rows)
		return error_set(err, ERROR_DATA, name,
				 "holds %llu labels; its header says %llu (cut short?)",
				 (unsigned long long)c->image_labels, (unsigned long long)idx.rows);
	if (read_whole(source, &more, 1, &len, err) != 0)
		return -1;
	if (len > 0)
		return error_set(err, ERROR_DATA, name, "holds more labels than its header says, %llu",
				 (unsigned long long)idx.rows);
	return 0;
}

int image_label_file(const char *file, char *out, size_t max, struct error *err)
{
	if (label_name(file, out, max) != 0)
		return error_set(err, ERROR_DATA, file,
				 "its labels are not found: rename it, or link to it, so that \"images\" "
				 "is in its name where the file of labels has \"labels\"");
	if (access(out, F_OK) == 0)
		return 0;
	label_other_name(out);
	if (access(out, F_OK) == 0)
		return 0;
	label_other_name(out);
	return error_set(err, ERROR_NOINPUT, out, "is not there: it should have the labels of %.200s",
			 fs_basename(file));
}

int image_bind(struct columns *c, const struct parser *p, const char *file, struct error *err)
{
	char name[PATH_MAX];
	struct source *source;
	if (p->schema->syntax.format != ROW_IDX)
		return 0;
	if (image_label_file(file, name, sizeof name, p->label_optional ? NULL : err) != 0)
		return p->label_optional ? 0 : -1;
	c->image_label_path = strdup(name);
	if (!c->image_label_path)
		return error_set(err, ERROR_OS, name, "out of memory");
	if (source_open(&source, name, err) != 0)
		return -1;
	int result = label_read(c, source, name, err);
	source_close(source);
	return result;
}

/* ---- a row ---- */

int parse_image(struct parser *p, const struct columns *c, const struct row_ref *row, struct rows *rows,
		size_t *at, struct error *err)
{
	const struct row_syntax syntax = p->schema->syntax;
	size_t n = rows->count, pixels = p->schema->dense_count, labels = row_label_bytes(syntax);
	uint64_t image = row->line - 1;
	if (rows_reserve(rows, 0, err) != 0)
		return -1;
	rows->label[n] = NAN;
	if (syntax.format != ROW_IDX || c->image_label) {
		if (labels == 0 && image >= c->image_labels)
			return parse_bad(at, 0, err, "the image has no label: %.200s has %llu",
					 c->image_label_path, (unsigned long long)c->image_labels);
		unsigned char label = labels > 0 ? (unsigned char)row->data[labels - 1]
						 : c->image_label[image];
		int classes = labels == 1 ? 10 : labels == 2 ? 100 : 256;
		if (label >= classes)
			return parse_bad(at, labels - 1, err,
					 "label %d: FORMAT=%s has classes 0 to %d", label,
					 row_syntax_name(syntax), classes - 1);
		size_t len = number_format_u64(label, p->image_label);
		int result = parse_label(p, p->image_label, len, &rows->label[n], at, 0, err);
		if (result != PARSE_OK)
			return result;
	}
	rows->weight[n] = 1;
	float *restrict x = rows->dense + n * pixels;
	const unsigned char *restrict from = (const unsigned char *)row->data + labels;
	for (size_t i = 0; i < pixels; i++)
		x[i] = (float)from[i] / 255.0f;
	rows->offset[n + 1] = rows->offset[n];
	return PARSE_OK;
}

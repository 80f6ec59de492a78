/*
 * format: how the rows of a data file are written.
 */
#ifndef PACELINE_DATA_FORMAT_H
#define PACELINE_DATA_FORMAT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Rows of ROW_LINES are lines of any text: they can be counted and found, not trained on. */
enum row_format {
	ROW_LINES,
	ROW_BAG,
	ROW_CIFAR10,
	ROW_CIFAR100,
	ROW_CRITEO,
	ROW_CSV,
	ROW_IDX,
	ROW_LIBSVM
};

/* For options: formats that can be trained on. tsv is a csv whose separator is the tab. */
#define ROW_FORMAT_CHOICES "bag|cifar10|cifar100|criteo|csv|idx|libsvm|tsv"

struct row_syntax {
	enum row_format format;
	char separator; /* between the fields of a csv; 0 in other formats */
	/* Bytes of an image, one each. 0: other formats, and idx as long as no file was looked at. */
	uint32_t pixels;
};

/* The format with its own separator: a comma for ROW_CSV; and pixels of ROW_CIFAR. */
struct row_syntax row_syntax(enum row_format format);
/* Unknown pixels are the same as any. */
int row_syntax_same(struct row_syntax a, struct row_syntax b);
/* Whether rows are images: bytes, not text. */
int row_is_image(struct row_syntax s);
/* Bytes of the label before an image: 0 for ROW_IDX, which has labels in a file of their own. */
size_t row_label_bytes(struct row_syntax s);

/* The header of an idx file, which lies before its rows. */
#define ROW_IDX_HEADER_MAX 20
#define ROW_PIXELS_MAX 4096
struct row_idx {
	size_t bytes;    /* of the header */
	uint64_t rows;
	uint64_t pixels; /* in a row: the product of its other sizes, 1 if it has none */
	unsigned sizes;  /* 1: labels; 3: grey images; 4: images in colours */
	uint32_t size[4];
};
/* 0: it is one; -1: `head` has no such header, or of other numbers than bytes. */
int row_idx_header(const unsigned char *head, size_t len, struct row_idx *out);
/* "csv"; "tsv" for a csv whose separator is the tab. */
const char *row_syntax_name(struct row_syntax s);

/* From what FORMAT says. Either may be NULL or "", not both: a separator alone makes
 * a csv. ERROR_CONFIG with the key at fault as place. */
int row_syntax_find(const char *format, const char *separator, struct row_syntax *out,
		    struct error *err);
/* Whether the name alone does not say the separator. */
int row_syntax_is_odd(struct row_syntax s);
/* A separator as text: the character, or "tab". out holds 8 bytes at least. */
void row_separator_text(char separator, char *out);

/* What the content looks like, from its first bytes. Never an error: ROW_LINES fits all. */
struct row_syntax row_syntax_guess(const char *head, size_t len);
/* The separator that a header line has most often, or `separator` if it has no other one more
 * often. */
char row_separator_guess(const char *line, size_t len, char separator);
/* Whether a line is nothing but blanks, a carriage return among them. A separator is no blank. */
int row_is_blank(const char *line, size_t len, char separator);

#endif

/* grid: see grid.h. */
#include "screen/grid.h"

#include "base/grow.h"
#include "screen/text.h"

#include <stdlib.h>
#include <string.h>

void grid_init(struct grid *t, const struct grid_column *column, size_t count)
{
	*t = (struct grid){.column = column, .count = count};
}

void grid_free(struct grid *t)
{
	for (size_t i = 0; i < t->rows * t->count; i++)
		free(t->cell[i]);
	free(t->cell);
	*t = (struct grid){0};
}

void grid_add(struct grid *t, const char *const *cell)
{
	if (t->failed || GROW(t->cell, t->room, (t->rows + 1) * t->count) != 0) {
		t->failed = 1;
		return;
	}
	char **row = t->cell + t->rows * t->count;
	for (size_t i = 0; i < t->count; i++) {
		const char *text = cell[i] ? cell[i] : "";
		size_t max = strlen(text) + 1;
		row[i] = malloc(max);
		if (row[i]) {
			text_clean(text, row[i], max);
			continue;
		}
		while (i-- > 0)
			free(row[i]);
		t->failed = 1;
		return;
	}
	t->rows++;
}

static const char *cell_of(const struct grid *t, size_t row, size_t column)
{
	return row == GRID_HEAD ? t->column[column].head : t->cell[row * t->count + column];
}

/* The columns that all its cells need; 0: they are empty, and so it is not wanted. */
static size_t needed(const struct grid *t, size_t column)
{
	const struct grid_column *c = &t->column[column];
	size_t most = 0;
	for (size_t row = 0; row < t->rows; row++) {
		size_t width = text_width(cell_of(t, row, column));
		most = width > most ? width : most;
	}
	if (most == 0 && c->if_any)
		return 0;
	size_t head = text_width(c->head);
	most = most > head ? most : head;
	return most > c->least ? most : c->least;
}

/* What it can't do with less of. */
static size_t grid_least(const struct grid *t, size_t column, size_t need)
{
	const struct grid_column *c = &t->column[column];
	size_t head = text_width(c->head), min = c->least > head ? c->least : head;
	return c->words && min < need ? min : need;
}

static size_t total(const size_t *width, size_t count)
{
	size_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += width[i] ? width[i] + (sum ? GRID_GAP : 0) : 0;
	return sum;
}

/* The column of the highest rank that is there; among equals the last. */
static size_t least_wanted(const struct grid *t, const size_t *width)
{
	size_t found = 0;
	for (size_t i = 0; i < t->count; i++)
		if (width[i] && (!width[found] || t->column[i].rank >= t->column[found].rank))
			found = i;
	return found;
}

void grid_layout(const struct grid *t, size_t width, size_t out[GRID_MAX])
{
	size_t need[GRID_MAX], count = 0;
	for (size_t i = 0; i < t->count; i++) {
		need[i] = needed(t, i);
		out[i] = grid_least(t, i, need[i]);
		count += out[i] > 0;
	}
	for (; total(out, t->count) > width && count > 1; count--)
		out[least_wanted(t, out)] = 0;
	size_t used = total(out, t->count);
	if (used > width) { /* one alone, and too wide */
		out[least_wanted(t, out)] = width;
		return;
	}
	for (unsigned rank = 0; rank < 2 * GRID_MAX; rank++)
		for (size_t i = 0; i < t->count; i++) {
			if (!out[i] || t->column[i].rank != rank || out[i] >= need[i])
				continue;
			size_t more = need[i] - out[i], left = width - used;
			more = more < left ? more : left;
			out[i] += more;
			used += more;
		}
}

struct line {
	char *out;
	size_t at, max, columns;
};

static void grid_put(struct line *l, const char *text)
{
	size_t n = strlen(text);
	if (l->at + n >= l->max)
		return;
	memcpy(l->out + l->at, text, n + 1);
	l->at += n;
	l->columns += text_width(text);
}

static void put_blanks(struct line *l, size_t n)
{
	while (n-- > 0)
		grid_put(l, " ");
}

size_t grid_line(const struct grid *t, const size_t layout[GRID_MAX], size_t row, char *out,
		 size_t max)
{
	struct line l = {out, 0, max, 0};
	size_t end = 0; /* where the next column begins */
	out[0] = '\0';
	for (size_t i = 0; i < t->count; i++) {
		char text[1024];
		if (!layout[i])
			continue;
		if (t->column[i].words)
			text_words(cell_of(t, row, i), layout[i], text, sizeof text);
		else
			text_name(cell_of(t, row, i), layout[i], text, sizeof text);
		size_t wide = text_width(text);
		if (t->column[i].align == GRID_RIGHT && wide < layout[i])
			end += layout[i] - wide;
		if (wide > 0) { /* blanks only in front of something */
			put_blanks(&l, end - l.columns);
			grid_put(&l, text);
		}
		end += (t->column[i].align == GRID_RIGHT ? wide : layout[i]) + GRID_GAP;
	}
	return l.columns;
}

int grid_place(const struct grid *t, const size_t layout[GRID_MAX], size_t column, size_t *at,
	       size_t *width)
{
	size_t end = 0;
	if (column >= t->count || !layout[column])
		return -1;
	for (size_t i = 0; i < column; i++)
		end += layout[i] ? layout[i] + GRID_GAP : 0;
	*at = end;
	*width = layout[column];
	return 0;
}

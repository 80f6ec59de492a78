/* line: see line.h. */
#include "screen/line.h"

#include "screen/text.h"

#include <string.h>

#define PIECES_MAX 16

/* What was chosen of a piece: its form, or its words in so many columns. */
struct chosen {
	int form;
	size_t width;
};

static int has(const struct piece *p, int form)
{
	return form >= 0 && p->form[form] && p->form[form][0];
}

static int shortest(const struct piece *p)
{
	int form = PIECE_FORMS - 1;
	while (form >= 0 && !has(p, form))
		form--;
	return form;
}

static size_t least_width(const struct piece *p, int form)
{
	size_t width = text_width(p->form[form]);
	return form == 0 && p->words && p->least < width ? p->least : width;
}

/* A longer form than the one chosen, with room columns more. */
static void lengthen(const struct piece *p, struct chosen *c, size_t *room)
{
	for (int form = 0; form <= c->form; form++) {
		if (!has(p, form) || least_width(p, form) > c->width + *room)
			continue;
		size_t width = text_width(p->form[form]);
		if (width > c->width + *room)
			width = c->width + *room;
		*room -= width - c->width;
		*c = (struct chosen){form, width};
		return;
	}
}

/* The pieces in front of `count` that are or are no extras, in their shortest forms. 0: one of them
 * did not fit. */
static int line_choose(const struct piece *piece, size_t count, int extra, struct chosen *chosen,
		       size_t *room, int *any)
{
	for (size_t i = 0; i < count; i++) {
		int form = extra ? 0 : shortest(&piece[i]);
		size_t gap = *any ? LINE_GAP : 0;
		if (piece[i].extra != extra || form < 0 || !has(&piece[i], form))
			continue;
		size_t width = least_width(&piece[i], form);
		if (width + gap > *room)
			return 0;
		chosen[i] = (struct chosen){form, width};
		*room -= width + gap;
		*any = 1;
	}
	return 1;
}

/* 1: all stand in their longest forms now. */
static int lengthen_all(const struct piece *piece, size_t count, struct chosen *chosen,
			size_t *room)
{
	int all = 1;
	for (int words = 1; words >= 0; words--)
		for (size_t i = 0; i < count; i++) {
			if (chosen[i].form < 0 || piece[i].words != words)
				continue;
			lengthen(&piece[i], &chosen[i], room);
			all &= chosen[i].width == text_width(piece[i].form[0]);
		}
	return all;
}

void line_fit(const struct piece *piece, size_t count, size_t width, char *out, size_t max)
{
	struct chosen chosen[PIECES_MAX];
	size_t room = width, at = 0;
	int any = 0;
	count = count < PIECES_MAX ? count : PIECES_MAX;
	for (size_t i = 0; i < count; i++)
		chosen[i] = (struct chosen){-1, 0};
	int all = line_choose(piece, count, 0, chosen, &room, &any);
	all &= lengthen_all(piece, count, chosen, &room);
	if (all)
		line_choose(piece, count, 1, chosen, &room, &any);
	lengthen_all(piece, count, chosen, &room);
	out[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		char text[1024];
		if (chosen[i].form < 0)
			continue;
		if (text_words(piece[i].form[chosen[i].form], chosen[i].width, text, sizeof text) ==
		    0)
			continue;
		size_t gap = at ? LINE_GAP : 0, n = strlen(text);
		if (at + gap + n >= max)
			break;
		memset(out + at, ' ', gap);
		memcpy(out + at + gap, text, n + 1);
		at += gap + n;
	}
}

/* text: see text.h. */
#include "screen/text.h"

#include <langinfo.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* The letter that text begins with: its bytes (1 or more; 0 at the end) and columns. width -1: it
 * is none that can be printed. */
static size_t letter(const char *text, int *width)
{
	wchar_t wide;
	mbstate_t state = {0};
	*width = -1;
	if (!text[0])
		return 0;
	size_t n = mbrtowc(&wide, text, strlen(text), &state);
	if (n == (size_t)-1 || n == (size_t)-2 || n == 0)
		return 1;
	*width = wcwidth(wide);
	return n;
}

size_t text_width(const char *text)
{
	size_t columns = 0, n;
	for (int width; (n = letter(text, &width)) > 0; text += n)
		columns += width < 0 ? 1 : (size_t)width;
	return columns;
}

int text_has_blocks(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int continues_letter(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

void text_clean(const char *text, char *out, size_t max)
{
	size_t at = 0, n;
	for (int width; (n = letter(text, &width)) > 0 && at + n < max; text += n) {
		if (width >= 0) {
			memcpy(out + at, text, n);
			at += n;
			continue;
		}
		out[at++] = '?';
		while (((unsigned char)text[0] & 0xc0) == 0xc0 && continues_letter(text[n]))
			n++; /* a letter that this locale lacks is one ? */
	}
	out[at] = '\0';
}

/* Bytes of the front of text that take at most width columns. */
static size_t front(const char *text, size_t width)
{
	size_t columns = 0, at = 0, n;
	for (int w; (n = letter(text + at, &w)) > 0; at += n) {
		columns += w < 0 ? 1 : (size_t)w;
		if (columns > width)
			break;
	}
	return at;
}

/* Bytes of whole words from the front that take at most width columns. */
static size_t whole_words(const char *text, size_t width)
{
	size_t n = front(text, width);
	if (text[n] && text[n] != ' ')
		while (n > 0 && text[n - 1] != ' ')
			n--;
	while (n > 0 && text[n - 1] == ' ')
		n--;
	return n;
}

static void text_copy(char *out, size_t max, const char *text, size_t n)
{
	n = n < max ? n : max - 1;
	memcpy(out, text, n);
	out[n] = '\0';
}

size_t text_words(const char *text, size_t width, char *out, size_t max)
{
	static const char dots[] = "...";
	const size_t wide = sizeof dots - 1;
	size_t n = strlen(text);
	out[0] = '\0';
	if (max <= sizeof dots)
		return 0;
	if (n < max && text_width(text) <= width) {
		memcpy(out, text, n + 1);
		return text_width(out);
	}
	n = width > wide ? whole_words(text, width - wide) : 0;
	while (n + sizeof dots > max && n > 0)
		n = whole_words(text, front(text, n - 1));
	while (n > 0 && strchr(",;:", text[n - 1]))
		n--;
	if (n == 0)
		return 0;
	text_copy(out, max, text, n);
	memcpy(out + n, dots, sizeof dots);
	return text_width(out);
}

size_t text_fold(const char *text, size_t width, const char **next)
{
	int one;
	size_t n = whole_words(text, width);
	if (n == 0)
		n = front(text, width);
	if (n == 0)
		n = letter(text, &one);
	*next = text + n;
	while (**next == ' ')
		++*next;
	return n;
}

void text_name(const char *text, size_t width, char *out, size_t max)
{
	size_t all = text_width(text);
	if (all <= width) {
		text_copy(out, max, text, strlen(text));
		return;
	}
	size_t kept = width > 2 ? width - 2 : 0, before = (kept + 1) / 2, after = kept - before;
	size_t n = front(text, before), from = strlen(text);
	while (from > 0 && text_width(text + from - 1) <= after)
		from--;
	while (continues_letter(text[from]) && text_has_blocks())
		from++;
	if (kept == 0)
		text_copy(out, max, "..", width < 2 ? width : 2);
	else
		snprintf(out, max, "%.*s..%s", (int)n, text, text + from);
}

void text_bar(double part, size_t width, int blocks, char *out, size_t max)
{
	static const char *const eighth[] = {"",       "\u258f", "\u258e", "\u258d",
					     "\u258c", "\u258b", "\u258a", "\u2589"};
	part = part > 0 ? part < 1 ? part : 1 : 0; /* and 0 for NAN */
	size_t steps = (size_t)(part * (double)width * 8 + 1e-9), at = 0;
	out[0] = '\0';
	for (size_t i = 0; i < width && at + 4 < max; i++) {
		const char *cell = ".";
		if (i < steps / 8)
			cell = blocks ? "\u2588" : "#";
		else if (blocks)
			cell = i == steps / 8 && steps % 8 ? eighth[steps % 8] : "\u2591";
		at += (size_t)snprintf(out + at, max - at, "%s", cell);
	}
}

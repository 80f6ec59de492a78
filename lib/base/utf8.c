/* utf8: see utf8.h. */
#include "base/utf8.h"

size_t utf8_length(const char *text)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *s = (const unsigned char *)text;
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 && s[0] < 0xf8 ? 4
				 : s[0] >= 0xe0 && s[0] < 0xf0   ? 3
				 : s[0] >= 0xc0 && s[0] < 0xe0   ? 2
								 : 0;
	unsigned code = n > 1 ? s[0] & (0xffu >> (n + 1)) : 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3fu);
	}
	if (n > 1 && (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)))
		return 0;
	return n;
}

int utf8_is(const char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		/* A character that the text ends in is none, whatever stands behind it. */
		size_t n = (unsigned char)text[i] < 0x80 ? 1 : utf8_length(text + i);
		if (n == 0 || n > len - i)
			return 0;
		i += n;
	}
	return 1;
}

void utf8_plain(char *text)
{
	while (*text) {
		size_t n = utf8_length(text);
		const unsigned char *c = (const unsigned char *)text;
		/* in two bytes: U+0080 to U+009F */
		int is_control = c[0] < ' ' || c[0] == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0);
		if (n > 0 && !is_control) {
			text += n;
			continue;
		}
		do
			*text++ = '?';
		while (n > 1 && --n > 0);
	}
}

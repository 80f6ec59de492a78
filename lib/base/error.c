/* error: see error.h. Knows nothing but stdio's formatter and UTF-8; must never allocate or print. */
#include "base/error.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The exit status that fits errno. */
static int error_code_of_errno(int errnum)
{
	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
		return ERROR_NOINPUT;
	case EACCES:
	case EPERM:
	case EROFS:
		return ERROR_NOPERM;
	case EIO:
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EPIPE:
		return ERROR_IO;
	case ECONNREFUSED:
	case ECONNRESET:
	case ENOTCONN:
		return ERROR_UNAVAILABLE;
	case EAGAIN:
	case ETIMEDOUT:
		return ERROR_TEMPFAIL;
	default:
		return ERROR_OS;
	}
}

/* Errors that may pass: of a disk that fails or is full, of a machine that is short of something.
 * They do not become 73, after which nobody tries again. */
static int may_pass(int errnum)
{
	static const int some[] = {EIO, ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM};
	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		if (some[i] == errnum)
			return 1;
	return 0;
}

void error_plain(char *text)
{
	for (size_t n; *text; text += n) {
		const unsigned char *c = (const unsigned char *)text;
		n = utf8_length(text);
		/* U+0080 to U+009F begin escape sequences, too, as two bytes of UTF-8 or as one
		 * byte that is no letter. Other bytes that are not UTF-8 may be a name in another
		 * encoding. */
		if (n == 2 && c[0] == 0xc2 && c[1] < 0xa0)
			text[0] = text[1] = '?';
		else if (c[0] < ' ' || c[0] == 0x7f || (n == 0 && c[0] < 0xa0))
			*text = '?';
		n = n > 0 ? n : 1;
	}
}

static void set_place(struct error *e, const char *place)
{
	snprintf(e->place, sizeof e->place, "%s", place ? place : "");
	error_plain(e->place);
}

int error_set(struct error *e, int code, const char *place, const char *fmt, ...)
{
	if (!e)
		return -1;
	e->code = code;
	set_place(e, place);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	error_plain(e->text);
	return -1;
}

int error_errno(struct error *e, int code, const char *place, const char *fmt, ...)
{
	int errnum = errno;
	if (!e)
		return -1;
	e->code = code && (code != ERROR_CANTCREAT || !may_pass(errnum))
			  ? code
			  : error_code_of_errno(errnum);
	set_place(e, place);
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof e->text)
		snprintf(e->text + n, sizeof e->text - (size_t)n, "%s%s", n ? ": " : "",
			 strerror(errnum));
	error_plain(e->text);
	return -1;
}

int error_wrap(struct error *e, const char *outer)
{
	if (!e)
		return -1;
	char inner[ERROR_PLACE_MAX];
	memcpy(inner, e->place, sizeof inner);
	if (inner[0])
		snprintf(e->place, sizeof e->place, "%.200s: %.300s", outer, inner);
	else
		snprintf(e->place, sizeof e->place, "%s", outer);
	error_plain(e->place);
	return -1;
}

int error_is_lack(const struct error *e)
{
	return e->code == ERROR_OS || e->code == ERROR_IO || e->code == ERROR_TEMPFAIL;
}

void error_format(const struct error *e, char *out, size_t out_max)
{
	if (e->place[0])
		snprintf(out, out_max, "%s: %s", e->place, e->text);
	else
		snprintf(out, out_max, "%s", e->text);
}

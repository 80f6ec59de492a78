/*
 * drag: see drag.h.  A wrong or half-written file must never stop a job: it is reported, not obeyed.
 */
#include "work/drag.h"

#include "wire/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define DRAG_BYTES_MAX 512

static int parse(const char *text, size_t len, struct drag *d, struct error *err)
{
	struct record r;
	const char *newline = memchr(text, '\n', len);
	if (record_parse(&r, text, newline ? (size_t)(newline - text) : len, err) != 0)
		return -1;
	if (!record_is(&r, "drag"))
		return error_set(err, ERROR_DATA, "", "a \"%.64s\" record where \"drag\" belongs",
				 r.type);
	if (record_real_opt(&r, "delay", 0, 86400, &d->delay, err) != 0 ||
	    record_real_opt(&r, "pace", 0, 1e15, &d->pace, err) != 0)
		return -1;
	return 0;
}

int drag_read(const char *path, struct drag *d, struct error *err)
{
	char text[DRAG_BYTES_MAX];
	*d = (struct drag){0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, ERROR_DATA, path, "open");
	ssize_t len = read(fd, text, sizeof(text));
	close(fd);
	if (len < 0)
		return error_errno(err, ERROR_DATA, path, "read");
	if (len == 0) /* between truncation and writing */
		return 0;
	struct drag got = {0};
	if (parse(text, (size_t)len, &got, err) < 0)
		return error_wrap(err, path);
	*d = got;
	return 0;
}

double drag_pause(const struct drag *d, double size, double elapsed)
{
	double least = d->pace > 0 ? size / d->pace : 0;
	return (least > elapsed ? least - elapsed : 0) + d->delay;
}

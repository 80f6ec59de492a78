/*
 * drag: see drag.h.  Looking costs an open, a read and a close; parsing only a change.
 */
#include "record/drag.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_type(const struct record *r, struct drag *d, struct error *err)
{
	const char *type;
	if (!record_get(r, "type"))
		return 0;
	if (record_id(r, "type", &type, err) != 0)
		return -1;
	if ((size_t)snprintf(d->type, sizeof d->type, "%s", type) >= sizeof d->type)
		return error_set(err, ERROR_DATA, "", "type=%.80s is too long", type);
	return 0;
}

int drag_fields(const struct record *r, struct drag *d, struct error *err)
{
	*d = (struct drag){0};
	if (record_get(r, "pace"))
		return error_set(err, ERROR_DATA, "", "pace= is called speed= now");
	if (record_real_opt(r, "delay", 0, DRAG_SECONDS_MAX, &d->delay, err) != 0 ||
	    record_real_opt(r, "speed", 0, DRAG_SPEED_MAX, &d->speed, err) != 0 ||
	    record_real_opt(r, "launch", 0, DRAG_SECONDS_MAX, &d->launch, err) != 0 ||
	    record_u64_opt(r, "saturation", 0, DRAG_SAMPLES_MAX, &d->saturation, err) != 0 ||
	    record_u64_opt(r, "memory", 0, DRAG_SAMPLES_MAX, &d->memory, err) != 0 ||
	    record_real_opt(r, "cores", 0, DRAG_CORES_MAX, &d->cores, err) != 0 ||
	    read_type(r, d, err) != 0)
		return -1;
	if (d->speed <= 0 && (d->launch > 0 || d->saturation > 0))
		return error_set(err, ERROR_DATA, "",
				 "%s= without speed=", d->launch > 0 ? "launch" : "saturation");
	return 0;
}

int drag_parse(const char *text, size_t len, struct drag *d, struct error *err)
{
	struct record r;
	struct drag got;
	*d = (struct drag){0};
	if (record_first(&r, text, len, err) != 0)
		return -1;
	if (!record_is(&r, "drag"))
		return error_set(err, ERROR_DATA, "", "a \"%.64s\" record where \"drag\" belongs",
				 r.type);
	if (drag_fields(&r, &got, err) != 0)
		return -1;
	*d = got;
	return 0;
}

void drag_add(struct record_out *o, const struct drag *d)
{
	if (d->delay > 0)
		record_add_brief(o, "delay", d->delay);
	if (d->speed > 0)
		record_add_brief(o, "speed", d->speed);
	if (d->launch > 0)
		record_add_brief(o, "launch", d->launch);
	if (d->saturation > 0)
		record_add_u64(o, "saturation", d->saturation);
	if (d->memory > 0)
		record_add_u64(o, "memory", d->memory);
	if (d->type[0])
		record_add(o, "type", d->type);
	if (d->cores > 0)
		record_add_brief(o, "cores", d->cores);
}

/* Bytes of the file; 0 if it does not exist, or is read between truncation and writing. */
static ssize_t drag_read_text(const char *path, char *text, struct error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, ERROR_DATA, path, "open");
	ssize_t len = read(fd, text, DRAG_BYTES_MAX);
	if (len < 0)
		error_errno(err, ERROR_DATA, path, "read");
	else if (len == DRAG_BYTES_MAX)
		len = error_set(err, ERROR_DATA, path, "more than %d bytes", DRAG_BYTES_MAX - 1);
	close(fd);
	return len;
}

static void drag_tell_once(struct drag_file *f, const struct error *err)
{
	if (!f->told)
		log_say(LOG_LEVEL_WARNING, "%s: %s: no drag", err->place, err->text);
	f->told = 1;
}

const struct drag *drag_look(struct drag_file *f)
{
	char text[DRAG_BYTES_MAX];
	struct error err;
	ssize_t len = f->path ? drag_read_text(f->path, text, &err) : 0;
	if (len > 0 && (size_t)len == f->len && memcmp(text, f->text, f->len) == 0)
		return &f->drag;
	f->drag = (struct drag){0};
	f->len = len > 0 ? (size_t)len : 0;
	memcpy(f->text, text, f->len);
	if (len < 0)
		drag_tell_once(f, &err);
	else if (len > 0 && drag_parse(text, f->len, &f->drag, &err) != 0) {
		error_wrap(&err, f->path);
		drag_tell_once(f, &err);
	} else {
		f->told = 0;
	}
	return &f->drag;
}

double drag_seconds(const struct drag *d, uint64_t samples, uint64_t size)
{
	if (d->speed <= 0 || samples == 0 || size == 0)
		return 0;
	uint64_t whole = samples / size, left = samples % size;
	double floor = (double)d->saturation;
	double all = (double)size > floor ? (double)size : floor;
	double last = (double)left > floor ? (double)left : floor;
	double seconds = (double)whole * (d->launch + all / d->speed);
	return left ? seconds + d->launch + last / d->speed : seconds;
}

double drag_pause(const struct drag *d, uint64_t samples, uint64_t size, double elapsed)
{
	double least = drag_seconds(d, samples, size);
	return (least > elapsed ? least - elapsed : 0) + d->delay;
}

int drag_fits(const struct drag *d, uint64_t samples, struct error *err)
{
	if (d->memory == 0 || samples <= d->memory)
		return 0;
	return error_set(err, ERROR_OS, "", "out of memory: a step of %llu samples, room for %llu",
			 (unsigned long long)samples, (unsigned long long)d->memory);
}

/*
 * error: what went wrong, where, and which exit status it deserves.
 *
 * Every fallible function in lib/ returns 0 or -1 and fills a struct error that
 * the caller owns.  Nothing here is allocated, so an error can be reported when
 * memory is gone.  The codes are sysexits(3) numbers: a program may exit with
 * err.code.
 */
#ifndef PACELINE_BASE_ERROR_H
#define PACELINE_BASE_ERROR_H

#include <stddef.h>

enum error_code {
	ERROR_NONE = 0,
	ERROR_NEGATIVE = 1,     /* a negative answer: nothing left, damage found */
	ERROR_USAGE = 64,
	ERROR_DATA = 65,        /* bad data */
	ERROR_NOINPUT = 66,     /* input missing */
	ERROR_UNAVAILABLE = 69, /* a service is not there */
	ERROR_SOFTWARE = 70,    /* a bug of ours */
	ERROR_OS = 71,
	ERROR_CANTCREAT = 73,   /* output can't be made */
	ERROR_IO = 74,
	ERROR_TEMPFAIL = 75,    /* try again */
	ERROR_NOPERM = 77,
	ERROR_CONFIG = 78
};

#define ERROR_PLACE_MAX 512
#define ERROR_TEXT_MAX 512

struct error {
	int code;                    /* enum error_code */
	char place[ERROR_PLACE_MAX]; /* file, file:line, option, socket; may be empty */
	char text[ERROR_TEXT_MAX];   /* why, with the offending value */
};

/* Control characters, also those of C1, become '?', because values in a message come from outside,
 * and messages go to terminals, a line each. This is done to all texts and places of errors, and to
 * texts of log_say(). */
void error_plain(char *text);

/* Fills e (which may be NULL) and returns -1, so that callers write `return error_set(...)`. */
int error_set(struct error *e, int code, const char *place, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The same for a failed system call: appends strerror(errno) to the text. If code is 0, it takes
 * the code that fits errno (ENOENT 66, EACCES 77, ENOSPC and EIO 74, ...). It also does so in place
 * of ERROR_CANTCREAT if the disk fails or is full, or the machine lacks a resource for now. */
int error_errno(struct error *e, int code, const char *place, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Puts "outer: " before the place of an error on its way up; returns -1. */
int error_wrap(struct error *e, const char *outer);

/* Whether the machine lacked something, so that what could not be read may be there. */
int error_is_lack(const struct error *e);

/* "place: text" into out, always terminated. */
void error_format(const struct error *e, char *out, size_t out_max);

#endif

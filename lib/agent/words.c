/* words: see words.h. */
#include "agent/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

void words_start(struct words *w, int to, int from)
{
	memset(w, 0, sizeof *w);
	w->to = to;
	w->from = from;
	framer_lend(&w->framer, w->buffer, sizeof w->buffer);
}

void words_end(struct words *w)
{
	w->framer.data = NULL;
	framer_clear(&w->framer);
}

void words_memory_path(char *out, size_t max, int fd)
{
	snprintf(out, max, "/proc/%ld/fd/%d", (long)getpid(), fd);
}

void words_place(const struct words *w, char *out, size_t max)
{
	snprintf(out, max, "PACELINE_OUT:%llu", (unsigned long long)w->line);
}

/* What is wrong with the line read last. */
static int trainer_words_bad(const struct words *w, const char *what, struct error *err)
{
	char place[64];
	words_place(w, place, sizeof place);
	return error_set(err, ERROR_DATA, place, "%s", what);
}

/* 1: something came. 0: nothing is there now. -1: nothing will come any more. */
static int trainer_words_fill(struct words *w)
{
	struct iovec piece[2];
	size_t pieces = framer_pieces(&w->framer, NULL, 0, piece);
	ssize_t n;
	do
		n = readv(w->from, piece, (int)pieces);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		framer_came(&w->framer, (size_t)n);
	return n > 0 ? 1 : n < 0 && errno == EAGAIN ? 0 : -1;
}

static int trainer_words_parse(struct words *w, struct record *r, const char *line, size_t len,
			       struct error *err)
{
	char what[ERROR_TEXT_MAX + 100];
	struct error why = {0};
	if (record_parse(r, line, len, &why) == 0)
		return WORDS_ONE;
	snprintf(what, sizeof what, "'%.*s' is no record: %s", len > 60 ? 60 : (int)len, line,
		 why.text);
	return trainer_words_bad(w, what, err);
}

/* The input has ended: the rest is an incomplete line. */
static int trainer_words_end(struct words *w, struct error *err)
{
	char what[200];
	size_t left = framer_left(&w->framer);
	const char *data = w->framer.data + w->framer.begin;
	w->closed = 1;
	if (left == 0)
		return WORDS_END;
	w->line++;
	snprintf(what, sizeof what, "'%.*s' ends without a newline: the line is not complete",
		 left > 60 ? 60 : (int)left, data);
	return trainer_words_bad(w, what, err);
}

int words_read(struct words *w, struct record *r, struct error *err)
{
	for (;;) {
		const char *line;
		size_t len;
		enum framer_found found = framer_line(&w->framer, RECORD_LINE_MAX, &line, &len);
		if (found == FRAMER_LINE) {
			w->line++;
			return trainer_words_parse(w, r, line, len, err);
		}
		if (found == FRAMER_LONG) {
			w->line++;
			return trainer_words_bad(w, "a line of more than 4096 bytes", err);
		}
		if (w->closed)
			return WORDS_END;
		int got = trainer_words_fill(w);
		if (got < 0)
			return trainer_words_end(w, err);
		if (got == 0)
			return WORDS_NONE;
	}
}

int words_waiting(const struct words *w)
{
	return framer_has_line(&w->framer);
}

int words_have_room(const struct words *w)
{
	return w->answer_len <= RECORD_LINE_MAX;
}

void words_put(struct words *w, struct record_out *o, const char *text)
{
	size_t len = record_end(o, text);
	if (len > sizeof w->answer - w->answer_len)
		return; /* no answer is so long */
	memcpy(w->answer + w->answer_len, o->data, len);
	w->answer_len += len;
}

int words_send(struct words *w)
{
	size_t sent = 0;
	while (sent < w->answer_len) {
		ssize_t n = write(w->to, w->answer + sent, w->answer_len - sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) { /* nobody reads, so its words no longer matter, either */
			w->answer_len = sent = 0;
			w->closed = 1;
			break;
		}
		sent += (size_t)n;
	}
	memmove(w->answer, w->answer + sent, w->answer_len - sent);
	w->answer_len -= sent;
	return w->answer_len == 0;
}

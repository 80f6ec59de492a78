/*
 * What shardd promises, for crash-states: a request that was answered is in the journal, and none
 * is there by half; a file that was saved is there, whole.
 *
 *     ARGUMENTS: REQUESTS REFERENCE [ANSWERED]
 *
 * REQUESTS has a request a line; REFERENCE/N is
 * what `save` says after the first N of them, in a process that nobody disturbed.  Requests of one
 * burst may be in the journal before they are answered.  Those with boot= may be missing, if the
 * journal says that they may.
 */
#include "crash-states.h"

#include "base/fs.h"
#include "record/sealed.h"
#include "shard/journal.h"
#include "shard/queue.h"
#include "shard/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define REQUESTS_MAX 100000

static uint64_t reference[REQUESTS_MAX + 1]; /* hashes of states */
static size_t firm[REQUESTS_MAX + 1];      /* so many are on the disk when so many were answered */
static uint8_t is_loose[REQUESTS_MAX + 1]; /* request N has boot= */
static uint8_t saves[REQUESTS_MAX + 1];    /* request N saves the file */
static size_t requests, answered;
static int at_line_begin = 1;

/* Without times, sums, which depend on them, and the boot. */
static size_t timeless(const char *line, size_t len, char *out)
{
	static const char *const keys[] = {" at=", " first-at=", " last-at=", " sum=", " loose="};
	size_t n = 0;
	for (size_t i = 0; i < len;) {
		size_t skip = 0;
		for (size_t k = 0; k < 5 && line[i] == ' '; k++)
			if (len - i >= strlen(keys[k]) &&
			    memcmp(line + i, keys[k], strlen(keys[k])) == 0)
				skip = strlen(keys[k]);
		if (skip == 0) {
			out[n++] = line[i++];
			continue;
		}
		for (i += skip; i < len && line[i] != ' '; i++)
			;
	}
	return n;
}

static void hash_line(void *hash, const char *line, size_t len)
{
	char out[SEALED_MAX];
	uint64_t *h = hash;
	*h = XXH3_64bits_withSeed(out, timeless(line, len < SEALED_MAX ? len : SEALED_MAX, out),
				  *h);
}

static uint64_t hash_text(const char *text)
{
	uint64_t hash = 0;
	for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1)
		hash_line(&hash, text, (size_t)(end - text));
	return *text ? 0 : hash;
}

static void shardd_begin(int argc, char **argv)
{
	char *text, *data, path[4096];
	struct error err;
	size_t n = 0;
	if (argc < 2)
		crash_die("shardd", "needs requests and references");
	if (fs_read_file(argv[0], SIZE_MAX / 2, &text, NULL, &err) != 0)
		crash_die(err.place, err.text);
	for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		*end = '\0';
		if (n == REQUESTS_MAX)
			crash_die("shardd", "too many requests");
		n++;
		is_loose[n] = strstr(line, " boot=") != NULL;
		saves[n] = strncmp(line, "save ", 5) == 0;
	}
	requests = n;
	answered = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	for (n = 0; n <= requests; n++) {
		snprintf(path, sizeof path, "%s/%zu", argv[1], n);
		if (fs_read_file(path, SIZE_MAX / 2, &data, NULL, &err) != 0)
			crash_die(err.place, err.text);
		reference[n] = hash_text(data);
		free(data);
		if (n > 0) /* who changes nothing does not wait for the disk */
			firm[n] = is_loose[n] || reference[n] == reference[n - 1] ? firm[n - 1] : n;
	}
	free(text);
}

static void shardd_say(const char *program, const char *data, size_t len)
{
	if (strcmp(program, "shardd") != 0)
		return;
	for (size_t i = 0; i < len; i++) {
		if (at_line_begin &&
		    (strncmp(data + i, "ok", 2) == 0 || strncmp(data + i, "err", 3) == 0))
			answered++;
		at_line_begin = data[i] == '\n';
	}
}

static uint64_t shardd_said(void)
{
	return answered;
}

static int loader_line(void *arg, const char *line, size_t len, struct error *err)
{
	struct queue_loader *l = arg;
	int taken = queue_loader_line(l, line, len, err);
	/* The machine has another boot now. */
	return taken >= 0 && queue_loader_loose(l)[0] ? taken | SCAN_LOOSE : taken;
}

/* What lib/shard/service.c makes of the journal when it starts. */
static int restart(const char *dir, uint64_t *hash, int *knows, struct error *err)
{
	struct queue *q = NULL;
	struct queue_loader *l = queue_loader_new(NULL);
	if (journal_read(dir, loader_line, l, err) != 0) {
		queue_loader_free(l);
		return -1;
	}
	if (queue_loader_finish(l, &q, err) != 0)
		return -1;
	*hash = 0;
	*knows = queue_loose(q)[0] != 0;
	queue_write(q, hash_line, hash);
	queue_free(q);
	return 0;
}

static const char *check_saved(const char *path)
{
	char *text;
	struct error err;
	size_t last = answered;
	while (last > 0 && !saves[last])
		last--;
	if (fs_read_file(path, SIZE_MAX / 2, &text, NULL, &err) != 0)
		return last > 0 ? "a saved file is gone" : NULL;
	uint64_t hash = hash_text(text);
	free(text);
	for (size_t i = last; i <= requests; i++)
		if (saves[i] && reference[i] == hash)
			return NULL;
	return "a saved file is no state, or an old one";
}

static const char *shardd_check(const char *dir)
{
	static char text[1200], path[4096];
	struct error err;
	uint64_t hash;
	int knows = 0;
	snprintf(path, sizeof path, "%s/saved", dir);
	const char *wrong = check_saved(path);
	if (wrong)
		return wrong;
	snprintf(path, sizeof path, "%s/journal", dir);
	if (restart(path, &hash, &knows, &err) != 0) {
		if (answered == 0 && err.code == ERROR_NOINPUT)
			return NULL;
		snprintf(text, sizeof text, "%s: %s", err.place, err.text);
		return text;
	}
	for (size_t i = answered; i <= requests; i++)
		if (reference[i] == hash)
			return NULL;
	/* It knows that something may be missing. */
	for (size_t i = firm[answered]; i < answered && knows; i++)
		if (reference[i] == hash)
			return NULL;
	snprintf(text, sizeof text,
		 "%zu requests were answered, and the state is none of those after them", answered);
	return text;
}

const struct promise promise_shardd = {"shardd", shardd_begin, shardd_say, shardd_said,
				       shardd_check};

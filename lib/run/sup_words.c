/*
 * sup_words: what nodes print: their logs, kept from growing without end, and their last words.
 */
#include "run/sup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_BYTES_MAX (8u << 20) /* at a launch; then the log becomes ID.log.1 */
#define LOG_BYTES_RUNNING (64u << 20)
#define WORDS_MAX 4096 /* of a node's last words */

void sup_node_log_path(const struct sup_node *n, char *out)
{
	char name[128];
	snprintf(name, sizeof name, "logs/%s.log", n->id);
	place_state(&n->sup->place, name, out);
}

/* Before a launch, when nobody writes to it. */
void sup_log_rotate(const struct sup_node *n)
{
	char path[PLACE_MAX], older[PLACE_MAX + 2];
	struct stat st;
	sup_node_log_path(n, path);
	if (stat(path, &st) != 0 || st.st_size < (off_t)LOG_BYTES_MAX)
		return;
	snprintf(older, sizeof older, "%s.1", path);
	rename(path, older);
}

/* While a node runs its log can't be renamed (it holds the file): copied, then cut to nothing. The
 * node appends, so it goes on at the new end; lines written in between are lost. */
void sup_logs_rotate(struct supervisor *s)
{
	for (size_t i = 0; i < s->node_count; i++) {
		char path[PLACE_MAX], older[PLACE_MAX + 2];
		struct stat st;
		sup_node_log_path(&s->node[i], path);
		if (stat(path, &st) != 0 || st.st_size < (off_t)LOG_BYTES_RUNNING)
			continue;
		snprintf(older, sizeof older, "%s.1", path);
		int in = open(path, O_RDWR | O_CLOEXEC);
		int out = open(older, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (in >= 0 && out >= 0) {
			while (copy_file_range(in, NULL, out, NULL, LOG_BYTES_RUNNING, 0) > 0)
				;
			if (ftruncate(in, 0) != 0)
				log_say(LOG_LEVEL_WARNING, "%s: %s", path, strerror(errno));
		}
		if (in >= 0)
			close(in);
		if (out >= 0)
			close(out);
	}
}

/* The last lines that a node wrote, to people: each as a line of its own. */
void sup_last_words(const struct sup_node *n)
{
	char path[PLACE_MAX], words[WORDS_MAX + 1];
	sup_node_log_path(n, path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	off_t size = lseek(fd, 0, SEEK_END);
	off_t from = size > WORDS_MAX ? size - WORDS_MAX : 0;
	ssize_t got = pread(fd, words, WORDS_MAX, from);
	close(fd);
	if (got <= 0) {
		log_say(LOG_LEVEL_ERROR, "%s said nothing; its log is %s", n->id, path);
		return;
	}
	words[got] = '\0';
	char *start = words + got;
	int lines = 0;
	for (; start > words; start--)
		if (start[-1] == '\n' && start < words + got && ++lines == 10)
			break;
	log_say(LOG_LEVEL_ERROR, "last words of %s:", n->id);
	for (char *save = NULL, *line = strtok_r(start, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		log_say(LOG_LEVEL_ERROR, "  %s", line);
	log_say(LOG_LEVEL_ERROR, "whole log of %s: %s", n->id, path);
}

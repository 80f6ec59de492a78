/* fabric_log: see fabric_log.h. cmd/fabricd.c and lib/fabric/world.c write the phrases. */
#include "run/sup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_MAX 16384
#define WAITS ": the MPI world has not begun"
#define SILENT ": nothing has come from its fabricd"

void sup_fabric_log_begin(struct sup_node *fabric)
{
	char path[DIRS_PATH_MAX];
	struct stat st;
	sup_node_log_path(fabric, path);
	fabric->sup->hosts.log_from = stat(path, &st) == 0 ? st.st_size : 0;
}

/* Reads the beginning of what this world has written: at its end mpirun(1) adds much. */
static void fabric_log_read_log(const struct sup_node *fabric, char *text, size_t max)
{
	char path[DIRS_PATH_MAX];
	struct stat st;
	ssize_t got = 0;
	sup_node_log_path(fabric, path);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	off_t from = fabric->sup->hosts.log_from;
	if (fd >= 0 && fstat(fd, &st) == 0)
		/* A file that is shorter is a new one. */
		got = pread(fd, text, max - 1, from <= st.st_size ? from : 0);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
}

static int says(const char *text, const char *host, const char *phrase)
{
	char words[OPTION_ID_MAX + 96];
	snprintf(words, sizeof words, "fabricd: %s%s", host, phrase);
	return strstr(text, words) != NULL;
}

void sup_fabric_log_ended(struct sup_node *fabric)
{
	struct supervisor *s = fabric->sup;
	char text[READ_MAX];
	fabric_log_read_log(fabric, text, sizeof text);
	int begins = strstr(text, WAITS) != NULL;
	EACH_HOST (h, s, 0) {
		if (!h->in_world)
			continue;
		if (says(text, h->name, SILENT))
			sup_note(s, "warning", "fabricd on %s stood still: nothing came from it",
				 h->place->host);
		else if (begins && !says(text, h->name, WAITS))
			sup_note(s, "warning",
				 "fabricd on %s did not come up: all others waited for it",
				 h->place->host);
	}
}

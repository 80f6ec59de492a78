/* launcher: see launcher.h. */
#include "proc/launcher.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- templates ---- */

static void put_id(const struct node_name *name, FILE *out)
{
	fputs(name->id, out);
}

static void put_number(const struct node_name *name, FILE *out)
{
	fprintf(out, "%llu", (unsigned long long)name->number);
}

static void put_host(const struct node_name *name, FILE *out)
{
	fputs(name->place->host, out);
}

static void put_cores(const struct node_name *name, FILE *out)
{
	fprintf(out, "%llu", (unsigned long long)name->place->cores);
}

static void put_memory(const struct node_name *name, FILE *out)
{
	fprintf(out, "%llu", (unsigned long long)name->place->memory_mib);
}

static void put_percent(const struct node_name *name, FILE *out)
{
	(void)name;
	fputc('%', out);
}

static const struct {
	const char *word; /* behind a percent sign */
	void (*put)(const struct node_name *name, FILE *out);
} words[] = {{"cores", put_cores}, {"mem", put_memory}, {"h", put_host},
	     {"i", put_id},        {"n", put_number},   {"%", put_percent}};

/* Where t goes on behind the word that stands there; NULL: none does. */
static const char *put_word(const char *t, const struct node_name *name, FILE *out)
{
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		size_t len = strlen(words[i].word);
		if (strncmp(t, words[i].word, len) != 0)
			continue;
		words[i].put(name, out);
		return t + len;
	}
	return NULL;
}

static int put_template(const char *template, const struct node_name *name, FILE *out,
			struct error *err)
{
	for (const char *t = template; *t;) {
		const char *next = *t == '%' ? put_word(t + 1, name, out) : t + 1;
		if (!next)
			return error_set(err, ERROR_CONFIG, NULL,
					 "'%.2s' in column %zu stands for nothing: %%i, %%n, %%h, "
					 "%%cores, %%mem, or %%%% for a percent sign",
					 t, (size_t)(t - template) + 1);
		if (*t != '%')
			fputc(*t, out);
		t = next;
	}
	return 0;
}

int launcher_words(const char *template, const struct node_name *name, char **out,
		   struct error *err)
{
	size_t len = 0;
	*out = NULL;
	FILE *text = open_memstream(out, &len);
	if (!text)
		return error_set(err, ERROR_OS, name->id, "out of memory");
	int result = put_template(template, name, text, err);
	if (fclose(text) != 0 && result == 0)
		result = error_set(err, ERROR_OS, name->id, "out of memory");
	if (result == 0)
		return 0;
	free(*out);
	*out = NULL;
	return -1;
}

int launcher_check(const char *template, struct error *err)
{
	struct node_place nowhere = {0};
	struct node_name anybody = {.id = "", .place = &nowhere};
	char *text;
	if (launcher_words(template, &anybody, &text, err) != 0)
		return -1;
	free(text);
	return 0;
}

/* ---- local: a process of this host, behind the words of a template ---- */

/* A plain command, no list, no assignment: then no shell need stay in front of the node, and its
 * pid is the one that was started. */
static int is_plain(const char *template)
{
	size_t first = strcspn(template, " \t");
	return !strpbrk(template, ";&|(){}<>`$\n") && !memchr(template, '=', first);
}

static int local_start(const char *template, const struct node_name *name, char **line,
		       struct error *err)
{
	char *in_front;
	*line = NULL;
	if (!template || !template[0])
		return 0;
	if (launcher_words(template, name, &in_front, err) != 0)
		return -1;
	int n = asprintf(line, "%s%s \"$@\"", is_plain(template) ? "exec " : "", in_front);
	free(in_front);
	if (n >= 0)
		return 0;
	*line = NULL;
	return error_set(err, ERROR_OS, name->id, "out of memory");
}

/* The node leads a group of its own: a template's shell is hit with the program. */
static int local_stop(pid_t pid, int signal)
{
	return kill(-pid, signal) == 0 ? 0 : kill(pid, signal);
}

/* A shell that stays in front says so of a program that died by such a signal. */
static enum end_class local_class(const struct node_end *end)
{
	struct node_end program = *end;
	if (end->seen && !end->signal && end->status > 128)
		program.signal = end->status - 128;
	return end_class_of(&program);
}

/* ---- the table ---- */

static const struct launcher table[] = {
	{"local", local_start, local_stop, local_class},
};

const struct launcher *launcher_find(const char *name)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

void launcher_here(struct node_place *place)
{
	cpu_set_t usable;
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	*place = (struct node_place){.launcher = launcher_find("local")};
	if (gethostname(place->host, sizeof place->host - 1) != 0)
		snprintf(place->host, sizeof place->host, "localhost");
	place->cores = sched_getaffinity(0, sizeof usable, &usable) == 0
			       ? (uint64_t)CPU_COUNT(&usable)
			       : 1;
	if (pages > 0 && page > 0)
		place->memory_mib = (uint64_t)pages * (uint64_t)page >> 20;
}

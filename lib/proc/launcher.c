/* launcher: see launcher.h. */
#include "proc/launcher.h"

#include "base/argv.h"
#include "base/grow.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SSH_OPENINGS 6 /* sshd drops some connections beyond 10: leave room for ours, a check, and
		        * those of others */

/* ---- templates ---- */

static void put_id(const struct node_name *name, FILE *out)
{
	fputs(name->id, out);
}

static void launcher_put_number(const struct node_name *name, FILE *out)
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
} words[] = {{"cores", put_cores}, {"mem", put_memory},        {"h", put_host},
	     {"i", put_id},        {"n", launcher_put_number}, {"%", put_percent}};

/* The position behind the word at t; NULL: there is no such word. */
static const char *launcher_put_word(const char *t, const struct node_name *name, FILE *out)
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
		const char *next = *t == '%' ? launcher_put_word(t + 1, name, out) : t + 1;
		if (!next)
			return error_set(err, ERROR_CONFIG, NULL,
					 "'%.2s' in column %zu is unknown: use %%i, %%n, %%h, "
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
	FILE *text = grow_stream(out, &len);
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
static int launcher_is_plain(const char *template)
{
	size_t first = strcspn(template, " \t");
	return !strpbrk(template, ";&|(){}<>`$\n") && !memchr(template, '=', first);
}

/* The template's words, read by sh(1), which hands the program's own words on behind them. */
static int local_start(const struct node_start *start, struct argv *front, struct error *err)
{
	char *in_front = NULL;
	if (!start->template || !start->template[0])
		return argv_end(front, err);
	if (launcher_words(start->template, start->name, &in_front, err) != 0) {
		argv_free(front);
		return -1;
	}
	argv_add(front, "/bin/sh", "-c");
	argv_format(front, "%s%s \"$@\"", launcher_is_plain(start->template) ? "exec " : "",
		    in_front);
	argv_add(front, "sh");
	free(in_front);
	return argv_end(front, err);
}

/* The node leads its own process group: a signal reaches the template's shell and the program. */
static int local_stop(pid_t pid, int signal)
{
	return kill(-pid, signal) == 0 ? 0 : kill(pid, signal);
}

/* Exit status of a shell whose program died by such a signal. */
static enum end_class local_class(const struct node_end *end)
{
	struct node_end program = *end;
	if (end->seen && !end->signal && end->status > 128)
		program.signal = end->status - 128;
	return end_class_of(&program);
}

/* ---- on another host: node-host(8) stands for the node ---- */

static void add_each(struct argv *front, const char *option, const char *const *values)
{
	for (; values && *values; values++)
		argv_add(front, option, *values);
}

static int far_start(const struct node_start *start, struct argv *front, struct error *err)
{
	const struct node_place *place = start->name->place;
	argv_add(front, place->node_host, "--by", place->launcher->name, "--id", start->name->id);
	if (place->slurm_job > 0)
		argv_u64(front, "--slurm-job", place->slurm_job);
	if (limits_any(&start->limits)) {
		argv_real(front, "--cores", start->limits.cores);
		argv_u64(front, "--memory", start->limits.memory);
		argv_u64(front, "--first-core", start->limits.first_core);
	}
	if (start->keeps)
		argv_add(front, "--hold");
	add_each(front, "--make", start->make);
	add_each(front, "--lock", start->lock);
	if (place->apart)
		add_each(front, "--bring", start->bring);
	argv_add(front, place->host);
	return local_start(start, front, err);
}

static enum end_class far_class(const struct node_end *end)
{
	if (end->seen && !end->signal && end->status == LOST_STATUS)
		return END_RETRYABLE;
	if (end->seen && !end->signal && end->status == OOM_STATUS)
		return END_OOM;
	return local_class(end);
}

/* A step of the allocation with all cores that are allocated there, like a local process. If
 * overlapping steps asked for some cores, all would get the same ones; so node-host(8) limits
 * them. */
static int slurm_reach(const struct node_reach *to, struct argv *argv, struct error *err)
{
	argv_add(argv, "srun", "--overlap", "--nodes=1", "--ntasks=1", "--overcommit",
		 "--cpu-bind=none", "--mpi=none", "--no-kill", "--quiet", "--nodelist", to->host);
	if (to->memory_mib > 0)
		argv_format(argv, "--mem=%lluM", (unsigned long long)to->memory_mib);
	if (to->slurm_job > 0)
		argv_format(argv, "--jobid=%llu", (unsigned long long)to->slurm_job);
	argv_add(argv, "/bin/sh", "-c", to->line);
	return argv_end(argv, err);
}

/* ssh must not ask at a terminal, nor share a connection: each connection ends with its node. */
static int ssh_reach(const struct node_reach *to, struct argv *argv, struct error *err)
{
	argv_add(argv, "ssh", "-T", "-x", "-S", "none", "-o", "BatchMode=yes", "-o",
		 "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3",
		 "--", to->host, to->line);
	return argv_end(argv, err);
}

/* ---- the table ---- */

static const struct launcher table[] = {
	{.name = "local", .start = local_start, .stop = local_stop, .class_of = local_class},
	{.name = "slurm",
	 .is_far = 1,
	 .start = far_start,
	 .stop = local_stop,
	 .class_of = far_class,
	 .reach = slurm_reach},
	{.name = "ssh",
	 .is_far = 1,
	 .start = far_start,
	 .stop = local_stop,
	 .class_of = far_class,
	 .reach = ssh_reach,
	 .openings = SSH_OPENINGS},
};

int launcher_lost_host(const struct node_place *place, const struct node_end *end)
{
	return place->launcher->is_far && end->seen && !end->signal && end->status == LOST_STATUS;
}

int launcher_host_ok(const char *text)
{
	size_t len = strlen(text);
	return len > 0 && len < HOST_NAME_MAX_BYTES && text[0] != '-' &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@:[]") ==
		       len;
}

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
	uint64_t most = limits_memory(&limits_here) >> 20;
	if (most > 0 && most < place->memory_mib)
		place->memory_mib = most;
}

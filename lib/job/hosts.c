/* hosts: see hosts.h. */
#include "job/hosts.h"

#include "base/most.h"
#include "base/number.h"
#include "job/job.h"
#include "job/kind.h"
#include "proc/child.h"
#include "proc/process.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCONTROL_SECONDS 20

/* ---- PLACE ---- */

/* "HOST:N" at p, which goes on behind it; a host's name may hold colons. -1: it is not one. */
static int next_count(const char **p, char host[HOST_NAME_MAX_BYTES], uint64_t *count)
{
	char word[HOST_NAME_MAX_BYTES + 24];
	size_t len = strcspn(*p, ", \t");
	if (len >= sizeof word)
		return -1;
	memcpy(word, *p, len);
	word[len] = '\0';
	*p += len + strspn(*p + len, ", \t");
	char *colon = strrchr(word, ':');
	if (!colon || colon == word)
		return -1;
	*colon = '\0';
	if (!launcher_host_ok(word) || number_u64(colon + 1, 0, 1024, count, NULL, NULL) != 0)
		return -1;
	memcpy(host, word, strlen(word) + 1);
	return 0;
}

static int is_word(const char *value)
{
	return strcmp(value, "spread") == 0 || strcmp(value, "fill") == 0;
}

int hosts_place_check(const char *value, struct error *err)
{
	char host[HOST_NAME_MAX_BYTES];
	uint64_t count;
	int result = value[0] ? 0 : -1;
	for (const char *p = value; !is_word(value) && result == 0 && *p;)
		result = next_count(&p, host, &count);
	if (result == 0)
		return 0;
	return error_set(err, ERROR_CONFIG, NULL,
			 "'%.80s' is none of spread, fill, and a list like h0:2,h1:4", value);
}

static size_t index_of(const struct hosts *h, const char *host)
{
	size_t i = h->first;
	while (i < h->count && strcmp(h->place[i].host, host) != 0)
		i++;
	return i;
}

/* The same number on each host, in order; the rest one by one on the first hosts. */
static void job_hosts_fill(struct hosts *h, uint64_t workers)
{
	uint64_t trains = h->count - h->first;
	for (size_t i = h->first; i < h->count; i++)
		h->workers[i] = workers / trains + (i - h->first < workers % trains);
}

static int count_workers(struct hosts *h, const struct job *job, struct error *err)
{
	char host[HOST_NAME_MAX_BYTES];
	uint64_t all = 0, count;
	if (strcmp(job->place, "spread") == 0)
		return 0;
	h->workers = calloc(h->count, sizeof *h->workers);
	if (!h->workers)
		return error_set(err, ERROR_OS, "HOSTS", "out of memory");
	if (strcmp(job->place, "fill") == 0) {
		job_hosts_fill(h, job->workers);
		return 0;
	}
	for (const char *p = job->place; *p && next_count(&p, host, &count) == 0; all += count) {
		size_t i = index_of(h, host);
		if (i == h->count)
			return error_set(err, ERROR_CONFIG, "PLACE", "%.80s is none of HOSTS",
					 host);
		h->workers[i] += count;
	}
	if (all == job->workers)
		return 0;
	return error_set(err, ERROR_CONFIG, "PLACE", "has a host for %llu workers, WORKERS is %llu",
			 (unsigned long long)all, (unsigned long long)job->workers);
}

size_t hosts_worker(const struct hosts *h, uint64_t number)
{
	if (!h->workers)
		return hosts_holder(h, number);
	size_t i = h->first;
	while (i + 1 < h->count && number >= h->workers[i])
		number -= h->workers[i++];
	return i;
}

size_t hosts_holder(const struct hosts *h, uint64_t number)
{
	return h->first + (size_t)(number % (h->count - h->first));
}

/* ---- names ---- */

/* Names also match when only one of them has the domain. */
static int job_hosts_is_here(const char *host, const char *here)
{
	size_t n = strcspn(host, "."), m = strcspn(here, ".");
	if (strcmp(host, here) == 0 || strcmp(host, "localhost") == 0)
		return 1;
	return (host[n] == '\0' || here[m] == '\0') && n == m && strncmp(host, here, n) == 0;
}

static void add_host(struct hosts *h, const char *name)
{
	struct node_place *place = &h->place[h->count];
	if (h->first == 1 && job_hosts_is_here(name, h->place[0].host)) {
		h->first = 0;
		place = &h->place[0];
	} else
		*place = (struct node_place){.launcher = h->launcher, .apart = 1};
	h->count += place != &h->place[0];
	snprintf(place->host, sizeof place->host, "%s", name);
}

/* Puts this machine first; the others keep their order. */
static int fill_places(struct hosts *h, char *const *name, size_t count, struct error *err)
{
	h->place = calloc(count + 1, sizeof *h->place);
	if (!h->place)
		return error_set(err, ERROR_OS, "HOSTS", "out of memory");
	launcher_here(&h->place[0]);
	h->count = 1;
	h->first = count > 0;
	for (size_t i = 0; i < count; i++)
		add_host(h, name[i]);
	if (h->count == 1)
		h->launcher = h->place[0].launcher;
	return 0;
}

struct names {
	char *text; /* as scontrol writes them, a line each; NULL: it has failed */
	char why[CHILD_WHY_MAX];
};

static void on_names(const struct child_end *e, void *arg)
{
	struct names *names = arg;
	if (!child_failure(e, names->why))
		names->text = strdup(e->output);
}

static int ask_scontrol(struct names *names, const char *list, const char *search,
			struct error *err)
{
	char program[PATH_MAX];
	if (process_find("scontrol", search, program, sizeof program, err) != 0)
		return error_set(err, ERROR_CONFIG, "HOSTS",
				 "Slurm has allocated %.200s, and scontrol is not on PATH", list);
	char *const argv[] = {program, (char *)(size_t) "show", (char *)(size_t) "hostnames",
			      (char *)(size_t)list, NULL};
	const struct child_options options = {
		.argv = argv, .seconds = SCONTROL_SECONDS, .done = on_names, .arg = names};
	int result = child_run(&options, err);
	if (result != 0 || names->text)
		return result;
	return error_set(err, ERROR_UNAVAILABLE, "scontrol show hostnames", "%s", names->why);
}

/* The hosts of the allocation. */
static int names_of_slurm(struct hosts *h, const struct hosts_environment *env, struct error *err)
{
	struct names names = {0};
	char **name = NULL, *save = NULL;
	size_t count = 0;
	if (ask_scontrol(&names, env->slurm_nodes, env->search_path, err) != 0)
		return -1;
	name = calloc(strlen(names.text) / 2 + 2, sizeof *name);
	for (char *p = name ? strtok_r(names.text, " \t\n", &save) : NULL; p;
	     p = strtok_r(NULL, " \t\n", &save))
		name[count++] = p;
	int result = name ? 0 : error_set(err, ERROR_OS, "HOSTS", "out of memory");
	for (size_t i = 0; result == 0 && i < count; i++)
		if (!launcher_host_ok(name[i]))
			result = error_set(err, ERROR_DATA, "scontrol show hostnames",
					   "'%.80s' is no name of a host", name[i]);
	if (result == 0 && (count == 0 || count > HOSTS_MAX))
		result = error_set(err, ERROR_CONFIG, "HOSTS", "Slurm has allocated %zu hosts, of %d "
				   "at most", count, HOSTS_MAX);
	if (result == 0)
		result = fill_places(h, name, count, err);
	free(name);
	free(names.text);
	return result;
}

/* The request for a sum has all hosts in one line, and so has the lead's list of replicas. */
static int names_fit(const struct hosts *h, const struct job *job, struct error *err)
{
	size_t names = 0, replicas = 0, training = h->count - h->first;
	for (size_t i = 0; i < training; i++) {
		names += strlen(h->place[h->first + i].host) + 1;
		replicas += (size_t)snprintf(NULL, 0, "r%zu,", i);
	}
	if (job_kind(job)->holds != HOLD_REPLICAS ||
	    (names <= MOST_SUM_HOSTS_BYTES && replicas <= MOST_SUM_HOSTS_BYTES))
		return 0;
	return error_set(err, ERROR_CONFIG, "HOSTS",
			 "%zu hosts have names of %zu bytes together, and SYNC=allreduce has room "
			 "for %d: use fewer hosts, shorter names, or servers (SYNC=bsp)",
			 training, names > replicas ? names : replicas, MOST_SUM_HOSTS_BYTES);
}

static int is_given(const char *text)
{
	return text && text[0];
}

/* In an allocation Slurm starts nodes on its hosts; else ssh does. */
static const struct launcher *job_hosts_choose(const struct job *job,
					       const struct hosts_environment *env)
{
	if (job->launcher[0])
		return launcher_find(job->launcher);
	if (is_given(env->slurm_nodes))
		return launcher_find("slurm");
	return launcher_find(job->hosts.count > 0 ? "ssh" : "local");
}

static int job_hosts_find_program(struct hosts *h, const char *search, struct error *err)
{
	char path[PATH_MAX];
	if (process_find("node-host", search, path, sizeof path, err) != 0)
		return -1;
	h->node_host = strdup(path);
	if (!h->node_host)
		return error_set(err, ERROR_OS, "HOSTS", "out of memory");
	for (size_t i = 1; i < h->count; i++)
		h->place[i].node_host = h->node_host;
	return 0;
}

static int job_hosts_find(struct hosts *h, const struct job *job,
			  const struct hosts_environment *env, struct error *err)
{
	h->launcher = job_hosts_choose(job, env);
	int slurm = strcmp(h->launcher->name, "slurm") == 0;
	if (slurm && !is_given(env->slurm_nodes))
		return error_set(err, ERROR_CONFIG, "LAUNCHER",
				 "slurm starts nodes in an allocation, but trainctl runs outside "
				 "of one: start it with sbatch, or in salloc");
	int result;
	if (job->hosts.count > 0)
		result = fill_places(h, job->hosts.item, job->hosts.count, err);
	else if (slurm)
		result = names_of_slurm(h, env, err);
	else
		result = fill_places(h, NULL, 0, err);
	if (result != 0)
		return -1;
	/* Open MPI starts its processes on the hosts of the allocation, and trainctl needs one of
	 * them. */
	if (slurm && h->first == 1)
		return error_set(err, ERROR_CONFIG, h->place[0].host,
				 "this machine is not a host of the job (%.80s is one): start "
				 "trainctl there, with sbatch or srun --pty",
				 h->place[1].host);
	h->slurm_memory = is_given(env->slurm_memory);
	if (job->more_hosts > 0 && !slurm)
		return error_set(err, ERROR_CONFIG, "LAUNCHER more",
				 "asks Slurm for hosts, and this is no allocation of Slurm");
	if ((h->count > 1 || job->more_hosts > 0) &&
	    job_hosts_find_program(h, env->search_path, err) != 0)
		return -1;
	return count_workers(h, job, err);
}

int hosts_find(struct hosts *h, const struct job *job, const struct hosts_environment *env,
	       struct error *err)
{
	*h = (struct hosts){0};
	if (job_hosts_find(h, job, env, err) == 0 && names_fit(h, job, err) == 0)
		return 0;
	hosts_free(h);
	return -1;
}

void hosts_free(struct hosts *h)
{
	free(h->place);
	free(h->workers);
	free(h->node_host);
	*h = (struct hosts){0};
}

/* routes: see routes.h. */
#include "run/sup.h"

#include "base/argv.h"
#include "base/fs.h"
#include "base/grow.h"
#include "base/most.h"
#include "base/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void routes_put(FILE *out, const char *id, const char *ending, const struct sup_host *h)
{
	char socket[OPTION_ID_MAX + 16];
	snprintf(socket, sizeof socket, "%s%s", id, ending);
	record_print(out, RECORD("route", F("socket", socket), F("host", h->name)));
}

/* A worker has a socket if rows move between workers; a spare asks the supervisor for a place. */
static char *routes_make(const struct supervisor *s, size_t *bytes)
{
	char *text = NULL;
	FILE *out = grow_stream(&text, bytes);
	if (!out)
		return NULL;
	EACH_NODE (n, s) {
		if (n->role == &role_worker && job_is_local(s->job))
			routes_put(out, n->id, ".rows.sock", sup_host_of(n));
		else if (n->role->ready == READY_ANSWERS && n->role != &role_fabric)
			routes_put(out, n->id, ".sock", sup_host_of(n));
		if (sup_restart_has_far(n))
			routes_put(out, n->id, ".sock.standby",
				   &s->hosts.host[n->restart.next.at]);
	}
	if (sup_first(s, sup_spares(s)))
		routes_put(out, "trainctl", ".sock", &s->hosts.host[0]);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

int sup_routes_fit(const struct supervisor *s, struct error *err)
{
	size_t bytes = 0;
	char *text = sup_fabric(s) ? routes_make(s, &bytes) : NULL;
	free(text);
	if (bytes <= MOST_ROUTES_BYTES)
		return 0;
	return error_set(err, ERROR_CONFIG, "HOSTS",
			 "the sockets of all nodes need %zu bytes of routes, at most %d are "
			 "possible: use fewer WORKERS or SERVERS, or shorter names of hosts", bytes, MOST_ROUTES_BYTES);
}

/* mpirun knows no users of hosts, so that its name for a host may be shorter than ours. */
static void put_way(FILE *out, const struct node_place *place)
{
	char quoted[WORDS_QUOTED(HOST_NAME_MAX_BYTES)];
	struct argv words = {0};
	const struct node_reach to = {.host = place->host, .slurm_job = place->slurm_job};
	if (place->launcher->reach(&to, &words, NULL) != 0)
		return;
	fprintf(out, "'%s') exec", sup_host_plain(place->host));
	for (size_t i = 0; i < words.count; i++)
		fprintf(out, " %s", words_quote(words.word[i], quoted, sizeof quoted));
	fputs(" \"$*\" ;;\n", out);
	argv_free(&words);
}

static void write_ways(struct supervisor *s)
{
	char path[DIRS_PATH_MAX], *text = NULL;
	size_t bytes = 0;
	struct error err;
	FILE *out = grow_stream(&text, &bytes);
	if (!out)
		return;
	fputs("case $0 in\n", out);
	EACH_HOST (h, s, 0)
		if (h->place->launcher->is_far)
			put_way(out, h->place);
	fputs("esac\necho \"$0 is no host of this job\" >&2\nexit 69\n", out);
	dirs_run(&s->dirs, SUP_ROUTES_REACH, path);
	if (fclose(out) != 0)
		sup_note(s, "warning", "%s: no memory", path);
	else if (fs_replace_for_now(path, text, bytes, &err) != 0)
		sup_note(s, "warning", "%s: %s", err.place, err.text);
	free(text);
}

void sup_routes_begin(struct supervisor *s)
{
	write_ways(s);
	s->routes.held = 0;
	sup_ask_forget(&s->routes.question);
	sup_routes_step(s);
}

static void routes_on_answer(const struct record *r, void *owner)
{
	struct supervisor *s = owner;
	char text[SUP_ANSWER_TEXT];
	s->routes.held = sup_answer_ok(r);
	if (r && !sup_answer_ok(r)) {
		sup_note(s, "warning", "the fabric does not take its routes: %s",
			 sup_answer_text(r, text));
		sup_kick_after(s, 1);
		return;
	}
	sup_kick(s);
}

void sup_routes_step(struct supervisor *s)
{
	struct sup_node *fabric = sup_fabric(s);
	char path[DIRS_PATH_MAX];
	struct error err;
	size_t bytes = 0;
	char *text = fabric ? routes_make(s, &bytes) : NULL;
	if (!text)
		return;
	if (s->routes.text && bytes == s->routes.bytes && memcmp(text, s->routes.text, bytes) == 0)
		free(text);
	else {
		dirs_run(&s->dirs, "routes", path);
		if (fs_replace_for_now(path, text, bytes, &err) != 0) {
			sup_note(s, "warning", "%s: %s", err.place, err.text);
			sup_kick_after(s, 1);
			free(text);
			return;
		}
		free(s->routes.text);
		s->routes.text = text;
		s->routes.bytes = bytes;
		s->routes.held = 0;
		sup_ask_forget(&s->routes.question);
	}
	if (!s->routes.held && fabric->stage == STAGE_READY)
		sup_ask_with(&s->routes.question, &fabric->link,
			     RECORD("routes", F("bytes", s->routes.bytes)), s->routes.text,
			     s->routes.bytes, routes_on_answer, s);
}

int sup_routes_hold(const struct supervisor *s)
{
	const struct sup_node *fabric = sup_fabric(s);
	return !fabric || s->routes.held || fabric->stage != STAGE_READY;
}

void sup_routes_free(struct supervisor *s)
{
	free(s->routes.text);
	s->routes.text = NULL;
}

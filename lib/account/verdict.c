/* verdict: see verdict.h. */
#include "account/verdict.h"

#include <math.h>
#include <string.h>

#define HOST_MORE 1.5 /* a host is told where it cost so many times what its slowest worker did */
#define LINK_PART 0.5 /* and its link where that is such a part of it */

const char *const verdict_name[VERDICTS] = {
	"job",     "unknown",         "failed", "worker",   "host",  "server",      "link",
	"workers-in-turn", "data", "restarts", "stood", "checkpoints", "meeting", "around"};

/* From which part of the job on a suspect is told: start and end are much of a short job, and all
 * workers have to meet. */
static const double verdict_least[VERDICTS] = {
	[VERDICT_WORKER] = 0.1,  [VERDICT_HOST] = 0.1,        [VERDICT_SERVER] = 0.1,
	[VERDICT_LINK] = 0.1,    [VERDICT_TURNS] = 0.1,       [VERDICT_DATA] = 0.15,
	[VERDICT_RESTARTS] = 0.1, [VERDICT_STOOD] = 0.1,      [VERDICT_CHECKPOINTS] = 0.1,
	[VERDICT_MEETING] = 0.25, [VERDICT_AROUND] = 0.5};

/* The host whose bytes took longest beyond the median link's time; at most all of the training. */
static const char *slow_link(const struct account *a, const struct cost *c, double *seconds)
{
	const char *host = "";
	*seconds = 0;
	for (size_t i = 0; i < a->links; i++) {
		double cost = fmax(a->link[i].way[0].cost, a->link[i].way[1].cost);
		if (cost > *seconds) {
			*seconds = cost;
			host = a->link[i].host;
		}
	}
	*seconds = fmin(*seconds, c->training);
	return host;
}

static size_t restarted_most(const struct account *a)
{
	size_t most = ACCOUNT_NOBODY;
	for (size_t i = 0; i < a->nodes; i++)
		if (a->node[i].restarts > (most == ACCOUNT_NOBODY ? 0 : a->node[most].restarts))
			most = i;
	return most;
}

static void verdict_costs(const struct account *a, const struct cost *c, double of[VERDICTS])
{
	const double *k = c->of;
	double waiting = k[COST_WAITING] - c->slowest.seconds;
	of[VERDICT_WORKER] = c->slowest.seconds;
	of[VERDICT_HOST] = c->host.seconds > HOST_MORE * c->slowest.seconds ? c->host.seconds : 0;
	of[VERDICT_SERVER] = c->server.seconds;
	of[VERDICT_TURNS] = waiting;
	of[VERDICT_DATA] = k[COST_OTHER] + c->rows;
	of[VERDICT_RESTARTS] =
		k[COST_RESTARTS] + k[COST_ROLLBACK] + k[COST_THROWN] + k[COST_HANDOVER];
	for (size_t i = 0; i < a->marks; i++)
		if (a->mark[i].kind == ACCOUNT_STOOD && a->mark[i].seconds > 0)
			of[VERDICT_STOOD] += a->mark[i].seconds;
	of[VERDICT_CHECKPOINTS] = k[COST_STALL];
	of[VERDICT_MEETING] = k[COST_BARRIER] + k[COST_COLLECTIVE];
	of[VERDICT_AROUND] =
		k[COST_STARTING] + k[COST_FIRST] + k[COST_ENDING] + k[COST_SCORING];
}

/* What it is about: a node, or a host. */
static void accuse(const struct account *a, const struct cost *c, struct verdict *v, const char *link,
		   double link_cost)
{
	v->node = v->kind == VERDICT_WORKER     ? c->slowest.node
		  : v->kind == VERDICT_HOST     ? c->host.node
		  : v->kind == VERDICT_SERVER   ? c->server.node
		  : v->kind == VERDICT_RESTARTS ? restarted_most(a)
						: ACCOUNT_NOBODY;
	const struct account_node *n = v->node == ACCOUNT_NOBODY ? NULL : &a->node[v->node];
	/* A slow link makes its host's workers slow. */
	if (n && v->kind <= VERDICT_HOST && link_cost > LINK_PART * v->seconds &&
	    strcmp(n->host, link) == 0)
		v->kind = VERDICT_LINK;
	v->machine = v->kind >= VERDICT_WORKER && v->kind <= VERDICT_LINK;
	if (v->kind == VERDICT_LINK)
		v->id = link;
	else if (n)
		v->id = v->kind == VERDICT_HOST ? n->host : n->id;
}

struct verdict verdict_of(const struct account *a, const struct cost *c)
{
	double of[VERDICTS] = {0};
	struct verdict v = {.kind = c->known ? VERDICT_JOB : VERDICT_UNKNOWN,
			    .seconds = NAN, .id = "", .node = ACCOUNT_NOBODY};
	if (strcmp(a->state, "failed") == 0) {
		v.kind = VERDICT_FAILED;
		v.id = a->failed;
	}
	if (v.kind != VERDICT_JOB)
		return v;
	verdict_costs(a, c, of);
	const char *link = slow_link(a, c, &of[VERDICT_LINK]);
	for (int k = VERDICT_WORKER; k < VERDICTS; k++)
		if (of[k] > verdict_least[k] * c->seconds && of[k] > of[v.kind])
			v.kind = (enum verdict_kind)k;
	v.seconds = v.kind == VERDICT_JOB ? c->of[COST_TOGETHER] : of[v.kind];
	accuse(a, c, &v, link, of[VERDICT_LINK]);
	return v;
}

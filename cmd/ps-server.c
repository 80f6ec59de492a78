/*
 * ps-server(8): a part of the parameters; part 0, or a process without parameters, leads: it closes
 * the units, commits them with shardd and tells the other parts.  Or a replica of all parameters.  The work is in lib/ps and
 * lib/lead; here is the command line, and the order in which things are made.
 */
#include "lead/late.h"
#include "lead/lead.h"
#include "ps/ps.h"
#include "cmd/daemon.h"

#include "base/boot.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/keep.h"
#include "ckpt/ckpt.h"
#include "ckpt/memory.h"
#include "base/number.h"
#include "meter/load.h"

#include <limits.h>
#include <math.h>

#define PROGRAM "ps-server"
#define GREETING_MAX 1024

struct settings {
	/* As the options say; the rest is filled in by make_ps() and make_lead(). */
	struct ps_options ps;
	struct lead_options lead;
	const char *socket, *part_text, *layout_path, *sync_text, *optimizer, *restore;
	const char *servers_text, *led_text, *announce, *replica_text, *hosts_text;
	double lr, l1, l2, momentum;
	struct opt_rate rate;
	struct option_list include;
	int take_over, lead_only, seen_part, seen_momentum; /* an option that is for parameters */
	int seen_part_of, seen_sync, serve, join, standby, far, is_led, sums;
	uint64_t level, map_version;
	char *servers_copy, *hosts_copy, *led_copy; /* the names point into them */
	const char *servers[MAP_PARTS_MAX], *hosts[MAP_PARTS_MAX], *led[MAP_PARTS_MAX];
};

/* What runs: the lead uses ps, both use the server's loop. */
struct node {
	const struct settings *settings;
	struct layout layout;
	struct map map;
	struct store *store;
	struct ps *ps;
	struct lead *lead;
	struct server *server;
	uint64_t iteration; /* where it starts */
};

/* I/N */
static int parse_share(const char *text, const char *option, uint32_t *i, uint32_t *n,
		       struct error *err)
{
	const char *slash = strchr(text, '/');
	uint64_t part, parts;

	if (!slash || number_u64_span(text, (size_t)(slash - text), &part) != 0 ||
	    number_u64_span(slash + 1, strlen(slash + 1), &parts) != 0 || parts > MAP_PARTS_MAX ||
	    part >= parts)
		return error_set(err, ERROR_USAGE, option, "%s is not I/N with I < N <= %d", text,
				 MAP_PARTS_MAX);
	*i = (uint32_t)part;
	*n = (uint32_t)parts;
	return 0;
}

/* A,B,...: cut in a copy, because ps(1) shows argv. */
static int parse_names(const char *text, const char *option, char **copy,
		       const char *name[MAP_PARTS_MAX], size_t *count, struct error *err)
{
	char *rest = NULL, *one;

	if (text && !(rest = *copy = strdup(text)))
		return error_set(err, ERROR_OS, option, "out of memory");
	while (rest && (one = strsep(&rest, ","))) {
		if (!*one || *count == MAP_PARTS_MAX)
			return error_set(err, ERROR_USAGE, option, "an empty name, or too many");
		name[(*count)++] = one;
	}
	return 0;
}

/* Part 0 leads, or a process without parameters. */
static int ps_server_leads(const struct settings *s)
{
	return s->lead_only || (s->ps.part == 0 && !s->is_led && !s->replica_text);
}

static int parse_servers(struct settings *s, struct error *err)
{
	if (parse_names(s->servers_text, "--servers", &s->servers_copy, s->servers,
			&s->lead.server_count, err) != 0 ||
	    parse_names(s->led_text, "--replicas", &s->led_copy, s->led, &s->lead.replica_count,
			err) != 0)
		return -1;
	if (s->lead.replica_count > GATE_REPLICAS_MAX)
		return error_set(err, ERROR_USAGE, "--replicas", "more than %d",
				 GATE_REPLICAS_MAX);
	if (ps_server_leads(s) && !s->lead_only && s->lead.server_count != s->ps.parts - 1)
		return error_set(err, ERROR_USAGE, "--servers", "%zu names for %u other parts",
				 s->lead.server_count, s->ps.parts - 1);
	if (!ps_server_leads(s) &&
	    (s->lead.server_count || s->lead.shards || s->include.count || s->lead.gate.backup))
		return error_set(err, ERROR_USAGE, NULL,
				 "--servers, --shards, --include and --backup are for the lead");
	return 0;
}

/* A replica is led by a process of its own, and part 0 of 1 otherwise. */
static int ps_server_check_replica(struct settings *s, struct error *err)
{
	if (!s->replica_text) {
		if (s->ps.fabric || s->hosts_text || s->serve || (s->sums && !s->led_text))
			return error_set(err, ERROR_USAGE, NULL,
					 "--fabric, --hosts, --serve and --sums are for --replica");
		return 0;
	}
	s->ps.sums = s->sums;
	if (s->lead_only || s->seen_part_of || s->seen_sync || s->servers_text || s->lead.shards ||
	    s->include.count || s->lead.gate.backup || s->lead.balance_method || s->take_over ||
	    s->ps.naive_mean)
		return error_set(err, ERROR_USAGE, "--replica",
				 "no option of a lead or of one of several parts goes with it, and no "
				 "--take-over: another replica fills a new one");
	if (parse_share(s->replica_text, "--replica", &s->ps.replica, &s->ps.replicas, err) != 0 ||
	    parse_names(s->hosts_text, "--hosts", &s->hosts_copy, s->hosts, &s->ps.hosts_count,
			err) != 0)
		return -1;
	if (!s->ps.fabric != !s->hosts_text ||
	    (s->ps.fabric && s->ps.hosts_count != s->ps.replicas))
		return error_set(err, ERROR_USAGE, "--hosts", "%zu names for %u replicas%s",
				 s->ps.hosts_count, s->ps.replicas,
				 s->ps.fabric ? "" : ", and no --fabric between them");
	if (s->ps.sums && (s->layout_path || s->serve || s->ps.memory))
		return error_set(err, ERROR_USAGE, "--sums",
				 "there are no parameters here: no --layout, --serve or --memory");
	if (s->restore && s->serve)
		return error_set(err, ERROR_USAGE, "--serve", "or --restore, not both");
	return 0;
}

/* At start: the first checkpoint may be hours away. */
static int check_include(const struct settings *s, struct error *err)
{
	for (size_t i = 0; i < s->include.count; i++) {
		if (access(s->include.item[i], R_OK) != 0)
			return error_errno(err, 0, s->include.item[i], "--include");
	}
	return 0;
}

static int check_standby(const struct settings *s, struct error *err)
{
	if (s->far && !s->standby)
		return error_set(err, ERROR_USAGE, "--far", "is for --standby");
	if (s->ps.divergence && (ps_server_leads(s) || s->replica_text))
		return error_set(err, ERROR_USAGE, "--divergence", "is for a part that does not lead");
	if (s->standby &&
	    (s->restore || s->take_over || s->join || s->replica_text || s->lead_only))
		return error_set(err, ERROR_USAGE, "--standby",
				 "is for a part, and not with --restore, --take-over, --join or "
				 "--replica: its parameters come from the part");
	if (s->ps.followed && (!ps_server_leads(s) || !s->lead.shards || s->lead_only))
		return error_set(err, ERROR_USAGE, "--followed", "is for a part that leads, with --shards");
	if (s->standby && ps_server_leads(s) && !s->ps.followed)
		return error_set(err, ERROR_USAGE, "--standby",
				 "of a part that leads needs --followed, as that part has it");
	if (s->far && ps_server_leads(s))
		return error_set(err, ERROR_USAGE, "--far",
				 "is for a part that does not lead: the lead stays on its host");
	return 0;
}

static int check_join(const struct settings *s, struct error *err)
{
	if (!s->join)
		return 0;
	if (ps_server_leads(s) || s->restore || s->take_over || s->replica_text)
		return error_set(err, ERROR_USAGE, "--join",
				 "is for a part that does not lead, and not with --restore, --take-over or "
				 "--replica: its parameters come from the other parts");
	if (s->map_version != 1)
		return error_set(err, ERROR_USAGE, "--map-version", "is not for --join");
	return 0;
}

static int ps_server_check_settings(struct settings *s, struct error *err)
{
	if (!s->socket || !s->ps.id)
		return error_set(err, ERROR_USAGE, NULL, "needs -s SOCKET and --id ID");
	int leads = s->led_text || s->servers_text; /* those that have parameters */
	if (s->lead_only && (s->seen_part || s->seen_momentum || s->seen_part_of ||
			     (s->layout_path && !leads) || (s->restore && leads && !s->sums)))
		return error_set(err, ERROR_USAGE, "--lead-only",
				 "there are no parameters here: no option of a part goes with it");
	if (s->led_text && s->servers_text)
		return error_set(err, ERROR_USAGE, "--replicas", "or --servers, not both");
	if (s->led_text && (!s->lead_only || strcmp(s->sync_text, "bsp") != 0))
		return error_set(err, ERROR_USAGE, "--replicas",
				 "is for --lead-only and --sync bsp");
	if (s->sums && s->lead_only &&
	    (!s->led_text || s->layout_path || s->lead.gate.backup || s->lead.gate.late > 0))
		return error_set(err, ERROR_USAGE, "--sums",
				 "is for the lead of --replicas, and not with --layout, --backup or --late: "
				 "each worker needs each sum for the parameters that it has itself");
	if (!s->lead_only && !s->layout_path && !s->restore && !s->sums)
		return error_set(err, ERROR_USAGE, NULL,
				 "needs --layout FILE, --restore DIR, --sums, or --lead-only");
	if (ps_server_check_replica(s, err) != 0 ||
	    parse_share(s->part_text, "--part", &s->ps.part, &s->ps.parts, err) != 0 ||
	    parse_servers(s, err) != 0 || check_join(s, err) != 0 || check_standby(s, err) != 0)
		return -1;
	if (gate_sync_parse(s->sync_text, &s->lead.gate.sync, &s->lead.gate.staleness, err) != 0)
		return -1;
	if (s->lead.gate.backup && s->lead.gate.sync != GATE_BSP)
		return error_set(err, ERROR_USAGE, "--backup", "is for --sync bsp");
	if (s->lead.gate.late > 0 && !s->led_text)
		return error_set(err, ERROR_USAGE, "--late", "is for --replicas");
	if (s->lead.gate.bounds_delay && s->lead.gate.sync == GATE_BSP)
		return error_set(err, ERROR_USAGE, "--delay-max", "is for --sync ssp or asp");
	if (s->lead.gate.bounds_delay &&
	    (!ps_server_leads(s) || (s->lead_only && !s->servers_text)))
		return error_set(err, ERROR_USAGE, "--delay-max", "is for the lead of parts");
	if (strcmp(s->rate.schedule, "adadelay") == 0 && s->lead.gate.sync == GATE_BSP)
		return error_set(err, ERROR_USAGE, "--schedule",
				 "adadelay is for --sync ssp or asp: under bsp no push has a delay, and "
				 "sqrt is the same (adagrad: constant)");
	if (s->l1 > 0 && strcmp(s->optimizer, "ftrl") != 0)
		return error_set(err, ERROR_USAGE, "--l1", "is for --optimizer ftrl");
	if (s->seen_momentum && strcmp(s->optimizer, "momentum") != 0)
		return error_set(err, ERROR_USAGE, "--momentum", "is for --optimizer momentum");
	if (s->announce && !s->lead.gate.bounds_delay)
		return error_set(err, ERROR_USAGE, "--announce", "is for --delay-max");
	s->lead.schedules = s->announce && strcmp(s->announce, "by-links") == 0;
	if (s->lead.schedule_log && !s->lead.schedules)
		return error_set(err, ERROR_USAGE, "--schedule-log", "is for --announce by-links");
	if (s->lead.gate.backup && s->lead_only && !leads)
		return error_set(err, ERROR_USAGE, "--backup",
				 "is not for --lead-only without --servers or --replicas: what "
				 "workers have trained is in their own parameters, and can't be left "
				 "out");
	if (!s->lead.balance_method && (s->lead.balance_batch || s->lead.balance_least || s->lead.balance_log ||
					(s->lead.gate.expect && !s->sums)))
		return error_set(err, ERROR_USAGE, NULL,
				 "--batch, --least, --balance-log and --expect are for --balance, "
				 "--expect also for --sums");
	if (s->lead.balance_method &&
	    (!ps_server_leads(s) || s->lead.gate.sync != GATE_BSP || !s->lead.balance_batch))
		return error_set(err, ERROR_USAGE, "--balance",
				 "is for the lead, --sync bsp, and needs --batch");
	return check_include(s, err);
}

static void first_map(const struct settings *s, struct node *n)
{
	if (s->join) {
		map_first(&n->map, s->ps.parts, layout_dense_count(&n->layout));
		return;
	}
	map_even(&n->map, s->ps.parts, layout_dense_count(&n->layout));
	n->map.version = s->map_version;
}

/* From memory, as far as it is there; if that is damaged, from the disk. */
static int restore(const struct settings *s, struct ckpt **c, struct store *store, int *lost,
		   struct error *err)
{
	ckpt_share(*c);
	if (!s->ps.memory || ckpt_memory_use(*c, s->ps.memory) == 0)
		return ckpt_restore(*c, store, lost, err);
	if (ckpt_restore(*c, store, lost, err) == 0) {
		log_say(LOG_LEVEL_INFO, "%s: restored from memory", s->restore);
		return 0;
	}
	if (err->code != ERROR_DATA && err->code != ERROR_IO)
		return -1;
	log_say(LOG_LEVEL_WARNING, "%s: %s; the disk is read", err->place, err->text);
	ckpt_close(*c);
	*c = NULL;
	if (ckpt_open(c, s->restore, err) != 0 || store_empty(store, err) != 0)
		return -1;
	ckpt_share(*c);
	return ckpt_restore(*c, store, lost, err);
}

static int make_store(const struct settings *s, struct node *n, struct error *err)
{
	struct ckpt *c = NULL;
	struct opt opt;
	int lost = 0, rc;

	if (opt_by_name(&opt, s->optimizer, err) != 0)
		return -1;
	if (opt_set_rate(&opt, &s->rate, err) != 0)
		return -1;
	opt.lr = (float)s->lr;
	opt.l1 = (float)s->l1;
	opt.l2 = (float)s->l2;
	opt.momentum = (float)s->momentum;
	/* An heir gets the parameters from whom it follows; at most the layout is needed here. */
	if (s->restore && (!s->layout_path || !s->take_over) && ckpt_open(&c, s->restore, err) != 0)
		return -1;
	if (s->layout_path)
		rc = layout_read(&n->layout, s->layout_path, err);
	else
		rc = ckpt_read_layout(c, &n->layout, err);
	if (rc == 0)
		first_map(s, n);
	int comes = c || s->join || s->take_over || s->standby || (s->ps.replicas && !s->serve);
	if (rc == 0 && comes)
		rc = store_new_bare(&n->store, &n->layout, &n->map, s->ps.part, &opt, err);
	else if (rc == 0)
		rc = store_new(&n->store, &n->layout, &n->map, s->ps.part, &opt, err);
	if (rc == 0 && c && !s->take_over)
		rc = restore(s, &c, n->store, &lost, err);
	else if (rc == 0 && comes)
		store_populate(n->store);
	if (rc == 0 && c && !s->take_over)
		n->iteration = ckpt_get_manifest(c)->iteration;
	if (lost)
		log_say(LOG_LEVEL_WARNING,
			"%s: its optimizer is not %s: parameters are restored, slots start anew",
			s->restore, s->optimizer);
	ckpt_close(c);
	return rc;
}

/* Of a lead without parameters, and a replica with sums only: where the trainers are that have
 * them. */
static int ps_server_read_iteration(const char *dir, uint64_t *iteration, struct error *err)
{
	struct ckpt_manifest m;
	int result = ckpt_manifest_read(&m, dir, err);

	if (result == 0 && !m.foreign)
		result = error_set(err, ERROR_CONFIG, dir,
				   "has parameters for parts, and there are none here");
	if (result == 0)
		*iteration = m.iteration;
	ckpt_manifest_free(&m);
	return result;
}

/* Without parameters. */
static int make_bare(const struct settings *s, struct node *n, struct error *err)
{
	struct opt opt;

	layout_start(&n->layout, 0);
	first_map(s, n);
	if (opt_by_name(&opt, "add", err) != 0 ||
	    store_new_bare(&n->store, &n->layout, &n->map, 0, &opt, err) != 0)
		return -1;
	return s->restore ? ps_server_read_iteration(s->restore, &n->iteration, err) : 0;
}

/* What workers and the lead want to know of a replica. */
static void greet_replica(const struct settings *s, const struct node *n, char *out, size_t max)
{
	snprintf(out, max,
		 "id=%s replica=%u/%u lead=0 sync=bsp incarnation=%llu iteration=%llu "
		 "dense-begin=0 dense=%zu width=%zu boot=%s life=%llu%s",
		 s->ps.id, s->ps.replica, s->ps.replicas, (unsigned long long)s->ps.incarnation,
		 (unsigned long long)n->iteration, store_dense_count(n->store),
		 store_width(n->store), ps_boot(n->ps), (unsigned long long)ps_life(n->ps),
		 s->ps.sums ? " sums=1" : "");
}

static void ps_server_greet(const struct settings *s, const struct node *n, char *out, size_t max)
{
	const struct map *leads = n->lead ? lead_map(n->lead) : NULL;
	char part[64] = "", holds[320] = "", boot[BOOT_ID_MAX];

	if (n->ps) {
		const struct map *map = store_map(n->store);
		snprintf(part, sizeof part, "part=%u/%u ", ps_part(n->ps), map->parts);
		boot_id(boot);
		snprintf(holds, sizeof holds,
			 " dense-begin=%llu dense=%zu width=%zu boot=%s map=%llu%s%s",
			 (unsigned long long)store_dense_begin(n->store),
			 store_dense_count(n->store), store_width(n->store), boot,
			 (unsigned long long)map->version, s->ps.divergence ? " keep=1" : "",
			 ps_lacks(n->ps) ? " behind=1" : "");
	} else if (leads)
		snprintf(holds, sizeof holds, " map=%llu", (unsigned long long)leads->version);
	snprintf(out, max, "id=%s %slead=%d sync=%s incarnation=%llu iteration=%llu%s%s", s->ps.id,
		 part, n->lead != NULL, s->sync_text, (unsigned long long)s->ps.incarnation,
		 (unsigned long long)n->iteration, holds,
		 s->announce             ? " announce=1"
		 : s->lead.gate.late > 0 ? " late=1"
					 : "");
}

/* Its part is another one, or the parts that it leads are. */
static void adopted(void *node)
{
	struct node *n = node;
	char greeting[GREETING_MAX];
	struct error err = {0};

	ps_server_greet(n->settings, n, greeting, sizeof greeting);
	if (server_greet(n->server, greeting, &err) != 0)
		log_say(LOG_LEVEL_WARNING, "%s: %s", err.place, err.text);
}

/* A lead that others may follow begins with a term of its own. One whose lead before may have died
 * also learns where all parts are to be. */
static int begin_term(const struct settings *s, struct node *n, struct lead_options *lead,
		     struct error *err)
{
	struct gate_commit last;

	if (lead_term_ask(s->lead.shards, s->ps.incarnation, &lead->term, &last, err) != 0)
		return -1;
	lead->gate.round_first = lead->term << 32;
	if (!(s->standby || s->lead_only) || !last.iteration)
		return 0;
	n->iteration = lead->gate.iteration = last.iteration - 1 + last.divisor;
	lead->units = last.divisor;
	lead->round = last.round;
	return 0;
}

/* A lead of parts that are all elsewhere goes on where they are. What was committed last they may
 * only hold; then shardd knows it. */
static int meet_parts(const struct settings *s, struct node *n, struct lead_options *lead,
		      struct lead_parts_state *parts, struct error *err)
{
	if (s->lead.shards && begin_term(s, n, lead, err) != 0)
		return -1;
	if (lead_parts_ask(s->servers, s->lead.server_count, s->ps.incarnation, parts, err) != 0)
		return -1;
	if (!lead->units)
		n->iteration = lead->gate.iteration = parts->low;
	lead->map = &parts->map;
	if (parts->high <= n->iteration)
		return 0;
	return error_set(err, ERROR_TEMPFAIL, s->lead.shards,
			 "%llu units are committed, and a part has applied %llu",
			 (unsigned long long)n->iteration, (unsigned long long)parts->high);
}

static int make_lead(const struct settings *s, struct node *n, struct error *err)
{
	struct lead_options lead = s->lead;
	struct lead_parts_state parts; /* copied by lead_new() */
	struct part_here here;

	if (!ps_server_leads(s))
		return 0;
	lead.id = s->ps.id;
	lead.gate.incarnation = s->ps.incarnation;
	lead.gate.iteration = n->iteration;
	/* A restarted lead must go on behind the last number; nobody settles a million times a
	 * second. */
	lead.gate.settle_first = (uint64_t)(clock_epoch() * 1e6);
	lead.gate.announces = s->announce != NULL;
	lead.socket = s->socket;
	lead.servers = s->servers;
	lead.replicas = s->led;
	lead.sums = s->sums;
	lead.include = &s->include;
	lead.layout = s->lead_only && !s->layout_path ? NULL : &n->layout;
	if (!lead.balance_least)
		lead.balance_least = 1;
	if (s->ps.followed && !s->take_over && begin_term(s, n, &lead, err) != 0)
		return -1;
	if (n->ps) {
		here = ps_here(n->ps);
		lead.here = &here;
		lead.map = store_map(n->store);
	} else {
		lead.adopted = adopted;
		lead.adopted_owner = n;
		if (s->servers_text && meet_parts(s, n, &lead, &parts, err) != 0)
			return -1;
	}
	if (lead_new(&n->lead, &lead, err) != 0)
		return -1;
	struct ps_more more = {.ready = lead_can_go,
			       .give = lead_give,
			       .take = lead_take,
			       .seen = lead_seen,
			       .owner = n->lead,
			       .adopted = adopted,
			       .adopted_owner = n};
	if (n->ps)
		ps_set_more(n->ps, &more);
	return 0;
}

/* The part, the lead, or both. */
static int make_ps(const struct settings *s, struct node *n, struct error *err)
{
	struct ps_options ps = s->ps;
	struct ps_more more = {.adopted = adopted, .adopted_owner = n};

	ps.iteration = n->iteration;
	ps.bsp = s->lead.gate.sync == GATE_BSP;
	ps.store = n->store;
	ps.hosts = s->hosts;
	ps.socket = s->socket;
	ps.level = (int)s->level;
	ps.empty = !s->restore && !s->serve;
	if (!s->lead_only && ps_new(&n->ps, &ps, err) != 0)
		return -1;
	if (n->ps)
		ps_set_more(n->ps, &more);
	if (!s->standby && make_lead(s, n, err) != 0)
		return -1;
	if (!s->take_over)
		return 0;
	if (ps_take(n->ps, s->socket, err) != 0)
		return -1;
	if (n->lead)
		lead_go_by(n->lead, store_map(n->store));
	n->iteration = ps_iteration(n->ps);
	return 0;
}

static int ps_server_make(const struct settings *s, struct node *n, struct error *err)
{
	char greeting[GREETING_MAX];
	struct server_options options = {.path = s->socket,
					 .role = PROGRAM,
					 .greeting_fields = greeting,
					 .more_verbs = ps_verbs,
					 .more_count = n->ps ? ps_verb_count : 0,
					 .more_owner = n->ps};

	if (n->lead) {
		options.verbs = lead_verbs;
		options.verb_count = lead_verb_count;
		options.owner = n->lead;
		options.closed = lead_closed;
	} else {
		options.verbs = s->ps.replicas ? ps_replica_verbs : ps_led_verbs;
		options.verb_count = s->ps.replicas ? ps_replica_verb_count : ps_led_verb_count;
		options.owner = n->ps;
	}
	if (s->ps.replicas) {
		options.more_verbs = s->ps.sums ? ps_sums_verbs : ps_full_verbs;
		options.more_count = s->ps.sums ? ps_sums_verb_count : ps_full_verb_count;
		greet_replica(s, n, greeting, sizeof greeting);
	} else
		ps_server_greet(s, n, greeting, sizeof greeting);
	if (server_new(&n->server, &options, err) != 0)
		return -1;
	if (daemon_listen(n->server, err) != 0)
		return -1;
	if (n->ps && ps_start(n->ps, n->server, err) != 0)
		return -1;
	return n->lead ? lead_start(n->lead, n->server, err) : 0;
}

static int ps_server_serve(struct node *n, struct error *err)
{
	const struct error *broken;

	if (daemon_run(n->server, err) != 0)
		return -1;
	broken = n->ps ? ps_broken(n->ps) : NULL;
	if (!broken && n->lead)
		broken = lead_broken(n->lead);
	if (!broken)
		return 0;
	*err = *broken;
	return -1;
}

static int prepare_lead(const struct settings *s, struct node *n, struct error *err)
{
	if (s->restore)
		return ps_server_read_iteration(s->restore, &n->iteration, err);
	/* for the checkpoints of those that it leads */
	return s->layout_path ? layout_read(&n->layout, s->layout_path, err) : 0;
}

/* 1: it has only waited until it was told to end. */
static int stand_by(const struct settings *s, struct node *n, struct error *err)
{
	int rc = s->standby ? ps_stand_by(n->ps, s->socket, s->far, err) : 0;

	n->iteration = n->ps ? ps_iteration(n->ps) : n->iteration;
	return s->standby && rc == 0 ? make_lead(s, n, err) : rc;
}

static int ps_server_run(const struct settings *s, struct error *err)
{
	struct node n = {.settings = s};
	int rc = -1, waited = 0;

	if ((s->lead_only  ? prepare_lead(s, &n, err)
	     : s->ps.sums ? make_bare(s, &n, err)
			  : make_store(s, &n, err)) == 0 &&
	    make_ps(s, &n, err) == 0 && (waited = stand_by(s, &n, err)) == 0 &&
	    ps_server_make(s, &n, err) == 0)
		rc = ps_server_serve(&n, err);
	if (waited > 0)
		rc = 0;
	else if (rc == 0 && s->ps.memory && n.store) { /* nobody goes on at once */
		ckpt_memory_forget(s->ps.memory, s->ps.part);
		ckpt_memory_forget(s->ps.memory,
				   store_part(n.store)); /* after a move another one */
	}
	lead_stop(n.lead);
	ps_stop(n.ps);
	if (n.server)
		server_free(n.server);
	lead_free(n.lead);
	ps_free(n.ps);
	store_free(n.store);
	return rc;
}

/* Checkpoints are told to it by name: they are below the directory of its layout, or of what they include.
 * One in memory is held by a process that lives longer: a confined one could not have it from there. */
static void ps_server_confine(const struct settings *s)
{
	if (s->ps.memory)
		return;
	const char *state = s->layout_path	   ? s->layout_path
			    : s->include.count > 0 ? s->include.item[0]
						   : s->restore;
	char bases[PATH_MAX], drag[PATH_MAX], others[PATH_MAX]; /* a drag file is replaced again and again */
	fs_dirname(s->restore ? s->restore : "", bases, sizeof bases);
	fs_dirname(s->ps.drag ? s->ps.drag : "", drag, sizeof drag);
	cmd_confine(&(struct confine_ask){
		.read = {"/proc", "/sys", s->restore ? bases : NULL, s->ps.drag ? drag : NULL},
		.write = {state ? daemon_checkpoints(state, others) : NULL},
		.replace = {s->socket, state, s->lead.balance_log, s->lead.schedule_log},
		.more = s->include.item,
		.more_count = s->include.count,
		.sockets = CONFINE_UNIX_SOCKETS,
		.signals = 1}); /* one that does not move must end before its standby takes its place */
}

/* Looked for at the first report; which group this process is in doesn't change. */
static double ps_server_throttled(void *load)
{
	struct load **l = load;
	struct load_values v;
	if (!*l && load_new(l, "", NULL) != 0)
		return NAN;
	load_look(*l, clock_mono(), &v);
	return v.throttled;
}

int main(int argc, char **argv)
{
	struct load *load = NULL;
	struct settings s = {.ps = {.incarnation = 1,
				    .throttled = ps_server_throttled,
				    .throttled_owner = &load,
				    .report_every = 10,
				    .report_seconds = 0.5,
				    .keeper = keep_socket(getenv(KEEP_VARIABLE))},
			     .lead = {.job = "", .hung_seconds = 300},
			     .part_text = "0/1",
			     .sync_text = "bsp",
			     .optimizer = "adagrad",
			     .lr = 0.05,
			     .rate = {.schedule = "constant", .factor = NAN},
			     .map_version = 1,
			     .momentum = 0.9,
			     .level = PLANES_LEVEL};
	const struct option_row rows[] = {
		{.name = "socket", .letter = 's', .kind = OPTION_TEXT, .target = &s.socket,
		 .arg = "SOCKET", .help = "serve here"},
		{.name = "id", .kind = OPTION_ID, .target = &s.ps.id, .arg = "ID",
		 .help = "the name of this server in greetings and reports"},
		{.name = "part", .kind = OPTION_TEXT, .target = &s.part_text, .arg = "I/N",
		 .help = "part I of N; part 0 leads (0/1)", .seen = &s.seen_part_of},
		{.name = "led", .kind = OPTION_FLAG, .target = &s.is_led,
		 .help = "part 0 does not lead: a process without parameters does",
		 .seen = &s.seen_part},
		{.name = "replica", .kind = OPTION_TEXT, .target = &s.replica_text, .arg = "I/H",
		 .help = "hold all parameters: replica I of H, one on each host"},
		{.name = "serve", .kind = OPTION_FLAG, .target = &s.serve,
		 .help = "replica: begin with the layout's values; without it and --restore it "
			 "waits to be filled"},
		{.name = "fabric", .kind = OPTION_TEXT, .target = &s.ps.fabric, .arg = "SOCKET",
		 .help = "replica: the fabricd of this host, which makes sums over hosts"},
		{.name = "hosts", .kind = OPTION_TEXT, .target = &s.hosts_text, .arg = "HOST,...",
		 .help = "replica: the host of each replica, in order, as fabricd names them"},
		{.name = "lead-only", .kind = OPTION_FLAG, .target = &s.lead_only,
		 .help = "lead without parameters: workers that keep them, or --servers or --replicas"},
		{.name = "replicas", .kind = OPTION_TEXT, .target = &s.led_text,
		 .arg = "SOCKET,...",
		 .help = "with --lead-only: the sockets of the replicas, r0 first"},
		{.name = "sums", .kind = OPTION_FLAG, .target = &s.sums,
		 .help = "with --replica, and with --replicas: replicas only sum, and workers have the "
			 "parameters"},
		{.name = "incarnation", .kind = OPTION_COUNT, .target = &s.ps.incarnation,
		 .arg = "N", .help = "the job's incarnation; requests with another one are refused"},
		{.name = "layout", .kind = OPTION_TEXT, .target = &s.layout_path, .arg = "FILE",
		 .help = "which parameters there are"},
		{.name = "sync", .kind = OPTION_TEXT, .target = &s.sync_text,
		 .arg = "bsp|ssp:S|asp", .help = "what a unit is (bsp)", .seen = &s.seen_sync},
		{.name = "optimizer", .kind = OPTION_CHOICE, .target = &s.optimizer, .arg = "NAME",
		 .help = "how gradients are applied (adagrad)", .choices = OPT_NAMES,
		 .seen = &s.seen_part},
		{.name = "lr", .kind = OPTION_REAL, .target = &s.lr, .arg = "X",
		 .help = "learning rate", .min = 1e-30, .max = 1e9, .seen = &s.seen_part},
		{.name = "schedule", .kind = OPTION_CHOICE, .target = &s.rate.schedule, .arg = "NAME",
		 .help = "how the rate falls: with the steps, or with them and the delay (constant)",
		 .choices = OPT_SCHEDULES, .seen = &s.seen_part},
		{.name = "beta", .kind = OPTION_REAL, .target = &s.rate.beta, .arg = "X",
		 .help = "added to the root by which a schedule divides the rate", .max = 1e9,
		 .seen = &s.seen_part},
		{.name = "steps", .kind = OPTION_COUNT, .target = &s.rate.steps, .arg = "N",
		 .help = "of the schedules step and cosine", .min = 1, .seen = &s.seen_part},
		{.name = "factor", .kind = OPTION_REAL, .target = &s.rate.factor, .arg = "X",
		 .help = "the same: what is left of the rate (step 0.1, cosine 0)", .max = 1,
		 .seen = &s.seen_part},
		{.name = "warmup", .kind = OPTION_COUNT, .target = &s.rate.warmup, .arg = "N",
		 .help = "steps in which the rate rises", .seen = &s.seen_part},
		{.name = "decay", .kind = OPTION_REAL, .target = &s.rate.decay, .arg = "X",
		 .help = "each step makes a parameter smaller by rate x decay", .max = 1e9,
		 .seen = &s.seen_part},
		{.name = "l1", .kind = OPTION_REAL, .target = &s.l1, .arg = "X",
		 .help = "L1 regularisation, ftrl only", .max = 1e9, .seen = &s.seen_part},
		{.name = "l2", .kind = OPTION_REAL, .target = &s.l2, .arg = "X",
		 .help = "L2 regularisation; of a row, when a batch touches it", .max = 1e9,
		 .seen = &s.seen_part},
		{.name = "momentum", .kind = OPTION_REAL, .target = &s.momentum, .arg = "X",
		 .help = "momentum only", .max = 1, .seen = &s.seen_momentum},
		{.name = "restore", .kind = OPTION_TEXT, .target = &s.restore, .arg = "DIR",
		 .help = "start from this checkpoint, made by any number of parts"},
		{.name = "memory", .kind = OPTION_TEXT, .target = &s.ps.memory, .arg = "DIR",
		 .help = "keep the last checkpoint's part in this directory, which lies in memory, and "
			 "start from it",
		 .seen = &s.seen_part},
		{.name = "checkpoint-level", .kind = OPTION_COUNT, .target = &s.level, .arg = "N",
		 .help = "compression of checkpoints, 0 none to 9 smallest",
		 .max = PLANES_LEVEL_MAX, .seen = &s.seen_part},
		{.name = "drag", .kind = OPTION_TEXT, .target = &s.ps.drag, .arg = "FILE",
		 .help = "be as slow as the `drag` record in FILE says",
		 .seen = &s.seen_part},
		{.name = "monitor", .kind = OPTION_TEXT, .target = &s.ps.monitor, .arg = "SOCKET",
		 .help = "report batch processing times to this bpt-monitor", .seen = &s.seen_part},
		{.name = "report-every", .kind = OPTION_COUNT, .target = &s.ps.report_every,
		 .arg = "UNITS", .help = "report after this many units, or", .min = 1, .seen = &s.seen_part},
		{.name = "report-seconds", .kind = OPTION_SECONDS, .target = &s.ps.report_seconds,
		 .arg = "SECONDS", .help = "after this time, whichever is first; 0: by units only",
		 .max = 86400, .seen = &s.seen_part},
		{.name = "naive-mean", .kind = OPTION_FLAG, .target = &s.ps.naive_mean,
		 .help = "for comparison: the mean of the workers' means, whatever their sizes",
		 .seen = &s.seen_part},
		{.name = "take-over", .kind = OPTION_FLAG, .target = &s.take_over,
		 .help = "take over the state of the server at this socket, and replace it",
		 .seen = &s.seen_part},
		{.name = "join", .kind = OPTION_FLAG, .target = &s.join,
		 .help = "begin without parameters, until the lead moves some here",
		 .seen = &s.seen_part},
		{.name = "standby", .kind = OPTION_FLAG, .target = &s.standby,
		 .help = "follow the server at this socket, and take its place when it dies",
		 .seen = &s.seen_part},
		{.name = "far", .kind = OPTION_FLAG, .target = &s.far,
		 .help = "with --standby: the server is on another host, and SIGUSR1 says that it died",
		 .seen = &s.seen_part},
		{.name = "followed", .kind = OPTION_FLAG, .target = &s.ps.followed,
		 .help = "part 0: its standby can lead, too, when it dies",
		 .seen = &s.seen_part},
		{.name = "divergence", .kind = OPTION_COUNT, .target = &s.ps.divergence,
		 .arg = "PUSHES",
		 .help = "a standby may be so many pushes behind, which their workers keep; 0: none (0)",
		 .max = 1e6, .seen = &s.seen_part},
		{.name = "map-version", .kind = OPTION_COUNT, .target = &s.map_version, .arg = "N",
		 .help = "version of the first map; after a rollback it must be above all earlier "
			 "ones",
		 .min = 1, .max = 1e15, .seen = &s.seen_part},
		{.name = "servers", .kind = OPTION_TEXT, .target = &s.servers_text,
		 .arg = "SOCKET,...",
		 .help = "part 0: the other parts, in order; with --lead-only: all parts"},
		{.name = "shards", .kind = OPTION_TEXT, .target = &s.lead.shards, .arg = "SOCKET",
		 .help = "lead: commit units with this shardd"},
		{.name = "include", .kind = OPTION_LIST, .target = &s.include, .arg = "FILE",
		 .help = "lead: copy FILE into every checkpoint"},
		{.name = "backup", .kind = OPTION_COUNT, .target = &s.lead.gate.backup, .arg = "N",
		 .help = "lead: close an iteration without the last N workers",
		 .max = GATE_WORKERS_MAX},
		{.name = "balance", .kind = OPTION_CHOICE, .target = &s.lead.balance_method,
		 .arg = "METHOD", .help = "lead: set the workers' batches at every barrier",
		 .choices = BALANCE_METHODS},
		{.name = "batch", .kind = OPTION_COUNT, .target = &s.lead.balance_batch,
		 .arg = "SAMPLES", .help = "samples in an iteration, of all workers together",
		 .min = 1, .max = 1e9},
		{.name = "least", .kind = OPTION_COUNT, .target = &s.lead.balance_least,
		 .arg = "SAMPLES", .help = "fewest samples of a worker in an iteration (1)",
		 .min = 1, .max = NODE_BATCH_MAX},
		{.name = "balance-log", .kind = OPTION_TEXT, .target = &s.lead.balance_log,
		 .arg = "FILE", .help = "append each decision, with its reasons, to FILE"},
		{.name = "delay-max", .kind = OPTION_COUNT, .target = &s.lead.gate.delay_max,
		 .arg = "UNITS",
		 .help = "lead, ssp and asp: drop a push if more units than this were committed since "
			 "its pull",
		 .max = 1e9, .seen = &s.lead.gate.bounds_delay},
		{.name = "late", .kind = OPTION_REAL, .target = &s.lead.gate.late, .arg = "TIMES",
		 .help = "with --replicas: a sum goes on without a worker whose batch takes so "
			 "many times the median",
		 .min = 1, .max = LATE_TIMES_MAX},
		{.name = "announce", .kind = OPTION_CHOICE, .target = &s.announce, .arg = "HOW",
		 .help = "with --delay-max: drop such a push before it is sent; send others at "
			 "once, or in turn by the rates of hosts' links",
		 .choices = "at-once|by-links"},
		{.name = "schedule-log", .kind = OPTION_TEXT, .target = &s.lead.schedule_log,
		 .arg = "FILE",
		 .help = "append each schedule by which pushes were sent to FILE, for xfer-sched(1)"},
		{.name = "expect", .kind = OPTION_COUNT, .target = &s.lead.gate.expect,
		 .arg = "WORKERS",
		 .help = "begin when so many workers have joined, or 10 s after the first",
		 .max = GATE_WORKERS_MAX},
		{.name = "hung", .kind = OPTION_SECONDS, .target = &s.lead.hung_seconds,
		 .arg = "SECONDS",
		 .help = "lead: drop a worker that owes a push for so long, or for 20 times its "
			 "usual time; 0: never",
		 .max = 1e9},
		{.name = "job", .kind = OPTION_ID, .target = &s.lead.job, .arg = "NAME",
		 .help = "lead: the job's name, for checkpoints"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "-s SOCKET --id ID [--part I/N] [--layout FILE]\n"
			    "-s SOCKET --id ID ... [--sync bsp|ssp:S|asp] [--optimizer NAME] [--lr "
			    "X] ...\n"
			    "-s SOCKET --id ID --replica I/H [--serve | --restore DIR] [--layout "
			    "FILE] ...\n"
			    "-s SOCKET --id ID --replica I/H --sums [--restore DIR] ...\n"
			    "-s SOCKET --id ID --lead-only [--shards SOCKET] [--sync "
			    "bsp|ssp:S|asp] ...\n"
			    "-s SOCKET --id ID --lead-only --servers|--replicas SOCKET,... [--shards "
			    "SOCKET] [--layout FILE] ...",
		.about = "Keeps a part of the parameters of a training job; part 0 leads the job.",
		.rows = rows,
		.epilogue =
			"Deadlines: a push or join waits until its unit closes or its client goes. A settle\n"
			"without an answer for 30 s is sent again on a new connection, one that shardd had no\n"
			"room for after 0.5 s. A checkpoint part that is not written in 1800 s is given up. In\n"
			"a hand-over, the server gives its heir up when it pauses for 20 s, and the members of\n"
			"the lead have 30 s and the time of four batches to come back. When a server that was\n"
			"asked for a checkpoint has gone, it has 5 s to come back. --hung is the deadline of a\n"
			"worker that owes a push. A filling replica is given up when nothing comes for 30 s.\n"
			"The lead ends when no replica has been in force for 30 s (at the start 600 s). When parameters\n"
			"move, a server that joins has 30 s to be there, a piece 60 s to be prepared and, while\n"
			"all wait, 10 s and 1 s for each 20 MB to be given. A lead that another one may follow waits\n"
			"600 s for shardd before it serves, and one without parameters 600 s for its parts.\n"
			DAEMON_CLIENTS};
	struct error err = {0};
	int status = 0;

	loop_begin(PROGRAM);
	signal(SIGUSR1, SIG_IGN); /* it may come when its standby is the server already */
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	/* Each worker is a connection, and each of those may pass shared memory. */
	fs_allow_files(UINT64_MAX);
	int result = ps_server_check_settings(&s, &err);
	if (result == 0) {
		ps_server_confine(&s);
		result = ps_server_run(&s, &err);
	}
	if (result != 0)
		status = cmd_fail(PROGRAM, &err);
	load_free(load);
	free(s.servers_copy);
	free(s.hosts_copy);
	free(s.led_copy);
	return cmd_end(PROGRAM, status);
}

/*
 * job: the supervisor (lib/run) as it is, with all that a job of three hosts has, on the simulated machine (kernel.h):
 * shardd(8), bpt-monitor(8), and agents, whose trainers have their parameters themselves (TRAINER_KIND=loop, with a lead
 * and checkpoints) or run once for each shard (TRAINER_KIND=each). Of each node's parent, of node-host(8) and of the fabric
 * there is only what others see of them.
 *
 * Nodes, parents, trainers and the supervisor are killed and stand still, hosts fail, are cut off and come back, the
 * fabric ends, what follows a trainer's loop fails, people interrupt the job and run it again, want other numbers of workers,
 * other hosts, checkpoints, and nodes to be started anew.
 *
 * Never: a node runs twice, but on a host that was cut off; the phase changes as no rule says; all wait and nobody has a
 * deadline. In the end the job is done, each row is once for each epoch in the last checkpoint, and all trainers have done
 * what follows their loops; or, for each shard, a command has ended well with it in each epoch.
 *
 * With JOB_OF_SERVERS it is the world `servers`: a job on one host, with parameters in one to three servers (ps-server(8)),
 * some of which have standbys, and workers (worker(1)) that train the model audit. Servers and standbys are killed and stand still,
 * too, the children that write their parts; people want other numbers of servers, and hand-overs. In the end each sample is in the
 * last checkpoint once for each epoch.
 *
 * Some standbys may lack the gradients of a few pushes: never of more than that.
 *
 * With JOB_OF_SERVERS=2 it is the world `replicas`: no servers, but a lead, and on each of one or three hosts a replica of all
 * parameters, which sums what its workers push (SYNC=allreduce, some with a delay); the fabric sums over hosts (sums.h).
 *
 * How it is called: sim_main() in kernel.h.
 */
#include "tests/sim/command.h"
#include "tests/sim/kernel.h"
#include "tests/sim/model.h"
#include "tests/sim/parameters.h"
#include "tests/sim/sums.h"

#include "base/boot.h"
#include "base/clock.h"
#include "base/fs.h"
#include "proc/child.h"
#include "proc/parent.h"
#include "proc/remote.h"
#include "ps/lag.h"
#include "ps/ps_internal.h"
#include "run/sup.h"
#include "wire/call.h"
#include "wire/http.h"
#include "wire/server.h"

#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#ifndef JOB_OF_SERVERS
#define JOB_OF_SERVERS 0 /* 1: the world `servers`; 2: `replicas` */
#endif
#define JOB_OF_REPLICAS (JOB_OF_SERVERS == 2)

int shardd_main(int argc, char **argv);
int ps_server_main(int argc, char **argv);
int bpt_monitor_main(int argc, char **argv);

#define RUN "/run/job"
#define STATE "/data/job"
#define HOSTS 3
#define TRAINERS 5
#define ROWS_MAX 200
#define EPOCHS_MAX 3
#define NODES 18
#define SERVERS 3
#define W0 4
#define PS0 9 /* a server, or the process that stands by it or takes its place: the one or the other */
#define R0 15
#define HARMS_MAX 40
#define LAUNCHES_MAX 4096
#define ALIKE_MAX 4096
#define FAILURES_CALM 5      /* of the whole job, after the last fault */
#define END_SECONDS 10000.0 /* a run that takes longer after the last fault does not end */
#define UP_SECONDS 25.0      /* in which a world of fabricd hears of a rank that is gone */

static const char *const node_names[NODES] = {"shardd", "bpt-monitor", "lead", "fabric", "w0", "w1", "w2", "w3", "w4",
						"ps0", "ps1", "ps2", "ps0'", "ps1'", "ps2'", "r0", "r1", "r2"};

/* ---- what is so ---- */

static struct facts {
	enum { KIND_LOOP, KIND_EACH, KIND_SERVERS } kind;
	int hosts, servers, stands_by, divergence, sync;
	uint64_t rows, epochs, batch, batches, ahead, workers;
	double every; /* between checkpoints */
	int is_shuffled, together; /* trainers need each other */
	pid_t supervisor, parent[NODES], near[NODES], program[NODES], far[HOSTS][NODES];
	int is_cut[HOSTS];    /* nobody there is reached */
	uint64_t cuts[HOSTS]; /* how often that was so */
	double back[HOSTS];   /* when it ends */
	uint64_t seen_cuts[NODES]; /* of its host, when the program began */
	int host[NODES];
	int in_world[HOSTS]; /* its number there; -1: it is not in it */
	struct {
		pid_t pid;
		int port;
	} meets[TRAINERS];
	int followed[TRAINERS], late_fails;
	struct alike { /* what a replica had when it had made this step */
		uint64_t incarnation, iteration, sum;
	} alike[ALIKE_MAX];
	unsigned char did[EPOCHS_MAX][ROWS_MAX]; /* a command has ended well with this row */
	enum sup_phase phase;
	int calm, is_over, failures;
	char checkpoint[DIRS_PATH_MAX];
} *facts;

enum fault {
	FAULT_KILL_NODE, FAULT_STOP_NODE, FAULT_KILL_PARENT, FAULT_KILL_TRAINER, FAULT_STOP_TRAINER, FAULT_KILL_SUPERVISOR,
	FAULT_STOP_SUPERVISOR, FAULT_INTERRUPT, FAULT_PEOPLE, FAULT_HOST, FAULT_CUT_HOST, FAULT_CONNECTIONS, FAULT_FORKED, FAULTS
};

static int node_of(const char *id)
{
	for (int i = 0; i < NODES; i++)
		if (strcmp(node_names[i], id) == 0)
			return i;
	sim_fail("there is no node %s", id);
}

/* ---- a trainer ---- */

struct counts {
	unsigned char of[ROWS_MAX]; /* how often it has trained each row */
};

static int number_of(int argc, char **argv, const char *name)
{
	size_t len = strlen(name);
	for (int i = 2; i < argc; i++)
		if (strncmp(argv[i], name, len) == 0 && argv[i][len] == '=')
			return atoi(argv[i] + len + 1);
	return -1;
}

/* Whether all that began with us live. */
static int all_meet(int port)
{
	for (uint64_t i = 0; i < facts->workers; i++)
		if (facts->meets[i].port != port || !sim_is_alive(facts->meets[i].pid))
			return 0;
	return 1;
}

static int trainer_save(struct words *w, const char *dir, const struct counts *c)
{
	char path[DIRS_PATH_MAX];
	struct error err;
	snprintf(path, sizeof path, "%.4000s/counts", dir);
	clock_sleep((double)sim_random(500) / 1000);
	if (fs_replace_file(path, c, sizeof *c, &err) != 0)
		sim_trace("%s: %s", err.place, err.text);
	if (!words_say("saved path=counts\n"))
		return -1;
	do
		if (!words_hear(w))
			return -1;
	while (!record_is(&w->record, "ok") && !record_is(&w->record, "err"));
	return 0;
}

static void trainer_resume(const char *path, struct counts *c)
{
	char *text;
	size_t len;
	struct error err;
	if (fs_read_file(path, sizeof *c, &text, &len, &err) != 0 || len != sizeof *c)
		sim_fail("%s can't be resumed", path);
	memcpy(c, text, len);
	free(text);
}

struct range {
	uint64_t begin, length;
};

/* A command that runs for one shard. */
static int each_main(int argc, char **argv)
{
	int epoch = number_of(argc, argv, "EPOCH"), begin = number_of(argc, argv, "BEGIN"), length = number_of(argc, argv, "LENGTH");
	clock_sleep((double)sim_random(2000) / 1000);
	if (sim_chance(0.02))
		return 1;
	for (int i = begin; i < begin + length; i++)
		facts->did[epoch][i] = 1;
	return 0;
}

int trainer_main(int argc, char **argv)
{
	if (facts->kind == KIND_EACH)
		return each_main(argc, argv);
	int rank = number_of(argc, argv, "RANK"), port = number_of(argc, argv, "MASTER_PORT"), is_over = 0, has_met = 0;
	struct words *w = calloc(1, sizeof *w);
	struct counts *c = calloc(1, sizeof *c);
	char save[DIRS_PATH_MAX] = "";
	if (!w || !c || rank < 0)
		return ERROR_OS;
	facts->meets[rank].pid = getpid();
	facts->meets[rank].port = port;
	clock_sleep((double)sim_random(1000) / 1000);
	while (!is_over) {
		struct range range[64];
		int ranges = 0;
		const struct record *r = &w->record;
		if (!words_say("next\n"))
			return ERROR_TEMPFAIL;
		do {
			struct range *at = &range[ranges];
			if (!words_hear(w))
				return ERROR_TEMPFAIL;
			if (record_is(r, "err"))
				sim_fail("next is answered err: %s", r->text ? r->text : "");
			if (record_is(r, "resume"))
				trainer_resume(record_get(r, "path"), c);
			if (record_is(r, "save"))
				snprintf(save, sizeof save, "%s", record_get(r, "path"));
			if (record_is(r, "range") &&
			    (ranges == 64 || record_u64(r, "begin", 0, facts->rows - 1, &at->begin, &w->err) != 0 ||
			     record_u64(r, "length", 1, facts->rows - at->begin, &at->length, &w->err) != 0))
				sim_fail("%s", w->err.text);
			ranges += record_is(r, "range");
			const char *state = record_is(r, "ok") ? record_get(r, "state") : NULL;
			is_over = state && strcmp(state, "end") == 0;
		} while (!record_is(r, "ok"));
		if (save[0] && trainer_save(w, save, c) != 0)
			return ERROR_TEMPFAIL;
		save[0] = '\0';
		/* What trainers do together begins when all are there, and fails when one is gone. */
		while (facts->together && !has_met && ranges > 0 && !(has_met = all_meet(port)))
			clock_sleep(0.1);
		if (facts->together && ranges > 0 && !all_meet(port)) {
			if (sim_chance(0.2))
				clock_sleep(1e6);
			return 1;
		}
		if (ranges == 0)
			continue;
		clock_sleep((double)sim_random(200) / 1000);
		for (int i = 0; i < ranges; i++) {
			sim_trace("trains %llu rows from %llu on", (unsigned long long)range[i].length,
				  (unsigned long long)range[i].begin);
			for (uint64_t k = 0; k < range[i].length; k++)
				c->of[range[i].begin + k]++;
		}
		if (!words_say("step loss=0.5\n"))
			return ERROR_TEMPFAIL;
		do {
			if (!words_hear(w))
				return ERROR_TEMPFAIL;
			if (record_is(r, "save"))
				snprintf(save, sizeof save, "%s", record_get(r, "path"));
		} while (!record_is(r, "ok") && !record_is(r, "err"));
		if (record_is(r, "err"))
			sim_fail("step is answered err: %s", r->text ? r->text : "");
		if (save[0] && trainer_save(w, save, c) != 0)
			return ERROR_TEMPFAIL;
		save[0] = '\0';
	}
	clock_sleep((double)sim_random(3000) / 1000);
	if (facts->late_fails > 0 && sim_chance(0.3)) {
		facts->late_fails--;
		return 3;
	}
	facts->followed[rank] = 1;
	return 0;
}

/* ---- the programs of nodes ---- */

static int agent_main(int argc, char **argv)
{
	const char *rank = "0/1", *batch = "1", *ahead = "1", *wait = "60", *answer = "600", *grace = "10", *env[24];
	struct agent_options o = {.meter = {.load_root = "", .report_every = 5, .report_seconds = 1}, .jobs = 1};
	const struct {
		const char *name, **value;
	} options[] = {{"--id", &o.meter.id}, {"--shards", &o.shards}, {"--lead", &o.lead}, {"--monitor", &o.meter.monitor},
		       {"--resume", &o.resume}, {"--rank", &rank}, {"--batch", &batch}, {"--ahead", &ahead},
		       {"--wait", &wait}, {"--answer", &answer}, {"--grace", &grace}};
	size_t count = 0;
	int i = 1, is_each = 0, stopped;
	for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
		if (strcmp(argv[i], "--each") == 0) { /* the only one without a value */
			is_each = 1;
			i--;
			continue;
		}
		for (size_t k = 0; k < sizeof options / sizeof *options; k++)
			if (strcmp(argv[i], options[k].name) == 0)
				*options[k].value = argv[i + 1];
		if (strcmp(argv[i], "--env") == 0 && count < sizeof env / sizeof *env)
			env[count++] = argv[i + 1];
	}
	o.rank = strtoull(rank, NULL, 10);
	o.world = strtoull(strchr(rank, '/') + 1, NULL, 10);
	o.batch = strtoull(batch, NULL, 10);
	o.ahead = strtoull(ahead, NULL, 10);
	o.wait_seconds = strtod(wait, NULL);
	o.answer_seconds = strtod(answer, NULL);
	o.grace_seconds = strtod(grace, NULL);
	o.memory = (struct saved_memory){.worker = o.meter.id, .keeper = -1, .load_root = ""};
	o.command = (struct command_options){.argv = argv + i + 1, .id = o.meter.id, .env = env, .env_count = count,
					     .input = -1, .output = -1};
	return command_agent(&o, is_each, &stopped);
}

/* The fabric's world: it comes up when all its hosts are reached, and ends when one is not. */
struct fabric {
	struct server *server;
	struct between *sums;
	uint64_t cuts[HOSTS];
	int has[HOSTS];
	double lost;
};

static void world_end(struct request *rq, void *owner)
{
	struct fabric *w = owner;
	request_ok(rq, NULL);
	server_stop(w->server);
}

static void world_routes(struct request *rq, void *owner)
{
	(void)owner;
	request_ok(rq, NULL);
}

static int world_is_whole(const struct fabric *w)
{
	for (int i = 1; i < HOSTS; i++)
		if (w->has[i] && (facts->is_cut[i] || facts->cuts[i] != w->cuts[i]))
			return 0;
	return 1;
}

static void world_look(evutil_socket_t fd, short what, void *arg)
{
	struct fabric *w = arg;
	(void)fd;
	(void)what;
	if (w->lost == 0 && !world_is_whole(w))
		w->lost = clock_mono() + (sim_chance(0.5) ? 0 : (double)sim_random((uint64_t)UP_SECONDS));
	if (w->lost > 0 && clock_mono() >= w->lost)
		exit(1);
}

/* The replica's host, as a number among those of the world. */
static int fabric_host_of(pid_t pid)
{
	for (int i = R0; i < NODES; i++)
		if (facts->program[i] == pid)
			return facts->in_world[facts->host[i]];
	return -1;
}

static void fabric_closed(struct connection *c, void *owner)
{
	between_closed(((struct fabric *)owner)->sums, c);
}

static int fabric_main(int argc, char **argv)
{
	static const struct verb verbs[] = {{.name = "end", .handler = world_end},
					    {.name = "routes", .handler = world_routes, .payload_bytes_max = 1u << 20}};
	struct fabric w = {0};
	struct timeval often = {1, 0};
	struct error err;
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == 'h' && argv[i][1] >= '0' && argv[i][1] < '0' + HOSTS && !argv[i][2])
			w.has[argv[i][1] - '0'] = 1;
	memcpy(w.cuts, facts->cuts, sizeof w.cuts);
	clock_sleep((double)sim_random(sim_chance(0.1) ? 40000 : 2000) / 1000);
	if (!world_is_whole(&w)) {
		clock_sleep((double)sim_random((uint64_t)UP_SECONDS));
		return 1;
	}
	static const char *const names[HOSTS] = {"h0", "h1", "h2"};
	const char *host[HOSTS];
	unsigned hosts = 0;
	for (int i = 0; i < HOSTS; i++) {
		facts->in_world[i] = w.has[i] ? (int)hosts : -1;
		if (w.has[i])
			host[hosts++] = names[i];
	}
	if (between_new(&w.sums, host, hosts, fabric_host_of, &err) != 0)
		return err.code;
	const struct server_options o = {.path = RUN "/fabric.sock",
					 .role = "fabricd",
					 .verbs = verbs,
					 .verb_count = 2,
					 .owner = &w,
					 .more_verbs = between_verbs(w.sums),
					 .more_count = SUMS_VERBS,
					 .more_owner = w.sums,
					 .closed = fabric_closed};
	if (server_new(&w.server, &o, &err) != 0)
		return err.code;
	between_begin(w.sums, server_base(w.server));
	struct event *look = event_new(server_base(w.server), -1, EV_PERSIST, world_look, &w);
	event_add(look, &often);
	sim_bridge(getpid());
	int result = server_run(w.server, NULL, 0, &err);
	event_free(look);
	server_free(w.server);
	return result == 0 ? 0 : err.code;
}

/* ---- parents, and what stands for a node on another host ---- */

/* A copy of struct launch. */
static struct start {
	char id[OPTION_ID_MAX], host[HOST_NAME_MAX_BYTES], record[DIRS_PATH_MAX];
	uint64_t life;
	int node, at;
	int argc;
	char **argv;
} starts[LAUNCHES_MAX];
static size_t start_count;

static int (*main_of(int node))(int, char **)
{
	static int (*const mains[])(int, char **) = {shardd_main, bpt_monitor_main, ps_server_main, fabric_main};
	if (node >= PS0)
		return ps_server_main;
	return node < W0 ? mains[node] : facts->kind == KIND_SERVERS ? parameters_worker : agent_main;
}

/* Beside a server one may run that is its standby, or to which it hands over. */
static int is_heir(const struct start *st)
{
	for (int i = 0; i < st->argc; i++)
		if (strcmp(st->argv[i], "--standby") == 0 || strcmp(st->argv[i], "--take-over") == 0)
			return 1;
	return 0;
}

static pid_t start_program(struct start *st)
{
	int is_server = st->node >= PS0 && st->node < R0;
	if (is_server && is_heir(st) && sim_is_alive(facts->program[st->node]))
		st->node += SERVERS;
	else if (is_server && sim_is_alive(facts->program[st->node + SERVERS]) && !is_heir(st))
		sim_fail("%s runs twice", st->id);
	pid_t *program = &facts->program[st->node];
	if (sim_is_alive(*program) && facts->seen_cuts[st->node] == facts->cuts[facts->host[st->node]])
		sim_fail("%s runs twice", st->id);
	*program = sim_start(st->id, main_of(st->node), st->argc, st->argv);
	facts->host[st->node] = st->at;
	facts->seen_cuts[st->node] = facts->cuts[st->at];
	return *program;
}

/* Waits until a process has ended, or the other one (-1: none), or for half a second. Whether it is the first. */
static int has_ended(int fd, int other)
{
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = other, .events = POLLIN}};
	return poll(p, 2, 500) > 0 && p[0].revents;
}

/* On the other host: the program dies with it, and it ends when nobody has heard of it for long. */
static int far_main(int argc, char **argv)
{
	struct start *st = &starts[atoi(argv[1])];
	pid_t near = atoi(argv[2]), program = start_program(st);
	int fd = sim_pid_file(program), near_fd = sim_pid_file(near);
	double heard = clock_mono();
	(void)argc;
	sim_dies_with(program, getpid());
	while (!has_ended(fd, near_fd)) {
		if (clock_mono() > heard + REMOTE_FAR_SECONDS)
			return LOST_STATUS;
		if (!facts->is_cut[st->at])
			heard = clock_mono();
		if (!facts->is_cut[st->at] && !sim_is_alive(near))
			return LOST_STATUS;
		if (!sim_is_alive(near))
			clock_sleep(0.5); /* no word of its end comes through */
	}
	return sim_status(program);
}

static void near_on_signal(int number)
{
	for (int i = 0; i < NODES; i++)
		if (getpid() == facts->near[i] && facts->host[i] > 0 && !facts->is_cut[facts->host[i]])
			sim_signal(facts->program[i], number);
}

/* Ends as a signal ends a process, or with a status. */
static int end_like(int status)
{
	if (status > 128)
		sim_signal(getpid(), SIGKILL);
	return status;
}

/* node-host(8) */
static int near_main(int argc, char **argv)
{
	const struct start *st = &starts[atoi(argv[1])];
	char number[12], *words[] = {argv[0], argv[1], number, NULL};
	uint64_t cuts = facts->cuts[st->at];
	pid_t *far = &facts->far[st->at][st->node];
	(void)argc;
	facts->near[st->node] = getpid();
	signal(SIGTERM, near_on_signal);
	clock_sleep(0.02 + (double)sim_random(300) / 1000); /* an end there is known before a start elsewhere */
	if (facts->is_cut[st->at] || facts->cuts[st->at] != cuts) {
		clock_sleep((double)sim_random(10));
		return LOST_STATUS;
	}
	if (sim_is_alive(*far)) /* who has its lock there */
		sim_signal(*far, SIGKILL);
	snprintf(number, sizeof number, "%d", getpid());
	*far = sim_start("far", far_main, 3, words);
	sim_place(*far, st->at);
	int fd = sim_pid_file(*far);
	double heard = clock_mono();
	for (;;) {
		int ended = has_ended(fd, -1);
		int is_reached = !facts->is_cut[st->at] && facts->cuts[st->at] == cuts;
		if (ended && is_reached)
			return end_like(sim_status(*far));
		if (is_reached)
			heard = clock_mono();
		if ((ended && facts->cuts[st->at] != cuts && !facts->is_cut[st->at]) || clock_mono() > heard + REMOTE_FAR_SECONDS)
			return LOST_STATUS;
		if (ended)
			clock_sleep(0.5);
	}
}

static int parent_sim_main(int argc, char **argv)
{
	struct start *st = &starts[atoi(argv[1])];
	struct node_record r = {.life = st->life, .parent = getpid(), .parent_start = (uint64_t)getpid(), .at = clock_epoch()};
	struct error err;
	facts->parent[st->node] = getpid();
	snprintf(r.id, sizeof r.id, "%s", st->id);
	snprintf(r.host, sizeof r.host, "%s", st->host);
	boot_id(r.boot);
	clock_sleep((double)sim_random(20) / 1000);
	(void)argc;
	pid_t node = st->at > 0 ? sim_start("near", near_main, 2, argv) : start_program(st);
	sim_stop(node, 1e9); /* until its record is written; without it, it does not begin */
	sim_dies_with(node, getpid());
	r.pid = node;
	r.start = (uint64_t)node;
	if (node_record_write(st->record, &r, &err) != 0)
		return ERROR_OS;
	sim_dies_with(node, 0);
	sim_stop(node, 0);
	int fd = sim_pid_file(node), status;
	while (!has_ended(fd, -1))
		;
	status = sim_status(node);
	r.ended = 1;
	r.end_at = clock_epoch();
	r.end = (struct node_end){.seen = 1, .status = status > 128 ? 0 : status, .signal = status > 128 ? status - 128 : 0};
	while (node_record_write(st->record, &r, &err) != 0)
		clock_sleep(0.5);
	return 0;
}

int __wrap_parent_launch(const struct launch *l, pid_t *parent, struct error *err);
int __wrap_parent_launch(const struct launch *l, pid_t *parent, struct error *err)
{
	struct start *st = &starts[start_count];
	char number[12], name[OPTION_ID_MAX + 8], *argv[] = {name, number, NULL};
	int lock;
	if (start_count == LAUNCHES_MAX)
		sim_fail("nodes are started again and again");
	if (fs_lock(l->lock, &lock, err) != 0)
		return -1;
	snprintf(number, sizeof number, "%zu", start_count++);
	snprintf(name, sizeof name, "%s-parent", l->name.id);
	snprintf(st->id, sizeof st->id, "%s", l->name.id);
	snprintf(st->host, sizeof st->host, "%s", l->name.place->host);
	snprintf(st->record, sizeof st->record, "%s", l->record);
	st->life = l->life;
	st->node = node_of(l->name.id);
	st->at = l->name.place->launcher->is_far ? l->name.place->host[1] - '0' : 0;
	st->argc = 0;
	while (l->argv[st->argc])
		st->argc++;
	st->argv = calloc((size_t)st->argc + 1, sizeof *st->argv);
	for (int i = 0; i < st->argc; i++)
		st->argv[i] = strdup(l->argv[i]);
	*parent = sim_start(name, parent_sim_main, 2, argv);
	sim_give_file(*parent, lock, 4);
	close(lock);
	return 0;
}

int __wrap_process_start(pid_t pid, uint64_t *start);
int __wrap_process_start(pid_t pid, uint64_t *start)
{
	*start = (uint64_t)pid;
	return sim_is_alive(pid) ? 0 : -1;
}

int __wrap_process_alive(pid_t pid, uint64_t start);
int __wrap_process_alive(pid_t pid, uint64_t start)
{
	return sim_is_alive(pid) && start == (uint64_t)pid;
}

int __wrap_process_watch(pid_t pid, uint64_t start);
int __wrap_process_watch(pid_t pid, uint64_t start)
{
	return __wrap_process_alive(pid, start) ? sim_pid_file(pid) : -1;
}

int __wrap_process_find(const char *program, const char *search, char *out, size_t out_max, struct error *err);
int __wrap_process_find(const char *program, const char *search, char *out, size_t out_max, struct error *err)
{
	(void)search;
	(void)err;
	snprintf(out, out_max, "/bin/%s", program);
	return 0;
}

/* ---- what is asked of a host ---- */

struct child {
	struct event *timer;
	struct child_options options;
	int host;
	double until;
};

static void child_look(evutil_socket_t fd, short what, void *arg)
{
	struct child *c = arg;
	struct timeval soon = {0, 500000};
	struct child_end e = {.end = {.seen = 1}, .output = "", .seconds = c->options.seconds};
	(void)fd;
	(void)what;
	if (facts->is_cut[c->host] && clock_mono() < c->until) {
		event_add(c->timer, &soon);
		return;
	}
	if (facts->is_cut[c->host]) {
		e.cut = CHILD_LATE;
		e.end.signal = SIGKILL;
	}
	struct child_options o = c->options;
	child_free(c);
	if (o.done)
		o.done(&e, o.arg);
}

int __wrap_child_ask(struct child **out, struct event_base *base, struct argv *argv, struct child_options o, struct error *err);
int __wrap_child_ask(struct child **out, struct event_base *base, struct argv *argv, struct child_options o, struct error *err)
{
	struct child *c = calloc(1, sizeof *c);
	struct timeval soon = {0, 1000 + (int)sim_random(500000)};
	(void)err;
	for (size_t i = 0; i < argv->count; i++)
		if (argv->word[i][0] == 'h' && argv->word[i][1] > '0' && argv->word[i][1] < '0' + HOSTS && !argv->word[i][2])
			c->host = argv->word[i][1] - '0';
	argv_free(argv);
	c->options = o;
	c->until = clock_mono() + o.seconds;
	c->timer = evtimer_new(base, child_look, c);
	event_add(c->timer, &soon);
	*out = c;
	return 0;
}

void __wrap_child_free(struct child *c);
void __wrap_child_free(struct child *c)
{
	if (!c)
		return;
	event_free(c->timer);
	free(c);
}

/* ---- pages over HTTP: there are none ---- */

int __wrap_http_new(struct http **out, const struct http_options *options, struct error *err);
int __wrap_http_new(struct http **out, const struct http_options *options, struct error *err)
{
	(void)options;
	*out = NULL;
	return error_set(err, ERROR_OS, "http", "not here");
}

void __wrap_http_free(struct http *h);
void __wrap_http_free(struct http *h)
{
	(void)h;
}

int __wrap_http_listen_tcp(struct http *h, const struct sockaddr *address, socklen_t len, char *name, struct error *err);
int __wrap_http_listen_tcp(struct http *h, const struct sockaddr *address, socklen_t len, char *name, struct error *err)
{
	(void)h;
	(void)address;
	(void)len;
	(void)name;
	return error_set(err, ERROR_OS, "http", "not here");
}

int __wrap_http_listen_unix(struct http *h, const char *path, struct error *err);
int __wrap_http_listen_unix(struct http *h, const char *path, struct error *err)
{
	(void)h;
	return error_set(err, ERROR_OS, path, "not here");
}

int __wrap_http_try_tcp(const struct sockaddr *address, socklen_t len, char *name, struct error *err);
int __wrap_http_try_tcp(const struct sockaddr *address, socklen_t len, char *name, struct error *err)
{
	return __wrap_http_listen_tcp(NULL, address, len, name, err);
}

/* ---- the supervisor ---- */

/* Rows: from which phase; columns: to which. */
static const char edges[PHASES][PHASES + 1] = {
	/*                    s r v f r w l f s s o */
	[PHASE_SERVICES]  = ".xx.x...x..",
	[PHASE_ROLLBACK]  = "..x.....x..",
	[PHASE_SERVERS]   = ".x.xxx..x..",
	[PHASE_FIRST_CUT] = ".x..xx..x..",
	[PHASE_RUNNING]   = ".x...xxxx..",
	[PHASE_WINDING]   = ".x....x.x..",
	[PHASE_LAST_CUT]  = ".x..x..xx..",
	[PHASE_FINISHING] = ".x......x..",
	[PHASE_STOPPING]  = ".........x.",
	[PHASE_SCORING]   = "..........x",
	[PHASE_OVER]      = "...........",
};

void __real_sup_log(struct supervisor *s, struct record_out *o);
void __wrap_sup_log(struct supervisor *s, struct record_out *o);
void __wrap_sup_log(struct supervisor *s, struct record_out *o)
{
	if (s->phases.now != facts->phase) {
		if (edges[facts->phase][s->phases.now] != 'x')
			sim_fail("phase %s follows %s", sup_phase_name(s->phases.now), sup_phase_name(facts->phase));
		sim_trace("phase %s", sup_phase_name(s->phases.now));
		facts->phase = s->phases.now;
	}
	__real_sup_log(s, o);
}

/* ---- what a standby may lack ---- */

int __real_lag_add(struct lag *l, const struct lag_push *push, struct error *err);
int __wrap_lag_add(struct lag *l, const struct lag_push *push, struct error *err);
int __wrap_lag_add(struct lag *l, const struct lag_push *push, struct error *err)
{
	int result = __real_lag_add(l, push, err), kept = 0, older = 0;
	for (size_t i = 0; result == 0 && i < l->count; i++) {
		int lacks = l->push[i].kept && l->push[i].unit > l->merged;
		kept += lacks;
		older |= lacks && l->push[i].unit < push->unit; /* one unit may have more */
	}
	if (older && kept > facts->divergence)
		sim_fail("the standby may lack %d pushes, and lacks %d", facts->divergence, kept);
	return result;
}

/* ---- replicas are alike ---- */

void __real_ps_unit_applied(struct ps *p, uint64_t samples);
void __wrap_ps_unit_applied(struct ps *p, uint64_t samples);
void __wrap_ps_unit_applied(struct ps *p, uint64_t samples)
{
	__real_ps_unit_applied(p, samples);
	if (!p->replica)
		return;
	struct alike *at = &facts->alike[p->applied % ALIKE_MAX];
	size_t bytes = store_dense_count(p->store) * sizeof(float);
	uint64_t sum = XXH3_64bits(store_dense(p->store), bytes);
	if (at->incarnation == p->options.incarnation && at->iteration == p->applied && at->sum != sum)
		sim_fail("replicas differ at iteration %llu", (unsigned long long)p->applied);
	*at = (struct alike){p->options.incarnation, p->applied, sum};
}

static int make_job(struct job *job, struct error *err)
{
	static const char *const sync[] = {"bsp", "ssp:2", "asp", "allreduce", "allreduce,delay:1"};
	char text[24][64];
	size_t count = 0;
	snprintf(text[count++], 64, "JOB=sim");
	if (facts->kind == KIND_SERVERS) {
		snprintf(text[count++], 64, "DATA=" PARAMETERS_DATA);
		snprintf(text[count++], 64, "LABEL=y");
		snprintf(text[count++], 64, "DENSE=a");
		snprintf(text[count++], 64, "SPARSE=b");
		snprintf(text[count++], 64, "MODEL=audit,counts:1");
		if (!JOB_OF_REPLICAS)
			snprintf(text[count++], 64, "SERVERS=%d,standby:%s,divergence:%d", facts->servers,
				 facts->stands_by ? "on" : "off", facts->divergence);
		snprintf(text[count++], 64, "SYNC=%s", sync[facts->sync]);
	} else {
		snprintf(text[count++], 64, "TRAINER=train");
		snprintf(text[count++], 64, "TRAINER_KIND=%s", facts->kind == KIND_EACH ? "each" : "loop");
		snprintf(text[count++], 64, "SAMPLES=%llu", (unsigned long long)facts->rows);
	}
	snprintf(text[count++], 64, "EPOCHS=%llu", (unsigned long long)facts->epochs);
	snprintf(text[count++], 64, "BATCH=%llu,shard:%llu", (unsigned long long)facts->batch,
		 (unsigned long long)facts->batches);
	if (facts->kind != KIND_EACH) {
		snprintf(text[count++], 64, "WORKERS=ahead:%llu", (unsigned long long)facts->ahead);
		snprintf(text[count++], 64, "CHECKPOINT=%g", facts->every);
	}
	snprintf(text[count++], 64, "WORKERS=%llu", (unsigned long long)facts->workers);
	snprintf(text[count++], 64, "SHUFFLE=%s", facts->is_shuffled ? "shards" : "none");
	snprintf(text[count++], 64, "RESTARTS=1000,shard:1000%s", facts->kind == KIND_EACH ? "" : ",rollbacks:1000");
	snprintf(text[count++], 64, "BAD_HOSTS=avoid:600,wait:forever");
	if (job_init(job, err) != 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (job_set_text(job, text[i], err) != 0)
			return -1;
	return job_finish(job, "job.env", err);
}

static int supervisor_main(int argc, char **argv)
{
	static struct node_place place[HOSTS];
	static char node_host[] = "/bin/node-host";
	struct hosts hosts = {.count = (size_t)facts->hosts, .place = place, .launcher = launcher_find("ssh"), .node_host = node_host};
	struct job *job = calloc(1, sizeof *job);
	struct supervisor_result *result = calloc(1, sizeof *result);
	struct supervisor_options *o = calloc(1, sizeof *o);
	struct error err = {0};
	struct record r;
	(void)argc;
	(void)argv;
	facts->phase = PHASE_SERVICES;
	for (int i = 0; i < HOSTS; i++) {
		place[i] = (struct node_place){.launcher = launcher_find(i ? "ssh" : "local"), .cores = 4, .memory_mib = 1000};
		snprintf(place[i].host, sizeof place[i].host, "h%d", i);
		place[i].node_host = i ? hosts.node_host : NULL;
	}
	*o = (struct supervisor_options){
		.job = job, .dirs = {.run = RUN, .state = STATE}, .samples = facts->rows, .hosts = &hosts, .row_seconds = 5};
	if (make_job(job, &err) != 0 || dirs_make(&o->dirs, &err) != 0 ||
	    fs_replace_file(STATE "/job.env", "JOB=sim\n", 8, &err) != 0)
		sim_fail("%s: %s", err.place, err.text);
	if (facts->kind == KIND_SERVERS && access(STATE "/layout", F_OK) != 0)
		parameters_prepare(STATE, facts->rows);
	if (supervisor_run(o, result, &err) != 0) {
		sim_trace("%s: %s", err.place, err.text);
		return err.code;
	}
	sim_trace("%s", result->summary);
	if (record_first(&r, result->summary, strlen(result->summary), &err) != 0)
		sim_fail("%s", err.text);
	if (strcmp(record_get(&r, "state"), "done") == 0 && result->status == 0) {
		facts->is_over = 1;
		snprintf(facts->checkpoint, sizeof facts->checkpoint, "%s", record_get(&r, "checkpoint"));
	}
	return result->status;
}

/* ---- outside ---- */

static void start_supervisor(void)
{
	char name[] = "trainctl", *argv[] = {name, NULL};
	facts->supervisor = sim_start(name, supervisor_main, 1, argv);
}

/* What people ask of the job. */
static int people_main(int argc, char **argv)
{
	static const char *const hosts[] = {"h0", "h0,h1", "h1,h2", "h0,h1,h2"};
	struct record *r = calloc(1, sizeof *r);
	struct call *c;
	struct error err;
	char line[100];
	int t = (int)sim_random(facts->workers);
	(void)argc;
	(void)argv;
	if (!r || call_open(&c, RUN "/trainctl.sock", 1, 600, &err) != 0)
		return 1;
	static const int of_servers[] = {0, 1, 4, 5, 5, 6, 7, 7}, of_replicas[] = {0, 1, 2, 4, 8, 3};
	switch (JOB_OF_REPLICAS  ? of_replicas[sim_random(6)]
		: JOB_OF_SERVERS ? of_servers[sim_random(8)]
				 : (int)sim_random(5)) {
	case 0: snprintf(line, sizeof line, "checkpoint\n"); break;
	case 1: snprintf(line, sizeof line, "kill-restart id=w%d%s\n", t, sim_chance(0.5) ? " elsewhere=1" : ""); break;
	case 2: snprintf(line, sizeof line, "scale hosts=%s\n", hosts[sim_random(4)]); break;
	case 3: snprintf(line, sizeof line, "drain id=h%d within=%d\n", 1 + (int)sim_random(HOSTS - 1), (int)sim_random(30)); break;
	case 4: snprintf(line, sizeof line, "scale workers=%d\n", 1 + (int)sim_random(TRAINERS)); break;
	case 5: snprintf(line, sizeof line, "scale servers=%d\n", 1 + (int)sim_random(SERVERS)); break;
	case 6: snprintf(line, sizeof line, "rebalance\n"); break;
	case 7: snprintf(line, sizeof line, "kill-restart id=ps%d\n", (int)sim_random(SERVERS)); break;
	default: snprintf(line, sizeof line, "kill-restart id=r%d\n", (int)sim_random(HOSTS)); break;
	}
	if (call_request(c, line, strlen(line), r, NULL, NULL, &err) >= 0)
		sim_trace("%s: %s", r->type, r->text ? r->text : "");
	call_close(c);
	return 0;
}

static void keep_alive(void)
{
	for (int i = 1; i < HOSTS; i++)
		if (facts->is_cut[i] && (facts->calm || sim_seconds() > facts->back[i])) {
			sim_trace("h%d is back", i);
			facts->is_cut[i] = 0;
		}
	if (sim_is_alive(facts->supervisor) || facts->is_over || !(facts->calm || sim_chance(0.3)))
		return;
	if (facts->calm && facts->supervisor && ++facts->failures > FAILURES_CALM)
		sim_fail("the job fails again and again, now with status %d", sim_status(facts->supervisor));
	start_supervisor();
}

static void cut_host(int host, int is_dead)
{
	facts->is_cut[host] = 1;
	facts->cuts[host]++;
	double seconds = (double)sim_random(sim_chance(0.5) ? 20000 : 120000) / 1000;
	facts->back[host] = sim_seconds() + seconds;
	if (is_dead)
		sim_end_host(host);
	sim_trace("h%d is cut off for %g s", host, seconds);
}

/* Some node that lives, as most names are of nobody; if none does, any. */
static int some_node(void)
{
	int nodes = JOB_OF_SERVERS ? NODES : PS0, i = (int)sim_random((uint64_t)nodes);
	for (int k = 0; k < nodes && !sim_is_alive(facts->program[i]); k++)
		i = (i + 1) % nodes;
	return i;
}

static void harm(enum fault fault)
{
	char people[] = "people", *words[] = {people, NULL};
	int i = some_node(), t = (int)sim_random(TRAINERS), h = 1 + (int)sim_random(HOSTS - 1);
	switch (fault) {
	case FAULT_KILL_NODE: sim_signal(facts->program[i], SIGKILL); break;
	case FAULT_STOP_NODE: sim_stop(facts->program[i], (double)sim_random(40000) / 1000); break;
	case FAULT_KILL_PARENT: sim_signal(sim_chance(0.5) ? facts->parent[i] : facts->near[i], SIGKILL); break;
	case FAULT_KILL_TRAINER: sim_signal(command_pid(t), SIGKILL); break;
	case FAULT_STOP_TRAINER: sim_stop(command_pid(t), (double)sim_random(40000) / 1000); break;
	case FAULT_KILL_SUPERVISOR: sim_signal(facts->supervisor, SIGKILL); break;
	case FAULT_STOP_SUPERVISOR: sim_stop(facts->supervisor, (double)sim_random(40000) / 1000); break;
	case FAULT_INTERRUPT: sim_signal(facts->supervisor, SIGTERM); break;
	case FAULT_PEOPLE: sim_start(people, people_main, 1, words); break;
	case FAULT_HOST: cut_host(h, 1); break;
	case FAULT_CUT_HOST: cut_host(h, 0); break;
	case FAULT_CONNECTIONS: sim_cut_connections(sim_chance(0.5) ? facts->supervisor : facts->program[i]); break;
	case FAULT_FORKED:
		for (t = 0; t < 1000 && !sim_forked(facts->program[i]); t++)
			clock_sleep(0.001);
		if (sim_chance(0.5))
			sim_signal(sim_forked(facts->program[i]), SIGKILL);
		else
			sim_stop(sim_forked(facts->program[i]), (double)sim_random(8000) / 1000);
		break;
	case FAULTS: break;
	}
}

static void check_end(void)
{
	unsigned sum[ROWS_MAX] = {0};
	for (uint64_t i = 0; facts->kind == KIND_LOOP && i < facts->workers; i++) {
		struct counts c;
		char path[DIRS_PATH_MAX];
		snprintf(path, sizeof path, "%.4000s/w%d/counts", facts->checkpoint, (int)i);
		trainer_resume(path, &c);
		for (uint64_t k = 0; k < facts->rows; k++)
			sum[k] += c.of[k];
		if (!facts->followed[i])
			sim_fail("trainer %d has not done what follows its loop", (int)i);
	}
	for (uint64_t e = 0; facts->kind == KIND_EACH && e < facts->epochs; e++)
		for (uint64_t k = 0; k < facts->rows; k++)
			if (!facts->did[e][k])
				sim_fail("row %llu of epoch %llu is done, and no command had it", (unsigned long long)k,
					 (unsigned long long)e);
	for (uint64_t k = 0; facts->kind == KIND_LOOP && k < facts->rows; k++)
		if (sum[k] != facts->epochs)
			sim_fail("row %llu is %u times in %s, not %llu", (unsigned long long)k, sum[k], facts->checkpoint,
				 (unsigned long long)facts->epochs);
	if (facts->kind == KIND_SERVERS)
		parameters_check(facts->checkpoint, facts->rows, facts->epochs);
	model_has_all(STATE "/journal", facts->rows, facts->epochs);
	for (int i = 0; i < NODES; i++)
		if (sim_is_alive(facts->program[i]) && facts->host[i] == 0)
			sim_fail("%s is left behind", node_names[i]);
}

static void outside(void *arg)
{
	struct sim_weather weather;
	(void)arg;
	memset(facts, 0, sizeof *facts);
	command_begin();
	for (size_t i = 0; i < start_count; i++) {
		for (int k = 0; k < starts[i].argc; k++)
			free(starts[i].argv[k]);
		free(starts[i].argv);
	}
	start_count = 0;
	facts->rows = 1 + sim_random(ROWS_MAX);
	facts->epochs = 1 + sim_random(EPOCHS_MAX);
	facts->workers = 1 + sim_random(TRAINERS);
	facts->batch = TRAINERS + sim_random(20);
	facts->kind = JOB_OF_SERVERS ? KIND_SERVERS : sim_chance(0.4) ? KIND_EACH : KIND_LOOP;
	facts->hosts = facts->kind == KIND_SERVERS && !(JOB_OF_REPLICAS && sim_chance(0.8)) ? 1 : HOSTS;
	facts->servers = JOB_OF_SERVERS ? 1 + (int)sim_random(SERVERS) : 0;
	facts->stands_by = JOB_OF_SERVERS && sim_chance(0.6);
	facts->divergence = facts->stands_by && facts->servers > 1 && sim_chance(0.5) ? 1 + (int)sim_random(12) : 0;
	facts->sync = JOB_OF_REPLICAS ? 3 + (int)sim_random(2) : JOB_OF_SERVERS ? (int)sim_random(3) : 0;
	facts->batches = 1 + sim_random(8);
	facts->ahead = 1 + sim_random(3);
	facts->every = JOB_OF_SERVERS ? 2 + (double)sim_random(60) : 0.5 + (double)sim_random(20);
	facts->is_shuffled = sim_chance(0.5);
	facts->together = sim_chance(0.7);
	facts->late_fails = sim_chance(0.3) ? 1 + (int)sim_random(2) : 0;
	sim_weather(&weather, JOB_OF_SERVERS ? FAULTS : FAULT_FORKED, 0.3);
	if (JOB_OF_SERVERS) { /* no commands, and often one host */
		static const enum fault not_here[] = {FAULT_KILL_TRAINER, FAULT_STOP_TRAINER, FAULT_HOST, FAULT_CUT_HOST};
		for (size_t i = 0; i < (facts->hosts > 1 ? 2 : sizeof not_here / sizeof *not_here); i++) {
			weather.sum -= weather.weight[not_here[i]];
			weather.weight[not_here[i]] = 0;
		}
		facts->rows *= 5;
	}
	sim_trace("rows %d, workers %d, hosts %d, servers %d, standbys %d, divergence %d", (int)facts->rows, (int)facts->workers,
		  facts->hosts, facts->servers, facts->stands_by, facts->divergence);
	uint64_t pause = sim_chance(0.5) ? 2000 : JOB_OF_SERVERS ? 5000 : 20000, harms = 0, most = sim_random(HARMS_MAX);
	start_supervisor();
	while (harms < most && !facts->is_over) {
		clock_sleep((double)(1 + sim_random(pause)) / 1000);
		keep_alive();
		int fault = sim_weather_harm(&weather);
		if (fault >= 0)
			harm((enum fault)fault);
		harms++;
	}
	sim_be_calm();
	sim_trace("no more faults");
	facts->calm = 1;
	facts->late_fails = 0;
	double began = clock_mono();
	while (!facts->is_over || sim_is_alive(facts->supervisor)) {
		keep_alive();
		clock_sleep(1);
		if (clock_mono() > began + END_SECONDS)
			sim_fail("the job is not over %.0f s after the last fault, in phase %s", END_SECONDS,
				 sup_phase_name(facts->phase));
	}
	check_end();
}

int main(int argc, char **argv)
{
	facts = sim_shared(sizeof *facts);
	return sim_main(argc, argv, outside);
}

/*
 * world: see world.h.
 *
 * Receives are posted ahead, and tested; nothing is probed for: a probe that finds nothing may have
 * read what came, and a sleep after it would be one too long.
 */
#include "fabric/world.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"
#include "fabric/mpi_sockets.h"
#include "wire/timer.h"

#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define HEARD 48               /* messages that may wait for us besides those in MPI */
#define LOOKS 16               /* in one turn, before others have theirs */
#define SPIN_SECONDS 200e-6    /* after something has come, at most */
#define QUIET_LOOKS 2          /* before a sleep, where bulk is under way: each sees what MPI has read
				* in the last one */
#define WORK_SECONDS 20e-6     /* a turn that took so long has moved data */
#define WORK_TURNS 1000        /* slow ones in a row; with more, the machine is slow */
#define NAP_SECONDS 1e-3       /* the shortest sleep */
#define SLEEP_SECONDS 0.1      /* the longest: MPI's sockets wake us before */
#define FIND_SECONDS 1.0       /* between looks for sockets that are new */
#define CLOSE_SECONDS 5.0
#define BEAT_SECONDS 2.0       /* between two signs of life */
#define LATE_SECONDS (5 * BEAT_SECONDS) /* after so long without a turn we ourselves stood still */
#define VERSION_MAX 64
#define TAG_BITS 24

enum control { CONTROL_END, CONTROL_BEAT }; /* the first byte on WORLD_CONTROL */

struct heard {
	MPI_Request request;
	char data[WORLD_MESSAGE_MAX];
};

/* A send or a receive of bulk that is under way. */
struct flight {
	world_done_fn *done;
	world_came_fn *came; /* in place of done */
	void *arg;
	size_t bytes; /* that came, for `came` */
	int from;     /* rank; -1: it is sent */
};

struct listener {
	world_message_fn *fn;
	void *arg;
};

struct rank_info {
	char host[WORLD_HOST_MAX];
	char version[VERSION_MAX];
	enum sum_way way;
};

struct world {
	struct world_options options;
	MPI_Comm messages, bulk;
	int rank, size;
	struct rank_info *who;
	struct listener listener[WORLD_CHANNELS];
	struct heard *heard;
	size_t head; /* of those heard, the next one that can come */
	/* Side by side: MPI wants its requests in one array. */
	MPI_Request *request;
	struct flight *flight;
	size_t flights, request_room, flight_room;
	int *index;
	MPI_Status *status;
	struct flight *landed;
	size_t index_room, status_room, landed_room;
	struct timer *turn, *beat;
	double *alive; /* clock_mono() of the last message of each rank */
	double beat_at;
	int silent; /* a rank that hangs; -1: none does */
	struct mpi_sockets sockets;
	double busy_until, sleep, found_at;
	double happened_at, spin;
	int quiet;  /* looks since something came, in this turn */
	int worked; /* turns since then that took their time */
	int is_new; /* something may have come where no socket was watched */
	uint64_t sleeps;
	struct world_counts counts;
};

static void world_arm(struct world *w, double seconds)
{
	timer_set(w->turn, seconds);
}

/* Something has begun or arrived: look at MPI soon, and repeatedly for a while. */
static void stir(struct world *w)
{
	w->busy_until = clock_mono() + w->spin;
	w->sleep = NAP_SECONDS;
	w->worked = 0;
	world_arm(w, 0);
}

/* ---- bulk and sends ---- */

static int flight_room(struct world *w)
{
	size_t count = w->flights + 1;
	return GROW(w->request, w->request_room, count) != 0 ||
			       GROW(w->flight, w->flight_room, count) != 0 ||
			       GROW(w->index, w->index_room, count) != 0 ||
			       GROW(w->status, w->status_room, count) != 0 ||
			       GROW(w->landed, w->landed_room, count) != 0
		       ? -1
		       : 0;
}

static void depart(struct world *w, struct flight f)
{
	w->flight[w->flights++] = f;
	stir(w);
}

static void count_came(struct world *w, int n)
{
	double now = clock_mono();
	for (int i = 0; i < n; i++) {
		struct flight *f = &w->flight[w->index[i]];
		int bytes;
		if (f->from >= 0)
			w->alive[f->from] = now;
		if (!f->came)
			continue;
		MPI_Get_count(&w->status[i], MPI_BYTE, &bytes);
		f->bytes = (size_t)bytes;
		w->counts.bytes_received += f->bytes;
	}
}

/* Returns how many have ended, besides our own messages. They are reported in the order in which
 * they began. */
static int land(struct world *w)
{
	int n = 0;
	if (w->flights == 0)
		return 0;
	MPI_Testsome((int)w->flights, w->request, &n, w->index, w->status);
	if (n == MPI_UNDEFINED || n <= 0)
		return 0;
	count_came(w, n);
	size_t kept = 0, landed = 0;
	int told = 0;
	for (size_t i = 0; i < w->flights; i++) {
		if (w->request[i] == MPI_REQUEST_NULL) {
			w->landed[landed++] = w->flight[i];
			continue;
		}
		w->request[kept] = w->request[i];
		w->flight[kept++] = w->flight[i];
	}
	w->flights = kept;
	/* A callback may begin others, and the array of ended ones may move. */
	for (size_t i = 0; i < landed; i++) {
		struct flight f = w->landed[i];
		told += f.from < 0 && f.done == free;
		if (f.came)
			f.came(f.arg, f.bytes);
		else if (f.done)
			f.done(f.arg);
	}
	return (int)landed - told;
}

int world_tell(struct world *w, unsigned rank, enum world_channel channel, const void *head,
	       size_t head_bytes, const void *data, size_t bytes)
{
	char *copy = flight_room(w) == 0 ? malloc(head_bytes + bytes + 1) : NULL;
	int gone;
	if (!copy)
		return -1;
	MPI_Request *request = &w->request[w->flights];
	memcpy(copy, head, head_bytes);
	if (bytes > 0)
		memcpy(copy + head_bytes, data, bytes);
	MPI_Isend(copy, (int)(head_bytes + bytes), MPI_BYTE, (int)rank, (int)channel, w->messages,
		  request);
	w->counts.messages_sent++;
	w->counts.bytes_sent += head_bytes + bytes;
	/* Most have gone at once, and then MPI need not be looked at again for them. */
	MPI_Test(request, &gone, MPI_STATUS_IGNORE);
	if (gone)
		free(copy);
	else
		depart(w, (struct flight){.done = free, .arg = copy, .from = -1});
	return 0;
}

static int bulk_tag(enum world_channel channel, unsigned tag)
{
	return (int)((unsigned)channel << TAG_BITS | (tag & WORLD_TAG_MAX));
}

int world_send_bulk(struct world *w, unsigned rank, enum world_channel channel, unsigned tag,
		    const void *data, size_t bytes, world_done_fn *done, void *arg)
{
	if (flight_room(w) != 0)
		return -1;
	MPI_Isend(data, (int)bytes, MPI_BYTE, (int)rank, bulk_tag(channel, tag), w->bulk,
		  &w->request[w->flights]);
	w->counts.bytes_sent += bytes;
	depart(w, (struct flight){.done = done, .arg = arg, .from = -1});
	return 0;
}

static int receive_bulk(struct world *w, unsigned rank, enum world_channel channel, unsigned tag,
			void *into, size_t bytes, struct flight f)
{
	if (flight_room(w) != 0)
		return -1;
	MPI_Irecv(into, (int)bytes, MPI_BYTE, (int)rank, bulk_tag(channel, tag), w->bulk,
		  &w->request[w->flights]);
	depart(w, f);
	return 0;
}

int world_receive_bulk(struct world *w, unsigned rank, enum world_channel channel, unsigned tag,
		       void *into, size_t bytes, world_done_fn *done, void *arg)
{
	struct flight f = {.done = done, .arg = arg, .from = (int)rank};
	if (receive_bulk(w, rank, channel, tag, into, bytes, f) != 0)
		return -1;
	w->counts.bytes_received += bytes;
	return 0;
}

int world_receive_some(struct world *w, unsigned rank, enum world_channel channel, unsigned tag,
		       void *into, size_t bytes, world_came_fn *came, void *arg)
{
	struct flight f = {.came = came, .arg = arg, .from = (int)rank};
	return receive_bulk(w, rank, channel, tag, into, bytes, f);
}

/* ---- messages ---- */

void world_on(struct world *w, enum world_channel channel, world_message_fn *fn, void *arg)
{
	w->listener[channel] = (struct listener){fn, arg};
}

static void listen_for(struct world *w, struct heard *h)
{
	MPI_Irecv(h->data, sizeof h->data, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, w->messages,
		  &h->request);
}

/* A message goes to the receive that was posted first, so take them in turn. */
static int world_hear(struct world *w)
{
	struct heard *h = &w->heard[w->head];
	MPI_Status status;
	int came, bytes;
	MPI_Test(&h->request, &came, &status);
	if (!came)
		return 0;
	MPI_Get_count(&status, MPI_BYTE, &bytes);
	w->head = (w->head + 1) % HEARD;
	w->counts.messages_received++;
	w->counts.bytes_received += (size_t)bytes;
	w->alive[status.MPI_SOURCE] = clock_mono();
	struct listener *l =
		status.MPI_TAG < WORLD_CHANNELS ? &w->listener[status.MPI_TAG] : NULL;
	if (l && l->fn)
		l->fn((unsigned)status.MPI_SOURCE, h->data, (size_t)bytes, l->arg);
	listen_for(w, h);
	return 1;
}

/* ---- turns ---- */

static void find_sockets(struct world *w, double now)
{
	w->found_at = now;
	w->is_new = 0;
	if (mpi_sockets_find(&w->sockets) != 0)
		log_say(LOG_LEVEL_WARNING, "not all of MPI's connections can be watched");
}

static int is_quiet(const struct world *w)
{
	return w->quiet >= (w->flights > 0 ? QUIET_LOOKS : 1);
}

static int world_look(struct world *w)
{
	int all = 0;
	w->quiet = 0;
	for (int i = 0; i < LOOKS && !is_quiet(w); i++) {
		int came = land(w);
		came += world_hear(w);
		w->quiet = came > 0 ? 0 : w->quiet + 1;
		all += came;
	}
	return all;
}

/* Whether MPI was at work in a turn that took so long and told nothing. It writes and reads what
 * is large for as long as there is room or data, and whatever has ended by that is only told in the
 * next look. No socket would wake us for it. */
static int was_at_work(struct world *w, double seconds)
{
	return w->flights > 0 && seconds > WORK_SECONDS && ++w->worked <= WORK_TURNS;
}

/* Something has come. Where one thing follows the other within a short time, again and again, as
 * answers follow requests, we look for twice that time before we sleep: who is answered within
 * 50 us spins no longer than 100 us for it. A few with a pause behind them are no reason to. */
static void world_happened(struct world *w, double now)
{
	double gap = now - w->happened_at;
	w->happened_at = now;
	if (gap < SPIN_SECONDS)
		w->spin += (fmin(2 * gap, SPIN_SECONDS) - w->spin) / 8;
	else
		w->spin /= 2;
	w->busy_until = fmax(w->busy_until, now + w->spin);
}

static void world_take_turn(struct world *w)
{
	double began = clock_mono();
	int came = world_look(w);
	double now = clock_mono();
	if (came > 0) {
		world_happened(w, now);
		w->is_new = 1;
		w->worked = 0;
		w->sleep = NAP_SECONDS;
	} else if (was_at_work(w, now - began)) {
		w->sleep = NAP_SECONDS;
		w->quiet = 0;
	}
	if (now < w->busy_until || !is_quiet(w)) {
		if (came == 0)
			sched_yield();
		world_arm(w, 0);
		return;
	}
	if (w->is_new && now - w->found_at > FIND_SECONDS)
		find_sockets(w, now);
	/* What we have begun and what ends unseen waits no longer than four times the silence
	 * before it; all else wakes us. Without sockets to wake us every sleep is short. */
	int is_watched = w->sockets.count > 0 || w->size == 1;
	world_arm(w, is_watched && w->flights == 0 ? SLEEP_SECONDS : w->sleep);
	w->counts.sleeps++;
	if (is_watched)
		w->sleep = fmin(w->sleep * 4, SLEEP_SECONDS);
}

static void world_on_turn(void *world)
{
	world_take_turn(world);
}

static void on_socket(int listens, void *world)
{
	struct world *w = world;
	if (listens)
		w->found_at = 0;
	w->is_new = 1;
	w->sleep = NAP_SECONDS;
	world_take_turn(w);
}

/* ---- all others: signs of life, the end ---- */

static void world_tell_all(struct world *w, enum control what)
{
	char byte = (char)what;
	for (unsigned i = 0; i < (unsigned)w->size; i++)
		if (i != (unsigned)w->rank)
			(void)world_tell(w, i, WORLD_CONTROL, &byte, 1, NULL, 0);
}

static void on_control(unsigned rank, const void *data, size_t bytes, void *world)
{
	struct world *w = world;
	(void)rank;
	if (bytes == 1 && *(const char *)data == CONTROL_END && w->options.ended)
		w->options.ended(w->options.owner);
}

void world_end(struct world *w)
{
	world_tell_all(w, CONTROL_END);
}

static void all_are_alive(struct world *w, double now)
{
	for (int i = 0; i < w->size; i++)
		w->alive[i] = now;
	w->beat_at = now;
}

/* While we stood still ourselves, arrived messages were not read: do not count that time. */
static void on_beat(void *world)
{
	struct world *w = world;
	double now = clock_mono();
	timer_set(w->beat, BEAT_SECONDS);
	if (now - w->beat_at > LATE_SECONDS)
		all_are_alive(w, now);
	w->beat_at = now;
	world_tell_all(w, CONTROL_BEAT);
	for (int i = 0; i < w->size && w->silent < 0; i++) {
		if (i == w->rank || now - w->alive[i] < WORLD_SILENT_SECONDS)
			continue;
		w->silent = i;
		timer_stop(w->beat);
		if (w->options.ended)
			w->options.ended(w->options.owner);
	}
}

/* ---- making and ending ---- */

/* All ranks see the same and come to the same end. */
static int check_ranks(const struct world *w, struct error *err)
{
	for (int i = 0; i < w->size; i++) {
		const struct rank_info *a = &w->who[i];
		if (strcmp(a->version, w->who[0].version) != 0)
			return error_set(err, ERROR_CONFIG, a->host,
					 "has version %s, %s has %s: all hosts need the same",
					 a->version, w->who[0].host, w->who[0].version);
		if (a->way != w->who[0].way)
			return error_set(err, ERROR_CONFIG, a->host,
					 "has --rounds %s, %s has %s: all hosts need the same",
					 sum_way_name(a->way), w->who[0].host,
					 sum_way_name(w->who[0].way));
		for (int j = 0; j < i; j++)
			if (strcmp(a->host, w->who[j].host) == 0)
				return error_set(err, ERROR_CONFIG, a->host,
						 "is the name of two ranks, %d and %d: start one on "
						 "each host, or give them names", j, i);
	}
	return 0;
}

static int world_meet(struct world *w, struct error *err)
{
	struct rank_info me = {0};
	if (strlen(w->options.host) >= sizeof me.host)
		return error_set(err, ERROR_CONFIG, w->options.host, "name of a host too long");
	strncpy(me.host, w->options.host, sizeof me.host - 1);
	strncpy(me.version, w->options.version, sizeof me.version - 1);
	me.way = w->options.way;
	MPI_Allgather(&me, sizeof me, MPI_BYTE, w->who, sizeof me, MPI_BYTE, MPI_COMM_WORLD);
	/* All ranks exchange a message in pairs, so that the connections exist when we look for
	 * sockets. */
	for (int d = 1; d < w->size; d++) {
		int to = (w->rank + d) % w->size, from = (w->rank - d + w->size) % w->size;
		MPI_Sendrecv(NULL, 0, MPI_BYTE, to, 0, NULL, 0, MPI_BYTE, from, 0, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	}
	MPI_Comm_dup(MPI_COMM_WORLD, &w->messages);
	MPI_Comm_dup(MPI_COMM_WORLD, &w->bulk);
	return check_ranks(w, err);
}

static int world_make_events(struct world *w, struct error *err)
{
	struct event_base *base = w->options.base;
	w->turn = timer_new(base, world_on_turn, w);
	w->beat = timer_new(base, on_beat, w);
	if (!w->turn || !w->beat || mpi_sockets_begin(&w->sockets, base, on_socket, w) != 0)
		return error_set(err, ERROR_OS, "the MPI world", "no event loop");
	if (w->size > 1)
		timer_set(w->beat, BEAT_SECONDS);
	return 0;
}

/* What MPI does not hold. */
static void free_world(struct world *w)
{
	mpi_sockets_end(&w->sockets);
	timer_free(w->turn);
	timer_free(w->beat);
	free(w->alive);
	free(w->request);
	free(w->flight);
	free(w->index);
	free(w->status);
	free(w->landed);
	free(w->heard);
	free(w->who);
	free(w);
}

int world_open(struct world **out, const struct world_options *options, struct error *err)
{
	struct world *w = calloc(1, sizeof *w);
	int provided;
	if (!w)
		return error_set(err, ERROR_OS, "the MPI world", "out of memory");
	w->options = *options;
	w->silent = -1;
	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
		free_world(w);
		return error_set(err, ERROR_UNAVAILABLE, "the MPI world", "can't be entered");
	}
	w->spin = SPIN_SECONDS;
	MPI_Comm_rank(MPI_COMM_WORLD, &w->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &w->size);
	w->who = calloc((size_t)w->size, sizeof *w->who);
	w->heard = calloc(HEARD, sizeof *w->heard);
	w->alive = calloc((size_t)w->size, sizeof *w->alive);
	int result = !w->who || !w->heard || !w->alive
			     ? error_set(err, ERROR_OS, "the MPI world", "out of memory")
			     : 0;
	if (result == 0)
		result = world_meet(w, err);
	if (result == 0)
		result = world_make_events(w, err);
	if (result != 0) {
		MPI_Finalize();
		free_world(w);
		return -1;
	}
	for (size_t i = 0; i < HEARD; i++)
		listen_for(w, &w->heard[i]);
	world_on(w, WORLD_CONTROL, on_control, w);
	all_are_alive(w, clock_mono());
	find_sockets(w, clock_mono());
	stir(w);
	*out = w;
	return 0;
}

/* All ranks have come here. MPI goes on meanwhile: the others may wait for what we have sent. */
static int part(struct world *w, struct error *err)
{
	double deadline = clock_mono() + CLOSE_SECONDS;
	MPI_Request all;
	int done = 0, n;
	MPI_Ibarrier(MPI_COMM_WORLD, &all);
	while (!done && clock_mono() < deadline) {
		MPI_Test(&all, &done, MPI_STATUS_IGNORE);
		if (w->flights > 0)
			MPI_Testsome((int)w->flights, w->request, &n, w->index,
				     MPI_STATUSES_IGNORE);
		if (!done)
			clock_sleep(NAP_SECONDS / 10);
	}
	if (done)
		return 0;
	return error_set(err, ERROR_TEMPFAIL, "the MPI world",
			 "not all hosts have reached the end of the world in %.0f s", CLOSE_SECONDS);
}

int world_close(struct world *w, struct error *err)
{
	if (!w)
		return 0;
	int result = w->silent >= 0
			     ? error_set(err, ERROR_TEMPFAIL, world_host(w, (unsigned)w->silent),
					 /* lib/run/fabric_log.c looks for these words */
					 "nothing has come from its fabricd (rank %d) for %.0f s: it "
					 "hangs or can't be reached, and the world ends",
					 w->silent, WORLD_SILENT_SECONDS)
			     : part(w, err);
	if (result == 0) {
		for (size_t i = 0; i < HEARD; i++) {
			MPI_Cancel(&w->heard[i].request);
			MPI_Wait(&w->heard[i].request, MPI_STATUS_IGNORE);
		}
		for (size_t i = 0; i < w->flights; i++)
			if (w->request[i] != MPI_REQUEST_NULL)
				MPI_Request_free(&w->request[i]);
		MPI_Comm_free(&w->messages);
		MPI_Comm_free(&w->bulk);
		MPI_Finalize();
	}
	free_world(w);
	return result;
}

/* ---- asking ---- */

unsigned world_rank(const struct world *w)
{
	return (unsigned)w->rank;
}

unsigned world_size(const struct world *w)
{
	return (unsigned)w->size;
}

const char *world_host(const struct world *w, unsigned rank)
{
	return w->who[rank].host;
}

int world_find(const struct world *w, const char *host)
{
	for (int i = 0; i < w->size; i++)
		if (strcmp(w->who[i].host, host) == 0)
			return i;
	return -1;
}

void world_count(const struct world *w, struct world_counts *counts)
{
	*counts = w->counts;
	counts->sockets = w->sockets.count;
	counts->under_way = w->flights;
}

const struct mpi_sockets *world_sockets(const struct world *w)
{
	return &w->sockets;
}

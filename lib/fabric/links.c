/* links: see links.h. */
#include "fabric/links.h"

#include "base/clock.h"
#include "base/grow.h"
#include "fabric/mpi_sockets.h"
#include "fabric/rate.h"
#include "fabric/sum.h"
#include "fabric/world.h"
#include "record/record.h"
#include "wire/server.h"
#include "wire/timer.h"

#include <ifaddrs.h>
#include <linux/tcp.h> /* netinet/tcp.h lacks the newer fields */
#include <math.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#define WINDOW_SECONDS 0.25
#define LOOKS 5            /* in a window in which something is sent */
#define OLD_SECONDS 10.0   /* traffic that was not enough for a sample after this is forgotten */
#define TELL_SECONDS 0.5   /* between two words to rank 0 */
#define WAITING_BYTES 8192 /* fewer are small messages behind another connection's */
#define WAITING_ROUND_TRIPS 5
#define ALIKE_SECONDS 2.0   /* rates that are no further apart are of the same time */
#define RECENT_SECONDS 10.0 /* of rates of links that count for sums */
#define NAMED_WINDOWS 12    /* so long the others are asked for the end of a connection */
#define OTHER_SHARE 0.1     /* less of an interface's bytes may be headers */
#define INTERFACES 4

/* A connection of MPI. */
struct conn {
	int fd, seen;
	ino_t ino;
	uint64_t name; /* the same at both ends */
	int rank;      /* at the other end; -1: not known, or no rank */
	int named;     /* windows in which the others were asked */
	int waited;    /* bytes waited in the socket in this window, */
	int queued;    /* and on the way, at so many looks */
	int is_new;    /* `sent` and `received` are of no window */
	struct rate_counts sent, sent_now;
	uint64_t received, received_now;
};

/* Between this host and another one. */
struct far {
	struct rate out, in;
	struct traffic now, sending; /* of the window; of a sample that is not complete */
	struct traffic receiving;    /* what the other side said since the last window */
};

/* All connections of this host together, in one direction. */
struct port {
	struct rate rate;
	struct traffic traffic;
	double used, other,
		other_then; /* bytes/s: this job's, others', others' at the last sample */
	uint64_t bytes;     /* of this job */
};

/* What a host tells of a port. */
struct side {
	double rate, error, age, free;
	int is_least;
	uint64_t bytes;
};

enum why { MEASURED, NOT_BY_KERNEL, NOT_BY_TRANSPORT };

struct told {
	struct side out, in;
	uint64_t summed; /* bytes of dense vectors */
	enum why why;
};

struct known {
	struct told told;
	double at; /* clock_mono(); 0: it has told nothing */
};

struct links {
	struct world *world;
	uint64_t (*summed)(const void *owner);
	void (*measured)(void *owner);
	void *owner;
	struct timer *timer;
	struct conn *conn;
	size_t conns, conns_room;
	uint64_t finds;      /* of the world's sockets: the conns are those of that one */
	struct far *far;     /* of each rank */
	struct known *known; /* the same; of others only at rank 0 */
	struct port out, in;
	char interface[INTERFACES][IF_NAMESIZE];
	size_t interfaces;
	uint64_t interface_out, interface_in;
	double window_at, told_at, tick;
	int looks, moves, kernel_lacks;
};

enum word { WORD_NAMES, WORD_SAME, WORD_TRAFFIC, WORD_TOLD };

static void say(const struct links *l, unsigned rank, enum word word, const void *data,
		size_t bytes)
{
	/* Lost where there is no memory: the next one says the same. */
	(void)world_tell(l->world, rank, WORLD_LINKS, &word, sizeof word, data, bytes);
}

/* ---- connections, and who is at their other ends ---- */

struct end {
	unsigned char address[16];
	in_port_t port;
};

static int end_of(int fd, int (*ask)(int, struct sockaddr *, socklen_t *), struct end *end)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof at;
	memset(end, 0, sizeof *end);
	if (ask(fd, (struct sockaddr *)&at, &len) != 0)
		return -1;
	if (at.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&at;
		memcpy(end->address, &in->sin_addr, sizeof in->sin_addr);
		end->port = in->sin_port;
	} else {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&at;
		memcpy(end->address, &in->sin6_addr, sizeof in->sin6_addr);
		end->port = in->sin6_port;
	}
	return 0;
}

/* 0: it is not connected. */
static uint64_t conn_name(int fd)
{
	struct end end[2];
	if (end_of(fd, getsockname, &end[0]) != 0 || end_of(fd, getpeername, &end[1]) != 0)
		return 0;
	if (memcmp(&end[0], &end[1], sizeof *end) > 0) {
		struct end first = end[1];
		end[1] = end[0];
		end[0] = first;
	}
	return XXH3_64bits(end, sizeof end);
}

static void add_conn(struct links *l, const struct mpi_socket *s)
{
	for (size_t i = 0; i < l->conns; i++)
		if (l->conn[i].ino == s->ino && l->conn[i].fd == s->fd) {
			l->conn[i].seen = 1;
			return;
		}
	uint64_t name = s->listens ? 0 : conn_name(s->fd);
	if (name != 0 && GROW(l->conn, l->conns_room, l->conns + 1) == 0)
		l->conn[l->conns++] = (struct conn){.fd = s->fd,
						    .ino = s->ino,
						    .name = name,
						    .rank = -1,
						    .seen = 1,
						    .is_new = 1};
}

static void find_conns(struct links *l)
{
	const struct mpi_sockets *s = world_sockets(l->world);
	if (s->finds == l->finds)
		return;
	l->finds = s->finds;
	for (size_t i = 0; i < l->conns; i++)
		l->conn[i].seen = 0;
	for (size_t i = 0; i < s->count; i++)
		add_conn(l, &s->at[i]);
	for (size_t i = l->conns; i-- > 0;)
		if (!l->conn[i].seen)
			l->conn[i] = l->conn[--l->conns];
}

/* Asks all others for the ends that are not known. What leads to no rank is asked for in vain. */
static void name_conns(struct links *l)
{
	uint64_t name[WORLD_MESSAGE_MAX / sizeof(uint64_t) / 2];
	size_t count = 0;
	for (size_t i = 0; i < l->conns && count < sizeof name / sizeof *name; i++)
		if (l->conn[i].rank < 0 && l->conn[i].named++ < NAMED_WINDOWS)
			name[count++] = l->conn[i].name;
	for (unsigned i = 0; count > 0 && i < world_size(l->world); i++)
		if (i != world_rank(l->world))
			say(l, i, WORD_NAMES, name, count * sizeof *name);
}

/* The interface of this end: other traffic goes over it, too. */
static void add_interface(struct links *l, int fd)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof at;
	struct ifaddrs *all, *a;
	if (getsockname(fd, (struct sockaddr *)&at, &len) != 0 || getifaddrs(&all) != 0)
		return;
	for (a = all; a; a = a->ifa_next) {
		size_t size =
			at.ss_family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
		size_t from = at.ss_family == AF_INET ? offsetof(struct sockaddr_in, sin_addr)
						      : offsetof(struct sockaddr_in6, sin6_addr);
		if (a->ifa_addr && a->ifa_addr->sa_family == at.ss_family &&
		    memcmp((char *)a->ifa_addr + from, (char *)&at + from, size) == 0)
			break;
	}
	size_t i = 0;
	while (a && i < l->interfaces && strcmp(l->interface[i], a->ifa_name) != 0)
		i++;
	if (a && i == l->interfaces && i < INTERFACES && !(a->ifa_flags & IFF_LOOPBACK)) {
		snprintf(l->interface[l->interfaces++], IF_NAMESIZE, "%s", a->ifa_name);
		/* What it carried before is nobody's traffic of this window. */
		l->interface_out = l->interface_in = 0;
	}
	freeifaddrs(all);
}

static void take_names(struct links *l, unsigned rank, const char *name, size_t count, int answer)
{
	for (size_t i = 0; i < l->conns; i++) {
		struct conn *c = &l->conn[i];
		size_t at = 0;
		while (at < count &&
		       memcmp(name + at * sizeof c->name, &c->name, sizeof c->name) != 0)
			at++;
		if (at == count)
			continue;
		if (c->rank < 0)
			add_interface(l, c->fd);
		c->rank = (int)rank;
		if (answer)
			say(l, rank, WORD_SAME, &c->name, sizeof c->name);
	}
}

/* ---- looks ---- */

/* Bytes wait in a queue on the way, so long that the way itself hardly counts. */
static int is_queued(const struct tcp_info *info)
{
	return info->tcpi_unacked * info->tcpi_snd_mss > WAITING_BYTES &&
	       info->tcpi_rtt / WAITING_ROUND_TRIPS > info->tcpi_min_rtt;
}

static void look_at(struct links *l, struct conn *c)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof info;
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
		return;
	if (len <
	    offsetof(struct tcp_info, tcpi_sndbuf_limited) + sizeof info.tcpi_sndbuf_limited) {
		l->kernel_lacks = 1;
		return;
	}
	c->sent_now =
		(struct rate_counts){.bytes = info.tcpi_bytes_acked,
				     .busy = info.tcpi_busy_time,
				     .limited = info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited};
	c->received_now = info.tcpi_bytes_received;
	c->waited |= info.tcpi_notsent_bytes > WAITING_BYTES;
	c->queued += is_queued(&info);
}

/* What the interfaces have carried, of whomever. The counts in /sys may be another network
 * namespace's. */
static void read_interfaces(const struct links *l, uint64_t *out, uint64_t *in)
{
	char line[512], name[64];
	unsigned long long received, sent;
	FILE *file = l->interfaces > 0 ? fopen("/proc/self/net/dev", "re") : NULL;
	*out = *in = 0;
	while (file && fgets(line, sizeof line, file)) {
		if (sscanf(line, " %63[^: ]: %llu %*s %*s %*s %*s %*s %*s %*s %llu", name,
			   &received, &sent) != 3)
			continue;
		for (size_t i = 0; i < l->interfaces; i++)
			if (strcmp(l->interface[i], name) == 0) {
				*out += sent;
				*in += received;
			}
	}
	if (file)
		fclose(file);
}

/* bytes/s of others; `before` is 0 or greater than now where counts began anew. */
static double others(uint64_t before, uint64_t now, double own, double seconds)
{
	double all = before == 0 || now < before ? 0 : (double)(now - before);
	return all - own > OTHER_SHARE * all ? (all - own) / seconds : 0;
}

static int take_sample(struct rate *r, struct traffic *all, const struct traffic *window,
		       double tick, double now)
{
	if (window->bytes <= 0 && all->bytes <= 0)
		return 0;
	traffic_append(all, window);
	int is_enough = traffic_is_enough(all);
	return is_enough && rate_take(r, all, tick, now);
}

static void forget(struct traffic *all)
{
	if (traffic_is_enough(all) || all->seconds > OLD_SECONDS)
		*all = (struct traffic){0};
}

static void port_window(struct port *p, const struct traffic *window, double own, double other,
			double seconds, double tick, double now)
{
	p->used = own / seconds;
	p->other = other;
	p->bytes += (uint64_t)own;
	if (take_sample(&p->rate, &p->traffic, window, tick, now))
		p->other_then = other;
	forget(&p->traffic);
}

/* Of each connection what it has sent; returns the bytes received. */
static double conns_window(struct links *l, double seconds, double *sent)
{
	double received = 0;
	*sent = 0;
	for (size_t i = 0; i < l->conns; i++) {
		struct conn *c = &l->conn[i];
		struct traffic t;
		if (c->rank >= 0 && !c->is_new && c->received_now >= c->received &&
		    traffic_between(&t, &c->sent, &c->sent_now, seconds) == 0) {
			/* Late acknowledgements of single messages look like queues. */
			t.waited = c->waited || 2 * c->queued > LOOKS;
			traffic_beside(&l->far[c->rank].now, &t);
			*sent += t.bytes;
			received += (double)(c->received_now - c->received);
		}
		c->sent = c->sent_now;
		c->received = c->received_now;
		c->is_new = c->waited = c->queued = 0;
	}
	return received;
}

static void window(struct links *l, double now)
{
	double seconds = now - l->window_at, sent, received = conns_window(l, seconds, &sent);
	struct traffic out = {0}, in = {0};
	uint64_t interface_out, interface_in;
	read_interfaces(l, &interface_out, &interface_in);
	for (unsigned i = 0; i < world_size(l->world); i++) {
		struct far *f = &l->far[i];
		traffic_beside(&out, &f->now);
		traffic_beside(&in, &f->receiving);
		(void)take_sample(&f->out, &f->sending, &f->now, l->tick, now);
		if (traffic_is_enough(&f->sending))
			say(l, i, WORD_TRAFFIC, &f->sending, sizeof f->sending);
		forget(&f->sending);
		f->now = f->receiving = (struct traffic){0};
	}
	port_window(&l->out, &out, sent, others(l->interface_out, interface_out, sent, seconds),
		    seconds, l->tick, now);
	port_window(&l->in, &in, received, others(l->interface_in, interface_in, received, seconds),
		    seconds, l->tick, now);
	l->interface_out = interface_out;
	l->interface_in = interface_in;
	l->moves = sent > 0;
	l->window_at = now;
}

/* ---- what is told ---- */

static struct side side_of(const struct port *p, double now)
{
	const struct rate *r = &p->rate;
	struct side s = {.rate = NAN, .error = NAN, .age = NAN, .free = NAN, .bytes = p->bytes};
	if (r->count == 0)
		return s;
	s.rate = r->value;
	s.is_least = r->is_least;
	s.error = r->is_least ? NAN : r->error;
	s.age = now - r->at;
	s.free = fmin(fmax(r->value + p->other_then - p->other - p->used, 0),
		      r->value + p->other_then);
	return s;
}

/* A port is as fast as the fastest of its links, too: beside a slow one it is not used up. It is
 * so even if that link's sample was only a lower bound, below the rate that is known of the link:
 * then the port is not known better than that. */
static struct side side_with_links(const struct links *l, const struct port *port, size_t way,
				   double alike, double now)
{
	struct port p = *port;
	for (unsigned i = 0; i < world_size(l->world); i++) {
		const struct rate *r = (const struct rate *)((const char *)&l->far[i] + way);
		double since = port->rate.at - alike;
		if (r->count > 0 && r->value > p.rate.value && r->at > since)
			p.rate = *r;
		else if (r->count > 0 && r->seen > p.rate.value && r->seen_at > since)
			p.rate = (struct rate){.value = r->seen,
					       .is_least = 1,
					       .count = 1,
					       .at = r->seen_at};
	}
	return side_of(&p, now);
}

static enum why why_not(const struct links *l)
{
	int is_asked = l->conns == 0;
	if (l->kernel_lacks)
		return NOT_BY_KERNEL;
	for (size_t i = 0; i < l->conns; i++) {
		if (l->conn[i].rank >= 0)
			return MEASURED;
		is_asked |= l->conn[i].named >= NAMED_WINDOWS;
	}
	return is_asked && world_size(l->world) > 1 ? NOT_BY_TRANSPORT : MEASURED;
}

/* Nothing new: rank 0 need not hear it again. */
static int is_same(const struct side *a, const struct side *b)
{
	return a->bytes == b->bytes && (a->free == b->free || (isnan(a->free) && isnan(b->free)));
}

static void tell(struct links *l, double now)
{
	struct told told;
	struct known *own = &l->known[world_rank(l->world)];
	memset(&told, 0, sizeof told);
	told.out = side_with_links(l, &l->out, offsetof(struct far, out), ALIKE_SECONDS, now);
	told.in = side_with_links(l, &l->in, offsetof(struct far, in), ALIKE_SECONDS, now);
	told.summed = l->summed(l->owner);
	told.why = why_not(l);
	int is_new = own->at == 0 || own->told.why != told.why ||
		     !is_same(&told.out, &own->told.out) || !is_same(&told.in, &own->told.in);
	*own = (struct known){told, now};
	l->told_at = now;
	if (is_new && world_rank(l->world) != 0)
		say(l, 0, WORD_TOLD, &told, sizeof told);
}

static void links_on_timer(void *links)
{
	struct links *l = links;
	double now = clock_mono();
	find_conns(l);
	for (size_t i = 0; i < l->conns; i++)
		look_at(l, &l->conn[i]);
	if (++l->looks >= LOOKS || !l->moves) {
		l->looks = 0;
		name_conns(l);
		window(l, now);
		l->measured(l->owner);
	}
	if (now - l->told_at >= TELL_SECONDS)
		tell(l, now);
	timer_set(l->timer, l->moves ? WINDOW_SECONDS / LOOKS : WINDOW_SECONDS);
}

static void links_on_message(unsigned rank, const void *data, size_t bytes, void *links)
{
	struct links *l = links;
	enum word word;
	struct traffic t;
	if (bytes < sizeof word)
		return;
	memcpy(&word, data, sizeof word);
	data = (const char *)data + sizeof word;
	bytes -= sizeof word;
	if (word == WORD_NAMES || word == WORD_SAME) {
		take_names(l, rank, data, bytes / sizeof(uint64_t), word == WORD_NAMES);
	} else if (word == WORD_TRAFFIC && bytes == sizeof t) {
		memcpy(&t, data, sizeof t);
		rate_take(&l->far[rank].in, &t, l->tick, clock_mono());
		traffic_append(&l->far[rank].receiving, &t);
	} else if (word == WORD_TOLD && bytes == sizeof(struct told)) {
		memcpy(&l->known[rank].told, data, bytes);
		l->known[rank].at = clock_mono();
	}
}

static struct sum_rate sum_rate_of(const struct side *s)
{
	return (struct sum_rate){.rate = isnan(s->rate) ? 0 : s->rate, .is_least = s->is_least};
}

void links_own(const struct links *l, struct sum_rates *rates)
{
	double now = clock_mono();
	const struct side out = side_with_links(l, &l->out, offsetof(struct far, out),
						RECENT_SECONDS, now),
			  in = side_with_links(l, &l->in, offsetof(struct far, in), RECENT_SECONDS,
					       now);
	*rates = (struct sum_rates){sum_rate_of(&out), sum_rate_of(&in)};
}

/* ---- asking ---- */

static void add_side(struct record_out *o, const char *way, const struct side *s)
{
	char key[32];
	snprintf(key, sizeof key, "%s", way);
	record_add_brief(o, key, s->rate);
	snprintf(key, sizeof key, "%s-error", way);
	record_add_brief(o, key, s->error);
	snprintf(key, sizeof key, "%s-least", way);
	record_add_u64(o, key, s->is_least != 0);
	snprintf(key, sizeof key, "%s-age", way);
	record_add_seconds(o, key, s->age);
}

static void answer_host(const struct links *l, struct request *rq, unsigned rank, double now)
{
	static const char *const why[] = {NULL, "kernel", "transport"};
	const struct known *k = &l->known[rank];
	if (k->at == 0)
		return;
	struct told t = k->told;
	t.out.age += now - k->at;
	t.in.age += now - k->at;
	struct record_out *o = RECORD("host", F("host", world_host(l->world, rank)));
	add_side(o, "out", &t.out);
	record_add_brief(o, "out-free", t.out.free);
	record_add_u64(o, "sent-bytes", t.out.bytes);
	add_side(o, "in", &t.in);
	record_add_brief(o, "in-free", t.in.free);
	record_add_u64(o, "received-bytes", t.in.bytes);
	record_add_u64(o, "summed-bytes", t.summed);
	if (why[t.why])
		record_add(o, "unmeasured", why[t.why]);
	request_put_record(rq, o);
}

static void answer_link(const struct links *l, struct request *rq, unsigned rank, double now)
{
	const struct port out = {.rate = l->far[rank].out}, in = {.rate = l->far[rank].in};
	const struct side side[2] = {side_of(&out, now), side_of(&in, now)};
	struct record_out *o = RECORD("link", F("host", world_host(l->world, rank)));
	add_side(o, "out", &side[0]);
	add_side(o, "in", &side[1]);
	request_put_record(rq, o);
}

void links_answer(const struct links *l, struct request *rq)
{
	double now = clock_mono();
	for (unsigned i = 0; i < world_size(l->world); i++)
		answer_host(l, rq, i, now);
	for (unsigned i = 0; i < world_size(l->world); i++)
		if (i != world_rank(l->world))
			answer_link(l, rq, i, now);
}

/* ---- life ---- */

int links_new(struct links **out, struct event_base *base, struct world *w,
	      uint64_t (*summed)(const void *owner), void (*measured)(void *owner), void *owner,
	      struct error *err)
{
	struct links *l = calloc(1, sizeof *l);
	struct timespec tick;
	if (!l)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	l->world = w;
	l->summed = summed;
	l->measured = measured;
	l->owner = owner;
	l->window_at = clock_mono();
	/* The kernel counts busy times in ticks, and this clock goes by them. */
	l->tick = clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0 ? (double)tick.tv_nsec * 1e-9
								   : 0.01;
	l->far = calloc(world_size(w), sizeof *l->far);
	l->known = calloc(world_size(w), sizeof *l->known);
	l->timer = timer_new(base, links_on_timer, l);
	if (!l->far || !l->known || !l->timer) {
		links_free(l);
		return error_set(err, ERROR_OS, NULL, "out of memory");
	}
	if (world_size(w) > 1)
		timer_set(l->timer, WINDOW_SECONDS);
	world_on(w, WORLD_LINKS, links_on_message, l);
	*out = l;
	return 0;
}

void links_free(struct links *l)
{
	if (!l)
		return;
	timer_free(l->timer);
	free(l->conn);
	free(l->far);
	free(l->known);
	free(l);
}

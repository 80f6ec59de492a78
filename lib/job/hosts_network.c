/* hosts_network: see hosts.h. */
#include "job/hosts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct network {
	uint32_t address, mask; /* in the order of this machine */
};

static uint32_t of(const struct sockaddr *a)
{
	struct sockaddr_in in;
	memcpy(&in, a, sizeof in);
	return ntohl(in.sin_addr.s_addr);
}

static int hosts_network_is_in(const struct network *n, const struct addrinfo *found)
{
	for (; found; found = found->ai_next)
		if ((of(found->ai_addr) & n->mask) == n->address)
			return 1;
	return 0;
}

static struct addrinfo *hosts_network_look_up(const struct node_place *place)
{
	const char *at = strrchr(place->host, '@');
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	return getaddrinfo(at ? at + 1 : place->host, NULL, &hints, &found) == 0 ? found : NULL;
}

/* All networks of this machine except the loopback. */
static size_t own(const struct ifaddrs *all, struct network *out, size_t max)
{
	size_t count = 0;
	for (; all && count < max; all = all->ifa_next) {
		if (!all->ifa_addr || all->ifa_addr->sa_family != AF_INET || !all->ifa_netmask ||
		    !(all->ifa_flags & IFF_UP) || (all->ifa_flags & IFF_LOOPBACK))
			continue;
		uint32_t mask = of(all->ifa_netmask);
		out[count++] = (struct network){.address = of(all->ifa_addr) & mask, .mask = mask};
	}
	return count;
}

/* Which of these networks contain the host. */
static size_t hosts_network_keep(struct network *n, size_t count, const struct node_place *place)
{
	struct addrinfo *found = hosts_network_look_up(place);
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (hosts_network_is_in(&n[i], found))
			n[kept++] = n[i];
	if (found)
		freeaddrinfo(found);
	return kept;
}

void hosts_network(const struct hosts *h, char out[HOSTS_NETWORK_MAX])
{
	struct network n[64];
	struct ifaddrs *all = NULL;
	size_t count = getifaddrs(&all) == 0 ? own(all, n, sizeof n / sizeof *n) : 0;
	if (all)
		freeifaddrs(all);
	for (size_t i = 1; i < h->count && count > 0; i++)
		count = hosts_network_keep(n, count, &h->place[i]);
	out[0] = '\0';
	if (count == 0 || h->count < 2)
		return;
	const struct in_addr net = {.s_addr = htonl(n[0].address)};
	char text[INET_ADDRSTRLEN];
	inet_ntop(AF_INET, &net, text, sizeof text);
	snprintf(out, HOSTS_NETWORK_MAX, "%s/%d", text, __builtin_popcount(n[0].mask));
}

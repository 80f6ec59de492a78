/* metrics_to: see metrics_to.h. */
#include "job/metrics_to.h"

#include "base/number.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define GRAMMAR "DIR/NAME.prom, DIR/, unix:SOCKET or http://[ADDRESS]:PORT"
#define HTTP "http://"
#define UNIX "unix:"

static int ends_with(const char *word, const char *end)
{
	size_t len = strlen(word), n = strlen(end);
	return len > n && strcmp(word + len - n, end) == 0;
}

/* "127.0.0.1", "[::1]", "localhost", "" */
static int parse_address(struct metrics_to *to, const char *host, uint16_t port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&to->address;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&to->address;
	char bare[INET6_ADDRSTRLEN] = "";
	size_t n = strlen(host);
	if (host[0] == '[' && host[n - 1] == ']' && n - 2 < sizeof bare) {
		memcpy(bare, host + 1, n - 2);
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		to->len = sizeof *in6;
		return inet_pton(AF_INET6, bare, &in6->sin6_addr) == 1 ? 0 : -1;
	}
	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	to->len = sizeof *in;
	if (!host[0] || strcmp(host, "localhost") == 0)
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (inet_pton(AF_INET, host, &in->sin_addr) != 1)
		return -1;
	return 0;
}

static int parse_http(struct metrics_to *to, const char *word, struct error *err)
{
	char host[128];
	uint64_t port;
	size_t n = strcspn(word + strlen(HTTP), "/");
	const char *path = word + strlen(HTTP) + n;
	if (n >= sizeof host)
		return error_set(err, ERROR_CONFIG, NULL, "'%.80s' is too long", word);
	if (*path && strcmp(path, "/") != 0 && strcmp(path, "/metrics") != 0)
		return error_set(err, ERROR_CONFIG, NULL,
				 "'%.80s': leave %.40s out, the page is always /metrics", word,
				 path);
	memcpy(host, word + strlen(HTTP), n);
	host[n] = '\0';
	char *colon = strrchr(host, ':');
	if (!colon || number_u64(colon + 1, 0, 65535, &port, NULL, NULL) != 0)
		return error_set(err, ERROR_CONFIG, NULL,
				 "'%.80s' does not end with a port (0 to 65535): "
				 "http://ADDRESS:PORT",
				 word);
	*colon = '\0';
	to->kind = METRICS_TO_TCP;
	if (parse_address(to, host, (uint16_t)port) != 0)
		return error_set(err, ERROR_CONFIG, NULL,
				 "'%.80s': '%.60s' is no address; addresses are 127.0.0.1, [::1], "
				 "and 0.0.0.0 for all of this machine's",
				 word, host);
	return 0;
}

int metrics_to_parse(struct metrics_to *to, const char *word, struct error *err)
{
	*to = (struct metrics_to){.path = word};
	if (strncmp(word, HTTP, strlen(HTTP)) == 0) {
		to->path = NULL;
		return parse_http(to, word, err);
	}
	if (strncmp(word, UNIX, strlen(UNIX)) == 0) {
		to->kind = METRICS_TO_UNIX;
		to->path = word + strlen(UNIX);
		return to->path[0] ? 0
				   : error_set(err, ERROR_CONFIG, NULL,
					       "'%s' names no socket: unix:PATH", word);
	}
	to->kind = ends_with(word, "/") || strcmp(word, "/") == 0 ? METRICS_TO_DIR
								   : METRICS_TO_FILE;
	if (to->kind == METRICS_TO_FILE && (!ends_with(word, ".prom") || ends_with(word, "/.prom")))
		return error_set(err, ERROR_CONFIG, NULL, "'%.80s' is none of " GRAMMAR, word);
	return 0;
}

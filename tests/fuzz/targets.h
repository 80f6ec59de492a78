/*
 * targets: every parser of the kit, what clients say to its daemons (daemons.c), and what these answer
 * (clients.c), as functions of bytes, for fuzzers and for whoever replays what they found.
 * One row of fuzz_targets[] each. A target says nothing about what it is given: it may refuse it, but it may not crash,
 * hang, take memory without bound, or read what it has written in another way than it meant it (fuzz_must).
 *
 * What inputs do not reach (fault/fuzz --cover), and what does, is in `reasons`, file by file. No target has: memory and
 * disks that fail (fault/calls, fault/disk); functions of these files that only write; deadlines of seconds; a fork, another
 * process, and verbs that connect to sockets or write files that they are told of (fault/stranger).
 */
#ifndef PACELINE_TESTS_FUZZ_TARGETS_H
#define PACELINE_TESTS_FUZZ_TARGETS_H

#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
	const char *name;
	void (*run)(const uint8_t *data, size_t size);
	/* What it is about, below lib/: coverage is counted there, and its words go into the dictionary. */
	const char *files;
	int lines; /* lines of records: they are mutated as such, too */
	int sums_fit; /* every checksum is 0 while it runs, so that damage gets behind them */
};

extern const struct fuzz_target fuzz_targets[]; /* ends with a row without a name */
const struct fuzz_target *fuzz_find(const char *name); /* NULL: there is none */
void fuzz_run(const struct fuzz_target *target, const uint8_t *data, size_t size);

/* For the targets themselves. */
void fuzz_must(int holds, const char *what); /* a mistake that no sanitizer sees ends the process */
const char *fuzz_dir(void);                  /* in memory, and gone at the end */
const char *fuzz_path(char out[128], const char *name);

/* daemons.c */
struct server;
struct verb;
/* Clients say this to a server, until all is said. */
void fuzz_talk(struct server *s, const char *path, const uint8_t *data, size_t size);
/* These verbs are refused: those for a process of its own, or with files that they are told of. */
void fuzz_tame(struct verb *verb, size_t count, const char *const *names);
void fuzz_shardd(const uint8_t *data, size_t size);
void fuzz_lead(const uint8_t *data, size_t size);
void fuzz_ps(const uint8_t *data, size_t size);
void fuzz_ps_lead(const uint8_t *data, size_t size);
void fuzz_replica(const uint8_t *data, size_t size);
void fuzz_monitor(const uint8_t *data, size_t size);
void fuzz_http(const uint8_t *data, size_t size);
void fuzz_relay(const uint8_t *data, size_t size);

/* clients.c */
void fuzz_shards(const uint8_t *data, size_t size);
void fuzz_servers(const uint8_t *data, size_t size);
void fuzz_replicas(const uint8_t *data, size_t size);

#endif

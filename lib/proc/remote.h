/*
 * remote: a conversation with another host.  There, at the end of what the launcher starts here
 * (ssh(1), srun(1)), runs `node-host --serve` (remote_serve.h); this end asks it for things, in
 * order: to look at files, to make directories, to take files and give some back, and to run one
 * node.
 *
 * Both ends speak records (node-host(8) lists them), with a payload behind `bytes=`.  Both send a
 * sign of life every REMOTE_BEAT_SECONDS; each gives the other up when it has heard nothing for
 * the seconds below.  The far end does so first, and kills what it has started: when this end gives
 * a host up, nothing of ours runs there any more, unless the host itself has stopped.
 *
 * Nothing waits: the owner polls.
 */
#ifndef PACELINE_PROC_REMOTE_H
#define PACELINE_PROC_REMOTE_H

#include "base/boot.h"
#include "base/error.h"
#include "proc/inspect.h"
#include "proc/launcher.h"
#include "record/record.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#define REMOTE_BEAT_SECONDS 2.0
#define REMOTE_FAR_SECONDS 30.0  /* until the far end gives up */
/* Until the far end's elder process kills the younger, which does not move, with all that it has
 * started (remote_serve.h) */
#define REMOTE_STUCK_SECONDS 35.0
#define REMOTE_LEFT_SECONDS 6.0 /* and when this end has gone */
#define REMOTE_NEAR_SECONDS 40.0 /* until this end does */

struct remote;

struct remote_options {
	const struct launcher *launcher; /* one that is far */
	const char *host;
	const char *program;     /* path of node-host, the same here and there */
	const char *search_path; /* for the launcher's program; or NULL */
	uint64_t memory_mib, slurm_job; /* as in struct node_reach */
	int quiet; /* messages of that program are kept for errors; else they go to our stderr */
};

/* What the far end says of itself. */
struct remote_greeting {
	char version[32]; /* of the kit */
	char host[HOST_NAME_MAX_BYTES], boot[BOOT_ID_MAX];
	uint64_t cores, memory_mib;
};

/* Starts that program: now, or in a later turn, when others of this user are still opening connections to
 * the host (opening.h). Errors name the host from here on. */
int remote_open(struct remote **out, const struct remote_options *options, struct error *err);
/* Ends the connection, and with it what runs at its far end. NULL is fine. */
void remote_close(struct remote *r);

/* What poll(2) is to wait for, and how long at most, in milliseconds. */
#define REMOTE_POLLS 3
void remote_wants(const struct remote *r, struct pollfd polls[REMOTE_POLLS]);
int remote_timeout(const struct remote *r);
/* After poll(2): reads and writes what is possible without waiting. -1: the conversation is over,
 * and what has come was taken. ERROR_UNAVAILABLE: the host was not reached, or the connection is
 * lost; ERROR_CONFIG: there is no node-host there, or one of another version. */
int remote_turn(struct remote *r, const struct pollfd polls[REMOTE_POLLS], struct error *err);
/* 1: *out is the next record that has come, an answer (`ok`, `err`) or `end`, valid until the next
 * call; 0: none has come. Greetings and signs of life are handled inside. */
int remote_take(struct remote *r, const struct record **out, struct error *err);
/* The greeting; NULL: it has not come yet. */
const struct remote_greeting *remote_greets(const struct remote *r);
/* How the node that runs there moves, as the last sign of life said. */
const struct inspect_motion *remote_motion(const struct remote *r);
/* Turns an `err` answer into an error: its status, its place behind the host's name. Returns -1. */
int remote_refused(const struct remote *r, const struct record *answer, struct error *err);

/* ---- requests: queued; each has one answer ---- */
int remote_ask(struct remote *r, struct record_out *request, const void *payload, size_t bytes,
	       struct error *err);
/* A record of one key, `verb path=PATH`. */
int remote_ask_path(struct remote *r, const char *verb, const char *path, struct error *err);
/* A file, or a directory with the files and directories in it, to the same name there; several answers:
 * *asked is added to. The file is opened now, and read as it is sent. */
int remote_bring(struct remote *r, const char *path, size_t *asked, struct error *err);
/* Nothing more will be asked; tells the other side to end. */
void remote_done(struct remote *r);
/* The payload of the next answer goes to this descriptor, which stays the caller's; -1: nowhere. */
void remote_into(struct remote *r, int fd);

#endif

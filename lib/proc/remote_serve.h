/*
 * remote_serve: the far end of a conversation with another host (remote.h): looks at files, makes
 * directories, takes files, and runs one node.
 *
 * Two processes: the one that the launcher has started waits for the other, which leads its own
 * session and does the work.  When either dies, the conversation ends, or nothing is heard for
 * REMOTE_FAR_SECONDS, the node's whole process group is killed.  So it is when the younger does not
 * move for REMOTE_STUCK_SECONDS (SIGSTOP, storage that hangs), and the younger with it.
 */
#ifndef PACELINE_PROC_REMOTE_SERVE_H
#define PACELINE_PROC_REMOTE_SERVE_H

/* Talks on descriptors 0 and 1; the node's output goes to 2. search: a PATH for programs that are
 * not beside ours, or NULL. Returns an exit status. */
int remote_serve(const char *search);

#endif

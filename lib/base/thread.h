/*
 * thread: a thread that no signal interrupts: they are for the one that made it.
 */
#ifndef PACELINE_BASE_THREAD_H
#define PACELINE_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create(3): 0, or the number of the error. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif

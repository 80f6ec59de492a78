/* See team.h.  A loop is announced by its number; each thread takes pieces until there are none. */
#include "base/team.h"

#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct team {
	pthread_mutex_t lock;
	pthread_cond_t begun, done;
	unsigned loop;    /* its number */
	unsigned working; /* number of threads that have not left this loop */
	int end;
	size_t pieces;
	void (*do_piece)(size_t piece, void *arg);
	void *arg;
	atomic_size_t next;
	unsigned threads; /* with the caller */
	pthread_t thread[];
};

unsigned team_cores(void)
{
	cpu_set_t usable;

	return sched_getaffinity(0, sizeof usable, &usable) == 0 && CPU_COUNT(&usable) > 1
		       ? (unsigned)CPU_COUNT(&usable)
		       : 1;
}

static void team_work(struct team *t)
{
	size_t piece;

	while ((piece = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed)) < t->pieces)
		t->do_piece(piece, t->arg);
}

static void *team_thread_main(void *team)
{
	struct team *t = team;
	unsigned seen = 0;

	pthread_mutex_lock(&t->lock);
	for (;;) {
		while (t->loop == seen && !t->end)
			pthread_cond_wait(&t->begun, &t->lock);
		if (t->end)
			break;
		seen = t->loop;
		/* Woken too late: the others have done all the work, and the caller has gone on. */
		if (atomic_load_explicit(&t->next, memory_order_relaxed) >= t->pieces)
			continue;
		t->working++;
		pthread_mutex_unlock(&t->lock);
		team_work(t);
		pthread_mutex_lock(&t->lock);
		if (--t->working == 0)
			pthread_cond_signal(&t->done);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static int team_start(struct team *t)
{
	int errnum = thread_start(&t->thread[t->threads], team_thread_main, t);
	t->threads += errnum == 0;
	return errnum;
}

int team_new(struct team **out, unsigned threads, struct error *err)
{
	struct team *t = calloc(1, sizeof *t + threads * sizeof *t->thread);

	if (!t)
		return error_set(err, ERROR_OS, "threads", "out of memory");
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->begun, NULL);
	pthread_cond_init(&t->done, NULL);
	t->threads = 1;
	while (t->threads < threads) {
		if (team_start(t) != 0) {
			error_set(err, ERROR_OS, "threads", "no more than %u can be started",
				  t->threads);
			team_free(t);
			return -1;
		}
	}
	*out = t;
	return 0;
}

void team_free(struct team *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->end = 1;
	pthread_cond_broadcast(&t->begun);
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 1; i < t->threads; i++)
		pthread_join(t->thread[i], NULL);
	pthread_cond_destroy(&t->begun);
	pthread_cond_destroy(&t->done);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

unsigned team_threads(const struct team *t)
{
	return t ? t->threads : 1;
}

void team_run(struct team *t, size_t pieces, void (*do_piece)(size_t piece, void *arg), void *arg)
{
	if (!t || t->threads == 1 || pieces < 2) {
		for (size_t i = 0; i < pieces; i++)
			do_piece(i, arg);
		return;
	}
	pthread_mutex_lock(&t->lock);
	t->pieces = pieces;
	t->do_piece = do_piece;
	t->arg = arg;
	atomic_store_explicit(&t->next, 0, memory_order_relaxed);
	t->loop++;
	pthread_cond_broadcast(&t->begun);
	pthread_mutex_unlock(&t->lock);
	team_work(t);
	pthread_mutex_lock(&t->lock);
	while (t->working > 0)
		pthread_cond_wait(&t->done, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

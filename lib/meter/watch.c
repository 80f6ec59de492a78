/* watch: see watch.h. */
#include "meter/watch.h"

#include "base/clock.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct watch {
	struct load *load;
	pthread_t thread;
	int running;
	pthread_mutex_t lock; /* for all that follows, and what load knows */
	pthread_cond_t news;
	double seconds;
	int end;
};

static struct timespec moment(double at)
{
	struct timespec t = {.tv_sec = (time_t)at};
	t.tv_nsec = (long)((at - (double)t.tv_sec) * 1e9);
	return t;
}

static void *watch_thread_main(void *watch)
{
	struct watch *w = watch;
	pthread_mutex_lock(&w->lock);
	while (!w->end) {
		double marked = clock_mono();
		load_mark(w->load, marked);
		while (!w->end && clock_mono() < marked + w->seconds) {
			struct timespec next = moment(marked + w->seconds);
			pthread_cond_timedwait(&w->news, &w->lock, &next);
		}
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int watch_new(struct watch **out, const char *root, int marks, struct error *err)
{
	pthread_condattr_t steady;
	struct watch *w = calloc(1, sizeof *w);
	if (!w)
		return error_set(err, ERROR_OS, "", "out of memory");
	w->seconds = LOAD_PERIOD_SECONDS;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_cond_init(&w->news, &steady);
	pthread_condattr_destroy(&steady);
	if (load_new(&w->load, root, err) != 0) {
		watch_free(w);
		return -1;
	}
	int errnum = !marks ? 0 : thread_start(&w->thread, watch_thread_main, w);
	if (errnum != 0) {
		watch_free(w);
		return error_set(err, ERROR_OS, "", "the watching thread: %s", strerror(errnum));
	}
	w->running = marks;
	*out = w;
	return 0;
}

void watch_free(struct watch *w)
{
	if (!w)
		return;
	if (w->running) {
		pthread_mutex_lock(&w->lock);
		w->end = 1;
		pthread_cond_signal(&w->news);
		pthread_mutex_unlock(&w->lock);
		pthread_join(w->thread, NULL);
	}
	load_free(w->load);
	pthread_cond_destroy(&w->news);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void watch_seconds(struct watch *w, double seconds)
{
	pthread_mutex_lock(&w->lock);
	double before = w->seconds;
	w->seconds = seconds > LOAD_PERIOD_SECONDS ? seconds : LOAD_PERIOD_SECONDS;
	if (w->seconds < before)
		pthread_cond_signal(&w->news);
	pthread_mutex_unlock(&w->lock);
}

void watch_look(struct watch *w, double now, struct load_values *out)
{
	pthread_mutex_lock(&w->lock);
	load_look(w->load, now, out);
	pthread_mutex_unlock(&w->lock);
}

/* sum_pair: see sum_pair.h. */
#include "param/sum_pair.h"

#include "base/keep.h"
#include "param/layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define MAGIC "paceline-sums-1"

/* What is at the beginning of the file. */
struct file {
	struct {
		struct sum_pair_head head;
		uint64_t unused[5];
	} sum[2];
	char magic[16];
	uint64_t floats, incarnation;
};

_Static_assert(sizeof(struct file) <= SUM_PAIR_AT, "heads before the sums");

static struct file *sum_pair_file(const struct sum_pair *p)
{
	return (struct file *)(void *)p->base;
}

static size_t sum_pair_length(uint64_t floats)
{
	return (floats * sizeof(float) + PAGE - 1) / PAGE * PAGE;
}

static int get_memory(struct sum_pair *p)
{
	if (keep_fill(p->own_fd, p->bytes) != 0 ||
	    fcntl(p->own_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
	    fchmod(p->own_fd, 0400) != 0)
		return -1;
	void *base = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->own_fd, 0);
	if (base == MAP_FAILED)
		return -1;
	p->base = base;
	return 0;
}

int sum_pair_make(struct sum_pair *p, uint64_t floats, uint64_t incarnation, struct error *err)
{
	char again[64];

	*p = (struct sum_pair){.fd = -1, .own_fd = -1, .floats = floats, .incarnation = incarnation};
	if (floats == 0 || floats > SUM_PAIR_FLOATS_MAX)
		return error_set(err, ERROR_DATA, NULL, "floats=%llu is not 1 to %llu",
				 (unsigned long long)floats, (unsigned long long)SUM_PAIR_FLOATS_MAX);
	p->bytes = SUM_PAIR_AT + 2 * sum_pair_length(floats);
	p->own_fd = memfd_create("paceline-sums", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	snprintf(again, sizeof again, "/proc/self/fd/%d", p->own_fd);
	if (p->own_fd < 0 || get_memory(p) != 0 ||
	    (p->fd = open(again, O_RDONLY | O_CLOEXEC)) < 0) {
		error_errno(err, ERROR_OS, NULL, "%zu bytes for two sums", p->bytes);
		sum_pair_close(p);
		return -1;
	}
	struct file *f = sum_pair_file(p);
	memcpy(f->magic, MAGIC, sizeof f->magic);
	f->floats = floats;
	f->incarnation = incarnation;
	return 0;
}

int sum_pair_open(struct sum_pair *p, int fd, struct error *err)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	*p = (struct sum_pair){.fd = -1, .own_fd = -1};
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) != 0 ||
	    (uint64_t)st.st_size < SUM_PAIR_AT + 2 * PAGE)
		return error_set(err, ERROR_DATA, NULL,
				 "the descriptor is no memory of sums, sealed against shrinking");
	void *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return error_errno(err, ERROR_OS, NULL, "%lld bytes of sums",
				   (long long)st.st_size);
	p->base = base;
	p->bytes = (size_t)st.st_size;
	p->floats = sum_pair_file(p)->floats;
	p->incarnation = sum_pair_file(p)->incarnation;
	if (memcmp(sum_pair_file(p)->magic, MAGIC, sizeof MAGIC) == 0 && p->floats > 0 &&
	    p->floats <= SUM_PAIR_FLOATS_MAX &&
	    SUM_PAIR_AT + 2 * sum_pair_length(p->floats) == p->bytes &&
	    (p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0)
		return 0;
	sum_pair_close(p);
	return error_set(err, ERROR_DATA, NULL, "the memory has no sums, or has been damaged");
}

void sum_pair_close(struct sum_pair *p)
{
	if (p->base)
		munmap(p->base, p->bytes);
	if (p->fd >= 0)
		close(p->fd);
	if (p->own_fd >= 0)
		close(p->own_fd);
	*p = (struct sum_pair){.fd = -1, .own_fd = -1};
}

size_t sum_pair_offset(const struct sum_pair *p, int which)
{
	return SUM_PAIR_AT + (size_t)which * sum_pair_length(p->floats);
}

float *sum_pair_at(const struct sum_pair *p, int which)
{
	return (float *)(void *)(p->base + sum_pair_offset(p, which));
}

/* The writer says SUM_PAIR_OPEN before it changes anything. */
struct sum_pair_head sum_pair_head(const struct sum_pair *p, int which)
{
	struct sum_pair_head *head = &sum_pair_file(p)->sum[which].head, is;

	is.state = __atomic_load_n(&head->state, __ATOMIC_ACQUIRE);
	is.iteration = __atomic_load_n(&head->iteration, __ATOMIC_ACQUIRE);
	is.round = __atomic_load_n(&head->round, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&head->state, __ATOMIC_ACQUIRE) != is.state)
		is.state = SUM_PAIR_OPEN;
	return is;
}

void sum_pair_set(struct sum_pair *p, int which, const struct sum_pair_head *to)
{
	struct sum_pair_head *head = &sum_pair_file(p)->sum[which].head;

	if (to->state == SUM_PAIR_OPEN)
		__atomic_store_n(&head->state, to->state, __ATOMIC_SEQ_CST);
	__atomic_store_n(&head->iteration, to->iteration, __ATOMIC_SEQ_CST);
	__atomic_store_n(&head->round, to->round, __ATOMIC_SEQ_CST);
	__atomic_store_n(&head->state, to->state, __ATOMIC_SEQ_CST);
}

int sum_pair_find(const struct sum_pair *p, uint64_t iteration, enum sum_pair_state least)
{
	for (int which = 0; which < 2; which++) {
		struct sum_pair_head head = sum_pair_head(p, which);
		if (head.iteration == iteration && head.state >= least)
			return which;
	}
	return -1;
}

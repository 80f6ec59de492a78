/* mapping: see mapping.h. */
#include "wire/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void *mapping_at(const struct mapping *m, uint64_t offset, uint64_t bytes)
{
	if (!m || offset % 8 != 0 || offset > m->bytes || bytes > m->bytes - offset)
		return NULL;
	return m->base + offset;
}

static int map(struct mapping **out, int fd, uint64_t bytes, struct error *err)
{
	struct mapping *m = malloc(sizeof *m);
	if (!m)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	m->references = 1;
	m->bytes = (size_t)bytes;
	m->base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m->base == MAP_FAILED) {
		error_errno(err, ERROR_OS, NULL, "%llu bytes of shared memory",
			    (unsigned long long)bytes);
		free(m);
		return -1;
	}
	*out = m;
	return 0;
}

int mapping_new(struct mapping **out, int fd, uint64_t bytes, struct error *err)
{
	struct stat st;
	if (fd < 0)
		return error_set(err, ERROR_DATA, NULL, "map without a descriptor");
	/* Without the seal the client could shrink the memory under us, and we would die by
	 * SIGBUS. */
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return error_set(err, ERROR_DATA, NULL,
				 "the descriptor is no memfd sealed against shrinking");
	if (fstat(fd, &st) != 0 || st.st_size < 0 || bytes == 0 || (uint64_t)st.st_size < bytes ||
	    bytes > SIZE_MAX / 2)
		return error_set(err, ERROR_DATA, NULL,
				 "bytes=%llu is not within the %lld bytes of the descriptor",
				 (unsigned long long)bytes, (long long)st.st_size);
	return map(out, fd, bytes, err);
}

int mapping_make(struct mapping **out, int *fd, uint64_t bytes, struct error *err)
{
	int made = memfd_create("paceline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (made < 0)
		return error_errno(err, ERROR_OS, NULL, "memfd_create");
	int result = -1;
	if (bytes > SIZE_MAX / 2 || ftruncate(made, (off_t)bytes) != 0 ||
	    fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
		error_errno(err, ERROR_OS, NULL, "%llu bytes of shared memory",
			    (unsigned long long)bytes);
	else
		result = map(out, made, bytes, err);
	if (result != 0)
		close(made);
	else
		*fd = made;
	return result;
}

void mapping_release(struct mapping *m)
{
	if (!m || --m->references > 0)
		return;
	munmap(m->base, m->bytes);
	free(m);
}

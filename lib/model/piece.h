/*
 * piece: the floats of one register of the processor that this is compiled for.  Loops over 16
 * floats are loops over pieces where compilers do worse by themselves: gcc computes a vector of 64
 * bytes in memory where registers have fewer.  Private to lib/model.
 */
#ifndef PACELINE_MODEL_PIECE_H
#define PACELINE_MODEL_PIECE_H

#include <string.h>

#if defined(__AVX512F__)
#define PIECE 16
#elif defined(__AVX__)
#define PIECE 8
#else
#define PIECE 4
#endif

typedef float piece __attribute__((vector_size(PIECE * sizeof(float))));

static inline piece piece_load(const float *p)
{
	piece v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static inline void piece_store(float *p, piece v)
{
	memcpy(p, &v, sizeof(v));
}

#endif

/*
 * nccl: the calls of NCCL that Paceline uses, in one process (machine.h): sums to a card, in the
 * order of the cards.  A card starts when all have come, and goes on when the sum is there; so one
 * that is lost keeps the others waiting.
 */
#ifndef CUDACPU_NCCL_H
#define CUDACPU_NCCL_H

#include "cuda_runtime.h"

struct ncclComm {
	int rank, ranks, card;
	std::vector<cudaEvent_t> *events; /* of all ranks */
};

namespace cudacpu
{

struct reduction {
	const void *from;
	void *to;
	size_t count;
	int type, root;
	ncclComm *comm;
	stream *on;
};
inline std::vector<reduction> group;
/* What a lost card's work still has; never freed. */
inline auto *aborted = new std::vector<std::vector<cudaEvent_t> *>;

template <typename T> void reduce_run(const std::vector<reduction> &all, int root)
{
	T *to = (T *)all[(size_t)root].to;
	for (size_t i = 0; i < all[0].count; i++) {
		T sum = 0;
		for (const reduction &one : all)
			sum += ((const T *)one.from)[i];
		to[i] = sum;
	}
}

inline cudaEvent_t nccl_event(ncclComm *c)
{
	cudaEvent_t e = new event;
	c->events->push_back(e);
	return e;
}

/* All ranks' parts of one sum. */
inline void reduce_queue(const std::vector<reduction> &all)
{
	unwatched own;
	int root = all[0].root;
	stream *sums = all[(size_t)root].on;
	for (const reduction &one : all) {
		if (one.count != all[0].count || one.type != all[0].type || one.root != root)
			found("NCCL: the cards' calls are not about the same sum");
		size_t bytes = one.count * (one.type == 8 ? sizeof(double) : sizeof(float));
		check_place(one.from, bytes, true, "NCCL", one.comm->card);
		if (one.on->card != one.comm->card)
			found("NCCL: a stream of another card");
		if (one.on == sums)
			continue;
		cudaEvent_t there = nccl_event(one.comm);
		there->on = one.on;
		stream_add(one.on, nullptr, there, ++there->asked);
		stream_add(sums, nullptr, there, there->asked, true);
	}
	stream_add(sums, [=] {
		all[0].type == 8 ? reduce_run<double>(all, root) : reduce_run<float>(all, root);
	});
	cudaEvent_t done = nccl_event(all[0].comm);
	done->on = sums;
	stream_add(sums, nullptr, done, ++done->asked);
	for (const reduction &one : all)
		if (one.on != sums)
			stream_add(one.on, nullptr, done, done->asked, true);
}

} // namespace cudacpu

extern "C" {

inline int ncclCommInitAll(ncclComm **to, int ranks, const int *cards)
{
	if (cudacpu::set.nccl == 2 || cudacpu::fails())
		return 1;
	auto *events = new std::vector<cudaEvent_t>;
	for (int i = 0; i < ranks; i++)
		to[i] = new ncclComm{i, ranks, cards[i], events};
	return 0;
}

inline int ncclCommDestroy(ncclComm *c)
{
	if (c->rank == 0) {
		for (cudacpu::stream *s : cudacpu::streams)
			cudacpu::stream_drain(s);
		for (cudaEvent_t e : *c->events)
			delete e;
		delete c->events;
		cudacpu::set.live--;
	}
	delete c;
	return 0;
}

/* Nobody waits any more. */
inline int ncclCommAbort(ncclComm *c)
{
	if (c->rank == 0) {
		for (cudaEvent_t e : *c->events)
			e->reached = e->asked;
		cudacpu::aborted->push_back(c->events);
	}
	delete c;
	return 0;
}

inline int ncclGroupStart()
{
	return 0;
}

/* The i-th call of a rank belongs to the i-th of the others. */
inline int ncclGroupEnd()
{
	size_t ranks = (size_t)cudacpu::group[0].comm->ranks, each = cudacpu::group.size() / ranks;
	for (size_t i = 0; i < each; i++) {
		std::vector<cudacpu::reduction> all(ranks);
		for (const cudacpu::reduction &one : cudacpu::group)
			all[(size_t)one.comm->rank] =
				cudacpu::group[(size_t)one.comm->rank * each + i];
		cudacpu::reduce_queue(all);
	}
	cudacpu::group.clear();
	return 0;
}

inline int ncclReduce(const void *from, void *to, size_t count, int type, int, int root,
		      ncclComm *comm, cudaStream_t stream)
{
	cudacpu::group.push_back({from, to, count, type, root, comm, stream});
	return 0;
}
}

#endif

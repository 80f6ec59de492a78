/*
 * cuda_runtime: what Paceline uses of the CUDA language and of its runtime, on a CPU (machine.h).
 * It takes the place of the toolkit's header of the same name.  What is missing here doesn't
 * compile: it is added when a source needs it.
 */
#ifndef CUDACPU_CUDA_RUNTIME_H
#define CUDACPU_CUDA_RUNTIME_H

#include "machine.h"

#include <cmath>
#include <tuple>
#include <utility>

/* ---- the language ---- */

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
/* An array of shared memory; with nvcc: __shared__ type name size (see lib/model/cuda/device.h). */
#define SHARED(type, name, size)                                                                   \
	static const char name##_place = 0;                                                        \
	type(&name) size = *(type(*) size)cudacpu::shared(&name##_place, sizeof(type size))

static const dim3 &threadIdx = cudacpu::here.thread_index, &blockIdx = cudacpu::here.index,
		  &blockDim = cudacpu::here.size, &gridDim = cudacpu::here.grid;

struct float2 {
	float x, y;
};
struct alignas(16) float4 {
	float x, y, z, w;
};

#define __syncthreads() cudacpu::barrier(__FILE__, __LINE__)
#define __syncwarp(mask) cudacpu::warp_order(mask, __FILE__, __LINE__)
#define __shfl_sync(...) cudacpu::shuffle(__FILE__, __LINE__, cudacpu::FROM, __VA_ARGS__)
#define __shfl_xor_sync(...) cudacpu::shuffle(__FILE__, __LINE__, cudacpu::XOR, __VA_ARGS__)
#define __shfl_down_sync(...) cudacpu::shuffle(__FILE__, __LINE__, cudacpu::DOWN, __VA_ARGS__)
#define __ballot_sync(mask, is)                                                                    \
	(unsigned)cudacpu::warp_meet(mask, (is) ? 1 : 0, -1, __FILE__, __LINE__)

namespace cudacpu
{

enum shuffle_kind { FROM, XOR, DOWN };

template <typename T>
T shuffle(const char *file, int line, shuffle_kind kind, unsigned mask, T value, int by,
	  int width = 32)
{
	static_assert(sizeof(T) <= 8, "a lane gives 8 bytes at most");
	int lane = (int)(now->number % 32), first = lane / width * width;
	int source = kind == FROM ? first + by % width : kind == XOR ? lane ^ by : lane + by;
	if (source >= first + width)
		source = lane;
	uint64_t bits = 0;
	memcpy(&bits, &value, sizeof(T));
	bits = warp_meet(mask, bits, source, file, line);
	memcpy(&value, &bits, sizeof(T));
	return value;
}

inline void warp_order(unsigned mask, const char *file, int line)
{
	char *place = &here.warps[now->number / 32];
	happens(place);
	warp_meet(mask, 0, (int)(now->number % 32), file, line);
	after(place);
}

} // namespace cudacpu

template <typename T> T atomicAdd(T *at, T value)
{
	T was;
	__atomic_load(at, &was, __ATOMIC_RELAXED);
	for (T next = was + value;
	     !__atomic_compare_exchange(at, &was, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	     next = was + value)
		;
	return was;
}

template <typename T> T __ldg(const T *at)
{
	return *at;
}

inline float __int_as_float(int bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

template <typename T> T min(T a, T b)
{
	return b < a ? b : a;
}
template <typename T> T max(T a, T b)
{
	return a < b ? b : a;
}

/* ---- errors, the card ---- */

enum cudaError_t {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInvalidConfiguration = 9,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorNoKernelImageForDevice = 209,
	cudaErrorNotReady = 600,
	cudaErrorStreamCaptureUnsupported = 900,
	cudaErrorUnknown = 999
};

inline const char *cudaGetErrorString(cudaError_t error)
{
	switch (error) {
	case cudaSuccess:
		return "no error";
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorInsufficientDriver:
		return "CUDA driver version is insufficient for CUDA runtime version";
	case cudaErrorNoDevice:
		return "no CUDA-capable device is detected";
	case cudaErrorStreamCaptureUnsupported:
		return "operation not permitted when stream is capturing";
	default:
		return "an error of the stand-in";
	}
}

struct cudaDeviceProp {
	char name[256];
	int major, minor, multiProcessorCount;
	size_t totalGlobalMem;
};

inline cudaError_t cudaDriverGetVersion(int *version)
{
	*version = cudacpu::set.driver = (int)cudacpu::told_number("driver", (size_t)cudacpu::set.driver);
	return cudaSuccess;
}

inline cudaError_t cudaGetDeviceCount(int *count)
{
	*count = cudacpu::set.cards = (int)cudacpu::told_number("cards", (size_t)cudacpu::set.cards);
	return !cudacpu::set.driver ? cudaErrorInsufficientDriver
	       : *count == 0        ? cudaErrorNoDevice
				    : cudaSuccess;
}

inline cudaError_t cudaSetDevice(int card)
{
	cudacpu::set.card = card;
	return cudacpu::is_lost() ? cudaErrorUnknown
	       : card < cudacpu::set.cards ? cudaSuccess
					   : cudaErrorInvalidDevice;
}

inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *to, int)
{
	*to = {"CPU stand-in", cudacpu::set.major, 0, 4, cudacpu::set.memory};
	return cudaSuccess;
}

inline cudaError_t cudaGetLastError()
{
	return cudaSuccess;
}

/* ---- memory ---- */

inline size_t cudacpu_left()
{
	size_t used = 0;
	for (const cudacpu::piece &one : cudacpu::mem.pieces)
		used += one.card == cudacpu::set.card ? one.bytes : 0;
	size_t all = cudacpu::set.memory = cudacpu::told_number("memory", cudacpu::set.memory);
	return used < all ? all - used : 0;
}

inline cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
	*left = cudacpu_left();
	*all = cudacpu::set.memory;
	return cudaSuccess;
}

template <typename T> cudaError_t cudaMalloc(T **to, size_t bytes)
{
	if (bytes > cudacpu_left() || cudacpu::fails())
		return cudaErrorMemoryAllocation;
	*to = (T *)cudacpu::card_take(bytes);
	return cudaSuccess;
}

inline cudaError_t cudaFree(void *at)
{
	cudacpu::unwatched own;
	for (cudacpu::stream *s : cudacpu::streams) /* a card does so, too */
		cudacpu::stream_drain(s);
	if (at)
		cudacpu::take_back(cudacpu::mem.pieces, at, "cudaFree");
	return cudaSuccess;
}

#define cudaHostAllocDefault 0

template <typename T> cudaError_t cudaHostAlloc(T **to, size_t bytes, unsigned)
{
	if (cudacpu::fails())
		return cudaErrorMemoryAllocation;
	void *at = malloc(bytes);
	cudacpu::forget(at, bytes);
	cudacpu::unwatched own;
	cudacpu::mem.pinned.push_back({(char *)at, bytes, -1});
	*to = (T *)at;
	return cudaSuccess;
}

inline cudaError_t cudaFreeHost(void *at)
{
	cudacpu::unwatched own;
	if (!at)
		return cudaSuccess;
	for (cudacpu::stream *s : cudacpu::streams)
		cudacpu::stream_drain(s);
	cudacpu::take_back(cudacpu::mem.pinned, at, "cudaFreeHost");
	free(at);
	return cudaSuccess;
}

/* ---- streams, events ---- */

typedef cudacpu::stream *cudaStream_t;
typedef cudacpu::event *cudaEvent_t;
#define cudaStreamNonBlocking 1
#define cudaEventDisableTiming 2

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *to, unsigned)
{
	cudacpu::unwatched own;
	if (cudacpu::fails())
		return cudaErrorMemoryAllocation;
	cudacpu::tell_stream();
	*to = new cudacpu::stream;
	(*to)->tsan = cudacpu::tsan_new();
	cudacpu::streams.push_back(*to);
	return cudaSuccess;
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
	if (s->captures)
		return cudaErrorStreamCaptureUnsupported;
	{
		cudacpu::unwatched own;
		cudacpu::stream_drain(s);
	}
	cudacpu::after(&s->place);
	return cudacpu::is_lost(s->card) ? cudaErrorUnknown : cudaSuccess;
}

/* Time passes, so each stream does something. */
inline cudaError_t cudaStreamQuery(cudaStream_t s)
{
	cudacpu::stream_pass();
	if (cudacpu::is_lost(s->card))
		return cudaErrorUnknown;
	if (!s->tasks.empty())
		return cudaErrorNotReady;
	cudacpu::after(&s->place);
	return cudaSuccess;
}

inline cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	cudacpu::unwatched own;
	cudacpu::stream_drain(s);
	for (size_t i = 0; i < cudacpu::streams.size(); i++)
		if (cudacpu::streams[i] == s)
			cudacpu::streams.erase(cudacpu::streams.begin() + (long)i);
	for (cudacpu::task *t : s->tasks) /* of a card that is lost */
		delete t;
	cudacpu::tsan_end(s->tsan);
	delete s;
	cudacpu::set.live--;
	return cudaSuccess;
}

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *to, unsigned)
{
	cudacpu::unwatched own;
	if (cudacpu::fails())
		return cudaErrorMemoryAllocation;
	*to = new cudacpu::event;
	return cudaSuccess;
}

inline cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	cudacpu::unwatched own;
	while (e->reached < e->asked && !cudacpu::is_lost(e->on->card))
		cudacpu::stream_step(e->on);
	delete e;
	cudacpu::set.live--;
	return cudaSuccess;
}

inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
	e->on = s;
	cudacpu::stream_add(s, nullptr, e, ++e->asked);
	return cudaSuccess;
}

inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
	*ms = (float)((end->at - begin->at) * 1e3);
	return cudaSuccess;
}

inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
	if (e->asked > 0)
		cudacpu::stream_add(s, nullptr, e, e->asked, true);
	return cudaSuccess;
}

inline cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
	{
		cudacpu::unwatched own;
		while (e->reached < e->asked && !cudacpu::is_lost(e->on->card)) {
			if (!cudacpu::can_run(e->on->tasks.front()))
				cudacpu::stream_drain(e->on->tasks.front()->of->on);
			cudacpu::stream_step(e->on);
		}
	}
	cudacpu::after(&e->place);
	return cudacpu::is_lost(e->on->card) ? cudaErrorUnknown : cudaSuccess;
}

inline cudaError_t cudaEventQuery(cudaEvent_t e)
{
	cudacpu::stream_pass();
	if (e->reached < e->asked)
		return cudacpu::is_lost(e->on->card) ? cudaErrorUnknown : cudaErrorNotReady;
	cudacpu::after(&e->place);
	return cudaSuccess;
}

/* ---- copies ---- */

enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };

namespace cudacpu
{

inline void check_place(const void *at, size_t bytes, bool card, const char *what, int number = -1)
{
	unwatched own;
	if (!lies_in(card ? mem.pieces : mem.pinned, at, bytes, card ? number : -1))
		found("%s: %zu bytes at %p are not %s", what, bytes, at,
		      card ? "memory of the card" : "pinned memory of the host");
}

inline void check_stream(const stream *s)
{
	if (s && s->card != set.card)
		found("a stream of card %d is given work while card %d is the current one",
		      s->card, set.card);
}

} // namespace cudacpu

inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
				   cudaStream_t s)
{
	cudacpu::check_stream(s);
	cudacpu::check_place(to, bytes, kind != cudaMemcpyDeviceToHost, "a copy's target", s->card);
	cudacpu::check_place(from, bytes, kind != cudaMemcpyHostToDevice, "a copy's source",
			     s->card);
	cudacpu::stream_add(s, [=] { memcpy(to, from, bytes); });
	return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s)
{
	cudacpu::check_stream(s);
	cudacpu::check_place(to, bytes, true, "cudaMemset's target", s->card);
	cudacpu::stream_add(s, [=] { memset(to, value, bytes); });
	return cudaSuccess;
}

/* ---- kernels ---- */

struct cudaLaunchConfig_t {
	dim3 gridDim, blockDim;
	size_t dynamicSmemBytes;
	cudaStream_t stream;
	void *attrs;
	unsigned numAttrs;
};

namespace cudacpu
{

template <typename T> void check_argument(const T &)
{
}

template <typename T> void check_argument(T *const &p)
{
	if (p)
		check_place(p, 1, true, "a pointer given to a kernel", set.card);
}

template <typename... P> struct call {
	void (*kernel)(P...);
	std::tuple<P...> arguments;
	static void run(void *self)
	{
		const call *c = (const call *)self;
		std::apply(c->kernel, c->arguments);
	}
};

} // namespace cudacpu

template <typename... P, typename... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
			       A &&...arguments)
{
	dim3 grid = config->gridDim, size = config->blockDim;
	size_t threads = (size_t)size.x * size.y * size.z;
	if (threads < 1 || threads > cudacpu::BLOCK_MAX || grid.x < 1 || grid.x > 0x7fffffff ||
	    grid.y < 1 || grid.y > 65535 || grid.z < 1 || grid.z > 65535)
		return cudaErrorInvalidConfiguration;
	cudacpu::check_stream(config->stream);
	cudacpu::call<P...> c{kernel, std::tuple<P...>(arguments...)};
	std::apply([](const P &...one) { (cudacpu::check_argument(one), ...); }, c.arguments);
	cudacpu::stream_add(config->stream,
			    [=]() mutable { cudacpu::grid_run(grid, size, c.run, &c); });
	return cudaSuccess;
}

/* ---- graphs: of one stream ---- */

typedef cudacpu::graph *cudaGraph_t;
typedef cudacpu::graph *cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };

inline cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode)
{
	if (s->captures)
		return cudaErrorStreamCaptureUnsupported;
	s->captures = new cudacpu::graph;
	cudacpu::set.live++;
	return cudaSuccess;
}

inline cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *to)
{
	*to = s->captures;
	s->captures = NULL;
	return *to ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *to, cudaGraph_t graph, unsigned long long)
{
	if (cudacpu::fails())
		return cudaErrorMemoryAllocation;
	*to = new cudacpu::graph(*graph);
	return cudaSuccess;
}

inline cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	delete graph;
	cudacpu::set.live--;
	return cudaSuccess;
}

inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
	return cudaGraphDestroy(graph);
}

inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s)
{
	cudacpu::set.graphs++;
	cudacpu::stream_add(s, [tasks = graph->tasks]() mutable {
		for (std::function<void()> &one : tasks)
			one();
	});
	return cudaSuccess;
}

#endif

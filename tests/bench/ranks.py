# The trainer of bench/ranks: a rank whose gradients are summed twice in each iteration, by gloo and
# by the kit, so that whatever else the machine does disturbs both alike.
#   ranks.py FLOATS DIR ITERATIONS   a rank of a job; DIR/RANK gets four clock readings for each of the
#                                    first so many iterations (in the last ones of a job not all meet)
#   ranks.py FLOATS DIR              afterwards: the medians of all ranks, as fields of a record
# By gloo, as in DistributedDataParallel: a rank's mean divided by the number of ranks, and the sum. A
# time goes from the moment at which the last rank comes until all have the result.
import os
import statistics
import sys
import time

floats, directory = int(sys.argv[1]), sys.argv[2]
if len(sys.argv) == 3:
    ranks = [[tuple(map(float, line.split())) for line in open("%s/%s" % (directory, rank))]
             for rank in os.listdir(directory) if rank.isdigit()]
    times = []
    for all in list(zip(*ranks))[3:]:  # the first ones touch the memory
        their_begin, their_end, begin, end = (max(column) for column in zip(*all))
        times.append((end - begin, their_end - their_begin))
    ours, theirs = (1000 * statistics.median(column) for column in zip(*times))
    print("parameters=%d ranks=%d ms=%.3f gloo-ms=%.3f ratio=%.2f iterations=%d" % (
        floats, len(ranks), ours, theirs, ours / theirs, len(times)))
    sys.exit()

import torch
import torch.distributed as dist

import paceline

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method="file://%s/meet" % directory, rank=rank, world_size=world)
torch.set_num_threads(1)
parameter = torch.nn.Parameter(torch.zeros(floats))
parameter.grad = torch.empty(floats)
theirs = torch.empty(floats)


def meet():
    dist.barrier()
    time.sleep(0.01)  # a link that has a burst to spare after a pause has it for both
    dist.barrier()


with open("%s/%d" % (directory, rank), "w", buffering=1) as file:
    for batch in paceline.batches(state={"parameter": {"parameter": parameter}}, sums=[parameter]):
        batch.rows
        parameter.grad.fill_(1)
        if batch.iteration >= int(sys.argv[3]):
            batch.sum()
            continue
        theirs.fill_(1)
        meet()
        clock = [time.perf_counter()]
        theirs /= world
        dist.all_reduce(theirs)
        clock.append(time.perf_counter())
        meet()
        clock.append(time.perf_counter())
        batch.sum()
        clock.append(time.perf_counter())
        dist.barrier()  # who is done takes no core from the others
        assert torch.equal(parameter.grad, theirs)
        file.write("%.7f %.7f %.7f %.7f\n" % tuple(clock))
dist.destroy_process_group()

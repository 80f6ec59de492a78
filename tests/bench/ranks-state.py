"""ranks-state.py PARAMETERS SAVES DIRECTORY: the rank of tests/bench/ranks-state; the record goes to DIRECTORY/record."""
import os
import statistics
import sys
import time
import warnings

import torch

import paceline

warnings.simplefilter("ignore")
floats, saves, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
model = torch.nn.ParameterList([torch.nn.Parameter(torch.rand(floats // 10)) for _ in range(10)])
optimizer = torch.optim.Adam(model, lr=1e-3)
state = paceline._State({"model": model, "optimizer": optimizer})
times = {"stall": [], "torch-save": [], "load": [], "torch-load": [], "copy": []}


def timed(name, work):
    began = time.perf_counter()
    result = work()
    times[name].append(time.perf_counter() - began)
    return result


def write(self, path, write=paceline._State.write):
    return timed("stall", lambda: write(self, path))


def whole():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


paceline._State.write = write
other = os.path.join(place, "other.pt")
batches = paceline.batches(state={"model": model, "optimizer": optimizer}, sums=model)
for batch in batches:
    before = len(times["stall"])
    if len(times["torch-save"]) >= saves:
        batches.stop("all is measured")
    optimizer.zero_grad()
    if batch.size:
        sum((p * p).sum() for p in model).backward()
    batch.sum()
    optimizer.step()
    if len(times["stall"]) > len(times["torch-save"]):  # in turn
        timed("torch-save", lambda: torch.save(whole(), other))

bytes = sum(t.numel() * 4 for t in model) * 3
memory = os.memfd_create("state")
state.write("/proc/self/fd/%d" % memory)
tensors = [p.detach() for p in model] + [s[k] for s in optimizer.state.values() for k in ("exp_avg", "exp_avg_sq")]
for _ in range(5):
    timed("load", lambda: state.load("/proc/self/fd/%d" % memory))
    timed("torch-load", lambda: state.put(torch.load(other)))
    timed("copy", lambda: [t.clone() for t in tensors])
median = {name: statistics.median(some[2:] or some) for name, some in times.items()}
with open(os.path.join(place, "record"), "w") as file:
    file.write("parameters=%d bytes=%d stall=%.4f stall-first=%.4f torch-save=%.4f ratio=%.3f load=%.4f torch-load=%.4f copy=%.4f "
               "load-ratio=%.3f" % (floats, bytes, median["stall"], times["stall"][1], median["torch-save"],
                                    median["stall"] / median["torch-save"], median["load"], median["torch-load"],
                                    median["copy"], median["copy"] / median["load"]))

# The trainer of bench/ddp-straggler: a network of two layers on data made from a seed.
#
#   ddp-straggler.py plain CURVE     DistributedDataParallel as it comes, DistributedSampler, equal shares
#   ddp-straggler.py paceline CURVE  the same with paceline.batches() and ddp_hook()
#   ddp-straggler.py single CURVE    one process, the whole batch, without pace
#
# CURVE gets a line every tenth iteration: seconds since the first batch, samples, held-out loss.
# Rank 2 has a quarter of the others' speed: after its real work each rank sleeps until its batch has
# taken size / pace seconds. ROWS, BATCH, EPOCHS, SEED, PACE in the environment.
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

mode, curve = sys.argv[1], open(sys.argv[2], "w")
ROWS, BATCH, EPOCHS = (int(os.environ[name]) for name in ("ROWS", "BATCH", "EPOCHS"))
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
pace = float(os.environ["PACE"]) / (4 if rank == 2 else 1) if mode != "single" else None
seed = int(os.environ.get("SEED", 1))
torch.set_num_threads(1)

generator = torch.Generator().manual_seed(9)
x = torch.randn(ROWS + 1000, 20, generator=generator)
teacher = nn.Sequential(nn.Linear(20, 8), nn.Tanh(), nn.Linear(8, 1))
for p in teacher.parameters():
    p.data.copy_(0.7 * torch.randn(p.shape, generator=generator))
with torch.no_grad():
    y = (torch.rand(len(x), generator=generator) < torch.sigmoid(3 * teacher(x).squeeze(1))).float()
held_x, held_y = x[ROWS:], y[ROWS:]
data = TensorDataset(x[:ROWS], y[:ROWS])

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))
loss_of = nn.BCEWithLogitsLoss()
plain_model = model
if world > 1:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
began, samples, iterations = None, 0, 0


def train(x, y, total):
    """One step; a batch of no rows takes part."""
    global began, samples, iterations
    start = time.perf_counter()
    began = began or start
    optimizer.zero_grad()
    loss = loss_of(model(x).squeeze(1), y)
    if pace:
        time.sleep(max(0.0, len(y) / pace - (time.perf_counter() - start)))
    loss.backward()
    optimizer.step()
    samples += total
    iterations += 1
    if rank == 0 and iterations % 10 == 0:
        with torch.no_grad():
            held = loss_of(plain_model(held_x).squeeze(1), held_y).item()
        print("%.6f %d %.6f" % (time.perf_counter() - began, samples, held), file=curve, flush=True)
    return loss.detach()


if mode == "paceline":
    import paceline

    paceline.ddp_hook(model)
    loader = paceline.Loader(DataLoader(data, batch_size=BATCH // world, shuffle=True))
    for epoch in loader.epochs(EPOCHS, state={"model": model, "optimizer": optimizer}, collective=True):
        for bx, by in loader:
            batch = loader.batch
            # How many all have together is in the weight.
            batch.loss = train(bx, by, round(world * batch.size / batch.weight) if batch.size else 0)
elif mode == "plain":
    sampler = DistributedSampler(data, seed=seed)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for bx, by in DataLoader(data, batch_size=BATCH // world, sampler=sampler):
            train(bx, by, len(by) * world)
else:
    order = torch.Generator().manual_seed(seed)
    for epoch in range(EPOCHS):
        for bx, by in DataLoader(data, batch_size=BATCH, shuffle=True, generator=order):
            train(bx, by, len(by))
if world > 1:
    dist.destroy_process_group()

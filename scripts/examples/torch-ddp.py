#!/usr/bin/env python3
"""torch-ddp.py ROWS.csv MODEL.pt: trains a small network in PyTorch, with DistributedDataParallel.

ROWS.csv has no header; the first column is 0 or 1, the others are numbers. An example of
paceline-trainers(7):

    trainctl run job.env        with TRAINER='python3 torch-ddp.py rows.csv model.pt' and WORKERS=3
    torchrun --nproc_per_node=3 torch-ddp.py rows.csv model.pt          by hand, without a job
"""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import paceline

with open(sys.argv[1]) as file:
    rows = torch.tensor([[float(value) for value in line.split(",")] for line in file])
data = TensorDataset(rows[:, 1:], rows[:, 0])

dist.init_process_group("gloo")  # rank, size and address come from the environment
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(rows.shape[1] - 1, 16), nn.ReLU(), nn.Linear(16, 1))
model = DistributedDataParallel(model)
paceline.ddp_hook(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loss_of = nn.BCEWithLogitsLoss()

sampler = DistributedSampler(data)
loader = paceline.Loader(DataLoader(data, batch_size=64, sampler=sampler))
state = {"model": model, "optimizer": optimizer}
for epoch in loader.epochs(3, state=state, collective=True):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_of(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
        loader.batch.loss = loss

if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), sys.argv[2])
dist.destroy_process_group()

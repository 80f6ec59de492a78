#!/usr/bin/env python3
"""torch-sums.py ROWS.csv MODEL.pt: trains a small network in PyTorch, by ranks that come and go.

ROWS.csv has no header; the first column is 0 or 1, the others are numbers. A tenth of the rows, the
last, is for validation; MODEL.pt is the best model by them. An example of paceline-trainers(7):

    trainctl run job.env        with TRAINER='python3 torch-sums.py rows.csv model.pt', WORKERS=3 and
                                SYNC=allreduce
    python3 torch-sums.py rows.csv model.pt                             by hand, without a job
"""
import sys

import torch
from torch import nn
from torch.utils.data import TensorDataset

import paceline

with open(sys.argv[1]) as file:
    rows = torch.tensor([[float(value) for value in line.split(",")] for line in file])
split = len(rows) * 9 // 10
data = TensorDataset(rows[:split, 1:], rows[:split, 0])
held_x, held_y = rows[split:, 1:], rows[split:, 0]

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(rows.shape[1] - 1, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
loss_of = nn.BCEWithLogitsLoss()
best = {"loss": float("inf")}


def validate():
    model.eval()
    with torch.no_grad():
        loss = loss_of(model(held_x).squeeze(1), held_y).item()
    model.train()
    if loss < best["loss"]:
        best.update(loss=loss, model={name: value.clone() for name, value in model.state_dict().items()})


state = {"model": model, "optimizer": optimizer, "schedule": schedule, "best": best}
batches = paceline.batches(state=state, sums=model, samples=len(data), epochs=3)
for batch, (x, y) in paceline.Loader(batches, data):
    optimizer.zero_grad()
    loss = loss_of(model(x).squeeze(1), y)
    loss.backward()
    batch.sum(loss)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if (batch.samples_done + batch.samples) % len(data) < batch.samples:  # an epoch ends
        validate()

if batches.rank == 0:
    torch.save(best["model"], sys.argv[2])

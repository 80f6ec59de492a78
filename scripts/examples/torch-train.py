#!/usr/bin/env python3
"""torch-train.py ROWS.csv MODEL.pt: trains a small network in PyTorch, one process.

ROWS.csv has no header; the first column is 0 or 1, the others are numbers. An example of
paceline-trainers(7):

    trainctl run job.env        with TRAINER='python3 torch-train.py rows.csv model.pt'
    python3 torch-train.py rows.csv model.pt                            by hand, without a job
"""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import paceline

with open(sys.argv[1]) as file:
    rows = torch.tensor([[float(value) for value in line.split(",")] for line in file])
data = TensorDataset(rows[:, 1:], rows[:, 0])

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(rows.shape[1] - 1, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loss_of = nn.BCEWithLogitsLoss()

loader = paceline.Loader(DataLoader(data, batch_size=64, shuffle=True))
state = {"model": model, "optimizer": optimizer}
for epoch in loader.epochs(3, state=state):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_of(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
        loader.batch.loss = loss

torch.save(model.state_dict(), sys.argv[2])

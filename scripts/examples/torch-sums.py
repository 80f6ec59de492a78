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
from torch.utils.data import DataLoader, TensorDataset

import paceline

EPOCHS = 3

with open(sys.argv[1]) as file:
    rows = torch.tensor([[float(value) for value in line.split(",")] for line in file])
split = len(rows) * 9 // 10
data = TensorDataset(rows[:split, 1:], rows[:split, 0])
loader = paceline.Loader(DataLoader(data, batch_size=50, shuffle=True))
held = DataLoader(TensorDataset(rows[split:, 1:], rows[split:, 0]), batch_size=256)

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(rows.shape[1] - 1, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, epochs=EPOCHS, steps_per_epoch=len(loader))
loss_of = nn.BCEWithLogitsLoss()


def validate():
    model.eval()
    loss, right = 0.0, 0
    with torch.no_grad():
        for x, y in held:
            out = model(x).squeeze(1)
            loss += loss_of(out, y).item() * len(y)
            right += ((out > 0) == (y > 0)).sum().item()
    return loss / len(held.dataset), right / len(held.dataset)


best = float("inf")
state = {"model": model, "optimizer": optimizer, "schedule": schedule}
for epoch in loader.epochs(EPOCHS, state=state, sums=model):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_of(model(x).squeeze(1), y)
        loss.backward()
        loader.sum(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    loss, accuracy = validate()
    print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {accuracy:.4f}")
    best = loader.save(model.state_dict(), sys.argv[2], min=loss)
print(f"best loss: {best:.4f}")

# The peer of bench/worker-torch: the same models in PyTorch, rows in memory, one thread.
# worker-torch.py lr|lr-sparse|wdl BATCH BATCHES: prints rows/s.  lr takes EmbeddingBag as it comes,
# whose gradient is a dense vector; lr-sparse and wdl ask for sparse gradients.
import sys
import time

import torch
from torch import nn

model, batch, batches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(1)
KEYS = 1 << 20


class Lr(nn.Module):
    dense, fields = 13, 26

    def __init__(self):
        super().__init__()
        self.keys = nn.EmbeddingBag(KEYS, 1, mode="sum", sparse=model == "lr-sparse")
        self.linear = nn.Linear(self.dense, 1)

    def forward(self, keys, x):
        return (self.keys(keys) + self.linear(x)).squeeze(1)


class Wdl(nn.Module):
    dense, fields = 0, 39

    def __init__(self):
        super().__init__()
        self.wide = nn.EmbeddingBag(KEYS, 1, mode="sum", sparse=True)
        self.embed = nn.Embedding(KEYS, 16, sparse=True)
        layers, width = [], self.fields * 16
        for out in (400, 400, 400):
            layers += [nn.Linear(width, out), nn.ReLU()]
            width = out
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, keys, x):
        return (self.wide(keys) + self.deep(self.embed(keys).flatten(1))).squeeze(1)


net = Wdl() if model == "wdl" else Lr()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
loss_of = nn.BCEWithLogitsLoss()
# as skewed as the bench's rows: column c has 10^(1 + c % 6) values
sizes = torch.tensor([10.0 ** (1 + c % 6) for c in range(net.fields)])
data = []
for _ in range(8):
    value = (torch.rand(batch, net.fields) ** 4 * sizes).long()
    keys = (value * 2654435761 + torch.arange(net.fields) * 7919) % KEYS
    data.append((keys, torch.rand(batch, net.dense), (torch.rand(batch) < 0.25).float()))


def run(count):
    for i in range(count):
        keys, x, label = data[i % len(data)]
        optimizer.zero_grad(set_to_none=True)
        loss_of(net(keys, x), label).backward()
        optimizer.step()


run(2)
start = time.perf_counter()
run(batches)
print(round(batches * batch / (time.perf_counter() - start)))

# The peer of bench/card: the same models in PyTorch, compiled, on a card. Parameters stay there, as is usual; a
# batch comes from pinned memory.
# card-torch.py wdl|deepfm|dcn|xdeepfm BATCH: prints rows/s of forward, backward and a step of SGD.
import sys
import time

import torch
from torch import nn

if not torch.cuda.is_available():
    sys.exit("this PyTorch has no card")
model, batch = sys.argv[1], int(sys.argv[2])
FIELDS, DENSE, EMBED, HIDDEN, MAPS, CROSS = 39, 13, 16, 400, 64, 3
KEYS = batch * FIELDS // 4 + 1
torch.manual_seed(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        width = FIELDS * EMBED + DENSE
        self.wide = nn.Embedding(KEYS, 1)
        self.linear = nn.Linear(DENSE, 1)
        self.embed = nn.Embedding(KEYS, EMBED)
        self.deep = nn.Sequential(
            nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1, bias=False)
        )
        self.cross = nn.ParameterList(nn.Parameter(torch.randn(width) / width**0.5) for _ in range(CROSS))
        self.cross_bias = nn.ParameterList(nn.Parameter(torch.zeros(width)) for _ in range(CROSS))
        self.cross_out = nn.Linear(width, 1, bias=False)
        self.cin = nn.ParameterList(
            nn.Parameter(torch.randn(MAPS, high, FIELDS) / (high * FIELDS) ** 0.5) for high in (FIELDS, MAPS)
        )
        self.cin_out = nn.Linear(2 * MAPS, 1, bias=False)

    def forward(self, keys, x):
        v = self.embed(keys)
        z = self.wide(keys).sum(1) + self.linear(x)
        inputs = torch.cat((v.flatten(1), x), 1)
        z = z + self.deep(inputs)
        if model == "deepfm":
            z = z + 0.5 * (v.sum(1) ** 2 - (v**2).sum(1)).sum(1, keepdim=True)
        if model == "dcn":
            at = inputs
            for weight, bias in zip(self.cross, self.cross_bias):
                at = inputs * (at @ weight)[:, None] + bias + at
            z = z + self.cross_out(at)
        if model == "xdeepfm":
            at, sums = v, []
            for weight in self.cin:
                at = torch.einsum("nhe,nje,ohj->noe", at, v, weight)
                sums.append(at.sum(2))
            z = z + self.cin_out(torch.cat(sums, 1))
        return z.squeeze(1)


net = Net().cuda()
compiled = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
loss_of = nn.BCEWithLogitsLoss()
data = []
for _ in range(4):
    keys = (torch.rand(batch, FIELDS) ** 3 * KEYS).long()
    data.append([t.pin_memory() for t in (keys, torch.rand(batch, DENSE), (torch.rand(batch) < 0.25).float())])


def run(count):
    for i in range(count):
        keys, x, label = (t.cuda(non_blocking=True) for t in data[i % len(data)])
        optimizer.zero_grad(set_to_none=True)
        loss_of(compiled(keys, x), label).backward()
        optimizer.step()
    torch.cuda.synchronize()


run(8)
start = time.perf_counter()
run(20)
print(round(20 * batch / (time.perf_counter() - start)))

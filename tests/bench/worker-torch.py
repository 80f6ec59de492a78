# The peer of bench/worker-torch: the same models in PyTorch, on one thread, with sparse gradients of
# embeddings, which is its fastest way.
# worker-torch.py PROGRAM MODEL-FILE BATCH ROUNDS SECONDS: PROGRAM is worker-torch.c.  It makes
# parameters and batches; this computes the same from them, and fails if scores, loss or gradients
# differ by more than rounding.  Then both train in turns for so many seconds.  Prints what a record says:
# rows/s of both, the ratio, the percentage of the peer's time that is matrix products, by its profiler (where
# they are as fast as ours, the ratio can't be more than 100 by that), and the largest difference.
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional

DIFFER_MOST = 5e-3  # of a tensor's largest value; the larger of two that are nearly equal may be either
GAIN = 0.4          # of deep parts: parameters are stored 1/GAIN times as large
BATCHES = 8
torch.set_num_threads(1)


class Net(nn.Module):
    """parts: parameters in the order of our dense vector; tables: columns of a key's row. Each with
    what the stored value is multiplied by."""

    def __init__(self, spec, outputs, keys):
        super().__init__()
        self.parts, self.tables = [], []
        self.spec, self.outputs, self.keys = spec, outputs, keys
        self.fields, self.inputs = int(spec["fields"]), int(spec["dense-inputs"])
        self.build()

    def layer(self, width, out, gain, bias=True):
        made = nn.Linear(width, out, bias=bias)
        self.parts += [(p, gain) for p in (made.weight, made.bias) if p is not None]
        return made

    def wide(self):
        self.weights = nn.EmbeddingBag(self.keys, self.outputs, mode="sum", sparse=True)
        self.bias = nn.Parameter(torch.empty(self.outputs))
        self.parts.append((self.bias, 1))
        self.tables.append((self.weights, 1))
        if self.inputs:
            self.linear = self.layer(self.inputs, self.outputs, 1, bias=False)

    def of_wide(self, keys, x):
        z = self.weights(keys) + self.bias
        return z + self.linear(x) if self.inputs else z

    def embedded(self, gain):
        self.size = int(self.spec["embed"])
        self.embed = nn.Embedding(self.keys, self.size, sparse=True)
        self.tables.append((self.embed, gain))

    def deep(self, gain=GAIN):
        width, layers = self.inputs, []
        if self.fields:
            width += self.fields * self.size
        for out in map(int, self.spec["hidden"].split("-")):
            layers += [self.layer(width, out, gain), nn.ReLU()]
            width = out
        self.layers = nn.Sequential(*layers, self.layer(width, self.outputs, gain, bias=False))


class Lr(Net):
    def build(self):
        self.wide()

    def forward(self, keys, x):
        return self.of_wide(keys, x)


class Wdl(Net):
    def build(self):
        self.wide()
        self.embedded(GAIN)
        self.deep()

    def forward(self, keys, x):
        e = self.embed(keys).flatten(1)
        return self.of_wide(keys, x) + self.layers(torch.cat([e, x], 1) if self.inputs else e)


def pairs(e):
    """A factorisation machine's, from the embeddings [rows][fields][size]."""
    total = e.sum(1)
    return ((total * total).sum(1, keepdim=True) - (e * e).sum((1, 2)).unsqueeze(1)) / 2


class Fm(Net):
    def build(self):
        self.wide()
        self.embedded(1)

    def forward(self, keys, x):
        return self.of_wide(keys, x) + pairs(self.embed(keys))


class Deepfm(Wdl):
    def forward(self, keys, x):
        e = self.embed(keys)
        return self.of_wide(keys, x) + pairs(e) + self.layers(e.flatten(1))


class Dcn(Wdl):
    def build(self):
        self.wide()
        self.embedded(GAIN)
        width = self.fields * self.size + self.inputs
        self.cross = nn.ModuleList(
            self.layer_of(nn.Linear(width, 1, bias=False), nn.Parameter(torch.empty(width)))
            for _ in range(int(self.spec["cross"])))
        self.crossed = self.layer(width, 1, 1, bias=False)
        self.deep()

    def layer_of(self, weight, bias):
        weight.shift = bias
        self.parts += [(weight.weight, 1), (bias, 1)]
        return weight

    def forward(self, keys, x):
        first = torch.cat([self.embed(keys).flatten(1), x], 1) if self.inputs \
            else self.embed(keys).flatten(1)
        last = first
        for layer in self.cross:
            last = first * layer(last) + layer.shift + last
        return self.of_wide(keys, x) + self.crossed(last) + self.layers(first)


class Xdeepfm(Wdl):
    def build(self):
        self.wide()
        self.embedded(GAIN)
        maps, total, layers = self.fields, 0, []
        for out in map(int, self.spec["cin"].split("-")):
            layers.append(self.layer(maps * self.fields, out, 1, bias=False))
            maps, total = out, total + out
        self.cin = nn.ModuleList(layers)
        self.of_cin = self.layer(total, 1, 1, bias=False)
        self.deep()

    def forward(self, keys, x):
        e = self.embed(keys)
        # Elements as rows of one product: 1.5 times as fast as Conv1d.
        first = last = e.transpose(1, 2).reshape(-1, self.fields)
        sums = []
        for layer in self.cin:
            last = layer((last.unsqueeze(2) * first.unsqueeze(1)).flatten(1))
            sums.append(last.reshape(len(keys), self.size, -1).sum(1))
        return self.of_wide(keys, x) + self.of_cin(torch.cat(sums, 1)) + self.layers(e.flatten(1))


class Mlp(Net):
    def build(self):
        self.bias = nn.Parameter(torch.empty(self.outputs))
        self.parts.append((self.bias, 1))
        self.deep(1)

    def forward(self, keys, x):
        return self.layers(x) + self.bias


class Conv(Net):
    def build(self):
        self.height, self.width, channels = map(int, self.spec["image"].split("-"))
        height, width, layers = self.height, self.width, []
        for out in map(int, self.spec["channels"].split("-")):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            self.parts += [(layers[-3].weight, 1), (layers[-3].bias, 1)]
            channels, height, width = out, height // 2, width // 2
        self.layers = nn.Sequential(*layers, nn.Flatten(),
                                    self.layer(channels * height * width, self.outputs, 1))

    def forward(self, keys, x):
        return self.layers(x.reshape(len(x), -1, self.height, self.width))


NETS = {"lr": Lr, "svm": Lr, "linear": Lr, "softmax": Lr, "wdl": Wdl, "fm": Fm, "deepfm": Deepfm,
        "dcn": Dcn, "xdeepfm": Xdeepfm, "mlp": Mlp, "conv": Conv}


def loss_of(name, z, label):
    if z.shape[1] > 1:
        return functional.cross_entropy(z, label.long())
    z = z.squeeze(1)
    if name == "svm":
        return (1 - (2 * label - 1) * z).clamp(min=0).mean()
    if name == "linear":
        return ((z - label) ** 2).mean() / 2
    return functional.binary_cross_entropy_with_logits(z, label)


def scores_of(name, z):
    if z.shape[1] > 1:
        return z.softmax(1)
    return z if name == "linear" else z.sigmoid()


def main():
    program, path, batch, rounds, seconds = sys.argv[1:]
    batch, rounds, seconds = int(batch), int(rounds), float(seconds)
    spec = dict(word.split("=") for word in open(path).read().split()[1:])
    ours = subprocess.Popen([program, path, str(batch)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def floats(count, of=torch.float32):
        data = bytearray(ours.stdout.read(4 * count))
        return torch.frombuffer(data, dtype=of) if count else torch.empty(0)

    line = ours.stdout.readline().split()
    if not line:
        sys.exit(1)
    dense_count, table_rows, width, outputs, unique = map(int, line[:5])
    our_loss, kernels = float(line[5]), line[6].decode()
    dense, table = floats(dense_count), floats(table_rows * width).reshape(table_rows, width)
    net = NETS[spec["name"]](spec, outputs, table_rows)
    fields, inputs = net.fields, net.inputs
    data = []
    for _ in range(BATCHES):
        keys = floats(batch * fields, torch.int32).long().reshape(batch, fields)
        data.append((keys, floats(batch * inputs).reshape(batch, inputs), floats(batch)))
    differ = 0.0

    def compare(what, mine, theirs):
        nonlocal differ
        off = float((mine - theirs).abs().max() / theirs.abs().max().clamp(min=1e-12))
        differ = max(differ, off)
        if not off <= DIFFER_MOST:
            sys.exit(f"worker-torch.py: {spec['name']}: {what} differ by {off:g} of the largest")

    with torch.no_grad():
        at = 0
        for p, gain in net.parts:
            p.copy_(dense[at:at + p.numel()].reshape(p.shape) * gain)
            at += p.numel()
        assert at == dense_count
        at = 0
        for e, gain in net.tables:
            e.weight.copy_(table[:, at:at + e.weight.shape[1]] * gain)
            at += e.weight.shape[1]
        assert at == width or not net.tables
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def gradients(keys, x, label):
        optimizer.zero_grad(set_to_none=True)
        z = net(keys, x)
        loss = loss_of(spec["name"], z, label)
        loss.backward()
        return z, loss

    z, loss = gradients(*data[0])
    compare("scores", floats(batch * outputs).reshape(batch, outputs),
            scores_of(spec["name"], z.detach()))
    compare("losses", torch.tensor(our_loss), loss.detach())
    gradient, at = floats(dense_count), 0
    for p, gain in net.parts:
        compare("gradients", gradient[at:at + p.numel()].reshape(p.shape), p.grad * (batch * gain))
        at += p.numel()
    touched = floats(unique, torch.int32).long()
    gradient, at = floats(unique * width).reshape(unique, width), 0
    for e, gain in net.tables:
        size = e.weight.shape[1]
        compare("gradients of rows", gradient[:, at:at + size],
                e.weight.grad.to_dense()[touched] * (batch * gain))
        at += size

    def theirs(steps):
        began = time.perf_counter()
        for i in range(steps):
            gradients(*data[i % BATCHES])
            optimizer.step()
        return time.perf_counter() - began, 0

    def mine(steps):
        ours.stdin.write(b"%d\n" % steps)
        ours.stdin.flush()
        return tuple(map(float, ours.stdout.readline().split()))

    rates, keys = {theirs: [], mine: []}, []
    steps = {run: max(1, round(seconds / (run(4)[0] / 4))) for run in rates}
    for _ in range(rounds):  # in turns, so that both see the same machine
        for run in rates:
            took, finding = run(steps[run])
            rates[run].append(steps[run] * batch / took)
            if run is mine:
                keys.append(100 * finding / took)
    rate = {run: statistics.median(rates[run]) for run in rates}
    with torch.profiler.profile() as profile:
        theirs(steps[theirs])
    times = {e.key: e.self_cpu_time_total for e in profile.key_averages()}
    products = 100 * (times.get("aten::mm", 0) + times.get("aten::addmm", 0)) / sum(times.values())
    ours.stdin.close()
    ours.wait()
    print(f"kernels={kernels} threads=1 batch={batch} rows-per-second={rate[mine]:.0f} "
          f"torch={rate[theirs]:.0f} ratio={rate[mine] / rate[theirs]:.2f} "
          f"torch-products-percent={products:.0f} keys-percent={statistics.median(keys):.0f} differ={differ:.1g}")


main()

# The trainer of bench/ranks-torchrun: a conv net on images like those of MNIST.
#
#   ranks-torchrun.py plain DIR     DistributedDataParallel under torchrun, a checkpoint every 50 iterations
#   ranks-torchrun.py paceline DIR  a job's rank, whose gradients the kit sums
#
# DIR gets RANK.log, a line an iteration: when, and its number; RANK.pid; at the end RANK.accuracy, on other images,
# and with SLOW 0.curve: when, and the loss on them, of every tenth iteration. In the environment: ROWS, BATCH (rows
# of all ranks together), EPOCHS, SEED, HIDDEN (units of the largest layer), and PACE: rows a second of a rank, SLOW
# times less of rank 3; it sleeps until its batch has taken so long, and a sleep takes no core. 0: none.
import copy
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

way, directory = sys.argv[1:]
ROWS, BATCH, EPOCHS, SEED, HIDDEN = (int(os.environ[name]) for name in ("ROWS", "BATCH", "EPOCHS", "SEED", "HIDDEN"))
PACE, SLOW = (float(os.environ[name]) for name in ("PACE", "SLOW"))
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if rank == 3:
    PACE /= SLOW
torch.set_num_threads(1)
with open("%s/%d.pid" % (directory, rank), "w") as file:
    file.write("%d\n" % os.getpid())
log = open("%s/%d.log" % (directory, rank), "a", buffering=1)

# Digits of 5 x 7 points, each point 3 x 3, somewhere in 28 x 28, with so much noise that some are hard to tell apart.
POINTS = [bytes.fromhex(rows) for rows in (
    "0e11131519110e 040c040404040e 0e11010204081f 1f02040201110e 02060a121f0202 "
    "1f101e0101110e 0608101e11110e 1f010204080808 0e11110e11110e 0e11110f01020c").split()]
GLYPHS = torch.tensor([[[row >> (4 - x) & 1 for x in range(5)] for row in glyph] for glyph in POINTS],
                      dtype=torch.float32).repeat_interleave(3, 1).repeat_interleave(3, 2)


def digits(count, seed):
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=random)
    images = torch.zeros(count, 1, 28, 28)
    for i, label in enumerate(labels.tolist()):
        y, x = torch.randint(8, (1,), generator=random).item(), torch.randint(14, (1,), generator=random).item()
        images[i, 0, y:y + 21, x:x + 15] = GLYPHS[label]
    return images + NOISE * torch.randn(images.shape, generator=random), labels


NOISE = 1.0
x, y = digits(ROWS, 1)
others_x, others_y = digits(2000, 2)
torch.manual_seed(SEED)
model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
                      nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
plain_model = model  # without what DistributedDataParallel puts around it
kept = []


def others(model):
    with torch.no_grad():
        return model(others_x)


def compute(rows):
    """The gradient of the mean over these rows."""
    start = time.perf_counter()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x[rows]), y[rows])
    if PACE:
        time.sleep(max(0.0, len(rows) / PACE - (time.perf_counter() - start)))
    loss.backward()
    return loss.detach()


def stepped(iteration):
    log.write("%.4f %d\n" % (time.time(), iteration))
    if rank == 0 and SLOW > 1 and iteration % 10 == 0:  # what they are worth is computed afterwards
        kept.append((time.time(), copy.deepcopy(plain_model)))


def plain():
    global model
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    model = DistributedDataParallel(model)
    path, begin = directory + "/checkpoint.pt", 0
    if os.path.exists(path):
        saved = torch.load(path)
        plain_model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["iteration"]
    random = torch.Generator().manual_seed(SEED)
    order = torch.cat([torch.randperm(ROWS, generator=random) for epoch in range(EPOCHS)])
    for iteration in range(begin, len(order) // BATCH):
        compute(order[iteration * BATCH + rank:(iteration + 1) * BATCH:world])
        optimizer.step()
        stepped(iteration + 1)
        if rank == 0 and (iteration + 1) % 50 == 0:
            torch.save({"model": plain_model.state_dict(), "optimizer": optimizer.state_dict(),
                        "iteration": iteration + 1}, path + ".new")
            os.rename(path + ".new", path)
    dist.destroy_process_group()


def summed():
    import paceline

    state = {"model": model, "optimizer": optimizer}
    for batch in paceline.batches(state=state, sums=model, samples=ROWS):
        loss = compute(batch.rows) if batch.size else None
        batch.sum(loss)
        optimizer.step()
        stepped(batch.iteration + 1)


plain() if way == "plain" else summed()
with open("%s/%d.accuracy" % (directory, rank), "w") as file:
    file.write("%.5f\n" % (others(plain_model).argmax(1) == others_y).float().mean().item())
if kept:
    with open("%s/%d.curve" % (directory, rank), "w") as file:
        for at, model in kept:
            file.write("%.4f %.5f\n" % (at, F.cross_entropy(others(model), others_y).item()))

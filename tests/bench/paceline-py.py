# What paceline.py itself costs a batch, for bench/paceline-py: the agent's answers lie in the pipe
# before they are asked for, so nothing is waited for.
#   paceline-py.py ROWS shuffled|in-order [numpy]
import os
import sys
import time

import paceline

if "numpy" in sys.argv:
    import numpy  # noqa: F401  paceline uses it where it is there

rows, shuffled = int(sys.argv[1]), sys.argv[2] == "shuffled"
PIECE = 64  # batches
(reads, answers), (words, writes) = os.pipe(), os.pipe()
os.environ.update(PACELINE_IN=str(reads), PACELINE_OUT=str(writes))
batches = paceline.batches()
costs, firsts = [], []
for round in range(40):
    text = ""
    for i in range(PIECE):
        begin, at = round * PIECE * rows, i * rows
        text += "batch iteration=%d size=%d accum=1 weight=1 lr-scale=1\n" % (round * PIECE + i, rows)
        if shuffled:
            text += "range begin=%d length=%d seed=%d skip=%d take=%d\n" % (begin, PIECE * rows, round + 1, at, rows)
        else:
            text += "range begin=%d length=%d\n" % (begin + at, rows)
        text += "ok\nok iteration=%d\n" % (round * PIECE + i + 1)
    os.write(answers, text.encode())
    for i in range(PIECE):
        began = time.perf_counter()
        batch = next(batches)
        assert len(batch.rows) == rows
        batch.loss = 0.25
        batch.done()
        costs.append(time.perf_counter() - began)
        if i == 0:
            firsts.append(costs[-1])
    os.read(words, 1 << 20)
costs.sort()
firsts.sort()
median = costs[len(costs) // 2]
order = (firsts[len(firsts) // 2] - median) / (PIECE * rows)
print("rows=%d order=%s numpy=%d mean-us=%.1f p50-us=%.1f p99-us=%.1f order-us-a-row=%.2f" % (
    rows, sys.argv[2], "numpy" in sys.argv, 1e6 * sum(costs) / len(costs), 1e6 * median,
    1e6 * costs[len(costs) * 99 // 100], 1e6 * order))

#!/usr/bin/env python3
"""A trainer whose model is how often each row was trained: row i adds 1 to cell i of the gradient, and the
committed sum is added to the counts. So with SYNC=allreduce all ranks must have each row exactly EPOCHS times.

    counting-trainer.py ROWS [SECONDS]

SECONDS is how long a batch takes (0), and each row as many seconds more as the file `pace.ID` says, while it is
there; its device may be emulated (emulated_device.py). Its counts begin with 0, or as the file `begins.ID` says. Once there is a file `enough` it says so; while there is a
file `linger` it takes its time between two batches, while there is `linger.ID` behind the last one, and while there is
`behind.ID` behind its loop; once there is a file `dies` it removes that and kills itself in the middle of a save. The counts are its state: they are saved, into memory where that is offered, resumed and given
to others as words of agent(1) say. At the end they are written to ID.counts, a line for each row. Its rank, if it
was a spare, what was resumed, where it saves, the iteration of each sum and each new factor of the learning rate go
to standard output. It ends with 1 if a sum has not as many rows as samples, or
samples-done is not as many as it has counted.
"""
import array
import mmap
import os
import sys
import time

from emulated_device import Device

ROWS = int(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
NAME = os.environ["PACELINE_ID"]
READS = os.fdopen(int(os.environ["PACELINE_IN"]), "r")
WRITES = os.fdopen(int(os.environ["PACELINE_OUT"]), "w", buffering=1)

counts = array.array("Q", bytes(8 * ROWS))
more = 0  # in each count than rows were trained
if os.path.exists("begins." + NAME):
    with open("begins." + NAME) as begins:
        more = int(begins.read())
    counts = array.array("Q", [more] * ROWS)
mapped = {}  # path: the file, whole


def fields(line):
    words = line.split("\t")[0].split()
    return words[0], dict(word.split("=", 1) for word in words[1:])


def load(path):
    global more
    more = 0
    if os.path.isdir(path):
        path = os.path.join(path, "counts")
    with open(path, "rb") as file:
        data = file.read()
    if len(data) != 8 * ROWS:
        sys.exit("%s: %d bytes, not %d" % (path, len(data), 8 * ROWS))
    counts[:] = array.array("Q", data)


def save(path, memory=None):
    whole = memory or (os.path.join(path, "counts") if os.path.isdir(path) else path)
    with os.fdopen(os.open(whole, os.O_WRONLY | os.O_CREAT), "wb", 0) as file:
        file.write(counts.tobytes()[:4 * ROWS])
        if os.path.exists("dies"):
            os.remove("dies")
            os.kill(os.getpid(), 9)
        file.write(counts.tobytes()[4 * ROWS:])
        file.truncate()
    print("saves into", "memory" if memory else path, flush=True)
    ask("saved memory=counts" if memory else "saved path=" + ("counts" if whole != path else path))


def ask(word):
    """The records of the answer; what is to be loaded or saved is done, in this order, when it is whole."""
    WRITES.write(word + "\n")
    records = []
    for line in READS:
        records.append(fields(line))
        if records[-1][0] in ("ok", "err"):
            break
    if not records or records[-1][0] != "ok":
        sys.exit("%s: %s" % (word, records))
    for kind, of in records:
        if kind == "place":
            print("rank", of["rank"], flush=True)
        if kind == "resume":
            load(of["path"])
            print("resume", of["iteration"], sum(counts), flush=True)
    for kind, of in records:
        if kind == "save":
            save(of["path"], of.get("memory"))
    return records


def sum_of(answer):
    """The sum that was committed, as a view of floats."""
    path = answer["path"]
    if path not in mapped:
        mapped.clear()
        with open(path, "rb") as file:
            mapped[path] = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    begin = int(answer["offset-bytes"])
    return memoryview(mapped[path])[begin:begin + 4 * ROWS].cast("f")


def pace():
    try:
        with open("pace." + NAME) as file:
            return float(file.read())
    except OSError:
        return 0.0


def main():
    room = ask("sums floats=%d" % ROWS)[-1][1]
    with open(room["path"], "r+b") as file:
        memory = mmap.mmap(file.fileno(), int(room["bytes"]))
    gradient = memoryview(memory).cast("f")
    mine, enough, scale, device, all_rows = [], None, "1", Device(), 0
    while True:
        records = ask(device.next("next empty=1"))
        state = records[-1][1].get("state")
        if state == "end":
            break
        if state == "wait":
            continue
        for row in mine:
            gradient[row] = 0.0
        mine = []
        for kind, of in records:
            trained = sum(counts) - more * ROWS
            if kind == "batch" and int(of["samples-done"]) != trained:
                sys.exit("iteration %s: samples-done=%s, not %d" % (of["iteration"], of["samples-done"], trained))
            if kind == "batch":
                all_rows = int(of["samples-all"])
            if kind == "batch" and of["lr-scale"] != scale:
                scale = of["lr-scale"]
                print("lr-scale", scale, flush=True)
            if kind == "range":
                begin, length = int(of["begin"]), int(of["length"])
                if "seed" in of:
                    sys.exit("shuffled rows are not for this trainer")
                mine.extend(range(begin, begin + length))
        for row in mine:
            gradient[row] += 1.0
        time.sleep(SECONDS + pace() * len(mine))
        if not enough and os.path.exists("enough"):
            enough = ask("enough why=told")
        half = ROWS // 2
        WRITES.write("final begin=%d count=%d\n" % (half, ROWS - half))
        accum = [int(of["accum"]) for kind, of in records if kind == "batch"][0]
        answer = ask("sum loss=0.5" + device.train(len(mine), accum, ask))[-1][1]
        samples = int(answer["samples"])
        print("sum", answer["iteration"], samples, flush=True)
        if samples == 0:
            continue
        total = 0
        for row, cell in enumerate(sum_of(answer).tolist()):
            if cell:
                counts[row] += int(cell)
                total += int(cell)
        if total != samples:
            sys.exit("iteration %s: a sum of %d rows, not %d" % (answer["iteration"], total, samples))
        while os.path.exists("linger") or sum(counts) == all_rows and os.path.exists("linger." + NAME):
            time.sleep(0.02)
    print("over", flush=True)
    while os.path.exists("behind." + NAME):
        time.sleep(0.02)
    with open(NAME + ".counts", "w") as file:
        file.writelines("%d\n" % n for n in counts)


main()

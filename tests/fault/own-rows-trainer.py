"""A trainer whose parameters are counts, of the rows that it has trained itself (agent(1)).

	own-rows-trainer.py [--late | --dies | --ranks] ROWS PACE

It sleeps as one does that trains as many rows a second as the file PACE says (not there: it does not
sleep), and, while that is there, as many seconds more in each batch as the file PACE.ID says, ID being the
node's.  It keeps its counts in memory.  When it is
told to save it writes them to a file below the given directory, 4 bytes a row; when it is told to
resume it reads them from there, or, with --late, saves some batches after it was told to.  With --dies it
kills itself behind its second batch.  With --ranks it takes part in each iteration, also without rows, as
ranks do that share gradients.  Its device may be emulated: ../emulated_device.py.  Plain words
on PACELINE_IN and PACELINE_OUT, no module of the kit: what is tested must not test itself.
"""

import array
import os
import signal
import sys
import time
from urllib.parse import unquote

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), ".."))
from emulated_device import Device  # noqa: E402

IN = os.fdopen(int(os.environ["PACELINE_IN"]), "r")
OUT = os.fdopen(int(os.environ["PACELINE_OUT"]), "w")


def parse(line):
    words = line.split("\t")[0].split(" ")
    fields = dict(word.split("=", 1) for word in words[1:])
    return words[0], {key: unquote(value) for key, value in fields.items()}


def ask(text):
    """The records before the last one, and that: ok or err."""
    OUT.write(text + "\n")
    OUT.flush()
    records = []
    while True:
        line = IN.readline()
        if not line.endswith("\n"):
            sys.exit(75)  # the agent is gone
        kind, fields = parse(line[:-1])
        if kind == "err":
            sys.exit("%s was refused: %s" % (text, line))
        if kind == "ok":
            return records, fields
        records.append((kind, fields))


class Trainer:
    def __init__(self, rows, pace, late):
        self.counts = array.array("I", bytes(4 * rows))
        self.pace, self.late = pace, late
        self.asked = None  # the directory of a save that is not written yet, and what was there then
        self.wait = 0

    def obey(self, records):
        """save and resume, which may stand before any ok."""
        for kind, fields in records:
            if kind == "resume":
                with open(fields["path"], "rb") as file:
                    self.counts = array.array("I", file.read())
                print("resume", fields["path"], fields["iteration"], sum(self.counts), flush=True)
            elif kind == "save":
                self.asked, self.wait = (fields["path"], self.counts.tobytes()), self.late
        if self.asked and self.wait == 0:
            self.save()
        self.wait -= self.wait > 0

    def save(self):
        path, data = self.asked
        self.asked = None
        with open(os.path.join(path, "counts.tmp"), "wb") as file:
            file.write(data)
        os.rename(os.path.join(path, "counts.tmp"), os.path.join(path, "counts"))
        records, _ = ask("saved path=counts")
        self.obey(records)

    def train(self, ranges):
        for r in ranges:
            if "seed" in r:
                sys.exit("a range with a seed: SHUFFLE=samples is not for this trainer")
            begin = int(r["begin"]) + int(r.get("skip", 0))
            for row in range(begin, begin + int(r.get("take", r["length"]))):
                self.counts[row] += 1

    def sleep(self, size):
        try:
            with open(self.pace) as file:
                seconds = size / float(file.read())
        except FileNotFoundError:
            return
        try:
            with open(self.pace + "." + os.environ["PACELINE_ID"]) as file:
                seconds += float(file.read())
        except FileNotFoundError:
            pass
        time.sleep(seconds)

    def run(self, dies, word):
        batches, device = 0, Device()
        while True:
            records, end = ask(device.next(word))
            ranges = [fields for kind, fields in records if kind == "range"]
            batch = [fields for kind, fields in records if kind == "batch"]
            self.obey(records)
            if end.get("state") == "end":
                return
            if not batch:
                continue
            size = int(batch[0]["size"])
            self.sleep(size)
            self.train(ranges)
            said = device.train(size, int(batch[0]["accum"]), ask)
            records, end = ask("step loss=%g%s" % (1 / (1 + sum(self.counts)), said))
            self.obey(records)
            batches += 1
            if dies and batches == 2:
                os.kill(os.getpid(), signal.SIGKILL)


def main():
    late = 3 if sys.argv[1] == "--late" else 0
    rows, pace = sys.argv[-2:]
    word = "next empty=1" if sys.argv[1] == "--ranks" else "next"
    Trainer(int(rows), pace, late).run(sys.argv[1] == "--dies", word)


main()

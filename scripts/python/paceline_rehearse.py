"""paceline_rehearse: runs a trainer without a job, as Paceline's agent would.

    python3 -m paceline_rehearse --samples 1000 --size 50 --save-every 5 --kill 0@7 -- python3 train.py
    python3 -m paceline_rehearse --samples 1000 --size 50,10,50 --ranks 3 -- python3 ddp.py

Starts the command once for each rank, deals out batches, asks for checkpoints, kills ranks where
it is told to, and starts all of them again from the last checkpoint. The words are those of
agent(1), so a trainer in any language will do; --say shows the conversation. Nothing is kept: this
tries a trainer, it is no way to train one.

At the end: `rehearsal iterations= samples= checkpoints= restarts= repeated= loss=`, and 0 when all
trainers ended well. 65: a trainer broke the rules, and is told how. 75: it died too often. 78: the
command can't be run, or a checkpoint has no place.
"""
from __future__ import annotations

import argparse
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional, Tuple

import paceline
from paceline import CONFIG, TEMPFAIL, Range

DATA = 65
MISTAKES = (64, 65, 78, 126, 127)  # no second try, as in a job


class Broken(Exception):
    """A trainer broke the rules."""


class Died(Exception):
    """A trainer ended before the end."""


class Rank:
    """One trainer and what is known of it."""

    def __init__(self, number: int, process: subprocess.Popen, reads: int, writes: int) -> None:
        self.number, self.process, self.reads, self.writes = number, process, reads, writes
        self.unread = b""
        self.line = 0
        self.asks: Optional[str] = None  # a word that is not answered yet: next or step
        self.ahead: Optional[Dict[str, str]] = None  # of a next that was said together with step
        self.takes_part = False  # also without rows
        self.holds: Optional[List[Range]] = None  # a batch that is not done
        self.loss: Optional[float] = None
        self.saving = False
        self.resume: Optional[Tuple[str, int]] = None
        self.pauses = 0.0  # until then at most, as it has said
        self.ended = False  # it knows that all is done
        self.closed = False

    def place(self) -> str:
        return "rank %d, line %d" % (self.number, self.line)


class Checkpoint:
    """A moment of the job, and who saved what of it."""

    def __init__(self, iteration: int, at: int, directory: str, ranks: int) -> None:
        self.iteration, self.at, self.directory = iteration, at, directory
        self.waits_for = set(range(ranks))
        self.paths: Dict[int, str] = {}
        self.failed = False


class Rehearsal:
    def __init__(self, options: argparse.Namespace, directory: str) -> None:
        self.o = options
        self.directory = directory
        self.all = options.samples * options.epochs
        self.at = 0  # rows of all epochs that are given
        self.iteration = 0
        self.kills: List[Tuple[int, int]] = list(options.kill)
        self.ranks: List[Rank] = []
        self.cut: Optional[Checkpoint] = None  # complete
        self.saving: Optional[Checkpoint] = None
        self.restarts = self.repeated = self.checkpoints = 0
        self.killed = False  # the death that comes next is ours
        self.loss: Optional[float] = None
        self.choose = selectors.DefaultSelector()

    # -- processes --

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for number in range(self.o.ranks):
            reads, their_out = os.pipe()
            their_in, writes = os.pipe()
            path = os.path.dirname(os.path.abspath(__file__))
            env = dict(os.environ, PACELINE_IN=str(their_in), PACELINE_OUT=str(their_out),
                       PACELINE_ID="w%d" % number, RANK=str(number), WORLD_SIZE=str(self.o.ranks),
                       LOCAL_RANK=str(number), LOCAL_WORLD_SIZE=str(self.o.ranks),
                       MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                       PYTHONPATH=os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")])))
            env.pop("PACELINE_RESUME", None)
            resume = None
            if self.cut is not None and self.cut.paths:
                saved = self.cut.paths
                resume = (saved.get(number, saved[min(saved)]), self.cut.iteration)
                env["PACELINE_RESUME"] = resume[0]
            process = subprocess.Popen(self.o.command, env=env, pass_fds=(their_in, their_out),
                                       start_new_session=True)
            os.close(their_in)
            os.close(their_out)
            rank = Rank(number, process, reads, writes)
            rank.resume = resume
            self.ranks.append(rank)
            self.choose.register(reads, selectors.EVENT_READ, rank)

    def stop(self) -> None:
        for rank in self.ranks:
            try:
                os.killpg(rank.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            rank.process.wait()
            if not rank.closed:
                self.choose.unregister(rank.reads)
                os.close(rank.reads)
            os.close(rank.writes)
        self.ranks = []

    # -- words --

    def say(self, rank: Rank, kind: str, **fields: object) -> None:
        line = paceline._record(kind, **fields)
        if self.o.say:
            print("w%d <- %s" % (rank.number, os.fsdecode(line).rstrip()), file=sys.stderr)
        try:
            os.write(rank.writes, line)
        except BrokenPipeError:
            pass  # its end is heard of on the other pipe

    def hear(self, rank: Rank) -> None:
        data = os.read(rank.reads, 65536)
        if not data:
            if rank.unread:
                raise Broken("rank %d ended in the middle of a line" % rank.number)
            self.choose.unregister(rank.reads)
            os.close(rank.reads)
            rank.closed = True
            try:
                status = rank.process.wait(self.o.patience)
            except subprocess.TimeoutExpired:
                raise Broken("rank %d has closed PACELINE_OUT, and has not ended for %g s" %
                             (rank.number, self.o.patience)) from None
            if status in MISTAKES:
                raise Broken("rank %d ended with exit status %d, a mistake that would come again" %
                             (rank.number, status))
            if not rank.ended or status != 0:
                raise Died("rank %d ended %s (%s)" % (rank.number, "before all was trained" if not rank.ended
                           else "badly", "signal %d" % -status if status < 0 else "exit status %d" % status))
            return
        *lines, rank.unread = (rank.unread + data).split(b"\n")
        if any(len(line) >= paceline.LINE_MAX for line in [*lines, rank.unread]):
            raise Broken("rank %d: a line of more than %d bytes" % (rank.number, paceline.LINE_MAX))
        for line in lines:
            rank.line += 1
            if self.o.say:
                print("w%d -> %s" % (rank.number, os.fsdecode(line)), file=sys.stderr)
            kind, fields = paceline._parse(line)
            if kind == "waits":  # which is not answered
                continue
            rank.pauses = 0.0
            if rank.asks == "step" and kind == "next" and rank.ahead is None:
                rank.ahead = fields
                continue
            if rank.asks is not None:
                raise Broken("%s: %s before %s was answered" % (rank.place(), kind, rank.asks))
            self.word(rank, kind, fields)

    def word(self, rank: Rank, kind: str, fields: Dict[str, str]) -> None:
        if kind == "next":
            if rank.holds is not None:
                raise Broken("%s: next before step" % rank.place())
            rank.takes_part = fields.get("empty") == "1"
            rank.asks = kind
            if rank.resume is not None:
                self.say(rank, "resume", path=rank.resume[0], iteration=rank.resume[1])
                rank.resume = None
        elif kind == "step":
            if rank.holds is None:
                raise Broken("%s: step without a batch" % rank.place())
            loss = fields.get("loss")
            try:
                rank.loss = float(loss) if loss else None
            except ValueError:
                raise Broken("%s: loss=%s is no number" % (rank.place(), loss)) from None
            rank.asks = kind
        elif kind in ("saved", "failed"):
            if not rank.saving or self.saving is None:
                raise Broken("%s: %s, and nobody asked for a checkpoint" % (rank.place(), kind))
            rank.saving = False
            path = fields.get("path")
            if path is not None:
                path = os.path.join(self.saving.directory, "w%d" % rank.number, path)
                if not os.path.exists(path):
                    raise Broken("%s: saved path=%s: not there" % (rank.place(), path))
                self.saving.paths[rank.number] = path
            if kind == "failed":
                print("rehearsal: checkpoint given up: %s" % fields.get("why", ""), file=sys.stderr)
                self.saving.failed = True
            self.saving.waits_for.discard(rank.number)
            if not self.saving.waits_for:
                if not self.saving.failed:
                    self.cut = self.saving
                    self.checkpoints += 1
                self.saving = None
            self.say(rank, "ok")
        elif kind == "pause":
            seconds = float(fields.get("seconds", 1800))
            rank.pauses = time.monotonic() + seconds if seconds else 0.0
            self.say(rank, "ok")
        else:
            self.say(rank, "err", code="unknown-request")

    # -- iterations: all ranks begin, all ranks end --

    def go_on(self) -> None:
        if not all(rank.asks for rank in self.ranks if not rank.ended):
            return
        if all(rank.ended for rank in self.ranks):
            return
        if any(rank.holds is not None for rank in self.ranks):
            self.close()
            for rank in self.ranks:
                ahead, rank.ahead = rank.ahead, None
                if ahead is not None:
                    self.word(rank, "next", ahead)
            self.go_on()
        else:
            self.open()

    def open(self) -> None:
        """All ask for the next batch."""
        left = self.all - self.at
        if left == 0:
            for rank in self.ranks:
                rank.asks = None
                if self.saving is not None:
                    self.say(rank, "ok", state="wait")  # until the last checkpoint is there
                elif not rank.ended:
                    rank.ended = True
                    self.say(rank, "ok", state="end")
            return
        cuts: List[List[Range]] = []
        for rank in self.ranks:
            ranges: List[Range] = []
            sizes = self.o.size[self.iteration % len(self.o.size)]
            want = sizes[rank.number % len(sizes)]
            while want and self.at < self.all:
                epoch, begin = divmod(self.at, self.o.samples)
                take = min(want, self.o.samples - begin)
                if self.o.shuffle:
                    ranges.append(Range(0, self.o.samples, epoch + 1, begin, take))
                else:
                    ranges.append(Range(begin, take))
                self.at += take
                want -= take
            cuts.append(ranges)
        samples = sum(r.count for ranges in cuts for r in ranges)
        for rank, ranges in zip(self.ranks, cuts):
            rank.asks = None
            size = sum(r.count for r in ranges)
            if not size and not rank.takes_part:
                self.say(rank, "ok", state="wait")
                continue
            rank.holds = ranges
            self.say(rank, "batch", iteration=self.iteration, size=size, accum=self.o.accum,
                     weight="%.17g" % (len(self.ranks) * size / samples), lr_scale=1)
            for r in ranges:
                if r.seed is None:
                    self.say(rank, "range", begin=r.begin, length=r.length)
                else:
                    self.say(rank, "range", begin=r.begin, length=r.length, seed=r.seed, skip=r.skip, take=r.take)
            self.say(rank, "ok")
        for kill in self.kills:
            if kill[1] == self.iteration:
                self.kills.remove(kill)
                os.kill(self.ranks[kill[0]].process.pid, signal.SIGKILL)
                self.killed = True
                break

    def close(self) -> None:
        """All with a batch have trained it."""
        self.iteration += 1
        stepped = [rank for rank in self.ranks if rank.asks == "step"]
        sizes = {rank: sum(r.count for r in rank.holds or []) for rank in stepped}
        losses = [(rank.loss, sizes[rank]) for rank in stepped if rank.loss is not None]
        if losses:
            self.loss = sum(loss * size for loss, size in losses) / max(1, sum(size for _, size in losses))
            if self.o.losses:
                print("row iteration=%d loss=%.9g" % (self.iteration, self.loss), flush=True)
        due = self.o.save_every and self.iteration % self.o.save_every == 0 and self.saving is None
        if due:
            place = os.path.join(self.directory, "%08d.%d" % (self.iteration, self.restarts))
            self.saving = Checkpoint(self.iteration, self.at, place, len(self.ranks))
        for rank in self.ranks:
            if due and self.saving is not None and rank.asks:
                path = os.path.join(self.saving.directory, "w%d" % rank.number)
                os.makedirs(path)
                rank.saving = True
                self.say(rank, "save", path=path, iteration=self.iteration)
            if rank.asks == "step":
                self.say(rank, "ok", iteration=self.iteration)
            elif rank.asks == "next":
                self.say(rank, "ok", state="wait")
            rank.holds = rank.asks = None

    def silent(self) -> str:
        owing = [rank for rank in self.ranks if not rank.asks and not rank.closed]
        return "nobody says anything for %g s: %s" % (self.o.patience, ", ".join(
            "rank %d %s" % (rank.number, "has a batch and no step was said" if rank.holds is not None
                            else "has been told that all is trained, and does not end" if rank.ended
                            else "did not ask for a batch") for rank in owing))

    def run(self) -> int:
        while True:
            try:
                self.start()
                while not all(rank.closed for rank in self.ranks):
                    heard = self.choose.select(self.o.patience)
                    if not heard and max(rank.pauses for rank in self.ranks) > time.monotonic():
                        continue
                    if not heard:
                        raise Broken(self.silent())
                    for key, _ in heard:
                        if not key.data.closed:
                            self.hear(key.data)
                    self.go_on()
                return 0
            except Died as error:
                print("rehearsal: %s" % error, file=sys.stderr)
                if self.restarts >= self.o.restarts or self.iteration == 0 and not self.killed:
                    return TEMPFAIL
                self.restarts += 1
                self.saving, self.killed = None, False
                self.repeated += self.at - (self.cut.at if self.cut else 0)
                self.at, self.iteration = (self.cut.at, self.cut.iteration) if self.cut else (0, 0)
            except Broken as error:
                print("rehearsal: %s" % error, file=sys.stderr)
                return DATA
            except OSError as error:  # no COMMAND; a --directory with checkpoints of an older rehearsal
                print("rehearsal: %s" % error, file=sys.stderr)
                return CONFIG
            finally:
                self.stop()


def _kill(text: str) -> Tuple[int, int]:
    rank, _, iteration = text.partition("@")
    return int(rank), int(iteration)


def _sizes(text: str) -> List[List[int]]:
    sizes = [[int(size) for size in iteration.split(",")] for iteration in text.split("/")]
    if any(min(some) < 0 or sum(some) == 0 for some in sizes):
        raise ValueError(text)
    return sizes


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="paceline_rehearse", description=(__doc__ or "").split("\n")[0])
    add: Any = parser.add_argument
    add("--samples", type=int, required=True, help="rows of the data")
    add("--size", type=_sizes, default=[[64]], help="rows of a batch (64); SIZE,SIZE,...: of each rank's; "
        "SIZES/SIZES/...: in one iteration after the other, and again")
    add("--ranks", type=int, default=1, help="trainers (1)")
    add("--epochs", type=int, default=1, help="passes over the data (1)")
    add("--accum", type=int, default=1, help="steps of a batch (1)")
    add("--shuffle", action="store_true", help="another order of rows in each epoch")
    add("--save-every", type=int, default=0, metavar="K", help="a checkpoint each K iterations")
    add("--kill", type=_kill, action="append", default=[], metavar="RANK@K",
        help="kill -9 that rank when it has the batch of iteration K")
    add("--restarts", type=int, default=5, metavar="N", help="after how many deaths to give up (5)")
    add("--patience", type=float, default=600, metavar="SECONDS",
        help="give up when no trainer says anything for so long (600)")
    add("--directory", help="where checkpoints are kept (a new one, removed at the end)")
    add("--losses", action="store_true", help="print the mean loss of each iteration")
    add("--say", action="store_true", help="show the conversation on standard error")
    add("command", nargs="+", metavar="COMMAND", help="behind --: the trainer")
    options = parser.parse_args(arguments)
    if options.samples < 1 or options.epochs < 1 or options.ranks < 1:
        parser.error("samples, epochs and ranks are at least 1")
    if any(rank >= options.ranks for rank, _ in options.kill):
        parser.error("--kill: ranks are 0 to %d" % (options.ranks - 1))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="paceline-rehearse.") as own:
        rehearsal = Rehearsal(options, os.path.abspath(options.directory or own))
        status = rehearsal.run()
    if status == 0:
        print("rehearsal iterations=%d samples=%d checkpoints=%d restarts=%d repeated=%d loss=%s"
              % (rehearsal.iteration, rehearsal.at, rehearsal.checkpoints, rehearsal.restarts, rehearsal.repeated,
                 "" if rehearsal.loss is None else "%.9g" % rehearsal.loss))
    return status


if __name__ == "__main__":
    sys.exit(main())

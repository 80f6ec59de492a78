"""paceline_rehearse: runs a trainer without a job, as Paceline's agent would.

    python3 -m paceline_rehearse --samples 1000 --size 50 --save-every 5 --kill 0@7 -- python3 train.py
    python3 -m paceline_rehearse --samples 1000 --size 50,10,50 --ranks 3 -- python3 ddp.py

Starts the command once for each rank, deals out batches, asks for checkpoints, kills ranks where
it is told to, and starts all of them again from the last checkpoint. The words are those of
agent(1), so a trainer in any language will do; --say shows the conversation. Nothing is kept: this
tries a trainer, it is no way to train one.

A trainer that says `sums` (paceline.batches(sums=model)) is tried as in a job with SYNC=allreduce:
a rank that is killed takes nobody back. The others go on without it, and two iterations later it is
given the state of one of them.

At the end: `rehearsal iterations= samples= checkpoints= restarts= repeated= loss=`, and 0 when all
trainers ended well. 65: a trainer broke the rules, and is told how. 75: it died too often. 78: the
command can't be run, or a checkpoint has no place.
"""
from __future__ import annotations

import argparse
import mmap
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from array import array
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
        self.saves: List[Optional[Checkpoint]] = []  # asked for and not answered; None: its state, for others
        self.into: Optional[int] = None  # memory into which it may save
        self.resume: Optional[Tuple[str, int]] = None
        self.fits = 0  # rows of a step; 0: any
        self.pauses = 0.0  # until then at most, as it has said
        self.ended = False  # it knows that all is done
        self.closed = False
        # with sums:
        self.memory: Optional[mmap.mmap] = None  # where it puts its gradients
        self.finals: List[Tuple[int, bytes]] = []  # floats from there on that are not to change any more
        self.since = 0  # from this iteration on it is waited for
        self.whole = False  # it has the state of the iteration that comes next
        self.joins = False  # it loads that state

    def place(self) -> str:
        return "rank %d, line %d" % (self.number, self.line)


class Checkpoint:
    """A moment of the job, and who saved what of it."""

    def __init__(self, iteration: int, at: int, directory: str, ranks: List[Rank]) -> None:
        self.iteration, self.at, self.directory = iteration, at, directory
        self.waits_for = {rank.number for rank in ranks}
        self.paths: Dict[int, str] = {}
        self.failed = False


class Rehearsal:
    def __init__(self, options: argparse.Namespace, directory: str) -> None:
        self.o = options
        self.directory = directory
        self.all = options.samples * options.epochs
        self.batch = sum(options.size[0][rank % len(options.size[0])] for rank in range(options.ranks))
        self.at = 0  # rows of all epochs that are given
        self.done = 0  # and trained
        self.iteration = 0
        self.kills: List[Tuple[int, int]] = list(options.kill)
        self.ranks: List[Rank] = []
        self.cut: Optional[Checkpoint] = None  # complete
        self.saving: Optional[Checkpoint] = None
        self.restarts = self.repeated = self.checkpoints = 0
        self.killed = False  # the death that comes next is ours
        self.loss: Optional[float] = None
        self.floats = 0  # with sums: how many; then iterations are those of the functions for sums below
        self.back: List[Range] = []  # rows of ranks that died with them
        self.due = False  # a checkpoint, with the next batch
        self.state: Optional[int] = None  # memory in which a rank writes its state for those that join
        self.result = -1  # two sums of all ranks: of the iteration before, and this one's
        self.enough = False  # a trainer says so: what was begun is the last batch
        self.choose = selectors.DefaultSelector()

    # -- processes --

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.began = self.iteration
        self.port, self.floats, self.back, self.due, self.state = port, 0, [], False, None
        for number in range(self.o.ranks):
            resume = None
            if self.cut is not None and self.cut.paths:
                saved = self.cut.paths
                resume = (saved.get(number, saved[min(saved)]), self.cut.iteration)
            self.ranks.append(self.begin(number, resume))

    def begin(self, number: int, resume: Optional[Tuple[str, int]]) -> Rank:
        reads, their_out = os.pipe()
        their_in, writes = os.pipe()
        path = os.path.dirname(os.path.abspath(__file__))
        env = dict(os.environ, PACELINE_IN=str(their_in), PACELINE_OUT=str(their_out),
                   PACELINE_ID="w%d" % number, RANK=str(number), WORLD_SIZE=str(self.o.ranks),
                   LOCAL_RANK=str(number), LOCAL_WORLD_SIZE=str(self.o.ranks),
                   PACELINE_EPOCHS=str(self.o.epochs), PACELINE_BATCH=str(self.batch),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port),
                   PYTHONPATH=os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")])))
        env.pop("PACELINE_RESUME", None)
        if resume is not None:
            env["PACELINE_RESUME"] = resume[0]
        process = subprocess.Popen(self.o.command, env=env, pass_fds=(their_in, their_out), start_new_session=True)
        os.close(their_in)
        os.close(their_out)
        rank = Rank(number, process, reads, writes)
        rank.resume = resume
        self.choose.register(reads, selectors.EVENT_READ, rank)
        return rank

    def stop(self) -> None:
        for rank in self.ranks:
            self.end(rank)
        self.ranks = []

    def end(self, rank: Rank) -> None:
        try:
            os.killpg(rank.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        rank.process.wait()
        if not rank.closed:
            self.choose.unregister(rank.reads)
            os.close(rank.reads)
        os.close(rank.writes)

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
                self.lost(rank, "rank %d ended %s (%s)" % (
                    rank.number, "before all was trained" if not rank.ended else "badly",
                    "signal %d" % -status if status < 0 else "exit status %d" % status))
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
            try:
                self.word(rank, kind, fields)
            except (ValueError, OverflowError):
                raise Broken("%s: a field of %s is no number, or too large" % (rank.place(), kind)) from None

    def word(self, rank: Rank, kind: str, fields: Dict[str, str]) -> None:
        if kind == "next":
            if rank.holds is not None:
                raise Broken("%s: next before step" % rank.place())
            rank.takes_part = fields.get("empty") == "1"
            rank.asks = kind
            if rank.resume is not None:
                self.say(rank, "resume", path=rank.resume[0], iteration=rank.resume[1])
                rank.resume = None
        elif kind == "sums":
            self.sums(rank, int(fields.get("floats", 0)))
        elif kind == "final":
            self.final(rank, int(fields.get("begin", -1)), int(fields.get("count", 0)))
        elif kind == ("sum" if rank.memory else "step"):
            if rank.holds is None:
                raise Broken("%s: %s without a batch" % (rank.place(), kind))
            for at, floats in rank.finals:
                if rank.memory is not None and rank.memory[at:at + len(floats)] != floats:
                    raise Broken("%s: floats %d to %d have changed since they were said to be final" % (
                        rank.place(), at // 4, (at + len(floats)) // 4 - 1))
            rank.finals = []
            loss = fields.get("loss")
            try:
                rank.loss = float(loss) if loss else None
            except ValueError:
                raise Broken("%s: loss=%s is no number" % (rank.place(), loss)) from None
            rank.asks = kind
        elif kind in ("saved", "failed"):
            if not rank.saves:
                raise Broken("%s: %s, and nobody asked for a checkpoint" % (rank.place(), kind))
            checkpoint, path = rank.saves.pop(0), fields.get("path")
            if kind == "failed":
                print("rehearsal: %s given up: %s" % ("state" if checkpoint is None else "checkpoint",
                                                      fields.get("why", "")), file=sys.stderr)
            if checkpoint is None:
                self.given(rank, path if kind == "saved" else None)
            else:
                if "memory" in fields:
                    path = fields["memory"]
                    if not path or path[0] == "." or "/" in path:
                        raise Broken("%s: saved memory=%s: is not the name of a file" % (rank.place(), path))
                    self.write(rank, os.path.join(checkpoint.directory, "w%d" % rank.number, path))
                if path is not None:
                    path = os.path.join(checkpoint.directory, "w%d" % rank.number, path)
                    if not os.path.exists(path):
                        raise Broken("%s: saved path=%s: not there" % (rank.place(), path))
                    checkpoint.paths[rank.number] = path
                checkpoint.failed = checkpoint.failed or kind == "failed"
                self.saved(rank, checkpoint)
            self.say(rank, "ok")
        elif kind == "report":
            print("rehearsal: rank %d reports %s" % (rank.number, fields.get("values", "")), file=sys.stderr)
            self.say(rank, "ok")
        elif kind == "fits":
            rank.fits = int(fields.get("rows", 0))
            self.say(rank, "ok")
        elif kind == "enough":
            self.enough = True
            self.say(rank, "ok")
        elif kind == "pause":
            seconds = float(fields.get("seconds", 1800))
            rank.pauses = time.monotonic() + seconds if seconds else 0.0
            self.say(rank, "ok")
        else:
            self.say(rank, "err", code="unknown-request")

    def write(self, rank: Rank, path: str) -> None:
        """What the rank has written into memory, as a file."""
        if rank.into is None or not os.fstat(rank.into).st_size:
            raise Broken("%s: saved memory=, and nothing is there" % rank.place())
        shutil.copyfile(self.path(rank.into), path)  # one read() gets 2 GiB at most

    def saved(self, rank: Rank, checkpoint: Checkpoint) -> None:
        checkpoint.waits_for.discard(rank.number)
        if not checkpoint.waits_for:
            if not checkpoint.failed:
                self.cut = checkpoint
                self.checkpoints += 1
            self.saving = None

    # -- iterations: all ranks begin, all ranks end --

    def go_on(self) -> None:
        if self.floats:
            self.go_on_summing()
            return
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
        if self.at == self.all or self.enough:
            for rank in self.ranks:
                rank.asks = None
                if self.saving is not None:
                    self.say(rank, "ok", state="wait")  # until the last checkpoint is there
                elif not rank.ended:
                    rank.ended = True
                    self.say(rank, "ok", state="end")
            return
        cuts = [self.cut_rows(rank) for rank in self.ranks]
        samples = sum(r.count for ranges in cuts for r in ranges)
        for rank, ranges in zip(self.ranks, cuts):
            size = sum(r.count for r in ranges)
            if not size and not rank.takes_part:
                rank.asks = None
                self.say(rank, "ok", state="wait")
                continue
            self.deal(rank, ranges, len(self.ranks) * size / samples, samples)
        self.kill()

    def cut_rows(self, rank: Rank) -> List[Range]:
        """The rows that come next, for this rank."""
        ranges: List[Range] = []
        sizes = self.o.size[self.iteration % len(self.o.size)]
        want = sizes[rank.number % len(sizes)]
        while want and self.back:
            r = self.back.pop(0)
            take = min(want, r.count)
            ranges.append(r._replace(take=take))
            if take < r.count:
                self.back.insert(0, r._replace(skip=r.skip + take, take=r.count - take))
            want -= take
        while want and self.at < self.all:
            epoch, begin = divmod(self.at, self.o.samples)
            take = min(want, self.o.samples - begin)
            if self.o.shuffle:
                ranges.append(Range(0, self.o.samples, epoch + 1, begin, take))
            else:
                ranges.append(Range(begin, take))
            self.at += take
            want -= take
        return ranges

    def deal(self, rank: Rank, ranges: List[Range], weight: float, samples: Optional[int] = None) -> None:
        """samples: of all ranks; where their gradients are summed here, they are told with the sum."""
        rank.asks, rank.holds = None, ranges
        size = sum(r.count for r in ranges)
        where: Dict[str, object] = {"samples_done": self.done, "samples_all": self.all}
        if samples is not None:
            where = {"samples": samples, **where}
        if size:
            where = {"epoch": self.done // self.o.samples, **where}
        accum = max(self.o.accum, -(-size // rank.fits) if rank.fits else 1)
        self.say(rank, "batch", iteration=self.iteration, size=size, accum=accum, weight="%.17g" % weight,
                 lr_scale=1, **where)
        for r in ranges:
            if r.seed is None:
                self.say(rank, "range", begin=r.begin + r.skip, length=r.count)
            else:
                self.say(rank, "range", begin=r.begin, length=r.length, seed=r.seed, skip=r.skip, take=r.take)
        self.say(rank, "ok")

    def kill(self) -> None:
        for kill in self.kills:
            if kill[1] == self.iteration:
                self.kills.remove(kill)
                os.kill(self.ranks[kill[0]].process.pid, signal.SIGKILL)
                self.killed = True
                break

    def close(self) -> None:
        """All with a batch have trained it."""
        self.trained()
        if self.due:
            self.save(self.ranks)
        for rank in self.ranks:
            if rank.asks == "step":
                self.say(rank, "ok", iteration=self.iteration)
            elif rank.asks == "next":
                self.say(rank, "ok", state="wait")
            rank.holds = rank.asks = None

    def trained(self) -> None:
        self.iteration += 1
        sizes = {rank: sum(r.count for r in rank.holds or []) for rank in self.ranks if rank.asks != "next"}
        self.done += sum(sizes.values())
        losses = [(rank.loss, size) for rank, size in sizes.items() if rank.loss is not None and size]
        if losses:
            self.loss = sum(loss * size for loss, size in losses) / sum(size for _, size in losses)
            if self.o.losses:
                print("row iteration=%d loss=%.9g" % (self.iteration, self.loss), flush=True)
        if self.o.save_every and self.iteration % self.o.save_every == 0 and self.saving is None:
            self.due = True

    def save(self, ranks: List[Rank]) -> None:
        """A checkpoint of these ranks, with their next answer."""
        self.due = False
        place = os.path.join(self.directory, "%08d.%d" % (self.iteration, self.restarts))
        self.saving = Checkpoint(self.iteration, self.at, place, ranks)
        for rank in ranks:
            path = os.path.join(place, "w%d" % rank.number)
            os.makedirs(path)
            rank.saves.append(self.saving)
            if rank.into is None:
                rank.into = self.file(0)
            self.say(rank, "save", path=path, iteration=self.iteration, memory=self.path(rank.into))

    # -- iterations of ranks whose gradients are summed here --

    def sums(self, rank: Rank, floats: int) -> None:
        if floats < 1 or rank.memory is not None or self.floats not in (0, floats):
            raise Broken("%s: sums floats=%d%s" % (rank.place(), floats, ", and other ranks have %d" % self.floats
                                                   if self.floats else ""))
        if not self.floats:
            self.floats = floats
            self.result = self.file(8 * floats)
        handle = self.file(4 * floats)
        rank.memory = mmap.mmap(handle, 4 * floats)
        self.say(rank, "ok", path=self.path(handle), bytes=4 * floats)

    def file(self, size: int) -> int:
        handle = os.memfd_create("rehearsal")
        os.ftruncate(handle, size)
        return handle

    def path(self, handle: int) -> str:
        return "/proc/%d/fd/%d" % (os.getpid(), handle)

    def final(self, rank: Rank, begin: int, count: int) -> None:
        if rank.memory is None or rank.holds is None or begin < 0 or count < 1 or begin + count > self.floats:
            raise Broken("%s: final begin=%d count=%d" % (rank.place(), begin, count))
        rank.finals.append((4 * begin, rank.memory[4 * begin:4 * (begin + count)]))

    def lost(self, rank: Rank, why: str) -> None:
        """Nobody is taken back if another rank has the state."""
        if not any(other.whole and other is not rank and not other.closed for other in self.ranks) or rank.ended \
                or self.restarts >= self.o.restarts:
            raise Died(why)
        print("rehearsal: %s" % why, file=sys.stderr)
        self.end(rank)
        self.restarts, self.killed = self.restarts + 1, False
        self.back += rank.holds or []
        for checkpoint in rank.saves:
            if checkpoint is None:
                self.state = None  # another rank is asked, before the next iteration
            else:
                checkpoint.failed = True
                self.saved(rank, checkpoint)
        self.ranks[rank.number] = fresh = self.begin(rank.number, None)
        fresh.since = self.iteration + 2

    def given(self, rank: Rank, path: Optional[str]) -> None:
        """A rank has written its state, for all that wait for one."""
        state, self.state = self.state, None
        if state is None or path != self.path(state) or not os.fstat(state).st_size:
            raise Broken("%s: has not written its state, which other ranks wait for" % rank.place())
        for other in self.ranks:
            if other.asks == "next" and not other.whole:
                other.asks, other.joins = None, True
                self.say(other, "resume", path=path, iteration=self.iteration)
                self.say(other, "ok", state="wait")

    def go_on_summing(self) -> None:
        if any(rank.holds is not None for rank in self.ranks):
            for rank in self.ranks:
                if rank.joins and rank.asks == "next":
                    rank.joins, rank.whole = False, True
                    self.deal(rank, self.cut_rows(rank), 1)
            if self.state is None and not any(rank.joins or rank.holds is not None and rank.asks != "sum"
                                              for rank in self.ranks):
                self.commit()
            return
        over = self.at == self.all and not self.back or self.enough
        there = [rank for rank in self.ranks if over or rank.since <= self.iteration]
        if not all(rank.asks for rank in there):
            return
        for rank in there:
            if rank.memory is None or not rank.takes_part:
                raise Broken("%s: other ranks have said sums, and this one has not, or it said next without empty=1" %
                             rank.place())
            if rank.joins or self.iteration == self.began and (self.cut is not None or rank.number == 0):
                rank.joins, rank.whole = False, True
        members = [rank for rank in there if rank.whole]
        if self.due and not self.back and self.saving is None:
            self.save(members[:1])
        if self.state is None and len(members) < len(there):
            self.state = self.file(0)
            members[0].saves.append(None)
            self.say(members[0], "save", path=self.path(self.state), iteration=self.iteration)
        if not over:
            for rank in members:
                self.deal(rank, self.cut_rows(rank), 1)
            self.kill()
            return
        done = self.saving is None and self.state is None
        for rank in members:
            if done or rank.saves:
                rank.asks, rank.ended = None, done
                self.say(rank, "ok", state="end" if done else "wait")

    def commit(self) -> None:
        members = [rank for rank in self.ranks if rank.holds is not None]
        samples = {rank: sum(r.count for r in rank.holds or []) for rank in members}
        parts = [array("f", rank.memory[:]) for rank in members if rank.memory is not None and samples[rank]]
        where: Dict[str, object] = {}  # as in a job: there is no sum of no rows
        if parts:
            offset = 4 * self.floats * (self.iteration % 2)
            os.pwrite(self.result, array("f", map(sum, zip(*parts))).tobytes(), offset)
            where = {"path": self.path(self.result), "offset_bytes": offset}
        self.trained()
        for rank in members:
            rank.holds = rank.asks = None
            self.say(rank, "ok", iteration=self.iteration, samples=sum(samples.values()), **where)

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
                self.saving, self.killed, self.enough = None, False, False
                self.repeated += self.at - (self.cut.at if self.cut else 0)
                self.at, self.iteration = (self.cut.at, self.cut.iteration) if self.cut else (0, 0)
                self.done = self.at
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

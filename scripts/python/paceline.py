"""paceline: batches of rows from Paceline's agent(1), for trainers in Python.

    import paceline

    loader = paceline.Loader(DataLoader(data, batch_size=64, shuffle=True))
    for epoch in loader.epochs(3, state={"model": model, "optimizer": optimizer}):
        for x, y in loader:
            train_on(x, y)

    for batch in paceline.batches(state={"model": model}):      # without PyTorch
        batch.loss = train_on(data[batch.rows])

A batch is a list of row numbers. Asking for the next one says that this one is in the model. When a
checkpoint is due, the state is saved; after a crash it is loaded again, and the rows since then
come again. Which rows, how many and for whom is decided outside of the trainer.

One file, Python 3.8 or later, nothing else needed: torch is imported by what is for torch only.
Copy it, or set PYTHONPATH to its directory. The guide is paceline-trainers(7).

Without an agent (PACELINE_IN is not set) rows are dealt out here, so that a script also runs by hand.
"""
from __future__ import annotations

import atexit
import faulthandler
import gc
import io
import math
import mmap
import numbers
import os
import pickle
import random
import resource
import signal
import stat
import sys
import threading
import time
import traceback
import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import unquote

__all__ = ["Batch", "Batches", "Error", "Loader", "Part", "Range", "allreduce", "batches", "ddp_hook",
           "init_process_group"]

LINE_MAX = 4096  # bytes of a record, paceline-record(5)
TEMPFAIL, CONFIG = 75, 78  # exit statuses, paceline(7): try again; it would fail again
MASK = (1 << 64) - 1


_loads = False  # the script has a Loader
_OF_LOADER = {"batch.sum()": "loader.sum()", "batch.parts()": "loader.batch.parts()",
              "batch.weight": "loader.batch.weight", "batches(": "loader.epochs(", "batches.stop()": "loader.stop()"}


def _as_used(text: str) -> str:
    """A message in the words of the script."""
    for word, of_loader in _OF_LOADER.items() if _loads else ():
        text = text.replace(word, of_loader)
    return text


class Error(RuntimeError):
    """What Paceline has to complain about."""

    def __init__(self, text: str) -> None:
        super().__init__(_as_used(text))


class _Refused(Error):
    """The agent answered err: it did not take the word."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class AgentGone(Error):
    """The agent ended: nothing that this process trains now will count."""


# ---- records: paceline-record(5) ----

_QUOTED = {code: "%%%02X" % code for code in [*range(0x21), 0x25, 0x7F]}


def _record(kind: str, **fields: object) -> bytes:
    line = kind
    for name, value in fields.items():
        line += " %s=%s" % (name.replace("_", "-"), str(value).translate(_QUOTED))
    return os.fsencode(line + "\n")


def _parse(line: bytes) -> Tuple[str, Dict[str, str]]:
    kind, *fields = os.fsdecode(line).split("\t", 1)[0].split(" ")
    values = {}
    for field in fields:
        name, _, value = field.partition("=")
        values[name] = unquote(value, errors="surrogateescape") if "%" in value else value
    return kind, values


# ---- the order of rows: paceline-protocol(7), LIFE OF A SHARD ----


def _order(begin: int, length: int, seed: int) -> List[int]:
    """The rows of a piece in the order in which they are trained: each changes its place with one before it, or
    stays, by the SplitMix64 stream whose state is seed."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and length > 64:
        z = numpy.arange(1, length, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        z += numpy.uint64(seed & MASK)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z ^= z >> numpy.uint64(31)
        places = (z % numpy.arange(length, 1, -1, dtype=numpy.uint64)).tolist()
    else:
        places = []
        for left in range(length, 1, -1):
            seed = (seed + 0x9E3779B97F4A7C15) & MASK
            z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            places.append((z ^ (z >> 31)) % left)
    rows = list(range(begin, begin + length))
    for i, place in zip(range(length - 1, 0, -1), places):
        rows[i], rows[place] = rows[place], rows[i]
    return rows


class Range(NamedTuple):
    """Rows that lie side by side, or positions skip to skip+take-1 of a shuffled piece."""

    begin: int
    length: int
    seed: Optional[int] = None
    skip: int = 0
    take: Optional[int] = None

    @property
    def count(self) -> int:
        """How many rows of it are to be trained."""
        return self.length - self.skip if self.take is None else self.take

    @property
    def rows(self) -> List[int]:
        """The numbers of those rows, in the order in which they are to be trained."""
        return self._cut(self.skip, self.skip + self.count)

    def after(self, count: int) -> List[int]:
        """Up to count rows that follow in the same piece: very likely, those that come next."""
        end = self.skip + self.count
        if self.seed is None and end >= self.length:  # a piece without an order of its own goes on
            return list(range(self.begin + end, self.begin + end + count))
        return self._cut(end, min(end + count, self.length))

    def _cut(self, begin: int, end: int) -> List[int]:
        if self.seed is None:
            return list(range(self.begin + begin, self.begin + end))
        piece = (self.begin, self.length, self.seed)
        rows = _orders.get(piece)
        if rows is None:
            while len(_orders) >= 4:  # a batch rarely touches more than two pieces
                del _orders[next(iter(_orders))]
            rows = _orders[piece] = _order(*piece)
        return rows[begin:end]


_orders: Dict[Tuple[int, int, int], List[int]] = {}


# ---- a batch ----


class Part(NamedTuple):
    """One of the steps that a batch is computed in: see Batch.parts()."""

    rows: List[int]
    share: float  # of the batch: multiply the mean loss with it
    last: bool
    at: slice  # where they are in batch.rows


class Batch:
    """The rows of one iteration that are this trainer's.

    iteration   of the whole job
    ranges      the rows, as runs
    rows        the rows, one by one, in the order in which they are to be trained
    size        how many; 0: the others have rows in this iteration and this trainer has none
    accum       in how many steps they are to be computed, see parts()
    weight      multiply the mean loss (or gradient) with it, and an unweighted mean over all
                trainers is the mean over all samples. ddp_hook() does that by itself
    lr_scale    multiply the learning rate with it (1 until an action says otherwise)
    epoch       of its first row, from 0; without rows that of the batch before
    samples_done   in the model before this batch, of all trainers and epochs
    progress    the same as a part of all: from 0 up to 1
    steps       how many steps of a schedule are due behind this batch: Batches.steps in all. Usually 1
    loss        set it: the mean loss over the batch, a number or a tensor of one
    work        set it where rows differ in work: how much this batch was, in any unit (tokens, say). Then a
                rank whose rows are long by chance is not taken for a slow one
    samples     behind sum() or allreduce(): how many rows all ranks together have summed. 0: nobody had rows,
                and what the script changes in state behind it is taken back when the batch is done
    """

    __slots__ = ("iteration", "size", "accum", "lr_scale", "epoch", "samples_done", "progress", "loss", "work",
                 "samples", "waited", "_source", "_is_done", "_given", "_ranges", "_rows", "_read", "_whole", "_events",
                 "_weight", "_planned")

    def __init__(self, source: "Batches", iteration: int, ranges: List[Range], size: int,
                 accum: int = 1, weight: float = 1.0, lr_scale: float = 1.0) -> None:
        self._source = source
        self._is_done = False
        self.iteration = iteration
        self.size = size
        self.epoch = self.samples_done = 0
        self.progress = 0.0
        self.accum = accum
        self._planned = size  # rows of all ranks in this iteration, if no rank goes
        self._weight = weight
        self.lr_scale = lr_scale
        self.loss: Any = None
        self.work: Optional[float] = None
        self.samples: Optional[int] = None
        self.waited = 0.0  # seconds of it that were spent waiting for other trainers
        self._ranges = ranges
        self._rows: Optional[List[int]] = None
        self._read = 0  # so many rows were asked for
        self._whole = True  # the next backward() is the last one, as far as parts() knows
        self._events: Dict[Any, Tuple[Any, Any]] = {}  # of a GPU: waits from, to
        self._given = time.perf_counter()

    def __repr__(self) -> str:
        return "<batch iteration=%d size=%d>" % (self.iteration, self.size)

    @property
    def steps(self) -> int:
        steps = self._source._steps_at
        return steps(self._done_behind()) - steps(self.samples_done) if self._source._counts["rows"] else 1

    def _done_behind(self) -> int:
        return self.samples_done + (self._planned if self.samples is None else self.samples)

    def _ends_epoch(self) -> bool:
        rows = self._source._rows
        return rows > 0 and self._done_behind() // rows > self.samples_done // rows

    @property
    def weight(self) -> float:
        global _rows_are_weighed
        _rows_are_weighed = True
        return self._weight

    @property
    def ranges(self) -> List[Range]:
        self._read = self.size
        return self._ranges

    @property
    def rows(self) -> List[int]:
        self._read = self.size
        return self._all()

    def _all(self) -> List[int]:
        if self._rows is None:
            rows: List[int] = []
            for r in self._ranges:
                rows = r.rows if not rows else rows + r.rows
            self._rows = rows
        return self._rows

    def parts(self) -> Iterator[Part]:
        """The batch in accum steps of nearly equal size, whose gradients are to be summed:

            for part in batch.parts():
                (loss_of(part.rows) * part.share).backward()
            optimizer.step()
        """
        return self._parts(self._bounds(), announced=True)

    def _bounds(self) -> List[int]:
        steps = max(1, min(self.accum, self.size))
        return [self.size * i // steps for i in range(steps + 1)]

    def _parts(self, bounds: List[int], announced: bool) -> Iterator[Part]:
        """announced: gradients may be summed while the last backward() still makes others."""
        for i, (begin, end) in enumerate(zip(bounds, bounds[1:])):
            last = i == len(bounds) - 2
            self._read = max(self._read, end)
            self._whole = last and announced
            yield Part(self._all()[begin:end], (end - begin) / self.size if self.size else 1.0, last,
                       slice(begin, end))

    def compute(self, function: Callable[[Part], Any]) -> List[Any]:
        """What function(part) returns for each of parts(). When the memory is full, the gradients are
        zeroed, and it begins anew with parts of half the size; later batches come in such parts:

            def train(part):
                loss = loss_of(model(x[part.at]), y[part.at]) * part.share
                loss.backward()
                return loss.detach()

            batch.loss = sum(batch.compute(train))

        Gradients are to be zero before, and what has them named in state= (or sums=).
        """
        source = self._source
        while True:
            bounds = self._bounds()
            most = -(-self.size // (len(bounds) - 1))  # rows of the largest part
            # A part that is larger than any before may not fit. Until it has, nothing of it is given away: what is
            # in a sum can't be taken back. So ranks that share gradients by DDP meet in a part of two rows.
            proven = most <= source._proven
            if not proven and _ddp is not None and bounds[-1] - bounds[-2] >= 4:
                bounds.insert(-1, self.size - 2)
            values: List[Any] = []
            try:
                for part in self._parts(bounds, announced=proven):
                    with nullcontext() if part.last or _ddp is None else _ddp.no_sync():
                        values.append(function(part))
                    source._proven = max(source._proven, len(part.rows))
                return values
            except Exception as error:
                if not _is_full(error):
                    raise
                if most > 1:
                    source._fits(-(-most // 2))
                if most <= 1 or _ddp is not None and part.last or source._sums is not None and source._sums._announced:
                    raise
            # Not before the error is gone, whose frames hold what filled the memory.
            values.clear()
            source._proven = min(source._proven, most - 1)
            source._begin_anew()
            self.accum = -(-self.size // -(-most // 2))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what only waits for other trainers (a barrier, a collective of your own): that
        time does not make this trainer a slow one. ddp_hook() does it for the gradients of DDP."""
        began = time.perf_counter()
        global _waiting
        before, _waiting = _waiting, (began, lambda: True)
        try:
            yield
        except BaseException as error:
            setattr(error, "paceline_waited", True)
            raise
        finally:
            _waiting = before
            self.waited += time.perf_counter() - began

    def sum(self, loss: Any = None) -> None:
        """With batches(sums=model), between backward() and optimizer.step(): makes each parameter's
        gradient the mean over the rows of all ranks. loss as in done()."""
        _sum(self, loss)

    def done(self, loss: Any = None) -> None:
        """The batch is in the model. Asking for the next one says the same; say it yourself when
        other work (a validation) comes before that."""
        if self._is_done:
            raise Error("iteration %d: said twice that the batch is done" % self.iteration)
        if loss is not None:
            self.loss = loss
        self._end(asks=False)

    def _end(self, asks: bool) -> None:
        """asks: the next one is asked for right behind this."""
        self._is_done, source = True, self._source
        self._tell_unread()
        if source._sums is not None:
            if self.samples is None:
                raise Error("iteration %d ended without batch.sum() or allreduce(): a rank without rows says it, too, "
                            "or its parameters are no longer those of the others" % self.iteration)
            source._put_back()
            return
        if source.collective:
            self._tell_unweighed()
        source._counts["losses"] = source._with_loss(self, self._mean_loss(), self.size)
        source._step(self, asks)

    def _tell_unread(self) -> None:
        """Nobody can see which rows of a list are used. But a list that was never asked for, or only
        in parts, is a mistake of the script's."""
        global _rows_are_read
        if self._read < self.size and _rows_are_read:
            _say("iteration %d: %d of %d rows were read (rows, ranges, parts() of the batch), and all count as "
                 "trained; said once" % (self.iteration, self._read, self.size))
            _rows_are_read = False

    def _tell_unweighed(self) -> None:
        global _rows_are_weighed
        if self._weight != 1 and not _rows_are_weighed:
            _say("iteration %d: the ranks' batches differ in size, and the script uses neither ddp_hook() nor "
                 "batch.weight: a mean over ranks is not the mean over samples; said once" % self.iteration)
            _rows_are_weighed = True

    def _mean_loss(self) -> Optional[float]:
        if self.loss is None or self.size == 0:
            return None
        loss = float(self.loss)
        global _loss_is_number
        if not math.isfinite(loss):
            if _loss_is_number:
                _say("the loss of iteration %d is %r; the job is told none until it is a number again" %
                     (self.iteration, loss))
            _loss_is_number = False
            return None
        _loss_is_number = True
        return loss


# In a collective: since when, and whether still. A thread tells the agent when it lasts.
_waiting: Optional[Tuple[float, Callable[[], bool]]] = None
_current: Optional[Batch] = None  # the batch that ddp_hook() weighs by
_loss_is_number = True  # a model that is lost has nothing but nan: said once
_rows_are_read = True
_rows_are_weighed = False  # by ddp_hook() or weight
_hooked = 1  # so many ranks share the gradients of ddp_hook()
_ddp: Any = None  # the model of ddp_hook()


# ---- memory ----


def _is_full(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or (
        isinstance(error, RuntimeError) and ("out of memory" in str(error) or "can't allocate memory" in str(error)))


def _card() -> Any:
    """torch.cuda, if this process computes on a card."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized() else None


def _memory_limit() -> int:
    """Bytes that this process may have: of its control groups, or what the machine has."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        with open("/proc/self/cgroup") as file:
            group = file.read().rpartition("0::")[2].strip()
        while group.strip("/"):
            with open("/sys/fs/cgroup%s/memory.max" % group) as file:
                text = file.read().strip()
            limit = min(limit, int(text)) if text.isdigit() else limit
            group = os.path.dirname(group)
    except OSError:
        pass
    return limit


class _Memory:
    """The most memory that was in use in a batch, 0 to 1: of the card, by whomever, or else of what this
    process may have. To ask takes time: it is asked for each size of batches, and every second."""

    def __init__(self) -> None:
        self._size, self._at, self._used, self._limit = -1, 0.0, 0.0, _memory_limit()

    def used(self, size: int) -> float:
        now, card = time.perf_counter(), _card()
        if size == self._size and now < self._at + 1:
            return self._used
        self._size, self._at = size, now
        if card is None:
            self._used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / self._limit
        else:
            free, total = card.mem_get_info()
            self._used = (total - free - card.memory_reserved() + card.max_memory_allocated()) / total
            card.reset_peak_memory_stats()
        self._used = min(max(self._used, 0.0), 1.0)
        return self._used


def _say(text: str) -> None:
    try:
        print("paceline: " + _as_used(text), file=sys.stderr, flush=True)
    except OSError:  # a log on a full disk is no reason to end
        pass


# ---- where batches come from ----


class Batches:
    """An iterator over batches; made by batches()."""

    def __init__(self, collective: bool = False) -> None:
        self.batch: Optional[Batch] = None  # the one that was given last
        self.collective = collective
        self._sums: Any = None  # with sums=
        self._state: Optional[_State] = None
        self._before: Optional[Dict[str, Any]] = None  # a step that does not count: the state before it
        self._rows = self._all = 0  # of an epoch, of all epochs; 0: not known
        # In the state: rows of a step of a schedule (BATCH as the job began), _with_loss(), what patience= counts
        self._counts: Dict[str, Any] = {"rows": 0}
        self._epoch = 0
        self._resumed = False  # this process has loaded a state
        self._best: Dict[str, float] = {}  # by hand: the value of what save() has written
        self._proven = 0  # rows of the largest part that has fitted the memory

    @property
    def steps(self) -> int:
        """How many steps a schedule has in this job: for each epoch, one for each global batch (BATCH as the
        job began) of rows, however they are cut. It gets exactly so many, if it makes those of each batch:

            for _ in range(batch.steps):
                ...
        """
        if not self._all or not self._counts["rows"]:
            raise Error("how many rows there are is not known here: say samples= to batches()")
        return self._steps_at(self._all)

    def _steps_at(self, done: int) -> int:
        """So many steps are due when so many rows are in the model."""
        every = self._counts["rows"]
        epochs, rest = divmod(done, self._rows) if self._rows else (0, done)
        return epochs * -(-self._rows // every) - (-rest // every)

    @property
    def loss(self) -> float:
        """The mean loss over the rows of this epoch so far, or of the last one, as batch.loss was set: with sums=
        over those of all ranks, else of this one. A process that begins in the middle of an epoch has it, too."""
        _, total, rows = self._counts.get("losses", (0, 0.0, 0))
        if self.batch is not None and not self.batch._is_done and self._sums is None:
            _, total, rows = self._with_loss(self.batch, self.batch._mean_loss(), self.batch.size)
        return total / rows if rows else math.nan

    def _with_loss(self, batch: Batch, loss: Optional[float], rows: float) -> Tuple[int, float, float]:
        """With those of a batch: the epoch, the sum of its losses, and of how many rows."""
        epoch = batch.samples_done // self._rows if self._rows else 0
        kept, total, some = self._counts.get("losses", (epoch, 0.0, 0))
        if kept != epoch:
            total, some = 0.0, 0
        return (epoch, total, some) if loss is None else (epoch, total + loss * rows, some + rows)

    @property
    def rank(self) -> int:
        """Which rank this is; rank 0 writes files for all. A spare has none before its first batch."""
        return _ranks()[0] if self._sums is not None else int(os.environ.get("RANK") or 0)

    def _place(self, batch: Batch, epoch: Optional[int], samples: int, done: int, of: int) -> Batch:
        """Where in the job a batch is; samples are those of all ranks."""
        self._epoch = batch.epoch = self._epoch if epoch is None else epoch
        batch.samples_done, batch.progress, batch._planned = done, done / of if of else 0.0, samples
        return batch

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Batch:
        global _current
        if _hooked > 1 and not self.collective:
            raise Error("ddp_hook() needs batches(collective=True): without it a rank that gets no rows misses an "
                        "iteration, and the others wait for it")
        if self.batch is not None and not self.batch._is_done:
            self.batch._end(asks=True)
        self.batch = _current = None
        if self._state is not None and not self._state.is_looked_at:
            self._state.tell_missing(self._sums._all if isinstance(self._sums, _Gradients) else [])
        batch = self._next()
        if batch is None:
            raise StopIteration
        self.batch = _current = batch
        return batch

    @contextmanager
    def pause(self, seconds: Optional[float] = None) -> Iterator[None]:
        """Around work that is no batch and takes its time (a validation, a file that is written), on
        any rank: meanwhile no rank is taken for hung, until so many seconds are over, or 1800:

            batch.done(loss)
            if batch.iteration % 1000 == 0:
                with batches.pause(seconds=7200):
                    validate(model)
        """
        self._pause(seconds)
        try:
            yield
        finally:
            self._pause(0)

    def stop(self, why: str = "") -> None:
        """The model is trained enough: the loops of all ranks end, after the batch that has begun, as
        they do when all is trained, with a last checkpoint. Do not leave the loop by break:

            if no_better_for >= 5:
                batches.stop("no better loss for 5 validations")

        By hand, without a job, it ends the loop of this process only."""
        raise NotImplementedError

    def report(self, **values: Any) -> None:
        """What was measured of the model, for `trainctl top`, the job's log, and its metrics; what rank 0 says counts:

            batches.report(val_loss=loss, val_accuracy=accuracy)
        """
        told = {name: float(value) for name, value in values.items()}
        for name, value in told.items():
            if not math.isfinite(value):
                _say("%s is %r, and not reported" % (name, value))
        told = {name: value for name, value in told.items() if math.isfinite(value)}
        if any(len(name) > 32 for name in told) or len(told) > 16:
            raise Error("report() takes up to 16 values, and names of up to 32 letters")
        if told and self.rank == 0:
            self._report(",".join("%s:%.9g" % item for item in told.items()))

    def _report(self, values: str) -> None:
        _say(values.replace(",", ", ").replace(":", " "))

    def save(self, thing: Any, path: Any, *, min: Optional[float] = None, max: Optional[float] = None,
             patience: Optional[int] = None) -> Any:
        """As torch.save(thing, path), but rank 0 alone writes, and a file is there as a whole or not at all. With
        min= (max=) it is written only if this value is less (greater) than that with which it was written before,
        by whatever process of this job; then the first rank writes that is there. Returns the best value so far, and
        an infinite one while there is none:

            best = loader.save(model.state_dict(), "best.pt", max=accuracy)

        With patience=5 it says stop() when there was nothing better for 5 times in a row; the count is in the state.
        """
        value, sign = (min, 1) if min is not None else (max, -1)
        if value is None and patience is not None:
            raise Error("save(patience=) needs the value that gets better: min= or max=")
        best = self._save_file(thing, os.path.abspath(path), value, sign)
        if patience is not None:
            counts = self._counts.setdefault("tries", {})
            before, tries = counts.get(str(path), (sign * math.inf, 0))
            tries = 0 if sign * best < sign * before else tries + 1
            counts[str(path)] = best, tries
            if tries >= patience:
                self.stop("%s: nothing better for %d times" % (path, tries))
        return best

    def _save_file(self, thing: Any, path: str, value: Optional[float], sign: int) -> Any:
        place = os.environ.get("PACELINE_STATE")
        turn = _turn(place) if place and value is not None else nullcontext()
        with turn or nullcontext():
            best = self._value_of(path, place) if value is not None else None
            so_far = sign * math.inf if best is None else best
            if value is not None and (math.isnan(value) or best is not None and sign * value >= sign * best):
                return so_far
            writes = self.rank == 0
            if place and value is not None:  # rank 0 may be dead just now. What somebody else wrote is left to it
                writes = writes or best is not None or not os.path.exists(path)
            if writes and turn is not None and self._before is None:  # else the step before this is taken back
                try:
                    self._write(thing, path, place, value)
                except Exception as error:  # a full disk is no reason to stop training
                    if value is None:
                        raise
                    _say("%s is not written: %s" % (path, error))
                    return so_far
        if value is not None:
            self._best[path] = value
        return value

    def _write(self, thing: Any, path: str, place: Optional[str], value: Optional[float]) -> None:
        new = path + ".new"
        with open(new, "wb") as file:
            _dump(thing, file)
            file.flush()
            os.fsync(file.fileno())
        if place and value is not None:
            with open(os.path.join(place, "saved"), "ab") as notes:
                notes.write(_record("saved", path=path, value=repr(float(value)), file=_identity(new)))
                notes.flush()
                os.fsync(notes.fileno())
        os.replace(new, path)

    def _value_of(self, path: str, place: Optional[str]) -> Optional[float]:
        """With which the file was written. In a job its directory says it, for the file that is there now: the
        process that wrote it, or was about to, may have been killed."""
        if not place:
            return self._best.get(path)
        try:
            file = _identity(path)
            with open(os.path.join(place, "saved"), "rb") as notes:
                told = [values for _, values in map(_parse, notes.read().splitlines()) if values.get("file") == file]
        except FileNotFoundError:
            return None
        return float(told[-1]["value"]) if told else None

    def _pause(self, seconds: Optional[float]) -> None:
        pass

    def _fits(self, rows: int) -> None:
        """A part of twice as many rows did not fit the memory."""
        _say("the memory is full: a batch is computed in parts of %d rows at most" % rows)

    def _begin_anew(self) -> None:
        if isinstance(self._sums, _Gradients):
            self._sums.begin_anew()
        for thing in self._state._objects().values() if self._state is not None else ():
            if hasattr(thing, "zero_grad"):
                thing.zero_grad()
        if _ddp is not None:
            _ddp.zero_grad()
            _ddp.require_forward_param_sync = False  # buffers were broadcast, and the others do that once
        if _card() is not None:
            _card().empty_cache()

    def _put_back(self) -> None:
        """The script makes a step of the sum of no rows, too: its momentum moves the parameters. And a
        rank whose rows went to others can't tell before, so ranks would differ if some left it out."""
        before, self._before = self._before, None
        if before is not None and self._state is not None:
            self._state.put(before)

    def _next(self) -> Optional[Batch]:
        raise NotImplementedError

    def _step(self, batch: Batch, asks: bool) -> None:
        pass


class _LocalBatches(Batches):
    """Without an agent: the rows of this process, each once an epoch."""

    def __init__(self, samples: int, size: int, epochs: int, seed: Optional[int], rank: int, world: int,
                 collective: bool) -> None:
        super().__init__(collective)
        self._rows, self._all, self._counts["rows"] = samples, samples * epochs, size * world
        self._plan = self._batches(samples, seed, rank, world)
        self._most = 0  # rows of a part; 0: any

    def _fits(self, rows: int) -> None:
        super()._fits(rows)
        self._most = rows

    def _batches(self, samples: int, seed: Optional[int], rank: int, world: int) -> Iterator[Batch]:
        """As in a job, a batch may have the last rows of an epoch and the first ones of the next."""
        size = self._counts["rows"]
        for iteration, done in enumerate(range(0, self._all, size)):
            total = min(size, self._all - done)
            at, end = done + total * rank // world, done + total * (rank + 1) // world
            take, epoch = end - at, at // samples if end > at else None
            ranges = []
            while at < end:
                number, skip = divmod(at, samples)
                some = min(end - at, samples - skip)
                ranges.append(Range(skip, some) if seed is None else Range(0, samples, seed + number, skip, some))
                at += ranges[-1].count
            steps = -(-take // self._most) if self._most else 1
            batch = Batch(self, iteration, ranges, take, max(steps, 1), weight=world * take / total)
            yield self._place(batch, epoch, total, done, self._all)

    def stop(self, why: str = "") -> None:
        self._plan = iter(())

    def _next(self) -> Optional[Batch]:
        return next(self._plan, None)


_Answer = Tuple[Dict[str, str], List[Tuple[str, Dict[str, str]]]]


class _AgentBatches(Batches):
    """From the agent, over the two pipes that it started this process with."""

    def __init__(self, reads: int, writes: int, save: Optional[Callable[[str], Any]],
                 resume: Optional[Callable[[str], Any]], collective: bool, saves: bool,
                 samples: Optional[int]) -> None:
        super().__init__(collective)
        if saves and save is None and "PACELINE_SAMPLES" in os.environ:  # a job
            raise Error("batches() was given no state= (or save= and resume=): a job ends with a checkpoint, "
                        "and goes on from one. state={} says that there is nothing to save")
        self._samples, self._rows = samples, _job_key("SAMPLES", samples or 0)
        if samples is not None and self._rows < samples:
            _say("the job has %d rows, and this script has %d: the last %d are not trained (SAMPLES or DATA of "
                 "the job; FORMAT=lines if DATA has no header)" % (self._rows, samples, samples - self._rows))
        self._in, self._out = reads, writes
        self._unread = b""
        self._done = 0
        self._process = os.getpid()
        self._save, self._resume = save, resume
        of: Dict[str, object] = {"empty": 1} if collective else {}
        if _card() is not None:
            of["device"] = _card().get_device_name()
        self._word = _record("next", **of)
        self._memory = _Memory()
        self._saves = saves
        self._all, self._counts["rows"] = self._rows * _job_key("EPOCHS", 0), _job_key("BATCH", 0)
        self._ended = False
        self._answer: Optional[_Answer] = None  # to a word that was said ahead
        try:  # the agent asks for it before this process is killed for its silence
            faulthandler.register(signal.SIGURG, all_threads=True)
            if not faulthandler.is_enabled():
                faulthandler.enable()  # a crash in C names the line that led there
        except (AttributeError, RuntimeError, ValueError, OSError):
            pass  # standard error is none, say
        threading.Thread(target=self._tell_waits, name="paceline-waits", daemon=True).start()
        atexit.register(self._tell_left)

    def _tell_left(self) -> None:
        if not self._ended and self.batch is not None and not hasattr(sys, "last_type"):
            _say("the loop over batches was left before its end, and so the job fails. To end it before all is "
                 "trained, say batches.stop(), and let the loop end by itself")

    def _tell_waits(self) -> None:
        """A rank that waits for others is not the one that hangs."""
        word = _record("waits")
        while not self._ended:
            time.sleep(1)
            waiting = _waiting
            try:
                if waiting and time.perf_counter() - waiting[0] >= 1 and waiting[1]():
                    os.write(self._out, word)
            except OSError:
                return  # the agent has ended: the trainer hears of it soon

    # -- the conversation --

    def _line(self) -> bytes:
        while True:
            line, newline, rest = self._unread.partition(b"\n")
            if newline:
                self._unread = rest
                return line
            if len(self._unread) >= LINE_MAX:
                raise Error("the agent says more than %d bytes without a newline" % LINE_MAX)
            try:
                more = os.read(self._in, 65536)
            except OSError as error:
                raise AgentGone("can't hear the agent: %s" % error) from error
            if not more:
                raise AgentGone("the agent has ended")
            self._unread += more

    def _send(self, words: bytes) -> None:
        if os.getpid() != self._process:
            raise Error("this process was forked from the trainer: only the trainer may ask for batches")
        try:
            os.write(self._out, words)
        except OSError as error:
            raise AgentGone("can't speak to the agent: %s" % error) from error

    def _hear(self) -> _Answer:
        """The closing ok of an answer, and what stood before it."""
        before: List[Tuple[str, Dict[str, str]]] = []
        while True:
            line = self._line()
            kind, values = _parse(line)
            if kind == "ok":
                return values, before
            if kind == "err":
                raise _Refused(values.get("code", ""), "the agent says: %s" % os.fsdecode(line).replace("\t", ": "))
            before.append((kind, values))

    def _ask(self, word: bytes) -> _Answer:
        """Says a word, and does what the answer wants."""
        self._send(word)
        ok, before = self._hear()
        self._obey(before)
        return ok, before

    def _obey(self, records: List[Tuple[str, Dict[str, str]]]) -> None:
        for kind, values in records:
            if kind == "place":  # of a spare
                os.environ["RANK"] = values["rank"]
            elif kind == "resume":
                self._load(values["path"])
        for kind, values in records:  # of what was loaded
            if kind == "save":
                self._checkpoint(values["path"], values.get("memory"))

    def _load(self, path: str) -> None:
        if self._resume is None:
            raise Error("this job goes on from %s, and batches() was given no resume= (or state=)" % path)
        self._resume(path)
        self._resumed = True
        if isinstance(self._sums, _Gradients):
            self._sums._drift.begins = True

    # -- batches --

    def _report(self, values: str) -> None:
        if not self._ended:
            self._ask(_record("report", values=values))

    def stop(self, why: str = "") -> None:
        if not self._ended:
            self._ask(_record("enough", why=why[:300].replace("\0", "")))

    def _fits(self, rows: int) -> None:
        super()._fits(rows)
        self._ask(_record("fits", rows=rows))

    def _pause(self, seconds: Optional[float]) -> None:
        if not self._ended:
            self._ask(_record("pause") if seconds is None else _record("pause", seconds="%g" % seconds))

    def _next(self) -> Optional[Batch]:
        while not self._ended:
            asked = time.perf_counter()
            if self._answer is not None:
                (ok, records), self._answer = self._answer, None
                self._obey(records)
            else:
                ok, records = self._ask(self._word)
            state = ok.get("state")
            if state == "end":
                self._ended = True
                break
            if state != "wait":
                return self._given(records)
            # The agent holds this answer back for a while. Should it not, this is no busy loop.
            if time.perf_counter() - asked < 0.01:
                time.sleep(0.01)
        return None

    def _given(self, records: List[Tuple[str, Dict[str, str]]]) -> Batch:
        values: Optional[Dict[str, str]] = None
        ranges: List[Range] = []
        for kind, v in records:
            if kind == "range":
                seed, take = v.get("seed"), v.get("take")
                ranges.append(Range(int(v["begin"]), int(v["length"]), int(seed) if seed else None,
                                    int(v.get("skip") or 0), int(take) if take else None))
            elif kind == "batch":
                values = v
        if values is None:
            raise Error("the agent's answer has no batch")
        if self._samples is not None:
            for r in ranges:
                if r.begin + r.length > self._samples:
                    raise Error("the job has a row %d, and this script has %d rows: see SAMPLES or DATA of "
                                "the job" % (r.begin + r.length - 1, self._samples))
        batch = Batch(self, int(values["iteration"]), ranges, int(values["size"]), int(values.get("accum") or 1),
                      float(values.get("weight") or 1), float(values.get("lr-scale") or 1))
        # Without a barrier nobody knows what the others have done by now: the rows of this rank count, and
        # ranks have no end of an epoch in common.
        if "samples-done" not in values:
            self._rows = 0
        samples, done = int(values.get("samples") or batch.size), int(values.get("samples-done") or self._done)
        self._done = done + samples
        epoch = values.get("epoch")
        return self._place(batch, int(epoch) if epoch else None, samples, done,
                           int(values.get("samples-all") or self._all))

    def _step(self, batch: Batch, asks: bool) -> None:
        """With asks the word for the next batch goes out with this one's: the two answers wake us
        once."""
        word = self._trained("step", batch)
        if asks:
            self._send(word + self._word)
            _, before = self._hear()
            self._answer = self._hear()
            self._obey(before)  # says words, which are answered behind those two
        else:
            self._ask(word)

    def _trained(self, kind: str, batch: Batch) -> bytes:
        global _waiting
        fields: Dict[str, object] = {}
        loss = batch._mean_loss()
        if loss is not None:
            fields["loss"] = "%.9g" % loss
        for began, over in batch._events.values():
            over.synchronize()
            batch.waited += began.elapsed_time(over) / 1000
        elapsed = time.perf_counter() - batch._given - batch.waited
        fields["time"] = "%.6f" % max(elapsed, 1e-6)
        fields["mem"] = "%.4f" % self._memory.used(batch.size)
        if batch.work is not None:
            fields["work"] = "%.9g" % batch.work
        _waiting = None
        return _record(kind, **fields)

    # -- checkpoints --

    def _checkpoint(self, path: str, memory: Optional[str]) -> None:
        if not self._saves:  # another rank does it for all
            self._ask(_record("saved"))
        elif self._save is None:
            self._ask(_record("failed", why=_as_used("batches() was given no save= (or state=)")))
        else:
            try:
                if memory is not None and self._state is not None:
                    word = _record("saved", memory=self._state.write(memory))
                elif self._state is not None and not os.path.isdir(path):  # memory, too, for a rank that joins
                    self._state.write(path)
                    word = _record("saved", path=path)
                else:
                    wrote = _wrote(path, self._save(path))
                    word = _record("saved") if wrote is None else _record("saved", path=wrote)
            except Exception as error:  # a full disk is no reason to stop training
                self._failed(error)
            else:
                self._saved(word)

    def _saved(self, word: bytes) -> None:
        try:
            self._ask(word)
        except _Refused as refused:
            if refused.code != "no-file":
                raise
            _say("the checkpoint is given up: %s" % refused)

    def _failed(self, error: BaseException) -> None:
        try:
            traceback.print_exception(type(error), error, error.__traceback__)
        except OSError:  # the disk that is full may be the log's, too
            pass
        why = "%s: %s" % (type(error).__name__, error)
        self._ask(_record("failed", why=why[:400].replace("\0", "")))


def _job_key(name: str, otherwise: int) -> int:
    """What the job's file says."""
    text = os.environ.get("PACELINE_" + name, "")
    return int(text) if text.isdigit() else otherwise


def _turn(place: str) -> Any:
    """A lock, as one rank of this host writes at a time; to be closed behind it. None: who has it does not get on,
    perhaps as it is stopped."""
    import fcntl

    try:
        os.makedirs(place, exist_ok=True)
        notes = open(os.path.join(place, "saved"), "ab")
    except OSError:
        return nullcontext()  # to write will fail as well, and say so
    for _ in range(600):
        try:
            fcntl.flock(notes, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return notes
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:
            return notes  # this place has no locks
    notes.close()
    return None


def _identity(path: str) -> str:
    """Of a file, also after it was renamed."""
    file = os.stat(path)
    return "%d-%d-%d" % (file.st_ino, file.st_size, file.st_mtime_ns)


def _dump(thing: Any, file: Any, **how: Any) -> None:
    """how: of torch.save()."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.save(thing, file, **how)
    else:
        pickle.dump(thing, file, protocol=5)


def _wrote(directory: str, said: Any) -> Optional[str]:
    """What a save function wrote: what it returned, or the directory when something is in it. It is
    on the disk afterwards."""
    if said is None or isinstance(said, bool):
        if not os.listdir(directory):
            return None
        path = directory
    else:
        path = os.path.join(directory, os.fsdecode(said))
    files = [path]
    if os.path.isdir(path):
        for place, _, names in os.walk(path):
            files += [place] + [os.path.join(place, name) for name in names]
    for file in [*files, os.path.dirname(path)]:
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    return path


# ---- state_dict ----


class _Dict:
    """A dict as a thing with a state: it is loaded in place."""

    def __init__(self, values: Dict[Any, Any]) -> None:
        self._values = values

    def state_dict(self) -> Dict[Any, Any]:
        return dict(self._values)

    def load_state_dict(self, state: Mapping[Any, Any]) -> None:
        self._values.clear()
        self._values.update(state)


class _Own(Dict[str, Any]):
    """Whoever wants a deep copy gets the thing itself."""

    def __deepcopy__(self, memo: Any) -> "_Own":
        return self


class _Random:
    """The random numbers of this process: those of Python, numpy, torch and its cards, as far as they
    are in use."""

    def state_dict(self) -> Dict[str, Any]:
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        state: Dict[str, Any] = {"rank": os.environ.get("RANK", ""), "python": random.getstate()}
        if numpy is not None:
            state["numpy"] = numpy.random.get_state()
        if torch is not None:
            state["torch"] = torch.get_rng_state()
            if torch.cuda.is_initialized():
                state["cuda"] = torch.cuda.get_rng_state_all()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        numpy, torch, rank = sys.modules.get("numpy"), sys.modules.get("torch"), os.environ.get("RANK", "")
        random.setstate(state["python"])
        if rank != state["rank"]:  # another one saved for all: ranks should differ, as they did
            random.seed("%d %s" % (random.getrandbits(64), rank))
            if numpy is not None:
                numpy.random.seed(random.getrandbits(32))
            if torch is not None:
                torch.manual_seed(random.getrandbits(63))
            return
        if numpy is not None and "numpy" in state:
            numpy.random.set_state(state["numpy"])
        if torch is not None and "torch" in state:
            torch.set_rng_state(state["torch"])
            cards = state.get("cuda") or []
            if cards and torch.cuda.device_count() == len(cards):
                torch.cuda.set_rng_state_all(cards)


class _State:
    """Objects with state_dict() and load_state_dict(), and random numbers, as one file."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        if not isinstance(given, Mapping):
            raise Error('state= takes objects by name: state={"model": model, "optimizer": optimizer}')
        self._given = given
        self.ours: Dict[str, Any] = {"random": _Random()}  # what old states may lack
        self.is_looked_at = False  # for what it lacks
        self._objects()  # mistakes are told now

    def _objects(self) -> Dict[str, Any]:
        """By name. The script may put more into its dict until the first batch: a schedule needs batches.steps."""
        objects: Dict[str, Any] = {}
        for name, thing in self._given.items():
            if hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict"):
                # What was trained by DDP is loaded without it, too.
                objects[name] = thing.module if type(thing).__name__ == "DistributedDataParallel" else thing
            elif isinstance(thing, dict):
                objects[name] = _Dict(thing)
            else:
                raise Error("state: %s is no dict, and has no state_dict() and load_state_dict(): put it into a dict, or "
                            "use save= and resume=" % name)
        return {**self.ours, **objects}

    def tell_missing(self, named: List[Tuple[str, Any]]) -> None:
        """Before the first batch. Of the parameters that are summed; and of what trains in PyTorch."""
        self.is_looked_at = True
        torch = sys.modules.get("torch")
        if torch is None:
            return
        places, copies = set(), []  # of the script's own state_dict()
        for thing in self._objects().values() if named else ():
            tensors = list(_tensors(thing.state_dict()))
            places.update(tensor.data_ptr() for tensor in tensors)
            copies += tensors if not isinstance(thing, torch.nn.Module) else []
        for name, parameter in named:
            if parameter.numel() and parameter.data_ptr() not in places and not any(
                    tensor.shape == parameter.shape and torch.equal(tensor.to(parameter), parameter) for tensor in copies):
                raise Error("parameter %s of sums= is not in state=, so a rank that joins would have another value of it: "
                            'name its model there, as state={"model": model, "optimizer": optimizer}' % name)
        held = list(self._given.values())
        if not held:
            return
        for thing in list(held):  # what is inside of a thing is its own business; a dict would be given another one
            inside = getattr(thing, "__dict__", {})
            held += inside.get("_schedulers", []) if hasattr(thing, "get_last_lr") else inside.values()
        names = {type(thing).__name__ for thing in _training() if not any(thing is one for one in held)}
        if names:
            _say("not in state=: %s. A process that joins, or is started again, begins with a new one" %
                 ", ".join(sorted(names)))

    def copy(self) -> Dict[str, Any]:
        """The state as it is now, for somebody who writes it while training goes on."""
        return {name: _copy(thing.state_dict()) for name, thing in self._objects().items()}

    def save(self, directory: str) -> str:
        path = os.path.join(directory, "state.pt" if "torch" in sys.modules else "state.pickle")
        with open(path, "wb"):
            self.write(path)
        return path

    def write(self, path: str) -> str:
        """Into a file that is there, of memory as a rule, whose bytes are written over: memory that is new
        takes three times as long. save() makes a file on a disk."""
        state = {name: thing.state_dict() for name, thing in self._objects().items()}
        with os.fdopen(os.open(path, os.O_WRONLY), "wb") as file:
            # Its newer format sums all bytes, which takes longer than to copy them.
            _dump(state, file, _use_new_zipfile_serialization=False)
            file.flush()
            os.ftruncate(file.fileno(), os.lseek(file.fileno(), 0, os.SEEK_CUR))
        return "state.pt" if "torch" in sys.modules else "state.pickle"

    def load(self, path: str) -> None:
        if os.path.isdir(path):
            names = [name for name in ("state.pt", "state.pickle") if os.path.exists(os.path.join(path, name))]
            path = os.path.join(path, names[0] if names else "state.pt")
        if path.endswith(".pickle") or not path.endswith(".pt") and "torch" not in sys.modules:
            with open(path, "rb") as file:
                state = pickle.load(file)
        else:
            import torch

            # What a state_dict() holds beside tensors is the script's own business, and its own file.
            state = torch.load(path, map_location="cpu", weights_only=False)
        # Nobody else has it, so what an optimizer needs not be copied once more.
        self.put({name: _Own(some) if type(some) is dict else some for name, some in state.items()}, path)

    def put(self, state: Mapping[str, Any], path: str = "a copy") -> None:
        for name, thing in self._objects().items():
            if name in state:
                thing.load_state_dict(state[name])
            elif self.ours.get(name) is not thing:
                raise Error("%s: has no state of %s" % (path, name))


def _training() -> List[Any]:
    """Objects of PyTorch that change parameters and have a state of their own."""
    kinds = {"Optimizer", "LRScheduler", "_LRScheduler", "ReduceLROnPlateau", "AveragedModel", "GradScaler"}
    things = gc.get_objects()
    types = {some for some in set(map(type, things)) if any(
        kind.__name__ in kinds and kind.__module__.startswith("torch.") for kind in some.__mro__)}
    return [thing for thing in things if type(thing) in types and getattr(thing, "_enabled", True)]


def _tensors(thing: Any) -> Iterator[Any]:
    """Those in what state_dict() has returned."""
    if hasattr(thing, "data_ptr"):
        yield thing
    elif isinstance(thing, (Mapping, list, tuple)):
        for one in thing.values() if isinstance(thing, Mapping) else thing:
            yield from _tensors(one)


def _copy(thing: Any) -> Any:
    if isinstance(thing, Mapping):
        return {name: _copy(value) for name, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        copies = [_copy(value) for value in thing]
        return type(thing)(*copies) if hasattr(thing, "_fields") else type(thing)(copies)
    if hasattr(thing, "detach"):
        return thing.detach().to("cpu", copy=True)
    if hasattr(thing, "copy"):
        return thing.copy()
    return thing


# ---- what a script calls ----


def batches(*, state: Optional[Mapping[str, Any]] = None, save: Optional[Callable[[str], Any]] = None,
            resume: Optional[Callable[[str], Any]] = None, collective: bool = False,
            every_rank_saves: bool = False, sums: Any = None, samples: Optional[int] = None,
            size: int = 64, epochs: int = 1, seed: Optional[int] = 0) -> Batches:
    """The batches of this trainer, until the job is at its end.

    state       what is saved and loaded, by name: objects with state_dict() and load_state_dict(),
                and dicts of what else has to survive. Random numbers are saved with them
    save        instead of it: a function that writes below the directory it is given, and may
                return the path of what it wrote
    resume      the other half: a function that is given that path before the first batch
    collective  trainers of this job meet in each iteration (DDP): a trainer gets a batch of size 0
                when only others have rows, and rank 0 saves for all
    every_rank_saves   with collective: each rank saves what is its own
    sums        in a job with SYNC=allreduce: a model of PyTorch (or a list of models and parameters) whose
                gradients batch.sum() sums over all ranks; or for allreduce(), how many float32
    samples     how many rows this script has. Under an agent a row beyond them is an error;
                without one it is needed, and the rest says how the rows are dealt out:
    size, epochs, seed    rows of a batch; passes over the rows; of their order (None: as they lie)
    """
    words = os.environ.get("PACELINE_IN"), os.environ.get("PACELINE_OUT")
    if words != (None, None):
        reads, writes = _pipes(*words)
        _end_with_statuses(collective or sums is not None)
    if state is not None and (save is not None or resume is not None):
        raise Error("either state=, or save= and resume=")
    rank = 0
    if sums is not None:
        if state is None:
            raise Error("sums= needs state=: a rank that joins is given that of another one")
        collective = every_rank_saves = True  # all have the same state, and one is asked for it
        rank, world = _ranks()
    elif collective:
        try:
            rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        except (KeyError, ValueError):
            raise Error("collective=True needs RANK and WORLD_SIZE in the environment: trainctl(1) and "
                        "torchrun set them") from None
    else:
        world = 1
        _tell_not_collective()
    kept = _State(state) if state is not None else None
    if kept is not None:
        save, resume = kept.save, kept.load
    if words == (None, None):
        if samples is None:
            raise Error("no agent started this process (PACELINE_IN is not set). Start it by agent(1) or "
                        "trainctl(1), or say samples= to run it by hand")
        if samples < 0 or size < 1 or epochs < 0:
            raise Error("samples=%d, size=%d, epochs=%d: that is no number of rows" % (samples, size, epochs))
        if rank == 0:
            _say("no agent here: %d rows in batches of %d, %d times, nothing is saved" % (samples, size, epochs))
        source: Batches = _LocalBatches(samples, size, epochs, seed, rank, world, collective)
    else:
        source = _AgentBatches(reads, writes, save, resume, collective, rank == 0 or every_rank_saves, samples)
    if kept is not None:
        source._state = kept
        kept.ours["paceline"] = _Dict(source._counts)
    if sums is not None:
        source._sums = _Arrays(source, int(sums)) if isinstance(sums, numbers.Integral) else _Gradients(source, sums)
    return source


def _pipes(*words: Optional[str]) -> List[int]:
    try:
        pipes = [int(word or "") for word in words]
        for descriptor in pipes:  # a child of the trainer may have something else there
            if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                raise ValueError
            os.set_inheritable(descriptor, False)
        return pipes
    except (ValueError, OSError):
        raise Error("PACELINE_IN=%s and PACELINE_OUT=%s are not open here: only the process that the agent "
                    "started may ask for batches. TRAINER names the script itself, not torchrun: WORKERS=N "
                    "starts N ranks" % words) from None


def _group() -> Any:
    """torch.distributed, if this process is in a group."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def _tell_not_collective() -> None:
    dist = _group()
    if dist is not None and dist.get_world_size() > 1:
        _say("torch.distributed has %d ranks, and batches() was not given collective=True: ranks that share "
             "gradients (DistributedDataParallel) will wait for each other for ever" % dist.get_world_size())


_COLLECTIVE = ("DistBackendError", "DistNetworkError", "DistStoreError")
_BY_OTHERS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo", "NCCL", "Socket Timeout")


def _is_from_others(error: BaseException) -> bool:
    """Whether a rank fails as another one has gone: an error in the middle of a collective."""
    if getattr(error, "paceline_waited", False) or type(error).__name__ in _COLLECTIVE:
        return True
    return isinstance(error, (RuntimeError, OSError)) and any(word in str(error) for word in _BY_OTHERS)


def _tell_full() -> None:
    """This process ends: the next one is given smaller parts."""
    batch = _current
    if batch is not None and not batch._is_done and batch.size > batch.accum:
        try:
            batch._source._fits(-(-batch.size // batch.accum // 2))
        except Error:
            pass


def _end_with_statuses(collective: bool) -> None:
    """A mistake of the script's would come again: its exit status says so, and the job does not try
    it once more. Whoever fails by another's failure says so, too: the job tells of the other one."""
    show = sys.excepthook
    if getattr(show, "is_paceline", False):
        return

    def end(kind: Any, error: Any, trace: Any) -> None:
        show(kind, error, trace)
        if _is_full(error):
            _tell_full()
        if issubclass(kind, Error) and not issubclass(kind, AgentGone):
            status = CONFIG
        elif issubclass(kind, AgentGone) or _is_from_others(error):
            status = TEMPFAIL
        elif collective and issubclass(kind, Exception):
            # PyTorch's threads abort some processes that end without destroy_process_group(). Such a
            # rank would look like one that ends because of another one's failure.
            atexit._run_exitfuncs()
            status = 1
        else:
            return
        sys.stdout.flush()
        os._exit(status)

    setattr(end, "is_paceline", True)
    sys.excepthook = end


# ---- gradients summed by the kit: no process group ----

_BUCKET = 1 << 20  # floats that are announced at once while the backward pass still runs


def _ranks() -> Tuple[int, int]:
    """Who this is and how many there are. In a job their number changes, and nobody asks for it."""
    if "PACELINE_IN" in os.environ:
        return int(os.environ.get("RANK") or 0), 1
    dist = _group()
    if dist is not None:
        return dist.get_rank(), dist.get_world_size()
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        raise Error("WORLD_SIZE=%s, and nobody sums the gradients. Without a job say "
                    "torch.distributed.init_process_group() first; a job needs SYNC=allreduce, and no torchrun" %
                    os.environ["WORLD_SIZE"])
    return 0, 1


def _sum(batch: Batch, loss: Any, arrays: Any = None) -> Any:
    source = batch._source
    if batch._is_done or batch.samples is not None:
        raise Error("iteration %d: its gradients were summed before. A batch is one step; to compute it in several, "
                    "use batch.parts()" % batch.iteration)
    if not isinstance(source._sums, _Gradients if arrays is None else _Arrays):
        raise Error("batch.sum() is for batches(sums=model), allreduce() for batches(sums=N)")
    if loss is not None:
        batch.loss = loss
    summed = source._sums.sum(batch, arrays)
    if not batch.samples and source._state is not None:
        source._before = source._state.copy()
    return summed


def allreduce(arrays: Any, batch: Batch, loss: Any = None) -> Any:
    """The sum of an array of numpy, or of each of a list of them, over all ranks, once a batch:

        batches = paceline.batches(state=..., sums=w.size + b.size)
        for batch in batches:
            dw, db = paceline.allreduce([dw, db], batch)       # in: sums over the rows of this batch
            w -= rate * dw / batch.samples                     # out: over those of all ranks

    Sums are float32. A rank whose batch has size 0 adds nothing, whatever the arrays hold.
    """
    return _sum(batch, loss, arrays)


class _ByHand:
    """Floats that are summed without an agent: by torch.distributed, or nobody if there is one process."""

    def __init__(self, floats: int) -> None:
        self.memory, self.bad = bytearray(4 * floats), False
        self.dist = _group() if _ranks()[1] > 1 else None

    def final(self, begin: int, count: int) -> None:
        pass

    def sum(self, batch: Batch) -> Tuple[Any, int]:
        if self.dist is None:
            return self.memory, batch.size
        import torch

        device = "cuda" if self.dist.get_backend() == "nccl" else "cpu"
        floats = torch.frombuffer(self.memory, dtype=torch.float32)
        for sums in floats, torch.tensor([batch.size]):
            there = sums.to(device)
            self.dist.all_reduce(there)
            sums.copy_(there)
        return self.memory, int(sums)


class _ByAgent:
    """Floats in memory that is shared with the agent; their sum is in another."""

    def __init__(self, source: _AgentBatches, floats: int) -> None:
        self._source, self._bytes = source, 4 * floats
        try:
            ok, _ = source._ask(_record("sums", floats=floats))
        except _Refused as refused:
            raise Error("%s (sums= needs a job with SYNC=allreduce)" % refused) from None
        self.memory = _mapped(ok["path"], self._bytes, mmap.PROT_READ | mmap.PROT_WRITE)
        self.bad = False  # the sum is not finite: some rank's gradient is not
        self._of: Any = None  # the file of
        self._sum: Any = None  # which is what has been mapped last

    def final(self, begin: int, count: int) -> None:
        self._source._send(_record("final", begin=begin, count=count))

    def sum(self, batch: Batch) -> Tuple[Any, int]:
        ok, _ = self._source._ask(self._source._trained("sum", batch))
        samples = int(ok.get("samples") or 0)
        self.bad = "bad" in ok
        if "path" not in ok:  # this rank was left out, and is given the state of another with the next batch
            return bytes(self._bytes), 0
        file = os.stat(ok["path"])
        if self._of != (file.st_dev, file.st_ino):
            self._sum = _mapped(ok["path"], file.st_size, mmap.PROT_READ)
            self._of = file.st_dev, file.st_ino
        begin = int(ok.get("offset-bytes") or 0)
        if begin % 4 or begin + self._bytes > len(self._sum):
            raise Error("the agent's sum lies outside of its file: offset-bytes=%d" % begin)
        return memoryview(self._sum)[begin:begin + self._bytes], samples


def _mapped(path: str, size: int, access: int) -> Any:
    with open(path, "r+b" if access & mmap.PROT_WRITE else "rb") as file:
        return mmap.mmap(file.fileno(), size, mmap.MAP_SHARED, access)


_bad_gradients = 0


def _tell_bad(batch: Batch, what: str, value: Any) -> None:
    """At first, and then seldom: with mixed precision the scaler makes some infinite, and skips the step."""
    global _bad_gradients
    _bad_gradients += 1
    if _bad_gradients & (_bad_gradients - 1) == 0:
        _say("iteration %d: %s is %s in this rank, and so is the sum of all ranks" %
             (batch.iteration, what, float(value)))


_WORDS = 5  # floats that come first, see _Summed._put_words(): the kit counts them, too, where it names a float


class _Summed:
    """What is summed over all ranks in each iteration. A few words ride in it."""

    _announced = 0  # buckets of this batch that are in a sum already

    def __init__(self, source: Batches, floats: int) -> None:
        if floats < 1:
            raise Error("sums=: there is nothing to sum")
        self._source = source
        self._by = _ByAgent(source, _WORDS + floats) if isinstance(source, _AgentBatches) else _ByHand(_WORDS + floats)
        self._words = memoryview(self._by.memory).cast("B").cast("f")[:_WORDS]

    def _put_words(self, batch: Batch, joined: bool = False, mark: Optional[float] = None) -> None:
        """The losses of the rows, and of how many; whether this rank has just begun; its mark, see _Drift."""
        loss = batch._mean_loss()
        words = (0, 0) if loss is None else (loss * batch.size, batch.size)
        for i, word in enumerate((*words, joined, mark is not None, mark or 0)):
            self._words[i] = word

    def _take_words(self, batch: Batch, sums: Any) -> List[float]:
        losses, rows, *marks = memoryview(sums).cast("B").cast("f")[:_WORDS].tolist()
        if batch.samples:
            self._source._counts["losses"] = self._source._with_loss(batch, losses / rows if rows else None, rows)
        return marks


class _Arrays(_Summed):
    """So many floats of any framework."""

    def __init__(self, source: Batches, floats: int) -> None:
        super().__init__(source, floats)
        self._floats = floats

    def nothing(self) -> Any:
        import numpy

        return numpy.zeros(self._floats, numpy.float32)

    def sum(self, batch: Batch, arrays: Any) -> Any:
        import numpy

        put = numpy.frombuffer(self._by.memory, numpy.float32)[_WORDS:]
        many = isinstance(arrays, (list, tuple))
        some = [numpy.asarray(array) for array in (arrays if many else [arrays])]
        floats, ends = sum(array.size for array in some), numpy.cumsum([array.size for array in some[:-1]], dtype=int)
        if floats != self._floats:
            raise Error("allreduce() of %d floats, and batches() was given sums=%d" % (floats, self._floats))
        for array, part in zip(some, numpy.split(put, ends)):
            part[:] = array.reshape(-1) if batch.size else 0
        self._put_words(batch)
        sums, batch.samples = self._by.sum(batch)
        self._take_words(batch, sums)
        if self._by.bad and not numpy.isfinite(put).all():
            at = int(numpy.isfinite(put).argmin())
            _tell_bad(batch, "float %d of the gradient" % at, put[at])
        parts = numpy.split(numpy.frombuffer(sums, numpy.float32)[_WORDS:], ends)
        out = [part.reshape(array.shape).copy() for array, part in zip(some, parts)]
        return out if many else out[0]


def _named(model: Any, in_job: bool, what: str = "named_parameters", place: str = "") -> Iterator[Tuple[str, Any]]:
    """The parameters of a model, or of a list of models and parameters."""
    if type(model).__name__ == "DistributedDataParallel":
        if in_job and model.process_group.size() > 1:
            raise Error("sums= takes the place of DistributedDataParallel: give it the model that is inside, or "
                        "begin with paceline.init_process_group()")
        model = model.module
    if hasattr(model, what):
        for name, tensor in getattr(model, what)():
            yield place + name, tensor
    elif hasattr(model, "requires_grad"):
        if what == "named_parameters":
            yield place.rstrip(".") or "0", model
    elif hasattr(model, "__iter__") and not isinstance(model, (str, Mapping)):
        for i, one in enumerate(model):
            yield from _named(one, in_job, what, "%s%d." % (place, i))
    else:
        raise Error("sums= takes a model of PyTorch, or a list of models and parameters; for allreduce() it is a number "
                    "of floats. This is neither: %s" % type(model).__name__)


class _Drift:
    """Whether the parameters of all ranks are the same. Each iteration makes the same step of the same sum, so what
    parts them is a rank that begins without all of the state, or makes another step. Behind a rank that begins, in
    iterations that become rare, each tells its mark: its parameters along one direction. Where processors differ,
    they round in other ways, so what is small is passed over."""

    def __init__(self, named: List[Tuple[str, Any]]) -> None:
        self._parameters = [parameter for _, parameter in named]
        self.begins = True  # this rank
        self._since = -1  # the iteration in which one began
        self._mark: Optional[float] = None
        self._length = 0.0
        self._told = False

    def words(self, batch: Batch) -> Tuple[bool, Optional[float]]:
        passed = batch.iteration - self._since
        self._mark = None
        if self._since >= 0 and batch.size and not self._told and passed & (passed - 1) == 0:
            mark, self._length = self._measured()
            self._mark = mark if math.isfinite(mark) else None
        return self.begins, self._mark

    def _measured(self) -> Tuple[float, float]:
        import torch

        way = torch.randn(1 << 16, generator=torch.Generator().manual_seed(1), dtype=torch.float32)
        mark = length = torch.zeros((), dtype=torch.float32)
        for parameter in self._parameters:
            way, mark, length = (there.to(parameter.device) for there in (way, mark, length))
            for piece in parameter.detach().reshape(-1).split(len(way)):
                piece = piece.float()
                mark = mark + piece.dot(way[:len(piece)])
                length = length + piece.dot(piece)
        return mark.item(), math.sqrt(length.item())

    def hear(self, batch: Batch, began: float, told: float, marks: float) -> None:
        if not batch.samples:  # nothing was summed
            return
        if self._mark is not None and told:
            far = abs(marks / told - self._mark) / max(self._length, 1e-30)
            if far > 1e-5:
                self._told = True
                _say("iteration %d: the parameters of this rank are not those of the others (they are %.1g of their "
                     "length apart): something that changes them is not in state= (the optimizer? its schedule?), or a "
                     "rank steps by a count of its own; said once" % (batch.iteration, far))
        if began:
            self._since = batch.iteration
        if batch.size:
            self.begins = False


class _StepCheck:
    """Whether batch.sum() stands between backward() and optimizer.step(), as the first batch shows."""

    def __init__(self, named: List[Tuple[str, Any]]) -> None:
        self._made: Dict[int, Tuple[Batch, int]] = {}  # in which batch a gradient was made, and the parameter then
        self._named, self._is_second = named, False
        self._hooks = [parameter.register_hook(lambda _, i=i: self._hook(i)) for i, (_, parameter) in enumerate(named)]

    def _hook(self, i: int) -> None:
        batch = _current
        if batch is None:
            return
        if batch.samples is not None:
            raise Error("iteration %d: backward() behind batch.sum(), so its gradients are not summed: batch.sum() stands "
                        "between backward() and optimizer.step()" % batch.iteration)
        self._made[i] = batch, self._named[i][1]._version

    def look(self, batch: Batch) -> Optional["_StepCheck"]:
        """In batch.sum() of a batch with rows. None: there is no more to see."""
        if self._is_second:
            for hook in self._hooks:
                hook.remove()
            return None
        self._is_second = True
        for i, (made, version) in sorted(self._made.items()):
            if made is batch and self._named[i][1]._version != version:
                raise Error("iteration %d: parameter %s was changed between backward() and batch.sum(): optimizer.step() "
                            "comes behind batch.sum(), or it is a step of this rank's gradients only" %
                            (batch.iteration, self._named[i][0]))
        return self


class _Gradients(_Summed):
    """Of models of PyTorch. In the floats that are summed, one for each parameter comes first (not
    0 where a rank has a gradient for it), then the gradients.

    Those of a large model are put there and announced while the backward pass still runs. The first
    batch shows whether that is possible: whether nothing changes a gradient between its hook and
    batch.sum(), as a second backward() does that parts() knows nothing of.
    """

    def __init__(self, source: Batches, model: Any) -> None:
        import torch

        named = list(_named(model, isinstance(source, _AgentBatches)))
        tensors = {id(tensor): (name, tensor) for name, tensor in reversed(named)}  # those of several models once
        named = list(reversed(tensors.values()))
        self._all = [(name, parameter) for name, parameter in named if parameter.requires_grad]
        self._frozen = [(name, parameter) for name, parameter in named if not parameter.requires_grad]
        for name, parameter in self._all:
            if not parameter.is_floating_point():
                raise Error("sums=: parameter %s is %s, and sums are float32" % (name, parameter.dtype))
        self._sizes = [len(self._all), *(parameter.numel() for _, parameter in self._all)]
        super().__init__(source, sum(self._sizes))
        self._drift = _Drift(self._all)
        warnings.filterwarnings("ignore", "The given buffer is not writable")  # nobody writes to the sum
        self._has, self._puts = self._parts_of(self._by.memory)
        self._streams: Dict[Any, Any] = {}  # of a GPU: what copies from it
        if any(parameter.is_cuda for _, parameter in self._all):  # pinned, copies go on by themselves
            torch.cuda.cudart().cudaHostRegister(self._has.data_ptr() - 4 * _WORDS, 4 * (_WORDS + sum(self._sizes)), 0)
        self._made: Dict[int, Tuple[Any, int]] = {}  # in this batch: a gradient, and its version then
        self._early: Optional[bool] = None  # until the first batch has shown it
        self._buckets: List[Tuple[int, int]] = []  # begin and count, the last floats first
        self._bucket_of: List[int] = []
        if sum(self._sizes) > _BUCKET:
            self._watch()
        self._begin()
        self._check: Optional[_StepCheck] = _StepCheck(self._all)  # until the first batch has shown it
        if isinstance(self._by, _ByHand) and self._by.dist is not None:  # in a job all begin with the state of one
            for _, tensor in [*named, *_named(model, False, "named_buffers")]:
                self._by.dist.broadcast(tensor.detach(), 0)

    def _parts_of(self, memory: Any) -> Tuple[Any, List[Any]]:
        import torch

        has, *parts = torch.frombuffer(memory, dtype=torch.float32, count=_WORDS + sum(self._sizes))[_WORDS:].split(self._sizes)
        return has, [part.view(parameter.shape) for part, (_, parameter) in zip(parts, self._all)]

    def _watch(self) -> None:
        import torch

        begin = end = sum(self._sizes)
        self._nodes = []  # kept, or their hooks go with them
        for i in reversed(range(len(self._all))):
            begin -= self._sizes[i + 1]
            self._bucket_of.insert(0, len(self._buckets))
            if end - begin >= _BUCKET:
                self._buckets.append((begin, end - begin))
                end = begin
            with torch.enable_grad():  # as DistributedDataParallel does: there is no other hook before PyTorch 2.1
                node = self._all[i][1].expand_as(self._all[i][1]).grad_fn.next_functions[0][0]
            node.register_hook(lambda *_, i=i: self._hook(i))
            self._nodes.append(node)

    def _begin(self) -> None:
        """The gradients of a batch will be made."""
        self._made.clear()
        # Of each bucket, and of the floats that are in none: gradients that are not made yet.
        self._left = [self._bucket_of.count(bucket) for bucket in range(len(self._buckets) + 1)]
        self._copies: List[List[Any]] = []  # of each bucket that is made: when it is copied
        self._announced = 0

    def _hook(self, i: int) -> None:
        """In a backward pass: parameter i has its gradient."""
        batch = _current
        if batch is None or batch.samples is not None or not batch.size or not batch._whole:
            return
        grad = self._all[i][1].grad
        self._made[i] = (grad, -1 if i in self._made else grad._version)
        if not self._early:
            return
        self._put(i, batch.size)
        self._left[self._bucket_of[i]] -= 1
        while len(self._copies) < len(self._buckets) and not self._left[len(self._copies)]:
            self._copies.append([stream.record_event() for stream in self._streams.values()])
        while self._announced < len(self._copies) and all(copy.query() for copy in self._copies[self._announced]):
            begin, count = self._buckets[self._announced]
            self._by.final(_WORDS + begin, count)
            self._announced += 1

    def nothing(self) -> None:
        return None

    def begin_anew(self) -> None:
        """The gradients that were made so far don't count."""
        self._begin()
        for _, parameter in self._all:
            parameter.grad = None

    def _put(self, i: int, size: int) -> None:
        """The gradient of a mean over so many rows, as a sum over them."""
        import torch

        grad, there = self._all[i][1].grad.detach(), self._puts[i]
        if grad.is_sparse:
            raise Error("parameter %s has a sparse gradient, and sums are dense: leave sparse=True out" %
                        self._all[i][0])
        if grad.is_cuda:
            stream = self._streams.get(grad.device)
            if stream is None:
                stream = self._streams[grad.device] = torch.cuda.Stream(grad.device)
            stream.wait_stream(torch.cuda.current_stream(grad.device))
            with torch.cuda.stream(stream):
                there.copy_(grad.float() * size, non_blocking=True)
            grad.record_stream(stream)
        elif grad.dtype == torch.float32:
            torch.mul(grad, size, out=there)
        else:
            there.copy_(grad).mul_(size)

    def sum(self, batch: Batch, arrays: None) -> None:
        import torch

        with torch.no_grad():
            self._gather(batch)
            self._put_words(batch, *self._drift.words(batch))
            sums, batch.samples = self._by.sum(batch)
            self._drift.hear(batch, *self._take_words(batch, sums))
            if self._by.bad:  # is it this rank?
                for (name, _), part in zip(self._all, self._puts):
                    if not torch.isfinite(part).all():
                        _tell_bad(batch, "the gradient of %s" % name, part[~torch.isfinite(part)][0])
                        break
            rows = max(batch.samples, 1)
            has, parts = self._parts_of(sums)
            for (_, parameter), some, part in zip(self._all, has.tolist(), parts):
                grad = parameter.grad
                if not some and batch.samples:  # of no rows at all each gradient is 0, so that an AMP scaler finds some
                    parameter.grad = None
                    continue
                if grad is None:
                    grad = parameter.grad = torch.empty_like(parameter)
                if grad.is_cuda or grad.dtype != torch.float32:
                    grad.copy_(part / rows)  # a sum of halves may be too large for one
                else:
                    torch.div(part, rows, out=grad)

    def _gather(self, batch: Batch) -> None:
        import torch

        for name, parameter in self._frozen:
            if parameter.requires_grad:
                raise Error("parameter %s was frozen when batches(sums=) was called, and is not now" % name)
        if self._check is not None and batch.size:
            self._check = self._check.look(batch)
        changed = False
        has = [parameter.grad is not None and batch.size > 0 for _, parameter in self._all]
        self._has.copy_(torch.tensor(has))
        for i, (_, parameter) in enumerate(self._all):
            grad = parameter.grad
            made = self._made.get(i)
            if made is not None and (made[0] is not grad or made[1] != grad._version):
                changed = True
            if not has[i]:
                self._puts[i].zero_()  # the mean over no rows may be no number
            elif made is None or not self._early:
                self._put(i, batch.size)
        if changed and self._early:
            raise Error("iteration %d: gradients were changed between backward() and batch.sum(), after they were "
                        "announced. Clipping and the like come behind batch.sum(); a batch that needs more than one "
                        "backward() takes batch.parts()" % batch.iteration)
        if self._made:
            self._early = not changed if self._early is None else self._early
            self._begin()
        for stream in self._streams.values():
            stream.synchronize()


# ---- PyTorch ----


def init_process_group(backend: str = "gloo", **given: Any) -> None:
    """In place of torch.distributed.init_process_group() in a script that is given sums=: in a job each rank is a
    group of its own, which no other rank's death can break, and what the script does with it may stay. There
    get_rank() is 0 in all ranks. By hand it is that of torch.distributed."""
    import torch.distributed as dist

    if "PACELINE_IN" in os.environ:
        given = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group(backend, **given)


class _Hook:
    """What one model's collectives share."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.total: Any = None  # future: rows of all ranks
        self.wait: Optional[_Wait] = None
        self.open: set = set()  # buckets of which not all ranks have given theirs


class _Wait:
    """From the moment at which this rank's gradients were there until those of all ranks were."""

    def __init__(self, batch: Batch, device: Any) -> None:
        self._before, self._batch, self._device = batch.waited, batch, device
        self._began = time.perf_counter()
        self._event = self._mark()
        self._last: Any = None

    def lasts(self) -> bool:
        return self._last is not None and not self._last.query()

    def _mark(self) -> Any:
        """On a GPU things are begun long before they are done: its own clock knows."""
        if self._device.type != "cuda":
            return None
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def over(self) -> None:
        """Of one collective; the last one counts."""
        if self._event is None:
            self._batch.waited = self._before + time.perf_counter() - self._began
        else:
            self._last = self._mark()
            self._batch._events[self] = (self._event, self._last)


def ddp_hook(model: Any, group: Any = None) -> None:
    """Makes DistributedDataParallel take the mean over samples, not over ranks.

    Each rank computes the mean over its own batch as usual; this weighs it by the size of the
    batch. So batches of unequal sizes, and ranks without rows, give the gradient that one process
    would compute on all rows. The time in which a rank only waits for the others is taken out of
    the time of its batch, so that the slow rank is known.

    Call it once, behind DistributedDataParallel(model); batches need collective=True.
    """
    global _hooked, _rows_are_weighed, _ddp
    group = group if group is not None else model.process_group
    model.register_comm_hook(_Hook(group), _weigh)
    _hooked, _rows_are_weighed, _ddp = group.size(), True, model


def _weigh(hook, bucket):  # without types: torch compares them with its own
    import torch
    import torch.distributed as dist

    global _waiting
    batch = _current
    if batch is None:
        raise Error("backward() outside of a batch: ddp_hook() does not know how many rows this is")
    tensor = bucket.buffer()
    if bucket.index() == 0:  # buckets come in the same order on every rank
        count = torch.tensor([batch.size], dtype=torch.int64, device=tensor.device)
        hook.total = dist.all_reduce(count, group=hook.group, async_op=True).get_future()
        hook.wait = None
        hook.open.clear()
    # Sums of halves would overflow, and bfloat16 has too few digits for a number of rows.
    is_half = tensor.dtype in (torch.float16, torch.bfloat16)
    sums = tensor.float() if is_half else tensor
    if batch.size == 0:
        sums.zero_()  # also where the mean over no rows is no number
    else:
        sums.mul_(batch.size)
    if bucket.is_last():
        wait = hook.wait = _Wait(batch, tensor.device)
        _waiting = (time.perf_counter(), lambda: bool(hook.open) or wait.lasts())
    number = bucket.index()
    hook.open.add(number)
    summed = dist.all_reduce(sums, group=hook.group, async_op=True).get_future()

    def mean(both: Any) -> Any:
        total, value = (future.value()[0] for future in both.value())
        value.div_(total.clamp(min=1).to(value.dtype))
        if hook.wait is not None:
            hook.wait.over()
        hook.open.discard(number)
        return value if value.dtype == tensor.dtype else value.to(tensor.dtype)

    return torch.futures.collect_all([hook.total, summed]).then(mean)


class Loader:
    """The script's own DataLoader, whose rows the job deals out:

        loader = paceline.Loader(DataLoader(data, batch_size=64, shuffle=True, num_workers=4))
        for epoch in loader.epochs(10, state={"model": model, "optimizer": optimizer}, sums=model):
            for x, y in loader:
                optimizer.zero_grad()
                loss = loss_of(model(x), y)
                loss.backward()
                loader.sum(loss)
                optimizer.step()
            validate(model)

    The inner loop ends behind the batch with the last row of an epoch, on all ranks behind the same one. What
    follows it may take its time, as in Batches.pause(). A process that begins when all is trained gets the last
    epoch once more, without a batch. A rank without rows gets some, too: its batch has size 0, and they count as
    none. Schedules that are in state= make as many steps as are due (Batches.steps): step() once a batch, or once an
    epoch behind the inner loop.

    loader.batch is the Batch in hand; loss, pause(), rank, report(), save(), stop() are those of Batches, and all else
    is the DataLoader's: before epochs() and between epochs it gives its own batches, only to look at.
    """

    def __init__(self, loader: Any) -> None:
        dataset, sampler = getattr(loader, "dataset", None), type(getattr(loader, "sampler", None)).__name__
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__") or "InfiniteConstant" in sampler:
            raise Error("Loader() takes a DataLoader whose dataset has [row] and len(), and so is no IterableDataset: "
                        "paceline-trainers(7), DATA, says what takes its place")
        if sampler not in ("RandomSampler", "SequentialSampler", "DistributedSampler") or not loader.batch_size:
            raise Error("the job deals out the rows, not %s: which rows there are, and how often, says the dataset, as "
                        "Subset(data, indices)" % (sampler if loader.batch_size else "a batch_sampler"))
        global _loads
        _loads = True
        self._loader, self._ordered = loader, sampler == "SequentialSampler"
        self._source: Optional[Batches] = None
        self._ready: Optional[Batch] = None  # that the inner loop gives
        self._is_over, self._over_at = True, 0.0  # the inner loop
        self._is_first = True  # no epoch has begun here
        self._last_rows = [0]  # that were read, for a batch that has none
        self._pool: Optional[Executor] = None
        self._coming: Dict[int, Tuple["Future[List[bytes]]", int]] = {}  # row: who reads it, as which one

    def __getattr__(self, name: str) -> Any:
        if self._source is not None and hasattr(self._source, name):
            return getattr(self._source, name)
        if self._source is None and (hasattr(Batches, name) or name == "batch"):
            raise Error("loader.%s is there from loader.epochs() on" % name)
        return getattr(self._loader, name)

    def __len__(self) -> int:
        """Batches of all rows of an epoch, if none is smaller: so many steps has a schedule in it."""
        world = int(os.environ.get("WORLD_SIZE") or 1)
        return -(-_job_key("SAMPLES", len(self._loader.dataset)) // _job_key("BATCH", self._loader.batch_size * world))

    def epochs(self, epochs: int, **given: Any) -> Iterator[int]:
        """The numbers of the epochs, of which the job may say another number: of the first one, where the job goes
        on. What is given is that of batches(): state=, sums=, collective=, ..."""
        given = {"samples": len(self._loader.dataset), "size": self._loader.batch_size, "epochs": epochs,
                 "seed": None if self._ordered else 0, **given}
        job = _job_key("EPOCHS", epochs)
        differ = "the job has EPOCHS=%d, and the script %d" % (job, epochs)
        if job != epochs:
            _say(differ)
        self._source, self._is_first = batches(**given), True
        for name, thing in (given.get("state") or {}).items():
            if hasattr(thing, "get_last_lr") and hasattr(thing, "optimizer"):
                if job > epochs and getattr(thing, "total_steps", math.inf) < self._source.steps:
                    raise Error("%s: %s has %d steps, and the job %d" %
                                (differ, name, thing.total_steps, self._source.steps))
                _step_when_due(thing, self)
        return self._epochs(self._source)

    def _epochs(self, source: Batches) -> Iterator[int]:
        with self._reading() as self._pool:
            while True:
                if self._is_over and source.batch is not None:
                    source.batch.waited += time.perf_counter() - self._over_at
                self._ready = next(source, None)
                if self._ready is None:
                    if self._is_first and source._resumed:  # all was trained before, and what follows runs again
                        self._is_over = False
                        yield source._counts.get("losses", (source._all // max(source._rows, 1) - 1,))[0]
                    return
                if self._ready.samples_done >= source._all > 0:  # a rank died when all was trained: no epoch begins
                    if source._sums is not None:
                        _sum(self._ready, None, source._sums.nothing())
                    continue
                self._is_over = self._is_first = False
                yield self._ready.samples_done // source._rows if source._rows else 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loader) if self._is_over else self._batches()

    def _batches(self) -> Iterator[Any]:
        global _current
        assert self._source is not None
        batch, self._ready = self._ready or next(self._source, None), None
        while batch is not None:
            yield self._data(batch)
            if batch._ends_epoch():
                break
            batch = next(self._source, None)
        self._is_over, self._over_at, _current = True, time.perf_counter(), None
        self._source._pause(None)

    def sum(self, loss: Any = None) -> None:
        """Batch.sum() of the batch in hand."""
        if self.batch is None:
            raise Error("loader.sum() without a batch: it stands in the loop")
        self.batch.sum(loss)

    def _reading(self) -> Any:
        workers = self._loader.num_workers
        if not workers:
            return nullcontext()
        from multiprocessing import get_context

        given = self._loader.dataset, self._loader.worker_init_fn, os.getpid()
        return ProcessPoolExecutor(workers, get_context("fork"), _reader, given)

    def _data(self, batch: Batch) -> Any:
        assert self._source is not None
        rows = batch.rows or self._last_rows  # which leave what BatchNorm keeps as it is
        self._last_rows = rows[:8]
        if len(rows) == 1 and self._loader.batch_size > 1 and not isinstance(self._source._sums, _Arrays):
            rows = rows * 2  # the mean is the same, and BatchNorm refuses one row
        if self._pool is None:
            return self._loader.collate_fn([self._loader.dataset[row] for row in rows])
        self._read([row for row in rows if row not in self._coming])
        read = [pickle.loads(self._coming[row][0].result()[self._coming[row][1]]) for row in rows]
        for reading, _ in self._coming.values():
            reading.cancel()  # what was not needed after all
        self._coming = {}
        if batch.ranges:
            likely = batch.ranges[-1].after(batch.size)
            self._read([row for row in likely if row < len(self._loader.dataset)])
        return self._loader.collate_fn(read)

    def _read(self, rows: List[int]) -> None:
        assert self._pool is not None
        step = max(1, -(-len(rows) // self._loader.num_workers))
        for begin in range(0, len(rows), step):
            some = rows[begin:begin + step]
            reading = self._pool.submit(_reader_reads, some)
            self._coming.update((row, (reading, i)) for i, row in enumerate(some))


def _step_when_due(schedule: Any, loader: Loader) -> None:
    """Its class and not itself is changed, as state_dict() has all that is in it."""
    kind = type(schedule)

    def step(self, *given: Any, **more: Any) -> None:
        due = 1 if _current is None or given or more else _current.steps
        for _ in range(0 if loader._is_first else due):
            kind.step(self, *given, **more)

    def reduce(self: Any) -> Any:  # some states of PyTorch refer to the schedule itself: it is saved as what it was
        return object.__new__, (kind,), self.__dict__

    schedule.__class__ = type(kind.__name__, (kind,), {"step": step, "__reduce__": reduce})


_reader_dataset: Any = None


def _reader(dataset: Any, begin: Optional[Callable[[int], Any]], trainer: int) -> None:
    """A process that reads rows begins. It ends with the trainer, whose pipes it would keep open. Without a seed of
    its own it would draw what the others draw."""
    import ctypes
    from multiprocessing import current_process

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != trainer:  # it died before that
        os._exit(1)
    for pipe in "PACELINE_IN", "PACELINE_OUT":
        if pipe in os.environ:
            os.close(int(os.environ[pipe]))
    global _reader_dataset
    _reader_dataset = dataset
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    random.seed()
    if numpy is not None:
        numpy.random.seed()
    if torch is not None:
        torch.seed()
        torch.set_num_threads(1)
    if begin is not None:
        begin(current_process()._identity[-1] - 1)


class _Pickler(pickle.Pickler):
    """Tensors go as arrays of numpy: torch would give each a file of shared memory, of which a process may open 1024,
    and by its own way of pickling one takes 20 times as long."""

    def reducer_override(self, thing: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and type(thing) is torch.Tensor and thing.device.type == "cpu" and not thing.requires_grad:
            try:
                return torch.from_numpy, (thing.numpy(),)
            except (RuntimeError, TypeError):  # without numpy, or of a type that it lacks
                pass
        return NotImplemented


def _reader_reads(rows: List[int]) -> List[bytes]:
    read = []
    for row in rows:
        pickled = io.BytesIO()
        _Pickler(pickled, protocol=5).dump(_reader_dataset[row])
        read.append(pickled.getvalue())
    return read

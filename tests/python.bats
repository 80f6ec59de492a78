# paceline.py: batches for trainers in Python, by itself and with PyTorch and scikit-learn where they
# are installed. The other end is paceline_rehearse, which deals out batches, kills and starts again.
load helper

setup_more() {
	export PYTHONPATH=$PACELINE_ROOT/scripts/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
	unset PACELINE_IN PACELINE_OUT PACELINE_RESUME RANK WORLD_SIZE
	EXAMPLES=$PACELINE_ROOT/scripts/examples
	python=python3
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' || skip "no python3 (3.8 or later)"
}

# need MODULE: $python is one that has it. It is only looked for: to import torch takes a second.
need() {
	for python in python3 /usr/bin/python3; do
		if $python -c "import importlib.util as i, sys; sys.exit(not i.find_spec('$1'))" 2>/dev/null; then return; fi
	done
	skip "no python3-$1"
}

rehearse() { $python -m paceline_rehearse "$@"; }

# counter.py EPOCHS: counts each row that it trains, in its own checkpoint, and looks at the end.
counter() {
	cat >counter.py <<-'END'
		import json, os, sys, paceline
		counts = {}
		def save(directory):
		    with open(os.path.join(directory, "counts.json"), "w") as file: json.dump(counts, file)
		def resume(path):
		    with open(os.path.join(path, "counts.json")) as file:
		        counts.update({int(row): count for row, count in json.load(file).items()})
		for batch in paceline.batches(save=save, resume=resume, samples=100):
		    for row in batch.rows: counts[row] = counts.get(row, 0) + 1
		    batch.loss = 1.0
		    if len(sys.argv) > 2: exec(sys.argv[2])
		assert len(counts) == 100 and set(counts.values()) == {int(sys.argv[1])}, counts
	END
}

# ---- rows ----

@test "the order of rows is that of the programs, with numpy and without" {
	command -v cc >/dev/null || skip "no C compiler"
	cat >order.c <<-'END'
		#include "base/random.h"
		#include <stdio.h>
		int main(void)
		{
			static const size_t lengths[] = {0, 1, 2, 63, 64, 65, 66, 1000};
			static const uint64_t seeds[] = {0, 7, UINT64_MAX};
			static uint32_t a[1001];
			for (size_t l = 0; l < 8; l++)
				for (size_t s = 0; s < 3; s++) {
					random_permute(a, lengths[l], seeds[s]);
					for (size_t i = 0; i < lengths[l]; i++)
						printf("%u\n", a[i]);
				}
		}
	END
	cc -I"$PACELINE_ROOT/lib" -o order order.c "$PACELINE_ROOT/lib/base/random.c"
	./order >expected
	[ "$(wc -l <expected)" -eq 3783 ]
	local try
	for python in python3 /usr/bin/python3; do
		for try in '' 'import numpy'; do
			if [ -n "$try" ] && ! $python -c "$try" 2>/dev/null; then continue; fi
			$python -c "$try
import paceline
for length in 0, 1, 2, 63, 64, 65, 66, 1000:
    for seed in 0, 7, 2 ** 64 - 1:
        for row in paceline.Range(5, length, seed).rows: print(row - 5)" >got
			cmp expected got
		done
	done
}

@test "rows of a range: as they lie, a piece in its order, a part of it, what likely comes next" {
	python3 - <<-'END'
		from paceline import Range
		assert Range(3, 4).rows == [3, 4, 5, 6]
		assert Range(3, 4, None, 1, 2).rows == [4, 5]
		whole = Range(10, 9, 77).rows
		assert sorted(whole) == list(range(10, 19)) and whole != sorted(whole)
		assert Range(10, 9, 77, 2, 3).rows == whole[2:5]
		assert Range(10, 9, 77, 2, 3).after(3) == whole[5:8]
		assert Range(10, 9, 77, 7).rows == whole[7:] and Range(10, 9, 77, 7).after(3) == []
		assert Range(3, 4).after(2) == [7, 8] and Range(3, 4, None, 0, 2).after(2) == [5, 6]
		assert Range(0, 5, 0).rows != [0, 1, 2, 3, 4]
	END
}

@test "by hand, without an agent: each row once an epoch, over all ranks" {
	run -1 python3 -c 'import paceline; paceline.batches()'
	[[ $output == *"no agent started this process (PACELINE_IN is not set)"*"say samples="* ]]
	python3 - <<-'END'
		import os, paceline
		for seed in None, 4:
		    rows = [row for batch in paceline.batches(samples=50, size=8, epochs=2, seed=seed) for row in batch.rows]
		    assert sorted(rows[:50]) == sorted(rows[50:]) == list(range(50))
		    assert (rows[:50] == rows[50:] == list(range(50))) == (seed is None)
		all, weights = [], {}
		os.environ["WORLD_SIZE"] = "3"
		for rank in range(3):
		    os.environ["RANK"] = str(rank)
		    for batch in paceline.batches(samples=50, size=8, collective=True):
		        all += batch.rows
		        weights[batch.iteration] = weights.get(batch.iteration, 0) + batch.weight
		assert sorted(all) == list(range(50))
		assert all and {round(w, 12) for w in weights.values()} == {3}, weights
	END
}

@test "where a batch is: epoch, samples done, progress; steps of a schedule are as many as were promised" {
	cat >steps.py <<-'END'
		import math, os, paceline, sys
		batches = paceline.batches(state={}, samples=101, size=10, epochs=3, collective="RANK" in os.environ)
		want, seen, epoch = batches.steps, 0, 0
		for batch in batches:
		    batch.rows
		    assert batch.samples_done < 303 and abs(batch.progress - batch.samples_done / 303) < 1e-12
		    if batch.size: assert epoch <= batch.epoch <= batch.samples_done // 101 + 1, batch
		    epoch, seen = batch.epoch, seen + batch.steps
		assert want == seen == 3 * math.ceil(101 / int(sys.argv[1])) and epoch == 2, (want, seen, epoch)
	END
	python3 steps.py 10
	local rank
	for rank in 0 1 2; do RANK=$rank WORLD_SIZE=3 python3 steps.py 30; done
	rehearse --samples 101 --epochs 3 --size 10 -- python3 steps.py 10
	rehearse --samples 101 --epochs 3 --size 10,7,3/2,2,2/0,0,50 --ranks 3 --save-every 4 -- python3 steps.py 20
	python3 - <<-'END'
		import paceline # as many by hand as in a job: the last batch alone is smaller
		assert [b.size for b in paceline.batches(samples=25, size=10, epochs=3)] == [10] * 7 + [5]
		assert [tuple(r[:2]) for b in paceline.batches(samples=25, size=10, seed=None) for r in b.ranges] == [(0, 10), (10, 10), (20, 5)]
	END
}

# ---- the conversation ----

@test "each row once an epoch, whatever is killed and when" {
	counter
	rehearse --samples 100 --size 7 --epochs 3 --save-every 5 --kill 0@0 --kill 0@3 --kill 0@18 --kill 0@42 -- \
		python3 counter.py 3 >out
	grep -q '^rehearsal iterations=43 samples=300 checkpoints=[0-9]* restarts=4 repeated=[1-9][0-9]* loss=1$' out
	rehearse --samples 100 --size 7 --epochs 2 --shuffle --save-every 1 --kill 0@9 -- python3 counter.py 2 >out
	grep -q ' restarts=1 ' out
}

@test "a batch in parts, its weight, what is left out of its time" {
	cat >parts.py <<-'END'
		import paceline, sys
		for batch in paceline.batches():
		    parts = list(batch.parts())
		    assert [row for part in parts for row in part.rows] == batch.rows
		    assert abs(sum(part.share for part in parts) - 1) < 1e-12
		    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
		    assert len(parts) == min(3, batch.size) and batch.weight == 1 and batch.lr_scale == 1
		    with batch.waiting(): pass
		    assert 0 < batch.waited
		    batch.waited = 0
		    batch.done(0.5)
		    try: batch.done()
		    except paceline.Error as error: assert "said twice" in str(error)
		    else: sys.exit("no error")
	END
	rehearse --samples 11 --size 10 --accum 3 --say -- python3 parts.py 2>said
	grep -Eq '^w0 -> step loss=0.5 time=[0-9.]+ mem=0\.[0-9]+$' said
	[ "$(grep -c -- '-> step' said)" = 2 ]
}

@test "compute: what does not fit the memory is halved, told, and comes in parts from then on" {
	cat >full.py <<-'END'
		import paceline, sys
		tried, holds = [], int(sys.argv[1])
		class Gradients:  # what has gradients is zeroed before it begins anew
		    sum = 0
		    def zero_grad(self): self.sum = 0
		    def state_dict(self): return {}
		    def load_state_dict(self, state): pass
		gradients = Gradients()
		def train(part):
		    tried.append(len(part.rows))
		    gradients.sum += sum(part.rows)
		    if len(part.rows) > holds: raise MemoryError
		    return part.rows, part.at
		for batch in paceline.batches(state={"g": gradients}, samples=24, size=10, seed=None):
		    gradients.sum, batch.work = 0, 7 * batch.size
		    if len(sys.argv) > 2: raise MemoryError  # a script without compute()
		    parts = batch.compute(train)
		    assert gradients.sum == sum(batch.rows)
		    assert [row for rows, _ in parts for row in rows] == batch.rows
		    assert all(batch.rows[at] == rows for rows, at in parts)
		assert tried == [10, 5, 2, 3, 2, 3, 2, 3, 2, 3, 2, 2], tried
	END
	run -0 python3 full.py 3 # by hand
	[ "$(grep -c 'the memory is full' <<<"$output")" -eq 2 ]
	rehearse --samples 24 --size 10 --say -- python3 full.py 3 2>said
	grep -q -- '-> fits rows=5' said
	grep -q -- '-> fits rows=3' said
	[ "$(grep -c -- '-> fits' said)" -eq 2 ]
	grep -Eq -- '-> step time=[0-9.]+ mem=0\.[0-9]+ work=70$' said
	grep -q -- '<- batch iteration=1 size=10 accum=4 ' said
	# A single row does not fit.
	run -1 python3 full.py 0
	[[ $output == *"parts of 1 rows at most"*MemoryError ]]
	# Whoever ends by it tells before that.
	rehearse --samples 24 --size 10 --say -- python3 full.py 3 dies 2>said || true
	grep -q -- '-> fits rows=5' said
	[ "$(grep -c '^Traceback' said)" -gt 0 ]
}

@test "a loss that is no number is said aloud, and not to the agent" {
	counter
	rehearse --samples 100 --size 50 --say -- python3 counter.py 1 'batch.loss = float("nan")' 2>said
	grep -q 'paceline: the loss of iteration 0 is nan' said
	not grep -q 'the loss of iteration 1' said # once
	grep -Eq '^w0 -> step time=' said
	not grep -q 'loss=' <(grep -- '-> step' said)
}

@test "rows that nobody asks for are told once, whichever way the others are read" {
	cat >unread.py <<-'END'
		import paceline, sys
		for batch in paceline.batches(): exec(sys.argv[1])
	END
	told() { # COMMAND
		rehearse --samples 12 --size 3 --accum 3 -- python3 unread.py "$1" 2>err >/dev/null
		sed -n 's/^paceline: iteration \(.* rows\) were read.*/\1/p' err
	}
	[ "$(told pass)" = "0: 0 of 3 rows" ]
	[ "$(told 'batch.rows')" = "" ]
	[ "$(told 'len(batch.ranges)')" = "" ]
	[ "$(told 'next(batch.parts())')" = "0: 1 of 3 rows" ]
	[ "$(told 'list(batch.parts())')" = "" ]
	[ "$(told 'next(batch.parts()) if batch.iteration == 2 else batch.rows')" = "2: 1 of 3 rows" ]
	python3 -c 'import paceline
for batch in paceline.batches(samples=9, size=3): pass' 2>err
	[ "$(grep -c 'iteration 0: 0 of 3 rows were read' err)" -eq 1 ]
	not grep 'iteration [12]: ' err
	# a rank that has no rows in an iteration reads none
	RANK=0 WORLD_SIZE=2 python3 -c 'import paceline
for batch in paceline.batches(samples=1, size=3, collective=True): pass' 2>err
	not grep 'were read' err
}

@test "what DDP needs and the script leaves out is told: collective=True, ddp_hook(), or the weight" {
	ddp() { RANK=0 WORLD_SIZE=2 python3 -c "
import sys, types, paceline
group = types.SimpleNamespace(size=lambda: 2)
model = types.SimpleNamespace(process_group=group, register_comm_hook=lambda state, hook: None)
sys.modules['torch.distributed'] = types.SimpleNamespace(
    is_available=lambda: True, is_initialized=lambda: True, get_world_size=group.size)
$1" 2>&1; }
	run -1 ddp 'paceline.ddp_hook(model)
for batch in paceline.batches(samples=9, size=2): batch.rows'
	[[ $output == *"torch.distributed has 2 ranks, and batches() was not given collective=True"* ]]
	[[ $output == *"Error: ddp_hook() needs batches(collective=True)"* ]]
	local all='paceline.batches(samples=9, size=2, epochs=3, collective=True)'
	run -0 ddp "for batch in $all: batch.rows" # 3 rows for two ranks, at the end
	[ "$(grep -c "batches differ in size.*neither ddp_hook() nor batch.weight" <<<"$output")" -eq 1 ]
	run -0 ddp "for batch in $all: batch.rows, batch.weight"
	[[ $output != *"differ in size"* ]]
	run -0 ddp "paceline.ddp_hook(model)
for batch in $all: batch.rows"
	[[ $output != *"differ in size"* && $output != *"torch.distributed"* ]]
}

@test "a checkpoint: what is written, given back, given up" {
	# It says nothing, and has written something: that is the checkpoint. A path that it says counts.
	cat >save.py <<-'END'
		import os, sys, paceline
		mode = sys.argv[1]
		seen = []
		def save(directory):
		    if mode == "fails": raise OSError(28, "No space left on device")
		    if mode == "nothing": return None
		    name = os.path.join(directory, "a model")
		    with open(name, "w") as file: file.write("x")
		    return {"file": name, "relative": "a model", "directory": None, "true": True}[mode]
		def resume(path): seen.append(path)
		for batch in paceline.batches(save=None if mode == "none" else save, resume=resume): pass
		print("resumed from", *seen, file=sys.stderr)
	END
	local mode
	for mode in file relative directory true; do
		rehearse --samples 40 --size 10 --save-every 2 --kill 0@3 --directory "$T/$mode" --say -- \
			python3 save.py $mode >out 2>said
		grep -q ' checkpoints=2 restarts=1 repeated=20 ' out
	done
	[ -e "$T/file/00000002.0/w0/a model" ]
	grep -q "resumed from $T/true/00000002.0/w0$" said
	rehearse --samples 40 --size 10 --save-every 2 --say -- python3 save.py fails >out 2>said
	grep -q ' checkpoints=0 ' out
	grep -q '^rehearsal: checkpoint given up: OSError: .*No space left on device' said
	rehearse --samples 40 --size 10 --save-every 2 -- python3 save.py none >out 2>said
	grep -q ' checkpoints=0 ' out
	grep -q 'given up: batches() was given no save=' said
	rehearse --samples 40 --size 10 --save-every 2 --say -- python3 save.py nothing >out 2>said
	grep -q '^w0 -> saved$' said
}

@test "a checkpoint that the agent can't read is given up, and training goes on" {
	run -0 python3 - <<-'END'
		import os, paceline
		(a, b), (c, d) = os.pipe(), os.pipe()
		os.environ.update(PACELINE_IN=str(a), PACELINE_OUT=str(d))
		os.write(b, b"save path=. iteration=1\nok state=wait\n")
		os.write(b, b"err code=no-file\tx: can't be found\n")
		os.write(b, b"batch iteration=1 size=1\nrange begin=4 length=1\nok\n")
		os.write(b, b"ok iteration=2\nok state=end\n")
		print([b.rows for b in paceline.batches(save=lambda d: open("x", "w").name)], flush=True)
	END
	[[ $output == *"the checkpoint is given up: the agent says: err code=no-file: x: can't be found"*"[[4]]" ]]
}

@test "a spare is told its rank with its place: RANK is set, and rank 0 saves" {
	run -0 env RANK=3 PACELINE_STATE="$T" python3 - <<-'END'
		import os, paceline
		(a, b), (c, d) = os.pipe(), os.pipe()
		os.environ.update(PACELINE_IN=str(a), PACELINE_OUT=str(d))
		os.write(b, b"ok state=wait\nplace rank=0\nbatch iteration=1 size=1\nrange begin=4 length=1\nok\n")
		os.write(b, b"ok iteration=2\nok state=end\n")
		batches = paceline.batches(state={})
		batches.save(3, "early")
		for batch in batches:
		    batches.save(batch.rows, "rows")
		print(batches.rank, os.path.exists("early"), os.path.exists("rows"))
	END
	[[ $output == *"0 False True" ]]
}

@test "torch: a state with more than tensors in it is loaded, also where torch.load() is strict" {
	need torch
	run -0 $python - <<-'END'
		import fractions, torch, paceline
		load = torch.load
		torch.load = lambda *a, **k: load(*a, **{"weights_only": True, **k})
		state = {"best": fractions.Fraction(1, 3)}
		path = paceline._State({"best": state}).save(".")
		state["best"] = None
		paceline._State({"best": state}).load(path)
		assert state["best"] == fractions.Fraction(1, 3)
	END
}

@test "torch: an optimizer takes what was loaded as it is, without a copy, and trains on as if nothing had been" {
	need torch
	run -0 $python - <<-'END'
		import copy, torch, paceline
		kept = []
		class Deep(torch.optim.Adam):
		    def load_state_dict(self, state):
		        kept.append(copy.deepcopy(state) is state)
		        super().load_state_dict(state)
		def step(model, optimizer):
		    optimizer.zero_grad()
		    model(torch.ones(2, 3)).sum().backward()
		    optimizer.step()
		def made():
		    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
		    optimizer = Deep(model.parameters())
		    return model, optimizer, paceline._State({"model": model, "optimizer": optimizer})
		model, optimizer, state = made()
		step(model, optimizer)
		other, its, new = made()
		new.load(state.save("."))
		for _ in range(2):
		    step(model, optimizer)
		    step(other, its)
		assert kept == [True]
		assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values()))
	END
}

@test "state: objects with state_dict(), killed and loaded again" {
	cat >state.py <<-'END'
		import paceline
		class Counter:
		    def __init__(self): self.counts = {}
		    def state_dict(self): return {"counts": self.counts}
		    def load_state_dict(self, state): self.counts = dict(state["counts"])
		a, b, c = Counter(), Counter(), {"batches": 0}
		for batch in paceline.batches(state={"a": a, "b": b, "c": c}):
		    for row in batch.rows: a.counts[row] = a.counts.get(row, 0) + 1
		    b.counts[batch.iteration] = 1
		    c["batches"] += 1
		assert set(a.counts.values()) == {2} and len(a.counts) == 30, a.counts
		assert sorted(b.counts) == list(range(c["batches"]))
	END
	rehearse --samples 30 --size 4 --epochs 2 --save-every 3 --kill 0@7 --kill 0@12 -- python3 state.py >out
	grep -q ' restarts=2 ' out
	run -1 python3 -c 'import paceline; paceline.batches(state={"m": 1}, samples=1)'
	[[ $output == *"state: m is no dict, and has no state_dict() and load_state_dict(): put it into a dict, or use save= and resume="* ]]
	run -1 python3 -c 'import paceline; paceline.batches(state={}, save=print, samples=1)'
	[[ $output == *"either state=, or save= and resume="* ]]
	run -1 python3 -c 'import paceline; paceline.batches(collective=True, samples=1)'
	[[ $output == *"collective=True needs RANK and WORLD_SIZE in the environment"* ]]
}

@test "random numbers are in the state: killed or not, the same; ranks that did not save differ" {
	cat >dice.py <<-'END'
		import paceline, random, sys
		numpy = torch = None
		if "numpy" in sys.argv: import numpy
		if "torch" in sys.argv: import torch
		random.seed(1)
		if numpy: numpy.random.seed(2)
		if torch: torch.manual_seed(3)
		drawn = {}
		batches = paceline.batches(state={"drawn": drawn}, collective=True)
		for batch in batches:
		    batch.rows
		    drawn[batch.iteration] = [random.random(), float(numpy.random.rand()) if numpy else 0,
		                              float(torch.rand(1)) if torch else 0]
		print(batch.iteration, sorted(drawn.items()))
	END
	local modules=
	for module in numpy torch; do python3 -c "import $module" 2>/dev/null && modules+=" $module"; done
	rehearse --samples 60 --size 5 -- python3 dice.py $modules >whole
	rehearse --samples 60 --size 5 --save-every 5 --kill 0@7 -- python3 dice.py $modules >killed
	diff <(grep -v ^rehearsal whole) <(grep -v ^rehearsal killed)
	rehearse --samples 60 --size 5 --ranks 3 --save-every 2 --kill 1@3 -- python3 dice.py $modules >ranks
	[ "$(grep -v ^rehearsal ranks | sed 's/.*(3, //' | sort -u | wc -l)" -eq 3 ]
}

@test "stop: by hand and in a job the loops end, and what follows them runs; break is told" {
	python3 - <<-'END'
		import paceline
		batches, seen = paceline.batches(samples=100, size=10), 0
		for batch in batches:
		    seen += len(batch.rows)
		    if batch.iteration == 3: batches.stop("enough")
		assert seen == 40
	END
	cat >stops.py <<-'END'
		import paceline, sys
		batches = paceline.batches(state={}, collective=True)
		for batch in batches:
		    batch.rows
		    batch.done(1.0)
		    if batch.iteration == 3: exec(sys.argv[1])
		sys.stdout.write("behind %d\n" % batch.iteration) # in one piece
	END
	rehearse --samples 100 --size 5 --ranks 2 --save-every 4 --say -- python3 stops.py 'batches.stop("good\n")' >out 2>said
	grep -q 'w0 -> enough why=good%0A$' said
	[ "$(grep -c '^behind [34]$' out)" -eq 2 ]
	grep -q '^rehearsal iterations=[45] ' out
	run -75 rehearse --samples 100 --size 5 -- python3 stops.py 'sys.exit(0)'
	[[ $output == *"paceline: the loop over batches was left before its end"*"batches.stop()"* ]]
	run -75 rehearse --samples 100 --size 5 -- python3 stops.py '1 / 0'
	[[ $output != *"left before its end"* ]]
}

@test "mistakes of a trainer, and an agent that goes away, have a message" {
	counter
	run -65 rehearse --samples 101 --size 60 -- python3 counter.py 1
	[[ $output == *"rank 0 ended with exit status 78, a mistake that would come again"* ]]
	grep -q 'the job has a row 100, and this script has 100 rows: see SAMPLES or DATA' <<<"$output"
	echo 'import paceline
for batch in paceline.batches(): pass' >no-resume.py
	rehearse --samples 10 --size 2 --directory "$T/kept" --save-every 1 --restarts 1 --kill 0@3 -- \
		python3 -c 'import os, paceline
if "PACELINE_RESUME" in os.environ: exec(open("no-resume.py").read())
for batch in paceline.batches(save=lambda d: open(d + "/x", "w").close()): pass' 2>err || status=$?
	[ "$status" = 65 ]
	grep -q "this job goes on from $T/kept/00000002.0/w0, and batches() was given no resume=" err
	# Under a job: a script that saves nothing can't end it; one with more rows is told.
	run -78 env PACELINE_IN=0 PACELINE_OUT=1 PACELINE_SAMPLES=9 python3 -c 'import paceline; paceline.batches()' < <(:)
	[[ $output == *"batches() was given no state= (or save= and resume=)"* ]]
	run -0 env PACELINE_IN=0 PACELINE_OUT=1 PACELINE_SAMPLES=9 \
		python3 -c 'import paceline; paceline.batches(state={}, samples=10)' < <(:)
	[[ $output == *"the job has 9 rows, and this script has 10: the last 1 are not trained (SAMPLES or DATA of the job; FORMAT=lines if "* ]]
	run -78 env PACELINE_IN=0 PACELINE_OUT=1 python3 -c 'import paceline; paceline.batches(state={"n": 1})' < <(:)
	# A loss that stays nan is said once.
	rehearse --samples 40 --size 10 -- python3 -c 'import paceline
for batch in paceline.batches(): batch.loss = float("nan") if batch.iteration else 1.0' 2>err
	grep -q 'the loss of iteration 1 is nan' err
	not grep -q 'the loss of iteration 2' err
	# Things in the wrong place.
	run -1 python3 -c 'import paceline; paceline.batches(state=[1], samples=9)'
	[[ $output == *'Error: state= takes objects by name: state={"model": model, '* ]]
	run -1 python3 -c "import paceline; paceline.Loader([1])"
	[[ $output == *"Error: Loader() takes a DataLoader whose dataset has [row] and len()"* ]]
	# The agent ends in the middle: no more than a message.
	run -75 python3 - <<-'END'
		import os, paceline
		(a, b), (c, d) = os.pipe(), os.pipe()
		os.environ.update(PACELINE_IN=str(a), PACELINE_OUT=str(d))
		batches = paceline.batches()
		os.write(b, b"batch iteration=0 size=1\nrange begin=4 length=1\nok\n")
		assert next(batches).rows == [4]
		if os.fork() == 0:
		    try: batches.batch.done()
		    except paceline.Error as error: print(error, flush=True)
		    os._exit(0)
		os.wait()
		os.write(b, b"ok iter")
		os.close(b)
		next(batches)
	END
	[[ $output == *"this process was forked from the trainer"* ]]
	[[ $output == *"AgentGone: the agent has ended"* ]]
	run -1 env PACELINE_IN=77 PACELINE_OUT=x python3 -c 'import paceline; paceline.batches()'
	[[ $output == *"PACELINE_IN=77 and PACELINE_OUT=x are not open here"* ]]
	# A child of the trainer, as torchrun starts it, has something else where the pipes were.
	run -1 env PACELINE_IN=0 PACELINE_OUT=1 python3 -c 'import paceline; paceline.batches()' </dev/null
	[[ $output == *"PACELINE_IN=0 and PACELINE_OUT=1 are not open here"*"not torchrun: WORKERS=N"* ]]
	run -78 python3 - <<-'END'
		import os, paceline
		(a, b), (c, d) = os.pipe(), os.pipe()
		os.environ.update(PACELINE_IN=str(a), PACELINE_OUT=str(d))
		os.write(b, b"err code=fenced\tsomebody said fail\n")
		next(paceline.batches())
	END
	[[ $output == *"the agent says: err code=fenced: somebody said fail"* ]]
}

@test "rehearsal: rubbish, half a line, two words at once, an end too early are named" {
	run -65 rehearse --samples 5 -- sh -c 'echo step >&$PACELINE_OUT; sleep 60'
	[[ $output == *"rank 0, line 1: step without a batch"* ]]
	run -65 rehearse --samples 5 -- sh -c 'printf nex >&$PACELINE_OUT'
	[[ $output == *"rank 0 ended in the middle of a line"* ]]
	run -65 rehearse --samples 5 -- sh -c 'printf "next\nnext\n" >&$PACELINE_OUT; sleep 60'
	[[ $output == *"rank 0, line 2: next before next was answered"* ]]
	run -65 rehearse --samples 5 -- sh -c 'echo saved >&$PACELINE_OUT; sleep 60'
	[[ $output == *"rank 0, line 1: saved, and nobody asked for a checkpoint"* ]]
	run -65 rehearse --samples 5 -- sh -c 'echo next >&$PACELINE_OUT
		until [ "$word" = ok ]; do read -r word _ <&$PACELINE_IN; done
		echo step loss=low >&$PACELINE_OUT; sleep 60'
	[[ $output == *"rank 0, line 2: loss=low is no number"* ]]
	run -65 rehearse --samples 5 --size 1 --save-every 1 -- sh -c '
		say() { echo "$*" >&$PACELINE_OUT; }
		hear() { while read -r word _ <&$PACELINE_IN && [ "$word" != ok ]; do :; done; }
		say next; hear; say step; hear; say saved memory=../model; sleep 60'
	[[ $output == *"rank 0, line 3: saved memory=../model: is not the name of a file"* ]]
	run -65 rehearse --samples 5 -- sh -c 'printf "next %05000d\n" 1 >&$PACELINE_OUT; sleep 60'
	[[ $output == *"rank 0: a line of more than 4096 bytes"* ]]
	run -78 rehearse --samples 5 -- "$T/nothing"
	[[ $output == "rehearsal: [Errno 2] No such file or directory: '$T/nothing'" ]]
	counter
	rehearse --samples 100 --save-every 1 --directory kept -- python3 counter.py 1
	run -78 rehearse --samples 100 --save-every 1 --directory kept -- python3 counter.py 1
	[[ $output == *"rehearsal: [Errno 17] File exists: '$T/kept/00000001.0/w0'"* ]]
	run -65 rehearse --samples 5 --patience 0.1 -- sh -c 'eval "exec $PACELINE_OUT>&-"; exec sleep 60'
	[[ $output == *"rank 0 has closed PACELINE_OUT, and has not ended for 0.1 s"* ]]
	run -65 rehearse --samples 5 --patience 0.1 -- sleep 60
	[[ $output == *"nobody says anything for 0.1 s: rank 0 did not ask for a batch"* ]]
	run -75 rehearse --samples 5 -- sh -c 'exit 3'
	[[ $output == *"rank 0 ended before all was trained (exit status 3)"* ]]
}

@test "rehearsal: the conversation of paceline-trainers(7), word by word" {
	cat >talk.sh <<-'END'
		say() {
			echo "$*" >&$PACELINE_OUT
			while read -r word rest <&$PACELINE_IN; do
				case $word in
				save) path=${rest#path=} path=${path%% *} ;;
				ok) return ;;
				esac
			done
			exit 1
		}
		for loss in 0.7 0.6; do say next; say step loss=$loss; done
		echo 1 >"$path/model"
		say saved path=model
		say next
	END
	rehearse --samples 100 --save-every 2 --say -- sh talk.sh 2>said
	sed -i 's,=/[^ ]*/paceline-rehearse[.][^/]*,=/tmp/paceline-rehearse.x,; s,=/proc/.*,=/proc/2345/fd/9,' said
	sed -n '/^w0 -> next/,/^[.]Ed/{/^[.]Ed/d;p}' "$PACELINE_ROOT/man/paceline-trainers.7" >page
	[ "$(wc -l <page)" -eq 17 ]
	diff page said
}

# ---- data ----

# A DataLoader, as far as Loader looks at it, and the names of a dataset's rows.
loading() {
	cat >loading.py <<-'END'
		import os, random, paceline
		class Rows:
		    read = []
		    def __len__(self): return 50
		    def __getitem__(self, row): self.read.append(row); return row
		class RandomSampler: pass
		class DataLoader:
		    sampler, worker_init_fn = RandomSampler(), None
		    def __init__(self, dataset, batch_size, num_workers=0):
		        self.dataset, self.batch_size, self.num_workers = dataset, batch_size, num_workers
		    collate_fn = staticmethod(list)
		    def __iter__(self): return iter(["its own"])
		    def __len__(self): return -1
		class Schedule:
		    optimizer, last = None, 0
		    def step(self, *given): self.last += 1
		    def get_last_lr(self): return [self.last]
		    def state_dict(self): return dict(self.__dict__)
		    def load_state_dict(self, state): self.__dict__.update(state)
	END
}

@test "Loader: epochs end behind their last rows; what is read ahead is right; between epochs it is the script's own" {
	loading
	python3 - <<-'END'
		from loading import *
		for workers in 0, 2:
		    loader = paceline.Loader(DataLoader(Rows(), 8, workers))
		    assert list(loader) == ["its own"] and len(loader) == 7 and loader.batch_size == 8
		    seen, ends = [], []
		    for epoch in loader.epochs(3):
		        for rows in loader:
		            assert rows == loader.batch.rows
		            seen += rows
		        assert list(loader) == ["its own"]
		        ends.append((epoch, len(seen)))
		    assert ends == [(0, 56), (1, 104), (2, 150)] and sorted(seen) == sorted(3 * list(range(50)))
		assert sorted(Rows.read) == sorted(seen) # by this process: no row was read in vain
		class Where(Rows):
		    def __getitem__(self, row): return row, os.getpid(), random.random()
		loader = paceline.Loader(DataLoader(Where(), 8, 2))
		loader.worker_init_fn = None
		rows = [row for epoch in loader.epochs(1) for data in loader for row in data]
		assert sorted(row for row, _, _ in rows) == list(range(50)) and os.getpid() not in {pid for _, pid, _ in rows}
		assert len({number for _, _, number in rows}) == 50 # no two readers draw the same
		reader = os.fork()
		if not reader: # whose trainer died before the reader could ask to die with it
		    paceline._reader(Rows(), None, os.getpid())
		    os._exit(0)
		assert os.waitpid(reader, 0)[1] >> 8 == 1
		class Broken(Rows):
		    def __getitem__(self, row): raise OSError("row %d" % row)
		for workers in 0, 2:
		    loader = paceline.Loader(DataLoader(Broken(), 8, workers))
		    try: print([data for epoch in loader.epochs(1) for data in loader])
		    except OSError as error: assert "row" in str(error)
		    else: raise SystemExit("no error")
		loader = paceline.Loader(DataLoader(Rows(), 8))
		seen = []
		for epoch in loader.epochs(3):
		    for rows in loader:
		        seen += rows
		        if len(seen) == 64: loader.stop()
		    ends = len(seen), epoch
		assert ends == (64, 1) # what follows the inner loop runs once more
	END
}

@test "Loader: no rows are some of the batch before, one comes twice; a job's schedule, epochs and rows" {
	loading
	cat >few.py <<-'END'
		from loading import *
		batch, epoch_of = Schedule(), Schedule()
		counts, ends = {}, {}
		loader, before = paceline.Loader(DataLoader(Rows(), 8)), [0]
		state = {"batch": batch, "epoch": epoch_of, "counts": counts, "ends": ends}
		for epoch in loader.epochs(3, state=state, collective=True):
		    for rows in loader:
		        own = loader.batch.rows
		        assert rows == (own if len(own) > 1 else 2 * own or before * (2 // len(before) or 1)), (rows, own, before)
		        before = rows[:8] if len(own) != 1 else own
		        for row in own: counts[row] = counts.get(row, 0) + 1
		        batch.step()
		    epoch_of.step()
		    ends[epoch] = ends.get(epoch, 0) + 1
		assert ends == {0: 1, 1: 1, 2: 1} and epoch_of.last == 3, ends
		assert batch.last == 3 * len(loader), (batch.last, len(loader))
		assert type(batch).__name__ == "Schedule" and set(batch.state_dict()) == {"last"}
		if os.environ["WORLD_SIZE"] == "1": assert set(counts.values()) == {3} and len(counts) == 50
	END
	rehearse --samples 50 --epochs 3 --size 10,1,7,0,5 --save-every 3 --kill 0@4 --kill 0@9 -- python3 few.py >out
	grep -q ' restarts=2 ' out
	rehearse --samples 50 --epochs 3 --size 4,1/3,0/0,9 --ranks 2 --save-every 4 --kill 1@8 -- python3 few.py
	RANK=0 WORLD_SIZE=1 python3 few.py
	# A schedule that would end before the job is told at once.
	run -78 env PACELINE_IN=0 PACELINE_OUT=1 PACELINE_SAMPLES=50 PACELINE_EPOCHS=4 PACELINE_BATCH=8 python3 -c 'from loading import *
class Short:
    optimizer, total_steps, get_last_lr, state_dict, load_state_dict = None, 21, print, print, print
loader = paceline.Loader(DataLoader(Rows(), 8))
loader.epochs(3, state={"schedule": Short()})' < <(:)
	[[ $output == *"the job has EPOCHS=4, and the script 3: schedule has 21 steps, and the job 28"* ]]
	# Messages are in the words of the script.
	run -1 python3 -c 'from loading import *; next(paceline.Loader(DataLoader(Rows(), 8)).epochs(1)); batch = paceline._current
batch.sum()'
	[[ $output == *"loader.sum() is for loader.epochs(sums=model), allreduce() for loader.epochs(sums=N)"* ]]
	run -0 python3 -c 'from loading import *; paceline.Loader(DataLoader(Rows(), 8))
paceline.Batch(paceline.Batches(), 0, [], 8, weight=2.0)._tell_unweighed()'
	[[ $output == *"neither ddp_hook() nor loader.batch.weight:"* ]]
	run -1 python3 -c 'from loading import *; paceline.Loader(DataLoader(Rows(), 8)).rank'
	[[ $output == *"Error: loader.rank is there from loader.epochs() on"* ]]
	run -1 python3 -c 'from loading import *; loader = paceline.Loader(DataLoader(Rows(), 8)); loader.epochs(1); loader.sum()'
	[[ $output == *"Error: loader.sum() without a batch"* ]]
}

@test "Loader with sums=N: a single row comes once; a batch that comes when all was trained begins no epoch" {
	need numpy
	loading
	$python - <<-'END'
		from loading import *
		import itertools, numpy
		loader = paceline.Loader(DataLoader(Rows(), 7))
		epochs, source = loader.epochs(1, state={}, sums=3), loader._source
		late = source._place(paceline.Batch(source, 9, [], 0), None, 0, 50, 50)
		source._plan = itertools.chain(source._plan, [late])
		for epoch in epochs:
		    assert epoch == 0
		    for rows in loader:
		        assert rows == loader.batch.rows
		        paceline.allreduce(numpy.ones(3), loader.batch)
		assert late.samples == 0
	END
}

@test "torch: Loader collates, and refuses what chooses rows by itself" {
	need torch
	$python - <<-'END'
		import paceline, torch
		from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler, IterableDataset
		data = TensorDataset(torch.arange(20.0), torch.arange(20))
		class Endless(IterableDataset): pass
		class Long(IterableDataset):
		    def __len__(self): return 9
		for loader, why in ((DataLoader(Endless()), "IterableDataset"), (DataLoader(Long()), "no IterableDataset"),
		                    (DataLoader(data, sampler=WeightedRandomSampler([1.0] * 20, 20)), "not WeightedRandomSampler"),
		                    (DataLoader(data, batch_sampler=[[1, 2]]), "not a batch_sampler")):
		    try: paceline.Loader(loader)
		    except paceline.Error as error: assert why in str(error), error
		    else: raise SystemExit("no error")
		for workers in 0, 2:
		    loader = paceline.Loader(DataLoader(data, 6, num_workers=workers))
		    for epoch in loader.epochs(2):
		        for x, y in loader: assert torch.equal(x, y.float()) and y.tolist() == loader.batch.rows
		    assert y.tolist() == list(range(16, 20)) # in their order, as without shuffle
		model = torch.nn.Linear(1, 1)
		optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
		schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=2, steps_per_epoch=len(loader))
		for epoch in loader.epochs(2, state={"schedule": schedule}):
		    for x, y in loader: optimizer.step(), schedule.step()
		assert schedule.last_epoch == 2 * 4
		torch.save(schedule.state_dict(), "schedule.pt") # as what it was
		torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 8).load_state_dict(torch.load("schedule.pt"))
	END
}

@test "save: one rank writes, all or nothing; the best value is that of the file that is there" {
	export PACELINE_STATE=$T/state
	cat >saves.py <<-'END'
		import os, pickle, sys, paceline
		batches = paceline.batches(state={}, samples=9)
		print(*[batches.save(value, "best", **{sys.argv[1]: value}) for value in map(float, sys.argv[2:])])
		print(pickle.load(open("best", "rb")), os.listdir("."))
	END
	mkdir best.new # none can be written
	run -1 python3 saves.py min nan 3
	[[ $output == *"best is not written"*"inf inf"* ]]
	run -1 python3 saves.py max 3
	[[ $output == *"-inf"* ]]
	rmdir best.new
	run -0 python3 saves.py min 3 5 2 nan 2
	[[ $output == *"3.0 3.0 2.0 2.0 2.0"*"2.0 ["* ]]
	[[ $output != *".new"* ]]
	run -0 python3 saves.py min 4 1 # a process that comes later
	[[ $output == *"2.0 1.0"*"1.0 ["* ]]
	run -0 env RANK=1 python3 saves.py min 0.5 # rank 0 may be dead just now
	[[ $output == *"0.5"*"0.5 ["* ]]
	run -0 env RANK=1 python3 -c 'import paceline; paceline.batches(state={}, samples=9).save(1, "last")'
	[ ! -e last ]
	printf '%s\n' "saved path=$T/best value=0 file=1-2-3" >>state/saved # killed before the file was there
	run -0 python3 saves.py min 2
	[[ $output == *"0.5"*"0.5 ["* ]]
	cp best other
	mv other best # another file than what was written
	run -0 env RANK=1 python3 saves.py max 0.9
	[[ $output == *"0.9"*"0.5 ["* ]]
	run -0 python3 saves.py max 0.7
	[[ $output == *"0.7"*"0.7 ["* ]]
	mkdir best.new # can't be written
	run -0 python3 saves.py max 0.8
	[[ $output == *"best is not written"*"0.7"*"0.7 ["* ]]
	run -1 python3 -c 'import paceline; paceline.batches(state={}, samples=9).save(1, "best")'
	rmdir best.new
	for RANK in 0 1 2; do RANK=$RANK python3 saves.py max 5 >all$RANK & done # at the same time: one does
	wait
	[ "$(grep -c ' value=5.0 ' state/saved)" -eq 1 ]
	[ "$(grep -l '^5.0 \[' all? | wc -l)" -ge 1 ]
	unset PACELINE_STATE
	run -0 python3 saves.py max 3 5 2 # by hand: as a script does it by itself
	[[ $output == *"3.0 5.0 5.0"*"5.0 ["* ]]
}

# ---- gradients summed by the kit ----

# counted.py EPOCHS: ranks add 1 to the cell of each row that they train, summed by allreduce(); each
# rank has all of it at the end.
counted() {
	cat >counted.py <<-'END'
		import os, sys, time, numpy, paceline
		class Counts:
		    def __init__(self): self.cells, self.loads = numpy.zeros(100, numpy.float32), 0
		    def state_dict(self): return {"cells": self.cells.copy()}
		    def load_state_dict(self, state):
		        self.loads += not numpy.isnan(self.cells).any()
		        self.cells[:] = state["cells"]
		counts = Counts()
		for batch in paceline.batches(state={"counts": counts}, sums=101, samples=100):
		    assert batch.samples_done == counts.cells.sum() # also in a rank that has joined
		    here = numpy.full(100, 0 if batch.size else 77)
		    numpy.add.at(here, batch.rows, 1)
		    sums, sizes = paceline.allreduce([here, numpy.array(batch.size)], batch, 0.5)
		    assert sums.shape == (100,) and sizes == batch.samples == sums.sum()
		    counts.cells += sums * batch.samples / batch.samples # nan in an iteration of no rows, which is taken back
		assert (counts.cells == int(sys.argv[1])).all(), counts.cells
		os.write(1, b"rank %s loaded %d\n" % (os.environb.get(b"RANK", b""), counts.loads))
	END
}

@test "sums: each row once an epoch in all ranks, whoever is killed; nobody goes back" {
	need numpy
	counted
	run -0 $python counted.py 1 # by hand
	# Rank 0 is killed while it is to write its state for rank 1; rank 2 in the last iteration.
	rehearse --samples 100 --size 3,2,4 --ranks 3 --epochs 3 --save-every 4 --shuffle --directory kept \
		--kill 1@3 --kill 0@5 --kill 2@34 -- $python counted.py 3 >out 2>err
	grep -q '^rehearsal iterations=3[5-9] samples=300 checkpoints=[4-9] restarts=3 repeated=0 loss=0.5$' out
	[ "$(grep -c '^rank [012] loaded 1$' out)" -eq 3 ]
	# One rank is asked for a checkpoint, and all go on from it when all have died.
	[ "$(find kept -mindepth 1 -maxdepth 1 | wc -l)" -eq "$(find kept -name 'w?' | wc -l)" ]
	rehearse --samples 100 --size 9 --epochs 2 --save-every 4 --kill 0@9 -- $python counted.py 2 >out 2>err
	grep -q ' restarts=1 repeated=18 ' out
	# Ranks without rows, and an iteration in which nobody that is left has any.
	rehearse --samples 100 --size 5,0/0,9 --ranks 2 --kill 1@3 -- $python counted.py 1 >out 2>err
	grep -q ' samples=100 .* restarts=1 repeated=0 ' out
}

@test "sums: mistakes of a script, on either side of the conversation" {
	need numpy
	cat >sums.py <<-'END'
		import sys, numpy, paceline
		a = numpy.ones(3)
		for batch in paceline.batches(state={}, sums=3, samples=9):
		    batch.rows
		    exec(sys.argv[1])
	END
	run -1 $python sums.py 'pass'
	[[ $output == *"iteration 0 ended without batch.sum() or allreduce(): a rank without rows says it, too"* ]]
	run -1 $python sums.py 'paceline.allreduce([a, a], batch)'
	[[ $output == *"allreduce() of 6 floats, and batches() was given sums=3"* ]]
	run -1 $python sums.py 'batch.sum()'
	[[ $output == *"batch.sum() is for batches(sums=model), allreduce() for batches(sums=N)"* ]]
	run -1 $python sums.py 'paceline.allreduce(a, batch); paceline.allreduce(a, batch)'
	[[ $output == *"iteration 0: its gradients were summed before"* ]]
	run -1 env WORLD_SIZE=2 RANK=0 $python sums.py ''
	[[ $output == *"WORLD_SIZE=2, and nobody sums the gradients. Without a job say torch.distributed.init_process_group()"* ]]
	run -1 $python -c 'import paceline; paceline.batches(sums=3, samples=9)'
	[[ $output == *"sums= needs state="* ]]
	run -1 $python -c 'import paceline; paceline.batches(state={}, sums=0, samples=9)'
	[[ $output == *"sums=: there is nothing to sum"* ]]
	run -78 $python - <<-'END'
		import os, paceline
		(a, b), (c, d) = os.pipe(), os.pipe()
		os.environ.update(PACELINE_IN=str(a), PACELINE_OUT=str(d))
		os.write(b, b"err code=config\tnobody sums here\n")
		paceline.batches(state={}, sums=3)
	END
	[[ $output == *"nobody sums here (sums= needs a job with SYNC=allreduce)"* ]]
	# The rehearsal looks at what no agent can: whether the floats stay as they were announced.
	said() { # WORDS: Python that may write to memory
		rehearse --samples 9 --size 9 -- $python -c 'import mmap, os, sys
def say(word):
    tell(word)
    answer = ""
    while not answer.endswith("\n") or answer.splitlines()[-1].split()[0] not in ("ok", "err"):
        some = os.read(int(os.environ["PACELINE_IN"]), 4096).decode()
        answer += some or sys.exit(1)
    return answer
def tell(word): os.write(int(os.environ["PACELINE_OUT"]), word.encode() + b"\n")
path = say("sums floats=3").split("path=")[1].split()[0]
memory = mmap.mmap(os.open(path, os.O_RDWR), 12)
'"$1"
	}
	run -65 said 'say("next empty=1"); tell("final begin=1 count=2"); say("pause seconds=0"); memory[4] = 1; say("sum")'
	[[ $output == *"rank 0, line 5: floats 1 to 2 have changed since they were said to be final"* ]]
	run -65 said 'say("next empty=1"); say("final begin=1 count=3")'
	[[ $output == *"rank 0, line 3: final begin=1 count=3"* ]]
	run -65 said 'say("next empty=1"); say("final begin=one count=3")'
	[[ $output == *"rank 0, line 3: a field of final is no number, or too large"* ]]
	run -65 said 'say("next")'
	[[ $output == *"this one has not, or it said next without empty=1"* ]]
	run -65 said 'say("sums floats=3")'
	[[ $output == *"rank 0, line 2: sums floats=3, and other ranks have 3"* ]]
}

# ---- PyTorch ----

# gradients.py OUT FLOAT: the gradients of each iteration, one file; with DDP where there are ranks.
gradients() {
	cat >gradients.py <<-'END'
		import os, sys, torch, torch.distributed as dist, paceline
		from contextlib import nullcontext
		from torch import nn
		torch.set_default_dtype(getattr(torch, sys.argv[2]))
		generator = torch.Generator().manual_seed(4)
		x, y = torch.randn(1100, 5, generator=generator), torch.randn(1100, generator=generator)
		torch.manual_seed(1)
		model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
		world, summed, full = int(os.environ["WORLD_SIZE"]), "summed" in sys.argv, "full" in sys.argv
		if summed: paceline._BUCKET = 100  # several
		if world > 1 and not summed:
		    dist.init_process_group("gloo")
		    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.0005)  # several buckets
		    paceline.ddp_hook(model)
		optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
		all, fulls = [], []
		class Full(RuntimeError): pass
		def is_full(*_):
		    fulls.append(1)
		    raise Full("CUDA out of memory. Tried to allocate 2.00 GiB")
		def train(part):
		    """Its memory holds 100 rows, or 30 later; what is too much for it shows in either pass."""
		    too_many = len(part.rows) > (100 if batch.iteration < 7 else 30)
		    if too_many and len(fulls) % 2: is_full()
		    out = model(x[part.rows]).squeeze(1)
		    if too_many:  # the last layers have their gradients, the others have none yet
		        handle = getattr(model, "module", model)[0].weight.register_hook(is_full)
		    loss = ((out - y[part.rows]) ** 2).mean() * part.share
		    try: loss.backward()
		    finally:
		        if too_many: handle.remove()
		    return loss.detach()
		for batch in paceline.batches(state={"model": model}, collective=True, samples=len(y), sums=model if summed else None):
		    optimizer.zero_grad(set_to_none=batch.iteration % 3 == 2)
		    if full: loss = sum(batch.compute(train))
		    for part in [] if full else batch.parts():
		        with nullcontext() if world == 1 or summed or part.last else model.no_sync():
		            loss = ((model(x[part.rows]).squeeze(1) - y[part.rows]) ** 2).mean()
		            (loss * part.share).backward()
		    if summed: batch.sum(loss)
		    all.append([p.grad.clone() for p in model.parameters()])
		    assert world == 1 or summed or 0 < batch.waited
		    optimizer.step()
		    batch.loss = loss if loss == loss else None
		assert bool(fulls) == full
		if os.environ["RANK"] == "0": torch.save(all, sys.argv[1])
		if world > 1 and not summed: dist.destroy_process_group()
	END
}

# To start torch takes a second each time, so all ranks are forks of one process, which has it.
@test "torch: gradients of 2 and 3 ranks are those of one process, for 1, 7, 8, 500 samples and unequal shares" {
	need torch
	gradients
	$python - <<-'END'
		import os, runpy, sys, traceback, types, torch, torch.distributed, paceline_rehearse
		class Fork:  # what a rehearsal wants of subprocess.Popen
		    def __init__(self, command, env, pass_fds, start_new_session):
		        self.status, self.pid = None, os.fork()
		        if self.pid: return
		        os.setsid()
		        for fd in map(int, os.listdir("/proc/self/fd")):
		            if fd > 2 and fd not in pass_fds:
		                try: os.close(fd)
		                except OSError: pass  # of the directory itself
		        os.environ.clear()
		        os.environ.update(env)
		        del sys.modules["paceline"]
		        sys.argv = command
		        status = 1
		        try:
		            runpy.run_path(command[0], run_name="__main__")
		            status = 0
		        except BaseException: traceback.print_exc()
		        finally: os._exit(status)
		    def wait(self, timeout=None):
		        if self.status is None: self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
		        return self.status
		paceline_rehearse.subprocess = types.SimpleNamespace(Popen=Fork)
		def gradients(out, float, sizes, *options, how=()):
		    assert paceline_rehearse.main(["--samples", "1032", "--size", sizes, *options, "--", "gradients.py", out, float,
		                                   *how]) == 0
		    return torch.load(out)
		def same(one, other, near):
		    assert len(one) == len(other) > 1
		    far = max(((p - q).abs().max() / p.abs().max()).item() for a, b in zip(one, other) for p, q in zip(a, b))
		    assert far < near, far
		two = "1,0/4,3/4,4/250,250/0,1/6,1/8,0/499,1", "--ranks", "2"
		three = "1,0,0/3,2,2/3,3,2/167,167,166/0,0,1/0,6,1/1,0,7/3,400,97", "--ranks", "3"
		for float, near in ("float32", 1e-5), ("float64", 1e-13):
		    one = gradients("one", float, "1/7/8/500/1/7/8/500")
		    same(one, gradients("two", float, *two), near)
		    same(one, gradients("three", float, *three), near)
		    same(one, gradients("sums", float, *three, how=["summed"]), 1e-5)
		# In parts, whose gradients are summed: the ranks meet once a batch.
		same(one, gradients("parts", "float64", *two, "--accum", "2"), 1e-13)
		same(one, gradients("summed-parts", "float64", *two, "--accum", "2", how=["summed"]), 1e-5)
		# The memory is full, in the forward pass and in the backward pass, and again when it holds less.
		same(one, gradients("full-one", "float64", "1/7/8/500/1/7/8/500", how=["full"]), 1e-13)
		same(one, gradients("full-sums", "float64", *three, how=["summed", "full"]), 1e-5)
		same(one, gradients("full-ddp", "float64", *two, how=["full"]), 1e-13)
	END
}

@test "torch: sums with a scaler, an average of the model, two optimizers, parts, BatchNorm, a schedule: ranks alike" {
	need torch
	cat >many.py <<-'END'
		import hashlib, os, paceline, torch
		from torch import nn
		class Scaler: # what GradScaler does, which needs a card
		    scale, good = 65536.0, 0
		    def state_dict(self): return {"scale": self.scale, "good": self.good}
		    def load_state_dict(self, state): self.scale, self.good = state["scale"], state["good"]
		torch.manual_seed(int(os.environ["RANK"]))
		x = torch.randn(200, 6, generator=torch.Generator().manual_seed(1))
		y = (x.sum(1) > 0).float()
		model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0))
		first = torch.optim.Adam(model[:2].parameters(), lr=0.01)
		second = torch.optim.SGD(model[2:].parameters(), lr=0.1, momentum=0.9)
		mean, scaler = torch.optim.swa_utils.AveragedModel(model, avg_fn=lambda a, m, n: 0.9 * a + 0.1 * m), Scaler()
		state = {"model": model, "first": first, "second": second, "mean": mean, "scaler": scaler}
		batches = paceline.batches(state=state, sums=model, samples=200)
		state["schedule"] = schedule = torch.optim.lr_scheduler.OneCycleLR(second, max_lr=0.1, total_steps=batches.steps)
		for batch in batches:
		    first.zero_grad(), second.zero_grad()
		    model.train(batch.size != 1)
		    if batch.iteration % 2: batch.accum = 3
		    for part in batch.parts():
		        loss = nn.functional.binary_cross_entropy_with_logits(model(x[part.rows]), y[part.rows])
		        overflow = batch.iteration == 5 and batches.rank == 2
		        (loss * part.share * (float("inf") if overflow else scaler.scale)).backward()
		    batch.sum(loss)
		    for p in model.parameters(): p.grad /= scaler.scale
		    if all(p.grad.isfinite().all() for p in model.parameters()):
		        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
		        first.step(), second.step()
		        scaler.good += 1
		    else: scaler.scale /= 2
		    for _ in range(batch.steps): schedule.step()
		    mean.update_parameters(model)
		    if batch.iteration % 3 == 0: batches.save(model.state_dict(), "best.pt", min=float(loss))
		assert scaler.scale == 32768 and schedule.last_epoch == batches.steps, (scaler.scale, schedule.last_epoch)
		told = hashlib.md5()
		for p in [*model.parameters(), *mean.parameters()]:
		    assert p.isfinite().all()
		    told.update(p.detach().numpy().tobytes())
		os.write(1, b"alike %s\n" % told.hexdigest().encode())
	END
	rehearse --samples 200 --epochs 3 --size 10,1,5/20,0,9 --ranks 3 --save-every 4 --kill 1@7 --kill 0@12 -- $python many.py >out
	[ "$(grep -c '^alike ' out)" -eq 3 ]
	[ "$(grep '^alike ' out | sort -u | wc -l)" -eq 1 ]
}

@test "torch: gradients of few digits are summed as float" {
	need torch
	run -0 $python - <<-'END'
		import torch, torch.distributed as dist, paceline
		def all_reduce(tensor, **_):
		    assert tensor.dtype in (torch.int64, torch.float32), tensor.dtype
		    class Work:
		        def get_future(self):
		            future = torch.futures.Future()
		            future.set_result([tensor])
		            return future
		    return Work()
		dist.all_reduce = all_reduce
		class Bucket:
		    def __init__(self, type): self.tensor = torch.tensor([1.0, 200.0], dtype=type)
		    def buffer(self): return self.tensor
		    def index(self): return 0
		    def is_last(self): return False
		paceline._current = paceline.Batch(paceline.Batches(), 0, [], 1031)
		for type in torch.float16, torch.bfloat16, torch.float32:
		    mean = paceline._weigh(paceline._Hook(None), Bucket(type)).wait()
		    assert mean.dtype == type and mean.tolist() == [1.0, 200.0], mean
	END
}

@test "torch: summed gradients: no gradient, frozen, shared, few digits; what is refused" {
	need torch
	run -0 $python - <<-'END'
		import os, torch, paceline
		from torch import nn
		def kept(*tensors): return {"tensors": dict(enumerate(tensors))}
		def batch_of(model, samples=4):
		    state = kept(*model) if isinstance(model, list) else {"model": getattr(model, "module", model)}
		    batch = next(paceline.batches(state=state, sums=model, samples=samples, size=samples))
		    batch.rows
		    return batch
		def refused(words, run):
		    try: run()
		    except paceline.Error as error: assert words in str(error), error
		    else: raise AssertionError(words)
		# A parameter that gets no gradient keeps none, a frozen one has no place, a shared one has one.
		paceline._BUCKET = 8
		model = nn.ModuleDict({name: nn.Linear(3, 3) for name in ("a", "b", "frozen", "unused")})
		model["b"].weight = model["a"].weight
		model["frozen"].requires_grad_(False)
		model["few"] = nn.Linear(3, 1).bfloat16()
		def backward():
		    x = model["frozen"](model["b"](model["a"](torch.ones(4, 3))))
		    model["few"](x.bfloat16()).float().mean().backward()
		backward()
		plain = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
		source = paceline.batches(state={"model": model}, sums=model, samples=16, size=4)
		for batch in source:
		    batch.rows
		    model.zero_grad(set_to_none=batch.iteration % 2 == 0)
		    backward()
		    batch.sum()
		    assert batch.samples == 4 and model["unused"].weight.grad is None and model["frozen"].weight.grad is None
		    assert len(plain) == 5 and source._sums._early
		    for name in plain: torch.testing.assert_close(model.get_parameter(name).grad, plain[name])
		# A sum of halves may be too large for one.
		half = nn.Parameter(torch.zeros(2, dtype=torch.float16))
		half.grad = torch.full((2,), 100.0, dtype=torch.float16)
		source = iter(paceline.batches(state=kept(half), sums=[half], samples=6000, size=3000))
		batch = next(source)
		batch.rows
		batch.sum()
		assert half.grad.tolist() == [100, 100]
		batch = next(source) # of no rows: nothing is left of the one before
		batch.rows
		batch.size = 0
		batch.sum()
		assert half.grad.tolist() == [0, 0]
		# Clipping, or a second backward(): seen in the first batch, nothing is announced; later it is too late.
		def train(*changes):
		    weight = nn.Parameter(torch.ones(9))
		    source = paceline.batches(state=kept(weight), sums=[weight], samples=9, size=3)
		    for batch, change in zip(source, changes):
		        batch.rows
		        weight.grad = None
		        weight.sum().backward()
		        if change == "twice": weight.sum().backward()
		        if change == "scaled": weight.grad *= 2
		        if change == "replaced": weight.grad = torch.ones(9).mul_(2)
		        batch.sum()
		        assert weight.grad.tolist() == [2.0 if change else 1.0] * 9
		    return source._sums._early
		assert train("", "", "") is True and train("twice", "twice", "") is False and train("scaled", "", "") is False
		refused("gradients were changed between backward() and batch.sum()", lambda: train("", "twice"))
		refused("gradients were changed between backward() and batch.sum()", lambda: train("", "scaled"))
		refused("gradients were changed between backward() and batch.sum()", lambda: train("", "replaced"))
		# What can't be summed.
		table = nn.Embedding(5, 2, sparse=True)
		batch = batch_of(table)
		table(torch.tensor([1])).sum().backward()
		refused("parameter weight has a sparse gradient", batch.sum)
		batch = batch_of(model)
		model["frozen"].requires_grad_(True)
		refused("parameter frozen.weight was frozen when batches(sums=) was called", batch.sum)
		refused("parameter 0 is torch.complex64", lambda: batch_of([nn.Parameter(torch.zeros(1, dtype=torch.complex64))]))
		# A model, models, parameters, in any list, once each.
		some = nn.Linear(3, 2)
		for given, names in ((some, ["weight", "bias"]), ([some, some], ["0.weight", "0.bias"]), ([[some]], ["0.0.weight", "0.0.bias"]),
		                     (some.parameters(), ["0", "1"]), (some.weight, ["0"]), ((p for p in [some.bias]), ["0"])):
		    source = paceline.batches(state={"model": some}, sums=given, samples=4)
		    assert [name for name, _ in source._sums._all] == names, (given, names)
		    next(source)
		for wrong in "model", {"model": some}, [some, "bias"], 0.5:
		    refused("sums= takes a model of PyTorch, or a list of models", lambda: paceline.batches(state={}, sums=wrong, samples=4))
		class DistributedDataParallel:
		    module, process_group = model, type("Group", (), {"size": lambda self: 2})()
		assert len(list(batch_of(DistributedDataParallel()).parts())) == 1 # by hand
		os.environ.update(PACELINE_IN=str(os.pipe()[0]), PACELINE_OUT=str(os.pipe()[1]))
		refused("sums= takes the place of DistributedDataParallel", lambda: batch_of(DistributedDataParallel()))
	END
}

@test "torch: what is not in state=, and a sum in the wrong place, are told before anything is lost" {
	need torch
	cat >wrong.py <<-'END'
		import sys, torch, paceline
		from torch import nn
		model, other = nn.Linear(1, 2), nn.Linear(2, 1)
		optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()], 0.01)
		schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
		state = {"model": model, "other": other, "optimizer": optimizer, "schedule": schedule}
		class Copies:  # state_dict() of its own
		    def state_dict(self): return {"weights": [p.detach().clone() for p in model.parameters()]}
		    def load_state_dict(self, state): raise NotImplementedError
		exec(sys.argv[1])
		for batch in paceline.batches(state=state, sums=[model, other], samples=8, size=4):
		    optimizer.zero_grad()
		    loss = other(model(torch.ones(len(batch.rows), 1))).mean()
		    exec(sys.argv[2])
		print("trained", batch.iteration)
	END
	wrong() { run "$1" $python wrong.py "$2" "${3:-loss.backward(); batch.sum(loss); optimizer.step()}"; }
	wrong -0 ''
	[[ $output == *"trained 1" && $output != *"not in state"* ]]
	wrong -1 'del state["other"]'
	[[ $output == *"parameter 1.weight of sums= is not in state=, so a rank that joins would have another value of it"* ]]
	[[ $output != *trained* ]]
	wrong -1 'state["mean"] = torch.optim.swa_utils.AveragedModel(other); del state["other"]'
	[[ $output == *"parameter 1.weight of sums= is not in state="* ]]
	wrong -0 'state["model"] = Copies()'
	wrong -0 'del state["optimizer"], state["schedule"]'
	[[ $output == *"paceline: not in state=: Adam, StepLR. A process that joins"* ]]
	wrong -0 'state["all"] = dict(o=optimizer, s=schedule); del state["optimizer"], state["schedule"]'
	[[ $output == *"paceline: not in state=: Adam, StepLR. A"* ]]
	wrong -0 'state["s"] = torch.optim.lr_scheduler.ChainedScheduler([schedule]); del state["schedule"], state["optimizer"]'
	[[ $output == *"paceline: not in state=: Adam. A"* ]]
	wrong -1 '' 'loss.backward(); optimizer.step(); batch.sum(loss)'
	[[ $output == *"parameter 0.weight was changed between backward() and batch.sum(): optimizer.step() comes behind"* ]]
	wrong -1 '' 'batch.sum(loss); loss.backward(); optimizer.step()'
	[[ $output == *"iteration 0: backward() behind batch.sum(), so its gradients are not summed"* ]]
	# Parameters that are changed elsewhere.
	wrong -0 '' 'torch.no_grad().__enter__(); model.weight.clamp_(-9, 9); torch.enable_grad().__enter__()
loss = other(model(torch.ones(4, 1))).mean(); loss.backward(); batch.sum(loss); optimizer.step()'
}

@test "torch: ranks whose parameters part are told, and ranks that only round in other ways are not" {
	need torch
	cat >parts.py <<-'END'
		import os, sys, torch, paceline
		torch.manual_seed(int(os.environ["RANK"]))
		model = torch.nn.Linear(3, 3)
		optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
		state = {"model": model, "optimizer": optimizer}
		if sys.argv[1] == "lost": del state["optimizer"]
		for batch in paceline.batches(state=state, sums=model, samples=120):
		    optimizer.zero_grad()
		    model(torch.tensor(batch.rows or [0.0]).float().unsqueeze(1).expand(-1, 3) / 120).pow(2).mean().backward()
		    batch.sum()
		    optimizer.step()
		    if sys.argv[1] == "rounds" and os.environ["RANK"] == "1": model.weight.data *= 1 + 3e-7
	END
	parts() { rehearse --samples 120 --size 4,3,0/3,4,1 --ranks 3 --kill 1@5 -- $python parts.py "$1" >out 2>err; }
	parts whole
	not grep 'not those of the others' err
	parts rounds
	not grep 'not those of the others' err
	parts lost
	grep -q 'iteration [0-9]*: the parameters of this rank are not those of the others (they are 0.[0-9]* of their length apart)' err
}

@test "Loader: the loss of an epoch is that of all ranks, also in one that joins; patience ends the job" {
	need numpy
	loading
	cat >losses.py <<-'END'
		from loading import *
		import numpy
		loader, seen, best = paceline.Loader(DataLoader(Rows(), 8)), {}, None
		assert loader.batch_size == 8
		for epoch in loader.epochs(9, state={"seen": seen}, sums=1):
		    for rows in loader:
		        rows = loader.batch.rows
		        paceline.allreduce(numpy.ones(1), loader.batch, sum(rows) / len(rows) + epoch if rows else 7e9)
		    worse = max(0, epoch - 2)
		    assert abs(loader.loss - 24.5 - epoch) < 3, (epoch, loader.loss)
		    best = loader.save(epoch, "best", min=10 - epoch + 2 * worse, patience=3)
		os.write(1, b"ended %d %d %.4f\n" % (epoch, best, loader.loss))
	END
	rehearse --samples 50 --epochs 9 --size 4,3,0/3,4,1 --ranks 3 --kill 1@9 --kill 0@13 -- $python losses.py >out
	[ "$(grep -c '^ended' out)" -eq 3 ]
	grep -q '^ended 5 8 ' out
	[ "$(grep '^ended' out | sort -u | wc -l)" -eq 1 ]
	WORLD_SIZE=1 $python losses.py >out
	grep -q '^ended 5 8 ' out
	$python - <<-'END'  # without sums=: of this rank's rows, with the batch in hand
		from loading import *
		loader = paceline.Loader(DataLoader(Rows(), 8))
		for epoch in loader.epochs(2):
		    rows = []
		    for own in loader:
		        loader.batch.loss = sum(own) / len(own) + epoch
		        rows += own
		    assert abs(loader.loss - sum(rows) / len(rows) - epoch) < 1e-9
		try: loader.save(1, "x", patience=3)
		except paceline.Error as error: assert "min= or max=" in str(error)
		else: raise SystemExit("no error")
	END
}

@test "Loader: a process that begins when all is trained validates once more, and trains nothing" {
	loading
	cat >again.py <<-'END'
		from loading import *
		(a, b), (c, d) = os.pipe(), os.pipe()
		os.environ.update(PACELINE_IN=str(a), PACELINE_OUT=str(d), PACELINE_SAMPLES="50", PACELINE_EPOCHS="3", PACELINE_BATCH="8")
		schedule = Schedule()
		schedule.last = 21
		state = paceline._State({"schedule": schedule}).save(".")
		os.write(b, b"resume path=%s iteration=9\nok state=end\n" % state.encode() if sys.argv[1:] else b"ok state=end\n")
		loader, seen = paceline.Loader(DataLoader(Rows(), 8)), []
		for epoch in loader.epochs(3, state={"schedule": schedule}):
		    for rows in loader: raise SystemExit("a batch")
		    schedule.step()
		    seen.append(epoch)
		assert seen == ([2] if sys.argv[1:] else []) and schedule.last == 21, (seen, schedule.last)
	END
	sed -i '1s/$/, sys/' loading.py
	python3 again.py resumed
	python3 again.py
}

@test "torch: num_workers: rows are no files that stay open; readers end with their trainer" {
	need torch
	cat >readers.py <<-'END'
		import os, resource, sys, torch, paceline
		from torch.utils.data import DataLoader, Dataset
		resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
		class Rows(Dataset):
		    def __len__(self): return 300
		    def __getitem__(self, row): return torch.tensor([row]), torch.tensor(row).bfloat16(), row, os.getpid()
		loader = paceline.Loader(DataLoader(Rows(), 100, num_workers=2))
		for epoch in loader.epochs(1, state={}):
		    for x, few, rows, pids in loader:
		        assert x[:, 0].tolist() == rows.tolist() == loader.batch.rows and few.dtype == torch.bfloat16
		        x[0] = 5
		        with open("pids", "a") as file: print(*set(pids.tolist()), file=file)
	END
	$python readers.py
	rehearse --samples 300 --size 100 --save-every 1 --kill 0@1 -- $python readers.py >out
	grep -q ' restarts=1 ' out
	wait_for 'not kill -0 $(cat pids)'
}

points() { # ROWS
	awk -v rows="$1" 'BEGIN { srand(7); for (i = 0; i < rows; i++) { a = rand(); b = rand()
		print ((a + b * b + 0.3 * rand() > 1) ? 1 : 0) "," a "," b "," rand() } }' >rows.csv
}

@test "example: one process in PyTorch ends with the same bits, killed or not" {
	need torch
	points 400
	rehearse --samples 400 --size 50 --epochs 3 --shuffle -- $python "$EXAMPLES/torch-train.py" rows.csv one.pt
	rehearse --samples 400 --size 50 --epochs 3 --shuffle --save-every 4 --kill 0@6 --kill 0@17 -- \
		$python "$EXAMPLES/torch-train.py" rows.csv other.pt >out
	grep -q ' restarts=2 repeated=[1-9]' out
	$python -c 'import torch
a, b = torch.load("one.pt"), torch.load("other.pt")
assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)'
}

@test "example: DDP goes on after kill -9 of a rank and of rank 0, and ends where one process does" {
	need torch
	points 400
	rehearse --samples 400 --size 50 --epochs 3 --shuffle -- $python "$EXAMPLES/torch-train.py" rows.csv one.pt
	rehearse --samples 400 --size 20,5,25 --ranks 3 --epochs 3 --shuffle --save-every 4 --kill 1@6 --kill 0@17 -- \
		$python "$EXAMPLES/torch-ddp.py" rows.csv other.pt >out 2>err
	grep -q ' iterations=24 samples=1200 .* restarts=2 repeated=[1-9]' out
	$python -c 'import torch
a, b = torch.load("one.pt"), torch.load("other.pt")
assert a.keys() == b.keys() and all(torch.allclose(a[k], b[k], rtol=1e-4, atol=1e-5) for k in a)'
}

@test "example: sums of ranks that are killed and come back end where one process does" {
	need torch
	points 400
	rehearse --samples 360 --size 50 --epochs 3 --shuffle -- $python "$EXAMPLES/torch-sums.py" rows.csv one.pt
	# killed: when it has rows; while another one joins; while it writes its state for that one
	rehearse --samples 360 --size 20,5,25 --ranks 3 --epochs 3 --shuffle --save-every 4 --kill 1@6 --kill 0@8 \
		--kill 2@18 -- $python "$EXAMPLES/torch-sums.py" rows.csv other.pt >out 2>err
	grep -q ' samples=1080 .* restarts=3 repeated=0 ' out
	# Each epoch ends once in all ranks that are there then, with the same parameters.
	[ "$(grep '^epoch ' out | sort -u | cut -d: -f1 | xargs)" = "epoch 1 epoch 2 epoch 3" ]
	[ "$(grep -c '^epoch 3: ' out)" -eq 3 ]
	$python -c 'import torch
a, b = torch.load("one.pt"), torch.load("other.pt")
assert a.keys() == b.keys() and all(torch.allclose(a[k], b[k], rtol=0.1, atol=0.05) for k in a)'
}

@test "example: scikit-learn's partial_fit goes on after kill -9" {
	need sklearn
	points 400
	rehearse --samples 400 --size 50 --epochs 3 --save-every 4 --kill 0@6 -- \
		$python "$EXAMPLES/sklearn-train.py" rows.csv model.pickle >out
	grep -q ' restarts=1 repeated=[1-9]' out
	$python -c 'import pickle, numpy
data = numpy.loadtxt("rows.csv", delimiter=",")
assert pickle.load(open("model.pickle", "rb")).score(data[:, 1:], data[:, 0]) > 0.8'
}

@test "the difference in the page makes the example out of a common script, in as many lines as it says" {
	local name changed
	for name in torch-train torch-ddp torch-sums; do
		cp "$EXAMPLES/$name.py" .
		sed -n "/^--- $name.py/,/^\.Ed/{/^\.Ed/d;p}" "$PACELINE_ROOT/man/paceline-trainers.7" |
			sed 's/\\e/\\/g' >"$name.diff"
		patch -R "$name.py" "$name.diff"
		changed=$(diff -wB "$name.py" "$EXAMPLES/$name.py" | grep -c '^>.*[^ ]')
		[ "$changed" -ge "$(diff -wB "$name.py" "$EXAMPLES/$name.py" | grep -c '^<')" ]
		grep -q "^.Pa $name.py$" <(grep -B1 "^of the examples: $changed lines are changed or new.$" \
			"$PACELINE_ROOT/man/paceline-trainers.7")
		not grep -q '^[^ #"]*paceline' <(sed '1,/^import sys/d' "$name.py")
	done
	need torch
	points 100
	export RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000))
	for name in torch-train torch-ddp torch-sums; do
		$python "$name.py" rows.csv plain.pt
		[ -s plain.pt ]
		rm plain.pt
	done
}

@test "the examples run by hand" {
	need torch
	points 100
	$python "$EXAMPLES/torch-train.py" rows.csv a.pt
	RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)) \
		$python "$EXAMPLES/torch-ddp.py" rows.csv b.pt
	$python "$EXAMPLES/torch-sums.py" rows.csv c.pt
	$python -c 'import torch
a, b = torch.load("a.pt"), torch.load("b.pt")
assert all(torch.allclose(a[k], b[k], rtol=1e-4, atol=1e-6) for k in a)
assert torch.load("c.pt").keys() == a.keys()'
}

@test "torch: sums by hand: what torch.distributed has, from the parameters of rank 0" {
	need torch
	cat >hand.py <<-'END'
		import os, torch, torch.distributed as dist, paceline
		from torch import nn
		rank = int(os.environ["RANK"])
		dist.init_process_group("gloo", "file://" + os.path.abspath("meet"), rank=rank, world_size=3)
		torch.manual_seed(rank)
		model = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
		rows = 0
		for batch in paceline.batches(state={"model": model}, sums=model, samples=7, size=2):
		    x = torch.tensor(batch.rows, dtype=torch.float).unsqueeze(1)
		    model.zero_grad()
		    if batch.size: model(x).mean().backward()
		    batch.sum()
		    rows += batch.samples
		    for p in model.parameters(): p.data -= 0.1 * p.grad
		assert rows == 7
		torch.save([p.detach() for p in model.parameters()], "hand%d" % rank)
		dist.destroy_process_group()
	END
	for RANK in 0 1 2; do RANK=$RANK WORLD_SIZE=3 $python hand.py 2>err$RANK & done
	wait
	$python -c 'import torch
a, b, c = (torch.load("hand%d" % rank) for rank in range(3))
assert all(torch.equal(p, q) and torch.equal(p, r) for p, q, r in zip(a, b, c))'
}

# ---- jobs ----

# A trainer that counts the rows of all ranks, and stands still at iteration N until goN is there.
ddp_counter() {
	cat >ddp.py <<-'END'
		import os, sys, time, torch, torch.distributed as dist, paceline
		from torch import nn
		rank = int(os.environ["RANK"])
		x, y = torch.arange(300.0).unsqueeze(1) / 300, torch.arange(300.0) % 2
		dist.init_process_group("gloo")
		model = nn.Linear(1, 1)
		model.register_buffer("counts", torch.zeros(300))
		ddp = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
		paceline.ddp_hook(ddp)
		optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
		for batch in paceline.batches(state={"model": ddp, "optimizer": optimizer}, collective=True, samples=300):
		    open("at%d.%d" % (batch.iteration, rank), "w").close()
		    for at in 10, 20:
		        while batch.iteration == at and not os.path.exists("go%d" % at): time.sleep(0.01)
		    optimizer.zero_grad()
		    loss = ((ddp(x[batch.rows]).squeeze(1) - y[batch.rows]) ** 2).mean()
		    loss.backward()
		    optimizer.step()
		    counts = torch.zeros(300).index_add_(0, torch.tensor(batch.rows, dtype=torch.long), torch.ones(batch.size))
		    with batch.waiting(): dist.all_reduce(counts)
		    model.counts += counts
		    batch.loss = loss
		if rank == 0: torch.save(model.counts, "counts.pt")
		dist.destroy_process_group()
	END
}

@test "a job of DDP goes on by itself after kill -9 of a rank and of rank 0, and each row counts EPOCHS times" {
	need torch
	ddp_counter
	printf '%s\n' JOB=ddp SAMPLES=300 WORKERS=3 BATCH=30,shard:2 EPOCHS=4 SHUFFLE=samples SYNC=bsp \
		CHECKPOINT=0.05 "TRAINER='cd $T && exec $python ddp.py'" >job.env
	begin ddp
	wait_for '[ -e at10.0 ] && [ -e at10.1 ] && [ -e at10.2 ]'
	kill -9 "$(trainer_of w1)"
	touch go10
	wait_for '[ -e at20.0 ] && [ -e at20.1 ] && [ -e at20.2 ]'
	kill -9 "$(trainer_of w0)"
	touch go20
	ended "$SUPERVISOR"
	cat ddp.err
	[ "$status" = 0 ]
	grep -q '^summary job=ddp state=done .* samples=1200 ' ddp.out
	grep -Eq '^summary .* restarts=[2-9]' ddp.out # and samples again, unless a checkpoint was just made
	$python -c 'import torch
counts = torch.load("counts.pt")
assert (counts == 4).all(), counts'
}

@test "a job whose ranks' gradients are summed: kill -9 of a rank and of rank 0 takes nobody back" {
	need numpy
	counted
	sed -i '/^    here = /i\
    time.sleep(0.03)\
    dead = "dead%d" % batch.iteration\
    if (batch.iteration, os.environ["RANK"]) in ((5, "1"), (12, "0")) and not os.path.exists(dead):\
        open(dead, "w").close()\
        os.kill(os.getpid(), 9)' counted.py
	printf '%s\n' JOB=counted SAMPLES=100 WORKERS=3 BATCH=9 EPOCHS=3 SHUFFLE=samples SYNC=allreduce \
		CHECKPOINT=end "TRAINER='cd $T && exec $python counted.py 3'" >job.env
	begin counted
	ended "$SUPERVISOR"
	cat counted.err
	[ "$status" = 0 ]
	grep -q '^summary job=counted state=done .* samples=300 .* restarts=2 .* repeated=0 ' counted.out
	[ "$(cat run/state/logs/w*.log | grep -c '^rank [012] loaded [01]$')" -eq 3 ]
}

# bats test_tags=long
@test "a job of the script in the page: rank 0 killed where an epoch ends, one that joins: epochs, schedule, best file" {
	need torch
	points 1600
	sed 's/^    loss, accuracy = validate()/    import os, time\
    if epoch == 1 and loader.rank == 0 and not os.path.exists("dead"): open("dead", "w"), os.kill(os.getpid(), 9)\
    while epoch == 1 and not os.path.exists("go"): time.sleep(0.02)\
&\
    print("rate", epoch, schedule.last_epoch, schedule.get_last_lr()[0])/' "$EXAMPLES/torch-sums.py" >sums.py
	printf '%s\n' JOB=sums SAMPLES=1440 WORKERS=3 BATCH=50 EPOCHS=3 SHUFFLE=samples SYNC=allreduce \
		"TRAINER='exec $python sums.py rows.csv model.pt'" >job.env
	begin sums
	wait_for '[ -e dead ]'
	trainctl scale --workers 4 --run-dir "$T/run" >scaled & # it waits for an iteration
	local scales=$!
	wait_for 'grep -q "from 3 to 4 workers" sums.err'
	touch go
	wait "$scales"
	ended "$SUPERVISOR"
	cat sums.err
	[ "$status" -eq 0 ]
	grep -q '^summary job=sums state=done .* samples=4320 .* restarts=1 .* repeated=0 ' sums.out
	cat run/state/logs/w*.log | grep '^epoch' | sort -u >epochs
	[ "$(cut -d: -f1 epochs | xargs)" = "epoch 1 epoch 2 epoch 3" ]
	[ "$(grep -c '^epoch [12]:' run/state/logs/w1.log)" -eq 2 ]
	cat run/state/logs/w*.log | grep '^rate' | sort -u >rates
	[ "$(wc -l <rates)" -eq 3 ]
	[ "$(tail -1 rates | cut -d' ' -f2,3)" = "2 87" ]
	$python - "$(sed 's/.* value=\([^ ]*\) .*/\1/' run/state/saved | tail -1)" "$(sed 's/.*loss \([0-9.]*\).*/\1/' epochs | sort -g | head -1)" <<-'END'
		import re, sys, torch
		from torch import nn
		rows = torch.tensor([[float(value) for value in line.split(",")] for line in open("rows.csv")])[1440:]
		model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
		model.load_state_dict(torch.load("model.pt"))
		loss = nn.BCEWithLogitsLoss()(model(rows[:, 1:]).squeeze(1), rows[:, 0]).item()
		assert abs(loss - float(sys.argv[1])) < 1e-5 and abs(loss - float(sys.argv[2])) < 1e-3, (loss, sys.argv)
	END
}

@test "a job: what a rank's memory holds is found, told, and kept to by its next process" {
	need numpy
	cat >memory.py <<-'END'
		import os, sys, time, numpy, paceline
		rows, first = 200, os.environ["RANK"] == "0"
		model = {"w": numpy.zeros(rows, numpy.float32)}
		def gradient(part):
		    if first and len(part.rows) > 12: raise MemoryError
		    one = numpy.zeros(rows, numpy.float32)
		    one[part.rows] = 1
		    return one
		for batch in paceline.batches(state={"model": model}, sums=numpy.prod([rows])):
		    time.sleep(0.01)
		    parts = batch.compute(gradient) if batch.size else [model["w"]]
		    print("parts", len(parts), "of", batch.size, flush=True)
		    if first and batch.iteration > 7 and not os.path.exists("dead"):
		        open("dead", "w").close()
		        os.kill(os.getpid(), 9)
		    model["w"] += paceline.allreduce(sum(parts), batch, 0.5)
		assert (model["w"] == 6).all(), model
		print("exact", flush=True)
	END
	printf '%s\n' JOB=memory SAMPLES=200 WORKERS=2 BATCH=40 EPOCHS=6 SYNC=allreduce CHECKPOINT=end \
		"TRAINER='cd $T && exec $python memory.py'" >job.env
	begin memory
	ended "$SUPERVISOR"
	cat memory.err
	[ "$status" = 0 ]
	grep -q '^summary job=memory state=done .* samples=1200 .* restarts=1 .* repeated=0 ' memory.out
	[ "$(grep -c 'the memory is full: a batch is computed in parts of 10 rows at most' run/state/logs/w0.log)" -eq 1 ]
	[ "$(grep -c 'the memory of w0 is full: more than 10 rows are computed in parts' run/state/logs/w0.log)" -eq 1 ]
	[ "$(grep -c '^parts 2 of 20$' run/state/logs/w0.log)" -gt 7 ]
	[ "$(grep -c '^parts 1 of 20$' run/state/logs/w1.log)" -gt 7 ]
	[ "$(grep -c '^exact$' run/state/logs/w*.log | cut -d: -f2 | xargs)" = "1 1" ]
}

# Trainers of one's own that stand still or fail: who of them it was, and who has only waited.
load helper

# ranks_job [KEY=VALUE]...: three ranks, whose life is at.py; `once NAME` is true for the first life only.
ranks_job() {
	needs_python
	cat >ranks.py <<-'P'
		import os, sys, time
		import paceline
		rank, counts = int(os.environ["RANK"]), {"batches": 0}
		batches = paceline.batches(state={"counts": counts}, collective=True)
		def once(name):
		    try:
		        os.mkdir(name)
		        return True
		    except FileExistsError:
		        return False
		def until(name):
		    while not os.path.exists(name): time.sleep(0.05)
		for batch in batches:
		    exec(open("at.py").read())
		    counts["batches"] += 1
		    batch.loss = 1.0
	P
	printf '%s\n' JOB=ranks "TRAINER='cd $T; PYTHONPATH=$PACELINE_ROOT/scripts/python exec python3 ranks.py'" \
		SAMPLES=240 BATCH=12,shard:2 WORKERS=3 "$@" >job.env
	cat >at.py
}
# sums_job [KEY=VALUE]...: the same with gradients that the job sums (SYNC=allreduce); each row adds 1 to its cell, and
# one cell, here[240], is free.
sums_job() {
	local python
	for python in python3 /usr/bin/python3; do
		$python -c "import importlib.util as i, sys; sys.exit(not i.find_spec('numpy'))" 2>/dev/null && break
	done || skip "no python3-numpy"
	ranks_job SYNC=allreduce EPOCHS=2 "$@"
	sed -i "s|exec python3|exec $python|" job.env
	sed -i 's/^import paceline$/import numpy, paceline, signal/; s/"batches": 0/"cells": numpy.zeros(241)/
		s/collective=True/sums=241/; s/^    exec(.*/    time.sleep(0.02); here = numpy.zeros(241); numpy.add.at(here, batch.rows, 1)/
		s/^    counts.*/    exec(life)/; s/^    batch.loss.*/    counts["cells"] += paceline.allreduce(here, batch, 1.0)/
		s/^for batch in/life = compile(open("at.py").read(), "at.py", "exec")\n&/' ranks.py
	echo 'assert (counts["cells"][:240] == int(os.environ["PACELINE_EPOCHS"])).all(), counts' >>ranks.py
}
exact() {
	[ "$(last "$1" state)" = done ]
	[ "$(last "$1" samples)" = "${2:-240}" ]
}
hung() { grep -c "^event .* id=$1 kind=hung " run/state/job.log || true; }

@test "a pause is no hang, of the rank that pauses and of those that wait for it" {
	ranks_job HUNG=batch:2,exchange:2 <<-'P'
		if batch.iteration == 4 and rank == 0:
		    batch.done(1.0)
		    with batches.pause():
		        open("pauses", "w"); until("go")
		if batch.iteration == 5 and rank == 1: # as in a collective of which nobody knows
		    open("waits", "w"); until("go")
	P
	begin first
	wait_for '[ -e pauses ] && [ -e waits ]'
	sleep 6 # three times what a batch may take
	touch go
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	exact first.out
	[ "$(last first.out repeated)" = 0 ]
	not grep "no sign of life" first.err
}

@test "a pause that does not end is found by the seconds that it has named" {
	ranks_job <<-'P'
		if batch.iteration == 4 and rank == 2 and once("hangs"):
		    with batches.pause(seconds=2):
		        until("never")
	P
	run_job >out 2>err
	exact out
	grep -q 'w2 has given no sign of life for .* (section pause, at most 2 s by its own word): killed' err
	grep -q 'pause(seconds=7200), or HUNG=pause:7200' err
	[ "$(grep -c "no sign of life" err)" -eq 1 ]
}

@test "HUNG=pause: is the limit of every pause" {
	ranks_job HUNG=pause:2 <<-'P'
		if batch.iteration == 4 and rank == 2 and once("hangs"):
		    with batches.pause(seconds=5000):
		        until("never")
	P
	run_job >out 2>err
	exact out
	grep -q 'w2 has given no sign of life for .* (section pause, at most 2 s by HUNG): killed' err
}

@test "the rank that hangs is given up, with its stacks; those in a collective are not" {
	ranks_job HUNG=batch:4 BAD_HOSTS=avoid:600 <<-'P'
		def stuck():
		    until("never")
		if batch.iteration == 4 and os.path.exists("hangs") is False:
		    if rank == 1:
		        time.sleep(1); os.mkdir("hangs"); stuck()
		    with batch.waiting():
		        until("hangs"); until("never")
	P
	run_job >out 2>err
	exact out
	grep -q 'w1 has given no sign of life for .* (section batch, at most 4 s by HUNG): killed; it was \(S (sleeping)\|R (running)\)' err
	grep -q 'batches.pause()' err
	[ "$(hung w0) $(hung w1) $(hung w2)" = "0 1 0" ]
	grep -q 'the trainer of w1, as the kernel sees it:' run/state/logs/w1.log
	grep -q 'in stuck$' run/state/logs/w1.log
	grep -q 'in waiting$\|in <module>$' run/state/logs/w0.log
}

@test "all wait in a collective: one is given up, and nobody is blamed" {
	ranks_job HUNG=batch:4 <<-'P'
		if batch.iteration == 4 and not os.path.exists("go"):
		    with batch.waiting():
		        open("waits%d" % rank, "w"); until("never")
	P
	begin first
	wait_for '[ -e waits0 ] && [ -e waits1 ] && [ -e waits2 ]'
	touch go
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	exact first.out
	[ "$(grep -c "no sign of life" first.err)" -eq 1 ]
	grep -q 'is one of several trainers that stand still, and it is not known' first.err
}

@test "a trainer that is stopped is found in seconds, behind its shell and while it starts, too, and HUNG=never leaves it" {
	ranks_job <<-'P'
		import signal
		if batch.iteration == 4 and rank == 2 and once("stops"):
		    os.kill(os.getpid(), signal.SIGSTOP)
	P
	sed -i "s|exec python3 ranks.py|python3 ranks.py; exit \$?|" job.env
	sed -i 's/^for batch/if rank == 1 and once("starts"): os.kill(os.getpid(), 19)\n&/' ranks.py
	begin first
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	exact first.out
	grep -q 'w1 has given no sign of life for .* (section start, at most 10 s by HUNG): killed; it was T (stopped)' first.err
	grep -q 'w2 has given no sign of life for .* (section batch, at most 10 s by HUNG): killed; it was T (stopped)' first.err
	[ "$(grep -c "no sign of life" first.err)" -eq 2 ]
	rm -rf run stops
	begin never --set HUNG=never
	wait_for '[ -e stops ]'
	sleep 13 # longer than the ten seconds that it was given before
	not grep "no sign of life" never.err
	shell=$(cat /proc/$(pid_of w2)/task/*/children)
	kill -CONT $(cat /proc/${shell% }/task/*/children)
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
}

@test "the rank that fails first is told with its last words at the first try, and is the one in the end" {
	# The others see that its connections close, before it has ended: one aborts, one raises.
	ranks_job RESTARTS=rollbacks:1 <<-'P'
		if batch.iteration == 4:
		    if rank == 2:
		        try:
		            raise ValueError("row 17 has no label")
		        finally:
		            open("gone", "w"); import atexit; atexit.register(time.sleep, 0.3)
		    until("gone")
		    if rank == 0:
		        os.abort()
		    with batch.waiting():
		        raise RuntimeError("the other end has gone")
	P
	begin first
	wait_for 'grep -q "^failed-first " run/state/job.log'
	wait_for 'in_status "^job .* failure=w2:%20exit%20status%201 "'
	ended "$SUPERVISOR"
	[ "$status" -eq 1 ]
	[ "$(last first.out failed)" = w2 ]
	[ "$(last first.out state)" = failed ]
	[ "$(grep -c "w2 failed first: exit status 1" first.err)" -eq 2 ]
	not grep "w[01] failed first" first.err
	awk '/w2 failed first/ { told = 1 } told && /ValueError: row 17 has no label/ { found++; told = 0 } END { exit found != 2 }' first.err
	[ "$(grep -c 'ValueError: row 17 has no label' first.err)" -eq 2 ] # once each time: not those of its earlier life
	grep -q 'job fails: w2: exit status 1; that is rollback 2 in a row' first.err
}

@test "a rank that raises ends with 1, also where the end of the process would abort" {
	ranks_job RESTARTS=rollbacks:1 <<-'P'
		if batch.iteration == 4 and rank == 1:
		    import atexit, ctypes
		    libc = ctypes.CDLL(None)
		    assert libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None) == 0
		    atexit.register(lambda: open("said-goodbye", "w"))
		    raise ValueError("row 17 has no label")
	P
	run -1 run_job
	[[ $output == *"job fails: w1: exit status 1; "* ]]
	[[ $output != *Aborted* ]]
	[ -e said-goodbye ]
}

@test "a rank that is killed is told of, and those that end by it are not" {
	ranks_job <<-'P'
		import signal
		if batch.iteration == 4 and not os.path.exists("killed"):
		    if rank == 1:
		        os.mkdir("killed"); os.kill(os.getpid(), signal.SIGKILL)
		    until("killed"); os.abort()
	P
	run_job >out 2>err
	exact out
	grep -q 'w1 failed first: signal 9 (Killed)' err
	[ "$(grep -c " failed first: " err)" -eq 1 ]
}

@test "sums: each culprit is named once with what it did and where; those that wait in the sum, and for a replica, are told as such" {
	sums_job EPOCHS=4 HUNG=batch:3 <<-'P'
		def raises(): raise ValueError("row 17 has no label")
		def crashes():
		    import ctypes
		    ctypes.string_at(0)
		def stuck(): until("never")
		if batch.size and rank == 2 and once("nan"): here[240] = float("nan")
		if batch.iteration >= 4 and rank == 1 and once("raised"): raises()
		if batch.iteration >= 6 and rank == 2 and once("crashed"): crashes()
		back = os.path.exists
		if rank > 0 and back("crashed"): open("back%d" % rank, "w")
		if rank == 0 and not back("hangs"): time.sleep(0.2) # so that they are back before all is trained
		if rank == 0 and back("back1") and back("back2") and once("hangs"): stuck()
		if batch.iteration >= 16 and rank == 1 and back("hangs") and not back("go"): open("waits", "w"); until("go")
	P
	begin first
	wait_for '[ -e hangs ]'
	wait_for 'in_status "^node role=worker id=w[12] .* why=waits%20for%20w0%20in%20the%20sum%20of%20iteration%20[1-9]"'
	wait_for '[ -e waits ]'
	kill -STOP "$(pid_of r0)"
	touch go
	wait_for 'in_status "^job .* why=r0,%20which%20is%20stopped,%20has%20not%20answered%20for"'
	wait_for 'grep -q "^waits .*iteration [0-9]* stands still: r0, which is stopped, has not answered for" run/state/job.log'
	kill -CONT "$(pid_of r0)"
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	exact first.out 960
	[ "$(last first.out repeated)" = 0 ]
	not grep -q '^rollback ' run/state/job.log
	[ "$(grep -c '^trainctl: w1: exit status 1: ValueError: row 17 has no label, in raises (at.py:1); starts again' first.err)" -eq 1 ]
	[ "$(grep -c '^trainctl:   ValueError: row 17 has no label' first.err)" -eq 1 ]
	grep -q '^trainctl: w2: signal 11 (Segmentation fault): in crashes (at.py:4); starts again' first.err
	grep -q 'w0 has given no sign of life .* killed; it was .* in until (ranks.py:[0-9]*); in the sum of iteration [0-9]* w[12], w[12] waited for it' first.err
	[ "$(grep -c 'trainctl: iteration [0-9]*: w2: float 245 of its gradient is nan; its log may name the parameter' first.err)" -ge 1 ]
	[ "$(grep -l 'paceline: iteration [0-9]*: float 240 of the gradient is nan in this rank' run/state/logs/w?.log)" = run/state/logs/w2.log ]
	[ "$(hung w0) $(hung w1) $(hung w2)" = "1 0 0" ]
	trainctl report --text --state-dir run/state | tr -s ' \n' ' ' >told
	grep -q 'w1 ended with status 1: ValueError: row 17 has no label, in raises (at.py:1); ready again after' told
	grep -q 'w0 gave no sign of life and was killed: it was in until (ranks.py:[0-9]*)' told
	grep -q 'iteration [0-9]* stood still for .*: r0, which is stopped, has not answered for' told
}

@test "sums: a rank that the kernel kills for want of memory is told with that, and one that a person kills is not" {
	local memory limit
	memory=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup) limit=memory.limit_in_bytes
	[ -d "$memory" ] || memory=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup) limit=memory.max
	memory=${memory%/}/paceline-guilty-$$
	mkdir "$memory" 2>/dev/null && [ -w "$memory/$limit" ] && echo 150000000 >"$memory/$limit" || skip "no control group of memory here"
	sums_job <<-'P'
		gone, dies = globals().get("dies"), os.path.exists("dies") # an iteration later its agent has gone, too
		if gone and rank == 1 and once("eats"):
		    open(os.environ["GROUP"] + "/cgroup.procs", "w").write(str(os.getpid()))
		    numpy.ones(200000000)
		if batch.iteration >= 3 and rank == 2 and once("dies"): os.kill(os.getpid(), signal.SIGKILL)
	P
	GROUP=$memory run_job >out 2>err
	rmdir "$memory"
	exact out 480
	grep -q "w1: signal 9 (Killed): perhaps killed for want of memory: this machine's kernel has killed [1-9][0-9]* process" err
	grep -q 'w2: signal 9 (Killed); starts again' err
	[ "$(last out repeated)" = 0 ]
}

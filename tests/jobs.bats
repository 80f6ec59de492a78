load helper

# What a user asks about jobs, and how they are found: check, list, status of one that is over, wait,
# logs, -j; the names in a job file; INCLUDE; what MAX_TIME and EVAL patience ended goes on.

running() { status 2>/dev/null | grep -q '^job .* goal='; }
asleep() { [[ $(ps -o stat= -p "$1") == S* ]]; }

# stopped [KEY=VALUE]...: a job that was stopped on its way.
stopped() {
	job MODEL=audit EPOCHS=50 "$@"
	slow 500
	begin first
	wait_for 'came_to 100'
	trainctl stop --run-dir "$T/run" >/dev/null
	ended $SUPERVISOR
	rm drag/*
}

# ---- the names in a job file ----

@test "names in a job file are seen from its directory, wherever the job is started" {
	job TEST=t.csv DRAG=later EPOCHS=2
	sed -i 's/^DATA=.*/DATA=d.csv/' job.env
	cp d.csv t.csv
	mkdir elsewhere
	cd elsewhere
	run -0 trainctl run ../job.env --run-dir "$T/run"
	grep -qx "DATA=$T/d.csv" ../run/state/job.env
	grep -qx "TEST=$T/t.csv" ../run/state/job.env
	grep -qx "DRAG=$T/later" ../run/state/job.env
	# From anywhere it is the same job.
	run -0 trainctl run "$T/job.env" --run-dir "$T/run"
	[[ $output == *"has been finished"* ]]
	cd ..
	run -0 trainctl run job.env --run-dir "$T/run"
	ln -s "$T" "$T/elsewhere/link"
	run -0 trainctl run elsewhere/link/job.env --run-dir "$T/run"
	[[ $output == *"has been finished"* ]]
}

@test "a name that is only in the current directory is that one; one in both is said" {
	mkdir jobs
	job EPOCHS=2
	sed 's/^DATA=.*/DATA=d.csv/' job.env >jobs/job.env
	run -0 trainctl run jobs/job.env --run-dir "$T/run"
	grep -qx "DATA=$T/d.csv" run/state/job.env
	# What the job began with is what it goes on with, though another one has come.
	echo y,a,b >jobs/d.csv
	run -0 trainctl run jobs/job.env --run-dir "$T/run"
	[[ $output == *"has been finished"* ]]
	# A new job has to say which. A link to the same file is the same file.
	run -78 trainctl run jobs/job.env --run-dir "$T/run2"
	[[ $output == *"jobs/job.env:2: DATA: d.csv is $T/jobs/d.csv, beside the job file, and $T/d.csv, in the current directory"* ]]
	[ ! -e run2 ]
	run -78 trainctl run jobs/job.env --run-dir "$T/run" --fresh
	ln -sf ../d.csv jobs/d.csv
	run -0 trainctl check jobs/job.env --run-dir "$T/run2"
	rm jobs/d.csv d.csv
	run -66 trainctl check jobs/job.env --run-dir "$T/run2"
	[[ $output == *"jobs/job.env:2: DATA: there is neither $T/jobs/d.csv, beside the job file, nor $T/d.csv, in the current directory"* ]]
}

@test "names of --set are seen from the current directory, an executable SOLUTION is a name, too" {
	mkdir jobs
	job EPOCHS=2 SOLUTION=mine
	mv job.env jobs
	printf '#!/bin/sh\n' >jobs/mine
	chmod +x jobs/mine
	sed -i 's/^DATA=.*/DATA=none.csv/' jobs/job.env
	echo y,a,b >jobs/d.csv
	run -0 trainctl run jobs/job.env --run-dir "$T/run" --set DATA=d.csv
	grep -qx "DATA=$T/d.csv" run/state/job.env
	grep -q "^SOLUTION=filter:$T/jobs/mine," run/state/job.env
	run -78 trainctl check jobs/job.env --run-dir "$T/run2" --set DATA=d.csv --set SOLUTION=yours
	[[ $output == *"'yours' is no solution"* ]]
}

# ---- INCLUDE ----

@test "INCLUDE: another file in the place of the line, later lines win, the state has one file" {
	mkdir base
	job EPOCHS=2 CHECKPOINT=keep:4
	{ grep -v '^DATA=' job.env; echo DATA=../d.csv; } >base/base.env
	printf '%s\n' '# a comment' CHECKPOINT=keep:9 INCLUDE=base/base.env EPOCHS=1 >job.env
	run -0 run_job
	grep -q '^CHECKPOINT=.*,keep:4,' run/state/job.env
	grep -qx EPOCHS=1 run/state/job.env
	grep -qx "DATA=$T/base/../d.csv" run/state/job.env
	not grep -q INCLUDE run/state/job.env
	# For sh it is a variable like others.
	run -0 sh -c '. ./job.env; echo $INCLUDE $EPOCHS'
	[ "$output" = "base/base.env 1" ]
	echo EPOCHS=0 >>base/base.env
	run -78 run_job
	[[ $output == "trainctl: base/base.env:"*": EPOCHS: "* ]]
	sed -i '$d' base/base.env
	run -64 run_job --set INCLUDE=base/base.env
	[[ $output == *"INCLUDE is for job files only"* ]]
}

@test "INCLUDE: cycles and missing files are named with their line" {
	job
	echo INCLUDE=a.env >>job.env
	printf 'CHECKPOINT=keep:2\nINCLUDE=b.env\n' >a.env
	printf '\n\nINCLUDE=job.env\n' >b.env
	run -78 run_job
	[[ $output == *"b.env:3: INCLUDE: job.env is being read already"* ]]
	ln job.env same.env
	echo INCLUDE=same.env >b.env
	run -78 run_job
	echo INCLUDE=c.env >b.env
	run -66 run_job
	[[ $output == *"b.env:1: c.env: "* ]]
	mkdir c.env
	run run_job
	[ "$status" -ne 0 ]
	[[ $output == *"b.env:1: c.env: "* ]]
	for i in $(seq 20); do echo "INCLUDE=d$((i + 1)).env" >"d$i.env"; done
	echo INCLUDE=d1.env >b.env
	run -78 run_job
	[[ $output == *"more than 16 files deep"* ]]
	mkfifo pipe
	echo INCLUDE=pipe >b.env
	run -66 run_job
	[[ $output == *"b.env:1: pipe: is a pipe; a file is needed"* ]]
	for endless in /dev/zero "$T/long"; do
		head -c 3000000 /dev/zero | tr '\0' '#' >long
		echo INCLUDE=$endless >b.env
		run -65 run_job
		[[ $output == *"$endless: is longer than 2097152 bytes"* ]]
	done
	[ ! -e run ]
}

# ---- MAX_TIME and EVAL patience ----

@test "a job that MAX_TIME ended goes on where it was when there is more of it" {
	job MODEL=audit EPOCHS=20 MAX_TIME=0.5
	slow 1000
	run -0 run_job
	[[ $output == *"MAX_TIME=0.5 ended this job after "*" s; \`trainctl run\` with a greater MAX_TIME, or never, continues the job"* ]]
	local first
	first=$(tail -n 1 <<<"$output")
	[[ $first == *" state=done "*" ended=max-time exit=0 at="*" checkpoint="* ]]
	[ "$(field samples <<<"$first")" -lt 40000 ]
	# As long as there is no more of it, it is done.
	run -0 run_job
	[[ $output == *"has been finished"*"MAX_TIME=0.5 ended this job"* ]]
	[ "$(tail -n 1 <<<"$output")" = "$first" ]
	run -0 run_job --set MAX_TIME=0.4
	[ "$(tail -n 1 <<<"$output")" = "$first" ]
	run -78 run_job --set MAX_TIME=never --set EPOCHS=2
	[ "$(cat run/state/summary)" = "$first" ]
	rm drag/*
	run -0 run_job --set MAX_TIME=never
	[[ $output == *"the job goes on"* ]]
	[ "$(tail -n 1 <<<"$output" | field samples)" = 40000 ]
	not grep -q ended= <<<"$output"
	exact "$(tail -n 1 <<<"$output" | field checkpoint)" 2000 20
	run -0 run_job --set MAX_TIME=1
	[[ $output == *"has been finished"* ]]
}

@test "a job that MAX_TIME ended under an earlier version goes on as well" {
	job MODEL=audit EPOCHS=20 MAX_TIME=0.5
	slow 1000
	run -0 run_job
	sed -i 's/ ended=.* checkpoint=/ checkpoint=/' run/state/summary
	run -0 run_job
	[[ $output == *"MAX_TIME or EVAL patience ended this job"* ]]
	rm drag/*
	run -0 run_job --set MAX_TIME=1000
	[ "$(tail -n 1 <<<"$output" | field samples)" = 40000 ]
}

@test "a job that EVAL patience ended goes on with more of it, or none" {
	job TEST=d.csv EVAL=0.2,patience:1 EPOCHS=1000 OPTIMIZER=lr:1e-30
	slow 2000
	run -0 run_job
	local last
	last=$(tail -n 1 <<<"$output")
	[[ $last == *" ended=patience exit=0 at="*" checkpoint="* ]]
	[[ $output == *"EVAL=patience:1 ended this job; \`trainctl run\` with a greater EVAL patience, or never, continues the job"* ]]
	run -0 run_job --set MAX_TIME=0.1
	[ "$(tail -n 1 <<<"$output")" = "$last" ]
	run -0 run_job --set EVAL=patience:2
	[[ $output == *"the job goes on"* ]]
	[ "$(tail -n 1 <<<"$output" | field samples)" -gt "$(field samples <<<"$last")" ]
	run -0 run_job --set EVAL=patience:never --set MAX_TIME=0.1
	[[ $(tail -n 1 <<<"$output") == *" ended=max-time "* ]]
}

# ---- one that runs, one that is over ----

@test "a second trainctl says which one runs the job, and what to do" {
	job EPOCHS=10
	slow 100
	begin first
	wait_for running
	run -75 run_job
	[[ $output == "trainctl: job tiny runs already, since "*": pid $SUPERVISOR runs it; \`trainctl status --run-dir $T/run\` shows it, \`trainctl stop --run-dir $T/run\` stops it" ]]
	run -75 trainctl check job.env --run-dir "$T/run"
	[[ $output == *"pid $SUPERVISOR runs it"* ]]
	run -75 trainctl run job.env --run-dir "$T/run" --state-dir other
	[[ $output == "trainctl: $T/run: a job with another state directory runs here; "*"another --run-dir" ]]
	kill -9 $SUPERVISOR
	ended $SUPERVISOR
	# A pid that another process has by now is nobody's.
	sed -i "s/ pid=[0-9]* / pid=$$ /" run/state/lock
	run -0 trainctl check job.env --run-dir "$T/run"
	[[ $output == "check job=tiny start=adopt "* ]]
	rm drag/*
	run -0 run_job
}

@test "-j finds a job wherever its state and its sockets are" {
	job EPOCHS=10
	slow 100
	begin first
	wait_for running
	run -0 trainctl status -j tiny
	[[ $output == *" state-dir=$T/run/state"* ]]
	run -0 trainctl checkpoint -j tiny
	run -0 trainctl report -j tiny
	[[ $output == *"report job=tiny "* ]]
	run -0 ckpt latest -j tiny
	[[ $output == "$T/run/state/checkpoints/"* ]]
	run -0 trainctl stop -j tiny
	ended $SUPERVISOR
	start second trainctl run job.env --run-dir "$T/run" --state-dir "$T/state" --set EPOCHS=9
	SUPERVISOR=$PID
	wait_for running
	# Of two the one that runs; of two that do not, none.
	run -0 trainctl status -j tiny
	[[ $output == *" state-dir=$T/state"* ]]
	run -0 trainctl logs --run-dir "$T/run"
	rm drag/*
	ended $SUPERVISOR
	run -64 trainctl status -j tiny
	[[ $output == *"several jobs tiny"*"$T/run/state, $T/state"* ]]
	rm -r run/state
	run -1 trainctl status -j tiny
	[[ $output == "ended name=tiny state=done "*" state-dir=$T/state"* ]]
	rm -r state
	run -66 trainctl status -j tiny
	[[ $output == "trainctl: no job tiny: "*"trainctl status"* ]]
	# Links to jobs that are gone go with the next one.
	run -0 trainctl run job.env --run-dir "$T/run3" --set EPOCHS=1
	[ "$(ls home/paceline/+jobs | wc -l)" -eq 1 ]
}

@test "status of a job that is over, or was left: how it ended, when, its summary" {
	job EPOCHS=2
	run -0 run_job
	run -1 status
	[[ ${lines[0]} == "ended name=tiny state=done since="*" samples-done=4000 samples=4000 exit=0 "* ]]
	[ "${lines[1]}" = "$(cat run/state/summary)" ]
	[ "$(field since <<<"${lines[0]}")" = "$(field at <run/state/summary)" ]
	run -69 trainctl stop --run-dir run
	[[ $output == "trainctl: job tiny does not run: it is done ("*"; \`trainctl status --run-dir $T/run\` says more" ]]
	run -1 trainctl top -j tiny
	[[ ${lines[1]} == "summary job=tiny state=done "* ]]
	# The same in words
	run -0 script -qc 'trainctl status --run-dir run; true' /dev/null
	[[ $output == *"tiny: done in "*"ended      20"*", 100% of its samples, exit status 0"*"state      $T/run/state"* ]]
	# Failed
	run -78 run_job --fresh --set LAUNCH_WORKER='exit 78; '
	run -1 status
	[[ ${lines[0]} == "ended name=tiny state=failed "*" exit=78 "* ]]
	[[ ${lines[1]} == "summary job=tiny state=failed "*" failed=w"* ]]
	# Left by its trainctl
	job EPOCHS=10
	slow 100
	begin first --fresh
	wait_for 'came_to 100'
	kill -9 $SUPERVISOR
	ended $SUPERVISOR
	run -1 status
	[[ $output == "ended name=tiny state=crashed since="*" node="* ]]
	not grep -q ^summary <<<"$output"
	rm drag/*
	run -0 run_job
}

@test "a job that does not answer yet: its data are prepared" {
	# As a trainctl leaves it that has just begun: this shell is one
	mkdir -p run/state
	printf 'holder job=tiny pid=%s start=%s boot=%s at=1000000000\n' $$ \
		"$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20)" \
		"$(cat /proc/sys/kernel/random/boot_id)" >run/state/lock
	run -1 status
	[[ $output == "preparing name=tiny state=preparing since=1000000000.000000 "*" pid=$$ "* ]]
	run -75 trainctl stop --run-dir run
	[[ $output == "trainctl: job tiny does not answer: pid $$ runs it since "* ]]
	run -75 trainctl wait --run-dir run --timeout 0.1
	[ "$output" = "trainctl: job tiny still runs" ]
	# Of another boot it is nobody.
	sed -i 's/ boot=/ boot=x/' run/state/lock
	run -66 trainctl stop --run-dir run
}

@test "status without a job: all jobs, as records and as columns" {
	run -0 trainctl status
	[ "$output" = "" ]
	run -0 script -qc 'trainctl status' /dev/null
	[[ $output == *"no jobs yet"* ]]
	job EPOCHS=2
	run -0 run_job
	run -0 trainctl run job.env --set JOB=usual-$$ --set EPOCHS=1 --run-dir "$T/u" --state-dir "$T/home/paceline/usual-$$"
	job JOB=slow EPOCHS=10
	slow 100
	start third trainctl run job.env --run-dir "$T/run3"
	SUPERVISOR=$PID
	wait_for 'trainctl status --run-dir "$T/run3" 2>/dev/null | grep -q goal='
	run -0 trainctl status
	[ "${#lines[@]}" -eq 3 ]
	[[ ${lines[0]} == "job name=slow state=running since="*" pid=$SUPERVISOR run-dir=$T/run3 state-dir=$T/run3/state" ]]
	[[ ${lines[1]} == "job name=tiny state=done since="*" samples-done=4000 samples=4000 exit=0 run-dir=$T/run state-dir=$T/run/state" ]]
	[[ ${lines[2]} == "job name=usual-$$ state=done "*" state-dir=$T/home/paceline/usual-$$" ]]
	run -0 script -qc 'stty cols 200; TERM=dumb trainctl status' /dev/null
	[[ ${lines[0]} == "JOB "*STATE*DONE*SINCE*"STATE DIRECTORY"* ]]
	[[ ${lines[2]} =~ ^tiny\ +done\ +100%\ +[0-9:-]+\ +$T/run/state ]]
	run -64 trainctl status tiny
	run -64 trainctl list
	[[ $output == 'trainctl: unknown command '\''list'\''; `trainctl status` does that'* ]]
	rm drag/*
	ended $SUPERVISOR
}

@test "without a home nobody can be told of jobs, and a name leads nowhere" {
	run -78 env -u XDG_STATE_HOME -u HOME trainctl status
	[[ $output == *"neither XDG_STATE_HOME nor HOME, so your jobs can't be found" ]]
	local command
	for command in status stop wait logs top report; do
		run -78 env -u XDG_STATE_HOME -u HOME trainctl $command -j tiny
		[[ $output == "trainctl: the environment has neither XDG_STATE_HOME nor HOME"*"--run-dir DIR" ]]
	done
	job EPOCHS=2
	run -0 env -u XDG_STATE_HOME -u HOME trainctl run job.env --run-dir "$T/run"
	run -0 env -u XDG_STATE_HOME -u HOME trainctl wait --run-dir run
}

# ---- wait ----

@test "wait: until the job ends, with its summary and its exit status" {
	run -66 trainctl wait -j tiny
	job EPOCHS=10
	slow 100
	begin first
	wait_for running
	run -75 trainctl wait -j tiny --timeout 0.1
	[[ $output == "trainctl: job tiny still runs" ]]
	start waiting trainctl wait -j tiny
	local waits=$PID
	wait_for "asleep $waits"
	trainctl stop -j tiny >/dev/null
	ended $waits
	[ "$status" -eq 75 ]
	[[ $(cat waiting.out) == "summary job=tiny state=stopped "*" exit=75 at="* ]]
	ended $SUPERVISOR
	begin second
	wait_for running
	start waiting trainctl wait --run-dir run
	waits=$PID
	wait_for "asleep $waits"
	kill -9 $SUPERVISOR
	ended $waits
	[ "$status" -eq 75 ]
	grep -q "job tiny: its trainctl was killed, or the machine went down, and its nodes still run; " waiting.err
	rm drag/*
	begin third
	ended $SUPERVISOR
	run -0 trainctl wait -j tiny
	[ "$output" = "$(cat run/state/summary)" ]
	run -78 run_job --fresh --set LAUNCH_WORKER='exit 78; '
	run -78 trainctl wait -j tiny
}

# ---- logs ----

@test "logs: of a job, of a node, the last lines; a node that has none is named with those that have" {
	job EPOCHS=2
	run -0 run_job
	run -0 trainctl logs -j tiny
	[ "$output" = "$(cat run/state/job.log)" ]
	run -0 trainctl logs w1 -j tiny
	[ "$output" = "$(cat run/state/logs/w1.log)" ]
	run -0 trainctl logs -j tiny -n 2
	[ "$output" = "$(tail -n 2 run/state/job.log)" ]
	run -0 trainctl logs -n 1000000 -j tiny
	[ "$output" = "$(cat run/state/job.log)" ]
	echo before >run/state/logs/w1.log.1
	run -0 trainctl logs -j tiny w1
	[ "$output" = "$(cat run/state/logs/w1.log.1 run/state/logs/w1.log)" ]
	run -66 trainctl logs -j tiny w9
	[[ $output == *"logs/w9.log: there is no log of w9; there are: "*w0* ]]
	run -64 trainctl logs -j tiny ../job
	[[ $output == *"'../job' is no node's id"* ]]
	run -64 trainctl logs -j tiny w0 w1
}

@test "logs -f: follows a log that is moved aside or cut, and ends with the job" {
	job EPOCHS=10
	slow 100
	begin first
	wait_for running
	local log=run/state/logs/w0.log
	printf '%s\n' one two >>$log
	start job trainctl logs -f -j tiny
	local of_job=$PID
	start node trainctl logs -f -n 1 w0 -j tiny
	local of_node=$PID
	wait_for 'grep -q two node.out'
	# As lib/run/logs.c cuts what a node goes on writing to
	echo three >>$log
	cp $log $log.1
	truncate -s 0 $log
	echo four >>$log
	wait_for 'grep -q four node.out'
	# As it renames at a launch
	echo five >>$log
	mv $log $log.1
	echo six >$log
	wait_for 'grep -q six node.out'
	[ "$(head -n 5 node.out | tr '\n' ' ')" = "two three four five six " ]
	rm drag/*
	ended $of_job
	[ "$status" -eq 0 ]
	ended $of_node
	[ "$status" -eq 0 ]
	ended $SUPERVISOR
	[ "$(tail -n 1 job.out)" = "$(cat run/state/summary)" ]
	run -0 trainctl logs -f -n 1 -j tiny
	[ "$output" = "$(cat run/state/summary)" ]
}

# ---- check ----

# as_run OPTION...: check says what run would say, with the same status, and makes nothing.
as_run() {
	local said code
	find . "$TMPDIR" | sort >before
	run trainctl check job.env --run-dir "$T/run" "$@"
	said=$output
	code=$status
	find . "$TMPDIR" | sort >after
	rm -f before
	diff <(grep -v '/before$' after | grep -v '/after$') <(find . "$TMPDIR" | sort | grep -v '/after$')
	run run_job "$@"
	[ "$code" -eq "$status" ]
	[ "$said" = "$output" ]
	rm -rf run
}

@test "check says what run would say, with its status, and makes nothing" {
	export TMPDIR=$T/tmp
	mkdir tmp
	job TEST=d.csv
	as_run --set LABEL=z
	as_run --set DENSE=q
	as_run --set DATA="$T/none.csv"
	as_run --set TEST="$T/none.csv"
	as_run --set POSITIVE=7
	as_run --set BATCH=0
	as_run --set SOLUTION=mine
	as_run --set PREDICT_FROM="$T/tmp"
	as_run --set WORKERS=100
	sed '7s/,.*,/,oops,/' d.csv >bad.csv
	as_run --set DATA="$T/bad.csv"
	as_run --set "MODEL=wdl,hidden:$(seq -s- 100)"
	echo JOB= >>job.env
	as_run
}

@test "check: what the job will do, and nothing changes" {
	export TMPDIR=$T/tmp
	mkdir tmp
	everything() { find run home tmp -type f -exec sha256sum {} + 2>/dev/null | sort; }
	job TEST=d.csv EPOCHS=3
	run -0 trainctl check job.env --run-dir "$T/run"
	[[ $output == "check job=tiny start=begin rows=2000 bad-rows=0 samples-done=0 samples=6000 dense=1 sparse=1 model=lr parameters="*" run-dir=$T/run state-dir=$T/run/state"* ]]
	[ ! -e run ]
	run -0 script -qc "trainctl check job.env --run-dir '$T/run'" /dev/null
	[[ $output == *"tiny: run would begin it"*"$T/d.csv  (2000 rows)"*"3 epochs of 2000 rows, about 94 batches of 64"* ]]
	stopped TEST=d.csv MODEL=lr
	everything >before
	run -0 trainctl check job.env --run-dir "$T/run"
	[[ $output == "check job=tiny start=go-on "* ]]
	run -0 trainctl check job.env --run-dir "$T/run" --fresh --set EPOCHS=1
	[[ $output == "check job=tiny start=start-over "* ]]
	run -78 trainctl check job.env --run-dir "$T/run" --set EPOCHS=1
	[ "$output" = "trainctl: $T/run/state: holds the state of this job with another EPOCHS (50, not 1): with the old value it goes on; --fresh starts over" ]
	touch d.csv
	run -0 trainctl check job.env --run-dir "$T/run"
	everything | diff before -
	[ -z "$(ls tmp)" ]
	run -0 run_job
	everything >before
	run -0 trainctl check job.env --run-dir "$T/run"
	[ "$(tail -n 1 <<<"$output")" = "$(cat run/state/summary)" ]
	everything | diff before -
	# Another job answers at its sockets.
	mkdir taken
	socat UNIX-LISTEN:taken/ps1.sock,fork /dev/null 3>&- &
	PIDS+=($!)
	wait_for 'socat -u /dev/null UNIX-CONNECT:taken/ps1.sock' # it is there a moment before it listens
	run -75 trainctl check job.env --run-dir "$T/taken"
	[[ $output == *"$T/taken/ps1.sock: a process answers here already"* ]]
	[ "$(id -u)" = 0 ] || chmod 500 tmp
	[ "$(id -u)" = 0 ] || run -73 trainctl check job.env --run-dir "$T/tmp/run"
	chmod 700 tmp
}

@test "check: more workers than this machine has cores are told, unless somebody paces them" {
	local cores
	cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
	job BATCH=1000 WORKERS=$((cores + 1))
	run -0 --separate-stderr trainctl check job.env --run-dir "$T/run"
	[[ $stderr == "trainctl: WORKERS: $((cores + 1)) workers share the $cores core"*" of this machine: "* ]]
	run -0 --separate-stderr trainctl check job.env --run-dir "$T/run" --set WORKERS="$cores"
	[ -z "$stderr" ]
	mkdir drag
	run -0 --separate-stderr trainctl check job.env --run-dir "$T/run" --set DRAG="$T/drag"
	[ -z "$stderr" ]
}

# ---- options ----

@test "a short option name that could be another one is refused, and makes nothing" {
	job
	run -64 run_job --st LABEL=x
	[[ $output == "trainctl: --st could be --set, --state-dir: write it in full"* ]]
	run -64 run_job --sate-dir x
	[[ $output == "trainctl: unknown option --sate-dir; the nearest is --state-dir"* ]]
	run -64 trainctl stats
	[[ $output == "trainctl: unknown command 'stats'; the nearest is status"* ]]
	run -64 ckpt lst
	[[ $output == "ckpt: unknown command 'lst'; the nearest is list"* ]]
	run -64 plrec fromtsv x
	[[ $output == "plrec: unknown command 'fromtsv'; the nearest is from-tsv"* ]]
	[ -z "$(ls -d run LABEL=x 2>/dev/null)" ]
}

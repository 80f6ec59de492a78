# trainctl: its words, a job from its file to its summary, and what it tells on the way. More of it in
# deaths.bats, decisions.bats, restarts.bats.
load helper

# ---- words ----

@test "help, version, usage" {
	run trainctl --help
	[ "$status" -eq 0 ]
	[[ $output == usage:* ]]
	run trainctl --version
	[ "$status" -eq 0 ]
	[[ $output == "trainctl "* ]]
	for command in run check wait logs status stop checkpoint kill-restart scale apply top report solve; do
		run trainctl $command --help
		[ "$status" -eq 0 ]
		[[ $output == "usage: trainctl $command"* ]]
	done
	run trainctl run --help
	[[ $output == *"batch          30 s"* ]]
	run trainctl
	[ "$status" -eq 64 ]
	run trainctl dance
	[ "$status" -eq 64 ]
	[[ $output == *"'dance'"* ]]
	run trainctl run
	[ "$status" -eq 64 ]
	run trainctl run a b
	[ "$status" -eq 64 ]
	run -64 trainctl top
	run -66 trainctl status --run-dir "$T/nothing"
	[[ $output == "trainctl: no job: there is no state of it in $T/nothing/state; "* ]]
}

@test "apply: what is too long is not sent" {
	head -c 1048577 /dev/zero >actions
	run trainctl apply --run-dir "$T/nothing" <actions
	[ "$status" -eq 65 ]
	[ "$output" = "trainctl: stdin: too long: more than 1048576 bytes of actions" ]
	head -c 1048576 actions >most
	run -66 trainctl apply --run-dir "$T/nothing" <most
}

@test "a job file that is wrong is refused with its line" {
	run trainctl run nothing.env --run-dir run
	[ "$status" -eq 66 ]
	[[ $output == *nothing.env* ]]
	printf 'JOB=x\nWORKER=2\n' >job.env
	run run_job
	[ "$status" -eq 78 ]
	[[ $output == *"job.env:2: unknown key WORKER; the nearest is WORKERS"* ]]
	printf 'JOB=x\n\nDATA=a b\n' >job.env
	run run_job
	[ "$status" -eq 78 ]
	[[ $output == *job.env:3:* ]]
	printf 'JOB=x\nBATCH=0' >job.env
	run run_job
	[ "$status" -eq 78 ]
	[[ $output == *job.env:2*BATCH* ]]
	job
	run run_job --set SOLUTION=antdt
	[ "$status" -eq 78 ]
	[[ $output == *"'antdt' is no solution"* ]]
	mkdir antdt
	run run_job --set SOLUTION=antdt
	[ "$status" -eq 78 ]
	[[ $output == *"'antdt' is no solution"* ]]
	run run_job --set HUNG=batch:5,sleep:3
	[ "$status" -eq 78 ]
	[[ $output == *"HUNG: 'sleep:3' is not NAME:VALUE with one of its parts deadline, start, batch, exchange, checkpoint, hand-over, pause"* ]]
	run run_job --set HUNG=soon
	[ "$status" -eq 78 ]
	[[ $output == *"HUNG: 'soon' is neither seconds nor never"* ]]
	run run_job --set BATCHS=3
	[ "$status" -eq 78 ]
	[[ $output == *"the nearest is BATCH"* ]]
	run run_job --set BATCH
	[ "$status" -eq 64 ]
	[ ! -e run ]
}

@test "data that are wrong are refused with their place, and nothing is started" {
	job
	run run_job --set DATA="$T/nothing.csv"
	[ "$status" -eq 66 ]
	[[ $output == *nothing.csv* ]]
	: >d.csv
	run run_job
	[ "$status" -eq 65 ]
	printf 'y,a\n1,2\n' >d.csv
	run run_job
	[ "$status" -eq 65 ]
	[[ $output == *d.csv:1*b* ]]
	printf 'y,a,b\n1,2,x\n0,z,x\n' >d.csv
	run run_job
	[ "$status" -eq 65 ]
	[[ $output == *d.csv:3:* ]]
	[ -z "$(ls run/state/nodes)" ]
}

# ---- a run ----

@test "a job from its file to its summary" {
	job TEST=d.csv EPOCHS=3 POSITIVE=1
	begin first --set SEED=5 --rows 1000
	wait $SUPERVISOR
	last=$(summary first.out)
	[[ $last == "summary job=tiny state=done jct="* ]]
	[ "$(echo "$last" | field samples)" = 6000 ]
	[ "$(echo "$last" | field shards-done)" = 24 ]
	[ "$(echo "$last" | field held)" = 0 ]
	awk -v auc="$(echo "$last" | field auc)" 'BEGIN { exit !(auc > 0.8) }'
	[ -n "$(echo "$last" | field logloss)" ]
	path=$(echo "$last" | field checkpoint)
	[[ $path == "$T"/run/state/checkpoints/* ]]
	ckpt verify "$path"
	# early rows, as records
	grep -q '^row iteration=1 epoch=1 epochs=3 loss=0.69' first.out
	for i in 2 4 8 16 32; do grep -q "^row iteration=$i " first.out; done
	# everything ended, and by itself
	[ "$(grep -c '^end status=0' run/state/nodes/*.0 | grep -c ':1$')" = 6 ]
	not is_kept intent
	# done is done
	run run_job --set SEED=5
	[ "$status" -eq 0 ]
	[[ $output == *"$last"* ]]
	run run_job --fresh
	[ "$status" -eq 0 ]
	[[ $output == *state=done* ]]
}

@test "the resolved job is a job file for sh, too" {
	job "POSITIVE='it is >50K'" BAD_ROWS=classes:any 'LAUNCH_WORKER="nice -n \"1\""'
	run run_job
	[ "$status" -eq 0 ]
	(
		. run/state/job.env
		[ "$POSITIVE" = "it is >50K" ]
		[ "$LAUNCH_WORKER" = 'nice -n "1"' ]
		[ "$OPTIMIZER" = name:adagrad,lr:0.05,l2:0,schedule:constant,beta:0,factor:auto,warmup:0,decay:0,clip:never ]
	)
	cp run/state/job.env again.env
	run trainctl run again.env --run-dir "$T/run2" --set JOB=tiny
	[ "$status" -eq 0 ]
	cmp run/state/job.env run2/state/job.env
}

@test "directories: RUNTIME_DIRECTORY and STATE_DIRECTORY, XDG, --state-dir" {
	data 100
	job
	RUNTIME_DIRECTORY=$T/r:other STATE_DIRECTORY=$T/s run trainctl run job.env
	[ "$status" -eq 0 ]
	[ -e s/summary ]
	[ -d r ]
	name=tiny-$$-$RANDOM
	run trainctl run job.env --set JOB=$name
	[ "$status" -eq 0 ]
	[ -e home/paceline/$name/summary ]
	[ "$(cat home/paceline/$name/run-dir)" = "/tmp/paceline-$(id -u)/$name" ]
	rm -r "/tmp/paceline-$(id -u)/$name"
	run run_job --state-dir "$T/elsewhere"
	[ "$status" -eq 0 ]
	[ -e elsewhere/summary ]
	run trainctl run job.env --run-dir "$T/$(printf 'a%.0s' $(seq 100))"
	[ "$status" -eq 78 ]
	[[ $output == *"too long for a socket"* ]]
}

# ---- one that runs ----

ledger_rows() { awk '{ sub(/.* length=/, ""); n += $0 } END { print n + 0 }'; }
@test "status, checkpoint, a second instance, stop, and on" {
	job MODEL=audit EPOCHS=10
	slow 500
	begin first
	wait_for 'came_to 200'
	status >nodes
	[ "$(grep -c '^node ' nodes)" -eq 6 ]
	wait_for "in_status '^node role=worker id=w1 state=up pid=[1-9][0-9]* restarts=0'"
	[ "$(grep '^job ' nodes | field samples)" = 20000 ]
	trainctl ledger --run-dir "$T/run" >ledger
	[ "$(ledger_rows <ledger)" -ge 200 ]
	run trainctl checkpoint --run-dir "$T/run"
	[ "$status" -eq 0 ]
	[[ $output == "ok path=$T/run/state/checkpoints/"* ]]
	ckpt verify "$(echo "$output" | field path)"
	run ckpt latest run/state/checkpoints
	[ "$status" -eq 0 ]
	run run_job
	[ "$status" -eq 75 ]
	[[ $output == *"job tiny runs already"*"pid $SUPERVISOR runs it"* ]]
	run run_job --fresh
	[ "$status" -eq 75 ]
	run trainctl stop --run-dir "$T/run"
	[ "$status" -eq 0 ]
	[[ $output == "ok checkpoint=$T"* ]]
	local code=0
	wait $SUPERVISOR || code=$?
	[ $code -eq 75 ]
	[[ $(summary first.out) == "summary job=tiny state=stopped"* ]]
	stopped_at=$(summary first.out | field samples)
	[ "$stopped_at" -lt 20000 ]
	[ "$(trainctl ledger --run-dir "$T/run" | ledger_rows)" = "$stopped_at" ]
	rm drag/*
	run run_job
	[ "$status" -eq 0 ]
	echo "$output" >second.out
	[ "$(summary second.out | field samples)" = 20000 ]
	exact "$(summary second.out | field checkpoint)" 2000 10
	trainctl ledger --run-dir "$T/run" >ledger
	seq -f 'rows epoch=%g begin=0 length=2000' 0 9 | diff - ledger
	[[ $(trainctl report --run-dir "$T/run" | tail -n 1) == *" runs=2 "*" restarts=0 "* ]]
}

# OpenBLAS starts threads when it is loaded, and waits for them whenever its process forks: for ever
# where address space is short.
@test "the supervisor and the parents of its nodes don't load OpenBLAS" {
	job
	slow 50
	begin first
	wait_for "in_status '^node .* id=w1 state=up'"
	status | grep '^node ' >nodes
	[ "$(wc -l <nodes)" -eq 6 ]
	for pid in $SUPERVISOR $(record_pids nodes | cut -d' ' -f1); do
		grep -q libc.so /proc/$pid/maps
		not grep -q openblas /proc/$pid/maps
	done
}

@test "SIGINT: a checkpoint, then 130; the second one: at once" {
	job MODEL=audit EPOCHS=5
	slow 400
	begin first
	wait_for 'came_to 200'
	kill -INT $SUPERVISOR
	local code=0
	wait $SUPERVISOR || code=$?
	[ $code -eq 130 ]
	[[ $(summary first.out) == *state=stopped* ]]
	local before
	before=$(logged 'phase name=winding')
	begin second
	wait_for 'running && [ -n "$(pid_of w0)" ]'
	kill -STOP "$(pid_of w0)" # or the first signal might do
	kill -TERM $SUPERVISOR
	wait_for '[ "$(logged "phase name=winding")" -gt '"$before"' ]'
	kill -TERM $SUPERVISOR
	code=0
	wait $SUPERVISOR || code=$?
	[ $code -eq 143 ]
	rm drag/*
	run run_job
	[ "$status" -eq 0 ]
	exact "$(echo "$output" | tail -n 1 | field checkpoint)" 2000 5
}

@test "state of another job is refused, free keys are not" {
	job MAX_TIME=0.1
	run run_job
	[ "$status" -eq 0 ]
	run run_job --set SEED=3
	[ "$status" -eq 78 ]
	[[ $output == *"another SEED (1, not 3); --fresh starts over"* ]]
	run run_job --set CHECKPOINT=keep:5 --set WORKERS=3 --set MAX_TIME=never
	[ "$status" -eq 0 ]
}

@test "hostile lines on trainctl.sock are answered" {
	job EPOCHS=500
	slow 400
	begin first
	wait_for running
	run ask run/trainctl.sock 'nonsense' 'kill' 'kill id=w9' 'status x' 'help'
	[[ $output == *"err code=unknown-request"* ]]
	[[ $output == *"err code=unknown-node"* ]]
	[[ $output == *"verb name=checkpoint"* ]]
	head -c 5000 /dev/zero | tr '\0' x | socat -t 2 - UNIX-CONNECT:run/trainctl.sock >/dev/null || true
	running
}

# ---- course ----

@test "checkpoints come and old ones go" {
	job CHECKPOINT=0.2,keep:2 EPOCHS=10
	slow 100
	begin first
	wait_for '[ "$(logged "^pruned ")" -ge 3 ]'
	[ "$(ls run/state/checkpoints | wc -l)" -le 3 ]
	rm drag/*
	wait $SUPERVISOR
}

@test "MAX_TIME ends a job as it is" {
	job MAX_TIME=1.5 TEST=d.csv
	slow 300
	run run_job
	[ "$status" -eq 0 ]
	last=$(echo "$output" | tail -n 1)
	[[ $last == *state=done* ]]
	[ "$(echo "$last" | field samples)" -lt 2000 ]
	[ -n "$(echo "$last" | field auc)" ]
}

@test "EVAL scores on the way, EVAL patience ends it" {
	job TEST=d.csv EVAL=0.3,patience:2 EPOCHS=1000 OPTIMIZER=lr:1e-30
	slow 2000
	run run_job
	[ "$status" -eq 0 ]
	[ "$(grep -c '^score ' run/state/job.log)" -ge 3 ]
	grep -q 'EVAL patience' run/state/job.log
	[[ $(echo "$output" | tail -n 1) == *state=done* ]]
}

@test "SOLUTION=even decides, the log can be replayed" {
	job SOLUTION=even,every:0.3 MONITOR=short:1 EPOCHS=10
	slow 100
	begin first
	wait_for '[ "$(logged "^decided ")" -ge 3 ]'
	rm drag/*
	wait $SUPERVISOR
	grep -q '^decision solution=even' run/state/job.log
	run trainctl solve --log run/state/job.log
	[ "$status" -eq 0 ]
	[ "$(grep -c '^action ' <<<"$output")" -eq "$(grep -c '^action ' run/state/job.log)" ]
	run trainctl solve --log run/state/job.log none
	[ "$status" -eq 0 ]
	[[ $output == *"action kind=none"* ]]
}

@test "SOLUTION: an executable; its actions reach the workers; one that fails is skipped" {
	cat >solution <<-'S'
		#!/bin/sh
		echo "$@" >>solution.args
		cat >solution.tmp && mv solution.tmp solution.in
		[ -e fail ] && exit 3
		echo 'action kind=adjust-bs id=w0 size=50 accum=1'
		echo 'action kind=adjust-bs id=w1 size=14 accum=1'
		[ -e restart ] && rm restart && echo 'action kind=kill-restart role=worker id=w1 reason=slow'
		exit 0
	S
	chmod +x solution
	job SOLUTION=./solution,every:0.3 MODEL=audit EPOCHS=10
	slow 100
	begin first
	wait_for '[ "$(logged "^decided ")" -ge 2 ]'
	grep -qx 'batch=64 lambda=1.3 pending=60 sync=bsp limit=3 cmax=5 least=1' solution.args
	grep -q '^job at=' solution.in
	wait_for 'in_status "^node .* id=w0 .* size=50 "'
	touch fail
	wait_for "grep -q 'exit status 3; skipped' first.err"
	rm fail
	old=$(pid_of w1)
	touch restart
	wait_for '[ -n "$(pid_of w1)" ] && [ "$(pid_of w1)" != '"$old"' ]'
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 10
}

# ---- filters ----

snapshot() {
	echo 'job at=1 iter=1 workers=2 servers=0 short=1 long=2'
	for w in w0 w1; do
		echo "node role=worker id=$w state=up size=10 short= long= speed-short= speed-long= ratio-short= ratio-long= samples=1 restarts=0 up=1"
	done
}

@test "replay: a solution that hangs is killed, and said; one that talks is cut short" {
	snapshot_log() { echo 'decision solution=x at=1'; snapshot; echo 'decided at=2'; }
	snapshot_log >job.log
	printf '#!/bin/sh\nsleep 300 & sleep 300\n' >hangs
	chmod +x hangs
	run -1 timeout 300 trainctl solve --log job.log ./hangs
	[[ $output == *"solution ./hangs: no answer in 10 s"* ]]
	printf '%s\n' '#!/bin/sh' 'yes words | head -c 100000 >&2' >talks
	chmod +x talks
	run -0 --separate-stderr timeout 300 trainctl solve --log job.log ./talks
	[[ $stderr == "trainctl: solution talks: words"* ]]
	[[ $stderr == *"trainctl: solution talks: its further lines on standard error are left out" ]]
}

@test "info name=pending that is no number: a warning with its place" {
	run -0 --separate-stderr trainctl solve antdt-nd < <(snapshot; echo 'info name=note value=x'
		echo 'info name=pending value=ten%20minutes')
	[ "$stderr" = "trainctl: stdin:5: info name=pending: 'ten minutes' is not a number, and counts as unknown" ]
	[[ $output == "action "* ]]
	run -0 --separate-stderr trainctl solve antdt-nd < <(snapshot; echo 'info name=pending value=70')
	[ -z "$stderr" ]
	for i in 1 2 3; do
		echo "decision solution=antdt-nd at=$i"
		snapshot
		echo "info name=pending value=$([ $i = 3 ] && echo y || echo x)"
		echo 'decided actions=0'
	done >job.log
	run -0 --separate-stderr trainctl solve --log job.log
	[ "$stderr" = "trainctl: job.log:5: info name=pending: 'x' is not a number, and counts as unknown
trainctl: job.log:17: info name=pending: 'y' is not a number, and counts as unknown" ]
	# in a job: once
	job SOLUTION=antdt-nd,every:0.2 EPOCHS=5
	slow 100
	begin first
	wait_for running
	wait_for 'ask run/bpt-monitor.sock "info name=pending value=soon" | grep -q ^ok'
	wait_for 'grep -q "info name=pending: .soon. is not a number" first.err'
	local before
	before=$(logged '^decided ')
	wait_for '[ "$(logged "^decided ")" -ge $((before + 3)) ]'
	rm drag/*
	wait $SUPERVISOR
	[ "$(grep -c 'not a number' first.err)" -eq 1 ]
}

@test "solve: built-in, executable, bad input" {
	run trainctl solve even -o batch=7 < <(snapshot)
	[ "$status" -eq 0 ]
	[ "$(sed 's/ reason=.*//' <<<"$output")" = "action kind=adjust-bs id=w0 size=4 accum=1
action kind=adjust-bs id=w1 size=3 accum=1" ]
	printf '#!/bin/sh\necho "$1" >args\ncat\n' >mine
	chmod +x mine
	run trainctl solve ./mine -o a=b < <(snapshot)
	[ "$status" -eq 0 ]
	[ "$output" = "$(snapshot)" ]
	[ "$(cat args)" = a=b ]
	run trainctl solve nobody </dev/null
	[ "$status" -eq 64 ]
	[[ $output == *nobody* ]]
	run trainctl solve even -o batch=x < <(snapshot)
	[ "$status" -eq 64 ]
	run trainctl solve even < <(snapshot; echo 'node role=worker id=w2 state=dancing')
	[ "$status" -eq 65 ]
	[[ $output == *stdin:4* ]]
	run trainctl solve even < <(snapshot | head -c 100)
	[ "$status" -eq 65 ]
	printf '#!/bin/sh\nsleep 1000 &\nwait\n' >mine
	{ echo 'decision solution=none batch=7 at=1'; snapshot; echo 'decided actions=0 at=1'; } >asked
	run trainctl solve --log asked ./mine
	[ "$status" -eq 1 ]
	[[ $output == *"asked:"*"./mine: no answer in 10 s"* ]]
	run trainctl solve --log job.log
	[ "$status" -eq 66 ]
	echo 'phase name=running' >job.log
	run trainctl solve --log job.log
	[ "$status" -eq 1 ]
}

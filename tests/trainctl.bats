load helper

logged() { grep -c "$1" run/state/job.log 2>/dev/null || true; }
# strike ID: kill -9, as soon as it runs.
strike() {
	wait_for '[ -n "$(pid_of '"$1"')" ]'
	kill -9 "$(pid_of "$1")"
}
running() { status 2>/dev/null | grep -q '^job .* state=running'; }
gone() { ! kill -0 "$1" 2>/dev/null; }
summary() { tail -n 1 "$1"; }

# ---- words ----

@test "help, version, usage" {
	run trainctl --help
	[ "$status" -eq 0 ]
	[[ $output == usage:* ]]
	run trainctl --version
	[ "$status" -eq 0 ]
	[[ $output == "trainctl "* ]]
	for command in run check list wait logs status stop checkpoint kill-restart scale apply top report solve replay; do
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
	run trainctl status
	[ "$status" -eq 64 ]
	run trainctl status --run-dir "$T/nothing"
	[ "$status" -eq 69 ]
}

@test "apply: what is too long is not sent" {
	head -c 1048577 /dev/zero >actions
	run trainctl apply --run-dir "$T/nothing" <actions
	[ "$status" -eq 65 ]
	[ "$output" = "trainctl: stdin: too long: more than 1048576 bytes of actions" ]
	head -c 1048576 actions >most
	run trainctl apply --run-dir "$T/nothing" <most
	[ "$status" -eq 69 ]
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
	[[ $output == *"HUNG: 'sleep:3' is none of start, batch, exchange, checkpoint, hand-over"* ]]
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
	begin first --set SEED=5 --report-every 1000
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
	[ ! -e run/state/intent ]
	# done is done
	run run_job --set SEED=5
	[ "$status" -eq 0 ]
	[[ $output == *"$last"* ]]
	run run_job --fresh
	[ "$status" -eq 0 ]
	[[ $output == *state=done* ]]
}

@test "the resolved job is a job file for sh, too" {
	job "POSITIVE='it is >50K'" CLASSES=any 'LAUNCH_WORKER="nice -n \"1\""'
	run run_job
	[ "$status" -eq 0 ]
	(
		. run/state/job.env
		[ "$POSITIVE" = "it is >50K" ]
		[ "$LAUNCH_WORKER" = 'nice -n "1"' ]
		[ "$OPTIMIZER" = adagrad ]
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

@test "status, checkpoint, a second instance, stop, and on" {
	job MODEL=audit EPOCHS=10
	slow 500
	begin first
	wait_for 'came_to 200'
	status >nodes
	[ "$(grep -c '^node ' nodes)" -eq 6 ]
	wait_for "status | grep -q '^node role=worker id=w1 state=up pid=[1-9][0-9]* restarts=0'"
	[ "$(grep '^job ' nodes | field samples)" = 20000 ]
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
	rm drag/*
	run run_job
	[ "$status" -eq 0 ]
	echo "$output" >second.out
	[ "$(summary second.out | field samples)" = 20000 ]
	exact "$(summary second.out | field checkpoint)" 2000 10
	[[ $(trainctl report --run-dir "$T/run" | tail -n 1) == *" runs=2 "*" restarts=0 "* ]]
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
	run run_job --set BATCH=32
	[ "$status" -eq 78 ]
	[[ $output == *"another BATCH (64, not 32); --fresh starts over"* ]]
	run run_job --set KEEP=5 --set WORKERS=3 --set MAX_TIME=0
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

# ---- deaths ----

@test "an unretryable end: last words and log first, then the summary, with its status" {
	job "LAUNCH_WORKER='sh -c \"echo I am doomed >&2; exit 65\"'"
	local code=0
	trainctl run job.env --run-dir "$T/run" >both.out 2>&1 || code=$?
	[ $code -eq 65 ]
	words=$(grep -n 'I am doomed' both.out | head -n 1 | cut -d: -f1)
	log=$(grep -n "$T/run/state/logs/w[01].log" both.out | head -n 1 | cut -d: -f1)
	last=$(grep -n '^summary job=tiny state=failed .* failed=w[01] status=65$' both.out | cut -d: -f1)
	[ "$words" -lt "$log" ]
	[ "$log" -lt "$last" ]
	[ "$last" -eq "$(wc -l <both.out)" ]
	[ "$(grep -c '^end' run/state/nodes/*.0 | grep -vc ':1$')" -eq 0 ]
	# mended, it goes on; also where an earlier version let more stand in a template
	sed -i 's/I am doomed/I am %doomed/' run/state/job.env
	grep -q '^LAUNCH_WORKER=.*%doomed' run/state/job.env
	run run_job --set LAUNCH_WORKER=
	[ "$status" -eq 0 ]
}

@test "a death by SIGSEGV stops the job with 139" {
	job "LAUNCH_SERVER='sh -c \"kill -SEGV \$\$\"'"
	run run_job
	[ "$status" -eq 139 ]
	[[ $output == *" failed=ps"[01]" signal=11" ]]
}

@test "RESTARTS in a row, then the job fails" {
	job RESTARTS=3 "LAUNCH_WORKER='sh -c \"echo not today >&2; exit 75\"'"
	run run_job
	[ "$status" -eq 75 ]
	[[ $output == *"not today"* ]]
	[[ $output == *"state=failed"* ]]
	[ "$(ls run/state/nodes/ | grep -c '^w0\.[0-9]')" -eq 4 ] || [ "$(ls run/state/nodes/ | grep -c '^w1\.[0-9]')" -eq 4 ]
}

@test "RESTARTS: a node that never comes to work is not well because it took long to end" {
	job RESTARTS=1 "LAUNCH_WORKER='sh -c \"sleep 11; exit 75\" x'"
	run run_job
	[ "$status" -eq 75 ]
	[[ $output == *"exit status 75, 2 times in a row (RESTARTS)"* ]]
	[[ $output == *"state=failed"* ]]
}

@test "ROLLBACKS: a job that only ever goes back ends, and says so" {
	job ROLLBACKS=1 EPOCHS=1000 CHECKPOINT_EVERY=0 "LAUNCH_SERVER='timeout -s KILL 14'"
	slow 100
	run run_job
	[ "$status" -eq 137 ]
	[[ $output == *"rollback 2 in a row without a checkpoint that goes further (ROLLBACKS)"* ]]
	[[ $output == *"state=failed"*" failed=ps"[01]" "* ]]
}

@test "ROLLBACKS: servers that end together make one rollback" {
	job RESTARTS=1 ROLLBACKS=1 EPOCHS=4 SERVERS=4
	slow 400
	begin first
	wait_for 'came_to 300'
	kill -9 $(for i in 0 1 2 3; do pid_of ps$i; done)
	wait_for '[ "$(logged "^rollback ")" -eq 1 ]'
	rm drag/*
	wait $SUPERVISOR
	summary first.out | grep -q ' state=done '
}

@test "a stopped worker is given up, and killed with a word in its log; the job goes on: exact" {
	job MODEL=audit EPOCHS=4 HUNG=2 SOLUTION=pace EVERY=0.3 SHORT=5 LONG=10 SHARD_RETRIES=0
	slow 300
	begin first
	wait_for 'came_to 500'
	local pid
	pid=$(pid_of w1)
	kill -STOP "$pid"
	wait_for 'grep -q "^event role=worker id=w1 kind=lost section=batch silent=[0-9.]* limit=2.000000 state=T%20(stopped) wchan=.* life=0 at=" run/state/job.log'
	wait_for '[ "$(pid_of w1)" != "'"$pid"'" ]'
	grep -q '^trainctl: w1 has given no sign of life for [0-9.]* s (section batch, at most 2 s): killed$' run/state/logs/w1.log
	grep -q '^trainctl: the lead said last: member worker=w1 generation=1 .* owes=push ' run/state/logs/w1.log
	grep -q '^trainctl:   thread '"$pid"' worker: T (stopped), waits in ' run/state/logs/w1.log
	status | grep -q '^node role=worker id=w0 .* section=[a-z-]* silent='
	wait_for '[ "$(logged "^event role=worker id=w1 kind=ready life=1 ")" = 1 ]' # the rest takes milliseconds
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 4
	report | grep -q '^restarted at=.* id=w1 why=lost '
}

@test "a worker that hangs while no supervisor is there is given up by the next one" {
	local pid
	job MODEL=audit EPOCHS=20 HUNG=5 REPORT_EVERY=1
	slow 400
	begin first
	wait_for 'came_to 300'
	pid=$(pid_of w0)
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	kill -STOP "$pid"
	begin second
	wait_for '[ "$(logged "^event role=worker id=w0 kind=lost section=batch ")" = 1 ]'
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary second.out | field checkpoint)" 2000 20
}

@test "a supervisor that stood still takes nobody for hung that starts" {
	job EPOCHS=1 HUNG=start:4 "LAUNCH_SERVER=$T/launch"
	printf '#!/bin/sh\nsleep 1\nexec "$@"\n' >launch
	chmod +x launch
	begin first
	wait_for '[ "$(logged "^event role=server id=ps0 kind=start ")" = 1 ]'
	kill -STOP $SUPERVISOR
	sleep 5
	kill -CONT $SUPERVISOR
	wait $SUPERVISOR
	[ "$(logged "^event .*kind=lost ")" = 0 ]
}

@test "killed workers and a killed shardd: exact" {
	job MODEL=audit EPOCHS=6 SYNC=ssp:2 WORKERS=3
	slow 400
	begin first
	for at in 300 600 900 1200; do
		wait_for "came_to $at"
		strike "w$((at / 300 % 3))"
	done
	wait_for 'came_to 1500'
	strike shardd
	wait_for 'came_to 1800'
	rm drag/*
	wait $SUPERVISOR
	[ "$(summary first.out | field restarts)" -eq 5 ]
	exact "$(summary first.out | field checkpoint)" 2000 6
}

@test "rows in the hand of a client that is gone come back at the end: exact" {
	job MODEL=audit EPOCHS=2 SYNC=asp
	slow 400
	begin first
	wait_for 'came_to 100'
	ask run/shardd.sock 'hello worker=x' 'get worker=x generation=1' >x.out
	grep -q '^shard ' x.out
	rm drag/*
	wait $SUPERVISOR
	[ "$(logged '^stray .*x is no worker of this job')" -eq 1 ]
	[ "$(summary first.out | field held)" -eq 0 ]
	[ "$(summary first.out | field restarts)" -eq 0 ]
	exact "$(summary first.out | field checkpoint)" 2000 2
}

@test "a killed server: all go back to the cut, and shardd with them: exact" {
	job MODEL=audit EPOCHS=5 SERVERS=3 CHECKPOINT_EVERY=0.3
	slow 400
	begin first
	wait_for 'came_to 500'
	strike ps1
	wait_for "grep -q '^rollback ' run/state/job.log"
	wait_for 'came_to 700'
	strike ps0
	wait_for 'status | grep -q "^job .* state=running .* incarnation=3 "'
	[ ! -e run/state/intent ]
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 5
}

@test "trainctl killed: nodes go on, and are adopted" {
	job MODEL=audit EPOCHS=5 CHECKPOINT_EVERY=0.3
	slow 400
	begin first
	wait_for 'came_to 300'
	local id before=
	for id in shardd bpt-monitor w0; do before+="$(pid_of $id) "; done
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	# meanwhile a worker and a server die
	worker=$(pgrep -f "worker .*--id w1 .*$T/run")
	server=$(pgrep -f "ps-server .*--id ps1 .*$T/run")
	kill -9 "$worker" "$server"
	run -78 run_job --set SOLUTION=lb-bsp # the lead that runs sets no sizes
	[[ $output == *"another SOLUTION (none, not lb-bsp); stop it first"* ]]
	begin second
	wait_for "running && status | grep -q '^node .* id=w1 state=up'"
	grep -q 'run already and are adopted' second.err
	local after=
	for id in shardd bpt-monitor w0; do after+="$(pid_of $id) "; done
	[ "$before" = "$after" ]
	[ -n "$(pid_of w1)" ]
	[ "$(pid_of w1)" != "$worker" ]
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary second.out | field checkpoint)" 2000 5
}

@test "a rollback that trainctl did not live to finish is finished" {
	job MODEL=audit EPOCHS=5 CHECKPOINT_EVERY=0.2 KEEP=9
	slow 400
	begin first
	wait_for 'came_to 600'
	wait_for '[ "$(ls run/state/checkpoints | wc -l)" -ge 2 ]' # the first one is whole
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	oldest=$(ls run/state/checkpoints | head -n 1)
	echo "intent kind=rollback cut=$T/run/state/checkpoints/$oldest reason=server at=1" >run/state/intent
	begin second
	wait_for running
	[ ! -e run/state/intent ]
	grep -q 'a rollback was not finished' run/state/job.log
	pgrep -af "ps-server .*$T/run" | grep -q -- "--restore $T/run/state/checkpoints/$oldest"
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary second.out | field checkpoint)" 2000 5
}

@test "a node whose parent is killed goes on, and its end is noticed" {
	job MODEL=audit EPOCHS=5
	slow 400
	begin first
	wait_for 'came_to 200'
	node=$(pid_of w0)
	parent=$(sed -n 's/^node .* parent=\([0-9]*\) .*/\1/p' run/state/nodes/w0.0)
	[ "$(cat "/proc/$parent/comm")" = node-parent ]
	[ "$(tr '\0' ' ' <"/proc/$parent/cmdline")" = "node-parent w0 " ]
	kill -9 "$parent"
	wait_for "grep -q '^orphan ' run/state/job.log"
	came_to 200
	kill -0 "$node"
	kill -9 "$node"
	wait_for 'pid=$(pid_of w0) && [ -n "$pid" ] && [ "$pid" != '"$node"' ]'
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 5
}

@test "nobody but nodes is called a worker of this run directory" {
	job EPOCHS=500
	slow 400
	begin first
	wait_for running
	wait_for '[ "$(pgrep -fc "worker.*$T/run")" -eq 2 ]'
	wait_for '[ "$(pgrep -fc "ps-server.*$T/run")" -eq 2 ]'
	[ "$(pgrep -x trainctl -P $$ | wc -l)" -eq 1 ]
}

@test "a piece that costs its workers is held, named, and told by the exit status" {
	job SHARD_RETRIES=1 EPOCHS=5
	slow 400
	begin first
	wait_for 'came_to 200'
	strike w0
	rm drag/*
	local code=0
	wait $SUPERVISOR || code=$?
	[ $code -eq 1 ]
	[ "$(summary first.out | field held)" -ge 1 ]
	[ -n "$(summary first.out | field held-ids)" ]
	grep -q 'are held' first.err
}

@test "a launch template stands in front, with the node's id" {
	job EPOCHS=500 "LAUNCH_WORKER='env NODE_WAS=%i nice -n 3'"
	slow 400
	begin first
	wait_for running
	wait_for '[ -n "$(pid_of w1)" ] && [ "$(ps -o ni= -p $(pid_of w1) | tr -d " ")" = $(($(nice) + 3)) ]'
	tr '\0' '\n' <"/proc/$(pid_of w1)/environ" | grep -qx NODE_WAS=w1
	[ "$(ps -o comm= -p "$(pid_of w1)")" = worker ]
}

@test "a launch template knows its place; what stands for nothing is refused with the line" {
	job EPOCHS=500 "LAUNCH_WORKER='env WHERE=%i/%n/%h/%cores/%mem/100%%'"
	slow 400
	begin first
	wait_for running
	wait_for '[ -n "$(pid_of w1)" ] && grep -qs WHERE "/proc/$(pid_of w1)/environ"'
	tr '\0' '\n' <"/proc/$(pid_of w1)/environ" | grep -qx "WHERE=w1/1/$(uname -n)/[1-9][0-9]*/[1-9][0-9]*/100%"
	kill -9 $SUPERVISOR
	echo 'LAUNCH_SERVER="nice %x"' >bad.env
	cat job.env >>bad.env
	run -78 trainctl run bad.env --run-dir "$T/other"
	[[ $output == *"bad.env:1: LAUNCH_SERVER: '%x' in column 6 stands for nothing: %i, %n, %h, "* ]]
}

@test "a node whose parent hangs before it starts it is given up" {
	job EPOCHS=1
	mkdir -p run/state/logs
	mkfifo run/state/logs/w0.log # whoever opens it to write waits for a reader
	begin first
	wait_for '[ "$(logged "^event role=worker id=w0 kind=start ")" = 1 ]'
	parent=$(pgrep -f -x 'node-parent w0' -P $SUPERVISOR)
	kill -INT $SUPERVISOR
	wait_for "not kill -0 $parent"
	ended $SUPERVISOR
	[ "$status" -eq 130 ]
	grep -q '^late .*w0 is to end, but its parent does not say so: killed, too' run/state/job.log
}

@test "a node that is killed before it is there is killed when it is, whoever saw it first" {
	job EPOCHS=500
	slow 400
	mkdir -p run/state/logs
	mkfifo run/state/logs/w0.log # its parent waits until somebody reads it
	begin first
	wait_for '[ "$(logged "^event role=worker id=w0 kind=start ")" = 1 ]'
	ask run/trainctl.sock 'kill id=w0' | grep -q '^ok'
	# asked all the time, status learns of it before the next try to kill it
	yes status | head -n 20000 | socat -t 300 - UNIX-CONNECT:run/trainctl.sock >answers &
	wait_for '[ -s answers ]'
	exec 9<>run/state/logs/w0.log
	wait_for '[ "$(logged "^event role=worker id=w0 kind=restart ")" = 1 ]'
	[ "$(logged "^event role=worker id=w0 kind=exit signal=9 ")" = 1 ]
	[ "$(logged "^late ")" = 0 ]
	kill -9 $SUPERVISOR
}

@test "a drag file for one process of a node only" {
	job EPOCHS=500
	slow 400
	echo 'drag pace=399' >drag/w1.1
	begin first
	strike w1
	wait_for 'pid=$(pid_of w1) && [ -n "$pid" ] && tr "\0" " " <"/proc/$pid/cmdline" | grep -q "drag/w1\.1 "'
	tr '\0' ' ' <"/proc/$(pid_of w0)/cmdline" | grep -q 'drag/w0 '
}

@test "nodes that run are not adopted under another run directory" {
	job EPOCHS=5
	slow 80
	begin first --state-dir "$T/state"
	wait_for running
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	run trainctl run job.env --run-dir "$T/other" --state-dir "$T/state"
	[ "$status" -eq 78 ]
	[[ $output == *"with the run directory $T/run"* ]]
	begin second --state-dir "$T/state"
	rm drag/*
	wait $SUPERVISOR
}

@test "INIT: another job's checkpoint, whose parameters it starts with" {
	job EPOCHS=3
	run run_job
	[ "$status" -eq 0 ]
	from=$(echo "$output" | tail -n 1 | field checkpoint)
	run run_job --fresh --set INIT="$from"
	[ "$status" -eq 78 ]
	[ -d "$from" ]
	run trainctl run job.env --run-dir "$T/run2" --set INIT="$from"
	[ "$status" -eq 0 ]
	not grep -q '^row iteration=1 .* loss=0.69' <<<"$output"
}

# ---- course ----

@test "checkpoints come and old ones go" {
	job CHECKPOINT_EVERY=0.2 KEEP=2 EPOCHS=10
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

@test "EVAL_EVERY scores on the way, PATIENCE ends it" {
	job TEST=d.csv EVAL_EVERY=0.3 PATIENCE=2 EPOCHS=1000 LR=1e-30
	slow 2000
	run run_job
	[ "$status" -eq 0 ]
	[ "$(grep -c '^score ' run/state/job.log)" -ge 3 ]
	grep -q 'PATIENCE' run/state/job.log
	[[ $(echo "$output" | tail -n 1) == *state=done* ]]
}

@test "SOLUTION=even decides, the log can be replayed" {
	job SOLUTION=even EVERY=0.3 SHORT=1 EPOCHS=10
	slow 100
	begin first
	wait_for '[ "$(logged "^decided ")" -ge 3 ]'
	rm drag/*
	wait $SUPERVISOR
	grep -q '^decision solution=even' run/state/job.log
	run trainctl replay run/state/job.log
	[ "$status" -eq 0 ]
	[ "$(grep -c '^action ' <<<"$output")" -eq "$(grep -c '^action ' run/state/job.log)" ]
	run trainctl replay --solution none run/state/job.log
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
	job SOLUTION=./solution EVERY=0.3 MODEL=audit EPOCHS=10
	slow 100
	begin first
	wait_for '[ "$(logged "^decided ")" -ge 2 ]'
	grep -qx 'batch=64 lambda=1.3 pending=60 sync=bsp limit=3 cmax=5' solution.args
	grep -q '^job at=' solution.in
	wait_for 'status | grep -q "^node .* id=w0 .* size=50 "'
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

# ---- decisions ----

# solution: an executable from stdin, ./solution
solution() { cat >solution && chmod +x solution; }
report() { trainctl report --run-dir "$T/run"; }
# applied ID: what a worker says it applied
applied() { grep -h '^applied ' run/state/logs/"$1".log; }

@test "a solution is told what is left, how fast, and what is in force" {
	solution <<-'S'
		#!/bin/sh
		cat >solution.tmp && mv solution.tmp solution.in
		echo 'action kind=backup-workers count=1'
	S
	job SOLUTION=./solution EVERY=0.3 MODEL=audit WORKERS=3 SYNC=bsp PENDING=7 HEAVY_LIMIT=2 LAMBDA=1.5 CMAX=4 EPOCHS=10
	slow 100
	begin first
	wait_for 'grep -qs "^info name=backup-workers value=1 age=0" solution.in'
	left=$(sed -n 's/^info name=samples-left value=\([0-9]*\) age=0/\1/p' solution.in)
	[ "$left" -gt 0 ]
	[ "$left" -le 20000 ]
	grep -q '^info name=sync value=bsp age=0' solution.in
	grep -q '^node role=worker id=w0 .* silent=[0-9.]*$' solution.in
	for name in rate restart-worker restart-server; do # the rate is known a little later
		wait_for "awk -v name=$name '\$2 == \"name=\" name { sub(/value=/, \"\", \$3); found = \$3 > 0 } END { exit !found }' solution.in"
	done
	grep -q '^decision solution=.*/solution batch=64 lambda=1.5 pending=7 sync=bsp limit=2 cmax=4 at=' run/state/job.log
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 10
}

@test "the first decision comes as soon as every worker has reported" {
	job SOLUTION=even EVERY=3600 EPOCHS=20
	slow 400
	begin first
	wait_for '[ "$(logged "^decided ")" -eq 1 ]'
	rm drag/*
	wait $SUPERVISOR
	[ "$(logged '^decided ')" -eq 1 ]
	for w in w0 w1; do
		sed -n '/^decision /,/^decided /p' run/state/job.log |
			grep -q "^node role=worker id=$w .* size=32 "
	done
}

@test "a solution that hangs, dies, or talks nonsense is skipped, and asked again" {
	solution <<-'S'
		#!/bin/sh
		# taken as a whole, so that what is wanted next is not written over
		if mv how taken 2>taken.err; then how=$(cat taken); else how=good; fi
		case $how in
		hang) exec sleep 100 ;;
		die) echo 'action kind=adjust-bs id=w0 size=1'; kill -9 $$ ;;
		binary) head -c 3000 /dev/zero ;;
		endless) exec yes 'action kind=none' ;;
		half) printf 'action kind=none\naction kind=adjust-bs id=w0 siz' ;;
		stranger) printf 'action kind=adjust-bs id=w0 size=60\naction kind=adjust-bs id=w9 size=4\n' ;;
		zero) printf 'action kind=adjust-bs id=w0 size=64\naction kind=adjust-bs id=w1 size=0\n' ;;
		huge) echo 'action kind=adjust-bs id=w0 size=20000000' ;;
		word) printf 'action kind=adjust-bs id=w0 size=1\nacton kind=none\n' ;;
		all) echo 'action kind=backup-workers count=2' ;;
		server) echo 'action kind=adjust-bs id=ps0 size=64' ;;
		*) printf 'action kind=adjust-bs id=w0 size=50 reason=mine\naction kind=adjust-bs id=w1 size=14\n' ;;
		esac
	S
	job SOLUTION=./solution EVERY=0.2 MODEL=audit EPOCHS=10
	slow 60
	begin first
	while read -r how why; do
		echo "$how" >wanted
		mv wanted how
		wait_for "grep -qs \"solution .*$why.*; skipped\" run/state/job.log"
		# and the next round is heard
		local before
		before=$(logged '^acted ')
		wait_for '[ "$(logged "^acted ")" -gt '"$before"' ]'
	done <<-'H'
		die signal 9
		binary line 1
		endless more than 1048576 bytes
		half line 2: ends in the middle
		stranger line 2: adjust-bs w9: unknown-node
		zero line 2: adjust-bs w1: size
		huge line 1: adjust-bs w0: size
		word line 2: 'acton'
		all line 1: backup-workers: count
		server line 1: adjust-bs ps0: unknown-node
		hang no decision in 10 s
	H
	grep -q '^refused kind=adjust-bs id=w9 reason=unknown-node line=2 at=' run/state/job.log
	# nothing of a skipped decision was done
	not grep -q '^action kind=adjust-bs id=w0 size=\(1\|60\|64\) ' run/state/job.log
	applied w0 >applied.w0
	not grep -q 'size=\(1\|60\|64\) ' applied.w0
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 10
	[ "$(report | grep ^report | field skipped)" -ge 11 ]
	report | grep -q '^decided .* id=w0 size=50 accum=1 reason=mine'
}

@test "a solution that fails each round: said when it begins, for another reason, and when it is over" {
	solution <<-'S'
		#!/bin/sh
		cat >/dev/null
		exit "$(cat status)"
	S
	job SOLUTION=./solution EVERY=0.1 MODEL=audit EPOCHS=10
	slow 60
	echo 3 >status
	begin first
	wait_for '[ "$(logged "^decided actions=0 skipped=1 ")" -ge 3 ]'
	[ "$(grep -c 'exit status 3; skipped' first.err)" -eq 1 ]
	echo 4 >new && mv new status
	wait_for 'grep -q "exit status 4; skipped" first.err'
	local before
	before=$(logged "^decided actions=0 skipped=1 ")
	wait_for '[ "$(logged "^decided actions=0 skipped=1 ")" -ge '$((before + 2))' ]'
	[ "$(grep -c '; skipped' first.err)" -eq 2 ]
	echo 0 >new && mv new status
	wait_for 'grep -q "works again" first.err'
	local failed
	failed=$(logged "^decided actions=0 skipped=1 ")
	grep -q "solution .*/solution works again: $failed rounds failed" first.err
	wait_for '[ "$(logged "^decided actions=0 at=")" -ge 3 ]'
	echo 4 >new && mv new status # begins anew
	wait_for '[ "$(grep -c "exit status 4; skipped" first.err)" -eq 2 ]'
	rm drag/*
	wait $SUPERVISOR
	[ "$(grep -c 'works again' first.err)" -eq 1 ]
	[ "$(report | grep ^report | field skipped)" -eq "$(logged ' skipped=1 ')" ]
}

@test "what a solution leaves behind does not outlive the job" {
	solution <<-'S'
		#!/bin/sh
		sleep 1000 &
		echo $! >left.new && mv left.new left
	S
	job SOLUTION=./solution EVERY=0.2 MODEL=audit EPOCHS=5
	slow 80
	begin first
	wait_for '[ -s left ]'
	PIDS+=("$(cat left)")
	rm drag/*
	wait $SUPERVISOR
	wait_for 'gone "$(cat left)"'
}

@test "all workers apply an action in the same iteration" {
	job MODEL=audit WORKERS=3 EPOCHS=12
	slow 500
	begin first
	wait_for 'came_to 300'
	for sizes in "30 20 14" "10 50 4" "22 21 21"; do
		read -r a b c <<<"$sizes"
		printf 'action kind=adjust-bs id=w0 size=%d reason=test\naction kind=adjust-bs id=w1 size=%d\naction kind=adjust-bs id=w2 size=%d accum=1\n' \
			"$a" "$b" "$c" | trainctl apply --run-dir "$T/run" >answer
		grep -q '^ok actions=3 refused=0 iteration=[0-9]*$' answer
		cat answer >>answers
		wait_for "applied w2 | grep -q 'size=$c '"
	done
	echo 'action kind=adjust-lr id=w1 scale=0.5' | trainctl apply --run-dir "$T/run" >answer
	cat answer >>answers
	wait_for "applied w1 | grep -q 'kind=adjust-lr .* scale=0.5 '"
	for w in w0 w1 w2; do applied $w | grep kind=adjust-bs | field iteration >$w.iterations; done
	cmp w0.iterations w1.iterations
	cmp w0.iterations w2.iterations
	[ "$(wc -l <w0.iterations)" -eq 3 ]
	# and in the one that the answer named
	[ "$(head -n 3 answers | sed 's/.* iteration=//')" = "$(cat w0.iterations)" ]
	# a sum that is not BATCH is obeyed, and said
	echo 'action kind=adjust-bs id=w0 size=40' | trainctl apply --run-dir "$T/run"
	grep -q '^warning kind=adjust-bs sum=82 batch=64 at=' run/state/job.log
	wait_for "applied w0 | grep -q 'size=40 '"
	run trainctl apply --run-dir "$T/run" <<<'action kind=adjust-bs id=w0'
	[ "$status" -eq 1 ]
	[[ $output == *"bad-actions: line 1: "* ]]
	run trainctl apply --run-dir "$T/run" < <(printf 'action kind=none')
	[ "$status" -eq 1 ]
	[[ $output == *"line 1: ends in the middle"* ]]
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 12
}

@test "actions in force are told to a lead of a new incarnation, and to none that took over" {
	job MODEL=audit EPOCHS=20 CHECKPOINT_EVERY=0.3
	slow 400
	begin first
	wait_for 'came_to 200'
	printf 'action kind=adjust-bs id=w0 size=50\naction kind=adjust-bs id=w1 size=14\n' |
		trainctl apply --run-dir "$T/run"
	wait_for "grep -q 'id=w1 size=14' run/state/standing"
	wait_for 'applied w1 | grep -q "size=14 "' # the process that is killed below
	run trainctl kill-restart ps0 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	strike w1 # the new process has it from the lead that took over
	wait_for '[ "$(applied w1 | grep -c "size=14 ")" -ge 2 ]'
	not grep -q '^acted by=in-force' run/state/job.log
	# known to the supervisor that comes after, too
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	begin second
	wait_for running
	strike ps1
	wait_for 'grep -q "^acted by=in-force actions=2 " run/state/job.log'
	strike w0
	wait_for '[ "$(applied w0 | grep -c "size=50 ")" -ge 2 ]'
	[ "$(logged '^acted by=in-force')" -eq 1 ]
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary second.out | field checkpoint)" 2000 20
}

# ---- restarts by intention ----

@test "kill-restart of a worker: at most its batch in hand is done again" {
	job MODEL=audit EPOCHS=10 WORKERS=3 SHARD_RETRIES=1 # nor of its piece
	slow 400
	begin first
	wait_for 'came_to 500'
	old=$(pid_of w1)
	run trainctl kill-restart w1 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	[[ $output =~ ^ok\ id=w1\ seconds=[0-9.]+$ ]]
	[ "$(pid_of w1)" != "$old" ]
	not grep -q '^relaunch ' run/state/job.log # no failure of its own
	repeated=$(ask run/shardd.sock stat | field samples-repeated)
	[ "$repeated" -le 110 ] # its third of a batch, and the four that it takes ahead (AHEAD)
	rm drag/*
	wait $SUPERVISOR
	[ "$(summary first.out | field restarts)" -eq 1 ]
	exact "$(summary first.out | field checkpoint)" 2000 10
	report | grep -q '^restarted at=.* role=worker id=w1 why=kill-restart reason=asked%20for seconds='
}

@test "kill-restart of live servers, the lead too: no rollback, nothing done again" {
	job MODEL=audit SERVERS=3 WORKERS=3 EPOCHS=15 HEAVY_WINDOW=0 HEAVY_LIMIT=9 CHECKPOINT_EVERY=0.3
	slow 400
	begin first
	wait_for 'came_to 300'
	for id in ps1 ps0 ps2 ps0; do
		old=$(pid_of $id)
		run trainctl kill-restart $id --run-dir "$T/run"
		[ "$status" -eq 0 ]
		[[ $output == "ok id=$id seconds="* ]]
		[ "$(pid_of $id)" != "$old" ]
		gone "$old"
		now=$(done_samples)
		wait_for "came_to $((now + 128))"
	done
	# a restart asked for by a decision, while a checkpoint is made
	trainctl checkpoint --run-dir "$T/run" &
	printf 'action kind=kill-restart role=server id=ps1 reason=slow\n' | trainctl apply --run-dir "$T/run"
	wait $!
	wait_for '[ "$(status | grep "^node .* id=ps1 " | field restarts)" -eq 2 ]'
	[ "$(ask run/shardd.sock stat | field samples-repeated)" -eq 0 ]
	rm drag/*
	wait $SUPERVISOR
	not grep -q '^rollback ' run/state/job.log
	[ "$(logged '^hand-over ')" -eq 5 ]
	exact "$(summary first.out | field checkpoint)" 2000 15
}

@test "a next process that fails leaves the old server as it was; a server that dies takes it along" {
	job MODEL=audit SERVERS=2 EPOCHS=12 HEAVY_WINDOW=0 HEAVY_LIMIT=9 CHECKPOINT_EVERY=0.3 \
		"LAUNCH_SERVER=$T/launch"
	printf '#!/bin/sh\n[ ! -e stop ] || kill -9 $$\nwhile [ -e wait ]; do sleep 0.05; done\nexec "$@"\n' >launch
	chmod +x launch
	slow 400
	begin first
	wait_for 'came_to 200'
	touch stop
	old=$(pid_of ps1)
	run trainctl kill-restart ps1 --run-dir "$T/run"
	[ "$status" -eq 1 ]
	[[ $output == *"not-restarted"*"signal 9"* ]]
	rm stop
	[ "$(pid_of ps1)" = "$old" ]
	grep -q '^handover-failed id=ps1 life=1 signal=9' run/state/job.log
	now=$(done_samples)
	wait_for "came_to $((now + 128))"
	not grep -q '^rollback ' run/state/job.log
	run trainctl kill-restart ps1 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	# the old one dies before the heir has come
	touch wait
	trainctl kill-restart ps0 --run-dir "$T/run" >answer 2>&1 &
	wait_for 'grep -q "^hand-over id=ps0 " run/state/job.log'
	strike ps0
	rm wait
	local code=0
	wait $! || code=$?
	[ $code -eq 1 ]
	wait_for 'status | grep -q "^job .* state=running .* incarnation=2 "'
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 12
}

@test "trainctl killed in the middle of a hand-over: it is adopted" {
	job MODEL=audit SERVERS=2 EPOCHS=12 HEAVY_WINDOW=0 HEAVY_LIMIT=9 \
		"LAUNCH_SERVER=$T/launch"
	printf '#!/bin/sh\nwhile [ -e wait ]; do sleep 0.05; done\nexec "$@"\n' >launch
	chmod +x launch
	slow 400
	begin first
	wait_for 'came_to 200'
	local round=0 id old
	for id in ps1 ps0; do
		touch wait
		old=$(pid_of $id)
		trainctl kill-restart $id --run-dir "$T/run" >answer 2>&1 &
		wait_for "grep -q '^hand-over id=$id ' run/state/job.log"
		kill -9 $SUPERVISOR
		wait $SUPERVISOR || true
		wait $! || true
		round=$((round + 1))
		if [ $round -eq 1 ]; then # nobody sees it
			rm wait
			wait_for "gone $old"
		fi
		begin again$round
		if [ $round -eq 2 ]; then # the second supervisor does
			wait_for "[ \"\$(logged '^hand-over id=$id ')\" -eq 2 ]"
			wait_for running
			rm wait
		fi
		wait_for "status | grep -q '^node .* id=$id state=up pid=[0-9]* restarts=1'"
		now=$(done_samples)
		wait_for "came_to $((now + 128))"
	done
	rm drag/*
	wait $SUPERVISOR
	not grep -q '^rollback ' run/state/job.log
	exact "$(summary again2.out | field checkpoint)" 2000 12
	report >out
	[ "$(grep -c '^restarted ' out)" -eq 2 ]
	grep -q '^restarted at=.* role=server id=ps1 why=kill-restart reason=asked%20for seconds=[0-9.]* down=$' out
	grep -q '^restarted at=.* role=server id=ps0 why=kill-restart reason=asked%20for seconds=[0-9.]* down=[0-9.]*$' out
}

@test "the guard: window, cool-down, limit; whoever asks, and after a crash of trainctl, too" {
	solution <<-'S'
		#!/bin/sh
		echo 'action kind=kill-restart role=worker id=w0 reason=slow'
		echo 'action kind=kill-restart role=worker id=w1 reason=slow'
		echo 'action kind=none'
	S
	job MODEL=audit WORKERS=3 EPOCHS=20 SOLUTION=./solution EVERY=0.3 HEAVY_COOLDOWN=3600 HEAVY_WINDOW=3600
	slow 200
	begin first
	wait_for '[ "$(logged "^decided ")" -ge 3 ]'
	# a busy machine takes its time to bring w0 back: until then it is not up
	wait_for 'grep -q "^refused kind=kill-restart id=w0 reason=window line=1" run/state/job.log'
	wait_for 'grep -q "^refused kind=kill-restart id=w1 reason=cool-down line=2" run/state/job.log'
	[ "$(logged '^restart ')" -eq 1 ]
	run trainctl kill-restart w2 --run-dir "$T/run"
	[ "$status" -eq 1 ]
	[[ $output == *cool-down* ]]
	run trainctl kill-restart w9 --run-dir "$T/run"
	[ "$status" -eq 1 ]
	[[ $output == *unknown-node* ]]
	run trainctl kill-restart shardd --run-dir "$T/run"
	[ "$status" -eq 1 ]
	[[ $output == *"only workers and servers"* ]]
	run trainctl kill-restart w2 --run-dir "$T/run" --force
	[ "$status" -eq 0 ]
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	begin second --set HEAVY_COOLDOWN=0 --set HEAVY_WINDOW=0 --set HEAVY_LIMIT=1
	wait_for 'grep -q "^refused kind=kill-restart id=w0 reason=limit" run/state/job.log'
	wait_for 'grep -q "^restart id=w1 reason=slow" run/state/job.log'
	rm drag/*
	wait $SUPERVISOR
	[ "$(logged '^restart id=w0 ')" -eq 1 ]
	exact "$(summary second.out | field checkpoint)" 2000 20
}

@test "backup workers: the first close the iteration, and nothing is lost" {
	job MODEL=audit WORKERS=4 EPOCHS=2
	slow 400
	echo 'drag pace=100' >drag/w3
	begin first
	wait_for 'came_to 200'
	echo 'action kind=backup-workers count=1' | trainctl apply --run-dir "$T/run"
	wait_for 'came_to 1500'
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 2
}

@test "the log has the course of each node, to its last batch" {
	job EPOCHS=4
	slow 400
	run_job >out
	grep -q '^begin .* batch=64 shard=[0-9]* ' run/state/job.log
	local id
	for id in w0 w1 ps0; do
		[ "$(logged "^series role=[a-z]* id=$id state=up .* batches=")" -ge 2 ]
	done
	# At the end all is in it, but for reports that are on their way.
	local trained
	trained=$(for id in w0 w1; do grep "^series role=worker id=$id " run/state/job.log | tail -n 1 |
		field samples; done | awk '{ sum += $1 } END { print sum }')
	[ "$trained" -le "$(summary out | field samples)" ]
	[ "$trained" -gt $(($(summary out | field samples) - 2 * 10 * 32)) ]
	grep '^series role=worker id=w0 ' run/state/job.log | tail -n 1 |
		grep -q ' time-sum=[0-9.]* compute-sum=[0-9.]* comm-sum=[0-9.]* wait-sum=[0-9.]* last='
}

@test "top and report" {
	job EPOCHS=10 SOLUTION=even EVERY=0.3 TEST=d.csv
	slow 500
	begin first
	wait_for 'came_to 300'
	wait_for 'trainctl top --run-dir "$T/run" | grep -q "^w1  *up .* 32  *0 "'
	wait_for 'trainctl top --run-dir "$T/run" | grep -q "^ps0  *up .* 64  *0 "'
	trainctl top --run-dir "$T/run" >table
	not grep -q e+ table
	grep -q '^NODE  *STATE  *RATIO  *TIME  *SPEED  *SIZE  *RESTARTS .* PID' table
	rm drag/*
	wait $SUPERVISOR
	report >out
	grep -q '^time phase=running seconds=' out
	grep -q '^node role=worker id=w0 restarts=0 up=' out
	[[ $(tail -n 1 out) == "report job=tiny state=done runs=1 from="* ]]
	[ "$(tail -n 1 out | field decisions)" = "$(logged '^decision ')" ]
	trainctl report --state-dir "$T/run/state" | cmp - out
	# "time" adds up
	awk '/^time / { sub(/seconds=/, "", $3); sum += $3 } /^report / { sub(/.* seconds=/, ""); d = $1 - sum
		exit !(d < 0.001 && d > -0.001) }' out
	run trainctl report --state-dir "$T/nothing"
	[ "$status" -eq 66 ]
	run trainctl report
	[ "$status" -eq 64 ]
}

@test "report: what was no restart is not told as one; nobody's time is counted for nobody" {
	mkdir -p run/state
	cat >run/state/job.log <<-'L'
		begin job=tiny at=100
		event role=server id=ps0 kind=start life=0 at=101
		event role=server id=ps0 kind=ready life=0 at=102
		phase name=running at=103
		restart id=ps0 reason=asked%20for at=110
		hand-over id=ps0 life=1 at=111
		handover-failed id=ps0 life=1 signal=9 at=112
		event role=server id=ps0 kind=exit signal=11 life=0 at=120
		event role=server id=ps0 kind=restart life=2 at=121
		event role=server id=ps0 kind=ready life=2 at=122
		event role=server id=ps0 kind=exit status=0 life=2 at=123
		begin job=tiny at=1000
		event role=server id=ps0 kind=start life=0 at=1001
		event role=server id=ps0 kind=ready life=0 at=1002
		restart id=ps0 reason=asked%20for at=1003
		begin job=tiny at=2000
		event role=server id=ps0 kind=adopt life=0 at=2000
		event role=server id=ps0 kind=ready life=0 at=2001
		event role=server id=ps0 kind=exit status=70 life=0 at=2010
		event role=server id=ps0 kind=restart life=1 at=2011
		event role=server id=ps0 kind=ready life=1 at=2013
	L
	report >out
	cat out
	[ "$(grep ^restarted out)" = "restarted at=120.000000 role=server id=ps0 why=signal-11 seconds=2.000000 down=2.000000
restarted at=2010.000000 role=server id=ps0 why=status-70 seconds=3.000000 down=3.000000" ]
	grep -q '^time phase=running seconds=20.0' out
	grep -q '^node role=server id=ps0 restarts=2 up=29.000000 starting=6.000000 down=2.000000 ' out
}

# ---- filters ----

snapshot() {
	echo 'job at=1 iter=1 workers=2 servers=0 short=1 long=2'
	for w in w0 w1; do
		echo "node role=worker id=$w state=up size=10 short= long= speed-short= speed-long= ratio-short= ratio-long= samples=1 restarts=0 up=1"
	done
}

@test "replay: a solution that hangs is killed, and said" {
	snapshot_log() { echo 'decision solution=x at=1'; snapshot; echo 'decided at=2'; }
	snapshot_log >job.log
	printf '#!/bin/sh\nsleep 300 & sleep 300\n' >hangs
	chmod +x hangs
	run -1 timeout 300 trainctl replay job.log --solution ./hangs
	[[ $output == *"solution ./hangs: no decision in 10 s"* ]]
}

@test "info name=pending that is no number: a warning with its place" {
	run -0 --separate-stderr trainctl solve antdt-nd < <(snapshot; echo 'info name=note value=x'
		echo 'info name=pending value=ten%20minutes')
	[ "$stderr" = "trainctl: stdin:5: info name=pending: 'ten minutes' is no number, and taken as not known" ]
	[[ $output == "action "* ]]
	run -0 --separate-stderr trainctl solve antdt-nd < <(snapshot; echo 'info name=pending value=70')
	[ -z "$stderr" ]
	for i in 1 2 3; do
		echo "decision solution=antdt-nd at=$i"
		snapshot
		echo "info name=pending value=$([ $i = 3 ] && echo y || echo x)"
		echo 'decided actions=0'
	done >job.log
	run -0 --separate-stderr trainctl replay job.log
	[ "$stderr" = "trainctl: job.log:5: info name=pending: 'x' is no number, and taken as not known
trainctl: job.log:17: info name=pending: 'y' is no number, and taken as not known" ]
	# in a job: once
	job SOLUTION=antdt-nd EVERY=0.2 EPOCHS=5
	slow 100
	begin first
	wait_for running
	wait_for 'ask run/bpt-monitor.sock "info name=pending value=soon" | grep -q ^ok'
	wait_for 'grep -q "info name=pending: .soon. is no number" first.err'
	local before
	before=$(logged '^decided ')
	wait_for '[ "$(logged "^decided ")" -ge $((before + 3)) ]'
	rm drag/*
	wait $SUPERVISOR
	[ "$(grep -c 'no number' first.err)" -eq 1 ]
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
	run trainctl replay asked --solution ./mine
	[ "$status" -eq 1 ]
	[[ $output == *"asked:"*"./mine: no decision in 10 s"* ]]
	run trainctl replay job.log
	[ "$status" -eq 66 ]
	echo 'phase name=running' >job.log
	run trainctl replay job.log
	[ "$status" -eq 1 ]
}

# ---- sizes at every barrier ----

# sizes ITERATION: as the lead told them, without names.
sizes() {
	rec where iteration="$1" <run/state/balance.log | rec tsv sizes | sed 's/w[0-9]*://g'
}

@test "SOLUTION=lb-bsp: sizes follow speeds within two iterations, and sum to BATCH in each" {
	data 1500
	job SOLUTION=lb-bsp PREDICT=last WORKERS=3 BATCH=120 SERVERS=1
	slow 250
	echo 'drag pace=62.5' >drag/w2
	run run_job
	[ "$status" -eq 0 ]
	[ "$(sizes 0)" = 40,40,40 ]
	[ "$(rec where type=balance <run/state/balance.log | rec tsv sizes | sed 's/w[0-9]*://g' |
		awk -F, '{ print $1 + $2 + $3 }' | sort -u)" = 120 ]
	rec where type=balance <run/state/balance.log | sed -n 3p | rec tsv sizes |
		awk -F'[:,]' '{ exit !($6 >= 10 && $6 <= 20) }' # 53,53,14
	[ "$(logged '^decision')" = 0 ] # the periodic loop is off
	[ -s run/state/predict-w0 ]
	decided_again run/state/balance.log
}

@test "balance.log: one that grew large begins again" {
	job SOLUTION=lb-bsp SYNC=bsp EPOCHS=1000
	begin first
	wait_for 'grep -qs "^balance " run/state/balance.log'
	truncate -s 70M run/state/balance.log
	wait_for '[ "$(stat -c %s run/state/balance.log)" -lt 70000000 ]'
	[ "$(stat -c %s run/state/balance.log.1)" -ge 70000000 ]
	wait_for 'grep -q "^balance " run/state/balance.log'
}

@test "SOLUTION=lb-bsp: a worker that dies has no share; it comes back and has one again" {
	data 4000
	# Who is started while there is hold waits for its end.
	job SOLUTION=lb-bsp PREDICT=ema WORKERS=3 BATCH=120 SERVERS=1 MODEL=audit EPOCHS=5 \
		"LAUNCH_WORKER='sh -c \"while [ -e $T/hold ]; do sleep 0.1; done; exec \\\"\\\$@\\\"\" x'"
	slow 100
	echo 'drag pace=40' >drag/w2
	begin job
	wait_for '[ -e run/state/balance.log ] && [ "$(wc -l <run/state/balance.log)" -ge 2 ]'
	touch hold
	strike w1
	wait_for 'tail -n 1 run/state/balance.log >last && not grep -q w1: last'
	rec tsv sizes <last >gone
	rm hold
	wait_for 'tail -n 1 run/state/balance.log | grep -q w1:'
	rm drag/*
	wait "$SUPERVISOR"
	sed 's/w[0-9]*://g' gone | awk -F, '{ exit $1 + $2 != 120 }'
	decided_again run/state/balance.log
	exact "$(summary job.out | field checkpoint)" 4000 5
}

# Speeds that a worker's model has seen in this life, and those it has learnt from in all.
lives() {
	rec where name=seen <"run/state/predict-$1" | rec tsv v
	rec where name=learnt <"run/state/predict-$1" | rec tsv v
}

@test "PREDICT_FROM: a new job's workers start from what another's have learnt, or any of them" {
	data 2000
	job SOLUTION=lb-bsp PREDICT=arx WORKERS=2 BATCH=40 SERVERS=1
	run_job >/dev/null
	set -- $(lives w0)
	[ "$1" -gt 20 ]
	[ "$2" -eq $(($1 - 2)) ]
	mkdir from
	cp run/state/predict-w1 from
	echo "PREDICT_FROM=$T/from" >>job.env
	run_job --fresh >/dev/null
	[ "$(grep -c ^balancing run/state/balance.log)" = 1 ]
	for w in w0 w1; do # of which the first has no namesake there
		set -- $(lives $w)
		[ "$2" -gt $(($1 + 10)) ]
	done
	run_job --fresh --set PREDICT_FROM="$T/from/predict-w1" >/dev/null
	set -- $(lives w0)
	[ "$2" -gt $(($1 + 10)) ]
	run_job --fresh --set PREDICT_FROM= >/dev/null # --fresh forgets its own
	set -- $(lives w0)
	[ "$2" -eq $(($1 - 2)) ]
	run -66 run_job --fresh --set PREDICT_FROM=nowhere
	[[ $output == *nowhere*PREDICT_FROM* ]]
	mv from/predict-w1 from/predict-w1.new
	run -66 run_job --fresh --set PREDICT_FROM="$T/from"
	[[ $output == *"$T/from: PREDICT_FROM: no predict-ID"* ]]
	mv from/predict-w1.new from/predict-w17 # no worker here has that name
	touch from/predict-w2000 from/predict-w3.new
	run_job --fresh --set PREDICT_FROM="$T/from" >/dev/null
	set -- $(lives w0)
	[ "$2" -gt $(($1 + 10)) ]
	run -78 run_job --fresh --set PREDICT_FROM=run/state
	[[ $output == *--fresh* ]]
	run -78 run_job --fresh --set PREDICT_FROM=run/./state/predict-w1
	[ -e run/state/predict-w0 ]
	cp -r run/state run/state-before # is not run/state
	run_job --fresh --set PREDICT_FROM=run/state-before >/dev/null
}

@test "SOLUTION=lb-bsp: sizes by hand are refused; ssp and asp have no barrier" {
	data 4000
	job SOLUTION=lb-bsp WORKERS=2 SERVERS=1 EPOCHS=400
	slow 400
	for sync in ssp:2 asp; do
		for solution in lb-bsp lb-bsp-gpu; do
			run run_job --set SYNC=$sync --set SOLUTION=$solution
			[ "$status" -eq 78 ]
			[[ $output == *"$solution"*"$sync"* ]]
		done
	done
	run run_job --set PREDICT=magic
	[ "$status" -eq 78 ]
	begin job
	wait_for 'came_to 200'
	run trainctl apply --run-dir "$T/run" <<<'action kind=adjust-bs id=w0 size=3'
	[ "$status" -ne 0 ]
	[[ $output == *balanced* ]]
	run trainctl apply --run-dir "$T/run" <<<'action kind=adjust-lr id=w0 scale=0.5'
	[ "$status" -eq 0 ]
	kill "$SUPERVISOR"
	wait "$SUPERVISOR" || true
}

@test "SOLUTION=lb-bsp-gpu: the faster worker's batch grows" {
	data 6000
	job SOLUTION=lb-bsp-gpu WORKERS=2 SERVERS=1 BATCH=64
	slow 4000
	echo 'drag pace=500' >drag/w1
	run run_job
	[ "$status" -eq 0 ]
	tail -n 1 run/state/balance.log | rec tsv sizes |
		awk -F'[:,]' '{ exit !($2 + $4 == 64 && $2 > $4 + 10) }'
	decided_again run/state/balance.log
}

@test "SOLUTION=lb-bsp-gpu: workers without which the job is faster are said, once" {
	data 3000
	job SOLUTION=lb-bsp-gpu WORKERS=3 SERVERS=1 BATCH=48
	slow 4000
	for w in w1 w2; do echo 'drag pace=4000 delay=0.05' >drag/$w; done
	run run_job
	[ "$status" -eq 0 ]
	# They are as slow: the lead warns of one, then of the other, and so on.
	for w in w1 w2; do
		[ "$(grep -c "^trainctl: $w: the job is faster without it$" <<<"$output")" -eq 1 ]
		[ "$(grep -c "^warning .*$w: the job is faster without it$" run/state/job.log)" -eq 1 ]
	done
}

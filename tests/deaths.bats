# trainctl: nodes that die, hang or are stopped, and trainctl itself killed; the job goes on.
load helper

@test "an unretryable end: last words and log first, then the summary, with its status" {
	job "LAUNCH_WORKER='sh -c \"echo I am doomed >&2; echo spent id=w0 compute=1; exit 65\"'"
	local code=0
	trainctl run job.env --run-dir "$T/run" >both.out 2>&1 || code=$?
	[ $code -eq 65 ]
	words=$(grep -n 'I am doomed' both.out | head -n 1 | cut -d: -f1)
	log=$(grep -n "$T/run/state/logs/w[01].log" both.out | head -n 1 | cut -d: -f1)
	last=$(grep -n '^summary job=tiny state=failed .* failed=w[01] status=65$' both.out | cut -d: -f1)
	[ "$words" -lt "$log" ]
	not grep '  spent id=' both.out # is for reports
	[ "$log" -lt "$last" ]
	[ "$last" -eq "$(wc -l <both.out)" ]
	[ "$(grep -c '^end' run/state/nodes/*.0 | grep -vc ':1$')" -eq 0 ]
	[ -z "$(find run -type s)" ] # of those that were killed for it, either
	# mended, it goes on
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
	# longer than the ten seconds after which one that trains is well
	job RESTARTS=1 "LAUNCH_WORKER='sh -c \"sleep 11; exit 75\" x'"
	run run_job
	[ "$status" -eq 75 ]
	[[ $output == *"exit status 75, 2 times in a row (RESTARTS)"* ]]
	[[ $output == *"state=failed"* ]]
}

@test "RESTARTS rollbacks: a job that only ever goes back ends, and says so" {
	job RESTARTS=rollbacks:1 EPOCHS=1000 CHECKPOINT=end "LAUNCH_SERVER='timeout -s KILL 14'"
	slow 100
	run run_job
	[ "$status" -eq 137 ]
	[[ $output == *"rollback 2 in a row without a checkpoint that goes further (RESTARTS rollbacks)"* ]]
	[[ $output == *"state=failed"*" failed=ps"[01]" "* ]]
}

@test "RESTARTS rollbacks: servers that end together make one rollback" {
	job RESTARTS=1,rollbacks:1 EPOCHS=4 SERVERS=4
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
	job MODEL=audit EPOCHS=4 HUNG=2 SOLUTION=pace,every:0.3 MONITOR=short:5,long:10 RESTARTS=shard:never
	slow 300
	begin first
	wait_for 'came_to 500'
	local pid
	pid=$(pid_of w1)
	kill -STOP "$pid"
	wait_for 'grep -q "^event role=worker id=w1 kind=hung section=batch silent=[0-9.]* deadline=2.000000 state=T%20(stopped) wchan=.* life=0 at=" run/state/job.log'
	wait_for '[ "$(pid_of w1)" != "'"$pid"'" ]'
	grep -q '^trainctl: w1 has given no sign of life for [0-9.]* s (section batch, at most 2 s by HUNG): killed$' run/state/logs/w1.log
	grep -q '^trainctl: the lead said last: member worker=w1 generation=1 .* owes=push ' run/state/logs/w1.log
	grep -q '^trainctl:   thread '"$pid"' worker: T (stopped), waits in ' run/state/logs/w1.log
	status | grep -q '^node role=worker id=w0 .* section=[a-z-]* silent='
	wait_for '[ "$(logged "^event role=worker id=w1 kind=ready life=1 ")" = 1 ]' # the rest takes milliseconds
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 4
	report | grep -q '^restarted at=.* id=w1 why=hung '
}

@test "a worker that hangs while no supervisor is there is given up by the next one" {
	local pid
	job MODEL=audit EPOCHS=20 HUNG=5 MONITOR=report:1
	slow 400
	begin first
	wait_for 'came_to 300'
	pid=$(pid_of w0)
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	kill -STOP "$pid"
	begin second
	wait_for '[ "$(logged "^event role=worker id=w0 kind=hung section=batch ")" = 1 ]'
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
	sleep 5 # longer than a start may last
	kill -CONT $SUPERVISOR
	wait $SUPERVISOR
	[ "$(logged "^event .*kind=hung ")" = 0 ]
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
	[ "$(logged '^stray .*x is neither a worker of this job')" -eq 1 ]
	[ "$(summary first.out | field held)" -eq 0 ]
	[ "$(summary first.out | field restarts)" -eq 0 ]
	exact "$(summary first.out | field checkpoint)" 2000 2
}

@test "a killed server: all go back to the cut, and shardd with them: exact" {
	job MODEL=audit EPOCHS=5 SERVERS=3 CHECKPOINT=0.3
	slow 400
	begin first
	wait_for 'came_to 500'
	strike ps1
	wait_for "grep -q '^rollback ' run/state/job.log"
	wait_for 'came_to 700'
	strike ps0
	wait_for 'in_status "^job .* state=running .* incarnation=3 "'
	not is_kept intent
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 5
}

@test "a server killed after all is trained: the job goes back once more, and ends with 0" {
	job "LAUNCH_WORKER='sh -c \"\\\"\\\$@\\\"; touch $T/all; while [ -e $T/waits ]; do sleep 0.05; done\" x'"
	touch waits
	begin first
	wait_for '[ -e all ] && logged "^phase name=finishing " | grep -qx 1'
	kill -9 "$(pid_of ps0)"
	wait_for 'logged "^phase name=rollback " | grep -qx 1'
	rm waits
	wait "$SUPERVISOR"
	[[ $(summary first.out) == *"state=done "*" exit=0 "* ]]
	not grep -q "after all was trained" first.err
}

@test "trainctl killed: nodes go on, and are adopted" {
	job MODEL=audit EPOCHS=5 CHECKPOINT=0.3
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
	wait_for "running && in_status '^node .* id=w1 state=up'"
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
	job MODEL=audit EPOCHS=5 CHECKPOINT=0.2,keep:1000
	slow 400
	begin first
	wait_for 'came_to 600'
	wait_for '[ "$(ls run/state/checkpoints | wc -l)" -ge 2 ]' # the first one is whole
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	oldest=$(ls run/state/checkpoints | head -n 1)
	keep "intent kind=rollback cut=$T/run/state/checkpoints/$oldest reason=server at=1"
	begin second
	wait_for running
	wait_for 'not is_kept intent'
	grep -q 'a rollback was not finished' run/state/job.log
	pgrep -af "ps-server .*$T/run" | grep -q -- "--restore $T/run/state/checkpoints/$oldest"
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary second.out | field checkpoint)" 2000 5
}

@test "of a node that is started again and again the last records are kept" {
	job EPOCHS=1000
	slow 400
	begin first
	wait_for 'came_to 100'
	for _ in {1..7}; do trainctl kill-restart w0 --force --run-dir run; done
	[ "$(ls run/state/nodes | grep '^w0\.[0-9]' | sort -t . -k 2n | tr '\n' ' ')" = \
		"w0.4 w0.5 w0.6 w0.7 " ]
	# The next supervisor counts on from there.
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	begin second
	wait_for running
	trainctl kill-restart w0 --force --run-dir run
	[ -e run/state/nodes/w0.8 ]
	[ ! -e run/state/nodes/w0.4 ]
	trainctl stop --run-dir run
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

@test "a node that dies while its parent is stopped is missed, its parent is killed, and it starts again: exact" {
	job MODEL=audit EPOCHS=5 HUNG=2
	slow 400
	begin first
	wait_for 'came_to 200'
	node=$(pid_of w0)
	parent=$(sed -n 's/^node .* parent=\([0-9]*\) .*/\1/p' run/state/nodes/w0.0)
	kill -STOP "$parent"
	kill -9 "$node"
	wait_for "grep -q '^late .*w0 was killed, but its parent does not say so: killed, too' run/state/job.log"
	wait_for "not kill -0 $parent"
	wait_for '[ "$(logged "^event role=worker id=w0 kind=ready ")" = 2 ]'
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
	job RESTARTS=shard:1 EPOCHS=5
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
	ended $SUPERVISOR
	echo 'LAUNCH_SERVER="nice %x"' >bad.env
	cat job.env >>bad.env
	run -78 trainctl run bad.env --run-dir "$T/other"
	[[ $output == *"bad.env:1: LAUNCH_SERVER: '%x' in column 6 is unknown: use %i, %n, %h, "* ]]
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
	echo 'drag speed=399' >drag/w1.1
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

# Its four seconds are too few for a busy machine.
# bats test_tags=long
@test "who is stopped when all is trained keeps nobody waiting" {
	data 400
	job SYNC=asp SERVERS=1 BATCH=40,shard:1 "DRAG=$T/drag"
	mkdir drag
	echo drag delay=4 >drag/w0
	begin first
	wait_for '[ "$(done_samples)" = 360 ]' # w0 has the last shard
	kill -STOP "$(pid_of w1)"
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	tail -n 1 first.out | grep -q ' state=done .* samples=400 .* restarts=0 '
	grep -q 'w1 has given no sign of life .* by HUNG): killed; it was T (stopped)' first.err
}

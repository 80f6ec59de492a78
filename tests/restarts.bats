# trainctl: restarts by intention, hand-over, the guard; what the log and the report say of them.
load helper

@test "kill-restart of a worker: at most its batch in hand is done again" {
	job MODEL=audit EPOCHS=10 WORKERS=3 RESTARTS=shard:1 # nor of its piece
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
	[ "$repeated" -le 110 ] # its third of a batch, and the four that it takes ahead
	rm drag/*
	wait $SUPERVISOR
	[ "$(summary first.out | field restarts)" -eq 1 ]
	exact "$(summary first.out | field checkpoint)" 2000 10
	report | grep -q '^restarted at=.* role=worker id=w1 why=kill-restart reason=asked%20for seconds='
}

@test "kill-restart of live servers, the lead too: no rollback, nothing done again" {
	job MODEL=audit SERVERS=3 WORKERS=3 EPOCHS=15 KILL_RESTART=9,window:0 CHECKPOINT=0.3
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
	job MODEL=audit SERVERS=2 EPOCHS=12 KILL_RESTART=9,window:0 CHECKPOINT=0.3 \
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
	wait_for 'in_status "^job .* state=running .* incarnation=2 "'
	rm drag/*
	wait $SUPERVISOR
	exact "$(summary first.out | field checkpoint)" 2000 12
}

@test "what a hand-over waits for is none of its price" {
	job MODEL=audit SERVERS=2 EPOCHS=12 CHECKPOINT=end
	slow 400
	begin first
	wait_for 'came_to 200'
	local still=$(pid_of ps1) cut asked
	kill -STOP $still # the checkpoint waits for it
	trainctl checkpoint --run-dir "$T/run" >checkpoint.out 2>&1 &
	cut=$!
	wait_for 'for d in run/state/checkpoints/0*; do [ -e $d/MANIFEST ] || break; done; [ -d $d ] && [ ! -e $d/MANIFEST ]'
	trainctl kill-restart ps0 --run-dir "$T/run" >answer &
	wait_for 'grep -q "^restart id=ps0 " run/state/job.log'
	asked=$(date +%s.%N)
	sleep 1.5 # what must not be in the price
	kill -CONT $still
	wait $!
	awk -v took="$(field seconds <answer)" -v from="$asked" -v to="$(date +%s.%N)" \
		'BEGIN { exit !(took > 0 && took <= to - from - 1.4) }'
	wait $cut
	rm drag/*
	wait $SUPERVISOR
}

@test "trainctl killed in the middle of a hand-over: it is adopted" {
	job MODEL=audit SERVERS=2 EPOCHS=12 KILL_RESTART=9,window:0 \
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
		wait_for "in_status '^node .* id=$id state=up pid=[0-9]* restarts=1'"
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
	solution <<-S
		#!/bin/sh
		[ ! -e '$T/all-up' ] || echo 'action kind=kill-restart role=worker id=w0 reason=slow'
		[ ! -e '$T/all-up' ] || echo 'action kind=kill-restart role=worker id=w1 reason=slow'
		echo 'action kind=none'
	S
	job MODEL=audit WORKERS=3 EPOCHS=20 SOLUTION=./solution,every:0.3 KILL_RESTART=cooldown:3600,window:3600
	slow 25
	begin first
	wait_for '[ "$(status 2>/dev/null | grep -c "^node role=worker .* state=up ")" = 3 ]'
	touch all-up
	wait_for '[ "$(logged "^decided ")" -ge 3 ]'
	# a busy machine takes its time to bring w0 back: until then it is not up
	wait_for 'grep -q "^refused kind=kill-restart id=w0 reason=window line=1" run/state/job.log'
	wait_for 'grep -q "^refused kind=kill-restart id=w1 reason=cool-down line=2" run/state/job.log'
	[ "$(logged '^restart ')" -eq 1 ]
	run trainctl kill-restart w2 --run-dir "$T/run"
	[ "$status" -eq 1 ]
	[[ $output == *cool-down* ]]
	run -66 trainctl kill-restart w9 --run-dir "$T/run"
	[[ $output == *unknown-node*" w1"* ]]
	run trainctl kill-restart shardd --run-dir "$T/run"
	[ "$status" -eq 1 ]
	[[ $output == *"only workers and servers"* ]]
	run trainctl kill-restart w2 --run-dir "$T/run" --force
	[ "$status" -eq 0 ]
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	begin second --set KILL_RESTART=1,cooldown:0,window:0
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
	echo 'drag speed=100' >drag/w3
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
	# At the end all is in it, but for reports that are on their way. A report of ten batches has their mean size, a
	# whole number: at the end of each of four epochs, where sizes differ, it may be half a sample off for each.
	local trained
	trained=$(for id in w0 w1; do grep "^series role=worker id=$id " run/state/job.log | tail -n 1 |
		field samples; done | awk '{ sum += $1 } END { print sum }')
	[ "$trained" -le $(($(summary out | field samples) + 2 * 4 * 5)) ]
	[ "$trained" -gt $(($(summary out | field samples) - 2 * 10 * 32)) ]
	grep '^series role=worker id=w0 ' run/state/job.log | tail -n 1 |
		grep -q ' time-sum=[0-9.]* compute-sum=[0-9.]* comm-sum=[0-9.]* wait-sum=[0-9.]* last='
}

@test "top and report" {
	job EPOCHS=10 SOLUTION=even,every:0.3 TEST=d.csv
	slow 500
	begin first
	wait_for 'came_to 300'
	wait_for 'trainctl top --run-dir "$T/run" | grep -q "^w1  *up .* 32 .* 0 "'
	wait_for 'trainctl top --run-dir "$T/run" | grep -q "^ps0  *up .* 64 .* 0 "'
	trainctl top --run-dir "$T/run" >table
	not grep -q e+ table
	grep -q '^NODE  *STATE  *HOST  *RATIO  *TIME  *SPEED  *SIZE  *ACCUM  *RESTARTS  *SILENT .* PID' table
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

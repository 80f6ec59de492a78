load helper

logged() { grep -c "$1" run/state/job.log 2>/dev/null || true; }
# node ID ROLE: it is up, and has this role.
node() { status 2>/dev/null | grep " id=$1 " | grep -q "role=$2 .*state=up"; }

# ---- spares ----

@test "HOT_SPARES: a spare takes a dead worker's place, who is a spare from then on: exact" {
	job MODEL=audit EPOCHS=3 WORKERS=3 SERVERS=1 HOT_SPARES=1 SHARD_RETRIES=0
	slow 200
	begin first
	wait_for 'came_to 300'
	wait_for 'node s0 spare'
	kill -9 "$(pid_of w1)"
	wait_for 'node s0 worker'
	wait_for 'node w1 spare'
	[ "$(logged '^spare id=s0 for=w1 ')" = 1 ]
	# and back again, in the place of another
	kill -9 "$(pid_of w0)"
	wait_for 'node w1 worker'
	wait_for 'node w0 spare'
	rm drag/*
	wait $SUPERVISOR
	tail -n 1 first.out | grep -q ' state=done '
	exact "$(last first.out checkpoint)" 2000 3
}

@test "HOT_SPARES: who has which place outlives the supervisor" {
	job MODEL=audit EPOCHS=3 WORKERS=2 SERVERS=1 HOT_SPARES=1 SHARD_RETRIES=0
	slow 150
	begin first
	wait_for 'came_to 200'
	wait_for 'node s0 spare'
	kill -9 "$(pid_of w1)"
	wait_for 'node s0 worker'
	wait_for 'node w1 spare'
	local spare
	spare=$(pid_of w1)
	kill -9 $SUPERVISOR
	begin second
	wait_for 'node s0 worker'
	wait_for 'node w1 spare'
	[ "$(pid_of w1)" = "$spare" ]
	kill -9 "$(pid_of s0)"
	wait_for 'node w1 worker'
	[ "$(pid_of w1)" = "$spare" ]
	rm drag/*
	wait $SUPERVISOR
	exact "$(last second.out checkpoint)" 2000 3
	# a fresh start has them where they were made for
	begin third --fresh
	wait_for 'node s0 spare || grep -q state=done third.out'
	wait $SUPERVISOR
}

@test "HOT_SPARES: a hung worker's place is taken; solutions and a rollback beside it: exact" {
	job MODEL=audit EPOCHS=3 WORKERS=3 SERVERS=2 HOT_SPARES=1 SHARD_RETRIES=0 HUNG=2 SOLUTION=pace \
		EVERY=0.3 SHORT=5 LONG=10 HEAVY_LIMIT=0
	slow 200
	begin first
	wait_for 'came_to 300'
	wait_for 'node s0 spare'
	kill -STOP "$(pid_of w2)"
	wait_for 'grep -q "^event role=worker id=w2 kind=lost" run/state/job.log'
	wait_for 'grep -q "^spare id=s0 for=w2 " run/state/job.log'
	wait_for 'node s0 worker'
	kill -9 "$(pid_of ps1)"
	wait_for '[ "$(logged "^rollback ")" -ge 1 ]'
	rm drag/*
	wait $SUPERVISOR
	exact "$(last first.out checkpoint)" 2000 3
}

@test "HOT_SPARES: with allreduce" {
	job MODEL=audit EPOCHS=3 WORKERS=2 HOT_SPARES=1 SHARD_RETRIES=0 SYNC=allreduce
	slow 150
	begin first
	wait_for 'came_to 200'
	wait_for 'node s0 spare'
	kill -9 "$(pid_of w0)"
	wait_for 'node s0 worker'
	wait_for 'node w0 spare'
	rm drag/*
	wait $SUPERVISOR
	exact "$(last first.out checkpoint)" 2000 3
}

@test "HOT_SPARES: a spare that only ever ends is given up, and the job goes on" {
	cat >launch <<-'E'
		#!/bin/sh
		case $1 in s*) exit 75 ;; esac
		shift
		exec "$@"
	E
	chmod +x launch
	job EPOCHS=3 HOT_SPARES=2 RESTARTS=1 "LAUNCH_WORKER='$T/launch %i'"
	slow 300
	begin first
	wait_for '[ "$(logged "is no spare any more: exit status 75")" = 2 ]'
	rm drag/*
	wait $SUPERVISOR
	tail -n 1 first.out | grep -q ' state=done '
}

@test "worker --spare: stop, and no supervisor" {
	data 100
	run worker --id s0 --shards none.sock --servers none.sock --data d.csv --format csv --label y \
		--dense a --sparse b --spare none.sock --wait 0
	[ "$status" -eq 69 ]
	[[ $output == *none.sock* ]]
	rm d.csv.*
	start spare worker --id s0 --shards none.sock --servers none.sock --data d.csv --format csv --label y \
		--dense a --sparse b --spare none.sock
	wait_for 'ls d.csv.* >/dev/null 2>&1' # it has its signals by then
	kill "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
}

# Nodes that stand ready, hosts that are left, tests of hosts.
load helper
. "$BATS_TEST_DIRNAME/cluster/far.bash"

# node ID ROLE: it is up, and has this role.
node() { in_status "^node role=$2 id=$1 state=up "; }

# works ID: it has done a batch: from then on a silence is one of a batch, not of its start.
works() { in_status " id=$1 state=up .* size=[1-9]"; }

# ---- spares ----

@test "WORKERS spares: a spare takes a dead worker's place, who is a spare from then on: exact" {
	job MODEL=audit EPOCHS=3 WORKERS=3,spares:1 SERVERS=1 RESTARTS=shard:never
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

@test "WORKERS spares: who has which place outlives the supervisor" {
	job MODEL=audit EPOCHS=3 WORKERS=2,spares:1 SERVERS=1 RESTARTS=shard:never
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
	ended $SUPERVISOR
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

@test "WORKERS spares: a hung worker's place is taken; solutions and a rollback beside it: exact" {
	job MODEL=audit EPOCHS=3 WORKERS=3,spares:1 SERVERS=2 RESTARTS=shard:never HUNG=2 SOLUTION=pace,every:0.3 \
		MONITOR=short:5,long:10 KILL_RESTART=0
	slow 200
	begin first
	wait_for 'came_to 300'
	wait_for 'node s0 spare'
	wait_for 'works w2'
	kill -STOP "$(pid_of w2)"
	wait_for 'grep -q "^event role=worker id=w2 kind=hung" run/state/job.log'
	wait_for 'grep -q "^spare id=s0 for=w2 " run/state/job.log'
	wait_for 'node s0 worker'
	kill -9 "$(pid_of ps1)"
	wait_for '[ "$(logged "^rollback ")" -ge 1 ]'
	rm drag/*
	wait $SUPERVISOR
	exact "$(last first.out checkpoint)" 2000 3
}

@test "WORKERS spares: with allreduce" {
	job MODEL=audit EPOCHS=3 WORKERS=2,spares:1 RESTARTS=shard:never SYNC=allreduce
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

@test "WORKERS spares: a spare that only ever ends is given up, and the job goes on" {
	cat >launch <<-'E'
		#!/bin/sh
		case $1 in s*) exit 75 ;; esac
		shift
		exec "$@"
	E
	chmod +x launch
	job EPOCHS=3 WORKERS=spares:2 RESTARTS=1 "LAUNCH_WORKER='$T/launch %i'"
	slow 300
	begin first
	wait_for '[ "$(logged "is no longer a spare: exit status 75")" = 2 ]'
	rm drag/*
	wait $SUPERVISOR
	tail -n 1 first.out | grep -q ' state=done '
}

@test "worker --spare: stop, and no supervisor" {
	data 100
	schema_file a b format=csv label=y
	model_file lr 1 1
	run worker --id s0 --shards none.sock --servers none.sock --data d.csv --schema schema \
		--model-file lr --spare none.sock --wait 0
	[ "$status" -eq 69 ]
	[[ $output == *none.sock* ]]
	rm d.csv.*
	start spare worker --id s0 --shards none.sock --servers none.sock --data d.csv --schema schema \
		--model-file lr --spare none.sock
	wait_for 'ls d.csv.* >/dev/null 2>&1' # it has its signals by then
	kill "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
}

nodes_are() { [ "$(status | sed -n 's/^node role=\(worker\|spare\) id=\([^ ]*\) state=up .*/\2/p' | sort | tr '\n' ' ')" = "$1" ]; }

# spare_in_place [KEY=VALUE]...: s0 has the place of w2, which is a spare.
spare_in_place() {
	job MODEL=audit EPOCHS=6 WORKERS=3,spares:1 RESTARTS=shard:never "$@"
	slow 200
	echo 'drag speed=25' >drag/s0
	begin first
	wait_for 'came_to 300'
	wait_for 'node s0 spare'
	kill -9 "$(pid_of w2)"
	wait_for 'node s0 worker'
	wait_for 'node w2 spare'
}

@test "WORKERS spares: scaled down and up, with a spare in a place: exact" {
	spare_in_place SERVERS=2 CHECKPOINT=1
	# The place that goes is the spare's: it is a spare again, and w2 is no more.
	run trainctl scale --workers 2 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	wait_for 'node s0 spare'
	wait_for 'nodes_are "s0 w0 w1 "'
	kill -9 "$(pid_of w0)"
	wait_for 'node s0 worker'
	wait_for 'node w0 spare'
	run trainctl scale --workers 4 --servers 1 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	wait_for 'nodes_are "s0 w0 w1 w2 w3 "'
	# s0 has the first place: it stays.
	run trainctl scale --workers 1 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	wait_for 'nodes_are "s0 w0 "'
	kill -9 $SUPERVISOR
	wait_for 'gone $SUPERVISOR'
	begin second
	wait_for 'nodes_are "s0 w0 "'
	strike ps0
	wait_for '[ "$(logged "^rollback ")" = 1 ]'
	wait_for 'nodes_are "s0 w0 "'
	rm drag/*
	wait $SUPERVISOR
	exact "$(last second.out checkpoint)" 2000 6
}

@test "WORKERS spares: scaled down, and the supervisor dies: the next one goes on with it" {
	spare_in_place SERVERS=1
	start down trainctl scale --workers 2 --run-dir "$T/run"
	wait_for '[ "$(logged "^scale workers=2 ")" = 1 ]'
	kill -9 $SUPERVISOR
	wait_for 'gone $SUPERVISOR'
	begin second
	wait_for 'nodes_are "s0 w0 w1 "'
	wait_for 'node s0 spare'
	rm drag/*
	wait $SUPERVISOR
	exact "$(last second.out checkpoint)" 2000 6
}

# ---- nodes that stop before their first batch ----

# held ID: its next process stops as it starts.
hold_back() {
	cat >launch <<-E
		#!/bin/sh
		if rm "$T/hold-\$1" 2>/dev/null; then kill -STOP \$\$; fi
		shift
		exec "\$@"
	E
	chmod +x launch
}

@test "a worker that is stopped before its first batch is found as soon as one in a batch: exact" {
	hold_back
	job MODEL=audit EPOCHS=3 WORKERS=3 SERVERS=1 RESTARTS=shard:never HUNG=4 "LAUNCH_WORKER='$T/launch %i'"
	slow 200
	touch hold-w1
	begin first
	wait_for 'grep -q "^event role=worker id=w1 kind=hung section=start silent=.* deadline=4.000000 state=T%20(stopped) " run/state/job.log'
	wait_for 'works w1'
	[ "$(logged '^event .* kind=hung ')" = 1 ]
	rm drag/*
	wait $SUPERVISOR
	exact "$(last first.out checkpoint)" 2000 3
}

@test "a worker that reads for long is not hung, one that does nothing is, after 30 s" {
	mkdir programs
	cp "$(command -v trainctl)" programs/
	for program in "$(dirname "$(command -v trainctl)")"/*; do
		[ "${program##*/}" = trainctl ] || ln -s "$program" programs/
	done
	rm programs/worker
	cat >programs/worker <<-E
		#!/bin/bash
		case "\$*" in
		*'--id w1 '*) if rm "$T/busy" 2>/dev/null; then while [ ! -e "$T/go" ]; do sleep 0.2; done; fi ;;
		*'--id w2 '*) if rm "$T/idle" 2>/dev/null; then exec sleep 1000; fi ;;
		esac
		exec "$(command -v worker)" "\$@"
	E
	chmod +x programs/worker
	PATH=$T/programs:$PATH
	job MODEL=audit EPOCHS=3 WORKERS=3 SERVERS=1 RESTARTS=shard:never
	slow 100
	touch busy idle
	begin first
	wait_for 'came_to 100'
	wait_for 'grep -q "^event role=worker id=w2 kind=hung section=start silent=.* deadline=30.000000 state=S" run/state/job.log'
	touch go
	wait_for 'works w1'
	wait_for 'works w2'
	[ "$(logged '^event .* kind=hung ')" = 1 ]
	rm drag/*
	wait $SUPERVISOR
	exact "$(last first.out checkpoint)" 2000 3
}

# ---- hosts that are left ----

far_job() { # KEY=VALUE...
	far_file 300 SERVERS=1 EPOCHS=20 RESTARTS=shard:never "$@"
	go first
}

has() { grep -q "$1" "$STATE/job.log" 2>/dev/null; }

@test "hosts: a worker that hangs starts on another host; its own is avoided: exact" {
	far_job HUNG=5
	wait_for 'came_to 500'
	wait_for 'in_status "id=w2 state=up .* host=h2"'
	wait_for 'works w2'
	on h2 pkill -STOP -f 'worker --id w2 '
	wait_for 'has "^host name=h2 state=avoided seconds=600.000000 id=w2 why="'
	wait_for 'in_status "id=w2 state=up .* host=h[01]"'
	[ "$(status | grep '^host name=h2 ' | field state)" = avoided ]
	# What is known of its process is there, not here.
	has '^event role=worker id=w2 kind=hung .* state= wchan= '
	# nobody else was started anew
	[ "$(grep -c '^event .* kind=restart ' "$STATE/job.log")" = 1 ]
	to_end
}

# bats test_tags=long
@test "hosts: a worker that stops before its first batch is found there, too: exact" {
	far_job HUNG=5
	wait_for 'came_to 500'
	wait_for 'in_status "id=w2 state=up .* host=h2"'
	wait_for 'works w2'
	# As soon as its next process is there.
	old=$(on h2 pgrep -f 'worker --id w2 ' | tail -n 1)
	on h2 pkill -9 -f 'worker --id w2 '
	wait_for 'new=$(on h2 pgrep -f "^[^ ]*worker --id w2 " | tail -n 1); [ -n "$new" ] && [ "$new" != "$old" ]'
	on h2 pkill -STOP -f 'worker --id w2 '
	wait_for 'has "^event role=worker id=w2 kind=hung .*deadline=5"'
	wait_for 'has "^host name=h2 state=avoided .* id=w2 why="'
	wait_for 'in_status "id=w2 state=up .* host=h[01]"'
	to_end
}

@test "hosts: where all hosts but one are avoided, a server goes there once: exact" {
	far_job SERVERS=2
	wait_for 'came_to 300'
	for host in 0 1; do
		wait_for "in_status 'id=w$host state=up .* host=h$host'"
		run -0 on h0 trainctl kill-restart w$host --elsewhere --force --run-dir /tmp/run
		wait_for "has '^host name=h$host state=avoided '"
	done
	on h1 pkill -9 -f 'ps-server --id ps1 '
	wait_for 'in_status "id=ps1 state=up .* host=h2"'
	[ "$(logged '^placed .*ps1 runs on ')" -eq 1 ]
	to_end
}

@test "hosts: whom one supervisor avoids, the next one avoids, too: exact" {
	far_job
	wait_for 'came_to 300'
	wait_for 'in_status "id=w2 state=up .* host=h2"'
	run -0 on h0 trainctl kill-restart w2 --elsewhere --force --run-dir /tmp/run
	wait_for 'grep -q "^host name=h2 .* avoided=[1-9]" "$STATE/kept"'
	kill -9 "$JOB_PID"
	wait_for 'gone "$JOB_PID"'
	go first
	wait_for 'in_status "^host name=h2 state=avoided "'
	to_end
}

# bats test_tags=long
@test "hosts: kill-restart --elsewhere; a spare stands on another host" {
	far_job WORKERS=2,spares:1
	wait_for 'came_to 300'
	wait_for 'in_status "id=s0 state=up .* section=wait .* host=h2"'
	on h1 pkill -9 -f 'worker --id w1 '
	wait_for 'has "^spare id=s0 for=w1 "'
	wait_for 'in_status "role=worker id=s0 state=up .* host=h2"'
	wait_for 'in_status "role=spare id=w1 state=up "'
	run on h0 trainctl kill-restart s0 --elsewhere --force --run-dir /tmp/run
	[ "$status" -eq 0 ]
	[[ $output == "ok id=s0 seconds="* ]]
	wait_for 'has "^host name=h2 state=avoided .* id=s0 why="'
	wait_for 'in_status "role=spare id=s0 state=up .* host=h[01]"'
	run on h0 trainctl kill-restart ps0 --elsewhere --force --run-dir /tmp/run
	[ "$status" -eq 1 ]
	[[ $output == *"hands-over"* ]]
	to_end
}

@test "kill-restart --elsewhere: where there is no other host" {
	job EPOCHS=1000
	slow 300
	begin first
	wait_for 'came_to 100'
	wait_for 'node w1 worker'
	run trainctl kill-restart w1 --elsewhere --run-dir "$T/run"
	[ "$status" -eq 1 ]
	[[ $output == *"no-host: w1 is not restarted now: the job has no other host"* ]]
	kill $SUPERVISOR
	wait $SUPERVISOR || true
}

# ---- self-tests ----

@test "hosts: check --self-test names the bad host; BAD_HOSTS=test:on: nothing runs there" {
	far_file 300 SERVERS=1 EPOCHS=20 BAD_HOSTS=test:on HUNG=20,start:60
	hosts_link h2 1mbit
	run on h0 trainctl check "$T/job.env" --run-dir /tmp/run --state-dir "$HOSTS/local/state" --self-test
	[ "$status" -eq 1 ]
	[[ $output == *"check job=far "* ]]
	[[ $output == *"host-test name=h2 "*" state=bad why=link:"* ]]
	go second
	wait_for 'came_to 300'
	grep -q 'host h2 is bad, as the self-test says: link:' second.err
	has '^host name=h2 state=avoided .* why=link'
	not has '^event role=worker .*kind=start .*host=h2 '
	[ "$(status | grep '^host name=h2 ' | field state)" = avoided ]
	on h0 trainctl stop --run-dir /tmp/run
	ended "$JOB_PID"
}

@test "hosts: a node is suspected: the bad host is named, and its workers leave it: exact" {
	far_job BAD_HOSTS=test:on HUNG=60,start:60 KILL_RESTART=window:0
	wait_for 'came_to 500'
	wait_for 'in_status "role=worker .* state=up .*host=h2"'
	hosts_link h2 1mbit
	printf 'action kind=kill-restart role=worker id=w1 reason=slow\n' >actions
	on h0 trainctl apply --run-dir /tmp/run <actions
	wait_for 'has "^bad-host .*h2 is bad, as the self-test says: link:"'
	wait_for 'has "^host-test name=h2 .* state=bad "'
	wait_for '[ "$(status | grep -c "role=worker .* state=up .*host=h[01]")" = 3 ]'
	# Once for the host, not again for each of its workers.
	[ "$(grep -c '^host name=h2 state=avoided ' "$STATE/job.log")" -eq 1 ]
	hosts_link h2 none
	to_end
}

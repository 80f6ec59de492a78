# SYNC=allreduce on one machine: a lead of its own, and a replica that has all parameters.
load helper

score() { summary "$1" | field "$2"; }

# strike ID: kill -9, as soon as it runs; it comes back as another process.
strike() {
	wait_for '[ -n "$(pid_of '"$1"')" ]'
	local pid
	pid=$(pid_of "$1")
	kill -9 "$pid"
	wait_for '[ -n "$(pid_of '"$1"')" ] && [ "$(pid_of '"$1"')" != '"$pid"' ]'
}

# exact_job ARG...: job of the audit model, under way, slow until `go`.
exact_job() {
	job MODEL=audit EPOCHS=5 SYNC=allreduce CHECKPOINT=0.5 "$@"
	slow 400
	begin first
}

# go OUT: as fast as it can, to the end: exact.
go() {
	rm drag/*
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
	[ "$(score "$1" state)" = done ]
	exact "$(score "$1" checkpoint)" 2000 5
}

@test "a job runs, is scored as with servers, and leaves nothing behind" {
	data 4000
	job "TEST=$T/d.csv" EPOCHS=4 WORKERS=3
	run_job >servers.out
	rm -r run
	trainctl check job.env --set SYNC=allreduce >check.out
	[ "$(field servers <check.out)" -eq 0 ]
	run_job --set SYNC=allreduce >first.out
	[ "$(score first.out state)" = done ]
	[ "$(score first.out restarts)" -eq 0 ]
	awk -v a="$(score servers.out auc)" -v b="$(score first.out auc)" 'BEGIN { exit !(b > a - 0.001) }'
	grep -q '^begin job=tiny workers=3 servers=0 replicas=1 .* sync=allreduce ' run/state/job.log
	grep -q '^event role=lead id=lead kind=ready ' run/state/job.log
	grep -q '^event role=replica id=r0 kind=ready ' run/state/job.log
	[ "$(ls "$(score first.out checkpoint)" | grep -c '^part-')" -eq 1 ]
	not pgrep -f "$T/run"
	trainctl report --text --run-dir "$T/run" >report
	grep -q '^  3 workers, 1 replica, batches of ' report
	trainctl report --run-dir "$T/run" | grep -q '^node .*role=replica id=r0 '
}

@test "status names the lead and the replica; a solution sees a barrier, and kills by intention" {
	exact_job
	wait_for 'came_to 300'
	status | grep -q '^node role=lead id=lead state=up '
	status | grep -q '^node role=replica id=r0 state=up '
	run status
	[[ $output != *role=server* ]]
	run trainctl kill-restart --run-dir "$T/run" r0
	[ "$status" -eq 1 ]
	[[ $output == *"r0 is not restarted now: no other replica has the parameters that it would lose"* ]]
	local before
	before=$(pid_of lead)
	trainctl kill-restart --run-dir "$T/run" lead | grep -q '^ok id=lead seconds='
	[ "$(pid_of lead)" != "$before" ]
	[ "$(logged '^rollback ')" -eq 0 ]
	go first.out
}

@test "workers killed: exact, and nothing goes back" {
	exact_job WORKERS=3
	for at in 300 600 900; do
		wait_for "came_to $at"
		strike "w$((at / 300 % 3))"
	done
	go first.out
	[ "$(score first.out restarts)" -eq 3 ]
	[ "$(logged '^rollback ')" -eq 0 ]
}

# stalest: the greatest delay that a row of the log has.
stalest() { sed -n 's/^row .* delay-most=\([0-9]*\).*/\1/p' run/state/job.log | sort -n | tail -n 1; }

@test "delay:1, whoever is killed: exact, and no gradient is staler than one iteration" {
	exact_job WORKERS=3 SYNC=allreduce,delay:1
	wait_for 'came_to 300'
	strike w1
	wait_for 'came_to 600'
	strike lead
	wait_for 'in_status "^node role=worker id=w0 .* delay=1 "'
	wait_for 'came_to 900'
	strike r0
	wait_for '[ "$(logged "^rollback .*the last replica ended: all replicas go back")" -eq 1 ]'
	go first.out
	[ "$(stalest)" -eq 1 ]
}

@test "late:1.5: sums go on without a batch that takes too long; whoever is killed, exact, and nothing is staler" {
	exact_job WORKERS=3 SYNC=allreduce,delay:1,late:1.5
	echo 'drag speed=20' >drag/w2 # late also while the others crawl
	wait_for 'in_status "^node role=worker id=w2 .* stale=[1-9]"'
	in_status '^node role=worker id=w0 .* stale=0'
	strike w2
	wait_for 'in_status "^node role=worker id=w2 .* stale=[1-9]"'
	strike lead
	wait_for 'in_status "^node role=worker id=w2 .* stale=[1-9]"'
	strike w0
	wait_for 'came_to 900'
	strike r0
	wait_for '[ "$(logged "^rollback .*the last replica ended: all replicas go back")" -eq 1 ]'
	wait_for 'in_status "^node role=worker id=w2 .* stale=[1-9]"'
	go first.out
	[ "$(stalest)" -eq 1 ]
	trainctl report --run-dir "$T/run" | grep -q '^node role=worker id=w2 .* stale=[1-9]'
	trainctl report --text --run-dir "$T/run" | grep -q ' more were dropped, too stale or too late for SYNC, and trained again'
}

@test "delay:1 learns, with sizes that are set at the barrier, and with backup workers" {
	data 4000
	job "TEST=$T/d.csv" EPOCHS=4 WORKERS=3 SYNC=allreduce
	run_job >exact.out
	for solution in none lb-bsp backup:1,every:0.1; do
		rm -r run
		run_job --set SYNC=allreduce,delay:1 --set SOLUTION=$solution >job.out
		[ "$(score job.out samples)" -eq 16000 ]
		[ "$(stalest)" -eq 1 ]
		awk -v a="$(score exact.out auc)" -v b="$(score job.out auc)" 'BEGIN { exit !(b > a - 0.01) }'
	done
	trainctl report --text --run-dir "$T/run" | grep -q 'updates missed at most 1 others, 95 % at most 1, all at most 1'
}

@test "the lead killed: another one goes on, with what was in force; exact, and nothing goes back" {
	exact_job WORKERS=3
	wait_for 'came_to 300'
	echo 'action kind=adjust-bs id=w0 size=30 accum=1' | trainctl apply --run-dir "$T/run" | grep -q '^ok actions=1 '
	strike lead
	wait_for '[ "$(logged "^acted by=in-force ")" -eq 1 ]'
	wait_for 'came_to 900'
	wait_for 'in_status "^node role=worker id=w0 .* size=30 "'
	strike lead
	strike shardd
	go first.out
	[ "$(logged '^rollback ')" -eq 0 ]
}

@test "the only replica killed: all goes back to the cut, and shardd with it; exact" {
	exact_job
	wait_for 'came_to 500'
	strike r0
	wait_for '[ "$(logged "^rollback .*the last replica ended: all replicas go back")" -eq 1 ]'
	wait_for 'in_status "^job .* state=running .* incarnation=2 "'
	wait_for 'came_to 700'
	go first.out
}

@test "a stopped lead, and a stopped replica, are given up; exact" {
	exact_job HUNG=2 CHECKPOINT=30
	wait_for 'came_to 300'
	kill -STOP "$(pid_of lead)"
	wait_for '[ "$(logged "^event role=lead id=lead kind=hung section=exchange ")" -eq 1 ]'
	wait_for 'in_status "^node role=lead id=lead state=up "'
	[ "$(logged '^rollback ')" -eq 0 ]
	wait_for 'came_to 600'
	kill -STOP "$(pid_of r0)"
	wait_for '[ "$(logged "^event role=replica id=r0 kind=hung ")" -eq 1 ]'
	wait_for '[ "$(logged "^rollback ")" -eq 1 ]'
	go first.out
}

@test "trainctl killed, then the lead: both come back, the replica was never away; exact" {
	exact_job
	wait_for 'came_to 300'
	local replica lead
	replica=$(pid_of r0) lead=$(pid_of lead)
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	kill -9 "$lead"
	begin second
	wait_for 'in_status "^node role=lead id=lead state=up "'
	[ "$(pid_of r0)" = "$replica" ]
	[ "$(pid_of lead)" != "$lead" ]
	[ "$(logged '^rollback ')" -eq 0 ]
	go second.out
}

@test "trainctl killed, and its replica: the next one rolls back; exact" {
	exact_job
	wait_for 'came_to 300'
	local replica
	replica=$(pid_of r0)
	kill -9 $SUPERVISOR
	wait $SUPERVISOR || true
	kill -9 "$replica"
	begin second
	wait_for '[ "$(logged "^rollback ")" -eq 1 ]'
	go second.out
}

@test "stopped, and gone on with servers; and back" {
	exact_job
	wait_for 'came_to 500'
	trainctl stop --run-dir "$T/run"
	wait $SUPERVISOR || true
	begin second --set SYNC=bsp
	wait_for 'came_to 1500'
	status | grep -q '^node role=server id=ps1 '
	trainctl stop --run-dir "$T/run"
	wait $SUPERVISOR || true
	begin third
	go third.out
}

@test "sizes are set at the barrier; backup workers; ssp has no place here" {
	job EPOCHS=3 SYNC=allreduce SOLUTION=lb-bsp WORKERS=3
	run_job >first.out
	[ "$(score first.out state)" = done ]
	[ -s run/state/balance.log ]
	rm -r run
	run_job --set SOLUTION=backup:1,every:0.1 >second.out
	[ "$(score second.out state)" = done ]
	run -78 run_job --set SYNC=allreduce:3
	[[ $output == *"SYNC: 'allreduce:3' is none of bsp|ssp:N|asp|allreduce"* ]]
}

@test "every solution; workers without which the job is faster are said, once" {
	data 3000
	job SYNC=allreduce WORKERS=3 BATCH=48 SOLUTION=every:0.1,profile:on MONITOR=short:0.5,long:1
	for solution in even antdt-dd antdt-nd pace; do
		run_job --set "SOLUTION=$solution" >job.out
		[ "$(score job.out state)" = done ]
		[ "$(score job.out samples)" = 3000 ]
		rm -r run
	done
	slow 4000
	for w in w1 w2; do echo 'drag speed=4000 delay=0.1' >drag/$w; done
	run run_job --set SOLUTION=lb-bsp-gpu
	[ "$status" -eq 0 ]
	for w in w1 w2; do
		[ "$(grep -c "^trainctl: $w: the job is faster without it$" <<<"$output")" -eq 1 ]
	done
}

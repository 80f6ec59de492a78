# A job leaves hosts and takes them into use again while it trains. MODEL=audit counts how often each row
# is in the model. Hosts are namespaces of this machine.
load helper
. "$BATS_TEST_DIRNAME/cluster/far.bash"

far_job() { # KEY=VALUE...
	far_file 400 SERVERS=3 EPOCHS=10 CHECKPOINT=0.5 "$@"
	for w in w4 w5; do cp drag/w0 "drag/$w"; done
	go first
	wait_for 'came_to 300'
}
scale() { on h0 trainctl scale --run-dir /tmp/run "$@"; }
# hosts_of ROLE: "ID@HOST ..." of those that are up
hosts_of() {
	status 2>/dev/null | grep "^node role=$1 .* state=up " |
		sed 's/.* id=\([^ ]*\) .* host=\([^ ]*\).*/\1@\2/' | tr '\n' ' '
}
host() { status | grep "^host name=$1 " | field state; }
# there HOST: processes that train
there() { on "$1" sh -c "ps -e -o comm= | grep -cE '^(worker|ps-server|fabricd)'" || true; }
further() { # more samples are in the model
	local before
	before=$(done_samples)
	wait_for '[ "$(done_samples)" -gt '"$((before + 200))"' ]'
}
# From three hosts to one, to three, to two.
one_three_two() {
	run scale --hosts h0
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == "ok workers=3 servers=3 hosts=h0 seconds="* ]]
	[ "$(hosts_of worker)" = "w0@h0 w1@h0 w2@h0 " ]
	[ "$(host h1) $(host h2)" = "unused unused" ]
	[ "$(there h1)$(there h2)" = 00 ]
	further
	run scale --hosts h0,h1,h2
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == "ok workers=3 servers=3 seconds="* ]]
	[ "$(hosts_of worker)" = "w0@h0 w1@h1 w2@h2 " ]
	[ "$(host h1) $(host h2)" = "there there" ]
	further
	run scale --hosts h0,h2 --workers 4
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == "ok workers=4 servers=3 hosts=h0,h2 seconds="* ]]
	[ "$(hosts_of worker)" = "w0@h0 w1@h2 w2@h2 w3@h0 " ]
	[ "$(there h1)" = 0 ]
	further
}

@test "scale --hosts: three hosts, 1, 3, 2 under bsp: every row exactly once an epoch" {
	far_job
	[ "$(hosts_of server)" = "ps0@h0 ps1@h1 ps2@h2 " ]
	one_three_two
	[ "$(hosts_of server)" = "ps0@h0 ps1@h2 ps2@h2 " ]
	run scale --hosts h1,h2
	echo "$output"
	[[ $output == "ok workers=4 servers=3 hosts=h1,h2 seconds="* ]]
	[ "$(hosts_of lead) $(hosts_of server)" = "lead@h0  ps0@h1 ps1@h1 ps2@h2 " ]
	further
	to_end
	[ "$(logged '^rollback ')" -eq 0 ]
	not grep -q "can't be brought" first.err
	[ "$(summary first.out | field restarts)" = 0 ]
}

# bats test_tags=long
@test "scale --hosts: 1, 3, 2 under allreduce: every row exactly once an epoch" {
	far_job SYNC=allreduce
	[ "$(hosts_of replica)" = "r0@h0 r1@h1 r2@h2 " ]
	one_three_two
	[ "$(hosts_of replica)" = "r0@h0 r2@h2 " ]
	to_end
	[ "$(logged '^rollback ')" -eq 0 ]
}

# bats test_tags=long
@test "scale --hosts: asp: every row at least once an epoch; what can't be is refused with words" {
	far_job SYNC=asp
	run -1 scale --hosts h0,h7
	[[ $output == *"no-host: 'h7' is none of HOSTS"* ]]
	run -1 scale --hosts ,
	[[ $output == *"bad-scale: a job needs one host at least"* ]]
	scale --hosts h1,h0,h2
	not grep -q '^scale ' "$STATE/kept"
	one_three_two
	# One that is not used any more may go; before it is used again it is asked.
	hosts_kill h1
	further
	run -1 scale --hosts h0,h1,h2
	echo "$output"
	[[ $output == *"no-host: h1 does not answer"* ]]
	[ "$(logged '^scale-refused hosts=h0,h1,h2 code=no-host ')" -eq 1 ]
	hosts_boot h1
	scale --hosts h0,h1,h2
	[ "$(hosts_of worker)" = "w0@h0 w1@h1 w2@h2 w3@h0 " ]
	to_end exact_or_more
}

@test "drain: two hosts are told to go, one of them while a worker there stands still; exact" {
	far_job HUNG=120
	run -66 on h0 trainctl drain h7 --run-dir /tmp/run
	[[ $output == *"unknown-node: 'h7' is neither a host nor a node"* ]]
	run -64 on h0 trainctl drain h1 --within soon --run-dir /tmp/run
	run -64 on h0 trainctl drain --run-dir /tmp/run
	# Both at once: the second one is not taken into use again by the first.
	on h2 pkill -STOP -x worker
	start one on h0 trainctl drain h1 --within 2 --run-dir /tmp/run
	one=$PID
	wait_for '[ "$(logged "^scale ")" -eq 1 ]'
	run -0 on h0 trainctl drain h2 --within 3 --run-dir /tmp/run
	echo "$output"
	[[ $output == "ok workers=3 servers=3 hosts=h0 seconds="* ]]
	ended $one
	[[ $(cat one.out) == "ok workers=3 "* ]]
	[ "$(hosts_of worker)" = "w0@h0 w1@h0 w2@h0 " ]
	[ "$(there h1)$(there h2)" = 00 ]
	[ "$(logged '^warning .*w2 has not left h2 in time')" -ge 1 ]
	run -1 on h0 trainctl drain h0 --run-dir /tmp/run
	[[ $output == *"a job needs one host at least"* ]]
	further
	scale --hosts h0,h1
	[ "$(hosts_of worker)" = "w0@h0 w1@h1 w2@h0 " ]
	# How long the first notice gave h1 is over.
	late=$(logged '^warning .* has not left h1 in time')
	run -0 on h0 trainctl drain h1 --run-dir /tmp/run
	[ "$(logged '^warning .* has not left h1 in time')" -eq "$late" ]
	to_end
}

@test "drain: what waits for a lead that stands still, a checkpoint say, keeps no host longer than it has" {
	far_job HUNG=600
	on h0 pkill -STOP -f '^[^ ]*ps-server .*--id lead '
	sleep 2 # a checkpoint is wanted twice a second
	start one on h0 trainctl drain h1 --within 1 --run-dir /tmp/run
	wait_for '[ "$(logged "^warning .*w1 has not left h1 in time")" -ge 1 ]'
	ended $PID # with its server gone all go back to a checkpoint: the lead, too, is another one
	[[ $(cat one.out) == "ok workers=3 "* ]]
	[ "$(there h1)" = 0 ]
	to_end
}

@test "scale --hosts: trainctl is killed in the middle: the next one goes on with it; it holds after a stop" {
	far_job
	start down scale --hosts h0,h2
	wait_for '[ "$(logged "^scale ")" -ge 1 ]'
	kill -9 $JOB_PID
	ended $JOB_PID
	go second
	wait_for '[ "$(logged "^scaled .* hosts=h0,h2 \|^host name=h1 state=unused")" -ge 1 ]'
	wait_for '[ "$(hosts_of worker)" = "w0@h0 w1@h2 w2@h2 " ]'
	wait_for '[ "$(hosts_of server)" = "ps0@h0 ps1@h2 ps2@h2 " ]'
	further
	on h0 trainctl stop --run-dir /tmp/run
	ended $JOB_PID
	go third
	wait_for '[ "$(hosts_of worker)" = "w0@h0 w1@h2 w2@h2 " ]'
	[ "$(host h1)" = unused ]
	further
	to_end
}

@test "scale --hosts: trainctl is killed before it has kept where a node runs: the next one knows it" {
	far_job
	rm -f "$STATE/kept"
	mkdir "$STATE/kept"
	on h0 trainctl kill-restart w1 --elsewhere --force --run-dir /tmp/run
	wait_for '[[ $(hosts_of worker) == *"w1@h"[02]" "* ]]'
	local before
	before=$(hosts_of worker)
	kill -9 $JOB_PID
	ended $JOB_PID
	rmdir "$STATE/kept"
	go second
	wait_for '[ "$(hosts_of worker | wc -w)" -eq 3 ]'
	[ "$(hosts_of worker)" = "$before" ]
	to_end exact_or_more
}

# bats test_tags=long
@test "scale --hosts: trainctl is killed in the middle, and who comes gets no parameters: those who have them stay" {
	cat >launch <<-END
	#!/bin/sh
	case "\$*" in
	*'--id r1 '*) while [ -e "$T/hold" ]; do sleep 0.1; done ;;
	esac
	exec "\$@"
	END
	chmod +x launch
	far_job SYNC=allreduce HUNG=600 "LAUNCH_SERVER=$T/launch"
	scale --hosts h0
	touch hold
	start down scale --hosts h1
	wait_for '[ "$(logged "^scale .* hosts=h1 ")" -ge 1 ]'
	kill -9 $JOB_PID
	ended $JOB_PID
	go second
	wait_for 'grep -q "not scaled: new hosts are not ready" second.err'
	wait_for '[ "$(hosts_of replica)" = "r0@h0 " ]'
	further
	rm hold
	scale --hosts h0,h1,h2
	[ "$(hosts_of replica)" = "r0@h0 r1@h1 r2@h2 " ]
	to_end
	[ "$(logged '^rollback ')" -eq 0 ]
}

# bats test_tags=long
@test "scale --hosts: a host that dies while servers go there is not used" {
	far_job CHECKPOINT=end # none waits for the one that is stopped
	scale --hosts h0
	on h0 kill -STOP "$(pid_of ps1)"
	start up scale --hosts h0,h1,h2
	wait_for '[ "$(hosts_of server)" = "ps0@h0 ps1@h0 ps2@h2 " ]'
	hosts_kill h1
	on h0 kill -CONT "$(pid_of ps1)"
	ended "$PID"
	wait_for '[ "$(hosts_of server)" = "ps0@h0 ps1@h2 ps2@h2 " ]'
	further
	to_end
}

# bats test_tags=long
@test "scale --hosts: the machine of trainctl need not train; replicas of the others have all" {
	far_job SYNC=allreduce
	scale --hosts h1
	[ "$(hosts_of worker)" = "w0@h1 w1@h1 w2@h1 " ]
	[ "$(hosts_of replica)" = "r1@h1 " ]
	[ "$(host h0)" = unused ]
	further
	scale --hosts h0,h2
	[ "$(hosts_of replica)" = "r0@h0 r2@h2 " ]
	further
	to_end
}

# meanwhile WORDS HOST PATTERN: a change, and in the middle of it a process dies.
meanwhile() {
	local before asked
	before=$(logged '^scale ')
	start change on h0 trainctl scale --run-dir /tmp/run --hosts "$1"
	asked=$PID
	wait_for '[ "$(logged "^scale ")" -gt '"$before"' ]'
	on "$2" pkill -9 -f "$3" || true
	ended $asked
	cat change.out change.err
	[ "$status" -eq 0 ]
	further
}

# bats test_tags=long
@test "scale --hosts: a server, a replica, a worker, a fabricd die meanwhile: every row exactly once an epoch" {
	far_job
	meanwhile h0,h2 h2 '^[^ ]*ps-server --id ps2 '
	meanwhile h0,h1,h2 h2 '^[^ ]*fabricd '
	meanwhile h0,h1 h1 '^[^ ]*worker --id w1 '
	[ "$(hosts_of worker)" = "w0@h0 w1@h1 w2@h0 " ]
	[ "$(hosts_of server)" = "ps0@h0 ps1@h1 ps2@h0 " ]
	to_end
}

@test "scale --hosts: the same under allreduce" {
	far_job SYNC=allreduce
	meanwhile h0,h2 h2 '^[^ ]*ps-server --id r2 '
	meanwhile h0,h1,h2 h2 '^[^ ]*fabricd '
	meanwhile h1 h1 '^[^ ]*worker --id w1 '
	meanwhile h1,h2 h0 '^[^ ]*ps-server --id lead '
	[ "$(hosts_of worker)" = "w0@h1 w1@h1 w2@h2 " ]
	to_end
}

# ---- workers and servers of several hosts ----

@test "scale: workers 3, 6, 2, servers 2, 4, 1 on three hosts under bsp: every row exactly once an epoch" {
	far_job SERVERS=2
	scale --workers 6 --servers 4
	[ "$(hosts_of worker)" = "w0@h0 w1@h1 w2@h2 w3@h0 w4@h1 w5@h2 " ]
	[ "$(hosts_of server)" = "ps0@h0 ps1@h1 ps2@h2 ps3@h0 " ]
	further
	scale --workers 2 --servers 1
	[ "$(hosts_of worker)" = "w0@h0 w1@h1 " ]
	[ "$(hosts_of server)" = "ps0@h0 " ]
	further
	to_end
	[ "$(logged '^rollback ')" -eq 0 ]
	[ "$(grep -c '^event .* kind=failed' "$STATE/job.log")" -eq 0 ]
	not grep -q "can't be brought" first.err
}

@test "scale: workers 3, 6, 2 on three hosts under allreduce: every row exactly once an epoch" {
	far_job SYNC=allreduce
	scale --workers 6
	[ "$(hosts_of worker)" = "w0@h0 w1@h1 w2@h2 w3@h0 w4@h1 w5@h2 " ]
	further
	scale --workers 2
	[ "$(hosts_of worker)" = "w0@h0 w1@h1 " ]
	further
	to_end
}

@test "a server of another host hands over when the checkpoint that it went back to is gone; exact" {
	local cut
	far_file 400 SERVERS=2 EPOCHS=15 CHECKPOINT=0.3,keep:1
	go first
	wait_for 'in_status "^job .* state=running .* checkpoint=[^ ]*/checkpoints/"'
	crawl
	on h1 pkill -9 -x ps-server || on h2 pkill -9 -x ps-server
	wait_for '[ "$(logged "^rollback ")" -gt 0 ] && in_status "^job .* state=running .* checkpoint=([^ ]*)"'
	cut=$STATE/checkpoints/$(basename "${BASH_REMATCH[1]}")
	wait_for '[ ! -e "$cut" ] && [ "$(logged "^pruned ")" -gt 2 ]'
	on h0 trainctl kill-restart ps0 --force --run-dir /tmp/run
	on h0 trainctl kill-restart ps1 --force --run-dir /tmp/run
	to_end
}

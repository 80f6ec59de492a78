# Standbys on another host than their server (namespaces of this machine): a server dies, or its host, and
# training goes on without a rollback. MODEL=audit counts how often each row is in the model.
# rooms: ps run
load helper
. "$BATS_TEST_DIRNAME/cluster/far.bash"

far_job() { # KEY=VALUE...
	far_file 400 SERVERS=3,standby:on CHECKPOINT=0.5 "$@"
	go first
	wait_for 'all_in_force'
	crawl
}

# in_force ID: its standby knows everything, and is on another host; $SERVER, $STANDBY: the two hosts.
in_force() {
	in_status "^node role=server id=$1 state=up .* host=([^ ]*) .* standby=in-force standby-host=([^ ]*)( |\$)" || return 1
	SERVER=${BASH_REMATCH[1]} STANDBY=${BASH_REMATCH[2]}
	[ "$SERVER" != "$STANDBY" ]
}
all_in_force() { in_force ps0 && in_force ps1 && in_force ps2; }
taken_over() { [ "$(logged '^takes-over ')" -eq "$1" ] && all_in_force; } # TIMES
further() { # more samples are in the model
	local before
	before=$(done_samples)
	wait_for '[ "$(done_samples)" -gt '"$((before + 200))"' ]'
}
kill_server() { # ID
	wait_for "in_force $1"
	on "$SERVER" pkill -9 -f "^[^ ]*ps-server --id $1 "
}
no_rollback() { [ "$(logged '^rollback ')" -eq 0 ]; }

servers_and_host_die() { # SYNC
	far_job EPOCHS=15 SYNC="$1"
	kill_server ps1
	wait_for 'taken_over 1'
	further
	on h0 pkill -9 -f '^[^ ]*ps-server --id lead ' # which has no standby
	further
	wait_for "in_force ps1"
	[ "$SERVER" = h2 ]
	hosts_kill h2 # both servers
	wait_for '[ "$(logged "^host name=h2 state=gone ")" -eq 1 ]'
	wait_for 'taken_over 3'
	further
	to_end
	no_rollback
}

@test "servers die, then a host with its servers: their standbys on other hosts take over; exact" {
	servers_and_host_die bsp
}

# In short, under asp: tests/fault/standby-hosts --short kills one at random of what may die, and the lead.
# bats test_tags=long
@test "asp: servers die, then a host with its servers: their standbys on other hosts take over; exact" {
	servers_and_host_die asp
}

@test "trainctl's machine has no parameters: the first server dies with its host, then the lead; exact" {
	far_file 400 EPOCHS=8 HOSTS=h1,h2 SERVERS=2,standby:on CHECKPOINT=0.5
	go first
	wait_for 'in_force ps0 && in_force ps1'
	crawl
	[ "$(status | grep '^node ' | grep -c ' host=h0 ')" -eq 4 ] # fabric, shardd, monitor, lead
	in_force ps0
	hosts_kill "$SERVER"
	wait_for '[ "$(logged "^takes-over .*ps0: ")" -eq 1 ]'
	further
	on h0 pkill -9 -f '^[^ ]*ps-server --id lead '
	further
	to_end
	no_rollback
}

# bats test_tags=long
@test "divergence: a server dies with all workers of the other hosts, which kept what its standby lacks; exact" {
	local host
	far_job EPOCHS=30 SYNC=asp SERVERS=3,standby:on,divergence:10000
	further
	wait_for 'in_force ps1'
	on "$SERVER" pkill -STOP -f "^[^ ]*ps-server --id ps1 " # it can't send a difference
	for host in h0 h1 h2; do
		[ $host = "$SERVER" ] || on $host pkill -9 -f '^[^ ]*worker --id '
	done
	on "$SERVER" pkill -9 -f "^[^ ]*ps-server --id ps1 "
	wait_for 'taken_over 1 || ! no_rollback'
	further
	to_end
	no_rollback
	for host in h0 h1 h2; do [ -z "$(on $host ls /dev/shm)" ]; done
}

@test "the fabric begins anew, a standby's host dies and comes back: standbys are there again; exact" {
	far_job EPOCHS=15
	on h1 pkill -9 -x fabricd
	wait_for '[ "$(logged "^standby-ended ")" -eq 3 ]'
	wait_for all_in_force
	wait_for "in_force ps1"
	[ "$SERVER" = h1 ]
	hosts_kill h2 # where the standby of ps1 is, and ps2
	wait_for '[ "$(logged "^host name=h2 state=gone ")" -eq 1 ]'
	wait_for 'taken_over 1'
	hosts_boot h2
	wait_for '[ "$(logged "^host name=h2 state=there ")" -eq 1 ]'
	wait_for all_in_force
	kill_server ps1
	wait_for 'taken_over 2'
	further
	to_end
	no_rollback
}

@test "trainctl is killed, then a server: the next trainctl lets its standby take over; exact" {
	local standby
	far_job EPOCHS=15
	wait_for "in_force ps1"
	standby=$STANDBY
	on h0 pkill -9 -x trainctl
	wait "$JOB_PID" || true
	on "$SERVER" pkill -9 -f "^[^ ]*ps-server --id ps1 "
	go second
	wait_for all_in_force
	[ "$(logged "^event role=server id=ps1 kind=adopt host=$standby ")" -eq 1 ]
	kill_server ps1
	wait_for 'taken_over 1'
	further
	to_end
	no_rollback
}

@test "scale --hosts: standbys leave a host with the servers, and come back to it; exact" {
	local pid
	far_job EPOCHS=20
	run on h0 trainctl scale --run-dir /tmp/run --hosts h0,h1
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(on h2 sh -c "ps -e -o comm= | grep -cE '^(worker|ps-server|fabricd)'")" = 0 ]
	wait_for all_in_force
	run on h0 trainctl scale --run-dir /tmp/run --hosts h0
	echo "$output"
	[ "$status" -eq 0 ]
	wait_for 'in_status "^node role=server id=ps1 state=up .* host=h0 .* standby=in-force standby-host=h0( |$)"'
	# The standby is killed, as any that ends: the server was one, too, so its command line says nothing.
	pid=$(status | sed -n 's/^node role=server id=ps1 .* pid=\([0-9]*\) .*/\1/p')
	on h0 sh -c "pgrep -f '^[^ ]*ps-server --id ps1 ' | grep -vx $pid | xargs kill -9"
	run on h0 trainctl scale --run-dir /tmp/run --hosts h0,h1,h2
	echo "$output"
	[ "$status" -eq 0 ]
	wait_for all_in_force
	kill_server ps1
	wait_for 'taken_over 1'
	further
	to_end
	no_rollback
}

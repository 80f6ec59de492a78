# The cluster that other tests run on: tests/cluster/hosts.
load helper
. "$BATS_TEST_DIRNAME/cluster/hosts.bash"

teardown_more() { hosts_down; }

need() { command -v "$1" >/dev/null || skip "no $1 here"; }

# receives HOST: what is sent to port 7 there comes into $T/received.
receives() {
	start receiver on "$1" socat -u TCP-LISTEN:7,reuseaddr CREATE:"$T/received"
	wait_for "on $1 ss -Hltn 'sport = 7' | grep -q 7"
}

@test "each host has processes, a name, an address and directories of its own" {
	hosts_up -n 2 -p "$T/own"
	[ "$(on h1 hostname)" = h1 ]
	[ "$(on h1 id -un)" = user ]
	on h0 touch /tmp/a /dev/shm/a "$HOSTS/local/a" "$T/own/a"
	[ -e "$HOSTS/h0/a" ]
	for name in /tmp/a /dev/shm/a "$HOSTS/local/a" "$T/own/a"; do
		not on h1 test -e "$name"
	done
	on h0 touch "$T/shared"
	on h1 test -e "$T/shared"
	start sleeper on h0 sleep 1000
	wait_for "on h0 pgrep -x sleep"
	not on h1 pgrep -x sleep
	run on h1 sh -c 'exit 7'
	[ "$status" -eq 7 ]
	run on h1 sh -c 'head -c 1000000 /dev/zero >"$0/small/a"' "$HOSTS"
	[ "$status" -ne 0 ]
	[[ $output == *"No space left"* ]]
}

@test "what one host sends the other hears; a link that is down, and one that is slow" {
	hosts_up -n 2
	receives h1
	echo hello | on h0 socat -u - TCP:h1:7
	ended "$PID"
	[ "$(cat received)" = hello ]
	hosts_link h1 down
	run on h0 socat -u /dev/null TCP:h1:7,connect-timeout=0.3
	[ "$status" -ne 0 ]
	hosts_link h1 up
	hosts_link h1 8mbit
	[[ $(on h1 tc qdisc show dev eth0) == *"tbf"*"rate 8Mbit"* ]]
	receives h1
	head -c 200000 /dev/zero | on h0 socat -u - TCP:h1:7
	ended "$PID"
	[ "$(stat -c %s received)" -eq 200000 ]
	hosts_link h1 none
	[[ $(on h1 tc qdisc show dev eth0) != *"tbf"* ]]
}

@test "a host dies at once, and comes back empty" {
	hosts_up -n 2
	on h1 touch /tmp/a "$HOSTS/local/a"
	receives h1
	echo hello | on h0 socat -u - TCP:h1:7
	ended "$PID"
	rm received
	start sleeper on h1 sleep 1000
	wait_for "on h1 pgrep -x sleep"
	hosts_kill h1
	ended "$PID"
	[ "$status" -eq 137 ]
	run on h1 true
	[ "$status" -eq 69 ]
	hosts_boot h1
	not on h1 test -e /tmp/a
	on h1 test -e "$HOSTS/local/a"
	not on h1 pgrep -x sleep
	# h0 remembers its hardware's address
	receives h1
	echo hello | on h0 socat -u - TCP:h1:7,connect-timeout=2
	ended "$PID"
	[ "$(cat received)" = hello ]
}

@test "a command on a host dies with who asked for it; other signals reach it by its own pid" {
	hosts_up -n 1
	start sleeper on h0 sleep 1000
	wait_for "on h0 pgrep -x sleep"
	kill -9 "$PID"
	ended "$PID"
	wait_for "! on h0 pgrep -x sleep"
	start sleeper on h0 sh -c 'trap "exit 4" TERM; touch "$0"; while :; do sleep 0.05; done' "$T/ready"
	wait_for "[ -e ready ]"
	kill "$(started_on "$PID")"
	ended "$PID"
	[ "$status" -eq 4 ]
}

@test "nothing is left of hosts that were killed" {
	hosts_up -n 2
	# A name that is this test's: the hosts' processes are seen from outside.
	on h1 sh -c 'cp "$(command -v sleep)" "$0" && setsid "$0" 1000 >/dev/null 2>&1 3>&- &' "$T/sleep.$$"
	wait_for "pgrep -f '$T/sleep.$$'"
	kill -9 "$HOSTS_PID"
	wait "$HOSTS_PID" || true
	HOSTS_PID=
	wait_for "! pgrep -f '$T/sleep.$$'"
	wait_for "! pgrep -f 'cluster/hosts .* $HOSTS'"
}

@test "ssh from each host to each, as a user with keys of its own; mpirun over it" {
	need mpirun
	hosts_up -s
	[ "$(on h0 ssh h2 hostname)" = h2 ]
	[ "$(on h2 ssh h0 id -un)" = user ]
	run on h1 ssh h0 'exit 3'
	[ "$status" -eq 3 ]
	[ -d "$HOSTS/h1/bin" ]
	printf '#!/bin/sh\necho mine\n' >"$HOSTS/h1/bin/what"
	chmod +x "$HOSTS/h1/bin/what"
	[ "$(on h0 ssh h1 what)" = mine ]
	[ "$(mpirun_on h0,h1,h2 hostname | sort | tr '\n' ' ')" = "h0 h1 h2 " ]
}

@test "Slurm: srun, sbatch, and mpirun in an allocation" {
	need mpirun
	hosts_up -S
	[ "$(on h0 srun -N3 hostname | sort | tr '\n' ' ')" = "h0 h1 h2 " ]
	run on h0 srun -w h2 sh -c 'exit 5'
	[ "$status" -eq 5 ]
	[ "$(on h0 salloc -Q -N3 mpirun -np 3 --map-by node hostname | sort | tr '\n' ' ')" = "h0 h1 h2 " ]
	printf '#!/bin/sh\n#SBATCH -N3 -o %s\nsrun hostname\n' "$T/out" >b
	on h1 sbatch -W b
	[ "$(sort out | tr '\n' ' ')" = "h0 h1 h2 " ]
}

@test "what there is no sense in" {
	for words in "" "up" "up -n 0 x" "on x h0" "link x h0" "fly x h0"; do
		run "$HOSTS_COMMAND" $words
		[ "$status" -eq 64 ]
	done
	run "$HOSTS_COMMAND" on "$T/none" h0 true
	[ "$status" -eq 69 ]
	hosts_up -n 1
	run hosts_link h0 1mbt
	[ "$status" -ne 0 ]
	[[ $output == *1mbt* ]]
	run hosts_boot h0
	[ "$status" -eq 64 ]
	run hosts_kill h1
	[ "$status" -eq 64 ]
}

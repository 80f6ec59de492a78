# The network between hosts as the fabric measures it (fabricd(8)): hosts that are namespaces, with links
# of a given rate.
# rooms: fabric
load helper
. "$BATS_TEST_DIRNAME/cluster/hosts.bash"

teardown_more() { hosts_down; }

setup_more() {
	command -v fabricd >/dev/null || skip "built without Open MPI"
	command -v mpirun >/dev/null || skip "no mpirun here"
	export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
}

# fabric [OPTION]...: fabricd on h0, h1 and h2; their sockets lie on each host's own disk.
fabric() {
	D=$HOSTS/local/run
	start world mpirun_on h0,h1,h2 -x ASAN_OPTIONS fabricd -d "$D" "$@"
	wait_for "on h0 test -S $D/fabric.sock" || { cat world.err; return 1; }
}

# traffic: sums of a vector over the three hosts, round after round.
traffic() {
	local i
	cc -O2 -D_GNU_SOURCE -I"$PACELINE_ROOT/lib" "$@" -o driver "$PACELINE_ROOT/tests/bench/fabric-allreduce.c" \
		"$(dirname "$(command -v fabricd)")/../lib/paceline.a" -levent -lm || return
	for i in 0 1 2; do
		wait_for "on h$i test -S $D/fabric.sock"
		start "driver$i" on h$i "$T/driver" "$D/fabric.sock" h0,h1,h2 $i 100000 1000000 1 0
	done
}

links() { on "$1" socat -t 300 - "UNIX-CONNECT:$D/fabric.sock" <<<links; }

# rate HOST TYPE OF KEY: what the fabricd of HOST says of a host or a link, in bytes/s; 0: nothing yet.
rate() {
	local value
	value=$(links "$1" | grep "^$2 host=$3 " | field "$4")
	printf '%.0f\n' "${value:-0}"
}

# is LEAST MOST HOST TYPE OF KEY
is() {
	local value
	value=$(rate "${@:3}")
	[ "$value" -ge "$1" ] || return 1
	[ "$value" -le "$2" ]
}

@test "the rates of three hosts' links; one that falls to a tenth is seen, and that it is fast again" {
	hosts_up -s -r 40mbit
	fabric
	traffic 2>/dev/null || traffic -fsanitize=address,undefined
	# 40 Mbit/s are 5 MB/s; the ring goes from h0 to h1, h2 and h0.
	wait_for 'is 3500000 6000000 h0 link h1 out'
	wait_for 'is 3500000 6000000 h0 link h2 in'
	for host in h0 h1 h2; do
		wait_for "is 3000000 6000000 h0 host $host out"
		wait_for "is 3000000 6000000 h0 host $host in"
	done
	hosts_link h1 4mbit
	wait_for 'is 250000 700000 h0 link h1 out'
	wait_for 'is 250000 700000 h2 link h1 in'
	wait_for 'is 250000 700000 h0 host h1 out'
	wait_for 'is 250000 700000 h0 host h1 in'
	is 3000000 6000000 h0 host h2 out
	[[ $(links h0 | grep "^host host=h2 ") != *unmeasured* ]]
	hosts_link h1 40mbit
	wait_for 'is 3000000 6000000 h0 host h1 out'
}

# owns LEAST MOST HOST: what part of a vector this host has summed, in percent.
owns() {
	local owned
	owned=$(on "$3" socat -t 300 - "UNIX-CONNECT:$D/fabric.sock" <<<stat | grep '^stat' | field sums-owned)
	awk "BEGIN { exit !($1 <= 100 * $owned && 100 * $owned <= $2) }"
}

@test "--rounds shares: a host whose link falls sums nothing, and when it is fast again its part" {
	hosts_up -s -r 40mbit
	fabric --rounds shares
	traffic 2>/dev/null || traffic -fsanitize=address,undefined
	wait_for 'owns 20 45 h0 && owns 20 45 h1 && owns 20 45 h2'
	hosts_link h1 4mbit
	wait_for 'owns 0 0 h1'
	wait_for 'owns 30 70 h0 && owns 30 70 h2'
	hosts_link h1 40mbit
	wait_for 'owns 20 45 h1'
}

@test "what is sent over another transport is not measured, and that is said" {
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=vader,self
	mkdir a b
	start world mpirun --oversubscribe --bind-to none -n 1 fabricd -d "$T/a" --host a : -n 1 fabricd -d "$T/b" --host b
	ready a/fabric.sock
	wait_for 'ask a/fabric.sock links | grep -q "^host host=a out= .* in= .*unmeasured=transport$"'
	wait_for 'ask a/fabric.sock links | grep -q "^host host=b .*unmeasured=transport$"'
	run ask a/fabric.sock links end
	[[ ${lines[2]} == "link host=b out= "*" in= "* ]]
}

# side HOST KEY: what the job's status says of the host, in whole units; 0: nothing yet.
side() {
	local value
	value=$(on h0 trainctl status --run-dir /tmp/run | grep "^host name=$1 " | field "$2")
	printf '%.0f\n' "${value:-0}"
}

# is_slow HOST WAY [MOST]
is_slow() {
	local value
	value=$(side "$1" "$2")
	[ "$value" -gt 0 ] || return 1
	[ "$value" -le "${3:-700000}" ]
}

# saves SECONDS: that much, at least, has been saved since the supervisor began.
saves() {
	on h0 trainctl status --run-dir /tmp/run | grep '^job ' | field fabric-saves | awk "{ exit !(\$1 >= $1) }"
}

@test "a job: status, metrics and the log tell the rates and what the slow link cost; its host sums nothing" {
	hosts_up -s -r 40mbit
	hosts_link h1 4mbit
	job HOSTS=h0,h1,h2 SYNC=allreduce FABRIC=mlfabric WORKERS=3 EPOCHS=100000 MODEL=wdl,hidden:256-256 "METRICS=$T/now.prom"
	start job on h0 trainctl run "$T/job.env" --run-dir /tmp/run --state-dir "$T/state"
	JOB_PID=$PID
	wait_for 'is_slow h1 out' || { cat job.err; return 1; }
	wait_for 'is_slow h1 in'
	wait_for '[ "$(side h2 out)" -ge 1200000 ]'
	wait_for '[ "$(side h0 in)" -ge 1200000 ]'
	run on h0 trainctl status --run-dir /tmp/run
	[[ ${lines[0]} == "job "*" fabric=mlfabric fabric-saves="* ]]
	[[ $output == *"host name=h1 "*" out="*" out-error="*" out-least="*" out-free="*" out-age="*" in="*" in-age="* ]]
	wait_for "grep -q '^paceline_host_link_bytes_per_second{job_name=\"tiny\",host=\"h1\",direction=\"out\"} [1-9]' now.prom"
	wait_for "grep -q '^paceline_host_link_age_seconds{job_name=\"tiny\",host=\"h2\",direction=\"out\"} [0-9]' now.prom"
	# A lower bound costs nothing.
	wait_for 'on h0 trainctl status --run-dir /tmp/run | grep -q "^host name=h1 .* out-least=0 .* in-least=0 "'
	D=/tmp/run
	wait_for 'owns 0 0 h1'
	# What is less than a hundredth of the job is not told.
	wait_for 'saves 0.5'
	# Not only h1 has sent by now: the others' links are seen not to be slow.
	wait_for '! is_slow h0 in && ! is_slow h2 in && is_slow h1 out'
	on h0 trainctl stop --run-dir /tmp/run
	ended "$JOB_PID"
	grep -q '^link host=h1 out=[1-9].* median=[1-9].* sent-bytes=[1-9].* out-cost=0*[.]*0*[1-9]' state/job.log
	trainctl report --text --state-dir "$T/state" >report
	grep -q "saved by FABRIC=mlfabric" report
	grep -q "the slow link of h1:" report || { grep ^link state/job.log; grep -A3 "What the net" report; return 1; }
}

# servers FABRIC: a job whose four workers share the slow link of h1, until that is measured and 24 updates later.
servers() {
	hosts_up -s -n 2 -r 40mbit
	hosts_link h1 10mbit
	job HOSTS=h0,h1 "PLACE='h1:4'" SYNC=asp,delay:60 "FABRIC=$1" WORKERS=4 SERVERS=1 EPOCHS=100000 BATCH=64 \
		MODEL=wdl,hidden:256-256
	start job on h0 trainctl run "$T/job.env" --run-dir /tmp/run --state-dir "$T/state"
	JOB_PID=$PID
	wait_for 'is_slow h1 out 1300000' || { cat job.err; return 1; }
	local from
	from=$(iteration)
	wait_for '[ "$(iteration)" -ge $((from + 24)) ]'
	on h0 trainctl stop --run-dir /tmp/run
	ended "$JOB_PID"
	trainctl report --text --state-dir "$T/state" >report
	trainctl report --records --state-dir "$T/state" >records
}

iteration() { on h0 trainctl status --run-dir /tmp/run | grep '^job ' | field iteration; }

@test "a job with servers: the report tells what FABRIC=mlfabric would save" {
	servers plain
	grep -q '^begin .* fabric=plain ' state/job.log
	grep -q '^report .* fabric-saves=[0-9.]*[1-9]' records
	grep -q "less with FABRIC=mlfabric:" report
}

# bats test_tags=long
@test "a job with servers: the report tells what FABRIC=mlfabric has saved" {
	servers mlfabric
	grep -q '^report .* fabric-saved=[0-9.]*[1-9]' records
	grep -q "saved by FABRIC=mlfabric:" report
}

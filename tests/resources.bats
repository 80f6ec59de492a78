# What a node may use, how that is enforced, and what follows when its memory was not enough.
load helper
. "$BATS_TEST_DIRNAME/cluster/hosts.bash"
. "$BATS_TEST_DIRNAME/groups.bash"

teardown_more() { hosts_down; }

need_groups() {
	local why
	if why=$(no_groups); then skip "$why"; fi
}

# without_groups COMMAND...: where no control groups are seen.
without_groups() {
	unshare -rm true 2>/dev/null || skip "no namespaces for a user here"
	unshare -rm sh -c 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"' sh "$@"
}

# A program's address space is huge under AddressSanitizer, whatever it uses.
need_address_space() {
	[[ ${PACELINE_BIN:-} != *asan* ]] || skip "the sanitizer's own memory would be limited"
}

# greedy MIB: a trainer, which takes so much memory before it trains.
greedy() {
	cat >greedy.c <<-'C'
		#include <stdlib.h>
		#include <string.h>
		int main(int argc, char **argv)
		{
			size_t n = strtoul(argv[1], NULL, 10) << 20;
			char *p = malloc(n);
			if (argc < 2 || !p)
				return 71;
			memset(p, 1, n);
			return p[n / 2] == 1 ? 0 : 70;
		}
	C
	cc -O0 -o greedy greedy.c
}

node_record() { plrec where type=node <"run/state/nodes/$1" | field "$2"; }

@test "job keys: cores and memory of nodes; nonsense is refused with its line" {
	job WORKERS=cores:1.5,memory:2G SERVERS=memory:512M
	run trainctl check job.env --run-dir "$T/run"
	[ "$status" -eq 0 ]
	for wrong in WORKERS=cores:-1 WORKERS=cores:two WORKERS=memory:1Q WORKERS=memory:4K SERVERS=cores:half; do
		job "$wrong"
		run trainctl check job.env --run-dir "$T/run"
		[ "$status" -eq 78 ]
		[[ $output == *"job.env:"*"${wrong%%=*}"* ]]
	done
}

@test "a node's cores and memory are those of a control group, which goes with it" {
	need_groups
	job WORKERS=cores:0.5,memory:300M SERVERS=memory:400M EPOCHS=1000
	slow 300
	begin trainctl --state-dir "$T/run/state"
	wait_for "came_to 64"
	[ "$(node_record w0.0 cores-by)" = cgroup ]
	[ "$(node_record w0.0 memory-by)" = cgroup ]
	[ "$(node_record ps0.0 cores-by)" = "" ]
	[ "$(node_record ps0.0 memory-by)" = cgroup ]
	pid=$(pid_of w0)
	[[ $(cat "/proc/$pid/cgroup") == *paceline-node-w0-* ]]
	[ "$(status | grep '^node .* id=w0 ' | field cores)" = 0.5 ]
	[ "$(status | grep '^node .* id=w0 ' | field memory)" = 314572800 ]
	if [ -e /sys/fs/cgroup/memory ]; then
		memory=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' "/proc/$pid/cgroup")
		cpu=/sys/fs/cgroup/cpu$(sed -n 's/^[0-9]*:\(.*,\)\{0,1\}cpu\(,.*\)\{0,1\}://p' "/proc/$pid/cgroup")
		[ "$(cat "$memory/memory.limit_in_bytes")" = 314572800 ]
		[ "$(cat "$cpu/cpu.cfs_quota_us")" = 50000 ]
	else
		memory=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$pid/cgroup") cpu=$memory
		[ "$(cat "$memory/memory.max")" = 314572800 ]
		[ "$(cat "$cpu/cpu.max")" = "50000 100000" ]
	fi
	grep -q '^limits host=[^ ]* cores-by=cgroup memory-by=cgroup ' run/state/job.log
	trainctl stop --run-dir "$T/run"
	ended "$SUPERVISOR"
	[ ! -e "$memory" ]
	[ ! -e "$cpu" ]
}

@test "without control groups: a set of cores and RLIMIT_DATA; said once" {
	need_address_space
	[ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] || skip "one core cannot be divided"
	job WORKERS=cores:1,memory:900M EPOCHS=1000
	slow 300
	without_groups true
	start trainctl without_groups trainctl run job.env --run-dir "$T/run" --state-dir "$T/run/state"
	wait_for "came_to 64"
	[ "$(node_record w0.0 cores-by)" = process ]
	[ "$(node_record w0.0 memory-by)" = process ]
	for w in w0 w1; do
		grep '^Cpus_allowed_list' "/proc/$(pid_of $w)/status" | tr -dc 0-9
		echo
	done >cores
	[ "$(sort -u cores | wc -l)" = 2 ]
	[[ $(cat "/proc/$(pid_of w0)/limits") == *"Max data size"*943718400* ]]
	[ "$(grep -c 'has no control group for nodes: cores are a set of whole ones, memory is limited for each process by itself' trainctl.err)" = 1 ]
	trainctl stop --run-dir "$T/run"
	ended "$PID"
}

@test "without control groups: a worker without the memory that OpenBLAS wants comes back with twice as much" {
	need_address_space
	job WORKERS=memory:100M
	without_groups true
	run -0 without_groups trainctl run job.env --run-dir "$T/run" --state-dir "$T/run/state"
	grep -q 'OpenBLAS: has no memory here' run/state/logs/w0.log
	[[ $(grep '^oom id=w0 ' run/state/job.log) == *" memory=209715200 "* ]]
}

@test "node-host: what was asked for is enforced there, and an end for memory is told apart" {
	greedy
	hosts_up -n 2 -s
	run -0 on h0 node-host --memory 64M h1 "$T/greedy" 16
	run -254 on h0 node-host --memory 64M h1 "$T/greedy" 200
	[[ $output == *"there was no memory for it"* ]]
	# Killed by somebody else is no want of memory.
	run -137 on h0 node-host --memory 64M h1 sh -c 'kill -9 $$'
	run -0 on h0 node-host --cores 1 --first-core 1 h1 grep Cpus_allowed_list /proc/self/status
	[[ $output =~ "Cpus_allowed_list:"[[:space:]]*[0-9]+$ ]]
	run -64 on h0 node-host --memory x h1 true
}

# appetite: in LAUNCH_WORKER, each worker takes that much more memory once $T/eat.ID is there, and the
# file is gone then.
appetite() {
	cc -shared -fPIC -O0 -pthread -o eat.so "$PACELINE_ROOT/tests/appetite.c"
	echo "LAUNCH_WORKER='env EAT=$T/eat.%i LD_PRELOAD=$T/eat.so${LD_PRELOAD:+:$LD_PRELOAD} ASAN_OPTIONS=verify_asan_link_order=0'" >>job.env
}

@test "a worker that had too little memory comes back with twice as much; nothing is lost" {
	need_groups
	need_address_space
	job WORKERS=memory:60M EPOCHS=20 MODEL=audit RESTARTS=oom:2
	slow 1500
	appetite
	begin trainctl --state-dir "$T/run/state"
	wait_for "came_to 640"
	touch eat.w1
	wait_for "grep -q '^event role=worker id=w1 kind=ready .*life=1 ' run/state/job.log"
	grep '^event role=worker id=w1 kind=exit ' run/state/job.log >exit
	[ "$(field class <exit)" = oom ]
	[ "$(field oom <exit)" = 1 ]
	[ "$(grep -c '^relaunch ' run/state/job.log)" = 0 ]
	[ "$(grep '^oom ' run/state/job.log | plrec tsv id step limit memory memory-before | tail -n 1)" = "w1	1	2	125829120	62914560" ]
	[ "$(status | grep '^node .* id=w1 ' | field memory)" = 125829120 ]
	[ "$(status | grep '^node .* id=w0 ' | field memory)" = 62914560 ]
	# Killed by somebody else it is no want of memory.
	kill -9 "$(pid_of w1)"
	wait_for "grep -q '^event role=worker id=w1 kind=ready .*life=2 ' run/state/job.log"
	[ "$(grep '^event role=worker id=w1 kind=exit ' run/state/job.log | tail -n 1 | field class)" = retryable ]
	[ "$(grep -c '^oom ' run/state/job.log)" = 1 ]
	# What was found stays, also for a run that goes on later.
	trainctl stop --run-dir "$T/run"
	ended "$SUPERVISOR"
	rm drag/*
	begin again --state-dir "$T/run/state"
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	grep -q '^size id=w1 cores=0 memory=125829120 ' run/state/kept
	exact "$(tail -n 1 again.out | field checkpoint)" 2000 20
}

@test "servers that run out of memory together: all go back with twice as many, and that is one step" {
	need_groups
	need_address_space
	job SERVERS=2,memory:80M EPOCHS=20 MODEL=audit
	slow 1500
	appetite
	sed -i 's/^LAUNCH_WORKER=/LAUNCH_SERVER=/' job.env
	begin trainctl --state-dir "$T/run/state"
	wait_for "came_to 640"
	# Who is seen to have died first makes the others go: both die before anybody looks.
	local ps0 ps1
	ps0=$(pid_of ps0) ps1=$(pid_of ps1)
	kill -STOP "$SUPERVISOR"
	touch eat.ps0 eat.ps1
	wait_for "gone $ps0 && gone $ps1"
	kill -CONT "$SUPERVISOR"
	wait_for "grep -q '^scaled .* servers=4 ' run/state/job.log"
	[ "$(grep -c '^event role=server .* kind=exit .*class=oom' run/state/job.log)" = 2 ]
	[ "$(grep -c '^oom ' run/state/job.log)" = 1 ]
	[ "$(grep -c '^scale ' run/state/job.log)" = 1 ]
	rm drag/*
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	exact "$(tail -n 1 trainctl.out | field checkpoint)" 2000 20
}

@test "RESTARTS oom: after so many steps an end for memory is an end like others" {
	need_groups
	greedy
	job WORKERS=1,memory:10M RESTARTS=1,oom:2 "LAUNCH_WORKER='$T/greedy 300 && exec'"
	run run_job --state-dir "$T/run/state"
	[ "$status" -eq 137 ]
	[[ $output == *"out of memory, exit status 137, 2 times in a row (RESTARTS)"* ]]
	[ "$(grep '^oom ' run/state/job.log | plrec tsv id step memory | tail -n 2 | tr '\t\n' '  ')" = "w0 1 20971520 w0 2 41943040 " ]
}

@test "a worker without a limit of its own, where all have too little: half the batch in two steps" {
	need_groups
	[ -e /sys/fs/cgroup/memory ] || skip "a group with processes is not divided in version 2"
	group=/sys/fs/cgroup/memory$(groups_of memory)/paceline-test-$$
	mkdir "$group"
	echo 90000000 >"$group/memory.limit_in_bytes"
	job EPOCHS=20 MODEL=audit
	slow 1500
	appetite
	start trainctl sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" trainctl run job.env --run-dir "$T/run" --state-dir "$T/run/state"
	SUPERVISOR=$PID
	wait_for "came_to 640"
	touch eat.w1
	wait_for "grep -q '^acted by=oom ' run/state/job.log"
	rm drag/*
	ended "$SUPERVISOR"
	rmdir "$group"
	[ "$status" -eq 0 ]
	[ "$(grep '^oom ' run/state/job.log | plrec tsv id step size accum | tail -n 1)" = "w1	1	16	2" ]
	exact "$(tail -n 1 trainctl.out | field checkpoint)" 2000 20
}

# more-host records: "STATE HOST" each.
more_hosts() { grep '^more-host ' "$T/state/job.log" 2>/dev/null | plrec tsv state host | tr '\t' ' '; }
runs_on() { [ "$(on h0 trainctl status --run-dir /tmp/run | grep "^node .* id=$1 " | plrec tsv state host | tail -n 1)" = "up	$2" ]; }

@test "Slurm: a full job asks for a further host, trains on meanwhile, and gives it back" {
	for program in fabricd mpirun; do
		command -v $program >/dev/null || skip "no $program here"
	done
	hosts_up -S -n 3
	job WORKERS=2,cores:1 SERVERS=1 LAUNCHER=more:1,preemptible:spot EPOCHS=1000 MODEL=audit
	slow 600
	cp drag/w0 drag/w4
	# It is not to be had yet.
	on h0 scontrol update NodeName=h2 State=drain Reason=test
	# Another supervisor comes where the first one was killed.
	start job on h0 salloc -Q -N2 -w h0,h1 -c "$(getconf _NPROCESSORS_ONLN)" sh -c 'trainctl run "$@" || trainctl run "$@"' sh \
		job.env --run-dir /tmp/run --state-dir "$T/state"
	wait_for "[ \"\$(on h0 trainctl status --run-dir /tmp/run 2>/dev/null | grep -c '^node role=worker .* state=up ')\" = 2 ]"
	workers=$((2 * $(getconf _NPROCESSORS_ONLN) + 1))
	last=w$((workers - 1))
	on h0 trainctl scale --run-dir /tmp/run --workers $workers
	wait_for "[ \"\$(more_hosts)\" = 'asked -' ]"
	[ "$(grep '^more-host ' state/job.log | field partition)" = spot ]
	wait_for "on h0 squeue -h -t PD -o '%P %j' | grep -q '^spot paceline-tiny-'"
	not runs_on $last h2
	on h0 scontrol update NodeName=h2 State=resume
	wait_for "runs_on $last h2"
	[ "$(more_hosts | tr '\n' ,)" = "asked -,granted h2,there h2," ]
	# Somebody who has more right to it takes it away; another is asked for, and it is the same.
	on h0 sbatch -p owner -w h2 -o "$T/other" --wrap 'sleep 3; echo "$SLURM_JOB_NODELIST"'
	wait_for "more_hosts | grep -q '^ended h2'"
	wait_for "[ \"\$(more_hosts | grep -c '^there h2')\" = 2 ]"
	[ "$(cat other)" = h2 ]
	wait_for "runs_on $last h2"
	# A supervisor that comes after a crash finds it, and who runs there.
	before=$(more_hosts)
	on h0 pkill -KILL -x trainctl
	wait_for "grep -q '^event role=worker id=$last kind=adopt .*host=h2 ' state/job.log"
	wait_for "runs_on $last h2"
	[ "$(more_hosts)" = "$before" ]
	# Nobody needs it.
	on h0 trainctl scale --run-dir /tmp/run --workers 2
	wait_for "more_hosts | grep -q '^given-back h2'"
	wait_for "! on h0 squeue -h -p spot | grep -q ."
	on h0 trainctl stop --run-dir /tmp/run
	ended "$PID"
	[ "$(tail -n 1 job.out | field state)" = stopped ]
	[ "$(grep -c 'kind=exit .*class=unretryable' state/job.log)" = 0 ]
}

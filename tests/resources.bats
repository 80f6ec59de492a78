# What a node may use, how that is enforced, and what follows when its memory was not enough.
load helper
. "$BATS_TEST_DIRNAME/cluster/hosts.bash"

teardown_more() { hosts_down; }

# Where this machine lets us make control groups. The groups of version 1 are told apart by their controllers.
groups_of() { sed -n "s/^[0-9]*:$1://p" /proc/self/cgroup; }
need_groups() {
	local dir
	[ ! -d /run/systemd/system ] || skip "systemd owns the control groups here"
	dir=/sys/fs/cgroup/memory$(groups_of memory)
	if [ ! -e "$dir/memory.limit_in_bytes" ]; then
		dir=/sys/fs/cgroup$(groups_of '')
		grep -qsw memory "$dir/cgroup.subtree_control" || skip "no control group that we may divide"
	fi
	[ -w "$dir" ] || skip "no control group that we may divide"
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

node_record() { rec where type=node <"run/state/nodes/$1" | field "$2"; }

@test "job keys: cores and memory of nodes; nonsense is refused with its line" {
	job WORKER_CORES=1.5 WORKER_MEMORY=2G SERVER_MEMORY=512M
	run trainctl check job.env --run-dir "$T/run"
	[ "$status" -eq 0 ]
	for wrong in WORKER_CORES=-1 WORKER_CORES=two WORKER_MEMORY=1Q WORKER_MEMORY=4K SERVER_CORES=; do
		job "$wrong"
		run trainctl check job.env --run-dir "$T/run"
		[ "$status" -eq 78 ]
		[[ $output == *"job.env:"*"${wrong%%=*}"* ]]
	done
}

@test "a node's cores and memory are those of a control group, which goes with it" {
	need_groups
	job WORKER_CORES=0.5 WORKER_MEMORY=300M SERVER_MEMORY=400M EPOCHS=1000
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
	[ "$(nproc)" -ge 2 ] || skip "one core cannot be divided"
	job WORKER_CORES=1 WORKER_MEMORY=900M EPOCHS=1000
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

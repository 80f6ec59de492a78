# What crash tests share: jobs of the audit model (each sample counts how often it was applied), whose processes
# are killed, and how often each sample is in the model afterwards. Sourced; everything lies in $T.
# $rows and $epochs are the data's, $counts the model's, if it has dense counts, $run is the run directory of the job, $mode its SYNC where there
# are several, $supervisor its trainctl; $PIDS are killed in the end, too.
. "${BASH_SOURCE[0]%/*}/../usage.bash"
. "$(dirname "${BASH_SOURCE[0]}")/../environment.bash"
. "$(dirname "${BASH_SOURCE[0]}")/../conversation.bash"
. "$(dirname "${BASH_SOURCE[0]}")/../files.bash"
PATH=${PACELINE_BIN:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/bin}:$PATH
failures=0 number=0 told_failures= supervisor= run=
unset mode counts
PIDS=()

# fault_begin [SEED]: of all random choices, in $seed.
fault_begin() {
	seed=${1:-$RANDOM}
	RANDOM=$seed
	T=$(mktemp -d "${TMPDIR:-/tmp}/paceline-$(basename "$0").XXXXXX")
	trap fault_cleanup EXIT
	trap 'exit 130' INT TERM
}

live_records() { grep -Ls '^end ' "$T"/*/state/nodes/*.[0-9]*; }

# node_pids RECORD...: of the nodes that they name, one a line.
node_pids() { sed -n 's/^node .* pid=\([0-9]*\) .*/\1/p' /dev/null "$@"; }

# What still runs of a job is known by the pids that its own records name.
fault_cleanup() {
	kill_ours $supervisor "${PIDS[@]}" $(node_pids $(live_records))
	wait 2>/dev/null
	[ -n "${PACELINE_KEEP-}" ] || rm -rf "$T"
}

make_rows() { # COUNT
	awk -v rows="$1" 'BEGIN { print "y,a,b"; for (i = 0; i < rows; i++) print i % 2 "," i "," i % 7 }'
}

# ---- TAP ----

check() { # WHAT COMMAND...
	local what=$1
	shift
	number=$((number + 1))
	if "$@"; then echo "ok $number - $what"; else
		failures=$((failures + 1))
		echo "not ok $number - $what"
		[ ! -e "$run.err" ] || sed 's/^/# /' "$run.err" | tail -n 40
	fi
}

# tried PROMISE WHAT TIMES [VIOLATIONS]: a record for tests/tried; unless given, a violation is each check that has failed
# since the last record.
tried() {
	echo "tried tool=${0##*/} promise=$1 what=${2// /%20} times=$3 violations=${4-$((failures - ${told_failures:-0}))}"
	told_failures=$failures
}

fault_end() {
	[ "${told_failures:--}" = $failures ] || tried "${promise-exact}" checks $number
	echo "1..$number"
	exit $((failures > 0))
}

# ---- hosts that are directories, with a world of fabricd between them ----

needs_world() {
	command -v fabricd >/dev/null || { echo "# built without Open MPI"; exit 77; }
	command -v mpirun >/dev/null || { echo "# no mpirun here"; exit 77; }
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	# The libraries of MPI keep what they have until the process is gone.
	export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
}

# new_world HOST...: a fabricd on each, by the routes in $T/routes; the mpirun is $world.
new_world() {
	local host words=()
	for host; do
		words+=(-n 1 fabricd --run-dir "$T/$host" --host "$host" --routes "$T/routes" :)
	done
	unset 'words[-1]'
	mpirun --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 "${words[@]}" \
		>>world.out 2>>world.err &
	world=$!
	PIDS+=($world)
}

ready() { until_true "socat -u /dev/null 'UNIX-CONNECT:$T/$1' 2>/dev/null"; }

background() { # NAME COMMAND...
	local name=$1
	shift
	"$@" >>"$name.out" 2>>"$name.err" &
	PIDS+=($!)
}

# ---- the job ----

status() { trainctl status --run-dir "$run" 2>/dev/null; }
progress() { said '^job .* samples-done=([^ ]*)'; }
pid_of() { said "^node .* id=$1 .* pid=([^ ]*)"; }

start() {
	trainctl run "$T/job.env" --run-dir "$run" ${mode+--set "SYNC=$mode"} >>"$run.out" 2>>"$run.err" &
	supervisor=$!
}

over() { gone "$supervisor"; }

# until_true CONDITION: for five minutes at most; not once the job is over, where there is one.
until_true() { holds_within 300 "$1" '[ -n "$supervisor" ] && over'; }

# Until the job has come so far (after a rollback it may be less again), or is over.
await() { holds_within 300 "came_to $1" over; }
came_to() { in_status '^job .* samples-done=([^ ]*)' && [ "${BASH_REMATCH[1]:-0}" -ge "$1" ]; }

# strike ID: kill -9, as soon as it is there; trainctl is started again.
strike() {
	if [ "$1" = trainctl ]; then
		kill -9 "$supervisor"
		wait "$supervisor" 2>/dev/null
		start
		echo "# ${mode+$mode: }killed trainctl"
		return
	fi
	holds_within 300 "kill_node $1"
}
kill_node() {
	local pid
	pid=$(pid_of "$1")
	[ -n "$pid" ] && kill -9 "$pid" 2>/dev/null && echo "# ${mode+$mode: }killed $1 at $(progress) samples"
}

none_left() {
	local pid
	for pid in $(node_pids "$run"/state/nodes/*.[0-9]*); do
		grep -qs "$T" "/proc/$pid/cmdline" && return 1
	done
	return 0
}

# applications CHECKPOINT: how often each sample is in the model, one a line; dense counts, too. What is exported:
# 8 bytes length of the header, the header, the data.
applications() {
	ckpt export "$1" "$T/audit.safetensors" || return 1
	local header
	header=$(od -An -t u8 -N 8 "$T/audit.safetensors" | tr -d ' ')
	tail -c +$((header + 9)) "$T/audit.safetensors" | od -An -v -t f4 -w4 | awk '{ print $1 }'
}

exact() { # CHECKPOINT: each sample EPOCHS times
	applications "$1" | awk -v epochs="$epochs" -v all=$((rows * (1 + ${counts:-0}))) '
		$1 != epochs { if (bad++ < 5) print "# count " NR - 1 " is " $1 }
		END { if (NR != all) print "# " NR " parameters"; exit bad > 0 || NR != all }'
}

# pace N: samples per second of each of six workers, by $T/drag. A job creeps while somebody is struck,
# and is seconds away from its end when the last one is due: a busy machine is late.
pace() {
	local w
	for w in w{0..5}; do echo "drag speed=$1" >"$T/new" && mv "$T/new" "$T/drag/$w"; done
}

# ---- storms: trainctl is killed, and the job is stopped, at any time; $status is its last ----

summary() { tail -n 1 "$run.out" | grep '^summary '; }

# goes_on: trainctl runs, or has said that the job is done or failed. Who killed it, or stopped the job,
# starts it again; so does who was told $again (a host did not answer: 69).
goes_on() {
	over || return 0
	wait $supervisor
	status=$?
	[ $status = 137 ] || [ $status = "${again-}" ] || [ "$status $(summary | field state)" = "75 stopped" ] || return 1
	start
}

ends() { holds_within 600 '! goes_on'; } # when nothing happens any more

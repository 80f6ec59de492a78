# Shared by all bats files: `load helper`. Programs come from $PACELINE_BIN (default build/bin);
# every test has a directory of its own, $T; whatever it started is killed afterwards.
bats_require_minimum_version 1.5.0

. "$(dirname "${BASH_SOURCE[0]}")/environment.bash"
PACELINE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PATH=${PACELINE_BIN:-$PACELINE_ROOT/build/bin}:$PATH
DATA=${PACELINE_DATA:-$PACELINE_ROOT/../shared/data}

setup() {
	T=$(mktemp -d "${TMPDIR:-/tmp}/paceline.XXXXXX")
	PIDS=()
	cd "$T" || return 1
	unset XDG_RUNTIME_DIR RUNTIME_DIRECTORY STATE_DIRECTORY NOTIFY_SOCKET
	export XDG_STATE_HOME=$T/home
	if declare -F setup_more >/dev/null; then setup_more; fi
}

teardown() {
	if declare -F teardown_more >/dev/null; then teardown_more; fi
	unset LD_PRELOAD
	for pid in "${PIDS[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
	cd / && rm -rf "$T"
}

# start NAME ARG...: in the background, output in NAME.out and NAME.err; pid in $PID.
start() {
	local name=$1
	shift
	"$@" >"$name.out" 2>"$name.err" 3>&- &
	PID=$!
	PIDS+=("$PID")
}

# wait_for 'CONDITION': until it holds, a minute at least (a limit, not a measurement).
wait_for() {
	local i
	for i in $(seq 1200); do
		if eval "$1"; then return 0; fi
		sleep 0.05
	done
	echo "waited in vain for: $1" >&2
	return 1
}

# ready SOCKET: until the daemon answers there.
ready() {
	wait_for "[ -S '$1' ] && socat -u /dev/null UNIX-CONNECT:'$1' 2>/dev/null"
}

# ask SOCKET LINE...: a conversation by hand; prints what the daemon says, greeting left out.
ask() {
	local socket=$1
	shift
	printf '%s\n' "$@" | socat -t 20 - "UNIX-CONNECT:$socket" | tail -n +2
}

# ended PID: waits for a process of ours; its exit status in $status.
ended() {
	status=0
	wait_for "! kill -0 $1 2>/dev/null"
	wait "$1" || status=$?
}

# field KEY: its values in the records on stdin.
field() { sed -n "s/.* $1=\([^ 	]*\).*/\1/p"; }

# ---- jobs ----

# data ROWS: d.csv; y is 1 where a is large, with some noise.
data() {
	awk -v rows="$1" 'BEGIN { print "y,a,b"; srand(3); for (i = 0; i < rows; i++) {
		a = int(100 * rand()); print (a + 40 * rand() > 70 ? 1 : 0) "," a ",c" i % 7 } }' >d.csv
}

# job [KEY=VALUE]...: job.env, of d.csv
job() {
	[ -e d.csv ] || data 2000
	printf '%s\n' JOB=tiny "DATA=$T/d.csv" LABEL=y DENSE=a SPARSE=b BATCH=64 BATCHES_PER_SHARD=4 \
		WORKERS=2 SERVERS=2 "$@" >job.env
}

run_job() { trainctl run job.env --run-dir "$T/run" "$@"; }

# decided_again LOG: what a lead has written down is enough to decide on it again.
decided_again() {
	trainctl replay "$1" | rec where type=balance | rec tsv iteration sizes >again
	rec where type=balance <"$1" | rec tsv iteration sizes | diff - again
	[ -s again ]
}

# wrong_kernels: from now on those kernels of OpenBLAS that $KERNELS_WRONG names are wrong and fast.
wrong_kernels() {
	[ "$(uname -m)" = x86_64 ] || skip "no kernels with these names"
	unset OPENBLAS_CORETYPE KERNELS_WRONG
	cc -shared -fPIC -O2 -o wrong.so "$PACELINE_ROOT/tests/wrong-kernels.c"
	export LD_PRELOAD=$T/wrong.so
	export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0
}

# not COMMAND...: it must say no (1: grep, cmp), which is not the same as trouble (2: no such file).
# A line that begins with ! never fails a test.
not() {
	local status=0
	"$@" || status=$?
	[ "$status" -eq 1 ]
}

need_data() {
	[ -e "$DATA/$1" ] || skip "no $1 here"
}

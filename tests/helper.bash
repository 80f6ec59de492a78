# Shared by all bats files: `load helper`. Programs come from $PACELINE_BIN (default build/bin);
# every test has a directory of its own, $T; whatever it started is killed afterwards.
bats_require_minimum_version 1.5.0

. "${BASH_SOURCE[0]%/*}/environment.bash"
. "${BASH_SOURCE[0]%/*}/conversation.bash"
. "${BASH_SOURCE[0]%/*}/files.bash"
PACELINE_ROOT=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
PATH=${PACELINE_BIN:-$PACELINE_ROOT/build/bin}:$PATH
DATA=${PACELINE_DATA:-$PACELINE_ROOT/../shared/data}

setup() {
	trace_tests_only
	local -
	set +T
	T=$(mktemp -d "${TMPDIR:-/tmp}/paceline.XXXXXX")
	PIDS=()
	SUPERVISOR=
	cd "$T" || return 1
	unset XDG_RUNTIME_DIR RUNTIME_DIRECTORY STATE_DIRECTORY NOTIFY_SOCKET
	export XDG_STATE_HOME=$T/home
	if declare -F setup_more >/dev/null; then setup_more; fi
}

# bats notes where it is before each command, at half the price of a process, also in a function that looks
# whether something has come. The lines of the test itself are enough: a failure in a function is named by them.
trace_tests_only() {
	local trap
	trap=$(trap -p DEBUG)
	eval "${trap/"-- '"/"-- '[[ \${FUNCNAME-} != \"\$BATS_TEST_NAME\" ]] || set +T; "}"
	# At a failure bats removes its trap, which without -T comes back behind its function.
	trap 'trap - DEBUG; bats_error_trap' ERR
}

teardown() {
	set +T
	if declare -F teardown_more >/dev/null; then teardown_more; fi
	unset LD_PRELOAD
	end_jobs
	kill_ours "${PIDS[@]}"
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

# wait_for 'CONDITION': until it holds, five minutes at most. A job that has ended comes to nothing more.
wait_for() {
	local unless=
	if [[ $1 =~ ^(came_to|running)( |$) ]]; then unless='job_is_over "$2"'; fi
	holds_within 300 "$1" "$unless"
}
# job_is_over CONDITION: says what the programs of the test said last.
job_is_over() {
	[ -n "$SUPERVISOR" ] && gone "$SUPERVISOR" || return 1
	echo "the job has ended before this held: $1" >&2
	tail -n 3 ./*.err >&2
}

# ready SOCKET: until the daemon answers there.
ready() {
	wait_for "[ -S '$1' ] && socat -u /dev/null UNIX-CONNECT:'$1' 2>/dev/null"
}

# ended PID: waits for a process of ours; its exit status in $status.
ended() {
	status=0
	wait_for "gone $1"
	wait "$1" || status=$?
}

# ---- jobs ----

# data ROWS: d.csv; y is 1 where a is large, with some noise.
data() {
	awk -v rows="$1" 'BEGIN { print "y,a,b"; srand(3); for (i = 0; i < rows; i++) {
		a = int(100 * rand()); print (a + 40 * rand() > 70 ? 1 : 0) "," a ",c" i % 7 } }' >d.csv
}

# job [KEY=VALUE]...: job.env, of d.csv
job() {
	[ -e d.csv ] || data 2000
	printf '%s\n' JOB=tiny "DATA=$T/d.csv" LABEL=y DENSE=a SPARSE=b BATCH=64,shard:4 \
		WORKERS=2 SERVERS=2 "$@" >job.env
}

run_job() { trainctl run job.env --run-dir "$T/run" "$@"; }

# begin NAME [OPTION]...: the job in the background; itself, no shell in between, is $SUPERVISOR.
begin() {
	local name=$1
	shift
	start "$name" trainctl run job.env --run-dir "$T/run" "$@"
	SUPERVISOR=$PID
}

# keep LINE: as a person may write into run/state/kept, in place of what is there of the type: without a
# sum, and what else stands there keeps its own.
keep() {
	sed -i "/^${1%% *} /d" run/state/kept
	echo "$1" >>run/state/kept
}

# is_kept TYPE [WORDS]: whether there is such a line
is_kept() { grep -q "^$1 .*${2-}" run/state/kept; }

# record_pids FILE: of a node's parent and of the node.
record_pids() { sed -n 's/^node .* parent=\([0-9]*\) .* pid=\([0-9]*\) .*/\1 \2/p' "$1"; }

# Nodes outlive trainctl: what a failed test leaves is found by the pids its records name.
end_jobs() {
	local record pid parent
	kill_ours $SUPERVISOR
	for record in "$T"/*/state/nodes/*.[0-9]* "$T"/state/nodes/*.[0-9]* \
		"$T"/home/paceline/*/nodes/*.[0-9]* "$T"/.local/state/paceline/*/nodes/*.[0-9]*; do
		[ -e "$record" ] || continue
		read -r parent pid < <(record_pids "$record")
		kill_ours "$pid"
		wait_for "[ \"\$(cat /proc/$parent/comm 2>/dev/null)\" != node-parent ]"
	done
}

# slow PACE: every worker at most so many samples a second; an eighth of that once the job has come to
# where a test wants it, so that a slow machine does all that the test does before the job is over.
# rm drag/* brings its end.
slow() {
	PACE=$1
	mkdir -p drag
	for w in w0 w1 w2 w3; do echo "drag speed=$1" >"drag/$w"; done
	echo "DRAG=$T/drag" >>job.env
}
crawl() {
	local files=(drag/w?)
	[ ! -e "${files[0]}" ] || sed -i "s/^drag speed=$PACE\$/drag speed=$(((PACE + 7) / 8))/" "${files[@]}"
}

status() { trainctl status --run-dir "$T/run"; }
done_samples() { said '^job .* samples-done=([^ ]*)'; }
came_to() {
	in_status '^job .* samples-done=([^ ]*)' && [ "${BASH_REMATCH[1]:-0}" -ge "$1" ] && crawl
}
pid_of() { said "^node .* id=$1 .* pid=([^ ]*)"; }
# children_of PID; trainer_of ID: the trainer of this agent; nothing while there is none.
children_of() { cat "/proc/$1/task/$1/children"; }
trainer_of() { children_of "$(pid_of "$1")" 2>/dev/null; }
logged() { grep -c "$1" run/state/job.log 2>/dev/null || true; }
# strike ID: kill -9, as soon as it runs.
strike() {
	wait_for '[ -n "$(pid_of '"$1"')" ]'
	kill -9 "$(pid_of "$1")"
}
running() { in_status '^job .* state=running'; }
summary() { tail -n 1 "$1"; }
# solution: an executable from stdin, ./solution
solution() { cat >solution && chmod +x solution; }
report() { trainctl report --run-dir "$T/run"; }
# applied ID: what a worker says it applied
applied() { grep -h '^applied ' run/state/logs/"$1".log; }

# decided_again LOG: what a lead has written down is enough to decide on it again.
decided_again() {
	trainctl solve --log "$1" | plrec where type=balance | plrec tsv iteration sizes >again
	plrec where type=balance <"$1" | plrec tsv iteration sizes | diff - again
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

# flip FILE OFFSET: another bit in this byte.
flip() {
	local byte
	byte=$(od -An -t u1 -j "$2" -N 1 "$1")
	printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

need_data() {
	[ -e "$DATA/$1" ] || skip "no $1 here"
}

# boot ID: from now on that is this machine's; syncs: how often a disk was waited for.
boot() {
	[ -e boot.so ] || cc -shared -fPIC -O2 -o boot.so "$PACELINE_ROOT/tests/other-boot.c"
	echo "$1" >boot_id
	export BOOT_ID=$T/boot_id SYNCS=$T/syncs LD_PRELOAD=$T/boot.so PACELINE_CONFINE=off
	export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0
}

fast_so() { [ -e fast.so ] || cc -shared -fPIC -O2 -o fast.so "$PACELINE_ROOT/tests/fast-clock.c"; }

# set_clock SECONDS: for all that is started from now on, and what was since the first time, the machine's
# clock is so many seconds fast.
set_clock() {
	fast_so
	echo "$1" >clock.new && mv clock.new clock
	export CLOCK_SET=$T/clock LD_PRELOAD=$T/fast.so PACELINE_CONFINE=off
	export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0
}

# fast PROGRAM ARG...: its clock goes twenty times as fast: thirty seconds of silence are two. For
# `start`: it becomes the program.
fast() {
	fast_so
	exec env CLOCK_SPEED=20 LD_PRELOAD="$T/fast.so" \
		ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0" "$@"
}

needs_python() { command -v python3 >/dev/null || skip "no python3 here"; }

# last FILE KEY: of its last line.
last() { tail -n 1 "$1" | field "$2"; }

# counts CHECKPOINT: of own-rows-trainer.py: how often each row was trained, by all together: COUNT ROWS.
counts() {
	python3 - "$1"/w*/counts <<-'P'
		import array, collections, sys
		total = None
		for name in sys.argv[1:]:
		    counts = array.array("I", open(name, "rb").read())
		    total = [a + b for a, b in zip(total or [0] * len(counts), counts)]
		for count, rows in sorted(collections.Counter(total).items()):
		    print(count, rows)
	P
}

# audit_counts CHECKPOINT: of the audit model: how often each row was applied, a line each.
audit_counts() {
	ckpt export "$1" audit.safetensors
	local header
	header=$(od -An -t u8 -N 8 audit.safetensors | tr -d ' ')
	tail -c +$((header + 9)) audit.safetensors | od -An -v -t f4 -w4
}
# exact CHECKPOINT ROWS EPOCHS: the audit model's promise. exact_or_more: under ASP and SSP, where what a
# worker pushed before it ended is trained again.
exact() {
	audit_counts "$1" |
		awk -v rows="$2" -v epochs="$3" '$1 != epochs { bad = 1 } END { exit bad || NR != rows }'
}
exact_or_more() {
	audit_counts "$1" |
		awk -v rows="$2" -v epochs="$3" '$1 < epochs { bad = 1 } END { exit bad || NR != rows }'
}

# Sums over hosts, as fabric.sock has them (fabricd(8)): hosts that are directories of one machine.
# rooms: fabric
load helper
. "$BATS_TEST_DIRNAME/cluster/world.bash"

setup_more() { needs_world; }

# stays HOST LINE...: a client that says this and stays until its fifo is closed.
stays() {
	local host=$1
	shift
	mkfifo "$host.in"
	start "$host.said" sh -c 'exec socat -t 300 - "UNIX-CONNECT:$1/fabric.sock" <"$1.in"' - "$T/$host"
	CLIENT=$PID
	exec 7>"$host.in"
	printf '%s\n' "$@" >&7
	wait_for "grep -q '^ok' '$host.said.out'" # it is open
}

driver() {
	cc -O2 -D_GNU_SOURCE -I"$PACELINE_ROOT/lib" "$@" -o driver \
		"$PACELINE_ROOT/tests/bench/fabric-allreduce.c" \
		"$(dirname "$(command -v fabricd)")/../lib/paceline.a" -levent -lm
}

# sums ROUNDS FLOATS WORKERS SAMPLES: by a client on each of a, b, c; each checks every number.
sums() {
	local i=0 host pids=()
	for host in a b c; do
		start "$host" ./driver "$T/$host/fabric.sock" a,b,c $i "$@"
		pids+=("$PID")
		i=$((i + 1))
	done
	for i in "${pids[@]}"; do
		ended "$i"
		[ "$status" -eq 0 ] || { cat a.err b.err c.err; return 1; }
	done
	[ "$(field sums <a.out)" = "$(field sums <b.out)" ]
	[ "$(field sums <a.out)" = "$(field sums <c.out)" ]
}

# killed N: large sums, and all clients killed in the middle, the Nth one first; waits until nothing of
# them is left.
killed() {
	local i=0 n=$1 host pids=() done_before
	for host in a b c; do
		start "$host" ./driver "$T/$host/fabric.sock" a,b,c $i 1000 3000000 1 300
		pids+=("$PID")
		i=$((i + 1))
	done
	done_before=$(ask a/fabric.sock stat | field sums-done)
	wait_for "[ \$(ask a/fabric.sock stat | field sums-done) -gt $((done_before + 3)) ]"
	for i in 0 1 2; do
		kill -9 "${pids[(n + i) % 3]}" 2>/dev/null || true # or it was told already
		ask a/fabric.sock stat >/dev/null
	done
	for host in a b c; do
		wait_for "[ \"\$(ask $host/fabric.sock stat | field sums-under-way)\" = 0 ]"
	done
}

@test "three hosts get the sums of vectors and rows, the same bits on all" {
	driver 2>/dev/null || driver -fsanitize=address,undefined
	world "a b c"
	sums 3 7 1 0
	sums 3 100000 2 50
	sums 2 3000000 2 0
	sums 3 0 1 500
	[ "$(field rows <a.out)" = "$(field rows <b.out)" ]
	run ask "$T/b/fabric.sock" stat
	[ "$(field sums-opened <<<"$output")" = "$(field sums-done <<<"$output")" ]
	[ "$(field sums-died <<<"$output")" = 0 ]
	[ "$(field sums-under-way <<<"$output")" = 0 ]
}

@test "by shares: the same sums, and clients killed in the middle leave nothing" {
	driver 2>/dev/null || driver -fsanitize=address,undefined
	world "a b c" --rounds shares
	sums 3 7 1 0
	sums 3 100000 2 50
	sums 2 3000000 2 0
	run ask "$T/b/fabric.sock" stat
	[ "$(field sums-opened <<<"$output")" = "$(field sums-done <<<"$output")" ]
	owned=$(field sums-owned <<<"$output")
	awk "BEGIN { exit !($owned >= 0 && $owned <= 1) }"
	killed 0
	sums 2 100000 1 0
}

# rounds_more N: waits until host a has done N more sums.
rounds_more() {
	local from
	from=$(ask a/fabric.sock stat | field sums-done)
	wait_for "[ \$(ask a/fabric.sock stat | field sums-done) -ge $((from + $1)) ]"
}

# pauses PID: it stands still in the middle of sums. What the others began without it is not enough for a sum.
pauses() {
	local from
	rounds_more 3
	kill -STOP "$1"
	wait_for '[ "$(ps -o stat= -p '"$1"' | cut -c1)" = T ]'
	from=$(ask a/fabric.sock stat | field sums-done)
	wait_for "[ \$(ask a/fabric.sock stat | field sums-opened) -gt $from ]"
	[ "$(ask a/fabric.sock stat | field sums-done)" -le $((from + 1)) ]
	kill -CONT "$1"
	rounds_more 3
}

@test "by shares: an owner that stands still is waited for; one that stays so is named, and all are told" {
	driver 2>/dev/null || driver -fsanitize=address,undefined
	world "a b c" --rounds shares
	local i=0 pids=() still
	for host in a b c; do
		start "$host" ./driver "$T/$host/fabric.sock" a,b,c $i 100000 1000000 1 0
		pids+=("$PID")
		i=$((i + 1))
	done
	still=$(pgrep -f "^fabricd --run-dir $T/b ")
	pauses "$still"
	pauses "${pids[1]}"
	kill -STOP "$still"
	ended "$WORLD"
	cat world.err ?.err
	[ "$status" -eq 75 ]
	grep -q "^fabricd: b: nothing has come from its fabricd (rank 1) for 30 s" world.err
	for i in "${pids[@]}"; do ended "$i"; done
	# What they are told of, in a question or while they wait for its answer.
	not grep -v ": the connection was closed" a.err b.err c.err
}

@test "a sum of one host is what it has" {
	world "a"
	run ask "$T/a/fabric.sock" "sum-open round=5 iteration=2 hosts=a dense=0" \
		"sum-rows round=5 rows=0 out-bytes=0" "sum-wait round=5 check=1" "sum-drop round=5" \
		"sum-wait round=5"
	[ "${lines[0]}" = ok ]
	[ "${lines[1]}" = ok ]
	[[ ${lines[2]} == "ok rows=0 wire-bytes=0 sum="* ]]
	[ "${lines[3]}" = ok ]
	[[ ${lines[4]} == "err code=stale"*"round 5 is not open here" ]]
}

@test "what makes no sense is refused, and harms nothing" {
	world "a b"
	run ask "$T/a/fabric.sock" \
		"sum-open round=1 iteration=0 hosts=a,z dense=0" \
		"sum-open round=1 iteration=0 hosts=b dense=0" \
		"sum-open round=1 iteration=0 hosts=a,a dense=0" \
		"sum-open round=1 iteration=0 hosts= dense=0" \
		"sum-open round=1 iteration=0 hosts=a,b dense=10 dense-offset=0" \
		"sum-open round=1 iteration=0 hosts=a,b dense=10" \
		"sum-open round=1 iteration=0 hosts=a,b dense=1e3" \
		"sum-open round=1 iteration=0 hosts=a,b" \
		"sum-part round=1 begin=0 length=1" \
		"sum-open round=1 iteration=0 hosts=b,a dense=0" \
		"sum-open round=1 iteration=0 hosts=b,a dense=0" \
		"sum-part round=1 begin=0 length=1" \
		"sum-rows round=1 rows=3 width=4 offset=0 out-bytes=0" \
		"sum-rows round=1 rows=3 out-bytes=0" \
		"sum-rows round=1 rows=0 out-bytes=8 out-offset=0" \
		"sum-wait round=1 check=2" \
		"sum-drop round=2" \
		"sum-drop round=1"
	[[ ${lines[0]} == "err code=lost"*"z is not in this world" ]]
	[[ ${lines[1]} == "err code=bad-request"*"a, which is this one, is not among them" ]]
	[[ ${lines[2]} == "err code=bad-request"*"a appears twice" ]]
	[[ ${lines[3]} == "err code="* ]]
	[[ ${lines[4]} == "err code=bad-request"*"not inside the memory that was mapped"* ]]
	[[ ${lines[5]} == "err code=bad-request"*"dense-offset"* ]]
	[[ ${lines[6]} == "err code=bad-request"*"1e3"* ]]
	[[ ${lines[7]} == "err code=bad-request"*"dense"* ]]
	[[ ${lines[8]} == "err code=stale"* ]]
	[ "${lines[9]}" = ok ]
	[[ ${lines[10]} == "err code=busy"* ]]
	[[ ${lines[11]} == "err code=bad-request"*"not within the 0 floats" ]]
	[[ ${lines[12]} == "err code=bad-request"*"not inside the memory that was mapped"* ]]
	[[ ${lines[13]} == "err code=bad-request"*"width"* ]]
	[[ ${lines[14]} == "err code=bad-request"*"not inside the memory that was mapped"* ]]
	[[ ${lines[15]} == "err code=bad-request"*"check"* ]]
	[[ ${lines[16]} == "err code=stale"* ]]
	[ "${lines[17]}" = ok ]
}

@test "a sum without rows: all hosts say so, and none may send any" {
	world "a b"
	stays a "sum-open round=1 iteration=0 hosts=a,b dense=0 rows=0" "sum-wait round=1 check=1"
	run ask "$T/b/fabric.sock" "sum-open round=1 iteration=0 hosts=a,b dense=0 rows=0" \
		"sum-rows round=1 rows=0 out-bytes=0" "sum-wait round=1 check=1" \
		"sum-open round=2 iteration=0 hosts=a,b dense=0 rows=2"
	[ "${lines[0]}" = ok ]
	[[ ${lines[1]} == "err code=bad-request"*"this round has no rows" ]]
	[[ ${lines[2]} == "ok rows=0 wire-bytes="*" sum="* ]]
	[[ ${lines[3]} == "err code=bad-request"*"rows"* ]]
	stays b "sum-open round=3 iteration=0 hosts=a,b dense=0 rows=0" "sum-wait round=3"
	run ask "$T/a/fabric.sock" "sum-open round=3 iteration=0 hosts=a,b dense=0" "sum-wait round=3"
	[[ ${lines[1]} == "err code=differs"*"rows"* ]]
}

@test "a client that leaves in the middle: the others are told which, and the next sum is whole" {
	world "a b c"
	stays b "sum-open round=1 iteration=0 hosts=a,b,c dense=0" "sum-wait round=1"
	run ask "$T/c/fabric.sock" "sum-open round=1 iteration=0 hosts=a,b,c dense=0"
	wait_for "grep -q '^err' b.said.out"
	[[ $(tail -n 1 b.said.out) == "err code=lost"*"c left it before its end"* ]]
	# Another client of that host, a newer round of all; the first one's is out of the way.
	run ask "$T/b/fabric.sock" "sum-part round=1 begin=0 length=0"
	[[ $output == "err code=busy"* ]]
	for host in a c; do
		start "$host" ask "$T/$host/fabric.sock" \
			"sum-open round=2 iteration=0 hosts=a,b,c dense=0" "sum-wait round=2"
	done
	run ask "$T/b/fabric.sock" "sum-open round=2 iteration=0 hosts=a,b,c dense=0" "sum-wait round=2"
	[[ ${lines[1]} == "ok rows=0 "* ]]
	exec 7>&-
	ended "$CLIENT"
}

@test "clients killed in the middle of large sums: nothing of them is left, and others go on" {
	driver 2>/dev/null || driver -fsanitize=address,undefined
	world "a b c"
	for n in 1 2 3; do killed $n; done
	sums 2 100000 1 50
}

@test "hosts that name different things, or another epoch" {
	world "a b"
	stays a "sum-open round=3 iteration=7 hosts=a,b dense=0" "sum-wait round=3"
	run ask "$T/b/fabric.sock" "sum-open round=3 iteration=8 hosts=a,b dense=0" "sum-wait round=3"
	[[ $output == *"err code=differs"*"a named iteration 7, this host 8"* ]]
	wait_for "grep -q '^err code=differs' a.said.out"
	printf '%s\n' "sum-open round=4 iteration=7 hosts=a,b dense=0" "sum-wait round=4" >&7
	wait_for '[ "$(tail -n 1 a.said.out | cut -d " " -f 1)" = ok ]'
	run ask "$T/b/fabric.sock" "sum-open round=3 iteration=7 hosts=a,b dense=0" "sum-wait round=3"
	[[ $output == *"err code=stale"*"a is at round 4 already"* ]]
	run ask "$T/b/fabric.sock" "sum-open round=5 iteration=7 hosts=a,b dense=0"
	wait_for "grep -q '^err code=stale' a.said.out"
	exec 7>&-
	ended "$CLIENT"
}

#!/usr/bin/env bats
# Servers that come and go while workers train: parameters move from part to part.
load helper

ROWS=4000
csv() {
	awk -v rows="$ROWS" 'BEGIN { print "label,x1,x2,c,d"
		for (i = 0; i < rows; i++) print i % 2 "," i % 9 "," i % 5 ",c" i % 5 ",d" i % 50 }' >data.csv
	printf 'layout version=1 seed=1\ntable name=audit width=1 rows=%d zero-columns=1 scale=0 update=add export=dense\n' \
		"$ROWS" >layout
}
CSV=(--data data.csv --format csv --label label --dense x1,x2 --sparse c,d --dense-scale none)

# queue EPOCHS
queue() {
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n "$ROWS" -b 100 -m 4 --epochs "$1"
	ready "$T/shardd.sock"
}

# part I N ARG...: a server.
part() {
	local i=$1 n=$2
	shift 2
	start "ps$i" ps-server -s "$T/ps$i.sock" --id "ps$i" --part "$i/$n" --layout layout "$@"
	printf -v "PS$i" %s "$PID"
	ready "$T/ps$i.sock"
}

# lead N ARG...: N parts, all of them.
lead() {
	local n=$1 i others=
	shift
	for ((i = 1; i < n; i++)); do
		part "$i" "$n"
		others+=${others:+,}$T/ps$i.sock
	done
	part 0 "$n" --shards "$T/shardd.sock" ${others:+--servers "$others"} "$@"
}

work() {
	start "$1" worker --id "$1" --shards "$T/shardd.sock" --servers "$T/ps0.sock" --batch 20 \
		--wait 120 "${CSV[@]}" --model audit "${@:2}"
	printf -v "PID_$1" %s "$PID"
}

# move I...: to ps0 and these, in this order.
move() {
	local i names=
	for i; do names+=${names:+,}$T/ps$i.sock; done
	ask "$T/ps0.sock" "move parts=$(($# + 1)) piece-bytes=1048576${names:+ servers=$names}"
}

iteration() { ask "$T/ps0.sock" stat | field iteration; }
came_to_unit() { [ "$(iteration)" -ge "$1" ]; }

# crawl PACE: workers are that slow; trains: they go on.
crawl() { echo "drag pace=$1" >drag; }

# finished EPOCHS WORKER...: all samples are done; workers end; a checkpoint has each sample that often.
finished() {
	local epochs=$1 w pid
	shift
	rm -f drag
	wait_for "ask $T/shardd.sock stat | grep -q samples-done=$((ROWS * epochs))"
	ask "$T/ps0.sock" "cut path=$T/ck"
	ask "$T/ps0.sock" finish
	for w; do
		pid=PID_$w
		ended "${!pid}"
		[ "$status" -eq 0 ] || { cat "$w.err"; return 1; }
	done
	exact "$T/ck" "$ROWS" "$epochs"
}

@test "BSP: one server becomes two, then three, then one, with two workers that go on" {
	csv
	queue 3
	lead 1
	crawl 2000
	work w0 --drag drag
	work w1 --drag drag
	wait_for 'came_to_unit 5'
	part 1 2 --join
	run move 1
	[[ $output == "ok version=2 parts=2 moved-bytes="*" pieces=1 stall="* ]] || { echo "$output"; cat ps0.err; return 1; }
	wait_for "came_to_unit $(($(iteration) + 5))"
	part 2 3 --join
	run move 1 2
	[[ $output == "ok version=3 parts=3 "* ]]
	wait_for "came_to_unit $(($(iteration) + 5))"
	run ask "$T/ps0.sock" parts
	[ "$(grep -c '^part ' <<<"$output")" -eq 3 ]
	[[ $output == *"ok version=3 parts=3 moving=0" ]]
	run move
	[[ $output == "ok version=4 parts=1 "* ]]
	kill "$PS1" "$PS2"
	finished 3 w0 w1
}

#!/usr/bin/env bats
# A part that has more to do than the others gives some of its keys away, while a worker trains.
load helper

ROWS=4000

# queue EPOCHS; the data has nothing but the row that a key is made of.
queue() {
	awk -v rows="$ROWS" 'BEGIN { print "label,x1,c"
		for (i = 0; i < rows; i++) print i % 2 "," i % 9 ",c" i % 5 }' >data.csv
	printf 'layout version=1 seed=1\ntable name=audit width=1 rows=%d zero-columns=1 scale=0 update=add export=dense\n' \
		"$ROWS" >layout
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n "$ROWS" -b 100 -m 4 --epochs "$1"
	ready "$T/shardd.sock"
}

servers() {
	start ps1 ps-server -s "$T/ps1.sock" --id ps1 --part 1/2 --layout layout
	ready "$T/ps1.sock"
	start ps0 ps-server -s "$T/ps0.sock" --id ps0 --part 0/2 --layout layout \
		--shards "$T/shardd.sock" --servers "$T/ps1.sock"
	ready "$T/ps0.sock"
}

work() {
	start w0 worker --id w0 --shards "$T/shardd.sock" --servers "$T/ps0.sock,$T/ps1.sock" --batch 20 \
		--wait 120 --data data.csv --format csv --label label --dense x1 --sparse c \
		--dense-scale none --model audit --drag drag
	WORKER=$PID
}

# uneven: part 1 has a tenth of the places.
uneven() {
	printf 'part part=0 dense-begin=0 key-begin=0\npart part=1 dense-begin=0 key-begin=3865470566\n' >bounds
	{ echo "move parts=2 servers=$T/ps1.sock bytes=$(wc -c <bounds)"; cat bounds; } |
		socat -t 300 - "UNIX-CONNECT:$T/ps0.sock" | tail -n 1
}

iteration() { ask "$T/ps0.sock" stat | field iteration; }
came_to_unit() { [ "$(iteration)" -ge "$1" ]; }

@test "a part with nine tenths of the keys gives some away, and all is exact" {
	queue 3
	servers
	echo 'drag pace=2000' >drag
	work
	wait_for 'came_to_unit 2'
	run ask "$T/ps0.sock" rebalance
	[[ $output == "err code=early"* ]] || came_to_unit 16
	run uneven
	[[ $output == "ok version=2 parts=2 "* ]]
	wait_for "came_to_unit $(($(iteration) + 40))"
	run ask "$T/ps1.sock" heat
	[[ $output == "ok key-begin=3865470566 keys=429496730 units="* ]]
	[ "$(field heat <<<"$output" | tr ',' '\n' | wc -l)" -eq 64 ]
	run ask "$T/ps0.sock" 'rebalance gain=0.3'
	[[ $output == "ok version=3 parts=2 moved-bytes="*" stall="*" peak=1."* ]] || { echo "$output"; cat ps0.err; return 1; }
	before=$(field peak <<<"$output" | cut -d, -f1)
	after=$(field peak <<<"$output" | cut -d, -f2)
	awk -v b="$before" -v a="$after" 'BEGIN { exit !(b > 1.6 && a < 1.2) }'
	begin=$(ask "$T/ps0.sock" parts | grep '^part part=1 ' | field key-begin)
	awk -v b="$begin" 'BEGIN { exit !(b > 0.4 * 4294967296 && b < 0.6 * 4294967296) }'
	wait_for "came_to_unit $(($(iteration) + 40))"
	# All have as much to do now.
	run ask "$T/ps0.sock" 'rebalance gain=0.3'
	[[ $output == "ok version=3 parts=2 moved-bytes=0 peak=1"* ]]
	rm drag
	wait_for "ask $T/shardd.sock stat | grep -q samples-done=$((ROWS * 3))"
	ask "$T/ps0.sock" "cut path=$T/ck"
	ask "$T/ps0.sock" finish
	ended "$WORKER"
	[ "$status" -eq 0 ]
	exact "$T/ck" "$ROWS" 3
}

@test "what can't be is refused with words" {
	queue 1
	servers
	run ask "$T/ps0.sock" 'rebalance gain=2'
	[[ $output == "err code=bad-request"* ]]
	run ask "$T/ps0.sock" rebalance
	[[ $output == "err code=early"* ]]
	run ask "$T/ps0.sock" stat
	[[ $output == *" rows-pulled=0 rows-pushed=0 "* ]]
}

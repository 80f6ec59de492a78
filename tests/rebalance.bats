#!/usr/bin/env bats
# A part that has more to do than the others gives some of its keys away, while a worker trains.
load helper

ROWS=4000

# queue EPOCHS; the data has nothing but the row that a key is made of.
queue() {
	awk -v rows="$ROWS" 'BEGIN { print "label,x1,c"
		for (i = 0; i < rows; i++) print i % 2 "," i % 9 ",c" i % 5 }' >data.csv
	audit_layout "$ROWS"
	schema_file x1 c
	model_file audit 1 1 "$ROWS"
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n "$ROWS" -b 100 -m 4 --epochs "$1"
	ready "$T/shardd.sock"
}

servers() {
	start ps1 ps-server -s "$T/ps1.sock" --id ps1 --part 1/2 --layout layout
	PS1=$PID
	ready "$T/ps1.sock"
	start ps0 ps-server -s "$T/ps0.sock" --id ps0 --part 0/2 --layout layout \
		--shards "$T/shardd.sock" --servers "$T/ps1.sock"
	ready "$T/ps0.sock"
	# until ps0 is connected to ps1, it refuses with code=lost
	wait_for '[[ $(ask "$T/ps0.sock" rebalance) == "err code=early"* ]]'
}

work() {
	start w0 worker --id w0 --shards "$T/shardd.sock" --servers "$T/ps0.sock,$T/ps1.sock" --batch 20 \
		--wait 120 --data data.csv --schema schema --model-file audit --drag drag
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
	echo 'drag speed=2000' >drag
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

@test "a part that does not say how much it is asked for: whoever waits is told, and may ask again" {
	queue 1
	servers
	kill -STOP "$PS1"
	run ask "$T/ps0.sock" rebalance
	kill -CONT "$PS1"
	[[ $output == "err code=no-heat"*"a server: no answer in time" ]] || { echo "$output"; return 1; }
	run ask "$T/ps0.sock" rebalance
	[[ $output == "err code=early"* ]]
}

# ---- by itself ----

# Places of rows 0 .. 5 are 0, .62, .24, .85, .47 and .09 of all: three of them are the first of three
# servers', and one is the last's.
skewed_job() {
	data 6
	job MODEL=audit BATCH=6,shard:1 SERVERS=3 EPOCHS=1000 RESTARTS=shard:never CHECKPOINT=end \
		REBALANCE=on,every:0.5 "$@"
	slow 100
	begin first
	wait_for 'came_to 300'
}
rebalanced() { grep '^rebalanced ' run/state/job.log; }
times() { rebalanced | wc -l; }
to_end() {
	rm drag/*
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	exact "$(last "${1:-first.out}" checkpoint)" 6 1000
}
map_of() { ask "$T/run/$1.sock" stat | field map; }

@test "REBALANCE=on: a job whose keys are skewed finds a better map, and again after a rollback: exact" {
	skewed_job
	wait_for 'rebalanced'
	rebalanced | head -n 1 | grep -q '^rebalanced id=ps0 before=1\.[3-9][0-9]* after=1[.0-9]* moved-bytes=[1-9][0-9]* stall=.* count=1 reason=imbalance at='
	[ "$(map_of ps2)" -ge 2 ]
	# A server that hands over has what it got.
	run trainctl kill-restart ps1 --force --run-dir "$T/run"
	[ "$status" -eq 0 ]
	before=$(times)
	strike ps2
	wait_for '[ "$(logged "^rollback ")" = 1 ]'
	wait_for '[ "$(times)" -gt '"$before"' ]'
	[ "$(map_of ps2)" -gt 4294967296 ]
	# It may find one more at any time; the file follows the log.
	wait_for 'grep -q " rebalances=$(times) " run/state/kept'
	to_end
	run report
	[[ $output == *" rebalances=$(times)"* ]]
	trainctl report --run-dir "$T/run" --text | tr -s ' \n' ' ' >text
	grep -q 'ps0 had 1\.[3-9]. times the mean work of all servers: .* moved, and the busiest had 1' text
}

@test "REBALANCE limit, an early look, and a supervisor that comes after" {
	skewed_job REBALANCE=limit:1
	wait_for 'rebalanced'
	kill -9 "$SUPERVISOR"
	wait_for 'gone $SUPERVISOR'
	begin second
	wait_for 'running'
	strike ps2
	wait_for 'grep -q "^rebalance .*REBALANCE=limit:1" run/state/job.log'
	[ "$(times)" = 1 ]
	to_end second.out
}

@test "REBALANCE=on: scaled meanwhile, and even servers move nothing" {
	skewed_job REBALANCE=every:0.2,gain:0.1
	wait_for 'rebalanced'
	run trainctl scale --servers 2 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	before=$(times)
	wait_for '[ "$(times)" -gt '"$before"' ]'
	run trainctl scale --servers 4 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	to_end
}

@test "REBALANCE=on: a brain's hot server is split first, and gets more cores only when it can't be" {
	cat >mind <<-'B'
		#!/bin/sh
		cat >/dev/null
		printf '%s\n' 'replace role=server id=ps0 cores=2 reason=hot' \
			'decision change=yes reason=hot method=rule now= expected= confidence='
	B
	chmod +x mind
	skewed_job REBALANCE=every:1000 BRAIN=./mind,every:1,cores:8,node-cores:2 MONITOR=report:1
	wait_for 'grep -q "^resize id=ps0 cores=2 .*reason=brain:%20hot" run/state/job.log'
	[[ $(grep -E '^(rebalanced|resize) ' run/state/job.log | head -n 1) == "rebalanced "* ]]
	to_end
}

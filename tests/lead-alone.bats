#!/usr/bin/env bats
# A lead without parameters (ps-server --lead-only --servers): all parts are beside it, part 0, too.
# rooms: lead ps work
load helper
load changing-servers

iteration() { ask "$T/lead.sock" stat | field iteration; }
is_standby() { ask "$T/ps$1.sock" stat | grep -q " standby=in-force "; }
goes_on() { wait_for "came_to_unit $(($(iteration) + 5))"; }

# part NAME I N ARG...: its pid in NAME.
part() {
	local name=$1 i=$2 n=$3
	shift 3
	start "$name" ps-server -s "$T/ps$i.sock" --id "ps$i" --part "$i/$n" --led --layout layout "$@"
	printf -v "$name" %s "$PID"
}

sockets() { # I...
	local i names=
	for i; do names+=${names:+,}$T/ps$i.sock; done
	echo "$names"
}

# lead NAME SOCKET,... ARG...: its pid in NAME
lead() {
	start "$1" ps-server -s "$T/lead.sock" --id lead --lead-only --servers "$2" --shards "$T/shardd.sock" \
		--layout layout "${@:3}"
	printf -v "$1" %s "$PID"
	ready "$T/lead.sock"
}

# parts N ARG...: all of them, and their lead.
parts() {
	local n=$1 i
	shift
	for ((i = 0; i < n; i++)); do part "PS$i" "$i" "$n" "$@"; done
	lead LEAD "$(sockets $(seq 0 $((n - 1))))" "$@"
}

workers() { # N: of N parts
	pace 200
	work w0 "$(sockets $(seq 0 $(($1 - 1))))" --lead "$T/lead.sock" --drag drag
	work w1 "$(sockets $(seq 0 $(($1 - 1))))" --lead "$T/lead.sock" --drag drag
	wait_for 'came_to_unit 5'
}

all_done() { # EPOCHS
	rm -f drag
	wait_for "ask $T/shardd.sock stat | grep -q samples-done=$((ROWS * $1))"
	ask "$T/lead.sock" "cut path=$T/ck"
	ask "$T/lead.sock" finish
	for w in w0 w1; do
		pid=PID_$w
		ended "${!pid}"
		[ "$status" -eq 0 ] || { cat "$w.err"; return 1; }
	done
	exact "$T/ck" "$ROWS" "$1"
}

@test "the lead dies, and part 0 whose standby takes over, and both: each sample is counted once" {
	csv
	local mode
	for mode in bsp ssp:2 asp; do
		rm -rf journal ck ./*.sock*
		queue 3
		parts 2 --sync "$mode"
		workers 2
		kill -9 "$LEAD"
		lead LEAD "$(sockets 0 1)" --sync "$mode"
		goes_on
		[ "$(ask "$T/lead.sock" stat | field term)" -eq 2 ]
		part NEXT 0 2 --sync "$mode" --standby
		wait_for 'is_standby 0'
		kill -9 "$PS0"
		goes_on
		PS0=$NEXT
		part NEXT 0 2 --sync "$mode" --standby
		wait_for 'is_standby 0'
		kill -9 "$LEAD" "$PS0"
		lead LEAD "$(sockets 0 1)" --sync "$mode"
		goes_on
		all_done 3
		all_over
	done
}

@test "parts come and go, the first one, too; the lead dies under a map that has changed: exact" {
	csv
	queue 3
	parts 1
	workers 1
	part PS1 1 2 --join
	ready "$T/ps1.sock"
	run ask "$T/lead.sock" "move parts=2 servers=$(sockets 0 1)"
	[[ $output == "ok version=2 parts=2 moved-bytes="* ]]
	goes_on
	run ask "$T/lead.sock" parts
	[[ ${lines[0]} == "part part=0 id=ps0 socket=$T/ps0.sock dense-begin=0 "* ]]
	kill -9 "$LEAD"
	lead LEAD "$(sockets 0 1)"
	wait_for 'ask "$T/lead.sock" parts | grep -q "^ok version=2 parts=2 moving=0$"' # it asks its parts first
	goes_on
	part PS2 2 3 --join
	ready "$T/ps2.sock"
	run ask "$T/lead.sock" "move parts=2 servers=$(sockets 1 2)"
	[[ $output == "ok version=3 parts=2 moved-bytes="* ]] || { echo "$output"; cat LEAD.err PS?.err; return 1; }
	kill "$PS0"
	goes_on
	run ask "$T/lead.sock" 'rebalance gain=0.99'
	[[ $output == "ok version=3 parts=2 "*" busiest=ps"[12] || $output == "err code=early"* ]]
	all_done 3
}

@test "a lead that finds parts that do not fit together ends with 75" {
	audit_layout 100
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n 100 -b 10
	part PS0 0 2
	part PS1 1 2 --incarnation 2
	local args=(-s "$T/lead.sock" --id lead --lead-only --layout layout)
	run -75 ps-server "${args[@]}" --servers "$(sockets 0 1)" --shards "$T/shardd.sock"
	[[ $output == *"$T/ps1.sock: is of incarnation 2 and goes by map 1, not of 1 and by 1"* ]]
	run -75 ps-server "${args[@]}" --servers "$(sockets 1 0)"
	[[ $output == *"$T/ps1.sock: is part 1/2, not 0/2"* ]]
	run -75 ps-server "${args[@]}" --servers "$(sockets 0)"
	[[ $output == *"$T/ps0.sock: is part 0/2, not 0/1"* ]]
}

@test "by hand: a lead died when shardd had settled a unit and one part had applied it: the next one has the other apply it" {
	local i key round=$(((1 << 32) + 1)) part='part worker=w0 generation=1 sequence=1 unit=0 count=1\n'
	local line='apply worker=w0 generation=1 id=0 begin=0 length=1\n' n
	n=$((${#part} - 1))
	audit_layout 100
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n 100 -b 10
	ready "$T/shardd.sock"
	ask "$T/shardd.sock" 'hello worker=w0' 'get worker=w0 generation=1' 'term incarnation=1'
	for i in 0 1; do
		part "PS$i" $i 2
		ready "$T/ps$i.sock"
		key=$((i == 0 ? 2 : 1)) # place of 1: 2654435761, in part 1; of 2: 1013904226, in part 0
		open "p$i" "$T/ps$i.sock"
		tell "p$i" "push worker=w0 generation=1 incarnation=1 sequence=1 iteration=0 count=1 dense=0 rows=1 ranges=0:0:1 bytes=8\n\x0$key\0\0\0\0\0\x80\x3f"
		answered "p$i" 'ok staged=1'
		tell "p$i" "hold incarnation=1 round=$round bytes=$n\n$part"
		answered "p$i" '^ok$'
	done
	open s "$T/shardd.sock"
	tell s "settle number=1 iteration=0 incarnation=1 term=1 whole=1 note=$round-1-1 bytes=$((${#line} - 1))\n$line"
	answered s '^ok settled=1'
	tell p0 "apply incarnation=1 iteration=0 units=1 held=$round\n"
	answered p0 '^ok iteration=1'
	lead LEAD "$(sockets 0 1)"
	wait_for 'ask "$T/ps1.sock" stat | grep -q " iteration=1 "'
	[ "$(iteration)" = 1 ]
}

#!/usr/bin/env bats
# Servers that come and go while workers train: parameters move from part to part.
load helper
load changing-servers

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

# move I...: to ps0 and these, in this order.
move() {
	local i names=
	for i; do names+=${names:+,}$T/ps$i.sock; done
	ask "$T/ps0.sock" "move parts=$(($# + 1)) piece-bytes=1048576${names:+ servers=$names}"
}

@test "BSP: one server becomes two, then three, then one, with two workers that go on" {
	csv
	queue 3
	lead 1
	pace 200
	work w0 "$T/ps0.sock" --drag drag
	work w1 "$T/ps0.sock" --drag drag
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
	run move 1
	[[ $output == "err code=move"*"it was not started with --join, or has had a part since"* ]]
	# another one at once where one went: the lead does not take it for that one
	kill "$PS1" "$PS2"
	ended "$PS1"
	part 1 2 --join
	run move 1
	[[ $output == "ok version=5 parts=2 "* ]]
	finished 3 w0 w1
}

@test "ASP and SSP: one server becomes three, then two; each sample is counted once" {
	csv
	local mode
	for mode in asp ssp:2; do
		rm -rf journal ck ps*.sock*
		queue 3
		lead 1 --sync "$mode"
		pace 200
		work w0 "$T/ps0.sock" --drag drag
		work w1 "$T/ps0.sock" --drag drag
		work w2 "$T/ps0.sock" --drag drag
		wait_for 'came_to_unit 15'
		part 1 3 --join --sync "$mode"
		part 2 3 --join --sync "$mode"
		run move 1 2
		[[ $output == "ok version=2 parts=3 "* ]] || { echo "$output"; return 1; }
		wait_for "came_to_unit $(($(iteration) + 15))"
		run move 2
		[[ $output == "ok version=3 parts=2 "* ]] || { echo "$output"; return 1; }
		kill "$PS1"
		finished 3 w0 w1 w2
		all_over
	done
}

# step SOCKET GENERATION ITERATION [MAP]: a worker makes one step with all dense parameters and 20000 rows.
step() {
	local at="generation=$2 incarnation=1"
	{
		printf 'join worker=w0 %s\n' "$at"
		printf 'push worker=w0 %s sequence=1 iteration=%d count=1 dense=1 rows=20000 map=%d ranges= loss=1 bytes=%d\n' \
			"$at" "$3" "${4:-1}" $((4800000 + 80000 + 640000))
		cat gradient
	} | socat -t 300 - "UNIX-CONNECT:$1" >heard
	grep -aq "ok iteration=$(($3 + 1)) applied=1" heard
}

# trained: a model with a vector of 1.2 million floats and rows, on one server that has made steps.
trained() {
	printf '%s\n' 'layout version=1 seed=3' 'tensor name=v rows=1200000 cols=1 init=normal scale=1' \
		'table name=t width=8 rows=0 zero-columns=1 scale=0.5' >layout
	perl -e 'print pack("f*", map { ($_ % 11) / 11 } 1..1200000);
		print pack("V*", map { $_ * 7 } 0..19999);
		print pack("f*", map { ($_ % 13) / 13 } 0..159999)' >gradient
	part 0 1 --optimizer adagrad
	step "$T/ps0.sock" 1 0
	step "$T/ps0.sock" 2 1
}

# checkpoint SOCKET NAME: its parameters in NAME.safetensors.
checkpoint() {
	ask "$1" "cut path=$T/$2" >cut.out
	grep -q '^ok ' cut.out || { cat cut.out; return 1; }
	ckpt verify "$T/$2"
	ckpt export "$T/$2" "$2.safetensors"
}

@test "many pieces: one, three, two, one: the same bytes of parameters and slots, none twice" {
	trained
	checkpoint "$T/ps0.sock" a
	for i in 1 2; do part "$i" 3 --join --optimizer adagrad; done
	run move 1 2
	[[ $output == "ok version="*" parts=3 moved-bytes="* ]] || { echo "$output"; tail ps*.err; return 1; }
	[ "$(field pieces <<<"$output")" -ge 6 ]
	[ "$(field moved-bytes <<<"$output")" -ge 6400000 ]
	[ "$(field moved-bytes <<<"$output")" -le 9000000 ]
	[ "$(ask "$T/ps1.sock" stat | field dense)" -eq 400000 ]
	checkpoint "$T/ps0.sock" b
	cmp a.safetensors b.safetensors
	run move 2
	[[ $output == "ok "*" parts=2 "* ]] || { echo "$output"; return 1; }
	kill "$PS1"
	checkpoint "$T/ps0.sock" c
	cmp a.safetensors c.safetensors
	run move
	[[ $output == "ok "*" parts=1 "* ]] || { echo "$output"; return 1; }
	kill "$PS2"
	[ "$(ask "$T/ps0.sock" stat | field rows)" -eq 20000 ]
	checkpoint "$T/ps0.sock" d
	cmp a.safetensors d.safetensors
	# and the next step is the same
	step "$T/ps0.sock" 3 2 "$(ask "$T/ps0.sock" stat | field map)"
	checkpoint "$T/ps0.sock" e
	start one ps-server -s "$T/one.sock" --id one --restore "$T/a" --optimizer adagrad
	ready "$T/one.sock"
	step "$T/one.sock" 3 2
	checkpoint "$T/one.sock" f
	cmp e.safetensors f.safetensors
}

@test "who joins is killed, stopped, wrong or not there: the old map goes on, and a worker with it" {
	csv
	queue 2
	lead 1
	pace 100
	work w0 "$T/ps0.sock" --drag drag
	wait_for 'came_to_unit 3'
	start move ask "$T/ps0.sock" "move parts=2 servers=$T/none.sock"
	wait_for 'ask "$T/ps0.sock" parts | grep -q moving=1'
	run ask "$T/ps0.sock" "move parts=2 servers=$T/none.sock"
	[[ $output == "err code=moving"* ]]
	wait_for "came_to_unit $(($(iteration) + 3))"
	kill "$PID"
	# not one that joins
	start ps1 ps-server -s "$T/none.sock" --id ps1 --part 1/2 --layout layout
	wait_for 'ask "$T/ps0.sock" parts | grep -q moving=0'
	grep -q 'none.sock: it was not started with --join' ps0.err
	# of another life of the job, and with another's name
	start ps2 ps-server -s "$T/ps2.sock" --id ps2 --part 1/2 --layout layout --join --incarnation 2
	run move 2
	[[ $output == "err code=move"*"ps2.sock: it is of incarnation 2, not 1; map 1 of 1 parts goes on" ]] ||
		{ echo "$output"; return 1; }
	start ps3 ps-server -s "$T/ps3.sock" --id ps0 --part 1/2 --layout layout --join
	run move 3
	[[ $output == "err code=move"*"has the --id of another server"* ]]
	# of another model: refused by who gets it
	layouts w3
	start ps4 ps-server -s "$T/ps4.sock" --id ps4 --part 1/2 --layout w3 --join
	run move 4
	[[ $output == "err code=move"*"rows are"* ]] || { echo "$output"; return 1; }
	run ask "$T/ps0.sock" parts
	[[ $output == *"ok version=1 parts=1 moving=0" ]]
	finished 2 w0
}

# puppet WHAT: ps9.sock, a server that joins as it should and stops at WHAT: it says nothing to it, or,
# with die-WHAT, goes.
puppet() {
	cat >puppet.pl <<'END'
use strict; use IO::Socket::UNIX; use IO::Select;
my ($path, $what) = @ARGV;
my $l = IO::Socket::UNIX->new(Local => $path, Listen => 8) or die;
my $s = IO::Select->new($l);
$| = 1;
my %in;
while (my @ready = $s->can_read) {
	for my $c (@ready) {
		if ($c == $l) {
			my $n = $l->accept;
			$s->add($n);
			syswrite $n, "paceline role=ps-server version=1 id=ps9 part=1/2 lead=0\n";
			next;
		}
		if (!sysread $c, $in{$c}, 1 << 20, length($in{$c} // '')) { $s->remove($c); close $c; next }
		while ($in{$c} =~ s/^([^\n]*)\n//) {
			my ($line, $verb) = ($1, $1 =~ /^(\S+)/);
			if ($line =~ / bytes=(\d+)$/ && $verb ne 'map') {
				sysread $c, $in{$c}, 1 << 20, length $in{$c} while length $in{$c} < $1;
				substr $in{$c}, 0, $1, '';
			}
			print "$line\n";
			exit if $what eq "die-$verb";
			next if $what eq $verb;
			if ($verb eq 'stat') {
				syswrite $c, "stat id=ps9 part=1/2 iteration=0 incarnation=1 map=0 join=1\nok\n";
			} elsif ($verb eq 'map') {
				syswrite $c, "err code=unknown-request\n";
			} else {
				syswrite $c, "ok bytes=0\n";
			}
		}
	}
}
END
	start "puppet" perl puppet.pl "$T/ps9.sock" "$1"
	PUPPET=$PID
	wait_for '[ -S ps9.sock ]'
}

@test "who joins stops or dies at any point before the map is in force: nothing is lost, nothing twice" {
	command -v perl >/dev/null || skip "no perl"
	csv
	queue 2
	start ps0 fast ps-server -s "$T/ps0.sock" --id ps0 --part 0/1 --layout layout --hung 0 \
		--shards "$T/shardd.sock"
	ready "$T/ps0.sock"
	pace 30 # not done with all rows before a busy machine has been through all this
	work w0 "$T/ps0.sock" --drag drag
	work w1 "$T/ps0.sock" --drag drag
	local what
	for what in stat prepare map accept give die-stat die-prepare die-map die-accept die-give; do
		rm -f ps9.sock
		puppet "$what"
		run move 9
		kill "$PUPPET" 2>/dev/null || true
		[[ $output == "err code=move"*"map 1 of 1 parts goes on" ]] || { echo "$what: $output"; return 1; }
		wait_for "came_to_unit $(($(iteration) + 1))"
	done
	# and after all that one that is well
	part 1 2 --join
	run move 1
	[[ $output == "ok version=2 parts=2 "* ]] || { echo "$output"; return 1; }
	finished 2 w0 w1
}

@test "by hand: who waits hears of the map; stale ones, none and those to come are refused; a push said again counts once" {
	printf '%s\n' 'layout version=1 seed=1' 'tensor name=v rows=8 cols=1 init=zero scale=0' >layout
	part 0 1 --optimizer sgd --lr 1
	part 1 2 --join --optimizer sgd --lr 1
	local me='worker=w0 generation=1 incarnation=1' ones='\0\0\x80\x3f\0\0\x80\x3f\0\0\x80\x3f\0\0\x80\x3f'
	open a "$T/ps0.sock"
	open b "$T/ps0.sock"
	open p "$T/ps0.sock"
	tell a "join $me\n"
	answered a 'ok iteration=0'
	tell b 'join worker=w1 generation=1 incarnation=1\n'
	wait_for 'ask "$T/ps0.sock" members | grep -q "worker=w1 .*state=joining"'
	tell a "push $me sequence=1 iteration=0 count=1 dense=1 rows=0 ranges= loss=0 bytes=32\n$ones$ones"
	answered b 'ok iteration=1'
	# w0 has pushed its second one and waits for w1; somebody waits for what that will make
	tell a "push $me sequence=2 iteration=1 count=1 dense=1 rows=0 ranges= loss=0 bytes=32\n$ones$ones"
	tell p 'pull worker=x generation=1 incarnation=1 iteration=2 dense=1 rows=0\n'
	wait_for 'ask "$T/ps0.sock" stat | grep -q " staged=1 .*pulls=1"'
	run move 1
	[[ $output == "ok version=2 parts=2 "* ]] || { echo "$output"; return 1; }
	answered a '^err code=map map=2'
	answered p '^err code=map map=2'
	[ "$(ask "$T/ps0.sock" stat | field staged)" -eq 0 ]
	local map
	for map in "" " map=1" " map=3" " map=18446744073709551615"; do
		run ask "$T/ps1.sock" "pull worker=x generation=1 incarnation=1 iteration=0 dense=1 rows=0$map"
		[[ $output == "err code=map map=2"* ]]
		tell a "push $me sequence=2 iteration=1 count=1 dense=1 rows=0$map ranges= loss=0 bytes=16\n$ones"
	done
	wait_for '[ "$(grep -c "^err code=map map=2" a.answers)" -eq 5 ]'
	# cut by the new map, w1 beside it
	open c "$T/ps1.sock"
	local w
	for w in w0 w1; do
		tell c "push worker=$w generation=1 incarnation=1 sequence=2 iteration=1 map=2 count=1 dense=1 rows=0 ranges= loss=0 bytes=16\n$ones"
	done
	wait_for '[ "$(grep -c staged=1 c.answers)" -eq 2 ]'
	tell a "push $me sequence=2 iteration=1 map=2 count=1 dense=1 rows=0 ranges= loss=0 bytes=16\n$ones"
	tell b "push worker=w1 generation=1 incarnation=1 sequence=2 iteration=1 map=2 count=1 dense=1 rows=0 ranges= loss=0 bytes=16\n$ones"
	answered a 'ok iteration=2 applied=1'
	# said once more, by any map: it was applied
	tell a "push $me sequence=2 iteration=1 count=1 dense=1 rows=0 ranges= loss=0 bytes=32\n$ones$ones"
	answered a 'applied=1 repeated=1'
	ask "$T/ps0.sock" "cut path=$T/ck"
	ckpt export ck v.safetensors
	[ "$(tail -c 32 v.safetensors | od -An -v -tf4 | xargs)" = "-2 -2 -2 -2 -2 -2 -2 -2" ]
	# requests that no lead makes
	run ask "$T/ps1.sock" 'give incarnation=1 attempt=5' 'accept incarnation=1 attempt=5' \
		'adopt incarnation=1 attempt=5 map=9 iteration=2' 'prepare incarnation=1 attempt=5 map=9 iteration=2' \
		'cancel incarnation=1 attempt=1' 'give incarnation=2 attempt=5'
	[ "$(sed -n 's/^err code=\([a-z-]*\).*/\1/p' <<<"$output" | xargs)" = "move stale order move fenced" ] ||
		{ echo "$output"; return 1; }
	run ask "$T/ps0.sock" 'move parts=0' 'move parts=2' 'move parts=3 servers=a,a' 'move parts=2 servers=a,b' \
		'move parts=2 servers=a piece-bytes=1'
	[ "$(grep -c '^err code=bad-request' <<<"$output")" -eq 5 ] || { echo "$output"; return 1; }
}

# keys_of PART PARTS COUNT: so many keys of it by the first map, as pull and push have them.
keys_of() {
	perl -e 'my ($part, $parts, $count) = @ARGV;
		for (my $k = 0; $count; $k++) {
			next if ((($k * 2654435761) & 0xffffffff) * $parts >> 32) != $part;
			print pack("V", $k); $count--
		}' "$@"
}

@test "by hand: rows that came for an attempt that failed go, and a push staged meanwhile finds its own" {
	printf '%s\n' 'layout version=1 seed=1' 'table name=t width=1 rows=0 zero-columns=1 scale=0' >layout
	part 1 3 --optimizer sgd --lr 1
	part 2 3 --optimizer sgd --lr 1
	local me='worker=w0 generation=1 incarnation=1' sent="$T/sent" begin=1431655766 map
	local unit='part worker=w0 generation=1 sequence=1 unit=0'
	map=$(printf 'part id=ps%d socket=%s dense-begin=0 key-begin=%s\n' 0 "$T/none" 0 1 "$T/ps1.sock" "$begin" \
		2 "$T/ps2.sock" "$begin")
	open a "$T/ps1.sock"
	open b "$T/ps2.sock"
	keys_of 1 3 100 >keys
	{ printf 'pull %s iteration=0 dense=0 rows=100 bytes=400\n' "$me"; cat keys; } >"$sent"
	cat "$sent" >&"$FD_a"
	answered a 'model iteration=0 .*rows=100 '
	tell a "prepare incarnation=1 attempt=1 map=2 iteration=0 bytes=$((${#map} + 1))\n$map\n"
	tell b "prepare incarnation=1 attempt=1 map=2 iteration=0 bytes=$((${#map} + 1))\n$map\n"
	answered a 'ok bytes=0'
	answered b 'ok bytes=0'
	tell a 'give incarnation=1 attempt=1\n'
	tell b 'give incarnation=1 attempt=1\n'
	answered a 'ok bytes=[1-9]'
	tell a 'give incarnation=1 attempt=1\n'
	answered a '^err code=move'
	[ "$(ask "$T/ps2.sock" stat | field rows)" -eq 100 ]
	# the keys of b, with gradients 1, 2, ..; then what came goes
	keys_of 2 3 10 >keys
	{
		printf 'push %s sequence=1 iteration=0 count=1 dense=0 rows=10 ranges= bytes=80\n' "$me"
		cat keys
		perl -e 'print pack("f*", 1..10)'
	} >"$sent"
	cat "$sent" >&"$FD_b"
	answered b staged=1
	# a pull that waits for them
	open c "$T/ps2.sock"
	{ printf 'pull %s iteration=1 dense=0 rows=10 bytes=40\n' "$me"; cat keys; } >"$sent"
	cat "$sent" >&"$FD_c"
	wait_for 'ask "$T/ps2.sock" stat | grep -q pulls=1'
	tell b 'cancel incarnation=1 attempt=1\n'
	tell b "apply incarnation=1 iteration=0 units=1 bytes=$((${#unit} + 1))\n$unit\n"
	answered b 'ok iteration=1$'
	[ "$(ask "$T/ps2.sock" stat | field rows)" -eq 10 ]
	wait_for '[ "$(tail -c 3 c.answers | tr -d "\0")" = ok ]'
	[ "$(tail -c 43 c.answers | head -c 40 | od -An -v -tf4 | xargs)" = "-1 -2 -3 -4 -5 -6 -7 -8 -9 -10" ]
}

@test "by hand: what is given waits until who gets it was told as much as who gives; or goes" {
	printf '%s\n' 'layout version=1 seed=1' 'table name=t width=1 rows=0 zero-columns=1 scale=0' >layout
	part 1 3 --optimizer sgd --lr 1
	part 2 3 --optimizer sgd --lr 1
	local me='worker=w0 generation=1 incarnation=1' begin=1431655766 map i p
	local unit='part worker=w0 generation=1 sequence=1 unit=0'
	unit="apply incarnation=1 iteration=0 units=1 bytes=$((${#unit} + 1))\n$unit\n"
	map=$(printf 'part id=ps%d socket=%s dense-begin=0 key-begin=%s\n' 0 "$T/none" 0 1 "$T/ps1.sock" "$begin" \
		2 "$T/ps2.sock" "$begin")
	open a "$T/ps1.sock"
	open b "$T/ps2.sock"
	for p in a1 b2; do
		{
			printf 'push %s sequence=1 iteration=0 count=1 dense=0 rows=10 ranges= bytes=80\n' "$me"
			keys_of "${p#?}" 3 10
			perl -e 'print pack("f*", 1..10)'
		} >"$T/sent"
		i="FD_${p%?}"
		cat "$T/sent" >&"${!i}"
		answered "${p%?}" staged=1
	done
	for i in 1 2; do
		for p in a b; do
			tell "$p" "prepare incarnation=1 attempt=$i map=2 iteration=0 bytes=$((${#map} + 1))\n$map\n"
			wait_for "[ \"\$(grep -c '^ok bytes=0' $p.answers)\" -eq $i ]"
		done
		[ "$i" = 2 ] || tell a "$unit"
		answered a 'ok iteration=1$'
		tell a "give incarnation=1 attempt=$i\n"
		ask "$T/ps1.sock" stat
		ask "$T/ps2.sock" stat | grep -q ' rows=10 '
		# the first time it is not told
		[ "$i" = 2 ] || tell b 'cancel incarnation=1 attempt=1\n'
		[ "$i" = 2 ] || answered a '^err code=move.*attempt'
		[ "$i" = 2 ] || tell a 'cancel incarnation=1 attempt=1\n'
	done
	tell b "$unit"
	tell b 'give incarnation=1 attempt=2\n'
	answered a 'ok bytes=[1-9]'
	for p in a b; do
		tell "$p" "adopt incarnation=1 attempt=2 map=2 iteration=1 bytes=$((${#map} + 1))\n$map\n"
	done
	wait_for '[ "$(ask "$T/ps2.sock" stat | field rows)" = 20 ]'
	{ printf 'pull %s iteration=1 map=2 dense=0 rows=10 bytes=40\n' "$me"; keys_of 1 3 10; } |
		socat -t 300 - "UNIX-CONNECT:$T/ps2.sock" >heard
	[ "$(tail -c 43 heard | head -c 40 | od -An -v -tf4 | xargs)" = "-1 -2 -3 -4 -5 -6 -7 -8 -9 -10" ]
}

# take_over I: an heir of one of three parts.
take_over() {
	local before=PS$1
	start "heir$1" ps-server -s "$T/ps$1.sock" --id "ps$1" --part "$1/3" --layout layout \
		--optimizer adagrad --take-over $([ "$1" != 0 ] || echo "--servers $T/ps1.sock,$T/ps2.sock")
	ended "${!before}"
	[ "$status" -eq 0 ]
	printf -v "PS$1" %s "$PID"
	ready "$T/ps$1.sock"
}

@test "a checkpoint and a move wait for each other; parts and lead are handed over under a map with bounds by hand" {
	trained
	part 1 3 --join --optimizer adagrad
	part 2 3 --join --optimizer adagrad
	checkpoint "$T/ps0.sock" a
	ask "$T/ps0.sock" "move parts=3 servers=$T/ps1.sock,$T/ps2.sock piece-bytes=1048576" >moved &
	local pid=$! i
	PIDS+=("$pid")
	for i in 1 2 3 4 5; do
		checkpoint "$T/ps0.sock" "c$i"
		cmp a.safetensors "c$i.safetensors"
	done
	ended "$pid"
	grep -q '^ok version=.* parts=3 ' moved
	set_clock -3600 # the heir's attempts follow those that the others have heard of
	take_over 0
	{
		printf 'part part=0 dense-begin=0 key-begin=0\npart part=1 dense-begin=700000 key-begin=4000000000\n'
		printf 'part part=2 dense-begin=700001 key-begin=4000000001\n'
	} >bounds
	{
		printf 'move parts=3 servers=%s,%s bytes=%d\n' "$T/ps1.sock" "$T/ps2.sock" "$(stat -c %s bounds)"
		cat bounds
	} | socat -t 300 - "UNIX-CONNECT:$T/ps0.sock" >moved
	grep -q '^ok version=.* parts=3 ' moved || { cat moved; return 1; }
	[ "$(ask "$T/ps1.sock" stat | field dense)" -eq 1 ]
	for i in 1 2 0; do take_over $i; done
	run ask "$T/ps0.sock" parts
	[[ $output == *"part=2 id=ps2 socket=$T/ps2.sock dense-begin=700001 dense=499999 "* ]] || { echo "$output"; return 1; }
	checkpoint "$T/ps0.sock" h
	cmp a.safetensors h.safetensors
	run move
	[[ $output == "ok "*" parts=1 "* ]] || { echo "$output"; return 1; }
	checkpoint "$T/ps0.sock" z
	cmp a.safetensors z.safetensors
}

@test "a part that stands still for a while in the middle of moves: they fail or not, each sample once" {
	csv
	queue 2
	part 1 2
	start ps0 fast ps-server -s "$T/ps0.sock" --id ps0 --part 0/2 --layout layout --hung 0 \
		--shards "$T/shardd.sock" --servers "$T/ps1.sock"
	ready "$T/ps0.sock"
	pace 50
	work w0 "$T/ps0.sock,$T/ps1.sock" --drag drag
	work w1 "$T/ps0.sock,$T/ps1.sock" --drag drag
	wait_for 'came_to_unit 2'
	part 2 3 --join
	local n pid others=1,2
	for n in 1 2 3 4; do
		start "move$n" ask "$T/ps0.sock" \
			"move parts=$([ "$others" = 1 ] && echo 2 || echo 3) servers=$T/ps${others//,/.sock,$T/ps}.sock"
		pid=$PID
		sleep "0.0$((RANDOM % 10))"
		kill -STOP "$PS1"
		sleep "0.$((RANDOM % 9))" # whatever happens meanwhile
		kill -CONT "$PS1"
		ended "$pid"
		grep -qE '^(ok version=|err code=move)' "move$n.out" || { cat "move$n.out"; return 1; }
		wait_for "came_to_unit $(($(iteration) + 1))"
		# there again; and back, with a new server in its place
		wait_for 'ask "$T/ps0.sock" parts | grep -q moving=0'
		if [ "$(ask "$T/ps0.sock" parts | sed -n 's/^ok .* parts=\([0-9]*\).*/\1/p')" = 3 ]; then
			others=1
		elif [ "$others" = 1 ]; then
			kill "$PS2"
			ended "$PS2"
			part 2 3 --join
			others=1,2
		fi
	done
	finished 2 w0 w1
}

@test "a worker that computes while its server leaves and ends goes on with the same batch" {
	csv
	queue 1
	lead 2
	pace 15 # more than a second a batch
	work w0 "$T/ps0.sock,$T/ps1.sock" --drag drag
	wait_for 'came_to_unit 1'
	run move
	[[ $output == "ok version=2 parts=1 "* ]]
	kill -9 "$PS1"
	rm -f ps1.sock
	local n
	n=$(ask "$T/ps0.sock" members | field pushes)
	wait_for "[ \"\$(ask $T/ps0.sock members | field pushes)\" -gt $((n + 1)) ]"
	[ "$(ask "$T/ps0.sock" members | field generation)" -eq 1 ]
	finished 1 w0
	not grep 'starting over' w0.err
}

@test "by hand: what takes its time and is asked for with later=1 holds up no other answer" {
	printf '%s\n' 'layout version=1 seed=1' 'table name=t width=1 rows=0 zero-columns=1 scale=0' >layout
	part 1 3 --optimizer sgd --lr 1
	open a "$T/ps1.sock"
	local map cut="cut incarnation=1 path=$T/ck attempt=1 later=1\n" told=1
	# The first answer comes before the child can have written anything.
	tell a "$cut"
	answered a '^ok pending=1$'
	# Asked again only when the last one was answered: who asks after the end begins another cut.
	until_cut() {
		if grep -q '^ok file=.*/part-1 bytes=[1-9][0-9]* sum=' a.answers; then return 0; fi
		if [ "$(grep -c '^ok pending=1$' a.answers)" = "$told" ]; then tell a "$cut" && told=$((told + 1)); fi
		return 1
	}
	wait_for until_cut
	[ -s "$T/ck/part-1" ]
	# Another one with the same path, of which nobody asks what became of it; then the next: it is written anew.
	rm "$T/ck/part-1"
	tell a "${cut/attempt=1/attempt=2}"
	wait_for '[ -s "$T/ck/part-1" ] && ! pgrep -P "$PS1" >/dev/null'
	rm "$T/ck/part-1"
	tell a "${cut/attempt=1/attempt=3}"
	wait_for '[ -s "$T/ck/part-1" ]'
	# Who gets something is not there: never prepared.
	map=$(printf 'part id=ps%d socket=%s dense-begin=0 key-begin=%s\n' 0 "$T/none" 0 1 "$T/ps1.sock" 1431655766 \
		2 "$T/none2" 1431655766)
	keys_of 1 3 100 >keys
	{ printf 'pull worker=w0 generation=1 incarnation=1 iteration=0 dense=0 rows=100 bytes=400\n'; cat keys; } >sent
	cat sent >&"$FD_a"
	answered a 'model iteration=0 .*rows=100 '
	local prepare="prepare incarnation=1 attempt=1 map=2 iteration=0 later=1 bytes=$((${#map} + 1))\n$map\n"
	tell a "$prepare"
	tell a 'stat\n'
	wait_for 'tail -n 3 a.answers | grep -aq "^stat .*id=ps1"'
	[ "$(grep -ac 'pending=1' a.answers)" -ge 2 ]
	tell a "$prepare"
	wait_for 'tail -n 1 a.answers | grep -aq "^ok pending=1$"'
	tell a 'cancel incarnation=1 attempt=1\n'
	tell a "$prepare"
	wait_for 'tail -n 1 a.answers | grep -aq "^err code=move.*the attempt is over"'
	tell a "$prepare"
	wait_for 'tail -n 1 a.answers | grep -aq "^err code=move.*attempt 1 is over"'
}

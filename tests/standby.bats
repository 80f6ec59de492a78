#!/usr/bin/env bats
# Servers that have a standby: when one dies, training goes on without a rollback.
# rooms: ps wire run
load helper
load changing-servers

# process NAME I ARG...: of part I of 2; its pid in NAME.
process() {
	local name=$1 i=$2
	shift 2
	start "$name" ps-server -s "$T/ps$i.sock" --id "ps$i" --part "$i/2" --layout layout "$@"
	printf -v "$name" %s "$PID"
}

# lead NAME ARG...: of part 0, which leads and may have a standby.
lead() { process "$1" 0 --shards "$T/shardd.sock" --servers "$T/ps1.sock" --followed "${@:2}"; }

# parts ARG...: both.
parts() {
	process PS1 1 "$@"
	ready "$T/ps1.sock"
	lead PS0 "$@"
	ready "$T/ps0.sock"
}

goes_on() { wait_for "came_to_unit $(($(iteration) + 5))"; }
# is_standby STATE [I]
is_standby() { ask "$T/ps${2-1}.sock" stat | grep -q " standby=$1 "; }

@test "a server dies, and its standby, and the one after it: each sample is counted once" {
	csv
	local mode
	for mode in bsp ssp:2 asp; do
		rm -rf journal ck ps*.sock*
		queue 3
		parts --sync "$mode"
		pace 200
		work w0 "$T/ps0.sock,$T/ps1.sock" --drag drag
		work w1 "$T/ps0.sock,$T/ps1.sock" --drag drag
		wait_for 'came_to_unit 5'
		process NEXT 1 --sync "$mode" --standby
		wait_for 'is_standby in-force'
		goes_on
		kill -9 "$PS1"
		goes_on
		PS1=$NEXT
		[ "$(ask "$T/ps1.sock" stat | field iteration)" -ge 5 ]
		not is_standby in-force
		process NEXT 1 --sync "$mode" --standby
		wait_for 'is_standby in-force'
		kill -9 "$PS1"
		goes_on
		finished 3 w0 w1
		all_over
	done
}

@test "the server that leads dies, alone and with another one: standbys go on, each sample is counted once" {
	csv
	local mode at
	for mode in bsp ssp:2 asp; do
		rm -rf journal ck ps*.sock*
		queue 3
		parts --sync "$mode"
		pace 200
		work w0 "$T/ps0.sock,$T/ps1.sock" --drag drag
		work w1 "$T/ps0.sock,$T/ps1.sock" --drag drag
		wait_for 'came_to_unit 5'
		lead NEXT --sync "$mode" --standby
		process NEXT1 1 --sync "$mode" --standby
		wait_for 'is_standby in-force 0 && is_standby in-force 1'
		at=$(iteration)
		kill -9 "$PS0"
		wait_for "came_to_unit $((at + 5))"
		[ "$(ask "$T/ps0.sock" stat | field term)" -eq 2 ]
		PS0=$NEXT
		lead NEXT --sync "$mode" --standby
		wait_for 'is_standby in-force 0'
		at=$(iteration)
		kill -9 "$PS0" "$PS1"
		wait_for "came_to_unit $((at + 5))"
		finished 3 w0 w1
		all_over
	done
}

@test "a standby that is stopped is given up, and another one takes its place" {
	csv
	queue 3
	parts
	pace 200
	work w0 "$T/ps0.sock,$T/ps1.sock" --drag drag
	work w1 "$T/ps0.sock,$T/ps1.sock" --drag drag
	wait_for 'came_to_unit 5'
	process FIRST 1 --standby
	wait_for 'is_standby in-force'
	kill -STOP "$FIRST"
	goes_on
	not is_standby in-force
	ended "$FIRST"
	[ "$status" -eq 137 ]
	process NEXT 1 --standby
	wait_for 'is_standby in-force'
	kill -9 "$PS1"
	goes_on
	finished 3 w0 w1
}

@test "a standby that has its copy and does not come is given up" {
	audit_layout 100
	start PS1 fast ps-server -s "$T/ps1.sock" --id ps1 --part 1/2 --layout layout
	ready "$T/ps1.sock"
	open a "$T/ps1.sock"
	tell a "follow incarnation=1 socket=$T/nobody name=a pid=$PID_a\n"
	answered a '^copied$'
	ended "$PID_a"
	[ "$status" -eq 137 ]
	wait_for 'grep -q "no standby any more: it has its copy, and does not come" PS1.err'
	not is_standby follows
}

@test "nothing is answered before the standby has answered it; a server that loses it answers then" {
	audit_layout 100
	queue 1
	parts
	process FIRST 1 --standby
	wait_for 'is_standby in-force'
	kill -STOP "$FIRST"
	local push='push worker=w0 generation=1 incarnation=1 sequence=1 iteration=0 count=1 dense=0 rows=1'
	open a "$T/ps1.sock"
	tell a "$push bytes=8\n\x01\0\0\0\0\0\x80\x3fstat\n"
	wait_for 'ask "$T/ps1.sock" stat | grep -q " staged=1 "'
	not grep -aq staged a.answers
	kill -CONT "$FIRST"
	answered a '^ok staged=1$'
	answered a '^stat .* standby=in-force '
	kill -STOP "$FIRST"
	tell a 'throw incarnation=1 worker=w0 generation=1\n'
	wait_for 'ask "$T/ps1.sock" stat | grep -q " staged=0 "'
	[ "$(grep -ac ^ok a.answers)" -eq 2 ]
	kill -9 "$FIRST"
	wait_for '[ "$(grep -ac ^ok a.answers)" -eq 3 ]'
}

# unit SOCKET ITERATION: seven workers push a gradient of 600000 floats, which is applied as one iteration.
# WHILE is run when all are staged.
unit() {
	local w
	{
		for w in 0 1 2 3 4 5 6; do
			printf 'push worker=w%d generation=1 incarnation=1 sequence=%d iteration=%d count=%d dense=1 rows=0 bytes=2400000\n' \
				"$w" $(($2 + 1)) "$2" $((w + 1))
			cat "gradient$(((w + $2) % 4))"
		done
		while [ ! -e go ]; do nap 20000; done
		for w in 0 1 2 3 4 5 6; do
			printf 'part worker=w%d generation=1 sequence=%d unit=0\n' "$w" $(($2 + 1))
		done >order
		printf 'apply incarnation=1 iteration=%d units=1 bytes=%d\n' "$2" "$(stat -c %s order)"
		cat order
	} | socat -t 300 - "UNIX-CONNECT:$1" | tail -n 1 >applied &
	wait_for "ask $1 stat | grep -q ' staged=7 '"
	if [ -n "${WHILE-}" ]; then $WHILE; fi
	touch go
	wait $!
	rm go
	[ "$(<applied)" = "ok iteration=$(($2 + 1))" ]
}
parameters() { ask "$1" "pull worker=x generation=1 incarnation=1 iteration=$2 dense=1 rows=0" | md5sum; }

@test "large gradients, more at a time than fit in the shared memory: the standby has the same parameters" {
	local i
	printf '%s\n' 'layout version=1 seed=3' 'tensor name=v rows=1200000 cols=1 init=normal scale=1' >layout
	for i in 0 1 2 3; do perl -e 'print pack("f*", map { ($_ % (7 + $ARGV[0])) / 11 } 1..600000)' $i >gradient$i; done
	process PS1 1
	ready "$T/ps1.sock"
	mkdir beside
	start beside ps-server -s "$T/beside/ps1.sock" --id ps1 --part 1/2 --layout layout
	ready "$T/beside/ps1.sock"
	process NEXT 1 --standby
	wait_for 'is_standby in-force'
	for i in 0 1 2 3 4; do
		kill -STOP "$NEXT"
		WHILE="kill -CONT $NEXT" unit "$T/ps1.sock" $i
		unit "$T/beside/ps1.sock" $i
	done
	is_standby in-force
	kill -9 "$PS1"
	ended "$PS1"
	ready "$T/ps1.sock"
	parameters "$T/ps1.sock" 5 >one
	parameters "$T/beside/ps1.sock" 5 >other
	cmp one other
}

# settled SEQUENCE: a lead, on connection b, commits this push of w0 as a unit.
settled() {
	local push="part worker=w0 generation=1 sequence=$1 unit=0 count=1\n" n
	n=$((${#push} - 1))
	tell b "hold incarnation=1 bytes=$n\n${push}apply incarnation=1 iteration=$(($1 - 1)) units=1 bytes=$n\n$push"
	answered b "^ok iteration=$1\$"
}
# pushed SEQUENCE FIRST [FIELD]: w0 keeps it, and those from FIRST on. Each push of connection a is answered on its own:
# an older answer may read the same.
pushed() {
	tell a "push worker=w0 generation=1 incarnation=1 sequence=$1 iteration=$(($1 - 1)) count=1 dense=0 rows=1 kept=1${3:+ $3} bytes=8\n\x01\0\0\0\0\0\x80\x3f"
	wait_for "[ \"\$(grep -a '^[oe]' a.answers | sed -n $1p)\" = 'ok staged=1 keep=$2' ]" || { cat a.answers; return 1; }
}
lacks() { ask "$T/ps1.sock" stat | grep -q " standby-lacks=$1 "; }

@test "--divergence: a standby lacks gradients up to the bound; what their workers keep comes when it takes over" {
	audit_layout 100
	start PS1 ps-server -s "$T/ps1.sock" --id ps1 --part 1/2 --layout layout --sync asp --divergence 8
	PS1=$PID
	ready "$T/ps1.sock"
	start NEXT ps-server -s "$T/ps1.sock" --id ps1 --part 1/2 --layout layout --sync asp --divergence 8 --standby
	NEXT=$PID
	wait_for 'is_standby in-force'
	open k "$T/ps1.sock"
	answered k '^paceline .* keep=1'
	tell k "keep worker=w0 generation=1 incarnation=1 pid=$PID_k\n"
	answered k '^keeps$'
	open a "$T/ps1.sock"
	open b "$T/ps1.sock"
	local i
	pushed 1 1
	settled 1
	lacks 1
	pushed 2 1 full=1
	settled 2 # no room for another: the difference goes
	wait_for 'lacks 0'
	for i in 3 4 5; do
		pushed $i 3
		settled $i
		lacks $((i - 2))
	done
	pushed 6 3
	settled 6 # half the bound: the difference goes
	wait_for 'lacks 0'
	pushed 7 7
	settled 7
	pushed 8 7 # not settled
	lacks 1
	kill -9 "$PS1"
	ended "$PS1"
	ready "$T/ps1.sock"
	open c "$T/ps1.sock"
	answered c '^paceline .* keep=1 behind=1'
	# the number of units and what is staged are as they were; the parameters are not there
	[ "$(ask "$T/ps1.sock" stat | field iteration)" = 7 ]
	[ "$(ask "$T/ps1.sock" stat | field staged)" = 1 ]
	tell c 'pull worker=w1 generation=1 incarnation=1 iteration=0 dense=0 rows=1 bytes=4\n\x01\0\0\0'
	open d "$T/ps1.sock"
	# a worker that asks again before its thread is here must not forget what it keeps
	tell d "push worker=w0 generation=1 incarnation=1 sequence=9 iteration=7 count=1 dense=0 rows=1 kept=1 bytes=8\n\x01\0\0\0\0\0\x80\x3f"
	answered d '^ok staged=1 keep=0$'
	for i in 6 7 8; do # the first is not needed any more, the last is not settled
		not grep -aq '^model' c.answers || [ "$i" -eq 8 ]
		tell d "kept worker=w0 generation=1 incarnation=1 sequence=$i iteration=$((i - 1)) count=1 dense=0 rows=1 bytes=8\n\x01\0\0\0\0\0\x80\x3f"
		wait_for '[ "$(grep -ac ^ok d.answers)" -eq '$((i - 4))' ]'
	done
	answered c '^model iteration=7 '
	hang_up b
	open b "$T/ps1.sock"
	settled 8
	tell c 'pull worker=w1 generation=1 incarnation=1 iteration=8 dense=0 rows=1 bytes=4\n\x01\0\0\0'
	answered c '^model iteration=8 '
	wait_for '[ "$(tail -c 7 c.answers | od -An -tf4 -N4 | tr -d " ")" = 8 ]' # eight gradients of 1
	[[ $(<NEXT.err) == *"the workers have sent what was lacking"* ]]
}

@test "--divergence: what a worker kept may come slowly; if it never comes whole, the server ends" {
	audit_layout 100
	start PS1 ps-server -s "$T/ps1.sock" --id ps1 --part 1/2 --layout layout --sync asp --divergence 8
	PS1=$PID
	ready "$T/ps1.sock"
	start NEXT fast ps-server -s "$T/ps1.sock" --id ps1 --part 1/2 --layout layout --sync asp --divergence 8 --standby
	NEXT=$PID
	wait_for 'is_standby in-force'
	open k "$T/ps1.sock"
	tell k "keep worker=w0 generation=1 incarnation=1 pid=$PID_k\n"
	answered k '^keeps$'
	open a "$T/ps1.sock"
	open b "$T/ps1.sock"
	pushed 1 1
	settled 1
	lacks 1
	kill -9 "$PS1"
	ended "$PS1"
	ready "$T/ps1.sock"
	open d "$T/ps1.sock"
	tell d "kept worker=w0 generation=1 incarnation=1 sequence=1 iteration=0 count=1 dense=0 rows=1 bytes=8\n\x01"
	answered d '^err code=slow' # a minute is over, not only half of one
	ended "$NEXT"
	[ "$status" -eq 75 ]
	[[ $(<NEXT.err) == *"w0: its push of iteration 0 is nowhere"* ]]
}

@test "--divergence: a standby on another host has at once what a worker beside the server pushes" {
	audit_layout 100
	start PS1 ps-server -s "$T/ps1.sock" --id ps1 --part 1/2 --layout layout --divergence 8
	ready "$T/ps1.sock"
	start NEXT ps-server -s "$T/ps1.sock" --id ps1 --part 1/2 --layout layout --divergence 8 --standby --far
	wait_for 'is_standby in-force'
	open k "$T/ps1.sock"
	tell k "keep worker=w0 generation=1 incarnation=1 pid=$PID_k\n"
	answered k '^keeps$'
	open e "$T/ps1.sock"
	tell e "keep worker=w1 generation=1 incarnation=1 pid=1\n"
	answered e '^keeps$'
	open a "$T/ps1.sock"
	pushed 1 2 # nothing of it must be kept
	[ "$(ask "$T/ps1.sock" stat | field standby-spared-bytes)" = 0 ]
	tell a "push worker=w1 generation=1 incarnation=1 sequence=1 iteration=0 count=1 dense=0 rows=1 kept=1 bytes=8\n\x01\0\0\0\0\0\x80\x3f"
	answered a '^ok staged=1 keep=1$'
	[ "$(ask "$T/ps1.sock" stat | field standby-spared-bytes)" = 8 ]
	# it goes: what it kept comes at once
	hang_up e
	wait_for '[ "$(ask "$T/ps1.sock.standby" stat | field staged)" = 2 ]'
}

@test "who has no standby, and which standby has no part" {
	csv
	queue 1
	parts
	run ps-server -s "$T/x.sock" --id ps0 --layout layout --standby
	[ "$status" -eq 64 ]
	[[ $output == *"--standby: of a part that leads needs --followed"* ]]
	run ps-server -s "$T/x.sock" --id ps0 --layout layout --shards x --followed --standby --far
	[ "$status" -eq 64 ]
	run ps-server -s "$T/x.sock" --id ps0 --layout layout --divergence 8
	[ "$status" -eq 64 ]
	[[ $output == *"--divergence: is for a part that does not lead"* ]]
	start x ps-server -s "$T/x.sock" --id ps0 --layout layout
	ready "$T/x.sock"
	run ask "$T/x.sock" 'follow incarnation=1 socket=x name=y'
	[[ $output == "err code=lead"* ]]
	run ask "$T/ps1.sock" 'follow incarnation=2 socket=x name=y'
	[[ $output == "err code=fenced"* ]]
	run ps-server -s "$T/ps1.sock" --id ps1 --part 1/3 --layout layout --standby
	[ "$status" -eq 78 ]
	[[ $output == *"is part 1/2, not 1/3"* ]]
	process FIRST 1 --standby
	wait_for 'is_standby in-force'
	run ps-server -s "$T/ps1.sock" --id ps1 --part 1/2 --layout layout --standby
	[ "$status" -eq 75 ]
	[[ $output == *"busy: it has a standby"* ]]
	# an heir takes over from the live server, and has no standby; nor has the standby its part
	process HEIR 1 --take-over
	ended "$PS1"
	[ "$status" -eq 0 ]
	ended "$FIRST"
	[ "$status" -eq 69 ]
	ready "$T/ps1.sock"
	process NEXT 1 --standby
	wait_for 'is_standby in-force'
	# parameters that move
	run ask "$T/ps0.sock" "move parts=1"
	[[ $output == "ok version=2 parts=1 "* ]]
	ended "$NEXT"
	[ "$status" -eq 69 ]
	# one that ends in order leaves nothing
	rm -rf journal ps*.sock*
	parts
	process NEXT 1 --standby
	wait_for 'is_standby in-force'
	kill "$PS1"
	ended "$NEXT"
	[ "$status" -eq 69 ]
	[[ $(<NEXT.err) == *"has not left its name to this process"* ]]
	not grep . "$T/ps1.sock.lock"
}

# in_force I: ps-I has a standby that knows everything.
in_force() { ask "run/ps$1.sock" stat | grep -q ' standby=in-force '; }

# standby_of I: the pid of ps-I's.
standby_of() {
	local life
	life=$(sed -n "s/^standby id=ps$1 life=\([0-9]*\) .*/\1/p" run/state/job.log | tail -n 1)
	record_pids "run/state/nodes/ps$1.$life" | cut -d' ' -f2
}

# taken SAMPLES I: as soon as so many are done, ps-I is killed; its standby takes over.
taken() {
	local before
	wait_for "came_to $1"
	wait_for "in_force $2"
	before=$(pid_of "ps$2")
	strike "ps$2"
	wait_for "[ -n \"\$(pid_of ps$2)\" ] && [ \"\$(pid_of ps$2)\" != $before ]"
}

@test "SERVERS=standby:on: servers are killed, nothing is rolled back, each sample is counted once" {
	local mode
	for mode in bsp asp; do
		rm -rf run drag
		job MODEL=audit EPOCHS=5 SYNC=$mode SERVERS=3,standby:on CHECKPOINT=0.5
		slow 1000
		begin out
		taken 500 1
		taken 1500 2
		taken 2500 0
		rm drag/*
		ended "$SUPERVISOR"
		[ "$status" -eq 0 ] || { cat out.err; return 1; }
		[ "$(logged '^takes-over ')" -eq 3 ]
		[ "$(logged '^rollback ')" -eq 0 ]
		not compgen -G 'run/*.standby'
		[ "$(logged '^standby-ended .*signal=')" -eq 0 ]
		[ "$(report --records | grep -c '^restarted .* role=server .* why=signal-9 .* standby=1$')" -eq 3 ]
		exact "$(ls -d run/state/checkpoints/* | tail -n 1)" 2000 5
	done
}

@test "standbys that die or stop come back; a stopped server, restarts, other servers, a new trainctl: no rollback" {
	local before
	job MODEL=audit EPOCHS=12 SERVERS=2,standby:on CHECKPOINT=0.5 KILL_RESTART=9,window:0
	slow 400
	begin out
	wait_for 'came_to 200'
	wait_for 'in_force 1'
	wait_for 'in_status "^node .* id=ps1 .* standby=in-force( |$)"'
	# the standby
	kill -9 "$(standby_of 1)"
	wait_for '[ "$(logged "^standby id=ps1 ")" -eq 2 ]'
	wait_for 'in_force 1'
	# the server, stopped
	before=$(pid_of ps1)
	kill -STOP "$before"
	wait_for '[ "$(logged "^takes-over ")" -eq 1 ]'
	wait_for 'in_force 1'
	# restarted by intention: a hand-over, which ends the standby
	run trainctl kill-restart ps1 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	[ "$(logged '^hand-over id=ps1 ')" -eq 1 ]
	wait_for 'in_force 1'
	# one server more, and one less
	run trainctl scale --run-dir "$T/run" --servers 3
	[ "$status" -eq 0 ]
	wait_for 'in_force 2'
	wait_for 'in_force 1'
	strike ps2
	wait_for '[ "$(logged "^takes-over ")" -eq 2 ]'
	wait_for 'in_force 2'
	run trainctl scale --run-dir "$T/run" --servers 2
	[ "$status" -eq 0 ]
	wait_for 'in_force 1'
	# trainctl is gone meanwhile
	before=$(pid_of ps1)
	kill -9 "$SUPERVISOR"
	kill -9 "$before"
	wait_for 'ask run/ps1.sock stat | grep -q "^stat "'
	begin out
	wait_for 'in_force 1'
	strike ps1
	wait_for '[ "$(logged "^takes-over ")" -eq 3 ]'
	rm drag/*
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ] || { cat out.err; return 1; }
	[ "$(logged '^rollback ')" -eq 0 ]
	exact "$(ls -d run/state/checkpoints/* | tail -n 1)" 2000 12
}

@test "SERVERS=standby:on,divergence: workers and a server die together; what they kept is there, nothing is rolled back" {
	local kept="/dev/shm/paceline-$(id -u)-together-$$"
	job JOB="together-$$" MODEL=audit EPOCHS=5 WORKERS=2 SYNC=asp SERVERS=2,standby:on,divergence:10000 \
		CHECKPOINT=3600
	slow 400
	# an earlier run of this name was killed as a whole, and begins anew
	mkdir -m 700 "$kept"
	echo of-an-earlier-run >"$kept/kept-ps7.sock-w0-1-1"
	begin out
	wait_for 'came_to 200'
	[ ! -e "$kept/kept-ps7.sock-w0-1-1" ]
	wait_for 'in_force 1'
	wait_for '[ "$(ask run/ps1.sock stat | field kept-bytes)" -gt 0 ]'
	local ps1 w0 w1 file
	# a worker dies alone: a difference goes, and its file with it
	file=$(compgen -G "$kept/kept-ps1.sock-w0-*")
	kill -9 "$(pid_of w0)"
	wait_for '[ ! -e "$file" ]'
	wait_for 'compgen -G "$kept/kept-ps1.sock-w0-*"'
	wait_for '[ "$(ask run/ps1.sock stat | field kept-bytes)" -gt 0 ]'
	ps1=$(pid_of ps1) w0=$(pid_of w0) w1=$(pid_of w1)
	kill -STOP "$ps1" # it can't send a difference
	kill -9 "$w0" "$w1"
	kill -9 "$ps1"
	wait_for '[ "$(logged "^takes-over ")" -eq 1 ]'
	wait_for 'grep -q "the workers have sent what was lacking" run/state/logs/ps1.log || [ "$(logged "^rollback ")" -gt 0 ]'
	rm drag/*
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ] || { cat out.err; return 1; }
	[ "$(logged '^rollback ')" -eq 0 ]
	grep -q 'worker w[01] has died; the [0-9]* bytes that it kept are at hand' run/state/logs/w?.log
	not [ -e "$kept" ]
	exact "$(ls -d run/state/checkpoints/* | tail -n 1)" 2000 5
}

@test "HUNG: a standby that is stopped is named and replaced, and no worker that waits for it is killed" {
	job MODEL=audit EPOCHS=5 SERVERS=2,standby:on CHECKPOINT=0.5 HUNG=4
	slow 400
	begin out
	wait_for 'came_to 200'
	wait_for 'in_force 1'
	kill -STOP "$(standby_of 1)"
	wait_for '[ "$(logged "^standby-ended id=ps1 .* signal=9 ")" -eq 1 ]'
	wait_for 'in_force 1'
	rm drag/*
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ] || { cat out.err; return 1; }
	grep -q 'the standby of ps1 has not answered it for .* (at most 4 s by HUNG): killed' out.err
	[ "$(logged 'kind=hung')" -eq 0 ]
	[ "$(logged '^rollback ')" -eq 0 ]
	exact "$(ls -d run/state/checkpoints/* | tail -n 1)" 2000 5
}

@test "HUNG: a lead that is stopped is replaced, and no worker that waited for it is killed" {
	job MODEL=audit EPOCHS=5 SERVERS=2,standby:on CHECKPOINT=0.5 HUNG=3
	slow 400
	begin out
	wait_for 'came_to 200'
	wait_for 'in_force 0'
	kill -STOP "$(pid_of ps0)"
	wait_for '[ "$(logged "^takes-over ")" -eq 1 ]'
	local before=$(done_samples)
	wait_for 'came_to $((before + 200))'
	rm drag/*
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ] || { cat out.err; return 1; }
	[ "$(logged 'kind=hung')" -eq 1 ]
	[ "$(logged '^rollback ')" -eq 0 ]
	exact "$(ls -d run/state/checkpoints/* | tail -n 1)" 2000 5
}

@test "a server and its standby die together: all go back, and nothing is lost" {
	job MODEL=audit EPOCHS=5 SERVERS=2,standby:on CHECKPOINT=0.5
	slow 400
	begin out
	wait_for 'came_to 500'
	wait_for 'in_force 1'
	kill -9 "$(standby_of 1)" "$(pid_of ps1)"
	wait_for '[ "$(logged "^rollback ")" -eq 1 ]'
	wait_for 'in_force 1'
	rm drag/*
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ] || { cat out.err; return 1; }
	exact "$(ls -d run/state/checkpoints/* | tail -n 1)" 2000 5
}

@test "the server that leads is killed: what is in force, a restart, other servers, a new trainctl; no rollback" {
	job MODEL=audit EPOCHS=12 SERVERS=1,standby:on CHECKPOINT=0.5 KILL_RESTART=9,window:0
	slow 400
	begin out
	wait_for 'came_to 200'
	wait_for 'in_force 0'
	wait_for 'in_status "^node .* id=ps0 .* standby=in-force( |$)"'
	echo 'action kind=adjust-bs id=w0 size=30 accum=1' | trainctl apply --run-dir "$T/run" | grep -q '^ok actions=1 '
	strike ps0
	wait_for '[ "$(logged "^acted by=in-force ")" -eq 1 ]'
	wait_for 'in_status "^node role=worker id=w0 .* size=30 "'
	# restarted by intention: its heir has the same term, and may be followed
	wait_for 'in_force 0'
	run trainctl kill-restart ps0 --run-dir "$T/run"
	[ "$status" -eq 0 ]
	[ "$(logged '^hand-over id=ps0 ')" -eq 1 ]
	[ "$(ask run/ps0.sock stat | field term)" -eq 2 ]
	wait_for 'in_force 0'
	kill -STOP "$(pid_of ps0)"
	wait_for '[ "$(logged "^takes-over ")" -eq 2 ]'
	# one server more: the new lead knows both
	wait_for 'in_force 0'
	run trainctl scale --run-dir "$T/run" --servers 2
	[ "$status" -eq 0 ]
	wait_for 'in_force 0'
	wait_for 'in_force 1'
	strike ps0
	wait_for '[ "$(logged "^takes-over ")" -eq 3 ]'
	# trainctl is gone meanwhile, and shardd, too, is killed
	wait_for 'in_force 0'
	local before
	before=$(pid_of ps0)
	kill -9 "$SUPERVISOR"
	kill -9 "$before"
	wait_for 'ask run/ps0.sock stat | grep -q "^stat "'
	begin out
	wait_for 'in_force 0'
	strike shardd
	strike ps0
	wait_for '[ "$(logged "^takes-over ")" -eq 4 ]'
	rm drag/*
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ] || { cat out.err; return 1; }
	[ "$(logged '^rollback ')" -eq 0 ]
	exact "$(ls -d run/state/checkpoints/* | tail -n 1)" 2000 12
}

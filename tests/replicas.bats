#!/usr/bin/env bats
# ps-server(8) --lead-only --replicas: whole conversations of workers, replicas, their lead and shardd.
load helper

ROWS=1000

teardown_more() {
	[ -S a/fabric.sock ] || return 0
	ask a/fabric.sock end >/dev/null || true
	wait_for '[ ! -e a/fabric.sock ] && [ ! -e b/fabric.sock ]'
}

# Sample i adds 1 to parameter i.
audit_layout() {
	printf 'layout version=1 seed=1\ntable name=audit width=1 rows=%d zero-columns=1 scale=0 update=add export=dense\n' \
		"$ROWS" >layout
}

make_csv() {
	awk -v rows="$ROWS" 'BEGIN { print "label,x"; for (i = 0; i < rows; i++) print i % 2 "," i }' >data.csv
}

queue() {
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n "$ROWS" -b 60 -m 4 --settle-only "$@"
	SHARDD=$PID
	ready "$T/shardd.sock"
}

replica() {
	start r0 ps-server -s "$T/r0.sock" --id r0 --replica 0/1 --layout layout --serve "$@"
	REPLICA=$PID
	ready "$T/r0.sock"
}

lead() {
	start lead ps-server -s "$T/lead.sock" --id lead --lead-only --replicas "$T/r0.sock" \
		--shards "$T/shardd.sock" --layout layout "$@"
	LEAD=$PID
	ready "$T/lead.sock"
}

work() {
	local id=$1
	shift
	start "$id" worker --id "$id" --shards "$T/shardd.sock" --lead "$T/lead.sock" \
		--replica "$T/r0.sock" --batch 20 --wait 120 --data data.csv --format csv --label label \
		--dense x --model audit "$@"
}

stat_of() { ask "$1" stat | sed -n 's/^stat //p' | tr ' ' '\n' | sed -n "s/^$2=//p"; }

all_done() {
	wait_for '[[ $(ask shardd.sock stat) == *" todo=0 doing=0 "*" held=0 "* ]]'
}

# Every sample is in the model exactly once, as a checkpoint has it.
each_once() {
	local head
	ask "${1:-lead.sock}" "cut path=$T/ck" >cut.out; cat cut.out lead.err r0.err; grep -q "^ok path=" cut.out
	ckpt verify ck
	ckpt export ck audit.safetensors
	head=$(od -An -t u8 -N 8 audit.safetensors)
	od -An -v -t f4 -w4 -j $((head + 8)) audit.safetensors | tr -d ' ' | sort | uniq -c >values
	[ "$(tr -s ' ' <values)" = " $ROWS 1" ]
}

@test "usage: --replicas is for --lead-only and bsp" {
	run ps-server -s x --id x --replicas r0.sock --dense 4
	[ "$status" -eq 64 ]
	[[ $output == *"--replicas"* ]]
	run ps-server -s x --id x --lead-only --replicas r0.sock --sync asp
	[ "$status" -eq 64 ]
	run ps-server -s x --id x --lead-only --layout layout
	[ "$status" -eq 64 ]
	run ps-server -s x --id x --lead-only --replicas r0.sock,
	[ "$status" -eq 64 ]
}

@test "audit: workers of one replica, sizes that change, backup workers: each sample once" {
	audit_layout
	make_csv
	queue
	replica
	lead
	for w in w0 w1 w2; do work $w; done
	wait_for '[ "$(stat_of lead.sock iteration)" -ge 3 ]'
	[ "$(stat_of lead.sock replicas)" = r0 ]
	[ "$(stat_of lead.sock term)" = 1 ]
	[ "$(stat_of lead.sock epoch)" -gt $((1 << 32)) ]
	printf 'act bytes=%d\n%s' 68 $'action kind=adjust-bs id=w0 size=5 accum=1\naction kind=none id=w0\n\n\n\n' |
		socat -t 300 - UNIX-CONNECT:lead.sock | grep -q '^ok'
	text=$'action kind=backup-workers count=1\n'
	printf 'act bytes=%d\n%s' ${#text} "$text" | socat -t 300 - UNIX-CONNECT:lead.sock | grep -q '^ok'
	all_done
	each_once
	ask lead.sock finish | grep -q ^ok
}

@test "what does not fit is refused by name; a lead whose replicas are another's ends with 75" {
	audit_layout
	queue
	replica
	lead
	wait_for '[ "$(stat_of lead.sock replicas)" = r0 ]'
	run ask lead.sock 'join worker=w0 generation=1 incarnation=1 replica=r1' \
		'join worker=w0 generation=1 incarnation=1'
	[[ ${lines[0]} == "err code=no-replica"*"'r1'"* ]]
	[[ ${lines[1]} == "err code=no-replica"*"replica= is wanted"* ]]
	# A second lead takes a term: what the first one settles, or orders, counts no more.
	start other ps-server -s "$T/other.sock" --id other --lead-only --replicas "$T/r0.sock" \
		--shards "$T/shardd.sock" --layout layout
	wait_for '[ "$(stat_of other.sock term)" = 2 ]'
	mkfifo in
	socat - UNIX-CONNECT:other.sock <in >out 3>&- &
	PIDS+=($!)
	exec 5>in
	echo 'join worker=w0 generation=1 incarnation=1 replica=r0' >&5
	wait_for 'grep -q "^ok iteration=0" out'
	ask lead.sock 'join worker=w1 generation=1 incarnation=1 replica=r0' >/dev/null
	ended "$LEAD"
	[ "$status" -eq 75 ]
	grep -q "another lead orders it" lead.err
	kill -9 "$REPLICA"
	start r0 ps-server -s "$T/r0.sock" --id r0 --replica 0/1 --layout layout
	wait_for 'grep -q "no replica is at iteration 0: r0 is empty" other.err ||
		grep -q "no replica has parameters" other.err'
}

@test "a lead that dies is started anew: a new term, and each sample once" {
	ROWS=8000 # more than there are before all have died
	audit_layout
	make_csv
	queue
	replica
	lead
	echo 'drag delay=0.1' >drag
	for w in w0 w1; do work $w --drag drag; done
	for n in 1 2 3; do
		at=$(stat_of lead.sock iteration)
		wait_for '[ "$(stat_of lead.sock iteration)" -gt $at ]'
		kill -9 $LEAD
		lead
		wait_for '[ "$(stat_of lead.sock term)" = $((n + 1)) ]'
	done
	rm drag
	all_done
	each_once
}

# Two hosts, which are directories a and b of this machine, with a fabric between them.
fabric() {
	command -v fabricd >/dev/null || skip "built without Open MPI"
	command -v mpirun >/dev/null || skip "no mpirun here"
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
	mkdir -p a b
	printf 'route socket=%s host=%s\n' shardd.sock a lead.sock a r0.sock a r1.sock b >routes
	start world mpirun --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 \
		-n 1 fabricd --run-dir "$T/a" --host a --routes "$T/routes" : \
		-n 1 fabricd --run-dir "$T/b" --host b
	WORLD=$PID
	ready "$T/a/fabric.sock"
	ready "$T/b/fabric.sock"
	wait_for '[ -S a/r1.sock ] && [ -S b/lead.sock ]'
}

# replica_of HOST I ARG...
replica_of() {
	local host=$1 i=$2
	shift 2
	start "r$i" ps-server -s "$T/$host/r$i.sock" --id "r$i" --replica "$i/2" --layout layout \
		--fabric "$T/$host/fabric.sock" --hosts a,b "$@"
	printf -v "R$i" %s "$PID"
	ready "$T/$host/r$i.sock"
}

lead_of_two() {
	start lead ps-server -s "$T/a/lead.sock" --id lead --lead-only \
		--replicas "$T/a/r0.sock,$T/a/r1.sock" --shards "$T/a/shardd.sock" --layout layout "$@"
	LEAD=$PID
	ready "$T/a/lead.sock"
}

work_at() {
	local host=$1 id=$2 replica=$3
	start "$id" worker --id "$id" --shards "$T/$host/shardd.sock" --lead "$T/$host/lead.sock" \
		--replica "$T/$host/$replica.sock" --batch 20 --wait 120 --data data.csv --format csv \
		--label label --dense x --model audit --drag drag
}

@test "two hosts: a replica, the fabric and the lead die; each sample is in the model once" {
	ROWS=10000 # more than there are before all have died
	audit_layout
	make_csv
	echo 'drag delay=0.2' >drag
	fabric
	start shardd shardd -s "$T/a/shardd.sock" -j "$T/journal" -n "$ROWS" -b 60 -m 4 --settle-only
	ready "$T/a/shardd.sock"
	replica_of a 0 --serve
	replica_of b 1 --serve
	lead_of_two
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r0,r1 ]'
	work_at a w0 r0
	work_at b w1 r1
	work_at a w2 r0
	wait_for '[ "$(stat_of a/lead.sock members)" = 3 ]'
	wait_for '[ "$(stat_of a/lead.sock iteration)" -ge 3 ]'
	kill -9 $R1
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r0 ]'
	replica_of b 1
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r0,r1 ]'
	wait_for '[ "$(stat_of a/lead.sock members)" = 3 ]'
	kill -9 "$(pgrep -f "^fabricd --run-dir $T/b ")"
	wait_for '! kill -0 $WORLD 2>/dev/null' # with all of its ranks
	fabric
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r0,r1 ]'
	wait_for '[ "$(stat_of a/lead.sock members)" = 3 ]'
	kill -9 $LEAD
	lead_of_two
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r0,r1 ]'
	ask a/lead.sock "cut path=$T/early" | grep -q '^ok path='
	kill -9 $R0
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r1 ]'
	replica_of a 0 # its workers wait for it, with rows in their hands
	rm drag
	wait_for '[[ $(ask a/shardd.sock stat) == *" todo=0 doing=0 "*" held=0 "* ]]'
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r0,r1 ]'
	kill -9 $R0
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r1 ]'
	each_once a/lead.sock # r1 writes it
	ckpt verify early
}

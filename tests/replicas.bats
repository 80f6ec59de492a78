#!/usr/bin/env bats
# rooms: lead work fabric
# ps-server(8) --lead-only --replicas: whole conversations of workers, replicas, their lead and shardd.
load helper
. "$BATS_TEST_DIRNAME/cluster/world.bash"

ROWS=1000

teardown_more() {
	[ -S a/fabric.sock ] || return 0
	ask a/fabric.sock end >/dev/null || true
	wait_for '[ ! -e a/fabric.sock ] && [ ! -e b/fabric.sock ] && [ ! -e c/fabric.sock ]'
}

make_csv() {
	awk -v rows="$ROWS" 'BEGIN { print "label,x"; for (i = 0; i < rows; i++) print i % 2 "," i }' >data.csv
	schema_file x ''
	model_file audit 1 0 "$ROWS"
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
		--replica "$T/r0.sock" --batch 20 --wait 120 --data data.csv --schema schema --model-file audit "$@"
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
	run ps-server -s x --id x --replicas r0.sock --layout none
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
	audit_layout "$ROWS"
	make_csv
	queue
	replica
	lead
	for w in w0 w1 w2; do work $w; done
	wait_for '[ "$(stat_of lead.sock iteration)" -ge 3 ]'
	[ "$(stat_of lead.sock replicas)" = r0 ]
	[ "$(stat_of lead.sock term)" = 1 ]
	[ "$(stat_of lead.sock round)" -gt $((1 << 32)) ]
	printf 'act bytes=%d\n%s' 68 $'action kind=adjust-bs id=w0 size=5 accum=1\naction kind=none id=w0\n\n\n\n' |
		socat -t 300 - UNIX-CONNECT:lead.sock | grep -q '^ok'
	text=$'action kind=backup-workers count=1\n'
	printf 'act bytes=%d\n%s' ${#text} "$text" | socat -t 300 - UNIX-CONNECT:lead.sock | grep -q '^ok'
	all_done
	each_once
	ask lead.sock finish | grep -q ^ok
}

@test "what does not fit is refused by name; a lead whose replicas are another's ends with 75" {
	audit_layout "$ROWS"
	queue
	replica
	lead
	wait_for '[ "$(stat_of lead.sock replicas)" = r0 ]'
	run ask lead.sock 'join worker=w0 generation=1 incarnation=1 replica=r1' \
		'join worker=w0 generation=1 incarnation=1'
	[[ ${lines[0]} == "err code=no-replica"*"'r1'"* ]]
	[[ ${lines[1]} == "err code=no-replica"*"replica= is missing"* ]]
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
	grep -q "it takes orders from another lead" lead.err
	kill -9 "$REPLICA"
	ended "$REPLICA" # and with it its lock
	start r0 ps-server -s "$T/r0.sock" --id r0 --replica 0/1 --layout layout
	wait_for 'grep -q "no replica is at iteration 0: r0 is empty" other.err ||
		grep -q "no replica has parameters" other.err'
}

@test "a lead that dies is started anew: a new term, and each sample once" {
	ROWS=8000 # more than there are before all have died
	audit_layout "$ROWS"
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
		ended "$LEAD" # and with it its lock
		lead
		wait_for '[ "$(stat_of lead.sock term)" = $((n + 1)) ]'
	done
	rm drag
	all_done
	each_once
}

# Gradients 1 2 3 4 as floats, and 2 2 2 2.
G1234='\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40'
G2222='\0\0\0\x40\0\0\0\x40\0\0\0\x40\0\0\0\x40'

# Four parameters, a replica r0 and a lead without shardd; `r` speaks with the replica.
four() {
	printf 'layout version=1 seed=1\ntensor name=a rows=4 cols=1 init=zero scale=0\n' >layout
	replica --optimizer sgd --lr 1
	start lead ps-server -s "$T/lead.sock" --id lead --lead-only --replicas "$T/r0.sock" \
		--layout layout "$@"
	LEAD=$PID
	ready "$T/lead.sock"
	open r r0.sock
	wait_for '[ "$(stat_of lead.sock replicas)" = r0 ]'
}

# A worker as it tells its replica, and the lead: WORKER GENERATION SEQUENCE ITERATION COUNT, of the
# conversation named like the worker.
to_replica() {
	local before
	before=$(grep -ac '^ok staged=1' r.answers) || true
	tell r "push worker=$1 generation=$2 incarnation=1 sequence=$3 iteration=$4 count=$5 dense=1 rows=0 bytes=16\n${6:-$G1234}"
	wait_for "[ \"\$(grep -ac '^ok staged=1' r.answers)\" -gt $before ]"
}
to_lead() {
	tell "$1" "push worker=$1 generation=$2 incarnation=1 sequence=$3 iteration=$4 count=$5 dense=0 rows=0\n"
}
join() { tell "$1" "join worker=$1 generation=$2 incarnation=1 replica=r0\n"; }
# The same; the lead has it, so that it enters with the next iteration.
joins() {
	join "$1" "$2"
	wait_for "[[ \$(ask lead.sock members) == *'worker=$1 generation=$2 '* ]]"
}
# w0 does iteration N as it should.
good() {
	to_replica w0 1 $(($1 + 1)) "$1" 1
	to_lead w0 1 $(($1 + 1)) "$1" 1
	answered w0 "^ok iteration=$(($1 + 1)) applied=1"
}
dense() {
	printf 'pull worker=x generation=1 incarnation=1 iteration=%s dense=1 rows=0\n' "$1" |
		socat -t 20 - UNIX-CONNECT:r0.sock | sed -n '3,$p' | head -c 16 | od -An -v -tf4 | xargs
}

@test "who tells its replica another thing than the lead is out, named and counted; the others go on" {
	four
	open w0 lead.sock
	open w1 lead.sock
	join w0 1
	answered w0 '^ok iteration=0'
	joins w1 1
	good 0
	answered w1 '^ok iteration=1'
	# Another count.
	to_replica w1 1 2 1 2 "$G2222"
	to_lead w1 1 2 1 64
	good 1
	answered w1 '^err code=fenced	it told r0 of sequence 2 with 2 samples, and the lead of sequence 2 with 64$'
	grep -q 'w1: it told r0 of sequence 2 with 2 samples.*: it is refused; 1 so far' lead.err
	[ "$(stat_of lead.sock refused)" = 1 ]
	[ "$(dense 2)" = "-2 -4 -6 -8" ]
	# That life of it is over, at both.
	join w1 1
	answered w1 '^err code=fenced	generation 2 or later'
	tell r "push worker=w1 generation=1 incarnation=1 sequence=3 iteration=2 count=1 dense=1 rows=0 bytes=16\n$G2222"
	answered r '^err code=fenced'
	# Another sequence.
	joins w1 2
	good 2
	answered w1 '^ok iteration=3'
	to_replica w1 2 7 3 1 "$G2222"
	to_lead w1 2 8 3 1
	good 3
	answered w1 '^err code=fenced	it told r0 of sequence 7 with 1 samples, and the lead of sequence 8 with 1$'
	# Nothing to the replica at all.
	joins w1 3
	good 4
	answered w1 '^ok iteration=5'
	to_lead w1 3 1 5 1
	good 5
	answered w1 '^err code=fenced	it told the lead of sequence 1, of 1 samples, which its replica does not have$'
	# Nothing to the lead, which waits for it until it goes.
	joins w1 4
	good 6
	answered w1 '^ok iteration=7'
	to_replica w1 4 1 7 1 "$G2222"
	hang_up w1
	good 7
	# A second one to either: the first counts.
	open w1 lead.sock
	joins w1 5
	good 8
	answered w1 '^ok iteration=9'
	to_replica w1 5 1 9 1 "$G2222"
	tell r "push worker=w1 generation=5 incarnation=1 sequence=2 iteration=9 count=1 dense=1 rows=0 bytes=16\n$G1234"
	answered r '^err code=bad-request	sequence=2 count=1, but sequence 1 of 1 samples is staged for iteration 9'
	to_lead w1 5 1 9 1
	to_lead w1 5 1 9 2
	good 9
	answered w1 '^ok iteration=10 applied=1'
	answered w1 '^err code=bad-request	sequence 1 was pushed with count=1'
	[ "$(stat_of lead.sock refused)" = 3 ]
	# Eight times w0's alone, and the mean of both.
	[ "$(dense 10)" = "-10.5 -20 -29.5 -39" ]
}

# stand_in I/H: a replica of a shell script, rI.sock, that is in state $(cat rI.state) at iteration
# $(cat rI.at), and notes what it is asked in rI.asked. It says nothing to a fill until there is
# rI.filled, and to a sum what is in rI.sum.
stand_in() {
	local r=r${1%/*}
	echo "${2:-empty}" >$r.state
	echo 0 >$r.at
	cat >$r.sh <<-END
		#!/usr/bin/env bash
		echo "paceline role=ps-server version=1 id=$r replica=$1"
		while read -r verb rest; do
			echo "\$verb \$rest" >>$T/$r.asked
			case \$verb in
			stat)
				echo "stat id=$r part=$1 replica=$r state=\$(cat $T/$r.state) life=1 round=0 iteration=\$(cat $T/$r.at) incarnation=1"
				echo ok ;;
			fill)
				until [ -e $T/$r.filled ]; do sleep 0.05; done
				echo "ok iteration=\$(cat $T/$r.at)" ;;
			sum) [ ! -e $T/$r.sum ] || cat $T/$r.sum ;;
			throw) echo ok ;;
			esac
		done
	END
	chmod +x $r.sh
	start $r socat UNIX-LISTEN:$r.sock,fork EXEC:./$r.sh
	printf -v "S_$r" %s "$PID"
	ready $r.sock
}
asked() { grep -c "^$2" "$1.asked" || true; }

# lead_of REPLICA,... ARG...: without shardd, of a clock that is fast. It lets go of no worker that this
# test has no time for.
lead_of() {
	printf 'layout version=1 seed=1\ntensor name=a rows=4 cols=1 init=zero scale=0\n' >layout
	start lead fast ps-server -s "$T/lead.sock" --id lead --lead-only --replicas "$1" \
		--layout layout --hung 0 "${@:2}"
	LEAD=$PID
	ready "$T/lead.sock"
}

@test "a replica that is filled and silent: the others go on, and it is filled again" {
	printf 'layout version=1 seed=1\ntensor name=a rows=4 cols=1 init=zero scale=0\n' >layout
	stand_in 1/2
	start r0 ps-server -s "$T/r0.sock" --id r0 --replica 0/2 --layout layout --serve \
		--fabric "$T/none.sock" --hosts a,b --optimizer sgd --lr 1
	ready "$T/r0.sock"
	lead_of "$T/r0.sock,$T/r1.sock"
	open r r0.sock
	open w0 lead.sock
	join w0 1
	answered w0 '^ok iteration=0'
	wait_for '[ "$(asked r1 fill)" = 1 ]'
	good 0 # held back until it is given up
	grep -q "nothing has come to $T/r1.sock for 30 s: the others go on without it" lead.err
	wait_for '[ "$(grep -c "r1.sock is filled from $T/r0.sock" lead.err)" -ge 2 ]'
	[ "$(stat_of lead.sock replicas)" = r0 ]
	# What it says to the first one is not about a later one, and comes on the same connection.
	echo 1 >r1.at
	touch r1.filled
	wait_for '[ "$(stat_of lead.sock replicas)" = r0,r1 ]'
}

@test "without any replica for 30 seconds a lead ends with 75" {
	four_fast
	kill -9 "$REPLICA"
	ended "$LEAD"
	[ "$status" -eq 75 ]
	grep -q "replicas: none of 1 replicas can go on at iteration 0: a rollback is needed" lead.err
}

four_fast() {
	printf 'layout version=1 seed=1\ntensor name=a rows=4 cols=1 init=zero scale=0\n' >layout
	replica --optimizer sgd --lr 1
	lead_of "$T/r0.sock"
	wait_for '[ "$(stat_of lead.sock replicas)" = r0 ]'
}

@test "a sum for which there is no room is tried a few times; then the lead ends, and says what is needed" {
	stand_in 0/1 serving
	printf 'err code=room\t7000 rows are too many\n' >r0.sum
	lead_of "$T/r0.sock"
	open w0 lead.sock
	join w0 1
	ended "$LEAD"
	[ "$status" -eq 71 ]
	grep -q "r0.sock: the sum of iteration 0 has no room: 7000 rows are too many: smaller batches, or more memory" lead.err
	[ "$(asked r0 sum)" = 6 ]
	printf 'err code=differs\tfabricd: b says 5 floats, a 4\n' >r0.sum
	rm w0.in
	lead_of "$T/r0.sock"
	open w0 lead.sock
	join w0 1
	ended "$LEAD"
	[ "$status" -eq 78 ]
	grep -q "the sum of iteration 0 is not the same on all hosts: fabricd: b says 5 floats, a 4$" lead.err
}

@test "who joins with a replica that is not there, or goes, is told, and keeps no rows" {
	four_of_two
	open w0 lead.sock
	open w1 lead.sock
	join w0 1
	answered w0 '^ok iteration=0'
	tell w1 'join worker=w1 generation=1 incarnation=1 replica=r1\n'
	answered w1 '^err code=fenced	its replica r1 is not in force$'
	# It is there, and w1 waits for the next iteration when it goes.
	stand_in 1/2 serving
	wait_for '[ "$(stat_of lead.sock replicas)" = r0,r1 ]'
	tell w1 'join worker=w1 generation=2 incarnation=1 replica=r1\n'
	wait_for '[[ $(ask lead.sock members) == *"worker=w1 generation=2"*"state=joining"* ]]'
	pkill -P "$S_r1"
	kill "$S_r1"
	answered w1 '^err code=fenced	its replica r1 is gone$'
}

four_of_two() {
	printf 'layout version=1 seed=1\ntensor name=a rows=4 cols=1 init=zero scale=0\n' >layout
	start r0 ps-server -s "$T/r0.sock" --id r0 --replica 0/2 --layout layout --serve \
		--fabric "$T/none.sock" --hosts a,b
	ready "$T/r0.sock"
	lead_of "$T/r0.sock,$T/r1.sock"
	wait_for '[ "$(stat_of lead.sock replicas)" = r0 ]'
}

@test "one that another lead fills is looked at again and again; who waits to join enters when one is there" {
	printf 'layout version=1 seed=1\ntensor name=a rows=4 cols=1 init=zero scale=0\n' >layout
	stand_in 1/2 filling
	lead_of "$T/r0.sock,$T/r1.sock" --balance lb-bsp --batch 30 --expect 2
	open w0 lead.sock
	join w0 1
	wait_for '[ "$(asked r1 stat)" -ge 15 ]' # of the lead, one a second
	[ "$(asked r1 fill)" = 0 ]
	start r0 ps-server -s "$T/r0.sock" --id r0 --replica 0/2 --layout layout --serve \
		--fabric "$T/none.sock" --hosts a,b
	ready "$T/r0.sock"
	answered w0 '^ok iteration=0 members=1'
	wait_for '[ "$(asked r1 fill)" = 1 ]'
}

# Three hosts, which are directories of this machine, with a fabric between them; the queue and the lead
# are on the first.
hosts=(a b c)

fabric() {
	needs_world
	printf 'route socket=%s host=%s\n' shardd.sock a lead.sock a r0.sock a r1.sock b r2.sock c >routes
	world "a b c" --routes "$T/routes" "$@"
	wait_for '[ -S a/r1.sock ] && [ -S a/r2.sock ] && [ -S b/lead.sock ] && [ -S c/lead.sock ]'
}

# replica_of I ARG...: on its host
replica_of() {
	local i=$1 host=${hosts[$1]}
	shift
	start "r$i" ps-server -s "$T/$host/r$i.sock" --id "r$i" --replica "$i/3" --layout layout \
		--fabric "$T/$host/fabric.sock" --hosts a,b,c "$@"
	R[i]=$PID
	ready "$T/$host/r$i.sock"
}
kill_replica() { # I OTHERS
	kill -9 "${R[$1]}"
	ended "${R[$1]}"
	wait_for '[ "$(stat_of a/lead.sock replicas)" = '"$2"' ]'
}

lead_of_three() {
	start lead ps-server -s "$T/a/lead.sock" --id lead --lead-only \
		--replicas "$T/a/r0.sock,$T/a/r1.sock,$T/a/r2.sock" --shards "$T/a/shardd.sock" --layout layout
	LEAD=$PID
	ready "$T/a/lead.sock"
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r0,r1,r2 ]'
}

# Six workers: two on each host, with the replica there; one of the two computes while the sum of its batch
# before is made.
work_everywhere() {
	local i host
	for i in 0 1 2 3 4 5; do
		host=${hosts[i % 3]}
		start "w$i" worker --id "w$i" --shards "$T/$host/shardd.sock" --lead "$T/$host/lead.sock" \
			--replica "$T/$host/r$((i % 3)).sock" --delay $((i / 3)) --batch 20 --wait 120 \
			--data data.csv --schema schema --model-file audit --drag drag
	done
}
all_go_on() {
	local at
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r0,r1,r2 ]'
	wait_for '[ "$(stat_of a/lead.sock members)" = 6 ]'
	at=$(stat_of a/lead.sock iteration)
	wait_for '[ "$(stat_of a/lead.sock iteration)" -ge '$((at + 2))' ]'
}

@test "three hosts: replicas, the fabric and the lead die; each sample is in the model once" {
	ROWS=20000 # more than there are before all have died
	audit_layout "$ROWS"
	make_csv
	echo 'drag delay=0.2' >drag
	fabric
	start shardd shardd -s "$T/a/shardd.sock" -j "$T/journal" -n "$ROWS" -b 120 -m 4 --settle-only
	ready "$T/a/shardd.sock"
	for i in 0 1 2; do replica_of $i --serve; done
	lead_of_three
	work_everywhere
	all_go_on
	for host in "${hosts[@]}"; do [ "$(stat_of "$host/fabric.sock" sums-done)" -ge 2 ]; done
	# One that comes back is empty, and filled by another.
	kill_replica 1 r0,r2
	replica_of 1
	all_go_on
	kill_replica 2 r0,r1
	replica_of 2
	all_go_on
	kill -9 "$(pgrep -f "^fabricd --run-dir $T/b ")"
	wait_for '! kill -0 $WORLD 2>/dev/null' # with all of its ranks
	fabric --rounds shares # from here on by shares
	all_go_on
	kill -9 $LEAD
	ended "$LEAD" # and with it its lock
	lead_of_three
	ask a/lead.sock "cut path=$T/early" | grep -q '^ok path='
	kill_replica 0 r1,r2
	replica_of 0 # its workers wait for it, with rows in their hands
	rm drag
	wait_for '[[ $(ask a/shardd.sock stat) == *" todo=0 doing=0 "*" held=0 "* ]]'
	wait_for '[ "$(stat_of a/lead.sock replicas)" = r0,r1,r2 ]'
	kill_replica 0 r1,r2
	each_once a/lead.sock # r1 writes it
	ckpt verify early
}

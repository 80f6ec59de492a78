# ps-server(8) --replica: conversations as workers, the lead, and another replica would have them.
# rooms: work param
load helper
. "$BATS_TEST_DIRNAME/cluster/world.bash"

ME='incarnation=1'
# Gradients 1 2 3 4 as floats, and 2 2 2 2.
G1234='\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40'
G2222='\0\0\0\x40\0\0\0\x40\0\0\0\x40\0\0\0\x40'
NAN4='\0\0\x80\x3f\0\0\xc0\x7f\0\0\x40\x40\0\0\x80\x40'

setup_more() { layouts d4 d5 w2 d20011w3 d4000000; }

# replica NAME I/H ARG...: on NAME.sock; ON: words before its command.
ON=
replica() {
	local name=$1 share=$2
	shift 2
	start "$name" $ON ps-server -s "$name.sock" --id "$name" --replica "$share" "$@"
	ready "$name.sock" || { cat "$name.err"; return 1; }
}

# push NAME WORKER ITERATION GRADIENT [COUNT [GENERATION]]: four floats.
push() {
	tell "$1" "push worker=$2 generation=${6:-1} $ME sequence=$(($3 + 1)) iteration=$3 count=${5:-1} dense=1 rows=0 bytes=16\n$4"
}

# sum NAME ROUND ITERATION WORKER...: of r0 alone; WORKER may be worker:generation:replica:scale.
sum() {
	local conversation=$1 head="sum $ME round=$2 iteration=$3 replicas=${REPLICAS:-r0}${CHECK:+ check=1}" lines= w
	shift 3
	for w in "$@"; do
		IFS=: read -r id generation where scale <<<"$w"
		lines+="member worker=$id generation=${generation:-1} replica=${where:-r0} scale=${scale:-1}"$'\n'
	done
	tell "$conversation" "$head bytes=${#lines}\n$lines"
}

# apply NAME ITERATION ROUND DIVISOR [SAMPLES]
apply() {
	tell "$1" "apply $ME iteration=$2 units=1 round=$3 divisor=$4 samples=${5:-1}\n"
}

# dense SOCKET ITERATION: the dense parameters.
dense() {
	printf 'pull worker=x generation=1 %s iteration=%s dense=1 rows=0\n' "$ME" "$2" |
		socat -t 300 - "UNIX-CONNECT:$1" | sed -n '3,$p' >model
	head -c 16 model | od -An -v -tf4 | xargs
}

SGD='--optimizer sgd --lr 1'

@test "usage: what goes with a replica, and what does not" {
	local args
	for args in "--replica 2/2" "--replica r0" "--replica 0/1 --part 0/1" "--replica 0/1 --sync asp" \
		"--replica 0/1 --take-over" "--replica 0/1 --lead-only" "--replica 0/1 --shards s" \
		"--replica 0/1 --serve --restore d" "--replica 0/1 --backup 1" "--serve" "--fabric f" \
		"--replica 0/2 --fabric f" "--replica 0/2 --hosts a,b" \
		"--replica 0/2 --fabric f --hosts a" "--sums" "--replica 0/1 --sums" \
		"--replica 0/1 --sums --serve"; do
		run ps-server -s x --id r0 --layout d4 $args
		[ "$status" -eq 64 ] || { echo "$args: $status $output"; return 1; }
	done
}

@test "a step is made with the sum that the lead has named, and with no other" {
	replica r0 0/1 --layout d4 $SGD --serve
	open w r0.sock
	open l r0.sock
	answered w '^paceline role=ps-server version=1 id=r0 replica=0/1 lead=0 .* iteration=0 dense-begin=0 dense=4 width=0 boot=[^ ]* life=[0-9]+$'
	push w w0 0 "$G1234" 2
	answered w 'ok staged=1'
	sum l 7 0 w0 w1
	wait_for 'ask r0.sock stat | grep -q "round=0 .*staged=1"'
	open m r0.sock
	apply m 0 7 3
	answered m '^err code=no-sum.*the sum of round 7 is not here'
	# The answer to `sum` is held back until w1 has pushed.
	push w w1 0 "$G2222"
	answered l '^ok round=7$'
	[ "$(ask r0.sock stat | field round)" = 7 ]
	[ "$(ask r0.sock stat | field staged)" = 2 ]
	apply l 0 7 4
	answered l '^ok iteration=1$'
	[ "$(dense r0.sock 1)" = "-0.75 -1 -1.25 -1.5" ]
	run ask r0.sock stat
	[[ ${lines[0]} == "stat id=r0 part=0/1 replica=r0 state=serving life="*" round=0 "*" iteration=1 incarnation=1 "*" staged=0 pushes=2 "* ]]
	# Said again, of another round, of another iteration, of a sum that is gone.
	apply l 0 7 3
	answered l '^ok iteration=1 repeated=1$'
	apply l 1 7 3
	answered l '^err code=no-sum'
	apply l 3 7 3
	answered l '^err code=order'
	sum l 6 1 w0
	answered l '^err code=stale.*round 7 is in force'
	sum l 8 5 w0
	answered l '^err code=order.*1 units are applied here, not 5'
	[ "$(dense r0.sock 1)" = "-0.75 -1 -1.25 -1.5" ]
}

@test "a newer round replaces an older one; contributions stay until the step" {
	replica r0 0/1 --layout d4 $SGD --serve
	open w r0.sock
	open a r0.sock
	open b r0.sock
	push w w0 0 "$G1234"
	push w w1 0 "$G2222"
	answered w 'ok staged=1'
	sum a 1 0 w0 w1 w2
	wait_for 'ask r0.sock counters | grep -q "verb=sum requests=1"'
	sum b 2 0 w0 w1
	answered a '^err code=stale.*round 2 is in force'
	answered b '^ok round=2$'
	# Made already: another one with a member less, and with another weight.
	sum b 3 0 w1:1:r0:0.5
	answered b '^ok round=3$'
	apply b 0 2 1
	answered b '^err code=no-sum'
	sum b 3 0 w1
	wait_for '[ "$(grep -c "^ok round=3" b.answers)" = 2 ]'
	apply b 0 3 1
	answered b '^ok iteration=1'
	[ "$(dense r0.sock 1)" = "-1 -1 -1 -1" ]
	[ "$(ask r0.sock stat | field staged)" = 0 ]
	# Late for a unit that is over.
	push w w0 0 "$G1234"
	wait_for '[ "$(grep -c "staged=1" w.answers)" = 3 ]'
	[ "$(ask r0.sock stat | field staged)" = 0 ]
}

@test "the same bits whoever comes first; members of other replicas are passed over" {
	local order
	for order in "w0 w1 w2" "w2 w1 w0" "w1 w2 w0"; do
		replica r0 0/1 --layout d4 --optimizer adagrad --serve
		open w r0.sock
		open l r0.sock
		sum l 1 0 w0 w1::: w2:1:r0:0.3 w9:1:r5
		for w in $order; do
			case $w in
			w0) push w w0 0 '\x01\0\x80\x3f\xcd\xcc\xcc\x3d\0\0\x40\x40\0\0\x80\x4b' ;;
			w1) push w w1 0 '\x9a\x99\x99\x3e\x77\xcc\xcc\x3d\0\0\x40\x30\0\0\x80\x3f' ;;
			w2) push w w2 0 '\x9a\x99\x19\x3f\xcd\x1c\xcc\x3d\0\0\x40\xb0\0\0\x80\xcb' ;;
			esac
		done
		answered l '^ok round=1$'
		apply l 0 1 3
		answered l '^ok iteration=1'
		dense r0.sock 1
		od -An -tx1 -N16 model >>bits
		kill "$PID"
		ended "$PID"
		rm w.in l.in w.answers l.answers
	done
	[ "$(sort -u bits | wc -l)" = 1 ]
}

@test "a gradient that can't be added is named with its worker; nothing is summed, others go on" {
	printf 'layout version=1 seed=1\ntensor name=a rows=1 cols=1 init=zero scale=0\ntensor name=b rows=3 cols=1 init=zero scale=0\n' >layout
	replica r0 0/1 --layout layout $SGD --serve
	open w r0.sock
	open l r0.sock
	sum l 1 0 w0 w1
	push w w0 0 "$G2222"
	push w w1 0 "$NAN4"
	answered l "^diverged worker=w1 generation=1	the gradient of parameter b\[0\] is nan, beyond 1e\+18$"
	answered l '^ok round=1 diverged=1$'
	grep -q 'a push of w1 in iteration 0 .*b\[0\] is nan' r0.err
	apply l 0 1 2
	answered l '^err code=no-sum'
	sum l 1 0 w0 w1
	wait_for '[ "$(grep -c "diverged=1" l.answers)" = 2 ]'
	tell l "throw $ME worker=w1 generation=1\n"
	sum l 2 0 w0
	answered l '^ok round=2'
	apply l 0 2 1
	answered l '^ok iteration=1'
	[ "$(dense r0.sock 1)" = "-2 -2 -2 -2" ]
	push w w1 1 "$G2222"
	answered w '^err code=fenced'
}

@test "rows of several members are added by key; a member without samples adds nothing" {
	replica r0 0/1 --layout w2 $SGD --serve
	open l r0.sock
	open w r0.sock
	CHECK=1 sum l 1 0 w0 w1 w2
	tell w "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 dense=0 rows=1 bytes=12\n\5\0\0\0\0\0\x80\x3f\0\0\0\x40"
	tell w "push worker=w1 generation=1 $ME sequence=1 iteration=0 count=1 dense=0 rows=2 bytes=24\n\7\0\0\0\5\0\0\0\0\0\x80\x3f\0\0\x80\x3f\0\0\0\x40\0\0\0\x40"
	tell w "push worker=w2 generation=1 $ME sequence=1 iteration=0 count=0 dense=0 rows=0\n"
	answered l '^ok round=1 sum=[0-9]+$'
	apply l 0 1 2 2
	answered l '^ok iteration=1'
	printf 'pull worker=x generation=1 %s iteration=1 dense=0 rows=2 bytes=8\n\5\0\0\0\7\0\0\0' "$ME" |
		socat -t 300 - UNIX-CONNECT:r0.sock | sed -n '3,$p' >model
	[ "$(head -c 16 model | od -An -v -tf4 | xargs)" = "-1.5 -2 -0.5 -0.5" ]
	# A row that can't be added is named by its key.
	tell w "push worker=w0 generation=1 $ME sequence=2 iteration=1 count=1 dense=0 rows=1 bytes=12\n\7\0\0\0\0\0\x80\x3f\0\0\x80\xff"
	sum l 2 1 w0
	answered l "^diverged worker=w0 generation=1	the gradient of key 7 is -inf, beyond 1e\+18$"
	# Nobody trained: no sum is needed, and none that waits goes on.
	sum l 3 1 w2
	open m r0.sock
	apply m 1 3 0 0
	answered m '^ok iteration=2'
	answered l '^err code=stale.*nobody trained'
}

@test "orders that make no sense are refused, and nothing has happened" {
	replica r0 0/2 --layout d4 $SGD --serve
	open l r0.sock
	tell l "sum incarnation=2 round=1 iteration=0 replicas=r0\n"
	answered l '^err code=fenced'
	REPLICAS=r1 sum l 1 0 w0
	answered l '^err code=bad-request.*r0 is not among them'
	REPLICAS=r0,r1 sum l 2 0 w0
	answered l '^err code=bad-request.*no --fabric to them'
	tell l "sum $ME round=3 iteration=0 replicas=r0 bytes=5\nx=1\n\n"
	tell l "sum $ME round=4 iteration=0 replicas=r0 bytes=9\nmember a\n"
	tell l "sum $ME round=5 iteration=0 replicas=r0 bytes=31\nmember worker=w0 generation=1 r\n"
	wait_for '[ "$(grep -c "^err code=bad-request" l.answers)" -ge 5 ]'
	tell l "sum $ME round=6 iteration=0 replicas=r0\n"
	answered l '^ok round=6'
	tell l "apply $ME iteration=0 units=1 bytes=5\nx=1\n\n"
	answered l '^err code=bad-request.*round= is missing'
	tell l "part worker=w0 generation=1 $ME sequence=1 iteration=0 begin=0 length=4 bytes=16\n$G1234"
	answered l '^err code=bad-request.*mapped memory'
	tell l "hold $ME\n"
	answered l '^err code=bad-request.*hold: round= is missing'
	[ "$(ask r0.sock stat | field iteration)" = 0 ]
}

@test "one without parameters says so, and is filled from another, with the optimizer's state" {
	printf 'layout version=1 seed=1\ntensor name=a rows=4 cols=1 init=normal scale=1\ntable name=t width=2 rows=0 zero-columns=0 init=normal scale=1 update=optimizer export=rows\n' >layout
	replica r0 0/2 --layout layout --optimizer adam --serve
	replica r1 1/2 --layout layout --optimizer adam
	open w r0.sock
	open l r0.sock
	for i in 0 1 2; do
		tell w "push worker=w0 generation=1 $ME sequence=$((i + 1)) iteration=$i count=1 dense=1 rows=1 bytes=28\n$G1234\5\0\0\0\0\0\x80\x3f\0\0\0\x40"
		sum l $((i + 1)) "$i" w0
		answered l "^ok round=$((i + 1))"
		apply l "$i" $((i + 1)) 1
	done
	answered l '^ok iteration=3'
	[ "$(ask r1.sock stat | field state)" = empty ]
	open m r1.sock
	tell m "pull worker=w generation=1 $ME iteration=0 dense=1 rows=0\n"
	answered m '^err code=empty'
	push m w0 0 "$G1234"
	sum m 1 0 w0
	tell m "copy $ME\n"
	tell m "cut $ME path=$T\n"
	wait_for '[ "$(grep -c "^err code=empty" m.answers)" = 5 ]'
	tell m "fill $ME from=none.sock iteration=3\n"
	answered m '^err code=fill.*none.sock'
	tell m "fill $ME from=r0.sock iteration=4\n"
	answered m '^err code=fill.*order: 3 units'
	tell m "fill $ME from=r0.sock iteration=3\n"
	answered m '^ok iteration=3'
	[ "$(ask r1.sock stat | field state)" = serving ]
	[ "$(ask r1.sock stat | field rows)" = 1 ]
	# Both make the same step from here.
	tell w "push worker=w0 generation=1 $ME sequence=4 iteration=3 count=1 dense=1 rows=1 bytes=28\n$G2222\5\0\0\0\0\0\x80\x3f\0\0\0\x40"
	CHECK=1 sum l 9 3 w0
	answered l '^ok round=9 sum='
	apply l 3 9 1
	answered l '^ok iteration=4'
	tell m "push worker=w0 generation=1 $ME sequence=4 iteration=3 count=1 dense=1 rows=1 bytes=28\n$G2222\5\0\0\0\0\0\x80\x3f\0\0\0\x40"
	CHECK=1 REPLICAS=r1 sum m 9 3 w0:1:r1
	answered m '^ok round=9 sum='
	apply m 3 9 1
	answered m '^ok iteration=4'
	[ "$(field sum <l.answers)" = "$(field sum <m.answers)" ]
	dense r0.sock 4
	mv model model0
	dense r1.sock 4
	cmp model0 model
	# A cut of either is a checkpoint's only part.
	mkdir d0 d1
	tell l "cut $ME path=d0 iteration=4\n"
	tell m "cut $ME path=d1\n"
	answered l '^ok file=d0/part-0 '
	answered m '^ok file=d1/part-0 '
	cmp d0/part-0 d1/part-0
	# What others have said meanwhile: filled again, from a newer version.
	tell m "fill $ME from=r0.sock iteration=0\n"
	wait_for '[ "$(grep -c "^ok iteration=4" m.answers)" = 2 ]'
	# The order of a lead that is no more, read late, empties nothing.
	tell m "fill $ME round=8 from=r0.sock iteration=4\n"
	answered m '^err code=stale.*round 9 is in force'
	[ "$(ask r1.sock stat | field state)" = serving ]
	tell m "fill $ME round=10 from=r0.sock iteration=4\n"
	wait_for '[ "$(grep -c "^ok iteration=4" m.answers)" = 3 ]'
	CHECK=1 REPLICAS=r1 sum m 10 4
	wait_for '[ "$(grep -c "^ok round=10" m.answers)" = 1 ]'
}

@test "fill: as long as something comes, it says so" {
	replica r0 0/2 --layout d4000000 $SGD --serve
	replica r1 1/2 --layout d4000000 $SGD
	# On a slow way: a little, and a pause.
	printf '%s\n' '#!/bin/sh' "socat -t 300 - UNIX-CONNECT:$T/r0.sock |" \
		'while dd bs=65536 count=1 2>/dev/null >chunk && [ -s chunk ]; do cat chunk; sleep 0.02; done' >slow
	chmod +x slow
	start slow socat UNIX-LISTEN:slow.sock EXEC:./slow
	wait_for '[ -S slow.sock ]'
	open m r1.sock
	tell m "fill $ME round=1 from=slow.sock iteration=0\n"
	answered m '^filling records='
	answered m '^ok iteration=0'
	[ "$(ask r1.sock stat | field state)" = serving ]
}

@test "fill: another model, another optimizer, a source that dies; then it is empty still" {
	replica r0 0/3 --layout d4 $SGD --serve
	replica r1 1/3 --layout d5 $SGD
	local r1=$PID
	replica r2 2/3 --layout d4 --optimizer adam
	open a r1.sock
	open b r2.sock
	tell a "fill $ME from=r0.sock iteration=0\n"
	answered a '^err code=fill.*4 dense parameters, we 5'
	tell b "fill $ME from=r0.sock iteration=0\n"
	answered b '^err code=fill.*another --optimizer'
	# Somebody who greets and says no more; another fill takes its place.
	start silent socat UNIX-LISTEN:silent.sock,fork "SYSTEM:printf 'paceline role=ps-server version=1\\\\n'; cat >/dev/null"
	ready silent.sock
	tell b "fill $ME from=silent.sock iteration=0\n"
	wait_for '[ "$(ask r2.sock stat | field state)" = filling ]'
	open c r2.sock
	tell c "fill $ME from=r1.sock iteration=0\n"
	answered b '^err code=stale'
	answered c '^err code=fill.*empty: there are no parameters'
	[ "$(ask r2.sock stat | field state)" = empty ]
	# Somebody who accepts and does not greet, the same.
	start mute socat UNIX-LISTEN:mute.sock,fork SYSTEM:'cat >/dev/null'
	ready mute.sock
	tell b "fill $ME from=mute.sock iteration=0\n"
	wait_for '[ "$(ask r2.sock stat | field state)" = filling ]'
	tell c "fill $ME from=r1.sock iteration=0\n"
	wait_for '[ "$(grep -c "^err code=stale" b.answers)" = 2 ]'
	wait_for '[ "$(grep -c "^err code=fill.*empty: there are no parameters" c.answers)" = 2 ]'
	# It ends while it is being filled.
	tell a "fill $ME from=silent.sock iteration=0\n"
	wait_for '[ "$(ask r1.sock stat | field state)" = filling ]'
	kill "$r1"
	ended "$r1"
	[ "$status" -eq 0 ]
}

@test "with sums only: nobody is served before a rank has said how long they are; then as any replica" {
	replica r0 0/1 --sums
	open w r0.sock
	open l r0.sock
	answered w ' dense=0 width=0 .* sums=1$'
	run ask r0.sock stat
	[[ ${lines[0]} == *" state=filling sums=1 "*" dense=0 "* ]]
	push w w0 0 "$G1234"
	answered w '^err code=empty.*nobody has said room'
	tell w "look\n"
	wait_for '[ "$(grep -c "^err code=empty" w.answers)" = 2 ]'
	tell w "room incarnation=2 floats=4\n"
	answered w '^err code=fenced'
	for n in 0 -1 1099511627777 4x; do
		tell w "room $ME floats=$n\n"
	done
	wait_for '[ "$(grep -c "^err code=bad-request.*floats" w.answers)" = 4 ]'
	# All machines have less.
	tell w "room $ME floats=1099511627776\n"
	answered w '^err code=no-memory.*bytes for two sums: Cannot allocate memory'
	[ "$(ask r0.sock stat | field state)" = filling ]
	tell w "room $ME floats=4\n"
	answered w '^ok map-bytes=12288$'
	tell w "room $ME floats=5\n"
	answered w '^err code=config.*floats=5, but another rank has said floats=4'
	run ask r0.sock stat
	[[ ${lines[0]} == *" state=serving sums=1 "*" iteration=0 "*" dense=4 "* ]]
	# At whatever iteration the lead is; one without samples is waited for, and adds nothing.
	push w w0 7 "$G1234" 2
	tell w "push worker=w1 generation=1 $ME sequence=8 iteration=7 count=0 dense=0 rows=0\n"
	tell w "pull worker=w0 generation=1 $ME iteration=8 dense=0 rows=0\n"
	sum l 3 7 w0 w1
	answered l '^ok round=3$'
	[ "$(ask r0.sock stat | field iteration)" = 7 ]
	[ "$(grep -c ^model w.answers)" = 0 ]
	apply l 7 3 2
	answered l '^ok iteration=8$'
	answered w '^model iteration=8 dense=0 '
	tell w "pull worker=w0 generation=1 $ME iteration=8 dense=1 rows=0\n"
	answered w '^err code=bad-request.*no parameters here'
	push w w0 8 "$NAN4"
	sum l 4 8 w0
	answered l "^summed worker=w0 generation=1 sequence=9 count=1	float 1 of its gradient is nan"
	# Nobody trained.
	apply l 8 5 0 0
	answered l '^ok iteration=9$'
	push w w0 9 '\xca\xf2\x49\x71\0\0\xc0\x7f\0\0\x40\x40\0\0\x80\x40' # 1e30, nan, 3, 4
	sum l 6 9 w0
	answered l "^summed worker=w0 generation=1 sequence=10 count=1	not all of its gradient is finite"
	for line in "fill $ME from=x iteration=0" "copy $ME" "cut $ME path=x"; do
		tell w "$line\n"
	done
	wait_for '[ "$(grep -c "^err code=unknown-request" w.answers)" = 3 ]'
}

@test "a state from a replica that sends what it should not, or nothing" {
	replica r0 0/2 --sums
	open w r0.sock
	local i=0 answer
	for answer in 'state iteration=1 bytes=9223372036854775807' 'state iteration=1 bytes=0' 'ok' 'err code=no-state\ttext' \
		'state bytes=1' 'state iteration=1 bytes=5\nab'; do
		i=$((i + 1))
		printf '%s\n' '#!/bin/sh' "printf 'paceline role=ps-server version=1\n'" \
			"head -n 1 >>said$i" "printf '$answer\n'" >"fake$i"
		chmod +x "fake$i"
		start "fake$i" socat "UNIX-LISTEN:r$i.sock,fork" "EXEC:./fake$i"
		ready "r$i.sock"
		tell w "state-get $ME attempt=$i from=r$i\n"
		wait_for '[ "$(grep -c "^err code=no-state.*r$i.sock: ." w.answers)" = 1 ]'
		[ "$(cat "said$i")" = "state-get incarnation=1 attempt=$i" ]
	done
	tell w "state-get $ME attempt=1 from=none\n"
	answered w '^err code=no-state.*none.sock'
	tell w "state-get $ME attempt=1 from=r0\n"
	answered w '^err code=no-state.*attempt 1 is not here'
	tell w "state $ME attempt=1 iteration=1 length=0\n"
	tell w "state $ME attempt=1 iteration=1 length=5\n"
	wait_for '[ "$(grep -c "^err code=bad-request" w.answers)" = 2 ]'
}

@test "restored from a checkpoint, it begins there" {
	replica r0 0/1 --layout d4 $SGD --serve
	open w r0.sock
	open l r0.sock
	push w w0 0 "$G1234"
	sum l 1 0 w0
	answered l '^ok round=1'
	apply l 0 1 1
	answered l '^ok iteration=1'
	mkdir cut
	tell l "cut $ME path=cut\n"
	answered l '^ok file=cut/part-0 bytes=[0-9]+ sum=[0-9]+ stall='
	kill "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
	# A checkpoint's manifest is the lead's; a part of parameters alone is none.
	run ps-server -s r0.sock --id r0 --replica 0/1 --restore cut
	[ "$status" -eq 66 ]
}

@test "three replicas over a fabric: the same bits after 1000 steps, and those of one process to rounding" {
	needs_world
	local host i=0
	local build="cc -O2 -D_GNU_SOURCE -I$PACELINE_ROOT/lib -o driver $PACELINE_ROOT/tests/replica-steps.c
		$(dirname "$(command -v ps-server)")/../lib/paceline.a -levent -lxxhash -lz -lm -pthread"
	$build 2>/dev/null || $build -fsanitize=address,undefined
	world "a b c"
	for host in a b c; do
		# It computes with as many threads as it may use cores: other numbers, the same bits.
		ON=$([ $i -gt 0 ] || echo taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')")
		replica "r$i" "$i/3" --layout d20011w3 --optimizer adagrad --lr 0.05 --serve \
			--fabric "$host/fabric.sock" --hosts a,b,c
		i=$((i + 1))
	done
	for i in 0 1 2; do
		wait_for "ask r$i.sock stat | grep -q fabric=1"
	done
	run ./driver "${STEPS:-1000}" r0.sock r1.sock r2.sock
	echo "$output"
	[ "$status" -eq 0 ]
}

# A rank of a replica with sums only. rank.py SOCKET LINE...: `state A LENGTH` gives a state of x's for
# attempt A; `get A FROM` prints how long the one of attempt A is, and what is in it; `sum K` waits for
# iteration K+1 and prints the sum of iteration K.
rank_of_sums() {
	cat >rank.py <<'END'
import fcntl, mmap, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.settimeout(60)

def ask(line, fds=()):
    socket.send_fds(s, [(line + "\n").encode()], fds)
    text, passed = b"", []
    while not text.endswith(b"\n") or text.split(b"\n")[-2].split()[0] not in (b"ok", b"err"):
        piece, more, *_ = socket.recv_fds(s, 65536, 8)
        text, passed = text + piece, passed + list(more)
    last = text.decode().split("\n")[-2]
    if last.startswith("err"):
        sys.exit(line + ": " + last)
    return last, passed

while not s.recv(65536).endswith(b"\n"):
    pass
_, (fd,) = ask("room incarnation=1 floats=4")
memory = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
for line in sys.argv[2:]:
    word, number, *more = line.split()
    if word == "state":
        fd = os.memfd_create("state", os.MFD_ALLOW_SEALING)
        os.write(fd, b"x" * int(more[0]))
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
        ask(f"state incarnation=1 attempt={number} iteration=7 length={more[0]}", [fd])
    elif word == "get":
        last, (fd,) = ask(f"state-get incarnation=1 attempt={number} from={more[0]}")
        print(last, os.fstat(fd).st_size, set(os.pread(fd, 1 << 30, 0)))
    else:
        ask(f"pull worker=x generation=1 incarnation=1 iteration={int(number) + 1} dense=0 rows=0")
        for which in 0, 1:
            state, iteration, round = struct.unpack_from("3Q", memory, 64 * which)
            if (state, iteration) == (2, int(number)):
                print("round", round, *struct.unpack_from("4f", memory, 4096 * (1 + which)))
END
}

@test "two replicas with sums only, over a fabric: the same sums on both hosts, and states from one to the other" {
	needs_world
	python3 -c 'import socket; socket.send_fds' || skip "no python3 (3.9 or later)"
	printf 'route socket=r%s.sock host=%s\n' 0 a 1 b >routes
	world "a b" --routes "$T/routes"
	rank_of_sums
	start r0 ps-server -s a/r0.sock --id r0 --replica 0/2 --sums --fabric a/fabric.sock --hosts a,b
	start r1 ps-server -s b/r1.sock --id r1 --replica 1/2 --sums --fabric b/fabric.sock --hosts a,b
	for socket in a/r0 b/r1 a/r1 b/r0; do ready "$socket.sock"; done
	# One host has no rank yet: it is not named, and holds nobody up.
	open w a/r0.sock
	tell w "room $ME floats=4\n"
	answered w '^ok map-bytes='
	[ "$(ask b/r1.sock stat | field state)" = filling ]
	push w w0 0 "$G1234"
	open l a/r0.sock
	open m b/r1.sock
	sum l 1 0 w0
	answered l '^ok round=1$'
	apply l 0 1 1
	answered l '^ok iteration=1'
	[ "$(python3 rank.py a/r0.sock "sum 0")" = "round 1 1.0 2.0 3.0 4.0" ]
	# A rank comes there: a state for it goes over the network.
	python3 rank.py a/r0.sock "state 5 3000001"
	run python3 rank.py b/r1.sock "get 5 r0" "get 5 r0"
	echo "$output"
	[ "$output" = "$(printf 'ok iteration=7 length=3000001 3000001 {120}\n%.0s' 1 2)" ]
	open x b/r1.sock
	wait_for 'ask a/r0.sock stat | grep -q fabric=1 && ask b/r1.sock stat | grep -q fabric=1'
	for i in 1 2 3; do
		push w w0 $i "$G1234"
		push x w1 $i "$G2222"
		CHECK=1 REPLICAS=r0,r1 sum l $((i + 1)) $i w0:1:r0 w1:1:r1
		CHECK=1 REPLICAS=r0,r1 sum m $((i + 1)) $i w0:1:r0 w1:1:r1
		answered l "^ok round=$((i + 1)) sum="
		answered m "^ok round=$((i + 1)) sum="
		apply l $i $((i + 1)) 2
		apply m $i $((i + 1)) 2
		for socket in a/r0 b/r1; do
			run python3 rank.py $socket.sock "sum $i"
			[ "$output" = "round $((i + 1)) 3.0 4.0 5.0 6.0" ] || { echo "$output"; return 1; }
		done
	done
	[ "$(grep -o ' sum=[0-9]*' l.answers)" = "$(grep -o ' sum=[0-9]*' m.answers)" ]
	# The other host is lost in the middle of a sum: who is left goes on alone, in the same memory.
	push w w0 4 "$G1234"
	REPLICAS=r0,r1 sum l 8 4 w0:1:r0 w1:1:r1
	open n a/r0.sock
	sum n 9 4 w0
	answered l '^err code=stale'
	answered n '^ok round=9$'
	apply n 4 9 1
	answered n '^ok iteration=5'
	[ "$(python3 rank.py a/r0.sock "sum 4")" = "round 9 1.0 2.0 3.0 4.0" ]
	# Its own fabricd stands still, so it may write yet; once it is dead it can't.
	push w w0 5 "$G1234"
	pkill -STOP -f "^[^ ]*fabricd --run-dir $T/a "
	REPLICAS=r0,r1 sum l 10 5 w0:1:r0 w1:1:r1
	sum l 11 5 w0 # by the same connection, so that it comes after that
	answered l '^err code=stale.*11'
	not grep -q 'round=11' l.answers
	pkill -KILL -f "^[^ ]*fabricd --run-dir $T/a "
	answered l '^ok round=11$'
}

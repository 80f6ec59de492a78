# ps-server(8): conversations as a worker, the lead and the supervisor would have them.
# rooms: ps lead param wire
load helper

setup_more() { layouts d4 d5 d8 d2w1 d4w1 d4w2 d8w1 d8w2 d400000; }

# server NAME ARG...: on NAME.sock.
server() {
	local name=$1
	shift
	start "$name" ps-server -s "$name.sock" --id "$name" "$@"
	ready "$name.sock" || { cat "$name.err"; return 1; }
}

# join NAME SOCKET WORKER: a conversation of a worker, which wants to be a member.
join() {
	open "$1" "$2"
	tell "$1" "join worker=$3 generation=1 $ME\n"
}

# ends PID STATUS: it ends by itself, with this status.
ends() {
	local status
	ended "$1"
	[ "$status" -eq "$2" ] || { echo "status $status, not $2"; return 1; }
}

# noise COUNT: a layout of so many parameters that do not compress.
noise() {
	printf 'layout version=1 seed=1\ntensor name=a rows=%d cols=1 init=normal scale=1\n' "$1" >noise.layout
}

ME='incarnation=1'
# Gradients 1 2 3 4 as floats.
G1234='\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40'

# push NAME WORKER SEQUENCE ITERATION [COUNT]: dense 1 2 3 4, its rows being SEQUENCE*10...
push() {
	tell "$1" "push worker=$2 generation=1 $ME sequence=$3 iteration=$4 count=${5:-1} dense=1 rows=0 ranges=$3:$3:1 loss=${5:-1} bytes=16\n$G1234"
}

# dense SOCKET ITERATION: the dense parameters.
dense() {
	printf 'pull worker=x generation=1 %s iteration=%s dense=1 rows=0\n' "$ME" "$2" |
		socat -t 300 - "UNIX-CONNECT:$1" | tail -c +1 | sed -n '3,$p' >model
	head -c "$((${3:-4} * 4))" model | od -An -v -tf4 | xargs
}

@test "help, version, usage" {
	run ps-server --help
	[ "$status" -eq 0 ]
	[[ $output == *"usage: ps-server"*"Deadlines: "* ]]
	local args
	for args in "" "-s x" "-s x --id ps0" "-s x --id a/b --layout d4" "-s x --id ps0 --layout d4 --part 2/2" \
		"-s x --id ps0 --layout d4 --part 0/2" "-s x --id ps0 --layout d4 --sync ssp" \
		"-s x --id ps0 --layout d4 --part 1/2 --shards y" "-s x --id p --layout d4 --lr 0" \
		"-s x --id ps0 --layout d4 --sync asp --backup 1" "-s x --id ps0 --layout d4 more" \
		"-s x --id ps0 --layout d4 --sync asp --announce at-once" \
		"-s x --id ps0 --layout d4 --join" "-s x --id p --part 1/2 --join --restore y" \
		"-s x --id p --part 1/2 --layout d4 --join --take-over" \
		"-s x --id p --part 1/2 --layout d4 --standby --take-over" \
		"-s x --id p --part 1/2 --layout d4 --far" \
		"-s x --id p --part 1/2 --layout d4 --join --map-version 2" \
		"-s x --id p --layout d4 --map-version 0"; do
		run ps-server $args
		[ "$status" -eq 64 ] || { echo "$args: $status $output"; return 1; }
	done
	run ps-server -s x --id ps0 --layout none
	[ "$status" -eq 66 ]
	run ps-server -s x --id ps0 --layout d4 --include none
	[ "$status" -eq 66 ]
	[[ $output == *none:*"--include"* ]]
	printf 'layout version=1 seed=0\ntensor name=a rows=none cols=1 init=zero scale=0\n' >bad
	run ps-server -s x --id ps0 --layout bad
	[ "$status" -eq 65 ]
	[[ $output == *bad:2* ]]
}

@test "one worker by hand: join, pull, push, and the model has moved" {
	server ps0 --layout d4w2 --optimizer sgd --lr 0.5
	{
		printf 'join worker=w0 generation=1 %s\n' "$ME"
		printf 'pull worker=w0 generation=1 %s iteration=0 dense=1 rows=1 bytes=4\n\5\0\0\0' "$ME"
		printf 'push worker=w0 generation=1 %s sequence=1 iteration=0 count=2 dense=1 rows=1 ranges=0:0:2 loss=1.5 bytes=28\n' "$ME"
		printf '%b' "$G1234" '\5\0\0\0' '\0\0\x80\x3f\0\0\0\x40'
		printf 'pull worker=w0 generation=1 %s iteration=1 dense=1 rows=1 bytes=4\n\5\0\0\0stat\nmembers\n' "$ME"
	} | socat -t 300 - UNIX-CONNECT:ps0.sock >out
	run grep -aE '^(paceline|ok|stat|member)' out
	[ "${lines[0]}" = "paceline role=ps-server version=1 id=ps0 part=0/1 lead=1 sync=bsp incarnation=1 iteration=0 dense-begin=0 dense=4 width=2 boot=$(cat /proc/sys/kernel/random/boot_id) map=1" ]
	[ "${lines[1]}" = "ok iteration=0 members=1" ]
	grep -aq 'ok iteration=1 applied=1$' out
	grep -aq 'model iteration=1 dense=4 rows=1 width=2 bytes=24$' out
	grep -aq 'stat id=ps0 part=0/1 iteration=1 incarnation=1 dense=4 rows=1 staged=0 pushes=1 pulls=2 diverged=0 bounded=0 boot=[^ ]* map=1 .*dense-bytes=16 row-bytes=12 rows-pulled=[0-9]* rows-pushed=1 .*members=1 balances=0 balance-us=0 settles=0 settle-us=0$' out
	grep -aq 'member worker=w0 generation=1 iteration=1 state=active owes=push pushes=1 samples=2 size=2$' out
	[ "$(dense ps0.sock 1)" = "-0.25 -0.5 -0.75 -1" ]
}

@test "--hung: a member that keeps its connection and does not move is let go of; it may come back" {
	server ps0 --layout d4 --optimizer sgd --lr 1 --hung 10
	join a ps0.sock w0
	answered a 'ok iteration=0 members=1'
	push a w0 1 0
	answered a 'iteration=1 applied=1'
	join b ps0.sock w1
	wait_for 'ask ps0.sock members | grep -q joining'
	push a w0 2 1
	answered a 'iteration=2 applied=1'
	answered b 'ok iteration=2 members=2'
	# w1 says no more. w0 owes nothing once it has pushed, however long that takes.
	push a w0 3 2
	wait_for '[ "$(ask ps0.sock members | grep "worker=w0" | field owes)" = "" ]'
	answered a 'iteration=3 applied=1'
	grep -q 'w1 has owed a push for .* s: it is dropped, and units no longer wait for it' ps0.err
	[ "$(ask ps0.sock members | grep -c '^member')" = 1 ]
	push b w1 1 2
	answered b 'err code=fenced'
	tell b "join worker=w1 generation=2 $ME\n"
	wait_for 'ask ps0.sock members | grep -q joining'
	push a w0 4 3
	answered b 'ok iteration=4 members=2'
	[ "$(dense ps0.sock 4)" = "-4 -8 -12 -16" ]
}

@test "BSP: one step with the mean over all samples of all members; the answer waits for them" {
	server ps0 --layout d4 --optimizer sgd --lr 1
	join a ps0.sock w0
	answered a 'ok iteration=0 members=1'
	join b ps0.sock w1
	wait_for 'ask ps0.sock members | grep -q joining'
	push a w0 1 0
	answered a 'ok iteration=1 applied=1'
	answered b 'ok iteration=1 members=2'
	push a w0 2 1 1
	wait_for 'ask ps0.sock stat | grep -q "iteration=1 .*staged=1"'
	push b w1 1 1 3
	answered a 'ok iteration=2 applied=1'
	answered b 'ok iteration=2 applied=1'
	# -(1 2 3 4), then -2*(1 2 3 4)/4
	[ "$(dense ps0.sock 2)" = "-1.5 -3 -4.5 -6" ]
}

@test "--naive-mean: the mean of the workers' means, in all parts" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1 --naive-mean
	server ps0 --part 0/2 --layout d8 --optimizer sgd --lr 1 --naive-mean --servers "$T/ps1.sock"
	open c ps1.sock
	join a ps0.sock w0
	answered a 'ok iteration=0 members=1'
	# The lead comes last: what it commits must be staged.
	push c w0 1 0 1
	wait_for '[ "$(grep -ac staged=1 c.answers)" = 1 ]'
	push a w0 1 0 1
	answered a 'ok iteration=1 applied=1'
	join b ps0.sock w1
	wait_for 'ask ps0.sock members | grep -q joining'
	push c w0 2 1 1
	wait_for '[ "$(grep -ac staged=1 c.answers)" = 2 ]'
	push a w0 2 1 1
	answered b 'ok iteration=2 members=2'
	push c w0 3 2 1
	push c w1 1 2 3
	wait_for '[ "$(grep -ac staged=1 c.answers)" = 4 ]'
	push a w0 3 2 1
	push b w1 1 2 3
	answered a 'ok iteration=3 applied=1'
	# -2*(1 2 3 4), then half of 1 + 1/3 of it
	[ "$(dense ps0.sock 3)" = "-2.6666667 -5.3333335 -8 -10.666667" ]
	[ "$(dense ps1.sock 3)" = "-2.6666667 -5.3333335 -8 -10.666667" ]
}

@test "a worker that disconnects leaves the barrier at once, and its push is not applied" {
	server ps0 --layout d4 --optimizer sgd --lr 1
	join a ps0.sock w0
	answered a 'members=1'
	join b ps0.sock w1
	join c ps0.sock w2
	wait_for '[ "$(ask ps0.sock members | grep -c joining)" = 2 ]'
	push a w0 1 0
	answered b 'iteration=1 members=3'
	answered c 'iteration=1 members=3'
	push b w1 1 1
	wait_for 'ask ps0.sock stat | grep -q staged=1'
	hang_up b
	wait_for 'ask ps0.sock stat | grep -q "staged=0.*members=2"'
	push a w0 2 1
	hang_up c
	answered a 'ok iteration=2 applied=1'
	[ "$(dense ps0.sock 2)" = "-2 -4 -6 -8" ]
}

@test "a push said twice is acknowledged and not applied; old names are fenced" {
	server ps0 --layout d4 --optimizer sgd --lr 1
	join a ps0.sock w0
	push a w0 5 0
	push a w0 5 0
	push a w0 4 1
	answered a 'ok iteration=1 applied=1$'
	wait_for '[ "$(grep -ac repeated=1 a.answers)" = 2 ]'
	[ "$(dense ps0.sock 1)" = "-1 -2 -3 -4" ]
	run ask ps0.sock "fence worker=w0 generation=1" "join worker=w0 generation=1 $ME" \
		"join worker=w0 generation=2 incarnation=0" "join worker=w0 generation=2 $ME"
	[ "${lines[0]}" = ok ]
	[[ ${lines[1]} == "err code=fenced"* ]]
	[[ ${lines[2]} == "err code=fenced"* ]]
	[ "${lines[3]}" = "ok iteration=1 members=1" ]
	push a w0 6 1
	answered a 'err code=fenced'
}

@test "what a client sends is checked; the place is named; the server goes on" {
	server ps0 --layout d4w2 --optimizer sgd --lr 1
	local p="push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1"
	{
		printf 'join worker=w0 generation=1 %s\n' "$ME"
		printf '%s dense=1 rows=0 bytes=12\n' "$p"; printf '123456789012'
		printf '%s dense=0 rows=2 bytes=24\n' "$p"; printf '\1\0\0\0\1\0\0\0'; printf '%016d' 0
		printf '%s dense=0 rows=4294967295\n' "$p"
		printf '%s dense=0 rows=18446744073709551615\n' "$p"
		printf '%s dense=0 rows=0 ranges=1:2\n' "$p"
		printf '%s dense=0 rows=0 ranges=1:2:3 loss=nan\n' "$p"
		printf 'join worker=w0 generation=1 %s\n' "$ME" # it was put out
		printf '%s dense=0 rows=0 ranges=1:2:3 loss=\n' "$p"
		printf 'join worker=w0 generation=1 %s\n' "$ME"
		printf '%s dense=0 rows=0 ranges=1:2:3 loss=x\n' "$p"
		printf '%s dense=0 rows=0 ranges=1:2:3 loss=-1e31\n' "$p"
		printf 'join worker=w0 generation=1 %s\n' "$ME"
		printf 'push worker=w0 generation=1 %s sequence=1 iteration=7 count=1 dense=0 rows=0\n' "$ME"
		printf 'pull worker=w0 generation=1 %s iteration=0 dense=1 rows=3 bytes=4\n1234' "$ME"
		printf 'pull worker=w0 generation=1 %s iteration=0 dense=1 rows=0 into-offset-bytes=0 into-bytes=16\n' "$ME"
		printf 'pull worker=../x generation=1 %s iteration=0 dense=1 rows=0\n' "$ME"
		printf 'join worker=w0 generation=0 %s\njoin worker=w0\nnonsense\n' "$ME"
		printf 'act bytes=6\nrubbis'
		printf 'cut path=\nwatch every=soon\nstat\n'
	} | socat -t 300 - UNIX-CONNECT:ps0.sock | tail -n +2 >out
	run cat out
	local want=('ok iteration=0' 'err code=bad-request*12 bytes*' 'err code=bad-request*1 is there twice*' \
		'err code=bad-request*' 'err code=bad-request*18446744073709551615*' 'err code=bad-request*1:2*' \
		'err code=diverged*' 'ok iteration=0' 'err code=diverged*' 'ok iteration=0' \
		'err code=bad-request*x*' \
		'err code=diverged*worker w0, iteration 0: the loss*beyond 1e30' 'ok iteration=0' \
		'err code=bad-request*7 is not open*' 'err code=bad-request*4 bytes*' \
		'err code=bad-request*into*' 'err code=bad-request*' 'err code=bad-request*' \
		'err code=bad-request*' 'err code=unknown-request*' 'err code=bad-request*' \
		'err code=bad-request*' 'err code=bad-request*' 'stat *staged=0*' ok)
	local i
	for i in "${!want[@]}"; do
		[[ ${lines[$i]} == ${want[$i]}* ]] || { echo "$i: ${lines[$i]} is not ${want[$i]}"; cat out; return 1; }
	done
	printf 'push worker=w0 generation=1' | socat -t 1 - UNIX-CONNECT:ps0.sock >half || true
	run ask ps0.sock stat
	[[ ${lines[0]} == stat* ]]
}

@test "a gradient that is not finite is refused by whoever gets it, and nothing is kept" {
	server ps1 --part 1/2 --layout d8w2
	server ps0 --part 0/2 --layout d8w2 --servers ps1.sock
	local s value head="push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 dense=1"
	# NaN, inf, -inf: in the dense range's last place, in a row's.
	for value in '\0\0\xc0\x7f' '\0\0\x80\x7f' '\0\0\x80\xff'; do
		for s in ps0 ps1; do
			{
				printf 'join worker=w0 generation=1 %s\n' "$ME"
				printf '%s rows=0 bytes=16\n' "$head"
				printf '%012d' 0
				printf '%b' "$value"
				printf 'join worker=w0 generation=1 %s\n' "$ME" # it was put out
				printf '%s rows=1 bytes=28\n%016d' "$head" 0
				if [ $s = ps0 ]; then printf '\2\0\0\0'; else printf '\1\0\0\0'; fi
				printf '%04d%b' 0 "$value"
			} | socat -t 300 - "UNIX-CONNECT:$s.sock" >out
			[ "$(grep -ac '^err code=diverged' out)" = 2 ] || { cat out; return 1; }
			run ask $s.sock stat
			[[ $output == *staged=0* ]]
		done
	done
}

# all_finite DIR: a checkpoint that is whole, and what it exports.
all_finite() {
	local head
	ckpt verify "$1"
	ckpt export "$1" "$1.safetensors"
	head=$(od -An -t u8 -N 8 "$1.safetensors")
	od -An -v -t f4 -w4 -j $((head + 8)) "$1.safetensors" >values
	[ -s values ]
	not grep -qi -e nan -e inf values
}

@test "an outlier of 1e30: refused with its place; what follows moves all parameters" {
	local optimizer f30='\xca\xf2\x49\x71' f17='\xbc\xa2\xb1\x5b' before after i
	for optimizer in sgd momentum adagrad adam ftrl add; do
		server $optimizer --layout d4w1 --optimizer $optimizer --lr 0.05
		join $optimizer $optimizer.sock w0
		answered $optimizer 'ok iteration=0'
		push $optimizer w0 1 0
		answered $optimizer 'ok iteration=1 applied=1'
		tell $optimizer "push worker=w0 generation=1 $ME sequence=2 iteration=1 count=1 dense=1 rows=0 ranges=2:2:1 bytes=16\n\0\0\0\0\0\0\0\0\0\0\0\0$f30"
		answered $optimizer 'err code=diverged'
		grep -aq 'worker w0, iteration 1: the gradient of parameter dense\[3\] is 1e+30, beyond 1e+18' $optimizer.answers
		tell $optimizer "join worker=w0 generation=1 $ME\n" # nobody waits for it before
		tell $optimizer "push worker=w0 generation=1 $ME sequence=3 iteration=1 count=1 dense=0 rows=1 ranges=2:2:1 bytes=8\n\7\0\0\0$f30"
		answered $optimizer 'the gradient of key 7 is 1e.30'
		grep -q 'a push of w0 in iteration 1 is refused: the gradient of parameter dense.3. is 1e+30' $optimizer.err
		run ask $optimizer.sock stat
		[[ $output == *"iteration=1 "*"staged=0 "*" diverged=2 bounded=0 "* ]]
		# Within 1e18, but no value of any reason: applied, held at a bound, told, counted.
		tell $optimizer "join worker=w0 generation=1 $ME\n"
		tell $optimizer "push worker=w0 generation=1 $ME sequence=4 iteration=1 count=1 dense=1 rows=0 ranges=2:2:1 bytes=16\n\0\0\0\0\0\0\0\0\0\0\0\0$f17"
		answered $optimizer 'ok iteration=2 applied=1'
		before=$(dense $optimizer.sock 2)
		for i in 2 3 4; do
			push $optimizer w0 $((i + 3)) $i
			answered $optimizer "ok iteration=$((i + 1)) applied=1"
		done
		after=$(dense $optimizer.sock 5)
		not grep -qi -e nan -e inf <<<"$before $after"
		# sgd and add have thrown the last one far away, as they were told to.
		[ "${before% *}" != "${after% *}" ]
		case $optimizer in
		adagrad | adam | ftrl)
			[ "${before##* }" != "${after##* }" ] || { echo "$optimizer: $before, $after"; return 1; }
			grep -q 'iteration 1: 1 values were held at a bound, 1 so far in 1 iterations; the largest gradients are those of w0' $optimizer.err
			[[ $(ask $optimizer.sock stat) == *" bounded=1 "* ]]
			;;
		esac
		run ask $optimizer.sock "cut path=$T/ck-$optimizer"
		[[ $output == "ok path="* ]]
		all_finite ck-$optimizer
		hang_up $optimizer
	done
}

@test "two servers: the part is staged, applied by the lead's word; pulls of the next iteration wait" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1
	server ps0 --part 0/2 --layout d8 --optimizer sgd --lr 1 --servers ps1.sock
	open b ps1.sock
	open c ps1.sock
	tell c "pull worker=x generation=1 $ME iteration=1 dense=1 rows=0\n"
	join a ps0.sock w0
	answered a 'ok iteration=0'
	push b w0 1 0
	answered b 'ok staged=1'
	run ask ps1.sock stat
	[[ $output == *"iteration=0"*"staged=1"* ]]
	push a w0 1 0
	answered a 'ok iteration=1 applied=1'
	answered c 'model iteration=1 dense=4'
	[ "$(dense ps1.sock 1)" = "-1 -2 -3 -4" ]
	[ "$(dense ps0.sock 1)" = "-1 -2 -3 -4" ]
	# A key of the other part is refused.
	run bash -c "printf 'pull worker=x generation=1 $ME iteration=0 dense=0 rows=1 bytes=4\n\\1\\0\\0\\0' | socat -t 300 - UNIX-CONNECT:ps1.sock"
	[[ $output == *"err code=bad-request"* ]]
	# A fence throws away what lies staged at the other part, too.
	push b w0 2 1
	wait_for '[ "$(grep -c staged=1 b.answers)" = 2 ]'
	run ask ps0.sock "fence worker=w0 generation=1"
	[ "${lines[0]}" = ok ]
	wait_for 'ask ps1.sock stat | grep -q staged=0'
	push b w0 3 1
	answered b 'err code=fenced'
}

@test "apply leaves before the lead's own part works: the slowest part is what a unit costs" {
	printf 'drag delay=3600\n' >drag
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1
	server ps0 --part 0/2 --layout d8 --optimizer sgd --lr 1 --servers ps1.sock --drag drag
	open b ps1.sock
	tell b "pull worker=w0 generation=1 $ME iteration=1 dense=1 rows=0\n"
	open c ps1.sock
	push c w0 1 0
	answered c 'ok staged=1'
	join a ps0.sock w0
	answered a 'ok iteration=0'
	push a w0 1 0
	answered b 'model iteration=1 dense=4' # the lead sleeps for an hour
}

@test "a push that a server lacks is refused alone, and shardd does not hear of it" {
	shards 8
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1
	server ps0 --part 0/2 --layout d8 --optimizer sgd --lr 1 --servers ps1.sock --shards shardd.sock
	local w p='dense=1 rows=0 loss=1 bytes=16\n'$G1234
	for w in w0 w1; do
		ask shardd.sock "hello worker=$w" "get worker=$w generation=1"
	done
	open b ps1.sock
	join a ps0.sock w0
	answered a 'ok iteration=0'
	join c ps0.sock w1
	wait_for 'ask ps0.sock members | grep -q joining'
	# The first unit is w0's alone; then both are members.
	tell b "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 $p"
	answered b 'ok staged=1'
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 ranges=0:0:1 $p"
	answered a 'ok iteration=1 applied=1'
	answered c 'ok iteration=1 members=2'
	# w1 sends to the lead alone, and something else to the server than to the lead.
	tell b "push worker=w0 generation=1 $ME sequence=2 iteration=1 count=1 $p"
	tell b "push worker=w1 generation=1 $ME sequence=2 iteration=1 count=2 $p"
	wait_for '[ "$(grep -c staged=1 b.answers)" = 3 ]'
	tell c "push worker=w1 generation=1 $ME sequence=2 iteration=1 count=1 ranges=1:2:1 $p"
	tell a "push worker=w0 generation=1 $ME sequence=2 iteration=1 count=1 ranges=0:1:1 $p"
	answered c 'err code=fenced'
	answered a 'ok iteration=2 applied=1'
	wait_for 'ask ps1.sock stat | grep -q "iteration=2.*staged=0"'
	grep -q 'w1: a server does not have its part of its push' ps0.err
	[ "$(dense ps0.sock 2)" = "-2 -4 -6 -8" ]
	[ "$(dense ps1.sock 2)" = "-2 -4 -6 -8" ]
	run ask shardd.sock stat
	[[ $output == *" samples-done=2 "* ]]
}

@test "what the lead holds stays staged, whatever its worker pushes" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1 --sync asp
	local n p='dense=1 rows=0 bytes=16\n'$G1234
	open b ps1.sock
	tell b "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 $p"
	local part='part worker=w0 generation=1 sequence=1 unit=0 count=1'
	local other='part worker=w0 generation=1 sequence=9 unit=0 count=1'
	tell b "hold $ME bytes=$((${#part} + ${#other} + 2))\n$part\n$other\n"
	wait_for 'grep -q "^missing worker=w0 generation=1 sequence=9" b.answers'
	for n in 5 6 7; do # out of the window of sequences, and of generations
		tell b "push worker=w0 generation=1 $ME sequence=$n iteration=0 count=1 $p"
		tell b "push worker=w0 generation=$n $ME sequence=1 iteration=0 count=1 $p"
	done
	tell b "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 dense=1 rows=0 bytes=16\n${G1234//[1-9a-f]/0}"
	tell b "apply $ME iteration=0 units=1 bytes=$((${#part} + 1))\n$part\n"
	wait_for 'grep -q "^ok iteration=1" b.answers'
	[ "$(dense ps1.sock 1)" = "-1 -2 -3 -4" ]
}

@test "what is held under a round is applied by it; a hold of an older round comes too late" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1 --sync asp
	local n part='part worker=w0 generation=1 sequence=%d unit=0 count=1\n'
	open b ps1.sock
	for n in 1 2; do tell b "push worker=w0 generation=1 $ME sequence=$n iteration=0 count=1 dense=1 rows=0 bytes=16\n$G1234"; done
	hold() { # ROUND SEQUENCE
		local line
		printf -v line "$part" "$2"
		tell b "hold $ME round=$1 bytes=${#line}\n$line"
	}
	hold 7 1
	hold 9 2
	hold 8 1
	wait_for 'grep -q "^err code=stale" b.answers'
	tell b "apply $ME iteration=0 units=1 held=8\n"
	wait_for 'grep -q "^err code=not-staged" b.answers'
	tell b "apply $ME iteration=0 units=1 held=9\napply $ME iteration=0 units=1 held=9\n"
	wait_for 'grep -q "^ok iteration=1 repeated=1" b.answers'
	[ "$(dense ps1.sock 1)" = "-1 -2 -3 -4" ]
	tell b "push worker=w0 generation=1 $ME sequence=3 iteration=1 count=1 dense=0 rows=0\n"
	hold 10 4 # a round with something missing can't be applied
	wait_for 'grep -q "^missing worker=w0 generation=1 sequence=4" b.answers'
	tell b "apply $ME iteration=1 units=1 held=10\n"
	wait_for '[ "$(grep -c "^err code=not-staged" b.answers)" -eq 2 ]'
}

@test "gradients that were summed on the way are held only if all of each sum are here" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1 --sync asp
	local own="iteration=0 count=1 dense=1 rows=0 bytes=16\n$G1234" w
	local none='iteration=0 count=1 dense=0 rows=0\n'
	part() { echo "part worker=$1 generation=1 sequence=1 unit=$2 count=1"; }
	held() { # UNITS MISSING: so many so far
		local lines=
		for w in 0 1 2; do lines+=$(part w$w "${1:w:1}")'\n'; done
		tell b "hold $ME bytes=$(printf %b "$lines" | wc -c)\n$lines"
		holds=$((holds + 1))
		wait_for '[ "$(grep -cx ok b.answers)" = $holds ]'
		[ "$(grep -c "^missing" b.answers)" = "$2" ]
	}
	holds=0
	open b ps1.sock
	tell b "push worker=w0 generation=1 $ME sequence=1 sum=77 sum-of=2 $own"
	tell b "push worker=w1 generation=1 $ME sequence=1 sum=77 sum-of=2 $none"
	tell b "push worker=w2 generation=1 $ME sequence=1 sum=79 sum-of=2 $own"
	held 012 3 # each a unit of its own
	held 000 6 # w2 is half of another sum
	tell b "push worker=w2 generation=1 $ME sequence=1 $own"
	tell b "push worker=w1 generation=1 $ME sequence=1 sum=78 sum-of=2 $none" # repeated, in another one
	held 001 8
	tell b "push worker=w1 generation=1 $ME sequence=1 $own"
	held 001 10
	tell b "push worker=w1 generation=1 $ME sequence=1 sum=77 sum-of=2 $none"
	held 001 10
	held 000 10 # w2 is in no sum
	tell b "apply $ME iteration=0 units=1 bytes=$(($(part w0 0 | wc -c) * 2))\n$(part w0 0)\n$(part w1 0)\n"
	wait_for 'grep -q "^ok iteration=1" b.answers'
	[ "$(dense ps1.sock 1)" = "-1 -2 -3 -4" ] # one step as large as both
}

@test "a pull behind a push waits until that is applied or thrown away" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1 --sync asp
	local pull="pull worker=w0 generation=1 $ME iteration=0 dense=0 rows=0 after"
	local part='part worker=w0 generation=1 sequence=1 unit=0 count=1'
	open a ps1.sock
	open b ps1.sock
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 dense=1 rows=0 bytes=16\n$G1234"
	answered a staged=1
	tell a "$pull=1\n"
	tell b "$pull=2\n"
	answered b 'model iteration=0'
	tell b "apply $ME iteration=0 units=1 bytes=$((${#part} + 1))\n$part\n"
	answered a 'model iteration=1'
	not grep -q 'model iteration=0' a.answers
	tell a "push worker=w0 generation=1 $ME sequence=2 iteration=1 count=1 dense=1 rows=0 bytes=16\n$G1234$pull=2\n"
	wait_for 'ask ps1.sock stat | grep -q " staged=1 .* pulls=3 "'
	run grep -c ^model a.answers
	[ "$output" = 1 ]
	tell b "throw worker=w0 generation=1 $ME\n"
	wait_for '[ "$(grep -c ^model a.answers)" = 2 ]'
}

@test "a push said again once it is applied is not staged again: a pull behind it is answered" {
	server ps0 --layout d4 --optimizer sgd --lr 1 --sync asp
	join a ps0.sock w0
	push a w0 1 0
	answered a 'ok iteration=1 applied=1$'
	push a w0 1 0
	answered a 'repeated=1'
	ask ps0.sock stat | grep -q ' staged=0 '
	tell a "pull worker=w0 generation=1 $ME iteration=1 dense=0 rows=0 after=1\n"
	answered a '^model iteration=1'
}

@test "a push without samples is in no unit: it does not stay staged, and a pull behind it is answered" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1 --sync asp
	server ps0 --part 0/2 --layout d8 --optimizer sgd --lr 1 --sync asp --servers ps1.sock
	local pull="pull worker=w0 generation=1 $ME iteration=0 dense=0 rows=0 after=1\n"
	open b ps1.sock
	tell b "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=0 dense=1 rows=0 bytes=16\n$G1234"
	answered b staged=1
	join a ps0.sock w0
	push a w0 1 0 0
	answered a 'ok iteration=0 applied=1$'
	ask ps0.sock stat | grep -q ' staged=0 '
	ask ps1.sock stat | grep -q ' staged=0 '
	tell a "$pull"
	tell b "$pull"
	answered a '^model iteration=0'
	answered b '^model iteration=0'
}

@test "a pull behind a push that newer ones have replaced is answered" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1 --sync asp
	local p="$ME iteration=0 count=1 dense=1 rows=0 bytes=16\n$G1234"
	open a ps1.sock
	open b ps1.sock
	tell a "push worker=w0 generation=1 sequence=1 $p"
	answered a staged=1
	tell b "pull worker=w0 generation=1 $ME iteration=0 dense=0 rows=0 after=1\n"
	wait_for 'ask ps1.sock stat | grep -q " pulls=1 "'
	not grep -q ^model b.answers
	tell a "push worker=w0 generation=1 sequence=5 $p"
	answered b '^model iteration=0'
}

@test "a push that the lead can't apply does not stay staged at the others" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1 --sync asp
	server ps0 --part 0/2 --layout d8 --optimizer sgd --lr 1 --sync asp --servers ps1.sock
	join a ps0.sock w0
	answered a members=1
	open b ps1.sock
	tell b "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 dense=1 rows=0 bytes=16\n$G1234"
	answered b staged=1
	ask ps1.sock stat | grep -q ' staged=1 '
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 dense=1 rows=0 loss=nan bytes=16\n$G1234"
	answered a 'err code=diverged'
	wait_for 'ask ps1.sock stat | grep -q " staged=0 "'
}

@test "a server of another iteration or part is refused by the lead" {
	server ps1 --part 1/2 --layout d8 --incarnation 2
	start ps0 ps-server -s ps0.sock --id ps0 --part 0/2 --layout d8 --servers ps1.sock
	ends "$PID" 75
	grep -q 'incarnation 2' ps0.err
	start ps0 ps-server -s ps0.sock --id ps0 --part 0/3 --layout d8 --servers ps1.sock,ps1.sock
	ends "$PID" 78
}

# shards N: a shardd with N samples, batches of 2.
shards() {
	start shardd shardd -s shardd.sock -j journal -n "$1" -b 2 -m 1
	SHARDD=$PID
	ready shardd.sock
}

@test "units are committed with shardd; a worker that it fenced is refused and not applied" {
	shards 8
	server ps0 --layout d4 --optimizer sgd --lr 1 --shards shardd.sock
	ask shardd.sock 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1'
	join a ps0.sock w0
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=2 dense=1 rows=0 ranges=0:0:2 loss=1 bytes=16\n$G1234"
	answered a 'ok iteration=1 applied=1'
	run ask shardd.sock stat
	[[ $output == *"samples-done=2"* ]]
	ask shardd.sock 'fail worker=w0'
	tell a "push worker=w0 generation=1 $ME sequence=2 iteration=1 count=2 dense=1 rows=0 ranges=1:2:2 loss=1 bytes=16\n$G1234"
	answered a 'err code=fenced'
	run ask shardd.sock stat
	[[ $output == *"samples-done=2"* ]]
	[ "$(dense ps0.sock 1)" = "-0.5 -1 -1.5 -2" ]
}

# other_boot PROGRAM ARG...: as if it ran on a machine of another boot. For `start`: it becomes the
# program.
other_boot() {
	[ -e boot.so ] || cc -shared -fPIC -O2 -o boot.so "$PACELINE_ROOT/tests/other-boot.c"
	echo 11111111-2222-3333-4444-555555555555 >boot_id
	exec env BOOT_ID="$T/boot_id" PACELINE_CONFINE=off LD_PRELOAD="$T/boot.so" \
		ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0" "$@"
}

# boot_of SOCKET: which boot it says that it lives in, or for shardd whose settles it did not wait for.
boot_of() { ask "$1" stat | field boot; }

@test "parts in one boot: settles need not be waited for; with a part of another boot they are" {
	local p='dense=1 rows=0 loss=1 bytes=16\n'$G1234 w here
	here=$(cat /proc/sys/kernel/random/boot_id)
	shards 8
	server ps1 --part 1/2 --layout d8
	server ps0 --part 0/2 --layout d8 --servers ps1.sock --shards shardd.sock
	[ "$(boot_of ps0.sock)" = "$here" ]
	[ "$(boot_of ps1.sock)" = "$here" ]
	[ -z "$(boot_of shardd.sock)" ]
	ask shardd.sock 'hello worker=w0' 'get worker=w0 generation=1' >/dev/null
	open b ps1.sock
	join a ps0.sock w0
	tell b "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 $p"
	answered b 'ok staged=1'
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 ranges=0:0:1 $p"
	answered a 'ok iteration=1 applied=1'
	[ "$(boot_of shardd.sock)" = "$here" ]
	# The same with a part that lives elsewhere, and with no part at all: who knows where it is.
	local way
	for way in far none; do
		kill "$SHARDD"
		ends "$SHARDD" 0
		rm -r journal b.in b.answers a.in a.answers
		shards 8
		ask shardd.sock 'hello worker=w0' 'get worker=w0 generation=1' >/dev/null
		if [ $way = far ]; then
			start far other_boot ps-server -s far.sock --id far --part 1/2 --layout d8
			ready far.sock
			[[ $(boot_of far.sock) == 11111111-* ]]
			server lead-far --part 0/2 --layout d8 --servers far.sock --shards shardd.sock
			open b far.sock
			tell b "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 $p"
			answered b 'ok staged=1'
			join a lead-far.sock w0
			tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 ranges=0:0:1 $p"
		else
			server lead-none --lead-only --shards shardd.sock
			open b lead-none.sock
			join a lead-none.sock w0
			tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1 ranges=0:0:1\n"
		fi
		answered a 'ok iteration=1 applied=1'
		[ -z "$(boot_of shardd.sock)" ]
	done
}

@test "rows that shardd does not know are refused, and nothing is applied" {
	shards 8
	server ps0 --layout d4 --shards shardd.sock
	ask shardd.sock 'hello worker=w0' 'get worker=w0 generation=1'
	join a ps0.sock w0
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=900 dense=1 rows=0 ranges=0:0:900 loss=1 bytes=16\n$G1234"
	answered a 'err code=fenced'
	grep -q 'w0: not all rows of its push are in its hand' ps0.err
	[ "$(dense ps0.sock 0)" = "0 0 0 0" ]
	run ask shardd.sock stat
	[[ $output == *"samples-done=0"* ]]
}

@test "shardd killed and started again: the settle is made once, nobody is fenced" {
	shards 40
	server ps0 --layout d4 --optimizer sgd --lr 1 --shards shardd.sock
	ask shardd.sock 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1'
	join a ps0.sock w0
	answered a 'ok iteration=0'
	kill -9 "$SHARDD"
	wait "$SHARDD" || true
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=2 dense=1 rows=0 ranges=0:0:2 loss=1 bytes=16\n$G1234"
	wait_for 'ask ps0.sock stat | grep -q staged=1'
	shards 40
	answered a 'ok iteration=1 applied=1'
	run ask shardd.sock stat
	[[ $output == *"samples-done=2"* ]]
}

@test "a lead whose incarnation is over ends with 75" {
	shards 8
	server ps0 --layout d4 --shards shardd.sock
	local lead=$PID
	ask shardd.sock 'save file=queue' 'load file=queue' 'hello worker=w0' 'get worker=w0 generation=1'
	join a ps0.sock w0
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=2 dense=1 rows=0 ranges=0:0:2 loss=1 bytes=16\n$G1234"
	ends "$lead" 75
	grep -q 'not in force any more' ps0.err
}

@test "a cut of all parts and the queue; restored in another number of parts, with its iteration" {
	shards 8
	server ps1 --part 1/2 --layout d8w1 --optimizer sgd --lr 1
	server ps0 --part 0/2 --layout d8w1 --optimizer sgd --lr 1 --servers ps1.sock \
		--shards shardd.sock --job demo
	ask shardd.sock 'hello worker=w0' 'get worker=w0 generation=1'
	open b ps1.sock
	join a ps0.sock w0
	local p="push worker=w0 generation=1 $ME sequence=1 iteration=0 count=2 dense=1 rows=0 ranges=0:0:2 loss=1 bytes=16\n$G1234"
	tell b "$p"
	answered b staged
	tell a "$p"
	answered a applied=1
	run ask ps0.sock "cut path=$T/checkpoints/000001" "cut path=$T/checkpoints/000002"
	[[ ${lines[0]} == "ok path=$T/checkpoints/000001 iteration=1 incarnation=1 stall="* ]]
	[[ ${lines[1]} == "err code=busy"* ]]
	run ask ps0.sock "cut path=$T/checkpoints/000001"
	[[ ${lines[0]} == "err code=cut"*"exists"* ]]
	[ "$(ls checkpoints/000001 | xargs)" = "MANIFEST layout part-0 part-1 shards" ]
	run ckpt verify checkpoints/000001
	[ "$status" -eq 0 ]
	grep -q 'job=demo iteration=1' checkpoints/000001/MANIFEST
	server q --restore checkpoints/000001 --incarnation 2
	run ask q.sock stat
	[[ $output == *"part=0/1 iteration=1 incarnation=2 dense=8"* ]]
	ME=incarnation=2
	[ "$(dense q.sock 1 8)" = "-0.5 -1 -1.5 -2 -0.5 -1 -1.5 -2" ]
}

@test "other slots: the parameters are restored with a warning; another layout is refused" {
	server ps0 --layout d4 --optimizer sgd --lr 1
	join a ps0.sock w0
	push a w0 1 0
	answered a applied=1
	run ask ps0.sock 'cut path=c1'
	[[ $output == "ok path=$T/c1 "* ]]
	server q --restore c1 --optimizer adam
	grep -q 'slots start anew' q.err
	[ "$(dense q.sock 1)" = "-1 -2 -3 -4" ]
	run ps-server -s r.sock --id r --restore c1 --layout d5
	[ "$status" -eq 78 ]
	run ps-server -s r.sock --id r --restore nowhere
	[ "$status" -eq 66 ]
	printf x >>c1/part-0
	run ps-server -s r.sock --id r --restore c1
	[ "$status" -eq 65 ]
}

@test "a checkpoint that can't be written is an error, leaves nothing, and training goes on" {
	noise 4000
	(
		ulimit -f 4
		exec ps-server -s ps0.sock --id ps0 --layout noise.layout
	) 2>ps0.err 3>&- &
	PIDS+=($!)
	ready ps0.sock
	run ask ps0.sock "cut path=$T/c/1" stat
	[[ ${lines[0]} == "err code=cut"* ]]
	[ ! -e c/1 ]
	[[ ${lines[1]} == stat* ]]
	run ask ps0.sock "cut path=$T/c/2//"
	[[ ${lines[0]} == "err code=cut"*"part-0: write"* ]]
	[ ! -e c/2 ]
	touch file
	run ask ps0.sock "cut path=$T/file/1" "join worker=w0 generation=1 $ME"
	[[ ${lines[0]} == "err code=cut"* ]]
	[ "${lines[1]}" = "ok iteration=0 members=1" ]
}

@test "a lost server fails the cut; a full disk too" {
	noise 4000000
	server ps1 --part 1/2 --layout noise.layout
	local other=$PID
	server ps0 --part 0/2 --layout noise.layout --servers ps1.sock
	mkdir full
	mount -t tmpfs -o size=1m none full 2>/dev/null || skip "no tmpfs here"
	run ask ps0.sock "cut path=$T/full/1"
	ls full >left
	umount full
	[[ ${lines[0]} == "err code=cut"* ]]
	[ ! -s left ]
	kill -STOP "$other"
	open a ps0.sock
	tell a "cut path=$T/2\n"
	wait_for '[ -e 2/part-0 ]'
	kill -9 "$other"
	answered a 'err code=cut'
	[ ! -e 2 ]
}

@test "ASP: nobody waits; SSP: who is ahead waits for the slowest" {
	server asp --layout d4 --optimizer sgd --lr 1 --sync asp
	join a asp.sock w0
	answered a members=
	join b asp.sock w1
	answered b members=2
	push a w0 1 0
	answered a 'ok iteration=1 applied=1'
	push a w0 2 0
	answered a 'ok iteration=2 applied=1'
	server ssp --layout d4 --optimizer sgd --lr 1 --sync ssp:1
	join c ssp.sock w0
	answered c members=
	join d ssp.sock w1
	answered d members=2
	push c w0 1 0
	answered c 'ok iteration=1 applied=1'
	push c w0 2 1
	wait_for 'ask ssp.sock stat | grep -q "iteration=2 .*staged=0"'
	run grep -c applied c.answers
	[ "$output" = 1 ]
	push d w1 1 0
	wait_for '[ "$(grep -c applied c.answers)" = 2 ]'
}

@test "--schedule adadelay: all parts step by the same delay; a restored server, a standby and an heir count on" {
	local args=(--layout d8 --sync asp --optimizer sgd --lr 12 --schedule adadelay --beta 1)
	local at="count=1 dense=1 rows=0 bytes=16" none='\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
	server ps1 --part 1/2 "${args[@]}"
	server ps0 --part 0/2 "${args[@]}" --servers ps1.sock
	open b ps1.sock
	join a ps0.sock w0
	answered a 'ok iteration=0'
	# stale SEQUENCE PULLED GRADIENTS
	stale() {
		tell b "push worker=w0 generation=1 $ME sequence=$1 iteration=0 $at\n$3"
		wait_for "[ \"\$(grep -c staged=1 b.answers)\" = $1 ]"
		tell a "push worker=w0 generation=1 $ME sequence=$1 iteration=0 ranges=$1:$1:1 loss=1 pulled=$2 $at\n$3"
		answered a "ok iteration=$1 applied=1"
	}
	stale 1 0 "$G1234" # 12/(1 + sqrt(1)) = 6
	[ "$(dense ps1.sock 1)" = "-6 -12 -18 -24" ]
	local ps1=${PIDS[0]}
	start standby ps-server -s ps1.sock --id ps1 --part 1/2 "${args[@]}" --standby
	local standby=$PID
	wait_for 'ask ps1.sock stat | grep -q " standby=in-force "'
	stale 2 1 "$none"
	stale 3 1 "$G1234" # 12/(1 + sqrt(3 + 1)) = 4
	[ "$(dense ps0.sock 3)" = "-10 -20 -30 -40" ]
	[ "$(dense ps1.sock 3)" = "-10 -20 -30 -40" ]
	ask ps0.sock "cut path=$T/checkpoints/000001" | grep '^ok path'
	kill -9 "$ps1"
	ended "$ps1"
	ready ps1.sock
	[ "$(dense ps1.sock 3)" = "-10 -20 -30 -40" ]
	PID=$standby
	heir ps1 --part 1/2 "${args[@]}"
	open d ps1.sock
	tell d "push worker=w0 generation=1 $ME sequence=4 iteration=0 $at\n$G1234"
	answered d staged=1
	tell a "push worker=w0 generation=1 $ME sequence=4 iteration=0 ranges=4:4:1 loss=1 pulled=3 $at\n$G1234"
	answered a 'ok iteration=4 applied=1' # 12/(1 + sqrt(4)) = 4
	[ "$(dense ps1.sock 4)" = "-14 -28 -42 -56" ]
	[ "$(dense ps0.sock 4)" = "-14 -28 -42 -56" ]
	server q --restore checkpoints/000001 --incarnation 2 "${args[@]}"
	ME=incarnation=2
	join c q.sock w0
	answered c 'ok iteration=3'
	tell c "push worker=w0 generation=1 $ME sequence=1 iteration=3 count=1 dense=1 rows=0 ranges=1:1:1 loss=1 pulled=3 bytes=32\n$G1234$G1234"
	answered c 'ok iteration=4 applied=1'
	[ "$(dense q.sock 4 8)" = "-14 -28 -42 -56 -14 -28 -42 -56" ]
}

@test "--schedule: what it refuses" {
	local wrong
	for wrong in '--schedule adadelay=--sync ssp or asp' '--sync asp --optimizer adam --schedule adadelay=adam has constant, step' \
		'--schedule sqrt=by themselves' '--optimizer sgd --schedule cosine=cosine needs steps' '--optimizer sgd --steps 3=is for the schedules' \
		'--optimizer ftrl --decay 1=is for sgd|momentum' \
		'--optimizer sgd --beta 2=is for the schedules' '--lead-only --schedule sqrt=--lead-only'; do
		run ps-server -s x --id ps0 --layout d4 ${wrong%%=*}
		[[ $status =~ ^(64|78)$ ]]
		[[ $output == *"${wrong#*=}"* ]]
	done
}

@test "a backup worker's late push is dropped, and its rows go back" {
	shards 8
	server ps0 --layout d4 --optimizer sgd --lr 1 --shards shardd.sock --backup 1
	ask shardd.sock 'hello worker=w0' 'hello worker=w1' 'get worker=w0 generation=1' \
		'get worker=w1 generation=1' 'get worker=w0 generation=1'
	join a ps0.sock w0
	answered a members=
	join b ps0.sock w1
	wait_for 'ask ps0.sock members | grep -q joining'
	local rest="count=2 dense=1 rows=0"
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 $rest ranges=0:0:2 loss=1 bytes=16\n$G1234"
	answered b members=2
	tell a "push worker=w0 generation=1 $ME sequence=2 iteration=1 $rest ranges=2:4:2 loss=1 bytes=16\n$G1234"
	answered a 'ok iteration=2 applied=1'
	tell b "push worker=w1 generation=1 $ME sequence=1 iteration=1 $rest ranges=1:2:2 loss=1 bytes=16\n$G1234"
	answered b 'ok iteration=2 dropped=1'
	run ask shardd.sock stat
	[[ $output == *"doing=0"*"samples-done=4"* ]]
	[ "$(dense ps0.sock 2)" = "-1 -2 -3 -4" ]
}

# announce NAME WORKER SEQUENCE RANGES PULLED [SIZES]
announce() {
	tell "$1" "announce worker=$2 generation=1 $ME sequence=$3 iteration=0 count=2 ranges=$4 pulled=$5 sizes=${6-16}\n"
}

@test "a push that would be too stale is dropped when it is announced; who goes with a grant keeps nobody waiting" {
	local w rest="iteration=0 count=2 dense=1 rows=0"
	local long=60000000 # bytes: a promise lasts longer than this test
	shards 12
	server ps0 --layout d4 --optimizer sgd --lr 1 --shards shardd.sock --sync asp --delay-max 1 --announce at-once
	for w in w0 w1 w2; do
		ask shardd.sock "hello worker=$w" "get worker=$w generation=1" >/dev/null
		join $w ps0.sock $w
		answered $w members=
	done
	announce w0 w0 1 0:0:2 0 $long
	answered w0 '^ok granted=1$'
	announce w0 w0 1 0:0:2 0 $long
	answered w0 '^ok granted=1 repeated=1$'
	announce w1 w1 1 1:2:2 0 $long
	answered w1 '^ok granted=1$'
	announce w2 w2 1 2:4:2 0 # the third from version 0
	answered w2 '^ok iteration=0 dropped=1$'
	run ask ps0.sock members stat
	[[ ${lines[0]} == *" worker=w0 "*" owes=push "*" grant=given" ]]
	[[ ${lines[2]} == *" worker=w2 "*" pushes=1 "*" stale=1" ]]
	[[ $output == *" delay-max=1 spared-bytes=16"* ]]
	run ask shardd.sock stat 'get worker=w2 generation=1'
	[[ $output == *" doing=2 "* ]]
	[[ $output == *"shard id=3 "*" begin=6 "* ]]
	# It must not overtake the other two: the second of them would be too stale.
	tell w2 "push worker=w2 generation=1 $ME sequence=2 $rest ranges=3:6:2 pulled=1 loss=1 bytes=16\n$G1234"
	wait_for 'ask ps0.sock stat | grep -q " staged=1 "'
	[[ $(ask ps0.sock stat) == *" iteration=0 "* ]]
	hang_up w0
	answered w2 '^ok iteration=1 applied=1$'
	tell w1 "push worker=w1 generation=1 $ME sequence=1 $rest ranges=1:2:2 pulled=0 loss=1 bytes=16\n$G1234"
	answered w1 '^ok iteration=2 applied=1$'
	run ask ps0.sock stat
	[[ $output == *" staged=0 "*" delay-most=1 stale=1 "* ]]
	[ "$(dense ps0.sock 2)" = "-1 -2 -3 -4" ]
}

@test "announcements that are late, unknown or bad" {
	local sizes
	server ps0 --layout d4 --sync asp --delay-max 1 --announce at-once
	join a ps0.sock w0
	answered a members=
	announce a w9 1 0:0:2 0
	answered a '^err code=fenced.*not a member'
	for sizes in , 1,, x 1,-1 99999999999999999999999999 5000000000000; do
		announce a w0 1 0:0:2 0 $sizes
	done
	wait_for '[ "$(grep -c "^err code=bad-request.*sizes" a.answers)" = 6 ]'
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=2 dense=1 rows=0 pulled=0 loss=1 bytes=16\n$G1234"
	answered a '^ok iteration=1 applied=1$'
	announce a w0 1 '' 0 # it is in the model
	answered a '^ok iteration=1 applied=1 repeated=1$'
	announce a w0 2 '' 0 '' # of no bytes
	announce a w0 3 '' 0 # another one: the first is forgotten
	wait_for '[ "$(grep -c "^ok granted=1$" a.answers)" = 2 ]'
	server plain --layout d4 --sync asp --delay-max 1
	join b plain.sock w0
	answered b members=
	announce b w0 1 '' 0
	answered b '^err code=bad-request.*nothing is announced here'
}

# links NAME LINES: as the supervisor says them.
links() {
	tell "$1" "links bytes=$(printf %b "$2" | wc -c)\n$2"
}

@test "by links: what is shorter goes first, one after the other; who waits or goes keeps nobody waiting" {
	local w
	truncate -s $((64 << 20)) schedules # full: what comes first still goes there
	echo >>schedules
	server ps0 --layout d4 --optimizer sgd --lr 1 --sync asp --delay-max 5 --announce by-links \
		--schedule-log schedules
	open s ps0.sock
	# Rates at which a promise lasts 9 s at least.
	links s 'link host=h0 in=5\nlink host=h1\nlink host=h2\nserver id=ps0 host=h0\nworker id=w0 host=h1\nworker id=w1 host=h1\nworker id=w2 host=h2\n'
	answered s '^ok$'
	[[ $(ask ps0.sock stat) == *" links=3"* ]]
	links s 'link host=h0\nworker id=w0 host=h7\n'
	answered s '^err code=bad-request.*there is no link of host h7'
	links s 'what host=h0\n'
	answered s '^err code=bad-request.*what is not known'
	[[ $(ask ps0.sock stat) == *" links=3"* ]] # nothing changed
	for w in w0 w1 w2 w3; do
		join $w ps0.sock $w
		answered $w members=
	done
	announce w0 w0 1 '' 0 1000000 # the port is free
	answered w0 '^ok granted=1$'
	announce w1 w1 1 '' 0 500000
	wait_for 'ask ps0.sock members | grep -q "worker=w1 .* grant=waits"'
	announce w2 w2 1 '' 0 10000
	wait_for 'ask ps0.sock members | grep -q "worker=w2 .* grant=waits"'
	announce w3 w3 1 '' 0 20000
	wait_for 'ask ps0.sock members | grep -q "worker=w3 .* grant=waits"'
	announce w3 w3 1 '' 0 20000
	tell w0 "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=2 dense=1 rows=0 pulled=0 loss=1 bytes=16\n$G1234"
	answered w0 '^ok iteration=1 applied=1$'
	answered w2 '^ok granted=1$'
	# The second schedule by which something was sent: the same comes out again.
	tail -c 4096 schedules.1 | tr -d '\0' | cat - schedules | awk '/^schedule /{n++} n==2' >state
	[ "$(wc -c <schedules)" -lt 10000 ]
	# The first is w0 alone, all of whose hosts are known.
	tail -c 4096 schedules.1 | tr -d '\0' | cat - schedules | awk '/^schedule /{n++} n==1' >first
	grep -q '^link host=h2$' first
	not grep -q 'host=unknown' first
	run -0 --separate-stderr xfer-sched --margin 25 <state
	[[ ${lines[0]} == "send id=w2 from=h2 to=h0 start=0 end=2000 "* ]]
	[[ ${lines[1]} == "send id=w3 from=unknown to=h0 start=2000 end=6000 "* ]]
	[[ ${lines[2]} == "send id=w1 from=h1 to=h0 start=6000 end=106000 "* ]]
	run ask ps0.sock members
	[[ $output == *" worker=w1 "*" grant=waits"*" worker=w2 "*" grant=given"*" worker=w3 "*" grant=waits"* ]]
	hang_up w2
	answered w3 '^ok granted=1$'
	hang_up w3
	answered w1 '^ok granted=1$'
	# Nothing is known any more: all at once.
	links s ''
	wait_for '[[ $(ask ps0.sock stat) == *" links=0"* ]]'
	announce w0 w0 2 '' 1 100000
	wait_for '[ "$(grep -c "^ok granted=1$" w0.answers)" = 2 ]'
}

@test "actions reach every worker with one close, and those who join later" {
	server ps0 --layout d4
	join a ps0.sock w0
	answered a members=
	join b ps0.sock w1
	wait_for 'ask ps0.sock members | grep -q joining'
	local act='action kind=adjust-bs id=w1 size=7 accum=1 reason=ratio%201.7'
	run bash -c "printf 'act bytes=%d\n%s\n' $((${#act} + 1)) '$act' | socat -t 300 - UNIX-CONNECT:ps0.sock"
	[ "${lines[1]}" = "ok iteration=1" ]
	push a w0 1 0
	answered a 'ok iteration=1 applied=1'
	[ "$(grep -a -B1 applied=1 a.answers | head -1)" != "$act" ] # it is w1's
	answered b members=2
	[ "$(grep -a -B1 members=2 b.answers | head -1)" = "$act" ]
}

@test "an action that no worker could obey is refused" {
	server ps0 --layout d4
	local act
	for act in 'kind=adjust-bs id=w0' 'kind=adjust-bs id=w0 size=-1' 'kind=adjust-bs id=w0 size=0' \
		'kind=adjust-bs id=w0 size=8 accum=0' 'kind=adjust-lr id=w0 scale=nan'; do
		run -0 bash -c "printf 'act bytes=%d\n%s\n' $((${#act} + 8)) 'action $act' | socat -t 300 - UNIX-CONNECT:ps0.sock"
		[[ ${lines[1]} == "err code=bad-request"* ]]
	done
}

@test "watch: rows at 1, 2, 4, 8 with the mean progressive loss" {
	server ps0 --layout d4
	open w ps0.sock
	tell w 'watch every=1000\n'
	wait_for 'ask ps0.sock counters | grep -q "verb=watch requests=1"'
	join a ps0.sock w0
	local i
	for i in 1 2 3 4 5; do
		push a w0 $i $((i - 1)) 1
		answered a "ok iteration=$i "
	done
	answered w 'row iteration=4'
	run grep -ac '^row' w.answers
	[ "$output" = 3 ]
	grep -aqE 'row iteration=4 loss=1 samples=4 at=[0-9.]+ time=[0-9.]+ members=1' w.answers
}

@test "end waits for finish" {
	server ps0 --layout d4
	open a ps0.sock
	tell a "end worker=w0 generation=1 $ME\n"
	wait_for 'ask ps0.sock members | grep -q "worker=w0 .*state=ended"'
	run ask ps0.sock finish
	[ "${lines[0]}" = ok ]
	answered a '^ok$'
}

@test "batch processing times are reported; a drag makes this server slow" {
	start monitor bpt-monitor -s monitor.sock
	ready monitor.sock
	printf 'drag delay=0.3\n' >drag
	server ps0 --layout d4 --monitor monitor.sock --report-every 2 --drag drag
	join a ps0.sock w0
	push a w0 1 0 4
	answered a 'iteration=1 applied'
	push a w0 2 1 4
	answered a 'iteration=2 applied'
	wait_for 'ask monitor.sock snapshot | grep -q "role=server id=ps0"'
	run ask monitor.sock snapshot
	[[ $output =~ "id=ps0".*" size=4 short="([0-9.]+) ]]
	[ "$(awk "BEGIN { print (${BASH_REMATCH[1]} >= 0.3) }")" = 1 ]
}

@test "reports at units 1, 2, 4, 8, then by number or by seconds, whichever comes first" {
	printf 'paceline role=bpt-monitor version=1\n' >greeting
	start monitor socat UNIX-LISTEN:mon.sock,fork "SYSTEM:cat greeting; exec grep --line-buffered -v ^clock >>bpt.log"
	wait_for '[ -S mon.sock ]'
	local i every
	for every in "5 0" "1000000 0.001"; do
		rm -f bpt.log
		server ps0 --layout d4 --monitor mon.sock --report-every "${every% *}" --report-seconds "${every#* }"
		wait_for '[ -e bpt.log ]'
		join a ps0.sock w0
		for i in $(seq 14); do
			push a w0 "$i" $((i - 1)) "$i"
			answered a "ok iteration=$i applied=1"
		done
		kill "$PID"
		ends "$PID" 0
		hang_up a
		rm a.answers
		wait_for 'grep -q iter=13 bpt.log'
		if [ "${every#* }" = 0 ]; then
			[ "$(sed 's/.*iter=\([0-9]*\) .* size=\([0-9]*\) .* count=\([0-9]*\)\( own-.*\)\?$/\1:\2:\3/' bpt.log | xargs)" = \
				"1:1:1 2:2:1 4:4:2 8:7:4 13:11:5" ] ||
				{ cat bpt.log; return 1; }
		else
			[ "$(wc -l <bpt.log)" -ge 10 ]
		fi
	done
}

@test "a second instance, SIGTERM, kill -9 and again" {
	server ps0 --layout d4
	run ps-server -s ps0.sock --id ps0 --layout d4
	[ "$status" -eq 75 ]
	kill -TERM "$PID"
	ends "$PID" 0
	[ ! -e ps0.sock ]
	server ps0 --layout d4
	kill -9 "$PID"
	wait "$PID" || true
	server ps0 --layout d4
	run ask ps0.sock stat
	[[ ${lines[0]} == stat* ]]
}

@test "SIGTERM while everything waits: a push, a join, pulls, a watch, an end, a cut" {
	noise 2000
	server ps1 --part 1/2 --layout noise.layout
	local other=$PID
	server ps0 --part 0/2 --layout noise.layout --servers ps1.sock
	local c
	for c in a b c d e; do open $c ps0.sock; done
	open f ps1.sock
	tell a "join worker=w0 generation=1 $ME\n"
	answered a members=1
	tell b "join worker=w1 generation=1 $ME\n"
	tell c "pull worker=w1 generation=1 $ME iteration=9 dense=1 rows=0\nwatch\n"
	tell d "end worker=w2 generation=1 $ME\n"
	tell f "pull worker=w1 generation=1 $ME iteration=9 dense=1 rows=0\n"
	tell f "push worker=w1 generation=1 $ME sequence=1 iteration=9 count=1 dense=0 rows=0\n"
	wait_for 'ask ps0.sock members | grep -q w2 && ask ps1.sock stat | grep -q pushes=1'
	kill "$other"
	ends "$other" 0
	tell e "cut path=$T/c\n" # which waits for ps1
	wait_for '[ -e c ]'
	kill "$PID"
	ends "$PID" 0
	[ ! -e c ]
}

@test "a pull says how long it waited for its iteration, apply and drag included" {
	printf 'drag delay=0.3\n' >drag
	server ps0 --layout d4 --drag drag
	open b ps0.sock
	tell b "pull worker=w1 generation=1 $ME iteration=1 dense=0 rows=0\n"
	wait_for 'ask ps0.sock stat | grep -q pulls=1'
	join a ps0.sock w0
	push a w0 1 0
	answered b 'model iteration=1 '
	[[ $(grep -a ^model b.answers) =~ \ waited=([0-9.]+)\ bytes=0 ]]
	[ "$(awk "BEGIN { print (${BASH_REMATCH[1]} >= 0.3) }")" = 1 ]
	# One that comes when all is there did not wait, whatever it says about the time.
	local asked
	for asked in "" asked=0 asked=99999999999; do
		tell b "pull worker=w1 generation=1 $ME iteration=1 dense=0 rows=0 $asked\n"
	done
	tell b 'help\n'
	answered b 'verb name=help'
	[ "$(grep -ac waited= b.answers)" = 1 ]
}

@test "an apply said twice is done once: the lead asks again when its connection was lost" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1
	open b ps1.sock
	push b w0 1 0
	answered b staged=1
	local apply="apply $ME iteration=0 units=1 bytes=46\npart worker=w0 generation=1 sequence=1 unit=0\n"
	tell b "$apply$apply"
	answered b 'ok iteration=1$'
	answered b 'ok iteration=1 repeated=1$'
	tell b "cut $ME path=$T/late iteration=0\n"
	answered b 'err code=order'
	[ ! -e late ]
	[ "$(dense ps1.sock 1)" = "-1 -2 -3 -4" ]
}

# heir NAME ARG...: takes over from the server in $PID, which must end with 0.
heir() {
	local name=$1 old=$PID
	shift
	start "$name-heir" ps-server -s "$name.sock" --id "$name" --take-over "$@"
	ends "$old" 0 || { cat "$name-heir.err"; return 1; }
	ready "$name.sock"
}

@test "hand-over of a part: parameters, slots, rows, what is staged, fences, counters" {
	local args=(--part 1/2 --layout d8w2 --optimizer adagrad --lr 1)
	server ps1 "${args[@]}"
	server q "${args[@]}" # the same, without a hand-over
	PID=${PIDS[-2]}
	local s one='\1\0\0\0' rest="count=1 dense=1 rows=1 bytes=28\n$G1234\3\0\0\0\0\0\x80\x3f\0\0\0\x40"
	local part='part worker=w0 generation=1 sequence='
	for s in ps1 q; do
		open "$s" "$s.sock"
		tell "$s" "push worker=w0 generation=1 $ME sequence=1 iteration=0 $rest"
		tell "$s" "apply $ME iteration=0 units=1 bytes=46\n${part}1 unit=0\n"
		tell "$s" "push worker=w0 generation=1 $ME sequence=2 iteration=1 $rest"
		tell "$s" "throw $ME worker=w1 generation=3\n"
		tell "$s" "pull worker=w0 generation=1 $ME iteration=0 dense=0 rows=1 bytes=4\n$one"
		answered "$s" 'model iteration=1 '
	done
	heir ps1 "${args[@]}"
	ask ps1.sock stat | sed s/ps1/q/ >a
	ask q.sock stat >b
	cmp a b
	grep -q 'iteration=1 .* rows=2 staged=1 pushes=2 pulls=1 ' a
	open again ps1.sock
	for s in again q; do
		tell "$s" "push worker=w1 generation=3 $ME sequence=1 iteration=1 $rest"
		answered "$s" 'err code=fenced'
		tell "$s" "apply $ME iteration=1 units=1 bytes=46\n${part}2 unit=0\n"
		answered "$s" 'ok iteration=2$'
	done
	dense ps1.sock 2 >a
	dense q.sock 2 >b
	cmp a b
	for s in ps1 q; do
		ask "$s.sock" "cut $ME path=$T" >/dev/null
		mv part-1 "part-$s"
	done
	cmp part-ps1 part-q
}

@test "hand-over of the lead: members, a push that waits, acts; nobody starts over" {
	server ps1 --part 1/2 --layout d8 --optimizer sgd --lr 1
	server ps0 --part 0/2 --layout d8 --optimizer sgd --lr 1 --servers ps1.sock
	local c
	for c in a b; do open $c ps0.sock; done
	open p ps1.sock
	tell a "join worker=w0 generation=1 $ME\n"
	answered a members=1
	tell b "join worker=w1 generation=1 $ME\n"
	wait_for 'ask ps0.sock members | grep -q joining'
	push p w0 1 0
	answered p staged=1
	push a w0 1 0
	answered b 'iteration=1 members=2'
	push p w0 2 1
	push p w1 1 1
	wait_for '[ "$(grep -c staged=1 p.answers)" = 3 ]'
	push a w0 2 1
	local act='action kind=adjust-bs id=w1 size=7 accum=1 reason=why'
	tell a "act number=5 bytes=$((${#act} + 1))\n$act\n"
	wait_for 'ask ps0.sock stat | grep -q staged=1'
	heir ps0 --part 0/2 --layout d8 --optimizer sgd --lr 1 --servers ps1.sock
	[ "$(ask ps0.sock members | grep -c state=active)" = 2 ]
	for c in c d e; do open $c ps0.sock; done
	push c w0 2 1
	tell e "act number=5 bytes=$((${#act} + 1))\n$act\n"
	answered e 'ok iteration=2 repeated=1'
	push d w1 1 1
	answered c 'ok iteration=2 applied=1$'
	answered d 'ok iteration=2 applied=1$'
	[ "$(grep -c "^$act" c.answers) $(grep -c "^$act" d.answers)" = "0 1" ] # w1 is d
	[ "$(dense ps0.sock 2) $(dense ps1.sock 2)" = "-2 -4 -6 -8 -2 -4 -6 -8" ]
	# Said once more, it is known.
	push c w0 2 1
	answered c 'applied=1 repeated=1'
	# Who does not come back leaves like everybody: by its connection.
	hang_up d
	wait_for '[ "$(ask ps0.sock members | grep -c state=active)" = 1 ]'
}

@test "hand-over of the lead while a settle is with shardd: it is made once" {
	shards 8
	server ps0 --layout d4 --optimizer sgd --lr 1 --shards shardd.sock
	ask shardd.sock 'hello worker=w0' 'get worker=w0 generation=1' >/dev/null
	join a ps0.sock w0
	answered a members=1
	kill -STOP "$SHARDD"
	local p="push worker=w0 generation=1 $ME sequence=1 iteration=0 count=2 dense=1 rows=0 ranges=0:0:2 loss=1 bytes=16\n$G1234"
	tell a "$p"
	wait_for 'ask ps0.sock stat | grep -q staged=1'
	heir ps0 --layout d4 --optimizer sgd --lr 1 --shards shardd.sock
	kill -CONT "$SHARDD"
	wait_for 'ask ps0.sock stat | grep -q iteration=1'
	open b ps0.sock
	tell b "$p"
	answered b 'ok iteration=1 applied=1 repeated=1'
	run ask shardd.sock stat
	[[ $output == *"samples-done=2"* ]]
	[ "$(dense ps0.sock 1)" = "-0.5 -1 -1.5 -2" ]
}

@test "both at the same time, and again" {
	server ps1 --part 1/2 --layout d8
	local other=$PID i
	server ps0 --part 0/2 --layout d8 --servers ps1.sock
	local lead=$PID
	for i in 1 2 3; do
		start heir1 ps-server -s ps1.sock --id ps1 --take-over --part 1/2 --layout d8
		local next=$PID
		start heir0 ps-server -s ps0.sock --id ps0 --take-over --part 0/2 --layout d8 --servers ps1.sock
		ends "$other" 0
		ends "$lead" 0
		other=$next lead=$PID
		ready ps0.sock
		ready ps1.sock
	done
	join a ps0.sock w0
	open b ps1.sock
	push b w0 1 0
	answered b staged=1
	push a w0 1 0
	answered a applied=1
}

@test "hand-over waits for a cut" {
	noise 4000000
	server ps1 --part 1/2 --layout noise.layout
	local other=$PID
	server ps0 --part 0/2 --layout noise.layout --servers ps1.sock
	open a ps0.sock
	kill -STOP "$other"
	tell a "cut path=$T/c\n"
	wait_for '[ -e c/part-0 ]'
	start heir ps-server -s ps0.sock --id ps0 --take-over --part 0/2 --layout noise.layout --servers ps1.sock
	local new=$PID lead=${PIDS[-3]}
	wait_for 'ask ps0.sock counters | grep -q "verb=take-over requests=1"'
	ask ps0.sock stat | grep -q '^stat'
	kill -CONT "$other"
	answered a "ok path=$T/c "
	ends "$lead" 0
	ready ps0.sock
	kill "$new"
	ends "$new" 0
	run -0 ckpt verify c
}

@test "hand-over of a part whose cut is written, and was not asked for again: the heir answers" {
	server ps1 --part 1/2 --layout d8
	local cut="cut $ME path=$T/c iteration=0 attempt=7 later=1\n"
	open a ps1.sock
	tell a "$cut"
	answered a '^ok pending=1$'
	wait_for '[ -s c/part-1 ] && ! pgrep -P "$PID" >/dev/null'
	tell a "apply $ME iteration=0 units=1\n"
	answered a '^ok iteration=1$'
	heir ps1 --part 1/2 --layout d8
	rm c/part-1
	open b ps1.sock
	tell b "$cut"
	answered b "^ok file=$T/c/part-1 bytes=[1-9][0-9]* sum=[0-9]* stall="
	tell b "$cut"
	answered b '^err code=order'
	[ ! -e c/part-1 ]
}

@test "an heir that goes, errs or says something else: the old one serves on" {
	server ps0 --layout d400000
	local old=$PID
	join a ps0.sock w0
	answered a members=1
	# Gone in the middle of the state; gone when it has it all; says something else.
	printf 'take-over %s\n' "$ME" | socat - UNIX-CONNECT:ps0.sock 2>/dev/null | head -c 5000 >/dev/null
	wait_for '[ "$(grep -c "not handed over" ps0.err)" = 1 ]'
	open b ps0.sock
	tell b "take-over $ME\n"
	answered b '^ok$'
	hang_up b
	wait_for '[ "$(grep -c "not handed over" ps0.err)" = 2 ]'
	open c ps0.sock
	tell c "take-over $ME\n"
	answered c '^ok$'
	tell c 'mine\n'
	wait_for 'grep -q "says .mine., not taken" ps0.err'
	# Refused at once.
	run ask ps0.sock 'take-over incarnation=2' 'take-over' 'taken' 'take-over incarnation=x'
	[[ ${lines[0]} == "err code=fenced"* ]]
	[[ ${lines[1]} == "err code=bad-request"* ]]
	[[ ${lines[2]} == "err code=bad-request"* ]]
	[[ ${lines[3]} == "err code=bad-request"* ]]
	# Who says taken before it is asked is closed; nobody waits for it.
	printf 'take-over %s\ntaken\n' "$ME" | socat -t 300 - UNIX-CONNECT:ps0.sock >out
	[ "$(ask ps0.sock stat | grep -c ^stat)" = 1 ]
	# Heirs of another kind.
	run ps-server -s ps0.sock --id ps0 --take-over --layout d400000 --incarnation 2
	[ "$status" -eq 75 ]
	run ps-server -s ps0.sock --id ps0 --take-over --layout d4
	[ "$status" -eq 78 ]
	run ps-server -s ps0.sock --id ps0 --take-over --layout d400000 --optimizer sgd
	[ "$status" -eq 78 ]
	run ps-server -s ps0.sock --id ps0 --take-over --layout d400000 --sync asp
	[ "$status" -eq 78 ]
	run ps-server -s nobody.sock --id ps0 --take-over --layout d400000
	[ "$status" -eq 69 ]
	kill -0 "$old"
	ask ps0.sock members | grep -q 'worker=w0 .*state=active'
	tell a "leave worker=w0 generation=1 $ME\n"
	answered a '^ok$'
	# The old one dies before it has heard `taken`.
	kill -STOP "$old"
	local before
	before=$(grep -c "@\?ps0.sock$" /proc/net/unix)
	start heir ps-server -s ps0.sock --id ps0 --take-over --layout d400000
	local heir=$PID
	wait_for '[ "$(grep -c "@\?ps0.sock$" /proc/net/unix)" -gt '"$before"' ]'
	kill -9 "$old"
	ends "$heir" 69
}

# ---- sizes at every barrier ----

# tells NAME WORKER SEQUENCE ITERATION [KEY=VALUE]...: a push that says something of its worker.
tells() {
	local name=$1 worker=$2 sequence=$3 iteration=$4
	shift 4
	tell "$name" "push worker=$worker generation=1 $ME sequence=$sequence iteration=$iteration count=10 dense=1 rows=0 $* bytes=16\n$G1234"
}
size_of() { # NAME: the last size that it was told
	grep -a '^action kind=adjust-bs' "$1.answers" | tail -n 1 | sed 's/.* size=\([0-9]*\) .*/\1/'
}

balanced() {
	local words=()
	[[ ${2-} != --* ]] || { words=("$2" "$3"); set -- "$1"; }
	server ps0 --layout d4 --optimizer sgd --balance "$1" --batch 100 --balance-log "$T/balance.log" "${words[@]}"
	open b ps0.sock
	join a ps0.sock w0
	answered a 'ok iteration=0 members=1'
	[ "$(size_of a)" = 100 ]
	tell b "join worker=w1 generation=1 $ME${2:+ $2}\n"
	wait_for 'ask ps0.sock members | grep -q joining'
	tells a w0 1 0 speed=300
	answered a 'ok iteration=1 applied=1'
	answered b 'ok iteration=1 members=2'
	[ "$(size_of a) $(size_of b)" = "50 50" ]
}

@test "an heir takes nothing that can't stand in a store" {
	local state='state part=0/1 incarnation=1 iteration=3 bsp=1 pulls=0 pushes=0'
	local head='part version=1 part=0 parts=1 dense-begin=0 dense=2 dense-slots=1 width=1 row-slots=1 rows=1\nnote key=optimizer value=adagrad\nnote key=steps value=3\n'
	local one='\0\0\x80\x3f' nan='\0\0\xc0\x7f' minus='\0\0\x80\xbf'
	local dense="${head}block section=dense count=2 bytes=8\n$one$one" slot="block section=dense.s0 count=2 bytes=8\n$one$one"
	local key='block section=rows.keys count=1 bytes=4\n\7\0\0\0' row="block section=rows count=1 bytes=4\n$one" row_slot="block section=rows.s0 count=1 bytes=4\n$one"
	local staged='staged worker=w0 generation=1 sequence=1 iteration=3 count=1 size=1 dense=1 rows=0 bytes=8\n' n=0 bad
	# The last of each is what is wrong; then what is said of it.
	for bad in "${head}block section=dense count=2 bytes=8\n$one$nan=value 1 of dense is not finite" \
		"${dense}block section=dense.s0 count=2 bytes=8\n$one$minus=slot 0 of adagrad can.t be -1 .dense parameter 1" \
		"${dense}${slot}block section=dense.s0 count=2 bytes=8\n$one$one=too many values" \
		"$dense$slot${key}block section=rows count=1 bytes=4\n$nan=value 0 of rows is not finite" \
		"$dense$slot$key${row}block section=rows.s0 count=1 bytes=4\n$minus=slot 0 of adagrad can.t be -1 .key 7" \
		"$dense$slot${row}=differ" \
		"$dense$slot${key}ok\n=rows holds 0 values in place of 1" \
		"${dense}ok\n=dense.s0 holds 0 values in place of 2" \
		"ok\n=no parameters" \
		"$dense$slot$key$row$row_slot$staged$one$nan=the gradient of parameter dense.1. is nan"; do
		n=$((n + 1))
		printf 'paceline role=ps-server version=1\n%s\n' "$state" >reply$n
		printf '%b' "${bad%=*}" >>reply$n
		start old$n socat UNIX-LISTEN:old$n.sock "SYSTEM:cat reply$n; exec cat >/dev/null"
		wait_for "grep -q '00010000 .*old$n.sock' /proc/net/unix" # it listens
		run ps-server -s old$n.sock --id ps0 --layout d2w1 --take-over
		[ "$status" -eq 65 ] || { echo "$n: $status $output"; return 1; }
		[[ $output =~ ${bad##*=} ]] || { echo "$n: $output"; return 1; }
	done
}

@test "--balance lb-bsp: sizes follow what the pushes foretell, or size over time" {
	balanced lb-bsp
	tells a w0 2 1 speed=300
	tells b w1 1 1 speed=100
	answered a 'ok iteration=2'
	answered b 'ok iteration=2'
	[ "$(size_of a) $(size_of b)" = "75 25" ]
	tells a w0 3 2 time=0.1 # 10 samples: 100/s
	tells b w1 2 2 speed=100
	answered a 'ok iteration=3'
	answered b 'ok iteration=3'
	[ "$(size_of a) $(size_of b)" = "50 50" ]
	hang_up b # who goes has no share of the next iteration
	wait_for '! ask ps0.sock members | grep -q w1'
	tells a w0 4 3 speed=1
	answered a 'ok iteration=4'
	[ "$(size_of a)" = 100 ]
	ask ps0.sock stat | grep -q 'balances=5 balance-us=[0-9.]* settles=0'
	plrec where type=balance <balance.log | plrec tsv iteration sizes speeds >got
	printf '%s\t%s\t%s\n' 0 w0:100 '' 1 w0:50,w1:50 300, 2 w0:75,w1:25 300,100 \
		3 w0:50,w1:50 ,100 4 w0:100 1 >want
	diff <(sed 's/-$//; s/\t-/\t/g' got) want
	decided_again balance.log
}

@test "--balance --least: no worker has fewer, however slow it is" {
	balanced lb-bsp --least 20
	tells a w0 2 1 speed=300
	tells b w1 1 1 speed=1
	answered a 'ok iteration=2'
	answered b 'ok iteration=2'
	[ "$(size_of a) $(size_of b)" = "80 20" ]
	grep -q '^balancing method=lb-bsp batch=100 least=20 at=' balance.log
	decided_again balance.log
}

@test "--balance: who comes when all have gone is cut anew, in the same iteration" {
	balanced lb-bsp-gpu
	hang_up a
	hang_up b
	wait_for '! ask ps0.sock members | grep -q active'
	join c ps0.sock w2
	answered c 'ok iteration=1 members=1'
	[ "$(size_of c)" = 100 ]
	tells c w2 1 1 time=0.1
	answered c 'ok iteration=2'
	plrec where type=balance <balance.log | plrec tsv iteration sizes | diff - \
		<(printf '%s\t%s\n' 0 w0:100 1 w0:50,w1:50 1 w2:100 2 w2:100)
	decided_again balance.log
}

@test "--balance lb-bsp: no size beyond what a member said fits it; the heir of the lead knows it, too" {
	balanced lb-bsp max=50
	tells a w0 2 1 speed=100
	tells b w1 1 1 speed=300
	answered a 'ok iteration=2'
	answered b 'ok iteration=2'
	[ "$(size_of a) $(size_of b)" = "50 50" ]
	start heir ps-server -s ps0.sock --id ps0 --layout d4 --optimizer sgd --balance lb-bsp --batch 100 --take-over
	wait_for '! kill -0 ${PIDS[0]} 2>/dev/null'
	ready ps0.sock
	open c ps0.sock
	open d ps0.sock
	tells c w0 3 2 speed=100
	tells d w1 2 2 speed=900
	answered c 'ok iteration=3'
	answered d 'ok iteration=3'
	not grep -aq '^action kind=adjust-bs' d.answers
	decided_again balance.log
	tells c w0 4 3 speed=300
	tells d w1 3 3 speed=100
	answered c 'ok iteration=4'
	answered d 'ok iteration=4'
	[ "$(size_of c) $(size_of d)" = "75 25" ]
}

@test "--balance: members without memory for the batch get what fits, also who joins; it is said, and when it is over" {
	server ps0 --layout d4 --optimizer sgd --balance lb-bsp --batch 100 --balance-log "$T/balance.log"
	open a ps0.sock
	open b ps0.sock
	tell a "join worker=w0 generation=1 $ME max=30\n"
	answered a 'ok iteration=0 members=1'
	[ "$(size_of a)" = 30 ]
	grep -q 'of 30 samples, not 100: the workers (1) have no memory for more' ps0.err
	tell b "join worker=w1 generation=1 $ME max=40\n"
	wait_for 'ask ps0.sock members | grep -q joining'
	tells a w0 1 0 speed=300
	answered b 'ok iteration=1 members=2'
	[ "$(size_of a) $(size_of b)" = "30 40" ]
	grep -q 'of 70 samples, not 100: the workers (2)' ps0.err
	tells a w0 2 1 speed=300
	tells b w1 1 1 speed=300
	answered b 'ok iteration=2'
	[ "$(grep -c 'not 100' ps0.err)" -eq 2 ]
	open c ps0.sock
	tell c "join worker=w2 generation=1 $ME\n"
	wait_for 'ask ps0.sock members | grep -q joining'
	tells a w0 3 2 speed=300
	tells b w1 2 2 speed=300
	answered c 'ok iteration=3 members=3'
	[ "$(($(size_of a) + $(size_of b) + $(size_of c)))" -eq 100 ]
	grep -q 'of 100 samples again' ps0.err
	decided_again balance.log
}

@test "--balance lb-bsp: sizes by hand are refused, other actions are not" {
	balanced lb-bsp
	printf 'act bytes=38\naction kind=adjust-bs id=w0 size=7777\n' |
		socat -t 300 - UNIX-CONNECT:ps0.sock | grep -q '^err code=balanced'
	printf 'act bytes=41\naction kind=adjust-lr id=w0 scale=0.5000\n' |
		socat -t 300 - UNIX-CONNECT:ps0.sock | grep -q '^ok iteration='
}

@test "--balance: what a worker can't mean is refused" {
	balanced lb-bsp
	for bad in speed=-1 speed=x time=-2 mem=2; do
		tells a w0 9 1 "$bad"
		answered a 'err code=bad-request'
		: >a.answers
	done
}

@test "--balance lb-bsp-gpu: the faster one takes samples from the slower one" {
	balanced lb-bsp-gpu
	for k in $(seq 1 6); do
		tells a w0 $((k + 1)) "$k" time=0.1 mem=0.5
		tells b w1 "$k" "$k" time=0.3 mem=0.5
		answered a "ok iteration=$((k + 1))"
		answered b "ok iteration=$((k + 1))"
	done
	[ "$(size_of a)" -gt 50 ]
	[ "$(($(size_of a) + $(size_of b)))" = 100 ]
	decided_again balance.log
}

@test "--balance: heir of the lead has sizes and numbers" {
	balanced lb-bsp
	tells a w0 2 1 speed=300
	wait_for 'ask ps0.sock stat | grep -q staged=1'
	start heir ps-server -s ps0.sock --id ps0 --layout d4 --optimizer sgd --balance lb-bsp --batch 100 \
		--balance-log "$T/balance.log" --take-over
	wait_for '! kill -0 ${PIDS[0]} 2>/dev/null'
	ready ps0.sock
	open c ps0.sock
	open d ps0.sock
	tells c w0 2 1 speed=300
	tells d w1 1 1 speed=100
	answered c 'ok iteration=2'
	answered d 'ok iteration=2'
	[ "$(size_of c) $(size_of d)" = "75 25" ]
	# Not what the old one saw as it ended: members who went one by one.
	awk '{ print $1, $2 }' balance.log | diff - <(printf '%s\n' 'balancing method=lb-bsp' \
		'balance iteration=0' 'balance iteration=1' 'balancing method=lb-bsp' 'balance iteration=2')
	decided_again balance.log
}

@test "--balance: usage" {
	for words in '--balance lb-bsp' '--batch 5' '--balance lb-bsp --batch 5 --sync asp' '--expect 3' \
		'--balance other --batch 5' '--balance-log x' '--least 2' '--balance lb-bsp --batch 5 --least 0'; do
		# shellcheck disable=SC2086 # the words of a command line
		run -64 ps-server -s x.sock --id ps0 --layout d4 $words
	done
	run -73 ps-server -s x.sock --id ps0 --layout d4 --balance lb-bsp --batch 5 --balance-log no/such
}

# ---- a lead without parameters ----

# hand WORKER ID BEGIN LENGTH: the shard that shardd gives to it; in $SHARD ("ID:BEGIN:LENGTH") and
# $LENGTH. Empty when there is none.
hand() {
	local r
	r=$(ask shardd.sock "get worker=$1 generation=1" | grep '^shard' || true)
	LENGTH=$(field length <<<"$r")
	SHARD=${r:+$(field id <<<"$r"):$(field begin <<<"$r"):$LENGTH}
}

# counts NAME WORKER SEQUENCE ITERATION: a push of what `hand` gave, and nothing else.
counts() {
	tell "$1" "push worker=$2 generation=1 $ME sequence=$3 iteration=$4 count=$LENGTH ranges=$SHARD loss=$LENGTH\n"
}

# audit SAMPLES [REPEATED]: shardd has each of so many once, so many were given out again, and nobody
# holds any.
audit() {
	run ask shardd.sock stat
	[[ $output == *" doing=0 "*" samples-done=$1 samples-repeated=${2:-0} "* ]] || { echo "$output"; return 1; }
}

@test "--lead-only, BSP: two workers by hand that push counts; units close, an action arrives, each sample once" {
	start monitor bpt-monitor -s monitor.sock
	ready monitor.sock
	shards 12
	server lead --lead-only --shards shardd.sock
	run ask lead.sock stat
	[[ ${lines[0]} == "stat id=lead iteration=0 incarnation=1 "*" members=0 "* ]]
	ask shardd.sock 'hello worker=w0' 'hello worker=w1' >/dev/null
	join a lead.sock w0
	answered a '^paceline role=ps-server version=1 id=lead lead=1 sync=bsp incarnation=1 iteration=0$'
	answered a 'ok iteration=0 members=1'
	join b lead.sock w1
	wait_for 'ask lead.sock members | grep -q joining'
	hand w0
	counts a w0 1 0
	answered a 'ok iteration=1 applied=1'
	answered b 'ok iteration=1 members=2'
	audit 2 # of w0 alone
	# Both must push; an action comes to both with the answer that closes the unit.
	local act='action kind=kill-restart role=worker id=w9'
	run bash -c "printf 'act bytes=%d\n%s\n' $((${#act} + 1)) '$act' | socat -t 300 - UNIX-CONNECT:lead.sock"
	[ "${lines[1]}" = "ok iteration=2" ]
	hand w0
	counts a w0 2 1
	wait_for 'ask lead.sock members | grep "worker=w0" | grep -q "owes= "'
	printf 'bpt role=worker id=w1 iter=1 time=0.1 size=2 at=1\n' | socat -t 300 - UNIX-CONNECT:monitor.sock >/dev/null
	hand w1
	counts b w1 1 1
	answered a 'ok iteration=2 applied=1'
	answered b 'ok iteration=2 applied=1'
	[ "$(grep -a -B1 'iteration=2 applied=1' a.answers | head -1)" = "$act" ]
	[ "$(grep -a -B1 'iteration=2 applied=1' b.answers | head -1)" = "$act" ]
	[[ $(ask monitor.sock snapshot) == *"id=w1"* ]]
	local i
	for i in 2 3; do
		hand w0
		[ -z "$SHARD" ] || counts a w0 $((i + 1)) $i
		[ -n "$SHARD" ] || tell a "push worker=w0 generation=1 $ME sequence=$((i + 1)) iteration=$i count=0\n"
		hand w1
		[ -z "$SHARD" ] || counts b w1 $i $i
		[ -n "$SHARD" ] || tell b "push worker=w1 generation=1 $ME sequence=$i iteration=$i count=0\n"
		answered a "ok iteration=$((i + 1)) applied=1"
		answered b "ok iteration=$((i + 1)) applied=1"
	done
	audit 12
	run ask lead.sock stat
	[[ ${lines[0]} == "stat id=lead iteration=4 "*" members=2 "* ]]
}

@test "--lead-only, ASP and SSP: units close by themselves; who is ahead waits; each sample once" {
	local sync i
	for sync in asp ssp:1; do
		rm -rf journal ./*.answers ./*.in
		shards 8
		server lead-${sync%:*} --lead-only --sync $sync --shards shardd.sock
		ask shardd.sock 'hello worker=w0' 'hello worker=w1' >/dev/null
		join a lead-${sync%:*}.sock w0
		answered a 'members=1'
		join b lead-${sync%:*}.sock w1
		answered b 'members=2'
		hand w0
		counts a w0 1 0
		answered a 'ok iteration=1 applied=1'
		hand w0
		counts a w0 2 1
		if [ $sync = ssp:1 ]; then # two ahead: its answer waits
			wait_for "ask lead-${sync%:*}.sock stat | grep -q iteration=2"
			[ "$(grep -c applied=1 a.answers)" = 1 ]
		fi
		for i in 1 2; do
			hand w1
			counts b w1 $i $((i - 1))
			wait_for "[ \"\$(grep -c applied=1 b.answers)\" = $i ]"
		done
		wait_for '[ "$(grep -c applied=1 a.answers)" = 2 ]'
		audit 8
		hang_up a
		hang_up b
		kill "$PID" "$SHARDD"
		ends "$PID" 0
		ends "$SHARDD" 0
	done
}

@test "--lead-only: a worker dies, another is fenced, shardd comes back: each sample once" {
	shards 8
	server lead --lead-only --shards shardd.sock
	local lead=$PID
	ask shardd.sock 'hello worker=w0' 'hello worker=w1' >/dev/null
	join a lead.sock w0
	answered a members=1
	join b lead.sock w1
	wait_for 'ask lead.sock members | grep -q joining'
	hand w0
	counts a w0 1 0
	answered b 'iteration=1 members=2'
	hand w1 # it dies with that in its hand
	hang_up b
	wait_for '[ "$(ask lead.sock members | grep -c ^member)" = 1 ]'
	ask lead.sock 'fence worker=w1 generation=1'
	ask shardd.sock 'fail worker=w1'
	kill -9 "$SHARDD"
	wait "$SHARDD" || true
	shards 8
	local i
	for i in 2 3 4; do
		hand w0
		counts a w0 $i $((i - 1))
		answered a "ok iteration=$i applied=1"
	done
	audit 8 2
	# What is not in its hand is not counted, and it is no member any more.
	tell a "push worker=w0 generation=1 $ME sequence=9 iteration=4 count=2 ranges=0:0:2\n"
	answered a 'err code=fenced'
	audit 8 2
	# A lead of an incarnation that is over ends.
	ask shardd.sock 'save file=queue' 'load file=queue' 'hello worker=w2' 'get worker=w2 generation=1' >/dev/null
	join c lead.sock w2
	answered c members=1
	tell c "push worker=w2 generation=1 $ME sequence=1 iteration=4 count=2 ranges=0:0:2\n"
	ends "$lead" 75
}

@test "--lead-only: what needs parameters is refused; sizes at every barrier" {
	server lead --lead-only
	local p="push worker=w0 generation=1 $ME sequence=1 iteration=0 count=1"
	{
		printf 'join worker=w0 generation=1 %s\n' "$ME"
		printf 'pull worker=w0 generation=1 %s iteration=0 dense=0 rows=0\n' "$ME"
		printf 'cut path=here\ntake-over incarnation=1\ntaken\nhold incarnation=1\n'
		printf '%s dense=1\n' "$p"
		printf '%s dense=0 rows=1 bytes=4\n1234' "$p"
		printf '%s bytes=4\n1234' "$p"
		printf '%s loss=nan\n' "$p"
		printf 'stat\n'
	} | socat -t 300 - UNIX-CONNECT:lead.sock | tail -n +2 >out
	run cat out
	local i want=('ok iteration=0 members=1' 'err code=unknown-request' 'err code=no-part' \
		'err code=unknown-request' 'err code=unknown-request' 'err code=unknown-request' \
		'err code=bad-request' 'err code=bad-request' 'err code=bad-request' 'err code=diverged' \
		'stat *diverged=1*members=0*')
	for i in "${!want[@]}"; do
		[[ ${lines[$i]} == ${want[$i]}* ]] || { echo "$i: ${lines[$i]} is not ${want[$i]}"; cat out; return 1; }
	done
	[ ! -e here ]
	local args
	for args in "--part 0/1" "--part 1/2" "--layout x" "--lr 1" \
		"--optimizer sgd" "--take-over" "--monitor x" "--drag x" "--replicas r --restore x" \
		"--servers p --restore x" "--servers p --replicas r" "--servers p --followed" "--led" \
		"--backup 1"; do
		run ps-server -s x --id x --lead-only $args
		[ "$status" -eq 64 ] || { echo "$args: $status $output"; return 1; }
	done
	server sizes --lead-only --balance lb-bsp --batch 30 --expect 2
	join a sizes.sock w0
	join b sizes.sock w1
	answered a 'kind=adjust-bs id=w0 size=15 '
	tell a "push worker=w0 generation=1 $ME sequence=1 iteration=0 count=15 speed=20\n"
	tell b "push worker=w1 generation=1 $ME sequence=1 iteration=0 count=15 speed=10\n"
	answered a 'kind=adjust-bs id=w0 size=20 '
	answered b 'kind=adjust-bs id=w1 size=10 '
}

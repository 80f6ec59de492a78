#!/usr/bin/env bats
# rooms: work model
load helper

# 1000 rows: x1 and the category c say most of the label.
make_csv() {
	awk -v rows="${1:-1000}" 'BEGIN { srand(7); print "label,x1,x2,c,d"
		for (i = 0; i < rows; i++) { x = rand() * 4 - 2; c = int(rand() * 5)
			z = 3 * x + (c == 2 ? 3 : -1)
			print (rand() < 1 / (1 + exp(-z))) "," x "," rand() ",c" c ",d" i % 50 } }' >data.csv
	schema_file x1,x2 c,d
	model_file lr 2 2
	model_file wdl 2 2 0 4 8
	model_file audit 2 2 "${1:-1000}"
}
CSV=(--data data.csv --schema schema --model-file lr)

lr_layout() {
	printf '%s\n' 'layout version=1 seed=1' 'tensor name=bias rows=1 cols=1 init=zero scale=0' \
		'tensor name=dense.weight rows=2 cols=1 init=zero scale=0' \
		'table name=keys width=1 rows=1048576 zero-columns=1 scale=0' >layout
}

# queue [ARG...]: shardd with 1000 samples; servers N [ARG...]: parts of ps-server.
queue() {
	start shardd shardd -s "$T/shardd.sock" -j "$T/journal" -n 1000 -b 60 -m 4 "$@"
	SHARDD=$PID
	ready "$T/shardd.sock"
}
servers() {
	local n=$1 i others=
	shift
	SERVERS=$T/ps0.sock
	for ((i = 1; i < n; i++)); do
		start "ps$i" ps-server -s "$T/ps$i.sock" --id "ps$i" --part "$i/$n" --layout layout "$@"
		SERVERS+=,$T/ps$i.sock
		others+=${others:+,}$T/ps$i.sock
	done
	start ps0 ps-server -s "$T/ps0.sock" --id ps0 --part "0/$n" --layout layout \
		--shards "$T/shardd.sock" ${others:+--servers "$others"} "$@"
	ready "$T/ps0.sock"
}
# replica [ARG...]: one of all parameters; lead [ARG...]: the lead of it, whose socket is ps0's, too.
replica() {
	start r0 ps-server -s "$T/r0.sock" --id r0 --replica 0/1 --layout layout --serve "$@"
	REPLICA=$PID
	ready "$T/r0.sock"
}
lead() {
	start lead ps-server -s "$T/ps0.sock" --id lead --lead-only --replicas "$T/r0.sock" \
		--shards "$T/shardd.sock" --layout layout "$@"
	LEAD=$PID
	ready "$T/ps0.sock"
}
# work ID [ARG...]: a worker in the background; where a replica is, with that.
work() {
	local id=$1 at=(--servers "${SERVERS-}")
	shift
	[ -z "${REPLICA-}" ] || at=(--lead "$T/ps0.sock" --replica "$T/r0.sock")
	start "$id" worker --id "$id" --shards "$T/shardd.sock" "${at[@]}" --batch 20 --wait 120 \
		"${CSV[@]}" "$@"
}
all_done() {
	wait_for '[[ $(ask shardd.sock stat) == *" todo=0 doing=0 "*" held=0 "* ]]'
}
finish() {
	all_done
	ask ps0.sock "cut path=$T/ck" | grep -q "^ok path="
	ask ps0.sock finish | grep -q ^ok
}
# act ACTION...: told to all workers, in one iteration.
act() {
	local text
	text=$(printf 'action %s\n' "$@")
	printf 'act bytes=%d\n%s\n' $((${#text} + 1)) "$text" |
		socat -t 300 - UNIX-CONNECT:ps0.sock | grep -q '^ok iteration='
}
# take_reports: what workers send to mon.sock, into bpt.log.
take_reports() {
	printf 'paceline role=bpt-monitor version=1\n' >greeting
	start monitor socat -u UNIX-LISTEN:"$T/mon.sock",fork \
		SYSTEM:"grep --line-buffered -v ^clock >>$T/bpt.log"
	wait_for '[ -S mon.sock ]'
}
# node ID KEY: of the monitor's snapshot.
node() {
	ask mon.sock snapshot | sed -n "s/^node role=worker id=$1 .* $2=\\([^ ]*\\).*/\\1/p"
}
# generation WORKER: the one in force at shardd.
generation() {
	ask shardd.sock "who worker=$1" | sed -n 's/^ok generation=\([0-9]*\).*/\1/p'
}
# The different values in the exported audit tensor, one a line.
audit_values() {
	ckpt export ck audit.safetensors
	local head
	head=$(od -An -t u8 -N 8 audit.safetensors)
	od -An -v -t f4 -w4 -j $((head + 8)) audit.safetensors | tr -d ' ' | sort | uniq -c |
		awk '{ print $1 "x" $2 }'
}

@test "help, version, usage" {
	run worker --help
	[ "$status" -eq 0 ]
	[[ $output == *--shards* && $output == *"(default 60"* || $output == *60* ]]
	run worker --version
	[ "$status" -eq 0 ]
	run worker
	[ "$status" -eq 64 ]
	[[ $output == *--servers* ]]
	run worker --id w0 --shards s "${CSV[@]}" --replica r
	[ "$status" -eq 64 ]
	[[ $output == *"--replica: goes with --lead, and not with --servers"* ]]
	run worker --id w0 --shards s "${CSV[@]}" --lead l --replica r --servers p
	[ "$status" -eq 64 ]
	[[ $output == *"--replica: goes with --lead, and not with --servers"* ]]
	run worker --batch 0
	[ "$status" -eq 64 ]
	run worker --id w0 --shards s --servers p "--data=x"
	[ "$status" -eq 64 ]
	[[ $output == *--schema* ]]
	run worker --id w0 surplus
	[ "$status" -eq 64 ]
}

@test "models that can't be: each says why, 78" {
	make_csv
	model_file bert 2 2
	run worker --id w0 --shards s --servers p "${CSV[@]}" --model-file bert
	[ "$status" -eq 78 ]
	[[ $output == *bert*"lr, wdl, fm, "* ]]
	model_file wdl 2 2 0 4 4,x
	run worker --id w0 --shards s --servers p "${CSV[@]}" --model-file wdl
	[ "$status" -eq 78 ]
	[[ $output == *"'x'"* ]]
	model_file lr 13 26
	run worker --id w0 --shards s --servers p "${CSV[@]}"
	[ "$status" -eq 78 ]
	[[ $output == *lr:*13* ]]
	printf 'model version=1 name=lr dense-inputs=13' >lr
	run worker --id w0 --shards s --servers p "${CSV[@]}"
	[ "$status" -eq 65 ]
	[[ $output == *lr:* ]]
}

@test "data that are not there or wrong: file, line and column" {
	make_csv
	run worker --id w0 --shards s --servers p "${CSV[@]/data.csv/none.csv}"
	[ "$status" -eq 66 ]
	[[ $output == *none.csv* ]]
	schema_file x9 c,d
	run worker --id w0 --shards s --servers p "${CSV[@]}"
	[ "$status" -eq 65 ]
	[[ $output == *data.csv:1:*x9* ]]
	printf 'schema version=1 form' >schema
	run worker --id w0 --shards s --servers p "${CSV[@]}"
	[ "$status" -eq 65 ]
	[[ $output == *schema:1* ]]
}

@test "nobody there: 69, and whom it missed" {
	make_csv
	run worker --id w0 --shards "$T/no.sock" --servers "$T/no.sock" "${CSV[@]}" --wait 0.2
	[ "$status" -eq 69 ]
	[[ $output == *no.sock* ]]
	queue
	run worker --id w0 --shards "$T/shardd.sock" --servers "$T/nops.sock" "${CSV[@]}" --wait 0.2
	[ "$status" -eq 69 ]
	[[ $output == *nops.sock* ]]
	# what it held is back
	[[ $(ask shardd.sock stat) == *" doing=0 "* ]]
}

# CHECKPOINT: the weight of x1, which says much, against that of x2, which says nothing
has_learnt() {
	ckpt export "$1" lr.safetensors
	local head at
	head=$(od -An -t u8 -N 8 lr.safetensors)
	at=$(dd if=lr.safetensors bs=1 skip=8 count=$((head)) 2>/dev/null |
		sed 's/.*"dense.weight"[^}]*"data_offsets":[^0-9]*\([0-9]*\).*/\1/')
	od -An -t f4 -j $((head + 8 + at)) -N 8 lr.safetensors |
		awk '{ exit !($1 > 1 && $1 > 4 * ($2 < 0 ? -$2 : $2)) }'
}

@test "two workers, two servers: lr learns, every sample once an epoch" {
	make_csv
	lr_layout
	queue -e 4 --shuffle samples
	servers 2 --optimizer adagrad --lr 0.3
	work w0
	W0=$PID
	work w1
	W1=$PID
	finish
	ended "$W0"
	[ "$status" -eq 0 ]
	ended "$W1"
	[ "$status" -eq 0 ]
	[[ $(ask shardd.sock stat) == *" samples-done=4000 samples-repeated=0 "* ]]
	has_learnt ck
}

@test "audit: exact under bsp, ssp and asp, whatever the batch sizes" {
	make_csv
	audit_layout 1000
	for sync in bsp ssp:1 asp; do
		T2=$T/${sync%:*} # a colon would mean something to socat
		mkdir "$T2"
		(
			T=$T2
			cp data.csv schema audit layout "$T"
			cd "$T"
			PIDS=()
			trap 'kill "${PIDS[@]}" 2>/dev/null || true' EXIT
			queue -e 3 --shuffle samples
			servers 3 --sync "$sync"
			work w0 --model-file audit
			work w1 --model-file audit --batch 7
			work w2 --model-file audit --batch 64 --ahead 1
			finish
			[ "$(audit_values)" = 1000x3 ]
		)
	done
}

@test "SIGTERM: the batch is finished, the rest goes back, exit 0" {
	make_csv
	audit_layout 1000
	queue -e 2
	servers 2
	echo 'drag delay=0.05' >drag
	work w0 --model-file audit --drag "$T/drag"
	worker=$PID
	wait_for '[[ $(ask ps0.sock stat) == *" iteration="[1-9]* ]]'
	kill -TERM "$worker"
	ended "$worker"
	[ "$status" -eq 0 ]
	[[ $(ask shardd.sock stat) == *" doing=0 "* ]]
	[[ $(ask shardd.sock stat) != *" todo=0 "* ]]
	work w1 --model-file audit
	finish
	[ "$(audit_values)" = 1000x2 ]
}

@test "SIGTERM ends waiting for daemons, at the barrier's door and at the end" {
	make_csv
	audit_layout 1000
	SERVERS=$T/ps0.sock
	work w0 --model-file audit
	sleep_pid=$PID
	# Not before it can be caught: bash itself may lose one between fork and exec. Its name comes first: what bash
	# catches is not what a worker catches.
	wait_for '[ "$(cat /proc/$sleep_pid/comm)" = worker ] && [ $((0x$(sed -n "s/^SigCgt:[[:space:]]*//p" /proc/$sleep_pid/status) >> 14 & 1)) = 1 ]'
	kill -TERM "$sleep_pid"
	ended "$sleep_pid"
	[ "$status" -eq 0 ]
	queue
	servers 1
	work w1 --model-file audit
	worker=$PID
	all_done
	wait_for '[[ $(ask ps0.sock members) == *"state=ended"* ]]'
	kill -TERM "$worker"
	ended "$worker"
	[ "$status" -eq 0 ]
}

@test "SIGTERM is heard while a server stands still: pulling, staging, and at its door" {
	make_csv
	audit_layout 1000
	queue -e 2
	servers 2
	echo 'drag delay=0.05' >drag
	work w0 --model-file audit --drag "$T/drag"
	local first=$PID ps1
	ps1=$(pgrep -f "ps-server -s $T/ps1.sock")
	wait_for '[[ $(ask ps0.sock stat) == *" iteration="[1-9]* ]]'
	kill -STOP "$ps1"
	work w1 --model-file audit
	local second=$PID
	wait_for 'ask shardd.sock "who worker=w1" | grep -q "^ok generation=1"'
	sleep 0.5 # nothing tells from outside where in the batch w0 is
	kill -TERM "$first" "$second"
	ended "$first"
	[ "$status" -eq 0 ]
	ended "$second"
	[ "$status" -eq 0 ]
	kill -CONT "$ps1"
	[[ $(ask shardd.sock stat) == *" doing=0 "* ]]
	work w2 --model-file audit
	finish
	[ "$(audit_values)" = 1000x2 ]
}

@test "a person's fail, and shardd killed: workers start over or resume, nothing twice" {
	make_csv
	audit_layout 1000
	queue -e 2
	servers 2
	echo 'drag delay=0.2' >drag
	work w0 --model-file audit --drag "$T/drag"
	W0=$PID
	wait_for '[[ $(ask ps0.sock members) == *w0*state=active* ]]'
	work w1 --model-file audit --drag "$T/drag"
	W1=$PID
	wait_for '[[ $(ask ps0.sock members) == *w1*state=active* ]]'
	wait_for '[[ $(ask ps0.sock stat) == *" iteration="[1-9]* ]]'
	gen=$(generation w0)
	ask shardd.sock 'fail worker=w0' | grep -q ^ok
	wait_for 'grep -q "starting over" w0.err'
	wait_for '[ "$(generation w0)" -gt "$gen" ]'
	# an answer that got lost: shardd says that w1 holds a piece, w1 never heard of it
	gen=$(generation w1)
	ask shardd.sock "get worker=w1 generation=$gen max=10" | grep -q '^shard '
	kill -9 "$SHARDD"
	ended "$SHARDD" # its lock lives as long as it does
	queue -e 2
	rm drag
	finish
	ended "$W0"
	[ "$status" -eq 0 ]
	ended "$W1"
	[ "$status" -eq 0 ]
	[ "$(audit_values)" = 1000x2 ]
}

@test "a worker killed: fenced as the supervisor does it, its rows are trained once" {
	make_csv
	audit_layout 1000
	queue -e 1
	servers 2
	echo 'drag delay=0.2' >drag
	work w0 --model-file audit --drag "$T/drag"
	W0=$PID
	# a member before w1 comes, or w1 trains all rows alone
	wait_for '[[ $(ask ps0.sock members) == *w0*state=active* ]]'
	work w1 --model-file audit
	wait_for '[[ $(ask ps0.sock stat) == *" iteration="[1-9]* ]]'
	kill -9 "$W0"
	gen=$(generation w0)
	ask ps0.sock "fence worker=w0 generation=$gen" | grep -q ^ok
	ask shardd.sock 'fail worker=w0' | grep -q ^ok
	work w0 --model-file audit
	finish
	[ "$(audit_values)" = 1000x1 ]
}

@test "a worker that found nothing to do trains what comes back" {
	make_csv
	audit_layout 1000
	queue -e 1
	servers 1 --sync asp
	echo 'drag delay=1000' >drag
	work w0 --model-file audit --drag "$T/drag"
	W0=$PID
	wait_for '[[ $(ask ps0.sock members) == *w0*state=active* ]]'
	work w1 --model-file audit
	wait_for '[[ $(ask shardd.sock stat) == *" todo=0 "* && $(ask ps0.sock members) != *w1*state=active* ]]'
	[[ $(ask shardd.sock stat) != *" doing=0 "* ]]
	kill -9 "$W0"
	gen=$(generation w0)
	ask ps0.sock "fence worker=w0 generation=$gen" | grep -q ^ok
	ask shardd.sock 'fail worker=w0' | grep -q ^ok
	finish
	[ "$(audit_values)" = 1000x1 ]
}

@test "actions: obeyed by all in one iteration, and logged" {
	make_csv
	audit_layout 1000
	queue -e 8
	servers 1
	echo 'drag delay=0.05' >drag
	work w0 --model-file audit --drag "$T/drag" --log w0.log
	work w1 --model-file audit --drag "$T/drag" --log w1.log
	wait_for '[[ $(ask ps0.sock members) == *w0*state=active*w1*state=active* ]]'
	act 'kind=adjust-bs id=w0 size=9 accum=3' 'kind=adjust-bs id=w1 size=31 accum=1' \
		'kind=adjust-lr id=w1 scale=0.5'
	wait_for '[ -s w0.log ] && grep -q adjust-lr w1.log'
	rm drag
	finish
	wait_for 'grep -q ^spent w0.log && grep -q ^spent w1.log'
	at=$(sed -n 's/^applied kind=adjust-bs id=w0 size=9 accum=3 iteration=\([0-9]*\) at=[0-9.]*$/\1/p' w0.log)
	[ "$at" -gt 0 ]
	[ "$(sed 's/ at=.*//' w1.log | head -2)" = "applied kind=adjust-bs id=w1 size=31 accum=1 iteration=$at
applied kind=adjust-lr id=w1 scale=0.5 iteration=$at" ]
	[ "$(audit_values)" = 1000x8 ]
}

@test "accumulation: one push for all steps, each of which has to fit; 71 when one does not" {
	make_csv
	audit_layout 1000
	queue -e 20
	servers 2
	take_reports
	echo 'drag speed=2000 launch=0.01 saturation=8 memory=10' >drag
	work w0 --model-file audit --drag "$T/drag" --batch 10 --monitor "$T/mon.sock" --report-every 1
	W0=$PID
	wait_for '[[ $(ask ps0.sock members) == *w0*state=active* ]]'
	act 'kind=adjust-bs id=w0 size=10 accum=4'
	wait_for 'grep -q " size=40 at=.* accum=4 " bpt.log'
	# four launches, and what the last batch lacks of a step is its saturation
	sed -n 's/.* time=\([0-9.]*\) size=\([0-9]*\) .* accum=4 .*/\1 \2/p' bpt.log |
		awk '$1 < int(($2 + 9) / 10) * 0.01 + $2 / 2000 - 0.00001 { print; early = 1 } END { exit early }'
	act 'kind=adjust-bs id=w0 size=11 accum=1'
	ended "$W0"
	[ "$status" -eq 71 ]
	grep -q 'out of memory: .*11 .*10' w0.err
	rm drag
	work w0 --model-file audit
	finish
	[ "$(audit_values)" = 1000x20 ]
}

@test "a batch larger than the memory: 71 and both numbers" {
	make_csv
	audit_layout 1000
	queue
	servers 1
	echo 'drag memory=12' >drag
	work w0 --model-file audit --drag "$T/drag"
	ended "$PID"
	[ "$status" -eq 71 ]
	grep -q 'out of memory: .*20 .*12' w0.err
	[[ $(ask shardd.sock stat) == *" doing=0 "* ]]
}

@test "a server that takes no shared memory gets everything inline" {
	make_csv
	audit_layout 1000
	queue -e 2
	servers 2
	# whoever stands between loses the descriptor
	start between socat UNIX-LISTEN:"$T/far.sock",fork UNIX-CONNECT:"$T/ps1.sock"
	start between0 socat UNIX-LISTEN:"$T/far0.sock",fork UNIX-CONNECT:"$T/ps0.sock"
	ready "$T/far.sock"
	ready "$T/far0.sock"
	SERVERS=$T/far0.sock,$T/far.sock
	work w0 --model-file audit
	SERVERS=$T/ps0.sock,$T/far.sock
	work w1 --model-file audit
	finish
	[[ $(ask ps0.sock counters) == *"verb=map requests=2 errors=1"* ]]
	[[ $(ask ps1.sock counters) == *"verb=map requests=2 errors=2"* ]]
	[ "$(audit_values)" = 1000x2 ]
}

@test "reports to the monitor: every batch is in one; the drag file sets the speed" {
	make_csv
	audit_layout 1000
	queue
	servers 1
	take_reports
	echo 'drag delay=0.01 speed=1000' >drag
	work w0 --model-file audit --monitor "$T/mon.sock" --drag "$T/drag" --report-every 7 --report-seconds 1000
	finish
	wait_for '[ "$(grep -o " count=[0-9]*" bpt.log | awk -F= "{ n += \$2 } END { print n }")" = 50 ]'
	not grep -vE '^bpt role=worker id=w0 iter=[0-9]+ time=[0-9.]+ size=[0-9]+ at=[0-9.]+ accum=1 count=[0-9]+ compute=[0-9.]+ comm=[0-9.]+ wait=[0-9.]+( (cpu|mem|psi-cpu|psi-mem|throttled|own-cpu|own-mem)=[0-9.e-]+)*$' bpt.log
	# the first, second, fourth and eighth, then every seventh
	[ "$(grep -o ' count=[0-9]*' bpt.log | cut -d= -f2 | xargs)" = "1 1 2 4 7 7 7 7 7 7" ]
	[ "$(grep -o ' size=[0-9]*' bpt.log | sort -u)" = " size=20" ]
	# size/speed + delay at least
	sed 's/.* time=\([0-9.]*\) size=\([0-9]*\) .*/\1 \2/' bpt.log |
		awk '$1 < $2 / 1000 + 0.01 - 0.00001 { print; early = 1 } END { exit early }'
}

@test "reports: after so many seconds, and when the batch changes" {
	make_csv
	audit_layout 1000
	queue -e 2
	servers 1
	take_reports
	echo 'drag delay=0.1' >drag
	work w0 --model-file audit --monitor "$T/mon.sock" --drag "$T/drag" --report-every 1000 --report-seconds 1000
	wait_for '[ "$(grep -c ^bpt bpt.log)" -ge 4 ]'
	act 'kind=adjust-bs id=w0 size=5 accum=2'
	wait_for 'grep -q "^applied" w0.err'
	rm drag
	finish
	wait_for '[ "$(grep -c ^bpt bpt.log)" -ge 6 ]'
	# what is left is reported when there is nothing to do; no report mixes two sizes
	[ "$(grep -o ' count=[0-9]*' bpt.log | awk -F= '{ n += $2 } END { print n }')" -ge 100 ]
	not grep -v ' size=20 at=.* accum=1 \| size=10 at=.* accum=2 ' bpt.log
	rm bpt.log
	ask shardd.sock stat | grep -q ' todo=0 '
}

@test "a monitor that stands still is not waited for; one started anew hears of the device again" {
	make_csv
	audit_layout 1000
	queue -e 4
	servers 1
	start monitor bpt-monitor -s "$T/mon.sock"
	MONITOR=$PID
	ready "$T/mon.sock"
	echo 'drag delay=0.05 type=abacus' >drag
	work w0 --model-file audit --drag "$T/drag" --monitor "$T/mon.sock" --report-every 1 --batch 2 --profile 1
	W0=$PID
	wait_for '[ "$(node w0 type)" = abacus ]'
	kill -STOP "$MONITOR"
	rm drag
	finish
	ended "$W0"
	[ "$status" -eq 0 ]
	kill -CONT "$MONITOR"
	wait_for '[ "$(node w0 samples)" -gt 0 ]'
	[ "$(node w0 samples)" -lt 4000 ] # what it did not take is lost
}

@test "profile: what the device is like goes to the monitor, and again to a new one" {
	make_csv
	audit_layout 1000
	queue -e 100
	servers 1
	start monitor bpt-monitor -s "$T/mon.sock"
	MONITOR=$PID
	ready "$T/mon.sock"
	echo 'drag delay=0.002 launch=0.001 speed=20000 saturation=16 memory=100 type=P-100' >drag
	work w0 --model-file audit --monitor "$T/mon.sock" --drag "$T/drag" --profile 1
	wait_for '[ "$(node w0 type)" = P-100 ]'
	echo 'drag delay=0.02' >drag
	[ "$(node w0 max)" -eq 95 ]
	[ "$(node w0 saturation)" -ge 1 ]
	[ "$(node w0 saturation)" -le 128 ]
	[[ $(node w0 launch) =~ ^[0-9.e-]+$ && $(node w0 device-speed) =~ ^[0-9.e+]+$ ]]
	kill -9 "$MONITOR"
	ended "$MONITOR"
	start monitor bpt-monitor -s "$T/mon.sock"
	wait_for '[ "$(node w0 type)" = P-100 ]'
	[ "$(node w0 max)" -eq 95 ]
	# no drag names it: the processor's name; the memory is this machine's
	work w1 --model-file audit --monitor "$T/mon.sock" --profile 1
	wait_for '[[ "$(node w1 type)" =~ ^[A-Za-z0-9._-]+$ ]]'
	[ "$(node w1 max)" -gt 160 ]
	# Only one size is larger than what saturates it: the largest that fits.
	echo 'drag launch=0.1 speed=2000 saturation=32 memory=60' >drag
	work w2 --model-file audit --monitor "$T/mon.sock" --drag "$T/drag" --profile 1 --batch 60
	wait_for '[ -n "$(node w2 launch)" ]'
	[[ $(node w2 launch) =~ ^0\.[0-9]+$ ]]
	run -64 worker --profile 2
}

@test "profile: of each model, on few rows and on none" {
	make_csv 30
	start monitor bpt-monitor -s "$T/mon.sock"
	ready "$T/mon.sock"
	for model in lr wdl audit; do
		run -69 worker --id "$model" --shards "$T/no.sock" --servers "$T/no.sock" --wait 1 \
			"${CSV[@]}" --model-file "$model" --batch 100 --profile 1 --monitor "$T/mon.sock"
		wait_for "[ -n \"\$(node $model device-speed)\" ]"
		[ "$(node "$model" max)" -gt 800 ]
	done
	printf '1 1:0.5 7:2\n0 3:1\n' >rows.svm
	schema_file '' '' format=libsvm
	model_file lr 0 0
	run -69 worker --id svm --shards "$T/no.sock" --servers "$T/no.sock" --wait 1 \
		--data rows.svm --schema schema --model-file lr --batch 9 --profile 1 --monitor "$T/mon.sock"
	wait_for '[ -n "$(node svm device-speed)" ]'
	make_csv 0
	echo 'maybe,1,2,c,d' >>data.csv
	run -65 worker --id w0 --shards "$T/no.sock" --servers "$T/no.sock" --wait 0 "${CSV[@]}" --profile 1
	[[ $output == *data.csv:2:1* ]]
	run -65 worker --id w0 --shards "$T/no.sock" --servers "$T/no.sock" --wait 0 "${CSV[@]}" \
		--profile 1 --bad-rows skip:1
	[[ $output == *"no row"* ]]
}

@test "reports: a slow server is waited for, and makes no worker look slow" {
	make_csv 200
	audit_layout 200
	queue -n 200
	echo 'drag delay=0.2' >drag
	servers 2 --drag "$T/drag"
	take_reports
	work w0 --model-file audit --monitor "$T/mon.sock" --log w0.log
	finish
	wait_for 'grep -q ^spent w0.log'
	# each batch but the first waits for the one before to be applied: 0.2 s, on either server
	plrec where type=bpt <bpt.log | plrec tsv count comm wait | awk '{ comm += $1 * $2; wait += $1 * $3; n += $1 }
		END { print n, comm, wait; exit !(wait >= 0.2 * (n - 1) - 0.001 && comm < wait) }'
}

@test "the load of the node goes with each report" {
	make_csv
	audit_layout 1000
	queue
	servers 1
	take_reports
	mkdir -p node/proc/pressure
	printf 'MemTotal: 1000 kB\nMemAvailable: 250 kB\n' >node/proc/meminfo
	echo 'some avg10=12.50 avg60=0.00 avg300=0.00 total=1' >node/proc/pressure/cpu
	echo 'drag delay=0.01' >drag
	work w0 --model-file audit --drag "$T/drag" --monitor "$T/mon.sock" --load-root "$T/node"
	finish
	wait_for 'grep -q " own-cpu=" bpt.log'
	not grep -v ' mem=0.75 psi-cpu=0.125\( own-cpu=[0-9.e-]*\)\?\( own-mem=[0-9]*\)\?$' bpt.log
}

@test "spent: where the time went, at the end and when asked by SIGUSR1" {
	make_csv
	audit_layout 1000
	queue -e 2
	servers 1
	echo 'drag delay=0.01' >drag
	work w0 --model-file audit --drag "$T/drag" --log w0.log
	W0=$PID
	wait_for '[[ $(ask ps0.sock stat) == *" iteration="[1-9]* ]]'
	kill -USR1 "$W0"
	wait_for '[ -s w0.log ]'
	rm drag
	finish
	ended "$W0"
	[ "$(grep -c ^spent w0.log)" -eq 2 ]
	not grep -vE '^spent id=w0 (compute|comm|wait|shards|actions|report|rows|profile|predict|total)=[0-9]+\.[0-9]{6}( [a-z]+=[0-9.]+)* iterations=[0-9]+ at=[0-9.]+$' w0.log
	[[ $(tail -1 w0.log) == *" iterations=100 "* ]]
	# the parts are within the whole, and the drag counts as computing
	tail -1 w0.log | awk '{ for (i = 3; i <= 11; i++) { split($i, f, "="); sum += f[2]; if (f[1] == "compute") c = f[2] }
		split($12, f, "="); exit !(sum <= f[2] && sum > 0.5 * f[2] && c > 0.01) }'
}

@test "a drag file that says nothing sensible is told once and not obeyed" {
	make_csv
	audit_layout 1000
	queue
	servers 1
	echo 'drag delay=soon' >drag
	work w0 --model-file audit --drag "$T/drag"
	finish
	[ "$(grep -c 'drag: .*soon' w0.err)" -eq 1 ]
}

@test "a bad row stops the worker: 65 with its place, and nothing is kept; or it is skipped" {
	make_csv
	sed -i '701s/^[01]/maybe/' data.csv
	audit_layout 1000
	queue
	servers 1
	schema_file x1 c
	model_file audit 1 1 1000
	work w0 --model-file audit
	ended "$PID"
	[ "$status" -eq 65 ]
	grep -q 'data.csv:701:1: ' w0.err
	[[ $(ask shardd.sock stat) == *" doing=0 "* ]]
	work w0 --model-file audit --bad-rows skip:1
	finish
	[ "$(audit_values)" = "$(printf '1x0\n999x1')" ]
	wait "$PID"
	grep -q '1 bad rows were skipped.*data.csv:701:1' w0.err
}

@test "other data, other servers: 78" {
	make_csv 900
	audit_layout 1000
	queue
	servers 1
	work w0 --model-file audit
	ended "$PID"
	[ "$status" -eq 78 ]
	grep -q '1000 samples.*900 rows' w0.err
	make_csv 1000
	work w1 --model-file lr
	ended "$PID"
	[ "$status" -eq 78 ]
	grep -q 'another model' w1.err
	SERVERS=$T/ps0.sock,$T/ps0.sock
	work w2 --model-file audit
	ended "$PID"
	[ "$status" -eq 78 ]
	grep -q 'part 0/1, not 0/2' w2.err
}

@test "a loss or a gradient beyond reason: 65, who, when, and which row stands out" {
	make_csv
	sed -i '11,900s/,[^,]*,/,1e15,/' data.csv
	lr_layout
	queue
	servers 1 --optimizer sgd --lr 1e9
	work w0
	ended "$PID"
	[ "$status" -eq 65 ]
	grep -q 'worker w0, iteration [0-9]*: the loss is not finite.*: the learning rate is too large' w0.err
	grep -q 'the largest of this batch are at data.csv:[0-9]*: weight 1, value 1e+15$' w0.err
}

@test "a weight of 1e25 in one row: 65 and its place; without that row the job is done" {
	make_csv
	awk -F, -v OFS=, 'NR == 1 { print $0, "w"; next } { print $0, NR == 502 ? "1e25" : 1 + NR % 3 }' \
		data.csv >weighted.csv
	mv weighted.csv data.csv
	lr_layout
	queue
	servers 2
	sed -i '1s/$/ weight=w/' schema
	work w0
	ended "$PID"
	[ "$status" -eq 65 ]
	grep -Eq 'ps[01].sock: worker w0, iteration [0-9]+: the gradient of .* is -?[0-9.]+e.2[0-9], beyond 1e.18: ' w0.err
	grep -q 'the largest of this batch are at data.csv:502: weight 1e+25, value [0-9.]*$' w0.err
	grep -q 'a push of w0 in iteration [0-9]* is refused: the gradient' ps0.err ps1.err
	# Its rows are still to be done, and nothing of it is in the model.
	[[ $(ask shardd.sock stat) == *" doing=0 "* ]]
	sed -i '502s/1e25/1/' data.csv
	work w1
	finish
	ended "$PID"
	[ "$status" -eq 0 ]
	[[ $(ask shardd.sock stat) == *" samples-done=1000 "* ]]
	ckpt verify ck
	ckpt export ck model.safetensors
	od -An -v -t f4 -j $((8 + $(od -An -t u8 -N 8 model.safetensors))) model.safetensors >values
	not grep -qi -e nan -e inf values
}

# What a wdl of these data has as parameters.
wdl_layout() {
	cat >layout <<-END
		layout version=1 seed=1
		tensor name=bias rows=1 cols=1 init=zero scale=0
		tensor name=dense.weight rows=2 cols=1 init=zero scale=0
		tensor name=hidden1.weight rows=8 cols=10 init=normal scale=0.4
		tensor name=hidden1.bias rows=8 cols=1 init=zero scale=0
		tensor name=output.weight rows=1 cols=8 init=normal scale=0.4
		table name=keys width=5 rows=1048576 zero-columns=1 scale=0.1
	END
}

@test "no thread of OpenBLAS is left in a worker" {
	make_csv
	lr_layout
	queue
	servers 1
	echo drag delay=0.5 >drag
	OPENBLAS_NUM_THREADS=1 work w0 --drag drag
	local alone=$PID
	work w1 --drag drag
	local usual=$PID
	wait_for '[ "$(ask ps0.sock members | grep -c "state=active")" -eq 2 ]'
	[ "$(ls /proc/$usual/task | wc -l)" -eq "$(ls /proc/$alone/task | wc -l)" ]
}

@test "a limit of memory in which OpenBLAS would wait for ever: without threads, or 71 and what it needs" {
	if grep -q __asan_init "$(command -v worker)"; then skip "ASan needs more memory than is given here"; fi
	unset OPENBLAS_NUM_THREADS
	run -71 timeout 60 bash -c 'ulimit -d 100000 && exec worker --blas-probe'
	[ "$output" = "worker: OpenBLAS: has no memory here: it needs 128 MiB for itself" ]
	run -71 timeout 60 bash -c 'ulimit -d 100000 && exec predict --blas-probe'
	run -0 timeout 60 bash -c 'ulimit -d 200000 && exec worker --blas-probe'
}

@test "wdl: kernels are judged, measured once and remembered" {
	unset OPENBLAS_CORETYPE
	make_csv
	wdl_layout
	queue
	servers 2
	run worker --blas-probe
	[ "$status" -eq 0 ]
	[[ $output =~ ^[0-9]+\.[0-9]+" "[01]\.[0-9]+$ ]]
	work w0 --model-file wdl --blas-cache "$T/cache/blas"
	worker=$PID
	finish
	ended "$worker"
	[ "$status" -eq 0 ]
	grep -q '^blas machine=[0-9a-f]* kernel=[A-Za-z]* judged=1 gflops=[0-9.]* fold-fraction=[01]' cache/blas
	cp cache/blas before
	# whoever comes next reads it, and it stays as it is
	work w1 --model-file wdl --blas-cache "$T/cache/blas"
	ended "$PID"
	[ "$status" -eq 0 ]
	cmp before cache/blas
	# a place that can't be written to is no trouble
	work w2 --model-file wdl --blas-cache /proc/none/blas
	ended "$PID"
	[ "$status" -eq 0 ]
	# nor is a home that is not there, or none
	HOME=/nonexistent XDG_CACHE_HOME=nowhere work w3 --model-file wdl
	ended "$PID"
	[ "$status" -eq 0 ]
	unset HOME XDG_CACHE_HOME
	work w4 --model-file wdl
	ended "$PID"
	[ "$status" -eq 0 ]
}

@test "wdl: OPENBLAS_CORETYPE stands while it is right; what is wrong is told and not used" {
	wrong_kernels
	make_csv
	wdl_layout
	queue
	servers 1
	# as the user wishes: nothing is measured
	OPENBLAS_CORETYPE=Prescott work w0 --model-file wdl --blas-cache "$T/blas"
	worker=$PID
	finish
	ended "$worker"
	[ "$status" -eq 0 ]
	grep -q 'OPENBLAS_CORETYPE=Prescott: matrix kernels Prescott, as requested' w0.err
	[ ! -e blas ]
	# but for right ones only
	OPENBLAS_CORETYPE=Prescott KERNELS_WRONG=Prescott work w1 --model-file wdl --blas-cache "$T/blas"
	ended "$PID"
	[ "$status" -eq 0 ]
	grep -q 'worker: Prescott: these matrix kernels compute wrong results: .* plain loop has' w1.err
	grep -q 'worker: starts anew with' w1.err
	grep -q '^blas .*judged=1' blas
	# OpenBLAS' own choice, too
	KERNELS_WRONG=default work w2 --model-file wdl --blas-cache "$T/blas2"
	ended "$PID"
	[ "$status" -eq 0 ]
	grep -q 'these matrix kernels compute wrong results' w2.err
	grep -q 'starts anew with matrix kernels [A-Z]' w2.err
	grep -q '^blas .*kernel=[A-Z].*judged=1' blas2
	# remembered as right, and wrong by now: measured anew the next time
	sed -i 's/kernel=[A-Za-z]*/kernel=Prescott/' blas2
	KERNELS_WRONG=Prescott work w3 --model-file wdl --blas-cache "$T/blas2"
	ended "$PID"
	[ "$status" -eq 75 ]
	[ ! -s blas2 ]
	KERNELS_WRONG=Prescott work w3 --model-file wdl --blas-cache "$T/blas2"
	ended "$PID"
	[ "$status" -eq 0 ]
	# lr multiplies, too; where nothing is right there is no training
	KERNELS_WRONG=all work w4 --model-file lr --blas-cache "$T/blas3"
	ended "$PID"
	[ "$status" -eq 78 ]
	grep -q 'none of OpenBLAS. kernels could be measured and found right' w4.err
	[ ! -e blas3 ]
}

@test "libsvm rows: lr with values" {
	awk 'BEGIN { srand(3); for (i = 0; i < 1000; i++) { x = rand() * 2 - 1
		print (x > 0) " 1:" x " " 2 + int(rand() * 9) ":1" } }' >rows.svm
	printf '%s\n' 'layout version=1 seed=1' 'tensor name=bias rows=1 cols=1 init=zero scale=0' \
		'table name=keys width=1 rows=1048576 zero-columns=1 scale=0' >layout
	queue -e 2
	servers 1 --lr 0.5
	schema_file '' '' format=libsvm
	model_file lr 0 0
	CSV=(--data rows.svm --schema schema --model-file lr)
	work w0
	worker=$PID
	finish
	ended "$worker"
	[ "$status" -eq 0 ]
}

# ---- sizes at every barrier ----

@test "--predict: the speed goes with the pushes; sizes come back, sum to the batch, and every row is trained" {
	make_csv
	audit_layout 1000
	queue
	servers 1 --balance lb-bsp --batch 60 --expect 2 --balance-log "$T/balance.log"
	echo 'drag speed=400' >fast
	echo 'drag speed=40' >slow
	work w0 --model-file audit --predict last --drag fast --log w0.log
	work w1 --model-file audit --predict last --drag slow --log w1.log
	finish
	plrec where type=balance <balance.log >balance
	plrec tsv iteration sizes <balance | awk -F'[\t:,]' '
		NF == 5 && $3 + $5 != 60 { bad = 1 }
		$1 == 1 && ($3 < 40 || $5 > 20) { late = 1 } # 55 and 5, less what else takes time
		END { exit bad || late || NR < 2 } # a line for each change: where nothing disturbs, sizes stay'
	plrec tsv speeds <balance | sed -n 2p | awk -F, '{ exit !($1 > 2 * $2 && $2 > 20 && $2 < 40.4) }'
	audit_values | grep -qx 1000x1
	not grep -q '^applied kind=adjust-bs' w0.log w1.log
	wait_for 'grep -q "^spent .* predict=0.0" w0.log'
}

@test "--predict-save, --predict-load: what was learnt is kept; what is no model is said and not used" {
	make_csv
	audit_layout 1000
	queue
	servers 1 --balance lb-bsp --batch 60
	work w0 --model-file audit --predict ema --predict-load nothing --predict-save "$T/model"
	finish
	wait_for '[ -s model ]'
	grep -q '^model kind=ema' model
	grep -qE '^whole sum=[0-9a-f]{16}$' <(tail -n 1 model)
	for bad in 'garbage' "$(head -n 2 model)" "$(sed s/kind=ema/kind=narx/ model)" \
		"$(sed 's/name=speed \(.*\)v=./name=speed \17/' model)"; do
		printf '%s\n' "$bad" >bad
		run -69 worker --id w1 --shards none --servers none --wait 0 "${CSV[@]}" \
			--predict ema --predict-load bad
		[[ $output == *"speeds are learnt from nothing: bad"* ]]
	done
	head -c 60 model >torn
	run -69 worker --id w1 --shards none --servers none --wait 0 "${CSV[@]}" \
		--predict ema --predict-load torn
	[[ $output == *"learnt from nothing: torn:1: the input ends"* ]]
	mkdir dir
	mkfifo pipe
	for bad in dir pipe; do
		run -69 worker --id w1 --shards none --servers none --wait 0 "${CSV[@]}" \
			--predict ema --predict-load $bad
		[[ $output == *"learnt from nothing: $bad: no regular file"* ]]
	done
	run -69 worker --id w1 --shards none --servers none --wait 0 "${CSV[@]}" \
		--predict ema --predict-load model
	[[ $output != *anew* ]]
	run -64 worker --id w1 --shards none --servers none --predict magic "${CSV[@]}"
}

@test "allreduce: lr learns, every sample once an epoch, dense parameters are not pulled" {
	make_csv
	lr_layout
	queue -e 4
	replica --optimizer adagrad --lr 0.3
	lead
	work w0
	W0=$PID
	work w1
	W1=$PID
	finish
	ended "$W0"
	[ "$status" -eq 0 ]
	ended "$W1"
	[ "$status" -eq 0 ]
	[[ $(ask shardd.sock stat) == *" samples-done=4000 samples-repeated=0 "* ]]
	[[ $(ask r0.sock counters) == *"verb=look requests=2 errors=0"* ]]
	has_learnt ck
}

@test "allreduce: audit is exact, whatever the sizes and delays, with steps, a backup worker, one that comes late" {
	make_csv
	audit_layout 1000
	queue -e 3 --shuffle samples
	replica
	lead --backup 1
	echo 'drag delay=0.02' >drag
	work w0 --model-file audit --drag "$T/drag" --delay 1
	work w1 --model-file audit --batch 7 --drag "$T/drag" --delay 1
	wait_for '[[ $(ask ps0.sock members) == *w0*state=active*w1*state=active* ]]'
	act 'kind=adjust-bs id=w0 size=5 accum=3' 'kind=adjust-lr id=w1 scale=0.5'
	work w2 --model-file audit --batch 64 --ahead 1
	wait_for 'grep -q "^applied kind=adjust-bs .* accum=3" w0.err'
	wait_for 'grep -q "^applied kind=adjust-lr" w1.err'
	rm drag
	finish
	[ "$(audit_values)" = 1000x3 ]
}

@test "allreduce: a worker killed, the lead killed, SIGTERM: nothing is lost or twice" {
	make_csv
	audit_layout 1000
	queue -e 2
	replica
	lead
	echo 'drag delay=0.1' >drag
	work w0 --model-file audit --drag "$T/drag"
	W0=$PID
	wait_for '[[ $(ask ps0.sock members) == *w0*state=active* ]]'
	work w1 --model-file audit --drag "$T/drag"
	W1=$PID
	wait_for '[[ $(ask ps0.sock members) == *w1*state=active* ]]'
	wait_for '[[ $(ask ps0.sock stat) == *" iteration="[1-9]* ]]'
	kill -9 "$W0"
	gen=$(generation w0)
	ask ps0.sock "fence worker=w0 generation=$gen" | grep -q ^ok
	ask shardd.sock 'fail worker=w0' | grep -q ^ok
	work w0 --model-file audit --drag "$T/drag"
	W0=$PID
	wait_for '[[ $(ask ps0.sock members) == *w0*state=active* ]]'
	kill -9 "$LEAD"
	ended "$LEAD"
	lead
	wait_for 'grep -q "starting over" w1.err'
	wait_for '[[ $(ask ps0.sock members) == *w0*state=active*w1*state=active* ]]'
	kill -TERM "$W1"
	ended "$W1"
	[ "$status" -eq 0 ]
	rm drag
	finish
	ended "$W0"
	[ "$status" -eq 0 ]
	[ "$(audit_values)" = 1000x2 ]
}

@test "allreduce: a replica that goes: rows go back at once, and SIGTERM ends the wait for it" {
	make_csv
	audit_layout 1000
	queue -e 2
	replica
	lead
	echo 'drag delay=0.1' >drag
	work w0 --model-file audit --drag "$T/drag" --wait 600
	W0=$PID
	wait_for '[[ $(ask ps0.sock stat) == *" iteration="[1-9]* ]]'
	kill -9 "$REPLICA"
	wait_for 'grep -q "starting over" w0.err'
	wait_for '[[ $(ask shardd.sock stat) == *" doing=0 "* ]]'
	kill -TERM "$W0"
	ended "$W0"
	[ "$status" -eq 0 ]
}
